"""Ridge regression from coordinates that are kept, on targets with holes or related outputs.

Each output is fitted on the rows that have it.

Output j has its own system, of the rows that have it and of their weights w_ij:

    (sum_i w_ij z_i z_i' + n_j alpha I) c_j = sum_i w_ij z_i y_ij,      n_j = sum_i w_ij.

One pass makes a matrix Z'Z for each set of outputs with equal rows, see `solvers.holed`. Where
these would take too much memory, or operations, the coordinates Z of all rows are kept instead:
some outputs are solved directly, one after another, and the others together by conjugate gradients,
whose products Z'(W * (Z C)) serve all of them, each the way that takes fewer operations. Outputs
that a task matrix relates have one system together, see `solvers.coupled`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import numpy_of, unique_columns
from .._numerics.linalg import pivoted_cholesky, triangular_inverse
from .._numerics.validation import check_rng
from ..basis.features import KernelMatrix
from ..basis.passes import Sample, WhitenedFeatures, Whitening
from ..kernels import Kernel
from ..rows import block_rows, limits
from ..solvers.cg import refined
from ..solvers.coupled import Solved, coupled, coupled_path
from ..solvers.design import Design
from ..solvers.holed import check_outputs_seen
from ..solvers.masked import MaskedSystem, cheaper_by_steps
from ..solvers.moments import PartlyWhitened
from .base import coordinates_of
from .exact import begin_exact
from .iterative import warn_unless_converged
from .path import Search
from .tasks import checked_tasks

__all__ = ["fit_by_coordinates", "fit_related", "keeps_rows", "mean_of_known"]

# Relative residual of conjugate gradients, where they stand for a direct solver; and most steps.
_TOL, _MOST_STEPS = 1e-9, 2000
# What a round of them in float32 makes of the residual.
_GAIN = 1e-4
# Adding a number to a sum, or keeping one, takes as long as so many operations of a product.
_SUM_COST = 60.0


def mean_of_known(T: Any) -> np.ndarray | None:
    """Return the mean of each output over the rows that have it, 0 where none has.

    None for sparse targets, from which nothing can be subtracted.
    """
    if sparse.issparse(T):
        return None
    there = ~np.isnan(T)
    sums = np.where(there, T, 0.0).sum(axis=0, dtype=np.float64)
    return sums / np.maximum(there.sum(axis=0), 1)


def keeps_rows(model: Any, targets: np.ndarray, n_groups: int) -> bool:
    """Return whether to keep coordinates of all rows, and not a Z'Z for each mask and group.

    With solver="direct", or for related outputs, which are solved by many products, each cheap with
    a Z'Z, only memory decides.
    """
    if model.solver == "cg":
        return True
    by_moments, m = model.solver == "direct" or model.task_matrix is not None, model.basis_.rank_
    missing = np.isnan(targets)
    first, codes = unique_columns(missing)
    n, count = len(missing), len(first)
    if 8.0 * max(1, n_groups) * count * m * m > limits().coordinates_bytes:
        return True
    if by_moments or 8.0 * n * m > limits().coordinates_bytes:
        return False
    hidden = missing[:, first].sum(axis=0)
    summed = np.minimum(hidden, n - hidden).sum() + n * bool((2 * hidden <= n).any())
    sums = n / block_rows(n, 8 * m) * count
    by_masks = float(m) * m * (summed + _SUM_COST * sums + count * m / 3.0)
    kept = cheaper_by_steps(n - hidden, np.bincount(codes), n, m)[1] + _SUM_COST * n * m
    return kept < by_masks


def _partly_whitened(
    model: Any, sample: Sample, alpha: float
) -> tuple[Design, PartlyWhitened | None]:
    """Return what to solve with: features whitened as far as alpha needs, where they can be held.

    To whiten them all takes as many operations as Z'Z.
    """
    basis, rows = model.basis_, sample.rows
    plan = basis._plan(rows, alpha, centre=False)
    if rows.device is None and rows.precision == np.float64 and plan.size < basis.rank_:
        features = WhitenedFeatures(basis._features, Whitening(basis.components_, plan))
        held = rows.kept(features, (basis.rank_,), n_jobs=model.n_jobs)
        if held is not None:
            partly = PartlyWhitened(basis.components_, plan.size)
            return Design(held, n_jobs=model.n_jobs), partly
    return coordinates_of(model, sample.rows), None


def fit_by_coordinates(model: Any, sample: Sample, search: Search) -> None:
    """Fit a `KernelRidge` on targets with holes."""
    design, partly = _partly_whitened(model, sample, min(search.alphas))
    on_features = model.basis_._on_features if partly is None else partly.on_features
    settings = {"tol": _TOL, "max_iter": max(_MOST_STEPS, model.max_iter)}
    if model.solver == "cg":
        settings = {"tol": model.tol, "max_iter": model.max_iter}

    def solve(system: MaskedSystem, alpha: float) -> Solved:
        return _solved(system, alpha, **settings)

    def path(system: MaskedSystem) -> list[Solved]:
        return [solve(system, alpha) for alpha in search.alphas]

    _fit(model, sample, design, on_features, search, path, solve, partly=partly)


def fit_related(model: Any, kernel: Kernel, sample: Sample, search: Search) -> None:
    """Fit a `KernelRidge` whose outputs a task matrix relates.

    Without a sketch, or where moments take too much memory.
    """
    K = None
    if model.sketch is None:
        design, K, on_features = _exact_coordinates(model, kernel, sample)
    else:
        design, on_features = coordinates_of(model, sample.rows), model.basis_._on_features
    tasks = checked_tasks(model.task_matrix, sample.targets.shape[1])

    def solve(system: MaskedSystem, alpha: float) -> Solved:
        return coupled(system.balanced().on_host(), alpha, tasks)

    def path(system: MaskedSystem) -> list[Solved]:
        return coupled_path(system.balanced().on_host(), search.alphas, tasks)

    _fit(model, sample, design, on_features, search, path, solve, K=K)


def _exact_coordinates(
    model: Any, kernel: Kernel, sample: Sample
) -> tuple[Design, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Return Z with K = Z Z' of all rows, K, and C -> what k(landmarks, x) is multiplied with."""
    number, _, room = begin_exact(model, kernel, sample, check_rng(model.random_state))
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


