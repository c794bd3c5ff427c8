"""Outputs that a matrix relates: systems of all entries, nuclear norms, and what M does."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skout import (
    InducedMachine,
    KernelBasis,
    KernelMachine,
    KernelRidge,
    StructuredPredictor,
    graph_task_matrix,
    iokr,
    memory_limits,
    sisokr,
)
from skout.basis.moments import block_moments
from skout.kernels import Gaussian
from skout.sketches import PSparsified, SubSample
from skout.solvers.ridge.coupling import CoupledMoments, _best_matrix, coupled
from skout.sources import Blocks

N, D, ALPHA = 50, 4, 1e-2
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = RNG.standard_normal((N, D)) + np.arange(D)
HOLED = np.where(RNG.random((N, D)) < 0.5, np.nan, Y)
W = RNG.uniform(0.5, 2.0, N)
ROOT = RNG.standard_normal((D, D))
MATRICES = {
    "full": ROOT @ ROOT.T,
    "of rank two": ROOT[:, :2] @ ROOT[:, :2].T,
    "identity": np.eye(D),
    "graph": graph_task_matrix(np.ones((D, D)) - np.eye(D), 0.7),
}
KERNEL = Gaussian(0.5)


def kernel(A, B):
    return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2))


def by_entries(y, M, weights=None, intercept=False, gram=None):
    """One kernel system of all entries that are there: k(x, x') M_jj' (2.20)."""
    K = kernel(X, X) if gram is None else gram
    i, j = np.argwhere(~np.isnan(y)).T
    w = np.ones(len(i)) if weights is None else weights[i]
    n = np.bincount(j, w)[j]  # each output counts by the mean over its own rows
    A = K[np.ix_(i, i)] * M[np.ix_(j, j)] + ALPHA * np.diag(n / w)
    ones = np.eye(D)[j] if intercept else np.zeros((len(i), 0))
    q = ones.shape[1]
    system = np.block([[A, ones], [ones.T, np.zeros((q, q))]])
    solution = np.linalg.solve(system, np.append(y[i, j], np.zeros(q)))
    c, b = solution[: len(i)], np.append(solution[len(i) :], np.zeros(D - q))
    return np.column_stack([(K[:, i] * M[k, j]) @ c + b[k] for k in range(D)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("sketch", [None, SubSample(N)], ids=["exact", "sketched"])
@pytest.mark.parametrize("name", MATRICES)
def test_ridge_is_the_system_of_all_entries(name, sketch, holes, intercept, weighted):
    y, weights = HOLED if holes else Y, W if weighted else None
    model = KernelRidge(
        KERNEL, sketch, alpha=ALPHA, task_matrix=MATRICES[name], fit_intercept=intercept,
        random_state=0,
    )  # fmt: skip
    expected = by_entries(y, MATRICES[name], weights, intercept)
    model.fit(X, y, sample_weight=weights)
    assert_allclose(model.predict(X), expected, atol=1e-7)
    assert_allclose(model.task_matrix_, MATRICES[name])
    assert holes or model.solver_report_["iterations"] <= 1  # one decomposition does it


def test_small_tables_are_one_system(monkeypatch):
    model = KernelRidge(KERNEL, alpha=ALPHA, task_matrix=MATRICES["full"], fit_intercept=True)
    found = model.fit(X, HOLED, sample_weight=W)
    assert found.solver_report_["iterations"] == 0
    expected = found.predict(X)
    monkeypatch.setattr("skout.solvers.ridge.rows._MOST_ENTRIES", 0)
    found = model.fit(X, HOLED, sample_weight=W)
    assert found.solver_report_["iterations"] > 1
    assert_allclose(found.predict(X), expected, atol=1e-7)


def test_small_sketches():
    model = KernelRidge(
        KERNEL, PSparsified(15), alpha=ALPHA, task_matrix=MATRICES["full"], random_state=0
    )
    for y in (Y, HOLED):
        found = model.fit(X, y).predict(X)
        Z = model.basis_.transform(X)
        assert_allclose(found, by_entries(y, MATRICES["full"], gram=Z @ Z.T), atol=1e-7)
        with memory_limits(coordinates_mb=0.001):  # no room for a matrix for each mask
            again = model.fit(X, y)
        assert_allclose(again.predict(X), found, atol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("y", [Y, HOLED], ids=["full", "holes"])
@pytest.mark.parametrize("sketch", [None, SubSample(20)], ids=["exact", "sketched"])
def test_the_identity_leaves_outputs_apart(sketch, y, intercept):
    model = KernelRidge(KERNEL, sketch, alpha=ALPHA, fit_intercept=intercept, random_state=0)
    expected = model.fit(X, y, sample_weight=W).predict(X)
    model.set_params(task_matrix=np.eye(D))
    assert_allclose(model.fit(X, y, sample_weight=W).predict(X), expected, atol=1e-8)
    with memory_limits(coordinates_mb=0.001):  # no room for a matrix for each mask
        assert_allclose(model.fit(X, y, sample_weight=W).predict(X), expected, atol=1e-8)


def test_as_the_machine_with_squared_loss():
    options = {"alpha": ALPHA, "task_matrix": MATRICES["full"], "fit_intercept": True}
    machine = KernelMachine(KERNEL, loss="squared", tol=1e-11, **options).fit(X, Y)
    assert_allclose(
        KernelRidge(KERNEL, **options).fit(X, Y).predict(X), machine.predict(X), atol=1e-6
    )


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("sketch", [None, SubSample(20)], ids=["exact", "sketched"])
def test_alpha_is_chosen_by_what_is_there(sketch, holes):
    y, alphas = HOLED if holes else Y, [1e-3, 1e-1]
    splits = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(1, N, 2), np.arange(0, N, 2))]
    options = {"task_matrix": MATRICES["full"], "random_state": 0}
    model = KernelRidge(KERNEL, sketch, alpha=alphas, cv=splits, **options).fit(X, y)
    given = {} if sketch is None else {"landmarks": X}
    for (train, test), losses in zip(splits, model.cv_results_["fold_loss"], strict=True):
        for alpha, loss in zip(alphas, losses, strict=True):
            fold = KernelRidge(KERNEL, sketch, alpha=alpha, **options)
            left = fold.fit(X[train], y[train], **given).predict(X[test]) - y[test]
            assert_allclose(loss, np.nanmean(left**2, axis=0).mean(), rtol=1e-3)


def test_pieces_and_blocks():
    model = KernelRidge(
        KERNEL, SubSample(20), alpha=ALPHA, task_matrix=MATRICES["full"], random_state=0
    )
    expected = model.fit(X, HOLED, landmarks=X).predict(X)
    parts = clone(model)
    parts.partial_fit(X[:20], HOLED[:20], landmarks=X).partial_fit(X[20:], HOLED[20:])
    assert_allclose(parts.predict(X), expected, atol=1e-7)
    blocks = Blocks(lambda: ((X[a : a + 15], HOLED[a : a + 15]) for a in range(0, N, 15)), n=N)
    assert_allclose(parts.fit(blocks, landmarks=X).predict(X), expected, atol=1e-7)


# A learnt matrix ----------------------------------------------------------------------------------


def related(n, seed, noise=0.3):
    """Outputs that are mixtures of two functions, of which the last has few rows."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-2, 2, (n, 2))
    two = np.column_stack([np.sin(2 * rows[:, 0]), np.cos(2 * rows[:, 1])])
    mix = np.random.default_rng(7).standard_normal((2, 6))
    return rows, two @ mix + noise * rng.standard_normal((n, 6))


def objective(C, Z, T, alpha):
    nuclear = np.linalg.svd(C, compute_uv=False).sum()
    return np.nanmean((T - Z @ C) ** 2, axis=0).sum() / 2 + alpha / (2 * T.shape[1]) * nuclear**2


@pytest.mark.parametrize("holes", [False, True])
def test_learnt_is_the_least_squared_nuclear_norm(holes, monkeypatch):
    """Given C the best M of trace d leaves |C|_*^2 / d, which is convex: no step makes it less."""
    monkeypatch.setattr("skout.solvers.ridge.coupling._IDENTITY", 1e-7)
    monkeypatch.setattr("skout.solvers.ridge.coupling._CHANGE", 1e-7)
    monkeypatch.setattr("skout.solvers.ridge.coupling._ROUNDS", 2000)
    monkeypatch.setattr("skout.solvers.ridge.coupling._LOOSE", 1e-9)
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((60, 5))
    T = Z @ rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4)) + rng.standard_normal((60, 4))
    T = np.where(rng.random(T.shape) < 0.4, np.nan, T) if holes else T
    fit = coupled(CoupledMoments(block_moments(Z.copy(), T, None)), 0.3, "learned")
    least = objective(fit.coef, Z, T, 0.3)
    assert_allclose(np.trace(fit.task_matrix), 4.0)
    for _ in range(200):
        step = rng.standard_normal((5, 4)) * 10.0 ** rng.uniform(-4, 0)
        assert objective(fit.coef + step, Z, T, 0.3) > least - 1e-7
    for scale in (0.99, 1.01):
        assert objective(scale * fit.coef, Z, T, 0.3) > least - 1e-7


