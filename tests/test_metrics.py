"""Losses and similarities of predicted objects against loops over pairs."""

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skout.kernels import Gaussian, Linear, Normalized, Polynomial
from skout.metrics import kernel_loss, kernel_similarity

CASES = {
    "linear": ("linear", oracles.linear),
    "polynomial": (Polynomial(2, gamma=0.5, coef0=1.0), oracles.polynomial(2, 0.5, 1.0)),
    "gaussian": (Gaussian(0.3), oracles.gaussian(0.3)),
    "tanimoto": ("tanimoto", oracles.tanimoto),
    "f1": ("f1", oracles.f1),
    "callable": (lambda A, B: A @ B.T, oracles.linear),
}
each_case = pytest.mark.parametrize(("kernel", "oracle"), CASES.values(), ids=list(CASES))


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


@each_case
def test_perfect_predictions(kernel, oracle):
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
