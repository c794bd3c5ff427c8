"""Alpha by a score of held-out predictions: every fold and alpha against a loop of whole fits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold

from skout import InducedMachine, KernelMachine, KernelRidge
from skout.kernels import Gaussian
from skout.losses import Huber
from skout.sketches import SubSample
from skout.solvers.folds import Scorer, held_rows
from skout.solvers.ridge import gram

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 3))
X[7] = X[8]  # a copy
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * RNG.standard_normal((90, 2)) + 3.0
W = RNG.uniform(0.5, 2.0, 90)
SPLITS = list(KFold(3, shuffle=True, random_state=0).split(X))
ALPHAS = [1e-5, 1e-3, 1e-1]
MANY = list(np.logspace(-5, 0, 10))


def fold_predictions(model, X, Y, splits, held=None, **params):
    """The rows looked at and the predictions of every alpha, which a judge is shown, by split."""
    held = held_rows(splits, len(X)) if held is None else held
    found = {}

    def record(k, F):
        found[k] = F
        return [0.0] * len(F)

    clone(model).fit_scored(X, Y, Scorer(splits, held, record), **params)
    return [(held[k], found[k]) for k in range(len(splits))]


@pytest.mark.parametrize("alphas", [ALPHAS, MANY], ids=["few", "many"])
@pytest.mark.parametrize("weights", [None, W], ids=["", "weighted"])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_path_is_a_loop_of_fits(alphas, weights, intercept):
    model = KernelRidge(Gaussian(0.3), alpha=alphas, fit_intercept=intercept)
    params = {} if weights is None else {"sample_weight": weights}
    found = list(fold_predictions(model, X, Y, SPLITS, **params))
    assert len(found) == len(SPLITS)
    for (train, test), (held, F) in zip(SPLITS, found, strict=True):
        np.testing.assert_array_equal(held, test)
        own = {name: value[train] for name, value in params.items()}
        for alpha, one in zip(alphas, F, strict=True):
            alone = clone(model).set_params(alpha=alpha).fit(X[train], Y[train], **own)
            assert_allclose(one, alone.predict(X[test]), atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_sketched_path_is_ridge_in_the_coordinates(intercept):
    """F = Z_h (Z'Z + n alpha I)^-1 Z'T, with the basis of all rows."""
    model = KernelRidge(
        Gaussian(0.3), SubSample(20), alpha=ALPHAS, fit_intercept=intercept, random_state=0
    )
    Z = clone(model).set_params(alpha=1.0).fit(X, Y).basis_.transform(X)
    for (train, test), (_, F) in zip(SPLITS, fold_predictions(model, X, Y, SPLITS), strict=True):
        mean_z = Z[train].mean(axis=0) if intercept else 0.0
        mean_y = Y[train].mean(axis=0) if intercept else 0.0
        A, T = Z[train] - mean_z, Y[train] - mean_y
        for alpha, one in zip(ALPHAS, F, strict=True):
            coef = np.linalg.solve(A.T @ A + len(train) * alpha * np.eye(Z.shape[1]), A.T @ T)
            assert_allclose(one, (Z[test] - mean_z) @ coef + mean_y, atol=1e-8)


def test_more_outputs_than_rows_looked_at():
    wide = np.hstack([Y] * 20)
    held = held_rows(SPLITS, len(X), 12, random_state=0)
    model = KernelRidge(Gaussian(0.3), SubSample(20), alpha=ALPHAS, random_state=0)
    few = list(fold_predictions(model, X, wide, SPLITS, held))
    every = list(fold_predictions(model, X, Y, SPLITS))
    for (rows, F), (test, G) in zip(few, every, strict=True):
        assert len(rows) == 4
        assert_allclose(F[:, :, :2], G[:, np.searchsorted(test, rows)], atol=1e-8)


@pytest.mark.parametrize(
    ("model", "params"),
    [
        (KernelMachine(Gaussian(0.3), None, loss="huber"), {}),
        (InducedMachine(Gaussian(0.3), None, loss=Huber(0.5)), {}),
        (InducedMachine(Gaussian(0.3), None, loss=Huber(0.5)), {"residual": W}),
    ],
    ids=["machine", "induced", "residual"],
)
@pytest.mark.filterwarnings("ignore:y has the mean")
def test_machines_have_a_path(model, params):
    """Whose solutions are as near to those of whole fits as the tolerance of a path lets them."""
    alphas = [1e-2, 1e-1, 1.0]
    found = fold_predictions(clone(model).set_params(alpha=alphas), X, Y, SPLITS, **params)
    for (train, test), (held, F) in zip(SPLITS, found, strict=True):
        np.testing.assert_array_equal(held, test)
        own = {name: value[train] for name, value in params.items()}
        for alpha, one in zip(alphas, F, strict=True):
            alone = clone(model).set_params(alpha=alpha).fit(X[train], Y[train], **own)
            assert_allclose(one, alone.predict(X[test]), atol=0.1)


@pytest.mark.parametrize("sketch", [None, SubSample(20)], ids=["exact", "sketched"])
def test_the_judge_decides(sketch):
    """The model is that of the alpha with the greatest mean; of equals, the most penalised."""
    model = KernelRidge(Gaussian(0.3), sketch, alpha=ALPHAS, random_state=0)
    held = held_rows(SPLITS, len(X))
    for likes, expected in ([0, 1, 0], 1e-3), ([1, 0, 1], 1e-1), ([1, 0, 0.5], 1e-5):
        judge = Scorer(SPLITS, held, lambda k, F, likes=likes: likes)
        chosen = clone(model).fit_scored(X, Y, judge)
        assert chosen.alpha_ == expected
        alone = clone(model).set_params(alpha=expected).fit(X, Y)
        assert_allclose(chosen.predict(X), alone.predict(X), atol=1e-8)
        assert chosen.cv_results_["mean_score"].tolist() == likes
        assert not chosen.cv_results_["std_error"].any()


def test_rows_looked_at():
    held = held_rows(SPLITS, 90, 30, random_state=0)
    again = held_rows(SPLITS, 90, 30, random_state=0)
    for (_, test), rows, same in zip(SPLITS, held, again, strict=True):
        assert len(rows) == 10
        assert set(rows) <= set(test)
        assert np.all(np.diff(rows) > 0)
        np.testing.assert_array_equal(rows, same)
    other = held_rows(SPLITS, 90, 30, random_state=1)
    assert any(not np.array_equal(a, b) for a, b in zip(held, other, strict=True))
    weights = (np.arange(90) % 2).astype(float)
    assert all(rows.size and np.all(rows % 2) for rows in held_rows(SPLITS, 90, weights=weights))


# Groups and splitters -----------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [None, SubSample(20)], ids=["exact", "sketched"])
@pytest.mark.parametrize("cv", [4, GroupKFold(4)], ids=["number", "splitter"])
def test_groups_stay_together(sketch, cv):
    groups = np.array([f"g{i}" for i in RNG.integers(0, 12, 90)])
    model = KernelRidge(Gaussian(0.3), sketch, alpha=ALPHAS, cv=cv, random_state=0)
    splits = model.choice_splits(90, groups=groups)
    assert len(splits) == 4
    for train, test in splits:
        assert not set(groups[train]) & set(groups[test])
    # the same choice as with these splits
    chosen = clone(model).fit(X, Y, groups=groups)
    by_hand = clone(model).set_params(cv=splits).fit(X, Y)
    assert_allclose(chosen.cv_results_["fold_loss"], by_hand.cv_results_["fold_loss"])
    without = clone(model).set_params(cv=4).fit(X, Y)
    assert not np.allclose(without.cv_results_["fold_loss"], chosen.cv_results_["fold_loss"])


def test_groups_that_are_wrong():
    model = KernelRidge(Gaussian(0.3), alpha=ALPHAS)
    with pytest.raises(ValueError, match=r"groups must have one entry for each of the 90 rows"):
        model.fit(X, Y, groups=np.zeros(7))
    with pytest.raises(ValueError, match="groups must be at least 2 different ones"):
        model.fit(X, Y, groups=np.zeros(90))


def test_exact_path_takes_any_splits():
    """Also those that divide the rows into more parts than moments are kept of."""
    cv = RepeatedKFold(n_splits=3, n_repeats=6, random_state=0)
    model = KernelRidge(Gaussian(0.3), alpha=ALPHAS, cv=cv).fit(X, Y)
    expected = []
    for train, test in cv.split(X):
        fits = [KernelRidge(Gaussian(0.3), alpha=a).fit(X[train], Y[train]) for a in ALPHAS]
        expected.append([np.mean((Y[test] - fit.predict(X[test])) ** 2) for fit in fits])
    assert_allclose(model.cv_results_["fold_loss"], expected, rtol=1e-6)


# Many rows: a stand-in for the kernel -------------------------------------------------------------


def test_exact_path_of_many_rows_by_a_stand_in(monkeypatch):
    """On a span that loses nothing it is the same path; on a small one close, and said."""
    model = KernelRidge(Gaussian(0.01), alpha=[1e-4, 1e-2, 1.0], random_state=0)
    expected = clone(model).fit(X, Y)
    assert expected.cv_results_["exact"]
    monkeypatch.setattr(gram, "_STAND_IN", 60)
    found = clone(model).fit(X, Y)
    assert not found.cv_results_["exact"]
    assert found.alpha_ == expected.alpha_
    assert_allclose(found.cv_results_["mean_loss"], expected.cv_results_["mean_loss"], rtol=1e-4)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-10)  # the fit itself is exact
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(again.cv_results_["fold_loss"], found.cv_results_["fold_loss"])
