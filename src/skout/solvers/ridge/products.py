"""Kernel ridge regression in the features of landmarks: by passes over the rows, or on a device.

The system of `KernelRidge` in the features F = W k(landmarks, x) of all rows,

    (F'F + n alpha K) c = F'T,      K = W k(landmarks, landmarks) W',

is solved by products only (`ProductSystem`): a pass over the rows makes one for all outputs, and
blocks of F are kept in single precision as far as memory allows, and computed again where not. Or,
for one alpha, by factors that stay on a device (`DeviceSystem`): only landmarks go there, and only
coefficients come back.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..._numerics.arrays import (
    astype,
    cast,
    constant,
    n_rows,
    namespace,
    numpy_of,
    ones,
    row_slices,
    take,
    times,
)
from ..._numerics.checkpoints import Checkpoint
from ..._numerics.factors import add_gram, cholesky, inverse_corner
from ..._numerics.typing import Array, Floats, Ints, Rows
from ..._numerics.validation import check_total_weight
from ...basis import Engine
from ...basis.features import LandmarkFeatures, Projection, allowed_square, check_values
from ...basis.moments import Moments, TrainingSample
from ...rows import Place, Reduction, Source
from ..cg import CGState, Run, largest_of, refined
from ..folds import AlphaSearch, ChosenAlpha
from .moments import MomentSystem, Solution
from .preconditioners import OneFactor, SampledRows, Sketched, definite_factor
from .system import (
    Decision,
    Fit,
    MemoryBudget,
    RidgeOptions,
    RidgeProblem,
    System,
    SystemOfRows,
    Unsolved,
    budget_for,
    preconditioner_costs,
    warn_unless_converged,
)

# Rows of the second sketch, of which a preconditioner is made where m^2 numbers are too many: its
# factor takes 128 MB. More rows, fewer steps.
_SKETCH = 4000
# Rows whose features are computed at a time, and their numbers, 2 GB in double precision.
_CHUNK_ROWS, _CHUNK_NUMBERS = 8192, 2**28
# Of the rows that make a preconditioner: which they are does not change the solution.
_SEED = 0
# Features that may be whitened row by row on a device: as on the host, and more where that is still
# a small part of the work, up to a quarter of them.
_WHITENED = (0, 32, 64, 128, 256, 512, 1024, 2048)
# Estimated loss of precision that is allowed there, by the precision of the rows: its products are
# in float64 in any case, so that less is allowed than on the host for float32 rows.
_LOSS = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-8}
# Steps of the power iteration that estimates an eigenvalue: it chooses a plan, one digit will do.
_POWER_STEPS = 6


# Passes over the rows -----------------------------------------------------------------------------


@dataclass
class Store:
    """Blocks of features in single precision, kept between passes up to a number of bytes."""

    most_bytes: int
    bytes: int = 0
    kept: dict[int, Array] = field(default_factory=dict)

    def offer(self, key: int, F: Array) -> None:
        """Keep a block, unless it is kept already or too large."""
        size = 4 * F.shape[0] * F.shape[1]
        if key not in self.kept and self.bytes + size <= self.most_bytes:
            self.kept[key] = cast(F, np.float32)
            self.bytes += size

    def __getstate__(self) -> dict[str, Any]:
        """Leave the blocks here: workers compute their own."""
        return {"most_bytes": 0, "kept": {}, "bytes": 0}


class _FeaturePass(Reduction[Any]):
    """A sum over rows of something with their features, on the host or on a device.

    On the host blocks are kept by the numbers of their rows, on a device by their turn: there they
    come in order.
    """

    features: LandmarkFeatures
    store: Store

    def __init__(self, features: LandmarkFeatures, store: Store, dtype: DTypeLike) -> None:
        self.features, self.store, self.width = features, store, features.m
        self.dtype: np.dtype = np.dtype(dtype)
        self.turn: int | None = None
        self._on_device: Any = None

    def on(self, place: Place) -> Any:
        if self._on_device is None:
            dtype = min(self.dtype, place.dtype, key=lambda kind: kind.itemsize)
            self._on_device = copy.copy(self)
            self._on_device.features, self._on_device.dtype = (
                self.features.on(place.device, dtype), dtype
            )  # fmt: skip
        self._on_device.turn = 0
        return self._on_device

    def combine(self, total: Any, part: Any) -> Any:
        if total is None:
            return part
        total += part
        return total

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_on_device": None}


class FeatureProducts(_FeaturePass):
    """V -> sum over rows of w phi (phi'V), phi the features of a row.

    Products in single precision use the store, and kernel values in that precision.
    """

    V: Array

    def of(self, sample: TrainingSample, V: Array, n_jobs: int | None) -> Array:
        """Return the products with V, shape (m, q), in double precision."""
        self.V, rows = cast(V, self.dtype), sample.rows
        has_numbers = rows.device is None and rows.has_shortcuts
        numbers = np.arange(len(rows)) if has_numbers else None
        return rows.reduce(self, sample.weights, numbers, n_jobs=n_jobs)

    def on(self, place: Place) -> Any:
        moved = super().on(place)
        moved.V = cast(self.V, moved.dtype)
        return moved

    def __call__(self, rows: Rows, *beside: Array) -> Array:
        weights, numbers = beside
        total: Any = None
        for part in row_slices(n_rows(rows), self.features.cache_rows(rows, self.dtype)):
            F = self._features(take(rows, part), None if numbers is None else int(numbers[part][0]))
            U = times(F, self.V)
            if weights is not None:
                U *= cast(weights[part, None], U.dtype)
            product = cast(times(F.T, U), np.float64)
            total = product if total is None else total.__iadd__(product)
        products: Array = total
        return products

    def _features(self, rows: Rows, key: int | None) -> Array:
        """Return the features of a block; those of single precision are kept by their key."""
        if self.turn is not None:
            key, self.turn = self.turn, self.turn + 1
        is_single = self.dtype == np.float32
        kept = self.store.kept.get(key) if is_single and key is not None else None
        if kept is not None and len(kept) == n_rows(rows):
            return kept
        is_exact = not is_single and self.turn is None
        F = cast(self.features(astype(rows, np.float64) if is_exact else rows), self.dtype)
        if is_single and key is not None:
            self.store.offer(key, F)
        return F


class RightSide(_FeaturePass):
    """F'[w T, w], and the sums of w, w T and w T^2: `Moments` without Z'Z.

    `origin` is subtracted from T, and `center`, a value near T, in the last two sums only. On a
    device it fills the store.
    """

    origin: Array | None = None
    center: Array | None = None

    def of(self, sample: TrainingSample, center: Floats | None, n_jobs: int | None) -> Moments:
        """Return the moments; zt and z_sum are tensors where the pass ran on a device."""
        self.origin, self.center = sample.origin, center
        moments: Moments = sample.rows.reduce(self, sample.targets, sample.weights, n_jobs=n_jobs)
        check_values(self.features.kernel, numpy_of(moments.z_sum))
        return moments

    def on(self, place: Place) -> Any:
        moved = super().on(place)
        moved.origin, moved.center = (
            None if value is None else place.moved(value, np.float64)
            for value in (self.origin, self.center)
        )
        return moved

    def __call__(self, rows: Rows, *beside: Array) -> Moments:
        targets, weights = beside
        F = self.features(astype(rows, np.float64) if self.turn is None else rows)
        if self.turn is not None:
            self.store.offer(self.turn, F)
            self.turn += 1
        T = cast(targets, np.float64)
        T = T if self.origin is None else T - self.origin
        F = F if weights is None else 1.0 * F  # which is scaled in place, and may be kept
        sums = Moments.of_block(F, T, weights, zz=np.zeros((0, 0)))
        if self.center is None:
            return sums
        T, w = T - self.center, ones(len(T), T) if weights is None else cast(weights, np.float64)
        return replace(sums, tt=w @ T**2, t_sum=w @ T)

    def finish(self, total: Moments) -> Moments:
        tt, t_sum = numpy_of(total.tt), numpy_of(total.t_sum)
        return replace(total, weight=float(total.weight), tt=tt, t_sum=t_sum)


# The system in features ---------------------------------------------------------------------------


@dataclass(eq=False)
class LandmarkSystem:
    """The system of a sample in the features of an engine, centered if there is an intercept.

    The components of the engine are not used.
    """

    engine: Engine
    sample: TrainingSample
    options: RidgeOptions

    def __post_init__(self) -> None:
        self.rows: Source = self.sample.rows
        self.fit_intercept: bool = self.options.fit_intercept
        self.features: LandmarkFeatures = self.engine.features
        self.m: int = self.features.m
        self.budget: MemoryBudget = budget_for(self.rows, self.m)
        self.store: Store = Store(self.budget.kept())
        self._chunk = max(256, min(_CHUNK_ROWS, _CHUNK_NUMBERS // self.m))
        self._copies: dict[Any, LandmarkFeatures] = {}

    @functools.cached_property
    def _sums(self) -> tuple[Moments, Floats]:
        """The moments of the rows without Z'Z, and the norm of each output about its mean."""
        center = None  # where nothing is subtracted from the targets, squares hide their spread
        if self.sample.origin is None:
            center = self.sample.rough_mean()
        right = RightSide(self.features, self.store, np.float64)
        sums = right.of(self.sample, center, self.options.n_jobs)
        check_total_weight(sums.weight)
        if np.isnan(sums.tt).any():
            raise ValueError(
                "y has missing values, which conjugate gradients take only of y in memory: give "
                'y as an array, or solver="direct".'
            )
        spread = np.sqrt(np.maximum(sums.tt - sums.t_sum**2 / sums.weight, 0.0))
        if center is not None:
            t_sum = sums.t_sum + sums.weight * center
            sums = replace(sums, t_sum=t_sum, tt=sums.tt + center * (sums.t_sum + t_sum))
        return sums, spread

    @functools.cached_property
    def right(self) -> Array:
        """F'T, of centered targets if there is an intercept."""
        sums, _ = self._sums
        if not self.fit_intercept:
            return sums.zt
        return sums.zt - sums.z_sum[:, None] * (constant(sums.t_sum, sums.zt) / sums.weight)

    def product(self, alpha: Callable[[], float], *, single: bool) -> Callable[[Array], Array]:
        """Return V -> (F'F + n alpha K) V, centered if there is an intercept."""
        dtype = np.float32 if single else np.float64
        passes = FeatureProducts(self.features, self.store, dtype)
        z_sum, n = self._sums[0].z_sum, self._sums[0].weight

        def apply(V: Array) -> Array:
            out = passes.of(self.sample, V, self.options.n_jobs)
            if self.fit_intercept:
                out = out - z_sum[:, None] * ((z_sum @ V) / n)
            if self.budget.holds_gram:
                return out + (n * alpha()) * times(self._gram, V)
            KV = self._mixed(lambda part: times(part, cast(V, part.dtype)), V.shape[1])
            return out + (n * alpha()) * KV

        return apply

    @functools.cached_property
    def _gram(self) -> Array:
        return self.gram()

    def gram(self, dtype: DTypeLike = np.float64) -> Array:
        """Return K in memory of its own."""
        if self.budget.device is None:
            return np.ascontiguousarray(self.engine.gram()[0].astype(dtype, copy=False))
        return self._mixed(lambda part: part, self.m, dtype)

    def _mixed(
        self, function: Callable[[Array], Array], width: int, dtype: DTypeLike = np.float64
    ) -> Array:
        """Return W function(features of the landmarks), some of them at a time."""
        landmarks, W = self.engine.landmarks, self.engine.weights
        features = self.features_in(dtype)
        out = self.budget.empty((n_rows(landmarks), width), dtype)
        for part in row_slices(len(out), self._chunk):
            out[part] = function(features(self.budget.moved(take(landmarks, part), dtype)))
        return out if W is None else self.budget.mixed(W, out)

    def features_in(self, dtype: DTypeLike) -> LandmarkFeatures:
        """Return the features where the system lies, on a device in a precision."""
        if self.budget.device is None:
            return self.features
        dtype = np.dtype(dtype)
        if dtype not in self._copies:
            self._copies[dtype] = self.features.on(self.budget.device, dtype)
        return self._copies[dtype]

    @functools.cached_property
    def kind(self) -> str:
        """The preconditioner that makes the whole cheapest, of those that memory allows."""
        n, d, q = len(self.rows), int(np.prod(self.rows.tail) or 1), self.sample.targets.shape[1]
        kept = min(1.0, self.budget.kept() / max(4.0 * n * self.m, 1.0))
        costs = preconditioner_costs(
            n, self.m, d, q, factors=self.budget.factors, kept=kept,
            on_device=self.budget.device is not None,
        )  # fmt: skip
        return min(costs, key=lambda name: costs[name])

    def preconditioner(self, alpha: float) -> Any:
        """Return M^-1 of the kind that was chosen."""
        n, rows = self._sums[0].weight, self.engine.n_effective
        if self.kind.startswith("sampled"):
            size = int(self.kind.split()[1]) * self.m
            return SampledRows(lambda: self._of_sample(alpha, size))
        if self.kind == "one":
            return OneFactor(lambda: self.gram(np.float32), alpha, n, rows)
        # a second sketch, of landmarks in equal steps
        chosen = np.unique(np.linspace(0, self.m - 1, min(self.m, _SKETCH)).astype(int))
        index = self.budget.moved(chosen)
        K = self._mixed(lambda part: part[:, index], len(chosen))  # (m, r)
        L = definite_factor(lambda: 1.0 * K[index])
        Z = L.solve(K.T).T
        total = self.m * float(K[index].diagonal().mean())
        left = max(total - float((Z * Z).sum()), 0.0) / self.m
        delta = 0.5 * rows * alpha + left + 1e-7 * total / self.m
        return Sketched(cast(Z, np.float32), Z.T @ Z, delta, 2, rows / n)

    def _of_sample(self, alpha: float, size: int) -> Array:
        """Return (n / s) F_s'F_s + n alpha K of s rows, centered if there is an intercept."""
        out = self.gram()
        source, weights = self.rows, self.sample.weights
        if source.pool is not None:  # rows that cannot be taken from anywhere
            source, weights = source.pool
        size = min(size, len(source))
        chosen = np.sort(np.random.default_rng(_SEED).choice(len(source), size, replace=False))
        w = np.ones(size) if weights is None else np.asarray(take(weights, chosen), float)
        total = float(w.sum()) or 1.0
        out *= total * alpha
        mean: Any = 0.0
        features, moved = self.features_in(np.float64), self.budget.moved
        for part in row_slices(size, self._chunk):
            F = features(moved(astype(source.take(chosen[part]), np.float64)))
            F = cast(F, np.float64) * moved(np.sqrt(w[part])[:, None])
            mean = mean + moved(np.sqrt(w[part])) @ F
            add_gram(out, F)
        if self.fit_intercept:
            out -= mean[:, None] * (mean / total)
        out *= self._sums[0].weight / total
        return out

    def path(
        self, alphas: Sequence[float], checkpoint: Checkpoint | None = None
    ) -> tuple[list[Solution], dict[str, Any]]:
        """Return coefficients of the features and intercept of each alpha, and the last report.

        Each alpha starts from the solution of the one before it. The residual in the report is the
        largest of all alphas.
        """
        sums, b, start, steps, current, largest = self._sums[0], self.right, None, 0, [0.0], 0.0
        spread, path, M, tol = constant(self._sums[1], b), [], None, self.options.tol
        products = [self.product(lambda: current[0], single=single) for single in (True, False)]
        for alpha in alphas:
            current[0], M = alpha, None  # its memory is needed
            M = self.preconditioner(alpha)
            run = refined(
                products, b, M, tol=tol, max_iter=self.options.max_iter, start=start, spread=spread,
                progress=None if checkpoint is None else functools.partial(_keep, checkpoint),
                resumed=None if checkpoint is None else _resumed(checkpoint, b),
            )  # fmt: skip
            start, steps, largest = run.x, steps + run.steps, largest_of(largest, run.residual)
            coef, intercept = numpy_of(run.x), np.zeros(b.shape[1])
            if self.fit_intercept:  # the mean of what is left of each output
                intercept = (sums.t_sum - numpy_of(sums.z_sum) @ coef) / sums.weight
            path.append((coef, intercept))
        report = self._report(run, M, alphas[-1]) | {
            "converged": largest <= tol, "relative_residual": largest, "tolerance": tol,
            "iterations": steps,
        }  # fmt: skip
        return path, report

    def _report(self, run: Run, M: Any, alpha: float) -> dict[str, Any]:
        """Return what is known about a solution c with residual r.

        J = (sum T^2 - c'b - c'r) / 2n, and its minimum is not below J - r'K^-1 r / (2 n^2 alpha).
        The latter is left out where it would take too long.
        """
        (sums, _), b = self._sums, self.right
        n, kept, bound = sums.weight, int(self.store.bytes), None
        tt = sums.tt - self.fit_intercept * sums.t_sum**2 / n
        objective = (float(tt.sum()) - float((run.x * (b + run.r)).sum())) / (2.0 * n)
        gap = float((run.r * M(run.r)).sum()) / (2.0 * n)
        if alpha > 0 and self.kind not in ("one", "sketch"):
            self.store.kept.clear()  # its memory is needed
            half = definite_factor(self.gram).solve(run.r)
            bound = float((half * half).sum()) / (2.0 * n * n * alpha)
        return {
            "solver": "cg", "exact_passes": run.checks, "objective": objective,
            "objective_gap": gap, "objective_bound": bound, "preconditioner": M.name,
            "kept_bytes": kept, "memory_bytes": kept + self.budget.factor_bytes,
        }  # fmt: skip


def _keep(checkpoint: Checkpoint, run: Run, state: CGState) -> None:
    """Store the state of the solver."""
    parts: dict[str, Any] = {f"run_{name}": numpy_of(v) for name, v in vars(run).items()}
    parts |= {f"state_{name}": numpy_of(value) for name, value in vars(state).items()}
    checkpoint.keep(**parts)


def _resumed(checkpoint: Checkpoint, like: Array) -> tuple[Run, CGState] | None:
    """Return what `_keep` stored in an earlier fit, if there is something."""
    stored = checkpoint.kept()
    if stored is None:
        return None
    parts: dict[str, dict[str, Any]] = {"run": {}, "state": {}, "done": {}, "facts": {}}
    for key, value in stored.items():
        kind, _, name = key.partition("_")
        parts[kind][name] = constant(value, like) if value.ndim else value.item()
    return Run(**parts["run"]), CGState(**parts["state"])


@dataclass(frozen=True)
class ProductSystem(SystemOfRows):
    """A ridge by conjugate gradients in the features of an engine, of which no components are used.

    `instead` makes the system that takes over where they do not converge.
    """

    problem: RidgeProblem
    engine: Engine
    instead: Callable[[], System] | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> ProductSystem:
        engine, instead, options = problem.span.unfactorized(), None, problem.options
        if options.checkpoint is not None:
            options.checkpoint.add_fit(engine, problem.sample, "cg")
        if options.solver == "auto":
            on_gpu = problem.sample.rows.device is not None
            other: type[System] = (
                DeviceSystem if on_gpu and not problem.search.splits else MomentSystem
            )
            again = replace(problem, options=replace(options, checkpoint=None))
            instead = functools.partial(other.of, again, decision)
        return cls(problem, engine, instead)

    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        sample, options = self.problem.sample, self.problem.options
        order = np.argsort(alphas)[::-1]  # each starts from the one before
        part = LandmarkSystem(self.engine, sample.take(train), options)
        path, report = part.path([alphas[k] for k in order])
        self.reports.append(report)
        coef = np.hstack([c for c, _ in path])
        offset = np.hstack([b if sample.origin is None else b + sample.origin for _, b in path])
        projection = Projection(self.engine.features, coef, offset, np.float64)
        rows, tail = sample.rows.subset(held), (coef.shape[1],)
        fitted = rows.collect(projection, tail, np.float64, options.n_jobs)
        return np.stack(np.hsplit(fitted, len(path)))[np.argsort(order)]

    def solve(self, alpha: float) -> Fit:
        sample, options = self.problem.sample, self.problem.options
        system = LandmarkSystem(self.engine, sample, options)
        [(matrix, intercept)], report = system.path([alpha], options.checkpoint)
        # the direct solver has three m x m matrices
        if (
            self.instead is not None
            and not report["converged"]
            and system.budget.holds(24.0 * system.m**2)
        ):
            system.store.kept.clear()  # its memory is needed
            raise Unsolved(self.instead(), report)
        warn_unless_converged(report, options.max_iter)
        return Fit.in_span(
            self.engine, matrix, intercept, alpha, report=report, origin=sample.origin
        )


# Directly, on a device ----------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceSystem(System):
    """A ridge of one alpha, solved on a device by factors of all landmarks without pivots.

    Where landmarks depend on each other, or rounding spoils the solution, moments take over: the
    host, which chooses pivots, does better.
    """

    problem: RidgeProblem
    decision: Decision
    engine: Engine

    @classmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> DeviceSystem:
        return cls(problem, decision, problem.span.unfactorized())

    def choice(self, search: AlphaSearch) -> ChosenAlpha:
        return ChosenAlpha(search.alphas[0])

    def solve(self, alpha: float) -> Fit:
        solution = self._solved(alpha)
        if solution is None:  # its memory is free again
            raise Unsolved(MomentSystem.of(self.problem, self.decision))
        matrix, intercept, report = solution
        origin = self.problem.sample.origin
        return Fit.in_span(self.engine, matrix, intercept, alpha, report=report, origin=origin)

    def _solved(self, alpha: float) -> tuple[Floats, Floats, dict[str, Any]] | None:
        """Solve (G'G + n alpha P) B = G'T, in features G of which the first are whitened.

        See `PartlyWhitened`: L = [[A, 0], [B, D]] is the factor of K, and P = diag(I, D D'). None
        where it goes wrong.
        """
        system = LandmarkSystem(self.engine, self.problem.sample, self.problem.options)
        rows, m = system.rows, system.m
        system.budget.require(24.0 * m * m, f"Three matrices of {m} landmarks", 'solver="cg"')
        K: Any = system.gram()
        factor = cholesky(K.clone())
        torch, eps = namespace(K), float(np.finfo(np.float64).eps)
        single = rows.precision == np.float32
        noise = max(np.finfo(np.float32).eps if single else 0.0, 8 * m * eps)
        if factor is None or factor.smallest() ** 2 <= noise * float(torch.diagonal(K).max()):
            return None
        L: Any = factor.L.tril_()
        size = _whitened_size(L, self.engine.n_effective * alpha, rows.precision)
        first: Any = inverse_corner(L, size).T.contiguous()  # A^-T
        grams = _Grams(system, first, L[size:, :size].T.contiguous())
        gg, cross, right = rows.reduce(grams, system.sample.targets, system.sample.weights)
        n = float(right[-1, -1])
        check_total_weight(n)
        gt, g_sum, t_sum = cross[:, :-1].clone(), cross[:, -1], right[:-1, -1]
        if system.fit_intercept:
            gt -= g_sum[:, None] * (t_sum / n)
            gg.addr_(g_sum, g_sum, alpha=-1.0 / n)
        B, rest = L[size:, :size], K[size:, size:]
        rest.addmm_(B, B.T, alpha=-1.0)  # D D'
        gg[size:, size:].add_(rest, alpha=n * alpha)
        gg[:size, :size].diagonal().add_(n * alpha)
        solution = cholesky(gg)
        if solution is None:
            return None
        coef = solution.solve_transposed(solution.solve(gt))
        intercept = t_sum / n - (g_sum @ coef) / n if system.fit_intercept else 0.0 * t_sum
        coef[:size] = first @ (coef[:size] - B.T @ coef[size:])
        report = {"solver": "direct", "whitened": size, "memory_bytes": 3 * 8 * m * m}
        return numpy_of(coef), numpy_of(intercept), report


def _whitened_size(L: Array, shift: float, dtype: np.dtype) -> int:
    """Return how many features to whiten in each row; all of them where fewer lose too much."""
    m, smallest = len(L), float(namespace(L).diagonal(L).min()) ** 2
    most = allowed_square(smallest, shift, np.float64, 1.0, _LOSS[dtype])
    for size in _WHITENED:
        if 4 * size <= m and _largest_eigenvalue(L[size:, size:]) ** 2 <= most:
            return size
    return m


def _largest_eigenvalue(D: Any) -> float:
    """Estimate the largest eigenvalue of D D' by power iteration."""
    v: Any = namespace(D).ones_like(D[:, 0])
    value = 0.0
    for _ in range(_POWER_STEPS):
        v = v / namespace(D).norm(v)
        w = D @ (D.T @ v)
        value, v = float(v @ w), w
    return value


class _Grams(Reduction[Any]):
    """The sums G'G (lower triangle), G'[T, 1] and [T, 1]'[T, 1] on a device, in float64."""

    features: LandmarkFeatures
    origin: Any

    def __init__(self, system: LandmarkSystem, first: Any, share: Any) -> None:
        self.system, self.first, self.share = system, first, share
        self.width = system.m

    def on(self, place: Place) -> _Grams:
        origin, moved = self.system.sample.origin, copy.copy(self)
        moved.features = self.system.features_in(np.float64)
        moved.origin = 0.0 if origin is None else place.moved(origin, np.float64)
        return moved

    def __call__(self, rows: Rows, *beside: Any) -> tuple[Array, Array]:
        targets, weights = beside
        torch, s = namespace(self.first), len(self.first)
        G: Any = self.features(rows)
        T = targets.to(torch.float64) - self.origin
        if s:
            G[:, :s] = G[:, :s] @ self.first
            G[:, s:].addmm_(G[:, :s], self.share, alpha=-1.0)
        right = torch.cat([T, torch.ones_like(T[:, :1])], dim=1)
        if weights is not None:
            root = weights.to(torch.float64).sqrt()[:, None]
            G, right = G.mul_(root), right * root
        return G, right

    def combine(self, total: Any, part: tuple[Array, Array]) -> Any:
        G, right = part
        if total is None:
            zeros, q = namespace(G).zeros, right.shape[1]
            shapes = ((G.shape[1], G.shape[1]), (G.shape[1], q), (q, q))
            total = [zeros(shape, dtype=G.dtype, device=G.device) for shape in shapes]
        add_gram(total[0], G)
        total[1].addmm_(G.T, right)
        total[2].addmm_(right.T, right)
        return total
