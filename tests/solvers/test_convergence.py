"""Conjugate gradients on targets far from zero: when they stop, what they tell, what takes over."""

import warnings
from unittest import mock

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from skout import KernelRidge, memory_limits
from skout._numerics import checkpoints
from skout.kernels import Gaussian
from skout.sketches import PSparsified, SubSample
from skout.solvers.ridge import system
from skout.solvers.ridge.system import MemoryBudget
from skout.sources import Blocks

torch = extra("torch")

RNG = np.random.default_rng(0)
N = 600
X = RNG.standard_normal((N, 2))
SIGNAL = np.column_stack([np.sin(2 * X[:, 0]), X[:, 0] * X[:, 1]]) + 0.1 * RNG.standard_normal(
    (N, 2)
)
MEANS = np.array([2010.0, -2e4])
Y = SIGNAL / SIGNAL.std(axis=0) + MEANS
W = RNG.uniform(0.5, 2.0, N)
GAMMA, ALPHA = 1.0, 1e-6
SKETCHES = [None, SubSample(80), PSparsified(60)]
# of a model that misses the mean; `Without an intercept` below is about it
pytestmark = pytest.mark.filterwarnings("ignore:y has the mean:UserWarning")


@pytest.fixture
def device():
    """PyTorch on the CPU in the place of a GPU."""
    with mock.patch("skout.rows.device.torch_device", return_value=torch.device("cpu")):
        yield


@pytest.fixture
def takes_cg(monkeypatch):
    """Sizes and costs by which solver="auto" takes conjugate gradients."""
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_LANDMARKS", 0)
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_ROWS", 0)
    monkeypatch.setattr("skout.solvers.ridge.system._MARGIN", 0.0)


def ridge(sketch=None, solver="cg", **options):
    options = {"alpha": ALPHA, "random_state": 0, "fit_intercept": False} | options
    return KernelRidge(Gaussian(GAMMA), sketch, solver=solver, **options)


