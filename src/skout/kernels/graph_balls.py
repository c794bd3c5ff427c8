"""Neighborhoods of nodes, and hashes that differ where these are not isomorphic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._numerics.objects import pointers, ranges
from .bags import mix, sort_within
from .graph_rows import Graphs, NodePairs, refine, segment_sums

# Nodes besides the root that are singled out, one after the other, where refinement falls short:
# two tell apart all but strongly regular graphs and the like, and each more multiplies the time.
_DEPTH = 2
# Nodes of all copies of a ball, at most: beyond that its hash does without them. A limit of time,
# by convention.
_BUDGET = 2**16
# Nodes of copies that are worked on at a time: arrays of 8 MB. Between a quarter and four times
# this the time is the same within 10 %.
_BLOCK = 2**20


def ball_hashes(graphs: Graphs, pairs: NodePairs, radius: int) -> list[np.ndarray]:
    """Return, for r = 0 to `radius`, one hash a source: that of the ball of radius r around it.

    The ball is the graph that the nodes within distance r induce; its root is the node itself.
    Balls that are isomorphic, with roots and labels of nodes and edges, have the same hash.
    """
    balls, center_distance = _balls(graphs, pairs, radius)
    hashes: list[np.ndarray] = []
    for r in range(radius + 1):
        # a ball that reaches no node at distance r is the one of radius r - 1
        grown = segment_sums((center_distance == r).astype(np.int64), balls.indptr) > 0
        inside = (center_distance <= r) & grown[balls.graph]
        new = _hashes(balls.subgraph(inside), rounds=2 * r)
        hashes.append(np.where(grown, new, hashes[-1]) if hashes else new)
    return hashes


def _balls(graphs: Graphs, pairs: NodePairs, radius: int) -> tuple[Graphs, np.ndarray]:
    """Return the ball around each node, its labels mixed with the distance, and that distance."""
    inside = pairs.distance <= radius
    number = pointers(inside)
    center = np.repeat(np.arange(len(pairs.row)), np.diff(pairs.indptr))[inside]
    node = pairs.target[inside]
    degree = graphs.edge_indptr[node + 1] - graphs.edge_indptr[node]
    edge = ranges(graphs.edge_indptr[node], degree)
    other = pairs.table[np.repeat(pairs.row[center], degree) + graphs.target[edge]]
    kept = (other >= 0) & inside[other]
    distance = pairs.distance[inside]
    balls = Graphs(
        number[pairs.indptr],
        mix(graphs.labels[node] + mix(distance.astype(np.uint64), salt=4)),
        pointers(kept)[pointers(degree)],
        number[other[kept]],
        graphs.edge_labels[edge[kept]],
    )
    return balls, distance


def _hashes(
    balls: Graphs, rounds: int, depth: int = _DEPTH, spent: np.ndarray | None = None
) -> np.ndarray:
    """Return one hash a ball, from colors refined `rounds` times and once more.

    Where refinement leaves nodes of one color that are not interchangeable, each node of a
    smallest such class is singled out in a copy of the ball, and the hashes of the copies count
    too. Two balls with the same hash of a copy whose nodes are all told apart are isomorphic: the
    last round spells out their edges. `spent` is the number of copies behind each ball.
    """
    for _ in range(rounds):
        balls = balls.relabel(refine(balls, edge_labels=True))
    last = mix(refine(balls, edge_labels=True), salt=5)
    hashes = mix(segment_sums(last, balls.indptr))
    if depth == 0:
        return hashes
    spent = np.ones(len(balls), dtype=np.int64) if spent is None else spent
    chosen = _nodes_to_single_out(balls)
    ball = balls.graph[chosen]
    copies = np.bincount(ball, minlength=len(balls)) * spent
    affordable = (copies * balls.sizes <= _BUDGET)[ball]
    for nodes in _parts(balls, chosen[affordable]):
        ball = balls.graph[nodes]
        inner = mix(_hashes(_single_out(balls, nodes), rounds, depth - 1, copies[ball]), salt=7)
        starts = np.flatnonzero(np.diff(ball, prepend=-1))
        hard = ball[starts]
        hashes[hard] = mix(hashes[hard] + np.add.reduceat(inner, starts), salt=8)
    return hashes


def _parts(balls: Graphs, nodes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield nodes, those of a ball together, a few at a time: each stands for a copy of a ball."""
    ball = balls.graph[nodes]
    work = np.cumsum(balls.sizes[ball]) // _BLOCK
    # a part ends with the first ball whose work is beyond it
    ends = np.searchsorted(ball, ball[np.flatnonzero(np.diff(work))], side="right")
    for part in np.split(nodes, np.unique(ends)):
        if len(part):
            yield part


