"""Landmarks of a sketch R = W S: equal ones are merged, and those not needed are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, take, unique
from .._numerics.factors import cholesky
from .._numerics.linalg import pivoted_cholesky, triangular_inverse
from ..sketches import Draw, Sketch

__all__ = ["distinct", "drawn", "keep", "late_components", "merge_copies", "pivot_noise"]

# Pivots up to this many times the rounding of kernel values count as zero: copies have such.
_COPIES = 8.0


def drawn(sketch: Sketch, n: int, rng: np.random.Generator, gram: Any = None) -> Draw:
    """Draw a sketch of n rows; raise where it is none, which those of users may be."""
    draw = sketch.draw(n, rng, gram)
    if not hasattr(draw, "indices"):
        got = type(draw).__name__
        raise TypeError(f"{sketch!r}.draw must return a skout.sketches.Draw. Got {got} instead.")
    indices, W = np.asarray(draw.indices), draw.weights
    shape = (draw.shape[0], len(indices))
    if len(indices) == 0:
        raise ValueError(f"{sketch!r} drew no row at all of {n}: raise its p.")
    if np.any(np.diff(indices) <= 0):
        raise ValueError(f"{sketch!r} must draw sorted and distinct indices.")
    if draw.shape[1] != n or (shape[0] != shape[1] if W is None else W.shape != shape):
        raise ValueError(
            f"{sketch!r} drew {len(indices)} of {n} rows with the shape {draw.shape} and weights "
            f"of shape {getattr(W, 'shape', None)}. The shape must be (size, {n}), that of weights "
            f"{shape}."
        )
    return draw


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
