"""Losses: the conformance check, and values and conjugates worked out elsewhere."""

import math
import re

import numpy as np
import oracles_convex as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone

from skout.losses import (
    LOSSES,
    Curvature,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    MarginLoss,
    Pinball,
    Ramp,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    as_loss,
)
from skout.testing import check_loss

DEFAULTS = {name: cls() for name, cls in LOSSES.items()}
VARIANTS = [
    ("huber", Huber(0.3)),
    ("huber", Huber(20.0)),
    ("epsilon_insensitive", EpsilonInsensitive(0.0)),
    ("epsilon_insensitive", EpsilonInsensitive(2.0)),
    ("squared_epsilon_insensitive", SquaredEpsilonInsensitive(0.0)),
    ("squared_epsilon_insensitive", SquaredEpsilonInsensitive(1.0)),
    ("pinball", Pinball(0.9)),
    ("pinball", Pinball(0.001)),
]
ALL = [*DEFAULTS.items(), *VARIANTS]
LEVELS = ("pinball", Pinball([0.1, 0.5, 0.9]))
IDS = [repr(loss) for _, loss in ALL]


def targets(loss, rng, shape):
    Y = rng.standard_normal(shape)
    return np.where(Y < 0, -1.0, 1.0) if isinstance(loss, MarginLoss) else Y


# Conformance -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("loss", [loss for _, loss in ALL], ids=IDS)
def test_loss_conforms(loss, d, seed):
    check_loss(loss, d, random_state=seed)


def test_levels_of_several_quantiles_conform():
    check_loss(LEVELS[1], d=3)
    check_loss(Pinball([0.2]), d=3)  # one level in a list is the level of all


@pytest.mark.parametrize("name", LOSSES)
def test_names_conform(name):
    check_loss(name)


class WrongSlope(Huber):
    def _slope(self, r):
        return super()._slope(r) * 1.01


class WrongBend(Logistic):
    def _bend(self, s):
        return super()._bend(s) + 0.05


class WrongConjugate(SquaredHinge):
    def _h_conjugate(self, a):
        return np.where(a <= 1e-12, a * (1.0 + 0.26 * a), np.inf)


class EverywhereConjugate(Hinge):
    def _h_conjugate(self, a):
        return a


class WrongClip(Pinball):
    def clip(self, G, Y):
        return 0.9 * super().clip(G, Y)


class WrongLipschitz(Pinball):
    @property
    def lipschitz(self):
        return 0.4


class LooseLipschitz(Logistic):
    @property
    def lipschitz(self):
        return 2.0


class WrongRamp(Hinge):
    @property
    def ramps(self):
        return (Ramp(1.0, -0.9, 0.0),)


class WrongKink(EpsilonInsensitive):
    @property
    def ramps(self):
        return Ramp(0.2, 0.0, 1.0), Ramp(-0.2, -1.0, 0.0)


class NoBend(Hinge):
    smooth = True
    ramps = ()


class NoRamp(Hinge):
    @property
    def ramps(self):
        return ()


class NotConvex(Squared):
    def _h(self, r):
        return np.minimum(0.5 * r * r, 1.0)


class Negative(Squared):
    def _h(self, r):
        return 0.5 * r * r - 1.0


class WrongSubgradient(Hinge):
    def _slope(self, s):
        return np.where(s == 1.0, 0.5, super()._slope(s))


class WrongAlong(Squared):
    def along(self, dF, F, Y):
        return 2.0 * super().along(dF, F, Y)


class WrongCross(Huber):
    def lift_curvature(self, slope, bend, F, Y):
        full = super().lift_curvature(slope, bend, F, Y)
        return Curvature(full.diagonal)


class Forgetful(Huber):
    def value(self, F, Y):
        self.kappa = 1.0
        return super().value(F, Y)


class Careless(Squared):
    def value(self, F, Y):
        F -= Y
        return super().value(F, 0.0 * Y)


