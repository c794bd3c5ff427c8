"""Kernel ridge regression against dense formulas, scikit-learn and itself."""

import pickle
import tracemalloc

import numpy as np
import oracles_predictor as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as DualRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, TimeSeriesSplit

from skout import KernelRidge, memory_limits
from skout.basis import engine
from skout.kernels import Gaussian, Linear
from skout.sketches import SKETCHES, GaussianSketch, PSparsified, SubSample
from skout.sources import Blocks

try:
    import dask.array as da
except ImportError:
    da = None

GAMMA = 0.3
ALPHAS = [1e-6, 1e-4, 1e-2, 1.0]


def data(n=60, d=3, seed=0, outputs=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 0], np.abs(X[:, 0])])[:, :outputs]
    return X, Y + 0.1 * rng.standard_normal(Y.shape), rng.standard_normal((15, d))


def ridge(sketch=None, alpha=1e-3, **params):
    return KernelRidge(Gaussian(GAMMA), sketch, alpha=alpha, random_state=0, **params)


def kernel(A, B):
    return oracle.gaussian(A, B, GAMMA)


# Closed form -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
def test_exact_model_is_the_textbook_formula(alpha, duplicates):
    X, Y, X_te = data()
    if duplicates:
        X[::2] = X[0]
    model = ridge(alpha=alpha).fit(X, Y)
    expected = oracle.ridge_weights(kernel(X_te, X), kernel(X, X), alpha) @ Y
    assert_allclose(model.predict(X_te), expected, rtol=1e-7, atol=1e-9)
    assert len(model.landmarks_) == len(np.unique(X, axis=0))
    assert_allclose(model.predict(X_te), kernel(X_te, model.landmarks_) @ model.coef_, atol=1e-9)


