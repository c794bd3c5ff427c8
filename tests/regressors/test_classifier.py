"""KernelClassifier against scikit-learn's SVC, LinearSVC and LogisticRegression, and itself."""

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags

from skout import KernelClassifier
from skout.kernels import Gaussian, Linear
from skout.losses import Hinge, Logistic, SquaredHinge
from skout.sketches import PSparsified, SubSample

pd = extra("pandas")

LOSSES = ["hinge", "squared_hinge", "logistic"]


def binary(n=60):
    X, y = make_moons(n + 40, noise=0.3, random_state=0)
    return X[:n], y[:n], X[n:], y[n:]


def flowers():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    return X[order[:60]], y[order[:60]], X[order[60:]], y[order[60:]]


def classifier(loss="hinge", sketch=None, alpha=1e-2, **params):
    settings = {"tol": 1e-8, "random_state": 0, **params}
    return KernelClassifier(Gaussian(1.0), sketch, loss=loss, alpha=alpha, **settings)


def allowed(model):
    """How far decisions may be from the optimal ones: alpha/2 ||f - f*||^2 <= gap, k(x, x) = 1."""
    return np.sqrt(2 * model.tol * model.objective_ / model.alpha_) + 1e-5


# Against scikit-learn ----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-1, 1e-2, 1e-4])
def test_hinge_is_the_support_vector_machine(alpha, weighted):
    X, y, X_te, _ = binary()
    w = np.arange(60.0) % 3 + 0.5 if weighted else np.ones(60)
    ours = classifier(alpha=alpha).fit(X, y, w if weighted else None)
    svc = SVC(kernel="rbf", gamma=1.0, C=1 / (60 * alpha), tol=1e-9).fit(X, y, w * 60 / w.sum())
    f, expected = ours.decision_function(X_te), svc.decision_function(X_te)
    assert_allclose(f, expected, atol=10 * allowed(ours))
    clear = np.abs(expected) > 0.01
    assert clear.sum() > 30
    assert_array_equal(ours.predict(X_te)[clear], svc.predict(X_te)[clear])
    # the objective, from the coefficients of the dual: ours is no higher
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    dual = np.zeros(60)
    dual[svc.support_] = svc.dual_coef_[0]
    loss = np.maximum(1 - np.where(y == 1, 1, -1) * svc.decision_function(X), 0)
    theirs = np.average(loss, weights=w) + alpha / 2 * dual @ K @ dual
    assert theirs * (1 - 1e-5) < ours.objective_ <= theirs * (1 + 1e-8)


@pytest.mark.parametrize("sketch", [SubSample(20), PSparsified(20)], ids=str)
def test_sketched_hinge_is_the_support_vector_machine_of_coordinates(sketch):
    X, y, X_te, _ = binary()
    ours = classifier(sketch=sketch, alpha=1e-3).fit(X, y)
    Z, Z_te = ours.basis_.transform(X), ours.basis_.transform(X_te)
    svc = SVC(kernel="linear", C=1 / (60 * 1e-3), tol=1e-9).fit(Z, y)
    expected = svc.decision_function(Z_te)
    assert_allclose(ours.decision_function(X_te), expected, atol=10 * allowed(ours))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [1e-1, 1e-4])
def test_logistic_is_logistic_regression_on_coordinates(alpha, fit_intercept):
    X, y, X_te, _ = binary()
    ours = classifier("logistic", SubSample(20), alpha, fit_intercept=fit_intercept, tol=1e-12)
    ours.fit(X, y)
    theirs = LogisticRegression(
        C=1 / (60 * alpha), fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000
    ).fit(ours.basis_.transform(X), y)
    Z_te = ours.basis_.transform(X_te)
    assert_allclose(ours.coef_[:, 0], theirs.coef_[0], rtol=1e-3, atol=1e-3)
    assert_allclose(ours.decision_function(X_te), theirs.decision_function(Z_te), atol=1e-3)
    assert_allclose(ours.predict_proba(X_te), theirs.predict_proba(Z_te), atol=1e-3)
    assert_array_equal(ours.predict(X_te), theirs.predict(Z_te))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("alpha", [1e-1, 1e-3])
