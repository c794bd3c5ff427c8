"""Exact kernel ridge regression on the distinct rows of a sample; targets may be missing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
from .exact_cg import Centred, exact_by_cg, exact_on_card, tile_bytes
from .fit import ChosenAlpha, Fit, RidgeSettings
from .folds import Folds
from .iterative import Unconverged, warn_of_paths, warn_unless_converged
from .memory import Room, room_for
from .path import Search
from .splits import Splits, groups_or_splits

__all__ = ["DistinctRows", "distinct_rows", "fit_exact", "fit_exact_missing"]

# Rows by whose span the kernel is replaced while alpha is chosen, where there are more.
_STAND_IN = 1500

# Up to so many fits, alphas times splits, are made one by one to choose alpha; more from moments.
_FEW_FITS = 4

# Most rows whose kernel matrix is factorised in any case where a metric was learnt.
_LEARNT_ROWS = 20_000

# Most rows that are solved without a matrix on the host unless somebody asks for it.
_MOST_ROWS = 200_000


def fit_exact(settings: RidgeSettings, kernel: Kernel, sample: Sample, search: Search) -> Fit:
    """Fit on the distinct rows; equal rows add weights and average targets."""
    rng = check_rng(settings.random_state)
    exact = _begun(settings, kernel, sample, rng)
    try:
        return _fit_whole(exact, search, rng)
    except Unconverged as stop:  # "auto" took conjugate gradients: the direct solver takes over
        return _fit_whole(exact.directly(), search, rng).reporting(fell_back_from=stop.report)


def _fit_whole(exact: _Exact, search: Search, rng: np.random.Generator) -> Fit:
    """Choose alpha, and fit all outputs on all rows."""
    sample, settings = exact.sample, exact.settings
    alphas, splits, judge = search
    chosen = ChosenAlpha(alphas[0])
    if splits and (exact.K is None or len(splits) * len(alphas) <= _FEW_FITS):
        chosen = search.by_paths(sample, partial(exact.path, alphas), settings.verbose)
        warn_of_paths(exact.reports, settings.max_iter)
        chosen = _with_exactness(chosen, True)
    elif splits:
        folds, Z = exact.folds(splits, rng)
        held = [] if judge is None else [Z[exact.number[some]] for some in judge.held]
        chosen = folds.choose(search, held, cv=settings.cv, n_jobs=settings.n_jobs)
        chosen = _with_exactness(chosen, exact.has_exact_path)
    number, w = exact.number, sample.weights
    more: dict[str, Any] = {"row_weights": np.bincount(number, w)}  # of the distinct rows
    more["row_count"] = float(len(number) if w is None else np.count_nonzero(w))
    if exact.K is None:
        d = sample.targets.shape[1]
        parts = [(np.arange(d), np.arange(len(sample.rows)), exact)]
        return replace(_fit_parts(exact, parts, d, chosen), **more)
    coef, intercept = exact.solve(chosen.alpha)
    report = {"solver": "direct", "costs": exact.costs}
    return Fit(exact.kernel, exact.landmarks, coef, intercept, chosen, report, **more)


def fit_exact_missing(
    settings: RidgeSettings, kernel: Kernel, sample: Sample, search: Search
) -> Fit:
    """Fit each output on the distinct rows that have it; outputs with equal rows together."""
    T = sample.targets.here()
    w = np.ones(len(T)) if sample.weights is None else sample.weights
    check_outputs_seen(((~np.isnan(T)) * w[:, None]).sum(axis=0))
    exact = _begun(settings, kernel, sample, check_rng(settings.random_state))
    try:
        return _fit_by_outputs(exact, search, T, w)
    except Unconverged as stop:
        fit = _fit_by_outputs(exact.directly(), search, T, w)
        return fit.reporting(fell_back_from=stop.report)


def _fit_by_outputs(exact: _Exact, search: Search, T: np.ndarray, w: np.ndarray) -> Fit:
    """Choose alpha for all outputs together, and fit each on its own rows."""
    alphas, settings, d = search.alphas, exact.settings, T.shape[1]
    parts = [
        (columns, rows, exact.of(replace(exact.sample, targets=Memory(T[:, columns], "y"))))
        for columns, rows in outputs_by_rows(T)
    ]

    def path(train: np.ndarray, held: np.ndarray) -> np.ndarray:
        F = np.full((len(alphas), len(held), d), np.nan)  # of outputs without a row
        for columns, rows, part in parts:
            train_rows = np.intersect1d(train, rows)
            if w[train_rows].sum() > 0.0:
                F[:, :, columns] = part.path(alphas, train_rows, held)
        return F

    chosen = ChosenAlpha(alphas[0])
    if search.splits:
        chosen = search.by_paths(exact.sample, path, settings.verbose)
        warn_of_paths(exact.reports, settings.max_iter)
        chosen = _with_exactness(chosen, True)
    return _fit_parts(exact, parts, d, chosen)


def _with_exactness(chosen: ChosenAlpha, is_exact: bool) -> ChosenAlpha:
    """Say in the table whether alpha was chosen by exact fits."""
    return ChosenAlpha(chosen.alpha, (chosen.results or {}) | {"exact": is_exact})


def _fit_parts(
    exact: _Exact, parts: list[tuple[Any, np.ndarray, _Exact]], d: int, chosen: ChosenAlpha
) -> Fit:
    """Fit outputs that have the same rows in turn: (columns, rows, fits) of each such part."""
    matrix, intercepts = np.zeros((n_rows(exact.landmarks), d)), np.zeros(d)
    report: dict[str, Any] = {"solver": "direct", "costs": exact.costs}
    for columns, rows, part in parts:
        used, [(coef, intercept)], solved = part.fits(rows, [chosen.alpha])
        matrix[np.ix_(used, columns)], intercepts[columns] = coef, intercept
        report |= solved
        warn_unless_converged(report, exact.settings.max_iter)
    return Fit(exact.kernel, exact.landmarks, matrix, intercepts, chosen, report)


@dataclass(frozen=True)
class DistinctRows:
    """The distinct rows of a sample, the kernel resolved on all of them, and how to solve."""

    kernel: Kernel
    landmarks: Any
    number: np.ndarray  # the distinct row that each row is
    solver: str
    costs: dict[str, float]  # by which it was chosen
    room: Room  # the memory that it has


def distinct_rows(
    settings: RidgeSettings, kernel: Kernel, sample: Sample, rng: np.random.Generator
) -> DistinctRows:
    """Return the distinct rows of a sample, which is in memory, and the solver for them."""
    rows, device = sample.rows.here(), sample.rows.device
    kernel = kernel.resolve(rows, rng, sample.weights)
    first, number = unique(rows)
    solver, costs = _chosen_solver(settings, sample, len(first))
    room = room_for(sample.rows, 0)
    room.work = tile_bytes(len(first)) if device is not None else 0.0
    if solver == "direct" and device is not None:
        room.require(8 * len(first) ** 2, f"The kernel matrix of {len(first)} rows", 'solver="cg"')
    return DistinctRows(kernel, take(rows, first), number, solver, costs, room)


def _chosen_solver(settings: RidgeSettings, sample: Sample, n: int) -> tuple[str, dict[str, float]]:
    """Return the solver for n distinct rows, and the costs that it was chosen by."""
    on_card = sample.rows.device is not None
    d, q = int(np.prod(sample.rows.tail) or 1), sample.targets.shape[1]
    costs = exact_costs(n, d, q, on_card)
    solver = settings.wanted_solver if n <= _LEARNT_ROWS else settings.solver
    if solver != "auto":
        return solver, costs
    # on a host more rows take hours; that their matrix has no room is told at once
    if is_small(n) or (n > _MOST_ROWS and not on_card):
        return "direct", costs
    return cheaper(costs), costs


def _begun(
    settings: RidgeSettings, kernel: Kernel, sample: Sample, rng: np.random.Generator
) -> _Exact:
    """Begin a fit, with the kernel matrix of all distinct rows where that is to be held here."""
    rows = distinct_rows(settings, kernel, sample, rng)
    exact = _Exact(
        settings, sample, rows.kernel, rows.landmarks, rows.number, rows.solver, rows.costs,
        rows.room,
    )  # fmt: skip
    return exact.directly() if rows.solver == "direct" else exact


@dataclass(frozen=True)
class _Exact:
    """Fits on rows of a sample, which is in memory."""

    settings: RidgeSettings
    sample: Sample
    kernel: Kernel
    landmarks: Any  # the distinct rows
    number: np.ndarray  # the distinct row that each row is
    solver: str
    costs: dict[str, float]
    room: Room
    K: np.ndarray | None = None  # of the distinct rows, None where it is not held here
    reports: list[dict[str, Any]] = field(default_factory=list)  # of the fits of `path`

    def directly(self) -> _Exact:
        """Return the same by the direct solver, with the kernel matrix where it is held here."""
        if self.room.on_card:
            return replace(self, solver="direct", reports=[])
        K = KernelMatrix(self.kernel, self.landmarks, self.settings.n_jobs).full()
        check_definite(K)
        return replace(self, solver="direct", K=K, reports=[])

    def of(self, sample: Sample) -> _Exact:
        """Return fits of the same rows with other targets."""
        return replace(self, sample=sample)

    @property
    def can_fall_back(self) -> bool:
        """Whether the direct solver may take over, and has the memory."""
        n = float(n_rows(self.landmarks))
        return self.settings.solver == "auto" and self.room.holds(8.0 * n * n)

    def fits(self, some: np.ndarray, alphas: list[float]) -> tuple[np.ndarray, list[Any], Any]:
        """Fit on some rows.

        Returns the distinct rows that have weight, coefficients and intercept of each alpha, and
        the report of the last one.
        """
        used, total, means = self._pooled(some)
        settings, intercept = self.settings, self.settings.fit_intercept
        if self.K is not None:
            own = self.K[np.ix_(used, used)]
            found = [dual_ridge(own, means, total, alpha, intercept) for alpha in alphas]
            return used, found, {"solver": "direct", "converged": True}
        rows, place = take(self.landmarks, used), (self.room, settings.n_jobs)
        problem = Centred(self.kernel, rows, means, total, intercept, *place)
        if self.solver == "direct":
            return used, *exact_on_card(problem, alphas)
        limits: dict[str, Any] = {"tol": settings.tol, "max_iter": settings.max_iter}
        limits["must_converge"] = self.can_fall_back
        solutions, report = exact_by_cg(problem, alphas, **limits)
        if self.can_fall_back and not report["converged"]:
            raise Unconverged(report)
        return used, solutions, report

    def path(self, alphas: list[float], train: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
        order = np.argsort(alphas)[::-1]  # each starts from the one before
        used, path, report = self.fits(train, [alphas[i] for i in order])
        self.reports.append(report)
        if self.K is not None:
            others = self.K[np.ix_(self.number[held], used)]
            fitted = [others @ coef for coef, _ in path]
        else:
            landmarks = astype(take(self.landmarks, used), np.float64)
            features = LandmarkFeatures(self.kernel, landmarks)
            coef, rows = np.hstack([c for c, _ in path]), Memory(self.sample.rows.take(held))
            function = Projection(features, coef, dtype=np.float64)
            F = rows.map(function, coef.shape[1:], np.float64, n_jobs=self.settings.n_jobs)
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
        intercept = self.settings.fit_intercept
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
        return Folds(moments, parts, self.settings.fit_intercept, self.settings.verbose), Z

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
