"""Nonconformity scores of candidates, by which conformal sets are cut; some are learned.

Each score takes lists of candidates, best first, and returns one number per candidate: the smaller,
the better. Scores are learned from rows that do not set the threshold, so that the coverage holds
whatever was learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numerics.typing import Candidates, Floats, Ints, Rng
from ..kernels import Gaussian
from ..regressors import JointQuantileRegressor
from ..sketches import SubSample
from . import listwise
from .lists import Lists, plain_pool
from .thresholds import cut, masses

#: Names of the scores; those after "rank" are learned.
SCORES = ("gap", "rank", "softmax", "cumulative", "quantile_gap", "quantile_rank")
# Levels of the quantiles that are learned together: those of usual coverages, and the median.
_LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
# Penalty on coefficients of standardized features: it only keeps separable data from diverging.
_ALPHA = 1e-3
# Landmarks of the quantile regression, of four features.
_LANDMARKS = 200
# From fewer queries no quantiles are learned.
_LEAST = 20
_TINY = 1e-12
# Candidates of all queries that scores are learned from, at most: 128 MB for each feature.
_ENTRIES = 2**24
# Coverage at which scores are compared, the default of `ConformalSets.predict`.
_COMPARED = 0.9
# Relative difference of scores that rounding may make: the truth must not drop out of its set.
_ROUNDING = 1e-10


# Probabilities ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Softmax:
    """P(c) = exp(g(c)) / sum of all, g linear in features of a candidate."""

    coef: Floats  # (d,) of the score, log(1 + position) and, where it is known, the log prior

    def log_probabilities(self, lists: Lists) -> np.ndarray:
        """Return log P of each candidate among those of its query."""
        return listwise.log_softmax(_features(lists) @ self.coef, lists.indptr)


def _features(lists: Lists) -> np.ndarray:
    columns = [lists.score, np.log1p(lists.position)]
    return np.column_stack(columns if lists.prior is None else [*columns, lists.prior])


def fit_softmax(lists: Lists, weights: np.ndarray) -> Softmax:
    """Learn the probabilities from queries with their true entries."""
    listed = np.flatnonzero(lists.truth >= 0)
    if len(listed) == 0:
        return Softmax(np.eye(_features(lists).shape[1])[0])  # the order of the predictor
    lists = lists.of(listed)
    return Softmax(_most_likely(_features(lists), lists.indptr, lists.truth, weights[listed]))


def _most_likely(
    features: np.ndarray, indptr: np.ndarray, truth: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the coefficients that make the true entry of each query most likely."""
    fold = np.zeros(len(truth), dtype=np.intp)
    return listwise.most_likely(
        listwise.FeatureLists(features, indptr, truth, weights, fold), _ALPHA
    )


