"""One formula for NumPy arrays and PyTorch tensors, wherever they lie.

A formula uses the names that `numpy` and `torch` share with one meaning, such as matmul, exp, sqrt,
clip and where, and writes into `out=`. What the two call differently is a function below. The array
API standard has no `out=`, without which blocks would not be computed in place, and no bits.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse
from scipy import special as scipy_special

__all__ = [
    "cast",
    "constant",
    "contiguous",
    "empty",
    "flatnonzero",
    "gram",
    "is_on_card",
    "is_spread",
    "is_tensor",
    "median",
    "namespace",
    "numpy_of",
    "ones",
    "positions",
    "row_dots",
    "special",
    "sqrt",
    "tall_product",
    "tensor",
    "times",
    "torch_dtype",
    "unpack_bits",
    "zeros",
]

# Columns of a tile of A'A on a card; only tiles on and above the diagonal are computed.
_TILE = 256
# A card multiplies tiles of so many columns, and is busy with so many of them at a time.
_CORE_TILE, _BUSY, _MOST_PIECES = 128, 512, 64


def is_tensor(array: Any) -> bool:
    """Return whether an array, or what encoded rows hold, is a tensor."""
    if isinstance(array, np.ndarray):  # a short cut
        return False
    torch = sys.modules.get("torch")  # there are no tensors before somebody imports it
    return torch is not None and isinstance(getattr(array, "held", array), torch.Tensor)


def is_on_card(array: Any) -> bool:
    """Return whether an array is a tensor that is not in the memory of the host."""
    return is_tensor(array) and getattr(array, "held", array).device.type != "cpu"


def namespace(array: Any) -> Any:
    """Return `torch` for tensors and `numpy` for all else: a formula written once runs on both.

    Parameters
    ----------
    array : ndarray, tensor or encoded rows

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import namespace
    >>> namespace(np.ones(2)).exp(np.zeros(2))
    array([1., 1.])
    """
    return sys.modules["torch"] if is_tensor(array) else np


def numpy_of(array: Any) -> Any:
    """Return a tensor of any device as an array; other things as they are."""
    return array.detach().cpu().numpy() if is_tensor(array) else array


def special(array: Any) -> Any:
    """Return the module of special functions: `scipy.special` or `torch.special`."""
    return namespace(array).special if is_tensor(array) else scipy_special


def sqrt(array: Any) -> Any:
    """Return the square root, as a function that numba knows too, see `kernels.popcount`."""
    return namespace(array).sqrt(array)


def empty(shape: tuple[int, ...], like: Any, dtype: Any) -> Any:
    """Return a new array of a NumPy dtype, where `like` is."""
    if not is_tensor(like):
        return np.empty(shape, dtype=dtype)
    like = getattr(like, "held", like)
    return namespace(like).empty(shape, dtype=torch_dtype(dtype), device=like.device)


def ones(n: int, like: Any) -> Any:
    """Return a vector of ones in float64, where `like` is."""
    out = empty((n,), like, np.float64)
    out[...] = 1.0
    return out


def zeros(shape: tuple[int, ...], like: Any) -> Any:
    """Return zeros in float64, where `like` is."""
    out = empty(shape, like, np.float64)
    out[...] = 0.0
    return out


def constant(value: Any, like: Any) -> Any:
    """Return numbers as an array in the precision of `like`, and where that is."""
    if not is_tensor(like):
        return np.asarray(value, dtype=np.float64)
    return namespace(like).as_tensor(value, dtype=like.dtype, device=like.device)


def cast(array: Any, dtype: Any) -> Any:
    """Return an array in another precision; dtype is that of NumPy or of an array like this one."""
    if not is_tensor(array):
        return array.astype(dtype, copy=False)
    return array.to(torch_dtype(dtype))


def torch_dtype(dtype: Any) -> Any:
    """Return the dtype of torch for one of NumPy, or for itself."""
    import torch

    return dtype if isinstance(dtype, torch.dtype) else getattr(torch, np.dtype(dtype).name)


def contiguous(array: Any) -> Any:
    """Return an array whose rows lie one after the other."""
    return array.contiguous() if is_tensor(array) else np.ascontiguousarray(array)


def row_dots(A: Any, B: Any, out: Any = None) -> Any:
    """Return the inner product of each row of A with that of B."""
    if is_tensor(A):
        return namespace(A).sum(A * B, dim=1, out=out)
    return np.einsum("ij,ij->i", A, B, out=out)


def is_spread(array: Any) -> bool:
    """Return whether the columns of a matrix are one column, spread by `broadcast_to`."""
    return (array.stride() if is_tensor(array) else array.strides)[1] == 0


def flatnonzero(array: Any) -> Any:
    """Return the positions of the entries of a vector that are not 0."""
    return array.nonzero().flatten() if is_tensor(array) else np.flatnonzero(array)


def positions(index: Any, like: Any) -> Any:
    """Return row numbers as an array that `like` can be indexed with."""
    if not is_tensor(like):
        return index.cpu().numpy() if is_tensor(index) else np.asarray(index)
    return namespace(like).as_tensor(index, device=like.device)


def tall_product(A: Any, B: Any) -> Any:
    """Return A'B of matrices with many rows and few columns.

    On a card a small product of long columns would keep few of its cores busy. It is cut into the
    products of pieces of the rows, which run side by side.
    """
    if not is_tensor(A):
        return A.T @ B
    tiles = -(-A.shape[1] // _CORE_TILE) * -(-B.shape[1] // _CORE_TILE)
    pieces = max(1, min(_MOST_PIECES, _BUSY // tiles, len(A) // _CORE_TILE))
    size = len(A) // pieces
    left, right = (C[: pieces * size].unflatten(0, (pieces, size)) for C in (A, B))
    total = (left.mT @ right).sum(0)
    if pieces * size < len(A):
        total += A[pieces * size :].T @ B[pieces * size :]
    return total


def gram(A: Any, signs: Any = None) -> Any:
    """Return A'A, or A' diag(signs) A, at half the cost of other products."""
    B = A if signs is None else A * signs[:, None]
    if not is_tensor(A):
        return A.T @ B  # NumPy sees the symmetry of a product with itself
    p = A.shape[1]
    out = A.new_empty((p, p))
    for a in range(0, p, _TILE):
        b = min(p, a + _TILE)
        out[a:b, a:] = tall_product(A[:, a:b], B[:, a:])
        out[b:, a:b] = out[a:b, b:].T
    return out


def median(array: Any) -> Any:
    """Return the median of each column."""
    if not is_tensor(array):
        return np.median(array, axis=0)
    ordered, n = array.sort(dim=0).values, len(array)
    return 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])


def unpack_bits(octets: Any, count: int) -> Any:
    """Return the first `count` bits of rows of bytes, lowest first, as numbers 0 and 1."""
    if not is_tensor(octets):
        return np.unpackbits(octets, axis=1, count=count, bitorder="little")
    torch = namespace(octets)
    shifts = torch.arange(8, dtype=torch.uint8, device=octets.device)
    bits = octets[:, :, None].bitwise_right_shift(shifts).bitwise_and_(1)
    return bits.flatten(1)[:, :count]


def tensor(array: Any, device: Any) -> Any:
    """Return an array or a CSR matrix as a dense tensor on a device."""
    import torch

    if isinstance(array, torch.Tensor):
        return array.to(device)
    array = array.toarray() if sparse.issparse(array) else np.ascontiguousarray(array)
    return torch.as_tensor(array if array.flags.writeable else array.copy()).to(device)


def times(A: Any, B: Any) -> Any:
    """Return A B; for one column by a product with a vector, which is faster."""
    return (A @ B[:, 0])[:, None] if B.shape[1] == 1 else A @ B
