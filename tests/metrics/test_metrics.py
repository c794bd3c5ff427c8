"""Losses and similarities of objects and numbers against plain loops over the formulas."""

import math
import re
from itertools import pairwise

import numpy as np
import oracles
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics import mean_pinball_loss, r2_score

from skout import metrics
from skout.kernels import Gaussian, Linear, Normalized, Polynomial
from skout.metrics import (
    arrmse,
    coverage,
    crossing_loss,
    interval_width,
    kernel_loss,
    kernel_similarity,
    mse,
    pinball_loss,
    r2,
    relative_mse,
    rrmse,
    targets,
)

pd = extra("pandas")

CASES = {
    "linear": ("linear", oracles.linear),
    "polynomial": (Polynomial(2, gamma=0.5, coef0=1.0), oracles.polynomial(2, 0.5, 1.0)),
    "gaussian": (Gaussian(0.3), oracles.gaussian(0.3)),
    "tanimoto": ("tanimoto", oracles.tanimoto),
    "f1": ("f1", oracles.f1),
    "callable": (lambda A, B: A @ B.T, oracles.linear),
}
each_case = pytest.mark.parametrize(("kernel", "oracle"), CASES.values(), ids=list(CASES))


def test_every_metric_is_public():
    assert metrics.__all__ == sorted(metrics.__all__)
    assert all(callable(getattr(metrics, name)) for name in metrics.__all__)


