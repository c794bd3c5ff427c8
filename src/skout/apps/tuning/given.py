"""What `fit` was given: rows that count, and what they weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skout.dev import in_memory, n_rows, take

__all__ = ["Given", "counted", "observed_rows"]


@dataclass(frozen=True)
class Given:
    """Rows, their outputs and what `fit` takes beside them."""

    X: Any
    Y: Any
    groups: Any = None
    weights: np.ndarray | None = None  # of mean 1; None where all rows count the same
    #: where each row that the user gave is among these, -1 where it was left out; None: all are
    place: np.ndarray | None = None

    def at(self, rows: np.ndarray) -> Given:
        """Return some of the rows."""
        groups = None if self.groups is None else np.asarray(self.groups)[rows]
        weights = None if self.weights is None else _of_mean_one(self.weights[rows])
        place = np.arange(n_rows(self.Y)) if self.place is None else self.place
        number = np.full(n_rows(self.Y) + 1, -1)  # the last one is that of rows left out before
        number[rows] = np.arange(len(rows))
        return Given(take(self.X, rows), take(self.Y, rows), groups, weights, number[place])

    def with_outputs(self) -> Given:
        """Return the rows that have an output, or a part of one."""
        rows = observed_rows(self.Y)
        return self if len(rows) == n_rows(self.Y) else self.at(rows)


def counted(X: Any, Y: Any, groups: Any, sample_weight: Any) -> Given:
    """Return the rows that count, with weights of mean 1; a row of weight 0 is left out, unread."""
    X, Y, weights = in_memory(X, Y, sample_weight)
    if groups is not None and np.shape(groups) != (n_rows(Y),):
        raise ValueError(f"groups must have one label for each of the {n_rows(Y)} rows of X.")
    if weights is None:
        return Given(X, Y, groups)
    rows = np.flatnonzero(weights > 0.0)
    are_equal = np.ptp(weights[rows]) == 0.0
    given = Given(X, Y, groups, None if are_equal else _of_mean_one(weights))
    return given if len(rows) == len(weights) else given.at(rows)


def _of_mean_one(weights: np.ndarray) -> np.ndarray:
    return weights / weights.mean()


def observed_rows(Y: Any) -> np.ndarray:
    """Return the numbers of the rows that have an output, or a part of one that is not NaN."""
    if getattr(Y, "dtype", np.dtype(object)).kind != "f" or sparse.issparse(Y):
        return np.arange(n_rows(Y))
    missing = np.isnan(Y if np.ndim(Y) > 1 else Y[:, None])
    return np.flatnonzero(~missing.all(axis=1) | ~missing.any(axis=1))  # also without columns
