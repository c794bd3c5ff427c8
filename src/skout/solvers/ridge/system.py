"""A ridge regression: the problem, which system holds it and why, and the fit that it returns.

    (sum_i w_ij z_i z_i' + n_j alpha I) c_j = sum_i w_ij z_i y_ij,      n_j = sum_i w_ij

for each output j, where z are the coordinates of the rows. Missing targets have w_ij = 0, and a
task matrix couples the c_j. There is one `System` for each way to hold the problem, and `decide` is
the only place that chooses between them:

| system | holds | when |
|---|---|---|
| moments | Z'Z and Z'T, summed in one pass over the rows | a sketch: the rule |
| fitc | these, and then those of rows that weigh less | variance="fitc" |
| rows | Z itself | missing targets with many masks, or a task matrix without a sketch |
| products | passes for conjugate gradients | 2,500 landmarks or more (GPU: 1,500), where cheaper |
| device | Z'Z and Z'T on a device | 2,048 landmarks or more there, and one alpha |
| gram | the kernel matrix of all rows, or tiles of it | no sketch |

Costs are those of docs/scale.md. They are counted with the numbers of a CPU on a GPU too; there
conjugate gradients are taken from fewer landmarks on, and for less. A GPU has numbers of its own
for what changes the speed only: the kind of preconditioner, and the size of its sketch.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from ..._numerics.arrays import cast, n_rows, tensor, torch_dtype, unique_columns
from ..._numerics.objects import to_device
from ..._numerics.threads import total_memory
from ..._numerics.typing import Array, Floats, Ints, Matrix, RandomState, Rows, TorchDevice
from ..._numerics.validation import warn_user
from ...basis import Engine, Span
from ...basis.moments import AnyMoments, TrainingSample
from ...kernels import Kernel
from ...rows import Source, block_rows, limits
from ..folds import CV, AlphaSearch, ChosenAlpha, choose, groups_of_splits, mean_square
from .checkpoint import RidgeCheckpoint

# What a kernel value costs besides its product, in operations of a float32 matrix product that the
# machine could do meanwhile: on a CPU an exponential and its traffic in cache, on a GPU traffic in
# memory. What one costs that was kept. How much longer double precision takes than single. Round
# numbers, see docs/scale.md; the key is whether it is a GPU.
_VALUE = {False: 130.0, True: 400.0}
_KEPT = {False: 50.0, True: 100.0}
_DOUBLE = {False: 2.0, True: 1.0}
# Passes in double precision: the right side, and two checks of the residual.
_CHECKS = 3
# Steps until the default tolerance by kind of preconditioner; of an exact fit. Measured, see
# docs/scale.md; a wrong choice between solvers that cost about the same costs little.
_STEPS = {"sampled 4": 12, "sampled 2": 20, "one": 35, "sketch": 60}
_EXACT_STEPS = 40
# Conjugate gradients must promise to be so many times cheaper: the direct solver has no tolerance.
# On a GPU they may promise less, and with fewer landmarks, since sums of products take more time
# there than operations say: 500,000 rows of 40 columns and 2,000 landmarks, which promise 1.4, took
# 0.13 s where the direct solver took 0.32 (an H200, single precision).
_MARGIN, _MARGIN_ON_GPU = 1.5, 1.25
# Below these sizes the direct solver is used in any case, with landmarks and without: it has
# no tolerance, and keeps moments for partial_fit and return_std. And the host in place of a device,
# which would not keep the moments. Round numbers.
_LEAST_LANDMARKS, _LEAST_ROWS, _LEAST_ON_DEVICE = 2500, 8000, 2048
_LEAST_LANDMARKS_ON_GPU = 1500
# About the rows whose tiles of K, in single precision, are kept by default: 3.2 GB.
_KEPT_ROWS = 40000
# Least rows of the sketch that preconditions an exact fit: their factor costs next to nothing.
_LEAST_SKETCH = 500
# Most rows whose kernel matrix is factorized in any case where a metric was learned: the kernel is
# wide then and alpha may be tiny, so that conjugate gradients would stop far from the solution.
_LEARNED_ROWS = 20_000
# Most rows that are solved without a matrix on the host unless that was requested: more take hours,
# and that their matrix does not fit the memory is said at once.
_MOST_ROWS = 200_000
# Adding a number to a sum, or keeping one, takes as long as so many operations of a product: a
# round number, less than that of sparse targets since whole matrices are added.
_SUM_COST = 60.0
# Digits that conjugate gradients gain, those of `_TOL` in rows.py, and steps they take for each
# that the bound on their convergence says.
_DIGITS, _MORE_STEPS = 9.0, 1.1
# Shares of the free memory of a GPU: for factors, and for all that is held. The rest is for what
# PyTorch's allocator cannot use in one piece.
_FACTORS, _ALL = 0.6, 0.9
# Share of the memory of this machine for factors, whose other programs want some too.
_HOST = 0.25
_GB = 2.0**30


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
    is_fitc: bool = False  # whether rows weigh less that the sketch does not span


@dataclass(frozen=True)
class RidgeProblem:
    """What is to be fitted: the span, rows and targets, the parameters, alphas to choose from."""

    span: Span
    sample: TrainingSample
    options: RidgeOptions
    search: AlphaSearch

    @functools.cached_property
    def groups(self) -> tuple[Ints | None, np.ndarray | None]:
        """The group of each row, and the roles of groups in the splits; see `groups_of_splits`."""
        splits = self.search.splits
        return groups_of_splits(splits, len(self.sample.rows)) if splits else (None, None)


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
    system : "moments", "fitc", "rows", "products", "device" or "gram"
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


class Unsolved(ArithmeticError):
    """A system could not be solved well, and another one, which can, takes over."""

    instead: System
    report: Mapping[str, Any] | None

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
    def choice(self, search: AlphaSearch) -> ChosenAlpha:
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

    @abstractmethod
    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        """Return what each alpha, fitted on training rows, predicts: shape (n_alphas, h, d)."""

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha, fitted on the training rows of a split, predicts."""
        return self.path(alphas, self.problem.search.splits[split][0], held)

    def losses(self, alphas: Sequence[float], split: int) -> Sequence[float]:
        """Return the mean squared error of each alpha on the test rows of a split."""
        (train, held), sample = self.problem.search.splits[split], self.problem.sample
        truth = np.asarray(sample.targets.take(held), dtype=np.float64)
        w = None if sample.weights is None else sample.weights[held]
        return [mean_square(truth, F, w) for F in self.path(alphas, train, held)]

    def choice(self, search: AlphaSearch) -> ChosenAlpha:
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


