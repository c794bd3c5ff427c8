"""The graph edit distance against its definition, networkx, and the laws of a metric."""

import csv
import gzip
import os
import time
from pathlib import Path

import numpy as np
import oracles_ged as oracle
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skout.metrics import graphs
from skout.metrics.graphs import graph_edit_distance

FOLDER = os.environ.get("SKOUT_DATA")
ETHANOL = [(0, 1), (1, 2)], ["C", "C", "O"], ["SINGLE", "SINGLE"]
ETHANAL = [(0, 1), (1, 2)], ["C", "C", "O"], ["SINGLE", "DOUBLE"]
METHANE = [], ["C"], None


@st.composite
def triples(draw, max_nodes=4):
    n = draw(st.integers(1, max_nodes))
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]  # self loops too
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6))
    labels = st.sampled_from("ab")
    nodes = draw(st.lists(labels, min_size=n, max_size=n))
    return edges, nodes, draw(st.lists(labels, min_size=len(edges), max_size=len(edges)))


def random_graph(rng, n, share=0.4, n_labels=3):
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < share]
    nodes, labels = (rng.choice(list("CNO")[:n_labels], size) for size in (n, len(edges)))
    return edges, nodes.tolist(), labels.tolist()


def random_pairs(n_pairs, low, high, seed=0, **options):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(low, high + 1, (2, n_pairs))
    return tuple([random_graph(rng, n, **options) for n in some] for some in sizes)


def hard_pair(n=16):
    """Dense graphs without labels, whose bounds tell little."""
    rng = np.random.default_rng(0)
    return tuple(random_graph(rng, n, share=0.5, n_labels=1) for _ in range(2))


def renumbered(graph, order):
    """The same graph, its node order[k] called k."""
    edges, nodes, labels = graph
    place = {node: k for k, node in enumerate(order)}
    return [(place[i], place[j]) for i, j in edges], [nodes[i] for i in order], labels


def as_networkx(nx, graph):
    edges, nodes, labels = graph
    out = nx.Graph()
    out.add_nodes_from((i, {"label": label}) for i, label in enumerate(nodes))
    out.add_edges_from((i, j, {"label": l}) for (i, j), l in zip(edges, labels, strict=True))
    return out


def networkx_distance(nx, a, b, upper_bound=None):
    def same(x, y):
        return x["label"] == y["label"]

    options = {"node_match": same, "edge_match": same, "upper_bound": upper_bound}
    return nx.graph_edit_distance(as_networkx(nx, a), as_networkx(nx, b), **options)


# The definition -----------------------------------------------------------------------------------


def test_equals_the_definition_on_small_graphs():
    rng = np.random.default_rng(0)
    for share, n_labels in [(0.2, 2), (0.6, 2), (1.0, 3)]:
        a, b = random_pairs(15, 1, 4, seed=rng, share=share, n_labels=n_labels)
        for edge_labels in (True, False):
            expected = [
                oracle.graph_edit_distance(*pair, edge_labels) for pair in zip(a, b, strict=True)
            ]
            assert_array_equal(graph_edit_distance(a, b, edge_labels=edge_labels), expected)


@settings(max_examples=60, deadline=None)
@given(triples(), triples(), st.booleans())
def test_equals_the_definition(a, b, edge_labels):
    expected = oracle.graph_edit_distance(a, b, edge_labels)
    assert graph_edit_distance(a, b, edge_labels=edge_labels) == expected


@pytest.mark.parametrize("n_labels", [1, 2])
def test_equals_networkx(n_labels):
    nx = pytest.importorskip("networkx")
    a, b = random_pairs(12, 3, 6, seed=n_labels, n_labels=n_labels)
    expected = [networkx_distance(nx, *pair) for pair in zip(a, b, strict=True)]
    assert_array_equal(graph_edit_distance(a, b), expected)


def test_known_distances():
    assert graph_edit_distance(ETHANOL, ETHANAL) == 1
    assert graph_edit_distance(ETHANOL, ETHANAL, edge_labels=False) == 0
    assert graph_edit_distance(METHANE, ETHANOL) == 4  # two atoms and their bonds
    loop, bare = ([(0, 0)], ["C"], ["x"]), ([], ["C"], None)
    assert graph_edit_distance(loop, bare) == 1
    path, cycle = [(i, i + 1) for i in range(5)], [(i, (i + 1) % 6) for i in range(6)]
    assert graph_edit_distance((path, ["C"] * 6, None), (cycle, ["C"] * 6, None)) == 1


