"""Cells as people write them: sets or names, molecules, targets without a word on their kind."""

import csv
import json

import numpy as np
import pytest

from skout import TableEncoder
from skout.apps.tables.kinds import look_at
from skout.apps.tables.numerals import numeral
from skout.kinds import LabelSets

RNG = np.random.default_rng(0)
GENRES = ["Action", "Comedy", "Drama", "History", "Romance", "War"]
N = 60
SIZES = RNG.integers(1, 4, N)


def draw_sets(sign):
    sizes = RNG.integers(1, 4, N)
    drawn = [RNG.permutation(GENRES)[:size] for size in sizes]
    return [sign.join(labels) for labels in drawn]


def column(cells):
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return values


@pytest.mark.parametrize("sign", [", ", "; ", "|", " / ", "\n"])
def test_sets_are_told_by_their_elements(sign):
    look = look_at("genre", column(draw_sets(sign)))
    assert (look.kind, look.separator) == ("set", sign.strip(" "))


SURNAMES = ["Auerbach", "Bacon", "Freud", "Hockney", "Kossoff", "Riley", "Sickert"]
FIRST = ["Ann", "Bridget", "David", "Frank", "Leon", "Walter"]
TOWNS = ["Springfield", "Salem", "Dover", "Madison"]
NO_SETS = {
    "names": [f"{SURNAMES[i % 7]}, {FIRST[i % 6]}" for i in range(N)],
    "places": [f"{TOWNS[i % 4]}, {['IL', 'OR', 'NY'][i % 3]}" for i in range(N)],
    "ranges": [["$0 - $24,999", "$25,000 - $49,999", "$50,000 and up"][i % 3] for i in range(N)],
    "pairs": [["Ham/Pork", "Turkey", "Roast beef"][i % 3] for i in range(N)],
    "classes": [
        ["finance/insurance/real estate", "business/personal services", "trade"][i % 3]
        for i in range(N)
    ],
    "one pair": [["Germany", "Japan", "Japan/USA", "USA"][i % 4] for i in range(N)],
    "pollsters": [
        ["ORB", "ORB/Telegraph", "ICM", "ICM/Guardian", "BMG", "BMG/Herald", "TNS"][i % 7]
        for i in range(N)
    ],
    "events": [
        f"Art {['Music', 'Painting', 'Sculpture'][i % 3]}" + ["", ", Open", ", Solo"][i % 5 % 3]
        for i in range(N)
    ],
    "seasons": [["2012/2013", "2012", "2013", "2013/2014", "4T/2014"][i % 5] for i in range(N)],
    "paths": [f"www.example.org/en/{i % 5}/a" for i in range(N)],
    "shares": [["1/1", "1/2", "1/3", "1/4"][i % 4] for i in range(N)],
    "prose": [["yes, but not now", "no, never", "maybe, if it rains"][i % 3] for i in range(N)],
}


@pytest.mark.parametrize("name", NO_SETS)
def test_names_places_and_prose_are_no_sets(name):
    assert look_at(name, column(NO_SETS[name])).kind != "set"


def test_sets_of_numbers_are_sets():
    lines = [", ".join(RNG.permutation(["1", "2", "7", "7bis", "11"])[:size]) for size in SIZES]
    assert look_at("lines", column(lines)).kind == "set"


@pytest.mark.parametrize(("name", "kind"), [("id", "category"), ("Row", "number")])
def test_row_numbers_that_recur_are_no_ids(name, kind):
    cells = column([str(i % 12) for i in range(N)])
    assert look_at(name, cells).kind == kind
    assert look_at(name, column([str(i) for i in range(N)])).kind == "id"
    assert (
        look_at("rownames", column([f"Mr. Ab{i} (of somewhere, far away)" for i in range(N)])).kind
        == "id"
    )


@pytest.mark.parametrize("cell", ["['a', 'b c']", '["a", "b c"]', "{a, b c}", "a, b c"])
def test_lists_of_python_and_json_are_sets(cell):
    assert LabelSets(separators=",").split([cell, ""]) == [["a", "b c"], []]


def test_molecules_are_told_from_words():
    pytest.importorskip("rdkit")
    smiles = ["CCO", "c1ccccc1O", "CC(=O)O", "C1CCCCC1", "CC(C)(C)O", "N#CC", "[Na+].[Cl-]"] * 4
    assert look_at("m", column(smiles)).kind == "smiles"
    assert look_at("m", column(["COCO", "CON", "Bison", "IBM"] * 8)).kind == "category"


def test_molecules_become_descriptors():
    pytest.importorskip("rdkit")
    chains = ["C" * n + "O" for n in range(1, 21)] + ["C" * n + "(=O)N" for n in range(1, 21)]
    encoder = TableEncoder()
    Z = encoder.fit_transform({"m": chains})
    assert encoder.kinds_ == {"m": "smiles"}
    weight = encoder.get_feature_names_out().tolist().index("m: MolWt")
    assert np.all(np.diff(Z[:20, weight]) > 0.0)
    none = encoder.transform({"m": ["no molecule", None]})
    assert np.all(np.isfinite(none))
    np.testing.assert_array_equal(none[0], none[1])


# Targets ------------------------------------------------------------------------------------------


X = RNG.normal(size=N)
BUDGET = ["--budget", "1 fit", "--json"]


def fit(call, path, target, *more):
    code, out, err = call("fit", path, "--target", target, *more, *BUDGET, "-o", path.parent / "m")
    assert code == 0, err
    return json.loads(out), err


@pytest.fixture
def write(tmp_path):
    def to_file(columns, *above):
        path = tmp_path / "t.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerows([*above, [*columns]])
            rows.writerows(zip(*columns.values(), strict=True))
        return path

    return to_file


