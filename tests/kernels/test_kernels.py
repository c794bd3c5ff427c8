"""Kernels against double loops, scikit-learn and their own mathematics."""

import pickle
import tracemalloc
from typing import Any

import numpy as np
import oracles
import pytest
from extras import extra
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise

from skout import KernelRidge
from skout.kernels import (
    F1,
    KERNELS,
    Cosine,
    Gaussian,
    GaussianTanimoto,
    Kendall,
    Kernel,
    Laplacian,
    Lehmer,
    Linear,
    Matern,
    Normalized,
    PairwiseFunction,
    Polynomial,
    Product,
    RankHamming,
    Scaled,
    Sum,
    Tanimoto,
    as_kernel,
)
from skout.testing import check_kernel

pd = extra("pandas")
pl = extra("polars")

# Each kernel with the formula it must equal and the data that the formula takes.
CASES = {
    "linear": (Linear(), oracles.linear, "real"),
    "polynomial": (Polynomial(3, gamma=0.4, coef0=0.7), oracles.polynomial(3, 0.4, 0.7), "real"),
    "gaussian": (Gaussian(0.3), oracles.gaussian(0.3), "real"),
    "laplacian": (Laplacian(0.2), oracles.laplacian(0.2), "real"),
    "matern-0.5": (Matern(0.6, nu=0.5), oracles.matern(0.6, 0.5), "real"),
    "matern-1.5": (Matern(0.6, nu=1.5), oracles.matern(0.6, 1.5), "real"),
    "matern-2.5": (Matern(0.6, nu=2.5), oracles.matern(0.6, 2.5), "real"),
    "cosine": (Cosine(), oracles.cosine, "real"),
    "tanimoto-bits": (Tanimoto(), oracles.tanimoto, "bits"),
    "tanimoto-counts": (Tanimoto(), oracles.tanimoto, "counts"),
    "f1-bits": (F1(), oracles.f1, "bits"),
    "f1-counts": (F1(), oracles.f1, "counts"),
    "normalized": (
        Normalized(Polynomial(2, gamma=0.4, coef0=0.0)),
        oracles.normalized(oracles.polynomial(2, 0.4, 0.0)),
        "real",
    ),
    "sum": (
        Gaussian(0.3) + Linear(),
        oracles.added(oracles.gaussian(0.3), oracles.linear),
        "real",
    ),
    "product": (
        Matern(0.6) * Cosine(),
        oracles.multiplied(oracles.matern(0.6, 1.5), oracles.cosine),
        "real",
    ),
    "scaled": (2.5 * Tanimoto(), oracles.scaled(2.5, oracles.tanimoto), "bits"),
    "nested": (
        2.0 * Normalized(Linear() + 3.0 * Gaussian(0.3)) * Laplacian(0.2),
        oracles.multiplied(
            oracles.scaled(
                2.0,
                oracles.normalized(
                    oracles.added(oracles.linear, oracles.scaled(3.0, oracles.gaussian(0.3)))
                ),
            ),
            oracles.laplacian(0.2),
        ),
        "real",
    ),
}
each_case = pytest.mark.parametrize(("kernel", "oracle", "kind"), CASES.values(), ids=list(CASES))
each_kernel_and_kind = pytest.mark.parametrize(
    ("kernel", "kind"), [(kernel, kind) for kernel, _, kind in CASES.values()], ids=list(CASES)
)

# Kernels that take dense rows of one kind alone, see also test_rankings.py.
RANKING_CASES = {
    "kendall": (Kendall(), oracles.kendall, "ranks"),
    "kendall-ties": (Kendall(ties=True), oracles.kendall, "counts"),
    "rank-hamming": (RankHamming(), oracles.rank_hamming, "ranks"),
    "lehmer": (Lehmer(), oracles.lehmer, "ranks"),
}
ALL_CASES = CASES | RANKING_CASES
every_case = pytest.mark.parametrize(
    ("kernel", "oracle", "kind"), ALL_CASES.values(), ids=list(ALL_CASES)
)
RANKINGS = (Kendall, RankHamming, Lehmer)

GAMMA_KERNELS = [Polynomial, Gaussian, Laplacian, Matern]
VECTOR_KERNELS = [case[0] for case in CASES.values()]
each_kernel = pytest.mark.parametrize("kernel", VECTOR_KERNELS, ids=list(CASES))

FORMATS = {
    "dense": np.asarray,
    "csr": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo_array": sparse.coo_array,
}


def make_data(kind: str, n: int, seed: int = 0) -> np.ndarray:
    """Vectors with many zeros, the first of them all zero: the empty set, the zero vector."""
    rng = np.random.default_rng(seed)
    if kind == "ranks":
        return rng.permuted(np.tile(np.arange(6.0), (n, 1)), axis=1)
    if kind == "bits":
        X = rng.integers(0, 2, size=(n, 6)).astype(np.float64)
    elif kind == "counts":
        X = rng.poisson(1.2, size=(n, 6)).astype(np.float64)
    else:
        X = rng.standard_normal((n, 6)) * rng.integers(0, 2, size=(n, 6))
    X[0] = 0.0
    return X


def freeze(X: Any) -> Any:
    """Make an array or a CSR matrix read-only."""
    for part in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        part.flags.writeable = False
    return X


def non_canonical_csr() -> tuple[sparse.csr_matrix, np.ndarray]:
    """A CSR matrix with unsorted indices, a repeated entry and a stored zero; and its values."""
    indptr, indices = np.array([0, 4, 6, 8]), np.array([2, 0, 2, 1, 3, 0, 1, 2])
    data = np.array([1.0, 2.0, 1.0, 0.0, 3.0, 1.0, 2.0, 2.0])
    dense = np.array([[2.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 3.0], [0.0, 2.0, 2.0, 0.0]])
    return sparse.csr_matrix((data, indices, indptr), shape=(3, 4)), dense


# The formulas ------------------------------------------------------------------------------------


@every_case
def test_block_equals_double_loop(kernel, oracle, kind):
    A, B = make_data(kind, 9, seed=1), make_data(kind, 7, seed=2)
    assert_allclose(kernel(A, B), oracles.gram(oracle, A, B), rtol=1e-10, atol=1e-10)


@every_case
def test_float32_block(kernel, oracle, kind):
    A, B = make_data(kind, 9, seed=1).astype(np.float32), make_data(kind, 7, seed=2)
    K = kernel(A, B.astype(np.float32))
    assert K.dtype == np.float32
    expected = oracles.gram(oracle, A, B)
    atol = 1e-3 if "nu=0.5" in repr(kernel) else 1e-5  # sqrt turns 1e-7 into 3e-4
    assert_allclose(K, expected, rtol=1e-4, atol=atol * np.abs(expected).max())


