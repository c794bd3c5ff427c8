"""Short lists: learnt scores, strata, groups and weights, against loops and the exact promise."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import skout
from skout import (
    CandidateSets,
    ConformalSets,
    Ensemble,
    TwoWay,
    iokr,
    sisokr,
)
from skout.kernels import Gaussian
from skout.predictors import listwise, thresholds
from skout.predictors.lists import Lists, Ranker
from skout.predictors.nonconformity import (
    SCORES,
    cumulated,
    learn_score,
    levels_of,
    query_features,
)

LEARNT = [name for name in SCORES if name not in ("gap", "rank")]


class Known:
    """A predictor of a user's own: X are numbers of queries, S their scores of all objects."""

    def __init__(self, S):
        self.S = S
        each = np.arange(S.shape[1])
        self.pool = skout.decoding.EmbeddedPool(each, each, each, np.zeros((len(each), 1)), "own")

    def embed(self, candidates):
        assert candidates is None or candidates is self.pool
        return self.pool

    def rank(self, X, pool, k):
        order = np.argsort(-self.S[X], axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(self.S[X], order, axis=1)

    def matched(self, Y, pool):
        return np.asarray(Y)


def world(n, seed, classes=12, noise=1.0):
    """Queries with scores, and truths drawn from a softmax of 2 score + prior."""
    rng = np.random.default_rng(seed)
    S = noise * rng.standard_normal((n, classes)) * rng.uniform(0.2, 2.0, (n, 1))
    prior = np.linspace(0.0, 2.0, classes)
    P = np.exp(2.0 * S + prior)
    P /= P.sum(axis=1, keepdims=True)
    Y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return Known(S), Y


def lists_of(model, rows):
    return Lists.joined(list(Ranker(model, "test").lists(rows, model.embed(None))))


# Lists -------------------------------------------------------------------------------------------


def label_problem(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = (X @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((n, 4)) > 0).astype(int)
    return X, Y


def models(X, Y):
    basis = {"input_kernel": Gaussian(0.3), "output_kernel": Gaussian(0.5), "random_state": 0}
    plain = sisokr(**basis, alpha=1e-2)
    return {
        "sisokr": plain.fit(X, Y),
        "ensemble": Ensemble(plain, 2, random_state=0).fit(X, Y),
        "two ways": TwoWay(plain, weight=0.7).fit(X, Y),
    }


@pytest.mark.parametrize("name", ["sisokr", "ensemble", "two ways"])
@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
def test_lists_are_what_rank_says_without_copies(name, per_query):
    X, Y = label_problem()
    model = models(X[:80], Y[:80])[name]
    objects = np.vstack([Y[:90], Y[:5]])  # with copies
    sets = CandidateSets(objects, np.arange(41) * 20, np.random.default_rng(0).integers(0, 95, 800))
    candidates = sets if per_query else objects
    ranker = Ranker(model, "test")
    pool = model.embed(candidates)
    with skout.memory_limits(block_rows=7):  # several blocks
        parts = list(ranker.lists(X[80:], pool))
    assert len(parts) > 1
    lists = Lists.joined(parts)
    truth = lists.entries(ranker.matched(Y[80:], pool, 40))
    size = 20 if per_query else 95
    indices, scores = model.rank(X[80:], candidates, k=size)
    for i in range(40):
        own = sets[i] if per_query else objects
        rows = [tuple(own[j]) for j in indices[i]]
        known = dict(zip(reversed(rows), reversed(scores[i]), strict=True))
        some = slice(lists.indptr[i], lists.indptr[i + 1])
        found = [tuple(row) for row in objects[lists.place[some]]]
        assert len(set(found)) == len(found)
        assert set(found) == set(known)
        assert_allclose(lists.score[some], [known[row] for row in found])
        assert np.all(np.diff(lists.score[some]) <= 1e-12)
        y = tuple(Y[80 + i])
        assert (truth[i] >= 0) == (y in known)
        if y in known:
            assert found[truth[i] - lists.indptr[i]] == y


def test_priors_are_counts_of_training_outputs():
    X, Y = label_problem()
    model = sisokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2, random_state=0).fit(X[:80], Y[:80])
    pool = np.unique(Y, axis=0)
    lists = Lists.joined(list(Ranker(model, "test").lists(X[80:], model.embed(pool), prior=True)))
    counts = [(Y[:80] == c).all(axis=1).sum() for c in pool[lists.place]]
    assert_allclose(lists.prior, np.log(0.5 + np.array(counts)))
    assert Lists.joined(list(Ranker(model, "test").lists(X[80:], model.embed(pool)))).prior is None


# Scores ------------------------------------------------------------------------------------------


def test_softmax_and_what_is_more_likely_by_loops():
    rng = np.random.default_rng(0)
    indptr = np.array([0, 1, 4, 9])
    values = rng.standard_normal(9)
    log_p = listwise.log_softmax(values, indptr)
    before = cumulated(log_p, indptr)
    for a, b in itertools.pairwise(indptr):
        p = np.exp(values[a:b]) / np.exp(values[a:b]).sum()
        assert_allclose(np.exp(log_p[a:b]), p)
        assert_allclose(before[a:b], [p[p > one].sum() for one in p], atol=1e-12)


def test_the_softmax_learns_what_made_the_data():
    model, Y = world(4000, 0)
    lists = lists_of(model, np.arange(4000))
    prior = np.linspace(0.0, 2.0, 12)[lists.number]
    features = np.column_stack([lists.score, prior])
    known = lists.indptr, lists.entries(Y), np.ones(4000), np.zeros(4000, np.intp)
    coef = listwise.most_likely(listwise.FeatureLists(features, *known), 1e-3)
    assert_allclose(coef, [2.0, 1.0], rtol=0.1)


def test_levels_grow_with_the_value_and_meet_the_quantiles():
    Q = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert_allclose(
        levels_of(np.array([0.0, 0.5, 1.0, 2.5, 5.0]), np.repeat(Q, 5, axis=0)),
        [0.0, 0.25, 0.5, 0.75, 0.95],
        atol=1e-9,
    )
    grid = np.linspace(0.0, 20.0, 200)
    for row in (Q, np.zeros((1, 5)), np.array([[0.0, 0.0, 1.0, 1.0, 7.0]])):
        assert np.all(np.diff(levels_of(grid, np.repeat(row, 200, axis=0))) > 0)


@pytest.mark.parametrize("name", SCORES)
def test_scores_keep_the_order_of_what_they_are_made_of(name):
    model, Y = world(300, 1)
    rows = np.arange(300)
    lists = lists_of(model, rows)
    known = replace(lists, truth=lists.entries(Y))
    score = learn_score(name, known, np.ones(300), np.random.default_rng(0))
    values = score(lists)
    assert values.shape == lists.score.shape
    assert np.all(np.isfinite(values))
    if name not in ("softmax", "cumulative"):
        inner = lists.position[1:] > 0
        assert np.all(np.diff(values)[inner] >= 0)
    else:
        log_p = score.softmax.log_probabilities(lists)
        for i in range(0, 300, 37):
            some = slice(lists.indptr[i], lists.indptr[i + 1])
            assert_array_equal(np.argsort(values[some]), np.argsort(-log_p[some]))


def test_features_of_queries_by_hand():
    lists = Lists(np.array([0, 1, 3]), np.arange(3), np.arange(3), np.zeros(3))
    p = np.array([1.0, 0.75, 0.25])
    found = query_features(lists, np.log(p))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert_allclose(found[0], [0.0, 0.0, 0.0, 0.0], atol=1e-12)
    assert_allclose(found[1], [math.log(0.75), math.log(3.0), entropy, math.log(2.0)])


# Thresholds --------------------------------------------------------------------------------------


def test_the_weighted_threshold_by_a_loop():
    rng = np.random.default_rng(0)
    values, mass = np.sort(rng.random(20)), rng.uniform(0.1, 2.0, 20)
    for coverage in (0.1, 0.5, 0.8, 0.9):
        for weight in (0.3, 1.0, 2.5):
            fits = [
                q for q in values if mass[values <= q].sum() >= coverage * (mass.sum() + weight)
            ]
            assert thresholds.conformal_quantile(values, coverage, mass, weight) == min(
                fits, default=math.inf
            )
    ones = np.ones(20)
    for coverage in np.arange(1, 20) / 20:
        assert thresholds.conformal_quantile(
            values, coverage, ones
        ) == thresholds.conformal_quantile(values, coverage)


def test_rows_of_a_group_count_as_one():
    assert thresholds.masses(None) is None
    assert_allclose(thresholds.masses(np.array(list("abaa"))), [1 / 3, 1, 1 / 3, 1 / 3])
    weights = np.array([3.0, 2.0, 6.0, 0.0])
    assert_allclose(thresholds.masses(np.array(list("abaa")), weights), [1, 2, 2, 0])


# The promise -------------------------------------------------------------------------------------


def coverage_of(score, n, coverage, trials, **options):
    """Mean coverage of one new row and mean size, over draws of calibration and new rows."""
    hits, sizes = [], []
    for seed in range(trials):
        model, Y = world(n + 40, 1000 + seed)
        rows = np.arange(n + 40)
        sets = ConformalSets(model, score, random_state=seed, **options)
        sets.calibrate(rows[:n], Y[:n])
        result = sets.evaluate(rows[n:], Y[n:], coverage=coverage)
        hits.append(result["coverage"])
        sizes.append(result["mean_size"])
    return np.mean(hits), np.std(hits) / math.sqrt(trials), np.mean(sizes)


@pytest.mark.parametrize("name", [*SCORES, "auto"])
def test_coverage_of_each_score(name):
    trials = 12 if name in ("quantile_gap", "quantile_rank", "auto") else 60
    mean, error, _ = coverage_of(name, 200, 0.8, trials)
    n = 200 if name in ("gap", "rank") else 140
    promised = thresholds.conformal_quantile(np.arange(1.0, n + 1), 0.8) / (n + 1)
    above = 0.06 if name == "rank" else 0.02  # ranks tie
    assert promised - 4 * error < mean < promised + above + 4 * error
    assert error < 0.03


def test_counts_of_training_outputs_make_shorter_lists():
    # the kernel knows which objects are alike, not which ones are common
    rng = np.random.default_rng(0)
    n, share = 600, 0.8 ** np.arange(30)
    number = rng.choice(30, n, p=share / share.sum())
    Y = np.random.default_rng(1).standard_normal((30, 4))[number]
    X = Y[:, :1] + rng.standard_normal((n, 1))
    model = iokr(Gaussian(0.5), Gaussian(0.2), alpha=1e-2).fit(X[:200], Y[:200])
    pool = np.unique(Y, axis=0)
    found = {}
    for name in ("gap", "softmax"):
        for prior in (True, False):
            sets = ConformalSets(model, name, prior=prior, random_state=0)
            sets.calibrate(X[200:400], Y[200:400], pool)
            found[name, prior] = sets.evaluate(X[400:], Y[400:], pool)
            assert abs(found[name, prior]["coverage"] - 0.9) < 0.07
    sizes = {key: result["mean_size"] for key, result in found.items()}
    assert sizes["softmax", True] < 0.8 * sizes["gap", True]
    assert sizes["softmax", True] < 0.8 * sizes["softmax", False]


def test_groups_of_copies_are_covered_once_for_all():
    # each group is one draw with many copies of it, of all sizes: rows would count large groups
    rng = np.random.default_rng(0)
    hits, naive = [], []
    for seed in range(300):
        model, Y = world(31, seed)
        sizes = np.where(rng.random(30) < 0.5, 1, 40)
        rows = np.repeat(np.arange(30), sizes)
        plain = ConformalSets(model, "gap")
        sets = ConformalSets(model, "gap").calibrate(rows, Y[rows], groups=rows)
        new = np.array([30])
        hits.append(sets.evaluate(new, Y[new], coverage=0.8)["coverage"])
        naive.append(plain.calibrate(rows, Y[rows]).evaluate(new, Y[new], coverage=0.8)["coverage"])
        # of copies, the threshold is that of one row each
        one = ConformalSets(model, "gap").calibrate(np.arange(30), Y[:30])
        assert sets.threshold(0.8) == one.threshold(0.8)
    assert abs(np.mean(hits) - 25 / 31) < 4 * math.sqrt(0.16 / 300)


def test_strata_are_covered_each():
    covered = {True: [], False: []}
    plain = {True: [], False: []}
    for seed in range(60):
        easy, Y_easy = world(120, 2 * seed, noise=4.0)
        hard, _ = world(120, 2 * seed + 1)
        Y_hard = np.random.default_rng(seed).integers(0, 12, 120)  # nothing is known of these
        model = Known(np.vstack([easy.S, hard.S]))
        Y, is_hard = np.concatenate([Y_easy, Y_hard]), np.arange(240) >= 120
        order = np.random.default_rng(seed).permutation(240)
        first, last = order[:200], order[200:]
        strata = np.where(is_hard, "hard", "easy")
        one = ConformalSets(model).calibrate(first, Y[first], strata=strata[first])
        two = ConformalSets(model).calibrate(first, Y[first])
        found = one.evaluate(last, Y[last], coverage=0.8, strata=strata[last])["strata"]
        for name in ("easy", "hard"):
            covered[name == "hard"].append(found[name]["coverage"])
            own = last[strata[last] == name]
            plain[name == "hard"].append(two.evaluate(own, Y[own], coverage=0.8)["coverage"])
    for hard in (True, False):
        assert abs(np.mean(covered[hard]) - 0.8) < 0.04
    assert abs(np.mean(plain[True]) - 0.8) > 0.06  # without strata, one pays for the other


def test_strata_by_size_are_quartiles_of_the_candidates():
    X, Y = label_problem(200)
    model = iokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2).fit(X[:80], Y[:80])
    sizes = np.tile([1, 2, 5, 9], 30)
    pools = [np.vstack([Y[80 + i], Y[i : i + k - 1]]) for i, k in enumerate(sizes)]
    sets = ConformalSets(model).calibrate(X[80:], Y[80:], pools, strata="size")
    for j in range(4):
        own = np.flatnonzero(sizes == [1, 2, 5, 9][j])
        gaps = ConformalSets(model).calibrate(X[80:][own], Y[80:][own], [pools[i] for i in own])
        assert_allclose(sets.threshold(0.8, stratum=j), gaps.threshold(0.8), atol=1e-12)
    assert_array_equal(sets.predict(X[80:], pools, coverage=0.8).sizes[sizes == 1], 1)
    with pytest.raises(ValueError, match=r"stratum must be one of \[0, 1, 2, 3\]. Got None"):
        sets.threshold(0.8)


