"""Factorizations of matrices, in float64; `factors` has those in place, or on a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve, eigh, lapack, solveh_banded, svd

from .arrays import contiguous, is_tensor, namespace, numpy_of, tensor
from .typing import Array, TorchDevice

EPS = float(np.finfo(np.float64).eps)
# A torch device on which triangles of `_LARGE` rows or more are inverted, multiplied and solved, in
# float64 too; smaller ones are not worth the copy. Where the two are even was not measured.
_DEVICE: ContextVar[TorchDevice | None] = ContextVar("device", default=None)
_LARGE = 1500
# Columns of a triangle that are copied at a time: a block of them stays in cache. For 2,000 rows a
# quarter takes 1.2 times as long, half 0.97, double 1.4 and more.
_TRIANGLE = 256
# Up to this many shifts are solved by one Cholesky factor each (m^3 / 3 flops); more by a
# tridiagonal form, which costs 4 m^3 / 3 once, half of it in slow products with vectors, and next
# to nothing for each shift. The two are even at 8 shifts of 500 rows and at 6 of 1,000.
_FEW_SHIFTS = 8
# Rounding of a kernel matrix of n rows stays below n times this share of its largest entry: float32
# kernels reach 1e-7. Eigenvalues below minus this show that a kernel is not positive semi-definite.
_ROUNDING = 1e-6
# Vectors that a remainder is multiplied with: a single one could be orthogonal to what is wrong.
_PROBES = 3
# Kernel matrices whose largest value is below this have lost digits to underflow.
_UNDERFLOW = 1e-290


@contextmanager
def large_matrices_on(device: TorchDevice | None) -> Iterator[None]:
    """Compute with large matrices on a device within the block; None is the host."""
    token = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def _device_for(n: int) -> TorchDevice | None:
    """Return the device for matrices of n rows, None for the host."""
    return _DEVICE.get() if n >= _LARGE else None


def pivoted_cholesky(K: np.ndarray, tol: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Factorize a positive semi-definite matrix on its numerically independent rows.

    Parameters
    ----------
    K : ndarray of shape (m, m)
    tol : float, default 0
        Stop when no pivot is above it, nor above m * eps * max(diag K).

    Returns
    -------
    L : ndarray of shape (p, p)
        Lower triangular, K[pivots][:, pivots] = L L'.
    pivots : ndarray of int, shape (p,)
    """
    m = K.shape[0]
    floor = m * EPS * float(np.max(np.diagonal(K), initial=0.0))
    # K.T is the same matrix in the order of Fortran, so that LAPACK needs no copy
    factor, order, rank, _ = lapack.dpstrf(K.T, lower=1, tol=max(tol, floor))
    check_remainder(K, factor[:, :rank], order - 1, max(tol, floor))
    if rank == 0 or not np.any(factor[0, 0]):
        _refuse_zero()
    return _lower_triangle(factor[:rank, :rank]), order[:rank] - 1


def _refuse_zero() -> None:
    raise ValueError(
        "The kernel matrix of the landmarks is zero: every row has norm 0 under this kernel. "
        "Check the data or use another kernel."
    )


def _lower_triangle(A: np.ndarray) -> np.ndarray:
    """Return np.tril(A) row by row in memory; A may lie column by column."""
    L = np.zeros(A.shape)
    for start in range(0, len(A), _TRIANGLE):
        stop = start + _TRIANGLE
        L[start:stop, start:stop] = np.tril(A[start:stop, start:stop])
        L[stop:, start:stop] = A[stop:, start:stop]
    return L


