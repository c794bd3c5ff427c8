"""Rows: the encoded form of a data set.

A dense or CSR matrix, a 1-D array of objects, or `Rows`: packed bits, bags, peak lists.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from .namespace import cast, contiguous, empty, namespace, tensor

__all__ = [
    "Joint",
    "Ragged",
    "RightOperand",
    "Rows",
    "as_objects",
    "astype",
    "float_dtype",
    "has_rows",
    "match",
    "n_rows",
    "row_keys",
    "row_slices",
    "stack",
    "take",
    "to_device",
    "unique",
    "unique_keys",
]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# A CSR landmark matrix is multiplied as a dense one up to this many numbers.
_DENSE_LIMIT = 2**26
# Formats of sparse matrices that cannot be indexed.
_NO_ROWS = ("bsr", "coo", "dia")
# Numbers of a matrix that are hashed at a time.
_HASHED = 2**20
# Columns of a right operand that a CSR matrix is multiplied with at a time.
_CHUNK = 128


class Rows(ABC):
    """Encoded objects that are neither a matrix nor an array of objects.

    They are indexed by slices, masks and positions, and an index gives rows of the same kind. A
    kernel whose `encode` returns them finds them again in `against` and `diag`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Rows
    >>> class Intervals(Rows):
    ...     def __init__(self, ends):
    ...         self.ends = ends  # (n, 2)
    ...
    ...     def __len__(self):
    ...         return len(self.ends)
    ...
    ...     def __getitem__(self, index):
    ...         return Intervals(self.ends[index])
    ...
    ...     def keys(self):
    ...         return [tuple(ends) for ends in self.ends.tolist()]
    ...
    ...     @classmethod
    ...     def concatenate(cls, parts):
    ...         return cls(np.concatenate([part.ends for part in parts]))
    >>> Intervals(np.array([[0, 1], [2, 5], [3, 4]]))[1:].keys()
    [(2, 5), (3, 4)]
    """

    #: 2 where rows have as many columns as each other, as vectors do
    ndim: int = 1
    #: the precision of kernel blocks, where the rows have one
    dtype: np.dtype = np.dtype(object)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Self: ...

    @abstractmethod
    def keys(self) -> list[Any]:
        """Return one key a row that can be hashed; equal rows have equal keys."""

    @classmethod
    @abstractmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one after the other."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def held(self) -> Any:
        """An array that holds the rows, or a part of them: it tells where they lie."""
        return None

    def moved(self, move: Callable[[Any], Any]) -> Self:
        """Return the rows with `move` applied to each array that holds them, see `to_device`."""
        raise TypeError(f"{type(self).__name__} cannot be held in tensors.")


class Ragged(Rows):
    """Rows of different lengths: row i is columns[j][indptr[i] : indptr[i + 1]] for each j.

    Parameters
    ----------
    indptr : ndarray of int64, shape (n + 1,)
    columns : arrays of one length

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Ragged
    >>> words = Ragged(np.array([0, 2, 3]), np.array([104, 105, 33]))  # two rows: hi, !
    >>> words.lengths
    array([2, 1])
    >>> words[1:].columns[0]
    array([33])
    """

    def __init__(self, indptr: np.ndarray, *columns: np.ndarray) -> None:
        self.indptr = indptr
        self.columns = columns

    def like(self, indptr: np.ndarray, *columns: np.ndarray) -> Self:
        """Return rows of the same kind; a class that knows more than its columns hands it on."""
        return type(self)(indptr, *columns)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of entries of each row."""
        return np.diff(self.indptr)

    @property
    def row_numbers(self) -> np.ndarray:
        """The row that each entry belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __getitem__(self, index: Any) -> Self:
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(len(self))
            indptr = self.indptr[start : max(start, stop) + 1]
            inner = slice(indptr[0], indptr[-1])
            return self.like(indptr - indptr[0], *(column[inner] for column in self.columns))
        chosen = np.atleast_1d(np.arange(len(self))[index])
        lengths = self.lengths[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], lengths)
        return self.like(indptr, *(column[entries] for column in self.columns))

    def keys(self) -> list[Any]:
        ends = zip(self.indptr[:-1], self.indptr[1:], strict=True)
        return [b"".join(column[a:b].tobytes() for column in self.columns) for a, b in ends]

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        starts = np.cumsum([0] + [part.indptr[-1] for part in parts])
        ends = [part.indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        columns = zip(*(part.columns for part in parts), strict=True)
        indptr = np.concatenate([[0], *ends])
        return parts[0].like(indptr, *(np.concatenate(column) for column in columns))


class Joint(Rows):
    """Two encodings of the same objects, side by side.

    Parameters
    ----------
    left, right : rows of equal length
    """

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right
        numeric = [float_dtype(side) for side in (left, right) if is_float(side)]
        self.dtype = np.result_type(*numeric) if numeric else np.dtype(object)

    def __len__(self) -> int:
        return n_rows(self.left)

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.left[index], self.right[index])

    @property
    def ndim(self) -> int:  # type: ignore[override]
        return max(self.left.ndim, self.right.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        widest = max(self.left, self.right, key=lambda side: side.ndim)
        return (len(self), *widest.shape[1:])

    def keys(self) -> list[Any]:
        return list(zip(row_keys(self.left), row_keys(self.right), strict=True))

    def astype(self, dtype: Any, copy: bool = True) -> Self:
        """Cast the sides that are numbers."""
        return type(self)(astype(self.left, dtype), astype(self.right, dtype))

    @property
    def held(self) -> Any:
        return getattr(self.left, "held", self.left)

    def moved(self, move: Callable[[Any], Any]) -> Self:
        return type(self)(moved(self.left, move), moved(self.right, move))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        return cls(stack([part.left for part in parts]), stack([part.right for part in parts]))


def stack(parts: Sequence[Any]) -> Any:
    """Return the rows of several data sets as one."""
    if isinstance(parts[0], Rows):
        return type(parts[0]).concatenate(parts)
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def has_rows(objects: Any) -> bool:
    """Whether `n_rows` has an answer."""
    if hasattr(objects, "shape"):
        return len(objects.shape) > 0
    if isinstance(objects, Mapping):
        return all(has_rows(column) for column in objects.values())
    return hasattr(objects, "__len__")


def n_rows(rows: Any) -> int:
    """Return the number of rows, for sparse matrices and dicts of columns too."""
    if hasattr(rows, "shape"):  # first: some sparse matrices are dicts
        return rows.shape[0]
    if isinstance(rows, Mapping):
        return n_rows(next(iter(rows.values()))) if rows else 0
    return len(rows)


def take(objects: Any, index: Any) -> Any:
    """Return objects[index] for arrays, sparse matrices, data frames, dicts and plain lists."""
    if isinstance(objects, Mapping) and not hasattr(objects, "shape"):
        return {name: take(column, index) for name, column in objects.items()}
    if hasattr(objects, "iloc"):
        return objects.iloc[index]
    if hasattr(objects, "column_names") and not isinstance(index, slice):  # a table of pyarrow
        return objects.take(index)
    if sparse.issparse(objects):
        if objects.format in _NO_ROWS:
            objects = objects.tocsr()
        everything = isinstance(index, slice) and index == slice(0, objects.shape[0])
        return objects if everything else objects[index]  # unlike arrays, they copy for a slice
    if hasattr(objects, "shape"):
        return objects[index]
    if isinstance(index, slice):
        return objects[index]
    return [objects[i] for i in index]


def as_objects(objects: Any) -> np.ndarray:
    """Return a 1-D object array, one entry an object (strings, graphs, tuples, ...).

    Parameters
    ----------
    objects : list or array of objects

    Examples
    --------
    >>> from skout.kernels import as_objects
    >>> as_objects([(1, 2), (3,)])
    array([(1, 2), (3,)], dtype=object)
    """
    if isinstance(objects, np.ndarray) and objects.ndim == 1:
        return objects
    if isinstance(objects, str | set | Mapping) or not hasattr(objects, "__len__"):
        raise TypeError(
            f"Expected a list or array of objects. Got {type(objects).__name__} instead."
        )
    out = np.empty(len(objects), dtype=object)
    for i, item in enumerate(objects):
        out[i] = item
    return out


def float_dtype(rows: Any) -> np.dtype:
    """Return float32 for float32 rows, else float64: the precision of kernel blocks."""
    dtype = getattr(rows, "dtype", None)
    single = dtype == _SINGLE if isinstance(dtype, np.dtype) else str(dtype) == "torch.float32"
    return _SINGLE if single else _DOUBLE


def is_float(rows: Any) -> bool:
    """Return whether rows are numbers, and kernel blocks have their precision."""
    dtype = getattr(rows, "dtype", None)
    return dtype.kind == "f" if isinstance(dtype, np.dtype) else "float" in str(dtype)


def astype(rows: Any, dtype: Any) -> Any:
    """Cast numeric rows; objects stay as they are."""
    if not is_float(rows):
        return rows
    is_array = not isinstance(rows, Rows)
    return cast(rows, dtype) if is_array else rows.astype(dtype, copy=False)


def moved(rows: Any, move: Callable[[Any], Any]) -> Any:
    """Return rows with `move` applied to each array that holds them."""
    return rows.moved(move) if isinstance(rows, Rows) else move(rows)


def to_device(rows: Any, device: Any, dtype: Any = None) -> Any:
    """Return encoded rows held in tensors on a device, for `Kernel.against` there.

    Parameters
    ----------
    rows : ndarray, CSR matrix (which becomes dense), tensor or Rows that tensors can hold
    device : torch.device or str
    dtype : float32 or float64, optional
        Of NumPy: the precision of kernel blocks; by default that of the rows.
    """
    there = moved(rows, lambda array: tensor(array, device))
    return there if dtype is None else astype(there, dtype)


class RightOperand:
    """B', prepared once for products A B' with many blocks of rows A, dense or CSR.

    Parameters
    ----------
    B : ndarray or CSR matrix of shape (m, d)
    """

    def __init__(self, B: Any) -> None:
        self._B = B

    @functools.cached_property
    def _transposed(self) -> Any:
        return _dense_transposed(self._B) if self._is_small else self._B.T.tocsr()

    @property
    def _is_small(self) -> bool:
        """Whether B is dense, or may become so."""
        return not sparse.issparse(self._B) or math.prod(self._B.shape) <= _DENSE_LIMIT

    @functools.cached_property
    def _chunks(self) -> list[tuple[slice, np.ndarray]]:
        """Columns of B' in parts that stay in cache while the rows of a CSR matrix visit them."""
        parts = row_slices(self._B.shape[0], _CHUNK)
        return [(some, _dense_transposed(self._B[some])) for some in parts]

    @functools.cached_property
    def _in_other_precision(self) -> RightOperand:
        other = np.float64 if float_dtype(self._B) == np.float32 else np.float32
        return RightOperand(cast(self._B, other))

    def product(self, A: Any, out: Any = None) -> Any:
        """Return the dense product A B', in the precision of A."""
        if float_dtype(A) != float_dtype(self._B):
            return self._in_other_precision.product(A, out)
        if not sparse.issparse(A) and self._is_small:
            return namespace(A).matmul(A, self._transposed, out=out)
        out = empty((n_rows(A), self._B.shape[0]), A, float_dtype(A)) if out is None else out
        if self._is_small:
            for some, part in self._chunks:
                out[:, some] = A @ part
        elif sparse.issparse(A):
            out[...] = (A @ self._transposed).toarray()
        else:
            out[...] = (self._B @ A.T).T
        return out


