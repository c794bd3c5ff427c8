"""Standard deviations against Gaussian processes, intervals against their promise."""

import functools

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose
from scipy.linalg import null_space
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skout import JointQuantileRegressor, KernelRidge, load, save
from skout.kernels import Gaussian, Polynomial
from skout.metrics import coverage
from skout.persistence.files import read_file, write_file
from skout.regressors.intervals import _kth
from skout.sketches import PSparsified, SubSample
from skout.sources import Blocks

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
    P = np.linalg.inv(kernel(X, X) + N * ALPHA * np.eye(N))
    amplitude = np.mean((P @ Y) ** 2 / np.diag(P)[:, None], axis=0)
    for j in range(2):
        process = GaussianProcessRegressor(
            ConstantKernel(amplitude[j]) * RBF(1.0), alpha=N * ALPHA * amplitude[j], optimizer=None
        ).fit(X, Y[:, j])
        expected = process.predict(NEW, return_std=True)
        assert_allclose(mean[:, j], expected[0], rtol=1e-5, atol=1e-6)
        assert_allclose(std[:, j], expected[1], rtol=1e-5)
        assert_allclose(model.noise_variance_[j], process.alpha, rtol=1e-9)


def posterior(K, k, diagonal, noise, y, intercept):
    """Mean and variance of f given y, covariance K, noise a row; a constant has a huge variance."""
    huge = 1e6 if intercept else 0.0
    solved = np.linalg.solve(K + huge + np.diag(noise), np.column_stack([y, (k + huge).T]))
    cross = solved[:, -len(k) :]
    return (k + huge) @ solved[:, : -len(k)], diagonal + huge - ((k + huge).T * cross).sum(axis=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_with_weights_and_intercept(intercept, weighted):
    weights = W if weighted else np.ones(N)
    model = KernelRidge(KERNEL, alpha=ALPHA, fit_intercept=intercept)
    model.fit(X, Y, sample_weight=3.0 * W if weighted else None)  # what all share does not matter
    mean, std = model.predict(NEW, return_std=True)
    scale = model.noise_variance_ / (N * ALPHA)
    noise = weights.sum() * ALPHA / weights
    f, v = posterior(kernel(X, X), kernel(NEW, X), 1.0, noise, Y, intercept)
    assert_allclose(mean, f, atol=1e-4 if intercept else 1e-9)
    assert_allclose(std, np.sqrt(np.outer(v, scale)), rtol=1e-4 if intercept else 1e-9)
    # errors of rows that are left out, in units of their standard deviation
    squares = []
    for i in range(N):
        rest = np.arange(N) != i
        own = kernel(X[rest], X[rest]), kernel(X[i : i + 1], X[rest]), 1.0, noise[rest]
        f, v = posterior(*own, Y[rest], intercept)
        squares.append((Y[i] - f[0]) ** 2 / (v[0] + noise[i]) / scale)
    assert_allclose(np.average(squares, axis=0, weights=weights), 1.0, rtol=1e-4)


def test_equal_rows_and_rows_without_weight():
    rows, y = np.vstack([X, X[:10], X[:5] + 9.0]), np.append(Y[:, 0], np.append(Y[:10, 0], [5] * 5))
    weights = np.append(np.ones(N + 10), np.zeros(5))
    used, n = rows[: N + 10], N + 10
    A = kernel(used, used) + n * ALPHA * np.eye(n)
    k = kernel(NEW, used)
    v = 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
    for sketch in (None, SubSample(N)):
        model = KernelRidge(KERNEL, sketch, alpha=ALPHA, random_state=0)
        model.fit(rows, y, sample_weight=weights, **({"landmarks": X} if sketch else {}))
        _, std = model.predict(NEW, return_std=True)
        assert_allclose(std, np.sqrt(v * model.noise_variance_ / (n * ALPHA)), rtol=1e-6)
    scale = y[:n] @ np.linalg.solve(A, y[:n]) / n
    assert_allclose(model.noise_variance_, scale * n * ALPHA, rtol=1e-8)


# The scale ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1.0, 0.1, 0.01, 1e-4])
@pytest.mark.parametrize(
    ("sketch", "variance"), [(None, "dtc"), (SubSample(250), "dtc"), (SubSample(250), "fitc")]
)
def test_deviations_are_those_of_the_process_that_drew_the_targets(sketch, variance, noise):
    rng, n = np.random.default_rng(0), 250
    rows = rng.uniform(-3, 3, (n + 30, 2))
    K = kernel(rows, rows)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ rng.standard_normal((len(K), 400))
    y = f + np.sqrt(noise) * rng.standard_normal(f.shape)
    model = KernelRidge(KERNEL, sketch, alpha=noise / n, variance=variance, random_state=0)
    mean, std = model.fit(rows[:n], y[:n]).predict(rows[n:], return_std=True)
    v = posterior(K[:n, :n], K[n:, :n], 1.0, np.full(n, noise), y[:n], False)[1]
    assert_allclose(np.mean(std / np.sqrt(v)[:, None]), 1.0, atol=0.01)
    assert_allclose(np.mean(model.noise_variance_), noise, rtol=0.02)
    inside = np.abs(f[n:] - mean) <= 1.6449 * std
    assert 0.89 < np.mean(inside) < 0.91


# Sketched models ----------------------------------------------------------------------------------


def dense(model, rows, weights, fitc):
    """Covariance of rows, of new rows with them, and noise a row, in units of s^2: DTC or FITC."""
    Z, z = model.basis_.transform(rows), model.basis_.transform(NEW)
    noise = weights.sum() * ALPHA / weights
    return Z @ Z.T, z @ Z.T, noise + (1.0 - (Z * Z).sum(axis=1)) * fitc


def likely_scale(S, y, intercept):
    """s^2 of the largest likelihood of y ~ N(b, s^2 S), of contrasts without b if there is one."""
    contrasts = null_space(np.ones((1, len(y)))) if intercept else np.eye(len(y))
    t, S = contrasts.T @ y, contrasts.T @ S @ contrasts
    scale = t @ np.linalg.solve(S, t) / len(t)
    best, *others = (
        multivariate_normal(cov=a * scale * S, allow_singular=True).logpdf(t)
        for a in (1.0, 0.98, 1.02)
    )
    assert best > max(others)
    return scale


@pytest.mark.parametrize("variance", ["dtc", "fitc"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_sketched(sketch, intercept, weighted, variance):
    options = {"alpha": ALPHA, "fit_intercept": intercept, "random_state": 0, "variance": variance}
    weights = W if weighted else np.ones(N)
    model = KernelRidge(KERNEL, SKETCHES[sketch], **options)
    model.fit(X, Y, sample_weight=3.0 * W if weighted else None)
    mean, std = model.predict(NEW, return_std=True)
    K, k, noise = dense(model, X, weights, variance == "fitc")
    f, v = posterior(K, k, 1.0, noise, Y, intercept)
    scale = np.array([likely_scale(K + np.diag(noise), y, intercept) for y in Y.T])
    assert_allclose(mean, f, atol=1e-4 if intercept else 1e-8)
    assert_allclose(model.predict(NEW), mean, atol=1e-12)
    assert_allclose(std, np.sqrt(np.outer(v, scale)), rtol=1e-4 if intercept else 1e-6)
    assert_allclose(model.noise_variance_, scale * N * ALPHA, rtol=1e-6)
    assert model.alpha_ == ALPHA


def test_fitc_on_the_alpha_that_was_chosen():
    alphas = [1e-1, ALPHA, 1e-6]
    model = KernelRidge(KERNEL, SubSample(30), alpha=alphas, random_state=0, variance="fitc")
    chosen = model.fit(X, Y).alpha_
    plain = clone(model).set_params(variance="dtc").fit(X, Y)
    assert chosen == plain.alpha_
    assert_allclose(model.cv_results_["mean_loss"], plain.cv_results_["mean_loss"])
    single = clone(model).set_params(alpha=chosen).fit(X, Y)
    assert_allclose(model.predict(NEW), single.predict(NEW), atol=1e-9)
    assert np.abs(model.predict(NEW) - plain.predict(NEW)).max() > 1e-3


def test_a_full_sketch_is_the_exact_model():
    exact = KernelRidge(KERNEL, alpha=ALPHA).fit(X, Y)
    full = KernelRidge(KERNEL, SubSample(N), alpha=ALPHA, random_state=0).fit(X, Y)
    one, other = (
        m.predict(NEW, return_std=True)[1] / np.sqrt(m.noise_variance_) for m in (exact, full)
    )
    assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_weighted_outputs_with_missing_targets_count_their_own_rows(intercept):
    y = Y.copy()
    y[20:, 1] = np.nan
    options = {"alpha": ALPHA, "random_state": 0, "fit_intercept": intercept}
    model = KernelRidge(KERNEL, SubSample(30), **options).fit(X, y, sample_weight=W)
    std = model.predict(NEW, return_std=True)[1]
    for j, n in ((0, N), (1, 20)):
        own = clone(model).fit(X[:n], Y[:n, j], landmarks=X, sample_weight=5.0 * W[:n])
        assert_allclose(std[:, j], own.predict(NEW, return_std=True)[1], rtol=1e-6)
        assert_allclose(model.noise_variance_[j], own.noise_variance_[0], rtol=1e-6)
        K, _, noise = dense(own, X[:n], W[:n], False)
        scale = likely_scale(K + np.diag(noise), Y[:n, j], intercept)
        assert_allclose(model.noise_variance_[j], scale * n * ALPHA, rtol=1e-6)


def test_rows_added_later_count():
    model = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0)
    expected = clone(model).fit(X, Y, landmarks=X[:50]).predict(NEW, return_std=True)
    found = model.fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:]).predict(NEW, return_std=True)
    assert_allclose(found[1], expected[1], rtol=1e-8)


