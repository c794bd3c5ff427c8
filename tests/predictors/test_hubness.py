"""Prices of candidates that predictions crowd around."""

from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import ConformalSets, Ensemble, InducedMachine, correct_hubness, iokr, sisokr
from skout.decoding import CandidateSets, EmbeddedPools, FaissIndex
from skout.kernels import Gaussian, Linear
from skout.metrics import mean_reciprocal_rank
from skout.predictors.hubness import hubness_penalties
from skout.sketches import SubSample

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.column_stack([np.sin(X), X.prod(axis=1)]) + 0.3 * RNG.standard_normal((60, 3))
NEW, POOL = RNG.standard_normal((9, 2)), np.vstack([Y, RNG.standard_normal((40, 3))])


@pytest.fixture(scope="module", params=[Gaussian(0.5), 9.0 * Gaussian(0.5), Linear()], ids=repr)
def model(request):
    return iokr(Gaussian(0.7), request.param, alpha=1e-3).fit(X, Y)


@pytest.fixture(scope="module")
def priced(model):
    return correct_hubness(model, X, Y, POOL, random_state=0)


def plain_scores(model, pool):
    """2 <f, z> - k - |f| price, number by number."""
    F, E = model.predict_coordinates(NEW), pool.embedding
    p = F.shape[1]
    return 2.0 * F @ E[:, :p].T - np.linalg.norm(F, axis=1)[:, None] * E[:, p] + E[:, -1]


def test_prices_are_what_the_docstring_says(model):
    pool = model.embed(POOL)
    F, own = model.predict_coordinates(NEW), np.array([0, 5, -1, -1, 7, 7, 99, 3, 2])
    found = hubness_penalties(F, pool, own, share=0.7, temperature=0.2)
    for c in range(len(POOL)):
        z, k = pool.embedding[c, :-1], -pool.embedding[c, -1]
        a = np.array([f @ z / (np.linalg.norm(f) * np.sqrt(k)) for f in F[own != c]])
        expected = 2 * 0.7 * np.sqrt(k) * 0.2 * np.log(np.mean(np.exp(a / 0.2)))
        assert_allclose(found[c], expected, rtol=1e-10, atol=1e-12)
    with mock.patch("skout.predictors.hubness._COSINES", 30):  # several blocks
        assert_allclose(hubness_penalties(F, pool, own, share=0.7, temperature=0.2), found)


def test_a_candidate_that_nobody_else_is_near_to_pays_nothing():
    model = iokr(Gaussian(0.7), Gaussian(0.5)).fit(X, Y)
    pool = model.embed(POOL[:3])
    F = model.predict_coordinates(NEW[:1])
    assert hubness_penalties(F, pool, np.array([1]))[1] == 0.0
    assert np.isfinite(hubness_penalties(np.zeros((2, F.shape[1])), pool, temperature=1e-6)).all()


def test_every_search_sees_the_prices(model, priced):
    S = plain_scores(model, priced)
    indices, scores = model.rank(NEW, priced, k=100)
    order = np.argsort(-S, axis=1, kind="stable")
    assert_array_equal(indices, order)
    assert_allclose(scores, np.take_along_axis(S, order, axis=1), rtol=1e-10, atol=1e-10)
    assert_array_equal(model.predict(NEW, priced), POOL[order[:, 0]])
    truth = np.arange(50, 59)
    assert_array_equal(
        model.truth_ranks(NEW, POOL[truth], priced), 1 + np.argmax(order == truth[:, None], axis=1)
    )
    F = model.predict_coordinates(NEW)
    gaps = model.decoder_.gaps(F, POOL[truth], priced)
    assert_allclose(gaps, S.max(axis=1) - S[np.arange(9), truth], atol=1e-10)
    inside = model.decoder_.within(F, 0.5, priced)
    assert_array_equal(inside.sizes, (S.max(axis=1, keepdims=True) - 0.5 <= S).sum(axis=1))


def test_sets_of_candidates(model):
    sets = CandidateSets.from_lists([POOL[10 * i : 10 * i + 12] for i in range(9)])
    priced = correct_hubness(model, X, Y, sets, random_state=0)
    shared = correct_hubness(model, X, Y, POOL, random_state=0)
    S = plain_scores(model, shared)
    indices, scores = model.rank(NEW, priced, k=2)
    for i in range(9):
        order = np.argsort(-S[i, 10 * i : 10 * i + 12], kind="stable")[:2]
        assert_array_equal(indices[i], order)
        assert_allclose(scores[i], S[i, 10 * i + order], rtol=1e-10, atol=1e-10)