def pairs(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Label sets and guesses; some empty, some right."""
    rng = np.random.default_rng(0)
    true, guess = rng.integers(0, 2, size=(2, n, 5)).astype(np.float64)
    true[0] = guess[0] = guess[1] = 0.0
    guess[2:10] = true[2:10]
    return true, guess


@each_case
def test_kernel_loss(kernel, oracle):
    true, guess = pairs()
    expected = np.mean(
        [oracle(a, a) - 2 * oracle(a, b) + oracle(b, b) for a, b in zip(true, guess, strict=True)]
    )
    loss = kernel_loss(kernel, true, guess)
    assert isinstance(loss, float)
    assert_allclose(loss, expected, rtol=1e-10)


@each_case
def test_kernel_similarity(kernel, oracle):
    true, guess = pairs()
    cosine = oracles.normalized(oracle)
    expected = np.mean([cosine(a, b) for a, b in zip(true, guess, strict=True)])
    similarity = kernel_similarity(kernel, true, guess)
    assert isinstance(similarity, float)
    assert_allclose(similarity, expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in CASES.values()], ids=list(CASES))
def test_perfect_predictions(kernel):
    true, _ = pairs()
    assert_allclose(kernel_similarity(kernel, true, true), 1.0, rtol=1e-12)
    assert_allclose(kernel_loss(kernel, true, true), 0.0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.3), "tanimoto"])
def test_sparse_outputs(kernel):
    true, guess = pairs()
    for metric in (kernel_loss, kernel_similarity):
        expected = metric(kernel, true, guess)
        found = metric(kernel, sparse.csr_matrix(true), sparse.csr_matrix(guess))
        assert_allclose(found, expected, rtol=1e-10)


def test_linear_loss_is_the_squared_error():
    true, guess = np.random.default_rng(0).standard_normal((2, 20, 3))
    expected = np.mean(np.sum((true - guess) ** 2, axis=1))
    assert_allclose(kernel_loss("linear", true, guess), expected)


def test_opposite_predictions():
    X = np.random.default_rng(0).standard_normal((20, 3))
    assert_allclose(kernel_similarity("linear", X, -X), -1.0)


def test_similarity_is_the_normalized_kernel():
    true, guess = pairs()
    assert_allclose(
        kernel_similarity(Linear(), true, guess),
        np.mean(Normalized(Linear()).paired(true, guess)),
    )


def test_objects_of_norm_zero():
    """Alike to each other and to nothing else."""
    zero, one = np.zeros((1, 2)), np.ones((1, 2))
    assert kernel_similarity("linear", zero, zero) == 1.0
    assert kernel_similarity("linear", zero, one) == 0.0
    assert kernel_similarity("tanimoto", zero, zero) == 1.0
    assert kernel_similarity("tanimoto", zero, one) == 0.0


def test_strings():
    def equal(A, B):
        return np.array([[float(a == b) for b in B] for a in A])

    assert kernel_similarity(equal, ["a", "b", "c", "d"], ["a", "b", "c", "x"]) == 0.75
    assert kernel_loss(equal, ["a", "b", "c", "d"], ["a", "b", "c", "x"]) == 0.5


@pytest.mark.parametrize("metric", [kernel_loss, kernel_similarity])
def test_mistakes(metric):
    with pytest.raises(ValueError, match=r"equal length\. Got 2 and 3"):
        metric("linear", np.ones((2, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="same number of columns"):
        metric("linear", np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"Unknown kernel 'liner'\. Did you mean 'linear'"):
        metric("liner", np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="gamma='scale' depends on the data"):
        metric("gaussian", np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="NaN"):
        metric("linear", np.ones((2, 2)), np.full((2, 2), np.nan))


@pytest.mark.parametrize("metric", [kernel_loss, kernel_similarity])
def test_no_pairs(metric):
    """The mean of nothing is a mistake, not NaN."""
    with pytest.raises(ValueError, match=r"(?i)empty|at least one|0 sample"):
        metric("linear", np.empty((0, 2)), np.empty((0, 2)))


# Quantiles, targets and intervals: the formulas in plain loops ------------------------------------


def loop_mean(rows, weights=None):
    weights = [1.0] * len(rows) if weights is None else weights
    return math.fsum(w * r for w, r in zip(weights, rows, strict=True)) / math.fsum(weights)


def loop_pinball(y, F, levels, weights=None):
    rows = []
    for target, row in zip(y, F, strict=True):
        cost = 0.0
        for tau, guess in zip(levels, row, strict=True):
            cost += tau * max(target - guess, 0.0) + (1.0 - tau) * max(guess - target, 0.0)
        rows.append(cost)
    return loop_mean(rows, weights)


def loop_crossing(F, levels, weights=None):
    rows = []
    for row in F:
        guesses = [guess for _, guess in sorted(zip(levels, row, strict=True))]
        rows.append(sum(max(a - b, 0.0) for a, b in pairwise(guesses)))
    return loop_mean(rows, weights)


def loop_rrmse(Y, F, mean):
    errors = []
    for j in range(len(mean)):
        above = sum((y[j] - f[j]) ** 2 for y, f in zip(Y, F, strict=True))
        below = sum((y[j] - mean[j]) ** 2 for y in Y)
        errors.append(math.sqrt(above / below))
    return errors


LEVELS = np.array([0.7, 0.05, 0.5, 0.9])  # in no order


def quantile_predictions(n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, predictions that cross at places, and weights, one of them 0."""
    rng = np.random.default_rng(0)
    y, weights = rng.standard_normal(n), rng.uniform(0.5, 2.0, n)
    weights[0] = 0.0
    return y, LEVELS + rng.standard_normal((n, len(LEVELS))), weights


weighted = pytest.mark.parametrize("weighted", [False, True])


@weighted
def test_pinball_loss(weighted):
    y, F, weights = quantile_predictions()
    weights = weights if weighted else None
    loss = pinball_loss(y, F, LEVELS, weights)
    assert isinstance(loss, float)
    assert_allclose(loss, loop_pinball(y, F, LEVELS, weights), rtol=1e-12)
    sklearn = [
        mean_pinball_loss(y, f, alpha=tau, sample_weight=weights)
        for tau, f in zip(LEVELS, F.T, strict=True)
    ]
    assert_allclose(loss, sum(sklearn), rtol=1e-12)


def test_pinball_loss_of_one_level():
    y, F, _ = quantile_predictions()
    expected = mean_pinball_loss(y, F[:, 0], alpha=0.7)
    for f in (F[:, 0], F[:, :1], F[:, 0].tolist()):
        for level in (0.7, [0.7], np.float64(0.7)):
            assert_allclose(pinball_loss(y, f, level), expected, rtol=1e-12)


def test_pinball_loss_has_its_minimum_at_the_quantile():
    y = np.random.default_rng(0).exponential(size=999)
    grid = np.linspace(0.0, 5.0, 501)
    for tau in (0.1, 0.5, 0.9):
        losses = [pinball_loss(y, np.full(len(y), f), tau) for f in grid]
        assert_allclose(grid[np.argmin(losses)], np.quantile(y, tau), atol=0.02)


@weighted
def test_crossing_loss(weighted):
    _, F, weights = quantile_predictions()
    weights = weights if weighted else None
    loss = crossing_loss(F, LEVELS, weights)
    assert isinstance(loss, float)
    assert loss > 0.1
    assert_allclose(loss, loop_crossing(F, LEVELS, weights), rtol=1e-12)
    increasing = F[:, [1, 2, 0, 3]]
    assert_allclose(crossing_loss(increasing, sample_weight=weights), loss, rtol=1e-12)


def test_crossing_loss_of_one_level():
    assert crossing_loss([[3.0], [1.0]], 0.5) == 0.0


@pytest.mark.parametrize("train_mean", [None, [0.5, -1.0, 7.0]])
def test_rrmse(train_mean):
    Y, noise = np.random.default_rng(0).standard_normal((2, 40, 3))
    F = Y + noise * [0.1, 1.0, 3.0]
    mean = [loop_mean(y) for y in Y.T] if train_mean is None else train_mean
    expected = loop_rrmse(Y, F, mean)
    found = rrmse(Y, F, train_mean)
    assert found.shape == (3,)
    assert_allclose(found, expected, rtol=1e-12)
    average = arrmse(Y, F, train_mean)
    assert isinstance(average, float)
    assert_allclose(average, sum(expected) / 3, rtol=1e-12)


def test_rrmse_and_the_coefficient_of_determination():
    Y, F = np.random.default_rng(0).standard_normal((2, 40, 3))
    assert_allclose(rrmse(Y, F) ** 2, 1.0 - r2_score(Y, F, multioutput="raw_values"), rtol=1e-12)


def test_rrmse_of_the_training_mean_is_one():
    Y = np.random.default_rng(0).standard_normal((40, 3))
    mean = np.array([0.5, -1.0, 7.0])
    assert_allclose(rrmse(Y, np.tile(mean, (40, 1)), mean), 1.0, rtol=1e-12)
    assert np.all(rrmse(Y, np.tile(mean, (40, 1))) > 1.0)  # the mean of Y itself is better


def test_rrmse_of_one_target():
    y, f = np.random.default_rng(0).standard_normal((2, 40))
    expected = rrmse(y[:, None], f[:, None], [0.5])
    for mean in (0.5, [0.5]):
        assert_allclose(rrmse(y, f, mean), expected, rtol=1e-15)


def test_relative_mse():
    y, f = np.random.default_rng(0).uniform(-5.0, 9.0, (2, 50))
    squares = [(a - b) ** 2 for a, b in zip(y, f, strict=True)]
    loss = relative_mse(y, f)
    assert isinstance(loss, float)
    assert_allclose(loss, loop_mean(squares) / (max(y) - min(y)), rtol=1e-12)


def test_relative_mse_divides_by_the_range_unless_told():
    assert relative_mse([0.0, 4.0], [2.0, 4.0]) == 0.5


@weighted
def test_coverage(weighted):
    rng = np.random.default_rng(0)
    y, low, high = rng.integers(0, 6, (3, 80))  # ties with the ends, and empty intervals
    weights = rng.uniform(0.0, 2.0, 80) if weighted else None
    inside = [float(a <= t <= b) for t, a, b in zip(y, low, high, strict=True)]
    share = coverage(y, low, high, weights)
    assert isinstance(share, float)
    assert 0.05 < share < 0.95
    assert_allclose(share, loop_mean(inside, weights), rtol=1e-12)


def test_coverage_includes_the_ends():
    y = np.arange(5.0)
    assert coverage(y, y, y) == 1.0
    assert coverage(y, y + 0.5, y - 0.5) == 0.0  # ends the wrong way round
    assert coverage(y, y + 0.5, y + 1.0) == coverage(y, y - 1.0, y - 0.5) == 0.0


def test_interval_width():
    low, high = np.random.default_rng(0).standard_normal((2, 30))
    widths = [max(b - a, 0.0) for a, b in zip(low, high, strict=True)]
    width = interval_width(low, high)
    assert isinstance(width, float)
    assert_allclose(width, loop_mean(widths), rtol=1e-12)
    assert_allclose(interval_width(low, low + 2.5), 2.5, rtol=1e-12)


# Properties ---------------------------------------------------------------------------------------


def matrices(min_side=1):
    """Matrices of quarters: many ties, no rounding."""
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=min_side, max_side=5)
    return hnp.arrays(np.float64, shapes, elements=st.integers(-12, 12).map(lambda k: k / 4))