# A metric -----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(triples(5), triples(5), triples(5))
def test_triangle(a, b, c):
    ab, bc, ac = graph_edit_distance([a, b, a], [b, c, c])
    assert ac <= ab + bc


@settings(max_examples=40, deadline=None)
@given(triples(6), triples(6))
def test_symmetry_and_bounds(a, b):
    there, back = graph_edit_distance([a, b], [b, a])
    assert there == back
    (edges_a, nodes_a, _), (edges_b, nodes_b, _) = a, b
    n, m = len(nodes_a), len(nodes_b)
    assert there >= abs(n - m) + abs(len(edges_a) - len(edges_b))
    assert there <= max(n, m) + len(edges_a) + len(edges_b)
    assert graph_edit_distance(a, b, edge_labels=False) <= there


@settings(max_examples=80, deadline=None)
@given(triples(3), triples(3))
def test_zero_where_isomorphic_only(a, b):
    assert (graph_edit_distance(a, b) == 0) == oracle.isomorphic(a, b)


@settings(max_examples=40, deadline=None)
@given(triples(6), triples(6), st.randoms(use_true_random=False))
def test_numbers_of_nodes_do_not_matter(a, b, random):
    order = random.sample(range(len(a[1])), len(a[1]))
    moved = renumbered(a, order)
    first, second, zero = graph_edit_distance([a, moved, a], [b, b, moved])
    assert first == second
    assert zero == 0


@settings(max_examples=40, deadline=None)
@given(triples(5), st.data())
def test_one_edit_is_one_apart(graph, data):
    edges, nodes, labels = graph
    assume(edges)
    e = data.draw(st.integers(0, len(edges) - 1))
    without = edges[:e] + edges[e + 1 :], nodes, labels[:e] + labels[e + 1 :]
    changed = edges, nodes, labels[:e] + ["c"] + labels[e + 1 :]
    more = edges, [*nodes, "a"], labels
    assert_array_equal(graph_edit_distance([graph] * 3, [without, changed, more]), [1, 1, 1])


# The search ---------------------------------------------------------------------------------------


def test_a_search_resumes_where_it_stopped():
    pair = hard_pair(10)
    (a, A), (b, B) = graphs._matrices(graphs._read(*pair)[0], True)
    whole, parts = (graphs._start(a, A, b, B) for _ in range(2))
    assert graphs._search(whole, 10**9)
    n_calls = 1
    while not graphs._search(parts, 1):
        n_calls += 1
    assert n_calls > 3
    assert parts.best == whole.best == graph_edit_distance(*pair)


def test_a_bound_that_tells_little_takes_longer_only(monkeypatch):
    """Good bounds hide children that are never visited; now nearly all have to be."""

    def no_costs(_state, _k, free):
        costs = np.zeros((len(free), len(free) - 1, len(free)), dtype=np.int64)
        costs[np.arange(len(free)), :, np.arange(len(free))] = 2**40  # the column that is taken
        return costs

    monkeypatch.setattr(graphs, "_child_costs", no_costs)
    a, b = random_pairs(60, 5, 5, share=0.5, n_labels=2)
    expected = [oracle.graph_edit_distance(*pair) for pair in zip(a, b, strict=True)]
    assert_array_equal(graph_edit_distance(a, b), expected)


# The time limit -----------------------------------------------------------------------------------


def test_a_limit_gives_an_upper_bound_and_says_so():
    a, b = hard_pair()
    with pytest.warns(UserWarning, match=r"1 of 2 pairs reached time_limit=0\.05 seconds"):
        bounds = graph_edit_distance([a, ETHANOL], [b, ETHANAL], time_limit=0.05)
    assert bounds[1] == 1
    identity = oracle.edit_cost(a, b, {i: i for i in range(len(a[1]))})
    assert abs(len(a[0]) - len(b[0])) <= bounds[0] < identity


def test_exact_or_not_for_each_pair():
    a, b = hard_pair()
    options = {"time_limit": 0.05, "return_exact": True}  # and no warning, which is an error here
    distances, exact = graph_edit_distance([a, METHANE], [b, ETHANOL], **options)
    assert exact.tolist() == [False, True]
    assert distances[1] == 4
    assert graph_edit_distance(a, b, **options)[1] is False
    assert graph_edit_distance(ETHANOL, METHANE, **options) == (4.0, True)


def test_a_limit_is_kept():
    a, b = hard_pair(24)
    start = time.perf_counter()
    _, exact = graph_edit_distance(a, b, time_limit=0.2, return_exact=True)
    assert not exact
    assert time.perf_counter() - start < 3


