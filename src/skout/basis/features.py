"""Features of rows against landmarks: where kernel blocks are formed, streamed and whitened.

Row blocks run in threads, with BLAS held to one thread each, and their results are reduced in the
order of the rows: the result does not depend on the number of threads.

Whitening every row costs as much as the moments; whitening only the moments loses digits. A
`WhiteningPlan` says how many features to whiten row by row, and in which precision; `Whitening`
does it to blocks.
"""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from scipy.linalg import bandwidth, solve_triangular

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
from .._numerics.estimators import lasting
from .._numerics.linalg import (
    rounding_of,
    symmetric_eigen,
    top_centered,
    top_eigenvalue,
    triangular_inverse,
    triangular_product,
)
from .._numerics.objects import to_device
from .._numerics.threads import check_memory, map_blocks
from .._numerics.typing import Array, Floats, Ints, Matrix, Rows, TorchDevice
from ..kernels.base import KERNELS, Block, Kernel
from ..rows import Memory, Place, Reduction, RowMap, Source, block_rows

# Kernel values are computed a few rows at a time, so that they are still in cache when used; of
# sparse rows more, whose products start more slowly. A fit of 20,000 x 20 with 600 landmarks takes
# 1.05 times the CPU seconds with half of these bytes, 1.01 with double.
_CACHE_BYTES = 2**21
_SPARSE_FACTOR = 4
# Most bytes of K, and of K W', the features of the landmarks, that are kept: 256 MB, a round
# number; beyond, they are summed over blocks, and features of known rows are computed again.
_KEPT_BYTES = 2**28
# Pivots up to this many times the rounding of kernel values count as zero: copies have such. The
# rounding is that seen on the diagonal; off it, some times as much may occur. A round number.
_COPIES = 8.0
# Rows of a block of W K W': few, since a row costs as many kernel values as there are landmarks. A
# round number: half and double of it, of _PRODUCT_ROWS, _STEP and _LANDMARK_CHUNK take within 5 %
# of the CPU seconds (benchmarks/constants.py).
_MIXED_ROWS = 256
# Rows and columns of a tile of K. For 2,500 rows, half takes 1.04 times the CPU seconds, and double
# 1.02.
_TILE = 768
# Rows of a product with a matrix, so that features are still in cache, and columns of a triangular
# one that are computed at a time: narrow parts spare more zeros, wide ones are faster.
_PRODUCT_ROWS, _STEP = 512, 64
# Least blocks of a long pass, for as many threads to share; a round number.
_BLOCKS = 4
_ADVICE = (
    "Use a sketch, for instance SubSample(1000): its time and memory grow like the rows. "
    'KernelRidge(solver="cg") needs no such matrix, and takes long.'
)
# Landmarks of a sketch that mixes many are visited in chunks of this many: a block of rows then
# holds no more kernel values than that, whatever the number of rows that the sketch mixes.
_LANDMARK_CHUNK = 4096


