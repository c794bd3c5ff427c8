"""Rows that stay where they are, on disk say: each block is read and encoded when it is asked for.

All passes over the data use slices and sorted positions of rows, so what answers to these with
encoded rows can take the place of rows in memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from ._arrays import Rows, n_rows, row_keys, row_slices, take

__all__ = ["LazyRows", "in_memory", "is_on_disk", "is_streamed", "pick", "subset"]

# Rows read at a time where all of them must be looked at.
_READ_ROWS = 8192
# Positions that lie within this many rows are read as one slice, where a source has no chunks.
_WINDOW = 256
# Attributes of rows, in memory, that are rows themselves.
_PARTS = ("left", "right", "rows")


class LazyRows(Rows):
    """Encoded rows of an array-like that is not in memory.

    An index reads and encodes: it gives rows in memory. `subset` gives lazy ones.

    Parameters
    ----------
    source : array-like
        With `shape`, and rows that slices and increasing positions give. It may have `head`, its
        first row, where that is cheaper to have than `source[:1]`; and `is_sequential`, true if
        it can only be read from its beginning on.
    encode : callable
        Maps a block of the source to rows.
    name : str, default "X"
        How messages call the source.
    """

    def __init__(self, source: Any, encode: Callable[[Any], Any], name: str = "X") -> None:
        self.source = source
        self.encode = encode
        self.name = name
        head = getattr(source, "head", None)
        #: one encoded row, or none if there are none
        self.probe = self._encoded(source[:1] if head is None else head, slice(0, 1))
        self.ndim = getattr(self.probe, "ndim", 1)
        self.dtype = getattr(self.probe, "dtype", np.dtype(object))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *getattr(self.probe, "shape", (0,))[1:])

    @property
    def is_sequential(self) -> bool:
        """Whether the rows can only be read in their order, by one reader at a time."""
        return bool(getattr(self.source, "is_sequential", False))

    def __len__(self) -> int:
        return n_rows(self.source)

    def __getitem__(self, index: Any) -> Any:
        return self._encoded(pick(self.source, index), index)

    def subset(self, index: np.ndarray) -> Self:
        """Return some of the rows, still lazy."""
        return type(self)(_Picked(self.source, index), self.encode, self.name)

    def then(self, function: Callable[[Any], Any]) -> LazyRows:
        """Return the rows that a function makes of encoded ones, block by block."""
        return LazyRows(self.source, lambda block: function(self.encode(block)), self.name)

    def as_columns(self) -> LazyRows:
        """Return targets as a matrix."""
        return self if self.ndim == 2 else self.then(lambda y: y.reshape(len(y), -1))

    def __getattr__(self, name: str) -> LazyRows:
        """Return a part that rows of several parts have: left and right of `Joint`, and so on."""
        if name not in _PARTS or not hasattr(self.__dict__.get("probe"), name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return self.then(operator.attrgetter(name))

    def keys(self) -> list[Any]:
        """Return one key a row; this reads all of them."""
        keys: list[Any] = []
        for some in row_slices(len(self), _READ_ROWS):
            keys += row_keys(self[some])
        return keys

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self[:], dtype=dtype)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Any:
        raise TypeError("Rows that are not in memory cannot be put together.")

    def _encoded(self, block: Any, index: Any) -> Any:
        try:
            return self.encode(block)
        except ValueError as error:
            raise ValueError(f"{self._where(block, index)}: {error}") from error

    def _where(self, block: Any, index: Any) -> str:
        """Say which rows a block has, and which of them are not finite."""
        numbers = np.arange(len(self))[index]
        if len(numbers) == 0:
            return f"In {self.name}, which has no rows"
        numbers = getattr(self.source, "numbers", lambda own: own)(numbers)
        said = f"In rows {numbers[0]} to {numbers[-1]} of {self.name}"
        values = block.data if sparse.issparse(block) else np.asarray(block)
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return said
        if sparse.issparse(block):
            bad = np.unique(block.tocoo().row[~np.isfinite(values)])
        else:
            bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        return f"{said}, where row {numbers[bad[0]]}{more} is not finite"


class _Picked:
    """Some rows of a source."""

    def __init__(self, source: Any, index: np.ndarray) -> None:
        self.source, self.index = source, index
        self.shape = (len(index), *source.shape[1:])
        self.dtype = getattr(source, "dtype", np.dtype(object))
        self.is_sequential = getattr(source, "is_sequential", False)
        self.head = getattr(source, "head", None)

    def __getitem__(self, index: Any) -> Any:
        return pick(self.source, self.index[index])

    def numbers(self, own: np.ndarray) -> np.ndarray:
        """Return the positions in the source of rows of this."""
        return self.index[own]


def is_streamed(*rows: Any) -> bool:
    """Whether some of these must be read when they are used."""
    return any(isinstance(some, LazyRows) for some in rows)


def is_on_disk(objects: Any) -> bool:
    """Whether this is an array-like outside memory: a memory map, an HDF5 or zarr array, ...

    Told by what it has: shape, dtype and rows to take, but not the rest of what makes an array or
    a data frame. What has a task graph, or a `total` over blocks, is for dask to read.
    """
    if isinstance(objects, np.memmap):
        return objects.ndim > 0 and objects.dtype.kind in "biuf"
    if isinstance(objects, np.ndarray | np.generic | Rows) or sparse.issparse(objects):
        return False
    if any(hasattr(objects, name) for name in ("iloc", "__dask_graph__", "total")):
        return False
    if getattr(objects, "is_sequential", False):  # of objects too
        return True
    dtype = getattr(objects, "dtype", None)
    is_numeric = isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    return is_numeric and hasattr(objects, "__getitem__") and len(objects.shape) > 0


def in_memory(rows: Any) -> Any:
    """Read rows or objects as a whole if they are on disk; others are returned as they are."""
    if isinstance(rows, LazyRows):
        return rows[:]
    return pick(rows, slice(None)) if is_on_disk(rows) else rows


def subset(rows: Any, index: np.ndarray) -> Any:
    """Return some of the rows, which stay where they are: on disk, on a cluster or here."""
    return rows.subset(index) if hasattr(rows, "subset") else take(rows, index)


def pick(source: Any, index: Any) -> Any:
    """Read rows of an array-like: a slice, positions in any order, or a mask."""
    if isinstance(index, slice) and index.step in (None, 1):
        return _as_block(source[slice(*index.indices(n_rows(source)))])
    wanted = np.arange(n_rows(source))[index] if not _is_positions(index) else index
    order = np.argsort(wanted, kind="stable")
    found = _read_sorted(source, wanted[order])
    if np.all(order[1:] > order[:-1]):
        return found
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return found[place]


def _is_positions(index: Any) -> bool:
    is_array = isinstance(index, np.ndarray) and index.dtype.kind in "iu"
    return is_array and (len(index) == 0 or index.min() >= 0)


def _read_sorted(source: Any, index: np.ndarray) -> Any:
    """Read rows at increasing positions."""
    takes_all = isinstance(source, np.ndarray | _Picked | Rows) or sparse.issparse(source)
    if takes_all or hasattr(source, "takes_positions") or len(index) == 0:
        return _as_block(source[index] if len(index) else source[:0])
    # HDF5 takes positions one by one, which is slow: whole chunks that have some are read
    chunks = getattr(source, "chunks", None)
    number = index // (min(chunks[0], _READ_ROWS) if chunks else _WINDOW)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    blocks = []
    for some in np.split(index, starts[1:]):
        block = _as_block(source[int(some[0]) : int(some[-1]) + 1])
        blocks.append(block[some - some[0]])
    return np.concatenate(blocks)


def _as_block(block: Any) -> Any:
    """Return what was read as an array or CSR matrix; objects stay as they are."""
    if sparse.issparse(block) or isinstance(block, list | Rows):
        return block
    return np.asarray(block)
