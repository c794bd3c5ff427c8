"""Conformal sets: the threshold by hand, the promise of coverage by repeated splits."""

import math
import pickle
from fractions import Fraction

import numpy as np
import oracles_decoding as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skout import ConformalSets, KernelBasis, StructuredPredictor, iokr
from skout.decoding import CandidateSets
from skout.kernels import Gaussian, Linear

KERNELS = [(Gaussian(0.3), oracle.gaussian(0.3)), (Linear(), oracle.linear)]


def problem(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    Y = np.column_stack([np.sin(2 * X[:, 0]), np.cos(2 * X[:, 0])])
    return X, Y + 0.4 * rng.standard_normal((n, 2))


def nearest(kernel, X, Y):
    """A model whose predictions are easy to follow: f(x) = z(y) of the nearest training row."""
    return StructuredPredictor(KNeighborsRegressor(1), KernelBasis(kernel)).fit(X, Y)


def score_rows(X, Y, X_te, C, kernel):
    """2 k(y, c) - k(c, c), y the output of the nearest training row, by loops."""
    near = [int(np.argmin(np.abs(X[:, 0] - x))) for x in X_te[:, 0]]
    return np.array([[2.0 * kernel(Y[i], c) - kernel(c, c) for c in C] for i in near])


def place(n, coverage):
    return math.ceil((n + 1) * Fraction(str(coverage)))


# The threshold -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "truth"), KERNELS, ids=["gaussian", "linear"])
def test_gaps_and_threshold_by_hand(kernel, truth):
    X, Y = problem()
    model = nearest(kernel, X[:30], Y[:30])
    C = Y[30:]
    sets = ConformalSets(model)
    assert sets.calibrate(X[30:], C, C) is sets
    S = score_rows(X[:30], Y[:30], X[30:], C, truth)
    gaps = np.sort([row.max() - row[i] for i, row in enumerate(S)])
    assert_allclose(sets.gaps_, gaps, rtol=0, atol=1e-9 * np.abs(S).max())
    assert np.all(np.diff(sets.gaps_) >= 0)
    for coverage in (0.05, 0.3, 0.5, 0.77, 0.9, 0.96):
        assert sets.threshold(coverage) == sets.gaps_[place(30, coverage) - 1]
    assert sets.threshold() == sets.threshold(0.9)


@given(n=st.integers(1, 40), percent=st.integers(1, 99))
def test_the_threshold_is_an_order_statistic(n, percent):
    sets = ConformalSets(None)
    sets.gaps_ = np.arange(1.0, n + 1.0)
    coverage = percent / 100
    exact = place(n, coverage)
    if exact > n:
        with pytest.warns(UserWarning, match=f"Got {n}: the sets hold every candidate"):
            assert sets.threshold(coverage) == math.inf
        return
    assert sets.threshold(coverage) == exact
    assert sets.threshold(np.float64(coverage)) == exact


def test_too_few_rows_hold_every_candidate():
    X, Y = problem()
    model = nearest(Linear(), X[:30], Y[:30])
    sets = ConformalSets(model).calibrate(X[30:38], Y[:8])
    message = r"A coverage of 0.95 needs 19 calibration rows or more. Got 8: the sets hold every"
    with pytest.warns(UserWarning, match=message):
        found = sets.predict(X[38:], coverage=0.95)
    assert_array_equal(found.sizes, 30)
    with pytest.warns(UserWarning, match=message):
        result = sets.evaluate(X[38:], Y[:22], coverage=0.95)
    assert result == {
        "coverage": 1.0,
        "mean_size": 30.0,
        "median_size": 30.0,
        "share_of_one": 0.0,
    }


def test_truths_that_are_no_candidates_have_infinite_gaps():
    X, Y = problem()
    model = nearest(Linear(), X[:30], Y[:30])
    truth = np.vstack([Y[:5], Y[30:35]])  # the last five are not in the pool
    sets = ConformalSets(model).calibrate(X[40:50], truth)
    assert_array_equal(np.isinf(sets.gaps_), [False] * 5 + [True] * 5)
    assert np.isfinite(sets.threshold(0.45))
    with pytest.warns(UserWarning, match="5 of 10 truths were not among the candidates"):
        assert sets.threshold(0.6) == math.inf  # no set can do better
    with pytest.warns(UserWarning, match="ask for less coverage"):
        assert_array_equal(sets.predict(X[:3], coverage=0.6).sizes, 30)


# The sets ----------------------------------------------------------------------------------------


def own_sets(Y, n, size, seed=0):
    """A set for each of n rows: the row's own truth, others and a copy, in any order."""
    rng = np.random.default_rng(seed)
    chosen = [np.append(rng.permutation(len(Y))[:size], i) for i in range(n)]
    return [Y[rng.permutation(np.append(some, some[0]))] for some in chosen]


@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
@pytest.mark.parametrize(("kernel", "truth"), KERNELS, ids=["gaussian", "linear"])
def test_sets_hold_what_is_within_the_gap(kernel, truth, per_query):
    X, Y = problem(1)
    model = nearest(kernel, X[:30], Y[:30])
    C = Y[30:]
    pools = own_sets(C, 30, 8) if per_query else [C] * 30
    candidates = pools if per_query else C
    sets = ConformalSets(model).calibrate(X[30:], C, candidates)
    before = [[] for _ in range(30)]
    for coverage in (0.2, 0.5, 0.8, 0.95):
        q = sets.threshold(coverage)
        found = sets.predict(X[30:], candidates, coverage=coverage)
        assert isinstance(found, CandidateSets)
        assert found.sizes.min() >= 1
        for i, pool in enumerate(pools):
            distinct = list(dict.fromkeys(map(tuple, pool)))
            S = score_rows(X[:30], Y[:30], X[[30 + i]], distinct, truth)[0]
            own = [tuple(c) for c in found[i]]
            sure = [distinct[j] for j in oracle.ranked(S) if S[j] > S.max() - q + 1e-8]
            may = [distinct[j] for j in oracle.ranked(S) if S[j] > S.max() - q - 1e-8]
            assert own[: len(sure)] == sure  # best first
            assert len(set(own)) == len(own)
            assert set(own) <= set(may)
            assert own[: len(before[i])] == before[i]  # sets grow with the coverage
            before[i] = own
    assert max(map(len, before)) > 1


@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
def test_evaluate_agrees_with_predict(per_query):
    X, Y = problem(2, n=120)
    model = iokr(Gaussian(1.0), Linear(), alpha=1e-2).fit(X[:40], Y[:40])
    candidates = own_sets(Y[40:], 80, 6) if per_query else Y[40:]
    first, last = (candidates[:40], candidates[40:]) if per_query else (candidates, candidates)
    sets = ConformalSets(model).calibrate(X[40:80], Y[40:80], first)
    for coverage in (0.3, 0.7, 0.9):
        found = sets.predict(X[80:], last, coverage=coverage)
        result = sets.evaluate(X[80:], Y[80:], last, coverage=coverage)
        pairs = zip(found, Y[80:], strict=True)
        covered = [tuple(y) in {tuple(c) for c in some} for some, y in pairs]
        assert result["coverage"] == np.mean(covered)
        assert result["mean_size"] == np.mean(found.sizes)
        assert result["median_size"] == np.median(found.sizes)
        assert result["share_of_one"] == np.mean(found.sizes == 1)
    assert 0.0 < result["share_of_one"] < 1.0 or result["mean_size"] > 1.0


def test_the_pool_may_be_embedded_beforehand():
    X, Y = problem(3)
    model = nearest(Linear(), X[:30], Y[:30])
    pool = model.embed(Y[30:])
    sets = ConformalSets(model).calibrate(X[30:], Y[30:], pool)
    assert_array_equal(sets.gaps_, ConformalSets(model).calibrate(X[30:], Y[30:], Y[30:]).gaps_)
    one, other = (sets.predict(X[30:], some, coverage=0.7) for some in (pool, Y[30:]))
    assert_array_equal(one.indptr, other.indptr)
    assert_array_equal(one.indices, other.indices)


def test_strings():
    words = ["cat", "cart", "dog", "dogs", "bird"]
    X = np.arange(5.0)[:, None]
    basis = KernelBasis(oracle.as_matrix(oracle.bigrams))
    model = StructuredPredictor(KNeighborsRegressor(1), basis).fit(X, words)
    sets = ConformalSets(model).calibrate(X, ["cat", "cat", "dog", "dog", "bird"])
    # cart: k(cat, cart) = 3, so that cat is 5 - (2 * 3 - 4) = 3 short of it; so is dog of dogs
    assert_allclose(sets.gaps_, [0.0, 0.0, 0.0, 3.0, 3.0], atol=1e-9)
    assert [list(some) for some in sets.predict(X, coverage=0.5)] == [[w] for w in words]
    assert list(sets.predict(X[1:2], coverage=0.8)[0]) == ["cart", "cat"]


def test_pickle():
    X, Y = problem()
    sets = ConformalSets(nearest(Linear(), X[:30], Y[:30])).calibrate(X[30:], Y[:30])
    again = pickle.loads(pickle.dumps(sets))
    assert_array_equal(again.predict(X).indices, sets.predict(X).indices)


# Coverage ----------------------------------------------------------------------------------------


def coverages(model, X, Y, candidates, n_calibration, coverage, n_splits=300):
    """Coverage of the sets on the rest, for random splits of the same rows."""
    rng = np.random.default_rng(0)
    F, decoder = model.predict_coordinates(X), model.decoder_
    gaps = decoder.gaps(F, Y, candidates)
    sets, out = ConformalSets(model), []
    for _ in range(n_splits):
        order = rng.permutation(len(X))
        sets.gaps_ = np.sort(gaps[order[:n_calibration]])
        out.append(np.mean(gaps[order[n_calibration:]] <= sets.threshold(coverage)))
    return np.array(out)


def test_the_gaps_of_a_calibration_are_those_of_its_rows():
    X, Y = problem(5)
    model = iokr(Gaussian(1.0), Linear(), alpha=1e-2).fit(X[:20], Y[:20])
    gaps = model.decoder_.gaps(model.predict_coordinates(X), Y, Y)
    some = np.random.default_rng(0).permutation(60)[:25]
    assert_allclose(ConformalSets(model).calibrate(X[some], Y[some], Y).gaps_, np.sort(gaps[some]))


@pytest.mark.parametrize(("n_calibration", "coverage"), [(18, 0.8), (23, 0.9), (40, 0.55)])
def test_coverage_of_random_splits(n_calibration, coverage):
    # a new row is as likely to take any place among the n + 1: P = ceil((n + 1) coverage) / (n + 1)
    X, Y = problem(4, n=300)
    model = iokr(Gaussian(1.0), Linear(), alpha=1e-2).fit(X[:60], Y[:60])
    found = coverages(model, X[60:], Y[60:], Y[60:], n_calibration, coverage)
    error = found.std() / math.sqrt(len(found))
    promised = place(n_calibration, coverage) / (n_calibration + 1)
    assert coverage <= promised
    assert abs(found.mean() - promised) < 4 * error
    assert error < 0.01


@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
def test_coverage_on_new_data(per_query):
    rng = np.random.default_rng(7)
    share = []
    for seed in range(40):
        X, Y = problem(100 + seed, n=90)
        candidates = own_sets(Y, 90, 10, seed) if per_query else Y
        model = iokr(Gaussian(1.0), Linear(), alpha=1e-2).fit(X[:20], Y[:20])
        order = 20 + rng.permutation(70)
        first, last = order[:29], order[29:]
        sets = ConformalSets(model)
        for rows in (first, last):
            some = [candidates[i] for i in rows] if per_query else candidates
            if rows is first:
                sets.calibrate(X[rows], Y[rows], some)
            else:
                found = sets.predict(X[rows], some, coverage=0.9)
        share.append(
            np.mean([(c == Y[i]).all(axis=1).any() for c, i in zip(found, last, strict=True)])
        )
    # the promise is 0.9 = 27 / 30 exactly; the mean of 40 splits has a standard error of 0.01
    assert 0.87 < np.mean(share) < 0.93
    assert np.std(share) < 0.2


def test_coverage_with_equal_gaps():
    # one prediction for all rows, four objects: gaps take four values, and sets must hold all equal
    rng = np.random.default_rng(0)
    X = np.zeros((400, 1))
    Y = np.eye(4)[rng.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])]
    model = StructuredPredictor(DummyRegressor(), KernelBasis(Linear())).fit(X, Y)
    sets = ConformalSets(model).calibrate(X[:200], Y[:200])
    result = sets.evaluate(X[200:], Y[200:], coverage=0.6)
    found = sets.predict(X[200:], coverage=0.6)
    assert result["mean_size"] == 2.0
    assert_array_equal(found[0], np.eye(4)[:2])
    assert 0.6 < result["coverage"] < 0.8


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "evaluate", "threshold"])
def test_uncalibrated(method):
    X, Y = problem()
    sets = ConformalSets(nearest(Linear(), X, Y))
    arguments = {"predict": (X,), "evaluate": (X, Y), "threshold": ()}[method]
    with pytest.raises(NotFittedError, match="not calibrated yet: call `calibrate` first"):
        getattr(sets, method)(*arguments)