def _single_out(balls: Graphs, nodes: np.ndarray) -> Graphs:
    """Return for each of the nodes a copy of its ball, in which no other node has its color."""
    ball = balls.graph[nodes]
    copies = balls[ball]
    place = copies.indptr[:-1] + nodes - balls.indptr[ball]
    copies.labels[place] = mix(copies.labels[place], salt=6)
    return copies


def _nodes_to_single_out(balls: Graphs) -> np.ndarray:
    """Return one node of each set of twins of a smallest class of equal color, for hard balls.

    Twins can be swapped without a change of the ball, so a class of twins needs no more.
    """
    hard = _repeat_colors(balls)
    hard_balls = balls[hard]
    twin = _twins(hard_balls)
    order = np.lexsort((twin, hard_balls.labels, hard_balls.graph))
    twin, color, ball = twin[order], hard_balls.labels[order], hard_balls.graph[order]
    new_ball = np.diff(ball, prepend=-1) > 0
    new_class = new_ball | (np.diff(color, prepend=np.uint64(0)) != 0)
    new_set = new_class | (np.diff(twin, prepend=np.uint64(0)) != 0)
    nodes, new_class = order[new_set], new_class[new_set]
    first = np.flatnonzero(new_class)
    size = np.diff(np.append(first, len(nodes)))
    first, size = first[size > 1], size[size > 1]
    # of each ball the smallest class, and of those the one of least color
    ball = hard_balls.graph[nodes[first]]
    order = np.lexsort((hard_balls.labels[nodes[first]], size, ball))
    best = order[np.diff(ball[order], prepend=-1) > 0]
    nodes = nodes[ranges(first[best], size[best])]
    centers: np.ndarray = (
        nodes + (balls.indptr[hard] - hard_balls.indptr[:-1])[hard_balls.graph[nodes]]
    )
    return centers


def _repeat_colors(balls: Graphs) -> np.ndarray:
    """Return the balls with two nodes of one color; trees, which the root identifies, aside."""
    proper = segment_sums((balls.source != balls.target).astype(np.int64), balls.edge_indptr)
    cyclic = segment_sums(proper, balls.indptr) > 2 * (balls.sizes - 1)
    nodes = np.flatnonzero(cyclic[balls.graph])
    ball = balls.graph[nodes]
    color = sort_within(np.where(cyclic, balls.sizes, 0), balls.labels[nodes])
    equal = (ball[1:] == ball[:-1]) & (color[1:] == color[:-1])
    return np.unique(ball[1:][equal])


def _twins(graphs: Graphs) -> np.ndarray:
    """Return a key of each node, the same for twins, which are nodes with the same neighbors.

    They are neighbors of each other or not, and edges to a third node have the same label. Every
    node must have a neighbor.
    """
    name = mix(np.arange(len(graphs.labels), dtype=np.uint64), salt=9)
    around = segment_sums(
        mix(name[graphs.target] + graphs.edge_labels, salt=10), graphs.edge_indptr
    )
    order = np.lexsort((around, graphs.graph))
    equal = np.diff(around[order]) == 0
    apart = np.zeros(len(around), dtype=bool)
    apart[order[1:][equal]] = apart[order[:-1][equal]] = True
    # with itself among them, a node has the same neighbors as a twin that is a neighbor
    least = np.minimum.reduceat(graphs.edge_labels, graphs.edge_indptr[:-1]) if len(name) else name
    return np.where(apart, around, around + mix(name + least, salt=10))
