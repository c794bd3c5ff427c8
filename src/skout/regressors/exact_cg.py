"""Exact kernel ridge regression without its kernel matrix: conjugate gradients over tiles of K.

With C = diag(sqrt w) and P the projection that centres weighted rows,

    (P C K C P + n alpha I) u = P C T,      c = C u,

is preconditioned by a sketch of the rows. Tiles of K are kept in single precision as far as memory
allows, and computed again where not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._numerics.arrays import astype, cast, n_rows, numpy_of, row_slices, take, times
from .._numerics.factors import add_gram
from .._numerics.threads import map_blocks
from ..basis.features import LandmarkFeatures, check_values
from ..basis.products import Store
from ..solvers.cg import largest_of, refined
from ..solvers.cost import sketch_rank
from ..solvers.preconditioners import Sketched, definite_factor
from .memory import Room

__all__ = ["Centred", "exact_by_cg", "exact_on_card", "tile_bytes"]

# Rows and columns of a tile of K, here and on a card.
_TILE, _CARD_TILE = 1024, 16384
_SEED = 0
# What is added to a diagonal where rounding hides that a system is positive definite.
_EXACT_LIFTS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8)


def tile_bytes(n: int) -> float:
    """Return the bytes that work on a tile of n rows takes on a card."""
    return 3.0 * 8.0 * min(n, _CARD_TILE) ** 2


class _Tiles:
    """V -> K V from the tiles on and below the diagonal of K, each of which is used twice."""

    def __init__(self, kernel: Any, rows: Any, room: Room, n_jobs: int | None) -> None:
        self.room, self.n_jobs, self.n = room, n_jobs, n_rows(rows)
        self.parts = list(row_slices(self.n, _CARD_TILE if room.on_card else _TILE))
        if room.on_card:  # raise where the kernel does not run there
            LandmarkFeatures(kernel, take(rows, slice(0, 2))).on(room.device, np.float64)
        self.kernel, self.rows = kernel, rows
        self.store = Store(0)
        self._ready: dict[Any, Any] = {}

    def _prepared(self, single: bool) -> tuple[list[Any], list[Any]]:
        """Return the stripes of rows, and the features against each of them."""
        if single not in self._ready:
            dtype = np.float32 if single else np.float64
            rows = [astype(take(self.rows, part), dtype) for part in self.parts]
            rows = [self.room.moved(part, dtype) for part in rows]
            self._ready[single] = rows, [LandmarkFeatures(self.kernel, part) for part in rows]
        return self._ready[single]

    def product(self, V: Any, *, single: bool) -> Any:
        """Return K V in double precision."""
        vectors = cast(V, np.float32) if single else V
        out = 0.0 * V

        def stripe(i: int) -> Any:
            rows, features = self._prepared(single)
            total = 0.0 * V[: self.parts[i].stop]
            for j in range(i + 1):
                K = self._tile(i, j, rows, features, single)
                here, there = self.parts[i], self.parts[j]
                total[here] += cast(times(K, vectors[there]), np.float64)
                if i != j:
                    total[there] += cast(times(K.T, vectors[here]), np.float64)
            return total

        self._prepared(single)
        numbers = range(len(self.parts))
        jobs = 1 if self.room.on_card else self.n_jobs
        for part in map_blocks(stripe, numbers, n_jobs=jobs):
            out[: len(part)] += part
        return out

    def _tile(self, i: int, j: int, rows: Any, features: Any, single: bool) -> Any:
        key = i * len(self.parts) + j
        kept = self.store.get(key) if single else None
        if kept is not None:
            return kept
        K = features[j](rows[i])
        if single:
            K = cast(K, np.float32)
            self.store.offer(key, K)
        return K

    def sketch(self, scale: Any, size: int) -> tuple[Any, Any, float]:
        """Return Z with Z Z' about C K C, from some of the rows; Z'Z; and what a row misses."""
        chosen = np.sort(np.random.default_rng(_SEED).choice(self.n, size, replace=False))
        landmarks = astype(take(self.rows, chosen), np.float64)
        features = LandmarkFeatures(self.kernel, self.room.moved(landmarks, np.float64))
        L = definite_factor(lambda: _full(features))
        Z = self.room.empty((self.n, size), np.float32)
        gram = 0.0 * L.L
        for some in row_slices(self.n, max(256, 2**27 // size if self.room.on_card else 1024)):
            rows = astype(take(self.rows, some), np.float64)
            F = features(self.room.moved(rows, np.float64))
            part = L.solve(cast(F, np.float64).T).T * scale[some]
            add_gram(gram, part)
            Z[some] = cast(part, np.float32)
        total = float((scale[:, 0] ** 2).sum()) * float(self.kernel.diag(landmarks).mean())
        trace = float(gram.diagonal().sum())
        check_values(self.kernel, np.array(trace))
        return Z, gram, (max(total - trace, 0.0) + 1e-9 * total) / self.n


class Centred:
    """The system (P C K C P + n alpha I) u = P C T of `dual_ridge`, of distinct rows."""

    def __init__(
        self,
        kernel: Any,
        rows: Any,
        targets: np.ndarray,
        weights: np.ndarray,
        fit_intercept: bool,
        room: Room,
        n_jobs: int | None,
    ) -> None:
        self.n, self.fit_intercept, self.room = float(weights.sum()), fit_intercept, room
        self.C = room.moved(np.sqrt(weights)[:, None], np.float64)
        self.T = room.moved(np.asarray(targets, dtype=np.float64), np.float64)
        self.unit = self.C / np.sqrt(self.n)
        self.tiles = _Tiles(kernel, rows, room, n_jobs)
        self.right = self._projected(self.C * self.T)
        self.spread = (self.right**2).sum(0) ** 0.5  # of the targets about their means, (q,)
        if not fit_intercept:
            self.right = self.C * self.T

    def _projected(self, V: Any) -> Any:
        return V - self.unit * (self.unit.T @ V)

    def centred(self, V: Any) -> Any:
        """Return P V."""
        return self._projected(V) if self.fit_intercept else V

    def system(self, single: bool, shift: float) -> Callable[[Any], Any]:
        """Return V -> (P C K C P + shift I) V."""

        def product(V: Any) -> Any:
            KV = self.tiles.product(self.C * self.centred(V), single=single)
            return self.centred(self.C * KV) + shift * V

        return product

    def inverse(self, M: Sketched) -> Callable[[Any], Any]:
        return lambda r: self.centred(M(self.centred(r)))

    def found(self, c: Any, product: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercept, the weighted mean of T - K c; 0 if there is none."""
        intercept = 0.0 * self.T[0]
        if self.fit_intercept:
            intercept = (self.C * self.C * (self.T - product(c))).sum(0) / self.n
        return numpy_of(c), numpy_of(intercept)


