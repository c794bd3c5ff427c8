"""Random Fourier features against the kernels that they estimate, and against (2.55)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import skout
from skout import KernelRidge, iokr
from skout.kernels import Fourier, Gaussian, Laplacian, Linear, Matern
from skout.sketches import SubSample
from skout.testing import check_kernel

BASES = [Gaussian(0.7), Laplacian(0.4), *(Matern(0.8, nu) for nu in (0.5, 1.5, 2.5))]


def rows(n=40, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize("base", BASES, ids=str)
def test_the_mean_over_waves_is_the_kernel(base):
    """Its deviation is that of a mean of m / 2 cosines, at most (m / 2)^(-1/2)."""
    X = rows()
    errors = [Fourier(base, 400, seed)(X) - base(X) for seed in range(50)]
    assert np.abs(np.mean(errors, axis=0)).max() < 5.0 * (200 * 50) ** -0.5
    assert np.std(errors) < 200**-0.5


@pytest.mark.parametrize("base", BASES, ids=str)
def test_it_is_a_kernel_of_all_rows(base):
    kernel = Fourier(base, 30)
    check_kernel(kernel, rows())
    assert_allclose(kernel(sparse.csr_matrix(rows())), kernel(rows()), atol=1e-12)
    assert np.linalg.matrix_rank(kernel(rows())) == 30


def test_features_are_the_formula():
    X, kernel = rows(), Fourier(Gaussian(0.7), 10, seed=3)
    W = np.sqrt(1.4) * np.random.default_rng(3).standard_normal((3, 5))
    expected = np.sqrt(2 / 10) * np.hstack([np.cos(X @ W), np.sin(X @ W)])
    assert_allclose(kernel.transform(X), expected, atol=1e-13)
    assert_allclose(kernel(X), expected @ expected.T, atol=1e-13)


def test_ridge_of_a_sketch_with_more_rows_is_that_of_the_features():
    X, alpha = rows(200), 1e-3
    y = np.sin(X[:, 0])
    kernel = Fourier(Gaussian(0.3), 20)
    F, new = kernel.transform(X), kernel.transform(rows(9, seed=1))
    coef = np.linalg.solve(F.T @ F + 200 * alpha * np.eye(20), F.T @ y)
    for sketch in (None, SubSample(40)):
        model = KernelRidge(kernel, sketch, alpha=alpha, random_state=0).fit(X, y)
        assert_allclose(model.predict(rows(9, seed=1)), new @ coef, atol=1e-7)


def test_widths_are_resolved_and_files_keep_them(tmp_path):
    X = rows(60)
    Y = (X > 0).astype(int)
    model = iokr(Fourier("gaussian", 50), "tanimoto").fit(X, Y)
    assert model.regressor_.kernel_.kernel.gamma == pytest.approx(1 / (3 * X.var()))
    skout.save(model, tmp_path / "m.skout")
    assert_allclose(skout.load(tmp_path / "m.skout").predict(X), model.predict(X))


def test_kernels_without_waves_are_refused():
    with pytest.raises(TypeError, match="kernel of the distance"):
        Fourier(Linear())(rows())
    with pytest.raises(ValueError, match="size"):
        Fourier(Gaussian(1.0), 1)(rows())


def test_torch_finds_the_same():
    torch = pytest.importorskip("torch")
    for base in BASES:
        kernel = Fourier(base, 30)
        found = kernel.against(torch.from_numpy(rows()))(torch.from_numpy(rows(5, seed=1)))
        assert_allclose(found.numpy(), kernel(rows(5, seed=1), rows()), atol=1e-12)
