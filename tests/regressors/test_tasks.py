"""Matrices that relate outputs, by plain loops."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skout import graph_task_matrix, quantile_task_matrix

GRAPH = np.array([[0.0, 1.0, 0.0, 0.5], [1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.5, 0, 0, 0]])


# Quantile levels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.3, 7])
@pytest.mark.parametrize("levels", [[0.5], [0.9, 0.1, 0.5], np.linspace(0.05, 0.95, 7)], ids=len)
def test_quantile_matrix_is_the_formula(levels, gamma):
    M = quantile_task_matrix(levels, gamma)
    assert M.shape == (len(levels), len(levels))
    for i, a in enumerate(levels):
        for j, b in enumerate(levels):
            assert math.isclose(M[i, j], math.exp(-gamma * (a - b) ** 2), rel_tol=1e-14)


def test_quantile_matrix_at_its_ends():
    levels = [0.1, 0.5, 0.9]
    assert_array_equal(quantile_task_matrix(levels, 0.0), np.ones((3, 3)))
    assert_allclose(quantile_task_matrix(levels, 1e6), np.eye(3))
    assert np.linalg.eigvalsh(quantile_task_matrix(levels, 1.0))[0] > 0.0


def test_one_level_may_be_a_number():
    assert_array_equal(quantile_task_matrix(0.3, 1.0), [[1.0]])


@pytest.mark.parametrize(
    ("levels", "error", "message"),
    [
        ([0.0, 0.5], ValueError, r"strictly between 0 and 1. Got \[0.0, 0.5\]"),
        ([0.5, 1.0], ValueError, r"strictly between 0 and 1. Got \[0.5, 1.0\]"),
        ([0.5, np.nan], ValueError, r"strictly between 0 and 1"),
        ([10, 90], ValueError, r"strictly between 0 and 1. Got \[10, 90\]"),
        ([0.5, 0.1, 0.5], ValueError, r"quantiles must be distinct. Got \[0.5, 0.1, 0.5\]"),
        ([], TypeError, r"numbers in \(0, 1\). Got \[\]"),
        ([[0.1, 0.9]], TypeError, r"numbers in \(0, 1\). Got \[\[0.1, 0.9\]\]"),
        (["0.5"], TypeError, r"numbers in \(0, 1\). Got \['0.5'\]"),
        (None, TypeError, r"numbers in \(0, 1\). Got None"),
        ([True, False], TypeError, r"numbers in \(0, 1\)"),
    ],
    ids=str,
)
def test_bad_levels(levels, error, message):
    with pytest.raises(error, match=message):
        quantile_task_matrix(levels, 1.0)


@pytest.mark.parametrize("gamma", [-1.0, np.nan, np.inf])
def test_bad_gamma(gamma):
    with pytest.raises(ValueError, match=r"gamma must be a finite number >= 0. Got"):
        quantile_task_matrix([0.1, 0.9], gamma)


# Graphs ------------------------------------------------------------------------------------------


def laplacian(W):
    """Degrees on the diagonal, minus the weights beside it."""
    L = np.zeros_like(W)
    for i in range(len(W)):
        for j in range(len(W)):
            if i != j:
                L[i, i] += W[i, j]
                L[i, j] -= W[i, j]
    return L


@pytest.mark.parametrize("mu", [0.0, 0.25, 0.5, 0.999])
def test_graph_matrix_is_the_inverse(mu):
    M = graph_task_matrix(GRAPH, mu)
    assert_allclose(M @ (mu * laplacian(GRAPH) + (1 - mu) * np.eye(4)), np.eye(4), atol=1e-10)
    assert_allclose(M, M.T, atol=1e-12 * M.max())


def test_graph_matrix_penalises_differences():
    # f' M^-1 f = mu/2 sum_ij W_ij (f_i - f_j)^2 + (1 - mu) ||f||^2 (example 2.12)
    f, mu = np.array([1.0, -2.0, 0.5, 3.0]), 0.3
    penalty = (1 - mu) * sum(a * a for a in f)
    for i in range(4):
        for j in range(4):
            penalty += mu / 2 * GRAPH[i, j] * (f[i] - f[j]) ** 2
    assert_allclose(f @ np.linalg.solve(graph_task_matrix(GRAPH, mu), f), penalty)


def test_no_graph_is_the_identity():
    assert_allclose(graph_task_matrix(GRAPH, 0), np.eye(4), atol=1e-15)
    assert_allclose(graph_task_matrix(np.zeros((3, 3)), 0.5), 2.0 * np.eye(3))


def test_graph_alone_is_a_pseudo_inverse():
    # two components: outputs 0-1-2 and 3-4
    W = np.zeros((5, 5))
    for i, j, weight in [(0, 1, 1.0), (1, 2, 3.0), (3, 4, 0.1)]:
        W[i, j] = W[j, i] = weight
    M = graph_task_matrix(W, 1.0)
    L = laplacian(W)
    assert_allclose(L @ M @ L, L, atol=1e-12)
    assert_allclose(M @ L @ M, M, atol=1e-10)
    for common in ([1, 1, 1, 0, 0], [0, 0, 0, 1, 1]):
        assert_allclose(M @ common, 0.0, atol=1e-12)


def test_loops_of_the_graph_do_not_count():
    assert_array_equal(graph_task_matrix(GRAPH + 5 * np.eye(4), 0.5), graph_task_matrix(GRAPH, 0.5))


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (np.ones((2, 3)), r"adjacency must be a symmetric matrix. Got shape \(2, 3\)"),
        ([[0, 1], [2, 0]], r"adjacency must be a symmetric matrix"),
        ([[0, -1], [-1, 0]], r"adjacency must not be negative. Got -1"),
        ([0, 1], r"Expected 2D array"),
        ([[0, np.nan], [np.nan, 0]], r"adjacency contains NaN"),
        ([["a", "b"], ["b", "a"]], r"could not convert string to float"),
    ],
    ids=str,
)
def test_bad_adjacency(adjacency, message):
    with pytest.raises(ValueError, match=message):
        graph_task_matrix(adjacency, 0.5)


@pytest.mark.parametrize(
    ("mu", "error", "message"),
    [
        (1.5, ValueError, r"mu must lie between 0 and 1. Got 1.5"),
        (-0.1, ValueError, r"mu must be a finite number >= 0. Got -0.1"),
        (np.nan, ValueError, r"mu must be a finite number >= 0. Got nan"),
        ("1", TypeError, r"mu must be a finite number >= 0. Got '1'"),
    ],
    ids=str,
)
def test_bad_mu(mu, error, message):
    with pytest.raises(error, match=message):
        graph_task_matrix(GRAPH, mu)
