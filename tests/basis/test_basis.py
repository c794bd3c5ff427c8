"""Coordinates: orthonormal, inside the kernel's feature space, and the formula (2.73)."""

import copy
import gc
import pickle
import re
import weakref
from unittest import mock

import numpy as np
import oracles_predictor as oracle
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from skout import KernelBasis, KernelMachine, KernelRidge, memory_limits, save
from skout.basis import Engine
from skout.basis.features import (
    KernelMatrix,
    PartlyWhitened,
    Whitening,
    WhiteningPlan,
    accuracy_plan,
)
from skout.basis.moments import TrainingSample
from skout.kernels import Cosine, Gaussian, Laplacian, Linear, Matern, Polynomial, Tanimoto
from skout.losses import Huber
from skout.rows import Memory
from skout.sketches import SKETCHES, GaussianSketch, PivotedCholesky, PSparsified, SubSample

pd = extra("pandas")

KERNELS = [
    Gaussian(0.3),
    Linear(),
    Polynomial(degree=2, gamma=0.5),
    Laplacian(0.5),
    Matern(0.5, nu=2.5),
    Cosine(),
    Gaussian(1.0) + 2.0 * Linear(),
]
ALL_SKETCHES = [cls(8) for cls in SKETCHES.values()] + [
    SubSample(8, probabilities="leverage"),
    SubSample(8, probabilities=np.arange(1.0, 31.0)),
    PSparsified(8, p=0.1, distribution="gaussian"),
]
DATA_INDEPENDENT = [s for s in ALL_SKETCHES if not s.needs_gram]
WHITEN = ["cholesky", "eigh", "kpca"]


def short(part):
    """A test id: arrays among the parameters would fill a screen."""
    return " ".join(str(part).split()).replace(" ", "") if len(str(part)) < 60 else "weighted"


def rows(n=30, d=3, seed=0, duplicates=False):
    X = np.random.default_rng(seed).standard_normal((n, d))
    if duplicates:
        X[::2] = X[0]
    return X


def lowest_eigenvalue(A):
    return np.linalg.eigvalsh((A + A.T) / 2).min()


# Exact -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_exact_coordinates_reproduce_the_kernel(kernel, duplicates, whiten):
    X = rows(duplicates=duplicates)
    Z = KernelBasis(kernel, whiten=whiten).fit_transform(X)
    K = kernel(X)
    assert_allclose(Z @ Z.T, K, atol=1e-9 * np.abs(K).max())


def test_exact_landmarks_are_distinct_rows():
    X = rows(duplicates=True)
    basis = KernelBasis(Gaussian(0.3)).fit(X)
    assert basis.rank_ == len(basis.landmarks_) == 16  # one row 15 times, and 15 others
    assert {tuple(x) for x in basis.landmarks_} == {tuple(x) for x in X}
    assert KernelBasis(Gaussian(0.3), whiten="eigh").fit(X).landmarks_.shape == (16, 3)


def test_rank_deficient_kernel_keeps_the_rows_it_needs():
    basis = KernelBasis(Linear()).fit(rows(n=30, d=3))
    assert basis.rank_ == 3
    assert basis.landmarks_.shape == (3, 3)
    assert basis.components_.shape == (3, 3)
    eigh = KernelBasis(Linear(), whiten="eigh").fit(rows(n=30, d=3))
    assert eigh.rank_ == 3
    assert eigh.components_.shape == (3, 30)


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.integers(1, 5)),
        elements=st.integers(-3, 3).map(float),
    ).filter(np.any),
    st.sampled_from(WHITEN),
)
def test_rank_of_a_linear_kernel_is_the_rank_of_the_rows(X, whiten):
    basis = KernelBasis(Linear(), whiten=whiten).fit(X)
    assert basis.rank_ == np.linalg.matrix_rank(X)
    Z = basis.transform(X)
    assert_allclose(Z @ Z.T, X @ X.T, atol=1e-8)


