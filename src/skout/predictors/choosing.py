"""Learn scores on a part of the calibration rows, and choose the one of the shortest lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lists import Lists, Ranker, plain_pool
from .nonconformity import LearntScore, learn
from .thresholds import cut, masses

__all__ = ["compared", "drawn", "entry_limit", "inside", "truth_scores"]

# Candidates of all queries that scores are learnt from, at most.
_ENTRIES = 2**24
# Coverage at which scores are compared.
_COMPARED = 0.9
# Rounding of values, relative to them.
_ROUNDING = 1e-10


def drawn(unit: np.ndarray, share: float, pool: Any, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to learn from, whole units in random order, and the place of each unit.

    Parameters
    ----------
    unit : ndarray of shape (n,)
        Rows of one label stay together; at least 4 of them differ.
    share : float
        Part of the units, of which two or more are on either side.
    pool : EmbeddedPool or EmbeddedPools
        The larger it is, the fewer rows are taken.
    rng : Generator
    """
    number = np.unique(unit, return_inverse=True)[1]
    n_units = int(number.max()) + 1
    place = rng.permutation(n_units)[number]
    some = np.flatnonzero(place < np.clip(round(share * n_units), 2, n_units - 2))
    some = some[np.argsort(place[some], kind="stable")]
    some = some[: entry_limit(pool)]
    return some, place[some]


def entry_limit(pool: Any, parts: int = 1) -> int:
    """Return how many rows of a part scores are learnt from, at most."""
    return max(2, _ENTRIES // (parts * max(1, plain_pool(pool).largest)))


def truth_scores(
    ranker: Ranker,
    learnt: LearntScore,
    X: Any,
    pool: Any,
    truth: np.ndarray,
    rows: np.ndarray,
    prior: bool,
) -> np.ndarray:
    """Return the score of the truth of some rows; infinite where it is no candidate."""
    out, start = [], 0
    for lists in ranker.lists(X, pool, rows, prior=prior):
        own = lists.entries(truth[rows[start : start + len(lists)]])
        out.append(np.where(own >= 0, learnt(lists)[own], np.inf))
        start += len(lists)
    return np.concatenate(out)


def inside(values: np.ndarray, lists: Lists, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of sets and where their candidates are in the pool, best first."""
    query = lists.query_of
    order = np.lexsort((values, query))
    floor = gap + _ROUNDING * np.maximum(1.0, np.abs(gap))
    kept = values[order] <= floor[query]
    kept[lists.indptr[:-1]] = True  # no set is empty
    return np.bincount(query[kept], minlength=len(lists)), lists.place[order[kept]]


def compared(
    names: list[str],
    lists: Lists,
    truth: np.ndarray,
    unit: np.ndarray,
    place: np.ndarray,
    rng: Any,
) -> dict[str, float]:
    """Return the mean size of sets by each score, learnt on a half and judged on the other."""
    first = place < np.median(place)
    if not first.any() or first.all():
        return {names[0]: 0.0}
    halves = []
    for some in (np.flatnonzero(first), np.flatnonzero(~first)):
        own, there = lists.of(some), truth[some] >= 0
        entries = np.where(there, truth[some] - lists.indptr[some] + own.indptr[:-1], -1)
        halves.append((own, entries, masses(unit[some], None, len(some))))
    return {
        name: float(np.mean([_mean_size(name, halves[i], halves[1 - i], rng) for i in (0, 1)]))
        for name in names
    }


def _mean_size(name: str, one: Any, other: Any, rng: Any) -> float:
    """Return the mean size of the sets of other queries by a score that is learnt on some."""
    known, entries, weights = one
    lists, truth, mass = other
    values = learn(name, known, entries, weights, rng)(lists)
    own = np.where(truth >= 0, values[truth], np.inf)
    order = np.argsort(own, kind="stable")
    q = cut(own[order], _COMPARED, mass[order])
    sizes, _ = inside(values, lists, np.full(len(lists), q))
    return float(np.average(sizes, weights=mass))
