"""Refuse kernel matrices that are not positive semi-definite; rounding alone is no reason."""

from __future__ import annotations

import numpy as np

__all__ = ["check_remainder", "check_spectrum", "rounding_of"]

# Rounding of a kernel matrix of n rows stays below n times this share of its largest entry.
_ROUNDING = 1e-6
# Random vectors that a remainder is multiplied with.
_PROBES = 3
# Numbers below this have lost digits to underflow.
_UNDERFLOW = 1e-290


def rounding_of(found: np.ndarray, exact: np.ndarray) -> float:
    """Return how much rounding shows in kernel values.

    Parameters
    ----------
    found : ndarray of shape (n,)
        k(x, x) as the blocks of a kernel matrix have it, with their rounding.
    exact : ndarray of shape (n,)
        The same from `Kernel.diag`.

    Returns
    -------
    rounding : float
        The largest difference; what no rounding explains does not count.
    """
    limit = _ROUNDING * float(np.max(np.abs(exact), initial=0.0))
    return min(float(np.max(np.abs(found - exact), initial=0.0)), limit)


def check_spectrum(values: np.ndarray, tol: float = 0.0) -> None:
    """Raise where the eigenvalues of a kernel matrix, in any order, are clearly below zero."""
    if len(values) == 0:
        return
    lowest, largest = float(np.min(values)), float(np.max(np.abs(values)))
    if largest < _UNDERFLOW:
        return
    if lowest < -max(10.0 * tol, len(values) * _ROUNDING * largest):
        _refuse(lowest, largest)


def check_remainder(K: np.ndarray, factor: np.ndarray, order: np.ndarray, tol: float) -> None:
    """Raise where what a pivoted Cholesky factor leaves of K is more than small pivots allow.

    That is R = K22 - L21 L21'. If K is positive semi-definite, no entry of R is above tol. Products
    of R with a few vectors tell, at the cost of reading K once.

    Parameters
    ----------
    K : ndarray of shape (m, m)
    factor : ndarray of shape (m, p)
        Its rows are in the order of the pivots.
    order : ndarray of int, shape (m,)
    tol : float
        The largest pivot that was left out.
    """
    rest, L21 = order[factor.shape[1] :], factor[factor.shape[1] :]
    scale = float(np.max(np.abs(np.diagonal(K)), initial=0.0)) or 1.0
    if len(rest) == 0 or scale < _UNDERFLOW:
        return
    v = np.zeros((len(K), _PROBES))
    v[rest] = np.cos(np.outer(np.arange(len(rest)), np.arange(_PROBES))) / np.sqrt(len(rest))
    L21 = L21 / np.sqrt(scale)
    remainder = (K @ v)[rest] / scale - L21 @ (L21.T @ v[rest])
    size = float(np.linalg.norm(remainder, axis=0).max())
    if size > len(K) * max(10.0 * tol / scale, _ROUNDING):
        _refuse(-size * scale, scale)


def _refuse(lowest: float, largest: float) -> None:
    raise ValueError(
        "The kernel is not positive semi-definite: its matrix of the rows has eigenvalues of about "
        f"{lowest:.3g} beside values of up to {largest:.3g}, far beyond rounding. Use another "
        "kernel: sums, products and exponentials of kernels are kernels, tanh(a x.x' + b) is not. "
        "If it is one, numbers in sparse rows are too large for their distances: scale them, for "
        "instance with scikit-learn's MaxAbsScaler, or give dense rows, which are centred."
    )
