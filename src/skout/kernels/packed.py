"""Packed bits: 0/1 rows with 64 columns in a word, made of matrices or of fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from .._numerics.arrays import empty, float_dtype, is_tensor, row_slices, unpack_bits
from .._numerics.objects import Rows
from .._numerics.saving import arrays_of

__all__ = ["PackedBits", "pack_matrix", "pack_objects"]

_WORD = np.dtype("<u8")
# The number of ones in each byte.
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
# Bits that are looked at, packed or unpacked at a time.
_AT_ONCE = 2**24


class PackedBits(Rows):
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
    >>> from skout.kernels.packed import PackedBits
    >>> bits = PackedBits(np.array([[5], [2]], dtype=np.uint64), n_bits=3)
    >>> bits.toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]])
    >>> bits[1:].sizes
    array([1.])
    """

    ndim = 2

    def __init__(self, words: np.ndarray, n_bits: int, dtype: Any = np.float64) -> None:
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
        self.words = np.ascontiguousarray(words)
        self.n_bits = int(n_bits)
        self.dtype = _precision(dtype)
        self.sizes = _count_ones(self.words)

    @classmethod
    def __skout_restore__(cls, state: dict[str, Any]) -> Self:
        (words,) = arrays_of(state, "words")
        return cls(words, state["n_bits"], state["dtype"])

    def _like(self, words: Any, sizes: Any, dtype: Any = None) -> Self:
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
            index = index[0]  # scikit-learn asks for rows[index, ...]
        if isinstance(index, slice):
            return self._like(self.words[index], self.sizes[index])
        chosen = np.atleast_1d(np.arange(len(self))[index])
        return self._like(self.words[chosen], self.sizes[chosen])

    @property
    def held(self) -> Any:
        return self.words

    def moved(self, move: Callable[[Any], Any]) -> Self:
        return self._like(move(_octets(self.words)), move(self.sizes))

    def keys(self) -> list[bytes]:
        return [row.tobytes() for row in self.words]

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Any:
        """Return the rows of all parts; a matrix where one of them is a matrix."""
        if not all(isinstance(part, PackedBits) for part in parts):
            return np.concatenate([_as_array(part) for part in parts])
        if len({part.n_bits for part in parts}) > 1:
            given = ", ".join(str(part.n_bits) for part in parts)
            raise ValueError(f"Packed bits must have the same number of columns. Got {given}.")
        words = np.concatenate([part.words for part in parts])
        sizes = np.concatenate([part.sizes for part in parts])
        dtype = np.result_type(*(part.dtype for part in parts))
        return parts[0]._like(words, sizes, dtype)

    def astype(self, dtype: Any, copy: bool = True) -> Self:
        """Return rows whose kernel values are float32 or float64."""
        words, sizes = (self.words.copy(), self.sizes.copy()) if copy else (self.words, self.sizes)
        return self._like(words, sizes, dtype)

    def unpack(self, dtype: Any = np.uint8) -> Any:
        """Return the bits as an array of 0 and 1, shape (n, n_bits)."""
        out = empty(self.shape, self.words, dtype)
        for some in row_slices(len(self), max(1, _AT_ONCE // max(1, self.n_bits))):
            out[some] = unpack_bits(_octets(self.words[some]), self.n_bits)
        return out

    def toarray(self) -> np.ndarray:
        """Return the bits as a matrix of 0 and 1, in the precision of the rows."""
        return self.unpack(self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.unpack(self.dtype if dtype is None else dtype)


def _octets(words: Any) -> Any:
    """Return words as bytes, lowest first; tensors are bytes already."""
    if is_tensor(words):
        return words
    return np.ascontiguousarray(words).astype(_WORD, copy=False).view(np.uint8)


def _precision(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64. Got {dtype} instead.")
    return dtype


def _as_array(part: Any) -> np.ndarray:
    return part.toarray() if hasattr(part, "toarray") else np.asarray(part)


def _count_ones(words: np.ndarray) -> np.ndarray:
    sizes = np.empty(len(words))
    for some in row_slices(len(words), max(1, _AT_ONCE // (64 * words.shape[1]))):
        sizes[some] = _ONES[words[some].view(np.uint8)].sum(axis=1)
    return sizes


# From objects ----------------------------------------------------------------------------------


def pack_matrix(matrix: Any) -> PackedBits | None:
    """Pack a matrix of 0 and 1, dense or canonical CSR; None where it has other values.

    float32 stays the precision of kernel values; all else makes float64.
    """
    dtype = float_dtype(matrix)
    n, d = matrix.shape
    if sparse.issparse(matrix):
        if not np.all((matrix.data == 0) | (matrix.data == 1)):
            return None
        return PackedBits(_words_of_csr(matrix), d, dtype)
    words = np.empty((n, max(1, -(-d // 64))), dtype=np.uint64)
    for some in row_slices(n, max(1, _AT_ONCE // max(1, d))):
        part = np.asarray(matrix[some])
        ones = part if part.dtype == bool else part == 1
        if part.dtype != bool and np.count_nonzero(part) != np.count_nonzero(ones):
            return None
        words[some] = _words(np.packbits(ones, axis=1, bitorder="little"))
    return PackedBits(words, d, dtype)


def _words(octets: np.ndarray) -> np.ndarray:
    """Return rows of bytes, lowest bits first, as rows of words."""
    n, given = octets.shape
    padded = np.zeros((n, max(8, -(-given // 8) * 8)), dtype=np.uint8)
    padded[:, :given] = octets
    return padded.view(_WORD).astype(np.uint64, copy=False)


def _words_of_csr(matrix: Any) -> np.ndarray:
    """Return the words of a CSR matrix, whose indices are sorted, so that words are in order."""
    n, d = matrix.shape
    words = np.zeros((n, max(1, -(-d // 64))), dtype=np.uint64)
    there = matrix.data != 0
    columns = matrix.indices[there].astype(np.int64)
    rows = np.repeat(np.arange(n, dtype=np.int64), np.diff(matrix.indptr))[there]
    if len(columns):
        place = rows * words.shape[1] + columns // 64
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        bits = np.uint64(1) << (columns % 64).astype(np.uint64)
        words.reshape(-1)[place[starts]] = np.bitwise_or.reduceat(bits, starts)
    return words


def pack_objects(objects: Any) -> PackedBits | None:
    """Pack a list of RDKit bit vectors or of hex strings; None where it is no such list.

    Hex strings are as in the FPS format: two digits a byte, bit 0 the lowest of the first byte.
    """
    if isinstance(objects, PackedBits):
        return objects
    is_list = isinstance(objects, list | tuple) or getattr(objects, "ndim", 0) == 1
    if not is_list or len(objects) == 0:
        return None
    items = list(objects)
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
    is_even = 0 < len(text) == length and length % 2 == 0
    return is_even and all(digit in "0123456789abcdefABCDEF" for digit in text)


def _from_bit_vectors(items: list[Any]) -> PackedBits:
    for i, item in enumerate(items):
        if not hasattr(item, "ToBitString"):
            raise TypeError(
                "Fingerprints must all be bit vectors. "
                f"Got an object of type {type(item).__name__} at position {i} instead."
            )
    n_bits = items[0].GetNumBits()
    for i, item in enumerate(items):
        if item.GetNumBits() != n_bits:
            raise ValueError(
                "Bit vectors must have the same number of bits. "
                f"Got {n_bits} at position 0 and {item.GetNumBits()} at position {i}."
            )
    octets = np.frombuffer(b"".join(map(_octets_reader(items), items)), dtype=np.uint8)
    return PackedBits(_words(octets.reshape(len(items), -1)), n_bits)


def _octets_reader(items: list[Any]) -> Any:
    """Return the function from a bit vector to its bytes: RDKit's own, or through a string."""
    if all(type(item).__name__ == "ExplicitBitVect" for item in items):
        from rdkit.DataStructs import BitVectToBinaryText

        return BitVectToBinaryText

    def read(item: Any) -> bytes:
        digits = np.frombuffer(item.ToBitString().encode(), dtype=np.uint8) == ord("1")
        return np.packbits(digits, bitorder="little").tobytes()

    return read