def test_weights_undo_a_shift_of_inputs():
    # hard queries are rare in calibration and common later
    shares = {"weighted": [], "plain": []}
    for seed in range(80):
        easy, Y_easy = world(180, 2 * seed, noise=4.0)
        hard, Y_hard = world(60, 2 * seed + 1, noise=0.1)
        model = Known(np.vstack([easy.S, hard.S]))
        Y = np.concatenate([Y_easy, Y_hard])
        first = np.r_[0:160, 180:200]  # 8 to 1
        last = np.r_[160:180, 200:240]  # 1 to 2
        ratio = np.where(np.arange(240) < 180, (1 / 3) / (8 / 9), (2 / 3) / (1 / 9))
        weighted = ConformalSets(model).calibrate(first, Y[first], weights=ratio[first])
        plain = ConformalSets(model).calibrate(first, Y[first])
        given = {"coverage": 0.8}
        found = weighted.evaluate(last, Y[last], **given, weights=ratio[last])
        shares["weighted"].append(found["coverage"])
        shares["plain"].append(plain.evaluate(last, Y[last], **given)["coverage"])
    assert 0.78 < np.mean(shares["weighted"]) < 0.88
    assert abs(np.mean(shares["plain"]) - 0.8) > 0.05


# Every predictor, in files -----------------------------------------------------------------------


