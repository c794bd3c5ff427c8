"""`skout fit`, `predict`, `rank` and `evaluate` against the same models made in Python."""

import csv
import io
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler

pytest.importorskip("typer.testing")

import skout
from skout.apps.cli.results import write_rows
from skout.apps.cli.using import open_model
from skout.apps.tables.files import open_table, select
from skout.datasets import load
from skout.kernels import F1, Gaussian, Mapped, NGram, Normalized, WeisfeilerLehman
from skout.metrics import example_f1, hamming_loss, kendall_tau, subset_accuracy
from skout.molecules import fingerprints
from skout.sketches import PSparsified, SubSample

N, N_TRAIN = 120, 90
FOLDER = os.environ.get("SKOUT_DATA")


def make_columns():
    """A table with a column of each kind; everything depends on x1, x2, x3."""
    X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
    bits = (X > 0).astype(int)
    ranks = np.argsort(np.argsort(X, axis=1), axis=1)
    words, molecules = ["banana", "orange", "bandana"], ["CCO", "c1ccccc1", "CCN"]
    which = np.digitize(X[:, 0], [-0.3, 0.4])
    return {
        "id": [f"q{i}" for i in range(N)],
        **{f"x{j + 1}": X[:, j].tolist() for j in range(3)},
        "tags": [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in bits],
        **{f"label_{j}": bits[:, j].tolist() for j in range(3)},
        "order": [">".join("abc"[j] for j in np.argsort(row)) for row in X],
        **{f"rank_{c}": (ranks[:, j] + 1).tolist() for j, c in enumerate("abc")},
        "word": [words[j] for j in which],
        "mol": [molecules[j] for j in which],
        "y": (X[:, 0] * X[:, 1]).tolist(),
        "z": X.sum(axis=1).tolist(),
    }


COLUMNS = make_columns()
X = np.column_stack([COLUMNS[f"x{j}"] for j in (1, 2, 3)])
BITS = np.column_stack([COLUMNS[f"label_{j}"] for j in range(3)])
RANKS = np.column_stack([COLUMNS[f"rank_{c}"] for c in "abc"]) - 1


def rows(some):
    return {name: column[some] for name, column in COLUMNS.items()}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """train and test parts of the table in CSV and parquet."""
    folder = tmp_path_factory.mktemp("tables")
    for name, some in (("train", slice(N_TRAIN)), ("test", slice(N_TRAIN, None))):
        for form in ("csv", "parquet"):
            write_rows([rows(some)], str(folder / f"{name}.{form}"), form)
    return folder


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SKETCHED = ["--input-sketch", "subsample:40", "--output-sketch", "p_sparsified:20"]
SKETCHED += ["--no-standardize"]


def api(output_kernel, Y, **options):
    """The model that SKETCHED means, in Python."""
    model = skout.iokr(
        "gaussian",
        output_kernel,
        input_sketch=SubSample(40),
        output_sketch=PSparsified(20),
        random_state=0,
        **options,
    )
    return model.fit(X[:N_TRAIN], Y[:N_TRAIN])


def letters(ranks):
    return [">".join("abc"[j] for j in np.argsort(row)) for row in ranks]


def tags(bits):
    return [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in np.asarray(bits)]


WORDS, MOLECULES = COLUMNS["word"], COLUMNS["mol"]
KINDS = {
    "joined labels": ("label_sets", "tags", "f1", BITS, [], tags),
    "every label set": ("label_sets", "tags", "f1", BITS, ["--decoder", "label_sets"], tags),
    "joined order": ("rankings", "order", "kendall", RANKS, [], letters),
    "string": ("strings", "word", Normalized(NGram((1, 2, 3), short="keep")), WORDS, [], list),
    "smiles": ("smiles", "mol", Mapped(fingerprints, "tanimoto"), MOLECULES, [], list),
    "graphs": ("smiles", "mol", Normalized(WeisfeilerLehman(2)), MOLECULES, [], list),
}
OUTPUT_KERNELS = {"every label set": "f1", "graphs": "weisfeiler_lehman:2"}


