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
from dataclasses import replace
from typing import Any

import numpy as np

from .._numerics.arrays import numpy_of, unique_columns
from .._numerics.linalg import pivoted_cholesky, triangular_inverse
from .._numerics.validation import check_rng
from ..basis import Engine
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
from .exact import distinct_rows
from .fit import ChosenAlpha, Fit, RidgeSettings
from .iterative import warn_unless_converged
from .path import Search

__all__ = ["fit_by_coordinates", "fit_exact_related", "fit_related", "keeps_rows"]

# Relative residual of conjugate gradients, where they stand for a direct solver; and most steps.
_TOL, _MOST_STEPS = 1e-9, 2000
# What a round of them in float32 makes of the residual.
_GAIN = 1e-4
# Adding a number to a sum, or keeping one, takes as long as so many operations of a product.
_SUM_COST = 60.0


def keeps_rows(settings: RidgeSettings, rank: int, targets: np.ndarray, n_groups: int) -> bool:
    """Return whether to keep coordinates of all rows, and not a Z'Z for each mask and group.

    With solver="direct", or for related outputs, which are solved by many products, each cheap with
    a Z'Z, only memory decides.
    """
    if settings.solver == "cg":
        return True
    by_moments, m = settings.solver == "direct" or settings.tasks is not None, rank
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
    engine: Engine, sample: Sample, alpha: float
) -> tuple[Design, PartlyWhitened | None]:
    """Return what to solve with: features whitened as far as alpha needs, where they can be held.

    To whiten them all takes as many operations as Z'Z.
    """
    rows = sample.rows
    plan = engine.plan(rows, alpha, centre=False)
    if rows.device is None and rows.precision == np.float64 and plan.size < engine.rank:
        features = WhitenedFeatures(engine.features, Whitening(engine.components, plan))
        held = rows.kept(features, (engine.rank,), n_jobs=engine.n_jobs)
        if held is not None:
            partly = PartlyWhitened(engine.components, plan.size)
            return Design(held, n_jobs=engine.n_jobs), partly
    return coordinates_of(engine, rows), None


def fit_by_coordinates(
    settings: RidgeSettings, engine: Engine, sample: Sample, search: Search
) -> Fit:
    """Fit on targets of which some are missing."""
    design, partly = _partly_whitened(engine, sample, min(search.alphas))
    on_features = engine.on_features if partly is None else partly.on_features
    limits: dict[str, Any] = {"tol": _TOL, "max_iter": max(_MOST_STEPS, settings.max_iter)}
    if settings.solver == "cg":
        limits = {"tol": settings.tol, "max_iter": settings.max_iter}

    def solve(system: MaskedSystem, alpha: float) -> Solved:
        return _solved(system, alpha, **limits)

    def path(system: MaskedSystem) -> list[Solved]:
        return [solve(system, alpha) for alpha in search.alphas]

    solved, chosen = _chosen_and_solved(
        settings, sample, design, search, path, solve, partly=partly
    )
    matrix = on_features(solved.coef)
    more = {"report": solved.report, "origin": sample.origin}
    return Fit.in_span(engine, matrix, solved.intercept, chosen, **more)


def fit_related(settings: RidgeSettings, engine: Engine, sample: Sample, search: Search) -> Fit:
    """Fit outputs that a task matrix relates, where their moments take too much memory."""
    solved, chosen = _related(settings, sample, coordinates_of(engine, sample.rows), search)
    more = {"report": solved.report, "origin": sample.origin, "task_matrix": solved.task_matrix}
    matrix = engine.on_features(solved.coef)
    return Fit.in_span(engine, matrix, solved.intercept, chosen, **more)


def fit_exact_related(
    settings: RidgeSettings, kernel: Kernel, sample: Sample, search: Search
) -> Fit:
    """Fit outputs that a task matrix relates, without a sketch: in coordinates Z with K = Z Z'."""
    distinct = distinct_rows(settings, kernel, sample, check_rng(settings.random_state))
    if distinct.room.on_card or settings.solver == "cg":
        raise ValueError(
            'task_matrix without a sketch is solved on the CPU by solver="direct": leave out '
            "device and solver, or give a sketch."
        )
    number = distinct.number
    K = KernelMatrix(distinct.kernel, distinct.landmarks, settings.n_jobs).full()
    L, kept = pivoted_cholesky(K)
    inverse = triangular_inverse(L)
    Z = K[:, kept] @ inverse.T
    design, gram = Design(Z[number], n_jobs=settings.n_jobs), K[np.ix_(number, number)]
    solved, chosen = _related(settings, sample, design, search, K=gram)
    matrix = np.zeros((len(K), solved.coef.shape[1]))
    matrix[kept] = inverse.T @ solved.coef
    return Fit(
        distinct.kernel, distinct.landmarks, matrix, solved.intercept, chosen, solved.report,
        task_matrix=solved.task_matrix,
    )  # fmt: skip


def _related(
    settings: RidgeSettings, sample: Sample, design: Design, search: Search, **more: Any
) -> tuple[Solved, ChosenAlpha]:
    """Choose alpha and solve for outputs that a task matrix relates."""

    def solve(system: MaskedSystem, alpha: float) -> Solved:
        return coupled(system.balanced().on_host(), alpha, settings.tasks)

    def path(system: MaskedSystem) -> list[Solved]:
        return coupled_path(system.balanced().on_host(), search.alphas, settings.tasks)

    return _chosen_and_solved(settings, sample, design, search, path, solve, **more)


def _chosen_and_solved(
    settings: RidgeSettings,
    sample: Sample,
    design: Design,
    search: Search,
    path: Callable[[MaskedSystem], list[Solved]],
    solve: Callable[[MaskedSystem, float], Solved],
    **more: Any,
) -> tuple[Solved, ChosenAlpha]:
    """Choose alpha, if there are several, by a path over all of them; solve for it on all rows."""
    T = np.asarray(sample.targets.here(), dtype=np.float64)
    origin = 0.0 if sample.origin is None else sample.origin
    system = MaskedSystem.of(design, T - origin, sample.weights, settings.fit_intercept, **more)
    check_outputs_seen(system.n)

    def predicted(train: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
        rows, fits = design.take(held), path(system.take(train))
        F = [numpy_of(rows.product(system.near(fit.coef))) + fit.intercept for fit in fits]
        return np.stack(F) + origin

    chosen = ChosenAlpha(search.alphas[0])
    if search.splits:
        chosen = search.by_paths(sample, predicted, settings.verbose)
    solved = solve(system, chosen.alpha)
    warn_unless_converged(solved.report, settings.max_iter)
    return replace(solved, intercept=solved.intercept + origin), chosen


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
            max_iter=max_iter, gain=_GAIN, believe=True, spread=part.spread,
        )  # fmt: skip
        coef[:, many] = numpy_of(run.x)
        report |= {"solver": "cg", "iterations": run.steps, "relative_residual": run.residual}
        report["converged"] = bool(run.residual <= tol or run.stuck)
    return Solved(coef, system.intercept(coef), report)