# Sketched ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("kernel", [Gaussian(0.3), Linear(), Polynomial(degree=2)], ids=str)
@pytest.mark.parametrize("sketch", ALL_SKETCHES, ids=short)
def test_zero_below_projection_below_kernel(sketch, kernel, duplicates, whiten):
    X = rows(duplicates=duplicates)
    basis = KernelBasis(kernel, sketch, whiten=whiten, random_state=0).fit(X)
    Z, K = basis.transform(X), basis.kernel_(X)
    size = np.abs(K).max()
    assert Z.shape == (30, basis.rank_)
    assert basis.rank_ <= 8
    assert lowest_eigenvalue(K - Z @ Z.T) > -1e-9 * len(K) * size
    residual = basis.residual(X)
    assert (residual >= 0).all()
    expected = np.diagonal(K) - (Z**2).sum(axis=1)
    assert_allclose(residual, expected, atol=1e-9 * size)


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("sketch", DATA_INDEPENDENT, ids=short)
def test_coordinates_are_those_of_the_projection(sketch, duplicates, whiten):
    X, new = rows(duplicates=duplicates), rows(5, seed=1)
    Z = KernelBasis(Gaussian(0.3), sketch, whiten=whiten, random_state=3).fit(X).transform(new)
    R = sketch.draw(len(X), np.random.default_rng(3)).toarray()
    K, K_new = oracle.gaussian(X, X, 0.3), oracle.gaussian(new, X, 0.3)
    expected = oracle.projected_kernel(K_new @ R.T, K_new @ R.T, R @ K @ R.T)
    assert_allclose(Z @ Z.T, expected, atol=1e-8)


@pytest.mark.parametrize("other", WHITEN[1:])
@pytest.mark.parametrize("sketch", [None, *ALL_SKETCHES], ids=short)
def test_whitenings_span_the_same_space(sketch, other):
    X, new = rows(), rows(9, seed=1)
    kinds = ("cholesky", other)
    fits = [KernelBasis(Gaussian(0.3), sketch, whiten=w, random_state=0).fit(X) for w in kinds]
    assert fits[0].rank_ == fits[1].rank_
    Z, V = (fit.transform(new) for fit in fits)
    assert_allclose(Z @ Z.T, V @ V.T, atol=1e-8)
    A, B = (fit.transform(X) for fit in fits)
    rotation = np.linalg.lstsq(A, B, rcond=None)[0]
    assert_allclose(rotation @ rotation.T, np.eye(len(rotation)), atol=1e-6)


@pytest.mark.parametrize("sketch", [None, *DATA_INDEPENDENT], ids=short)
def test_eigh_is_the_formula(sketch):
    X, new = rows(), rows(9, seed=1)
    basis = KernelBasis(Gaussian(0.3), sketch, whiten="eigh", random_state=3).fit(X)
    if sketch is None:
        landmarks, W = X, np.eye(len(X))
    else:
        draw = sketch.draw(len(X), np.random.default_rng(3))
        landmarks = X[draw.indices]
        W = draw.weights if draw.weights is not None else np.eye(len(landmarks))
        W = W.toarray() if sparse.issparse(W) else W
    D, U = np.linalg.eigh(W @ oracle.gaussian(landmarks, landmarks, 0.3) @ W.T)
    order = [j for j in np.argsort(-D) if D[j] > len(D) * np.finfo(float).eps * D.max()]
    D, U = D[order], U[:, order]
    expected = (np.diag(D**-0.5) @ U.T @ W @ oracle.gaussian(landmarks, new, 0.3)).T
    assert_allclose(basis.eigenvalues_, D, rtol=1e-8, atol=1e-10)
    Z = basis.transform(new)
    signs = np.sign((Z * expected).sum(axis=0))  # of eigenvectors
    assert_allclose(Z, signs * expected, atol=1e-7)


def test_eigh_orders_by_eigenvalue():
    X = rows(60)
    for sketch in (None, SubSample(20), PSparsified(20)):
        basis = KernelBasis(Gaussian(0.3), sketch, whiten="eigh", random_state=0).fit(X)
        assert (np.diff(basis.eigenvalues_) <= 0).all()
        assert (basis.eigenvalues_ > 0).all()
        assert len(basis.eigenvalues_) == basis.rank_


@pytest.mark.parametrize("sketch", [None, SubSample(12), PSparsified(12, p=0.3)], ids=short)
def test_kpca_is_that_of_the_projected_kernel(sketch):
    """Its coordinates are those of kernel PCA of the matrix <P psi(x_i), P psi(x_j)> (5.7)."""
    X = rows(60)
    plain = KernelBasis(Gaussian(0.3), sketch, random_state=0).fit(X)
    basis = KernelBasis(Gaussian(0.3), sketch, whiten="kpca", rank=5, random_state=0).fit(X)
    projected = plain.transform(X) @ plain.transform(X).T
    values, U = np.linalg.eigh(projected)
    values, U = values[::-1][:5], U[:, ::-1][:, :5]
    assert_allclose(basis.eigenvalues_, values / 60, rtol=1e-8)
    Z = basis.transform(X)
    expected = U * np.sqrt(values)
    assert_allclose(Z, np.sign((Z * expected).sum(axis=0)) * expected, atol=1e-6)


def test_kpca_keeps_more_of_the_rows_than_the_largest_of_the_sketch():
    X = rows(200)
    kept = [
        KernelBasis(Gaussian(0.3), SubSample(40), whiten=w, rank=8, random_state=0)
        .fit(X)
        .residual(X)
        for w in ("kpca", "eigh")
    ]
    assert kept[0].mean() < kept[1].mean()


