"""Shortest paths of graphs whose nodes have attributes: vectors, compared by a kernel of their own.

There are no features to count, so that two graphs are compared by products of matrices, many graphs
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._numerics.arrays import row_slices, take
from .._numerics.objects import Joint, Ragged, as_objects, pointers
from ..rows import Survey
from ..rows.encode import check_matrix
from .base import Block, Kernel
from .graph_read import read_graphs
from .graph_rows import pair_distances

__all__ = ["AttributedPaths"]

# Pairs of nodes that are compared at a time, and graphs whose attributes tell the width.
_PAIRS, _SAMPLE = 2**22, 1000


class AttributedPaths(Kernel):
    """Shortest paths with attributes of nodes (definition .32, (399)).

    k(G, G') is the sum over ordered pairs of different nodes (u, v) of G and (u', v') of G' at the
    same distance of kappa(u, u') kappa(v, v'). There kappa is the kernel of the attributes where
    the labels are equal, and zero where they are not. Pairs without a path are left out. With equal
    attributes it is `ShortestPath`.

    Parameters
    ----------
    kernel : kernel or str, default "gaussian"
        Of the attributes, which are vectors. Words such as gamma="scale" are resolved on the nodes
        of at most 1,000 graphs.

    Notes
    -----
    Graphs are (edges, node_labels, edge_labels, attributes), where `attributes` is an array of
    shape (nodes, q) and `node_labels` may be None, or networkx graphs whose nodes have
    "attributes" and perhaps "label". Time grows with the product of the nodes of both sets of
    graphs, for each distance.

    Examples
    --------
    >>> from skout.kernels import AttributedPaths, Gaussian
    >>> short = ([(0, 1)], ["C", "O"], None, [[0.0], [1.0]])
    >>> wide = ([(0, 1)], ["C", "O"], None, [[0.0], [2.0]])
    >>> AttributedPaths(Gaussian(1.0))([short, wide]).round(3)
    array([[2.   , 0.736],
           [0.736, 2.   ]])
    """

    compares = "graphs"
    parts = ("kernel",)

    def __init__(self, kernel: Any = "gaussian") -> None:
        self.kernel = kernel

    def encode(self, objects: Any) -> Joint:
        """Return labels and attributes of the nodes, and the distances of their pairs."""
        if isinstance(objects, Joint):
            return objects
        found = [_parted(graph, i) for i, graph in enumerate(as_objects(objects))]
        graphs = read_graphs([triple for triple, _ in found])
        sizes = graphs.sizes
        attributes = _stacked([values for _, values in found], sizes)
        pairs = pair_distances(graphs)
        of_node = sizes[graphs.graph]  # cells of each node: its distances to all of its graph
        cells = np.full(int(of_node.sum()), -1, dtype=np.int32)
        first = pointers(of_node)[pairs.source] - graphs.indptr[graphs.graph[pairs.source]]
        cells[first + pairs.target] = pairs.distance
        nodes = Ragged(graphs.indptr, graphs.labels, *np.ascontiguousarray(attributes.T))
        return Joint(nodes, Ragged(pointers(sizes**2), cells))

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        n = len(survey)
        index = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
        some = survey.take(index)

        def make() -> Kernel:
            kernel = self._part("kernel").resolve(_attributes(some()), rng)
            return clone(self).set_params(kernel=kernel)

        return make

    def against(self, B: Joint) -> Block:
        paths = _paths(B)
        most = max(1, _PAIRS // max(1, len(B.left.columns[0])))  # nodes of A at a time

        def block(A: Joint, out: np.ndarray | None = None) -> np.ndarray:
            out = np.zeros((len(A), len(B))) if out is None else out
            size = max(1, most // max(1, int(A.left.lengths.max(initial=1))))
            for rows in row_slices(len(A), size):
                out[rows] = self._compared(take(A, rows), B, paths)
            return out

        return block

    def _compared(self, A: Joint, B: Joint, paths_B: list[Any]) -> np.ndarray:
        # sum_d sum_{u, u'} kappa(u, u') (A_d kappa B_d)(u, u'), A_d(u, v) = 1 if D(u, v) = d
        if len(A) == 0 or len(B) == 0:
            return np.zeros((len(A), len(B)))
        kappa = self._part("kernel")(_attributes(A), _attributes(B)).astype(np.float64)
        kappa *= A.left.columns[0][:, None] == B.left.columns[0]  # labels
        total = np.zeros_like(kappa)
        for A_d, B_d in zip(_paths(A), paths_B, strict=False):
            total += (B_d @ (A_d @ kappa).T).T
        total *= kappa
        by_graph = np.add.reduceat(total, A.left.indptr[:-1], axis=0)
        return np.add.reduceat(by_graph, B.left.indptr[:-1], axis=1)

    def diag(self, A: Joint) -> np.ndarray:
        each = (take(A, slice(i, i + 1)) for i in range(len(A)))
        return np.array([self._compared(one, one, _paths(one))[0, 0] for one in each])


def _attributes(rows: Joint) -> np.ndarray:
    """Return the attributes of the nodes of all graphs, shape (nodes, q)."""
    return np.stack(rows.left.columns[1:], axis=1)


def _paths(rows: Joint) -> list[Any]:
    """Return for d = 1, 2, ... the matrix of the pairs of nodes at distance d, of all graphs."""
    sizes, (cells,) = rows.left.lengths, rows.right.columns
    n = int(sizes.sum())
    source = np.repeat(np.arange(n), np.repeat(sizes, sizes))
    number = np.arange(len(cells)) - np.repeat(rows.right.indptr[:-1], sizes**2)
    target = number % np.repeat(sizes, sizes**2) + np.repeat(rows.left.indptr[:-1], sizes**2)
    found = []
    for d in range(1, int(cells.max(initial=0)) + 1):
        at = cells == d
        ones = np.ones(int(at.sum()))
        found.append(sparse.csr_matrix((ones, (source[at], target[at])), shape=(n, n)))
    return found


def _parted(graph: Any, i: int) -> tuple[Any, Any]:
    """Return a graph as `read_graphs` takes it, and the attributes of its nodes."""
    if isinstance(graph, tuple | list) and len(graph) == 4:
        edges, labels, edge_labels, attributes = graph
        labels = [0] * len(attributes) if labels is None else labels
        return (edges, labels, edge_labels), attributes
    if hasattr(graph, "is_directed") and hasattr(graph, "nodes"):
        attributes = [value for _, value in graph.nodes(data="attributes")]
        if not any(value is None for value in attributes):
            if any(label is None for _, label in graph.nodes(data="label")):
                graph = graph.copy()
                for node in graph.nodes:
                    graph.nodes[node]["label"] = 0
            return graph, attributes
    raise TypeError(
        "AttributedPaths takes graphs (edges, node_labels, edge_labels, attributes), or networkx "
        f"graphs whose nodes have 'attributes'. Graph {i} is a {type(graph).__name__} without."
    )


def _stacked(attributes: list[Any], sizes: np.ndarray) -> np.ndarray:
    """Return the attributes of all nodes, shape (nodes, q)."""
    tables = [np.asarray(values, dtype=np.float64) for values in attributes]
    widths = {table.shape[1:] for table in tables}
    for i, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        if table.ndim != 2 or len(table) != size or len(widths) > 1:
            raise ValueError(
                "attributes must be arrays of shape (nodes, q), of one q for all graphs. Graph "
                f"{i} has {size} nodes and attributes of shape {table.shape}."
            )
    return check_matrix(np.concatenate(tables)) if tables else np.empty((0, 1))
