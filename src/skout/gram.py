"""The place where kernel blocks are formed, streamed and reduced.

Row blocks run in threads, with BLAS held to one thread each, and their results are reduced in the
order of the rows: the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy import sparse

from ._arrays import astype, float_dtype, n_rows, row_slices, take, to_device
from ._inputs import check_memory
from ._lazy import is_streamed
from ._namespace import cast, empty, is_tensor, namespace, tensor
from ._threads import map_blocks
from ._validation import check_number
from .device import DEVICE_BYTES, OnDevice, device_project, to_host
from .kernels.base import KERNELS, Kernel

__all__ = [
    "KernelMatrix",
    "LandmarkFeatures",
    "block_budget",
    "project",
    "stored_bytes",
]

# Rows of a block, and bytes of its features: long blocks keep the matrix products near the peak.
_BLOCK: ContextVar[tuple[int, int]] = ContextVar("block", default=(8192, 2**26))
# Bytes of coordinates that a solver may hold.
_STORED: ContextVar[int] = ContextVar("stored", default=2**31)
# Kernel values are computed a few rows at a time, so that they are still in cache when used.
_CACHE_BYTES = 2**21
_SPARSE_FACTOR = 4
# Bytes of K W' that are kept for use with the rows that it is of.
_KEPT_BYTES = 2**28
# Rows of a block of W K W': few, since a row costs many kernel values.
_MIXED_ROWS = 256
# Rows and columns of a tile of K.
_TILE = 768
# Blocks of a large projection, at least, for threads to share; and numbers that make it large.
_BLOCKS, _LARGE = 4, 2**21
_ADVICE = "Use a sketch, for instance SubSample(1000): its time and memory grow like the rows."
# Landmarks of a sketch that mixes many are visited in chunks of this many.
_LANDMARK_CHUNK = 4096


@contextmanager
def block_budget(
    rows: int = 8192, megabytes: float = 64.0, stored: float = 2048.0, device: float = 2048.0
) -> Iterator[None]:
    """Set the size of the row blocks that each thread works on, within a `with` block.

    Parameters
    ----------
    rows : int, default 8192
        Most rows of a block.
    megabytes : float, default 64
        Most memory for the features of a block.
    stored : float, default 2048
        Most memory, in megabytes, for the coordinates of all rows, which solvers that pass over
        them many times hold; more than that is computed again in each pass.
    device : float, default 2048
        Most memory, in megabytes, for the features of a block on a card; a pass takes about three
        times that.

    Examples
    --------
    >>> import numpy as np
    >>> import skout
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> with skout.block_budget(rows=10):
    ...     Z = skout.KernelBasis("gaussian").fit_transform(X)
    """
    check_number(rows, "rows", low=1, integer=True)
    check_number(megabytes, "megabytes", strict=True)
    check_number(stored, "stored")
    check_number(device, "device", strict=True)
    token = _BLOCK.set((int(rows), int(megabytes * 2**20)))
    stored_token = _STORED.set(int(stored * 2**20))
    device_token = DEVICE_BYTES.set(int(device * 2**20))
    try:
        yield
    finally:
        _BLOCK.reset(token)
        _STORED.reset(stored_token)
        DEVICE_BYTES.reset(device_token)


def stored_bytes() -> int:
    """Return how many bytes of coordinates may be held."""
    return _STORED.get()


def block_rows(n: int, row_bytes: int, limit: int | None = None) -> int:
    """Return the number of rows of the blocks that n rows, of `row_bytes` each, are cut into.

    The number of blocks is a multiple of a power of two, so that threads finish together whatever
    their number, which the blocks must not depend on.
    """
    rows, budget = _BLOCK.get()
    most = max(1, min(rows, budget // max(1, row_bytes), limit or rows))
    n_blocks = max(1, math.ceil(n / most))
    unit = 2 ** (n_blocks.bit_length() // 2)
    return max(1, math.ceil(n / (math.ceil(n_blocks / unit) * unit)))


class LandmarkFeatures:
    """phi(x) = W k(landmarks, x), a block of rows at a time; n x m' is never held.

    Parameters
    ----------
    kernel : Kernel
        With numeric parameters.
    landmarks : rows
        Those in tensors on a device make features of rows there, see `on`.
    weights : None, ndarray or CSR matrix of shape (m, m')
    """

    def __init__(self, kernel: Kernel, landmarks: Any, weights: Any = None) -> None:
        self.kernel, self.landmarks, self.weights = kernel, landmarks, weights
        m_prime = n_rows(landmarks)
        self.m = m_prime if weights is None else weights.shape[0]
        size = m_prime if weights is None else _LANDMARK_CHUNK
        chunks = list(row_slices(m_prime, size))
        self._blocks = [kernel.against(take(landmarks, chunk)) for chunk in chunks]
        self._weights = None
        if weights is not None:
            self._weights = [_beside(landmarks, weights[:, chunk]) for chunk in chunks]
        self.width = min(m_prime, size)  # columns of kernel values that are held

    def on(self, device: Any, dtype: Any) -> LandmarkFeatures:
        """Return the same features of rows on a device.

        Parameters
        ----------
        device : torch.device
        dtype : float32 or float64
            Of NumPy: the precision of landmarks, kernel values and products with W there.
        """
        landmarks = _on_device(self.kernel, self.landmarks, device, dtype)
        return LandmarkFeatures(self.kernel, landmarks, self.weights)

    def __call__(self, rows: Any, out: Any = None) -> Any:
        """Return the features of a block of rows, shape (b, m)."""
        if is_tensor(self.landmarks):
            rows = to_device(rows, _held(self.landmarks).device, float_dtype(self.landmarks))
        dtype = float_dtype(rows)
        out = empty((n_rows(rows), self.m), rows, dtype) if out is None else out
        for some in row_slices(n_rows(rows), self.cache_rows(rows, dtype)):
            self._fill(take(rows, some), out[some])
        return out

    def cache_rows(self, rows: Any, dtype: np.dtype) -> int:
        """Return how many rows to compute at a time: on a device all, it has other caches."""
        if is_tensor(rows):
            return max(1, n_rows(rows))
        size = _CACHE_BYTES // (self.width * dtype.itemsize)
        # products of sparse rows start more slowly
        return max(64, _SPARSE_FACTOR * size if sparse.issparse(rows) else size)

    def _fill(self, rows: Any, out: Any) -> None:
        if self._weights is None:
            K = self._blocks[0](rows, out)
            if K is not out:  # a kernel may do without the buffer
                out[...] = K
            return
        out[...] = 0.0
        for block, W in zip(self._blocks, self._weights, strict=True):
            # (b, chunk), by columns: the sparse product wants them so, and copies otherwise
            K = block(rows, empty((W.shape[1], len(out)), out, float_dtype(out)).T)
            out += (cast(W, K.dtype) @ K.T).T


def _on_device(kernel: Kernel, rows: Any, device: Any, dtype: Any) -> Any:
    """Return rows in tensors on a device, or say that the formula of the kernel does not run there.

    A kernel that does not announce it is tried on two rows, and must give what it gives here.

    Parameters
    ----------
    kernel : Kernel
        With numeric parameters.
    rows : encoded rows on the host
    device : torch.device
    dtype : float32 or float64
        The precision of kernel blocks.
    """
    if not kernel.runs_on_device:
        try:
            _try_on_device(kernel, astype(take(rows, slice(0, 2)), np.float64), device)
        except Exception as error:
            known = {k.__name__ for k in KERNELS.values() if k.runs_on_device is True}
            raise ValueError(
                f"{kernel!r} does not run on {device}. These kernels do: "
                f"{', '.join(sorted(known))}; so do sums, products and multiples of them. "
                "Leave out device= to compute on the CPU."
            ) from error
    return to_device(rows, device, dtype)


def _try_on_device(kernel: Kernel, rows: Any, device: Any) -> None:
    """Raise unless a block of tensors has the values of a block of arrays."""
    there = to_device(rows, device)
    found, expected = kernel.against(there)(there), kernel.against(rows)(rows)
    if not is_tensor(found) or found.device.type != device.type:
        raise TypeError(f"The block is {type(found).__name__}, not a tensor on {device}.")
    if not np.allclose(found.cpu().numpy(), expected, rtol=1e-6):
        raise ValueError(f"The block has other values than on the CPU: {found} and {expected}.")


def _held(rows: Any) -> Any:
    return getattr(rows, "held", rows)


def _beside(landmarks: Any, W: Any) -> Any:
    """Return a part of the weights where the landmarks are, in their precision."""
    if not is_tensor(landmarks):
        return W
    like = empty((0,), landmarks, float_dtype(landmarks))
    if sparse.issparse(W):
        return _sparse_tensor(W.tocsr(), like)
    return cast(tensor(W, like.device), like.dtype)


def _sparse_tensor(W: Any, like: Any) -> Any:
    """Return a CSR matrix as a sparse tensor, in the precision of `like` and where that is."""
    torch = namespace(like)
    ends, columns = (torch.as_tensor(a.astype(np.int64)) for a in (W.indptr, W.indices))
    values = torch.as_tensor(W.data)
    with warnings.catch_warnings():  # PyTorch calls this form new, each time
        warnings.simplefilter("ignore", UserWarning)
        made = torch.sparse_csr_tensor(ends, columns, values, W.shape, check_invariants=True)
        return made.to(like.device, like.dtype)


class KernelMatrix:
    """The kernel matrix of a data set, of which sketches see only the parts they ask for."""

    def __init__(self, kernel: Kernel, rows: Any, n_jobs: int | None = None) -> None:
        self.kernel = kernel
        self.rows = rows
        self.n_jobs = n_jobs

    def diag(self) -> np.ndarray:
        """Return k(x, x) of each row, in float64."""
        parts = row_slices(n_rows(self.rows), block_rows(n_rows(self.rows), 1))
        return np.concatenate(
            [self.kernel.diag(astype(take(self.rows, some), np.float64)) for some in parts]
        )

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Return K[:, index] in float64."""
        features = LandmarkFeatures(self.kernel, astype(take(self.rows, index), np.float64))
        return to_host(project(features, self.rows, None, n_jobs=self.n_jobs, dtype=np.float64))

    def restrict(self, index: np.ndarray) -> KernelMatrix:
        """Return the kernel matrix of some of the rows."""
        return KernelMatrix(self.kernel, take(self.rows, index), self.n_jobs)

    def full(self) -> np.ndarray:
        """Return K in float64: a triangle of blocks, and the same again across the diagonal."""
        rows = astype(self.rows, np.float64)
        n = n_rows(rows)
        check_memory(n, n, "The kernel matrix of all rows", _ADVICE)
        K = np.empty((n, n))
        parts = list(row_slices(n, _TILE))
        columns = [LandmarkFeatures(self.kernel, take(rows, part)) for part in parts]
        tiles = [(i, j) for i in range(len(parts)) for j in range(i + 1)]

        def fill(tile: tuple[int, int]) -> None:
            i, j = tile
            K[parts[i], parts[j]] = columns[j](take(rows, parts[i]))
            if i != j:
                K[parts[j], parts[i]] = K[parts[i], parts[j]].T

        for _ in map_blocks(fill, tiles, n_jobs=self.n_jobs):
            pass
        np.fill_diagonal(K, self.diag())  # free of the rounding of blocks, which pivots see
        return K

    def sketched(self, weights: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return W K W' and, if it is not too large, K W' (K and K when W is None), in float64."""
        if weights is None:
            K = self.full()
            return K, K
        rows = astype(self.rows, np.float64)
        features = LandmarkFeatures(self.kernel, rows, weights)
        if 8 * n_rows(rows) ** 2 <= _KEPT_BYTES and sparse.issparse(weights):
            mixed = self._mixed(self.full(), weights)
            return weights @ mixed, mixed
        if 8 * n_rows(rows) * features.m <= _KEPT_BYTES:
            mixed = project(features, rows, None, n_jobs=self.n_jobs)
            return weights @ mixed, mixed
        K = np.zeros((features.m, features.m))
        size = block_rows(n_rows(rows), 8 * features.m, _MIXED_ROWS)

        def part(some: slice) -> np.ndarray:
            return weights[:, some] @ features(take(rows, some))

        for piece in map_blocks(part, list(row_slices(n_rows(rows), size)), n_jobs=self.n_jobs):
            K += piece
        return K, None

    def _mixed(self, K: np.ndarray, weights: Any) -> np.ndarray:
        """Return K W' for a sparse W."""
        out = np.empty((len(K), weights.shape[0]))

        def fill(some: slice) -> None:
            out[some] = (weights @ np.ascontiguousarray(K[:, some])).T  # K is symmetric

        for _ in map_blocks(fill, row_slices(len(K), _MIXED_ROWS), n_jobs=self.n_jobs):
            pass
        return out


def project(
    features: LandmarkFeatures,
    rows: Any,
    matrix: np.ndarray | None,
    *,
    n_jobs: int | None = None,
    dtype: Any = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return features(rows) @ matrix, shape (n, p), streaming over blocks of rows.

    The kernel values and the result are of `dtype`, by default that of the rows; the product is in
    float64. `out` takes the result, whatever its own precision. Rows on a device give a tensor
    there, if they are one.
    """
    if isinstance(rows, OnDevice):
        return device_project(features, rows, matrix)
    n = n_rows(rows)
    p = features.m if matrix is None else matrix.shape[1]
    dtype = float_dtype(rows) if dtype is None else np.dtype(dtype)
    out = np.empty((n, p), dtype=dtype) if out is None else out

    def read(some: slice) -> tuple[slice, Any]:
        return some, astype(take(rows, some), dtype)

    def fill(block: tuple[slice, Any]) -> None:
        some, part = block
        if matrix is None and out.dtype == dtype:
            features(part, out[some])
            return
        F = features(part)
        if matrix is not None:
            F = F.astype(np.float64, copy=False) @ matrix
        out[some] = F.astype(dtype, copy=False)

    share = math.ceil(n / _BLOCKS) if n * features.m >= _LARGE else None
    size = block_rows(n, 8 * max(features.m, p), share)
    slices = row_slices(n, size)
    for _ in map_blocks(fill, slices, read=read, ahead=is_streamed(rows), n_jobs=n_jobs):
        pass
    return out