def test_no_limit():
    assert graph_edit_distance(ETHANOL, METHANE, time_limit=None) == 4


# Many pairs, and what is given --------------------------------------------------------------------


def test_one_pair_gives_a_float_and_lists_an_array():
    one, many = graph_edit_distance(ETHANOL, METHANE), graph_edit_distance([ETHANOL], [METHANE])
    assert isinstance(one, float)
    assert isinstance(many, np.ndarray)
    assert many.dtype == np.float64
    assert_array_equal(many, [one])
    assert graph_edit_distance([], []).shape == (0,)
    assert_array_equal(graph_edit_distance((ETHANOL,) * 2, (METHANE, ETHANAL)), [4, 1])


def test_workers_change_nothing():
    a, b = random_pairs(30, 3, 6)
    assert_array_equal(graph_edit_distance(a, b, n_jobs=2), graph_edit_distance(a, b))


def test_progress_on_request(capsys):
    graph_edit_distance([ETHANOL] * 3, [METHANE] * 3)
    assert capsys.readouterr().err == ""
    graph_edit_distance([ETHANOL] * 3, [METHANE] * 3, verbose=True)
    assert "3/3" in capsys.readouterr().err


def test_every_form_of_graph():
    chem, nx = pytest.importorskip("rdkit.Chem"), pytest.importorskip("networkx")
    a, b = "CCO", "CC=O"
    assert graph_edit_distance(a, b) == 1
    assert graph_edit_distance(chem.MolFromSmiles(a), chem.MolFromSmiles(b)) == 1
    assert graph_edit_distance(as_networkx(nx, ETHANOL), as_networkx(nx, ETHANAL)) == 1
    assert_array_equal(graph_edit_distance([a, as_networkx(nx, ETHANOL)], [ETHANAL, b]), [1, 1])
    assert_array_equal(graph_edit_distance(np.array(["CCO", "C"]), ["C", "CO"]), [4, 2])
    assert_array_equal(graph_edit_distance(("CCO", "C", "C"), ["C", "C", "CC"]), [4, 0, 2])


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (ETHANOL, [ETHANOL], ValueError, "Got one graph and a list of 1 instead"),
        ([ETHANOL], [ETHANOL] * 2, ValueError, "Got a list of 1 and a list of 2 instead"),
        ([METHANE] * 2, [METHANE, ([], [], None)], ValueError, "In b: .*Graph 1 has none"),
        ([METHANE, 3.0], [METHANE] * 2, TypeError, "In a: .*Graph 1 is a float"),
        (ETHANOL, ([], [6], None), TypeError, "node_labels must be .* of one kind"),
        (None, METHANE, TypeError, "Got NoneType"),
    ],
)
def test_wrong_graphs(a, b, error, message):
    with pytest.raises(error, match=message):
        graph_edit_distance(a, b)


@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), ("1", TypeError)])
def test_wrong_time_limit(limit, error):
    with pytest.raises(error, match=f"time_limit must be a finite number >= 0. Got {limit!r}"):
        graph_edit_distance(METHANE, METHANE, time_limit=limit)


# Real molecules -----------------------------------------------------------------------------------


@pytest.mark.skipif(not FOLDER, reason="SKOUT_DATA, the folder of the real data, is not set")
def test_molecules_of_qm9():
    """networkx, told not to look beyond our distance, finds the same one and none below it."""
    chem, nx = pytest.importorskip("rdkit.Chem"), pytest.importorskip("networkx")
    with gzip.open(Path(FOLDER) / "qm9_smiles.csv.gz", "rt") as file:
        smiles = [row[1] for row in csv.reader(file)][1:]
    chosen = np.random.default_rng(0).integers(0, len(smiles), (2, 60))
    a, b = ([smiles[i] for i in some] for some in chosen)
    distances, exact = graph_edit_distance(a, b, return_exact=True)
    assert exact.all()
    assert_array_equal(graph_edit_distance(b, a), distances)
    assert (graph_edit_distance(a, b, edge_labels=False) <= distances).all()
    for i in np.argsort(distances, kind="stable")[:3]:  # networkx is slow where they are far apart
        pair = [molecule_triple(chem, some[i]) for some in (a, b)]
        assert networkx_distance(nx, *pair, upper_bound=distances[i]) == distances[i]


def molecule_triple(chem, smiles):
    molecule = chem.MolFromSmiles(smiles)
    chem.Kekulize(molecule)
    edges = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    nodes = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    return edges, nodes, [bond.GetBondType().name for bond in molecule.GetBonds()]
