"""Many graphs as a few long arrays, and what the kernels on graphs do with all of them at once.

Labels and colours of nodes are hashes of 64 bits. A multiset of hashes is hashed by the sum of its
members, each of them mixed first, so that the order of nodes and neighbours never matters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._numerics.objects import pointers, ranges
from .bags import mix

__all__ = [
    "Graphs",
    "Pairs",
    "core_numbers",
    "pair_distances",
    "reached_work",
    "refine",
]

_ODD = np.uint64(0x9E3779B97F4A7C15)
# Graphs of so many nodes, and this share of all possible edges, are dense.
_DENSE_NODES, _DENSE_SHARE = 32, 0.1


def segment_sums(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the sums of values[indptr[i] : indptr[i + 1]], in integers that may wrap around."""
    totals = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=totals[1:])
    return np.diff(totals[indptr])


@dataclass(frozen=True, eq=False)
class Graphs:
    """Undirected graphs with labels, one after the other; made by `read_graphs`.

    Each edge is there twice, once from each end; a self loop once. Graph i has the nodes indptr[i]
    to indptr[i + 1] - 1, and the edges edge_indptr[v] to edge_indptr[v + 1] - 1 leave node v.
    """

    indptr: np.ndarray  # int64, (n + 1,)
    labels: np.ndarray  # uint64, one hash a node
    edge_indptr: np.ndarray  # int64
    target: np.ndarray  # int64, the node at the other end of each edge
    edge_labels: np.ndarray  # uint64, one hash an edge

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def sizes(self) -> np.ndarray:
        """The number of nodes of each graph."""
        return np.diff(self.indptr)

    @cached_property
    def graph(self) -> np.ndarray:
        """The graph that each node belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def source(self) -> np.ndarray:
        """The node that each edge leaves."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.edge_indptr))

    def relabel(self, labels: np.ndarray) -> Graphs:
        """Return the same graphs with other labels of the nodes."""
        return replace(self, labels=labels)

    def __getitem__(self, index: Any) -> Graphs:
        """Return some of the graphs, by a slice, a mask or positions, which may repeat."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        sizes = self.sizes[chosen]
        nodes = ranges(self.indptr[chosen], sizes)
        degrees = np.diff(self.edge_indptr)[nodes]
        indptr = pointers(sizes)
        first = self.edge_indptr[self.indptr]
        n_edges = np.diff(first)[chosen]
        edges = ranges(first[chosen], n_edges)
        moved = np.repeat(indptr[:-1] - self.indptr[chosen], n_edges)
        return Graphs(
            indptr,
            self.labels[nodes],
            pointers(degrees),
            self.target[edges] + moved,
            self.edge_labels[edges],
        )

    def subgraph(self, keep: np.ndarray) -> Graphs:
        """Return the graphs that the marked nodes induce; some may be left without nodes."""
        number = pointers(keep)
        kept = np.repeat(keep, np.diff(self.edge_indptr))
        kept &= keep[self.target]
        n_kept = pointers(kept)
        starts = n_kept[self.edge_indptr[:-1]][keep]
        return Graphs(
            number[self.indptr],
            self.labels[keep],
            np.append(starts, n_kept[-1]),
            number[self.target[kept]],
            self.edge_labels[kept],
        )


def refine(graphs: Graphs, *, edge_labels: bool = False) -> np.ndarray:
    """Return new labels of the nodes: hashes of the old one and those of the neighbours.

    With `edge_labels`, a neighbour counts together with the label of the edge that leads to it.
    """
    seen = mix(graphs.labels, salt=1)[graphs.target]
    if edge_labels:
        seen = mix(seen + graphs.edge_labels, salt=2)
    around = segment_sums(seen, graphs.edge_indptr)
    return mix(graphs.labels * _ODD + around, salt=3)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ordered pairs of nodes that have a path, for all or some first nodes, and their distances.

    The pairs with the i-th source are indptr[i] to indptr[i + 1] - 1, their targets in order. The
    number of the pair of the i-th source and node v is table[row[i] + v]; -1 if there is none.
    """

    source: np.ndarray  # int64
    target: np.ndarray  # int64
    distance: np.ndarray  # int32, edges of a shortest path
    indptr: np.ndarray  # int64
    row: np.ndarray  # int64
    table: np.ndarray  # int32


