"""Bases that stand over a fitted basis of outputs and change its coordinates."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..rows import Source, encoded

__all__ = ["OverBasis"]


class OverBasis(TransformerMixin, BaseEstimator):
    """A basis made of `outputs`, a fitted one, whose kernel and landmarks it has."""

    outputs: Any

    @property
    def kernel_(self) -> Any:
        """The kernel of the outputs."""
        return self.outputs.kernel_

    @property
    def landmarks_(self) -> Any:
        return self.outputs.landmarks_

    @property
    def n_features_in_(self) -> int:
        return self.outputs.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        return self.outputs.feature_names_in_

    def fit(self, Y: Any, y: Any = None) -> Self:
        """Return self: the parts are fitted."""
        return self

    def transform(self, Y: Any) -> np.ndarray:
        """Return the coordinates of outputs, shape (n, p)."""
        return self.coordinates(encoded(self, self.kernel_, Y, reset=False))

    def residual(self, Y: Any) -> np.ndarray:
        """Return what the basis below cannot see of each output."""
        return self.outputs.residual(Y)

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> np.ndarray:
        raise NotImplementedError
