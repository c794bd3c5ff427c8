"""The search: a portfolio on few rows, the best of it on more, then neighbors of the best.

What is tried next depends on scores and on the costs of maps, never on the clock. The clock only
cuts off: a trial that would not end in time is left out or stopped, and the search says so.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError
from tqdm import tqdm

from skout.dev import Checkpoint, check_number, n_rows

from .clock import OutOfTime
from .maps import Map, RandomForestMap
from .maps.base import CALL
from .samples import Profile, Sample
from .scoring import Merit

#: What a trial returns: settings that it filled in, seconds, scores and predicted coordinates.
Result: TypeAlias = tuple[dict[str, Any], float, np.ndarray, np.ndarray]

# Settled on training parts of the sets of experiments/ours/tuned.py (`--inside`), and for many rows
# on the tables of benchmarks/budget.py.
# Shares of the budget: of all that is planned, and of it for the last fits and for averages.
_PLANNED, _LAST, _AVERAGES = 0.85, 0.2, 0.08
# A trial may take so many times its planned seconds by the clock, or this share of the budget.
_OVERRUN, _LEAST_LIMIT = 5.0, 0.125
# Seconds that are kept for the last fit by the clock are at most this share of the budget.
_MOST_KEPT = 0.4
# Shares of the seconds for trials that one of all rows may take, or one of fewer, of many rows.
_WHOLE, _PART = 0.3, 0.2
# Rows of the first round of many rows, and its share of the seconds for trials.
_FIRST_ROWS, _FIRST_SHARE = 2000, 0.4
# Settings that are promoted from few rows to all, besides the best of each map.
_PROMOTED = 6
# A machine counts as so many times faster than planned at most, where last fits are foreseen.
_LEAST_PACE = 0.1
# Seconds for a number that a decoder looks at; those of one scoring from which at most so many
# cells of a path are scored.
_DECODE, _SLOW, _SCORED = 3e-9, 0.03, 8


@dataclass
class Trial:
    """Settings that were tried, and how good they were."""

    settings: Map  # with what the best cell of its path filled in
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
        """Rows that it was trained on, inf for all of them."""
        return self.settings.rows or np.inf


@dataclass
class Budget:
    """Seconds or fits, of which one is infinite, and the seconds that are planned for what."""

    seconds: float = np.inf
    fits: float = np.inf

    def __post_init__(self) -> None:
        planned = _PLANNED * self.seconds
        self.for_last_fits, self.for_averages = _LAST * planned, _AVERAGES * planned
        self.for_trials = (1.0 - _LAST - _AVERAGES) * planned

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


class ModelSearch:
    """Trials, one after another."""

    def __init__(
        self,
        sample: Sample,
        profile: Profile,
        merit: Merit,
        decoders: Sequence[str],
        budget: Budget,
        maps: Sequence[type[Map]],
        checkpoint: Checkpoint | None = None,
        verbose: bool = False,
    ) -> None:
        self.sample, self.profile, self.merit, self.clock = sample, profile, merit, sample.clock
        self.decoders, self.budget, self.checkpoint = decoders, budget, checkpoint
        needs = [kind for kind in maps if profile.is_weighted and not kind.takes_weights]
        self.left_out = {one.name: "take no weights" for one in needs if [*one.defaults(profile)]}
        self.maps = [kind for kind in maps if kind not in needs]
        self.n = sample.folds.n_train  # rows to train on
        self.trials: list[Trial] = []
        self.failed: list[str] = []
        self.spent, self.n_fits = 0.0, 0
        self.interrupted = False
        self.cut = 0  # trials that the clock left out or stopped
        self.scoring = [0.0, 0]  # seconds, and how often
        self._seen: set[str] = set()
        self._results = {} if checkpoint is None else _stored(checkpoint)
        self._bar = tqdm(desc="trials", disable=not verbose, unit="trial")

    def run(self) -> None:
        """Try settings until the budget is spent; Ctrl-C stops with what there is."""
        try:
            if self.profile.grows_trees:
                import sklearn.ensemble  # noqa: F401  slow to import, and no part of a trial
            for stage, settings in self._plan():
                if not self._seen:
                    self._warn_if_short(settings)
                in_time = self._in_time(settings)
                self._seen.add(repr(settings))
                self.cut += in_time is not settings
                if in_time is not None:
                    self._try(in_time, stage)
                elif self._clock_left() <= 0.0:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            if not self.trials:
                raise
            warnings.warn("Interrupted: the best so far is used.", UserWarning, stacklevel=3)
        finally:
            self._bar.close()

    # What to try ---------------------------------------------------------------------------------

    def _plan(self) -> Iterator[tuple[str, Map]]:
        """Yield what to try next, as long as there is budget for it."""
        todo = self.portfolio()
        most = (1.0 - _FIRST_SHARE) * self._clock_left()  # for trials on more rows
        stage, first = ("few rows", self._small) if self._is_large else ("portfolio", self._sized)
        yield from self._affordable(stage, map(first, todo[:1]))
        if RandomForestMap in self.maps:
            forest = map(self._as_new, RandomForestMap.baseline(self.profile))
            yield from self._affordable("baseline", map(first, forest))
        if self._is_large:
            for few in self._affordable(stage, map(first, todo)):
                if self.spent > _FIRST_SHARE * self.budget.for_trials:
                    break
                if self._clock_left() < most:
                    self.cut += 1
                    break
                yield few
            todo = self._promoted(todo)
        yield from self._affordable("portfolio", map(self._sized, todo))
        while untried := [one for one in map(self._untried, self._leaders()) if one is not None]:
            yield "refinement", untried[0]

    def portfolio(self) -> list[Map]:
        """Return the settings that all maps begin with, the most promising ones first."""
        starts = [start for kind in self.maps for start in kind.defaults(self.profile)]
        return [self._as_new(one) for _, one in sorted(starts, key=lambda start: start[0])]

    def _as_new(self, settings: Map) -> Map:
        """Return settings as they are to be tried: with dense rows where the map needs them."""
        needs_dense = self.profile.is_sparse and not settings.takes_sparse
        return replace(settings.origin, scaling="dense") if needs_dense else settings.origin

    @property
    def _is_large(self) -> bool:
        """Whether settings are compared on few rows first."""
        return self.n > 1.5 * _FIRST_ROWS and np.isfinite(self.budget.seconds)

    def steps_of_rows(self) -> list[int | None]:
        """Return how many rows a trial may be on, all of them (None) first."""
        sizes = [_FIRST_ROWS * 2**k for k in range(32)]
        fewer = [n for n in sizes if 1.3 * n < self.n] if self._is_large else []
        return [None, *reversed(fewer)]

    def _small(self, settings: Map) -> Map:
        """Return settings for a first trial: on few rows, in the smallest size."""
        rows = min(self.n, _FIRST_ROWS)
        return replace(settings.sizes(rows)[-1][0], rows=rows)

    def _sized(self, settings: Map) -> Map:
        """Return settings with the rows, and in the size, that there is time for."""
        for rows in self.steps_of_rows():
            most = _WHOLE if rows is None else _PART
            for sized, share in replace(settings, rows=rows).sizes(rows or self.n):
                seconds = min(share, most) * self.budget.for_trials
                if self._has_time(sized) and self.cost(sized) <= seconds:
                    return sized
        return sized

    def _promoted(self, todo: list[Map]) -> list[Map]:
        """Return the best settings on few rows, and the best of each map, in that order."""
        merits = {repr(trial.settings.origin): trial.merit for trial in self.trials}
        tried = [settings for settings in todo if repr(settings) in merits]
        ranked = sorted(tried, key=lambda settings: -merits[repr(settings)])
        best = {one.family: one for one in reversed(ranked)}
        return [one for k, one in enumerate(ranked) if k < _PROMOTED or one is best[one.family]]

    def finalists(self, seconds: float = np.inf) -> list[Trial]:
        """Return the trials to choose from: of the same settings those on most rows.

        They are of those whose last fit, on as many rows, takes at most so many seconds.
        """
        in_time = [trial for trial in self.trials if self.last_seconds(trial) <= seconds]
        in_time = in_time or sorted(self.trials, key=self.last_seconds)[:1]
        ordered = sorted(in_time, key=lambda trial: trial.n_rows)
        most = {repr(trial.settings.origin): trial.n_rows for trial in ordered}
        return [one for one in in_time if one.n_rows == most[repr(one.settings.origin)]]

    def _leaders(self) -> list[Trial]:
        """Return the best trial of each map, the best maps first more often."""
        best: dict[str, Trial] = {}
        for trial in sorted(self.finalists(), key=lambda trial: -trial.merit):
            best.setdefault(trial.settings.family, trial)
        leaders = list(best.values())
        turn = len(self.trials) % 4  # best, best, second, third
        at = min((0, 0, 1, 2)[turn], max(len(leaders) - 1, 0))
        return leaders[at : at + 1] + leaders[:at] + leaders[at + 1 :]

    def _untried(self, leader: Trial) -> Map | None:
        """Return the first neighbor of a trial that is new, and that there is budget for."""
        near = map(self._as_new, leader.settings.neighbors(self.profile))
        sized = (self._sized(settings) for settings in near if type(settings) in self.maps)
        return next(
            (one for one in sized if repr(one) not in self._seen and self._has_room(one)), None
        )

    # What it costs -------------------------------------------------------------------------------

    def _affordable(self, stage: str, todo: Iterable[Map]) -> Iterator[tuple[str, Map]]:
        for settings in todo:
            has_room = self._has_room(settings, stage == "baseline") or not self.trials
            if repr(settings) not in self._seen and has_room:
                yield stage, settings

    def _has_room(self, settings: Map, is_baseline: bool = False) -> bool:
        """Whether the budget has room for a trial, and for the last fit of what it may choose."""
        if self.n_fits >= self.budget.fits:
            return False
        has_room = self.spent + self.cost(settings) <= self.budget.for_trials
        return has_room and (is_baseline or self._has_time(settings))

    def _has_time(self, settings: Map) -> bool:
        """Whether settings can be fitted on as many rows as a trial has at the end."""
        return self.planned_last(settings, self.n) <= self.budget.for_last_fits

    def planned_last(self, settings: Map, n: int | None = None) -> float:
        """Return the seconds that the last fit of settings is planned with, of all rows or n."""
        n = settings.rows or n or n_rows(self.sample.X)
        return CALL + self.profile.n_models * settings.cost(self.profile, n)

    def cost(self, settings: Map) -> float:
        """Return the seconds that a trial is planned with: its path, decoded and scored."""
        n, cells = min(self.n, settings.rows or self.n), settings.n_cells
        seconds = settings.path_cost(self.profile, n, self.sample.folds)
        scored = cells if self.scoring_seconds <= _SLOW else min(cells, _SCORED)
        return CALL + self.profile.n_models * seconds + scored * self.scoring_seconds

    @property
    def scoring_seconds(self) -> float:
        """The seconds that it takes to decode and score the held-out rows, as planned."""
        return 1e-4 + self.merit.truth.size * (3 + len(self.decoders)) * _DECODE

    def _pace(self, trials: list[Trial]) -> float:
        """Return the seconds of trials over those that they were planned with."""
        planned = sum(self.cost(trial.settings) for trial in trials)
        return max(sum(trial.seconds for trial in trials) / planned, _LEAST_PACE)

    def last_seconds(self, trial: Trial, settings: Map | None = None) -> float:
        """Return the seconds by the clock of the last fit of a trial, as its own were.

        `settings` are those of the trial, but for sizes.
        """
        return self.planned_last(settings or trial.settings) * self._pace([trial])

    def _clock_left(self) -> float:
        """Return the seconds that the clock leaves for trials, before averages and last fits."""
        if np.isinf(self.clock.seconds):
            return np.inf
        best = max(self.trials, key=lambda trial: trial.merit, default=None)
        last = 0.0 if best is None else self.last_seconds(best)
        kept = max(self.budget.for_last_fits, min(last, _MOST_KEPT * self.clock.seconds))
        return self.clock.left - kept - self.budget.for_averages

    def _in_time(self, settings: Map) -> Map | None:
        """Return settings, on fewer rows where the clock has no time for those; None for no time.

        A trial and its last fit are taken to be as slow as those of its map were so far.
        """
        if not self.trials or np.isinf(self.clock.seconds):
            return settings
        alike = [trial for trial in self.trials if trial.settings.family == settings.family]
        pace, left = self._pace(alike or self.trials), self.clock.left - self.budget.for_averages
        fewer = [n for n in self.steps_of_rows() if n is not None and n < (settings.rows or self.n)]
        for one in (settings, *(replace(settings, rows=n) for n in fewer)):
            last = max(pace * self.planned_last(one), self.budget.for_last_fits)
            has_time = pace * self.cost(one) + last <= left
            if has_time and (one is settings or repr(one) not in self._seen):
                return one
        return None

    def _warn_if_short(self, first: Map) -> None:
        """Say beforehand that the clock has no time for one trial and its last fit."""
        trial, last, left = self.cost(first), self.planned_last(first), self.clock.left
        if trial + last > left:
            warnings.warn(
                f"budget={self.clock.seconds:g} is short, and will be exceeded: of its seconds "
                f"{max(left, 0.0):.1f} are left for a first trial of about {trial:.1f} and a last "
                f"fit of about {last:.1f}.",
                UserWarning,
                stacklevel=8,
            )

    def _limit(self, settings: Map) -> float:
        """Return the seconds after which a trial is stopped; the first one is not."""
        if not self.trials:
            return np.inf
        most = max(_OVERRUN * self.cost(settings), _LEAST_LIMIT * self.clock.seconds)
        return min(most, self._clock_left())

    # Trying --------------------------------------------------------------------------------------

    def _try(self, settings: Map, stage: str) -> None:
        """Run a trial, or take it from the checkpoint, and note how good it was."""
        key = repr(settings)
        self._seen.add(key)
        self.spent += self.cost(settings)
        self.n_fits += 1
        if key not in self._results:
            start = self.clock.now()
            try:
                with self.clock.limit(self._limit(settings)):
                    cell, table, F = self._best_cell(settings)
            except (ValueError, LinAlgError, MemoryError, OutOfTime) as error:
                self.cut += isinstance(error, OutOfTime)
                self.failed.append(str(error))
                return
            more = {name: getattr(cell, name) for name in cell.filled}
            self._results[key] = more, self.clock.now() - start, table, F
            if self.checkpoint is not None:
                _keep(self.checkpoint, self._results)
        self.trials.append(self._trial(settings, stage, self._results[key]))
        top, score = max(one.score for one in self.trials), self.trials[-1].score
        self._bar.update()
        self._bar.set_postfix_str(f"best {top:.4f}, now {score:.4f} {settings.name}")

    def _trial(self, settings: Map, stage: str, result: Result) -> Trial:
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
        """Return the best settings of a path, their scores and predictions."""
        weights = self.sample.folds.weights
        cells = [(cell, F) for cell, F in settings.predictions(self.sample) if np.isfinite(F).all()]
        if self.scoring_seconds > _SLOW:  # then few cells are worth it: those of best coordinates
            cells.sort(key=lambda cell: -float(self.merit.smooth(cell[1]) @ weights))
            cells = cells[:_SCORED]
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
    """Write the results of all trials into the file, if the last one is old enough."""
    arrays: dict[str, np.ndarray] = {}
    for i, (_, _, table, F) in enumerate(results.values()):
        arrays |= {f"table_{i}": table, f"F_{i}": F}
    records = [[key, more, seconds] for key, (more, seconds, _, _) in results.items()]
    checkpoint.keep(len(records), records=json.dumps(records), **arrays)


def _stored(checkpoint: Checkpoint) -> dict[str, Result]:
    """Return the results that a file has, by the settings that were to be tried."""
    arrays = checkpoint.kept()
    if arrays is None:
        return {}
    records = enumerate(json.loads(str(arrays["records"])))
    return {
        key: (more, seconds, arrays[f"table_{i}"], arrays[f"F_{i}"])
        for i, (key, more, seconds) in records
    }
