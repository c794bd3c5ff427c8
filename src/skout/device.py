"""Passes over rows on a device: rows that lie there, or that are streamed to it from the host.

`OnDevice` is a kind of rows, as those on disk and on a cluster are: indexing it gives rows on the
host, as landmarks are wanted there; passes over all rows run on the device. Precision: kernel
values, moments and predictions are float64 where the device multiplies float64 about as fast as
float32 (data-centre cards do), which then costs nothing. On other cards they are of the precision
of the plan, and sums over blocks are float64 everywhere. TF32 is never used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import _check_n_features

from ._arrays import Rows, float_dtype, moved, n_rows, row_slices, take, to_device
from ._namespace import is_on_card, is_tensor, torch_dtype

__all__ = [
    "DEVICE_BYTES",
    "OnDevice",
    "device_project",
    "device_rows",
    "device_top_k",
    "is_on_device",
    "on_device",
    "resolved",
    "to_host",
]

#: Bytes of the features of a block on the device; `block_budget` sets it.
DEVICE_BYTES: ContextVar[int] = ContextVar("device", default=2**31)
# Most rows of a block.
_BLOCK_ROWS = 2**17
# Blocks on their way to the device.
_AHEAD = 2
# Queries and candidates of a block of scores.
_QUERIES, _CANDIDATES = 4096, 2**16
# Cards of these generations multiply float64 at half the rate of float32 or more.
_FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def is_on_device(X: Any) -> bool:
    """Return whether X is a tensor on a card."""
    return is_on_card(X)


def to_host(X: Any) -> Any:
    """Return a tensor of any device as an array; other things as they are."""
    return X.detach().cpu().numpy() if is_on_device(X) else X


def on_device(rows: Any, device: str | None) -> Any:
    """Return rows whose passes run on the device; None and "cpu" leave them on the host."""
    if device is None or device == "cpu" or isinstance(rows, OnDevice):
        return rows
    return OnDevice(rows, resolved(device))


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


def device_rows(estimator: Any, kernel: Any, X: Any, *, reset: bool) -> OnDevice:
    """Check a tensor on a card, as `check_rows` checks an array."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D tensor, n rows by d columns. Got shape {tuple(X.shape)}.")
    if not X.dtype.is_floating_point or X.dtype.itemsize < 4:
        raise ValueError(f"X must be float32 or float64 on a card. Got {X.dtype}.")
    if not kernel.takes_vectors:
        raise TypeError(f"{kernel!r} takes objects, not tensors on a card.")
    _check_n_features(estimator, X, reset=reset)
    if not bool(X.isfinite().all()):
        raise ValueError("Input X contains NaN or infinity.")
    return OnDevice(X)


