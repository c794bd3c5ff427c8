"""Maps from inputs to output coordinates, and how the settings of a trial become one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline

from skout import KernelRidge
from skout.basis.moments import outputs_by_rows
from skout.dev import check_rng, map_blocks, n_rows, n_threads, row_slices, symmetric_eigen, take
from skout.kernels import as_kernel
from skout.sketches import SubSample

from .inputs import ColumnScaler
from .learnt import KERNELS_OF_VECTORS, LearntRidge
from .logistic import LogisticOutputs
from .means import column_means, some_rows, weighed

__all__ = [
    "Averaged",
    "ByOutput",
    "Centred",
    "LeafForest",
    "PrincipalOutputs",
    "build",
    "kernel_of",
]

Settings = dict[str, Any]

#: Maps whose outputs with different rows are fitted together.
TAKE_GAPS = ("kernel ridge",)
# Outputs that the trees of a forest look at, when there are more: random combinations.
_PROJECTIONS = 24
# Rows that a thread predicts at a time.
_ROWS = 2048
# A matrix with fewer entries than that share is worth keeping sparse.
_SPARSE = 0.1


class Averaged(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """The weighted mean of regressors that predict the same coordinates.

    Weights of sum 1 are of shape (n_members,), or (n_members, p) where each output has its own;
    None is equal ones. `rows` says how many rows, drawn at random, each member is fitted on; None,
    for one of them or for all, is all rows.
    """

    # also where scikit-learn routes metadata: whoever gives weights wants them used
    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def __init__(
        self,
        members: Any,
        weights: Any = None,
        rows: Sequence[int | None] | None = None,
        random_state: Any = None,
    ) -> None:
        self.members = members
        self.weights = weights
        self.rows = rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Averaged:
        """Fit each member, on the same rows or on as many of them as `rows` says."""
        targets = np.reshape(y, (len(y), -1))
        rows = [None] * len(self.members) if self.rows is None else self.rows
        self.members_ = []
        for member, most in zip(self.members, rows, strict=True):
            sample: tuple[Any, ...] = X, targets, sample_weight
            if most is not None:
                some = some_rows(targets, most, check_rng(self.random_state))
                sample = tuple(None if part is None else take(part, some) for part in sample)
            self.members_.append(_fitted(member, *sample))
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


def _fitted(member: Any, X: Any, y: np.ndarray, weights: Any) -> Any:
    """Return a member of an average, fitted; one that scales columns hands weights to its map."""
    name = "map__sample_weight" if isinstance(member, Pipeline) else "sample_weight"
    params = {} if weights is None else {name: weights}
    with config_context(enable_metadata_routing=False):  # of a pipeline of our own
        return clone(member).fit(X, y, **params)


class Centred(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor of what targets differ by from their mean, to which it then shrinks."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Centred:
        """Fit the regressor on centred targets, which may have gaps if it takes them."""
        self.mean_ = column_means(np.asarray(y), sample_weight)
        self.regressor_ = clone(self.regressor).fit(X, y - self.mean_, **weighed(sample_weight))
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LeafForest:
        """Grow the trees, and note which leaves the rows lie in."""
        targets = np.reshape(y, (len(y), -1))
        p = targets.shape[1]
        self._is_plain = p <= self.n_projections
        weights = weighed(sample_weight)
        if self._is_plain:
            targets = targets[:, 0] if p == 1 else targets
            self.forest_ = clone(self.forest).fit(X, targets, **weights)
            self.forest_.n_jobs = 1  # its threads add trees in any order: see `predict`
            return self
        rng = check_rng(self.random_state)
        mixed = targets @ rng.standard_normal((p, self.n_projections))
        self.forest_ = clone(self.forest).fit(X, mixed, **weights)
        self._leaves = _leaf_matrix(self.forest_, X)
        if sample_weight is not None:  # what a row counts in the mean of its leaf
            self._leaves = sparse.csr_matrix(sparse.diags(sample_weight) @ self._leaves)
        is_sparse = np.count_nonzero(targets) < _SPARSE * targets.size
        self._targets = sparse.csr_matrix(targets) if is_sparse else targets.astype(np.float32)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return means over the training rows in the same leaves, shape (n, p)."""
        if self._is_plain:
            rows = [*row_slices(n_rows(X), _ROWS)] or [slice(0)]
            parts = map_blocks(
                self.forest_.predict, rows, read=partial(take, X), n_jobs=self.forest.n_jobs
            )
            F = np.concatenate(list(parts))
            return F[:, None] if F.ndim == 1 else F
        sizes = np.asarray(self._leaves.sum(axis=0)).ravel()
        sizes = np.where(sizes > 0.0, sizes, 1.0)
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PrincipalOutputs:
        """Fit a regressor for each component."""
        targets, weights = np.reshape(y, (len(y), -1)), weighed(sample_weight)
        self.mean_, self.components_ = principal_axes(targets, self.n_components, sample_weight)
        scores = (targets - self.mean_) @ self.components_  # (n, q)
        self.members_ = [clone(self.regressor).fit(X, column, **weights) for column in scores.T]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the targets that the predicted components stand for, shape (n, p)."""
        scores = np.column_stack([one.predict(X) for one in self.members_])
        return scores @ self.components_.T + self.mean_


def principal_axes(
    targets: np.ndarray, q: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of targets, and their q axes of greatest variance or all unit vectors."""
    mean = column_means(targets, weights)
    if targets.shape[1] <= q:
        return mean, np.eye(targets.shape[1])
    centred = targets - mean
    counted = centred if weights is None else centred * weights[:, None]
    return mean, symmetric_eigen(counted.T @ centred)[1][:, :q]