@pytest.mark.parametrize(
    ("sketch", "variance"), [(None, "dtc"), (SubSample(30), "dtc"), (SubSample(30), "fitc")]
)
def test_files_keep_it(sketch, variance, tmp_path):
    model = KernelRidge(KERNEL, sketch, alpha=ALPHA, random_state=0, variance=variance)
    model.fit(X, Y, sample_weight=2.0 * W)
    model.calibrate(X, Y, cv=3)
    save(model, tmp_path / "model.skout")
    again = load(tmp_path / "model.skout")
    for one, other in zip(
        again.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True
    ):
        assert_allclose(one, other, rtol=1e-12)
    assert_allclose(again.predict_interval(NEW), model.predict_interval(NEW))


@pytest.mark.parametrize("variance", ["fast", "fitc"])
def test_files_of_earlier_versions_load_as_dtc(variance, tmp_path):
    expected = KernelRidge(KERNEL, SubSample(30), alpha=ALPHA, random_state=0).fit(X, Y)
    model = clone(expected).fit(X, Y)
    # as it was saved; rows were not counted
    model.variance, model._fitc, kept = variance, None, model._kept
    model._matrix, model._base, model._n_outputs = kept.matrix, kept.moments, 3
    del model._base.count, model._kept
    save(model, tmp_path / "new.skout")
    header, arrays = read_file(tmp_path / "new.skout")
    write_file(tmp_path / "model.skout", arrays, {"version": "1", "about": header["about"]})
    again = load(tmp_path / "model.skout")
    assert again.variance == "dtc"
    assert_allclose(again.predict(NEW, return_std=True), expected.predict(NEW, return_std=True))
    for fitted in (again, expected):
        fitted.partial_fit(X[:20], Y[:20])
    assert_allclose(again.predict(NEW, return_std=True), expected.predict(NEW, return_std=True))


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


