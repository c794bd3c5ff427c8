"""What a fit chooses: on which splits alpha, and by which solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._numerics.validation import check_alphas
from ..basis import Engine
from ..basis.passes import Sample
from ..solvers import cost
from ..solvers.cost import cheaper, sketched_costs
from . import oncard
from .fit import RidgeSettings
from .memory import Room, room_for
from .path import Search
from .splits import Splits, least_loss, splits_of

__all__ = ["Chooses", "Decision", "SolverChoice", "check_has_moments", "searched"]

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


def searched(
    settings: RidgeSettings,
    sample: Sample,
    search: Search,
    groups: Any,
    metric: dict[str, Any] | None,
) -> tuple[Search, dict[str, Any] | None]:
    """Return a search with its splits, and with the alphas that are left to choose from.

    Where a metric was learned, the rows held out from that choose: folds of the whole sample, which
    has taught the metric, flatter small alphas. If they are one part of rows on the host, they
    score the last fit, whose landmarks are more, by alphas near the best one of the rounds. If not,
    the choice of the rounds is final, and their table is returned too. A judge, a splitter or
    groups, which somebody gave for a reason, decide themselves.
    """
    alphas, _, judge = search
    if judge is not None:
        return search._replace(splits=judge.splits), None
    if metric is None or len(alphas) == 1 or groups is not None or not isinstance(settings.cv, int):
        if len(alphas) == 1:
            return search, None
        given = len(sample.rows), sample.targets.at_hand, sample.weights, settings.random_state
        return Search(alphas, splits_of(settings.cv, *given, groups=groups)), None
    if metric["held"] is not None and sample.rows.device is None:
        held = np.zeros(len(sample.rows), dtype=bool)
        held[metric["held"]] = True
        ladder = sorted(alphas)
        best = ladder.index(metric["best_alpha"])
        return Search(ladder[max(0, best - _BELOW) : best + _ABOVE + 1], [(~held, held)]), None
    tried = np.flatnonzero(np.isfinite(metric["fold_loss"][0]))
    _, table = least_loss([alphas[k] for k in tried], metric["fold_loss"][:, tried])
    return Search([metric["best_alpha"]]), table


class Decision(NamedTuple):
    """How a sketched ridge is solved.

    Attributes
    ----------
    without_moments, by_cg : bool
        Whether to do without moments, and that by conjugate gradients.
    costs : dict
        Of the solvers, by which it was decided.
    may_fall_back : bool
        Whether the direct solver takes over where conjugate gradients do not converge.
    """

    without_moments: bool = False
    by_cg: bool = False
    costs: Mapping[str, float] = MappingProxyType({})
    may_fall_back: bool = False

    def falls_back(self, report: dict[str, Any], room: Room) -> bool:
        """Return whether the direct solver, of three m x m matrices, takes over from "cg"."""
        return self.may_fall_back and not report["converged"] and room.holds(24.0 * room.m**2)


@dataclass(frozen=True)
class SolverChoice:
    """What the solver of a sketched ridge depends on, before the landmarks are known.

    Attributes
    ----------
    solver : "auto", "direct" or "cg"
    sample : Sample
    splits : list of (train, test)
        On which alpha is chosen, if it is.
    by_moments : bool, default False
        Whether nothing else will do: missing targets, or outputs that a task matrix relates.
    """

    solver: str
    sample: Sample
    splits: Splits
    by_moments: bool = False

    @property
    def least(self) -> float:
        """From so many landmarks on it may do without moments, and the basis without components."""
        rows = self.sample.rows
        is_sparse = sparse.issparse(self.sample.targets.like)  # only their moments are small
        if (self.splits and self.solver != "cg") or self.by_moments or is_sparse:
            return np.inf
        if self.solver == "cg":
            return 0
        on_card = oncard.LEAST if rows.device is not None else np.inf
        may_iterate = self.solver == "auto" and rows.rereadable
        return min(on_card, cost.LEAST_LANDMARKS if may_iterate else np.inf)

    def decided(self, engine: Engine) -> Decision:
        """Choose by the costs, now that the landmarks are known."""
        m, rows = engine.features.m, self.sample.rows
        if m < self.least:
            return Decision()
        costs = room_for(rows, m).costs(rows, self.sample.targets.shape[1], sketched_costs)
        is_auto = self.solver == "auto"
        by_cg = self.solver == "cg" or (is_auto and cheaper(costs) == "cg")
        return Decision(True, by_cg, costs, may_fall_back=is_auto)
