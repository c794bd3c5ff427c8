"""Kernel ridge regression by conjugate gradients: passes over the rows instead of m x m moments.

The system of `KernelRidge` in the features F = W k(landmarks, x) of all rows,

    (F'F + n alpha K) c = F'T,      K = W k(landmarks, landmarks) W',

is solved by products only. A pass over the rows makes one for all outputs.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._numerics.arrays import astype, cast, constant, n_rows, numpy_of, row_slices, take, times
from .._numerics.factors import add_gram
from .._numerics.validation import check_total_weight
from ..basis import Engine
from ..basis.features import LandmarkFeatures
from ..basis.passes import Sample
from ..basis.products import FeatureProducts, RightSide, Store
from ..solvers.cg import Run, State, largest_of, refined
from ..solvers.cost import preconditioner_costs
from ..solvers.moments import Moments
from ..solvers.preconditioners import (
    OneFactor,
    SampledRows,
    Sketched,
    TwoFactors,
    definite_factor,
)
from .memory import Room, room_for

__all__ = ["LandmarkSystem", "Unconverged", "solved", "warn_of_paths", "warn_unless_converged"]

# Rows of the second sketch, of which a preconditioner is made where m^2 numbers are too many.
_SKETCH = 4000
# Rows whose features are computed at a time, and their numbers.
_CHUNK_ROWS, _CHUNK_NUMBERS = 8192, 2**28
# Of the rows that make a preconditioner: which they are does not change the solution.
_SEED = 0


class LandmarkSystem:
    """The system of a sample in the features of a basis, centred if there is an intercept.

    The basis may be fitted lazily: its components are not used.
    """

    def __init__(
        self, engine: Engine, sample: Sample, fit_intercept: bool, n_jobs: int | None
    ) -> None:
        self.engine, self.sample, self.n_jobs = engine, sample, n_jobs
        self.features = engine.features
        self.m, self.rows = self.features.m, sample.rows
        self.fit_intercept = fit_intercept
        self.room: Room = room_for(self.rows, self.m)
        self.store = Store(0)
        self._chunk = max(256, min(_CHUNK_ROWS, _CHUNK_NUMBERS // self.m))
        self._copies: dict[Any, LandmarkFeatures] = {}

    def moments(self) -> Moments:
        """Pass over the rows for the right side."""
        self.store.room = self.room.kept()
        center = None  # where nothing is subtracted from the targets, squares hide their spread
        if self.sample.origin is None:
            center = self.sample.rough_mean()
        right = RightSide(self.features, self.store, self.sample.origin, center)
        found = right.of(self.rows, self.sample.targets, self.sample.weights, self.n_jobs)
        check_total_weight(found.weight)
        if np.isnan(found.tt).any():
            raise ValueError(
                "y has missing values, which conjugate gradients take only of y in memory: give "
                'y as an array, or solver="direct".'
            )
        self.n, self.z_sum = found.weight, found.z_sum
        self.spread = np.sqrt(np.maximum(found.tt - found.t_sum**2 / self.n, 0.0))
        if center is None:
            return found
        t_sum = found.t_sum + self.n * center
        return replace(found, t_sum=t_sum, tt=found.tt + center * (found.t_sum + t_sum))

    def right_side(self, found: Moments) -> Any:
        """Return F'T, of centred targets if there is an intercept."""
        if not self.fit_intercept:
            return found.zt
        return found.zt - self.z_sum[:, None] * (constant(found.t_sum, found.zt) / self.n)

    def product(self, alpha: Callable[[], float], *, single: bool) -> Callable[[Any], Any]:
        """Return V -> (F'F + n alpha K) V, centred if there is an intercept."""
        passes = FeatureProducts(self.features, self.store, single=single)

        def apply(V: Any) -> Any:
            out = passes.of(self.rows, self.sample.weights, V, self.n_jobs)
            if self.fit_intercept:
                out = out - self.z_sum[:, None] * ((self.z_sum @ V) / self.n)
            return out + (self.n * alpha()) * self.penalty(V)

        return apply

    def penalty(self, V: Any) -> Any:
        """Return K V."""
        if self.room.holds_gram:
            return times(self._gram, V)
        return self._mixed(lambda part: times(part, cast(V, part.dtype)), V.shape[1])

    @functools.cached_property
    def _gram(self) -> Any:
        return self.gram()

    def gram(self, dtype: Any = np.float64) -> Any:
        """Return K in memory of its own."""
        if not self.room.on_card:
            return np.ascontiguousarray(self.engine.gram()[0].astype(dtype, copy=False))
        return self._mixed(lambda part: part, self.m, dtype)

    def _mixed(self, function: Callable[[Any], Any], width: int, dtype: Any = np.float64) -> Any:
        """Return W function(features of the landmarks), some of them at a time."""
        landmarks, W = self.engine.landmarks, self.engine.weights
        there = self._there(dtype)
        out = self.room.empty((n_rows(landmarks), width), dtype)
        for some in row_slices(len(out), self._chunk):
            out[some] = function(there(self.room.moved(take(landmarks, some), dtype)))
        return out if W is None else self.room.mixed(W, out)

    def _there(self, dtype: Any) -> LandmarkFeatures:
        if not self.room.on_card:
            return self.features
        dtype = np.dtype(dtype)
        if dtype not in self._copies:
            self._copies[dtype] = self.features.on(self.room.device, dtype)
        return self._copies[dtype]

    def preconditioner(self, alpha: float) -> Any:
        """Return M^-1: the kind that makes the whole cheapest, of those that memory allows."""
        costs = self.room.costs(self.rows, self.sample.targets.shape[1], preconditioner_costs)
        self.kind = min(costs, key=lambda name: costs[name])
        n, rows = self.n, self.engine.n_effective
        if self.kind.startswith("sampled"):
            size = int(self.kind.split()[1]) * self.m
            return SampledRows(lambda: self._of_sample(alpha, size))
        if self.kind == "two":
            return TwoFactors(self.gram, alpha, n, rows)
        if self.kind == "one":
            return OneFactor(lambda: self.gram(np.float32), alpha, n, rows)
        return self._sketched(alpha, rows)

    def _of_sample(self, alpha: float, size: int) -> Any:
        """Return (n / s) F_s'F_s + n alpha K of some rows, centred if there is an intercept."""
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
        features = self._there(np.float64)
        for some in row_slices(size, self._chunk):
            part = features(self.room.moved(astype(source.take(chosen[some]), np.float64), None))
            part = cast(part, np.float64) * self.room.moved(np.sqrt(w[some])[:, None], None)
            mean = mean + self.room.moved(np.sqrt(w[some]), None) @ part
            add_gram(out, part)
        if self.fit_intercept:
            out -= mean[:, None] * (mean / total)
        out *= self.n / total
        return out

    def squared_norm(self, r: Any) -> float | None:
        """Return the sum of r'K^-1 r over columns, None where that would take too long."""
        if self.kind in ("one", "sketch"):
            return None
        self.store.kept.clear()  # its memory is needed
        half = definite_factor(self.gram).solve(r)
        return float((half * half).sum())

    def _sketched(self, alpha: float, rows: int) -> Sketched:
        """Return a preconditioner by a second sketch, of landmarks in equal steps."""
        chosen = np.unique(np.linspace(0, self.m - 1, min(self.m, _SKETCH)).astype(int))
        index = self.room.moved(chosen, None)
        K = self._mixed(lambda part: part[:, index], len(chosen), np.float64)  # (m, r)
        L = definite_factor(lambda: 1.0 * K[index])
        Z = L.solve(K.T).T
        total = self.m * float(K[index].diagonal().mean())
        left = max(total - float((Z * Z).sum()), 0.0) / self.m
        delta = 0.5 * rows * alpha + left + 1e-7 * total / self.m
        return Sketched(cast(Z, np.float32), Z.T @ Z, delta, 2, rows / self.n)


