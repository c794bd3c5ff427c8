"""Label sets: each row of a 0/1 matrix marks the labels of one object.

scikit-learn has these metrics too, with the same values. Its own take memory and minutes for
millions of labels, of which each row has a few, and one label only is not a set to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.objects import Objects
from ._checks import as_real, check_rows_given, check_same_shape, weighted_mean

__all__ = ["example_f1", "hamming_loss", "subset_accuracy"]


def example_f1(Y_true: Any, Y_pred: Any, sample_weight: Any = None) -> float:
    """Return the mean over rows of ``2 |a ∩ b| / (|a| + |b|)``, a true and b predicted.

    Two empty sets give 1: nothing was to be found, and nothing was.

    Parameters
    ----------
    Y_true, Y_pred : 0/1 matrices of shape (n, L), dense or sparse
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0.

    Returns
    -------
    float
        1 is perfect; `sklearn.metrics.f1_score` with average="samples" and zero_division=1.

    Examples
    --------
    >>> from skout.metrics import example_f1
    >>> example_f1([[1, 1, 0], [0, 0, 0]], [[0, 1, 1], [0, 0, 0]])
    0.75
    """
    common, total, _ = overlap(Y_true, Y_pred)
    return weighted_mean(f1_scores(common, total), sample_weight)


def hamming_loss(Y_true: Any, Y_pred: Any, sample_weight: Any = None) -> float:
    """Return the share of wrong entries: mean over rows of ``|a Δ b| / L``.

    Parameters
    ----------
    Y_true, Y_pred : 0/1 matrices of shape (n, L), dense or sparse
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0.

    Returns
    -------
    float
        0 is perfect; `sklearn.metrics.hamming_loss`.

    Examples
    --------
    >>> from skout.metrics import hamming_loss
    >>> hamming_loss([[1, 1, 0, 0], [0, 0, 0, 1]], [[0, 1, 1, 0], [0, 0, 0, 1]])
    0.25
    """
    common, total, n_labels = overlap(Y_true, Y_pred)
    return weighted_mean((total - 2 * common) / n_labels, sample_weight)


def subset_accuracy(Y_true: Any, Y_pred: Any, sample_weight: Any = None) -> float:
    """Return the share of rows where the predicted set is the true one, label for label.

    Parameters
    ----------
    Y_true, Y_pred : 0/1 matrices of shape (n, L), dense or sparse
    sample_weight : array of shape (n,), optional
        Weights of the rows in the share, at least 0.

    Returns
    -------
    float
        1 is perfect; `sklearn.metrics.accuracy_score` of label matrices.

    Examples
    --------
    >>> from skout.metrics import subset_accuracy
    >>> subset_accuracy([[1, 1, 0], [0, 0, 1]], [[0, 1, 1], [0, 0, 1]])
    0.5
    """
    common, total, _ = overlap(Y_true, Y_pred)
    return weighted_mean(total == 2 * common, sample_weight)


def f1_scores(common: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return 2 |a ∩ b| / (|a| + |b|) of each row, 1 for two empty sets."""
    return np.where(total > 0, 2 * common / np.maximum(total, 1), 1.0)


def overlap(Y_true: Objects, Y_pred: Objects) -> tuple[np.ndarray, np.ndarray, int]:
    """Return |a ∩ b| and |a| + |b| of each row, and L."""
    true, pred = _label_sets(Y_true, "Y_true"), _label_sets(Y_pred, "Y_pred")
    check_same_shape(true, pred, ("Y_true", "Y_pred"))
    total = _sizes(true) + _sizes(pred)
    return _sizes(true.multiply(pred)), total, true.shape[1]


def _sizes(sets: Any) -> np.ndarray:
    """Return the number of stored entries of each CSR row."""
    return np.diff(sets.indptr).astype(np.int64)


def _label_sets(values: Any, name: str) -> Any:
    """Return a boolean CSR matrix of its own that stores ones only; zeros never take memory."""
    expected = f"{name} must be a matrix of 0 and 1, dense or sparse, of shape (n, L)."
    if hasattr(values, "sparse"):  # a data frame of sparse columns
        values = values.sparse.to_coo()
    if not sparse.issparse(values):
        values = as_real(values, expected)
    check_rows_given(values.shape, {2}, expected)
    sets = sparse.csr_array(values, copy=True)
    sets.sum_duplicates()
    sets.eliminate_zeros()
    bad = np.flatnonzero(sets.data != 1)
    if len(bad):
        row = int(np.searchsorted(sets.indptr, bad[0], side="right")) - 1
        where = (row, int(sets.indices[bad[0]]))
        raise ValueError(f"{expected} Got {sets.data[bad[0]]} at index {where} instead.")
    return sets.astype(bool)
