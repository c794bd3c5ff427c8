"""KernelMachine against dual programs and sketched formulas solved by SciPy, ridge, and itself."""

import numpy as np
import oracles_predictor as oracle
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from skout import KernelMachine, KernelRidge, graph_task_matrix, memory_limits
from skout.kernels import Gaussian, Tanimoto
from skout.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
)
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.solvers import ConvexProblem, solve_convex
from skout.solvers.design import DesignMatrix

pd = extra("pandas")

GAMMA = 0.7
LOSSES = {
    "squared": Squared(),
    "huber": Huber(0.2),
    "epsilon_insensitive": EpsilonInsensitive(0.05),
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive(0.05),
    "pinball": Pinball(0.8),
}
NAMES = {type(loss): name for name, loss in LOSSES.items()}
SMOOTH = ["squared", "huber", "squared_epsilon_insensitive"]
SKETCHED = [SubSample(8), PSparsified(8), GaussianSketch(8)]
M2 = np.array([[1.0, 0.6], [0.6, 2.0]])


def data(n=30, seed=0, outputs=2):
    """Smooth targets, noise, and some outliers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 0], np.abs(X[:, 0])])[:, :outputs]
    Y = Y + 0.1 * rng.standard_normal(Y.shape)
    Y[::7] += 2.0
    return X, Y, rng.standard_normal((15, 3))


def machine(sketch=None, loss="huber", alpha=1e-2, task_matrix=None, **params):
    smooth = (loss if isinstance(loss, str) else NAMES.get(type(loss))) in SMOOTH
    settings = {"tol": 1e-10 if smooth else 1e-7, "random_state": 0, **params}
    return KernelMachine(
        Gaussian(GAMMA), sketch, loss=loss, alpha=alpha, task_matrix=task_matrix, **settings
    )


def allowed(model):
    """How far predictions may be from the optimal ones: alpha/2 ||f - f*||^2 <= gap, k(x, x) = 1.

    The oracles have errors of their own, too.
    """
    size = 1.0 if model.task_matrix is None else np.sqrt(np.diag(model.task_matrix).max())
    return size * np.sqrt(2 * model.tol * model.objective_ / model.alpha_) + 5e-5


def kernel(A, B):
    return oracle.gaussian(A, B, GAMMA)


# The slow truth ----------------------------------------------------------------------------------


def loss_values(loss, F, Y):
    """Each row's loss, from the formulas (2.127, 2.128, 392, 394)."""
    r = np.sqrt(((F - Y) ** 2).sum(axis=1))
    if isinstance(loss, Squared):
        return r**2 / 2
    if isinstance(loss, Huber):
        return np.where(r <= loss.kappa, r**2 / 2, loss.kappa * (r - loss.kappa / 2))
    if isinstance(loss, EpsilonInsensitive):
        return np.maximum(r - loss.epsilon, 0)
    if isinstance(loss, SquaredEpsilonInsensitive):
        return np.maximum(r - loss.epsilon, 0) ** 2
    tau = np.asarray(loss.tau)
    return np.where(Y > F, tau * (Y - F), (1 - tau) * (F - Y)).sum(axis=1)


def loss_gradients(loss, F, Y):
    """Of the losses that have one everywhere."""
    R = F - Y
    r = np.maximum(np.sqrt((R**2).sum(axis=1, keepdims=True)), 1e-300)
    if isinstance(loss, Squared):
        return R
    if isinstance(loss, Huber):
        return R * np.minimum(r, loss.kappa) / r
    return R * 2 * np.maximum(r - loss.epsilon, 0) / r


