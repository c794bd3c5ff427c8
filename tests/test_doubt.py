"""Standard deviations against Gaussian processes, intervals against their promise."""

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skout import JointQuantileRegressor, KernelRidge, load, save
from skout.kernels import Gaussian, Polynomial
from skout.metrics import coverage
from skout.regressors.intervals import _kth
from skout.sketches import PSparsified, SubSample

da = extra("dask.array")
N, ALPHA = 90, 2e-3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), 3.0 + X[:, 1] ** 2]) + 0.2 * RNG.standard_normal((N, 2))
NEW = 1.5 * RNG.standard_normal((25, 2))
W = RNG.uniform(0.5, 2.0, N)
KERNEL = Gaussian(0.5)
SKETCHES = {"sub-sample": SubSample(30), "mixed": PSparsified(20)}


def kernel(A, B):
    return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2))


# The exact model ----------------------------------------------------------------------------------


def test_exact_is_the_process_of_scikit_learn():
    model = KernelRidge(KERNEL, alpha=ALPHA).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    assert_allclose(mean, model.predict(NEW), atol=1e-12)
    for j in range(2):
        noise = model.noise_variance_[j]
        amplitude = noise / (N * ALPHA)
        process = GaussianProcessRegressor(
            ConstantKernel(amplitude) * RBF(1.0), alpha=noise, optimizer=None
        ).fit(X, Y[:, j])
        expected = process.predict(NEW, return_std=True)
        assert_allclose(mean[:, j], expected[0], atol=1e-6)
        assert_allclose(std[:, j], expected[1], atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_noise_is_the_error_of_leaving_one_out(intercept):
    y = Y[:40, 1]
    model = KernelRidge(KERNEL, alpha=ALPHA, fit_intercept=intercept).fit(X[:40], y)
    left = []
    for i in range(40):
        rows = np.arange(40) != i
        own = clone(model).set_params(alpha=ALPHA * 40 / 39).fit(X[:40][rows], y[rows])
        left.append(own.predict(X[i : i + 1])[0] - y[i])
    assert_allclose(model.noise_variance_, np.mean(np.square(left)), rtol=1e-8)


def expected_exact(weights, intercept):
    """The variance of y* given y, from the joint covariance; a constant has a huge variance."""
    huge = 1e6 if intercept else 0.0
    n = weights.sum()
    A = kernel(X, X) + huge + np.diag(n * ALPHA / weights)
    k = kernel(NEW, X) + huge
    return 1.0 + huge - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_with_weights_and_intercept(intercept, weighted):
    weights = W if weighted else np.ones(N)
    model = KernelRidge(KERNEL, alpha=ALPHA, fit_intercept=intercept)
    model.fit(X, Y, sample_weight=W if weighted else None)
    _, std = model.predict(NEW, return_std=True)
    scale = model.noise_variance_ / (weights.sum() * ALPHA)
    expected = np.sqrt(expected_exact(weights, intercept)[:, None] * scale)
    assert_allclose(std, expected, rtol=1e-4 if intercept else 1e-9)


def test_equal_rows_and_rows_without_weight():
    rows, y = np.vstack([X, X[:10], X[:5] + 9.0]), np.append(Y[:, 0], np.append(Y[:10, 0], [5] * 5))
    weights = np.append(np.ones(N + 10), np.zeros(5))
    model = KernelRidge(KERNEL, alpha=ALPHA).fit(rows, y, sample_weight=weights)
    _, std = model.predict(NEW, return_std=True)
    used = rows[: N + 10]
    A = kernel(used, used) + (N + 10) * ALPHA * np.eye(N + 10)
    k = kernel(NEW, used)
    v = 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
    assert_allclose(std, np.sqrt(v * model.noise_variance_ / ((N + 10) * ALPHA)), rtol=1e-9)


# Sketched models ----------------------------------------------------------------------------------


def expected_variance(model, rows, weights, intercept, fitc):
    """k - z'z + n alpha z'A^-1 z, with a constant as one more coordinate that has no prior."""
    Z, z = model.basis_.transform(rows), model.basis_.transform(NEW)
    n = weights.sum()
    left = 1.0 - (Z * Z).sum(axis=1)
    w = weights / (1.0 + weights * left / (n * ALPHA)) if fitc else weights
    prior = np.full(Z.shape[1], n * ALPHA)
    residual = 1.0 - (z * z).sum(axis=1)
    if intercept:
        Z, z = (np.column_stack([A, np.ones(len(A))]) for A in (Z, z))
        prior = np.append(prior, 0.0)
    A = Z.T @ (w[:, None] * Z) + np.diag(prior)
    return residual + n * ALPHA * np.einsum("ij,ji->i", z, np.linalg.solve(A, z.T))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_dtc(sketch, intercept, weighted):
    options = {"alpha": ALPHA, "fit_intercept": intercept, "random_state": 0}
    weights = W if weighted else np.ones(N)
    model = KernelRidge(KERNEL, SKETCHES[sketch], **options)
    model.fit(X, Y, sample_weight=W if weighted else None)
    mean, std = model.predict(NEW, return_std=True)
    v = expected_variance(model, X, weights, intercept, False)
    scale = model.noise_variance_ / (weights.sum() * ALPHA)
    assert_allclose(std, np.sqrt(v[:, None] * scale), rtol=1e-6)
    assert_allclose(mean, model.predict(NEW), atol=1e-12)


def test_fitc():
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0, variance="fitc")
    _, std = model.fit(X, Y[:, 0], sample_weight=W).predict(NEW, return_std=True)
    v = expected_variance(model, X, W, False, True)
    scale = model.noise_variance_ / (W.sum() * ALPHA)
    assert_allclose(std, np.sqrt(v * scale), rtol=1e-6)