@pytest.mark.parametrize("score", ["gap", "softmax", "quantile_rank", "auto"])
@pytest.mark.parametrize("name", ["sisokr", "ensemble", "two ways"])
def test_every_predictor_that_ranks_saved_and_loaded(name, score, tmp_path):
    X, Y = label_problem(240)
    model = models(X[:80], Y[:80])[name]
    pool = np.unique(Y, axis=0)
    sets = ConformalSets(model, score, random_state=0).calibrate(
        X[80:200], Y[80:200], pool, strata=np.arange(120) % 2
    )
    found = sets.predict(X[200:], pool, coverage=0.8, strata=np.arange(40) % 2)
    result = sets.evaluate(X[200:], Y[200:], pool, coverage=0.8, strata=np.arange(40) % 2)
    covered = [(row == y).all(axis=1).any() for row, y in zip(found, Y[200:], strict=True)]
    assert result["coverage"] == np.mean(covered)
    assert result["mean_size"] == found.sizes.mean()
    assert result["strata"][0]["rows"] == 20
    assert 0.6 < result["coverage"] <= 1.0
    skout.save(sets, tmp_path / "sets.skout")
    again = skout.load(tmp_path / "sets.skout")
    other = again.predict(X[200:], pool, coverage=0.8, strata=np.arange(40) % 2)
    assert_array_equal(other.indices, found.indices)
    assert_array_equal(other.indptr, found.indptr)
    assert again.score_ == sets.score_


