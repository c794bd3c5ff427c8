"""Z, the coordinates of all rows, through the three products that a convex solver needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..rows import Memory, Reduction, RowMap, Source

__all__ = ["Design"]

# Rows of a block of Z, and of one of a weighted Gram matrix, a copy which should stay in cache.
_BLOCK_ROWS = 8192
_GRAM_ROWS = 2048


class Design:
    """The matrix Z of shape (n, p), wherever its rows lie.

    Parameters
    ----------
    Z : Source of ndarrays of shape (n, p), or an ndarray
    rows : Source, optional
        What Z is made of again in each pass; None where Z is held.
    through : callable, with `rows`
        Returns for B the map of rows to Z B, which is cheaper than by Z itself.
    n_jobs : int, optional
    """

    def __init__(
        self,
        Z: Any,
        rows: Source | None = None,
        through: Callable[[np.ndarray], RowMap] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.Z = Memory.of(Z)
        self.shape = self.Z.shape
        self.rows, self.through = rows, through
        self.n_jobs = n_jobs

    @property
    def is_held(self) -> bool:
        """Whether Z is held; if not, rows of no weight should not be asked for."""
        return self.rows is None

    def take(self, index: np.ndarray) -> Design:
        """Return some of the rows, at increasing positions; held if they fit the memory."""
        Z = self.Z.subset(index)
        if self.rows is None:
            return Design(Z, n_jobs=self.n_jobs)
        held = Z.kept(_Same(self.shape[1]), Z.tail, n_jobs=self.n_jobs)
        if held is not None:
            return Design(held, n_jobs=self.n_jobs)
        return Design(Z, self.rows.subset(index), self.through, self.n_jobs)

    def product(self, B: np.ndarray) -> np.ndarray:
        """Return Z B, in float64."""
        if self.rows is not None and self.through is not None:
            source, product = self.rows, self.through(B)
        else:
            source, product = self.Z, _Product(B)
        return source.collect(product, (B.shape[1],), np.float64, n_jobs=self.n_jobs)

    def adjoint(self, G: np.ndarray) -> np.ndarray:
        """Return Z' G, in float64."""
        total = self.Z.reduce(_Adjoint(self.shape[1], G.shape[1]), G, n_jobs=self.n_jobs)
        return total.T

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return [Z, 1]' diag(weights) [Z, 1], shape (p + 1, p + 1); rows of weight 0 are free."""
        Z, index = self.Z, np.flatnonzero(weights)
        if 4 * len(index) <= 3 * len(weights):
            Z, weights = Z.chosen(index, weights)
        if len(index) == 0:
            return np.zeros((self.shape[1] + 1,) * 2)
        return Z.reduce(_Gram(self.shape[1]), weights, n_jobs=self.n_jobs)


class _Same(RowMap):
    def __init__(self, p: int) -> None:
        self.width = p

    def __call__(self, Z: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return Z


class _Product(RowMap):
    def __init__(self, B: np.ndarray) -> None:
        self.B, self.width = B, len(B)

    def most_rows(self, n: int) -> int:
        return _BLOCK_ROWS

    def __call__(self, Z: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return Z @ self.B.astype(Z.dtype, copy=False)


class _Adjoint(Reduction):
    def __init__(self, p: int, d: int) -> None:
        self.width, self.shape = p, (d, p)

    def most_rows(self, n: int) -> int:
        return _BLOCK_ROWS

    def __call__(self, Z: np.ndarray, G: np.ndarray) -> np.ndarray:
        return G.T.astype(Z.dtype) @ Z

    def combine(self, total: np.ndarray | None, part: np.ndarray) -> np.ndarray:
        total = np.zeros(self.shape) if total is None else total
        total += part
        return total


class _Gram(Reduction):
    def __init__(self, p: int) -> None:
        self.width, self.p = p, p

    def most_rows(self, n: int) -> int:
        return _GRAM_ROWS

    def __call__(self, Z: np.ndarray, w: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(w)
        if 4 * len(used) <= 3 * len(w):
            Z, w = Z[used], w[used]
        wide = np.empty((len(w), self.p + 1))
        root = np.sqrt(np.abs(w))
        np.multiply(Z, root[:, None], out=wide[:, : self.p])
        wide[:, self.p] = root
        # NumPy sees the symmetry of a product with itself and does half the work
        return wide.T @ (wide * np.sign(w)[:, None] if np.any(w < 0.0) else wide)

    def combine(self, total: np.ndarray | None, part: np.ndarray) -> np.ndarray:
        if total is None:
            return part
        total += part
        return total