@given(F=matrices(), seed=st.integers(0, 2**32 - 1))
def test_sorting_never_costs(F, seed):
    rng = np.random.default_rng(seed)
    levels = np.sort(rng.uniform(0.01, 0.99, F.shape[1]))
    y = rng.uniform(-3.0, 3.0, len(F))
    sorted_loss = pinball_loss(y, np.sort(F, axis=1), levels)
    assert sorted_loss <= pinball_loss(y, F, levels) + 1e-12


@given(F=matrices(min_side=2))
def test_nothing_crosses_only_in_sorted_rows(F):
    is_sorted = bool(np.all(np.diff(F, axis=1) >= 0.0))
    assert (crossing_loss(F) == 0.0) == is_sorted
    assert crossing_loss(np.sort(F, axis=1)) == 0.0


@given(F=matrices(min_side=2), data=st.data())
def test_crossing_loss_follows_the_levels_not_the_columns(F, data):
    levels = np.linspace(0.1, 0.9, F.shape[1])
    order = data.draw(st.permutations(range(F.shape[1])))
    assert crossing_loss(F[:, order], levels[order]) == crossing_loss(F)


@given(ends=matrices(min_side=2), seed=st.integers(0, 2**32 - 1))
def test_coverage_is_a_share(ends, seed):
    rng = np.random.default_rng(seed)
    y, weights = rng.integers(-12, 13, len(ends)) / 4, rng.uniform(0.1, 1.0, len(ends))
    low, high = ends[:, 0], ends[:, 1]
    share = coverage(y, low, high, weights)
    assert 0.0 <= share <= 1.0 + 1e-12
    assert coverage(y, low - 1.0, high + 1.0, weights) >= share - 1e-12
    assert interval_width(low, high) >= 0.0