def _dense_transposed(B: Any) -> Any:
    return contiguous((B.toarray() if sparse.issparse(B) else B).T)


def row_slices(n: int, size: int) -> Iterator[slice]:
    """Yield the slices of `size` rows that cover range(n)."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def unique(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct rows.

    Returns
    -------
    first : ndarray of int
        Index of the first occurrence of each distinct row, increasing.
    inverse : ndarray of int
        `rows[first][inverse]` equals `rows`.
    """
    found = _unique_by_hash(rows) if isinstance(rows, np.ndarray) and rows.ndim == 2 else None
    if found is not None:
        return found
    return unique_keys(row_keys(rows))


def unique_columns(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct columns of a boolean matrix, as `unique` finds rows."""
    return unique(np.ascontiguousarray(np.packbits(mask, axis=0).T))


def unique_keys(keys: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct keys, as `unique` finds rows."""
    number: dict[Any, int] = {}
    inverse = np.empty(len(keys), dtype=np.intp)
    first: list[int] = []
    for i, key in enumerate(keys):
        j = number.setdefault(key, len(number))
        if j == len(first):
            first.append(i)
        inverse[i] = j
    return np.asarray(first, dtype=np.intp), inverse


def _unique_by_hash(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Find the distinct rows of a matrix by a hash of 64 bits; None where it tells too little."""
    kind = rows.dtype
    if kind.kind != "f" or kind.itemsize not in (4, 8) or rows.size == 0:
        return None
    bits = np.dtype(f"u{kind.itemsize}")
    # odd numbers make each column count; the seed is fixed, so that results repeat
    odd = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], dtype=np.uint64) * 2 + 1
    numbers = np.zeros(len(rows), dtype=np.uint64)
    for some in row_slices(len(rows), max(1, _HASHED // rows.shape[1])):
        part = np.ascontiguousarray(rows[some]) + kind.type(0)  # -0.0 and 0.0 are one value
        # the upper half of a number, which small integers use, must reach the lower half
        mixed = part.view(bits).astype(np.uint64)
        mixed ^= mixed >> np.uint64(29)
        numbers[some] = mixed @ odd
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as they appear
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first, inverse = first[order], place[inverse]
    for some in row_slices(len(rows), max(1, _HASHED // rows.shape[1])):
        if not np.array_equal(rows[some], rows[first[inverse[some]]]):
            return None  # two different rows with one hash
    return first, inverse


def match(rows: Any, pool: Any) -> np.ndarray:
    """Return for each row the position in `pool` of a row equal to it, -1 where there is none."""
    number = {key: j for j, key in enumerate(row_keys(pool))}
    keys = row_keys(rows)
    return np.fromiter((number.get(key, -1) for key in keys), dtype=np.intp, count=len(keys))


def row_keys(rows: Any) -> list[Any]:
    """Return one hashable key a row; objects that cannot be hashed count as distinct."""
    if isinstance(rows, Rows):
        return rows.keys()
    if sparse.issparse(rows):
        rows = rows.tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        return [(rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in ends]
    if rows.ndim == 2:
        rows = np.ascontiguousarray(rows) + rows.dtype.type(0)  # -0.0 and 0.0 are one value
        return [row.tobytes() for row in rows]
    return [_object_key(item) for item in rows]


def _object_key(item: Any) -> Any:
    try:
        hash(item)
    except TypeError:
        return id(item)
    return item