@pytest.mark.parametrize("memory", ["100", "0"])
@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_that_of_python(name, memory, tables, tmp_path, call):
    kind, column, kernel, Y, words, as_text = KINDS[name]
    if name in OUTPUT_KERNELS:
        words = [*words, "--output-kernel", OUTPUT_KERNELS[name]]
    words += ["--target", column, "--output", kind, "--inputs", "x*", "--memory", memory]
    model, out = tmp_path / "model.skout", tmp_path / "out.csv"
    code, text, err = call("fit", tables / "train.csv", *words, *SKETCHED, "-o", model, "--json")
    assert (code, err) == (0, "")
    assert json.loads(text)["in_memory"] == (memory != "0")
    assert call("predict", model, tables / "test.csv", "-o", out, "--keep", "id")[0] == 0
    expected = api(kernel, Y, decoder="label_sets" if "decoder" in str(words) else None)
    found = read_csv(out)
    assert [row["id"] for row in found] == COLUMNS["id"][N_TRAIN:]
    assert [row[column] for row in found] == as_text(expected.predict(X[N_TRAIN:]))
    assert len({row[column] for row in found}) > 1


def test_columns_of_bits_and_of_ranks_come_back_as_such(tables, tmp_path, call):
    model = tmp_path / "model.skout"
    for pattern, kind, kernel, Y, first in (
        ("label_*", "label_sets", "f1", BITS, 0),
        ("rank_?", "rankings", "kendall", RANKS, 1),
    ):
        words = ["--target", pattern, "--output", kind, "--inputs", "x*", *SKETCHED, "-o", model]
        assert call("fit", tables / "train.csv", *words)[0] == 0
        code, out, _ = call("predict", model, tables / "test.csv")
        assert code == 0
        found = np.loadtxt(io.StringIO(out), delimiter=",", skiprows=1)
        assert_array_equal(found, api(kernel, Y).predict(X[N_TRAIN:]) + first)
        assert out.splitlines()[0].split(",") == select(pattern, list(COLUMNS), "")


def test_metrics_are_those_of_python(tables, tmp_path, call):
    model, test = tmp_path / "model.skout", slice(N_TRAIN, None)

    def evaluated(target, kind):
        words = ["--target", target, "--output", kind, "--inputs", "x*", *SKETCHED, "-o", model]
        assert call("fit", tables / "train.csv", *words)[0] == 0
        code, out, _ = call("evaluate", model, tables / "test.csv", "--json")
        assert code == 0
        found = json.loads(out)
        assert found["rows"] == N - N_TRAIN
        return found["metrics"]

    guess = api("f1", BITS).predict(X[test])
    assert evaluated("tags", "label_sets") == pytest.approx(
        {
            "example_f1": example_f1(BITS[test], guess),
            "hamming_loss": hamming_loss(BITS[test], guess),
            "exact_matches": subset_accuracy(BITS[test], guess),
        }
    )
    guess = api("kendall", RANKS).predict(X[test])
    same = np.mean([list(a) == list(b) for a, b in zip(RANKS[test], guess, strict=True)])
    expected = {"kendall_tau": kendall_tau(RANKS[test], guess), "exact_matches": same}
    assert evaluated("order", "rankings") == pytest.approx(expected)
    guess = api(Mapped(fingerprints, "tanimoto"), MOLECULES)
    same = np.mean([a == b for a, b in zip(guess.predict(X[test]), MOLECULES[test], strict=True)])
    expected = {
        "exact_matches": same,
        "fingerprint_similarity": guess.score(X[test], MOLECULES[test], scoring="kernel"),
    }
    assert evaluated("mol", "smiles") == pytest.approx(expected)


