"""What a trial does: predict the coordinates of held-out rows, along a path of cheap settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from threadpoolctl import threadpool_limits

from skout import KernelBasis
from skout._numerics.linalg import ridge_solve
from skout.basis.moments import outputs_by_rows
from skout.dev import check_rng, n_rows, n_threads, row_slices, single_thread, take
from skout.sketches import SubSample

from .clock import Clock
from .folds import Folds
from .inputs import ColumnScaler
from .learnt import learnt_kernel
from .logistic import logistic_path, yes_or_no
from .maps import TAKE_GAPS, boosting_of, build, kernel_of, principal_axes
from .means import column_means, some_rows, weighed

__all__ = ["Sample", "alphas_of", "predictions"]

Settings = dict[str, Any]
Found = Iterator[tuple[Settings, np.ndarray]]

# Penalties of kernel ridge. Kernels in a learnt metric are wide, and want smaller ones too.
_ALPHAS = (1.0, 0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7)
_LEARNT_ALPHAS = (*_ALPHAS, 1e-8, 1e-9)
_NEIGHBOURS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80)
_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_STAGES = (25, 50, 100, 200, 400)
# Landmarks up to which one thread is as fast as several.
_SMALL = 500
# Rows whose coordinates are found before the clock is asked again.
_TIMED_ROWS = 8192
# Weights of a fit stay as they are where their mean is above that.
_LEAST_MEAN = 1e-6


def alphas_of(settings: Settings) -> tuple[float, ...]:
    """Return the penalties that are tried of a kind of kernel ridge."""
    return _LEARNT_ALPHAS if settings["map"] == "learnt ridge" else _ALPHAS


@dataclass
class Sample:
    """Rows, their coordinates, and which are held out."""

    X: Any  # matrix or objects
    T: np.ndarray  # (n, p), NaN where a row has no such output
    folds: Folds
    seed: int
    n_jobs: int | None = None
    clock: Clock = field(default_factory=Clock)  # asked between folds and other steps of a trial
    scaled: dict[str, Any] = field(default_factory=dict)  # X by its scaling, once asked for
    fewer: dict[int, Sample] = field(default_factory=dict)  # samples of some rows, once asked for

    def rows(self, scaling: str | None) -> Any:
        """Return X, scaled as a trial wants it; scales come from the inputs of all rows."""
        if scaling is None:
            return self.X
        if scaling not in self.scaled:
            self.scaled[scaling] = ColumnScaler(scaling).fit_transform(self.X)
        return self.scaled[scaling]

    def with_rows(self, most: int | None) -> Sample:
        """Return the sample with at most so many rows to train on, None for all of them.

        It has no other rows than these and the held-out ones: what follows costs the same however
        many rows there are.
        """
        if most is None or most >= self.folds.n_train:
            return self
        if most not in self.fewer:
            rng = check_rng(self.seed)
            splits = [
                (train[some_rows(self.T[train], most, rng)], held)
                for train, held in self.folds.splits
            ]
            used, folds = self.folds.renumbered(splits)
            how = self.seed, self.n_jobs, self.clock
            self.fewer[most] = Sample(take(self.X, used), self.T[used], folds, *how)
        return self.fewer[most]

    def timed_folds(self) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
        """Yield training rows and held-out rows of each fold, and where predictions of these go.

        The clock is asked before each.
        """
        for (train, held), rows in zip(self.folds.splits, self.folds.spans, strict=True):
            self.clock.check()
            yield train, held, rows

    def weights(self, rows: np.ndarray) -> np.ndarray | None:
        """Return what some rows count in a fit, None where all count the same.

        Only ratios matter. Where the largest weights are of other rows, the mean becomes 1, so that
        squares and products stay in range.
        """
        if self.folds.row_weights is None:
            return None
        weights = self.folds.row_weights[rows]
        return weights if _is_ordinary(weights) else weights / weights.mean()

    def outputs(self) -> list[tuple[Any, Sample]]:
        """Return outputs that have the same rows, each time with a sample of these alone.

        All rows are still predicted: only those to train on are fewer.
        """
        if not np.isnan(self.T).any():
            return [(slice(None), self)]
        found = []
        for columns, _ in outputs_by_rows(self.T):
            there = ~np.isnan(self.T[:, columns[0]])
            splits = [(train[there[train]], held) for train, held in self.folds.splits]
            if min(len(train) for train, _ in splits) < 2:
                raise ValueError(
                    f"column {columns[0]} of Y has fewer than two numbers in the training rows of "
                    "a split: leave it out, or let `cv` hold out fewer rows"
                )
            folds = replace(self.folds, splits=splits)
            found.append((columns, replace(self, T=self.T[:, columns], folds=folds, fewer={})))
        return found

    def room(self) -> np.ndarray:
        """Return an empty array for the predictions of all held-out rows."""
        return np.empty((self.folds.n_held, self.T.shape[1]), dtype=np.float32)


def _is_ordinary(weights: np.ndarray | None) -> bool:
    """Whether the weights of the rows of a fit are not all tiny beside those of other rows."""
    return weights is None or bool(weights.mean() > _LEAST_MEAN)


def predictions(settings: Settings, sample: Sample) -> Found:
    """Yield what completes the settings, e.g. the alpha of a path, and coordinates (n_held, p).

    The "rows" of settings are how many to train on, None for all of them. `OutOfTime` is raised
    where the limit of the sample's clock is past; nothing of the sample has changed then.
    """
    sample = sample.with_rows(settings.get("rows"))
    outputs = sample.outputs()
    if len(outputs) == 1 or settings["map"] in TAKE_GAPS:
        yield from _whole(settings, sample)
        return
    parts = [
        (columns, {tuple(more.items()): F for more, F in _whole(settings, own)})
        for columns, own in outputs
    ]
    for cell in parts[0][1]:
        if all(cell in found for _, found in parts):
            F = sample.room()
            for columns, found in parts:
                F[:, columns] = found[cell]
            yield dict(cell), F


def _whole(settings: Settings, sample: Sample) -> Found:
    """Yield what `predictions` does, of outputs without gaps or of a map that takes them."""
    path = _PATHS.get(settings["map"], _one_fit)
    if settings["map"] == "kernel ridge" or sample.folds.n_first == len(sample.folds.splits):
        yield from path(settings, sample)
        return
    # one round of folds does for maps that take long
    once = replace(sample, folds=sample.folds.first_round())
    for more, F in path(settings, once):
        yield more, sample.folds.spread_out(F)


def _kernel_path(settings: Settings, sample: Sample) -> Found:
    """Ridge for all alphas from the moments of folds: those of all rows minus those held out."""
    m = settings.get("sketch") or sample.folds.n_train
    ridges = _ridges if settings["map"] == "kernel ridge" else _learnt_ridges
    F = {(alpha, c): sample.room() for alpha in alphas_of(settings) for c in (True, False)}
    with single_thread() if m <= _SMALL else nullcontext():  # threads of BLAS would wait for work
        ridges(settings, sample, F)
    for (alpha, centre), values in F.items():
        yield {"alpha": alpha, "centre": centre}, values


Path = dict[tuple[float, bool], np.ndarray]


def _ridges(settings: Settings, sample: Sample, F: Path) -> None:
    """Fill in predictions with the same kernel and landmarks in all folds and for all outputs."""
    X = sample.rows(settings.get("scaling"))
    parts = [(columns, own.folds.splits) for columns, own in sample.outputs()]
    trained = np.unique(np.concatenate([train for _, splits in parts for train, _ in splits]))
    used = np.unique(np.concatenate([trained, sample.folds.held]))
    Z = _coordinates(kernel_of(settings), settings, sample, take(X, trained), take(X, used))
    position = np.full(n_rows(X), -1)
    position[used] = np.arange(len(used))
    all_counts = sample.folds.row_weights
    for columns, splits in parts:
        T = sample.T[:, columns]
        counts = [_at(all_counts, train) for train, _ in splits]
        are_rest = all(len(train) + len(held) == len(used) for train, held in splits)
        # a difference of moments has no digits left where few rows have nearly all the weight
        can_subtract = len(splits) > 1 and are_rest and all(map(_is_ordinary, counts))
        whole = _gram(Z, _at(all_counts, used)) if can_subtract else None
        for (train, held), rows in zip(splits, sample.folds.spans, strict=True):
            sample.clock.check()
            near, new, weights = Z[position[train]], Z[position[held]], sample.weights(train)
            if whole is None:
                gram = _gram(near, weights)
            else:
                gram = whole - _gram(new, _at(all_counts, held))
            for cell, found in _fold_path(near, new, gram, T[train], weights, F):
                F[cell][rows, columns] = found


def _at(weights: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if weights is None else weights[rows]


def _learnt_ridges(settings: Settings, sample: Sample, F: Path) -> None:
    """Fill in predictions with a metric, or weights, that each fold learns from its own rows."""
    X, T = sample.rows(settings.get("scaling")), sample.T
    for train, held, rows in sample.timed_folds():
        own, weights = take(X, train), sample.weights(train)
        centred = T[train] - column_means(T[train], weights)
        how = sample.seed, sample.n_jobs, weights, sample.clock
        kernel = learnt_kernel(settings, own, centred, *how)
        both = take(X, np.concatenate([train, held]))
        Z = _coordinates(kernel, settings, sample, own, both)
        near, new = Z[: len(train)], Z[len(train) :]
        gram = _gram(near, weights)
        for cell, found in _fold_path(near, new, gram, T[train], weights, F):
            F[cell][rows] = found


def _coordinates(
    kernel: Any, settings: Settings, sample: Sample, landmarks: Any, rows: Any
) -> np.ndarray:
    """Return the coordinates of rows, in the span of a sketch of others."""
    m = settings.get("sketch")
    sketch = None if m is None or m >= n_rows(landmarks) else SubSample(m)
    basis = KernelBasis(kernel, sketch, random_state=sample.seed, n_jobs=sample.n_jobs)
    basis.fit(landmarks)
    if np.isinf(sample.clock.seconds):
        return np.asarray(basis.transform(rows), dtype=np.float64)
    Z = np.empty((n_rows(rows), basis.rank_))
    for part in row_slices(len(Z), _TIMED_ROWS):
        sample.clock.check()
        Z[part] = basis.transform(take(rows, part))
    return Z


def _gram(Z: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return Z' W Z."""
    return (Z if weights is None else weights[:, None] * Z).T @ Z