def dual_program(loss, K, y, w, alpha, fit_intercept):
    """Maximise the dual of one output, a quadratic program, by SLSQP.

    D(g) = -sum_i c_i loss*(g_i, y_i) - 1/(2 alpha) sum_ij c_i c_j g_i g_j K_ij, with c = w/sum(w)
    and g = u - v, u and v >= 0, so that |g| = u + v. With an intercept, sum_i c_i g_i = 0.
    Returns D and the coefficients -c g / alpha of f = sum_i a_i k(x_i, .).
    """
    n, c = len(y), w / w.sum()
    curved = {Squared: 1.0, Huber: 1.0, SquaredEpsilonInsensitive: 0.5}.get(type(loss), 0.0)
    edge = getattr(loss, "epsilon", 0.0)
    up = {Huber: getattr(loss, "kappa", 0), EpsilonInsensitive: 1.0}.get(type(loss), np.inf)
    down = up
    if isinstance(loss, Pinball):
        up, down = 1 - loss.tau, loss.tau

    def negative_dual(uv):
        u, v = uv[:n], uv[n:]
        g, cg = u - v, c * (u - v)
        image = K @ cg / alpha
        value = cg @ y + edge * c @ (u + v) + curved * cg @ g / 2 + cg @ image / 2
        slope = c * (y + curved * g + image)
        return value, np.concatenate([slope + c * edge, c * edge - slope])

    balance = {"type": "eq", "fun": lambda uv: c @ (uv[:n] - uv[n:])}
    balance["jac"] = lambda uv: np.concatenate([c, -c])
    found = minimize(
        negative_dual,
        np.zeros(2 * n),
        jac=True,
        method="SLSQP",
        bounds=[(0, up)] * n + [(0, down)] * n,
        constraints=[balance] if fit_intercept else [],
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    return -found.fun, -c * (found.x[:n] - found.x[n:]) / alpha


def sketched_program(loss, K, R, Y, w, alpha, M, fit_intercept):
    """Minimise mean loss(K R' Gamma M + b) + alpha/2 tr(K~ Gamma M Gamma') (after 3.8), by BFGS."""
    c, m, d = w / w.sum(), len(R), Y.shape[1]
    Phi, K_tilde = K @ R.T, R @ K @ R.T

    def unpack(x):
        return x[: m * d].reshape(m, d), (x[m * d :] if fit_intercept else np.zeros(d))

    def objective(x):
        Gamma, b = unpack(x)
        F = Phi @ Gamma @ M + b
        value = c @ loss_values(loss, F, Y) + alpha / 2 * np.trace(K_tilde @ Gamma @ M @ Gamma.T)
        G = c[:, None] * loss_gradients(loss, F, Y)
        gradient = (Phi.T @ G + alpha * K_tilde @ Gamma) @ M
        return value, np.append(gradient.ravel(), G.sum(axis=0) if fit_intercept else [])

    x = np.zeros(m * d + d * fit_intercept)
    for _ in range(3):  # each start forgets the curvature of another region
        found = minimize(objective, x, jac=True, method="BFGS", options={"gtol": 1e-11})
        x = found.x
    return (found.fun, *unpack(x))


def primal(model, X, Y, w, M=None):
    """mean loss + alpha/2 ||f||^2 of a fitted exact model, from its predictions alone."""
    F = model.predict(X).reshape(len(X), -1)
    f = F - model.intercept_
    M = np.eye(F.shape[1]) if M is None else M
    norm = np.sum(f * (oracle.pinv(kernel(X, X)) @ f @ oracle.pinv(M)))
    return (w / w.sum()) @ loss_values(model.loss, F, Y) + model.alpha_ / 2 * norm


# Against the truth -------------------------------------------------------------------------------

WEIGHTS = {"equal": np.ones(30), "weighted": np.arange(30.0) % 4 + 0.5}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_exact_model_solves_the_dual_program(name, fit_intercept, weights):
    X, Y, X_te = data(outputs=1)
    y, w, loss = Y[:, 0], WEIGHTS[weights], LOSSES[name]
    model = machine(None, loss, fit_intercept=fit_intercept).fit(X, y, w)
    optimum, dual = dual_program(loss, kernel(X, X), y, w, 1e-2, fit_intercept)
    assert model.duality_gap_ <= model.tol
    assert_allclose(model.objective_, optimum, rtol=2e-7)
    assert_allclose(primal(model, X, Y, w), model.objective_, rtol=1e-8)
    f = model.predict(X_te) - model.intercept_
    assert_allclose(f, kernel(X_te, X) @ dual, atol=allowed(model))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("sketch", SKETCHED, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_sketched_model_solves_the_dual_program_of_its_span(name, sketch, fit_intercept):
    # the kernel of the span: K R' (R K R')^+ R K
    X, Y, X_te = data(outputs=1)
    y, w, loss = Y[:, 0], WEIGHTS["weighted"], LOSSES[name]
    R = sketch.draw(30, np.random.default_rng(0)).toarray()
    inverse = oracle.pinv(R @ kernel(X, X) @ R.T)
    left, left_te = kernel(X, X) @ R.T, kernel(X_te, X) @ R.T
    model = machine(sketch, loss, fit_intercept=fit_intercept).fit(X, y, w)
    optimum, dual = dual_program(loss, left @ inverse @ left.T, y, w, 1e-2, fit_intercept)
    assert_allclose(model.objective_, optimum, rtol=2e-7)
    f = model.predict(X_te) - model.intercept_
    assert_allclose(f, left_te @ inverse @ left.T @ dual, atol=allowed(model))


@pytest.mark.parametrize(
    "M", [np.eye(2), M2, np.array([[1.0, 2.0], [2.0, 4.0]])], ids=["I", "M", "singular"]
)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("sketch", SKETCHED, ids=str)
@pytest.mark.parametrize("name", SMOOTH)
def test_sketched_model_is_the_minimiser_of_the_raw_formula(name, sketch, fit_intercept, M):
    X, Y, X_te = data()
    R = sketch.draw(30, np.random.default_rng(0)).toarray()
    model = machine(sketch, LOSSES[name], task_matrix=M, fit_intercept=fit_intercept).fit(X, Y)
    arguments = kernel(X, X), R, Y, np.ones(30), 1e-2, M, fit_intercept
    optimum, Gamma, b = sketched_program(LOSSES[name], *arguments)
    assert_allclose(model.objective_, optimum, rtol=1e-8)
    assert_allclose(model.intercept_, b, atol=1e-4)
    assert_allclose(model.predict(X_te), kernel(X_te, X) @ R.T @ Gamma @ M + b, atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_exact_model_is_the_minimiser_of_the_raw_formula(name):
    X, Y, X_te = data(20)
    model = machine(None, LOSSES[name], task_matrix=M2).fit(X, Y)
    arguments = kernel(X, X), np.eye(20), Y, np.ones(20), 1e-2, M2, False
    optimum, Gamma, _ = sketched_program(LOSSES[name], *arguments)
    assert_allclose(model.objective_, optimum, rtol=1e-8)
    assert_allclose(primal(model, X, Y, np.ones(20), M2), model.objective_, rtol=1e-8)
    assert_allclose(model.predict(X_te), kernel(X_te, X) @ Gamma @ M2, atol=1e-4)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gap_is_a_certificate(name, tol):
    X, Y, _ = data(outputs=1)
    model = machine(None, LOSSES[name], tol=tol, fit_intercept=True).fit(X, Y)
    optimum, _ = dual_program(LOSSES[name], kernel(X, X), Y[:, 0], np.ones(30), 1e-2, True)
    assert 0.0 <= model.duality_gap_ <= tol
    excess = model.objective_ / optimum - 1.0
    assert -1e-8 <= excess <= model.duality_gap_ + 1e-8


def test_more_accuracy_costs_more_steps():
    X, Y, _ = data()
    steps = [machine(None, Pinball(0.3), tol=tol).fit(X, Y).n_iter_ for tol in (0.1, 1e-4, 1e-7)]
    assert 0 < steps[0] < steps[1] < steps[2] < 200


@pytest.mark.parametrize("name", LOSSES)
def test_a_name_is_the_default_object(name):
    X, Y, X_te = data()
    by_name = machine(SubSample(8), name).fit(X, Y)
    by_object = machine(SubSample(8), type(LOSSES[name])()).fit(X, Y)
    assert_array_equal(by_name.predict(X_te), by_object.predict(X_te))
    assert np.abs(by_name.predict(X_te)).max() > 0.1


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_pinball_splits_the_targets_at_the_level(tau):
    X, Y, _ = data(200, outputs=1)
    model = machine(None, Pinball(tau), 0.1, fit_intercept=True).fit(X, Y[:, 0])
    f = model.predict(X)
    assert np.mean(Y[:, 0] < f - 1e-6) <= tau <= np.mean(Y[:, 0] <= f + 1e-6)


def test_robust_losses_shrug_at_outliers():
    X, Y, X_te = data(200, outputs=1)
    far = Y.copy()
    far[::10] += 1000.0
    moved = {}
    for name, loss in LOSSES.items():
        model = machine(SubSample(20), loss, 1e-3, tol=1e-6)
        moved[name] = np.abs(model.fit(X, far).predict(X_te) - model.fit(X, Y).predict(X_te)).max()
    assert moved["squared"] > 50.0
    assert moved["huber"] < 2.0
    assert moved["epsilon_insensitive"] < 2.0


# Squared loss is ridge ---------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, np.arange(30.0) % 4 + 0.5], ids=["equal", "weighted"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("sketch", [None, *SKETCHED], ids=str)
def test_squared_loss_is_ridge(sketch, fit_intercept, weights):
    X, Y, X_te = data()
    model = machine(sketch, "squared", 1e-3, fit_intercept=fit_intercept).fit(X, Y, weights)
    ridge = KernelRidge(
        Gaussian(GAMMA), sketch, alpha=1e-3, fit_intercept=fit_intercept, random_state=0
    ).fit(X, Y, weights)
    assert_allclose(model.predict(X_te), ridge.predict(X_te), rtol=1e-6, atol=1e-8)
    assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weights", [None, np.arange(30.0) % 4 + 0.5], ids=["equal", "weighted"])
@pytest.mark.parametrize("sketch", [None, SubSample(8)], ids=str)
def test_path_of_the_squared_loss_is_that_of_ridge(sketch, weights):
    X, Y, X_te = data()
    alphas = [1e-4, 1e-1, 1e-2, 10.0]
    params = {"cv": 3, "fit_intercept": True}
    model = machine(sketch, "squared", alphas, **params).fit(X, Y, weights)
    ridge = KernelRidge(Gaussian(GAMMA), sketch, alpha=alphas, random_state=0, **params)
    ridge.fit(X, Y, weights)
    # ours is half the squared error, summed over the two outputs
    assert_allclose(model.cv_results_["fold_loss"], ridge.cv_results_["fold_loss"], rtol=1e-6)
    assert model.alpha_ == ridge.alpha_
    assert_allclose(model.predict(X_te), ridge.predict(X_te), rtol=1e-6, atol=1e-8)


# Task matrix -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sketch", [None, SubSample(8)], ids=str)
def test_identity_and_its_multiples(sketch, name):
    X, Y, X_te = data()
    model = machine(sketch, LOSSES[name], fit_intercept=True)
    expected = model.fit(X, Y).predict(X_te)
    objective = model.objective_
    for c in (1.0, 5.0):
        model.set_params(task_matrix=c * np.eye(2), alpha=1e-2 * c).fit(X, Y)
        assert_allclose(model.predict(X_te), expected, atol=2 * allowed(model))
        assert_allclose(model.objective_, objective, rtol=2 * model.tol)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_predictions_lie_in_the_range_of_a_singular_matrix(name, fit_intercept):
    X, Y, X_te = data()
    v, across = np.array([1.0, 3.0]), np.array([3.0, -1.0])
    model = machine(None, LOSSES[name], 1e-2, np.outer(v, v), fit_intercept=fit_intercept, tol=1e-4)
    f = model.fit(X, Y).predict(X_te) - model.intercept_
    assert_allclose(f @ across, 0.0, atol=1e-12)
    assert np.abs(f @ v).max() > 0.1
    assert_allclose(model.coef_ @ across, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_a_rank_one_matrix_without_intercept_is_one_function(name):
    # f = g(x) v with g of one output: the loss of (g v, y), here along v = e_1
    X, Y, X_te = data()
    Y[:, 1] = 0.0
    joint = machine(None, LOSSES[name], 1e-2, np.diag([1.0, 0.0])).fit(X, Y)
    alone = machine(None, LOSSES[name], 1e-2).fit(X, Y[:, 0])
    assert_allclose(joint.predict(X_te)[:, 0], alone.predict(X_te), atol=2 * allowed(alone))
    assert_array_equal(joint.predict(X_te)[:, 1], 0.0)


@pytest.mark.parametrize("name", LOSSES)
def test_permuting_the_outputs(name):
    X, Y, X_te = data(outputs=3)
    M = graph_task_matrix([[0, 1, 0], [1, 0, 2], [0, 2, 0]], 0.5)
    order = [2, 0, 1]
    expected = machine(SubSample(8), LOSSES[name], 1e-2, M).fit(X, Y).predict(X_te)
    model = machine(SubSample(8), LOSSES[name], 1e-2, M[np.ix_(order, order)]).fit(X, Y[:, order])
    assert_allclose(model.predict(X_te), expected[:, order], atol=2 * allowed(model))


def test_one_level_for_each_output():
    X, Y, X_te = data()
    both = machine(SubSample(8), Pinball([0.2, 0.7])).fit(X, Y)
    for j, tau in enumerate([0.2, 0.7]):
        alone = machine(SubSample(8), Pinball(tau)).fit(X, Y[:, j])
        assert_allclose(both.predict(X_te)[:, j], alone.predict(X_te), atol=2 * allowed(both))


def test_losses_of_a_norm_join_the_outputs():
    X, Y, X_te = data()
    for name, joined in {"squared": False, "pinball": False, "huber": True}.items():
        both = machine(None, LOSSES[name]).fit(X, Y).predict(X_te)
        alone = [machine(None, LOSSES[name]).fit(X, y).predict(X_te) for y in Y.T]
        difference = np.abs(both - np.column_stack(alone)).max()
        assert difference > 0.02 if joined else difference < 5e-3, (name, difference)


def test_related_outputs_share_what_they_know():
    # one output is seen on few rows of low noise, the other on all: M carries one to the other
    rng = np.random.default_rng(0)
    X, X_te = rng.uniform(-2, 2, (150, 1)), rng.uniform(-2, 2, (100, 1))
    Y = np.sin(2 * X) + rng.standard_normal((150, 4))
    errors = []
    for M in (np.eye(4), 0.02 * np.eye(4) + 0.98):
        model = KernelMachine(Gaussian(1.0), None, loss=Huber(1.0), alpha=1e-2, task_matrix=M).fit(
            X, Y
        )
        errors.append(np.mean((model.predict(X_te) - np.sin(2 * X_te)) ** 2))
    assert errors[1] < 0.7 * errors[0]


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_weights_are_repetitions(name, fit_intercept):
    X, Y, X_te = data()
    weights = np.arange(30) % 3
    kept = np.repeat(np.arange(30), weights)
    model = machine(None, LOSSES[name], tol=1e-6, fit_intercept=fit_intercept)
    weighted = model.fit(X, Y, weights).predict(X_te)
    assert_allclose(model.fit(X[kept], Y[kept]).predict(X_te), weighted, rtol=1e-6, atol=1e-8)
    assert np.abs(model.fit(X, Y).predict(X_te) - weighted).max() > 1e-2


def test_weights_count_where_the_width_is_found():
    X, Y, X_te = data()
    weights = np.where(X[:, 0] > 0.5, 20, 1)
    kept = np.repeat(np.arange(30), weights)
    model = KernelMachine("gaussian", None, loss="squared")
    weighted = model.fit(X, Y, weights)
    gamma = weighted.kernel_.gamma
    assert_allclose(clone(model).fit(X[kept], Y[kept]).kernel_.gamma, gamma)
    assert abs(clone(model).fit(X, Y).kernel_.gamma - gamma) > 0.01
    repeated = clone(model).fit(X[kept], Y[kept])
    assert_allclose(repeated.predict(X_te), weighted.predict(X_te), rtol=1e-6)


@pytest.mark.parametrize("sketch", [None, *SKETCHED], ids=str)
def test_weight_zero_is_removal(sketch):
    X, Y, X_te = data()
    weights = (np.arange(30) % 3 > 0).astype(float)
    kept = weights > 0
    Y[~kept] = 1e9
    model = KernelMachine("gaussian", sketch, loss="pinball", random_state=0)  # the width too
    weighted = model.fit(X, Y, weights).predict(X_te)
    removed = model.fit(X[kept], Y[kept], weights[kept]).predict(X_te)
    assert_allclose(removed, weighted, rtol=1e-10, atol=1e-12)


def test_the_scale_of_weights_does_not_matter():
    X, Y, X_te = data()
    w = np.linspace(0.1, 1.0, 30)
    model = machine(SubSample(8))
    expected = model.fit(X, Y, w).predict(X_te)
    assert_allclose(model.fit(X, Y, 1e6 * w).predict(X_te), expected, rtol=1e-8)
    ones = model.fit(X, Y, np.ones(30)).predict(X_te)
    assert_allclose(model.fit(X, Y).predict(X_te), ones, rtol=1e-8)
    assert np.abs(ones - expected).max() > 1e-3


# Penalty path ------------------------------------------------------------------------------------

ALPHAS = [1e-1, 1e-4, 1e-2, 10.0]  # in no order


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_path_equals_loops_over_folds(fit_intercept, weighted):
    X, Y, X_te = data(60)
    w = np.arange(60.0) % 3 + 1 if weighted else np.ones(60)
    cv = KFold(4, shuffle=True, random_state=1)
    params = {"fit_intercept": fit_intercept, "tol": 1e-4}
    model = machine(SubSample(6), LOSSES["huber"], ALPHAS, cv=cv, **params)
    model.fit(X, Y, w if weighted else None)
    Z = model.basis_.transform(X)
    expected = np.empty((4, len(ALPHAS)))
    for i, (train, test) in enumerate(cv.split(X)):
        for j, alpha in enumerate(ALPHAS):
            # coordinates are features whose kernel matrix R K R' is the identity
            R = np.linalg.pinv(Z[train])
            arguments = Z[train] @ Z[train].T, R, Y[train], w[train], alpha
            _, B, b = sketched_program(LOSSES["huber"], *arguments, np.eye(2), fit_intercept)
            F = Z[test] @ B + b
            expected[i, j] = np.average(loss_values(LOSSES["huber"], F, Y[test]), weights=w[test])
    results = model.cv_results_
    assert_array_equal(results["alpha"], ALPHAS)
    assert_allclose(results["fold_loss"], expected, rtol=1e-2)
    assert_allclose(results["mean_loss"], results["fold_loss"].mean(axis=0))
    assert_allclose(results["std_loss"], results["fold_loss"].std(axis=0))
    assert model.alpha_ == ALPHAS[int(expected.mean(axis=0).argmin())]
    best = machine(SubSample(6), LOSSES["huber"], model.alpha_, **params)
    best.fit(X, Y, w if weighted else None)
    assert_allclose(model.predict(X_te), best.predict(X_te), rtol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_path_takes_the_least_loss(name):
    X, Y, _ = data(60)
    model = machine(PSparsified(10), LOSSES[name], ALPHAS, cv=3, tol=1e-4).fit(X, Y)
    losses = model.cv_results_["mean_loss"]
    assert model.alpha_ == ALPHAS[int(losses.argmin())]
    assert losses.max() > 1.1 * losses.min()
    assert isinstance(model.alpha_, float)


def test_path_with_weight_zero_and_splits_by_index():
    X, Y, _ = data(60)
    w = (np.arange(60) % 4 > 0).astype(float)
    splits = list(KFold(3).split(X))
    model = machine(SubSample(6), "huber", ALPHAS, cv=splits, tol=1e-4).fit(X, Y, w)
    position = np.cumsum(w > 0) - 1
    kept = [tuple(position[part[w[part] > 0]] for part in split) for split in splits]
    other = machine(SubSample(6), "huber", ALPHAS, cv=kept, tol=1e-4)
    other.fit(X[w > 0], Y[w > 0])
    assert_allclose(model.cv_results_["fold_loss"], other.cv_results_["fold_loss"], rtol=1e-6)
    assert model.alpha_ == other.alpha_


def test_a_sequence_of_one_needs_no_folds():
    X, Y, X_te = data()
    model = machine(SubSample(8), alpha=[1e-2], cv=1000).fit(X, Y)
    assert model.alpha_ == 1e-2
    assert not hasattr(model, "cv_results_")
    assert_array_equal(model.predict(X_te), machine(SubSample(8)).fit(X, Y).predict(X_te))


def test_a_second_fit_forgets_the_first():
    X, Y, X_te = data()
    model = machine(SubSample(8), alpha=ALPHAS).fit(X, Y)
    model.set_params(alpha=1e-2).fit(X, Y)
    assert not hasattr(model, "cv_results_")
    expected = model.predict(X_te)
    model.fit(X[:20], Y[:20, 0])
    assert model.predict(X_te).shape == (15,)
    assert_array_equal(model.fit(X, Y).predict(X_te), expected)


def test_a_warm_start_is_shorter_and_ends_at_the_same_place():
    X, Y, _ = data(200)
    Z = DesignMatrix(machine(SubSample(20), tol=1e-4).fit(X, Y).basis_.transform(X))
    problem = ConvexProblem(Z, Y, np.full(200, 1 / 200), Huber(0.2), 1e-3, fit_intercept=True)
    cold = solve_convex(problem, tol=1e-8)
    assert cold.n_iter > 1
    assert solve_convex(problem, tol=1e-8, start=cold).n_iter == 0
    problem.alpha *= 0.9
    warm, again = solve_convex(problem, tol=1e-8, start=cold), solve_convex(problem, tol=1e-8)
    assert warm.n_iter <= again.n_iter
    assert_allclose(warm.primal, again.primal, rtol=1e-7)


# In company --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "parameter", "values"),
    [
        ("huber", "alpha", [1e-4, 10.0]),
        ("huber", "kernel__gamma", [1e-3, 1.0]),
        (Huber(), "loss__kappa", [1e-3, 0.5]),
        (Pinball(), "loss__tau", [0.1, 0.9]),
        (EpsilonInsensitive(), "loss__epsilon", [0.0, 1.0]),
        (Huber(), "sketch__size", [2, 10]),
    ],
)
def test_grid_search_reaches_every_parameter(loss, parameter, values):
    X, Y, X_te = data(60, outputs=1)
    start = machine(SubSample(10), loss, 1e-3, tol=1e-4)
    search = GridSearchCV(start, {parameter: values}, cv=3).fit(X, Y[:, 0])
    first, second = search.cv_results_["mean_test_score"]
    assert abs(first - second) > 1e-3
    assert search.best_params_[parameter] in values
    best = clone(start).set_params(**search.best_params_).fit(X, Y[:, 0])
    assert_array_equal(search.predict(X_te), best.predict(X_te))
    assert start.get_params()[parameter] != values[1] or parameter == "sketch__size"


def test_the_loss_given_is_not_touched():
    X, Y, _ = data()
    loss = Pinball([0.2, 0.7])
    model = machine(None, loss, tol=1e-3).fit(X, Y)
    assert model.loss is loss
    assert loss.tau == [0.2, 0.7]


def test_feature_names():
    X, Y, X_te = data()
    expected = machine(SubSample(8)).fit(X, Y).predict(X_te)
    names = ["a", "b", "c"]
    model = machine(SubSample(8)).fit(pd.DataFrame(X, columns=names), pd.DataFrame(Y))
    assert list(model.feature_names_in_) == names
    assert_allclose(model.predict(pd.DataFrame(X_te, columns=names)), expected)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X_te, columns=["b", "a", "c"]))


# Kinds of data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sketch", [None, SubSample(8), PSparsified(8)], ids=str)
def test_float32_in_float32_out(sketch, name):
    X, Y, X_te = data()
    model = machine(sketch, LOSSES[name], tol=1e-4)
    double = model.fit(X, Y).predict(X_te)
    single = model.fit(X.astype(np.float32), Y.astype(np.float32)).predict(X_te.astype(np.float32))
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    assert model.coef_.dtype == model.intercept_.dtype == np.float64
    assert_allclose(single, double, atol=0.03)  # what tol leaves open, see above


@pytest.mark.parametrize("sketch", [None, SubSample(8), PSparsified(8)], ids=str)
def test_sparse_rows(sketch):
    X, Y, X_te = data()
    X[np.abs(X) < 0.7] = 0.0
    dense = machine(sketch).fit(X, Y)
    for matrix in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array):
        thin = machine(sketch).fit(matrix(X), Y)
        assert_allclose(thin.predict(matrix(X_te)), dense.predict(X_te), atol=1e-6)
        assert_allclose(dense.predict(matrix(X_te)), dense.predict(X_te), atol=1e-8)


def jaccard(A, B):
    return np.array([[len(a & b) / max(len(a | b), 1) for b in B] for a in A])


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_sets_as_inputs(sketch):
    rng = np.random.default_rng(0)
    bits = (rng.uniform(size=(60, 12)) < 0.4).astype(float)
    bits[:, 0] = 1.0  # none is empty
    sets = [frozenset(np.flatnonzero(row)) for row in bits]
    y = bits[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(60)
    params = {"alpha": 1e-3, "tol": 1e-9, "random_state": 0}
    objects = KernelMachine(jaccard, sketch, loss="huber", **params).fit(sets[:40], y[:40])
    vectors = KernelMachine(Tanimoto(), sketch, loss="huber", **params).fit(bits[:40], y[:40])
    assert_allclose(objects.predict(sets[40:]), vectors.predict(bits[40:]), atol=1e-6)
    if sketch is None:
        assert objects.score(sets[40:], y[40:]) > 0.5


@pytest.mark.parametrize("sketch", [None, SubSample(8)], ids=str)
def test_shapes_follow_the_targets(sketch):
    X, Y, X_te = data()
    flat = machine(sketch).fit(X, Y[:, 0])
    column = machine(sketch).fit(X, Y[:, :1])
    both = machine(sketch).fit(X, Y)
    assert flat.predict(X_te).shape == (15,)
    assert column.predict(X_te).shape == (15, 1)
    assert both.predict(X_te).shape == (15, 2)
    assert_array_equal(flat.predict(X_te), column.predict(X_te)[:, 0])
    for model, d in ((flat, 1), (column, 1), (both, 2)):
        assert model.coef_.shape == (model.basis_.rank_, d)
        assert model.intercept_.shape == (d,)


def test_integer_targets_and_lists():
    X, Y, X_te = data()
    rounded = np.round(10 * Y).astype(int)
    expected = machine(SubSample(8)).fit(X, rounded.astype(float)).predict(X_te)
    assert_array_equal(machine(SubSample(8)).fit(X, rounded).predict(X_te), expected)
    found = machine(SubSample(8)).fit(X.tolist(), rounded.tolist()).predict(X_te.tolist())
    assert_array_equal(found, expected)


@pytest.mark.parametrize("name", LOSSES)
def test_coordinates_computed_again_in_each_pass(name):
    X, Y, X_te = data(60)
    model = machine(SubSample(8), LOSSES[name], tol=1e-6, fit_intercept=True)
    expected = model.fit(X, Y).predict(X_te)
    with memory_limits(block_rows=7, coordinates_mb=0.0):
        streamed = clone(model).fit(X, Y).predict(X_te)
    assert_allclose(streamed, expected, atol=1e-5)
    assert_allclose(clone(model).set_params(n_jobs=2).fit(X, Y).predict(X_te), expected, atol=1e-5)


def test_seeds():
    X, Y, X_te = data()
    first, same, other = (
        machine(PSparsified(5), random_state=seed).fit(X, Y).predict(X_te) for seed in (0, 0, 1)
    )
    assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3


@pytest.mark.parametrize("c", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_constant_targets(name, fit_intercept, c):
    """With an intercept the optimum is zero: nothing to warn about."""
    X, _, X_te = data()
    model = machine(None, LOSSES[name], 1e-3, fit_intercept=fit_intercept, tol=1e-4)
    found = model.fit(X, np.full(30, c)).predict(X_te)
    assert np.isfinite(found).all()
    if fit_intercept or c == 0.0:
        assert_allclose(found, c, atol=0.051)
        assert model.objective_ < 1e-12


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.6), SquaredEpsilonInsensitive(0.6)], ids=str)
def test_targets_within_the_tube(loss):
    """The optimum is zero, but not at the mean of the targets."""
    X, _, _ = data(60)
    y = (np.arange(60) % 10 == 0).astype(float)
    model = machine(None, loss, fit_intercept=True, tol=1e-4).fit(X, y)
    assert_allclose(model.predict(X), 0.5, atol=0.11)
    assert model.objective_ < 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_two_rows(name):
    X, Y, _ = data()
    for sketch in (None, SubSample(1)):
        model = machine(sketch, LOSSES[name], tol=1e-4).fit(X[:2], Y[:2])
        assert np.isfinite(model.predict(X)).all()
        assert model.duality_gap_ <= 1e-4