@pytest.mark.parametrize(
    ("wrong", "d", "message"),
    [
        (WrongSlope(), 1, "below a tangent"),
        (WrongBend(), 1, "curvature"),
        (WrongConjugate(), 1, "value + conjugate = <f, gradient>"),
        (EverywhereConjugate(), 1, "the conjugate must be inf outside its domain"),
        (WrongClip(), 1, "the conjugate must be inf outside its domain"),
        (WrongLipschitz(), 1, "slopes beyond lipschitz cost inf"),
        (LooseLipschitz(), 1, "the conjugate must be finite where clip leads"),
        (WrongRamp(), 1, "slope at 0.999"),
        (WrongKink(), 1, "slope at 0.199"),
        (NoRamp(), 1, "a loss is smooth or has ramps"),
        (NotConvex(), 1, "the loss must be convex"),
        (Negative(), 1, "a loss must not be negative"),
        (WrongSubgradient(), 1, "below a tangent"),
        (WrongAlong(), 1, "along"),
        (WrongCross(), 3, "curvature"),
        (Forgetful(2.0), 1, "parameters must not change"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, BaseEstimator) else "",
)
def test_a_wrong_loss_is_caught(wrong, d, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_loss(wrong, d)


def test_a_smooth_loss_needs_its_bend():
    with pytest.raises(NotImplementedError, match="NoBend has no second derivative"):
        NoBend().curvature(np.zeros((2, 1)), np.ones((2, 1)))


def test_a_loss_that_writes_into_its_arguments_is_caught():
    with pytest.raises(ValueError, match="read-only"):
        check_loss(Careless())


# Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(("name", "loss"), ALL, ids=IDS)
def test_value_is_the_formula(name, loss, d):
    rng = np.random.default_rng(0)
    Y = targets(loss, rng, (50, d))
    F = Y + rng.choice([0.05, 1.0, 30.0], (50, 1)) * rng.standard_normal((50, d))
    truth = [oracle.LOSSES[name](f, y, **loss.get_params()) for f, y in zip(F, Y, strict=True)]
    assert_allclose(loss.value(F, Y), truth, rtol=1e-12, atol=1e-15)


def test_levels_of_several_quantiles_are_the_formula():
    name, loss = LEVELS
    F, Y = np.random.default_rng(0).standard_normal((2, 50, 3))
    truth = [oracle.LOSSES[name](f, y, **loss.get_params()) for f, y in zip(F, Y, strict=True)]
    assert_allclose(loss.value(F, Y), truth, rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "f", "y", "value", "gradient"),
    [
        (Squared(), [3.0, 0.0], [0.0, 4.0], 12.5, [3.0, -4.0]),
        (Huber(1.0), [0.5], [0.0], 0.125, [0.5]),
        (Huber(1.0), [-10.0], [0.0], 9.5, [-1.0]),
        (Huber(2.0), [3.0, 0.0], [0.0, 4.0], 8.0, [1.2, -1.6]),
        (EpsilonInsensitive(0.5), [2.0], [0.25], 1.25, [1.0]),
        (EpsilonInsensitive(0.5), [0.5], [0.25], 0.0, [0.0]),
        (EpsilonInsensitive(1.0), [3.0, 0.0], [0.0, 4.0], 4.0, [0.6, -0.8]),
        (SquaredEpsilonInsensitive(0.5), [0.0], [2.0], 2.25, [-3.0]),
        (SquaredEpsilonInsensitive(1.0), [3.0, 0.0], [0.0, 4.0], 16.0, [4.8, -6.4]),
        (Pinball(0.9), [0.0], [1.0], 0.9, [-0.9]),
        (Pinball(0.9), [2.0], [1.0], 0.1, [0.1]),
        (Pinball([0.9, 0.2]), [0.0, 3.0], [1.0, 1.0], 2.5, [-0.9, 0.8]),
        (Hinge(), [0.25, 2.0], [1.0, -1.0], 3.75, [-1.0, 1.0]),
        (Hinge(), [2.0], [1.0], 0.0, [0.0]),
        (SquaredHinge(), [0.5, 2.0], [1.0, -1.0], 9.25, [-1.0, 6.0]),
        (Logistic(), [0.0], [1.0], math.log(2.0), [-0.5]),
        (Logistic(), [math.log(3.0)], [-1.0], math.log(4.0), [0.75]),
    ],
    ids=repr,
)
def test_value_and_gradient_worked_out_by_hand(loss, f, y, value, gradient):
    F, Y = np.array([f]), np.array([y])
    assert_allclose(loss.value(F, Y), [value], rtol=1e-12)
    assert_allclose(loss.gradient(F, Y), [gradient], rtol=1e-12)


def test_epsilon_zero_is_absolute_and_squared_error():
    F, Y = np.random.default_rng(0).standard_normal((2, 20, 1))
    absolute = EpsilonInsensitive(0.0).value(F, Y)
    assert_allclose(absolute, np.abs(F - Y)[:, 0])
    assert_allclose(absolute, 2.0 * Pinball(0.5).value(F, Y))
    twice = SquaredEpsilonInsensitive(0.0)
    assert_allclose(twice.value(F, Y), 2.0 * Squared().value(F, Y))
    assert_allclose(twice.gradient(F, Y), 2.0 * Squared().gradient(F, Y))


def test_huber_is_squared_when_kappa_is_large():
    F, Y = np.random.default_rng(0).standard_normal((2, 20, 3))
    assert_allclose(Huber(1e6).value(F, Y), Squared().value(F, Y))
    assert_allclose(Huber(1e-6).value(F, Y), 1e-6 * EpsilonInsensitive(0.0).value(F, Y), rtol=1e-4)


def test_the_minimiser_of_pinball_is_the_quantile():
    y = np.random.default_rng(0).exponential(size=(1001, 1))
    for tau in (0.1, 0.5, 0.9):
        risk = [Pinball(tau).value(np.full_like(y, q), y).sum() for q in y[:, 0]]
        assert_allclose(y[np.argmin(risk), 0], np.quantile(y, tau, method="inverted_cdf"))


# Conjugate ---------------------------------------------------------------------------------------


EXTREME = st.one_of(st.floats(1e-8, 1e8), st.floats(-1e8, -1e-8), st.just(0.0))
EVERY_LOSS = st.sampled_from([loss for _, loss in ALL])
ROWS = hnp.arrays(np.float64, (2, 3), elements=EXTREME)


@given(loss=EVERY_LOSS, F=ROWS, Y=ROWS)
def test_extremes_stay_finite_without_a_warning(loss, F, Y):
    if isinstance(loss, MarginLoss):
        Y = np.where(Y < 0, -1.0, 1.0)
    results = [loss.value(F, Y), loss.gradient(F, Y), loss.conjugate(loss.clip(F, Y), Y)]
    results += [loss.curvature(F, Y) @ F] if loss.smooth else []
    for array in results:
        assert np.isfinite(array).all()


@pytest.mark.parametrize("loss", [loss for _, loss in ALL], ids=IDS)
def test_conjugate_is_the_supremum(loss):
    """sup_f g f - loss(f), by a fine grid."""
    f = np.linspace(-30.0, 30.0, 600_001)[:, None]
    for y in (-1.0, 1.0):
        Y = np.full_like(f, y)
        value = loss.value(f, Y)
        G = loss.clip(np.linspace(-1.5, 1.5, 13)[:, None], np.full((13, 1), y))
        G = 0.999 * G  # at the border of its domain logistic's supremum is at infinity
        supremum = [np.max(g * f[:, 0] - value) for g in G[:, 0]]
        assert_allclose(loss.conjugate(G, np.full((13, 1), y)), supremum, atol=1e-7)


@pytest.mark.parametrize("loss", [loss for _, loss in ALL], ids=IDS)
def test_clip_leaves_gradients_alone(loss):
    rng = np.random.default_rng(0)
    Y = targets(loss, rng, (100, 3))
    G = loss.gradient(Y + 3.0 * rng.standard_normal((100, 3)), Y)
    assert_allclose(loss.clip(G, Y), G, rtol=1e-12)


def test_curvature_multiplies_rows():
    rng = np.random.default_rng(0)
    diagonal, u, V = rng.standard_normal((3, 5, 2))
    weight = rng.standard_normal(5)
    assert_allclose(Curvature(diagonal) @ V, diagonal * V)
    rows = [np.diag(a) + w * np.outer(b, b) for a, w, b in zip(diagonal, weight, u, strict=True)]
    truth = [M @ v for M, v in zip(rows, V, strict=True)]
    assert_allclose(Curvature(diagonal, weight, u) @ V, truth)


def test_a_norm_has_the_curvature_of_its_even_function_at_zero():
    Y = np.zeros((1, 3))
    for loss, bend in ((Huber(), 1.0), (Squared(), 1.0), (SquaredEpsilonInsensitive(0.0), 2.0)):
        assert_allclose(loss.curvature(Y, Y) @ np.ones((1, 3)), np.full((1, 3), bend))
        assert_allclose(loss.gradient(Y, Y), 0.0)


# Tensors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 1e-4)], ids=str)
@pytest.mark.parametrize("loss", [*(loss for _, loss in ALL), LEVELS[1]], ids=repr)
def test_tensors_go_through_the_same_formulas(loss, dtype, tol, d):
    torch = pytest.importorskip("torch")
    d = 3 if loss is LEVELS[1] else d
    rng = np.random.default_rng(0)
    Y = targets(loss, rng, (40, d))
    F = Y + rng.choice([0.0, 0.1, 30.0], (40, 1)) * rng.standard_normal((40, d))
    arrays = [array.astype(dtype) for array in (F, Y, loss.clip(3.0 * F, Y), F[::-1])]
    for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        tensors = [torch.as_tensor(array.copy(), device=device) for array in arrays]
        for got, expected in zip(
            everything(loss, *tensors), everything(loss, *arrays), strict=True
        ):
            assert got.device.type == device
            assert_allclose(got.cpu().numpy(), expected, rtol=tol, atol=tol)


def everything(loss, F, Y, G, V):
    """Return all that solvers and networks ask of a loss."""
    found = [loss.variable(F, Y), loss.value(F, Y), loss.gradient(F, Y), loss.clip(F, Y)]
    found += [loss.conjugate(0.99 * G, Y), loss.along(V, F, Y)]
    return found + ([loss.curvature(F, Y) @ V] if loss.smooth else [])


# Parameters --------------------------------------------------------------------------------------


def test_names_make_defaults():
    for name, cls in LOSSES.items():
        assert type(as_loss(name)) is cls
    assert as_loss("huber").kappa == 1.0


def test_a_loss_is_copied():
    loss = Huber(2.0)
    copy = as_loss(loss)
    assert copy is not loss
    assert copy.kappa == 2.0


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("hubre", "huber"), ("Hinge", "hinge"), ("pinbal", "pinball"), ("squared_hing", "squared_h")],
)
def test_unknown_name_suggests_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"Unknown loss '{name}'. Did you mean '{nearest}"):
        as_loss(name)