def test_eigenvalues_of_cholesky_are_those_of_the_landmarks():
    basis = KernelBasis(Gaussian(0.3), SubSample(10), random_state=0).fit(rows())
    K = oracle.gaussian(basis.landmarks_, basis.landmarks_, 0.3)
    assert_allclose(basis.eigenvalues_, np.linalg.eigvalsh(K)[::-1], rtol=1e-8)


def test_residual_vanishes_on_the_span():
    X = rows()
    basis = KernelBasis(Gaussian(0.3), SubSample(10), random_state=0).fit(X)
    assert basis.residual(basis.landmarks_).max() < 1e-9
    assert basis.residual(X).max() > 1e-3
    assert KernelBasis(Gaussian(0.3)).fit(X).residual(X).max() < 1e-9


@pytest.mark.parametrize("sketch", [SubSample(30), GaussianSketch(30), PivotedCholesky(30)])
@pytest.mark.parametrize("kernel", [Gaussian(0.3), Linear()], ids=str)
def test_a_sketch_of_n_rows_is_exact(sketch, kernel):
    X = rows()
    Z = KernelBasis(kernel, sketch, random_state=0).fit_transform(X)
    K = kernel(X)
    assert_allclose(Z @ Z.T, K, atol=1e-7 * np.abs(K).max())


@pytest.mark.parametrize("name", SKETCHES)
def test_a_larger_sketch_is_clipped_with_a_warning(name):
    X = rows()
    with pytest.warns(UserWarning, match=r"size=99 is larger than the number of rows, 30"):
        basis = KernelBasis(Gaussian(0.3), SKETCHES[name](99), random_state=0).fit(X)
    assert basis.rank_ <= 30


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("sketch", [None, *ALL_SKETCHES], ids=short)
def test_fitted_attributes_reproduce_transform(sketch, whiten):
    X, new = rows(), rows(6, seed=1)
    basis = KernelBasis(Gaussian(0.3), sketch, whiten=whiten, random_state=0).fit(X)
    features = oracle.gaussian(basis.landmarks_, new, 0.3)  # (m', n)
    if basis.weights_ is not None:
        W = basis.weights_
        features = (W.toarray() if sparse.issparse(W) else W) @ features
    assert basis.components_.shape == (basis.rank_, len(features))
    # rounding of the features grows by as much as the components do
    atol = 1e-13 * np.abs(basis.components_).sum(axis=1).max()
    assert_allclose(basis.transform(new), (basis.components_ @ features).T, atol=atol)
    assert {tuple(x) for x in basis.landmarks_} <= {tuple(x) for x in X}


def test_only_landmarks_are_kept():
    basis = KernelBasis(Gaussian(0.3), SubSample(5), random_state=0).fit(rows(1000))
    sizes = [v.size for v in vars(basis).values() if isinstance(v, np.ndarray)]
    assert sum(sizes) <= 2 * 5 * 5 + 5 * 3


def test_sparse_sketch_keeps_only_the_rows_it_touches():
    sketch = PSparsified(5, p=0.01)
    basis = KernelBasis(Gaussian(0.3), sketch, random_state=0).fit(rows(1000))
    assert basis.landmarks_.shape[0] == basis.weights_.shape[1] < 100
    assert (abs(basis.weights_).sum(axis=0) > 0).all()