def fit_best(system: System, search: AlphaSearch, report: Mapping[str, Any]) -> Fit:
    """Return the fit with the best alpha; where a system fails, by the one that takes over.

    What it reports is added to the `report`, that of the decision for one.
    """
    try:
        chosen = system.choice(search)
        fit = replace(system.solve(chosen.alpha), chosen=chosen)
    except Unsolved as stop:
        failed = {} if stop.report is None else {"fell_back_from": dict(stop.report)}
        fit = fit_best(stop.instead, search, failed)
    return replace(fit, report={**report, **fit.report})


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


# The decision -----------------------------------------------------------------------------------


def decide(problem: RidgeProblem) -> Decision:
    """Return the system for a ridge."""
    span, sample, options, search = (
        problem.span, problem.sample, problem.options, problem.search
    )  # fmt: skip
    solver = "direct" if options.is_learned and options.solver == "auto" else options.solver
    rows, m, q = sample.rows, span.m, sample.targets.shape[1]
    n, d = len(rows), int(np.prod(rows.tail) or 1)
    if span.is_exact:
        return _exact(n_rows(span.landmarks), d, q, options, solver, rows.device is not None)
    if options.has_missing:
        _, roles = problem.groups
        targets, n_groups = np.asarray(sample.targets.load()), 1 if roles is None else len(roles)
        if keeps_rows(options, span.factorized[0].rank, targets, n_groups):
            why = "missing targets with many masks: coordinates are kept"
            return Decision("rows", "direct", why)
    is_sparse = sparse.issparse(sample.targets.like)  # only their moments are small
    is_related = options.task_matrix is not None
    if options.has_missing or is_related or options.is_fitc or is_sparse:
        system = "fitc" if options.is_fitc else "moments"
        return Decision(system, "direct", "only moments serve these targets or variances")
    if search.splits and options.solver != "cg":
        return Decision("moments", "direct", "one pass serves all alphas and folds")
    costs: dict[str, float] = {}
    on_gpu = rows.device is not None
    least = min(_LEAST_LANDMARKS, _LEAST_LANDMARKS_ON_GPU) if on_gpu else _LEAST_LANDMARKS
    if m >= least or solver == "cg":  # they are compared, or reported
        budget = budget_for(rows, m)
        kept = min(1.0, budget.kept() / max(4.0 * n * m, 1.0))
        costs = sketched_costs(n, m, d, q, factors=budget.factors, kept=kept)
    if solver == "cg":
        return Decision("products", "cg", 'solver="cg"', costs)
    may_iterate = solver == "auto" and rows.rereadable and m >= least
    if may_iterate and cheaper(costs, on_gpu) == "cg":
        return Decision("products", "cg", "conjugate gradients cost less", costs)
    system = "device" if on_gpu and m >= _LEAST_ON_DEVICE else "moments"
    return Decision(system, "direct", "the direct solver costs less", costs)


