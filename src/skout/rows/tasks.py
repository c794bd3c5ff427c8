"""Graphs of dask: what the workers shall do.

Tasks are pure functions of their inputs, and models travel inside the graph, once. This module and
`rows.dask` are the only ones that import dask.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._numerics.threads import single_thread
from .._numerics.typing import Array, Objects, Rows
from .source import Reduction

#: A task of dask, or a lazy dask array: dask carries no types.
Delayed: TypeAlias = Any
# Parts that are summed in one task.
_FAN_IN = 8


def has_graph(objects: Objects) -> bool:
    """Whether these are blocks that dask computes; dask need not be installed to ask."""
    if isinstance(objects, list | tuple):
        return len(objects) > 0 and hasattr(type(objects[0]), "__dask_graph__")
    return hasattr(type(objects), "__dask_graph__")


def alone(function: Callable[..., Array]) -> Callable[..., Array]:
    """Let a task use one thread: other tasks use the other cores."""

    @functools.wraps(function)
    def run(*args: Delayed, **keywords: Delayed) -> Array:
        with single_thread():
            return function(*args, **keywords)

    return run


def _combined(parts: Sequence[Rows], reduction: Reduction) -> Array:
    total = copy.deepcopy(parts[0])  # what a task was given must stay as it is
    for part in parts[1:]:
        total = reduction.combine(total, part)
    return total


def task(function: Callable[..., Array], *args: Delayed, **keywords: Delayed) -> Delayed:
    """Return function(*args) as a task, which may depend on others."""
    import dask

    return dask.delayed(function, pure=False)(*args, **keywords)


def broadcast(thing: object) -> Delayed:
    """Return something that many tasks need as one node of a graph, which travels once."""
    import dask

    return dask.delayed(thing, pure=False, traverse=False)


def tree(parts: list[Delayed], reduction: Reduction) -> Delayed:
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
    return da.Array(whole.dask, whole.name, chunks, dtype, meta)


def blocks_of(array: Delayed) -> tuple[list[Delayed], Sequence[float]]:
    """Return the blocks of a dask array, or an array as one block, and their sizes."""
    if not has_graph(array):
        return [array], [len(array)]
    return list(array.to_delayed().ravel()), array.chunks[0]


def by_blocks(function: Callable[..., Array], *args: Delayed) -> Delayed:
    """Return the matrix function(*args), block by block of the arguments that lie on a cluster.

    The blocks of these must be those of the first; others are given to each call.
    """
    lazy = [arg for arg in args if has_graph(arg)]
    if not lazy:
        return function(*args)

    def at(i: int) -> list[Array]:
        return [blocks_of(arg)[0][i] if has_graph(arg) else arg for arg in args]

    sizes = lazy[0].chunks[0]
    none = [np.empty((0, *arg.shape[1:])) if has_graph(arg) else arg for arg in args]
    blocks = [task(function, *at(i)) for i in range(len(sizes))]
    return from_blocks(blocks, sizes, function(*none).shape[1:], np.dtype(np.float64))


def as_lazy_as(result: Delayed, array: Delayed) -> Delayed:
    """Return a lazy dask array; compute it if X, which it was made from, is an array in memory."""
    return result if has_graph(array) else result.compute()


def compute(tasks: list[Delayed]) -> list[Array]:
    """Return the results of tasks, all in one computation."""
    import dask

    with quiet():
        return list(dask.compute(*tasks))


def quiet() -> Delayed:
    """Silence dask's warning of large graphs: the model is in the graph once, by intention."""
    import dask

    if "distributed" not in sys.modules:  # too early: its defaults would be undone
        return contextlib.nullcontext()
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"})