@every_case
def test_gram_of_one_data_set(kernel, oracle, kind):
    A = make_data(kind, 9, seed=1)
    expected = oracles.gram(oracle, A, A)
    atol = 1e-7 if "nu=0.5" in repr(kernel) else 1e-10
    assert_allclose(kernel(A), expected, rtol=1e-10, atol=atol)
    assert_allclose(kernel(A), kernel(A, A), rtol=1e-12, atol=1e-12)


@each_case
def test_diag_and_paired(kernel, oracle, kind):
    A, B = make_data(kind, 200, seed=1), make_data(kind, 200, seed=2)  # two blocks of pairs
    diag = [oracle(a, a) for a in A]
    assert_allclose(kernel.diag(kernel.encode(A)), diag, rtol=1e-10, atol=1e-10)
    assert_allclose(kernel.diag(kernel.encode(sparse.csr_matrix(A))), diag, rtol=1e-10, atol=1e-10)
    pairs = [oracle(a, b) for a, b in zip(A, B, strict=True)]
    atol = 1e-7 if "nu=0.5" in repr(kernel) else 1e-10
    assert_allclose(kernel.paired(A, B), pairs, rtol=1e-10, atol=atol)


@every_case
def test_normalized_says_whether_the_diagonal_is_one(kernel, oracle, kind):
    diag = np.array([oracle(a, a) for a in make_data(kind, 9)])
    assert kernel.normalized == bool(np.all(np.abs(diag - 1.0) < 1e-12))


@each_case
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_equals_dense(kernel, oracle, kind, dtype):
    A = make_data(kind, 9, seed=1).astype(dtype)
    B = make_data(kind, 7, seed=2).astype(dtype)
    expected = oracles.gram(oracle, A, B)
    for name, form in FORMATS.items():
        single = 1e-3 if "nu=0.5" in repr(kernel) else 1e-5
        atol = (1e-10 if dtype == np.float64 else single) * max(1.0, np.abs(expected).max())
        for left, right in ((form(A), form(B)), (form(A), B), (A, form(B))):
            K = kernel(left, right)
            assert isinstance(K, np.ndarray)
            assert K.dtype == dtype
            assert_allclose(K, expected, rtol=1e-10, atol=atol, err_msg=name)


@each_kernel
def test_mixed_precision_follows_the_rows(kernel):
    A = np.abs(make_data("counts", 5, seed=1))
    B = np.abs(make_data("counts", 4, seed=2))
    K = kernel(A, B)
    tol = {"rtol": 1e-4, "atol": 1e-3}
    for form in (np.asarray, sparse.csr_matrix):
        single = kernel(form(A.astype(np.float32)), form(B))
        double = kernel(form(A), form(B.astype(np.float32)))
        assert single.dtype == np.float32
        assert double.dtype == np.float64
        assert_allclose(single, K, **tol)
        assert_allclose(double, K, **tol)


def test_sparse_product_with_many_landmarks(monkeypatch):
    """Above a size the landmarks stay sparse in the products: the same numbers."""
    A, B = make_data("counts", 9, seed=1), make_data("counts", 7, seed=2)
    kernels = [Linear(), Gaussian(0.3), Cosine(), Tanimoto(), Polynomial(2, 0.4)]
    expected = [kernel(A, B) for kernel in kernels]
    monkeypatch.setattr("skout._numerics.arrays._DENSE_LIMIT", 0)
    for kernel, K in zip(kernels, expected, strict=True):
        for left in (sparse.csr_matrix(A), A):
            assert_allclose(kernel(left, sparse.csr_matrix(B)), K, rtol=1e-10, atol=1e-12)


# Somebody else's implementation ------------------------------------------------------------------

PEERS = {
    "linear": (Linear(), pairwise.linear_kernel),
    "polynomial": (
        Polynomial(3, gamma=0.5, coef0=2.0),
        lambda A, B: pairwise.polynomial_kernel(A, B, degree=3, gamma=0.5, coef0=2.0),
    ),
    "gaussian": (Gaussian(0.7), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.7)),
    "laplacian": (Laplacian(0.7), lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.7)),
    "cosine": (Cosine(), pairwise.cosine_similarity),
    "matern-0.5": (Matern(0.4, nu=0.5), gp.Matern(length_scale=1 / 0.4, nu=0.5)),
    "matern-1.5": (Matern(0.4, nu=1.5), gp.Matern(length_scale=1 / 0.4, nu=1.5)),
    "matern-2.5": (Matern(0.4, nu=2.5), gp.Matern(length_scale=1 / 0.4, nu=2.5)),
    "tanimoto": (
        Tanimoto(),
        lambda A, B: 1.0 - pairwise.pairwise_distances(A > 0, B > 0, metric="jaccard"),
    ),
    "f1": (
        F1(),
        lambda A, B: 1.0 - pairwise.pairwise_distances(A > 0, B > 0, metric="dice"),
    ),
}


@pytest.mark.parametrize(("kernel", "peer"), PEERS.values(), ids=list(PEERS))
def test_equals_scikit_learn(kernel, peer):
    rng = np.random.default_rng(5)
    if isinstance(kernel, Tanimoto | F1):
        A, B = rng.random((30, 12)) < 0.4, rng.random((20, 12)) < 0.4
        A, B = A.astype(np.float64), B.astype(np.float64)
    else:
        A, B = rng.standard_normal((30, 8)), rng.standard_normal((20, 8))
    assert_allclose(kernel(A, B), peer(A, B), rtol=1e-10, atol=1e-12)


# Conformance -------------------------------------------------------------------------------------

CONFORMANCE_DATA = {
    "real": make_data("real", 20),
    "real-csr": sparse.csr_matrix(make_data("real", 20)),
    "real-f32": make_data("real", 20).astype(np.float32),
    "real-csr-f32": sparse.csr_matrix(make_data("real", 20).astype(np.float32)),
    "bits": make_data("bits", 20),
    "bits-bool": make_data("bits", 20).astype(bool),
    "counts": make_data("counts", 20).astype(int),
    "counts-csr": sparse.csr_matrix(make_data("counts", 20)),
    "counts-csr-f32": sparse.csr_array(make_data("counts", 20).astype(np.float32)),
    "duplicates": np.repeat(make_data("bits", 5), 4, axis=0),
    "one-feature": make_data("counts", 20)[:, :1],
    "ranks": np.repeat(make_data("ranks", 10), 2, axis=0),
    "ranks-f32": make_data("ranks", 20).astype(np.float32),
    "ranks-from-1": make_data("ranks", 20).astype(int) + 1,
    "one-item": np.ones((20, 1)),
}


