"""Graphs: how many edges are left when the largest common part is taken out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from .._numerics.validation import check_number
from ..kernels.graph_read import read_weighted
from .graphs import as_pairs, warn_of_bounds

__all__ = ["mces_distance"]

# Of scipy's milp: the time or the number of nodes ran out.
_STOPPED = 1


def mces_distance(a: Any, b: Any, *, time_limit: float | None = 10.0) -> Any:
    """Return the distance of two graphs by their maximum common edge subgraph (MCES).

    Nodes are mapped to nodes of the same label, each to one at most, and an edge is common where
    both its ends are mapped to the ends of an edge. Of edges of weights w and w' the smaller
    weight is common. The distance is the weight that is not,

        sum_E w + sum_E' w' - 2 max sum_common min(w, w')

    found exactly by integer programming (Bahiense et al. 2012, as Kretschmer et al. 2023 do for
    molecules, without their threshold). "MCES@1" of a retrieval is the mean over the queries of
    the distance of the first candidate and the truth.

    Parameters
    ----------
    a, b : graphs, or lists of as many graphs
        SMILES or RDKit molecules, whose edges weigh what their bonds do (1, 1.5, 2, 3; without
        hydrogen), or tuples (edges, node_labels, weights), with None for weights of 1.
    time_limit : float, default 10.0
        Seconds for each pair; None means no limit. Where it ends the search, the best distance
        found so far stands, an upper bound, and a warning says for how many pairs.

    Returns
    -------
    distance : float, or ndarray of float64 of shape (n,)

    References
    ----------
    L. Bahiense, G. Manić, B. Piva, C. de Souza. The maximum common edge subgraph problem: a
    polyhedral investigation. Discrete Applied Mathematics, 2012.
    F. Kretschmer, J. Seipp, M. Ludwig, G. Klau, S. Böcker. Small molecule machine learning: all
    models are wrong, some may not even be useful. bioRxiv, 2023.

    Examples
    --------
    >>> from skout.metrics import mces_distance
    >>> ethanol = [(0, 1), (1, 2)], ["C", "C", "O"], [1, 1]
    >>> acetaldehyde = [(0, 1), (1, 2)], ["C", "C", "O"], [1, 2]
    >>> propane = [(0, 1), (1, 2)], ["C", "C", "C"], None
    >>> mces_distance([ethanol, ethanol], [acetaldehyde, propane])
    array([1., 2.])
    """
    limit = np.inf if time_limit is None else float(check_number(time_limit, "time_limit"))
    first, second, single = as_pairs(a, b)
    graphs = read_weighted(first + second)
    n = len(first)
    found = [_distance(graphs[i], graphs[n + i], limit) for i in range(n)]
    distances, exact = np.array(found, dtype=np.float64).reshape(-1, 2).T
    if not exact.all():
        warn_of_bounds(exact, limit)
    return float(distances[0]) if single else distances


def _distance(first: Any, second: Any, limit: float) -> tuple[float, bool]:
    """Return the distance of two triples (edges, labels, weights), and whether it is exact."""
    (E, u, w), (F, v, x) = first, second
    total = float(w.sum() + x.sum())
    pairs = np.argwhere(_alike(E, u, F, v))  # edges that may be common
    if len(pairs) == 0:
        return total, True
    gains = np.minimum(w[pairs[:, 0]], x[pairs[:, 1]])
    nodes = np.argwhere(u[:, None] == v[None, :])
    A = _constraints(E, F, pairs, nodes, (len(u), len(v)))
    upper = np.concatenate([np.ones(A[0].shape[0]), np.zeros(A[1].shape[0])])
    cost = np.concatenate([-gains, np.zeros(len(nodes))])
    options = {} if np.isinf(limit) else {"time_limit": limit}
    result = milp(
        cost,
        constraints=LinearConstraint(sparse.vstack(A).tocsr(), -np.inf, upper),
        bounds=Bounds(0.0, 1.0),
        integrality=np.ones(len(cost)),
        options=options,
    )
    common = 0.0 if result.x is None else float(gains @ np.round(result.x[: len(gains)]))
    return total - 2.0 * common, result.status != _STOPPED


def _alike(E: np.ndarray, u: np.ndarray, F: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Whether edges of two graphs have ends of the same labels, in either order."""
    a, b = (u[E[:, end]][:, None] for end in (0, 1))
    c, d = (v[F[:, end]][None, :] for end in (0, 1))
    return ((a == c) & (b == d)) | ((a == d) & (b == c))


def _constraints(
    E: np.ndarray, F: np.ndarray, pairs: np.ndarray, nodes: np.ndarray, sizes: tuple[int, int]
) -> tuple[Any, Any]:
    """Return the rows of A x <= 1 and of A x <= 0, over pairs of edges and then of nodes.

    A node, and an edge, has one partner at most. If edge e is mapped to an edge at node k, one of
    its ends is mapped to k; and the same from the other side.
    """
    n_pairs, n_nodes = len(pairs), len(nodes)
    one, zero = [], []
    for side, (own, other, n_other) in enumerate(((E, F, sizes[1]), (F, E, sizes[0]))):
        mine, theirs = pairs[:, side], pairs[:, 1 - side]
        one.append(_indicator(nodes[:, side], n_pairs + np.arange(n_nodes), n_pairs + n_nodes))
        one.append(_indicator(mine, np.arange(n_pairs), n_pairs + n_nodes))
        # row (edge e, node k): sum of pairs (e, f) with f at k, less the maps of e's ends to k
        rows = np.concatenate([mine * n_other + other[theirs, end] for end in (0, 1)])
        edge_part = (np.ones(2 * n_pairs), (rows, np.tile(np.arange(n_pairs), 2)))
        at = [np.flatnonzero(own == i) // 2 for i in range(int(sizes[side]))]
        ends = [
            (e * n_other + k, j)
            for j, (i, k) in enumerate(nodes[:, [side, 1 - side]])
            for e in at[i]
        ]
        where = np.array(ends, dtype=np.intp).reshape(-1, 2)
        node_part = (-np.ones(len(where)), (where[:, 0], n_pairs + where[:, 1]))
        shape = (len(own) * n_other, n_pairs + n_nodes)
        A = sparse.csr_matrix(edge_part, shape=shape) + sparse.csr_matrix(node_part, shape=shape)
        zero.append(A[np.unique(rows)])
    return sparse.vstack(one), sparse.vstack(zero)


def _indicator(rows: np.ndarray, columns: np.ndarray, width: int) -> Any:
    """Return the 0/1 matrix whose row i has a one in the columns where `rows` is i."""
    ones = np.ones(len(rows))
    return sparse.csr_matrix((ones, (rows, columns)), shape=(int(rows.max()) + 1, width))
