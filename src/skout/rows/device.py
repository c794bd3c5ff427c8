"""Passes over rows on a GPU: tensors on that device, or rows that are streamed to it.

Kernel values, moments and predictions are float64 on GPUs that multiply float64 about as fast as
float32 (data-center GPUs do), where it costs nothing. On others they have the precision of the
rows; sums over blocks are float64 everywhere. TF32 is never used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numerics.arrays import is_tensor, n_rows, numpy_of, positions, row_slices, take, torch_dtype
from .._numerics.extras import extra
from .._numerics.objects import moved, to_device
from .._numerics.typing import (
    Array,
    DeviceLike,
    DType,
    Index,
    Objects,
    Rows,
    Shape,
    Tensor,
    TorchDevice,
)
from .local import Local, Memory, in_file
from .source import Beside, Place, Progress, Reduction, RowMap, Source, Term, limits

if TYPE_CHECKING:
    import torch

# Most rows of a block: beyond, matrix products get no faster. Half and double were not measured.
_BLOCK_ROWS = 2**17
# Blocks that are read and copied to the device while it computes on another: one on its way, and
# one that waits.
_AHEAD = 2
# Coordinates of all rows may take this share of the free memory of a device, beside three blocks of
# the largest size: a pass holds the features of a block, their copy and a product. A fifth is left
# free, by convention.
_HELD_SHARE, _HELD_BLOCKS = 0.8, 3


def on_device(rows: Source, device: str | None) -> Source:
    """Return rows whose passes run on a device; None leaves them as they are, "cpu" is the host."""
    device = named_device(device or "cpu")
    if device == "cpu" or isinstance(rows, Device):
        return rows
    if not isinstance(rows, Local):
        raise ValueError(
            f"device={device!r} is for rows that this process reads. {rows.name} lies on a "
            "cluster: leave out device=."
        )
    return Device(rows, torch_device(device))


def named_device(device: str) -> str:
    """Return the name of a device; "auto" is a GPU if there is one, else the host."""
    if device != "auto":
        return device
    try:
        import torch
    except ImportError:
        return "cpu"
    # torchrun numbers the processes of a machine, one per GPU
    return f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"


def torch_device(name: str) -> TorchDevice:
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
        raise ValueError(f"device={name!r}: PyTorch finds no such GPU. Leave out device=.")
    return device


class Device(Source):
    """Rows whose passes run on a GPU; `take` returns rows on the host, where landmarks are kept.

    `base` is a tensor of shape (n, d), or a Local source for another device.
    """

    device: TorchDevice

    def __init__(self, base: Objects, device: TorchDevice | None = None, name: str = "X") -> None:
        held: Any = base
        self.base = held
        self.is_tensor: bool = is_tensor(base)
        self.device = held.device if device is None else device
        self.name: str = name if self.is_tensor else held.name
        self.like: Array | Rows = numpy_of(held[:1]) if self.is_tensor else held.like

    def __len__(self) -> int:
        return n_rows(self.base)

    @property
    def place(self) -> Place:
        return Place(self.device, self.precision)

    def take(self, index: Index) -> Any:
        if self.is_tensor and not isinstance(index, slice):
            index = positions(index, self.base)
        return numpy_of(self.base[index]) if self.is_tensor else self.base.take(index)

    def in_memory(self) -> Source:
        return Device(Memory(self.load(), self.name), self.device)

    def load_for(self, part: object) -> Any:
        is_taken = self.is_tensor and getattr(part, "takes_tensors", False)
        return self.base if is_taken else self.load()

    def then(self, function: Callable[[Rows], Rows], like: Rows | None = None) -> Source:
        if isinstance(function, RowMap) and (on_device := function.on(self.place)) is not None:
            return _MappedDevice(self, function, on_device)
        mapped = self._on_host().then(function)
        return mapped if self.is_tensor else Device(mapped, self.device)

    def subset(self, index: Index) -> Device:
        if self.is_tensor:
            return Device(self.base[positions(index, self.base)], name=self.name)
        return Device(self.base.subset(positions(index, self.like)), self.device)

    def collect(
        self, function: RowMap, tail: Shape, dtype: DType, n_jobs: int | None = None
    ) -> np.ndarray:
        return numpy_of(self.map(function, tail, dtype))

    def map_on_device(
        self, function: RowMap, tail: Shape, dtype: DType, n_jobs: int | None = None
    ) -> Array:
        if function.on(self.place) is None:
            return self.device_array(self.collect(function, tail, dtype, n_jobs=n_jobs))
        shape = (len(self), *tail)
        return self.map(function, tail, dtype, out=_empty(shape, dtype, self.device))

    def device_array(self, array: np.ndarray) -> Array:
        return to_device(array, self.device)

    def check_device_memory(self, needed: int, what: str) -> None:
        free = _free_bytes(self.device)
        if needed > free:
            raise MemoryError(
                f"{what} would take {needed / 2**30:,.2f} GiB on {self.device}, where "
                f"{max(free, 0) / 2**30:,.2f} GiB are free. Compute on the host, or with fewer "
                "rows or outputs."
            )

    def kept(self, function: RowMap, tail: Shape, n_jobs: int | None = None) -> Source | None:
        shape, dtype = (len(self), *tail), self.place.dtype
        if self._fits(float(np.prod(shape, dtype=float)) * dtype.itemsize):
            return Device(self.map_on_device(function, tail, dtype), self.device, self.name)
        if not self.in_order:
            return None
        held = self.map(function, tail, dtype, out=in_file(shape, dtype))
        return Device(Memory(held, self.name), self.device)

    def _fits(self, size: float) -> bool:
        """Return whether coordinates of so many bytes may be held on the device."""
        most = limits().requested_bytes
        blocks = _HELD_BLOCKS * min(limits().device_bytes, size)
        fits = size + blocks <= _HELD_SHARE * _free_bytes(self.device)
        return fits and (most is None or size <= most)

    @property
    def in_order(self) -> bool:
        """Whether rows can only be read in their order."""
        return not self.is_tensor and bool(self.base.in_order)

    def map(
        self,
        function: RowMap,
        tail: Shape,
        dtype: DType,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Array:
        on_device = function.on(self.place)
        if on_device is None:
            return self._on_host().map(function, tail, dtype, out=out, n_jobs=n_jobs)
        if np.dtype(dtype).kind != "f":  # labels, of which there are no tensors
            out = np.empty((len(self), *tail), dtype=dtype) if out is None else out
        where = self.device if self.is_tensor else "cpu"
        results = _empty((len(self), *tail), dtype, where) if out is None else out
        is_array = isinstance(results, np.ndarray)
        for part, (rows,) in self._blocks(function.width):
            values = on_device(rows)
            results[part] = numpy_of(values) if is_array else to_device(values, results.device)
        on_device.finish()
        return results if out is not None or self.is_tensor else numpy_of(results)

    def reduce(
        self,
        reduction: Reduction[Term],
        *beside: Beside,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Term:
        on_device = reduction.on(self.place)
        if on_device is None:
            return self._on_host().reduce(reduction, *beside, progress=progress, n_jobs=n_jobs)
        total: Any = None
        for _, block in self._blocks(reduction.width, *beside):
            total = on_device.combine(total, on_device(*block))
        return on_device.finish(total)

    def _on_host(self) -> Local:
        return Memory(self.load(), self.name) if self.is_tensor else self.base

    def _blocks(self, width: int, *beside: Beside) -> Iterator[tuple[slice, list[Any]]]:
        """Yield slices, and these rows of X and of `beside` in tensors on the device.

        Another thread reads blocks and copies them to pinned memory; they are sent while the device
        computes on the block before.
        """
        size = max(1, min(_BLOCK_ROWS, limits().device_bytes // (8 * max(1, width))))
        slices = list(row_slices(len(self), size))
        columns = (self.base, *beside)
        on_device = [column if self._has(column) else None for column in columns]
        on_host = [None if self._has(column) else column for column in columns]
        if all(column is None for column in on_host):
            for part in slices:
                yield part, [None if column is None else column[part] for column in on_device]
            return
        for part, sent in self._streamed(slices, on_host):
            both = zip(on_device, sent, strict=True)
            yield part, [copied if column is None else column[part] for column, copied in both]

    def _has(self, column: Beside) -> bool:
        """Return whether a column is a tensor on this kind of device."""
        return is_tensor(column) and bool(column.device.type == self.device.type)

    def _read(self, part: slice, columns: Sequence[Beside]) -> list[Any]:
        """Return blocks of columns in (pinned) tensors; None for columns that are None."""
        blocks = [None if column is None else take(column, part) for column in columns]
        tensors = [None if block is None else to_device(block, "cpu") for block in blocks]
        if self.device.type != "cuda":
            return tensors
        # copies from pinned memory to a GPU run beside its work
        return [None if t is None else moved(t, lambda part: part.pin_memory()) for t in tensors]

    def _streamed(
        self, slices: list[slice], columns: Sequence[Beside]
    ) -> Iterator[tuple[slice, list[Any]]]:
        import torch

        cuda = self.device.type == "cuda"
        # copies run beside the products
        lane = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]
        done: list[Any] = []
        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(self._read, part, columns) for part in slices[:_AHEAD]]
            for i, part in enumerate(slices):
                parts = waiting.pop(0).result()
                if i + _AHEAD < len(slices):
                    waiting.append(reader.submit(self._read, slices[i + _AHEAD], columns))
                yield part, _sent(parts, self.device, lane)
                if lane is not None:  # the host must not run ahead of the device for long
                    done.append(torch.cuda.current_stream(self.device).record_event())
                    if len(done) > _AHEAD:
                        done.pop(0).synchronize()


class _MappedDevice(Device):
    """function(rows) of other rows on a device, computed again in each pass."""

    def __init__(self, rows: Device, function: RowMap, on_device: RowMap) -> None:
        self.rows, self.function, self.mapped = rows, function, on_device
        self.base, self.is_tensor = rows.base, False
        self.device, self.name = rows.device, rows.name
        self.like = self.take(slice(0, 1))

    def take(self, index: Index) -> Any:
        return numpy_of(self.mapped(to_device(self.rows.take(index), self.device)))

    def subset(self, index: Index) -> Device:
        return _MappedDevice(self.rows.subset(index), self.function, self.mapped)

    @property
    def in_order(self) -> bool:
        return self.rows.in_order

    def _on_host(self) -> Local:
        return self.rows._on_host().then(self.function)

    def _blocks(self, width: int, *beside: Beside) -> Iterator[tuple[slice, list[Any]]]:
        for part, (rows, *columns) in self.rows._blocks(width + self.function.width, *beside):
            yield part, [self.mapped(rows), *columns]
        self.mapped.finish()


def _empty(shape: Shape, dtype: DType, device: DeviceLike) -> Any:
    """Return a tensor for results, on a device or in the memory of the host."""
    import torch

    return torch.empty(shape, dtype=torch_dtype(dtype), device=device)


def _sent(
    parts: list[Rows | None], device: TorchDevice, lane: torch.cuda.Stream | None
) -> list[Rows | None]:
    """Return tensors on the device, copied in a CUDA stream of their own if there is one."""
    import torch

    if lane is None:
        return [None if part is None else to_device(part, device) for part in parts]
    now = torch.cuda.current_stream(device)

    def send(tensor: Tensor) -> Tensor:
        copied = tensor.to(device, non_blocking=True)
        copied.record_stream(now)  # this stream uses the memory too
        return copied

    with torch.cuda.stream(lane):
        sent = [None if part is None else moved(part, send) for part in parts]
    now.wait_stream(lane)
    return sent


def _free_bytes(device: TorchDevice) -> int:
    """Return the bytes that tensors of this process may still take on a device."""
    import torch

    if device.type != "cuda":
        return 2**40  # the host in place of a GPU, in tests
    number = torch.cuda.current_device() if device.index is None else device
    free, total = torch.cuda.mem_get_info(number)
    taken = torch.cuda.memory_allocated(number)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(number)
    return int(min(free + torch.cuda.memory_reserved(number), share * total) - taken)
