"""Exact kernel ridge regression on the distinct rows of a sample, by their kernel matrix.

With C = diag(sqrt w) and P the projection that centers weighted rows,

    (P C K C P + n alpha I) u = P C T,      c = C u,      f(x) = sum_i c_i k(x_i, x) + b      (2.32)

is solved by a factor of K, on the host or a device, or by conjugate gradients over tiles of K,
preconditioned by a sketch of the rows: tiles are kept in single precision as far as memory allows,
and computed again where not. Equal rows add weights and average targets. Where targets are missing,
outputs that have the same rows are fitted together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._numerics.arrays import astype, cast, n_rows, numpy_of, row_slices, take, times
from ..._numerics.factors import add_gram
from ..._numerics.linalg import check_definite, pivoted_cholesky, ridge_solve, triangular_inverse
from ..._numerics.threads import map_blocks
from ..._numerics.typing import Array, Floats, Ints, Rows
from ..._numerics.validation import check_rng
from ...basis.features import KernelMatrix, LandmarkFeatures, Projection, check_values
from ...basis.moments import Moments, check_outputs_observed, outputs_by_rows
from ...kernels import Kernel, Precomputed
from ...kernels.precomputed import GramRows
from ...rows import Memory
from ...sketches import PivotedCholesky
from ..cg import largest_of, refined
from ..folds import AlphaSearch, ChosenAlpha, choose, groups_or_splits
from .moments import FoldMoments, Solution
from .preconditioners import Sketched, definite_factor
from .products import Store
from .system import (
    Decision,
    Fit,
    MemoryBudget,
    RidgeProblem,
    SystemOfRows,
    Unsolved,
    budget_for,
    sketch_rank,
    warn_unless_converged,
)

# Rows by whose span the kernel is replaced while alpha is chosen, where there are more: a fold then
# costs 1,500^3 / 3 operations for each alpha, about 0.1 s. Documented as `cv_results_["exact"]`.
_STAND_IN = 1500
# Up to so many fits, alphas times splits, are made one by one to choose alpha, each n^3 / 3; more
# from moments, whose coordinates cost as much as some of them.
_FEW_FITS = 4
# Rows and columns of a tile of K, on the host (4 MB in single precision, one for each thread) and
# on a device (1 GB, to keep it busy); rows that are centered at a time. Half and double of the
# first take 0.99 and 1.13 times the CPU seconds, of the last the same (benchmarks/constants.py).
_TILE, _DEVICE_TILE, _ROWS = 1024, 16384, 512
# Of the rows of a preconditioner: which they are does not change the solution.
_SEED = 0
# What is added to a diagonal, relative to its largest entry, where rounding hides that a system is
# positive definite: nothing, then from a rounding of float64 on.
_EXACT_LIFTS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8)


@dataclass(frozen=True)
class GramSystem(SystemOfRows):
    """A ridge over the whole space of a kernel, on rows in memory."""

    # the landmarks of its span are the distinct rows, and their `place` the number of each row's
    problem: RidgeProblem
    decision: Decision
    budget: MemoryBudget
    reports: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> GramSystem:
        """Return the system, or raise where a device has too little memory."""
        n, budget = problem.span.m, budget_for(problem.sample.rows, 0)
        if budget.device is not None:
            budget.work = 3.0 * 8.0 * min(n, _DEVICE_TILE) ** 2  # of a tile
            if decision.solver == "direct":
                budget.require(8 * n**2, f"The kernel matrix of {n} rows", 'solver="cg"')
        return cls(problem, decision, budget)

    @functools.cached_property
    def K(self) -> Floats | None:
        """The kernel matrix of the distinct rows, None where it is not held on the host."""
        if self.decision.solver == "cg" or self.budget.device is not None:
            return None
        span, n_jobs = self.problem.span, self.problem.options.n_jobs
        matrix = KernelMatrix(span.kernel, span.landmarks, n_jobs).full()
        check_definite(matrix)
        return matrix

    @functools.cached_property
    def _parts(self) -> list[tuple[slice | Ints, Ints, Floats]]:
        """Outputs that have the same rows, the numbers of these rows, and their targets."""
        T, w = np.asarray(self.problem.sample.targets.load()), self.problem.sample.weights
        if not np.isnan(T).any():
            return [(slice(None), np.arange(len(T)), T)]
        w = np.ones(len(T)) if w is None else w
        check_outputs_observed(((~np.isnan(T)) * w[:, None]).sum(axis=0))
        return [(columns, rows, T[:, columns]) for columns, rows in outputs_by_rows(T)]

    @property
    def _is_whole(self) -> bool:
        """Whether no target is missing."""
        return isinstance(self._parts[0][0], slice)

    def choice(self, search: AlphaSearch) -> ChosenAlpha:
        """Choose alpha by fits on parts of the rows, or on the span of some of them."""
        n_fits = len(search.splits) * len(search.alphas)
        if not search.splits or not self._is_whole or self.K is None or n_fits <= _FEW_FITS:
            chosen, is_exact = super().choice(search), True
        else:
            Z, options = self._coordinates(), self.problem.options
            scored = () if search.scorer is None else search.scorer.held
            held = [Z[self.problem.span.number[rows]] for rows in scored]
            folds = replace(self._folds(Z), held=held)
            chosen = choose(
                folds, search, cv=options.cv, n_jobs=options.n_jobs, verbose=options.verbose
            )
            is_exact = len(self.K) <= _STAND_IN
        if chosen.results is None:
            return chosen
        return chosen._replace(results=chosen.results | {"exact": is_exact})

    def _folds(self, Z: Floats) -> FoldMoments:
        """Return the moments that a path over alphas needs.

        K = Z Z': ridge regression on the rows of Z is that with the kernel. Up to 1,500 distinct
        rows this is exact. Where there are more, Z Z' is the kernel on the span of 1,500 of them,
        which randomly pivoted Cholesky chooses: for r of n rows, Z takes n r numbers beside the
        n^2 of K, and the moments r^2 a fold; an exact path would take n^3 operations for each
        alpha and fold.
        """
        place, sample, moments = self.problem.span.number, self.problem.sample, []
        groups, roles = groups_or_splits(self.problem.search.splits, len(place))
        for rows in groups:
            w = None if sample.weights is None else sample.weights[rows]
            T = np.asarray(sample.targets.take(rows), dtype=np.float64)
            moments.append(Moments.of_block(Z[place[rows]], T, w))
        return FoldMoments(moments, roles, self.problem.options.fit_intercept)

    def _coordinates(self) -> Floats:
        """Return Z of the distinct rows, shape (m, r)."""
        assert self.K is not None
        m = len(self.K)
        rows = np.arange(m)
        if m > _STAND_IN:
            rng = check_rng(self.problem.options.random_state)
            held = KernelMatrix(Precomputed(), GramRows(self.K, rows))
            rows = PivotedCholesky(_STAND_IN, max_rows=m).draw(m, rng, held).indices
        L, kept = pivoted_cholesky(self.K[np.ix_(rows, rows)])
        Z: Floats = self.K[:, rows[kept]] @ triangular_inverse(L).T
        return Z

    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        w, d = self.problem.sample.weights, self.problem.sample.targets.shape[1]
        F = np.full((len(alphas), len(held), d), np.nan)
        for columns, rows, T in self._parts:
            observed = train if self._is_whole else np.intersect1d(train, rows)
            if len(observed) and (w is None or w[observed].sum() > 0.0):
                F[:, :, columns] = self.fits_and_path(alphas, observed, held, T)[2]
        return F

    def fits_and_path(
        self, alphas: Sequence[float], train: Ints, held: Ints, T: Floats
    ) -> tuple[Ints, list[Solution], Floats]:
        """Return the distinct rows used, the fit of each alpha on them, and their predictions.

        All training rows have the outputs T.
        """
        span, order = self.problem.span, np.argsort(alphas)[::-1]  # each starts from the one before
        used, fits, report = self._fits(train, [alphas[k] for k in order], T)
        self.reports.append(report)
        if self.K is not None:
            others = self.K[np.ix_(span.number[held], used)]
            fitted = [others @ coef for coef, _ in fits]
        else:
            features = LandmarkFeatures(span.kernel, astype(take(span.landmarks, used), np.float64))
            coef = np.hstack([c for c, _ in fits])
            function, rows = Projection(features, coef, dtype=np.float64), self.problem.sample.rows
            n_jobs = self.problem.options.n_jobs
            F = Memory(rows.take(held)).map(function, coef.shape[1:], np.float64, n_jobs=n_jobs)
            fitted = np.hsplit(F, len(fits))
        predicted = [F + intercept for F, (_, intercept) in zip(fitted, fits, strict=True)]
        back = np.argsort(order)
        return used, [fits[k] for k in back], np.stack(predicted)[back]

    def solve(self, alpha: float) -> Fit:
        span, sample, options = self.problem.span, self.problem.sample, self.problem.options
        d, w = sample.targets.shape[1], sample.weights
        matrix, intercepts = np.zeros((span.m, d)), np.zeros(d)
        report: dict[str, Any] = {}
        for columns, rows, T in self._parts:
            used, [(coef, intercept)], solved = self._fits(rows, [alpha], T, last=self._is_whole)
            if self._is_whole and len(used) == len(matrix):
                matrix, intercepts = coef, intercept
            else:
                matrix[np.ix_(used, np.arange(d)[columns])] = coef
                intercepts[columns] = intercept
            report |= solved
            warn_unless_converged(report, options.max_iter)
        fit = Fit(span.kernel, span.landmarks, matrix, intercepts, ChosenAlpha(alpha), report)
        if not self._is_whole:
            return fit
        count = len(span.number) if w is None else np.count_nonzero(w)
        weights = np.bincount(span.number, w).astype(np.float64)
        return replace(fit, row_weights=weights, row_count=float(count))

    def _fits(
        self, rows: Ints, alphas: Sequence[float], T: Floats, last: bool = False
    ) -> tuple[Ints, list[Solution], dict[str, Any]]:
        """Fit on some rows, which all have the outputs T.

        Returns the distinct rows that have weight, coefficients and intercept of each alpha, and
        the report of the last one. If it is the `last` fit of all, K may be lost. Equal rows add
        their weights, and average their targets.
        """
        span, options, w = self.problem.span, self.problem.options, self.problem.sample.weights
        place = span.number
        w = np.ones(len(place)) if w is None else w
        total = np.bincount(place[rows], w[rows], minlength=int(place.max()) + 1).astype(float)
        used = np.flatnonzero(total)
        sums = sparse.csr_matrix((w[rows], (place[rows], rows)), shape=(len(total), len(w)))
        total, means = total[used], sums[used] @ T
        means /= total[:, None]
        if self.K is not None:
            last = last and len(used) == len(self.K)
            K = self.K if last else self.K[np.ix_(used, used)]
            fits = [
                dual_ridge(K, means, total, alpha, options.fit_intercept, overwrite=last)
                for alpha in alphas
            ]
            if last:  # what is left of it is no kernel matrix
                vars(self).pop("K")
            return used, fits, {"solver": "direct", "converged": True}
        landmarks, b = take(span.landmarks, used), options.fit_intercept
        tiles = TiledSystem(span.kernel, landmarks, means, total, b, self.budget, options.n_jobs)
        if self.decision.solver == "direct":
            return used, *tiles.directly(alphas)
        can_fall_back = options.solver == "auto" and self.budget.holds(8.0 * span.m**2)
        fits, report = tiles.by_cg(
            alphas, tol=options.tol, max_iter=options.max_iter, must_converge=can_fall_back
        )
        if can_fall_back and not report["converged"]:
            decision = replace(self.decision, solver="direct")
            raise Unsolved(GramSystem(self.problem, decision, self.budget), report)
        return used, fits, report


def dual_ridge(
    K: Floats,
    targets: Floats,
    weights: Floats,
    alpha: float,
    fit_intercept: bool = False,
    *,
    overwrite: bool = False,
) -> Solution:
    """Minimize sum_i w_i/(2n) ||t_i - f(x_i)||^2 + alpha/2 ||f||^2, n = sum w, over all f (2.32).

    f = sum_i c_i k(x_i, .) + b. With C = diag(sqrt w) and P the projection that centers weighted
    rows, the identity without an intercept,

        c = C (P C K C P + n alpha I)^-1 P C T,    b = mean_w (T - K c).

    Returns c, (n, d), and b, (d,). With `overwrite`, K may be lost.
    """
    n, root = weights.sum(), np.sqrt(weights)
    sums = K @ weights if fit_intercept else weights  # for the intercept: K may be lost
    A, right = K if overwrite else K.copy(), root[:, None] * targets
    unequal = np.flatnonzero(root != 1.0)  # A = C K C
    A[unequal] *= root[unequal, None]
    A[:, unequal] *= root[unequal]
    if fit_intercept:
        unit = root / np.sqrt(n)  # P = I - unit unit'
        product = A @ unit
        rest = product - (unit @ product) * unit
        for chunk in row_slices(len(A), _ROWS):  # P A P in the place of A, a few rows at a time
            A[chunk] -= np.outer(unit[chunk], product)
            A[chunk] -= np.outer(rest[chunk], unit)
        right -= np.outer(unit, unit @ right)
    solution = ridge_solve(A, right, n * alpha, overwrite=True)
    del right
    if fit_intercept:  # zero but for rounding, which 1 / alpha blows up
        solution -= np.outer(unit, unit @ solution)
    solution *= root[:, None]
    if not fit_intercept:
        return solution, np.zeros(targets.shape[1])
    return solution, (weights @ targets - sums @ solution) / n


# Without the kernel matrix on the host ------------------------------------------------------------


@dataclass(eq=False)
class TiledSystem:
    """The system (P C K C P + n alpha I) u = P C T of `dual_ridge`, of distinct rows.

    K is used by its tiles on and below the diagonal, each twice.
    """

    kernel: Kernel
    rows: Rows
    targets: Floats
    weights: Floats
    fit_intercept: bool
    budget: MemoryBudget
    n_jobs: int | None

    def __post_init__(self) -> None:
        budget, self.n = self.budget, float(self.weights.sum())
        self.on_device: bool = budget.device is not None
        self.size: int = n_rows(self.rows)
        if budget.device is not None:  # raise where the kernel does not run there
            two = LandmarkFeatures(self.kernel, take(self.rows, slice(0, 2)))
            two.on(budget.device, np.float64)
        self.C = budget.moved(np.sqrt(self.weights)[:, None], np.float64)
        self.T = budget.moved(np.asarray(self.targets, dtype=np.float64), np.float64)
        self.unit: Array = self.C / np.sqrt(self.n)
        centered = self._projected(self.C * self.T)
        self.spread: Array = (centered**2).sum(0) ** 0.5  # of the targets about their means, (q,)
        self.right: Array = centered if self.fit_intercept else self.C * self.T
        self.stripes: list[slice] = list(
            row_slices(self.size, _DEVICE_TILE if self.on_device else _TILE)
        )
        self.store: Store = Store(0)
        self._ready: dict[bool, tuple[list[Rows], list[LandmarkFeatures]]] = {}

    def _projected(self, V: Array) -> Array:
        projected: Array = V - self.unit * (self.unit.T @ V)
        return projected

    def centered(self, V: Array) -> Array:
        """Return P V."""
        return self._projected(V) if self.fit_intercept else V

    def product(self, V: Array, *, single: bool) -> Array:
        """Return K V in double precision, by products of tiles in single precision or not."""
        dtype, out = np.float32 if single else np.float64, 0.0 * V
        vectors, kept = cast(V, dtype), self.store.kept if single else {}
        if single not in self._ready:  # stripes of rows, and the features against each of them
            rows = [astype(take(self.rows, stripe), dtype) for stripe in self.stripes]
            rows = [self.budget.moved(stripe, dtype) for stripe in rows]
            self._ready[single] = rows, [LandmarkFeatures(self.kernel, part) for part in rows]
        rows, features = self._ready[single]

        def stripe(i: int) -> Array:
            total = 0.0 * V[: self.stripes[i].stop]
            for j in range(i + 1):
                key = i * len(self.stripes) + j
                K = kept.get(key)
                if K is None:
                    K = cast(features[j](rows[i]), dtype) if single else features[j](rows[i])
                    if single:
                        self.store.offer(key, K)
                across, down = self.stripes[i], self.stripes[j]
                total[across] += cast(times(K, vectors[down]), np.float64)
                if i != j:
                    total[down] += cast(times(K.T, vectors[across]), np.float64)
            return total

        jobs = 1 if self.on_device else self.n_jobs
        for part in map_blocks(stripe, range(len(self.stripes)), n_jobs=jobs):
            out[: len(part)] += part
        return out

    def sketch(self) -> tuple[Array, Array, float]:
        """Return Z with Z Z' about C K C, from a sample of the rows; Z'Z; and what a row misses."""
        size = sketch_rank(self.size, self.on_device)
        chosen = np.sort(np.random.default_rng(_SEED).choice(self.size, size, replace=False))
        landmarks = astype(take(self.rows, chosen), np.float64)
        features = LandmarkFeatures(self.kernel, self.budget.moved(landmarks, np.float64))
        L = definite_factor(lambda: _full(features))
        Z = self.budget.empty((self.size, size), np.float32)
        gram = 0.0 * L.L
        for part in row_slices(self.size, max(256, 2**27 // size if self.on_device else 1024)):
            rows = astype(take(self.rows, part), np.float64)
            F = features(self.budget.moved(rows, np.float64))
            block = L.solve(cast(F, np.float64).T).T * self.C[part]
            add_gram(gram, block)
            Z[part] = cast(block, np.float32)
        total = float((self.C[:, 0] ** 2).sum()) * float(self.kernel.diag(landmarks).mean())
        trace = float(gram.diagonal().sum())
        check_values(self.kernel, np.array(trace))
        return Z, gram, (max(total - trace, 0.0) + 1e-9 * total) / self.size

    def by_cg(
        self, alphas: Sequence[float], *, tol: float, max_iter: int, must_converge: bool = False
    ) -> tuple[list[Solution], dict[str, Any]]:
        """Return coefficients and intercept of each alpha, and the report of the last one.

        Each alpha starts from the solution of the one before it. The residual in the report is the
        largest of all of them; if they `must_converge`, the first that does not is the last one.
        With u, its residual r and e = r + n alpha u, the objective is J = |e|^2 / 2n +
        alpha/2 u'(b - e), and the duality gap |r|^2 / 2n.
        """
        n, b, P, C = self.n, self.right, self.centered, self.C
        start, steps, fits, largest = None, 0, [], 0.0
        Z, gram, missed = self.sketch()
        self.store.most_bytes = max(0, self.budget.kept() - 4 * int(np.prod(Z.shape)))

        def system(single: bool, shift: float) -> Callable[[Array], Array]:
            return lambda V: P(C * self.product(C * P(V), single=single)) + shift * V

        def centered_by(M: Sketched, r: Array) -> Array:
            return P(M(P(r)))

        for alpha in alphas:
            inverse = functools.partial(centered_by, Sketched(Z, gram, n * alpha + missed))
            run = refined(
                [system(single, n * alpha) for single in (True, False)], b, inverse, start=start,
                spread=self.spread, tol=tol, max_iter=max_iter, plain=True,
            )  # fmt: skip
            start, steps, largest = run.x, steps + run.steps, largest_of(largest, run.residual)
            if must_converge and not largest <= tol:
                break
            fits.append(self._fit(C * run.x, lambda V: self.product(V, single=False)))
        u, r = run.x, run.r
        e, bound = r + n * alpha * u, float((r * r).sum()) / (2 * n)
        objective = float((e * e).sum()) / (2 * n) + 0.5 * alpha * float((u * (b - e)).sum())
        report = {
            "solver": "cg", "exact_passes": run.checks, "objective": objective,
            "objective_gap": bound, "objective_bound": bound, "converged": largest <= tol,
            "relative_residual": largest, "tolerance": tol, "iterations": steps,
            "preconditioner": f"sketch of {Z.shape[1]} rows", "kept_bytes": int(self.store.bytes),
            "memory_bytes": int(self.store.bytes + 4 * np.prod(Z.shape)),
        }  # fmt: skip
        return fits, report

    def directly(self, alphas: Sequence[float]) -> tuple[list[Solution], dict[str, Any]]:
        """Return the same by a factor of P C K C P + n alpha I, which lies on a device."""
        C, unit = self.C, self.unit
        rows = self.budget.moved(astype(self.rows, np.float64), np.float64)
        features = LandmarkFeatures(self.kernel, rows)

        def system() -> Array:
            A = _full(features)
            A *= C
            A *= C.T
            if self.fit_intercept:
                A -= unit * (unit.T @ A)
                A -= (A @ unit) * unit.T
            return A

        fits = []
        for alpha in alphas:
            factor = definite_factor(system, self.n * alpha, _EXACT_LIFTS)
            c = C * factor.solve_transposed(factor.solve(self.right))
            if self.fit_intercept:
                c = c - C * unit * (unit.T @ (c / C))
            fits.append(self._fit(c, lambda V: _full(features) @ V))
        return fits, {"solver": "direct", "converged": True, "memory_bytes": 8 * len(C) ** 2}

    def _fit(self, c: Array, product: Callable[[Array], Array]) -> Solution:
        """Return coefficients and intercept, the weighted mean of T - K c; 0 if there is none."""
        intercept = 0.0 * self.T[0]
        if self.fit_intercept:
            intercept = (self.C * self.C * (self.T - product(c))).sum(0) / self.n
        return numpy_of(c), numpy_of(intercept)


def _full(features: LandmarkFeatures) -> Array:
    """Return the kernel matrix of landmarks, where they are, in float64."""
    K = cast(features(features.landmarks), np.float64)
    check_values(features.kernel, numpy_of(K.sum()))
    return K