class LandmarkFeatures:
    """phi(x) = W k(landmarks, x), a block of rows at a time (3.16); n x m' is never held.

    For a linear kernel phi(x) = k(W landmarks, x): the rows that W mixes are mixed once, not their
    kernel values for each x. Landmarks in tensors on a device make features of rows there.
    """

    kernel: Kernel
    landmarks: Rows
    weights: Matrix | None
    __getstate__ = lasting

    def __init__(self, kernel: Kernel, landmarks: Rows, weights: Matrix | None = None) -> None:
        if kernel.is_linear and weights is not None and isinstance(landmarks, np.ndarray):
            landmarks, weights = (weights @ landmarks).astype(landmarks.dtype, copy=False), None
        self.kernel, self.landmarks, self.weights = kernel, landmarks, weights
        self.m: int = n_rows(landmarks) if weights is None else weights.shape[0]
        # columns of kernel values that are held
        self.width: int = self.m if weights is None else min(n_rows(landmarks), _LANDMARK_CHUNK)

    @functools.cached_property
    def _blocks(self) -> list[tuple[Block, Any]]:
        """Block functions against the landmarks, prepared once, with the part of W for each."""
        if self.weights is None:
            return [(self.kernel.against(self.landmarks), None)]
        return [
            (
                self.kernel.against(take(self.landmarks, chunk)),
                _weights_near(self.landmarks, self.weights[:, chunk]),
            )
            for chunk in row_slices(n_rows(self.landmarks), _LANDMARK_CHUNK)
        ]

    def on(self, device: TorchDevice, dtype: DTypeLike) -> LandmarkFeatures:
        """Return the same features of rows on a torch device, or say that the kernel cannot.

        A kernel that does not announce it is tried on two rows, and must give what it gives on the
        host. The dtype of NumPy is the precision of landmarks, kernel values and products with W.
        """
        if not self.kernel.runs_on_device:
            try:
                _check_same_block(self.kernel, self.landmarks, device)
            except Exception as error:
                able = {k.__name__ for k in KERNELS.values() if k.runs_on_device is True}
                raise ValueError(
                    f"{self.kernel!r} does not run on {device}. These kernels do: "
                    f"{', '.join(sorted(able))}; so do sums, products and multiples of them. "
                    "Leave out device= to compute on the CPU."
                ) from error
        landmarks = to_device(self.landmarks, device, dtype)
        return LandmarkFeatures(self.kernel, landmarks, self.weights)

    def __call__(self, rows: Rows, out: Array | None = None) -> Array:
        """Return the features of a block of rows, shape (b, m)."""
        if is_tensor(self.landmarks):
            held: Any = getattr(self.landmarks, "held", self.landmarks)
            rows = to_device(rows, held.device, float_dtype(self.landmarks))
        dtype = float_dtype(rows)
        out = empty((n_rows(rows), self.m), rows, dtype) if out is None else out
        for chunk in row_slices(n_rows(rows), self.cache_rows(rows, dtype)):
            few, values = take(rows, chunk), out[chunk]
            if self.weights is None:
                K = self._blocks[0][0](few, values)
                if K is not values:  # a block function may do without the buffer
                    values[...] = K
                continue
            values[...] = 0.0
            for block, W in self._blocks:
                # (b, chunk), by columns: the sparse product wants them so, and copies otherwise
                K = block(few, empty((W.shape[1], len(values)), values, dtype).T)
                values += (cast(W, K.dtype) @ K.T).T
        return out

    def cache_rows(self, rows: Rows, dtype: np.dtype) -> int:
        """Return how many rows to compute at a time: on a device all, it has other caches."""
        if is_tensor(rows):
            return max(1, n_rows(rows))
        size = _CACHE_BYTES // (max(1, self.width) * dtype.itemsize)
        # products of sparse rows start more slowly
        return max(64, _SPARSE_FACTOR * size if sparse.issparse(rows) else size)


def _weights_near(landmarks: Rows, weights: Matrix) -> Matrix:
    """Return a part of W on the device of the landmarks, and in their precision."""
    if not is_tensor(landmarks):
        return weights
    like: Any = empty((0,), landmarks, float_dtype(landmarks))
    if not sparse.issparse(weights):
        return cast(tensor(weights, like.device), like.dtype)
    W: Any = weights.tocsr(copy=True)
    W.sum_duplicates()  # which sorts them too, as tensors want them
    torch = namespace(like)
    ends, columns = (torch.as_tensor(a.astype(np.int64)) for a in (W.indptr, W.indices))
    values = torch.as_tensor(W.data)
    with warnings.catch_warnings():  # PyTorch calls this form new, each time
        warnings.simplefilter("ignore", UserWarning)
        made: Any = torch.sparse_csr_tensor(ends, columns, values, W.shape, check_invariants=True)
        near: Matrix = made.to(like.device, like.dtype)
    return near


def _check_same_block(kernel: Kernel, rows: Rows, device: TorchDevice) -> None:
    """Raise unless a block of tensors has the values of a block of arrays, for two rows."""
    rows = astype(take(rows, slice(0, 2)), np.float64)
    moved: Any = to_device(rows, device)
    block, expected = kernel.against(moved)(moved), kernel.against(rows)(rows)
    if not is_tensor(block) or block.device.type != moved.device.type:
        raise TypeError(f"The block is {type(block).__name__}, not a tensor on {device}.")
    if not np.allclose(numpy_of(block), expected, rtol=1e-6):
        raise ValueError(f"The block has other values than on the CPU: {block} and {expected}.")


def check_block(kernel: Kernel, rows: Rows) -> None:
    """Raise unless the block function of a kernel fills `out`, or returns a block of that shape.

    The first two rows are tried.
    """
    few = take(rows, slice(0, 2))
    out = np.full((n_rows(few),) * 2, np.nan, dtype=float_dtype(few))
    K = kernel.against(few)(few, out)
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