# a kernel that learns from outputs is none before, see test_metric.py, and a matrix is not vectors
APART = ("learned_metric", "precomputed")
VECTORS = [name for name in KERNELS if as_kernel(name).takes_vectors and name not in APART]
GRAPHS = [
    ([(0, 1), (1, 2)], ["C", "C", "O"], [1, 2]),
    ([(0, 1), (1, 2), (2, 0)], ["C", "C", "O"], [1, 1, 1]),
    ([], ["N"], None),
    ([(0, 1), (2, 3)], ["C", "N", "O", "C"], [1, 3]),
    ([(0, 1), (1, 2), (2, 3), (3, 0)], ["C"] * 4, [1, 2, 1, 2]),
]
SPECTRA = [([50.0, 80.1], [1.0, 0.4], 120.0), ([50.0], [3.0], 90.0), ([50.002, 80.1], [2.0, 9.0])]
OBJECTS = {
    "ngram": ["banana", "ananas", "nab", "", "banana", "zürich"],
    "spectra": [*SPECTRA, SPECTRA[0], ([10.0, 20.0, 30.0], [1, 2, 3])],
    "graphs": GRAPHS,
    "attributed_paths": [
        (*graph, np.arange(2.0 * len(graph[1])).reshape(-1, 2)) for graph in GRAPHS
    ],
}


# curves are rows of numbers, too, see test_curves.py
OF_OBJECTS = [n for n in KERNELS if not as_kernel(n).takes_vectors and n != "curves"]


@pytest.mark.parametrize("name", OF_OBJECTS)
def test_registered_kernels_of_objects_conform(name):
    kernel = as_kernel(name)
    if name == "ngram":
        kernel.set_params(short="keep")
    kind = name if name in OBJECTS else "graphs"
    kind = "spectra" if name in ("probability_product", "peak_cosine") else kind
    check_kernel(kernel, OBJECTS[kind])
    check_kernel(Normalized(kernel), OBJECTS[kind])
    with pytest.raises((TypeError, ValueError)):
        kernel.encode(np.eye(3))
    with pytest.raises((TypeError, ValueError)):
        kernel.encode([object()])


@pytest.mark.parametrize("data", CONFORMANCE_DATA)
@pytest.mark.parametrize("name", VECTORS)
def test_registered_kernels_conform(name, data):
    if data.startswith("real") and KERNELS[name] in (Tanimoto, GaussianTanimoto, F1):
        with pytest.raises(ValueError, match="must be >= 0"):
            check_kernel(name, CONFORMANCE_DATA[data])
    elif KERNELS[name] in RANKINGS and not data.startswith(("ranks", "one-item")):
        with pytest.raises((TypeError, ValueError), match=r"Sparse data|takes rankings"):
            check_kernel(name, CONFORMANCE_DATA[data])
    else:
        check_kernel(name, CONFORMANCE_DATA[data])


@pytest.mark.parametrize("data", ["counts", "counts-csr", "counts-csr-f32", "duplicates"])
@each_kernel
def test_every_combination_conforms(kernel, data):
    check_kernel(kernel, CONFORMANCE_DATA[data])


class Offender(Linear):
    """A kernel with one fault, which check_kernel must find."""

    def __init__(self, fault: str = "none") -> None:
        self.fault = fault

    @property
    def normalized(self):
        return self.fault == "normalized"

    def encode(self, objects):
        rows = super().encode(objects)
        return rows + 1.0 if self.fault == "idempotent" else rows

    def against(self, B):
        linear = super().against(B)

        def block(A, out=None):
            K = linear(A, None if self.fault == "out" else out)
            if self.fault == "symmetric":
                K += np.arange(K.shape[1])
            elif self.fault == "semi-definite":
                K -= 100.0
            elif self.fault == "finite":
                K[0, 0] = np.nan
            elif self.fault == "block" and len(A) == 2:
                K += 1.0
            return out if self.fault == "out" and out is not None else K

        return block

    def diag(self, A):
        return super().diag(A) + float(self.fault == "diag")


FAULTS = {
    "symmetric": "K must be symmetric",
    "semi-definite": "K must be positive semi-definite",
    "finite": "K must be finite",
    "diag": "diag",
    "normalized": "normalized promises",
    "out": "block into a buffer",
    "block": "block",
    "idempotent": "paired",  # encoded twice there
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.items())
def test_check_kernel_catches(fault, message):
    X = make_data("real", 8)
    check_kernel(Offender(), X)
    with pytest.raises(AssertionError, match=message):
        check_kernel(Offender(fault), X)


# Properties --------------------------------------------------------------------------------------

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@st.composite
def matrices(draw, low: int, high: int, scale: float = 1.0):
    """Small matrices of multiples of `scale`; equal rows and zero rows are common."""
    n, d = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    row = st.lists(st.integers(low, high), min_size=d, max_size=d)
    return scale * np.array(draw(st.lists(row, min_size=n, max_size=n)), dtype=np.float64)


real_matrices = matrices(-500, 500, scale=0.01)
count_matrices = matrices(0, 4)


def assert_kernel_matrix(K: np.ndarray) -> None:
    """Symmetric and positive semi-definite up to rounding."""
    size = np.abs(K).max(initial=1e-300)
    assert_allclose(K, K.T, rtol=0, atol=1e-9 * size)
    lowest = np.linalg.eigvalsh((K + K.T) / 2).min()
    assert lowest >= -1e-6 * size


@pytest.mark.parametrize(
    "name", [n for n in VECTORS if KERNELS[n] not in (Tanimoto, GaussianTanimoto, F1, *RANKINGS)]
)
@quick
@given(X=real_matrices, gamma=st.sampled_from([0.0, 0.01, 1.0, 50.0]))
def test_kernels_of_reals_are_positive_semi_definite(name, X, gamma):
    kernel = as_kernel(name)
    if "gamma" in kernel.get_params():
        kernel.set_params(gamma=gamma)
    for rows in (X, sparse.csr_matrix(X)):
        K = kernel(rows)
        assert_kernel_matrix(K)
        if kernel.normalized:
            assert_allclose(np.diagonal(K), 1.0, atol=1e-6)
            assert K.max() <= 1.0 + 1e-12


@pytest.mark.parametrize(
    "kernel", [Tanimoto(), F1(), Normalized(Linear()), Tanimoto() * F1()], ids=repr
)
@quick
@given(X=count_matrices)
def test_kernels_of_multisets_are_positive_semi_definite(kernel, X):
    K = kernel(X)
    assert_kernel_matrix(K)
    assert_allclose(np.diagonal(K), 1.0, atol=1e-12)
    assert K.min() >= 0.0
    assert K.max() <= 1.0 + 1e-12
    assert_array_equal(kernel(sparse.csr_matrix(X)), K)


