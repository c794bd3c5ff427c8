"""Which best answers to trust: p-values by loops, the false discovery rate by simulation."""

import math
import pickle

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import false_discovery_control
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_conformal_lists import Known, label_problem, lists_of, models, world
from test_cross_conformal import WRAPPED

import skout
from skout import ConformalSelection, ConformalSets, iokr
from skout.kernels import Gaussian
from skout.predictors.lists import Lists, Ranker
from skout.predictors.out_of_fold import folds_of
from skout.predictors.selection import AnswerConfidence, benjamini_hochberg


def test_benjamini_hochberg_is_that_of_scipy():
    p = np.random.default_rng(0).random(50) ** 2
    assert_allclose(benjamini_hochberg(p), false_discovery_control(p))
    assert benjamini_hochberg(np.empty(0)).shape == (0,)


def test_benjamini_hochberg_by_mass():
    rng = np.random.default_rng(1)
    p, mass = rng.integers(1, 30, 50) / 30, rng.uniform(0.1, 1.0, 50)  # with ties
    expected = [min(1.0, *(mass.sum() * t / mass[p <= t].sum() for t in p[p >= own])) for own in p]
    assert_allclose(benjamini_hochberg(p, mass), expected)
    assert_allclose(benjamini_hochberg(p, np.full(50, 0.2)), false_discovery_control(p))


def test_p_values_by_a_loop():
    model, Y = world(300, 0)
    rows = np.arange(300)
    trust = ConformalSelection(model, random_state=0).calibrate(rows[:200], Y[:200])
    answers = trust.predict(rows[200:])
    assert_array_equal(answers.indices, model.S[200:].argmax(axis=1))
    assert_array_equal(answers.objects, answers.indices)
    sure = np.log(answers.confidence / (1.0 - answers.confidence))
    n = round(trust._total)
    assert n == 140  # seven tenths of 200
    for s, p in zip(sure, answers.p_values, strict=True):
        assert_allclose(p, (1 + np.sum(trust.wrong_ >= s - 1e-9)) / (n + 1))
    assert_array_equal(answers.accepted, answers.q_values <= 0.1)
    assert_allclose(answers.q_values, benjamini_hochberg(answers.p_values))
    more = trust.predict(rows[200:], fdr=0.4)
    assert more.accepted.sum() > answers.accepted.sum()


@pytest.mark.parametrize("fdr", [0.1, 0.3])
def test_the_rate_is_held_and_used(fdr):
    found, accepted = [], []
    for seed in range(60):
        model, Y = world(500, seed, noise=1.2)
        rows = np.arange(500)
        trust = ConformalSelection(model, random_state=seed).calibrate(rows[:300], Y[:300])
        result = trust.evaluate(rows[300:], Y[300:], fdr=fdr)
        found.append(result["fdr"])
        accepted.append(result["accepted"])
        assert 0.0 <= result["power"] <= 1.0
        assert 1.0 - result["top_1"] > fdr  # all together would not do
    error = np.std(found) / math.sqrt(len(found))
    assert np.mean(found) < fdr + 3 * error
    assert np.mean(found) > 0.4 * fdr
    assert np.mean(accepted) > 0.05


def test_nothing_is_accepted_where_nothing_is_known():
    model, _ = world(400, 0)
    Y = np.random.default_rng(0).integers(0, 12, 400)
    rows = np.arange(400)
    trust = ConformalSelection(model, random_state=0).calibrate(rows[:200], Y[:200])
    assert trust.predict(rows[200:]).accepted.sum() == 0
    result = trust.evaluate(rows[200:], Y[200:])
    assert result["fdr"] == result["accepted"] == result["power"] == 0.0


def test_confidence_is_calibrated():
    model, Y = world(6000, 1)
    rows = np.arange(6000)
    trust = ConformalSelection(model, random_state=0).calibrate(rows[:3000], Y[:3000])
    answers = trust.predict(rows[3000:])
    right = answers.indices == Y[3000:]
    for low in np.arange(0.1, 0.9, 0.2):
        some = (answers.confidence >= low) & (answers.confidence < low + 0.2)
        if some.sum() > 200:
            assert abs(right[some].mean() - answers.confidence[some].mean()) < 0.1


