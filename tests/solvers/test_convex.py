"""The convex solver, against solvers of another kind, scikit-learn, and its own certificate."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import oracles_convex as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from oracles_convex import Instance
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import skout.solvers.newton as newton
from skout import KernelBasis, memory_limits
from skout.losses import LOSSES, Curvature, MarginLoss
from skout.rows import Memory
from skout.sketches import SubSample
from skout.solvers import ConvexProblem, Solution, solve_convex
from skout.solvers.design import DesignMatrix, coordinates_of
from skout.solvers.problem import balanced


def kind_of(name, **params):
    """A loss: its name and parameters."""
    return name, tuple(params.items())


def name_of(kind):
    return kind[0] + "".join(f"-{value}" for _, value in kind[1])


# Every loss, and parameters that change its character
KINDS = [
    kind_of("squared"),
    kind_of("huber"),
    kind_of("huber", kappa=0.3),
    kind_of("epsilon_insensitive"),
    kind_of("epsilon_insensitive", epsilon=0.0),
    kind_of("squared_epsilon_insensitive"),
    kind_of("squared_epsilon_insensitive", epsilon=0.0),
    kind_of("pinball"),
    kind_of("pinball", tau=0.9),
    kind_of("hinge"),
    kind_of("squared_hinge"),
    kind_of("logistic"),
]
FIRST = [kind for kind in KINDS if not kind[1]]
KINKED = [kind for kind in KINDS if kind[0] in oracle.KINKED]
SHAPES = ["1", "3", "3 mixed", "3 singular"]  # outputs, and the matrix M of a decomposable kernel


def root_of(shape, rng):
    """A with A'A = M and orthogonal rows; one row less than outputs makes M singular."""
    if shape in {"1", "3"}:
        return None
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return (np.array([1.5, 0.7, 0.2])[:, None] * turn)[: 2 if shape == "3 singular" else 3]


@functools.cache
def instance(kind, shape="1", fit_intercept=False, weighted=False, n=40, p=4, alpha=1e-2, seed=0):
    rng = np.random.default_rng(seed)
    d = int(shape[0])
    Z = rng.standard_normal((n, p)) + 0.3
    Y = Z @ rng.standard_normal((p, d)) + rng.standard_normal((n, d)) + 0.5
    if kind[0] in oracle.OF_LABELS:
        Y = np.where(Y > 0, 1.0, -1.0)
    weights = rng.uniform(0, 2, n) * (rng.uniform(size=n) < 0.8) if weighted else None
    return Instance(
        Z, Y, kind[0], alpha, dict(kind[1]), weights, root_of(shape, rng), fit_intercept
    )


def problem(case, Z=None):
    loss = LOSSES[case.loss](**case.params)
    Z = DesignMatrix(case.Z) if Z is None else Z
    return ConvexProblem(Z, case.Y, case.c, loss, case.alpha, case.root, case.fit_intercept)


minimum = functools.cache(oracle.minimise)


every_kind = pytest.mark.parametrize("kind", KINDS, ids=name_of)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.replace(" ", "-"))
with_intercept = pytest.mark.parametrize("fit_intercept", [False, True], ids=["", "intercept"])


# The optimum -------------------------------------------------------------------------------------


@every_kind
@every_shape
@with_intercept
def test_optimum_is_that_of_another_solver(kind, shape, fit_intercept):
    # with and without weights by turns: each of the four pairs with every loss
    case = instance(kind, shape, fit_intercept, weighted=fit_intercept == (" " in shape))
    truth = minimum(case)
    solution = solve_convex(problem(case), tol=1e-9)
    assert solution.gap <= 1e-9
    assert_allclose(solution.primal, truth.upper, rtol=1e-8)
    found = case.objective(solution.theta, solution.intercept)
    assert_allclose(solution.primal, found, rtol=1e-10)
    assert solution.dual <= truth.upper * (1 + 1e-9)
    assert solution.primal >= truth.upper - truth.error
    if case.loss not in oracle.KINKED:  # strongly convex or nearly: the minimiser is unique
        assert_allclose(solution.theta, truth.theta, atol=1e-4)
        assert_allclose(solution.intercept, truth.intercept, atol=1e-4)