def _fold_path(
    Z_train: np.ndarray,
    Z_held: np.ndarray,
    gram: np.ndarray,
    T: np.ndarray,
    weights: np.ndarray | None,
    cells: Iterable[tuple[float, bool]],
) -> Iterator[tuple[tuple[float, bool], np.ndarray]]:
    """Yield predictions of one fold for each alpha, with targets centred and not.

    f = z . (Z'WZ + n alpha I)^-1 Z'WT, n the sum of the weights W; centred it is f + (1 - g) mean,
    g the fit of the constant 1.
    """
    n = len(T) if weights is None else weights.sum()
    both = np.column_stack([T, np.ones(len(T))])
    right = Z_train.T @ (both if weights is None else weights[:, None] * both)
    mean = column_means(T, weights)
    for alpha in sorted({alpha for alpha, _ in cells}):
        F = Z_held @ ridge_solve(gram, right, n * alpha)
        yield (alpha, False), F[:, :-1]
        yield (alpha, True), F[:, :-1] + np.outer(1.0 - F[:, -1], mean)


def _one_fit(settings: Settings, sample: Sample) -> Found:
    """Fit and predict each fold once."""
    scaling = settings.get("scaling")
    X, plain = sample.rows(scaling), {k: v for k, v in settings.items() if k != "scaling"}
    F = sample.room()
    for k, (train, held, rows) in enumerate(sample.timed_folds()):
        model, weights = build(plain, sample.seed + k, sample.n_jobs), sample.weights(train)
        model.fit(take(X, train), sample.T[train], **weighed(weights))
        F[rows] = model.predict(take(X, held))
    yield {}, F


