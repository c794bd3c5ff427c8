"""The search behind the graph edit distance: depth first, over partial maps of the nodes.

With unit costs some cheapest edit path maps every node of the smaller graph to a node of the
larger: to delete one node and insert another is never cheaper than to substitute. The smaller graph
is padded with empty nodes, and the distance is the least over bijections p of

    sum_i [label_i != label_p(i)] + sum_{i<j} [A_ij != B_p(i)p(j)],

where A_ij is the label of an edge, 0 where there is none. Nodes of the smaller graph are *rows*,
those of the larger *columns*.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

__all__ = ["State", "compiled_search", "is_worthwhile", "search", "start", "with_loops"]

_NO_BOUND = 2**40
# Seconds of search from which compiling, some seconds the first time, is worth it.
_COMPILED_SECONDS = 2.0


class State(NamedTuple):
    """A search that can be stopped and resumed. Costs are doubled, so that half edges are integers.

    Arrays by depth k describe the partial map of the first k rows that the search is at.
    """

    A: np.ndarray  # (m, m) edges of the rows; only the first n are nodes, in the order of search
    B: np.ndarray  # (m, m) edges of the columns
    hot: np.ndarray  # (m, m, L) hot[j, i, l] = [B_ji is label l + 1]
    rows_left: np.ndarray  # (n + 1, m, L) edges from each row to rows k and beyond
    cols_left: np.ndarray  # (n + 1, m, L) edges from each column to free columns
    cost: np.ndarray  # (n + 1, m, m) node i to j: its label, and its edges to mapped nodes
    spent: np.ndarray  # (n + 1,) cost of the partial map
    order: np.ndarray  # (n + 1, m) columns: those of the first k rows, then the free ones
    children: np.ndarray  # (n + 1, m) columns that row k may go to, best bound first
    bounds: np.ndarray  # (n + 1, m) least distance with each of them (not doubled)
    position: np.ndarray  # (n + 1,) the next child to visit
    best: np.ndarray  # (1,) least distance found (not doubled)
    depth: np.ndarray  # (1,) -1 before the start


def start(a: np.ndarray, A: np.ndarray, b: np.ndarray, B: np.ndarray) -> State:
    """Return the state before the search; the first graph has no more nodes than the second."""
    n, m = len(a), len(b)
    rows = _row_order(A)
    padded = np.zeros((m, m), dtype=np.int64)
    padded[:n, :n] = A[np.ix_(rows, rows)]
    labels = 2 * np.ones((m, m), dtype=np.int64)
    labels[:n] = 2 * (a[rows, None] != b)
    # a self loop goes with its node
    labels += 2 * (padded.diagonal()[:, None] != B.diagonal())
    A, B = (E * (1 - np.eye(m, dtype=np.int64)) for E in (padded, B))
    return _at_root(n, A, B, labels)


def _at_root(n: int, A: np.ndarray, B: np.ndarray, labels: np.ndarray) -> State:
    """Return the state where no row is mapped."""
    m, numbers = len(A), np.arange(1, max(A.max(), B.max(), 1) + 1)
    hot_rows, hot = ((E[:, :, None] == numbers).astype(np.int64) for E in (A, B))
    # summed from the last row on: edges to rows k, k + 1, ...
    rows_left = np.zeros((n + 1, m, len(numbers)), dtype=np.int64)
    rows_left[:n] = hot_rows[::-1].cumsum(axis=0)[::-1][:n]
    levels = np.zeros((n + 1, m), dtype=np.int64)
    state = State(
        A=A,
        B=B,
        hot=hot,
        rows_left=rows_left,
        cols_left=np.zeros((n + 1, m, len(numbers)), dtype=np.int64),
        cost=np.zeros((n + 1, m, m), dtype=np.int64),
        spent=levels[:, 0].copy(),
        order=levels + np.arange(m),
        children=levels.copy(),
        bounds=levels.copy(),
        position=levels[:, 0].copy(),
        best=np.array([_NO_BOUND]),
        depth=np.array([-1]),
    )
    state.cols_left[0] = hot.sum(axis=1)
    state.cost[0] = labels
    return state


def _row_order(A: np.ndarray) -> np.ndarray:
    """Return an order of nodes where each has many edges to those before it."""
    linked = A > 0
    degree, n = linked.sum(axis=1), len(A)
    score, order = degree.copy(), np.empty(n, dtype=np.int64)
    for k in range(n):
        order[k] = i = int(score.argmax())
        score += n * linked[i]  # edges to those before count first, then the degree
        score[order[: k + 1]] = -1
    return order


def search(state: Any, n_steps: int) -> bool:
    """Visit up to n_steps partial maps; return whether there is none left."""
    n, m = state.order.shape[0] - 1, state.order.shape[1]
    k = state.depth[0]
    if k < 0:
        k += 1
        _expand(state, k)
    for _ in range(n_steps):
        # up to a map that has a child which may be better than the best
        while k >= 0:
            at = state.position[k]
            if at < m - k and state.bounds[k, at] < state.best[0]:
                break
            k -= 1
        if k < 0:
            return True
        state.position[k] += 1
        if k + 1 < n:  # else all rows are mapped, and the bound was the cost
            _enter(state, k, state.children[k, state.position[k] - 1])
            k += 1
            _expand(state, k)
    state.depth[0] = k
    return False


def _enter(state: Any, k: int, column: int) -> None:
    """Map row k to a column: set the arrays of depth k + 1."""
    state.spent[k + 1] = state.spent[k] + state.cost[k, k, column]
    state.cols_left[k + 1] = state.cols_left[k] - state.hot[column]
    state.cost[k + 1] = state.cost[k] + 2 * (state.A[k, :, None] != state.B[column])
    state.order[k + 1] = np.where(state.order[k] == column, state.order[k, k], state.order[k])
    state.order[k + 1, k] = column


def _expand(state: Any, k: int) -> None:
    """Bound the distance for each column that row k may go to, by an assignment of the rest.

    A row i that goes to j costs at least its label, its edges to mapped rows, and half of the
    edges to other rows that cannot be matched by label. The assignment is a map too, whose cost
    may be a new best.
    """
    free = state.order[k, k:]  # (f,) the child c maps row k to free[c]
    costs = _child_costs(state, k, free)  # (f, f - 1, f)
    bounds = state.bounds[k, : len(free)]
    columns = state.order[k].copy()
    rows = np.arange(len(free) - 1)
    for c in range(len(free)):
        assigned = linear_sum_assignment(costs[c])[1]
        total = costs[c][rows, assigned].sum() + state.spent[k] + state.cost[k, k, free[c]]
        bounds[c] = (total + 1) // 2
        if bounds[c] < state.best[0]:
            columns[k], columns[k + 1 :] = free[c], free[assigned]
            state.best[0] = min(state.best[0], _map_cost(state, columns))
    ranks = np.argsort(bounds, kind="stable")
    state.children[k, : len(free)], bounds[:] = free[ranks], bounds[ranks]
    state.position[k] = 0


def _child_costs(state: Any, k: int, free: np.ndarray) -> np.ndarray:
    """Return least costs of the rows beyond k and the free columns, for each child of row k."""
    left = state.cols_left[k, free] - state.hot[free][:, free]  # (child, column, label)
    rows_left = state.rows_left[k + 1, k + 1 :]  # (row, label)
    linked = state.A[k, k + 1 :, None] != state.B[free][:, None, free]
    costs = state.cost[k, k + 1 :, free].T + 2 * linked
    costs += np.maximum(rows_left.sum(axis=1)[:, None], left.sum(axis=2)[:, None, :])
    costs -= np.minimum(rows_left[:, None], left[:, None]).sum(axis=3)
    c = np.arange(len(free))
    costs[c, :, c] = _NO_BOUND  # the column that row k has taken
    return costs


def _map_cost(state: Any, columns: np.ndarray) -> int:
    """Return the cost of a map of all rows."""
    labels = state.cost[0][np.arange(len(columns)), columns].sum()
    return (labels + (state.B[columns][:, columns] != state.A).sum()) // 2


# The same as loops, for the compiler -------------------------------------------------------------


def _enter_loops(state: Any, k: int, column: int) -> None:
    state.spent[k + 1] = state.spent[k] + state.cost[k, k, column]
    for i in range(state.order.shape[1]):
        moved = state.order[k, i]
        state.order[k + 1, i] = state.order[k, k] if moved == column else moved
        for l in range(state.hot.shape[2]):
            state.cols_left[k + 1, i, l] = state.cols_left[k, i, l] - state.hot[column, i, l]
        for j in range(state.order.shape[1]):
            linked = 2 if state.A[k, i] != state.B[column, j] else 0
            state.cost[k + 1, i, j] = state.cost[k, i, j] + linked
    state.order[k + 1, k] = column


def _expand_loops(state: Any, k: int) -> None:
    m = state.order.shape[1]
    columns, costs = np.empty(m, dtype=np.int64), np.empty((m, m), dtype=np.int64)
    for at in range(m - k):
        column = state.order[k, k + at]
        bound = _child_loops(state, k, at, columns, costs)
        if bound < state.best[0]:
            state.best[0] = min(state.best[0], _map_cost_loops(state, columns))
        while at > 0 and state.bounds[k, at - 1] > bound:
            state.bounds[k, at] = state.bounds[k, at - 1]
            state.children[k, at] = state.children[k, at - 1]
            at -= 1
        state.bounds[k, at], state.children[k, at] = bound, column
    state.position[k] = 0


def _child_loops(state: Any, k: int, at: int, columns: np.ndarray, costs: np.ndarray) -> int:
    """Return the bound of one child, and write its map into `columns`."""
    m = len(columns)
    for i in range(m):
        columns[i] = state.order[k, i]
    taken = columns[k + at]
    columns[k + at] = columns[k]
    columns[k] = taken
    size = m - k - 1
    for x in range(size):
        i = k + 1 + x
        for y in range(size):
            j = columns[k + 1 + y]
            row_edges, column_edges, common = 0, 0, 0
            for l in range(state.hot.shape[2]):
                p = state.rows_left[k + 1, i, l]
                q = state.cols_left[k, j, l] - state.hot[taken, j, l]
                row_edges, column_edges, common = (
                    row_edges + p,
                    column_edges + q,
                    common + min(p, q),
                )
            linked = 2 if state.A[k, i] != state.B[taken, j] else 0
            costs[x, y] = state.cost[k, i, j] + linked + max(row_edges, column_edges) - common
    assigned = _assign_loops(costs, size)
    total = state.spent[k] + state.cost[k, k, taken]
    for x in range(size):
        total += costs[x, assigned[x]]
        assigned[x] = columns[k + 1 + assigned[x]]
    for x in range(size):
        columns[k + 1 + x] = assigned[x]
    return (total + 1) // 2


def _map_cost_loops(state: Any, columns: np.ndarray) -> int:
    total = 0
    for i in range(len(columns)):
        total += state.cost[0, i, columns[i]]
        for j in range(i):
            if state.A[i, j] != state.B[columns[i], columns[j]]:
                total += 2
    return total // 2


def _assign_loops(costs: np.ndarray, n: int) -> np.ndarray:
    """Return the column of each row in a cheapest assignment, by shortest augmenting paths."""
    price_row, price = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    owner = np.full(n, -1)  # the row that has a column
    before = np.empty(n, dtype=np.int64)  # the row from which a path reaches a column
    length, done = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    column_of = np.full(n, -1)
    for start in range(n):
        for j in range(n):
            length[j], done[j] = _NO_BOUND, False
        row, walked, end = start, 0, -1
        while end < 0:
            nearest = -1
            for j in range(n):
                if done[j]:
                    continue
                reach = walked + costs[row, j] - price_row[row] - price[j]
                if reach < length[j]:
                    length[j], before[j] = reach, row
                if nearest < 0 or length[j] < length[nearest]:
                    nearest = j
            walked, done[nearest] = length[nearest], True
            if owner[nearest] < 0:
                end = nearest
            row = owner[nearest]
        price_row[start] += walked
        for j in range(n):
            if done[j] and j != end:
                price_row[owner[j]] += walked - length[j]
                price[j] -= walked - length[j]
        while True:  # each row of the path hands its column on
            row = before[end]
            owner[end] = row
            column_of[row], end = end, column_of[row]
            if row == start:
                break
    return column_of


# Which of the two -------------------------------------------------------------------------------


def is_worthwhile(sizes: np.ndarray) -> bool:
    """Return whether to compile the search, by a guess at how long it takes without.

    A pair of molecules whose smaller one has 9 atoms takes some 2 ms; each atom about doubles it.
    """
    seconds = 0.002 * np.exp2(np.minimum(sizes, 99) - 9.0).sum()
    return bool(seconds >= _COMPILED_SECONDS) and find_spec("numba") is not None


@functools.cache
def compiled_search() -> Callable[[Any, int], bool]:
    """Return the search, compiled by numba and ready to run."""
    import numba

    try:
        found = with_loops(numba.njit(nogil=True, cache=True))
    except RuntimeError:  # numba has no folder to keep compiled code in
        found = with_loops(numba.njit(nogil=True))
    one = np.zeros(1, dtype=np.uint64)
    found(start(one, np.zeros((1, 1), dtype=np.int64), one, np.zeros((1, 1), dtype=np.int64)), 1)
    return found


def with_loops(compiled: Callable[[Any], Any]) -> Callable[[Any, int], bool]:
    """Return the search over loops instead of array operations, each function compiled.

    A compiled function calls only compiled ones, so they live in a namespace of their own. They are
    bound there by name; functions that are arguments or closures numba cannot keep on disk.
    """
    space = dict(globals())
    loops = {
        "_assign_loops": _assign_loops,
        "_child_loops": _child_loops,
        "_map_cost_loops": _map_cost_loops,
        "_expand": _expand_loops,
        "_enter": _enter_loops,
        "search": search,
    }
    for name, function in loops.items():
        space[name] = compiled(types.FunctionType(function.__code__, space, function.__name__))
    return space["search"]