def test_the_choice_is_the_shortest_and_repeats():
    model, Y = world(400, 3)
    rows = np.arange(400)
    sets = [ConformalSets(model, "auto", random_state=1).calibrate(rows, Y) for _ in range(2)]
    assert sets[0].mean_sizes_ == sets[1].mean_sizes_
    assert set(sets[0].mean_sizes_) == set(SCORES)
    assert sets[0].score_ == min(sets[0].mean_sizes_, key=sets[0].mean_sizes_.get)
    one = ConformalSets(model, ["rank", "gap"], random_state=1).calibrate(rows, Y)
    assert set(one.mean_sizes_) == {"rank", "gap"}
    assert not hasattr(one.set_params(score="gap").calibrate(rows, Y), "mean_sizes_")


def test_a_query_with_one_candidate():
    X, Y = label_problem(160)
    model = iokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2).fit(X[:40], Y[:40])
    pools = [Y[40 + i : 41 + i] if i % 2 else Y[40:] for i in range(120)]
    for score in SCORES:
        sets = ConformalSets(model, score, random_state=0).calibrate(X[40:], Y[40:], pools)
        found = sets.predict(X[40:], pools, coverage=0.8)
        assert_array_equal(found.sizes[1::2], 1)
        assert found.sizes.min() == 1


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"score": "gaps"}, {}, r"score must be .*\bgap\b"),
        ({"score": []}, {}, "score is empty"),
        ({"score": 3}, {}, "score must be one of"),
        ({"score": "softmax", "share": 1.5}, {}, "share must lie strictly between 0 and 1"),
        (
            {},
            {"groups": np.arange(9)},
            "groups must have one label for each of 50 rows. Got shape",
        ),
        ({}, {"strata": np.zeros((50, 2))}, r"strata must have one label .* Got shape .50, 2"),
        ({}, {"strata": "sizes"}, "strata must be"),
        ({}, {"weights": np.ones(9)}, "weights must be 50 finite numbers"),
        ({}, {"weights": -np.ones(50)}, "not negative"),
        ({}, {"weights": np.full(50, np.nan)}, "finite numbers"),
    ],
)
def test_wrong_arguments_of_calibrate(options, given, message):
    model, Y = world(50, 0)
    with pytest.raises(ValueError, match=message):
        ConformalSets(model, **options).calibrate(np.arange(50), Y, **given)


