"""The command line and the demo behind it, on real models (`--quick`)."""

import csv
import io
import json
import re
import runpy
import sys
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal

typer_testing = pytest.importorskip("typer.testing")
image = extra("matplotlib.image")

import skout  # noqa: E402
from skout.apps import cli  # noqa: E402
from skout.apps.cli import about  # noqa: E402
from skout.apps.cli.demo import run_demo  # noqa: E402
from skout.apps.cli.demo.page import first_of_each  # noqa: E402
from skout.apps.cli.demo.run import Halves, load_halves, same_digit  # noqa: E402

METHODS = ["IOKR", "SIOKR", "ISOKR", "SISOKR", "FOREST"]
N_SHOWN = 10  # one of each digit
N_TRAIN, N_TEST = 400, 150  # of --quick


def pixels_of(source):
    """The picture in the address of an <img>: (8, 8, 4), in [0, 1]."""
    head, data = source.split(",")
    assert head == "data:image/png;base64"
    return image.imread(io.BytesIO(b64decode(data, validate=True)))


class Elements(HTMLParser):
    """All (tag, attributes) of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One quick demo through the command line: its output and its two files."""
    folder = tmp_path_factory.mktemp("demo")
    page = folder / "page.html"
    words = ["demo", "--quick", "--seed", "3", "--out", str(page)]
    result = typer_testing.CliRunner().invoke(cli.build_app(), words, catch_exceptions=False)
    assert result.exit_code == 0
    return result, page, folder / "page.png"


@pytest.fixture(scope="module")
def run():
    """The same demo through the function."""
    return run_demo(seed=3, quick=True, progress=False)


def columns(quick):
    """The head of the printed table."""
    return re.split(r"  +", quick[0].stdout.splitlines()[1].strip())


def test_demo_prints_one_row_per_method(quick):
    lines = quick[0].stdout.splitlines()
    names = ["kernel loss", "pixel error", "right digit", "fit s", "predict s", "model MB"]
    assert columns(quick) == ["method", *names]
    assert [line.split()[0] for line in lines[3:8]] == METHODS
    assert len({len(line) for line in lines[:8]}) == 1  # aligned
    assert lines[-1].startswith("wrote ")


def test_demo_figures_have_their_names_with_them_on_a_phone(quick):
    """Where there is no room for columns, each cell says which column it was."""
    text = quick[1].read_text(encoding="utf-8")
    names = [attrs["data-name"] for tag, attrs in Elements(text).found if "data-name" in attrs]
    assert names == columns(quick)[1:] * len(METHODS)
    narrow = text.split("@media (max-width: 40rem)")[1]
    assert "content: attr(data-name)" in narrow
    assert ".digits { min-width: 0; }" in narrow


def test_demo_figures_make_sense(run):
    figures = [method.metrics for method in run.methods]
    for m in figures:
        assert 0.05 < m["kernel_loss"] < 0.6  # a random training half has about 0.8
        assert 0.01 < m["pixel_error"] < 0.1
        assert 0.5 < m["right_digit"] <= 1
        assert m["fit_seconds"] > 0
        assert m["predict_seconds"] > 0
    stored = dict(zip(METHODS, (m["megabytes"] for m in figures), strict=True))
    # a sketched output keeps far less
    assert max(stored["ISOKR"], stored["SISOKR"]) < stored["SIOKR"] / 4
    assert stored["SIOKR"] < stored["IOKR"]


def test_a_demo_says_how_to_do_it_again(run):
    assert run.seed == 3
    assert {"skout", "numpy", "scipy", "scikit-learn", "python"} == set(run.versions)
    assert run.settings["n_train"] == N_TRAIN
    assert run.settings["output_gamma"] > 0
    assert [method.name for method in run.methods] == METHODS
    for method in run.methods:
        assert len(method.chosen) == 2


def test_page_is_self_contained(quick):
    text = quick[1].read_text(encoding="utf-8")
    assert "://" not in text
    assert "$" not in text  # every placeholder is filled
    elements = Elements(text).found
    assert not {tag for tag, _ in elements} & {"script", "link", "iframe", "object", "base"}
    assert "url(" not in text
    assert "@import" not in text
    sources = [attrs["src"] for tag, attrs in elements if tag == "img"]
    assert len(sources) == N_SHOWN * (2 + len(METHODS)) + 2
    for source in sources:
        assert pixels_of(source).shape == (8, 8, 4)
    for tag, attrs in elements:
        assert tag != "img" or attrs["alt"]


