"""How good is a prediction: an object, quantiles, several targets, an interval?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import n_rows
from ._validation import check_choice
from .kernels import as_kernel

__all__ = [
    "arrmse",
    "coverage",
    "crossing_loss",
    "interval_width",
    "kernel_loss",
    "kernel_similarity",
    "pinball_loss",
    "relative_mse",
    "rrmse",
]


# Objects, by a kernel --------------------------------------------------------------------------


def _three_kernels(
    kernel: Any, Y_true: Any, Y_pred: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k(y, y'), k(y, y) and k(y', y') for each pair."""
    kernel = as_kernel(kernel)
    true, pred = kernel.encode(Y_true), kernel.encode(Y_pred)
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


def kernel_similarity(kernel: Any, Y_true: Any, Y_pred: Any) -> float:
    """Return the mean of k(y, y') / sqrt(k(y, y) k(y', y')); 1 is perfect.

    Parameters
    ----------
    kernel : kernel, str or callable
        With numeric parameters.
    Y_true, Y_pred : objects, n of each

    Examples
    --------
    >>> from skout.metrics import kernel_similarity
    >>> kernel_similarity("tanimoto", [[1, 1, 0]], [[0, 1, 0]])
    0.5
    """
    cross, true, pred = _three_kernels(kernel, Y_true, Y_pred)
    norm = np.sqrt(true * pred)
    both_zero = (true == 0) & (pred == 0)
    return float(np.mean(np.where(norm > 0, cross / np.where(norm > 0, norm, 1.0), both_zero)))


# Arguments that are arrays of numbers ----------------------------------------------------------


def _numbers(values: Any, name: str, *shapes: str) -> np.ndarray:
    """Return finite float64 numbers; each of `shapes`, like "(n, d)", has a letter for an axis."""
    expected = f"{name} must be an array of finite numbers of shape {' or '.join(shapes)}."
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiubO":
            raise TypeError(f"{array.dtype} is no type of real numbers.")
        array = array.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"{expected} Got {type(values).__name__} instead: {error}") from error
    if array.ndim not in {sum(map(str.isalpha, shape)) for shape in shapes}:
        raise ValueError(f"{expected} Got shape {array.shape} instead.")
    if array.size == 0:
        raise ValueError(f"{expected} Got an empty array of shape {array.shape} instead.")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(bad[0].tolist())
        raise ValueError(f"{expected} Got {array[where]} at index {where} instead.")
    return array


def _same_shape(first: np.ndarray, second: np.ndarray, names: tuple[str, str]) -> None:
    """Raise unless two arguments have one shape."""
    if first.shape != second.shape:
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same shape. "
            f"Got {first.shape} and {second.shape} instead."
        )