class OnDevice(Rows):
    """Rows whose passes run on a device.

    Parameters
    ----------
    source : rows on the host, or a tensor of shape (n, d)
    device : torch.device, optional
        Default that of the tensor.
    """

    ndim = 2

    def __init__(self, source: Any, device: Any = None) -> None:
        self.source = source
        self.device = source.device if device is None else device
        self.is_tensor = is_tensor(source)
        self.dtype = float_dtype(source)

    def __len__(self) -> int:
        return n_rows(self.source)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.source.shape)

    def __getitem__(self, index: Any) -> Any:
        """Return some rows on the host."""
        if not self.is_tensor:
            return take(self.source, index)
        return to_host(self.source[index]) if isinstance(index, slice) else self._rows(index)

    def _rows(self, index: Any) -> np.ndarray:
        import torch

        chosen = torch.as_tensor(np.asarray(index)).to(self.device)
        return self.source[chosen].cpu().numpy()

    def keys(self) -> list[Any]:
        raise TypeError("Rows on a device have no keys: give a sketch, which needs none.")

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        raise TypeError("Rows on a device cannot be put together.")

    def variance(self) -> float:
        """Return the variance of all numbers of a tensor."""
        return float(self.source.double().var(correction=0)) if self.source.numel() else 0.0

    @property
    def kind(self) -> np.dtype | None:
        """The precision of kernel values and moments, unless a plan says less."""
        return np.dtype(np.float64) if _has_fast_double(self.device) else None

    def blocks(self, width: int, *others: Any) -> Iterator[tuple[slice, list[Any]]]:
        """Yield slices, with the rows there and those of `others` (arrays) on the device.

        Blocks are read, and copied to pinned memory, in a thread of their own; they travel while
        the device computes on those before.
        """
        n = len(self)
        size = max(1, min(_BLOCK_ROWS, DEVICE_BYTES.get() // (8 * max(1, width))))
        slices = list(row_slices(n, size))
        if self.is_tensor and not others:
            yield from ((some, [self.source[some]]) for some in slices)
            return
        yield from self._streamed(slices, others)

    def _streamed(self, slices: list[slice], others: tuple) -> Iterator[tuple[slice, list[Any]]]:
        import torch

        cuda = self.device.type == "cuda"
        lane = torch.cuda.Stream(self.device) if cuda else None  # copies, beside the products
        done: list[Any] = []

        def read(some: slice) -> list[Any]:
            parts = [] if self.is_tensor else [take(self.source, some)]
            parts += [np.asarray(other[some], dtype=np.float64) for other in others]
            parts = [to_device(part, "cpu") for part in parts]
            return [moved(part, torch.Tensor.pin_memory) for part in parts] if cuda else parts

        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(read, some) for some in slices[:_AHEAD]]
            for i, some in enumerate(slices):
                parts = waiting.pop(0).result()
                if i + _AHEAD < len(slices):
                    waiting.append(reader.submit(read, slices[i + _AHEAD]))
                there = _sent(parts, self.device, lane)
                yield some, [self.source[some], *there] if self.is_tensor else there
                if lane is not None:  # the host must not run ahead of the device for long
                    done.append(torch.cuda.current_stream(self.device).record_event())
                    if len(done) > _AHEAD:
                        done.pop(0).synchronize()


def _sent(parts: list[Any], device: Any, lane: Any) -> list[Any]:
    """Return rows in tensors on the device, copied in a stream of their own where there is one."""
    import torch

    if lane is None:
        return [to_device(part, device) for part in parts]
    now = torch.cuda.current_stream(device)

    def send(array: Any) -> Any:
        there = array.to(device, non_blocking=True)
        there.record_stream(now)  # which uses it, while the lane goes on
        return there

    with torch.cuda.stream(lane):
        sent = [moved(part, send) for part in parts]
    now.wait_stream(lane)
    return sent


def _has_fast_double(device: Any) -> bool:
    import torch

    if device.type == "cpu":
        return True
    return torch.cuda.get_device_capability(device) in _FAST_DOUBLE


def device_project(
    features: Any, rows: OnDevice, matrix: np.ndarray | None, offset: Any = 0.0
) -> Any:
    """Return features(rows) @ matrix + offset: a tensor if the rows are one, else an array."""
    import torch

    phi = features.on(rows.device, rows.kind or rows.dtype)
    kind = torch_dtype(rows.kind or rows.dtype)
    right = None if matrix is None else torch.as_tensor(matrix).to(rows.device, kind)
    added = torch.as_tensor(offset).to(rows.device, kind)
    n, p = len(rows), features.m if matrix is None else matrix.shape[1]
    home = rows.device if rows.is_tensor else "cpu"
    out = torch.empty((n, p), dtype=torch_dtype(rows.dtype), device=home)
    for some, (part,) in rows.blocks(max(phi.width, phi.m)):
        F = phi(part)
        out[some] = (F if right is None else F @ right) + added
    return out if rows.is_tensor else out.numpy()


def device_top_k(
    queries: np.ndarray, embedding: np.ndarray, k: int, device: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest inner products of each query, ties to the lower index, on a device.

    Scores are float64, as on the host; the embedding streams through the device.
    """
    import torch

    device = resolved(device) if isinstance(device, str) else device
    found_index, found_score = [], []
    for some in row_slices(len(queries), _QUERIES):
        Q = torch.as_tensor(queries[some], dtype=torch.float64).to(device)
        best_score = torch.empty((len(Q), 0), dtype=torch.float64, device=device)
        best_index = torch.empty((len(Q), 0), dtype=torch.int64, device=device)
        for part in row_slices(len(embedding), _CANDIDATES):
            E = torch.as_tensor(np.ascontiguousarray(embedding[part])).to(device, torch.float64)
            score, index = _largest(Q @ E.T, min(k, len(E)))
            score = torch.cat([best_score, score], dim=1)
            index = torch.cat([best_index, index + part.start], dim=1)
            order = score.argsort(dim=1, descending=True, stable=True)[:, :k]
            best_score, best_index = score.gather(1, order), index.gather(1, order)
        found_index.append(best_index.cpu().numpy().astype(np.intp))
        found_score.append(best_score.cpu().numpy())
    if not found_index:
        return np.empty((0, k), dtype=np.intp), np.empty((0, k))
    return np.concatenate(found_index), np.concatenate(found_score)


def _largest(S: Any, k: int) -> tuple[Any, Any]:
    """Return the k largest of each row, largest first; of equal ones the first."""
    score, index = S.topk(k, dim=1)
    # where more entries equal the k-th than there is room for, take the first of them
    many = (score[:, -1:] <= S).sum(dim=1) > k
    if bool(many.any()):
        rows = many.nonzero()[:, 0]
        order = S[rows].argsort(dim=1, descending=True, stable=True)[:, :k]
        index[rows], score[rows] = order, S[rows].gather(1, order)
    by_index = index.argsort(dim=1)
    index, score = index.gather(1, by_index), score.gather(1, by_index)
    order = score.argsort(dim=1, descending=True, stable=True)
    return score.gather(1, order), index.gather(1, order)
