"""Sets, fingerprints and counts: rows of 0 and 1, packed where they are long, and their kernels."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from string import hexdigits
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from .._numerics import arrays
from .._numerics.arrays import cast, float_dtype, is_tensor, n_rows, namespace, row_slices
from .._numerics.objects import Rows as ObjectRows
from .._numerics.saving import arrays_of
from .._numerics.threads import map_blocks, spare_threads
from .._numerics.typing import Array, Objects, Rows, SparseMatrix, VectorRows
from .base import Block
from .popcount import Parts, fill_ratios, is_worthwhile
from .vectors import (
    Linear,
    VectorKernel,
    WithGamma,
    block_buffer,
    median_of_pairs,
    squared_norms,
)

_WORD = np.dtype("<u8")
# The number of ones in each byte.
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
# Bits that are counted, packed or unpacked at a time: 16 MB as bytes.
_AT_ONCE = 2**24
# Matrices of fewer columns stay as they are, so that landmarks and files of small label sets are
# plain matrices. Packed rows are faster with numba: 0.2 times the time at 256 columns, 0.5 at 64.
_LEAST_BITS = 256
# Bytes of a stored entry of a CSR matrix: a number of 8 bytes, an index of 4.
_ENTRY_BYTES = 12
# Rows and columns of the blocks that are unpacked and multiplied, each by one thread. 3,000 rows of
# 2,048 bits: half takes 1.04 times as long, a quarter 1.15, double and more 0.98.
_LEFT, _RIGHT = 512, 1024
# Rows of a product that are divided at a time, in cache; 16 to 256 are within 1 % of each other.
_DIVIDED = 64
# Bytes of unpacked columns that are kept from one block to the next: 256 MB, a limit of memory.
_KEPT_BYTES = 2**28
# float32 counts exactly up to here, float16 up to the next.
_EXACT, _EXACT_HALF = 2**24, 2**11


class PackedBits(ObjectRows):
    """Rows of 0 and 1, packed: 64 columns in a word, 1/64 of the memory of float64.

    Column j of a row is bit j % 64, from the lowest, of word j // 64. Kernels on sets take them
    as they take a matrix, `numpy.asarray` unpacks them.

    Parameters
    ----------
    words : ndarray of uint64, shape (n, ceil(n_bits / 64))
        Bits beyond `n_bits` are 0. On a device, `to_device` holds them as a tensor of bytes.
    n_bits : int
        Number of columns.
    dtype : float32 or float64, default float64
        The precision of kernel values.

    Attributes
    ----------
    sizes : ndarray of float64, shape (n,)
        The number of ones of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import PackedBits
    >>> bits = PackedBits(np.array([[5], [2]], dtype=np.uint64), n_bits=3)
    >>> bits.toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]])
    >>> bits[1:].sizes
    array([1.])
    """

    ndim = 2

    def __init__(self, words: np.ndarray, n_bits: int, dtype: DTypeLike = np.float64) -> None:
        words = np.asarray(words)
        expected = max(1, -(-n_bits // 64))
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != expected:
            raise ValueError(
                f"words must be uint64 of shape (n, {expected}) for n_bits={n_bits}. "
                f"Got {words.dtype} of shape {words.shape} instead."
            )
        beyond = words[:, -1] >> np.uint64(n_bits - 64 * (expected - 1)) if n_bits % 64 else 0
        if np.any(beyond):
            raise ValueError(f"words must have no ones beyond n_bits={n_bits}. Got some instead.")
        self.words: Array = np.ascontiguousarray(words)
        self.n_bits: int = int(n_bits)
        self.dtype: np.dtype = _precision(dtype)
        self.sizes: np.ndarray = _count_ones(self.words)

    @classmethod
    def __skout_restore__(cls, state: dict[str, Any]) -> Self:
        (words,) = arrays_of(state, "words")
        return cls(words, state["n_bits"], state["dtype"])

    def _like(self, words: Array, sizes: Array, dtype: DTypeLike | None = None) -> Self:
        """Return rows of as many bits, whose words need no check."""
        other = object.__new__(type(self))
        other.words, other.sizes, other.n_bits = words, sizes, self.n_bits
        other.dtype = self.dtype if dtype is None else _precision(dtype)
        return other

    def __len__(self) -> int:
        return len(self.words)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), self.n_bits)

    def __repr__(self) -> str:
        return f"<PackedBits: {len(self)} rows of {self.n_bits} bits, {self.dtype}>"

    def __getitem__(self, index: Any) -> Self:
        if isinstance(index, tuple):
            if len(index) != 2 or index[1] is not ...:
                raise TypeError(f"PackedBits take an index of rows alone. Got {index!r} instead.")
            index = index[0]  # scikit-learn indexes by rows[index, ...]
        if isinstance(index, slice):
            return self._like(self.words[index], self.sizes[index])
        chosen = np.atleast_1d(np.arange(len(self))[index])
        return self._like(self.words[chosen], self.sizes[chosen])

    @property
    def held(self) -> Array:
        return self.words

    def moved(self, move: Callable[[Array], Array]) -> Self:
        return self._like(move(_octets(self.words)), move(self.sizes))

    def keys(self) -> list[bytes]:
        return [row.tobytes() for row in self.words]

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Any:
        """Return the rows of all parts; a matrix where one of them is a matrix.

        Parameters
        ----------
        parts : sequence of PackedBits and matrices of as many columns
        """
        if not all(isinstance(part, PackedBits) for part in parts):
            dense = (part.toarray() if hasattr(part, "toarray") else part for part in parts)
            return np.concatenate([np.asarray(part) for part in dense])
        if len({part.n_bits for part in parts}) > 1:
            counts = ", ".join(str(part.n_bits) for part in parts)
            raise ValueError(f"Packed bits must have the same number of columns. Got {counts}.")
        words = np.concatenate([part.words for part in parts])
        sizes = np.concatenate([part.sizes for part in parts])
        dtype = np.result_type(*(part.dtype for part in parts))
        return parts[0]._like(words, sizes, dtype)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> Self:
        """Return rows whose kernel values are float32 or float64.

        Parameters
        ----------
        dtype : float32 or float64
        copy : bool, default True
            Whether to copy the words too.
        """
        words, sizes = (self.words.copy(), self.sizes.copy()) if copy else (self.words, self.sizes)
        return self._like(words, sizes, dtype)

    def unpack(self, dtype: DTypeLike = np.uint8) -> Array:
        """Return the bits as an array of 0 and 1, shape (n, n_bits).

        Parameters
        ----------
        dtype : dtype, default uint8
        """
        out = arrays.empty(self.shape, self.words, dtype)
        for rows in row_slices(len(self), max(1, _AT_ONCE // max(1, self.n_bits))):
            out[rows] = arrays.unpack_bits(_octets(self.words[rows]), self.n_bits)
        return out

    def toarray(self) -> np.ndarray:
        """Return the bits as a matrix of 0 and 1, in the precision of the rows."""
        return self.unpack(self.dtype)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self.unpack(self.dtype if dtype is None else dtype)


def _octets(words: Array) -> Array:
    """Return words as bytes, lowest first; tensors are bytes already."""
    if not is_tensor(words):
        words = np.ascontiguousarray(words).astype(_WORD, copy=False).view(np.uint8)
    return words


def _precision(dtype: DTypeLike) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64. Got {dtype} instead.")
    return dtype


def _count_ones(words: np.ndarray) -> np.ndarray:
    sizes = np.empty(len(words))
    for rows in row_slices(len(words), max(1, _AT_ONCE // (64 * words.shape[1]))):
        sizes[rows] = _ONES[words[rows].view(np.uint8)].sum(axis=1)
    return sizes


def pack_matrix(matrix: Array) -> PackedBits | None:
    """Return a matrix of 0 and 1, dense or canonical CSR, packed; None where it has other values.

    float32 stays the precision of kernel values; all else makes float64.
    """
    dtype = float_dtype(matrix)
    n, d = matrix.shape
    if sparse.issparse(matrix):
        if not np.all((matrix.data == 0) | (matrix.data == 1)):
            return None
        return PackedBits(_words_of_csr(matrix), d, dtype)
    words = np.empty((n, max(1, -(-d // 64))), dtype=np.uint64)
    for rows in row_slices(n, max(1, _AT_ONCE // max(1, d))):
        part = np.asarray(matrix[rows])
        ones = part if part.dtype == bool else part == 1
        if part.dtype != bool and np.count_nonzero(part) != np.count_nonzero(ones):
            return None
        words[rows] = _words(np.packbits(ones, axis=1, bitorder="little"))
    return PackedBits(words, d, dtype)


def _words(octets: np.ndarray) -> np.ndarray:
    """Return rows of bytes, lowest bits first, as rows of words."""
    n, width = octets.shape
    padded = np.zeros((n, max(8, -(-width // 8) * 8)), dtype=np.uint8)
    padded[:, :width] = octets
    return padded.view(_WORD).astype(np.uint64, copy=False)


def _words_of_csr(matrix: SparseMatrix) -> np.ndarray:
    """Return the words of a CSR matrix, whose indices are sorted, so that words are in order."""
    n, d = matrix.shape
    words = np.zeros((n, max(1, -(-d // 64))), dtype=np.uint64)
    stored = matrix.data != 0
    columns = matrix.indices[stored].astype(np.int64)
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(matrix.indptr))[stored]
    if len(columns):
        place = rows * words.shape[1] + columns // 64
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        bits = np.uint64(1) << (columns % 64).astype(np.uint64)
        words.reshape(-1)[place[starts]] = np.bitwise_or.reduceat(bits, starts)
    return words


def pack_objects(objects: Objects) -> PackedBits | None:
    """Return a list of RDKit bit vectors or of hex strings packed; None for anything else.

    Hex strings are as in the FPS format: two digits a byte, bit 0 the lowest of the first byte.
    """
    if isinstance(objects, PackedBits):
        return objects
    is_list = isinstance(objects, list | tuple) or getattr(objects, "ndim", 0) == 1
    if not is_list or len(objects) == 0:
        return None
    items = list(iter(objects))
    if isinstance(items[0], str):
        return _from_hex(items)
    return _from_bit_vectors(items) if hasattr(items[0], "ToBitString") else None


def _from_hex(items: list[Any]) -> PackedBits:
    texts = [item if isinstance(item, str) else "?" for item in items]
    lengths = np.array([len(text) for text in texts])
    n_bits = 4 * int(lengths[0])
    try:
        if n_bits == 0 or n_bits % 8 or np.any(lengths != lengths[0]):
            raise ValueError
        octets = np.frombuffer(bytes.fromhex("".join(texts)), dtype=np.uint8)
        octets = octets.reshape(len(texts), n_bits // 8)
    except ValueError:
        i = next(i for i, text in enumerate(texts) if not _is_hex(text, int(lengths[0])))
        raise ValueError(
            "Strings must be fingerprints in hex, two digits a byte and all of one length. "
            f"Got {items[i]!r} at position {i} instead. SMILES become fingerprints by "
            "skout.molecules.fingerprints."
        ) from None
    return PackedBits(_words(octets), n_bits)


def _is_hex(text: str, length: int) -> bool:
    return 0 < len(text) == length and length % 2 == 0 and set(text) <= set(hexdigits)


def _from_bit_vectors(items: list[Any]) -> PackedBits:
    n_bits = items[0].GetNumBits()
    for i, item in enumerate(items):
        if not hasattr(item, "ToBitString"):
            raise TypeError(
                "Fingerprints must all be bit vectors. "
                f"Got an object of type {type(item).__name__} at position {i} instead."
            )
        if item.GetNumBits() != n_bits:
            raise ValueError(
                "Bit vectors must have the same number of bits. "
                f"Got {n_bits} at position 0 and {item.GetNumBits()} at position {i}."
            )
    if all(type(item).__name__ == "ExplicitBitVect" for item in items):
        from rdkit.DataStructs import BitVectToBinaryText

        octets = np.frombuffer(b"".join(map(BitVectToBinaryText, items)), dtype=np.uint8)
        return PackedBits(_words(octets.reshape(len(items), -1)), n_bits)
    digits = np.array([np.frombuffer(item.ToBitString().encode(), np.uint8) for item in items])
    return PackedBits(_words(np.packbits(digits == ord("1"), axis=1, bitorder="little")), n_bits)


# Kernels ----------------------------------------------------------------------------------------


class _SetKernel(VectorKernel):
    """Base of the kernels of |a|, |b| and |a and b|, for 0/1 vectors (sets) and counts.

    |a| is the sum of a, |a and b| the sum of min(a, b). Two empty sets are alike.
    """

    runs_on_device = True
    normalized = True
    compares = "label_sets"
    #: (|a and b|, |a|, |b|) -> numerator and denominator
    _parts: Parts

    def encode(self, objects: Objects) -> Rows:
        """Return packed bits, or a non-negative dense or CSR matrix of float32 or float64.

        Parameters
        ----------
        objects : array, CSR matrix, list of RDKit bit vectors, list of hex strings or PackedBits
            A matrix of 0 and 1 is packed where it has at least 256 columns and this saves memory;
            counts stay as they are.
        """
        packed = None if _is_matrix(objects) else pack_objects(objects)
        is_array = isinstance(objects, np.ndarray) and objects.ndim == 2
        if is_array and np.asarray(objects).dtype.kind in "biu" and _is_long(np.asarray(objects)):
            packed = pack_matrix(np.asarray(objects))  # without a copy in float64
        if packed is not None:
            return packed
        rows: Any = super().encode(objects)
        values = rows.data if sparse.issparse(rows) else rows
        if values.size and values.min() < 0:
            raise ValueError(
                f"{type(self).__name__} takes 0/1 vectors or counts, so values must be >= 0. "
                f"Got {values.min():g}."
            )
        packed = pack_matrix(rows) if _is_long(rows) else None
        return rows if packed is None else packed

    def against(self, B: VectorRows | PackedBits) -> Block:
        return set_blocks(type(self)._parts, B, self._of_matrix)

    def _of_matrix(self, B: Array) -> Block:
        """Return the block function of matrices, whose values may be counts."""
        overlap = _overlap_with(B)
        size_b = _row_sums(B)

        def block(A: Array, out: Array | None = None) -> Array:
            common = overlap(A, block_buffer(A, n_rows(B), out))
            a, b = cast(_row_sums(A), common.dtype), cast(size_b, common.dtype)
            return divide_sets(type(self)._parts, common, a, b, common)

        return block

    def diag(self, A: VectorRows | PackedBits) -> Array:
        return arrays.ones(n_rows(A), A)


def _row_sums(A: Array) -> Array:
    return np.asarray(A.sum(axis=1)).ravel() if sparse.issparse(A) else A.sum(axis=1)


def _is_matrix(objects: Objects) -> bool:
    """Return whether this is a matrix or data frame, neither packed bits nor fingerprints."""
    return getattr(objects, "ndim", 1) == 2 and not isinstance(objects, ObjectRows)


def _is_long(matrix: Array) -> bool:
    """Return whether packing a matrix of 0 and 1 saves time and memory: enough columns and ones."""
    if matrix.shape[1] < _LEAST_BITS:
        return False
    return not sparse.issparse(matrix) or _ENTRY_BYTES * matrix.nnz >= np.prod(matrix.shape) / 8


# Up to this many different values, overlaps are matrix products, one a value; else one pass over
# the block for each column. On one thread the two are even at about 90 values for CSR rows of 1,000
# columns, at 16 for dense rows.
_MAX_LEVELS = 64


def _overlap_with(B: Array) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one matrix product for each level of B.

    With the values 0 = v_0 < v_1 < ... of B, min(a, b) = sum_i (clip(a, v_{i-1}, v_i) - v_{i-1})
    1[b >= v_i]: for 0/1 vectors a single product.
    """
    values = namespace(B).unique(B.data if sparse.issparse(B) else B)
    levels = values[values > 0].tolist()
    if len(levels) > _MAX_LEVELS:
        return _overlap_by_column(B)
    indicators = [arrays.RightOperand(_indicator(B, level)) for level in levels]
    lower = [0.0, *levels][:-1]

    def overlap(A: Array, out: Array) -> Array:
        out[...] = 0.0
        for low, high, right in zip(lower, levels, indicators, strict=True):
            out += right.product(_share(A, low, high))
        return out

    return overlap


