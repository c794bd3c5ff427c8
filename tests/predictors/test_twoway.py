"""Two ways: the score by double loops, its ends, and all that a predictor can do."""

import functools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

import skout
from skout import (
    CandidateSets,
    ConformalSets,
    Ensemble,
    KernelBasis,
    KernelRidge,
    StructuredPredictor,
    TwoWay,
    correct_hubness,
    iokr,
    sisokr,
)
from skout.decoding import FaissIndex
from skout.kernels import Gaussian, NGram, Tanimoto
from skout.metrics import mean_reciprocal_rank
from skout.predictors.two_way_weight import TwoWayScores, best_option
from skout.sketches import SubSample

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.column_stack([np.sin(X), X.prod(axis=1)]) + 0.2 * RNG.standard_normal((60, 3))
NEW, POOL = RNG.standard_normal((9, 2)), np.vstack([Y[::3], RNG.standard_normal((30, 3))])
GX, GY, ALPHA = 0.7, 0.5, 1e-3


def ways(gx=GX, gy=GY):
    return iokr(Gaussian(gx), Gaussian(gy), alpha=ALPHA), iokr(
        Gaussian(gy), Gaussian(gx), alpha=ALPHA
    )


def two_way(weight, normalization="distance", **options):
    return TwoWay(*ways(), weight, normalization=normalization, **options)


def gaussian(a, b, gamma):
    return np.exp(-gamma * np.sum((a - b) ** 2))


@functools.cache
def oracle_ways():
    """2 <f, z> - k, <z_x, g>, |g|^2 and |z_x| of each query and candidate, from kernel values.

    Exact ridge: f(x) = sum_i a_i(x) psi(y_i), a(x) = (K + n alpha)^-1 k(x), and g the same.
    """
    n = len(X)
    KX = np.array([[gaussian(a, b, GX) for b in X] for a in X])
    KY = np.array([[gaussian(a, b, GY) for b in Y] for a in Y])
    AX, AY = (np.linalg.inv(K + n * ALPHA * np.eye(n)) for K in (KX, KY))
    inverse = np.linalg.pinv(KX, rcond=1e-12)
    found = np.empty((4, len(NEW), len(POOL)))
    for i, x in enumerate(NEW):
        kx = np.array([gaussian(x, other, GX) for other in X])
        for j, c in enumerate(POOL):
            ky = np.array([gaussian(c, other, GY) for other in Y])
            b = AY @ ky  # g(c) = sum_i b_i psi_x(x_i)
            # z_x(x) is the part of x that the training inputs span
            length = np.sqrt(kx @ inverse @ kx)
            found[:, i, j] = 2.0 * (AX @ kx) @ ky - 1.0, b @ kx, b @ KX @ b, length
    return found


def oracle(weight, normalization):
    """The score of each candidate for each query."""
    backward, product, square, length = oracle_ways()
    forward = 2.0 * product - square
    if normalization == "cosine":
        forward = 2.0 * product / np.sqrt(square) / length - 1.0
    return forward if np.isinf(weight) else backward + weight * forward


# The score ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["distance", "cosine"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 40.0, np.inf])
def test_the_score_is_that_of_the_formula(weight, normalization):
    model = two_way(weight, normalization).fit(X, Y)
    indices, scores = model.rank(NEW, POOL, k=len(POOL))
    expected = oracle(weight, normalization)
    assert_allclose(
        np.take_along_axis(expected, indices, axis=1), scores, atol=1e-6 * (1 + min(weight, 40))
    )
    assert np.all(np.diff(scores, axis=1) <= 0)
    assert_array_equal(model.predict(NEW, POOL), POOL[expected.argmax(axis=1)])


