"""`skout.Tuned` and its outputs: shares in folds, class weights, metrics, probabilities, labels."""

import sys

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import metrics
from sklearn.datasets import load_iris
from sklearn.metrics import get_scorer

import skout
from skout import Tuned
from skout.apps.tuning import ProbabilityCalibration
from skout.apps.tuning.calibration import expected_calibration_error
from skout.apps.tuning.folds import make_folds
from skout.apps.tuning.report import page
from skout.apps.tuning.scoring import OutputScoring, quick_scores
from skout.dev import deal
from skout.kinds import KINDS, ClassCodes

pytestmark = pytest.mark.usefixtures("few_trees")


def quick(kind=None, budget="3 fits", **params):
    return Tuned(kind, budget=budget, random_state=0, **{"cv": 2, **params})


def three_classes(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [0.0, 1.2])]


# Folds -------------------------------------------------------------------------------------------


def test_each_fold_has_its_share_of_each_class():
    y = np.repeat(np.eye(3), [61, 27, 5], axis=0)
    splits = deal(5, 93, y, random_state=0, stratified=True)
    assert_array_equal(np.sort(np.concatenate([held for _, held in splits])), np.arange(93))
    for train, held in splits:
        assert not {*train} & {*held}
        assert_array_equal(np.abs(y[held].sum(axis=0) - [12.2, 5.4, 1.0]) < 1.0, True)
        assert len(held) in (18, 19)
    again = deal(5, 93, y, random_state=0, stratified=True)
    assert_array_equal(again[0][1], splits[0][1])
    assert not np.array_equal(deal(5, 93, y, random_state=1, stratified=True)[0][1], splits[0][1])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_each_fold_has_its_share_of_each_label(make):
    rng = np.random.default_rng(0)
    shares = np.array([0.5, 0.2, 0.05, 0.02, 0.0])
    Y = (rng.random((400, 5)) < shares).astype(int)

    def spread(splits):
        held = [Y[rows].sum(axis=0) for _, rows in splits]
        return np.ptp(held, axis=0)

    dealt = deal(5, 400, make(Y), random_state=0, stratified=True)
    assert spread(dealt).max() <= 4
    assert spread(dealt)[2:4].max() <= 1  # rare labels are dealt first
    assert spread(deal(5, 400, random_state=0)).max() > 8  # chance alone
    assert np.ptp([len(held) for _, held in dealt]) <= 4


def test_more_folds_than_rows_of_a_class():
    y = np.repeat(np.eye(2), [20, 2], axis=0)
    splits = deal(10, 22, y, random_state=0, stratified=True)
    assert sum(y[held, 1].sum() for _, held in splits) == 2
    assert len(splits) == 10


@pytest.mark.parametrize("n", [100, 8000])
def test_folds_of_tuned_are_stratified(n):
    labels = (np.arange(n) % 20 == 0).astype(int)[:, None]
    folds = make_folds(n, 0, labels=labels)
    for _, held in folds.splits:
        assert labels[held].mean() == pytest.approx(0.05, abs=0.6 / len(held))


def test_rare_classes_are_in_every_fold(monkeypatch):
    X, _ = three_classes(60)
    y = np.array(["rare" if i % 12 == 0 else "often" for i in range(60)])
    seen = []
    real = skout.apps.tuning.estimator.make_folds
    monkeypatch.setattr(
        "skout.apps.tuning.estimator.make_folds",
        lambda *args, **params: seen.append(real(*args, **params)) or seen[-1],
    )
    quick("classes", "1 fit", cv=5).fit(X, y)
    assert [np.sum(y[held] == "rare") for _, held in seen[0].splits] == [1] * 5


# Class weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("class_weight", ["balanced", {"often": 1.0, "rare": 8.0}])
def test_class_weights_are_row_weights(class_weight):
    X, _ = three_classes(72)
    y = np.array(["rare" if i % 9 == 0 else "often" for i in range(72)])
    weights = np.where(y == "rare", 8.0, 1.0)
    own = quick("classes", class_weight=class_weight).fit(X, y)
    same = quick("classes").fit(X, y, sample_weight=weights)
    assert own.score_ == pytest.approx(same.score_, abs=1e-9)
    assert_allclose(own.predict_proba(X), same.predict_proba(X), atol=1e-6)
    assert own.baselines_["constant"] == pytest.approx(0.5)  # balanced accuracy
    both = quick("classes", class_weight=class_weight).fit(X, y, sample_weight=1.0 + weights)
    assert not np.allclose(both.predict_proba(X), own.predict_proba(X))


