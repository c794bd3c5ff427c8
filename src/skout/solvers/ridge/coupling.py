"""Ridge regression whose outputs are related by a matrix M, missing targets or not (2.13, 2.20).

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._numerics.arrays import numpy_of
from ..._numerics.linalg import square_root, symmetric_eigen
from ..._numerics.typing import Array, Floats
from ...basis.moments import AnyMoments
from ..cg import Run, refined

# Relative residual of a solution, which stands for a direct one, and of those on the way to a
# learned matrix or to alpha, of which two digits are used; most steps of each.
_TOL, _LOOSE, _STEPS = 1e-10, 1e-4, 1000
# Rounds in which M is learned, and the change of its entries, whose mean on the diagonal is 1, at
# which they end. Round numbers.
_ROUNDS, _CHANGE = 50, 1e-3
# M keeps this share of the identity, so that no direction is lost for good: what is 0 in M is 0 in
# the next C. As small as the change at which the rounds end.
_IDENTITY = 1e-3


class OutputSystems(ABC):
    """The systems of the outputs, each of the rows that it has; centered, if there is an intercept.

    Arrays are NumPy's, or tensors where products are computed on a device.
    """

    fit_intercept: bool
    shape: tuple[int, int]  # of the coefficients, (p, d)
    n: Array  # weights of the rows of each output, (d,)
    t_sum: Array  # weighted sums of y_ij over these rows, (d,)
    z_sum: Any  # and of z_i, (p, d)
    spread: Any  # the norm of each output about its mean, (d,)
    right: Any  # sum_i w_ij z_i y_ij, of centered rows if there is an intercept, (p, d)
    spectrum: Any  # eigenvalues and vectors of the mean of z z' over all entries
    #: whether a system of all observed entries is small enough to be solved at once
    has_few_entries: Any = False

    @abstractmethod
    def gram_product(self, C: Array) -> Array:
        """Return sum_i w_ij z_i z_i' c_j of each output, of centered rows or not; (p, d)."""

    @functools.cached_property
    def _safe(self) -> Array:
        return self.n + (self.n <= 0.0)

    def _centered(self, products: Array, C: Array | None = None) -> Array:
        """Return sum_i w_ij z_i x_ij of centered rows, given it of rows as they are.

        x_ij are the targets y_ij, or z_i'c_j.
        """
        if not self.fit_intercept:
            return products
        sums = self.t_sum if C is None else (self.z_sum * C).sum(0)
        centered: Array = products - self.z_sum * (sums / self._safe)
        return centered

    def on_device(self, array: Floats) -> Array:
        """Return an array on the device where products are computed."""
        return array

    def intercept(self, coef: Floats) -> Floats:
        """Return the mean over its rows of what is left of each output, zeros without intercept."""
        if not self.fit_intercept:
            return np.zeros(len(self.n))
        left = self.t_sum - (self.z_sum * self.on_device(coef)).sum(0)
        return numpy_of(left / self._safe)

    def by_entries(self, shift: float, M: Floats) -> Floats:
        """Return the coefficients from one system of all entries, where these are few."""
        raise NotImplementedError


def balance(n: Floats) -> Floats:
    """Return mean(n) / n_j, with which outputs of n_j rows count alike; 1 where there is none."""
    observed = n > 0.0
    return np.where(observed, n[observed].mean() / np.where(observed, n, 1.0), 1.0)


class CoupledMoments(OutputSystems):
    """Balanced systems from moments of coordinates."""

    def __init__(self, moments: AnyMoments, fit_intercept: bool = False) -> None:
        self.shape, self.fit_intercept = moments.shape, fit_intercept
        self._parts = [(columns, moments.of_columns(columns)) for columns in moments.column_sets()]
        zt, z_sum = np.empty(self.shape), np.empty(self.shape)
        weight, tt, t_sum = np.empty((3, self.shape[1]))
        for columns, part in self._parts:
            zt[:, columns], z_sum[:, columns] = part.zt, part.z_sum[:, None]
            weight[columns], tt[columns], t_sum[columns] = part.weight, part.tt, part.t_sum
        factor = self._factor = balance(weight)
        self.n, self.z_sum, self.t_sum = factor * weight, z_sum * factor, t_sum * factor
        self.spread = np.sqrt(np.maximum(tt * factor - self.t_sum**2 / self._safe, 0.0))
        self.right = self._centered(zt * factor)

    def gram_product(self, C: Floats) -> Floats:
        out = np.empty(self.shape)
        for columns, part in self._parts:
            out[:, columns] = part.zz @ C[:, columns]
        return self._centered(out * self._factor, C)

    @functools.cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        p, total = self.shape[0], self.n.sum()
        A, mean = np.zeros((p, p)), self.z_sum.sum(axis=1) / total
        for columns, part in self._parts:
            A += self._factor[columns].sum() * part.zz
        A /= total
        values, vectors = symmetric_eigen(A - np.outer(mean, mean) if self.fit_intercept else A)
        return np.maximum(values, 0.0), vectors


class Coefficients(NamedTuple):
    """Coefficients (p, d), the intercept (d,), how they were computed, and M where there is one."""

    coef: Floats
    intercept: Floats
    report: dict[str, Any]
    task_matrix: Floats | None = None


