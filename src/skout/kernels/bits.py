"""Kernels on sets: 0/1 vectors, packed where they are long, and counts; and cosines, of both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import (
    RightOperand,
    astype,
    cast,
    contiguous,
    empty,
    float_dtype,
    is_gpu_tensor,
    is_tensor,
    n_rows,
    namespace,
    ones,
    row_slices,
    sqrt,
)
from .._numerics.objects import Rows
from .._numerics.threads import map_blocks, spare_threads
from .._numerics.validation import check_choice
from ..rows import Survey
from .base import Block, Kernel
from .distances import (
    VectorKernel,
    WithGamma,
    block_buffer,
    median_of_pairs,
    some_positions,
    squared_norms,
)
from .packed import PackedBits, pack_matrix, pack_objects
from .popcount import Parts, fill_ratios, is_worthwhile
from .vectors import Linear

__all__ = ["F1", "BitBlocks", "Cosine", "GaussianTanimoto", "Tanimoto", "set_blocks"]

# Matrices of fewer columns stay as they are: products of them are fast, and no code need unpack.
_LEAST_BITS = 256
# Bytes of a stored entry of a CSR matrix.
_ENTRY_BYTES = 12
# Rows and columns of the blocks that are unpacked and multiplied, each by one thread.
_LEFT, _RIGHT = 512, 1024
# Rows of a product that are divided at a time, in cache.
_DIVIDED = 64
# Bytes of unpacked columns that are kept from one block to the next.
_KEPT_BYTES = 2**28
# float32 counts exactly up to here, float16 up to the next.
_EXACT, _EXACT_HALF = 2**24, 2**11


class _SetKernel(VectorKernel):
    """A kernel of |a|, |b| and |a and b|, for 0/1 vectors (sets) and counts (multisets).

    |a| is the sum of a, |a and b| the sum of min(a, b). Two empty sets are alike.
    """

    runs_on_device = True
    compares = "label_sets"
    #: (|a and b|, |a|, |b|) -> numerator and denominator
    _parts: Parts

    @property
    def normalized(self) -> bool:
        return True

    def encode(self, objects: Any) -> Any:
        """Return packed bits, or a non-negative dense or CSR matrix of float32 or float64.

        Parameters
        ----------
        objects : array, CSR matrix, list of RDKit bit vectors, list of hex strings or PackedBits
            A matrix of 0 and 1 is packed where it has at least 256 columns and this saves memory;
            counts stay as they are.
        """
        packed = None if _is_matrix(objects) else pack_objects(objects)
        is_array = isinstance(objects, np.ndarray) and objects.ndim == 2
        if is_array and objects.dtype.kind in "biu" and _is_long(objects):
            packed = pack_matrix(objects)  # without a copy in float64
        if packed is not None:
            return packed
        rows = super().encode(objects)
        values = rows.data if sparse.issparse(rows) else rows
        if values.size and values.min() < 0:
            raise ValueError(
                f"{type(self).__name__} takes 0/1 vectors or counts, so values must be >= 0. "
                f"Got {values.min():g}."
            )
        packed = pack_matrix(rows) if _is_long(rows) else None
        return rows if packed is None else packed

    def against(self, B: Any) -> Block:
        return set_blocks(type(self)._parts, B, self._of_matrix)

    def _of_matrix(self, B: Any) -> Block:
        """Return the block function of matrices, whose values may be counts."""
        overlap = _overlap_with(B)
        size_b = _row_sums(B)

        def block(A: Any, out: Any = None) -> Any:
            common = overlap(A, block_buffer(A, n_rows(B), out))
            a, b = cast(_row_sums(A), common.dtype), cast(size_b, common.dtype)
            return divide_sets(type(self)._parts, common, a, b, common)

        return block

    def diag(self, A: Any) -> Any:
        return ones(n_rows(A), A)


def _row_sums(A: Any) -> Any:
    return np.asarray(A.sum(axis=1)).ravel() if sparse.issparse(A) else A.sum(axis=1)


def _is_matrix(objects: Any) -> bool:
    """Whether this is a matrix or a data frame, not packed and no list of fingerprints."""
    return getattr(objects, "ndim", 1) == 2 and not isinstance(objects, Rows)


def _is_long(matrix: Any) -> bool:
    """Whether a matrix of 0 and 1 is better packed: many columns, and if sparse, not very."""
    if matrix.shape[1] < _LEAST_BITS:
        return False
    return not sparse.issparse(matrix) or _ENTRY_BYTES * matrix.nnz >= np.prod(matrix.shape) / 8


# Up to this many different values, overlaps are matrix products.
_MAX_LEVELS = 64


def _overlap_with(B: Any) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one matrix product for each level of B.

    With the values 0 = v_0 < v_1 < ... of B, min(a, b) = sum_i (clip(a, v_{i-1}, v_i) - v_{i-1})
    1[b >= v_i]: for 0/1 vectors a single product.
    """
    values = namespace(B).unique(B.data if sparse.issparse(B) else B)
    levels = values[values > 0].tolist()
    if len(levels) > _MAX_LEVELS:
        return _overlap_by_column(B)
    indicators = [RightOperand(_indicator(B, level)) for level in levels]
    lower = [0.0, *levels][:-1]

    def overlap(A: Any, out: Any) -> Any:
        out[...] = 0.0
        for low, high, right in zip(lower, levels, indicators, strict=True):
            out += right.product(_share(A, low, high))
        return out

    return overlap