@with_intercept
def test_levels_of_several_quantiles(fit_intercept):
    kind = kind_of("pinball", tau=(0.1, 0.5, 0.9))
    for shape in ("3", "3 mixed"):
        case = instance(kind, shape, fit_intercept)
        solution = solve_convex(problem(case), tol=1e-9)
        assert_allclose(solution.primal, minimum(case).upper, rtol=1e-8)
    # with M = I they are three problems
    case = instance(kind, "3", fit_intercept)
    alone = [
        replace(case, Y=case.Y[:, [j]], params={"tau": t}) for j, t in enumerate((0.1, 0.5, 0.9))
    ]
    total = sum(solve_convex(problem(one), tol=1e-9).primal for one in alone)
    assert_allclose(solve_convex(problem(case), tol=1e-9).primal, total, rtol=1e-8)


@every_kind
@pytest.mark.parametrize("shape", ["1", "3", "3 singular"])
@with_intercept
def test_bounds_hold_wherever_it_stops(kind, shape, fit_intercept):
    case = instance(kind, shape, fit_intercept, weighted=True)
    truth = minimum(case)
    stops = [{"tol": tol} for tol in (1e-1, 1e-3, 1e-6)]
    stops += [{"tol": 1e-9, "max_iter": steps} for steps in (0, 1, 2, 3)]
    for stop in stops:
        solution = solve_convex(problem(case), **stop)
        assert solution.dual <= truth.upper * (1 + 1e-9), stop
        assert solution.primal >= truth.upper - truth.error, stop
        assert_allclose(
            solution.primal, case.objective(solution.theta, solution.intercept), rtol=1e-9
        )
        assert solution.gap <= stop["tol"] or solution.n_iter == stop.get("max_iter")


def test_gap_is_relative_to_the_dual():
    zero = np.zeros((1, 1)), np.zeros(1)
    assert_allclose(Solution(*zero, primal=1.1, dual=1.0).gap, 0.1)
    assert Solution(*zero, primal=1.0, dual=1.0).gap == 0.0
    assert Solution(*zero, primal=1.0, dual=1.0 + 1e-16).gap == 0.0  # rounding
    assert Solution(*zero, primal=0.0, dual=0.0).gap == 0.0
    assert Solution(*zero, primal=1.0, dual=-1.0).gap == np.inf
    assert Solution(*zero).gap == np.inf


@every_kind
def test_gap_bounds_the_distance_to_the_optimum(kind):
    case = instance(kind, "3", True)
    for tol in (1e-1, 1e-2, 1e-4):
        solution = solve_convex(problem(case), tol=tol)
        assert solution.primal <= minimum(case).upper * (1 + solution.gap) * (1 + 1e-9)


# scikit-learn ------------------------------------------------------------------------------------


def classes(n=60, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.2
    return X, np.where(X @ rng.standard_normal(p) + rng.standard_normal(n) > 0.3, 1.0, -1.0)


def numbers(n=60, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.2
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n) + 1.0


def ours_and_theirs(loss, params, X, y, alpha, model, fit_intercept):
    """The objective at our solution, and at that of a fitted linear model."""
    case = Instance(X, y[:, None], loss, alpha, params, fit_intercept=fit_intercept)
    solution = solve_convex(problem(case), tol=1e-9)
    intercept = np.atleast_1d(model.intercept_) if fit_intercept else np.zeros(1)
    theirs = case.objective(model.coef_.reshape(-1, 1), intercept)
    return case.objective(solution.theta, solution.intercept), theirs


def check_equal(ours, theirs, rtol=1e-6):
    assert ours <= theirs * (1 + 1e-9)
    assert_allclose(ours, theirs, rtol=rtol)


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_svc(loss, C):
    X, y = classes()
    model = LinearSVC(
        loss=loss, C=C, fit_intercept=False, tol=1e-9, max_iter=10**6, dual=True, random_state=0
    ).fit(X, y)
    check_equal(*ours_and_theirs(loss, {}, X, y, 1 / (len(X) * C), model, False))


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_svr(loss, C):
    X, y = numbers()
    model = LinearSVR(
        loss=loss,
        epsilon=0.3,
        C=C,
        fit_intercept=False,
        tol=1e-9,
        max_iter=10**6,
        dual=True,
        random_state=0,
    ).fit(X, y)
    params = {"epsilon": 0.3}
    check_equal(*ours_and_theirs(loss, params, X, y, 1 / (len(X) * C), model, False))


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_svc_with_intercept(C):
    X, y = classes()
    model = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
    check_equal(*ours_and_theirs("hinge", {}, X, y, 1 / (len(X) * C), model, True))


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_svr_with_intercept(C):
    X, y = numbers()
    model = SVR(kernel="linear", C=C, epsilon=0.3, tol=1e-8).fit(X, y)
    params, alpha = {"epsilon": 0.3}, 1 / (len(X) * C)
    check_equal(*ours_and_theirs("epsilon_insensitive", params, X, y, alpha, model, True))


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@with_intercept
def test_logistic_regression(C, fit_intercept):
    X, y = classes()
    model = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=10**5)
    model.fit(X, y)
    alpha = 1 / (len(X) * C)
    check_equal(*ours_and_theirs("logistic", {}, X, y, alpha, model, fit_intercept))


