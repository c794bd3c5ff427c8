"""The noise of the moments against its definition, and the best attacker on the worst rows."""

import copy
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import Ensemble, KernelBasis, PrivateRidge, StructuredPredictor, TwoWay, iokr
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


class Itself(Fourier):
    """Features that are the rows, so that the worst of them can be given."""

    def transform(self, A):
        return A


def angle(degrees):
    return np.array([[np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))]])


# Two rows that differ most: an angle of 60 degrees, opposite targets, and a difference of phi phi'
# that is diagonal, so that the upper triangle has all of it.
WORST = [(angle(75), np.array([[1.0]])), (angle(15), np.array([[-1.0]]))]


def released(zz, zt):
    """Return what is told of moments, as one vector."""
    return np.concatenate([zz[np.triu_indices(len(zz))], zt.ravel()])


def distance(kernel, pair, bound=1.0):
    moments = _BoundedMoments(kernel, bound)
    first, second = (released(*moments(X, T)) for X, T in pair)
    return np.linalg.norm(first - second)


def test_one_row_moves_the_moments_by_no_more_than_said():
    rng = np.random.default_rng(0)
    far = [
        distance(
            Fourier(Gaussian(1.0), 20),
            [(rng.normal(0, 2, (1, 2)), rng.normal(0, 5, (1, 3))) for _ in range(2)],
            bound=2.0,
        )
        for _ in range(200)
    ]
    assert 0.5 * _SENSITIVITY < max(far) <= _SENSITIVITY
    # what it cannot exceed is reached, up to the rounding: less noise would be too little
    worst = distance(Itself(Gaussian(1.0), 2), WORST)
    assert worst == pytest.approx(math.sqrt(4.5), rel=1e-12)
    assert worst < _SENSITIVITY < 1.0001 * worst


def test_rows_and_targets_beyond_the_bound_count_as_those_within():
    kernel = Itself(Gaussian(1.0), 2)
    long = [(1e3 * X, 1e3 * T) for X, T in WORST]
    assert distance(kernel, long) == pytest.approx(math.sqrt(4.5), rel=1e-12)
    X = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)  # norms to 1e-7
    zz, _ = _BoundedMoments(Fourier(Gaussian(1.0), 200), 1.0)(X, np.zeros((500, 1)))
    assert np.trace(zz) <= 500 * (1 + 1e-14)


def test_without_noise_it_is_ridge_of_the_features(monkeypatch):
    monkeypatch.setattr("skout.regressors.private.gaussian_noise", lambda *_: 1e-9)
    X, y = rows()
    kernel = Fourier(Matern(1.0), 30)
    model = PrivateRidge(kernel, bound=2.0, alpha=1e-2, random_state=0).fit(X, y)
    F = kernel.transform(X)
    coef = np.linalg.solve(F.T @ F + 3.0 * np.eye(30), F.T @ y)
    assert_allclose(model.predict(X), F @ coef, atol=1e-6)


def audited(epsilon, delta, n=4000):
    """Return delta as the best attacker finds it on the worst pair of rows, and its deviation.

    For a threshold on the likelihood ratio, P(above | D) - exp(epsilon) P(above | D') <= delta;
    it is an equality where the ratio is exp(epsilon), if the noise is no more than needed.
    """
    kernel, (X, T) = Itself(Gaussian(1.0), 2), rows(20)
    model = PrivateRidge(kernel, epsilon=epsilon, delta=delta).fit(X / 2, T)
    model.random_state = np.random.default_rng(0)
    moments = _BoundedMoments(kernel, 1.0)
    first, second = (moments(X, T) for X, T in WORST)
    step = released(*first) - released(*second)
    threshold = epsilon * model.noise_**2 / (step @ step)  # from the middle of both
    above = []
    for zz, zt in (first, second):
        seen = np.array([released(*model._noisy(zz, zt)) for _ in range(n)])
        middle = 0.5 * (released(*first) + released(*second))
        above.append(np.mean((seen - middle) @ step / (step @ step) > threshold))
    p, q = above
    deviation = math.sqrt((p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q)) / n)
    return p - math.exp(epsilon) * q, deviation