def _overlap_by_column(B: Any) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one pass over the block for each column."""
    columns = contiguous((B.toarray() if sparse.issparse(B) else B).T)
    not_zero = [j for j, there in enumerate((columns > 0).any(axis=1).tolist()) if there]

    def overlap(A: Any, out: Any) -> Any:
        out[...] = 0.0
        A, xp = A.toarray() if sparse.issparse(A) else A, namespace(out)
        for j in not_zero:
            out += xp.minimum(A[:, j, None], columns[j])
        return out

    return overlap


def _indicator(B: Any, level: float) -> Any:
    """Return 1[b >= level] in the format of B."""
    if not sparse.issparse(B):
        return cast(level <= B, B.dtype)
    out = B.copy()
    out.data = (level <= B.data).astype(B.dtype)
    out.eliminate_zeros()
    return out


def _share(A: Any, low: float, high: float) -> Any:
    """Return clip(a, low, high) - low in the format of A."""
    if not sparse.issparse(A):
        return namespace(A).clip(A, low, high) - low
    out = A.copy()
    out.data = np.clip(A.data, low, high) - low
    return out


def _tanimoto(common: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return common, a + b - common


def _f1(common: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return 2.0 * common, a + b


class Tanimoto(_SetKernel):
    """``k(a, b) = |a and b| / |a or b|`` (Jaccard), on 0/1 vectors, fingerprints or counts.

    Fingerprints are given as a matrix of 0 and 1, as a list of RDKit bit vectors or of hex strings,
    or as `PackedBits`. Of counts, ``|a and b|`` is the sum of min(a, b) and
    ``|a or b|`` that of max(a, b).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Tanimoto
    >>> float(Tanimoto()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0])
    0.5
    >>> Tanimoto()(["0f", "ff"])  # fingerprints of 8 bits, in hex
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    _parts = staticmethod(_tanimoto)


class F1(_SetKernel):
    """``k(a, b) = 2 |a and b| / (|a| + |b|)``, the F1 score of two label sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import F1
    >>> float(F1()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0].round(4))
    0.6667
    """

    _parts = staticmethod(_f1)


