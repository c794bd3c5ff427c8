"""Passes over rows on a device: rows that lie there, or that are streamed to it from the host.

`OnDevice` is a kind of rows, as those on disk and on a cluster are: indexing it gives rows on the
host, as landmarks are wanted there; passes over all rows run on the device. Precision: kernel
values, moments and predictions are float64 where the device multiplies float64 about as fast as
float32 (data-centre cards do), which then costs nothing. On other cards they are of the precision
of the plan, and sums over blocks are float64 everywhere. TF32 is never used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_n_features

from ._arrays import Rows, n_rows, row_slices, take
from .kernels.device import device_block, host_array

__all__ = [
    "DEVICE_BYTES",
    "DeviceFeatures",
    "OnDevice",
    "device_of",
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


def _is_tensor(X: Any) -> bool:
    """Return whether X is of torch; that it has a `device` tells nothing, arrays have one too."""
    return type(X).__module__.partition(".")[0] == "torch"


def is_on_device(X: Any) -> bool:
    """Return whether X is a tensor on a card."""
    return _is_tensor(X) and X.device.type != "cpu"


def device_of(rows: Any) -> Any:
    """Return the torch device that passes over encoded rows run on, None for the host."""
    return rows.device if isinstance(rows, OnDevice) else None


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
        self.is_tensor = _is_tensor(source)
        self.dtype = _numpy_dtype(source)

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
    def kind(self) -> Any:
        """The torch dtype of kernel values and moments, unless a plan says less."""
        import torch

        return torch.float64 if _has_fast_double(self.device) else None

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
            arrays = [] if self.is_tensor else [host_array(take(self.source, some))]
            arrays += [np.ascontiguousarray(other[some], dtype=np.float64) for other in others]
            tensors = [torch.from_numpy(_writable(array)) for array in arrays]
            return [tensor.pin_memory() if cuda else tensor for tensor in tensors]

        with ThreadPoolExecutor(1) as reader:
            waiting = [reader.submit(read, some) for some in slices[:_AHEAD]]
            for i, some in enumerate(slices):
                parts = waiting.pop(0).result()
                if i + _AHEAD < len(slices):
                    waiting.append(reader.submit(read, slices[i + _AHEAD]))
                moved = _moved(parts, self.device, lane)
                yield some, [self.source[some], *moved] if self.is_tensor else moved
                if lane is not None:  # the host must not run ahead of the device for long
                    done.append(torch.cuda.current_stream(self.device).record_event())
                    if len(done) > _AHEAD:
                        done.pop(0).synchronize()


def _moved(parts: list[Any], device: Any, lane: Any) -> list[Any]:
    """Return tensors on the device, copied in a stream of their own where there is one."""
    import torch

    if lane is None:
        return [part.to(device) for part in parts]
    with torch.cuda.stream(lane):
        moved = [part.to(device, non_blocking=True) for part in parts]
    now = torch.cuda.current_stream(device)
    now.wait_stream(lane)
    for tensor in moved:
        tensor.record_stream(now)
    return moved


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def _numpy_dtype(source: Any) -> np.dtype:
    """Return float32 or float64, the precision of what comes back."""
    return np.dtype(np.float32 if str(source.dtype).endswith("float32") else np.float64)


def _has_fast_double(device: Any) -> bool:
    import torch

    if device.type == "cpu":
        return True
    return torch.cuda.get_device_capability(device) in _FAST_DOUBLE


class DeviceFeatures:
    """phi(x) = W k(landmarks, x) on a device, a block of rows at a time.

    Parameters
    ----------
    kernel : Kernel
    landmarks : rows on the host
    weights : None, ndarray or CSR matrix of shape (m, m')
    device : torch.device
    dtype : torch.dtype
    """

    def __init__(self, kernel: Any, landmarks: Any, weights: Any, device: Any, dtype: Any) -> None:
        import torch

        self.block = device_block(kernel, landmarks, device, dtype)
        self.width = n_rows(landmarks)  # columns of kernel values
        if weights is None:
            self.weights = None
        elif sparse.issparse(weights):
            self.weights = _sparse_tensor(weights.tocsr()).to(device, dtype)
        else:
            self.weights = torch.as_tensor(weights).to(device, dtype)

    def __call__(self, rows: Any) -> Any:
        """Return the features of a block of rows, shape (b, m)."""
        K = self.block(rows)
        return K if self.weights is None else (self.weights @ K.T.contiguous()).T


def _sparse_tensor(W: Any) -> Any:
    import torch

    ends, columns = (torch.as_tensor(a.astype(np.int64)) for a in (W.indptr, W.indices))
    values = torch.as_tensor(W.data)
    with warnings.catch_warnings():  # PyTorch calls this form new, each time
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(ends, columns, values, W.shape, check_invariants=True)


def device_project(
    features: Any, rows: OnDevice, matrix: np.ndarray | None, offset: Any = 0.0
) -> Any:
    """Return features(rows) @ matrix + offset: a tensor if the rows are one, else an array."""
    import torch

    kind = rows.kind or (torch.float32 if rows.dtype == np.float32 else torch.float64)
    own = torch.float32 if rows.dtype == np.float32 else torch.float64
    phi = DeviceFeatures(features.kernel, features.landmarks, features.weights, rows.device, kind)
    right = None if matrix is None else torch.as_tensor(matrix).to(rows.device, kind)
    added = torch.as_tensor(offset).to(rows.device, kind)
    n, p = len(rows), features.m if matrix is None else matrix.shape[1]
    out = torch.empty((n, p), dtype=own, device=rows.device if rows.is_tensor else "cpu")
    for some, (part,) in rows.blocks(phi.width):
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
