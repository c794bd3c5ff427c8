"""Euler paths, and the nearest edge counts that have one."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse.csgraph import connected_components

# Limits of time and memory, by convention, as predicted counts have no bounds: rounds in which
# unconnected pieces are forbidden, and nodes of the search of one integer program;
_ROUNDS, _NODES = 20, 500
# edges of a path; copies of one edge in a program; copies of all edges; and copies of all edges in
# a program that forbids pieces;
_EDGES, _REPEATED, _COPIES, _CUT = 100_000, 300, 10_000, 1000
# edge copies that one program considers, those of least cost: so many take a few seconds;
_CONSIDERED = 20_000
# partial paths that are tried to find the best of several Euler paths, and edges of such a path.
_TRIED, _LONGEST = 2000, 200
# Distance from whole numbers at which a solution of the linear program counts as whole: SciPy's
# solvers keep to constraints within 1e-7.
_TOLERANCE = 1e-6
# Cost of taking an edge again where only presence counts: small beside the costs of edges, about 1,
# and above 0, so that edges are not repeated without need.
_AGAIN = 1e-4


class Graph(NamedTuple):
    """Edges from `tail` to `head`, and weights of the nodes that a path may start and end in.

    A weight of 0 forbids it. With `presence`, edges count once however often they are taken.
    `turns` are the pairs of edges that are preferred to follow each other.
    """

    tail: np.ndarray
    head: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    presence: bool = False
    turns: frozenset[tuple[int, int]] = frozenset()


def nearest_trail(graph: Graph, g: np.ndarray, floor: float = -np.inf) -> list[int] | None:
    """Return edges along a path, of counts c with the greatest 2 g . c - c . c.

    With presence, c is 1 for any edge taken. Only counts worth more than `floor` are sought: where
    there are none, the result is None or any other path. Paths that are very long, or take an edge
    very often, are not sought.
    """
    rounded = np.maximum(np.floor(g + 0.5), 0.0)
    if graph.presence:
        rounded = np.minimum(rounded, 1.0)
    if _worth(g, rounded) <= floor:  # any counts are worth less
        return None
    if rounded.any() and rounded.sum() <= _EDGES:
        trail = euler_path(graph, rounded.astype(np.intp))
        if trail is not None:
            return trail
    fewer = np.minimum(rounded, _REPEATED)
    slack = _worth(g, fewer) - floor
    if slack <= 0.0 or fewer.sum() > _COPIES:
        return None
    return _Program(graph, g, fewer, slack).solve()


def _worth(g: np.ndarray, counts: np.ndarray) -> float:
    """Return 2 g . c - c . c."""
    return float(np.sum(2.0 * g * counts - counts**2))


def _least(cost: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the allowed copies, without those of greatest cost where there are too many."""
    number = np.flatnonzero(allowed)
    if len(number) <= _CONSIDERED:
        return allowed
    warnings.warn(
        f"There are {len(number)} n-grams to build a string from, of which only the {_CONSIDERED} "
        "of greatest expected counts are used: the string may not be the nearest. A smaller n has "
        'fewer n-grams; decoder="candidates" needs none.',
        UserWarning,
        stacklevel=5,
    )
    least = np.zeros_like(allowed)
    least[number[np.argsort(cost[number], kind="stable")[:_CONSIDERED]]] = True
    return least


def euler_path(graph: Graph, counts: np.ndarray) -> list[int] | None:
    """Return a path that takes each edge as often as `counts` says, if there is one.

    A circle is cut at the node of greatest weight to start and end in; ties go to the lowest
    number. Of the paths from there, a short search chooses one with few turns outside of `turns`.
    """
    used = np.flatnonzero(counts)
    excess = np.zeros(len(graph.starts), dtype=np.intp)
    np.add.at(excess, graph.tail[used], counts[used])
    np.subtract.at(excess, graph.head[used], counts[used])
    if np.abs(excess).sum() > 2 or len(used) == 0:
        return None
    if excess.any():
        start, end = int(excess.argmax()), int(excess.argmin())
    else:
        nodes = np.unique(graph.tail[used])
        start = end = int(nodes[(graph.starts[nodes] * graph.ends[nodes]).argmax()])
    if graph.starts[start] * graph.ends[end] == 0:
        return None
    trail = _hierholzer(graph, used, counts, start)
    if len(trail) != counts[used].sum():
        return None
    return _turned(graph, trail) if graph.turns and len(trail) <= _LONGEST else trail