class KernelMatrix:
    """The kernel matrix of encoded rows, or a Source; sketches see only the parts they ask for."""

    kernel: Kernel
    source: Source
    n_jobs: int | None

    def __init__(self, kernel: Kernel, rows: Rows | Source, n_jobs: int | None = None) -> None:
        self.kernel, self.source, self.n_jobs = kernel, Memory.of(rows), n_jobs

    def diag(self) -> Floats:
        """Return k(x, x) of each row, in float64."""
        return self.source.collect(_Diagonal(self.kernel), (), np.float64, n_jobs=1)

    def columns(self, index: Ints) -> Floats:
        """Return K[:, index] in float64."""
        features = LandmarkFeatures(self.kernel, astype(self.source.take(index), np.float64))
        columns = Projection(features, dtype=np.float64)
        return self.source.collect(columns, (features.m,), np.float64, n_jobs=self.n_jobs)

    def restrict(self, index: Ints) -> KernelMatrix:
        """Return the kernel matrix of some of the rows."""
        return KernelMatrix(self.kernel, self.source.take(index), self.n_jobs)

    def full(self) -> Floats:
        """Return K in float64."""
        return self.measured()[0]

    def measured(self) -> tuple[Floats, float]:
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

    def sketched(
        self, weights: Matrix | None, is_single: bool = False
    ) -> tuple[Floats, Floats | None, float]:
        """Return W K W'; K W', None if it is too large; how large a pivot rounding alone may make.

        All are in float64; K and K when W is None. The rows of the fit may be `is_single`, float32.
        """
        # smaller pivots cannot be distinguished from the rounding of float32 kernel values
        eps = float(np.finfo(np.float32).eps) if is_single else 0.0
        if weights is None:
            K, rounding = self.measured()
            return K, K, max(eps * np.diagonal(K).max(), _COPIES * rounding)
        # W K W' from K, where that is small; from K W'; or as a sum over blocks of rows of K W'
        rows = astype(self.source.load(), np.float64)
        features = LandmarkFeatures(self.kernel, rows, weights)
        n, m, mixed = n_rows(rows), features.m, None
        # a linear kernel has no use for all of K
        if sparse.issparse(features.weights) and 8 * n**2 <= _KEPT_BYTES:
            K, rounding = self.measured()
            out = mixed = np.empty((n, m))

            def fill(chunk: slice) -> None:
                out[chunk] = (weights @ np.ascontiguousarray(K[:, chunk])).T  # K is symmetric

            for _ in map_blocks(fill, row_slices(n, _MIXED_ROWS), n_jobs=self.n_jobs):
                pass
        else:
            few = take(rows, slice(0, _MIXED_ROWS))
            rounding = KernelMatrix(self.kernel, few, 1).measured()[1]
            if 8 * n * m <= _KEPT_BYTES:
                mixed = Memory(rows).map(Projection(features), (m,), np.float64, n_jobs=self.n_jobs)
        if mixed is None:
            gram, blocks = np.zeros((m, m)), row_slices(n, block_rows(n, 8 * m, _MIXED_ROWS))

            def part(chunk: slice) -> Floats:
                return weights[:, chunk] @ features(take(rows, chunk))

            for piece in map_blocks(part, list(blocks), n_jobs=self.n_jobs):
                gram += piece
        else:
            gram = weights @ mixed
        check_values(self.kernel, gram)
        W: Any = weights  # of SciPy perhaps, whose * is a product of matrices
        squares = W.multiply(W) if sparse.issparse(W) else W * W
        rounding *= float(squares.sum(axis=1).max())
        return gram, mixed, max(eps * np.diagonal(gram).max(), _COPIES * rounding)