@pytest.mark.parametrize("memory", ["100", "0"])
def test_numbers_with_scaled_inputs_and_a_path(memory, tables, tmp_path, call):
    model = tmp_path / "model.skout"
    words = ["--target", "y,z", "--inputs", "x*", "--standardize", "--input-sketch", "subsample:40"]
    words += ["--alpha", "1e-6", "--alpha", "1e-2", "--memory", memory, "-o", model, "--json"]
    code, out, _ = call("fit", tables / "train.csv", *words)
    assert code == 0
    scaler = StandardScaler().fit(X[:N_TRAIN])
    Y = np.column_stack([COLUMNS["y"], COLUMNS["z"]])
    expected = skout.KernelRidge(
        "gaussian", SubSample(40), alpha=[1e-6, 1e-2], fit_intercept=True, random_state=0
    ).fit(scaler.transform(X[:N_TRAIN]), Y[:N_TRAIN])
    assert json.loads(out)["alpha"] == expected.alpha_
    F = expected.predict(scaler.transform(X[N_TRAIN:]))
    code, out, _ = call("predict", model, tables / "test.csv", "--format", "jsonl")
    found = [json.loads(line) for line in out.splitlines()]
    assert_allclose([[row["y"], row["z"]] for row in found], F, rtol=1e-6, atol=1e-9)
    code, out, _ = call("evaluate", model, tables / "test.csv", "--json")
    errors, truth = F - Y[N_TRAIN:], Y[N_TRAIN:]
    metrics = json.loads(out)["metrics"]
    assert metrics["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    ratio = (errors**2).sum(axis=0) / ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
    assert metrics["r2"] == pytest.approx(1 - ratio.mean())


@pytest.mark.parametrize("kernel", ["ngram:2", "tanimoto", "weisfeiler_lehman:1"])
def test_texts_and_molecules_as_inputs(kernel, tables, tmp_path, call):
    model, pair = tmp_path / "model.skout", ["word", "mol"]
    column, target = pair if kernel == "ngram:2" else pair[::-1]
    words = ["--target", target, "--output", "strings", "--inputs", column]
    words += ["--input-kernel", kernel, "--alpha", "1e-6", "-o", model]
    assert call("fit", tables / "train.csv", *words)[0] == 0
    code, out, _ = call("evaluate", model, tables / "test.csv", "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["exact_matches"] == 1.0


# ranking candidates -------------------------------------------------------------------------------


@pytest.fixture
def labels_model(tables, tmp_path, call):
    path = tmp_path / "labels.skout"
    words = ["--target", "tags", "--output", "label_sets", "--inputs", "x*", *SKETCHED, "-o", path]
    assert call("fit", tables / "train.csv", *words)[0] == 0
    return path


@pytest.mark.parametrize(
    ("old", "kind", "column"),
    [
        ("label-set", "label_sets", "tags"),
        ("ranking", "rankings", "order"),
        ("string", "strings", "word"),
        ("smiles", "smiles", "mol"),
    ],
)
def test_kinds_in_old_spellings(old, kind, column, tables, tmp_path, call, monkeypatch):
    path = tmp_path / "model.skout"
    words = ["--target", column, "--output", old, "--inputs", "x*", *SKETCHED, "-o", path]
    assert call("fit", tables / "train.csv", *words)[0] == 0
    about = skout.persistence.describe(path)["about"]
    outputs = about["metadata"]["command_line"]["outputs"]
    assert outputs["kind"] == kind
    outputs["kind"] = old  # as in the file of an older version
    monkeypatch.setattr("skout.apps.cli.using.describe_file", lambda path: {"about": about})
    assert open_model(path).outputs.kind.name == kind


def test_rank_writes_a_row_a_query_and_rank(labels_model, tables, tmp_path, call):
    pool, out = tmp_path / "pool.csv", tmp_path / "out.jsonl"
    pool.write_text("tags\nt0\nt1;t2\n\nt2|t1|t0\n")
    words = ["--candidates", pool, "-k", "3", "-o", out]
    assert call("rank", labels_model, tables / "test.csv", *words) == (
        0,
        f"wrote {3 * (N - N_TRAIN)} rows to {out}\n",
        "",
    )
    candidates = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]])
    indices, scores = api("f1", BITS).rank(X[N_TRAIN:], candidates, k=3)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    names = np.array(["t0", "t1;t2", "", "t0;t1;t2"])
    assert [row["candidate"] for row in found] == names[indices].ravel().tolist()
    assert_allclose([row["score"] for row in found], scores.ravel(), rtol=1e-9)
    assert [row["rank"] for row in found[:4]] == [1, 2, 3, 1]
    assert [row["query"] for row in found] == np.repeat(range(1, N - N_TRAIN + 1), 3).tolist()


def test_a_model_that_builds_its_outputs_takes_no_candidates(tables, tmp_path, call):
    path, pool = tmp_path / "model.skout", tmp_path / "pool.csv"
    words = ["--target", "tags", "--output", "label_sets", "--inputs", "x*", *SKETCHED, "-o", path]
    assert call("fit", tables / "train.csv", *words, "--decoder", "label_sets")[0] == 0
    pool.write_text("tags\nt0\nt1;t2\n")
    code, _, err = call("rank", path, tables / "test.csv", "--candidates", pool)
    assert code == 1
    assert "embed needs a decoder with embed, and LabelSetDecoder has none" in err
    code, _, err = call("rank", path, tables / "test.csv")
    assert code == 1
    assert "LabelSetDecoder builds objects instead of ranking candidates" in err


