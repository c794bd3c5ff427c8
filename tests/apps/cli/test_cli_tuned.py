"""`skout fit` without settings: the model that `skout.Tuned` chooses, and what is said of it."""

import csv
import io
import json
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("typer.testing")

import skout
from skout import Tuned
from skout.apps.cli.results import write_rows
from skout.apps.cli.settings import check_budget
from skout.apps.tuning import Map
from skout.persistence import describe

N = 40
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 2)).round(3)
BITS = (X > 0).astype(int)
WHICH = (X[:, 0] > 0).astype(int)
WORDS = [("banana", "orange")[j] for j in WHICH]
COLUMNS = {
    "x1": X[:, 0].tolist(),
    "x2": X[:, 1].tolist(),
    "tags": [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in BITS],
    "order": [">".join("ab"[j] for j in np.argsort(row)) for row in X],
    "word": WORDS,
    "mol": [("CCO", "c1ccccc1")[j] for j in WHICH],
    "y": (X[:, 0] * X[:, 1]).tolist(),
}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    write_rows([COLUMNS], str(path), "csv")
    return path


def fit(call, table, *words, out="model.skout"):
    """Fit a model quickly; return its file and what the command says."""
    place = table.parent / out
    code, text, err = call("fit", table, *words, "-o", place, "--json")
    assert code == 0, err
    return place, json.loads(text), err


MOLECULES = COLUMNS["mol"]
RANKS = np.argsort(np.argsort(X, axis=1), axis=1)
KINDS = {
    "label sets": ("label_sets", "tags", "x*", X, BITS),
    # of texts, which are quicker: no forest takes them
    "label sets of texts": ("label_sets", "tags", "word", WORDS, BITS),
    "rankings": ("rankings", "order", "word", WORDS, RANKS),
    "strings": ("strings", "word", "mol", MOLECULES, WORDS),
    "SMILES": ("smiles", "mol", "word", WORDS, MOLECULES),
    "numbers": ("numbers", "y", "mol", MOLECULES, np.array(COLUMNS["y"])[:, None]),
}


METRICS = {
    "label_sets": "example_f1",
    "rankings": "kendall_tau",
    "strings": "ngram_similarity",
    "smiles": "fingerprint_similarity",
    "numbers": "r2",
}


def _dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def cells(path, column):
    with open(path, encoding="utf-8", newline="") as file:
        return [row[column] for row in csv.DictReader(file)]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_that_of_python(name, table, call):
    kind, column, inputs, given, Y = KINDS[name]
    budget = ["--budget", "1 fits", "--seed", "3"]
    words = ["--target", column, "--output", kind, "--inputs", inputs, *budget]
    path, said, err = fit(call, table, *words)
    is_molecule = inputs == "mol"  # which is encoded, and that is said
    assert err.startswith("skout: mol: taken for smiles.") if is_molecule else err == ""
    assert said["tuned"]
    given = {"mol": np.array(given, dtype=object)} if is_molecule else given
    expected = Tuned(kind, budget="1 fits", random_state=3).fit(given, Y)
    found = said["validation"]
    assert found["summary"] == expected.summary()
    assert_allclose(found["score"], expected.score_, rtol=1e-12)
    assert found["metric"] == METRICS[kind]
    assert_allclose(found["standard_error"], expected.score_error_, rtol=1e-12)
    assert found["baselines"] == pytest.approx(expected.baselines_)
    assert [one["map"] for one in found["chosen"]] == [
        one["map"] for one in expected.best_settings_
    ]
    # what the file has, and what is seen of it
    record = describe(path)["about"]["metadata"]["command_line"]
    assert record["validation"] == found
    assert f"score {found['summary']}" in " ".join(call("inspect", path)[1].split())
    # predictions
    out = table.parent / "out.csv"
    assert call("predict", path, table, "-o", out)[0] == 0
    predicted = expected.predict(given)
    if kind == "numbers":
        assert_allclose(np.array(cells(out, column), float), np.ravel(predicted), rtol=1e-9)
    elif kind == "label_sets":
        sets = [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in np.asarray(predicted)]
        assert cells(out, column) == sets
    elif kind == "rankings":
        assert cells(out, column) == [">".join("ab"[j] for j in np.argsort(r)) for r in predicted]
    else:
        assert cells(out, column) == list(predicted)
    assert call("evaluate", path, table)[0] == 0