@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("alpha", [1e-5, 1e-2])
@pytest.mark.parametrize("name", [k for k, cls in SKETCHES.items() if not cls(5).needs_gram])
def test_sketched_model_is_the_raw_formula(name, alpha, duplicates):
    X, Y, X_te = data()
    if duplicates:
        X[::2] = X[0]
    sketch = SKETCHES[name](10)
    R = sketch.draw(len(X), np.random.default_rng(0)).toarray()
    expected = oracle.sketched_ridge_weights(kernel(X_te, X), kernel(X, X), R, alpha) @ Y
    assert_allclose(ridge(sketch, alpha).fit(X, Y).predict(X_te), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", SKETCHES)
def test_gradient_of_the_objective_is_zero(name, fit_intercept):
    # over f = sum_j gamma_j phi_j + b: 1/(2n) ||y - Phi gamma - b||^2 + alpha/2 gamma' K~ gamma
    X, Y, _ = data()
    alpha = 1e-3
    model = ridge(SKETCHES[name](10), alpha, fit_intercept=fit_intercept).fit(X, Y)
    W = model.basis_.weights_
    W = np.eye(len(model.landmarks_)) if W is None else (W.toarray() if sparse.issparse(W) else W)
    Phi = kernel(X, model.landmarks_) @ W.T
    K_tilde = W @ kernel(model.landmarks_, model.landmarks_) @ W.T
    gamma = model.basis_.components_.T @ model.coef_
    error = Y - Phi @ gamma - model.intercept_
    gradient = -Phi.T @ error / len(X) + alpha * K_tilde @ gamma
    size = np.abs(Phi.T @ Y / len(X)).max()
    assert_allclose(gradient, 0.0, atol=1e-9 * size)
    if fit_intercept:
        assert_allclose(error.mean(axis=0), 0.0, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sketch_of_all_rows_is_the_exact_model(fit_intercept):
    X, Y, X_te = data()
    exact = ridge(fit_intercept=fit_intercept).fit(X, Y).predict(X_te)
    for sketch in (SubSample(60), GaussianSketch(60), SKETCHES["pivoted_cholesky"](60)):
        found = ridge(sketch, fit_intercept=fit_intercept).fit(X, Y).predict(X_te)
        assert_allclose(found, exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_intercept_equals_an_unpenalised_column(sketch):
    X, Y, X_te = data()
    Y += [100.0, -5.0]
    w = np.arange(60.0) % 4 + 0.5
    model = ridge(sketch, 1e-2, fit_intercept=True).fit(X, Y, sample_weight=w)
    if sketch is None:  # coordinates of all rows
        L = np.linalg.cholesky(kernel(X, X) + 1e-13 * np.eye(60))
        Z, Z_te = L, np.linalg.solve(L, kernel(X, X_te)).T
    else:
        Z, Z_te = model.basis_.transform(X), model.basis_.transform(X_te)
    coef, intercept = oracle.ridge_with_intercept(Z, Y, w, 1e-2)
    assert_allclose(model.intercept_, intercept, rtol=1e-7)
    assert_allclose(model.predict(X_te), Z_te @ coef + intercept, rtol=1e-6)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_intercept_equals_centring(sketch):
    # centring the targets and the kernel: (H K H + n alpha I)^-1 H y
    X, Y, X_te = data()
    Y += 7.0
    model = ridge(sketch, 1e-2, fit_intercept=True).fit(X, Y)
    K, K_te = kernel(X, X), kernel(X_te, X)
    if sketch is not None:
        Z, Z_te = model.basis_.transform(X), model.basis_.transform(X_te)
        K, K_te = Z @ Z.T, Z_te @ Z.T
    H = np.eye(60) - 1 / 60
    dual = np.linalg.solve(H @ K @ H + 60 * 1e-2 * np.eye(60), H @ Y)
    expected = Y.mean(axis=0) + (K_te - K.mean(axis=0)) @ H @ dual
    assert_allclose(model.predict(X_te), expected, rtol=1e-7)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_intercept_follows_a_shift_of_the_targets(sketch):
    X, Y, X_te = data()
    model = ridge(sketch, fit_intercept=True)
    before = model.fit(X, Y).predict(X_te)
    assert_allclose(model.fit(X, Y + 1000.0).predict(X_te), before + 1000.0, rtol=1e-10)


# Weights -----------------------------------------------------------------------------------------


@given(
    weights=st.lists(st.integers(0, 3), min_size=20, max_size=20).filter(any),
    sketch=st.sampled_from([None, SubSample(8), PSparsified(8)]),
    fit_intercept=st.booleans(),
)
def test_weights_are_repetitions(weights, sketch, fit_intercept):
    X, Y, X_te = data(20)
    kept = np.repeat(np.arange(20), weights)
    model = ridge(sketch, 1e-2, fit_intercept=fit_intercept)
    if sketch is None:
        if len(kept) < 2:
            return
        weighted = model.fit(X, Y, sample_weight=weights).predict(X_te)
        repeated = model.fit(X[kept], Y[kept]).predict(X_te)
    else:
        weighted = clone(model).partial_fit(X, Y, weights, landmarks=X).predict(X_te)
        repeated = clone(model).partial_fit(X[kept], Y[kept], landmarks=X).predict(X_te)
    assert_allclose(weighted, repeated, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_the_scale_of_weights_does_not_matter(sketch):
    X, Y, X_te = data()
    w = np.linspace(0.1, 1.0, 60)
    model = ridge(sketch)
    expected = model.fit(X, Y, sample_weight=w).predict(X_te)
    assert_allclose(model.fit(X, Y, sample_weight=1e6 * w).predict(X_te), expected, rtol=1e-8)
    ones = model.fit(X, Y, sample_weight=np.ones(60)).predict(X_te)
    assert_allclose(ones, model.fit(X, Y).predict(X_te), rtol=1e-8)
    assert_allclose(model.fit(X, Y, sample_weight=3.0).predict(X_te), ones, rtol=1e-8)


# Penalty path ------------------------------------------------------------------------------------

SPLITTERS = {
    "int": 3,
    "shuffled": KFold(4, shuffle=True, random_state=1),
    "list": [(np.arange(10, 60), np.arange(10)), (np.arange(50), np.arange(50, 60))],
    "masks": [(np.arange(60) % 2 == 0, np.arange(60) % 2 == 1)],
    "some rows unused": ShuffleSplit(3, train_size=0.5, test_size=0.3, random_state=0),
    "in order of time": TimeSeriesSplit(3),
}


def dealt(k, seed=0):
    """The folds that a number makes: rows in random order."""
    drawn = np.random.default_rng(seed).spawn(2)[1].integers(2**31)
    return KFold(k, shuffle=True, random_state=int(drawn))


def folds(cv, n):
    """The splits, written out."""
    if isinstance(cv, list):
        return cv
    return list((dealt(cv) if isinstance(cv, int) else cv).split(np.zeros((n, 1))))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("cv", SPLITTERS)
@pytest.mark.parametrize("sketch", [SubSample(15), PSparsified(15)], ids=str)
def test_sketched_path_equals_loops_over_folds(sketch, cv, fit_intercept, weighted):
    X, Y, _ = data()
    cv, w = SPLITTERS[cv], np.arange(60.0) % 3 + 1 if weighted else np.ones(60)
    model = ridge(sketch, ALPHAS, cv=cv, fit_intercept=fit_intercept)
    model.fit(X, Y, sample_weight=w if weighted else None)
    Z = model.basis_.transform(X)
    expected = np.empty((len(folds(cv, 60)), len(ALPHAS)))
    for i, (train, test) in enumerate(folds(cv, 60)):
        for j, alpha in enumerate(ALPHAS):
            fit = Ridge(w[train].sum() * alpha, fit_intercept=fit_intercept, solver="svd")
            fit.fit(Z[train], Y[train], sample_weight=w[train])
            squared = ((Y[test] - fit.predict(Z[test])) ** 2).mean(axis=1)
            expected[i, j] = np.average(squared, weights=w[test])
    check_path(model, expected)
    best = ridge(sketch, model.alpha_, fit_intercept=fit_intercept)
    best.fit(X, Y, sample_weight=w if weighted else None)
    assert_allclose(model.coef_, best.coef_, rtol=1e-8, atol=1e-9)


def check_path(model, expected, rtol=1e-7):
    results = model.cv_results_
    assert_allclose(results["fold_loss"], expected, rtol=rtol)
    assert_allclose(results["mean_loss"], expected.mean(axis=0), rtol=rtol)
    assert_allclose(results["std_loss"], expected.std(axis=0), rtol=1e-4)
    assert_array_equal(results["alpha"], ALPHAS)
    assert model.alpha_ == ALPHAS[int(expected.mean(axis=0).argmin())]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("cv", SPLITTERS)
def test_exact_path_equals_grid_search(cv, fit_intercept):
    X, Y, X_te = data()
    X[::5] = X[0]
    cv = SPLITTERS[cv]
    model = ridge(None, ALPHAS, cv=cv, fit_intercept=fit_intercept).fit(X, Y)
    splits = [(np.arange(60)[train], np.arange(60)[test]) for train, test in folds(cv, 60)]
    search = GridSearchCV(
        ridge(fit_intercept=fit_intercept),
        {"alpha": ALPHAS},
        cv=splits,
        scoring="neg_mean_squared_error",
    ).fit(X, Y)
    expected = [search.cv_results_[f"split{i}_test_score"] for i in range(len(splits))]
    check_path(model, -np.array(expected))
    assert model.alpha_ == search.best_params_["alpha"]
    assert_allclose(model.predict(X_te), search.predict(X_te), rtol=1e-8, atol=1e-10)


def test_exact_path_with_weights():
    X, Y, _ = data()
    w = np.arange(60.0) % 3 + 1
    model = ridge(None, ALPHAS, cv=3).fit(X, Y, sample_weight=w)
    expected = np.empty((3, 4))
    for i, (train, test) in enumerate(dealt(3).split(X)):
        for j, alpha in enumerate(ALPHAS):
            fit = ridge(None, alpha).fit(X[train], Y[train], sample_weight=w[train])
            squared = ((Y[test] - fit.predict(X[test])) ** 2).mean(axis=1)
            expected[i, j] = np.average(squared, weights=w[test])
    check_path(model, expected)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_splits_whose_parts_overlap(sketch):
    # cv=[(all, all)] is how scikit-learn users switch cross-validation off
    X, Y, _ = data()
    everything = np.arange(60)
    model = ridge(sketch, ALPHAS, cv=[(everything, everything)]).fit(X, Y)
    expected = [((Y - ridge(sketch, alpha).fit(X, Y).predict(X)) ** 2).mean() for alpha in ALPHAS]
    check_path(model, np.array([expected]))


def sorted_table(n=1000, seed=0):
    """Rows in the order of their first column, as a file may have them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    X = X[np.argsort(X[:, 0])]
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("sketch", [None, SubSample(200)], ids=str)
def test_a_sorted_table_does_not_mislead_the_folds(sketch):
    X, y = sorted_table()
    X_te, y_te = sorted_table(seed=1)
    alphas = np.logspace(-8, 0, 9)
    scores = [
        ridge(sketch, alphas, cv=cv, fit_intercept=True).fit(X, y).score(X_te, y_te)
        for cv in (5, KFold(5))
    ]
    best = max(
        ridge(sketch, alpha, fit_intercept=True).fit(X, y).score(X_te, y_te) for alpha in alphas
    )
    assert best - scores[0] < 0.005
    assert best - scores[1] > 0.01  # a splitter is taken as it is


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_the_seed_deals_the_folds(sketch):
    X, Y, _ = data()
    kinds = [0, 0, 1, np.random.default_rng(0), np.random.default_rng(0)]
    tables = [
        KernelRidge(Gaussian(GAMMA), sketch, alpha=ALPHAS, random_state=seed)
        .fit(X, Y)
        .cv_results_["fold_loss"]
        for seed in kinds
    ]
    for same in (tables[1], *tables[3:]):
        assert_array_equal(same, tables[0])
    assert np.all(tables[2] != tables[0])


def test_folds_do_not_depend_on_where_the_rows_lie(tmp_path):
    X, Y, _ = data(500)
    stored = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    stored[:] = X

    def make(size):
        for start in range(0, 500, size):
            yield X[start : start + size], Y[start : start + size]

    model = ridge(SubSample(60), ALPHAS, fit_intercept=True)
    expected = model.fit(X, Y).cv_results_["fold_loss"]
    places = {
        "disk": (stored, Y),
        "small blocks": (Blocks(lambda: make(13), n=500), None),
        "one block": (Blocks(lambda: make(500), n=500), None),
    }
    if da is not None:
        chunked = da.from_array(X, chunks=(170, 3)), da.from_array(Y, chunks=(170, 2))
        places["dask"] = chunked
    for rows in (7, 64, 8192):
        with memory_limits(block_rows=rows):
            for name, (some, y) in places.items():
                found = clone(model).fit(some, y).cv_results_["fold_loss"]
                assert_allclose(found, expected, rtol=1e-9, err_msg=f"{name} {rows}")


def test_folds_of_a_stream_cost_one_pass():
    X, Y, _ = data(500)
    passes = []

    def make():
        passes.append(0)
        for start in range(0, 500, 20):
            yield X[start : start + 20], Y[start : start + 20]

    counts = []
    for alpha in (1e-3, ALPHAS):
        passes.clear()
        with memory_limits(block_rows=50):
            ridge(SubSample(20), alpha).fit(Blocks(make, n=500))
        counts.append(len(passes))
    assert counts[1] == counts[0]


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_folds_without_weight(sketch):
    X, Y, _ = data()
    halves = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    w = np.repeat([1.0, 0.0], 30)
    with pytest.raises(ValueError, match="no split whose training rows and test rows both have"):
        ridge(sketch, ALPHAS, cv=halves).fit(X, Y, sample_weight=w)
    thirds = [(np.arange(20), np.arange(20, 40)), (np.arange(20), np.arange(40, 60))]
    model = ridge(sketch, ALPHAS, cv=thirds).fit(
        X, Y, sample_weight=np.repeat([1.0, 0.0], [40, 20])
    )
    assert model.cv_results_["fold_loss"].shape == (1, 4)


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_penalties_in_any_sequence(container):
    X, Y, _ = data()
    model = ridge(SubSample(15), container(ALPHAS)).fit(X, Y)
    assert model.alpha_ in ALPHAS
    assert isinstance(model.alpha_, float)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_a_sequence_of_one_needs_no_folds(sketch):
    X, Y, X_te = data()
    model = ridge(sketch, [1e-3], cv=1000).fit(X, Y)
    assert model.alpha_ == 1e-3
    assert_array_equal(model.predict(X_te), ridge(sketch, 1e-3).fit(X, Y).predict(X_te))


def test_too_many_different_parts_are_refused():
    X, Y, _ = data(300)
    with pytest.raises(ValueError, match=r"more than 64; .* Use k-fold splits, or GridSearchCV"):
        ridge(SubSample(15), ALPHAS, cv=ShuffleSplit(10, random_state=0)).fit(X, Y)


def test_a_second_fit_forgets_the_first():
    X, Y, _ = data()
    model = ridge(SubSample(15), ALPHAS).fit(X, Y)
    model.set_params(alpha=1e-3, sketch=None).fit(X, Y)
    assert not hasattr(model, "cv_results_")
    assert not hasattr(model, "basis_")


# partial_fit -------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(3, 59), max_size=5, unique=True), path=st.booleans())
def test_partial_fit_equals_one_fit(cuts, path):
    X, Y, X_te = data()
    alpha = ALPHAS if path else 1e-3
    # folds of partial_fit are dealt row by row
    rows = np.arange(60)
    cv = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    whole = ridge(SubSample(15), alpha, cv=cv).fit(X, Y)
    model = ridge(SubSample(15), alpha, cv=3)
    for i, block in enumerate(np.split(np.arange(60), sorted(cuts))):
        model.partial_fit(X[block], Y[block], landmarks=X if i == 0 else None)
    expected = whole.predict(X_te)
    assert_allclose(model.predict(X_te), expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    if path:
        assert model.alpha_ == whole.alpha_
        assert_allclose(model.cv_results_["fold_loss"], whole.cv_results_["fold_loss"], rtol=1e-9)


def test_partial_fit_in_any_order():
    X, Y, X_te = data()
    order = np.random.default_rng(1).permutation(60)
    expected = ridge(PSparsified(15)).fit(X, Y).predict(X_te)
    model = ridge(PSparsified(15))
    for i, block in enumerate(np.array_split(order, 7)):
        model.partial_fit(X[block], Y[block], landmarks=X if i == 0 else None)
    assert_allclose(model.predict(X_te), expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_partial_fit_takes_landmarks_from_the_first_block():
    X, Y, X_te = data()
    model = ridge(SubSample(15)).partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    other = ridge(SubSample(15)).partial_fit(X, Y, landmarks=X[:30])
    assert_allclose(model.predict(X_te), other.predict(X_te), rtol=1e-8)
    assert {tuple(x) for x in model.landmarks_} <= {tuple(x) for x in X[:30]}


def test_partial_fit_on_given_landmarks():
    X, Y, X_te = data()
    landmarks = np.random.default_rng(5).standard_normal((8, 3))
    model = ridge(SubSample(8)).partial_fit(X, Y, landmarks=landmarks)
    Phi, K = kernel(X, landmarks), kernel(landmarks, landmarks)
    dual = np.linalg.solve(Phi.T @ Phi + 60 * 1e-3 * K, Phi.T @ Y)
    assert_allclose(model.predict(X_te), kernel(X_te, landmarks) @ dual, rtol=1e-7, atol=1e-9)


def test_partial_fit_with_weights():
    X, Y, X_te = data()
    w = np.arange(60) % 4
    model = ridge(SubSample(15)).partial_fit(X[:30], Y[:30], w[:30], landmarks=X)
    model.partial_fit(X[30:], Y[30:], sample_weight=w[30:])
    whole = ridge(SubSample(15)).fit(X, Y, sample_weight=w)
    assert_allclose(model.predict(X_te), whole.predict(X_te), rtol=1e-8, atol=1e-10)


def test_partial_fit_after_pickling():
    X, Y, X_te = data()
    model = ridge(SubSample(15)).partial_fit(X[:30], Y[:30])
    again = pickle.loads(pickle.dumps(model))
    for part in (model, again):
        part.partial_fit(X[30:], Y[30:])
    assert_array_equal(again.predict(X_te), model.predict(X_te))


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_partial_fit_goes_on_from_fit(fit_intercept):
    X, Y, X_te = data()
    start = ridge(SubSample(15), fit_intercept=fit_intercept)
    model = clone(start).fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    other = clone(start).partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    assert_allclose(model.predict(X_te), other.predict(X_te), rtol=1e-8)


def test_a_path_goes_on_from_fit():
    X, Y, X_te = data()
    model = ridge(SubSample(15), ALPHAS, cv=2).fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    assert model.cv_results_["fold_loss"].shape == (2, len(ALPHAS))
    # new rows are dealt to the folds in turn, the others train in both
    Z, new = model.basis_.transform(X), np.arange(30, 60)
    for fold, errors in enumerate(model.cv_results_["fold_loss"]):
        held = new[new % 2 == fold]
        rest = np.setdiff1d(np.arange(60), held)
        for alpha, error in zip(ALPHAS, errors, strict=True):
            fit = Ridge(len(rest) * alpha, fit_intercept=False).fit(Z[rest], Y[rest])
            assert_allclose(error, np.mean((Y[held] - fit.predict(Z[held])) ** 2), rtol=1e-6)
    whole = ridge(SubSample(15), model.alpha_).fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    assert_allclose(model.predict(X_te), whole.predict(X_te), rtol=1e-8)


def test_fit_starts_afresh():
    X, Y, X_te = data()
    expected = ridge(SubSample(15)).fit(X, Y).predict(X_te)
    model = ridge(SubSample(15)).partial_fit(X[:30], -Y[:30]).fit(X, Y)
    assert_array_equal(model.predict(X_te), expected)


def test_partial_fit_of_a_path_with_fewer_rows_than_folds():
    X, Y, X_te = data()
    model = ridge(SubSample(15), ALPHAS, cv=5)
    model.partial_fit(X[:3], Y[:3], landmarks=X)
    assert np.isfinite(model.cv_results_["mean_loss"]).all()
    model.partial_fit(X[3:], Y[3:])
    whole = ridge(SubSample(15), ALPHAS, cv=5).partial_fit(X, Y, landmarks=X)
    assert model.alpha_ == whole.alpha_
    assert_allclose(model.predict(X_te), whole.predict(X_te), rtol=1e-7, atol=1e-9)


def test_partial_fit_refuses_another_number_of_outputs():
    X, Y, _ = data()
    model = ridge(SubSample(15)).partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="output"):
        model.partial_fit(X, Y)
    model = ridge(SubSample(15)).partial_fit(X, Y)
    with pytest.raises(ValueError, match="output"):
        model.partial_fit(X, Y[:, 0])


def test_partial_fit_mistakes():
    X, Y, _ = data()
    with pytest.raises((ValueError, AttributeError), match="partial_fit"):
        ridge().partial_fit(X, Y)
    model = ridge(SubSample(15)).partial_fit(X, Y)
    with pytest.raises(ValueError, match="landmarks can only be given at the first call"):
        model.partial_fit(X, Y, landmarks=X)
    with pytest.raises(ValueError, match="2 features, but KernelRidge is expecting 3"):
        model.partial_fit(X[:, :2], Y)
    with pytest.raises(TypeError, match=r"cv, in partial_fit, must be an integer >= 2"):
        ridge(SubSample(15), ALPHAS, cv=KFold(3)).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"features|columns"):
        ridge(SubSample(2)).partial_fit(X, Y, landmarks=X[:5, :2])


# Shapes and kinds of data ------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
@pytest.mark.parametrize("alpha", [1e-3, ALPHAS], ids=["one", "path"])
def test_shapes_follow_the_targets(sketch, alpha):
    X, Y, X_te = data()
    flat = ridge(sketch, alpha).fit(X, Y[:, 0])
    column = ridge(sketch, alpha).fit(X, Y[:, :1])
    both = ridge(sketch, alpha).fit(X, Y)
    assert flat.predict(X_te).shape == (15,)
    assert column.predict(X_te).shape == (15, 1)
    assert both.predict(X_te).shape == (15, 2)
    assert_array_equal(flat.predict(X_te), column.predict(X_te)[:, 0])
    for model, d in ((flat, 1), (column, 1), (both, 2)):
        assert model.coef_.shape[1] == d
        assert model.intercept_.shape == (d,)
    if alpha == 1e-3:
        assert_allclose(both.predict(X_te)[:, 0], flat.predict(X_te), rtol=1e-8)


@pytest.mark.parametrize("sketch", [None, SubSample(15), PSparsified(15)], ids=str)
def test_sparse_rows(sketch):
    X, Y, X_te = data()
    X[np.abs(X) < 0.7] = 0.0
    dense = ridge(sketch).fit(X, Y)
    for matrix in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        thin = ridge(sketch).fit(matrix(X), Y)
        assert_allclose(thin.predict(matrix(X_te)), dense.predict(X_te), rtol=1e-6, atol=1e-8)
        assert_allclose(thin.predict(X_te), dense.predict(X_te), rtol=1e-6, atol=1e-8)
        assert_allclose(dense.predict(matrix(X_te)), dense.predict(X_te), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
def test_strings_as_inputs(sketch):
    words = ["a", "ab", "abc", "b", "bb", "abcd", "", "abab"]
    lengths = np.array([len(word) for word in words], dtype=float)
    model = KernelRidge(
        lambda A, B: np.outer([len(a) for a in A], [len(b) for b in B]), sketch, alpha=1e-9
    )
    model.set_params(random_state=0).fit(words, 2 * lengths)
    assert_allclose(model.predict(["xyz", "12345"]), [6.0, 10.0], rtol=1e-6)


@pytest.mark.parametrize("sketch", [None, SubSample(15)], ids=str)
def test_integer_targets_and_lists(sketch):
    X, Y, X_te = data()
    rounded = np.round(10 * Y).astype(int)
    expected = ridge(sketch).fit(X, rounded.astype(float)).predict(X_te)
    assert_array_equal(ridge(sketch).fit(X, rounded).predict(X_te), expected)
    found = ridge(sketch).fit(X.tolist(), rounded.tolist()).predict(X_te.tolist())
    assert_array_equal(found, expected)


# alpha = 0 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(10)], ids=str)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [0, 0.0, 1e-8])
def test_no_penalty_is_least_squares(sketch, fit_intercept, alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) + 1.0
    y = X @ [1.0, -2.0, 0.5] + 3.0 + 0.1 * rng.standard_normal(40)
    model = KernelRidge(Linear(), sketch, alpha=alpha, fit_intercept=fit_intercept, random_state=0)
    expected = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    assert_allclose(model.fit(X, y).predict(X), expected.predict(X), rtol=1e-5)
    assert_allclose(model.intercept_, expected.intercept_, rtol=1e-5)


def test_no_penalty_interpolates():
    X, Y, _ = data(20)
    model = KernelRidge(Gaussian(3.0), alpha=0.0).fit(X, Y)
    assert_allclose(model.predict(X), Y, atol=1e-6)


def test_zero_among_the_penalties():
    X, Y, _ = data()
    model = ridge(SubSample(15), [0.0, 1e-3]).fit(X, Y)
    assert np.isfinite(model.cv_results_["fold_loss"]).all()
    assert model.alpha_ in (0.0, 1e-3)


@pytest.mark.parametrize("sketch", [None, SubSample(100), PSparsified(60)], ids=str)
@pytest.mark.parametrize("alpha", [0.0, 1e-20, 1e-18, 1e-14])
@pytest.mark.filterwarnings("ignore:alpha is below the rounding error")
def test_a_penalty_below_rounding_does_no_harm(sketch, alpha):
    rng = np.random.default_rng(0)
    X, X_te = rng.uniform(-1, 1, (600, 1)), rng.uniform(-1, 1, (100, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(600)
    model = KernelRidge(Gaussian(1.0), sketch, alpha=alpha, random_state=0).fit(X, y)
    error = model.predict(X_te) - np.sin(3 * X_te[:, 0])
    assert np.sqrt(np.mean(error**2)) < 0.1


# Precision ---------------------------------------------------------------------------------------


def large_problem(n=1500):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + 400, 6))
    Y = np.column_stack([np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2], np.abs(X).sum(axis=1)])
    noisy = Y + 0.1 * rng.standard_normal(Y.shape)
    return X[:n], noisy[:n], X[n:], noisy[n:]


PRECISION_ALPHAS = [1e-1, 1e-3, 1e-5, 1e-7, 1e-9]
CASES = [  # smooth to rough kernels, sub-sampled and mixed features, ranks of 256 and more
    (0.001, SubSample(400)),
    (0.01, SubSample(400)),
    (0.05, SubSample(400)),
    (0.05, PSparsified(300)),
    (0.5, SubSample(400)),
]


def rmse(model, X, Y):
    return np.sqrt(np.mean((model.predict(X) - Y) ** 2))


@pytest.mark.parametrize(("gamma", "sketch"), CASES, ids=str)
def test_precision_of_large_ranks(gamma, sketch):
    X, Y, X_te, Y_te = large_problem()
    for alpha in PRECISION_ALPHAS:
        double = KernelRidge(Gaussian(gamma), sketch, alpha=alpha, random_state=0).fit(X, Y)
        assert double.basis_.rank_ >= 256
        coef = oracle.coordinate_ridge(double.basis_.transform(X), Y, alpha)
        expected = double.basis_.transform(X_te) @ coef
        atol = 1e-5 * np.abs(expected).max()
        assert_allclose(double.predict(X_te), expected, rtol=0, atol=atol, err_msg=f"{alpha}")
        single = clone(double).fit(X.astype(np.float32), Y)
        ratio = rmse(single, X_te.astype(np.float32), Y_te) / rmse(double, X_te, Y_te)
        assert ratio < (1.002 if alpha >= 1e-5 else 1.03), (alpha, ratio)


def test_large_ranks_try_every_plan(monkeypatch):
    """The cases above whiten nothing, a part or all of the features, in both precisions."""
    seen = set()
    original = engine.accuracy_plan

    def spy(C, *options):
        plan = original(C, *options)
        if not plan.center:
            share = "none" if plan.size == 0 else "part" if plan.size < len(C) else "all"
            seen.add((plan.dtype.name, share))
        return plan

    monkeypatch.setattr(engine, "accuracy_plan", spy)
    X, Y, _, _ = large_problem()
    for gamma, sketch in CASES:
        for alpha in PRECISION_ALPHAS:
            for dtype in (np.float64, np.float32):
                model = KernelRidge(Gaussian(gamma), sketch, alpha=alpha, random_state=0)
                model.fit(X[:1500].astype(dtype), Y[:1500])
    assert {(d, s) for d in ("float64", "float32") for s in ("none", "part")} <= seen
    assert ("float64", "all") in seen


@pytest.mark.parametrize("offset", [0.0, 2000.0, 10_000.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_targets_far_from_zero(dtype, offset):
    """Years, prices: float32 inputs must not cost the targets their last digits."""
    X, Y, X_te, Y_te = large_problem()
    model = KernelRidge(
        Gaussian(0.1), SubSample(400), alpha=[1e-5, 1e-3], cv=3, fit_intercept=True, random_state=0
    )
    expected = model.fit(X, Y)
    errors, reference = expected.cv_results_["mean_loss"], rmse(expected, X_te, Y_te)
    model = clone(model).fit(X.astype(dtype), Y + offset)
    assert_allclose(rmse(model, X_te.astype(dtype), Y_te + offset), reference, rtol=0.03)
    assert_allclose(model.cv_results_["mean_loss"], errors, rtol=0.05)


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-9, 0.0])
def test_exact_model_in_float32(alpha):
    rng = np.random.default_rng(0)
    X, X_te = rng.uniform(-1, 1, (300, 1)), rng.uniform(-1, 1, (100, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    model = KernelRidge(Gaussian(1.0), None, alpha=alpha).fit(X.astype(np.float32), y)
    found = model.predict(X_te.astype(np.float32))
    assert found.dtype == np.float32
    assert np.sqrt(np.mean((found - np.sin(3 * X_te[:, 0])) ** 2)) < 0.1


@pytest.mark.parametrize("sketch", [None, SubSample(15), PSparsified(15)], ids=str)
def test_float32_agrees_with_float64(sketch):
    X, Y, X_te = data()
    double = ridge(sketch, 1e-2).fit(X, Y).predict(X_te)
    single = ridge(sketch, 1e-2).fit(X.astype(np.float32), Y).predict(X_te.astype(np.float32))
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    assert_allclose(single, double, atol=1e-4)


# scikit-learn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-4, 1e-1])
def test_exact_model_agrees_with_scikit_learn(alpha):
    X, Y, X_te = data()
    w = np.arange(60.0) % 3 + 0.5
    theirs = DualRidge(alpha=60 * alpha, kernel="rbf", gamma=GAMMA).fit(X, Y)
    assert_allclose(ridge(None, alpha).fit(X, Y).predict(X_te), theirs.predict(X_te), rtol=1e-6)
    theirs = DualRidge(alpha=w.sum() * alpha, kernel="rbf", gamma=GAMMA).fit(X, Y, w)
    ours = ridge(None, alpha).fit(X, Y, w)
    assert_allclose(ours.predict(X_te), theirs.predict(X_te), rtol=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sketched_model_agrees_with_nystroem(fit_intercept):
    X, Y, X_te = data()
    map_ = Nystroem(gamma=GAMMA, n_components=12, random_state=0).fit(X)
    theirs = Ridge(60 * 1e-3, fit_intercept=fit_intercept).fit(map_.transform(X), Y)
    ours = ridge(SubSample(12), fit_intercept=fit_intercept)
    ours.partial_fit(X, Y, landmarks=map_.components_)
    assert_allclose(ours.predict(X_te), theirs.predict(map_.transform(X_te)), rtol=1e-6, atol=1e-8)
    assert_allclose(ours.score(X, Y), theirs.score(map_.transform(X), Y))


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
@pytest.mark.parametrize(
    ("alpha", "error", "message"),
    [
        (-1.0, ValueError, r"alpha must be a finite number >= 0. Got -1.0"),
        ([1.0, -1.0], ValueError, r"alpha must be a finite number >= 0. Got -1.0"),
        (np.nan, ValueError, r"alpha must be a finite number >= 0. Got nan"),
        (np.inf, ValueError, r"alpha must be a finite number >= 0. Got inf"),
        ([], ValueError, "non-empty sequence"),
        ("0.1", TypeError, r"alpha must be a finite number >= 0. Got '0.1'"),
        (None, TypeError, r"alpha must be a finite number >= 0. Got None"),
    ],
)
def test_bad_alpha(alpha, error, message, sketch):
    X, Y, _ = data()
    with pytest.raises(error, match=message):
        ridge(sketch, alpha).fit(X, Y)


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value, sketch):
    X, Y, _ = data()
    bad_X, bad_Y, bad_w = X.copy(), Y.copy(), np.ones(60)
    bad_X[3, 1] = bad_w[3] = value
    bad_Y[3, 1] = np.inf  # NaN is a hole
    for args in ((bad_X, Y), (X, bad_Y), (X, bad_Y[:, 1]), (X, Y, bad_w)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            ridge(sketch).fit(*args)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        ridge(sketch).fit(X, Y).predict(bad_X)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        ridge(SubSample(5)).partial_fit(X, Y, landmarks=bad_X)


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
def test_bad_data(sketch):
    X, Y, X_te = data()
    model = ridge(sketch)
    with pytest.raises(ValueError, match=r"same number of rows: .* 60 and 59"):
        model.fit(X, Y[:-1])
    with pytest.raises(ValueError, match="the target y is None"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit(X, ["a"] * 60)
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit([["a", "b"]] * 60, Y)
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit(X[:, 0], Y)
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(n, d\)|dim 3"):
        model.fit(X, Y[:, :, None])
    with pytest.raises(ValueError, match="at least two rows"):
        model.set_params(sketch=None if sketch is None else SubSample(1)).fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(X[:0], Y[:0])
    with pytest.raises(NotFittedError):
        ridge(sketch).predict(X)
    with pytest.raises(ValueError, match="2 features, but KernelRidge is expecting 3"):
        ridge(sketch).fit(X, Y).predict(X_te[:, :2])


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(59), r"sample_weight.shape == \(59,\)"),
        (-np.ones(60), "Negative values"),
        (np.zeros(60), r"positive sum|at least one non-zero"),
        (np.ones((60, 2)), "Sample weights must be 1D"),
    ],
)
def test_bad_weights(weights, message, sketch):
    X, Y, _ = data()
    with pytest.raises(ValueError, match=message):
        ridge(sketch).fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
@pytest.mark.parametrize("cv", [1, 0, "folds"])
def test_bad_cv(cv, sketch):
    X, Y, _ = data()
    with pytest.raises(ValueError, match=r"cv|splits|folds"):
        ridge(sketch, ALPHAS, cv=cv).fit(X, Y)


@pytest.mark.parametrize("sketch", [None, SubSample(5)], ids=str)
def test_more_folds_than_rows_leave_one_out(sketch):
    X, Y, _ = data()
    with pytest.warns(UserWarning, match="cv=61 is larger than the number of rows, 60; using 60"):
        model = ridge(sketch, ALPHAS, cv=61).fit(X, Y)
    assert model.alpha_ == ridge(sketch, ALPHAS, cv=60).fit(X, Y).alpha_


def test_progress_bar(capsys):
    X, Y, _ = data()
    ridge(SubSample(5), verbose=True).fit(X, Y)
    assert "moments" in capsys.readouterr().err
    ridge(None, ALPHAS, verbose=True).fit(X, Y)
    assert "folds" in capsys.readouterr().err
    ridge(SubSample(5)).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == err == ""


@pytest.mark.parametrize(
    ("sketch", "weighted"),
    [
        *((SubSample(300), False), (SubSample(300), True)),
        *((PSparsified(300), False), (PSparsified(300), True)),
        (SubSample(1500), True),
    ],
    ids=str,
)
def test_landmarks_that_are_rows_are_not_computed_again(sketch, weighted, monkeypatch):
    """What is known of landmarks, their features or coordinates, gives the same moments."""
    X, Y, X_te, _ = large_problem()
    X[5:10] = X[0]
    w = np.random.default_rng(1).integers(0, 3, len(X)) if weighted else None
    for alpha in (1e-7, [1e-7, 1e-5]):
        model = KernelRidge(Gaussian(0.05), sketch, alpha=alpha, random_state=0)
        remembered = clone(model).fit(X, Y, w).predict(X_te)
        with monkeypatch.context() as patch:
            patch.setattr("skout.basis.engine.KnownRows", lambda *_: None)
            plain = clone(model).fit(X, Y, w).predict(X_te)
        assert_allclose(remembered, plain, rtol=1e-6, atol=1e-6 * np.abs(plain).max())


def test_a_pass_holds_no_kernel_matrix_that_it_does_not_use(monkeypatch):
    """While float32 rows pass, of the m x m matrices only the inverse factor is in memory."""
    m, held = 500, []
    X = np.random.default_rng(0).standard_normal((1500, 4)).astype(np.float32)
    call = engine.BlockMoments.__call__

    def measured(self, *block):
        held.append(tracemalloc.get_traced_memory()[0])
        return call(self, *block)

    monkeypatch.setattr(engine.BlockMoments, "__call__", measured)
    tracemalloc.start()
    try:
        KernelRidge(Gaussian(0.1), SubSample(m), random_state=0).fit(X, X[:, 0])
    finally:
        tracemalloc.stop()
    assert held[0] < 1.5 * 8 * m**2  # with the kernel matrix and its factor it was 3 of them