def test_class_weights_are_checked():
    X, y = three_classes()
    with pytest.raises(ValueError, match=r"class_weight is for classes. Got 'balanced' for kind="):
        quick("numbers", class_weight="balanced").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="class_weight must be positive"):
        quick("classes", class_weight={"a": -1.0}).fit(X, y)


# Metrics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["balanced_accuracy", "f1_macro", "f1_micro", "neg_log_loss", "roc_auc"]
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_quick_metrics_are_those_of_scikit_learn(name, n_classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 120)
    basis = ClassCodes().fit(y)
    folds = make_folds(120, 0, cv=[(np.arange(60), np.arange(60, 120))])
    F = rng.random((60, n_classes)) + basis.transform(y[folds.held])
    scoring = OutputScoring(KINDS["classes"], name)
    table = scoring.on_folds(basis, y, folds)(F)
    assert table.shape == (1, folds.n_parts)
    pred = basis.probabilities(F)
    if name == "neg_log_loss":
        codes = basis.transform(y[folds.held])
        how = ProbabilityCalibration.fitted(pred, codes, are_sets=False, quick=True)
        pred = how.apply(pred)
    if not scoring.takes_probabilities:
        pred = basis.decoded(F)
    metric = scoring.metric(basis)
    for (rows, _), score in zip(folds.parts, table[0], strict=True):
        assert score == pytest.approx(metric(y[folds.held][rows], pred[rows]), abs=1e-6)
    truth, function = y[folds.held], get_scorer(name)._score_func
    params = {"average": name[3:]} if name.startswith("f1") else {}
    if name == "roc_auc":
        pred, params = (pred[:, 1], {}) if n_classes == 2 else (pred, {"multi_class": "ovr"})
    expected = function(truth, pred, **params) * (-1 if name.startswith("neg") else 1)
    own = scoring.metric(basis)(truth, basis.probabilities(F) if name == "roc_auc" else pred)
    assert own == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scoring", "words", "sign"),
    [
        ("log_loss", "log loss 0.", -1),
        ("auc", "AUC 0.", 1),
        ("balanced_accuracy", "balanced accuracy 0.", 1),
        ("f1", "macro F1 0.", 1),
        (metrics.make_scorer(metrics.cohen_kappa_score), "cohen kappa score 0.", 1),
    ],
)
def test_classes_are_chosen_by_the_metric_that_is_wanted(scoring, words, sign):
    X, y = three_classes()
    model = quick("classes", "2 fits", scoring=scoring).fit(X[:70], y[:70])
    assert model.summary().startswith(words)
    assert np.sign(model.score_) == sign
    assert model.score_ > model.baselines_["constant"]
    assert {row["metric"] for row in model.results_} == {model._kind}
    assert np.sign(model.score(X[70:], y[70:])) == sign


@pytest.mark.parametrize(("scoring", "words"), [("mae", "MAE 0."), ("rmse", "RMSE 0.")])
def test_numbers_are_chosen_by_the_metric_that_is_wanted(scoring, words):
    X, _ = three_classes()
    y = X[:, 0] + 0.1 * X[:, 1]
    model = quick("numbers", "2 fits", scoring=scoring).fit(X[:70], y[:70])
    assert model.summary().startswith(words)
    function = {
        "mae": metrics.mean_absolute_error,
        "rmse": metrics.root_mean_squared_error,
    }[scoring]
    assert model.score(X[70:], y[70:]) == pytest.approx(-function(y[70:], model.predict(X[70:])))


@pytest.mark.parametrize(("scoring", "average"), [("f1_macro", "macro"), ("f1_micro", "micro")])
def test_label_sets_are_chosen_by_the_metric_that_is_wanted(scoring, average):
    X, _ = three_classes()
    Y = (X > 0.3).astype(int)
    model = quick("label_sets", "2 fits", scoring=scoring).fit(X[:70], Y[:70])
    expected = metrics.f1_score(Y[70:], model.predict(X[70:]), average=average)
    assert model.score(X[70:], Y[70:]) == pytest.approx(expected)
    table = OutputScoring(KINDS["label_sets"], scoring)
    folds = make_folds(90, 0, cv=[(np.arange(60), np.arange(60, 90))])
    basis = KINDS["label_sets"].basis(Y, 0).fit(Y)
    scores = table.on_folds(basis, Y, folds)(basis.transform(Y[folds.held]))
    assert scores.max() == 1.0


