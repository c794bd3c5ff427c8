"""Z, the coordinates of all rows, through the three products that a convex solver needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from .._numerics.arrays import (
    cast,
    contiguous,
    empty,
    flatnonzero,
    gram,
    is_tensor,
    namespace,
    numpy_of,
    row_slices,
    sqrt,
    tall_product,
    zeros,
)
from .._numerics.typing import Array, Floats
from ..basis import Engine
from ..basis.features import Projection
from ..rows import Memory, Place, Reduction, RowMap, Source, limits

# CPU seconds below are those of benchmarks/constants.py.
# Rows of a block of Z, and of one of a weighted Gram matrix, a copy which should stay in cache; one
# of many columns does not in any case, and is added up less often if it is longer (half and double
# take within 3 %).
_BLOCK_ROWS = 8192
_GRAM_ROWS, _WIDE_ROWS, _WIDE = 1024, 2048, 512
# Bytes of a block of Z that is multiplied twice, and should stay in cache meanwhile: half of a
# typical second-level cache (half of it takes 1.07 times the seconds, double 1.01).
_CACHE_BYTES = 2**19
# Columns of products in float32 are a multiple of this, the numbers of a vector register of 512
# bits, without which some products are slower. Not all are: 40 outputs, which become 48, take 0.87
# times the seconds as they are.
_LANES = 16
# Columns of a copy on a device are a multiple of this, as its matrix units want them.
_ALIGNED = 16


class DesignMatrix:
    """The matrix Z of shape (n, p), wherever its rows lie.

    What it is multiplied with, and the products, lie where passes over its rows compute: arrays
    here, or tensors on a device. Where Z, an array or a source, is not held, it is made again of
    `rows` in each pass; `through` then returns for an array B the map of rows to Z B, which is
    cheaper than by Z itself.
    """

    rows: Source | None
    through: Callable[[Any], RowMap] | None

    def __init__(
        self,
        Z: Array | Source,
        rows: Source | None = None,
        through: Callable[[Any], RowMap] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.Z = Memory.of(Z)
        self.shape: tuple[int, ...] = self.Z.shape
        self.rows, self.through = rows, through
        self.n_jobs = n_jobs

    @property
    def is_held(self) -> bool:
        """Whether Z is held; if not, rows of no weight should not be asked for."""
        return self.rows is None

    def take(self, index: Array) -> DesignMatrix:
        """Return some of the rows, at increasing positions; held if they fit the memory."""
        Z = self.Z.subset(index)
        if self.rows is None:
            return DesignMatrix(Z, n_jobs=self.n_jobs)
        held = Z.kept(_Same(self.shape[1]), Z.tail, n_jobs=self.n_jobs)
        if held is not None:
            return DesignMatrix(held, n_jobs=self.n_jobs)
        return DesignMatrix(Z, self.rows.subset(index), self.through, self.n_jobs)

    @property
    def is_on_host(self) -> bool:
        """Whether Z is an array in the memory of the host."""
        return self.is_held and self.Z.is_array

    def rounded(self) -> DesignMatrix:
        """Return an array Z in float32 where both fit the memory, else Z, whose blocks are cast."""
        n, p = self.shape
        if 12.0 * n * p > limits().coordinates_bytes:
            return self
        return DesignMatrix(np.asarray(self.Z.load(), dtype=np.float32), n_jobs=self.n_jobs)

    def product(self, B: Array) -> Array:
        """Return Z B, in float64."""
        if self.rows is not None and self.through is not None:
            source, product = self.rows, self.through(numpy_of(B))
        else:
            source, product = self.Z, _RowProduct(B)
        return source.map_on_device(product, (B.shape[1],), np.float64, n_jobs=self.n_jobs)

    def adjoint(self, G: Array) -> Array:
        """Return Z' G, in float64."""
        total: Array = self.Z.reduce(_Adjoint(self.shape[1], G.shape[1]), G, n_jobs=self.n_jobs)
        return total.T

    def masked(self, W: Array, B: Array) -> Array:
        """Return Z'(W * (Z B)), in float64: in one pass over Z where that is held here.

        Where W is of float32, its products are too.
        """
        if is_tensor(W) or not self.is_held:
            return self.adjoint(W * self.product(B))
        total: Array = self.Z.reduce(_Masked(B, W.dtype), W, n_jobs=self.n_jobs)
        return total.T

    def gram(self, weights: Array, dtype: DTypeLike = np.float64) -> Array:
        """Return [Z, 1]' diag(weights) [Z, 1], shape (p + 1, p + 1); rows of weight 0 are free.

        Products of blocks are of a precision, on a device of that of Z.
        """
        Z, index = self.Z, flatnonzero(weights)
        if len(index) == 0:
            return zeros((self.shape[1] + 1,) * 2, weights)
        if 4 * len(index) <= 3 * len(weights):
            Z, weights = Z.chosen(index, weights)
        return Z.reduce(_Gram(self.shape[1], dtype), weights, n_jobs=self.n_jobs)


