"""The width of a kernel: a number, or what the training rows say it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._numerics.namespace import cast, namespace, ones
from .._numerics.validation import check_choice, check_number, check_total_weight
from ..rows import Reduction, Survey
from .base import Kernel
from .distances import SquaredDistances, manhattan

__all__ = ["Spread", "WithGamma", "median_of_pairs", "some_positions"]

# "median" looks at this many rows; more would not change the bandwidth.
_MEDIAN_ROWS = 1000


class WithGamma(Kernel):
    """A kernel with a width gamma: a number, "scale" or "median"."""

    gamma: float | str
    #: What gamma is one over: "squared" (Euclidean distance), "euclidean" or "manhattan".
    unit: str = "squared"

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        if not isinstance(self.gamma, str):
            return lambda: self._of_length(None)
        check_choice(self.gamma, "gamma", ("scale", "median"))
        if self.gamma == "scale":
            spread = survey.reduce(Spread(), weights)
            return lambda: self._of_length(_scale(self.unit, spread()), spread().range)
        index, shares = some_positions(len(survey), rng, weights)
        sample = survey.take(index)
        return lambda: self._of_length(_median(self.unit, sample().astype(np.float64), shares))

    def _of_length(self, length: float | None, spread: float = 0.0) -> Kernel:
        """Return a copy whose width is one over a length of the data, or a number already."""
        resolved = clone(self)
        if length is not None:
            _check_underflow(spread, length if self.unit != "euclidean" else length**2)
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


def _check_underflow(spread: float, length: float) -> None:
    """Raise where rows differ, and squares of their differences are too small for float64."""
    if length < np.finfo(np.float64).tiny and spread > 0.0:
        raise ValueError(
            f"X holds features that differ by no more than {spread:.3g}, whose squares "
            "underflow. Scale the features, for instance with scikit-learn's StandardScaler."
        )


@dataclass(frozen=True)
class _Spread:
    """Mean and variance of the numbers in some rows, which add up (Chan et al., 1979)."""

    weight: float  # numbers, each counted with the weight of its row
    mean: float
    squares: float  # weighted sum of (x - mean)^2
    d: int
    low: Any  # of each feature
    high: Any

    @property
    def variance(self) -> float:
        return self.squares / self.weight if self.weight else 0.0

    @property
    def range(self) -> float:
        """The largest difference within a feature."""
        return float((self.high - self.low).max()) if self.d else 0.0


class Spread(Reduction):
    """The variance of all the numbers in the rows, as scikit-learn's "scale" takes it."""

    def on(self, place: Any) -> Reduction:
        return self

    def __call__(self, A: Any, weights: Any = None) -> _Spread:
        (b, d), xp = A.shape, namespace(A)
        w = ones(b, A) if weights is None else cast(weights, np.float64)
        total = d * float(w.sum())
        mean = float(w @ _row_sums(A)) / total if total else 0.0
        if sparse.issparse(A):
            away = A.copy()
            away.data = (away.data.astype(np.float64) - mean) ** 2
            squares = _row_sums(away) + (d - np.diff(A.indptr)) * mean**2
            low, high = (np.asarray(end.todense()).ravel() for end in (A.min(0), A.max(0)))
        else:
            squares = _row_sums((A - mean) ** 2)
            low, high = xp.amin(A, axis=0), xp.amax(A, axis=0)
        return _Spread(total, mean, float(w @ squares), d, low, high)

    def combine(self, total: _Spread | None, part: _Spread) -> _Spread:
        if total is None:
            return part
        weight = total.weight + part.weight
        away = part.mean - total.mean
        share = part.weight / weight if weight else 0.0
        squares = total.squares + part.squares + away**2 * total.weight * share
        xp = namespace(part.low)
        ends = xp.minimum(total.low, part.low), xp.maximum(total.high, part.high)
        return _Spread(weight, total.mean + share * away, squares, total.d, *ends)


def _row_sums(A: Any) -> Any:
    sums = A.sum(axis=1, dtype=namespace(A).float64)
    return np.asarray(sums).ravel() if sparse.issparse(A) else sums


def some_positions(
    n: int, rng: np.random.Generator, weights: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the positions of at most _MEDIAN_ROWS rows, and their weights; none without weight."""
    if weights is None:
        index = np.arange(n)
    else:
        weights = np.asarray(weights, dtype=np.float64)
        check_total_weight(weights.sum())
        index = np.flatnonzero(weights)
        weights = weights[index] if np.ptp(weights[index]) > 0 else None
    if len(index) > _MEDIAN_ROWS and weights is None:
        index = np.sort(rng.choice(index, _MEDIAN_ROWS, replace=False))
    elif len(index) > _MEDIAN_ROWS:  # drawn by weight, each counts as often as it was drawn
        drawn = rng.choice(len(index), _MEDIAN_ROWS, p=weights / weights.sum())
        drawn, weights = np.unique(drawn, return_counts=True)
        index = index[drawn]
    return index, weights


def _scale(unit: str, spread: _Spread) -> float:
    """Return the typical distance of rows whose d features have this variance."""
    check_total_weight(spread.weight)
    d, variance = spread.d, spread.variance
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
