"""`skout report` and `model_report`: their numbers against those of `skout evaluate`, and formulas.

The page in a browser is in test_report_page.py.
"""

import html
import json
import re

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

pytest.importorskip("typer.testing")

from serving import COLUMNS, N, fit

import skout
from skout.apps.cli import importance
from skout.apps.cli.columns import Outputs
from skout.apps.cli.importance import _shuffled
from skout.apps.cli.report import model_report
from skout.apps.cli.report.measure import _grouped
from skout.apps.cli.results import write_rows
from skout.apps.cli.using import Scores
from skout.kinds import LabelSets, Numbers, Rankings, Strings

pd, pl, pa = extra("pandas"), extra("polars"), extra("pyarrow")

EVIL = "<script>alert('x')</script>&\""
SETS = Outputs(["t"], LabelSets(["p", "q"]))
CLASSES = {"target": "word", "output": "classes", "inputs": "x*", "input_sketch": "subsample:20"}
SHOWN = ["label sets", "columns of labels", "rankings", "columns of ranks", "strings", "molecules"]
SHOWN += ["numbers", "tuned", "classes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    half = {name: cells[N // 2 :] for name, cells in COLUMNS.items()}
    write_rows([half | {"side": ["left", "right", ""] * (N // 6)}], str(folder / "test.csv"), "csv")
    return folder


@pytest.fixture(scope="module")
def models(folder):
    """Return the file of a kind of model, fitted once."""
    made = {}

    def file(kind):
        if kind not in made:
            if "molecule" in kind:
                pytest.importorskip("rdkit")
            more = CLASSES if kind == "classes" else {}
            made[kind] = fit("strings" if more else kind, folder, f"{len(made)}.skout", **more)
        return made[kind]

    return file


def metrics_in(page):
    """Return the metrics of the table of a page, all digits: {name: [model, error, baseline]}."""
    rows = re.findall(r'<tr><td><span data-metric="(\w+)">(.*?)</tr>', page, flags=re.DOTALL)
    return {name: [float(v) for v in re.findall(r'value="([^"]+)"', row)] for name, row in rows}


def visible(page):
    """Return the text that people see."""
    return html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2]))


@pytest.mark.parametrize("kind", SHOWN)
def test_numbers_are_those_of_evaluate(kind, models, folder, tmp_path, call):
    model, test, page = models(kind), folder / "test.csv", tmp_path / "page.html"
    said = json.loads(call("evaluate", model, test, "--json")[1])
    code, out, err = call("report", model, test, "-o", page, "--by", "side", "--json")
    assert (code, err) == (0, "")
    text = page.read_text(encoding="utf-8")
    found = metrics_in(text)
    assert list(found) == list(said["metrics"])
    for name, value in said["metrics"].items():
        assert found[name][0] == value
        assert f"{value:.3g}" in visible(text)
    kept = re.search(r"<pre>(.*?)</pre>", text, flags=re.DOTALL)[1]
    assert json.loads(html.unescape(kept)) == said
    numbers = json.loads(out)
    assert {name: numbers[name] for name in said} == said
    assert [numbers["standard_errors"][name] for name in found] == [v[1] for v in found.values()]
    assert [numbers["baseline"]["metrics"][name] for name in found] == [
        values[2] for values in found.values()
    ]
    assert [one["rows"] for one in numbers["groups"]] == [10, 10, 10]
    assert numbers["groups"][2]["value"] == "(empty)"
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.parametrize("kind", ["label sets", "rankings"])  # others make no mistake here
def test_standard_errors_are_over_rows(kind, models, folder, tmp_path, call):
    model, page = models(kind), tmp_path / "page.html"
    out = json.loads(call("report", model, folder / "test.csv", "-o", page, "--json")[1])
    rows = []
    half = {name: cells[N // 2 :] for name, cells in COLUMNS.items()}
    for i in range(N // 2):  # a table for each row
        write_rows([{k: v[i : i + 1] for k, v in half.items()}], str(tmp_path / "one.csv"), "csv")
        rows.append(json.loads(call("evaluate", model, tmp_path / "one.csv", "--json")[1]))
    for name, error in out["standard_errors"].items():
        each = [one["metrics"][name] for one in rows]
        assert_allclose(error, np.std(each, ddof=1) / np.sqrt(len(each)), atol=1e-12)


def test_standard_error_of_numbers_is_that_of_many_tables():
    rng, errors = np.random.default_rng(0), []
    truth = rng.standard_normal((400, 40, 1))
    found = truth + 0.5 * rng.standard_normal(truth.shape)
    for one in zip(truth, found, strict=True):
        errors.append(list(Scores(Numbers(), *one).metrics.values()))
    guesses = [list(Scores(Numbers(), truth[i], found[i]).errors(40).values()) for i in range(15)]
    assert_allclose(np.mean(guesses, axis=0), np.std(errors, axis=0), rtol=0.15)


def test_baselines_are_the_constant_predictions_of_training(models, folder, tmp_path, call):
    Y = np.column_stack([COLUMNS["y"], COLUMNS["z"]])
    test, page = folder / "test.csv", tmp_path / "page.html"
    out = json.loads(call("report", models("numbers"), test, "-o", page, "--json")[1])
    assert out["baseline"]["name"] == "the mean"
    rmse = np.sqrt(np.mean((Y[N // 2 :] - Y.mean(axis=0)) ** 2))
    assert_allclose(out["baseline"]["metrics"]["rmse"], rmse)
    out = json.loads(call("report", models("classes"), test, "-o", page, "--json")[1])
    words = COLUMNS["word"]
    most = max(set(words), key=words.count)
    share = np.mean(np.array(words[N // 2 :]) == most)
    assert_allclose(out["baseline"]["metrics"]["accuracy"], share)


@pytest.mark.parametrize(
    ("outputs", "Y", "cells"),
    [
        (Outputs(["a", "b"], Numbers()), np.array([[1.0, 2], [3, 6]]), {"a": 2.0, "b": 4.0}),
        (SETS, sparse.csr_matrix([[1.0, 0], [0, 1], [0, 1]]), {"t": "q"}),
        (SETS, sparse.csr_matrix((2, 2)), {"t": ""}),
        (
            Outputs(["p", "q"], LabelSets(["p", "q"])),
            sparse.csr_matrix([[1.0, 1]]),
            {"p": 1, "q": 1},
        ),
        (
            Outputs(["r"], Rankings(["p", "q"])),
            np.array([[0.0, 1], [1, 0], [0, 1]]),
            {"r": "p>q"},
        ),
        (Outputs(["p", "q"], Rankings(["p", "q"], 1)), np.array([[1.0, 0]]), {"p": 2, "q": 1}),
        (Outputs(["w"], Strings()), ["b", "a", "a"], {"w": "a"}),
    ],
)
def test_a_baseline_survives_the_file(outputs, Y, cells):
    record = json.loads(json.dumps(outputs.baseline(Y)))
    assert record["cells"] == cells
    _, output = outputs.baseline_output(record)
    assert outputs.cells(output) == {name: [value] for name, value in cells.items()}


def test_old_files_have_no_baseline_and_damaged_ones_say_so():
    outputs = Outputs(["a"], Numbers())
    assert outputs.baseline_output(None) is None
    with pytest.raises(ValueError, match="baseline in the model's file"):
        outputs.baseline_output({"name": "the mean", "cells": {"b": 1.0}})


def test_names_are_escaped(tmp_path, call):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40, 2))
    tags = [f"{EVIL}" if a > 0 else "plain" for a in X[:, 0]]
    rows = {EVIL: X[:, 0].tolist(), "x2": X[:, 1].tolist(), "tags": tags}
    table, model, page = tmp_path / "t.csv", tmp_path / "m.skout", tmp_path / "page.html"
    write_rows([rows], str(table), "csv")
    words = ["--target", "tags", "--output", "label_sets", "--alpha", "0.01", "-o", model]
    assert call("fit", table, *words)[0] == 0
    assert call("report", model, table, "--by", "tags", "-o", page, "--train", table)[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert html.escape(EVIL) in text
    assert visible(text).count("alert('x')") > 3  # as a column, a group and in examples


def test_examples_are_the_worst_and_the_best_rows(models, folder, tmp_path, call):
    page = tmp_path / "page.html"
    call("report", models("numbers"), folder / "test.csv", "-o", page)
    shown = re.findall(r"row ([\d,]+), RMSE <data value=\"([^\"]+)\"", page.read_text())
    call("predict", models("numbers"), folder / "test.csv", "-o", tmp_path / "p.csv")
    found = np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1)
    truth = np.column_stack([COLUMNS["y"], COLUMNS["z"]])[N // 2 :]
    each = np.sqrt(np.mean((truth - found) ** 2, axis=1))
    rows = [int(row) - 1 for row, _ in shown]
    assert_allclose([float(value) for _, value in shown], each[rows])
    assert_array_equal(rows[:6], np.argsort(-each)[:6])
    assert_array_equal(rows[6:], np.argsort(each)[:6])


def test_unknown_labels_are_shown(models, tmp_path, call):
    rows = {name: cells[:4] for name, cells in COLUMNS.items()} | {"tags": ["t0;new"] * 4}
    write_rows([rows], str(tmp_path / "t.csv"), "csv")
    said = json.loads(call("evaluate", models("label sets"), tmp_path / "t.csv", "--json")[1])
    code, out, _ = call(
        "report", models("label sets"), tmp_path / "t.csv", "-o", tmp_path / "p.html", "--json"
    )
    assert code == 0
    assert json.loads(out)["metrics"] == said["metrics"]
    assert '<span class="chip miss">new</span>' in (tmp_path / "p.html").read_text()


def test_a_learning_curve_ends_at_the_model_itself(models, folder, tmp_path, call):
    words = [folder / "test.csv", "-o", tmp_path / "p.html", "--json"]
    model = models("numbers")
    out = json.loads(call("report", model, *words, "--train", folder / "train.csv")[1])
    sizes = [one["rows"] for one in out["learning_curve"]]
    assert sizes == [8, 15, 30, 60]
    assert_allclose(out["learning_curve"][-1]["score"], out["metrics"]["rmse"], rtol=1e-6)
    assert out["learning_curve"][0]["score"] > out["learning_curve"][-1]["score"]
    assert "training rows" in visible((tmp_path / "p.html").read_text())
    assert json.loads(call("report", model, *words)[1])["learning_curve"] == []


def test_a_learning_curve_of_a_tuned_model(models, folder, tmp_path, call):
    words = [folder / "test.csv", "-o", tmp_path / "p.html", "--json"]
    out = json.loads(call("report", models("tuned"), *words, "--train", folder / "train.csv")[1])
    assert len(out["learning_curve"]) == 4
    assert_allclose(out["learning_curve"][-1]["score"], out["metrics"]["example_f1"], atol=1e-6)


def test_inputs_that_matter_come_first():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 4))
    y = 3 * X[:, 2] + X[:, 1]
    model = skout.KernelRidge("linear", alpha=1e-6, fit_intercept=True).fit(X[:100], y[:100])
    page = model_report(model, X[100:], y[100:])
    part = page.partition("<h2>What matters</h2>")[2].partition("</section>")[0]
    names = re.findall(r"<tr><td>(x\d)</td>", part)
    assert names[:2] == ["x2", "x1"]
    losses = [float(value) for value in re.findall(r'<data value="([^"]+)"', part)]
    # shuffled, 3 x is off by sqrt(2 * 9 / 3)
    assert_allclose(losses[0], np.sqrt(6), rtol=0.2)
    assert_allclose(losses[2:], 0.0, atol=1e-3)


def test_shuffling_changes_one_column_only():
    X, order = np.arange(12.0).reshape(4, 3), np.array([2, 0, 3, 1])
    wanted = X.copy()
    wanted[:, 1] = X[order, 1]
    assert_array_equal(_shuffled(X, 1, order), wanted)
    assert_array_equal(_shuffled(sparse.csr_matrix(X), 1, order).toarray(), wanted)
    columns = {f"c{j}": X[:, j] for j in range(3)}
    assert_array_equal(np.column_stack(list(_shuffled(columns, 1, order).values())), wanted)
    assert _shuffled(["a", "b", "c", "d"], 0, order) == ["c", "a", "d", "b"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_shuffling_frames(library):
    values = {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    order = np.array([2, 0, 1])
    if library == "pandas":
        frame = pd.DataFrame(values, index=[5, 6, 7])
        found = _shuffled(frame, 1, order)
        assert list(found.index) == [5, 6, 7]
        assert found["b"].tolist() == ["z", "x", "y"]
        assert frame["b"].tolist() == values["b"]
    else:
        frame = pl.DataFrame(values) if library == "polars" else pa.table(values)
        found = _shuffled(frame, 1, order)
        lists = found["b"].to_list() if library == "polars" else found["b"].to_pylist()
        assert lists == ["z", "x", "y"]
    assert list(found["a"]) == [1, 2, 3] or library == "pyarrow"


def test_many_columns_are_limited(monkeypatch):
    monkeypatch.setattr(importance, "_COLUMNS", 2)
    X = np.random.default_rng(0).uniform(-1, 1, (60, 5)) * [1, 2, 1, 3, 1]
    model = skout.KernelRidge("linear").fit(X, X[:, 3])
    for rows in (X, sparse.csr_matrix(X)):
        page = model_report(model, rows, X[:, 3])
        assert "2 columns of 5" in page
        part = page.partition("<h2>What matters</h2>")[2].partition("</section>")[0]
        assert sorted(re.findall(r"<tr><td>(x\d)</td>", part)) == ["x1", "x3"]


def test_groups_are_few():
    values = [str(v) for v in range(100)]
    found = _grouped(values)
    assert [name for name, _ in found] == ["0 to 19.8", "19.8 to 39.6", "39.6 to 59.4"] + [
        "59.4 to 79.2",
        "79.2 to 99",
    ]
    assert_array_equal(np.concatenate([rows for _, rows in found]), np.arange(100))
    words = [f"w{v}" for v in range(30)] + ["often"] * 3
    found = _grouped(words)
    assert len(found) == 13
    assert found[0][0] == "often"
    assert found[-1][0] == "(19 others)"
    assert_array_equal(np.sort(np.concatenate([rows for _, rows in found])), np.arange(33))


def rows_of_numbers(n=400):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def promised(page):
    """Return the shares of the table of calibration."""
    part = page.partition("<h2>Calibration</h2>")[2].partition("</section>")[0]
    rows = re.findall(r"<tr><td>([\d.]+)%</td><td>([\d.]+)%", part)
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("calibrated", [True, False])
def test_intervals_hold_what_they_promise(calibrated):
    X, y = rows_of_numbers()
    model = skout.KernelRidge("gaussian", alpha=1e-3).fit(X[:150], y[:150])
    if calibrated:
        model.calibrate(X[150:250], y[150:250])
    page = model_report(model, X[250:], y[250:])
    found = promised(page)
    assert_array_equal(found[:, 0], [50, 80, 90, 95])
    assert_allclose(found[:, 1], found[:, 0], atol=12)
    if calibrated:
        lower, upper = model.predict_interval(X[250:], 0.9)
        inside = np.mean((lower <= y[250:]) & (y[250:] <= upper))
        assert_allclose(found[2, 1], 100 * inside, atol=0.051)


def test_sets_hold_what_they_promise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 1))
    Y = np.eye(4)[np.clip(np.round(X[:, 0] + rng.normal(0, 0.5, 300)) + 1, 0, 3).astype(int)]
    model = skout.iokr("gaussian", "linear", alpha=1e-2).fit(X[:100], Y[:100])
    sets = skout.ConformalSets(model).calibrate(X[100:200], Y[100:200])
    found = promised(model_report(sets, X[200:], Y[200:], kind="label_sets"))
    wanted = [
        sets.evaluate(X[200:], Y[200:], coverage=c)["coverage"] for c in (0.5, 0.8, 0.9, 0.95)
    ]
    assert_allclose(found[:, 1], 100 * np.array(wanted), atol=0.051)


def test_probabilities_of_classes():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 1))
    y = np.where(rng.random(300) < 1 / (1 + np.exp(-3 * X[:, 0])), "yes", "no")
    model = skout.KernelClassifier("gaussian", loss="logistic", alpha=1e-3).fit(X[:150], y[:150])
    found = promised(model_report(model, X[150:], y[150:], kind="classes"))
    assert len(found) == 5
    sure = model.predict_proba(X[150:]).max(axis=1)
    assert_allclose(found[:, 0].mean(), 100 * sure.mean(), atol=0.1)
    assert_allclose(found[:, 1].mean(), 100 * np.mean(model.predict(X[150:]) == y[150:]), atol=0.1)


def test_frames_of_pandas_name_columns(tmp_path):
    X, y = rows_of_numbers(80)
    frame = pd.DataFrame({"angle": X[:, 0], "noise": y}, index=np.arange(80) + 7)
    target = pd.DataFrame({"height": y, "depth": -y}, index=frame.index)
    model = skout.KernelRidge("gaussian", alpha=1e-3).fit(frame[:50], target[:50])
    path = tmp_path / "page.html"
    page = model_report(
        model, frame[50:], target[50:], train=(frame[:50], target[:50]), title="Waves", path=path
    )
    assert path.read_text(encoding="utf-8") == page
    text = visible(page)
    assert "Waves" in text
    assert "angle" in text
    assert re.search(r"height [-\d.]+, depth [-\d.]+", text)
    assert "the mean" in text
    assert "Learning curve" in text


def test_a_report_in_python_has_the_numbers_of_the_command(models, folder, tmp_path, call):
    code, out, _ = call(
        "report", models("rankings"), folder / "test.csv", "-o", tmp_path / "p.html", "--json"
    )
    assert code == 0
    model = skout.load(models("rankings"))
    record = skout.persistence.describe(models("rankings"))["about"]["metadata"]["command_line"]
    X = np.column_stack([COLUMNS[f"x{j}"] for j in (1, 2, 3)])[N // 2 :]
    scaled = (X - record["inputs"]["means"]) / record["inputs"]["scales"]
    ranks = np.column_stack([COLUMNS[f"rank_{c}"] for c in "abc"])[N // 2 :]
    page = model_report(model, scaled, ranks, kind="rankings", labels=["a", "b", "c"])
    said = json.loads(out)["metrics"]
    assert {name: values[0] for name, values in metrics_in(page).items()} == said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["empty.csv"], "empty.csv is empty"),
        (["header.csv"], "has columns, but no rows"),
        (["few.csv"], "has no column 'x2'"),
        (["test.csv", "--by", "sid"], "--by: there is no column 'sid'. Did you mean 'side'?"),
        (["nothing.csv"], "There is no file"),
        (["test.csv", "-o", "page.txt"], "--out must end in .html"),
        (["test.csv", "--train", "few.csv"], "has no column 'x2'"),
    ],
)
def test_mistakes_are_one_line(words, message, models, folder, tmp_path, call, monkeypatch):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("x1,x2,x3,tags\n")
    (tmp_path / "few.csv").write_text("x1,x3,tags\n1,2,t0\n")
    (tmp_path / "test.csv").write_bytes((folder / "test.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    code, out, err = call("report", models("label sets"), *words)
    assert (code, out) == (1, "")
    assert err.startswith("skout: ")
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.glob("*.html"))


def test_mistakes_in_python():
    X, y = rows_of_numbers(30)
    model = skout.KernelRidge("gaussian").fit(X, y)
    with pytest.raises(ValueError, match="X is empty"):
        model_report(model, X[:0], y[:0])
    with pytest.raises(ValueError, match=r"X and Y must be of equal length\. Got 30 and 29"):
        model_report(model, X, y[1:])
    with pytest.raises(ValueError, match=r"X and by\['side'\] must be of equal length"):
        model_report(model, X, y, by={"side": ["a"]})
    with pytest.raises(ValueError, match="Did you mean 'numbers'"):
        model_report(model, X, y, kind="number")
    quantiles = skout.JointQuantileRegressor([0.1, 0.5, 0.9]).fit(X, y)
    with pytest.raises(ValueError, match=r"predicts shape \(30, 3\), and Y has shape \(30, 1\)"):
        model_report(quantiles, X, y)


def test_one_row_has_no_standard_error(models, tmp_path, call):
    rows = {name: cells[:1] for name, cells in COLUMNS.items()}
    write_rows([rows], str(tmp_path / "one.csv"), "csv")
    for kind in ("label sets", "numbers"):
        words = [models(kind), tmp_path / "one.csv", "-o", tmp_path / "p.html", "--json"]
        code, out, err = call("report", *words)
        assert (code, err) == (0, "")
        assert set(json.loads(out)["standard_errors"].values()) == {None}


def test_scores_below_zero_stay_below_zero():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    ranks = np.argsort(np.argsort(X, axis=1), axis=1)
    model = skout.iokr("gaussian", "kendall", alpha=1e-3).fit(X[:40], 2 - ranks[:40])  # reversed
    page = model_report(model, X[40:], ranks[40:], train=(X[:40], 2 - ranks[:40]))
    assert metrics_in(page)["kendall_tau"][0] < -0.5
    worst = re.findall(r"row \d+, Kendall's tau <data value=\"([^\"]+)\"", html.unescape(page))
    assert float(worst[0]) == -1.0
    part = page.partition("<h2>Learning curve</h2>")[2].partition("</section>")[0]
    points = [float(value) for value in re.findall(r'<data value="([^"]+)"', part)]
    assert_allclose(points[-1], metrics_in(page)["kendall_tau"][0])
