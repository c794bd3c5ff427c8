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

from .._numerics.arrays import n_rows, numpy_of
from .._numerics.typing import Estimator, Floats, Objects
from .._numerics.validation import check_level
from ..rows import encoded_targets, source
from ..sketches import SubSample
from ..solvers.folds import CV, deal

# Halvings of the range in which a quantile lies: more than float64 has binary digits, 53.
_HALVINGS = 60


@dataclass
class Calibration:
    """Absolute errors of rows that a model has not seen, and the models that made them.

    Errors have one array (n_k, d) a model, NaN where y is missing. They are in units of the
    standard deviation of the prediction if `scaled`. Models are those of the folds; there are none
    where the errors are of the model itself, on other rows.
    """

    errors: list[Floats]
    models: list[Any] = field(default_factory=list)
    scaled: bool = False


def calibrated(
    model: Estimator,
    X: Objects,
    y: Objects,
    is_vector: bool,
    *,
    cv: CV = None,
    scaled: bool = False,
) -> Calibration:
    """Return the errors of a fitted `KernelRidge` on rows that it, or the folds', have not seen.

    See `KernelRidge.calibrate`. If `is_vector`, the targets of the fit were of shape (n,).
    """
    inputs = source(X)
    T = np.asarray(encoded_targets(y, inputs, missing=True).load(), dtype=np.float64)
    if T.ndim != 2 - is_vector:
        raise ValueError(f"y must be like that of fit. Got shape {T.shape} instead.")
    T = T.reshape(len(T), -1)
    if cv is None:
        return Calibration([_errors(model, inputs.load(), T, scaled)], [], scaled)
    errors: list[Floats] = []
    models: list[Any] = []
    for train, test in deal(cv, len(T), random_state=getattr(model, "random_state", None)):
        part = clone(model).set_params(alpha=model.alpha_, kernel=model.kernel_)
        landmarks = {}
        if model.sketch is not None and model.basis_.weights_ is None:
            # landmarks of their own would make the models differ, and the intervals wide
            part.set_params(sketch=SubSample(n_rows(model.landmarks_)))
            landmarks = {"landmarks": model.landmarks_}
        models.append(
            part.fit(inputs.take(train), T[train, 0] if is_vector else T[train], **landmarks)
        )
        errors.append(_errors(part, inputs.take(test), T[test], scaled))
    return Calibration(errors, models, scaled)


def interval(
    model: Estimator, calibration: Calibration | None, X: Objects, coverage: float, joint: bool
) -> tuple[Floats, Floats]:
    """Return the ends of intervals that hold the targets of X, each of shape (n, d)."""
    if calibration is None:
        raise NotFittedError(
            "Intervals need held-out errors: call `calibrate` with rows that the model has not "
            "seen, or with those that it has and cv=5."
        )
    level = Fraction(str(check_level(coverage, "coverage")))
    errors = _joint(calibration.errors) if joint else calibration.errors
    if calibration.models:
        return _cv_plus(calibration, errors, X, level)
    F, scale = _predicted(model, X, calibration.scaled)
    radius = np.array([_quantile(column, level) for column in errors[0].T])
    return F - radius * scale, F + radius * scale


def _predicted(model: Estimator, X: Objects, scaled: bool) -> tuple[Floats, Any]:
    """Return predictions of shape (n, d), and the standard deviation of y where it is wanted."""
    if not scaled:
        F = np.asarray(numpy_of(model.predict(X)))
        return F.reshape(len(F), -1), 1.0
    both = (np.asarray(numpy_of(part)) for part in model.predict(X, return_std=True))
    F, std = (part.reshape(len(part), -1) for part in both)
    return F, np.sqrt(std**2 + model.noise_variance_)


def _errors(model: Estimator, X: Objects, T: Floats, scaled: bool) -> Floats:
    F, scale = _predicted(model, X, scaled)
    errors: Floats = np.abs(T - F) / scale
    return errors


def _joint(parts: list[Floats]) -> list[Floats]:
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
    observed = [np.sort(column[~np.isnan(column)]) for column in np.concatenate(parts).T]
    ends = [np.concatenate([[0.0], e, [np.inf]])[(len(e) + 2) // 2 - 1 :][:2] for e in observed]
    low, high = np.array(ends).T  # (d,)

    def shaped(E: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(E == 0.0, 0.0, E / low)
            order = np.sort(scores, axis=1)  # NaN, of rows that lack an output, are the last
            others = np.where(scores == order[:, -1:], order[:, -2:-1], order[:, -1:])
            return np.where(np.isinf(others), np.inf, np.maximum(E, high * others))

    return [shaped(E) for E in parts]


def _quantile(errors: Floats, level: Fraction) -> float:
    """Return the ceil((n + 1) level)-th smallest of n errors, infinity if there is none."""
    observed = np.sort(errors[~np.isnan(errors)])
    place = math.ceil((len(observed) + 1) * level)
    return float(observed[place - 1]) if place <= len(observed) else np.inf


def _cv_plus(
    calibration: Calibration, errors: list[Floats], X: Objects, level: Fraction
) -> tuple[Floats, Floats]:
    """Return the ends of CV+: quantiles over all training rows i of f_i(x) -+ R_i."""
    predicted = [_predicted(model, X, calibration.scaled) for model in calibration.models]
    F = np.stack([f for f, _ in predicted])
    scale = np.stack([s * np.ones(F.shape[1:]) for _, s in predicted])  # (folds, n, d)
    lower, upper = np.empty(F.shape[1:]), np.empty(F.shape[1:])
    for j in range(F.shape[2]):
        lists = [np.sort(E[~np.isnan(E[:, j]), j]) for E in errors]
        place = math.ceil((sum(map(len, lists)) + 1) * level)
        upper[:, j] = _kth(F[:, :, j], scale[:, :, j], lists, place)
        lower[:, j] = -_kth(-F[:, :, j], scale[:, :, j], lists, place)
    return lower, upper


def _kth(shifts: Floats, scale: Floats, lists: list[Floats], k: int) -> Floats:
    """Return for each column x the k-th smallest of all shift_k(x) + scale_k(x) * list_k.

    By halving: how many numbers are below t is a search in each sorted list.
    """
    if k > sum(map(len, lists)):
        return np.full(shifts.shape[1], np.inf)
    largest = np.array([errors[-1] if len(errors) else 0.0 for errors in lists])[:, None]
    low, high = shifts.min(axis=0), (shifts + scale * largest).max(axis=0)
    low = np.nextafter(low, -np.inf)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = sum(
            np.searchsorted(errors, (middle - shift) / width, side="right")
            for errors, shift, width in zip(lists, shifts, scale, strict=True)
        )
        enough = below >= k
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    ends: Floats = high
    return ends