@quick
@given(X=count_matrices, Y=count_matrices)
def test_set_kernels_equal_the_oracle(X, Y):
    d = min(X.shape[1], Y.shape[1])
    X, Y = X[:, :d], Y[:, :d]
    assert_allclose(Tanimoto()(X, Y), oracles.gram(oracles.tanimoto, X, Y), rtol=1e-12)
    assert_allclose(F1()(X, Y), oracles.gram(oracles.f1, X, Y), rtol=1e-12)


@quick
@given(X=real_matrices)
def test_normalized_kernels_have_unit_diagonal(X):
    for base in (Linear(), Polynomial(3, gamma=0.5, coef0=0.0), Linear() + Gaussian(0.1)):
        kernel = Normalized(base)
        assert kernel.normalized
        assert_allclose(np.diagonal(kernel(X)), 1.0, rtol=1e-9)
        assert_array_equal(kernel.diag(X), np.ones(len(X)))


@quick
@given(X=real_matrices, offset=st.sampled_from([-1e6, 1e3, 1e6]))
def test_distances_survive_a_far_offset(X, offset):
    """Dense rows are centred: 1e6 away from the origin the naive expansion has no digit left."""
    X = X + offset
    for kernel, oracle in (
        (Gaussian(0.3), oracles.gaussian(0.3)),
        (Matern(0.3, nu=2.5), oracles.matern(0.3, 2.5)),
        (Laplacian(0.3), oracles.laplacian(0.3)),
    ):
        assert_allclose(kernel(X), oracles.gram(oracle, X, X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_float32_distances_survive_an_offset(offset):
    """The rows are given; only what is computed from them may round."""
    X = (np.random.default_rng(0).standard_normal((30, 5)) + offset).astype(np.float32)
    expected = oracles.gram(oracles.gaussian(0.5), X, X)
    assert_allclose(Gaussian(0.5)(X), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", [k for k in VECTOR_KERNELS if k.normalized], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_duplicates_are_alike(kernel, dtype):
    X = np.repeat(np.abs(np.random.default_rng(0).standard_normal((6, 5)) + 3.0), 2, axis=0)
    if isinstance(kernel, Tanimoto | F1):
        X = np.round(X)
    atol = 1e-10 if dtype == np.float64 else 1e-5
    for form in (np.asarray, sparse.csr_matrix):
        K = kernel(form(X.astype(dtype)))
        assert_allclose(K[::2, 1::2].diagonal(), 1.0, atol=atol)
        assert_allclose(K.diagonal(), 1.0, atol=atol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nothing_is_more_alike_than_itself(dtype):
    """Rounding may make a squared distance negative, never a value above one."""
    X = np.repeat(np.random.default_rng(0).standard_normal((20, 5)), 2, axis=0).astype(dtype)
    for kernel in (Gaussian(50.0), Laplacian(50.0), Matern(50.0, nu=2.5)):
        for form in (np.asarray, sparse.csr_matrix):
            assert kernel(form(X)).max() <= 1.0


def test_distance_kernels_see_distances_only():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 4))
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    for kernel in (Gaussian(0.5), Matern(0.5, nu=2.5)):
        assert_allclose(kernel(X @ rotation + 3.0), kernel(X), rtol=1e-10, atol=1e-10)


def test_gamma_zero_is_the_constant_kernel():
    X = make_data("real", 5)
    for cls in (Gaussian, Laplacian, Matern):
        for left in (X, sparse.csr_matrix(X)):
            for right in (X, sparse.csr_matrix(X)):
                assert_array_equal(cls(0.0)(left, right), np.ones((5, 5)))


# Empty and zero ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", [Tanimoto(), F1(), Cosine(), Normalized(Linear())], ids=repr)
def test_only_empty_sets(kernel, form):
    """Landmarks that are all empty: alike to each other and to nothing else."""
    empty, full = form(np.zeros((3, 4))), form(np.ones((2, 4)))
    assert_array_equal(kernel(empty), np.ones((3, 3)))
    assert_array_equal(kernel(full, empty), np.zeros((2, 3)))
    assert_array_equal(kernel(empty, full), np.zeros((3, 2)))


@pytest.mark.parametrize("kernel", [Tanimoto(), F1(), Cosine(), Normalized(Linear())], ids=repr)
def test_empty_set_among_others(kernel):
    K = kernel(np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0]]))
    assert_array_equal(K[0], [1.0, 0.0, 1.0])
    assert_array_equal(K[:, 0], [1.0, 0.0, 1.0])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@each_kernel
def test_no_rows(kernel, form):
    none, two = form(np.empty((0, 3))), form(np.ones((2, 3)))
    assert kernel(none).shape == (0, 0)
    assert kernel(none, two).shape == (0, 2)
    assert kernel(two, none).shape == (2, 0)
    assert kernel.diag(kernel.encode(none)).shape == (0,)
    assert kernel.paired(none, none).shape == (0,)


def test_one_row_one_column():
    assert_allclose(Gaussian(1.0)([[2.0]], [[3.0]]), [[np.exp(-1.0)]])
    assert_allclose(Tanimoto()([[2]], [[3]]), [[2 / 3]])


# Input as users have it --------------------------------------------------------------------------


@each_kernel_and_kind
def test_memory_layout_and_type_do_not_matter(kernel, kind):
    X = np.round(4.0 * make_data(kind, 9, seed=1))
    K = kernel(X)
    padded = np.zeros((18, 12))
    padded[::2, ::2] = X
    layouts = [np.asfortranarray(X), padded[::2, ::2], X[::-1][::-1], X.tolist()]
    for same in [*layouts, X.astype(int), X.astype(np.float16), pd.DataFrame(X), pl.DataFrame(X)]:
        assert_allclose(kernel(same), K, rtol=1e-12, atol=1e-7 if "nu=0.5" in repr(kernel) else 0)


@pytest.mark.parametrize(
    "kernel", [Linear(), Gaussian(0.5), Laplacian(0.5), Tanimoto(), F1()], ids=repr
)
def test_bool_input(kernel):
    X = make_data("bits", 8)
    assert_array_equal(kernel(X.astype(bool)), kernel(X))
    assert_array_equal(kernel(sparse.csr_matrix(X.astype(bool))), kernel(sparse.csr_matrix(X)))


