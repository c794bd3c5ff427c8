"""Metrics that are learnt: gradients, their outer products, and what they bring."""

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import KFold

from skout import KernelBasis, KernelClassifier, KernelMachine, KernelRidge, iokr, sisokr
from skout.kernels import Gaussian, Laplacian, LearnedMetric, Linear, Mahalanobis, Matern
from skout.regressors.learning import GradientProducts, _few_outputs
from skout.rows import Blocks, Memory
from skout.sketches import SubSample
from skout.solvers.folds import deal
from skout.testing import check_kernel

ALPHAS = [1e-6, 1e-4, 1e-2]
BASES = [Gaussian(0.3), Matern(0.5, nu=0.5), Matern(0.5, nu=1.5), Matern(0.5, nu=2.5)]
BASES = [*BASES, Laplacian(0.4)]
each_base = pytest.mark.parametrize("base", BASES, ids=repr)


def small(seed=0, n=7, m=4, d=3, q=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.standard_normal((m, q))


def by_differences(kernel, A, B, coef, h=1e-6):
    """Gradients of sum_j coef_jq k(a, b_j), shape (n, q, d), by central differences."""
    G = np.empty((len(A), coef.shape[1], A.shape[1]))
    for i in range(A.shape[1]):
        step = np.zeros(A.shape[1])
        step[i] = h
        G[:, :, i] = (kernel(A + step, B) - kernel(A - step, B)) @ coef / (2 * h)
    return G


def outer_products(G, weights):
    """mean_i sum_q g_iq g_iq', by loops."""
    M = np.zeros((G.shape[2],) * 2)
    for w, own in zip(weights, G, strict=True):
        for g in own:
            M += w * np.outer(g, g)
    return M / weights.sum()


def steep(n=600, d=6, seed=0, outputs=1):
    """Rows of which only two features matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.column_stack([np.sin(2.0 * X[:, 0] + k) + X[:, 1] for k in range(outputs)])
    return X, y[:, 0] if outputs == 1 else y


# Gradients ---------------------------------------------------------------------------------------


@each_base
def test_gradients_are_those_of_differences(base):
    A, B, coef = small()
    assert_allclose(base.gradients(B, coef)(A), by_differences(base, A, B, coef), atol=1e-8)


@each_base
def test_rows_that_are_landmarks_have_gradients_too(base):
    A, _, coef = small(n=4)
    found = base.gradients(A, coef)(A)
    assert np.isfinite(found).all()
    others = [
        by_differences(base, A[i : i + 1], np.delete(A, i, 0), np.delete(coef, i, 0), 1e-7)
        for i in range(4)
    ]
    assert_allclose(found, np.concatenate(others), atol=1e-6)  # its own part is zero


@each_base
def test_gradients_of_sparse_rows_are_those_of_dense_ones(base):
    A, B, coef = small(d=8)
    A[A < 0.3], B[B < 0.3] = 0.0, 0.0
    found = base.gradients(sparse.csr_matrix(B), coef)(sparse.csr_matrix(A))
    assert_allclose(found, base.gradients(B, coef)(A), atol=1e-12)


@each_base
def test_gradients_do_not_drown_far_from_zero(base):
    A, B, coef = small()
    assert_allclose(base.gradients(B + 1e5, coef)(A + 1e5), base.gradients(B, coef)(A), atol=1e-8)


@each_base
@pytest.mark.parametrize("scale", [None, "diagonal", "matrix"])
def test_outer_products_of_gradients_are_those_of_loops(base, scale):
    A, B, coef = small()
    rng = np.random.default_rng(1)
    W = {None: np.eye(3), "diagonal": np.diag([2.0, 0.5, 1.0]), "matrix": rng.normal(size=(2, 3))}
    W = W[scale]
    given = None if scale is None else np.diagonal(W) if scale == "diagonal" else W
    kernel, weights = Mahalanobis(base, given), rng.uniform(0.5, 2.0, len(A))
    found = Memory(A).reduce(GradientProducts(kernel, B, coef), weights, None)
    truth = outer_products(by_differences(kernel, A, B, coef), weights)
    assert_allclose(W.T @ found @ W, truth, atol=1e-7)
    held = np.arange(len(A)) == 2  # as if it were not there
    without = Memory(A).reduce(GradientProducts(kernel, B, coef), None, held)
    ones = (~held).astype(float)
    assert_allclose(
        W.T @ without @ W, outer_products(by_differences(kernel, A, B, coef), ones), atol=1e-7
    )
    diagonal = Memory(A).reduce(GradientProducts(kernel, B, coef, diagonal=True), weights, None)
    assert_allclose(diagonal, np.diagonal(found), atol=1e-12)


def test_mixtures_of_many_outputs_have_the_right_mean():
    rng = np.random.default_rng(0)
    coef = rng.standard_normal((5, 40)) * np.geomspace(1, 1e-2, 40)
    zz = coef.T @ np.diag(np.arange(1.0, 6)) @ coef
    truth = coef @ coef.T  # a sum over outputs is linear in this
    mean = np.mean(
        [np.dot(c, c.T) for c in (_few_outputs(coef, zz, s) for s in range(400))], axis=0
    )
    assert _few_outputs(coef, zz, 0).shape == (5, 16)
    assert_allclose(mean, truth, atol=0.01 * np.abs(truth).max())
    assert _few_outputs(coef[:, :16], zz, 0) is not None
    assert_array_equal(_few_outputs(coef[:, :16], zz, 0), coef[:, :16])


# Mahalanobis -------------------------------------------------------------------------------------


@each_base
@pytest.mark.parametrize("scale", [None, np.array([1.0, 0.0, 2.0]), np.ones((2, 3)) + np.eye(2, 3)])
def test_mahalanobis_conforms(base, scale):
    A = np.random.default_rng(0).standard_normal((8, 3))
    for rows in (A, A.astype(np.float32), sparse.csr_matrix(A)):
        check_kernel(Mahalanobis(base, scale), rows)
    W = np.eye(3) if scale is None else np.diag(scale) if scale.ndim == 1 else scale
    assert_allclose(Mahalanobis(base, scale)(A), base(A @ W.T), atol=1e-12)


@pytest.mark.parametrize("gamma", ["scale", "median"])
def test_widths_are_those_of_transformed_rows(gamma):
    A, W = np.random.default_rng(0).standard_normal((50, 3)), np.array([1.0, 3.0, 0.1])
    rng = np.random.default_rng
    found = Mahalanobis(Gaussian(gamma), W).resolve(A, rng(0)).kernel.gamma
    assert_allclose(found, Gaussian(gamma).resolve(A * W, rng(0)).gamma)


def test_what_it_cannot_do_is_said():
    X, y = steep(50)
    with pytest.raises(ValueError, match=r"scale must have shape \(6,\) or \(p, 6\)"):
        Mahalanobis(Gaussian(1.0), np.ones(5))(X)
    with pytest.raises(TypeError, match="LearnedMetric changes the metric of vectors"):
        KernelRidge(LearnedMetric("linear")).fit(X, y)
    with pytest.raises(ValueError, match="LearnedMetric has no metric yet"):
        KernelRidge(LearnedMetric() + Linear()).fit(X, y)
    with pytest.raises(ValueError, match="LearnedMetric has no metric yet"):
        LearnedMetric()(X)
    wrong = {"rounds": 0, "landmarks": 1, "width": 0, "diagonal": "yes", "max_rows": 1}
    for name, value in wrong.items():
        with pytest.raises((ValueError, TypeError), match=name):
            KernelRidge(LearnedMetric(**{name: value})).fit(X, y)


# Learning ----------------------------------------------------------------------------------------


def metric_by_loops(X, y, kernel, landmarks, alpha):
    """One round from the formulas: Nystrom ridge on these landmarks, gradients by differences."""
    K, Kmm = kernel(X, landmarks), kernel(landmarks)
    coef = np.linalg.solve(K.T @ K + len(X) * alpha * Kmm, K.T @ y)
    M = outer_products(by_differences(kernel, X, landmarks, coef), np.ones(len(X)))
    return M * (len(M) / np.trace(M))


@pytest.mark.parametrize("diagonal", [False, True])
def test_a_round_is_that_of_the_formula(diagonal):
    X, y = steep(80, d=4)
    model = KernelRidge(
        LearnedMetric(Gaussian(0.2), rounds=1, diagonal=diagonal, width=1.0), alpha=1e-3
    )
    W = model.fit(X, y).kernel_.scale
    M = metric_by_loops(X, y[:, None], Gaussian(0.2), X, 1e-3)
    if diagonal:
        assert_allclose(W**2, np.diagonal(M), rtol=1e-4)
    else:
        assert_allclose(W @ W, M, atol=1e-4)


@pytest.mark.parametrize("kernel", ["matern", "gaussian", "laplacian"])
@pytest.mark.parametrize("sketch", [None, SubSample(200)], ids=["exact", "sketched"])
def test_it_finds_the_features_that_matter(kernel, sketch):
    X, y = steep()
    plain, learnt = (
        KernelRidge(k, sketch, alpha=ALPHAS, random_state=0).fit(X[:500], y[:500])
        for k in (kernel, LearnedMetric(kernel, landmarks=200, width=1.0))
    )
    scores = [1.0 - model.score(X[500:], y[500:]) for model in (plain, learnt)]
    assert scores[1] < 0.5 * scores[0]
    W = learnt.kernel_.scale
    weights = W**2 if W.ndim == 1 else np.diagonal(W @ W)
    assert weights[:2].sum() > 0.9 * weights.sum()


def test_no_round_is_taken_where_none_helps():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 5)), rng.standard_normal(200)
    model = KernelRidge(LearnedMetric(), alpha=1e-6, random_state=0).fit(X, np.sin(3.0 * X[:, 0]))
    assert model.metric_results_["round"] > 0
    noise = KernelRidge(LearnedMetric(width=2.0), alpha=1e-4, random_state=0).fit(X, y)
    assert noise.metric_results_["round"] == np.argmin(noise.metric_results_["mean_loss"][:, 0])
    shape = noise.metric_results_["mean_loss"].shape  # two rounds that do not help are the last
    assert shape == (min(6, noise.metric_results_["round"] + 3), 1)
    constant = KernelRidge(LearnedMetric(width=2.0), alpha=1e-3).fit(X, np.zeros(200))
    assert_allclose(constant.predict(X), 0.0, atol=1e-12)
    assert constant.kernel_.scale == 0.5  # the metric of the rows, twice as wide
    few = KernelRidge(LearnedMetric(), alpha=1e-3).fit(X[:3], y[:3])
    assert np.isfinite(few.metric_results_["mean_loss"]).all()
    assert not hasattr(model.set_params(kernel="matern").fit(X, y), "metric_results_")


def test_held_out_losses_are_those_of_a_fit_on_the_others():
    X, y = steep(3200, d=3)  # enough rows for a single split
    kernel = LearnedMetric(Gaussian(0.2), rounds=1, landmarks=40, width=1.0, max_rows=4000)
    model = KernelRidge(kernel, SubSample(40), alpha=ALPHAS, random_state=0).fit(X, y)
    seed = int(np.random.default_rng(0).integers(2**32))
    held = np.isin(np.arange(3200), deal(5, 3200, random_state=seed)[0][1])
    landmarks = KernelBasis(Gaussian(0.2), SubSample(40), random_state=seed).fit(X).landmarks_
    K, penalty = Gaussian(0.2)(X, landmarks), Gaussian(0.2)(landmarks)
    losses = []
    for alpha in ALPHAS:
        A = K[~held].T @ K[~held] + (~held).sum() * alpha * penalty
        coef = np.linalg.solve(A, K[~held].T @ y[~held])
        losses.append(np.mean((K[held] @ coef - y[held]) ** 2))
    assert_allclose(model.metric_results_["mean_loss"][0], losses, rtol=1e-4)


@pytest.mark.parametrize("sketch", [None, SubSample(50)], ids=["exact", "sketched"])
def test_rows_held_out_from_learning_choose_alpha(sketch):
    X, y = steep(300)
    y = y + np.random.default_rng(1).standard_normal(300)
    settings = {"alpha": ALPHAS, "random_state": 0}
    model = KernelRidge(LearnedMetric(rounds=2), sketch, **settings).fit(X, y)
    found, table = model.metric_results_, model.cv_results_
    assert model.alpha_ == found["best_alpha"] > min(ALPHAS)
    assert_allclose(table["mean_loss"], found["mean_loss"][found["round"]])
    assert table["fold_loss"].shape == (5, 3)
    for given, fit in (({"cv": KFold(2)}, {}), ({"cv": 2}, {"groups": np.arange(300) % 20})):
        other = KernelRidge(LearnedMetric(rounds=2), sketch, **settings, **given).fit(X, y, **fit)
        assert other.cv_results_["fold_loss"].shape == (2, 3)  # what was given decides


@pytest.mark.parametrize("sketch", [None, SubSample(40)], ids=["exact", "sketched"])
def test_one_part_that_was_held_out_judges_the_last_fit(monkeypatch, sketch):
    monkeypatch.setattr("skout.regressors.learning._ENOUGH", 100)  # rows, so that one is enough
    X, y = steep(300)
    y = y + np.random.default_rng(1).standard_normal(300)
    kernel = LearnedMetric(rounds=1, max_rows=200, width=1.0)
    model = KernelRidge(kernel, sketch, alpha=ALPHAS, random_state=0).fit(X, y)
    held = np.isin(np.arange(300), model.metric_results_["held"])
    assert held.sum() == 40  # a fifth of the rows that taught the metric
    losses = []
    for alpha in model.cv_results_["alpha"]:
        Z = X[~held] if sketch is None else model.landmarks_
        K, penalty = model.kernel_(X, Z), model.kernel_(Z)
        A = K[~held].T @ K[~held] + (~held).sum() * alpha * penalty
        coef = np.linalg.solve(A, K[~held].T @ y[~held])
        losses.append(np.mean((K[held] @ coef - y[held]) ** 2))
    assert_allclose(model.cv_results_["mean_loss"], losses, rtol=1e-4)
    assert model.alpha_ == model.cv_results_["alpha"][np.argmin(losses)]
    single = KernelRidge(model.kernel_, sketch, alpha=model.alpha_, random_state=0).fit(X, y)
    assert_allclose(model.predict(X), single.predict(X), rtol=1e-6)


def test_a_learnt_metric_is_solved_directly_unless_somebody_asks(monkeypatch):
    X, y = steep(200)
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_LANDMARKS", 10)
    monkeypatch.setattr("skout.solvers.ridge.system.cheaper", lambda *_: "cg")
    monkeypatch.setattr("skout.solvers.ridge.system._LEAST_ROWS", 0)
    learnt = LearnedMetric(rounds=1, width=1.0)
    for sketch in (None, SubSample(50)):
        for kernel, solver, used in (
            (Matern(), "auto", "cg"),
            (learnt, "auto", "direct"),
            (learnt, "cg", "cg"),
        ):
            model = KernelRidge(kernel, sketch, alpha=1e-3, solver=solver, random_state=0)
            assert model.fit(X, y).solver_report_["solver"] == used, (sketch, kernel, solver)


def test_rounds_learn_from_some_rows(tmp_path):
    X, y = steep()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    kernel, settings = LearnedMetric(rounds=2, landmarks=60, max_rows=200), {"alpha": 1e-6}
    model = KernelRidge(kernel, SubSample(60), random_state=0, **settings).fit(X, y, weights)
    seed = int(np.random.default_rng(0).integers(2**32))
    some = np.sort(np.random.default_rng(seed).choice(len(X), 200, replace=False))
    alone = KernelRidge(kernel, SubSample(60), random_state=0, **settings)
    alone.fit(X[some], y[some], weights[some])
    assert_array_equal(model.kernel_.scale.shape, (6, 6))
    assert_allclose(alone.kernel_.scale, model.kernel_.scale, atol=1e-12)
    unweighted = KernelRidge(kernel, SubSample(60), random_state=0, **settings)
    truth = unweighted.fit(X, y).kernel_.scale
    for name, rows, targets in sources(X, y, tmp_path):
        found = unweighted.fit(rows, targets)
        if name != "blocks":  # which have no rows at positions: all teach
            assert_allclose(found.kernel_.scale, truth, rtol=1e-8, atol=1e-10, err_msg=name)
        assert found.score(X, y) > 0.9, name


def test_wide_kernels_are_the_base_of_rows_divided():
    A, W = np.random.default_rng(0).standard_normal((30, 3)), np.array([1.0, 3.0, 0.1])
    rng = np.random.default_rng
    for scale, rows in ((None, A), (W, A * W), (np.diag(W), A * W)):
        wide = Mahalanobis(Matern("median"), scale, width=5.0).resolve(A, rng(0))
        base = Matern("median").resolve(rows, rng(0))
        assert_allclose(wide(A), base(rows / 5.0), atol=1e-12)
        assert_allclose(wide.resolve(A, rng(0))(A), wide(A))  # once is enough


def test_sparse_rows_learn_the_diagonal_of_dense_ones():
    X, y = steep()
    X[np.abs(X) < 0.5] = 0.0
    learnt = [
        KernelRidge(
            LearnedMetric(diagonal=given, landmarks=100),
            SubSample(100),
            alpha=ALPHAS,
            random_state=0,
        )
        .fit(rows, y)
        .kernel_.scale
        for rows, given in ((X, True), (sparse.csr_matrix(X), None))
    ]
    assert learnt[0].shape == (6,)
    assert_allclose(learnt[1], learnt[0], rtol=1e-6, atol=1e-12)


def sources(X, y, tmp_path):
    da = extra("dask.array")
    np.save(tmp_path / "X.npy", X)
    yield "disk", np.load(tmp_path / "X.npy", mmap_mode="r"), y
    yield "dask", da.from_array(X, chunks=(170, -1)), da.from_array(y, chunks=170)

    def blocks():
        return ((X[i : i + 150], y[i : i + 150]) for i in range(0, len(X), 150))

    yield "blocks", Blocks(blocks), None


def test_all_sources_learn_the_same(tmp_path):
    X, y = steep()
    kernel = LearnedMetric(landmarks=60, rounds=2)

    def fitted(X, y):
        return KernelRidge(kernel, SubSample(60), alpha=ALPHAS, random_state=0).fit(X, y)

    truth = fitted(X, y)
    assert truth.kernel_.scale.shape == (6, 6)
    for name, rows, targets in sources(X, y, tmp_path):
        model = fitted(rows, targets)
        if name != "blocks":  # whose landmarks are those of a sample
            assert_allclose(
                model.kernel_.scale, truth.kernel_.scale, rtol=1e-8, atol=1e-10, err_msg=name
            )
        assert model.score(X, y) > 0.95, name


def test_batches_learn_from_the_first():
    X, y = steep()
    model = KernelRidge(LearnedMetric(landmarks=100), SubSample(100), alpha=ALPHAS, random_state=0)
    model.partial_fit(X[:300], y[:300])
    first = model.kernel_.scale
    model.partial_fit(X[300:], y[300:])
    assert_array_equal(model.kernel_.scale, first)
    alone = KernelRidge(LearnedMetric(landmarks=100), SubSample(100), alpha=ALPHAS, random_state=0)
    assert_allclose(alone.fit(X[:300], y[:300]).kernel_.scale, first)


def test_weights_are_copies():
    X, y = steep(300)
    weights = np.random.default_rng(0).integers(1, 3, 300).astype(float)
    kernel = LearnedMetric(Gaussian(0.2), rounds=1)
    learnt = [
        KernelRidge(kernel, alpha=1e-3, random_state=0).fit(*data).kernel_.scale
        for data in (
            (X, y, weights),
            (np.repeat(X, weights.astype(int), 0), np.repeat(y, weights.astype(int))),
        )
    ]
    assert_allclose(learnt[0], learnt[1], atol=1e-6)


def test_same_seed_same_metric():
    X, y = steep()
    a, b, c = (
        KernelRidge(
            LearnedMetric(landmarks=50), SubSample(50), alpha=ALPHAS, random_state=s, n_jobs=j
        ).fit(X, y)
        for s, j in ((0, 1), (0, 2), (1, 1))
    )
    assert_allclose(a.kernel_.scale, b.kernel_.scale, rtol=1e-9)
    assert not np.allclose(a.kernel_.scale, c.kernel_.scale)


# Estimators --------------------------------------------------------------------------------------


def test_kernel_machines_learn_it_too():
    X, y = steep(400)
    machine = KernelMachine(
        LearnedMetric(landmarks=100), SubSample(100), loss="huber", alpha=1e-4, random_state=0
    )
    assert machine.fit(X, y).kernel_.scale.shape == (6, 6)
    labels = np.where(y > 0, "up", "down")
    classifier = KernelClassifier(
        LearnedMetric(landmarks=100), SubSample(100), alpha=1e-4, random_state=0
    )
    plain = KernelClassifier("matern", SubSample(100), alpha=1e-4, random_state=0)
    scores = [
        c.fit(X[:300], labels[:300]).score(X[300:], labels[300:]) for c in (plain, classifier)
    ]
    assert scores[1] >= scores[0]


@pytest.mark.parametrize("factory", [iokr, sisokr])
def test_structured_outputs_teach_a_metric(factory):
    X, y = steep(500, outputs=6)
    Y = (y > 0).astype(float)
    scores = []
    for kernel in ("matern", LearnedMetric(landmarks=100)):
        model = factory(kernel, "f1", alpha=1e-4, random_state=0).fit(X[:400], Y[:400])
        scores.append(model.score(X[400:], Y[400:]))
    assert model.regressor_.kernel_.scale.shape == (6, 6)
    assert scores[1] > scores[0]


def test_a_learnt_model_is_saved_and_loaded(tmp_path):
    import skout

    X, y = steep(300)
    model = KernelRidge(
        LearnedMetric(landmarks=50), SubSample(50), alpha=ALPHAS, random_state=0
    ).fit(X, y)
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.kernel_.scale, model.kernel_.scale)
