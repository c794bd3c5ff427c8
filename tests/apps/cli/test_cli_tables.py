"""What the command line makes of tables: kinds of columns, missing cells, candidates, files."""

import bz2
import csv
import gzip
import json
import lzma
import os
import socket
import stat
import sys
import time
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

pytest.importorskip("typer.testing")

import skout
from skout.apps import cli
from skout.apps.tables.files import open_table, select
from skout.persistence import describe
from skout.readers import UnpackLimits

N = 60
X = np.random.default_rng(0).uniform(-1, 1, (N, 2)).round(4)
TAGS = [";".join(t for t, x in zip("ab", row, strict=True) if x > 0) for row in X]


def write(path, **columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def with_cell(row, cell):
    """The first column of X, with another cell in a row (from 1)."""
    column = [str(x) for x in X[:, 0]]
    column[row - 1] = cell
    return column


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", x0=X[:, 0], x1=X[:, 1], tags=TAGS)


FIT = ["--target", "tags", "--output", "label_sets", "--no-tune"]


@pytest.fixture
def model(table, tmp_path, call):
    path = tmp_path / "model.skout"
    assert call("fit", table, *FIT, "-o", path)[0] == 0
    return path


def record(path):
    return describe(path)["about"]["metadata"]["command_line"]


# kinds of columns ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [2, 55])
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("NA", "column 'x0' has no value in row {}"),
        ("?", "column 'x0' has no value in row {}"),
        (" null ", "column 'x0' has no value in row {}"),
        ("lots", "column 'x0' has 'lots', which is no finite number, in row {}"),
        ("10_2", "column 'x0' has '10_2', which is no finite number, in row {}"),
        ("-inf", "column 'x0' has '-inf', which is no finite number, in row {}"),
    ],
)
def test_one_odd_cell_is_an_error_wherever_it_is(cell, message, row, tmp_path, call):
    path = write(tmp_path / "t.csv", x0=with_cell(row, cell), x1=X[:, 1], tags=TAGS)
    code, out, err = call("fit", path, *FIT, "-o", tmp_path / "m")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message.format(row) in err


@pytest.mark.parametrize("memory", ["100", "0"])
def test_missing_numbers_become_means(memory, tmp_path, call):
    holes = X.copy()
    holes[[0, 7, 40], 0], holes[3, 1] = np.nan, np.nan
    cells = [[str(x) if np.isfinite(x) else "NA" for x in column] for column in holes.T]
    path = write(tmp_path / "t.csv", x0=cells[0], x1=cells[1], y=X[:, 0])
    words = ["--target", "y", "--missing", "mean", "--memory", memory]
    words += ["--input-sketch", "subsample:20", "-o", tmp_path / "m"]
    assert call("fit", path, *words)[0] == 0
    inputs = record(tmp_path / "m")["inputs"]
    means = np.nanmean(holes, axis=0)
    assert_allclose(inputs["means"], means)
    assert_allclose(inputs["scales"], np.nanstd(holes, axis=0))
    filled = SimpleImputer().fit_transform(holes)
    model = skout.KernelRidge(
        "gaussian", skout.sketches.SubSample(20), fit_intercept=True, random_state=0
    ).fit((filled - means) / inputs["scales"], X[:, 0])
    code, out, _ = call("predict", tmp_path / "m", path)
    expected = model.predict((filled - means) / inputs["scales"])
    assert_allclose([float(y) for y in out.split()[1:]], expected, rtol=1e-6, atol=1e-9)
    code, _, err = call("fit", path, "--target", "x0", *words[2:])
    assert (code, "x0: 3 of 60 rows have no value and are left out" in err) == (0, True)
    code, _, err = call("fit", path, "--target", "x0", "--strict", *words[2:])
    assert (code, "column 'x0' has no value in row 1" in err) == (1, True)


def test_columns_that_are_not_used_are_named(tmp_path, call):
    columns = {"x0": X[:, 0], "question": [f"why {i}?" for i in range(N)]}
    columns["day"] = [f"2024-05-{1 + i % 28:02}" for i in range(N)]
    columns["code"] = [f"{i}_{i}" for i in range(N)]
    columns["room"] = ["12" if i % 2 else "A12" for i in range(N)]
    columns["nothing"] = ["NA"] * N
    path = write(tmp_path / "t.csv", id=range(N), **columns, tags=TAGS)
    code, out, err = call("fit", path, *FIT, "-o", tmp_path / "m", "--json")
    assert code == 0
    assert err == (
        "skout: not used: id (id), question (text), day (date), code (text), "
        "room (text: 'A12' in row 1), nothing (empty)\n"
    )
    assert json.loads(out)["not_used"] == [name for name in ("id", *columns) if name != "x0"]
    assert record(tmp_path / "m")["inputs"]["columns"] == ["x0"]
    # what was asked for is not told again
    assert call("fit", path, *FIT, "--inputs", "x0", "-o", tmp_path / "m")[2] == ""


