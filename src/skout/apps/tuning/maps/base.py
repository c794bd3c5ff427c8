"""`Map`: the interface of maps from inputs to output coordinates, which `Tuned` chooses from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from skout.dev import n_rows, outputs_by_rows, take

from ..clock import Clock
from ..data import weighed
from ..folds import Folds
from ..inputs import ColumnScaler
from ..samples import Inputs, Profile, Sample

#: An estimator of scikit-learn, which has no types.
Regressor: TypeAlias = Any
#: Settings that are complete, and the coordinates that they predict for the held-out rows.
Path: TypeAlias = Iterator[tuple["Map", np.ndarray]]
Settings = TypeVar("Settings", bound="Map")

# Costs are in seconds of a machine of two cores, fitted to trials of experiments/ours/tuned.py. The
# plan of a search follows them and not the clock, so that the same seed makes the same choice
# wherever it runs; where a machine is faster or slower, the search learns its pace.
# How skewed targets are whose logarithms are fitted; what predicted logarithms may be above those
# of training.
_SKEWED, _ABOVE = 3.0, 0.2
#: Operations of products of matrices in a second; seconds for a kernel value, beyond its product;
#: for a row, a feature and a level of a tree; for anything at all.
FLOPS, KERNEL_VALUE, SPLIT, CALL = 1.5e10, 4e-9, 4e-8, 0.02


@dataclass(frozen=True, kw_only=True)
class Map(ABC):
    """Settings of a map from inputs to output coordinates, as `Tuned` tries them.

    A map is a subclass that is a frozen dataclass. Its fields are its settings, each with a default
    and known by its `repr`. It says how to `build` the regressor, what a fit would `cost`, and what
    to try: `defaults`, then `neighbors` of what did well. The rest has defaults.

    Attributes
    ----------
    name : str
        What `results_` calls it.
    family : str
        Maps of one family are refined as one; by default the name.
    filled : tuple of str
        Fields that a trial fills in: of what is to be tried they are as by default.
    takes_weights, takes_gaps, takes_sparse : bool
        Whether the regressor takes `sample_weight`, targets with NaN, and sparse rows. Where it
        does not, it is not tried with weights; there is one for each set of outputs that have the
        same rows; rows are made dense.
    is_quick : bool
        Whether all folds are tried where they are dealt more than once; else the first of them.
    n_cells : int
        How many settings the `path` yields.
    rows : int or None
        How many rows it is fitted on, None for all.
    scaling : str
        What is done to columns first, see `skout.apps.tuning.ColumnScaler`.
    of_logs : bool
        Whether it predicts logarithms of those outputs that are skewed, see `LogTargets`.
    """

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    filled: ClassVar[tuple[str, ...]] = ()
    takes_weights: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    is_quick: ClassVar[bool] = False
    n_cells: ClassVar[int] = 1

    rows: int | None = None
    scaling: str = "none"
    of_logs: bool = field(default=False, kw_only=True)

    def __init_subclass__(cls) -> None:
        cls.family = cls.family or cls.name

    @classmethod
    @abstractmethod
    def defaults(cls, profile: Profile) -> Iterable[tuple[float, Self]]:
        """Return settings to begin with, and their places: 0 is tried first, 20 last.

        There are none where the map is of no use, e.g. `profile.is_object` where it needs vectors.
        """

    def neighbors(self, profile: Profile) -> Iterable[Map]:
        """Return settings that differ from these, which did well, in one respect.

        Likely gains come first. By default they have other scalings.
        """
        if profile.is_object:
            return ()
        of_counts, of_numbers = ("unit", "tfidf"), ("quantile", "none", "standard")
        return other_scalings(self, of_counts if profile.is_sparse else of_numbers)

    @abstractmethod
    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        """Return the regressor that the settings describe, not fitted.

        It is fitted on rows and their output coordinates, of shape (n, p), and predicts these.
        """

    @abstractmethod
    def cost(self, profile: Profile, n: int) -> float:
        """Return about how many seconds one fit on n rows takes on two cores."""

    def path_cost(self, profile: Profile, n: int, folds: Folds) -> float:
        """Return the seconds of a `path`, trained on n rows at most; by default a fit each fold."""
        return folds.n_first * (CALL + self.cost(profile, n))

    def path(self, sample: Sample) -> Path:
        """Yield settings with what trials fill in, and predictions for the held-out rows.

        By default there is one of them, these settings, fitted on each fold. Where settings share
        work, such as penalties or numbers of trees, a path has all of them for the price of one.
        """
        X, F = sample.rows(self.scaling), sample.empty()
        for k, (train, held, rows) in enumerate(sample.timed_folds()):
            model = self.build(sample.seed + k, sample.n_jobs)
            params = weighed(sample.weights(train)) | self.fit_params(sample.clock)
            model.fit(take(X, train), sample.T[train], **params)
            F[rows] = np.reshape(model.predict(take(X, held)), (len(held), -1))
        yield self, F

    def fit_params(self, clock: Clock) -> dict[str, Any]:
        """Return what `fit` of the regressor takes in trials: the clock, if it checks it."""
        return {}

    def sizes(self, n: int) -> list[tuple[Self, float]]:
        """Return the settings in the sizes that n rows may be tried in, the largest first.

        The numbers beside them are the shares of the time for trials that each may take at most.
        """
        return [(self, 1.0)]

    def larger(self, has_more_rows: bool) -> Self:
        """Return what the last fit may be, if there is time: with more trees, say.

        `has_more_rows` is whether it has more rows than the trial had.
        """
        return self

    # What follows is the same for all maps.

    @property
    def origin(self) -> Self:
        """The settings as they were to be tried, without rows and what a trial filled in."""
        fresh = type(self)()
        return replace(self, rows=None, **{name: getattr(fresh, name) for name in self.filled})

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, that of the map first."""
        shown = [field.name for field in fields(self) if field.repr]
        shown = [name for name in shown if name != "of_logs" or self.of_logs]
        return {"map": self.name, **{name: getattr(self, name) for name in shown}}

    def estimator(self, regressor: Regressor, has_gaps: bool = False) -> Regressor:
        """Return what was built, with all that it needs for inputs and targets as they come."""
        if has_gaps and not self.takes_gaps:
            regressor = ByOutput(regressor)
        if self.of_logs:
            regressor = LogTargets(regressor)
        if self.scaling == "none":
            return regressor
        return Pipeline([("scale", ColumnScaler(self.scaling)), ("map", regressor)])

    def predictions(self, sample: Sample) -> Path:
        """Yield what `path` does, for any sample: fewer rows, repeated folds, targets with gaps.

        `OutOfTime` is raised where the limit of the sample's clock is past; nothing of the sample
        has changed then.
        """
        sample = sample.with_rows(self.rows)
        if self.of_logs:
            logs = LogTargets(None).scaled(sample.T)
            for settings, F in self._predictions(replace(sample, T=logs.logs(sample.T), fewer={})):
                yield settings, logs.amounts(F).astype(np.float32)
        else:
            yield from self._predictions(sample)

    def _predictions(self, sample: Sample) -> Path:
        """Yield what `predictions` does, of outputs as they are to be fitted."""
        outputs = sample.outputs()
        if len(outputs) == 1 or self.takes_gaps:
            yield from self._of_folds(sample)
            return
        parts = [
            (columns, {repr(settings): (settings, F) for settings, F in self._of_folds(part)})
            for columns, part in outputs
        ]
        for key, (settings, _) in parts[0][1].items():
            if all(key in cells for _, cells in parts):
                F = sample.empty()
                for columns, cells in parts:
                    F[:, columns] = cells[key][1]
                yield settings, F

    def _of_folds(self, sample: Sample) -> Path:
        if self.is_quick or sample.folds.n_first == len(sample.folds.splits):
            yield from self.path(sample)
            return
        for settings, F in self.path(replace(sample, folds=sample.folds.first_round())):
            yield settings, sample.folds.spread_out(F)