class GaussianTanimoto(_SetKernel, WithGamma):
    """k(a, b) = exp(-gamma (2 - 2 t(a, b))), t the Tanimoto kernel: Gaussian in its features.

    Parameters
    ----------
    gamma : float or "median", default 1.0
        "median" is 1/(2 median of 2 - 2 t), resolved from the training rows at fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import GaussianTanimoto
    >>> float(GaussianTanimoto(0.5)(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0].round(4))
    0.6065
    """

    _parts = staticmethod(_tanimoto)

    def __init__(self, gamma: float | str = 1.0) -> None:
        self.gamma = gamma

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        if not isinstance(self.gamma, str):
            return lambda: self._of_length(None)
        check_choice(self.gamma, "gamma", ("median",))
        index, shares = some_positions(len(survey), rng, weights)
        sample = survey.take(index)
        # equal rows: every width gives the same kernel
        return lambda: self._of_length(
            2.0 * median_of_pairs(_squared_distances(astype(sample(), np.float64)), shares)
        )

    def against(self, B: Any) -> Block:
        gamma = self._width()
        tanimoto = super().against(B)

        def block(A: Any, out: Any = None) -> Any:
            K = tanimoto(A, out)
            K -= 1.0
            K *= 2.0 * float(gamma)
            return namespace(K).exp(K, out=K)

        return block

    def diag(self, A: Any) -> Any:
        self._width()
        return super().diag(A)


def _squared_distances(rows: Any) -> np.ndarray:
    """Return 2 - 2 t of all pairs."""
    return 2.0 - 2.0 * Tanimoto().against(rows)(rows)