def test_an_id_is_no_model_of_its_own(tmp_path, call):
    words = ["red apple", "green pear", "blue plum"]
    path = write(
        tmp_path / "t.csv",
        id=range(N),
        question=[words[i % 3] for i in range(N)],
        tags=["abc"[i % 3] for i in range(N)],
    )
    code, _, err = call("fit", path, *FIT, "-o", tmp_path / "m")
    assert (code, err) == (0, "skout: not used: id (id)\n")
    assert record(tmp_path / "m")["inputs"]["columns"] == ["question"]
    code, out, _ = call("evaluate", tmp_path / "m", path, "--json")
    assert json.loads(out)["metrics"]["exact_matches"] == 1.0


@pytest.mark.parametrize(("name", "step"), [("number", 1), ("customer_id", -1)])
def test_inputs_that_look_like_ids_are_warned_about(name, step, tmp_path, call):
    columns = {name: range(0, N * step, step), "x0": X[:, 0]}
    path = write(tmp_path / "t.csv", **columns, tags=TAGS)
    code, _, err = call("fit", path, *FIT, "-o", tmp_path / "m")
    assert code == 0
    assert err.count("\n") == 1
    assert f"warning: the input {name!r} looks like an id" in err


# defaults -----------------------------------------------------------------------------------------


def test_defaults_are_f1_and_scaled_inputs(tmp_path, call):
    wide = X * [1.0, 1e4]
    path = write(tmp_path / "t.csv", x0=wide[:, 0], x1=wide[:, 1], tags=TAGS)
    assert call("fit", path, *FIT, "-o", tmp_path / "m")[0] == 0
    loaded = skout.load(tmp_path / "m")
    assert isinstance(loaded.output_basis_.kernel_, skout.kernels.F1)
    inputs = record(tmp_path / "m")["inputs"]
    scaler = StandardScaler().fit(wide)
    assert inputs["standardize"]
    assert_allclose([inputs["means"], inputs["scales"]], [scaler.mean_, scaler.scale_])
    # a width that is given as a number is meant for the inputs as they are
    for words in (["--input-kernel", "gaussian:0.5"], ["--no-standardize"]):
        assert call("fit", path, *FIT, *words, "-o", tmp_path / "m")[0] == 0
        assert not record(tmp_path / "m")["inputs"]["standardize"]


# candidates ---------------------------------------------------------------------------------------


@pytest.fixture
def molecules_model(tmp_path, call):
    pytest.importorskip("rdkit")
    which = np.digitize(X[:, 0], [-0.3, 0.4])
    molecules = [["CCO", "c1ccccc1", "CCN"][j] for j in which]
    path = write(tmp_path / "train.csv", x0=X[:, 0], mol=molecules)
    words = ["--target", "mol", "--output", "smiles", "--no-tune", "-o", tmp_path / "mol.skout"]
    assert call("fit", path, *words)[0] == 0
    return tmp_path / "mol.skout"


def test_invalid_candidates_are_skipped_and_named(molecules_model, tmp_path, call):
    good = write(tmp_path / "good.csv", mol=["CCO", "CCN", "CCCl"])
    bad = write(tmp_path / "bad.csv", mol=["CCO", "C1CC", "CCN", "?", "CCCl"])
    data = tmp_path / "train.csv"
    code, _, err = call("rank", molecules_model, data, "--candidates", bad, "-k", "2")
    assert (code, err.count("\n")) == (1, 1)
    assert "2 of 5 SMILES are invalid: 'C1CC' at position 1" in err
    assert "--skip-invalid" in err
    words = ["--candidates", bad, "-k", "2", "--skip-invalid"]
    code, out, err = call("rank", molecules_model, data, *words)
    assert code == 0
    assert "2 of 5 candidates in " in err
    assert "skipped: 'C1CC' in row 2, '?' in row 4." in err
    assert out == call("rank", molecules_model, data, "--candidates", good, "-k", "2")[1]
    none = write(tmp_path / "none.csv", mol=["?", "C1CC"])
    words = ["--candidates", none, "--skip-invalid"]
    code, _, err = call("rank", molecules_model, data, *words)
    assert (code, "None is left." in err) == (1, True)


def test_candidates_with_unknown_labels_are_skipped(model, table, tmp_path, call):
    pool = write(tmp_path / "pool.csv", tags=["a", "a;new", "b"])
    words = ["--candidates", pool, "-k", "5", "--skip-invalid"]
    code, out, err = call("rank", model, table, *words)
    assert code == 0
    assert "skipped: 'a;new' in row 2." in err
    assert {row["candidate"] for row in csv.DictReader(out.splitlines())} == {"a", "b"}


def test_embedded_candidates_rank_as_their_table(molecules_model, tmp_path, call):
    table = write(tmp_path / "pool.csv", mol=["CCO", "C1CC", "CCN", "CCO", "CCCl"])
    data, pool = tmp_path / "train.csv", tmp_path / "pool.skpool"
    code, out, err = call("embed", molecules_model, table, "-o", pool, "--skip-invalid", "--json")
    assert (code, "'C1CC' in row 2" in err) == (0, True)
    found = json.loads(out)
    assert (found["rows"], found["distinct"]) == (4, 3)
    table.write_text(table.read_text().replace("C1CC\n", ""))
    for command, words in (("rank", ["-k", "4"]), ("predict", []), ("evaluate", ["--json"])):
        expected = call(command, molecules_model, data, "--candidates", table, *words)
        assert expected[0] == 0
        assert call(command, molecules_model, data, "--candidates", pool, *words) == expected


