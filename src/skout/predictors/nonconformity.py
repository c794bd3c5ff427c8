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

from .._numerics.typing import Candidates, Floats, Ints, Objects, Rng
from ..kernels import Gaussian
from ..regressors import JointQuantileRegressor
from ..sketches import SubSample
from . import listwise
from .lists import Lists, Ranker, plain_pool
from .thresholds import conformal_quantile, masses

#: Names of the scores; those after "rank" are learned.
SCORES = ("gap", "rank", "softmax", "cumulative", "quantile_gap", "quantile_rank")
# Levels of the quantiles that are learned together: those of usual coverages, and the median.
_LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
# Penalty on coefficients of standardized features: it only keeps separable data from diverging.
_ALPHA = 1e-3
# Landmarks of the quantile regression: the kernel is of four features only.
_LANDMARKS = 200
# Queries that quantiles are learned from, at least; of fewer, "quantile_gap" is "gap".
_LEAST = 20
# Least difference of quantiles, and least spread: they are divided by.
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
    """Return score, log(1 + position) and, where it is known, log prior of each candidate."""
    columns = [lists.score, np.log1p(lists.position)]
    return np.column_stack(columns if lists.prior is None else [*columns, lists.prior])


def fit_softmax(lists: Lists, weights: np.ndarray) -> Softmax:
    """Return the softmax that makes the true candidates of queries most likely."""
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
    """Return the coefficients of a logistic regression: a softmax over a row and a row of zeros."""
    pairs = np.zeros((2 * len(features), features.shape[1]))
    pairs[::2] = features
    starts = 2 * np.arange(len(features) + 1)
    return _most_likely(pairs, starts, starts[:-1] + np.where(right, 0, 1), weights)


def query_features(lists: Lists, log_p: np.ndarray) -> np.ndarray:
    """Return features that distinguish easy from hard queries, shape (n, 4).

    They are log P of the best candidate, its distance to that of the second, the entropy, and the
    logarithm of the number of candidates.
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
    quantiles: Any = None  # regressor of quantiles of `_quantity`, given features of the query
    centre: np.ndarray | None = None  # (4,) means of these features; `spread` has the deviations
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
        return levels_of(_quantity(self.name, lists) / self.unit, levels[lists.query_of])


def gaps(lists: Lists) -> Floats:
    """Return how far each candidate scores below the best one of its query."""
    return np.repeat(lists.score[lists.indptr[:-1]], lists.sizes) - lists.score


def cumulated(log_p: Floats, indptr: Ints) -> Floats:
    """Return for each candidate the probability of all that are more likely, in its query."""
    sizes = np.diff(indptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-log_p, query))
    p = np.exp(log_p[order])
    before = np.cumsum(p) - p
    out = np.empty(len(p))
    out[order] = before - np.repeat(before[indptr[:-1]], sizes)
    return out


def _quantity(name: str, lists: Lists) -> np.ndarray:
    """Return for each candidate the quantity of the quantiles: its gap, or log(1 + position)."""
    return gaps(lists) if name == "quantile_gap" else np.log1p(lists.position)


def levels_of(values: Floats, quantiles: Floats) -> Floats:
    """Return the level at which each query's quantile function equals its value, shape (m,).

    It is linear between the known quantiles, from level 0 at 0; beyond the last one it grows by the
    distance in units of that quantile.
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
    """Whether some score of these names is learned, or one is to be chosen."""
    return len(names) > 1 or names[0] not in ("gap", "rank")


def learn_score(name: str, lists: Lists, weights: np.ndarray, rng: Rng) -> LearnedScore:
    """Return a score learned from queries with their true candidates, by their weights."""
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
    target = _quantity(name, lists)[lists.truth[is_listed]]
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


def lists_to_learn(
    ranker: Ranker,
    X: Objects,
    pool: Candidates,
    truth: np.ndarray,
    unit: np.ndarray,
    share: float,
    prior: bool,
    rng: Rng,
) -> tuple[Lists, np.ndarray, np.ndarray, np.ndarray]:
    """Return the lists of random groups to learn from, and the numbers of the rows of the others.

    Between these are the group of each query and the group's place in the random order. At least
    two groups are on either side; the larger the pool, the fewer rows are taken.
    """
    number = np.unique(unit, return_inverse=True)[1]
    n_units = int(number.max()) + 1
    place = rng.permutation(n_units)[number]
    rows = np.flatnonzero(place < np.clip(round(share * n_units), 2, n_units - 2))
    rows = rows[np.argsort(place[rows], kind="stable")][: entry_limit(pool)]
    lists = Lists.joined(list(ranker.lists(X, pool, rows, prior=prior, truth=truth)))
    return lists, unit[rows], place[rows], np.flatnonzero(~np.isin(unit, unit[rows]))


def entry_limit(pool: Candidates, parts: int = 1) -> int:
    """Return the maximum number of rows to learn from, of each of so many parts."""
    return max(2, _ENTRIES // (parts * max(1, plain_pool(pool).largest)))


def truth_scores(score: LearnedScore, blocks: Iterable[Lists]) -> np.ndarray:
    """Return the score of the true candidate of each query, infinite where it is not listed."""
    return np.concatenate(
        [np.where(lists.truth >= 0, score(lists)[lists.truth], np.inf) for lists in blocks]
    )


def sets_within(values: np.ndarray, lists: Lists, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of the sets of scores up to `gap`, and the places of their candidates."""
    query = lists.query_of
    order = np.lexsort((values, query))
    floor = gap + _ROUNDING * np.maximum(1.0, np.abs(gap))
    kept = values[order] <= floor[query]
    kept[lists.indptr[:-1]] = True  # no set is empty
    return np.bincount(query[kept], minlength=len(lists)), lists.place[order[kept]]


def choose_score(
    names: list[str], lists: Lists, unit: np.ndarray, place: np.ndarray, rng: Rng
) -> tuple[str, dict[str, float]]:
    """Return the name of the score with the smallest sets, and the mean size of sets by each name.

    Scores are learned on one half of the groups, by their `place`, and compared on the other. Of
    one name there are no sizes.
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
    """Return the mean size of the sets of test queries by a score learned on training queries."""
    lists, mass = test
    values = learn_score(name, *train, rng)(lists)
    truth = np.where(lists.truth >= 0, values[lists.truth], np.inf)
    order = np.argsort(truth, kind="stable")
    q = conformal_quantile(truth[order], _COMPARED, mass[order])
    sizes, _ = sets_within(values, lists, np.full(len(lists), q))
    return float(np.average(sizes, weights=mass))
