"""A kind of output that is not in src, in `helpers/intervals.py`, goes wherever others go."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("typer.testing")

from intervals import Intervals, Overlap

import skout
from skout import Tuned, iokr
from skout.apps import cli
from skout.apps.cli.report import model_report
from skout.apps.cli.results import write_rows
from skout.kinds import KINDS, guess_kind, kinds_of
from skout.persistence.card import model_card
from skout.testing import check_kernel, check_kind

pytestmark = pytest.mark.usefixtures("few_trees")

N, N_TRAIN = 80, 60
X = np.random.default_rng(0).uniform(size=(N, 3))
BEGIN = 60 * np.rint(6 + 8 * X[:, 0])  # a shop opens, and is open for so long
Y = np.column_stack([BEGIN, BEGIN + 60 * np.rint(2 + 4 * X[:, 1]) - 30])
TEXTS = Intervals().write(Y)
TRAIN, TEST = slice(N_TRAIN), slice(N_TRAIN, None)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(KINDS, "intervals", Intervals())


@pytest.fixture
def call(capsys):
    """Run the command line: its exit code, and what it wrote to both streams."""

    def run(*words):
        with pytest.raises(SystemExit) as end:
            cli.main([str(word) for word in words])
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


@pytest.fixture
def tables(tmp_path):
    """Return the files of training and of test rows."""
    columns = {f"x{j}": X[:, j] for j in range(3)}
    columns |= {"begin": Y[:, 0], "end": Y[:, 1], "open": np.array(TEXTS)}
    paths = []
    for name, rows in (("train", TRAIN), ("test", TEST)):
        paths.append(tmp_path / f"{name}.csv")
        write_rows([{k: v[rows].tolist() for k, v in columns.items()}], str(paths[-1]), "csv")
    return paths


def test_it_conforms():
    check_kernel(Overlap(), Y[:20])
    check_kind(Intervals(), Y[:20], TEXTS[:20])
    check_kind(Intervals(), Y[:20], Y[:20], ["begin", "end"])


def test_guesses_ask_where_it_may_be_meant():
    assert kinds_of(Y + 0.5) == ["numbers", "intervals"]
    with pytest.raises(ValueError, match="Y may be numbers or intervals: say which"):
        guess_kind(Y + 0.5)


def overlaps(true, pred):
    return [Overlap()([a], [b])[0, 0] for a, b in zip(true, pred, strict=True)]


def test_score_is_its_metric():
    model = iokr("gaussian", Overlap(), alpha=[1e-6, 1e-4]).fit(X[TRAIN], Y[TRAIN])
    assert model.cv_results_["scoring"] == "overlap"
    expected = np.mean(overlaps(Y[TEST], model.predict(X[TEST])))
    assert_allclose(model.score(X[TEST], Y[TEST]), expected)
    assert_allclose(model.score(X[TEST], Y[TEST], scoring="overlap"), expected)


def test_tuned_chooses_by_it_and_is_saved(tmp_path):
    model = Tuned("intervals", budget="3 fits", random_state=0).fit(X[TRAIN], Y[TRAIN])
    assert model.kind_ == "intervals"
    assert model.score(X[TEST], Y[TEST]) > 0.6 > model.baselines_["constant"]
    assert model.summary().startswith("overlap 0.")
    assert "the median interval 0." in model.summary()
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout", modules=[Overlap])
    assert_array_equal(again.predict(X[TEST]), model.predict(X[TEST]))
    assert again.score(X[TEST], Y[TEST]) == model.score(X[TEST], Y[TEST])


@pytest.mark.parametrize("target", ["open", "begin,end"])
@pytest.mark.parametrize("how", [["--no-tune"], ["--budget", "2 fits"]])
def test_commands(target, how, tables, tmp_path, call):
    train, test = tables
    path, out = tmp_path / "model.skout", tmp_path / "out.csv"
    words = ["--target", target, "--output", "intervals", "--inputs", "x*", *how, "-o", path]
    code, _, err = call("fit", train, *words)
    assert (code, err) == (0, "")
    assert call("predict", path, test, "-o", out)[0] == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    if target == "open":
        pred = Intervals().read([row["open"] for row in rows])
    else:
        pred = np.array([[float(row["begin"]), float(row["end"])] for row in rows])
    code, text, _ = call("evaluate", path, test, "--json")
    assert code == 0
    each = overlaps(Y[TEST], pred)
    metrics = {"overlap": np.mean(each), "exact_matches": np.mean(np.all(pred == Y[TEST], axis=1))}
    assert json.loads(text)["metrics"] == pytest.approx(metrics)
    assert np.mean(each) > 0.4
    code, text, _ = call("rank", path, test, "-k", "2")
    assert code == 0
    first = [row["candidate"] for row in csv.DictReader(io.StringIO(text)) if row["rank"] == "1"]
    assert first == Intervals().write(pred)
    assert "It predicts intervals" in model_card(path)


def test_reports(tables, tmp_path, call):
    train, test = tables
    path, page = tmp_path / "model.skout", tmp_path / "page.html"
    words = ["--target", "open", "--output", "intervals", "--inputs", "x*", "--no-tune"]
    assert call("fit", train, *words, "-o", path)[0] == 0
    code, out, err = call("report", path, test, "--train", train, "-o", page, "--json")
    assert (code, err) == (0, "")
    said, text = json.loads(out), page.read_text(encoding="utf-8")
    assert said["baseline"]["name"] == "the median interval"
    assert said["metrics"]["overlap"] > said["baseline"]["metrics"]["overlap"]
    assert '<svg viewBox="0 0 144 8"' in text
    assert "intervals: open" in text
    model = iokr("gaussian", Overlap(), alpha=1e-4).fit(X[TRAIN], Y[TRAIN])
    rows = model_report(model, X[TEST], Y[TEST], kind="intervals", train=(X[TRAIN], Y[TRAIN]))
    assert "the median interval" in rows


def test_serving(tables, tmp_path, call):
    pytest.importorskip("fastapi")
    from serving import running, served

    path = tmp_path / "model.skout"
    words = ["--target", "open", "--output", "intervals", "--inputs", "x*", "--no-tune"]
    assert call("fit", tables[0], *words, "-o", path)[0] == 0
    row = {f"x{j}": X[-1, j] for j in range(3)}
    with running(served(path)) as ask:
        _, about = ask.json("GET", "/api/model")
        _, predicted = ask.json("POST", "/api/predict", {"rows": [row]})
        _, ranked = ask.json("POST", "/api/rank", {"rows": [row], "top": 2, "draw": True})
    assert (about["outputs"]["kind"], about["outputs"]["style"]) == ("intervals", "text")
    best = ranked["rows"][0]["candidates"][0]
    assert best["candidate"] == predicted["rows"][0]["open"]
    assert best["svg"].startswith("<svg")


def test_a_cell_that_is_none_is_named(tables, tmp_path, call):
    train, _ = tables
    train.write_text(train.read_text().replace(TEXTS[3], "noon"))
    words = ["--target", "open", "--output", "intervals", "-o", tmp_path / "m"]
    code, _, err = call("fit", train, *words)
    assert code == 1
    assert "row 4 has 'noon', which is no interval as 9:30-11:00." in err


def test_the_command_finds_the_kinds_of_installed_packages(tables, tmp_path):
    """An entry point says where a kind is; no file of a model or of a table does."""
    site = tmp_path / "site"
    about = site / "shops-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shops\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[skout.kinds]\nintervals = intervals:Intervals\n")
    helpers = Path(__file__).parents[1] / "helpers"
    places = [site, helpers, Path(skout.__file__).parents[1]]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}

    def run(*words):
        command = [sys.executable, "-m", "skout", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    train, test = tables
    words = ["--target", "open", "--inputs", "x*", "--no-tune", "-o", tmp_path / "m.skout"]
    done = run("fit", train, "--output", "intervals", *words)
    assert done.returncode == 0, done.stderr
    done = run("evaluate", tmp_path / "m.skout", test, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["overlap"] > 0.4
    environment["PYTHONPATH"] = os.pathsep.join(map(str, places[1:]))  # it is not installed
    done = run("evaluate", tmp_path / "m.skout", test)
    assert "Unknown kind 'intervals'" in done.stderr
