"""Graphs: how many edits turn one into the other."""

from __future__ import annotations

import time
import warnings
from typing import Any

import joblib
import numpy as np
from tqdm.auto import tqdm

from .._numerics.arrays import row_slices
from .._numerics.objects import as_objects
from .._numerics.validation import check_number
from ..kernels.graph_read import read_graphs
from ..kernels.graph_rows import Graphs
from ._graph_edits import compiled_search, is_worthwhile, search, start

__all__ = ["graph_edit_distance"]

# Pairs that a worker takes at a time, at most.
_CHUNK = 32


def graph_edit_distance(
    a: Any,
    b: Any,
    *,
    edge_labels: bool = True,
    time_limit: float | None = 10.0,
    return_exact: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Any:
    """Return the least number of edits that turn one graph into the other.

    An edit inserts or deletes a node or an edge, or changes the label of one. The search is exact:
    depth first over partial maps of the nodes, with the assignment bound of Chang et al. (2020).
    It is made for molecules of up to about 18 atoms. Long searches are compiled where numba is
    installed (`pip install skout[fast]`), which takes some seconds the first time.

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
        Workers: threads where the search is compiled, else processes. None means 1, -1 as many as
        there are cores.
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
    found = _distances(graphs, edge_labels, limit, n_jobs, verbose)
    distances, exact = np.array(found, dtype=np.float64).reshape(-1, 2).T
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


def _read(a: Any, b: Any) -> tuple[Graphs, bool]:
    """Return the graphs of a and then of b, and whether they are one each."""
    single = [_is_graph(graphs) for graphs in (a, b)]
    first, second = (
        [graphs] if one else list(as_objects(graphs))
        for graphs, one in zip((a, b), single, strict=True)
    )
    if single[0] != single[1] or len(first) != len(second):
        got = [
            "one graph" if one else f"a list of {len(some)}"
            for some, one in zip((first, second), single, strict=True)
        ]
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


def _is_graph(given: Any) -> bool:
    """Return whether this is one graph, not a list of them."""
    if isinstance(given, tuple):
        return len(given) == 3 and not _is_graph(given[0])
    return isinstance(given, str) or hasattr(given, "is_directed") or hasattr(given, "GetAtoms")


def _blame(name: str, graphs: list[Any]) -> None:
    """Raise the error of one argument alone, with its own numbers of graphs."""
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
    compiled = is_worthwhile(np.minimum(graphs.sizes[:n], graphs.sizes[n:]))
    if compiled:
        compiled_search()  # once, before threads ask for it, and outside of any time limit
    workers = max(1, min(joblib.effective_n_jobs(n_jobs), n))
    size = 1 if workers == 1 else max(1, min(_CHUNK, n // (4 * workers)))
    tasks = (
        (graphs[np.r_[some, n + some.start : n + some.stop]], edge_labels, limit, compiled)
        for some in row_slices(n, size)
    )
    prefer = "threads" if compiled else "processes"  # compiled code frees the interpreter
    pool = joblib.Parallel(workers, prefer=prefer, return_as="generator")
    found: list[tuple[int, bool]] = []
    with tqdm(total=n, desc="graph edit distance", disable=not verbose) as bar:
        for part in pool(joblib.delayed(_some_distances)(*task) for task in tasks):
            found += part
            bar.update(len(part))
    return found


def _some_distances(
    graphs: Graphs, edge_labels: bool, limit: float, compiled: bool
) -> list[tuple[int, bool]]:
    n = len(graphs) // 2
    visit = compiled_search() if compiled else search
    return [_distance(graphs[[i, n + i]], edge_labels, limit, visit) for i in range(n)]


def _distance(pair: Graphs, edge_labels: bool, limit: float, visit: Any) -> tuple[int, bool]:
    """Return the least cost found for a pair, and whether nothing is left to search."""
    end = time.perf_counter() + limit
    (a, A), (b, B) = sorted(_matrices(pair, edge_labels), key=lambda graph: len(graph[0]))
    state = start(a, A, b, B)
    n_steps = max(1, 2 * 10**5 // len(b) ** 4)  # some milliseconds
    finished = visit(state, n_steps)
    while not finished and time.perf_counter() < end:
        finished = visit(state, n_steps)
    return int(state.best[0]), bool(finished)


def _matrices(pair: Graphs, edge_labels: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return node labels and the matrix of edges of each graph; edge labels are 1, 2, ..."""
    n = int(pair.indptr[1])
    E = np.zeros((len(pair.labels), len(pair.labels)), dtype=np.int64)
    numbers = np.unique(pair.edge_labels, return_inverse=True)[1] if edge_labels else 0
    E[pair.source, pair.target] = 1 + numbers
    return [(pair.labels[:n], E[:n, :n]), (pair.labels[n:], E[n:, n:])]
