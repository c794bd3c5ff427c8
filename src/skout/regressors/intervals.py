"""Intervals that hold the target with a promised probability, by held-out errors (conformal).

split   q is the ceil((n + 1) c)-th smallest error on n rows that the model has not seen, and
        f(x) - q, f(x) + q the interval (Papadopoulos et al., 2002): it holds y with probability c.
CV+     each training row i has the error R_i of the model f_i of the folds without it, and the ends
        are quantiles of all f_i(x) - R_i and f_i(x) + R_i (Barber et al., 2021): at least 2c - 1,
        less a little, is the theorem, and c is about what one gets. Here alpha, widths and
        landmarks are those of the fit on all rows, for which strictly there is no theorem.
box     all outputs at once, by the largest error of a row in units of the median size of errors,
        see `_joint`: it holds all of y with probability c in the split way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import n_rows, numpy_of
from .._numerics.validation import check_level
from ..rows import encoded_targets, source
from ..sketches import SubSample
from .splits import splits_of

__all__ = ["Calibration", "PredictsIntervals"]

# Halvings of the range in which a quantile lies: as many as digits of a float64.
_HALVINGS = 60


@dataclass
class Calibration:
    """Absolute errors of rows that a model has not seen, and the models that made them.

    Errors have one array (n_k, d) a model, NaN where y is missing. They are in units of the
    standard deviation of the prediction if `scaled`. Models are those of the folds; there are none
    where the errors are of the model itself, on other rows.
    """

    errors: list[np.ndarray]
    models: list[Any] = field(default_factory=list)
    scaled: bool = False


class PredictsIntervals:
    """A regressor whose intervals are made by held-out errors."""

    def calibrate(self: Any, X: Any, y: Any, *, cv: Any = None, scaled: bool = False) -> Any:
        """Measure errors on rows that the model, or those of the folds, have not seen.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
            Rows that the model has not been fitted on; with `cv` those that it has.
        y : array of shape (n,) or (n, d)
            NaN is missing.
        cv : int, splitter or iterable of splits, optional
            CV+: a model is fitted for each split, with the alpha, the kernel and, of a sub-sample,
            the landmarks of this one, and kept. About the coverage c is what one gets; the theorem
            promises 2c - 1, less a little, and not even that where folds share alpha, widths and
            landmarks, as here. None is split conformal, which holds c.
        scaled : bool, default False
            Whether intervals are wide where the standard deviation is large: errors then count in
            units of sqrt(std^2 + ``noise_variance_``), that of a new y. Else all have the same
            width, or nearly.

        Returns
        -------
        self : estimator
        """
        check_is_fitted(self)
        inputs = source(X)
        T = np.asarray(encoded_targets(y, inputs, holes=True).here(), dtype=np.float64)
        if T.ndim != 2 - self._is_vector:
            raise ValueError(f"y must be like that of fit. Got shape {T.shape} instead.")
        T = T.reshape(len(T), -1)
        if cv is None:
            errors, models = [_errors(self, inputs.here(), T, scaled)], []
        else:
            errors, models = self._by_folds(inputs, T, cv, scaled)
        self.calibration_ = Calibration(errors, models, scaled)
        return self

    def _by_folds(self: Any, inputs: Any, T: np.ndarray, cv: Any, scaled: bool) -> Any:
        """Return the errors of each fold, and the models that made them."""
        errors: list[np.ndarray] = []
        models: list[Any] = []
        for train, test in splits_of(cv, len(T), None, None, getattr(self, "random_state", None)):
            train, test = (np.sort(np.arange(len(T))[part]) for part in (train, test))
            model = clone(self).set_params(alpha=self.alpha_, kernel=self.kernel_)
            own = T[train, 0] if self._is_vector else T[train]
            more = {}
            if self.sketch is not None and self.basis_.weights_ is None:
                # landmarks of their own would make the models differ, and the intervals wide
                model.set_params(sketch=SubSample(n_rows(self.landmarks_)))
                more = {"landmarks": self.landmarks_}
            models.append(model.fit(inputs.take(train), own, **more))
            errors.append(_errors(model, inputs.take(test), T[test], scaled))
        return errors, models

    def predict_interval(
        self: Any, X: Any, coverage: float = 0.9, *, joint: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold the target with a given probability.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        coverage : float, default 0.9
            For rows that are exchangeable with those of `calibrate`, which must have been called;
            on average over calibrations. What CV+ promises is less, see there.
        joint : bool, default False
            Whether all outputs are in their intervals at the same time with this probability: the
            intervals are the sides of a box. Else each is with this probability. Rows of
            `calibrate` in which an output is missing do not count.

        Returns
        -------
        lower, upper : ndarrays of shape (n,) or (n, d)
            Infinite where the rows of `calibrate` are too few: below c / (1 - c) for the coverage
            c, 9 for 0.9 and 19 for 0.95.
        """
        check_is_fitted(self)
        calibration = getattr(self, "calibration_", None)
        if calibration is None:
            raise NotFittedError(
                "Intervals need held-out errors: call `calibrate` with rows that the model has not "
                "seen, or with those that it has and cv=5."
            )
        level = Fraction(str(check_level(coverage, "coverage")))
        errors = _joint(calibration.errors) if joint else calibration.errors
        if calibration.models:
            lower, upper = _cv_plus(calibration, errors, X, level)
        else:
            F, scale = _predicted(self, X, calibration.scaled)
            radius = np.array([_quantile(column, level) for column in errors[0].T])
            lower, upper = F - radius * scale, F + radius * scale
        return (lower[:, 0], upper[:, 0]) if self._is_vector else (lower, upper)