def test_copies_in_a_group_count_once():
    model, Y = world(120, 2)
    rows = np.arange(60)
    many = np.repeat(rows, np.where(rows % 3 == 0, 30, 1))
    one = ConformalSelection(model, random_state=0).calibrate(rows, Y[rows], groups=rows)
    all_ = ConformalSelection(model, random_state=0).calibrate(many, Y[many], groups=many)
    new = np.arange(60, 120)
    assert_allclose(all_._total, one._total)
    p = [trust.predict(new, groups=new).p_values for trust in (all_, one)]
    assert_allclose(p[0], p[1], atol=1e-6)
    result = one.evaluate(many, Y[many], fdr=0.5, groups=many)
    assert_allclose(result["top_1"], np.mean(model.S[rows].argmax(axis=1) == Y[rows]))


def grouped(n, rng, easy, size=10):
    """Scores and truths of n groups, a sixth of them large: easier than the others, or harder."""
    large = rng.random(n) < 1 / 6
    sharp = np.where(large, 4.0, rng.choice([0.3, 3.0], n)) if easy else np.full(n, 3.0)
    S = sharp[:, None] * rng.standard_normal((n, 6))
    P = np.exp(np.where(large & (not easy), 0.4, 1.0)[:, None] * S)
    P /= P.sum(axis=1, keepdims=True)
    Y = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    group = np.repeat(np.arange(n), np.where(large, size, 1))
    return S[group] + 0.01 * rng.standard_normal((len(group), 6)), Y[group], group


@pytest.mark.parametrize("easy", [True, False], ids=["large easy", "large hard"])
def test_the_rate_by_groups_and_by_rows(easy):
    found, accepted = {"rows": [], "groups": []}, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        parts = [grouped(300, rng, easy) for _ in range(2)]
        S, Y, group = (np.concatenate(both) for both in zip(*parts, strict=True))
        n = len(parts[0][0])
        trust = ConformalSelection(Known(S), random_state=seed)
        trust.calibrate(np.arange(n), Y[:n], groups=group[:n])
        given = np.arange(n, len(S)), Y[n:], None, 0.1
        by_groups = trust.evaluate(*given, groups=group[n:])
        found["groups"].append(by_groups["fdr"])
        found["rows"].append(trust.evaluate(*given)["fdr"])
        accepted.append(by_groups["accepted"])
    for values in found.values():
        assert np.mean(values) < 0.1 + 2 * np.std(values) / math.sqrt(60)
    assert np.mean(found["groups"]) > 0.05  # and used
    assert np.mean(accepted) > 0.1


def test_p_values_by_groups_and_by_rows_by_loops():
    rng = np.random.default_rng(0)
    S, Y, group = grouped(60, rng, True)
    trust = ConformalSelection(Known(S), random_state=0)
    trust.calibrate(np.arange(len(S)), Y, groups=group)
    learning = len(np.unique(group)) - round(trust._total)
    assert learning == 18  # three tenths of 60
    new, group_new = np.arange(40), np.repeat(np.arange(8), 5)
    by_groups, by_rows = (trust.predict(new, groups=g) for g in (group_new, None))
    # each wrong row by its group, and rows as parts of the group of a row
    rest = np.flatnonzero(trust_rows(group, 0))
    _, number, counts = np.unique(group[rest], return_inverse=True, return_counts=True)
    sizes, b = counts[number], np.mean(counts[number])
    lists = lists_of(trust.model, rest)
    log_odds = trust._confidences[0](lists)
    wrong = S[rest].argmax(axis=1) != Y[rest]
    own = trust._confidences[0](lists_of(trust.model, new))
    for i in range(40):
        above = wrong & (log_odds >= own[i] - 1e-9)
        p = (1 + np.sum(above / sizes)) / (1 + len(counts))
        assert_allclose(by_groups.p_values[i], p)
        assert_allclose(by_rows.p_values[i], (b + above.sum()) / (b + len(rest)))
    q = benjamini_hochberg(by_groups.p_values, np.full(40, 0.2))
    assert_allclose(by_groups.q_values, q)
    assert_allclose(by_rows.q_values, benjamini_hochberg(by_rows.p_values))


