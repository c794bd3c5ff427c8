"""Exact kernel ridge regression on the distinct rows of a sample, whose targets may have holes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import astype, n_rows, take, unique
from .._numerics.linalg import check_definite, pivoted_cholesky, triangular_inverse
from .._numerics.validation import check_rng
from ..basis.features import KernelMatrix, LandmarkFeatures, Projection
from ..basis.passes import Sample
from ..kernels import Kernel
from ..rows import Memory
from ..sketches import PivotedCholesky
from ..solvers import dual_ridge
from ..solvers.cost import cheaper, exact_costs, is_small
from ..solvers.holed import check_outputs_seen, outputs_by_rows
from ..solvers.moments import Moments
from .choice import wanted_solver
from .exact_cg import Centred, exact_by_cg, exact_on_card, tile_bytes
from .folds import Folds
from .iterative import warn_unless_converged
from .memory import Room, room_for
from .path import Search
from .splits import Splits, groups_or_splits

__all__ = ["begin_exact", "fit_exact", "fit_exact_holes"]

# Rows by whose span the kernel is replaced while alpha is chosen, where there are more.
_STAND_IN = 1500

# Up to so many fits, alphas times splits, are made one by one to choose alpha; more from moments.
_FEW_FITS = 4

# Most rows whose kernel matrix is factorised in any case where a metric was learnt.
_LEARNT_ROWS = 20_000

# Most rows that are solved without a matrix on the host unless somebody asks for it.
_MOST_ROWS = 200_000


def fit_exact(model: Any, kernel: Kernel, sample: Sample, search: Search) -> None:
    """Fit a `KernelRidge` on the distinct rows; equal rows add weights and average targets."""
    alphas, splits, judge = search
    rng = check_rng(model.random_state)
    exact = _begun(model, kernel, sample, rng)
    model._row_weights = np.bincount(exact.number, sample.weights)  # of the distinct rows
    w = sample.weights
    model._row_count = float(len(exact.number) if w is None else np.count_nonzero(w))
    if splits and (exact.K is None or len(splits) * len(alphas) <= _FEW_FITS):
        search.by_paths(model, sample, partial(exact.path, alphas))
        model.cv_results_["exact"] = True
    elif splits:
        folds, Z = exact.folds(splits, rng)
        held = [] if judge is None else [Z[exact.number[some]] for some in judge.held]
        search.by_folds(model, folds, held)
        model.cv_results_["exact"] = exact.has_exact_path
    if exact.K is None:
        d = sample.targets.shape[1]
        _solve_parts(model, [(np.arange(d), np.arange(len(sample.rows)), exact)], d)
    else:
        model._matrix, model.intercept_ = exact.solve(model.alpha_)
    model._prepare()


def fit_exact_holes(model: Any, kernel: Kernel, sample: Sample, search: Search) -> None:
    """Fit a `KernelRidge` on the distinct rows of each output; outputs with equal rows together."""
    T, alphas = sample.targets.here(), search.alphas
    w = np.ones(len(T)) if sample.weights is None else sample.weights
    check_outputs_seen(((~np.isnan(T)) * w[:, None]).sum(axis=0))
    exact = _begun(model, kernel, sample, check_rng(model.random_state))
    parts = [
        (columns, rows, replace(exact, sample=replace(sample, targets=Memory(T[:, columns], "y"))))
        for columns, rows in outputs_by_rows(T)
    ]

    def path(train: np.ndarray, held: np.ndarray) -> np.ndarray:
        F = np.full((len(alphas), len(held), T.shape[1]), np.nan)  # of outputs without a row
        for columns, rows, part in parts:
            own = np.intersect1d(train, rows)
            if w[own].sum() > 0.0:
                F[:, :, columns] = part.path(alphas, own, held)
        return F

    if search.splits:
        search.by_paths(model, sample, path)
        model.cv_results_["exact"] = True
    _solve_parts(model, parts, T.shape[1])
    model._prepare()


def _solve_parts(model: Any, parts: list[Any], d: int) -> None:
    """Give a model the coefficients of its outputs, of those that have the same rows in turn."""
    model._matrix, model.intercept_ = np.zeros((n_rows(model.landmarks_), d)), np.zeros(d)
    for columns, rows, part in parts:
        used, [(coef, intercept)], report = part.fits(rows, [model.alpha_])
        model._matrix[np.ix_(used, columns)], model.intercept_[columns] = coef, intercept
        model.solver_report_ |= report
        warn_unless_converged(model.solver_report_, model.max_iter)


def begin_exact(
    model: Any, kernel: Kernel, sample: Sample, rng: np.random.Generator
) -> tuple[np.ndarray, str, Room]:
    """Give a model its kernel and landmarks; return the distinct row that each row is, the solver
    and the room that it has.
    """
    rows, device = sample.rows.here(), sample.rows.device
    model.kernel_ = kernel.resolve(rows, rng, sample.weights)
    first, number = unique(rows)
    model.landmarks_ = take(rows, first)
    solver = _chosen(model, sample, len(first))
    room = room_for(sample.rows, 0)
    room.work = tile_bytes(len(first)) if device is not None else 0.0
    if solver == "direct" and device is not None:
        room.require(8 * len(first) ** 2, f"The kernel matrix of {len(first)} rows", 'solver="cg"')
    return number, solver, room


def _chosen(model: Any, sample: Sample, n: int) -> str:
    """Return the solver for n distinct rows, and begin the report."""
    on_card = sample.rows.device is not None
    d, q = int(np.prod(sample.rows.tail) or 1), sample.targets.shape[1]
    model.solver_report_ = {"solver": "direct", "costs": exact_costs(n, d, q, on_card)}
    solver = wanted_solver(model) if n <= _LEARNT_ROWS else model.solver
    if solver != "auto":
        return solver
    # on a host more rows take hours; that their matrix has no room is told at once
    if is_small(n) or (n > _MOST_ROWS and not on_card):
        return "direct"
    return cheaper(model.solver_report_["costs"])


def _begun(model: Any, kernel: Kernel, sample: Sample, rng: np.random.Generator) -> _Exact:
    """Begin a fit, with the kernel matrix of all distinct rows where that is to be held here."""
    number, solver, room = begin_exact(model, kernel, sample, rng)
    K = None
    if solver == "direct" and not room.on_card:
        K = KernelMatrix(model.kernel_, model.landmarks_, model.n_jobs).full()
        check_definite(K)
    return _Exact(model, sample, number, solver, room, K)


@dataclass(frozen=True)
class _Exact:
    """Fits on rows of a sample, which is in memory."""

    model: Any
    sample: Sample
    number: np.ndarray  # the distinct row that each row is
    solver: str
    room: Room
    K: np.ndarray | None  # the kernel matrix of the distinct rows, None where it is not held here

    def fits(self, some: np.ndarray, alphas: list[float]) -> tuple[np.ndarray, list[Any], Any]:
        """Fit on some rows.

        Returns the distinct rows that have weight, coefficients and intercept of each alpha, and
        the report of the last one.
        """
        used, total, means = self._pooled(some)
        model, intercept = self.model, self.model.fit_intercept
        if self.K is not None:
            own = self.K[np.ix_(used, used)]
            found = [dual_ridge(own, means, total, alpha, intercept) for alpha in alphas]
            return used, found, {"solver": "direct", "converged": True}
        rows, place = take(model.landmarks_, used), (self.room, model.n_jobs)
        problem = Centred(model.kernel_, rows, means, total, intercept, *place)
        if self.solver == "direct":
            return used, *exact_on_card(problem, alphas)
        return used, *exact_by_cg(problem, alphas, tol=model.tol, max_iter=model.max_iter)

    def path(self, alphas: list[float], train: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
        order = np.argsort(alphas)[::-1]  # each starts from the one before
        used, path, _ = self.fits(train, [alphas[i] for i in order])
        if self.K is not None:
            others = self.K[np.ix_(self.number[held], used)]
            fitted = [others @ coef for coef, _ in path]
        else:
            landmarks = astype(take(self.model.landmarks_, used), np.float64)
            features = LandmarkFeatures(self.model.kernel_, landmarks)
            coef, rows = np.hstack([c for c, _ in path]), Memory(self.sample.rows.take(held))
            function = Projection(features, coef, dtype=np.float64)
            F = rows.map(function, coef.shape[1:], np.float64, n_jobs=self.model.n_jobs)
            fitted = np.hsplit(F, len(path))
        found = [F + intercept for F, (_, intercept) in zip(fitted, path, strict=True)]
        return np.stack(found)[np.argsort(order)]

    def _pooled(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the distinct rows that have weight, their weights and the means of targets."""
        number, sample = self.number, self.sample
        w = np.ones(len(number)) if sample.weights is None else sample.weights
        total = np.bincount(number[some], w[some], minlength=int(number.max()) + 1)
        used = np.flatnonzero(total)
        sums = sparse.csr_matrix((w[some], (number[some], some)), shape=(len(total), len(w)))
        means = sums[used] @ sample.targets.here()
        means /= total[used, None]
        return used, total[used], means

    def solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercept from all rows; K is lost.

        Rows without weight get coefficient 0.
        """
        assert self.K is not None
        used, total, means = self._pooled(np.arange(len(self.number)))
        all_used = len(used) == len(self.K)
        K = self.K if all_used else self.K[np.ix_(used, used)]
        intercept = self.model.fit_intercept
        solution, offset = dual_ridge(K, means, total, alpha, intercept, overwrite=True)
        if all_used:
            return solution, offset
        coef = np.zeros((len(self.K), means.shape[1]))
        coef[used] = solution
        return coef, offset

    @property
    def has_exact_path(self) -> bool:
        """Whether `folds` are of this kernel, and not of a stand-in."""
        assert self.K is not None
        return len(self.K) <= _STAND_IN

    def folds(self, splits: Splits, rng: np.random.Generator) -> tuple[Folds, np.ndarray]:
        """Return the moments that a path over alphas needs, and coordinates of the distinct rows.

        K = Z Z': ridge regression on the rows of Z is that with the kernel. Up to 1,500 distinct
        rows this is exact. Where there are more, Z Z' is the kernel on the span of 1,500 of them,
        which randomly pivoted Cholesky chooses: for r of n rows, Z takes n r numbers beside the
        n^2 of K, and the moments r^2 a fold; an exact path would take n^3 operations for each
        alpha and fold.
        """
        Z = self._coordinates(rng)
        number, parts = groups_or_splits(splits, len(self.number))
        moments = []
        for some in number:
            w = None if self.sample.weights is None else self.sample.weights[some]
            T = self.sample.targets.take(some).astype(np.float64)
            moments.append(Moments.of_block(Z[self.number[some]], T, w))
        return Folds(moments, parts, self.model.fit_intercept, self.model.verbose), Z

    def _coordinates(self, rng: np.random.Generator) -> np.ndarray:
        """Return Z of the distinct rows, shape (m, r)."""
        assert self.K is not None
        m = len(self.K)
        some = np.arange(m)
        if not self.has_exact_path:
            some = PivotedCholesky(_STAND_IN, max_rows=m).draw(m, rng, _Columns(self.K)).indices
        L, kept = pivoted_cholesky(self.K[np.ix_(some, some)])
        return self.K[:, some[kept]] @ triangular_inverse(L).T


class _Columns:
    """A kernel matrix that is known, as sketches ask for it."""

    def __init__(self, K: np.ndarray) -> None:
        self.K = K

    def diag(self) -> np.ndarray:
        return np.diagonal(self.K)

    def columns(self, index: np.ndarray) -> np.ndarray:
        return self.K[:, index]

    def restrict(self, index: np.ndarray) -> _Columns:
        return _Columns(self.K[np.ix_(index, index)])