def test_the_model_must_be_fitted():
    X, Y = problem()
    with pytest.raises(NotFittedError):
        ConformalSets(iokr()).calibrate(X, Y)


def test_the_model_must_rank_candidates():
    X = np.arange(10.0)[:, None]
    Y = np.eye(2, dtype=int)[[0, 1] * 5]
    model = iokr("gaussian", "f1").set_params(decoder="label_sets").fit(X, Y)
    with pytest.raises(
        TypeError, match="ConformalSets needs a decoder with gaps, and LabelSetDecoder has none"
    ):
        ConformalSets(model).calibrate(X, Y)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5, -0.1, np.nan, "most", None])
def test_coverage_is_a_probability(coverage):
    X, Y = problem()
    sets = ConformalSets(nearest(Linear(), X, Y)).calibrate(X, Y)
    with pytest.raises(ValueError, match=r"coverage must lie strictly between 0 and 1. Got"):
        sets.predict(X, coverage=coverage)


def test_calibration_rows():
    X, Y = problem()
    sets = ConformalSets(nearest(Linear(), X, Y))
    with pytest.raises(ValueError, match=r"X and Y must be of equal length. Got 60 and 59"):
        sets.calibrate(X, Y[:-1])
    with pytest.raises(ValueError, match="calibrate needs at least one row"):
        sets.calibrate(X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"one set for each row. Got 2 sets for 60 rows"):
        sets.calibrate(X, Y, [Y, Y])


