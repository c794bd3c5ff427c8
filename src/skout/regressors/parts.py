"""Kernel machines on targets with holes: outputs that have the same rows are one problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._numerics.arrays import constant, positions
from ..losses import Loss
from ..rows import Source
from ..solvers import Problem
from ..solvers.holed import check_outputs_seen, outputs_by_rows

__all__ = ["Part", "parts_of", "without_holes"]


@dataclass(frozen=True)
class Part:
    """Outputs that have the same rows.

    Attributes
    ----------
    whole : Problem
        Of all rows and outputs.
    columns : slice or ndarray of int
        The outputs.
    rows : ndarray of int, optional
        The rows that have them; None for all.
    """

    whole: Problem
    columns: Any
    rows: np.ndarray | None = None

    def problem(self, some: np.ndarray | None = None, *, rated: bool = True) -> Problem | None:
        """Return the problem of these outputs on their rows, or on some of them.

        None where no row of weight is left. Rows that are not `rated` need not have the outputs.
        """
        if self.rows is None:
            return self.whole if some is None else self.whole.take(some)
        own = self.rows if some is None else some
        if some is not None and rated:
            own = np.intersect1d(some, self.rows)
        if not self.whole.weights[positions(own, self.whole.weights)].any():
            return None
        part = self.whole.take(own)
        at = positions(self.columns, part.Y)
        loss = _of_columns(self.whole.loss, self.columns)
        return replace(part, Y=part.Y[:, at], loss=loss)

    def of(self, rows: Source) -> Source:
        """Return the rows that have these outputs."""
        return rows if self.rows is None else rows.subset(self.rows)


def parts_of(problem: Problem, targets: np.ndarray) -> list[Part]:
    """Return the parts of a problem whose targets, here with NaN, may have holes."""
    if not np.isnan(targets).any():
        return [Part(problem, slice(None))]
    there = constant(~np.isnan(targets), problem.weights) * problem.weights[:, None]
    check_outputs_seen(there.sum(0))
    return [Part(problem, columns, rows) for columns, rows in outputs_by_rows(targets)]


def without_holes(y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, Any]:
    """Return one target without NaN, and weights that leave its rows out."""
    missing = np.isnan(y)
    if not missing.any():
        return y, weights
    there = (~missing).astype(np.float64)
    weights = there if weights is None else weights * there
    check_outputs_seen(weights.sum())
    return np.where(missing, 0.0, y), weights


def _of_columns(loss: Loss, columns: np.ndarray) -> Loss:
    """Return the loss of some of the outputs: levels, where each has one, are those of them."""
    levels = np.asarray(getattr(loss, "tau", 0.0))
    return type(loss)(levels[columns]) if levels.size > 1 else loss