def test_embedded_candidates_belong_to_one_model(model, table, tmp_path, call):
    pool = tmp_path / "pool"
    assert call("embed", model, table, "-o", pool)[0] == 0
    assert call("rank", model, table, "--candidates", pool)[0] == 0
    assert call("fit", table, *FIT, "--alpha", "0.1", "-o", model)[0] == 0
    code, out, err = call("rank", model, table, "--candidates", pool)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "made by `skout embed` with another model" in err
    code, _, err = call("rank", model, table, "--candidates", model)
    assert (code, "which holds a StructuredPredictor" in err) == (1, True)
    code, _, err = call("embed", model, table, "-o", tmp_path / "pool.csv")
    assert (code, "--out must end in .skpool" in err) == (1, True)


# files --------------------------------------------------------------------------------------------


def spellings(path):
    """The same file by other names."""
    link, hard = path.with_name("link.csv"), path.with_name("hard.csv")
    link.symlink_to(path)
    os.link(path, hard)
    return [path, path.parent / "." / ".." / path.parent.name / path.name, link, hard]


def test_a_file_that_is_read_is_not_overwritten(model, table, call):
    before = table.read_bytes()
    for out in spellings(table):
        for words in (
            ["fit", table, *FIT, "-o", out],
            ["predict", model, table, "-o", out],
            ["rank", model, table, "-o", out],
            ["predict", model, table.with_name("none.csv"), "--candidates", table, "-o", out],
            ["embed", model, table, "-o", out],
        ):
            code, _, err = call(*words)
            assert (code, "would be lost" in err) == (1, True)
    assert table.read_bytes() == before
    kept = model.read_bytes()
    words = ["--format", "csv", "-o", model]
    assert call("predict", model, table, *words)[0] == 1
    assert call("embed", model, table, "-o", model)[0] == 1
    assert model.read_bytes() == kept


def commands(model, table):
    """What writes a file, without its name, and the end of the name."""
    return {
        "fit": (["fit", table, *FIT], ".skout"),
        "embed": (["embed", model, table], ".skpool"),
        "predict csv": (["predict", model, table], ".csv"),
        "predict jsonl": (["predict", model, table], ".jsonl"),
        "predict parquet": (["predict", model, table], ".parquet"),
        "rank": (["rank", model, table, "-k", "1"], ".csv"),
    }


each_command = pytest.mark.parametrize("name", list(commands(None, None)))
no_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")


@no_pipes
@each_command
def test_what_is_written_goes_into_a_pipe(name, model, table, tmp_path, call):
    words, end = commands(model, table)[name]
    if end == ".parquet":
        pytest.importorskip("pyarrow")
    pipe, out = tmp_path / f"pipe{end}", tmp_path / f"out{end}"
    assert call(*words, "-o", out)[0] == 0
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        reader = threads.submit(pipe.read_bytes)
        try:
            assert call(*words, "-o", pipe)[0] == 0
        finally:
            os.close(os.open(pipe, os.O_RDWR))  # the reader ends, whatever was written
        found = reader.result()
    assert pipe.is_fifo()
    if end in (".skout", ".skpool"):  # they have dates
        copy = tmp_path / f"copy{end}"
        copy.write_bytes(found)
        assert describe(copy)["about"]["class"] == describe(out)["about"]["class"]
    else:
        assert found == out.read_bytes()


@each_command
def test_what_is_written_goes_into_a_device(name, model, table, tmp_path, call):
    words, end = commands(model, table)[name]
    if end == ".parquet":
        pytest.importorskip("pyarrow")
    device = tmp_path / f"null{end}"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except (AttributeError, PermissionError):
        pytest.skip("only root makes devices")
    before = sorted(tmp_path.iterdir())
    assert call(*words, "-o", device)[0] == 0
    assert device.is_char_device()
    assert sorted(tmp_path.iterdir()) == before  # nothing was written aside


@no_pipes
@each_command
def test_what_is_no_file_and_no_stream_is_refused(name, model, table, tmp_path, call):
    words, end = commands(model, table)[name]
    place = tmp_path / f"socket{end}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place))  # names of sockets are short
        code, out, err = call(*words, "-o", place)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no file: give another path" in err
    assert place.is_socket()


def test_results_go_through_a_link_and_replace_a_file_at_once(model, table, tmp_path, call):
    expected = call("predict", model, table)[1]
    link, out = tmp_path / "link.csv", tmp_path / "out.csv"
    out.write_text("old")
    out.chmod(0o640)
    link.symlink_to(out)
    with open(out) as still_read:
        assert call("predict", model, table, "-o", link)[0] == 0
        assert still_read.read() == "old"
    assert link.is_symlink()
    assert (out.read_text(), stat.S_IMODE(out.stat().st_mode)) == (expected, 0o640)
    assert sorted(tmp_path.glob(".*")) == []


# many columns -------------------------------------------------------------------------------------


