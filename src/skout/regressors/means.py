"""What a model without an intercept makes of targets far from zero."""

from __future__ import annotations

import numpy as np

from .._numerics.validation import warn_user
from ..basis.features import Projection
from ..basis.passes import Sample
from ..rows import Memory

__all__ = ["warn_of_far_mean"]

# Targets whose mean is so many times their spread are far from zero; rows that are sampled then.
_FAR, _SAMPLED = 10.0, 200
# Fewer rows say too little about the spread.
_LEAST = 30


def warn_of_far_mean(projection: Projection, sample: Sample, n_jobs: int | None) -> None:
    """Warn where a model without intercept is worse than the mean of targets far from zero.

    `projection` maps rows to predictions. Errors are compared to the variance of all outputs, so
    that one of many coordinates does not count, on a sample of the training rows. Targets that are
    not in memory are not read again.
    """
    T = sample.targets.loaded
    if T is None:
        return
    index = np.arange(len(T)) if sample.weights is None else np.flatnonzero(sample.weights)
    index = index[np.linspace(0, len(index) - 1, min(len(index), _SAMPLED)).astype(int)]
    if len(index) < _LEAST:
        return
    observed = np.ma.masked_invalid(np.asarray(T[index], dtype=np.float64))
    mean, spread = observed.mean(axis=0).filled(0.0), observed.std(axis=0).filled(0.0)
    far = (spread > 0.0) & (np.abs(mean) > _FAR * spread)
    if not far.any():
        return
    rows = Memory(sample.rows.take(index))
    F = rows.map(projection, observed.shape[1:], np.float64, n_jobs=n_jobs)
    errors = np.sqrt(((observed - F) ** 2).mean(axis=0).filled(0.0))
    relative = np.where(far, errors / np.where(far, spread, 1.0), 0.0)
    worst = int(np.argmax(relative))
    if (errors[far] ** 2).sum() > (spread**2).sum():
        warn_user(
            f"y has the mean {mean[worst]:.4g} and the standard deviation {spread[worst]:.4g}, "
            "and without an intercept the predictions of training rows are "
            f"{relative[worst]:.2g} standard deviations off (root mean square), further than the "
            "mean is: give fit_intercept=True, or subtract the mean.",
        )