def test_rank_without_candidates_takes_training_outputs(labels_model, tables, call):
    code, out, _ = call("rank", labels_model, tables / "test.csv", "-k", "1000")
    assert code == 0
    found = list(csv.DictReader(io.StringIO(out)))
    expected = api("f1", BITS)
    indices, _ = expected.rank(X[N_TRAIN:], k=len(expected.decoder_.pool_))
    names = np.array(tags(expected.decoder_.pool_))
    assert [row["candidate"] for row in found] == names[indices].ravel().tolist()


def test_unknown_labels_are_misses_but_no_candidates(labels_model, tables, tmp_path, call):
    test, pool = tmp_path / "new.csv", tmp_path / "pool.csv"
    columns = rows(slice(N_TRAIN, None))
    write_rows([{**columns, "tags": [f"{t};new" for t in columns["tags"]]}], str(test), "csv")
    code, out, _ = call("evaluate", labels_model, test, "--json")
    assert code == 0
    truth = np.hstack([BITS[N_TRAIN:], np.ones((N - N_TRAIN, 1), int)])
    guess = np.asarray(api("f1", BITS).predict(X[N_TRAIN:]))
    guess = np.hstack([guess, np.zeros((len(guess), 1), int)])
    found = json.loads(out)["metrics"]
    assert found["example_f1"] == pytest.approx(example_f1(truth, guess))
    assert found["exact_matches"] == 0
    pool.write_text("tags\nt0\nt1;newer\n")
    code, _, err = call("rank", labels_model, tables / "test.csv", "--candidates", pool)
    assert code == 1
    assert "pool.csv: row 2 has a label that the model was not trained with." in err


# files --------------------------------------------------------------------------------------------


def test_all_formats_give_the_same(tables, tmp_path, call, monkeypatch):
    np.savez(tmp_path / "train.npz", X=X[:N_TRAIN], Y=BITS[:N_TRAIN], word=WORDS[:N_TRAIN])
    np.savez(tmp_path / "test.npz", X=X[N_TRAIN:])
    words = ["--output", "label_sets", *SKETCHED, "-o"]
    named = ["--target", "label_*", "--inputs", "x*", *words]
    for form in ("csv", "parquet"):
        assert call("fit", tables / f"train.{form}", *named, tmp_path / form)[0] == 0
    assert call("fit", tmp_path / "train.npz", "--inputs", "X*", *words, tmp_path / "npz")[0] == 0
    out = tmp_path / "out.parquet"
    assert call("predict", tmp_path / "parquet", tables / "test.parquet", "-o", out)[0] == 0
    first = call("predict", tmp_path / "csv", out.parent / "test.npz")
    assert first[0] == 1
    assert "has no column 'x1' (and 2 more). It has: X0, X1, X2." in first[2]
    results = [
        call("predict", tmp_path / form, table)[1].splitlines()[1:]
        for form, table in (
            ("csv", tables / "test.csv"),
            ("csv", tables / "test.parquet"),
            ("parquet", tables / "test.csv"),
            ("npz", tmp_path / "test.npz"),
        )
    ]
    written = open_table(out)
    matrix = np.vstack([part.numbers for part in written.parts(written.names)])
    results.append([",".join(str(int(v)) for v in row) for row in matrix])
    assert len(set(map(tuple, results))) == 1
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for words in ([], ["-o", out]):
        code, _, err = call("predict", tmp_path / "csv", tables / "test.csv", *words)
        assert code == 1
        assert err.endswith('pip install "skout[table]"\n')


numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=5)


@given(st.lists(st.tuples(numbers, texts), min_size=1, max_size=20))
def test_csv_comes_back_as_it_was(cells):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        columns = {"a,b": [a for a, _ in cells], "t": [t for _, t in cells]}
        write_rows([columns], str(path), "csv")
        table = open_table(path)
        parts = list(table.parts(["a,b"], ["t"]))
        assert np.concatenate([p.numbers for p in parts])[:, 0].tolist() == columns["a,b"]
        assert [t for p in parts for t in p.texts["t"]] == columns["t"]


