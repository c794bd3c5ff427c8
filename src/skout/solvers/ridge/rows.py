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
    pivoted_cholesky,
    positive_solve,
    positive_solver,
    ridge_solve,
    symmetric_eigen,
    triangular_inverse,
)
from ..._numerics.typing import Array, Floats, Ints
from ...basis.features import KernelMatrix, PartlyWhitened, WhitenedFeatures, Whitening
from ...basis.moments import check_outputs_observed
from ..cg import refined
from ..design import DesignMatrix, coordinates_of
from ..folds import ChosenAlpha
from .coupling import Coefficients, OutputSystems, balance, coupled, coupled_path
from .system import (
    Decision,
    Fit,
    RidgeProblem,
    SystemOfRows,
    cheaper_by_steps,
    warn_unless_converged,
)

# Most entries of the targets whose system is solved at once, where outputs are related: it takes
# 288 MB and 7e10 operations, a few seconds on one core.
_MOST_ENTRIES = 6000
# Rows that are gathered at once for Z'Z, a block; half and double take 1.02 times the CPU seconds
# (benchmarks/constants.py).
_GATHERED = 8192
# Most noise of a preconditioner from products in float32: with a tenth of the identity its
# condition number is below 1.3. With more coordinates it is larger, and to test that would cost
# more than it saves.
_MOST_NOISE, _MOST_ROUGH = 0.1, 512
_ROUNDING = 0.5 * float(np.finfo(np.float32).eps)  # of one number in float32
# Relative residual of conjugate gradients where they stand for a direct solver, so that nobody sees
# the difference, and most steps.
_TOL, _MOST_STEPS = 1e-9, 2000
# What a round of them in float32 makes of the residual: with 0.01, 40 outputs take two exact
# products more (benchmarks/constants.py), and at 1e-6 rounding costs a step.
_GAIN = 1e-4