def _predicted(model: Any, X: Any, scaled: bool) -> tuple[np.ndarray, Any]:
    """Return predictions of shape (n, d), and the standard deviation of y where it is wanted."""
    if not scaled:
        F = np.asarray(numpy_of(model.predict(X)))
        return F.reshape(len(F), -1), 1.0
    both = (np.asarray(numpy_of(part)) for part in model.predict(X, return_std=True))
    F, std = (part.reshape(len(part), -1) for part in both)
    return F, np.sqrt(std**2 + model.noise_variance_)


def _errors(model: Any, X: Any, T: np.ndarray, scaled: bool) -> np.ndarray:
    F, scale = _predicted(model, X, scaled)
    return np.abs(T - F) / scale


def _joint(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Return errors whose quantiles, output by output, are the sides of a box that holds all.

    The score of a row with errors e is max_j e_j / m_j, where m_j is the median of the errors in
    output j of all rows, the new one among them. So no row plays another part than the others, and
    the new score is among the ceil((n + 1) c) smallest with probability c. Its errors being
    unknown, m_j is only known to lie between low_j, if e_j were 0, and high_j, if it were infinite.
    But e_j is at most m_j times the quantile of the scores, that of max(e_ij, m_j max_(l != j)
    e_il / m_l) over rows i, which grows with m_j and falls with m_l: high_j and low_l bound it.
    """
    if parts[0].shape[1] == 1:
        return parts
    known = [np.sort(column[~np.isnan(column)]) for column in np.concatenate(parts).T]
    ends = [np.concatenate([[0.0], e, [np.inf]])[(len(e) + 2) // 2 - 1 :][:2] for e in known]
    low, high = np.array(ends).T  # (d,)

    def shaped(E: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(E == 0.0, 0.0, E / low)
            order = np.sort(scores, axis=1)  # NaN, of rows that lack an output, are the last
            others = np.where(scores == order[:, -1:], order[:, -2:-1], order[:, -1:])
            return np.where(np.isinf(others), np.inf, np.maximum(E, high * others))

    return [shaped(E) for E in parts]


def _quantile(errors: np.ndarray, level: Fraction) -> float:
    """Return the ceil((n + 1) level)-th smallest of n errors, infinity if there is none."""
    known = np.sort(errors[~np.isnan(errors)])
    place = math.ceil((len(known) + 1) * level)
    return float(known[place - 1]) if place <= len(known) else np.inf


def _cv_plus(
    calibration: Calibration, errors: list[np.ndarray], X: Any, level: Fraction
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of CV+: quantiles over all training rows i of f_i(x) -+ R_i."""
    found = [_predicted(model, X, calibration.scaled) for model in calibration.models]
    F = np.stack([f for f, _ in found])
    scale = np.stack([s * np.ones(F.shape[1:]) for _, s in found])  # (folds, n, d)
    lower, upper = np.empty(F.shape[1:]), np.empty(F.shape[1:])
    for j in range(F.shape[2]):
        lists = [np.sort(E[~np.isnan(E[:, j]), j]) for E in errors]
        place = math.ceil((sum(map(len, lists)) + 1) * level)
        upper[:, j] = _kth(F[:, :, j], scale[:, :, j], lists, place)
        lower[:, j] = -_kth(-F[:, :, j], scale[:, :, j], lists, place)
    return lower, upper


def _kth(shifts: np.ndarray, scale: np.ndarray, lists: list[np.ndarray], k: int) -> np.ndarray:
    """Return for each column x the k-th smallest of all shift_k(x) + scale_k(x) * list_k.

    By halving: how many numbers are below t is a search in each sorted list.
    """
    if k > sum(map(len, lists)):
        return np.full(shifts.shape[1], np.inf)
    largest = np.array([one[-1] if len(one) else 0.0 for one in lists])[:, None]
    low, high = shifts.min(axis=0), (shifts + scale * largest).max(axis=0)
    low = np.nextafter(low, -np.inf)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = sum(
            np.searchsorted(one, (middle - shift) / width, side="right")
            for one, shift, width in zip(lists, shifts, scale, strict=True)
        )
        enough = below >= k
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
