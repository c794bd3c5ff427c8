"""Which best answers to trust: p-values by loops, the false discovery rate by simulation."""

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import false_discovery_control
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_conformal_lists import label_problem, models, world

import skout
from skout import ConformalSelection, ConformalSets, iokr
from skout.kernels import Gaussian
from skout.predictors.discoveries import benjamini_hochberg


def test_benjamini_hochberg_is_that_of_scipy():
    p = np.random.default_rng(0).random(50) ** 2
    assert_allclose(benjamini_hochberg(p), false_discovery_control(p))
    assert benjamini_hochberg(np.empty(0)).shape == (0,)


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
