"""Cross-conformal sets: every row calibrates, by a model that has not seen it.

Row i has the score s_i of its truth by the model k(i) of the folds without it. A candidate c of a
new query x is compared with each row under that row's own model,

    p(x, c) = (w + sum_i m_i [s_i >= s_k(i)(x, c)]) / (w + sum_i m_i),

m_i and w what the rows and the query count, 1 by default, and is in the set if p > 1 - coverage
(Vovk, 2015; for sets Romano et al., 2020). With one model it is the rule of split conformal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._numerics.types import Array, Candidates, Estimator, Objects
from ..decoding import CandidateSets
from .lists import Lists, Ranker, plain_pool
from .nonconformity import LearnedScore, chosen, entry_limit, is_learnt, learn
from .out_of_fold import OutOfFold, folds_of
from .thresholds import masses

__all__ = [
    "Fold",
    "Request",
    "crossed_sets",
    "held_lists",
    "held_out",
    "learnt_scores",
    "pools_of",
]

# Rounding of values, and of sums of weights, relative to them.
_ROUNDING, _SUMS = 1e-10, 1e-12


@dataclass(frozen=True)
class Fold:
    """A model, and the rows that it has not seen, by increasing scores of their truths."""

    model: Any  # fitted on the other folds
    score: LearnedScore
    values: np.ndarray  # (n,)
    mass: np.ndarray  # (n,) how much each row counts
    codes: np.ndarray  # (n,) the stratum of each, -1 where there are none

    @classmethod
    def of(
        cls,
        model: Estimator,
        score: LearnedScore,
        values: Array,
        mass: Array,
        codes: np.ndarray | None,
    ) -> Fold:
        """Return a fold whose rows are in any order."""
        order = np.argsort(values, kind="stable")
        return cls(model, score, values[order], mass[order], codes[order])

    def above(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the mass of rows, of the same stratum, whose truth is at least as strange."""
        out = np.zeros(len(values))
        floor = values - _ROUNDING * np.maximum(1.0, np.abs(values))
        for code in np.unique(codes):
            own, some = self.codes == code, codes == code
            rest = np.concatenate([np.cumsum(self.mass[own][::-1])[::-1], [0.0]])
            out[some] = rest[np.searchsorted(self.values[own], floor[some])]
        return out


class Held(NamedTuple):
    """A model, and the rows of its fold: their numbers, inputs, candidates and true ones."""

    model: Any
    ranker: Ranker
    rows: np.ndarray
    X: Any
    pool: Any
    truth: np.ndarray


def held_out(rehearsal: OutOfFold, cv: int, rng: np.random.Generator, who: str) -> Iterator[Held]:
    """Yield the models of folds, each fitted on the others; `who` is in errors."""
    for train, test in folds_of(cv, rehearsal.n, rehearsal.groups, rng):
        model = rehearsal.fitted(train)
        ranker = Ranker(model, who)
        pool = ranker.last.embed(rehearsal.own(test))
        truth = ranker.matched(rehearsal.outputs.take(test), pool, len(test))
        yield Held(model, ranker, test, rehearsal.inputs.take(test), pool, truth)


def held_lists(
    folds: list[Held], unit: np.ndarray, prior: bool
) -> tuple[Lists, np.ndarray, np.ndarray]:
    """Return out-of-fold lists to learn from, and the unit and the fold of each of their rows."""
    parts: list[Lists] = []
    own, fold = [], []
    for k, held in enumerate(folds):
        some = np.arange(len(held.rows))[: entry_limit(held.pool, len(folds))]
        parts += held.ranker.lists(held.X, held.pool, some, prior=prior, truth=held.truth)
        own.append(unit[held.rows[some]])
        fold.append(np.full(len(some), k))
    return Lists.joined(parts), np.concatenate(own), np.concatenate(fold)


def learnt_scores(
    names: list[str], folds: list[Held], unit: np.ndarray, prior: bool, rng: np.random.Generator
) -> tuple[list[LearnedScore], dict[str, float]]:
    """Return a score for each fold, learnt from the rows of the others, and mean sizes by all.

    Rows of one number in `unit` belong together.
    """
    if not is_learnt(names):
        return [LearnedScore(names[0])] * len(folds), {}
    lists, units, of = held_lists(folds, unit, prior)
    place = rng.permutation(int(unit.max()) + 1)[units] if len(names) > 1 else None
    name, sizes = chosen(names, lists, units, place, rng)
    learnt = []
    for k in range(len(folds)):
        rest = np.flatnonzero(of != k)
        learnt.append(learn(name, lists.of(rest), masses(units[rest]), rng))
    return learnt, sizes


def pools_of(models: list[Estimator], pool: Candidates, who: str) -> list[Any]:
    """Return the candidates embedded by each model, given those of the first."""
    objects = plain_pool(pool).objects
    return [pool, *(Ranker(model, who).last.embed(objects) for model in models[1:])]


class Request(NamedTuple):
    """Queries: the coverage, and the stratum and weight of each."""

    coverage: float
    codes: np.ndarray
    weights: np.ndarray


def crossed_sets(
    folds: list[Fold], X: Objects, pools: list[Candidates], asked: Request, prior: bool, who: str
) -> CandidateSets:
    """Return the candidates of p > 1 - coverage of each query, best first.

    The pools are those of the models of the folds; `who` is in errors.
    """
    rankers = [Ranker(fold.model, who) for fold in folds]
    total = _totals(folds, asked.codes)
    blocks = [r.lists(X, pool, prior=prior) for r, pool in zip(rankers, pools, strict=True)]
    sizes, places, start = [np.zeros(1, np.intp)], [np.empty(0, np.intp)], 0
    for lists in zip(*blocks, strict=True):
        some = slice(start, start + len(lists[0]))
        start = some.stop
        above, strange, place = _compared(folds, lists, asked.codes[some])
        query, w = lists[0].query_of, asked.weights[some]
        kept = w[query] + above > ((1 - asked.coverage) * (w + total[some]) * (1 + _SUMS))[query]
        order = np.lexsort((strange, -above, query))
        kept = kept[order]
        kept[lists[0].indptr[:-1]] = True  # no set is empty
        sizes.append(np.bincount(query[kept], minlength=len(lists[0])))
        places.append(place[order[kept]])
    indptr = np.cumsum(np.concatenate(sizes))
    return CandidateSets(plain_pool(pools[0]).pool, indptr, np.concatenate(places))


def _totals(folds: list[Fold], codes: np.ndarray) -> np.ndarray:
    """Return the mass of all rows of the stratum of each query."""
    each = {code: sum(f.mass[f.codes == code].sum() for f in folds) for code in np.unique(codes)}
    return np.array([each[code] for code in codes], dtype=np.float64)


def _compared(
    folds: list[Fold], lists: tuple[Lists, ...], codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mass of rows at least as strange as each candidate, its mean score, and place.

    The candidates of a query are in the order of their numbers: each model ranks them differently.
    """
    query = lists[0].query_of
    above, strange = np.zeros(len(query)), np.zeros(len(query))
    orders = [np.lexsort((one.number, one.query_of)) for one in lists]
    number = lists[0].number[orders[0]]
    for fold, one, order in zip(folds, lists, orders, strict=True):
        if not np.array_equal(one.number[order], number):
            raise ValueError(
                "The models of the folds found different candidates: search all, with index=None."
            )
        values = fold.score(one)[order]
        above += fold.above(values, codes[query])
        strange += values / len(folds)
    return above, strange, lists[0].place[orders[0]]
