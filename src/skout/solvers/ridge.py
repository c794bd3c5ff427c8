"""Pure functions from sufficient statistics to coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._numerics.linalg import positive_solve, ridge_path, ridge_solve
from .moments import Moments

__all__ = [
    "dual_ridge",
    "feature_ridge",
    "ridge",
    "ridge_errors",
    "ridge_paths",
    "ridge_predictions",
]

# Rows that are centred at a time.
_ROWS = 512


def _normal_equations(
    moments: Moments, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return Z'Z and Z'T, centred if there is an intercept, and the means of Z and T."""
    if not fit_intercept:
        return moments.zz, moments.zt, np.zeros_like(moments.z_sum), np.zeros_like(moments.t_sum)
    z_mean, t_mean = moments.z_sum / moments.weight, moments.t_sum / moments.weight
    zz = moments.zz - moments.weight * np.outer(z_mean, z_mean)
    return zz, moments.zt - moments.weight * np.outer(z_mean, t_mean), z_mean, t_mean


def ridge(
    moments: Moments, alpha: float, fit_intercept: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise mean 1/2 ||t - B'z - b||^2 + alpha/2 ||B||^2: B = (Z'Z + n alpha I)^-1 Z'T.

    Returns
    -------
    coef : ndarray of shape (p, d)
    intercept : ndarray of shape (d,)
    """
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    coef = ridge_solve(zz, zt, moments.weight * alpha)
    return coef, t_mean - z_mean @ coef


def feature_ridge(
    moments: Moments, penalty: np.ndarray, alpha: float, fit_intercept: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise mean 1/2 ||t - B'g - b||^2 + alpha/2 tr(B'PB): B = (G'G + n alpha P)^-1 G'T.

    It is `ridge` in features g that are not orthonormal, without making them so. Raises
    LinAlgError where rounding hides that the matrix is positive definite.
    """
    gg, gt, g_mean, t_mean = _normal_equations(moments, fit_intercept)
    coef = positive_solve(gg + moments.weight * alpha * penalty, gt)
    return coef, t_mean - g_mean @ coef


def ridge_paths(
    moments: Moments, alphas: Sequence[float], fit_intercept: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Solve `ridge` for many alphas by one eigendecomposition of Z'Z."""
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    coefs = ridge_path(zz, zt, moments.weight * np.asarray(alphas))
    return [(coef, t_mean - z_mean @ coef) for coef in coefs]


def ridge_predictions(
    moments: Moments, Z: np.ndarray, alphas: Sequence[float], fit_intercept: bool = False
) -> np.ndarray:
    """Predict other rows by `ridge` for many alphas: F = Z (Z'Z + n alpha I)^-1 Z'T.

    Systems are solved for the rows or for the outputs, whichever are fewer.

    Parameters
    ----------
    moments : Moments
        Of the training rows.
    Z : ndarray of shape (h, p)
    alphas : sequence of floats
    fit_intercept : bool, default False

    Returns
    -------
    F : ndarray of shape (n_alphas, h, d)
    """
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    shifts, rows = moments.weight * np.asarray(alphas), Z - z_mean
    if len(rows) < zt.shape[1]:
        found = [solved.T @ zt for solved in ridge_path(zz, rows.T, shifts)]
    else:
        found = [rows @ coef for coef in ridge_path(zz, zt, shifts)]
    return np.array(found) + t_mean


def ridge_errors(moments: Moments, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Return the mean squared error of each output on the rows behind `moments`.

    sum ||t - B'z - b||^2 = T'T - 2 B'Z'T + B'Z'Z B - 2 b (sum t - B' sum z) + n b^2, diagonals.
    """
    fitted = moments.zz @ coef  # (p, d)
    error = moments.tt + np.einsum("ij,ij->j", coef, fitted - 2.0 * moments.zt)
    error += intercept * (moments.weight * intercept)
    error -= 2.0 * intercept * (moments.t_sum - moments.z_sum @ coef)
    return np.maximum(error, 0.0) / moments.weight


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
    if not fit_intercept:
        return root[:, None] * solution, np.zeros(targets.shape[1])
    solution -= np.outer(unit, unit @ solution)  # zero but for rounding, which 1 / alpha blows up
    coef = root[:, None] * solution
    return coef, (weights @ targets - sums @ coef) / n


def _centre(A: np.ndarray, unit: np.ndarray) -> None:
    """Put P A P in the place of A, for P = I - unit unit', a few rows at a time."""
    product = A @ unit
    rest = product - (unit @ product) * unit
    for start in range(0, len(A), _ROWS):
        some = slice(start, start + _ROWS)
        A[some] -= np.outer(unit[some], product)
        A[some] -= np.outer(rest[some], unit)
