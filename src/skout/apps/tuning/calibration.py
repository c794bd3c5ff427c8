"""Calibration of probabilities, fitted on predictions of held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, softmax

from skout.dev import PartsByName

# Floors, added to each probability before its logarithm is taken: least squares predicts 0 and 1
# where it is not certain. The one of least log loss on held-out rows is taken.
_FLOORS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)
# Powers that probabilities may be raised to: below 1 they become less certain.
_POWERS = (0.1, 10.0)
# The floor without calibration: it only keeps logarithms finite.
_TINY = 1e-12
# Bins of equal numbers of rows of the expected calibration error.
_BINS = 10


class ProbabilityCalibration(PartsByName):
    """Calibrate estimated probabilities, which keeps the order of the classes of a row.

    Of classes they are p_k ~ (q_k + floor) ** power, of sum 1: temperature scaling (Guo et al.,
    2017) of estimates q that may be 0. Of labels, each of which is there or not, the log odds of
    q + floor are multiplied by `power`, and `shift` is added.

    Parameters
    ----------
    floor : float, default 1e-12
        Added to estimates, which may be 0.
    power : float, default 1.0
        Exponent of probabilities, or factor of log odds; below 1 they become less certain.
    shift : float, default 0.0
        Added to the log odds of labels.
    are_sets : bool, default False
        Whether columns are the labels of sets; else a row has one class.
    """

    def __init__(
        self,
        floor: float = _TINY,
        power: float = 1.0,
        shift: float = 0.0,
        are_sets: bool = False,
    ) -> None:
        self.floor = floor
        self.power = power
        self.shift = shift
        self.are_sets = are_sets

    def apply(self, estimates: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities of estimates of shape (n, n_classes)."""
        if self.are_sets:
            return expit(self.power * _log_odds(estimates, self.floor) + self.shift)
        if estimates.shape[1] < 2:
            return np.ones_like(estimates)
        return softmax(self.power * np.log(estimates + self.floor), axis=1)

    @classmethod
    def fitted(
        cls,
        estimates: np.ndarray,
        truth: np.ndarray,
        *,
        are_sets: bool,
        weights: np.ndarray | None = None,
        quick: bool = False,
    ) -> ProbabilityCalibration:
        """Return the calibration of least log loss on held-out rows.

        Estimates and truth, 0 or 1, are of shape (n, k), weights (n,). `quick` compares fewer
        floors.
        """
        if not len(estimates) or estimates.shape[1] < 1 + (not are_sets):
            return cls(are_sets=are_sets)
        fit = _of_labels if are_sets else _of_classes
        weights = np.ones(len(truth)) if weights is None else weights
        floors = _FLOORS[2::2] if quick else _FLOORS
        floor, power, shift = fit(estimates, truth.astype(float), weights / weights.sum(), floors)
        return cls(floor, power, shift, are_sets)


def calibrated(
    estimates: np.ndarray,
    truth: np.ndarray,
    block: np.ndarray,
    *,
    are_sets: bool,
    weights: np.ndarray | None = None,
) -> tuple[ProbabilityCalibration, float]:
    """Return the calibration of held-out rows, and its calibration error cross-fitted by blocks."""

    def fitted(rows: slice | np.ndarray) -> ProbabilityCalibration:
        row_weights = None if weights is None else weights[rows]
        return ProbabilityCalibration.fitted(
            estimates[rows], truth[rows], are_sets=are_sets, weights=row_weights
        )

    calibration = fitted(slice(None))
    held_out = np.empty_like(estimates)
    for number in np.unique(block):
        rows = block == number
        held_out[rows] = fitted(slice(None) if rows.all() else ~rows).apply(estimates[rows])
    if not are_sets:
        top = held_out.argmax(axis=1)[:, None]
        held_out = np.take_along_axis(held_out, top, axis=1)[:, 0]
        truth = np.take_along_axis(truth, top, axis=1)[:, 0]
    return calibration, expected_calibration_error(held_out, truth, weights)


def _log_odds(estimates: np.ndarray, floor: float) -> np.ndarray:
    """Return the log odds of q + floor, finite for q of 0 and 1."""
    return logit((np.clip(estimates, 0.0, 1.0) + floor) / (1.0 + 2.0 * floor))


def _of_classes(
    estimates: np.ndarray, truth: np.ndarray, weights: np.ndarray, floors: Sequence[float]
) -> tuple[float, float, float]:
    """Return floor, power and shift 0 of least log loss of classes."""
    best = (np.inf, _TINY, 1.0)
    for floor in floors:
        logs = np.log(estimates + floor)
        of_truth = (logs * truth).sum(axis=1)

        def loss(
            log_power: float, logs: np.ndarray = logs, of_truth: np.ndarray = of_truth
        ) -> float:
            scaled = np.exp(log_power) * logs
            top = scaled.max(axis=1)
            total = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
            return float(weights @ (total - np.exp(log_power) * of_truth))

        optimum = minimize_scalar(
            loss, bounds=tuple(np.log(_POWERS)), method="bounded", options={"xatol": 1e-2}
        )
        best = min(best, (float(optimum.fun), floor, float(np.exp(optimum.x))))
    return best[1], best[2], 0.0


def _of_labels(
    estimates: np.ndarray, truth: np.ndarray, weights: np.ndarray, floors: Sequence[float]
) -> tuple[float, float, float]:
    """Return floor, power and shift of least log loss of labels."""
    best = (np.inf, _TINY, 1.0, 0.0)
    for floor in floors[::2]:
        odds = _log_odds(estimates, floor)

        def loss(params: np.ndarray, odds: np.ndarray = odds) -> tuple[float, np.ndarray]:
            margin = params[0] * odds + params[1]
            value = (weights @ (np.logaddexp(0.0, margin) - truth * margin)).mean()
            slope = weights[:, None] * (expit(margin) - truth) / truth.shape[1]
            return float(value), np.array([np.vdot(slope, odds), slope.sum()])

        start, bounds = np.array([1.0, 0.0]), [_POWERS, (-5.0, 5.0)]
        optimum = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
        power, shift = map(float, optimum.x)
        best = min(best, (float(optimum.fun), floor, power, shift))
    return best[1:]


def expected_calibration_error(
    probabilities: np.ndarray, truth: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return the expected calibration error: |mean probability - frequency|, averaged over bins.

    Rows are in ten bins of equal numbers, by their probability: of classes by that of the likeliest
    class, `probabilities` and `truth` of shape (n,) then; of labels by that of each label, (n, L).
    """
    p, y = np.ravel(probabilities), np.ravel(truth).astype(float)
    w = (
        np.ones(np.shape(truth))
        if weights is None
        else np.broadcast_to(weights.reshape(-1, *[1] * (np.ndim(truth) - 1)), np.shape(truth))
    )
    w = np.ravel(w)
    bins = np.array_split(np.argsort(p, kind="stable"), min(_BINS, max(len(p), 1)))
    gaps = [abs(np.sum(w[rows] * (p[rows] - y[rows]))) for rows in bins]
    return float(np.sum(gaps) / w.sum())
