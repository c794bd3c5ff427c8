"""Rows that lie in blocks on a cluster: dask arrays, bags, lists of delayed blocks.

`Chunks` stand for such rows wherever encoded rows are wanted. To index them computes the few rows
asked for; a pass over all of them is a map over blocks and a tree sum on the workers. Tasks are
pure functions of their inputs and models travel inside the graph, once: so dask can compute again
whatever a dead worker held. Data that `scatter` puts on workers is gone with its last holder.

This is the one module that imports dask; plain collections work with every scheduler.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._arrays import n_rows, take
from ._streams import join
from ._threads import single_thread

__all__ = [
    "Chunks",
    "alone",
    "broadcast",
    "check_chunks",
    "chunked",
    "from_blocks",
    "map_rows",
    "on_cluster",
    "shown",
    "task",
    "tree",
]

# Parts that are summed in one task.
_FAN_IN = 8
# Rows that may be brought here at once, as landmarks.
_MOST_ROWS = 200_000
# Bytes that may be brought here as one array.
_MOST_BYTES = 2**28
# Blocks whose sizes a message shows.
_SHOWN = 6


def on_cluster(objects: Any) -> bool:
    """Whether these are blocks that dask computes; dask need not be installed to ask."""
    if isinstance(objects, list | tuple):
        return len(objects) > 0 and hasattr(type(objects[0]), "__dask_graph__")
    return isinstance(objects, Chunks) or hasattr(type(objects), "__dask_graph__")


@dataclass(frozen=True, eq=False)
class Chunks:
    """Rows in blocks, which dask computes where they lie.

    Attributes
    ----------
    parts : list of dask.delayed objects
    sizes : tuple of int
        Rows of each.
    tail : tuple of int
        Shape of a row: (d,) of vectors, () of objects.
    dtype : numpy dtype
    name : str
        What messages call them.
    encode : callable, optional
        Makes rows of the objects of a block, on a worker.
    """

    parts: list[Any]
    sizes: tuple[int, ...]
    tail: tuple[int, ...]
    dtype: np.dtype
    name: str = "X"
    encode: Callable[[Any], Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self.sizes), *self.tail)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return sum(self.sizes)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Number of the first row of each block, and at the end that of all rows."""
        return np.cumsum([0, *self.sizes])

    @property
    def left(self) -> Chunks:
        """The rows of the first of two kernels, where blocks are encoded for both."""
        return replace(self, encode=_Side(self.encode, "left"))

    @property
    def right(self) -> Chunks:
        """The rows of the second of two kernels."""
        return replace(self, encode=_Side(self.encode, "right"))

    @property
    def rows(self) -> Chunks:
        """The rows inside others, where an encoding wraps another."""
        return replace(self, encode=_Side(self.encode, "rows"))

    def as_columns(self) -> Chunks:
        """Return targets as a matrix, as which `encode` makes them already."""
        return replace(self, tail=self.tail or (1,))

    def __getitem__(self, index: Any) -> Any:
        """Compute some rows; each block sends no others."""
        index = np.arange(len(self))[index]
        if len(index) > _MOST_ROWS:
            raise ValueError(
                f"{len(index)} of the {len(self)} rows of {self.name} would be brought here, more "
                f"than {_MOST_ROWS}. Use a sketch that touches few rows, such as SubSample(1000)."
            )
        order = np.argsort(index, kind="stable")
        tasks = [
            task(_rows_at, self.parts[i], local, self._place(i))
            for i, local in self.locate(index[order])
            if len(local)
        ]
        rows = join(_compute(tasks)) if tasks else self._none()
        if np.array_equal(order, np.arange(len(order))):
            return rows
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return take(rows, back)

    def _none(self) -> Any:
        return _compute([task(_rows_at, self.parts[0], slice(0), self._place(0))])[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Compute all of them, where they are a few numbers a row: weights, targets."""
        needed = self.dtype.itemsize * math.prod(self.shape)
        if needed > _MOST_BYTES:
            raise ValueError(
                f"All {len(self)} rows of {self.name}, {needed / 2**20:,.0f} MiB, would be brought "
                f"here, more than {_MOST_BYTES / 2**20:,.0f} MiB. Use an estimator that leaves "
                "rows on the cluster, such as KernelRidge with a sketch; or, if they fit into "
                f"memory, give {self.name}.compute()."
            )
        return np.concatenate(_compute(self.map(_as_they_are))).astype(dtype or self.dtype)

    def locate(self, index: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return for each block the rows of it that increasing row numbers stand for."""
        ends = np.searchsorted(index, self.starts)
        return [(i, index[ends[i] : ends[i + 1]] - self.starts[i]) for i in range(len(self.parts))]

    def _place(self, i: int) -> _Place:
        return _Place(self.name, int(self.starts[i]), int(self.starts[i + 1]), self.encode)

    def map(self, function: Callable[..., Any], *others: Any, **fixed: Any) -> list[Any]:
        """Return the tasks function(block, *blocks of others, **fixed), one a block.

        Others are Chunks of the same sizes, arrays of as many rows, lists of one thing a block,
        or None.
        """
        tasks = []
        for i, part in enumerate(self.parts):
            some = slice(int(self.starts[i]), int(self.starts[i + 1]))
            blocks = [part] + [_block_of(other, i, some) for other in others]
            places = [o._place(i) if isinstance(o, Chunks) else None for o in (self, *others)]
            tasks.append(task(_run, function, blocks, places, fixed))
        return tasks

    def gather(self, function: Callable[..., Any], *others: Any, **fixed: Any) -> list[Any]:
        """Return function(block, ...) of each block, computed."""
        return _compute(self.map(function, *others, **fixed))

    def total(
        self,
        function: Callable[..., Any],
        *others: Any,
        combine: Callable[[Sequence[Any]], Any] = sum,
        **fixed: Any,
    ) -> Any:
        """Return the sum of function(block, ...), in the order of the rows; only it travels here.

        `combine` adds up a few parts.
        """
        return _compute([tree(self.map(function, *others, **fixed), combine)])[0]

    def persisted(
        self, function: Callable[..., Any], tail: tuple[int, ...], **fixed: Any
    ) -> Chunks:
        """Return the rows function(block), which the workers keep."""
        import dask

        with _quiet():
            parts = list(dask.persist(*self.map(function, **fixed)))
        return replace(self, parts=parts, tail=tail, encode=None)

    def subset(self, index: np.ndarray) -> Chunks:
        """Return some of the rows, in increasing order, without computing them."""
        found = [(i, local) for i, local in self.locate(index) if len(local)]
        parts = [task(take, self.parts[i], local) for i, local in found]
        return replace(self, parts=parts, sizes=tuple(len(local) for _, local in found))


@dataclass(frozen=True)
class _Place:
    """Which rows a block has, and how they are encoded."""

    name: str
    start: int
    stop: int
    encode: Callable[[Any], Any] | None

    def __call__(self, block: Any) -> Any:
        if self.encode is None:
            return block
        try:
            return self.encode(block)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{error} (rows {self.start} to {self.stop - 1} of {self.name})"
            ) from None


