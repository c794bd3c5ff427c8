"""Kernels on sets: 0/1 vectors, and counts as multisets."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from .._arrays import RightOperand, n_rows
from .base import Block
from .vectors import VectorKernel, block_buffer

__all__ = ["F1", "Tanimoto"]


class _SetKernel(VectorKernel):
    """A kernel of |a|, |b| and |a and b|, for 0/1 vectors (sets) and counts (multisets).

    |a| is the sum of a, |a and b| the sum of min(a, b). Two empty sets are alike.
    """

    @property
    def normalized(self) -> bool:
        return True

    def encode(self, objects: Any) -> Any:
        """Return a non-negative dense or CSR matrix of float32 or float64."""
        rows = super().encode(objects)
        values = rows.data if sparse.issparse(rows) else rows
        if values.size and values.min() < 0:
            raise ValueError(
                f"{type(self).__name__} takes 0/1 vectors or counts, so values must be >= 0. "
                f"Got {values.min():g}."
            )
        return rows

    @abstractmethod
    def _ratio(self, overlap: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return numerator and denominator from |a and b| and |a| + |b|."""

    def against(self, B: Any) -> Block:
        overlap = _overlap_with(B)
        size_b = np.asarray(B.sum(axis=1)).ravel()

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            size_a = np.asarray(A.sum(axis=1)).ravel()
            common = overlap(A, block_buffer(A, n_rows(B), out))
            total = np.add.outer(size_a, size_b).astype(common.dtype)
            top, bottom = self._ratio(common, total)
            empty = bottom <= 0
            bottom[empty] = 1.0
            np.divide(top, bottom, out=common)
            common[empty] = 1.0
            return common

        return block

    def diag(self, A: Any) -> np.ndarray:
        return np.ones(n_rows(A))


# Up to this many different values, overlaps are matrix products.
_MAX_LEVELS = 64


def _overlap_with(B: Any) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one matrix product for each level of B.

    With the values 0 = v_0 < v_1 < ... of B, min(a, b) = sum_i (clip(a, v_{i-1}, v_i) - v_{i-1})
    1[b >= v_i]: for 0/1 vectors a single product.
    """
    values = np.unique(B.data if sparse.issparse(B) else B)
    levels = values[values > 0]
    if len(levels) > _MAX_LEVELS:
        return _overlap_by_column(B)
    indicators = [RightOperand(_indicator(B, level)) for level in levels]
    lower = np.concatenate([[0.0], levels])[:-1]

    def overlap(A: Any, out: np.ndarray) -> np.ndarray:
        out[...] = 0.0
        for low, high, right in zip(lower, levels, indicators, strict=True):
            share = _share(A, low, high)
            out += right.product(share)
        return out

    return overlap


def _overlap_by_column(B: Any) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one pass over the block for each column."""
    columns = np.ascontiguousarray((B.toarray() if sparse.issparse(B) else B).T)

    def overlap(A: Any, out: np.ndarray) -> np.ndarray:
        out[...] = 0.0
        A = A.toarray() if sparse.issparse(A) else A
        for j in np.flatnonzero(columns.any(axis=1)):
            out += np.minimum.outer(A[:, j], columns[j])
        return out

    return overlap


def _indicator(B: Any, level: float) -> Any:
    """Return 1[b >= level] in the format of B."""
    if not sparse.issparse(B):
        return (level <= B).astype(B.dtype)
    out = B.copy()
    out.data = (level <= B.data).astype(B.dtype)
    out.eliminate_zeros()
    return out


def _share(A: Any, low: float, high: float) -> Any:
    """Return clip(a, low, high) - low in the format of A."""
    if not sparse.issparse(A):
        return np.clip(A, low, high) - A.dtype.type(low)
    out = A.copy()
    out.data = np.clip(A.data, low, high) - A.dtype.type(low)
    return out


class Tanimoto(_SetKernel):
    """k(a, b) = |a and b| / |a or b| (Jaccard), on 0/1 vectors or counts.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Tanimoto
    >>> float(Tanimoto()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0])
    0.5
    """

    def _ratio(self, overlap: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return overlap, total - overlap


class F1(_SetKernel):
    """k(a, b) = 2 |a and b| / (|a| + |b|), the F1 score of two label sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import F1
    >>> float(F1()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0].round(4))
    0.6667
    """

    def _ratio(self, overlap: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 2.0 * overlap, total