def test_weight_0_is_the_backward_model():
    alone = ways()[0].fit(X, Y)
    model = two_way(0.0).fit(X, Y)
    for found, expected in zip(model.rank(NEW, POOL), alone.rank(NEW, POOL), strict=True):
        assert_array_equal(found, expected)
    assert_array_equal(model.predict(NEW), alone.predict(NEW))
    assert model.score(NEW, Y[:9], scoring="kernel") == alone.score(NEW, Y[:9], scoring="kernel")


def test_a_very_large_weight_is_the_forward_model():
    far, alone = two_way(1e9).fit(X, Y), two_way(np.inf).fit(X, Y)
    assert_array_equal(far.rank(NEW, POOL)[0], alone.rank(NEW, POOL)[0])


def test_any_regressors_and_label_sets():
    labels = (RNG.random((60, 5)) < 0.4).astype(int)
    forest = RandomForestRegressor(5, random_state=0)
    backward = StructuredPredictor(forest, KernelBasis("tanimoto"))
    forward = StructuredPredictor(clone(forest), KernelBasis(Gaussian(GX)))
    model = TwoWay(backward, forward, 0.5).fit(X, labels)
    found = model.rank(NEW, labels, k=5)[1]
    z, g = (
        model.output_basis_.outputs.transform(labels),
        forward.regressor.fit(labels, KernelBasis(Gaussian(GX)).fit_transform(X)).predict(labels),
    )
    F, Zx = model.regressor_.regressor.predict(NEW), model.regressor_.inputs.transform(NEW)
    S = 2 * F @ z.T - 1.0 + 0.5 * (2 * Zx @ g.T - (g**2).sum(axis=1))
    assert_allclose(found, -np.sort(-S, axis=1)[:, :5], atol=1e-8)


# The choice --------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["distance", "cosine"])
def test_the_choice_sees_the_scores_of_the_model(normalization):
    """Options are judged by scores of both ways at weight 1: these must be the model's."""
    model = TwoWay(*ways(), 1.0).fit(X, Y)
    pool = model.embed(POOL)
    parts = TwoWayScores(pool, model.output_basis_, model.predict_coordinates(NEW))
    found = np.array([S for _, S in parts])  # (n, 3, c)
    want = TwoWay(*ways(), 0.7, normalization=normalization).fit(X, Y).rank(NEW, POOL, k=len(POOL))
    second = 1 if normalization == "distance" else 2
    mine = found[:, 0] + 0.7 * found[:, second]
    assert_allclose(np.take_along_axis(mine, want[0], axis=1), want[1], atol=1e-8)


def test_a_forward_way_of_noise_gets_no_weight():
    """The forward model sees the outputs through a kernel of almost no width."""
    backward = ways()[0]
    blind = iokr(Gaussian(1e9), Gaussian(GX), alpha=1e3)
    sets = [np.vstack([y, POOL[20:]]) for y in Y]
    model = TwoWay(backward, blind, random_state=0).fit(X, Y, candidates=sets)
    assert model.weight_ < 1.0
    assert (
        model.weight_results_["score"].max()
        == model.weight_results_["score"][
            np.flatnonzero(model.weight_results_["weight"] == model.weight_)[0]
        ]
    )


def test_a_backward_way_of_noise_gets_no_weight():
    blind = iokr(Gaussian(1e9), Gaussian(GY), alpha=1e3)
    model = TwoWay(blind, ways()[1], scoring="mean_reciprocal_rank", random_state=0).fit(X, Y)
    assert model.weight_ == np.inf


def test_both_ways_must_gain_more_than_a_standard_error():
    folds = np.array([[0.5, 0.4, 0.9], [0.5, 0.4, 0.3], [0.5, 0.4, 0.5]])
    results = {"weight": np.array([0.0, np.inf, 1.0]), "fold_score": folds}
    results["score"] = folds.mean(axis=0)  # both gain 0.067 with a standard error of 0.18
    assert best_option(results) == 0
    results["fold_score"] = folds * [1, 1, 0] + [0, 0, 0.6]
    assert best_option(results) == 2


