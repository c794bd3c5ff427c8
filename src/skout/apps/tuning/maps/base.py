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
#: Completed settings, and the coordinates that they predict for the held-out rows.
Path: TypeAlias = Iterator[tuple["Map", np.ndarray]]
Settings = TypeVar("Settings", bound="Map")

# Ratio of the upper to the lower tail of targets from which on their logarithms are fitted, see
# `are_skewed`; how far predicted logarithms may be above those of training.
_SKEWED, _ABOVE = 3.0, 0.2
# Costs are in seconds of a machine of two cores, fitted to trials of experiments/ours/tuned.py. The
# plan of a search follows them and not the clock, so that the same seed makes the same choice
# wherever it runs; where a machine is faster or slower, the search learns its pace.
#: Operations of matrix products in a second; seconds of a kernel value, beyond its product; of a
#: row, a feature and a level of a tree; of a call of a fit.
FLOPS, KERNEL_VALUE, SPLIT, CALL = 1.5e10, 4e-9, 4e-8, 0.02


@dataclass(frozen=True, kw_only=True)
class Map(ABC):
    """Settings of a map from inputs to output coordinates, as `Tuned` tries them.

    A map is a subclass that is a frozen dataclass, whose fields are its settings, each with a
    default and shown in its `repr`. It defines `build`, which returns the regressor, `cost`, the
    seconds of a fit, `defaults`, the first settings to try, and `neighbors`, settings to try next.
    All else has defaults.

    Attributes
    ----------
    name : str
        The name of the map in `results_`.
    family : str
        Maps of one family are refined as one; by default the name.
    filled : tuple of str
        Fields that a trial fills in; before the trial they have their defaults.
    takes_weights, takes_gaps, takes_sparse : bool
        Whether the regressor takes `sample_weight`, missing targets (NaN), and sparse rows. If
        not, it is not tried with weights; outputs are fitted separately, those observed in the
        same rows together; and rows are made dense.
    is_quick : bool
        Whether repeated folds are all used; else the first round of them.
    n_cells : int
        Number of settings that `path` yields.
    rows : int or None
        Number of rows that it is fitted on, None for all.
    scaling : str
        The scaling of columns, see `skout.apps.tuning.ColumnScaler`.
    of_logs : bool
        Whether logarithms of skewed outputs are fitted, see `LogTargets`.
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
        """Return the first settings to try with their places in the order: 0 is first, 20 last.

        It is empty where the map does not apply, e.g. where it needs vectors and X has objects.
        """

    def neighbors(self, profile: Profile) -> Iterable[Map]:
        """Return settings that differ from these in one respect, to try where these did well.

        The most promising ones come first. By default they have other scalings.
        """
        if profile.is_object:
            return ()
        of_counts, of_numbers = ("unit", "tfidf"), ("quantile", "none", "standard")
        return other_scalings(self, of_counts if profile.is_sparse else of_numbers)

    @abstractmethod
    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        """Return the regressor of these settings, not fitted.

        It is fitted on rows and their output coordinates, of shape (n, p), and predicts these.
        """

    @abstractmethod
    def cost(self, profile: Profile, n: int) -> float:
        """Return the estimated seconds of one fit on n rows, on two cores."""

    def path_cost(self, profile: Profile, n: int, folds: Folds) -> float:
        """Return the estimated seconds of `path` on n training rows, by default a fit per fold."""
        return folds.n_first * (CALL + self.cost(profile, n))

    def path(self, sample: Sample) -> Path:
        """Yield completed settings, and their predictions for the held-out rows.

        By default these are the settings themselves, fitted on each fold. Where settings share
        work, such as penalties or numbers of trees, a path yields all of them for the cost of one.
        """
        X, F = sample.rows(self.scaling), sample.empty()
        for k, (train, held, rows) in enumerate(sample.timed_folds()):
            model = self.build(sample.seed + k, sample.n_jobs)
            params = weighed(sample.weights(train)) | self.fit_params(sample.clock)
            model.fit(take(X, train), sample.T[train], **params)
            F[rows] = np.reshape(model.predict(take(X, held)), (len(held), -1))
        yield self, F

    def fit_params(self, clock: Clock) -> dict[str, Any]:
        """Return parameters of the regressor's `fit` in trials, such as a clock to check."""
        return {}

    def sizes(self, n: int) -> list[tuple[Self, float]]:
        """Return variants of the settings in size for trials on n rows, the largest first.

        Beside each is the largest share of the time for trials that it may take.
        """
        return [(self, 1.0)]

    def larger(self, has_more_rows: bool) -> Self:
        """Return a larger variant for the last fit, such as more trees, used if there is time.

        `has_more_rows` says whether the last fit has more rows than the trial.
        """
        return self

    # What follows is the same for all maps.

    @property
    def origin(self) -> Self:
        """The settings before a trial: without rows and fields that a trial filled in."""
        fresh = type(self)()
        return replace(self, rows=None, **{name: getattr(fresh, name) for name in self.filled})

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, after the name of the map."""
        shown = [field.name for field in fields(self) if field.repr]
        shown = [name for name in shown if name != "of_logs" or self.of_logs]
        return {"map": self.name, **{name: getattr(self, name) for name in shown}}

    def estimator(self, regressor: Regressor, has_gaps: bool = False) -> Regressor:
        """Return a built regressor with its scaling of inputs and its handling of targets."""
        if has_gaps and not self.takes_gaps:
            regressor = ByOutput(regressor)
        if self.of_logs:
            regressor = LogTargets(regressor)
        if self.scaling == "none":
            return regressor
        return Pipeline([("scale", ColumnScaler(self.scaling)), ("map", regressor)])

    def predictions(self, sample: Sample) -> Path:
        """Yield what `path` does, for fewer rows, repeated folds, missing targets and logarithms.

        `OutOfTime` is raised where the limit of the sample's clock is exceeded; the sample is
        unchanged then.
        """
        sample = sample.with_rows(self.rows)
        if self.of_logs:
            logs = LogTargets(None).scaled(sample.T)
            for settings, F in self._predictions(replace(sample, T=logs.logs(sample.T), fewer={})):
                yield settings, logs.amounts(F).astype(np.float32)
        else:
            yield from self._predictions(sample)

    def _predictions(self, sample: Sample) -> Path:
        """Yield what `path` does, with outputs of different observed rows fitted separately."""
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
        """Yield what `path` does, on the first round of repeated folds where maps are slow."""
        if self.is_quick or sample.folds.n_first == len(sample.folds.splits):
            yield from self.path(sample)
            return
        for settings, F in self.path(replace(sample, folds=sample.folds.first_round())):
            yield settings, sample.folds.spread_out(F)


def other_scalings(settings: Settings, scalings: Iterable[str]) -> Iterator[Settings]:
    """Yield the settings with each other scaling of a list."""
    return (replace(settings, scaling=other) for other in scalings if other != settings.scaling)


def are_skewed(T: np.ndarray) -> np.ndarray:
    """Return which columns of T (n, p) have a long upper tail: their logarithms may be fitted.

    The 95 % quantile is more than `_SKEWED` times as far from the median as the 5 % quantile.
    """
    low, middle, high = np.nanquantile(T, (0.05, 0.5, 0.95), axis=0)
    return np.asarray((high - middle) > _SKEWED * np.maximum(middle - low, 1e-9 * np.abs(high)))


class LogTargets(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor fitted on logarithms of skewed targets, log(1 + (t - min) / c).

    c is the median of the positive t - min. Predictions are at most slightly larger than the
    training targets.
    """

    def __init__(self, regressor: Regressor) -> None:
        self.regressor = regressor

    def scaled(self, targets: np.ndarray) -> Self:
        """Store which targets (n, p) are skewed, with their scales; return self."""
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
        """Return targets, with logarithms in the skewed columns."""
        shares = np.maximum(targets - self.low_, 0.0) / self.scale_
        return np.where(self.skewed_, np.log1p(shares), targets)

    def amounts(self, logs: np.ndarray) -> np.ndarray:
        """Return targets from their logarithms: the inverse of `logs`."""
        inside = np.where(self.skewed_, np.clip(logs, 0.0, self.top_), 0.0)
        return np.where(self.skewed_, np.expm1(inside) * self.scale_ + self.low_, logs)

    def fit(self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None = None) -> LogTargets:
        """Fit the regressor on the logarithms of skewed targets."""
        targets = np.reshape(np.asarray(y), (len(y), -1))
        logs = self.scaled(targets).logs(targets)
        self.regressor_: Regressor = clone(self.regressor).fit(X, logs, **weighed(sample_weight))
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the predicted targets, shape (n, p)."""
        return self.amounts(np.reshape(self.regressor_.predict(X), (-1, len(self.low_))))


class ByOutput(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor for each set of outputs observed in the same rows: targets may have NaN."""

    columns_: list[np.ndarray]
    members_: list[Any]

    def __init__(self, regressor: Regressor) -> None:
        self.regressor = regressor

    def fit(self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None = None) -> ByOutput:
        """Fit each set of outputs on the rows where they are observed."""
        targets = np.reshape(y, (len(y), -1))
        self.columns_, self.members_ = [], []
        for columns, rows in outputs_by_rows(targets):
            weights = {} if sample_weight is None else weighed(sample_weight[rows])
            observed = targets[np.ix_(rows, columns)]
            self.columns_.append(columns)
            self.members_.append(clone(self.regressor).fit(take(X, rows), observed, **weights))
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the predictions of all outputs, shape (n, p)."""
        F = np.empty((n_rows(X), sum(map(len, self.columns_))))
        for columns, member in zip(self.columns_, self.members_, strict=True):
            F[:, columns] = np.reshape(member.predict(X), (len(F), -1))
        return F