@with_intercept
def test_huber_regressor(fit_intercept):
    # sigma H(r / sigma) = 2/sigma huber(r) for kappa = epsilon sigma, at the scale that it found
    X, y = numbers()
    y[::7] += 20.0
    model = HuberRegressor(alpha=0.5, fit_intercept=fit_intercept, tol=1e-10, max_iter=10**4)
    model.fit(X, y)
    params = {"kappa": model.epsilon * model.scale_}
    alpha = model.scale_ * 0.5 / len(X)
    check_equal(*ours_and_theirs("huber", params, X, y, alpha, model, fit_intercept))


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.95])
def test_quantile_regressor(tau):
    # a linear program, which is the limit of alpha = 0
    X, y = numbers()
    model = QuantileRegressor(quantile=tau, alpha=0.0, solver="highs").fit(X, y)
    case = Instance(X, y[:, None], "pinball", 1e-9, {"tau": tau}, fit_intercept=True)
    least = case.objective(model.coef_[:, None], np.atleast_1d(model.intercept_))
    solution = solve_convex(problem(case), tol=1e-7)
    assert_allclose(solution.primal, least, rtol=1e-6)
    below = np.mean(y < X @ solution.theta[:, 0] + solution.intercept[0] - 1e-6)
    assert below <= tau <= below + 6.5 / len(y)  # p + 1 points lie on the plane


def test_squared_loss_is_ridge():
    case = instance(KINDS[0], "3", weighted=True)
    Zc = case.Z * case.c[:, None]
    truth = np.linalg.solve(Zc.T @ case.Z + case.alpha * np.eye(4), Zc.T @ case.Y)
    solution = solve_convex(problem(case))
    assert_allclose(solution.theta, truth, rtol=1e-9)
    assert solution.n_iter == 1


# Invariances -------------------------------------------------------------------------------------


@every_kind
@with_intercept
def test_weights_are_repetitions(kind, fit_intercept):
    case = instance(kind, "3", fit_intercept)
    times = np.arange(40) % 4  # some rows not at all
    weighted = solve_convex(problem(replace(case, weights=times.astype(float))), tol=1e-8)
    repeated = replace(case, Z=np.repeat(case.Z, times, axis=0), Y=np.repeat(case.Y, times, axis=0))
    assert_allclose(weighted.primal, solve_convex(problem(repeated), tol=1e-8).primal, rtol=1e-7)


@every_kind
def test_order_of_rows_does_not_matter(kind):
    case = instance(kind, "3", True, weighted=True)
    order = np.random.default_rng(1).permutation(40)
    mixed = replace(case, Z=case.Z[order], Y=case.Y[order], weights=case.weights[order])
    found, again = (solve_convex(problem(one), tol=1e-8) for one in (case, mixed))
    assert_allclose(found.primal, again.primal, rtol=1e-7)