@pytest.mark.parametrize("scoring", [None, "mean_reciprocal_rank", "r2"])
def test_scores_of_options_are_those_of_models(scoring):
    """Each entry of weight_results_ is the mean score of models fitted on the folds."""
    from sklearn.model_selection import GroupKFold

    groups = np.arange(60) // 2
    model = two_way("cv", None, scoring=scoring, cv=3, random_state=0).fit(X, Y, groups, POOL)
    results = model.weight_results_
    rng = np.random.default_rng(0)
    rng.permutation(60)
    folds = GroupKFold(3, shuffle=True, random_state=int(rng.integers(2**31)))
    splits = list(folds.split(X, groups=groups))
    for i in (0, 3, 8, 12):
        weight, name = results["weight"][i], results["normalization"][i]
        total = 0.0
        for train, test in splits:
            part = two_way(weight, name).fit(X[train], Y[train])
            if scoring == "mean_reciprocal_rank":
                value = mean_reciprocal_rank(part.truth_ranks(X[test], Y[test], POOL))
            else:
                value = part.score(X[test], Y[test], POOL, scoring)
            total += len(test) * value
        assert_allclose(results["score"][i], total / 60, rtol=1e-9)


def test_groups_stay_together_where_alpha_is_chosen_too():
    """Copies of rows in other folds would choose the smallest alpha."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 40, 1))  # nothing to learn
    X4, Y4, groups = np.repeat(x, 4, axis=0), np.repeat(y, 4, axis=0), np.repeat(np.arange(40), 4)
    alphas = (1e-8, 1.0)
    sketch = SubSample(100)
    backward = iokr(
        Gaussian(50.0), Gaussian(1.0), input_sketch=sketch, alpha=alphas, random_state=0
    )
    model = TwoWay(backward, weight=1.0)
    assert model.fit(X4, Y4).regressor_.regressor.alpha_ == 1e-8
    fitted = model.fit(X4, Y4, groups)
    assert fitted.regressor_.regressor.alpha_ == 1.0
    assert fitted.output_basis_.regressor.alpha_ == 1.0
    assert fitted.regressor_.regressor.cv == 5  # no folds are carried along


def test_one_candidate_a_query_leaves_nothing_to_choose():
    sets = CandidateSets(Y, np.arange(61), np.arange(60))
    model = two_way("cv", None, cv=2, random_state=0).fit(X, Y, candidates=sets)
    assert model.weight_ == 0.0
    assert_array_equal(model.rank(X, sets, k=1)[0], np.zeros((60, 1)))


def test_the_same_seed_gives_the_same_model():
    found = [
        TwoWay(sisokr(Gaussian(GX), Gaussian(GY), random_state=0), cv=2, random_state=0).fit(X, Y)
        for _ in range(2)
    ]
    assert_array_equal(*(one.weight_results_["score"] for one in found))
    assert_array_equal(*(one.rank(NEW)[1] for one in found))


# As any predictor --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return two_way(0.8, "cosine").fit(X, Y)


def test_sets_and_truth_ranks(model):
    S = oracle(0.8, "cosine")
    sets = [POOL[i : i + 7] for i in range(9)]
    indices, scores = model.rank(NEW, sets, k=7)
    for i in range(9):
        assert_allclose(np.sort(scores[i]), np.sort(S[i, i : i + 7]), atol=1e-6)
        assert_array_equal(indices[i], np.argsort(-S[i, i : i + 7]))
    truth = POOL[np.arange(9) + 2]
    ranks = [1 + np.sum(S[i, i : i + 7] > S[i, i + 2]) for i in range(9)]
    assert_array_equal(model.truth_ranks(NEW, truth, sets), ranks)
    assert model.score(NEW, truth, sets) == mean_reciprocal_rank(np.array(ranks, dtype=float))


def test_pools_on_disk(model, tmp_path):
    pool = model.embed(POOL, tmp_path / "pool.npy")
    assert isinstance(pool.embedding, np.memmap)
    for found, expected in zip(model.rank(NEW, pool), model.rank(NEW, POOL), strict=True):
        assert_array_equal(found, expected)


def test_files(model, tmp_path):
    skout.save(model, tmp_path / "model.skout")
    copy = skout.load(tmp_path / "model.skout")
    assert (copy.weight_, copy.normalization_) == (0.8, "cosine")
    for other in (copy, pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.rank(NEW, POOL)[1], model.rank(NEW, POOL)[1])
        assert_array_equal(other.predict(NEW), model.predict(NEW))


def test_prediction_sets_and_prices(model):
    sets = ConformalSets(model).calibrate(NEW, POOL[:9], POOL)
    assert sets.evaluate(NEW, POOL[:9], POOL, coverage=0.8)["coverage"] >= 0.8
    S = oracle(0.8, "cosine")
    assert_allclose(sets.gaps_, np.sort(S.max(axis=1) - S[np.arange(9), np.arange(9)]), atol=1e-6)
    fair = correct_hubness(model, X, Y, POOL, random_state=0)
    assert fair.embedding.shape[1] == model.embed(POOL).embedding.shape[1] + 1
    assert np.all(np.isfinite(model.rank(NEW, fair)[1]))


@pytest.mark.parametrize("weight", [0.0, np.inf])
def test_prices_of_single_ways(weight):
    model = two_way(weight).fit(X, Y)
    fair = correct_hubness(model, X, Y, POOL, random_state=0)
    if weight == 0.0:
        alone = ways()[0].fit(X, Y)
        expected = correct_hubness(alone, X, Y, POOL, random_state=0)
        assert_allclose(fair.embedding, expected.embedding)
    assert np.all(np.isfinite(model.rank(NEW, fair)[1]))


def test_members_of_an_ensemble(model):
    together = Ensemble.of([model, two_way(0.1).fit(X, Y)])
    assert len(together.predict(NEW, POOL)) == 9


def test_an_index(model):
    extra("faiss")
    backward, forward = ways()
    backward.set_params(decoder=skout.decoding.CandidateDecoder(FaissIndex()))
    found = TwoWay(backward, forward, 0.8, normalization="cosine").fit(X, Y).rank(NEW, POOL)
    assert_array_equal(found[0], model.rank(NEW, POOL)[0])


def test_a_cluster():
    da = extra("dask.array")
    backward = sisokr(
        Gaussian(GX),
        Gaussian(GY),
        input_sketch=SubSample(40),
        output_sketch=SubSample(40),
        alpha=ALPHA,
        random_state=0,
    )
    one = TwoWay(backward, weight=0.8, normalization="cosine")
    here = clone(one).fit(X, Y)
    there = clone(one).fit(da.from_array(X, chunks=(25, 2)), da.from_array(Y, chunks=(25, 3)))
    queries, pool = da.from_array(NEW, chunks=(4, 2)), da.from_array(POOL, chunks=(20, 3))
    expected = here.rank(NEW, POOL)
    for candidates in (POOL, pool):
        found = there.rank(queries, candidates)
        assert_allclose(found[1].compute(), expected[1], rtol=1e-7)
        assert_array_equal(found[0].compute(), expected[0])
    assert_array_equal(there.predict(queries).compute(), here.predict(NEW))


def test_strings():
    words = ["stone", "notes", "onset", "tones", "seton", "banana", "bandana", "cabana"] * 4
    rows = RNG.standard_normal((32, 3)) + 3.0 * np.eye(8)[np.arange(32) % 8, :3]
    backward = sisokr(Gaussian(0.2), NGram(2), alpha=1e-3, random_state=0)
    model = TwoWay(backward, cv=2, random_state=0).fit(rows, words)
    assert set(model.predict(rows)) <= set(words)
    sets = [["stone", "banana"], ["bandana"]]
    assert model.rank(rows[:2], sets, k=2)[0][1].tolist() == [0, -1]


def test_data_frames():
    pd = extra("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = two_way("cv", None, cv=2, random_state=0).fit(frame, pd.DataFrame(Y))
    assert_array_equal(
        model.predict(frame), two_way(model.weight_, model.normalization_).fit(X, Y).predict(X)
    )
    assert model.feature_names_in_.tolist() == ["a", "b"]


# Mistakes ----------------------------------------------------------------------------------------


def test_a_forward_model_of_another_kind_of_input():
    backward = ways()[0]
    with pytest.raises(
        (TypeError, ValueError), match="forward must take outputs, as the output kernel"
    ):
        TwoWay(backward, iokr(NGram(2), Gaussian(GX)), 1.0).fit(X, Y)
    with pytest.raises((TypeError, ValueError), match="forward must predict coordinates of inputs"):
        TwoWay(backward, iokr(Gaussian(GY), NGram(2)), 1.0).fit(X, Y)
    with pytest.raises(TypeError, match="forward must be a StructuredPredictor"):
        TwoWay(backward, KernelRidge(), 1.0).fit(X, Y)
    with pytest.raises(TypeError, match="RandomForestRegressor has no kernel: give a forward"):
        TwoWay(StructuredPredictor(RandomForestRegressor(), "gaussian"), weight=1.0).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"weight": -1.0}, {}, 'weight must be "cv" or a number >= 0. Got -1.0'),
        ({"weight": "auto"}, {}, "weight must be"),
        ({"weight": float("nan")}, {}, "weight must be"),
        ({"normalization": "cosin"}, {}, "normalization must be"),
        ({"cv": 1}, {}, "cv must be an integer >= 2"),
        ({"cv": 7}, {"groups": np.arange(60) // 10}, "cv=7 folds need as many groups. Got 6"),
        (
            {},
            {"groups": np.arange(59)},
            r"groups must have one label for each of 60 rows. Got shape \(59,\)",
        ),
        ({}, {"candidates": [POOL] * 3}, "one set for each row. Got 3 sets for 60 rows"),
        ({}, {"candidates": [POOL] * 59 + [POOL[:0]]}, "candidates is empty for query"),
        ({"scoring": "f2"}, {}, "scoring"),
    ],
)
def test_mistakes(options, given, message):
    options = {"weight": "cv", "normalization": None, "random_state": 0} | options
    with pytest.raises((TypeError, ValueError), match=message):
        two_way(**options).fit(X, Y, **given)


def test_no_candidates_at_all(model):
    with pytest.raises(ValueError, match="candidates is empty for query 1"):
        model.predict(NEW[:2], [POOL, POOL[:0]])
    with pytest.raises(ValueError, match="candidates is empty"):
        model.predict(NEW, POOL[:0])


def test_a_decoder_that_ranks_nothing():
    labels = (RNG.random((60, 4)) < 0.5).astype(int)
    backward = iokr(Gaussian(GX), Tanimoto(), decoder="label_sets")
    with pytest.raises(TypeError, match="TwoWay needs a decoder with embed"):
        TwoWay(backward, weight=1.0).fit(X, labels)


def test_a_failed_fit_changes_nothing():
    model = two_way(1.0).fit(X, Y)
    before = model.rank(NEW)[1]
    with pytest.raises(ValueError, match="equal length"):
        model.fit(X, Y[:-1])
    assert_array_equal(model.rank(NEW)[1], before)


# The record --------------------------------------------------------------------------------------

RECORDS = Path(__file__).resolve().parents[2] / "experiments" / "records"


@pytest.mark.parametrize("name", ["two_way_others", "two_way_captions"])
def test_both_ways_are_not_a_standard_error_below_the_best_single_one(name):
    rows = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))["results"]
    for row in rows:
        assert (
            row["both"] >= max(row["backward"], row["forward"]) - row["se of the best single way"]
        )
