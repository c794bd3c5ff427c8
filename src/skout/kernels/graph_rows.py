"""Many graphs as a few long arrays, and what the kernels on graphs do with all of them at once.

Labels and colours of nodes are hashes of 64 bits. A multiset of hashes is hashed by the sum of its
members, each of them mixed first, so that the order of nodes and neighbours never matters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .bags import mix

__all__ = ["Graphs", "Pairs", "core_numbers", "pair_distances", "refine"]

_ODD = np.uint64(0x9E3779B97F4A7C15)


def segment_sums(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the sums of values[indptr[i] : indptr[i + 1]], in integers that may wrap around."""
    totals = np.zeros(len(values) + 1, dtype=values.dtype)
    np.cumsum(values, out=totals[1:])
    return np.diff(totals[indptr])


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return starts[0], starts[0] + 1, ... (lengths[0] of them), starts[1], ... in one array."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def pointers(lengths: np.ndarray) -> np.ndarray:
    """Return 0 and the running sums of the lengths."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Graphs:
    """Undirected graphs with labels, one after the other; made by `read_graphs`.

    Each edge is there twice, once from each end; a self loop once. Nodes of a graph are next to
    each other, and so are the edges that leave a node.

    Parameters
    ----------
    indptr : ndarray of int64, shape (n + 1,)
        Graph i has the nodes indptr[i] to indptr[i + 1] - 1.
    labels : ndarray of uint64
        One hash a node.
    edge_indptr : ndarray of int64
        The edges that leave node v are edge_indptr[v] to edge_indptr[v + 1] - 1.
    target : ndarray of int64
        The node at the other end of each edge.
    edge_labels : ndarray of uint64
        One hash an edge.
    """

    indptr: np.ndarray
    labels: np.ndarray
    edge_indptr: np.ndarray
    target: np.ndarray
    edge_labels: np.ndarray

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
    """All ordered pairs of nodes of one graph, for each graph, and their distances.

    Parameters
    ----------
    source, target : ndarray of int64
    distance : ndarray of int32
        Edges of a shortest path; -1 where there is no path, or none within the limit.
    indptr : ndarray of int64
        The pairs with source v are indptr[v] to indptr[v + 1] - 1, their targets in order.
    """

    source: np.ndarray
    target: np.ndarray
    distance: np.ndarray
    indptr: np.ndarray


def pair_distances(graphs: Graphs, limit: int | None = None) -> Pairs:
    """Return the distances of nodes, by a breadth-first search from all nodes at once."""
    sizes, first = graphs.sizes[graphs.graph], graphs.indptr[:-1][graphs.graph]
    indptr = pointers(sizes)
    source = np.repeat(np.arange(len(sizes)), sizes)
    target = ranges(first, sizes)
    # the pair (u, v) is at row[u] + v
    row = indptr[:-1] - first
    distance = np.full(len(source), -1, dtype=np.int32)
    writer = np.empty(len(source), dtype=np.int32)
    frontier = row + np.arange(len(sizes))
    distance[frontier] = 0
    d = 0
    while len(frontier) and d != limit:
        d += 1
        end = target[frontier]
        degree = graphs.edge_indptr[end + 1] - graphs.edge_indptr[end]
        reached = np.repeat(row[source[frontier]], degree)
        reached += graphs.target[ranges(graphs.edge_indptr[end], degree)]
        reached = reached[distance[reached] < 0]
        distance[reached] = d
        # a pair that was reached several times goes on once: the last to write its name there
        name = np.arange(len(reached), dtype=np.int32)
        writer[reached] = name
        frontier = reached[writer[reached] == name]
    return Pairs(source, target, distance, indptr)


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
