"""Several targets of different kinds: one reading of the inputs, one file, each its own metric."""

import csv
import json
import re

import numpy as np
import pytest

import skout
from skout import TableEncoder, Tuned, TunedTargets
from skout.apps.tables.encoder import EncodedTable

N = 60
RNG = np.random.default_rng(0)
SIZE = RNG.uniform(size=N).round(3)
COLOUR = np.array(["red", "blue", "green"])[RNG.integers(3, size=N)]
TABLE = {"size": SIZE, "colour": COLOUR, "year": 1990 + RNG.integers(5, size=N)}
SETS = np.array(["a, b", "a", "b, c", "c"], dtype=object)[(4 * SIZE).astype(int)]
PRICE = np.where(np.arange(N) == 3, np.nan, 10.0 * SIZE)
CLASS = np.where(COLOUR == "red", "hot", "cold").astype(object)
TARGETS = {"price": PRICE, "tags": SETS, "heat": CLASS}
TUNED = Tuned(budget="6 fits", random_state=0)


@pytest.fixture(scope="module")
def model():
    return TunedTargets(TUNED).fit(TABLE, TARGETS)


def test_each_target_is_of_its_kind(model):
    kinds = {name: one.kind_ for name, one in model.models_.items()}
    assert kinds == {"price": "numbers", "tags": "label_sets", "heat": "classes"}
    assert model.models_["price"].n_rows_ == N - 1  # one has no price
    assert model.models_["heat"].n_rows_ == N
    scores = model.score(TABLE, TARGETS)
    assert min(scores.values()) > 0.8
    assert model.summary().count("\n") == 2


def test_predictions_are_written_as_the_targets_were(model):
    found = model.predict(TABLE)
    assert list(found) == list(TARGETS)
    assert set(found["tags"]) <= {"a, b", "a", "b, c", "c", "b", "a, b, c", "a, c"}
    assert set(found["heat"]) == {"hot", "cold"}
    assert found["price"].shape == (N,)
    chances = model.predict_proba(TABLE)
    assert {name: table.shape for name, table in chances.items()} == {
        "tags": (N, 3),
        "heat": (N, 2),
    }
    assert model.models_["tags"].labels_ == ["a", "b", "c"]
    assert model.models_["heat"].classes_.tolist() == ["cold", "hot"]


def test_the_inputs_are_read_once(model, monkeypatch):
    first, *others = (one.encoder_ for one in model.models_.values())
    assert all(one is first for one in others)
    calls = []
    plain = TableEncoder.transform
    monkeypatch.setattr(TableEncoder, "transform", lambda *a: calls.append(1) or plain(*a))
    together = model.predict(TABLE)
    assert len(calls) == 1
    alone = model.models_["price"].predict(TABLE)
    np.testing.assert_array_equal(together["price"], alone)


def test_models_are_those_of_one_target(model):
    rows = ~np.isnan(PRICE)
    encoder = TableEncoder()
    encoded = EncodedTable.of(encoder.fit_transform(TABLE), encoder)[rows]
    alone = Tuned("numbers", budget="2 fits", random_state=0).fit(encoded, PRICE[rows])
    np.testing.assert_allclose(alone.predict(TABLE), model.predict(TABLE)["price"])


def test_saved_and_loaded(model, tmp_path):
    skout.save(model, tmp_path / "m.skout")
    loaded = skout.load(tmp_path / "m.skout")
    for name, found in model.predict(TABLE).items():
        np.testing.assert_array_equal(loaded.predict(TABLE)[name], found)


def test_kinds_overrule_the_guess():
    tuned = Tuned(budget="2 fits", random_state=0, kinds={"year": "category"})
    model = TunedTargets(tuned, kinds={"tags": "classes"}).fit(TABLE, {"tags": SETS})
    assert model.models_["tags"].kind_ == "classes"
    assert model.encoder_.kinds_["year"] == "category"


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match="Y must be a data frame or a dict"):
        TunedTargets(TUNED).fit(TABLE, SETS)
    with pytest.raises(ValueError, match="kinds: there is no column 'tag'"):
        TunedTargets(TUNED, kinds={"tag": "classes"}).fit(TABLE, TARGETS)
    with pytest.raises(ValueError, match=r"Y\['price'\] must have 60 rows"):
        TunedTargets(TUNED).fit(TABLE, {"price": PRICE[:10]})


# The command line ---------------------------------------------------------------------------------