def _overlap_by_column(B: Array) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one pass over the block for each column."""
    columns = arrays.contiguous(arrays.dense(B).T)
    is_set: Any = (columns > 0).any(axis=1)
    not_zero = [j for j, any_set in enumerate(is_set.tolist()) if any_set]

    def overlap(A: Array, out: Array) -> Array:
        out[...] = 0.0
        A, xp = arrays.dense(A), namespace(out)
        for j in not_zero:
            out += xp.minimum(A[:, j, None], columns[j])
        return out

    return overlap


def _indicator(B: Array, level: float) -> Array:
    """Return 1[b >= level] in the format of B."""
    if not sparse.issparse(B):
        return cast(level <= B, B.dtype)
    out: Any = B.copy()
    out.data = (level <= B.data).astype(B.dtype)
    out.eliminate_zeros()
    indicator: Array = out
    return indicator


def _share(A: Array, low: float, high: float) -> Array:
    """Return min(max(a, low), high) - low of each entry, dense or CSR as A is."""
    if not sparse.issparse(A):
        return namespace(A).clip(A, low, high) - low
    out: Any = A.copy()
    out.data = np.clip(A.data, low, high) - low
    share: Array = out
    return share


def _tanimoto(common: Array, a: Array, b: Array) -> tuple[Array, Array]:
    return common, a + b - common


def _f1(common: Array, a: Array, b: Array) -> tuple[Array, Array]:
    return 2.0 * common, a + b


class Tanimoto(_SetKernel):
    """Tanimoto (Jaccard) kernel ``|a and b| / |a or b|`` of 0/1 vectors, fingerprints or counts.

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
    """F1 score of two label sets as a kernel, ``k(a, b) = 2 |a and b| / (|a| + |b|)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import F1
    >>> float(F1()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0].round(4))
    0.6667
    """

    _parts = staticmethod(_f1)