def _hierholzer(graph: Graph, used: np.ndarray, counts: np.ndarray, start: int) -> list[int]:
    """Return the edges of a path from `start` (Hierholzer's), without those it cannot reach."""
    leaving: dict[int, list[int]] = {}
    for edge in used[::-1]:  # so that the lowest is taken first
        leaving.setdefault(int(graph.tail[edge]), []).extend([int(edge)] * int(counts[edge]))
    trail: list[int] = []
    stack: list[tuple[int, int]] = [(start, -1)]  # nodes, and the edges that led there
    while stack:
        node, edge = stack[-1]
        if leaving.get(node):
            following = leaving[node].pop()
            stack.append((int(graph.head[following]), following))
        else:
            stack.pop()
            trail.append(edge)
    return trail[-2::-1]  # without the -1 of the start


def _turned(graph: Graph, trail: list[int]) -> list[int]:
    """Return a path with the edges and the start of `trail` and the fewest turns not in `turns`.

    The search is depth first, and leaves a beginning that has as many of these, `odd`, as the best
    path so far.
    """
    left = Counter(trail)
    best, fewest = trail, sum(turn not in graph.turns for turn in itertools.pairwise(trail))
    tried = 0

    def go(path: list[int], node: int, odd: int) -> None:
        nonlocal best, fewest, tried
        tried += 1
        if odd >= fewest or tried > _TRIED:
            return
        if len(path) == len(trail):
            best, fewest = path.copy(), odd
            return
        for edge in [e for e in edges if left[e] and graph.tail[e] == node]:
            left[edge] -= 1
            turn = (path[-1], edge) if path else None
            path.append(edge)
            go(path, int(graph.head[edge]), odd + (turn is not None and turn not in graph.turns))
            path.pop()
            left[edge] += 1

    edges = sorted(left)
    go([], int(graph.tail[trail[0]]), 0)
    return best


