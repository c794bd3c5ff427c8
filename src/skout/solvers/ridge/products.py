"""Kernel ridge regression by conjugate gradients: passes over the rows instead of m x m moments.

The system of `KernelRidge` in the features F = W k(landmarks, x) of all rows,

    (F'F + n alpha K) c = F'T,      K = W k(landmarks, landmarks) W',

is solved by products only. A pass over the rows makes one for all outputs. Blocks of F are kept in
single precision as far as memory allows, and computed again where not.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._numerics.arrays import (
    astype,
    cast,
    constant,
    n_rows,
    numpy_of,
    ones,
    row_slices,
    take,
    times,
)
from ..._numerics.factors import add_gram
from ..._numerics.types import Array, Floats, Ints
from ..._numerics.validation import check_total_weight
from ...basis import Engine
from ...basis.features import LandmarkFeatures, Projection, check_values
from ...basis.moments import Moments
from ...basis.passes import Sample
from ...rows import Place, Reduction
from ..cg import Run, State, largest_of, refined
from ..folds import ChosenAlpha, Splits
from .base import Fit, RidgeOptions, System, SystemOfRows, Unsolved, warn_unless_converged
from .checkpoint import Checkpoint
from .cost import preconditioner_costs
from .memory import MemoryBudget, budget_for
from .preconditioners import OneFactor, SampledRows, Sketched, TwoFactors, definite_factor

__all__ = ["LandmarkSystem", "ProductSystem", "Store"]

# Rows of the second sketch, of which a preconditioner is made where m^2 numbers are too many.
_SKETCH = 4000
# Rows whose features are computed at a time, and their numbers.
_CHUNK_ROWS, _CHUNK_NUMBERS = 8192, 2**28
# Of the rows that make a preconditioner: which they are does not change the solution.
_SEED = 0


# Passes over the rows -----------------------------------------------------------------------------


class Store:
    """Blocks of features in single precision, kept between passes up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self.kept: dict[int, Array] = {}

    def get(self, key: int) -> Array | None:
        return self.kept.get(key)

    def offer(self, key: int, F: Array) -> None:
        """Keep a block, unless it is kept already or too large."""
        size = 4 * F.shape[0] * F.shape[1]
        if key not in self.kept and self.bytes + size <= self.most_bytes:
            self.kept[key] = cast(F, np.float32)
            self.bytes += size

    def __getstate__(self) -> dict[str, Any]:
        """Leave the blocks here: workers compute their own."""
        return {"most_bytes": 0, "kept": {}, "bytes": 0}


class _FeaturePass(Reduction):
    """A sum over rows of something with their features, on the host or on a device.

    On the host blocks are kept by the numbers of their rows, on a device by their turn: there they
    come in order.
    """

    def __init__(self, features: LandmarkFeatures, store: Store, dtype: Any) -> None:
        self.features, self.store, self.width = features, store, features.m
        self.dtype = np.dtype(dtype)
        self.turn: int | None = None
        self._on_device: Any = None

    def on(self, place: Place) -> Reduction:
        if self._on_device is None:
            dtype = min(self.dtype, place.dtype, key=lambda kind: kind.itemsize)
            self._on_device = copy.copy(self)
            self._on_device.features, self._on_device.dtype = (
                self.features.on(place.device, dtype), dtype
            )  # fmt: skip
        self._on_device.turn = 0
        return self._on_device

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_on_device": None}


class FeatureProducts(_FeaturePass):
    """V -> sum over rows of w phi (phi'V), phi the features of a row.

    Products in single precision use the store, and kernel values in that precision.
    """

    V: Array

    def of(self, sample: Sample, V: Array, n_jobs: int | None) -> Array:
        """Return the products with V, shape (m, q), in double precision."""
        self.V, rows = cast(V, self.dtype), sample.rows
        has_numbers = rows.device is None and rows.has_shortcuts
        numbers = np.arange(len(rows)) if has_numbers else None
        return rows.reduce(self, sample.weights, numbers, n_jobs=n_jobs)

    def on(self, place: Place) -> Reduction:
        there: Any = super().on(place)
        there.V = cast(self.V, there.dtype)
        return there

    def __call__(self, rows: Any, *beside: Any) -> Array:
        weights, numbers = beside
        total: Array = None
        for part in row_slices(n_rows(rows), self.features.cache_rows(rows, self.dtype)):
            F = self._features(take(rows, part), None if numbers is None else int(numbers[part][0]))
            U = times(F, self.V)
            if weights is not None:
                U *= cast(weights[part, None], U.dtype)
            product = cast(times(F.T, U), np.float64)
            total = product if total is None else total.__iadd__(product)
        return total

    def _features(self, rows: Any, key: int | None) -> Array:
        """Return the features of a block; those of single precision are kept by their key."""
        if self.turn is not None:
            key, self.turn = self.turn, self.turn + 1
        is_single = self.dtype == np.float32
        kept = self.store.get(key) if is_single and key is not None else None
        if kept is not None and len(kept) == n_rows(rows):
            return kept
        is_exact = not is_single and self.turn is None
        F = cast(self.features(astype(rows, np.float64) if is_exact else rows), self.dtype)
        if is_single and key is not None:
            self.store.offer(key, F)
        return F

    def combine(self, total: Array, part: Array) -> Array:
        if total is None:
            return part
        total += part
        return total