@each_kernel_and_kind
def test_read_only_input(kernel, kind):
    X, csr = make_data(kind, 9, seed=1), sparse.csr_matrix(make_data(kind, 9, seed=1))
    copy = csr.copy()
    K = kernel(freeze(X.copy()))
    assert_allclose(kernel(freeze(csr)), K, rtol=1e-10, atol=1e-7)
    assert_array_equal(kernel(freeze(X.copy())), K)
    assert_array_equal(csr.toarray(), copy.toarray())


@each_kernel
def test_non_canonical_csr(kernel):
    """Unsorted indices, repeated entries and stored zeros are only another way to write X."""
    csr, dense = non_canonical_csr()
    assert_allclose(kernel(csr), kernel(dense), rtol=1e-12, atol=1e-7)
    assert_allclose(kernel(csr, dense), kernel(dense), rtol=1e-12, atol=1e-7)
    assert_allclose(kernel.diag(kernel.encode(csr)), kernel.diag(dense), rtol=1e-12)


@each_kernel
def test_non_canonical_csr_is_left_alone(kernel):
    csr, dense = non_canonical_csr()
    before = csr.indices.copy(), csr.data.copy(), csr.indptr.copy()
    kernel(freeze(csr), dense)
    kernel(csr)
    for part, was in zip((csr.indices, csr.data, csr.indptr), before, strict=True):
        assert_array_equal(part, was)


@each_kernel
def test_encode_is_idempotent_and_keeps_precision(kernel):
    for X in (make_data("counts", 6), make_data("counts", 6).astype(np.float32)):
        rows = kernel.encode(X)
        assert rows.dtype == X.dtype
        assert_array_equal(kernel.encode(rows), rows)
        csr = kernel.encode(sparse.coo_matrix(X))
        assert csr.format == "csr"
        assert csr.dtype == X.dtype
        assert_array_equal(kernel.encode(csr).toarray(), X)


@each_kernel
def test_blocks_fill_the_buffer(kernel):
    A, B = make_data("counts", 6, seed=1), make_data("counts", 4, seed=2)
    for left in (A, sparse.csr_matrix(A)):
        for right in (B, sparse.csr_matrix(B)):
            block, out = kernel.against(right), np.full((6, 4), np.nan)
            assert block(left, out) is out
            assert_allclose(out, kernel(left, right), rtol=1e-12)
            assert_allclose(block(left[2:4]), out[2:4], rtol=1e-10, atol=1e-12)


# Mistakes ----------------------------------------------------------------------------------------