def logistic(features: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the coefficients of a logistic regression, as a softmax over a row and zeros."""
    pairs = np.zeros((2 * len(features), features.shape[1]))
    pairs[::2] = features
    starts = 2 * np.arange(len(features) + 1)
    return _most_likely(pairs, starts, starts[:-1] + np.where(right, 0, 1), weights)


def query_features(lists: Lists, log_p: np.ndarray) -> np.ndarray:
    """Return features that distinguish easy from hard queries, shape (n, 4).

    log P of the best candidate, its distance to the second, the entropy, and log of the size.
    """
    first, sizes = lists.indptr[:-1], lists.sizes
    second = log_p[np.minimum(first + 1, lists.indptr[1:] - 1)]
    margin = np.where(sizes > 1, log_p[first] - second, -log_p[first])
    entropy = -np.add.reduceat(np.exp(log_p) * log_p, first)
    return np.column_stack([log_p[first], np.minimum(margin, 30.0), entropy, np.log(sizes)])


# Scores -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedScore:
    """A nonconformity score with its learned parts."""

    name: str
    softmax: Softmax | None = None
    quantiles: Any = None  # of gaps, or of log(1 + position), given features of the query
    centre: np.ndarray | None = None  # (4,) of these features, as their spread
    spread: np.ndarray | None = None
    unit: float = 1.0  # what gaps are divided by

    def __call__(self, lists: Lists) -> np.ndarray:
        """Return the score of each candidate, shape (m,)."""
        if self.name == "gap":
            return gaps(lists)
        if self.name == "rank":
            return lists.position.astype(np.float64)
        log_p = self.softmax.log_probabilities(lists)  # type: ignore[union-attr]
        if self.name == "softmax":
            return -log_p
        if self.name == "cumulative":
            return cumulated(log_p, lists.indptr)
        features = (query_features(lists, log_p) - self.centre) / self.spread
        levels = np.maximum(self.quantiles.predict(features), 0.0)
        return levels_of(_along(self.name, lists) / self.unit, levels[lists.query_of])


def gaps(lists: Lists) -> Floats:
    """Return by how much the best of its query outscores each candidate."""
    return np.repeat(lists.score[lists.indptr[:-1]], lists.sizes) - lists.score


def cumulated(log_p: Floats, indptr: Ints) -> Floats:
    """Return the probability of all candidates of a query that are more likely than each."""
    sizes = np.diff(indptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-log_p, query))
    p = np.exp(log_p[order])
    before = np.cumsum(p) - p
    out = np.empty(len(p))
    out[order] = before - np.repeat(before[indptr[:-1]], sizes)
    return out


def _along(name: str, lists: Lists) -> np.ndarray:
    """Return what quantiles are of: gaps, or the logarithm of ranks."""
    return gaps(lists) if name == "quantile_gap" else np.log1p(lists.position)


def levels_of(values: Floats, quantiles: Floats) -> Floats:
    """Return the level of the quantile of the query that equals each value, shape (m,).

    Linear between the known quantiles, from level 0 at 0; beyond the last one it grows by the
    distance in units of that quantile. The larger the value of a query, the higher its level.
    """
    levels = np.array([0.0, *_LEVELS])
    knots = np.column_stack([np.zeros(len(values)), np.sort(quantiles, axis=1)])
    knots = np.maximum.accumulate(knots + _TINY * np.arange(knots.shape[1]), axis=1)
    j = np.clip((values[:, None] > knots).sum(axis=1), 1, len(_LEVELS))
    row = np.arange(len(values))
    low, high = knots[row, j - 1], knots[row, j]
    inside = levels[j - 1] + (levels[j] - levels[j - 1]) * (values - low) / (high - low)
    beyond = levels[-1] + (values - knots[:, -1]) / (knots[:, -1] + 1e-3)
    level: Floats = np.where(values > knots[:, -1], beyond, inside)
    return level


def is_learned(names: list[str]) -> bool:
    """Whether a score is learned, or chosen among several."""
    return len(names) > 1 or names[0] not in ("gap", "rank")


def learn(name: str, lists: Lists, weights: np.ndarray, rng: Rng) -> LearnedScore:
    """Learn a score from queries with their true entries, which count by their weights."""
    if not is_learned([name]):
        return LearnedScore(name)
    softmax = fit_softmax(lists, weights)
    if name in ("softmax", "cumulative"):
        return LearnedScore(name, softmax)
    features = query_features(lists, softmax.log_probabilities(lists))
    centre, spread = features.mean(axis=0), np.maximum(features.std(axis=0), _TINY)
    is_listed = lists.truth >= 0
    if np.count_nonzero(is_listed) < _LEAST:
        return LearnedScore(name.removeprefix("quantile_"))
    target = _along(name, lists)[lists.truth[is_listed]]
    unit = max(float(target.std()), _TINY)
    regressor = JointQuantileRegressor(
        _LEVELS,
        Gaussian("median"),
        SubSample(min(_LANDMARKS, len(target))),
        alpha=1e-2,
        random_state=int(rng.integers(2**31)),
    )
    rows = (features[is_listed] - centre) / spread
    regressor.fit(rows, target / unit, sample_weight=weights[is_listed])
    return LearnedScore(name, softmax, regressor, centre, spread, unit)


# Choosing ----------------------------------------------------------------------------------------


def drawn(
    unit: np.ndarray, share: float, pool: Candidates, rng: Rng
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to learn from, drawn by whole groups, and the place of each group.

    At least two units are on either side; the larger the pool, the fewer rows are taken.
    """
    number = np.unique(unit, return_inverse=True)[1]
    n_units = int(number.max()) + 1
    place = rng.permutation(n_units)[number]
    rows = np.flatnonzero(place < np.clip(round(share * n_units), 2, n_units - 2))
    rows = rows[np.argsort(place[rows], kind="stable")]
    rows = rows[: entry_limit(pool)]
    return rows, place[rows]


def entry_limit(pool: Candidates, parts: int = 1) -> int:
    """Return the most rows of a part that scores are learned from."""
    return max(2, _ENTRIES // (parts * max(1, plain_pool(pool).largest)))


def truth_scores(score: LearnedScore, blocks: Iterable[Lists]) -> np.ndarray:
    """Return the score of the true candidate of each query, infinite where it is not listed."""
    return np.concatenate(
        [np.where(lists.truth >= 0, score(lists)[lists.truth], np.inf) for lists in blocks]
    )


def inside(values: np.ndarray, lists: Lists, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of sets and where their candidates are in the pool, best first."""
    query = lists.query_of
    order = np.lexsort((values, query))
    floor = gap + _ROUNDING * np.maximum(1.0, np.abs(gap))
    kept = values[order] <= floor[query]
    kept[lists.indptr[:-1]] = True  # no set is empty
    return np.bincount(query[kept], minlength=len(lists)), lists.place[order[kept]]


def chosen(
    names: list[str], lists: Lists, unit: np.ndarray, place: np.ndarray, rng: Rng
) -> tuple[str, dict[str, float]]:
    """Return the score of the smallest sets, and the mean sizes by all if there is a choice.

    Scores are learned on one half of the units, by their `place`, and compared on the other.
    """
    if len(names) == 1:
        return names[0], {}
    first = place < np.median(place)
    if not first.any() or first.all():
        return names[0], {names[0]: 0.0}
    halves = [
        (lists.of(half), masses(unit[half]))
        for half in (np.flatnonzero(first), np.flatnonzero(~first))
    ]
    sizes = {
        name: float(np.mean([_mean_size(name, halves[i], halves[1 - i], rng) for i in (0, 1)]))
        for name in names
    }
    return min(sizes, key=lambda name: sizes[name]), sizes


def _mean_size(
    name: str, train: tuple[Lists, np.ndarray], test: tuple[Lists, np.ndarray], rng: Rng
) -> float:
    """Return the mean size of the sets of test queries by a score learned from others."""
    lists, mass = test
    values = learn(name, *train, rng)(lists)
    truth = np.where(lists.truth >= 0, values[lists.truth], np.inf)
    order = np.argsort(truth, kind="stable")
    q = cut(truth[order], _COMPARED, mass[order])
    sizes, _ = inside(values, lists, np.full(len(lists), q))
    return float(np.average(sizes, weights=mass))
