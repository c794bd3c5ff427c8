"""The last word: its loss by double loops, what it learns, and all that a predictor can do."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import CandidateSets, ConformalSets, Ensemble, Reranker, TwoWay, iokr, sisokr
from skout.decoding import LossDecoder
from skout.kernels import Gaussian, Mapped, NGram
from skout.metrics import mean_reciprocal_rank
from skout.predictors.lists import Lists
from skout.predictors.listwise import (
    FeatureLists,
    _standard_error,
    chosen_alpha,
    linear,
    loss_and_gradient,
    own_order,
)
from skout.predictors.reranking_features import searched, standardized

RNG = np.random.default_rng(0)
N, N_NEW = 120, 40
X = RNG.standard_normal((N + N_NEW, 2))
Y = np.column_stack([np.sin(X), X.prod(axis=1)]) + 0.3 * RNG.standard_normal((len(X), 3))
X, NEW, Y, Y_NEW = X[:N], X[N:], Y[:N], Y[N:]
POOL = np.vstack([Y, Y_NEW])
BASE = iokr(Gaussian(0.7), Gaussian(0.5), alpha=1e-3)


def own_sets(truth, size=12, seed=1):
    """Candidates of each query, the truth at a random place."""
    rng = np.random.default_rng(seed)
    found = []
    for y in truth:
        others = POOL[rng.permutation(len(POOL))[: size - 1]]
        others = others[~(others == y).all(axis=1)]
        found.append(np.insert(others, rng.integers(len(others) + 1), y, axis=0))
    return found


SETS, NEW_SETS = own_sets(Y), own_sets(Y_NEW, seed=2)


def mrr(model, candidates=NEW_SETS, **more):
    return mean_reciprocal_rank(model.truth_ranks(NEW, Y_NEW, candidates, **more))


# The loss ----------------------------------------------------------------------------------------


def tiny_lists(n=7, d=3, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    truth = indptr[:-1] + rng.integers(0, sizes)
    values = rng.standard_normal((indptr[-1], d))
    return FeatureLists(values, indptr, truth, rng.uniform(0.5, 2.0, n), np.arange(n) % 3)


def oracle_loss(coef, lists, alpha, start):
    """sum_q w_q (log sum_c exp <coef, phi_c> - <coef, phi_truth>) / sum_q w_q + penalty."""
    total = 0.0
    for q, w in enumerate(lists.weights):
        rows = range(lists.indptr[q], lists.indptr[q + 1])
        scores = {c: sum(a * b for a, b in zip(coef, lists.features[c], strict=True)) for c in rows}
        total += w * (np.log(sum(np.exp(s) for s in scores.values())) - scores[lists.truth[q]])
    return total / sum(lists.weights) + alpha / 2 * sum((coef - start) ** 2)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_the_loss_is_that_of_the_formula_and_its_slope_that_of_differences(alpha):
    lists, coef, start = tiny_lists(), np.array([0.4, -1.2, 0.7]), np.array([1.0, 0.0, 0.0])
    value, slope = loss_and_gradient(coef, lists, alpha, start)
    assert_allclose(value, oracle_loss(coef, lists, alpha, start), rtol=1e-12)
    h = 1e-6
    for j, unit in enumerate(np.eye(3)):
        ahead, behind = (oracle_loss(coef + s * unit, lists, alpha, start) for s in (h, -h))
        assert_allclose(slope[j], (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-9)


def test_the_coefficients_are_the_best_of_a_grid():
    """Two features, by brute force over their coefficients."""
    lists = tiny_lists(n=30, d=2)
    alpha, start = 0.05, own_order(lists)
    grid = np.linspace(-3, 3, 31)
    values = [[oracle_loss(np.array([a, b]), lists, alpha, start) for b in grid] for a in grid]
    i, j = np.unravel_index(np.argmin(values), (31, 31))
    found = linear(lists, alpha)
    assert_allclose(found, [grid[i], grid[j]], atol=0.2)  # a step of the grid
    assert oracle_loss(found, lists, alpha, start) <= np.min(values) + 1e-9


def test_an_infinite_penalty_is_the_predictors_own_order():
    lists = tiny_lists(n=30)
    found = linear(lists, np.inf)
    assert found[0] > 0
    assert_array_equal(found[1:], 0.0)
    near = linear(lists, 1e6)
    assert_allclose(near, found, atol=1e-3)


def test_parts_of_lists_are_theirs():
    lists = tiny_lists()
    some = lists.of(np.array([1, 4]))
    for i, q in enumerate((1, 4)):
        rows = slice(lists.indptr[q], lists.indptr[q + 1])
        assert_array_equal(some.features[some.indptr[i] : some.indptr[i + 1]], lists.features[rows])
        assert_array_equal(some.features[some.truth[i]], lists.features[lists.truth[q]])
    held = np.concatenate([part.fold for _, part in lists.parts()])
    assert_array_equal(np.sort(held), np.sort(lists.fold))


def test_features_that_tell_nothing_get_no_say():
    """The predictor's score knows half of the truth, the rest is noise."""
    rng = np.random.default_rng(3)
    n, c = 300, 8
    values = rng.standard_normal((n * c, 6))
    truth = np.arange(n) * c + rng.integers(0, c, n)
    values[truth, 0] += 1.5
    lists = FeatureLists(values, np.arange(n + 1) * c, truth, np.ones(n), np.arange(n) % 5)
    alpha, results = chosen_alpha(lists)
    assert np.abs(linear(lists, alpha)[1:]).max() < 0.15
    assert results["score"].shape == results["alpha"].shape == (7,)
    values[truth, 3] += 1.5  # and one that does tell
    alpha, _ = chosen_alpha(lists)
    coef = linear(lists, alpha)
    assert np.isfinite(alpha)
    assert coef[3] > 0.7 * coef[0] > 0.5


