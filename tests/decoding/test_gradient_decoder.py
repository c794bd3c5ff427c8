"""Pre-images by gradient: finite differences, and vectors that are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import KNeighborsRegressor

import skout
from skout import KernelBasis, StructuredPredictor, iokr
from skout.decoding import CandidateDecoder, GradientDecoder
from skout.decoding.gradient import score_of
from skout.kernels import Gaussian, Linear, Matern, Polynomial, Tanimoto
from skout.kernels.vectors import VectorKernel
from skout.sketches import PSparsified, SubSample

RNG = np.random.default_rng(0)
Y = RNG.standard_normal((150, 3))
NEW = RNG.uniform(-1.0, 1.0, (12, 3))


class Quadratic(VectorKernel):
    """k(a, b) = (a . b + 1)^2 of a user, who says its gradients."""

    normalized = False

    def against(self, B):
        return lambda A, out=None: (A @ B.T + 1.0) ** 2

    def diag(self, A):
        return (np.sum(A**2, axis=1) + 1.0) ** 2

    def gradients(self, B, coef):
        return lambda A: np.einsum("am,mq,md->aqd", 2.0 * (A @ B.T + 1.0), coef, B)

    def diag_gradients(self, A):
        return 4.0 * (np.sum(A**2, axis=1, keepdims=True) + 1.0) * A


KERNELS = [Gaussian(0.2), Matern(0.5, nu=1.5), Matern(0.5, nu=2.5), Quadratic()]
SKETCHES = [None, SubSample(60), PSparsified(60, 0.3)]


def basis_of(kernel, sketch=None):
    return KernelBasis(kernel, sketch, random_state=0).fit(Y)


@pytest.mark.parametrize("sketch", SKETCHES, ids=["exact", "sub-sample", "p-sparsified"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_score_and_its_gradient_by_finite_differences(kernel, sketch):
    basis = basis_of(kernel, sketch)
    F = 0.5 * RNG.standard_normal((4, basis.rank_))
    b = F @ basis.combine(np.eye(len(basis.landmarks_)))
    for i, y in enumerate(NEW[:4]):
        score = score_of(basis, b[i])
        value, slope = score(y)
        z = basis.transform(y[None])[0]
        truth = 2.0 * F[i] @ z - kernel.diag(y[None])[0]
        assert_allclose(value, truth, rtol=1e-6, atol=1e-6)
        for j, e in enumerate(np.eye(3) * 1e-5):
            difference = (score(y + e)[0] - score(y - e)[0]) / 2e-5
            assert_allclose(slope[j], difference, rtol=1e-4, atol=1e-4 * np.abs(b[i]).max())


@pytest.mark.parametrize("sketch", [None, SubSample(5), PSparsified(5, 0.2)], ids=str)
def test_the_linear_kernel_gives_the_vector_itself(sketch):
    # with five landmarks in three dimensions the span is everything
    basis = basis_of(Linear(), sketch)
    assert basis.rank_ == 3
    decoder = GradientDecoder().fit(basis, Y)
    assert_allclose(decoder.decode(basis.transform(NEW)), NEW, atol=1e-9)
    X = RNG.standard_normal((150, 4))
    model = iokr(Gaussian(0.1), Linear(), alpha=1e-2, decoder=GradientDecoder()).fit(X, Y)
    ridge = skout.KernelRidge(Gaussian(0.1), alpha=1e-2).fit(X, Y)
    assert_allclose(model.predict(X[:9]), ridge.predict(X[:9]), atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_vector_is_found_back_from_its_own_coordinates(kernel):
    basis = basis_of(kernel)
    decoder = GradientDecoder(n_starts=3, reach=1.0).fit(basis, Y)
    found = decoder.decode(basis.transform(NEW))
    assert_allclose(found, NEW, atol=0.05)
    nearest = CandidateDecoder().fit(basis, Y).decode(basis.transform(NEW))
    assert np.abs(found - NEW).max() < 0.1 * np.abs(nearest - NEW).max()


def scores(basis, F, rows):
    return 2.0 * np.sum(F * basis.transform(rows), axis=1) - basis.kernel_.diag(rows)


@pytest.mark.parametrize("sketch", SKETCHES, ids=["exact", "sub-sample", "p-sparsified"])
def test_never_worse_than_the_best_candidate_and_within_bounds(sketch):
    basis = basis_of(Gaussian(2.0), sketch)  # narrow: many hills
    F = basis.transform(NEW) + 0.3 * RNG.standard_normal((12, basis.rank_))
    start = CandidateDecoder().fit(basis, Y).decode(F)
    for n_starts, reach in ((1, 0.0), (4, 0.5)):
        decoder = GradientDecoder(n_starts, reach=reach).fit(basis, Y)
        found = decoder.decode(F)
        assert np.all(scores(basis, F, found) >= scores(basis, F, start) - 1e-9)
        assert np.all(scores(basis, F, found).mean() > scores(basis, F, start).mean() + 0.01)
        assert np.all(found >= decoder.low_ - 1e-12)
        assert np.all(found <= decoder.high_ + 1e-12)
    assert_allclose(GradientDecoder(reach=0.0).fit(basis, Y).low_, Y.min(axis=0))


def test_starts_may_be_given():
    basis = basis_of(Gaussian(8.0))  # so narrow that a climb stays on its hill
    F = basis.transform(Y[:3]) + basis.transform(Y[3:6])
    decoder = GradientDecoder(n_starts=1).fit(basis, Y)
    one, other = decoder.decode(F, [Y[:1], Y[1:2], Y[2:3]]), decoder.decode(F, Y[3:6])
    assert_allclose(one, Y[:3], atol=0.3)
    assert_allclose(other, Y[3:6], atol=0.3)


def test_in_a_model_saved_and_loaded(tmp_path):
    X = RNG.standard_normal((150, 4))
    model = iokr(Gaussian(0.1), Gaussian(0.2), alpha=1e-2, decoder=GradientDecoder()).fit(X, Y)
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))
    assert model.decoder_.decode(np.empty((0, model.output_basis_.rank_))).shape == (0, 3)
    with pytest.raises(TypeError, match="GradientDecoder builds objects instead of ranking"):
        model.rank(X[:5])


@pytest.mark.parametrize(
    ("kernel", "targets", "message"),
    [
        (Polynomial(2, gamma=1.0), Y, "linear or has gradients, such as Gaussian.*Polynomial"),
        (Tanimoto(), (Y > 0).astype(int), "GradientDecoder needs"),
    ],
)
def test_kernels_without_gradients_are_refused(kernel, targets, message):
    nearest = KNeighborsRegressor(1)
    with pytest.raises(TypeError, match=message):
        StructuredPredictor(nearest, kernel, GradientDecoder()).fit(Y, targets)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_starts": 0}, "n_starts"), ({"max_iter": 0}, "max_iter"), ({"reach": -1.0}, "reach")],
)
def test_wrong_parameters(options, message):
    with pytest.raises(ValueError, match=f"{message} must be"):
        GradientDecoder(**options).fit(basis_of(Gaussian(0.2)), Y)
