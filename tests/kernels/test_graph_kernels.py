"""Kernels on graphs against their definitions, GraKeL and their own mathematics."""

import builtins
import csv
import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import oracles_graphs as oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout import KernelBasis
from skout.kernels import Normalized
from skout.kernels import bags as bags_module
from skout.kernels import graph_balls as balls_module
from skout.kernels import graphs as graphs_module
from skout.kernels.bags import Bags, sort_within
from skout.kernels.graph_rows import pair_distances, read_graphs
from skout.kernels.graphs import (
    Core,
    NeighborhoodSubgraph,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
)
from skout.testing import check_kernel

FOLDER = os.environ.get("SKOUT_DATA")
needs_data = pytest.mark.skipif(
    not FOLDER, reason="real data: set SKOUT_DATA to the folder that holds qm9_smiles.csv.gz"
)

CASES = {
    "vertex-histogram": (VertexHistogram(), oracles.vertex_histogram),
    "shortest-path": (ShortestPath(), oracles.shortest_path),
    "wl-0": (WeisfeilerLehman(0), oracles.weisfeiler_lehman(0)),
    "wl-3": (WeisfeilerLehman(3), oracles.weisfeiler_lehman(3)),
    "wl-path": (
        WeisfeilerLehman(2, ShortestPath()),
        oracles.weisfeiler_lehman(2, oracles.shortest_path),
    ),
    "wl-core": (
        WeisfeilerLehman(2, Core(VertexHistogram())),
        oracles.weisfeiler_lehman(2, oracles.core(oracles.vertex_histogram)),
    ),
    "core-wl": (Core(WeisfeilerLehman(2)), oracles.core(oracles.weisfeiler_lehman(2))),
    "core-path": (Core(ShortestPath()), oracles.core(oracles.shortest_path)),
}
KERNELS = {name: kernel for name, (kernel, _) in CASES.items()} | {
    "neighborhood": NeighborhoodSubgraph(2, 3),
    "core-neighborhood": Core(NeighborhoodSubgraph(1, 2)),
    "core-core": Core(Core(VertexHistogram())),
    "wl-neighborhood": WeisfeilerLehman(1, NeighborhoodSubgraph(1, 2)),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


def random_graph(rng, most=8, labels="CNO", loops=True):
    """Any graph: with nodes apart, several components, self loops, edges that are given twice."""
    n = int(rng.integers(1, most + 1))
    ends = rng.integers(0, n, size=(int(rng.integers(0, 2 * n)), 2))
    if not loops:
        ends = ends[ends[:, 0] != ends[:, 1]]
    kinds = {}
    edges = []
    for u, v in ends.tolist():
        kinds.setdefault((min(u, v), max(u, v)), str(rng.choice(["single", "double"])))
        edges.append((u, v))
    node_labels = rng.choice(list(labels), n).tolist()
    return edges, node_labels, [kinds[min(u, v), max(u, v)] for u, v in edges]


def random_graphs(n, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [random_graph(rng, **options) for _ in range(n)]


def renumbered(graph, order):
    """The same graph; node v is now order[v], and edges are in another order and direction."""
    edges, labels, edge_labels = graph
    new = [None] * len(labels)
    for v, label in enumerate(labels):
        new[order[v]] = label
    return [(order[v], order[u]) for u, v in edges[::-1]], new, edge_labels[::-1]


def gram(oracle, graphs, others=None):
    left = [oracles.graph_of(graph) for graph in graphs]
    right = left if others is None else [oracles.graph_of(graph) for graph in others]
    return np.array([[oracle(a, b) for b in right] for a in left])


def qm9(n, seed=0):
    with gzip.open(Path(FOLDER) / "qm9_smiles.csv.gz", "rt") as file:
        smiles = [row[1] for row in list(csv.reader(file))[1:]]
    return [smiles[i] for i in np.random.default_rng(seed).choice(len(smiles), n, replace=False)]


# The definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "oracle"), CASES.values(), ids=list(CASES))
@pytest.mark.parametrize("seed", [0, 1])
def test_gram_equals_definition(kernel, oracle, seed):
    A, B = random_graphs(15, seed), random_graphs(12, seed + 10)
    assert_array_equal(kernel(A, B), gram(oracle, A, B))
    assert_array_equal(kernel(A), gram(oracle, A))


@pytest.mark.parametrize(("radius", "distance"), [(0, 0), (0, 3), (1, 0), (2, 2), (3, 4)])
def test_neighborhood_subgraph_equals_definition(radius, distance):
    graphs = random_graphs(25, seed=radius, most=9)
    expected = oracles.neighborhood_subgraph_gram(
        [oracles.graph_of(graph) for graph in graphs], radius, distance
    )
    kernel = NeighborhoodSubgraph(radius, distance)
    assert_allclose(kernel(graphs), expected, rtol=0, atol=1e-10)


def test_core_of_neighborhoods_equals_definition():
    graphs = random_graphs(12, seed=5)
    plain = [oracles.graph_of(graph) for graph in graphs]
    expected = np.zeros((12, 12))
    for k in range(8):
        cores = [oracles.k_core(graph, k) for graph in plain]
        some = [i for i, core in enumerate(cores) if core]
        if some:
            K = oracles.neighborhood_subgraph_gram([cores[i] for i in some], 1, 2)
            expected[np.ix_(some, some)] += K
    assert_allclose(Core(NeighborhoodSubgraph(1, 2))(graphs), expected, rtol=0, atol=1e-10)


def hub(n, edges):
    """A node that is joined to all n others, which have edges of their own."""
    spokes = [(0, v + 1) for v in range(n)]
    return spokes + [(u + 1, v + 1) for u, v in edges], [0] * (n + 1), None


def test_neighborhoods_that_refinement_cannot_tell_apart():
    hexagon = [(i, (i + 1) % 6) for i in range(6)]
    triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    graphs = [hub(6, hexagon), hub(6, triangles)]
    wheel, fans = [oracles.graph_of(graph) for graph in graphs]
    assert not oracles.rooted_isomorphic(wheel, 0, fans, 0)
    K = NeighborhoodSubgraph(1, 0)(graphs)
    # of radius 0 all alike; of radius 1 the rims are alike (a triangle fan), the hubs are not
    expected = oracles.neighborhood_subgraph_gram([wheel, fans], 1, 0)
    assert_allclose(K, expected, atol=1e-12)
    assert WeisfeilerLehman(5)(graphs).min() == WeisfeilerLehman(5)(graphs).max()


def random_cubic(rng, n):
    """Three neighbours for each of n nodes, by trying pairings until one has no double edge."""
    while True:
        ends = rng.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 2)
        ends.sort(axis=1)
        if (ends[:, 0] < ends[:, 1]).all() and len(np.unique(ends, axis=0)) == len(ends):
            return ends.tolist()


@pytest.mark.parametrize("n", [6, 8, 10])
def test_hubs_over_regular_graphs(n):
    rng = np.random.default_rng(n)
    graphs = [hub(n, random_cubic(rng, n)) for _ in range(25)]
    plain = [oracles.graph_of(graph) for graph in graphs]
    K = NeighborhoodSubgraph(1, 0)(graphs)
    assert_allclose(K, oracles.neighborhood_subgraph_gram(plain, 1, 0), atol=1e-12)


def with_twins(rng, n):
    """Each node of a random graph several times, its copies joined to each other or not."""
    sizes, joined = rng.integers(1, 4, n), rng.integers(0, 2, n)
    kinds = rng.integers(0, 2, (n, n))
    of = np.repeat(np.arange(n), sizes).tolist()
    linked = np.triu(rng.random((n, n)) < 0.6, 1) | np.diag(joined == 1)
    pairs = [(i, j) for j in range(len(of)) for i in range(j) if linked[of[i], of[j]]]
    return pairs, [0] * len(of), [int(kinds[of[i], of[j]]) for i, j in pairs]


@pytest.mark.parametrize("seed", [0, 1])
def test_twins(seed):
    rng = np.random.default_rng(seed)
    graphs = [with_twins(rng, int(rng.integers(2, 4))) for _ in range(40)]
    plain = [oracles.graph_of(graph) for graph in graphs]
    expected = oracles.neighborhood_subgraph_gram(plain, 2, 1)
    assert_allclose(NeighborhoodSubgraph(2, 1)(graphs), expected, atol=1e-10)


SYMMETRIC = {
    "leaves and a triangle": hub(200, [(0, 1)]),
    "fans": hub(120, [(2 * i, 2 * i + 1) for i in range(60)]),
    "complete": ([(i, j) for j in range(60) for i in range(j)], [0] * 60, None),
    "wheel": hub(100, [(i, (i + 1) % 100) for i in range(100)]),
}


@pytest.mark.parametrize("graph", SYMMETRIC.values(), ids=list(SYMMETRIC))
def test_much_symmetry_costs_little(graph):
    tracemalloc.start()
    try:
        assert_allclose(NeighborhoodSubgraph(2, 1)([graph]), [[6.0]])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400e6


def test_copies_of_neighborhoods_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    graphs = [hub(6, random_cubic(rng, 6)) for _ in range(20)]
    together = NeighborhoodSubgraph(1, 1).encode(graphs)
    monkeypatch.setattr(balls_module, "_BLOCK", 20)
    in_parts = NeighborhoodSubgraph(1, 1).encode(graphs)
    assert_array_equal(in_parts.features, together.features)
    assert_array_equal(in_parts.counts, together.counts)


# What must not matter ----------------------------------------------------------------------------


@each_kernel
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_numbering_of_nodes_does_not_matter(kernel, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, most=10)
    other = renumbered(graph, rng.permutation(len(graph[1])).tolist())
    bags = kernel.encode([graph, other])
    assert_array_equal(bags[:1].features, bags[1:].features)
    assert_array_equal(bags[:1].counts, bags[1:].counts)


@each_kernel
def test_a_graph_alone_is_encoded_as_in_a_batch(kernel, monkeypatch):
    graphs = random_graphs(30, seed=3)
    together = kernel.encode(graphs)
    alone = Bags.concatenate([kernel.encode([graph]) for graph in graphs])
    monkeypatch.setattr(graphs_module, "_BLOCK", 50)
    in_parts = kernel.encode(graphs)
    for other in (alone, in_parts, kernel.encode(read_graphs(graphs))):
        assert_array_equal(other.indptr, together.indptr)
        assert_array_equal(other.features, together.features)
        assert_array_equal(other.counts, together.counts)


@each_kernel
def test_conformance(kernel):
    check_kernel(kernel, random_graphs(20, seed=4))
    check_kernel(Normalized(kernel), random_graphs(20, seed=4))


@each_kernel
def test_basis_of_graphs(kernel):
    graphs = random_graphs(20, seed=6)
    Z = KernelBasis(kernel).fit(read_graphs(graphs)).transform(graphs)
    assert_allclose(Z @ Z.T, kernel(graphs), atol=1e-8 * kernel(graphs).max())


def test_hashes_are_the_same_in_every_process():
    carbon, six = ([], ["C"], None), ([], [6], None)
    assert VertexHistogram().encode([carbon]).features.tolist() == [CARBON]
    assert VertexHistogram().encode([six]).features.tolist() == [SIX]


CARBON, SIX = 809599947829910117, 1880372341646205627


def test_forms_of_a_triple():
    plain = [(0, 1), (1, 2)], ["C", "C", "O"], ["s", "d"]
    forms = [
        [[[0, 1], [1, 2]], ("C", "C", "O"), ("s", "d")],
        (np.array(plain[0]), np.array(plain[1]), np.array(plain[2])),
        (plain[0], dict(enumerate(plain[1])), {(1, 0): "s", (1, 2): "d"}),
        ([("a", "b"), ("b", "c")], {"a": "C", "b": "C", "c": "O"}, plain[2]),
        ([(0, 1), (1, 0), (2, 1), (1, 2)], plain[1], ["s", "s", "d", "d"]),
        ({(0, 1), (1, 2)}, plain[1], {(0, 1): "s", (2, 1): "d"}),
    ]
    kernel = NeighborhoodSubgraph(1, 1)
    assert_allclose(kernel([plain], forms), np.full((1, len(forms)), 4.0))


def test_integer_labels_of_all_kinds_are_alike():
    forms = [[6, 8], np.array([6, 8], dtype=np.int32), np.array([6, 8], dtype=np.uint8)]
    forms.append([np.int64(6), np.int16(8)])
    K = VertexHistogram()([([(0, 1)], labels, None) for labels in forms])
    assert_array_equal(K, np.full((4, 4), 2.0))


def test_edge_labels_count_in_neighborhoods_alone():
    single, double = ([(0, 1)], ["C", "O"], ["s"]), ([(0, 1)], ["C", "O"], ["d"])
    for kernel in (VertexHistogram(), ShortestPath(), WeisfeilerLehman(2), Core(ShortestPath())):
        assert np.ptp(kernel([single, double])) == 0.0
    assert_allclose(NeighborhoodSubgraph(1, 0)([single], [double]), [[1.0]])  # r = 0 alone


def test_self_loops():
    loop, bare = ([(0, 0)], ["C"], ["s"]), ([], ["C"], None)
    for kernel in (VertexHistogram(), ShortestPath(), Core(VertexHistogram())):
        assert_array_equal(kernel([loop]), kernel([bare]))
    # a node that is its own neighbour: another label after one iteration, another neighbourhood
    assert_array_equal(WeisfeilerLehman(1)([loop, bare]), [[2.0, 1.0], [1.0, 2.0]])
    assert_array_equal(NeighborhoodSubgraph(0, 0)([loop, bare]), np.eye(2))


def test_graphs_of_one_node_and_of_none_at_all():
    atom = [([], ["C"], None)]
    assert_array_equal(ShortestPath()(atom), [[0.0]])
    assert_array_equal(Normalized(ShortestPath())(atom), [[1.0]])
    assert_array_equal(WeisfeilerLehman(3)(atom), [[4.0]])
    assert_array_equal(NeighborhoodSubgraph(2, 2)(atom), [[3.0]])  # three radii at distance 0
    for kernel in KERNELS.values():
        assert kernel(atom, []).shape == (1, 0)


def test_a_base_by_name_makes_the_same_bags(monkeypatch):
    from skout.kernels.base import KERNELS as NAMES

    monkeypatch.setitem(NAMES, "weisfeiler_lehman", WeisfeilerLehman)
    graphs = random_graphs(6)
    bags = Core().encode(graphs)
    assert_array_equal(Core(WeisfeilerLehman()).encode(bags).features, bags.features)
    assert Core().resolve(bags, np.random.default_rng(0)).encode(bags) is bags


# Bags --------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 12), max_size=12),
    longest=st.integers(0, 200),
    seed=st.integers(0, 1000),
    shuffled=st.booleans(),
    weighted=st.booleans(),
)
def test_collect_equals_counting(lengths, longest, seed, shuffled, weighted):
    rng = np.random.default_rng(seed)
    lengths = np.array([*lengths, longest])
    n = len(lengths)
    row = np.repeat(np.arange(n), lengths)
    row = rng.permutation(row) if shuffled else row
    features = rng.integers(0, 9, len(row)).astype(np.uint64) * np.uint64(2**61)
    weights = rng.integers(1, 5, len(row)).astype(float) if weighted else np.ones(len(row))
    bags = Bags.collect(n, row, features, weights if weighted else 1.0)
    expected = np.zeros((n, 9))
    np.add.at(expected, (row, (features // np.uint64(2**61)).astype(int)), weights)
    assert_array_equal(bags.lengths, np.count_nonzero(expected, axis=1))
    assert_array_equal(bags.counts, expected[expected > 0])
    assert_array_equal(bags.squared_norms(), (expected**2).sum(axis=1))


def test_many_rows_are_sorted_by_two_digits():
    row = np.array([70_000, 3, 65_539, 3, 70_000])
    bags = Bags.collect(70_001, row, np.array([5, 9, 1, 2, 4], dtype=np.uint64))
    assert_array_equal(bags.row_numbers, [3, 3, 65_539, 70_000, 70_000])
    assert_array_equal(bags.features, [2, 9, 1, 4, 5])


def test_sort_within_keeps_the_greatest_number():
    most = np.iinfo(np.uint64).max
    found = sort_within(np.array([2, 3]), np.array([most, 1, most, 0, most], dtype=np.uint64))
    assert_array_equal(found, np.array([1, most, 0, most, most], dtype=np.uint64))


@pytest.mark.parametrize("share", [0.0, 0.3, 2.0])
def test_dense_and_sparse_features_give_the_same(share, monkeypatch):
    graphs = random_graphs(20, seed=8)
    expected = WeisfeilerLehman(2)(graphs)
    monkeypatch.setattr(bags_module, "_DENSE_SHARE", share)
    assert_array_equal(WeisfeilerLehman(2)(graphs), expected)


def test_many_rows_against_one_need_little_memory(monkeypatch):
    monkeypatch.setattr(bags_module, "_PRODUCT", 2**16)
    path = [(i, i + 1) for i in range(299)], list(range(300)), None
    bags = VertexHistogram().encode([path] * 1500)  # 300 features, all of them dense
    block = VertexHistogram().against(bags[:1])
    tracemalloc.start()
    try:
        K = block(bags)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_array_equal(K, np.full((1500, 1), 300.0))
    assert peak < 10e6  # all rows at once take 26 MB


# Molecules and networkx --------------------------------------------------------------------------


def test_networkx_graphs():
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_node("b", label="C")
    graph.add_node("a", label="O")
    graph.add_node("c", label="C")
    graph.add_edge("a", "b", label="d")
    graph.add_edge("c", "b", label="s")
    triple = [(0, 1), (1, 2)], ["C", "C", "O"], ["s", "d"]
    assert_allclose(NeighborhoodSubgraph(1, 1)([graph, triple]), np.full((2, 2), 4.0))
    bare = nx.relabel_nodes(nx.path_graph(3), {0: "x"})
    nx.set_node_attributes(bare, 0, "label")
    assert_allclose(WeisfeilerLehman(1)([bare]), [[9.0 + 5.0]])


def test_networkx_graphs_that_are_refused():
    nx = pytest.importorskip("networkx")
    with pytest.raises(ValueError, match=r"Node 0 of graph 0 has no attribute 'label'.*set_node"):
        VertexHistogram()([nx.path_graph(3)])
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, 0, "label")
    with pytest.raises(ValueError, match=r"Graph 1 is not: try \.to_undirected"):
        VertexHistogram()([graph, nx.DiGraph(graph)])
    with pytest.raises(TypeError, match="put it into a list"):
        VertexHistogram()(graph)
    graph.edges[0, 1]["label"] = "s"
    with pytest.raises(ValueError, match=r"The edge \(1, 2\) of graph 0 has no attribute 'label'"):
        VertexHistogram()([graph])
    double = nx.MultiGraph()
    double.add_nodes_from([(0, {"label": 1}), (1, {"label": 1})])
    double.add_edges_from([(0, 1, {"label": "s"}), (0, 1, {"label": "d"})])
    with pytest.raises(ValueError, match=r"The edge \(0, 1\) of graph 0.* two different labels"):
        VertexHistogram()([double])


def test_smiles_and_molecules():
    chem = pytest.importorskip("rdkit.Chem")
    triple = [(0, 1), (1, 2)], ["C", "C", "O"], ["SINGLE", "DOUBLE"]
    molecule = chem.AddHs(chem.MolFromSmiles("CC=O"))
    K = NeighborhoodSubgraph(2, 2)(["CC=O", "O=CC", "C([H])C=O", molecule, triple])
    assert_allclose(K, np.full((5, 5), 9.0))
    assert molecule.GetNumAtoms() == 7  # as it was


def test_aromatic_molecules_do_not_depend_on_how_they_are_written():
    chem = pytest.importorskip("rdkit.Chem")
    molecule = chem.MolFromSmiles("Cc1ccc2ncccc2c1C")
    rng = np.random.default_rng(0)
    forms = [molecule]
    for _ in range(10):
        order = rng.permutation(molecule.GetNumAtoms()).tolist()
        forms.append(chem.RenumberAtoms(molecule, order))
    forms += ["CC1=CC=C2N=CC=CC2=C1C", "CC1=C(C)C2=CC=CN=C2C=C1"]
    K = Normalized(NeighborhoodSubgraph(2, 2))(forms)
    assert_allclose(K, 1.0)
    assert any(bond.GetIsAromatic() for bond in molecule.GetBonds())  # as it was


def test_invalid_smiles_are_reported_with_their_places():
    pytest.importorskip("rdkit")
    smiles = np.array(["CC", "C1CC", "O", "not a molecule"])
    message = "'C1CC' at position 1, 'not a molecule' at position 3."
    with pytest.raises(ValueError, match=message):
        WeisfeilerLehman()(smiles)
    with pytest.raises(ValueError, match=r"'C\(' at position 4 and 2 more\."):
        WeisfeilerLehman()(["C("] * 7)
    with pytest.raises(ValueError, match="1 of 2 SMILES are invalid: '' at position 1"):
        WeisfeilerLehman()(["C", ""])


def test_missing_rdkit_names_the_extra(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("rdkit"):
            raise ImportError(name)
        return original(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "skout\[chem\]'):
        VertexHistogram()(["CC"])
    assert VertexHistogram()([([], ["C"], None)]).item() == 1.0


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graphs", "error", "message"),
    [
        ([([], ["C"], None), ([], [], None)], ValueError, "must have a node. Graph 1 has none"),
        (
            [([], ["C"], None), ([(0, 1)], ["C"], None)],
            ValueError,
            r"Graph 1 has 1 nodes.*\(0, 1\)",
        ),
        ([([(0, -1)], ["C", "C"], None)], ValueError, r"Graph 0 has 2 nodes.*the edge \(0, -1\)"),
        ([([("a", "b")], {"a": 1}, None)], ValueError, "graph 0 has the end 'b', which has no"),
        ([([(0, 1)], ["C", 6], None)], TypeError, "node_labels must.*'C' in graph 0 and 6 in gra"),
        ([([], ["C"], None), ([], [6], None)], TypeError, "'C' in graph 0 and 6 in graph 1"),
        ([([], [1.5], None)], TypeError, r"strings or integers.*Got 1\.5 in graph 0"),
        ([([], [None], None)], TypeError, "Got None in graph 0"),
        ([([], ["C", (1, 2)], None)], TypeError, r"Got \(1, 2\) in graph 0"),
        (
            [([(0, 0)], ["C"], ["s"]), ([(0, 0)], ["C"], None)],
            TypeError,
            "edge_labels must be.*'s'",
        ),
        ([([(0, 1)], ["C", "C"], ["s", "s"])], ValueError, "Graph 0 has 1 edges and 2 labels"),
        ([([(0, 1)], ["C", "C"], {(0, 0): "s"})], ValueError, r"no label for the edge \(0, 1\)"),
        ([([(0, 1), (1, 0)], ["C"] * 2, ["s", "d"])], ValueError, "two different labels"),
        ([([(0, 1, 2)], ["C"] * 3, None)], TypeError, r"must be a pair.*Graph 0 has \(0, 1, 2\)"),
        ([([(0.0, 1.0)], ["C"] * 2, None)], TypeError, r"numbered from 0\. Graph 0 .*\(0\.0, 1"),
        ([([7], {"a": 1}, None)], TypeError, "must be a pair of nodes. Graph 0 has 7"),
        ([([], None, None)], TypeError, "node_labels must be.*Graph 0 has a NoneType"),
        ([([], ["C"], None), 7], TypeError, "Graph 1 is a int"),
        (7, TypeError, "Expected a list or array of objects"),
    ],
)
def test_graphs_that_are_refused(graphs, error, message):
    with pytest.raises(error, match=message):
        WeisfeilerLehman()(graphs)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (WeisfeilerLehman(-1), ValueError, r"n_iter must be an integer >= 0\. Got -1"),
        (WeisfeilerLehman(1.5), TypeError, r"n_iter must be an integer >= 0\. Got 1\.5"),
        (NeighborhoodSubgraph(-1), ValueError, "radius must be an integer >= 0"),
        (NeighborhoodSubgraph(1, 0.5), TypeError, "distance must be an integer >= 0"),
        (Core(WeisfeilerLehman(-1)), ValueError, "n_iter must be an integer >= 0"),
        (Core("gaussian"), TypeError, r"base must be a kernel on graphs\. Got Gaussian"),
        (WeisfeilerLehman(2, "linear"), TypeError, r"base must be a kernel on graphs\. Got Linear"),
    ],
)
def test_parameters_that_are_refused(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel([([], ["C"], None)])


def test_bags_of_another_kernel_are_refused():
    bags = WeisfeilerLehman(2).encode([([], ["C"], None)])
    with pytest.raises(ValueError, match="another kernel made"):
        WeisfeilerLehman(3).encode(bags)


# Real molecules ----------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("VertexHistogram", VertexHistogram()),
        ("WL_h3", WeisfeilerLehman(3)),
        ("WL_h5", WeisfeilerLehman(5)),
        ("Core_WL_h5", Core(WeisfeilerLehman(5))),
        ("ShortestPath", ShortestPath()),
    ],
)
def test_agrees_with_grakel(name, kernel):
    pytest.importorskip("rdkit")
    path = Path(os.path.join(FOLDER, "..", "reference", "grakel.npz"))
    if not path.exists():
        pytest.skip("no Gram matrices of GraKeL beside the data: ../reference/grakel.npz")
    with np.load(path) as file:
        assert_allclose(kernel(file["smiles"]), file[f"{name}__norm0"], rtol=0, atol=1e-8)
        K = Normalized(kernel)(file["smiles"])
        assert_allclose(K, file[f"{name}__norm1"], rtol=0, atol=1e-8)


