"""`skout.Tuned`: every kind, the same choice for the same seed, honest scores, odd data."""

import json
from functools import partial

import numpy as np
import pytest
from extras import extra
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import skout
from skout import Tuned
from skout._numerics import checkpoints
from skout.apps.tuning import (
    MAPS,
    Averaged,
    Centered,
    ColumnScaler,
    LeafForest,
    LogisticOutputs,
    Map,
    PrincipalOutputs,
    Profile,
    Sample,
)
from skout.apps.tuning.averages import Members, choose, cross_fitted
from skout.apps.tuning.folds import make_folds
from skout.apps.tuning.outputs import read_kind
from skout.apps.tuning.scoring import Merit, OutputScoring
from skout.apps.tuning.search import Budget, ModelSearch
from skout.decoding import RankingDecoder
from skout.kernels import F1, Kendall
from skout.kinds import KINDS, LabelFeatures, PairOrders, SetDecoder, guess_kind
from skout.metrics import example_f1, kendall_tau

pytestmark = pytest.mark.usefixtures("few_trees")

N = 60


def inputs(n=N, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def outputs(kind, X):
    rng = np.random.default_rng(1)
    scores = np.tanh(X @ rng.standard_normal((X.shape[1], 4)))
    return {
        "label_sets": lambda: (scores > 0).astype(int),
        "rankings": lambda: np.argsort(np.argsort(scores, axis=1), axis=1),
        "numbers": lambda: scores + 3.0,
        "classes": lambda: np.array(["ab", "b", "c", "d"])[scores.argmax(axis=1)],
        "strings": lambda: ["".join("ab"[int(s > 0)] for s in row) for row in scores],
    }[kind]()


def quick(kind=None, budget="3 fits", **params):
    return Tuned(kind, budget=budget, random_state=0, **{"cv": 2, **params})


# Every kind --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["label_sets", "rankings", "numbers", "classes", "strings"])
def test_every_kind_beats_a_constant_and_is_saved(kind, tmp_path):
    X = inputs()
    Y = outputs(kind, X)
    model = quick(kind).fit(X[:50], Y[:50])
    assert model.score(X[50:], Y[50:]) > model.baselines_["constant"] + 0.1
    assert model.score_ > model.baselines_["constant"] + 0.1
    assert len(model.predict(X[50:])) == 10
    if kind == "numbers":
        with pytest.raises(TypeError, match="predicted, not chosen"):
            model.rank(X[50:])
    else:
        indices, scores = model.rank(X[50:53], k=2)
        assert indices.shape == scores.shape == (3, 2)
        assert np.all(scores[:, 0] >= scores[:, 1])
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    np.testing.assert_array_equal(again.predict(X[50:]), model.predict(X[50:]))
    assert again.summary() == model.summary()


@pytest.mark.parametrize(
    ("Y", "kind"),
    [
        ([[0, 1, 1], [1, 0, 0]], "label_sets"),
        (sparse.csr_matrix([[0, 1], [1, 1]]), "label_sets"),
        ([[0, 1, 2], [2, 0, 1]], "rankings"),
        ([[1, 2, 3], [3, 1, 2]], "rankings"),
        ([[0.0, 1.5], [2.0, 3.0]], "numbers"),
        ([0.5, 1.5], "numbers"),
        ([True, False], "classes"),
        (np.array([1.5, None], dtype=object), "numbers"),
        ([["a"], ["b", "c"], []], "label_sets"),  # of names, which are refused
    ],
)
def test_kind_is_guessed(Y, kind):
    assert guess_kind(Y) == kind


@pytest.mark.parametrize(
    ("Y", "choices"),
    [
        ([[0, 1], [1, 0]], "label_sets or rankings"),
        ([{1}, {2}], "strings, smiles, graphs or spectra"),
    ],
)
def test_unclear_kinds_are_asked_for(Y, choices):
    with pytest.raises(ValueError, match=choices):
        guess_kind(Y)


@pytest.mark.parametrize(
    ("Y", "kind", "others"),
    [
        (["a", "b"], "strings", "'classes' or 'smiles'"),
        (["a", "b"] * 2, "classes", "'strings' or 'smiles'"),
        (np.arange(100) % 3, "classes", "'numbers'"),
        (np.arange(100) % 5 + 1, "numbers", "'classes'"),
    ],
)
def test_close_guesses_are_said(Y, kind, others):
    with pytest.warns(UserWarning, match=f"taken for {kind}. If it is not, say kind={others}"):
        assert guess_kind(Y) == kind


def test_the_name_of_a_column_tells_classes():
    pd, values = extra("pandas"), np.arange(100) % 3 + 1
    assert read_kind(pd.Series(values, name="Cover_Type"), None) == ("classes", None)
    assert read_kind(pd.Series(values + 0.5, name="Cover_Type"), None) == ("numbers", None)
    with pytest.warns(UserWarning, match="taken for numbers"):
        assert read_kind(pd.Series(values, name="rating"), None) == ("numbers", None)


@pytest.mark.parametrize("make", [sparse.csr_matrix, lambda X: extra("pandas").DataFrame(X)])
def test_sparse_rows_and_frames(make):
    X = np.random.default_rng(0).poisson(0.3, (N, 12)).astype(float)
    Y = (X[:, :3] > 0).astype(int)
    model = quick("label_sets", "4 fits").fit(make(X), Y)
    np.testing.assert_array_equal(model.predict(make(X)), model.predict(make(X)[:N]))
    assert model.score_ > model.baselines_["constant"]


def test_texts_as_inputs():
    rng = np.random.default_rng(0)
    words = np.array(["stone", "notes", "water", "river"])
    X = [" ".join(rng.choice(words, 3)) for _ in range(40)]
    Y = np.array([[int(word in text) for word in words] for text in X])
    model = quick().fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert {row["map"] for row in model.results_} == {"kernel ridge", "constant"}


def test_candidates_are_chosen_from():
    X = inputs()
    Y = outputs("label_sets", X)
    pool = np.array([[1, 0, 0, 0], [0, 1, 1, 1]])
    found = quick().fit(X, Y).predict(X, pool)
    assert {tuple(row) for row in found} <= {tuple(row) for row in pool}


# The same choice ---------------------------------------------------------------------------------


def same(a, b, X):
    assert a.best_settings_ == b.best_settings_
    assert a.score_ == b.score_
    np.testing.assert_array_equal(
        a.best_estimator_.predict_coordinates(X), b.best_estimator_.predict_coordinates(X)
    )


def test_same_seed_same_choice(monkeypatch):
    X = inputs()
    Y = outputs("numbers", X)

    def fitted(seed):
        asked = []  # a clock that goes on whenever it is asked
        monkeypatch.setattr(Tuned, "_now", staticmethod(lambda: asked.append(0) or len(asked) / 99))
        return Tuned(budget=2.0, random_state=seed, cv=2).fit(X, Y)

    first = fitted(0)
    same(first, fitted(0), X)
    assert fitted(1).score_ != first.score_


def test_killed_and_resumed(tmp_path, monkeypatch):
    X = inputs()
    Y = outputs("label_sets", X)
    whole = quick(budget="4 fits").fit(X, Y)
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    real, ran = Map.predictions, []

    def killed(settings, sample):
        if len(ran) == 2:
            raise SystemExit
        ran.append(settings)
        return real(settings, sample)

    file = tmp_path / "search.npz"
    monkeypatch.setattr(Map, "predictions", killed)
    with pytest.raises(SystemExit):
        quick(budget="4 fits", checkpoint=file).fit(X, Y)
    assert file.exists()
    seen = len(ran)
    monkeypatch.setattr(Map, "predictions", lambda *args: ran.append(0) or real(*args))
    resumed = quick(budget="4 fits", checkpoint=file).fit(X, Y)
    assert len(ran) - seen == 2  # the others were there
    same(whole, resumed, X)
    assert not file.exists()


def test_checkpoint_of_other_data_is_refused(tmp_path):
    X = inputs()
    np.savez(tmp_path / "search.npz", done=0, facts=np.array(json.dumps({"data": "another"})))
    with pytest.raises(ValueError, match="of another fit: data is another there"):
        quick(checkpoint=tmp_path / "search.npz").fit(X, outputs("numbers", X))
    with pytest.raises(ValueError, match="random_state that is an int"):
        Tuned(checkpoint=tmp_path / "new").fit(X, outputs("numbers", X))


def test_interrupt_keeps_the_best_so_far(monkeypatch):
    X = inputs()
    Y = outputs("numbers", X)
    real, ran = Map.predictions, []

    def interrupted(settings, sample):
        ran.append(settings)
        if len(ran) == 3:
            raise KeyboardInterrupt
        return real(settings, sample)

    monkeypatch.setattr(Map, "predictions", interrupted)
    with pytest.warns(UserWarning, match="best so far"):
        model = quick(budget="9 fits").fit(X, Y)
    assert model.interrupted_
    assert len(model.results_) == 3
    assert model.predict(X).shape == Y.shape


def test_a_trial_that_fails_is_passed_over(monkeypatch):
    X = inputs()
    real = Map.predictions

    def fails(settings, sample):
        if settings.name == "kernel ridge":
            raise ValueError("no such thing")
        return real(settings, sample)

    monkeypatch.setattr(Map, "predictions", fails)
    model = quick().fit(X, outputs("numbers", X))
    assert {row["map"] for row in model.results_} == {"random forest", "extra trees", "constant"}
    with pytest.raises(ValueError, match="No trial succeeded: no such thing"):
        quick(maps=["kernel ridge"]).fit(X, outputs("numbers", X))


# Honest scores -----------------------------------------------------------------------------------


def noise_members(n=200, members=30, seed=0):
    """Members that know nothing: what is best by some rows is not better on others."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1.0, 1.0], (n, 1)).astype(np.float32)
    folds = make_folds(n, 0)
    F = [rng.choice([-1.0, 1.0], (n, 1)).astype(np.float32) for _ in range(members)]
    held = truth[folds.held]
    merit = Merit(lambda f: folds.part_means(np.sign(f * held).T), held, folds)
    return Members([f[folds.held] for f in F], merit, np.zeros(members))


def test_no_row_chooses_for_itself():
    chosen, honest = [], []
    for seed in range(5):
        members = noise_members(seed=seed)
        folds = members.merit.folds
        best = choose(members, np.arange(folds.n_parts), 1)
        chosen.append(members.table(best.counts)[0][0] @ folds.weights)
        honest.append(cross_fitted(members, 1) @ folds.weights)
    assert np.mean(chosen) > 0.1  # the best of thirty by luck
    assert abs(np.mean(honest)) < 0.06


def test_rows_held_out_twice_are_in_one_block():
    folds = make_folds(40, 0)
    assert len(folds.splits) == 15
    held = folds.held
    of_block = {}
    for (rows, split), block in zip(folds.parts, folds.blocks, strict=True):
        assert set(held[rows]) <= set(folds.splits[split][1])
        of_block.setdefault(block, set()).update(held[rows].tolist())
    blocks = list(of_block.values())
    assert sum(map(len, blocks)) == 40  # no row is in two


def test_predictions_of_a_row_never_saw_it():
    X, rng = inputs(40), np.random.default_rng(0)
    T = rng.standard_normal((40, 2))
    for settings in (
        MAPS["kernel ridge"](gamma=1.0),
        MAPS["neighbors"](),
        MAPS["logistic"](),
        MAPS["learned metric ridge"](landmarks=20),
        MAPS["extra trees"](n_estimators=3, max_features=1.0),
    ):
        folds = make_folds(40, 0)
        before = [F for _, F in settings.predictions(Sample(X, T, folds, 0))]
        row = 7
        changed = T.copy()
        changed[row] = 100.0 - changed[row]
        after = [F for _, F in settings.predictions(Sample(X, changed, folds, 0))]
        own = folds.held == row
        for one, other in zip(before, after, strict=True):
            np.testing.assert_allclose(one[own], other[own], rtol=1e-6)  # sums less a fold round
            assert not np.array_equal(one, other)


def test_path_is_ridge_regression():
    X, rng = inputs(30), np.random.default_rng(0)
    T = rng.standard_normal((30, 3))
    folds = make_folds(30, 0, cv=3)
    settings = MAPS["kernel ridge"](kernel="laplacian", gamma=0.3, scaling="standard")
    for cell, F in settings.predictions(Sample(X, T, folds, 0)):
        if cell.alpha not in (0.1, 1e-4):
            continue
        for (train, held), rows in zip(folds.splits, folds.spans, strict=True):
            scaled = ColumnScaler("standard").fit_transform(X)
            model = cell.build(0).fit(scaled[train], T[train])
            np.testing.assert_allclose(F[rows], model.predict(scaled[held]), atol=1e-5)


def test_outer_estimate():
    X = inputs()
    Y = outputs("rankings", X)
    model = quick(budget="2 fits", outer_cv=3).fit(X, Y)
    assert model.outer_scores_.shape == (3,)
    assert "in 3 outer folds" in model.summary()


def test_groups_stay_together():
    groups = np.arange(60) // 3
    folds = make_folds(60, 0, groups=groups)
    for train, held in folds.splits:
        assert not set(groups[train]) & set(groups[held])
    X = inputs()
    assert quick(cv=None).fit(X, outputs("numbers", X), groups).n_splits_ == 5
    with pytest.raises(ValueError, match="groups has rows without a label"):
        quick(cv=None).fit(X, outputs("numbers", X), [None, *map(str, groups[1:])])


def test_classes_may_be_stratified():
    X = inputs()
    Y = outputs("classes", X)
    folds = make_folds(60, 0, cv=StratifiedKFold(3), y=Y)
    for _, held in folds.splits:
        assert abs(np.sum(Y[held] == "b") - np.sum(Y == "b") / 3) < 1
    assert quick("classes", cv=StratifiedKFold(3)).fit(X, Y).n_splits_ == 3


def test_nothing_is_left_of_an_earlier_fit():
    X = inputs()
    names = list("abcd")
    model = quick(outer_cv=2).fit(extra("pandas").DataFrame(X, columns=names), X > 0)
    assert list(model.feature_names_in_) == names
    again = model.set_params(outer_cv=None).fit(X, outputs("numbers", X))
    fresh = quick().fit(X, outputs("numbers", X))
    assert set(vars(again)) == set(vars(fresh))
    assert again.n_features_in_ == 4
    np.testing.assert_array_equal(again.predict(X), fresh.predict(X))


# Reports -----------------------------------------------------------------------------------------


def test_report():
    pd = extra("pandas")
    X = inputs()
    model = quick(budget="4 fits").fit(X, outputs("label_sets", X))
    assert model.summary().startswith("F1 0.")
    assert "; the most frequent set 0." in model.summary()
    assert "a forest 0." in model.summary()
    table = pd.DataFrame(model.results_)
    assert {"score", "standard_error", "seconds", "rows", "stage", "map"} <= set(table)
    assert table["score"].is_monotonic_decreasing
    plt = extra("matplotlib.pyplot")
    assert model.plot().get_ylabel() == "F1"
    plt.close("all")


def test_a_scorer_that_does_not_take_the_classes_is_refused_before_the_search():
    X = inputs()
    Y = np.where(X[:, 0] > 0, "yes", "no")
    with pytest.raises(ValueError, match="scoring='mae' does not take these classes"):
        Tuned("classes", "mae", budget="1 fits").fit(X, Y)
    with pytest.raises(ValueError, match="Did you mean 'log_loss'"):
        Tuned("classes", "log loss", budget="1 fits").fit(X, Y)


def test_parameters_and_errors():
    model = Tuned("numbers", budget="2 fits")
    assert clone(model).get_params() == model.get_params()
    assert Budget.of(5).seconds == 5.0
    assert Budget.of("40 fits").fits == 40.0
    X = inputs()
    for params, message in (
        ({"budget": "soon"}, 'such as "40 fits"'),
        ({"budget": -1}, "budget must be"),
        ({"kind": "label_set_"}, "Unknown kind"),
        ({"scoring": "f2"}, "Unknown scoring 'f2'. Usual are accuracy"),
        ({"kind": 3}, "kind must be a name. Got 3"),
        ({"scoring": 3}, "scoring must be None, the name of a metric, a scorer"),
        ({"scoring": lambda true, pred: np.nan}, "No trial succeeded: no finite predictions"),
        ({"cv": [([0, 1], [99])]}, "cv must give rows of X, 0 to 59. Got row 99"),
        ({"maps": "boosting"}, "maps must be a list of maps, at least one"),
        ({"maps": ["bosting"]}, "Unknown map 'bosting'. Did you mean 'boosting'?"),
        ({"maps": [Map, 3]}, "maps must be names, or subclasses of Map. Got 3"),
        ({"cv": StratifiedKFold(2)}, "cv: Supported target types"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            Tuned(**{"budget": "2 fits", **params}).fit(X, outputs("numbers", X))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        quick().fit(X, outputs("numbers", inputs()))
    with pytest.raises(ValueError, match="equal length"):
        quick().fit(inputs(), outputs("numbers", inputs())[:-1])
    with pytest.raises(ValueError, match="at least 10 rows"):
        quick().fit(inputs(6), outputs("numbers", inputs(6)))


def test_own_metric_chooses():
    X = inputs()
    Y = outputs("label_sets", X)
    plain = lambda true, pred: float(np.mean(true == pred))  # noqa: E731
    for scoring in ("subset_accuracy", plain, partial(plain)):
        model = quick(scoring=scoring, budget="2 fits").fit(X, Y)
        assert 0.0 < model.score(X, Y) <= 1.0


# Odd data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["label_sets", "rankings", "numbers"])
def test_twenty_rows_and_constant_columns(kind):
    X = np.column_stack([inputs(20, 2), np.full(20, 7.0), np.zeros(20)])
    Y = outputs(kind, X)
    model = Tuned(kind, budget="3 fits", random_state=0).fit(X, Y)
    assert np.shape(model.predict(X)) == np.shape(Y)


def test_one_label_set_only():
    X = inputs(20)
    Y = np.tile([1, 0, 1], (20, 1))
    np.testing.assert_array_equal(quick("label_sets").fit(X, Y).predict(X), Y)
    one = quick("numbers").fit(X, np.full((20, 2), 3.0))
    np.testing.assert_allclose(one.predict(X), 3.0)


def test_no_labels_at_all():
    X = inputs(20)
    Y = np.zeros((20, 3), dtype=int)
    np.testing.assert_array_equal(quick("label_sets").fit(X, Y).predict(X), Y)


def test_a_thousand_labels():
    rng = np.random.default_rng(0)
    X = inputs(40)
    Y = (rng.random((40, 1000)) < 0.01).astype(np.int8)
    found = quick("label_sets", "2 fits").fit(X, sparse.csr_matrix(Y)).predict(X)
    assert sparse.issparse(found)
    assert found.shape == (40, 1000)


def test_plan_of_large_data_keeps_to_the_budget():
    """Of 40,000 rows, and of 1,000 labels, what is planned costs less than the budget."""
    for n, d, p, n_decoders in ((40_000, 9, 10, 1), (12_920, 500, 1966, 16), (100_000, 20, 4, 1)):
        folds = make_folds(n, 0, width=p)
        assert len(folds.splits) == 1
        budget = Budget(seconds=60.0)
        search = ModelSearch(
            Sample(np.empty((n, 1)), np.empty((n, 0)), folds, 0),
            Profile(folds.n_train, d, d, p),
            Merit(lambda F: F, np.zeros((folds.n_held, p)), folds),
            ["candidates"] * n_decoders,
            budget,
            list(MAPS.values()),
        )
        small = [search._small(settings) for settings in search.portfolio()]
        assert sum(search._is_affordable(settings) for settings in small) >= 5
        full = [search._sized(settings) for settings in search.portfolio()]
        allowed = [settings for settings in full if search._is_affordable(settings)]
        assert allowed
        for settings in allowed:
            assert search.planned_last(settings) <= 1.3 * budget.for_last_fits


# Parts -------------------------------------------------------------------------------------------


def test_label_features_are_those_of_f1():
    rng = np.random.default_rng(0)
    Y = (rng.random((40, 12)) < 0.3).astype(int)
    Y[0] = 0
    Z = LabelFeatures().fit_transform(Y)
    np.testing.assert_allclose(Z @ Z.T, F1()(F1().encode(Y)), atol=0.02)
    np.testing.assert_allclose(np.diag(Z @ Z.T), 1.0)
    np.testing.assert_allclose(LabelFeatures().fit(Y).marginals(Z), Y, atol=0.05)
    assert LabelFeatures(max_columns=12).fit(Y).rank_ == 13


def test_f1_decoder_finds_the_best_set():
    rng = np.random.default_rng(0)
    Y = (rng.random((30, 5)) < 0.4).astype(int)
    basis = LabelFeatures().fit(Y)
    weights = rng.dirichlet(np.ones(30), 4)
    F = weights @ basis.transform(Y)
    found = SetDecoder("f1").fit(basis, Y).decode(F)
    every = np.array([[int(c) for c in f"{i:05b}"] for i in range(32)])
    every = every[every.sum(axis=1) <= Y.sum(axis=1).max()]
    expected = weights @ F1()(F1().encode(Y), F1().encode(every))
    mine = [
        expected[i, np.flatnonzero((every == row).all(axis=1))[0]] for i, row in enumerate(found)
    ]
    np.testing.assert_allclose(mine, expected.max(axis=1), atol=0.01)


def test_judges_agree_with_the_metrics():
    X = inputs()
    for kind, metric in (("label_sets", example_f1), ("rankings", kendall_tau)):
        Y = outputs(kind, X)
        one = KINDS[kind]
        basis = one.basis(Y, 0)
        T = basis.fit_transform(Y)
        folds = make_folds(N, 0, cv=2)
        rng = np.random.default_rng(0)
        F = (T[folds.held] + 0.5 * rng.standard_normal((N, T.shape[1]))).astype(np.float32)
        table = OutputScoring(one).on_folds(basis, Y, folds)(F)
        for decoder, row in zip(one.decoders(Y).values(), table, strict=True):
            for part, (rows, split) in enumerate(folds.parts):
                decoder.fit(basis, Y[folds.splits[split][0]])
                expected = metric(Y[folds.held][rows], decoder.decode(F[rows].astype(float)))
                assert row[part] == pytest.approx(expected, abs=1e-6)


def test_leaf_forest_is_the_forest_where_outputs_are_few():
    X, rng = inputs(80), np.random.default_rng(0)
    T = np.tanh(X @ rng.standard_normal((4, 30)))
    forest = ExtraTreesRegressor(20, random_state=0)
    plain = LeafForest(forest, 30).fit(X, T)
    np.testing.assert_array_equal(plain.predict(X), clone(forest).fit(X, T).predict(X))
    mixed = LeafForest(forest, 5, random_state=0).fit(X, T)
    np.testing.assert_allclose(mixed.predict(X), T, atol=1e-5)  # leaves of one row
    held = inputs(200, seed=3)
    truth = np.tanh(held @ np.random.default_rng(0).standard_normal((4, 30)))
    errors = [np.mean((one.predict(held) - truth) ** 2) for one in (plain, mixed)]
    assert errors[1] < 1.3 * errors[0]


def test_threads_of_a_forest_change_no_bit():
    X, held = inputs(80), inputs(6000, seed=3)
    T = np.tanh(X @ np.random.default_rng(0).standard_normal((4, 3)))
    found = [
        LeafForest(ExtraTreesRegressor(50, random_state=0, n_jobs=n)).fit(X, T).predict(held)
        for n in (1, 4, 4, 4)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_principal_outputs_and_boosted_trees(tmp_path):
    X = inputs(80)
    T = np.column_stack([X[:, 0], 2.0 * X[:, 0], -X[:, 0]])
    boosted = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=2)
    one = PrincipalOutputs(boosted, 1).fit(X, T)
    np.testing.assert_allclose(one.predict(X)[:, 1], 2.0 * one.predict(X)[:, 0], atol=1e-9)
    skout.save(one, tmp_path / "trees.skout")
    np.testing.assert_array_equal(skout.load(tmp_path / "trees.skout").predict(X), one.predict(X))


def test_averages_have_weights_for_each_output():
    X = inputs(20)
    T = np.column_stack([X[:, 0], X[:, 1]])
    ridge = skout.KernelRidge("linear", alpha=1e-8)
    members = [ridge, Centered(clone(ridge).set_params(alpha=1e8))]
    F = Averaged(members, [[1.0, 0.0], [0.0, 1.0]]).fit(X, T).predict(X)
    np.testing.assert_allclose(F[:, 0], T[:, 0], atol=1e-5)
    np.testing.assert_allclose(F[:, 1], T[:, 1].mean(), atol=1e-5)


def test_logistic_is_that_of_scikit_learn():
    X, rng = inputs(200), np.random.default_rng(0)
    said = X @ rng.standard_normal((4, 3)) + rng.standard_normal((200, 3)) > 0
    T = np.hstack([np.where(said, 1.0, -1.0), 3.0 * said])
    for C in (0.1, 10.0):
        F = LogisticOutputs(C).fit(X, T).predict(X)
        for j in range(3):
            one = LogisticRegression(C=C, tol=1e-8).fit(X, said[:, j])
            share = one.predict_proba(X)[:, 1]
            np.testing.assert_allclose(F[:, j], 2.0 * share - 1.0, atol=2e-3)
            np.testing.assert_allclose(F[:, 3 + j], 3.0 * share, atol=3e-3)


def test_pair_orders_decode_to_rankings():
    Y = outputs("rankings", inputs())
    basis = PairOrders().fit(Y)
    Z = basis.transform(Y)
    np.testing.assert_allclose(Z @ Z.T, Kendall()(Kendall().encode(Y)), atol=1e-12)
    np.testing.assert_array_equal(RankingDecoder().fit(basis, Y).decode(Z), Y)


def test_learned_ridge_is_built_as_it_was_tried_and_is_saved(tmp_path):
    X = inputs(40)
    T = np.sin(X[:, :2])
    settings = MAPS["learned metric ridge"](kernel="gaussian", landmarks=20)
    folds = make_folds(40, 0, cv=2)
    for cell, F in settings.predictions(Sample(X, T, folds, 0)):
        if (cell.alpha, cell.center) == (1e-3, True):
            train, held = folds.splits[0]
            model = cell.estimator(cell.build(0)).fit(X[train], T[train])
            np.testing.assert_allclose(F[folds.spans[0]], model.predict(X[held]), atol=1e-4)
            skout.save(model, tmp_path / "model.skout")
            again = skout.load(tmp_path / "model.skout")
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            return
    raise AssertionError("no such alpha")


@pytest.mark.parametrize("method", ["standard", "quantile", "unit", "tfidf", "none", "dense"])
def test_scaling(method):
    X = np.column_stack([np.arange(50.0), np.ones(50), 1e6 * np.arange(50.0) ** 3])
    Z = ColumnScaler(method).fit_transform(X)
    assert np.all(np.isfinite(Z))
    if method == "standard":
        np.testing.assert_allclose(Z[:, [0, 2]].std(axis=0), 1.0)
        np.testing.assert_array_equal(Z[:, 1], 0.0)
    if method == "quantile":  # the order is all that counts
        np.testing.assert_allclose(Z[:, 0], Z[:, 2], atol=1e-9)
        assert Z[:, 0].std() == pytest.approx(1.0, abs=0.1)
        np.testing.assert_allclose(Z[:, 1], Z[0, 1])
    if method in ("unit", "tfidf"):
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0)
        other = ColumnScaler(method).fit_transform(sparse.csr_matrix(X))
        np.testing.assert_allclose(other.toarray(), Z)