# Kinds of data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("sketch", [None, SubSample(8), PSparsified(8)], ids=str)
def test_float32_stays_float32(sketch, whiten):
    X = rows()
    basis = KernelBasis(Gaussian(1.0), sketch, whiten=whiten, random_state=0)
    Z = basis.fit_transform(X)
    assert Z.dtype == np.float64
    single = basis.fit_transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert basis.components_.dtype == np.float64
    assert_allclose(single @ single.T, Z @ Z.T, atol=1e-4)
    assert basis.transform(X).dtype == np.float64


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("gamma", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("sketch", [None, *ALL_SKETCHES], ids=short)
def test_float32_noise_does_not_become_coordinates(sketch, gamma, whiten):
    # a smooth kernel has few directions above the rounding of float32
    X = rows().astype(np.float32)
    basis = KernelBasis(Gaussian(gamma), sketch, whiten=whiten, random_state=0).fit(X)
    Z = basis.transform(X).astype(float)
    exact = oracle.gaussian(X.astype(float), X.astype(float), gamma)
    assert lowest_eigenvalue(exact - Z @ Z.T) > -1e-3
    assert (basis.residual(X) >= 0).all()
    assert (Z**2).sum(axis=1).max() < 1 + 1e-3


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2), Cosine()], ids=str)
@pytest.mark.parametrize("sketch", [PivotedCholesky(50), SubSample(50, "leverage")], ids=str)
def test_float32_and_a_rank_deficient_kernel(sketch, kernel):
    for seed in range(5):
        X = rows(100, 2, seed).astype(np.float32)
        basis = KernelBasis(kernel, sketch, random_state=seed).fit(X)
        Z, K = basis.transform(X), basis.kernel_(X)
        assert basis.rank_ <= 6
        assert_allclose(Z @ Z.T, K, atol=1e-4 * K.max())


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Linear(), Laplacian(0.3), Tanimoto()], ids=str)
@pytest.mark.parametrize("sketch", [None, SubSample(8), PSparsified(8)], ids=str)
@pytest.mark.parametrize("matrix", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_sparse_rows(kernel, sketch, matrix):
    X = np.random.default_rng(0).integers(0, 2, (30, 6)).astype(float)
    dense = KernelBasis(kernel, sketch, random_state=0).fit_transform(X)
    basis = KernelBasis(kernel, sketch, random_state=0)
    thin = basis.fit_transform(matrix(X))
    assert isinstance(thin, np.ndarray)
    assert sparse.issparse(basis.landmarks_)
    assert_allclose(thin @ thin.T, dense @ dense.T, atol=1e-9)
    assert_allclose(basis.transform(X), thin, atol=1e-6)
    assert basis.residual(matrix(X)).min() >= 0


def common_letters(A, B):
    """Number of letters that two words share: the dot product of 0/1 vectors."""
    return [[len(set(a) & set(b)) for b in B] for a in A]


@pytest.mark.parametrize(
    "container", [list, tuple, np.array, pytest.param(lambda rows: pd.Series(rows), id="Series")]
)
def test_strings_through_a_callable(container):
    words = ["cat", "act", "dog", "god", "bird", "cat", "a"]
    basis = KernelBasis(common_letters)
    Z = basis.fit_transform(container(words))
    assert_allclose(Z @ Z.T, common_letters(words, words), atol=1e-9)
    assert not hasattr(basis, "n_features_in_")
    sketched = KernelBasis(common_letters, SubSample(4), random_state=0).fit(container(words))
    assert (sketched.residual(container(words)) >= 0).all()
    assert set(sketched.landmarks_) <= set(words)


def test_objects_that_cannot_be_hashed():
    sets = [{1, 2}, {2, 3}, {1, 2}, {4}]
    Z = KernelBasis(common_letters).fit_transform(sets)
    assert_allclose(Z @ Z.T, common_letters(sets, sets), atol=1e-9)


def test_gaussian_process_kernel():
    X = rows()
    Z = KernelBasis(RBF(length_scale=2.0)).fit_transform(X)
    assert_allclose(Z @ Z.T, oracle.gaussian(X, X, 1 / 8), atol=1e-9)


def test_constant_kernel_has_one_coordinate():
    X = rows()
    Z = KernelBasis(lambda A, B: np.full((len(A), len(B)), 4.0)).fit_transform(X)
    assert_allclose(Z, np.full((30, 1), 2.0))
    assert_allclose(KernelBasis(Gaussian(0.0)).fit_transform(X), np.ones((30, 1)))


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("sketch", [None, *ALL_SKETCHES], ids=short)
def test_equal_rows_have_one_coordinate(sketch, whiten):
    X = np.ones((30, 3))
    basis = KernelBasis("gaussian", sketch, whiten=whiten, random_state=0).fit(X)
    assert basis.rank_ == 1
    assert_allclose(np.abs(basis.transform(X)), 1.0)


def test_one_row():
    assert_allclose(np.abs(KernelBasis(Linear()).fit_transform([[3.0, 4.0]])), [[5.0]])


def test_some_zero_rows():
    X = rows()
    X[[0, 4, 5]] = 0.0
    Z = KernelBasis(Linear()).fit_transform(X)
    assert_allclose(Z @ Z.T, X @ X.T, atol=1e-12)
    assert not Z[[0, 4, 5]].any()
    for kernel in (Cosine(), Tanimoto()):
        K = kernel(np.abs(X))
        Z = KernelBasis(kernel).fit_transform(np.abs(X))
        assert_allclose(Z @ Z.T, K, atol=1e-9)


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("sketch", [None, *ALL_SKETCHES], ids=short)
def test_all_rows_zero_is_an_error_that_says_so(sketch, whiten):
    with pytest.raises(ValueError, match="every row has norm 0 under this kernel"):
        KernelBasis(Linear(), sketch, whiten=whiten, random_state=0).fit(np.zeros((30, 3)))


def test_gamma_rules_are_resolved_at_fit():
    X = rows()
    basis = KernelBasis(Gaussian("scale")).fit(X)
    assert_allclose(basis.kernel_.gamma, 1 / (3 * X.var()))
    assert basis.kernel.gamma == "scale"
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(30, 1)]
    assert_allclose(KernelBasis(Gaussian("median")).fit(X).kernel_.gamma, 0.5 / np.median(squared))


