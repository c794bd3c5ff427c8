"""Targets with holes: each output as by a fit of its own, in one pass."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose

from skout import (
    InducedMachine,
    JointQuantileRegressor,
    KernelMachine,
    KernelRidge,
    iokr,
    memory_limits,
)
from skout.basis.moments import MaskedMoments, Moments, block_moments, mean_of_observed
from skout.kernels import Gaussian, LearnedMetric
from skout.sketches import PSparsified, SubSample
from skout.solvers.design import DesignMatrix
from skout.solvers.folds import mean_square
from skout.solvers.ridge import RidgeOptions
from skout.solvers.ridge.rows import MaskedSystem
from skout.solvers.ridge.system import cheaper_by_steps, keeps_rows
from skout.sources import Blocks

torch = extra("torch")

N, P, D = 160, 4, 5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = np.sin(X @ RNG.standard_normal((3, D))) + np.arange(D) + 0.1 * RNG.standard_normal((N, D))
W = RNG.uniform(0.5, 2.0, N)
HOLED = np.where(RNG.random((N, D)) < 0.45, np.nan, Y)
HOLED[:, 1] = np.where(np.isnan(HOLED[:, 0]), np.nan, Y[:, 1])  # two outputs with equal rows
HOLED[:, 2] = Y[:, 2]  # one without holes
HOLED[9:, 3] = np.nan  # one with few rows
KERNEL = Gaussian(0.3)
SKETCHES = {"exact": None, "sub-sample": SubSample(25), "mixed": PSparsified(20)}


def separate(model, y, weights=None, **options):
    """Predictions of a fit of its own for each output."""
    found = []
    for column in y.T:
        rows = ~np.isnan(column)
        own = None if weights is None else weights[rows]
        found.append(model().fit(X[rows], column[rows], sample_weight=own, **options).predict(X))
    return np.column_stack(found)


# Moments ------------------------------------------------------------------------------------------


def moments_of(rows, dtype=float):
    Z = np.random.default_rng(1).standard_normal((N, P))
    return block_moments(Z[rows].astype(dtype), HOLED[rows], W[rows])


def expected_moments(rows):
    Z, w = np.random.default_rng(1).standard_normal((N, P))[rows], W[rows]
    for column in HOLED[rows].T:
        known = ~np.isnan(column)
        A, u, t = Z[known], w[known], column[known]
        yield (u.sum(), A.T @ (u[:, None] * A), A.T @ (u * t), u @ t**2, A.T @ u, u @ t)


def assert_are_sums(found, rows):
    for j, sums in enumerate(expected_moments(rows)):
        columns = next(c for c in found.column_sets() if j in c)
        own, at = found.of_columns(columns), list(columns).index(j)
        numbers = (own.weight, own.zz, own.zt[:, at], own.tt[at], own.z_sum, own.t_sum[at])
        for one, other in zip(numbers, sums, strict=True):
            assert_allclose(one, other, atol=1e-10)


def test_moments_are_sums_over_the_rows_of_each_output():
    found = moments_of(np.arange(N))
    assert len(found.parts) == 4  # of five outputs two have the same rows
    assert_are_sums(found, np.arange(N))


@pytest.mark.parametrize("cuts", [(0, 160), (0, 5, 90, 160), (0, 9, 160), (0, 100, 101, 160)])
def test_moments_add_up_and_subtract(cuts):
    parts = [np.arange(a, b) for a, b in pairwise(cuts)]
    total = moments_of(parts[0])
    for rows in parts[1:]:
        before = moments_of(np.arange(rows[0]))
        assert_are_sums(before + moments_of(rows), np.arange(rows[-1] + 1))
        total += moments_of(rows)
        assert_are_sums(total, np.arange(rows[-1] + 1))
    assert_are_sums(total - moments_of(np.arange(50)), np.arange(50, N))


def weights(moments):
    """The weight of the rows of each output."""
    return [moments.of_columns([j]).weight for j in range(moments.shape[1])]


def assert_same(found, expected, atol):
    assert_allclose(found.codes, expected.codes)
    for part, other in zip(found.parts, expected.parts, strict=True):
        for name in ("weight", "zz", "zt", "tt", "z_sum", "t_sum", "count"):
            assert_allclose(getattr(part, name), getattr(other, name), atol=atol)


def test_moments_of_full_and_of_holed_targets_mix():
    Z = RNG.standard_normal((20, P))
    T = RNG.standard_normal((20, 2))
    holed = T.copy()
    holed[3, 1] = np.nan
    full, other = Moments.of_block(Z, T, None), block_moments(Z, holed, None)
    assert isinstance(other, MaskedMoments)
    for total in (full + other, other + full):
        assert_allclose(weights(total), [40.0, 39.0])
    assert_allclose(weights(full - other), [0.0, 1.0])
    assert_allclose((full - other).of_columns([1]).zz, np.outer(Z[3], Z[3]), atol=1e-12)
    kept = full.zz.copy()
    full += other
    assert_allclose(weights(full), [40.0, 39.0])
    assert_allclose(Moments.of_block(Z, T, None).zz, kept)
    moved = other.each(lambda part: part.shifted(np.ones(P)))
    assert_same(moved, block_moments(Z + 1.0, holed, None), 1e-10)
    L = np.tril(RNG.standard_normal((P, P)))
    mapped = other.each(lambda part: part.map(L))
    assert_same(mapped, block_moments(Z @ L.T, holed, None), 1e-10)


def test_moments_of_tensors():
    Z = RNG.standard_normal((20, P))
    T = np.where(RNG.random((20, 2)) < 0.5, np.nan, 1.0)
    here = block_moments(Z.copy(), T, W[:20])
    there = block_moments(*(torch.as_tensor(part) for part in (Z, T, W[:20])))
    assert_same(there.each(lambda part: part.on_host(Gaussian())), here, 1e-12)


# Ridge --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", ["direct", "cg"])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_ridge_equals_separate_fits(sketch, solver, intercept, weighted):
    sketch = SKETCHES[sketch]
    weights = W if weighted else None
    options = {"alpha": 1e-3, "fit_intercept": intercept, "random_state": 0}

    def model(solver="direct"):
        return KernelRidge(KERNEL, sketch, solver=solver, tol=1e-11, **options)

    given = {} if sketch is None else {"landmarks": X}
    expected = separate(model, HOLED, weights, **given)
    found = model(solver).fit(X, HOLED, sample_weight=weights)
    assert_allclose(found.predict(X), expected, atol=1e-8)
    assert found.coef_.shape[1] == D


def test_ridge_with_all_features_whitened_in_each_row():
    """Sketches of 256 rows and more take another way to the moments."""
    X = np.random.default_rng(0).standard_normal((700, 6))
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    y[100:400, 0] = np.nan
    model = KernelRidge(Gaussian(0.5), SubSample(300), alpha=1e-2, random_state=0)
    found = model.fit(X, y).predict(X)
    rows = ~np.isnan(y[:, 0])
    assert_allclose(found[:, 0], model.fit(X[rows], y[rows, 0], landmarks=X).predict(X), atol=1e-8)
    assert_allclose(found[:, 1], model.fit(X, y[:, 1], landmarks=X).predict(X), atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 0.005])
def test_features_that_are_whitened_in_part(gamma, intercept):
    """Kept features: outputs with few rows, with many, by steps, and a smooth kernel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 6))
    y = np.sin(X @ rng.standard_normal((6, 9))) + 3.0 + 0.1 * rng.standard_normal((2000, 9))
    y[rng.random(y.shape) < 0.4] = np.nan
    y[100:, 0], y[500:, 1] = np.nan, np.nan
    options = {"alpha": 1e-4, "fit_intercept": intercept, "random_state": 0}
    model = KernelRidge(Gaussian(gamma), SubSample(300), solver="cg", tol=1e-10, **options)
    found = model.fit(X, y).predict(X)
    assert model.solver_report_["outputs_by_cg"] == 7
    alone = KernelRidge(Gaussian(gamma), SubSample(300), solver="direct", **options)
    for column in (0, 1, 8):
        rows = ~np.isnan(y[:, column])
        expected = alone.fit(X[rows], y[rows, column], landmarks=X).predict(X)
        assert_allclose(found[:, column], expected, atol=1e-8)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_alpha_is_that_of_least_error_over_what_is_there(sketch):
    alphas = [1e-6, 1e-3, 1.0]
    rows = np.arange(N) % 4
    splits = [(np.flatnonzero(rows != k), np.flatnonzero(rows == k)) for k in range(4)]
    sketch = SKETCHES[sketch]
    model = KernelRidge(KERNEL, sketch, alpha=alphas, cv=splits, random_state=0).fit(X, HOLED)
    given = {} if sketch is None else {"landmarks": X}
    for (train, test), losses in zip(splits, model.cv_results_["fold_loss"], strict=True):
        for alpha, loss in zip(alphas, losses, strict=True):
            errors = []
            for column in HOLED.T:
                own = train[~np.isnan(column[train])]
                held = test[~np.isnan(column[test])]
                if len(held) == 0:
                    continue
                fold = KernelRidge(KERNEL, sketch, alpha=alpha, random_state=0)
                fold.fit(X[own], column[own], **given)
                errors.append(np.mean((fold.predict(X[held]) - column[held]) ** 2))
            assert_allclose(loss, np.mean(errors), rtol=1e-6)
    assert model.alpha_ == alphas[int(np.argmin(model.cv_results_["mean_loss"]))]


