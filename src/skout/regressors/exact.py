"""Exact kernel ridge regression on the distinct rows of a sample, of which K is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from .._numerics.arrays import astype, n_rows, take, unique
from .._numerics.linalg import check_definite
from .._numerics.validation import check_rng
from ..basis.features import KernelMatrix, LandmarkFeatures, project
from ..basis.passes import Sample
from ..kernels import as_kernel
from ..rows import Memory
from ..solvers import dual_ridge
from ..solvers.cost import cheaper, exact_costs, is_small
from .exact_cg import exact_by_cg, exact_on_card, tile_bytes
from .iterative import warn_unless_converged
from .memory import Room, room_for

__all__ = ["exact_errors", "exact_ridge", "fit_exact"]

# Most rows that are solved without a matrix on the host unless somebody asks for it.
_MOST_ROWS = 200_000


def fit_exact(
    model: Any,
    sample: Sample,
    splits: list[tuple[np.ndarray, np.ndarray]],
    alphas: list[float],
) -> Any:
    """Fit a `KernelRidge` on the distinct rows; equal rows add weights and average targets."""
    rows = sample.rows.here()
    first, inverse = unique(rows)
    model.landmarks_ = take(rows, first)
    rng = check_rng(model.random_state)
    model.kernel_ = as_kernel(model.kernel).resolve(rows, rng, sample.weights)
    device = sample.rows.device
    solver = _chosen(model, sample, len(first))
    room = room_for(sample.rows, 0)
    room.work = tile_bytes(len(first)) if device is not None else 0.0
    if solver == "direct" and device is not None:
        room.require(8 * len(first) ** 2, f"The kernel matrix of {len(first)} rows", 'solver="cg"')
    if solver == "cg" or device is not None:
        _fit_without_matrix(model, sample, inverse, splits, alphas, room, solver)
        return model
    K = KernelMatrix(model.kernel_, model.landmarks_, model.n_jobs).full()
    check_definite(K)
    if splits:
        folds = tqdm(splits, desc="folds", disable=not model.verbose)
        intercept = model.fit_intercept
        errors = [exact_errors(K, inverse, sample, f, alphas, intercept) for f in folds]
        model._choose(alphas, errors)
    else:
        model.alpha_ = alphas[0]
    everything = np.arange(len(inverse))
    model._matrix, model.intercept_ = exact_ridge(
        K, inverse, sample, everything, model.alpha_, model.fit_intercept, overwrite=True
    )
    model._prepare()
    return model


def _chosen(model: Any, sample: Sample, n: int) -> str:
    """Return the solver for n distinct rows, and begin the report."""
    on_card = sample.rows.device is not None
    d, q = int(np.prod(sample.rows.tail) or 1), sample.targets.shape[1]
    model.solver_report_ = {"solver": "direct", "costs": exact_costs(n, d, q, on_card)}
    if model.solver != "auto":
        return model.solver
    # on a host more rows take hours; that their matrix has no room is told at once
    if is_small(n) or (n > _MOST_ROWS and not on_card):
        return "direct"
    return cheaper(model.solver_report_["costs"])


def _fit_without_matrix(
    model: Any,
    sample: Sample,
    inverse: np.ndarray,
    splits: list[Any],
    alphas: list[float],
    room: Room,
    solver: str,
) -> None:
    """Fit without a kernel matrix on the host."""
    settings = {"tol": model.tol, "max_iter": model.max_iter, "n_jobs": model.n_jobs}

    def fit(some: np.ndarray, path: list[float], each: Any = None) -> Any:
        used, total, means = _pooled(inverse, sample, some)
        rows = take(model.landmarks_, used)
        data = model.kernel_, rows, means, total, path, model.fit_intercept
        if solver == "direct":
            return used, exact_on_card(*data, room, each)
        return used, exact_by_cg(*data, room, each=each, **settings)

    if splits:
        model._choose(alphas, [_fold_errors(model, sample, f, alphas, fit) for f in splits])
    else:
        model.alpha_ = alphas[0]
    used, (coef, intercept, report) = fit(np.arange(len(inverse)), [model.alpha_])
    model._matrix = np.zeros((n_rows(model.landmarks_), coef.shape[1]))
    model._matrix[used], model.intercept_ = coef, intercept
    model.solver_report_ |= report
    warn_unless_converged(model.solver_report_, model.max_iter)
    model._prepare()


def _fold_errors(model: Any, sample: Sample, fold: Any, alphas: list[float], fit: Any) -> list:
    """Return the errors on the held-out rows; the largest alpha is solved first."""
    train, test = fold
    order = np.argsort(alphas)[::-1]
    found: list[Any] = []
    everything = np.arange(len(sample.rows))
    used, _ = fit(everything[train], [alphas[i] for i in order], lambda *one: found.append(one))
    held_out, truth = sample.rows.take(everything[test]), sample.targets.take(everything[test])
    w = None if sample.weights is None else sample.weights[test]
    features = LandmarkFeatures(model.kernel_, astype(take(model.landmarks_, used), np.float64))
    coef = np.hstack([c for c, _ in found])
    fitted = project(features, Memory(held_out), coef, n_jobs=model.n_jobs, dtype=np.float64)
    errors = np.empty(len(alphas))
    for number, predicted, (_, b) in zip(order, np.hsplit(fitted, len(found)), found, strict=True):
        squared = (truth - predicted - b) ** 2
        errors[number] = np.average(squared.mean(axis=1), weights=w)
    return list(errors)


def _pooled(
    inverse: np.ndarray, sample: Sample, some: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct rows that have weight, their weights and the means of their targets."""
    w = np.ones(len(inverse)) if sample.weights is None else sample.weights
    total = np.bincount(inverse[some], w[some], minlength=int(inverse.max()) + 1)
    used = np.flatnonzero(total)
    sums = sparse.csr_matrix((w[some], (inverse[some], some)), shape=(len(total), len(w)))
    means = sums[used] @ sample.targets.here()
    return used, total[used], means / total[used, None]


