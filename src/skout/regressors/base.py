"""What the kernel machines share: coordinates, the convex solver, alpha paths, predictions."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from .._arrays import float_dtype, n_rows
from .._lazy import in_memory, subset
from .._linalg import square_root
from .._parts import PartsByName
from .._validation import (
    check_alphas,
    check_choice,
    check_number,
    check_rng,
    check_rows,
    check_targets,
    check_weights,
)
from ..basis import KernelBasis
from ..chunks import on_cluster
from ..cluster import here, lazily, rows_of
from ..coordinates import Coordinates
from ..gram import project
from ..kernels import as_kernel
from ..losses import Loss, as_loss
from ..sketches import as_sketch
from ..solvers import Problem, Solution, solve_convex
from .splits import splits_of

__all__ = ["KernelMachineBase"]


# Targets below this leave the solver, which smooths losses, without digits.
_SMALLEST = 1e-130


class KernelMachineBase(PartsByName):
    """A model f(x) = A' Theta' z(x) + b, learned by minimising a convex loss."""

    _by_name: ClassVar = {"kernel": as_kernel, "sketch": as_sketch, "loss": as_loss}

    kernel: Any
    sketch: Any
    alpha: Any
    cv: Any
    fit_intercept: bool
    tol: float
    max_iter: int
    random_state: Any
    n_jobs: int | None
    verbose: bool

    def _rows(self, X: Any, sample_weight: Any) -> tuple[Any, np.ndarray | None]:
        """Check and encode what was given to fit."""
        check_alphas(self.alpha, strict=True)
        check_number(self.tol, "tol", strict=True)
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_choice(self.fit_intercept, "fit_intercept", (True, False))
        rows = rows_of(self, as_kernel(self.kernel), X, reset=True)
        if n_rows(rows) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two rows. Got {n_rows(rows)} sample(s)."
            )
        return rows, check_weights(here(sample_weight, "sample_weight"), rows)

    def _targets(self, y: Any, n: int) -> np.ndarray:
        """Check what was given to fit as y, and hold it here: the solver needs all of it."""
        targets = in_memory(check_targets(here(y, "y"), n))
        largest = float(np.abs(targets).max())
        if 0.0 < largest < _SMALLEST:
            raise ValueError(
                f"y holds numbers of at most {largest:.3g}, whose squares underflow. "
                "Scale the targets."
            )
        return targets

    def _learn(
        self,
        rows: Any,
        Y: np.ndarray,
        weights: np.ndarray | None,
        loss: Loss,
        task_matrix: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        pool: tuple[Any, Any] | None = None,
    ) -> None:
        """Find the coordinates, choose alpha if there are several, and solve.

        `labels`, where there are any, stratify the folds. `pool` are objects, and their weights,
        that the basis is fitted on instead of the rows.
        """
        alphas = check_alphas(self.alpha, strict=True)
        loss.check_outputs(Y.shape[1])
        if pool is None:
            self._fit_basis(rows, weights)
        else:
            some = check_rows(self, as_kernel(self.kernel), pool[0], reset=False)
            self._fit_basis(some, check_weights(pool[1], some))
        n = len(Y)
        shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        root = None if task_matrix is None else square_root(task_matrix)
        Z = Coordinates.of_basis(self.basis_, rows)
        problem = Problem(
            Z, Y.astype(np.float64), shares, loss, alphas[0], root, self.fit_intercept
        )
        self.__dict__.pop("cv_results_", None)
        self.alpha_ = self._choose(problem, alphas, labels) if len(alphas) > 1 else alphas[0]
        solution = solve_convex(
            replace(problem, alpha=self.alpha_),
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )
        self.coef_ = problem.mix(solution.theta)
        self.intercept_ = solution.intercept
        self.objective_ = solution.primal
        self.duality_gap_ = solution.gap
        self.n_iter_ = solution.n_iter
        self._warn_if_stopped(solution, float_dtype(rows))

    def _fit_basis(self, rows: Any, weights: np.ndarray | None) -> None:
        """Fit the basis on the rows of positive weight, as if there were no others."""
        if weights is not None and not np.all(weights > 0.0):
            used = np.flatnonzero(weights)
            rows, weights = subset(rows, used), weights[used]
        basis = KernelBasis(self.kernel, self.sketch, n_jobs=self.n_jobs)
        rng = check_rng(self.random_state)
        self.basis_ = basis._fit_rows(as_kernel(self.kernel), rows, rng, weights)
        self.kernel_ = self.basis_.kernel_

    def _choose(self, problem: Problem, alphas: list[float], labels: np.ndarray | None) -> float:
        """Return the alpha of least held-out loss; each fold is one path with warm starts."""
        order = np.argsort(alphas)[::-1]  # from the most penalised, whose problem is easiest
        splits = splits_of(self.cv, len(problem.Y), labels, stratified=labels is not None)
        splits = [
            split for split in splits if all(problem.weights[part].sum() > 0.0 for part in split)
        ]
        if not splits:
            raise ValueError(f"cv={self.cv!r} has no split with rows of positive weight.")
        table = np.empty((len(splits), len(alphas)))
        for k, (train, test) in enumerate(tqdm(splits, desc="folds", disable=not self.verbose)):
            part, held = problem.take(train), problem.take(test)
            solution: Solution | None = None
            for j in order:
                fold = replace(part, alpha=alphas[j])
                solution = solve_convex(
                    fold, tol=max(self.tol, 1e-3), max_iter=self.max_iter, start=solution
                )
                F = held.predict(solution.theta, solution.intercept)
                table[k, j] = held.weights @ problem.loss.value(F, held.Y)
        mean = table.mean(axis=0)
        self.cv_results_ = {
            "alpha": np.array(alphas),
            "mean_loss": mean,
            "std_loss": table.std(axis=0),
            "fold_loss": table,
        }
        return alphas[int(np.argmin(mean))]

    def _warn_if_stopped(self, solution: Solution, dtype: np.dtype) -> None:
        if solution.gap <= self.tol:
            return
        more = " or give float64 rows," if dtype == np.float32 else ""
        warnings.warn(
            f"{type(self).__name__} stopped after {solution.n_iter} Newton steps with a relative "
            f"duality gap of {solution.gap:.1e}, above tol={self.tol:g}: the objective may be that "
            f"much above its minimum. Raise max_iter (now {self.max_iter}),{more} or raise alpha "
            "or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _decision(self, X: Any) -> np.ndarray:
        """Return f(x) of each row, shape (n, d)."""
        check_is_fitted(self)
        if on_cluster(X):
            return lazily(self, "_decision", X, self.coef_.shape[1:], like=self.basis_.landmarks_)
        rows = check_rows(self, self.kernel_, X, reset=False)
        matrix = self.basis_.on_features(self.coef_)
        F = project(self.basis_._features(), rows, matrix, n_jobs=self.n_jobs)
        return (F + self.intercept_).astype(float_dtype(rows), copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
