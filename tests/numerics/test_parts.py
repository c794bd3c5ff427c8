"""Parts that are given by name have the parameters of the objects they stand for."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skout import (
    InducedMachine,
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
)
from skout._numerics.validation import resolve
from skout.decoding import CandidateDecoder
from skout.kernels import KERNELS, Core, Gaussian, Laplacian, Mapped, Polynomial, as_kernel
from skout.losses import LOSSES, Huber, Logistic, Pinball, Squared, as_loss
from skout.sketches import SubSample

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (60, 1))
y = np.sin(2 * X[:, 0])

ESTIMATORS = [
    KernelBasis(sketch="subsample"),
    KernelRidge(sketch="subsample"),
    KernelMachine(sketch="subsample"),
    InducedMachine(sketch="subsample"),
    KernelClassifier(sketch="subsample"),
    JointQuantileRegressor([0.5], sketch="subsample"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_names_have_parameters(estimator):
    model = clone(estimator)
    params = model.get_params()
    assert params["kernel"] == model.kernel == "gaussian"  # as given
    assert params["kernel__gamma"] == Gaussian().gamma
    assert params["sketch__size"] is None
    assert "kernel__gamma" not in model.get_params(deep=False)
    assert model.set_params(kernel__gamma=0.3, sketch__size=7) is model
    assert model.kernel.gamma == 0.3
    assert repr(model.sketch) == "SubSample(size=7)"
    assert clone(estimator).kernel == "gaussian"


def test_a_grid_search_over_the_default_kernel():
    search = GridSearchCV(KernelRidge(), {"kernel__gamma": [1e-6, 2.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel__gamma": 2.0}
    assert search.best_estimator_.kernel_.gamma == 2.0
    grid = {"loss__kappa": [1e-3, 1.0], "kernel__gamma": [2.0]}
    search = GridSearchCV(KernelMachine(), grid, cv=3).fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) == 2
    assert isinstance(search.best_estimator_.loss, Huber)


def test_a_new_name_has_its_own_parameters():
    model = KernelRidge().set_params(kernel="tanimoto")
    assert "kernel__gamma" not in model.get_params()
    model.set_params(kernel="polynomial")
    assert {"kernel__degree", "kernel__coef0"} <= set(model.get_params())
    model.set_params(kernel__degree=2, kernel="polynomial")  # in any order
    assert model.kernel.degree == 2


def test_kernels_decoders_and_networks_with_parts():
    assert Core().set_params(base__n_iter=2).base.n_iter == 2
    assert Mapped(np.asarray, "gaussian").set_params(kernel__gamma=2.0).kernel.gamma == 2.0
    assert KernelRidge("core").set_params(kernel__base__n_iter=1).kernel.base.n_iter == 1
    assert CandidateDecoder("faiss").set_params(index__n_probe=3).index.n_probe == 3
    deep = pytest.importorskip("skout.deep")
    network = deep.NeuralRegressor(deep.MLP, loss="huber").set_params(loss__kappa=0.5)
    assert network.loss.kappa == 0.5


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        (
            KernelRidge(),
            {"sketch__size": 3},
            "sketch is None, which has no parameters. Give sketch",
        ),
        (KernelRidge("gaussia"), {"kernel__gamma": 3}, "kernel is 'gaussia', which has no"),
        (KernelRidge(), {"kernel__gama": 3}, "Invalid parameter 'gama' for estimator Gaussian"),
        (KernelRidge(), {"nothing__size": 3}, "Invalid parameter 'nothing'"),
        (KernelRidge(), {"alpha__size": 3}, None),
    ],
)
def test_wrong_parameters(model, params, message):
    with pytest.raises((ValueError, AttributeError), match=message):
        model.set_params(**params)
    assert isinstance(model.kernel, str)  # nothing was replaced
    model.get_params()  # also of an unknown name, which `fit` reports


@pytest.mark.parametrize(
    ("alias", "expected"),
    [("rbf", Gaussian), ("poly", Polynomial), ("laplacian", Laplacian)],
)
def test_names_of_scikit_learn(alias, expected):
    assert type(as_kernel(alias)) is expected
    assert KernelRidge(alias).get_params()["kernel__gamma"] == expected().gamma


@pytest.mark.parametrize(
    ("alias", "expected"),
    [("squared_error", Squared), ("quantile", Pinball), ("log_loss", Logistic)],
)
def test_losses_of_scikit_learn(alias, expected):
    assert type(as_loss(alias)) is expected


def test_aliases_are_found_but_not_listed():
    for registry in (KERNELS, LOSSES):
        assert registry.aliases
        assert len(set(registry.values())) == len(registry)  # each class once
        assert not set(registry.aliases) & set(registry)
        assert set(registry.aliases.values()) <= set(registry)
    with pytest.raises(ValueError, match="Did you mean 'rbf'") as error:
        resolve("rfb", KERNELS, "kernel")
    assert "poly," not in str(error.value)


def test_the_names_fit_as_the_objects_do():
    by_name = KernelRidge("rbf", "subsample", random_state=0).set_params(sketch__size=20)
    by_object = KernelRidge(Gaussian(), SubSample(20), random_state=0)
    np.testing.assert_array_equal(by_name.fit(X, y).predict(X), by_object.fit(X, y).predict(X))
