"""Ridge regression whose outputs are related by a matrix M, with or without holes (2.13, 2.20).

With the kernel k M the coefficients C of the coordinates have the penalty tr(C M^+ C'), so that

    min_C  sum_j 1/(2 n_j) sum_i w_ij (y_ij - z_i'c_j - b_j)^2 + alpha/2 tr(C M^+ C'),

n_j = sum_i w_ij: each output counts by the mean over its own rows, and M = I leaves them apart.
Systems are `balanced` to that end: the weights of output j are w_ij n / n_j, with the mean n of all
n_j. With M = A'A, A = D^(1/2) U' from its eigendecomposition, and C = Theta A, this is

    sum_j Z'W_j Z (Theta A)_j a_j' + n alpha Theta = (Z'W T) A'.

Where all outputs have the same rows, that is a ridge with the penalty alpha / D_k for each of the
outputs T U, solved at once. Where they do not, the same solution, with the rows of each output in
proportion, is what conjugate gradients are preconditioned with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numerics.linalg import square_root, symmetric_eigen
from .cg import Run, refined
from .masked import Systems, balance

__all__ = ["MomentSystem", "Solved", "coupled", "coupled_path"]

# Relative residual of a solution, and of those on the way to a learnt matrix; most steps of each.
_TOL, _LOOSE, _STEPS = 1e-10, 1e-4, 1000
# Rounds in which M is learnt, and the change of M at which they end.
_ROUNDS, _CHANGE = 50, 1e-3
# M keeps this share of the identity, so that no direction is lost for good.
_IDENTITY = 1e-3


@dataclass
class MomentSystem(Systems):
    """Balanced systems from `Moments` or `HoledMoments` of coordinates."""

    moments: Any
    fit_intercept: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.moments.zt.shape

    @functools.cached_property
    def _parts(self) -> list[tuple[Any, Any]]:
        return [(c, self.moments.of_columns(c)) for c in self.moments.column_sets()]

    @functools.cached_property
    def _weight(self) -> np.ndarray:
        return np.broadcast_to(self.moments.weight, self.shape[1:]).astype(np.float64)

    @functools.cached_property
    def _factor(self) -> np.ndarray:
        return balance(self._weight)

    @functools.cached_property
    def n(self) -> np.ndarray:
        """Weight of the rows of each output, shape (d,)."""
        return self._factor * self._weight

    @functools.cached_property
    def z_sum(self) -> np.ndarray:
        out = np.empty(self.shape)
        for columns, own in self._parts:
            out[:, columns] = own.z_sum[:, None]
        return out * self._factor

    @functools.cached_property
    def t_sum(self) -> np.ndarray:
        return self.moments.t_sum * self._factor

    @functools.cached_property
    def spread(self) -> np.ndarray:
        squares = self.moments.tt * self._factor - self.t_sum**2 / self._safe
        return np.sqrt(np.maximum(squares, 0.0))

    @functools.cached_property
    def right(self) -> np.ndarray:
        """Z'W T, of centred rows if there is an intercept; shape (p, d)."""
        return self._centred(self.moments.zt * self._factor)

    def gram_product(self, C: np.ndarray) -> np.ndarray:
        """Return Z'W_j Z c_j for each output, of centred rows if there is an intercept."""
        out = np.empty(self.shape)
        for columns, own in self._parts:
            out[:, columns] = own.zz @ C[:, columns]
        return self._centred(out * self._factor, C)

    @functools.cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and vectors of the mean of z z' over all entries that are there."""
        p, total = self.shape[0], self.n.sum()
        A, mean = np.zeros((p, p)), self.z_sum.sum(axis=1) / total
        for columns, own in self._parts:
            A += self._factor[columns].sum() * own.zz
        A /= total
        values, vectors = symmetric_eigen(A - np.outer(mean, mean) if self.fit_intercept else A)
        return np.maximum(values, 0.0), vectors


@dataclass
class Solved:
    """Coefficients (p, d), the intercept (d,), how they were found, and M where there is one."""

    coef: np.ndarray
    intercept: np.ndarray
    report: dict[str, Any]
    task_matrix: Any = None


def coupled_path(system: Any, alphas: Sequence[float], task_matrix: Any) -> list[Solved]:
    """Solve for each alpha, roughly: from the largest on, each begins where the last one ended."""
    found: list[Any] = [None] * len(alphas)
    last: Solved | None = None
    for k in np.argsort(alphas)[::-1]:
        last = found[k] = coupled(system, alphas[k], task_matrix, tol=_LOOSE, start=last)
    return found


