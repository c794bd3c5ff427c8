"""Matrices M of decomposable kernels k M: how the outputs of one model are related (2.13)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from .._numerics.linalg import pseudo_inverse, symmetric_eigenvalues
from .._numerics.typing import Floats, Matrix
from .._numerics.validation import check_number
from ..rows.encode import numbers_in


def check_quantiles(quantiles: ArrayLike) -> np.ndarray:
    """Return the levels as an array of shape (q,), all strictly between 0 and 1."""
    levels = np.atleast_1d(np.asarray(quantiles))
    if levels.ndim != 1 or levels.size == 0 or levels.dtype.kind not in "fiu":
        raise TypeError(f"quantiles must be numbers in (0, 1). Got {quantiles!r} instead.")
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(f"quantiles must lie strictly between 0 and 1. Got {quantiles!r} instead.")
    if len(np.unique(levels)) < len(levels):
        raise ValueError(f"quantiles must be distinct. Got {quantiles!r} instead.")
    return levels.astype(np.float64)


def quantile_task_matrix(quantiles: ArrayLike, gamma: float) -> np.ndarray:
    """Return M_ij = exp(-gamma (tau_i - tau_j)^2), which ties near quantile levels (example 2.13).

    Parameters
    ----------
    quantiles : array of shape (q,)
        Levels, in (0, 1).
    gamma : float
        0 makes all curves alike but for their intercepts; a large value lets each go its own way.

    Returns
    -------
    M : ndarray of shape (q, q)

    Examples
    --------
    >>> from skout.regressors import quantile_task_matrix
    >>> quantile_task_matrix([0.1, 0.9], 1.0).round(3)
    array([[1.   , 0.527],
           [0.527, 1.   ]])
    """
    levels = check_quantiles(quantiles)
    check_number(gamma, "gamma")
    M: np.ndarray = np.exp(-gamma * (levels[:, None] - levels) ** 2)
    return M


def graph_task_matrix(adjacency: Matrix, mu: float) -> np.ndarray:
    """Return M = (mu L + (1 - mu) I)^-1, L the Laplacian of a graph of outputs (example 2.12).

    Parameters
    ----------
    adjacency : array of shape (d, d)
        Symmetric, with non-negative weights: how closely two outputs are related.
    mu : float
        In [0, 1]. 0 gives M = I, independent outputs. At 1, where L has no inverse, M is its
        pseudo-inverse: what neighbors have in common is then left out.

    Returns
    -------
    M : ndarray of shape (d, d)

    Examples
    --------
    >>> from skout.regressors import graph_task_matrix
    >>> graph_task_matrix([[0, 1], [1, 0]], 0.5).round(3)
    array([[1.333, 0.667],
           [0.667, 1.333]])
    """
    with numbers_in(adjacency, "adjacency"):
        W = check_array(adjacency, dtype=np.float64, input_name="adjacency")
    if W.shape[0] != W.shape[1] or not np.allclose(W, W.T):
        raise ValueError(f"adjacency must be a symmetric matrix. Got shape {W.shape} instead.")
    if np.any(W < 0.0):
        raise ValueError(f"adjacency must not be negative. Got {W.min():g} instead.")
    if check_number(mu, "mu") > 1.0:
        raise ValueError(f"mu must lie between 0 and 1. Got {mu!r} instead.")
    laplacian = np.diag(W.sum(axis=1)) - W
    return pseudo_inverse(mu * laplacian + (1.0 - mu) * np.eye(len(W)))


def check_task_matrix(M: ArrayLike, d: int) -> Floats:
    """Return a symmetric positive semi-definite matrix of shape (d, d)."""
    with numbers_in(M, "task_matrix"):
        checked: Floats = check_array(M, dtype=np.float64, input_name="task_matrix")
    if checked.shape != (d, d):
        raise ValueError(
            f"task_matrix must have one row and column for each of the {d} outputs. "
            f"Got shape {checked.shape} instead."
        )
    size = float(np.abs(checked).max())
    if not np.allclose(checked, checked.T, rtol=0.0, atol=1e-8 * size):
        worst = float(np.abs(checked - checked.T).max())
        raise ValueError(f"task_matrix must be symmetric. Got M - M' of up to {worst:.3g} instead.")
    lowest = float(symmetric_eigenvalues(checked)[-1])
    if lowest < -1e-8 * size or size == 0.0:
        raise ValueError(
            "task_matrix must be positive semi-definite and not zero. "
            f"Got least eigenvalue {lowest:.3g} instead."
        )
    return checked
