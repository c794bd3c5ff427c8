"""Averages of trials: members are added one at a time, each as often as it helps (Caruana, 2004).

Everything here is known part by part of the held-out rows, so that what is chosen on some parts can
be scored on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Choice", "Votes", "choose", "cross_fitted"]

# What an average must gain, relative to what is left to 1, to have one more member.
_GAIN = 1e-4


@dataclass(frozen=True)
class Choice:
    """A weighted mean of members, and the decoder of it.

    Attributes
    ----------
    counts : tuple of int
        How often each member counts.
    decoder : int
    """

    counts: tuple[int, ...]
    decoder: int

    @property
    def weights(self) -> np.ndarray:
        return np.array(self.counts, dtype=float) / sum(self.counts)


@dataclass
class Votes:
    """Members that can be averaged, and the scores of averages that were asked for so far.

    Attributes
    ----------
    F : list of ndarrays of shape (n_held, p)
        Predicted coordinates of each member.
    judge : callable
        From coordinates to scores of shape (n_decoders, n_parts).
    part_weights : ndarray of shape (n_parts,)
    blocks : ndarray of int, shape (n_parts,)
        Parts of one number may share rows.
    """

    F: Sequence[np.ndarray]
    judge: Callable[[np.ndarray], np.ndarray]
    part_weights: np.ndarray
    blocks: np.ndarray
    known: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def table(self, counts: tuple[int, ...]) -> np.ndarray:
        """Return the scores of an average, shape (n_decoders, n_parts)."""
        if counts not in self.known:
            total, mean = sum(counts), np.zeros_like(self.F[0])
            for count, F in zip(counts, self.F, strict=True):
                if count:
                    mean += np.float32(count / total) * F
            self.known[counts] = self.judge(mean)
        return self.known[counts]

    def error(self, scores: np.ndarray) -> float:
        """Return the standard error over blocks of rows of the mean of scores of parts."""
        numbers = np.unique(self.blocks)
        if len(numbers) < 2:
            return float("nan")
        own = [self.blocks == number for number in numbers]
        weights = np.array([self.part_weights[some].sum() for some in own])
        means = np.array([scores[some] @ self.part_weights[some] for some in own]) / weights
        spread = weights @ (means - scores @ self.part_weights) ** 2
        return float(np.sqrt(spread / (len(numbers) - 1)))

    def best(self, counts: tuple[int, ...], use: np.ndarray) -> tuple[float, int]:
        """Return the score of the best decoder of an average by some parts, and its number."""
        weights = self.part_weights[use]
        means = self.table(counts)[:, use] @ (weights / weights.sum())
        decoder = int(np.argmax(means))
        return float(means[decoder]), decoder


def choose(votes: Votes, use: np.ndarray, most: int) -> Choice:
    """Return the best average by some parts of the held-out rows; of one member if most is 1.

    Parameters
    ----------
    votes : Votes
    use : ndarray of int
        The parts.
    most : int
        Steps: weights are multiples of 1 / most or more.
    """
    n = len(votes.F)
    units = [tuple(int(i == j) for j in range(n)) for i in range(n)]
    alone = [votes.best(one, use) for one in units]
    at = int(np.argmax([score for score, _ in alone]))
    counts, (score, decoder) = units[at], alone[at]
    best = score, Choice(counts, decoder)
    for _ in range(most - 1):
        steps = [tuple(a + b for a, b in zip(counts, one, strict=True)) for one in units]
        tried = [votes.best(one, use) for one in steps]
        at = int(np.argmax([score for score, _ in tried]))
        counts, (score, decoder) = steps[at], tried[at]
        if score > best[0] + _GAIN * max(1.0 - best[0], 0.0):
            best = score, Choice(counts, decoder)
        elif sum(counts) > sum(best[1].counts) + 1:  # two steps without a gain
            break
    return best[1]


def cross_fitted(votes: Votes, most: int) -> np.ndarray:
    """Return the score of each part by what parts of other rows choose: no row chooses for itself.

    Parameters
    ----------
    votes : Votes
    most : int

    Returns
    -------
    scores : ndarray of shape (n_parts,)
    """
    parts = np.arange(len(votes.part_weights))
    scores = np.empty(len(parts))
    for block in np.unique(votes.blocks):
        own = votes.blocks == block
        choice = choose(votes, parts if own.all() else parts[~own], most)
        scores[own] = votes.table(choice.counts)[choice.decoder, own]
    return scores
