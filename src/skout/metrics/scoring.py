"""Metrics of predicted objects, by name in `METRICS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._numerics.arrays import dense, row_keys
from .._numerics.typing import Matrix, Objects
from ..kernels import Kernel, as_kernel
from ..kernels.base import KernelLike
from ..rows.encode import check_matrix, named
from ._checks import check_same_shape, check_weights, weighted_mean
from .objects import kernel_similarity, subset_accuracy


def exact_matches(
    kernel: KernelLike, Y_true: Objects, Y_pred: Objects, sample_weight: ArrayLike | None = None
) -> float:
    """Return the share of predictions that a kernel encodes as the same row as the truth."""
    matches = row_matches(as_kernel(kernel), Y_true, Y_pred)
    if not len(matches):
        raise ValueError("Y_true is empty: a mean over 0 samples has no value.")
    return weighted_mean(matches, sample_weight)


def row_matches(kernel: Kernel, Y_true: Objects, Y_pred: Objects) -> np.ndarray:
    """Return 1 where a kernel makes equal rows of truth and prediction, else 0, shape (n,)."""
    true, pred = row_keys(kernel.encode(Y_true)), row_keys(kernel.encode(Y_pred))
    return np.array([a == b for a, b in zip(true, pred, strict=True)], dtype=float)


def r_squared(Y_true: Matrix, Y_pred: Matrix, sample_weight: ArrayLike | None = None) -> float:
    """Return 1 - squared error / squared deviation from the mean, over all columns together.

    This is `sklearn.metrics.r2_score` with multioutput="variance_weighted", for sparse matrices
    too. If all rows of `Y_true` are equal, it is 1 for these rows and 0 for any others.
    """
    with named("Y_true"):
        true = check_matrix(Y_true)
    with named("Y_pred"):
        pred = check_matrix(Y_pred)
    check_same_shape(true, pred, ("Y_true", "Y_pred"))
    weights = check_weights(sample_weight, true.shape[0])
    true, pred = dense(true), dense(pred)
    mean = np.average(true, axis=0, weights=weights)
    error, spread = (np.average((true - f) ** 2, 0, weights).sum() for f in (pred, mean))
    return float(1.0 - error / spread if spread > 0.0 else error == 0.0)


def curve_r2(
    kernel: KernelLike, Y_true: Objects, Y_pred: Objects, sample_weight: ArrayLike | None = None
) -> float:
    """Return 1 - integrated squared error / that of the mean curve, on the grid of a kernel.

    Examples
    --------
    >>> from skout.kernels import Curves
    >>> from skout.metrics.scoring import curve_r2
    >>> curve_r2(Curves(), [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    0.5
    """
    curves = _of_curves(as_kernel(kernel))
    if curves is None:
        raise TypeError(f"curve_r2 needs a kernel on curves, for its grid. Got {kernel!r}.")
    true, pred = (curves.transform(curves.encode(Y)) for Y in (Y_true, Y_pred))
    return r_squared(true, pred, sample_weight)


def _of_curves(kernel: Kernel) -> Any:
    """Return the kernel on curves that a kernel is made of, None if there is none."""
    if hasattr(kernel, "points"):
        return kernel
    parts = (_of_curves(kernel._part(name)) for name in kernel.parts)
    return next((part for part in parts if part is not None), None)


#: Metrics of objects of any kind: (kernel, Y_true, Y_pred, sample_weight=None) -> float, higher
#: is better. Each kind of output has its own beside them, see `skout.kinds.metrics`.
METRICS: dict[str, Callable[..., float]] = {
    "subset_accuracy": lambda kernel, *outputs, **weights: subset_accuracy(*outputs, **weights),
    "r2": lambda kernel, *outputs, **weights: r_squared(*outputs, **weights),
    "curve_r2": curve_r2,
    "exact_matches": exact_matches,
    "kernel": kernel_similarity,
}