class ByOutput(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor for each set of outputs that the same rows have: targets may have gaps, NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from skout.apps.tuning.maps import ByOutput
    >>> X, nan = np.array([[0.0], [1.0], [2.0]]), np.nan
    >>> model = ByOutput(KNeighborsRegressor(1)).fit(X, [[5.0, nan], [6.0, 1.0], [7.0, 2.0]])
    >>> model.predict([[0.1]])  # the second output is that of the second row
    array([[5., 1.]])
    """

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ByOutput:
        """Fit each set of outputs on the rows that have them."""
        targets = np.reshape(y, (len(y), -1))
        self.columns_, self.members_ = [], []
        for columns, rows in outputs_by_rows(targets):
            weights = {} if sample_weight is None else weighed(sample_weight[rows])
            own = targets[np.ix_(rows, columns)]
            self.columns_.append(columns)
            self.members_.append(clone(self.regressor).fit(take(X, rows), own, **weights))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of all, shape (n, p)."""
        found = [np.asarray(one.predict(X)) for one in self.members_]
        F = np.empty((n_rows(X), sum(map(len, self.columns_))))
        for columns, values in zip(self.columns_, found, strict=True):
            F[:, columns] = np.reshape(values, (len(F), -1))
        return F


def kernel_of(settings: Settings) -> Any:
    """Return the input kernel of settings: of vectors by its name and width, or as it is."""
    name = settings["kernel"]
    if isinstance(name, str) and name in KERNELS_OF_VECTORS:
        return KERNELS_OF_VECTORS[name](settings.get("gamma", "scale"))
    return as_kernel(name)


def build(
    settings: Settings,
    seed: int,
    n_jobs: int | None = None,
    device: Any = None,
    has_gaps: bool = False,
) -> Any:
    """Return the regressor that settings describe, not fitted, of targets that may have gaps."""
    regressor = _BUILDERS[settings["map"]](settings, seed, n_jobs, device)
    if has_gaps and settings["map"] not in TAKE_GAPS:
        regressor = ByOutput(regressor)
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
    return PrincipalOutputs(boosting_of(settings, seed), settings["n_components"])


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
