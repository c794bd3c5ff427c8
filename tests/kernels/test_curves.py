"""Functional outputs: the kernel on curves, what is predicted and how it is judged."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid

import skout
from skout import KernelBasis, iokr, sisokr
from skout.decoding import GradientDecoder
from skout.kernels import Curves, Gaussian, Normalized
from skout.kinds.scoring import metric_of
from skout.metrics import integrated_squared_error
from skout.metrics.scoring import curve_r2
from skout.sketches import SubSample
from skout.testing import check_kernel

GRID = np.array([0.0, 0.1, 0.25, 0.5, 0.9, 1.0, 1.7])


def curves(n=20, seed=0):
    return np.random.default_rng(seed).standard_normal((n, len(GRID)))


def squared_distances(F, G):
    return np.array([[trapezoid((f - g) ** 2, GRID) for g in G] for f in F])


def problem(n=80, seed=0):
    """Inputs, and the curves sin(3 x + t)."""
    X = np.random.default_rng(seed).uniform(0.0, 1.0, (n, 1))
    return X, np.sin(3.0 * X + GRID)


def test_gram_is_of_integrals():
    F, G = curves(), curves(9, seed=1)
    expected = [[trapezoid(f * g, GRID) for g in G] for f in F]
    assert_allclose(Curves(points=GRID)(F, G), expected)
    found = Curves(Gaussian(0.3), points=GRID)(F, G)
    assert_allclose(found, np.exp(-0.3 * squared_distances(F, G)))
    even = np.linspace(0.0, 1.0, len(GRID))
    assert_allclose(Curves()(F), Curves(points=even)(F))


@pytest.mark.parametrize("kernel", ["linear", "gaussian", "matern", "polynomial"])
def test_conformance(kernel):
    check_kernel(Curves(kernel, points=GRID), curves())
    check_kernel(Curves(kernel), curves().astype(np.float32))


def test_width_is_that_of_functions():
    F = curves()
    basis = KernelBasis(Curves(Gaussian("median"), points=GRID)).fit(F)
    apart = squared_distances(F, F)[np.triu_indices(len(F), 1)]
    assert_allclose(basis.kernel_.kernel.gamma, 1.0 / (2.0 * np.median(apart)))


def test_points_of_their_own_are_read_on_the_grid():
    own = [(np.array([0.0, 1.0, 1.7]), np.array([1.0, 3.0, 0.0])), ([0.2, 0.4], [5.0, 6.0])]
    found = Curves(points=GRID).encode(own)
    assert_allclose(found[0], [1.0, 1.2, 1.5, 2.0, 2.8, 3.0, 0.0])
    assert_allclose(found[1], [5.0, 5.0, 5.25, 6.0, 6.0, 6.0, 6.0])


def test_prediction_is_the_regression_function():
    X, Y = problem()
    model = iokr(Gaussian(2.0), Curves(points=GRID), decoder=GradientDecoder(), alpha=1e-4).fit(
        X, Y
    )
    K = Gaussian(2.0)(X)
    weights = np.linalg.solve(K + len(X) * 1e-4 * np.eye(len(X)), K[:, :5])
    assert_allclose(model.predict(X[:5]), weights.T @ Y, atol=1e-7)


def test_sketched_and_given_at_points_of_their_own():
    X, Y = problem(150)
    pairs = [(GRID, row) for row in Y]
    sketch = SubSample(10)
    model = sisokr(
        Gaussian(2.0),
        Curves(points=GRID),
        output_sketch=sketch,
        decoder=GradientDecoder(),
        random_state=0,
    )
    found = model.fit(X[:100], pairs[:100]).predict(X[100:])
    assert integrated_squared_error(pairs[100:], found, GRID) < 1e-3
    assert model.score(X[100:], pairs[100:]) > 0.99


def test_gaussian_curves_are_climbed_to():
    Y = curves(60) * 0.5
    basis = KernelBasis(Curves(Gaussian(0.2), points=GRID)).fit(Y)
    decoder = GradientDecoder().fit(basis, Y)
    truth = 0.5 * (Y[:3] + Y[3:6])  # no training output
    assert_allclose(decoder.decode(basis.transform(truth)), truth, atol=0.01)


def test_gradients_are_those_of_finite_differences():
    F, b, kernel = curves(6), np.arange(6.0)[:, None], Curves(Gaussian(0.4), points=GRID)
    at, h = curves(1, seed=3), 1e-6
    found = kernel.gradients(F, b)(at)[0, 0]
    steps = [
        (kernel(at + h * e, F) @ b - kernel(at - h * e, F) @ b)[0, 0] / (2 * h)
        for e in np.eye(len(GRID))
    ]
    assert_allclose(found, steps, atol=1e-6)
    assert not hasattr(Curves(), "gradients")


def test_task_matrix_of_the_identity_changes_nothing():
    X, Y = problem(40)
    options = {"decoder": GradientDecoder(), "alpha": 1e-3}
    plain = iokr(Gaussian(2.0), Curves(points=GRID), **options).fit(X, Y).predict(X)
    eye = np.eye(len(GRID))
    tied = iokr(Gaussian(2.0), Curves(points=GRID), task_matrix=eye, **options).fit(X, Y)
    assert_allclose(tied.predict(X), plain, atol=1e-8)


def test_scores():
    Y, P = curves(), curves(seed=1)
    error = np.mean(np.diagonal(squared_distances(Y, P)))
    assert_allclose(integrated_squared_error(Y, P, GRID), error)
    spread = np.mean(np.diagonal(squared_distances(Y, np.tile(Y.mean(axis=0), (len(Y), 1)))))
    kernel = Curves(points=GRID)
    assert metric_of(kernel, Y) == "curve_r2"
    for one in (kernel, Normalized(kernel), 2.0 * kernel + kernel):
        assert_allclose(curve_r2(one, Y, P), 1.0 - error / spread)
    with pytest.raises(TypeError, match="curve_r2 needs a kernel on curves"):
        curve_r2("gaussian", Y, P)


def test_a_model_is_saved(tmp_path):
    X, Y = problem(30)
    model = iokr(output_kernel=Curves(points=GRID), decoder=GradientDecoder()).fit(X, Y)
    skout.save(model, tmp_path / "curves.skout")
    assert_array_equal(skout.load(tmp_path / "curves.skout").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("kernel", "objects", "message"),
    [
        (Curves(points=GRID), np.ones((2, 3)), "Got 3 values and 7 points"),
        (Curves(), np.ones((2, 1)), "Got 1 values"),
        (Curves(points=[0.0, 0.0, 1.0]), np.ones((2, 3)), "points must be increasing"),
        (Curves(), [([0.0, 1.0], [1.0, 2.0])], "points must be given"),
        (Curves(points=GRID), [([0.0, 1.0], [1.0])], "Curve 0 must have one finite value"),
        (Curves(points=GRID), [([1.0, 0.0], [1.0, 2.0])], "points of curve 0 must be increasing"),
        (Curves(points=GRID), np.full((2, 7), np.nan), "NaN"),
    ],
)
def test_what_is_refused(kernel, objects, message):
    with pytest.raises(ValueError, match=message):
        kernel(objects)


def test_kernels_of_other_objects_are_refused():
    with pytest.raises(TypeError, match="Curves takes a kernel on vectors"):
        Curves("ngram")(np.ones((2, 3)))
