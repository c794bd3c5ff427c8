"""Arrays: one formula for NumPy arrays and PyTorch tensors, and what all rows of a data set can do.

A formula uses the names that `numpy` and `torch` share with one meaning, such as matmul, exp, sqrt,
clip and where, and writes into `out=`. What the two call differently is a function below. The array
API standard has no `out=`, without which blocks would not be computed in place, and no bits.

Rows are a dense or CSR matrix, a 1-D array of objects, or `Rows`, see `objects`.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
from scipy import sparse
from scipy import special as scipy_special

from .typing import (
    Array,
    ArrayLike,
    ArrayModule,
    DeviceLike,
    DType,
    Index,
    Objects,
    VectorRows,
)

if TYPE_CHECKING:
    import torch

Taken = TypeVar("Taken")

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# Columns of a tile of A'A on a GPU; only tiles on and above the diagonal are computed. Two core
# tiles: half and double were not measured.
_TILE = 256
# A GPU multiplies tiles of 128 columns, and 512 of them keep its multiprocessors busy (an H200 has
# 132). At most 64 pieces, which are summed afterwards. Neither was varied.
_CORE_TILE, _BUSY, _MOST_PIECES = 128, 512, 64
# A CSR landmark matrix is multiplied as a dense one up to this many numbers: 512 MB in float64, a
# limit of memory and not of speed.
_DENSE_LIMIT = 2**26
# Columns of a right operand that a CSR matrix is multiplied with at a time: they stay in cache. For
# 20,000 rows of 20 entries and 1,000 landmarks half and double take 1.08 times as long.
_CHUNK = 128
# Formats of sparse matrices that cannot be indexed.
_NO_ROWS = ("bsr", "coo", "dia")
# Numbers of a matrix that are hashed at a time: 8 MB. For 200,000 rows of 50 half takes 0.9 times
# as long, four times as many 1.7.
_HASHED = 2**20


def is_tensor(array: object) -> TypeGuard[Any]:
    """Return whether an array, or the array that encoded rows hold, is a PyTorch tensor.

    It narrows to `Any`, since lines written for arrays and tensors alike are checked for arrays.
    """
    if isinstance(array, np.ndarray):  # the common case, without a look for torch
        return False
    torch = sys.modules.get("torch")  # without an import of it there are no tensors
    return torch is not None and isinstance(getattr(array, "held", array), torch.Tensor)


def is_gpu_tensor(array: object) -> TypeGuard[Any]:
    """Return whether an array is a tensor that is not in the memory of the host."""
    return is_tensor(array) and bool(getattr(array, "held", array).device.type != "cpu")


def namespace(array: object) -> ArrayModule:
    """Return `torch` for tensors and `numpy` for all else: a formula written once runs on both.

    Parameters
    ----------
    array : ndarray, tensor or encoded rows
        Values that a formula computes with.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import namespace
    >>> namespace(np.ones(2)).exp(np.zeros(2))
    array([1., 1.])
    """
    module: Any = sys.modules["torch"] if is_tensor(array) else np
    functions: ArrayModule = module
    return functions


def numpy_of(array: Array) -> Array:
    """Return a tensor of any device as an array; other things as they are."""
    if is_tensor(array):
        held = array.detach().cpu()
        is_short = held.dtype == sys.modules["torch"].bfloat16  # float32 holds all that it can
        array = (held.float() if is_short else held).numpy()
    return array


def special(array: object) -> ArrayModule:
    """Return the module of special functions: `scipy.special` or `torch.special`."""
    module: Any = sys.modules["torch"].special if is_tensor(array) else scipy_special
    functions: ArrayModule = module
    return functions


def sqrt(array: Array) -> Array:
    """Return the square root, a function that numba can compile too, see `kernels.popcount`."""
    return namespace(array).sqrt(array)


def empty(shape: tuple[int, ...], like: object, dtype: DType) -> Array:
    """Return an uninitialized array of a NumPy dtype, on the device of `like`."""
    if not is_tensor(like):
        return np.empty(shape, dtype=dtype)
    device = getattr(like, "held", like).device
    return namespace(like).empty(shape, dtype=torch_dtype(dtype), device=device)


def ones(n: int, like: object) -> Array:
    """Return a vector of ones in float64, on the device of `like`."""
    out = empty((n,), like, np.float64)
    out[...] = 1.0
    return out


def zeros(shape: tuple[int, ...], like: object) -> Array:
    """Return zeros in float64, on the device of `like`."""
    out = empty(shape, like, np.float64)
    out[...] = 0.0
    return out


def constant(value: ArrayLike, like: object) -> Array:
    """Return numbers as a float64 array, or as a tensor with the dtype and device of `like`."""
    if not is_tensor(like):
        return np.asarray(value, dtype=np.float64)
    return namespace(like).as_tensor(value, dtype=like.dtype, device=like.device)


def cast(array: Array, dtype: DType) -> Array:
    """Return an array converted to a dtype, of NumPy or of the library of the array."""
    if is_tensor(array):
        array = array.to(torch_dtype(dtype))
        return array
    return array.astype(dtype, copy=False)


def torch_dtype(dtype: DType | torch.dtype) -> torch.dtype:
    """Return the PyTorch dtype that equals a NumPy dtype; a PyTorch dtype is returned as it is."""
    import torch

    kind = dtype if isinstance(dtype, torch.dtype) else getattr(torch, np.dtype(dtype).name)
    assert isinstance(kind, torch.dtype)
    return kind


def contiguous(array: Array) -> Array:
    """Return an array in row-major order; a copy only if it is in another order."""
    if is_tensor(array):
        array = array.contiguous()
        return array
    return np.ascontiguousarray(array)


def row_dots(A: Array, B: Array, out: Array | None = None) -> Array:
    """Return the inner product of each row of A with that of B."""
    if is_tensor(A):
        return namespace(A).sum(A * B, dim=1, out=out)
    return np.einsum("ij,ij->i", A, B, out=out)


def is_spread(array: Array) -> bool:
    """Return whether the columns of a matrix are one column, repeated by `broadcast_to`."""
    return bool((array.stride() if is_tensor(array) else array.strides)[1] == 0)


def flatnonzero(array: Array) -> Array:
    """Return the positions of the entries of a vector that are not 0."""
    if is_tensor(array):
        array = array.nonzero().flatten()
        return array
    return np.flatnonzero(array)


def positions(index: Index, like: object) -> Array:
    """Return row numbers as an array that `like` can be indexed with."""
    if is_tensor(like):
        return namespace(like).as_tensor(index, device=like.device)
    return numpy_of(index) if is_tensor(index) else np.asarray(index)


def tall_product(A: Array, B: Array) -> Array:
    """Return A'B of matrices with many rows and few columns.

    On a GPU, a small product of long columns would keep few of its cores busy. It is cut into
    products of pieces of the rows, which run in parallel.
    """
    if not is_tensor(A):
        return A.T @ B
    tiles = -(-A.shape[1] // _CORE_TILE) * -(-B.shape[1] // _CORE_TILE)
    pieces = max(1, min(_MOST_PIECES, _BUSY // tiles, len(A) // _CORE_TILE))
    size = len(A) // pieces
    both: tuple[Any, Any] = (A, B)
    left, right = (C[: pieces * size].unflatten(0, (pieces, size)) for C in both)
    total: Array = (left.mT @ right).sum(0)
    if pieces * size < len(A):
        total += A[pieces * size :].T @ B[pieces * size :]
    return total


def gram(A: Array, signs: Array | None = None) -> Array:
    """Return A'A, or A' diag(signs) A, at half the cost of other products."""
    B = A if signs is None else A * signs[:, None]
    if not is_tensor(A):
        return A.T @ B  # NumPy sees the symmetry of a product with itself
    p = A.shape[1]
    out: Array = A.new_empty((p, p))
    for a in range(0, p, _TILE):
        b = min(p, a + _TILE)
        out[a:b, a:] = tall_product(A[:, a:b], B[:, a:])
        out[b:, a:b] = out[a:b, b:].T
    return out


def median(array: Array) -> Array:
    """Return the median of each column."""
    if not is_tensor(array):
        return np.asarray(np.median(array, axis=0))
    ordered, n = array.sort(dim=0).values, len(array)
    middle: Array = 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])
    return middle


def unpack_bits(octets: Array, count: int) -> Array:
    """Return the first `count` bits of rows of bytes, lowest first, as numbers 0 and 1."""
    if not is_tensor(octets):
        return np.unpackbits(octets, axis=1, count=count, bitorder="little")
    shifts = namespace(octets).arange(8, dtype=torch_dtype(np.uint8), device=octets.device)
    bits = octets[:, :, None].bitwise_right_shift(shifts).bitwise_and_(1)
    first: Array = bits.flatten(1)[:, :count]
    return first


def tensor(array: VectorRows, device: DeviceLike) -> Array:
    """Return an array or a CSR matrix as a dense tensor on a device."""
    import torch

    held: Any = array
    if not isinstance(held, torch.Tensor):
        dense = held.toarray() if sparse.issparse(held) else np.ascontiguousarray(held)
        held = torch.as_tensor(dense if dense.flags.writeable else dense.copy())
    on_device: Array = held.to(device)
    return on_device


def dense(rows: VectorRows) -> Array:
    """Return a sparse matrix as an array; arrays and tensors are returned as they are."""
    return rows.toarray() if sparse.issparse(rows) else rows


def times(A: Array, B: Array) -> Array:
    """Return A B; for one column by a product with a vector, which is faster."""
    return (A @ B[:, 0])[:, None] if B.shape[1] == 1 else A @ B


# Rows of a data set ------------------------------------------------------------------------------


def has_rows(objects: object) -> bool:
    """Return whether `n_rows` can count the rows of these objects."""
    if hasattr(objects, "shape"):
        return len(objects.shape) > 0
    if isinstance(objects, Mapping):
        return all(has_rows(column) for column in objects.values())
    return hasattr(objects, "__len__")


def n_rows(rows: Objects | VectorRows) -> int:
    """Return the number of rows, for sparse matrices and dicts of columns too."""
    if hasattr(rows, "shape"):  # first: some sparse matrices are dicts
        return rows.shape[0]
    if isinstance(rows, Mapping):
        return n_rows(next(iter(rows.values()))) if rows else 0
    return len(rows)


def take(objects: Taken, index: Index) -> Taken:
    """Return objects[index] for arrays, sparse matrices, data frames, dicts and plain lists."""
    rows: Any = objects
    if isinstance(rows, Mapping) and not hasattr(rows, "shape"):
        rows = {name: take(column, index) for name, column in rows.items()}
    elif hasattr(rows, "iloc"):
        rows = rows.iloc[index]
    elif hasattr(rows, "column_names") and not isinstance(index, slice):  # a table of pyarrow
        rows = rows.take(index)
    elif sparse.issparse(rows):
        rows = rows.tocsr() if rows.format in _NO_ROWS else rows
        everything = isinstance(index, slice) and index == slice(0, rows.shape[0])
        rows = rows if everything else rows[index]  # unlike arrays, they copy for a slice
    elif hasattr(rows, "shape") or isinstance(index, slice):
        rows = rows[index]
    else:
        rows = [rows[i] for i in index]
    taken: Taken = rows
    return taken


def row_slices(n: int, size: int) -> Iterator[slice]:
    """Yield the slices of `size` rows that cover range(n)."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def float_dtype(rows: object) -> np.dtype:
    """Return float32 for float32 rows, else float64: the precision of kernel blocks."""
    dtype = getattr(rows, "dtype", None)
    single = dtype == _SINGLE if isinstance(dtype, np.dtype) else str(dtype) == "torch.float32"
    return _SINGLE if single else _DOUBLE