# Convergence -------------------------------------------------------------------------------------


def test_a_stop_too_early_is_said():
    X, Y, _ = data()
    model = machine(None, "pinball", tol=1e-4, max_iter=1)
    message = (
        r"KernelMachine stopped after 1 Newton steps? with a relative duality gap of \d\S*, above "
        r"tol=0.0001: .* Raise max_iter \(now 1\), or raise alpha or tol\."
    )
    with pytest.warns(ConvergenceWarning, match=message) as record:
        model.fit(X, Y)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert model.n_iter_ == 1
    assert model.duality_gap_ > 1e-4
    assert f"{model.duality_gap_:.1e}" in str(record[0].message)
    with pytest.warns(ConvergenceWarning, match=r"or give float64 rows, or raise alpha or tol"):
        model.fit(X.astype(np.float32), Y)


def test_progress(capsys):
    X, Y, _ = data()
    machine(SubSample(8), alpha=[1e-3, 1e-2], tol=1e-4, verbose=True).fit(X, Y)
    err = capsys.readouterr().err
    assert "newton" in err
    assert "gap" in err
    assert "folds" in err
    machine(SubSample(8), tol=1e-4).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == err == ""


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        ("hubber", ValueError, "Unknown loss 'hubber'. Did you mean 'huber'\\? Available: epsilon"),
        ("quantil", ValueError, "Unknown loss 'quantil'. Did you mean 'quantile'\\?.* pinball"),
        (None, TypeError, r"loss must be a name or a skout.losses object. Got None"),
        (Huber, TypeError, r"loss must be a name or a skout.losses object. Got <class"),
        (Pinball(0.0), ValueError, r"tau must lie strictly between 0 and 1. Got 0.0"),
        (Pinball(1.0), ValueError, r"tau must lie strictly between 0 and 1. Got 1.0"),
        (Pinball([0.5, 1.5]), ValueError, r"tau must lie strictly between 0 and 1. Got \[0.5, 1"),
        (Pinball(np.nan), ValueError, r"tau must lie strictly between 0 and 1. Got nan"),
        (Pinball("half"), TypeError, r"tau must be a number or a list of numbers. Got 'half'"),
        (Pinball([0.1, 0.5, 0.9]), ValueError, r"tau has 3 levels but y has 2 outputs"),
        (Huber(0.0), ValueError, r"kappa must be a finite number > 0. Got 0.0"),
        (Huber(-1), ValueError, r"kappa must be a finite number > 0. Got -1"),
        (Huber(np.inf), ValueError, r"kappa must be a finite number > 0. Got inf"),
        (EpsilonInsensitive(-0.1), ValueError, r"epsilon must be a finite number >= 0. Got -0.1"),
        (SquaredEpsilonInsensitive(None), TypeError, r"epsilon must be a finite number >= 0. Got"),
        ("hinge", ValueError, r"Hinge\(\) is a loss of labels: use KernelClassifier"),
        (Hinge(), ValueError, r"Hinge\(\) is a loss of labels: use KernelClassifier"),
        ("logistic", ValueError, r"Logistic\(\) is a loss of labels: use KernelClassifier"),
    ],
    ids=str,
)
def test_bad_loss(loss, error, message):
    X, Y, _ = data()
    with pytest.raises(error, match=message):
        machine(None, loss).fit(X, Y)


