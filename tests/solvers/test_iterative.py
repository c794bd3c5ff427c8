"""Conjugate gradients against direct solutions: landmarks and exact, every preconditioner."""

import warnings
from unittest import mock

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skout import KernelRidge, iokr, load, memory_limits, save, sisokr
from skout._numerics import checkpoints, factors
from skout._numerics.factors import add_gram, cholesky
from skout.kernels import Gaussian
from skout.rows import Memory
from skout.sketches import PSparsified, SubSample
from skout.solvers.cg import CGState, conjugate_gradients, refined
from skout.solvers.ridge import gram, products, system
from skout.solvers.ridge.system import (
    cheaper,
    exact_costs,
    preconditioner_costs,
    sketched_costs,
)
from skout.sources import Blocks

torch = extra("torch")

RNG = np.random.default_rng(0)
N, D = 500, 4
X = RNG.standard_normal((N, D))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * RNG.standard_normal((N, 2))
W = RNG.uniform(0.5, 2.0, N)
NEW = RNG.standard_normal((50, D))
SKETCH = SubSample(40)


def ridge(sketch=SKETCH, **options):
    options = {"alpha": 1e-4, "random_state": 0, "solver": "cg"} | options
    return KernelRidge(Gaussian(0.1), sketch, **options)


@pytest.fixture
def card():
    """PyTorch on the CPU in the place of a card."""
    with mock.patch("skout.rows.device.torch_device", return_value=torch.device("cpu")):
        yield


def positive(m=150, seed=0):
    A = np.random.default_rng(seed).standard_normal((m, m))
    return A @ A.T + np.eye(m)


def arrays(A, kind):
    return torch.tensor(A) if kind == "tensor" else A.copy()


# Factors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize("q", [1, 3])
def test_factors_are_in_place_and_solve(kind, q, monkeypatch):
    monkeypatch.setattr(factors, "_BLOCK", 64)
    A = positive()
    given = arrays(A, kind)
    triangle = cholesky(given)
    L = np.tril(np.asarray(triangle.L))
    assert_allclose(L, np.linalg.cholesky(A), atol=1e-10)
    assert triangle.L is given
    B = arrays(RNG.standard_normal((len(A), q)), kind)
    assert_allclose(L @ np.asarray(triangle.solve(B)), B, atol=1e-10)
    assert_allclose(L.T @ np.asarray(triangle.solve_transposed(B)), B, atol=1e-10)
    assert_allclose(triangle.smallest(), np.diag(L).min())


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_a_matrix_that_is_not_positive_has_no_factor(kind):
    assert cholesky(arrays(positive() - 1e6 * np.eye(150), kind)) is None


def test_the_gram_of_tensors_is_a_lower_triangle(monkeypatch):
    monkeypatch.setattr(factors, "_BLOCK", 16)
    F, out = RNG.standard_normal((30, 50)), torch.ones(50, 50, dtype=torch.float64)
    add_gram(out, torch.tensor(F))
    assert_allclose(np.tril(out), np.tril(1.0 + F.T @ F), atol=1e-12)


# Conjugate gradients ------------------------------------------------------------------------------


def test_as_many_steps_as_rows_solve_exactly():
    A, b = positive(8), RNG.standard_normal((8, 2))
    state = CGState(0.0 * b, b, b, (b * b).sum(0))
    steps = conjugate_gradients(lambda V: A @ V, lambda r: r, state)
    found = [next(steps) for _ in range(9)][-1]
    assert_allclose(found.x, np.linalg.solve(A, b), rtol=1e-6)


def test_a_preconditioner_that_is_indefinite_does_not_pass_for_convergence():
    A, b = np.diag(np.arange(1.0, 6.0)), np.ones((5, 1))
    run = refined([lambda V: A @ V], b, lambda r: -r, tol=1e-3, max_iter=20)
    assert run.residual > 1e-3