@dataclass(frozen=True)
class _Side:
    """Encode, and take a part of the encoding, if it has such a part."""

    encode: Callable[[Any], Any] | None
    side: str

    def __call__(self, block: Any) -> Any:
        rows = block if self.encode is None else self.encode(block)
        return getattr(rows, self.side, rows)


# Tasks: what runs on the workers ------------------------------------------------------------------


def alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a task use one thread: the others are busy with tasks of their own."""

    @functools.wraps(function)
    def run(*args: Any, **keywords: Any) -> Any:
        with single_thread():
            return function(*args, **keywords)

    return run


@alone
def _run(
    function: Callable[..., Any], blocks: list[Any], places: list[Any], fixed: dict[str, Any]
) -> Any:
    encoded = [b if p is None else p(b) for b, p in zip(blocks, places, strict=True)]
    return function(*encoded, **fixed)


def _rows_at(block: Any, local: Any, place: _Place) -> Any:
    return place(take(block, local))


def _describe(block: Any) -> tuple[int, tuple[int, ...], np.dtype]:
    shape = getattr(block, "shape", (n_rows(block),))
    return n_rows(block), tuple(shape[1:]), getattr(block, "dtype", np.dtype(object))


def _as_they_are(block: Any) -> Any:
    return block


# Graphs: what the workers shall do ----------------------------------------------------------------


def task(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Return function(*args) as a task, which may depend on others."""
    import dask

    return dask.delayed(function, pure=False)(*args, **keywords)


def broadcast(thing: Any) -> Any:
    """Return something that many tasks need as one node of a graph, which travels once."""
    import dask

    return dask.delayed(thing, pure=False, traverse=False)


