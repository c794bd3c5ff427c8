"""The formulas of ridge regression: in coordinates, from moments, and over all of a kernel's space.

    min over B, b of  mean_i 1/2 ||t_i - B'z_i - b||^2 + alpha/2 ||B||^2

is solved by B = (Z'Z + n alpha I)^-1 Z'T (4.10), with the same function f as K's own formula
c = (K + n alpha I)^-1 T (2.32) where z are coordinates of the span of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import LinAlgError

from ..._numerics.linalg import positive_solve, ridge_path, ridge_solve
from ..._numerics.types import Floats
from ...basis.moments import AnyMoments, Moments

__all__ = [
    "dual_ridge",
    "feature_ridge",
    "ridge",
    "ridge_errors",
    "ridge_on_features",
    "ridge_paths",
    "ridge_predictions",
]

# Rows of a kernel matrix that are centered at a time.
_ROWS = 512


def _normal_equations(
    moments: Moments, fit_intercept: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return Z'Z and Z'T, centered if there is an intercept, and the means of Z and T."""
    if not fit_intercept:
        return moments.zz, moments.zt, np.zeros_like(moments.z_sum), np.zeros_like(moments.t_sum)
    z_mean, t_mean = moments.z_sum / moments.weight, moments.t_sum / moments.weight
    zz = moments.zz - moments.weight * np.outer(z_mean, z_mean)
    return zz, moments.zt - moments.weight * np.outer(z_mean, t_mean), z_mean, t_mean


def ridge(moments: Moments, alpha: float, fit_intercept: bool = False) -> tuple[Floats, Floats]:
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
    moments: Moments, penalty: Floats, alpha: float, fit_intercept: bool = False
) -> tuple[Floats, Floats]:
    """Minimise mean 1/2 ||t - B'g - b||^2 + alpha/2 tr(B'PB): B = (G'G + n alpha P)^-1 G'T.

    It is `ridge` in features g that are not orthonormal, without making them so. Raises
    LinAlgError where rounding hides that the matrix is positive definite.
    """
    gg, gt, g_mean, t_mean = _normal_equations(moments, fit_intercept)
    coef = positive_solve(gg + moments.weight * alpha * penalty, gt)
    return coef, t_mean - g_mean @ coef


def ridge_on_features(
    moments: AnyMoments,
    on_features: Callable[[Floats], Floats],
    alpha: float,
    fit_intercept: bool = False,
) -> tuple[Floats, Floats]:
    """Solve for all outputs, and return what the features are multiplied with, and the intercept.

    `on_features` maps coefficients of coordinates to those of features.
    """
    if moments.partly is not None:
        penalty = moments.partly.penalty()
        try:
            coef, intercept = _each(
                moments, lambda part: feature_ridge(part, penalty, alpha, fit_intercept)
            )
            return moments.partly.on_features(coef), intercept
        except LinAlgError:  # in coordinates, rounding can be told from the rest
            moments = moments.each(Moments.whitened)
    coef, intercept = _each(moments, lambda part: ridge(part, alpha, fit_intercept))
    return on_features(coef), intercept


def _each(
    moments: AnyMoments, solve: Callable[[Moments], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Solve for outputs that have the same rows, those of each mask in turn."""
    coef, intercept = np.empty(moments.shape), np.empty(moments.shape[1])
    for columns in moments.column_sets():
        coef[:, columns], intercept[columns] = solve(moments.of_columns(columns))
    return coef, intercept


def ridge_paths(
    moments: Moments, alphas: Sequence[float], fit_intercept: bool = False
) -> list[tuple[Floats, Floats]]:
    """Solve `ridge` for many alphas by one eigendecomposition of Z'Z."""
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    coefs = ridge_path(zz, zt, moments.weight * np.asarray(alphas))
    return [(coef, t_mean - z_mean @ coef) for coef in coefs]


def ridge_predictions(
    moments: Moments, Z: Floats, alphas: Sequence[float], fit_intercept: bool = False
) -> Floats:
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
        fitted = [solved.T @ zt for solved in ridge_path(zz, rows.T, shifts)]
    else:
        fitted = [rows @ coef for coef in ridge_path(zz, zt, shifts)]
    return np.array(fitted) + t_mean


def ridge_errors(
    moments: Moments, coef: Floats, intercept: Floats, fitted: Floats | None = None
) -> Floats:
    """Return the mean squared error of each output on the rows behind `moments`.

    sum ||t - B'z - b||^2 = T'T - 2 B'Z'T + B'Z'Z B - 2 b (sum t - B' sum z) + n b^2, diagonals.
    `fitted` is Z'Z B, where it is known.
    """
    fitted = moments.zz @ coef if fitted is None else fitted  # (p, d)
    error = moments.tt + np.einsum("ij,ij->j", coef, fitted - 2.0 * moments.zt)
    error += intercept * (moments.weight * intercept)
    error -= 2.0 * intercept * (moments.t_sum - moments.z_sum @ coef)
    return np.maximum(error, 0.0) / moments.weight


def dual_ridge(
    K: Floats,
    targets: Floats,
    weights: Floats,
    alpha: float,
    fit_intercept: bool = False,
    *,
    overwrite: bool = False,
) -> tuple[Floats, Floats]:
    """Minimise sum_i w_i/(2n) ||t_i - f(x_i)||^2 + alpha/2 ||f||^2, n = sum w, over all f (2.32).

    f = sum_i c_i k(x_i, .) + b. With C = diag(sqrt w) and P the projection that centers weighted
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
        _center(A, unit)
        right -= np.outer(unit, unit @ right)
    solution = ridge_solve(A, right, n * alpha, overwrite=True)
    del right
    if fit_intercept:  # zero but for rounding, which 1 / alpha blows up
        solution -= np.outer(unit, unit @ solution)
    solution *= root[:, None]
    if not fit_intercept:
        return solution, np.zeros(targets.shape[1])
    return solution, (weights @ targets - sums @ solution) / n


def _center(A: Floats, unit: Floats) -> None:
    """Put P A P in the place of A, for P = I - unit unit', a few rows at a time."""
    product = A @ unit
    rest = product - (unit @ product) * unit
    for start in range(0, len(A), _ROWS):
        some = slice(start, start + _ROWS)
        A[some] -= np.outer(unit[some], product)
        A[some] -= np.outer(rest[some], unit)
