"""Sketched kernel ridge: from moments in one pass or, where that is cheaper, without them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._numerics.validation import check_rng
from ..basis import Engine, span_of
from ..basis.features import Projection
from ..basis.passes import Sample
from ..kernels import Kernel
from ..rows import Source
from ..sketches import Sketch, least_rows
from ..solvers import cost
from ..solvers.moments import Moments, ridge_on_features, sum_moments
from . import oncard
from .checkpoint import Bar, Checkpoint
from .choice import Decision, SolverChoice
from .doubt import FitcMoments, refuse_fitc
from .fit import ChosenAlpha, Fit, RidgeSettings
from .folds import Folds, looked_at
from .holes import fit_by_coordinates, fit_related, keeps_rows
from .iterative import LandmarkSystem, solved, warn_of_paths, warn_unless_converged
from .path import Search
from .splits import groups_of_splits
from .tasks import RelatedFolds

__all__ = ["fit_from_moments", "fit_sketched"]


def fit_sketched(
    settings: RidgeSettings,
    kernel: Kernel,
    sketch: Sketch,
    sample: Sample,
    search: Search,
    *,
    drawn_from: Source | None = None,
    device: str | None = None,
    checkpoint: Checkpoint | None = None,
    has_missing: bool = False,
) -> Fit:
    """Fit in the span of a sketch: its landmarks, one pass for the moments, and their solution.

    Where that is cheaper, without moments: from coordinates that are kept, for missing targets, by
    conjugate gradients, or on a GPU. The sketch is drawn from the rows `drawn_from`, or from those
    of the sample.
    """
    alphas, splits, judge = search
    is_related = settings.tasks is not None
    few = 0 < least_rows(sketch) < min(oncard.LEAST, cost.LEAST_LANDMARKS)
    choice = None  # with few landmarks there is none: moments, solved directly
    if not few or settings.solver == "cg":
        by_moments = has_missing or is_related or settings.variance == "fitc"
        choice = SolverChoice(settings.wanted_solver, sample, splits, by_moments)
    rows, weights = (drawn_from, None) if drawn_from is not None else (sample.rows, sample.weights)
    engine, known, _ = span_of(
        kernel, sketch, rows, check_rng(settings.random_state), weights,
        remember=drawn_from is None, lazily=np.inf if choice is None else choice.least,
        n_jobs=settings.n_jobs, device=device,
    )  # fmt: skip
    decision = Decision() if choice is None else choice.decided(engine)
    groups, parts = groups_of_splits(splits, len(sample.rows)) if splits else (None, [])
    origin = sample.rough_mean() if settings.fit_intercept else None
    sample = replace(sample, groups=groups, n_groups=max(1, len(parts)), origin=origin)
    if has_missing and keeps_rows(settings, engine.rank, sample.targets.here(), len(parts)):
        solve = fit_related if is_related else fit_by_coordinates
        return solve(settings, engine, sample, search)
    if checkpoint is not None:
        checkpoint.add_fit(engine, sample, decision)
    report: dict[str, Any] = {"solver": "direct", "costs": dict(decision.costs)}
    if decision.without_moments:
        direct, failed = _without_moments(settings, engine, sample, search, decision, checkpoint)
        if direct is not None:
            return direct.reporting(costs=report["costs"])
        report |= failed
        engine, known = engine.independent(), None
    # where conjugate gradients failed, the checkpoint has the state of that solver
    progress = _bar(settings.verbose, None if decision.by_cg else checkpoint)
    moments = engine.moments(
        sample, min(alphas), known=known, whiten=bool(splits) or is_related,
        centre=not has_missing, progress=progress,
    )  # fmt: skip
    held = [] if judge is None else looked_at(judge, sample.rows, engine)
    how: dict[str, Any] = {"origin": origin, "cv": settings.cv, "report": report}
    fit = fit_from_moments(settings, engine, moments, parts, search, held, **how)
    return _with_fitc(settings, fit, sample) if settings.variance == "fitc" else fit


def _with_fitc(settings: RidgeSettings, fit: Fit, sample: Sample) -> Fit:
    """Solve again with FITC's weights of the rows, in one more pass; n alpha stays."""
    engine, total = fit.engine, fit.moments
    assert engine is not None
    assert total is not None
    if hasattr(total, "codes"):
        refuse_fitc("missing targets")
    shift = float(total.weight) * fit.chosen.alpha
    function = FitcMoments(engine.features, engine.components, shift, sample.origin)
    moments = sample.rows.reduce(function, sample.targets, sample.weights, n_jobs=settings.n_jobs)
    search, how = Search([shift / moments.weight]), {"origin": sample.origin}
    again = fit_from_moments(settings, engine, [moments], [], search, **how, report=fit.report)
    return replace(again, chosen=fit.chosen, fitc_shift=shift)


def _bar(verbose: bool, checkpoint: Checkpoint | None) -> Bar | None:
    """Return what a pass tells how far it is, if anybody wants to know."""
    return Bar(verbose, checkpoint) if verbose or checkpoint is not None else None