def test_a_right_side_of_zeros_is_solved_by_zeros():
    A, b = positive(8), np.column_stack([np.zeros(8), np.ones(8)])
    run = refined([lambda V: A @ V], b, lambda r: r, tol=1e-9, max_iter=50)
    assert_allclose(run.x, np.linalg.solve(A, b), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("plain", [False, True])
def test_a_coarse_product_is_corrected_by_the_exact_one(plain):
    A, b = positive(30), RNG.standard_normal((30, 2))
    noise = 1e-3 * np.abs(A).max() * positive(30, 1) / 100
    run = refined(
        [lambda V: (A + noise) @ V, lambda V: A @ V], b, lambda r: r, tol=1e-8, max_iter=500,
        plain=plain,
    )  # fmt: skip
    assert run.residual <= 1e-8
    assert_allclose(np.linalg.norm(b - A @ run.x, axis=0), 0.0, atol=1e-6)
    assert_allclose(run.x, np.linalg.solve(A, b), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("noise", [1e-7, 1e-2])
def test_a_round_is_believed_only_where_rounding_was_small(noise):
    A, b = np.eye(40) + 0.01 * positive(40), RNG.standard_normal((40, 2))
    coarse = A + noise * positive(40, 1) / 40
    products, options = [lambda V: coarse @ V, lambda V: A @ V], {"tol": 1e-9, "max_iter": 99}
    run = refined(products, b, lambda r: r, gain=1e-4, believe=True, **options)
    sure = refined(products, b, lambda r: r, gain=1e-4, **options)
    left = np.linalg.norm(b - A @ run.x, axis=0) / np.linalg.norm(b, axis=0)
    assert left.max() <= run.residual <= 1e-9
    assert run.checks <= sure.checks
    assert run.checks < sure.checks or noise == 1e-2


def test_a_residual_that_is_computed_anew_does_not_cost_steps():
    A, b = np.eye(60) + positive(60) / 60, RNG.standard_normal((60, 2))
    coarse = A * (1.0 + 1e-9 * positive(60, 1))
    products, options = [lambda V: coarse @ V, lambda V: A @ V], {"tol": 1e-8, "max_iter": 500}
    once = refined(products[1:], b, lambda r: r, **options)
    often = refined(products, b, lambda r: r, gain=0.1, **options)
    assert often.checks > once.checks + 3
    assert often.steps <= once.steps + 2


def test_a_warm_start_takes_fewer_steps():
    A, b = positive(100), RNG.standard_normal((100, 1))
    near = np.linalg.solve(A + 1e-3 * np.eye(100), b)
    cold = refined([lambda V: A @ V], b, lambda r: r, tol=1e-6, max_iter=500)
    warm = refined([lambda V: A @ V], b, lambda r: r, tol=1e-6, max_iter=500, start=near)
    assert warm.steps < cold.steps


# With landmarks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("device", [None, "cuda"])
@pytest.mark.usefixtures("card")
def test_same_as_direct(fit_intercept, weighted, dtype, device):
    options = {"fit_intercept": fit_intercept}
    w = W if weighted else None
    direct = ridge(solver="direct", **options).fit(X, Y, sample_weight=w)
    found = ridge(tol=1e-8, device=device, **options).fit(X.astype(dtype), Y, sample_weight=w)
    size = np.abs(direct.predict(NEW)).max()
    assert_allclose(found.predict(NEW.astype(dtype)), direct.predict(NEW), atol=2e-5 * size)
    assert_allclose(found.intercept_, direct.intercept_, atol=1e-4)
    report = found.solver_report_
    assert report["converged"]
    assert report["relative_residual"] <= 1e-8
    assert report["iterations"] > 0
    assert set(report["costs"]) == {"direct", "cg"}


def objective(model, X, Y, alpha):
    """mean 1/2 |y - f|^2 + alpha/2 |f|^2, from the formula."""
    K, coef = Gaussian(0.1)(model.landmarks_), model.projection_.matrix
    error = ((Y - model.predict(X)) ** 2).sum() / 2 / len(X)
    return error + alpha / 2 * np.einsum("ij,ik,kj->", coef, K, coef)


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_the_report_keeps_its_promise(tol):
    alpha = 1e-3
    found = ridge(alpha=alpha, tol=tol).fit(X, Y)
    best = ridge(alpha=alpha, solver="direct").fit(X, Y)
    report, least = found.solver_report_, objective(best, X, Y, alpha)
    assert_allclose(report["objective"], objective(found, X, Y, alpha), rtol=1e-8)
    assert 0 <= report["objective"] - least <= report["objective_bound"] + 1e-12
    # r'M^-1 r, with M near the system, is about what is left to gain
    assert report["objective"] - least < 5 * report["objective_gap"] + 1e-12


@pytest.mark.parametrize("n_factors", [2, 1, 0])
@pytest.mark.parametrize("device", [None, "cuda"])
@pytest.mark.usefixtures("card")
def test_every_preconditioner_leads_to_the_same_model(n_factors, device, monkeypatch):
    begin = system.MemoryBudget.__init__

    def small(self, *args):
        begin(self, *args)
        self.factors, self.holds_gram = n_factors, False

    monkeypatch.setattr(system.MemoryBudget, "__init__", small)
    found = ridge(tol=1e-7, device=device).fit(X, Y)
    expected = ridge(solver="direct").fit(X, Y).predict(NEW)
    assert_allclose(found.predict(NEW), expected, atol=1e-5)
    names = {2: "sampled rows", 1: "one factor", 0: "second sketch"}
    assert found.solver_report_["preconditioner"].startswith(names[n_factors])
    assert (found.solver_report_["objective_bound"] is None) == (n_factors < 2)


def test_a_sketch_that_mixes():
    found = ridge(PSparsified(20), tol=1e-8).fit(X, Y)
    direct = ridge(PSparsified(20), solver="direct").fit(X, Y)
    assert_allclose(found.predict(NEW), direct.predict(NEW), atol=1e-6)


def test_sparse_rows_and_targets_of_one_column():
    rows = sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
    found = ridge(tol=1e-8).fit(rows, Y[:, 0])
    direct = ridge(solver="direct").fit(rows, Y[:, 0])
    assert found.predict(rows[:5]).shape == (5,)
    assert_allclose(found.predict(rows), direct.predict(rows), atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-12, 1e-6])
def test_nearly_singular_landmarks_and_tiny_alpha(alpha):
    near = np.vstack([X[:100], X[:100] + 1e-9, X[:50]])  # copies, and rows that nearly are
    y = np.tile(Y[:50], (5, 1))
    found = KernelRidge(
        Gaussian(0.1), SubSample(250), alpha=alpha, solver="cg", tol=1e-3, random_state=0
    ).fit(near, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # directions that cannot be told from noise
        direct = KernelRidge(Gaussian(0.1), SubSample(250), alpha=alpha, solver="direct",
                             random_state=0).fit(near, y)  # fmt: skip
    error = [np.mean((y - model.predict(near)) ** 2) for model in (found, direct)]
    assert error[0] <= error[1] * 1.01 + 1e-4


def test_coordinates_are_found_when_they_are_asked_for():
    found = ridge(tol=1e-9).fit(X, Y)
    assert "components_" not in vars(found.basis_)
    direct = ridge(solver="direct").fit(X, Y)
    Z, expected = found.basis_.transform(NEW), direct.basis_.transform(NEW)
    assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-8)
    assert_allclose(Z @ found.coef_, direct.predict(NEW), atol=1e-6)
    assert_allclose(found.basis_.eigenvalues_, direct.basis_.eigenvalues_, rtol=1e-6)


def test_coordinates_of_landmarks_that_depend():
    twice = np.vstack([X[:30], X[:30] + 1e-12])
    model = KernelRidge(Gaussian(0.1), SubSample(60), alpha=1e-3, solver="cg", tol=1e-8,
                        random_state=0).fit(twice, np.vstack([Y[:30], Y[:30]]))  # fmt: skip
    assert model.basis_.rank_ == 30
    assert model.basis_.components_.shape == (30, 60)
    assert_allclose(model.basis_.transform(NEW) @ model.coef_, model.predict(NEW), atol=1e-6)
    assert len(model.basis_.eigenvalues_) == 30


def test_less_memory_changes_nothing():
    def fit():
        return ridge(tol=1e-9, n_jobs=1).fit(X, Y)

    kept = fit()
    with memory_limits(coordinates_mb=0.01, block_rows=100):
        again = fit()
    assert kept.solver_report_["kept_bytes"] > again.solver_report_["kept_bytes"]
    assert_allclose(again.predict(NEW), kept.predict(NEW), atol=1e-7)


@pytest.mark.parametrize("sketch", [SKETCH, None])
def test_too_few_steps_are_told(sketch):
    with pytest.warns(
        ConvergenceWarning, match=r"after 1 steps, above tol=1e-12: .* deviations of y"
    ):
        model = ridge(sketch, tol=1e-12, max_iter=1, alpha=1e-7).fit(X, Y)
    assert not model.solver_report_["converged"]


def test_a_precision_that_cannot_be_reached_ends():
    with pytest.warns(ConvergenceWarning, match="standard deviations of y"):
        model = ridge(tol=1e-30, max_iter=10**6).fit(X, Y)
    assert model.solver_report_["iterations"] < 1000


def test_alphas_are_chosen_on_the_same_folds():
    alphas = [1e-7, 1e-4, 1e-1]
    found = ridge(alpha=alphas, tol=1e-8, cv=3, fit_intercept=True).fit(X, Y, sample_weight=W)
    direct = ridge(alpha=alphas, solver="direct", cv=3, fit_intercept=True)
    direct.fit(X, Y, sample_weight=W)
    assert found.alpha_ == direct.alpha_
    for name in ("mean_loss", "std_loss"):
        order = np.argsort(found.cv_results_["alpha"])
        assert_allclose(found.cv_results_[name][order], direct.cv_results_[name], rtol=1e-4)


class Killed(Exception):
    pass


def test_killed_and_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    path = tmp_path / "fit.npz"
    whole = ridge(tol=1e-8).fit(X, Y)
    write, count = checkpoints.Checkpoint.keep, []

    def dies(self, **arrays):
        write(self, **arrays)
        count.append(1)
        if len(count) == 5:
            raise Killed

    model = ridge(tol=1e-8, checkpoint=path)
    with mock.patch.object(checkpoints.Checkpoint, "keep", dies), pytest.raises(Killed):
        model.fit(X, Y)
    assert path.exists()
    with pytest.raises(ValueError, match="is of another fit"):
        ridge(tol=1e-8, checkpoint=path).fit(X, Y + 1)
    with pytest.raises(ValueError, match="solver"):
        ridge(solver="direct", checkpoint=path).fit(X, Y)
    model.fit(X, Y)
    assert not path.exists()
    assert model.solver_report_["iterations"] == whole.solver_report_["iterations"]
    assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-10, atol=1e-12)


