"""Numbers: quantiles, several targets, intervals, curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import mean_pinball_loss, mean_squared_error, r2_score

from .._numerics.typing import Objects
from ..kernels import Curves
from ._checks import check_numbers, check_same_shape, check_vectors, check_weights, weighted_mean

# Quantiles -------------------------------------------------------------------------------------


def pinball_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    quantiles: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the pinball loss of predicted quantiles: mean over rows, sum over levels; 0 is best.

    One row costs the sum over levels of tau max(y - f, 0) + (1 - tau) max(f - y, 0), which is
    `sklearn.metrics.mean_pinball_loss` of each level, added up.

    Parameters
    ----------
    y_true : array of shape (n,)
        Rows where it is NaN are left out.
    y_pred : array of shape (n, q), or (n,) for one level
        Column j holds the predictions of level j.
    quantiles : float or array of shape (q,)
        Levels, strictly between 0 and 1, in the order of the columns.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0; default equal.

    Examples
    --------
    >>> from skout.metrics import pinball_loss
    >>> pinball_loss([1.0, 2.0], [[0.0, 1.0], [2.0, 4.0]], [0.25, 0.75])
    0.375
    """
    y = check_numbers(y_true, "y_true", "(n,)", missing=True)
    F = check_numbers(y_pred, "y_pred", "(n, q)", "(n,)")
    if len(y) != len(F):
        raise ValueError(
            "y_true and y_pred must have the same number of rows. "
            f"Got {len(y)} and {len(F)} instead."
        )
    F = F.reshape(len(F), -1)  # (n, q)
    tau = _levels(quantiles, F.shape[1])
    y, F, weights = _observed_rows(sample_weight, y, F)
    pairs = zip(F.T, tau, strict=True)
    return float(sum(mean_pinball_loss(y, f, sample_weight=weights, alpha=t) for f, t in pairs))