def test_the_best_matrix_of_coefficients():
    C = RNG.standard_normal((7, 3))
    M = _best_matrix(C)
    least = np.trace(C @ np.linalg.solve(M, C.T))
    for _ in range(50):
        B = M + 0.05 * (lambda A: A + A.T)(RNG.standard_normal((3, 3)))
        B *= 3.0 / np.trace(B)
        if np.linalg.eigvalsh(B)[0] > 0.0:
            assert np.trace(C @ np.linalg.solve(B, C.T)) > 0.999 * least
    assert_allclose(_best_matrix(np.zeros((7, 3))), np.eye(3))


@pytest.mark.parametrize("sketch", [None, SubSample(60)], ids=["exact", "sketched"])
def test_outputs_with_few_rows_borrow_from_others(sketch):
    rows, y = related(300, 0)
    y[40:, 5] = np.nan
    new, truth = related(500, 1, noise=0.0)
    alphas = [1e-4, 1e-3, 1e-2, 1e-1]
    errors = []
    for tasks in (None, "learned"):
        model = KernelRidge(
            Gaussian(1.0), sketch, alpha=alphas, task_matrix=tasks, random_state=0
        ).fit(rows, y)
        errors.append(np.mean((model.predict(new)[:, 5] - truth[:, 5]) ** 2))
    assert errors[1] < 0.8 * errors[0]
    values = np.linalg.eigvalsh(model.task_matrix_)[::-1]
    assert values[:2].sum() > 0.7 * values.sum()  # two functions


