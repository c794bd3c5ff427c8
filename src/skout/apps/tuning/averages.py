"""Averages of trials: members are added one at a time, each as often as it helps (Caruana, 2004).

Everything here is known part by part of the held-out rows, so that what is chosen on some parts can
be scored on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from skout.dev import check_rng, take

from .folds import Folds
from .means import column_means, some_rows

__all__ = ["Averaged", "Choice", "Members", "Merit", "choose", "cross_fitted", "unit"]

# What the fit of coordinates counts beside the metric: this over the root of the number of rows,
# settled on training parts of the sets of experiments/ours/tuned.py (`--inside`).
_SMOOTH = 1.5


class Averaged(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """The weighted mean of regressors that predict the same coordinates.

    Weights of sum 1 are of shape (n_members,), or (n_members, p) where each output has its own;
    None is equal ones. `rows` says how many rows, drawn at random, each member is fitted on; None,
    for one of them or for all, is all rows.
    """

    # also where scikit-learn routes metadata: whoever gives weights wants them used
    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def __init__(
        self,
        members: Sequence[Any],
        weights: Any = None,
        rows: Sequence[int | None] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.members = members
        self.weights = weights
        self.rows = rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: np.ndarray | None = None) -> Averaged:
        """Fit each member, on the same rows or on as many of them as `rows` says."""
        targets = np.reshape(y, (len(y), -1))
        rows = [None] * len(self.members) if self.rows is None else self.rows
        self.members_ = []
        for member, most in zip(self.members, rows, strict=True):
            data: tuple[Any, ...] = X, targets, sample_weight
            if most is not None:
                chosen = some_rows(targets, most, check_rng(self.random_state))
                data = tuple(None if part is None else take(part, chosen) for part in data)
            self.members_.append(_fitted(member, *data))
        self.n_features_in_ = int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) > 1 else 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the weighted mean of the predictions, shape (n, p)."""
        n = len(self.members_)
        weights = np.full(n, 1.0 / n) if self.weights is None else np.asarray(self.weights)
        total: Any = 0.0
        for weight, member in zip(weights, self.members_, strict=True):
            F = np.asarray(member.predict(X), dtype=np.float64)
            total = total + weight * (F[:, None] if F.ndim == 1 else F)
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _fitted(member: Any, X: Any, y: np.ndarray, weights: np.ndarray | None) -> Any:
    """Return a member of an average, fitted; one that scales columns hands weights to its map."""
    name = "map__sample_weight" if isinstance(member, Pipeline) else "sample_weight"
    params = {} if weights is None else {name: weights}
    with config_context(enable_metadata_routing=False):  # of a pipeline of our own
        return clone(member).fit(X, y, **params)


@dataclass
class Merit:
    """What choices are made by.

    A metric of decoded objects is coarse where there are few rows, and many choices are level. How
    well coordinates are predicted then tells them apart: merit = metric + share * R2.
    """

    metric: Callable[[np.ndarray], np.ndarray]  # of coordinates: scores (n_decoders, n_parts)
    truth: np.ndarray  # (n_held, p) coordinates of the held-out rows, NaN where there is none
    folds: Folds

    def __post_init__(self) -> None:
        squares = (self.truth - column_means(self.truth, self.folds.held_weights)) ** 2
        total = np.nansum(squares, axis=1)
        self._spread = max(float(np.average(total, weights=self.folds.spread_weights)), 1e-300)
        self.share = min(0.3, _SMOOTH / np.sqrt(len(np.unique(self.folds.held))))

    def smooth(self, F: np.ndarray) -> np.ndarray:
        """Return what merit has beside the metric, shape (n_parts,)."""
        errors = F - self.truth
        errors[np.isnan(errors)] = 0.0  # of outputs that a row has not
        squares = np.einsum("ij,ij->i", errors, errors)
        return self.share * (1.0 - self.folds.part_means(squares[None])[0] / self._spread)


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
class Members:
    """Trials that can be averaged, and the scores of averages that were asked for so far."""

    F: Sequence[np.ndarray]  # (n_held, p) predicted coordinates of each member
    merit: Merit
    shares: np.ndarray  # (n,): what the last fit of each takes of the time for all of them
    scored: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def table(self, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and merits of an average, each of shape (n_decoders, n_parts)."""
        if counts not in self.scored:
            total, mean = sum(counts), np.zeros_like(self.F[0])
            for count, F in zip(counts, self.F, strict=True):
                if count:
                    mean += np.float32(count / total) * F
            scores = self.merit.metric(mean)
            self.scored[counts] = scores, scores + self.merit.smooth(mean)
        return self.scored[counts]

    def has_time(self, counts: tuple[int, ...]) -> bool:
        """Whether there is time for the last fits of an average, or of one member at least."""
        used = np.flatnonzero(counts)
        is_shortest = len(used) == 1 and self.shares[used[0]] == self.shares.min()
        return bool(is_shortest or self.shares[used].sum() <= 1.0)

    def best(self, counts: tuple[int, ...], parts: np.ndarray) -> tuple[float, int]:
        """Return the merit of the best decoder of an average by some parts, and its number."""
        weights = self.merit.folds.weights[parts]
        means = self.table(counts)[1][:, parts] @ (weights / weights.sum())
        decoder = int(np.argmax(means))
        return float(means[decoder]), decoder


def unit(i: int, n: int) -> tuple[int, ...]:
    """Return the counts of one of n members alone."""
    return tuple(int(i == j) for j in range(n))


def choose(members: Members, parts: np.ndarray, most: int) -> Choice:
    """Return the best average by some parts of the held-out rows; of one member if most is 1.

    A member is added in each of at most `most` steps, as long as there is time for all last fits.
    Of equally good averages the larger one is taken.
    """
    n = len(members.F)
    counts = (0,) * n
    best: tuple[float, Choice] | None = None
    for _ in range(most):
        steps = [tuple(a + b for a, b in zip(counts, unit(i, n), strict=True)) for i in range(n)]
        steps = [step for step in steps if members.has_time(step)]
        tried = [members.best(step, parts) for step in steps]
        at = int(np.argmax([merit for merit, _ in tried]))
        counts, (merit, decoder) = steps[at], tried[at]
        if best is None or merit >= best[0]:
            best = merit, Choice(counts, decoder)
        elif sum(counts) > sum(best[1].counts) + 2:  # several steps without a gain
            break
    assert best is not None
    return best[1]


def cross_fitted(members: Members, most: int) -> np.ndarray:
    """Return the score of each part by what others choose: no row chooses for itself."""
    blocks = members.merit.folds.blocks
    parts = np.arange(len(blocks))
    scores = np.empty(len(blocks))
    for block in np.unique(blocks):
        scored = blocks == block
        choice = choose(members, parts if scored.all() else parts[~scored], most)
        scores[scored] = members.table(choice.counts)[0][choice.decoder, scored]
    return scores