def crossing_loss(
    y_pred: ArrayLike, quantiles: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Return by how much predicted quantiles cross, as a mean over rows; 0 where nothing crosses.

    One row costs the sum over j of max(f_j - f_{j+1}, 0), with the levels in increasing order: the
    crossing loss of Sangnier, Fercoq and d'Alche-Buc, "Joint quantile regression in vector-valued
    RKHSs" (2016).

    Parameters
    ----------
    y_pred : array of shape (n, q)
        Column j holds the predictions of level j.
    quantiles : array of shape (q,), optional
        Levels of the columns, all different, by which they are sorted; default increasing.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0; default equal.

    Examples
    --------
    >>> from skout.metrics import crossing_loss
    >>> crossing_loss([[1.0, 2.0, 3.0], [1.0, 3.0, 2.5]])
    0.25
    """
    F = check_numbers(y_pred, "y_pred", "(n, q)")
    if quantiles is not None:
        levels = _levels(quantiles, F.shape[1])
        if len(np.unique(levels)) < len(levels):
            raise ValueError(f"quantiles must all be different. Got {quantiles!r} instead.")
        F = F[:, np.argsort(levels)]
    return weighted_mean(np.maximum(F[:, :-1] - F[:, 1:], 0.0).sum(axis=1), sample_weight)


def _observed_rows(
    sample_weight: ArrayLike | None, y: np.ndarray, *others: np.ndarray
) -> tuple[Any, ...]:
    """Return y, the others and the weights, without the rows where y is NaN."""
    weights, observed = check_weights(sample_weight, len(y)), ~np.isnan(y)
    weights = None if weights is None else weights[observed]
    return *(values[observed] for values in (y, *others)), weights


def _levels(quantiles: ArrayLike, q: int) -> np.ndarray:
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


def rrmse(Y_true: ArrayLike, Y_pred: ArrayLike, train_mean: ArrayLike | None = None) -> np.ndarray:
    """Return the relative root mean squared error of each target, an array of shape (d,).

    That of target j is sqrt(sum_i (y_ij - f_ij)^2 / sum_i (y_ij - m_j)^2), m the mean of the
    training targets: 1 is as good as predicting this mean, 0 is perfect.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
    train_mean : array of shape (d,), or float for one target, optional
        Mean of the training targets, which Spyromitros-Xioufis et al., "Multi-target regression via
        input space expansion" (2016), compare with. By default the mean of `Y_true`, which gives a
        larger or equal error: pass the training mean to compare with published figures.

    Examples
    --------
    >>> from skout.metrics import rrmse
    >>> rrmse([[0.0, 1.0], [2.0, 5.0]], [[0.0, 2.0], [2.0, 4.0]])
    array([0. , 0.5])
    """
    Y, F = _tables(Y_true, Y_pred)
    if train_mean is None:
        mean = np.nanmean(Y, axis=0)
    else:
        mean = check_numbers(train_mean, "train_mean", "()", "(d,)").ravel()
        if mean.size != Y.shape[1]:
            raise ValueError(
                "train_mean must have one number for each column of Y_true. "
                f"Got {mean.size} and {Y.shape[1]} columns instead."
            )
    total = np.nansum((Y - mean) ** 2, axis=0)  # (d,)
    # the mean of equal numbers may differ from them by rounding
    low, high = np.nanmin(Y, axis=0), np.nanmax(Y, axis=0)
    constant = (low == high) & np.isclose(low, mean, rtol=1e-9, atol=0.0)
    empty = np.flatnonzero(constant | (total == 0.0))
    if len(empty):
        raise ValueError(
            "Each column of Y_true must differ from its mean (train_mean, where given) somewhere. "
            f"Got constant columns {empty.tolist()}: their relative error has no value."
        )
    errors: np.ndarray = np.sqrt(np.nansum((Y - F) ** 2, axis=0) / total)
    return errors


def _tables(Y_true: ArrayLike, Y_pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return targets, NaN where they are missing, and predictions, both of shape (n, d)."""
    Y = check_numbers(Y_true, "Y_true", "(n, d)", "(n,)", missing=True)
    F = check_numbers(Y_pred, "Y_pred", "(n, d)", "(n,)")
    check_same_shape(Y, F, ("Y_true", "Y_pred"))
    return Y.reshape(len(Y), -1), F.reshape(len(F), -1)


def arrmse(Y_true: ArrayLike, Y_pred: ArrayLike, train_mean: ArrayLike | None = None) -> float:
    """Return the average over targets of the relative root mean squared error, `rrmse`.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
    train_mean : array of shape (d,), or float for one target, optional
        Mean of the training targets; default the mean of `Y_true`.

    Examples
    --------
    >>> from skout.metrics import arrmse
    >>> arrmse([[0.0, 1.0], [2.0, 5.0]], [[0.0, 2.0], [2.0, 4.0]])
    0.25
    """
    return float(np.mean(rrmse(Y_true, Y_pred, train_mean)))


def mse(Y_true: ArrayLike, Y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean squared error of each target over its observed rows, averaged over targets.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0; default equal.

    Examples
    --------
    >>> from skout.metrics import mse
    >>> mse([[0.0, 1.0], [2.0, float("nan")]], [[0.0, 3.0], [4.0, 9.0]])
    3.0
    """
    return _mean_over_targets(mean_squared_error, Y_true, Y_pred, sample_weight)


def r2(Y_true: ArrayLike, Y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return R2 (`sklearn.metrics.r2_score`) of each target over its observed rows, averaged.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, d), or (n,) for one target
        NaN in `Y_true` is missing, and left out.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the means, at least 0; default equal.

    Examples
    --------
    >>> from skout.metrics import r2
    >>> r2([[0.0, 1.0], [2.0, 5.0], [4.0, float("nan")]], [[0.0, 2.0], [2.0, 4.0], [4.0, 9.0]])
    0.875
    """
    return _mean_over_targets(r2_score, Y_true, Y_pred, sample_weight)


def _mean_over_targets(
    metric: Callable[..., float],
    Y_true: ArrayLike,
    Y_pred: ArrayLike,
    sample_weight: ArrayLike | None,
) -> float:
    """Return the mean over targets of a metric of scikit-learn, each over its observed rows."""
    scores = []
    for y, f in zip(*(table.T for table in _tables(Y_true, Y_pred)), strict=True):
        y, f, weights = _observed_rows(sample_weight, y, f)
        scores.append(metric(y, f, sample_weight=weights))
    return float(np.mean(scores))


def relative_mse(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the mean squared error divided by the range of the targets.

    That is mean((y - f)^2) / (max y - min y), the error in figure 3.1 of the p-sparsified sketches;
    it depends on the unit of y. (Nystrom there: 0.127, 0.095, 0.070 with 40, 90, 140 landmarks.)

    Parameters
    ----------
    y_true, y_pred : arrays of shape (n,)
        Rows where `y_true` is NaN are left out.

    Examples
    --------
    >>> from skout.metrics import relative_mse
    >>> relative_mse([0.0, 2.0], [1.0, 2.0])
    0.25
    """
    y = check_numbers(y_true, "y_true", "(n,)", missing=True)
    f = check_numbers(y_pred, "y_pred", "(n,)")
    check_same_shape(y, f, ("y_true", "y_pred"))
    y, f, _ = _observed_rows(None, y, f)
    spread = np.ptp(y)
    if spread == 0.0:
        raise ValueError(
            f"y_true must have a positive range, max - min. Got the constant {y[0]:g} instead."
        )
    return float(np.mean((y - f) ** 2) / spread)


# Intervals -------------------------------------------------------------------------------------


def coverage(
    y_true: ArrayLike, lower: ArrayLike, upper: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Return the share of targets that lie within [lower, upper], ends included.

    Parameters
    ----------
    y_true : array of shape (n,)
        Rows where it is NaN are left out.
    lower, upper : arrays of shape (n,)
        Ends of the intervals. One with lower > upper is empty: it covers nothing.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the share, at least 0; default equal.

    Examples
    --------
    >>> from skout.metrics import coverage
    >>> coverage([1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 0.0, 5.0], [2.0, 3.0, 1.0, 6.0])
    0.5
    """
    y = check_numbers(y_true, "y_true", "(n,)", missing=True)
    low, high = check_vectors(lower, upper, ("lower", "upper"))
    check_same_shape(y, low, ("y_true", "lower"))
    y, low, high, weights = _observed_rows(sample_weight, y, low, high)
    return weighted_mean((low <= y) & (y <= high), weights)


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
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


def integrated_squared_error(
    Y_true: Objects, Y_pred: Objects, points: ArrayLike | None = None
) -> float:
    """Return the mean over curves of the integral of (f(t) - g(t))^2, by the trapezoidal rule.

    Parameters
    ----------
    Y_true, Y_pred : arrays of shape (n, q), or lists of (points, values) pairs
        As `skout.kernels.Curves` takes them.
    points : array of shape (q,), optional
        The grid; default equally spaced in [0, 1].

    Examples
    --------
    >>> from skout.metrics import integrated_squared_error
    >>> integrated_squared_error([[0.0, 0.0, 0.0]], [[2.0, 2.0, 2.0]], points=[0.0, 1.0, 3.0])
    12.0
    """
    curves = Curves(points=points)
    true, pred = np.asarray(curves.encode(Y_true)), np.asarray(curves.encode(Y_pred))
    check_same_shape(true, pred, ("Y_true", "Y_pred"))
    return float(np.mean(np.sum(np.asarray(curves.transform(true - pred)) ** 2, axis=1)))