@pytest.mark.parametrize(
    ("M", "message"),
    [
        (np.eye(3), r"one row and column for each of the 2 outputs. Got shape \(3, 3\)"),
        (np.ones((2, 3)), r"one row and column for each of the 2 outputs. Got shape \(2, 3\)"),
        ([1.0, 2.0], "Expected 2D array"),
        ([[1.0, 0.5], [0.2, 1.0]], r"task_matrix must be symmetric. Got M - M' of up to 0.3"),
        ([[1.0, 2.0], [2.0, 1.0]], r"positive semi-definite and not zero. Got least eigenvalue -1"),
        (np.zeros((2, 2)), r"positive semi-definite and not zero"),
        ([[1.0, np.nan], [np.nan, 1.0]], "task_matrix contains NaN"),
        ([["a", "b"], ["c", "d"]], "could not convert string to float"),
    ],
    ids=str,
)
def test_bad_task_matrix(M, message):
    X, Y, _ = data()
    with pytest.raises(ValueError, match=message):
        machine(None, "huber", 1e-2, M).fit(X, Y)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, r"alpha must be a finite number > 0. Got 0.0"),
        ({"alpha": -1.0}, ValueError, r"alpha must be a finite number > 0. Got -1.0"),
        ({"alpha": [1.0, 0]}, ValueError, r"alpha must be a finite number > 0. Got 0 "),
        ({"alpha": []}, ValueError, "non-empty sequence"),
        ({"alpha": np.nan}, ValueError, r"alpha must be a finite number > 0. Got nan"),
        ({"alpha": "1"}, TypeError, r"alpha must be a finite number > 0. Got '1'"),
        ({"tol": 0.0}, ValueError, r"tol must be a finite number > 0. Got 0.0"),
        ({"tol": -1e-3}, ValueError, r"tol must be a finite number > 0. Got -0.001"),
        ({"max_iter": 0}, ValueError, r"max_iter must be an integer >= 1. Got 0"),
        ({"max_iter": 10.0}, TypeError, r"max_iter must be an integer >= 1. Got 10.0"),
        ({"alpha": [1.0, 2.0], "cv": 1}, ValueError, r"cv|splits|folds"),
        ({"kernel": "gauss"}, ValueError, r"Did you mean 'gaussian'"),
        ({"sketch": "subsampel"}, ValueError, r"Did you mean 'subsample'"),
        ({"random_state": "x"}, ValueError, r"random_state must be"),
    ],
    ids=str,
)
def test_bad_parameters(params, error, message):
    X, Y, _ = data()
    with pytest.raises(error, match=message):
        machine().set_params(**params).fit(X, Y)


