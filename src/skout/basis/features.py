"""Features of rows against landmarks: where kernel blocks are formed, streamed and reduced.

Row blocks run in threads, with BLAS held to one thread each, and their results are reduced in the
order of the rows: the result does not depend on the number of threads.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import bandwidth

from .._numerics.arrays import (
    astype,
    cast,
    empty,
    float_dtype,
    is_tensor,
    n_rows,
    namespace,
    numpy_of,
    row_slices,
    take,
    tensor,
)
from .._numerics.linalg import rounding_of, symmetric_eigen
from .._numerics.objects import to_device
from .._numerics.threads import check_memory, map_blocks
from ..kernels.base import KERNELS, Block, Kernel, fill_block
from ..rows import Memory, Place, Reduction, RowMap, Source, block_rows

__all__ = [
    "KernelMatrix",
    "LandmarkFeatures",
    "Projection",
    "Residual",
    "check_block",
    "check_values",
    "principal",
]

# Kernel values are computed a few rows at a time, so that they are still in cache when used.
_CACHE_BYTES = 2**21
_SPARSE_FACTOR = 4
# Most bytes of K W', the features of the landmarks, that are kept.
_KEPT_BYTES = 2**28
# Rows of a block of W K W': few, since a row costs many kernel values.
_MIXED_ROWS = 256
# Rows and columns of a tile of K.
_TILE = 768
# Rows of a product with a matrix, and columns of a triangular one, that are computed at a time.
_PRODUCT_ROWS, _STEP = 512, 64
# A pass over _LARGE features or more is cut into at least so many blocks, for threads to share.
_BLOCKS, _LARGE = 4, 2**21
_ADVICE = (
    "Use a sketch, for instance SubSample(1000): its time and memory grow like the rows. "
    'KernelRidge(solver="cg") needs no such matrix, and takes long.'
)
# Landmarks of a sketch that mixes many are visited in chunks of this many.
_LANDMARK_CHUNK = 4096


class LandmarkFeatures:
    """phi(x) = W k(landmarks, x), a block of rows at a time; n x m' is never held.

    For a linear kernel phi(x) = k(W landmarks, x): the rows that W mixes are mixed once, not their
    kernel values for each x.

    Parameters
    ----------
    kernel : Kernel
        With numeric parameters.
    landmarks : rows
        Those in tensors on a device make features of rows there, see `on`.
    weights : None, ndarray or CSR matrix of shape (m, m')
    """

    def __init__(self, kernel: Kernel, landmarks: Any, weights: Any = None) -> None:
        if kernel.is_linear and weights is not None and isinstance(landmarks, np.ndarray):
            landmarks, weights = (weights @ landmarks).astype(landmarks.dtype, copy=False), None
        self.kernel, self.landmarks, self.weights = kernel, landmarks, weights
        self.m = n_rows(landmarks) if weights is None else weights.shape[0]
        # columns of kernel values that are held
        self.width = self.m if weights is None else min(n_rows(landmarks), _LANDMARK_CHUNK)

    @functools.cached_property
    def _block(self) -> Block:
        """The block function against all landmarks, prepared once."""
        return self.kernel.against(self.landmarks)

    @functools.cached_property
    def _chunks(self) -> list[tuple[Block, Any]]:
        """Block functions against the landmarks that W mixes, prepared once, with parts of W."""
        found = []
        for some in row_slices(n_rows(self.landmarks), _LANDMARK_CHUNK):
            W = _weights_near(self.landmarks, self.weights[:, some])
            found.append((self.kernel.against(take(self.landmarks, some)), W))
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed from the rest, which need not be sent to workers."""
        own = ("kernel", "landmarks", "weights", "m", "width")
        return {name: self.__dict__[name] for name in own}

    def on(self, device: Any, dtype: Any) -> LandmarkFeatures:
        """Return the same features of rows on a torch device.

        The dtype of NumPy is the precision of landmarks, kernel values and products with W there.
        """
        landmarks = _sent(self.kernel, self.landmarks, device, dtype)
        return LandmarkFeatures(self.kernel, landmarks, self.weights)

    def __call__(self, rows: Any, out: Any = None) -> Any:
        """Return the features of a block of rows, shape (b, m)."""
        if is_tensor(self.landmarks):
            rows = to_device(rows, _held(self.landmarks).device, float_dtype(self.landmarks))
        dtype = float_dtype(rows)
        out = empty((n_rows(rows), self.m), rows, dtype) if out is None else out
        for some in row_slices(n_rows(rows), self.cache_rows(rows, dtype)):
            if self.weights is None:
                fill_block(self._block, take(rows, some), out[some])
            else:
                self._mix(take(rows, some), out[some])
        return out

    def cache_rows(self, rows: Any, dtype: np.dtype) -> int:
        """Return how many rows to compute at a time: on a device all, it has other caches."""
        if is_tensor(rows):
            return max(1, n_rows(rows))
        size = _CACHE_BYTES // (max(1, self.width) * dtype.itemsize)
        # products of sparse rows start more slowly
        return max(64, _SPARSE_FACTOR * size if sparse.issparse(rows) else size)

    def _mix(self, rows: Any, out: Any) -> None:
        out[...] = 0.0
        for block, W in self._chunks:
            # (b, chunk), by columns: the sparse product wants them so, and copies otherwise
            K = block(rows, empty((W.shape[1], len(out)), out, float_dtype(out)).T)
            out += (cast(W, K.dtype) @ K.T).T


def check_block(kernel: Kernel, rows: Any) -> None:
    """Raise unless the block function of a kernel fills `out`, or returns a block of that shape.

    The first two rows are tried.
    """
    some = take(rows, slice(0, 2))
    out = np.full((n_rows(some),) * 2, np.nan, dtype=float_dtype(some))
    K = kernel.against(some)(some, out)
    if np.shape(K) != out.shape:
        got = type(K).__name__ if K is None else f"an array of shape {np.shape(K)}"
        raise ValueError(
            f"{type(kernel).__name__}.against must return a function (A, out=None) -> K(A, B). For "
            f"{len(out)} rows against {len(out)} it gave {got}, not one of shape {out.shape}."
        )
    if K is out and np.isnan(out).any():
        raise ValueError(
            f"{type(kernel).__name__} returned `out` and left entries of it unwritten, or wrote "
            "NaN. Its block function must fill the buffer `out`, or return a new array instead."
        )


def check_values(kernel: Kernel, values: np.ndarray) -> None:
    """Raise where kernel values, or sums of them, are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"{kernel!r} gives NaN or infinity for some rows: where it divides by a norm of 0, "
            "or overflows, say. Mend it, leave these rows out, or scale them."
        )


def _held(rows: Any) -> Any:
    return getattr(rows, "held", rows)


class KernelMatrix:
    """The kernel matrix of encoded rows, or a Source; sketches see only the parts they ask for."""

    def __init__(self, kernel: Kernel, rows: Any, n_jobs: int | None = None) -> None:
        self.kernel = kernel
        self.source = Memory.of(rows)
        self.n_jobs = n_jobs

    def diag(self) -> np.ndarray:
        """Return k(x, x) of each row, in float64."""
        return self.source.collect(_Diagonal(self.kernel), (), np.float64, n_jobs=1)

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Return K[:, index] in float64."""
        features = LandmarkFeatures(self.kernel, astype(self.source.take(index), np.float64))
        columns = Projection(features, dtype=np.float64)
        return self.source.collect(columns, (features.m,), np.float64, n_jobs=self.n_jobs)

    def restrict(self, index: np.ndarray) -> KernelMatrix:
        """Return the kernel matrix of some of the rows."""
        return KernelMatrix(self.kernel, self.source.take(index), self.n_jobs)

    def full(self) -> np.ndarray:
        """Return K in float64."""
        return self.measured()[0]

    def measured(self) -> tuple[np.ndarray, float]:
        """Return K in float64, and how much rounding its values have.

        A triangle of blocks is computed, and is the same across the diagonal.
        """
        rows = astype(self.source.load(), np.float64)
        n = n_rows(rows)
        check_block(self.kernel, rows)
        check_memory(n, n, "The kernel matrix of all rows", _ADVICE)
        K = np.empty((n, n))
        parts = list(row_slices(n, _TILE))
        columns = [LandmarkFeatures(self.kernel, take(rows, part)) for part in parts]
        tiles = [(i, j) for i in range(len(parts)) for j in range(i + 1)]

        def fill_tile(tile: tuple[int, int]) -> None:
            i, j = tile
            K[parts[i], parts[j]] = columns[j](take(rows, parts[i]))
            check_values(self.kernel, K[parts[i], parts[j]])
            if i != j:
                K[parts[j], parts[i]] = K[parts[i], parts[j]].T

        for _ in map_blocks(fill_tile, tiles, n_jobs=self.n_jobs):
            pass
        diagonal = np.empty(n)
        diagonal[...] = self.kernel.diag(rows)
        check_values(self.kernel, diagonal)
        rounding = rounding_of(np.diagonal(K), diagonal)
        np.fill_diagonal(K, diagonal)  # exact: rounding on the diagonal would show in the pivots
        return K, rounding

    def sketched(self, weights: Any) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Return W K W'; K W', None if it is too large; and the rounding that a pivot may show.

        All are in float64; K and K when W is None.
        """
        if weights is None:
            K, rounding = self.measured()
            return K, K, rounding
        found = self._mixed_by(weights)
        check_values(self.kernel, found[0])
        return found

    def _mixed_by(self, weights: Any) -> tuple[np.ndarray, np.ndarray | None, float]:
        # W K W' from K, where that is small; from K W'; or as a sum over blocks of rows of K W'
        rows = astype(self.source.load(), np.float64)
        features = LandmarkFeatures(self.kernel, rows, weights)
        mixes = sparse.issparse(features.weights)  # a linear kernel has no use for all of K
        if mixes and 8 * n_rows(rows) ** 2 <= _KEPT_BYTES:
            K, rounding = self.measured()
            mixed = self._mixed(K, weights)
            return weights @ mixed, mixed, rounding * _largest_square(weights)
        some = take(rows, slice(0, _MIXED_ROWS))
        rounding = KernelMatrix(self.kernel, some, 1).measured()[1] * _largest_square(weights)
        if 8 * n_rows(rows) * features.m <= _KEPT_BYTES:
            whole = Memory(rows)
            mixed = whole.map(Projection(features), (features.m,), np.float64, n_jobs=self.n_jobs)
            return weights @ mixed, mixed, rounding
        K = np.zeros((features.m, features.m))
        size = block_rows(n_rows(rows), 8 * features.m, _MIXED_ROWS)

        def part(some: slice) -> np.ndarray:
            return weights[:, some] @ features(take(rows, some))

        for piece in map_blocks(part, list(row_slices(n_rows(rows), size)), n_jobs=self.n_jobs):
            K += piece
        return K, None, rounding

    def _mixed(self, K: np.ndarray, weights: Any) -> np.ndarray:
        """Return K W' for a sparse W."""
        out = np.empty((len(K), weights.shape[0]))

        def fill(some: slice) -> None:
            out[some] = (weights @ np.ascontiguousarray(K[:, some])).T  # K is symmetric

        for _ in map_blocks(fill, row_slices(len(K), _MIXED_ROWS), n_jobs=self.n_jobs):
            pass
        return out


def _largest_square(weights: Any) -> float:
    """Return the largest squared norm of the rows of W."""
    squares = weights.multiply(weights) if sparse.issparse(weights) else weights * weights
    return float(squares.sum(axis=1).max())


class Projection(RowMap):
    """x -> phi(x) @ matrix + offset, the product in float64.

    Parameters
    ----------
    features : LandmarkFeatures
        phi.
    matrix : ndarray of shape (m, p), optional
    offset : ndarray of shape (p,), optional
    dtype : numpy dtype, optional
        Of the kernel values and the result; default that of the rows.
    """

    def __init__(
        self, features: LandmarkFeatures, matrix: Any = None, offset: Any = None, dtype: Any = None
    ) -> None:
        self.features, self.matrix, self.offset = features, matrix, offset
        self.dtype = None if dtype is None else np.dtype(dtype)
        self.width = max(features.m, 0 if matrix is None else matrix.shape[1])

    def most_rows(self, n: int) -> int | None:
        """Cut a long pass into some blocks, for threads to share."""
        return math.ceil(n / _BLOCKS) if n * self.features.m >= _LARGE else None

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        dtype = float_dtype(rows) if self.dtype is None else self.dtype
        rows = astype(rows, dtype)
        if self.matrix is None:
            return self.features(rows, out)
        n = n_rows(rows)
        out = np.empty((n, self.matrix.shape[1]), dtype=dtype) if out is None else out
        # values that are still in cache, and rows enough for a fast product
        for some in row_slices(n, max(_PRODUCT_ROWS, self.features.cache_rows(rows, dtype))):
            values = self.features(take(rows, some)).astype(np.float64, copy=False)
            # of few rows, to look for zeros would take longer
            F = values @ self.matrix if len(values) < _PRODUCT_ROWS else self._by_steps(values)
            if not np.isfinite(F).all():
                check_values(self.features.kernel, values)
            out[some] = F if self.offset is None else np.add(F, self.offset, out=F)
        return out

    def _by_steps(self, values: np.ndarray) -> np.ndarray:
        F = np.empty((len(values), self.matrix.shape[1]))
        for stop, columns, part in self._steps:
            np.matmul(values[:, :stop], part, out=F[:, columns])
        return F

    @functools.cached_property
    def _steps(self) -> list[tuple[int, slice, np.ndarray]]:
        """Columns of the matrix, those of a triangle without the zeros below them."""
        m, p = self.matrix.shape
        if m != p or bandwidth(self.matrix)[0] > 0:
            return [(m, slice(0, p), self.matrix)]
        return [(s.stop, s, self.matrix[: s.stop, s]) for s in row_slices(p, _STEP)]

    def on(self, place: Place) -> RowMap:
        return _DeviceProjection(self, place)


class _DeviceProjection(RowMap):
    """The same of tensors on a device, in the precision that is fast there."""

    def __init__(self, base: Projection, place: Place) -> None:
        self.kernel, self.total = base.features.kernel, 0.0
        self.features = base.features.on(place.device, place.dtype)
        self.matrix = None if base.matrix is None else place.moved(base.matrix)
        self.offset = None if base.offset is None else place.moved(base.offset)
        self.width = base.width

    def __call__(self, rows: Any, out: Any = None) -> Any:
        F = self.features(rows)
        F = F if self.matrix is None else F @ self.matrix
        self.total += F.sum(dtype=namespace(F).float64)
        return F if self.offset is None else F.add_(self.offset)

    def finish(self) -> None:
        check_values(self.kernel, numpy_of(self.total))


class _Diagonal(RowMap):
    """x -> k(x, x)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        return self.kernel.diag(astype(rows, np.float64))


def principal(
    features: LandmarkFeatures, components: np.ndarray, rows: Source
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates' principal axes V' C over all rows, and their mean squares (5.7).

    Z'Z / n = V diag(values) V' for coordinates Z = features(rows) C'.
    """
    covariance = rows.reduce(_Squares(Projection(features, components.T))) / len(rows)
    values, V = symmetric_eigen(covariance)
    return V.T @ components, np.maximum(values, 0.0)


class _Squares(Reduction):
    """Rows -> Z'Z, the sum of the products of their coordinates, on the host or a device."""

    def __init__(self, projection: Any) -> None:
        self.projection, self.width = projection, projection.width

    def most_rows(self, n: int) -> int | None:
        return self.projection.most_rows(n)

    def __call__(self, rows: Any, *beside: Any) -> Any:
        Z = cast(self.projection(rows), np.float64)
        return Z.T @ Z

    def finish(self, total: Any) -> np.ndarray:
        return numpy_of(total)

    def on(self, place: Any) -> _Squares:
        return _Squares(self.projection.on(place))


class Residual(RowMap):
    """x -> k(x, x) - ||z(x)||^2, at least 0."""

    def __init__(self, features: LandmarkFeatures, components: np.ndarray) -> None:
        self.kernel = features.kernel
        self.projection = Projection(features, components.T)
        self.width = self.projection.width

    def most_rows(self, n: int) -> int | None:
        return self.projection.most_rows(n)

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        Z = self.projection(rows).astype(np.float64, copy=False)
        return np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->i", Z, Z), 0.0)


# On a device --------------------------------------------------------------------------------------


def _sent(kernel: Kernel, rows: Any, device: Any, dtype: Any) -> Any:
    """Return rows in tensors on a device, or say that the formula of the kernel does not run there.

    A kernel that does not announce it is tried on two rows, and must give what it gives here. The
    dtype is the precision of kernel blocks.
    """
    if not kernel.runs_on_device:
        try:
            _check_same_block(kernel, astype(take(rows, slice(0, 2)), np.float64), device)
        except Exception as error:
            known = {k.__name__ for k in KERNELS.values() if k.runs_on_device is True}
            raise ValueError(
                f"{kernel!r} does not run on {device}. These kernels do: "
                f"{', '.join(sorted(known))}; so do sums, products and multiples of them. "
                "Leave out device= to compute on the CPU."
            ) from error
    return to_device(rows, device, dtype)


def _check_same_block(kernel: Kernel, rows: Any, device: Any) -> None:
    """Raise unless a block of tensors has the values of a block of arrays."""
    there = to_device(rows, device)
    found, expected = kernel.against(there)(there), kernel.against(rows)(rows)
    if not is_tensor(found) or found.device.type != device.type:
        raise TypeError(f"The block is {type(found).__name__}, not a tensor on {device}.")
    if not np.allclose(numpy_of(found), expected, rtol=1e-6):
        raise ValueError(f"The block has other values than on the CPU: {found} and {expected}.")


def _weights_near(landmarks: Any, W: Any) -> Any:
    """Return a part of the weights where the landmarks are, in their precision."""
    if not is_tensor(landmarks):
        return W
    like = empty((0,), landmarks, float_dtype(landmarks))
    if sparse.issparse(W):
        W = W.tocsr(copy=True)
        W.sum_duplicates()  # which sorts them too, as tensors want them
        return _sparse_tensor(W, like)
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
