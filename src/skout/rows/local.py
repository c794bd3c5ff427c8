"""Rows that this process reads by itself: a pass is cut into blocks, which threads work on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, row_keys, row_slices, take, unique, unique_keys
from .._numerics.threads import map_blocks
from .source import Progress, Reduction, RowMap, Source, block_rows, limits

__all__ = ["Encoded", "Local", "Memory", "first_bad_row", "in_file"]


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
        tail: tuple[int, ...],
        dtype: Any,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        results = np.empty((len(self), *tail), dtype=dtype) if out is None else out

        def read(some: slice) -> tuple[slice, Any]:
            return some, self.take(some)

        def fill(block: tuple[slice, Any]) -> None:
            some, rows = block
            room = results[some]
            found = function(rows, room if room.dtype == dtype else None)
            if found is not room:
                room[...] = found

        blocks = self._blocks(function)
        for _ in map_blocks(fill, blocks, read=read, ahead=self.reads_ahead, n_jobs=n_jobs):
            pass
        return results

    def reduce(
        self,
        reduction: Reduction,
        *beside: Any,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        columns = [None if column is None else Memory.of(column) for column in (self, *beside)]
        progress = Progress() if progress is None else progress
        blocks = self._blocks(reduction)
        done, total = progress.begin(blocks)

        def read(some: slice) -> list[Any]:
            return [None if column is None else column.take(some) for column in columns]

        def part_of(block: list[Any]) -> Any:
            return reduction(*block)

        ahead = any(getattr(column, "reads_ahead", False) for column in columns)
        for part in map_blocks(part_of, blocks[done:], read=read, ahead=ahead, n_jobs=n_jobs):
            total = reduction.combine(total, part)
            done += 1
            progress.advance(done, total)
        return reduction.finish(total)

    def _blocks(self, work: RowMap | Reduction) -> list[slice]:
        n, pieces = len(self), getattr(work, "pieces", 1)
        size = block_rows(n, 8 * work.width, work.most_rows(n))
        return list(row_slices(n, size * pieces))

    def in_memory(self) -> Source:
        return Memory(self.here(), self.name)

    def then(self, function: Callable[[Any], Any], like: Any = None) -> Local:
        return Encoded(self, function)

    def subset(self, index: np.ndarray) -> Local:
        return _Subset(self, index)

    def chosen(self, index: np.ndarray, beside: np.ndarray) -> tuple[Source, np.ndarray]:
        return _Subset(self, index), beside[index]

    def kept(
        self, function: RowMap, tail: tuple[int, ...], n_jobs: int | None = None
    ) -> Local | None:
        shape, dtype = (len(self), *tail), self.precision
        if np.prod(shape, dtype=float) * dtype.itemsize <= limits().coordinates_bytes:
            return Memory(self.map(function, tail, dtype, n_jobs=n_jobs), self.name)
        if not self.in_order:
            return None
        out = in_file(shape, dtype)  # rows that can only be read in order are read once
        return Memory(self.map(function, tail, dtype, out=out, n_jobs=n_jobs), self.name)

    def unique(self) -> tuple[np.ndarray, np.ndarray]:
        if self.at_hand is not None:
            return unique(self.at_hand)
        keys: list[Any] = []
        for some in row_slices(len(self), limits().block_rows):
            keys += row_keys(self.take(some))
        return unique_keys(keys)

    def numbers(self, index: np.ndarray) -> np.ndarray:
        """Return the positions of some of these rows in the data that the user gave."""
        return index


class Memory(Local):
    """Rows in memory: what `kernel.encode` returned, or an array."""

    def __init__(self, rows: Any, name: str = "X") -> None:
        self.rows = self.like = rows
        self.is_array = isinstance(rows, np.ndarray)
        self.name = name

    @classmethod
    def of(cls, rows: Any) -> Source:
        """Return encoded rows as a source, which they may be already."""
        return rows if isinstance(rows, Source) else cls(rows)

    def __len__(self) -> int:
        return n_rows(self.rows)

    def take(self, index: Any) -> Any:
        return take(self.rows, index)

    def here(self) -> Any:
        return self.rows

    @property
    def at_hand(self) -> Any:
        return self.rows

    def subset(self, index: np.ndarray) -> Local:
        if isinstance(self.rows, np.memmap):  # a file of `kept`, larger than memory may be
            return _Subset(self, index)
        return Memory(take(self.rows, index), self.name)

    def reordered(self, order: np.ndarray) -> Source | None:
        return None if isinstance(self.rows, np.memmap) else _Subset(self, order)


class _Over(Local):
    """Rows that are computed from those of another source."""

    def __init__(self, base: Local) -> None:
        self.base = base
        self.name = base.name
        self.reads_ahead, self.in_order = base.reads_ahead, base.in_order
        self.rereadable = base.rereadable

    def stamp(self) -> str:
        return self.base.stamp()


class Encoded(_Over):
    """Rows that a function makes of blocks of others, when they are asked for.

    What it says is wrong with a block is told with the numbers of the rows.
    """

    def __init__(self, base: Local, function: Callable[[Any], Any]) -> None:
        super().__init__(base)
        self.function = function
        self.like = self._made(take(base.like, slice(0, 1)), slice(0, 1))
        if base.pool is not None:
            sample, weights = base.pool
            self.pool = Memory(function(sample.here()), self.name), weights

    def __len__(self) -> int:
        return len(self.base)

    def take(self, index: Any) -> Any:
        return self._made(self.base.take(index), index)

    def subset(self, index: np.ndarray) -> Encoded:
        return Encoded(self.base.subset(index), self.function)

    def numbers(self, index: np.ndarray) -> np.ndarray:
        return self.base.numbers(index)

    def compared(self) -> list[slice]:
        return self.base.compared()

    def _made(self, block: Any, index: Any) -> Any:
        try:
            return self.function(block)
        except ValueError as error:
            raise ValueError(f"{self._where(block, index)}: {error}") from error

    def _where(self, block: Any, index: Any) -> str:
        """Return words for an error: which rows the block has, and the first that is not finite."""
        own = np.arange(len(self))[index]
        if len(own) == 0:
            return f"In {self.name}, which has no rows"
        numbers = self.numbers(own)
        said = f"In rows {numbers[0]} to {numbers[-1]} of {self.name}"
        bad = first_bad_row(block)
        if bad is None:
            return said
        more = f" and {bad[1] - 1} more" if bad[1] > 1 else ""
        return f"{said}, where row {numbers[bad[0]]}{more} is not finite"


class _Subset(_Over):
    """Some rows of another source, in any order."""

    def __init__(self, base: Local, index: np.ndarray) -> None:
        super().__init__(base)
        self.index = index
        self.like = take(base.like, slice(0, 1))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: Any) -> Any:
        return self.base.take(self.index[index])

    def numbers(self, index: np.ndarray) -> np.ndarray:
        return self.base.numbers(self.index[index])


def in_file(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array in a temporary file without a name."""
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def first_bad_row(block: Any) -> tuple[int, int] | None:
    """Return the first row that is not finite and how many there are, None if all are finite."""
    values = block.data if sparse.issparse(block) else np.asarray(block)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return None
    if sparse.issparse(block):
        bad = np.unique(block.tocoo().row[~np.isfinite(values)])
    else:
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    return int(bad[0]), len(bad)
