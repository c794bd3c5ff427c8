"""Z, the coordinates of all rows: held in memory, or computed again whenever they are needed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._arrays import float_dtype, n_rows, row_slices, take
from ._lazy import is_streamed, subset
from ._threads import map_blocks
from .basis import KernelBasis
from .chunks import Chunks, broadcast
from .device import to_host
from .gram import block_rows, project, stored_bytes

__all__ = ["ChunkedCoordinates", "Coordinates"]

# Rows of a block of Z, and of one of a weighted Gram matrix, a copy which should stay in cache.
_BLOCK_ROWS = 8192
_GRAM_ROWS = 2048


class Coordinates:
    """The matrix Z of shape (n, p), through the three products that a convex solver needs.

    Make one with `of_array` or `of_basis`; the latter holds Z if it fits the memory that
    `block_budget` allows, and streams over the rows if not; over those that can only be read in
    order once, to put Z into a temporary file.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        block: Callable[[Any], np.ndarray],
        Z: np.ndarray | None = None,
        basis: KernelBasis | None = None,
        rows: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.shape = shape
        self.n_jobs = n_jobs
        self._block = block  # rows, as a slice or indices -> their coordinates
        self._Z = Z
        self._basis = basis
        self._rows = rows

    @classmethod
    def of_array(cls, Z: np.ndarray, n_jobs: int | None = None) -> Coordinates:
        """Wrap an array of shape (n, p)."""
        return cls(Z.shape, lambda some: Z[some], Z=Z, n_jobs=n_jobs)

    @classmethod
    def of_basis(cls, basis: KernelBasis, rows: Any) -> Coordinates:
        """Return the coordinates of encoded rows under a fitted basis."""
        if isinstance(rows, Chunks):
            return ChunkedCoordinates.of_chunks(basis, rows)
        shape = (n_rows(rows), basis.rank_)
        if shape[0] * shape[1] * float_dtype(rows).itemsize <= stored_bytes():
            return cls.of_array(to_host(basis._coordinates(rows)), basis.n_jobs)
        if is_streamed(rows) and rows.is_sequential:  # which each pass would have to read again
            # a file without a name, which is gone with the last reference to it
            with tempfile.TemporaryFile() as file:
                Z = np.memmap(file, float_dtype(rows), "w+", shape=shape)
            return cls.of_array(basis._coordinates(rows, out=Z), basis.n_jobs)
        features = basis._features()

        def block(some: Any) -> np.ndarray:
            F = features(take(rows, some)).astype(np.float64, copy=False)
            return F @ basis.components_.T

        return cls(shape, block, basis=basis, rows=rows, n_jobs=basis.n_jobs)

    @property
    def is_stored(self) -> bool:
        """Whether Z is held in memory."""
        return self._Z is not None

    def take(self, index: np.ndarray) -> Coordinates:
        """Return the coordinates of some of the rows; of streamed ones, held if they fit."""
        if self._basis is not None:
            return Coordinates.of_basis(self._basis, subset(self._rows, index))
        if isinstance(self._Z, np.memmap):
            shape = (len(index), self.shape[1])
            return Coordinates(shape, lambda some: self._block(index[some]), n_jobs=self.n_jobs)
        return Coordinates.of_array(self._block(index), self.n_jobs)

    def product(self, B: np.ndarray) -> np.ndarray:
        """Return Z B, in float64."""
        if self._basis is not None:
            matrix = self._basis.on_features(B)
            F = project(self._basis._features(), self._rows, matrix, n_jobs=self.n_jobs)
            return F.astype(np.float64, copy=False)
        out = np.empty((self.shape[0], B.shape[1]))

        def fill(some: slice) -> None:
            Z = self._block(some)
            out[some] = Z @ B.astype(Z.dtype, copy=False)

        for _ in self._map(fill, self._slices()):
            pass
        return out

    def adjoint(self, G: np.ndarray) -> np.ndarray:
        """Return Z' G, in float64."""
        total = np.zeros((G.shape[1], self.shape[1]))

        def part(some: slice) -> np.ndarray:
            Z = self._block(some)
            return G[some].T.astype(Z.dtype) @ Z

        for piece in self._map(part, self._slices()):
            total += piece
        return total.T

    def _slices(self) -> Iterator[slice]:
        return row_slices(self.shape[0], block_rows(self.shape[0], 8 * self.shape[1], _BLOCK_ROWS))

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return [Z, 1]' diag(weights) [Z, 1], shape (p + 1, p + 1); rows of weight 0 are free."""
        p = self.shape[1]
        index = np.flatnonzero(weights)
        dense = 4 * len(index) > 3 * self.shape[0]
        signed = bool(np.any(weights < 0.0))
        total = np.zeros((p + 1, p + 1))

        def part(some: slice) -> np.ndarray:
            rows: Any = some if dense else index[some]
            w = weights[rows]
            wide = np.empty((len(w), p + 1))
            root = np.sqrt(np.abs(w))
            np.multiply(self._block(rows), root[:, None], out=wide[:, :p])
            wide[:, p] = root
            # NumPy sees the symmetry of a product with itself and does half the work
            return wide.T @ (wide * np.sign(w)[:, None] if signed else wide)

        n = self.shape[0] if dense else len(index)
        for piece in self._map(part, row_slices(n, block_rows(n, 8 * p, _GRAM_ROWS))):
            total += piece
        return total

    def _map(self, part: Callable[[slice], Any], slices: Any) -> Any:
        return map_blocks(part, slices, n_jobs=self.n_jobs)