def trust_rows(group, seed, share=0.3):
    """Whether each row is not in the part that confidence is learnt on."""
    number = np.unique(group, return_inverse=True)[1]
    place = np.random.default_rng(seed).permutation(number.max() + 1)
    return place[number] >= round(share * (number.max() + 1))


# Folds -------------------------------------------------------------------------------------------


def folded_model():
    return iokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2)


def test_answers_of_folds_by_loops():
    X, Y = label_problem(130)
    pool = np.unique(Y, axis=0)
    group = np.arange(100) // 2
    trust = ConformalSelection(folded_model(), random_state=1)
    trust.calibrate(X[:100], Y[:100], pool, groups=group, cv=4)
    lists, new, right = [], [], []
    for train, test in folds_of(4, 100, group, np.random.default_rng(1)):
        ranker = Ranker(folded_model().fit(X[train], Y[train]), "test")
        embedded = ranker.last.embed(pool)
        truth = ranker.matched(Y[test], embedded, len(test))
        lists.append(Lists.joined(list(ranker.lists(X[test], embedded, truth=truth))))
        new.append(Lists.joined(list(ranker.lists(X[100:], embedded))))
        right.append(pool[new[-1].place[new[-1].indptr[:-1]]])
    wrong = []
    for k, confidence in enumerate(trust._confidences):
        others = Lists.joined([lists[j] for j in range(4) if j != k])
        again = AnswerConfidence.learned(others, np.full(len(others), 0.5))
        assert_allclose(confidence(lists[k]), again(lists[k]), rtol=1e-3, atol=1e-3)
        is_wrong = lists[k].truth != lists[k].indptr[:-1]
        wrong += confidence(lists[k])[is_wrong].tolist()
    assert_allclose(trust.wrong_, np.sort(wrong), rtol=1e-6, atol=1e-6)
    answers = trust.predict(X[100:], pool, groups=np.arange(30))
    disagree = 0
    for i in range(30):
        log_odds = [c(one)[i] for c, one in zip(trust._confidences, new, strict=True)]
        votes = {}
        for label, s in zip(right, log_odds, strict=True):
            votes[tuple(label[i])] = votes.get(tuple(label[i]), 0.0) + 1 / (1 + math.exp(-s))
        best = max(votes, key=votes.get)
        disagree += len(votes) > 1
        assert tuple(answers.objects[i]) == best
        assert_allclose(answers.confidence[i], votes[best] / 4)
        same = sorted(
            s if tuple(label[i]) == best else -math.inf
            for label, s in zip(right, log_odds, strict=True)
        )
        above = sum(0.5 for w in wrong if w >= same[1] - 1e-9)  # the lower one of two in the middle
        assert_allclose(answers.p_values[i], (1 + above) / (1 + 50))
    assert disagree > 3


def test_folds_hold_the_rate_and_accept_more_than_a_split():
    found, accepted = {"split": [], "folds": []}, {"split": [], "folds": []}
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-3, 3, 400)
        noise = rng.choice([0.1, 1.2], 400)
        y = np.clip(np.round(x + noise * rng.standard_normal(400)) + 3, 0, 6).astype(int)
        X, Y, pool = np.column_stack([x, noise]), np.eye(7)[y], np.eye(7)
        model = iokr(Gaussian(1.0), "linear", alpha=1e-3)
        folds = ConformalSelection(model, random_state=seed).calibrate(X[:160], Y[:160], pool, cv=4)
        split = ConformalSelection(model.fit(X[:80], Y[:80]), random_state=seed)
        split.calibrate(X[80:160], Y[80:160], pool)
        for name, trust in (("split", split), ("folds", folds)):
            result = trust.evaluate(X[160:], Y[160:], pool, 0.1)
            found[name].append(result["fdr"])
            accepted[name].append(result["accepted"])
    assert np.mean(found["folds"]) < 0.1 + 2 * np.std(found["folds"]) / 5
    assert np.mean(accepted["folds"]) > 1.2 * np.mean(accepted["split"])


