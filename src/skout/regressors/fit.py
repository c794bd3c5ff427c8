"""What kernel ridge solvers are given, and what they return: nothing here writes into a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..basis import Engine
from ..kernels import Kernel
from ..solvers.moments import Moments

__all__ = ["ChosenAlpha", "Fit", "RidgeSettings"]


@dataclass(frozen=True)
class RidgeSettings:
    """The parameters of a `KernelRidge` that its solvers read; see there.

    Attributes
    ----------
    tasks : ndarray of shape (d, d), "learnt" or None
        The task matrix, checked.
    has_learned_metric : bool
        Whether the kernel is in a metric that was learned from the same rows. It is wide then and
        alpha may be tiny: conjugate gradients would stop far from the solution.
    """

    fit_intercept: bool = False
    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int = 200
    tasks: Any = None
    cv: Any = 5
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool = False
    variance: str = "dtc"
    has_learned_metric: bool = False

    @property
    def wanted_solver(self) -> str:
        """The solver; "auto" is "direct" in a metric that was learned."""
        return "direct" if self.has_learned_metric and self.solver == "auto" else self.solver


class ChosenAlpha(NamedTuple):
    """The alpha that was chosen, and the table it was chosen by; None if there was nothing to."""

    alpha: float
    results: dict[str, Any] | None = None


@dataclass(frozen=True)
class Fit:
    """A fitted kernel ridge, f(x) = phi(x) . matrix + intercept.

    Attributes
    ----------
    kernel : Kernel
        With numeric parameters.
    landmarks : rows
    matrix : ndarray of shape (m, d)
        What the features phi(x) = W k(landmarks, x) are multiplied with.
    intercept : ndarray of shape (d,)
    chosen : ChosenAlpha
        The alpha of the fit, and how it was chosen.
    report : dict
        Becomes `solver_report_`.
    engine : Engine, optional
        The span of the sketch; None of an exact fit, whose W is the identity.
    moments : Moments, optional
        Of all rows, where they were summed: `partial_fit` and `return_std` need them.
    task_matrix : ndarray of shape (d, d), optional
    row_weights : ndarray of shape (m,), optional
        Of an exact fit without missing targets: the weights of the distinct rows.
    row_count : float, optional
        The number of rows of positive weight of such a fit.
    fitc_shift : float, optional
        n alpha of a fit with FITC's weights, whose moments are those of the weighted rows.
    origin : ndarray of shape (d,), optional
        What was subtracted from the targets, for their last digits, and is in the intercept.
    """

    kernel: Kernel
    landmarks: Any
    matrix: np.ndarray
    intercept: np.ndarray
    chosen: ChosenAlpha
    report: dict[str, Any] = field(default_factory=dict)
    engine: Engine | None = None
    moments: Moments | None = None
    task_matrix: np.ndarray | None = None
    row_weights: np.ndarray | None = None
    row_count: float | None = None
    fitc_shift: float | None = None
    origin: np.ndarray | None = None

    @classmethod
    def in_span(
        cls,
        engine: Engine,
        matrix: np.ndarray,
        intercept: np.ndarray,
        chosen: ChosenAlpha,
        **more: Any,
    ) -> Fit:
        """Return the fit in the span of a sketch."""
        return cls(
            engine.kernel, engine.landmarks, matrix, intercept, chosen, engine=engine, **more
        )

    def reporting(self, **facts: Any) -> Fit:
        """Return the fit with more in its report; what it has already stays."""
        return replace(self, report=facts | self.report)
