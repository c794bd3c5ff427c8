"""Which trials are averaged, and on how many rows there is time to fit them at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .averages import Members, Merit, choose, cross_fitted, unit
from .maps import Map
from .scoring import column_scores
from .search import ModelSearch, Trial

__all__ = ["Chosen", "choice_of", "last_sizes"]

# Standard errors by which one member must be better than an average to be preferred.
_CLEARLY = 1.0
# Share of the time that is left on the clock for last fits, and of the budget if none is left.
_USED, _LEAST = 0.8, 0.1
# Trials that are chosen from, at least.
_LEAST_MEMBERS = 3


@dataclass(frozen=True)
class Chosen:
    """Trials that are averaged, what decodes the average, and the score of such a choice."""

    trials: list[Trial]
    weights: np.ndarray  # (members,), or (members, p) where each output has its own
    decoder: dict[str, Any]
    score: float
    error: float
    cut: int  # whether the clock left less to choose from


def choice_of(search: ModelSearch, by_column: bool, ensemble: bool) -> Chosen:
    """Choose one trial, or an average where that does better on rows that did not choose it."""
    planned, most = _steps(search)
    finalists = search.finalists(_time_left(search)[1])
    trials, folds = _best_of(finalists, max(most, _LEAST_MEMBERS)), search.sample.folds
    members = Members([trial.F for trial in trials], search.merit, _shares(search, trials))
    members.scored |= {unit(i, len(trials)): trial.table for i, trial in enumerate(trials)}
    honest, counted = cross_fitted(members, 1), 1
    if ensemble and min(len(trials), most) > 1:
        averaged = cross_fitted(members, most)
        # averages vary less with the rows: one member must be clearly better
        if (honest - averaged) @ folds.weights <= _CLEARLY * folds.error(honest - averaged):
            honest, counted = averaged, most
    choice = choose(members, np.arange(folds.n_parts), counted)
    weights = np.tile(choice.weights[:, None], (1, members.F[0].shape[1]))
    if counted > 1 and by_column and weights.shape[1] > 1:
        scores, each = _column_choices(members, counted)
        has_time = members.has_time(tuple(each.any(axis=1).astype(int)))
        if has_time and scores @ folds.weights > honest @ folds.weights:
            honest, weights = scores, each
    weights = weights / weights.sum(axis=0)
    used = np.flatnonzero(weights.any(axis=1))
    return Chosen(
        [trials[i] for i in used],
        weights[used] if np.ptp(weights, axis=1).any() else weights[used, 0],
        search.decoders[choice.decoder],
        float(honest @ folds.weights),
        folds.error(honest),
        int(most < planned or len(finalists) < len(search.finalists())),
    )


def _steps(search: ModelSearch) -> tuple[int, int]:
    """Return how many members may be averaged, and in how many steps: as many as the plan has time
    for, and as the clock has."""
    calls = search.budget.for_averages / search.scoring_seconds
    steps = 12 if calls > 500 else 8 if calls > 200 else 5 if calls > 60 else 3
    seconds, n = search.scoring
    by_clock = search.clock.left / 2 / max(seconds / max(n, 1), 1e-6)
    return steps, steps if by_clock > 50 * steps else 3 if by_clock > 60 else 1


def _best_of(trials: list[Trial], most: int) -> list[Trial]:
    """Return the trials to choose from, best first: the best of each map stays."""
    ranked = sorted(trials, key=lambda trial: -trial.merit)
    first = {trial.settings.name: trial for trial in reversed(ranked)}
    ranked.sort(key=lambda trial: trial is not first[trial.settings.name])
    return sorted(ranked[:most], key=lambda trial: -trial.merit)


def _time_left(search: ModelSearch) -> tuple[float, float]:
    """Return the seconds for last fits: those of the plan, and those of the clock."""
    left = search.budget.for_trials - search.spent
    clock = max(_USED * search.clock.left, _LEAST * search.clock.seconds)
    return search.budget.for_last_fits + max(left, 0.0), clock


def _shares(search: ModelSearch, trials: list[Trial]) -> np.ndarray:
    """Return what the last fit of each trial takes of the time for all of them, the larger share
    of the planned one and of that of the clock."""
    planned, clock = _time_left(search)
    seconds = [(search.planned_last(one.settings), search.last_seconds(one)) for one in trials]
    return np.array([max(plan / planned, last / clock) for plan, last in seconds])


def last_sizes(search: ModelSearch, chosen: Chosen) -> list[Map]:
    """Return the settings of the last fits: trials with as many rows as the clock has time for,
    and where there are all, with more landmarks and trees.

    Time that all of them leave, on the rows of their trials, goes to them by their weights.
    """
    least = [search.last_seconds(trial) for trial in chosen.trials]
    spare = max(_time_left(search)[1] - sum(least), 0.0)
    planned = search.budget.for_last_fits / len(least)
    shares = chosen.weights.reshape(len(least), -1).mean(axis=1)
    return [
        _last_size(search, trial, planned, seconds + spare * share)
        for trial, seconds, share in zip(chosen.trials, least, shares, strict=True)
    ]


def _last_size(search: ModelSearch, trial: Trial, planned: float, clock: float) -> Map:
    settings, rows = trial.settings, trial.settings.rows
    if rows is not None:
        more = [n for n in search.steps_of_rows() if n is None or n > rows]
        sizes = (replace(settings, rows=n) for n in more)
        fit = (one for one in sizes if search.last_seconds(trial, one) <= clock)
        settings = next(fit, settings)
    larger = settings.larger(rows is not None and settings.rows is None)
    is_short = search.planned_last(larger) < planned and search.last_seconds(trial, larger) < clock
    return larger if is_short else settings


def _column_choices(members: Members, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose an average for each column; return the honest scores and weights (members, p)."""
    folds, truth = members.merit.folds, members.merit.truth
    scores, weights = [], []
    for j in range(truth.shape[1]):
        column = truth[:, j : j + 1]
        merit = Merit(column_scores(column, folds), column, folds)
        alone = Members([F[:, j : j + 1] for F in members.F], merit, members.shares)
        scores.append(cross_fitted(alone, most))
        weights.append(choose(alone, np.arange(folds.n_parts), most).weights)
    return np.mean(scores, axis=0), np.column_stack(weights)