def _exact(n: int, d: int, q: int, options: RidgeOptions, solver: str, on_device: bool) -> Decision:
    """Return the system of an exact fit on n distinct rows."""
    if options.task_matrix is not None:
        if on_device or options.solver == "cg":
            raise ValueError(
                'task_matrix without a sketch is solved on the CPU by solver="direct": leave out '
                "device and solver, or give a sketch."
            )
        return Decision("rows", "direct", "a task matrix relates the outputs of all rows")
    costs = exact_costs(n, d, q)
    solver = solver if n <= _LEARNED_ROWS else options.solver
    if solver != "auto":
        return Decision("gram", solver, f'solver="{solver}"', costs)
    if n < _LEAST_ROWS or (n > _MOST_ROWS and not on_device):
        return Decision("gram", "direct", f"{n} distinct rows: their kernel matrix", costs)
    return Decision("gram", cheaper(costs), "the cheaper solver for all distinct rows", costs)


# Operations ---------------------------------------------------------------------------------------


def sketched_costs(
    n: int, m: int, d: int, q: int, *, factors: int = 2, kept: float = 1.0
) -> dict[str, float]:
    """Return the operations of a fit of n rows, m landmarks, d columns and q outputs.

    direct  n m (2 d + v + m + 2 q) + 4 m^3        values, Z'Z, Z'T; factors and the solution
    cg      3 n m (2 d + 1.5 v + 4 q) + setup + steps n m (k + 4 q)

    v and k are what a value costs that is computed, and one that is kept; a share of the values is
    kept, and k is 2 d + v for the others. Setup and steps depend on the preconditioner, see
    `preconditioner_costs`, and are those of the cheapest.
    """
    value, double = _VALUE[False], _DOUBLE[False]
    direct = n * m * (2.0 * d + value + m + 2.0 * q) + 2.0 * double * m**3
    cg = _CHECKS * n * m * (2.0 * d + 1.5 * value + 4.0 * q)
    cg += min(preconditioner_costs(n, m, d, q, factors=factors, kept=kept).values())
    return {"direct": direct, "cg": cg}


def preconditioner_costs(
    n: int, m: int, d: int, q: int, *, factors: int, kept: float, on_device: bool = False
) -> dict[str, float]:
    """Return setup and steps by kind of preconditioner, of those that there is memory for.

    Setup: m^3 / 3 of one factor in single precision, (s + m / 3) m^2 of s = 2 m or 4 m sampled
    rows. The two factors of Falkon, m^3 and 30 steps, would never cost least. `factors` is how many
    m x m matrices there is memory for: 2, 1 in single precision, or 0, where a second sketch must
    do.
    """
    double, cube = _DOUBLE[on_device], float(m) ** 3
    value = kept * _KEPT[on_device] + (1.0 - kept) * (2.0 * d + _VALUE[on_device])
    a_pass = n * m * (value + 4.0 * q)
    setup = {
        "sampled 4": double * (4 + 1 / 3) * cube,
        "sampled 2": double * (2 + 1 / 3) * cube,
        "one": cube / 3 if on_device else 2 * cube / 3,
        "sketch": 2.0 * m * min(m, 4000) ** 2,
    }
    names = {2: ("sampled 4", "sampled 2", "one"), 1: ("one",), 0: ("sketch",)}[factors]
    return {name: setup[name] + _STEPS[name] * a_pass for name in names}


def exact_costs(n: int, d: int, q: int) -> dict[str, float]:
    """Return the operations of an exact fit.

    direct  n^2 (2 d + v) / 2 + n^3 / 3
    cg      3 n^2 (2 d + 1.5 v) / 2 + steps n^2 (k + 4 q) / 2 + 3 n r^2, r the rows of a sketch
    """
    value, double = 0.5 * (2.0 * d + _VALUE[False]), _DOUBLE[False]
    kept = 0.5 * (_KEPT[False] + 4.0 * q) if n <= _KEPT_ROWS else value + 2.0 * q
    direct = n * n * value + double * n**3 / 3.0
    cg = n * n * (1.5 * _CHECKS * value + _EXACT_STEPS * kept)
    return {"direct": direct, "cg": cg + 3.0 * double * n * sketch_rank(n) ** 2}


def sketch_rank(n: int, on_device: bool = False) -> int:
    """Return the rows of the sketch that preconditions n rows: the more, the fewer passes."""
    return int(min(n, 20000, max(_LEAST_SKETCH, (15 if on_device else 10) * n**0.5)))


def cheaper(costs: dict[str, float], on_gpu: bool = False) -> str:
    """Return the solver that costs less; conjugate gradients only by a margin."""
    margin = min(_MARGIN, _MARGIN_ON_GPU) if on_gpu else _MARGIN
    return "cg" if costs["cg"] * margin < costs["direct"] else "direct"


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
    return bool(kept < by_masks)