def test_rows_cannot_be_added_without_moments():
    model = ridge().fit(X, Y)
    with pytest.raises(ValueError, match="conjugate gradients do not make"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="conjugate gradients do not make"):
        ridge().partial_fit(X, Y)


def test_bad_settings_are_named():
    for name, value in (("solver", "lu"), ("tol", 0.0), ("max_iter", 0)):
        with pytest.raises(ValueError, match=name):
            ridge(**{name: value}).fit(X, Y)
    once = Blocks(iter([(X, Y)]))
    with pytest.raises(ValueError, match="can be read only once"):
        ridge().fit(once, landmarks=X[:50])
    with pytest.raises(ValueError, match="solver needs loss"):
        iokr(loss="huber", solver="cg")


def test_many_outputs_at_once():
    labels = (RNG.random((N, 300)) < 0.1).astype(float)
    options = {"input_sketch": SubSample(60), "output_sketch": SubSample(300), "alpha": 1e-4,
               "random_state": 0}  # fmt: skip
    direct = sisokr(Gaussian(0.1), Gaussian(0.01), solver="direct", **options).fit(X, labels)
    found = sisokr(Gaussian(0.1), Gaussian(0.01), solver="cg", **options)
    found.set_params(regressor__tol=1e-6).fit(X, labels)
    assert direct.predict_coordinates(NEW).shape[1] == 300
    expected = direct.predict_coordinates(NEW)
    assert_allclose(found.predict_coordinates(NEW), expected, atol=1e-4 * np.abs(expected).max())
    assert found.regressor_.solver_report_["solver"] == "cg"


