"""The noise of the moments against its definition, and an attacker who tries to tell rows."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.stats import norm

import skout
from skout import PrivateRidge
from skout.kernels import Fourier, Gaussian, Linear, Matern
from skout.regressors.private import _SENSITIVITY, _BoundedMoments, gaussian_noise


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, 0]) * X[:, 1]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-3)])
def test_the_noise_is_the_least_that_is_private(epsilon, delta):
    """delta = P(loss > epsilon) - e^epsilon P'(loss > epsilon), by integration."""
    s = gaussian_noise(epsilon, delta)
    x = np.linspace(-60 * s, 60 * s, 2_000_001)
    above = norm.pdf(x, 1.0, s) - math.exp(epsilon) * norm.pdf(x, 0.0, s)
    assert trapezoid(np.maximum(above, 0.0), x) == pytest.approx(delta, rel=1e-3)
    assert gaussian_noise(epsilon, delta, 3.0) == pytest.approx(3.0 * s)


def test_one_row_moves_the_moments_by_no_more_than_said():
    rng = np.random.default_rng(0)
    moments = _BoundedMoments(Fourier(Gaussian(1.0), 20), bound=2.0)
    far = 0.0
    for _ in range(200):
        pair = [moments(rng.normal(0, 2, (1, 2)), rng.normal(0, 5, (1, 3))) for _ in range(2)]
        zz, zt = (a - b for a, b in zip(*pair, strict=True))
        far = max(far, math.hypot(np.linalg.norm(np.triu(zz)), np.linalg.norm(zt)))
    assert 0.5 * _SENSITIVITY < far <= _SENSITIVITY


def test_without_noise_it_is_ridge_of_the_features(monkeypatch):
    monkeypatch.setattr("skout.regressors.private.gaussian_noise", lambda *_: 1e-9)
    X, y = rows()
    kernel = Fourier(Matern(1.0), 30)
    model = PrivateRidge(kernel, bound=2.0, alpha=1e-2, random_state=0).fit(X, y)
    F = kernel.transform(X)
    coef = np.linalg.solve(F.T @ F + 3.0 * np.eye(30), F.T @ y)
    assert_allclose(model.predict(X), F @ coef, atol=1e-6)


def attack(n_trials=400):
    """Return how well an attacker tells which of two rows was in: the sum of rates less 1."""
    X, y = rows(60)
    X[0] = spot = [0.9, 0.9]
    inside, found = np.arange(n_trials) % 2 == 0, np.empty(n_trials)
    for trial in range(n_trials):
        y[0] = 1.0 if inside[trial] else -1.0  # the row, or one in its place
        model = PrivateRidge(Fourier(Gaussian(1.0), 30), delta=1e-5, random_state=trial)
        found[trial] = model.fit(X, y).predict([spot])[0]
    return 2.0 * np.mean((found > np.median(found)) == inside) - 1.0


def test_membership_cannot_be_told(monkeypatch):
    """The advantage is at most (e - 1 + 2 delta) / (e + 1) for epsilon 1; without noise 1."""
    bound = (math.e - 1 + 2e-5) / (math.e + 1)
    assert attack() < bound + 2 / math.sqrt(400)
    monkeypatch.setattr("skout.regressors.private.gaussian_noise", lambda *_: 1e-3)
    assert attack(40) > 0.9


def test_less_privacy_is_more_accuracy():
    X, y = rows(20_000)
    scores = [
        PrivateRidge(gamma=2.0, epsilon=e, random_state=0).fit(X, y).score(X, y)
        for e in (0.03, 0.3, 3.0)
    ]
    assert scores[0] < scores[1] < scores[2]
    assert scores[2] > 0.9


def test_outliers_are_cut_to_the_bound():
    X, y = rows(2000)
    spoilt = y.copy()
    spoilt[:3] = 1e9
    plain, other = (PrivateRidge(gamma=2.0, random_state=0).fit(X, t) for t in (y, spoilt))
    assert np.abs(plain.predict(X) - other.predict(X)).max() < 0.2


def test_every_source_and_the_file(tmp_path):
    X, y = rows()
    Y = np.column_stack([y, -y])
    model = PrivateRidge(gamma=2.0, random_state=0).fit(X, Y)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert_allclose(
        PrivateRidge(gamma=2.0, random_state=0).fit(mapped, Y).predict(X), model.predict(X)
    )
    skout.save(model, tmp_path / "m.skout")
    assert_allclose(skout.load(tmp_path / "m.skout").predict(X), model.predict(X))
    assert model.predict(X).shape == (300, 2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta must be in"),
        ({"bound": 0.0}, "bound"),
        ({"kernel": Fourier("gaussian")}, "numeric gamma"),
        ({"kernel": Linear()}, "Fourier features"),
        ({"gamma": -1.0}, "gamma"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        PrivateRidge(**params).fit(*rows(30))