def test_names_of_coordinates():
    basis = KernelBasis("gaussian", SubSample(4), random_state=0).fit(rows())
    assert list(basis.get_feature_names_out()) == [f"kernelbasis{i}" for i in range(4)]


def test_names_of_coordinates_in_frames():
    pytest.importorskip("pandas")
    basis = KernelBasis("gaussian", SubSample(4), random_state=0).fit(rows())
    frame = basis.set_output(transform="pandas").transform(rows())
    assert list(frame.columns) == [f"kernelbasis{i}" for i in range(4)]


@pytest.mark.parametrize("rows_per_block", [1, 7])
@pytest.mark.parametrize("sketch", [None, *ALL_SKETCHES], ids=short)
def test_blocks_do_not_change_coordinates(sketch, rows_per_block):
    X = rows()
    expected = KernelBasis(Gaussian(1.0), sketch, random_state=0).fit_transform(X)
    with memory_limits(block_rows=rows_per_block):
        found = KernelBasis(Gaussian(1.0), sketch, random_state=0, n_jobs=2).fit_transform(X)
    assert_allclose(found, expected, atol=1e-10)


# Moments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 5, 19, 20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_partial_whitening(size, dtype):
    rng = np.random.default_rng(0)
    L = np.tril(rng.standard_normal((20, 20))) + 5 * np.eye(20)
    F = rng.standard_normal((700, 20))  # more rows than are whitened at a time
    C = np.linalg.inv(L)
    half = Whitening(C, WhiteningPlan(size, False, np.dtype(dtype))).apply(F.astype(dtype))
    found = half @ PartlyWhitened(C, size).finish().T
    atol = 1e-12 if dtype == np.float64 else 1e-5
    assert_allclose(found, np.linalg.solve(L, F.T).T, atol=atol)


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("sketch", [SubSample(8), PSparsified(8)], ids=str)
def test_moments_are_those_of_the_coordinates(sketch, whiten):
    X, T = rows(), rows(seed=1)[:, :2]
    w, groups = np.arange(30.0), np.arange(30) % 3
    basis = KernelBasis(Gaussian(0.3), sketch, whiten=whiten, random_state=0).fit(X)
    Z = basis.transform(X)
    parts = basis.engine_.moments(TrainingSample(Memory(X), Memory(T), w, groups, 3), alpha=1e-3)
    for group, part in enumerate(parts):
        some = groups == group
        Zw = Z[some] * w[some, None]
        assert_allclose(part.weight, w[some].sum())
        assert_allclose(part.zz, Z[some].T @ Zw, atol=1e-9)
        assert_allclose(part.zt, Zw.T @ T[some], atol=1e-9)
        assert_allclose(part.z_sum, Zw.sum(axis=0), atol=1e-9)


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"kernel": "gaussin"}, ValueError, r"Did you mean 'gaussian'\?"),
        ({"kernel": 3}, TypeError, "A kernel must be a skout kernel, a name"),
        ({"kernel": Gaussian}, TypeError, "A kernel must be a skout kernel, a name"),
        ({"kernel": Gaussian(-1.0)}, ValueError, r"gamma must be a finite number >= 0. Got -1.0"),
        ({"kernel": Gaussian("scal")}, ValueError, r"Did you mean 'scale'\?"),
        ({"sketch": "subsampel"}, ValueError, r"Did you mean 'subsample'\?"),
        ({"sketch": 10}, TypeError, "A sketch must be a skout sketch, a name or None. Got 10"),
        ({"sketch": SubSample(0)}, ValueError, r"size must be an integer >= 1. Got 0"),
        ({"sketch": SubSample(2.5)}, TypeError, r"size must be an integer >= 1. Got 2.5"),
        ({"whiten": "eig"}, ValueError, r"whiten must be one of .* Did you mean 'eigh'\?"),
        ({"random_state": "seed"}, ValueError, "random_state must be None, an int"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        KernelBasis(**params).fit(rows())


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0], [np.nan]], "NaN"),
        ([[1.0], [np.inf]], "infinity"),
        ([1.0, 2.0], "Expected 2D array"),
        (np.empty((0, 3)), "0 sample"),
        ([["a", "b"]], "could not convert string to float"),
    ],
)
def test_bad_rows(X, message):
    with pytest.raises(ValueError, match=message):
        KernelBasis().fit(X)
    with pytest.raises(ValueError, match=message):
        KernelBasis().fit(rows(d=2)).transform(X)


