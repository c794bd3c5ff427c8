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

from ..decoding import CandidateSets
from .choosing import compared, entry_limit, truth_scores
from .lists import Lists, Ranker, plain_pool
from .nonconformity import LearntScore, learn
from .thresholds import masses
from .weighing import folds_of

__all__ = ["Asked", "Fold", "crossed_sets", "held_out", "learnt_scores", "scores_of"]

# Rounding of values, and of sums of weights, relative to them.
_ROUNDING, _SUMS = 1e-10, 1e-12


@dataclass(frozen=True)
class Fold:
    """A model, and the rows that it has not seen.

    Attributes
    ----------
    model : predictor
        Fitted on the other folds.
    score : LearntScore
    values : ndarray of shape (n,)
        Scores of the truth of the fold's rows, increasing.
    mass : ndarray of shape (n,)
        How much each counts.
    codes : ndarray of int, shape (n,)
        The stratum of each, -1 where there are none.
    """

    model: Any
    score: LearntScore
    values: np.ndarray
    mass: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, model: Any, score: LearntScore, values: Any, mass: Any, codes: Any) -> Fold:
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


def held_out(rehearsal: Any, cv: int, rng: Any, who: str) -> Iterator[Held]:
    """Yield the models of folds, each fitted on the others.

    Parameters
    ----------
    rehearsal : Rehearsal
    cv : int
    rng : Generator
    who : str
        In whose name to raise.
    """
    for train, test in folds_of(cv, rehearsal.n, rehearsal.groups, rng):
        model = rehearsal.fitted(train)
        ranker = Ranker(model, who)
        pool = ranker.last.embed(rehearsal.own(test))
        truth = ranker.matched(rehearsal.outputs.take(test), pool, len(test))
        yield Held(model, ranker, test, rehearsal.inputs.take(test), pool, truth)


def learnt_scores(
    names: list[str], folds: list[Held], unit: np.ndarray, prior: bool, rng: Any
) -> tuple[list[LearntScore], dict[str, float]]:
    """Return a score for each fold, learnt from the rows of the others, and mean sizes by all.

    Parameters
    ----------
    names : list of str
        Scores to choose from.
    folds : list of Held
    unit : ndarray of int, shape (n,)
        Rows of one number belong together.
    prior : bool
    rng : Generator
    """
    if len(names) == 1 and names[0] in ("gap", "rank"):
        return [LearntScore(names[0])] * len(folds), {}
    parts: list[Lists] = []
    entries, own, fold = [], [], []
    for k, held in enumerate(folds):
        some = np.arange(len(held.rows))[: entry_limit(held.pool, len(folds))]
        lists = Lists.joined(list(held.ranker.lists(held.X, held.pool, some, prior=prior)))
        start = sum(len(part.number) for part in parts)
        found = lists.entries(held.truth[some])
        entries.append(np.where(found >= 0, found + start, -1))
        parts.append(lists)
        own.append(unit[held.rows[some]])
        fold.append(np.full(len(some), k))
    lists, truth, units, of = Lists.joined(parts), *map(np.concatenate, (entries, own, fold))
    sizes = {}
    if len(names) > 1:
        place = rng.permutation(int(unit.max()) + 1)[units]
        sizes = compared(names, lists, truth, units, place, rng)
        names = [min(sizes, key=lambda name: sizes[name])]
    out = []
    for k in range(len(folds)):
        rest = np.flatnonzero(of != k)
        part = lists.of(rest)
        there = np.where(truth[rest] >= 0, truth[rest] - lists.indptr[rest] + part.indptr[:-1], -1)
        mass: Any = masses(units[rest], None, len(rest))
        out.append(learn(names[0], part, there, mass, rng))
    return out, sizes


def scores_of(held: Held, score: LearntScore, prior: bool) -> np.ndarray:
    """Return the score of the truth of each row of a fold."""
    rows = np.arange(len(held.rows))
    return truth_scores(held.ranker, score, held.X, held.pool, held.truth, rows, prior)


class Asked(NamedTuple):
    """Queries: the coverage, and the stratum and weight of each."""

    coverage: float
    codes: np.ndarray
    weights: np.ndarray


def crossed_sets(
    folds: list[Fold], X: Any, pools: list[Any], asked: Asked, prior: bool, who: str
) -> CandidateSets:
    """Return the candidates of p > 1 - coverage of each query, best first.

    Parameters
    ----------
    folds : list of Fold
    X : what the model takes, n rows
    pools : list of EmbeddedPool
        The candidates, embedded by the model of each fold.
    asked : Asked
    prior : bool
    who : str
        In whose name to raise.
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