class GaussianTanimoto(_SetKernel, WithGamma):
    """Gaussian kernel of Tanimoto features, exp(-gamma (2 - 2 t(a, b))), t the Tanimoto kernel.

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
    gammas: tuple[str, ...] = ("median",)

    def __init__(self, gamma: float | str = 1.0) -> None:
        self.gamma = gamma

    def _median_length(self, rows: Array, weights: np.ndarray | None) -> float:
        rows = arrays.astype(rows, np.float64)
        distances = 2.0 - 2.0 * Tanimoto().against(rows)(rows)  # squared, of the features
        return 2.0 * median_of_pairs(distances, weights)

    def against(self, B: VectorRows | PackedBits) -> Block:
        gamma = self._width()
        tanimoto = super().against(B)

        def block(A: Array, out: Array | None = None) -> Array:
            K = tanimoto(A, out)
            K -= 1.0
            K *= 2.0 * float(gamma)
            return namespace(K).exp(K, out=K)

        return block

    def diag(self, A: VectorRows | PackedBits) -> Array:
        self._width()
        return super().diag(A)


def _cosine(common: Array, a: Array, b: Array) -> tuple[Array, Array]:
    return common, arrays.sqrt(a * b)


class Cosine(VectorKernel):
    """Cosine kernel x . x' / (||x|| ||x'||); a zero vector is alike to zero vectors alone.

    Fingerprints may be given as `PackedBits`, bit vectors or hex strings, as for `Tanimoto`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Cosine
    >>> float(Cosine()(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]]))[0, 0].round(4))
    0.7071
    """

    runs_on_device = True
    normalized = True

    def encode(self, objects: Objects) -> Rows:
        """Return a finite dense or CSR matrix of float32 or float64; bits stay packed."""
        packed = None if _is_matrix(objects) else pack_objects(objects)
        return super().encode(objects) if packed is None else packed

    def against(self, B: VectorRows | PackedBits) -> Block:
        return set_blocks(_cosine, B, self._of_matrix)

    def _of_matrix(self, B: Array) -> Block:
        unit, zero = _unit_rows(B)
        linear, any_zero = Linear().against(unit), bool(zero.any())

        def block(A: Array, out: Array | None = None) -> Array:
            unit_a, zero_a = _unit_rows(A)
            K = linear(unit_a, out)
            if any_zero and zero_a.any():
                K[zero_a[:, None] & zero] = 1.0
            return K

        return block

    def diag(self, A: VectorRows | PackedBits) -> Array:
        return arrays.ones(n_rows(A), A)


def _unit_rows(A: Array) -> tuple[Array, Array]:
    """Return the rows divided by their norms, and the mask of the zero rows."""
    xp = namespace(A)
    norms = xp.sqrt(squared_norms(A))
    zero = norms == 0
    scale = cast(1.0 / xp.where(zero, 1.0, norms), float_dtype(A))
    if sparse.issparse(A):
        return sparse.diags_array(scale) @ A, zero
    return A * scale[:, None], zero


# Gram blocks -----------------------------------------------------------------------------------


def divide_sets(parts: Parts, common: Array, a: Array, b: Array, out: Array) -> Array:
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
    in tensors are multiplied, on a GPU in float16, whose sums there are exact; the division is in
    the precision of the rows.
    """

    parts: Parts

    def __init__(self, parts: Parts, B: PackedBits) -> None:
        self.parts, self.B = parts, B
        self._exact: Any = np.float32 if B.n_bits < _EXACT else np.float64
        if arrays.is_gpu_tensor(B.words):
            self._exact = np.float16

    def __call__(self, A: PackedBits, out: Array | None = None) -> Array:
        B = self.B
        if A.n_bits != B.n_bits:  # a compiled loop would read beyond the end
            raise ValueError(f"Rows have {A.n_bits} bits, and landmarks {B.n_bits}.")
        if out is None:
            out = arrays.empty((len(A), len(B)), A.words, A.dtype)
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

    def _fill(self, left: Array, a: Array, out: Array, columns: slice) -> None:
        """Fill the given columns of the rows that `left` and `out` are of."""
        common, b = _counts(left, self._unpacked(columns)), cast(self.B.sizes[columns], a.dtype)
        at_once = max(1, len(common)) if is_tensor(common) else _DIVIDED
        for rows in row_slices(len(common), at_once):
            part = cast(common[rows], a.dtype)
            divide_sets(self.parts, part, a[rows], b, out[rows, columns])

    def _unpacked(self, columns: slice) -> Array:
        if self.B.n_bits * len(self.B) * np.dtype(self._exact).itemsize > _KEPT_BYTES:
            return self.B[columns].unpack(self._exact)
        return self._kept[columns]

    @functools.cached_property
    def _kept(self) -> Array:
        return self.B.unpack(self._exact)


def _counts(left: Array, right: Array) -> Array:
    """Return left right', exactly: what float16 cannot count is added up in float32."""
    if left.dtype.itemsize > 2:
        return left @ right.T
    parts = row_slices(left.shape[1], _EXACT_HALF)
    terms = (cast(left[:, part] @ right[:, part].T, np.float32) for part in parts)
    return functools.reduce(operator.add, terms)


def set_blocks(parts: Parts, B: Array | PackedBits, of_matrix: Callable[[Array], Block]) -> Block:
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

    def block(A: Array, out: Array | None = None) -> Array:
        if isinstance(A, PackedBits) or isinstance(B, PackedBits):
            packed, blocks = _packed(A), bits()
            if packed is not None and blocks is not None:
                return blocks(packed, out)
        return matrices()(A.toarray() if isinstance(A, PackedBits) else A, out)

    return block


def _packed(rows: Array | PackedBits) -> PackedBits | None:
    if isinstance(rows, PackedBits):
        return rows
    return None if is_tensor(rows) else pack_matrix(rows)
