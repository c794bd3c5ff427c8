"""Cross-validation by moments: rows that play the same part in every split make one group."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from .._numerics.arrays import row_slices
from .._numerics.validation import check_number, check_rng, check_size
from ..rows.encode import named

__all__ = [
    "TEST",
    "TRAIN",
    "Splits",
    "check_some",
    "groups_of_splits",
    "groups_or_splits",
    "interleaved_groups",
    "least_loss",
    "splits_of",
]

Splits = Sequence[tuple[np.ndarray, np.ndarray]]

#: The parts that a row may play; their sum where it plays both.
TRAIN, TEST = 1, 2
# A cross-validation whose rows play more different parts than this is refused.
_MAX_GROUPS = 64


def splits_of(
    cv: Any,
    n: int,
    y: Any,
    weights: Any,
    random_state: Any,
    *,
    stratified: bool = False,
    groups: Any = None,
) -> Splits:
    """Return the training and test rows of each split of n rows in which both have weight.

    A number of folds deals the rows at random, since files are often sorted; with groups, those of
    a group together. A splitter, which is given the groups, or splits, are taken as they are.
    Weights that are not here, or None, are not looked at.
    """
    from sklearn.model_selection import check_cv  # slow to import

    groups = None if groups is None else _check_groups(groups, n)
    if isinstance(cv, Integral) and not stratified and n > 1:
        cv = check_size(cv, n, "cv")  # no more folds than rows
    with named("cv"):
        folds = check_cv(cv, y if stratified else None, classifier=stratified)
        if cv is None or isinstance(cv, Integral):
            # the sketch uses the generator itself, and a sample of blocks its first child
            rng = check_rng(random_state).spawn(2)[1]
            folds, groups = _shuffled(folds, groups, rng)
            y = y if stratified else None
        splits = list(folds.split(np.zeros((n, 1)), y, groups))
    if not splits:
        raise ValueError(f"cv must have at least one split. Got {cv!r} instead.")
    for part in (np.asarray(part) for split in splits for part in split):
        if part.size == 0 or part.dtype.kind not in "biu":
            raise ValueError("cv must give row numbers for training and for testing. Got none.")
        if part.dtype.kind != "b" and (part.max() >= n or part.min() < -n):
            raise ValueError(f"cv must give rows of X, 0 to {n - 1}. Got row {part.max()} instead.")
    if not isinstance(weights, np.ndarray):
        return splits
    splits = [split for split in splits if all(weights[part].sum() > 0.0 for part in split)]
    check_some(splits, cv)
    return splits


def _check_groups(groups: Any, n: int) -> np.ndarray:
    """Return the number of the group of each row."""
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(
            f"groups must have one entry for each of the {n} rows. Got shape {groups.shape}."
        )
    return np.unique(groups, return_inverse=True)[1]


def _shuffled(
    folds: Any, groups: np.ndarray | None, rng: np.random.Generator
) -> tuple[Any, np.ndarray | None]:
    """Return folds that deal rows, or groups of about equal numbers of rows, at random."""
    if groups is None:
        seed = int(rng.integers(2**31))
        return type(folds)(folds.n_splits, shuffle=True, random_state=seed), None
    from sklearn.model_selection import GroupKFold  # slow to import

    numbers = rng.permutation(groups.max() + 1)  # which breaks the ties of equal groups
    if len(numbers) < 2:
        raise ValueError("groups must be at least 2 different ones. Got 1: leave groups out.")
    return GroupKFold(min(folds.n_splits, len(numbers))), numbers[groups]


def check_some(splits: list[Any], cv: Any) -> None:
    """Raise where no split is left to choose alpha by."""
    if not splits:
        raise ValueError(
            f"cv={cv!r} has no split whose training rows and test rows both have a positive "
            "sample_weight: give fewer folds or other splits, or one alpha."
        )


def groups_of_splits(splits: Splits, n: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Group the rows that play the same part in every split.

    Returns
    -------
    groups : ndarray of int, shape (n,)
    parts : list of ndarrays of shape (n_splits,)
        The parts each group plays: 1 in training, 2 in testing, 3 in both, 0 in neither.
    """
    groups, parts = _grouped(splits, n)
    if len(parts) > _MAX_GROUPS:
        raise ValueError(
            f"The splits of cv divide the rows into {len(parts)} parts, more than {_MAX_GROUPS}; "
            "their moments would not fit. Use k-fold splits, or GridSearchCV over alpha."
        )
    return groups, list(parts)


def groups_or_splits(splits: Splits, n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the rows of groups, and the parts these play, whatever the splits are.

    Where there would be many groups, the training and the test rows of each split are two.
    """
    groups, parts = _grouped(splits, n)
    if len(parts) <= max(_MAX_GROUPS, 2 * len(splits)):
        return [np.flatnonzero(groups == group) for group in range(len(parts))], list(parts)
    own = np.eye(len(splits), dtype=np.int8)
    rows = [np.arange(n)[part] for split in splits for part in split]
    return rows, [role * part for role in own for part in (TRAIN, TEST)]


def _grouped(splits: Splits, n: int) -> tuple[np.ndarray, np.ndarray]:
    roles = np.zeros((n, len(splits)), dtype=np.int8)
    for j, (train, test) in enumerate(splits):
        roles[train, j] |= TRAIN
        roles[test, j] |= TEST
    _, first, groups = np.unique(_row_numbers(roles), return_index=True, return_inverse=True)
    return groups, roles[first]


def interleaved_groups(
    cv: Any, n_alphas: int, start: int, n: int
) -> tuple[np.ndarray | None, list[np.ndarray]]:
    """Deal n rows, the first of which is number `start`, into folds in turn.

    Folds then do not depend on how the rows come in blocks. Returns what `groups_of_splits` does;
    None and no parts where there is a single alpha.
    """
    if n_alphas == 1:
        return None, []
    k = check_number(cv, "cv, in partial_fit,", low=2, integer=True)
    return (start + np.arange(n)) % k, list(np.eye(k, dtype=np.int8) + 1)


def _row_numbers(roles: np.ndarray) -> np.ndarray:
    """Return a number for each row of roles, the same for equal rows: base 4, then renumbered."""
    numbers = np.zeros(len(roles), dtype=np.int64)
    for some in row_slices(roles.shape[1], 16):
        for column in roles[:, some].T:
            numbers = 4 * numbers + column
        numbers = np.unique(numbers, return_inverse=True)[1]
    return numbers


def least_loss(alphas: list[float], table: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    """Return the alpha of least mean loss in a table of shape (n_splits, n_alphas), and the table.

    The table is a dict with "alpha", "mean_loss", "std_loss" and "fold_loss".
    """
    mean = table.mean(axis=0)
    results = {
        "alpha": np.array(alphas),
        "mean_loss": mean,
        "std_loss": table.std(axis=0),
        "fold_loss": table,
    }
    return alphas[int(np.argmin(mean))], results
