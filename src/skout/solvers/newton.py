"""Newton directions: (sum_i c_i J_i' K_i J_i + alpha P) x = -gradient, for x = (Theta, b).

J_i maps (Theta, b) to f_i = A' Theta' z_i + b, K_i is the curvature of row i, and P leaves out b.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._numerics.linalg import positive_solver
from ..losses import Curvature
from .problem import Problem

__all__ = ["newton_direction"]

# Systems with more unknowns than this are solved by conjugate gradients.
_DENSE = 2500
_CG_TOL = 1e-3
_CG_ITERATIONS = 200
# Curvature of an intercept where no row has any.
_FLOOR = 1e-14

Pair = tuple[np.ndarray, np.ndarray]  # of the shapes of Theta and b


def newton_direction(
    problem: Problem, bend: Curvature, grad: np.ndarray, grad_b: np.ndarray
) -> Pair:
    """Return the direction of Theta and of b.

    Parameters
    ----------
    problem : Problem
    bend : Curvature
    grad : ndarray of shape (p, r)
    grad_b : ndarray of shape (d,)
    """
    if bend.weight is not None and not bend.weight.any():
        bend = Curvature(bend.diagonal)
    p, r = grad.shape
    d = len(grad_b)
    if problem.root is None and bend.weight is None:
        return _separate(problem, bend.diagonal, grad, grad_b)
    if p * r + d <= _DENSE:
        return _joint(problem, bend, grad, grad_b)
    return _conjugate_gradients(problem, bend, grad, grad_b)


def _separate(problem: Problem, diagonal: np.ndarray, grad: np.ndarray, grad_b: np.ndarray) -> Pair:
    """Solve for each output alone: their curvatures do not mix."""
    p, d = grad.shape
    right = -np.vstack([grad, grad_b])  # (p + 1, d)
    step = np.zeros_like(right)
    used = slice(0, p + int(problem.fit_intercept))
    same = d == 1 or diagonal.strides[1] == 0
    groups = [slice(0, d)] if same else [slice(j, j + 1) for j in range(d)]
    for some in groups:
        S = problem.Z.gram(problem.weights * diagonal[:, some.start])
        step[used, some] = positive_solver(_penalised(S, problem)[used, used])(right[used, some])
    return step[:p], step[p]


def _penalised(S: np.ndarray, problem: Problem) -> np.ndarray:
    """Add alpha I, and next to nothing for the intercept, in place."""
    S[np.diag_indices_from(S)] += np.append(np.full(len(S) - 1, problem.alpha), _FLOOR)
    return S


def _joint(problem: Problem, bend: Curvature, grad: np.ndarray, grad_b: np.ndarray) -> Pair:
    """Solve for all outputs at once, from the weighted Gram matrices of each pair of outputs."""
    p, r = grad.shape
    d = len(grad_b)
    A = np.eye(d) if problem.root is None else problem.root
    S = _pair_grams(problem, bend)  # (d, d, p + 1, p + 1)
    half = np.tensordot(A, S, axes=(1, 0))  # (r, d, p + 1, p + 1)
    full = np.tensordot(A, half, axes=(1, 1))  # (r, r, p + 1, p + 1)
    size = p * r
    H = np.zeros((size + d, size + d))
    H[:size, :size] = full[:, :, :p, :p].transpose(0, 2, 1, 3).reshape(size, size)
    H[:size, size:] = half[:, :, :p, p].transpose(0, 2, 1).reshape(size, d)
    H[size:, :size] = H[:size, size:].T
    H[size:, size:] = S[:, :, p, p]
    H[np.diag_indices_from(H)] += np.append(np.full(size, problem.alpha), np.full(d, _FLOOR))
    used = slice(0, size + d * int(problem.fit_intercept))
    right = -np.append(grad.T.ravel(), grad_b)
    step = np.zeros(size + d)
    step[used] = positive_solver(0.5 * (H + H.T)[used, used])(right[used])
    return step[:size].reshape(r, p).T, step[size:]


def _pair_grams(problem: Problem, bend: Curvature) -> np.ndarray:
    """Return the Gram matrix of the curvature of each pair of outputs."""
    p, d = problem.Z.shape[1], problem.Y.shape[1]
    S = np.zeros((d, d, p + 1, p + 1))
    for j in range(d):
        S[j, j] = problem.Z.gram(problem.weights * bend.diagonal[:, j])
    if bend.weight is not None and bend.u is not None:
        for j in range(d):
            for k in range(j + 1):
                cross = problem.weights * bend.weight * bend.u[:, j] * bend.u[:, k]
                S[j, k] += problem.Z.gram(cross)
                S[k, j] = S[j, k]
    return S


def _conjugate_gradients(
    problem: Problem, bend: Curvature, grad: np.ndarray, grad_b: np.ndarray
) -> Pair:
    """Solve by conjugate gradients, preconditioned by the system of the mean curvature of rows."""
    precondition = _mean_curvature_solver(problem, bend)

    def apply(x: Pair) -> Pair:
        dF = problem.predict(*x)
        W = problem.weights[:, None] * (bend @ dF)
        return problem.unmix(problem.Z.adjoint(W)) + problem.alpha * x[0], W.sum(axis=0)

    x: Pair = (np.zeros_like(grad), np.zeros_like(grad_b))
    residual: Pair = (-grad, -grad_b * problem.fit_intercept)
    z = precondition(residual)
    direction, rho = z, _dot(residual, z)
    goal = _CG_TOL**2 * rho
    for _ in range(_CG_ITERATIONS):
        if rho <= goal:
            break
        image = apply(direction)
        t = rho / _dot(direction, image)
        x = _sum(x, t, direction)
        residual = _sum(residual, -t, image)
        z = precondition(residual)
        rho, previous = _dot(residual, z), rho
        direction = _sum(z, rho / previous, direction)
    return x


def _mean_curvature_solver(problem: Problem, bend: Curvature) -> Callable[[Pair], Pair]:
    """Return the inverse of the system in which each K_i is a multiple of the identity.

    In the eigenvectors V of M = V L V' that system has one block an output.
    """
    d = problem.Y.shape[1]
    mean = bend.diagonal.mean(axis=1)
    if bend.weight is not None and bend.u is not None:
        mean = mean + bend.weight * np.einsum("ij,ij->i", bend.u, bend.u) / d
    S = problem.Z.gram(problem.weights * mean)
    p, on = len(S) - 1, int(problem.fit_intercept)
    if problem.root is None:
        solve = positive_solver(_penalised(S, problem)[: p + on, : p + on])

        def invert(x: Pair) -> Pair:
            y = solve(np.vstack([x[0], x[1][None]])[: p + on])
            return y[:p], y[p] if on else np.zeros(d)

        return invert
    scales = np.sqrt(np.einsum("ij,ij->i", problem.root, problem.root))  # sqrt of L
    V = (problem.root / scales[:, None]).T  # (d, r)
    groups = [np.flatnonzero(scales == scale) for scale in np.unique(scales)]
    solvers = []
    for some in groups:  # equal scales share a system
        weights = np.append(np.full(p, scales[some[0]]), 1.0)
        block = _penalised(weights[:, None] * S * weights, problem)
        solvers.append(positive_solver(block[: p + on, : p + on]))

    def invert_mixed(x: Pair) -> Pair:
        theta, turned = np.empty_like(x[0]), x[1] @ V
        for some, solve in zip(groups, solvers, strict=True):
            y = solve(np.vstack([x[0][:, some], turned[None, some]])[: p + on])
            theta[:, some] = y[:p]
            turned[some] = y[p] if on else 0.0
        rest = (x[1] - V @ (V.T @ x[1])) / (S[p, p] + _FLOOR)  # no Theta reaches these
        return theta, V @ turned + rest * on

    return invert_mixed


def _dot(x: Pair, y: Pair) -> float:
    return float(np.sum(x[0] * y[0]) + x[1] @ y[1])


def _sum(x: Pair, t: float, y: Pair) -> Pair:
    return x[0] + t * y[0], x[1] + t * y[1]