@every_kind
@pytest.mark.parametrize("shape", ["1", "3"])
def test_a_start_is_no_loss(kind, shape):
    """From the solution of another alpha it reaches tol, and smooth losses in fewer steps."""
    for alpha, other in ((1e-3, 2e-3), (1e-3, 1e-4), (1e-1, 1e-4)):
        case = instance(kind, shape, True, alpha=alpha)
        start = solve_convex(problem(replace(case, alpha=other)), tol=1e-8)
        before = start.theta.copy(), start.intercept.copy()
        warm = solve_convex(problem(case), tol=1e-8, start=start)
        cold = solve_convex(problem(case), tol=1e-8)
        assert warm.gap <= 1e-8
        assert_allclose(warm.primal, cold.primal, rtol=1e-7)
        if kind not in KINKED and other == 2e-3:
            assert warm.n_iter <= cold.n_iter
        assert_array_equal(start.theta, before[0])
        assert_array_equal(start.intercept, before[1])


@every_kind
def test_the_solution_is_a_fine_start(kind):
    case = instance(kind, "1", True)
    found = solve_convex(problem(case), tol=1e-6)
    again = solve_convex(problem(case), tol=1e-5, start=found)
    assert again.gap <= 1e-5
    assert again.primal <= found.primal * (1 + 1e-5)


def test_arguments_are_left_alone():
    for kind in FIRST:
        case = instance(kind, "3 mixed", True, weighted=True)
        arrays = [case.Z.copy(), case.Y.copy(), case.c.copy(), case.root.copy()]
        for array in arrays:
            array.flags.writeable = False
        Z, Y, c, A = arrays
        loss = LOSSES[case.loss](**case.params)
        solve_convex(ConvexProblem(DesignMatrix(Z), Y, c, loss, 1e-2, A, True))


# Losses of the norm of the residual: their curvature has entries between outputs.
COUPLED = {"huber", "epsilon_insensitive", "squared_epsilon_insensitive"}

# Paths of the computation ------------------------------------------------------------------------