with_hole = np.array([[1.0, np.nan], [0.0, 1.0]])
BAD_DATA = {
    "nan": (with_hole, ValueError, "NaN"),
    "nan-csr": (sparse.csr_matrix(with_hole), ValueError, "NaN"),
    "inf": (np.array([[1.0, np.inf]]), ValueError, "infinity"),
    "inf-csr": (sparse.csr_matrix(np.array([[1.0, np.inf]])), ValueError, "infinity"),
    "1-d": (np.ones(3), ValueError, "Expected 2D array, got 1D"),
    "3-d": (np.ones((2, 2, 2)), ValueError, "dim 3"),
    "no-features": (np.ones((2, 0)), ValueError, "0 feature"),
    "strings": ([["a", "b"]], ValueError, "could not convert string to float"),
    "complex": (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
    "ragged": ([[1.0, 2.0], [1.0]], ValueError, "inhomogeneous"),
    "none": (None, ValueError, "Expected 2D array"),
    "objects": (np.array([[object()]]), TypeError, "number"),
}


@pytest.mark.parametrize(("X", "error", "message"), BAD_DATA.values(), ids=list(BAD_DATA))
@pytest.mark.parametrize(
    "kernel", [Linear(), Gaussian(1.0), Tanimoto(), Linear() + F1(), Normalized(Linear())], ids=repr
)
def test_bad_data(kernel, X, error, message):
    with pytest.raises(error, match=message):
        kernel(X)
    if X is not None:  # as B, None means A
        with pytest.raises(error, match=message):
            kernel(np.ones((2, 2)), X)


@pytest.mark.parametrize(
    "kernel", [Tanimoto(), F1(), Tanimoto() + Linear(), Linear() * F1()], ids=repr
)
def test_negative_counts(kernel):
    X = np.array([[1.0, 0.0], [0.0, -2.0]])
    with pytest.raises(ValueError, match=r"takes 0/1 vectors or counts.*>= 0.*Got -2"):
        kernel(X)
    with pytest.raises(ValueError, match="Got -2"):
        kernel(sparse.csr_matrix(X))


@each_kernel
def test_different_numbers_of_columns(kernel):
    with pytest.raises(ValueError, match=r"same number of columns\. Got 2 and 3"):
        kernel(np.ones((4, 2)), np.ones((4, 3)))


def test_columns_are_checked_when_one_part_takes_any_object():
    kernel = Linear() + PairwiseFunction(lambda A, B: np.ones((len(A), len(B))))
    with pytest.raises(ValueError, match=r"same number of columns\. Got 2 and 3"):
        kernel(np.ones((4, 2)), np.ones((4, 3)))


def test_paired_needs_equal_lengths():
    with pytest.raises(ValueError, match=r"equal length\. Got 2 and 3"):
        Linear().paired(np.ones((2, 2)), np.ones((3, 2)))


BAD_PARAMETERS = [
    (Gaussian(-1.0), ValueError, "gamma must be a finite number >= 0. Got -1.0"),
    (Gaussian(np.nan), ValueError, "gamma must be a finite number >= 0. Got nan"),
    (Laplacian(np.inf), ValueError, "gamma must be a finite number >= 0. Got inf"),
    (Matern(None), TypeError, "gamma must be a finite number >= 0. Got None"),
    (Matern(1.0, nu=2.0), ValueError, "nu must be one of 0.5, 1.5, 2.5. Got 2.0"),
    (Polynomial(0, gamma=1.0), ValueError, "degree must be an integer >= 1. Got 0"),
    (Polynomial(1.5, gamma=1.0), TypeError, "degree must be an integer >= 1. Got 1.5"),
    (Polynomial(2, gamma=1.0, coef0=-1.0), ValueError, "coef0 must be a finite number >= 0"),
    (-2.0 * Linear(), ValueError, "factor must be a finite number > 0. Got -2.0"),
    (0 * Linear(), ValueError, "factor must be a finite number > 0. Got 0"),
    (Scaled("2", Linear()), TypeError, "factor must be a finite number > 0. Got '2'"),
    (Normalized(Gaussian(-1.0)), ValueError, "gamma must be a finite number >= 0. Got -1.0"),
    (Linear() + Matern(1.0, nu=3), ValueError, "nu must be one of"),
]


@pytest.mark.parametrize(("kernel", "error", "message"), BAD_PARAMETERS)
def test_bad_parameters(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel(np.ones((3, 2)))


@pytest.mark.parametrize(
    "kernel", [Gaussian(-1.0), Polynomial(0, gamma=1.0), -2.0 * Linear()], ids=repr
)
def test_diag_checks_parameters_too(kernel):
    with pytest.raises(ValueError, match="must be"):
        kernel.diag(np.ones((3, 2)))


# Bandwidths --------------------------------------------------------------------------------------


def gamma_of(kernel: Kernel, X: Any) -> float:
    return kernel.resolve(kernel.encode(X), np.random.default_rng(0)).gamma


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gamma_scale(form, dtype):
    X = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 5.0, 0.2] + [0.0, 4.0, 1.0]
    X = X.astype(dtype)
    total = 3 * X.astype(np.float64).var()  # d var, as scikit-learn's SVR(gamma="scale")
    rtol = 1e-10 if dtype == np.float64 else 1e-5
    assert_allclose(gamma_of(Gaussian("scale"), form(X)), 1 / total, rtol=rtol)
    assert_allclose(gamma_of(Polynomial(gamma="scale"), form(X)), 1 / total, rtol=rtol)
    assert_allclose(gamma_of(Matern("scale"), form(X)), 1 / np.sqrt(total), rtol=rtol)
    std = np.sqrt(total / 3)
    assert_allclose(gamma_of(Laplacian("scale"), form(X)), 1 / (3 * std), rtol=rtol)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_gamma_median(form):
    X = np.random.default_rng(0).standard_normal((41, 3)) + [0.0, 4.0, 1.0]
    squared = oracles.median_distance(X, oracles.squared_distance)
    manhattan = oracles.median_distance(X, oracles.manhattan_distance)
    assert_allclose(gamma_of(Gaussian("median"), form(X)), 1 / (2 * squared), rtol=1e-10)
    assert_allclose(gamma_of(Polynomial(gamma="median"), form(X)), 1 / (2 * squared), rtol=1e-10)
    assert_allclose(gamma_of(Matern("median"), form(X)), 1 / np.sqrt(2 * squared), rtol=1e-10)
    assert_allclose(gamma_of(Laplacian("median"), form(X)), 1 / manhattan, rtol=1e-10)


def test_gamma_scale_is_blind_to_the_origin():
    X = np.random.default_rng(0).standard_normal((40, 3))
    assert_allclose(gamma_of(Gaussian("scale"), X + 1e5), gamma_of(Gaussian("scale"), X), 1e-6)


def test_gamma_scale_copies_no_data():
    """Rows may be a memory map larger than the memory."""
    X = np.ones((50_000, 40), dtype=np.float32)  # 8 MB
    tracemalloc.start()
    gamma_of(Gaussian("scale"), X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_gamma_median_looks_past_duplicates(form, seed):
    """The rounding of a distance that is zero is not a distance."""
    distinct = np.random.default_rng(seed).standard_normal((4, 5)) * 3.0 + 100.0
    X = np.repeat(distinct, [60, 2, 2, 2], axis=0)
    squared = oracles.median_distance(X, oracles.squared_distance)
    assert_allclose(gamma_of(Gaussian("median"), form(X)), 1 / (2 * squared), rtol=1e-6)


def test_gamma_median_of_many_rows_is_that_of_some():
    X = np.random.default_rng(0).standard_normal((3000, 2))
    gamma = gamma_of(Gaussian("median"), X)
    assert gamma == gamma_of(Gaussian("median"), X)
    # squared distances are 2 chi2(2), of median 4 log 2
    assert_allclose(gamma, 1 / (8 * np.log(2)), rtol=0.1)


@pytest.mark.parametrize("rule", ["scale", "median"])
@pytest.mark.parametrize("cls", GAMMA_KERNELS)
def test_gamma_of_constant_data_is_usable(cls, rule):
    for X in (np.full((5, 2), 3.7), np.full((1, 2), 3.7), sparse.csr_matrix((5, 2))):
        kernel = cls(gamma=rule)
        resolved = kernel.resolve(kernel.encode(X), np.random.default_rng(0))
        assert 0 < resolved.gamma < np.inf
        assert np.isfinite(resolved(X)).all()


def test_constant_features_do_not_change_the_median_rule():
    X = np.random.default_rng(0).standard_normal((20, 2))
    wide = np.hstack([X, np.full((20, 1), 5.0)])
    for cls in (Gaussian, Matern):
        assert_allclose(gamma_of(cls("median"), wide), gamma_of(cls("median"), X), rtol=1e-10)


@pytest.mark.parametrize("cls", GAMMA_KERNELS)
def test_gamma_number_is_untouched(cls):
    kernel = cls(gamma=0.123)
    resolved = kernel.resolve(make_data("real", 5), np.random.default_rng(0))
    assert resolved is not kernel
    assert resolved.gamma == 0.123


@pytest.mark.parametrize("cls", GAMMA_KERNELS)
def test_resolve_leaves_the_kernel_alone(cls):
    kernel = cls()
    kernel.resolve(make_data("real", 5), np.random.default_rng(0))
    assert kernel.gamma == "scale"


def test_resolve_goes_into_combinations():
    X = make_data("real", 10)
    kernel = Normalized(2.0 * (Gaussian("median") + Linear()) * Laplacian())
    resolved = kernel.resolve(X, np.random.default_rng(0))
    assert resolved.kernel.left.kernel.left.gamma == gamma_of(Gaussian("median"), X)
    assert resolved.kernel.right.gamma == gamma_of(Laplacian(), X)
    assert kernel.kernel.right.gamma == "scale"
    assert_allclose(np.diagonal(resolved(X)), 1.0)


@pytest.mark.parametrize("cls", GAMMA_KERNELS)
def test_unresolved_gamma_says_what_to_do(cls):
    with pytest.raises(ValueError, match=r"gamma='scale' depends on the data.*kernel\.resolve"):
        cls()(np.ones((3, 2)))
    with pytest.raises(ValueError, match="gamma='median' depends on the data"):
        cls(gamma="median").diag(np.ones((3, 2)))


def test_unknown_gamma_rule():
    with pytest.raises(ValueError, match=r"gamma must be one of 'scale', 'median'.*'median'\?"):
        Gaussian("medain").resolve(np.ones((3, 2)), np.random.default_rng(0))


# Algebra -----------------------------------------------------------------------------------------


def test_algebra_builds_kernels():
    k1, k2 = Gaussian(0.5), Linear()
    assert isinstance(k1 + k2, Sum)
    assert isinstance(k1 * k2, Product)
    for scaled in (2.0 * k1, k1 * 2.0, 2 * k1, np.float64(2.0) * k1, k1 * np.int64(2)):
        assert isinstance(scaled, Scaled)
        assert scaled.kernel is k1
        assert scaled.factor == 2.0


def test_algebra_is_distributive():
    X, (a, b, c) = make_data("real", 8), (Gaussian(0.5), Linear(), Laplacian(0.1))
    assert_allclose(((a + b) * c)(X), (a * c + b * c)(X), rtol=1e-12)
    assert_allclose((2.0 * (a + b))(X), (a * 2.0 + b + b)(X), rtol=1e-12, atol=1e-12)
    assert_allclose((a + a)(X), (2.0 * a)(X), rtol=1e-12)  # a kernel may meet itself
    assert_allclose((a * a)(X), Gaussian(1.0)(X), rtol=1e-10)


@pytest.mark.parametrize("other", [1, "linear", None, np.eye(2)])
def test_sum_with_something_else(other):
    with pytest.raises(TypeError):
        Linear() + other


@pytest.mark.parametrize("other", ["linear", None])
def test_product_with_something_else(other):
    with pytest.raises(TypeError):
        Linear() * other


def test_names_are_kernels_inside_kernels():
    """DESIGN: a name is accepted wherever a kernel is."""
    X = make_data("real", 6)
    assert_allclose(Normalized("linear")(X), Cosine()(X), atol=1e-12)
    assert_allclose(Sum("linear", "cosine")(X), (Linear() + Cosine())(X))


def test_nested_parameters():
    kernel = Normalized(Gaussian(0.5) + 2.0 * Matern(1.0))
    assert kernel.get_params()["kernel__left__gamma"] == 0.5
    assert kernel.get_params()["kernel__right__kernel__nu"] == 1.5
    kernel.set_params(kernel__left__gamma=0.7, kernel__right__factor=3.0)
    assert kernel.kernel.left.gamma == 0.7
    assert kernel.kernel.right.factor == 3.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        kernel.set_params(kernel__left__gama=1.0)


@each_kernel
def test_clone_repr_and_pickle(kernel):
    X = make_data("counts", 6)
    copy = clone(kernel)
    assert copy is not kernel
    assert repr(copy) == repr(kernel)
    assert_array_equal(copy(X), kernel(X))
    loaded = pickle.loads(pickle.dumps(kernel))
    assert repr(loaded) == repr(kernel)
    assert_array_equal(loaded(X), kernel(X))


def test_repr_reads_like_the_code():
    assert repr(Gaussian(0.5)) == "Gaussian(gamma=0.5)"
    assert repr(2.0 * Linear()) == "Scaled(factor=2.0, kernel=Linear())"
    assert repr(Gaussian(0.5) + Linear()) == "Sum(left=Gaussian(gamma=0.5), right=Linear())"


@each_kernel
def test_calls_leave_parameters_alone(kernel):
    before = repr(kernel.get_params())
    kernel(make_data("counts", 5))
    assert repr(kernel.get_params()) == before


# Adapters ----------------------------------------------------------------------------------------


def same_letter(A, B):
    """A kernel on strings: 1 when they start alike."""
    return [[float(a[0] == b[0]) for b in B] for a in A]


@pytest.mark.parametrize("name", KERNELS)
def test_names(name):
    assert type(as_kernel(name)) is KERNELS[name]


def test_kernels_are_copied():
    kernel = Gaussian(0.5) + Linear()
    copy = as_kernel(kernel)
    assert repr(copy) == repr(kernel)
    copy.set_params(left__gamma=7.0)
    assert kernel.left.gamma == 0.5


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("gaussin", "gaussian"), ("Gaussian", "gaussian"), ("LINEAR", "linear"), ("tanimato", "tani")],
)
def test_unknown_name_suggests_the_nearest(wrong, nearest):
    with pytest.raises(ValueError, match=rf"Unknown kernel '{wrong}'. Did you mean '{nearest}"):
        as_kernel(wrong)