def test_bad_objects():
    with pytest.raises(ValueError, match="0 sample"):
        KernelBasis(common_letters).fit([])
    with pytest.raises(TypeError, match="list or array of objects"):
        KernelBasis(common_letters).fit("words")
    with pytest.raises(ValueError, match=r"returned shape \(3,\)"):
        KernelBasis(lambda A, B: np.ones(3)).fit(["a", "b", "c"])
    with pytest.raises(ValueError, match="returned NaN"):
        KernelBasis(lambda A, B: np.full((len(A), len(B)), np.nan)).fit(["a", "b", "c"])


def test_unfitted():
    for use in ("transform", "residual"):
        with pytest.raises(NotFittedError):
            getattr(KernelBasis(), use)(rows())
    with pytest.raises(NotFittedError):
        _ = KernelBasis().eigenvalues_


def test_wrong_width():
    with pytest.raises(ValueError, match="2 features, but KernelBasis is expecting 3"):
        KernelBasis().fit(rows()).transform(rows()[:, :2])


PLANS = [
    WhiteningPlan(0, False, np.dtype(np.float64)),
    WhiteningPlan(0, True, np.dtype(np.float64)),
    WhiteningPlan(0, True, np.dtype(np.float32)),
    WhiteningPlan(5, False, np.dtype(np.float64)),
    WhiteningPlan(20, False, np.dtype(np.float64)),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_plan_gives_the_moments_of_the_coordinates(monkeypatch, plan, weighted):
    """Centred, whitened in part or in whole: it is rounding that differs, not the result."""
    monkeypatch.setattr("skout.basis.engine.accuracy_plan", lambda *_: plan)
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((200, 3)).astype(plan.dtype), rng.standard_normal((200, 2))
    w = rng.uniform(0.5, 2.0, 200) if weighted else None
    basis = KernelBasis(Gaussian(0.8), SubSample(20), random_state=0).fit(X)
    (found,) = basis.engine_.moments(TrainingSample(Memory(X), Memory(T), w), 1e-3)
    Z = basis.transform(X).astype(np.float64)
    weights = np.ones(200) if w is None else w
    tol = 1e-9 if plan.dtype == np.float64 else 2e-2
    assert_allclose(found.zz, (Z.T * weights) @ Z, rtol=tol, atol=200 * tol)
    assert_allclose(found.zt, (Z.T * weights) @ T, rtol=tol, atol=200 * tol)
    assert_allclose(found.z_sum, weights @ Z, rtol=tol, atol=200 * tol)


def test_plan_spends_more_as_alpha_falls():
    X = np.random.default_rng(0).standard_normal((3000, 6))
    basis = KernelBasis(Gaussian(0.05), SubSample(300), random_state=0).fit(X)
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    cheap, dear = (accuracy_plan(basis.components_, 300 * a, single, True) for a in (10.0, 1e-9))
    assert cheap == WhiteningPlan(0, False, single)
    assert dear.size > 0
    sizes = [
        accuracy_plan(basis.components_, 300 * a, double, True).size for a in (1e-1, 1e-5, 1e-9)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0 < sizes[-1]


# Coordinates of the rows that a basis was fitted on ----------------------------------------------


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("sketch", [None, SubSample(8), PSparsified(8)], ids=short)
def test_fit_transform_is_fit_and_transform(sketch, kernel, duplicates, whiten):
    X = rows(duplicates=duplicates)
    basis = KernelBasis(kernel, sketch, whiten=whiten, random_state=0)
    Z = basis.fit_transform(X)
    assert_allclose(Z, basis.transform(X), atol=1e-8 * np.abs(Z).max())
    other = KernelBasis(kernel, sketch, whiten=whiten, random_state=0).fit(X)
    assert_allclose(Z, other.transform(X), atol=1e-8 * np.abs(Z).max())


@pytest.mark.parametrize("matrix", [sparse.csr_matrix, sparse.csr_array])
def test_fit_transform_of_sparse_rows(matrix):
    X = np.where(np.abs(rows(duplicates=True)) > 0.7, rows(duplicates=True), 0.0)
    basis = KernelBasis(Gaussian(0.3))
    assert_allclose(basis.fit_transform(matrix(X)), basis.transform(matrix(X)), atol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Linear(), Polynomial(2, 0.5)], ids=str)
@pytest.mark.parametrize("sketch", [None, SubSample(8)], ids=short)
def test_fit_transform_in_float32(sketch, kernel):
    X = rows(duplicates=True).astype(np.float32)
    basis = KernelBasis(kernel, sketch, random_state=0)
    Z = basis.fit_transform(X)
    assert Z.dtype == np.float32
    K = kernel(X.astype(np.float64))
    if sketch is None:
        assert_allclose(Z @ Z.T, K, atol=1e-4 * np.abs(K).max())
    assert_allclose(Z @ Z.T, basis.transform(X) @ basis.transform(X).T, atol=1e-4 * K.max())


def test_fit_transform_of_objects():
    def common(A, B):
        return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])

    words = ["ab", "bc", "ab", "abc", "c", "", "bca"]  # abc and bca are one set of letters
    lists = [list(word) for word in words]  # without a hash
    for objects in (words, np.array(words), lists):
        basis = KernelBasis(common)
        Z = basis.fit_transform(objects)
        assert_allclose(Z, basis.transform(objects), atol=1e-10)
        assert_allclose(Z @ Z.T, common(words, words), atol=1e-10)


