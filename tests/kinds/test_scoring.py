"""Alpha by the metric of decoded objects: against a loop of whole fits, predictions and scores."""

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, ShuffleSplit

from skout import (
    CandidateSets,
    Ensemble,
    InducedMachine,
    KernelBasis,
    KernelRidge,
    StructuredPredictor,
    dsokr,
    iokr,
    load,
    save,
    sisokr,
)
from skout.decoding import CandidateDecoder, base
from skout.kernels import F1, Gaussian
from skout.kinds import scoring as kind_scoring
from skout.kinds.scoring import DecodedScore, metrics
from skout.losses import Huber
from skout.metrics import example_f1, mean_reciprocal_rank
from skout.sketches import SubSample
from skout.sources import Blocks

torch = extra("torch")

RNG = np.random.default_rng(0)
N = 120
X = RNG.standard_normal((N, 4))
SETS = (X @ RNG.standard_normal((4, 5)) + 0.6 * RNG.standard_normal((N, 5)) > 0.4).astype(float)
RANKINGS = np.argsort(np.argsort(X + 0.5 * RNG.standard_normal((N, 4)), axis=1), axis=1) + 1
VECTORS = np.round(X[:, :2] + 0.2 * RNG.standard_normal((N, 2)), 1)
STRINGS = ["".join("ab"[int(bit)] for bit in row) for row in SETS]
ALPHAS = [1e-6, 1e-3, 1e-1, 1.0]
INPUTS = Gaussian(0.2)


def looped(model, X, Y, splits, scoring=None, candidates=None):
    """Fit, predict and score each fold with each alpha."""
    table = []
    for train, test in splits:
        row = []
        for alpha in model.regressor.alpha:
            one = clone(model).set_params(regressor__alpha=alpha)
            one.fit(X[train], take(Y, train))
            given = None if candidates is None else candidates(test)
            row.append(one.score(X[test], take(Y, test), given, scoring))
        table.append(row)
    return np.array(table)


def take(Y, index):
    return [Y[i] for i in index] if isinstance(Y, list) else Y[index]


