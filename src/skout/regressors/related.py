"""Kernel ridge regression whose outputs are related by a task matrix, given or learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._numerics.arrays import numpy_of
from .._numerics.linalg import pivoted_cholesky, triangular_inverse
from .._numerics.threads import map_blocks
from .._numerics.validation import check_choice, check_rng
from ..basis.features import KernelMatrix
from ..basis.passes import Sample
from ..kernels import Kernel
from ..solvers.coupled import Coupled, MomentSystem, coupled, coupled_path
from ..solvers.design import Design
from ..solvers.holed import check_outputs_seen
from ..solvers.masked import MaskedSystem
from ..solvers.moments import ridge_errors
from .base import coordinates_of
from .exact import begin_exact
from .folds import Folds
from .iterative import warn_unless_converged
from .path import Judge, chosen_by_paths
from .splits import Splits
from .tasks import check_task_matrix

__all__ = ["RelatedFolds", "checked_tasks", "fit_related", "solve_related"]

_LEARNT = "learnt"


def checked_tasks(task_matrix: Any, d: int) -> Any:
    """Return M, "learnt" or None."""
    if isinstance(task_matrix, str):
        check_choice(task_matrix, "task_matrix", (_LEARNT,))
        return _LEARNT
    return None if task_matrix is None else check_task_matrix(task_matrix, d)


@dataclass(frozen=True)
class RelatedFolds(Folds):
    """Moments of groups of rows, whose outputs a matrix relates."""

    tasks: Any = None

    def solved(self, moments: Any, alpha: float) -> Coupled:
        """Solve with the moments of some rows."""
        return coupled(MomentSystem(moments, self.fit_intercept), alpha, self.tasks)

    def path(self, role: np.ndarray, alphas: Sequence[float]) -> list[Coupled]:
        """Solve roughly for each alpha on the training rows of a split."""
        return coupled_path(MomentSystem(self.train(role), self.fit_intercept), alphas, self.tasks)

    def errors(self, alphas: Sequence[float], n_jobs: int | None = None) -> list[list[float]]:
        """Return the mean squared error of each split and alpha; no split that lacks rows yet."""

        def of_split(role: np.ndarray) -> list[float]:
            test = self.test(role)
            if np.max(self.train(role).weight) <= 0.0 or np.max(test.weight) <= 0.0:
                return []
            return [_mean_error(test, fit) for fit in self.path(role, alphas)]

        found = map_blocks(of_split, self.roles, n_jobs=n_jobs)
        return [errors for errors in self._shown(found) if errors]

    def best_predictions(self, role: np.ndarray, Z: np.ndarray, alphas: Sequence[float]) -> Any:
        return np.stack([Z @ fit.coef + fit.intercept for fit in self.path(role, alphas)])


def _mean_error(test: Any, fit: Coupled) -> float:
    """Return the mean over outputs of the squared error over the rows that have them."""
    found = []
    for columns in test.column_sets():
        own = test.of_columns(columns)
        if own.weight > 0.0:
            found.append(ridge_errors(own, fit.coef[:, columns], fit.intercept[columns]))
    return float(np.concatenate(found).mean())


def solve_related(model: Any, folds: Any) -> None:
    """Give a sketched model its coefficients from the moments of all rows."""
    fit = folds.solved(folds.total, model.alpha_)
    model._matrix, model.intercept_ = model.basis_._on_features(fit.coef), fit.intercept
    model.task_matrix_ = fit.task_matrix
    model.solver_report_ = getattr(model, "solver_report_", {}) | fit.report
    warn_unless_converged(model.solver_report_, model.max_iter)


def fit_related(
    model: Any,
    kernel: Kernel,
    sample: Sample,
    splits: Splits,
    alphas: list[float],
    judge: Judge | None,
) -> Any:
    """Fit from coordinates of all rows: without a sketch, or where moments take too much memory."""
    if model.sketch is None:
        design, gram, on_features = _exact_coordinates(model, kernel, sample, alphas)
    else:
        design, gram = coordinates_of(model, sample.rows), None
        on_features = model.basis_._on_features
    fit = _fit_system(model, sample, (design, gram), alphas, splits, judge)
    model._matrix = on_features(fit.coef)
    model._prepare()
    return model


def _exact_coordinates(
    model: Any, kernel: Kernel, sample: Sample, alphas: list[float]
) -> tuple[Design, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Return Z with K = Z Z' of all rows, K, and C -> what k(landmarks, x) is multiplied with."""
    number, _, room = begin_exact(model, kernel, sample, alphas, check_rng(model.random_state))
    if room.on_card or model.solver == "cg":
        raise ValueError(
            'task_matrix without a sketch is solved on the CPU by solver="direct": leave out '
            "device and solver, or give a sketch."
        )
    K = KernelMatrix(model.kernel_, model.landmarks_, model.n_jobs).full()
    L, kept = pivoted_cholesky(K)
    inverse = triangular_inverse(L)
    Z = K[:, kept] @ inverse.T

    def on_rows(coef: np.ndarray) -> np.ndarray:
        out = np.zeros((len(K), coef.shape[1]))
        out[kept] = inverse.T @ coef
        return out

    return Design(Z[number], n_jobs=model.n_jobs), K[np.ix_(number, number)], on_rows


def _fit_system(
    model: Any,
    sample: Sample,
    rows: tuple[Design, np.ndarray | None],
    alphas: list[float],
    splits: Splits,
    judge: Judge | None,
) -> Coupled:
    """Choose alpha, if there are several, and solve."""
    T = np.asarray(sample.targets.here(), dtype=np.float64)
    origin = 0.0 if sample.origin is None else sample.origin
    design, gram = rows
    system = MaskedSystem.of(design, T - origin, sample.weights, model.fit_intercept)
    system = replace(system, K=gram)
    check_outputs_seen(system.n)
    tasks = checked_tasks(model.task_matrix, T.shape[1])
    model.alpha_ = alphas[0]
    if splits:
        path = partial(_path, system, tasks, alphas, origin)
        chosen = chosen_by_paths(alphas, splits, sample, judge, path, model.verbose)
        model.alpha_, model.cv_results_ = chosen
    fit = coupled(system.balanced().on_host(), model.alpha_, tasks)
    warn_unless_converged(fit.report, model.max_iter)
    model.intercept_, model.task_matrix_ = fit.intercept + origin, fit.task_matrix
    model.solver_report_ = fit.report
    model._base = None
    return fit


def _path(
    system: MaskedSystem,
    tasks: Any,
    alphas: list[float],
    origin: Any,
    train: np.ndarray,
    held: np.ndarray,
) -> np.ndarray:
    """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
    part, rows = system.take(train).balanced().on_host(), system.design.take(held)
    fits = coupled_path(part, alphas, tasks)
    F = [numpy_of(rows.product(system.near(fit.coef))) + fit.intercept for fit in fits]
    return np.stack(F) + origin
