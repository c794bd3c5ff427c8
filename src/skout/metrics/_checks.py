"""Arguments that are arrays of numbers, and the mean over rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._numerics.typing import Matrix


def as_real(values: ArrayLike, expected: str) -> np.ndarray:
    """Return an array of real numbers, or raise an error that begins with `expected`."""
    if np.ma.is_masked(values):
        raise ValueError(f"{expected} Got masked entries, which are missing values, instead.")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiubO":
            raise TypeError(f"{array.dtype} is no type of real numbers.")
        return array.astype(np.float64) if array.dtype.kind == "O" else array
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"{expected} Got {type(values).__name__} instead: {error}") from error


def check_rows_given(shape: tuple[int, ...], ndims: set[int], expected: str) -> None:
    """Raise unless a shape has one of `ndims` numbers of axes, and an entry."""
    if len(shape) not in ndims:
        raise ValueError(f"{expected} Got shape {shape} instead.")
    if 0 in shape:
        raise ValueError(f"{expected} Got an empty array of shape {shape} instead.")


def check_numbers(values: ArrayLike, name: str, *shapes: str, missing: bool = False) -> np.ndarray:
    """Return finite float64 numbers; each of `shapes`, like "(n, d)", has a letter for an axis.

    With `missing`, numbers may be NaN, but not a whole column of them.
    """
    expected = f"{name} must be an array of finite numbers of shape {' or '.join(shapes)}."
    array = as_real(values, expected).astype(np.float64)
    check_rows_given(array.shape, {sum(map(str.isalpha, shape)) for shape in shapes}, expected)
    absent = np.isnan(array)
    if missing and not absent.all(axis=0).any():
        array = np.where(absent, 0.0, array)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(bad[0].tolist())
        raise ValueError(f"{expected} Got {array[where]} at index {where} instead.")
    return np.where(absent, np.nan, array) if missing else array


def check_same_shape(first: Matrix, second: Matrix, names: tuple[str, str]) -> None:
    """Raise unless two arguments have one shape."""
    if first.shape != second.shape:
        raise ValueError(
            f"{names[0]} and {names[1]} must have the same shape. "
            f"Got {first.shape} and {second.shape} instead."
        )


def check_vectors(
    first: ArrayLike, second: ArrayLike, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return two arguments of the same shape (n,)."""
    a, b = check_numbers(first, names[0], "(n,)"), check_numbers(second, names[1], "(n,)")
    check_same_shape(a, b, names)
    return a, b


def check_weights(sample_weight: ArrayLike | None, n: int) -> np.ndarray | None:
    """Return the weights of n rows; None where all are equal."""
    if sample_weight is None:
        return None
    weights = check_numbers(sample_weight, "sample_weight", "(n,)")
    if len(weights) != n:
        raise ValueError(
            "sample_weight must have one number for each row. "
            f"Got {len(weights)} and {n} rows instead."
        )
    if weights.min() < 0.0 or weights.max() == 0.0:
        raise ValueError(
            "sample_weight must hold no negative number, and a positive one. "
            f"Got numbers from {weights.min():g} to {weights.max():g} instead."
        )
    return weights


def weighted_mean(rows: np.ndarray, sample_weight: ArrayLike | None) -> float:
    """Return the weighted mean of one number a row."""
    return float(np.average(rows, weights=check_weights(sample_weight, len(rows))))