def test_unknown_name_lists_what_there_is():
    with pytest.raises(
        ValueError,
        match=r"Unknown kernel 'zzz'\. Available: attributed_paths, core, cosine, curves, f1, g",
    ):
        as_kernel("zzz")


@pytest.mark.parametrize("spec", [3, None, 1.5, Gaussian, ["gaussian"], np.eye(2)])
def test_wrong_type(spec):
    with pytest.raises(TypeError, match="A kernel must be a skout kernel, a name"):
        as_kernel(spec)


@pytest.mark.parametrize(
    "container",
    [
        *(list, tuple, np.array),
        pytest.param(lambda rows: pd.Series(rows), id="pandas"),
        pytest.param(lambda rows: pl.Series(rows), id="polars"),
    ],
)
def test_callable_on_strings(container):
    words = container(["apple", "avocado", "banana"])
    expected = [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    kernel = as_kernel(same_letter)
    assert not kernel.takes_vectors
    assert not kernel.normalized
    assert_array_equal(kernel(words), expected)
    assert_array_equal(kernel(words, ["berry"]), [[0.0], [0.0], [1.0]])
    assert_array_equal(kernel.diag(kernel.encode(words)), np.ones(3))
    assert_array_equal(kernel.paired(words, ["a", "b", "c"]), [1.0, 0.0, 0.0])


def test_callable_on_strings_conforms():
    check_kernel(same_letter, ["ab", "ac", "b", "c", "ca"])
    check_kernel(Normalized(2.0 * as_kernel(same_letter)), ["ab", "ac", "b", "c", "ca"])


def test_callable_on_objects_of_any_length():
    """Tuples of one length must not become a matrix."""

    def common(A, B):
        return np.array([[len(set(a) & set(b)) for b in B] for a in A])

    sets = [(1, 2), (2, 3), (5, 6)]
    assert_array_equal(as_kernel(common)(sets), [[2, 1, 0], [1, 2, 0], [0, 0, 2]])
    assert_array_equal(as_kernel(common)([{1}, {1, 2}]), [[1, 1], [1, 2]])


def test_callable_on_matrices():
    X = make_data("real", 6)
    kernel = as_kernel(lambda A, B: A @ B.T)
    for same in (X, pd.DataFrame(X), pl.DataFrame(X), np.asfortranarray(X)):
        assert_allclose(kernel(same), Linear()(X))
    assert kernel(X.astype(np.float32)).dtype == np.float32
    check_kernel(kernel, X)
    with pytest.raises(ValueError, match="NaN"):
        kernel(with_hole)


@pytest.mark.parametrize("dense", [True, False])
def test_callable_on_sparse_matrices(dense):
    """scikit-learn's pairwise kernels take CSR; a sparse result counts as a matrix too."""
    X = sparse.csr_matrix(make_data("real", 6))
    kernel = as_kernel(lambda A, B: pairwise.linear_kernel(A, B, dense_output=dense))
    assert_allclose(kernel(X), Linear()(X), atol=1e-12)


def test_callable_result_is_not_shared():
    """A function may cache its result; blocks are changed in place."""
    cache = np.eye(3)
    kernel = 2.0 * as_kernel(lambda A, B: cache)
    assert_array_equal(kernel(np.eye(3)), 2.0 * np.eye(3))
    assert_array_equal(cache, np.eye(3))


def test_callable_of_wrong_shape_or_value():
    with pytest.raises(ValueError, match=r"returned shape \(2,\).*expected \(2, 2\)"):
        as_kernel(lambda A, B: np.ones(len(A)))(["a", "b"])
    with pytest.raises(ValueError, match="returned NaN or infinity"):
        as_kernel(lambda A, B: np.full((len(A), len(B)), np.nan))(["a", "b"])


@pytest.mark.parametrize("objects", ["abc", 3, None])
def test_callable_needs_a_list(objects):
    with pytest.raises(TypeError, match="Expected a list or array of objects"):
        as_kernel(same_letter)(objects)


GP_KERNELS = {
    "rbf": gp.RBF(0.7),
    "sum": gp.ConstantKernel(2.0) * gp.RBF(0.7) + gp.DotProduct(),
    "matern": gp.Matern(length_scale=[1.0, 2.0, 3.0, 1.0, 1.0, 1.0], nu=2.5),
    "rational": gp.RationalQuadratic(),
}


@pytest.mark.parametrize("function", GP_KERNELS.values(), ids=list(GP_KERNELS))
def test_gaussian_process_kernels(function):
    X, Y = make_data("real", 8, seed=1), make_data("real", 5, seed=2)
    kernel = as_kernel(function)
    assert kernel.takes_vectors
    assert_allclose(kernel(X, Y), function(X, Y))
    assert_allclose(kernel.diag(X), function.diag(X))
    check_kernel(function, X)
    check_kernel(function, X.astype(np.float32))
    with pytest.raises(ValueError, match="NaN"):
        kernel(with_hole)
    with pytest.raises(ValueError, match="same number of columns"):
        kernel(X, Y[:, :2])


def test_gaussian_process_kernel_with_noise():
    """WhiteKernel is noise on the diagonal of one data set, not a similarity of two objects."""
    with pytest.raises(ValueError, match="WhiteKernel"):
        as_kernel(gp.RBF(0.7) + gp.WhiteKernel(0.1))


def test_gaussian_process_kernel_on_sparse_rows():
    with pytest.raises((TypeError, ValueError), match=r"(?i)sparse"):
        as_kernel(gp.RBF(0.7))(sparse.csr_matrix(np.eye(3)))


def test_gaussian_process_kernel_parameters():
    kernel = as_kernel(gp.RBF(0.7))
    assert kernel.get_params()["function__length_scale"] == 0.7
    kernel.set_params(function__length_scale=2.0)
    assert kernel.function.length_scale == 2.0
    loaded = pickle.loads(pickle.dumps(kernel))
    assert_array_equal(loaded(np.eye(3)), kernel(np.eye(3)))


def test_algebra_with_adapters():
    X = make_data("real", 6)
    kernel = Gaussian(0.5) + as_kernel(gp.DotProduct(sigma_0=0.0))
    assert_allclose(kernel(X), (Gaussian(0.5) + Linear())(X))
    words = ["ab", "ac", "b"]
    both = as_kernel(same_letter) * as_kernel(same_letter)
    assert_array_equal(both(words), as_kernel(same_letter)(words))


# Weights, and rows far from zero ------------------------------------------------------------------


VECTOR_WIDTHS = [(n, g) for n in ("gaussian", "laplacian", "matern") for g in ("median", "scale")]


@pytest.mark.parametrize(("name", "gamma"), [*VECTOR_WIDTHS, ("gaussian_tanimoto", "median")])
def test_a_weight_of_two_is_a_row_that_is_there_twice(name, gamma):
    rng = np.random.default_rng(0)
    kernel = as_kernel(name).set_params(gamma=gamma)
    X = rng.integers(0, 4, (40, 5)) * 1.0
    X += 0.0 if name == "gaussian_tanimoto" else rng.random((40, 5))
    w = rng.integers(0, 6, 40) * 1.0
    rows = kernel.encode(X)
    repeated = kernel.encode(X.repeat(w.astype(int), axis=0))
    expected = kernel.resolve(repeated, rng).gamma
    assert kernel.resolve(rows, rng, w).gamma == pytest.approx(expected, rel=1e-12)
    assert kernel.resolve(rows, rng).gamma != pytest.approx(expected, rel=1e-3)
    assert kernel.resolve(rows, rng, np.full(40, 2.0)).gamma == kernel.resolve(rows, rng).gamma


def test_the_median_of_many_rows_sees_those_with_weight():
    X = np.random.default_rng(0).standard_normal((5000, 2))
    X[:50] *= 100.0
    w = np.where(np.arange(5000) < 50, 1e4, 1.0)
    gammas = [Gaussian("median").resolve(X, np.random.default_rng(0), v).gamma for v in (w, None)]
    assert gammas[0] < 1e-3 * gammas[1]


@pytest.mark.parametrize("gamma", [0.1, "scale", "median"])
def test_csr_rows_far_from_zero(gamma):
    X = 1e6 + np.random.default_rng(0).standard_normal((100, 5))
    S = sparse.csr_matrix(X)
    rng = np.random.default_rng(0)
    dense, csr = Gaussian(gamma).resolve(X, rng), Gaussian(gamma).resolve(S, rng)
    assert csr.gamma == pytest.approx(dense.gamma, rel=1e-6)
    assert_allclose(csr(S), dense(X), atol=1e-6)
    KernelRidge(Gaussian(gamma), fit_intercept=True).fit(S, X[:, 0])


def test_a_kernel_that_sparse_rows_spoil_gets_advice():
    far = 1e7 + np.random.default_rng(0).standard_normal((100, 3))
    X = sparse.csr_matrix(np.hstack([far, np.zeros((100, 9))]))
    with pytest.raises(ValueError, match=r"sparse rows.*scale them.*dense rows"):
        KernelRidge(Gaussian(0.1)).fit(X, far[:, 0])