class _Program:
    """min sum of costs of edge copies, such that the copies taken have an Euler path.

    Copy k of an edge costs (2k - 1) - 2g, the rise of c . c - 2 g . c, so that lower copies are
    taken first. Copies, starts and ends are 0 or 1; in every node, out + end = in + start.
    """

    def __init__(self, graph: Graph, g: np.ndarray, rounded: np.ndarray, slack: float) -> None:
        self.graph = graph
        number = rounded.astype(np.intp) + 1
        edge = np.repeat(np.arange(len(g)), number)
        copy = 1 + np.arange(len(edge)) - np.repeat(np.cumsum(number) - number, number)
        cost = 2.0 * copy - 1.0 - 2.0 * g[edge]
        if graph.presence:
            cost[copy > 1] = _AGAIN
        # to take a copy that rounding leaves, or to leave one that it takes, costs |cost|: more
        # than `slack` makes the path worth less than `floor`
        rounded_takes = copy <= rounded[edge]
        required = rounded_takes & (-cost > slack)
        allowed = _least(cost, rounded_takes | (cost <= slack))
        self.edge, self.cost, self.required = edge[allowed], cost[allowed], required[allowed]
        self.tail, self.head = graph.tail[self.edge], graph.head[self.edge]
        # nodes of these copies, numbered
        self.nodes, ends = np.unique(np.concatenate([self.tail, self.head]), return_inverse=True)
        self.tail, self.head = ends[: len(self.tail)], ends[len(self.tail) :]

    def solve(self) -> list[int] | None:
        """Return the edges along the best path; None where there is none."""
        if len(self.edge) == 0:
            return None
        constraints, pieces = self._balance(), []
        for cuts in range(_ROUNDS):
            taken = self._minimum(constraints, whole=cuts > 0)
            if taken is None:
                return None
            pieces = self._pieces(taken)
            trail = self._path(pieces[0]) if len(pieces) == 1 else None
            if trail is not None:
                return trail
            if len(self.edge) > _CUT:  # the time grows with their square
                break
            # where no copy was taken, at least one must be
            row = sparse.csc_array([[1.0] * len(self.edge) + [0.0] * 2 * len(self.nodes)])
            at_least_one = LinearConstraint(row, 1.0, np.inf)
            constraints += [self._connection(piece) for piece in pieces] or [at_least_one]
        # the best piece stands for all
        pieces.sort(key=lambda piece: self.cost[piece].sum())
        return next((path for path in map(self._path, pieces) if path is not None), None)

    def _path(self, piece: np.ndarray) -> list[int] | None:
        """Return the edges of the copies of a piece along a path."""
        return euler_path(self.graph, np.bincount(self.edge[piece], minlength=len(self.graph.tail)))

    def _minimum(self, constraints: list[LinearConstraint], whole: bool) -> np.ndarray | None:
        """Return the copies that the program takes.

        A flow has a solution in whole numbers, so that a linear program finds it; with cuts, whole
        numbers must be a constraint, `whole`.
        """
        m, v = len(self.edge), len(self.nodes)
        lower = np.concatenate([self.required, np.zeros(2 * v)])
        starts, ends = self.graph.starts[self.nodes] > 0, self.graph.ends[self.nodes] > 0
        upper = np.concatenate([np.ones(m), starts, ends])
        cost = np.concatenate([self.cost, np.zeros(2 * v)])
        if m > _CUT and not whole:  # ten times as fast as the simplex method of milp
            (balance,) = constraints
            bounds = np.column_stack([lower, upper])
            result = linprog(
                cost, A_eq=balance.A, b_eq=balance.lb, bounds=bounds, method="highs-ipm"
            )
        else:
            result = milp(
                cost,
                integrality=np.full(m + 2 * v, int(whole)),
                bounds=Bounds(lower, upper),
                constraints=constraints,
                options={"node_limit": _NODES, "mip_rel_gap": 0.0},
            )
        if result.x is None:
            return None
        x = result.x[:m]
        if not whole and np.abs(x - x.round()).max() > _TOLERANCE:  # not a corner: never seen
            return self._minimum(constraints, whole=True)
        return np.flatnonzero(x > 0.5)

    def _balance(self) -> list[LinearConstraint]:
        """Return the constraint that the copies taken are a path, and perhaps circles."""
        m, v = len(self.edge), len(self.nodes)
        copies, starts = np.arange(m), m + np.arange(v)
        ends, ones = starts + v, np.ones(v)
        cells = [
            (self.tail, copies, np.ones(m)),  # out - in - start + end = 0, a row for each node
            (self.head, copies, -np.ones(m)),
            (np.arange(v), starts, -ones),
            (np.arange(v), ends, ones),
            (np.full(v, v), starts, ones),  # one start
            (np.full(v, v + 1), ends, ones),  # one end
        ]
        row, column, value = (np.concatenate(part) for part in zip(*cells, strict=True))
        # int32, which is all that milp of SciPy 1.12 takes
        places = row.astype(np.int32), column.astype(np.int32)
        matrix = sparse.coo_array((value, places), shape=(v + 2, m + 2 * v)).tocsc()
        right = np.concatenate([np.zeros(v), [1.0, 1.0]])
        return [LinearConstraint(matrix, right, right)]

    def _pieces(self, taken: np.ndarray) -> list[np.ndarray]:
        """Return the copies taken, one array for each connected piece."""
        v = len(self.nodes)
        links = (np.ones(len(taken)), (self.tail[taken], self.head[taken]))
        _, piece = connected_components(sparse.coo_matrix(links, shape=(v, v)), directed=False)
        piece = piece[self.tail[taken]]
        return [taken[piece == number] for number in np.unique(piece)]

    def _connection(self, piece: np.ndarray) -> LinearConstraint:
        """Return the constraint that a path with a copy of the piece starts in it or enters it."""
        m, v = len(self.edge), len(self.nodes)
        inside = np.zeros(v, dtype=bool)
        inside[self.tail[piece]] = inside[self.head[piece]] = True
        row = np.zeros((1, m + 2 * v))
        row[0, :m] = inside[self.head] & ~inside[self.tail]  # edges that enter
        row[0, m : m + v] = inside
        # one inequality for each copy of the piece: edges that enter + starts inside >= copy
        block = sparse.kron(np.ones((len(piece), 1)), sparse.csr_array(row), format="csr")
        places = np.arange(len(piece), dtype=np.int32), piece.astype(np.int32)
        copies = sparse.coo_array((np.ones(len(piece)), places), shape=block.shape)
        return LinearConstraint((block - copies).tocsc(), 0.0, np.inf)
