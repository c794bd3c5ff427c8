"""Landmarks of a sketch R = W S: equal ones are merged, and those not needed are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, take, unique
from .._numerics.factors import cholesky
from .._numerics.linalg import pivoted_cholesky, triangular_inverse

__all__ = ["distinct", "keep", "late_components", "merge_copies", "pivot_noise"]

# Pivots up to this many times the rounding of kernel values count as zero: copies have such.
_COPIES = 8.0


def pivot_noise(gram: np.ndarray, rounding: float, single: bool) -> float:
    """Return how large a pivot of K~ may be by rounding alone."""
    # smaller pivots cannot be told from the rounding of float32 kernel values
    noise = np.finfo(np.float32).eps * np.diagonal(gram).max() if single else 0.0
    return max(noise, _COPIES * rounding)


def late_components(gram: np.ndarray, rounding: float, single: bool) -> tuple[np.ndarray, bool]:
    """Return components for landmarks in their own order, and whether some of those depend.

    K~ = L L' and C = L^-1 where all pivots are above the noise; else those of `pivoted_cholesky`,
    with zeros for the landmarks that depend on others.
    """
    noise = max(pivot_noise(gram, rounding, single), len(gram) * np.finfo(np.float64).eps)
    factor = cholesky(gram.copy())
    if factor is not None and factor.smallest() ** 2 > noise:
        return triangular_inverse(np.tril(factor.L)), False
    L, kept = pivoted_cholesky(gram, noise)
    components = np.zeros((len(L), len(gram)))
    components[:, kept] = triangular_inverse(L)
    return components, True


def merge_copies(landmarks: Any, weights: Any) -> tuple[Any, Any, np.ndarray]:
    """Add up the columns of W that stand for equal landmarks, of which one is kept.

    Returns landmarks, W and the number that each landmark has now.
    """
    everything = np.arange(n_rows(landmarks))
    if weights is None or not sparse.issparse(weights):
        return landmarks, weights, everything
    first, inverse = unique(landmarks)
    if len(first) == len(everything):
        return landmarks, weights, everything
    ones = (np.ones(len(inverse)), inverse, np.arange(len(inverse) + 1))
    copies = sparse.csr_matrix(ones, shape=(len(inverse), len(first)))
    return take(landmarks, first), (weights @ copies).tocsr(), inverse


def distinct(landmarks: Any) -> Any:
    """Return the landmarks without copies."""
    first, _ = unique(landmarks)
    return landmarks if len(first) == n_rows(landmarks) else take(landmarks, first)


def keep(landmarks: Any, weights: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Keep some rows of R = W S, and only the landmarks that they touch."""
    if weights is None:
        return take(landmarks, rows), None
    weights = weights[rows]
    if not sparse.issparse(weights):
        return landmarks, weights
    used = np.unique(weights.indices)
    return take(landmarks, used), weights[:, used].tocsr()
