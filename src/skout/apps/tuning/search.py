"""The search of `Tuned`: a portfolio on few rows, the best of it on more, then local search.

The order of trials depends on scores and on estimated costs of maps, never on the clock: a faster
machine gets further in the same order. The clock only cuts off: a trial that would not end in time
is left out, made smaller or stopped, and `results_` says so.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError

from skout.dev import Checkpoint, check_number, n_rows

from .clock import Clock, OutOfTime
from .folds import Folds
from .maps import ConstantMap, Map, RandomForestMap
from .maps.base import CALL
from .samples import Profile, Sample
from .scoring import Merit

#: The result of a trial: settings that it filled in, seconds, scores and predicted coordinates.
Result: TypeAlias = tuple[dict[str, Any], float, np.ndarray, np.ndarray]

#: Called after each trial of a search.
Callback: TypeAlias = Callable[["TuningProgress"], object]

# The constants below were chosen on training parts of the sets of experiments/ours/tuned.py
# (`--inside`), and for many rows on the tables of benchmarks/budget.py.
# Shares of the budget: a reserve at the end in which no trial begins; the planned seconds for final
# fits and for averages, on the reference machine.
_MARGIN, _LAST, _AVERAGES = 0.08, 0.25, 0.08
# By the clock, time is reserved for last fits of this many maps, at most this share of the budget.
_LIKELY_MEMBERS, _MOST_KEPT = 3, 0.4
# Number of averages for whose scoring time is reserved by the clock.
_AVERAGES_SCORED = 300
# A trial may take this many times its estimated seconds by the clock, or this share of the budget;
# the first one, without which there is no model, the last share.
_OVERRUN, _LEAST_LIMIT, _FIRST_LIMIT = 3.0, 0.125, 0.5
# Shares of the seconds for trials that one trial may take: on all rows, and on fewer rows.
_WHOLE, _PART = 0.3, 0.2
# Rows of the first round on few rows, and its share of the seconds for trials; there is no such
# round where the whole portfolio takes at most this many times the seconds for trials on all rows.
_FIRST_ROWS, _FIRST_SHARE, _WITHOUT = (2000, 1000), 0.5, 1.5
# Five folds become three, or two, where the portfolio takes more than this many times the seconds
# for trials; settings that take more than this share of them are tried after the others.
_FAR_TOO_MANY, _LONG = 2.0, 0.2
# Trials before that of the baseline forest.
_BEFORE_FOREST = 3
# Rows of the only trial that is run when the clock stopped all others.
_LEAST_ROWS = 500
# Best settings that are promoted from few rows to more, besides the best of each map.
_PROMOTED = 6
# Trials of refinement without a gain after which the search ends early; a gain is an increase of
# merit by more than this share of a standard error.
_PATIENCE, _GAIN = 30, 0.05
# Least ratio of measured to estimated seconds that estimates of last fits are scaled by.
_LEAST_PACE = 0.1
# Least such ratio for a map that was not tried yet, which else has that of the other maps.
_NEW_PACE = 0.7
# Estimated seconds for decoding one coordinate; seconds of one scoring above which at most this
# many cells of a path are scored, within this share of the seconds for trials.
_DECODE, _SLOW, _SCORED, _SCORED_SHARE = 3e-9, 0.03, 8, 0.1


@dataclass(frozen=True)
class TuningProgress:
    """The state of a search, passed to the `callback` of `Tuned.fit` around each trial."""

    trial: int  # its number, from 1
    map: str  # the name of the map that is tried
    settings: dict[str, Any]  # of that map
    stage: str  # "few rows", "baseline", "portfolio" or "refinement"
    metric: str  # what scores are called
    score: float | None  # of this trial; None before its end, and if it was cut off
    best: float | None  # the best score so far
    seconds: float  # since the fit began
    budget: float  # seconds, inf for a budget in fits

    def __str__(self) -> str:
        best = "" if self.best is None else f", best {self.metric} so far {abs(self.best):.4g}"
        return f"trial {self.trial}: {self.map}{best}"


@dataclass(frozen=True)
class CutTrial:
    """Settings that there was no time for, or whose trial the clock stopped."""

    settings: Map
    stage: str
    seconds: float
    reason: str


@dataclass
class Trial:
    """Settings that were tried, with their scores and predictions."""

    settings: Map  # with those filled in that were best on its path
    decoder: str
    table: tuple[np.ndarray, np.ndarray]  # scores and merits of that cell, (n_decoders, n_parts)
    score: float  # of the best decoder, the mean over the held-out rows
    merit: float
    error: float  # the standard error of the score
    seconds: float
    stage: str
    F: np.ndarray = field(repr=False)  # (n_held, p) predicted coordinates, float32

    @property
    def n_rows(self) -> float:
        """The number of rows that it was trained on, inf for all."""
        return self.settings.rows or np.inf


@dataclass
class Budget:
    """A budget in seconds or in fits, the other is infinite; and how the seconds are planned."""

    seconds: float = np.inf
    fits: float = np.inf

    def __post_init__(self) -> None:
        self.for_last_fits: float = _LAST * self.seconds
        self.for_averages: float = _AVERAGES * self.seconds
        self.for_trials: float = (1.0 - _LAST - _AVERAGES - _MARGIN) * self.seconds

    @classmethod
    def of(cls, budget: float | str) -> Budget:
        """Return a budget from seconds, or from a text such as "40 fits"."""
        if not isinstance(budget, str):
            return cls(seconds=float(check_number(budget, "budget", strict=True)))
        fits = re.fullmatch(r"\s*0*([1-9]\d*)\s*fits?\s*", budget)
        if fits is None:
            text = f'budget must be seconds, or a number of fits such as "40 fits". Got {budget!r}.'
            raise ValueError(text)
        return cls(fits=float(fits[1]))


def has_time_for(maps: Sequence[type[Map]], profile: Profile, folds: Folds, budget: Budget) -> bool:
    """Whether there is about enough time to try the portfolio on these folds."""
    starts = [start for kind in maps for _, start in kind.defaults(profile)]
    seconds = sum(start.path_cost(profile, folds.n_train, folds) for start in starts)
    return profile.n_models * seconds <= _FAR_TOO_MANY * budget.for_trials


class ModelSearch:
    """Plans trials within a budget, runs them, and stores their results."""

    sample: Sample
    profile: Profile
    merit: Merit
    clock: Clock
    decoders: Sequence[str]
    budget: Budget
    checkpoint: Checkpoint | None
    spent: float
    n_fits: int

    def __init__(
        self,
        sample: Sample,
        profile: Profile,
        merit: Merit,
        decoders: Sequence[str],
        budget: Budget,
        maps: Sequence[type[Map]],
        checkpoint: Checkpoint | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.sample, self.profile, self.merit, self.clock = sample, profile, merit, sample.clock
        self.decoders, self.budget, self.checkpoint = decoders, budget, checkpoint
        needs = [kind for kind in maps if profile.is_weighted and not kind.takes_weights]
        self.left_out: dict[str, str] = {
            kind.name: "take no weights" for kind in needs if [*kind.defaults(profile)]
        }
        self.maps: Sequence[type[Map]] = [kind for kind in maps if kind not in needs]
        self.n: int = sample.folds.n_train  # rows to train on
        self.trials: list[Trial] = []
        self.failed: list[str] = []
        self.spent, self.n_fits = 0.0, 0
        self.interrupted: bool = False
        self.cut: list[CutTrial] = []
        self.constant: Trial | None = None  # of the mean, once there are other trials
        self.scoring: list[float] = [0.0, 0]  # seconds, and how often
        self._seen: set[str] = set()
        self._results = {} if checkpoint is None else _stored(checkpoint)
        self._callback = callback

    def run(self) -> None:
        """Run trials until the budget is spent; Ctrl-C keeps those that are done."""
        try:
            if self.profile.grows_trees:
                import sklearn.ensemble  # noqa: F401  slow to import, and no part of a trial
            for stage, settings in self._plan():
                if not self._seen:
                    self._warn_if_short(settings)
                in_time = self._in_time(settings)
                self._seen.add(repr(settings))
                if in_time is not settings:
                    self._cut_off(settings, stage)
                if in_time is not None:
                    self._try(in_time, stage)
                if (in_time is None and self._clock_left() <= 0.0) or not (
                    self.trials or self.failed
                ):
                    break
            if not self.trials and self.cut:
                self._try(self._least(self.cut[0].settings), "few rows", np.inf)
            if self.trials:
                self.constant = self._constant()
        except KeyboardInterrupt:
            self.interrupted = True
            if not self.trials:
                raise
            warnings.warn("Interrupted: the best so far is used.", UserWarning, stacklevel=3)

    def _cut_off(self, settings: Map, stage: str, seconds: float = 0.0, reason: str = "") -> None:
        """Store settings that the clock cut off.

        Of the refinement, which has no end, these are only trials that were stopped.
        """
        if stage != "refinement" or seconds > 0.0:
            reason = reason or "no time for it on so many rows"
            self.cut.append(CutTrial(settings, stage, seconds, reason))

    # What to try ---------------------------------------------------------------------------------

    def _plan(self) -> Iterator[tuple[str, Map]]:
        """Yield stage and settings of the next trial, as long as the budget allows one."""
        todo = self.portfolio()
        most = (1.0 - _FIRST_SHARE) * self._clock_left()  # for trials on more rows
        stage, first = ("few rows", self._small) if self._is_large else ("portfolio", self._sized)
        n_first = 1 if np.isinf(self.budget.seconds) else _BEFORE_FOREST
        yield from self._affordable(stage, map(first, todo[:n_first]))
        if RandomForestMap in self.maps:
            forest = map(self._as_new, RandomForestMap.baseline(self.profile))
            yield from self._affordable("baseline", map(first, forest))
        if self._is_large:
            for few in self._affordable(stage, map(first, todo)):
                if self.spent > _FIRST_SHARE * self.budget.for_trials:
                    break
                if self._clock_left() < most:
                    self._cut_off(few[1], stage)
                    break
                yield few
            todo = self._promoted(todo)
        yield from self._affordable("portfolio", map(self._sized, todo))
        if not self.trials:
            return
        best, since = -np.inf, 0
        while since < _PATIENCE or np.isinf(self.budget.seconds):
            top = max(self.trials, key=lambda trial: trial.merit)
            has_gain = top.merit > best + _GAIN * np.nan_to_num(top.error)
            best, since = (top.merit, 0) if has_gain else (best, since + 1)
            untried = next(filter(None, map(self._untried, self._leaders())), None)
            if untried is None:
                return
            yield "refinement", untried

    def portfolio(self) -> list[Map]:
        """Return the default settings of all maps, in the order in which they are tried."""
        starts = [start for kind in self.maps for start in kind.defaults(self.profile)]
        ordered = [self._as_new(start) for _, start in sorted(starts, key=lambda start: start[0])]
        most = _LONG * self.budget.for_trials
        return sorted(ordered, key=lambda settings: self._shortest(settings) > most)

    def _shortest(self, settings: Map) -> float:
        """Return the estimated seconds of a trial in the smallest size, on the fewest rows."""
        rows = min(self.n, _FIRST_ROWS[-1] if self.budget.seconds < np.inf else self.n)
        return self.cost(replace(settings.sizes(rows)[-1][0], rows=rows))

    def _as_new(self, settings: Map) -> Map:
        """Return settings before a trial, with dense rows where the map needs them."""
        needs_dense = self.profile.is_sparse and not settings.takes_sparse
        return replace(settings.origin, scaling="dense") if needs_dense else settings.origin

    @property
    def _is_large(self) -> bool:
        """Whether settings are compared on few rows first."""
        return self.first_rows is not None

    @cached_property
    def first_rows(self) -> int | None:
        """Number of rows of the first round, as there is time for; None for no such round."""
        if np.isinf(self.budget.seconds):
            return None
        todo = self.portfolio()
        are_many = self.n > 1.5 * _FIRST_ROWS[0]
        if not are_many and sum(map(self.cost, todo)) <= _WITHOUT * self.budget.for_trials:
            return None
        sizes = [rows for rows in _FIRST_ROWS if self.n > 1.5 * rows]
        seconds = _FIRST_SHARE * self.budget.for_trials

        def total(rows: int) -> float:
            sized = (replace(settings.sizes(rows)[-1][0], rows=rows) for settings in todo)
            return sum(map(self.cost, sized))

        return next(
            (rows for rows in sizes if total(rows) <= seconds), sizes[-1] if sizes else None
        )

    def steps_of_rows(self) -> list[int | None]:
        """Return the numbers of rows that a trial may be on, from None, all rows, downwards."""
        first = self.first_rows
        fewer = [] if first is None else [first * 2**k for k in range(32)]
        return [None, *(n for n in reversed(fewer) if 1.3 * n < self.n)]

    def _least(self, settings: Map) -> Map:
        """Return settings in the smallest size, on `_LEAST_ROWS` rows."""
        rows = min(self.n, _LEAST_ROWS)
        return replace(settings.sizes(rows)[-1][0], rows=rows)

    def _small(self, settings: Map) -> Map:
        """Return settings for the first round: on few rows, in the smallest size."""
        rows = self.first_rows
        return replace(settings.sizes(rows or self.n)[-1][0], rows=rows)

    def _sized(self, settings: Map) -> Map:
        """Return settings on the most rows, and in the largest size, that there is time for."""
        for rows in self.steps_of_rows():
            most = _WHOLE if rows is None else _PART
            for sized, share in replace(settings, rows=rows).sizes(rows or self.n):
                seconds = min(share, most) * self.budget.for_trials
                if self._has_time(sized) and self.cost(sized) <= seconds:
                    return sized
        return sized

    def _promoted(self, todo: list[Map]) -> list[Map]:
        """Return the settings that are tried on more rows: the best, and the best of each map."""
        merits = {repr(trial.settings.origin): trial.merit for trial in self.trials}
        tried = [settings for settings in todo if repr(settings) in merits]
        ranked = sorted(tried, key=lambda settings: -merits[repr(settings)])
        best = {settings.family: settings for settings in reversed(ranked)}
        return [
            settings
            for k, settings in enumerate(ranked)
            if k < _PROMOTED or settings is best[settings.family]
        ]

    def finalists(self, seconds: float = np.inf) -> list[Trial]:
        """Return the trials to choose from: for equal settings, the one on the most rows.

        Their last fits, on as many rows, take at most so many seconds.
        """
        in_time = [trial for trial in self.trials if self.last_seconds(trial) <= seconds]
        in_time = in_time or sorted(self.trials, key=self.last_seconds)[:1]
        ordered = sorted(in_time, key=lambda trial: trial.n_rows)
        most = {repr(trial.settings.origin): trial.n_rows for trial in ordered}
        return [trial for trial in in_time if trial.n_rows == most[repr(trial.settings.origin)]]

    def _leaders(self) -> list[Trial]:
        """Return trials in the order in which their neighbors are tried.

        The best trials of the maps come before all others; in two of four turns the best map is
        first, in one each the second and the third.
        """
        ranked = sorted(self.finalists(), key=lambda trial: -trial.merit)
        best: dict[str, Trial] = {}
        for trial in ranked:
            best.setdefault(trial.settings.family, trial)
        leaders = list(best.values())
        turn = len(self.trials) % 4  # best, best, second, third
        at = min((0, 0, 1, 2)[turn], max(len(leaders) - 1, 0))
        others = [trial for trial in ranked if trial is not best[trial.settings.family]]
        return leaders[at : at + 1] + leaders[:at] + leaders[at + 1 :] + others

    def _untried(self, leader: Trial) -> Map | None:
        """Return the first untried neighbor of a trial that the budget allows, or None."""
        settings = leader.settings
        logs = [replace(settings, of_logs=not settings.of_logs)] if self.profile.is_skewed else []
        neighbors = map(self._as_new, [*logs, *settings.neighbors(self.profile)])
        sized = (self._sized(settings) for settings in neighbors if type(settings) in self.maps)
        new = (settings for settings in sized if repr(settings) not in self._seen)
        return next(filter(self._is_affordable, new), None)

    # What it costs -------------------------------------------------------------------------------

    def _affordable(self, stage: str, todo: Iterable[Map]) -> Iterator[tuple[str, Map]]:
        """Yield stage and settings of those that are untried and that the budget allows."""
        for settings in todo:
            is_affordable = self._is_affordable(settings, stage == "baseline") or not self.trials
            if repr(settings) not in self._seen and is_affordable:
                yield stage, settings

    def _is_affordable(self, settings: Map, is_baseline: bool = False) -> bool:
        """Whether the budget allows a trial of settings, and their last fit."""
        has_fits = self.n_fits < self.budget.fits
        return has_fits and (is_baseline or self._has_time(settings))

    def _has_time(self, settings: Map) -> bool:
        """Whether the plan has time for the last fit of settings, on the rows of a trial."""
        return self.planned_last(settings, self.n) <= self.budget.for_last_fits

    def planned_last(self, settings: Map, n: int | None = None) -> float:
        """Return the estimated seconds of the last fit of settings, on n rows or all."""
        n = settings.rows or n or n_rows(self.sample.X)
        return CALL + self.profile.n_models * settings.cost(self.profile, n)

    def cost(self, settings: Map) -> float:
        """Return the estimated seconds of a trial: its path, decoded and scored."""
        n, cells = min(self.n, settings.rows or self.n), settings.n_cells
        seconds = settings.path_cost(self.profile, n, self.sample.folds)
        scored = min(cells, self._most_scored)
        return CALL + self.profile.n_models * seconds + scored * self.scoring_seconds

    @property
    def scoring_seconds(self) -> float:
        """The estimated seconds of decoding and scoring the held-out rows once."""
        decoded = self.merit.truth.size * (3 + len(self.decoders)) * _DECODE
        return 1e-4 + decoded + self.merit.seconds

    @property
    def _most_scored(self) -> int:
        """The number of cells of a path that are scored; where it is limited, those of best R2."""
        if self.scoring_seconds <= _SLOW:
            return 10**6
        affordable = min(_SCORED_SHARE * self.budget.for_trials / self.scoring_seconds, _SCORED)
        return max(int(affordable), 2)

    def _pace(self, trials: list[Trial]) -> float:
        """Return the measured seconds of trials over their estimated ones."""
        planned = sum(self.cost(trial.settings) for trial in trials)
        return max(sum(trial.seconds for trial in trials) / planned, _LEAST_PACE)

    def last_seconds(self, trial: Trial, settings: Map | None = None) -> float:
        """Return the estimated seconds by the clock of the last fit, at the pace of the trial.

        `settings` are those of the trial, in another size.
        """
        return self.planned_last(settings or trial.settings) * self._pace([trial])

    def _clock_left(self) -> float:
        """Return the seconds left on the clock for trials, without those that are reserved."""
        return self.clock.left - self._kept() if np.isfinite(self.clock.seconds) else np.inf

    def _kept(self) -> float:
        """Return the seconds reserved for last fits, averages and a margin."""
        # no time is reserved for maps that were tried on fewer rows than others
        most = max((trial.n_rows for trial in self.trials), default=np.inf)
        ranked = sorted(self.trials, key=lambda trial: -trial.merit)
        best = {trial.settings.family: trial for trial in reversed(ranked) if trial.n_rows == most}
        likely = sorted(best.values(), key=lambda trial: -trial.merit)[:_LIKELY_MEMBERS]
        # of few rows, members may be fitted on all of them at the end, if there is time
        whole = [(trial, replace(trial.settings, rows=None)) for trial in likely]
        last = sum(self.last_seconds(*pair) for pair in whole) or self.budget.for_last_fits
        scored, n = self.scoring
        averages = min(_AVERAGES_SCORED * scored / max(n, 1), self.budget.for_averages)
        return min(last, _MOST_KEPT * self.clock.seconds) + averages + _MARGIN * self.clock.seconds

    def _pace_of(self, settings: Map) -> float:
        """Return the pace of the trials of the same map so far, or else of all."""
        alike = [trial for trial in self.trials if trial.settings.family == settings.family]
        return self._pace(alike) if alike else max(self._pace(self.trials), _NEW_PACE)

    def _in_time(self, settings: Map) -> Map | None:
        """Return settings on as many rows as the clock has time for, or None.

        Estimates for a trial and its last fit are scaled by the pace of its map so far.
        """
        if not self.trials or np.isinf(self.clock.seconds):
            return settings
        pace, kept = self._pace_of(settings), self._kept()
        fewer = [n for n in self.steps_of_rows() if n is not None and n < (settings.rows or self.n)]
        for sized in (settings, *(replace(settings, rows=n) for n in fewer)):
            last = pace * self.planned_last(sized) + _MARGIN * self.clock.seconds
            has_time = pace * self.cost(sized) + max(last, kept) <= self.clock.left
            if has_time and (sized is settings or repr(sized) not in self._seen):
                return sized
        return None

    def _warn_if_short(self, first: Map) -> None:
        """Warn where the budget is too short for one trial and its last fit."""
        trial, last, left = self.cost(first), self.planned_last(first), self.clock.left
        if trial + last > left:
            warnings.warn(
                f"budget={self.clock.seconds:.3g} is short, and will be exceeded: "
                f"{max(left, 0.0):.1f} s of it are left, and the first model takes about "
                f"{trial + last:.1f} s.",
                UserWarning,
                stacklevel=8,
            )

    def _limit(self, settings: Map) -> float:
        """Return the seconds after which a trial of settings is stopped."""
        if np.isinf(self.clock.seconds):
            return np.inf
        if not self.trials:
            return max(_FIRST_LIMIT * self.clock.seconds, 2.0 * self.cost(settings))
        foreseen = _OVERRUN * self._pace_of(settings) * self.cost(settings)
        return min(max(foreseen, _LEAST_LIMIT * self.clock.seconds), self._clock_left())

    # Trying --------------------------------------------------------------------------------------

    def _try(self, settings: Map, stage: str, limit: float | None = None) -> None:
        """Run a trial, or take it from the checkpoint, and store its result.

        It is stopped after `limit` seconds, by default those of `_limit`.
        """
        key = repr(settings)
        self._seen.add(key)
        self.spent += self.cost(settings) if stage != "baseline" else 0.0
        self.n_fits += 1
        self._report(settings, stage, None)
        if key not in self._results:
            start = self.clock.now()
            try:
                with self.clock.limit(self._limit(settings) if limit is None else limit):
                    cell, table, F = self._best_cell(settings)
            except OutOfTime as error:
                self._cut_off(settings, stage, self.clock.now() - start, str(error))
                return
            except (ValueError, LinAlgError, MemoryError) as error:
                self.failed.append(str(error))
                return
            more = {name: getattr(cell, name) for name in cell.filled}
            self._results[key] = more, self.clock.now() - start, table, F
            if self.checkpoint is not None:
                _keep(self.checkpoint, self._results)
        self.trials.append(self._trial(settings, stage, self._results[key]))
        self._report(settings, stage, self.trials[-1].score)

    def _constant(self) -> Trial | None:
        """Return the trial of the constant prediction, None where it has no score."""
        try:
            [(cell, F)] = ConstantMap().path(self.sample)  # which takes gaps
            return self._trial(cell, "baseline", ({}, 0.0, self.merit.metric(F), F))
        except ValueError:
            return None

    def _report(self, settings: Map, stage: str, score: float | None) -> None:
        """Call the callback before a trial, with score None, or after it."""
        if self._callback is None:
            return
        best = max((trial.score for trial in self.trials), default=None)
        spent = self.clock.seconds - self.clock.left if np.isfinite(self.clock.seconds) else 0.0
        names = settings.settings()
        self._callback(
            TuningProgress(
                trial=self.n_fits,
                map=names.pop("map"),
                settings=names,
                stage=stage,
                metric=self.merit.name,
                score=score,
                best=best,
                seconds=spent,
                budget=self.clock.seconds,
            )
        )

    def _trial(self, settings: Map, stage: str, result: Result) -> Trial:
        """Return the trial of a result, with the best decoder."""
        more, seconds, table, F = result
        folds, smooth = self.sample.folds, self.merit.smooth(F)
        scores = table @ folds.weights
        at = int(np.argmax(scores))
        return Trial(
            settings=replace(settings, **more),
            decoder=self.decoders[at],
            table=(table, table + smooth),
            score=float(scores[at]),
            merit=float(scores[at] + smooth @ folds.weights),
            error=folds.error(table[at]),
            seconds=seconds,
            stage=stage,
            F=F,
        )

    def _best_cell(self, settings: Map) -> tuple[Map, np.ndarray, np.ndarray]:
        """Return the best settings of a path, with their scores and predictions."""
        weights = self.sample.folds.weights
        cells = [(cell, F) for cell, F in settings.predictions(self.sample) if np.isfinite(F).all()]
        if self.scoring_seconds > _SLOW:
            cells.sort(key=lambda cell: -float(self.merit.smooth(cell[1]) @ weights))
            cells = cells[: self._most_scored]
        scored = []
        for cell, F in cells:
            self.clock.check()
            start = self.clock.now()
            table = self.merit.metric(F)
            self.scoring = [self.scoring[0] + self.clock.now() - start, self.scoring[1] + 1]
            merit = float(((table + self.merit.smooth(F)) @ weights).max())
            scored += [] if np.isnan(merit) else [(merit, (cell, table, F))]
        if not scored:
            raise ValueError("no finite predictions, or no score of them that is a number")
        return max(scored, key=lambda pair: pair[0])[1]


def _keep(checkpoint: Checkpoint, results: dict[str, Result]) -> None:
    """Write the results of all trials into the checkpoint, if its last version is old enough."""
    arrays: dict[str, np.ndarray] = {}
    for i, (_, _, table, F) in enumerate(results.values()):
        arrays |= {f"table_{i}": table, f"F_{i}": F}
    records = [[key, more, seconds] for key, (more, seconds, _, _) in results.items()]
    checkpoint.keep(len(records), records=np.array(json.dumps(records)), **arrays)


def _stored(checkpoint: Checkpoint) -> dict[str, Result]:
    """Return the results in a checkpoint, by the settings before their trials."""
    arrays = checkpoint.kept()
    if arrays is None:
        return {}
    records = enumerate(json.loads(str(arrays["records"])))
    return {
        key: (more, seconds, arrays[f"table_{i}"], arrays[f"F_{i}"])
        for i, (key, more, seconds) in records
    }
