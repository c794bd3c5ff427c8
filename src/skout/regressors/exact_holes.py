"""Exact kernel ridge regression on targets with holes: a system for each set of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.linalg import check_definite
from .._numerics.validation import check_rng
from ..basis.features import KernelMatrix
from ..basis.passes import Sample
from ..kernels import Kernel
from ..rows import Memory
from ..solvers import dual_ridge
from ..solvers.holed import check_outputs_seen, outputs_by_rows
from .exact import begin_exact, fit_some, path_of_some, pooled
from .iterative import warn_unless_converged
from .path import Judge, chosen_by_paths
from .splits import Splits

__all__ = ["fit_exact_holes"]


def fit_exact_holes(
    model: Any,
    kernel: Kernel,
    sample: Sample,
    splits: Splits,
    alphas: list[float],
    judge: Judge | None,
) -> Any:
    """Fit a `KernelRidge` on the distinct rows of each output; outputs with equal rows together."""
    T = sample.targets.here()
    w = np.ones(len(T)) if sample.weights is None else sample.weights
    check_outputs_seen(((~np.isnan(T)) * w[:, None]).sum(axis=0))
    number, solver, room = begin_exact(model, kernel, sample, alphas, check_rng(model.random_state))
    K = None
    if solver == "direct" and not room.on_card:
        K = KernelMatrix(model.kernel_, model.landmarks_, model.n_jobs).full()
        check_definite(K)
    parts = []
    for columns, rows in outputs_by_rows(T):
        own = replace(sample, targets=Memory(T[:, columns], "y"))
        if K is None:
            fit = partial(fit_some, model, own, number, room, solver)
            path = partial(path_of_some, model, own, alphas, fit)
        else:
            fit = partial(_fit_part, model, own, number, K)
            path = partial(_path_of_part, number, K, alphas, fit)
        parts.append((columns, rows, fit, path))
    if splits:
        path = partial(_path, parts, len(alphas), T.shape[1], w)
        chosen = chosen_by_paths(alphas, splits, sample, judge, path, model.verbose)
        model.alpha_, model.cv_results_ = chosen
        model.cv_results_["exact"] = True
    model._matrix = np.zeros((n_rows(model.landmarks_), T.shape[1]))
    model.intercept_ = np.zeros(T.shape[1])
    for columns, rows, fit, _ in parts:
        used, (coef, intercept, report) = fit(rows, [model.alpha_])
        model._matrix[np.ix_(used, columns)], model.intercept_[columns] = coef, intercept
        model.solver_report_ |= report
        warn_unless_converged(model.solver_report_ | report, model.max_iter)
    model._prepare()
    return model


def _fit_part(
    model: Any,
    sample: Sample,
    number: np.ndarray,
    K: np.ndarray,
    some: np.ndarray,
    alphas: list[float],
    each: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Any:
    """Fit on some rows, whose kernel matrix is a part of K; return who has weight, and the fit."""
    used, total, means = pooled(number, sample, some)
    own = K[np.ix_(used, used)]
    for alpha in alphas:
        found = dual_ridge(own, means, total, alpha, model.fit_intercept)
        if each is not None:
            each(*found)
    return used, (*found, {"solver": "direct", "converged": True})


def _path_of_part(
    number: np.ndarray,
    K: np.ndarray,
    alphas: list[float],
    fit: Any,
    train: np.ndarray,
    held: np.ndarray,
) -> np.ndarray:
    """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
    found: list[Any] = []
    used, _ = fit(train, alphas, lambda *one: found.append(one))
    block = K[np.ix_(number[held], used)]
    return np.stack([block @ coef + intercept for coef, intercept in found])


def _path(
    parts: list[Any], n_alphas: int, d: int, w: np.ndarray, train: np.ndarray, held: np.ndarray
) -> np.ndarray:
    """Put the paths of all outputs together: NaN of those that no training row has."""
    F = np.full((n_alphas, len(held), d), np.nan)
    for columns, rows, _, path in parts:
        own = np.intersect1d(train, rows)
        if w[own].sum() > 0.0:
            F[:, :, columns] = path(own, held)
    return F
