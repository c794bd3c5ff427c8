"""Newton directions: (sum_i c_i J_i' K_i J_i + alpha P) x = -gradient, for x = (Theta, b).

J_i maps (Theta, b) to f_i = A' Theta' z_i + b, K_i is the curvature of row i, and P leaves out b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._numerics.linalg import positive_solver
from .._numerics.namespace import (
    constant,
    contiguous,
    is_spread,
    namespace,
    numpy_of,
    positions,
    row_dots,
    zeros,
)
from ..losses import Curvature
from .problem import Problem

__all__ = ["newton_direction"]

# Systems with more unknowns than this are solved by conjugate gradients.
_DENSE = 2500
_CG_TOL = 1e-3
_CG_ITERATIONS = 200
# Curvature of an intercept where no row has any.
_FLOOR = 1e-14

Pair = tuple[Any, Any]  # of the shapes of Theta and b


def newton_direction(problem: Problem, bend: Curvature, grad: Any, grad_b: Any) -> Pair:
    """Return the direction of Theta and of b, given the gradients (p, r) and (d,)."""
    if bend.weight is not None and not bend.weight.any():
        bend = Curvature(bend.diagonal)
    p, r = grad.shape
    d = len(grad_b)
    if problem.root is None and bend.weight is None:
        return _separate(problem, bend.diagonal, grad, grad_b)
    if p * r + d <= _DENSE:
        return _joint(problem, bend, grad, grad_b)
    return _conjugate_gradients(problem, bend, grad, grad_b)


def _separate(problem: Problem, diagonal: Any, grad: Any, grad_b: Any) -> Pair:
    """Solve for each output alone: their curvatures do not mix."""
    p, d = grad.shape
    right = -_stacked(grad, grad_b)  # (p + 1, d)
    step = zeros(right.shape, right)
    used = slice(0, p + int(problem.fit_intercept))
    same = d == 1 or is_spread(diagonal)
    groups = [slice(0, d)] if same else [slice(j, j + 1) for j in range(d)]
    for some in groups:
        S = problem.Z.gram(problem.weights * diagonal[:, some.start])
        step[used, some] = positive_solver(_penalised(S, problem)[used, used])(right[used, some])
    return step[:p], step[p]


def _penalised(S: Any, problem: Problem) -> Any:
    """Add alpha I, and next to nothing for the intercept."""
    return _shifted(S, len(S) - 1, problem.alpha)


def _shifted(S: Any, size: int, alpha: float) -> Any:
    """Add alpha to the first entries of the diagonal, and next to nothing to the others."""
    S = contiguous(S)
    diagonal = S.reshape(-1)[:: len(S) + 1]  # a view
    diagonal[:size] += alpha
    diagonal[size:] += _FLOOR
    return S


def _stacked(theta: Any, b: Any) -> Any:
    """Return Theta and b as the rows of one matrix."""
    return namespace(theta).vstack([theta, b[None]])


def _joint(problem: Problem, bend: Curvature, grad: Any, grad_b: Any) -> Pair:
    """Solve for all outputs at once, from the weighted Gram matrices of each pair of outputs."""
    p, r = grad.shape
    d = len(grad_b)
    A = constant(np.eye(d), grad) if problem.root is None else problem.root
    S = _pair_grams(problem, bend)  # (d, d, p + 1, p + 1)
    half = A @ S.reshape(d, -1)
    full = A @ half.reshape(r, d, -1)  # one product for each row of A
    half, full = (M.reshape(r, -1, p + 1, p + 1) for M in (half, full))
    size = p * r
    H = zeros((size + d, size + d), grad)
    H[:size, :size] = full[:, :, :p, :p].swapaxes(1, 2).reshape(size, size)
    H[:size, size:] = half[:, :, :p, p].swapaxes(1, 2).reshape(size, d)
    H[size:, :size] = H[:size, size:].T
    H[size:, size:] = S[:, :, p, p]
    H = _shifted(0.5 * (H + H.T), size, problem.alpha)
    used = slice(0, size + d * int(problem.fit_intercept))
    right = -namespace(grad).concatenate([grad.T.reshape(-1), grad_b])[:, None]
    step = zeros((size + d,), grad)
    step[used] = positive_solver(H[used, used])(right[used])[:, 0]
    return step[:size].reshape(r, p).T, step[size:]


def _pair_grams(problem: Problem, bend: Curvature) -> Any:
    """Return the Gram matrix of the curvature of each pair of outputs."""
    p, d = problem.Z.shape[1], problem.Y.shape[1]
    S = zeros((d, d, p + 1, p + 1), problem.Y)
    for j in range(d):
        S[j, j] = problem.Z.gram(problem.weights * bend.diagonal[:, j])
    if bend.weight is not None and bend.u is not None:
        for j in range(d):
            for k in range(j + 1):
                cross = problem.weights * bend.weight * bend.u[:, j] * bend.u[:, k]
                S[j, k] += problem.Z.gram(cross)
                S[k, j] = S[j, k]
    return S


def _conjugate_gradients(problem: Problem, bend: Curvature, grad: Any, grad_b: Any) -> Pair:
    """Solve by conjugate gradients, preconditioned by the system of the mean curvature of rows."""
    precondition = _mean_curvature_solver(problem, bend)

    def apply(x: Pair) -> Pair:
        dF = problem.predict(*x)
        W = problem.weights[:, None] * (bend @ dF)
        return problem.unmix(problem.Z.adjoint(W)) + problem.alpha * x[0], W.sum(axis=0)

    x: Pair = (zeros(grad.shape, grad), zeros(grad_b.shape, grad))
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
        mean = mean + bend.weight * row_dots(bend.u, bend.u) / d
    S = problem.Z.gram(problem.weights * mean)
    p, on = len(S) - 1, int(problem.fit_intercept)
    if problem.root is None:
        solve = positive_solver(_penalised(S, problem)[: p + on, : p + on])

        def invert(x: Pair) -> Pair:
            y = solve(_stacked(*x)[: p + on])
            return y[:p], y[p] if on else zeros((d,), y)

        return invert
    root = numpy_of(problem.root)
    scales = np.sqrt(row_dots(root, root))  # sqrt of L
    V = constant((root / scales[:, None]).T, S)  # (d, r)
    solvers = []
    for scale in np.unique(scales):  # equal scales share a system
        weights = constant(np.append(np.full(p, scale), 1.0), S)
        block = _penalised(weights[:, None] * S * weights, problem)
        some = positions(np.flatnonzero(scales == scale), S)
        solvers.append((some, positive_solver(block[: p + on, : p + on])))

    def invert_mixed(x: Pair) -> Pair:
        theta, turned = zeros(x[0].shape, S), x[1] @ V
        for some, solve in solvers:
            y = solve(_stacked(x[0][:, some], turned[some])[: p + on])
            theta[:, some] = y[:p]
            turned[some] = y[p] if on else 0.0
        rest = (x[1] - V @ (V.T @ x[1])) / (S[p, p] + _FLOOR)  # no Theta reaches these
        return theta, V @ turned + rest * on

    return invert_mixed


def _dot(x: Pair, y: Pair) -> Any:
    return (x[0] * y[0]).sum() + x[1] @ y[1]


def _sum(x: Pair, t: Any, y: Pair) -> Pair:
    return x[0] + t * y[0], x[1] + t * y[1]
