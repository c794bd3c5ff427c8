"""The width of a kernel: a number, or what the training rows say it should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._arrays import n_rows, row_slices
from .._validation import check_choice, check_number
from .base import Kernel
from .distances import SquaredDistances, manhattan

__all__ = ["WithGamma", "median_of_pairs", "some_rows"]

# "median" looks at this many rows; more would not change the bandwidth.
_MEDIAN_ROWS = 1000
# "scale" reads the data this many rows at a time.
_VARIANCE_ROWS = 8192


class WithGamma(Kernel):
    """A kernel with a width gamma: a number, "scale" or "median"."""

    gamma: float | str
    #: What gamma is one over: "squared" (Euclidean distance), "euclidean" or "manhattan".
    unit: str = "squared"

    def resolve(
        self, rows: Any, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> Kernel:
        resolved = clone(self)
        if isinstance(self.gamma, str):
            check_choice(self.gamma, "gamma", ("scale", "median"))
            if self.gamma == "scale":
                length = _scale(self.unit, rows.shape[1], _variance(rows, weights))
            else:
                length = _median(self.unit, *some_rows(rows, rng, weights))
            _check_underflow(rows, length if self.unit != "euclidean" else length**2)
            # constant data: every width gives the same kernel
            resolved.set_params(gamma=1.0 / length if 0 < length < np.inf else 1.0)
        resolved._width()
        return resolved

    def _width(self) -> float:
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma={self.gamma!r} depends on the data: fit an estimator with this kernel, or "
                "call kernel.resolve(X, rng) first."
            )
        return float(check_number(self.gamma, "gamma"))


def _check_underflow(rows: Any, length: float) -> None:
    """Raise where rows differ, and squares of their differences are too small for float64."""
    if length >= np.finfo(np.float64).tiny or not isinstance(rows, np.ndarray):
        return
    spread = float(np.max(rows.max(axis=0) - rows.min(axis=0), initial=0.0))
    if spread > 0.0:
        raise ValueError(
            f"X holds features that differ by no more than {spread:.3g}, whose squares "
            "underflow. Scale the features, for instance with scikit-learn's StandardScaler."
        )


def _variance(rows: Any, weights: np.ndarray | None) -> float:
    """Return the variance of all the numbers in the rows, as scikit-learn's "scale" does."""
    if weights is None and getattr(rows, "is_tensor", False):
        return rows.variance()
    n, d = rows.shape

    def mean_of(function: Callable[[Any], Any]) -> float:
        def sums(A: Any, w: np.ndarray | None) -> np.ndarray:
            w = np.ones(n_rows(A)) if w is None else w
            return np.array([w @ function(A), d * w.sum()])

        if hasattr(rows, "total"):  # blocks on a cluster
            total = rows.total(sums, weights)
        else:
            parts = row_slices(n, _VARIANCE_ROWS)
            total = sum(sums(rows[s], None if weights is None else weights[s]) for s in parts)
        return float(total[0] / total[1])

    mean = mean_of(_row_sums)
    return mean_of(lambda A: _row_squares(A, mean))


def _row_sums(A: Any) -> np.ndarray:
    return np.asarray(A.sum(axis=1, dtype=np.float64)).ravel()


def _row_squares(A: Any, mean: float) -> np.ndarray:
    """Return the sum of (a - mean)^2 over each row."""
    if not sparse.issparse(A):
        return ((A - mean) ** 2).sum(axis=1, dtype=np.float64)
    # (a - mean)^2 of what is there, and mean^2 of each zero; not a^2 - mean^2, which cancels
    there = A.astype(np.float64)
    there.data = (there.data - mean) ** 2
    return _row_sums(there) + (A.shape[1] - np.diff(A.indptr)) * mean**2


def some_rows(
    rows: Any, rng: np.random.Generator, weights: np.ndarray | None
) -> tuple[Any, np.ndarray | None]:
    """Return at most _MEDIAN_ROWS rows in float64, and their weights; none without weight."""
    if weights is None:
        index = np.arange(n_rows(rows))
    else:
        weights = np.asarray(weights, dtype=np.float64)
        index = np.flatnonzero(weights)
        weights = weights[index] if np.ptp(weights[index]) > 0 else None
    if len(index) > _MEDIAN_ROWS and weights is None:
        index = np.sort(rng.choice(index, _MEDIAN_ROWS, replace=False))
    elif len(index) > _MEDIAN_ROWS:  # drawn by weight, each counts as often as it was drawn
        drawn = rng.choice(len(index), _MEDIAN_ROWS, p=weights / weights.sum())
        drawn, weights = np.unique(drawn, return_counts=True)
        index = index[drawn]
    return rows[index].astype(np.float64), weights


def _scale(unit: str, d: int, variance: float) -> float:
    """Return the typical distance of rows whose d features have this variance."""
    if unit == "squared":
        return d * variance
    return float(np.sqrt(d * variance) if unit == "euclidean" else d * np.sqrt(variance))


def _median(unit: str, sample: Any, weights: np.ndarray | None) -> float:
    """Return the median distance of different rows; twice that of squared ones."""
    if unit == "manhattan":
        return median_of_pairs(manhattan(sample, sample), weights)
    squared = 2.0 * median_of_pairs(SquaredDistances(sample, snap=True)(sample), weights)
    return squared if unit == "squared" else float(np.sqrt(squared))


def median_of_pairs(distances: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the median distance between different rows.

    A weight of two counts as a row that is there twice: a pair has the product of its weights.
    """
    i, j = np.triu_indices(len(distances), k=1)
    pairs = distances[i, j]
    apart = pairs > 0
    pairs = pairs[apart]
    if len(pairs) == 0:
        return 0.0
    if weights is None:
        return float(np.median(pairs))
    order = np.argsort(pairs)
    shares = np.cumsum((weights[i] * weights[j])[apart][order])
    # the mean of the two in the middle, which are one but for a tie
    middle = np.searchsorted(shares, 0.5 * shares[-1], side="left")
    after = np.searchsorted(shares, 0.5 * shares[-1], side="right")
    return float(0.5 * (pairs[order[middle]] + pairs[order[after]]))
