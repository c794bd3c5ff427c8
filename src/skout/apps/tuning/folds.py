"""`Folds`: splits into training and held-out rows, and the parts of these that have a score."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral

import numpy as np

from skout.dev import deal, is_gap
from skout.typing import CV, Labels, Targets

from .data import is_one_row

# Chosen on training parts of the sets of experiments/ours/tuned.py (`--inside`): numbers of rows
# below which folds are repeated three times and twice, and from which on there is one split.
_FEW, _SOME, _MANY = 150, 400, 6000
_FOLDS = 5
# Entries of all output coordinates from which on there is one split, and entries of held-out
# coordinates: with more, decoding takes longer than fitting.
_HEAVY, _SCORED = 2e6, 3e6
_HELD = 1000, 4000  # rows that one split holds out: fewer are noise, more cost time
_LEAST_PARTS = 5  # that errors of scores are estimated from


@dataclass(frozen=True)
class Folds:
    """Splits into training rows and held-out rows, numbered as in X, with the parts to score."""

    splits: list[tuple[np.ndarray, np.ndarray]]  # (train, held) each
    # slices of `held`, each scored by itself, and the number of the split of each
    parts: list[tuple[slice, int]]
    # (n_parts,): parts of different blocks have no row in common, also where folds are repeated
    blocks: np.ndarray
    # (n,): the weight of each row of X; None where all are equal
    row_weights: np.ndarray | None = None

    @cached_property
    def held(self) -> np.ndarray:
        """The held-out rows of all splits; a row occurs several times where folds are repeated."""
        return np.concatenate([held for _, held in self.splits])

    @cached_property
    def spans(self) -> list[slice]:
        """The slice of `held` that has the rows of each split."""
        ends = np.cumsum([0, *(len(held) for _, held in self.splits)]).tolist()
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    @cached_property
    def held_weights(self) -> np.ndarray | None:
        """The weights of the held-out rows; None where all are equal."""
        return None if self.row_weights is None else self.row_weights[self.held]

    @property
    def spread_weights(self) -> np.ndarray | None:
        """The weights of the held-out rows in the variances that R2 is relative to.

        None, equal weights, where one row has more weight than all others: it has no variance.
        """
        return None if is_one_row(self.row_weights) else self.held_weights

    @cached_property
    def weights(self) -> np.ndarray:
        """The share of each part in the weight of all held-out rows, (n_parts,)."""
        weights = np.ones(self.n_held) if self.held_weights is None else self.held_weights
        sizes = self._part_sums(weights)
        return np.asarray(sizes / sizes.sum())

    @property
    def n_parts(self) -> int:
        """The number of parts."""
        return len(self.parts)

    @property
    def n_train(self) -> int:
        """The largest number of training rows of a split."""
        return max(len(train) for train, _ in self.splits)

    @property
    def n_held(self) -> int:
        """The number of held-out rows of all splits."""
        return len(self.held)

    @cached_property
    def n_first(self) -> int:
        """The number of splits of the first round, which hold out all rows that any split does."""
        last = np.unique(self.held, return_index=True)[1].max()  # where the last new row is
        return next(k for k, rows in enumerate(self.spans, start=1) if last < rows.stop)

    def first_round(self) -> Folds:
        """Return the folds of the first round alone, see `n_first`."""
        n = sum(split < self.n_first for _, split in self.parts)
        splits = self.splits[: self.n_first]
        return replace(self, splits=splits, parts=self.parts[:n], blocks=self.blocks[:n])

    def spread_out(self, F: np.ndarray) -> np.ndarray:
        """Return predictions for all held-out rows from those of the first round.

        A row that is held out again gets its prediction of the first round.
        """
        _, first, inverse = np.unique(self.held, return_index=True, return_inverse=True)
        return F[first[inverse]]

    def renumbered(self, splits: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, Folds]:
        """Return the rows that new splits use, and the folds with splits numbered in these rows.

        The splits have the held-out rows of these folds, and other training rows.
        """
        used = np.unique(np.concatenate([rows for split in splits for rows in split]))
        new = [(np.searchsorted(used, a), np.searchsorted(used, b)) for a, b in splits]
        weights = None if self.row_weights is None else self.row_weights[used]
        return used, replace(self, splits=new, row_weights=weights)

    def _part_sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over parts of values of the held-out rows."""
        return np.add.reduceat(values, [rows.start for rows, _ in self.parts], axis=-1)

    def part_means(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted mean over each part of values (k, n_held), shape (k, n_parts)."""
        weights = np.ones(self.n_held) if self.held_weights is None else self.held_weights
        return np.asarray(self._part_sums(values * weights) / self._part_sums(weights))

    def error(self, scores: np.ndarray) -> float:
        """Return the standard error of the mean of the scores of parts, over blocks of rows."""
        member = self.blocks == np.unique(self.blocks)[:, None]  # (n_blocks, n_parts)
        if len(member) < 2:
            return float("nan")
        weights = member @ self.weights
        means = member @ (scores * self.weights) / weights
        spread = weights @ (means - scores @ self.weights) ** 2
        return float(np.sqrt(spread / (len(member) - 1)))


def make_folds(
    n: int,
    seed: int,
    *,
    cv: CV = None,
    groups: Labels = None,
    width: int = 1,
    y: Targets | None = None,
    weights: np.ndarray | None = None,
    place: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    n_folds: int = _FOLDS,
) -> Folds:
    """Return folds of n rows, see `cv` of `Tuned`: repeated for few rows, one split for many.

    They are not repeated where `n_folds` is below five, since time is short then. With many output
    coordinates, `width`, there is one split with fewer held-out rows. Some splitters use the
    outputs `y`. Folds are stratified by `labels`, rows of 0 and 1 (n, L). Splits that the user
    passes number the rows as the user does: `place` has the number of each among the n, -1 where it
    was left out; None where none was.
    """
    if groups is not None and any(map(is_gap, np.asarray(groups).tolist())):
        raise ValueError("groups has rows without a label: give each one.")
    numbers, by_label = np.arange(n), labels is not None
    if cv is not None or groups is not None:
        cv, is_dealt = (_FOLDS, True) if cv is None else (cv, isinstance(cv, Integral))
        if place is not None and not (is_dealt or hasattr(cv, "split")):
            numbers, groups = place, None  # splits that are passed number all rows of the user
        of_labels = by_label and groups is None and isinstance(cv, Integral)
        y = labels if of_labels else y
        dealt = deal(cv, len(numbers), y, random_state=seed, groups=groups, stratified=of_labels)
    elif n < _MANY and n * width < _HEAVY:
        repeats = 1 if n >= _SOME or n_folds < _FOLDS else 2 if n >= _FEW else 3
        dealt = [
            split
            for k in range(repeats)
            for split in deal(n_folds, n, labels, random_state=seed + k, stratified=by_label)
        ]
    else:  # one of many folds
        held = min(int(np.clip(_SCORED / width, *_HELD)), n // 4)
        dealt = deal(n // held, n, labels, random_state=seed, stratified=by_label, first=1)
    splits = [(np.sort(numbers[train]), numbers[held]) for train, held in dealt]
    splits = [(train[train >= 0], held[held >= 0]) for train, held in splits]
    if any(len(train) < 2 or len(held) == 0 for train, held in splits):
        raise ValueError(f"cv must give splits with rows on both sides. Got {cv!r} instead.")
    return replace(_parted(splits, n), row_weights=weights)


def _parted(splits: list[tuple[np.ndarray, np.ndarray]], n: int) -> Folds:
    """Return the folds of splits, with held-out rows sorted by block, and a part for each block."""
    chunks = max(1, -(-_LEAST_PARTS // len(splits)))
    block = np.full(n, -1)
    for k, (_, held) in enumerate(splits):
        new = held[block[held] < 0]
        block[new] = k * chunks + np.arange(len(new)) * chunks // max(len(new), 1)
    parts, blocks, ordered, start = [], [], [], 0
    for k, (train, held) in enumerate(splits):
        held = held[np.argsort(block[held], kind="stable")]
        numbers, first = np.unique(block[held], return_index=True)
        ends = itertools.pairwise([*(start + first).tolist(), start + len(held)])
        parts += [(slice(a, b), k) for a, b in ends]
        blocks += numbers.tolist()
        ordered.append((train, held))
        start += len(held)
    return Folds(ordered, parts, np.array(blocks))
