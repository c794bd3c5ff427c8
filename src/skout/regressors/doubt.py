"""How sure a kernel ridge is: the variance of the Gaussian process whose mean it predicts.

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

import functools
import operator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from .._numerics.arrays import astype, numpy_of, take
from .._numerics.factors import cholesky
from .._numerics.linalg import symmetric_eigen, triangular_inverse
from .._numerics.validation import check_alphas
from ..basis.features import KernelMatrix, LandmarkFeatures, Projection, check_values
from ..rows import Reduction, RowMap, Source
from ..solvers import ridge_errors
from ..solvers.moments import Moments

__all__ = ["Doubts", "FitcMoments", "WithStd", "check_fitc", "refuse_fitc"]

# Directions of Z'Z whose eigenvalue is below this share of n alpha change the variance by less.
_NEGLIGIBLE = 1e-10


@dataclass
class Quadratic:
    """v(x) = k(x, x) + constant - |root'phi|^2 - 2 linear'phi, and s^2 of the outputs it is for."""

    columns: Any  # the outputs
    root: np.ndarray  # (m, r)
    linear: np.ndarray  # (m,)
    constant: float
    scale: np.ndarray  # s^2 of these outputs, (d,)
    count: float  # number of rows that have them

    def variance(self, phi: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Return v of some rows from their features and k(x, x)."""
        G = phi @ self.root
        v = diagonal + self.constant - np.einsum("ij,ij->i", G, G)
        if self.linear.any():
            v -= 2.0 * (phi @ self.linear)
        return np.maximum(v, 0.0)


class WithStd(RowMap):
    """x -> (f(x), s sqrt(v(x))), of which the second d numbers are standard deviations."""

    def __init__(
        self, features: LandmarkFeatures, matrix: Any, offset: Any, parts: list[Quadratic]
    ) -> None:
        self.features, self.parts = features, parts
        self.mean = Projection(features, matrix, offset, np.float64)
        self.width = 2 * self.mean.width

    def most_rows(self, n: int) -> int | None:
        return self.mean.most_rows(n)

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        rows = astype(rows, np.float64)
        phi = self.features(rows)
        F = phi @ self.mean.matrix + self.mean.offset
        if not np.isfinite(F).all():
            check_values(self.features.kernel, phi)
        diagonal = self.features.kernel.diag(rows)
        std = np.empty(F.shape)
        for part in self.parts:
            v = part.variance(phi, diagonal)
            std[:, part.columns] = np.sqrt(np.outer(v, part.scale))
        return np.hstack([F, std])


class Doubts:
    """A `KernelRidge` that knows how sure it is."""

    def _with_std(self: Any, rows: Source) -> tuple[Any, Any]:
        """Return predictions and standard deviations of encoded rows, in one pass."""
        mean, d = self._projection, self._matrix.shape[1]
        function = WithStd(mean.features, mean.matrix, mean.offset, self._doubt)
        both = rows.map(function, (2 * d,), np.float64, n_jobs=self.n_jobs)
        return (both[:, 0], both[:, 1]) if self._is_vector else (both[:, :d], both[:, d:])

    @property
    def noise_variance_(self: Any) -> np.ndarray:
        """The variance of the noise of each output, of a row of mean weight: s^2 n alpha."""
        noise = np.empty(self.coef_.shape[1])
        for part in self._doubt:
            noise[part.columns] = part.scale * part.count * self.alpha_
        return noise

    @functools.cached_property
    def _doubt(self: Any) -> list[Quadratic]:
        """Made when somebody asks: it takes an eigendecomposition of Z'Z, or a factor of K."""
        if self.alpha_ == 0.0:
            raise ValueError("return_std needs alpha above 0: without a penalty there is no prior.")
        if getattr(self, "task_matrix", None) is not None:
            raise ValueError(
                "return_std is not there for a model with a task_matrix: leave it out."
            )
        return self._of_moments() if hasattr(self, "basis_") else [self._of_rows()]

    def _of_moments(self: Any) -> list[Quadratic]:
        """Return the variance of a sketched fit, in features, and the most likely scale."""
        total = self._total_moments()
        if total is None:
            raise ValueError(
                "return_std needs the moments of a fit, which conjugate gradients, a fit on a GPU "
                "with many landmarks, and one of many outputs with missing targets do not make: "
                'fit with solver="direct" on the CPU.'
            )
        origin, shift = getattr(self, "_origin", None), getattr(self, "_fitc_shift", None)
        intercept = self.intercept_ if origin is None else self.intercept_ - origin
        parts = []
        for columns in total.column_sets():
            own = total.of_columns(columns)
            alpha = self.alpha_ if shift is None else shift / own.weight
            root, linear, constant = _sketched(own, alpha, self.fit_intercept)
            matrix = self.basis_.engine_.on_features(np.column_stack([root, linear]))
            root, linear = np.ascontiguousarray(matrix[:, :-1]), matrix[:, -1]
            coef, count = self.coef_[:, columns], own.count
            count = own.weight if np.isnan(count) else count  # of files that did not count rows
            errors = ridge_errors(own, coef, intercept[columns])
            scale = errors / alpha + np.einsum("ij,ij->j", coef, coef)
            scale /= _free(count, self.fit_intercept)
            parts.append(Quadratic(columns, root, linear, constant, scale, count))
        return parts

    def _total_moments(self: Any) -> Any:
        """Return the moments of all rows, of coordinates."""
        parts = [*(self._folds or []), *([] if self._base is None else [self._base])]
        whitened = [part.whitened() for part in parts]
        return functools.reduce(operator.add, whitened) if whitened else None

    def _of_rows(self: Any) -> Quadratic:
        """Return the variance of an exact fit, v = k - k_x' P k_x with P = A^-1, A = K + n alpha/w.

        With an intercept, P = A^-1 - u u'/(1'u) and v has (1 - 2 u'k_x)/(1'u) more, u = A^-1 1.
        c = P y has the covariance s^2 P, so each c_i^2 / P_ii has the mean s^2.
        """
        weights = getattr(self, "_row_weights", None)
        if weights is None:
            raise ValueError(
                "return_std of an exact fit needs y without missing targets: fit one output at a "
                "time, or give a sketch."
            )
        used = np.flatnonzero(weights)
        rows, w = take(self.landmarks_, used), weights[used]
        _free(len(used), self.fit_intercept)
        n = float(w.sum())
        A = KernelMatrix(self.kernel_, rows, self.n_jobs).full()
        A[np.diag_indices_from(A)] += n * self.alpha_ / w
        L = cholesky(A)
        if L is None:
            raise ValueError("alpha is below the rounding error of the kernel matrix: raise it.")
        root = np.ascontiguousarray(triangular_inverse(np.tril(L.L)).T)  # A^-1 = root root'
        linear, constant = np.zeros(len(w)), 0.0
        if self.fit_intercept:
            q = root.sum(axis=0)
            total = float(q @ q)
            linear, constant = root @ q / total, 1.0 / total
            root -= np.outer(root @ q, q) / total
        squares = self.coef_[used] ** 2 / np.einsum("ij,ij->i", root, root)[:, None]
        scale = np.average(squares, axis=0, weights=w)
        if len(used) < len(weights):  # rows without weight say nothing
            root = _spread(root, used, len(weights))
            linear = _spread(linear, used, len(weights))
        count = getattr(self, "_row_count", n)  # of files that did not count rows
        return Quadratic(slice(None), root, linear, constant, scale, count)


