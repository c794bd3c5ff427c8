"""Cross-validation by moments: rows that play the same part in every split make one group."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from .._arrays import row_slices
from .._inputs import named
from .._validation import check_size

__all__ = ["TEST", "TRAIN", "groups_of_splits", "splits_of"]

#: The parts that a row may play; their sum where it plays both.
TRAIN, TEST = 1, 2
# A cross-validation whose rows play more different parts than this is refused.
_MAX_GROUPS = 64


def splits_of(
    cv: Any, n: int, y: Any, *, stratified: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training and test rows of each split of n rows."""
    if isinstance(cv, Integral) and not stratified and n > 1:
        cv = check_size(cv, n, "cv")  # no more folds than rows
    with named("cv"):
        folds = check_cv(cv, y if stratified else None, classifier=stratified)
        splits = list(folds.split(np.zeros((n, 1)), y))
    if not splits:
        raise ValueError(f"cv must have at least one split. Got {cv!r} instead.")
    for part in (np.asarray(part) for split in splits for part in split):
        if part.size == 0 or part.dtype.kind not in "biu":
            raise ValueError("cv must give row numbers for training and for testing. Got none.")
        if part.dtype.kind != "b" and (part.max() >= n or part.min() < -n):
            raise ValueError(f"cv must give rows of X, 0 to {n - 1}. Got row {part.max()} instead.")
    return splits


def groups_of_splits(
    splits: list[tuple[np.ndarray, np.ndarray]], n: int
) -> tuple[np.ndarray | None, list[np.ndarray]]:
    """Group the rows that play the same part in every split.

    Returns
    -------
    groups : ndarray of int, shape (n,), or None
    parts : list of ndarrays of shape (n_splits,)
        The parts each group plays: 1 in training, 2 in testing, 3 in both, 0 in neither.
    """
    if not splits:
        return None, []
    roles = np.zeros((n, len(splits)), dtype=np.int8)
    for j, (train, test) in enumerate(splits):
        roles[train, j] |= TRAIN
        roles[test, j] |= TEST
    _, first, groups = np.unique(_row_numbers(roles), return_index=True, return_inverse=True)
    parts = roles[first]
    if len(parts) > _MAX_GROUPS:
        raise ValueError(
            f"The splits of cv divide the rows into {len(parts)} parts, more than {_MAX_GROUPS}; "
            "their moments would not fit. Use k-fold splits, or GridSearchCV over alpha."
        )
    return groups, list(parts)


def _row_numbers(roles: np.ndarray) -> np.ndarray:
    """Return a number for each row of roles, the same for equal rows: base 4, then renumbered."""
    numbers = np.zeros(len(roles), dtype=np.int64)
    for some in row_slices(roles.shape[1], 16):
        for column in roles[:, some].T:
            numbers = 4 * numbers + column
        numbers = np.unique(numbers, return_inverse=True)[1]
    return numbers