def test_without_intercept_it_is_linear_svc_on_coordinates(loss, alpha):
    X, y, X_te, _ = binary()
    ours = classifier(loss, SubSample(20), alpha, fit_intercept=False).fit(X, y)
    Z, Z_te = ours.basis_.transform(X), ours.basis_.transform(X_te)
    params = {"C": 1 / (60 * alpha), "fit_intercept": False, "tol": 1e-10, "max_iter": 1_000_000}
    theirs = LinearSVC(loss=loss, dual=loss == "hinge", **params).fit(Z, y)
    assert_allclose(
        ours.decision_function(X_te), theirs.decision_function(Z_te), atol=10 * allowed(ours)
    )


# Several classes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(20)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_classes_are_learned_one_against_the_rest(loss, sketch):
    X, y, X_te, y_te = flowers()
    model = classifier(loss, sketch).fit(X, y)
    F = model.decision_function(X_te)
    assert F.shape == (90, 3)
    objective = 0.0
    for k in range(3):
        alone = classifier(loss, sketch).fit(X, y == k)
        assert_array_equal(alone.classes_, [False, True])
        objective += alone.objective_
        assert_allclose(F[:, k], alone.decision_function(X_te), atol=5 * allowed(model))
    assert_allclose(model.objective_, objective, rtol=1e-7)
    assert_array_equal(model.predict(X_te), F.argmax(axis=1))
    assert model.score(X_te, y_te) > 0.85


def test_labels_of_any_kind():
    X, y, X_te, _ = flowers()
    expected = classifier(tol=1e-4).fit(X, y)
    names = np.array(["setosa", "versicolor", "virginica"])
    for labels in (names, names.astype(object), np.array([-7, 0, 40]), np.array([1.0, 2.0, 3.0])):
        model = classifier(tol=1e-4).fit(X, labels[y])
        assert_array_equal(model.classes_, labels)
        assert_array_equal(model.predict(X_te), labels[expected.predict(X_te)])
        assert_array_equal(model.decision_function(X_te), expected.decision_function(X_te))
    as_list = classifier(tol=1e-4).fit(X.tolist(), names[y].tolist())
    assert_array_equal(as_list.predict(X_te), names[expected.predict(X_te)])


def test_the_second_of_two_labels_is_positive():
    X, y, X_te, _ = binary()
    f = classifier(tol=1e-4).fit(X, y).decision_function(X_te)
    assert f.shape == (40,)
    model = classifier(tol=1e-4).fit(X, np.where(y == 1, "no", "yes"))
    assert_array_equal(model.classes_, ["no", "yes"])
    assert_allclose(model.decision_function(X_te), -f, atol=1e-8)
    assert_array_equal(model.predict(X_te), np.where(f > 0, "no", "yes"))


def test_truth_values_as_labels():
    X, y, X_te, _ = binary()
    model = classifier(tol=1e-4).fit(X, y.astype(bool))
    assert model.predict(X_te).dtype == bool
    assert_array_equal(model.predict(X_te), model.decision_function(X_te) > 0)


# Probabilities -----------------------------------------------------------------------------------


def test_probabilities():
    X, y, X_te, _ = binary()
    model = classifier("logistic").fit(X, y)
    p = model.predict_proba(X_te)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(p[:, 1], expit(model.decision_function(X_te)))
    assert_array_equal(p.argmax(axis=1), model.predict(X_te))
    X, y, X_te, _ = flowers()
    model = classifier(Logistic()).fit(X, y)
    p, raw = model.predict_proba(X_te), expit(model.decision_function(X_te))
    assert p.shape == (90, 3)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(p, raw / raw.sum(axis=1, keepdims=True))
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X_te))