@pytest.fixture
def call(capsys):
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    from skout.apps import cli

    def run(*words):
        with pytest.raises(SystemExit) as end:
            cli.main([str(word) for word in words])
        out = capsys.readouterr()
        return end.value.code or 0, out.out, out.err

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    columns = {**TABLE, **TARGETS, "likes_tea": SIZE > 0.3, "likes_pie": SIZE < 0.7}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if cell != cell else cell for cell in row])
    return path


WORDS = ["--target", "price", "--target", "tags", "--target", "heat", "--target", "likes_*"]


def test_all_commands_on_targets_of_three_kinds(table, tmp_path, call):
    model, page = tmp_path / "m.skout", tmp_path / "report.html"
    code, out, _ = call("look", table, *WORDS, "--json")
    kinds = {one["column"]: one["kind"] for one in json.loads(out)}
    assert code == 0
    assert [kinds[name] for name in TARGETS] == ["numbers", "label_sets", "classes"]
    code, out, err = call("fit", table, *WORDS, "--budget", "8 fits", "-o", model, "--json")
    assert code == 0, err
    done = json.loads(out)
    assert [one["output"] for one in done["targets"]] == [
        *("numbers", "label_sets", "classes", "label_sets")
    ]
    assert done["targets"][0]["rows_left_out"] == 1
    assert "size" in done["targets"][0]["matter_most"]
    code, out, _ = call("evaluate", model, table, "--json")
    assert json.loads(out)["targets"]["price"]["metrics"]["r2"] > 0.5
    code, out, _ = call("predict", model, table)
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["price", "tags", "heat", "likes_tea", "likes_pie"]
    assert len(rows) == N
    code, out, err = call("report", model, table, "-o", page)
    assert code == 0, err
    text = page.read_text()
    for j, name in enumerate(TARGETS):  # an overview with links, and a part of each
        assert f'<a href="#target-{j}">{name}</a>' in text
        assert f'id="target-{j}">{name}</h2>' in text
    for words in (("rank", model, table), ("export", model, "-o", tmp_path / "m.onnx")):
        code, _, err = call(*words)
        assert (code, "for models of one target" in err) == (1, True)
    code, out, _ = call("inspect", model)
    assert all(f"score of {name} " in out for name in TARGETS)
    assert skout.load(model).models_["tags"].labels_ == ["a", "b", "c"]
    code, _, err = call("card", model, "-o", tmp_path / "card.md")
    assert code == 0, err
    card = (tmp_path / "card.md").read_text()
    assert "It predicts numbers: price; label sets: tags; classes: heat; label sets: likes" in card
    assert all(f"| {name}: " in card for name in TARGETS)


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_column_is_warned_of_once(table, tmp_path, call):
    days = re.sub(r",(199\d),", r",\1-05-01,", table.read_text())
    table.write_text(days.replace(",1991-05-01,", ",1991-05-01 to 1991-06-01,", 1))
    model = tmp_path / "m.skout"
    code, _, err = call("fit", table, "--target", "price", "--budget", "2 fits", "-o", model)
    assert (code, err.count("column 'year'")) == (0, 1)
    code, _, err = call("report", model, table, "-o", tmp_path / "page.html")
    assert (code, err.count("column 'year'")) == (0, 1)


def test_kinds_on_the_command_line(table, tmp_path, call):
    words = ["--target", "tags", "--kind", "tags=category", "--kind", "year=category"]
    more = ["--kind", "heat=drop", "--budget", "1 fit", "-o", tmp_path / "m", "--json"]
    code, out, err = call("fit", table, *words, *more)
    assert code == 0, err
    assert json.loads(out)["output"] == "classes"
    encoder = skout.load(tmp_path / "m").encoder_
    assert encoder.kinds_["year"] == "category"
    assert "heat" not in encoder.kinds_


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--target", "price", "--kind", "yeer=category"],
            "--kind: there is no column 'yeer'.",
        ),
        (["--target", "price", "--kind", "year"], "--kind must be such as artist=category"),
        (["--target", "price", "--kind", "year=sort"], "--kind year must be one of"),
        (["--target", "price", "--target", "tags", "--no-tune"], "There are 2 targets"),
        (["--target", "price", "--target", "tags", "--output", "numbers"], "is for one target"),
        (["--target", "price", "--target", "price,tags"], "'price' is in two targets"),
    ],
)
def test_mistakes_are_one_line(words, said, table, tmp_path, call):
    code, _, err = call("fit", table, *words, "-o", tmp_path / "m")
    assert (code, err.count("\n")) == (1, 1)
    assert said in err