def exact_ridge(
    K: np.ndarray,
    inverse: np.ndarray,
    sample: Sample,
    some: np.ndarray,
    alpha: float,
    fit_intercept: bool,
    *,
    overwrite: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Fit on some of the rows; rows without weight get coefficient 0. K may be overwritten.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        The kernel matrix of the distinct rows.
    inverse : ndarray of int, shape (n,)
        The distinct row that each row is.
    sample : Sample
    some : ndarray
        Positions of the rows to fit on, or a mask.
    alpha : float
    fit_intercept : bool
    overwrite : bool, default False
        Whether K may be overwritten.

    Returns
    -------
    coef : ndarray of shape (m, d)
    intercept : ndarray of shape (d,)
    """
    some = np.arange(len(inverse))[some]
    used, total, means = _pooled(inverse, sample, some)
    if len(used) < len(K):
        K, overwrite = K[np.ix_(used, used)], True
    solution, intercept = dual_ridge(K, means, total, alpha, fit_intercept, overwrite=overwrite)
    m = int(inverse.max()) + 1
    if len(used) == m:
        return solution, intercept
    coef = np.zeros((m, means.shape[1]))
    coef[used] = solution
    return coef, intercept


def exact_errors(
    K: np.ndarray,
    inverse: np.ndarray,
    sample: Sample,
    fold: tuple[np.ndarray, np.ndarray],
    alphas: list[float],
    fit_intercept: bool,
) -> list[float]:
    """Return the mean squared error on the held-out rows of a fold, for each alpha."""
    train, test = fold
    K_test = K[inverse[test]]
    w = None if sample.weights is None else sample.weights[test]
    errors = []
    for alpha in alphas:
        coef, intercept = exact_ridge(K, inverse, sample, train, alpha, fit_intercept)
        squared = (sample.targets.take(test) - K_test @ coef - intercept) ** 2
        errors.append(float(np.average(squared.mean(axis=1), weights=w)))
    return errors