def _boosting_path(settings: Settings, sample: Sample) -> Found:
    """Boost each principal component, and look at its predictions after fewer trees too."""
    X = sample.rows(settings.get("scaling"))
    most = settings["max_iter"]
    stages = sorted({stage for stage in _STAGES if stage < most} | {most})
    F = {stage: sample.room() for stage in stages}
    splits = sample.folds.splits
    axes = [
        principal_axes(sample.T[train], settings["n_components"], sample.weights(train))
        for train, _ in splits
    ]

    def boosted(k: int, j: int) -> list[np.ndarray]:
        sample.clock.check()
        train, held = splits[k]
        mean, vectors = axes[k]
        column = (sample.T[train] - mean) @ vectors[:, j]
        model, weights = boosting_of(settings, sample.seed + k), sample.weights(train)
        model.fit(take(X, train), column, **weighed(weights))
        staged = enumerate(model.staged_predict(take(X, held)), start=1)
        return [values for stage, values in staged if stage in stages]

    tasks = [(k, j) for k, (_, vectors) in enumerate(axes) for j in range(vectors.shape[1])]
    with threadpool_limits(1, user_api="openmp"):
        work = Parallel(n_threads(sample.n_jobs), prefer="threads")
        found = dict(zip(tasks, work(delayed(boosted)(*task) for task in tasks), strict=True))
    for k, rows in enumerate(sample.folds.spans):
        mean, vectors = axes[k]
        for i, stage in enumerate(stages):
            scores = np.column_stack([found[k, j][i] for j in range(vectors.shape[1])])
            F[stage][rows] = scores @ vectors.T + mean
    for stage in stages:
        yield {"max_iter": stage}, F[stage]


