"""Passes over rows on a card: rows that lie there, or that are streamed to it from the host.

Kernel values, moments and predictions are float64 where the card multiplies float64 about as fast
as float32 (data-centre cards do), which then costs nothing. On other cards they are of the
precision of the rows, and sums over blocks are float64 everywhere. TF32 is never used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .._numerics.arrays import (
    is_on_card,
    is_tensor,
    n_rows,
    numpy_of,
    positions,
    row_slices,
    take,
    torch_dtype,
)
from .._numerics.extras import extra
from .._numerics.objects import moved, to_device
from .local import Local, Memory, in_file
from .source import Progress, Reduction, RowMap, Source, limits

__all__ = ["Device", "Place", "is_on_card", "on_device", "resolved", "the_card"]

# Most rows of a block.
_BLOCK_ROWS = 2**17
# Blocks on their way to the card.
_AHEAD = 2
# Of the memory that is free on a card, coordinates take this share, and leave room for so many
# blocks of the largest size.
_HELD_SHARE, _HELD_BLOCKS = 0.8, 3
# Cards of these generations multiply float64 at half the rate of float32 or more.
_FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def on_device(rows: Source, device: str | None) -> Source:
    """Return rows whose passes run on a device; None is where they are, "cpu" the host."""
    device = the_card(device or "cpu")
    if device == "cpu" or isinstance(rows, Device):
        return rows
    if not isinstance(rows, Local):
        raise ValueError(
            f"device={device!r} is for rows that this process reads. {rows.name} lies on a "
            "cluster: leave out device=."
        )
    return Device(rows, resolved(device))


def the_card(device: str) -> str:
    """Return what "auto" stands for, a card if there is one; other names as they are."""
    if device != "auto":
        return device
    try:
        import torch
    except ImportError:
        return "cpu"
    # torchrun numbers the processes of a machine, one a card
    return f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"


def resolved(name: str) -> Any:
    """Return the torch device of a name, or say why there is none."""
    with extra("deep", f"device={name!r} needs PyTorch"):
        import torch
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device must be None, "cpu" or "cuda". Got {name!r} instead.') from error
    if device.type != "cuda":
        raise ValueError(f'device must be None, "cpu" or "cuda", "cuda:1" ... Got {name!r}.')
    if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={name!r}: PyTorch finds no such card. Leave out device=.")
    return device


class Place:
    """A torch device, and the precision of kernel values there, for rows of the given dtype."""

    def __init__(self, device: Any, dtype: np.dtype) -> None:
        self.device = device
        self.dtype = np.dtype(np.float64) if _has_fast_double(device) else dtype

    def moved(self, array: Any, dtype: Any = None) -> Any:
        """Return an array as a tensor there."""
        return to_device(np.ascontiguousarray(array), self.device, dtype or self.dtype)


class Device(Source):
    """Rows whose passes run on a card; `take` returns rows on the host, where landmarks are kept.

    `base` is a tensor of shape (n, d), or a Local source for another device.
    """

    def __init__(self, base: Any, device: Any = None, name: str = "X") -> None:
        self.base = base
        self.is_tensor = is_tensor(base)
        self.device = base.device if device is None else device
        self.name = name if self.is_tensor else base.name
        self.like = numpy_of(base[:1]) if self.is_tensor else base.like

    def __len__(self) -> int:
        return n_rows(self.base)

    @property
    def place(self) -> Place:
        return Place(self.device, self.precision)

    def take(self, index: Any) -> Any:
        if not self.is_tensor:
            return self.base.take(index)
        if not isinstance(index, slice):
            index = positions(index, self.base)
        return numpy_of(self.base[index])

    def in_memory(self) -> Source:
        return Device(Memory(self.here(), self.name), self.device)

    def all_for(self, part: Any) -> Any:
        takes_it = self.is_tensor and getattr(part, "takes_tensors", False)
        return self.base if takes_it else self.here()

    def then(self, function: Callable[[Any], Any], like: Any = None) -> Source:
        if isinstance(function, RowMap) and (there := function.on(self.place)) is not None:
            return _Made(self, function, there)
        made = self._on_host().then(function)
        return made if self.is_tensor else Device(made, self.device)

    def subset(self, index: Any) -> Device:
        if self.is_tensor:
            return Device(self.base[positions(index, self.base)], name=self.name)
        return Device(self.base.subset(positions(index, self.like)), self.device)

    def collect(
        self, function: RowMap, tail: tuple[int, ...], dtype: Any, n_jobs: int | None = None
    ) -> np.ndarray:
        return numpy_of(self.map(function, tail, dtype))

    def map_near(
        self, function: RowMap, tail: tuple[int, ...], dtype: Any, n_jobs: int | None = None
    ) -> Any:
        if function.on(self.place) is None:
            return self.near(self.collect(function, tail, dtype, n_jobs=n_jobs))
        shape = (len(self), *tail)
        return self.map(function, tail, dtype, out=self._room(shape, dtype, self.device))

    def near(self, array: np.ndarray) -> Any:
        return to_device(array, self.device)

    def check_room(self, needed: int, what: str) -> None:
        there = _free_bytes(self.device)
        if needed > there:
            raise MemoryError(
                f"{what} would take {needed / 2**30:,.2f} GiB on {self.device}, where "
                f"{max(there, 0) / 2**30:,.2f} GiB are free. Compute on the host, or with fewer "
                "rows or outputs."
            )

    def kept(
        self, function: RowMap, tail: tuple[int, ...], n_jobs: int | None = None
    ) -> Source | None:
        shape, dtype = (len(self), *tail), self.place.dtype
        if self._has_room(float(np.prod(shape, dtype=float)) * dtype.itemsize):
            return Device(self.map_near(function, tail, dtype), self.device, self.name)
        if not self.in_order:
            return None
        held = self.map(function, tail, dtype, out=in_file(shape, dtype))
        return Device(Memory(held, self.name), self.device)

    def _has_room(self, size: float) -> bool:
        """Return whether coordinates of so many bytes may be held there."""
        most = limits().given_bytes
        blocks = _HELD_BLOCKS * min(limits().device_bytes, size)
        fits = size + blocks <= _HELD_SHARE * _free_bytes(self.device)
        return fits and (most is None or size <= most)

    @property
    def in_order(self) -> bool:
        """Whether rows can only be read in their order."""
        return not self.is_tensor and self.base.in_order

    def map(
        self,
        function: RowMap,
        tail: tuple[int, ...],
        dtype: Any,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        there = function.on(self.place)
        if there is None:
            return self._on_host().map(function, tail, dtype, out=out, n_jobs=n_jobs)
        if np.dtype(dtype).kind != "f":  # labels, of which there are no tensors
            out = np.empty((len(self), *tail), dtype=dtype) if out is None else out
        where = self.device if self.is_tensor else "cpu"
        results = self._room((len(self), *tail), dtype, where) if out is None else out
        for some, (rows,) in self._blocks(function.width):
            found = there(rows)
            is_array = isinstance(results, np.ndarray)
            results[some] = numpy_of(found) if is_array else to_device(found, results.device)
        there.finish()
        return results if out is not None or self.is_tensor else numpy_of(results)

    def _room(self, shape: tuple[int, ...], dtype: Any, where: Any) -> Any:
        """Return a tensor for results: on the device, or in the memory of the host."""
        import torch

        return torch.empty(shape, dtype=torch_dtype(dtype), device=where)

    def reduce(
        self,
        reduction: Reduction,
        *beside: Any,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        there = reduction.on(self.place)
        if there is None:
            return self._on_host().reduce(reduction, *beside, progress=progress, n_jobs=n_jobs)
        total = None
        for _, block in self._blocks(reduction.width, *beside):
            total = there.combine(total, there(*block))
        return there.finish(total)

    def _on_host(self) -> Local:
        return Memory(self.here(), self.name) if self.is_tensor else self.base

    def _blocks(self, width: int, *beside: Any) -> Iterator[tuple[slice, list[Any]]]:
        """Yield slices with the rows there, and those of what lies beside, on the device.

        Blocks are read, and copied to pinned memory, in a thread of their own; they travel while
        the device computes on those before.
        """
        size = max(1, min(_BLOCK_ROWS, limits().device_bytes // (8 * max(1, width))))
        slices = list(row_slices(len(self), size))
        columns = (self.base, *beside)
        there = [column if self._has(column) else None for column in columns]
        travel = [None if self._has(column) else column for column in columns]
        if all(column is None for column in travel):
            for some in slices:
                yield some, [None if column is None else column[some] for column in there]
            return
        for some, sent in self._streamed(slices, travel):
            both = zip(there, sent, strict=True)
            yield some, [part if column is None else column[some] for column, part in both]

    def _has(self, column: Any) -> bool:
        """Whether a column is a tensor on this kind of device."""
        return is_tensor(column) and column.device.type == self.device.type

    def _read(self, some: slice, columns: list[Any]) -> list[Any]:
        """Return blocks of columns in (pinned) tensors; None for columns that are None."""
        blocks = [None if column is None else take(column, some) for column in columns]
        parts = [None if block is None else to_device(block, "cpu") for block in blocks]
        if self.device.type != "cuda":
            return parts
        return [None if p is None else moved(p, lambda tensor: tensor.pin_memory()) for p in parts]

    def _streamed(
        self, slices: list[slice], columns: list[Any]
    ) -> Iterator[tuple[slice, list[Any]]]:
        import torch

        cuda = self.device.type == "cuda"
        lane = torch.cuda.Stream(self.device) if cuda else None  # copies run beside the products
        done: list[Any] = []
        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(self._read, some, columns) for some in slices[:_AHEAD]]
            for i, some in enumerate(slices):
                parts = waiting.pop(0).result()
                if i + _AHEAD < len(slices):
                    waiting.append(reader.submit(self._read, slices[i + _AHEAD], columns))
                yield some, _sent(parts, self.device, lane)
                if lane is not None:  # the host must not run ahead of the device for long
                    done.append(torch.cuda.current_stream(self.device).record_event())
                    if len(done) > _AHEAD:
                        done.pop(0).synchronize()


class _Made(Device):
    """Rows that a map makes of others on a card, in each pass again."""

    def __init__(self, rows: Device, function: RowMap, there: RowMap) -> None:
        self.rows, self.function, self.there = rows, function, there
        self.base, self.is_tensor = rows.base, False
        self.device, self.name = rows.device, rows.name
        self.like = self.take(slice(0, 1))

    def take(self, index: Any) -> Any:
        return numpy_of(self.there(to_device(self.rows.take(index), self.device)))

    def subset(self, index: Any) -> Device:
        return _Made(self.rows.subset(index), self.function, self.there)

    @property
    def in_order(self) -> bool:
        return self.rows.in_order

    def _on_host(self) -> Local:
        return self.rows._on_host().then(self.function)

    def _blocks(self, width: int, *beside: Any) -> Iterator[tuple[slice, list[Any]]]:
        for some, (rows, *columns) in self.rows._blocks(width + self.function.width, *beside):
            yield some, [self.there(rows), *columns]
        self.there.finish()


def _sent(parts: list[Any], device: Any, lane: Any) -> list[Any]:
    """Return rows in tensors on the device, copied in a stream of their own where there is one."""
    import torch

    if lane is None:
        return [None if part is None else to_device(part, device) for part in parts]
    now = torch.cuda.current_stream(device)

    def send(tensor: Any) -> Any:
        there = tensor.to(device, non_blocking=True)
        there.record_stream(now)  # this stream uses the memory too
        return there

    with torch.cuda.stream(lane):
        sent = [None if part is None else moved(part, send) for part in parts]
    now.wait_stream(lane)
    return sent


def _free_bytes(device: Any) -> int:
    """Return the memory that tensors of this process may still take on a device."""
    import torch

    if device.type != "cuda":
        return 2**40  # the host, in the place of a card
    device = torch.cuda.current_device() if device.index is None else device
    free, total = torch.cuda.mem_get_info(device)
    taken = torch.cuda.memory_allocated(device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(device)
    return int(min(free + torch.cuda.memory_reserved(device), share * total) - taken)


def _has_fast_double(device: Any) -> bool:
    import torch

    if device.type == "cpu":
        return True
    return torch.cuda.get_device_capability(device) in _FAST_DOUBLE