WORDS = ["yes" if x > 0 else "no" for x in X]
TARGETS = {
    "sets": ({"y": draw_sets(", ")}, "label_sets"),
    "classes": ({"y": WORDS}, "classes"),
    "bits": ({"y": (X > 0).astype(int).tolist()}, "classes"),
    "rankings": ({"y": [">".join(RNG.permutation(["a", "b", "c"])) for _ in X]}, "rankings"),
    "names": ({"y": [f"word {i} of {i % 7}" for i in range(N)]}, "strings"),
    "dates": ({"y": [f"{1 + i % 28}/6/{1990 + i % 30}" for i in range(N)]}, "numbers"),
    "numbers with words": (
        {"y": ["n.d." if i == 3 else f"{x:.3f}" for i, x in enumerate(X)]},
        "numbers",
    ),
    "places": ({"y": ["1st" if x > 1 else "2nd" if x > 0 else "3rd" for x in X]}, "classes"),
    "open ends": ({"y": [["1", "2", "3+"][i % 3] for i in range(N)]}, "classes"),
    "few numbers and a word": (
        {"y": [["1", "2", "3", *["1"] * 8, "unrated"][i % 12] for i in range(N)]},
        "numbers",
    ),
    "few numbers and words": (
        {"y": [["1", "2", *["1"] * 38, "tie", "void"][i % 42] for i in range(N)]},
        "classes",
    ),
    "columns of words": ({"y1": WORDS, "y2": WORDS[::-1]}, "label_sets"),
    "columns of answers": (
        {"y1": ["Apple" if x > 0 else "" for x in X], "y2": ["Pear" if x < 1 else "" for x in X]},
        "label_sets",
    ),
    "columns of ranks": (
        {
            f"y{j}": ranks.tolist()
            for j, ranks in enumerate(np.argsort(RNG.normal(size=(N, 3))).T + 1)
        },
        "rankings",
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_kind_of_a_target_is_told_from_its_cells(name, write, call):
    columns, kind = TARGETS[name]
    path = write({"x": X, **columns})
    assert fit(call, path, "y*")[0]["output"] == kind
    code, out, err = call("evaluate", path.parent / "m", path, "--json")
    assert code == 0, err
    without = {"numbers with words": 1, "few numbers and a word": 5}
    assert json.loads(out)["rows"] == N - without.get(name, 0)
    code, out, err = call("predict", path.parent / "m", path)
    assert (code, len(out.splitlines())) == (0, N + 1), err


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("Cover_Type", [1, 2, 4], "classes"),
        ("zip code", [98101, 98102, 98109], "classes"),
        ("storeID", [3, 5, 9], "classes"),
        ("rating", [1, 2, 4], "numbers"),
        ("class_size", [18, 21, 24], "numbers"),
        ("n_kids", [0, 1, 2], "numbers"),
        ("group", [0, 1, 2], "classes"),
        ("code of ethics", [0, 1], "classes"),
    ],
)
def test_the_name_of_few_whole_numbers_tells_what_they_are(name, values, kind, write, call):
    path = write({"x": X, name: [values[i % len(values)] for i in range(N)]})
    fitted, err = fit(call, path, name)
    assert fitted["output"] == kind
    assert f"{name}: taken for {kind}" in err


def test_a_number_in_brackets_is_an_estimate():
    number = numeral("[276.5]")
    assert number is not None
    assert (number.digits, number.bound) == ("276.5", "~")
    assert numeral("3rd class").unit == "class"


def test_rows_without_a_target_are_left_out(write, call):
    path = write({"x": X, "y": ["" if i % 10 == 0 else x for i, x in enumerate(X)]})
    fitted, err = fit(call, path, "y")
    assert (fitted["rows"], fitted["rows_left_out"]) == (54, 6)
    assert "y: 6 of 60 rows have no value and are left out" in err
    code, _, err = call("fit", path, "--target", "y", "--strict", "-o", path.parent / "m")
    assert (code, "column 'y' has no value in row 1" in err) == (1, True)


def test_several_numbers_may_have_gaps(write, call):
    first = ["" if i % 3 == 0 else x for i, x in enumerate(X)]
    second = ["" if i % 5 == 0 else -x for i, x in enumerate(X)]
    path = write({"x": X, "y1": first, "y2": second})
    fitted, _ = fit(call, path, "y1,y2")
    assert (fitted["rows"], fitted["rows_left_out"]) == (56, 4)  # 0, 15, 30, 45 have neither
    code, out, _ = call("evaluate", path.parent / "m", path, "--json")
    assert (code, json.loads(out)["metrics"]["r2"] > 0.5) == (0, True)


def test_a_header_of_two_lines_is_one_header(write, call):
    columns = {"": range(N), "Response": X, "Pie": WORDS, "Cake": WORDS[::-1], "Other": WORDS}
    path = write(columns, ["id", "How much?", "Which do you like?", "", ""])
    fitted, err = fit(call, path, "Pie,Cake")
    assert fitted["rows"] == N
    assert "the first two lines are taken for the header" in err


def test_look_says_what_columns_are(write, call):
    path = write(
        {"id": range(N), "x": X, "genre": draw_sets(", "), "price": ["$3", "n.d."] * (N // 2)}
    )
    code, out, err = call("look", path, "--json")
    assert code == 0, err
    looks = {look["column"]: look for look in json.loads(out)}
    assert [look["kind"] for look in looks.values()] == ["id", "number", "set", "number"]
    assert looks["genre"]["detail"] == "separated by ','"
    assert not looks["id"]["used"]
    code, out, _ = call("look", path)
    assert (code, "separated by ','" in out) == (0, True)