KINDS = {
    "sets": ("f1", SETS, None, None),
    "sets, exact matches": ("tanimoto", SETS, None, "subset_accuracy"),
    "sets without candidates": ("f1", SETS, "label_sets", None),
    "sets, own function": ("f1", SETS, None, lambda Y, P: -float(np.abs(Y - P).sum())),
    "sets, ranks": ("f1", SETS, None, "mean_reciprocal_rank"),
    "rankings": ("kendall", RANKINGS, None, None),
    "rankings without candidates": ("kendall", RANKINGS, "rankings", None),
    "vectors": (Gaussian(0.5), VECTORS, None, None),
    "strings": ("ngram", STRINGS, None, None),
    "strings, own kernel": ("ngram", STRINGS, None, "kernel"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_a_loop_of_fits(kind):
    kernel, Y, decoder, scoring = KINDS[kind]
    model = iokr(INPUTS, kernel, alpha=ALPHAS, decoder=decoder, scoring=scoring, random_state=0)
    model.fit(X, Y)
    splits = model.regressor.choice_splits(N)
    ranks = scoring == "mean_reciprocal_rank"  # among the outputs of all rows
    expected = looped(
        model, X, Y, splits, scoring, (lambda test: np.unique(Y, axis=0)) if ranks else None
    )
    assert_allclose(model.cv_results_["fold_score"], expected, atol=1e-8)
    mean, error = expected.mean(axis=0), expected.std(axis=0, ddof=1) / np.sqrt(5)
    assert_allclose(model.cv_results_["mean_score"], mean, atol=1e-8)
    assert_allclose(model.cv_results_["std_error"], error, atol=1e-8)
    assert_allclose(model.cv_results_["alpha"], ALPHAS)
    assert len({round(value, 6) for value in mean}) > 1, "nothing to choose"
    assert model.regressor_.alpha_ == by_hand(model.cv_results_["fold_score"])


def by_hand(table):
    """The best alpha, if it is ahead of 1e-3, the default, by more than two standard errors."""
    best, usual = int(np.argmax(table.mean(axis=0))), ALPHAS.index(1e-3)
    ahead = table[:, best] - table[:, usual]
    is_sure = ahead.mean() > 2.0 * ahead.std(ddof=1) / np.sqrt(len(ahead))
    return ALPHAS[best if is_sure else usual]


def test_names_of_the_default_metric():
    found = {}
    for kind, (kernel, Y, decoder, scoring) in KINDS.items():
        model = iokr(INPUTS, kernel, alpha=ALPHAS[:2], decoder=decoder, scoring=scoring)
        found[kind] = model.fit(X, Y).cv_results_["scoring"]
    assert found["sets"] == "example_f1"
    assert found["sets, exact matches"] == "subset_accuracy"
    assert found["sets, own function"] == "<lambda>"
    assert found["rankings"] == "kendall_tau"
    assert found["vectors"] == "r2"
    assert found["strings"] == "ngram_similarity"
    assert set(found.values()) - {"<lambda>", "mean_reciprocal_rank"} <= set(metrics())


def test_candidates_are_outputs_of_training_rows_only():
    """An output that only held-out rows have is never predicted for them."""
    groups = np.arange(N) % 6
    Y = np.eye(6)[groups]  # each group has an output of its own
    asked = []

    def scoring(truth, predicted):
        asked.append((truth, predicted))
        return 0.0

    model = iokr(INPUTS, "linear", alpha=[1e-3, 1.0], scoring=scoring, cv=3, random_state=0)
    model.fit(X, Y, groups=groups)
    assert len(asked) == 3 * 2
    for truth, predicted in asked:
        own = set(truth.argmax(axis=1))
        assert len(own) == 2
        assert not own & set(predicted.argmax(axis=1))


def test_groups_and_splitters_reach_the_folds():
    groups = RNG.integers(0, 20, N)
    by_number = sisokr(INPUTS, "f1", alpha=ALPHAS, random_state=0).fit(X, SETS, groups=groups)
    splitter = GroupKFold(4)
    model = iokr(INPUTS, "f1", alpha=ALPHAS, cv=splitter).fit(X, SETS, groups=groups)
    expected = looped(model, X, SETS, splitter.split(X, groups=groups))
    assert_allclose(model.cv_results_["fold_score"], expected, atol=1e-8)
    assert len(by_number.cv_results_["fold_score"]) == 5
    for train, test in by_number.regressor.choice_splits(N, groups=groups):
        assert not set(groups[train]) & set(groups[test])
    # rows may be held out many times, or never
    some = ShuffleSplit(3, test_size=0.3, random_state=0)
    model = iokr(INPUTS, "f1", alpha=ALPHAS, cv=some).fit(X, SETS)
    assert_allclose(
        model.cv_results_["fold_score"], looped(model, X, SETS, some.split(X)), atol=1e-8
    )


def test_a_pool_of_candidates():
    pool = np.unique(SETS, axis=0)[::2]
    model = iokr(INPUTS, "f1", alpha=ALPHAS, random_state=0).fit(X, SETS, candidates=pool)
    splits = model.regressor.choice_splits(N)
    expected = looped(model, X, SETS, splits, candidates=lambda test: pool)
    assert_allclose(model.cv_results_["fold_score"], expected, atol=1e-8)


@pytest.mark.parametrize("as_lists", [False, True])
def test_a_set_for_each_row_is_scored_by_ranks(as_lists):
    pool = np.unique(SETS, axis=0)
    others = [pool[RNG.permutation(len(pool))[:6]] for _ in range(N)]
    lists = [np.vstack([own, truth]) for own, truth in zip(others, SETS, strict=True)]
    given = lists if as_lists else CandidateSets.from_lists(lists)
    model = iokr(INPUTS, "f1", alpha=ALPHAS, random_state=0).fit(X, SETS, candidates=given)
    splits = model.regressor.choice_splits(N)
    expected = looped(model, X, SETS, splits, candidates=lambda test: [lists[i] for i in test])
    assert model.cv_results_["scoring"] == "mean_reciprocal_rank"
    assert_allclose(model.cv_results_["fold_score"], expected, atol=1e-8)
    with pytest.raises(ValueError, match="one set for each of the 120 rows of X"):
        clone(model).fit(X, SETS, candidates=lists[:-1])


def test_coordinates_is_the_regressor_s_own_choice():
    model = sisokr(INPUTS, "f1", alpha=ALPHAS, scoring="coordinates", random_state=0).fit(X, SETS)
    T = model.output_basis_.transform(SETS)
    alone = clone(model.regressor).fit(X, T)
    assert model.regressor_.alpha_ == alone.alpha_
    assert_allclose(model.cv_results_["fold_loss"], alone.cv_results_["fold_loss"], rtol=1e-6)
    grouped = clone(model).fit(X, SETS, groups=np.arange(N) // 2)
    assert grouped.cv_results_["scoring"] == "coordinates"
    errors = clone(model.regressor).fit(X, T, groups=np.arange(N) // 2).cv_results_["mean_loss"]
    assert_allclose(-grouped.cv_results_["mean_score"], errors, rtol=1e-6)


def test_the_metric_may_choose_another_alpha_than_the_loss():
    """With many labels that are noise, the loss wants more penalty than F1 does."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((150, 3))
    noise = rng.random((150, 12)) < 0.5
    Y = np.column_stack([rows @ rng.standard_normal((3, 6)) > 0.0, noise]).astype(float)
    chosen = {
        scoring: iokr(
            Gaussian(0.5), Gaussian(1.0), alpha=np.logspace(-7, 0, 8), scoring=scoring,
            random_state=0,
        ).fit(rows, Y).regressor_.alpha_
        for scoring in (None, "coordinates")
    }  # fmt: skip
    assert chosen[None] != chosen["coordinates"]


def test_same_seed_same_choice():
    def results(seed):
        model = sisokr("gaussian", "f1", alpha=ALPHAS, random_state=seed).fit(X, SETS)
        return model.cv_results_["fold_score"]

    np.testing.assert_array_equal(results(0), results(0))
    assert not np.array_equal(results(0), results(1))


def test_few_rows_are_looked_at_of_many(monkeypatch):
    looked = []
    original = DecodedScore.__call__

    def counting(self, k, F):
        looked.append(F.shape[1])
        return original(self, k, F)

    monkeypatch.setattr(DecodedScore, "__call__", counting)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 3))
    Y = (rows > 0).astype(float)
    sisokr(INPUTS, "f1", input_sketch=SubSample(20), random_state=0).fit(rows, Y)
    assert looked == [400] * 5


def test_one_search_decodes_all_alphas_of_a_split(monkeypatch):
    searched, decode = [], CandidateDecoder.decode

    def counting(self, F, candidates=None):
        searched.append(len(F))
        return decode(self, F, candidates)

    monkeypatch.setattr(CandidateDecoder, "decode", counting)
    iokr(INPUTS, "f1", alpha=ALPHAS, random_state=0, cv=4).fit(X, SETS)
    assert searched == [len(ALPHAS) * N // 4] * 4


def test_of_many_candidates_a_sample(monkeypatch):
    monkeypatch.setattr(kind_scoring, "_MOST_CANDIDATES", 7)
    asked = []

    def scoring(truth, predicted):
        asked.append(len(np.unique(predicted, axis=0)))
        return example_f1(truth, predicted)

    model = iokr(INPUTS, "f1", alpha=ALPHAS, scoring=scoring, random_state=0)
    first = model.fit(X, SETS).cv_results_["fold_score"]
    assert max(asked) <= 7
    np.testing.assert_array_equal(first, clone(model).fit(X, SETS).cv_results_["fold_score"])


# Where there is nothing to decode with ------------------------------------------------------------


def test_too_many_outputs_to_keep(monkeypatch):
    monkeypatch.setattr(base, "_MOST_OUTPUTS", 5)
    blocks = Blocks(lambda: ((X[a : a + 40], SETS[a : a + 40]) for a in range(0, N, 40)), n=N)
    model = sisokr(INPUTS, "f1", alpha=ALPHAS, random_state=0)
    assert clone(model).fit(blocks).cv_results_["scoring"] == "coordinates"
    pool = np.unique(SETS, axis=0)
    assert clone(model).fit(blocks, candidates=pool).cv_results_["scoring"] == "example_f1"
    with pytest.raises(ValueError, match=r"give candidates to fit, or scoring=.coordinates."):
        clone(model).set_params(scoring="example_f1").fit(blocks)


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("f1", "scoring"),
        (3.0, "scoring"),
        (lambda Y, P: np.nan, "gave nan"),
    ],
)
def test_scoring_that_is_wrong(scoring, message):
    model = iokr(INPUTS, "f1", alpha=ALPHAS, scoring=scoring)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, SETS)


def test_one_alpha_is_not_chosen():
    def scoring(*_objects):
        raise AssertionError("nothing to choose")

    model = iokr(INPUTS, "f1", alpha=1e-3, scoring=scoring).fit(X, SETS, groups=np.arange(N))
    assert not hasattr(model, "cv_results_")


# Other regressors and what wraps them -------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(40)], ids=["exact", "sketched"])
def test_robust_machine_chooses_by_the_metric(sketch):
    machine = InducedMachine(INPUTS, sketch, alpha=[1e-3, 10.0], loss=Huber(0.5), random_state=0)
    model = StructuredPredictor(machine, KernelBasis(F1(), SubSample(10), random_state=1))
    model.fit(X, SETS)
    scores = model.cv_results_["mean_score"]
    assert model.regressor_.alpha_ == 1e-3
    assert scores[0] > scores[1] + 0.05
    assert model.cv_results_["scoring"] == "example_f1"


def test_each_member_of_an_ensemble_chooses():
    model = Ensemble(
        sisokr(INPUTS, "f1", alpha=ALPHAS, input_sketch=SubSample(30)), 3, random_state=0
    )
    groups = np.arange(N) // 3
    model.fit(X, SETS, groups=groups)
    tables = [one.cv_results_["fold_score"] for one in model.members_]
    assert not np.array_equal(tables[0], tables[1])
    assert all(one.cv_results_["scoring"] == "example_f1" for one in model.members_)


def test_network_keeps_the_epoch_of_the_best_metric():
    from skout.deep import MLP, Training

    truth = []

    def scoring(Y, P):
        truth.append(Y)
        return example_f1(Y, P)

    model = dsokr(
        MLP, "f1", training=Training(6), validation=0.25, scoring=scoring, random_state=0
    ).fit(X, SETS)
    history = [row["validation"] for row in model.regressor_.history_]
    assert len(truth) == 6
    assert model.regressor_.best_epoch_ == 1 + int(np.argmin(history))
    ((_, held),) = model.regressor.choice_splits(N)
    np.testing.assert_array_equal(truth[0], SETS[held])
    F = model.predict_coordinates(X[held])
    own = clone(model.decoder_).fit(model.output_basis_, np.delete(SETS, held, axis=0))
    assert -min(history) == pytest.approx(example_f1(SETS[held], own.decode(F)), abs=1e-6)
    groups = np.arange(N) // 4
    ((train, held),) = model.regressor.choice_splits(N, groups=groups)
    assert not set(groups[train]) & set(groups[held])
    assert 30 <= len(held) < 34


def test_files_keep_how_alpha_was_chosen(tmp_path):
    model = sisokr(INPUTS, "f1", alpha=ALPHAS, scoring="subset_accuracy", random_state=0)
    model.fit(X, SETS)
    save(model, tmp_path / "model.skout")
    found = load(tmp_path / "model.skout")
    assert found.scoring == "subset_accuracy"
    assert found.cv_results_["scoring"] == "subset_accuracy"
    assert_allclose(found.cv_results_["fold_score"], model.cv_results_["fold_score"])
    assert found.regressor_.alpha_ == model.regressor_.alpha_


def test_mean_reciprocal_rank_by_hand():
    model = iokr(INPUTS, "f1", alpha=ALPHAS, scoring="mean_reciprocal_rank", random_state=0)
    model.fit(X, SETS)
    train, test = model.regressor.choice_splits(N)[0]
    one = iokr(INPUTS, "f1", alpha=ALPHAS[1]).fit(X[train], SETS[train])
    ranks = one.truth_ranks(X[test], SETS[test], candidates=np.unique(SETS, axis=0))
    expected = mean_reciprocal_rank(ranks)
    assert model.cv_results_["fold_score"][0, 1] == pytest.approx(expected)


def test_outputs_that_are_all_different_can_be_ranked():
    # a held-out output is none of the training rows; its rank is among those of all rows
    Y = np.column_stack([np.sin(X), np.cos(X)])
    model = iokr(
        INPUTS, Gaussian(0.5), alpha=ALPHAS, scoring="mean_reciprocal_rank", random_state=0
    )
    by_alpha = model.fit(X, Y).cv_results_["mean_score"]
    assert by_alpha.min() > 1.5 / N
    assert by_alpha.max() > 1.5 * by_alpha[-1]
    assert model.regressor_.alpha_ != ALPHAS[-1]


def test_ridge_alone_chooses_by_the_squared_error():
    assert "mean_loss" in KernelRidge(INPUTS, alpha=ALPHAS).fit(X, SETS).cv_results_