def other_scalings(settings: Settings, scalings: Iterable[str]) -> Iterator[Settings]:
    """Yield settings with each of the scalings that they have not."""
    return (replace(settings, scaling=other) for other in scalings if other != settings.scaling)


def are_skewed(T: np.ndarray) -> np.ndarray:
    """Return which columns of T (n, p) have a long tail above: whose logarithms may be fitted.

    The largest twentieth begins more than `_SKEWED` times as far from the median as the smallest
    twentieth ends.
    """
    low, middle, high = np.nanquantile(T, (0.05, 0.5, 0.95), axis=0)
    return np.asarray((high - middle) > _SKEWED * np.maximum(middle - low, 1e-9 * np.abs(high)))


class LogTargets(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor of logarithms, log(1 + (t - min) / c), of those targets that are skewed.

    c is the median of the positive t - min. Predictions are at most a little larger than what
    training had.
    """

    def __init__(self, regressor: Regressor) -> None:
        self.regressor = regressor

    def scaled(self, targets: np.ndarray) -> Self:
        """Learn the scales of targets (n, p), and return itself."""
        self.skewed_: np.ndarray = are_skewed(targets)
        self.low_: np.ndarray = np.nanmin(targets, axis=0)
        self.scale_: np.ndarray = np.ones(len(self.low_))
        for j in np.flatnonzero(self.skewed_):
            above = targets[:, j] - self.low_[j]
            self.scale_[j] = np.median(above[above > 0.0])
        self.top_: np.ndarray = np.where(
            self.skewed_, np.nanmax(self.logs(targets), axis=0) + _ABOVE, np.inf
        )
        return self

    def logs(self, targets: np.ndarray) -> np.ndarray:
        """Return targets with the logarithms of those that are skewed."""
        shares = np.maximum(targets - self.low_, 0.0) / self.scale_
        return np.where(self.skewed_, np.log1p(shares), targets)

    def amounts(self, logs: np.ndarray) -> np.ndarray:
        """Return the targets of which these are the logarithms."""
        inside = np.where(self.skewed_, np.clip(logs, 0.0, self.top_), 0.0)
        return np.where(self.skewed_, np.expm1(inside) * self.scale_ + self.low_, logs)

    def fit(self, X: Inputs, y: Any, sample_weight: np.ndarray | None = None) -> LogTargets:
        """Fit the regressor on logarithms."""
        targets = np.reshape(np.asarray(y), (len(y), -1))
        logs = self.scaled(targets).logs(targets)
        self.regressor_: Regressor = clone(self.regressor).fit(X, logs, **weighed(sample_weight))
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the predicted targets, shape (n, p)."""
        return self.amounts(np.reshape(self.regressor_.predict(X), (-1, len(self.low_))))


class ByOutput(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor for each set of outputs that the same rows have: targets may have gaps, NaN."""

    columns_: list[np.ndarray]
    members_: list[Any]

    def __init__(self, regressor: Regressor) -> None:
        self.regressor = regressor

    def fit(self, X: Inputs, y: Any, sample_weight: np.ndarray | None = None) -> ByOutput:
        """Fit each set of outputs on the rows that have them."""
        targets = np.reshape(y, (len(y), -1))
        self.columns_, self.members_ = [], []
        for columns, rows in outputs_by_rows(targets):
            weights = {} if sample_weight is None else weighed(sample_weight[rows])
            observed = targets[np.ix_(rows, columns)]
            self.columns_.append(columns)
            self.members_.append(clone(self.regressor).fit(take(X, rows), observed, **weights))
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the predictions of all, shape (n, p)."""
        F = np.empty((n_rows(X), sum(map(len, self.columns_))))
        for columns, member in zip(self.columns_, self.members_, strict=True):
            F[:, columns] = np.reshape(member.predict(X), (len(F), -1))
        return F