def test_people_read_the_score_the_error_and_the_baseline(table, call):
    words = ["--target", "y", "--inputs", "x*", "--budget", "1 fits"]
    code, out, err = call("fit", table, *words, "-o", table.parent / "m")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if len(line.split()) > 1)
    assert lines["next"].startswith("skout predict")
    assert "kernel ridge" in lines["chosen"]
    assert lines["validation"].startswith("R2 ")
    assert " +- " in lines["validation"]
    assert "the mean " in lines["validation"]


def test_candidates_of_a_model_that_builds_its_outputs(table, tmp_path, call):
    """A tuned model of label sets decodes without candidates, and ranks them where asked."""
    words = ["--target", "tags", "--output", "label_sets", "--inputs", "word"]
    path, _, _ = fit(call, table, *words, "--budget", "1 fits")
    code, out, _ = call("rank", path, table, "-k", "2")
    assert code == 0
    rows = list(csv.DictReader(out.splitlines()))
    model = skout.load(path)
    indices, scores = model.rank(WORDS, k=2)
    names = [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in _dense(model.candidates_)]
    assert [row["candidate"] for row in rows] == [names[i] for i in np.ravel(indices)]
    assert_allclose([float(row["score"]) for row in rows], np.ravel(scores), rtol=1e-9)
    pool, embedded = tmp_path / "pool.csv", tmp_path / "pool.skpool"
    pool.write_text("tags\nt0\nt1\n")
    assert call("embed", path, pool, "-o", embedded)[0] == 0
    answers = [
        call(command, path, table, "--candidates", some)
        for command in ("predict", "rank", "evaluate")
        for some in (pool, embedded)
    ]
    assert all(code == 0 for code, _, _ in answers)
    for one, other in zip(answers[::2], answers[1::2], strict=True):
        assert one == other
    assert set(answers[0][1].split()) <= {"tags", "t0", "t1"}


@pytest.mark.parametrize(
    "words",
    [
        ["--no-tune"],
        ["--alpha", "0.001"],  # the default, but said
        ["--input-kernel", "gaussian"],
        ["--output-sketch", "none"],
        ["--standardize"],
        ["--decoder", "candidates"],
    ],
)
def test_settings_of_a_model_are_a_model_of_ones_own(words, table, call):
    target = ["--target", "tags", "--output", "label_sets", "--inputs", "x*"]
    path, said, _ = fit(call, table, *target, *words)
    assert not said["tuned"]
    assert "validation" not in said
    assert said["alpha"] == 0.001
    assert isinstance(skout.load(path), skout.StructuredPredictor)


def test_a_config_may_have_a_budget(table, call):
    config = table.parent / "fit.toml"
    config.write_text('target = "y"\ninputs = "word"\nbudget = "1 fits"\n')
    _, said, _ = fit(call, table, "--config", config)
    assert said["validation"]["fits"] == 1
    config.write_text('target = "y"\ninputs = "word"\ntune = false\n')
    assert not fit(call, table, "--config", config)[1]["tuned"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tune", "--alpha", "0.1"], "--tune lets skout choose the model, and --alpha says"),
        (["--budget", "9", "--input-kernel", "linear"], "--budget lets skout choose the model"),
        (["--budget", "0"], "--budget must be a number of seconds, or of fits"),
        (["--budget", "-3"], "--budget must be a number of seconds, or of fits"),
        (["--budget", "0 fits"], "--budget must be a number of seconds, or of fits"),
        (["--budget", "soon"], "--budget must be a number of seconds, or of fits"),
        (["--budget", "inf"], "--budget must be a number of seconds, or of fits"),
    ],
)
def test_mistakes_are_one_line(words, message, table, call):
    code, out, err = call("fit", table, "--target", "y", *words, "-o", table.parent / "m")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


