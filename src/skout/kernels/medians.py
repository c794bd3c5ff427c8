"""The median distance of some rows, by which widths such as gamma="median" are found."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._numerics.validation import check_total_weight

__all__ = ["median_of_pairs", "some_positions"]

# More rows would not change the bandwidth.
_MEDIAN_ROWS = 1000


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