def test_work_is_linear_in_columns(tmp_path):
    """Seconds of this thread alone, for 8 times the columns."""

    def seconds(d):
        path = write(tmp_path / f"{d}.csv", **{f"x{j}": range(3) for j in range(d)})
        start = time.thread_time()
        table = open_table(path)
        names = select("x*", table.names, "--inputs")
        parts = list(table.parts(names))
        assert parts[0].numbers.shape == (3, d)
        return time.thread_time() - start

    seconds(1000)
    small = min(seconds(5000) for _ in range(3))
    assert seconds(40_000) < 24 * small  # 8 is linear, 64 quadratic


# odd files ----------------------------------------------------------------------------------------

N_ODD = 40
ODD = np.random.default_rng(1).uniform(-1, 1, (N_ODD, 2)).round(3)
COLOURS = np.random.default_rng(2).choice(["red", "blue", "grün"], N_ODD)
GOAL = (ODD[:, 0] + (COLOURS == "red")).round(3)


def odd_rows(**more):
    """The names and the rows of a table, all of them text; with other columns before."""
    cells = [[str(a), str(b), c, str(y)] for (a, b), c, y in zip(ODD, COLOURS, GOAL, strict=True)]
    extra_cells = list(zip(*more.values(), strict=True)) if more else [()] * N_ODD
    rows = [[*map(str, new), *row] for new, row in zip(extra_cells, cells, strict=True)]
    return [[*more, "x", "z", "colour", "y"], *rows]


def text_of(rows, sep=",", decimal=".", end="\n"):
    if decimal == ",":
        rows = [rows[0], *([cell.replace(".", ",") for cell in row] for row in rows[1:])]
    return end.join(sep.join(row) for row in rows) + end


PLAIN = odd_rows()


def edited(i, j, cell):
    """The table with another cell in row i (from 1)."""
    rows = [list(row) for row in PLAIN]
    rows[i][j] = cell
    return rows


# Files that hold the same table in other clothes, and what people are told.
SAME = {
    "bom.csv": ("\ufeff" + text_of(PLAIN), "utf-8", ""),
    "utf16.csv": (text_of(PLAIN), "utf-16", ""),
    "semicolons.csv": (text_of(PLAIN, ";"), "utf-8", "separated by semicolons"),
    "decimals.csv": (text_of(PLAIN, ";", ","), "utf-8", "numbers have decimal commas"),
    "tabs.csv": (text_of(PLAIN, "\t"), "utf-8", "separated by tabs"),
    "tabs with decimals.tsv": (text_of(PLAIN, "\t", ","), "utf-8", "decimal commas"),
    "commas.tsv": (text_of(PLAIN), "utf-8", "separated by commas"),
    "bars.txt": (text_of(PLAIN, "|"), "utf-8", "separated by bars"),
    "excel.csv": ("sep=;\n" + text_of(PLAIN, ";", ",", "\r\n"), "utf-8", "semicolons"),
    "windows.csv": (text_of(PLAIN, end="\r\n"), "utf-8", ""),
    "old mac.csv": (text_of(PLAIN, end="\r"), "utf-8", ""),
    "latin.csv": (text_of(PLAIN), "latin-1", "is not UTF-8 (byte 0xfc in line "),
    "empty lines.csv": (text_of(PLAIN, end="\n\n"), "utf-8", ""),
    "padded.csv": (text_of([[f" {c} " for c in row] for row in PLAIN]), "utf-8", ""),
    "quoted.csv": (text_of([[f'"{c}"' for c in row] for row in PLAIN]), "utf-8", ""),
    "other order.csv": (text_of([row[::-1] for row in PLAIN]), "utf-8", ""),
}


@pytest.fixture(scope="module")
def odd_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    path = folder / "plain.csv"
    path.write_text(text_of(PLAIN), encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        cli.main(
            ["fit", str(path), "--target", "y", "--budget", "1 fit", "-o", str(folder / "model")]
        )
    assert not end.value.code
    with pytest.raises(SystemExit):
        cli.main(["predict", str(folder / "model"), str(path), "-o", str(folder / "out.csv")])
    return folder / "model", (folder / "out.csv").read_text()


@pytest.mark.parametrize("name", SAME)
def test_other_clothes_make_no_difference(name, odd_model, tmp_path, call):
    model, expected = odd_model
    content, encoding, told = SAME[name]
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    code, out, err = call("predict", model, path, "--format", "csv")
    assert (code, out) == (0, expected)
    assert told in err
    assert bool(err) == bool(told)
    code, out, _ = call("evaluate", model, path, "--json")  # the target is read as well
    assert (code, json.loads(out)["metrics"]["r2"] > 0.5) == (0, True)


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("name", ["t.csv.gz", "T.TSV.GZ", "t.csv.bz2", "t.txt.xz", "t.jsonl.gz"])
def test_text_may_be_compressed(name, odd_model, tmp_path, call):
    model, expected = odd_model
    plain, end = tmp_path / "t.jsonl", os.path.splitext(name.lower())[1]
    if "jsonl" in name:
        write_records(plain)
    else:
        plain.write_text(text_of(PLAIN, "\t" if "tsv" in name.lower() else ","), encoding="utf-8")
    path = tmp_path / name
    path.write_bytes(PACKERS[end](plain.read_bytes()))
    assert call("predict", model, path, "--format", "csv") == (0, expected, "")
    path.write_bytes(plain.read_bytes())  # a browser may have unpacked it
    assert call("predict", model, path, "--format", "csv") == (0, expected, "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cut.csv.gz", "cut.csv.gz cannot be read to its end: "),
        ("t.parquet.gz", "those that are text may be compressed, by .gz, .bz2, .xz, .zst, .zip"),
        ("t.csv.zip", "t.csv.zip cannot be read to its end: "),
    ],
)
def test_archives_that_cannot_be_read_say_so(name, expected, odd_model, tmp_path, call):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text_of(PLAIN).encode())[:-20])
    code, out, err = call("predict", odd_model[0], path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert expected in err


def write_records(path):
    """The same table as a file of another kind, with types."""
    names, *rows = PLAIN
    records = [
        {n: cell if n == "colour" else float(cell) for n, cell in zip(names, row, strict=True)}
        for row in rows
    ]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(one) + "\n\n" for one in records))
    elif path.suffix == ".json":
        path.write_text(json.dumps(records))
    elif path.suffix == ".xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [names, *(list(one.values()) for one in records)]:
            book.active.append(row)
        book.create_sheet("notes")
        book.save(path)
    else:
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table({name: [one[name] for one in records] for name in names})
        if path.suffix == ".parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, path)
        else:
            pytest.importorskip("pyarrow.feather").write_feather(table, path)