def check_fitc(model: Any, *, has_missing: bool = False, once: bool = False) -> None:
    """Raise where a sketched model with variance="fitc" cannot be fitted, or rows added to it."""
    if model.variance != "fitc" and getattr(model, "_fitc_shift", None) is None:
        return
    reasons = {
        "alpha=0": min(check_alphas(model.alpha)) == 0.0,
        'solver="cg"': model.solver == "cg",
        "task_matrix": model.task_matrix is not None,
        "missing targets": has_missing,
        "partial_fit or blocks that can be read only once": once,
    }
    for reason, is_so in reasons.items():
        if is_so:
            refuse_fitc(reason)


def refuse_fitc(reason: str) -> NoReturn:
    """Raise: variance="fitc" cannot be combined with something."""
    raise ValueError(
        'variance="fitc" weights the rows in a second pass over all of them, and cannot be '
        f'combined with {reason}: fit with variance="dtc".'
    )


def _free(count: float, fit_intercept: bool) -> float:
    """Return how many squares the scale is the mean of."""
    if count <= fit_intercept:
        raise ValueError(
            "return_std needs two rows of each output at least where there is an intercept."
        )
    return count - fit_intercept


def _spread(values: np.ndarray, used: np.ndarray, n: int) -> np.ndarray:
    """Return n rows, of which those used have the values and the others 0."""
    out = np.zeros((n, *values.shape[1:]))
    out[used] = values
    return out


def _sketched(
    moments: Moments, alpha: float, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the variance in coordinates: root, linear and constant of a `Quadratic`.

    k + alpha + m'B m - z'(I - B) z - 2 m'B z, where B = n alpha (Z'Z + n alpha I)^-1 of centred
    rows and m is their mean; without an intercept alpha and m are 0.
    """
    n, zz, mean = moments.weight, moments.zz, np.zeros(len(moments.zz))
    if fit_intercept:
        mean = moments.z_sum / n
        zz = zz - n * np.outer(mean, mean)
    g, V = symmetric_eigen(zz)
    g = np.maximum(g, 0.0)
    kept = g > _NEGLIGIBLE * n * alpha
    root = V[:, kept] * np.sqrt(g[kept] / (g[kept] + n * alpha))
    linear = V @ ((V.T @ mean) * (n * alpha / (g + n * alpha)))
    return root, linear, alpha + float(mean @ linear) if fit_intercept else 0.0


class FitcMoments(Reduction):
    """The moments of rows with the weights u_i = w_i / (1 + w_i residual_i / n alpha)."""

    def __init__(
        self,
        features: LandmarkFeatures,
        components: np.ndarray,
        shift: float,
        origin: np.ndarray | None,
    ) -> None:
        self.kernel, self.shift, self.origin = features.kernel, shift, origin
        self.projection = Projection(features, components.T, dtype=np.float64)
        self.width = 2 * self.projection.width

    def __call__(self, rows: Any, targets: Any, weights: Any) -> Moments:
        Z = self.projection(rows)
        T = numpy_of(targets).astype(np.float64, copy=False)
        T = T if self.origin is None else T - self.origin
        residual = self.kernel.diag(astype(rows, np.float64)) - np.einsum("ij,ij->i", Z, Z)
        w = np.ones(len(Z)) if weights is None else numpy_of(weights)
        u = w / (1.0 + w * np.maximum(residual, 0.0) / self.shift)
        return Moments.of_block(Z, T, u)