def fit_from_moments(
    settings: RidgeSettings,
    engine: Engine,
    moments: list[Moments],
    parts: list[np.ndarray],
    search: Search,
    held: Any = (),
    *,
    origin: np.ndarray | None = None,
    cv: Any = None,
    report: dict[str, Any] | None = None,
) -> Fit:
    """Choose alpha on the folds, if any, and solve on all rows: coef = (Z'Z + n alpha I)^-1 Z'T.

    Parameters
    ----------
    settings, engine, search
    moments : list of Moments, one a group of rows
    parts : list of ndarrays of shape (n_splits,), one a group
        The parts that groups play in the splits, see `groups_of_splits`; empty without splits.
    held : list of ndarrays of shape (h, p), one a split
        Coordinates of the rows that a judge looks at.
    origin : ndarray of shape (d,), optional
        What was subtracted from the targets.
    cv, report
        See `Folds.choose`; what the report of the fit begins with.
    """
    options = moments, parts, settings.fit_intercept, settings.verbose
    folds: Folds | None = Folds(*options) if parts else None
    if settings.tasks is not None:
        folds = RelatedFolds(*options, settings.tasks)
    total = sum_moments(moments) if folds is None else folds.total
    total.check_weight()
    chosen = ChosenAlpha(max(search.alphas))
    if folds is not None:
        how: dict[str, Any] = {"origin": origin, "cv": cv, "n_jobs": settings.n_jobs}
        chosen = folds.choose(search, held, **how)
    report, task_matrix = {"solver": "direct"} | (report or {}), None
    if isinstance(folds, RelatedFolds):
        related = folds.solved(total, chosen.alpha)
        matrix, intercept = engine.on_features(related.coef), related.intercept
        report, task_matrix = report | related.report, related.task_matrix
        warn_unless_converged(report, settings.max_iter)
    else:
        given = total, engine.on_features, chosen.alpha, settings.fit_intercept
        matrix, intercept = ridge_on_features(*given)
    partly = None if total.partly is None else total.partly._replace(gram=None)
    return Fit.in_span(
        engine, matrix, intercept if origin is None else intercept + origin, chosen,
        report=report, moments=replace(total, partly=partly), task_matrix=task_matrix,
        origin=origin,
    )  # fmt: skip


def _without_moments(
    settings: RidgeSettings,
    engine: Engine,
    sample: Sample,
    search: Search,
    decision: Decision,
    checkpoint: Checkpoint | None,
) -> tuple[Fit | None, dict[str, Any]]:
    """Fit by conjugate gradients or on a GPU, as was decided.

    None where the host, which chooses pivots, does better; or where "auto" took conjugate gradients
    that do not converge, and there is memory for the direct solver: then with what to report.
    """
    system = LandmarkSystem(engine, sample, settings.fit_intercept, settings.n_jobs)
    solution: Any = None
    failed: dict[str, Any] = {}
    reports: list[dict[str, Any]] = []
    chosen = ChosenAlpha(search.alphas[0])
    if decision.by_cg and search.splits:
        path = partial(_fold_path, settings, engine, sample, search.alphas, reports)
        chosen = search.by_paths(sample, path, settings.verbose)
        warn_of_paths(reports, settings.max_iter)
    if decision.by_cg:
        limits: dict[str, Any] = {"tol": settings.tol, "max_iter": settings.max_iter}
        solution = solved(system, [chosen.alpha], checkpoint=checkpoint, **limits)
        if decision.falls_back(solution[2], system.room):
            failed, solution = {"fell_back_from": solution[2]}, None
            system.store.kept.clear()  # its memory is needed
        else:
            warn_unless_converged(solution[2], settings.max_iter)
    if solution is None and system.room.on_card:
        solution = oncard.direct_on_card(system, chosen.alpha)
    if solution is None:
        return None, failed
    matrix, intercept, report = solution
    intercept = intercept if sample.origin is None else intercept + sample.origin
    report, more = failed | report, {"origin": sample.origin}
    return Fit.in_span(engine, matrix, intercept, chosen, report=report, **more), {}


def _fold_path(
    settings: RidgeSettings,
    engine: Engine,
    sample: Sample,
    alphas: list[float],
    reports: list[dict[str, Any]],
    train: np.ndarray,
    held: np.ndarray,
) -> np.ndarray:
    """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d).

    How it went is added to `reports`.
    """
    part = replace(sample.take(train), groups=None, n_groups=1)
    system = LandmarkSystem(engine, part, settings.fit_intercept, settings.n_jobs)
    path: list[tuple[np.ndarray, np.ndarray]] = []
    order = np.argsort(alphas)[::-1]  # each starts from the one before
    limits: dict[str, Any] = {"tol": settings.tol, "max_iter": settings.max_iter}

    def keep(coef: np.ndarray, intercept: np.ndarray) -> None:
        path.append((coef, intercept))

    reports.append(solved(system, [alphas[i] for i in order], each=keep, **limits)[2])
    coef = np.hstack([c for c, _ in path])
    offset = np.hstack([b if sample.origin is None else b + sample.origin for _, b in path])
    projection = Projection(engine.features, coef, offset, np.float64)
    rows = sample.rows.subset(held)
    fitted = rows.collect(projection, (coef.shape[1],), np.float64, settings.n_jobs)
    return np.stack(np.hsplit(fitted, len(path)))[np.argsort(order)]