class Projection(RowMap):
    """x -> phi(x) @ matrix + offset, the product in float64; on a device in what is fast there.

    The dtype of kernel values and results is that of the rows, unless one is given.
    """

    features: LandmarkFeatures
    matrix: Array | None
    offset: Array | None

    def __init__(
        self,
        features: LandmarkFeatures,  # phi
        matrix: Array | None = None,  # (m, p)
        offset: Array | None = None,  # (p,)
        dtype: DTypeLike | None = None,
    ) -> None:
        self.features, self.matrix, self.offset = features, matrix, offset
        self.dtype: np.dtype | None = None if dtype is None else np.dtype(dtype)
        self.width: int = max(features.m, 0 if matrix is None else matrix.shape[1])
        self.shared: tuple[int, int] = (_BLOCKS, features.m)
        self._then: Callable[[Array], Any] | None = None
        self._total: Any = None  # sum of results on a device, which is checked at the end

    def then(self, function: Callable[[Array], Any] | None) -> Projection:
        """Return the map whose results are a function of these; it must be picklable."""
        following = copy.copy(self)
        following._then = function
        return following

    def on(self, place: Place) -> Projection:
        features = self.features.on(place.device, place.dtype)
        matrix, offset = (
            None if part is None else place.moved(part) for part in (self.matrix, self.offset)
        )
        moved = Projection(features, matrix, offset).then(self._then)
        moved._total = 0.0
        return moved

    def finish(self) -> None:
        if self._total is not None:
            check_values(self.features.kernel, numpy_of(self._total))

    def __call__(self, rows: Rows, out: Array | None = None) -> Any:
        out, dtype = out if self._then is None else None, self.dtype or float_dtype(rows)
        if self._total is not None:
            F: Any = self.features(rows)
            F = F if self.matrix is None else F @ self.matrix
            self._total += F.sum(dtype=namespace(F).float64)
            out = F if self.offset is None else F.add_(self.offset)
        elif self.matrix is None:
            out = self.features(astype(rows, dtype), out)
        else:
            rows, p = astype(rows, dtype), self.matrix.shape[1]
            out = np.empty((n_rows(rows), p), dtype=dtype) if out is None else out
            # values that are still in cache, and rows enough for a fast product
            size = max(_PRODUCT_ROWS, self.features.cache_rows(rows, dtype))
            for chunk in row_slices(len(out), size):
                values = self.features(take(rows, chunk)).astype(np.float64, copy=False)
                if len(values) < _PRODUCT_ROWS:  # of few rows, to look for zeros would take longer
                    F = values @ self.matrix
                else:
                    F = np.empty((len(values), p))
                    for stop, columns, part in self._steps:
                        np.matmul(values[:, :stop], part, out=F[:, columns])
                if not np.isfinite(F).all():
                    check_values(self.features.kernel, values)
                out[chunk] = F if self.offset is None else np.add(F, self.offset, out=F)
        return out if self._then is None else self._then(numpy_of(out))

    @functools.cached_property
    def _steps(self) -> list[tuple[int, slice, Floats]]:
        """Columns of the matrix, those of a triangle without the zeros below them."""
        matrix: Any = self.matrix
        m, p = matrix.shape
        if m != p or bandwidth(matrix)[0] > 0:
            return [(m, slice(0, p), matrix)]
        return [(s.stop, s, matrix[: s.stop, s]) for s in row_slices(p, _STEP)]


class _Diagonal(RowMap):
    """x -> k(x, x)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, rows: Rows, out: Floats | None = None) -> Floats:
        return self.kernel.diag(astype(rows, np.float64))


class Residual(RowMap):
    """x -> k(x, x) - ||z(x)||^2, at least 0."""

    kernel: Kernel
    projection: Projection

    def __init__(self, features: LandmarkFeatures, components: Floats) -> None:
        self.kernel, self.projection = features.kernel, Projection(features, components.T)
        self.width: int = self.projection.width
        self.shared: tuple[int, int] = self.projection.shared

    def __call__(self, rows: Rows, out: Floats | None = None) -> Floats:
        Z = self.projection(rows).astype(np.float64, copy=False)
        residual: Floats = self.kernel.diag(rows) - np.einsum("ij,ij->i", Z, Z)
        return np.maximum(residual, 0.0, out=residual)


def principal(
    features: LandmarkFeatures, components: Floats, rows: Source
) -> tuple[Floats, Floats]:
    """Return the coordinates' principal axes V' C over all rows, and their mean squares (5.7).

    Z'Z / n = V diag(values) V' for coordinates Z = features(rows) C'.
    """
    covariance = rows.reduce(_Squares(Projection(features, components.T))) / len(rows)
    values, V = symmetric_eigen(covariance)
    return V.T @ components, np.maximum(values, 0.0)


class _Squares(Reduction[Array]):
    """Rows -> Z'Z, the sum of the products of their coordinates, on the host or a device."""

    def __init__(self, projection: Projection) -> None:
        self.projection, self.width, self.shared = projection, projection.width, projection.shared

    def __call__(self, rows: Rows, *beside: object) -> Array:
        Z = cast(self.projection(rows), np.float64)
        return Z.T @ Z

    def finish(self, total: Array) -> Floats:
        return numpy_of(total)

    def on(self, place: Place) -> _Squares:
        return _Squares(self.projection.on(place))


# What is whitened row by row ----------------------------------------------------------------------

