"""Data that a default fit does badly on: columns of different scale, targets far from zero."""

import warnings

import numpy as np
import pytest
from extras import extra
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skout import (
    JointQuantileRegressor,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    Tuned,
    sisokr,
)
from skout._numerics import validation
from skout.kernels import LearnedMetric, Linear, Matern
from skout.losses import Pinball
from skout.sketches import SubSample

pd = extra("pandas")
SCALES = "very different scale"


@pytest.fixture(autouse=True)
def _not_said_before(monkeypatch):
    monkeypatch.setattr(validation, "_WARNED", set())


def shown(fit):
    """Return the messages about scales or intercepts that a fit shows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    messages = [str(warning.message) for warning in caught]
    return [text for text in messages if SCALES in text or "fit_intercept" in text]


def columns(n=120, scales=(1.0, 1e4, 1.0)):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, len(scales))) * scales
    return X, np.sin(X[:, 0])


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(),
        KernelRidge(Matern(), SubSample(30), random_state=0),
        KernelMachine(fit_intercept=True),
        KernelMachine("laplacian"),
        JointQuantileRegressor((0.2, 0.8), sketch=SubSample(20), random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_of_different_scale_are_named(model):
    X, y = columns(scales=(1.0, 1e4, 0.7))
    frame = pd.DataFrame(X, columns=["age", "income", "rate"])
    (message,) = shown(lambda: model.fit(frame, y))
    assert "'income'" in message
    assert "'rate'" in message
    assert "StandardScaler" in message
    validation._WARNED.clear()
    (message,) = shown(lambda: model.fit(X, y))
    assert "column 1 is more than 10,000 times that of column 2" in message
    assert shown(lambda: make_pipeline(StandardScaler(), model).fit(frame, y)) == []


def test_classes_and_structured_outputs_too():
    X, y = columns()
    assert len(shown(lambda: KernelClassifier().fit(X, y > 0))) == 1
    Y = np.column_stack([y > 0, y < 0.5]).astype(float)
    validation._WARNED.clear()
    assert len(shown(lambda: sisokr("gaussian", "f1", random_state=0).fit(X, Y))) == 1


def test_a_search_says_it_once():
    X, y = columns()
    search = GridSearchCV(KernelRidge(), {"alpha": [1e-3, 1e-2]}, cv=5)
    assert len(shown(lambda: search.fit(X, y))) == 1
    assert shown(lambda: search.fit(X, y)) == []


def test_as_an_error_it_is_raised_each_time():
    X, y = columns()
    for _ in range(2):
        with pytest.raises(UserWarning, match=SCALES):
            KernelRidge().fit(X, y)


@pytest.mark.parametrize("scales", [(1.0, 60.0, 1.0), (1.0, 1.0), (5.0,), (1.0, 0.0, 3.0)])
def test_columns_of_similar_scale_are_not(scales):
    X, y = columns(scales=scales)
    assert shown(lambda: KernelRidge().fit(X, y)) == []


def test_rare_categories_and_images_are_not():
    rng = np.random.default_rng(0)
    rare = np.where(rng.random(3000) < 0.002, 1, 0)[:, None]
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(rare)
    X = np.hstack([10.0 * rng.standard_normal((3000, 2)), one_hot])
    fit = KernelRidge(sketch=SubSample(20), random_state=0).fit
    assert shown(lambda: fit(X, X[:, 0])) == []
    digits, y = load_digits(return_X_y=True)  # whose border is nearly constant
    assert shown(lambda: fit(digits, y)) == []


def test_kernels_without_one_distance_are_not():
    X, y = columns()
    for kernel in (Linear(), LearnedMetric("gaussian")):
        assert shown(lambda kernel=kernel: KernelRidge(kernel).fit(X, y)) == []


def test_tuned_scales_by_itself():
    X, y = load_wine(return_X_y=True)
    model = Tuned(budget="3 fits", random_state=0, kind="classes")
    assert shown(lambda: model.fit(X[::2], y[::2])) == []


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
def test_a_machine_says_that_it_wants_an_intercept(loss):
    X, y = load_diabetes(return_X_y=True)
    without = KernelMachine(loss=loss)
    (message,) = shown(lambda: without.fit(X, y))
    assert "give fit_intercept=True" in message
    assert without.score(X, y) < 0.0  # it is true
    for model in (
        KernelMachine(loss=loss, fit_intercept=True),
        KernelMachine(loss=loss, alpha=1e-6),
        KernelMachine(loss=Pinball(0.95)),  # not meant to be near the mean
    ):
        assert shown(lambda model=model: model.fit(X, y)) == []
    assert shown(lambda: KernelMachine(loss=loss).fit(X, y - y.mean())) == []