@pytest.mark.parametrize("holes", [False, True])
def test_fast_is_near_the_variance_it_stands_for(holes, tmp_path):
    rng = np.random.default_rng(0)
    rows, near = rng.standard_normal((2000, 3)), rng.standard_normal((500, 3))
    y = np.column_stack([np.sin(rows[:, 0]), rows[:, 1]]) + 0.1 * rng.standard_normal((2000, 2))
    y[:1000, 1] = np.nan if holes else 0.0
    model = KernelRidge(Gaussian(0.1), SubSample(100), alpha=1e-4, random_state=0, solver="direct")
    both = np.vstack([near, 50.0 + near])
    mean, std = model.fit(rows, y).predict(both, return_std=True)
    found = model.set_params(variance="fast").fit(rows, y).predict(both, return_std=True)
    assert_allclose(found[0], mean, atol=1e-10)
    assert 0.0 < np.quantile(np.abs(found[1] / std - 1.0)[:500], 0.9) < 0.2
    assert_allclose(found[1][500:], std[500:], rtol=1e-6)  # far from all rows: that of the prior
    save(model, tmp_path / "model.skout")
    again = load(tmp_path / "model.skout").predict(both, return_std=True)
    assert_allclose(again, found, rtol=1e-12)
    model.partial_fit(rows, y)  # which does not know the earlier rows: that of all landmarks
    later = model.predict(both, return_std=True)[1]
    model = KernelRidge(Gaussian(0.1), SubSample(100), alpha=1e-4, random_state=0, solver="direct")
    model.fit(rows, y).partial_fit(rows, y)
    assert_allclose(later, model.predict(both, return_std=True)[1], rtol=1e-9)


def test_noise_of_a_sketch_is_generalised_cross_validation():
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0).fit(X, Y)
    Z = model.basis_.transform(X)
    hat = Z @ np.linalg.solve(Z.T @ Z + N * ALPHA * np.eye(Z.shape[1]), Z.T)
    left = Y - hat @ Y
    expected = np.mean(left**2, axis=0) / (1.0 - np.trace(hat) / N) ** 2
    assert_allclose(model.noise_variance_, expected, rtol=1e-8)


def test_a_full_sketch_is_the_exact_model():
    exact = KernelRidge(KERNEL, alpha=ALPHA).fit(X, Y)
    full = KernelRidge(KERNEL, SubSample(N), alpha=ALPHA, random_state=0).fit(X, Y)
    one, other = (
        m.predict(NEW, return_std=True)[1] / np.sqrt(m.noise_variance_) for m in (exact, full)
    )
    assert_allclose(one, other, atol=1e-6)


def test_outputs_with_holes_have_doubts_of_their_own():
    y = Y.copy()
    y[20:, 1] = np.nan
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0)
    _, std = model.fit(X, y).predict(NEW, return_std=True)
    for j, n in ((0, N), (1, 20)):
        own = clone(model).fit(X[:n], Y[:n, j], landmarks=X)
        assert_allclose(std[:, j], own.predict(NEW, return_std=True)[1], rtol=1e-6)


def test_rows_added_later_count():
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0)
    expected = clone(model).fit(X, Y, landmarks=X[:50]).predict(NEW, return_std=True)
    found = model.fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:]).predict(NEW, return_std=True)
    assert_allclose(found[1], expected[1], rtol=1e-8)