# Below this rank all features are whitened in each row, which costs little then; else the first so
# many may be: powers of two, as the estimate that chooses between them is a rough one.
_SMALL_RANK = 256
_WHITENED = (32, 64, 128, 256, 512)
# Columns of a triangle that are multiplied at a time. With 600 landmarks, half takes 1.03 times the
# CPU seconds of a fit, double 1.01.
_TRIANGLE = 256
# Limits on the estimated relative loss, from float32 and from float64 products; round numbers. It
# is an estimate, not a bound: errors of predictions up to several times the first were seen where
# alpha is below 1e-4.
_SINGLE_LOSS = 2e-3
_DOUBLE_LOSS = 1e-8


class PartlyWhitened(NamedTuple):
    """Features G = (Z1, Z2 D'): the first `size` whitened, and projected out of the others.

    Features F shaped like K~ = L L' become coordinates Z = F L^(-T) = F C'. Done to every row, that
    costs as much as the moments Z'Z; not done at all, the moments F'F square the condition number
    of K~. In between, the first pivots carry nearly all of it:

        L = [[A, 0], [B, D]]:   (F1, F2) -> (F1 A^(-T), F2 - F1 A^(-T) B') = (Z1, Z2 D')
    """

    C: Floats  # L^-1, whose blocks on the diagonal are A^-1 and D^-1, (p, p)
    size: int
    gram: Floats | None = None  # K~, where it was computed

    def share(self) -> Floats:
        """Return B, of shape (p - size, size)."""
        p, s = len(self.C), self.size
        if not 0 < s < p:
            return np.zeros((p - s, s))
        return solve_triangular(self.C, np.eye(p, s), lower=True)[s:]

    def finish(self) -> Floats:
        """Return M = diag(I, D^-1), which takes the moments of G to those of Z."""
        if self.size == 0:
            return self.C
        M, s = np.eye(len(self.C)), self.size
        M[s:, s:] = self.C[s:, s:]
        return M

    def penalty(self) -> Floats:
        """Return diag(I, D D'): the function G B has the squared norm tr(B' diag(I, D D') B)."""
        out, s = np.eye(len(self.C)), self.size
        if self.gram is None:
            D = triangular_inverse(self.C[s:, s:])
            out[s:, s:] = triangular_product(D, D.T)
        else:
            B = self.share()
            out[s:, s:] = self.gram[s:, s:] - B @ B.T
        return out

    def on_features(self, coef: Floats) -> Floats:
        """Return the coefficients of F of the function G coef."""
        out, s = coef.copy(), self.size
        if s:
            out[:s] -= self.share().T @ coef[s:]
            out[:s] = self.C[:s, :s].T @ out[:s]
        return out


class WhiteningPlan(NamedTuple):
    """How blocks of features are whitened before their products are formed."""

    size: int  # features to whiten
    center: bool  # whether to subtract their mean over the landmarks
    dtype: np.dtype  # precision of the products


def accuracy_plan(
    C: Floats, shift: float, dtype: np.dtype, may_center: bool, n: float = np.inf
) -> WhiteningPlan:
    """Choose how far to whiten the features in each block, and the precision of the products.

    The moments of features carry a noise of about eps lambda^2, lambda the largest eigenvalue of
    what whitening leaves of K~ = L L' (C is L^-1); to center the features takes away the largest.
    Relative to the smallest eigenvalue mu of K~ the noise becomes noise / (mu (mu + shift)) in Z'Z
    and between that and noise / (mu + shift)^2 in predictions, as measured. The cheapest choice
    that keeps the geometric mean of the two small is taken; float32 rows get float32 products
    where that is enough. `n` is the number of rows that will be seen.
    """
    p = len(C)
    if p < _SMALL_RANK:
        return WhiteningPlan(p, False, np.dtype(np.float64))
    choices = [(0, False)] + [(0, True)] * may_center
    # what is left to whiten in the moments costs 2 p^3; for few rows more than in every row
    sizes = [size for size in _WHITENED if size < p]
    choices += [(s, False) for s in sizes if n * s * (2 * p - s) + 2.0 * p**3 < n * p * p]
    mu = C[-1, -1] ** -2.0  # the last pivot, squared
    # float32 products err at random and average out; sums over blocks are float64 in any case
    kinds: list[tuple[type, float]] = [
        (np.float64, allowed_square(mu, shift, np.float64, 1.0, _DOUBLE_LOSS))
    ]
    if dtype == np.float32:
        limit = allowed_square(mu, shift, np.float32, p**-0.5, _SINGLE_LOSS)
        kinds.insert(0, (np.float32, limit))
    most = max(limit for _, limit in kinds)

    @functools.cache
    def squared(size: int, center: bool) -> float:
        """Return the largest eigenvalue, squared, of what is left of K~; roughly if above most."""
        if center:
            return top_centered(C, enough=most)
        return top_eigenvalue(C, size, enough=most**0.5) ** 2

    for kind, limit in kinds:
        for size, center in choices:
            if squared(size, center) <= limit:
                return WhiteningPlan(size, center, np.dtype(kind))
    return WhiteningPlan(p, False, np.dtype(np.float64))