def _neighbour_path(settings: Settings, sample: Sample) -> Found:
    """Average more and more neighbours, found once."""
    from sklearn.neighbors import NearestNeighbors  # slow to import

    X, T = sample.rows(settings.get("scaling")), sample.T
    least = min(len(train) for train, _ in sample.folds.splits)
    counts = [k for k in _NEIGHBOURS if k <= max(1, least // 2)]
    F = {(k, weights): sample.room() for k in counts for weights in ("uniform", "distance")}
    for train, held, rows in sample.timed_folds():
        search = NearestNeighbors(n_neighbors=max(counts)).fit(take(X, train))
        distances, nearest = search.kneighbors(take(X, held))
        for weights in ("uniform", "distance"):
            shares = _shares(distances, weights)
            total, weight = np.zeros((len(held), T.shape[1])), np.zeros((len(held), 1))
            for j in range(max(counts)):
                total += shares[:, j, None] * T[train[nearest[:, j]]]
                weight += shares[:, j, None]
                if j + 1 in counts:
                    F[j + 1, weights][rows] = total / weight
    for (k, weights), values in F.items():
        yield {"n_neighbors": k, "weights": weights}, values


def _logistic_path(settings: Settings, sample: Sample) -> Found:
    """Fit all columns for one penalty after another."""
    X, T = sample.rows(settings.get("scaling")), sample.T
    F = {C: sample.room() for C in _STRENGTHS}
    for train, held, rows in sample.timed_folds():
        weights = sample.weights(train)
        answers, which, base, gain = yes_or_no(T[train], weights)
        new, path = take(X, held), logistic_path(take(X, train), answers, _STRENGTHS, weights)
        for C, coef, intercept in path:
            sample.clock.check()
            share = expit(new @ coef + intercept)
            F[C][rows] = base + share[:, which] * gain
    for C, values in F.items():
        yield {"C": C}, values


def _shares(distances: np.ndarray, weights: str) -> np.ndarray:
    """Return what neighbours count: the same, or one over their distance; copies count alone."""
    if weights == "uniform":
        return np.ones_like(distances)
    copies = distances == 0.0
    with np.errstate(divide="ignore"):
        shares = 1.0 / distances
    return np.where(copies.any(axis=1, keepdims=True), copies.astype(float), shares)


_PATHS = {
    "kernel ridge": _kernel_path,
    "learnt ridge": _kernel_path,
    "aligned ridge": _kernel_path,
    "boosting": _boosting_path,
    "neighbours": _neighbour_path,
    "logistic": _logistic_path,
}
