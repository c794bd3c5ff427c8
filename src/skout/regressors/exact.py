"""Exact kernel ridge regression on the distinct rows of a sample."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import astype, n_rows, take, unique
from .._numerics.linalg import check_definite, pivoted_cholesky, triangular_inverse
from .._numerics.validation import check_rng
from ..basis.features import KernelMatrix, LandmarkFeatures, project
from ..basis.passes import Sample
from ..kernels import Kernel
from ..rows import Memory
from ..sketches import PivotedCholesky
from ..solvers import dual_ridge
from ..solvers.cost import cheaper, exact_costs, is_small
from ..solvers.moments import Moments
from .choice import wanted_solver
from .exact_cg import exact_by_cg, exact_on_card, tile_bytes
from .folds import Folds
from .iterative import warn_unless_converged
from .memory import Room, room_for
from .path import Judge, chosen_by_paths
from .splits import Splits, groups_or_splits

__all__ = ["begin_exact", "fit_exact", "fit_some", "path_of_some", "pooled"]

# Rows by whose span the kernel is replaced while alpha is chosen, where there are more.
_STAND_IN = 1500

# So many alphas and splits, together, are fitted one by one while alpha is chosen.
_FEW_FITS = 4

# Most rows whose kernel matrix is factorised in any case where a metric was learnt.
_LEARNT_ROWS = 20_000

# Most rows that are solved without a matrix on the host unless somebody asks for it.
_MOST_ROWS = 200_000


def fit_exact(
    model: Any,
    kernel: Kernel,
    sample: Sample,
    splits: Splits,
    alphas: list[float],
    judge: Judge | None,
) -> Any:
    """Fit a `KernelRidge` on the distinct rows; equal rows add weights and average targets."""
    rng = check_rng(model.random_state)
    number, solver, room = begin_exact(model, kernel, sample, alphas, rng)
    model._row_weights = np.bincount(number, sample.weights)  # of the distinct rows
    if solver == "cg" or room.on_card:
        fit = partial(fit_some, model, sample, number, room, solver)
        if splits:
            path = partial(path_of_some, model, sample, alphas, fit)
            chosen = chosen_by_paths(alphas, splits, sample, judge, path, model.verbose)
            model.alpha_, model.cv_results_ = chosen
        _fit_without_matrix(model, fit, len(number))
        return model
    K = KernelMatrix(model.kernel_, model.landmarks_, model.n_jobs).full()
    exact = Exact(K, number, sample, model.fit_intercept)
    if splits and len(splits) * len(alphas) <= _FEW_FITS:
        path = partial(exact.path, alphas)
        chosen = chosen_by_paths(alphas, splits, sample, judge, path, model.verbose)
        model.alpha_, model.cv_results_ = chosen
        model.cv_results_["exact"] = True
    elif splits:
        folds, Z = exact.folds(splits, rng, model.verbose)
        held = [] if judge is None else [Z[number[some]] for some in judge.held]
        model._choose(alphas, folds, judge, held)
        model.cv_results_["exact"] = exact.has_exact_path
    model._matrix, model.intercept_ = exact.solve(model.alpha_)
    model._prepare()
    return model


def begin_exact(
    model: Any, kernel: Kernel, sample: Sample, alphas: list[float], rng: np.random.Generator
) -> tuple[np.ndarray, str, Room]:
    """Give a model its kernel and landmarks; return the distinct row that each row is, the solver
    and the room that it has.
    """
    rows, device = sample.rows.here(), sample.rows.device
    model.kernel_ = kernel.resolve(rows, rng, sample.weights)
    first, number = unique(rows)
    model.landmarks_, model.alpha_ = take(rows, first), alphas[0]
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


def fit_some(
    model: Any,
    sample: Sample,
    number: np.ndarray,
    room: Room,
    solver: str,
    some: np.ndarray,
    alphas: list[float],
    each: Any = None,
) -> Any:
    """Fit on some rows, without a kernel matrix on the host; return who has weight, and the fit."""
    used, total, means = pooled(number, sample, some)
    rows = take(model.landmarks_, used)
    data = model.kernel_, rows, means, total, alphas, model.fit_intercept
    if solver == "direct":
        return used, exact_on_card(*data, room, each)
    settings = {"tol": model.tol, "max_iter": model.max_iter, "n_jobs": model.n_jobs}
    return used, exact_by_cg(*data, room, each=each, **settings)


def _fit_without_matrix(model: Any, fit: Any, n: int) -> None:
    """Fit on all rows with the alpha that is chosen."""
    used, (coef, intercept, report) = fit(np.arange(n), [model.alpha_])
    model._matrix = np.zeros((n_rows(model.landmarks_), coef.shape[1]))
    model._matrix[used], model.intercept_ = coef, intercept
    model.solver_report_ |= report
    warn_unless_converged(model.solver_report_, model.max_iter)
    model._prepare()


def path_of_some(
    model: Any, sample: Sample, alphas: list[float], fit: Any, train: np.ndarray, held: np.ndarray
) -> np.ndarray:
    """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
    order = np.argsort(alphas)[::-1]  # each starts from the one before
    path: list[Any] = []
    used, _ = fit(train, [alphas[i] for i in order], lambda *one: path.append(one))
    features = LandmarkFeatures(model.kernel_, astype(take(model.landmarks_, used), np.float64))
    coef = np.hstack([c for c, _ in path])
    rows = Memory(sample.rows.take(held))
    fitted = project(features, rows, coef, n_jobs=model.n_jobs, dtype=np.float64)
    F = np.stack([F + b for F, (_, b) in zip(np.hsplit(fitted, len(path)), path, strict=True)])
    return F[np.argsort(order)]


