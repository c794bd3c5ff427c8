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

from .._numerics.arrays import moved, n_rows, row_slices, take, to_device
from .._numerics.namespace import is_on_card, is_tensor, torch_dtype
from .limits import limits
from .local import Local, Memory
from .source import Progress, Reduction, RowMap, Source

__all__ = ["Device", "Place", "is_on_card", "on_device", "resolved", "the_card", "to_host"]

# Most rows of a block.
_BLOCK_ROWS = 2**17
# Blocks on their way to the card.
_AHEAD = 2
# Cards of these generations multiply float64 at half the rate of float32 or more.
_FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def to_host(X: Any) -> Any:
    """Return a tensor of any device as an array; other things as they are."""
    return X.detach().cpu().numpy() if is_tensor(X) else X


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
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={name!r} needs PyTorch: pip install skout[deep]") from error
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
    """A device, and the precision of kernel values there.

    Parameters
    ----------
    device : torch.device
    dtype : numpy dtype
        Of the rows: what comes back is of this precision.
    """

    def __init__(self, device: Any, dtype: np.dtype) -> None:
        self.device = device
        self.dtype = np.dtype(np.float64) if _has_fast_double(device) else dtype

    def moved(self, array: Any, dtype: Any = None) -> Any:
        """Return an array as a tensor there."""
        return to_device(np.ascontiguousarray(array), self.device, dtype or self.dtype)


class Device(Source):
    """Rows whose passes run on a card; `take` returns rows on the host, where landmarks are kept.

    Parameters
    ----------
    base : Local, or a tensor of shape (n, d)
    device : torch.device, optional
        Default that of the tensor.
    """

    def __init__(self, base: Any, device: Any = None, name: str = "X") -> None:
        self.base = base
        self.is_tensor = is_tensor(base)
        self.device = base.device if device is None else device
        self.name = name if self.is_tensor else base.name
        self.like = to_host(base[:1]) if self.is_tensor else base.like

    def __len__(self) -> int:
        return n_rows(self.base)

    @property
    def place(self) -> Place:
        return Place(self.device, self.precision)

    def take(self, index: Any) -> Any:
        if not self.is_tensor:
            return self.base.take(index)
        return to_host(self.base[index if isinstance(index, slice) else self._positions(index)])

    def in_memory(self) -> Source:
        return Device(Memory(self.here(), self.name), self.device)

    def all_for(self, part: Any) -> Any:
        takes_it = self.is_tensor and getattr(part, "takes_tensors", False)
        return self.base if takes_it else self.here()

    def _positions(self, index: Any) -> Any:
        import torch

        return torch.as_tensor(np.asarray(index)).to(self.device)

    def then(self, function: Callable[[Any], Any], like: Any = None) -> Source:
        if self.is_tensor:
            return Memory(self.here(), self.name).then(function)
        return Device(self.base.then(function), self.device)

    def subset(self, index: np.ndarray) -> Device:
        if self.is_tensor:
            return Device(self.base[self._positions(index)], name=self.name)
        return Device(self.base.subset(index), self.device)

    def collect(
        self, function: RowMap, tail: tuple[int, ...], dtype: Any, n_jobs: int | None = None
    ) -> np.ndarray:
        return to_host(self.map(function, tail, dtype))

    def kept(self, function: RowMap, tail: tuple[int, ...], n_jobs: int | None = None) -> Source:
        return Memory(to_host(self.map(function, tail, self.precision)), self.name)

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
        results = self._room((len(self), *tail), np.dtype(dtype)) if out is None else out
        for some, (rows,) in self._blocks(function.width):
            found = there(rows)
            is_array = isinstance(results, np.ndarray)
            results[some] = to_host(found) if is_array else to_device(found, results.device)
        return results if out is not None or self.is_tensor else to_host(results)

    def _room(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return a tensor for results: where the rows lie, or in the memory of the host."""
        import torch

        where = self.device if self.is_tensor else "cpu"
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
            part = there(*block)
            total = there.combine(total, part)
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
        if self.is_tensor and all(column is None for column in beside):
            yield from ((some, [self.base[some], *beside]) for some in slices)
            return
        yield from self._streamed(slices, beside)

    def _read(self, some: slice, beside: tuple[Any, ...]) -> list[Any]:
        """Return a block and its columns in (pinned) tensors; None for columns that are None."""
        columns = (None if self.is_tensor else self.base, *beside)
        blocks = [None if column is None else take(column, some) for column in columns]
        parts = [None if block is None else to_device(block, "cpu") for block in blocks]
        if self.device.type != "cuda":
            return parts
        return [None if p is None else moved(p, lambda tensor: tensor.pin_memory()) for p in parts]

    def _streamed(self, slices: list[slice], beside: tuple) -> Iterator[tuple[slice, list[Any]]]:
        import torch

        cuda = self.device.type == "cuda"
        lane = torch.cuda.Stream(self.device) if cuda else None  # copies run beside the products
        done: list[Any] = []
        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(self._read, some, beside) for some in slices[:_AHEAD]]
            for i, some in enumerate(slices):
                parts = waiting.pop(0).result()
                if i + _AHEAD < len(slices):
                    waiting.append(reader.submit(self._read, slices[i + _AHEAD], beside))
                there = _sent(parts, self.device, lane)
                yield some, [self.base[some], *there[1:]] if self.is_tensor else there
                if lane is not None:  # the host must not run ahead of the device for long
                    done.append(torch.cuda.current_stream(self.device).record_event())
                    if len(done) > _AHEAD:
                        done.pop(0).synchronize()


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


def _has_fast_double(device: Any) -> bool:
    import torch

    if device.type == "cpu":
        return True
    return torch.cuda.get_device_capability(device) in _FAST_DOUBLE
