"""Graphs of dask: the tasks of workers.

Tasks are pure functions of their inputs, and models travel inside the graph, once. This module and
`rows.dask` are the only ones that import dask.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np

from .._numerics.threads import single_thread
from .._numerics.typing import Array, Shape
from .source import Reduction, Term

Result = TypeVar("Result")
# Parts that are summed in one task: a worker holds so many terms at a time, and the tree of 4,096
# parts has 4 levels. A convention.
_FAN_IN = 8


class Delayed(Protocol):
    """What is used of a task of dask, or of a lazy dask array."""

    chunks: tuple[tuple[float, ...], ...]
    shape: Shape
    dtype: np.dtype

    def compute(self) -> Any: ...
    def to_delayed(self) -> Any: ...


def has_graph(objects: object) -> TypeGuard[Any]:
    """Return whether these are blocks that dask computes; dask need not be installed."""
    if isinstance(objects, list | tuple):
        return len(objects) > 0 and hasattr(type(objects[0]), "__dask_graph__")
    return hasattr(type(objects), "__dask_graph__")


def alone(function: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a function to use one thread in a task: other tasks use the other cores."""

    @functools.wraps(function)
    def run(*args: object, **keywords: object) -> Result:
        with single_thread():
            return function(*args, **keywords)

    return run


def _combined(parts: Sequence[Term], reduction: Reduction[Term]) -> Term:
    total = copy.deepcopy(parts[0])  # what a task was given must stay as it is
    for part in parts[1:]:
        total = reduction.combine(total, part)
    return total


def task(function: Callable[..., Any], *args: object, **keywords: object) -> Delayed:
    """Return function(*args) as a task, which may depend on others."""
    import dask

    delayed: Delayed = dask.delayed(function, pure=False)(*args, **keywords)
    return delayed


def broadcast(thing: object) -> Delayed:
    """Return something that many tasks need as one node of a graph, which travels once."""
    import dask

    node: Delayed = dask.delayed(thing, pure=False, traverse=False)
    return node


def tree(parts: list[Delayed], reduction: Reduction[Term]) -> Delayed:
    """Return the task that combines parts in their order, a few at a time."""
    while len(parts) > 1:
        parts = [
            task(_combined, parts[i : i + _FAN_IN], reduction)
            for i in range(0, len(parts), _FAN_IN)
        ]
    return parts[0]


def from_blocks(
    blocks: list[Delayed], sizes: Sequence[float], tail: tuple[int, ...], dtype: np.dtype
) -> Delayed:
    """Return a lazy dask array of shape (n, *tail) from tasks that make its blocks."""
    import dask.array as da

    meta = np.empty((0,) * (1 + len(tail)), dtype=dtype)
    # dask would leave out the blocks that it knows to be empty
    arrays = [da.from_delayed(block, (np.nan, *tail), dtype, meta) for block in blocks]
    whole = da.concatenate(arrays, allow_unknown_chunksizes=True)
    chunks = (tuple(sizes), *((size,) for size in tail))
    array: Delayed = da.Array(whole.dask, whole.name, chunks, dtype, meta)
    return array


def blocks_of(array: Any) -> tuple[list[Any], Sequence[float]]:
    """Return the blocks of a dask array, or an array as one block, and their sizes."""
    if not has_graph(array):
        return [array], [len(array)]
    return list(array.to_delayed().ravel()), array.chunks[0]


def by_blocks(function: Callable[..., Array], *args: object) -> Any:
    """Return the matrix function(*args), lazily, a block of rows at a time.

    Lazy arguments must be cut into the same blocks; the others are passed to each call.
    """
    lazy = [arg for arg in args if has_graph(arg)]
    if not lazy:
        return function(*args)

    def at(i: int) -> list[Any]:
        return [blocks_of(arg)[0][i] if has_graph(arg) else arg for arg in args]

    sizes = lazy[0].chunks[0]
    none = [np.empty((0, *arg.shape[1:])) if has_graph(arg) else arg for arg in args]
    blocks = [task(function, *at(i)) for i in range(len(sizes))]
    return from_blocks(blocks, sizes, function(*none).shape[1:], np.dtype(np.float64))


def as_lazy_as(result: Delayed, array: object) -> Delayed | Array:
    """Return a lazy dask array; compute it if X, which it was made from, is an array in memory."""
    return result if has_graph(array) else result.compute()


def compute(tasks: Sequence[Delayed]) -> list[Any]:
    """Return the results of tasks, all in one computation."""
    import dask

    with quiet():
        return list(dask.compute(*tasks))


def quiet() -> contextlib.AbstractContextManager[object]:
    """Silence dask's warning of large graphs: the model is in the graph once, by intention."""
    import dask

    if "distributed" not in sys.modules:  # too early: its defaults would be undone
        return contextlib.nullcontext()
    threshold: contextlib.AbstractContextManager[object] = dask.config.set(
        {"distributed.admin.large-graph-warning-threshold": "10GB"}
    )
    return threshold
