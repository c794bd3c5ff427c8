"""Means over the rows that count: weights say how much, and NaN is what a row does not have."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "column_means",
    "column_variances",
    "is_one_row",
    "some_rows",
    "weighed",
]

# Rows that have a column, at least, where some rows are drawn and values are missing.
_LEAST_KNOWN = 50


def column_means(T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean of each column of T (n, p) over the rows that have it, by their weights.

    m_j = sum_i w_i t_ij / sum_i w_i, over the rows i where t_ij is not NaN.
    """
    return np.ma.getdata(np.ma.average(np.ma.masked_invalid(T), axis=0, weights=weights))


def column_variances(T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean squared deviation of each column from its mean, see `column_means`."""
    return column_means((T - column_means(T, weights)) ** 2, weights)


def is_one_row(weights: np.ndarray | None) -> bool:
    """Whether one row counts more than all the others together."""
    return weights is not None and bool(2.0 * weights.max() > weights.sum())


def some_rows(T: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of at most so many rows of T (n, p), drawn at random, in order.

    Where values are missing, rows that have each column are added.
    """
    order = rng.permutation(len(T))
    missing = np.isnan(T)
    rare = [order[~missing[order, j]][:_LEAST_KNOWN] for j in np.flatnonzero(missing.any(axis=0))]
    return np.unique(np.concatenate([order[:most], *rare]))


def weighed(weights: np.ndarray | None) -> dict[str, Any]:
    """Return weights as a parameter of a fit or a metric, nothing where there are none."""
    return {} if weights is None else {"sample_weight": weights}