@pytest.mark.parametrize("name", WRAPPED)
def test_folds_of_every_predictor_saved_and_loaded(name, tmp_path):
    X, Y = label_problem(160)
    Y = Y[:, :3]
    groups = np.arange(120) // 2
    given = WRAPPED[name]()
    trust = ConformalSelection(given, random_state=0)
    trust.calibrate(X[:120], Y[:120], groups=groups, cv=3)
    assert not hasattr(given, "n_features_in_")  # the model itself is as it was
    answers = trust.predict(X[120:], fdr=0.3, groups=np.arange(40) % 25)
    result = trust.evaluate(X[120:], Y[120:], fdr=0.3)
    assert_allclose(result["top_1"], np.mean((answers.objects == Y[120:]).all(axis=1)))
    assert result["top_1"] > 0.3
    skout.save(trust, tmp_path / "trust.skout")
    for again in (skout.load(tmp_path / "trust.skout"), pickle.loads(pickle.dumps(trust))):
        other = again.predict(X[120:], fdr=0.3, groups=np.arange(40) % 25)
        assert_array_equal(other.objects, answers.objects)
        assert_allclose(other.q_values, answers.q_values)
    skout.save(trust, tmp_path / "light.skout", candidates=False)
    light = skout.load(tmp_path / "light.skout")
    assert_array_equal(light.predict(X[120:], Y[:120]).indices, trust.predict(X[120:]).indices)
    with pytest.raises(ValueError, match="candidates"):
        light.predict(X[120:])


@pytest.mark.parametrize("kind", ["disk", "dask", "frame", "sets"])
def test_folds_wherever_rows_and_candidates_lie(kind, tmp_path):
    X, Y = label_problem(100)
    pool = np.unique(Y, axis=0)
    expected = ConformalSelection(folded_model(), random_state=0).calibrate(X, Y, pool, cv=3)
    rows, candidates, new = X, pool, pool
    if kind == "disk":
        np.save(tmp_path / "X.npy", X)
        rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "dask":
        rows = extra("dask.array").from_array(X, chunks=(30, 3))
    elif kind == "frame":
        rows = extra("pandas").DataFrame(X, columns=list("abc"))
    else:
        candidates, new = [pool] * 100, [pool] * 20
    trust = ConformalSelection(folded_model(), random_state=0).calibrate(rows, Y, candidates, cv=3)
    assert_allclose(trust.wrong_, expected.wrong_, rtol=1e-5, atol=1e-5)
    with skout.memory_limits(block_rows=7):
        found = trust.predict(rows[:20], new)
    assert_array_equal(found.objects, expected.predict(X[:20], pool).objects)


@pytest.mark.parametrize("name", ["sisokr", "ensemble", "two ways"])
def test_every_predictor_that_ranks_saved_and_loaded(name, tmp_path):
    X, Y = label_problem(300)
    model = models(X[:80], Y[:80])[name]
    trust = ConformalSelection(model, random_state=0).calibrate(X[80:220], Y[80:220])
    answers = trust.predict(X[220:], fdr=0.3)
    assert_array_equal(answers.objects, model.predict(X[220:]))
    assert len(answers) == 80
    skout.save(trust, tmp_path / "trust.skout")
    again = skout.load(tmp_path / "trust.skout").predict(X[220:], fdr=0.3)
    assert_array_equal(again.p_values, answers.p_values)
    assert_array_equal(again.accepted, answers.accepted)