@pytest.mark.parametrize("sketch", [None, SubSample(30)])
def test_files_keep_it(sketch, tmp_path):
    model = KernelRidge(KERNEL, sketch, alpha=ALPHA, random_state=0).fit(X, Y)
    model.calibrate(X, Y, cv=3)
    save(model, tmp_path / "model.skout")
    again = load(tmp_path / "model.skout")
    for one, other in zip(
        again.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True
    ):
        assert_allclose(one, other, rtol=1e-12)
    assert_allclose(again.predict_interval(NEW), model.predict_interval(NEW))


def test_a_file_of_a_model_with_holes(tmp_path):
    y = np.where(RNG.random(Y.shape) < 0.3, np.nan, Y)
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0).fit(X, y)
    save(model, tmp_path / "model.skout")
    again = load(tmp_path / "model.skout").partial_fit(X, y)
    assert_allclose(again.predict(NEW), model.partial_fit(X, y).predict(NEW))


def test_other_sources():
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0).fit(X, Y[:, 0])
    expected = model.predict(NEW, return_std=True)
    lazy = model.predict(da.from_array(NEW, chunks=(10, 2)), return_std=True)
    for one, other in zip(lazy, expected, strict=True):
        assert_allclose(one.compute(), other)
    single = model.predict(NEW.astype(np.float32), return_std=True)
    assert_allclose(single[1], expected[1], rtol=1e-4)


def test_kernels_that_are_not_normalised():
    model = KernelRidge(Polynomial(2, gamma=1.0, coef0=1.0), alpha=ALPHA).fit(X, Y[:, 0])
    A, k = (X @ X.T + 1) ** 2 + N * ALPHA * np.eye(N), (NEW @ X.T + 1) ** 2
    v = ((NEW * NEW).sum(axis=1) + 1) ** 2 - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
    expected = np.sqrt(v * model.noise_variance_ / (N * ALPHA))
    assert_allclose(model.predict(NEW, return_std=True)[1], expected, rtol=1e-6)


def test_what_cannot_be_done_is_said():
    fitted = {
        'solver="direct"': KernelRidge(KERNEL, SubSample(20), solver="cg", random_state=0),
        "alpha above 0": KernelRidge(KERNEL, SubSample(20), alpha=0.0, random_state=0),
    }
    for match, model in fitted.items():
        with pytest.raises(ValueError, match=match):
            model.fit(X, Y).predict(NEW, return_std=True)
    y = np.where(RNG.random(Y.shape) < 0.3, np.nan, Y)
    with pytest.raises(ValueError, match="without holes"):
        KernelRidge(KERNEL).fit(X, y).predict(NEW, return_std=True)
    with pytest.raises(ValueError, match="variance"):
        KernelRidge(KERNEL, variance="gp").fit(X, Y)


# Intervals ----------------------------------------------------------------------------------------


def noisy(n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-2, 2, (n, 1))
    noise = rng.standard_normal((n, 2)) * (0.2 + 0.2 * np.abs(rows))
    return rows, np.column_stack([np.sin(2 * rows[:, 0]), rows[:, 0]]) + noise


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("cv", [None, 5])
def test_intervals_hold_what_they_promise(cv, scaled):
    rows, y = noisy(2500, 0)
    model = KernelRidge(Gaussian(1.0), SubSample(40), alpha=1e-4, random_state=0)
    own = (rows, y) if cv else (rows[:500], y[:500])
    given = own if cv else (rows[500:], y[500:])
    model.fit(*own)
    model.calibrate(*given, cv=cv, scaled=scaled)
    new, truth = noisy(4000, 1)
    low, high = model.predict_interval(new, 0.8)
    for j in range(2):
        assert abs(coverage(truth[:, j], low[:, j], high[:, j]) - 0.8) < 0.03
    low, high = model.predict_interval(new, 0.8, joint=True)
    assert abs(np.mean(((low <= truth) & (truth <= high)).all(axis=1)) - 0.8) < 0.03


def test_split_is_a_quantile_of_errors():
    model = KernelRidge(KERNEL, alpha=ALPHA).fit(X[:60], Y[:60, 0])
    model.calibrate(X[60:], Y[60:, 0])
    errors = np.sort(np.abs(model.predict(X[60:]) - Y[60:, 0]))
    low, high = model.predict_interval(NEW, 0.9)
    assert_allclose(high - low, 2 * errors[27])  # the ceil(31 * 0.9) = 28th
    assert_allclose(0.5 * (low + high), model.predict(NEW))
    low, high = model.predict_interval(NEW, 0.99)
    assert np.isinf(low).all()
    assert np.isinf(high).all()