# Faults that were mended -------------------------------------------------------------------------


def test_nine_rows_are_enough_for_nine_in_ten():
    sets = ConformalSets(None)
    sets.gaps_ = np.arange(9.0)
    assert sets.threshold(0.9) == 8.0
    sets.gaps_ = np.arange(8.0)
    with pytest.warns(UserWarning, match="A coverage of 0.9 needs ") as caught:
        sets.threshold(0.9)
    assert "needs 9 calibration rows" in str(caught[0].message)
    assert sets.threshold(np.float32(0.8)) == sets.threshold(Fraction(4, 5)) == 7.0


def test_coverage_with_equal_gaps_and_sets_for_each_query():
    # 0.2 of the truths were found instead of 0.35
    rng = np.random.default_rng(1)
    C = rng.standard_normal((5, 3))
    Y, X = C[rng.integers(0, 5, 400)], np.zeros((400, 1))
    model = StructuredPredictor(DummyRegressor(), KernelBasis(Linear())).fit(X, Y)
    sets = ConformalSets(model).calibrate(X[:200], Y[:200], [C] * 200)
    found = sets.predict(X[200:], [C] * 200, coverage=0.35)
    covered = np.mean(
        [(some == y).all(axis=1).any() for some, y in zip(found, Y[200:], strict=True)]
    )
    assert covered == sets.evaluate(X[200:], Y[200:], [C] * 200, coverage=0.35)["coverage"]