def pooled(
    number: np.ndarray, sample: Sample, some: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct rows that have weight, their weights and the means of their targets."""
    w = np.ones(len(number)) if sample.weights is None else sample.weights
    total = np.bincount(number[some], w[some], minlength=int(number.max()) + 1)
    used = np.flatnonzero(total)
    sums = sparse.csr_matrix((w[some], (number[some], some)), shape=(len(total), len(w)))
    means = sums[used] @ sample.targets.here()
    means /= total[used, None]
    return used, total[used], means


class Exact:
    """The kernel matrix of the distinct rows of a sample, and what is solved with it.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        The kernel matrix of the distinct rows.
    number : ndarray of int, shape (n,)
        The distinct row that each row is.
    sample : Sample
        In memory.
    fit_intercept : bool

    Attributes
    ----------
    has_exact_path : bool
        Whether `folds` are of this kernel, and not of a stand-in.
    """

    def __init__(
        self, K: np.ndarray, number: np.ndarray, sample: Sample, fit_intercept: bool
    ) -> None:
        self.K, self.number = K, number
        self.sample, self.fit_intercept = sample, fit_intercept
        self.has_exact_path = len(self.K) <= _STAND_IN
        check_definite(self.K)

    def solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Fit on all rows; K is lost. Rows without weight get coefficient 0.

        Returns
        -------
        coef : ndarray of shape (m, d)
        intercept : ndarray of shape (d,)
        """
        K = self.K
        used, total, means = pooled(self.number, self.sample, np.arange(len(self.number)))
        if len(used) < len(K):
            K = K[np.ix_(used, used)]
        solution, intercept = dual_ridge(K, means, total, alpha, self.fit_intercept, overwrite=True)
        if len(used) == len(self.K):
            return solution, intercept
        coef = np.zeros((len(self.K), means.shape[1]))
        coef[used] = solution
        return coef, intercept

    def path(self, alphas: list[float], train: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
        used, total, means = pooled(self.number, self.sample, train)
        own, others = self.K[np.ix_(used, used)], self.K[np.ix_(self.number[held], used)]
        fits = [dual_ridge(own, means, total, alpha, self.fit_intercept) for alpha in alphas]
        return np.stack([others @ coef + intercept for coef, intercept in fits])

    def folds(
        self, splits: Splits, rng: np.random.Generator, verbose: bool = False
    ) -> tuple[Folds, np.ndarray]:
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
        return Folds(moments, parts, self.fit_intercept, verbose), Z

    def _coordinates(self, rng: np.random.Generator) -> np.ndarray:
        """Return Z of the distinct rows, shape (m, r)."""
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