def _fit(
    model: Any,
    sample: Sample,
    design: Design,
    on_features: Callable[[np.ndarray], np.ndarray],
    search: Search,
    path: Callable[[MaskedSystem], list[Solved]],
    solve: Callable[[MaskedSystem, float], Solved],
    **more: Any,
) -> None:
    """Choose alpha, if there are several, by a path over all of them; solve for it on all rows."""
    T = np.asarray(sample.targets.here(), dtype=np.float64)
    origin = 0.0 if sample.origin is None else sample.origin
    system = MaskedSystem.of(design, T - origin, sample.weights, model.fit_intercept, **more)
    check_outputs_seen(system.n)

    def predicted(train: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
        rows, fits = design.take(held), path(system.take(train))
        F = [numpy_of(rows.product(system.near(fit.coef))) + fit.intercept for fit in fits]
        return np.stack(F) + origin

    if search.splits:
        search.by_paths(model, sample, predicted)
    fit = solve(system, model.alpha_)
    warn_unless_converged(fit.report, model.max_iter)
    model._matrix, model.intercept_ = on_features(fit.coef), fit.intercept + origin
    if fit.task_matrix is not None:
        model.task_matrix_ = fit.task_matrix
    model.solver_report_ = fit.report
    model._base = None
    model._prepare()


def _solved(system: MaskedSystem, alpha: float, *, tol: float, max_iter: int) -> Solved:
    """Solve for each output on its own rows.

    An output that has no row gets NaN, in the part of a split for instance.
    """
    p, d = system.shape
    coef = np.full((p, d), np.nan)
    few, many = system.by_rows()
    for columns, rows in few:
        coef[:, columns] = system.directly(alpha, columns, rows)
    report: dict[str, Any] = {
        "solver": "direct", "converged": True, "iterations": 0, "relative_residual": 0.0,
        "tolerance": tol, "outputs_by_cg": len(many), "coordinates_held": system.design.is_held,
    }  # fmt: skip
    if len(many):
        part = system if len(many) == d else system.columns(many)
        run = refined(
            part.products(alpha), part.right, part.preconditioner(alpha), tol=tol,
            max_iter=max_iter, gain=_GAIN, believe=True,
        )  # fmt: skip
        coef[:, many] = numpy_of(run.x)
        report |= {"solver": "cg", "iterations": run.steps, "relative_residual": run.residual}
        report["converged"] = bool(run.residual <= tol or run.stuck)
    return Solved(coef, system.intercept(coef), report)
