"""Which system solves a ridge: the only place that decides, and says why.

| system | when |
|---|---|
| moments | a sketch; one pass sums Z'Z, which is m x m: the rule |
| rows | missing targets with many different masks, or a task matrix without a sketch |
| products | a sketch of 2,500 landmarks or more where conjugate gradients cost less |
| device | a sketch of 2,048 landmarks or more on a device, one alpha: the moments stay there |
| gram | no sketch: the kernel matrix of all rows, or tiles of it for conjugate gradients |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._numerics.arrays import n_rows, unique_columns
from ..._numerics.linalg import pivoted_cholesky, triangular_inverse
from ..._numerics.types import Floats
from ...basis import Engine, Span
from ...basis.features import KernelMatrix, Projection
from ...basis.moments import PartlyWhitened, check_outputs_observed
from ...basis.passes import Sample, WhitenedFeatures, Whitening
from ...rows import Source, block_rows, limits
from ..design import Design
from ..folds import ChosenAlpha, Search, Splits, groups_of_splits
from . import cost, device
from .base import Fit, RidgeOptions, System
from .checkpoint import Bar, RidgeCheckpoint
from .coupling import Coefficients
from .gram import GramSystem, tile_bytes
from .memory import MemoryBudget, budget_for
from .moments import FoldMoments, MomentSystem
from .products import ProductSystem
from .rows import MaskedSystem, RowsSystem, cheaper_by_steps

__all__ = ["Decision", "coordinates_of", "decide", "system_for"]

# Most rows whose kernel matrix is factorized in any case where a metric was learned: the kernel is
# wide then and alpha may be tiny, so that conjugate gradients would stop far from the solution.
_LEARNED_ROWS = 20_000
# Most rows that are solved without a matrix on the host unless that was requested: more take hours,
# and that their matrix has no room is said at once.
_MOST_ROWS = 200_000
# Adding a number to a sum, or keeping one, takes as long as so many operations of a product.
_SUM_COST = 60.0


@dataclass(frozen=True)
class Decision:
    """Which system solves a ridge, and why.

    Attributes
    ----------
    system : "moments", "rows", "products", "device" or "gram"
    solver : "direct" or "cg"
    why : str
    costs : dict
        Operations of the solvers that were compared, see `cost`.
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


def decide(
    span: Span,
    sample: Sample,
    options: RidgeOptions,
    search: Search,
    *,
    has_missing: bool = False,
    learned: bool = False,
    needs_moments: bool = False,
) -> Decision:
    """Return the system for a ridge.

    Parameters
    ----------
    span : Span
    sample : Sample
    options : RidgeOptions
    search : Search
    has_missing : bool, default False
        Whether targets are known to be missing.
    learned : bool, default False
        Whether the kernel is in a metric that was learned from the same rows.
    needs_moments : bool, default False
        Whether the moments are wanted for something else too.
    """
    solver = "direct" if learned and options.solver == "auto" else options.solver
    if span.is_exact:
        return _exact(span, sample, options, solver)
    is_related = options.task_matrix is not None
    if has_missing and _keeps_rows(options, span, sample, search):
        return Decision("rows", "direct", "missing targets with many masks: coordinates are kept")
    is_sparse = sparse.issparse(sample.targets.like)  # only their moments are small
    if has_missing or is_related or needs_moments or is_sparse:
        return Decision("moments", "direct", "only moments serve these targets or variances")
    if search.splits and options.solver != "cg":
        return Decision("moments", "direct", "one pass serves all alphas and folds")
    costs = _sketched_costs(span, sample, solver)
    if solver == "cg":
        return Decision("products", "cg", 'solver="cg"', costs)
    may_iterate = solver == "auto" and sample.rows.rereadable
    if may_iterate and span.m >= cost.LEAST_LANDMARKS and cost.cheaper(costs) == "cg":
        return Decision("products", "cg", "conjugate gradients cost less", costs)
    if sample.rows.device is not None and span.m >= device.LEAST:
        return Decision("device", "direct", "the direct solver costs less", costs)
    return Decision("moments", "direct", "the direct solver costs less", costs)