def is_float(rows: object) -> bool:
    """Return whether rows are numbers, and kernel blocks have their precision."""
    dtype = getattr(rows, "dtype", None)
    return dtype.kind == "f" if isinstance(dtype, np.dtype) else "float" in str(dtype)


def astype(rows: Taken, dtype: DType) -> Taken:
    """Cast numeric rows; objects stay as they are."""
    new: Any = rows
    if is_float(new):
        new = new.astype(dtype, copy=False) if hasattr(new, "astype") else cast(new, dtype)
    same: Taken = new
    return same


class RightOperand:
    """The right factor of products A B', (b, m), prepared once for many blocks A, dense or CSR."""

    def __init__(self, B: VectorRows) -> None:
        self._B: Any = B
        # whether B is dense, or is made dense
        self._is_small = not sparse.issparse(B) or math.prod(B.shape) <= _DENSE_LIMIT

    @functools.cached_property
    def _transposed(self) -> Array:
        csr = self._B.T.tocsr() if not self._is_small else None
        return contiguous(dense(self._B).T) if csr is None else csr

    @functools.cached_property
    def _chunks(self) -> list[tuple[slice, np.ndarray]]:
        """Columns of B' in parts that stay in cache while the rows of a CSR matrix visit them."""
        parts = row_slices(self._B.shape[0], _CHUNK)
        return [(part, contiguous(dense(self._B[part]).T)) for part in parts]

    @functools.cached_property
    def _in_other_precision(self) -> RightOperand:
        other = np.float64 if float_dtype(self._B) == np.float32 else np.float32
        return RightOperand(cast(self._B, other))

    def product(self, A: VectorRows, out: Array | None = None) -> Array:
        """Return the dense product A B', in the precision of A."""
        if float_dtype(A) != float_dtype(self._B):
            return self._in_other_precision.product(A, out)
        if not sparse.issparse(A) and self._is_small:
            return namespace(A).matmul(A, self._transposed, out=out)
        out = empty((n_rows(A), self._B.shape[0]), A, float_dtype(A)) if out is None else out
        if self._is_small:
            for columns, part in self._chunks:
                out[:, columns] = A @ part
        elif sparse.issparse(A):
            out[...] = (A @ self._transposed).toarray()
        else:
            out[...] = (self._B @ A.T).T
        return out


