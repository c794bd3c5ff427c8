"""Spectra that are known in closed form, and the definitions of the thesis word for word."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout import KernelBasis
from skout.kernels import Gaussian
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.theory import (
    KSatisfiability,
    critical_radius,
    eigen_decay,
    k_satisfiability,
    reconstruction_error,
    satisfiability_constant,
    spectrum,
    statistical_dimension,
    theorem_3_19_size,
    theorem_4_9_size,
)

SPECTRA = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30)


def rows(n=40, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def polynomial(n, gamma):
    """mu_i = i^(-1/gamma)."""
    return np.arange(1.0, n + 1.0) ** (-1.0 / gamma)


def with_spectrum(mu, seed=0):
    """A Gram matrix K such that K / n has these eigenvalues, and its eigenvectors."""
    U = np.linalg.qr(rows(len(mu), len(mu), seed))[0]
    K = len(mu) * (U * mu) @ U.T
    return (K + K.T) / 2.0, U


def sobolev_points(n):
    return (np.arange(1, n + 1) / n)[:, None]


def sobolev(A, B):
    """First-order Sobolev kernel min(x, y) on [0, 1]."""
    return np.minimum(A, B.T)


def sobolev_spectrum(n):
    """K^-1 / n is tridiagonal (2, -1; 1 in the last corner), with known eigenvalues."""
    angle = (2.0 * np.arange(1, n + 1) - 1.0) * np.pi / (2.0 * (2.0 * n + 1.0))
    return 1.0 / (4.0 * n**2 * np.sin(angle) ** 2)


# Spectra -----------------------------------------------------------------------------------------


def test_spectrum_of_a_linear_kernel_is_that_of_the_second_moments():
    X = rows(30, 3)
    expected = np.sort(np.linalg.eigvalsh(X.T @ X / 30))[::-1]
    values = spectrum("linear", X)
    assert_allclose(values[:3], expected, rtol=1e-10)
    assert_allclose(values[3:], 0.0, atol=1e-14)
    assert values.min() >= 0.0


def test_spectrum_of_the_sobolev_kernel():
    assert_allclose(spectrum(sobolev, sobolev_points(60)), sobolev_spectrum(60), rtol=1e-9)


def test_spectrum_resolves_widths_and_keeps_duplicates():
    X = np.repeat(rows(5), 4, axis=0)
    values = spectrum("gaussian", X)
    assert len(values) == 20
    assert_allclose(values.sum(), 1.0)  # the mean of k(x, x)
    assert_allclose(values[5:], 0.0, atol=1e-14)


# Critical radius ---------------------------------------------------------------------------------


def holds(x, mu):
    """The condition on delta^2 = x, as it is written."""
    return math.sqrt(sum(min(x, m) for m in mu) / len(mu)) <= x


@given(SPECTRA)
def test_critical_radius_is_the_least_that_satisfies_the_condition(mu):
    x = critical_radius(mu)
    assert holds(x * (1 + 1e-9), mu)
    assert holds(x * 10, mu)
    assert not holds(x * (1 - 1e-9), mu)


@pytest.mark.parametrize(
    "mu", [polynomial(50, 0.5), polynomial(7, 1.0), np.exp(-rows(20, 1)[:, 0])]
)
def test_critical_radius_against_a_grid(mu):
    grid = np.geomspace(1e-6, 10.0, 20_001)
    first = grid[np.argmax([holds(x, mu) for x in grid])]
    assert_allclose(critical_radius(mu), first, rtol=1e-3)


def test_critical_radius_in_closed_form():
    assert_allclose(critical_radius(np.eye(25)), 1.0 / math.sqrt(25))  # mu_i = 1/n
    assert_allclose(critical_radius([1.0] * 3 + [0.0] * 97), 3 / 100)  # rank 3
    assert critical_radius(np.zeros(4)) == 0.0


def test_critical_radius_of_the_sobolev_kernel_falls_like_n_to_the_minus_two_thirds():
    n = np.array([100, 1000, 10_000])
    scaled = [critical_radius(sobolev_spectrum(m)) * m ** (2 / 3) for m in n]
    assert_allclose(scaled, scaled[-1], rtol=0.02)


@given(SPECTRA)
def test_statistical_dimension_is_the_first_index_below_the_radius(mu):
    x = critical_radius(mu)
    ordered = sorted(mu, reverse=True)
    below = [j for j, value in enumerate(ordered, start=1) if value <= x]
    assert statistical_dimension(mu) == (below[0] if below else len(mu))


def test_dimension_of_finite_rank():
    assert statistical_dimension([1.0] * 3 + [0.0] * 97) == 4
    assert statistical_dimension([5.0]) == 1  # no index lies below, so n


def test_a_spectrum_may_be_given_in_three_ways():
    X = rows()
    kernel = Gaussian(0.5)
    expected = critical_radius(spectrum(kernel, X))
    for source in (kernel(X), (kernel, X), spectrum(kernel, X)[::-1]):
        assert_allclose(critical_radius(source), expected, rtol=1e-8)
        assert statistical_dimension(source) == statistical_dimension((kernel, X))
    assert critical_radius(("gaussian", X)) != expected  # a name stands for another width


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1.0, -0.5], "eigenvalues of a kernel matrix must be >= 0. Got one of -0.5"),
        ([1.0, np.nan], "Input eigenvalues contains NaN"),
        ([], "minimum of 1 is required"),
        (np.ones((2, 3)), r"K must be a square Gram matrix. Got shape \(2, 3\)"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "K must be a symmetric Gram matrix"),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), "eigenvalues of a kernel matrix must be >= 0"),
        (("gaussiann", np.eye(2)), "Did you mean 'gaussian'"),
        (("linear", np.empty((0, 2))), r"0 sample\(s\)"),
    ],
)
def test_errors_of_spectra(source, message):
    with pytest.raises(ValueError, match=message):
        critical_radius(source)


# K-satisfiability --------------------------------------------------------------------------------


def naive_norms(K, R):
    """Definition 3.4 by singular values."""
    n = len(K)
    values, U = np.linalg.eigh(K / n)
    values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
    delta2 = critical_radius(values)
    d = statistical_dimension(values)
    first = np.linalg.norm((R @ U[:, :d]).T @ (R @ U[:, :d]) - np.eye(d), 2)
    second = np.linalg.norm(R @ U[:, d:] @ np.diag(np.sqrt(values[d:])), 2) if d < n else 0.0
    return first, second / math.sqrt(delta2)


@pytest.mark.parametrize(
    "sketch", [GaussianSketch(20), PSparsified(15, p=0.3), SubSample(12)], ids=lambda s: str(s)
)
def test_norms_are_those_of_the_definition(sketch):
    K, _ = with_spectrum(polynomial(40, 0.5))
    draw = sketch.draw(40, np.random.default_rng(3))
    result = k_satisfiability(K, draw)
    assert_allclose((result.isometry, result.tail), naive_norms(K, draw.toarray()), rtol=1e-9)
    assert result == k_satisfiability(K, draw.toarray())
    assert result.dimension == statistical_dimension(K)
    assert_allclose(result.delta2, critical_radius(K))


def test_the_identity_is_satisfiable_with_c_1_and_zero_is_not():
    K, _ = with_spectrum(polynomial(30, 0.5))
    exact = k_satisfiability(K, np.eye(30))
    assert exact.isometry < 1e-12
    assert 0.0 < exact.tail <= 1.0  # mu_{d+1} <= delta^2
    assert exact.satisfied(1.0)
    assert not exact.satisfied(0.9 * exact.tail)
    zero = k_satisfiability(K, np.zeros((5, 30)))
    assert_allclose((zero.isometry, zero.tail), (1.0, 0.0))
    assert not zero.satisfied(100.0)


def test_both_norms_count():
    assert KSatisfiability(0.5, 2.0, 0.1, 3).satisfied(2.0)
    assert not KSatisfiability(0.51, 2.0, 0.1, 3).satisfied(2.0)
    assert not KSatisfiability(0.5, 2.1, 0.1, 3).satisfied(2.0)


def test_large_gaussian_sketches_are_satisfiable_and_small_ones_not():
    X = rows(150, 2)
    rng = np.random.default_rng(0)
    large = k_satisfiability((Gaussian(0.5), X), GaussianSketch(120).draw(150, rng))
    small = k_satisfiability((Gaussian(0.5), X), GaussianSketch(2).draw(150, rng))
    assert large.satisfied(9.0)
    assert not small.satisfied(9.0)


def test_finite_rank_has_no_tail_and_few_rows_no_second_block():
    result = k_satisfiability(("linear", rows(60, 2)), np.eye(60))
    assert result.dimension == 3
    assert result.tail < 1e-6
    assert k_satisfiability(np.array([[2.0]]), np.array([[1.0]])).tail == 0.0


def test_errors_of_k_satisfiability():
    with pytest.raises(TypeError, match=r"GaussianSketch\(size=5\)\.draw\(30, np"):
        k_satisfiability(("linear", rows(30, 2)), GaussianSketch(5))
    with pytest.raises(ValueError, match="draw must be a sketch of 3 rows, as K is"):
        k_satisfiability(np.eye(3), np.eye(4))
    with pytest.raises(ValueError, match="K must not be zero"):
        k_satisfiability(np.zeros((3, 3)), np.eye(3))


# Reconstruction error ----------------------------------------------------------------------------


def test_reconstruction_error_is_the_distance_to_the_span():
    X, test = rows(4, 6), rows(10, 6, seed=1)
    basis = KernelBasis("linear", SubSample(4), random_state=0).fit(X)
    left = test.T - X.T @ np.linalg.lstsq(X.T, test.T, rcond=None)[0]
    expected = math.sqrt(np.mean(np.sum(left**2, axis=0)))
    assert_allclose(reconstruction_error(basis, test), expected, rtol=1e-9)
    assert reconstruction_error(basis, X) < 1e-7


# Exponents ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20, 60, 500])
@pytest.mark.parametrize("gamma", [0.2, 0.5, 0.75, 1.0])
def test_polynomial_decay_is_found_exactly(gamma, n):
    decay = eigen_decay(polynomial(n, gamma))
    assert_allclose(decay.gamma, gamma, rtol=1e-6)
    assert decay.mu is None


def test_decay_is_found_in_noise_and_with_duplicates():
    noisy = polynomial(400, 0.5) * np.exp(0.3 * rows(400, 1)[:, 0])
    assert_allclose(eigen_decay(noisy).gamma, 0.5, atol=0.03)
    repeated = np.append(polynomial(200, 0.5), np.full(300, 1e-17))  # each object more than twice
    assert_allclose(eigen_decay(repeated).gamma, 0.5, atol=0.01)
    lifted = np.append(polynomial(250, 0.5), np.full(250, 1e-9))
    assert_allclose(eigen_decay(lifted).gamma, 0.5, atol=0.01)


def test_decay_of_the_sobolev_kernel():
    assert_allclose(eigen_decay(sobolev_spectrum(1000)).gamma, 0.5, atol=0.03)
    decay = eigen_decay((sobolev, sobolev_points(200)))
    assert_allclose(decay.gamma, 0.5, atol=0.06)
    assert 0.0 <= decay.mu < 0.05


@pytest.mark.parametrize("n", [20, 100])
def test_finite_rank_has_gamma_0_and_a_flat_spectrum_1(n):
    for d in (1, 3):
        decay = eigen_decay(("linear", rows(n, d)))
        assert decay.gamma < 0.02
        assert decay.mu < 0.1
    flat = eigen_decay(np.eye(n))
    assert flat.gamma == 1.0
    assert flat.mu < 1e-10
    assert eigen_decay(np.diag([1.0] * 3 + [0.0] * (n - 3))).gamma < 0.02


@given(st.floats(1e-8, 1e8))
def test_exponents_do_not_depend_on_the_scale(scale):
    K, _ = with_spectrum(polynomial(30, 0.6))
    one, other = eigen_decay(K), eigen_decay(scale * K)
    assert_allclose((other.gamma, other.mu), (one.gamma, one.mu), atol=1e-6)


def test_embedding_exponent_is_0_if_all_objects_are_alike():
    n = 100
    angle = 2.0 * np.pi * np.arange(n) / n
    first = sum(j**-2.0 * np.cos(j * angle) for j in range(1, n // 2))
    circulant = first[np.subtract.outer(np.arange(n), np.arange(n)) % n]
    decay = eigen_decay(circulant)
    assert decay.mu < 1e-9
    assert_allclose(decay.gamma, 0.5, atol=0.05)


@pytest.mark.parametrize("n", [100, 200])
def test_embedding_exponent_of_a_rare_object(n):
    # n - 1 objects alike, one by itself: its N(z, t) is 1 / (1/n + t), the mean is nearly constant
    K = np.ones((n, n))
    K[-1, :-1] = K[:-1, -1] = 0.0
    t = np.geomspace(0.5, 1.0 / n, 200) * (n - 1) / n
    own, mean = 1.0 / (1.0 / n + t), 1.0 / n / (1.0 / n + t) + (1 - 1 / n) / (1 - 1 / n + t)
    slopes = np.diff(np.log(own / mean)) / -np.diff(np.log(t))
    found = eigen_decay(K).mu
    assert slopes.min() < found < slopes.max()
    assert found > 0.6


def test_errors_of_eigen_decay():
    for bad in ([1.0, 0.5, 0.1], np.zeros(10)):
        with pytest.raises(ValueError, match="at least 4 eigenvalues, not all 0"):
            eigen_decay(bad)


# Theorem 4.9 -------------------------------------------------------------------------------------


def test_sketch_size_of_theorem_4_9():
    assert_allclose(theorem_4_9_size(10_000, 1 / 3, 1 / 3), 100.0)  # the thesis's example, n^(1/2)
    assert_allclose(theorem_4_9_size(10_000, 0.5, 0.25, nu2=2.0), 2.0 * 10_000**0.5)
    assert_allclose(theorem_4_9_size(100, 0.0, 0.0, nu2=4.0, delta=0.01), 16.0 * math.log(100.0))
    assert_allclose(theorem_4_9_size(10_000, 1.0, 1.0), 100.0)  # (4.16)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 10**6))
def test_size_grows_with_n_and_mu(gamma, mu, n):
    size = theorem_4_9_size(n, gamma, mu)
    assert size <= theorem_4_9_size(2 * n, gamma, mu) <= theorem_4_9_size(2 * n, gamma, 1.0)
    assert size <= max(n, math.log(10.0)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0}, "n must be an integer >= 1. Got 0 instead"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\]. Got 1.5 instead"),
        ({"mu": -0.1}, "mu must be a finite number >= 0. Got -0.1 instead"),
        ({"nu2": 0.5}, "nu2 must be a finite number >= 1. Got 0.5 instead"),
        ({"delta": 0.0}, "delta must be a finite number > 0. Got 0.0 instead"),
        ({"delta": 0.5}, r"delta must be in \(0, 1/e\]. Got 0.5 instead"),
    ],
)
def test_errors_of_the_size(change, message):
    with pytest.raises(ValueError, match=message):
        theorem_4_9_size(**({"n": 100, "gamma": 0.5, "mu": 0.5} | change))


def test_inputs_stay_as_they_are():
    mu = polynomial(10, 0.5)[::-1].copy()
    mu.flags.writeable = False
    K = np.eye(6)
    K.flags.writeable = False
    critical_radius(mu), statistical_dimension(mu), eigen_decay(mu), eigen_decay(K)
    k_satisfiability(K, np.eye(6))
    assert_array_equal(mu, polynomial(10, 0.5)[::-1])


# Theorem 3.19 ------------------------------------------------------------------------------------


def test_the_size_of_theorem_3_19_is_its_formula():
    mu = np.arange(1.0, 201.0) ** -2.0
    d, delta2 = statistical_dimension(mu), critical_radius(mu)
    for p, c0 in ((1.0, 1.0), (0.7, 1.0), (0.1, 3.0), (1.0, 1e-6)):
        assert theorem_3_19_size(mu, p, c0) == pytest.approx(max(c0 * d / p**2, 200 * delta2))
    assert theorem_3_19_size(mu, 1.0, 1e-6) == pytest.approx(200 * delta2)  # the second of the two
    with pytest.raises(ValueError, match=r"p must be in \(0, 1\]"):
        theorem_3_19_size(mu, 1.5)


def test_corollary_3_20_touches_the_fewest_rows():
    """With m = C_0 d_n / p^2, E[m'] = n (1 - (1 - p)^m) is least where p is about 0.7."""
    shares = np.linspace(0.05, 0.99, 200)
    mu = np.r_[np.ones(3), np.zeros(997)]
    rows = [1 - (1 - p) ** theorem_3_19_size(mu, p) for p in shares]
    assert shares[np.argmin(rows)] == pytest.approx(0.7, abs=0.03)
    assert satisfiability_constant(0.7) < 9.0
    assert satisfiability_constant(1.0) == pytest.approx(2 * (1 + np.sqrt(np.log(5))) + 1)


def test_sketches_of_that_size_are_satisfiable():
    """At C_0 = 16, far below the proof's, every draw is; at a third of d_n none can be."""
    X = np.random.default_rng(0).standard_normal((300, 2))
    K = Gaussian(gamma=0.2)(X, X)
    size = int(theorem_3_19_size(K, 0.7, 16.0))
    rng = np.random.default_rng(1)
    draws = [PSparsified(size, p=0.7).draw(300, rng) for _ in range(5)]
    assert all(k_satisfiability(K, draw).satisfied(satisfiability_constant(0.7)) for draw in draws)
    few = PSparsified(max(1, statistical_dimension(K) // 3), p=0.7).draw(300, rng)
    assert not k_satisfiability(K, few).satisfied(satisfiability_constant(0.7))