def tree(parts: list[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the task that combines parts in their order, a few at a time."""
    while len(parts) > 1:
        parts = [task(combine, parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    return parts[0]


def _compute(tasks: list[Any]) -> list[Any]:
    import dask

    with _quiet():
        return list(dask.compute(*tasks))


def _quiet() -> Any:
    """Let a graph hold a model: it is there once, and outlives the workers."""
    import dask

    if "distributed" not in sys.modules:  # to set its options now would undo its defaults later
        return contextlib.nullcontext()
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"})


def map_rows(
    function: Callable[..., Any], X: Any, tail: tuple[int, ...], dtype: Any, **fixed: Any
) -> Any:
    """Return function(block, **fixed) of each block as a lazy dask array, shape (n, *tail).

    Chunks stay Chunks.
    """
    dtype = np.dtype(dtype)
    if isinstance(X, Chunks):
        parts = [task(function, part, **fixed) for part in X.parts]
        return replace(X, parts=parts, tail=tail, dtype=dtype, encode=None)
    if not hasattr(X, "chunks"):
        parts = [task(function, part, **fixed) for part in _delayed_parts(X)]
        return from_blocks(parts, [np.nan] * len(parts), tail, dtype)
    check_chunks(X, "X")
    more = len(tail) + 1 - X.ndim
    return X.map_blocks(
        function,
        **fixed,
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(tail)), dtype=dtype),
        chunks=(X.chunks[0], *((size,) for size in tail)),
        new_axis=[1] if more > 0 else None,
        drop_axis=[1] if more < 0 else [],
    )


def from_blocks(
    blocks: list[Any], sizes: Sequence[float], tail: tuple[int, ...], dtype: np.dtype
) -> Any:
    """Return a lazy dask array of shape (n, *tail) from tasks that make its blocks."""
    import dask.array as da

    meta = np.empty((0,) * (1 + len(tail)), dtype=dtype)
    arrays = [
        da.from_delayed(block, (size, *tail), dtype, meta)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


# From what users give -----------------------------------------------------------------------------


def chunked(objects: Any, name: str = "X") -> Chunks:
    """Return blocks that dask computes as `Chunks`; only their sizes may have to be computed."""
    if isinstance(objects, Chunks):
        return objects
    if hasattr(objects, "chunks"):
        return _of_array(objects, name)
    parts = _delayed_parts(objects)
    found = _compute([task(_describe, part) for part in parts])
    kept = [(part, size) for part, (size, _, _) in zip(parts, found, strict=True) if size]
    if not kept:
        raise ValueError(f"Found array with 0 sample(s): {name} must have rows.")
    tails = {tail for size, tail, _ in found if size}
    if len(tails) > 1:
        raise ValueError(f"The blocks of {name} have rows of different shapes: {sorted(tails)}.")
    dtypes = [dtype for size, _, dtype in found if size]
    dtype = np.result_type(*dtypes) if all(kind.kind in "biuf" for kind in dtypes) else dtypes[0]
    return Chunks([p for p, _ in kept], tuple(s for _, s in kept), tails.pop(), dtype, name)


def _of_array(array: Any, name: str) -> Chunks:
    check_chunks(array, name)
    if np.isnan(array.shape[0]):
        raise ValueError(
            f"{name} has chunks of unknown sizes: call {name}.compute_chunk_sizes() first."
        )
    kept = [(p, s) for p, s in zip(array.to_delayed().ravel(), array.chunks[0], strict=True) if s]
    if not kept:
        raise ValueError(f"Found array with 0 sample(s): {name} must have rows.")
    return Chunks(
        [p for p, _ in kept], tuple(s for _, s in kept), array.shape[1:], array.dtype, name
    )


def check_chunks(array: Any, name: str) -> None:
    """Raise where an array is cut along its columns too."""
    if any(len(sizes) > 1 for sizes in array.chunks[1:]):
        raise ValueError(
            f"{name} must be cut along its rows only. Got chunks {shown(array.chunks[1])} of its "
            f"columns: give {name}.rechunk({{1: -1}})."
        )


def _delayed_parts(objects: Any) -> list[Any]:
    """Return the blocks of a list of them, of one, or of a bag."""
    if hasattr(type(objects), "to_dask_array"):
        raise TypeError(
            "A dask data frame is given, whose columns may be of any kind: give "
            "frame.to_dask_array(lengths=True)."
        )
    if isinstance(objects, list | tuple):
        return list(objects)
    if hasattr(type(objects), "to_delayed"):
        return list(objects.to_delayed())
    return [objects]


def shown(sizes: Sequence[int]) -> str:
    """Return sizes as a message shows them."""
    text = ", ".join(str(size) for size in sizes[:_SHOWN])
    return f"({text}, ... {len(sizes)} in all)" if len(sizes) > _SHOWN else f"({text})"


def _block_of(other: Any, i: int, some: slice) -> Any:
    if isinstance(other, Chunks):
        return other.parts[i]
    if isinstance(other, list):
        return other[i]
    return None if other is None else take(other, some)
