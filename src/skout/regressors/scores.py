"""The score of regressors whose targets may have holes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from .._numerics.arrays import numpy_of
from ..metrics import r2
from ..rows import beside

__all__ = ["ScoresHoles"]


class ScoresHoles(RegressorMixin):
    """A regressor that is scored on the targets that are there."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination: scikit-learn's, without what is missing in y.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        y : array of shape (n,) or (n, d)
            NaN is missing.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        r2 : float
            1 is perfect, 0 as good as the mean; that of each output, averaged.
        """
        targets = np.asarray(beside(y).here())
        if targets.dtype.kind == "f" and np.isnan(targets).any():
            return r2(targets, numpy_of(self.predict(X)), sample_weight)
        return super().score(X, y, sample_weight)