def test_metrics_that_cannot_be_are_refused():
    X, y = three_classes()
    with pytest.raises(ValueError, match=r"scoring='auc' needs probabilities, which numbers do"):
        quick("numbers", scoring="auc").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="scoring"):
        quick("classes", scoring="no such metric").fit(X, y)


def test_auc_of_a_part_with_one_class_is_that_of_all():
    y = np.array([0] * 50 + [1] * 10)
    basis = ClassCodes().fit(y)
    folds = make_folds(60, 0, cv=[(np.arange(0, 60, 2), np.arange(1, 60, 2))])
    F = basis.transform(y[folds.held]) + np.random.default_rng(0).random((30, 2))
    scores = OutputScoring(KINDS["classes"], "roc_auc").on_folds(basis, y, folds)(F)
    assert np.isfinite(scores).all()
    assert quick_scores(lambda *_: np.nan, basis, y[folds.held], folds)(F).shape == scores.shape


# Probabilities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.4, 2.5])
def test_calibration_of_classes_finds_the_temperature(power):
    rng = np.random.default_rng(0)
    true = rng.dirichlet([1.0, 1.0, 1.0], 6000)
    y = (rng.random(6000)[:, None] < true.cumsum(axis=1)).argmax(axis=1)
    wrong = true ** (1.0 / power)
    wrong /= wrong.sum(axis=1, keepdims=True)
    codes = np.eye(3)[y]
    how = ProbabilityCalibration.fitted(wrong[:3000], codes[:3000], are_sets=False)
    right = how.apply(wrong[3000:])
    assert_allclose(right.sum(axis=1), 1.0)
    assert_array_equal(right.argmax(axis=1), wrong[3000:].argmax(axis=1))
    assert np.abs(right - true[3000:]).mean() < 0.02

    def error(p):
        return expected_calibration_error(p.max(axis=1), p.argmax(axis=1) == y[3000:])

    assert error(right) < 0.03 < error(wrong[3000:])


def test_calibration_of_labels_finds_scale_and_shift():
    rng = np.random.default_rng(0)
    true = rng.beta(0.5, 2.0, (3000, 4))
    Y = rng.random(true.shape) < true
    odds = np.log(true / (1.0 - true))
    wrong = 1.0 / (1.0 + np.exp(-(2.0 * odds + 1.0)))
    how = ProbabilityCalibration.fitted(wrong[:1500], Y[:1500], are_sets=True)
    right = how.apply(wrong[1500:])
    assert expected_calibration_error(right, Y[1500:]) < 0.015
    assert expected_calibration_error(wrong[1500:], Y[1500:]) > 0.05
    assert how.power == pytest.approx(0.5, abs=0.1)


def test_expected_calibration_error_by_hand():
    p, y = np.repeat([0.2, 0.8], 50), np.repeat([0, 1], 50)
    assert expected_calibration_error(p, y) == pytest.approx(0.2)
    weights = np.repeat([3.0, 1.0], 50)
    assert expected_calibration_error(p, y, weights) == pytest.approx(0.2)
    Y = np.stack([y, 1 - y], axis=1)
    assert expected_calibration_error(np.full(Y.shape, 0.5), Y) < 0.51


def test_probabilities_come_true(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    true = 1.0 / (1.0 + np.exp(-1.5 * X[:, 0]))
    y = np.where(rng.random(1200) < true, "yes", "no")
    model = quick("classes", "3 fits").fit(X[:500], y[:500])
    P = model.predict_proba(X[500:])
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[500:]))
    error = expected_calibration_error(P.max(axis=1), model.predict(X[500:]) == y[500:])
    assert error < 0.06
    assert model.calibration_error_ < 0.1
    assert P.min() > 0.0  # no row is certain
    skout.save(model, tmp_path / "model.skout")
    assert_array_equal(skout.load(tmp_path / "model.skout").predict_proba(X[500:]), P)


# Outputs as people have them ---------------------------------------------------------------------


def flavors(n=60):
    X = np.column_stack([np.arange(n) % 7, np.arange(n) % 3]).astype(float)
    return X, ["p;q" if a > 3 else "q" if a > 1 else "r" for a in X[:, 0]]