# Rows that are equal -----------------------------------------------------------------------------


def unique(rows: Objects | VectorRows) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct rows.

    Returns
    -------
    first : ndarray of int
        Index of the first occurrence of each distinct row, increasing.
    inverse : ndarray of int
        `rows[first][inverse]` equals `rows`.
    """
    distinct = _unique_by_hash(rows) if isinstance(rows, np.ndarray) and rows.ndim == 2 else None
    if distinct is not None:
        return distinct
    return unique_keys(row_keys(rows))


def unique_columns(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct columns of a boolean matrix, as `unique` finds rows."""
    return unique_keys([column.tobytes() for column in np.packbits(mask, axis=0).T])


def unique_keys(keys: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
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
    """Find the distinct rows of a matrix by 64-bit hashes; None where two rows share a hash."""
    kind = rows.dtype
    if kind.kind != "f" or kind.itemsize not in (4, 8) or rows.size == 0:
        return None
    bits = np.dtype(f"u{kind.itemsize}")
    # odd numbers make each column count; the seed is fixed, so that results repeat
    odd = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], dtype=np.uint64) * 2 + 1
    numbers = np.zeros(len(rows), dtype=np.uint64)
    for block in row_slices(len(rows), max(1, _HASHED // rows.shape[1])):
        values = np.ascontiguousarray(rows[block]) + kind.type(0)  # -0.0 and 0.0 are one value
        # the upper half of a number, which small integers use, must reach the lower half
        mixed = values.view(bits).astype(np.uint64)
        mixed ^= mixed >> np.uint64(29)
        numbers[block] = mixed @ odd
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as they appear
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first, inverse = first[order], place[inverse]
    for block in row_slices(len(rows), max(1, _HASHED // rows.shape[1])):
        if not np.array_equal(rows[block], rows[first[inverse[block]]]):
            return None  # two different rows with one hash
    return first, inverse


def match(rows: Objects, pool: Objects) -> np.ndarray:
    """Return for each row the position in `pool` of a row equal to it, -1 where there is none."""
    number = {key: j for j, key in enumerate(row_keys(pool))}
    keys = row_keys(rows)
    return np.fromiter((number.get(key, -1) for key in keys), dtype=np.intp, count=len(keys))


def row_keys(rows: Any) -> Sequence[Hashable]:
    """Return a hashable key for each row; objects that cannot be hashed all count as distinct."""
    if sparse.issparse(rows):
        csr = rows.tocsr(copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        ends = zip(csr.indptr[:-1], csr.indptr[1:], strict=True)
        return [(csr.indices[a:b].tobytes(), csr.data[a:b].tobytes()) for a, b in ends]
    if not isinstance(rows, np.ndarray):
        keys: Sequence[Hashable] = rows.keys()
        return keys
    if rows.ndim == 2:
        rows = np.ascontiguousarray(rows) + rows.dtype.type(0)  # -0.0 and 0.0 are one value
        return [row.tobytes() for row in rows]
    return [_object_key(item) for item in rows]


def _object_key(item: object) -> Hashable:
    try:
        hash(item)
    except TypeError:
        return id(item)
    return item