def test_page_marks_wrong_completions(quick, run):
    elements = Elements(quick[1].read_text(encoding="utf-8")).found
    marks = [attrs.get("class") for tag, attrs in elements if tag == "td"]
    marks = [mark == "right" for mark in marks if mark in ("right", "wrong")]
    shown = first_of_each(run.test.digit)
    assert_array_equal(np.reshape(marks, (N_SHOWN, 5)).T, [m.right[shown] for m in run.methods])
    assert 0 < np.mean(marks) < 1


def test_page_shows_the_pixels(quick, run):
    elements = Elements(quick[1].read_text(encoding="utf-8")).found
    sources = [attrs["src"] for tag, attrs in elements if tag == "img"]
    truth = pixels_of(sources[1])[..., :3]
    first = first_of_each(run.test.digit)[0]
    whole = np.concatenate([run.test.upper[first], run.test.lower[first]]).reshape(8, 8)
    assert np.corrcoef(truth.mean(axis=2).ravel(), whole.ravel())[0, 1] < -0.999  # dark ink


def test_picture_can_be_read(quick):
    pixels = image.imread(quick[2])[..., :3]
    assert pixels.shape[1] > 2 * pixels.shape[0]  # wide: a row a method, a column a digit
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_same_seed_same_completions(run):
    again = run_demo(seed=3, quick=True, progress=False)
    for ours, theirs in zip(run.methods, again.methods, strict=True):
        assert ours.chosen == theirs.chosen
        for key in ("kernel_loss", "pixel_error", "right_digit"):
            assert_allclose(ours.metrics[key], theirs.metrics[key], rtol=1e-10)


def test_metrics_follow_their_definitions(run):
    gamma = run.settings["output_gamma"]
    for method in run.methods:
        squares = [
            sum((a - b) ** 2 for a, b in zip(y, guess, strict=True))
            for y, guess in zip(run.test.lower, method.lower, strict=True)
        ]
        losses = [2 - 2 * np.exp(-gamma * s) for s in squares]
        assert_allclose(method.metrics["kernel_loss"], np.mean(losses), rtol=1e-10)
        assert_allclose(method.metrics["pixel_error"], np.mean(squares) / 32, rtol=1e-10)
        error = np.std(losses, ddof=1) / np.sqrt(len(losses))
        assert_allclose(method.metrics["kernel_loss_standard_error"], error, rtol=1e-6)


def test_completions_are_training_halves(run):
    train, _ = load_halves(N_TRAIN, N_TEST, 3)
    known = {half.tobytes() for half in train.lower}
    for method in run.methods:
        assert all(half.tobytes() in known for half in method.lower)


def test_parts_are_disjoint_digits():
    train, test = load_halves(1347, 450, 0)
    whole = [np.hstack([part.upper, part.lower]) for part in (train, test)]
    assert len(np.unique(np.vstack(whole), axis=0)) == 1797  # all digits differ
    assert train.upper.shape == (1347, 32)
    assert 0 <= whole[0].min() < whole[0].max() == 1


def test_same_digit_looks_at_where_a_half_comes_from():
    halves = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    train = Halves(halves, halves, np.array([4, 7, 9]))
    guess = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert_array_equal(same_digit(guess, np.array([4, 7, 7, 9]), train), [True, False, True, True])