# Directly on a card -------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-7, 1e-3])
@pytest.mark.parametrize("sizes", [(0,), (8,), ()])
@pytest.mark.usefixtures("card")
def test_the_direct_solution_stays_on_the_card(fit_intercept, weighted, alpha, sizes, monkeypatch):
    monkeypatch.setattr(system, "_LEAST_ON_DEVICE", 10)
    monkeypatch.setattr(products, "_WHITENED", sizes)
    monkeypatch.setattr(products, "_largest_eigenvalue", lambda D: 0.0)
    options = {"alpha": alpha, "solver": "direct", "fit_intercept": fit_intercept}
    w = W if weighted else None
    here = ridge(**options).fit(X, Y, sample_weight=w)
    there = ridge(device="cuda", **options).fit(X, Y, sample_weight=w)
    assert there.solver_report_["whitened"] == (sizes[0] if sizes else 40)
    assert_allclose(there.predict(NEW), here.predict(NEW), atol=1e-7)
    with pytest.raises(ValueError, match="begin with partial_fit"):
        there.partial_fit(X, Y)


@pytest.mark.usefixtures("card")
def test_landmarks_that_depend_go_to_the_host(monkeypatch):
    monkeypatch.setattr(system, "_LEAST_ON_DEVICE", 10)
    twice, y = np.vstack([X[:30], X[:30] + 1e-12]), np.vstack([Y[:30], Y[:30]])
    options = {"sketch": SubSample(60), "alpha": 1e-3, "solver": "direct"}
    here, there = ridge(**options).fit(twice, y), ridge(device="cuda", **options).fit(twice, y)
    assert len(there.landmarks_) == 30
    assert "whitened" not in there.solver_report_
    assert_allclose(there.predict(NEW), here.predict(NEW), atol=1e-8)


