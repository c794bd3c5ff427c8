"""Array-likes outside memory: memory maps, HDF5 and zarr arrays, parquet and CSR files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import Rows, n_rows
from .local import Local

__all__ = ["Disk", "is_array_like", "pick"]

# Most rows of a chunk to read at once when only some of them are wanted.
_READ_ROWS = 8192
# Positions that lie within this many rows are read as one slice, where a source has no chunks.
_WINDOW = 256
# How many stretches of rows identify an array in a checkpoint, and how many rows each has.
_SAMPLES, _SAMPLE_ROWS = 32, 128


class Disk(Local):
    """An array-like that is read when it is asked for.

    It has `shape`, and rows that slices and increasing positions give. It may have `head`, its
    first row, where that is cheaper to have than `array[:1]`; and `is_sequential`, true if it can
    only be read from its beginning on.
    """

    reads_ahead = True

    def __init__(self, array: Any, name: str = "X") -> None:
        self.array = array
        self.name = name
        self.in_order = bool(getattr(array, "is_sequential", False))
        head = getattr(array, "head", None)
        self.like = _as_block(array[:1]) if head is None else head

    def __len__(self) -> int:
        return n_rows(self.array)

    def take(self, index: Any) -> Any:
        return pick(self.array, index)

    def compared(self) -> list[slice]:
        n = len(self)
        if self.in_order:
            return super().compared()
        starts = np.linspace(0, max(0, n - _SAMPLE_ROWS), _SAMPLES).astype(int)
        return [slice(int(a), min(int(a) + _SAMPLE_ROWS, n)) for a in np.unique(starts)]

    def stamp(self) -> str:
        parts = (getattr(self.array, name, None) for name in ("file", "data", "indices"))
        places = [getattr(part, "filename", None) for part in (self.array, *parts)]
        places.append(getattr(getattr(self.array, "store", None), "root", None))  # of zarr
        return " ".join(_stamp(Path(os.fsdecode(place))) for place in places if place is not None)


def _stamp(path: Path) -> str:
    """Return size and time of a file, or of all in a folder."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    known = [file.stat() for file in files if file.exists()]
    size = sum(one.st_size for one in known)
    return f"{size} bytes of {max((one.st_mtime_ns for one in known), default=0)}"


def is_array_like(objects: Any) -> bool:
    """Whether this is an array-like outside memory: a memory map, an HDF5 or zarr array, ...

    It has a shape, a dtype and rows that can be indexed, and is no array or data frame.
    """
    if isinstance(objects, np.memmap):
        return objects.ndim > 0 and objects.dtype.kind in "biuf"
    if isinstance(objects, np.ndarray | np.generic | Rows) or sparse.issparse(objects):
        return False
    if hasattr(objects, "iloc"):
        return False
    if getattr(objects, "is_sequential", False):  # of objects too
        return True
    dtype = getattr(objects, "dtype", None)
    is_numeric = isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    return is_numeric and hasattr(objects, "__getitem__") and len(objects.shape) > 0


def pick(array: Any, index: Any) -> Any:
    """Read rows of an array-like: a slice, positions in any order, or a mask."""
    if isinstance(index, slice) and index.step in (None, 1):
        return _as_block(array[slice(*index.indices(n_rows(array)))])
    wanted = np.arange(n_rows(array))[index] if not _is_positions(index) else index
    order = np.argsort(wanted, kind="stable")
    found = _read_sorted(array, wanted[order])
    if np.all(order[1:] > order[:-1]):
        return found
    return found[np.argsort(order)]


def _is_positions(index: Any) -> bool:
    is_array = isinstance(index, np.ndarray) and index.dtype.kind in "iu"
    return is_array and (len(index) == 0 or index.min() >= 0)


def _read_sorted(array: Any, index: np.ndarray) -> Any:
    """Read rows at increasing positions."""
    takes_all = isinstance(array, np.ndarray | Rows) or sparse.issparse(array)
    if takes_all or hasattr(array, "takes_positions") or len(index) == 0:
        return _as_block(array[index] if len(index) else array[:0])
    # HDF5 takes positions one by one, which is slow: whole chunks that have some are read
    chunks = getattr(array, "chunks", None)
    number = index // (min(chunks[0], _READ_ROWS) if chunks else _WINDOW)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    blocks = []
    for some in np.split(index, starts[1:]):
        block = _as_block(array[int(some[0]) : int(some[-1]) + 1])
        blocks.append(block[some - some[0]])
    return np.concatenate(blocks)


def _as_block(block: Any) -> Any:
    """Return what was read as an array or CSR matrix; objects stay as they are."""
    if sparse.issparse(block) or isinstance(block, list | Rows):
        return block
    return np.asarray(block)