class RightSide(_FeaturePass):
    """F'[w T, w], and the sums of w, w T and w T^2: `Moments` without Z'Z.

    `origin` is subtracted from T, and `center`, a value near T, in the last two sums only. On a
    device it fills the store.
    """

    origin: Array | None = None
    center: Array | None = None

    def of(self, sample: Sample, center: Floats | None, n_jobs: int | None) -> Moments:
        """Return the moments; zt and z_sum are tensors where the pass ran on a device."""
        self.origin, self.center = sample.origin, center
        moments = sample.rows.reduce(self, sample.targets, sample.weights, n_jobs=n_jobs)
        check_values(self.features.kernel, numpy_of(moments.z_sum))
        return moments

    def on(self, place: Place) -> Reduction:
        there: Any = super().on(place)
        there.origin, there.center = (
            None if value is None else place.moved(value, np.float64)
            for value in (self.origin, self.center)
        )
        return there

    def __call__(self, rows: Any, *beside: Any) -> Moments:
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

    def combine(self, total: Moments | None, part: Moments) -> Moments:
        if total is None:
            return part
        total += part
        return total

    def finish(self, total: Moments) -> Moments:
        tt, t_sum = numpy_of(total.tt), numpy_of(total.t_sum)
        return replace(total, weight=float(total.weight), tt=tt, t_sum=t_sum)


# The system in features ---------------------------------------------------------------------------