def test_too_little_memory_on_a_card_is_told_before_the_work():
    rows = mock.Mock(spec=Memory, device=torch.device("cpu"))
    rows.__len__ = lambda self: 10**6
    with mock.patch.object(system, "_free_on", return_value=2.0**30):
        with pytest.raises(MemoryError, match=r"has 1.0 GiB free.*takes about 6.0 GiB.*device_mb"):
            system.budget_for(rows, 5000)
        room = system.MemoryBudget(torch.device("cpu"), 2.0**30, 0.0, 10)
        with pytest.raises(MemoryError, match=r'74.5 GiB on cpu.*1.0 GiB free. Use solver="cg"'):
            room.require(8e10, "The kernel matrix", 'solver="cg"')


def test_less_room_means_fewer_factors():
    sizes = [
        system.MemoryBudget(torch.device("cpu"), free, 0.0, 1000).factors
        for free in (1e9, 1e7, 1e5)
    ]
    assert sizes == [2, 1, 0]


# Exact --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("device", [None, "cuda"])
@pytest.mark.usefixtures("card")
def test_exact_is_solved_without_its_matrix(fit_intercept, weighted, device, monkeypatch):
    monkeypatch.setattr(gram, "_TILE", 130)
    monkeypatch.setattr(gram, "_DEVICE_TILE", 170)
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_SKETCH", 60)
    rows, y = np.vstack([X, X[:50]]), np.vstack([Y, Y[:50] + 0.1])  # with copies
    w = np.append(W, W[:50]) if weighted else None
    options = {"alpha": 1e-3, "fit_intercept": fit_intercept}
    direct = ridge(None, solver="direct", **options).fit(rows, y, sample_weight=w)
    found = ridge(None, device=device, tol=1e-7, **options).fit(rows, y, sample_weight=w)
    assert_allclose(found.predict(NEW), direct.predict(NEW), atol=1e-5)
    report = found.solver_report_
    assert report["solver"] == "cg"
    assert report["relative_residual"] <= 1e-7
    rank = 15 * 500**0.5 if device else 10 * 500**0.5
    assert report["preconditioner"] == f"sketch of {int(rank)} rows"


@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_the_duality_gap_of_an_exact_fit(tol):
    alpha = 1e-3
    found = ridge(None, alpha=alpha, tol=tol).fit(X, Y)
    best = ridge(None, alpha=alpha, solver="direct").fit(X, Y)
    report, least = found.solver_report_, objective(best, X, Y, alpha)
    assert_allclose(report["objective"], objective(found, X, Y, alpha), rtol=1e-8)
    assert 0 <= report["objective"] - least <= report["objective_bound"] + 1e-12


def test_alphas_of_an_exact_fit():
    alphas = [1e-5, 1e-3, 1e-1]
    found = ridge(None, alpha=alphas, tol=1e-7, cv=3).fit(X, Y, sample_weight=W)
    direct = ridge(None, alpha=alphas, solver="direct", cv=3).fit(X, Y, sample_weight=W)
    assert found.alpha_ == direct.alpha_
    assert_allclose(found.cv_results_["mean_loss"], direct.cv_results_["mean_loss"], rtol=1e-5)


# The choice ---------------------------------------------------------------------------------------


