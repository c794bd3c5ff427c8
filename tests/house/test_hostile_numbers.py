"""Numbers that break naive code: each has a stated outcome, and none a silent wrong answer."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skout import (
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    iokr,
)
from skout._numerics.linalg import check_definite, eigen_whitening, pivoted_cholesky
from skout.kernels import Gaussian, Laplacian, Matern
from skout.sketches import PivotedCholesky, PSparsified, SubSample

RNG = np.random.default_rng(0)
N = 40
X = RNG.standard_normal((N, 3))
y = np.sin(X[:, 0])
LABELS = (y > 0).astype(int)
ALPHA = 1e-3
SKETCHES = [None, SubSample(10), PSparsified(10)]


def ridge(X, y, kernel="gaussian", sketch=None, weights=None, alpha=ALPHA, **params):
    model = KernelRidge(kernel, sketch, alpha=alpha, random_state=0, **params)
    return model.fit(X, y, sample_weight=weights).predict(X)


def constant(n=N, alpha=ALPHA):
    """The fit where all rows are alike: the mean, shrunk by n / (n + n alpha)."""
    return np.full(n, y[:n].mean() / (1.0 + alpha))


# Rows that are alike -----------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(36), PSparsified(36)], ids=str)
def test_duplicated_rows_are_weights(sketch):
    first, repeats = X[:8], np.arange(1, 9)  # 36 rows: the sketches span what the 8 rows span
    found = KernelRidge(Gaussian(0.3), sketch, alpha=ALPHA, random_state=0).fit(
        np.repeat(first, repeats, axis=0), np.repeat(y[:8], repeats)
    )
    expected = KernelRidge(alpha=ALPHA, kernel=Gaussian(0.3)).fit(
        first, y[:8], sample_weight=repeats
    )
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-8)


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
@pytest.mark.parametrize("value", [0.0, 1.0, -1e100])
def test_equal_rows_give_the_mean(sketch, value):
    assert_allclose(ridge(np.full((N, 3), value), y, sketch=sketch), constant(), rtol=1e-9)


@pytest.mark.parametrize("model", [KernelMachine("linear"), KernelClassifier("linear")], ids=str)
def test_a_kernel_that_is_zero_is_explained(model):
    with pytest.raises(ValueError, match="kernel matrix of the landmarks is zero"):
        model.fit(np.zeros((N, 3)), LABELS)


def test_exact_ridge_with_a_kernel_that_is_zero_predicts_zero():
    assert_allclose(ridge(np.zeros((N, 3)), y, "linear"), np.zeros(N))


def test_constant_features_change_nothing():
    wider = np.column_stack([X, np.full(N, 7.0), np.full(N, -1e9)])
    assert_allclose(ridge(wider, y, Gaussian(0.3)), ridge(X, y, Gaussian(0.3)), rtol=1e-9)


def test_one_row_has_a_basis_and_no_regression():
    assert_allclose(KernelBasis().fit_transform(X[:1]), [[1.0]])
    for model in (KernelRidge(), KernelMachine(), JointQuantileRegressor()):
        with pytest.raises(ValueError, match="needs at least two rows"):
            model.fit(X[:1], y[:1])


def test_one_class_is_refused_and_one_output_is_predicted():
    with pytest.raises(ValueError, match="y must have at least two classes"):
        KernelClassifier().fit(X, np.zeros(N))
    for value in (0, 1):
        Y = np.full((N, 3), value)
        assert_allclose(iokr("gaussian", "tanimoto").fit(X, Y).predict(X), Y)


# Widths and penalties ----------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
@pytest.mark.parametrize("gamma", [0, 1e-300])
@pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Matern])
def test_a_tiny_gamma_makes_all_rows_alike(kernel, gamma, sketch):
    assert_allclose(ridge(X, y, kernel(gamma), sketch), constant(), rtol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Matern])
@pytest.mark.parametrize("gamma", [1e20, 1e200, 1e300])
def test_a_huge_gamma_makes_rows_alike_to_themselves_only(kernel, gamma):
    model = KernelRidge(kernel(gamma), alpha=ALPHA).fit(X, y)
    assert_allclose(model.predict(X), y / (1.0 + N * ALPHA), rtol=1e-12)
    assert_allclose(model.predict(X + 0.5), np.zeros(N))
    assert_allclose(kernel(gamma)(X), np.eye(N))
    assert_allclose(kernel(gamma)(X.astype(np.float32)), np.eye(N))
    assert_allclose(kernel(gamma)(sparse.csr_matrix(X)), np.eye(N))


@pytest.mark.parametrize("model", [KernelMachine, JointQuantileRegressor, KernelClassifier])
@pytest.mark.parametrize("gamma", [0, 1e-300, 1e300])
def test_machines_with_extreme_widths(model, gamma):
    fitted = model(kernel=Gaussian(gamma)).fit(X, LABELS)
    assert np.isfinite(fitted.predict(X)).all()
    assert fitted.duality_gap_ <= fitted.tol


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
def test_extreme_penalties(sketch):
    huge = ridge(X, y, Gaussian(0.3), sketch, alpha=1e300)
    assert 0.0 < np.abs(huge).max() < 1e-299
    tiny = ridge(X, y, Gaussian(0.3), sketch, alpha=1e-300)
    least = ridge(X, y, Gaussian(0.3), sketch, alpha=0.0)
    assert_allclose(tiny, least, rtol=1e-6, atol=1e-6)


# Scales ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern", "polynomial", "cosine"])
@pytest.mark.parametrize("scale", [1e150, 1e-150])
@pytest.mark.parametrize("sketch", [None, SubSample(10)], ids=str)
def test_the_scale_of_features_does_not_matter(kernel, scale, sketch):
    found, expected = ridge(X * scale, y, kernel, sketch), ridge(X, y, kernel, sketch)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "matern", "linear", "polynomial", "cosine"])
def test_features_whose_squares_overflow_are_refused(kernel):
    with pytest.raises(ValueError, match=r"X holds numbers up to 2.33e\+160.*Scale the features"):
        ridge(X * 1e160, y, kernel)
    with pytest.raises(ValueError, match="whose squares overflow float32"):
        ridge((X * 1e20).astype(np.float32), y, kernel)
    model = KernelRidge(kernel).fit(X, y)
    with pytest.raises(ValueError, match=r"X holds numbers up to 2.33e\+160"):
        model.predict(X * 1e160)


@pytest.mark.parametrize("kernel", ["gaussian", "matern", "polynomial"])
def test_features_whose_squares_underflow_are_refused(kernel):
    with pytest.raises(ValueError, match=r"X holds features that differ by no more than 4.*-300"):
        ridge(X * 1e-300, y, kernel)


def test_outputs_are_named_as_such():
    with pytest.raises(ValueError, match=r"^Y holds numbers up to 2.33e\+160"):
        iokr().fit(X, X * 1e160)
    with pytest.raises(ValueError, match=r"^Y holds features that differ by no more"):
        iokr().fit(X, X * 1e-300)


def test_a_penalty_below_rounding_is_said():
    with pytest.warns(UserWarning, match="alpha is below the rounding error"):
        ridge(X * 1e150, y, "linear")
    with warnings.catch_warnings(record=True) as record:  # on some machines rounding is kind
        warnings.simplefilter("always")
        model = KernelMachine("linear").fit(X * 1e150, y)
    said = [str(w.message) for w in record if w.category is ConvergenceWarning]
    assert model.duality_gap_ <= model.tol or "or raise alpha" in said[0]


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_ridge_is_linear_in_the_targets(sketch, scale):
    found = ridge(X, y * scale, sketch=sketch)
    assert_allclose(found, scale * ridge(X, y, sketch=sketch), rtol=1e-9)


@pytest.mark.parametrize("model", [KernelRidge(), KernelMachine(), JointQuantileRegressor()])
def test_targets_whose_squares_overflow_are_refused(model):
    with pytest.raises(ValueError, match=r"y holds numbers up to 1e\+300.*Scale the targets"):
        model.fit(X, y / np.abs(y).max() * 1e300)


def test_targets_whose_squares_underflow_are_refused_where_a_loss_is_smoothed():
    with pytest.raises(ValueError, match=r"y holds numbers of at most 1e-150.*Scale the targets"):
        JointQuantileRegressor().fit(X, y / np.abs(y).max() * 1e-150)


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
@pytest.mark.parametrize("weight", [1e-300, 1e300])
def test_only_ratios_of_weights_matter(sketch, weight):
    found = ridge(X, y, sketch=sketch, weights=np.full(N, weight))
    assert_allclose(found, ridge(X, y, sketch=sketch), rtol=1e-8)


@pytest.mark.parametrize("weight", [1e-300, 1e300])
def test_only_ratios_of_weights_matter_to_machines(weight):
    for model in (KernelMachine(), KernelClassifier()):
        expected = model.fit(X, LABELS).predict(X)
        found = model.fit(X, LABELS, sample_weight=np.full(N, weight)).predict(X)
        assert_allclose(found, expected, rtol=1e-6)


def test_rows_of_hardly_any_weight_do_not_count():
    weights = np.where(np.arange(N) < 20, 1e300, 1e-300)
    model = KernelRidge(Gaussian(0.3), alpha=ALPHA)
    found = model.fit(X, y, sample_weight=weights).predict(X)
    assert_allclose(found, model.fit(X[:20], y[:20]).predict(X), rtol=1e-6, atol=1e-9)


# Types, shapes, places ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint16, np.bool_, np.longdouble])
def test_other_types_are_read_as_float64(dtype):
    rows = np.abs(10 * X).astype(dtype)
    assert_allclose(ridge(rows, y), ridge(rows.astype(np.float64), y), rtol=1e-12)


@pytest.mark.parametrize("sketch", [None, SubSample(10)], ids=str)
def test_more_features_than_rows(sketch):
    wide = np.random.default_rng(1).standard_normal((N, 5000))
    found = ridge(wide, y, "linear", sketch, alpha=1.0)
    assert np.isfinite(found).all()
    if sketch is None:
        K = wide @ wide.T
        assert_allclose(found, K @ np.linalg.solve(K + N * np.eye(N), y), rtol=1e-8)


def test_features_far_from_zero():
    assert_allclose(ridge(X + 1e9, y), ridge(X, y), atol=1e-5)


def test_one_far_row_does_not_break_the_others():
    far = np.vstack([X[:-1], np.full((1, 3), 1e8)])
    found = ridge(far, y, Gaussian(0.3))
    expected = KernelRidge(Gaussian(0.3), alpha=ALPHA * N / (N - 1)).fit(X[:-1], y[:-1])
    assert_allclose(found[:-1], expected.predict(X[:-1]), atol=0.02)


# Kernels that are not positive semi-definite -----------------------------------------------------


def tanh(A, B):
    return np.tanh(2.0 * A @ B.T - 1.0)


def minus_gaussian(A, B):
    return -Gaussian(0.3)(A, B)


def distance(A, B):
    return np.sqrt(-np.log(Gaussian(1.0)(A, B) + 1e-300))


INDEFINITE = [tanh, minus_gaussian, distance]


@pytest.mark.parametrize("kernel", INDEFINITE)
@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(),
        KernelRidge(sketch=SubSample(20), random_state=0),
        KernelRidge(sketch=PSparsified(20), random_state=0),
        KernelMachine(),
        KernelClassifier(),
        KernelBasis(),
        KernelBasis(whiten="eigh"),
    ],
    ids=str,
)
def test_indefinite_kernels_are_detected_and_explained(model, kernel):
    with pytest.raises(ValueError, match=r"not positive semi-definite.*Use another kernel"):
        model.set_params(kernel=kernel).fit(X, LABELS)


def test_indefinite_outputs_are_named():
    with pytest.raises(ValueError, match="Y: The kernel is not positive semi-definite"):
        iokr("gaussian", tanh).fit(X, X)


@pytest.mark.parametrize("rank", [1, 5, 60])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("factorise", [pivoted_cholesky, eigen_whitening, check_definite])
def test_semi_definite_matrices_pass_at_any_scale(factorise, rank, scale):
    B = np.random.default_rng(rank).standard_normal((60, rank))
    factorise(scale * (B @ B.T))


@pytest.mark.parametrize("lowest", [-1.0, -0.01])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("factorise", [pivoted_cholesky, eigen_whitening, check_definite])
def test_one_negative_eigenvalue_is_found(factorise, lowest, scale):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))[0]
    values = np.append(np.geomspace(1.0, 1e-3, 59), lowest)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        factorise(scale * (Q * values) @ Q.T)


def test_a_sketch_of_few_pivots_is_no_reason_to_complain():
    Z = KernelBasis("gaussian", PivotedCholesky(10), random_state=0).fit_transform(X)
    assert Z.shape == (N, 10)