@dataclass
class MaskedSystem(OutputSystems):
    """Z, and for each output the weights w_ij of the rows, 0 where a row does not have it.

    The design may have features in place of Z of which only some are whitened, see `partly`: then
    coefficients c are of these, and their penalty is c'Pc.
    """

    design: DesignMatrix  # (n, p)
    T: Array  # targets, 0 where they are missing, (n, d)
    W: Array  # (n, d)
    fit_intercept: bool = False
    K: Floats | None = None  # Z Z', where it was computed
    partly: PartlyWhitened | None = None

    @classmethod
    def of(
        cls,
        design: DesignMatrix,
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
        on_device = design.Z.device_array if design.rows is None else design.rows.device_array
        return cls(design, on_device(T), on_device(W), fit_intercept, K, partly)

    def __post_init__(self) -> None:
        self.shape: tuple[int, int] = self.design.shape[1], self.T.shape[1]
        self.n: Array = self.W.sum(0)
        self.t_sum: Array = (self.W * self.T).sum(0)

    def on_device(self, array: Floats) -> Array:
        return constant(array, self.T) if is_tensor(self.T) else array

    def take(self, index: Ints) -> MaskedSystem:
        """Return the systems of some of the rows."""
        at = positions(index, self.T)
        K = None if self.K is None else self.K[np.ix_(index, index)]
        return replace(self, design=self.design.take(index), T=self.T[at], W=self.W[at], K=K)

    def balanced(self) -> MaskedSystem:
        """Return the systems with weights by which every output counts alike."""
        return replace(self, W=self.W * self.on_device(balance(numpy_of(self.n))))

    # Products with all rows -----------------------------------------------------------------------

    @functools.cached_property
    def z_sum(self) -> Array:
        return self.design.adjoint(self.W)

    @functools.cached_property
    def spread(self) -> Array:
        spread: Array = (self.W * (self.T - self.t_sum / self._safe) ** 2).sum(0) ** 0.5
        return spread

    @functools.cached_property
    def right(self) -> Array:
        return self._centered(self.design.adjoint(self.W * self.T))

    @functools.cached_property
    def _rounded(self) -> tuple[DesignMatrix, Floats]:
        """Z and W for products in float32."""
        return self.design.rounded(), self.W.astype(np.float32)

    def gram_product(self, C: Array, single: bool = False) -> Array:
        Z, W = self._rounded if single else (self.design, self.W)
        return self._centered(Z.masked(W, C), C)

    @functools.cached_property
    def _penalty(self) -> Floats | None:
        """P, None for the identity."""
        return None if self.partly is None else self.partly.penalty()

    def _penalized(self, A: Floats, shift: float) -> Floats:
        """Return A + shift P."""
        return A + shift * (np.eye(len(A)) if self._penalty is None else self._penalty)

    def products(self, alpha: float) -> list[Callable[[Array], Array]]:
        """Return C -> (sum_i w_ij z_i z_i' + n_j alpha P) c_j; first in float32, if cheaper."""
        P, shift = self._penalty, alpha * self.n

        def product(single: bool) -> Callable[[Array], Array]:
            return lambda C: self.gram_product(C, single) + shift * (C if P is None else P @ C)

        return [product(single) for single in (True, False)[not self.design.is_on_host :]]

    def _centered_gram(self, G: Array) -> Floats:
        """Return Z'WZ, of centered rows if there is an intercept, of [Z, 1]'W[Z, 1]."""
        G = numpy_of(G)
        A, z_sum = G[:-1, :-1], G[-1, :-1]
        return A - np.outer(z_sum, z_sum) / G[-1, -1] if self.fit_intercept else A

    @functools.cached_property
    def _mean_square(self) -> Floats:
        """The mean of z z' over all entries of T that are observed, of centered rows or not."""
        return self._centered_gram(self.design.gram(self.W.sum(1) / self.W.sum()))

    @functools.cached_property
    def spectrum(self) -> tuple[Array, Array]:
        values, vectors = symmetric_eigen(self._mean_square)
        return np.maximum(values, 0.0), np.ascontiguousarray(vectors)

    @functools.cached_property
    def _rough_gram(self) -> Floats:
        return self._rounded[0].gram(self.W.sum(1) / self.W.sum(), np.float32)

    def preconditioner(self, alpha: float) -> Callable[[Array], Array]:
        """Return R -> M^-1 R, where the rows of each output count as those of all."""
        M = self._rough(alpha)
        M = self._penalized(self._mean_square, alpha) if M is None else M
        inverse = positive_solver(self.on_device(M))
        return lambda R: inverse(R / self._safe)

    def _rough(self, alpha: float) -> Floats | None:
        """Return the matrix of `preconditioner` from float32 products, None if these are too noisy.

        An entry has the noise eps |z_j| |z_k|: as M = L L' measures it, they come to at most
        eps |L^-1 diag(|z_j|)|^2.
        """
        if not self.design.is_on_host or self.shape[0] > _MOST_ROUGH:
            return None
        M = self._penalized(self._centered_gram(self._rough_gram), alpha)
        factor = cholesky(M.copy())
        if factor is None:
            return None
        squares = (triangular_inverse(factor.L) ** 2).sum(axis=0)
        noise = _ROUNDING * float(squares @ np.diagonal(self._rough_gram)[:-1])
        return M if noise <= _MOST_NOISE else None

    # Outputs that have the same rows --------------------------------------------------------------

    def _directly(self, alpha: float, columns: Ints, rows: Ints) -> Floats:
        """Solve for outputs that have the same rows, in coordinates or in the rows.

        c = Z'(Z Z' + n alpha I)^-1 T = (Z'Z + n alpha I)^-1 Z'T, of centered and weighted rows.
        """
        column, partly = int(columns[0]), self.partly
        if len(rows) >= self.shape[0]:
            A, b = self._square(column, rows), numpy_of(self.right[:, columns])
            shift = alpha * float(self.n[column])
            if partly is None:
                return ridge_solve(A, b, shift)
            try:
                return positive_solve(self._penalized(A, shift), b)
            except LinAlgError:  # rounding hides that it is definite: solve in coordinates
                M = partly.finish()
                whitened: Floats = M.T @ ridge_solve(M @ A @ M.T, M @ b, shift)
                return whitened
        Z, w = self._taken(rows, column)
        T = numpy_of(self.T[positions(rows, self.T)])[:, columns]
        n, root = w.sum(), np.sqrt(w)[:, None]
        Z = Z if partly is None else Z @ partly.finish().T
        if self.fit_intercept:
            Z, T = Z - w @ Z / n, T - w @ T / n
        Z, T = Z * root, T * root
        coef: Floats = Z.T @ ridge_solve(Z @ Z.T, T, n * alpha, overwrite=True)
        return coef if partly is None else partly.finish().T @ coef

    def _square(self, column: int, rows: Ints) -> Floats:
        """Return sum_i w_ij z_i z_i' over the rows that an output has, of centered rows or not."""
        if not self.design.is_on_host:
            return self._centered_gram(self.design.gram(self.W[:, column]))
        A: Floats = np.zeros((self.shape[0],) * 2)
        for chunk in row_slices(len(rows), _GATHERED):
            Z, w = self._taken(rows[chunk], column)
            A += gram(Z if (w == 1.0).all() else Z * np.sqrt(w)[:, None])
        if self.fit_intercept:
            z_sum = self.z_sum[:, column]
            A -= np.outer(z_sum, z_sum) / self.n[column]
        return A

    def _taken(self, rows: Ints, column: int) -> tuple[Floats, Floats]:
        """Return rows of Z in float64, and what they weigh for an output."""
        taken: Any = self.design.Z.take(rows)
        Z = numpy_of(taken).astype(np.float64, copy=False)
        return Z, numpy_of(self.W[positions(rows, self.T), column])

    # All outputs ----------------------------------------------------------------------------------

    @property
    def has_few_entries(self) -> bool:
        count = int((self.W > 0.0).sum())
        return self.K is not None and count <= min(_MOST_ENTRIES, 3 * self.shape[0])

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
            coef[:, columns] = self._directly(alpha, columns, rows)
        report: dict[str, Any] = {
            "solver": "direct", "converged": True, "iterations": 0, "relative_residual": 0.0,
            "tolerance": tol, "outputs_by_cg": len(many), "coordinates_held": self.design.is_held,
        }  # fmt: skip
        if len(many):
            part, at = self, positions(many, self.T)
            if len(many) < d:
                part = replace(self, T=self.T[:, at], W=self.W[:, at])
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


@dataclass(frozen=True)
class RowsSystem(SystemOfRows):
    """A ridge in coordinates of all rows, which are kept, or made again in each pass."""

    problem: RidgeProblem
    system: MaskedSystem  # of the sample, its origin subtracted from the targets
    on_features: Callable[[Floats], Floats]  # from coefficients of coordinates to those of features
    reports: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> RowsSystem:
        """Keep coordinates of all rows, or for all rows of no sketch Z with K = Z Z'."""
        span, sample, options = problem.span, problem.sample, problem.options
        T = np.asarray(sample.targets.load(), dtype=np.float64)
        T = T if sample.origin is None else T - sample.origin
        partly = K = None
        if span.is_exact:
            whole = KernelMatrix(span.kernel, span.landmarks, options.n_jobs).full()
            L, kept = pivoted_cholesky(whole)
            inverse = triangular_inverse(L)
            design = DesignMatrix((whole[:, kept] @ inverse.T)[span.number], n_jobs=options.n_jobs)
            K = whole[np.ix_(span.number, span.number)]

            def on_features(coef: Floats) -> Floats:
                matrix = np.zeros((span.m, coef.shape[1]))
                matrix[kept] = inverse.T @ coef
                return matrix
        else:
            design, partly = _design(problem)
            on_features = (span.engine() if partly is None else partly).on_features
        system = MaskedSystem.of(design, T, sample.weights, options.fit_intercept, K, partly)
        check_outputs_observed(system.n)
        return cls(problem, system, on_features)

    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        rows, part = self.system.design.take(held), self.system.take(train)
        M, origin = self.problem.options.task_matrix, self.problem.sample.origin
        if M is None:
            fits = [part.solve(alpha, **self._accuracy) for alpha in alphas]
        else:
            fits = coupled_path(part.balanced(), alphas, M)
        F = [numpy_of(rows.product(part.on_device(fit.coef))) + fit.intercept for fit in fits]
        return np.stack(F) if origin is None else np.stack(F) + origin

    def solve(self, alpha: float) -> Fit:
        span, sample, options = self.problem.span, self.problem.sample, self.problem.options
        M = options.task_matrix
        if M is None:
            solution = self.system.solve(alpha, **self._accuracy)
        else:
            solution = coupled(self.system.balanced(), alpha, M)
        warn_unless_converged(solution.report, options.max_iter)
        matrix, intercept = self.on_features(solution.coef), solution.intercept
        more: dict[str, Any] = {"report": solution.report, "task_matrix": solution.task_matrix}
        if span.is_exact:
            place = span.kernel, span.landmarks
            return Fit(*place, matrix, intercept, ChosenAlpha(alpha), **more)
        return Fit.in_span(span.engine(), matrix, intercept, alpha, origin=sample.origin, **more)

    @property
    def _accuracy(self) -> dict[str, Any]:
        """Tolerance and steps of conjugate gradients, which may stand for a direct solver."""
        options = self.problem.options
        if options.solver == "cg":
            return {"tol": options.tol, "max_iter": options.max_iter}
        return {"max_iter": max(_MOST_STEPS, options.max_iter)}


def _design(problem: RidgeProblem) -> tuple[DesignMatrix, PartlyWhitened | None]:
    """Return the coordinates of all rows: features whitened as far as alpha needs, if they can be.

    To whiten them all takes as many operations as Z'Z.
    """
    rows, engine = problem.sample.rows, problem.span.engine()
    plan = engine.plan(rows, min(problem.search.alphas), center=False)
    can_be_partly = rows.device is None and rows.precision == np.float64
    if problem.options.task_matrix is None and can_be_partly and plan.size < engine.rank:
        features = WhitenedFeatures(engine.features, Whitening(engine.components, plan))
        held = rows.kept(features, (engine.rank,), n_jobs=engine.n_jobs)
        if held is not None:
            partly = PartlyWhitened(engine.components, plan.size)
            return DesignMatrix(held, n_jobs=engine.n_jobs), partly
    return coordinates_of(engine, rows), None
