"""Kernel ridge regression with a kernel for each column of a table, and weights by ALIGNF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...kernels import align_columns
from .learnt import KERNELS_OF_VECTORS, FoundRidge

__all__ = ["AlignedRidge", "kernel_aligned"]

# Rows that kernels and outputs are compared on.
_ROWS = 600


def kernel_aligned(
    kernel: str, groups: Sequence[tuple[int, int]], X: Any, y: Any, seed: Any
) -> Any:
    """Return a sum over groups of columns, with weights that rows and targets give.

    Where no column says anything of the targets, it is the kernel of all columns.

    Parameters
    ----------
    kernel : "gaussian", "matern" or "laplacian"
    groups : sequence of (int, int)
    X, y : rows and targets
    seed : None, int or Generator
    """
    base = KERNELS_OF_VECTORS[kernel]("median")
    try:
        return align_columns(base, groups, X, y, n_samples=_ROWS, random_state=seed)
    except ValueError:  # targets are constant, or no kernel is aligned with them
        return base


class AlignedRidge(FoundRidge):
    """Weigh a kernel for each group of columns by ALIGNF, then fit kernel ridge regression.

    Parameters
    ----------
    kernel : "gaussian", "matern" or "laplacian", default "gaussian"
    groups : sequence of (int, int)
        The first column of each, and the one after the last.
    sketch : int, optional
        Landmarks; None is exact.
    alpha : float, default 1e-3
    random_state : None, int or Generator
    n_jobs : int, optional

    Examples
    --------
    >>> import numpy as np
    >>> from skout.predictors.tuning.aligned import AlignedRidge
    >>> X = np.random.default_rng(0).standard_normal((400, 6))
    >>> y = np.sin(2.0 * X[:, :1])  # the other columns say nothing
    >>> model = AlignedRidge(groups=[(0, 1), (1, 6)], random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.9)
    True
    """

    def __init__(
        self,
        kernel: str = "gaussian",
        groups: Sequence[tuple[int, int]] = ((0, None),),  # type: ignore[assignment]
        sketch: int | None = None,
        alpha: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.groups = groups
        self.sketch = sketch
        self.alpha = alpha
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _found(self, X: Any, y: Any) -> Any:
        return kernel_aligned(self.kernel, self.groups, X, y, self.random_state)