def test_rows_of_a_group_are_one_piece_of_evidence():
    values = np.random.default_rng(0).standard_normal(50)
    alone = _standard_error(values, [np.arange(50)])
    assert_allclose(alone, values.std() / np.sqrt(50))
    twice = np.repeat(values, 2)  # says nothing new
    assert_allclose(_standard_error(twice, [np.repeat(np.arange(50), 2)]), alone)
    parts = [np.repeat(np.arange(20), 2), np.repeat(np.arange(30), 2)]  # numbers of each fold
    assert_allclose(_standard_error(twice, parts), alone)


# What is known of pairs --------------------------------------------------------------------------


def test_scores_by_way_add_up_to_the_score():
    for normalization in ("distance", "cosine"):
        model = TwoWay(BASE, weight=0.7, normalization=normalization).fit(X, Y)
        given = searched(model, NEW, POOL)
        listed = given.listed(20)
        ways = given.scores("directions", listed, None)
        second = ways["forward" if normalization == "distance" else "cosine"]
        assert_allclose(ways["backward"] + 0.7 * second, listed.score, atol=1e-9)
    alone = TwoWay(BASE, weight=np.inf).fit(X, Y)
    given = searched(alone, NEW, POOL)
    assert_allclose(
        given.scores("directions", given.listed(5), None)["forward"],
        given.listed(5).score,
        atol=1e-9,
    )


def test_standardized_has_mean_0_and_spread_1_in_each_list():
    score = np.array([1.0, 3.0, 5.0, 2.0, 2.0, 7.0])
    root = np.sqrt(8 / 3)
    assert_allclose(standardized(score, np.array([0, 3, 5, 6])), [-2 / root, 0, 2 / root, 0, 0, 0])


def test_copies_are_listed_once():
    place, number = np.array([4, 2, 0, 1, 3, 5]), np.array([7, 8, 7, 8, 8, 7])
    listed = Lists(np.array([0, 3, 6]), number, place, np.zeros(6))
    short, first, where = listed.distinct()
    assert_array_equal(short.place, [4, 2, 1, 5])
    assert_array_equal(first, [0, 1, 3, 5])
    assert_array_equal(where, [0, 1, 0, 2, 2, 3])