def _exact(span: Span, sample: Sample, options: RidgeOptions, solver: str) -> Decision:
    """Return the system of an exact fit on the distinct rows of a span."""
    on_device, n = sample.rows.device is not None, n_rows(span.landmarks)
    if options.task_matrix is not None:
        if on_device or options.solver == "cg":
            raise ValueError(
                'task_matrix without a sketch is solved on the CPU by solver="direct": leave out '
                "device and solver, or give a sketch."
            )
        return Decision("rows", "direct", "a task matrix relates the outputs of all rows")
    d, q = int(np.prod(sample.rows.tail) or 1), sample.targets.shape[1]
    costs = cost.exact_costs(n, d, q)
    solver = solver if n <= _LEARNED_ROWS else options.solver
    if solver != "auto":
        return Decision("gram", solver, f'solver="{solver}"', costs)
    if cost.is_small(n) or (n > _MOST_ROWS and not on_device):
        return Decision("gram", "direct", f"{n} distinct rows: their kernel matrix", costs)
    return Decision("gram", cost.cheaper(costs), "the cheaper solver for all distinct rows", costs)


def _sketched_costs(span: Span, sample: Sample, solver: str) -> dict[str, float]:
    """Return the operations of both solvers, where they are to be compared or reported."""
    if span.m < cost.LEAST_LANDMARKS and solver != "cg":
        return {}
    rows, budget = sample.rows, budget_for(sample.rows, span.m)
    n, d = len(rows), int(np.prod(rows.tail) or 1)
    kept = min(1.0, budget.kept() / max(4.0 * n * span.m, 1.0))
    q = sample.targets.shape[1]
    return cost.sketched_costs(n, span.m, d, q, factors=budget.factors, kept=kept)


def _keeps_rows(options: RidgeOptions, span: Span, sample: Sample, search: Search) -> bool:
    """Return whether to keep coordinates of all rows, and not a Z'Z for each mask and group."""
    n_groups = len(groups_of_splits(search.splits, len(sample.rows))[1]) if search.splits else 1
    return keeps_rows(options, span.engine().rank, sample.targets.load(), n_groups)


def keeps_rows(options: RidgeOptions, rank: int, targets: Floats, n_groups: int) -> bool:
    """Return whether coordinates of all rows cost less than a Z'Z for each mask and group.

    With solver="direct", or for related outputs, which are solved by many products, each cheap with
    a Z'Z, only memory decides.
    """
    if options.solver == "cg":
        return True
    by_moments, m = options.solver == "direct" or options.task_matrix is not None, rank
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


# Making the system --------------------------------------------------------------------------------


def system_for(
    decision: Decision,
    span: Span,
    sample: Sample,
    options: RidgeOptions,
    search: Search,
    *,
    checkpoint: RidgeCheckpoint | None = None,
    has_missing: bool = False,
) -> System:
    """Return the system that a decision names.

    Parameters
    ----------
    decision : Decision
    span : Span
    sample : Sample
    options : RidgeOptions
    search : Search
    checkpoint : RidgeCheckpoint, optional
    has_missing : bool, default False
    """
    if decision.system == "gram":
        budget = _exact_budget(decision, span, sample)
        return GramSystem(
            span, sample, search.splits, options, decision.solver, budget, decision.report
        )
    if span.is_exact:
        return _related_rows(span, sample, options, search.splits)
    if options.fit_intercept:
        sample = replace(sample, origin=sample.rough_mean())
    if decision.system == "rows":
        return _sketched_rows(span.engine(), sample, options, search)

    def moments(checkpoint: RidgeCheckpoint | None = None) -> MomentSystem:
        return _moment_system(span, sample, options, search, decision, checkpoint, has_missing)

    def on_device(checkpoint: RidgeCheckpoint | None = None) -> System:
        if sample.rows.device is None or search.splits:
            return moments(checkpoint)
        return device.DeviceSystem(engine, sample, options, moments, decision.report)

    if decision.system == "moments":
        return moments(checkpoint)
    engine = span.unfactorized()
    if decision.system == "device":
        return on_device()
    if checkpoint is not None:
        checkpoint.add_fit(engine, sample, "cg")
    instead = on_device if options.solver == "auto" else None
    return ProductSystem(
        engine, sample, search.splits, options, checkpoint, instead, decision.report
    )


def _moment_system(
    span: Span,
    sample: Sample,
    options: RidgeOptions,
    search: Search,
    decision: Decision,
    checkpoint: RidgeCheckpoint | None,
    has_missing: bool,
) -> MomentSystem:
    """Sum the moments of each group of rows that splits divide, in one pass."""
    engine, roles = span.engine(), None
    # where the sketch was drawn from these rows, the features of landmarks were computed
    known = span.known_rows() if span.rows is sample.rows else None
    if search.splits:
        groups, roles = groups_of_splits(search.splits, len(sample.rows))
        sample = replace(sample, groups=groups, n_groups=len(roles))
    if checkpoint is not None:
        checkpoint.add_fit(engine, sample, "direct")
    has_bar = options.verbose or checkpoint is not None
    moments = engine.moments(
        sample, min(search.alphas), known=known,
        whiten=roles is not None or options.task_matrix is not None, center=not has_missing,
        progress=Bar(options.verbose, checkpoint) if has_bar else None,
    )  # fmt: skip
    folds = FoldMoments(
        moments, roles, options.fit_intercept, options.task_matrix, origin=sample.origin
    )
    return MomentSystem(engine, folds, options, sample, decision.report)