@given(factor=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_whole_weights_are_repeated_rows(factor, seed):
    rng = np.random.default_rng(seed)
    y, (low, high) = rng.standard_normal(6), rng.standard_normal((2, 6))
    times = rng.integers(0, 3, 6)
    times[0] = factor
    F, tau, again = np.column_stack([low, high]), [0.2, 0.8], np.repeat(np.arange(6), times)
    assert_allclose(pinball_loss(y, F, tau, times), pinball_loss(y[again], F[again], tau))
    assert_allclose(crossing_loss(F, tau, times), crossing_loss(F[again], tau))
    expected = coverage(y[again], low[again], high[again])
    assert_allclose(coverage(y, low, high, times), expected)


# Holes ------------------------------------------------------------------------------------------


def with_holes(rng, n, d):
    Y, F = rng.standard_normal((2, n, d))
    hidden = rng.random((n, d)) < 0.4
    hidden[:2] = False
    return Y, F, np.where(hidden, np.nan, Y), ~hidden


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_missing_in_the_truth_is_left_out(weighted):
    rng = np.random.default_rng(0)
    Y, F, holed, known = with_holes(rng, 30, 3)
    w = rng.uniform(0.5, 2.0, 30) if weighted else None
    own = [(Y[k, j], F[k, j], None if w is None else w[k]) for j, k in enumerate(known.T)]
    expected = [np.average((y - f) ** 2, weights=u) for y, f, u in own]
    assert_allclose(mse(holed, F, w), np.mean(expected))
    expected = [r2_score(y, f, sample_weight=u) for y, f, u in own]
    assert_allclose(r2(holed, F, w), np.mean(expected))
    expected = [rrmse(y, f)[0] for y, f, _ in own]
    assert_allclose(rrmse(holed, F), expected)
    assert_allclose(arrmse(holed, F), np.mean(expected))
    y, f, u = own[0]
    assert_allclose(relative_mse(holed[:, 0], F[:, 0]), relative_mse(y, f))
    assert_allclose(pinball_loss(holed[:, 0], F[:, 0], 0.3, w), pinball_loss(y, f, 0.3, u))
    found = coverage(holed[:, 0], F[:, 0] - 1, F[:, 0] + 1, w)
    assert_allclose(found, coverage(y, f - 1, f + 1, u))


def test_without_holes_r2_is_that_of_scikit_learn():
    Y, F, _, _ = with_holes(np.random.default_rng(1), 20, 2)
    assert_allclose(r2(Y, F), r2_score(Y, F))
    assert_allclose(mse(Y, F), np.mean((Y - F) ** 2))


# Mistakes -----------------------------------------------------------------------------------------

Y1, Y2 = np.arange(4.0), np.arange(8.0).reshape(4, 2)
# Every array argument of every metric, in a call that is right.
CALLS = {
    pinball_loss: {"y_true": Y1, "y_pred": Y2, "quantiles": [0.1, 0.9], "sample_weight": Y1},
    crossing_loss: {"y_pred": Y2, "quantiles": [0.1, 0.9], "sample_weight": Y1},
    rrmse: {"Y_true": Y2, "Y_pred": Y2, "train_mean": [0.0, 1.0]},
    arrmse: {"Y_true": Y2, "Y_pred": Y2, "train_mean": [0.0, 1.0]},
    mse: {"Y_true": Y2, "Y_pred": Y2, "sample_weight": Y1},
    r2: {"Y_true": Y2, "Y_pred": Y2, "sample_weight": Y1},
    relative_mse: {"y_true": Y1, "y_pred": Y1},
    coverage: {"y_true": Y1, "lower": Y1, "upper": Y1, "sample_weight": Y1},
    interval_width: {"lower": Y1, "upper": Y1},
}
each_argument = pytest.mark.parametrize(
    ("metric", "name"),
    [(metric, name) for metric, arguments in CALLS.items() for name in arguments],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)


def test_every_metric_is_tried_with_mistakes():
    of_objects = {"integrated_squared_error"}  # see test_curves.py
    own = [f for f in vars(targets).values() if getattr(f, "__module__", "") == targets.__name__]
    public = {f.__name__ for f in own if not f.__name__.startswith("_")}
    assert {metric.__name__ for metric in CALLS} == public - of_objects
    for metric, arguments in CALLS.items():
        metric(**arguments)


@each_argument
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(metric, name, bad):
    value = np.array(CALLS[metric][name], dtype=np.float64)
    value.flat[1] = bad
    if np.isnan(bad) and name in ("y_true", "Y_true"):  # a hole; all of a column are too many
        metric(**CALLS[metric] | {name: value})
        value[:] = value.flat[1]
        with pytest.raises(ValueError, match=rf"^{name} must be .*finite.*Got nan at index"):
            metric(**CALLS[metric] | {name: value})
        return
    index = r"\(1,\)" if value.ndim == 1 else r"\(0, 1\)"
    with pytest.raises(ValueError, match=rf"^{name} must be .*finite.*Got {bad} at index {index}"):
        metric(**CALLS[metric] | {name: value})


@each_argument
def test_wrong_number_of_axes(metric, name):
    value = np.ones((4, 2, 1))
    with pytest.raises(ValueError, match=rf"^{name} must be .* shape .*Got shape \(4, 2, 1\)"):
        metric(**CALLS[metric] | {name: value})


@each_argument
def test_nothing_given(metric, name):
    value = np.empty((0, *np.shape(CALLS[metric][name])[1:]))
    with pytest.raises(ValueError, match=rf"^{name} must be .*Got an empty array of shape \(0"):
        metric(**CALLS[metric] | {name: value})


@each_argument
@pytest.mark.parametrize(
    "bad", [["a", "b"], [1j, 2j], [[1.0], [1.0, 2.0]], sparse.csr_matrix(np.eye(2)), [10**400]]
)
def test_no_real_numbers(metric, name, bad):
    kind = type(bad).__name__
    with pytest.raises(TypeError, match=rf"^{name} must be an array of finite numbers.*Got {kind}"):
        metric(**CALLS[metric] | {name: bad})


@each_argument
def test_one_row_too_few(metric, name):
    """Also columns: 3 levels or means for 2 columns."""
    value = np.asarray(CALLS[metric][name], dtype=np.float64)
    value = np.array([0.1, 0.5, 0.9]) if len(value) == 2 else value[:-1]
    names = rf"({name}|sample_weight)"  # only weights count the rows of crossing_loss
    with pytest.raises(ValueError, match=rf"{names}.* must have .*Got .*3.*instead") as caught:
        metric(**CALLS[metric] | {name: value})
    assert re.search(r"\b[42]\b", str(caught.value).partition("Got")[2])


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 50])
def test_levels_outside_the_unit_interval(bad):
    text = r"^quantiles must lie strictly between 0 and 1\. Got \[0\.5, " + re.escape(str(bad))
    with pytest.raises(ValueError, match=text):
        pinball_loss(Y1, Y2, [0.5, bad])
    with pytest.raises(ValueError, match=text):
        crossing_loss(Y2, [0.5, bad])