def _eigh(A: np.ndarray, check_finite: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return eigh(A) by divide and conquer, the fastest; old SciPy fails for fewer than 2 rows."""
    if not A.size:
        return np.linalg.eigh(A)
    return eigh(A, driver="evd" if len(A) > 1 else None, check_finite=check_finite)


def eigen_whitening(K: np.ndarray, tol: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return (D^(-1/2) U', D) of K = U D U', largest first, cut at tol and m * eps * largest."""
    values, vectors = _eigh(K)
    check_spectrum(values, tol)
    keep = values > max(tol, K.shape[0] * EPS * values.max(initial=0.0))
    if not keep.any():
        _refuse_zero()
    values, vectors = values[keep][::-1], vectors[:, keep][:, ::-1]
    return (vectors / np.sqrt(values)).T, values


def check_definite(K: np.ndarray, rows: int = 128) -> None:
    """Raise where a sample of the rows of K shows that it is not positive semi-definite."""
    sample = slice(None, None, max(1, len(K) // rows))
    check_spectrum(eigh(K[sample, sample], eigvals_only=True))


def symmetric_eigenvalues(K: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of a symmetric matrix, largest first."""
    return eigh(K, eigvals_only=True)[::-1]


def symmetric_eigen(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return D and U of a symmetric matrix K = U D U', largest first."""
    values, vectors = _eigh(K)
    return values[::-1], vectors[:, ::-1]


def triangular_inverse(L: np.ndarray) -> np.ndarray:
    """Invert a lower triangular matrix with a non-zero diagonal."""
    if (device := _device_for(len(L))) is not None:
        import torch

        identity = torch.eye(len(L), dtype=torch.float64, device=device)
        inverse = torch.linalg.solve_triangular(tensor(L, device), identity, upper=False)
        return numpy_of(contiguous(inverse))  # in row-major order
    # L.T is in the order of Fortran: no copy
    return _lower_triangle(lapack.dtrtri(L.T, lower=0)[0].T)


def triangle_gram(L: np.ndarray) -> np.ndarray:
    """Return L'L for a lower triangular L, at a third of the cost of a product."""
    gram = lapack.dlauum(L.T, lower=0)[0]  # U U' = L'L, of which the upper triangle is written
    for start in range(0, len(L), _TRIANGLE):
        block = slice(start, start + _TRIANGLE)
        corner = gram[block, block]
        gram[block, block] = np.triu(corner) + np.triu(corner, 1).T
        gram[block.stop :, block] = gram[block, block.stop :].T
    return gram.T  # the same matrix in row-major order


def congruence(M: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Return M A M' for a lower triangular M and a symmetric A."""
    if (device := _device_for(len(M))) is not None:
        left = tensor(M, device)
        return numpy_of(contiguous(left @ tensor(A, device) @ left.T))
    half = blas.dtrmm(1.0, M.T, A.T, lower=0, trans_a=1)  # M A
    return blas.dtrmm(1.0, M.T, half, side=1, lower=0)


def triangular_product(M: np.ndarray, B: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """Return M B, or M'B, for a lower triangular M, at half the cost of a product."""
    B = np.ascontiguousarray(B, dtype=np.float64)  # Fortran reads M' and B' in place
    return blas.dtrmm(1.0, M.T, B.T, side=1, lower=0, trans_a=int(transposed)).T


def inverse_gram_product(C: np.ndarray, v: np.ndarray, first: int = 0) -> np.ndarray:
    """Return D D' v from C = L^-1, D the block of L beyond its `first` rows, where v is zero."""
    upper = np.asfortranarray(C.T)
    half = blas.dtrsv(upper, v, lower=0)
    half[:first] = 0.0
    return blas.dtrsv(upper, half, lower=0, trans=1)


def top_eigenvalue(C: np.ndarray, first: int = 0, n_iter: int = 4, enough: float = np.inf) -> float:
    """Estimate the largest eigenvalue of D D', given C = L^-1 and L = [[A, 0], [B, D]].

    A has `first` rows. The estimates of the power iteration increase; the first one above `enough`
    is returned.
    """
    v = np.ones(len(C))
    v[:first] = 0.0
    value = 0.0
    for _ in range(n_iter):
        unit = v / np.linalg.norm(v)
        v = inverse_gram_product(C, unit, first)
        value = float(unit @ v)
        if value > enough:
            break
    return value


def top_centered(C: np.ndarray, n_iter: int = 4, enough: float = np.inf) -> float:
    """Estimate the largest eigenvalue of K H K, where K = L L', C = L^-1 and H centers rows.

    The estimates increase; the first one above `enough` is returned.
    """
    v = np.sin(np.arange(len(C)))
    value = 0.0
    for _ in range(n_iter):
        unit = v / np.linalg.norm(v)
        half = inverse_gram_product(C, unit)
        half -= half.mean()
        value = float(half @ half)
        if value > enough:
            break
        v = inverse_gram_product(C, half)
    return value


def ridge_solve(
    A: np.ndarray, B: np.ndarray, shift: float, *, overwrite: bool = False
) -> np.ndarray:
    """Solve (A + shift I) x = B for a positive semi-definite A; shift = 0 is least squares.

    With `overwrite`, the factor may be written into A.
    """
    if shift > 0 and (device := _device_for(len(A))) is not None:
        solution = _solved_on(device, A, B, shift)
        if solution is not None:
            return solution
    if shift > 0:
        diagonal = np.diagonal(A).copy()
        in_place = overwrite and A.flags.c_contiguous
        shifted = A.T if in_place else A.T.copy(order="F")
        shifted[np.diag_indices_from(shifted)] += shift
        try:
            factor = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
            return cho_solve(factor, B, check_finite=False)
        except LinAlgError:
            warnings.warn(
                "alpha is below the rounding error of the moments: directions that cannot be "
                "told from noise are left out. Raise alpha, or give float64 data.",
                UserWarning,
                stacklevel=2,
            )
        if in_place:  # the factor has overwritten one triangle
            upper = np.triu(shifted, 1)
            A = upper + upper.T
            A[np.diag_indices_from(A)] = diagonal
    return _eigen_path(A, B, np.array([shift]))[0]


def _solved_on(
    device: TorchDevice, A: np.ndarray, B: np.ndarray, shift: float
) -> np.ndarray | None:
    """Return (A + shift I)^-1 B from a device, None if the matrix is not positive there."""
    factor = _tensor_factor(tensor(A, device), shift)
    if factor is None:
        return None
    return numpy_of(namespace(factor).cholesky_solve(tensor(B, device), factor))


def _tensor_factor(A: Array, shift: float) -> Array | None:
    """Return the Cholesky factor of A + shift I, None if that is not positive."""
    import torch

    shifted: Any = namespace(A).clone(A)
    shifted.diagonal().add_(shift)
    factor, info = torch.linalg.cholesky_ex(shifted)
    return None if int(info) > 0 else factor


def positive_solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A^-1 B for a positive definite A, else raise LinAlgError; A is overwritten."""
    if (device := _device_for(len(A))) is not None:
        solution = _solved_on(device, A, B, 0.0)
        if solution is None:
            raise LinAlgError("The matrix is not positive definite.")
        return solution
    factor = cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
    return cho_solve(factor, B, check_finite=False)


def positive_solver(A: Array) -> Callable[[Any], Any]:
    """Return b -> A^-1 b for a positive definite A, shifted where rounding makes it indefinite."""
    trace = float(A.diagonal().sum())
    # the least shift, relative to the trace, that a Cholesky factorization accepts: from the
    # rounding of float64 to its square root, in steps of about two digits
    for lift in (0.0, 1e-15, 1e-13, 1e-11, 1e-8):
        if is_tensor(A):
            factor: Any = _tensor_factor(A, lift * trace)
            if factor is None:
                continue
            return lambda b: namespace(b).cholesky_solve(b, factor)
        lifted = A.copy(order="F")
        lifted[np.diag_indices_from(lifted)] += lift * trace
        try:
            factor = cho_factor(lifted, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        return lambda b: cho_solve(factor, b, check_finite=False)
    raise ValueError("The system of a Newton step is not positive definite: alpha is too small.")


def pseudo_inverse(A: np.ndarray) -> np.ndarray:
    """Return the pseudo-inverse of a symmetric positive semi-definite matrix."""
    values, vectors = eigh(A)
    keep = values > len(A) * EPS * max(float(values[-1]), 0.0)
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T


def low_rank(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return B and C of least inner size with A = B C, up to rounding."""
    if not A.size:  # old SciPy refuses it
        return np.zeros((A.shape[0], 0)), np.zeros((0, A.shape[1]))
    U, values, V = svd(A, full_matrices=False)
    keep = values > max(A.shape) * EPS * values.max(initial=0.0)
    return U[:, keep] * values[keep], V[keep]


def orthonormal(A: np.ndarray) -> np.ndarray:
    """Return Q of A = QR: orthonormal columns that span those of A, shape (n, min(n, p))."""
    return np.linalg.qr(A)[0]


def square_root(M: np.ndarray) -> np.ndarray:
    """Return A = D^(1/2) V' with A'A = M = V D V', without the directions where D is zero."""
    values, vectors = eigh(M)
    keep = values > len(M) * EPS * max(float(values[-1]), 0.0)
    return np.sqrt(values[keep])[:, None] * vectors[:, keep].T


def ridge_path(A: np.ndarray, B: np.ndarray, shifts: np.ndarray) -> list[np.ndarray]:
    """Solve (A + s I) x = B for each s; for many of them, from a tridiagonal form of A.

    A = Q T Q' costs a third of an eigendecomposition and (T + s I) y = Q'B next to nothing. A few
    Cholesky factors cost less than Q. Shifts below the rounding error of A are solved by
    eigenvectors, without the directions that are noise.
    """
    noise = A.shape[0] * EPS * float(np.max(np.sum(np.abs(A), axis=1), initial=0.0))
    if len(A) < 3 or np.min(shifts) <= noise:
        return _eigen_path(A, B, shifts)
    if len(shifts) <= _FEW_SHIFTS:
        return [ridge_solve(A, B, float(s)) for s in shifts]
    reflectors, diagonal, off, tau, _ = lapack.dsytrd(A, lower=1, lwork=64 * len(A))
    try:
        rotated = _apply_reflectors(reflectors, tau, B, "T")
        solutions = [
            solveh_banded(np.vstack([diagonal + s, np.append(off, 0.0)]), rotated, lower=True)
            for s in shifts
        ]
    except LinAlgError:  # a negative eigenvalue beyond the noise
        return _eigen_path(A, B, shifts)
    stacked = _apply_reflectors(reflectors, tau, np.hstack(solutions), "N")
    return np.hsplit(stacked, len(shifts))


def _apply_reflectors(reflectors: np.ndarray, tau: np.ndarray, B: np.ndarray, trans: str) -> Array:
    """Return Q B or Q'B, where Q leaves the first coordinate alone."""
    rest, _, _ = lapack.dormqr("L", trans, reflectors[1:, :-1], tau, B[1:], 64 * B.shape[1])
    return np.vstack([B[:1], rest])


def _eigen_path(A: np.ndarray, B: np.ndarray, shifts: np.ndarray) -> list[np.ndarray]:
    """Solve (A + s I) x = B for each s by one eigendecomposition of A."""
    values, vectors = _eigh(A, check_finite=False)
    check_spectrum(values)
    noise = A.shape[0] * EPS * max(values[-1], 0.0)
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ B
    solutions = []
    for shift in shifts:
        keep = values + shift > (noise if shift <= noise else 0.0)
        scale = np.divide(1.0, values + shift, where=keep, out=np.zeros_like(values))
        solutions.append(vectors @ (scale[:, None] * rotated))
    return solutions


def ridge_leverage(B: np.ndarray, diag: np.ndarray, size: int) -> np.ndarray:
    """Approximate the ridge leverage scores diag K (K + s I)^-1, given B B' <= K and diag K.

    That is diag B (B'B + s I)^-1 B' plus (diag K - diag B B') / s for what B misses, at most 1. s
    is the part of the trace beyond the first `size` eigenvalues, divided by `size`.
    """
    values, vectors = _eigh(B.T @ B)
    values = np.maximum(values, 0.0)
    s = max(diag.sum() - values[::-1][:size].sum(), EPS * diag.sum()) / size
    rotated = B @ vectors
    seen = np.einsum("ij,j,ij->i", rotated, 1.0 / (values + s), rotated)
    missed = np.maximum(diag - np.einsum("ij,ij->i", B, B), 0.0)
    missed[missed <= len(values) * EPS * diag] = 0.0
    scores: Array = np.minimum(1.0, seen + missed / s)
    return scores


# Kernel matrices that are not positive semi-definite, beyond rounding -----------------------------


def rounding_of(computed: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error of computed k(x, x), capped at what rounding can explain.

    `computed` are k(x, x), shape (n,), as the blocks of a kernel matrix have them; `exact` the same
    from `Kernel.diag`.
    """
    limit = _ROUNDING * float(np.max(np.abs(exact), initial=0.0))
    return min(float(np.max(np.abs(computed - exact), initial=0.0)), limit)


def check_spectrum(values: np.ndarray, tol: float = 0.0) -> None:
    """Raise where the eigenvalues of a kernel matrix, in any order, are clearly below zero."""
    if len(values) == 0:
        return
    lowest, largest = float(np.min(values)), float(np.max(np.abs(values)))
    if largest < _UNDERFLOW:
        return
    if lowest < -max(10.0 * tol, len(values) * _ROUNDING * largest):
        _refuse(lowest, largest)


def check_remainder(K: np.ndarray, factor: np.ndarray, order: np.ndarray, tol: float) -> None:
    """Raise where the remainder of a pivoted Cholesky factor is too large for a kernel matrix.

    The remainder is R = K22 - L21 L21'. If K is positive semi-definite, no entry of R exceeds tol.
    This is tested by products of R with a few vectors, which read K once.

    Parameters
    ----------
    K : ndarray of shape (m, m)
    factor : ndarray of shape (m, p)
        Its rows are in the order of the pivots.
    order : ndarray of int, shape (m,)
    tol : float
        The largest pivot that was left out.
    """
    rest, L21 = order[factor.shape[1] :], factor[factor.shape[1] :]
    scale = float(np.max(np.abs(np.diagonal(K)), initial=0.0)) or 1.0
    if len(rest) == 0 or scale < _UNDERFLOW:
        return
    v = np.zeros((len(K), _PROBES))
    v[rest] = np.cos(np.outer(np.arange(len(rest)), np.arange(_PROBES))) / np.sqrt(len(rest))
    L21 = L21 / np.sqrt(scale)
    remainder = (K @ v)[rest] / scale - L21 @ (L21.T @ v[rest])
    size = float(np.linalg.norm(remainder, axis=0).max())
    if size > len(K) * max(10.0 * tol / scale, _ROUNDING):
        _refuse(-size * scale, scale)


def _refuse(lowest: float, largest: float) -> None:
    raise ValueError(
        "The kernel is not positive semi-definite: its matrix of the rows has eigenvalues of about "
        f"{lowest:.3g} beside values of up to {largest:.3g}, far beyond rounding. Use another "
        "kernel: sums, products and exponentials of kernels are kernels, tanh(a x.x' + b) is not. "
        "If it is one, numbers in sparse rows are too large for their distances: scale them, for "
        "instance with scikit-learn's MaxAbsScaler, or give dense rows, which are centered."
    )
