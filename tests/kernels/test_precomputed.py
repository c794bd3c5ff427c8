"""A kernel matrix in place of X: the same models as with the kernel itself."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn.tests.test_kernel_ridge as theirs
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer

import skout
from skout import KernelClassifier, KernelMachine, KernelRidge, sketches
from skout.kernels import Gaussian

RNG = np.random.default_rng(0)
X, X_NEW = RNG.normal(size=(80, 3)), RNG.normal(size=(20, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)
KERNEL = Gaussian(0.5)
K, K_NEW = KERNEL(X), KERNEL(X_NEW, X)
MODELS = {
    "ridge": KernelRidge(),
    "path": KernelRidge(alpha=[1e-3, 1e-2, 1e-1]),
    "sub-sampled": KernelRidge(sketch=sketches.SubSample(30)),
    "p-sparsified": KernelRidge(sketch=sketches.PSparsified(30)),
    "conjugate gradients": KernelRidge(sketch=sketches.SubSample(30), solver="cg"),
    "machine": KernelMachine(loss="huber"),
    "classifier": KernelClassifier(),
    "structured": skout.iokr(KERNEL, "gaussian", alpha=0.01),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_matrix_is_as_good_as_its_kernel(name, tmp_path):
    targets = {"classifier": Y > 0, "structured": np.c_[Y, Y]}.get(name, Y)
    place = "regressor__" if name == "structured" else ""
    by_kernel, by_matrix = (
        clone(MODELS[name])
        .set_params(**{f"{place}kernel": kernel, f"{place}random_state": 0})
        .fit(rows, targets)
        for kernel, rows in ((KERNEL, X), ("precomputed", K))
    )
    expected = by_kernel.predict(X_NEW)
    assert_allclose(by_matrix.predict(K_NEW), expected, rtol=1e-7, atol=1e-9)
    skout.save(by_matrix, tmp_path / "m.skout")
    loaded = skout.load(tmp_path / "m.skout")
    assert_allclose(loaded.predict(K_NEW), by_matrix.predict(K_NEW))


def test_cross_validation_takes_columns_with_rows():
    by_kernel = cross_val_score(KernelRidge(KERNEL, alpha=0.01), X, Y)
    model = KernelRidge("precomputed", alpha=0.01)
    for whole in (model, make_pipeline(model)):
        assert_allclose(cross_val_score(whole, K, Y), by_kernel)
    centered = make_pipeline(KernelCenterer(), model)  # the same but for the constant
    assert_allclose(cross_val_score(centered, K, Y), by_kernel, atol=0.1)
    grid = GridSearchCV(KernelRidge("precomputed"), {"alpha": [1e-3, 1e-2]}).fit(K, Y)
    same = GridSearchCV(KernelRidge(KERNEL), grid.param_grid).fit(X, Y)
    assert_allclose(grid.best_score_, same.best_score_)


def test_what_a_matrix_cannot_say_is_refused():
    with pytest.raises(ValueError, match="must be square in fit"):
        KernelRidge("precomputed").fit(K[:, :40], Y)
    model = KernelRidge("precomputed").fit(K, Y)
    with pytest.raises(ValueError, match=r"k\(x, x\) of new rows is not in"):
        model.predict(K_NEW, return_std=True)
    with pytest.raises(ValueError, match="X has 79 features"):
        model.predict(K_NEW[:, 1:])


# scikit-learn's own tests -------------------------------------------------------------------------


class Adapter(KernelRidge):
    """Parameters as scikit-learn means them: no intercept, a penalty that is not of the mean."""

    def __init__(self, kernel="linear", alpha=1.0):
        super().__init__(kernel, alpha=alpha, fit_intercept=False)

    def fit(self, X, y, sample_weight=None):
        given = self.alpha
        weight = X.shape[0] if sample_weight is None else np.sum(sample_weight)
        gamma = 1.0 / X.shape[1]  # its default
        names = {"rbf": Gaussian(gamma), "poly": skout.kernels.Polynomial(gamma=gamma, coef0=1.0)}
        self.kernel = names.get(self.kernel, self.kernel)
        self.alpha = max(given / weight, 1e-12)
        return super().fit(X, y, sample_weight)


CASES = [name for name in dir(theirs) if name.startswith("test_")]


@pytest.mark.parametrize("name", CASES)
def test_their_tests_pass(name, monkeypatch):
    monkeypatch.setattr(theirs, "KernelRidge", Adapter)
    test = getattr(theirs, name)
    marks = {mark.args[0]: mark.args[1] for mark in getattr(test, "pytestmark", [])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if inspect.signature(test).parameters:
            for container in marks["sparse_container"]:
                test(container)
        else:
            test()
