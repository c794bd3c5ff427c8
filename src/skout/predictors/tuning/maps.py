"""Maps from inputs to output coordinates, and how the settings of a trial become one."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from ..._numerics.linalg import symmetric_eigen
from ..._numerics.threads import n_threads
from ..._numerics.validation import check_rng
from ...kernels import as_kernel
from ...regressors import KernelRidge
from ...sketches import SubSample
from ..boosting import BoostedTrees
from .inputs import ColumnScaler
from .learnt import KERNELS_OF_VECTORS, LearntRidge
from .logistic import LogisticOutputs

__all__ = ["Averaged", "Centred", "LeafForest", "PrincipalOutputs", "build", "kernel_of"]

Settings = dict[str, Any]

# Outputs that the trees of a forest look at, when there are more: random combinations.
_PROJECTIONS = 24
# A matrix with fewer entries than that share is worth keeping sparse.
_SPARSE = 0.1


class Averaged(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """The weighted mean of regressors that predict the same coordinates.

    Weights of sum 1 are of shape (n_members,), or (n_members, p) where each output has its own;
    None is equal ones.
    """

    def __init__(self, members: Any, weights: Any = None) -> None:
        self.members = members
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Averaged:
        """Fit each member on the same rows."""
        targets = np.reshape(y, (len(y), -1))
        self.members_ = [clone(one).fit(X, targets) for one in self.members]
        self.n_features_in_ = int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) > 1 else 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the weighted mean of the predictions, shape (n, p)."""
        n = len(self.members_)
        weights = np.full(n, 1.0 / n) if self.weights is None else np.asarray(self.weights)
        total: Any = 0.0
        for weight, one in zip(weights, self.members_, strict=True):
            F = np.asarray(one.predict(X), dtype=np.float64)
            total = total + weight * (F[:, None] if F.ndim == 1 else F)
        return total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Centred(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor of what targets differ by from their mean, to which it then shrinks."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any) -> Centred:
        """Fit the regressor on centred targets."""
        self.mean_ = np.asarray(y).mean(axis=0)
        self.regressor_ = clone(self.regressor).fit(X, y - self.mean_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions and the mean."""
        return np.asarray(self.regressor_.predict(X)) + self.mean_


class LeafForest(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A forest of many outputs: trees split by random combinations, leaves have the means of all.

    Where there are no more outputs than `n_projections`, it is the forest of scikit-learn itself.
    """

    def __init__(
        self, forest: Any, n_projections: int = _PROJECTIONS, random_state: Any = None
    ) -> None:
        self.forest = forest
        self.n_projections = n_projections
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LeafForest:
        """Grow the trees, and note which leaves the rows lie in."""
        targets = np.reshape(y, (len(y), -1))
        p = targets.shape[1]
        self._is_plain = p <= self.n_projections
        if self._is_plain:
            self.forest_ = clone(self.forest).fit(X, targets[:, 0] if p == 1 else targets)
            return self
        rng = check_rng(self.random_state)
        mixed = targets @ rng.standard_normal((p, self.n_projections))
        self.forest_ = clone(self.forest).fit(X, mixed)
        self._leaves = _leaf_matrix(self.forest_, X)
        is_sparse = np.count_nonzero(targets) < _SPARSE * targets.size
        self._targets = sparse.csr_matrix(targets) if is_sparse else targets.astype(np.float32)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return means over the training rows in the same leaves, shape (n, p)."""
        if self._is_plain:
            F = self.forest_.predict(X)
            return F[:, None] if F.ndim == 1 else F
        sizes = np.maximum(np.asarray(self._leaves.sum(axis=0)).ravel(), 1.0)
        n_trees = len(self.forest_.estimators_)
        inside = _leaf_matrix(self.forest_, X)
        shares = sparse.csr_matrix(inside @ sparse.diags(1.0 / (sizes * n_trees)))
        weights = shares @ self._leaves.T  # (n, n_train): a kernel
        F = weights @ self._targets
        return F.toarray() if sparse.issparse(F) else np.asarray(F)


def _leaf_matrix(forest: Any, X: Any) -> sparse.csr_matrix:
    """Return which leaves rows lie in, shape (n, nodes of all trees)."""
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

    def __init__(self, regressor: Any, n_components: int = 8) -> None:
        self.regressor = regressor
        self.n_components = n_components

    def fit(self, X: Any, y: Any) -> PrincipalOutputs:
        """Fit a regressor for each component."""
        targets = np.reshape(y, (len(y), -1))
        self.mean_, self.components_ = principal_axes(targets, self.n_components)
        scores = (targets - self.mean_) @ self.components_  # (n, q)
        self.members_ = [clone(self.regressor).fit(X, column) for column in scores.T]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the targets that the predicted components stand for, shape (n, p)."""
        scores = np.column_stack([one.predict(X) for one in self.members_])
        return scores @ self.components_.T + self.mean_


def principal_axes(targets: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of targets, and their q axes of greatest variance or all unit vectors."""
    mean = targets.mean(axis=0)
    if targets.shape[1] <= q:
        return mean, np.eye(targets.shape[1])
    centred = targets - mean
    return mean, symmetric_eigen(centred.T @ centred)[1][:, :q]


def kernel_of(settings: Settings) -> Any:
    """Return the input kernel of settings: of vectors by its name and width, or as it is."""
    name = settings["kernel"]
    if isinstance(name, str) and name in KERNELS_OF_VECTORS:
        return KERNELS_OF_VECTORS[name](settings.get("gamma", "scale"))
    return as_kernel(name)


def build(settings: Settings, seed: int, n_jobs: int | None = None, device: Any = None) -> Any:
    """Return the regressor that settings describe, not fitted."""
    regressor = _BUILDERS[settings["map"]](settings, seed, n_jobs, device)
    if "scaling" not in settings:
        return regressor
    return Pipeline([("scale", ColumnScaler(settings["scaling"])), ("map", regressor)])


def _kernel_ridge(settings: Settings, seed: int, n_jobs: int | None, device: Any) -> Any:
    sketch = None if settings.get("sketch") is None else SubSample(settings["sketch"])
    model = KernelRidge(
        kernel_of(settings),
        sketch,
        alpha=settings["alpha"],
        random_state=seed,
        n_jobs=n_jobs,
        device=device if sketch is not None else None,
    )
    return Centred(model) if settings["centre"] else model


def _learnt_ridge(settings: Settings, seed: int, n_jobs: int | None, device: Any) -> Any:
    names = ("kernel", "sketch", "alpha", "landmarks", "groups")
    used: dict[str, Any] = {name: settings[name] for name in names if name in settings}
    model = LearntRidge(**used, random_state=seed, n_jobs=n_jobs)
    return Centred(model) if settings["centre"] else model


def _forest(settings: Settings, seed: int, n_jobs: int | None, device: Any) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor  # slow to import

    kind = ExtraTreesRegressor if settings["map"] == "extra trees" else RandomForestRegressor
    forest = kind(
        settings["n_estimators"],
        max_features=settings["max_features"],
        min_samples_leaf=settings["min_samples_leaf"],
        random_state=seed,
        n_jobs=n_threads(n_jobs),
    )
    return LeafForest(forest, random_state=seed)


def boosting_of(settings: Settings, seed: int) -> Any:
    """Return boosted trees of one output, on histograms where there are many rows."""
    from sklearn import ensemble  # slow to import

    names = ("learning_rate", "max_leaf_nodes", "min_samples_leaf", "max_features")
    shared = {name: settings[name] for name in names} | {"random_state": seed}
    if settings["subsample"] is not None:
        return ensemble.GradientBoostingRegressor(
            n_estimators=settings["max_iter"], subsample=settings["subsample"], **shared
        )
    return ensemble.HistGradientBoostingRegressor(
        max_iter=settings["max_iter"],
        l2_regularization=settings["l2"],
        early_stopping=False,
        **shared,
    )


def _boosting(settings: Settings, seed: int, n_jobs: int | None, device: Any) -> Any:
    trees = boosting_of(settings, seed)
    one = trees if settings["subsample"] is not None else BoostedTrees(trees)
    return PrincipalOutputs(one, settings["n_components"])


def _logistic(settings: Settings, seed: int, n_jobs: int | None, device: Any) -> Any:
    return LogisticOutputs(settings["C"])


def _neighbours(settings: Settings, seed: int, n_jobs: int | None, device: Any) -> Any:
    from sklearn.neighbors import KNeighborsRegressor  # slow to import

    return KNeighborsRegressor(settings["n_neighbors"], weights=settings["weights"])


_BUILDERS = {
    "kernel ridge": _kernel_ridge,
    "learnt ridge": _learnt_ridge,
    "aligned ridge": _learnt_ridge,
    "extra trees": _forest,
    "random forest": _forest,
    "boosting": _boosting,
    "logistic": _logistic,
    "neighbours": _neighbours,
}