class LandmarkSystem:
    """The system of a sample in the features of an engine, centered if there is an intercept.

    The components of the engine are not used.
    """

    def __init__(
        self, engine: Engine, sample: Sample, fit_intercept: bool, n_jobs: int | None
    ) -> None:
        self.engine, self.sample, self.n_jobs = engine, sample, n_jobs
        self.features = engine.features
        self.m, self.rows = self.features.m, sample.rows
        self.fit_intercept = fit_intercept
        self.budget: MemoryBudget = budget_for(self.rows, self.m)
        self.store = Store(self.budget.kept())
        self._chunk = max(256, min(_CHUNK_ROWS, _CHUNK_NUMBERS // self.m))
        self._copies: dict[Any, LandmarkFeatures] = {}

    @functools.cached_property
    def _sums(self) -> tuple[Moments, Floats]:
        """The moments of the rows without Z'Z, and the norm of each output about its mean."""
        center = None  # where nothing is subtracted from the targets, squares hide their spread
        if self.sample.origin is None:
            center = self.sample.rough_mean()
        sums = RightSide(self.features, self.store, np.float64).of(self.sample, center, self.n_jobs)
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

    @property
    def moments(self) -> Moments:
        return self._sums[0]

    @property
    def n(self) -> float:
        return self.moments.weight

    @property
    def spread(self) -> Floats:
        return self._sums[1]

    @property
    def right(self) -> Array:
        """F'T, of centered targets if there is an intercept."""
        sums = self.moments
        if not self.fit_intercept:
            return sums.zt
        return sums.zt - sums.z_sum[:, None] * (constant(sums.t_sum, sums.zt) / self.n)

    def intercept(self, coef: Floats) -> Floats:
        """Return the mean of what is left of each output, zeros without an intercept."""
        sums = self.moments
        if not self.fit_intercept:
            return np.zeros(coef.shape[1])
        return (sums.t_sum - numpy_of(sums.z_sum) @ coef) / self.n

    def product(self, alpha: Callable[[], float], *, single: bool) -> Callable[[Array], Array]:
        """Return V -> (F'F + n alpha K) V, centered if there is an intercept."""
        dtype = np.float32 if single else np.float64
        passes, z_sum = FeatureProducts(self.features, self.store, dtype), self.moments.z_sum

        def apply(V: Array) -> Array:
            out = passes.of(self.sample, V, self.n_jobs)
            if self.fit_intercept:
                out = out - z_sum[:, None] * ((z_sum @ V) / self.n)
            return out + (self.n * alpha()) * self.penalty(V)

        return apply

    def penalty(self, V: Array) -> Array:
        """Return K V."""
        if self.budget.holds_gram:
            return times(self._gram, V)
        return self._mixed(lambda part: times(part, cast(V, part.dtype)), V.shape[1])

    @functools.cached_property
    def _gram(self) -> Array:
        return self.gram()

    def gram(self, dtype: Any = np.float64) -> Array:
        """Return K in memory of its own."""
        if self.budget.device is None:
            return np.ascontiguousarray(self.engine.gram()[0].astype(dtype, copy=False))
        return self._mixed(lambda part: part, self.m, dtype)

    def _mixed(
        self, function: Callable[[Array], Array], width: int, dtype: Any = np.float64
    ) -> Array:
        """Return W function(features of the landmarks), some of them at a time."""
        landmarks, W = self.engine.landmarks, self.engine.weights
        features = self.features_in(dtype)
        out = self.budget.empty((n_rows(landmarks), width), dtype)
        for part in row_slices(len(out), self._chunk):
            out[part] = function(features(self.budget.moved(take(landmarks, part), dtype)))
        return out if W is None else self.budget.mixed(W, out)

    def features_in(self, dtype: Any) -> LandmarkFeatures:
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
        n, rows = self.n, self.engine.n_effective
        if self.kind.startswith("sampled"):
            size = int(self.kind.split()[1]) * self.m
            return SampledRows(lambda: self._of_sample(alpha, size))
        if self.kind == "two":
            return TwoFactors(self.gram, alpha, n, rows)
        if self.kind == "one":
            return OneFactor(lambda: self.gram(np.float32), alpha, n, rows)
        return self._sketched(alpha, rows)

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
        mean: Array = 0.0
        features, moved = self.features_in(np.float64), self.budget.moved
        for part in row_slices(size, self._chunk):
            F = features(moved(astype(source.take(chosen[part]), np.float64)))
            F = cast(F, np.float64) * moved(np.sqrt(w[part])[:, None])
            mean = mean + moved(np.sqrt(w[part])) @ F
            add_gram(out, F)
        if self.fit_intercept:
            out -= mean[:, None] * (mean / total)
        out *= self.n / total
        return out

    def _sketched(self, alpha: float, rows: int) -> Sketched:
        """Return a preconditioner by a second sketch, of landmarks in equal steps."""
        chosen = np.unique(np.linspace(0, self.m - 1, min(self.m, _SKETCH)).astype(int))
        index = self.budget.moved(chosen)
        K = self._mixed(lambda part: part[:, index], len(chosen))  # (m, r)
        L = definite_factor(lambda: 1.0 * K[index])
        Z = L.solve(K.T).T
        total = self.m * float(K[index].diagonal().mean())
        left = max(total - float((Z * Z).sum()), 0.0) / self.m
        delta = 0.5 * rows * alpha + left + 1e-7 * total / self.m
        return Sketched(cast(Z, np.float32), Z.T @ Z, delta, 2, rows / self.n)

    def squared_norm(self, r: Array) -> float | None:
        """Return the sum of r'K^-1 r over columns, None where that would take too long."""
        if self.kind in ("one", "sketch"):
            return None
        self.store.kept.clear()  # its memory is needed
        half = definite_factor(self.gram).solve(r)
        return float((half * half).sum())

    def path(
        self,
        alphas: Sequence[float],
        *,
        tol: float,
        max_iter: int,
        checkpoint: Checkpoint | None = None,
    ) -> tuple[list[tuple[Floats, Floats]], dict[str, Any]]:
        """Return coefficients of the features and intercept of each alpha, and the last report.

        Each alpha starts from the solution of the one before it. The residual in the report is the
        largest of all alphas.
        """
        b, start, steps, current, largest = self.right, None, 0, [0.0], 0.0
        spread, path, M = constant(self.spread, b), [], None
        products = [self.product(lambda: current[0], single=single) for single in (True, False)]
        for alpha in alphas:
            current[0], M = alpha, None  # its memory is needed
            M = self.preconditioner(alpha)
            run = refined(
                products, b, M, tol=tol, max_iter=max_iter, start=start, spread=spread,
                told=None if checkpoint is None else functools.partial(_keep, checkpoint),
                resumed=None if checkpoint is None else _resumed(checkpoint, b),
            )  # fmt: skip
            start, steps, largest = run.x, steps + run.steps, largest_of(largest, run.residual)
            coef = numpy_of(run.x)
            path.append((coef, self.intercept(coef)))
        report = self._report(run, M, alphas[-1]) | {
            "converged": largest <= tol, "relative_residual": largest, "tolerance": tol,
            "iterations": steps,
        }  # fmt: skip
        return path, report

    def _report(self, run: Run, M: Any, alpha: float) -> dict[str, Any]:
        """Return what is known about a solution c with residual r.

        J = (sum T^2 - c'b - c'r) / 2n, and its minimum is not below J - r'K^-1 r / (2 n^2 alpha).
        """
        n, sums, b = self.n, self.moments, self.right
        tt = sums.tt - self.fit_intercept * sums.t_sum**2 / n
        objective = (float(tt.sum()) - float((run.x * (b + run.r)).sum())) / (2.0 * n)
        gap = float((run.r * M(run.r)).sum()) / (2.0 * n)
        kept = int(self.store.bytes)
        squares = self.squared_norm(run.r) if alpha > 0 else None
        return {
            "solver": "cg",
            "exact_passes": run.checks,
            "objective": objective,
            "objective_gap": gap,
            "objective_bound": None if squares is None else squares / (2.0 * n * n * alpha),
            "preconditioner": M.name,
            "kept_bytes": kept,
            "memory_bytes": kept + self.budget.factor_bytes,
        }


_RUN = ("x", "r", "residual", "steps", "checks", "precision", "stuck")
_STATE = ("x", "r", "p", "squared", "steps")


def _keep(checkpoint: Checkpoint, run: Run, state: State) -> None:
    """Store where the solver is."""
    parts = {f"run_{name}": getattr(run, name) for name in _RUN}
    parts |= {f"state_{name}": getattr(state, name) for name in _STATE}
    checkpoint.keep(**{name: numpy_of(value) for name, value in parts.items()})


def _resumed(checkpoint: Checkpoint, like: Array) -> tuple[Run, State] | None:
    """Return what `_keep` stored in an earlier fit, if there is something."""
    stored = checkpoint.kept()
    if stored is None:
        return None
    run: dict[str, Any] = {name: stored[f"run_{name}"] for name in _RUN}
    state: dict[str, Any] = {name: stored[f"state_{name}"] for name in _STATE}
    for parts in (run, state):
        for name, value in parts.items():
            parts[name] = constant(value, like) if value.ndim else value.item()
    return Run(**run), State(**state)


@dataclass(frozen=True)
class ProductSystem(SystemOfRows):
    """A ridge by conjugate gradients in the features of an engine.

    Attributes
    ----------
    engine : Engine
        Its components are not used.
    sample, splits, options
    checkpoint : Checkpoint, optional
        Where the last solution keeps its progress.
    instead : callable, optional
        Makes the system that takes over where conjugate gradients do not converge.
    report : dict
        What the report of the fit begins with.
    """

    engine: Engine
    sample: Sample
    splits: Splits
    options: RidgeOptions
    checkpoint: Checkpoint | None = None
    instead: Callable[[], System] | None = None
    report: dict[str, Any] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)

    def _solved(
        self, sample: Sample, alphas: Sequence[float], checkpoint: Checkpoint | None = None
    ) -> tuple[LandmarkSystem, list[tuple[Floats, Floats]], dict[str, Any]]:
        options = self.options
        system = LandmarkSystem(self.engine, sample, options.fit_intercept, options.n_jobs)
        path, report = system.path(
            alphas, tol=options.tol, max_iter=options.max_iter, checkpoint=checkpoint
        )
        return system, path, report

    def path(self, alphas: Sequence[float], train: Ints, held: Ints) -> Floats:
        sample, order = self.sample, np.argsort(alphas)[::-1]  # each starts from the one before
        part = replace(sample.take(train), groups=None, n_groups=1)
        _, path, report = self._solved(part, [alphas[k] for k in order])
        self.reports.append(report)
        coef = np.hstack([c for c, _ in path])
        offset = np.hstack([b if sample.origin is None else b + sample.origin for _, b in path])
        projection = Projection(self.engine.features, coef, offset, np.float64)
        rows, tail = sample.rows.subset(held), (coef.shape[1],)
        fitted = rows.collect(projection, tail, np.float64, self.options.n_jobs)
        return np.stack(np.hsplit(fitted, len(path)))[np.argsort(order)]

    def solve(self, alpha: float) -> Fit:
        system, [(matrix, intercept)], report = self._solved(self.sample, [alpha], self.checkpoint)
        # the direct solver has three m x m matrices
        can_fall_back = self.instead is not None and system.budget.holds(24.0 * system.m**2)
        if can_fall_back and not report["converged"]:
            system.store.kept.clear()  # its memory is needed
            assert self.instead is not None
            raise Unsolved(self.instead(), report)
        warn_unless_converged(report, self.options.max_iter)
        return Fit.in_span(
            self.engine, matrix, intercept, ChosenAlpha(alpha), report=self.report | report,
            origin=self.sample.origin,
        )  # fmt: skip