@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
def test_evaluate_agrees_with_predict_up_to_rounding(per_query):
    X, Y = problem(6)
    model = nearest(Linear(), X[:30], Y[:30])
    candidates = [Y] * 30 if per_query else Y
    gaps = model.decoder_.gaps(model.predict_coordinates(X[30:]), Y[30:], candidates)
    sets = ConformalSets(model)
    for gap in gaps[gaps > 0]:
        sets.gaps_ = np.full(20, np.nextafter(gap, 0.0))  # a gap that was rounded in another way
        found = sets.predict(X[30:], candidates)
        pairs = zip(found, Y[30:], strict=True)
        covered = [tuple(y) in {tuple(c) for c in some} for some, y in pairs]
        assert sets.evaluate(X[30:], Y[30:], candidates)["coverage"] == np.mean(covered)
        assert np.mean(covered) >= np.mean(gaps <= gap)


# Models of other kinds ---------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[StandardScaler()], []])
def test_sets_of_a_pipeline(before):
    X, Y = problem()
    model = make_pipeline(*before, iokr(Gaussian(1.0), Gaussian(0.3))).fit(X[:30], Y[:30])
    rows = model[:-1].transform(X) if before else X
    expected = ConformalSets(model[-1]).calibrate(rows[30:], Y[30:], Y)
    sets = ConformalSets(model).calibrate(X[30:], Y[30:], Y)
    assert_array_equal(sets.gaps_, expected.gaps_)
    assert_array_equal(sets.predict(X, Y).sizes, expected.predict(rows, Y).sizes)
    assert sets.evaluate(X, Y, Y) == expected.evaluate(rows, Y, Y)


