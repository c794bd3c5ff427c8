"""Numbers: quantiles, several targets, intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import mean_pinball_loss, mean_squared_error, r2_score

from .._numerics.validation import check_choice
from ..kernels import Curves
from ._checks import (
    check_numbers,
    check_same_shape,
    check_vectors,
    check_weights,
    weighted_mean,
)

__all__ = [
    "arrmse",
    "coverage",
    "crossing_loss",
    "integrated_squared_error",
    "interval_width",
    "mse",
    "pinball_loss",
    "r2",
    "relative_mse",
    "rrmse",
]


# Quantiles -------------------------------------------------------------------------------------


def pinball_loss(y_true: Any, y_pred: Any, quantiles: Any, sample_weight: Any = None) -> float:
    """Return the pinball loss of predicted quantiles: mean over rows, sum over levels.

    One row costs the sum over levels of tau max(y - f, 0) + (1 - tau) max(f - y, 0).

    Parameters
    ----------
    y_true : array of shape (n,)
        Rows where it is NaN are left out.
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
    y = check_numbers(y_true, "y_true", "(n,)", holes=True)
    F = check_numbers(y_pred, "y_pred", "(n, q)", "(n,)")
    if len(y) != len(F):
        raise ValueError(
            "y_true and y_pred must have the same number of rows. "
            f"Got {len(y)} and {len(F)} instead."
        )
    F = F.reshape(len(F), -1)  # (n, q)
    tau = _levels(quantiles, F.shape[1])
    y, F, weights = _known_rows(sample_weight, y, F)
    losses = [
        mean_pinball_loss(y, f, sample_weight=weights, alpha=t)
        for f, t in zip(F.T, tau, strict=True)
    ]
    return float(sum(losses))


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
    F = check_numbers(y_pred, "y_pred", "(n, q)")
    if quantiles is not None:
        levels = _levels(quantiles, F.shape[1])
        if len(np.unique(levels)) < len(levels):
            raise ValueError(f"quantiles must all be different. Got {quantiles!r} instead.")
        F = F[:, np.argsort(levels)]
    return weighted_mean(np.maximum(F[:, :-1] - F[:, 1:], 0.0).sum(axis=1), sample_weight)


def _known_rows(sample_weight: Any, y: np.ndarray, *others: np.ndarray) -> tuple[Any, ...]:
    """Return y, the others and the weights, without the rows where y is NaN."""
    weights, known = check_weights(sample_weight, len(y)), ~np.isnan(y)
    return *(one[known] for one in (y, *others)), None if weights is None else weights[known]


def _levels(quantiles: Any, q: int) -> np.ndarray:
    """Return the levels of the q columns of y_pred."""
    levels = check_numbers(quantiles, "quantiles", "()", "(q,)").ravel()
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(f"quantiles must lie strictly between 0 and 1. Got {quantiles!r} instead.")
    if levels.size != q:
        raise ValueError(
            "quantiles must have one level for each column of y_pred. "
            f"Got {levels.size} and {q} columns instead."
        )
    return levels


# Several targets -------------------------------------------------------------------------------


def rrmse(Y_true: Any, Y_pred: Any, train_mean: Any = None) -> np.ndarray:
    """Return the relative root mean squared error of each target.

    That of target j is sqrt(sum_i (y_ij - f_ij)^2 / sum_i (y_ij - m_j)^2), m the mean of the
    training targets: 1 is as good as predicting this mean, 0 is perfect.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
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
    Y, F = _tables(Y_true, Y_pred)
    mean = np.nanmean(Y, axis=0) if train_mean is None else _train_mean(train_mean, Y.shape[1])
    total = np.nansum((Y - mean) ** 2, axis=0)  # (d,)
    # The mean of equal numbers may differ from them by rounding.
    low, high = np.nanmin(Y, axis=0), np.nanmax(Y, axis=0)
    constant = (low == high) & np.isclose(low, mean, rtol=1e-9, atol=0.0)
    empty = np.flatnonzero(constant | (total == 0.0))
    if len(empty):
        raise ValueError(
            "Each column of Y_true must differ from its mean (train_mean, where given) somewhere. "
            f"Got constant columns {empty.tolist()}: their relative error has no value."
        )
    return np.sqrt(np.nansum((Y - F) ** 2, axis=0) / total)


def _tables(Y_true: Any, Y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return targets, NaN where they are missing, and predictions, both of shape (n, d)."""
    Y = check_numbers(Y_true, "Y_true", "(n, d)", "(n,)", holes=True)
    F = check_numbers(Y_pred, "Y_pred", "(n, d)", "(n,)")
    check_same_shape(Y, F, ("Y_true", "Y_pred"))
    return Y.reshape(len(Y), -1), F.reshape(len(F), -1)


