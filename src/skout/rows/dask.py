"""Rows in blocks on a cluster: dask arrays, bags, lists of delayed blocks.

A pass over the rows is a map over blocks and a tree sum on the workers. Tasks are pure functions of
their inputs and models travel inside the graph, once: so dask can compute again whatever a dead
worker held. Data that `scatter` puts on workers is gone with its last holder.

Plain collections work with every scheduler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeGuard

import numpy as np

from .._numerics.arrays import float_dtype, n_rows, take
from .._numerics.typing import DType, Estimator, Index, Rows, Shape
from .local import Memory
from .source import Beside, Progress, Reduction, Request, RowMap, Source, Term, limits
from .stream import join
from .tasks import Delayed, alone, broadcast, compute, from_blocks, has_graph, quiet, task, tree

# Most landmarks that are sent to this process: at 1,000 float64 features 1.6 GB, a convention.
_MOST_ROWS = 200_000
# Blocks whose sizes a message shows.
_SHOWN = 6


def is_dask(objects: object) -> TypeGuard[Any]:
    """Return whether these are blocks that dask computes, or their source; needs no dask."""
    return isinstance(objects, Dask) or has_graph(objects)


class Dask(Source):
    """Rows in blocks that dask computes on its workers; sizes and dtype too, if they are needed."""

    is_remote = True

    encode: Callable[[Rows], Rows] | None
    name: str
    parts: list[Delayed]

    def __init__(
        self,
        parts: list[Delayed],  # dask.delayed objects
        name: str = "X",
        sizes: Sequence[int] | None = None,  # rows of each part
        like: Rows | None = None,  # none of the rows, or one
        encode: Callable[[Rows], Rows] | None = None,  # makes rows of the objects of a part
    ) -> None:
        self.parts, self.name, self.encode = parts, name, encode
        self._sizes = None if sizes is None else tuple(int(size) for size in sizes)
        self._like = like

    @classmethod
    def of(cls, objects: Any, name: str) -> Dask:
        """Return the source of a dask array, a bag, a delayed block or a list of delayed blocks."""
        if isinstance(objects, Dask):
            return objects
        if not hasattr(objects, "chunks"):
            return cls(_delayed_parts(objects), name)
        if objects.ndim == 0:
            raise ValueError(f"{name} must have rows. Got a dask array of one number.")
        if any(len(sizes) > 1 for sizes in objects.chunks[1:]):
            raise ValueError(
                f"{name} must be cut along its rows only. Got chunks {_shown(objects.chunks[1])} "
                f"of its columns: give {name}.rechunk({{1: -1}})."
            )
        parts = list(objects.to_delayed().ravel())
        known = not np.isnan(objects.shape[0])
        like = np.empty((0, *objects.shape[1:]), dtype=objects.dtype)
        return cls(parts, name, objects.chunks[0] if known else None, like)

    @functools.cached_property
    def _computed(self) -> tuple[Shape, Rows]:
        """Compute the sizes of the parts and an empty slice of the rows."""
        parts = compute([task(_described, part) for part in self.parts])
        sizes = tuple(size for size, _, _ in parts)
        shapes = {tail for size, tail, _ in parts if size}
        if len(shapes) > 1:
            raise ValueError(
                f"The blocks of {self.name} have rows of different shapes: {sorted(shapes)}."
            )
        dtypes = [dtype for size, _, dtype in parts if size] or [np.dtype(float)]
        dtype = np.result_type(*dtypes) if all(d.kind in "biuf" for d in dtypes) else dtypes[0]
        return sizes, np.empty((0, *(shapes.pop() if shapes else ())), dtype=dtype)

    @property
    def _known_sizes(self) -> Shape | None:
        """Rows of each part where they are known without a computation."""
        sizes: Shape | None = vars(self).get("_computed", (self._sizes, None))[0]
        return sizes

    @property
    def sizes(self) -> Shape:
        """Rows of each part."""
        return self._computed[0] if self._sizes is None else self._sizes

    @functools.cached_property
    def like(self) -> Rows:  # type: ignore[override] # computed when it is needed
        if self._like is not None:
            return self._like
        return self.take(slice(0, 1)) if self.encode is not None else self._computed[1]

    @property
    def precision(self) -> np.dtype:
        """The precision of the rows if it is known without a computation."""
        computed = self.__dict__.get("_computed", (None, None))[1]
        return float_dtype(computed if self._like is None else self._like)

    @property
    def is_described(self) -> bool:
        """Whether shape and dtype are known without a computation."""
        return self._like is not None

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Number of the first row of each part, and at the end that of all rows."""
        return np.cumsum([0, *self.sizes])

    @property
    def filled(self) -> list[int]:
        """The parts that have rows."""
        return [i for i, size in enumerate(self.sizes) if size]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def then(self, function: Callable[[Rows], Rows], like: Rows | None = None) -> Dask:
        encode = function if self.encode is None else _Chain((self.encode, function))
        return Dask(self.parts, self.name, self._known_sizes, like, encode)

    def subset(self, index: np.ndarray) -> Dask:
        pieces = [(i, local) for i, local in self.locate(index) if len(local)]
        parts = [task(take, self.parts[i], local) for i, local in pieces]
        return Dask(parts, self.name, [len(local) for _, local in pieces], self._like, self.encode)

    def locate(self, index: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return for each part which of its rows are among increasing row numbers."""
        ends = np.searchsorted(index, self.starts)
        return [(i, index[ends[i] : ends[i + 1]] - self.starts[i]) for i in range(len(self.parts))]

    # Rows in the memory of this process ---------------------------------------------------------

    def take(self, index: Index) -> Any:
        tasks, finish = self._taking(index)
        return finish(compute(tasks))

    def load(self) -> Any:
        needed = len(self) * int(np.prod(self.tail, dtype=int)) * self.dtype.itemsize
        most = limits().coordinates_bytes
        if needed > most:
            raise ValueError(
                f"All {len(self)} rows of {self.name}, {needed / 2**20:,.0f} MiB, would be sent "
                f"to this process, more than the {most / 2**20:,.0f} MiB of "
                "memory_limits(coordinates_mb=...). Use an estimator that leaves rows on the "
                "cluster, such as KernelRidge with a sketch; or, if they fit into memory, give "
                f"{self.name}.compute()."
            )
        return join(compute(self._tasks(_as_they_are)))

    def gathered(self, most: int) -> Source:
        return Memory(self.load(), self.name) if len(self) <= most else self

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.load(), dtype=dtype)

    def take_task(self, index: np.ndarray) -> Delayed:
        """Return the task that computes the rows at an index, for use in other graphs."""
        tasks, finish = self._taking(index)
        return task(_finished, tasks, broadcast(finish))

    def _served(self, requests: Sequence[Request]) -> list[Any]:
        """Serve all requests by one computation."""
        graphs = [self._summing(*r) if isinstance(r, tuple) else self._taking(r) for r in requests]
        parts = compute(list(chain.from_iterable(tasks for tasks, _ in graphs)))
        ends = np.cumsum([len(tasks) for tasks, _ in graphs])
        pieces = [
            parts[end - len(tasks) : end] for (tasks, _), end in zip(graphs, ends, strict=True)
        ]
        return [finish(piece) for (_, finish), piece in zip(graphs, pieces, strict=True)]

    def _taking(self, index: Index) -> tuple[list[Delayed], Callable[[list[Any]], Any]]:
        """Return tasks that send rows, and a function that puts these in the order of `index`."""
        index = np.arange(len(self))[index]
        if len(index) > _MOST_ROWS:
            raise ValueError(
                f"{len(index)} of the {len(self)} rows of {self.name} would be sent to this "
                f"process, more than {_MOST_ROWS}. Use a sketch that touches few rows, such as "
                "SubSample(1000)."
            )
        order = np.argsort(index, kind="stable")
        where = [(i, local) for i, local in self.locate(index[order]) if len(local)]
        where = where or [(0, np.empty(0, dtype=np.intp))]
        tasks = [task(_rows_at, self.parts[i], local, self._place(i)) for i, local in where]
        back = np.argsort(order)
        return tasks, _Reordered(None if np.array_equal(back, np.arange(len(back))) else back)

    # Passes -------------------------------------------------------------------------------------

    def map(
        self,
        function: RowMap,
        tail: Shape,
        dtype: DType,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        tasks = self._mapping(function, np.empty((0, *tail), dtype=dtype))
        sizes = [np.nan] * len(tasks) if self._known_sizes is None else self._known_sizes
        return from_blocks(tasks, sizes, tail, np.dtype(dtype))

    def _mapping(self, function: RowMap, nothing: np.ndarray) -> list[Delayed]:
        """Return the tasks function(rows), one a part; `nothing` is the result of no rows."""
        send = broadcast(function)
        return [task(_mapped, p, self._place(i), send, nothing) for i, p in enumerate(self.parts)]

    def collect(
        self, function: RowMap, tail: Shape, dtype: DType, n_jobs: int | None = None
    ) -> np.ndarray:
        values: np.ndarray = compute([self.map(function, tail, dtype)])[0]
        return values

    def reduce(
        self,
        reduction: Reduction[Term],
        *beside: Beside,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Term:
        total: Term = self._served([(reduction, *beside)])[0]
        return total

    def _summing(
        self, reduction: Reduction[Term], *beside: Beside
    ) -> tuple[list[Delayed], Callable[[list[Any]], Any]]:
        tasks = self._tasks(_First(reduction), *beside)
        return [tree(tasks, reduction)], lambda parts: reduction.finish(parts[0])

    def _tasks(self, function: Callable[..., Any], *beside: Beside) -> list[Delayed]:
        """Return the tasks function(rows, *columns beside them), one a part that has rows."""
        columns = [self, *(self._aligned(column) for column in beside)]
        send = broadcast(function)
        tasks = []
        for k, i in enumerate(self.filled):
            part = slice(int(self.starts[i]), int(self.starts[i + 1]))
            pairs = [_block_of(column, k, part) for column in columns]
            tasks.append(task(_run, send, *(list(side) for side in zip(*pairs, strict=True))))
        return tasks

    def _aligned(self, column: Beside) -> Any:
        """Return a column (targets, weights, ...); it must be cut into blocks as the rows are."""
        if not isinstance(column, Dask):
            return getattr(column, "rows", column)  # in memory
        if len(column) != len(self):
            raise ValueError(
                f"{self.name} and {column.name} must have the same number of rows: inconsistent "
                f"numbers of samples, {len(self)} and {len(column)}."
            )
        if [s for s in column.sizes if s] != [s for s in self.sizes if s]:  # empty ones are free
            raise ValueError(
                f"The chunks of {self.name} and {column.name} must align. Got rows "
                f"{_shown(self.sizes)} in {self.name} and {_shown(column.sizes)} in "
                f"{column.name}: give {column.name}.rechunk({{0: {self.name}.chunks[0]}})."
            )
        return column

    def kept(self, function: RowMap, tail: Shape, n_jobs: int | None = None) -> Dask:
        import dask

        nothing = np.empty((0, *tail), dtype=self.precision)
        tasks = self._mapping(function, nothing)
        with quiet():
            return Dask(list(dask.persist(*tasks)), self.name, self.sizes, nothing)

    def _place(self, i: int) -> _BlockRows:
        where = f"block {i}"
        if self._known_sizes is not None:
            where = f"rows {self.starts[i]} to {self.starts[i + 1] - 1}"
        return _BlockRows(f"{where} of {self.name}", self.encode)

    def check_sketch(self, sketch: Estimator | None) -> None:
        if sketch is None:
            raise ValueError(
                "sketch=None keeps every row, which dask's chunks cannot: give a sketch, for "
                "instance SubSample(1000)."
            )
        if sketch.needs_gram and not hasattr(sketch, "max_rows"):
            raise ValueError(
                f"{sketch!r} needs kernel values of all rows in one place, which dask's chunks "
                "are not: use PivotedCholesky, which reads a part of them."
            )


@dataclass(frozen=True)
class _BlockRows:
    """The function that encodes a block, and the rows that it names in errors."""

    where: str
    encode: Callable[[Any], Any] | None

    def __call__(self, block: Rows) -> Rows:
        if self.encode is None:
            return block
        try:
            rows: Rows = self.encode(block)
            return rows
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} ({self.where})") from None


@dataclass(frozen=True)
class _Chain:
    """Functions applied one after another; it can be sent to workers."""

    functions: tuple[Callable[[Any], Any], ...]

    def __call__(self, block: Rows) -> Rows:
        for function in self.functions:
            block = function(block)
        return block


# Tasks: what runs on the workers ------------------------------------------------------------------


@alone
def _run(function: Callable[..., Any], blocks: list[Any], places: list[_BlockRows | None]) -> Any:
    encoded = [b if p is None else p(b) for b, p in zip(blocks, places, strict=True)]
    return function(*encoded)


@alone
def _mapped(block: Rows, place: _BlockRows, function: RowMap, nothing: np.ndarray) -> np.ndarray:
    if n_rows(block) == 0:
        return nothing
    return np.asarray(function(place(block))).astype(nothing.dtype, copy=False)


def _rows_at(block: Rows, local: Index, place: _BlockRows) -> Rows:
    return place(take(block, local))


def _described(block: Rows) -> tuple[int, Shape, np.dtype]:
    shape = getattr(block, "shape", (n_rows(block),))
    return n_rows(block), tuple(shape[1:]), getattr(block, "dtype", np.dtype(object))


def _as_they_are(block: Rows) -> Rows:
    return block


@dataclass(frozen=True)
class _Reordered:
    """Put rows of several parts into the requested order; it can be sent to workers."""

    order: np.ndarray | None

    def __call__(self, parts: Sequence[Rows]) -> Rows:
        rows = join(list(parts))
        return rows if self.order is None else take(rows, self.order)


def _finished(parts: list[Any], finish: Callable[[list[Any]], Any]) -> Any:
    return finish(parts)


class _First(Generic[Term]):
    """The first total of a sum, which `combine` makes of one part."""

    def __init__(self, reduction: Reduction[Term]) -> None:
        self.reduction = reduction

    def __call__(self, *block: Any) -> Term:
        return self.reduction.combine(None, self.reduction(*block))


def _delayed_parts(objects: Any) -> list[Delayed]:
    """Return the delayed blocks of a list, of a bag, or a single one as a list."""
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


def _shown(sizes: Sequence[int]) -> str:
    text = ", ".join(str(size) for size in sizes[:_SHOWN])
    return f"({text}, ... {len(sizes)} in all)" if len(sizes) > _SHOWN else f"({text})"


def _block_of(column: object, k: int, part: slice) -> tuple[object, _BlockRows | None]:
    """Return the data of the k-th part that has rows, and the function that encodes it."""
    if isinstance(column, Dask):
        i = column.filled[k]
        return column.parts[i], column._place(i)
    return (None if column is None else take(column, part)), None