def coordinates_of(
    engine: Engine, rows: Source, dtype: DTypeLike | None = np.float64
) -> DesignMatrix:
    """Return the coordinates of all rows: held, in one pass, or made again in each.

    They are of a precision, or of that of the rows, if it is None.
    """
    function = Projection(engine.features, engine.components.T, dtype=dtype)
    Z = rows.kept(function, (engine.rank,), n_jobs=engine.n_jobs)
    if Z is not None:
        return DesignMatrix(Z, n_jobs=engine.n_jobs)

    def through(B: Floats) -> Projection:
        return Projection(engine.features, engine.on_features(B), dtype=dtype)

    return DesignMatrix(rows.then(function), rows, through, engine.n_jobs)


class _Anywhere:
    """A function of blocks that needs no change for tensors on a device."""

    def on(self, place: Place) -> Self:
        return self


class _Same(_Anywhere, RowMap):
    """z -> z."""

    def __init__(self, p: int) -> None:
        self.width = p

    def __call__(self, rows: Any, out: Array | None = None) -> Array:
        Z: Array = rows
        return Z


class _RowProduct(_Anywhere, RowMap):
    """z -> z B."""

    longest = _BLOCK_ROWS

    def __init__(self, B: Array) -> None:
        self.B, self.width = B, len(B)

    def __call__(self, rows: Any, out: Array | None = None) -> Array:
        B = cast(self.B, rows.dtype)
        # a GPU has a faster product for a vector
        is_vector = B.shape[1] == 1 and is_tensor(rows)
        product: Array = (rows @ B[:, 0])[:, None] if is_vector else rows @ B
        return product


class _Adjoint(_Anywhere, Reduction[Array]):
    """Z, G -> G'Z, shape (d, p)."""

    longest = _BLOCK_ROWS

    def __init__(self, p: int, d: int) -> None:
        self.width, self.shape = p, (d, p)

    def __call__(self, Z: Any, G: Array) -> Array:
        return tall_product(cast(G, Z.dtype), Z)

    def combine(self, total: Array | None, part: Array) -> Array:
        total = zeros(self.shape, part) if total is None else total
        total += part
        return total


class _Masked(Reduction[np.ndarray]):
    """Z, W -> (W * (Z B))'Z, in the precision of W."""

    longest = _BLOCK_ROWS

    def __init__(self, B: np.ndarray, dtype: np.dtype) -> None:
        (self.width, self.d), self.single = B.shape, dtype == np.float32
        more = -self.d % _LANES if self.single else 0
        self.right = np.pad(B, ((0, 0), (0, more))).astype(dtype)

    def __call__(self, Z: Any, W: np.ndarray) -> np.ndarray:
        right, left = self.right, np.ascontiguousarray(self.right.T)
        total = np.zeros(left.shape)
        for chunk in row_slices(len(Z), max(64, _CACHE_BYTES // (right.itemsize * self.width))):
            block = Z[chunk].astype(right.dtype, copy=False)
            # (d, b): which way is faster depends on the precision
            F = (block @ right).T if self.single else left @ block.T
            F[: self.d] *= W[chunk].T
            total += F @ block
        return total[: self.d]


class _Gram(_Anywhere, Reduction[Array]):
    """Z, w -> [Z, 1]' diag(w) [Z, 1]."""

    def __init__(self, p: int, dtype: DTypeLike) -> None:
        self.width, self.p, self.dtype = p, p, dtype
        self.longest = _GRAM_ROWS if p < _WIDE else _WIDE_ROWS

    def __call__(self, Z: Any, w: Array) -> Array:
        used = flatnonzero(w)
        if 4 * len(used) <= 3 * len(w):
            Z, w = Z[used], w[used]
        wide = self._scaled(Z, sqrt(abs(w)))
        signs = cast(namespace(w).sign(w), wide.dtype) if (w < 0.0).any() else None
        return gram(wide, signs)[: self.p + 1, : self.p + 1]

    def _scaled(self, Z: Array, root: Array) -> Array:
        """Return diag(root) [Z, 1], with columns of zeros on a device."""
        p, is_gpu_tensor = self.p, is_tensor(Z)
        columns = -(-(p + 1) // _ALIGNED) * _ALIGNED if is_gpu_tensor else p + 1
        wide = empty((len(root), columns), Z, Z.dtype if is_gpu_tensor else self.dtype)
        root = cast(root, wide.dtype)
        namespace(Z).multiply(Z, root[:, None], out=wide[:, :p])
        wide[:, p] = root
        wide[:, p + 1 :] = 0.0
        return wide

    def combine(self, total: Array | None, part: Array) -> Array:
        if total is None:
            return cast(part, np.float64)
        total += part
        return total

    def finish(self, total: Array) -> Array:
        return contiguous(total)
