"""Ridge regression over the whole space of a kernel, from the matrix of all rows."""

from __future__ import annotations

import numpy as np

from .._numerics.linalg import ridge_solve

__all__ = ["dual_ridge"]

# Rows that are centred at a time.
_ROWS = 512


def dual_ridge(
    K: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    alpha: float,
    fit_intercept: bool = False,
    *,
    overwrite: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise sum_i w_i/(2n) ||t_i - f(x_i)||^2 + alpha/2 ||f||^2, n = sum w, over all f (2.32).

    f = sum_i c_i k(x_i, .) + b. With C = diag(sqrt w) and P the projection that centres weighted
    rows, the identity without an intercept,

        c = C (P C K C P + n alpha I)^-1 P C T,    b = mean_w (T - K c).

    With `overwrite`, K may be lost.

    Returns
    -------
    dual_coef : ndarray of shape (n, d)
    intercept : ndarray of shape (d,)
    """
    n, root = weights.sum(), np.sqrt(weights)
    sums = K @ weights if fit_intercept else weights  # for the intercept: K may be lost
    A, right = K if overwrite else K.copy(), root[:, None] * targets
    unequal = np.flatnonzero(root != 1.0)  # A = C K C
    A[unequal] *= root[unequal, None]
    A[:, unequal] *= root[unequal]
    if fit_intercept:
        unit = root / np.sqrt(n)  # P = I - unit unit'
        _centre(A, unit)
        right -= np.outer(unit, unit @ right)
    solution = ridge_solve(A, right, n * alpha, overwrite=True)
    del right
    if fit_intercept:  # zero but for rounding, which 1 / alpha blows up
        solution -= np.outer(unit, unit @ solution)
    solution *= root[:, None]
    if not fit_intercept:
        return solution, np.zeros(targets.shape[1])
    return solution, (weights @ targets - sums @ solution) / n


def _centre(A: np.ndarray, unit: np.ndarray) -> None:
    """Put P A P in the place of A, for P = I - unit unit', a few rows at a time."""
    product = A @ unit
    rest = product - (unit @ product) * unit
    for start in range(0, len(A), _ROWS):
        some = slice(start, start + _ROWS)
        A[some] -= np.outer(unit[some], product)
        A[some] -= np.outer(rest[some], unit)
