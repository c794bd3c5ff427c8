"""Calibration: how often the truth lies in intervals and sets, beside their nominal level."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy import sparse

from skout.dev import n_rows

from .subject import Subject

_LEVELS = (0.5, 0.8, 0.9, 0.95)
# The fewest and the most bins of rows by their probability, and the rows of a bin.
_LEAST_PARTS, _MOST_PARTS, _ROWS = 5, 10, 50
Interval = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Level:
    """A nominal level, the observed share with its standard error, and the size of the sets."""

    nominal: float
    observed: float
    error: float
    size: float | None = None


@dataclass(frozen=True)
class ReportedCalibration:
    """Observed shares beside nominal levels, of sets, intervals or probabilities."""

    what: str  # has the levels, such as "Prediction sets"
    size: str  # the name of `Level.size`, such as "mean width", "" without one
    levels: list[Level]
    counted: str = "hold the truth"  # what the observed share is of


def calibration_of(subject: Subject) -> ReportedCalibration | None:
    """Return the calibration of sets, intervals or probabilities; None for a model without."""
    model, n = subject.saved.model, n_rows(subject.truth)
    if subject.sets is not None:
        return _of_sets(subject, n)
    if subject.has_classes:
        return _of_classes(subject)
    if subject.proba is not None:
        return _of_labels(subject, subject.proba)
    if subject.saved.outputs.kind.estimator_type != "regressor":
        return None
    if getattr(model, "calibration_", None) is not None:
        return _of_intervals("Prediction intervals", subject, model.predict_interval)
    if "return_std" in signature(model.predict).parameters:
        return _of_deviations(subject)
    return None


def _of_sets(subject: Subject, n: int) -> ReportedCalibration:
    levels = []
    for level in _LEVELS:
        measured = subject.sets.evaluate(
            subject.X, subject.truth, candidates=subject.candidates, coverage=level
        )
        share = measured["coverage"]
        levels.append(Level(level, share, _error(share, n), measured["mean_size"]))
    return ReportedCalibration("Prediction sets", "mean size", levels)


def _error(share: float, n: int) -> float:
    # sqrt(p (1 - p) / n)
    return float(np.sqrt(share * (1.0 - share) / n))


def _of_intervals(
    what: str, subject: Subject, interval: Callable[[Any, float], Interval]
) -> ReportedCalibration | None:
    """Compare the share of true numbers in intervals with their nominal level."""
    truth, levels = subject.truth, []
    for level in _LEVELS:
        try:
            lower, upper = (np.reshape(end, truth.shape) for end in interval(subject.X, level))
        except ValueError:  # the model has no such level
            continue
        inside = (lower <= truth) & (truth <= upper)
        width = float(np.mean(upper - lower))
        share = inside.mean(axis=1)  # rows are independent, not numbers of one row
        error = float(np.std(share) / np.sqrt(len(share)))
        size = width if np.isfinite(width) else None
        levels.append(Level(level, float(inside.mean()), error, size))
    return ReportedCalibration(what, "mean width", levels) if levels else None


def _of_deviations(subject: Subject) -> ReportedCalibration | None:
    """Measure the coverage of f +- z sqrt(std^2 + noise), the intervals of a Gaussian process."""
    model = subject.saved.model
    try:
        F, std = (np.asarray(part) for part in model.predict(subject.X, return_std=True))
        F, std = (np.reshape(part, subject.truth.shape) for part in (F, std))
        deviation = np.sqrt(std**2 + model.noise_variance_)
    except (TypeError, ValueError):  # a fit that keeps no variances says so
        return None

    def interval(_: Any, level: float) -> Interval:
        z = NormalDist().inv_cdf(0.5 + 0.5 * level)
        return F - z * deviation, F + z * deviation

    return _of_intervals("Intervals by the standard deviation", subject, interval)


def _of_classes(subject: Subject) -> ReportedCalibration:
    """Compare the probability of predicted classes with how often they are right."""
    chance = np.max(subject.proba, axis=1)  # type: ignore[arg-type]
    right = np.asarray(subject.predicted) == subject.truth
    return ReportedCalibration(
        "Probabilities of the predicted class", "", _levels(chance, right), "right"
    )


def _of_labels(subject: Subject, proba: np.ndarray) -> ReportedCalibration:
    """Compare the probability of labels with how often rows have them."""
    has_label = sparse.csr_matrix(subject.truth)[:, : proba.shape[1]].toarray() > 0
    levels = _levels(proba.ravel(), has_label.ravel())
    return ReportedCalibration("Probabilities of labels", "", levels, "in the set")


def _levels(chance: np.ndarray, is_so: np.ndarray) -> list[Level]:
    """Return the mean probability of bins of equal size, and the share in which it was so."""
    levels = []
    n = int(np.clip(len(chance) // _ROWS, _LEAST_PARTS, _MOST_PARTS))
    for rows in np.array_split(np.argsort(chance, kind="stable"), n):
        if len(rows):
            share = float(is_so[rows].mean())
            levels.append(Level(float(chance[rows].mean()), share, _error(share, len(rows))))
    return levels
