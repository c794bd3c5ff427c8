"""Rows that this process reads: a pass is cut into blocks, which threads work on."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, row_keys, row_slices, take, unique, unique_keys
from .._numerics.threads import map_blocks
from .._numerics.typing import Array, DType, Index, Inputs, Objects, Rows, Shape
from .source import Beside, Progress, Reduction, RowMap, Source, Term, block_rows, limits

# A pass over so many numbers or more is long: 16 MB of features in float64. A round number.
_LONG_PASS = 2**21


class Local(Source):
    """Rows that this process reads, in blocks that threads share.

    Results are put together in the order of the rows: they do not depend on the number of threads.
    """

    #: whether reading is slow, so that a background thread should do it
    reads_ahead: bool = False
    has_shortcuts = True
    #: whether rows can only be read in their order
    in_order: bool = False

    def map(
        self,
        function: RowMap,
        tail: Shape,
        dtype: DType,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Array:
        results = np.empty((len(self), *tail), dtype=dtype) if out is None else out

        def read(part: slice) -> tuple[slice, Rows]:
            return part, self.take(part)

        def fill(block: tuple[slice, Rows]) -> None:
            part, rows = block
            target = results[part]
            values = function(rows, target if target.dtype == dtype else None)
            if values is not target:
                target[...] = values

        blocks = self._blocks(function)
        for _ in map_blocks(fill, blocks, read=read, ahead=self.reads_ahead, n_jobs=n_jobs):
            pass
        return results

    def reduce(
        self,
        reduction: Reduction[Term],
        *beside: Beside,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Term:
        columns = [None if column is None else Memory.of(column) for column in (self, *beside)]
        blocks = self._blocks(reduction)
        begun: tuple[int, Any] = (0, None) if progress is None else progress.begin(blocks)
        done, total = begun

        def read(part: slice) -> list[Rows | None]:
            return [None if column is None else column.take(part) for column in columns]

        ahead = any(getattr(column, "reads_ahead", False) for column in columns)
        terms = map_blocks(
            lambda block: reduction(*block), blocks[done:], read=read, ahead=ahead, n_jobs=n_jobs
        )
        for number, term in enumerate(terms, done + 1):
            total = reduction.combine(total, term)
            if progress is not None:
                progress.advance(number, total)
        return reduction.finish(total)

    def _blocks(self, work: RowMap | Reduction[Term]) -> list[slice]:
        n, pieces, (k, numbers) = len(self), getattr(work, "pieces", 1), work.shared
        most = math.ceil(n / k) if n * numbers >= _LONG_PASS else work.longest
        return list(row_slices(n, block_rows(n, 8 * work.width, most) * pieces))

    def in_memory(self) -> Source:
        return Memory(self.load(), self.name)

    def then(self, function: Callable[[Rows], Rows], like: Rows | None = None) -> Local:
        return Encoded(self, function)

    def subset(self, index: np.ndarray) -> Local:
        return _Subset(self, index)

    def chosen(self, index: np.ndarray, beside: np.ndarray) -> tuple[Source, np.ndarray]:
        return _Subset(self, index), beside[index]

    def kept(self, function: RowMap, tail: Shape, n_jobs: int | None = None) -> Local | None:
        shape, dtype = (len(self), *tail), self.precision
        if np.prod(shape, dtype=float) * dtype.itemsize <= limits().coordinates_bytes:
            return Memory(self.map(function, tail, dtype, n_jobs=n_jobs), self.name)
        if not self.in_order:
            return None
        out = in_file(shape, dtype)  # rows that can only be read in order are read once
        return Memory(self.map(function, tail, dtype, out=out, n_jobs=n_jobs), self.name)

    def unique(self) -> tuple[np.ndarray, np.ndarray]:
        if self.resident is not None:
            return unique(self.resident)
        keys: list[Hashable] = []
        for part in row_slices(len(self), limits().block_rows):
            keys += row_keys(self.take(part))
        return unique_keys(keys)

    def numbers(self, index: np.ndarray) -> np.ndarray:
        """Return the positions, in the data of the user, of the rows at an index."""
        return index


class Memory(Local):
    """Rows in memory: what `kernel.encode` returned, or an array."""

    like: Rows

    def __init__(self, rows: Inputs, name: str = "X") -> None:
        held: Any = rows
        self.rows = self.like = held
        self.is_array: bool = isinstance(rows, np.ndarray)
        self.name = name

    @classmethod
    def of(cls, rows: Objects) -> Source:
        """Return encoded rows as a source; a source as it is."""
        return rows if isinstance(rows, Source) else cls(rows)

    def __len__(self) -> int:
        return n_rows(self.rows)

    def take(self, index: Index) -> Any:
        return take(self.rows, index)

    def load(self) -> Any:
        return self.rows

    @property
    def resident(self) -> Any:
        return self.load()

    def subset(self, index: np.ndarray) -> Local:
        if isinstance(self.rows, np.memmap):  # a file of `kept`, larger than memory may be
            return _Subset(self, index)
        return Memory(take(self.rows, index), self.name)

    def reordered(self, order: np.ndarray) -> Source | None:
        return None if isinstance(self.rows, np.memmap) else _Subset(self, order)


class _Derived(Local):
    """Rows that are computed from those of another source."""

    in_order: bool
    reads_ahead: bool

    def __init__(self, base: Local) -> None:
        self.base = base
        self.name: str = base.name
        self.reads_ahead, self.in_order = base.reads_ahead, base.in_order
        self.rereadable: bool = base.rereadable

    def stamp(self) -> str:
        return self.base.stamp()


class Encoded(_Derived):
    """function(rows) of another source, computed block by block when they are read.

    Errors of the function are raised with the numbers of the rows in the block.
    """

    def __init__(self, base: Local, function: Callable[[Rows], Rows]) -> None:
        super().__init__(base)
        self.function = function
        self.like: Rows = self._made(take(base.like, slice(0, 1)), slice(0, 1))
        if base.pool is not None:
            sample, weights = base.pool
            self.pool = Memory(function(sample.load()), self.name), weights

    def __len__(self) -> int:
        return len(self.base)

    def take(self, index: Index) -> Any:
        return self._made(self.base.take(index), index)

    def subset(self, index: np.ndarray) -> Encoded:
        return Encoded(self.base.subset(index), self.function)

    def numbers(self, index: np.ndarray) -> np.ndarray:
        return self.base.numbers(index)

    def compared(self) -> list[slice]:
        return self.base.compared()

    def _made(self, block: Rows, index: Index) -> Rows:
        try:
            return self.function(block)
        except ValueError as error:
            raise ValueError(f"{self._where(block, index)}: {error}") from error

    def _where(self, block: Rows, index: Index) -> str:
        """Return, for an error, which rows the block has and the first that is not finite."""
        positions = np.arange(len(self))[index]
        if len(positions) == 0:
            return f"In {self.name}, which has no rows"
        numbers = self.numbers(positions)
        where = f"In rows {numbers[0]} to {numbers[-1]} of {self.name}"
        bad = first_bad_row(block)
        if bad is None:
            return where
        more = f" and {bad[1] - 1} more" if bad[1] > 1 else ""
        return f"{where}, where row {numbers[bad[0]]}{more} is not finite"


class _Subset(_Derived):
    """Rows of another source at given positions, in any order."""

    def __init__(self, base: Local, index: np.ndarray) -> None:
        super().__init__(base)
        self.index = index
        self.like = take(base.like, slice(0, 1))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Index) -> Any:
        return self.base.take(self.index[index])

    def numbers(self, index: np.ndarray) -> np.ndarray:
        return self.base.numbers(self.index[index])


def in_file(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Return an array in a temporary file without a name."""
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def first_bad_row(block: Objects) -> tuple[int, int] | None:
    """Return the first row that is not finite and how many there are, None if all are finite."""
    values = block.data if sparse.issparse(block) else np.asarray(block)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return None
    if sparse.issparse(block):
        bad = np.unique(block.tocoo().row[~np.isfinite(values)])
    else:
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    return int(bad[0]), len(bad)