def reached_work(graphs: Graphs, reach: int) -> np.ndarray:
    """Return a bound of the nodes and edges within a distance of each node.

    No more than its graph has, and no more than if each node on the way had the most neighbours.
    """
    degrees = np.diff(graphs.edge_indptr).astype(np.float64)
    most = np.zeros(len(graphs))
    np.maximum.at(most, graphs.graph, degrees)
    steps = np.minimum(reach, graphs.sizes)
    nodes = np.where(most > 1, (np.maximum(most, 2.0) + 1.0) ** np.minimum(steps, 20), steps + 1)
    whole = graphs.sizes + np.diff(graphs.edge_indptr[graphs.indptr])
    work = np.minimum(whole, nodes * (1.0 + most)) + graphs.sizes / 8  # a look at all of the graph
    return np.ceil(work).astype(np.int64)[graphs.graph]


def pair_distances(graphs: Graphs, limit: int | None = None, nodes: slice = slice(None)) -> Pairs:
    """Return the distances from some nodes, by a breadth-first search from all of them at once.

    Pairs farther apart than `limit` are left out.
    """
    own = np.arange(len(graphs.labels))[nodes]
    graph = graphs.graph[own]
    cells = pointers(graphs.sizes[graph])
    row = cells[:-1] - graphs.indptr[:-1][graph]
    table = np.full(cells[-1], -1, dtype=np.int32)  # of distances
    dense = _are_dense(graphs)[graph]
    for i in np.unique(graph[dense]):
        centres = np.flatnonzero(graph == i)  # which lie together
        some = slice(cells[centres[0]], cells[centres[-1] + 1])
        table[some] = _by_products(graphs, int(i), own[centres], limit).ravel()
    _search(graphs, own, row, np.flatnonzero(~dense), limit, table)
    found = np.flatnonzero(table >= 0)
    number = np.searchsorted(cells, found, side="right") - 1
    distance = table[found]
    table[found] = np.arange(len(found), dtype=np.int32)
    indptr = np.searchsorted(found, cells)
    return Pairs(own[number], found - row[number], distance, indptr, row, table)


def _search(
    graphs: Graphs,
    own: np.ndarray,
    row: np.ndarray,
    number: np.ndarray,
    limit: int | None,
    table: np.ndarray,
) -> None:
    """Write the distances from own[number] into the table, where node v is at row[number] + v."""
    writer = np.empty(len(table), dtype=np.int32)
    end = own[number]
    table[row[number] + end] = 0
    d = 0
    while len(end) and d != limit:
        d += 1
        degree = graphs.edge_indptr[end + 1] - graphs.edge_indptr[end]
        number = np.repeat(number, degree)
        end = graphs.target[ranges(graphs.edge_indptr[end], degree)]
        cell = row[number] + end
        new = np.flatnonzero(table[cell] < 0)
        cell = cell[new]
        table[cell] = d
        # a pair that was reached several times goes on once: the last to write its name there
        name = np.arange(len(cell), dtype=np.int32)
        writer[cell] = name
        new = new[writer[cell] == name]
        number, end = number[new], end[new]


def _are_dense(graphs: Graphs) -> np.ndarray:
    """Whether each graph has so many edges that products of matrices are the faster search."""
    n_edges = np.diff(graphs.edge_indptr[graphs.indptr])
    return (graphs.sizes >= _DENSE_NODES) & (n_edges >= _DENSE_SHARE * graphs.sizes**2)


def _by_products(graphs: Graphs, i: int, centres: np.ndarray, limit: int | None) -> np.ndarray:
    """Return the distances from some nodes of graph i to all of them, shape (b, n)."""
    start, n = graphs.indptr[i], graphs.sizes[i]
    edges = slice(graphs.edge_indptr[start], graphs.edge_indptr[start + n])
    adjacency = np.zeros((n, n), dtype=np.float32)
    adjacency[graphs.source[edges] - start, graphs.target[edges] - start] = 1.0
    distance = np.full((len(centres), n), -1, dtype=np.int32)
    frontier = np.zeros(distance.shape, dtype=np.float32)
    frontier[np.arange(len(centres)), centres - start] = 1.0
    d = 0
    while frontier.any():
        distance[frontier > 0] = d
        if d == limit:
            break
        d += 1
        frontier = ((frontier @ adjacency > 0) & (distance < 0)).astype(np.float32)
    return distance


def core_numbers(graphs: Graphs) -> np.ndarray:
    """Return for each node the largest k such that it is in the k-core; self loops do not count."""
    number = np.zeros(len(graphs.labels), dtype=np.int64)
    alive = np.ones(len(number), dtype=bool)
    proper = graphs.source != graphs.target
    source, target = graphs.source[proper], graphs.target[proper]
    k = 1
    while alive.any():
        degree = np.bincount(source, minlength=len(number))
        weak = alive & (degree < k)
        if not weak.any():
            number[alive] = k
            k += 1
            continue
        alive &= ~weak
        kept = alive[source] & alive[target]
        source, target = source[kept], target[kept]
    return number
