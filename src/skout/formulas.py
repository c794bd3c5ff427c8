"""The methods of the papers in plain NumPy: to read, to teach, to compare with.

Each function is a formula, written as the papers write it, with dense matrices and nothing of the
rest of skout. Numbers such as (4.10) are of T. El Ahmad's thesis; J is the paper on p-sparsified
sketches (TMLR 2023), A the one on SISOKR (AISTATS 2024). The library computes the same numbers in
other ways, for more rows: `tests/house/test_formulas.py` compares them.

Everywhere K, or K_X and K_Y of inputs and outputs, are the kernel values of the n training objects
with each other, shape (n, n). K_test has those of test inputs with training inputs, (n_test, n);
K_Yc those of training outputs with candidates, (n, n_candidates). R, or R_X and R_Y, is a sketch of
shape (m, n), and alpha, a float > 0, the lambda of the papers. A pseudo-inverse stands where the
papers have one, so that rows may repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "coordinates",
    "decode",
    "dsokr_gradient",
    "dsokr_loss",
    "gaussian",
    "huber_gradient",
    "iokr_scores",
    "isokr_scores",
    "p_sparsified",
    "projected_kernel",
    "pseudo_inverse",
    "ridge_weights",
    "siokr_scores",
    "sisokr_scores",
    "sketched_machine",
    "sketched_ridge_weights",
]

Array: TypeAlias = NDArray[Any]


def gaussian(A: Array, B: Array, gamma: float) -> Array:
    """Return k(a, b) = exp(-gamma ||a - b||^2) for all rows of A and B (example 2.2)."""
    squared: Array = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2)
    return np.exp(-gamma * squared)


def pseudo_inverse(A: Array) -> Array:
    """Return the pseudo-inverse of a symmetric matrix."""
    return np.linalg.pinv(A, rcond=1e-12, hermitian=True)


# Chapter 3: sketches and machines ----------------------------------------------------------------


def p_sparsified(
    m: int, n: int, p: float, rng: np.random.Generator, distribution: str = "rademacher"
) -> Array:
    """Return a p-sparsified sketch R of shape (m, n) (definition 3.18; J definition 5).

    Entries are independent: 0 with probability 1 - p, otherwise a sign or a standard normal number
    over sqrt(m p), so that the mean of R'R is the identity.
    """
    kept = rng.random((m, n)) < p
    signs = rng.integers(0, 2, size=(m, n)) * 2.0 - 1.0
    entries = signs if distribution == "rademacher" else rng.standard_normal((m, n))
    sketch: Array = kept * entries / np.sqrt(m * p)
    return sketch


def coordinates(K_rows: Array, K: Array, R: Array, tol: float = 1e-12) -> Array:
    """Return z(x) = D^(-1/2) U' R k(x), a row for each row of K_rows (2.73; J proposition 1).

    R K R' = U D U'; eigenvalues below `tol` times the largest count as zero. `K_rows` has the
    kernel values of new objects with the n training objects, `K` those of the training objects with
    each other. Of outputs these are the coordinates that a network of DSOKR predicts (5.8).
    """
    eigenvalues, U = np.linalg.eigh(R @ K @ R.T)
    kept = eigenvalues > tol * eigenvalues[-1]
    Z: Array = K_rows @ R.T @ U[:, kept] / np.sqrt(eigenvalues[kept])
    return Z


def huber_gradient(F: Array, Y: Array, kappa: float = 1.0) -> Array:
    """Return the gradient of Huber's loss in F, row by row (2.127): residuals, at most kappa long.

    The loss is r^2 / 2 up to kappa and kappa (r - kappa / 2) beyond, r the length of f - y.
    """
    residual = F - Y
    length = np.linalg.norm(residual, axis=1, keepdims=True)
    gradient: Array = residual * np.minimum(1.0, kappa / np.maximum(length, 1e-300))
    return gradient


def sketched_machine(
    Z: Array,
    Y: Array,
    alpha: float,
    gradient: Callable[[Array, Array], Array] = huber_gradient,
    n_steps: int = 5000,
) -> Array:
    """Return the minimizer of mean loss(Z c, Y) + alpha/2 ||c||^2 (3.11; J (11)).

    Z are coordinates of the inputs, of shape (n, r), Y targets of shape (n, d). `gradient` is that
    of the loss in its first argument, with slope at most 1; then this is Nesterov's gradient
    descent for strongly convex functions, with steps of one over the largest curvature.
    """
    n = len(Z)
    curvature = np.linalg.norm(Z, 2) ** 2 / n + alpha
    ratio = np.sqrt(alpha / curvature)
    momentum = (1.0 - ratio) / (1.0 + ratio)
    c = ahead = np.zeros((Z.shape[1], Y.shape[1]))
    for _ in range(n_steps):
        slope = Z.T @ gradient(Z @ ahead, Y) / n + alpha * ahead
        c, last = ahead - slope / curvature, c
        ahead = c + momentum * (c - last)
    return c


# Chapters 2 and 4: from kernels to kernels -------------------------------------------------------


def ridge_weights(K_test: Array, K: Array, alpha: float) -> Array:
    """Return k(x)' (K + n alpha I)^-1, a row for each test object (2.32; A (3)).

    Times targets they are the predictions of kernel ridge regression.
    """
    n = len(K)
    return np.linalg.solve(K + n * alpha * np.eye(n), K_test.T).T


def sketched_ridge_weights(K_test: Array, K: Array, R: Array, alpha: float) -> Array:
    """Return k(x)' R' (R K^2 R' + n alpha R K R')^+ R K, the input side of (4.10)."""
    inner = R @ K @ K @ R.T + len(K) * alpha * (R @ K @ R.T)
    return K_test @ R.T @ pseudo_inverse(inner) @ R @ K


def iokr_scores(K_test: Array, K: Array, K_Yc: Array, alpha: float) -> Array:
    """Return the scores S of IOKR, shape (n_test, n_candidates) (2.34), (4.6); A (6)."""
    return ridge_weights(K_test, K, alpha) @ K_Yc


def siokr_scores(K_test: Array, K: Array, K_Yc: Array, R_X: Array, alpha: float) -> Array:
    """Return the scores S of SIOKR, which sketches inputs alone: (4.11) with R_Y = I."""
    return sketched_ridge_weights(K_test, K, R_X, alpha) @ K_Yc


def isokr_scores(
    K_test: Array, K: Array, K_Y: Array, K_Yc: Array, R_Y: Array, alpha: float
) -> Array:
    """Return the scores S of ISOKR, which sketches outputs alone: (4.9), the input side exact."""
    projection = K_Y @ R_Y.T @ pseudo_inverse(R_Y @ K_Y @ R_Y.T) @ R_Y
    scores: Array = ridge_weights(K_test, K, alpha) @ projection @ K_Yc
    return scores


def sisokr_scores(
    K_test: Array, K_X: Array, K_Y: Array, K_Yc: Array, R_X: Array, R_Y: Array, alpha: float
) -> Array:
    """Return the scores S of SISOKR: K_test R_X' Omega' R_Y K_Yc (4.11), Omega as in (4.10).

    A: (8), and Omega in proposition 1.
    """
    K_tilde_X, K_tilde_Y = R_X @ K_X @ R_X.T, R_Y @ K_Y @ R_Y.T
    inner = R_X @ K_X @ K_X @ R_X.T + len(K_X) * alpha * K_tilde_X
    omega = pseudo_inverse(K_tilde_Y) @ R_Y @ K_Y @ K_X @ R_X.T @ pseudo_inverse(inner)
    scores: Array = K_test @ R_X.T @ omega.T @ R_Y @ K_Yc
    return scores


def projected_kernel(K_a: Array, K_b: Array, K_tilde: Array) -> Array:
    """Return <P psi(a), P psi(b)> = (R k_a)' (R K R')^+ (R k_b) (2.72); A (7).

    `K_a` and `K_b` are k(a, .) R' and k(b, .) R', `K_tilde` is R K R'.
    """
    return K_a @ pseudo_inverse(K_tilde) @ K_b.T


def decode(S: Array, norms: Array) -> Array:
    """Return the best candidate of each row of S: arg min k(c, c) - 2 S (4.5), (5.17); A (5).

    `norms` has k(c, c), shape (n_candidates,). Ties go to the first candidate.
    """
    best: Array = np.argmin(norms - 2.0 * S, axis=1)
    return best


# Chapter 5: what a network is trained by ---------------------------------------------------------


def dsokr_loss(G: Array, T: Array, norms: Array) -> Array:
    """Return the loss ||h(x) - psi(y)||^2 = ||g||^2 - 2 g't + k(y, y) of each row (5.11).

    G are the coordinates that a network predicts, T those of the outputs (`coordinates`), `norms`
    has k(y, y). (5.13) leaves out k(y, y) - ||t||^2, which no network changes.
    """
    loss: Array = (G**2).sum(axis=1) - 2.0 * (G * T).sum(axis=1) + norms
    return loss


def dsokr_gradient(G: Array, T: Array) -> Array:
    """Return the gradient of `dsokr_loss` in G, 2 (g - t), which is back-propagated (5.14)."""
    return 2.0 * (G - T)
