"""Closed forms from moments, against augmented least squares."""

import warnings

import numpy as np
import oracles_predictor as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skout._numerics.linalg import ridge_solve
from skout.basis.moments import Moments
from skout.solvers.ridge import dual_ridge, ridge, ridge_errors, ridge_paths


def data(seed=0, n=40, p=6, d=2):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, p)) + 1.0
    T = Z[:, :d] + rng.standard_normal((n, d)) + 3.0
    return Z, T, rng.uniform(0.1, 2.0, n)


def moments(Z, T, w=None):
    return Moments.of_block(Z.copy(), T, w)


def objective(Z, T, w, alpha, coef, intercept):
    """Mean of half the squared error, plus alpha/2 ||B||^2."""
    error = ((T - Z @ coef - intercept) ** 2).sum(axis=1)
    return (w * error).sum() / w.sum() / 2 + alpha / 2 * (coef**2).sum()


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_the_closed_form(alpha, weighted):
    Z, T, w = data()
    w = w if weighted else np.ones(len(Z))
    coef, intercept = ridge(moments(Z, T, w), alpha)
    A = Z.T @ (w[:, None] * Z) + w.sum() * alpha * np.eye(6)
    assert_allclose(coef, np.linalg.solve(A, Z.T @ (w[:, None] * T)), rtol=1e-9)
    assert_allclose(intercept, 0.0)


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_intercept_is_an_unpenalised_column(alpha, weighted):
    Z, T, w = data()
    w = w if weighted else np.ones(len(Z))
    expected = oracle.ridge_with_intercept(Z, T, w, alpha)
    found = ridge(moments(Z, T, w), alpha, fit_intercept=True)
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@given(
    seed=st.integers(0, 99),
    alpha=st.floats(1e-4, 10.0),
    fit_intercept=st.booleans(),
    direction=st.integers(0, 99),
)
def test_ridge_minimises_the_objective(seed, alpha, fit_intercept, direction):
    Z, T, w = data(seed)
    coef, intercept = ridge(moments(Z, T, w), alpha, fit_intercept)
    least = objective(Z, T, w, alpha, coef, intercept)
    rng = np.random.default_rng(direction)
    for size in (1e-3, 1.0):
        step = size * rng.standard_normal(coef.shape)
        shift = size * rng.standard_normal(intercept.shape) * fit_intercept
        assert objective(Z, T, w, alpha, coef + step, intercept + shift) > least
        assert objective(Z, T, w, alpha, coef - step, intercept - shift) > least


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_path_is_ridge_at_each_alpha(fit_intercept):
    Z, T, w = data()
    alphas = [1e-8, 1e-3, 1.0, 100.0]
    sums = moments(Z, T, w)
    for alpha, found in zip(alphas, ridge_paths(sums, alphas, fit_intercept), strict=True):
        for ours, theirs in zip(found, ridge(sums, alpha, fit_intercept), strict=True):
            assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_from_moments_are_those_of_the_rows(weighted, fit_intercept):
    Z, T, w = data()
    w = w if weighted else np.ones(len(Z))
    coef, intercept = ridge(moments(Z[:20], T[:20], w[:20]), 1e-2, fit_intercept)
    found = ridge_errors(moments(Z[20:], T[20:], w[20:]), coef, intercept)
    squared = (T[20:] - Z[20:] @ coef - intercept) ** 2
    assert_allclose(found, np.average(squared, axis=0, weights=w[20:]), rtol=1e-10)


def test_errors_of_a_perfect_fit_are_not_negative():
    Z, _, _ = data()
    coef = np.ones((6, 2))
    errors = ridge_errors(moments(Z, Z @ coef), coef, np.zeros(2))
    assert (errors >= 0).all()
    assert (errors < 1e-12).all()


def test_alpha_zero_is_minimum_norm_least_squares():
    Z, T, _ = data(n=40)
    Z = np.hstack([Z, Z[:, :2]])  # rank 6 of 8
    coef, _ = ridge(moments(Z, T), 0.0)
    assert_allclose(coef, np.linalg.pinv(Z) @ T, atol=1e-9)
    (path,) = ridge_paths(moments(Z, T), [0.0])
    assert_allclose(path[0], coef, atol=1e-9)
    intercept = ridge(moments(Z, T), 0.0, fit_intercept=True)[1]
    centred = np.linalg.pinv(Z - Z.mean(axis=0)) @ (T - T.mean(axis=0))
    assert_allclose(intercept, T.mean(axis=0) - Z.mean(axis=0) @ centred, atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_dual_equals_primal(alpha, fit_intercept):
    Z, T, w = data(n=15, p=20)
    coef, intercept = ridge(moments(Z, T, w), alpha, fit_intercept)
    dual, dual_intercept = dual_ridge(Z @ Z.T, T, w, alpha, fit_intercept)
    assert_allclose(Z.T @ dual, coef, rtol=1e-7, atol=1e-9)
    assert_allclose(dual_intercept, intercept, rtol=1e-7, atol=1e-9)
    if fit_intercept:
        assert_allclose(dual.sum(axis=0), 0.0, atol=1e-8)


def test_dual_without_weights_is_the_textbook_formula():
    Z, T, _ = data(n=15, p=20)
    K = Z @ Z.T
    dual, _ = dual_ridge(K, T, np.ones(15), 1e-2)
    assert_allclose(dual, np.linalg.solve(K + 15 * 1e-2 * np.eye(15), T), rtol=1e-9)


def test_inputs_are_left_alone():
    Z, T, w = data(n=15)
    K = Z @ Z.T
    sums = moments(Z, T, w)
    copies = K.copy(), sums.zz.copy(), sums.zt.copy()
    dual_ridge(K, T, w, 1e-3, True)
    ridge(sums, 1e-3, True)
    ridge_paths(sums, [1e-3, 1.0], True)
    for ours, before in zip((K, sums.zz, sums.zt), copies, strict=True):
        assert_allclose(ours, before, rtol=0)


def test_a_penalty_below_rounding_warns_and_still_solves():
    A = np.diag([1.0, 1.0, 0.0])
    A[2, 2] = -1e-14  # what rounding makes of a zero eigenvalue
    B = np.array([[1.0], [2.0], [1e-14]])
    with pytest.warns(UserWarning, match="alpha is below the rounding error"):
        x = ridge_solve(A, B, 1e-18)
    assert_allclose(x, B, atol=1e-9)  # the noise is left out, as the warning says
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_allclose(ridge_solve(np.diag([1.0, 1.0, 0.0]), B, 0.0), B, atol=1e-12)