# What it learns ----------------------------------------------------------------------------------


def quality(queries, candidates):
    """A column that knows how outputs are made of queries, but for their noise."""
    known = np.column_stack([np.sin(queries), queries.prod(axis=1)])
    return -np.linalg.norm(candidates - known, axis=1)


def test_a_column_of_the_user_decides():
    blind = iokr(Gaussian(1e6), Gaussian(0.5), alpha=1.0)  # which learns nothing
    word = Reranker(blind, quality, cv=3, random_state=0)
    word.fit(X, Y, candidates=SETS)
    before = mrr(word.predictor_)
    assert before < 0.45
    assert mrr(word) > before + 0.3
    assert word.feature_names_[-1] == "quality"
    assert word.importances_.argmax() == len(word.feature_names_) - 1
    best = [some[quality(np.repeat(x[None], len(some), 0), some).argmax()] for x, some in
            zip(NEW, NEW_SETS, strict=True)]  # fmt: skip
    agreed = (word.predict(NEW, NEW_SETS) == np.array(best)).all(axis=1)
    assert agreed.mean() > 0.9


def noise(queries, candidates):
    """Four numbers for each pair, that know nothing."""
    text = [np.concatenate(pair).tobytes() for pair in zip(queries, candidates, strict=True)]
    return np.array([np.random.default_rng(list(one)).standard_normal(4) for one in text])


def test_noise_does_no_harm():
    word = Reranker(BASE, noise, cv=3, random_state=0).fit(X, Y, candidates=SETS)
    ranks, before = (m.truth_ranks(NEW, Y_NEW, NEW_SETS) for m in (word, word.predictor_))
    gain = 1 / ranks - 1 / before
    assert gain.mean() > -2.0 * gain.std() / np.sqrt(N_NEW) - 0.01


def scrambled(rows):
    return np.sin(1e4 * rows)


def test_both_ways_are_weighed():
    """The backward way is noise: the forward way alone is found, whatever the weight was."""
    blind = iokr(Mapped(scrambled, Gaussian(1.0)), Gaussian(0.5), alpha=1e-5)
    ahead = iokr(Gaussian(0.5), Gaussian(0.7), alpha=1e-3)
    word = Reranker(TwoWay(blind, ahead, 1e-3), cv=3, random_state=0).fit(X, Y, candidates=SETS)
    alone = TwoWay(blind, ahead, np.inf).fit(X, Y)
    before, ahead, found = (mrr(one) for one in (word.predictor_, alone, word))
    assert found > before + 0.1
    assert found > ahead - 0.05


def test_columns_are_those_of_pairs():
    """An array in place of a function, for sets and for one pool, by candidate and by pair."""
    flat = np.concatenate([quality(np.repeat(x[None], len(s), 0), s) for x, s in
                           zip(X, SETS, strict=True)])  # fmt: skip
    new = np.concatenate([quality(np.repeat(x[None], len(s), 0), s) for x, s in
                          zip(NEW, NEW_SETS, strict=True)])  # fmt: skip
    by_array = Reranker(BASE, cv=3, random_state=0)
    by_array.fit(X, Y, candidates=SETS, columns=flat)
    by_function = Reranker(BASE, quality, cv=3, random_state=0).fit(X, Y, candidates=SETS)
    assert by_array.feature_names_[-1] == "column"
    found = by_array.rank(NEW, NEW_SETS, 5, new)
    for one, other in zip(found, by_function.rank(NEW, NEW_SETS, 5), strict=True):
        assert_allclose(one, other)
    assert by_array.score(NEW, Y_NEW, NEW_SETS, columns=new) == mrr(by_function)

    def table(queries):
        pairs = [quality(np.repeat(x[None], len(POOL), 0), POOL) for x in queries]
        return np.array(pairs)[:, :, None]

    pooled = Reranker(BASE, cv=3, random_state=0).fit(X, Y, candidates=POOL, columns=table(X))
    same = Reranker(BASE, quality, cv=3, random_state=0).fit(X, Y, candidates=POOL)
    assert_allclose(pooled.rank(NEW, POOL, 5, table(NEW))[1], same.rank(NEW, POOL, 5)[1])
    prior = np.arange(len(POOL)) < len(Y)
    known = Reranker(BASE, cv=3, random_state=0).fit(X, Y, candidates=POOL, columns=prior)
    assert known.coef_[-1] > 0  # no truth of these rows is new