def _vectors(first: Any, second: Any, names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Return two arguments of the same shape (n,)."""
    a, b = _numbers(first, names[0], "(n,)"), _numbers(second, names[1], "(n,)")
    _same_shape(a, b, names)
    return a, b


def _levels(quantiles: Any, q: int) -> np.ndarray:
    """Return the levels of the q columns of y_pred."""
    levels = _numbers(quantiles, "quantiles", "()", "(q,)").ravel()
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(f"quantiles must lie strictly between 0 and 1. Got {quantiles!r} instead.")
    if levels.size != q:
        raise ValueError(
            "quantiles must have one level for each column of y_pred. "
            f"Got {levels.size} and {q} columns instead."
        )
    return levels


def _mean(rows: np.ndarray, sample_weight: Any) -> float:
    """Return the weighted mean of one number a row."""
    if sample_weight is None:
        return float(np.mean(rows))
    weights = _numbers(sample_weight, "sample_weight", "(n,)")
    if len(weights) != len(rows):
        raise ValueError(
            "sample_weight must have one number for each row. "
            f"Got {len(weights)} and {len(rows)} rows instead."
        )
    if weights.min() < 0.0 or weights.max() == 0.0:
        raise ValueError(
            "sample_weight must hold no negative number, and a positive one. "
            f"Got numbers from {weights.min():g} to {weights.max():g} instead."
        )
    return float(np.average(rows, weights=weights))


# Quantiles -------------------------------------------------------------------------------------


def pinball_loss(y_true: Any, y_pred: Any, quantiles: Any, sample_weight: Any = None) -> float:
    """Return the pinball loss of predicted quantiles: mean over rows, sum over levels.

    One row costs the sum over levels of tau max(y - f, 0) + (1 - tau) max(f - y, 0).

    Parameters
    ----------
    y_true : array of shape (n,)
    y_pred : array of shape (n, q), or (n,) for one level
        Column j holds the predictions of level j.
    quantiles : float or array of shape (q,)
        Levels, strictly between 0 and 1, in the order of the columns.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0.

    Returns
    -------
    float
        `sklearn.metrics.mean_pinball_loss` of each level, added up; 0 is perfect.

    Examples
    --------
    >>> from skout.metrics import pinball_loss
    >>> pinball_loss([1.0, 2.0], [[0.0, 1.0], [2.0, 4.0]], [0.25, 0.75])
    0.375
    """
    y = _numbers(y_true, "y_true", "(n,)")
    F = _numbers(y_pred, "y_pred", "(n, q)", "(n,)")
    if len(y) != len(F):
        raise ValueError(
            "y_true and y_pred must have the same number of rows. "
            f"Got {len(y)} and {len(F)} instead."
        )
    F = F.reshape(len(F), -1)  # (n, q)
    tau = _levels(quantiles, F.shape[1])
    above, below = np.maximum(y[:, None] - F, 0.0), np.maximum(F - y[:, None], 0.0)  # (n, q)
    return _mean(above @ tau + below @ (1.0 - tau), sample_weight)


def crossing_loss(y_pred: Any, quantiles: Any = None, sample_weight: Any = None) -> float:
    """Return by how much predicted quantiles cross: mean over rows, sum over neighbouring levels.

    One row costs the sum over j of max(f_j - f_{j+1}, 0), with the levels in increasing order: the
    crossing loss of Sangnier, Fercoq and d'Alche-Buc, "Joint quantile regression in vector-valued
    RKHSs" (2016).

    Parameters
    ----------
    y_pred : array of shape (n, q)
        Column j holds the predictions of level j.
    quantiles : array of shape (q,), optional
        Levels of the columns, all different, by which they are sorted. By default the columns are
        taken to be in increasing order of level.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0.

    Returns
    -------
    float
        0 where nothing crosses.

    Examples
    --------
    >>> from skout.metrics import crossing_loss
    >>> crossing_loss([[1.0, 2.0, 3.0], [1.0, 3.0, 2.5]])
    0.25
    >>> crossing_loss([[3.0, 1.0], [5.0, 2.0]], quantiles=[0.9, 0.1])
    0.0
    """
    F = _numbers(y_pred, "y_pred", "(n, q)")
    if quantiles is not None:
        levels = _levels(quantiles, F.shape[1])
        if len(np.unique(levels)) < len(levels):
            raise ValueError(f"quantiles must all be different. Got {quantiles!r} instead.")
        F = F[:, np.argsort(levels)]
    return _mean(np.maximum(F[:, :-1] - F[:, 1:], 0.0).sum(axis=1), sample_weight)


# Several targets -------------------------------------------------------------------------------


def rrmse(Y_true: Any, Y_pred: Any, train_mean: Any = None) -> np.ndarray:
    """Return the relative root mean squared error of each target.

    That of target j is sqrt(sum_i (y_ij - f_ij)^2 / sum_i (y_ij - m_j)^2), m the mean of the
    training targets: 1 is as good as predicting this mean, 0 is perfect.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
    train_mean : array of shape (d,), or float for one target, optional
        Mean of the targets trained on, which is what Spyromitros-Xioufis et al., "Multi-target
        regression via input space expansion" (2016), compare with. By default the mean of
        `Y_true`, which gives a larger or equal error: pass the training mean to compare with
        published figures.

    Returns
    -------
    ndarray of shape (d,)

    Examples
    --------
    >>> from skout.metrics import rrmse
    >>> rrmse([[0.0, 1.0], [2.0, 5.0]], [[0.0, 2.0], [2.0, 4.0]])
    array([0. , 0.5])
    >>> rrmse([[0.0, 1.0], [2.0, 5.0]], [[0.0, 2.0], [2.0, 4.0]], train_mean=[1.0, 4.0])
    array([0.        , 0.4472136])
    """
    Y = _numbers(Y_true, "Y_true", "(n, d)", "(n,)")
    F = _numbers(Y_pred, "Y_pred", "(n, d)", "(n,)")
    _same_shape(Y, F, ("Y_true", "Y_pred"))
    Y, F = Y.reshape(len(Y), -1), F.reshape(len(F), -1)  # (n, d)
    mean = Y.mean(axis=0) if train_mean is None else _train_mean(train_mean, Y.shape[1])  # (d,)
    total = np.sum((Y - mean) ** 2, axis=0)
    # The mean of equal numbers may differ from them by rounding.
    constant = (np.ptp(Y, axis=0) == 0.0) & np.isclose(Y[0], mean, rtol=1e-9, atol=0.0)
    empty = np.flatnonzero(constant | (total == 0.0))
    if len(empty):
        raise ValueError(
            "Each column of Y_true must differ from its mean (train_mean, where given) somewhere. "
            f"Got constant columns {empty.tolist()}: their relative error has no value."
        )
    return np.sqrt(np.sum((Y - F) ** 2, axis=0) / total)


def _train_mean(train_mean: Any, d: int) -> np.ndarray:
    """Return one mean for each of d targets."""
    mean = _numbers(train_mean, "train_mean", "()", "(d,)").ravel()
    if mean.size != d:
        raise ValueError(
            "train_mean must have one number for each column of Y_true. "
            f"Got {mean.size} and {d} columns instead."
        )
    return mean


def arrmse(Y_true: Any, Y_pred: Any, train_mean: Any = None) -> float:
    """Return the average over targets of the relative root mean squared error, `rrmse`.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
    train_mean : array of shape (d,), or float for one target, optional
        Mean of the targets trained on; by default the mean of `Y_true`. See `rrmse`.

    Examples
    --------
    >>> from skout.metrics import arrmse
    >>> arrmse([[0.0, 1.0], [2.0, 5.0]], [[0.0, 2.0], [2.0, 4.0]])
    0.25
    """
    return float(np.mean(rrmse(Y_true, Y_pred, train_mean)))


def relative_mse(y_true: Any, y_pred: Any, *, power: int = 1) -> float:
    """Return the mean squared error divided by the range of the targets, or by its square.

    That is mean((y - f)^2) / (max y - min y)^power. Only power 2 does not depend on the unit of y.

    Parameters
    ----------
    y_true, y_pred : arrays of shape (n,)
    power : {1, 2}, default 1
        1 divides by the range, 2 by its square.

    Notes
    -----
    "Relative MSE", the error in figure 3.1 of the p-sparsified sketches, has been read both ways.
    The reference figures for it (Nystrom: 0.127, 0.095, 0.070 with 40, 90, 140 landmarks) are with
    power 1.

    Examples
    --------
    >>> from skout.metrics import relative_mse
    >>> relative_mse([0.0, 2.0], [1.0, 2.0])
    0.25
    >>> relative_mse([0.0, 2.0], [1.0, 2.0], power=2)
    0.125
    """
    check_choice(power, "power", (1, 2))
    y, f = _vectors(y_true, y_pred, ("y_true", "y_pred"))
    spread = np.ptp(y)
    if spread == 0.0:
        raise ValueError(
            f"y_true must have a positive range, max - min. Got the constant {y[0]:g} instead."
        )
    return float(np.mean((y - f) ** 2) / spread**power)


# Intervals -------------------------------------------------------------------------------------


def coverage(y_true: Any, lower: Any, upper: Any, sample_weight: Any = None) -> float:
    """Return the share of targets that lie within [lower, upper], ends included.

    Parameters
    ----------
    y_true : array of shape (n,)
    lower, upper : arrays of shape (n,)
        Ends of the intervals. One with lower > upper is empty: it covers nothing.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the share, at least 0.

    Examples
    --------
    >>> from skout.metrics import coverage
    >>> coverage([1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 0.0, 5.0], [2.0, 3.0, 1.0, 6.0])
    0.5
    """
    y = _numbers(y_true, "y_true", "(n,)")
    low, high = _vectors(lower, upper, ("lower", "upper"))
    _same_shape(y, low, ("y_true", "lower"))
    return _mean((low <= y) & (y <= high), sample_weight)


def interval_width(lower: Any, upper: Any) -> float:
    """Return the mean width of the intervals [lower, upper].

    Parameters
    ----------
    lower, upper : arrays of shape (n,)
        Ends of the intervals. One with lower > upper is empty: its width is 0. (`crossing_loss`
        measures how far such ends cross.)

    Examples
    --------
    >>> from skout.metrics import interval_width
    >>> interval_width([0.0, 1.0], [2.0, 2.0])
    1.5
    """
    low, high = _vectors(lower, upper, ("lower", "upper"))
    return float(np.mean(np.maximum(high - low, 0.0)))
