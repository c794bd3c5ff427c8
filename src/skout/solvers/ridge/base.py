"""A ridge regression, however its sums are held: what is asked of it, and what it returns.

    (sum_i w_ij z_i z_i' + n_j alpha I) c_j = sum_i w_ij z_i y_ij,      n_j = sum_i w_ij

for each output j, where z are the coordinates of the rows. Missing targets have w_ij = 0, and a
task matrix couples the c_j. There is one `System` for each way to hold the problem:

    moments    Z'Z and Z'T, summed in one pass over the rows
    rows       Z itself, where outputs have different rows
    products   passes over the rows for conjugate gradients, where Z'Z would be too large
    gram       the kernel matrix of all rows, or tiles of it: the exact model
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._numerics.types import Floats, Ints, RandomState, Rows
from ..._numerics.validation import warn_user
from ...basis import Engine
from ...basis.moments import AnyMoments
from ...basis.passes import Sample
from ...kernels import Kernel
from ..folds import CV, ChosenAlpha, Search, Splits, choose, mean_square

__all__ = [
    "Fit",
    "RidgeOptions",
    "System",
    "SystemOfRows",
    "Unsolved",
    "fit_best",
    "warn_unless_converged",
]


@dataclass(frozen=True)
class RidgeOptions:
    """The parameters of a `KernelRidge` that its systems read; see there.

    Attributes
    ----------
    task_matrix : ndarray of shape (d, d), "learned" or None
        Checked.
    """

    fit_intercept: bool = False
    solver: Literal["auto", "direct", "cg"] = "auto"
    tol: float = 1e-3
    max_iter: int = 200
    task_matrix: Floats | str | None = None
    cv: CV = 5
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: bool = False


@dataclass(frozen=True)
class Fit:
    """A fitted ridge, f(x) = phi(x) . matrix + intercept.

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
    landmarks: Rows
    matrix: Floats
    intercept: Floats
    chosen: ChosenAlpha
    report: dict[str, Any] = field(default_factory=dict)
    engine: Engine | None = None
    moments: AnyMoments | None = None
    task_matrix: Floats | None = None
    row_weights: Floats | None = None
    row_count: float | None = None
    fitc_shift: float | None = None
    origin: Floats | None = None

    @classmethod
    def in_span(
        cls, engine: Engine, matrix: Floats, intercept: Floats, chosen: ChosenAlpha, **more: Any
    ) -> Fit:
        """Return a fit in the span of a sketch; the intercept is that of T - origin."""
        origin = more.get("origin")
        intercept = intercept if origin is None else intercept + origin
        kernel, landmarks = engine.kernel, engine.landmarks
        return cls(kernel, landmarks, matrix, intercept, chosen, engine=engine, **more)

    def reporting(self, **facts: Any) -> Fit:
        """Return the fit with more in its report; what it has already stays."""
        return replace(self, report=facts | self.report)


class Unsolved(ArithmeticError):
    """A system could not be solved well, and another one, which can, takes over."""

    def __init__(self, instead: System, report: Mapping[str, Any] | None = None) -> None:
        super().__init__("another system takes over")
        self.instead, self.report = instead, report


class System(ABC):
    """One way to hold a ridge regression on a sample, and on the parts that splits make of it."""

    @abstractmethod
    def choice(self, search: Search) -> ChosenAlpha:
        """Return the best alpha of a search, and the table that it was chosen by."""

    @abstractmethod
    def solve(self, alpha: float) -> Fit:
        """Return the fit on all rows; raise `Unsolved` where another system does better."""


class SystemOfRows(System):
    """A system that fits any part of its rows: a path over alphas is made for each split."""

    sample: Sample
    splits: Splits
    options: RidgeOptions
    reports: list[dict[str, Any]]  # of iterative fits on parts of the rows, in turn

    #: A split uses all threads.
    splits_in_threads = False

    @abstractmethod
    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha, fitted on the training rows of a split, predicts."""
        return self.path(alphas, self._split(split)[0], held)

    def losses(self, alphas: Sequence[float], split: int) -> Sequence[float]:
        """Return the mean squared error of each alpha on the test rows of a split."""
        train, held = self._split(split)
        truth = np.asarray(self.sample.targets.take(held), dtype=np.float64)
        w = None if self.sample.weights is None else self.sample.weights[held]
        return [mean_square(truth, F, w) for F in self.path(alphas, train, held)]

    def _split(self, number: int) -> tuple[Ints, Ints]:
        """Return the training and the test rows of a split, increasing."""
        everything = np.arange(len(self.sample.rows))
        train, test = (np.sort(everything[part]) for part in self.splits[number])
        return train, test

    def choice(self, search: Search) -> ChosenAlpha:
        chosen = choose(self, search, cv=self.options.cv, verbose=self.options.verbose)
        _warn_of_paths(self.reports, self.options.max_iter)
        return chosen


def fit_best(system: System, search: Search) -> Fit:
    """Return the fit with the best alpha; where a system fails, by the one that takes over."""
    try:
        chosen = system.choice(search)
        return replace(system.solve(chosen.alpha), chosen=chosen)
    except Unsolved as stop:
        fit = fit_best(stop.instead, search)
        return fit if stop.report is None else fit.reporting(fell_back_from=dict(stop.report))


def warn_unless_converged(report: Mapping[str, Any], max_iter: int, where: str = "") -> None:
    """Warn that the tolerance was not reached, what that may cost, and what to do."""
    if report["converged"]:
        return
    warn_user(
        f"conjugate gradients{where} ended after {report['iterations']} steps, above tol="
        f"{report['tolerance']:.2g}: predictions of the training rows may still change by about "
        f"{report['relative_residual']:.2g} standard deviations of y, in the root mean square. "
        f'Raise max_iter (now {max_iter}), alpha or tol, or use solver="direct".',
        ConvergenceWarning,
    )


def _warn_of_paths(reports: Sequence[Mapping[str, Any]], max_iter: int) -> None:
    """Warn once that fits which chose alpha did not converge: of the worst of them."""
    missed = [report for report in reports if not report["converged"]]
    if missed:
        worst = max(
            missed, key=lambda report: np.nan_to_num(report["relative_residual"], nan=np.inf)
        )
        where = f" of a split that alpha is chosen on, {len(missed)} of {len(reports)},"
        warn_unless_converged(worst, max_iter, where)
