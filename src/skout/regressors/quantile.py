"""All quantiles of a target in one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._numerics.estimators import all_at_once
from .._numerics.validation import check_number
from ..losses import Pinball
from ..metrics import pinball_loss
from .base import KernelMachineBase
from .parts import without_holes
from .tasks import check_quantiles, quantile_task_matrix

__all__ = ["JointQuantileRegressor"]


class JointQuantileRegressor(RegressorMixin, KernelMachineBase):
    """Kernel quantile regression, several levels at once, that need not cross.

    Minimises mean_i sum_j pinball_tau_j(f_j(x_i), y_i) + alpha/2 ||f||^2 with the kernel k M,
    M_ij = exp(-gamma (tau_i - tau_j)^2), which ties the curves of near levels (example 2.13).

    Parameters
    ----------
    quantiles : float or array of shape (q,), default 0.5
        Levels, in (0, 1), such as (0.1, 0.5, 0.9); one number is one quantile, here the median.
    kernel : kernel, str or callable, default "gaussian"
    sketch : sketch, str or None, default None
    alpha : float or sequence of floats, default 1e-3
        Penalty, above 0. Of a sequence, the value with the least cross-validated loss is taken.
    gamma_quantiles : float, default 1.0
        gamma of M. 0 makes the curves parallel; a large value lets each go its own way.
    non_crossing : bool, default True
        Sort the predicted quantiles of each row, so that none crosses another. This never
        increases the pinball loss.
    cv : int, splitter or iterable of splits, default 5
        As in `KernelMachine`.
    fit_intercept : bool, default True
        Add an unpenalised constant to each level.
    tol, max_iter, random_state, n_jobs, verbose, device
        As in `KernelMachine`.

    Attributes
    ----------
    quantiles_ : ndarray of shape (q,)
    kernel_, basis_, coef_, intercept_, alpha_, objective_, duality_gap_, n_iter_, cv_results_
        As in `KernelMachine`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import JointQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 3, (300, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * X[:, 0] * rng.standard_normal(300)
    >>> model = JointQuantileRegressor([0.1, 0.5, 0.9]).fit(X, y)
    >>> model.predict(X).shape
    (300, 3)
    >>> low, high = model.predict_interval(X, 0.8)
    >>> bool(0.75 < np.mean((low <= y) & (y <= high)) < 0.85)
    True
    """

    def __init__(
        self,
        quantiles: Any = 0.5,
        kernel: Any = "gaussian",
        sketch: Any = None,
        *,
        alpha: Any = 1e-3,
        gamma_quantiles: float = 1.0,
        non_crossing: bool = True,
        cv: Any = 5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
    ) -> None:
        self.quantiles = quantiles
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.gamma_quantiles = gamma_quantiles
        self.non_crossing = non_crossing
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device

    @all_at_once
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> JointQuantileRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or objects that the kernel encodes, n of them
        y : array of shape (n,)
            Rows where it is NaN are left out.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self : JointQuantileRegressor
        """
        levels = check_quantiles(self.quantiles)
        check_number(self.gamma_quantiles, "gamma_quantiles")
        rows, y, weights = self._read(X, y, sample_weight)
        y = self._targets(y, rows, holes=True)
        if y.ndim > 1 and y.shape[1] > 1:
            raise ValueError(
                f"y must be one target, shape (n,). Got shape {y.shape} instead: fit one model for "
                "each target."
            )
        y, weights = without_holes(column_or_1d(y, warn=True), weights)
        self.quantiles_ = levels
        self._is_vector = np.ndim(self.quantiles) == 0
        Y = np.repeat(y.reshape(-1, 1), len(levels), axis=1)
        M = quantile_task_matrix(levels, self.gamma_quantiles) if len(levels) > 1 else None
        self._learn(rows, Y, weights, Pinball(levels), M)
        return self

    def predict(self, X: Any, quantiles: Any = None) -> np.ndarray:
        """Predict the quantiles of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        quantiles : float or array of shape (q,), optional
            Other levels than those of the fit, but not outside of them: they are interpolated
            between the nearest two, which are sorted first, so that none crosses another.

        Returns
        -------
        quantiles : ndarray of shape (n, q)
            In the order of `quantiles`; of shape (n,) if that is one number.
        """
        check_is_fitted(self)
        if quantiles is not None:
            levels = check_quantiles(quantiles)
            finish: Any = _Between(self.quantiles_, levels, np.ndim(quantiles) == 0)
            return self._map(X, () if finish.is_vector else (len(levels),), finish=finish)
        order = np.argsort(self.quantiles_) if self.non_crossing else None
        finish = _Quantiles(order, self._is_vector)
        return self._map(X, () if self._is_vector else (len(self.quantiles_),), finish=finish)

    def predict_interval(self, X: Any, coverage: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a given probability.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        coverage : float, default 0.8
            In (0, 1). The ends are the quantiles (1 - coverage)/2 and (1 + coverage)/2, which must
            not lie outside the fitted levels; between two levels they are interpolated.

        Returns
        -------
        lower, upper : ndarrays of shape (n,)
        """
        check_is_fitted(self)
        if not 0.0 < check_number(coverage, "coverage") < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1. Got {coverage!r} instead.")
        ends = np.array([0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)])
        levels = np.sort(self.quantiles_)
        if ends[0] < levels[0] - 1e-12 or ends[1] > levels[-1] + 1e-12:
            raise ValueError(
                f"coverage={coverage:g} needs the quantiles {ends[0]:g} and {ends[1]:g}, but the "
                f"model has {levels[0]:g} to {levels[-1]:g}. Fit with quantiles that reach further."
            )
        F = self._map(X, (2,), finish=_Between(self.quantiles_, ends, False))
        return F[:, 0], F[:, 1]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return 1 - loss / loss of the best constants: 1 is perfect, 0 as good as constants.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
        """
        F = self.predict(X).reshape(-1, len(self.quantiles_))
        y = np.asarray(y, dtype=np.float64).ravel()
        loss = pinball_loss(y, F, self.quantiles_, sample_weight)
        constants = np.tile(_best_constants(y, self.quantiles_, sample_weight), (len(y), 1))
        worst = pinball_loss(y, constants, self.quantiles_, sample_weight)
        return 1.0 - loss / worst if worst > 0.0 else float(loss == 0.0)


@dataclass(frozen=True)
class _Quantiles:
    """Sort predictions, where levels must not cross; it can be sent to workers."""

    order: np.ndarray | None
    is_vector: bool

    def __call__(self, F: np.ndarray) -> np.ndarray:
        if self.order is not None:
            F[:, self.order] = np.sort(F, axis=1)
        return F[:, 0] if self.is_vector else F


class _Between:
    """Interpolate other levels between those of the columns, sorted; it can be sent to workers."""

    def __init__(self, levels: np.ndarray, wanted: np.ndarray, is_vector: bool) -> None:
        known, self.is_vector = np.sort(levels), is_vector
        if wanted.min() < known[0] - 1e-12 or wanted.max() > known[-1] + 1e-12:
            raise ValueError(
                f"quantiles must lie between those of the fit, {known[0]:g} and {known[-1]:g}. "
                f"Got {wanted.min():g} to {wanted.max():g}: fit with quantiles that reach further."
            )
        last = max(len(known) - 1, 1)
        right = np.minimum(np.clip(np.searchsorted(known, wanted - 1e-12), 1, last), len(known) - 1)
        self.left, self.right = np.maximum(right - 1, 0), right
        width = known[self.right] - known[self.left]
        share = (wanted - known[self.left]) / np.where(width > 0.0, width, 1.0)
        self.share = np.clip(share, 0.0, 1.0)

    def __call__(self, F: np.ndarray) -> np.ndarray:
        F = np.sort(F, axis=1)
        found = (1.0 - self.share) * F[:, self.left] + self.share * F[:, self.right]
        return found[:, 0] if self.is_vector else found


def _best_constants(y: np.ndarray, levels: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Return the weighted quantiles of y; `numpy.quantile` takes weights only from NumPy 2 on."""
    order = np.argsort(y)
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    mass = np.cumsum(weights[order])
    return y[order][np.searchsorted(mass, levels * mass[-1])]
