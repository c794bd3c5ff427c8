"""Graphs: how many edits turn one into the other, by a search over partial maps of the nodes.

With unit costs some cheapest edit path maps every node of the smaller graph to a node of the
larger: to delete one node and insert another is never cheaper than to substitute. The smaller graph
is padded with empty nodes, and the distance is the least over bijections p of

    sum_i [label_i != label_p(i)] + sum_{i<j} [A_ij != B_p(i)p(j)],

where A_ij is the label of an edge, 0 where there is none. Nodes of the smaller graph are *rows*,
those of the larger *columns*.
"""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import joblib
import numpy as np
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

from .._numerics.arrays import row_slices
from .._numerics.objects import as_objects
from .._numerics.validation import check_number
from ..kernels.graph_rows import Graph, Graphs, read_graphs

# Pairs that a worker takes at a time, at most, so that a progress bar moves. A convention.
_CHUNK = 32
# More than any distance; sums of a million of them do not overflow.
_NO_BOUND = 2**40


def graph_edit_distance(
    a: object,
    b: object,
    *,
    edge_labels: bool = True,
    time_limit: float | None = 10.0,
    return_exact: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> float | np.ndarray | tuple[float, bool] | tuple[np.ndarray, np.ndarray]:
    """Return the least number of edits that turn one graph into the other.

    An edit inserts or deletes a node or an edge, or changes the label of one. The search is exact:
    depth first over partial maps of the nodes, with the assignment bound of Chang et al. (2020).
    It is made for molecules: a pair whose smaller one has 9 atoms takes some 2 ms, and each atom
    about doubles it.

    Parameters
    ----------
    a, b : graphs, or lists of as many graphs
        networkx graphs, RDKit molecules, SMILES or tuples (edges, node_labels, edge_labels), as
        kernels on graphs take them; lists are compared pair by pair.
    edge_labels : bool, default True
        Whether to change the label of an edge is an edit; else only whether there is one counts.
    time_limit : float, default 10.0
        Seconds for each pair; None means no limit. Where it ends the search, the best distance
        found so far stands, an upper bound, and a warning says for how many pairs.
    return_exact : bool, default False
        Whether to return, instead of a warning, which distances are exact.
    n_jobs : int, optional
        Processes. None means 1, -1 as many as there are cores.
    verbose : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    distance : float, or ndarray of float64 of shape (n,)
    exact : bool, or ndarray of bool of shape (n,)
        Only with `return_exact`: False where `time_limit` ended the search.

    References
    ----------
    L. Chang, X. Feng, X. Lin, L. Qin, W. Zhang, D. Ouyang. Speeding up GED verification for graph
    similarity search. ICDE, 2020.

    Examples
    --------
    >>> from skout.metrics import graph_edit_distance
    >>> ethanol = [(0, 1), (1, 2)], ["C", "C", "O"], [1, 1]
    >>> acetaldehyde = [(0, 1), (1, 2)], ["C", "C", "O"], [1, 2]
    >>> methane = [], ["C"], None
    >>> graph_edit_distance(ethanol, acetaldehyde)
    1.0
    >>> graph_edit_distance([ethanol, ethanol], [acetaldehyde, methane])
    array([1., 4.])
    >>> graph_edit_distance(ethanol, acetaldehyde, edge_labels=False)
    0.0
    """
    limit = np.inf if time_limit is None else float(check_number(time_limit, "time_limit"))
    graphs, single = _read(a, b)
    pairs = _distances(graphs, edge_labels, limit, n_jobs, verbose)
    distances, exact = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    if not return_exact and not exact.all():
        warnings.warn(
            f"{np.count_nonzero(exact == 0)} of {len(exact)} pairs reached time_limit={limit:g} "
            "seconds: their distances are upper bounds. Raise time_limit, or see which they are "
            "with return_exact=True.",
            UserWarning,
            stacklevel=2,
        )
    results = (float(distances[0]), bool(exact[0])) if single else (distances, exact == 1)
    return results if return_exact else results[0]


# Reading -----------------------------------------------------------------------------------------


def _read(a: Graph, b: Graph) -> tuple[Graphs, bool]:
    """Return the graphs of a and then of b, and whether each is a single graph."""
    single = [_is_graph(graphs) for graphs in (a, b)]
    first, second = ([g] if _is_graph(g) else list(as_objects(g)) for g in (a, b))
    if single[0] != single[1] or len(first) != len(second):
        lists = zip((first, second), single, strict=True)
        got = ["one graph" if is_single else f"a list of {len(g)}" for g, is_single in lists]
        raise ValueError(
            "a and b must be two graphs, or two lists of as many graphs. "
            f"Got {got[0]} and {got[1]} instead."
        )
    try:  # together, so that labels of different kinds are an error
        return read_graphs(first + second), single[0]
    except (TypeError, ValueError):
        _blame("a", first)
        _blame("b", second)
        raise


def _is_graph(item: object) -> bool:
    """Return whether this is one graph, not a list of them."""
    if isinstance(item, tuple):
        return len(item) == 3 and not _is_graph(item[0])
    return isinstance(item, str) or hasattr(item, "is_directed") or hasattr(item, "GetAtoms")


def _blame(name: str, graphs: list[Graph]) -> None:
    """Raise the error of reading one argument alone, which numbers its graphs from 0."""
    try:
        read_graphs(graphs)
    except (TypeError, ValueError) as error:
        raise type(error)(f"In {name}: {error}") from error


# Pairs -------------------------------------------------------------------------------------------


def _distances(
    graphs: Graphs, edge_labels: bool, limit: float, n_jobs: int | None, verbose: bool
) -> list[tuple[int, bool]]:
    """Return the distance of graphs i and n + i of 2 n, and whether it is exact."""
    n = len(graphs) // 2
    workers = max(1, min(joblib.effective_n_jobs(n_jobs), n))
    size = 1 if workers == 1 else max(1, min(_CHUNK, n // (4 * workers)))
    tasks = (
        (graphs[np.r_[part, n + part.start : n + part.stop]], edge_labels, limit)
        for part in row_slices(n, size)
    )
    pool = joblib.Parallel(workers, return_as="generator")
    distances: list[tuple[int, bool]] = []
    with tqdm(total=n, desc="graph edit distance", disable=not verbose) as bar:
        for part in pool(joblib.delayed(_some_distances)(*task) for task in tasks):
            distances += part
            bar.update(len(part))
    return distances


def _some_distances(graphs: Graphs, edge_labels: bool, limit: float) -> list[tuple[int, bool]]:
    n = len(graphs) // 2
    return [_distance(graphs[[i, n + i]], edge_labels, limit) for i in range(n)]


def _distance(pair: Graphs, edge_labels: bool, limit: float) -> tuple[int, bool]:
    """Return the least edit cost of two graphs, and whether the search was completed."""
    end = time.perf_counter() + limit
    (a, A), (b, B) = sorted(_matrices(pair, edge_labels), key=lambda graph: len(graph[0]))
    state = _start(a, A, b, B)
    n_steps = max(1, 2 * 10**5 // len(b) ** 4)  # some milliseconds
    finished = _search(state, n_steps)
    while not finished and time.perf_counter() < end:
        finished = _search(state, n_steps)
    return int(state.best[0]), bool(finished)


def _matrices(pair: Graphs, edge_labels: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return node labels and the matrix of edges of each graph; edge labels are 1, 2, ..."""
    n = int(pair.indptr[1])
    E = np.zeros((len(pair.labels), len(pair.labels)), dtype=np.int64)
    numbers = np.unique(pair.edge_labels, return_inverse=True)[1] if edge_labels else 0
    E[pair.source, pair.target] = 1 + numbers
    return [(pair.labels[:n], E[:n, :n]), (pair.labels[n:], E[n:, n:])]


# The search ---------------------------------------------------------------------------------------


class _State(NamedTuple):
    """A search that can be stopped and resumed. Costs are doubled: half edges become integers.

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


def _start(a: np.ndarray, A: np.ndarray, b: np.ndarray, B: np.ndarray) -> _State:
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


def _at_root(n: int, A: np.ndarray, B: np.ndarray, labels: np.ndarray) -> _State:
    """Return the state where no row is mapped."""
    m, numbers = len(A), np.arange(1, max(A.max(), B.max(), 1) + 1)
    hot_rows, hot = ((E[:, :, None] == numbers).astype(np.int64) for E in (A, B))
    # summed from the last row on: edges to rows k, k + 1, ...
    rows_left = np.zeros((n + 1, m, len(numbers)), dtype=np.int64)
    rows_left[:n] = hot_rows[::-1].cumsum(axis=0)[::-1][:n]
    levels = np.zeros((n + 1, m), dtype=np.int64)
    state = _State(
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


def _search(state: _State, n_steps: int) -> bool:
    """Visit up to n_steps partial maps; return whether none is left to visit."""
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


def _enter(state: _State, k: int, column: int) -> None:
    """Map row k to a column: set the arrays of depth k + 1."""
    state.spent[k + 1] = state.spent[k] + state.cost[k, k, column]
    state.cols_left[k + 1] = state.cols_left[k] - state.hot[column]
    state.cost[k + 1] = state.cost[k] + 2 * (state.A[k, :, None] != state.B[column])
    state.order[k + 1] = np.where(state.order[k] == column, state.order[k, k], state.order[k])
    state.order[k + 1, k] = column


def _expand(state: _State, k: int) -> None:
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


def _child_costs(state: _State, k: int, free: np.ndarray) -> np.ndarray:
    """Return least costs of the rows beyond k and the free columns, for each child of row k."""
    left = state.cols_left[k, free] - state.hot[free][:, free]  # (child, column, label)
    rows_left = state.rows_left[k + 1, k + 1 :]  # (row, label)
    linked = state.A[k, k + 1 :, None] != state.B[free][:, None, free]
    costs: np.ndarray = state.cost[k, k + 1 :, free].T + 2 * linked
    costs += np.maximum(rows_left.sum(axis=1)[:, None], left.sum(axis=2)[:, None, :])
    costs -= np.minimum(rows_left[:, None], left[:, None]).sum(axis=3)
    c = np.arange(len(free))
    costs[c, :, c] = _NO_BOUND  # the column that row k has taken
    return costs


def _map_cost(state: _State, columns: np.ndarray) -> int:
    """Return the cost of a map of all rows."""
    labels = state.cost[0][np.arange(len(columns)), columns].sum()
    return int(labels + (state.B[columns][:, columns] != state.A).sum()) // 2