def test_iris_as_everybody_types_it():
    with pytest.warns(UserWarning, match="Y is taken for classes"):
        model = quick(budget="2 fits").fit(*load_iris(return_X_y=True))
    assert model.kind_ == "classes"
    assert model.score_ > 0.9


@pytest.mark.parametrize("form", ["texts", "lists", "series of lists", "array of texts"])
def test_label_sets_of_names_are_predicted_as_they_were(form, tmp_path):
    X, texts = flavors()
    Y = {
        "texts": lambda: texts,
        "array of texts": lambda: np.array(texts),
        "lists": lambda: [text.split(";") for text in texts],
        "series of lists": lambda: extra("pandas").Series([t.split(";") for t in texts]),
    }[form]()
    model = quick().fit(X, Y)
    assert model.kind_ == "label_sets"
    assert model.labels_ == ["p", "q", "r"]
    assert model.score(X, Y) == pytest.approx(1.0)
    assert list(model.predict(X)) == list(Y)
    assert model.predict_proba(X).shape == (60, 3)
    skout.save(model, tmp_path / "model.skout")
    assert list(skout.load(tmp_path / "model.skout").predict(X)) == list(Y)
    other = [*Y[:-1], "new" if isinstance(Y[0], str) else ["new"]]
    assert model.score(X, other) == pytest.approx(59 / 60)


def test_names_of_people_are_no_sets():
    X, _ = flavors()
    artists = np.array(["Auerbach, Frank", "Turner, William", "Moore, Henry"])[np.arange(60) % 3]
    with pytest.warns(UserWarning, match="Y is taken for classes"):
        assert quick(budget="1 fit").fit(X, artists).kind_ == "classes"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_target_is_no_input(library):
    X, texts = flavors()
    frame = extra(library).DataFrame({"a": X[:, 0], "b": X[:, 1], "flavor": texts})
    with pytest.warns(UserWarning, match="X has the target 'flavor' among its columns"):
        model = quick().fit(frame, frame["flavor"])
    assert list(model.feature_names_in_) == ["a", "b"]
    assert list(model.predict(frame)) == texts
    assert model.score(frame, frame["flavor"]) == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["column", "frame", "list"])
def test_one_target_has_one_dimension(form):
    X, _ = three_classes()
    y = X[:, 0] + 0.1
    Y = {
        "column": lambda: y[:, None],
        "frame": lambda: extra("pandas").DataFrame({"y": y}),
        "list": lambda: [[v] for v in y],
    }[form]()
    model = quick("numbers", "1 fit").fit(X, Y)
    assert model.predict(X).shape == (90,)
    assert model.score(X, Y) == pytest.approx(model.score(X, y))


# Telling -----------------------------------------------------------------------------------------


def test_callback_tells_what_is_tried_and_the_best_so_far():
    X, y = three_classes()
    told = []
    model = quick("classes").fit(X, y, callback=told.append)
    assert [one.trial for one in told] == [1, 1, 2, 2, 3, 3]
    assert [one.score is None for one in told] == [True, False] * 3
    scores = [one.score for one in told if one.score is not None]
    assert told[-1].best == max(scores) == model.results_[0]["score"]
    assert told[0].metric == "accuracy"
    assert str(told[-1]) == f"trial 3: {told[-1].map}, best accuracy so far {max(scores):.4g}"
    assert told[0].settings["scaling"] == "standard"
    assert np.isinf(told[0].budget)


def test_verbose_shows_a_bar(capsys):
    X, y = three_classes()
    quick("classes", "2 fits", verbose=True).fit(X, y)
    assert "best accuracy so far" in capsys.readouterr().err


def test_notebooks_do_not_warn():
    """tqdm.auto warns where a notebook has no widgets: nothing imports it."""
    import subprocess

    code = (
        "import sys, numpy as np; from skout import Tuned; X = np.eye(12);"
        "Tuned('numbers', budget='2 fits', random_state=0).fit(X, X[:, 0]);"
        "sys.exit('tqdm.auto' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_page_in_a_notebook_is_escaped():
    X, y = three_classes()
    model = quick("classes")
    assert "<svg" not in model._repr_html_()  # not fitted
    model.fit(X, y)
    text = model._repr_html_()
    assert text.count("<tr>") == 4
    assert "<svg" in text
    assert model.summary().split(";")[0] in text
    assert "matplotlib" not in text
    model.results_[0]["map"] = "<script>"
    assert "<script>" not in page(model)
    assert "&lt;script&gt;" in page(model)