def test_probabilities_are_calibrated():
    # P(y = 1 | x) = expit(3 sin(x)): the logistic loss finds it
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (4000, 1))
    chance = expit(3 * np.sin(X[:, 0]))
    y = rng.uniform(size=4000) < chance
    model = KernelClassifier(
        Gaussian(0.5), SubSample(30), loss="logistic", alpha=1e-4, random_state=0
    )
    assert_allclose(model.fit(X, y).predict_proba(X)[:, 1], chance, atol=0.12)


def test_rows_far_from_all_classes_get_probabilities_too():
    X, y, _, _ = flowers()
    model = classifier("logistic", alpha=1e-6, tol=1e-4).fit(X, y)
    model.intercept_ = np.full(3, -1000.0)  # every one-against-rest probability underflows
    assert_allclose(model.predict_proba(X), 1 / 3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", Hinge(), SquaredHinge()], ids=str)
def test_only_the_logistic_loss_has_probabilities(loss):
    X, y, _, _ = binary()
    model = classifier(loss, tol=1e-3).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)
    assert hasattr(classifier("logistic"), "predict_proba")
    assert hasattr(classifier(Logistic()), "predict_proba")


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_class_weights_are_sample_weights(loss):
    X, y, X_te, _ = binary(120)
    kept = (y == 0) | (np.arange(120) % 4 == 0)  # classes of unequal size
    X, y = X[kept], y[kept]
    counts = np.bincount(y)
    assert counts[0] > 2 * counts[1]
    plain = classifier(loss, tol=1e-6).fit(X, y).decision_function(X_te)
    given = {
        "balanced": (len(y) / (2 * counts))[y],
        "dict": np.where(y == 1, 5.0, 1.0),
    }
    for name, weights in given.items():
        spec = "balanced" if name == "balanced" else {1: 5.0}
        model = classifier(loss, tol=1e-6, class_weight=spec).fit(X, y)
        by_hand = classifier(loss, tol=1e-6).fit(X, y, weights)
        f = model.decision_function(X_te)
        assert_allclose(f, by_hand.decision_function(X_te), rtol=1e-8, atol=1e-10)
        assert np.abs(f - plain).max() > 1e-3
    extra = np.arange(len(y)) % 3 + 1.0
    both = classifier(loss, tol=1e-6, class_weight={1: 5.0}).fit(X, y, extra)
    by_hand = classifier(loss, tol=1e-6).fit(X, y, extra * given["dict"])
    assert_allclose(both.decision_function(X_te), by_hand.decision_function(X_te), rtol=1e-8)


def test_class_weights_of_strings():
    X, y, X_te, _ = flowers()
    names = np.array(["a", "b", "c"])
    model = classifier(tol=1e-6, class_weight={"b": 3.0, "c": 0.5}).fit(X, names[y])
    by_hand = classifier(tol=1e-6).fit(X, y, np.array([1.0, 3.0, 0.5])[y])
    assert_allclose(model.decision_function(X_te), by_hand.decision_function(X_te), rtol=1e-8)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetitions(loss, class_weight):
    X, y, X_te, _ = binary()
    w = (np.arange(60) % 3) * (1 + y)
    kept = np.repeat(np.arange(60), w)
    model = classifier(loss, tol=1e-6, class_weight=class_weight)
    weighted = model.fit(X, y, w).decision_function(X_te)
    repeated = model.fit(X[kept], y[kept]).decision_function(X_te)
    assert_allclose(weighted, repeated, rtol=1e-5, atol=1e-6)
    assert np.abs(model.fit(X, y).decision_function(X_te) - weighted).max() > 1e-2


def test_a_class_without_weight_is_never_predicted():
    X, y, X_te, _ = flowers()
    model = classifier(tol=1e-4).fit(X, y, (y != 1).astype(float))
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.decision_function(X_te).shape == (90, 3)
    assert set(model.predict(X_te)) == {0, 2}


# Penalty path ------------------------------------------------------------------------------------


