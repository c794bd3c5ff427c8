"""Regressors whose predictions are sums of their targets: what that allows, by `KernelRidge`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .._numerics.validation import PartsByName
from ..kernels import as_kernel

__all__ = ["WeighsTargets"]


class WeighsTargets(PartsByName):
    """f(x) = sum_i a_i(x) t_i: predictions weigh the targets of a `KernelRidge`."""

    @property
    def weighs_targets(self: Any) -> bool:
        """Whether the weights a_i(x) depend on the inputs alone, and are those of all outputs."""
        return self.task_matrix is None and not as_kernel(self.kernel).learns

    @property
    def takes_sparse_targets(self: Any) -> bool | None:
        """Whether targets may be a source of CSR matrices, whose moments are sums of a few rows.

        None without a sketch: the kernel matrix is larger than targets are.
        """
        if self.sketch is None:
            return None
        return self.checkpoint is None and self.variance == "dtc" and self.device is None

    def in_halves(self: Any) -> tuple[Any, np.ndarray] | None:
        """Return a model that predicts features g(x), and the matrix H of f(x) = g(x) H.

        None where g(x) has no fewer numbers than f(x), or the model no sketch. With an intercept
        the last of the features is 1.
        """
        m, d = self._matrix.shape
        p = m + self.fit_intercept
        if not hasattr(self, "basis_") or self._is_vector or p >= d:
            return None
        half, H = copy.copy(self), self._matrix
        half._base = half._folds = None  # as large as H, and of no use to predictions
        half._matrix, half.intercept_, half._n_outputs = np.eye(m, p), np.zeros(p), p
        if self.fit_intercept:
            half.intercept_[-1] = 1.0
            H = np.vstack([H, self.intercept_])
        half._prepare()
        return half, H