def coupled(
    system: Any,
    alpha: float,
    task_matrix: Any,
    *,
    tol: float = _TOL,
    start: Solved | None = None,
) -> Solved:
    """Solve balanced systems on the host with a matrix M, or with one that is "learnt".

    `tol` is the relative residual to reach, and `start` the solution of similar systems.
    """
    if isinstance(task_matrix, str):
        return learnt_task_matrix(system, alpha, tol=tol, start=start)
    coef, run = _solved(system, alpha, task_matrix, tol, None if start is None else start.coef)
    report = {
        "solver": "direct" if run.steps <= 1 else "cg", "iterations": run.steps,
        "relative_residual": run.residual, "converged": run.residual <= tol or run.stuck,
        "tolerance": tol,
    }  # fmt: skip
    return Solved(coef, system.intercept(coef), report, task_matrix)


def learnt_task_matrix(
    system: Any, alpha: float, *, tol: float = _TOL, start: Solved | None = None
) -> Solved:
    """Solve for C and M together, tr(M) = d: convex, and each in turn in closed form (2.133).

    Given C, tr(C M^-1 C') is least at M = d (C'C)^(1/2) / tr (C'C)^(1/2), where it is the squared
    nuclear norm of C over d. The penalty tr(M) of (2.133) in place of the constraint gives the same
    path of solutions, with another alpha.
    """
    d = system.shape[1]
    M, C = (np.eye(d), None) if start is None else (start.task_matrix, start.coef)
    rounds, change = 0, np.inf
    while rounds < _ROUNDS and change > _CHANGE:
        C, _ = _solved(system, alpha, M, _LOOSE, C)
        new = _best_matrix(C)
        rounds, change, M = rounds + 1, float(np.abs(new - M).max()), new
    assert C is not None  # there is a first round
    found = coupled(system, alpha, M, tol=tol, start=Solved(C, M[0], {}, M))
    found.report["rounds"] = rounds
    return found


def _best_matrix(C: np.ndarray) -> np.ndarray:
    """Return M of trace d that makes tr(C M^-1 C') least, mixed with a little of the identity."""
    d = C.shape[1]
    values, U = symmetric_eigen(C.T @ C)
    roots = np.sqrt(np.maximum(values, 0.0))
    if roots.sum() == 0.0:
        return np.eye(d)
    M = (U * (d * roots / roots.sum())) @ U.T
    return (1.0 - _IDENTITY) * 0.5 * (M + M.T) + _IDENTITY * np.eye(d)


def _solved(
    system: Any, alpha: float, M: np.ndarray, tol: float, start: np.ndarray | None = None
) -> tuple[np.ndarray, Any]:
    """Return C, and how conjugate gradients went, which know Theta as one long column."""
    A = square_root(M)  # (r, d)
    shape, shift = (system.shape[0], len(A)), alpha * float(system.n.sum()) / system.shape[1]
    if getattr(system, "has_few_entries", False):
        return system.by_entries(shift, M), Run(None, None, 0.0)
    inverse = _inverse(system, A, shift)

    def apply(v: np.ndarray) -> np.ndarray:
        theta = v.reshape(shape)
        return (system.gram_product(theta @ A) @ A.T + shift * theta).reshape(-1, 1)

    def precondition(v: np.ndarray) -> np.ndarray:
        return inverse(v.reshape(shape)).reshape(-1, 1)

    b = (system.right @ A.T).reshape(-1, 1)
    first = None
    if start is not None:  # C = Theta A, so Theta = C A' (A A')^-1, and A A' is diagonal
        first = (start @ A.T / (A * A).sum(axis=1)).reshape(-1, 1)
    spread = np.sqrt((system.spread**2).sum(keepdims=True))
    run = refined([apply], b, precondition, tol=tol, max_iter=_STEPS, start=first, spread=spread)
    return run.x.reshape(shape) @ A, run


def _inverse(system: Any, A: np.ndarray, shift: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return R -> Theta of G Theta S + shift Theta = R, G the mean of z z' and S = A diag(n) A'."""
    g, V = system.spectrum
    s, Q = symmetric_eigen((A * system.n) @ A.T)
    scale = 1.0 / (np.outer(g, np.maximum(s, 0.0)) + shift)
    return lambda R: V @ (scale * (V.T @ R @ Q)) @ Q.T
