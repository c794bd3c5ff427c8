"""A fit that fails or is interrupted leaves no mixture of two models."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skout import (
    InducedMachine,
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    memory_limits,
)
from skout.kernels import Gaussian
from skout.sketches import SubSample

RNG = np.random.default_rng(0)
X, X_NEW = RNG.standard_normal((60, 2)), RNG.standard_normal((80, 2))
Y, Y_NEW = np.sin(X[:, 0]), np.cos(X_NEW[:, 1])
SKETCH = SubSample(8)
ALPHAS = [1e-3, 1e-1]


class Stopping:
    """A kernel as a user writes one, in which Ctrl-C is pressed after some calls."""

    left = None

    def __call__(self, A, B):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    def __deepcopy__(self, memo):  # clones share the count
        return self


def models(kernel):
    sketched = {"sketch": SKETCH, "random_state": 0, "n_jobs": 1}
    return {
        "ridge": KernelRidge(kernel, alpha=ALPHAS, **sketched),
        "exact ridge": KernelRidge(kernel, None, alpha=ALPHAS, n_jobs=1),
        "machine": KernelMachine(kernel, alpha=ALPHAS, **sketched),
        "induced": InducedMachine(kernel, **sketched),
        "quantile": JointQuantileRegressor([0.2, 0.8], kernel, **sketched),
        "classifier": KernelClassifier(kernel, alpha=ALPHAS, **sketched),
        "basis": KernelBasis(kernel, **sketched),
    }


def targets(name, y):
    return y > 0.0 if name == "classifier" else y


def answer(model, rows):
    return model.transform(rows) if isinstance(model, KernelBasis) else model.predict(rows)


@pytest.mark.parametrize("name", models("gaussian"))
def test_an_interrupted_fit_changes_nothing(name):
    kernel = Stopping()
    model, fresh = models(kernel)[name], models(kernel)[name]
    expected = answer(model.fit(X, targets(name, Y)), X)
    n_interrupted = 0
    while True:
        kernel.left = n_interrupted
        try:
            with memory_limits(block_rows=20):
                model.fit(X_NEW, targets(name, Y_NEW))
            break
        except KeyboardInterrupt:
            n_interrupted += 1
        kernel.left = n_interrupted - 1
        with memory_limits(block_rows=20), pytest.raises(KeyboardInterrupt):
            fresh.fit(X_NEW, targets(name, Y_NEW))
        kernel.left = None
        assert_array_equal(answer(model, X), expected)
        with pytest.raises(NotFittedError):
            answer(fresh, X)
    assert n_interrupted > 0
    kernel.left = None
    assert np.any(answer(model, X) != expected)


@pytest.mark.parametrize("name", [name for name in models("gaussian") if name != "basis"])
def test_nan_in_the_last_row_of_a_file(name, tmp_path):
    rows = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X_NEW.shape)
    rows[:] = X_NEW
    rows[-1, -1] = np.nan
    model = models(Gaussian(0.5))[name]
    with memory_limits(block_rows=20), pytest.raises(ValueError, match="row 79 is not finite"):
        model.fit(rows, targets(name, Y_NEW))
    with pytest.raises(NotFittedError):
        answer(model, X)
    expected = answer(model.fit(X, targets(name, Y)), X)
    with memory_limits(block_rows=20), pytest.raises(ValueError, match="row 79 is not finite"):
        model.fit(rows, targets(name, Y_NEW))
    assert_array_equal(answer(model, X), expected)


def test_a_piece_that_cannot_be_added_changes_nothing():
    model = KernelRidge(Gaussian(0.5), SKETCH, alpha=ALPHAS, random_state=0)
    expected = clone(model).partial_fit(X, Y).partial_fit(X_NEW, Y_NEW).predict(X)
    model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(X_NEW, np.append(Y_NEW[1:], np.inf))
    with pytest.raises(ValueError, match="y has 2 outputs; earlier calls had 1"):
        model.partial_fit(X_NEW, np.column_stack([Y_NEW, Y_NEW]))
    assert model.predict(X).shape == (60,)
    assert_array_equal(model.partial_fit(X_NEW, Y_NEW).predict(X), expected)


def test_parameters_given_after_a_fit_stay():
    model = KernelRidge(Gaussian(0.5), SKETCH, alpha=1e-3, random_state=0).fit(X, Y)
    model.set_params(alpha=-1.0)
    with pytest.raises(ValueError, match="alpha must be"):
        model.fit(X, Y)
    assert model.alpha == -1.0
    assert model.alpha_ == 1e-3
