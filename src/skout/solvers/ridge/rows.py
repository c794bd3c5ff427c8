"""Ridge regression from coordinates that are kept, where outputs have different rows.

Moments hold a matrix Z'Z for each set of outputs with equal rows. Where these would take too much
memory, or operations, the coordinates Z of all rows are kept instead: some outputs are solved
directly, one after another, and the others together by conjugate gradients, whose products
Z'(W * (Z C)) serve all of them, each by what takes fewer operations. Outputs that a task matrix
relates have one system together, see `coupling`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ..._numerics.arrays import (
    constant,
    gram,
    is_tensor,
    numpy_of,
    positions,
    row_slices,
    unique_columns,
)
from ..._numerics.factors import cholesky
from ..._numerics.linalg import (
    positive_solve,
    positive_solver,
    ridge_solve,
    symmetric_eigen,
    triangular_inverse,
)
from ..._numerics.types import Array, Floats, Ints
from ...basis.moments import PartlyWhitened
from ...basis.passes import Sample
from ..cg import refined
from ..design import Design
from ..folds import Splits
from .base import Fit, RidgeOptions, SystemOfRows, warn_unless_converged
from .coupling import Coefficients, OutputSystems, balance, coupled, coupled_path

__all__ = ["MaskedSystem", "RowsSystem", "cheaper_by_steps"]

# Digits that conjugate gradients gain, and steps they take for each that they should take.
_DIGITS, _MORE_STEPS = 9.0, 1.1
# Most entries of the targets whose system is solved at once, where outputs are related.
_MOST_ENTRIES = 6000
# Rows that are gathered at once for Z'Z.
_GATHERED = 8192
# Most noise of a preconditioner from products in float32; with more coordinates it is larger.
_MOST_NOISE, _MOST_ROUGH = 0.1, 512
_ROUNDING = 0.5 * float(np.finfo(np.float32).eps)
# Relative residual of conjugate gradients where they stand for a direct solver, and most steps.
_TOL, _MOST_STEPS = 1e-9, 2000
# What a round of them in float32 makes of the residual.
_GAIN = 1e-4


@dataclass
class MaskedSystem(OutputSystems):
    """Z, and for each output the weights w_ij of the rows, 0 where a row does not have it.

    The design may have features in place of Z of which only some are whitened, see `partly`: then
    coefficients c are of these, and their penalty is c'Pc.
    """

    design: Design  # (n, p)
    T: Array  # targets, 0 where they are missing, (n, d)
    W: Array  # (n, d)
    fit_intercept: bool = False
    K: Floats | None = None  # Z Z', where it was computed
    partly: PartlyWhitened | None = None

    @classmethod
    def of(
        cls,
        design: Design,
        targets: Floats,
        weights: Floats | None,
        fit_intercept: bool = False,
        K: Floats | None = None,
        partly: PartlyWhitened | None = None,
    ) -> MaskedSystem:
        """Return the systems of targets with NaN, and of weights of the rows."""
        missing = np.isnan(targets)
        W = (~missing).astype(np.float64)
        if weights is not None:
            W *= weights[:, None]
        T = np.where(missing, 0.0, targets).astype(np.float64)
        on_device = design.Z.on_device if design.rows is None else design.rows.on_device
        return cls(design, on_device(T), on_device(W), fit_intercept, K, partly)

    @property
    def shape(self) -> tuple[int, int]:
        return self.design.shape[1], self.T.shape[1]

    def on_device(self, array: Floats) -> Array:
        return constant(array, self.T) if is_tensor(self.T) else array

    def take(self, index: Ints) -> MaskedSystem:
        """Return the systems of some of the rows."""
        at = positions(index, self.T)
        K = None if self.K is None else self.K[np.ix_(index, index)]
        return replace(self, design=self.design.take(index), T=self.T[at], W=self.W[at], K=K)

    def columns(self, index: Ints) -> MaskedSystem:
        """Return the systems of some of the outputs."""
        at = positions(index, self.T)
        return replace(self, T=self.T[:, at], W=self.W[:, at])

    def balanced(self) -> MaskedSystem:
        """Return the systems with weights by which every output counts alike."""
        return replace(self, W=self.W * self.on_device(balance(numpy_of(self.n))))

    @functools.cached_property
    def n(self) -> Array:
        return self.W.sum(0)

    @functools.cached_property
    def z_sum(self) -> Array:
        return self.design.adjoint(self.W)

    @functools.cached_property
    def t_sum(self) -> Array:
        return (self.W * self.T).sum(0)

    @functools.cached_property
    def spread(self) -> Array:
        return (self.W * (self.T - self.t_sum / self._safe) ** 2).sum(0) ** 0.5

    @functools.cached_property
    def right(self) -> Array:
        return self._centered(self.design.adjoint(self.W * self.T))

    @property
    def may_round(self) -> bool:
        """Whether products in float32 are cheaper."""
        return self.design.is_near

    @functools.cached_property
    def _rounded(self) -> tuple[Design, Floats]:
        """Z and W for products in float32."""
        return self.design.rounded(), self.W.astype(np.float32)

    def gram_product(self, C: Array, single: bool = False) -> Array:
        Z, W = self._rounded if single else (self.design, self.W)
        return self._centered(Z.masked(W, C), C)

    @functools.cached_property
    def _penalty(self) -> Floats | None:
        """P, None for the identity."""
        return None if self.partly is None else self.partly.penalty()

    def product(self, alpha: float, single: bool = False) -> Callable[[Array], Array]:
        """Return C -> (sum_i w_ij z_i z_i' + n_j alpha P) c_j; sums in float32 if `single`."""
        P, shift = self._penalty, alpha * self.n
        return lambda C: self.gram_product(C, single) + shift * (C if P is None else P @ C)

    def products(self, alpha: float) -> list[Callable[[Array], Array]]:
        """Return `product` in each precision, the cheapest first."""
        return [self.product(alpha, single) for single in (True, False)[not self.may_round :]]

    @functools.cached_property
    def _mean_square(self) -> Floats:
        """The mean of z z' over all entries of T that are observed, of centered rows or not."""
        return self._centered_gram(self.design.gram(self.W.sum(1) / self.W.sum()))

    @functools.cached_property
    def _rough_square(self) -> tuple[Floats, Floats]:
        """The same from products in float32, and its diagonal before rows are centered."""
        G = self._rounded[0].gram(self.W.sum(1) / self.W.sum(), np.float32)
        return self._centered_gram(G), np.diagonal(G)[:-1]

    def _centered_gram(self, G: Array) -> Floats:
        """Return Z'WZ, of centered rows if there is an intercept, of [Z, 1]'W[Z, 1]."""
        G = numpy_of(G)
        A, z_sum = G[:-1, :-1], G[-1, :-1]
        return A - np.outer(z_sum, z_sum) / G[-1, -1] if self.fit_intercept else A

    @functools.cached_property
    def spectrum(self) -> tuple[Array, Array]:
        values, vectors = symmetric_eigen(self._mean_square)
        return np.maximum(values, 0.0), np.ascontiguousarray(vectors)

    def preconditioner(self, alpha: float) -> Callable[[Array], Array]:
        """Return R -> M^-1 R, where the rows of each output count as those of all."""
        M = self._rough(alpha)
        M = _penalized(self._mean_square, alpha, self._penalty) if M is None else M
        inverse = positive_solver(self.on_device(M))
        return lambda R: inverse(R / self._safe)

    def _rough(self, alpha: float) -> Floats | None:
        """Return the matrix of `preconditioner` from float32 products, None if these are too noisy.

        An entry has the noise eps |z_j| |z_k|: as M = L L' measures it, they come to at most
        eps |L^-1 diag(|z_j|)|^2.
        """
        if not self.may_round or self.design.shape[1] > _MOST_ROUGH:
            return None
        A, squares = self._rough_square
        M = _penalized(A, alpha, self._penalty)
        factor = cholesky(M.copy())
        if factor is None:
            return None
        inverse = triangular_inverse(factor.L)
        noise = _ROUNDING * float((inverse**2).sum(axis=0) @ squares)
        return M if noise <= _MOST_NOISE else None

    def directly(self, alpha: float, columns: Ints, rows: Ints) -> Floats:
        """Solve for outputs that have the same rows, in coordinates or in the rows.

        c = Z'(Z Z' + n alpha I)^-1 T = (Z'Z + n alpha I)^-1 Z'T, of centered and weighted rows.
        """
        if len(rows) < self.design.shape[1]:
            return self._by_rows_alone(alpha, columns, rows)
        A, b = self._square(int(columns[0]), rows), numpy_of(self.right[:, columns])
        shift = alpha * float(self.n[int(columns[0])])
        if self.partly is None:
            return ridge_solve(A, b, shift)
        try:
            return positive_solve(_penalized(A, shift, self._penalty), b)
        except LinAlgError:  # in coordinates, rounding can be told from the rest
            M = self.partly.finish()
            return M.T @ ridge_solve(M @ A @ M.T, M @ b, shift)

    def _square(self, column: int, rows: Ints) -> Floats:
        """Return sum_i w_ij z_i z_i' over the rows that an output has, of centered rows or not."""
        if not self.design.is_near:
            return self._centered_gram(self.design.gram(self.W[:, column]))
        A: Array = None
        for some in row_slices(len(rows), _GATHERED):
            Z, w = self._taken(rows[some], column)
            part = gram(Z if (w == 1.0).all() else Z * np.sqrt(w)[:, None])
            A = part if A is None else A + part
        if not self.fit_intercept:
            return A
        z_sum = self.z_sum[:, column]
        return A - np.outer(z_sum, z_sum) / self.n[column]

    def _taken(self, rows: Ints, column: int) -> tuple[Floats, Floats]:
        """Return rows of Z in float64, and what they weigh for an output."""
        Z = numpy_of(self.design.Z.take(rows)).astype(np.float64, copy=False)
        return Z, numpy_of(self.W[positions(rows, self.T), column])

    def _by_rows_alone(self, alpha: float, columns: Ints, rows: Ints) -> Floats:
        # c = Z'(Z Z' + n alpha I)^-1 T, of centered rows times sqrt(w)
        Z, w = self._taken(rows, int(columns[0]))
        T = numpy_of(self.T[positions(rows, self.T)])[:, columns]
        n, root = w.sum(), np.sqrt(w)[:, None]
        M = None if self.partly is None else self.partly.finish()
        Z = Z if M is None else Z @ M.T
        if self.fit_intercept:
            Z, T = Z - w @ Z / n, T - w @ T / n
        Z, T = Z * root, T * root
        coef = Z.T @ ridge_solve(Z @ Z.T, T, n * alpha, overwrite=True)
        return coef if M is None else M.T @ coef

    @property
    def has_few_entries(self) -> bool:
        count, p = int((self.W > 0.0).sum()), self.design.shape[1]
        return self.K is not None and count <= min(_MOST_ENTRIES, 3 * p)

    def by_entries(self, shift: float, M: Floats) -> Floats:
        """Return C = Z'G of outputs related by M, from one system of all entries e = (i, j) (2.20).

        (k(x_i, x_i') M_jj' + shift / w_e) c = y - b_j, and G adds c_e M_j to its row i.
        """
        assert self.K is not None
        i, j = np.nonzero(self.W)
        A = self.K[np.ix_(i, i)]
        A *= M[np.ix_(j, j)]
        A[np.diag_indices_from(A)] += shift / self.W[i, j]
        ones = np.eye(self.T.shape[1])[j] if self.fit_intercept else np.zeros((len(i), 0))
        solved = positive_solve(A, np.column_stack([self.T[i, j], ones]))
        c, U = solved[:, 0], solved[:, 1:]
        if self.fit_intercept:  # b makes the sum of c of each output zero
            c = c - U @ positive_solve(ones.T @ U, (ones.T @ c)[:, None])[:, 0]
        G = np.zeros(self.T.shape)
        np.add.at(G, i, c[:, None] * M[j])
        return self.design.adjoint(G)

    def solve(
        self, alpha: float, *, tol: float = _TOL, max_iter: int = _MOST_STEPS
    ) -> Coefficients:
        """Solve for each output on the rows that it has.

        An output that has no row gets NaN, in the part of a split for instance.
        """
        p, d = self.shape
        coef = np.full((p, d), np.nan)
        few, many = self.by_rows()
        for columns, rows in few:
            coef[:, columns] = self.directly(alpha, columns, rows)
        report: dict[str, Any] = {
            "solver": "direct", "converged": True, "iterations": 0, "relative_residual": 0.0,
            "tolerance": tol, "outputs_by_cg": len(many), "coordinates_held": self.design.is_held,
        }  # fmt: skip
        if len(many):
            part = self if len(many) == d else self.columns(many)
            run = refined(
                part.products(alpha), part.right, part.preconditioner(alpha), tol=tol,
                max_iter=max_iter, gain=_GAIN, believe=True, spread=part.spread,
            )  # fmt: skip
            coef[:, many] = numpy_of(run.x)
            report |= {"solver": "cg", "iterations": run.steps, "relative_residual": run.residual}
            report["converged"] = bool(run.residual <= tol or run.stuck)
        return Coefficients(coef, self.intercept(coef), report)

    def by_rows(self) -> tuple[list[tuple[Ints, Ints]], Ints]:
        """Return the outputs to solve directly, those with equal rows together, and the others.

        The first come with the numbers of their rows; outputs without rows are left out. All that
        have rows are among the others where Z is not held.
        """
        observed = numpy_of(self.W) > 0.0
        if not self.design.is_held:
            return [], np.flatnonzero(observed.any(axis=0))
        first, codes = unique_columns(observed)
        counts = observed[:, first].sum(axis=0)
        by_steps, _ = cheaper_by_steps(counts, np.bincount(codes), *self.design.shape)
        direct = [
            (np.flatnonzero(codes == k), np.flatnonzero(observed[:, column]))
            for k, column in enumerate(first)
            if counts[k] and not by_steps[k]
        ]
        return direct, np.flatnonzero(by_steps[codes])


def cheaper_by_steps(counts: Ints, sizes: Ints, n: int, p: int) -> tuple[np.ndarray, float]:
    """Return which sets of outputs conjugate gradients solve in fewer operations, and how many.

    Preconditioned by the mean of all rows, outputs that have n_j of n rows at random converge like
    s^k with s^2 = p/n (n - n_j)/n_j: the eigenvalues lie between (1 - s)^2 and (1 + s)^2. `counts`
    are the rows that the outputs of each set have, and `sizes` how many outputs it has.
    """
    few = np.minimum(counts, p)
    directly = counts * float(p) * p + few**2 * (p / 3.0)
    rate = np.sqrt(p / n * (n - counts) / np.maximum(counts, 1))
    steps = 1.0 + _MORE_STEPS * _DIGITS / -np.log10(np.clip(rate, 1e-6, 0.95))
    by_steps = 4.0 * steps * sizes * n * p  # of few columns, which is slower, but in float32
    shared = n * float(p) * p + p**3
    chosen = (by_steps < directly) & (counts > p)
    if np.where(chosen, directly - by_steps, 0.0).sum() <= shared:
        return np.zeros(len(counts), dtype=bool), float(directly.sum())
    return chosen, float(np.where(chosen, by_steps, directly).sum() + shared)


def _penalized(A: Floats, shift: float, P: Floats | None) -> Floats:
    """Return A + shift P, of which None is the identity."""
    return A + shift * (np.eye(len(A)) if P is None else P)


@dataclass(frozen=True)
class RowsSystem(SystemOfRows):
    """A ridge in coordinates of all rows, which are kept, or made again in each pass.

    Attributes
    ----------
    sample : Sample
    splits : list of (train, test)
    options : RidgeOptions
    system : MaskedSystem
        Of the sample, its origin subtracted from the targets.
    finish : callable
        From coefficients of the coordinates to the `Fit`; the intercept is that of T - origin.
    """

    sample: Sample
    splits: Splits
    options: RidgeOptions
    system: MaskedSystem
    finish: Callable[[Coefficients, float], Fit]
    reports: list[dict[str, Any]] = field(default_factory=list)

    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        rows, part = self.system.design.take(held), self.system.take(train)
        M = self.options.task_matrix
        fits = (
            [self._solved(part, alpha) for alpha in alphas]
            if M is None
            else coupled_path(part.balanced(), alphas, M)
        )
        F = [numpy_of(rows.product(part.on_device(fit.coef))) + fit.intercept for fit in fits]
        return np.stack(F) if self.sample.origin is None else np.stack(F) + self.sample.origin

    def solve(self, alpha: float) -> Fit:
        M = self.options.task_matrix
        if M is None:
            solution = self._solved(self.system, alpha)
        else:
            solution = coupled(self.system.balanced(), alpha, M)
        warn_unless_converged(solution.report, self.options.max_iter)
        return self.finish(solution, alpha)

    def _solved(self, system: MaskedSystem, alpha: float) -> Coefficients:
        options = self.options
        if options.solver == "cg":
            return system.solve(alpha, tol=options.tol, max_iter=options.max_iter)
        return system.solve(alpha, max_iter=max(_MOST_STEPS, options.max_iter))