def _exact_budget(decision: Decision, span: Span, sample: Sample) -> MemoryBudget:
    """Return the memory of an exact fit, or raise where a device has too little."""
    n, budget = n_rows(span.landmarks), budget_for(sample.rows, 0)
    if budget.device is not None:
        budget.work = tile_bytes(n)
        if decision.solver == "direct":
            budget.require(8 * n**2, f"The kernel matrix of {n} rows", 'solver="cg"')
    return budget


def coordinates_of(engine: Engine, rows: Source, dtype: Any = np.float64) -> Design:
    """Return the coordinates of all rows: held, in one pass, or made again in each.

    They are of a precision, or of that of the rows, if it is None.
    """
    function = Projection(engine.features, engine.components.T, dtype=dtype)
    Z = rows.kept(function, (engine.rank,), n_jobs=engine.n_jobs)
    if Z is not None:
        return Design(Z, n_jobs=engine.n_jobs)

    def through(B: Floats) -> Projection:
        return Projection(engine.features, engine.on_features(B), dtype=dtype)

    return Design(rows.then(function), rows, through, engine.n_jobs)


def _sketched_rows(
    engine: Engine, sample: Sample, options: RidgeOptions, search: Search
) -> RowsSystem:
    """Keep the coordinates of all rows: features whitened as far as alpha needs, where they can be.

    To whiten them all takes as many operations as Z'Z.
    """
    design, partly, rows = None, None, sample.rows
    plan = engine.plan(rows, min(search.alphas), center=False)
    can_be_partly = rows.device is None and rows.precision == np.float64
    if options.task_matrix is None and can_be_partly and plan.size < engine.rank:
        features = WhitenedFeatures(engine.features, Whitening(engine.components, plan))
        held = rows.kept(features, (engine.rank,), n_jobs=engine.n_jobs)
        if held is not None:
            partly = PartlyWhitened(engine.components, plan.size)
            design = Design(held, n_jobs=engine.n_jobs)
    design = coordinates_of(engine, rows) if design is None else design
    on_features = engine.on_features if partly is None else partly.on_features

    def finish(solution: Coefficients, alpha: float) -> Fit:
        return Fit.in_span(
            engine, on_features(solution.coef), solution.intercept, ChosenAlpha(alpha),
            report=solution.report, origin=sample.origin, task_matrix=solution.task_matrix,
        )  # fmt: skip

    T = np.asarray(sample.targets.load(), dtype=np.float64)
    T = T if sample.origin is None else T - sample.origin
    system = MaskedSystem.of(design, T, sample.weights, options.fit_intercept, partly=partly)
    check_outputs_observed(system.n)
    return RowsSystem(sample, search.splits, options, system, finish)


def _related_rows(span: Span, sample: Sample, options: RidgeOptions, splits: Splits) -> RowsSystem:
    """Hold all rows in coordinates Z with K = Z Z', for outputs that a task matrix relates."""
    K = KernelMatrix(span.kernel, span.landmarks, options.n_jobs).full()
    L, kept = pivoted_cholesky(K)
    inverse = triangular_inverse(L)
    Z = K[:, kept] @ inverse.T
    design = Design(Z[span.place], n_jobs=options.n_jobs)
    gram = K[np.ix_(span.place, span.place)]

    def finish(solution: Coefficients, alpha: float) -> Fit:
        matrix = np.zeros((len(K), solution.coef.shape[1]))
        matrix[kept] = inverse.T @ solution.coef
        return Fit(
            span.kernel, span.landmarks, matrix, solution.intercept, ChosenAlpha(alpha),
            solution.report, task_matrix=solution.task_matrix,
        )  # fmt: skip

    T = np.asarray(sample.targets.load(), dtype=np.float64)
    system = MaskedSystem.of(design, T, sample.weights, options.fit_intercept, K=gram)
    check_outputs_observed(system.n)
    return RowsSystem(sample, splits, options, system, finish)
