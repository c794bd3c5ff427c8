"""The predictive variance of a kernel ridge: that of the Gaussian process whose mean it predicts.

A ridge with the penalty alpha on n rows is the mean of a process with the covariance s^2 k and the
noise sigma^2 = s^2 n alpha. With the coordinates z of the sketch and A = Z'Z + n alpha I,

    exact   v(x) = k(x, x) - k_x'(K + n alpha I)^-1 k_x
    dtc     v(x) = k(x, x) - z'z + n alpha z'A^-1 z
    fitc    as dtc, with rows of Z'Z and Z'y weighted by u_i = 1 / (1 + residual_i / n alpha)

are the variances of f(x) in units of s^2 (Quinonero-Candela and Rasmussen, 2005); FITC's mean has
the weights u too. All are of the form k(x, x) + a - |R'phi|^2 - 2 b'phi in the features phi that
predictions have anyway. The scale is estimated from the targets:

    exact   s^2 = mean_i c_i^2 / P_ii, c = P y and P = (K + n alpha I)^-1: the errors c_i / P_ii of
            leaving one row out have the variances s^2 / P_ii, so their z-scores have mean square 1
    sketch  s^2 = y'(ZZ' + n alpha I)^-1 y / n = (sum of squared errors / n alpha + |B|^2) / n, the
            most likely one, B = A^-1 Z'y; with an intercept n - 1 divides (restricted likelihood)

The noise of a row of weight w_i is s^2 n alpha / w_i, n the sum of the weights: s^2 stays as it is
when all of them are multiplied by a number, and n rows that divide are counted without weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .._numerics.arrays import astype, take
from .._numerics.factors import cholesky
from .._numerics.linalg import symmetric_eigen, triangular_inverse
from .._numerics.typing import Floats, Ints, Rows
from ..basis.features import KernelMatrix, Projection, check_values
from ..basis.moments import Moments
from ..rows import RowMap
from ..solvers.ridge import Fit, ridge_errors

# Directions of Z'Z whose eigenvalue is below this share of n alpha change the variance by less than
# this share of it: no one sees ten digits.
_NEGLIGIBLE = 1e-10


@dataclass
class Variance:
    """v(x) = k(x, x) + constant - |root'phi|^2 - 2 linear'phi, and s^2 of the outputs it is for."""

    columns: slice | Ints  # the outputs
    root: Floats  # (m, r)
    linear: Floats  # (m,)
    constant: float
    scale: Floats  # s^2 of these outputs, (d,)
    count: float  # number of rows that have them

    def __call__(self, phi: Floats, diagonal: Floats) -> Floats:
        """Return v of some rows from their features and k(x, x)."""
        G = phi @ self.root
        v: Floats = diagonal + self.constant - np.einsum("ij,ij->i", G, G)
        if self.linear.any():
            v -= 2.0 * (phi @ self.linear)
        return np.maximum(v, 0.0, out=v)


class WithStd(RowMap):
    """x -> (f(x), s sqrt(v(x))), of which the second d numbers are standard deviations."""

    variances: list[Variance]

    def __init__(self, mean: Projection, variances: list[Variance]) -> None:
        self.mean: Projection = Projection(mean.features, mean.matrix, mean.offset, np.float64)
        self.variances, self.width, self.shared = variances, 2 * self.mean.width, self.mean.shared

    def __call__(self, rows: Rows, out: Floats | None = None) -> Floats:
        rows, features = astype(rows, np.float64), self.mean.features
        phi = features(rows)
        F = phi @ self.mean.matrix + self.mean.offset
        if not np.isfinite(F).all():
            check_values(features.kernel, phi)
        diagonal = features.kernel.diag(rows)
        std = np.empty(F.shape)
        for variance in self.variances:
            v = variance(phi, diagonal)
            std[:, variance.columns] = np.sqrt(np.outer(v, variance.scale))
        return np.hstack([F, std])


def variances_of(fit: Fit, fit_intercept: bool, n_jobs: int | None = None) -> list[Variance]:
    """Return the variance of each set of outputs that have the same rows.

    It takes an eigendecomposition of Z'Z, or a factor of K.
    """
    if fit.chosen.alpha == 0.0:
        raise ValueError("return_std needs alpha above 0: without a penalty there is no prior.")
    if fit.task_matrix is not None:
        raise ValueError("return_std is not available with a task_matrix: leave it out.")
    if fit.engine is None:
        return [_of_rows(fit, fit_intercept, n_jobs)]
    if fit.moments is None:
        raise ValueError(
            "return_std needs the moments of a fit, which conjugate gradients, a fit on a GPU "
            "with many landmarks, and one of many outputs with missing targets do not make: "
            'fit with solver="direct" on the CPU.'
        )
    return list(_of_moments(fit, fit_intercept))


def _of_moments(fit: Fit, fit_intercept: bool) -> Iterable[Variance]:
    """Yield the variances of a sketched fit, in features, and the most likely scale.

    In coordinates they are k + alpha + m'B m - z'(I - B) z - 2 m'B z, where B = n alpha (Z'Z + n
    alpha I)^-1 of centered rows and m is their mean; without an intercept alpha and m are 0.
    """
    total, engine = fit.moments, fit.engine
    assert total is not None
    assert engine is not None
    total = total.each(Moments.whitened)
    intercept = fit.intercept if fit.origin is None else fit.intercept - fit.origin
    coef = engine.on_coordinates(fit.matrix)
    for columns in total.column_sets():
        part = total.of_columns(columns)
        n, zz, mean = part.weight, part.zz, np.zeros(len(part.zz))
        alpha = fit.chosen.alpha if fit.fitc_shift is None else fit.fitc_shift / n
        if fit_intercept:
            mean = part.z_sum / n
            zz = zz - n * np.outer(mean, mean)
        g, V = symmetric_eigen(zz)
        g = np.maximum(g, 0.0)
        kept = g > _NEGLIGIBLE * n * alpha
        root = V[:, kept] * np.sqrt(g[kept] / (g[kept] + n * alpha))
        linear = V @ ((V.T @ mean) * (n * alpha / (g + n * alpha)))
        constant = alpha + float(mean @ linear) if fit_intercept else 0.0
        matrix = engine.on_features(np.column_stack([root, linear]))
        root, linear = np.ascontiguousarray(matrix[:, :-1]), matrix[:, -1]
        # files of earlier versions did not count rows
        B, count = coef[:, columns], n if np.isnan(part.count) else part.count
        scale = ridge_errors(part, B, intercept[columns]) / alpha + np.einsum("ij,ij->j", B, B)
        scale /= _free(count, fit_intercept)
        yield Variance(columns, root, linear, constant, scale, count)


def _of_rows(fit: Fit, fit_intercept: bool, n_jobs: int | None) -> Variance:
    """Return the variance of an exact fit, v = k - k_x' P k_x with P = A^-1, A = K + n alpha/w.

    With an intercept, P = A^-1 - u u'/(1'u) and v has (1 - 2 u'k_x)/(1'u) more, u = A^-1 1.
    c = P y has the covariance s^2 P, so each c_i^2 / P_ii has the mean s^2.
    """
    weights = fit.row_weights
    if weights is None:
        raise ValueError(
            "return_std of an exact fit needs y without missing targets: fit one output at a "
            "time, or give a sketch."
        )
    used = np.flatnonzero(weights)
    rows, w = take(fit.landmarks, used), weights[used]
    _free(len(used), fit_intercept)
    n = float(w.sum())
    A = KernelMatrix(fit.kernel, rows, n_jobs).full()
    A[np.diag_indices_from(A)] += n * fit.chosen.alpha / w
    L = cholesky(A)
    if L is None:
        raise ValueError("alpha is below the rounding error of the kernel matrix: raise it.")
    root = np.ascontiguousarray(triangular_inverse(np.tril(L.L)).T)  # A^-1 = root root'
    linear, constant = np.zeros(len(w)), 0.0
    if fit_intercept:
        q = root.sum(axis=0)
        total = float(q @ q)
        linear, constant = root @ q / total, 1.0 / total
        root -= np.outer(root @ q, q) / total
    squares = fit.matrix[used] ** 2 / np.einsum("ij,ij->i", root, root)[:, None]
    scale = np.average(squares, axis=0, weights=w)
    if len(used) < len(weights):  # rows without weight say nothing
        parts, root, linear = (root, linear), np.zeros((len(weights), len(w))), 0.0 * weights
        root[used], linear[used] = parts
    # files of earlier versions did not count rows
    return Variance(slice(None), root, linear, constant, scale, fit.row_count or n)


def _free(count: float, fit_intercept: bool) -> float:
    """Return the degrees of freedom of the scale: rows, one less with an intercept."""
    if count <= fit_intercept:
        raise ValueError(
            "return_std needs two rows of each output at least where there is an intercept."
        )
    return count - fit_intercept
