"""Objects of any kind, by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.objects import Objects, column_of
from ..kernels import Kernel, as_kernel
from ..rows.encode import named
from ._checks import weighted_mean

__all__ = ["kernel_loss", "kernel_similarity"]


def _three_kernels(
    kernel: Any, Y_true: Any, Y_pred: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k(y, y'), k(y, y) and k(y', y') for each pair."""
    kernel = kernel if isinstance(kernel, Kernel) else as_kernel(kernel)
    with named("Y_true"):
        true = kernel.encode(column_of(Y_true))
    with named("Y_pred"):
        pred = kernel.encode(column_of(Y_pred))
    if n_rows(true) == 0:
        raise ValueError("Y_true is empty: a mean over 0 samples has no value.")
    return kernel.paired(true, pred), kernel.diag(true), kernel.diag(pred)


def kernel_loss(kernel: Any, Y_true: Any, Y_pred: Any) -> float:
    """Return the mean of k(y, y) - 2 k(y, y') + k(y', y'), the squared distance of the features.

    Parameters
    ----------
    kernel : kernel, str or callable
        With numeric parameters.
    Y_true, Y_pred : objects, n of each

    Examples
    --------
    >>> from skout.metrics import kernel_loss
    >>> kernel_loss("tanimoto", [[1, 1, 0]], [[0, 1, 0]])
    1.0
    """
    cross, true, pred = _three_kernels(kernel, Y_true, Y_pred)
    return float(np.mean(true - 2.0 * cross + pred))


def kernel_similarity(kernel: Any, Y_true: Any, Y_pred: Any, sample_weight: Any = None) -> float:
    """Return the mean of k(y, y') / sqrt(k(y, y) k(y', y')); 1 is perfect.

    Parameters
    ----------
    kernel : kernel, str or callable
        With numeric parameters.
    Y_true, Y_pred : objects, n of each
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0.

    Examples
    --------
    >>> from skout.metrics import kernel_similarity
    >>> kernel_similarity("tanimoto", [[1, 1, 0]], [[0, 1, 0]])
    0.5
    """
    return weighted_mean(similarities(kernel, Y_true, Y_pred), sample_weight)


def similarities(kernel: Kernel, Y_true: Objects, Y_pred: Objects) -> np.ndarray:
    """Return k(y, y') / sqrt(k(y, y) k(y', y')) of each pair, shape (n,); 1 where both are 0."""
    cross, true, pred = _three_kernels(kernel, Y_true, Y_pred)
    norm = np.sqrt(true * pred)
    both_zero = (true == 0) & (pred == 0)
    return np.where(norm > 0, cross / np.where(norm > 0, norm, 1.0), both_zero)
