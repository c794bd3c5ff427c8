"""Array-likes outside memory: memory maps, HDF5 and zarr arrays, parquet and CSR files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows
from .._numerics.objects import Rows as ObjectRows
from .._numerics.typing import Array, Index, Objects
from .local import Local
from .stream import Column

# Most rows of a chunk to read at once when only a few of its rows are needed. 500 and 5,000 of
# 200,000 rows of an HDF5 file in chunks of 50,000: half, double and whole chunks are within noise.
_READ_ROWS = 8192
# Positions within this many rows are read as one slice where an array has no chunks: reading a few
# rows too many costs less than a call for each. 500 and 5,000 of 200,000 rows of an HDF5 file: half
# takes 1.9 times as long, double 0.4 and 0.8, but reads more where the file is not in memory.
_WINDOW = 256
# Stretches of rows that identify an array in a checkpoint, and rows of each: 4,096 in all, so that
# the check does not read the whole file. A convention.
_SAMPLES, _SAMPLE_ROWS = 32, 128


class Disk(Local):
    """Rows of an array-like outside of memory, which are read when they are needed.

    It has `shape`, and rows that slices and increasing positions give. It may have `head`, its
    first row, where that is cheaper to have than `array[:1]`; and `is_sequential`, true if it can
    only be read from its beginning on.
    """

    reads_ahead = True

    def __init__(self, array: Objects | Column, name: str = "X") -> None:
        held: Any = array
        self.array = held
        self.name = name
        self.in_order: bool = bool(getattr(array, "is_sequential", False))
        head = getattr(array, "head", None)
        self.like: Any = _as_block(held[:1]) if head is None else head

    def __len__(self) -> int:
        return n_rows(self.array)

    def take(self, index: Index) -> Any:
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
    facts = [file.stat() for file in files if file.exists()]
    size = sum(fact.st_size for fact in facts)
    return f"{size} bytes of {max((fact.st_mtime_ns for fact in facts), default=0)}"


def is_array_like(objects: object) -> TypeGuard[Any]:
    """Return whether this is an array-like outside memory: a memory map, an HDF5 or zarr array.

    It has a shape, a dtype and rows that can be indexed, and is no array or data frame.
    """
    if isinstance(objects, np.memmap):
        return objects.ndim > 0 and objects.dtype.kind in "biuf"
    if isinstance(objects, np.ndarray | np.generic | ObjectRows) or sparse.issparse(objects):
        return False
    if hasattr(objects, "iloc"):
        return False
    if getattr(objects, "is_sequential", False):  # of objects too
        return True
    dtype = getattr(objects, "dtype", None)
    is_numeric = isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    shape = getattr(objects, "shape", ())
    return is_numeric and hasattr(objects, "__getitem__") and len(shape) > 0


def pick(array: Array, index: Index) -> Array:
    """Read rows of an array-like: a slice, positions in any order, or a mask."""
    if isinstance(index, slice) and index.step in (None, 1):
        return _as_block(array[slice(*index.indices(n_rows(array)))])
    if isinstance(index, np.ndarray) and index.dtype.kind in "iu" and not np.any(index < 0):
        positions = index  # without an array of all positions
    else:
        positions = np.arange(n_rows(array))[index]
    order = np.argsort(positions, kind="stable")
    rows = _read_sorted(array, positions[order])
    return rows if np.all(order[1:] > order[:-1]) else rows[np.argsort(order)]


def _read_sorted(array: Array, index: np.ndarray) -> Array:
    """Read rows at increasing positions."""
    takes_all = isinstance(array, np.ndarray | ObjectRows) or sparse.issparse(array)
    if takes_all or hasattr(array, "takes_positions") or len(index) == 0:
        return _as_block(array[index] if len(index) else array[:0])
    # HDF5 reads positions one by one, which is slow: whole chunks with a position are read instead
    chunks = getattr(array, "chunks", None)
    number = index // (min(chunks[0], _READ_ROWS) if chunks else _WINDOW)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    blocks = []
    for positions in np.split(index, starts[1:]):
        block = _as_block(array[int(positions[0]) : int(positions[-1]) + 1])
        blocks.append(block[positions - positions[0]])
    return np.concatenate(blocks)


def _as_block(block: Array) -> Array:
    """Return what was read as an array or CSR matrix; objects stay as they are."""
    stays = sparse.issparse(block) or isinstance(block, list | ObjectRows)
    return block if stays else np.asarray(block)