def cheaper_by_steps(counts: Ints, sizes: Ints, n: int, p: int) -> tuple[np.ndarray, float]:
    """Return which sets of outputs conjugate gradients solve in fewer operations, and how many.

    Preconditioned by the mean of all rows, outputs that have n_j of n rows at random converge like
    s^k with s^2 = p/n (n - n_j)/n_j: the eigenvalues lie between (1 - s)^2 and (1 + s)^2. `counts`
    are the rows that the outputs of each set have, and `sizes` how many outputs it has.
    """
    few = np.minimum(counts, p)
    directly = counts * float(p) * p + few**2 * (p / 3.0)
    rate = np.sqrt(p / n * (n - counts) / np.maximum(counts, 1))
    steps = 1.0 + _MORE_STEPS * _DIGITS / -np.log10(np.clip(rate, 1e-6, 0.95))
    by_steps = 4.0 * steps * sizes * n * p  # of few columns, which is slower, but in float32
    shared = n * float(p) * p + p**3
    chosen = (by_steps < directly) & (counts > p)
    if np.where(chosen, directly - by_steps, 0.0).sum() <= shared:
        return np.zeros(len(counts), dtype=bool), float(directly.sum())
    return chosen, float(np.where(chosen, by_steps, directly).sum() + shared)


# Memory -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class MemoryBudget:
    """The memory that a solver may take on a device, or on the host (None), and arrays in it.

    Of the bytes that are free there, a pass takes `work`. The factors of a preconditioner have m
    rows: `factors` is how many such matrices there is memory for, 2, 1 in single precision, or 0.
    """

    device: TorchDevice | None
    free: float
    work: float
    m: int

    def __post_init__(self) -> None:
        free = self.free * (1.0 if self.device is None else _FACTORS)
        square = 8.0 * self.m * self.m
        sizes = {2: 2 * square, 1: square / 2, 0: 0.0}
        fitting = (k for k in (2, 1) if sizes[k] + self.work <= free)
        self.factors: int = next(fitting, 0)
        self.holds_gram: bool = self.factors == 2 and 3 * square + self.work <= free
        held = sizes[self.factors]
        self.factor_bytes: int = int(held + self.holds_gram * square)

    def require(self, needed: float, what: str, remedy: str) -> None:
        """Raise where there is too little memory for something, before the work begins."""
        if not self.holds(needed):
            raise MemoryError(
                f"{what} would take {needed / _GB:.1f} GiB on {self.device}, which has "
                f"{self.free / _GB:.1f} GiB free. Use {remedy}."
            )

    def holds(self, needed: float) -> bool:
        """Return whether there is memory for so many bytes besides a pass."""
        return needed + self.work <= (1.0 if self.device is None else _ALL) * self.free

    def kept(self) -> int:
        """Return the bytes of features that may be kept between passes."""
        if self.device is None:
            given = limits().requested_bytes
            return max(limits().coordinates_bytes, int(self.free)) if given is None else given
        return max(0, int(_ALL * self.free - self.factor_bytes - self.work))

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Return a new array, on the device if there is one."""
        if self.device is None:
            return np.empty(shape, dtype=dtype)
        import torch

        return torch.empty(shape, dtype=torch_dtype(dtype), device=self.device)

    def moved(self, rows: Rows, dtype: DTypeLike | None = None) -> Any:
        """Return rows on the device, in a precision; on the host they stay as they are."""
        return rows if self.device is None else to_device(rows, self.device, dtype)

    def mixed(self, W: Matrix, A: Array) -> Array:
        """Return W A, of which A lies where this memory is."""
        left = W if self.device is None else cast(tensor(W, self.device), A.dtype)
        product: Array = left @ A
        return product


def budget_for(rows: Source, m: int) -> MemoryBudget:
    """Return the memory of a fit with m landmarks, or raise where a GPU has too little."""
    if rows.device is None:
        return MemoryBudget(None, _HOST * (total_memory() or 8 * _GB), 0.0, m)
    work = 3.0 * min(limits().device_bytes, 8.0 * len(rows) * m)
    free = _free_on(rows.device)
    if work > _ALL * free:
        raise MemoryError(
            f"{rows.device} has {free / _GB:.1f} GiB free, and a pass over {len(rows)} rows with "
            f"{m} landmarks takes about {work / _GB:.1f} GiB there. Free some of it, or let passes "
            f"work in smaller blocks: skout.memory_limits(device_mb="
            f"{max(1, int(_ALL * free / 3 / 2**20))})."
        )
    return MemoryBudget(rows.device, free, work, m)


def _free_on(device: TorchDevice) -> float:
    """Return the bytes that are free on a device."""
    import torch

    if device.type != "cuda":
        return _HOST * (total_memory() or 8 * _GB)
    torch.cuda.empty_cache()
    return float(torch.cuda.mem_get_info(device)[0])