def test_path_equals_loops_over_folds():
    X, y, _, _ = binary()
    alphas, cv = [1e-3, 1e-5, 1.0], KFold(3, shuffle=True, random_state=0)
    model = classifier("logistic", SubSample(10), alphas, cv=cv, tol=1e-4).fit(X, y)
    Z, signs = model.basis_.transform(X), 2 * y - 1
    losses = np.empty((3, 3))
    for i, (train, test) in enumerate(cv.split(X)):
        for j, alpha in enumerate(alphas):
            fit = LogisticRegression(C=1 / (len(train) * alpha), tol=1e-8, max_iter=10_000)
            f = fit.fit(Z[train], y[train]).decision_function(Z[test])
            losses[i, j] = np.logaddexp(0.0, -signs[test] * f).mean()
    assert_allclose(model.cv_results_["fold_loss"], losses, rtol=0.05)
    assert model.alpha_ == alphas[int(losses.mean(axis=0).argmin())]


@pytest.mark.parametrize("classes", [2, 3])
def test_folds_hold_every_class_even_if_labels_come_sorted(classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    alphas = [1e-4, 1e-1]
    model = classifier(alpha=alphas, cv=3, tol=1e-3).fit(X, y)
    seed = int(np.random.default_rng(0).spawn(2)[1].integers(2**31))
    cv = StratifiedKFold(3, shuffle=True, random_state=seed)
    explicit = classifier(alpha=alphas, cv=cv, tol=1e-3).fit(X, y)
    assert_allclose(model.cv_results_["fold_loss"], explicit.cv_results_["fold_loss"])
    # a fold without a class, whose decisions are all wrong, would cost twice its share
    assert model.cv_results_["fold_loss"][:, 0].max() < 1.0


def test_grid_search():
    X, y, X_te, y_te = binary()
    start = classifier(sketch=SubSample(20), tol=1e-3)
    for name, values in {
        "alpha": [1e-3, 10.0],
        "kernel__gamma": [1e-6, 1.0],
        "loss": LOSSES,
    }.items():
        search = GridSearchCV(start, {name: values}, cv=3).fit(X, y)
        assert search.best_params_[name] in values
        if name != "loss":
            assert search.best_params_[name] == (1e-3 if name == "alpha" else 1.0)
        assert search.score(X_te, y_te) > 0.75


# Kinds of data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, PSparsified(20)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_other_kinds_of_data(loss, sketch):
    X, y, X_te, _ = binary()
    model = classifier(loss, sketch, tol=1e-4)
    f = model.fit(X, y).decision_function(X_te)
    thin = model.fit(sparse.csr_array(X), y).decision_function(sparse.csr_array(X_te))
    assert_allclose(thin, f, atol=1e-5)
    frame = pd.DataFrame(X, columns=["p", "q"])
    model.fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["p", "q"]
    found = model.decision_function(pd.DataFrame(X_te, columns=["p", "q"]))
    assert_allclose(found, f, atol=1e-8)
    single = model.fit(X.astype(np.float32), y).decision_function(X_te.astype(np.float32))
    assert (f.dtype, single.dtype) == (np.float64, np.float32)
    assert_allclose(single, f, atol=0.05)


def test_a_column_of_labels():
    X, y, X_te, _ = binary()
    expected = classifier(tol=1e-3).fit(X, y).predict(X_te)
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        found = classifier(tol=1e-3).fit(X, y[:, None]).predict(X_te)
    assert_array_equal(found, expected)


def test_objects_as_inputs():
    words = ["aa", "aab", "aaa", "abaa", "bb", "bba", "bbb", "babb"] * 3

    def letters(A, B):
        counts = [np.array([[w.count("a"), w.count("b")] for w in side]) for side in (A, B)]
        return counts[0] @ counts[1].T

    y = np.array(["a" if w.count("a") > w.count("b") else "b" for w in words])
    model = KernelClassifier(letters, alpha=1e-4).fit(words, y)
    assert_array_equal(model.predict(["aaaab", "abbbb"]), ["a", "b"])


def test_fits_repeat_and_seeds_matter():
    X, y, X_te, _ = binary()
    first, same, other = (
        classifier(sketch=SubSample(5), tol=1e-4, random_state=seed)
        .fit(X, y)
        .decision_function(X_te)
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3
    model = classifier(tol=1e-4).fit(X, y)
    before = model.decision_function(X_te)
    assert_array_equal(model.fit(X, y).decision_function(X_te), before)
    assert_array_equal(clone(model).fit(X, y).decision_function(X_te), before)


def test_tags():
    tags = get_tags(KernelClassifier())
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.sparse
    assert tags.target_tags.required


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        ("hinje", ValueError, r"Unknown loss 'hinje'. Did you mean 'hinge'"),
        (
            "huber",
            ValueError,
            r'loss must be "hinge", "squared_hinge" or "logistic". Got \'huber\' instead; for '
            "regression use KernelMachine",
        ),
        (None, TypeError, r"loss must be a name or a skout.losses object. Got None"),
    ],
    ids=str,
)
def test_bad_loss(loss, error, message):
    X, y, _, _ = binary()
    with pytest.raises(error, match=message):
        classifier(loss).fit(X, y)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(60), r"at least two classes. Got one class only: .*0"),
        (["a"] * 60, r"at least two classes. Got one class only: .*a"),
        (np.linspace(0, 1, 60), r"Unknown label type: continuous"),
        (np.tile([[0, 1]], (60, 1)), r"multilabel|1d array|shape"),
        (np.arange(59) % 2, r"same number of rows: .* 60 and 59"),
        (None, r"the target y is None"),
    ],
    ids=["zeros", "strings", "continuous", "two columns", "too few", "none"],
)
def test_bad_labels(labels, message):
    X, _, _, _ = binary()
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, labels)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_labels_that_are_not_finite(value):
    X, y, _, _ = binary()
    y = y.astype(float)
    y[3] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        classifier().fit(X, y)


