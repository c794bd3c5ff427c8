"""Exact kernel ridge regression on the distinct rows of a sample, by their kernel matrix.

With C = diag(sqrt w) and P the projection that centers weighted rows,

    (P C K C P + n alpha I) u = P C T,      c = C u,

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
from ..._numerics.linalg import check_definite, pivoted_cholesky, triangular_inverse
from ..._numerics.threads import map_blocks
from ..._numerics.types import Array, Floats, Ints, Rows
from ..._numerics.validation import check_rng
from ...basis import Span
from ...basis.features import KernelMatrix, LandmarkFeatures, Projection, check_values
from ...basis.moments import Moments, check_outputs_observed, outputs_by_rows
from ...basis.passes import Sample
from ...kernels import Kernel
from ...rows import Memory
from ...sketches import PivotedCholesky
from ..cg import Run, largest_of, refined
from ..folds import ChosenAlpha, Search, Splits, choose, groups_or_splits
from .base import Fit, RidgeOptions, SystemOfRows, Unsolved, warn_unless_converged
from .cost import sketch_rank
from .formulas import dual_ridge
from .memory import MemoryBudget
from .moments import FoldMoments
from .preconditioners import Sketched, definite_factor
from .products import Store

__all__ = ["GramSystem", "tile_bytes"]

# Rows by whose span the kernel is replaced while alpha is chosen, where there are more.
_STAND_IN = 1500
# Up to so many fits, alphas times splits, are made one by one to choose alpha; more from moments.
_FEW_FITS = 4
# Rows and columns of a tile of K, on the host and on a device.
_TILE, _DEVICE_TILE = 1024, 16384
_SEED = 0
# What is added to a diagonal where rounding hides that a system is positive definite.
_EXACT_LIFTS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8)

#: Coefficients of distinct rows, and the intercept.
Dual = tuple[Floats, Floats]


@dataclass(frozen=True)
class GramSystem(SystemOfRows):
    """A ridge over the whole space of a kernel, on rows in memory.

    Attributes
    ----------
    span : Span
        Its landmarks are the distinct rows, its `place` the distinct row that each row is.
    sample, splits, options
    solver : "direct" or "cg"
    budget : MemoryBudget
    report : dict
        What the report of the fit begins with.
    """

    span: Span
    sample: Sample
    splits: Splits
    options: RidgeOptions
    solver: str
    budget: MemoryBudget
    report: dict[str, Any] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)

    @functools.cached_property
    def K(self) -> Floats | None:
        """The kernel matrix of the distinct rows, None where it is not held on the host."""
        if self.solver == "cg" or self.budget.device is not None:
            return None
        matrix = KernelMatrix(self.span.kernel, self.span.landmarks, self.options.n_jobs).full()
        check_definite(matrix)
        return matrix

    @functools.cached_property
    def _parts(self) -> list[tuple[Any, Ints, Floats]]:
        """Outputs that have the same rows, the numbers of these rows, and their targets."""
        T = self.sample.targets.load()
        if not np.isnan(T).any():
            return [(slice(None), np.arange(len(T)), T)]
        w = np.ones(len(T)) if self.sample.weights is None else self.sample.weights
        check_outputs_observed(((~np.isnan(T)) * w[:, None]).sum(axis=0))
        return [(columns, rows, T[:, columns]) for columns, rows in outputs_by_rows(T)]

    @property
    def _is_whole(self) -> bool:
        """Whether no target is missing."""
        return isinstance(self._parts[0][0], slice)

    def choice(self, search: Search) -> ChosenAlpha:
        """Choose alpha by fits on parts of the rows, or on the span of some of them."""
        n_fits = len(search.splits) * len(search.alphas)
        if not search.splits or not self._is_whole or self.K is None or n_fits <= _FEW_FITS:
            chosen, is_exact = super().choice(search), True
        else:
            Z, options = self._coordinates(), self.options
            scored = () if search.scorer is None else search.scorer.held
            folds = replace(self._folds(Z), held=[Z[self.span.place[rows]] for rows in scored])
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
        place, sample, moments = self.span.place, self.sample, []
        groups, roles = groups_or_splits(self.splits, len(place))
        for rows in groups:
            w = None if sample.weights is None else sample.weights[rows]
            T = sample.targets.take(rows).astype(np.float64)
            moments.append(Moments.of_block(Z[place[rows]], T, w))
        return FoldMoments(moments, roles, self.options.fit_intercept)

    def _coordinates(self) -> Floats:
        """Return Z of the distinct rows, shape (m, r)."""
        assert self.K is not None
        m = len(self.K)
        rows = np.arange(m)
        if m > _STAND_IN:
            rng = check_rng(self.options.random_state)
            rows = PivotedCholesky(_STAND_IN, max_rows=m).draw(m, rng, _Columns(self.K)).indices
        L, kept = pivoted_cholesky(self.K[np.ix_(rows, rows)])
        return self.K[:, rows[kept]] @ triangular_inverse(L).T

    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        F = np.full((len(alphas), len(held), self.sample.targets.shape[1]), np.nan)
        w = self.sample.weights
        for columns, rows, T in self._parts:
            observed = train if self._is_whole else np.intersect1d(train, rows)
            if len(observed) and (w is None or w[observed].sum() > 0.0):
                F[:, :, columns] = self.fits_and_path(alphas, observed, held, T)[2]
        return F

    def fits_and_path(
        self, alphas: Sequence[float], train: Ints, held: Ints, T: Floats
    ) -> tuple[Ints, list[Dual], Floats]:
        """Return the distinct rows used, the fit of each alpha on them, and their predictions.

        All training rows have the outputs T.
        """
        order = np.argsort(alphas)[::-1]  # each starts from the one before
        used, fits, report = self._fits(train, [alphas[k] for k in order], T)
        self.reports.append(report)
        if self.K is not None:
            others = self.K[np.ix_(self.span.place[held], used)]
            fitted = [others @ coef for coef, _ in fits]
        else:
            landmarks = astype(take(self.span.landmarks, used), np.float64)
            features = LandmarkFeatures(self.span.kernel, landmarks)
            coef, rows = np.hstack([c for c, _ in fits]), Memory(self.sample.rows.take(held))
            function = Projection(features, coef, dtype=np.float64)
            F = rows.map(function, coef.shape[1:], np.float64, n_jobs=self.options.n_jobs)
            fitted = np.hsplit(F, len(fits))
        predicted = [F + intercept for F, (_, intercept) in zip(fitted, fits, strict=True)]
        back = np.argsort(order)
        return used, [fits[k] for k in back], np.stack(predicted)[back]

    def solve(self, alpha: float) -> Fit:
        span, d = self.span, self.sample.targets.shape[1]
        matrix, intercepts = np.zeros((n_rows(span.landmarks), d)), np.zeros(d)
        report: dict[str, Any] = {"solver": "direct"} | self.report
        for columns, rows, T in self._parts:
            used, [(coef, intercept)], solved = self._fits(rows, [alpha], T, last=self._is_whole)
            if self._is_whole and len(used) == len(matrix):
                matrix, intercepts = coef, intercept
            else:
                matrix[np.ix_(used, np.arange(d)[columns])] = coef
                intercepts[columns] = intercept
            report |= solved
            warn_unless_converged(report, self.options.max_iter)
        fit = Fit(span.kernel, span.landmarks, matrix, intercepts, ChosenAlpha(alpha), report)
        if not self._is_whole:
            return fit
        w = self.sample.weights
        count = len(span.place) if w is None else np.count_nonzero(w)
        weights = np.bincount(span.place, w).astype(np.float64)
        return replace(fit, row_weights=weights, row_count=float(count))

    def _fits(
        self, rows: Ints, alphas: Sequence[float], T: Floats, last: bool = False
    ) -> tuple[Ints, list[Dual], dict[str, Any]]:
        """Fit on some rows, which all have the outputs T.

        Returns the distinct rows that have weight, coefficients and intercept of each alpha, and
        the report of the last one. If it is the `last` fit of all, K may be lost.
        """
        used, total, means = self._pooled(rows, T)
        options, fit_intercept = self.options, self.options.fit_intercept
        if self.K is not None:
            last = last and len(used) == len(self.K)
            K = self.K if last else self.K[np.ix_(used, used)]
            fits = [
                dual_ridge(K, means, total, alpha, fit_intercept, overwrite=last)
                for alpha in alphas
            ]
            if last:  # what is left of it is no kernel matrix
                vars(self).pop("K")
            return used, fits, {"solver": "direct", "converged": True}
        landmarks = take(self.span.landmarks, used)
        problem = TiledSystem(
            self.span.kernel, landmarks, means, total, fit_intercept, self.budget, options.n_jobs
        )
        if self.solver == "direct":
            return used, *problem.directly(alphas)
        can_fall_back = options.solver == "auto" and self.budget.holds(
            8.0 * float(n_rows(self.span.landmarks)) ** 2
        )
        fits, report = problem.by_cg(
            alphas, tol=options.tol, max_iter=options.max_iter, must_converge=can_fall_back
        )
        if can_fall_back and not report["converged"]:
            raise Unsolved(replace(self, solver="direct", reports=[]), report)
        return used, fits, report

    def _pooled(self, rows: Ints, T: Floats) -> tuple[Ints, Floats, Floats]:
        """Return the distinct rows that have weight, their weights and the means of targets."""
        place = self.span.place
        w = np.ones(len(place)) if self.sample.weights is None else self.sample.weights
        total = np.bincount(place[rows], w[rows], minlength=int(place.max()) + 1).astype(float)
        used = np.flatnonzero(total)
        sums = sparse.csr_matrix((w[rows], (place[rows], rows)), shape=(len(total), len(w)))
        means = sums[used] @ T
        means /= total[used, None]
        return used, total[used], means


class _Columns:
    """A kernel matrix that was computed, as sketches ask for it."""

    def __init__(self, K: Floats) -> None:
        self.K = K

    def diag(self) -> Floats:
        return np.diagonal(self.K)

    def columns(self, index: Ints) -> Floats:
        return self.K[:, index]

    def restrict(self, index: Ints) -> _Columns:
        return _Columns(self.K[np.ix_(index, index)])


# Without the kernel matrix on the host ------------------------------------------------------------


def tile_bytes(n: int) -> float:
    """Return the bytes that work on a tile of n rows takes on a device."""
    return 3.0 * 8.0 * min(n, _DEVICE_TILE) ** 2


class TiledSystem:
    """The system (P C K C P + n alpha I) u = P C T of `dual_ridge`, of distinct rows.

    K is used by its tiles on and below the diagonal, each twice.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        targets: Floats,
        weights: Floats,
        fit_intercept: bool,
        budget: MemoryBudget,
        n_jobs: int | None,
    ) -> None:
        self.kernel, self.rows, self.budget, self.n_jobs = kernel, rows, budget, n_jobs
        self.on_device, self.size = budget.device is not None, n_rows(rows)
        self.n, self.fit_intercept = float(weights.sum()), fit_intercept
        if self.on_device:  # raise where the kernel does not run there
            LandmarkFeatures(kernel, take(rows, slice(0, 2))).on(budget.device, np.float64)
        self.C = budget.moved(np.sqrt(weights)[:, None], np.float64)
        self.T = budget.moved(np.asarray(targets, dtype=np.float64), np.float64)
        self.unit = self.C / np.sqrt(self.n)
        centered = self._projected(self.C * self.T)
        self.spread = (centered**2).sum(0) ** 0.5  # of the targets about their means, (q,)
        self.right = centered if fit_intercept else self.C * self.T
        self.stripes = list(row_slices(self.size, _DEVICE_TILE if self.on_device else _TILE))
        self.store = Store(0)
        self._ready: dict[bool, tuple[list[Rows], list[LandmarkFeatures]]] = {}

    def _projected(self, V: Array) -> Array:
        return V - self.unit * (self.unit.T @ V)

    def centered(self, V: Array) -> Array:
        """Return P V."""
        return self._projected(V) if self.fit_intercept else V

    def product(self, V: Array, *, single: bool) -> Array:
        """Return K V in double precision, by products of tiles in single precision or not."""
        vectors = cast(V, np.float32) if single else V
        out = 0.0 * V
        rows, features = self._prepared(single)

        def stripe(i: int) -> Array:
            total = 0.0 * V[: self.stripes[i].stop]
            for j in range(i + 1):
                K = self._tile(i, j, rows, features, single)
                across, down = self.stripes[i], self.stripes[j]
                total[across] += cast(times(K, vectors[down]), np.float64)
                if i != j:
                    total[down] += cast(times(K.T, vectors[across]), np.float64)
            return total

        jobs = 1 if self.on_device else self.n_jobs
        for part in map_blocks(stripe, range(len(self.stripes)), n_jobs=jobs):
            out[: len(part)] += part
        return out

    def _prepared(self, single: bool) -> tuple[list[Rows], list[LandmarkFeatures]]:
        """Return the stripes of rows, and the features against each of them."""
        if single not in self._ready:
            dtype = np.float32 if single else np.float64
            rows = [astype(take(self.rows, stripe), dtype) for stripe in self.stripes]
            rows = [self.budget.moved(stripe, dtype) for stripe in rows]
            self._ready[single] = rows, [LandmarkFeatures(self.kernel, part) for part in rows]
        return self._ready[single]

    def _tile(
        self, i: int, j: int, rows: list[Rows], features: list[LandmarkFeatures], single: bool
    ) -> Array:
        key = i * len(self.stripes) + j
        kept = self.store.get(key) if single else None
        if kept is not None:
            return kept
        K = features[j](rows[i])
        if single:
            K = cast(K, np.float32)
            self.store.offer(key, K)
        return K

    def system(self, single: bool, shift: float) -> Callable[[Array], Array]:
        """Return V -> (P C K C P + shift I) V."""

        def product(V: Array) -> Array:
            KV = self.product(self.C * self.centered(V), single=single)
            return self.centered(self.C * KV) + shift * V

        return product

    def preconditioner(self, M: Sketched) -> Callable[[Array], Array]:
        """Return r -> P M^-1 P r."""
        return lambda r: self.centered(M(self.centered(r)))

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
    ) -> tuple[list[Dual], dict[str, Any]]:
        """Return coefficients and intercept of each alpha, and the report of the last one.

        Each alpha starts from the solution of the one before it. The residual in the report is the
        largest of all of them; if they `must_converge`, the first that does not is the last one.
        """
        n, b = self.n, self.right
        start, steps, fits, largest = None, 0, [], 0.0
        Z, gram, missed = self.sketch()
        self.store.most_bytes = max(0, self.budget.kept() - 4 * int(np.prod(Z.shape)))
        for alpha in alphas:
            products = [self.system(single, n * alpha) for single in (True, False)]
            inverse = self.preconditioner(Sketched(Z, gram, n * alpha + missed))
            run = refined(
                products, b, inverse, start=start, spread=self.spread, tol=tol, max_iter=max_iter,
                plain=True,
            )  # fmt: skip
            start, steps, largest = run.x, steps + run.steps, largest_of(largest, run.residual)
            if must_converge and not largest <= tol:
                break
            fits.append(self._fit(self.C * run.x, lambda V: self.product(V, single=False)))
        report = _report(run, b, n, alpha) | {
            "converged": largest <= tol,
            "relative_residual": largest,
            "tolerance": tol,
            "iterations": steps,
            "preconditioner": f"sketch of {Z.shape[1]} rows",
            "kept_bytes": int(self.store.bytes),
            "memory_bytes": int(self.store.bytes + 4 * np.prod(Z.shape)),
        }
        return fits, report

    def directly(self, alphas: Sequence[float]) -> tuple[list[Dual], dict[str, Any]]:
        """Return the same by a factor of P C K C P + n alpha I, which lies on a device."""
        C, unit = self.C, self.unit
        rows = self.budget.moved(astype(self.rows, np.float64), np.float64)
        features = LandmarkFeatures(self.kernel, rows)

        def system() -> Array:
            A = _full(features).mul_(C).mul_(C.T)
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

    def _fit(self, c: Array, product: Callable[[Array], Array]) -> Dual:
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


def _report(run: Run, b: Array, n: float, alpha: float) -> dict[str, Any]:
    """Return what is known about u with residual r: the duality gap is |r|^2 / 2n.

    J = |r + n alpha u|^2 / 2n + alpha/2 u'(b - r - n alpha u).
    """
    u, r = run.x, run.r
    rest = r + n * alpha * u
    objective = float((rest * rest).sum()) / (2 * n) + 0.5 * alpha * float((u * (b - rest)).sum())
    bound = float((r * r).sum()) / (2 * n)
    return {
        "solver": "cg", "exact_passes": run.checks, "objective": objective,
        "objective_gap": bound, "objective_bound": bound,
    }  # fmt: skip
