"""`skout.Tuned`: every kind, the same choice for the same seed, honest scores, odd data."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import skout
from skout import Tuned
from skout.kernels import F1
from skout.metrics import example_f1, kendall_tau
from skout.predictors.tuning import search as searching
from skout.predictors.tuning.estimator import as_budget
from skout.predictors.tuning.folds import make_folds
from skout.predictors.tuning.inputs import ColumnScaler
from skout.predictors.tuning.kinds import guess_kind
from skout.predictors.tuning.maps import LeafForest, PrincipalOutputs
from skout.predictors.tuning.outputs import LabelFeatures, SetDecoder
from skout.predictors.tuning.stacking import Votes, choose, cross_fitted

N = 80


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


KINDS = ["label_sets", "rankings", "numbers", "classes", "strings"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_beats_a_constant(kind, tmp_path):
    X = inputs()
    Y = outputs(kind, X)
    model = Tuned(kind, budget="3 fits", random_state=0).fit(X[:60], Y[:60])
    assert model.score(X[60:], Y[60:]) > model.baselines_["constant"] + 0.1
    assert model.score_ > model.baselines_["constant"] + 0.1
    assert len(model.predict(X[60:])) == 20
    if kind == "numbers":
        with pytest.raises(TypeError, match="predicted, not chosen"):
            model.rank(X[60:])
    else:
        indices, scores = model.rank(X[60:63], k=2)
        assert indices.shape == scores.shape == (3, 2)
    assert model.summary().count(";") == 2
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    np.testing.assert_array_equal(again.predict(X[60:]), model.predict(X[60:]))
    assert again.summary() == model.summary()
