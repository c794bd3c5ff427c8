"""Ridge regression on targets with holes: each output is fitted on the rows that have it.

Output j has its own system, of the rows that have it and of their weights w_ij:

    (sum_i w_ij z_i z_i' + n_j alpha I) c_j = sum_i w_ij z_i y_ij,      n_j = sum_i w_ij.

One pass makes a matrix Z'Z for each set of outputs with equal rows, see `solvers.holed`. Where
these would take too much memory, or operations, the coordinates Z of all rows are kept instead:
outputs with few rows are solved directly, one after another, and the others together by conjugate
gradients, whose products Z'(W * (Z C)) serve all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._numerics.linalg import ridge_solve
from .._numerics.namespace import numpy_of
from ..basis.features import Projection
from ..basis.passes import Sample
from ..rows import Source, limits
from ..solvers.cg import refined
from ..solvers.design import Design
from ..solvers.masked import MaskedSystem
from .iterative import warn_unless_converged
from .path import Judge, chosen_by_paths
from .splits import Splits

__all__ = [
    "check_outputs_seen",
    "coordinates_of",
    "fit_by_coordinates",
    "has_holes",
    "keeps_rows",
    "mean_of_known",
    "outputs_by_rows",
]

# Relative residual of conjugate gradients, where they stand for a direct solver; and most steps.
_TOL, _MOST_STEPS = 1e-11, 2000
# Steps that they are expected to take.
_STEPS = 15
# Operations of a step by matrix products are so many times quicker than those of Z'Z by parts.
_MARGIN = 1.2


def has_holes(known: Any) -> bool:
    """Return whether targets have holes; of those not in memory, None, nobody knows yet."""
    return known is not None and bool(np.isnan(np.asarray(known)).any())


def mean_of_known(T: np.ndarray) -> np.ndarray:
    """Return the mean of each output over the rows that have it, 0 where none has."""
    there = ~np.isnan(T)
    sums = np.where(there, T, 0.0).sum(axis=0, dtype=np.float64)
    return sums / np.maximum(there.sum(axis=0), 1)


def check_outputs_seen(weight: Any) -> None:
    """Raise where an output has no row at all."""
    empty = np.flatnonzero(np.atleast_1d(numpy_of(weight)) <= 0.0)
    if len(empty):
        raise ValueError(
            f"y has no number in output {int(empty[0])} ({len(empty)} such) on rows of positive "
            "weight: leave these outputs out."
        )


def outputs_by_rows(T: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return outputs that have the same rows, and the numbers of these rows, for each mask."""
    masks, codes = np.unique(np.isnan(T).T, axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    return [(np.flatnonzero(codes == k), np.flatnonzero(~mask)) for k, mask in enumerate(masks)]


def keeps_rows(targets: np.ndarray, m: int, n_groups: int, related: bool = False) -> bool:
    """Return whether to keep m coordinates of all rows, and not a Z'Z for each mask and group.

    Outputs that are `related` are solved by many products, which are cheap with a Z'Z each.
    """
    missing = np.isnan(targets)
    masks = np.unique(missing.T, axis=0)
    n, d = missing.shape
    if 8.0 * max(1, n_groups) * len(masks) * m * m > limits().coordinates_bytes:
        return True
    if related:
        return False
    hidden = masks.sum(axis=1)
    fewer = np.minimum(hidden, n - hidden).sum() + n * bool((2 * hidden <= n).any())
    by_masks = float(m) * m * (fewer + len(masks) * m / 3.0)
    by_steps = float(n) * m * (m + 4.0 * _STEPS * d) + 9.0 * float(m) ** 3
    fits = 8.0 * n * m <= limits().coordinates_bytes
    return fits and _MARGIN * by_steps < by_masks


def coordinates_of(model: Any, rows: Source, dtype: Any = np.float64) -> Design:
    """Return the coordinates of all rows: held, in one pass, or made again in each.

    They are of a precision, or of that of the rows, if it is None.
    """
    basis = model.basis_
    function = Projection(basis._features, basis.components_.T, dtype=dtype)
    Z = rows.kept(function, (basis.rank_,), n_jobs=model.n_jobs)
    if Z is not None:
        return Design(Z, n_jobs=model.n_jobs)

    def through(B: Any) -> Projection:
        return Projection(basis._features, basis._on_features(B), dtype=dtype)

    return Design(rows.then(function), rows, through, model.n_jobs)


def fit_by_coordinates(
    model: Any,
    sample: Sample,
    splits: Splits,
    alphas: list[float],
    judge: Judge | None,
) -> Any:
    """Choose alpha, if there are several, and give a `KernelRidge` its coefficients."""
    targets = sample.targets.here()
    origin = 0.0 if sample.origin is None else sample.origin
    design = coordinates_of(model, sample.rows)
    system = MaskedSystem.of(design, targets - origin, sample.weights, model.fit_intercept)
    check_outputs_seen(system.n)
    model.alpha_ = alphas[0]
    if splits:
        path = partial(_fold_path, model, system, alphas)
        chosen = chosen_by_paths(alphas, splits, sample, judge, path, model.verbose)
        model.alpha_, model.cv_results_ = chosen
    coef, intercept, report = solved(system, model.alpha_, **_settings(model))
    warn_unless_converged(report, model.max_iter)
    model._matrix, model.intercept_ = model.basis_._on_features(coef), intercept + origin
    model.solver_report_ = report
    model._base = None
    model._prepare()
    return model


def _settings(model: Any) -> dict[str, Any]:
    if model.solver == "cg":
        return {"tol": model.tol, "max_iter": model.max_iter}
    return {"tol": _TOL, "max_iter": max(_MOST_STEPS, model.max_iter)}


def _fold_path(
    model: Any, system: MaskedSystem, alphas: list[float], train: np.ndarray, held: np.ndarray
) -> np.ndarray:
    """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""
    part, rows = system.take(train), system.design.take(held)
    F = []
    for alpha in alphas:
        coef, intercept, _ = solved(part, alpha, **_settings(model))
        F.append(numpy_of(rows.product(part.near(coef))) + intercept)
    return np.stack(F) if model._origin is None else np.stack(F) + model._origin


def solved(
    system: MaskedSystem, alpha: float, *, tol: float, max_iter: int
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return coefficients of the coordinates, the intercept and a report.

    An output that has no row gets NaN, in the part of a split for instance.
    """
    p, d = system.shape
    coef = np.full((p, d), np.nan)
    few, many = system.by_rows()
    for columns, rows in few:
        coef[:, columns] = _direct(system, alpha, columns, rows)
    report: dict[str, Any] = {
        "solver": "direct", "converged": True, "iterations": 0, "relative_residual": 0.0,
        "tolerance": tol, "outputs_by_cg": len(many), "coordinates_held": system.design.is_held,
    }  # fmt: skip
    if len(many):
        part = system.columns(many)
        run = refined(
            [part.product(alpha)], part.right, part.preconditioner(alpha), tol=tol,
            max_iter=max_iter,
        )  # fmt: skip
        coef[:, many] = numpy_of(run.x)
        report |= {"solver": "cg", "iterations": run.steps, "relative_residual": run.residual}
        report["converged"] = bool(run.residual <= tol or run.stuck)
    return coef, system.intercept(coef), report


def _direct(
    system: MaskedSystem, alpha: float, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Solve for outputs that have the same few rows, in coordinates or in the rows.

    c = Z'(Z Z' + n alpha I)^-1 T = (Z'Z + n alpha I)^-1 Z'T, of centred and weighted rows.
    """
    Z, T, w = system.rows_of(rows, columns)
    n = w.sum()
    if system.fit_intercept:
        Z, T = Z - w @ Z / n, T - w @ T / n
    root = np.sqrt(w)[:, None]
    Z, T = Z * root, T * root
    if len(Z) < Z.shape[1]:
        return Z.T @ ridge_solve(Z @ Z.T, T, n * alpha, overwrite=True)
    return ridge_solve(Z.T @ Z, Z.T @ T, n * alpha, overwrite=True)