@pytest.mark.parametrize("end", ["jsonl", "json", "xlsx", "parquet", "feather"])
def test_files_of_other_kinds(end, odd_model, tmp_path, call):
    model, expected = odd_model
    path = tmp_path / f"table.{end}"
    write_records(path)
    code, out, err = call("predict", model, path, "--format", "csv")
    assert (code, out) == (0, expected)
    assert ("sheet 'Sheet' is read" in err) == (end == "xlsx")
    words = ["--target", "y", "--budget", "1 fit", "-o", tmp_path / "m"]
    assert call("fit", path, *words)[0] == 0
    assert call("predict", tmp_path / "m", path, "--format", "csv")[1] == expected


KEYS = [f"C-{i:04d}" for i in range(N_ODD)]
NOTES = [f'"said ""well"",\nthen {w}, and left {i}"' for i, w in enumerate(COLOURS)]
FORMS = ["2024-0{m}-{d:02}", "{d:02}/0{m}/2024", "{d} Mar 2024"]
MIXED_DAYS = [FORMS[i % 3].format(d=1 + i % 28, m=1 + i % 9) for i in range(N_ODD)]
# Tables with a column that needs care: what is said of it, and what it is to the model.
CARE = {
    "nothing": (["NA"] * N_ODD, "nothing (empty)", None),
    "one": (["7"] * N_ODD, "one (one value only)", None),
    "customer": (KEYS, "customer (all values differ)", None),
    "id": (range(N_ODD), "id (id)", None),
    "counts": (range(1, N_ODD + 1), "counts (all values differ)", None),
    "note": (NOTES, "", "text"),
    "iso": ([f"2024-01-{1 + i % 28:02}" for i in range(N_ODD)], "", "date"),
    "european": ([f"{1 + i % 28:02}.01.2024" for i in range(N_ODD)], "", "date"),
    "day": (MIXED_DAYS, "", "date"),
    "gaps": ([["", "1.5", "2"][i % 3] for i in range(N_ODD)], "", "number"),
    "tags": ([["a;b", "b", "", "a;c"][i % 4] for i in range(N_ODD)], "", "set"),
    "zip": ([f"{10000 + 7 * i % 5}" for i in range(N_ODD)], "", "category"),
}


@pytest.mark.parametrize("name", CARE)
def test_columns_that_need_care(name, tmp_path, call):
    cells, told, kind = CARE[name]
    path = tmp_path / "t.csv"
    path.write_text(text_of(odd_rows(**{name: cells})), encoding="utf-8")
    words = ["--target", "y", "--budget", "1 fit", "-o", tmp_path / "m", "--json"]
    code, out, err = call("fit", path, *words)
    assert code == 0, err
    assert err == (f"skout: not used: {told}\n" if told else "")
    assert json.loads(out)["not_used"] == ([name] if told else [])
    assert record(tmp_path / "m")["columns"].get(name) == kind
    code, out, err = call("predict", tmp_path / "m", path)
    assert (code, err, out.count("\n")) == (0, "", N_ODD + 1)
    if told:  # new tables need not have it
        bare = tmp_path / "bare.csv"
        bare.write_text(text_of(odd_rows()), encoding="utf-8")
        assert call("predict", tmp_path / "m", bare) == (0, out, "")


LOTS = "column 'x': 1 of 40 cells is no number and is taken as missing, 'lots' in row 16"


