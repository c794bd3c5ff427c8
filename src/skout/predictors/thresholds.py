"""Conformal thresholds: quantiles of calibration scores with the finite-sample correction."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.typing import Candidates, Floats, Ints, Labels, Objects, Weights
from .._numerics.validation import check_choice
from .lists import plain_pool

# Relative rounding error that sums of weights may have.
_ROUNDING = 1e-12
# Strata by size: quartiles of the sizes of candidate sets.
_SIZE, _PARTS = "size", (0.25, 0.5, 0.75)


def conformal_quantile(
    values: np.ndarray, coverage: float, mass: np.ndarray | None = None, weight: float = 1.0
) -> float:
    """Return the smallest value q such that a new value is at most q with probability `coverage`.

    The values increase, and count by their mass, 1 each by default, the new one by its weight. With
    too few values q is infinite.
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


def masses(groups: np.ndarray | None, weights: Floats | None = None) -> Any:
    """Return the mass of each row, its weight / rows of its group; None is 1 each.

    The rank of a new group among those of calibration is then uniform (hierarchical conformal
    prediction).
    """
    if groups is None:
        return weights
    _, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
    share = 1.0 / counts[number]
    return share if weights is None else share * weights


def size_edges(sizes: Ints, levels: Sequence[float] | Floats) -> Floats:
    """Return the largest size of each stratum but the last, at these quantiles of the sizes.

    `np.searchsorted(edges, size)` is the number of a size's stratum. Equal edges are one.
    """
    edges = np.unique(np.quantile(sizes, levels, method="lower")) if len(sizes) else np.empty(0)
    kept: Floats = edges[edges < np.max(sizes, initial=0)]
    return kept


def warn_of(
    values: np.ndarray, coverage: float, mass: np.ndarray | None, where: str, stacklevel: int
) -> None:
    """Warn that no finite threshold has the coverage, and say why."""
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


def checked_labels(labels: Labels, name: str, n: int) -> np.ndarray | None:
    """Return labels as an array, or raise unless there is one for each of n rows; None is None."""
    if labels is None:
        return None
    if n_rows(labels) != n or np.ndim(labels) != 1:
        raise ValueError(
            f"{name} must have one label for each of {n} rows. "
            f"Got shape {np.shape(labels)} instead."
        )
    return np.asarray(labels)


def checked_weights(weights: Weights, n: int) -> np.ndarray:
    """Return weights as an array, or raise unless there is a valid one for each of n rows."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.all(np.isfinite(w)) or np.any(w < 0.0) or not np.any(w > 0.0):
        raise ValueError(
            f"weights must be {n} finite numbers, one for each row, not negative and not all "
            f"zero. Got {weights!r} instead."
        )
    return w


def set_sizes(pool: Candidates, n: int) -> np.ndarray:
    """Return the number of candidates of each of n queries."""
    plain = plain_pool(pool)
    return plain.sets.sizes if plain.is_per_query else np.full(n, len(plain))


def new_strata(
    strata: Labels, n: int, sizes_of: Callable[[], np.ndarray]
) -> tuple[Any, np.ndarray | None]:
    """Return the strata, (edges of sizes or None, labels), and the number of each row's stratum."""
    if strata is None:
        return None, None
    if isinstance(strata, str):
        check_choice(strata, "strata", (_SIZE,))
        sizes = sizes_of()
        edges = size_edges(sizes, _PARTS)
        return (edges, list(range(len(edges) + 1))), np.searchsorted(edges, sizes)
    checked = np.asarray(checked_labels(strata, "strata", n))
    labels, codes = np.unique(checked, return_inverse=True)
    return (None, labels.tolist()), codes


def row_masses(
    groups: np.ndarray | None,
    weights: np.ndarray | None,
    codes: np.ndarray | None,
    rows: np.ndarray,
) -> Any:
    """Return the mass of each calibration row within its stratum."""
    if groups is not None:
        groups = np.unique(groups[rows], return_inverse=True)[1]
        if codes is not None:
            groups = groups * (codes.max() + 1) + codes[rows]
    return masses(groups, None if weights is None else weights[rows])


def codes_among(labels: list[Hashable], strata: Labels, n: int) -> np.ndarray:
    """Return the number of each query's stratum, or raise for a label that is not in `labels`."""
    values = np.asarray(checked_labels(strata, "strata", n)).tolist()
    codes = {label: j for j, label in enumerate(labels)}
    missing = [label for label in values if label not in codes]
    if missing:
        raise ValueError(
            f"strata must be among those of `calibrate`, {labels}. Got {missing[0]!r}: calibrate "
            "with rows of it."
        )
    return np.array([codes[label] for label in values], dtype=np.intp)


def checked_length(X: Objects, Y: Objects) -> int:
    """Return the number of rows, or raise where X and Y differ in length or are empty."""
    if n_rows(X) != n_rows(Y):
        raise ValueError(f"X and Y must be of equal length. Got {n_rows(X)} and {n_rows(Y)}.")
    if n_rows(X) == 0:
        raise ValueError("calibrate needs at least one row. Got none.")
    return n_rows(X)