def test_a_file_that_fails_half_way_leaves_the_old_one(labels_model, tables, tmp_path, call):
    out, broken = tmp_path / "out.csv", tmp_path / "broken.csv"
    out.write_text("old")
    lines = (tables / "test.csv").read_text().splitlines()
    broken.write_text("\n".join([*lines, "q,1,2"]))
    before = sorted(tmp_path.iterdir())
    assert call("predict", labels_model, broken, "-o", out)[0] == 1
    assert out.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


# settings -----------------------------------------------------------------------------------------


def test_config_and_flags(tables, tmp_path, call):
    config, model = tmp_path / "fit.toml", tmp_path / "model.skout"
    config.write_text(
        'target = "y"\ninputs = "x*"\ninput-kernel = "laplacian:0.5"\nalpha = [1e-3, 1e-4]\n'
        'input_sketch = "none"\nstandardize = true\nseed = 3\n'
    )
    words = ["--config", config, "--alpha", "0.25", "--no-standardize", "-o", model]
    assert call("fit", tables / "train.csv", *words)[0] == 0
    loaded = skout.load(model)
    assert (loaded.alpha_, loaded.kernel_.gamma, loaded.random_state) == (0.25, 0.5, 3)
    assert loaded.sketch is None
    record = skout.persistence.describe(model)["about"]["metadata"]["command_line"]
    assert record["inputs"]["columns"] == ["x1", "x2", "x3"]
    assert not record["inputs"]["standardize"]
    assert record["rows"] == N_TRAIN


FIT = ["--target", "y", "-o", "model.skout"]


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("x,y\n1,2\n", ["--target", "yy", "-o", "m"], "--target: there is no column 'yy'. Did you"),
        ("x,y\n1,2\n", ["-o", "m"], "--target is missing"),
        ("x,y\n1,2\n,3\n", FIT, "column 'x' has no value in row 2"),
        ("x,y\n1,2\nnan,3\n", FIT, "column 'x' has no value in row 2"),
        ("x,y\n1,2\ninf,3\n", FIT, "column 'x' has 'inf', which is no finite number, in row 2"),
        ("x,y\n" + "1,2\n" * 300 + "one,3\n", FIT, "column 'x' has 'one', which is no finite num"),
        ("x,y\n1,2\n3,4,5\n", FIT, "row 2 (line 3) has 3 cells, and the header 2"),
        ("x,y\n" + "1,2\n" * 300 + "1,2,3\n", FIT, "row 301 (line 302) has 3 cells"),
        ("", FIT, "data.csv is empty."),
        ("x,y\n", [*FIT, "--inputs", "x"], "has columns, but no rows"),
        ("x,y\n", [*FIT, "--inputs", "x", "--output", "numbers"], "has columns, but no rows"),
        ("x,y\n\x00,1\n", FIT, "bytes that are 0 in line 2"),
        (
            "x,z,y\na,b,1\n",
            FIT,
            "no columns of numbers for inputs. Name inputs by --inputs. It has text: x, z",
        ),
        ("id,y\n1,1\n", FIT, "no columns of numbers for inputs"),
        ("x,w,y\n1,a,1\n", [*FIT, "--inputs", "x,w"], "--inputs: the column 'w' is text"),
        ("x,y\n1,2\n", [*FIT, "--inputs", "x,y"], "'y' is in --inputs and in --target"),
        ("x,y\n1,2\n", [*FIT, "--input-kernel", "gausssian"], "Did you mean 'gaussian'?"),
        ("x,y\n1,2\n", [*FIT, "--input-kernel", "gaussian:width=1"], "whose parameters are: gamma"),
        ("x,y\n1,2\n", [*FIT, "--input-sketch", "sub:5"], "Unknown sketch in --input-sketch: 'sub"),
        ("x,y\n1,2\n", [*FIT, "--output", "labelsets"], "Did you mean 'label_sets'?"),
        ("x,y\n1,2\n", [*FIT, "--alpha", "-1"], "alpha must be a finite number >= 0"),
        (
            "x,y\n1,2\n",
            [*FIT, "--output", "label_sets", "--target", "x"],
            "--output is for one target, and there are 2",
        ),
        (
            "x,a,b\n1,0,2\n",
            ["--target", "a,b", "--output", "label_sets", "-o", "m"],
            "row 1 has 2 for 'b'. It must be",
        ),
        ("x,a,b\n1,0,2\n", ["--target", "a,b", "--output", "rankings", "-o", "m"], "no ranking of"),
        ("x,r\n1,a>b\n2,a>c\n", ["--target", "r", "--output", "rankings", "-o", "m"], "row 2 has"),
        ("x,s\n1,\n2,\n", ["--target", "s", "--output", "strings", "-o", "m"], "no row has a"),
        ("x,s\n1,CC\n2,C1C\n", ["--target", "s", "--output", "smiles", "-o", "m"], "'C1C' at posi"),
        ("x,y\n1,2\n", [*FIT, "--config", "no.toml"], "no.toml"),
        ("x,y\n1,2\n" * 2, ["--target", "y", "-o", "no/m"], "--out: there is no folder 'no'"),
        (
            "x,y\n" + "1,2\n2,3\n" * 9,
            [*FIT, "--memory", "0", "--input-sketch", "none"],
            "larger than --memory 0",
        ),
    ],
)
def test_mistakes_of_fit_are_one_line(content, words, message, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(content)
    code, out, err = call("fit", "data.csv", "--no-tune", *words)
    assert (code, out) == (1, "")
    assert message in err
    assert err.startswith("skout: ")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("target = 3", "--target must be of type str. Got 3 instead."),
        ('standardize = "yes"', "--standardize must be of type bool. Got 'yes' instead."),
        ("seed = true", "--seed must be of type int. Got True instead."),
        ('tagret = "y"', "Did you mean 'target'?"),
        ('separators = ""', "--separators must have at least one character"),
        ("target y", "fit.toml is not a TOML file"),
    ],
)
def test_mistakes_of_config(config, message, tables, tmp_path, call):
    (tmp_path / "fit.toml").write_text(config)
    words = ["--config", tmp_path / "fit.toml", "-o", tmp_path / "m"]
    code, _, err = call("fit", tables / "train.csv", *words)
    assert code == 1
    assert message in err