def _cosine(common: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return common, sqrt(a * b)


class Cosine(VectorKernel):
    """k(x, x') = x . x' / (||x|| ||x'||); a zero vector is alike to zero vectors alone.

    Fingerprints may be given as `PackedBits`, bit vectors or hex strings, as for `Tanimoto`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Cosine
    >>> float(Cosine()(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]]))[0, 0].round(4))
    0.7071
    """

    runs_on_device = True

    @property
    def normalized(self) -> bool:
        return True

    def encode(self, objects: Any) -> Any:
        """Return a finite dense or CSR matrix of float32 or float64; bits stay packed."""
        packed = None if _is_matrix(objects) else pack_objects(objects)
        return super().encode(objects) if packed is None else packed

    def against(self, B: Any) -> Block:
        return set_blocks(_cosine, B, self._of_matrix)

    def _of_matrix(self, B: Any) -> Block:
        unit, zero = _unit_rows(B)
        linear, any_zero = Linear().against(unit), bool(zero.any())

        def block(A: Any, out: Any = None) -> Any:
            unit_a, zero_a = _unit_rows(A)
            K = linear(unit_a, out)
            if any_zero and zero_a.any():
                K[zero_a[:, None] & zero] = 1.0
            return K

        return block

    def diag(self, A: Any) -> Any:
        return ones(n_rows(A), A)


def _unit_rows(A: Any) -> tuple[Any, Any]:
    """Return the rows divided by their norms, and the mask of the zero rows."""
    xp = namespace(A)
    norms = xp.sqrt(squared_norms(A))
    zero = norms == 0
    scale = cast(1.0 / xp.where(zero, 1.0, norms), float_dtype(A))
    if sparse.issparse(A):
        return sparse.diags_array(scale) @ A, zero
    return A * scale[:, None], zero


# Gram blocks -----------------------------------------------------------------------------------


def divide_sets(parts: Parts, common: Any, a: Any, b: Any, out: Any) -> Any:
    """Fill `out` with a kernel of the overlaps and sizes of sets; two empty ones are alike."""
    top, bottom = parts(common, a[:, None], b)
    empty_a, empty_b = a <= 0, b <= 0
    any_empty = bool(empty_a.any() or empty_b.any())
    if any_empty:
        bottom[empty_a] = 1.0
        bottom[:, empty_b] = 1.0
    namespace(common).divide(top, bottom, out=out)
    if any_empty:
        out[empty_a] = 0.0
        out[:, empty_b] = 0.0
        out[empty_a[:, None] & empty_b] = 1.0
    return out


class BitBlocks:
    """The block function (A, out=None) -> K(A, B) of packed rows.

    It counts in a compiled loop where numba is installed, else multiplies unpacked bits in float32,
    which is exact. Both divide the same integers in float64, so that the results are the same. Bits
    in tensors are multiplied, on a card in float16, whose sums there are exact; the division is in
    the precision of the rows.
    """

    def __init__(self, parts: Parts, B: PackedBits) -> None:
        self.parts, self.B = parts, B
        self._exact: Any = np.float32 if B.n_bits < _EXACT else np.float64
        if is_gpu_tensor(B.words):
            self._exact = np.float16

    def __call__(self, A: PackedBits, out: Any = None) -> Any:
        B = self.B
        if A.n_bits != B.n_bits:  # a compiled loop would read beyond the end
            raise ValueError(f"Rows have {A.n_bits} bits, and landmarks {B.n_bits}.")
        if out is None:
            out = empty((len(A), len(B)), A.words, A.dtype)
        if is_tensor(A.words):  # one product: the device shares it itself
            self._fill(A.unpack(self._exact), cast(A.sizes, A.dtype), out, slice(0, len(B)))
        elif not is_worthwhile(self.parts, out.size * B.words.shape[1]):
            self._multiply(A, out)
        elif out.flags.f_contiguous and not out.flags.c_contiguous:  # kernels are symmetric
            fill_ratios(self.parts, B.words, B.sizes, A.words, A.sizes, out.T)
        else:
            fill_ratios(self.parts, A.words, A.sizes, B.words, B.sizes, out)
        return out

    def _multiply(self, A: PackedBits, out: np.ndarray) -> None:
        """Fill `out` by matrix products of unpacked bits, in as many threads as BLAS would use."""
        threads = spare_threads() if len(self.B) > _RIGHT else 1  # BLAS shares one product itself
        for rows in row_slices(len(A), _LEFT):
            left, sizes = A[rows].unpack(self._exact), A.sizes[rows]
            fill = functools.partial(self._fill, left, sizes, out[rows])
            for _ in map_blocks(fill, row_slices(len(self.B), _RIGHT), n_jobs=threads):
                pass

    def _fill(self, left: Any, a: Any, out: Any, columns: slice) -> None:
        """Fill some columns of some rows."""
        common, b = _counts(left, self._unpacked(columns)), cast(self.B.sizes[columns], a.dtype)
        at_once = max(1, len(common)) if is_tensor(common) else _DIVIDED
        for some in row_slices(len(common), at_once):
            part = cast(common[some], a.dtype)
            divide_sets(self.parts, part, a[some], b, out[some, columns])

    def _unpacked(self, columns: slice) -> Any:
        if self.B.n_bits * len(self.B) * np.dtype(self._exact).itemsize > _KEPT_BYTES:
            return self.B[columns].unpack(self._exact)
        return self._kept[columns]

    @functools.cached_property
    def _kept(self) -> Any:
        return self.B.unpack(self._exact)


def _counts(left: Any, right: Any) -> Any:
    """Return left right', exactly: what float16 cannot count is added up in float32."""
    if left.dtype.itemsize > 2:
        return left @ right.T
    parts = row_slices(left.shape[1], _EXACT_HALF)
    return sum(cast(left[:, some] @ right[:, some].T, np.float32) for some in parts)


def set_blocks(parts: Parts, B: Any, of_matrix: Callable[[Any], Block]) -> Block:
    """Return the block function of B, packed or a matrix, for rows A that may be either.

    `of_matrix` makes the block function of B as a matrix, which may have counts.
    """

    @functools.cache
    def bits() -> BitBlocks | None:
        packed = _packed(B)
        return None if packed is None else BitBlocks(parts, packed)

    @functools.cache
    def matrices() -> Block:
        return of_matrix(B.toarray() if isinstance(B, PackedBits) else B)

    def block(A: Any, out: Any = None) -> Any:
        if isinstance(A, PackedBits) or isinstance(B, PackedBits):
            packed, blocks = _packed(A), bits()
            if packed is not None and blocks is not None:
                return blocks(packed, out)
        return matrices()(A.toarray() if isinstance(A, PackedBits) else A, out)

    return block


def _packed(rows: Any) -> PackedBits | None:
    if isinstance(rows, PackedBits):
        return rows
    return None if is_tensor(rows) else pack_matrix(rows)
