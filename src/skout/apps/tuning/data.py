"""The data of `fit`: rows of positive weight, and weighted means over them; NaN is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from skout.dev import in_memory, n_rows, take
from skout.typing import Labels

# Rows that have a value in each column, at least, where some rows are drawn and values are missing.
_LEAST_OBSERVED = 50


@dataclass(frozen=True)
class TuningData:
    """The rows of a fit with their outputs, groups and weights."""

    X: Any
    Y: Any
    groups: Any = None
    weights: np.ndarray | None = None  # of mean 1; None where all are equal
    #: the number among these of each row that the user passed, -1 if left out; None: none was
    place: np.ndarray | None = None

    def at(self, rows: np.ndarray) -> TuningData:
        """Return the data of some rows."""
        groups = None if self.groups is None else np.asarray(self.groups)[rows]
        weights = None if self.weights is None else _of_mean_one(self.weights[rows])
        place = np.arange(n_rows(self.Y)) if self.place is None else self.place
        number = np.full(n_rows(self.Y) + 1, -1)  # the last one is that of rows left out before
        number[rows] = np.arange(len(rows))
        return TuningData(take(self.X, rows), take(self.Y, rows), groups, weights, number[place])

    def with_outputs(self) -> TuningData:
        """Return the data of the rows that have an output, or a part of one."""
        rows = observed_rows(self.Y)
        return self if len(rows) == n_rows(self.Y) else self.at(rows)


def counted(X: Any, Y: Any, groups: Labels, sample_weight: Any) -> TuningData:
    """Return the data with weights of mean 1; rows of weight 0 are left out before any check."""
    X, Y, weights = in_memory(X, Y, sample_weight)
    if groups is not None and np.shape(groups) != (n_rows(Y),):
        raise ValueError(f"groups must have one label for each of the {n_rows(Y)} rows of X.")
    if weights is None:
        return TuningData(X, Y, groups)
    rows = np.flatnonzero(weights > 0.0)
    are_equal = np.ptp(weights[rows]) == 0.0
    data = TuningData(X, Y, groups, None if are_equal else _of_mean_one(weights))
    return data if len(rows) == len(weights) else data.at(rows)


def with_class_weight(
    data: TuningData, class_weight: Mapping[Any, float] | str, kind: str
) -> TuningData:
    """Return the data with weights multiplied by those of the classes."""
    if kind != "classes":
        raise ValueError(f"class_weight is for classes. Got {class_weight!r} for kind={kind!r}.")
    from sklearn.utils.class_weight import compute_sample_weight  # slow to import

    each = compute_sample_weight(class_weight, data.Y)
    if not np.all(np.isfinite(each)) or each.min() <= 0.0:
        raise ValueError(f"class_weight must be positive numbers. Got {class_weight!r} instead.")
    weights = each if data.weights is None else each * data.weights
    return replace(data, weights=None if np.ptp(weights) == 0.0 else _of_mean_one(weights))


def _of_mean_one(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their mean."""
    return np.asarray(weights / weights.mean())


def observed_rows(Y: Any) -> np.ndarray:
    """Return the numbers of the rows that have an output, or a part of one that is not NaN."""
    if getattr(Y, "dtype", np.dtype(object)).kind != "f" or sparse.issparse(Y):
        return np.arange(n_rows(Y))
    missing = np.isnan(Y if np.ndim(Y) > 1 else Y[:, None])
    return np.flatnonzero(~missing.all(axis=1) | ~missing.any(axis=1))  # also without columns


def column_means(T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the weighted mean of each column of T (n, p) over the rows that have it.

    m_j = sum_i w_i t_ij / sum_i w_i, over the rows i where t_ij is not NaN.
    """
    return np.ma.getdata(np.ma.average(np.ma.masked_invalid(T), axis=0, weights=weights))


def column_variances(T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean squared deviation of each column from its mean, see `column_means`."""
    return column_means((T - column_means(T, weights)) ** 2, weights)


def is_one_row(weights: np.ndarray | None) -> bool:
    """Whether one row has more weight than all others together."""
    return weights is not None and bool(2.0 * weights.max() > weights.sum())


def some_rows(T: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of at most `most` rows of T (n, p), drawn at random, in order.

    Where values are missing, some rows that have each column are added.
    """
    order = rng.permutation(len(T))
    missing = np.isnan(T)
    rare = [
        order[~missing[order, j]][:_LEAST_OBSERVED] for j in np.flatnonzero(missing.any(axis=0))
    ]
    return np.unique(np.concatenate([order[:most], *rare]))


def weighed(weights: np.ndarray | None) -> dict[str, Any]:
    """Return {"sample_weight": weights} for a fit or a metric, {} where there are none."""
    return {} if weights is None else {"sample_weight": weights}