@pytest.mark.parametrize("variance", ["dtc", "fitc"])
def test_fits_on_other_sources(variance, tmp_path):
    model = KernelRidge(
        KERNEL, SubSample(30), alpha=ALPHA, fit_intercept=True, variance=variance, random_state=0
    )
    landmarks = {"landmarks": X[:40]}
    expected = model.fit(X, Y, sample_weight=W, **landmarks).predict(NEW, return_std=True)
    parts = np.array_split(np.arange(N), 4)
    np.save(tmp_path / "X.npy", X)
    given = {
        "memory map": (np.load(tmp_path / "X.npy", mmap_mode="r"), Y, W),
        "dask": tuple(da.from_array(A, chunks=(30, *A.shape[1:])) for A in (X, Y, W)),
        "blocks": (Blocks(lambda: ((X[i], Y[i], W[i]) for i in parts)), None, None),
    }
    for rows, y, weights in given.values():
        found = clone(model).fit(rows, y, sample_weight=weights, **landmarks)
        assert_allclose(found.predict(NEW, return_std=True), expected, rtol=1e-7)


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
    with pytest.raises(ValueError, match="without missing targets"):
        KernelRidge(KERNEL).fit(X, y).predict(NEW, return_std=True)
    with pytest.raises(ValueError, match="variance must be one of 'dtc', 'fitc'"):
        KernelRidge(KERNEL, variance="fast").fit(X, Y)
    one = KernelRidge(KERNEL, SubSample(1), fit_intercept=True, random_state=0)
    y = Y.copy()
    y[1:, 1] = np.nan
    with pytest.raises(ValueError, match="two rows of each output"):
        one.fit(X, y).predict(NEW, return_std=True)


