"""Which rows are held out from which, and the parts of held-out rows that scores are known for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skout.dev import check_rng, is_gap, named

from .means import is_one_row

__all__ = ["Folds", "make_folds"]

# Rows below which folds are dealt more than once, and from which one split does.
_FEW, _SOME, _MANY = 150, 400, 6000
_FOLDS = 5
# Numbers in all output coordinates from which on one split does, and those that are scored.
_HEAVY, _SCORED = 2e6, 3e6
_HELD = 1000, 4000  # rows that one split holds out
_LEAST_PARTS = 5


@dataclass(frozen=True)
class Folds:
    """Splits into rows to train on and rows to predict, all numbered as in X."""

    splits: list[tuple[np.ndarray, np.ndarray]]  # (train, held) each
    # consecutive held-out rows, as they follow each other in `held`, and the split they are of
    parts: list[tuple[slice, int]]
    # (n_parts,): parts of one number have rows that parts of other numbers have not, also where
    # rows are held out more than once
    blocks: np.ndarray
    # (n,): what each row of X counts; None where all count the same
    row_weights: np.ndarray | None = None

    @property
    def n_first(self) -> int:
        """Splits of which the held-out rows are all rows that any split holds out."""
        last = np.unique(self.held, return_index=True)[1].max()  # where the last new row is
        return next(k for k, rows in enumerate(self.spans, start=1) if last < rows.stop)

    def first_round(self) -> Folds:
        """Return the first splits alone, see `n_first`."""
        n = sum(split < self.n_first for _, split in self.parts)
        splits = self.splits[: self.n_first]
        return replace(self, splits=splits, parts=self.parts[:n], blocks=self.blocks[:n])

    def spread_out(self, F: np.ndarray) -> np.ndarray:
        """Return predictions of all held-out rows from those of the first splits.

        A row that is held out again has the prediction that it had when it was held out first.
        """
        _, first, inverse = np.unique(self.held, return_index=True, return_inverse=True)
        return F[first[inverse]]

    def renumbered(self, splits: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, Folds]:
        """Return the rows of splits with the same held-out rows, and folds of these rows alone."""
        used = np.unique(np.concatenate([rows for split in splits for rows in split]))
        new = [(np.searchsorted(used, a), np.searchsorted(used, b)) for a, b in splits]
        weights = None if self.row_weights is None else self.row_weights[used]
        return used, replace(self, splits=new, row_weights=weights)

    @property
    def held(self) -> np.ndarray:
        """All held-out rows, split after split; some more than once where folds are dealt twice."""
        return np.concatenate([held for _, held in self.splits])

    @property
    def spans(self) -> list[slice]:
        """Where the rows of each split are in `held`."""
        ends = np.cumsum([0, *(len(held) for _, held in self.splits)]).tolist()
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    @property
    def held_weights(self) -> np.ndarray | None:
        """What the held-out rows count; None where all count the same."""
        return None if self.row_weights is None else self.row_weights[self.held]

    @property
    def spread_weights(self) -> np.ndarray | None:
        """What the held-out rows count in variances that errors are measured by.

        One row that counts more than all others has next to no variance: then all count the same.
        """
        return None if is_one_row(self.row_weights) else self.held_weights

    def _part_sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, [rows.start for rows, _ in self.parts], axis=-1)

    def part_means(self, values: np.ndarray) -> np.ndarray:
        """Return the means over parts of values of the held-out rows, shape (k, n_held)."""
        weights = self.held_weights
        if weights is None:
            return self._part_sums(values) / self._part_sums(np.ones(self.n_held))
        return self._part_sums(values * weights) / self._part_sums(weights)

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    @property
    def weights(self) -> np.ndarray:
        """The share of each part in all held-out rows, by what they count."""
        weights = self.held_weights
        sizes = self._part_sums(np.ones(self.n_held) if weights is None else weights)
        return sizes / sizes.sum()

    def error(self, scores: np.ndarray) -> float:
        """Return the standard error over blocks of rows of the mean of scores of parts."""
        numbers = np.unique(self.blocks)
        if len(numbers) < 2:
            return float("nan")
        own = [self.blocks == number for number in numbers]
        weights = np.array([self.weights[some].sum() for some in own])
        means = np.array([scores[some] @ self.weights[some] for some in own]) / weights
        spread = weights @ (means - scores @ self.weights) ** 2
        return float(np.sqrt(spread / (len(numbers) - 1)))

    @property
    def n_train(self) -> int:
        return max(len(train) for train, _ in self.splits)

    @property
    def n_held(self) -> int:
        return sum(len(held) for _, held in self.splits)


def make_folds(
    n: int,
    seed: int,
    *,
    cv: Any = None,
    groups: Any = None,
    width: int = 1,
    y: Any = None,
    weights: np.ndarray | None = None,
    place: np.ndarray | None = None,
) -> Folds:
    """Deal n rows into folds, see `cv` of `Tuned`: repeated for few rows, one split for many.

    Where there are many output coordinates, their `width`, one split with fewer held-out rows does.
    Some splitters look at the outputs `y`. Splits that are given number the rows as the user does:
    `place` says where each is among the n, -1 where it was left out; None where all are there.
    """
    if cv is None and groups is not None:
        cv = _folds_of_groups(groups, n)
    if cv is not None:
        splits = _given(cv, n, groups, seed, y, place)
    elif n < _MANY and n * width < _HEAVY:
        splits = _dealt(n, seed)
    else:
        order = check_rng(seed).permutation(n)
        held = min(int(np.clip(_SCORED / width, *_HELD)), n // 4)
        splits = [(np.sort(order[held:]), order[:held])]
    return replace(_parted(splits, n), row_weights=weights)


def _dealt(n: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = check_rng(seed)
    repeats = 3 if n < _FEW else 2 if n < _SOME else 1
    splits = []
    for _ in range(repeats):
        fold = rng.permutation(n) % min(_FOLDS, n)
        splits += [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]
    return splits


def _folds_of_groups(groups: Any, n: int) -> int:
    """Return how many folds the groups can be dealt into."""
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups must have one label for each of the {n} rows of X.")
    if any(map(is_gap, groups.tolist())):
        raise ValueError("groups has rows without a label: give each one.")
    k = min(_FOLDS, len(np.unique(groups)))
    if k < 2:
        raise ValueError("groups must have at least two different labels. Got one.")
    return k


def _given(
    cv: Any, n: int, groups: Any, seed: int, y: Any, place: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import GroupKFold, KFold, check_cv  # slow to import

    with named("cv"):
        if isinstance(cv, int):
            kind = KFold if groups is None else GroupKFold
            cv = kind(cv, shuffle=True, random_state=seed)
        rows = np.arange(n) if place is None or hasattr(cv, "split") else place
        found = list(check_cv(cv).split(np.zeros((n, 1)), y, groups))
    try:
        splits = [(rows[train], rows[held]) for train, held in found]
    except IndexError as error:
        raise ValueError(f"cv must have numbers of the {len(rows)} rows of X: {error}.") from None
    splits = [(train[train >= 0], held[held >= 0]) for train, held in splits]
    if not splits or any(len(train) < 2 or len(held) == 0 for train, held in splits):
        raise ValueError(f"cv must give splits with rows on both sides. Got {cv!r} instead.")
    return splits


def _parted(splits: list[tuple[np.ndarray, np.ndarray]], n: int) -> Folds:
    """Return folds whose held-out rows are in order of their block, a number that each row has."""
    chunks = max(1, -(-_LEAST_PARTS // len(splits)))
    block = np.full(n, -1)
    for k, (_, held) in enumerate(splits):
        new = held[block[held] < 0]
        block[new] = k * chunks + np.arange(len(new)) * chunks // max(len(new), 1)
    parts, blocks, ordered, start = [], [], [], 0
    for k, (train, held) in enumerate(splits):
        held = held[np.argsort(block[held], kind="stable")]
        numbers, first = np.unique(block[held], return_index=True)
        ends = [*first[1:], len(held)]
        parts += [
            (slice(start + int(a), start + int(b)), k) for a, b in zip(first, ends, strict=True)
        ]
        blocks += numbers.tolist()
        ordered.append((train, held))
        start += len(held)
    return Folds(ordered, parts, np.array(blocks))
