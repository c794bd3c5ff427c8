"""Forests and boosted trees, of many outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from threadpoolctl import threadpool_limits

from skout.dev import check_rng, map_blocks, n_rows, n_threads, row_slices, symmetric_eigen, take

from ..clock import Clock
from ..data import column_means, weighed
from ..samples import Inputs, Profile, Sample
from .base import SPLIT, Map, Path, Regressor

# Random combinations of outputs that the trees of a forest split by, if there are more outputs.
_PROJECTIONS = 24
# Rows that a thread predicts at a time.
_ROWS = 2048
# Share of entries that are not 0 below which targets are kept sparse.
_SPARSE = 0.1
# Trees of a forest in first trials, in trials, and in the last fit if there is time; the largest
# share of the time for trials that a trial with the second number may take.
_TREES, _MOST_TREES, _SHARE = (50, 100), 300, 0.05
# Estimated seconds of a tree of a forest, of a small boosted tree, of one on histograms, and of a
# row and a feature of a level of the last.
_TREE, _SMALL_TREE, _STAGE, _HISTOGRAM = 4e-4, 5e-4, 6e-4, 3e-9
# Principal components that boosting fits, at most, and coordinates above which it is not tried.
_BOOSTED, _MOST_BOOSTED = 8, 600
# Rows from which on boosting may have 400 trees, and from which on histograms are faster.
_LARGE, _HISTOGRAMS = 3000, 1000
# Trees of a forest that are grown before the clock is checked again.
_TIMED_TREES = 10
# Numbers of boosted trees whose predictions are compared, each twice the one before.
_STAGES = (25, 50, 100, 200, 400)


@dataclass(frozen=True, kw_only=True)
class _ForestMap(Map):
    """Base class of forests."""

    family = "forest"
    filled = ("n_estimators",)

    n_estimators: int = 100
    max_features: float | str = 0.33
    min_samples_leaf: int = 1

    _forest: ClassVar[str]  # in sklearn.ensemble
    _slow: ClassVar[float]  # time relative to extra trees
    # Features and least rows of a leaf, by the place among all settings: what did best, in this
    # order, on training parts of the sets of experiments/ours/tuned.py.
    _starts: ClassVar[dict[str, dict[int, tuple[float | str, int]]]]

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        if not profile.grows_trees:
            return []
        return [
            (place, cls(max_features=features, min_samples_leaf=leaf))
            for place, (features, leaf) in cls._starts[profile.layout].items()
        ]

    def neighbors(self, profile: Profile) -> Iterator[_ForestMap]:
        leaf, features = self.min_samples_leaf, self.max_features
        for other in (2 * leaf + 1, leaf // 2):
            if 1 <= other <= profile.n // 8:
                yield replace(self, min_samples_leaf=other)
        steps: list[float | str] = ["sqrt", 0.25, 0.5, 1.0]
        at = steps.index(features) if features in steps else 1
        for step in (at + 1, at - 1):
            if 0 <= step < len(steps):
                yield replace(self, max_features=steps[step])
        other_kind = RandomForestMap if isinstance(self, ExtraTreesMap) else ExtraTreesMap
        yield other_kind(max_features=features, min_samples_leaf=leaf)

    def sizes(self, n: int) -> list[tuple[Self, float]]:
        few, many = _TREES
        return [(replace(self, n_estimators=many), _SHARE), (replace(self, n_estimators=few), 1.0)]

    def larger(self, has_more_rows: bool) -> Self:
        return replace(self, n_estimators=_MOST_TREES)

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        from sklearn import ensemble  # slow to import

        forest = getattr(ensemble, self._forest)(
            self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            random_state=seed,
            n_jobs=n_threads(n_jobs),
        )
        return LeafForest(forest, random_state=seed)

    def fit_params(self, clock: Clock) -> dict[str, Any]:
        return {"clock": clock} if np.isfinite(clock.seconds) else {}

    def cost(self, profile: Profile, n: int) -> float:
        share, p = self.max_features, profile.p
        features = profile.columns * share if isinstance(share, float) else profile.columns**0.5
        levels = max(1.0, np.log2(n / self.min_samples_leaf))
        work = n * levels * (max(features, 1.0) * (0.3 + 0.02 * min(p, _PROJECTIONS)) + 2.0)
        leaves = 2e-9 * n * self.n_estimators * (p if p > _PROJECTIONS else 0)
        return float(self.n_estimators * (_TREE + work * SPLIT * self._slow / 2) + leaves)


@dataclass(frozen=True, kw_only=True)
class ExtraTreesMap(_ForestMap):
    """Extremely randomized trees."""

    name = "extra trees"
    _forest, _slow = "ExtraTreesRegressor", 1.0
    _starts: ClassVar = {
        "dense": {1: (0.5, 1), 7: ("sqrt", 1), 11: (0.5, 10), 12: (1.0, 3)},
        "sparse": {4: ("sqrt", 1), 8: (0.1, 2)},
        "table": {1: (0.5, 1), 14: (0.5, 10), 16: (1.0, 3)},
    }


@dataclass(frozen=True, kw_only=True)
class RandomForestMap(_ForestMap):
    """A random forest."""

    name = "random forest"
    _forest, _slow = "RandomForestRegressor", 3.0
    _starts: ClassVar = {
        "dense": {10: (0.33, 10), 19: (0.5, 3)},
        "sparse": {},
        "table": {8: (0.33, 3)},
    }

    @classmethod
    def baseline(cls, profile: Profile) -> list[RandomForestMap]:
        """Return the baseline forest, with the usual settings; [] where trees cannot be grown."""
        few = profile.columns <= 30
        return [cls(max_features=0.33 if few else "sqrt")] if profile.grows_trees else []


@dataclass(frozen=True, kw_only=True)
class BoostingMap(Map):
    """Boosted trees for each principal component of the outputs; with many rows on histograms."""

    name = "boosting"
    filled = ("n_iter",)
    n_cells = len(_STAGES)

    learning_rate: float = 0.1
    max_iter: int = 200
    n_iter: int | None = None  # trees that did best, of at most `max_iter`
    max_leaf_nodes: int = 15
    min_samples_leaf: int = 20
    l2: float = 0.0
    subsample: float | None = None  # of rows, for each tree; None is trees on histograms of all
    max_features: float = 1.0
    n_components: int = _BOOSTED

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        if not profile.grows_trees or profile.p > _MOST_BOOSTED:
            return []
        start = cls(
            min_samples_leaf=int(np.clip(profile.n // 40, 3, 20)),
            subsample=0.7 if profile.n <= _HISTOGRAMS else None,
        )
        if profile.is_sparse:
            return [(10, start)]
        is_large = profile.n >= _LARGE
        first = replace(start, max_leaf_nodes=31, max_iter=400) if is_large else start
        second = replace(start, learning_rate=0.05, max_leaf_nodes=31, max_features=0.5)
        return [(3, first), (10 if profile.groups else 15, second)]

    def neighbors(self, profile: Profile) -> Iterator[Self]:
        rate, leaf, leaves = self.learning_rate, self.min_samples_leaf, self.max_leaf_nodes
        if rate > 0.03:
            yield replace(self, learning_rate=rate / 2, max_iter=2 * self.max_iter)
        for other in (leaves // 2, 2 * leaves + 1):
            if 3 <= other <= 127:
                yield replace(self, max_leaf_nodes=other)
        yield replace(self, max_features=0.3 if self.max_features == 1.0 else 1.0)
        for other in (leaf // 2, 2 * leaf):
            if 1 <= other <= profile.n // 8:
                yield replace(self, min_samples_leaf=other)
        if self.subsample is None:
            yield replace(self, l2=5.0 if self.l2 == 0.0 else 0.0)

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        return PrincipalOutputs(self._trees(seed), self.n_components)

    def _trees(self, seed: int) -> Any:
        """Return boosted trees of one output."""
        from sklearn import ensemble  # slow to import

        names = ("learning_rate", "max_leaf_nodes", "min_samples_leaf", "max_features")
        params = {name: getattr(self, name) for name in names} | {"random_state": seed}
        n_iter = self.max_iter if self.n_iter is None else self.n_iter
        if self.subsample is not None:
            params |= {"n_estimators": n_iter, "subsample": self.subsample}
            return ensemble.GradientBoostingRegressor(**params)
        params |= {"max_iter": n_iter, "l2_regularization": self.l2, "early_stopping": False}
        return ensemble.HistGradientBoostingRegressor(**params)

    @property
    def is_staged(self) -> bool:
        """Whether trees can be added by `warm_start` with the same result as in one fit.

        They cannot where scikit-learn draws random features, which it would draw anew.
        """
        return self.subsample is None and self.max_features == 1.0

    def path(self, sample: Sample) -> Path:
        """Yield the predictions after different numbers of trees, of all components."""
        X, T, splits = sample.rows(self.scaling), sample.T, sample.folds.splits
        stages = sorted({stage for stage in _STAGES if stage < self.max_iter} | {self.max_iter})
        axes = [
            principal_axes(T[train], self.n_components, sample.weights(train))
            for train, _ in splits
        ]

        def boosted(k: int, j: int) -> list[np.ndarray]:
            sample.clock.check()
            (train, held), (mean, vectors) = splits[k], axes[k]
            column = (T[train] - mean) @ vectors[:, j]
            model, weights = self._trees(sample.seed + k), weighed(sample.weights(train))
            if self.is_staged and np.isfinite(sample.clock.seconds):
                values, new = [], take(X, held)
                for stage in stages:  # the same trees, but the clock is checked
                    sample.clock.check()
                    model.set_params(warm_start=True, max_iter=stage)
                    values.append(model.fit(take(X, train), column, **weights).predict(new))
                return values
            if self.subsample is not None:
                weights["monitor"] = lambda *_: sample.clock.check()
            model.fit(take(X, train), column, **weights)
            staged = enumerate(model.staged_predict(take(X, held)), start=1)
            return [values for stage, values in staged if stage in stages]

        tasks = [(k, j) for k, (_, vectors) in enumerate(axes) for j in range(vectors.shape[1])]
        with threadpool_limits(1, user_api="openmp"):
            work = Parallel(n_threads(sample.n_jobs), prefer="threads")
            values = dict(zip(tasks, work(delayed(boosted)(*task) for task in tasks), strict=True))
        for i, stage in enumerate(stages):
            F = sample.empty()
            for k, rows in enumerate(sample.folds.spans):
                mean, vectors = axes[k]
                scores = np.column_stack([values[k, j][i] for j in range(vectors.shape[1])])
                F[rows] = scores @ vectors.T + mean
            yield replace(self, n_iter=stage), F

    def cost(self, profile: Profile, n: int) -> float:
        work = n * profile.columns * self.max_features * np.log2(self.max_leaf_nodes + 1)
        if self.subsample is not None:
            tree = _SMALL_TREE + work * SPLIT / 2
        else:
            tree = work * _HISTOGRAM / 2 + _STAGE * self.max_leaf_nodes / 15
        n_iter = self.max_iter if self.n_iter is None else self.n_iter
        return float(n_iter * min(profile.p, self.n_components) * tree)


class LeafForest(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A forest of many outputs: splits by random combinations of outputs, means of all in leaves.

    Where there are no more outputs than `n_projections`, it is the forest of scikit-learn itself.
    """

    def __init__(
        self,
        forest: Regressor,
        n_projections: int = _PROJECTIONS,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.forest = forest
        self.n_projections = n_projections
        self.random_state = random_state

    def fit(
        self,
        X: Inputs,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        clock: Clock | None = None,
    ) -> LeafForest:
        """Grow the trees, and store the leaves of the training rows.

        The clock, if there is one, is checked every few trees.
        """
        targets = np.reshape(y, (len(y), -1))
        p = targets.shape[1]
        self._is_plain = p <= self.n_projections
        weights = weighed(sample_weight)
        if self._is_plain:
            targets = targets[:, 0] if p == 1 else targets
            self.forest_: Any = _grown(self.forest, X, targets, clock, weights)
            self.forest_.n_jobs = 1  # its threads add trees in any order: see `predict`
            return self
        rng = check_rng(self.random_state)
        mixed = targets @ rng.standard_normal((p, self.n_projections))
        self.forest_ = _grown(self.forest, X, mixed, clock, weights)
        self._leaves = _leaf_matrix(self.forest_, X)
        if sample_weight is not None:  # what a row counts in the mean of its leaf
            self._leaves = sparse.csr_matrix(sparse.diags(sample_weight) @ self._leaves)
        is_sparse = np.count_nonzero(targets) < _SPARSE * targets.size
        self._targets = sparse.csr_matrix(targets) if is_sparse else targets.astype(np.float32)
        return self

    def leaf_means(self) -> np.ndarray | None:
        """Return the term of each leaf in the predictions, (nodes of all trees, p).

        None where the trees themselves have the outputs.
        """
        if self._is_plain:
            return None
        sums = self._leaves.T @ self._targets
        sums = sums.toarray() if sparse.issparse(sums) else np.asarray(sums)
        return np.asarray(sums / self._leaf_sizes()[:, None])

    def _leaf_sizes(self) -> np.ndarray:
        """Return the weight of the training rows in each leaf times the number of trees."""
        sizes = np.asarray(self._leaves.sum(axis=0)).ravel()
        return np.where(sizes > 0.0, sizes, 1.0) * len(self.forest_.estimators_)

    def predict(self, X: Inputs) -> np.ndarray:
        """Return means over the training rows in the same leaves, shape (n, p)."""
        if self._is_plain:
            rows = [*row_slices(n_rows(X), _ROWS)] or [slice(0)]
            parts = map_blocks(
                self.forest_.predict, rows, read=partial(take, X), n_jobs=self.forest.n_jobs
            )
            F = np.concatenate(list(parts))
            return F[:, None] if F.ndim == 1 else F
        inside = _leaf_matrix(self.forest_, X)
        shares = sparse.csr_matrix(inside @ sparse.diags(1.0 / self._leaf_sizes()))
        weights = shares @ self._leaves.T  # (n, n_train): a kernel
        F = weights @ self._targets
        return F.toarray() if sparse.issparse(F) else np.asarray(F)


def _grown(
    forest: Regressor, X: Inputs, targets: np.ndarray, clock: Clock | None, weights: dict[str, Any]
) -> Any:
    """Return a fitted clone of a forest; the clock, if any, does not change its trees."""
    forest = clone(forest)
    if clock is None:
        return forest.fit(X, targets, **weights)
    n_trees = forest.n_estimators
    forest.warm_start = True
    for n in (*range(_TIMED_TREES, n_trees, _TIMED_TREES), n_trees):
        clock.check()
        forest.set_params(n_estimators=n).fit(X, targets, **weights)
    forest.warm_start = False
    return forest


def _leaf_matrix(forest: Regressor, X: Inputs) -> sparse.csr_matrix:
    """Return the indicator matrix of the leaves of rows, shape (n, nodes of all trees)."""
    leaves = forest.apply(X)  # (n, trees)
    offsets = np.cumsum([0, *(tree.tree_.node_count for tree in forest.estimators_)])
    n, n_trees = leaves.shape
    columns = (leaves + offsets[:-1]).ravel()
    indptr = np.arange(0, n * n_trees + 1, n_trees)
    ones = np.ones(len(columns), dtype=np.float32)
    return sparse.csr_matrix((ones, columns, indptr), shape=(n, int(offsets[-1])))


class PrincipalOutputs(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """One regressor for each of the first principal components of the targets.

    Where there are no more targets than `n_components`, each has a regressor of its own.
    """

    mean_: np.ndarray
    components_: np.ndarray

    def __init__(self, regressor: Regressor, n_components: int = _BOOSTED) -> None:
        self.regressor = regressor
        self.n_components = n_components

    def fit(
        self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> PrincipalOutputs:
        """Fit a regressor for each component."""
        targets, weights = np.reshape(y, (len(y), -1)), weighed(sample_weight)
        self.mean_, self.components_ = principal_axes(targets, self.n_components, sample_weight)
        scores = (targets - self.mean_) @ self.components_  # (n, q)
        self.members_: list[Any] = [
            clone(self.regressor).fit(X, column, **weights) for column in scores.T
        ]
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the targets of the predicted components, shape (n, p)."""
        scores = np.column_stack([member.predict(X) for member in self.members_])
        return np.asarray(scores @ self.components_.T + self.mean_)


def principal_axes(
    targets: np.ndarray, q: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of targets and their first q principal axes, unit vectors if p <= q."""
    mean = column_means(targets, weights)
    if targets.shape[1] <= q:
        return mean, np.eye(targets.shape[1])
    centered = targets - mean
    weighted = centered if weights is None else centered * weights[:, None]
    return mean, symmetric_eigen(weighted.T @ centered)[1][:, :q]
