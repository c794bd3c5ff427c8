"""Kernel ridge maps: with a fixed kernel, in a learned metric, or with a kernel per column."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone

from skout import KernelBasis, KernelRidge
from skout.dev import FoldMoments, check_rng, n_rows, row_slices, single_thread, take
from skout.kernels import (
    Gaussian,
    Kernel,
    Laplacian,
    LearnedMetric,
    Linear,
    Mahalanobis,
    Matern,
    align_columns,
)
from skout.sketches import SubSample

from ..clock import Clock
from ..data import column_means, weighed
from ..folds import Folds
from ..samples import Inputs, Profile, Sample
from .base import FLOPS, KERNEL_VALUE, Map, Path, Regressor, other_scalings

# The predictions of a fold: its rows in `held` and columns, predictions of shape (n_alphas, h, p),
# and those of a fit on centered targets.
Fold = tuple[slice, slice | np.ndarray, np.ndarray, np.ndarray]

# The kernels of vectors, by the names that settings have.
_KERNELS: dict[str, Callable[[float | str], Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": lambda gamma: Matern(gamma, nu=1.5),
    "linear": lambda gamma: Linear(),
}
# Rows up to which kernel ridge is exact; landmarks for more rows; landmarks of first trials.
_EXACT, _SIZES, _FEW = 1200, (700, 1400, 2200), 400
# Landmarks up to which one thread of BLAS is as fast as several, which wait for each other.
_SMALL = 500
# Rows whose coordinates are computed before the clock is checked again.
_TIMED_ROWS = 8192
# Rows that the median distance is computed from, and rows that kernels are aligned on.
_WIDTH_ROWS, _ALIGNED_ROWS = 1000, 600
# Penalties that each round of learning a metric chooses from; rows that it learns from, at most;
# and the number of rounds in estimates of time: rounds end where they do not help.
_ROUND_ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
_ROUND_ROWS, _ROUNDS = 4000, 6


@dataclass(frozen=True, kw_only=True)
class _RidgeMap(Map):
    """Base class of kernel ridge maps: landmarks, and a path of penalties."""

    filled: ClassVar[tuple[str, ...]] = ("sketch", "alpha", "center")
    takes_sparse = True
    alphas: ClassVar[tuple[float, ...]] = (
        *(1.0, 0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7),
    )
    n_cells = 2 * len(alphas)

    kernel: str | Kernel = "gaussian"
    sketch: int | None = None  # landmarks, None for all rows
    alpha: float = 1e-3
    center: bool = False  # whether the mean is subtracted first, so that predictions shrink to it
    size: int = field(default=_SIZES[0], repr=False)  # the largest `sketch` of a trial

    @abstractmethod
    def _changes(self, profile: Profile) -> Iterator[Self]:
        """Yield settings that differ in one respect other than the landmarks."""

    @abstractmethod
    def _folds(self, sample: Sample) -> Iterator[Fold]:
        """Yield the predictions of each fold and each set of outputs observed in the same rows."""

    def neighbors(self, profile: Profile) -> list[Self]:
        changes = list(self._changes(profile))
        sizes = [m for m in _SIZES if m > self.size][:1] if self.sketch is not None else []
        return [*changes[:2], *(replace(self, size=m) for m in sizes), *changes[2:]]

    def sizes(self, n: int) -> list[tuple[Self, float]]:
        most = max(self.size, _EXACT) if n <= _EXACT else self.size
        sizes = (most, self.size, _FEW) if self.rows is None else (self.size,)
        return [(replace(self, sketch=None if n <= m else m), 1.0) for m in sizes]

    def larger(self, has_more_rows: bool) -> Self:
        m = self.sketch
        return self if m is None or not has_more_rows else replace(self, sketch=2 * m)

    def path(self, sample: Sample) -> Path:
        m = self.sketch or sample.folds.n_train
        F = np.empty((2, len(self.alphas), *sample.empty().shape), dtype=np.float32)
        with single_thread() if m <= _SMALL else nullcontext():
            for rows, columns, plain, centered in self._folds(sample):
                F[0][:, rows, columns], F[1][:, rows, columns] = plain, centered
        for i, alpha in enumerate(self.alphas):
            for center in (True, False):
                yield replace(self, alpha=alpha, center=center), F[int(center), i]

    def _with_kernel(self, kernel: Kernel, sample: Sample, which: slice) -> Iterator[Fold]:
        """Yield the predictions of splits that share a kernel and its landmarks.

        f = z'(Z'WZ + n alpha I)^-1 Z'WT; of centered targets it is f + (1 - g) mean, where g is the
        fit of the constant 1.
        """
        X, weights, alphas = sample.rows(self.scaling), sample.folds.row_weights, self.alphas
        outputs = [(columns, part.folds.splits[which]) for columns, part in sample.outputs()]
        trained = np.unique(np.concatenate([train for _, splits in outputs for train, _ in splits]))
        used = np.unique(np.concatenate([trained, *(held for _, held in outputs[0][1])]))
        Z = self._coordinates(kernel, sample, take(X, trained), take(X, used))
        weights = None if weights is None else weights[used]
        for columns, numbered in outputs:
            T = sample.T[used][:, columns]
            splits = [(np.searchsorted(used, a), np.searchsorted(used, b)) for a, b in numbered]
            moments = FoldMoments.of_rows(Z, np.column_stack([T, np.ones(len(T))]), splits, weights)
            for k, (train, held) in enumerate(splits):
                sample.clock.check()
                F = moments.predictions(alphas, k, held)
                mean = column_means(T[train], None if weights is None else weights[train])
                plain, missed = F[..., :-1], 1.0 - F[..., -1:]
                yield sample.folds.spans[which][k], columns, plain, plain + missed * mean

    def _coordinates(
        self, kernel: Kernel, sample: Sample, landmarks: Inputs, rows: Inputs
    ) -> np.ndarray:
        """Return the coordinates of rows in the span of landmarks, sketched if there are many."""
        m = self.sketch
        sketch = None if m is None or m >= n_rows(landmarks) else SubSample(m)
        basis = KernelBasis(kernel, sketch, random_state=sample.seed, n_jobs=sample.n_jobs)
        basis.fit(landmarks)
        Z = np.empty((n_rows(rows), basis.rank_))
        step = len(Z) if np.isinf(sample.clock.seconds) else _TIMED_ROWS
        for part in row_slices(len(Z), step):
            sample.clock.check()
            Z[part] = basis.transform(take(rows, part))
        return Z

    def cost(self, profile: Profile, n: int) -> float:
        m = min(n, self.sketch or n)
        flops = 2.0 * n * m * profile.d + n * m * m + m**3 / 3 + 2.0 * n * m * profile.p
        per_value = KERNEL_VALUE * (profile.d / 4 + 1 if self.kernel == "laplacian" else 1.0)
        return flops / FLOPS + n * m * per_value

    def path_cost(self, profile: Profile, n: int, folds: Folds) -> float:
        k = len(folds.splits) if self.is_quick else folds.n_first
        m, p = min(n, self.sketch or n), profile.p
        solved = k * (m**3 / 3 + 2.0 * m * m * p) + 2.0 * folds.n_held * m * p
        return self._folds_cost(profile, n, folds) + len(self.alphas) * solved / FLOPS

    def _folds_cost(self, profile: Profile, n: int, folds: Folds) -> float:
        return folds.n_first * self.cost(profile, n)


@dataclass(frozen=True, kw_only=True)
class KernelRidgeMap(_RidgeMap):
    """Kernel ridge regression with a fixed kernel; the folds of a trial share its landmarks."""

    name = "kernel ridge"
    filled = (*_RidgeMap.filled, "gamma")
    takes_gaps = True
    is_quick = True

    width: float | None = 1.0  # gamma over that of the median squared distance
    gamma: float | None = None

    # Kernel, width and scaling, by the place among all settings: what did best, in this order, on
    # training parts of the sets of experiments/ours/tuned.py (mixed_tables.py for tables).
    _starts: ClassVar[dict[str, dict[int, tuple[str, float | None, str]]]] = {
        "dense": {
            0: ("gaussian", 1.0, "standard"),
            2: ("laplacian", 1.0, "standard"),
            6: ("gaussian", 0.2, "standard"),
            8: ("gaussian", 1.0, "quantile"),
            13: ("linear", None, "standard"),
            14: ("matern", 1.0, "standard"),
            17: ("laplacian", 0.3, "quantile"),
            18: ("gaussian", 4.0, "standard"),
        },
        "sparse": {
            0: ("gaussian", 1.0, "unit"),
            1: ("gaussian", 1.0, "none"),
            2: ("gaussian", 1.0, "tfidf"),
            5: ("linear", None, "tfidf"),
            6: ("gaussian", 4.0, "unit"),
            7: ("gaussian", 4.0, "tfidf"),
            11: ("gaussian", 1.0, "standard"),
        },
        "table": {
            0: ("gaussian", 1.0, "none"),
            6: ("laplacian", 1.0, "none"),
            9: ("gaussian", 0.2, "none"),
            11: ("linear", None, "none"),
            12: ("gaussian", 1.0, "standard"),
            17: ("gaussian", 0.2, "standard"),
        },
    }

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        if profile.is_object:
            return [(k, cls(kernel=kernel, width=None)) for k, kernel in enumerate(profile.objects)]
        return [
            (place, cls(kernel=kernel, width=width, scaling=scaling))
            for place, (kernel, width, scaling) in cls._starts[profile.layout].items()
        ]

    def _changes(self, profile: Profile) -> Iterator[Self]:
        if self.width is not None:
            yield from (replace(self, width=self.width * by) for by in (2.0, 0.5, 4.0, 0.25))
        if profile.is_object:
            return
        is_sparse, width = profile.is_sparse, 1.0 if self.width is None else self.width
        kernels = ("matern", "gaussian") if is_sparse else ("laplacian", "matern", "gaussian")
        yield from (replace(self, kernel=k, width=width) for k in kernels if k != self.kernel)
        scalings = ("unit", "tfidf", "none") if is_sparse else ("quantile", "standard", "none")
        yield from other_scalings(self, scalings)

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        sketch = None if self.sketch is None else SubSample(self.sketch)
        params: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
        params["device"] = device if sketch is not None else None
        model = KernelRidge(self._kernel(), sketch, alpha=self.alpha, **params)
        return Centered(model) if self.center else model

    def _kernel(self) -> Kernel:
        if not isinstance(self.kernel, str):
            return self.kernel
        return _KERNELS[self.kernel]("scale" if self.gamma is None else self.gamma)

    def path(self, sample: Sample) -> Path:
        """Yield the path with `gamma` computed from `width` and the median distance."""
        if self.width is None or self.gamma is not None or not isinstance(self.kernel, str):
            return super().path(sample)
        X, rng = sample.rows(self.scaling), check_rng(sample.seed)
        rows = np.sort(rng.permutation(n_rows(X))[:_WIDTH_ROWS])
        kernel = _KERNELS[self.kernel]("median")
        gamma = kernel.resolve(kernel.encode(take(X, rows)), rng).gamma
        power = 1.0 if self.kernel == "gaussian" else 0.5  # others have distances, not squares
        sized = replace(self, gamma=float(gamma) * self.width**power)
        return super(KernelRidgeMap, sized).path(sample)

    def _folds(self, sample: Sample) -> Iterator[Fold]:
        return self._with_kernel(self._kernel(), sample, slice(None))

    def _folds_cost(self, profile: Profile, n: int, folds: Folds) -> float:
        rows = min(n + folds.n_held, 1.25 * n * len(folds.splits))  # of all folds together
        return self.cost(profile, int(rows))


@dataclass(frozen=True, kw_only=True)
class _LearnedMap(_RidgeMap):
    """Base class of maps with a kernel that each fold learns from its training rows."""

    kernel: str = "matern"

    def _learned(self, seed: int, n_jobs: int | None) -> LearnedRidge:
        """Return the regressor, with `landmarks` or `groups` where the map has them."""
        names = ("kernel", "sketch", "alpha", "landmarks", "groups")
        params = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return LearnedRidge(**params, random_state=seed, n_jobs=n_jobs)

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        model = self._learned(seed, n_jobs)
        return Centered(model) if self.center else model

    def _folds(self, sample: Sample) -> Iterator[Fold]:
        X, model = sample.rows(self.scaling), self._learned(sample.seed, sample.n_jobs)
        for k, (train, _, _) in enumerate(sample.timed_folds()):
            T, weights = sample.T[train], sample.weights(train)
            centered = T - column_means(T, weights)
            kernel = model.learned_kernel(take(X, train), centered, weights, sample.clock)
            yield from self._with_kernel(kernel, sample, slice(k, k + 1))

    def _changes(self, profile: Profile) -> Iterator[Self]:
        kernels = ("matern", "gaussian", "laplacian")
        yield from (replace(self, kernel=k) for k in kernels if k != self.kernel)
        scalings = ("none", "standard") if profile.groups else ("quantile", "standard")
        yield from other_scalings(self, scalings)


@dataclass(frozen=True, kw_only=True)
class LearnedMetricMap(_LearnedMap):
    """Kernel ridge regression in a learned metric (AGOP)."""

    name = "learned metric ridge"
    # kernels in a learned metric are wide: smaller penalties may be best
    alphas = (*_RidgeMap.alphas, 1e-8, 1e-9)
    n_cells = 2 * len(alphas)

    landmarks: int = 500  # in the rounds that learn the metric

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        if profile.layout not in ("dense", "table"):
            return []
        scaling, last = ("none", 18) if profile.groups else ("standard", 16)
        landmarks = 1000 if profile.n <= 1000 else 500  # of few rows all: rounds are exact
        start = cls(scaling=scaling, landmarks=landmarks)
        return [(5, start), (last, replace(start, kernel="laplacian"))]

    def cost(self, profile: Profile, n: int) -> float:
        r = min(n, _ROUND_ROWS)
        m, d, p = min(r, self.landmarks), profile.columns, min(profile.p, 16)
        rounds = _ROUNDS * min(5, math.ceil(3000 / r))  # few rows: several splits
        flops = 2.0 * r * m * (d + m) + 2.0 * r * m * d * p + 3 * m**3 + d**3
        each = 6e-3 + flops / FLOPS + 2.0 * r * m * KERNEL_VALUE
        return rounds * each + super().cost(profile, n)


@dataclass(frozen=True, kw_only=True)
class AlignedMap(_LearnedMap):
    """Kernel ridge regression with a kernel for each column of a table, weighted by ALIGNF."""

    name = "aligned ridge"

    groups: tuple[tuple[int, int], ...] = field(default=(), repr=False)  # (start, stop) of columns

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        places = {2: "gaussian", 7: "matern", 15: "laplacian"} if profile.layout == "table" else {}
        return [(place, cls(kernel=name, groups=profile.groups)) for place, name in places.items()]

    def cost(self, profile: Profile, n: int) -> float:
        m, parts = min(n, self.sketch or n), len(self.groups) + 1
        align = parts * _ALIGNED_ROWS**2 * (5 * KERNEL_VALUE + parts / FLOPS) + 2e-3 * parts
        per_value = 1.0 + (profile.columns / 4 / parts if self.kernel == "laplacian" else 0.0)
        blocks = parts * n * m * 3 * KERNEL_VALUE * per_value
        return align + blocks + super().cost(profile, n)


class Centered(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor fitted on targets minus their mean, to which predictions then shrink."""

    def __init__(self, regressor: Regressor) -> None:
        self.regressor = regressor

    def fit(self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Centered:
        """Fit the regressor on centered targets, with missing ones (NaN) if it takes them."""
        self.mean_: np.ndarray = column_means(np.asarray(y), sample_weight)
        self.regressor_: Regressor = clone(self.regressor).fit(
            X, y - self.mean_, **weighed(sample_weight)
        )
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the predictions of the regressor plus the mean."""
        return np.asarray(np.asarray(self.regressor_.predict(X)) + self.mean_)


class LearnedRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Learn a metric, or weights of groups of columns, then fit kernel ridge regression with it.

    `kernel` is "gaussian", "matern" or "laplacian". `landmarks` is their number in rounds that
    learn a metric; with `groups`, (start, stop) of columns, each group has a kernel instead,
    weighted by ALIGNF. `sketch` is the number of landmarks of the last fit, None for all rows.
    """

    def __init__(
        self,
        kernel: str = "matern",
        sketch: int | None = None,
        alpha: float = 1e-3,
        landmarks: int = 300,
        groups: Sequence[tuple[int, int]] | None = None,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.landmarks = landmarks
        self.groups = groups
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> LearnedRidge:
        """Learn the kernel, then fit kernel ridge regression with it."""
        kernel, m = self.learned_kernel(X, y, sample_weight), self.sketch
        ridge = self._ridge(kernel, None if m is None else min(m, n_rows(X)), self.alpha)
        self.ridge_: KernelRidge = ridge.fit(X, y, sample_weight=sample_weight)
        return self

    def _ridge(self, kernel: Kernel, m: int | None, alpha: float | Sequence[float]) -> KernelRidge:
        """Return kernel ridge regression with m landmarks, not fitted."""
        params: dict[str, Any] = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        return KernelRidge(kernel, None if m is None else SubSample(m), alpha=alpha, **params)

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the predictions of the ridge, shape (n, p)."""
        return np.asarray(self.ridge_.predict(X))

    def learned_kernel(
        self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None, clock: Clock | None = None
    ) -> Kernel:
        """Return the kernel in the learned metric, or the weighted sum of kernels of groups.

        Where no kernel of a group is aligned with the targets, it is the kernel of all columns.
        Weights are used where a metric is learned, not in alignment. The clock is checked before
        each round.
        """
        of_width, seed = _KERNELS[self.kernel], self.random_state
        if self.groups is not None:
            base, rows = of_width("median"), _ALIGNED_ROWS
            try:
                return align_columns(base, self.groups, X, y, n_samples=rows, random_state=seed)
            except ValueError:  # targets are constant, or no kernel is aligned with them
                return base
        kind = LearnedMetric if clock is None else _timed(clock)
        kernel = kind(of_width("scale"), landmarks=self.landmarks, max_rows=_ROUND_ROWS)
        rounds = self._ridge(kernel, min(self.landmarks, n_rows(X)), _ROUND_ALPHAS)
        return rounds.fit(X, y, sample_weight=sample_weight).kernel_


def _timed(clock: Clock) -> type[LearnedMetric]:
    """Return the class `LearnedMetric`, derived so that each round checks the clock first."""

    class TimedMetric(LearnedMetric):  # a class, since estimators clone their kernel
        def in_metric(self, scale: Any) -> Mahalanobis:
            clock.check()
            return super().in_metric(scale)

    return TimedMetric
