"""Model cards: the header against a parser of YAML, the numbers against the file and the report."""

import json
import re

import numpy as np
import pytest
from extras import extra

import skout
from skout.persistence import describe
from skout.persistence.card import model_card

yaml = extra("yaml")
X = np.random.default_rng(0).uniform(-1, 1, (60, 2))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The file of a model that the command line tuned, and its test table."""
    pytest.importorskip("typer")
    pytest.importorskip("uvicorn")
    from serving import COLUMNS, N, fit

    from skout.apps.cli.results import write_rows

    folder = tmp_path_factory.mktemp("card")
    half = {name: cells[N // 2 :] for name, cells in COLUMNS.items()}
    write_rows([half], str(folder / "test.csv"), "csv")
    return fit("tuned", folder), folder / "test.csv"


def header(card):
    _, found, _ = card.split("---\n", 2)
    return yaml.safe_load(found)


def call(*words):
    from skout.apps import cli

    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    return end.value.code or 0


def test_a_card_of_a_model():
    model = skout.KernelRidge("gaussian").fit(X, X[:, 0])
    card = model_card(model, license="mit", data="Points of a square")
    assert header(card) == {
        "library_name": "skout",
        "tags": ["skout", "kernel-methods"],
        "license": "mit",
    }
    assert "# KernelRidge\n" in card
    assert "Points of a square" in card
    assert "alpha: 0.001" in card
    assert "It was not measured" in card
    assert f"numpy {np.__version__}" in card


def test_a_card_loads_what_it_says(tmp_path):
    model = skout.KernelRidge("gaussian").fit(X, X[:, 0])
    skout.save(model, tmp_path / "m.skout", metadata={"where": "here"})
    card = model_card(tmp_path / "m.skout")
    assert "# m\n" in card
    assert '- where: "here"' in card
    (line,) = re.findall(r"    model = (skout\.load\(.*\))", card)
    assert line == 'skout.load("m.skout")'


def test_own_parts_are_named():
    def doubled(rows):
        return 2.0 * np.asarray(rows)

    model = skout.KernelRidge(skout.kernels.Mapped(doubled, "gaussian")).fit(X, X[:, 0])
    assert ", modules=[doubled])" in model_card(model)


def test_the_command_has_columns_rows_and_the_score(fitted, tmp_path, capsys):
    model, test = fitted
    report = tmp_path / "report.json"
    assert call("report", model, test, "-o", tmp_path / "page.html", "--json") == 0
    report.write_text(capsys.readouterr().out)
    words = ["--data", "made up", "--license", "mit", "--evaluation", report]
    assert call("card", model, "-o", tmp_path / "README.md", *words) == 0
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    said, known = json.loads(report.read_text()), describe(model)["about"]["metadata"]
    known = known["command_line"]
    (result,) = header(card)["model-index"][0]["results"]
    found = {one["name"]: one["value"] for one in result["metrics"]}
    for metric, value in said["metrics"].items():
        assert found[f"{metric}, {said['rows']} test rows"] == value
        error = said["standard_errors"][metric]
        assert f"| {metric} | {value:.4g} | {error:.4g} | {said['rows']} test rows |" in card
    validation = known["validation"]
    assert found[f"{validation['metric']}, validation"] == validation["score"]
    assert f"| {validation['standard_error']:.4g} | validation |" in card
    assert f"- {known['rows']} rows" in card
    for column in known["inputs"]["columns"]:
        assert column in card
    assert f"skout predict {model.name} new.csv" in card


def test_texts_of_a_file_are_no_markup(tmp_path):
    evil = '---\n# x\n<script>alert("x")</script> | `a` [b](c) {"'
    model = skout.KernelRidge("gaussian").fit(X, X[:, 0])
    notes = {evil: evil, "command_line": {"inputs": {"columns": [evil]}, "outputs": {"kind": evil}}}
    skout.save(model, tmp_path / "m.skout", metadata=notes)
    card = model_card(tmp_path / "m.skout", name=evil, data=evil, license=evil)
    assert header(card)["license"] == evil
    _, _, text = card.split("---\n", 2)
    assert "<script" not in text
    assert "](c)" not in text.replace("&#91;b](c)", "")
    assert not [line for line in text.splitlines() if line == "# x"]


@pytest.mark.parametrize("notes", [{"command_line": 3}, {"command_line": {"validation": [1]}}])
def test_notes_of_other_shapes_are_left_out(notes, tmp_path):
    model = skout.KernelRidge("gaussian").fit(X, X[:, 0])
    skout.save(model, tmp_path / "m.skout", metadata=notes)
    assert "## What it is" in model_card(tmp_path / "m.skout")


@pytest.mark.parametrize(
    ("content", "message"), [("no", "is no JSON"), ('{"a": 1}', "has no metrics")]
)
def test_mistakes_are_one_line(content, message, tmp_path, capsys):
    pytest.importorskip("typer")
    skout.save(skout.kernels.Gaussian(0.5), tmp_path / "m.skout")
    (tmp_path / "e.json").write_text(content)
    words = ["--evaluation", tmp_path / "e.json", "-o", tmp_path / "README.md"]
    assert call("card", tmp_path / "m.skout", *words) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "README.md").exists()
    assert call("card", tmp_path / "m.skout", "-o", tmp_path / "m.skout") == 1
    assert "which the command reads" in capsys.readouterr().err