def exact_by_cg(
    problem: Centred, alphas: list[float], *, tol: float, max_iter: int, must_converge: bool = False
) -> tuple[list[tuple[np.ndarray, np.ndarray]], dict[str, Any]]:
    """Return coefficients and intercept of each alpha, and the report of the last one.

    Each alpha starts from the solution of the one before it. The residual in the report is the
    largest of all of them; if they `must_converge`, the first that does not is the last one.
    """
    tiles, n, b = problem.tiles, problem.n, problem.right
    start, total, found, largest = None, 0, [], 0.0
    Z, gram, missed = tiles.sketch(problem.C, sketch_rank(tiles.n, problem.room.on_card))
    tiles.store.room = max(0, problem.room.kept() - 4 * int(np.prod(Z.shape)))
    for alpha in alphas:
        products = [problem.system(single, n * alpha) for single in (True, False)]
        M = problem.inverse(Sketched(Z, gram, n * alpha + missed))
        settings: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "plain": True}
        run = refined(products, b, M, start=start, spread=problem.spread, **settings)
        start, total, largest = run.x, total + run.steps, largest_of(largest, run.residual)
        if must_converge and not largest <= tol:
            break
        found.append(problem.found(problem.C * run.x, partial(tiles.product, single=False)))
    report = _report(run, b, n, alpha) | {
        "converged": largest <= tol,
        "relative_residual": largest,
        "tolerance": tol,
        "iterations": total,
        "preconditioner": f"sketch of {Z.shape[1]} rows",
        "kept_bytes": int(tiles.store.bytes),
        "memory_bytes": int(tiles.store.bytes + 4 * np.prod(Z.shape)),
    }
    return found, report


def exact_on_card(
    problem: Centred, alphas: list[float]
) -> tuple[list[tuple[np.ndarray, np.ndarray]], dict[str, Any]]:
    """Return the same by a factor of P C K C P + n alpha I, which lies on a card."""
    C, unit, n, b = problem.C, problem.unit, problem.n, problem.right
    rows = problem.room.moved(astype(problem.tiles.rows, np.float64), np.float64)
    features = LandmarkFeatures(problem.tiles.kernel, rows)

    def system() -> Any:
        A = _full(features).mul_(C).mul_(C.T)
        if problem.fit_intercept:
            A -= unit * (unit.T @ A)
            A -= (A @ unit) * unit.T
        return A

    found = []
    for alpha in alphas:
        factor = definite_factor(system, n * alpha, _EXACT_LIFTS)
        c = C * factor.solve_transposed(factor.solve(b))
        if problem.fit_intercept:
            c = c - C * unit * (unit.T @ (c / C))
        found.append(problem.found(c, lambda c: _full(features) @ c))
    return found, {"solver": "direct", "converged": True, "memory_bytes": 8 * len(C) ** 2}


def _full(features: LandmarkFeatures) -> Any:
    """Return the kernel matrix of landmarks, where they are, in float64."""
    K = cast(features(features.landmarks), np.float64)
    check_values(features.kernel, numpy_of(K.sum()))
    return K


def _report(run: Any, b: Any, n: float, alpha: float) -> dict[str, Any]:
    """Return what is known about u with residual r: the duality gap is |r|^2 / 2n.

    J = |r + n alpha u|^2 / 2n + alpha/2 u'(b - r - n alpha u).
    """
    u, r = run.x, run.r
    rest = r + n * alpha * u
    objective = float((rest * rest).sum()) / (2 * n) + 0.5 * alpha * float((u * (b - rest)).sum())
    bound = float((r * r).sum()) / (2 * n)
    return {
        "solver": "cg", "exact_passes": run.checks, "objective": objective,
        "objective_gap": bound, "objective_bound": bound,
    }  # fmt: skip
