"""How sure a kernel ridge is: the variance of the Gaussian process whose mean it predicts.

A ridge with the penalty alpha on n rows is the mean of a process with the covariance s^2 k and the
noise sigma^2 = s^2 n alpha. With the coordinates z of the sketch and A = Z'Z + n alpha I,

    exact   v(x) = k(x, x) - k_x'(K + n alpha I)^-1 k_x
    dtc     v(x) = k(x, x) - z'z + n alpha z'A^-1 z
    fitc    as dtc, with rows of Z'Z weighted by 1 / (1 + residual_i / n alpha)

are the variances of f(x) in units of s^2 (Quinonero-Candela and Rasmussen, 2005). All are of the
form k(x, x) + a - |R'phi|^2 - 2 b'phi in the features phi that predictions have anyway. sigma^2 is
estimated by the held-out error: leave-one-out of an exact fit, generalised cross-validation of a
sketched one.

That takes m^2 operations a row. "fast" is a ridge regression of log v(x) / k(x, x), v that of dtc,
on the same features: one more output of the model. Far from all rows both are 0.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numerics.arrays import astype, take
from .._numerics.factors import cholesky
from .._numerics.linalg import symmetric_eigen, symmetric_eigenvalues, triangular_inverse
from ..basis.features import KernelMatrix, LandmarkFeatures, Projection, check_values
from ..basis.passes import Sample
from ..rows import Reduction, RowMap, Source
from ..solvers import ridge, ridge_errors, ridge_paths
from ..solvers.moments import Moments

__all__ = ["Doubts", "WithStd", "add_variance"]

# Directions of Z'Z whose eigenvalue is below this share of n alpha change the variance by less.
_NEGLIGIBLE = 1e-10
# The most of the rows that the degrees of freedom may be: beyond, held-out errors say nothing.
_MOST_FREE = 0.999
# "fast": rows for each landmark, penalties to choose from on a quarter of them, least v / k.
_ROWS_EACH, _PENALTIES, _LEAST = 4, (1e-6, 1e-5, 1e-4, 1e-3), 1e-10


@dataclass
class Quadratic:
    """v(x) = k(x, x) + constant - |root'phi|^2 - 2 linear'phi, and s of the outputs it is for."""

    columns: Any  # the outputs
    root: np.ndarray  # (m, r)
    linear: np.ndarray  # (m,)
    constant: float
    noise: Any = None  # sigma^2 of these outputs, (d,)
    scale: Any = None  # s

    def variance(self, phi: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Return v of some rows from their features and k(x, x)."""
        G = phi @ self.root
        v = diagonal + self.constant - np.einsum("ij,ij->i", G, G)
        if self.linear.any():
            v -= 2.0 * (phi @ self.linear)
        return np.maximum(v, 0.0)


class WithStd(RowMap):
    """x -> (f(x), s sqrt(v(x))), of which the second d numbers are standard deviations.

    `logs` are the coefficients of log v / k for each part, where they are not to be exact.
    """

    def __init__(
        self, features: LandmarkFeatures, matrix: Any, offset: Any, parts: Any, logs: Any = None
    ) -> None:
        self.features, self.parts, self.logs = features, parts, logs
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
        for k, part in enumerate(self.parts):
            if self.logs is None:
                v = part.variance(phi, diagonal)
            else:
                v = diagonal * np.exp(np.minimum(phi @ self.logs[:, k], 0.0))
            std[:, part.columns] = np.sqrt(v)[:, None] * part.scale
        return np.hstack([F, std])


