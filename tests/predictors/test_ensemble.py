"""Ensembles against double loops over members and candidates, and on digits."""

import pickle
import tracemalloc

import numpy as np
import oracles_decoding as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor

from skout import CandidateSets, KernelBasis, StructuredPredictor, iokr, memory_limits, sisokr
from skout.decoding.ensembles import _average_ranks
from skout.kernels import Gaussian, Linear, NGram
from skout.metrics import mean_reciprocal_rank
from skout.predictors.ensemble import Ensemble
from skout.sketches import GaussianSketch, SubSample

COMBINE = ["mean", "max", "rank"]
TIES = {"best": 0.0, "average": 0.5, "worst": 1.0}
KERNELS = [(Gaussian(0.3), oracle.gaussian(0.3)), (Linear(), oracle.linear)]
WEIGHTS = [None, [0.5, 2.0, 1.5], [1.0, 0.0, 3.0]]


def problem(seed=0, n=40):
    """Points near a circle, a few of them twice."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    Y = np.column_stack([np.sin(2 * X[:, 0]), np.cos(2 * X[:, 0])])
    Y = np.round(Y + 0.3 * rng.standard_normal((n, 2)), 1)
    return X, Y


def sketched(kernel, random_state=None):
    return sisokr(
        Gaussian(1.0),
        kernel,
        input_sketch=SubSample(12),
        output_sketch=GaussianSketch(1 if isinstance(kernel, Linear) else 5),
        alpha=1e-3,
        random_state=random_state,
    )


def fitted(kernel=KERNELS[0][0], combine="mean", weights=None, seed=0):
    X, Y = problem()
    return Ensemble(sketched(kernel), 3, combine=combine, weights=weights, random_state=seed).fit(
        X[:30], Y[:30]
    )


# The slow truth ----------------------------------------------------------------------------------


def member_scores(model, X, C, kernel):
    """2 f'z(c) - k(c, c) of each row and candidate."""
    F = model.predict_coordinates(X)
    distinct = np.unique(C, axis=0)
    Z = dict(zip(map(tuple, distinct), model.output_basis_.transform(distinct), strict=True))
    return np.array([[2 * float(np.dot(f, Z[tuple(c)])) - kernel(c, c) for c in C] for f in F])


def ranks_of(row, keys):
    """Rank of each candidate among the distinct ones, ties averaged."""
    distinct = dict(zip(keys, row, strict=True)).values()
    out = []
    for score in row:
        above = sum(other > score + 1e-9 for other in distinct)
        tied = sum(abs(other - score) <= 1e-9 for other in distinct)
        out.append(above + (tied + 1) / 2)
    return np.array(out)


def combined(rows, weights, combine, keys):
    """The score of one query's candidates, given a row of scores from each member."""
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights)
    weights = weights / weights.sum()
    if combine == "rank":
        rows = [-ranks_of(row, keys) for row in rows]
    out = []
    for j in range(len(rows[0])):
        if combine in ("mean", "rank"):
            out.append(sum(w * row[j] for w, row in zip(weights, rows, strict=True)))
        else:
            out.append(max(row[j] for w, row in zip(weights, rows, strict=True) if w > 0))
    return np.round(out, 9)  # so that rounding breaks no ties


def expected(ensemble, X, lists, kernel, weights, combine):
    """Combined scores of each query's own candidates, and their keys."""
    pool = np.concatenate(lists)
    S = [member_scores(model, X, pool, kernel) for model in ensemble.members_]
    ends = np.cumsum([len(C) for C in lists])
    result = []
    for i, (C, end) in enumerate(zip(lists, ends, strict=True)):
        keys = [tuple(c) for c in C]
        rows = [member[i, end - len(C) : end] for member in S]
        result.append((combined(rows, weights, combine, keys), keys))
    return result


def check_against_loops(ensemble, X, Y, candidates, lists, want, combine, k):
    atol = 6e-7 if combine == "rank" else 2e-9  # ranks are rounded
    indices, scores = ensemble.rank(X, candidates, k=k)
    assert indices.shape == scores.shape == (len(X), k)
    for i, (row, _) in enumerate(want):
        order = oracle.ranked(row)[:k]
        assert_array_equal(indices[i, : len(order)], order)
        assert_allclose(scores[i, : len(order)], row[order], rtol=0, atol=atol)
        assert np.all(indices[i, len(order) :] == -1)
        assert np.all(scores[i, len(order) :] == -np.inf)
    predicted = ensemble.predict(X, candidates)
    best = [C[oracle.ranked(row)[0]] for C, (row, _) in zip(lists, want, strict=True)]
    assert_array_equal(predicted, best)
    for ties, share in TIES.items():
        ranks = ensemble.truth_ranks(X, Y, candidates, ties=ties)
        truth = [
            oracle.truth_rank(row, keys, tuple(y), share)
            for (row, keys), y in zip(want, Y, strict=True)
        ]
        assert_array_equal(ranks, truth)