def test_models_that_do_not_rank_are_refused():
    X, Y = problem()
    search = GridSearchCV(iokr(), {"regressor__alpha": [1e-3]}, cv=2).fit(X, Y)
    with pytest.raises(TypeError, match=r"Got GridSearchCV instead.*best_estimator_"):
        ConformalSets(search).calibrate(X, Y)


def test_a_model_that_was_fitted_again_must_be_calibrated_again():
    X, Y = problem()
    model = iokr(Gaussian(1.0), Gaussian(0.3)).fit(X[:30], Y[:30])
    sets = ConformalSets(model).calibrate(X[30:], Y[30:], Y)
    kept = pickle.loads(pickle.dumps(sets))
    sizes = sets.predict(X, Y).sizes
    model.fit(X[:20], Y[:20])
    for use in (sets.predict, lambda X, Y: sets.evaluate(X, Y, Y)):
        with pytest.raises(ValueError, match=r"fitted again after `calibrate`.*call `calibrate`"):
            use(X, Y)
    assert sets.calibrate(X[30:], Y[30:], Y).predict(X, Y).sizes.sum() > 0
    assert_array_equal(kept.predict(X, Y).sizes, sizes)


def test_a_calibration_that_fails_changes_nothing():
    X, Y = problem()
    model = iokr(Gaussian(1.0), Gaussian(0.3)).fit(X[:30], Y[:30])
    sets = ConformalSets(model).calibrate(X[30:], Y[30:], Y)
    gaps = sets.gaps_.copy()
    with pytest.raises(ValueError, match="NaN"):
        sets.calibrate(X[30:], np.full_like(Y[30:], np.nan), Y)
    assert_array_equal(sets.gaps_, gaps)
    assert sets.predict(X, Y).sizes.sum() > 0