class Doubts:
    """A `KernelRidge` that knows how sure it is."""

    def _with_std(self: Any, rows: Source) -> tuple[Any, Any]:
        """Return predictions and standard deviations of encoded rows, in one pass."""
        mean, d = self._projection, self._matrix.shape[1]
        logs = getattr(self, "_logs", None)
        found = WithStd(mean.features, mean.matrix, mean.offset, self._doubt, logs)
        both = rows.map(found, (2 * d,), np.float64, n_jobs=self.n_jobs)
        return (both[:, 0], both[:, 1]) if self._is_vector else (both[:, :d], both[:, d:])

    @property
    def noise_variance_(self: Any) -> np.ndarray:
        """The held-out squared error of each output, which stands for the variance of its noise."""
        noise = np.empty(self.coef_.shape[1])
        for part in self._doubt:
            noise[part.columns] = part.noise
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
        parts = self._of_moments() if hasattr(self, "basis_") else [self._of_rows()]
        for part in parts:
            part.scale = np.sqrt(part.noise / (part.scale * self.alpha_))
        return parts

    def _of_moments(self: Any) -> list[Quadratic]:
        """Return the variance of a sketched fit, and sigma^2 = error / (1 - free / n)^2 (GCV)."""
        total = self._total_moments()
        if total is None:
            raise ValueError(
                "return_std needs the moments of a fit, which conjugate gradients, a fit on a card "
                "with many landmarks, and one of many outputs with holes do not make: fit with "
                'solver="direct" on the CPU.'
            )
        origin = getattr(self, "_origin", None)
        intercept = self.intercept_ if origin is None else self.intercept_ - origin
        found = []
        for columns in total.column_sets():
            own = total.of_columns(columns)
            errors = ridge_errors(own, self.coef_[:, columns], intercept[columns])
            seen = own if self._fitc is None else self._fitc
            part = _sketched(seen, self.alpha_, self.fit_intercept)
            matrix = self.basis_.engine.on_features(np.column_stack([part.root, part.linear]))
            part.root, part.linear = np.ascontiguousarray(matrix[:, :-1]), matrix[:, -1]
            free = _free(own, self.alpha_, self.fit_intercept)
            share = min(free / own.weight, _MOST_FREE)
            part.columns, part.noise, part.scale = columns, errors / (1.0 - share) ** 2, own.weight
            found.append(part)
        return found

    def _total_moments(self: Any) -> Any:
        """Return the moments of all rows, of coordinates."""
        parts = [*(self._folds or []), *([] if self._base is None else [self._base])]
        whitened = [part.whitened() for part in parts]
        return functools.reduce(operator.add, whitened) if whitened else None

    def _of_rows(self: Any) -> Quadratic:
        """Return the variance of an exact fit, v = k - k_x' P k_x with P = A^-1, A = K + n alpha/w.

        With an intercept, P = A^-1 - u u'/(1'u) and v has (1 - 2 u'k_x)/(1'u) more, u = A^-1 1.
        Leaving a row out changes its residual to c_i / P_ii.
        """
        weights = getattr(self, "_row_weights", None)
        if weights is None:
            raise ValueError(
                "return_std of an exact fit needs y without holes: fit one output at a time, or "
                "give a sketch."
            )
        used = np.flatnonzero(weights)
        rows, w = take(self.landmarks_, used), weights[used]
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
        left = self.coef_[used] / np.einsum("ij,ij->i", root, root)[:, None]
        noise = np.average(left**2, axis=0, weights=w)
        if len(used) < len(weights):  # rows without weight say nothing
            root = _spread(root, used, len(weights))
            linear = _spread(linear, used, len(weights))
        return Quadratic(slice(None), root, linear, constant, noise, n)


def _spread(values: np.ndarray, used: np.ndarray, n: int) -> np.ndarray:
    """Return n rows, of which those used have the values and the others 0."""
    out = np.zeros((n, *values.shape[1:]))
    out[used] = values
    return out


def _sketched(moments: Moments, alpha: float, fit_intercept: bool) -> Quadratic:
    """Return the variance in coordinates.

    k + alpha + m'B m - z'(I - B) z - 2 m'B z, where B = n alpha (Z'Z + n alpha I)^-1 of centred
    rows and m is their mean; without an intercept alpha and m are 0.
    """
    n, zz, mean = moments.weight, *_centred(moments, fit_intercept)
    g, V = symmetric_eigen(zz)
    g = np.maximum(g, 0.0)
    kept = g > _NEGLIGIBLE * n * alpha
    root = V[:, kept] * np.sqrt(g[kept] / (g[kept] + n * alpha))
    linear = V @ ((V.T @ mean) * (n * alpha / (g + n * alpha)))
    constant = alpha + float(mean @ linear) if fit_intercept else 0.0
    return Quadratic(slice(None), root, linear, constant)


