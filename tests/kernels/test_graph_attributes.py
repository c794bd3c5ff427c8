"""Shortest paths with attributes of nodes against four loops over nodes."""

import numpy as np
import oracles_graphs as oracles
import pytest
from extras import extra
from numpy.testing import assert_allclose
from test_graph_kernels import random_graphs

import skout
from skout import KernelBasis, iokr
from skout.kernels import AttributedPaths, Gaussian, ShortestPath
from skout.kernels import graphs as module
from skout.testing import check_kernel

nx = extra("networkx")


def attributed(n, seed=0, q=2):
    rng = np.random.default_rng(seed)
    graphs = random_graphs(n, seed, loops=False)
    return [(*graph, rng.standard_normal((len(graph[1]), q))) for graph in graphs]


def oracle(a, b, gamma):
    """Sum over pairs of pairs at one distance, straight from (399)."""
    total = 0.0
    paths, other = (oracles.distances(oracles.graph_of(graph[:3])) for graph in (a, b))

    def alike(u, v):
        return (a[1][u] == b[1][v]) * np.exp(-gamma * np.sum((a[3][u] - b[3][v]) ** 2))

    for (u, v), d in paths.items():
        for (s, t), e in other.items():
            if u != v and s != t and d == e:
                total += alike(u, s) * alike(v, t)
    return total


def test_gram_equals_definition():
    A, B = attributed(8), attributed(6, seed=1)
    expected = [[oracle(a, b, 0.3) for b in B] for a in A]
    assert_allclose(AttributedPaths(Gaussian(0.3))(A, B), expected, atol=1e-12)


def test_blocks_of_few_nodes(monkeypatch):
    A, kernel = attributed(8), AttributedPaths(Gaussian(0.3))
    expected = kernel(A)
    monkeypatch.setattr(module, "_PAIRS", 1)
    assert_allclose(kernel(A), expected, atol=1e-12)


def test_equal_attributes_are_shortest_paths():
    graphs = random_graphs(10)
    same = [(*graph, np.ones((len(graph[1]), 1))) for graph in graphs]
    assert_allclose(AttributedPaths(Gaussian(1.0))(same), ShortestPath()(graphs))


def test_conformance_and_width():
    graphs = attributed(8)
    check_kernel(AttributedPaths(), graphs)
    basis = KernelBasis(AttributedPaths(Gaussian("scale"))).fit(graphs)
    nodes = np.concatenate([graph[3] for graph in graphs])
    assert_allclose(basis.kernel_.kernel.gamma, 1.0 / (2 * nodes.var()))


def test_networkx_graphs_with_and_without_labels():
    triple = ([(0, 1), (1, 2)], None, None, np.array([[0.0], [1.0], [3.0]]))
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, dict(enumerate(triple[3])), "attributes")
    kernel = AttributedPaths(Gaussian(0.5))
    assert_allclose(kernel([graph], [triple]), kernel([triple]))
    assert "label" not in graph.nodes[0]
    with pytest.raises(TypeError, match="Graph 0 is a Graph without"):
        kernel([nx.path_graph(2)])
    nx.set_node_attributes(graph, dict(enumerate("CCO")), "label")
    labelled = (triple[0], ["C", "C", "O"], None, triple[3])
    assert_allclose(kernel([graph], [labelled]), kernel([labelled]))
    assert kernel([graph], [labelled])[0, 0] < kernel([triple])[0, 0]


def test_a_model_of_them_is_saved(tmp_path):
    graphs, Y = attributed(12), np.eye(12)[:, :3]
    model = iokr(AttributedPaths(), "linear").fit(graphs, Y)
    skout.save(model, tmp_path / "model.skout")
    found = skout.load(tmp_path / "model.skout").predict_coordinates(graphs)
    assert_allclose(found, model.predict_coordinates(graphs))


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (([], ["C"], None), TypeError, "Graph 0 is a tuple without"),
        (
            ([], ["C"], None, [[1.0], [2.0]]),
            ValueError,
            r"1 nodes and attributes of shape \(2, 1\)",
        ),
        (([], ["C"], None, [1.0]), ValueError, r"attributes of shape \(1,\)"),
        (([], ["C"], None, [[np.nan]]), ValueError, "NaN"),
    ],
)
def test_what_is_refused(graph, error, message):
    with pytest.raises(error, match=message):
        AttributedPaths()([graph])