@every_shape
@with_intercept
@pytest.mark.parametrize("coupled", [False, True], ids=["", "coupled"])
@pytest.mark.parametrize("dense", [False, True], ids=["cg", "dense"])
def test_newton_direction_solves_its_system(shape, fit_intercept, coupled, dense, monkeypatch):
    """(sum_i c_i J_i' K_i J_i + alpha P) x = -gradient, written out."""
    case = instance(KINDS[0], shape, fit_intercept, weighted=True)
    rng = np.random.default_rng(0)
    n, d = case.Y.shape
    bend = Curvature(rng.uniform(0.5, 2.0, (n, d)))
    K = np.einsum("ij,jk->ijk", bend.diagonal, np.eye(d))
    if coupled:
        bend = Curvature(bend.diagonal, rng.uniform(-0.1, 1.0, n), rng.uniform(-1, 1, (n, d)))
        K += np.einsum("i,ij,ik->ijk", bend.weight, bend.u, bend.u)
    J = case.jacobian()
    size, rest = case.Z.shape[1] * len(case.A), d * fit_intercept
    H = np.einsum("i,iab,iac,icd->bd", case.c, J, K, J)
    H += np.diag(np.append(np.full(size, case.alpha), np.zeros(rest)))
    grad, grad_b = rng.standard_normal((case.Z.shape[1], len(case.A))), rng.standard_normal(d)
    truth = np.linalg.solve(H, -np.append(grad.ravel(), grad_b[:rest]))
    if not dense:
        monkeypatch.setattr(newton, "_DENSE", 0)
        monkeypatch.setattr(newton, "_CG_TOL", 1e-9)
    d_theta, d_b = newton.newton_direction(problem(case), bend, grad, grad_b)
    expected_theta, expected_b = case.split(truth)
    assert_allclose(d_theta, expected_theta, rtol=1e-6, atol=1e-8)
    assert_allclose(d_b, expected_b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", FIRST, ids=name_of)
@pytest.mark.parametrize("shape", ["3", "3 mixed", "3 singular"])
@with_intercept
def test_conjugate_gradients_find_the_same(kind, shape, fit_intercept, monkeypatch):
    case = instance(kind, shape, fit_intercept, weighted=True)
    dense = solve_convex(problem(case), tol=1e-6)
    calls = []
    inner = newton._by_steps
    monkeypatch.setattr(newton, "_DENSE", 0)
    monkeypatch.setattr(newton, "_by_steps", lambda *args: calls.append(1) or inner(*args))
    iterative = solve_convex(problem(case), tol=1e-6)
    assert iterative.gap <= 1e-6
    assert_allclose(iterative.primal, dense.primal, rtol=2e-6)
    assert bool(calls) == (case.root is not None or case.loss in COUPLED)


@pytest.mark.parametrize("kind", FIRST, ids=name_of)
@with_intercept
def test_streamed_coordinates_give_the_same(kind, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    Y = np.sin(X[:, :2]) + 0.3 * rng.standard_normal((50, 2))
    if kind[0] in oracle.OF_LABELS:
        Y = np.where(Y > 0, 1.0, -1.0)
    basis = KernelBasis("gaussian", SubSample(8), random_state=0).fit(X)
    case = Instance(basis.transform(X), Y, kind[0], 1e-3, fit_intercept=fit_intercept)
    Z = coordinates_of(basis.engine_, Memory(X), dtype=None)
    stored = solve_convex(problem(case, Z), tol=1e-7)
    with memory_limits(block_rows=7, coordinates_mb=0):
        Z = coordinates_of(basis.engine_, Memory(X), dtype=None)
        assert not Z.is_held
        streamed = solve_convex(problem(case, Z), tol=1e-7)
    assert streamed.gap <= 1e-7
    assert_allclose(streamed.primal, stored.primal, rtol=1e-6)
    assert_allclose(streamed.primal, minimum(case).upper, rtol=1e-6)


@every_kind
@with_intercept
def test_single_precision_reaches_a_usual_tolerance(kind, fit_intercept):
    case = instance(kind, "3", fit_intercept, n=60, p=6)
    Z = DesignMatrix(case.Z.astype(np.float32))
    solution = solve_convex(problem(case, Z), tol=1e-4)
    assert solution.gap <= 1e-4
    exact = minimum(case)
    assert_allclose(solution.primal, exact.upper, rtol=2e-4)
    found = case.objective(solution.theta, solution.intercept)
    assert_allclose(found, exact.upper, rtol=2e-4)
    assert solution.theta.dtype == np.float64


@every_kind
@with_intercept
def test_many_rows_start_from_a_sample(kind, fit_intercept):
    case = instance(kind, "3", fit_intercept, weighted=True, n=600, p=2)
    solution = solve_convex(problem(case), tol=1e-6)
    assert solution.gap <= 1e-6
    without = solve_convex(problem(case), tol=1e-6, start=Solution(np.zeros((2, 3)), np.zeros(3)))
    assert_allclose(solution.primal, without.primal, rtol=2e-6)


@pytest.mark.parametrize("kind", FIRST, ids=name_of)
def test_rows_of_weight_zero_may_be_the_sample(kind):
    """Every second row counts nothing, and an even stride sees no other."""
    case = instance(kind, "1", True, n=600, p=2)
    weights = np.tile([0.0, 1.0], 300)
    half = replace(case, Z=case.Z[1::2], Y=case.Y[1::2])
    solution = solve_convex(problem(replace(case, weights=weights)), tol=1e-6)
    assert_allclose(solution.primal, solve_convex(problem(half), tol=1e-6).primal, rtol=2e-6)


def test_progress_is_shown_on_demand(capsys):
    case = instance(kind_of("hinge"))
    solve_convex(problem(case))
    assert capsys.readouterr().err == ""
    solve_convex(problem(case), verbose=True)
    assert "newton" in capsys.readouterr().err


# The certificate ---------------------------------------------------------------------------------

MIDDLE = st.floats(-3.0, 3.0, allow_subnormal=False)


@given(
    kind=st.sampled_from(KINDS),
    G=hnp.arrays(np.float64, (6, 2), elements=MIDDLE),
    Y=hnp.arrays(np.float64, (6, 2), elements=MIDDLE),
    weights=hnp.arrays(np.float64, 6, elements=st.floats(0.0, 1.0, allow_subnormal=False)),
)
@settings(max_examples=150)
def test_balanced_sums_to_zero_within_the_domain(kind, G, Y, weights):
    loss = LOSSES[kind[0]](**dict(kind[1]))
    if isinstance(loss, MarginLoss):
        Y = np.where(Y < 0, -1.0, 1.0)
    inner = loss.clip(G, Y)
    found = balanced(inner, weights)
    assert_allclose(weights @ found, 0.0, atol=1e-12)
    assert np.isfinite(loss.conjugate(found, Y)).all()
    assert np.all(np.abs(found) <= np.abs(inner))
    assert np.all(found * inner >= 0.0)


def test_balanced_changes_no_more_than_it_must():
    G = np.array([[1.0], [2.0], [-3.0]])
    assert_allclose(balanced(G, np.ones(3)), G)
    assert_allclose(balanced(G, np.array([1.0, 1.0, 0.5])), [[0.5], [1.0], [-3.0]])
    assert_allclose(balanced(np.abs(G), np.ones(3)), 0.0)
    assert_allclose(balanced(np.zeros((3, 1)), np.ones(3)), 0.0)


@given(
    kind=st.sampled_from(KINDS),
    G=hnp.arrays(np.float64, (40, 3), elements=MIDDLE),
    theta=hnp.arrays(np.float64, (4, 2), elements=MIDDLE),
    fit_intercept=st.booleans(),
)
def test_any_pair_is_weakly_dual(kind, G, theta, fit_intercept):
    case = instance(kind, "3 singular", fit_intercept, weighted=True)
    ours = problem(case)
    intercept = np.ones(3) * fit_intercept
    F = ours.predict(theta, intercept)
    assert_allclose(F, case.Z @ theta @ case.root + intercept, atol=1e-12)
    primal = ours.primal(theta, F)
    assert_allclose(primal, case.objective(theta, intercept), rtol=1e-10)
    assert ours.dual(ours.loss.clip(G, ours.Y)) <= primal * (1 + 1e-12)


# Hard cases --------------------------------------------------------------------------------------


def plain(rng, n, p, d):
    Z = rng.standard_normal((n, p))
    return Z, Z @ rng.standard_normal((p, d)) + rng.standard_normal((n, d)) + 0.5


def duplicated(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    return np.repeat(Z[:6], 10, axis=0), Y


def repeated(rng, d):
    Z, Y = duplicated(rng, d)
    return Z, np.repeat(Y[:6], 10, axis=0)


def few_values(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    return np.round(Z), np.round(Y)


def heavy_tails(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    return Z, Y + 10.0 * rng.standard_cauchy(Y.shape)


def one_outlier(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    Y[0] = 1e8
    return Z, Y


def of_scale(scale, rng, d):
    Z, Y = plain(rng, 60, 5, d)
    return Z, scale * Y


def no_noise(rng, d):
    """Perfectly separable, too, for labels."""
    Z = rng.standard_normal((60, 5))
    return Z, Z @ rng.standard_normal((5, d))


def far_from_zero(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    return Z + 100.0, Y + 1e3 * (1.0 - 2.0 * (np.arange(60) % 3 == 0))[:, None]


def a_constant_column(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    Z[:, 0] = 1.0
    return Z, Y


def nothing_to_learn_from(rng, d):
    Z, Y = plain(rng, 60, 5, d)
    return np.zeros_like(Z), Y


def one_against_all(rng, d):
    labels = np.where(np.arange(60) == 0, 1.0, -1.0)
    return rng.standard_normal((60, 5)), np.tile(labels[:, None], d)


CASES = {
    "plain": lambda rng, d: plain(rng, 60, 5, d),
    "odd": lambda rng, d: plain(rng, 61, 5, d),
    "duplicated": duplicated,
    "repeated": repeated,
    "few values": few_values,
    "heavy tails": heavy_tails,
    "one outlier": one_outlier,
    "scale 1e-6": functools.partial(of_scale, 1e-6),
    "scale 1e6": functools.partial(of_scale, 1e6),
    "n < p": lambda rng, d: plain(rng, 10, 40, d),
    "no noise": no_noise,
    "p = 1": lambda rng, d: plain(rng, 60, 1, d),
    "n = 2": lambda rng, d: plain(rng, 2, 5, d),
    "n = 3, p = 1": lambda rng, d: plain(rng, 3, 1, d),
    "far from zero": far_from_zero,
    "a constant column": a_constant_column,
    "nothing to learn from": nothing_to_learn_from,
    "one against all": one_against_all,
}
HARD_KINDS = [
    *FIRST,
    kind_of("epsilon_insensitive", epsilon=0.0),
    kind_of("pinball", tau=0.001),
    kind_of("pinball", tau=0.999),
]
ALPHAS = (1e-9, 1e-5, 1e-1, 1e2)


@pytest.mark.parametrize("kind", HARD_KINDS, ids=name_of)
@pytest.mark.parametrize("name", CASES, ids=lambda name: name.replace(" ", "-"))
def test_hard_cases_converge(name, kind):
    failures = []
    # what lies between these alphas is easier
    for d, fit_intercept, alphas in (
        (1, False, [1e-9]),
        (1, True, [1e-9, 1e-5]),
        (3, True, [1e-9, 1e-5, 1e2]),
    ):
        Z, Y = CASES[name](np.random.default_rng(0), d)
        if kind[0] in oracle.OF_LABELS:
            Y = np.where(Y > 0, 1.0, -1.0)
            if fit_intercept and np.any(np.ptp(Y, axis=0) == 0.0):
                continue  # one class: see below
        for alpha in alphas:
            case = Instance(Z, Y, kind[0], alpha, dict(kind[1]), fit_intercept=fit_intercept)
            solution = solve_convex(problem(case), tol=1e-6, max_iter=200)
            if not solution.gap <= 1e-6:
                failures.append((d, fit_intercept, alpha, solution.gap, solution.primal))
    assert not failures, "d, intercept, alpha, gap, P:\n" + "\n".join(map(str, failures))


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_targets_that_are_all_equal(kind):
    """With an intercept the optimum is 0, up to rounding, and the solver should say so."""
    Z = np.random.default_rng(0).standard_normal((30, 3))
    failures = []
    for value in (1.0,) if kind[0] in oracle.OF_LABELS else (0.0, 0.1, 3.0, 1e6):
        for d, alpha in itertools.product((1, 3), ALPHAS):
            Y = np.full((30, d), value)
            case = Instance(Z, Y, kind[0], alpha, dict(kind[1]), fit_intercept=True)
            solution = solve_convex(problem(case), tol=1e-6, max_iter=200)
            # for one class the logistic loss has no minimiser, but tends to 0
            if not (solution.gap <= 1e-6 or kind[0] == "logistic") or solution.primal > 1e-6:
                failures.append((value, d, alpha, solution.gap, solution.primal))
    assert not failures, "value, d, alpha, gap, P:\n" + "\n".join(map(str, failures))


@with_intercept
@pytest.mark.parametrize("name", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_a_tube_around_everything(name, fit_intercept):
    Z, Y = plain(np.random.default_rng(0), 30, 3, 2)
    params = {"epsilon": 1.1 * np.sqrt((Y**2).sum(axis=1)).max()}
    if fit_intercept:
        params["epsilon"] *= 2.0
    case = Instance(Z, Y, name, 1e-2, params, fit_intercept=fit_intercept)
    solution = solve_convex(problem(case))
    assert solution.primal == solution.gap == 0.0
    assert_array_equal(solution.theta, 0.0)


@pytest.mark.parametrize("name", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_a_tube_around_everything_but_not_around_the_mean(name):
    Y = np.array([[0.0], [0.0], [0.0], [10.0]])  # within 6 of 5, but not of 2.5
    case = Instance(np.ones((4, 1)), Y, name, 1e-2, {"epsilon": 6.0}, fit_intercept=True)
    solution = solve_convex(problem(case), tol=1e-6)
    assert solution.primal <= 1e-9
    assert solution.gap <= 1e-6


# What did not converge once, from random searches over small problems with many ties
ABSOLUTE = kind_of("epsilon_insensitive", epsilon=0.0)
TUBE = kind_of("epsilon_insensitive", epsilon=0.5)
MEDIAN = kind_of("pinball")
LOW = kind_of("pinball", tau=0.3)
TIES = [
    (ABSOLUTE, [-2, -2, 1], [[1, 0], [-3, 2], [2, 0]], None, True, 1e-2),
    (ABSOLUTE, [1, -1, 1], [[3, -1], [-2, -1], [0, 0]], None, True, 1e-4),
    (TUBE, [2, 0, 0, 0], [[2, 0], [3, -2], [0, -2], [3, -3]], None, True, 1e-4),
    (MEDIAN, [0, -2], [[-3, 1], [-3, 2]], None, True, 1.0),
    (MEDIAN, [1, -1], [[-3, -1], [-1, 1]], None, False, 1e-5),
    (MEDIAN, [-2, 1], [[3, 3], [1, 3]], [[1, 1]], True, 1.0),
    (LOW, [2, -2], [[1, 1], [3, -1]], None, False, 1e-5),
    (LOW, [0, 1], [[1, -2], [-1, -3]], [[1, 1]], False, 0.1),
    (MEDIAN, [-2, 0, 1, 0, 1], [[3, -1], [1, -2], [0, 3], [2, -3], [-2, 2]], [[1, 1]], False, 0.1),
]


@pytest.mark.parametrize(("kind", "z", "Y", "root", "fit_intercept", "alpha"), TIES)
def test_what_did_not_converge_once(kind, z, Y, root, fit_intercept, alpha):
    case = Instance(
        np.array(z, dtype=float)[:, None],
        np.array(Y, dtype=float),
        kind[0],
        alpha,
        dict(kind[1]),
        root=None if root is None else np.array(root, dtype=float),
        fit_intercept=fit_intercept,
    )
    solution = solve_convex(problem(case), tol=1e-6)
    assert solution.gap <= 1e-6
    assert_allclose(solution.primal, oracle.minimise(case).upper, rtol=2e-6)


@pytest.mark.parametrize("kind", KINKED, ids=name_of)
def test_small_problems_with_many_ties(kind):
    rng = np.random.default_rng(0)
    failures = []
    for k in range(40):
        n = int(rng.integers(2, 6))
        Z = rng.integers(-2, 3, (n, 1)).astype(float)
        Y = rng.integers(-3, 4, (n, 2)).astype(float)
        if kind[0] == "hinge":
            Y = np.where(Y > 0, 1.0, -1.0)
        root = None if k % 2 else np.array([[1.0, 1.0]])
        alpha = 10.0 ** rng.integers(-5, 1)
        case = Instance(Z, Y, kind[0], alpha, dict(kind[1]), root=root, fit_intercept=bool(k % 3))
        if case.fit_intercept and np.any(np.ptp(Y, axis=0) == 0.0):
            continue  # the optimum may be 0: see above
        solution = solve_convex(problem(case), tol=1e-6)
        if not solution.gap <= 1e-6:
            failures.append((Z[:, 0], Y, root, case.fit_intercept, alpha, solution.gap))
    assert not failures, "\n".join(map(str, failures))


@with_intercept
@pytest.mark.parametrize(("scale", "alpha"), [(1e2, 1e-3), (1e2, 1e-7), (1e4, 1e-5), (1e6, 1e-7)])
def test_huber_whose_kappa_is_far_below_the_residuals(scale, alpha, fit_intercept):
    Z, Y = plain(np.random.default_rng(1), 200, 50, 1)
    case = Instance(Z, scale * Y, "huber", alpha, fit_intercept=fit_intercept)
    solution = solve_convex(problem(case), tol=1e-6, max_iter=200)
    assert solution.gap <= 1e-6


@with_intercept
@pytest.mark.parametrize("alpha", [1e-9, 1e-7, 1e-5])
@pytest.mark.parametrize(("n", "p"), [(10, 40), (30, 30)])
def test_squared_tube_that_holds_all_rows(n, p, alpha, fit_intercept):
    """As alpha tends to 0 the loss becomes the constraint ||f - y|| <= epsilon."""
    Z, Y = plain(np.random.default_rng(1), n, p, 3)
    case = Instance(Z, Y, "squared_epsilon_insensitive", alpha, fit_intercept=fit_intercept)
    solution = solve_convex(problem(case), tol=1e-6, max_iter=200)
    assert solution.gap <= 1e-6


@pytest.mark.parametrize("loss", ["huber", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("max_iter", [29, 30, 31, 45, 60])
def test_a_second_start_keeps_to_max_iter(loss, max_iter):
    Z, Y = plain(np.random.default_rng(1), 10, 40, 3)
    case = Instance(Z, 1e6 * Y if loss == "huber" else Y, loss, 1e-9)
    solution = solve_convex(problem(case), tol=1e-9, max_iter=max_iter)
    assert 1 <= solution.n_iter <= max_iter
    assert np.isfinite(solution.primal)
    assert solution.dual <= solution.primal