def test_what_it_says_of_features():
    word = Reranker(TwoWay(BASE, weight=1.0), ["auto", "hubness"], cv=3, random_state=0)
    word.fit(X, Y, candidates=SETS)
    assert word.feature_names_[:5] == ["score", "backward", "forward", "cosine", "hubness"]
    assert len(word.coef_) == len(word.importances_) == len(word.feature_names_) == 11
    assert np.all(word.importances_ >= 0.0)
    assert_array_equal(word.importances_[word.coef_ == 0.0], 0.0)
    assert word.n_queries_ + word.n_left_out_ == N


# All that a predictor can do ---------------------------------------------------------------------

PREDICTORS = {
    "iokr": lambda: clone(BASE),
    "sisokr": lambda: sisokr(Gaussian(0.7), Gaussian(0.5), random_state=0),
    "two ways": lambda: TwoWay(BASE, weight=1.0),
    "ensemble": lambda: Ensemble(sisokr(Gaussian(0.7), Gaussian(0.5)), 2, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), clone(BASE)),
    "any regressor": lambda: skout.StructuredPredictor(Ridge(), Gaussian(0.5)),
    "own loss": lambda: iokr(
        Gaussian(0.7), Gaussian(0.5), decoder=LossDecoder(lambda a, b: float(np.sum((a - b) ** 2)))
    ),
}


@functools.cache
def fitted(name, kind):
    candidates = {"sets": SETS, "pool": POOL, "none": None}[kind]
    word = Reranker(PREDICTORS[name](), top=30, cv=2, random_state=0)
    return word.fit(X, Y, candidates=candidates)


@pytest.mark.parametrize("kind", ["sets", "pool", "none"])
@pytest.mark.parametrize("name", PREDICTORS)
def test_ranks_and_predictions_agree(name, kind):
    word = fitted(name, kind)
    candidates = {"sets": NEW_SETS, "pool": POOL, "none": None}[kind]
    lists = NEW_SETS if kind == "sets" else [POOL if kind == "pool" else Y] * N_NEW
    k = min(map(len, lists))
    index, scores = word.rank(NEW, candidates, k)
    assert np.all(np.diff(scores, axis=1) <= 0)
    assert all(len(set(row)) == k for row in index)
    best = np.array([some[i] for some, i in zip(lists, index[:, 0], strict=True)])
    assert_array_equal(word.predict(NEW, candidates), best)
    top = word.rank(NEW, candidates, 3)
    assert_array_equal(top[0], index[:, :3])
    assert_array_equal(top[1], scores[:, :3])
    ranks = word.truth_ranks(NEW, Y_NEW, candidates)
    for some, row, rank, y in zip(lists, index, ranks, Y_NEW, strict=True):
        there = np.flatnonzero((some == y).all(axis=1))
        if len(there) == 0:
            assert rank == np.inf
        elif there[0] in row:
            assert rank == 1 + list(row).index(there[0])
        else:
            assert rank > k
    if kind == "sets":
        assert_allclose(word.score(NEW, Y_NEW, candidates), np.mean(1 / ranks))


