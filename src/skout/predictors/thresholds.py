"""Where to cut: quantiles of calibration values with the correction of finite samples."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows

__all__ = [
    "check_level",
    "checked_labels",
    "checked_weights",
    "cut",
    "masses",
    "size_edges",
    "warn_of",
]

# Rounding of sums of weights, relative to them.
_ROUNDING = 1e-12


def check_level(value: Any, name: str) -> None:
    """Raise unless this is a number strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1. Got {value!r}.")


def cut(
    values: np.ndarray, coverage: float, mass: np.ndarray | None = None, weight: float = 1.0
) -> float:
    """Return the least value q such that a new one is at most q with probability `coverage`.

    Parameters
    ----------
    values : ndarray of shape (n,), increasing
    coverage : float
    mass : ndarray of shape (n,), optional
        How much each value counts. Default 1 each.
    weight : float, default 1.0
        How much the new one counts.

    Returns
    -------
    q : float
        Infinite where the values are too few.
    """
    # the smallest q with  sum of mass_i over values_i <= q  >=  coverage (sum of mass + weight)
    n = len(values)
    if mass is None and weight == 1.0:
        place = math.ceil((n + 1) * Fraction(str(coverage)))  # the decimal that is meant
    else:
        total = np.cumsum(np.ones(n) if mass is None else mass)
        wanted = coverage * ((total[-1] if n else 0.0) + weight)
        place = 1 + int(np.searchsorted(total, wanted * (1.0 - _ROUNDING)))
    return float(values[place - 1]) if place <= n else math.inf


def masses(groups: np.ndarray | None, weights: np.ndarray | None, n: int) -> np.ndarray | None:
    """Return how much each of n rows counts: weight / rows of its group; None is 1 each.

    A new group then takes any place among those at hand as likely as any other (hierarchical
    conformal prediction).
    """
    if groups is None:
        return weights
    _, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
    share = 1.0 / counts[number]
    return share if weights is None else share * weights


def size_edges(sizes: np.ndarray, levels: Any) -> np.ndarray:
    """Return sizes at which strata end, the last of which is open: `searchsorted` finds those.

    Parameters
    ----------
    sizes : ndarray of shape (n,)
    levels : sequence of floats
        Quantiles, increasing. Strata that would be equal are one.
    """
    edges = np.unique(np.quantile(sizes, levels, method="lower")) if len(sizes) else np.empty(0)
    return edges[edges < np.max(sizes, initial=0)]


def warn_of(
    values: np.ndarray, coverage: float, mass: np.ndarray | None, where: str, stacklevel: int
) -> None:
    """Warn that no value has the coverage, and say why."""
    n = len(values) if mass is None else round(float(np.sum(mass)), 1)
    share = Fraction(str(coverage))
    absent = int(np.sum(np.isinf(values)))
    if absent:
        text = (
            f"{absent} of {len(values)} truths{where} were not among the candidates in "
            f"calibration, so no gap has a coverage of {coverage:g}: the sets hold every "
            "candidate. Calibrate with candidates that hold the truth, or ask for less coverage."
        )
    else:
        what = "rows" if mass is None else "groups, or rows by their weights,"
        text = (
            f"A coverage of {coverage:g} needs {math.ceil(share / (1 - share))} calibration "
            f"{what} or more{where}. Got {n:g}: the sets hold every candidate."
        )
    warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def checked_labels(labels: Any, name: str, n: int) -> np.ndarray:
    """Return labels, one for each of n rows."""
    if n_rows(labels) != n or np.ndim(labels) != 1:
        raise ValueError(
            f"{name} must have one label for each of {n} rows. "
            f"Got shape {np.shape(labels)} instead."
        )
    return np.asarray(labels)


def checked_weights(weights: Any, n: int) -> np.ndarray:
    """Return weights, one for each of n rows."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.all(np.isfinite(w)) or np.any(w < 0.0) or not np.any(w > 0.0):
        raise ValueError(
            f"weights must be {n} finite numbers, one for each row, not negative and not all "
            f"zero. Got {weights!r} instead."
        )
    return w
