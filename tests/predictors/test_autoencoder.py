"""The autoencoder in a sketched basis: kernel PCA where it is linear, objects that come back."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

torch = pytest.importorskip("torch")

import skout  # noqa: E402
from skout import Autoencoder  # noqa: E402
from skout.deep import Training  # noqa: E402
from skout.sketches import SubSample  # noqa: E402

WORDS = ["banana", "bananas", "ananas", "stone", "stones", "tone", "notes", "zebra"]


def test_a_linear_one_is_kernel_pca():
    X = np.random.default_rng(0).standard_normal((200, 3)) * [2.0, 1.0, 0.3]
    options = {"hidden": (), "training": Training(300, 50, 3e-2), "random_state": 0}
    model = Autoencoder("gaussian", SubSample(15), 3, **options).fit(X)
    Z, unseen = model.basis_.transform(X), np.mean(model.basis_.residual(X))
    values = np.linalg.eigvalsh(np.cov(Z.T, bias=True))
    best = 1.0 - values[:-3].sum() - unseen  # k(x, x) is 1; three directions and a mean
    assert best - 0.01 <= model.score(X) <= best + 1e-6


def test_objects_come_back():
    training = Training(300, 8, 1e-2)
    model = Autoencoder("ngram", None, 3, training=training, random_state=0).fit(WORDS)
    codes = model.transform(WORDS)
    assert codes.shape == (len(WORDS), 3)
    assert list(model.inverse_transform(codes)) == WORDS
    assert list(model.inverse_transform(codes, candidates=WORDS[3:5])[3:5]) == WORDS[3:5]


def test_the_parts_make_the_whole():
    X = np.random.default_rng(1).standard_normal((60, 4))
    model = Autoencoder("gaussian", SubSample(20), training=Training(3), random_state=0).fit(X)
    Z = model.basis_.transform(X)
    assert Z.shape[1] == 20
    found = model.regressor_.through("decoder", model.transform(X))
    assert_allclose(found, model.regressor_.predict(Z), atol=1e-5)
    again = clone(model).fit(X)
    assert_allclose(again.transform(X), model.transform(X))


def test_it_is_saved(tmp_path):
    model = Autoencoder("ngram", None, training=Training(3), random_state=0).fit(WORDS)
    skout.save(model, tmp_path / "model.skout")
    assert_allclose(skout.load(tmp_path / "model.skout").transform(WORDS), model.transform(WORDS))


def test_a_size_that_is_none_is_refused():
    with pytest.raises(ValueError, match="n_components must be an integer >= 1"):
        Autoencoder("ngram", None, 0).fit(WORDS)
