"""Cross-conformal sets: all rows calibrate, each by a model that has not seen it.

Row i has the score s_i of its true object by the model k(i) of the folds without it. A candidate c
of a new query x is compared with each row by the model of that row,

    p(x, c) = (w + sum_i m_i [s_i >= s_k(i)(x, c)]) / (w + sum_i m_i),

m_i and w the weights of the rows and the query, 1 by default, and is in the set if p > 1 - coverage
(Vovk, 2015; for sets Romano et al., 2020). With one model it is the rule of split conformal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._numerics.typing import Array, Candidates, Estimator, Objects, Rng
from ..decoding import CandidateSets
from .lists import Lists, Ranker, plain_pool
from .nonconformity import LearnedScore, choose_score, entry_limit, is_learned, learn_score
from .out_of_fold import OutOfFold, folds_of
from .thresholds import masses

# Relative differences that rounding may make: of scores, and of sums of weights.
_ROUNDING, _SUMS = 1e-10, 1e-12


@dataclass(frozen=True)
class Fold:
    """A model fitted without one fold, and the fold's rows by increasing score of the truth."""

    model: Estimator  # fitted on the other folds
    score: LearnedScore
    values: np.ndarray  # (n,)
    mass: np.ndarray  # (n,) the weight of each row
    codes: np.ndarray  # (n,) the stratum of each, -1 where there are none

    @classmethod
    def of(
        cls, model: Estimator, score: LearnedScore, values: Array, mass: Array, codes: np.ndarray
    ) -> Fold:
        """Return a fold from rows in any order."""
        order = np.argsort(values, kind="stable")
        return cls(model, score, values[order], mass[order], codes[order])

    def above(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return for each score the mass of rows of its stratum with at least this score."""
        out = np.zeros(len(values))
        floor = values - _ROUNDING * np.maximum(1.0, np.abs(values))
        for code in np.unique(codes):
            rows, queries = self.codes == code, codes == code
            rest = np.concatenate([np.cumsum(self.mass[rows][::-1])[::-1], [0.0]])
            out[queries] = rest[np.searchsorted(self.values[rows], floor[queries])]
        return out


class Held(NamedTuple):
    """A model fitted without one fold, and the fold's rows, candidates and true candidates."""

    model: Estimator
    ranker: Ranker
    rows: np.ndarray
    X: Objects
    pool: Candidates
    truth: np.ndarray


def held_out(data: OutOfFold, cv: int, rng: Rng, who: str) -> Iterator[Held]:
    """Yield for each fold the model fitted on the other folds; `who` is named in errors."""
    for train, test in folds_of(cv, data.n, data.groups, rng):
        model = data.fitted(train)
        ranker = Ranker(model, who)
        pool = ranker.last.embed(data.candidates_of(test))
        truth = ranker.matched(data.outputs.take(test), pool, len(test))
        yield Held(model, ranker, test, data.inputs.take(test), pool, truth)


def held_lists(
    folds: list[Held], unit: np.ndarray, prior: bool
) -> tuple[Lists, np.ndarray, np.ndarray]:
    """Return out-of-fold candidate lists, and the group number and the fold of each query."""
    parts: list[Lists] = []
    units, fold = [], []
    for k, held in enumerate(folds):
        rows = np.arange(len(held.rows))[: entry_limit(held.pool, len(folds))]
        parts += held.ranker.lists(held.X, held.pool, rows, prior=prior, truth=held.truth)
        units.append(unit[held.rows[rows]])
        fold.append(np.full(len(rows), k))
    return Lists.joined(parts), np.concatenate(units), np.concatenate(fold)


def learned_scores(
    names: list[str], folds: list[Held], unit: np.ndarray, prior: bool, rng: Rng
) -> tuple[list[LearnedScore], dict[str, float]]:
    """Return a score for each fold, learned from the other folds, and the mean set size by name.

    `unit` is the number of each row's group.
    """
    if not is_learned(names):
        return [LearnedScore(names[0])] * len(folds), {}
    lists, units, of = held_lists(folds, unit, prior)
    place = rng.permutation(int(unit.max()) + 1)[units] if len(names) > 1 else units
    name, sizes = choose_score(names, lists, units, place, rng)
    scores = []
    for k in range(len(folds)):
        rest = np.flatnonzero(of != k)
        scores.append(learn_score(name, lists.of(rest), masses(units[rest]), rng))
    return scores, sizes


def pools_of(models: list[Estimator], pool: Candidates, who: str) -> list[Any]:
    """Return the pool of the first model, and its candidates embedded by each of the others."""
    objects = plain_pool(pool).objects
    return [pool, *(Ranker(model, who).last.embed(objects) for model in models[1:])]


class Request(NamedTuple):
    """What sets are to be computed: the coverage, and the stratum and weight of each query."""

    coverage: float
    codes: np.ndarray
    weights: np.ndarray


def crossed_sets(
    folds: list[Fold], X: Objects, pools: list[Candidates], request: Request, prior: bool, who: str
) -> CandidateSets:
    """Return the prediction set of each query, the candidates with p > 1 - coverage, best first.

    There is one pool for the model of each fold; `who` is named in errors.
    """
    rankers = [Ranker(fold.model, who) for fold in folds]
    # the mass of all rows of the stratum of each query
    codes, code_of = np.unique(request.codes, return_inverse=True)
    each = [sum(fold.mass[fold.codes == code].sum() for fold in folds) for code in codes]
    total = np.array(each, dtype=np.float64)[code_of]
    blocks = [r.lists(X, pool, prior=prior) for r, pool in zip(rankers, pools, strict=True)]
    sizes, places, start = [np.zeros(1, np.intp)], [np.empty(0, np.intp)], 0
    for lists in zip(*blocks, strict=True):
        block = slice(start, start + len(lists[0]))
        start = block.stop
        above, score, place = _compared(folds, lists, request.codes[block])
        query, w = lists[0].query_of, request.weights[block]
        kept = w[query] + above > ((1 - request.coverage) * (w + total[block]) * (1 + _SUMS))[query]
        order = np.lexsort((score, -above, query))
        kept = kept[order]
        kept[lists[0].indptr[:-1]] = True  # no set is empty
        sizes.append(np.bincount(query[kept], minlength=len(lists[0])))
        places.append(place[order[kept]])
    indptr = np.cumsum(np.concatenate(sizes))
    return CandidateSets(plain_pool(pools[0]).pool, indptr, np.concatenate(places))


def _compared(
    folds: list[Fold], lists: tuple[Lists, ...], codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each candidate the mass of rows with at least its score, its mean score and place.

    The candidates of a query are in the order of their numbers: each model ranks them differently.
    """
    query = lists[0].query_of
    above, score = np.zeros(len(query)), np.zeros(len(query))
    orders = [np.lexsort((listed.number, listed.query_of)) for listed in lists]
    number = lists[0].number[orders[0]]
    for fold, listed, order in zip(folds, lists, orders, strict=True):
        if not np.array_equal(listed.number[order], number):
            raise ValueError(
                "The models of the folds found different candidates: search all, with index=None."
            )
        values = fold.score(listed)[order]
        above += fold.above(values, codes[query])
        score += values / len(folds)
    return above, score, lists[0].place[orders[0]]
