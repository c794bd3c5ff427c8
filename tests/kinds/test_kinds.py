"""Kinds of outputs: the conformance checks of all that are registered, what is recognized."""

import ast
from pathlib import Path

import numpy as np
import pytest
from extras import extra
from scipy import sparse

import skout
from skout.kinds import KINDS, Kind, guess_kind, kinds_of, metrics
from skout.testing import check_kind

RNG = np.random.default_rng(0)
WORDS = ["stone", "notes", "water", "river", "stone", "rivers"]
CHAINS = ["C", "CCO", "CCCO", "CCN", "c1ccccc1", "CCO"]
#: Outputs of each kind, and cells of them with the names of their columns.
OUTPUTS = {
    "label_sets": (
        RNG.integers(0, 2, (9, 4)),
        [(["a;b", "", "b", "c | a"], ["tags"]), (np.eye(3)[[0, 1, 1, 2]], ["p", "q", "r"])],
    ),
    "rankings": (
        RNG.permuted(np.tile(np.arange(4), (9, 1)), axis=1),
        [(["a>b>c", "b > a > c"], ["order"]), (np.array([[1.0, 2], [2, 1]]), ["p", "q"])],
    ),
    "classes": (np.array(["x", "y", "x", "z"]), [([" x", "y"], ["class"])]),
    "numbers": (RNG.standard_normal((8, 3)), [(RNG.standard_normal((4, 2)), ["a", "b"])]),
    "strings": (WORDS, [(WORDS, ["word"])]),
    "smiles": (CHAINS, [(CHAINS, ["molecule"])]),
    "graphs": (CHAINS, []),
    "spectra": ([(np.arange(1, 4 + i) * 50.0, np.ones(3 + i)) for i in range(5)], []),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_conforms(name):
    if name in ("smiles", "graphs"):
        assert extra("rdkit.Chem").Mol
    Y, tables = OUTPUTS[name]
    assert KINDS[name].name == name
    check_kind(KINDS[name], Y)
    for cells, columns in tables:
        check_kind(KINDS[name], Y, cells, columns)


@pytest.mark.parametrize("name", KINDS)
def test_the_metric_of_a_kind_has_a_name(name):
    assert KINDS[name].metric in metrics()


class Backwards(Kind):
    """Rates the truth as low as anything."""

    name = "backwards"
    kernel = KINDS["strings"].kernel

    def row_scores(self, true, pred):
        return -super().row_scores(true, pred)


class Unwritten(type(KINDS["strings"])):
    """Shows other words than cells have."""

    name = "unwritten"

    def words(self, objects):
        return [[text.upper()] for text in objects]


@pytest.mark.parametrize(
    ("kind", "message"),
    [(Backwards(), "the truth must score more"), (Unwritten(), "words are those of cells")],
)
def test_a_kind_that_does_not_conform_is_found(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_kind(kind, WORDS, WORDS)


@pytest.mark.parametrize(
    ("Y", "kinds"),
    [
        (sparse.csr_matrix([[0.0, 2.0], [1.0, 0.0]]), ["numbers"]),
        ([[0, np.nan, 1], [1, 0, 1]], ["label_sets", "numbers"]),
        ([[0, 1, 2], [np.nan, 0, 1]], ["rankings", "numbers"]),
        ([[["a"]]], []),
        ([0, 1, 1, 0], ["classes", "numbers"]),
        (np.array(["a", None], dtype=object), ["strings", "classes", "smiles"]),
        (["a", "b"] * 3, ["classes", "strings", "smiles"]),
        (np.arange(60) % 4, ["classes", "numbers"]),
        (np.arange(60) % 5 + 1, ["numbers", "classes"]),
        (np.repeat(np.arange(6), [40, 60, 45, 20, 8, 2]), ["numbers", "classes"]),  # visits
        (np.repeat(np.arange(6), [8, 60, 2, 45, 20, 40]), ["classes", "numbers"]),  # codes
        (np.repeat(np.arange(4), [300, 90, 20, 2]), ["numbers", "classes"]),  # children
        (np.repeat(np.arange(3), [300, 90, 20]), ["classes", "numbers"]),
    ],
)
def test_all_kinds_that_outputs_may_be_of(Y, kinds):
    assert kinds_of(Y) == kinds


def test_columns_of_categories_are_classes():
    pd = extra("pandas")
    assert guess_kind(pd.Series([1, 2, 1], dtype="category")) == "classes"
    assert guess_kind(pd.Series(["a", "b"], dtype="category")) == "classes"


def test_rows_that_cannot_be_read_are_found():
    kind = KINDS["rankings"].learn(["a>b>c"], ["r"])
    cells = ["a>b>c"] * 20
    for i in (0, 7, 8, 19):
        cells[i] = "a>b"
    assert kind.unreadable(cells) == [0, 7, 8, 19]
    with pytest.raises(ValueError, match="'a>b', which is no ranking of the 3 items a, b, c"):
        kind.read(cells)


def test_the_consensus_agrees_best():
    Y = np.array([[0, 1, 2], [0, 1, 2], [2, 0, 1], [2, 0, 1], [2, 0, 1]])
    consensus = KINDS["rankings"].baseline(Y)
    every = RNG.permuted(np.tile(np.arange(3), (200, 1)), axis=1)
    scores = [KINDS["rankings"].score(Y, np.tile(one, (5, 1))) for one in every]
    assert KINDS["rankings"].score(Y, np.tile(consensus, (5, 1))) == pytest.approx(max(scores))


def test_few_files_name_a_kind():
    """All others ask the kind: a table by kinds elsewhere would be a second registry."""
    sources = Path(skout.__file__).parent.rglob("*.py")
    naming = {
        path
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in ("label_sets", "rankings")
    }
    assert 0 < len(naming) <= 5, naming  # the kinds, kernels on them, decoders; it only falls