@pytest.mark.parametrize("command", ["predict", "rank", "evaluate"])
def test_what_is_no_model(command, tables, tmp_path, call):
    path = tmp_path / "model.skout"
    code, _, err = call(command, path, tables / "test.csv")
    assert (code, err) == (1, f"skout: There is no model {str(path)!r}.\n")
    path.write_text("hello")
    code, _, err = call(command, path, tables / "test.csv")
    assert (code, err) == (1, f"skout: {path}: This is not a file of skout.\n")
    skout.save(skout.kernels.Gaussian(0.5), path)
    code, _, err = call(command, path, tables / "test.csv")
    assert (code, "it was saved from Python" in err, err.count("\n")) == (1, True, 1)
    bad = {"inputs": {"columns": ["x"]}, "outputs": {"kind": "pictures", "columns": ["y"]}}
    skout.save(skout.kernels.Gaussian(0.5), path, metadata={"command_line": bad})
    code, _, err = call(command, path, tables / "test.csv")
    assert (code, "'pictures'" in err, err.count("\n")) == (1, True, 1)
    bad["outputs"] = {"kind": "numbers", "columns": [3]}
    skout.save(skout.kernels.Gaussian(0.5), path, metadata={"command_line": bad})
    code, _, err = call(command, path, tables / "test.csv")
    assert (code, "cannot read: columns" in err, err.count("\n")) == (1, True, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rank", "MODEL", "TEST", "--candidates", "TEST.txt"], "There is no file"),
        (["rank", "MODEL", "TEST", "-k", "0"], "-k must be an integer >= 1"),
        (["predict", "MODEL", "TEST", "-o", "out.xls"], "--out must end in .csv, .jsonl or"),
        (["predict", "MODEL", "TEST", "--format", "parquet"], "--format parquet needs a file"),
        (["predict", "MODEL", "TEST", "--keep", "tags"], "--keep: 'tags' is also a column"),
        (["predict", "MODEL", "TEST.doc"], "A table must end in one of"),
    ],
)
def test_mistakes_of_use(words, message, labels_model, tables, call):
    known = {"MODEL": str(labels_model), "TEST": str(tables / "test.csv")}
    words = [known.get(w, w.replace("TEST", str(tables / "none"))) for w in words]
    code, out, err = call(*words)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_numbers_are_not_ranked(tables, tmp_path, call):
    model = tmp_path / "model.skout"
    assert call("fit", tables / "train.csv", "--target", "y", "--no-tune", "-o", model)[0] == 0
    code, _, err = call("rank", model, tables / "test.csv")
    assert (code, "which cannot be ranked" in err) == (1, True)