def test_the_cheaper_solver_is_chosen():
    assert cheaper(sketched_costs(10**6, 20000, 20, 1)) == "cg"
    assert cheaper(sketched_costs(10**6, 1000, 20, 1)) == "direct"
    assert cheaper(sketched_costs(10**5, 10000, 20, 1)) == "cg"
    assert cheaper(sketched_costs(10**6, 500, 20, 1)) == "direct"
    assert cheaper(sketched_costs(10**4, 4000, 20, 3000)) == "direct"  # many outputs
    assert cheaper(exact_costs(10**5, 20, 1)) == "cg"
    assert cheaper(exact_costs(20000, 20, 1)) == "cg"
    assert cheaper(exact_costs(1000, 20, 1)) == "direct"


def test_more_rows_than_a_host_can_solve_are_refused_unless_asked_for(monkeypatch):
    monkeypatch.setattr("skout.solvers.ridge.system._MOST_ROWS", 100)
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_ROWS", 50)
    monkeypatch.setattr("skout.solvers.ridge.system._MARGIN", 0.0)
    limit = mock.patch("skout._numerics.threads.total_memory", return_value=10**5)
    with limit, pytest.raises(MemoryError, match=r'KernelRidge\(solver="cg"\)'):
        ridge(None, solver="auto").fit(X, Y)
    with limit:
        assert ridge(None).fit(X, Y).solver_report_["solver"] == "cg"
    assert ridge(None, solver="auto").fit(X[:90], Y[:90]).solver_report_["solver"] == "cg"


def cheapest(*sizes, **options):
    costs = preconditioner_costs(*sizes, **options)
    return min(costs, key=lambda name: costs[name])


def test_the_cheapest_preconditioner():
    assert cheapest(10**6, 5000, 20, 1, on_device=True, factors=2, kept=1.0) == "sampled 4"
    assert cheapest(10**5, 10000, 20, 1, factors=2, kept=1.0) == "one"
    assert cheapest(10**6, 40000, 20, 1, on_device=True, factors=2, kept=0.0) == "sampled 4"
    assert cheapest(10**6, 40000, 20, 1, on_device=True, factors=2, kept=0.6) == "sampled 2"
    assert cheapest(10**6, 10**5, 20, 1, on_device=True, factors=1, kept=0.0) == "one"
    assert cheapest(10**6, 10**5, 20, 1, on_device=True, factors=0, kept=0.0) == "sketch"


def test_auto_says_what_it_took(monkeypatch):
    assert ridge(solver="auto").fit(X, Y).solver_report_["solver"] == "direct"
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_LANDMARKS", 0)
    monkeypatch.setattr("skout.solvers.ridge.system._MARGIN", 0.0)
    assert ridge(solver="auto").fit(X, Y).solver_report_["solver"] == "cg"
    monkeypatch.setattr("skout.solvers.ridge.system._MARGIN", np.inf)
    weighed = ridge(solver="auto").fit(X, Y)
    assert weighed.solver_report_["solver"] == "direct"
    assert set(weighed.solver_report_["costs"]) == {"direct", "cg"}
    direct = ridge(solver="direct").fit(X, Y)
    assert_allclose(weighed.predict(NEW), direct.predict(NEW), rtol=1e-9, atol=1e-10)
    weighed.partial_fit(X[:50], Y[:50])  # it has moments


@pytest.mark.parametrize("sketch", [None, SubSample(40)], ids=["exact", "sketched"])
def test_a_judge_of_decoded_objects_sees_what_direct_fits_predict(sketch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    Y = (X @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((150, 5)) > 0).astype(int)
    found = {}
    for solver in ("direct", "cg"):
        model = iokr(
            Gaussian(0.3), "f1", input_sketch=sketch, alpha=[1e-4, 1e-2, 1.0], cv=3,
            solver=solver, random_state=0,
        )  # fmt: skip
        model.set_params(regressor__tol=1e-9)
        found[solver] = model.fit(X, Y).regressor_
    assert found["cg"].solver_report_["solver"] == "cg"
    assert found["cg"].alpha_ == found["direct"].alpha_
    results = [one.cv_results_["fold_score"] for one in found.values()]
    assert_allclose(*results, atol=1e-12)


@pytest.mark.parametrize("sketch", [SKETCH, None])
def test_saved_and_loaded(sketch, tmp_path):
    model = ridge(sketch).fit(X, Y)
    save(model, tmp_path / "model.skout")
    again = load(tmp_path / "model.skout")
    assert again.solver_report_ == model.solver_report_
    assert_allclose(again.predict(NEW), model.predict(NEW), rtol=1e-12)
    assert_allclose(again.coef_, model.coef_, rtol=1e-10)
