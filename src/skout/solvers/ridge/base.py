"""A ridge regression, however its sums are held: what is asked of it, and what it returns.

    (sum_i w_ij z_i z_i' + n_j alpha I) c_j = sum_i w_ij z_i y_ij,      n_j = sum_i w_ij

for each output j, where z are the coordinates of the rows. Missing targets have w_ij = 0, and a
task matrix couples the c_j. There is one `System` for each way to hold the problem:

    moments    Z'Z and Z'T, summed in one pass over the rows
    rows       Z itself, where outputs have different rows
    products   passes over the rows for conjugate gradients, where Z'Z would be too large
    device     Z'Z and Z'T on a device, where nothing else of the problem comes back from
    gram       the kernel matrix of all rows, or tiles of it: the exact model
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._numerics.types import Floats, Ints, RandomState, Rows
from ..._numerics.validation import warn_user
from ...basis import Engine, Span
from ...basis.moments import AnyMoments
from ...basis.passes import Sample
from ...kernels import Kernel
from ..folds import CV, ChosenAlpha, Search, choose, mean_square
from .checkpoint import RidgeCheckpoint


@dataclass(frozen=True)
class RidgeOptions:
    """The parameters of a `KernelRidge` that its systems read, and what is known of its data."""

    fit_intercept: bool = False
    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int = 200
    task_matrix: Floats | str | None = None  # checked, (d, d)
    cv: CV = 5
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: bool = False
    checkpoint: RidgeCheckpoint | None = None
    has_missing: bool = False  # whether targets are known to be missing
    is_learned: bool = False  # whether the kernel is in a metric learned from the same rows
    needs_moments: bool = False  # whether the moments are wanted for something else too


@dataclass(frozen=True)
class RidgeProblem:
    """What is to be fitted: the span, rows and targets, the parameters, alphas to choose from."""

    span: Span
    sample: Sample
    options: RidgeOptions
    search: Search


@dataclass(frozen=True)
class Fit:
    """A fitted ridge, f(x) = phi(x) . matrix + intercept, phi(x) = W k(landmarks, x)."""

    kernel: Kernel  # with numeric parameters
    landmarks: Rows
    matrix: Floats  # (m, d)
    intercept: Floats  # (d,)
    chosen: ChosenAlpha  # the alpha of the fit, and how it was chosen
    report: dict[str, Any] = field(default_factory=dict)  # becomes `solver_report_`
    engine: Engine | None = None  # the span of the sketch; None of an exact fit, where W = I
    moments: AnyMoments | None = None  # of all rows, for `partial_fit` and `return_std`
    task_matrix: Floats | None = None  # (d, d)
    row_weights: Floats | None = None  # of distinct rows, of a whole exact fit, (m,)
    row_count: float | None = None  # rows of positive weight of such a fit
    fitc_shift: float | None = None  # n alpha of a fit with FITC's weights, which moments have
    origin: Floats | None = None  # what was subtracted from the targets, for their last digits

    @classmethod
    def in_span(
        cls, engine: Engine, matrix: Floats, intercept: Floats, alpha: float, **more: Any
    ) -> Fit:
        """Return a fit in the span of a sketch; the intercept is that of T - origin."""
        origin = more.get("origin")
        intercept = intercept if origin is None else intercept + origin
        place = engine.kernel, engine.landmarks
        return cls(*place, matrix, intercept, ChosenAlpha(alpha), engine=engine, **more)


@dataclass(frozen=True)
class Decision:
    """Which system solves a ridge, and why.

    Attributes
    ----------
    system : "moments", "rows", "products", "device" or "gram"
    solver : "direct" or "cg"
    why : str
    costs : dict
        Operations of the solvers that were compared.
    """

    system: str
    solver: str
    why: str
    costs: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        costs = ", ".join(f"{name} {value:.1e}" for name, value in self.costs.items())
        return f"{self.system}, {self.solver}: {self.why}" + (f" ({costs})" if costs else "")

    @property
    def report(self) -> dict[str, Any]:
        """What the report of a fit begins with."""
        return {"solver": "direct", "costs": dict(self.costs), "why": self.why}


class Unsolved(ArithmeticError):
    """A system could not be solved well, and another one, which can, takes over."""

    def __init__(self, instead: System, report: Mapping[str, Any] | None = None) -> None:
        super().__init__("another system takes over")
        self.instead, self.report = instead, report


class System(ABC):
    """One way to hold a ridge regression on a sample, and on the parts that splits make of it."""

    @classmethod
    @abstractmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> System:
        """Return the system of a problem, as it was decided."""

    @abstractmethod
    def choice(self, search: Search) -> ChosenAlpha:
        """Return the best alpha of a search, and the table that it was chosen by."""

    @abstractmethod
    def solve(self, alpha: float) -> Fit:
        """Return the fit on all rows; raise `Unsolved` where another system does better."""


class SystemOfRows(System):
    """A system that fits any part of its rows: a path over alphas is made for each split."""

    problem: RidgeProblem
    reports: list[dict[str, Any]]  # of iterative fits on parts of the rows, in turn

    #: A split uses all threads.
    splits_in_threads = False

    @property
    def n_splits(self) -> int:
        return len(self.problem.search.splits)

    @abstractmethod
    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha, fitted on the training rows of a split, predicts."""
        return self.path(alphas, self._split(split)[0], held)

    def losses(self, alphas: Sequence[float], split: int) -> Sequence[float]:
        """Return the mean squared error of each alpha on the test rows of a split."""
        (train, held), sample = self._split(split), self.problem.sample
        truth = np.asarray(sample.targets.take(held), dtype=np.float64)
        w = None if sample.weights is None else sample.weights[held]
        return [mean_square(truth, F, w) for F in self.path(alphas, train, held)]

    def _split(self, number: int) -> tuple[Ints, Ints]:
        """Return the training and the test rows of a split, increasing."""
        everything = np.arange(len(self.problem.sample.rows))
        train, test = (np.sort(everything[part]) for part in self.problem.search.splits[number])
        return train, test

    def choice(self, search: Search) -> ChosenAlpha:
        """Choose by fits on parts of the rows; warn once, of the worst that did not converge."""
        options = self.problem.options
        chosen = choose(self, search, cv=options.cv, verbose=options.verbose)
        missed = [report for report in self.reports if not report["converged"]]
        if missed:
            residuals = np.array([report["relative_residual"] for report in missed])
            worst = missed[int(np.nan_to_num(residuals, nan=np.inf).argmax())]
            where = f" of a split that alpha is chosen on, {len(missed)} of {len(self.reports)},"
            warn_unless_converged(worst, options.max_iter, where)
        return chosen


def fit_best(system: System, search: Search) -> Fit:
    """Return the fit with the best alpha; where a system fails, by the one that takes over."""
    try:
        chosen = system.choice(search)
        return replace(system.solve(chosen.alpha), chosen=chosen)
    except Unsolved as stop:
        fit = fit_best(stop.instead, search)
        if stop.report is None:
            return fit
        return replace(fit, report={"fell_back_from": dict(stop.report)} | fit.report)


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