CASES = [
    pytest.param(*case, id=f"{case[0]}-{'linear' if case[2] == 1 else 'gaussian'}-{case[1]}")
    for i, combine in enumerate(COMBINE)
    for j, weights in enumerate(WEIGHTS)
    for case in [(combine, weights, (i + j) % 2)]
]


@pytest.mark.parametrize(("combine", "weights", "which"), CASES)
def test_the_training_outputs_by_loops(combine, weights, which):
    kernel, truth = KERNELS[which]
    X, Y = problem()
    model = fitted(kernel, combine, weights)
    pool = model.members_[0].decoder_.pool_
    assert len(pool) < 30  # there are copies among the outputs
    lists = [pool] * 10
    want = expected(model, X[30:], lists, truth, weights, combine)
    check_against_loops(model, X[30:], Y[30:], None, lists, want, combine, 4)


@pytest.mark.parametrize(("combine", "weights", "which"), CASES)
def test_a_shared_pool_by_loops(combine, weights, which):
    kernel, truth = KERNELS[which]
    X, Y = problem()
    model = fitted(kernel, combine, weights)
    pool = np.concatenate([Y[32:], Y[34:38], Y[:5]])  # copies, and two truths are absent
    lists = [pool] * 10
    want = expected(model, X[30:], lists, truth, weights, combine)
    check_against_loops(model, X[30:], Y[30:], pool, lists, want, combine, 7)
    embedded = model.embed(pool)
    assert len(embedded) == len(pool)
    check_against_loops(model, X[30:], Y[30:], embedded, lists, want, combine, 17)


@pytest.mark.parametrize(("combine", "weights", "which"), CASES)
def test_sets_of_their_own_by_loops(combine, weights, which):
    kernel, truth = KERNELS[which]
    X, Y = problem()
    model = fitted(kernel, combine, weights)
    rng = np.random.default_rng(1)
    # with copies inside a set
    places = [rng.integers(0, 40, size) for size in rng.integers(1, 12, 10)]
    places = [np.append(some, 30 + i) if i % 3 else some for i, some in enumerate(places)]
    lists = [Y[some] for some in places]
    k = max(map(len, lists))
    want = expected(model, X[30:], lists, truth, weights, combine)
    check_against_loops(model, X[30:], Y[30:], lists, lists, want, combine, k)
    sets = CandidateSets(Y, np.cumsum([0, *map(len, places)]), np.concatenate(places))
    check_against_loops(model, X[30:], Y[30:], sets, lists, want, combine, 3)
    pools = model.embed(sets)
    check_against_loops(model, X[30:], Y[30:], pools, lists, want, combine, 2)


@pytest.mark.parametrize("combine", COMBINE)
def test_candidates_of_equal_score(combine):
    """Predictions of 0: candidates of equal norm tie, to every member."""
    X, Y = np.zeros((4, 1)), np.array([[1.0, 2.0], [-2.0, 1.0], [3.0, 0.0], [0.0, 0.5]])
    zero = DummyRegressor(strategy="constant", constant=[0.0, 0.0])
    models = [StructuredPredictor(zero, KernelBasis(Linear())).fit(X, Y) for _ in range(3)]
    model = Ensemble.of(models, combine=combine, weights=[1.0, 1.0, 1.0])
    pool = np.array([[2.0, 1.0], [3.0, 0.0], [1.0, -2.0], [0.0, 0.0], [2.0, 1.0], [-1.0, 2.0]])
    indices, scores = model.rank(X[:1], pool, k=6)
    assert_array_equal(indices, [[3, 0, 2, 4, 5, 1]])
    want = {"rank": [-1, -3, -3, -3, -3, -5]}.get(combine, [0, -5, -5, -5, -5, -9])
    assert_allclose(scores[0], want, atol=1e-9)
    for ties, rank in {"best": 2, "average": 3, "worst": 4}.items():
        assert_array_equal(model.truth_ranks(X[:1], pool[2:3], pool, ties=ties), [rank])
        assert_array_equal(model.truth_ranks(X[:1], pool[2:3], [pool], ties=ties), [rank])


