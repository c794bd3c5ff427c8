"""JointQuantileRegressor against scikit-learn, single levels and what quantiles are."""

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold

from skout import JointQuantileRegressor, KernelMachine, quantile_task_matrix
from skout.kernels import Gaussian, Linear
from skout.losses import Pinball
from skout.sketches import PSparsified, SubSample

pd = extra("pandas")

LEVELS = [0.1, 0.5, 0.9]


def data(n=80, seed=0):
    """Noise that grows with x: quantiles that are not parallel."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + (0.1 + 0.3 * X[:, 0]) * rng.standard_normal(n)


def joint(quantiles=LEVELS, sketch=None, alpha=1e-3, gamma=1.0, **params):
    settings = {"tol": 1e-6, "random_state": 0, **params}
    return JointQuantileRegressor(
        quantiles, Gaussian(2.0), sketch, alpha=alpha, gamma_quantiles=gamma, **settings
    )


def pinball(y, F, levels):
    """Mean over rows, sum over levels."""
    columns = zip(F.T, levels, strict=True)
    return sum(mean_pinball_loss(y, f, alpha=float(tau)) for f, tau in columns)


# What is minimised -------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.9])
def test_unpenalised_linear_model_is_that_of_scikit_learn(tau):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((101, 3))
    y = X @ [1.0, -2.0, 0.0] + 3.0 + rng.standard_exponential(101)
    theirs = QuantileRegressor(quantile=tau, alpha=0.0, solver="highs").fit(X, y)
    ours = JointQuantileRegressor(tau, Linear(), alpha=1e-9, tol=1e-6).fit(X, y)
    least = mean_pinball_loss(y, theirs.predict(X), alpha=tau)
    assert_allclose(mean_pinball_loss(y, ours.predict(X), alpha=tau), least, rtol=1e-5)
    assert_allclose(ours.objective_, least, rtol=1e-5)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=0.02)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_it_is_a_machine_with_a_task_matrix(sketch, gamma):
    X, y = data()
    ours = joint(sketch=sketch, gamma=gamma, non_crossing=False).fit(X, y)
    M = quantile_task_matrix(LEVELS, gamma)
    params = {"fit_intercept": True, "tol": 1e-6, "random_state": 0}
    machine = KernelMachine(
        Gaussian(2.0), sketch, loss=Pinball(LEVELS), alpha=1e-3, task_matrix=M, **params
    )
    machine.fit(X, np.column_stack([y] * 3))
    assert_allclose(ours.predict(X), machine.predict(X), rtol=1e-10)
    assert ours.objective_ == machine.objective_
    # the loss plus a penalty: alpha/2 tr(C M^+ C'), C the coefficients in coordinates
    penalty = 1e-3 / 2 * np.sum(ours.coef_ @ np.linalg.pinv(M) * ours.coef_)
    assert_allclose(ours.objective_, pinball(y, ours.predict(X), LEVELS) + penalty, rtol=1e-6)


def test_no_distance_between_levels_makes_curves_parallel():
    X, y = data()
    model = joint(gamma=0.0, tol=1e-4).fit(X, y)
    F = model.predict(X)
    assert_allclose(F - F[:, :1], np.broadcast_to(F[0] - F[0, 0], F.shape), atol=1e-8)
    assert np.ptp(F[:, 0]) > 0.5
    assert np.all(np.diff(F[0]) > 0.1)
    bent = joint(gamma=10.0, tol=1e-4).fit(X, y).predict(X)
    assert np.ptp(bent[:, 2] - bent[:, 0]) > 0.5


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_distant_levels_are_independent(sketch):
    X, y = data()
    model = joint(sketch=sketch, gamma=1e4, non_crossing=False).fit(X, y)
    alone = [joint(tau, sketch).fit(X, y) for tau in LEVELS]
    assert_allclose(model.objective_, sum(one.objective_ for one in alone), rtol=2e-6)
    # alpha/2 ||f - f*||^2 <= tol times the objective, of each
    atol = 2 * np.sqrt(2 * 1e-6 * model.objective_ / 1e-3)
    f = model.predict(X) - model.intercept_
    expected = np.column_stack([one.predict(X) - one.intercept_ for one in alone])
    assert_allclose(f, expected, atol=atol)
    assert np.abs(joint(gamma=1.0, sketch=sketch).fit(X, y).predict(X) - model.predict(X)).max() > (
        2 * atol
    )


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_share_of_targets_below(tau):
    X, y = data(200)
    f = joint(tau, alpha=1e-2).fit(X, y).predict(X)
    assert np.mean(y < f - 1e-3) <= tau <= np.mean(y <= f + 1e-3)


def test_coverage_of_new_rows():
    X, y = data(600)
    X_te, y_te = data(4000, seed=1)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    model = joint(levels, SubSample(40), 1e-3, gamma=5.0, tol=1e-4).fit(X, y)
    below = (y_te[:, None] <= model.predict(X_te)).mean(axis=0)
    assert_allclose(below, levels, atol=0.05)
    for coverage in (0.5, 0.9):
        lower, upper = model.predict_interval(X_te, coverage)
        assert_allclose(np.mean((lower <= y_te) & (y_te <= upper)), coverage, atol=0.06)
    # and not only on average: for small and for large x
    lower, upper = model.predict_interval(X_te, 0.9)
    for part in (X_te[:, 0] < 1, X_te[:, 0] > 2):
        inside = np.mean((lower <= y_te)[part] & (y_te <= upper)[part])
        assert_allclose(inside, 0.9, atol=0.08)


# Crossing ----------------------------------------------------------------------------------------


def crossing(quantiles, **params):
    """A model whose curves cross: levels apart, little penalty, few rows."""
    X, y = data(40)
    model = joint(quantiles, **{"alpha": 1e-5, "gamma": 1e4, "tol": 1e-4, **params}).fit(X, y)
    return model, np.linspace(-0.5, 3.5, 200)[:, None]


def test_sorted_curves_do_not_cross():
    levels = [0.3, 0.4, 0.5, 0.6]
    raw, grid = crossing(levels, non_crossing=False)
    F = raw.predict(grid)
    assert np.diff(F, axis=1).min() < -0.01
    neat, _ = crossing(levels)
    assert np.diff(neat.predict(grid), axis=1).min() >= 0.0
    assert_array_equal(neat.predict(grid), np.sort(F, axis=1))
    assert_array_equal(neat.coef_, raw.coef_)


def test_sorting_never_increases_the_loss():
    levels = [0.3, 0.4, 0.5, 0.6]
    raw, grid = crossing(levels, non_crossing=False)
    neat, _ = crossing(levels)
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(50):
        y = 2 * rng.standard_normal(200)
        gains.append(pinball(y, raw.predict(grid), levels) - pinball(y, neat.predict(grid), levels))
    assert min(gains) >= -1e-12
    assert max(gains) > 1e-4


def test_columns_keep_the_order_of_the_levels():
    X, y = data()
    expected = joint([0.1, 0.4, 0.5, 0.9], tol=1e-6).fit(X, y)
    order = [2, 0, 3, 1]
    model = joint([0.5, 0.1, 0.9, 0.4], tol=1e-6).fit(X, y)
    assert_array_equal(model.quantiles_, [0.5, 0.1, 0.9, 0.4])
    atol = 2 * np.sqrt(2 * 1e-6 * model.objective_ / 1e-3)
    assert_allclose(model.predict(X), expected.predict(X)[:, order], atol=atol)
    assert np.all(np.diff(model.predict(X)[:, [1, 3, 0, 2]], axis=1) >= 0.0)
    assert_allclose(model.score(X, y), expected.score(X, y), atol=1e-3)
    for ours, theirs in zip(
        model.predict_interval(X, 0.6), expected.predict_interval(X, 0.6), strict=True
    ):
        assert_allclose(ours, theirs, atol=atol)


# Intervals ---------------------------------------------------------------------------------------


def test_interval_between_fitted_levels():
    X, y = data()
    model = joint([0.1, 0.3, 0.7, 0.9], tol=1e-4).fit(X, y)
    F = model.predict(X)
    for coverage, (i, j) in {0.8: (0, 3), 0.4: (1, 2)}.items():
        for found, end in zip(model.predict_interval(X, coverage), (F[:, i], F[:, j]), strict=True):
            assert found.shape == (80,)
            assert_allclose(found, end, atol=1e-9, err_msg=str(coverage))
    for coverage in (0.6, 0.5, 0.2):
        ends = model.predict(X, quantiles=[(1 - coverage) / 2, (1 + coverage) / 2])
        assert_allclose(np.transpose(model.predict_interval(X, coverage)), ends, atol=1e-9)
    assert_array_equal(model.predict_interval(X), model.predict_interval(X, 0.8))


# Any level ---------------------------------------------------------------------------------------


def by_representer(model, X, X_new, tau):
    """f(x)(tau) = sum_j M(tau, tau_j) sum_i k(x, x_i) a_ij + b(tau), by the formula."""
    levels, gamma = model.quantiles_, model.gamma_quantiles
    M = np.exp(-gamma * np.subtract.outer(levels, levels) ** 2)
    K, K_new = (Gaussian(2.0)(some, X) for some in (X, X_new))
    f = model.basis_.transform(X) @ model.coef_
    A = np.linalg.lstsq(K, f, rcond=1e-13)[0] @ np.linalg.inv(M)
    order = np.argsort(levels)
    b = np.interp(tau, levels[order], model.intercept_[order])
    return K_new @ A @ np.exp(-gamma * (levels - tau) ** 2) + b


@pytest.mark.parametrize("levels", [[0.1, 0.5, 0.9], [0.9, 0.3, 0.1, 0.6]], ids=str)
def test_a_new_level_is_the_formula_of_the_representer(levels):
    X, y = data()
    X_new = data(50, seed=1)[0]
    model = joint(levels, gamma=3.0, alpha=1e-2, non_crossing=False).fit(X, y)
    wanted = [0.5, 0.2, 0.88, 0.1]
    found = model.predict(X_new, quantiles=wanted)
    expected = np.column_stack([by_representer(model, X, X_new, tau) for tau in wanted])
    assert_allclose(found, expected, atol=1e-5)
    F = model.predict(X_new)
    for tau in set(wanted) & set(levels):
        assert_allclose(found[:, wanted.index(tau)], F[:, levels.index(tau)], atol=1e-12)
    lines = np.apply_along_axis(lambda f: np.interp(0.2, *_sorted(levels, f)), 1, F)
    assert np.abs(found[:, 1] - lines).max() > 1e-3  # no interpolation
    assert_allclose(model.predict(X_new, quantiles=0.2), found[:, 1], atol=1e-12)


def _sorted(levels, f):
    order = np.argsort(levels)
    return np.array(levels)[order], f[order]


def test_new_levels_lie_between_those_of_the_fit():
    model, grid = crossing([0.3, 0.4, 0.5, 0.6], gamma=300.0)
    F = model.predict(grid)
    many = np.linspace(0.3, 0.6, 61)
    found = model.predict(grid, quantiles=many[::-1])[:, ::-1]
    assert np.diff(found, axis=1).min() >= 0.0
    assert_allclose(found[:, ::20], F, atol=1e-12)
    raw, _ = crossing([0.3, 0.4, 0.5, 0.6], gamma=300.0, non_crossing=False)
    assert np.diff(raw.predict(grid, quantiles=many), axis=1).min() < -1e-3


def test_a_level_that_the_kernel_does_not_know_is_interpolated():
    X, y = data()
    model = joint(LEVELS, gamma=1e4, tol=1e-3, non_crossing=False).fit(X, y)
    F = model.predict(X)
    assert_allclose(model.predict(X, quantiles=0.2), 0.75 * F[:, 0] + 0.25 * F[:, 1], atol=1e-9)


def test_levels_left_out_are_predicted_as_well_as_by_interpolation():
    X, y = data(300)
    X_te, y_te = data(3000, seed=1)
    known, left_out = [0.1, 0.3, 0.5, 0.7, 0.9], [0.2, 0.4, 0.6, 0.8]
    model = joint(known, alpha=1e-3, gamma=2.0, tol=1e-4).fit(X, y)
    F = model.predict(X_te)
    lines = (F[:, 1:] + F[:, :-1]) / 2
    ours = pinball(y_te, model.predict(X_te, quantiles=left_out), left_out)
    assert ours <= 1.002 * pinball(y_te, lines, left_out)


def test_all_levels_minimise_the_integral_of_the_loss():
    X, y = data()
    model = joint("all", alpha=1e-2, tol=1e-5, non_crossing=False).fit(X, y)
    tau, w = np.polynomial.legendre.leggauss(20)
    tau, w = (tau + 1) / 2, w / 2
    assert_allclose(model.quantiles_, tau)
    F = model.predict(X)
    assert F.shape == (80, 20)
    penalty = (
        1e-2
        / 2
        * np.sum(
            model.coef_ @ np.linalg.pinv(quantile_task_matrix(tau, 1.0), rcond=1e-14) * model.coef_
        )
    )
    losses = [mean_pinball_loss(y, f, alpha=t) for f, t in zip(F.T, tau, strict=True)]
    assert_allclose(model.objective_, w @ losses + penalty, rtol=1e-4)
    # a finer grid gives the same integral: half the continuous ranked probability score
    fine = (np.arange(500) + 0.5) / 500
    curve = model.predict(X, quantiles=fine)
    assert_allclose(pinball(y, curve, fine) / 500, w @ losses, rtol=0.01)
    best = np.quantile(y, tau, method="inverted_cdf")
    worst = w @ [
        mean_pinball_loss(y, np.full(80, c), alpha=t) for c, t in zip(best, tau, strict=True)
    ]
    assert_allclose(model.score(X, y), 1 - w @ losses / worst, rtol=1e-6)


def test_all_levels_cover():
    X, y = data(400)
    X_te, y_te = data(3000, seed=1)
    model = joint("all", SubSample(30), alpha=1e-3, tol=1e-3).fit(X, y)
    levels = np.array([0.001, 0.05, 0.123, 0.5, 0.77, 0.95, 0.999])
    below = (y_te[:, None] <= model.predict(X_te, quantiles=levels)).mean(axis=0)
    assert_allclose(below, levels, atol=0.05)
    lower, upper = model.predict_interval(X_te, 0.99)
    assert np.mean((lower <= y_te) & (y_te <= upper)) > 0.95


def test_interval_of_levels_made_by_arithmetic():
    X, y = data()
    model = joint(np.arange(1, 10) / 10, tol=1e-3, alpha=1e-1).fit(X, y)
    F = model.predict(X)
    for k, coverage in enumerate([0.8, 0.6, 0.4, 0.2]):
        lower, upper = model.predict_interval(X, coverage)
        assert_allclose(lower, F[:, k], atol=1e-9)
        assert_allclose(upper, F[:, 8 - k], atol=1e-9)


@pytest.mark.parametrize(
    ("coverage", "error", "message"),
    [
        (0.0, ValueError, r"coverage must lie between 0 and 1. Got 0.0"),
        (1.0, ValueError, r"coverage must lie between 0 and 1. Got 1.0"),
        (1.5, ValueError, r"coverage must lie between 0 and 1. Got 1.5"),
        (-0.5, ValueError, r"coverage must be a finite number >= 0. Got -0.5"),
        (np.nan, ValueError, r"coverage must be a finite number >= 0. Got nan"),
        ("0.8", TypeError, r"coverage must be a finite number >= 0. Got '0.8'"),
        (
            0.9,
            ValueError,
            r"coverage=0.9 needs the quantiles 0.05 and 0.95, but the model has 0.1 to 0.9. Fit "
            "with quantiles that reach further",
        ),
    ],
    ids=str,
)
def test_bad_coverage(coverage, error, message):
    X, y = data()
    model = joint(tol=1e-2, alpha=0.1).fit(X, y)
    with pytest.raises(error, match=message):
        model.predict_interval(X, coverage)


def test_one_level_has_no_interval():
    X, y = data()
    with pytest.raises(ValueError, match=r"but the model has 0.5 to 0.5"):
        joint(0.5, tol=1e-2).fit(X, y).predict_interval(X, 0.5)
    with pytest.raises(ValueError, match=r"needs the quantiles 0.1 and 0.9, but .* 0.5 to 0.9"):
        joint([0.5, 0.9], tol=1e-2).fit(X, y).predict_interval(X, 0.8)


# Score -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantiles", [0.3, LEVELS, [0.9, 0.5, 0.1]], ids=str)
def test_constants_score_zero(quantiles):
    X, y = data(81)
    model = joint(quantiles, alpha=1e6).fit(X, y)
    assert abs(model.score(X, y)) < 1e-4
    better = joint(quantiles, alpha=1e-3, tol=1e-4).fit(X, y)
    assert 0.1 < better.score(X, y) < 1.0


def test_score_is_the_share_of_loss_explained():
    X, y = data(81)
    model = joint(tol=1e-3).fit(X, y)
    constants = np.column_stack([np.full(81, np.sort(y)[int(81 * tau)]) for tau in LEVELS])
    expected = 1 - pinball(y, model.predict(X), LEVELS) / pinball(y, constants, LEVELS)
    assert_allclose(model.score(X, y), expected, rtol=1e-10)
    assert_allclose(model.score(X, y[:, None]), expected, rtol=1e-10)


def test_score_with_weights_is_that_of_repetitions():
    X, y = data()
    model = joint(tol=1e-3).fit(X, y)
    w = np.arange(80) % 3
    kept = np.repeat(np.arange(80), w)
    assert_allclose(model.score(X, y, w), model.score(X[kept], y[kept]), rtol=1e-10)
    assert abs(model.score(X, y, w) - model.score(X, y)) > 1e-4


def test_score_of_a_constant_target():
    X, y = data()
    model = joint(0.5, tol=1e-3).fit(X, y)
    assert model.score(X, np.zeros(80)) == 0.0


# Shapes, weights, paths --------------------------------------------------------------------------


def test_shapes():
    X, y = data()
    assert JointQuantileRegressor().fit(X, y).predict(X).shape == (80,)
    assert joint(0.9, tol=1e-3).fit(X, y).predict(X).shape == (80,)
    assert joint([0.9], tol=1e-3).fit(X, y).predict(X).shape == (80, 1)
    assert joint((0.1, 0.9), tol=1e-3).fit(X, y).predict(X).shape == (80, 2)
    assert joint(np.array(LEVELS), tol=1e-3).fit(X, y).predict(X).shape == (80, 3)
    one, same = joint(0.9).fit(X, y).predict(X), joint([0.9]).fit(X, y).predict(X)
    assert_array_equal(one, same[:, 0])


def test_a_column_of_targets():
    X, y = data()
    expected = joint(tol=1e-3).fit(X, y).predict(X)
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        found = joint(tol=1e-3).fit(X, y[:, None]).predict(X)
    assert_array_equal(found, expected)


def test_other_kinds_of_data():
    X, y = data()
    expected = joint(sketch=PSparsified(15), tol=1e-4).fit(X, y).predict(X)
    thin = joint(sketch=PSparsified(15), tol=1e-4).fit(sparse.csr_array(X), y)
    assert_allclose(thin.predict(sparse.csr_array(X)), expected, atol=1e-6)
    frame = pd.DataFrame(X, columns=["x"])
    model = joint(sketch=PSparsified(15), tol=1e-4).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["x"]
    assert_allclose(model.predict(frame), expected, atol=1e-10)
    single = joint(sketch=PSparsified(15), tol=1e-4).fit(X.astype(np.float32), y)
    found = single.predict(X.astype(np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, expected, atol=0.05)
    assert single.predict_interval(X.astype(np.float32), 0.8)[0].dtype == np.float32


def test_weights_are_repetitions():
    X, y = data()
    w = np.arange(80) % 3
    kept = np.repeat(np.arange(80), w)
    model = joint()
    weighted = model.fit(X, y, w).predict(X)
    assert_allclose(model.fit(X[kept], y[kept]).predict(X), weighted, rtol=1e-5, atol=1e-6)
    assert np.abs(model.fit(X, y).predict(X) - weighted).max() > 0.01


def test_path_takes_the_least_pinball_loss():
    X, y = data()
    alphas = [1.0, 1e-6, 1e-3]
    cv = KFold(3, shuffle=True, random_state=0)
    model = joint(sketch=SubSample(20), alpha=alphas, cv=cv, non_crossing=False, tol=1e-4)
    model.fit(X, y)
    Z = model.basis_.transform(X)
    losses = np.empty((3, 3))
    for i, (train, test) in enumerate(cv.split(X)):
        for j, alpha in enumerate(alphas):
            params = {"alpha": alpha, "non_crossing": False, "tol": 1e-5}
            fold = JointQuantileRegressor(LEVELS, Linear(), **params).fit(Z[train], y[train])
            losses[i, j] = pinball(y[test], fold.predict(Z[test]), LEVELS)
    assert_allclose(model.cv_results_["fold_loss"], losses, rtol=0.02)
    assert model.alpha_ == alphas[int(losses.mean(axis=0).argmin())] == 1e-3


def test_grid_search():
    X, y = data()
    start = joint(sketch=SubSample(20), tol=1e-3)
    for name, values in {"alpha": [1e-3, 10.0], "gamma_quantiles": [0.0, 10.0]}.items():
        search = GridSearchCV(start, {name: values}, cv=3).fit(X, y)
        first, second = search.cv_results_["mean_test_score"]
        assert abs(first - second) > 1e-4
    assert start.get_params()["gamma_quantiles"] == 1.0


def test_fits_repeat_and_seeds_matter():
    X, y = data()
    first, same, other = (
        joint(sketch=SubSample(5), tol=1e-4, random_state=seed).fit(X, y).predict(X)
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3
    model = joint(sketch=SubSample(5), tol=1e-4).fit(X, y)
    assert_array_equal(clone(model).fit(X, y).predict(X), model.fit(X, y).predict(X))


def test_a_shift_of_the_targets_is_a_shift_of_the_quantiles():
    X, y = data()
    model = joint(tol=1e-4)
    before = model.fit(X, y).predict(X)
    assert_allclose(model.fit(X, y + 100.0).predict(X), before + 100.0, atol=1e-6)


def test_a_constant_target():
    X, _ = data()
    model = joint(tol=1e-4).fit(X, np.full(80, 0.1))
    assert_allclose(model.predict(X), 0.1, atol=1e-6)


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantiles", "error", "message"),
    [
        (0.0, ValueError, r"strictly between 0 and 1. Got 0.0"),
        (1, ValueError, r"strictly between 0 and 1. Got 1"),
        ([0.1, 1.2], ValueError, r"strictly between 0 and 1. Got \[0.1, 1.2\]"),
        ([0.1, 0.1], ValueError, r"quantiles must be distinct. Got \[0.1, 0.1\]"),
        ([], TypeError, r"quantiles must be numbers in \(0, 1\). Got \[\]"),
        ("median", TypeError, r"quantiles must be numbers in \(0, 1\). Got 'median'"),
        ([[0.1], [0.9]], TypeError, r"quantiles must be numbers in \(0, 1\)"),
    ],
    ids=str,
)
def test_bad_quantiles(quantiles, error, message):
    X, y = data()
    with pytest.raises(error, match=message):
        joint(quantiles).fit(X, y)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"gamma_quantiles": -1.0}, ValueError, r"gamma_quantiles must be a finite number >= 0"),
        ({"gamma_quantiles": None}, TypeError, r"gamma_quantiles must be a finite number >= 0"),
        ({"alpha": 0.0}, ValueError, r"alpha must be a finite number > 0. Got 0.0"),
        ({"tol": 0}, ValueError, r"tol must be a finite number > 0. Got 0"),
        ({"max_iter": 0}, ValueError, r"max_iter must be an integer >= 1. Got 0"),
    ],
    ids=str,
)
def test_bad_parameters(params, error, message):
    X, y = data()
    with pytest.raises(error, match=message):
        joint().set_params(**params).fit(X, y)


def test_bad_data():
    X, y = data()
    with pytest.raises(
        ValueError, match=r"y must be one target, shape \(n,\). Got shape \(80, 2\)"
    ):
        joint().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"same number of rows: .* 80 and 79"):
        joint().fit(X, y[1:])
    with pytest.raises(ValueError, match="the target y is None"):
        joint().fit(X, None)
    with pytest.raises(ValueError, match="JointQuantileRegressor needs at least two rows"):
        joint().fit(X[:1], y[:1])
    bad = y.copy()
    bad[0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        joint().fit(X, bad)
    for method in ("predict", "predict_interval"):
        with pytest.raises(NotFittedError):
            getattr(joint(), method)(X)


def test_a_stop_too_early_is_said():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match=r"JointQuantileRegressor stopped after 2 Newton"):
        joint(max_iter=2).fit(X, y)
