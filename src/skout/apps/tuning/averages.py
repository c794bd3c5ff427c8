"""Choose a trial or an average of trials, and the number of rows of their last fits.

Members are added one at a time (ensemble selection, Caruana, 2004). Each part of the held-out rows
has a score of its own, so that what is chosen on some parts can be scored on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from skout.dev import check_rng, take

from .data import some_rows
from .folds import Folds
from .maps import Map
from .scoring import Merit, column_scores
from .search import ModelSearch, Trial

# Standard errors by which one member must beat an average to be preferred, and by which a model
# must beat the constant prediction in the metric or in R2 of coordinates (the one-standard-error
# rule); and by which it must in the metric where R2 is not better.
_ERRORS, _MORE_ERRORS = 1.0, 2.0
# Share of the seconds left on the clock that last fits may take: estimates may be too low. And the
# share of the budget that they may take even if none are left.
_USED, _LEAST = 0.8, 0.1
# Seconds that averages may take with a slow metric, also where the budget is in fits.
_MOST_SECONDS = 5.0
# Trials that the choice is among, at least.
_LEAST_MEMBERS = 3


class Averaged(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """The weighted mean of regressors that predict the same coordinates.

    Weights, which sum to 1, are of shape (n_members,), or (n_members, p) for weights by output;
    None is equal weights. `rows` has the number of rows, drawn at random, that each member is
    fitted on; None, for one of them or for all, is all rows.
    """

    # also where scikit-learn routes metadata: whoever gives weights wants them used
    __metadata_request__fit: ClassVar = {"sample_weight": True, "has_time": True}

    def __init__(
        self,
        members: Sequence[Any],
        weights: np.ndarray | None = None,
        rows: Sequence[int | None] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.members = members
        self.weights = weights
        self.rows = rows
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        has_time: Callable[[int], bool] | None = None,
    ) -> Averaged:
        """Fit each member on all rows, or on as many as `rows` says.

        `has_time` is called with the number of each member before its fit; members without time
        are left out, and the weights of the others scaled up. `used_` has the numbers of those that
        were fitted.
        """
        targets = np.reshape(y, (len(y), -1))
        rows = [None] * len(self.members) if self.rows is None else self.rows
        n, weights = len(self.members), self._all_weights
        self.members_: list[Any] = []
        self.used_: list[int] = []
        for k, (member, most) in enumerate(zip(self.members, rows, strict=True)):
            each = weights[[*self.used_, *range(k + 1, n)]].sum(axis=0)  # without this member
            if has_time is not None and np.all(each > 0.0) and not has_time(k):
                continue
            self.used_.append(k)
            data: tuple[Any, ...] = X, targets, sample_weight
            if most is not None:
                chosen = some_rows(targets, most, check_rng(self.random_state))
                data = tuple(None if part is None else take(part, chosen) for part in data)
            self.members_.append(_fitted(member, *data))
        used = weights[self.used_]
        self.weights_: np.ndarray = used if len(self.used_) == n else used / used.sum(axis=0)
        self.n_features_in_: int = (
            int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) > 1 else 1
        )
        return self

    @property
    def _all_weights(self) -> np.ndarray:
        """The weights of all members, equal ones by default."""
        n = len(self.members)
        return np.full(n, 1.0 / n) if self.weights is None else np.asarray(self.weights)

    def predict(self, X: Any) -> np.ndarray:
        """Return the weighted mean of the predictions, shape (n, p)."""
        total: Any = 0.0
        weights = getattr(self, "weights_", self._all_weights)  # older files have no weights_
        for weight, member in zip(weights, self.members_, strict=True):
            F = np.asarray(member.predict(X), dtype=np.float64)
            total = total + weight * (F[:, None] if F.ndim == 1 else F)
        return np.asarray(total)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _fitted(member: Any, X: Any, y: np.ndarray, weights: np.ndarray | None) -> Any:
    """Return a fitted clone of a member; a pipeline passes the weights to its map."""
    name = "map__sample_weight" if isinstance(member, Pipeline) else "sample_weight"
    params = {} if weights is None else {name: weights}
    with config_context(enable_metadata_routing=False):  # of a pipeline of our own
        return clone(member).fit(X, y, **params)


class Choice(NamedTuple):
    """An average of members, and the number of its decoder."""

    counts: tuple[int, ...]  # the weight of each member, before division by their sum
    decoder: int


@dataclass
class Members:
    """The trials that may be averaged, and the scores of averages computed so far."""

    F: Sequence[np.ndarray]  # (n_held, p) predicted coordinates of each member
    merit: Merit
    shares: np.ndarray  # (n,) the share of the time for last fits that each one's takes
    scored: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def table(self, counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores and the merits of an average, each of shape (n_decoders, n_parts)."""
        if counts not in self.scored:
            mean = np.zeros_like(self.F[0])
            for i in np.flatnonzero(counts).tolist():
                mean += np.float32(counts[i] / sum(counts)) * self.F[i]
            scores = self.merit.metric(mean)
            self.scored[counts] = scores, scores + self.merit.smooth(mean)
        return self.scored[counts]

    def has_time(self, counts: tuple[int, ...]) -> bool:
        """Whether there is time for the last fits of an average; always for the shortest alone."""
        used = np.flatnonzero(counts)
        is_shortest = len(used) == 1 and self.shares[used[0]] == self.shares.min()
        return bool(is_shortest or self.shares[used].sum() <= 1.0)

    def with_another(self, counts: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the counts with one more of each member."""
        return [tuple(step) for step in (np.eye(len(self.F), dtype=int) + counts).tolist()]


def choose(members: Members, parts: np.ndarray, most: int) -> Choice:
    """Return the best average by some parts of the held-out rows.

    A member is added in each of at most `most` steps, as long as there is time for all last fits.
    Of equally good averages the larger one is taken.
    """
    weights = members.merit.folds.weights[parts]
    weights = weights / weights.sum()
    best, top = Choice((0,) * len(members.F), 0), -np.inf
    counts = best.counts
    for _ in range(most):
        steps = [step for step in members.with_another(counts) if members.has_time(step)]
        merits = np.array([members.table(step)[1][:, parts] @ weights for step in steps])
        at, decoder = np.unravel_index(np.argmax(merits), merits.shape)
        counts = steps[at]
        if not merits[at, decoder] < top:
            best, top = Choice(counts, int(decoder)), merits[at, decoder]
        elif sum(counts) > sum(best.counts) + 2:  # several steps without a gain
            break
    return best


def cross_fitted(members: Members, most: int, which: int = 0) -> np.ndarray:
    """Return the score of each part by the average that the other parts choose.

    The merit in place of the score if `which` is 1.
    """
    blocks = members.merit.folds.blocks
    parts = np.arange(len(blocks))
    scores = np.empty(len(blocks))
    for block in np.unique(blocks):
        scored = blocks == block
        choice = choose(members, parts if scored.all() else parts[~scored], most)
        scores[scored] = members.table(choice.counts)[which][choice.decoder, scored]
    return scores


@dataclass(frozen=True)
class Chosen:
    """The chosen trials, their weights and decoder, and the cross-fitted score of the choice."""

    trials: list[Trial]
    weights: np.ndarray  # (members,), or (members, p) where each output has its own
    decoder: str
    score: float
    error: float
    cut: int  # 1 where the clock left less to choose from, else 0

    @property
    def F(self) -> np.ndarray:
        """Coordinates that the average predicts for the held-out rows, shape (n_held, p)."""
        return np.asarray(
            sum(w * trial.F for w, trial in zip(self.weights, self.trials, strict=True))
        )


def choice_of(search: ModelSearch, by_column: bool, ensemble: bool) -> Chosen:
    """Return the best trial, or an average if it is better on rows that did not choose it."""
    planned, most = _steps(search)
    finalists = search.finalists(_time_left(search)[1])
    trials, folds = _best_of(finalists, max(most, _LEAST_MEMBERS)), search.sample.folds
    members = Members([trial.F for trial in trials], search.merit, _shares(search, trials))
    alone = members.with_another([0] * len(trials))
    members.scored |= dict(zip(alone, (trial.table for trial in trials), strict=True))
    scores, steps = cross_fitted(members, 1), 1
    if ensemble and min(len(trials), most) > 1:
        averaged = cross_fitted(members, most)
        # averages vary less with the rows: one member must be clearly better
        if (scores - averaged) @ folds.weights <= _ERRORS * folds.error(scores - averaged):
            scores, steps = averaged, most
    constant = search.constant
    if constant is not None and not _is_better(search, members, steps, constant):
        score, error = constant.score, constant.error
        return Chosen([constant], np.ones(1), constant.decoder, score, error, 0)
    choice = choose(members, np.arange(folds.n_parts), steps)
    weights = np.tile(np.array(choice.counts)[:, None], (1, members.F[0].shape[1]))
    if steps > 1 and by_column and weights.shape[1] > 1:
        by_columns, each = _column_choices(members, steps)
        has_time = members.has_time(tuple(each.any(axis=1).astype(int)))
        if has_time and by_columns @ folds.weights > scores @ folds.weights:
            scores, weights = by_columns, each
    weights = weights / weights.sum(axis=0)
    used = np.flatnonzero(weights.any(axis=1))
    return Chosen(
        [trials[i] for i in used],
        weights[used] if np.ptp(weights, axis=1).any() else weights[used, 0],
        search.decoders[choice.decoder],
        float(scores @ folds.weights),
        folds.error(scores),
        int(most < planned or len(finalists) < len(search.finalists())),
    )


def _is_better(search: ModelSearch, members: Members, most: int, constant: Trial) -> bool:
    """Whether the choice beats the constant prediction by more than noise.

    It does where neither the metric nor R2 of coordinates is worse, and one of them is better by
    more than one standard error; or where the metric is by more than two.
    """
    folds, at = members.merit.folds, search.decoders.index(constant.decoder)
    scores, merits = (
        cross_fitted(members, most, which) - constant.table[which][at] for which in (0, 1)
    )
    gains = [_gain(folds, parts) for parts in (scores, merits - scores)]
    return gains[0] > _MORE_ERRORS or (min(gains) >= 0.0 and max(gains) > _ERRORS)


def _gain(folds: Folds, differences: np.ndarray) -> float:
    """Return the mean of differences over parts in units of its standard error."""
    mean, error = float(differences @ folds.weights), folds.error(differences)
    return mean / error if error > 0.0 else float(np.copysign(np.inf, mean)) if mean else 0.0


def _steps(search: ModelSearch) -> tuple[int, int]:
    """Return the number of averaging steps that the plan has time for, and that the clock has."""
    most = _MOST_SECONDS if search.merit.seconds else np.inf
    calls = min(search.budget.for_averages, most) / search.scoring_seconds
    steps = 12 if calls > 500 else 8 if calls > 200 else 5 if calls > 60 else 3
    seconds, n = search.scoring
    by_clock = search.clock.left / 2 / max(seconds / max(n, 1), 1e-6)
    return steps, steps if by_clock > 50 * steps else 3 if by_clock > 60 else 1


def _best_of(trials: list[Trial], most: int) -> list[Trial]:
    """Return at most `most` trials, best first, before others those that are best of their map."""
    ranked = sorted(trials, key=lambda trial: -trial.merit)
    first = {trial.settings.name: trial for trial in reversed(ranked)}
    ranked.sort(key=lambda trial: trial is not first[trial.settings.name])
    return sorted(ranked[:most], key=lambda trial: -trial.merit)


def _time_left(search: ModelSearch) -> tuple[float, float]:
    """Return the seconds for last fits: those of the plan, and those of the clock."""
    clock = max(_USED * search.clock.left, _LEAST * search.clock.seconds)
    return search.budget.for_last_fits, clock


def _shares(search: ModelSearch, trials: list[Trial]) -> np.ndarray:
    """Return the share of the time for last fits that each trial's takes, (n,).

    It is the larger one of its shares of the planned seconds and of those of the clock.
    """
    planned, clock = _time_left(search)
    return np.array(
        [
            max(search.planned_last(trial.settings) / planned, search.last_seconds(trial) / clock)
            for trial in trials
        ]
    )


def last_sizes(search: ModelSearch, chosen: Chosen) -> list[Map]:
    """Return the settings of the last fits: those of trials, on as many rows as there is time for.

    With all rows they have more landmarks and trees, if there is time. The seconds that are left
    after fits on the rows of the trials are divided by the weights of the members.
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
    """Return the settings of one last fit, within seconds of the plan and of the clock."""
    settings, rows = trial.settings, trial.settings.rows
    if rows is not None:
        more = [n for n in search.steps_of_rows() if n is None or n > rows]
        sizes = (size for n in more for size in _sizes_of(replace(settings, rows=n), n or search.n))
        in_time = (size for size in sizes if search.last_seconds(trial, size) <= clock)
        settings = next(in_time, settings)
    larger = settings.larger(rows is not None and settings.rows is None)
    is_short = search.planned_last(larger) < planned and search.last_seconds(trial, larger) < clock
    return larger if is_short else settings


def _sizes_of(settings: Map, n: int) -> list[Map]:
    """Return the settings and their variants in size for n rows, such as numbers of landmarks."""
    return [settings, *(size for size, _ in settings.sizes(n))]


def _column_choices(members: Members, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cross-fitted scores and weights (members, p) of averages chosen for each column."""
    folds, truth = members.merit.folds, members.merit.truth
    scores, weights = [], []
    for j in range(truth.shape[1]):
        column = truth[:, j : j + 1]
        merit = Merit(column_scores(column, folds), column, folds)
        alone = Members([F[:, j : j + 1] for F in members.F], merit, members.shares)
        scores.append(cross_fitted(alone, most))
        weights.append(choose(alone, np.arange(folds.n_parts), most).counts)
    return np.mean(scores, axis=0), np.column_stack(weights)