def allowed_square(mu: float, shift: float, kind: type, share: float, loss: float) -> float:
    """Return the largest lambda^2 whose estimated loss is allowed, see `accuracy_plan`.

    `share` is that of the rounding of `kind` which does not average out.
    """
    allowed = mu * (mu + shift) * min(0.25, loss * np.sqrt((mu + shift) / mu))
    return float(allowed / (float(np.finfo(kind).eps) * share))


class Whitening:
    """Whitening of blocks of features, Z = F C', as far as a plan says; it can be sent to workers.

    `mean` is subtracted from features where the plan centers them. Components that are `ordered`,
    those of an eigendecomposition, are no triangle.
    """

    components: Floats
    plan: WhiteningPlan
    ordered: bool
    __getstate__ = lasting

    def __init__(
        self,
        components: Floats,
        plan: WhiteningPlan,
        mean: Floats | None = None,
        ordered: bool = False,
    ) -> None:
        self.components, self.plan, self.ordered = components, plan, ordered
        self.mean: np.ndarray | None = None if mean is None else mean.astype(plan.dtype)

    @functools.cached_property
    def _prepared(self) -> tuple[list[tuple[slice, Floats]], Floats, threading.local]:
        """Columns of C' without the zeros below them, B' of `PartlyWhitened`, and a buffer."""
        C, (size, _, dtype) = self.components, self.plan
        ends = [*range(_TRIANGLE, size, _TRIANGLE), size]
        steps = [
            (slice(a, b), np.ascontiguousarray(C[a:b, :b].T, dtype=dtype))
            for a, b in zip([0, *ends], ends, strict=False)
        ]
        share = PartlyWhitened(C, size).share().T.astype(dtype)
        # the last columns first, as each needs those before it
        return steps[::-1], share, threading.local()

    def apply(self, F: Array) -> Array:
        """Return a block of features, whitened as far as the plan says; it may be F itself."""
        size = self.plan.size
        if self.mean is not None:
            F -= self.mean
            return F
        if self.ordered:
            return F @ self.components.T
        if size:
            steps, share, memory = self._prepared
            if len(getattr(memory, "product", ())) < len(F):  # fresh memory costs page faults
                memory.product = np.empty((len(F), share.shape[1]), dtype=share.dtype)
            for columns, right in steps:
                F[:, columns] = F[:, : columns.stop] @ right
            F[:, size:] -= np.matmul(F[:, :size], share, out=memory.product[: len(F)])
        return F

    def on(self, place: Place) -> Callable[[Array], Array]:
        """Return `apply` for tensors on a device."""
        C, s = self.components, self.plan.size
        if self.mean is not None:
            center = place.moved(self.mean)
            return lambda F: namespace(F).subtract(F, center, out=F)
        if s == len(C) or self.ordered:
            full = place.moved(C.T)
            return lambda F: F @ full
        if s == 0:
            return lambda F: F
        first, share = place.moved(C[:s, :s].T), place.moved(PartlyWhitened(C, s).share().T)

        def apply(F: Any) -> Any:
            F[:, :s] = F[:, :s] @ first
            F[:, s:].addmm_(F[:, :s], share, alpha=-1.0)
            return F

        return apply


class WhitenedFeatures(RowMap):
    """x -> the features of x, of which a plan whitens some, in float64."""

    features: LandmarkFeatures
    whitening: Whitening

    def __init__(self, features: LandmarkFeatures, whitening: Whitening) -> None:
        self.features, self.whitening, self.width = features, whitening, features.m

    def __call__(self, rows: Rows, out: Floats | None = None) -> Floats:
        values = np.empty((n_rows(rows), self.width)) if out is None else out
        for chunk in row_slices(len(values), self.features.cache_rows(rows, values.dtype)):
            self.whitening.apply(self.features(take(rows, chunk), values[chunk]))
        return values