@pytest.mark.parametrize(
    ("column", "cells", "words", "said"),
    [
        ("few", WHICH, [], "few: taken for classes. If that is wrong, give --output numbers."),
        (
            "bit_*",
            BITS,
            [],
            "bit_1, bit_2: taken for label_sets (2 labels). If that is wrong, give --output "
            "numbers.",
        ),
        ("few", WHICH, ["--output", "numbers"], ""),
        ("many", range(N), [], ""),
        (
            "tags",
            [("a, b", "a", "b, c", "c")[i % 4] for i in range(N)],
            [],
            "tags: taken for label_sets (3 labels, separated by ', '). If that is wrong, give "
            "--output classes or strings.",
        ),
        (
            "tags",
            [("a, b", "a", "b, c", "c")[i % 4] for i in range(N)],
            ["--output", "label_sets", "--separators", ";"],
            "'a, b' is taken for one label; --separators ',' makes several of it.",
        ),
        ("tags", ["Rome, Italy", "Nice"] * (N // 2), ["--output", "label_sets"], ""),
    ],
)
def test_what_may_not_be_meant_is_said(column, cells, words, said, tmp_path, call):
    names = ["bit_1", "bit_2"] if column == "bit_*" else [column]
    targets = dict(zip(names, np.reshape(cells, (N, -1)).T.tolist(), strict=True))
    path = tmp_path / "t.csv"
    write_rows([{"word": WORDS, **targets}], str(path), "csv")
    budget = ["--budget", "1 fits"]
    _, _, err = fit(call, path, "--target", column, "--inputs", "word", *words, *budget)
    assert err == (f"skout: {said}\n" if said else "")


def test_columns_may_be_given_again(table, call):
    drop = ["--drop", "tags", "--drop", "mol,word,order"]
    words = ["--target", "y", "--target", "x1", *drop, "--budget", "1 fits"]
    _, said, _ = fit(call, table, *words)
    assert [target["target"] for target in said["targets"]] == [["y"], ["x1"]]
    assert said["inputs"] == 1
    config = table.parent / "fit.toml"
    config.write_text('target = ["y", "x1"]\ninputs = "x2"\nbudget = "1 fits"\n')
    targets = fit(call, table, "--config", config)[1]["targets"]
    assert [target["target"] for target in targets] == [["y"], ["x1"]]


def test_a_target_without_values_is_named(table, call):
    path = table.parent / "empty.csv"
    write_rows([{"x": [1.0] * N, "y": [""] * N}], str(path), "csv")
    code, _, err = call("fit", path, "--target", "y", "-o", table.parent / "m")
    message = "skout: --target: the column 'y' is empty. Fill it, or name another.\n"
    assert (code, err) == (1, message)


def test_budgets():
    assert check_budget(60) == check_budget("60") == 60.0
    assert check_budget("12 fits") == "12 fits"
    assert check_budget("1 fit") == "1 fit"


def test_what_cannot_be_tuned_is_fitted_as_it_is_and_says_why(table, call):
    words = ["--target", "y", "--inputs", "x*"]
    _, said, err = fit(call, table, *words, "--memory", "0")
    assert (said["tuned"], said["in_memory"], said["standardize"]) == (False, False, True)
    assert "not tuned: the table is larger than --memory 0 (MB)" in err
    few = table.parent / "few.csv"
    few.write_text("\n".join(table.read_text().splitlines()[:7]))
    _, said, err = fit(call, few, *words)
    assert (said["tuned"], said["in_memory"]) == (False, True)
    assert "not tuned: 6 rows are too few to hold some out" in err


def test_ctrl_c_keeps_the_best_so_far(table, call, monkeypatch):
    calls, inner = [], Map.predictions

    def predictions(*given):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(*given)

    monkeypatch.setattr(Map, "predictions", predictions)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        path, said, err = fit(call, table, "--target", "y", "--inputs", "word")
    assert err == "skout: warning: Interrupted: the best so far is used.\n"
    assert said["validation"]["interrupted"]
    assert said["validation"]["fits"] == 2
    assert call("predict", path, table)[0] == 0


def test_progress_is_shown_on_a_terminal(table, call, monkeypatch):
    for is_terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda seen=is_terminal: seen, raising=False)
        monkeypatch.setattr(sys, "stderr", stream)
        words = ["--target", "y", "--inputs", "word", "--budget", "1 fits"]
        assert call("fit", table, *words, "-o", table.parent / "m")[0] == 0
        assert ("trials" in stream.getvalue()) is is_terminal
