"""Newton directions: (sum_i c_i J_i' K_i J_i + alpha P) x = -gradient, for x = (Theta, b).

J_i maps (Theta, b) to f_i = A' Theta' z_i + b, K_i is the curvature of row i, and P leaves out b.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from .._numerics.arrays import (
    constant,
    contiguous,
    is_spread,
    namespace,
    numpy_of,
    positions,
    row_dots,
    zeros,
)
from .._numerics.linalg import positive_solver
from .._numerics.typing import Array
from ..losses import Curvature
from .cg import CGState, conjugate_gradients
from .problem import ConvexProblem

# Systems with more unknowns than this are solved by conjugate gradients: a dense one of 2,500 takes
# 50 MB, and its factor 5e9 operations a step. It may be too large: with six related outputs and 300
# landmarks, half takes 0.07 times the CPU seconds (benchmarks/constants.py).
_DENSE = 2500
# Their relative residual, and most steps: an inexact Newton direction still descends, and the next
# one starts from a better point (Dembo, Eisenstat and Steihaug, 1982).
_CG_TOL = 1e-3
_CG_ITERATIONS = 200
# Curvature of an intercept where no row has any, so that a system has one solution: next to nothing
# beside weights that sum to one.
_FLOOR = 1e-14

Pair = tuple[Array, Array]  # of the shapes of Theta and b


def newton_direction(problem: ConvexProblem, bend: Curvature, grad: Array, grad_b: Array) -> Pair:
    """Return the direction of Theta and of b, given the gradients (p, r) and (d,)."""
    if bend.weight is not None and not bend.weight.any():
        bend = Curvature(bend.diagonal)
    p, r = grad.shape
    d = len(grad_b)
    if problem.root is None and bend.weight is None:
        return _separate(problem, bend.diagonal, grad, grad_b)
    if p * r + d <= _DENSE:
        return _joint(problem, bend, grad, grad_b)
    return _by_steps(problem, bend, grad, grad_b)


def _separate(problem: ConvexProblem, diagonal: Array, grad: Array, grad_b: Array) -> Pair:
    """Solve for each output alone: their curvatures do not mix."""
    p, d = grad.shape
    right = -namespace(grad).vstack([grad, grad_b[None]])  # (p + 1, d)
    step, used = zeros(right.shape, right), slice(0, p + int(problem.fit_intercept))
    same = d == 1 or is_spread(diagonal)
    for columns in [slice(0, d)] if same else [slice(j, j + 1) for j in range(d)]:
        S = problem.Z.gram(problem.weights * diagonal[:, columns.start])
        S = _shifted(S, p, problem.alpha)[used, used]
        step[used, columns] = positive_solver(S)(right[used, columns])
    return step[:p], step[p]


def _shifted(S: Array, size: int, alpha: float) -> Array:
    """Add alpha to the first entries of the diagonal, and next to nothing to the others."""
    S = contiguous(S)
    diagonal = S.reshape(-1)[:: len(S) + 1]  # a view
    diagonal[:size] += alpha
    diagonal[size:] += _FLOOR
    return S


def _joint(problem: ConvexProblem, bend: Curvature, grad: Array, grad_b: Array) -> Pair:
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


def _pair_grams(problem: ConvexProblem, bend: Curvature) -> Array:
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


def _by_steps(problem: ConvexProblem, bend: Curvature, grad: Array, grad_b: Array) -> Pair:
    """Solve by conjugate gradients, preconditioned by the system of the mean curvature of rows.

    They know (Theta, b) as one long column.
    """
    inverse, xp, (p, r) = _mean_curvature_solver(problem, bend), namespace(grad), grad.shape

    def column(theta: Array, b: Array) -> Array:
        return xp.concatenate([theta.reshape(-1), b])[:, None]

    def pair(v: Array) -> Pair:
        return v[: p * r, 0].reshape(p, r), v[p * r :, 0]

    def apply(v: Array) -> Array:
        theta, b = pair(v)
        W = problem.weights[:, None] * (bend @ problem.predict(theta, b))
        pulled = problem.unmix(problem.Z.adjoint(W)) + problem.alpha * theta
        return column(pulled, W.sum(axis=0))

    def precondition(v: Array) -> Array:
        return column(*inverse(pair(v)))

    right = column(-grad, -grad_b * problem.fit_intercept)
    z = precondition(right)
    state = CGState(0.0 * right, right, z, (right * z).sum(0))
    goal = _CG_TOL**2 * state.squared
    steps = conjugate_gradients(apply, precondition, state)
    for state in itertools.islice(steps, _CG_ITERATIONS):
        if state.squared <= goal:
            break
    return pair(state.x)


def _mean_curvature_solver(problem: ConvexProblem, bend: Curvature) -> Callable[[Pair], Pair]:
    """Return the inverse of the system in which each K_i is a multiple of the identity.

    In the eigenvectors V of M = V L V' that system has one block an output.
    """
    d = problem.Y.shape[1]
    mean = bend.diagonal.mean(axis=1)
    if bend.weight is not None and bend.u is not None:
        mean = mean + bend.weight * row_dots(bend.u, bend.u) / d
    S = problem.Z.gram(problem.weights * mean)
    p, on, xp = len(S) - 1, int(problem.fit_intercept), namespace(S)
    if problem.root is None:
        solve = positive_solver(_shifted(S, p, problem.alpha)[: p + on, : p + on])

        def invert(x: Pair) -> Pair:
            y = solve(xp.vstack([x[0], x[1][None]])[: p + on])
            return y[:p], y[p] if on else zeros((d,), y)

        return invert
    root = numpy_of(problem.root)
    scales = np.sqrt(row_dots(root, root))  # sqrt of L
    V = constant((root / scales[:, None]).T, S)  # (d, r)
    solvers = []
    for scale in np.unique(scales):  # equal scales share a system
        weights = constant(np.append(np.full(p, scale), 1.0), S)
        block = _shifted(weights[:, None] * S * weights, p, problem.alpha)
        columns = positions(np.flatnonzero(scales == scale), S)
        solvers.append((columns, positive_solver(block[: p + on, : p + on])))

    def invert_mixed(x: Pair) -> Pair:
        theta, turned = zeros(x[0].shape, S), x[1] @ V
        for columns, solve in solvers:
            y = solve(xp.vstack([x[0][:, columns], turned[None, columns]])[: p + on])
            theta[:, columns] = y[:p]
            turned[columns] = y[p] if on else 0.0
        rest = (x[1] - V @ (V.T @ x[1])) / (S[p, p] + _FLOOR)  # no Theta reaches these
        return theta, V @ turned + rest * on

    return invert_mixed