@pytest.mark.parametrize("kind", ["sets", "pool"])
@pytest.mark.parametrize("name", PREDICTORS)
def test_an_infinite_penalty_keeps_the_order_of_every_predictor(name, kind):
    word = Reranker(PREDICTORS[name](), alpha=np.inf, top=10, cv=2, random_state=0)
    candidates, new = (SETS, NEW_SETS) if kind == "sets" else (POOL, POOL)
    word.fit(X, Y, candidates=candidates)
    before = word.predictor_
    rows = NEW if name != "pipeline" else before[:-1].transform(NEW)
    before = before if name != "pipeline" else before[-1]
    assert_array_equal(word.rank(NEW, new, 8)[0], before.rank(rows, new, 8)[0])
    assert_array_equal(word.truth_ranks(NEW, Y_NEW, new), before.truth_ranks(rows, Y_NEW, new))


@pytest.mark.parametrize("name", ["sisokr", "two ways", "ensemble"])
def test_saved_and_pickled_models_say_the_same(name, tmp_path):
    word = fitted(name, "sets")
    skout.save(word, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    for other in (again, pickle.loads(pickle.dumps(word))):
        for one, two in zip(word.rank(NEW, NEW_SETS), other.rank(NEW, NEW_SETS), strict=True):
            assert_array_equal(one, two)
    assert again.feature_names_ == word.feature_names_
    assert_array_equal(again.importances_, word.importances_)


def test_functions_are_given_again_at_load(tmp_path):
    word = Reranker(BASE, ["auto", quality], cv=2, random_state=0).fit(X, Y, candidates=SETS)
    skout.save(word, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout", modules={"quality": quality})
    assert_array_equal(again.rank(NEW, NEW_SETS)[0], word.rank(NEW, NEW_SETS)[0])


@pytest.mark.parametrize("name", ["iokr", "two ways", "ensemble", "pipeline"])
@pytest.mark.parametrize("kind", ["sets", "pool"])
def test_prediction_sets(name, kind):
    word = fitted(name, kind)
    new = NEW_SETS if kind == "sets" else POOL
    half = N_NEW // 2
    first, second = (new[:half], new[half:]) if kind == "sets" else (new, new)
    sets = ConformalSets(word).calibrate(NEW[:half], Y_NEW[:half], first)
    gaps = []
    for x, y, some in zip(NEW, Y_NEW, first if kind == "sets" else [POOL] * half, strict=False):
        index, scores = word.rank(x[None], [some] if kind == "sets" else some, len(some))
        place = (some[index[0]] == y).all(axis=1).argmax()
        gaps.append(scores[0, 0] - scores[0, place])
    assert_allclose(sets.gaps_, np.sort(gaps), atol=1e-9)
    found = sets.predict(NEW[half:], second, coverage=0.8)
    q = sets.gaps_[int(np.ceil((half + 1) * 0.8)) - 1]
    k = min(map(len, second)) if kind == "sets" else len(POOL)
    index, scores = word.rank(NEW[half:], second, k)
    for i, own in enumerate(found):
        inside = scores[i] >= scores[i, 0] - q - 1e-9
        lists = second[i] if kind == "sets" else POOL
        assert_array_equal(own[: inside.sum()], lists[index[i, inside]])
    result = sets.evaluate(NEW[half:], Y_NEW[half:], second, coverage=0.8)
    held = [(own == y).all(axis=1).any() for own, y in zip(found, Y_NEW[half:], strict=True)]
    assert result["coverage"] == np.mean(held)


def test_scores_go_on_below_the_list():
    """Of 160 candidates three are ranked again; the others follow as they were."""
    word = Reranker(BASE, quality, top=3, cv=2, random_state=0).fit(X, Y, candidates=POOL)
    ranks = word.truth_ranks(NEW, Y_NEW, POOL)
    assert ranks.max() > 3
    index, scores = word.rank(NEW, POOL, len(POOL))
    assert np.all(np.diff(scores, axis=1) <= 0)
    place = (POOL[index] == Y_NEW[:, None]).all(axis=2).argmax(axis=1)
    assert_array_equal(ranks, 1 + place)
    before, old = word.predictor_.rank(NEW, POOL, len(POOL))
    assert_array_equal(index[:, 3:], before[:, 3:])
    assert_allclose(np.diff(scores[:, 3:], axis=1), np.diff(old[:, 3:], axis=1), atol=1e-9)


def test_a_fitted_predictor_learns_from_other_rows():
    before = clone(BASE).fit(X, Y)
    word = Reranker(before, quality, cv="prefit", random_state=0)
    word.fit(NEW, Y_NEW, candidates=NEW_SETS)
    assert word.predictor_ is before
    assert word.n_queries_ == N_NEW
    assert word.coef_[-1] > 0
    pool = before.embed(NEW_SETS)  # once, and for each fit
    same = clone(word).set_params(predictor=before).fit(NEW, Y_NEW, candidates=pool)
    assert_array_equal(same.coef_, word.coef_)
    with pytest.raises(TypeError, match=r"Give pool\.objects"):
        Reranker(BASE, cv=2).fit(NEW, Y_NEW, candidates=pool)
    priced = Reranker(before, ["auto", "hubness"], cv="prefit", random_state=0)
    priced.fit(NEW, Y_NEW, candidates=NEW_SETS)
    assert priced.rank(NEW, NEW_SETS, 2)[0].shape == (N_NEW, 2)
    with pytest.raises(NotFittedError):
        Reranker(BASE, cv="prefit").fit(NEW, Y_NEW, candidates=NEW_SETS)


def test_groups_stay_together(monkeypatch):
    seen = []
    fit = skout.StructuredPredictor.fit

    def watched(self, X, Y, groups=None, **rest):
        seen.append(set(groups))
        return fit(self, X, Y, groups=groups, **rest)

    monkeypatch.setattr(skout.StructuredPredictor, "fit", watched)
    groups = np.arange(N) // 4
    Reranker(clone(BASE), cv=3, random_state=0).fit(X, Y, groups=groups, candidates=SETS)
    *folds, everything = seen
    assert everything == set(groups)
    assert sum(len(everything - fold) for fold in folds) == len(everything)  # each is held once


def test_weights_of_rows_count():
    """Rows of weight 0 are as if they were not there."""
    w = np.r_[np.ones(N // 2), np.zeros(N // 2)]
    word = Reranker(BASE, cv=2, random_state=0).fit(X, Y, candidates=SETS, sample_weight=w)
    assert word.n_queries_ == N // 2


def test_strings_and_a_pool_with_copies():
    words = ["".join(RNG.choice(list("abcd"), 5)) for _ in range(60)]
    given = np.array([[word.count(c) for c in "abcd"] for word in words], dtype=float)
    word = Reranker(iokr(Gaussian(0.2), NGram(2)), top=20, cv=2, random_state=0)
    word.fit(given[:50], words[:50])
    pool = words + words[:20]
    index, scores = word.rank(given[50:], pool, 10)
    for row, s in zip(index, scores, strict=True):
        for i, j in itertools.combinations(range(len(row)), 2):
            if pool[row[i]] == pool[row[j]]:
                assert s[i] == s[j]
    ranks = word.truth_ranks(given[50:], words[50:], pool)
    assert_array_equal(ranks, word.truth_ranks(given[50:], words[50:], words))


# Odd queries and bad input -----------------------------------------------------------------------


def test_a_query_with_one_candidate_and_truths_that_are_no_candidates():
    sets = [*SETS]
    sets[0] = Y[:1]  # the truth alone
    sets[1] = Y[5:9]  # without it
    word = Reranker(BASE, cv=3, random_state=0).fit(X, Y, candidates=sets)
    assert (word.n_queries_, word.n_left_out_) == (N - 2, 2)
    new = [Y_NEW[:1], *NEW_SETS[1:]]
    assert_array_equal(word.predict(NEW, new)[0], Y_NEW[0])
    assert word.truth_ranks(NEW, Y_NEW, new)[0] == 1
    assert word.truth_ranks(NEW[:1], Y[:1], [Y_NEW[:2]])[0] == np.inf
    assert word.rank(NEW, new, 3)[0][0].tolist() == [0, -1, -1]


def test_a_query_with_no_candidate():
    sets = CandidateSets.from_lists([Y[:0], *SETS[1:]])
    word = Reranker(BASE, cv=3, random_state=0).fit(X, Y, candidates=sets)
    assert word.n_left_out_ == 1
    with pytest.raises(ValueError, match="candidates is empty for query 3"):
        word.predict(NEW, [*NEW_SETS[:3], Y[:0], *NEW_SETS[4:]])


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match="No query has its truth among several candidates"):
        Reranker(BASE, cv=2).fit(X, Y, candidates=[Y[i : i + 1] for i in range(N)])


BAD = {
    "no predictor": (Reranker(Ridge()), {}, TypeError, "predictor must rank candidates"),
    "no candidates to rank": (
        Reranker(iokr(Gaussian(1.0), NGram(2), decoder="strings")),
        {},
        TypeError,
        "Reranker needs a decoder with embed",
    ),
    "feature": (Reranker(BASE, "scor"), {}, ValueError, "features has 'scor'"),
    "features": (Reranker(BASE, 3), {}, TypeError, "features must be names"),
    "ways of one": (
        Reranker(BASE, ["directions"]),
        {},
        ValueError,
        "'directions', which StructuredPredictor",
    ),
    "members of one": (Reranker(BASE, "members"), {}, ValueError, "Ensemble has members"),
    "alpha": (Reranker(BASE, alpha=-1), {}, ValueError, 'alpha must be "cv" or a number'),
    "top": (Reranker(BASE, top=0), {}, ValueError, "top"),
    "cv": (Reranker(BASE, cv=1), {}, ValueError, "cv"),
    "groups": (Reranker(BASE), {"groups": [1, 2]}, ValueError, "groups must have one label"),
    "sets": (Reranker(BASE), {"candidates": SETS[:3]}, ValueError, "one set for each row"),
    "columns": (
        Reranker(BASE),
        {"candidates": POOL, "columns": np.zeros(3)},
        ValueError,
        r"columns must have shape \(160,\)",
    ),
    "columns alone": (Reranker(BASE), {"columns": np.zeros(3)}, ValueError, "give candidates, too"),
    "nan": (
        Reranker(BASE, lambda queries, candidates: np.full(len(queries), np.nan)),
        {},
        ValueError,
        "numbers that are not finite",
    ),
    "shape": (
        Reranker(BASE, lambda queries, candidates: np.zeros(2)),
        {},
        ValueError,
        "must return one row of numbers for each",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    word, given, error, text = BAD[name]
    with pytest.raises(error, match=text):
        clone(word).fit(X, Y, **given)


def test_columns_must_come_again():
    word = Reranker(BASE, cv=2).fit(X, Y, candidates=POOL, columns=np.arange(len(POOL)))
    with pytest.raises(ValueError, match="fitted with columns"):
        word.predict(NEW, POOL)
    with pytest.raises(ValueError, match="fitted without columns"):
        fitted("iokr", "pool").predict(NEW, POOL, np.arange(len(POOL)))


def test_a_fit_that_fails_changes_nothing():
    word = Reranker(BASE, cv=2, random_state=0).fit(X, Y, candidates=SETS)
    before = word.rank(NEW, NEW_SETS)[1]
    with pytest.raises(ValueError, match="groups"):
        word.fit(X, Y, groups=[1])
    assert_array_equal(word.rank(NEW, NEW_SETS)[1], before)


def test_asked_is_for_models_that_can_answer():
    model = iokr(Gaussian(0.2), NGram(1), decoder="strings").fit(X[:9], list("abcdefghi"))
    with pytest.raises(TypeError, match="Reranker needs a decoder"):
        searched(model, X[:2], None)