def test_what_fitc_cannot_do_is_said_before_it_predicts_something_else():
    model = KernelRidge(KERNEL, SubSample(20), random_state=0, variance="fitc")
    y = np.where(RNG.random(Y.shape) < 0.3, np.nan, Y)
    for match, changed, targets in (
        ("alpha=0", {"alpha": [1e-3, 0.0]}, Y),
        ('solver="cg"', {"solver": "cg"}, Y),
        ("task_matrix", {"task_matrix": np.eye(2)}, Y),
        ("missing targets", {}, y),
        ("missing targets", {}, da.from_array(y, chunks=(30, 2))),
    ):
        rows = da.from_array(X, chunks=(30, 2)) if targets is not y and match[0] == "m" else X
        with pytest.raises(ValueError, match=match):
            clone(model).set_params(**changed).fit(rows, targets)
    with pytest.raises(ValueError, match="partial_fit"):
        clone(model).partial_fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit"):
        model.fit(X, Y).set_params(variance="dtc").partial_fit(X, Y)
    with pytest.raises(ValueError, match="read only once"):
        model.set_params(variance="fitc").fit(Blocks(iter([(X, Y)])), landmarks=X)


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


@functools.cache
def nothing(d):
    """A model that predicts 0."""
    return KernelRidge(KERNEL, alpha=1.0).fit(X, np.zeros((N, d)))


def calibrated(errors, new):
    """Intervals of some new rows where these are the errors in the calibration."""
    model = nothing(errors.shape[1]).calibrate(X[: len(errors)], errors)
    return model.predict_interval(X[:new], 0.9, joint=True)


@pytest.mark.parametrize("n", [9, 19, 79])
def test_joint_boxes_hold_what_they_promise(n):
    rng, held = np.random.default_rng(0), []
    for _ in range(200):
        low, high = calibrated(rng.standard_normal((n, 10)), 1)
        truth = rng.standard_normal((100, 10))
        held.append(np.mean(((low <= truth) & (truth <= high)).all(axis=1)))
    assert np.mean(held) + 2.0 * np.std(held) / 200**0.5 > 0.9
    assert np.mean(held) < 0.96


def test_a_joint_box_has_all_errors_that_are_not_among_the_largest():
    rng, inside = np.random.default_rng(1), 0
    for _ in range(30):
        errors = np.abs(rng.standard_t(2, (19, 3)))
        high = calibrated(errors, 1)[1][0]
        for new in np.abs(rng.standard_t(2, (100, 3))):
            rows = np.vstack([errors, new])  # the definition, which no row plays a special part in
            scores = (rows / np.sort(rows, axis=0)[9]).max(axis=1)  # the 10th of 20: a median
            if np.sum(scores[:-1] < scores[-1]) < 18:  # ceil(20 * 0.9)
                inside += 1
                assert (new <= high).all()
    assert inside > 2500


def test_joint_boxes_of_few_rows_exact_predictions_and_missing_targets():
    errors = RNG.standard_normal((30, 3))
    assert np.isinf(calibrated(errors[:8], 2)).all()  # 9 rows for 0.9
    assert np.isfinite(calibrated(errors[:9], 2)).all()
    holed = errors.copy()
    holed[:9, 0] = np.nan  # 21 rows that have all outputs
    assert np.isfinite(calibrated(holed, 2)).all()
    holed[:22, 0] = np.nan
    assert np.isinf(calibrated(holed, 2)).all()
    errors[:, 1] = 0.0
    low, high = calibrated(errors, 2)
    assert np.all(high[:, 1] == 0.0)
    assert np.all((high - low)[:, [0, 2]] > 0.0)
    one = calibrated(errors[:, :1], 2)[1]
    assert_allclose(one, np.sort(np.abs(errors[:, 0]))[27])  # the ceil(31 * 0.9) = 28th


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
