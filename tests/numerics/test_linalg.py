"""Factorisations against plain dense algebra."""

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skout._numerics.linalg import (
    congruence,
    eigen_whitening,
    low_rank,
    orthonormal,
    pivoted_cholesky,
    ridge_leverage,
    ridge_path,
    ridge_solve,
    symmetric_eigenvalues,
    top_eigenvalue,
    triangle_gram,
    triangular_inverse,
)
from skout.basis.features import PartlyWhitened, Whitening, WhiteningPlan

EPS = np.finfo(float).eps


def psd(n: int, rank: int, seed: int = 0) -> np.ndarray:
    """A positive semi-definite matrix of the given rank."""
    B = np.random.default_rng(seed).standard_normal((n, rank))
    return B @ B.T


def ill_conditioned(n: int, lowest: float, seed: int = 0) -> np.ndarray:
    """Eigenvalues from 1 down to `lowest`, evenly in logarithm."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    K = (Q * np.geomspace(1.0, lowest, n)) @ Q.T
    return (K + K.T) / 2


# Pivoted Cholesky --------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (6, 6), (10, 3), (40, 17), (150, 90)])
def test_pivoted_cholesky_reveals_the_rank(n, rank):
    K = psd(n, rank)
    L, pivots = pivoted_cholesky(K)
    assert L.shape == (rank, rank)
    assert len(np.unique(pivots)) == rank
    assert_array_equal(L, np.tril(L))
    assert_allclose(L @ L.T, K[np.ix_(pivots, pivots)], rtol=1e-10, atol=1e-12 * K.max())
    # and the pivots explain everything else
    rest = K - K[:, pivots] @ np.linalg.solve(K[np.ix_(pivots, pivots)], K[pivots])
    assert np.abs(rest).max() < 1e-8 * K.max()


def test_pivots_are_the_largest_residuals():
    """First the largest diagonal entry, then the largest of what is left."""
    K = psd(12, 12)
    pivots = pivoted_cholesky(K)[1]
    residual = K.copy()
    for pivot in pivots:
        assert residual[pivot, pivot] >= residual.diagonal().max() - 1e-10
        residual -= np.outer(residual[:, pivot], residual[pivot]) / residual[pivot, pivot]


@pytest.mark.parametrize("tol", [0.05, 1e-2, 1e-4])
def test_pivoted_cholesky_stops_at_the_tolerance(tol):
    K = ill_conditioned(30, 1e-8)
    L, pivots = pivoted_cholesky(K, tol)
    assert np.all(np.diag(L) ** 2 > tol)
    left = K - K[:, pivots] @ np.linalg.solve(K[np.ix_(pivots, pivots)], K[pivots])
    assert left.diagonal().max() <= tol * (1 + 1e-9)


def test_pivoted_cholesky_never_goes_below_rounding():
    """A tolerance of zero is raised to m eps max(diag)."""
    K = np.repeat(np.repeat(psd(5, 5), 3, axis=0), 3, axis=1)
    assert len(pivoted_cholesky(K, 0.0)[0]) == 5
    assert len(pivoted_cholesky(K)[0]) == 5


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_pivoted_cholesky_is_blind_to_scale(scale):
    K = psd(10, 4)
    L, pivots = pivoted_cholesky(scale * K)
    assert_array_equal(pivots, pivoted_cholesky(K)[1])
    assert_allclose(L / np.sqrt(scale), pivoted_cholesky(K)[0], rtol=1e-9)


def test_pivoted_cholesky_leaves_its_input_alone():
    for order in "CF":
        K = np.array(psd(6, 3), order=order)
        copy = K.copy()
        K.flags.writeable = False
        pivoted_cholesky(K)
        assert_array_equal(K, copy)


@pytest.mark.parametrize("K", [np.zeros((3, 3)), np.zeros((1, 1)), np.zeros((0, 0))])
@pytest.mark.parametrize("factorise", [pivoted_cholesky, eigen_whitening])
def test_zero_matrix(factorise, K):
    with pytest.raises(ValueError, match=r"kernel matrix of the landmarks is zero.*another kernel"):
        factorise(K)


# Whitening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (8, 8), (20, 6)])
def test_eigen_whitening(n, rank):
    K = psd(n, rank)
    whiten, values = eigen_whitening(K)
    assert whiten.shape == (rank, n)
    assert np.all(np.diff(values) <= 0)
    assert_allclose(values, np.linalg.eigvalsh(K)[::-1][:rank], rtol=1e-8)
    assert_allclose(whiten @ K @ whiten.T, np.eye(rank), atol=1e-8)
    # D^(-1/2) U' K = D^(1/2) U'
    assert_allclose((K @ whiten.T) @ (whiten @ K), K, atol=1e-10 * K.max())


def test_eigen_whitening_cuts_at_rounding():
    K = np.diag([1.0, 1e-3, 1e-17, 0.0])
    whiten, values = eigen_whitening(K)
    assert_allclose(values, [1.0, 1e-3])
    assert_allclose(np.abs(whiten), [[1.0, 0.0, 0.0, 0.0], [0.0, np.sqrt(1e3), 0.0, 0.0]])


def test_symmetric_eigenvalues():
    K = psd(9, 9)
    assert_allclose(symmetric_eigenvalues(K), np.linalg.eigvalsh(K)[::-1])


@pytest.mark.parametrize("n", [1, 2, 50])
def test_triangular_inverse(n):
    L = np.linalg.cholesky(psd(n, n) + np.eye(n))
    inverse = triangular_inverse(L)
    assert_array_equal(inverse, np.tril(inverse))
    assert_allclose(inverse @ L, np.eye(n), atol=1e-12)


def test_triangular_inverse_ignores_the_upper_triangle():
    L = np.tril(psd(4, 4) + np.eye(4))
    assert_allclose(triangular_inverse(L + np.triu(np.full((4, 4), 7.0), 1)), np.linalg.inv(L))


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("order", ["C", "F"])
def test_congruence(n, order):
    M = np.asarray(np.tril(np.random.default_rng(1).standard_normal((n, n))), order=order)
    A = np.asarray(psd(n, n), order=order)
    copies = M.copy(), A.copy()
    found = congruence(M, A)
    assert_allclose(found, M @ A @ M.T, atol=1e-12 * n * np.abs(M @ A @ M.T).max())
    assert_allclose(found, found.T, atol=1e-12 * n * np.abs(found).max())
    assert_array_equal(M, copies[0])
    assert_array_equal(A, copies[1])


@pytest.mark.parametrize("n", [1, 5, 60])
def test_top_eigenvalue_is_close_and_never_above(n):
    L = np.linalg.cholesky(ill_conditioned(n, 1e-4) + 1e-8 * np.eye(n))
    top = np.linalg.eigvalsh(L @ L.T)[-1]
    C = np.linalg.inv(L)
    assert 0.8 * top <= top_eigenvalue(C) <= top * (1 + 1e-12)
    assert_allclose(top_eigenvalue(C, n_iter=500), top, rtol=1e-3)
    D = np.linalg.inv(C)[n // 3 :, n // 3 :]
    left = np.linalg.eigvalsh(D @ D.T)[-1]
    assert_allclose(top_eigenvalue(C, n // 3, n_iter=500), left, rtol=1e-3)


@pytest.mark.parametrize("p", [1, 2, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_partial_whitening_gives_the_moments_of_full_whitening(p, dtype):
    """Z = F L^(-T): whatever is whitened by row and whatever afterwards, Z'Z and Z'T agree."""
    rng = np.random.default_rng(0)
    L = np.linalg.cholesky(psd(p, p) + np.eye(p))
    F, T = rng.standard_normal((600, p)), rng.standard_normal((600, 3))
    Z = F @ np.linalg.inv(L).T
    rtol = 1e-10 if dtype == np.float64 else 1e-4
    for size in range(p + 1):
        C, block = triangular_inverse(L), F.astype(dtype)
        finish = PartlyWhitened(C, size).finish()
        half = Whitening(C, WhiteningPlan(size, False, np.dtype(dtype))).apply(block)
        assert half is block, "in place"
        assert half.dtype == dtype
        assert finish.shape == (p, p)
        assert_allclose(half[:, :size], Z[:, :size], rtol=1e-3, atol=rtol)
        half = half.astype(np.float64)
        assert_allclose(half @ finish.T, Z, rtol=rtol, atol=rtol)
        assert_allclose(finish @ half.T @ half @ finish.T, Z.T @ Z, rtol=rtol, atol=600 * rtol)
        assert_allclose(finish @ half.T @ T, Z.T @ T, rtol=rtol, atol=600 * rtol)


# Ridge -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [1e-6, 0.1, 10.0, 1e6])
def test_ridge_solve_is_the_solution(shift):
    A, B = psd(12, 5), np.random.default_rng(1).standard_normal((12, 3))
    expected = np.linalg.solve(A + shift * np.eye(12), B)
    assert_allclose(ridge_solve(A, B, shift), expected, rtol=1e-7, atol=1e-8)
    assert_allclose(ridge_path(A, B, np.array([shift]))[0], expected, rtol=1e-7, atol=1e-8)


def test_ridge_solve_leaves_its_input_alone():
    A, B = psd(6, 6), np.ones((6, 2))
    copies = A.copy(), B.copy()
    for array in (A, B):
        array.flags.writeable = False
    ridge_solve(A, B, 0.1)
    ridge_solve(A, B, 0.0)
    ridge_path(A, B, np.array([0.0, 0.1]))
    assert_array_equal(A, copies[0])
    assert_array_equal(B, copies[1])


@pytest.mark.parametrize("n_shifts", [3, 10])
def test_ridge_path_is_one_solution_a_shift(n_shifts):
    A, B = psd(9, 9), np.random.default_rng(1).standard_normal((9, 2))
    shifts = np.geomspace(1e-6, 1e3, n_shifts)
    path = ridge_path(A, B, shifts)
    assert len(path) == n_shifts
    for x, shift in zip(path, shifts, strict=True):
        assert_allclose(x, np.linalg.solve(A + shift * np.eye(9), B), rtol=1e-7)


@pytest.mark.parametrize("rank", [1, 4, 8])
def test_shift_zero_is_least_squares(rank):
    """The solution of smallest norm, as by the pseudo-inverse."""
    A = psd(8, rank)
    B = np.random.default_rng(1).standard_normal((8, 2))
    expected = np.linalg.pinv(A, hermitian=True, rcond=1e-12) @ B
    assert_allclose(ridge_solve(A, B, 0.0), expected, rtol=1e-7, atol=1e-8)
    assert_allclose(ridge_path(A, B, np.array([0.0, 1.0]))[0], expected, rtol=1e-7, atol=1e-8)


def test_shift_zero_of_a_zero_matrix():
    assert_array_equal(ridge_solve(np.zeros((3, 3)), np.ones((3, 2)), 0.0), np.zeros((3, 2)))


@pytest.mark.parametrize("shift", [1e-17, 1e-20, 1e-30])
def test_shift_below_rounding_warns_and_stays_bounded(shift):
    """Directions of rounding noise are left out, as the warning says: b lies in the span of A."""
    A = psd(30, 10)
    x = np.random.default_rng(1).standard_normal((30, 1))
    A -= 1e-15 * A.max() * np.eye(30)  # rounding has made it indefinite
    B = A @ x
    with pytest.warns(UserWarning, match=r"alpha is below the rounding error.*Raise alpha"):
        found = ridge_solve(A, B, shift)
    assert np.linalg.norm(found) <= 1.01 * np.linalg.norm(x)
    assert_allclose(A @ found, B, atol=1e-9 * np.abs(B).max())


def test_path_with_a_shift_below_rounding_stays_bounded():
    A = psd(30, 10)
    x = np.random.default_rng(1).standard_normal((30, 1))
    for solution in ridge_path(A, A @ x, np.array([1e-30, 1e-20, 0.0])):
        assert np.linalg.norm(solution) <= 1.01 * np.linalg.norm(x)


# Leverage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 8])
def test_ridge_leverage_is_the_formula(size):
    """diag K (K + s I)^-1 with K = B B', plus the share of each row that B misses, at most 1."""
    B = np.random.default_rng(0).standard_normal((25, 8))
    K = B @ B.T
    diag = 1.3 * np.diag(K)
    shift = (diag.sum() - np.sort(np.linalg.eigvalsh(K))[::-1][:size].sum()) / size
    missed = 0.3 * np.diag(K) / shift
    expected = np.minimum(1.0, oracles.ridge_leverage_scores(K, shift) + missed)
    assert_allclose(ridge_leverage(B, diag, size), expected, rtol=1e-9)