def test_more_folds_than_rows_leave_one_out():
    X, Y, _ = data()
    path = {"alpha": [1e-3, 1.0], "tol": 1e-4}
    with pytest.warns(UserWarning, match="cv=31 is larger than the number of rows, 30; using 30"):
        found = machine(SubSample(8), cv=31, **path).fit(X, Y)
    expected = machine(SubSample(8), cv=30, **path).fit(X, Y)
    assert found.cv_results_["fold_loss"].shape == (30, 2)
    assert_allclose(found.cv_results_["fold_loss"], expected.cv_results_["fold_loss"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value):
    X, Y, _ = data()
    bad_X, bad_Y, bad_w = X.copy(), Y.copy(), np.ones(30)
    bad_X[3, 1] = bad_w[3] = value
    bad_Y[3, 1] = np.inf  # NaN is a hole
    for args in ((bad_X, Y), (X, bad_Y), (X, bad_Y[:, 1]), (X, Y, bad_w)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            machine().fit(*args)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        machine().fit(X, Y).predict(bad_X)


@pytest.mark.parametrize("sketch", [None, SubSample(1)], ids=str)
def test_bad_data(sketch):
    X, Y, X_te = data()
    model = machine(sketch)
    with pytest.raises(ValueError, match=r"same number of rows: .* 30 and 29"):
        model.fit(X, Y[:-1])
    with pytest.raises(ValueError, match="the target y is None"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit(X, ["a"] * 30)
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit(X[:, 0], Y)
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(n, d\)|dim 3"):
        model.fit(X, Y[:, :, None])
    with pytest.raises(ValueError, match=r"KernelMachine needs at least two rows. Got 1 sample"):
        model.fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(29,\)"):
        model.fit(X, Y, np.ones(29))
    with pytest.raises(ValueError, match="Negative values"):
        model.fit(X, Y, -np.ones(30))
    with pytest.raises(NotFittedError):
        machine(sketch).predict(X)
    with pytest.raises(ValueError, match="2 features, but KernelMachine is expecting 3"):
        machine(sketch).fit(X, Y).predict(X_te[:, :2])


def test_the_gap_is_that_of_what_predict_gives():
    """With a penalty far below rounding, predictions are not those that the solver saw."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200, 3))
    y = np.sin(X[:, 0])
    model = KernelMachine(
        Gaussian(0.01), None, loss=EpsilonInsensitive(1e-3), alpha=1e-12, tol=1e-6
    )
    with pytest.warns(ConvergenceWarning, match=r"rounding errors.*alpha=1e-12 is too small"):
        model.fit(X, y)
    loss = np.maximum(np.abs(model.predict(X) - y) - 1e-3, 0.0).mean()
    objective = loss + 0.5e-12 * np.sum(model.coef_**2)
    assert_allclose(model.objective_, objective, rtol=1e-6)
    assert model.duality_gap_ > 1e-3
    better = model.set_params(alpha=1e-5).fit(X, y)
    assert better.duality_gap_ <= 1e-6