def gram(A, B):
    return np.exp(-GAMMA * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def formula(y, weights=None, fit_intercept=False, alpha=ALPHA):
    """Predictions of the training rows by the exact ridge regression, from its optimality."""
    w = np.ones(len(y)) if weights is None else weights
    K, n = gram(X, X), w.sum()
    if not fit_intercept:
        return K @ np.linalg.solve(w[:, None] * K + n * alpha * np.eye(len(y)), w[:, None] * y)
    A = np.block([[w[:, None] * K + n * alpha * np.eye(len(y)), w[:, None]], [w @ K, n]])
    b = np.vstack([w[:, None] * y, w @ y])
    solution = np.linalg.solve(A, b)
    return K @ solution[:-1] + solution[-1]


def change(predicted, expected, y=Y, weights=None):
    """Root mean square difference of each output, in its standard deviations."""
    w = np.ones(len(y)) if weights is None else weights
    mean = np.average(y, axis=0, weights=w)
    squares = np.average((predicted - expected) ** 2, axis=0, weights=w)
    return np.sqrt(squares / np.average((y - mean) ** 2, axis=0, weights=w))


# When they stop -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("place", [None, "cuda"])
@pytest.mark.usefixtures("device")
def test_a_mean_does_not_hide_the_signal_of_an_exact_fit(fit_intercept, weighted, place):
    w = W if weighted else None
    model = ridge(fit_intercept=fit_intercept, device=place, max_iter=1000).fit(X, Y, w)
    expected = formula(Y, w, fit_intercept)
    assert model.solver_report_["solver"] == "cg"
    assert change(model.predict(X), expected, weights=w).max() <= 2e-3


@pytest.mark.parametrize("sketch", SKETCHES[1:])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("place", [None, "cuda"])
@pytest.mark.usefixtures("device")
def test_a_mean_does_not_hide_the_signal_in_a_sketch(sketch, weighted, place):
    w = W if weighted else None
    model = ridge(sketch, device=place, max_iter=1000).fit(X, Y, w)
    expected = ridge(sketch, solver="direct").fit(X, Y, w).predict(X)
    assert model.solver_report_["solver"] == "cg"
    assert change(model.predict(X), expected, weights=w).max() <= 2e-3


def test_a_mean_does_not_hide_the_signal_of_blocks():
    parts = [(X[i : i + 150], Y[i : i + 150]) for i in range(0, N, 150)]
    sketch = SubSample(80)
    found = ridge(sketch, max_iter=1000).fit(Blocks(lambda: iter(parts), n=N))
    expected = ridge(sketch, solver="direct").fit(Blocks(lambda: iter(parts), n=N))
    assert change(found.predict(X), expected.predict(X)).max() <= 2e-3


def test_a_mean_does_not_hide_the_signal_of_missing_targets():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((3000, 4))
    y = 2e4 + np.sin(rows @ rng.standard_normal((4, 20))) + 0.1 * rng.standard_normal((3000, 20))
    holed = np.where(rng.random(y.shape) < 0.4, np.nan, y)
    model = KernelRidge(
        Gaussian(0.3), SubSample(250), alpha=1e-5, fit_intercept=False, random_state=0
    )
    found = model.set_params(solver="cg").fit(rows, holed).predict(rows)
    assert model.solver_report_["outputs_by_cg"] == 20
    expected = model.set_params(solver="direct").fit(rows, holed).predict(rows)
    assert change(found, expected, y).max() <= 3e-3


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("value", [0.0, 5.0, 0.1])
def test_targets_that_do_not_vary(sketch, value):
    y = np.full(N, value)
    found, expected = (
        ridge(sketch, solver, alpha=1e-3).fit(X, y).predict(X) for solver in ("cg", "direct")
    )
    assert np.sqrt(np.mean((found - expected) ** 2)) <= 2e-3 * value


def test_a_path_over_folds_sees_the_signal():
    alphas = [1e-6, 1e-4, 1e-2]
    for sketch in SKETCHES[:2]:
        found, direct = (
            ridge(sketch, solver, alpha=alphas, cv=3, max_iter=1000).fit(X, Y[:, 1])
            for solver in ("cg", "direct")
        )
        losses = [model.cv_results_["mean_loss"] for model in (found, direct)]
        assert_allclose(*losses, rtol=0.01)
        assert found.alpha_ == direct.alpha_


# What they tell -----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_iter", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_that_is_told_is_a_bound_of_the_change_left(max_iter, weighted):
    w = W if weighted else None
    with pytest.warns(ConvergenceWarning, match="may still change by about .* standard deviations"):
        model = ridge(max_iter=max_iter).fit(X, Y, w)
    left = change(model.predict(X), formula(Y, w), weights=w).max()
    report = model.solver_report_
    assert left <= report["relative_residual"]
    assert not report["converged"]


@pytest.mark.parametrize("max_iter", [1, 4])
def test_the_loss_that_is_told_of_a_sketch_is_near_it(max_iter):
    sketch = SubSample(80)
    with pytest.warns(ConvergenceWarning, match="may still change by about"):
        model = ridge(sketch, max_iter=max_iter, alpha=1e-4).fit(X, Y)
    expected = ridge(sketch, "direct", alpha=1e-4).fit(X, Y).predict(X)
    left = change(model.predict(X), expected).max()
    assert left / 3 <= model.solver_report_["relative_residual"] <= 100 * left


@pytest.mark.parametrize("sketch", SKETCHES[:2])
def test_folds_that_do_not_converge_are_told_once(sketch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ridge(sketch, alpha=[1e-6, 1e-3], cv=3, max_iter=2).fit(X, Y)
    told = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert len([text for text in told if "of a split that alpha is chosen on, 3 of 3" in text]) == 1


# What takes over ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("place", [None, "cuda"])
@pytest.mark.usefixtures("takes_cg", "device")
def test_auto_that_does_not_converge_is_direct(sketch, place):
    model = ridge(sketch, "auto", max_iter=1, device=place).fit(X, Y, W)
    report = model.solver_report_
    assert report["solver"] == "direct"
    assert set(report["costs"]) == {"direct", "cg"}
    assert report["fell_back_from"]["solver"] == "cg"
    assert report["fell_back_from"]["relative_residual"] > 1.0
    expected = ridge(sketch, "direct").fit(X, Y, W).predict(X)
    assert change(model.predict(X), expected).max() <= 1e-4


@pytest.mark.usefixtures("takes_cg")
def test_auto_that_does_not_converge_is_the_formula():
    found = ridge(None, "auto", max_iter=1).fit(X, Y).predict(X)
    assert change(found, formula(Y)).max() <= 1e-5


@pytest.mark.usefixtures("takes_cg")
def test_auto_that_converges_stays():
    for sketch in SKETCHES:
        report = ridge(sketch, "auto", max_iter=1000).fit(X, Y).solver_report_
        assert report["solver"] == "cg"
        assert "fell_back_from" not in report


@pytest.mark.usefixtures("takes_cg")
def test_auto_over_folds_that_do_not_converge_is_direct():
    alphas = [1e-6, 1e-4, 1e-2]
    found, expected = (
        ridge(None, solver, alpha=alphas, cv=3, max_iter=1).fit(X, Y)
        for solver in ("auto", "direct")
    )
    assert found.solver_report_["solver"] == "direct"
    assert found.alpha_ == expected.alpha_
    assert_allclose(found.cv_results_["mean_loss"], expected.cv_results_["mean_loss"], rtol=1e-6)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)


@pytest.mark.usefixtures("takes_cg")
def test_auto_with_missing_targets_falls_back():
    holed = Y.copy()
    holed[::3, 0] = np.nan
    found, expected = (
        ridge(None, solver, max_iter=1).fit(X, holed) for solver in ("auto", "direct")
    )
    assert found.solver_report_["fell_back_from"]["solver"] == "cg"
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)