def test_what_calibrate_got_predict_needs():
    model, Y = world(50, 0)
    rows = np.arange(50)
    plain = ConformalSets(model).calibrate(rows, Y)
    with pytest.raises(ValueError, match="calibrated without strata: leave them out"):
        plain.predict(rows, strata=rows)
    with pytest.raises(ValueError, match="calibrated without weights: leave them out"):
        plain.predict(rows, weights=np.ones(50))
    sets = ConformalSets(model).calibrate(rows, Y, strata=rows % 2, weights=np.ones(50))
    with pytest.raises(ValueError, match="with weights: give those of these rows"):
        sets.predict(rows, strata=rows % 2)
    with pytest.raises(ValueError, match="with strata: give those of these rows"):
        sets.predict(rows, weights=np.ones(50))
    with pytest.raises(ValueError, match=r"strata must be among those .*\[0, 1\]. Got 3"):
        sets.predict(rows, strata=np.full(50, 3), weights=np.ones(50))
    with pytest.raises(ValueError, match=r"needs 4 of them. Got 2: give more"):
        ConformalSets(model, "softmax").calibrate(rows[:2], Y[:2])
    few = ConformalSets(model).calibrate(rows[:6], Y[:6], strata=rows[:6] % 2)
    with pytest.warns(UserWarning, match="4 calibration rows or more in stratum 0. Got 3"):
        found = few.predict(rows[6:7], coverage=0.8, strata=[0])
    assert_array_equal(found.sizes, 12)


def test_a_predictor_that_cannot_find_the_truth():
    class Blind(Known):
        matched = None

    model, Y = world(20, 0)
    with pytest.raises(TypeError, match=r"needs a predictor with matched.*Blind has none"):
        ConformalSets(Blind(model.S)).calibrate(np.arange(20), Y)
