"""The maximum common edge subgraph, against all maps of the nodes."""

import itertools

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose

from skout.metrics import mces_distance


def brute_force(first, second):
    """Try every map of nodes to nodes of the same label, or to none."""
    (E, u, w), (F, v, x) = first, second
    partner = {frozenset(f): weight for f, weight in zip(F, x, strict=True)}
    choices = [[None, *(k for k in range(len(v)) if v[k] == label)] for label in u]
    best = 0.0
    for mapped in itertools.product(*choices):
        used = [k for k in mapped if k is not None]
        if len(set(used)) == len(used):
            ends = [frozenset((mapped[i], mapped[j])) for i, j in E]
            common = [min(a, partner.get(f, 0.0)) for a, f in zip(w, ends, strict=True)]
            best = max(best, sum(common))
    return sum(w) + sum(x) - 2 * best


def random_graph(rng):
    n = int(rng.integers(1, 6))
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.6]
    labels = rng.choice(["C", "O"], n, p=[0.7, 0.3]).tolist()
    return edges, labels, rng.choice([1.0, 1.5, 2.0], len(edges)).tolist()


def test_all_maps():
    rng = np.random.default_rng(0)
    pairs = [(random_graph(rng), random_graph(rng)) for _ in range(25)]
    found = mces_distance([a for a, _ in pairs], [b for _, b in pairs])
    assert_allclose(found, [brute_force(a, b) for a, b in pairs], atol=1e-9)


def test_equal_graphs_and_order_of_nodes():
    rng = np.random.default_rng(1)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 5)]
    labels, weights = list("CCOCNC"), [1, 2, 1, 1.5, 1, 3]
    order = rng.permutation(6)
    place = np.argsort(order)
    other = [(int(place[i]), int(place[j])) for i, j in edges], [labels[i] for i in order], weights
    assert mces_distance((edges, labels, weights), other) == 0.0
    assert mces_distance(other, ([], ["C"], None)) == 9.5


def test_molecules():
    extra("rdkit")
    assert mces_distance("CCO", "OCC") == 0.0
    assert mces_distance("CCO", "CC=O") == 1.0  # a bond of order 2 beside one of order 1
    assert mces_distance("c1ccccc1", "C1CCCCC1") == 3.0  # six times 1.5 - 1
    assert mces_distance("c1ccccc1O", "c1ccccc1") == 1.0
    with pytest.raises(ValueError, match="SMILES"):
        mces_distance("CCO", "no molecule")


def test_a_search_that_is_cut_short_says_so():
    rng = np.random.default_rng(2)
    n = 14
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.4]
    other = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.4]
    with pytest.warns(UserWarning, match="1 of 1 pairs reached time_limit=0.01"):
        bound = mces_distance((edges, ["C"] * n, None), (other, ["C"] * n, None), time_limit=0.01)
    assert 0.0 <= bound <= len(edges) + len(other)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (([(0, 1)], "CC", [-1.0]), ([], "C", None), "Weights of edges must be positive"),
        ([([], "C", None)], ([], "C", None), "two lists of as many graphs"),
    ],
)
def test_mistakes(a, b, message):
    with pytest.raises(ValueError, match=message):
        mces_distance(a, b)