@pytest.mark.parametrize("sketch", SKETCHES[:2])
@pytest.mark.usefixtures("takes_cg")
def test_auto_without_memory_for_a_matrix_warns(sketch, monkeypatch):
    monkeypatch.setattr(system, "_HOST", 1e-9)
    with pytest.warns(ConvergenceWarning, match=r"standard deviations of y.*solver=\"direct\""):
        model = ridge(sketch, "auto", max_iter=1).fit(X, Y)
    assert model.solver_report_["solver"] == "cg"


@pytest.mark.usefixtures("takes_cg")
def test_a_fit_with_a_checkpoint_falls_back(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    sketch, path = SubSample(80), tmp_path / "fit.npz"
    options = {"max_iter": 3, "checkpoint": path}
    with (
        mock.patch("skout.solvers.ridge.moments.MomentSystem.solve", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):  # killed after the pass of the direct solver
        ridge(sketch, "auto", **options).fit(X, Y)
    assert path.exists()
    found = ridge(sketch, "auto", **options).fit(X, Y)
    expected = ridge(sketch, "direct").fit(X, Y)
    assert not path.exists()
    assert found.solver_report_["fell_back_from"]["solver"] == "cg"
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)


# Memory and weights -------------------------------------------------------------------------------


def test_a_limit_that_equals_the_default_is_a_limit():
    budget = MemoryBudget(None, 2.0**40, 0.0, 10)
    assert budget.kept() == 2**40
    for megabytes in (2047, 2048, 2049):
        with memory_limits(coordinates_mb=megabytes):
            assert budget.kept() == megabytes * 2**20


@pytest.mark.parametrize("factor", [5e-324, 1e-310, 1e-200, 1e250])
@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_only_ratios_of_weights_count(factor, sketch, solver):
    w = np.random.default_rng(1).integers(1, 9, N).astype(float)
    options = {"alpha": 1e-3, "tol": 1e-8}
    expected = ridge(sketch, solver, **options).fit(X, SIGNAL, w / w.mean()).predict(X)
    found = ridge(sketch, solver, **options).fit(X, SIGNAL, w * factor).predict(X)
    assert_allclose(found, expected, atol=1e-6)


def test_weights_of_rows_that_are_added_are_refused_where_they_vanish():
    model = ridge(SubSample(20), "direct")
    with pytest.raises(ValueError, match=r"sample_weight .* multiply all weights by one number"):
        model.partial_fit(X, Y, np.full(N, 5e-324))
    model.partial_fit(X, Y, np.full(N, 1e-30))  # which can be computed with


# Without an intercept -----------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", SKETCHES[:2])
def test_a_mean_that_is_out_of_reach_is_told(sketch):
    options = {"alpha": 1e-3, "solver": "direct"}
    with pytest.warns(UserWarning, match=r"mean 2010 .* standard deviations off .* fit_intercept"):
        model = ridge(sketch, **options).fit(X, Y[:, 0])
    assert model.score(X, Y[:, 0]) < 0.0
    ridge(sketch, fit_intercept=True, **options).fit(X, Y[:, 0])
    ridge(sketch, **options).fit(X, Y[:, 0] - 2010.0)


def test_a_mean_that_is_reached_is_not():
    assert ridge(None, "direct", alpha=1e-9).fit(X, Y[:, 0]).score(X, Y[:, 0]) > 0.5


def test_rows_without_weight_and_missing_targets_are_not_looked_at():
    y = SIGNAL[:, 0].copy()
    y[::2] += 1e6
    ridge(None, "direct").fit(X, y, np.arange(N) % 2)
    y[::2] = np.nan
    ridge(SubSample(30), "direct").fit(X, y)