def test_bad_weights():
    X, y, _, _ = binary()
    with pytest.raises(ValueError, match=r"Without the rows of weight 0, y has one class only"):
        classifier().fit(X, y, (y == 1).astype(float))
    with pytest.raises(ValueError, match=r"Without the rows of weight 0, y has one class only"):
        classifier(class_weight={0: 0.0}).fit(X, y)
    with pytest.raises(ValueError, match="Negative values"):
        classifier().fit(X, y, -np.ones(60))
    with pytest.raises(ValueError, match=r"class_weight|balanced"):
        classifier(class_weight="equal").fit(X, y)


def test_bad_data():
    X, y, X_te, _ = binary()
    with pytest.raises(ValueError, match="KernelClassifier needs at least two rows"):
        classifier().fit(X[:1], y[:1])
    with pytest.raises(NotFittedError):
        classifier().predict(X)
    with pytest.raises(NotFittedError):
        classifier("logistic").predict_proba(X)
    with pytest.raises(ValueError, match="1 features, but KernelClassifier is expecting 2"):
        classifier(tol=1e-2).fit(X, y).predict(X_te[:, :1])
    with pytest.raises(ValueError, match=r"alpha must be a finite number > 0. Got 0"):
        classifier(alpha=0).fit(X, y)


def test_a_stop_too_early_is_said():
    X, y, _, _ = binary()
    with pytest.warns(
        ConvergenceWarning, match=r"KernelClassifier stopped after 1 Newton"
    ) as record:
        classifier(max_iter=1).fit(X, y)
    assert record[0].filename == __file__


def test_separable_classes_without_much_penalty():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([0, 0, 1, 1])
    for loss in LOSSES:
        model = KernelClassifier(Linear(), loss=loss, alpha=1e-8).fit(X, y)
        assert model.score(X, y) == 1.0
    hard = KernelClassifier(Linear(), alpha=1e-8, tol=1e-8).fit(X, y)
    assert_allclose(hard.decision_function(X), X[:, 0], atol=1e-3)  # margin 1 at +-1