def _train_mean(train_mean: Any, d: int) -> np.ndarray:
    """Return one mean for each of d targets."""
    mean = check_numbers(train_mean, "train_mean", "()", "(d,)").ravel()
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
        NaN in `Y_true` is missing, and left out.
    train_mean : array of shape (d,), or float for one target, optional
        Mean of the targets trained on; by default the mean of `Y_true`. See `rrmse`.

    Examples
    --------
    >>> from skout.metrics import arrmse
    >>> arrmse([[0.0, 1.0], [2.0, 5.0]], [[0.0, 2.0], [2.0, 4.0]])
    0.25
    """
    return float(np.mean(rrmse(Y_true, Y_pred, train_mean)))


def mse(Y_true: Any, Y_pred: Any, sample_weight: Any = None) -> float:
    """Return the mean squared error of each target over the rows that have it, and their mean.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> from skout.metrics import mse
    >>> mse([[0.0, 1.0], [2.0, float("nan")]], [[0.0, 3.0], [4.0, 9.0]])
    3.0
    """
    return _mean_over_targets(mean_squared_error, Y_true, Y_pred, sample_weight)


def r2(Y_true: Any, Y_pred: Any, sample_weight: Any = None) -> float:
    """Return 1 - squared error / squared error of the mean, of each target, and their mean.

    scikit-learn's `r2_score`, each target over the rows that have it.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> from skout.metrics import r2
    >>> r2([[0.0, 1.0], [2.0, 5.0], [4.0, float("nan")]], [[0.0, 2.0], [2.0, 4.0], [4.0, 9.0]])
    0.875
    """
    return _mean_over_targets(r2_score, Y_true, Y_pred, sample_weight)


def _mean_over_targets(metric: Any, Y_true: Any, Y_pred: Any, sample_weight: Any) -> float:
    """Return the mean of scikit-learn's metric of each target, over the rows that have it."""
    found = []
    for y, f in zip(*(table.T for table in _tables(Y_true, Y_pred)), strict=True):
        y, f, weights = _known_rows(sample_weight, y, f)
        found.append(metric(y, f, sample_weight=weights))
    return float(np.mean(found))


def relative_mse(y_true: Any, y_pred: Any, *, power: int = 1) -> float:
    """Return the mean squared error divided by the range of the targets, or by its square.

    That is mean((y - f)^2) / (max y - min y)^power. Only power 2 does not depend on the unit of y.

    Parameters
    ----------
    y_true, y_pred : arrays of shape (n,)
        Rows where `y_true` is NaN are left out.
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
    y = check_numbers(y_true, "y_true", "(n,)", holes=True)
    f = check_numbers(y_pred, "y_pred", "(n,)")
    check_same_shape(y, f, ("y_true", "y_pred"))
    y, f, _ = _known_rows(None, y, f)
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
        Rows where it is NaN are left out.
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
    y = check_numbers(y_true, "y_true", "(n,)", holes=True)
    low, high = check_vectors(lower, upper, ("lower", "upper"))
    check_same_shape(y, low, ("y_true", "lower"))
    y, low, high, weights = _known_rows(sample_weight, y, low, high)
    return weighted_mean((low <= y) & (y <= high), weights)


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
    low, high = check_vectors(lower, upper, ("lower", "upper"))
    return float(np.mean(np.maximum(high - low, 0.0)))


# Curves ----------------------------------------------------------------------------------------


def integrated_squared_error(Y_true: Any, Y_pred: Any, points: Any = None) -> float:
    """Return the mean over curves of the integral of (f(t) - g(t))^2, by the trapezoidal rule.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, q), or lists of (points, values) pairs
        As `skout.kernels.Curves` takes them.
    points : array of shape (q,), optional
        The grid; default equally spaced in [0, 1].

    Returns
    -------
    float
        0 is perfect.

    Examples
    --------
    >>> from skout.metrics import integrated_squared_error
    >>> integrated_squared_error([[0.0, 0.0, 0.0]], [[2.0, 2.0, 2.0]], points=[0.0, 1.0, 3.0])
    12.0
    """
    curves = Curves(points=points)
    true, pred = curves.encode(Y_true), curves.encode(Y_pred)
    check_same_shape(true, pred, ("Y_true", "Y_pred"))
    return float(np.mean(np.sum(curves.transform(true - pred) ** 2, axis=1)))