def test_fit_transform_computes_no_kernel_value_twice(monkeypatch):
    X = rows(duplicates=True)
    monkeypatch.setattr(Engine, "coordinates", lambda self, rows: pytest.fail("again"))
    assert KernelBasis(Gaussian(0.3)).fit_transform(X).shape == (30, 16)


def test_fit_transform_computes_what_depends_on_the_landmarks(monkeypatch):
    X = rows(n=30, d=3)
    asked = []
    original = Engine.coordinates
    monkeypatch.setattr(
        Engine, "coordinates", lambda self, rows: asked.append(rows) or original(self, rows)
    )
    Z = KernelBasis(Linear()).fit_transform(X)
    assert [len(some) for some in asked] == [27]  # all but the three landmarks
    assert_allclose(Z @ Z.T, X @ X.T, atol=1e-10)


@pytest.mark.parametrize("whiten", WHITEN)
@pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize(
    "sketch", [None, SubSample(8), PSparsified(8), GaussianSketch(6)], ids=short
)
def test_combine_sums_over_landmarks(sketch, matrix, whiten):
    X = rows()
    basis = KernelBasis(Gaussian(0.3), sketch, whiten=whiten, random_state=0).fit(X)
    m = basis.landmarks_.shape[0]
    values = rows(n=m, d=4, seed=5)
    W = basis.weights_
    if W is None:
        W = np.eye(m)
    W = W.toarray() if sparse.issparse(W) else W
    expected = np.zeros((basis.rank_, 4))
    for a in range(basis.rank_):
        for b in range(len(W)):
            for j in range(m):
                expected[a] += basis.components_[a, b] * W[b, j] * values[j]
    found = basis.combine(matrix(values))
    assert type(found) is np.ndarray
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("sketch", [None, SubSample(2), PSparsified(2)], ids=short)
def test_combined_landmarks_of_a_linear_kernel_are_orthonormal_vectors(sketch):
    X = rows()
    basis = KernelBasis(Linear(), sketch, random_state=0).fit(X)
    V = basis.combine(basis.landmarks_)  # the basis functions as vectors
    assert_allclose(V @ V.T, np.eye(basis.rank_), atol=1e-9)
    assert_allclose(basis.transform(X), X @ V.T, atol=1e-9)


def test_combine_unfitted():
    with pytest.raises(NotFittedError):
        KernelBasis().combine(np.ones((2, 2)))


@pytest.mark.parametrize("sketch", [None, SubSample(40)], ids=str)
def test_the_largest_coordinates(sketch):
    X = np.random.default_rng(0).standard_normal((60, 3))
    whole = KernelBasis(Gaussian(0.1), sketch, whiten="eigh", random_state=0).fit(X)
    some = KernelBasis(Gaussian(0.1), sketch, whiten="eigh", rank=5, random_state=0).fit(X)
    assert some.rank_ == 5
    assert_allclose(some.transform(X), whole.transform(X)[:, :5], atol=1e-8)
    assert_allclose(some.eigenvalues_, whole.eigenvalues_[:5])
    assert KernelBasis("linear", whiten="eigh", rank=50).fit(X).rank_ == 3


def test_components_need_an_order():
    with pytest.raises(ValueError, match='whiten="eigh"'):
        KernelBasis("linear", rank=2).fit(np.eye(3))
    with pytest.raises(ValueError, match="rank"):
        KernelBasis("linear", whiten="eigh", rank=0).fit(np.eye(3))


# Copies, and rounding that makes them look different ----------------------------------------------