class Wrapper:
    """What wraps a predictor: scores of its own, candidates of the one inside."""

    def __init__(self, model):
        self.predictor_ = model

    def embed(self, candidates):
        return self.predictor_[-1].embed(candidates)

    def rank(self, X, candidates, k):
        indices, scores = self.predictor_[-1].rank(self.predictor_[:-1].transform(X), candidates, k)
        return indices, 3.0 * scores


def test_wrappers_and_pipelines():
    X, Y = label_problem(300)
    pipeline = make_pipeline(StandardScaler(), iokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2))
    pipeline.fit(X[:80], Y[:80])
    pool = np.unique(Y, axis=0)
    for model in (pipeline, Wrapper(pipeline)):
        sets = ConformalSets(model, "gap").calibrate(X[80:200], Y[80:200], pool)
        trust = ConformalSelection(model, random_state=0).calibrate(X[80:200], Y[80:200], pool)
        if model is pipeline:
            found, known = sets.predict(X[200:], pool), trust.predict(X[200:], pool)
    again = sets.predict(X[200:], pool)
    assert_array_equal(again.indptr, found.indptr)
    assert_array_equal(again.indices, found.indices)
    assert_allclose(sets.threshold(), 3.0 * ConformalSets(pipeline).calibrate(
        X[80:200], Y[80:200], pool).threshold())  # fmt: skip
    assert_array_equal(trust.predict(X[200:], pool).indices, known.indices)


def test_mistakes():
    model, Y = world(50, 0)
    rows = np.arange(50)
    trust = ConformalSelection(model)
    with pytest.raises(NotFittedError, match="call `calibrate` first"):
        trust.predict(rows)
    with pytest.raises(ValueError, match=r"at least 4 rows, two for each part. Got 3"):
        trust.calibrate(rows[:3], Y[:3])
    with pytest.raises(ValueError, match="groups must have one label for each of 50 rows"):
        trust.calibrate(rows, Y, groups=rows[:9])
    with pytest.raises(ValueError, match=r"groups must have at least 4 labels. Got 2"):
        trust.calibrate(rows, Y, groups=rows % 2)
    with pytest.raises(ValueError, match=r"X and Y must be of equal length. Got 50 and 49"):
        trust.calibrate(rows, Y[:-1])
    with pytest.raises(ValueError, match="share must lie"):
        ConformalSelection(model, share=0.0).calibrate(rows, Y)
    trust.calibrate(rows, Y)
    with pytest.raises(ValueError, match="groups must have one label for each of 50 rows"):
        trust.predict(rows, groups=rows[:9])
    with pytest.raises(ValueError, match=r"fdr must lie strictly between 0 and 1. Got 1"):
        trust.predict(rows, fdr=1)
    X, Y = label_problem()
    model = iokr(Gaussian(0.3), Gaussian(0.5)).fit(X[:60], Y[:60])
    trust = ConformalSelection(model).calibrate(X[60:], Y[60:])
    assert pickle.loads(pickle.dumps(trust)).predict(X).accepted.shape == (120,)
    model.fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match=r"fitted again after `calibrate`"):
        trust.predict(X)
    with pytest.raises(TypeError, match=r"takes a predictor that ranks candidates.*Got int"):
        ConformalSelection(3).calibrate(X, Y)
    with pytest.raises(ValueError, match=r"cv=9 folds need as many groups. Got 2"):
        ConformalSelection(model).calibrate(X, Y, groups=np.arange(120) % 2, cv=9)
    with pytest.raises(TypeError, match="must rank candidates"):
        ConformalSelection(StandardScaler()).calibrate(X, Y, cv=3)


def test_other_numbers_of_candidates_than_in_calibration():
    X, Y = label_problem(300)
    pool = np.unique(Y, axis=0)  # one size for all rows, so that nothing is learnt about sizes
    model = folded_model().fit(X[:80], Y[:80])
    trust = ConformalSelection(model, random_state=0).calibrate(X[80:200], Y[80:200], pool)
    every, fewer = (trust.predict(X[200:], some).confidence for some in (pool, pool[1:]))
    assert np.mean(np.abs(every - fewer) > 0.2) < 0.2