class ChunkedCoordinates(Coordinates):
    """Z in blocks that the workers of a cluster keep; each product is one pass over them.

    What has n rows and few columns, such as predictions, is here.

    Parameters
    ----------
    Z : Chunks
    index : ndarray of int, optional
        The rows of it that are meant, in any order; default all.
    """

    def __init__(self, Z: Chunks, index: np.ndarray | None = None) -> None:
        self._chunks, self._index = Z, index
        n = len(Z) if index is None else len(index)
        self.shape = (n, Z.tail[0])
        # blocks see increasing rows
        self._order = np.arange(n) if index is None else np.argsort(index, kind="stable")
        self._locals = Z.locate(self._order if index is None else index[self._order])

    @classmethod
    def of_chunks(cls, basis: KernelBasis, rows: Chunks) -> ChunkedCoordinates:
        """Compute the coordinates of rows on a cluster, to stay there."""
        return cls(rows.persisted(_block_coordinates, (basis.rank_,), basis=broadcast(basis)))

    @property
    def is_stored(self) -> bool:
        """Whether Z is held: on the workers."""
        return True

    def take(self, index: np.ndarray) -> ChunkedCoordinates:
        """Return the coordinates of some of the rows."""
        mine = np.arange(self.shape[0]) if self._index is None else self._index
        return ChunkedCoordinates(self._chunks, mine[index])

    def product(self, B: np.ndarray) -> np.ndarray:
        """Return Z B, in float64."""
        out = np.empty((self.shape[0], B.shape[1]))
        found = self._chunks.gather(_product_of_block, self._rows(), B=broadcast(B))
        out[self._order] = np.concatenate(found)
        return out

    def adjoint(self, G: np.ndarray) -> np.ndarray:
        """Return Z' G, in float64."""
        return self._chunks.total(_sum_of_block, self._rows(G), method="adjoint")

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return [Z, 1]' diag(weights) [Z, 1], shape (p + 1, p + 1)."""
        return self._chunks.total(_sum_of_block, self._rows(weights), method="gram")

    def _rows(self, values: np.ndarray | None = None) -> list[Any]:
        """Return for each block which of its rows are meant, None for all, and their values."""
        ends = np.cumsum([0] + [len(local) for _, local in self._locals])
        parts = []
        for i, local in self._locals:
            which = None if self._index is None else local
            some = self._order[ends[i] : ends[i + 1]]
            parts.append((which, None if values is None else values[some]))
        return parts


def _block_coordinates(rows: Any, basis: KernelBasis) -> np.ndarray:
    return basis._coordinates(rows)


def _product_of_block(Z: np.ndarray, rows: Any, B: np.ndarray) -> np.ndarray:
    Z = Z if rows[0] is None else Z[rows[0]]
    return Coordinates.of_array(Z, n_jobs=1).product(B)


def _sum_of_block(Z: np.ndarray, rows: Any, method: str) -> np.ndarray:
    index, values = rows
    Z = Z if index is None else Z[index]
    return getattr(Coordinates.of_array(Z, n_jobs=1), method)(values)