# Structured outputs -------------------------------------------------------------------------------

SETS = (RNG.random((N, 3)) < 0.5).astype(float)


def test_iokr_relates_the_columns_of_a_linear_kernel():
    M = ROOT[:3, :3] @ ROOT[:3, :3].T + np.eye(3)
    model = iokr(KERNEL, "linear", alpha=ALPHA, task_matrix=M).fit(X, SETS)
    basis = model.output_basis_
    E = basis.combine(basis.landmarks_)
    F = model.predict_coordinates(X) @ E  # back to columns
    ridge = KernelRidge(KERNEL, alpha=ALPHA, task_matrix=M).fit(X, SETS)
    assert_allclose(F, ridge.predict(X), atol=1e-7)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_factories_pass_it_on(loss):
    model = iokr(KERNEL, "linear", alpha=ALPHA, task_matrix=np.eye(3), loss=loss).fit(X, SETS)
    plain = iokr(KERNEL, "linear", alpha=ALPHA, loss=loss).fit(X, SETS)
    assert_allclose(model.predict_coordinates(X), plain.predict_coordinates(X), atol=1e-6)
    other = iokr(KERNEL, "linear", alpha=ALPHA, task_matrix=np.diag([1, 1, 9.0]), loss=loss)
    assert (
        np.abs(other.fit(X, SETS).predict_coordinates(X) - model.predict_coordinates(X)).max()
        > 1e-3
    )


def test_a_matrix_of_coordinates_is_learnt():
    model = sisokr(KERNEL, "f1", alpha=[1e-3, 1e-1], task_matrix="learned", random_state=0)
    model.fit(X, SETS)
    M = model.regressor_.task_matrix_
    assert M.shape == (model.output_basis_.rank_,) * 2
    assert model.predict(X).shape == SETS.shape
    assert "fold_score" in model.cv_results_


def test_induced_machine_takes_a_matrix():
    M = MATRICES["full"]
    residual = RNG.random(N)
    options = {"alpha": ALPHA, "loss": "squared", "tol": 1e-10}
    expected = KernelMachine(KERNEL, task_matrix=M, **options).fit(X, Y).predict(X)
    model = InducedMachine(KERNEL, task_matrix=M, **options)
    assert_allclose(model.fit(X, Y).predict(X), expected, atol=1e-6)
    # with squared loss the residual is a constant
    assert_allclose(model.fit(X, Y, residual=residual).predict(X), expected, atol=1e-5)
    basis = KernelBasis("linear")
    structured = StructuredPredictor(InducedMachine(KERNEL, task_matrix=np.eye(3)), basis)
    assert structured.fit(X, SETS).predict(X).shape == SETS.shape


def test_mistakes():
    for bad, match in (
        ("learned", "task_matrix"),
        (np.eye(3), "each of the 4"),
        (-np.eye(D), "pos"),
    ):
        with pytest.raises(ValueError, match=match):
            KernelRidge(KERNEL, task_matrix=bad).fit(X, Y)
    with pytest.raises(ValueError, match=r'solver="direct"'):
        KernelRidge(KERNEL, task_matrix=np.eye(D), solver="cg").fit(X, Y)
    with pytest.raises(ValueError, match="return_std is not available"):
        KernelRidge(KERNEL, task_matrix=np.eye(D)).fit(X, Y).predict(X, return_std=True)
