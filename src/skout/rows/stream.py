"""Blocks of rows read one after another, as if they were one array, and sampled in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from .._numerics.arrays import Taken, n_rows, take
from .._numerics.objects import Rows, stack
from .._numerics.typing import Index, Objects

#: The columns of a block: (X, y) or (X, y, weight).
Block: TypeAlias = tuple[Any, ...]


def join(parts: Sequence[Taken]) -> Taken:
    """Return the rows of several blocks, which are arrays, CSR matrices, Rows or lists, as one."""
    if len(parts) == 1:
        return parts[0]
    blocks: list[Any] = list(parts)
    if all(isinstance(block, list | tuple) for block in blocks):
        blocks = [list(chain.from_iterable(blocks))]
    elif len({type(block) for block in blocks}) > 1:  # packed bits, where a block has no counts
        blocks = [np.asarray(block) if isinstance(block, Rows) else block for block in blocks]
    joined: Taken = blocks[0] if len(blocks) == 1 else stack(blocks)
    return joined


class Reservoir:
    """A uniform sample of rows whose number is not known before, in their order.

    Each row gets a random key, and those with the smallest keys stay: the sample does not depend
    on how the rows are cut into blocks. All of them stay if they are no more than `size`.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size = size
        self.n: int = 0  # rows so far
        self._rng = rng
        self._largest_key = np.inf  # no row with a larger key can stay
        self._keys = np.empty(0)
        self._parts: list[Block] = []

    def add(self, block: Block) -> None:
        """Sample from one more block, a tuple of columns of equal length."""
        b = n_rows(block[0])
        keys = self._rng.random(b)
        chosen = np.flatnonzero(keys < self._largest_key)
        self.n += b
        if len(chosen):
            self._parts.append(tuple(take(column, chosen) for column in block))
            self._keys = np.concatenate([self._keys, keys[chosen]])
        if len(self._keys) > 2 * self.size:
            self._prune()

    def columns(self) -> Block:
        """Return the sample: each column of the blocks, in the order of the rows."""
        self._prune()
        return self._parts[0]

    def _prune(self) -> None:
        whole = tuple(join(column) for column in zip(*self._parts, strict=True))
        if len(self._keys) > self.size:
            kept = np.sort(np.argpartition(self._keys, self.size)[: self.size])
            self._keys = self._keys[kept]
            self._largest_key = self._keys.max()
            whole = tuple(take(column, kept) for column in whole)
        self._parts = [whole]


class Stream:
    """An iterator of blocks that can be restarted, with n rows in all.

    Rows are read forward, and from the start again for rows before: a pass in the order of the rows
    reads each block once. The last rows read are kept, for the other columns of the same rows.
    `begin` returns an iterator of blocks, each a tuple of columns of equal length.
    """

    def __init__(self, begin: Callable[[], Iterator[Block]], n: int) -> None:
        self._begin = begin
        self.n = n
        self._iterator: Iterator[Block] = iter(())
        self._block: Block | None = None
        self._start = self._stop = 0  # rows of the block
        self._last: tuple[np.ndarray, Block] | None = None

    def read(self, index: np.ndarray) -> Block:
        """Return the columns at increasing positions."""
        if self._last is None or not np.array_equal(self._last[0], index):
            self._last = index, self._forward(index)
            if index[-1] == self.n - 1:
                self._check_end()
        return self._last[1]

    def _forward(self, index: np.ndarray) -> Block:
        """Read on to increasing positions; begin again if the stream is already beyond them."""
        if self._block is None or index[0] < self._start:
            self._iterator, self._block = self._begin(), None
            self._start = self._stop = 0
        parts = []
        while len(index):
            if self._block is None or index[0] >= self._stop:
                self._advance()
                continue
            inside = index[: np.searchsorted(index, self._stop)]
            parts.append(tuple(_within(column, inside - self._start) for column in self._block))
            index = index[len(inside) :]
        return tuple(join(column) for column in zip(*parts, strict=True))

    def _advance(self) -> None:
        block = next(self._iterator, None)
        if block is None:
            raise ValueError(
                f"The blocks ended after {self._stop} rows, and {self.n} were expected: they must "
                "be the same in each pass, and n, if given, their number of rows."
            )
        self._block = block
        self._start, self._stop = self._stop, self._stop + n_rows(block[0])

    def _check_end(self) -> None:
        """Raise if there are more rows than n."""
        if self._stop > self.n or next(self._iterator, None) is not None:
            raise ValueError(
                f"The blocks have more than {self.n} rows: they must be the same in each pass, "
                "and n, if given, their number of rows."
            )
        self._block = None  # the next pass begins again


class Column:
    """One column of a stream, whose first row is `head`, as an array-like that is read in order."""

    is_sequential = True
    takes_positions = True

    def __init__(self, stream: Stream, number: int, head: Objects) -> None:
        self.head = head
        self.dtype: np.dtype = getattr(head, "dtype", np.dtype(object))
        self.shape: tuple[int, ...] = (stream.n, *getattr(head, "shape", (1,))[1:])
        self._stream, self._number = stream, number

    def __getitem__(self, index: Index) -> Objects:
        if isinstance(index, slice):
            index = np.arange(*index.indices(self.shape[0]))
        positions = np.asarray(index)
        if len(positions) == 0:
            return take(self.head, slice(0))
        rows: Objects = self._stream.read(positions)[self._number]
        return rows


def _within(column: Taken, index: np.ndarray) -> Taken:
    """Return rows at increasing positions; as a slice where they follow each other."""
    if index[-1] - index[0] == len(index) - 1:
        return take(column, slice(int(index[0]), int(index[-1]) + 1))
    return take(column, index)