def test_of_a_fitted_model_nothing_is_fitted_again(model):
    with mock.patch("skout.KernelRidge.fit", side_effect=AssertionError):
        found = correct_hubness(model, NEW, POOL[:9], POOL, cv="prefit")
    pool = model.embed(POOL)
    F, truth = model.predict_coordinates(NEW), model.decoder_.matched(POOL[:9], pool)
    assert_allclose(found.embedding[:, -2], hubness_penalties(F, pool, truth), rtol=1e-12)
    with pytest.raises(ValueError, match="cv must be"):
        correct_hubness(model, X, Y, POOL, cv="fitted")


def test_a_share_of_zero_changes_nothing(model):
    priced = correct_hubness(model, X, Y, POOL, share=0.0, random_state=0)
    assert_array_equal(model.rank(NEW, priced)[0], model.rank(NEW, POOL)[0])


def test_the_scale_of_a_kernel_does_not_matter():
    found = []
    for kernel in (Gaussian(0.5), 9.0 * Gaussian(0.5)):
        model = iokr(Gaussian(0.7), kernel, alpha=1e-3).fit(X, Y)
        pool = correct_hubness(model, X, Y, POOL, random_state=0)
        found.append(model.rank(NEW, pool)[0])
    assert_array_equal(*found)


def test_copies_of_candidates_and_prices_again(model, priced):
    twice = correct_hubness(model, X, Y, np.vstack([POOL, POOL]), random_state=0)
    assert_allclose(twice.embedding, priced.embedding)
    indices, _ = model.rank(NEW, twice, k=4)
    assert_array_equal(indices[:, 1], indices[:, 0] + 100)
    again = correct_hubness(model, X, Y, priced, random_state=0)
    assert_allclose(again.embedding, priced.embedding)


def test_no_prediction_knows_its_own_object():
    several = np.repeat(np.arange(12.0), 5)[:, None]
    model = iokr(Gaussian(0.7), Gaussian(0.5)).fit(X, several)
    T, seen = model.output_basis_.transform(several), []

    def fit(self, X_some, targets):
        seen.append((len(X_some), {tuple(row) for row in targets.round(9)}))
        return original(self, X_some, targets)

    original = skout.KernelRidge.fit
    with mock.patch("skout.KernelRidge.fit", fit):
        correct_hubness(model, X, several, several, cv=3)
    assert len(np.unique(T.round(9), axis=0)) == 12
    assert [(n, len(objects)) for n, objects in seen] == [(40, 8)] * 3
    assert len(set.union(*(objects for _, objects in seen))) == 12


def test_rows_of_other_kinds():
    words = ["".join(RNG.choice(list("abcd"), 6)) for _ in range(40)]
    model = iokr("ngram", "ngram").fit(words, words[::-1])
    pool = correct_hubness(model, words, words[::-1], words, random_state=0)
    assert len(model.predict(words[:3], pool)) == 3
    pandas = pytest.importorskip("pandas")
    model = iokr(Gaussian(0.7), Gaussian(0.5)).fit(pandas.DataFrame(X), Y)
    pool = correct_hubness(model, pandas.DataFrame(X), Y, POOL, random_state=0)
    other = correct_hubness(
        iokr(Gaussian(0.7), Gaussian(0.5)).fit(X, Y), X, Y, POOL, random_state=0
    )
    assert_allclose(pool.embedding, other.embedding)


def test_ranks_of_unseen_digits_gain():
    images = load_digits().data / 16.0
    upper, lower = images[:, :32], images[:, 32:]
    kernel, sketch = Gaussian(0.05), SubSample(300)
    model = sisokr(kernel, kernel, input_sketch=sketch, output_sketch=sketch, random_state=0)
    model.fit(upper[:1200], lower[:1200])
    fair = correct_hubness(model, upper[:1200], lower[:1200], lower, random_state=0)
    before, after = (
        mean_reciprocal_rank(model.truth_ranks(upper[1200:], lower[1200:], pool))
        for pool in (lower, fair)
    )
    assert after > 1.15 * before


def test_regressors_that_want_residuals():
    model = skout.StructuredPredictor(InducedMachine(Gaussian(0.7), loss="huber"), "gaussian")
    model.fit(X, Y)
    pool = correct_hubness(model, X, Y, POOL, cv=3, n_references=20, random_state=0)
    assert np.isfinite(pool.embedding).all()
    assert model.rank(NEW, pool, k=1)[0].shape == (9, 1)


def test_members_of_an_ensemble():
    model = sisokr(Gaussian(0.7), Gaussian(0.5), output_sketch=SubSample(20))
    ensemble = Ensemble(model, 2, random_state=0).fit(X, Y)
    parts = [correct_hubness(one, X, Y, POOL, random_state=0) for one in ensemble.members_]
    S = sum(plain_scores(*pair) for pair in zip(ensemble.members_, parts, strict=True)) / 2.0
    indices, scores = ensemble.rank(NEW, EmbeddedPools.of(parts), k=3)
    assert_array_equal(indices, np.argsort(-S, axis=1, kind="stable")[:, :3])
    assert_allclose(scores, -np.sort(-S, axis=1)[:, :3], rtol=1e-10)