@pytest.mark.parametrize("whiten", ["cholesky", "eigh"])
@pytest.mark.parametrize("gamma", [0.5, 3.0, 300.0])
@pytest.mark.parametrize("name", ["subsample", "gaussian", "p_sparsified", "pivoted_cholesky"])
def test_copies_add_no_rank(name, gamma, whiten):
    X = np.random.default_rng(0).standard_normal((36, 50)).repeat(30, axis=0)
    basis = KernelBasis(Gaussian(gamma), name, whiten=whiten, random_state=0).fit(X)
    assert basis.rank_ == 36
    assert_allclose(np.square(basis.transform(X[::30])).sum(axis=1), 1.0, atol=1e-8)


# What is prepared once ----------------------------------------------------------------------------


class Counting(Gaussian):
    """A kernel that counts how often landmarks are prepared."""

    prepared = 0

    def against(self, B):
        Counting.prepared += 1
        return super().against(B)


PREPARED_X = np.random.default_rng(0).standard_normal((200, 3))


def prepared_by(function) -> int:
    before = Counting.prepared
    function()
    return Counting.prepared - before


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(Counting(1.0), SubSample(30), random_state=0),
        KernelRidge(Counting(1.0)),
        KernelMachine(Counting(1.0), SubSample(30), loss=Huber(), random_state=0),
    ],
    ids=["sketched", "exact", "machine"],
)
def test_landmarks_are_prepared_once(model):
    y = PREPARED_X[:, 0]
    model.fit(PREPARED_X, y)
    expected, size = model.predict(PREPARED_X[:5]), len(pickle.dumps(model))
    assert prepared_by(lambda: [model.predict(PREPARED_X[:5]) for _ in range(5)]) == 0
    assert len(pickle.dumps(model)) == size  # nothing of it travels
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert prepared_by(lambda twin=twin: twin.predict(PREPARED_X[:5])) == 1
        assert_allclose(twin.predict(PREPARED_X[:5]), expected)
    model.fit(2.0 * PREPARED_X, -y)  # what was prepared for other landmarks is not used
    fresh = clone(model).fit(2.0 * PREPARED_X, -y)
    assert_allclose(model.predict(PREPARED_X), fresh.predict(PREPARED_X))


def test_what_is_prepared_stays_out_of_files(tmp_path):
    model = KernelRidge(Gaussian(1.0), SubSample(30), random_state=0)
    model.fit(PREPARED_X, PREPARED_X[:, 0])
    save(model, tmp_path / "before")
    model.predict(PREPARED_X)
    save(model, tmp_path / "after")
    saved = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"  # the time, which may be a second later
    # without the checksum at the end, which changes with the time
    before, after = ((tmp_path / name).read_bytes()[:-32] for name in ("before", "after"))
    assert re.subn(saved, b"", before, count=1) == (re.sub(saved, b"", after, count=1), 1)


def test_a_machine_finds_its_matrix_once():
    model = KernelMachine(Gaussian(1.0), SubSample(30), loss=Huber(), random_state=0)
    with mock.patch.object(
        Engine, "on_features", autospec=True, side_effect=Engine.on_features
    ) as spy:
        model.fit(PREPARED_X, PREPARED_X[:, 0])
        found = [model.predict(PREPARED_X[:3]) for _ in range(3)]
    assert spy.call_count == 1
    assert_allclose(found[2], found[0])


def test_what_is_prepared_goes_with_its_model():
    model = KernelRidge(Gaussian(1.0), SubSample(30), random_state=0)
    model.fit(PREPARED_X, PREPARED_X[:, 0]).predict(PREPARED_X)
    features = weakref.ref(model.basis_.engine_.features)
    assert features() is not None
    del model
    gc.collect()
    assert features() is None


def test_a_linear_kernel_needs_no_kernel_matrix_of_its_landmarks(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((600, 7))
    W = sparse.csr_matrix(rng.standard_normal((20, 600)) * (rng.random((20, 600)) < 0.1))
    measured, sizes = KernelMatrix.measured, []
    monkeypatch.setattr(
        KernelMatrix, "measured", lambda self: sizes.append(len(self.source)) or measured(self)
    )
    gram, mixed, _ = KernelMatrix(Linear(), rows).sketched(W)
    K = rows @ rows.T
    assert_allclose(mixed, K @ W.T.toarray(), atol=1e-12)
    assert_allclose(gram, W @ K @ W.T.toarray(), atol=1e-12)
    assert max(sizes) < 600  # a few rows, for their rounding


def test_a_linear_kernel_mixes_rows_instead_of_kernel_values():
    X = np.random.default_rng(0).standard_normal((300, 7))
    basis = KernelBasis("linear", PSparsified(4, p=0.1), random_state=0).fit(X)
    assert len(basis.landmarks_) > 50
    assert len(basis.engine_.features.landmarks) == basis.rank_ == 4
    raw = basis.components_ @ (basis.weights_ @ (basis.landmarks_ @ X.T))
    assert_allclose(basis.transform(X), raw.T, atol=1e-12)