@pytest.mark.parametrize("command", ["fit", "predict", "rank", "embed", "evaluate"])
def test_help_has_an_example_and_usage_errors_are_two(command, call):
    code, out, _ = call(command, "--help")
    assert code == 0
    assert f"Example: skout {command} " in " ".join(out.replace("│", " ").split())
    assert call(command)[0] == 2
    assert call(command, "--nonsense")[0] == 2


def test_progress_is_shown_on_a_terminal(labels_model, tables, call, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    assert call("predict", labels_model, tables / "test.csv")[0] == 0
    assert "predicting" in stream.getvalue()


def test_a_warning_is_one_line(tables, tmp_path, call):
    words = ["--target", "y", "--inputs", "x*", "--input-sketch", "subsample:500"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = call("fit", tables / "train.csv", *words, "-o", tmp_path / "m")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("skout: warning: size=500 is larger than the number of rows, 90")


# large and real -----------------------------------------------------------------------------------

PEAK = """
import json, sys
import skout, skout.apps.cli.fitting, skout.apps.cli.using, typer, pyarrow.csv
from skout.apps.cli import main
def peak():  # ru_maxrss would begin with that of the parent
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
before = peak()
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code
    print("grew", peak() - before, file=sys.stderr)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc")
def test_memory_does_not_grow_with_the_table(tmp_path):
    """150,000 rows of 40 columns are 48 MB as numbers, and 350 MB as Python's strings."""
    table, model = tmp_path / "big.csv", tmp_path / "model.skout"
    block = np.random.default_rng(0).uniform(-1, 1, (2000, 40)).round(2)
    text = "\n".join(",".join(map(str, row)) for row in block.tolist()) + "\n"
    with open(table, "w") as file:
        file.write(",".join(f"x{j}" for j in range(39)) + ",y\n")
        for _ in range(75):
            file.write(text)
    words = ["--target", "y", "--input-sketch", "subsample:50", "-o", model, "--memory", "1"]
    commands = [["fit", table, *words], ["predict", model, table, "-o", tmp_path / "out.csv"]]
    command = [sys.executable, "-c", PEAK, json.dumps(commands, default=str)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    # with all rows in memory it grows by more than 200 MB, streamed by 115
    grown = [int(line.split()[-1]) for line in run.stderr.splitlines() if line.startswith("grew")]
    assert len(grown) == 2
    assert max(grown) < 170


@pytest.mark.skipif(not FOLDER, reason="SKOUT_DATA, the folder of the real data, is not set")
def test_bibtex_in_csv_has_the_f1_of_python(tmp_path, call):
    data = load("bibtex")
    train, test = ([part[:1500] for part in parts] for parts in (data.train, data.test))
    for name, (inputs, outputs) in (("train", train), ("test", test)):
        bits = np.asarray(outputs.toarray() if hasattr(outputs, "toarray") else outputs)
        dense = np.asarray(inputs.toarray() if hasattr(inputs, "toarray") else inputs)
        names = [f"word{j}" for j in range(dense.shape[1])]
        sets = [";".join(f"label{j:03}" for j in np.flatnonzero(row)) for row in bits]
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*names, "labels"])
            writer.writerows([*row, s] for row, s in zip(dense.tolist(), sets, strict=True))
    expected = skout.sisokr(
        Gaussian(0.00926),
        F1(),
        input_sketch=SubSample(300),
        output_sketch=PSparsified(100),
        alpha=3e-5,
        random_state=0,
    ).fit(*train)
    model = tmp_path / "model.skout"
    words = ["--target", "labels", "--output", "label_sets", "--input-kernel", "gaussian:0.00926"]
    words += ["--output-kernel", "f1", "--input-sketch", "subsample:300"]
    words += ["--output-sketch", "p_sparsified:100", "--alpha", "3e-5", "-o", model]
    assert call("fit", tmp_path / "train.csv", *words)[0] == 0
    code, out, _ = call("evaluate", model, tmp_path / "test.csv", "--json")
    assert code == 0
    f1 = example_f1(test[1], expected.predict(test[0]))
    assert f1 > 0.35
    assert json.loads(out)["metrics"]["example_f1"] == pytest.approx(f1, abs=1e-12)
