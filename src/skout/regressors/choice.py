"""What a fit chooses: on which splits alpha, and the solver; and fits that need no moments."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._numerics.validation import check_alphas
from ..basis.features import Projection
from ..basis.passes import Sample
from ..solvers import cost
from ..solvers.cost import cheaper, sketched_costs
from . import oncard
from .iterative import LandmarkSystem, solved, warn_of_paths, warn_unless_converged
from .memory import Room, room_for
from .path import Search
from .splits import Splits, least_loss, splits_of

__all__ = [
    "Choice",
    "Chooses",
    "check_has_moments",
    "fit_without_moments",
    "searched",
    "wanted_solver",
]

# In a metric that was learnt the last fit tries so many alphas below and above the best one of the
# rounds: it has more landmarks than they had.
_BELOW, _ABOVE = 2, 1


class Chooses:
    """A regressor that chooses among its alphas, where they are several, by its `cv`."""

    alpha: Any
    cv: Any
    random_state: Any

    def choice_splits(
        self, n: int, y: Any = None, weights: Any = None, groups: Any = None
    ) -> Splits:
        """Return the splits that alpha is chosen on; none where there is a single one.

        Parameters
        ----------
        n : int
            The number of rows.
        y : n targets or objects, optional
            For splitters that look at them.
        weights : ndarray of shape (n,), optional
        groups : array of shape (n,), optional

        Returns
        -------
        splits : list of (train, test)
        """
        if len(check_alphas(self.alpha)) == 1:
            return []
        return splits_of(self.cv, n, y, weights, self.random_state, groups=groups)


def check_has_moments(model: Any) -> None:
    """Raise where rows cannot be added to a model, since it was not solved by sums."""
    fitted_without = hasattr(model, "basis_") and model._base is None and model._folds is None
    if fitted_without or model.solver == "cg":
        raise ValueError(
            "partial_fit adds to the moments of earlier rows, which conjugate gradients do not "
            f"make, nor a fit with {oncard.LEAST} landmarks or more on a card: give "
            'solver="direct", and begin with partial_fit.'
        )


def searched(model: Any, sample: Sample, known: Any, search: Search, groups: Any) -> Search:
    """Return a search with its splits, and with the alphas that are left to choose from.

    Where a metric was learnt, the rows held out from that choose: folds of the whole sample, which
    has taught the metric, flatter small alphas. If they are one part of rows on the host, they
    judge the last fit, whose landmarks are more, by alphas near the best one of the rounds. If not,
    the choice of the rounds is final, and the model gets their `cv_results_`. A judge, a splitter
    or groups, which somebody gave for a reason, decide themselves.
    """
    alphas, _, judge = search
    if judge is not None:
        return search._replace(splits=judge.splits)
    found = getattr(model, "metric_results_", None)
    if found is None or len(alphas) == 1 or groups is not None or not isinstance(model.cv, int):
        given = len(sample.rows), known, sample.weights, groups
        return Search(alphas, model.choice_splits(*given))
    if found["held"] is not None and sample.rows.device is None:
        held = np.zeros(len(sample.rows), dtype=bool)
        held[found["held"]] = True
        ladder = sorted(alphas)
        best = ladder.index(found["best_alpha"])
        return Search(ladder[max(0, best - _BELOW) : best + _ABOVE + 1], [(~held, held)])
    tried = np.flatnonzero(np.isfinite(found["fold_loss"][0]))
    _, model.cv_results_ = least_loss([alphas[k] for k in tried], found["fold_loss"][:, tried])
    return Search([found["best_alpha"]])


def wanted_solver(model: Any) -> str:
    """Return the solver of a model; "auto" is "direct" in a metric that was learnt.

    Its kernel is wide and alpha may be tiny: conjugate gradients would stop far from the solution.
    """
    learnt = hasattr(model, "metric_results_")
    return "direct" if learnt and model.solver == "auto" else model.solver


class Choice:
    """How a sketched ridge is solved: from moments, or without, as `fit_without_moments` does.

    It is begun before the basis is fitted, and decided once the number of landmarks is known.

    Parameters
    ----------
    solver : "auto", "direct" or "cg"
    sample : Sample
    splits : list of (train, test)
        On which alpha is chosen, if it is.
    by_moments : bool, default False
        Whether nothing else will do: outputs with holes, or related ones.

    Attributes
    ----------
    without_moments, cg : bool
        What was decided: whether to do without moments, and that by conjugate gradients.
    costs : dict
        Of the solvers, by which it was decided.
    """

    def __init__(
        self, solver: str, sample: Sample, splits: Splits, by_moments: bool = False
    ) -> None:
        self.wanted, self.splits, self.by_moments = solver, splits, by_moments
        self.rows, self.q = sample.rows, sample.targets.shape[1]
        self.cg = self.without_moments = False
        self.costs: dict[str, float] = {}

    @property
    def least(self) -> float:
        """From so many landmarks on it may do without moments, and the basis without components."""
        if (self.splits and self.wanted != "cg") or self.by_moments:
            return np.inf
        if self.wanted == "cg":
            return 0
        on_card = oncard.LEAST if self.rows.device is not None else np.inf
        may_iterate = self.wanted == "auto" and self.rows.rereadable
        return min(on_card, cost.LEAST_LANDMARKS if may_iterate else np.inf)

    def decide(self, basis: Any) -> None:
        """Choose by the costs, now that the landmarks are known."""
        m = basis._features.m
        self.without_moments = m >= self.least
        if not self.without_moments:
            return
        self.costs = room_for(self.rows, m).costs(self.rows, self.q, sketched_costs)
        self.cg = self.wanted == "cg" or (self.wanted == "auto" and cheaper(self.costs) == "cg")

    def falls_back(self, report: dict[str, Any], room: Room) -> bool:
        """Return whether the direct solver, of three m x m matrices, takes over from "cg"."""
        return self.wanted == "auto" and not report["converged"] and room.holds(24.0 * room.m**2)


def fit_without_moments(
    model: Any, sample: Sample, search: Search, choice: Choice, checkpoint: Any
) -> bool:
    """Fit by conjugate gradients or on a card, as was chosen; return whether that was done.

    Where "auto" took conjugate gradients and they do not converge, the direct solver takes over, if
    there is memory for it.
    """
    model.solver_report_["costs"] = choice.costs
    if not choice.without_moments:
        return False
    system = LandmarkSystem(model.basis_, sample, model.fit_intercept, model.n_jobs)
    solution: Any = None
    reports: list[dict[str, Any]] = []
    if choice.cg and search.splits:
        path = partial(_fold_path, model, sample, search.alphas, reports)
        search.by_paths(model, sample, path)
        warn_of_paths(reports, model.max_iter)
    if choice.cg:
        settings = {"tol": model.tol, "max_iter": model.max_iter, "checkpoint": checkpoint}
        solution = solved(system, [model.alpha_], **settings)
        if choice.falls_back(solution[2], system.room):
            model.solver_report_["fell_back_from"] = solution[2]
            solution = None
            system.store.kept.clear()  # its memory is needed
        else:
            warn_unless_converged(solution[2], model.max_iter)
    if solution is None and system.room.on_card:
        solution = oncard.direct_on_card(system, model.alpha_)
    if solution is None:
        _factorise_here(model)
        return False
    model._matrix, model.intercept_, report = solution
    if model._origin is not None:
        model.intercept_ += model._origin
    model.solver_report_ |= report
    model._base = None
    model._prepare()
    return True


def _fold_path(
    model: Any,
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
    system = LandmarkSystem(model.basis_, part, model.fit_intercept, model.n_jobs)
    path: list[tuple[np.ndarray, np.ndarray]] = []
    order = np.argsort(alphas)[::-1]  # each starts from the one before
    settings: dict[str, Any] = {"tol": model.tol, "max_iter": model.max_iter}

    def keep(coef: np.ndarray, intercept: np.ndarray) -> None:
        path.append((coef, intercept))

    reports.append(solved(system, [alphas[i] for i in order], each=keep, **settings)[2])
    coef = np.hstack([c for c, _ in path])
    offset = np.hstack([b if sample.origin is None else b + sample.origin for _, b in path])
    projection = Projection(model.basis_._features, coef, offset, np.float64)
    rows = sample.rows.subset(held)
    fitted = rows.collect(projection, (coef.shape[1],), np.float64, model.n_jobs)
    return np.stack(np.hsplit(fitted, len(path)))[np.argsort(order)]


def _factorise_here(model: Any) -> None:
    """Find the components of the basis, which keeps the landmarks that are independent."""
    basis = model.basis_
    gram, rounding = basis._sketched()
    basis._factorise(None, gram, None, rounding, None)
    basis.__dict__.pop("_features", None)
    model.landmarks_ = basis.landmarks_
