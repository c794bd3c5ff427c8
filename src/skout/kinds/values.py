"""Outputs that may be of any kind, as arrays that tell which."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._numerics.objects import as_objects, column_of, is_gap
from .._numerics.types import Objects

__all__ = ["floats", "values_of"]


def values_of(Y: Objects) -> Objects:
    """Return outputs as an array, without what is missing if they are one column.

    Sparse matrices come back as they are, and objects that make no array as an array of them.
    """
    Y = column_of(Y)
    Y = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    if sparse.issparse(Y):
        return Y
    try:
        values = np.asarray(Y)
        if values.dtype != object or values.ndim == 0:
            return values
        if values.ndim > 1:
            return floats(values)
        filled = np.array([one for one in values if not is_gap(one)])
        return filled if filled.dtype != object else filled.astype(np.float64)
    except (ValueError, TypeError):
        return as_objects(list(Y))


def floats(values: np.ndarray) -> np.ndarray:
    """Return numbers in an array of objects; those that are missing are NaN."""
    numbers = [np.nan if is_gap(value) else value for value in values.ravel()]
    return np.array(numbers, dtype=np.float64).reshape(values.shape)