@needs_data
def test_neighborhoods_of_molecules_equal_the_definition():
    pytest.importorskip("rdkit")
    graphs = [triple_of(smiles) for smiles in qm9(60)]
    plain = [oracles.graph_of(graph) for graph in graphs]
    expected = oracles.neighborhood_subgraph_gram(plain, 3, 4)
    assert_allclose(NeighborhoodSubgraph(3, 4)(graphs), expected, rtol=0, atol=1e-10)


def triple_of(smiles):
    """Atoms and bonds of a Kekulised molecule, straight from RDKit."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(smiles)
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()]
    kinds = [str(b.GetBondType()) for b in molecule.GetBonds()]
    return bonds, [atom.GetSymbol() for atom in molecule.GetAtoms()], kinds


# Large and dense graphs ---------------------------------------------------------------------------


def large_graph(n: int, share: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((n, n)) < share, 1))
    return edges, rng.integers(0, 3, n).tolist(), None


def test_sizes_may_be_numpy_integers():
    graphs = [large_graph(12, 0.2)]
    kernel = NeighborhoodSubgraph(np.int64(2), np.int64(3))
    assert_allclose(kernel(graphs), NeighborhoodSubgraph(2, 3)(graphs))
    assert NeighborhoodSubgraph(2, 3).encode(kernel.encode(graphs)) is not None


@pytest.mark.parametrize("limit", [None, 0, 1, 3])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_distances_of_dense_graphs(share, limit):
    nx = pytest.importorskip("networkx")
    given = [large_graph(40, share), large_graph(50, share, 1), large_graph(9, 0.3)]
    graphs = read_graphs(given)
    pairs = pair_distances(graphs, limit)
    for i, (edges, labels, _) in enumerate(given):
        graph = nx.Graph(edges.tolist())
        graph.add_nodes_from(range(len(labels)))
        expected = np.full((len(labels),) * 2, -1)
        for u, reached in nx.all_pairs_shortest_path_length(graph, limit):
            expected[u, list(reached)] = list(reached.values())
        own, first = graphs.graph[pairs.source] == i, graphs.indptr[i]
        found = np.full(expected.shape, -1)
        found[pairs.source[own] - first, pairs.target[own] - first] = pairs.distance[own]
        assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "kernel", [ShortestPath(), NeighborhoodSubgraph(), Core(ShortestPath())], ids=repr
)
def test_a_graph_may_be_worked_on_in_parts(kernel, monkeypatch):
    graphs = [large_graph(30, 0.1), large_graph(60, 0.04, 1), large_graph(40, 0.5, 2)]
    whole = kernel.encode(graphs)
    monkeypatch.setattr(graphs_module, "_BLOCK", 200)
    monkeypatch.setattr(graphs_module, "_BALLS", 500)
    parts = kernel.encode(graphs)
    assert_array_equal(parts.features, whole.features)
    assert_allclose(parts.counts, whole.counts)


def test_cores_with_the_same_nodes_are_looked_at_once(monkeypatch):
    calls = []

    def count(self, graphs):
        calls.append(len(graphs.labels))
        return VertexHistogram._occurrences(self, graphs)

    monkeypatch.setattr(ShortestPath, "_occurrences", count)
    complete = np.argwhere(np.triu(np.ones((80, 80)), 1)), [0] * 80, None
    bags = Core(ShortestPath()).encode([complete])
    assert calls == [80]  # for the cores 0 to 79
    assert_array_equal(bags.counts, np.full(80, 80.0))


def test_neighbourhoods_that_take_minutes_are_told_before_the_work(monkeypatch):
    graphs = [large_graph(40, 0.3)]
    NeighborhoodSubgraph()(graphs)
    monkeypatch.setattr(graphs_module, "_MANY_EDGES", 100)
    with pytest.warns(UserWarning, match="neighborhoods of radius 3 .*takes minutes.*radius"):
        NeighborhoodSubgraph()(graphs)


def test_memory_of_neighbourhoods_does_not_grow_with_all_of_them():
    graphs = read_graphs([large_graph(600, 0.03)])
    tracemalloc.start()
    NeighborhoodSubgraph(3, 1)._count(graphs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6