def test_an_index_and_prediction_sets(model, priced):
    pytest.importorskip("faiss")
    indexed = iokr(Gaussian(0.7), model.output_basis_.kernel, alpha=1e-3)
    indexed.set_params(decoder=skout.decoding.CandidateDecoder(FaissIndex())).fit(X, Y)
    pool = correct_hubness(indexed, X, Y, POOL, random_state=0)
    assert pool.index is not None
    assert_array_equal(indexed.rank(NEW, pool, k=3)[0], model.rank(NEW, priced, k=3)[0])
    sets = ConformalSets(model).calibrate(X, Y, priced)
    assert sets.evaluate(X, Y, priced)["coverage"] >= 0.9


def test_a_file_keeps_the_prices(model, priced, tmp_path):
    skout.save(model, tmp_path / "model.skout")
    skout.save(priced, tmp_path / "pool.skout")
    other, pool = (skout.load(tmp_path / f"{name}.skout") for name in ("model", "pool"))
    assert_array_equal(other.rank(NEW, pool)[0], model.rank(NEW, priced)[0])


def test_what_is_wrong_is_said(model, priced):
    F = model.predict_coordinates(NEW)
    pool = model.embed(POOL)
    for options, error, match in (
        ({"share": -1}, ValueError, "share must be a finite number >= 0"),
        ({"temperature": 0}, ValueError, "temperature must be a finite number > 0"),
    ):
        with pytest.raises(error, match=match):
            hubness_penalties(F, pool, **options)
    with pytest.raises(ValueError, match="F is empty"):
        hubness_penalties(F[:0], pool)
    with pytest.raises(ValueError, match="F has 1 coordinates, other than the candidates"):
        hubness_penalties(np.ones((4, 1)), pool)
    for prices in (np.zeros(3), np.full(100, np.nan)):
        with pytest.raises(ValueError, match="penalties must be 100 finite numbers"):
            model.decoder_.penalized(pool, prices)
    with pytest.raises(ValueError, match="X and Y differ in length: 5 rows and 60 objects"):
        correct_hubness(model, X[:5], Y, POOL)
    with pytest.raises(ValueError, match=r"cv=5 folds need as many distinct outputs\. Got 2"):
        correct_hubness(model, X[:2], Y[:2], POOL)
    other = iokr().fit(X, Y)
    with pytest.raises(ValueError, match="embedded by another model"):
        correct_hubness(other, X, Y, priced)
    labels = iokr(decoder="label_sets", output_kernel="f1").fit(X, (Y > 0).astype(int))
    with pytest.raises(TypeError, match="needs a decoder with embed, matched, penalized"):
        correct_hubness(labels, X, Y, POOL)


def test_a_pipeline_has_prices_as_its_parts_have():
    # a scaler that changes nothing: the prices are those of the predictor alone
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    bare = iokr(Gaussian(0.7), Gaussian(0.5), alpha=1e-3)
    still = StandardScaler(with_mean=False, with_std=False)
    piped = make_pipeline(still, clone(bare)).fit(Z, Y)
    priced = correct_hubness(piped, Z, Y, POOL, random_state=0)
    expected = correct_hubness(bare.fit(Z, Y), Z, Y, POOL, random_state=0)
    assert_allclose(priced.embedding[:, -2], expected.embedding[:, -2], atol=1e-9)
    assert_array_equal(piped.predict(Z, candidates=priced), bare.predict(Z, expected))
    # one that scales is fitted on each part
    scaled = make_pipeline(StandardScaler(), bare).fit(100.0 * X, Y)
    assert len(correct_hubness(scaled, 100.0 * X, Y, POOL, random_state=0)) == len(POOL)


def test_an_ensemble_has_no_prices():
    model = Ensemble(sisokr(random_state=0), 2, random_state=0).fit(X, Y)
    with pytest.raises(
        TypeError, match=r"correct_hubness takes a StructuredPredictor.*Got Ensemble"
    ):
        correct_hubness(model, X, Y, POOL)


def test_pools_print_short(model):
    pool = model.embed(POOL)
    columns = model.output_basis_.rank_ + 1
    assert repr(pool) == f"<EmbeddedPool: 100 candidates, 100 distinct, {columns} columns>"
    sets = model.embed([POOL[:10], POOL[5:20]])
    assert repr(sets).startswith("<EmbeddedPool: 2 sets of 25 candidates, 20 distinct")
    both = Ensemble.of([model, model]).embed(POOL)
    assert repr(both) == f"<EmbeddedPools of 2 members: {pool!r}>"
