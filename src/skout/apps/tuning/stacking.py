"""Averages of trials: members are added one at a time, each as often as it helps (Caruana, 2004).

Everything here is known part by part of the held-out rows, so that what is chosen on some parts can
be scored on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .folds import Folds
from .means import column_means

__all__ = ["Choice", "Judge", "Votes", "choose", "cross_fitted", "unit"]

# What the fit of coordinates counts beside the metric: this over the root of the number of rows.
_SMOOTH = 1.5


@dataclass
class Judge:
    """What choices are made by.

    A metric of decoded objects is coarse where there are few rows, and many choices are level. How
    well coordinates are predicted then tells them apart: merit = metric + share * R2.
    """

    metric: Callable[[np.ndarray], np.ndarray]  # of coordinates: scores (n_decoders, n_parts)
    truth: np.ndarray  # (n_held, p) coordinates of the held-out rows, NaN where there is none
    folds: Folds

    def __post_init__(self) -> None:
        weights = self.folds.held_weights
        squares = (self.truth - column_means(self.truth, weights)) ** 2
        total = np.where(np.isnan(squares), 0.0, squares).sum(axis=1)
        spread = float(np.average(total, weights=self.folds.spread_weights))
        self._spread = max(spread, 1e-300)
        self.share = min(0.3, _SMOOTH / np.sqrt(len(np.unique(self.folds.held))))

    def smooth(self, F: np.ndarray) -> np.ndarray:
        """Return what merit has beside the metric, shape (n_parts,)."""
        errors = F - self.truth
        errors[np.isnan(errors)] = 0.0  # of outputs that a row has not
        lost = np.einsum("ij,ij->i", errors, errors)
        return self.share * (1.0 - self.folds.part_means(lost[None])[0] / self._spread)


@dataclass(frozen=True)
class Choice:
    """A weighted mean of members, and the decoder of it."""

    counts: tuple[int, ...]  # how often each member counts
    decoder: int

    @property
    def weights(self) -> np.ndarray:
        """The weights of the members, of sum 1."""
        return np.array(self.counts, dtype=float) / sum(self.counts)


@dataclass
class Votes:
    """Members that can be averaged, and the scores of averages that were asked for so far."""

    F: Sequence[np.ndarray]  # (n_held, p) predicted coordinates of each member
    judge: Judge
    shares: np.ndarray  # (n,): what the last fit of each takes of the time for all of them
    known: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def table(self, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and merits of an average, each of shape (n_decoders, n_parts)."""
        if counts not in self.known:
            total, mean = sum(counts), np.zeros_like(self.F[0])
            for count, F in zip(counts, self.F, strict=True):
                if count:
                    mean += np.float32(count / total) * F
            scores = self.judge.metric(mean)
            self.known[counts] = scores, scores + self.judge.smooth(mean)
        return self.known[counts]

    def has_time(self, counts: tuple[int, ...]) -> bool:
        """Whether there is time for the last fits of an average, or of one member at least."""
        used = np.flatnonzero(counts)
        least = len(used) == 1 and self.shares[used[0]] == self.shares.min()
        return bool(least or self.shares[used].sum() <= 1.0)

    def best(self, counts: tuple[int, ...], use: np.ndarray) -> tuple[float, int]:
        """Return the merit of the best decoder of an average by some parts, and its number."""
        weights = self.judge.folds.weights[use]
        means = self.table(counts)[1][:, use] @ (weights / weights.sum())
        decoder = int(np.argmax(means))
        return float(means[decoder]), decoder


def unit(i: int, n: int) -> tuple[int, ...]:
    """Return the counts of one of n members alone."""
    return tuple(int(i == j) for j in range(n))


def choose(votes: Votes, use: np.ndarray, most: int) -> Choice:
    """Return the best average by some parts of the held-out rows; of one member if most is 1.

    A member is added in each of at most `most` steps, as long as there is time for all last fits.
    Of equally good averages the larger one is taken.
    """
    n = len(votes.F)
    units = [unit(i, n) for i in range(n)]
    counts = (0,) * n
    best: tuple[float, Choice] | None = None
    for _ in range(most):
        steps = [tuple(a + b for a, b in zip(counts, one, strict=True)) for one in units]
        steps = [one for one in steps if votes.has_time(one)]
        tried = [votes.best(one, use) for one in steps]
        at = int(np.argmax([merit for merit, _ in tried]))
        counts, (merit, decoder) = steps[at], tried[at]
        if best is None or merit >= best[0]:
            best = merit, Choice(counts, decoder)
        elif sum(counts) > sum(best[1].counts) + 2:  # some steps without a gain
            break
    assert best is not None
    return best[1]


def cross_fitted(votes: Votes, most: int) -> np.ndarray:
    """Return the score of each part by what others choose: no row chooses for itself."""
    blocks = votes.judge.folds.blocks
    parts = np.arange(len(blocks))
    scores = np.empty(len(blocks))
    for block in np.unique(blocks):
        own = blocks == block
        choice = choose(votes, parts if own.all() else parts[~own], most)
        scores[own] = votes.table(choice.counts)[0][choice.decoder, own]
    return scores
