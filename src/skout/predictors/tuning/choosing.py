"""How many trials are averaged, and which of them there is time to fit on all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._numerics.arrays import n_rows
from .costs import fit_seconds, scoring_seconds
from .kinds import column_scores
from .search import Search, Trial
from .stacking import Judge, Votes, choose, cross_fitted

__all__ = ["best_of", "column_choices", "last_seconds", "steps", "within"]


def steps(search: Search) -> int:
    """Return how many members may be averaged, and in how many steps: as many as there is time."""
    held, p = search.judge.truth.shape
    one = scoring_seconds(held, p, len(search.decoders))
    calls = search.budget.for_averages / one
    return 12 if calls > 500 else 8 if calls > 200 else 5 if calls > 60 else 3


def best_of(search: Search) -> list[Trial]:
    """Return the trials to choose from, best first."""
    ranked = sorted(search.finalists(), key=lambda one: -one.merit)
    first: list[Trial] = []
    rest: list[Trial] = []
    met: set[str] = set()
    for one in ranked:  # the best of each map stays
        (rest if one.settings["map"] in met else first).append(one)
        met.add(one.settings["map"])
    kept = [*first, *rest][: steps(search)]
    return sorted(kept, key=lambda one: -one.merit)


def last_seconds(search: Search, settings: list[dict[str, Any]]) -> float:
    """Return the seconds of fits on all rows."""
    n = n_rows(search.sample.X)
    return sum(fit_seconds(one, search.profile, n) for one in settings)


def within(weights: np.ndarray, members: list[Trial], search: Search) -> np.ndarray:
    """Return weights (members, p) without the least members, until the rest is fitted in time."""
    weights = weights.copy()
    while np.count_nonzero(weights.any(axis=1)) > 1:
        total = weights.mean(axis=1)
        used = [members[i].settings for i in np.flatnonzero(total)]
        if last_seconds(search, used) <= search.budget.for_last_fits:
            break
        least = np.argmin(np.where(total > 0.0, total, np.inf))
        weights[least] = 0.0
        lost = weights.sum(axis=0) == 0.0  # columns that had no other member
        weights[np.argmax(np.where(np.arange(len(total)) == least, 0.0, total)), lost] = 1.0
    return weights / weights.sum(axis=0)


def column_choices(votes: Votes, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose an average for each column; return the honest scores and weights (members, p)."""
    folds, truth = votes.judge.folds, votes.judge.truth
    scores, weights = [], []
    for j in range(truth.shape[1]):
        column = truth[:, j : j + 1]
        judge = Judge(column_scores(column, folds), column, folds)
        own = Votes([F[:, j : j + 1] for F in votes.F], judge)
        scores.append(cross_fitted(own, most))
        weights.append(choose(own, np.arange(folds.n_parts), most).weights)
    return np.mean(scores, axis=0), np.column_stack(weights)
