"""Every message says what was given and what is expected."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator

from skout._numerics.validation import check_choice, check_number, check_rng, check_size, resolve
from skout.kernels import KERNELS, Gaussian, PairwiseFunction, Tanimoto
from skout.kinds import KINDS
from skout.losses import LOSSES
from skout.rows import Memory, encoded, encoded_targets
from skout.rows.encode import check_weights, numbers_in
from skout.sketches import SKETCHES, SubSample

pd = extra("pandas")

# Names -------------------------------------------------------------------------------------------


def test_resolve():
    assert resolve("gaussian", KERNELS, "kernel") is Gaussian


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gaussin", "gaussian"), ("GAUSSIAN", "gaussian"), ("b", None), ("", None)],
)
def test_resolve_says_what_there_is(name, hint):
    registry = {"laplacian": 1, "gaussian": 2}
    with pytest.raises(ValueError, match="Unknown thing") as caught:
        resolve(name, registry, "thing")
    middle = f" Did you mean {hint!r}?" if hint else ""
    assert str(caught.value) == f"Unknown thing {name!r}.{middle} Available: gaussian, laplacian."


@pytest.mark.parametrize(
    ("name", "registry", "hint"),
    [
        ("classification", KINDS, "classes"),
        ("regression", KINDS, "numbers"),
        ("nystroem", SKETCHES, "subsample"),
        ("l1", LOSSES, "pinball"),
        ("l1", {"classes": 1}, None),
    ],
)
def test_resolve_knows_the_names_of_others(name, registry, hint):
    with pytest.raises(ValueError, match="Unknown thing") as caught:
        resolve(name, registry, "thing")
    assert (f"Did you mean {hint!r}?" in str(caught.value)) == (hint is not None)


def test_check_choice():
    check_choice("a", "mode", ("a", "b"))
    check_choice(0.5, "nu", (0.5, 1.5))
    with pytest.raises(ValueError, match=re.escape("mode must be one of 'left', 'right'. Got 'c'")):
        check_choice("c", "mode", ("left", "right"))
    with pytest.raises(ValueError, match=re.escape("Got 'rihgt' instead. Did you mean 'right'?")):
        check_choice("rihgt", "mode", ("left", "right"))
    with pytest.raises(ValueError, match=re.escape("nu must be one of 0.5, 1.5. Got None")):
        check_choice(None, "nu", (0.5, 1.5))


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1.5, np.float32(2.0), np.int64(3)])
def test_good_numbers(value):
    assert check_number(value, "alpha") is value


@pytest.mark.parametrize("value", [-1, -1e-9, np.nan, np.inf, -np.inf, np.float32("nan")])
def test_numbers_out_of_range(value):
    message = f"alpha must be a finite number >= 0. Got {value!r} instead."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_number(value, "alpha")


@pytest.mark.parametrize("value", ["1", None, [1.0], True, 1j, np.ones(2)])
def test_not_numbers(value):
    with pytest.raises(TypeError, match=r"alpha must be a finite number >= 0\. Got "):
        check_number(value, "alpha")


def test_bounds():
    with pytest.raises(ValueError, match=re.escape("p must be a finite number > 0. Got 0 instead")):
        check_number(0, "p", strict=True)
    with pytest.raises(ValueError, match=re.escape("k must be an integer >= 2. Got 1 instead")):
        check_number(1, "k", low=2, integer=True)
    with pytest.raises(TypeError, match=re.escape("k must be an integer >= 2. Got 2.0 instead")):
        check_number(2.0, "k", low=2, integer=True)
    assert check_number(2, "k", low=2, integer=True) == 2


def test_check_size():
    assert check_size(3, 10, "size") == 3
    assert type(check_size(np.int32(3), 10, "size")) is int
    with pytest.warns(UserWarning, match="size=30 is larger than the number of rows, 10; using 10"):
        assert check_size(30, 10, "size") == 10
    with pytest.raises(ValueError, match=r"size must be an integer >= 1\. Got 0"):
        check_size(0, 10, "size")


def test_size_warning_points_at_the_caller():
    with pytest.warns(UserWarning, match="larger than") as caught:
        SubSample(30).draw(10, np.random.default_rng(0))
    assert "_numerics" not in caught[0].filename


# Randomness --------------------------------------------------------------------------------------


def test_check_rng():
    generator = np.random.default_rng(3)
    assert check_rng(generator) is generator
    assert check_rng(3).random() == np.random.default_rng(3).random()
    assert check_rng(np.int64(3)).random() == np.random.default_rng(3).random()
    assert check_rng(None).random() != check_rng(None).random()


def test_check_rng_of_a_random_state():
    one, other = (check_rng(np.random.RandomState(0)).random() for _ in range(2))
    assert one == other
    state = np.random.RandomState(0)
    assert check_rng(state).random() != check_rng(state).random(), "the state must move on"


@pytest.mark.parametrize("random_state", ["a", -1, 1.5, object()])
def test_wrong_random_state(random_state):
    with pytest.raises(ValueError, match="random_state must be None, an int, a numpy Generator"):
        check_rng(random_state)


# Rows, targets, weights --------------------------------------------------------------------------


class Anything(BaseEstimator):
    """Stands for an estimator."""


def check_rows(estimator, kernel, X, *, reset):
    return encoded(estimator, kernel, X, reset=reset).load()


def check_targets(y, n):
    return encoded_targets(y, Memory(np.ones((n, 1)))).load()


def test_check_rows_of_vectors():
    estimator = Anything()
    frame = pd.DataFrame(np.eye(3), columns=list("abc"))
    assert_array_equal(check_rows(estimator, Gaussian(), frame, reset=True), np.eye(3))
    assert estimator.n_features_in_ == 3
    assert list(estimator.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        check_rows(estimator, Gaussian(), frame.rename(columns={"a": "z"}), reset=False)
    check_rows(estimator, Gaussian(), np.eye(3), reset=True)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        check_rows(estimator, Gaussian(), np.ones((2, 2)), reset=False)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        check_rows(estimator, Gaussian(), np.full((2, 3), np.nan), reset=True)


def test_check_rows_encodes():
    with pytest.raises(ValueError, match="Tanimoto takes 0/1 vectors or counts"):
        check_rows(Anything(), Tanimoto(), -np.eye(3), reset=True)
    rows = check_rows(Anything(), Tanimoto(), sparse.coo_matrix(np.eye(3)), reset=True)
    assert rows.format == "csr"
    words = check_rows(Anything(), PairwiseFunction(max), ["a", "b"], reset=True)
    assert_array_equal(words, np.array(["a", "b"], dtype=object))


def test_check_targets():
    for y in ([1, 2, 3], np.arange(3), np.ones((3, 2)), np.ones((3, 1), dtype=np.float32)):
        checked = check_targets(y, 3)
        assert checked.dtype in (np.float64, np.float32)
        assert_array_equal(checked, y)
    assert check_targets(np.ones(3, dtype=np.float32), 3).dtype == np.float32


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([1.0, np.nan, 2.0], "Input y contains NaN"),
        ([1.0, np.inf, 2.0], "Input y contains infinity"),
        (np.ones((3, 2, 2)), "dim 3|shape"),
        ([1.0, 2.0], r"X and y must have the same number of rows.*3 and 2"),
        (["a", "b", "c"], "could not convert string to float"),
    ],
)
def test_wrong_targets(y, message):
    with pytest.raises(ValueError, match=message):
        check_targets(y, 3)


def test_check_weights():
    X = np.ones((3, 2))
    assert check_weights(None, X) is None
    assert_array_equal(check_weights([1, 2, 0], X), [1.0, 2.0, 0.0])
    assert check_weights([1, 2, 0], X).dtype == np.float64
    assert_array_equal(check_weights(2.0, X), [2.0, 2.0, 2.0])
    assert_array_equal(check_weights([1, 2, 0], sparse.csr_matrix(X)), [1.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], "(?i)negative"),
        ([1.0, np.nan, 1.0], "NaN"),
        ([1.0, 1.0], r"sample_weight.shape == \(2,\), expected \(3,\)"),
        (np.ones((3, 1)), "1D array or scalar"),
        ([0.0, 0.0, 0.0], "(?i)sample.weight"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, np.ones((3, 2)))


@pytest.mark.parametrize("unit", ["ns", "us"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
@pytest.mark.parametrize("more", [{}, {"b": np.arange(9.0)}])
@pytest.mark.parametrize("name", ["X", "y"])
def test_dates_are_refused_in_every_time_zone(name, more, zone, unit):
    days = pd.date_range("2020-01-01", periods=9, tz=zone, unit=unit)
    frame = pd.DataFrame({"a": days, **more})
    check = {
        "X": lambda: check_rows(BaseEstimator(), Gaussian(), frame, reset=True),
        "y": lambda: check_targets(frame, 9),
    }[name]
    with pytest.raises(TypeError, match=f"{name} must hold numbers. Got dates or times"):
        check()


class Name(str):
    """A name of a column that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_the_names_of_columns_are_not_compared_pair_by_pair():
    frame = SimpleNamespace(columns=[Name(f"c{i}") for i in range(300)])
    with numbers_in(frame, "X"):
        pass
    assert Name.compared < 3000
    frame.columns.append(Name("c7"))
    with (
        pytest.raises(ValueError, match="more than one column called 'c7'"),
        numbers_in(frame, "X"),
    ):
        pass
