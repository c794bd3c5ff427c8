"""Cholesky factors of large matrices, in place: of arrays, and of tensors on their device.

A matrix that fits only once into the memory of a GPU is factorized there without a copy; nearly all
of the work is in matrix products, so that it runs at their rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from .arrays import is_tensor, namespace, times
from .typing import Array, Tensor

# Columns of a tensor that are factorized at a time: the products are large enough to keep a GPU
# busy, and the triangles on the diagonal small beside them. Half and double were not measured.
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

    def __init__(self, L: Array | Tensor, corners: list[Tensor] | None = None) -> None:
        self.L: Any = L
        self.corners: Any = corners

    def __len__(self) -> int:
        return len(self.L)

    def solve(self, B: Array) -> Array:
        """Return L^-1 B."""
        if self.corners is None:
            return _solved(self.L, B, 0)
        out = namespace(B).clone(B)
        for block, corner in zip(_blocks(len(self.L)), self.corners, strict=True):
            left = times(self.L[block, : block.start], out[: block.start])
            out[block] = times(corner, B[block] - left)
        return out

    def solve_transposed(self, B: Array) -> Array:
        """Return L^-T B."""
        if self.corners is None:
            return _solved(self.L, B, 1)
        out = namespace(B).clone(B)
        for block, corner in zip(_blocks(len(self.L))[::-1], self.corners[::-1], strict=True):
            left = times(self.L[block.stop :, block].T, out[block.stop :])
            out[block] = times(corner.T, B[block] - left)
        return out

    def smallest(self) -> float:
        """Return the smallest entry of the diagonal."""
        return float(namespace(self.L).diagonal(self.L).min())


def _solved(L: np.ndarray, B: np.ndarray, transposed: int) -> np.ndarray:
    if B.shape[1] == 1 and L.dtype == np.float64:
        return blas.dtrsv(L.T, B[:, 0], lower=0, trans=1 - transposed)[:, None]
    return solve_triangular(L.T, B, lower=False, trans=1 - transposed, check_finite=False)


def cholesky(A: Array) -> Triangle | None:
    """Return L of A = L L' in the memory of A, None if A is not positive definite up to rounding.

    Only the lower triangle of A is read.
    """
    if is_tensor(A):
        return _cholesky_on_device(A)
    kind = "d" if A.dtype == np.float64 else "s"
    _, info = getattr(lapack, f"{kind}potrf")(A.T, lower=0, clean=0, overwrite_a=1)
    return Triangle(A) if info == 0 else None


def _cholesky_on_device(A: Tensor) -> Triangle | None:
    """Factorize a tensor by blocks of columns, each after its products with those before."""
    import torch

    corners = []
    for block in _blocks(len(A)):
        a, b = block.start, block.stop
        if a:
            A[a:, block].addmm_(A[a:, :a], A[block, :a].T, alpha=-1.0)
        corner, info = torch.linalg.cholesky_ex(A[block, block])
        if int(info) > 0:
            return None
        identity = torch.eye(len(corner), dtype=A.dtype, device=A.device)
        inverse = torch.linalg.solve_triangular(corner, identity, upper=False)
        A[block, block] = corner
        A[b:, block] = A[b:, block] @ inverse.T
        corners.append(inverse)
    return Triangle(A, corners)


def inverse_corner(L: Tensor, size: int) -> Tensor:
    """Return the inverse of the first `size` rows and columns of a lower triangle, a tensor."""
    import torch

    identity = torch.eye(size, dtype=L.dtype, device=L.device)
    inverse: Tensor = torch.linalg.solve_triangular(L[:size, :size], identity, upper=False)
    return inverse


def add_gram(out: Array, F: Array) -> None:
    """Add F'F to `out`; of tensors only the lower triangle, which takes half the work."""
    if not is_tensor(F):
        out += F.T @ F  # NumPy sees the symmetry
        return
    total: Any = out
    for block in _blocks(len(total)):
        total[block, : block.stop].addmm_(F[:, block].T, F[:, : block.stop])