def test_the_same_alphas_whichever_way():
    losses = []
    for solver in ("direct", "cg"):
        model = KernelRidge(
            KERNEL, SKETCHES["sub-sample"], alpha=[1e-4, 1e-2], solver=solver, tol=1e-12,
            fit_intercept=True, random_state=0,
        )  # fmt: skip
        losses.append(model.fit(X, HOLED, sample_weight=W).cv_results_["fold_loss"])
    assert_allclose(losses[0], losses[1], rtol=1e-8)


def test_rows_in_pieces():
    expected = KernelRidge(KERNEL, SubSample(25), alpha=1e-3, random_state=0)
    expected.fit(X, HOLED, landmarks=X[:50])
    model = KernelRidge(KERNEL, SubSample(25), alpha=1e-3, random_state=0)
    for some in (slice(0, 50), slice(50, 60), slice(60, N)):
        model.partial_fit(X[some], HOLED[some])
    assert_allclose(model.predict(X), expected.predict(X), atol=1e-9)


class Counting:
    """An array on disk that counts the rows that are read."""

    def __init__(self, array):
        self.array, self.read = array, 0
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, index):
        found = self.array[index]
        self.read += len(found)
        return found


@pytest.mark.parametrize("megabytes", [2048, 1])
@pytest.mark.parametrize("kept", [False, True])
def test_one_pass(kept, megabytes, monkeypatch):
    monkeypatch.setattr("skout.solvers.ridge.system.keeps_rows", lambda *given: kept)
    data, full = (Counting(np.tile(X, (10, 1))) for _ in range(2))
    model = KernelRidge(KERNEL, SubSample(20), alpha=1e-3, random_state=0)
    model.fit(full, np.tile(Y, (10, 1)))
    with memory_limits(coordinates_mb=megabytes):
        model.fit(data, np.tile(HOLED, (10, 1)))
    assert ("coordinates_held" in model.solver_report_) == kept
    assert len(data.array) <= data.read == full.read < 2 * len(data.array)