def _centred(moments: Moments, fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return Z'Z of centred rows and their mean; of rows as they are, and 0, without intercept."""
    if not fit_intercept:
        return moments.zz, np.zeros(len(moments.zz))
    mean = moments.z_sum / moments.weight
    return moments.zz - moments.weight * np.outer(mean, mean), mean


def _free(moments: Moments, alpha: float, fit_intercept: bool) -> float:
    """Return the degrees of freedom tr Z'Z (Z'Z + n alpha I)^-1, and one of the intercept."""
    values = np.maximum(symmetric_eigenvalues(_centred(moments, fit_intercept)[0]), 0.0)
    return fit_intercept + float((values / (values + moments.weight * alpha)).sum())


def add_variance(model: Any, sample: Sample) -> None:
    """Make what the variance of a sketched model needs of the rows, beside their moments."""
    if model.variance == "fitc":
        model._fitc = _fitc_moments(model, sample)
    elif model.variance == "fast":
        model._logs = _log_variances(model, sample.rows)


def _log_variances(model: Any, rows: Source) -> np.ndarray:
    """Return what features are multiplied with to give log v(x) / k(x, x), a column for each part.

    By ridge regression on a few of the rows, whose variances are computed.
    """
    basis, count = model.basis_, min(len(rows), _ROWS_EACH * model.basis_.rank_)
    index = np.sort(np.random.default_rng(0).choice(len(rows), count, replace=False))
    some = rows.subset(index).gathered(count) if rows.pool is None else rows.pool[0]
    X = astype(some.here(), np.float64)
    phi, k = basis.engine.features(X), np.maximum(basis.kernel_.diag(X), np.finfo(float).tiny)
    logs = [np.log(np.maximum(part.variance(phi, k) / k, _LEAST)) for part in model._of_moments()]
    Z, T = phi @ basis.components_.T, np.column_stack(logs)
    held = np.arange(len(Z)) % 4 == 0
    train, test = (Moments.of_block(Z[own], T[own], None) for own in (~held, held))
    errors = [ridge_errors(test, *fit).mean() for fit in ridge_paths(train, _PENALTIES)]
    return basis.engine.on_features(ridge(train + test, _PENALTIES[int(np.argmin(errors))])[0])


def _fitc_moments(model: Any, sample: Sample) -> Moments:
    """Return the moments of rows with FITC's weights, in one more pass."""
    basis = model.basis_
    total = model._total_moments()
    if hasattr(total, "codes"):
        raise ValueError('variance="fitc" needs y without holes: use variance="dtc".')
    pass_ = _Fitc(basis.engine.features, basis.components_, float(total.weight) * model.alpha_)
    zz, z_sum = sample.rows.reduce(pass_, sample.weights, n_jobs=model.n_jobs)
    none = np.zeros(0)
    return Moments(total.weight, zz, np.zeros((len(zz), 0)), none, z_sum, none)


class _Fitc(Reduction):
    """sum_i u_i z_i z_i' and sum_i u_i z_i, u_i = w_i / (1 + w_i residual_i / n alpha)."""

    def __init__(self, features: LandmarkFeatures, components: np.ndarray, shift: float) -> None:
        self.kernel, self.shift = features.kernel, shift
        self.projection = Projection(features, components.T, dtype=np.float64)
        self.width = 2 * self.projection.width

    def __call__(self, rows: Any, weights: Any) -> Any:
        Z = self.projection(rows)
        left = self.kernel.diag(astype(rows, np.float64)) - np.einsum("ij,ij->i", Z, Z)
        w = np.ones(len(Z)) if weights is None else weights
        u = w / (1.0 + w * np.maximum(left, 0.0) / self.shift)
        return [Z.T @ (u[:, None] * Z), u @ Z]

    def combine(self, total: Any, part: Any) -> Any:
        return part if total is None else [a + b for a, b in zip(total, part, strict=True)]
