"""Targets with long tails, whose logarithms are fitted, and targets that nothing is known of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import skout
from skout import Tuned
from skout.apps.tuning import MAPS, LogTargets, Sample
from skout.apps.tuning.clock import Clock
from skout.apps.tuning.folds import make_folds
from skout.apps.tuning.maps.base import are_skewed
from skout.kinds import KINDS
from skout.persistence.onnx import to_onnx

RNG = np.random.default_rng(0)
X = RNG.standard_normal((240, 3))
Y = np.exp(1.5 * X[:, 0] + 0.5 * X[:, 1] + 0.3 * RNG.standard_normal(240))
RIDGE = MAPS["kernel ridge"](kernel="linear", width=None, alpha=1e-6, of_logs=True)


def test_what_is_skewed_and_back():
    T = np.column_stack([Y, X[:, 2], np.full(240, 2.0), -Y, RNG.poisson(0.7, 240)])
    T[::7, 0] = np.nan
    assert are_skewed(T).tolist() == [True, False, False, False, False]
    logs = LogTargets(None).scaled(T)
    assert_allclose(logs.amounts(logs.logs(T)), T)
    far = logs.amounts(np.full((1, 5), 1e3))
    assert np.nanmax(T[:, 0]) < far[0, 0] < 2.0 * np.nanmax(T[:, 0])
    assert far[0, 1] == 1e3


def test_a_trial_predicts_what_its_estimator_does():
    sample = Sample(X, Y[:, None], make_folds(240, 0, cv=2), 0)
    settings, F = list(RIDGE.predictions(sample))[-1]
    assert settings.of_logs
    train, held = sample.folds.splits[0]
    model = settings.estimator(settings.build(0)).fit(X[train], Y[train, None])
    # scales of a trial are of all rows
    assert_allclose(F[: len(held)], model.predict(X[held]), rtol=0.2, atol=0.2)


def test_logarithms_are_chosen_where_they_help(tmp_path):
    model = Tuned("numbers", budget="12 fits", random_state=0, maps=["kernel ridge"])
    model.fit(X[:180], Y[:180])
    assert any(settings.get("of_logs") for settings in model.best_settings_)
    assert model.score(X[180:], Y[180:]) > 0.6
    skout.save(model, tmp_path / "m.skout")
    assert_allclose(skout.load(tmp_path / "m.skout").predict(X), model.predict(X))
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    (prediction, *_) = session.run(None, {"X": X})
    assert_allclose(np.ravel(prediction), model.predict(X))


def test_the_mean_is_chosen_where_nothing_does_better(tmp_path):
    y = np.random.default_rng(3).standard_normal(80)
    noise = np.random.default_rng(4).standard_normal((80, 20))
    model = Tuned("numbers", budget="1 fits", random_state=0, maps=["extra trees"]).fit(noise, y)
    assert [settings["map"] for settings in model.best_settings_] == ["constant"]
    assert_allclose(model.predict(noise), y.mean())
    assert model.score_ == model.baselines_["constant"]
    assert "no model did better" in model.summary()
    skout.save(model, tmp_path / "m.skout")
    assert_allclose(skout.load(tmp_path / "m.skout").predict(noise[:2]), y.mean())


def _noise(kind, n, rng):
    """Outputs of which some are more frequent than others, whatever the inputs are."""
    if kind == "numbers":
        return rng.standard_normal(n)
    if kind == "classes":
        return np.minimum(rng.exponential(4.0, n), 20.0).astype(int)
    if kind == "label_sets":
        return (rng.random((n, 6)) < [0.9, 0.1, 0.05, 0.05, 0.02, 0.02]).astype(int)
    utility = rng.standard_normal((n, 4)) + [0.0, 0.8, 1.6, 2.4]
    return np.argsort(np.argsort(utility, axis=1), axis=1)


@pytest.mark.parametrize("kind", ["numbers", "classes", "label_sets", "rankings"])
def test_of_noise_nothing_is_learned(kind):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2150, 5)), _noise(kind, 2150, rng)
    model = Tuned(kind, budget="8 fits", random_state=0).fit(X[:150], Y[:150])
    trivial = np.repeat(KINDS[kind].baseline(Y[:150]), 2000, axis=0).reshape(Y[150:].shape)
    measures = KINDS[kind].evaluate(Y[150:], trivial)
    # 150 rows tell two answers apart that differ by more
    assert model.score(X[150:], Y[150:]) >= measures[KINDS[kind].metric] - 0.01


def test_chances_are_learned_where_one_class_is_always_the_likelier():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = (rng.random(600) < 0.35 / (1.0 + np.exp(-4.0 * X[:, 0]))).astype(int)
    model = Tuned("classes", budget="6 fits", random_state=0).fit(X, y)
    assert model.score_ >= model.baselines_["constant"]
    chances = model.predict_proba(X)[:, 1]
    assert chances[X[:, 0] > 1.0].mean() > 3.0 * chances[X[:, 0] < -1.0].mean()


def test_seconds_before_a_fit_count():
    clock = Clock(5.0, lambda: 100.0, started=97.0)
    assert clock.left == 2.0
