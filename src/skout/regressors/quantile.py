"""All quantiles of a target in one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._numerics.estimators import all_at_once, frames_out
from .._numerics.linalg import pseudo_inverse
from .._numerics.typing import Array, Inputs, Ints, Objects, RandomState, Weights
from .._numerics.validation import check_number
from ..basis.moments import TrainingSample, check_outputs_observed
from ..kernels.base import KernelLike
from ..losses import Pinball
from ..metrics import pinball_loss
from ..rows import Blocks, Memory
from ..sketches import SketchLike
from ..solvers.folds import CV, Alphas
from .base import KernelMachineBase
from .tasks import check_quantiles, quantile_task_matrix

# Levels that stand for all: nodes of Gauss and Legendre, from 0.003 to 0.997. They integrate
# polynomials of degree 39 exactly; half end at 0.013, and double cost twice the outputs.
_NODES = 20
# Squared distance of a level from the span of the fitted ones, of at most 1, up to which the kernel
# of the levels knows what its curve is: 95 % of it. A convention.
_FAR = 0.05
# Levels that differ by less are one, such as 0.3 and 1 - 0.7.
_SAME = 1e-12


@frames_out
class JointQuantileRegressor(RegressorMixin, KernelMachineBase):
    """Kernel quantile regression, several levels at once, that need not cross.

    Minimizes mean_i sum_j pinball_tau_j(f_j(x_i), y_i) + alpha/2 ||f||^2 with the kernel k M,
    M_ij = exp(-gamma (tau_i - tau_j)^2), which ties the curves of near levels (example 2.13).

    As M is a kernel of levels, f has a curve at every level (Brault et al., 2019):

        f(x)(tau) = sum_j M(tau, tau_j) sum_i k(x, x_i) a_ij + b(tau)

    Parameters
    ----------
    quantiles : float, array of shape (q,) or "all", default 0.5
        Levels, in (0, 1), such as (0.1, 0.5, 0.9); one number is one quantile, here the median.
        "all" minimizes the integral of the loss over all levels, by a quadrature of 20; it is half
        the continuous ranked probability score.
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
        As in `KernelRidge`.
    fit_intercept : bool, default True
        Add an unpenalized constant to each level.
    tol, max_iter, random_state, n_jobs, verbose, device
        As in `KernelMachine`.

    Attributes
    ----------
    quantiles_ : ndarray of shape (q,)
        The levels; of "all" those of the quadrature.
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
    >>> model.predict(X, quantiles=[0.2, 0.3, 0.4]).shape
    (300, 3)
    """

    _shares: Any = 1.0  # of the levels in the loss
    quantiles_: Array

    def __init__(
        self,
        quantiles: ArrayLike = 0.5,
        kernel: KernelLike = "gaussian",
        sketch: SketchLike = None,
        *,
        alpha: Alphas = 1e-3,
        gamma_quantiles: float = 1.0,
        non_crossing: bool = True,
        cv: CV = 5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
    ) -> None:
        self.quantiles = quantiles
        self.gamma_quantiles = gamma_quantiles
        self.non_crossing = non_crossing
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device

    @overload
    def fit(self, X: Blocks, y: None = None) -> JointQuantileRegressor: ...
    @overload
    def fit(
        self, X: Objects, y: Objects, sample_weight: Weights = None
    ) -> JointQuantileRegressor: ...

    @all_at_once
    def fit(
        self, X: Inputs, y: Objects | None = None, sample_weight: Weights = None
    ) -> JointQuantileRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or objects that the kernel encodes, n of them
        y : array of shape (n,)
            Rows where it is NaN are left out.
        sample_weight : array of shape (n,), optional
        """
        levels, shares = _quadrature() if self._takes_all() else (self.quantiles, 1.0)
        levels = check_quantiles(levels)
        check_number(self.gamma_quantiles, "gamma_quantiles")
        sample = self._sample(X, y, sample_weight, missing=True)
        Y = np.asarray(sample.targets.load())
        if Y.shape[1] > 1:
            raise ValueError(
                f"y must be one target, shape (n,). Got shape {Y.shape} instead: fit one model for "
                "each target."
            )
        column = column_or_1d(Y[:, 0] if self._is_vector else Y, warn=True)
        target, weights = _without_missing(column, sample.weights)
        self.quantiles_, self._shares = levels, shares
        self._is_vector = np.ndim(self.quantiles) == 0 and not self._takes_all()
        # s pinball(f, y) = pinball(s f, s y): shares of levels are scales of outputs
        scale = np.broadcast_to(shares, len(levels))
        M = quantile_task_matrix(levels, self.gamma_quantiles) * np.outer(scale, scale)
        sample = TrainingSample(sample.rows, Memory(target.reshape(-1, 1) * scale, "y"), weights)
        fit = self._learn(sample, Pinball(levels), M if len(levels) > 1 else None)
        self._take(fit.of_outputs(slice(None), scale))
        return self

    def _takes_all(self) -> bool:
        return isinstance(self.quantiles, str) and self.quantiles == "all"

    def predict(self, X: Objects, quantiles: ArrayLike | None = None) -> np.ndarray:
        """Predict the quantiles of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        quantiles : float or array of shape (q,), optional
            Other levels than those of the fit, by the formula above. They must not lie outside of
            them, unless the fit was of "all". A level so far from all others that M says little of
            it is interpolated.

        Returns
        -------
        quantiles : ndarray of shape (n, q)
            In the order of `quantiles`; of shape (n,) if that is one number. With `non_crossing`
            they also lie between those of the nearest levels of the fit.
        """
        check_is_fitted(self)
        if quantiles is not None:
            levels, fitted = check_quantiles(quantiles), self.quantiles_
            if not self._reaches(levels):
                raise ValueError(
                    f"quantiles must lie between those of the fit, {fitted.min():g} and "
                    f"{fitted.max():g}. Got {levels.min():g} to {levels.max():g}: fit with "
                    'quantiles that reach further, or with quantiles="all".'
                )
            return self._at(X, levels, self.non_crossing, np.ndim(quantiles) == 0)
        order = np.argsort(self.quantiles_) if self.non_crossing else None
        finish = _Quantiles(order, self._is_vector)
        tail = () if self._is_vector else self.quantiles_.shape
        predicted: np.ndarray = self._map(X, tail, finish)
        return predicted

    def _at(
        self, X: Objects, wanted: np.ndarray, sort: bool, is_vector: bool = False
    ) -> np.ndarray:
        """Predict the quantiles of any levels."""
        finish = _Extended(self, wanted, sort, is_vector)
        predicted: np.ndarray = self._map(X, () if is_vector else wanted.shape, finish)
        return predicted

    def _reaches(self, wanted: np.ndarray) -> bool:
        """Whether levels lie between those of the fit, or any levels will do."""
        low, high = self.quantiles_.min() - _SAME, self.quantiles_.max() + _SAME
        return self._takes_all() or (wanted.min() >= low and wanted.max() <= high)

    def predict_interval(self, X: Objects, coverage: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a given probability.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        coverage : float, default 0.8
            In (0, 1). The ends are the quantiles (1 - coverage)/2 and (1 + coverage)/2, which must
            not lie outside the fitted levels, unless the fit was of "all".

        Returns
        -------
        lower, upper : ndarrays of shape (n,)
        """
        check_is_fitted(self)
        if not 0.0 < check_number(coverage, "coverage") < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1. Got {coverage!r} instead.")
        ends = np.array([0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)])
        if not self._reaches(ends):
            raise ValueError(
                f"coverage={coverage:g} needs the quantiles {ends[0]:g} and {ends[1]:g}, but the "
                f"model has {self.quantiles_.min():g} to {self.quantiles_.max():g}. Fit with "
                "quantiles that reach further."
            )
        F = self._at(X, ends, sort=True)
        return F[:, 0], F[:, 1]

    def score(self, X: Objects, y: Objects, sample_weight: Weights = None) -> float:
        """Return 1 - loss / loss of the best constants: 1 is perfect, 0 as good as constants.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
        """
        F = self.predict(X).reshape(-1, len(self.quantiles_))
        y = np.asarray(y, dtype=np.float64).ravel()
        constants = np.tile(_best_constants(y, self.quantiles_, sample_weight), (len(y), 1))
        loss, worst = (self._loss(y, predicted, sample_weight) for predicted in (F, constants))
        return 1.0 - loss / worst if worst > 0.0 else float(loss == 0.0)

    def _loss(self, y: np.ndarray, F: np.ndarray, sample_weight: Weights) -> float:
        levels = zip(F.T, self.quantiles_, strict=True)
        losses = np.array([pinball_loss(y, f, tau, sample_weight) for f, tau in levels])
        return float(np.sum(self._shares * losses))


@dataclass(frozen=True)
class _Quantiles:
    """Sort predictions, where levels must not cross; it can be sent to workers."""

    order: np.ndarray | None
    is_vector: bool

    def __call__(self, F: np.ndarray) -> np.ndarray:
        if self.order is not None:
            F[:, self.order] = np.sort(F, axis=1)
        return F[:, 0] if self.is_vector else F


class _Extended:
    """Predictions at other levels than those of the columns; it can be sent to workers.

    f(tau) = (F - b) T + b(tau), T = M^+ M(levels, tau): the representer's formula, as F - b is the
    sum over rows times M. The intercepts b, which nothing penalizes, are carried over by the curve
    with the least integral of b'(tau)^2, a straight line between two levels.
    """

    def __init__(
        self, model: JointQuantileRegressor, wanted: np.ndarray, sort: bool, is_vector: bool
    ) -> None:
        levels, gamma, intercept = model.quantiles_, model.gamma_quantiles, model.intercept_
        self.sort = sort
        self.is_vector = is_vector
        order = np.argsort(levels)
        lines = [np.interp(wanted, levels[order], row) for row in np.eye(len(levels))[:, order]]
        kernel = np.exp(-gamma * (levels[:, None] - wanted) ** 2)  # (q, wanted)
        T = pseudo_inverse(np.exp(-gamma * (levels[:, None] - levels) ** 2)) @ kernel
        distance = 1.0 - np.sum(kernel * T, axis=0)
        near = np.abs(levels[:, None] - wanted).min(axis=0) <= _SAME  # a level of the fit
        self.T = np.where((distance > _FAR) | near, lines, T)
        self.old, self.new = intercept, intercept @ np.array(lines)
        self.order = np.argsort(wanted)
        self.below = np.searchsorted(levels[order], wanted + _SAME, side="right")
        self.above = np.searchsorted(levels[order], wanted - _SAME) + 1

    def __call__(self, F: np.ndarray) -> np.ndarray:
        predicted: np.ndarray = (F - self.old) @ self.T + self.new
        if self.sort:  # between the sorted quantiles of the fit
            bounds = np.pad(np.sort(F, axis=1), ((0, 0), (1, 1)), constant_values=np.inf)
            bounds[:, 0] = -np.inf
            predicted = np.clip(predicted, bounds[:, self.below], bounds[:, self.above])
            predicted[:, self.order] = np.sort(predicted, axis=1)
        return predicted[:, 0] if self.is_vector else predicted


def _without_missing(
    y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a target without NaN, and weights that leave its rows out."""
    missing = np.isnan(y)
    if not missing.any():
        return y, weights
    observed = (~missing).astype(np.float64)
    weights = observed if weights is None else weights * observed
    check_outputs_observed(weights.sum())
    return np.where(missing, 0.0, y), weights


def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return levels and weights of an integral over (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def _best_constants(y: np.ndarray, levels: np.ndarray, sample_weight: Weights) -> np.ndarray:
    """Return the weighted quantiles of y; `numpy.quantile` takes weights only from NumPy 2 on."""
    order = np.argsort(y)
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    mass = np.cumsum(weights[order])
    at: Ints = order[np.searchsorted(mass, levels * mass[-1])]
    return y[at]