def solved(
    system: LandmarkSystem,
    alphas: list[float],
    *,
    tol: float,
    max_iter: int,
    checkpoint: Any = None,
    each: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return coefficients of the features, the intercept and the report, for the last alpha.

    Each alpha starts from the solution of the one before it, and `each` is given every solution.
    The residual in the report is the largest of all alphas.
    """
    found, M = system.moments(), None
    b, start, total, now, largest = system.right_side(found), None, 0, [0.0], 0.0
    spread = constant(system.spread, b)
    products = [system.product(lambda: now[0], single=single) for single in (True, False)]
    for alpha in alphas:
        now[0], M = alpha, None  # its memory is needed
        M = system.preconditioner(alpha)
        run = refined(
            products, b, M, tol=tol, max_iter=max_iter, start=start, spread=spread,
            told=None if checkpoint is None else functools.partial(_keep, checkpoint),
            resumed=None if checkpoint is None else _resumed(checkpoint, b),
        )  # fmt: skip
        start, total, largest = run.x, total + run.steps, largest_of(largest, run.residual)
        c = numpy_of(run.x)
        intercept = np.zeros(c.shape[1])
        if system.fit_intercept:
            intercept = (found.t_sum - numpy_of(system.z_sum) @ c) / system.n
        if each is not None:
            each(c, intercept)
    centred = found.tt - system.fit_intercept * found.t_sum**2 / system.n
    report = _report(system, run, M, alphas[-1], b, centred) | {
        "converged": largest <= tol, "relative_residual": largest, "tolerance": tol,
        "iterations": total,
    }  # fmt: skip
    return c, intercept, report


_RUN = ("x", "r", "residual", "steps", "checks", "precision", "stuck")
_STATE = ("x", "r", "p", "squared", "steps")


def _keep(checkpoint: Any, run: Run, state: State) -> None:
    """Store where the solver is."""
    parts = {f"run_{name}": getattr(run, name) for name in _RUN}
    parts |= {f"state_{name}": getattr(state, name) for name in _STATE}
    checkpoint.keep(**{name: numpy_of(value) for name, value in parts.items()})


def _resumed(checkpoint: Any, like: Any) -> tuple[Run, State] | None:
    """Return what `_keep` stored in an earlier fit, if there is something."""
    stored = checkpoint.kept()
    if stored is None:
        return None
    run = {name: stored[f"run_{name}"] for name in _RUN}
    state = {name: stored[f"state_{name}"] for name in _STATE}
    for parts in (run, state):
        for name, value in parts.items():
            parts[name] = constant(value, like) if value.ndim else value.item()
    return Run(**run), State(**state)


def _report(
    system: LandmarkSystem, run: Run, M: Any, alpha: float, b: Any, tt: np.ndarray
) -> dict[str, Any]:
    """Return what is known about a solution c with residual r.

    J = (sum T^2 - c'b - c'r) / 2n, and its minimum is not below J - r'K^-1 r / (2 n^2 alpha).
    """
    n = system.n
    objective = (float(tt.sum()) - float((run.x * (b + run.r)).sum())) / (2.0 * n)
    gap = float((run.r * M(run.r)).sum()) / (2.0 * n)
    squares = system.squared_norm(run.r) if alpha > 0 else None
    bound = None if squares is None else squares / (2.0 * n * n * alpha)
    return {
        "solver": "cg",
        "exact_passes": run.checks,
        "objective": objective,
        "objective_gap": gap,
        "objective_bound": bound,
        "preconditioner": M.name,
        "kept_bytes": int(system.store.bytes),
        "memory_bytes": int(system.store.bytes) + system.room.factor_bytes,
    }


class Unconverged(ArithmeticError):
    """Conjugate gradients missed their tolerance, and the direct solver can take over."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__("conjugate gradients did not converge")
        self.report = report


def warn_unless_converged(report: dict[str, Any], max_iter: int, where: str = "") -> None:
    """Say that the tolerance was not reached, what that may cost, and what to do."""
    if report["converged"]:
        return
    warnings.warn(
        f"conjugate gradients{where} ended after {report['iterations']} steps, above tol="
        f"{report['tolerance']:.2g}: predictions of the training rows may still change by about "
        f"{report['relative_residual']:.2g} standard deviations of y, in the root mean square. "
        f'Raise max_iter (now {max_iter}), alpha or tol, or use solver="direct".',
        ConvergenceWarning,
        stacklevel=2,
    )


def warn_of_paths(reports: list[dict[str, Any]], max_iter: int) -> None:
    """Say once that some of the fits that chose alpha did not converge: the worst of them."""
    missed = [report for report in reports if not report["converged"]]
    if missed:
        worst = max(
            missed, key=lambda report: np.nan_to_num(report["relative_residual"], nan=np.inf)
        )
        warn_unless_converged(
            worst,
            max_iter,
            f" of a split that alpha is chosen on, {len(missed)} of {len(reports)},",
        )