@pytest.mark.parametrize(
    ("cell", "same", "told"),
    [
        ("lots", "", LOTS),
        ("#DIV/0!", "", "column 'x': 1 of 40 cells is no number"),
        ("More than 3", "3", "column 'x': 1 of 40 cells is a bound or an estimate"),
        ('"1,234.5"', "1234.5", ""),
        ("$0.5", "0.5", ""),
        ('"0,5"', "0.5", ""),
    ],
)
def test_one_odd_cell_does_not_stop_a_fit(cell, same, told, tmp_path, call):
    path, plain, model = (tmp_path / name for name in ("t.csv", "plain.csv", "m"))
    path.write_text(text_of(edited(16, 0, cell)), encoding="utf-8")
    plain.write_text(text_of(edited(16, 0, same)), encoding="utf-8")
    words = ["--target", "y", "--budget", "1 fit", "-o", model]
    assert call("fit", plain, *words)[0] == 0
    expected = call("predict", model, plain)[1]
    code, _, err = call("fit", path, *words)
    assert (code, err.count("\n")) == (0, int(bool(told)))  # once, though the file is read again
    assert told in err
    code, out, err = call("predict", model, path)
    assert (code, out, told in err) == (0, expected, True)
    code, _, err = call("fit", path, *words, "--strict")
    refused = bool(told)
    assert code == int(refused)
    if refused:
        assert f"column 'x' has {cell!r}, which is no finite number, in row 16, line 17" in err
    else:  # and new cells are refused by what was fitted so
        path.write_text(text_of(edited(7, 0, "lots")), encoding="utf-8")
        assert "'lots', which is no finite number, in row 7" in call("predict", model, path)[2]


def test_dates_of_a_file_are_read_in_one_way(tmp_path, call):
    def path(form, name):
        days = [form.format(d=1 + i % 12, m=1 + i % 11) for i in range(N_ODD)]
        (tmp_path / name).write_text(text_of(odd_rows(day=days)), encoding="utf-8")
        return tmp_path / name

    words = ["--target", "y", "--budget", "1 fit", "-o", tmp_path / "m"]
    iso, points = path("2024-{m:02}-{d:02}", "iso.csv"), path("{d:02}.{m:02}.2024", "points.csv")
    slashes = path("{d:02}/{m:02}/2024", "slashes.csv")
    assert call("fit", iso, *words)[::2] == (0, "")
    expected = call("predict", tmp_path / "m", iso)
    assert call("predict", tmp_path / "m", points) == expected
    code, out, err = call("predict", tmp_path / "m", slashes)  # taken for months
    assert (code, out != expected[1], err.count("\n")) == (0, True, 1)
    assert "'01/01/2024' do not tell whether the day or the month comes first" in err
    assert call("fit", slashes, *words, "--day-first")[::2] == (0, "")
    assert call("predict", tmp_path / "m", slashes) == expected
    iso.write_text(iso.read_text().replace("2024-03-03", "soon"), encoding="utf-8")
    err = call("predict", tmp_path / "m", iso)[2]
    assert "column 'day': 1 of 40 cells is no date and is taken as missing, 'soon' in row 3" in err
    assert "'soon' is no date, in row 3" in call("fit", iso, *words, "--strict")[2]


def test_served_models_take_odd_cells_too(odd_model):
    pytest.importorskip("fastapi")
    from skout.apps.cli.serve.answers import TableModel
    from skout.apps.cli.serve.limits import Deadline, Limits
    from skout.apps.cli.serve.schemas import PredictRequest
    from skout.apps.cli.using import open_model

    model = TableModel(open_model(odd_model[0]))
    model.warm()  # without a word

    def answer(x):
        request = PredictRequest(rows=[{"x": x, "z": 0.5, "colour": "red"}])
        blocks, _ = model.predict(request, Limits(), Deadline(9.0))
        return blocks[0]["y"]

    with pytest.warns(UserWarning, match="1 of 1 cells is no number .* 'lots' in row 1"):
        found = answer("lots")
    assert found == answer(None)
    assert answer("1,5") == answer(1.5)


def test_rows_of_later_blocks_are_named(tmp_path, call, monkeypatch):
    monkeypatch.setattr("skout.apps.tables.files.table._PART_ROWS", 16)
    days = [f"2024-{1 + i % 12:02}-11" for i in range(N_ODD)]
    path = tmp_path / "t.csv"
    path.write_text(text_of(odd_rows(day=days)), encoding="utf-8")
    assert call("fit", path, "--target", "y", "--budget", "1 fit", "-o", tmp_path / "m")[0] == 0
    rows = [list(row) for row in odd_rows(day=days)]
    rows[30][0], rows[35][1], rows[9][1] = "soon", "lots", "n.d."
    path.write_text(text_of(rows), encoding="utf-8")
    err = call("predict", tmp_path / "m", path)[2]
    assert "1 of 16 cells is no date and is taken as missing, 'soon' in row 30" in err
    assert "2 of 40 cells are no numbers and are taken as missing, the first 'n.d.' in row 9" in err


def test_codes_of_digits_are_categories(tmp_path, call):
    path = tmp_path / "t.csv"
    codes = [["01067", "80331", "10115"][i % 3] for i in range(N_ODD)]
    path.write_text(text_of(odd_rows(plz=codes)), encoding="utf-8")
    assert call("fit", path, "--target", "y", "--budget", "1 fit", "-o", tmp_path / "m")[0] == 0
    assert record(tmp_path / "m")["columns"]["plz"] == "category"