def coupled_path(
    system: OutputSystems, alphas: Sequence[float], task_matrix: Floats | str
) -> list[Coefficients]:
    """Solve for each alpha, roughly: from the largest on, each begins where the last one ended."""
    solutions: dict[int, Coefficients] = {}
    last: Coefficients | None = None
    for k in np.argsort(alphas)[::-1]:
        last = solutions[k] = coupled(system, alphas[k], task_matrix, tol=_LOOSE, start=last)
    return [solutions[k] for k in range(len(alphas))]


def coupled(
    system: OutputSystems,
    alpha: float,
    task_matrix: Floats | str,
    *,
    tol: float = _TOL,
    start: Coefficients | None = None,
) -> Coefficients:
    """Solve balanced systems on the host with a matrix M, or with one that is learned too.

    `tol` is the relative residual to reach, and `start` the solution of similar systems.
    """
    if isinstance(task_matrix, str):
        return learned_task_matrix(system, alpha, tol=tol, start=start)
    coef, run = _solved(system, alpha, task_matrix, tol, None if start is None else start.coef)
    report = {
        "solver": "direct" if run.steps <= 1 else "cg", "iterations": run.steps,
        "relative_residual": run.residual, "converged": run.residual <= tol or run.stuck,
        "tolerance": tol,
    }  # fmt: skip
    return Coefficients(coef, system.intercept(coef), report, task_matrix)


def learned_task_matrix(
    system: OutputSystems, alpha: float, *, tol: float = _TOL, start: Coefficients | None = None
) -> Coefficients:
    """Solve for C and M together, tr(M) = d: convex, and each in turn in closed form (2.133).

    Given C, tr(C M^-1 C') is least at M = d (C'C)^(1/2) / tr (C'C)^(1/2), where it is the squared
    nuclear norm of C over d. The penalty tr(M) of (2.133) in place of the constraint gives the same
    path of solutions, with another alpha.
    """
    d = system.shape[1]
    M, C = np.eye(d), None
    if start is not None and start.task_matrix is not None:
        M, C = start.task_matrix, start.coef
    rounds, change = 0, np.inf
    while rounds < _ROUNDS and change > _CHANGE:
        C, _ = _solved(system, alpha, M, _LOOSE, C)
        new = _best_matrix(C)
        rounds, change, M = rounds + 1, float(np.abs(new - M).max()), new
    assert C is not None  # there is a first round
    solution = coupled(system, alpha, M, tol=tol, start=Coefficients(C, M[0], {}, M))
    return solution._replace(report=solution.report | {"rounds": rounds})


def _best_matrix(C: Floats) -> Floats:
    """Return M of trace d that makes tr(C M^-1 C') least, mixed with a little of the identity."""
    d = C.shape[1]
    values, U = symmetric_eigen(C.T @ C)
    roots = np.sqrt(np.maximum(values, 0.0))
    if roots.sum() == 0.0:
        return np.eye(d)
    M: Floats = (U * (d * roots / roots.sum())) @ U.T
    return (1.0 - _IDENTITY) * 0.5 * (M + M.T) + _IDENTITY * np.eye(d)


def _solved(
    system: OutputSystems, alpha: float, M: Floats, tol: float, start: Floats | None = None
) -> tuple[Floats, Run]:
    """Return C, and how conjugate gradients went, which know Theta as one long column."""
    A = square_root(M)  # (r, d)
    shape, shift = (system.shape[0], len(A)), alpha * float(system.n.sum()) / system.shape[1]
    if system.has_few_entries:
        coef = system.by_entries(shift, M)
        return coef, Run(coef, 0.0 * coef, 0.0)
    inverse = _inverse(system, A, shift)

    def apply(v: Floats) -> Floats:
        theta = v.reshape(shape)
        product = numpy_of(system.gram_product(system.on_device(theta @ A)))
        applied: Floats = product @ A.T + shift * theta
        return applied.reshape(-1, 1)

    def precondition(v: Floats) -> Floats:
        return inverse(v.reshape(shape)).reshape(-1, 1)

    b = (numpy_of(system.right) @ A.T).reshape(-1, 1)
    first = None
    if start is not None:  # C = Theta A, so Theta = C A' (A A')^-1, and A A' is diagonal
        first = (start @ A.T / (A * A).sum(axis=1)).reshape(-1, 1)
    spread = np.sqrt((numpy_of(system.spread) ** 2).sum(keepdims=True))
    run = refined([apply], b, precondition, tol=tol, max_iter=_STEPS, start=first, spread=spread)
    return run.x.reshape(shape) @ A, run


def _inverse(system: OutputSystems, A: Floats, shift: float) -> Callable[[Floats], Floats]:
    """Return R -> Theta of G Theta S + shift Theta = R, G the mean of z z' and S = A diag(n) A'."""
    g, V = (numpy_of(part) for part in system.spectrum)
    s, Q = symmetric_eigen((A * numpy_of(system.n)) @ A.T)
    scale = 1.0 / (np.outer(g, np.maximum(s, 0.0)) + shift)
    return lambda R: V @ (scale * (V.T @ R @ Q)) @ Q.T
