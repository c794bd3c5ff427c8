"""Distances of vectors, dense or CSR, a block of rows at a time."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from .._numerics.arrays import RightOperand, float_dtype, n_rows
from .._numerics.namespace import cast, empty, is_tensor, median, namespace, row_dots

__all__ = ["SquaredDistances", "block_buffer", "manhattan", "squared_norms"]


def block_buffer(A: Any, m: int, out: Any) -> Any:
    """Return `out`, or a new (b, m) block in the precision of A."""
    return empty((n_rows(A), m), A, float_dtype(A)) if out is None else out


def squared_norms(A: Any) -> Any:
    """Return ||a||^2 of each row, in the dtype of A."""
    if sparse.issparse(A):
        row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        squares = A.data.astype(np.float64) ** 2
        return np.bincount(row, squares, minlength=A.shape[0]).astype(A.dtype)
    return row_dots(A, A)


# Rows that a median is taken of. It is the centre where the mean is far from it: by more than
# this many times the squared distance of a typical row.
_MEDIAN_ROWS, _FAR = 31, 100.0
# CSR rows with at least this share of entries are treated as dense.
_FILLED = 0.5
# Differences that the L1 distance of tensors holds at a time.
_DIFFERENCES = 2**27
# What a factor times squared norms may reach: as good as infinity, and products do not overflow.
_LARGE = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e200}


class SquaredDistances:
    """Squared Euclidean distances to fixed rows B, times a factor, by one matrix product.

    Dense rows are centred on the mean of B, which distances do not see and rounding does, and the
    norms ride along as two more columns: factor ||a - b||^2 = [a, ||a||^2, 1] . [-2b, 1, ||b||^2].
    Rounding may make them slightly negative; two ways out: with `snap`, distances that cannot be
    told from rounding are zero; with `over`, float64 norms are raised by more than the product can
    err, by about d eps, and need no second pass over the block. With `saturates` any large result
    is as good as another, and a factor that would make products overflow is lowered.
    """

    def __init__(
        self,
        B: Any,
        factor: float = 1.0,
        *,
        snap: bool = False,
        over: bool = False,
        saturates: bool = False,
    ) -> None:
        # CSR rows that are hardly sparse are centred too, so their blocks become dense
        self.filled = sparse.issparse(B) and B.nnz >= _FILLED * B.shape[0] * B.shape[1]
        B = B.toarray() if self.filled else B
        self.B, self.factor, self.snap, self.over = B, factor, snap, over
        self.saturates = saturates
        self.sparse = sparse.issparse(B)
        self._cast: dict[Any, tuple[Any, Any]] = {}
        if self.sparse:
            self.operand = RightOperand(B)
            self.norms = squared_norms(B)
            return
        xp, B = namespace(B), cast(B, np.float64)
        centre = _centre(B) if len(B) else B.sum(axis=0)
        # a number of both precisions, so that blocks of either subtract the same
        with np.errstate(over="ignore"):
            rounded = cast(cast(centre, np.float32), np.float64)
        self.centre = xp.where(xp.isfinite(rounded), rounded, centre)
        B = B - self.centre
        self.norms = squared_norms(B)
        self.right = empty((B.shape[1] + 2, len(B)), B, np.float64)
        self.right[:-2] = -2.0 * B.T
        self.right[-2] = 1.0
        self.right[-1] = self.norms

    def __call__(self, A: Any, out: Any = None) -> Any:
        """Return factor * ||a - b||^2."""
        if sparse.issparse(A) and self.filled:
            A = A.toarray()
        if sparse.issparse(A) and not self.sparse:
            return self._sparse_twin(A, out)
        out = block_buffer(A, n_rows(self.B), out)
        norms = self._product(A, out)
        if self.snap:
            out[namespace(out).abs(out) <= self._noise(norms, float_dtype(out))] = 0.0
        return out

    def _noise(self, norms: Any, dtype: np.dtype) -> Any:
        """Return a bound on the rounding of the distances, given the squared norms of A."""
        unit = 32.0 * float(np.finfo(dtype).eps) * abs(self._factor_in(dtype))
        return (unit * norms)[:, None] + cast(unit * self.norms, dtype)

    def _factor_in(self, dtype: np.dtype) -> float:
        if not self.saturates or self.factor == 0.0:
            return self.factor
        limit, most = _LARGE[np.dtype(dtype)], 1e-3 * float(np.finfo(dtype).max)
        largest = max(limit / most, self._largest_norm)
        return self.factor * min(1.0, limit / largest / abs(self.factor))

    def snap_if(self, scale: float) -> None:
        """Snap where an error of rounding, times `scale`, would be more than a hundredth."""
        self.snap |= bool(32.0 * np.finfo(np.float64).eps * self._largest_norm * scale > 0.01)

    @functools.cached_property
    def _largest_norm(self) -> float:
        return float(self.norms.max()) if len(self.norms) else 0.0

    @functools.cached_property
    def _sparse_twin(self) -> SquaredDistances:
        return SquaredDistances(
            sparse.csr_matrix(self.B), self.factor, snap=self.snap, saturates=self.saturates
        )

    def may_err_in_sign(self, A: Any, out: Any) -> bool:
        """Return whether rounding may make a distance negative."""
        is_sparse = self.sparse or (sparse.issparse(A) and not self.filled)
        return not self.snap and (is_sparse or not self.over or float_dtype(out) != np.float64)

    def _product(self, A: Any, out: Any) -> Any:
        """Fill `out` and return the squared norms of A."""
        if self.sparse:
            norms = squared_norms(A)
            self.operand.product(A, out)
            factor = self._factor_in(out.dtype)
            out *= out.dtype.type(-2.0 * factor)
            out += (factor * norms)[:, None].astype(out.dtype)
            out += (factor * self.norms).astype(out.dtype)
            return norms
        xp, dtype = namespace(A), float_dtype(out)
        centre, right = self._operands(dtype)
        augmented = empty((A.shape[0], A.shape[1] + 2), A, dtype)
        centred, norms = augmented[:, :-2], augmented[:, -2]
        xp.subtract(A, centre, out=centred)
        row_dots(centred, centred, out=norms)
        augmented[:, -1] = 1.0
        xp.matmul(augmented, right, out=out)
        return norms

    def _operands(self, dtype: np.dtype) -> tuple[Any, Any]:
        """Return the centre and the right factor of the product, for dense rows."""
        if dtype not in self._cast:
            right = cast(self._factor_in(dtype) * self.right, dtype)
            if self.over and dtype == np.float64:
                right[-2:] *= 1.0 + len(right) * np.finfo(np.float64).eps
            self._cast[dtype] = (cast(self.centre, dtype), right)
        return self._cast[dtype]


def _centre(B: Any) -> Any:
    """Return the mean of the rows, or the median of some where a few far rows pull the mean away.

    Away from most rows, their distances would drown in the rounding of their norms.
    """
    mean = B.mean(axis=0)
    some = B[:: max(1, len(B) // _MEDIAN_ROWS)]
    middle = median(some)
    spread = median(squared_norms(some - middle))
    return middle if (mean - middle) @ (mean - middle) > _FAR * spread else mean


def manhattan(A: Any, B: Any) -> Any:
    """Return L1 distances."""
    if is_tensor(A):
        some = max(1, _DIFFERENCES // max(1, B.shape[0] * B.shape[1]))
        B, torch = cast(B, A.dtype), namespace(A)
        return torch.cat([torch.cdist(part, B, p=1.0) for part in A.split(some)])
    if not (n_rows(A) and n_rows(B)):
        return np.zeros((n_rows(A), n_rows(B)))
    if sparse.issparse(A) or sparse.issparse(B):
        from sklearn.metrics.pairwise import manhattan_distances  # slow to import

        return manhattan_distances(sparse.csr_matrix(A), sparse.csr_matrix(B))
    return cdist(A, B, "cityblock")
