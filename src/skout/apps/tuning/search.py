"""The search: a portfolio on few rows, the best of it on more, then neighbours of the best.

What is tried next depends on scores and on the costs of `costs`, never on the clock. The clock only
cuts off: a trial that would not end in time is left out or stopped, and the search says so.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from tqdm.auto import tqdm

from skout.dev import check_number, check_rng, n_rows, take

from .checkpoint import Checkpoint
from .clock import OutOfTime
from .costs import SCORED, SLOW, fit_seconds, scoring_seconds, trial_seconds
from .maps import kernel_of
from .space import RIDGES, Profile, baseline_forest, family, neighbours, portfolio
from .stacking import Judge
from .trials import Sample, predictions

__all__ = ["Budget", "Search", "Trial", "as_budget"]

Settings = dict[str, Any]
Cell = tuple[Settings, np.ndarray]

# Shares of the budget: of all that is planned, and of it for the last fits and for averages.
_PLANNED, _LAST, _AVERAGES = 0.85, 0.2, 0.08
# A trial may take so many times its planned seconds by the clock, or this share of the budget.
_OVERRUN, _LEAST_LIMIT = 5.0, 0.125
# Seconds that are kept for the last fit by the clock are at most this share of the budget.
_MOST_KEPT = 0.4
# Shares of the seconds for trials that one of all rows may take, or one of fewer, of many rows.
_WHOLE, _PART = 0.3, 0.2
# Rows and landmarks of the first round of many rows, and landmarks of the others.
_FIRST_ROWS, _FIRST_LANDMARKS = 2000, 400
_FIRST_SHARE = 0.4  # of the seconds for trials
_LANDMARKS = (700, 1400, 2200)
# Settings that are promoted from few rows to all, besides the best of each map.
_PROMOTED = 6
# Share of the budget of trials that a forest of many trees may take.
_MOST_OF_ONE = 0.05
# Rows up to which kernel ridge is exact.
_EXACT = 1200
_WIDTH_ROWS = 1000
# A machine counts as so many times faster than planned at most, where last fits are foreseen.
_LEAST_PACE = 0.1


@dataclass
class Trial:
    """What a trial found."""

    settings: Settings  # all of them, also those of the best cell of its path
    decoder: Settings
    table: tuple[np.ndarray, np.ndarray]  # scores and merits of that cell, (n_decoders, n_parts)
    score: float  # of the best decoder, the mean over the held-out rows
    merit: float
    error: float  # the standard error of the score
    seconds: float
    stage: str
    F: np.ndarray = field(repr=False)  # (n_held, p) predicted coordinates, float32

    @property
    def is_full(self) -> bool:
        """Whether it was on all rows."""
        return self.n_rows == np.inf

    @property
    def n_rows(self) -> float:
        """Rows that it was trained on, inf for all of them."""
        return self.settings.get("rows") or np.inf


@dataclass(frozen=True)
class Budget:
    """Seconds or fits, of which one is infinite."""

    seconds: float = np.inf
    fits: float = np.inf

    @property
    def for_trials(self) -> float:
        """Seconds that are planned for trials."""
        return _PLANNED * (1.0 - _LAST - _AVERAGES) * self.seconds

    @property
    def for_averages(self) -> float:
        """Seconds that are planned for the choice of averages."""
        return _PLANNED * _AVERAGES * self.seconds

    @property
    def for_last_fits(self) -> float:
        """Seconds that are planned for fits of the winner on all rows."""
        return _PLANNED * _LAST * self.seconds


def as_budget(budget: Any) -> Budget:
    """Return a budget from seconds, or from a text such as "40 fits"."""
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+)\s*fits?\s*", budget)
        if found is None or int(found[1]) == 0:
            raise ValueError(
                f'budget must be seconds, or a number of fits such as "40 fits". Got {budget!r}.'
            )
        return Budget(fits=float(found[1]))
    return Budget(seconds=float(check_number(budget, "budget", strict=True)))


class Search:
    """Trials, one after another."""

    def __init__(
        self,
        sample: Sample,
        profile: Profile,
        judge: Judge,
        decoders: list[Settings],
        budget: Budget,
        checkpoint: Checkpoint | None = None,
        verbose: bool = False,
    ) -> None:
        self.sample, self.profile, self.judge = sample, profile, judge
        self.decoders, self.budget, self.checkpoint = decoders, budget, checkpoint
        self.trials: list[Trial] = []
        self.failed: list[Settings] = []
        self.spent, self.n_fits = 0.0, 0
        self.interrupted = False
        self.cut = 0  # trials that the clock left out or stopped
        self.clock = sample.clock
        self.scoring = [0.0, 0]  # seconds, and how often
        self._seen: set[str] = set()
        self._bar = tqdm(desc="trials", disable=not verbose, unit="trial")

    @property
    def n(self) -> int:
        """Rows to train on."""
        return self.sample.folds.n_train

    def run(self) -> None:
        """Try settings until the budget is spent; Ctrl-C stops with what there is."""
        try:
            if self.profile.grows_trees:
                import sklearn.ensemble  # noqa: F401  slow to import, and no part of a trial
            for stage, settings in self._plan():
                if not self._seen:
                    self._warn_if_short(settings)
                in_time = self._in_time(settings)
                self._seen.add(self._key(settings))
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

    def _warn_if_short(self, first: Settings) -> None:
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

    def _clock_left(self) -> float:
        """Return the seconds that the clock leaves for trials, before averages and last fits."""
        if np.isinf(self.clock.seconds):
            return np.inf
        best = max(self.trials, key=lambda one: one.merit, default=None)
        last = 0.0 if best is None else self.last_seconds(best)
        kept = max(self.budget.for_last_fits, min(last, _MOST_KEPT * self.clock.seconds))
        return self.clock.left - kept - self.budget.for_averages

    def _in_time(self, settings: Settings) -> Settings | None:
        """Return settings, on fewer rows where the clock has no time for those; None for no time.

        A trial and its last fit are taken to be as slow as those of its map were so far.
        """
        if not self.trials or np.isinf(self.clock.seconds):
            return settings
        own = [one for one in self.trials if family(one.settings) == family(settings)]
        pace, left = self._pace(own or self.trials), self.clock.left - self.budget.for_averages
        fewer = ({**settings, "rows": n} for n in self.steps_of_rows() if n is not None)
        sizes = [one for one in fewer if one["rows"] < (settings["rows"] or self.n)]
        for one in (settings, *sizes):
            last = max(pace * self.planned_last(one), self.budget.for_last_fits)
            has_time = pace * self.cost(one) + last <= left
            if has_time and (one is settings or self._is_new(one)):
                return one
        return None

    def _is_new(self, settings: Settings) -> bool:
        return self._key(settings) not in self._seen

    def _pace(self, trials: list[Trial]) -> float:
        """Return the seconds of trials over those that they were planned with."""
        planned = sum(self.cost(one.settings) for one in trials)
        return max(sum(one.seconds for one in trials) / planned, _LEAST_PACE)

    def last_seconds(self, trial: Trial, settings: Settings | None = None) -> float:
        """Return the seconds by the clock of the last fit of a trial, as its own were.

        `settings` are those of the trial, but for sizes.
        """
        settings = trial.settings if settings is None else settings
        return self.planned_last(settings) * self._pace([trial])

    def planned_last(self, settings: Settings) -> float:
        """Return the seconds that the last fit of settings is planned with."""
        n = settings.get("rows") or n_rows(self.sample.X)
        return fit_seconds(settings, self.profile, n)

    def _plan(self) -> Iterator[tuple[str, Settings]]:
        """Yield what to try next, as long as there is budget for it."""
        todo = portfolio(self.profile)
        most = (1.0 - _FIRST_SHARE) * self._clock_left()  # for trials on more rows
        few, stage = self._is_large, "few rows" if self._is_large else "portfolio"
        yield from self._affordable(stage, [self._sized(todo[0], full=not few)])
        first = baseline_forest(self.profile)
        if first is not None:
            yield from self._affordable("baseline", [self._sized(first, full=not few)])
        if few:
            for one in self._affordable(stage, [self._sized(one, full=False) for one in todo]):
                if self.spent > _FIRST_SHARE * self.budget.for_trials:
                    break
                if self._clock_left() < most:
                    self.cut += 1
                    break
                yield one
            todo = self._promoted(todo)
        yield from self._affordable("portfolio", (self._sized(one) for one in todo))
        yield from self._refinements()

    @property
    def _is_large(self) -> bool:
        """Whether settings are compared on few rows first."""
        return self.n > 1.5 * _FIRST_ROWS and np.isfinite(self.budget.seconds)

    def steps_of_rows(self) -> list[int | None]:
        """Return how many rows a trial may be on, all of them (None) first."""
        sizes = [_FIRST_ROWS * 2**k for k in range(32)]
        fewer = [n for n in sizes if 1.3 * n < self.n] if self._is_large else []
        return [None, *reversed(fewer)]

    def _sized(self, settings: Settings, full: bool = True, step: int = 0) -> Settings:
        """Return settings with rows and landmarks: few, or all that there is time for."""
        if not full:
            return self._with_rows(settings, min(self.n, _FIRST_ROWS), _FIRST_LANDMARKS)
        most = _LANDMARKS[min(step, len(_LANDMARKS) - 1)]
        whole = (max(most, _EXACT) if self.n <= _EXACT else most, most, _FIRST_LANDMARKS)
        sizes = [(None, m) for m in whole] + [(n, most) for n in self.steps_of_rows() if n]
        for rows, landmarks in sizes:
            sized = self._with_rows(settings, rows, landmarks)
            room = self.budget.for_trials * (_WHOLE if rows is None else _PART)
            if self._has_time(sized) and self.cost(sized) <= room:
                break
        return sized

    def _with_rows(self, settings: Settings, rows: int | None, landmarks: int) -> Settings:
        """Return settings on so many rows, None for all: exact if there are no more than landmarks.

        First trials, on few rows, have fewer trees too.
        """
        settings = {**settings, "rows": rows}
        if settings["map"] in RIDGES:
            settings["sketch"] = None if (rows or self.n) <= landmarks else landmarks
        elif "n_estimators" in settings:
            is_first = rows is not None and landmarks == _FIRST_LANDMARKS
            settings["n_estimators"] = 50 if is_first else self._trees(settings)
        return settings

    def _trees(self, settings: Settings) -> int:
        """Return the trees of a trial: fewer where they would take much of the budget."""
        most = _MOST_OF_ONE * self.budget.for_trials
        fit = (n for n in (100, 50) if self.cost({**settings, "n_estimators": n}) <= most)
        return next(fit, 30)

    def _promoted(self, todo: list[Settings]) -> list[Settings]:
        """Return the best settings on few rows, and the best of each map, in that order."""
        known = {self._origin(one): one.merit for one in self.trials}
        tried = [one for one in todo if self._key(one) in known]
        ranked = sorted(tried, key=lambda one: -known[self._key(one)])
        met: set[str] = set()
        chosen = []
        for place, one in enumerate(ranked):
            if place < _PROMOTED or family(one) not in met:
                chosen.append(one)
            met.add(family(one))
        return chosen

    @staticmethod
    def _bare(settings: Settings) -> Settings:
        """Return settings without what a trial adds."""
        added = ("rows", "sketch", "gamma", "alpha", "centre", "n_neighbors", "weights", "C")
        found = {key: value for key, value in settings.items() if key not in added}
        if "n_estimators" in found:
            found["n_estimators"] = 100
        if found["map"] == "boosting":
            found["max_iter"] = found.pop("most_iter", found["max_iter"])
        return found

    def _refinements(self) -> Iterator[tuple[str, Settings]]:
        """Yield neighbours of the best trial of each map, the best maps more often."""
        while True:
            untried = (self._untried(leader) for leader in self._leaders())
            found = next((one for one in untried if one is not None), None)
            if found is None:
                return
            yield "refinement", found

    def finalists(self, seconds: float = np.inf) -> list[Trial]:
        """Return the trials to choose from: of the same settings those on most rows.

        They are of those whose last fit, on as many rows, takes at most so many seconds.
        """
        most: dict[str, float] = {}
        in_time = [one for one in self.trials if self.last_seconds(one) <= seconds]
        in_time = in_time or sorted(self.trials, key=self.last_seconds)[:1]
        for one in in_time:
            origin = self._origin(one)
            most[origin] = max(one.n_rows, most.get(origin, 0.0))
        return [one for one in in_time if one.n_rows == most[self._origin(one)]]

    def _leaders(self) -> list[Trial]:
        """Return the best trial of each map, best first."""
        found: dict[str, Trial] = {}
        for one in self.finalists():
            known = found.get(family(one.settings))
            if known is None or one.merit > known.merit:
                found[family(one.settings)] = one
        leaders = sorted(found.values(), key=lambda one: -one.merit)
        turn = len(self.trials) % 4  # best, best, second, third
        at = min((0, 0, 1, 2)[turn], max(len(leaders) - 1, 0))
        return leaders[at : at + 1] + leaders[:at] + leaders[at + 1 :]

    def _untried(self, leader: Trial) -> Settings | None:
        bare = self._bare(leader.settings)
        size = leader.settings.get("sketch")
        step = _LANDMARKS.index(size) if size in _LANDMARKS else 0
        candidates = [self._sized(one, step=step) for one in neighbours(bare, self.profile)]
        if size is not None and step + 1 < len(_LANDMARKS):
            candidates.insert(2, self._sized(bare, step=step + 1))
        for one in candidates:
            if self._is_new(one) and self._has_room(one):
                return one
        return None

    def _affordable(self, stage: str, todo: Iterable[Settings]) -> Iterator[tuple[str, Settings]]:
        for one in todo:
            has_room = self._has_room(one, stage == "baseline") or not self.trials
            if self._is_new(one) and has_room:
                yield stage, one

    def _has_room(self, settings: Settings, is_baseline: bool = False) -> bool:
        """Whether the budget has room for a trial, and for the last fit of what it may choose."""
        if self.n_fits >= self.budget.fits:
            return False
        has_room = self.spent + self.cost(settings) <= self.budget.for_trials
        return has_room and (is_baseline or self._has_time(settings))

    def _has_time(self, settings: Settings) -> bool:
        """Whether settings can be fitted on their rows at the end."""
        n = settings.get("rows") or self.n
        return fit_seconds(settings, self.profile, n) <= self.budget.for_last_fits

    def cost(self, settings: Settings) -> float:
        """Return the seconds that a trial is planned with."""
        return trial_seconds(settings, self.profile, self.sample.folds, len(self.decoders))

    @staticmethod
    def _key(settings: Settings) -> str:
        return repr(sorted((key, repr(value)) for key, value in settings.items()))

    def _origin(self, trial: Trial) -> str:
        """Return the key of what was to be tried, before the trial added to it."""
        return self._key(self._bare(trial.settings))

    def _try(self, settings: Settings, stage: str) -> None:
        """Run a trial, or take it from the checkpoint, and note what it found."""
        self._seen.add(self._key(settings))
        self.spent += self.cost(settings)
        self.n_fits += 1
        found = None if self.checkpoint is None else self.checkpoint.find(settings)
        if found is None:
            start = self.clock.now()
            try:
                with self.clock.limit(self._limit(settings)):
                    more, table, F = self._best_cell(settings)
            except (ValueError, LinAlgError, MemoryError, OutOfTime) as error:
                self.cut += isinstance(error, OutOfTime)
                self.failed.append({**settings, "error": str(error)})
                return
            found = {"more": more, "seconds": self.clock.now() - start}, table, F
            if self.checkpoint is not None:
                self.checkpoint.add(settings, *found)
        record, table, F = found
        self._note({**settings, **record["more"]}, table, F, record["seconds"], stage)

    def _limit(self, settings: Settings) -> float:
        """Return the seconds after which a trial is stopped; the first one is not."""
        if not self.trials:
            return np.inf
        most = max(_OVERRUN * self.cost(settings), _LEAST_LIMIT * self.clock.seconds)
        return min(most, self._clock_left())

    def _best_cell(self, settings: Settings) -> tuple[Settings, np.ndarray, np.ndarray]:
        """Return what completes the settings of the best cell of a path, its scores and F."""
        weights = self.sample.folds.weights
        settings, resolved = self._resolved(settings)
        best: Any = None
        for more, F in self._likely(predictions(settings, self.sample)):
            self.clock.check()
            start = self.clock.now()
            table = self.judge.metric(F)
            self.scoring = [self.scoring[0] + self.clock.now() - start, self.scoring[1] + 1]
            merit = float(((table + self.judge.smooth(F)) @ weights).max())
            if not np.isnan(merit) and (best is None or merit > best[0]):
                best = merit, {**resolved, **more}, table, F
        if best is None:
            raise ValueError("no finite predictions, or no score of them that is a number")
        return best[1:]

    def _likely(self, found: Iterator[Cell]) -> list[Cell]:
        """Return the cells of a path that are scored: all, or those of best coordinates.

        Scores are what counts, but where decoding takes long few cells are worth it.
        """
        cells = [(more, F) for more, F in found if np.all(np.isfinite(F))]
        held, p = self.judge.truth.shape
        if scoring_seconds(held, p, len(self.decoders)) > SLOW:
            weights = self.sample.folds.weights
            cells.sort(key=lambda cell: -float(self.judge.smooth(cell[1]) @ weights))
            cells = cells[:SCORED]
        return cells

    def _resolved(self, settings: Settings) -> tuple[Settings, Settings]:
        """Return settings with the width of the kernel as a number, and that number."""
        if "most_iter" not in settings and settings["map"] == "boosting":
            return settings, {"most_iter": settings["max_iter"]}
        if "width" not in settings:
            return settings, {}
        X = self.sample.with_rows(settings.get("rows")).rows(settings["scaling"])
        rng = check_rng(self.sample.seed)
        some = np.sort(rng.permutation(n_rows(X))[:_WIDTH_ROWS])
        kernel = kernel_of({**settings, "gamma": "median"})
        gamma = kernel.resolve(kernel.encode(take(X, some)), rng).gamma
        power = 1.0 if settings["kernel"] == "gaussian" else 0.5
        resolved = {"gamma": float(gamma) * settings["width"] ** power}
        return {**settings, **resolved}, resolved

    def _note(
        self, settings: Settings, table: np.ndarray, F: np.ndarray, seconds: float, stage: str
    ) -> None:
        folds = self.sample.folds
        means = table @ folds.weights
        at = int(np.argmax(means))
        smooth = self.judge.smooth(F)
        trial = Trial(
            settings,
            self.decoders[at],
            (table, table + smooth),
            float(means[at]),
            float(means[at] + smooth @ folds.weights),
            folds.error(table[at]),
            seconds,
            stage,
            F,
        )
        self.trials.append(trial)
        top = max(one.score for one in self.trials)
        self._bar.update()
        self._bar.set_postfix_str(f"best {top:.4f}, now {trial.score:.4f} {settings['map']}")
