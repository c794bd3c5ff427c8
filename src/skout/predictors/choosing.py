"""Learn scores on a part of the calibration rows, and choose the one of the shortest lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lists import Lists, Ranker, plain_pool
from .nonconformity import LearntScore, learn
from .thresholds import cut, masses

__all__ = ["chosen", "drawn", "entry_limit", "inside", "truth_scores"]

# Candidates of all queries that scores are learnt from, at most.
_ENTRIES = 2**24
# Coverage at which scores are compared.
_COMPARED = 0.9
# Rounding of values, relative to them.
_ROUNDING = 1e-10


def drawn(unit: np.ndarray, share: float, pool: Any, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to learn from, whole units in random order, and the place of each unit.

    At least two units are on either side; the larger the pool, the fewer rows are taken.
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


def truth_scores(ranker: Ranker, learnt: LearntScore, *given: Any, **options: Any) -> np.ndarray:
    """Return the score of the truth of some rows, infinite where it is no candidate.

    The other arguments are those of `Ranker.lists`.
    """
    found = [
        np.where(lists.truth >= 0, learnt(lists)[lists.truth], np.inf)
        for lists in ranker.lists(*given, **options)
    ]
    return np.concatenate(found)


def inside(values: np.ndarray, lists: Lists, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of sets and where their candidates are in the pool, best first."""
    query = lists.query_of
    order = np.lexsort((values, query))
    floor = gap + _ROUNDING * np.maximum(1.0, np.abs(gap))
    kept = values[order] <= floor[query]
    kept[lists.indptr[:-1]] = True  # no set is empty
    return np.bincount(query[kept], minlength=len(lists)), lists.place[order[kept]]


def chosen(
    names: list[str], lists: Lists, unit: np.ndarray, place: Any, rng: Any
) -> tuple[str, dict[str, float]]:
    """Return the score of the shortest lists, and the mean sizes by all if there is a choice.

    Scores are learnt on one half of the units, by their `place`, and judged on the other.
    """
    if len(names) == 1:
        return names[0], {}
    first = place < np.median(place)
    if not first.any() or first.all():
        return names[0], {names[0]: 0.0}
    halves = [
        (lists.of(some), masses(unit[some]))
        for some in (np.flatnonzero(first), np.flatnonzero(~first))
    ]
    sizes = {
        name: float(np.mean([_mean_size(name, halves[i], halves[1 - i], rng) for i in (0, 1)]))
        for name in names
    }
    return min(sizes, key=lambda name: sizes[name]), sizes


def _mean_size(name: str, one: Any, other: Any, rng: Any) -> float:
    """Return the mean size of the sets of other queries by a score that is learnt on some."""
    lists, mass = other
    values = learn(name, *one, rng)(lists)
    own = np.where(lists.truth >= 0, values[lists.truth], np.inf)
    order = np.argsort(own, kind="stable")
    q = cut(own[order], _COMPARED, mass[order])
    sizes, _ = inside(values, lists, np.full(len(lists), q))
    return float(np.average(sizes, weights=mass))