@pytest.mark.parametrize("terminal", [True, False])
def test_table_on_a_terminal_and_in_a_file(run, terminal, monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
    about._show_demo(run)
    text = capsys.readouterr().out
    assert ("\x1b[1m" in text) == terminal
    assert all(name in text for name in METHODS)
    assert "mean squared" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_bar_on_a_terminal_only(terminal, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    run_demo(seed=3, quick=True)
    assert ("SISOKR" in stream.getvalue()) == terminal
    assert ("100%" in stream.getvalue()) == terminal


def test_demo_without_matplotlib_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = 'skout: The demo draws with matplotlib: pip install "skout[plot]"\n'
    assert call(capsys, "demo", "--out", str(tmp_path / "page.html")) == (1, "", message)
    assert not list(tmp_path.iterdir())


def call(capsys, *words):
    """Run main; return the exit code and what it wrote."""
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def test_version_and_help(capsys):
    import skout

    assert call(capsys, "--version") == (None, f"skout {skout.__version__}\n", "")
    for words in ([], ["--help"], ["demo", "--help"]):
        code, out, _ = call(capsys, *words)
        assert not code
        assert "demo" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--out", "no/such/page.html"], "--out: there is no folder 'no/such'."),
        (["demo", "--out", "page.png"], "--out must end in .html. Got 'page.png' instead."),
        (["demo", "--sed", "1"], "--sed"),
        (["demo", "--seed", "-1"], "--seed"),
        (["dmo"], "dmo"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert code in (1, 2)
    assert out == ""
    assert err.startswith("skout: ")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_fault_is_one_line_and_debug_shows_where(capsys, tmp_path, monkeypatch):
    def broken(**_):
        raise KeyError("lost")

    monkeypatch.setattr("skout.apps.cli.demo.run_demo", broken)
    words = ["demo", "--out", str(tmp_path / "page.html")]
    message = "skout: KeyError: 'lost' (--debug prints the traceback)\n"
    assert call(capsys, *words) == (1, "", message)
    code, _, err = call(capsys, *words, "--debug")
    assert code == 1
    assert "Traceback" in err
    assert "in broken" in err


@pytest.mark.parametrize("extra", ["typer", "rich"])
def test_missing_extra_is_named(extra, monkeypatch):
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(SystemExit, match=r'pip install "skout\[cli\]"'):
        cli.main(["--version"])


def test_python_m_skout_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["skout", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("skout", run_name="__main__")
    assert not end.value.code
    assert capsys.readouterr().out == f"skout {skout.__version__}\n"


# skout inspect ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A file, and its description."""
    path = tmp_path_factory.mktemp("saved") / "model.skout"
    X = np.arange(12.0)[:, None]
    model = skout.iokr("gaussian", "tanimoto").fit(X, np.where(X < 6, [[1, 0]], [[0, 1]]))
    skout.save(model, path, metadata={"note": "made [bold]for\x1b[31m cars"})
    return path, skout.persistence.describe(path)


def test_films_are_written(tmp_path, capsys):
    code, out, _ = call(capsys, "datasets", "films", str(tmp_path))
    assert not code
    assert out.splitlines() == [
        f"wrote 450 films to {tmp_path / 'films.csv'}",
        f"wrote 150 films to {tmp_path / 'new_films.csv'}",
    ]
    with (tmp_path / "films.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    X, _ = skout.datasets.load("films").train
    assert [row["title"] for row in rows] == list(X["title"])


def test_a_group_without_a_command_shows_its_help(capsys):
    for group in ("models", "pool"):
        _, out, err = call(capsys, group)
        assert "Commands" in out + err
        assert "skout: " not in err


def run_words(*words):
    return typer_testing.CliRunner().invoke(cli.build_app(), words, catch_exceptions=False)


def test_inspect_prints_the_parts(saved):
    path, found = saved
    result = run_words("inspect", str(path))
    assert result.exit_code == 0
    assert re.search(r"^class +skout\.StructuredPredictor$", result.output, re.M)
    assert re.search(r"components_  float64 array, 2 x 2  32 bytes", result.output)
    assert f"size      {found['bytes'] / 1000:.3g} kB" in result.output
    # what a file says is shown as it is, and cannot steer the terminal
    assert "made [bold]for\\u001b[31m cars" in result.output
    assert "\x1b" not in result.output


def test_inspect_as_json(saved):
    path, found = saved
    result = run_words("inspect", str(path), "--json")
    assert json.loads(result.output) == found


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"hello", "This is not a file of skout."), (None, "There is no model")],
)
def test_inspect_of_no_model_is_one_line(content, message, tmp_path, capsys):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit) as end:
        cli.main(["inspect", str(path)])
    assert end.value.code == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