def sketched(m, solver="auto", **options):
    return RidgeOptions(solver=solver, **options), m


def test_memory_decides():
    y = np.where(np.random.default_rng(0).random((2000, 40)) < 0.03, np.nan, 1.0)
    for model in (sketched(100), sketched(100, "direct"), sketched(100, task_matrix="learned")):
        assert not keeps_rows(*model, y, 1)  # 40 matrices of 100 x 100 numbers: 3.2 MB
        with memory_limits(coordinates_mb=3):
            assert keeps_rows(*model, y, 1)
        assert keeps_rows(*model, y, 1000)  # folds have matrices of their own
    assert keeps_rows(*sketched(100, "cg"), y, 1)


def test_operations_decide():
    y = np.where(np.random.default_rng(0).random((20000, 30)) < 0.5, np.nan, 1.0)
    assert keeps_rows(*sketched(1000), y, 1)  # 15 matrices Z'Z, against about 15 steps
    assert not keeps_rows(*sketched(1000, "direct"), y, 1)
    shared = np.repeat(y[:, :1], 30, axis=1)  # all outputs have the same rows
    assert not keeps_rows(*sketched(1000), shared, 1)


def test_the_cheaper_way_of_each_output():
    n, p = 40_000, 1000
    counts = np.array([0, 500, 4000, *[20_000] * 8, *[38_000] * 8])
    by_steps, operations = cheaper_by_steps(counts, np.ones(19, dtype=int), n, p)
    assert by_steps.tolist() == [False] * 3 + [True] * 16
    assert operations < 0.3 * counts.sum() * p * p
    # outputs that share their rows share Z'Z, and a few outputs do not pay for the preconditioner
    assert not cheaper_by_steps(np.array([20_000]), np.array([16]), n, p)[0].any()
    assert not cheaper_by_steps(counts[:4], np.ones(4, dtype=int), n, p)[0].any()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("smallest", [1.0, 0.1, 1e-5])