def test_targets_are_read_as_people_write_them(tmp_path, call):
    rows = [list(row) for row in PLAIN]
    for row in rows[1:]:
        row[3] = f'"${1000 * float(row[3]):,.2f}"'
    path, plain = tmp_path / "t.csv", tmp_path / "plain.csv"
    path.write_text(text_of(rows), encoding="utf-8")
    rows = [
        rows[0],
        *([*row[:3], row[3].strip('"').replace("$", "").replace(",", "")] for row in rows[1:]),
    ]
    plain.write_text(text_of(rows), encoding="utf-8")
    found = []
    for one in (path, plain):
        words = ["--target", "y", "--budget", "1 fit", "-o", tmp_path / "m"]
        assert call("fit", one, *words)[::2] == (0, "")
        found.append(call("evaluate", tmp_path / "m", one, "--json"))
    assert found[0] == found[1]


# How a file is packed, its beginning, what comes again and again, and what is said; 2**24 bytes.
BOMBS = {
    "line.csv.gz": (gzip.compress, b"a,y\n", b"1", "line 2 has more than 262,144 letters"),
    "header.csv.bz2": (bz2.compress, b"", b"1", "line 1 has more than 262,144 letters"),
    "cells.csv.gz": (gzip.compress, b"a,y\n", b"10,", "line 2 has more than 262,144 letters"),
    "quotes.csv.gz": (gzip.compress, b'a,y\n"x\n', b'","\n', "has more than 262,144 letters"),
    "line.jsonl.gz": (gzip.compress, b'{"y": "', b"1", "line 1 has more than 262,144 letters"),
    "list.json.gz": (gzip.compress, b"[", b"[],", "more than 1,048,576 letters, and JSON is read"),
    "deep.json.gz": (gzip.compress, b"", b"[", "its lists are nested too deep"),
    "rows.csv.xz": (lzma.compress, b"a,y\n", b"1,2\n", "unpacks to more than 200 times its size"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_do_not_unpack_to_gigabytes(name, tmp_path, call, monkeypatch):
    pack, head, piece, told = BOMBS[name]
    monkeypatch.setattr("skout.apps.tables.files.text.LONGEST", 2**18)
    is_deep = name.startswith("deep")
    monkeypatch.setattr("skout.apps.tables.files.others._LONGEST", 2**25 if is_deep else 2**20)
    if name.startswith("rows"):
        monkeypatch.setattr(
            "skout.apps.tables.files.text.PACKED_TABLES", UnpackLimits(unpacked=2**20, ratio=200)
        )
    path = tmp_path / name
    path.write_bytes(pack(head + piece * (2**24 // len(piece))))
    words = ["fit", path, "--target", "y", "-o", tmp_path / "m"]
    code, _, err = call(*words)
    assert (code, err.count("\n"), told in err) == (1, 1, True)
    if not is_deep:
        tracemalloc.start()
        call(*words)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**24  # which the file unpacks to; its cells would take ten times as much


def test_archives_of_files_say_what_they_unpack_to(tmp_path, call, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.setattr(
        "skout.apps.tables.files.text.PACKED_TABLES", UnpackLimits(unpacked=10**6, ratio=200)
    )
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((300_000, 1)), Y=np.zeros(300_000))
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"x" * 4_000_000)
    for name in ("t.npz", "t.xlsx"):
        code, _, err = call("fit", tmp_path / name, "--target", "Y", "-o", tmp_path / "m")
        assert (code, "unpacks to more than 200 times" in err) == (1, True)


def long_row():
    rows = [list(row) for row in PLAIN]
    rows[4].append("9")
    return text_of(rows)


# Files that cannot be read, and the file, place and remedy that the error names.
BROKEN = {
    "long row": (long_row(), ["row 4 (line 5) has 5 cells, and the header 4", "Quote cells"]),
    "open quote": (
        text_of(edited(5, 2, '"red')),
        ["begins in line 6", "is opened there and never closed"],
    ),
    "no text": (text_of(PLAIN).encode("utf-16-le"), ["bytes that are 0 in line 1", "as UTF-8"]),
    "no rows": (text_of(PLAIN[:1]), ["has columns, but no rows"]),
    "empty": ("", ["is empty"]),
}


SAID = {
    "same name": (
        text_of([["x", "x", "colour", "y"], *PLAIN[1:]]),
        "several columns are called 'x'; the second is now 'x_2'",
    ),
    "two without names": (text_of([["", "", "colour", "y"], *PLAIN[1:]]), ""),
    "infinite": (
        text_of(edited(7, 1, "-inf")),
        "column 'z': 1 of 40 cells is no number and is taken as missing, '-inf' in row 7",
    ),
    "no target": (text_of(edited(11, 3, "")), "y: 1 of 40 rows have no value and are left out"),
    "a word": (
        text_of(edited(20, 3, "lots")),
        "1 of 40 cells is no number and is taken as missing",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_person_would_go_on_with_is_said(name, tmp_path, call):
    content, said = SAID[name]
    path = tmp_path / "odd.csv"
    path.write_text(content)
    words = ["--target", "y", "--budget", "1 fit", "-o", tmp_path / "m"]
    code, _, err = call("fit", path, *words)
    assert code == 0, err
    assert said in err
    code, out, _ = call("evaluate", tmp_path / "m", path, "--json")
    assert (code, json.loads(out)["rows"]) == (0, 40 - (name in ("no target", "a word")))


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_name_the_place_and_the_remedy(name, tmp_path, call):
    content, expected = BROKEN[name]
    path = tmp_path / "broken.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = call("fit", path, "--target", "y", "-o", tmp_path / "m")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "broken.csv" in err
    for words in expected:
        assert words in err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.jsonl", '{"x": 1, "y": 2}\n{"x": 1,\n', "t.jsonl: line 2 is no JSON"),
        ("t.jsonl", '{"x": 1, "y": 2}\n[1, 2]\n', "line 2 must be an object such as"),
        ("t.json", '{"x": 1}', "must be a list of objects"),
        ("t.feather", "no", "is no feather file"),
        ("t.parquet", "no", "is no parquet file"),
    ],
)
def test_broken_records_name_the_line(name, content, expected, tmp_path, call):
    if not name.startswith("t.json"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_text(content)
    code, _, err = call("fit", path, "--target", "y", "-o", tmp_path / "m")
    assert (code, err.count("\n")) == (1, 1)
    assert expected in err


def test_broken_workbooks(tmp_path, call):
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    path.write_text("no")
    words = ["--target", "y", "-o", tmp_path / "m"]
    assert "is no Excel file" in call("fit", path, *words)[2]
    book = openpyxl.Workbook()
    for row in (["x", "y"], [1, 2], [3, 4, 5]):
        book.active.append(row)
    book.save(path)
    assert "line 3 has more cells than the 2 names" in call("fit", path, *words)[2]


def test_excel_files_say_what_they_need(tmp_path, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_text("no")
    err = call("fit", tmp_path / "t.xlsx", "--target", "y", "-o", tmp_path / "m")[2]
    assert 'pip install "skout[table]"' in err


def test_a_model_of_many_columns_takes_work_that_is_linear_in_them(tmp_path, call):
    def seconds(d, n=12):
        cells = np.random.default_rng(0).integers(0, 9, (n, d)).astype(str)
        lines = [",".join(["colour", *(f"x{j}" for j in range(d)), "y"])]
        lines += [",".join(["rb"[i % 2], *cells[i], str(0.5 * i)]) for i in range(n)]
        path = tmp_path / "wide.csv"
        path.write_text("\n".join(lines))
        start = time.process_time()
        words = ["--target", "y", "--budget", "1 fit", "-o", tmp_path / "m", "--json"]
        code, out, err = call("fit", path, *words)
        assert (code, err) == (0, "")
        assert json.loads(out)["inputs"] == d + 1
        assert call("predict", tmp_path / "m", path)[1].count("\n") == n + 1
        return time.process_time() - start

    seconds(100)
    assert seconds(20_000) < 12 * seconds(4000)  # 5 is linear, 25 quadratic


def test_classes_of_a_mixed_table(tmp_path, call):
    path = tmp_path / "t.csv"
    path.write_text(text_of(PLAIN), encoding="utf-8")
    for words in (["--budget", "2 fits"], ["--no-tune", "--inputs", "x,z,y"]):
        words = ["--target", "colour", "--output", "classes", *words, "-o", tmp_path / "m"]
        assert call("fit", path, *words)[0] == 0
        code, out, _ = call("predict", tmp_path / "m", path)
        assert set(out.split()[1:]) <= set(COLOURS)
        code, out, _ = call("evaluate", tmp_path / "m", path, "--json")
        assert json.loads(out)["metrics"]["accuracy"] > 0.4
        code, _, err = call("rank", tmp_path / "m", path)
        assert (code, "predicts classes, which cannot be ranked" in err) == (1, True)


def test_candidates_for_a_mixed_table(tmp_path, call):
    path, pool = tmp_path / "t.csv", tmp_path / "pool.csv"
    tags = [["a;b", "b", "c", "a;c"][i % 4] for i in range(N_ODD)]
    path.write_text(text_of(odd_rows(tags=tags)), encoding="utf-8")
    pool.write_text("tags\na;b\nc\n")
    words = ["--target", "tags", "--output", "label_sets", "--budget", "2 fits"]
    assert call("fit", path, *words, "-o", tmp_path / "m")[0] == 0
    code, out, _ = call("rank", tmp_path / "m", path, "--candidates", pool, "-k", "2")
    assert (code, out.count("\n")) == (0, 1 + 2 * N_ODD)
    code, out, _ = call("predict", tmp_path / "m", path, "--candidates", pool)
    assert set(out.split()[1:]) <= {"a;b", "c"}


def test_a_mixed_table_that_is_too_large_is_one_of_numbers(tmp_path, call):
    path = tmp_path / "t.csv"
    path.write_text(text_of(PLAIN), encoding="utf-8")
    words = ["--target", "y", "--memory", "0", "-o", tmp_path / "m"]
    code, _, err = call("fit", path, *words)
    assert code == 0
    assert "the model is not tuned" in err
    assert "not used: colour (text)" in err