def test_cv_plus_is_a_quantile_over_rows():
    model = KernelRidge(KERNEL, alpha=ALPHA).fit(X, Y[:, 0])
    folds = [(np.flatnonzero(np.arange(N) % 3 != k), np.arange(k, N, 3)) for k in range(3)]
    low, high = model.calibrate(X, Y[:, 0], cv=folds).predict_interval(NEW, 0.9)
    below, above = [], []
    for train, test in folds:
        own = clone(model).fit(X[train], Y[train, 0])
        errors = np.abs(own.predict(X[test]) - Y[test, 0])
        below.append(own.predict(NEW)[:, None] - errors)
        above.append(own.predict(NEW)[:, None] + errors)
    place = 82  # ceil(91 * 0.9)
    assert_allclose(high, np.sort(np.hstack(above), axis=1)[:, place - 1], rtol=1e-9)
    assert_allclose(low, -np.sort(-np.hstack(below), axis=1)[:, place - 1], rtol=1e-9)


def test_holes_in_the_calibration_are_left_out():
    model = KernelRidge(KERNEL, alpha=ALPHA).fit(X[:60], Y[:60])
    y = Y[60:].copy()
    y[10:, 1] = np.nan
    low, high = model.calibrate(X[60:], y).predict_interval(NEW, 0.8)
    errors = np.sort(np.abs(model.predict(X[60:70]) - Y[60:70])[:, 1])
    assert_allclose((high - low)[:, 1], 2 * errors[8])


def test_kth_smallest_of_shifted_lists():
    lists = [np.sort(RNG.random(7)), np.sort(RNG.random(4)), np.zeros(0)]
    shifts, scale = RNG.standard_normal((3, 6)), RNG.uniform(1, 2, (3, 6))
    for k in (1, 5, 11):
        for i, found in enumerate(_kth(shifts, scale, lists, k)):
            all_of_them = [shifts[j, i] + scale[j, i] * one for j, one in enumerate(lists)]
            assert_allclose(found, np.sort(np.concatenate(all_of_them))[k - 1], atol=1e-12)
    assert np.isinf(_kth(shifts, scale, lists, 12)).all()


def test_mistakes_with_intervals():
    model = KernelRidge(KERNEL, alpha=ALPHA)
    with pytest.raises(NotFittedError):
        model.calibrate(X, Y)
    with pytest.raises(NotFittedError, match="call `calibrate`"):
        model.fit(X, Y).predict_interval(NEW)
    with pytest.raises(ValueError, match="like that of fit"):
        model.calibrate(X, Y[:, 0])
    with pytest.raises(ValueError, match="coverage must lie"):
        model.calibrate(X, Y).predict_interval(NEW, 1.0)
    model.fit(X, Y)  # errors of another model
    with pytest.raises(NotFittedError):
        model.predict_interval(NEW)


# Quantiles at any level ---------------------------------------------------------------------------


def test_other_levels_lie_between_and_do_not_cross():
    model = JointQuantileRegressor([0.9, 0.1, 0.5], Gaussian(1.0), alpha=1e-3).fit(X, Y[:, 0])
    known = model.predict(NEW)
    assert_allclose(model.predict(NEW, [0.1, 0.5, 0.9]), known[:, [1, 2, 0]])
    between = model.predict(NEW, 0.3)
    assert np.all((known[:, 1] <= between) & (between <= known[:, 2]))
    levels = np.linspace(0.1, 0.9, 17)
    assert np.all(np.diff(model.predict(NEW, levels), axis=1) >= 0.0)
    free = clone(model).set_params(gamma_quantiles=100.0).fit(X[:15], Y[:15, 0])
    assert np.all(np.diff(free.predict(3 * NEW, levels), axis=1) >= 0.0)
    low, high = model.predict_interval(NEW, 0.4)
    assert_allclose(np.column_stack([low, high]), model.predict(NEW, [0.3, 0.7]))
    with pytest.raises(ValueError, match=r"between those of the fit, 0.1 and 0.9"):
        model.predict(NEW, 0.95)
    one = JointQuantileRegressor(0.5, Gaussian(1.0)).fit(X, Y[:, 0])
    assert_allclose(one.predict(NEW, [0.5])[:, 0], one.predict(NEW))