@given(
    scores=st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    noise=st.floats(-1e-12, 1e-12),
)
def test_average_ranks(scores, noise):
    row = np.array(scores, dtype=float)
    noisy = row + noise * np.arange(len(row)) / len(row)
    assert_array_equal(_average_ranks(noisy, 1e-10), ranks_of(row, range(len(row))))


def test_the_mean_rank_does_not_depend_on_the_order_of_members():
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1, but such sums must tie."""
    X, Y = problem()
    models = [sketched(Gaussian(0.3), seed).fit(X[:30], Y[:30]) for seed in range(5)]
    one = Ensemble.of(models, combine="rank", weights=[0.1, 0.2, 0.3, 0.15, 0.25])
    two = Ensemble.of(models[::-1], combine="rank", weights=[0.25, 0.15, 0.3, 0.2, 0.1])
    for a, b in zip(one.rank(X, Y, k=40), two.rank(X, Y, k=40), strict=True):
        assert_array_equal(a, b)


# Members -----------------------------------------------------------------------------------------


def test_members_differ_by_every_seed():
    model = fitted()
    seeds = [
        (m.get_params()["regressor__random_state"], m.get_params()["output_basis__random_state"])
        for m in model.members_
    ]
    assert len({seed for pair in seeds for seed in pair}) == 6
    coordinates = [m.output_basis_.components_ for m in model.members_]
    assert not np.allclose(coordinates[0], coordinates[1])
    X, _ = problem()
    again, other = fitted(seed=0), fitted(seed=1)
    assert_array_equal(model.rank(X)[1], again.rank(X)[1])
    assert not np.allclose(model.rank(X)[1], other.rank(X)[1])


@pytest.mark.parametrize("combine", ["mean", "max"])
def test_a_single_member_is_itself(combine):
    X, Y = problem()
    model = Ensemble(sketched(Gaussian(0.3)), 1, combine=combine, random_state=0).fit(
        X[:30], Y[:30]
    )
    member = model.members_[0]
    for a, b in zip(model.rank(X, Y), member.rank(X, Y), strict=True):
        assert_allclose(a, b, rtol=1e-12)
    assert_array_equal(model.truth_ranks(X, Y, Y), member.truth_ranks(X, Y, Y))
    assert model.score(X, Y, Y) == member.score(X, Y, Y)
    assert_array_equal(model.tune(X, Y, Y).weights_, [1.0])


def test_it_is_an_estimator():
    model = Ensemble(sketched(Gaussian(0.3)), 2, combine="max", weights=[1, 3], random_state=0)
    params = clone(model).get_params()
    assert (params["n_members"], params["combine"], params["weights"]) == (2, "max", [1, 3])
    assert params["predictor__output_basis__kernel__gamma"] == 0.3
    X, Y = problem()
    assert model.fit(X, Y) is model
    assert_array_equal(model.weights_, [0.25, 0.75])
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.rank(X, Y)[0], model.rank(X, Y)[0])
    assert_array_equal(copy.rank(X, model.embed(Y))[0], model.rank(X, Y)[0])
    refitted = clone(Ensemble.of(model.members_)).fit(X, Y)
    assert len(refitted.members_) == 2
    assert not hasattr(refitted.predictor, "decoder_")


def test_a_grid_search_over_strategies():
    X, Y = problem()
    model = Ensemble(sketched(Gaussian(0.3)), 2, random_state=0)
    grid = GridSearchCV(model, {"combine": COMBINE, "n_members": [1, 2]}, cv=2).fit(X, Y)
    assert np.all(np.isfinite(grid.cv_results_["mean_test_score"]))


def test_score_is_by_the_kind_of_outputs_or_by_the_kernel():
    X, Y = problem()
    model = fitted()
    predicted = model.predict(X)
    similar = [oracle.gaussian(0.3)(a, b) for a, b in zip(Y, predicted, strict=True)]
    assert_allclose(model.score(X, Y, scoring="kernel"), np.mean(similar))
    expected = r2_score(Y, predicted, multioutput="variance_weighted")
    assert_allclose(model.score(X, Y), expected)
    lists = [Y] * len(X)
    expected = np.mean(1.0 / model.truth_ranks(X, Y, lists))
    assert_allclose(model.score(X, Y, lists), expected)


@pytest.mark.parametrize("routing", [False, True])
def test_sample_weights_reach_the_members(routing):
    X, Y = problem()
    weight = np.where(np.arange(40) < 20, 1.0, 0.0)
    ridge = Ridge(1e-3)
    if routing:
        with config_context(enable_metadata_routing=True):
            ridge.set_fit_request(sample_weight=True)
    model = Ensemble(StructuredPredictor(ridge, KernelBasis(Gaussian(0.3))), 1)
    with config_context(enable_metadata_routing=routing):
        model.fit(X, Y, sample_weight=weight)
    member = model.members_[0]
    T = member.output_basis_.transform(Y)
    assert_allclose(member.regressor_.coef_, Ridge(1e-3).fit(X, T, weight).coef_, atol=1e-10)
    assert not np.allclose(member.regressor_.coef_, Ridge(1e-3).fit(X, T).coef_)


def test_members_of_different_kernels_tell_more_objects_apart():
    """Bags of letters do not see the order of letters, bags of pairs do."""
    words = ["ab", "ba", "abc", "cab", "cc", "aab"]
    X = np.arange(6.0)[:, None]
    models = [
        StructuredPredictor(KNeighborsRegressor(1), KernelBasis(NGram(n))).fit(X, words)
        for n in (1, 2)
    ]
    assert [len(m.decoder_.pool_) for m in models] == [4, 6]
    for combine in COMBINE:
        model = Ensemble.of(models, combine=combine)
        with pytest.raises(ValueError, match="different outputs"):
            model.predict(X)
        pool = ["ba", "ab", "aab", "ab", "cab", "abc"]
        indices, _ = model.rank(X[:1], pool, k=6)  # "ab"
        first = {"max": [0, 1, 3]}.get(combine, [1, 3, 0])  # a maximum hears one member only
        assert_array_equal(indices[0, :3], first)
        ranks = model.truth_ranks(X[:2], words[:2], pool)
        assert_array_equal(ranks, [1.5, 1.5] if combine == "max" else [1.0, 1.0])
        lists = [["ba", "cc"], ["ab", "ba", "ab"]]
        assert_array_equal(model.truth_ranks(X[:2], words[:2], lists), [np.inf, ranks[1]])
        assert model.predict(X[:2], lists) == ["ba", "ab" if combine == "max" else "ba"]


# Memory and blocks -------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", COMBINE)
def test_blocks_do_not_matter(combine):
    X, _ = problem()
    model = fitted(combine=combine)
    pool = np.random.default_rng(0).standard_normal((10_000, 2))
    whole = model.rank(X, pool, k=5), model.truth_ranks(X, pool[:40], pool)
    with memory_limits(block_rows=7, block_mb=1):
        parts = model.rank(X, pool, k=5), model.truth_ranks(X, pool[:40], pool)
    assert_array_equal(whole[0][0], parts[0][0])
    assert_allclose(whole[0][1], parts[0][1], rtol=1e-10)
    assert_array_equal(whole[1], parts[1])


@pytest.mark.parametrize("combine", COMBINE)
def test_scores_are_not_held(combine):
    X, _ = problem(n=400)
    model = fitted(combine=combine)
    pools = model.embed(np.random.default_rng(0).standard_normal((8_000, 2)))
    full = len(X) * 8_000 * 8
    with memory_limits(block_mb=2):
        tracemalloc.start()
        model.rank(X, pools, k=5)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 0.4 * full


# Weights by validation ---------------------------------------------------------------------------


def test_tune_finds_the_good_member():
    X, Y = problem(n=120)
    good = iokr(Gaussian(1.0), Gaussian(0.3), alpha=1e-2).fit(X[:60], Y[:60])
    bad = StructuredPredictor(KNeighborsRegressor(1), KernelBasis(Gaussian(0.3)))
    shuffled = np.random.default_rng(0).permutation(60)
    bad = [clone(bad).fit(X[shuffled], Y[:60]) for _ in range(2)]
    for combine in COMBINE:
        model = Ensemble.of([bad[0], good, bad[1]], combine=combine)
        pool = Y[60:]
        before = mean_reciprocal_rank(model.truth_ranks(X[60:], Y[60:], pool))
        assert model.tune(X[60:], Y[60:], pool) is model
        after = mean_reciprocal_rank(model.truth_ranks(X[60:], Y[60:], pool))
        assert model.weights_[1] > 0.6
        assert_allclose(model.weights_.sum(), 1.0)
        assert after == model.validation_score_ > 1.2 * before


def test_tune_keeps_equal_weights_of_equal_members():
    X, Y = problem()
    member = sketched(Gaussian(0.3), 0).fit(X[:30], Y[:30])
    model = Ensemble.of([member, member], weights=[1, 3])
    assert_array_equal(model.weights_, [0.25, 0.75])
    assert_array_equal(model.tune(X, Y, Y).weights_, [0.5, 0.5])


def test_tune_chooses_among_strategies():
    X, Y = problem(n=100)
    model = Ensemble(sketched(Gaussian(0.3)), 3, random_state=0).fit(X[:50], Y[:50])
    pool = model.embed(Y[50:])
    alone = {}
    for name in COMBINE:
        alone[name] = model.tune(X[50:], Y[50:], pool, combine=name, n_steps=4).validation_score_
        assert model.combine_ == name
    model.tune(X[50:], Y[50:], pool, combine=COMBINE, n_steps=4)
    assert model.validation_score_ == max(alone.values()) == alone[model.combine_]
    assert model.combine == "mean"  # parameters stay
    model.fit(X, Y)
    assert model.combine_ == "mean"
    assert not hasattr(model, "validation_score_")


def test_an_ensemble_beats_its_members_on_digits():
    """The lower half of a digit among 600, from the upper half."""
    images = load_digits().data / 16
    base = sisokr(
        Gaussian(0.2),
        Gaussian(0.1),
        input_sketch=SubSample(100),
        output_sketch=SubSample(30),
        alpha=1e-5,
    )
    gains = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(images))
        X, Y = images[order, :32], images[order, 32:]
        model = Ensemble(base, 5, random_state=seed).fit(X[:800], Y[:800])
        X, Y = X[1100:1700], Y[1100:1700]
        single = [mean_reciprocal_rank(m.truth_ranks(X, Y, Y)) for m in model.members_]
        together = mean_reciprocal_rank(model.truth_ranks(X, Y, Y))
        assert together > np.mean(single)
        gains.append(together / np.mean(single))
    assert np.mean(gains) > 1.05  # 1.10 and 1.09 when this was written


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"combine": "men"}, ValueError, "combine must be one of .* Did you mean 'mean'"),
        ({"weights": [1, -1, 1]}, ValueError, "weights must be 3 numbers, one for each member"),
        ({"weights": [0, 0, 0]}, ValueError, "not all zero"),
        ({"weights": [1, np.nan, 1]}, ValueError, "weights must be 3 numbers"),
        ({"weights": [1, 1]}, ValueError, "weights must be 3 numbers"),
        ({"n_members": 0}, ValueError, "n_members must be an integer >= 1"),
        ({"n_members": 1.5}, TypeError, "n_members must be an integer >= 1"),
        ({"predictor": Ridge()}, TypeError, "predictor must be a StructuredPredictor"),
        ({"random_state": "x"}, ValueError, "random_state must be"),
    ],
)
def test_bad_parameters(params, error, message):
    X, Y = problem()
    model = Ensemble(sketched(Gaussian(0.3))).set_params(**params)
    with pytest.raises(error, match=message):
        model.fit(X, Y)


def test_members_without_a_seed():
    X, Y = problem()
    model = Ensemble(StructuredPredictor(KNeighborsRegressor(), "gaussian"), 2)
    with pytest.warns(UserWarning, match="has no random_state"):
        model.fit(X, Y)
    model.set_params(n_members=1).fit(X, Y)


def test_bad_models():
    X, Y = problem()
    with pytest.raises(ValueError, match="models is empty"):
        Ensemble.of([])
    with pytest.raises(TypeError, match=r"models must be a StructuredPredictor.*Got Ridge"):
        Ensemble.of([Ridge()])
    with pytest.raises(NotFittedError):
        Ensemble.of([sketched(Gaussian(0.3))])
    with pytest.raises(NotFittedError):
        Ensemble(sketched(Gaussian(0.3))).predict(X)
    member = sketched(Gaussian(0.3), 0).fit(X, Y)
    with pytest.raises(ValueError, match="weights must be 1 numbers"):
        Ensemble.of([member], weights=[1, 1])
    labels = iokr(Gaussian(1.0), "tanimoto", decoder="label_sets").fit(X, (Y > 0).astype(int))
    with pytest.raises(TypeError, match='decoder="candidates"'):
        Ensemble.of([labels]).predict(X)


def test_members_of_different_outputs():
    X, Y = problem()
    one = sketched(Gaussian(0.3), 0).fit(X[:30], Y[:30])
    others = [
        sketched(Gaussian(0.3), 1).fit(X[5:35], Y[5:35]),
        sketched(Gaussian(0.3), 1).fit(X[:30], Y[:30] + 1.0),
        sketched(Gaussian(0.3), 1).fit(X[:30], np.column_stack([Y, Y])[:30]),
    ]
    for other in others:
        with pytest.raises(ValueError, match=r"fitted on different outputs.*Give candidates"):
            Ensemble.of([one, other]).predict(X)
    assert len(Ensemble.of([one, others[0]]).predict(X, Y)) == len(X)


def test_bad_candidates():
    X, Y = problem()
    model, other = fitted(seed=0), fitted(seed=1)
    with pytest.raises(ValueError, match="embedded by another model"):
        model.rank(X, other.embed(Y))
    with pytest.raises(ValueError, match="embedded by 3 members, and this ensemble has 2"):
        Ensemble.of(model.members_[:2]).rank(X, model.embed(Y))
    with pytest.raises(TypeError, match="by a single model"):
        model.rank(X, model.members_[0].embed(Y))
    with pytest.raises(ValueError, match=r"one set for each row. Got 2 sets for 40 rows"):
        model.predict(X, [Y, Y])
    with pytest.raises(ValueError, match="k must be an integer >= 1"):
        model.rank(X, Y, k=0)
    with pytest.raises(ValueError, match=r"ties must be one of .* Did you mean 'worst'"):
        model.truth_ranks(X, Y, Y, ties="worse")
    with pytest.raises(ValueError, match="one object for each row"):
        model.truth_ranks(X, Y[:3], Y)
    with pytest.raises(ValueError, match=r"combine must be one of .* Did you mean 'rank'"):
        model.tune(X, Y, Y, combine="ranks")
    with pytest.raises(ValueError, match="n_steps must be an integer >= 1"):
        model.tune(X, Y, Y, n_steps=0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), combine=st.sampled_from(COMBINE))
def test_equal_members_are_one(seed, combine):
    """Whatever the weights, copies of one member rank as it does."""
    X, Y = problem(seed)
    member = sketched(Gaussian(0.3), seed).fit(X[:30], Y[:30])
    weights = np.random.default_rng(seed).uniform(0.1, 1.0, 3)
    model = Ensemble.of([member] * 3, combine=combine, weights=weights)
    assert_array_equal(model.rank(X, Y, k=3)[0], member.rank(X, Y, k=3)[0])
    assert_allclose(model.truth_ranks(X, Y, Y), member.truth_ranks(X, Y, Y))


# Batches -----------------------------------------------------------------------------------------


def test_batches_are_the_mean_of_fits_of_disjoint_rows():
    X, Y = problem()
    kernel, truth = KERNELS[0]
    weights = np.arange(1.0, 31.0)
    model = Ensemble(sketched(kernel), 2, split=True, random_state=0)
    model.fit(X[:30], Y[:30], sample_weight=weights)
    order = np.random.default_rng(0).permutation(30)
    parts = [np.sort(part) for part in np.array_split(order, 2)]
    scores = 0.0
    for part, one in zip(parts, model.members_, strict=True):
        own = clone(one).fit(X[part], Y[part], sample_weight=weights[part])
        scores = scores + member_scores(own, X[30:], Y[:30], truth) / 2
    assert_array_equal(model.predict(X[30:]), Y[:30][scores.argmax(axis=1)])


def test_batches_of_strings_have_all_outputs_as_candidates():
    words = [f"stone{'ab' * (i % 7)}{i}" for i in range(24)]
    X = np.arange(24.0)[:, None]
    model = Ensemble(sisokr(output_kernel="ngram", alpha=1e-6), 2, split=True, random_state=0)
    found = model.fit(X, words).predict(X)
    halves = [set(one.decoder_.pool_) for one in model.members_]
    assert halves[0].isdisjoint(halves[1])
    assert set(found) & halves[0]
    assert set(found) & halves[1]


def test_batches_that_are_refused():
    X, Y = problem()
    with pytest.raises(ValueError, match="at least two rows for each of the 3 members"):
        Ensemble(sketched(KERNELS[0][0]), 3, split=True).fit(X[:5], Y[:5])
    with pytest.raises(TypeError, match="split=True needs rows in memory"):
        Ensemble(sketched(KERNELS[0][0]), 3, split=True).fit(X)