EPSILON, DELTA = 0.5, 0.05


def test_the_best_attacker_finds_what_was_promised():
    """Neither more, nor so much less that the noise could be smaller."""
    delta, deviation = audited(EPSILON, DELTA)
    assert abs(delta - DELTA) < 4 * deviation
    assert deviation < 0.02


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_attacker_notices_too_little_noise(share, monkeypatch):
    less = lambda *args: share * gaussian_noise(*args)  # noqa: E731
    monkeypatch.setattr("skout.regressors.private.gaussian_noise", less)
    delta, deviation = audited(EPSILON, DELTA)
    assert delta > DELTA + 4 * deviation


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


# What leaves the process --------------------------------------------------------------------------


def noise_of(seed):
    return (0, np.random.default_rng(0), np.random.RandomState(0))[seed]


@pytest.mark.parametrize("seed", range(3), ids=["int", "Generator", "RandomState"])
@pytest.mark.parametrize("is_fitted", [True, False])
def test_no_seed_is_in_files_and_pickles(seed, is_fitted, tmp_path):
    """The noise could be taken off: PCG64 can be wound back from its state after the fit."""
    X, y = rows()
    model = PrivateRidge(gamma=2.0, random_state=noise_of(seed))
    if is_fitted:
        model.fit(X, y)
    else:
        assert clone(model).random_state is not None  # for the fits of a search
    assert copy.copy(model).random_state is model.random_state
    skout.save(model, tmp_path / "m.skout")
    for again in (skout.load(tmp_path / "m.skout"), pickle.loads(pickle.dumps(model))):
        assert again.random_state is None
        if is_fitted:
            assert_allclose(again.predict(X), model.predict(X))
    assert b"PCG64" not in pickle.dumps(model) + (tmp_path / "m.skout").read_bytes()


@pytest.mark.parametrize("save", ["skout", "pickle"])
def test_no_seed_is_in_what_holds_the_model(save, tmp_path):
    """The part that was given, and is not fitted, has the seed too."""
    X, y = rows()
    inner = PrivateRidge(gamma=2.0, random_state=np.random.default_rng(123_456_789))
    model = TransformedTargetRegressor(make_pipeline(StandardScaler(), inner)).fit(X, y)
    if save == "skout":
        skout.save(model, tmp_path / "m.skout")
        again = skout.load(tmp_path / "m.skout")
    else:
        again = pickle.loads(pickle.dumps(model))
    for part in (again.regressor[-1], again.regressor_[-1]):
        assert isinstance(part, PrivateRidge)
        assert part.random_state is None
    assert_allclose(again.predict(X), model.predict(X))


LABELS = (rows(60)[0] > 0).astype(int)


@pytest.mark.parametrize(
    "model",
    [
        StructuredPredictor(PrivateRidge(), KernelBasis("tanimoto")),
        StructuredPredictor(make_pipeline(StandardScaler(), PrivateRidge()), "linear"),
        StructuredPredictor(TransformedTargetRegressor(PrivateRidge()), "linear"),
        StructuredPredictor(BaggingRegressor(PrivateRidge()), "linear"),
        Ensemble(StructuredPredictor(PrivateRidge(), "linear"), 2),
        TwoWay(StructuredPredictor(PrivateRidge(), "linear"), iokr("linear", "gaussian"), 1.0),
    ],
    ids=["itself", "pipeline", "transformed", "bagging", "Ensemble", "TwoWay"],
)
def test_models_that_keep_outputs_refuse_it(model):
    with pytest.raises(ValueError, match="output_basis and decoder keep training outputs"):
        model.fit(rows(60)[0], LABELS)


def test_outputs_by_a_public_basis():
    """What the refusal advises: the basis and the candidates are not of the training rows."""
    X, _ = rows(20_000)
    Y = (X > 0).astype(int)
    public = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    basis = KernelBasis("gaussian").fit(public)
    model = PrivateRidge(gamma=2.0, random_state=0).fit(X, basis.transform(Y))
    scores = model.predict(X) @ basis.transform(public).T
    assert np.mean(public[scores.argmax(axis=1)] == Y) > 0.9
