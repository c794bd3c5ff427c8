"""Which trials are averaged, and on how many rows there is time to fit them at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .costs import scoring_seconds
from .scoring import column_scores
from .search import Search, Trial
from .stacking import Judge, Votes, choose, cross_fitted, unit

__all__ = ["Chosen", "choice_of", "last_sizes"]

Settings = dict[str, Any]

# Standard errors by which one member must be better than an average to be preferred.
_CLEARLY = 1.0
# Trees of a forest in the last fit, if there is time.
_TREES = 300
# Share of the time that is left on the clock for last fits, and of the budget if none is left.
_USED, _LEAST = 0.8, 0.1
# Trials that are chosen from, at least.
_LEAST_MEMBERS = 3


@dataclass(frozen=True)
class Chosen:
    """Trials that are averaged, what decodes the average, and the score of such a choice."""

    trials: list[Trial]
    weights: np.ndarray  # (members,), or (members, p) where each output has its own
    decoder: Settings
    score: float
    error: float
    cut: int  # whether the clock left less to choose from


def choice_of(search: Search, by_column: bool, ensemble: bool) -> Chosen:
    """Choose one trial, or an average where that does better on rows that did not choose it."""
    planned, most = _steps(search)
    finalists = search.finalists(_time_left(search)[1])
    members, folds = _best_of(finalists, max(most, _LEAST_MEMBERS)), search.sample.folds
    votes = Votes([one.F for one in members], search.judge, _shares(search, members))
    votes.known |= {unit(i, len(members)): one.table for i, one in enumerate(members)}
    honest, counted = cross_fitted(votes, 1), 1
    if ensemble and min(len(votes.F), most) > 1:
        averaged = cross_fitted(votes, most)
        # averages vary less with the rows: one member must be clearly better
        if (honest - averaged) @ folds.weights <= _CLEARLY * folds.error(honest - averaged):
            honest, counted = averaged, most
    choice = choose(votes, np.arange(folds.n_parts), counted)
    weights = np.tile(choice.weights[:, None], (1, votes.F[0].shape[1]))
    if counted > 1 and by_column and weights.shape[1] > 1:
        own, each = _column_choices(votes, counted)
        has_time = votes.has_time(tuple(each.any(axis=1).astype(int)))
        if has_time and own @ folds.weights > honest @ folds.weights:
            honest, weights = own, each
    weights = weights / weights.sum(axis=0)
    used = np.flatnonzero(weights.any(axis=1))
    return Chosen(
        [members[i] for i in used],
        weights[used] if np.ptp(weights, axis=1).any() else weights[used, 0],
        search.decoders[choice.decoder],
        float(honest @ folds.weights),
        folds.error(honest),
        int(most < planned or len(finalists) < len(search.finalists())),
    )


def _steps(search: Search) -> tuple[int, int]:
    """Return how many members may be averaged, and in how many steps: as many as the plan has time
    for, and as the clock has."""
    held, p = search.judge.truth.shape
    calls = search.budget.for_averages / scoring_seconds(held, p, len(search.decoders))
    steps = 12 if calls > 500 else 8 if calls > 200 else 5 if calls > 60 else 3
    seconds, n = search.scoring
    by_clock = search.clock.left / 2 / max(seconds / max(n, 1), 1e-6)
    return steps, steps if by_clock > 50 * steps else 3 if by_clock > 60 else 1


def _best_of(trials: list[Trial], most: int) -> list[Trial]:
    """Return the trials to choose from, best first."""
    ranked = sorted(trials, key=lambda one: -one.merit)
    first: list[Trial] = []
    rest: list[Trial] = []
    met: set[str] = set()
    for one in ranked:  # the best of each map stays
        (rest if one.settings["map"] in met else first).append(one)
        met.add(one.settings["map"])
    kept = [*first, *rest][:most]
    return sorted(kept, key=lambda one: -one.merit)


def _time_left(search: Search) -> tuple[float, float]:
    """Return the seconds for last fits: those of the plan, and those of the clock."""
    left = search.budget.for_trials - search.spent
    clock = max(_USED * search.clock.left, _LEAST * search.clock.seconds)
    return search.budget.for_last_fits + max(left, 0.0), clock


def _shares(search: Search, members: list[Trial]) -> np.ndarray:
    """Return what the last fit of each trial takes of the time for all of them, the larger share
    of the planned one and of that of the clock."""
    planned, clock = _time_left(search)
    return np.array(
        [
            max(search.planned_last(one.settings) / planned, search.last_seconds(one) / clock)
            for one in members
        ]
    )


def last_sizes(search: Search, chosen: Chosen) -> list[Settings]:
    """Return the settings of the last fits: trials with as many rows as the clock has time for,
    and where there are all, with more landmarks and trees.

    Time that all of them leave, on the rows of their trials, goes to them by their weights.
    """
    least = [search.last_seconds(one) for one in chosen.trials]
    spare = max(_time_left(search)[1] - sum(least), 0.0)
    planned = search.budget.for_last_fits / len(least)
    shares = chosen.weights.reshape(len(least), -1).mean(axis=1)
    return [
        _last_size(search, one, planned, seconds + spare * share)
        for one, seconds, share in zip(chosen.trials, least, shares, strict=True)
    ]


def _last_size(search: Search, trial: Trial, planned: float, clock: float) -> Settings:
    settings, rows = trial.settings, trial.settings.get("rows")
    if rows is not None:
        more = [n for n in search.steps_of_rows() if n is None or n > rows]
        sizes = ({**settings, "rows": n} for n in more)
        fit = (one for one in sizes if search.last_seconds(trial, one) <= clock)
        settings = next(fit, settings)

    def larger(**more: int) -> Settings:
        grown = settings | more
        is_short = (
            search.planned_last(grown) < planned and search.last_seconds(trial, grown) < clock
        )
        return grown if is_short else settings

    is_whole = settings.get("rows") is None
    if rows is not None and is_whole and settings.get("sketch") is not None:
        settings = larger(sketch=2 * settings["sketch"])  # for more rows
    if "n_estimators" in settings:
        settings = larger(n_estimators=_TREES)
    return settings


def _column_choices(votes: Votes, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose an average for each column; return the honest scores and weights (members, p)."""
    folds, truth = votes.judge.folds, votes.judge.truth
    scores, weights = [], []
    for j in range(truth.shape[1]):
        column = truth[:, j : j + 1]
        judge = Judge(column_scores(column, folds), column, folds)
        own = Votes([F[:, j : j + 1] for F in votes.F], judge, votes.shares)
        scores.append(cross_fitted(own, most))
        weights.append(choose(own, np.arange(folds.n_parts), most).weights)
    return np.mean(scores, axis=0), np.column_stack(weights)
