"""Alignment: weights against the planted ones, brute force, and kernels that say nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize

from skout.kernels import (
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    PairwiseFunction,
    Polynomial,
    Scaled,
    Sum,
    Tanimoto,
)
from skout.kernels.combine import align
from skout.kernels.spectra import PeakCosine, ProbabilityProduct

constant = PairwiseFunction(lambda A, B: np.full((len(A), len(B)), 3.0))


def data(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3))


def weights(kernel: Kernel) -> list[tuple[float, Kernel]]:
    """The scaled parts of a sum, from left to right."""
    if isinstance(kernel, Sum):
        return weights(kernel.left) + weights(kernel.right)
    assert isinstance(kernel, Scaled)
    return [(kernel.factor, kernel.kernel)]


def factors(kernel: Kernel) -> np.ndarray:
    return np.array([factor for factor, _ in weights(kernel)])


def centred(K: np.ndarray) -> np.ndarray:
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


def alignment(K: np.ndarray, L: np.ndarray) -> float:
    K, L = centred(K), centred(L)
    return float(np.sum(K * L) / np.linalg.norm(K) / np.linalg.norm(L))


def combined(mu: np.ndarray, grams: list[np.ndarray]) -> np.ndarray:
    return sum(m * K for m, K in zip(mu, grams, strict=True))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_recovers_a_planted_combination(scale):
    X = data()
    parts = [Gaussian(0.5), Linear()]
    planted = scale * (0.7 * parts[0] + 0.3 * parts[1])
    found = align(parts, X, X, output_kernel=planted)
    assert_allclose(factors(found), np.array([0.7, 0.3]) / np.hypot(0.7, 0.3), rtol=1e-6)
    assert [str(kernel) for _, kernel in weights(found)] == [str(part) for part in parts]
    assert_allclose(found(X) * scale * np.hypot(0.7, 0.3), planted(X), atol=1e-6 * scale)


def test_recovers_kernels_of_different_sizes():
    """What a kernel is multiplied with, its weight is divided by."""
    X = data()
    planted = 0.7 * Gaussian(0.5) + 0.3 * Linear()
    found = factors(align([1e4 * Gaussian(0.5), 1e-3 * Linear()], X, X, output_kernel=planted))
    assert_allclose(found[1] / found[0], (0.3 / 1e-3) / (0.7 / 1e4), rtol=1e-6)
    assert_allclose(np.linalg.norm(found), 1.0)


def test_kernels_that_took_no_part_are_left_out():
    X = data()
    planted = 0.7 * Gaussian(0.5) + 0.3 * Linear()
    kernels = [Laplacian(2.0), Gaussian(0.5), Polynomial(3, gamma=1.0), Linear()]
    found = weights(align(kernels, X, X, output_kernel=planted))
    assert [type(kernel) for _, kernel in found] == [Gaussian, Linear]
    assert_allclose([w for w, _ in found], np.array([0.7, 0.3]) / np.hypot(0.7, 0.3), rtol=1e-4)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
def test_no_other_weights_are_aligned_better(seed):
    rng = np.random.default_rng(seed)
    X = data(25, seed)
    Y = np.tanh(X @ rng.standard_normal((3, 2))) + 0.3 * rng.standard_normal((25, 2))
    kernels = [Gaussian(0.1), Gaussian(3.0), Linear(), Polynomial(2, gamma=0.5)]
    target = Linear()(Y)
    best = alignment(align(kernels, X, Y)(X), target)
    grams = [kernel(X) for kernel in kernels]
    for K in grams:
        assert best >= alignment(K, target) - 1e-6
    for _ in range(30):
        mu = rng.dirichlet(np.ones(4)) / [np.linalg.norm(centred(K)) for K in grams]
        assert best >= alignment(combined(mu, grams), target) - 1e-6
    climbed = minimize(
        lambda mu: -alignment(combined(mu, grams), target), np.ones(4), bounds=[(1e-9, None)] * 4
    )
    assert best >= -climbed.fun - 1e-6


# Kernels that say little -------------------------------------------------------------------------


def test_a_constant_kernel_gets_no_weight():
    X = data()
    found = weights(align([constant, Gaussian(0.5)], X, X))
    assert [type(kernel) for _, kernel in found] == [Gaussian]
    assert found[0][0] == 1.0


def test_a_zero_kernel_gets_no_weight():
    X = data()
    zero = PairwiseFunction(lambda A, B: np.zeros((len(A), len(B))))
    assert [type(kernel) for _, kernel in weights(align([Linear(), zero], X, X))] == [Linear]


def test_duplicates_share_their_weight():
    X = data()
    planted = 0.6 * Gaussian(0.5) + 0.4 * Linear()
    kernels = [Gaussian(0.5), Linear(), Gaussian(0.5), Gaussian(0.5)]
    mu = factors(align(kernels, X, X, output_kernel=planted))
    assert_allclose(mu / mu[1], [0.5, 1.0, 0.5, 0.5], rtol=1e-5)


def test_multiples_share_their_weight():
    X = data()
    mu = factors(align([Linear(), 4.0 * Linear()], X, X))
    assert_allclose(mu[0], 4.0 * mu[1], rtol=1e-5)


def test_nearly_equal_kernels_do_not_blow_up():
    X = data()
    kernel = align([Gaussian(0.5), Gaussian(0.5 * (1 + 1e-9))], X, X, output_kernel=Gaussian(0.5))
    assert_allclose(np.sum(factors(kernel)), np.sqrt(2.0), rtol=0.3)
    assert_allclose(alignment(kernel(X), Gaussian(0.5)(X)), 1.0)


def test_a_single_kernel_has_weight_one():
    X = data()
    assert str(align([Gaussian(0.5)], X, X)) == str(Scaled(1.0, Gaussian(0.5)))


# Samples, inputs ---------------------------------------------------------------------------------


def test_the_sample_is_reproducible_and_near_the_whole():
    X = data(400)
    Y = np.sin(X[:, :1]) + X[:, 1:2]
    kernels = [Gaussian(0.5), Linear()]
    some = [factors(align(kernels, X, Y, n_samples=200, random_state=seed)) for seed in (0, 0, 1)]
    assert_allclose(some[0], some[1], rtol=0.0, atol=0.0)
    assert np.abs(some[0] - some[2]).max() > 1e-6
    whole = align(kernels, X, Y)
    best = alignment(whole(X), Y @ Y.T)
    for mu in some:
        assert best - 0.02 < alignment(combined(mu, [k(X) for k in kernels]), Y @ Y.T) <= best
    everything = align(kernels, X, Y, n_samples=400, random_state=3)
    assert_allclose(factors(everything), factors(whole))


def test_no_more_rows_are_encoded_than_sampled():
    seen = []

    def likeness(A, B):
        seen.append((len(A), len(B)))
        return np.equal.outer(A, B)

    words = np.array(list("abc") * 50)
    align([likeness], words, words, output_kernel=likeness, n_samples=20, random_state=0)
    assert set(seen) == {(20, 20)}


def test_names_lists_and_sparse_inputs():
    rng = np.random.default_rng(0)
    X = (rng.uniform(size=(40, 8)) < 0.4).astype(float)
    truth = align([Tanimoto(), Linear()], X, X, output_kernel="f1")
    for given_as in (sparse.csr_matrix(X), X.tolist(), X.astype(np.float32)):
        found = align(["tanimoto", "linear"], given_as, given_as, output_kernel="f1")
        assert_allclose(factors(found), factors(truth), rtol=1e-4)


def test_objects_that_are_no_vectors():
    """Spectra of two kinds that differ in mass; intensities mean nothing."""
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    spectra = [([100.0 + k, 120.0], rng.uniform(0.5, 1.0, 2)) for k in kind]
    blind = ProbabilityProduct(50.0, 0.1)  # sees intensities alone
    kernel = align([blind, PeakCosine()], spectra, kind[:, None])
    assert PeakCosine in [type(part) for _, part in weights(kernel)]
    target = np.outer(kind, kind)
    assert alignment(kernel(spectra), target) > 0.9 > alignment(blind(spectra), target)


def test_parameters_that_depend_on_data_become_numbers():
    X = data()
    kernel = Gaussian("median")
    found = weights(align([kernel], X, X, random_state=0))[0][1]
    assert isinstance(found.gamma, float)
    assert kernel.gamma == "median", "the kernels given are left alone"


# What is refused ---------------------------------------------------------------------------------


def test_outputs_that_are_all_the_same():
    with pytest.raises(ValueError, match="The output kernel 'linear' is constant on the sample"):
        align([Linear()], data(), np.ones((60, 1)))


def test_nothing_is_aligned():
    x = np.tile([1.0, -1.0], 10)[:, None]
    y = np.repeat([1.0, -1.0], 10)[:, None]
    with pytest.raises(ValueError, match="None of the kernels is aligned with the output kernel"):
        align([Linear(), constant], x, y)
    with pytest.raises(ValueError, match="None of the kernels is aligned"):
        align([constant], x, y)


@pytest.mark.parametrize("kernels", [[], (), "linear", Linear(), None])
def test_kernels_must_be_a_list(kernels):
    with pytest.raises(TypeError, match="kernels must be a non-empty list of kernels"):
        align(kernels, data(), data())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"Y": data(59)}, ValueError, "X and Y must be of equal length. Got 60 and 59"),
        ({"X": data(1), "Y": data(1)}, ValueError, "Alignment needs at least two rows. Got 1"),
        ({"n_samples": 1}, ValueError, "n_samples must be an integer >= 2. Got 1"),
        ({"n_samples": 2.5}, TypeError, "n_samples must be an integer >= 2. Got 2.5"),
        ({"kernels": ["lineer"]}, ValueError, "Unknown kernel 'lineer'. Did you mean 'linear'"),
        ({"output_kernel": 3}, TypeError, "A kernel must be"),
        ({"random_state": "x"}, ValueError, "random_state must be"),
        ({"X": np.full((60, 2), np.nan)}, ValueError, "NaN"),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = {"kernels": [Linear()], "X": data(), "Y": data()} | change
    with pytest.raises(error, match=message):
        align(**arguments)