def test_unknown_name_lists_all():
    with pytest.raises(ValueError, match=r"Unknown loss 'x'\. Available: ") as error:
        as_loss("x")
    assert all(name in str(error.value) for name in LOSSES)


@pytest.mark.parametrize("thing", [None, 3, Huber, np.ones(2), BaseEstimator()], ids=repr)
def test_what_is_not_a_loss(thing):
    with pytest.raises(TypeError, match=r"loss must be a name or a skout\.losses object\. Got"):
        as_loss(thing)


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (Huber(0.0), ValueError, "kappa must be a finite number > 0. Got 0.0 instead."),
        (Huber(-1.0), ValueError, "kappa must be a finite number > 0. Got -1.0 instead."),
        (Huber(np.inf), ValueError, "kappa must be a finite number > 0. Got inf instead."),
        (Huber("1"), TypeError, "kappa must be a finite number > 0. Got '1' instead."),
        (EpsilonInsensitive(-0.1), ValueError, "epsilon must be a finite number >= 0. Got -0.1"),
        (SquaredEpsilonInsensitive(-1), ValueError, "epsilon must be a finite number >= 0. Got -1"),
        (EpsilonInsensitive(None), TypeError, "epsilon must be a finite number >= 0. Got None"),
        (Pinball(0.0), ValueError, "tau must lie strictly between 0 and 1. Got 0.0 instead."),
        (Pinball(1), ValueError, "tau must lie strictly between 0 and 1. Got 1 instead."),
        (Pinball(np.nan), ValueError, "tau must lie strictly between 0 and 1. Got nan instead."),
        (Pinball([0.5, 1.5]), ValueError, "tau must lie strictly between 0 and 1. Got [0.5, 1.5]"),
        (Pinball("high"), TypeError, "tau must be a number or a list of numbers. Got 'high'"),
        (Pinball([]), TypeError, "tau must be a number or a list of numbers. Got []"),
        (Pinball([[0.5]]), TypeError, "tau must be a number or a list of numbers. Got [[0.5]]"),
        (Pinball(None), TypeError, "tau must be a number or a list of numbers. Got None"),
    ],
    ids=lambda part: repr(part) if isinstance(part, BaseEstimator) else "",
)
def test_parameters_are_checked(loss, error, message):
    with pytest.raises(error, match=re.escape(message)):
        as_loss(loss)


