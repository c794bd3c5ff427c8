"""Cholesky factors of large matrices, in place: arrays here, tensors where they lie.

A matrix of m rows that a card has room for once is factorised there without a copy; products make
up nearly all of the work, so that it runs at their rate.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from .arrays import is_tensor, namespace, times
from .types import Array

__all__ = ["Triangle", "add_gram", "cholesky", "gram_of_triangle", "inverse_corner"]

# Columns that a tensor is factorised by at a time.
_BLOCK = 1024


def _blocks(m: int) -> list[slice]:
    return [slice(a, min(a + _BLOCK, m)) for a in range(0, m, _BLOCK)]


class Triangle:
    """A lower triangular L with fast solves; what is above its diagonal is never read.

    Parameters
    ----------
    L : array or tensor of shape (m, m)
    corners : list of tensors, optional
        The inverses of blocks on the diagonal, of a tensor: then solves are products too.
    """

    def __init__(self, L: Array, corners: list[Array] | None = None) -> None:
        self.L, self.corners = L, corners

    def __len__(self) -> int:
        return len(self.L)

    def solve(self, B: Array) -> Array:
        """Return L^-1 B."""
        if self.corners is None:
            return _solved(self.L, B, 0)
        out = B.clone()
        for some, corner in zip(_blocks(len(self.L)), self.corners, strict=True):
            left = times(self.L[some, : some.start], out[: some.start])
            out[some] = times(corner, B[some] - left)
        return out

    def solve_transposed(self, B: Array) -> Array:
        """Return L^-T B."""
        if self.corners is None:
            return _solved(self.L, B, 1)
        out = B.clone()
        for some, corner in zip(_blocks(len(self.L))[::-1], self.corners[::-1], strict=True):
            left = times(self.L[some.stop :, some].T, out[some.stop :])
            out[some] = times(corner.T, B[some] - left)
        return out

    def smallest(self) -> float:
        """Return the smallest entry of the diagonal."""
        return float(namespace(self.L).diagonal(self.L).min())


def _solved(L: np.ndarray, B: np.ndarray, transposed: int) -> np.ndarray:
    if B.shape[1] == 1 and L.dtype == np.float64:
        return blas.dtrsv(L.T, B[:, 0], lower=0, trans=1 - transposed)[:, None]
    return solve_triangular(L.T, B, lower=False, trans=1 - transposed, check_finite=False)


def cholesky(A: Array) -> Triangle | None:
    """Return L of A = L L' in the memory of A, None where rounding hides that A is positive.

    Only the lower triangle of A is read.
    """
    if is_tensor(A):
        return _cholesky_there(A)
    kind = "d" if A.dtype == np.float64 else "s"
    _, info = getattr(lapack, f"{kind}potrf")(A.T, lower=0, clean=0, overwrite_a=1)
    return Triangle(A) if info == 0 else None


def _cholesky_there(A: Array) -> Triangle | None:
    """Factorise a tensor by blocks of columns, each after the products with those before it."""
    torch, corners = namespace(A), []
    for some in _blocks(len(A)):
        a, b = some.start, some.stop
        if a:
            A[a:, some].addmm_(A[a:, :a], A[some, :a].T, alpha=-1.0)
        corner, info = torch.linalg.cholesky_ex(A[some, some])
        if int(info) > 0:
            return None
        one = torch.eye(len(corner), dtype=A.dtype, device=A.device)
        inverse = torch.linalg.solve_triangular(corner, one, upper=False)
        A[some, some] = corner
        A[b:, some] = A[b:, some] @ inverse.T
        corners.append(inverse)
    return Triangle(A, corners)


def inverse_corner(L: Array, size: int) -> Array:
    """Return the inverse of the first `size` rows and columns of a lower triangle, a tensor."""
    torch, corner = namespace(L), L[:size, :size]
    one = torch.eye(size, dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(corner, one, upper=False)


def add_gram(out: Array, F: Array) -> None:
    """Add F'F to `out`; of tensors only the lower triangle, which takes half the work."""
    if not is_tensor(F):
        out += F.T @ F  # NumPy sees the symmetry
        return
    for some in _blocks(len(out)):
        out[some, : some.stop].addmm_(F[:, some].T, F[:, : some.stop])


def gram_of_triangle(triangle: Triangle) -> Array:
    """Return the lower triangle of L'L; what is above the diagonal is undefined."""
    L = triangle.L
    if not is_tensor(L):
        kind = "d" if L.dtype == np.float64 else "s"
        return getattr(lapack, f"{kind}lauum")(L.T, lower=0)[0].T
    out = namespace(L).empty_like(L)
    for some in _blocks(len(L)):
        out[some, : some.stop] = L[some.start :, some].T @ L[some.start :, : some.stop]
    return out