def test_levels_and_columns():
    with pytest.raises(ValueError, match=r"one level for each column.*Got 1 and 2 columns"):
        pinball_loss(Y1, Y2, 0.5)
    with pytest.raises(ValueError, match=r"one level for each column.*Got 4 and 1 columns"):
        pinball_loss(Y1, Y1, [0.2, 0.4, 0.6, 0.8])  # (n,) is one level, even where n = q
    with pytest.raises(ValueError, match=r"quantiles must all be different\. Got \[0\.5, 0\.5\]"):
        crossing_loss(Y2, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"^y_pred must .* shape \(n, q\)\. Got shape \(4,\)"):
        crossing_loss(Y1)


@pytest.mark.parametrize("metric", [pinball_loss, crossing_loss, coverage])
def test_weights(metric):
    text = r"^sample_weight must hold no negative number, and a positive one\. Got numbers from "
    with pytest.raises(ValueError, match=text + "-1 to 2 instead"):
        metric(**CALLS[metric] | {"sample_weight": [1.0, 2.0, -1.0, 2.0]})
    with pytest.raises(ValueError, match=text + "0 to 0 instead"):
        metric(**CALLS[metric] | {"sample_weight": np.zeros(4)})


@pytest.mark.parametrize("metric", [rrmse, arrmse])
def test_constant_targets(metric):
    Y = np.column_stack([np.full(1000, 0.1), np.arange(1000.0), np.full(1000, 3.0)])
    assert np.any(Y.mean(axis=0)[[0, 2]] != Y[0, [0, 2]])  # rounding hides that it is constant
    with pytest.raises(ValueError, match=r"Y_true must differ.*Got constant columns \[0, 2\]"):
        metric(Y, Y + 1.0)
    with pytest.raises(ValueError, match=r"Y_true must differ.*Got constant columns \[2\]"):
        metric(Y, Y + 1.0, [0.0, 0.0, 3.0])
    with pytest.raises(ValueError, match=r"Y_true must differ.*Got constant columns \[0\]"):
        metric([0.0, 1e-200], [1.0, 1.0])  # the square is 0
    assert_allclose(rrmse(Y, Y + 1.0, [1.1, 0.0, 1.0])[[0, 2]], [1.0, 0.5])  # no mistake


def test_mistakes_of_relative_mse():
    with pytest.raises(ValueError, match=r"y_true must have a positive range.*constant 3 instead"):
        relative_mse([3.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize("metric", list(CALLS), ids=lambda metric: metric.__name__)
def test_kinds_of_arrays(metric):
    """Lists, float32, data frames and read-only arrays give what float64 arrays give."""
    expected = metric(**CALLS[metric])
    for convert in (np.ndarray.tolist, lambda a: a.astype(np.float32), as_frame, read_only):
        arguments = {name: convert(np.asarray(a)) for name, a in CALLS[metric].items()}
        assert_allclose(metric(**arguments), expected, rtol=1e-6)


def as_frame(a):
    return pd.DataFrame(a) if a.ndim == 2 else pd.Series(a)


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a