def test_ridge_leverage_of_a_row_that_the_pilot_misses_is_large():
    B = np.ones((20, 1))
    B[7] = 0.0
    scores = ridge_leverage(B, np.ones(20), 1)
    assert scores[7] == 1.0
    assert scores[np.arange(20) != 7].max() < 0.1


def test_ridge_leverage_without_a_tail():
    """Nothing left beyond `size` directions: the hat matrix, of trace the rank."""
    B = np.random.default_rng(0).standard_normal((25, 4))
    scores = ridge_leverage(B, np.sum(B**2, axis=1), 10)
    assert_allclose(scores, np.diag(B @ np.linalg.inv(B.T @ B) @ B.T), rtol=1e-9)
    assert_allclose(scores.sum(), 4.0, rtol=1e-9)


def test_gram_of_a_triangle():
    L = np.tril(np.random.default_rng(0).standard_normal((7, 7)))
    assert_allclose(triangle_gram(L), L.T @ L, atol=1e-12)


def test_low_rank():
    A = 1.0 / np.add.outer(np.arange(1, 26), np.arange(1, 30))
    B, C = low_rank(A)
    assert B.shape[1] < 16
    assert_allclose(B @ C, A, atol=1e-13)


@pytest.mark.parametrize("shape", [(1, 0), (0, 3)])
def test_low_rank_of_nothing(shape):
    B, C = low_rank(np.zeros(shape))
    assert (B @ C).shape == shape
    assert B.shape[1] == 0


@pytest.mark.parametrize("shape", [(9, 4), (4, 4)])
def test_orthonormal_columns_of_the_same_span(shape):
    A = np.random.default_rng(0).standard_normal(shape)
    Q = orthonormal(A)
    assert Q.shape == shape
    assert_allclose(Q.T @ Q, np.eye(shape[1]), atol=1e-12)
    assert_allclose(Q @ (Q.T @ A), A, atol=1e-12)