def test_levels_must_match_the_outputs():
    loss = Pinball([0.1, 0.9])
    loss.check_outputs(2)
    Pinball(0.5).check_outputs(7)
    with pytest.raises(ValueError, match="tau has 2 levels but y has 3 outputs: give one for each"):
        loss.check_outputs(3)
    with pytest.raises(ValueError, match="tau has 2 levels but y has 3 outputs"):
        check_loss(loss, d=3)


@pytest.mark.parametrize("loss", [loss for _, loss in [*ALL, LEVELS]], ids=[*IDS, "levels"])
def test_clone_keeps_the_parameters(loss):
    copy = clone(loss)
    assert copy is not loss
    assert repr(copy.get_params()) == repr(loss.get_params())
    assert repr(copy) == repr(loss)


class Holder(BaseEstimator):
    """Anything that keeps a loss, as a regressor will."""

    def __init__(self, loss="squared"):
        self.loss = loss


def test_parameters_are_reached_through_their_owner():
    holder = clone(Holder(Huber(2.0)))
    assert holder.get_params()["loss__kappa"] == 2.0
    holder.set_params(loss__kappa=3.0)
    assert holder.loss.kappa == 3.0
    holder.set_params(loss=Pinball(), loss__tau=[0.1, 0.9])
    assert holder.loss.tau == [0.1, 0.9]
    with pytest.raises(ValueError, match="Invalid parameter 'kappa' for estimator Pinball"):
        holder.set_params(loss__kappa=1.0)


def test_arguments_are_left_alone():
    rng = np.random.default_rng(0)
    for loss in (*DEFAULTS.values(), LEVELS[1]):
        Y = targets(loss, rng, (10, 3))
        F = rng.standard_normal((10, 3))
        copies = F.copy(), Y.copy()
        for method in (loss.value, loss.gradient, loss.conjugate, loss.clip, loss.variable):
            method(F, Y)
        if loss.smooth:
            loss.curvature(F, Y)
        assert_array_equal(F, copies[0])
        assert_array_equal(Y, copies[1])
