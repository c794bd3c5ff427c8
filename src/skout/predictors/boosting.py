"""Boosted trees on histograms, kept as plain arrays: a file of them brings nothing but numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from .._numerics.arrays import row_slices

__all__ = ["BoostedTrees"]

_BLOCK = 2**22  # places in trees that are followed at a time
_FIELDS = ("feature_idx", "num_threshold", "left", "right", "value", "is_leaf")


class BoostedTrees(RegressorMixin, BaseEstimator):
    """`HistGradientBoostingRegressor` of one output and numbers without gaps, as arrays.

    Parameters
    ----------
    regressor : HistGradientBoostingRegressor

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from skout.predictors.boosting import BoostedTrees
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> one = HistGradientBoostingRegressor(max_iter=20).fit(X, X[:, 0])
    >>> same = BoostedTrees(HistGradientBoostingRegressor(max_iter=20)).fit(X, X[:, 0])
    >>> bool(np.allclose(one.predict(X), same.predict(X)))
    True
    """

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedTrees:
        """Grow the trees, and take their nodes."""
        grown = clone(self.regressor).fit(X, y, sample_weight=sample_weight)
        trees = [stage[0].nodes for stage in grown._predictors]
        self.start_ = float(np.ravel(grown._baseline_prediction)[0])
        self.n_features_in_ = grown.n_features_in_
        sizes = [len(nodes) for nodes in trees]
        self.roots_ = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        offset = np.repeat(self.roots_, sizes)
        nodes = {name: np.concatenate([one[name] for one in trees]) for name in _FIELDS}
        is_leaf = nodes["is_leaf"].astype(bool)
        own = np.arange(len(is_leaf))  # a leaf leads to itself
        self.feature_ = np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int64)
        self.threshold_ = np.where(is_leaf, np.inf, nodes["num_threshold"])
        self.left_ = np.where(is_leaf, own, offset + nodes["left"])
        self.right_ = np.where(is_leaf, own, offset + nodes["right"])
        self.value_ = nodes["value"].astype(np.float64)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the sum of the values of the leaves, shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} columns. Got shape {X.shape} instead."
            )
        out = np.empty(len(X))
        for some in row_slices(len(X), max(1, _BLOCK // len(self.roots_))):
            out[some] = self.start_ + self.value_[self._leaves(X[some])].sum(axis=1)
        return out

    def _leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row in each tree, shape (n, trees)."""
        at = np.tile(self.roots_, (len(X), 1))
        rows = np.arange(len(X))[:, None]
        while True:
            goes_left = X[rows, self.feature_[at]] <= self.threshold_[at]
            below = np.where(goes_left, self.left_[at], self.right_[at])
            if np.array_equal(below, at):
                return at
            at = below