def test_float32_makes_the_preconditioner_where_its_noise_is_small(smallest, intercept):
    n, p, alpha = 3000, 40, 1e-7
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    Z = rng.standard_normal((n, p)) * np.geomspace(1.0, smallest, p) @ turn + 1.0
    T = np.where(rng.random((n, 3)) < 0.5, np.nan, 1.0)
    system = MaskedSystem.of(DesignMatrix(Z), T, None, intercept)
    mean = (~np.isnan(T)).sum(axis=1) / (~np.isnan(T)).sum()
    Z = Z - mean @ Z if intercept else Z
    M = (Z.T * mean) @ Z + alpha * np.eye(p)
    found = system._rough(alpha)
    assert (found is None) == (smallest == 1e-5)
    if found is not None:
        values = np.linalg.eigvals(np.linalg.solve(M, found))
        assert 1e-9 < np.abs(values - 1.0).max() < 0.1
    r = rng.standard_normal((p, 3))
    expected = np.linalg.solve(M, r / (~np.isnan(T)).sum(axis=0))
    assert_allclose(system.preconditioner(alpha)(r), expected, rtol=1e-2, atol=0.2 * alpha)


def test_steps_in_float32_are_as_exact():
    """All of 20 outputs by steps: their predictions are those of a fit in float64."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4))
    y = np.sin(X @ rng.standard_normal((4, 20))) + 0.1 * rng.standard_normal((3000, 20))
    y[rng.random(y.shape) < 0.4] = np.nan
    model = KernelRidge(Gaussian(0.3), SubSample(250), alpha=1e-5, tol=1e-11, random_state=0)
    found = model.set_params(solver="cg").fit(X, y).predict(X)
    assert model.solver_report_["outputs_by_cg"] == 20
    assert 0.0 < model.solver_report_["relative_residual"] <= 1e-11
    expected = model.set_params(solver="direct").fit(X, y).predict(X)
    assert_allclose(found, expected, atol=1e-8)


def test_many_masks_that_a_stream_brings():
    y = np.where(np.random.default_rng(0).random((200, 40)) < 0.3, np.nan, 1.0)
    rows = np.random.default_rng(0).standard_normal((200, 2))
    blocks = Blocks(lambda: ((rows[a : a + 50], y[a : a + 50]) for a in range(0, 200, 50)), n=200)
    model = KernelRidge(KERNEL, SubSample(30), random_state=0)
    expected = model.fit(rows, y).predict(rows)
    assert_allclose(model.fit(blocks).predict(rows), expected, atol=1e-8)
    with (
        memory_limits(coordinates_mb=0.1),
        pytest.raises(MemoryError, match=r"memory_limits.*in memory"),
    ):
        model.fit(blocks)


def test_what_cannot_be_done_is_said():
    ridge = KernelRidge(KERNEL, SubSample(20), random_state=0)
    empty = np.column_stack([Y[:, 0], np.full(N, np.nan)])
    for model in (ridge, KernelRidge(KERNEL), KernelMachine(KERNEL)):
        with pytest.raises(ValueError, match=r"no number in output 1 \(1 such\)"):
            model.fit(X, empty)
    with pytest.raises(ValueError, match="no number in output 0"):
        JointQuantileRegressor(0.5, KERNEL).fit(X, np.full(N, np.nan))
    with pytest.raises(ValueError, match="NaN, missing values: fill them"):
        InducedMachine(KERNEL).fit(X, HOLED)
    with pytest.raises(ValueError, match=r"Y.*NaN"):
        iokr("gaussian", "linear").fit(X, HOLED)
    with pytest.raises(ValueError, match="a metric is learned from whole rows"):
        KernelRidge(LearnedMetric("gaussian"), SubSample(20), random_state=0).fit(X, HOLED)
    with pytest.raises(ValueError, match="checkpoint"):
        ridge.set_params(checkpoint="fit.npz").fit(X, HOLED)
    model = KernelRidge(KERNEL, SubSample(20), solver="cg", random_state=0)
    with pytest.raises(ValueError, match="only of y in memory"):
        model.fit(X, Counting(HOLED))
    with pytest.raises(ValueError, match=r"KernelRidge\(task_matrix"):
        KernelMachine(KERNEL, task_matrix=np.eye(D)).fit(X, HOLED)


def test_score_leaves_holes_out():
    model = KernelRidge(KERNEL, alpha=1e-2).fit(X, HOLED)
    expected = []
    for j, column in enumerate(HOLED.T):
        rows = ~np.isnan(column)
        left = column[rows] - model.predict(X[rows])[:, j]
        around = column[rows] - column[rows].mean()
        expected.append(1.0 - (left @ left) / (around @ around))
    assert_allclose(model.score(X, HOLED), np.mean(expected))


# Machines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive", "pinball", "squared"])
def test_machine_equals_separate_fits(loss, weighted):
    y, weights = np.delete(HOLED, 1, axis=1), W if weighted else None

    def model():
        return KernelMachine(KERNEL, alpha=1e-2, loss=loss, fit_intercept=True, tol=1e-9)

    found = model().fit(X, y, sample_weight=weights)
    assert_allclose(found.predict(X), separate(model, y, weights), atol=1e-6)
    assert found.duality_gap_ <= 1e-9


def test_outputs_of_a_machine_with_equal_rows_are_fitted_together():
    rows = ~np.isnan(HOLED[:, 0])
    model = KernelMachine(KERNEL, alpha=1e-2, tol=1e-9)
    expected = model.fit(X[rows], HOLED[rows][:, :2]).predict(X)
    assert_allclose(model.fit(X, HOLED).predict(X)[:, :2], expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:y has the mean")
def test_machine_chooses_alpha_by_what_is_there():
    alphas, splits = [1e-3, 1e-1], [(np.arange(0, N, 2), np.arange(1, N, 2))]
    y = HOLED[:, [0, 2]]
    model = KernelMachine(KERNEL, alpha=alphas, loss="squared", cv=splits).fit(X, y)
    expected = np.zeros(2)
    for column in y.T:
        for k, alpha in enumerate(alphas):
            train, test = (rows[~np.isnan(column[rows])] for rows in splits[0])
            fold = KernelMachine(KERNEL, alpha=alpha, loss="squared", tol=1e-8)
            left = fold.fit(X[train], column[train]).predict(X[test]) - column[test]
            expected[k] += 0.5 * np.mean(left**2)
    assert_allclose(model.cv_results_["mean_loss"], expected, rtol=1e-2)


@pytest.mark.parametrize("sketch", [None, SubSample(20)])
def test_quantiles_leave_rows_out(sketch):
    y, rows = HOLED[:, 0], ~np.isnan(HOLED[:, 0])
    model = JointQuantileRegressor([0.2, 0.8], KERNEL, sketch, tol=1e-8, random_state=0)
    expected = model.fit(X[rows], y[rows], sample_weight=W[rows]).predict(X)
    assert_allclose(model.fit(X, y, sample_weight=W).predict(X), expected, atol=1e-9)


# Pieces -------------------------------------------------------------------------------------------


def test_means_over_what_is_there():
    T = np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]])
    assert_allclose(mean_of_observed(T), [2.0, 4.0, 0.0])
    F = np.array([[2.0, 0.0, 0.0], [3.0, 6.0, np.nan]])
    assert mean_square(T, F) == (0.5 + 4.0) / 2
    assert mean_square(T, F, np.array([3.0, 1.0])) == (0.75 + 4.0) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(mean_square(T[:, 2:], F[:, 2:]))
