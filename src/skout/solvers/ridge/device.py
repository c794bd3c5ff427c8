"""The direct solution on a device: kernel matrix, factors, moments and solve stay there.

It is a ridge with one alpha: only landmarks go to the device, and only coefficients come back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._numerics.arrays import namespace
from ..._numerics.factors import add_gram, cholesky, inverse_corner
from ..._numerics.types import Array, Floats
from ..._numerics.validation import check_total_weight
from ...basis import Engine
from ...basis.passes import Sample, allowed_square
from ...rows import Place, Reduction
from ..folds import ChosenAlpha, Search
from .base import Fit, RidgeOptions, System, Unsolved
from .products import LandmarkSystem

__all__ = ["LEAST", "DeviceSystem"]

# Fewer landmarks than this are as quick on the host, which keeps the moments.
LEAST = 2048
# Features that may be whitened row by row; more where that is still a small part of the work.
_WHITENED = (0, 32, 64, 128, 256, 512, 1024, 2048)
# Estimated loss of precision that is allowed, by the precision of the rows.
_LOSS = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-8}
_POWER_STEPS = 6


@dataclass(frozen=True)
class DeviceSystem(System):
    """A ridge of one alpha, solved on a device by factors of all landmarks without pivots.

    Where landmarks depend on each other, or rounding spoils the solution, the system that `instead`
    makes takes over: the host, which chooses pivots, does better.
    """

    engine: Engine
    sample: Sample
    options: RidgeOptions
    instead: Callable[[], System]
    report: dict[str, Any] = field(default_factory=dict)

    def choice(self, search: Search) -> ChosenAlpha:
        return ChosenAlpha(search.alphas[0])

    def solve(self, alpha: float) -> Fit:
        options = self.options
        system = LandmarkSystem(self.engine, self.sample, options.fit_intercept, options.n_jobs)
        solution = _solved(system, alpha)
        if solution is None:
            raise Unsolved(self.instead())
        matrix, intercept, report = solution
        return Fit.in_span(
            self.engine, matrix, intercept, ChosenAlpha(alpha), report=self.report | report,
            origin=self.sample.origin,
        )  # fmt: skip


def _solved(system: LandmarkSystem, alpha: float) -> tuple[Floats, Floats, dict[str, Any]] | None:
    """Return coefficients of the features, the intercept and a report; None where it goes wrong.

    (G'G + n alpha P) B = G'T in features G of which the first are whitened, see
    `partial_whitening`.
    """
    rows, m = system.rows, system.m
    system.budget.require(24.0 * m * m, f"Three matrices of {m} landmarks", 'solver="cg"')
    K = system.gram()
    factor = cholesky(K.clone())
    torch, eps = namespace(K), float(np.finfo(np.float64).eps)
    single = rows.precision == np.float32
    noise = max(np.finfo(np.float32).eps if single else 0.0, 8 * m * eps)
    if factor is None or factor.smallest() ** 2 <= noise * float(torch.diagonal(K).max()):
        return None
    L = factor.L.tril_()
    size = _whitened_size(L, system.engine.n_effective * alpha, rows.precision)
    first = inverse_corner(L, size).T.contiguous()  # A^-T
    grams = _Grams(system, first, L[size:, :size].T.contiguous())
    sums = rows.reduce(grams, system.sample.targets, system.sample.weights)
    gg, cross, right = sums
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
    return coef.cpu().numpy(), intercept.cpu().numpy(), report


def _whitened_size(L: Array, shift: float, dtype: np.dtype) -> int:
    """Return how many features to whiten in each row; all of them where fewer lose too much."""
    m, smallest = len(L), float(namespace(L).diagonal(L).min()) ** 2
    most = allowed_square(smallest, shift, np.float64, 1.0, _LOSS[dtype])
    for size in _WHITENED:
        if 4 * size <= m and _largest_eigenvalue(L[size:, size:]) ** 2 <= most:
            return size
    return m


def _largest_eigenvalue(D: Array) -> float:
    """Estimate the largest eigenvalue of D D' by power iteration."""
    v, value = namespace(D).ones_like(D[:, 0]), 0.0
    for _ in range(_POWER_STEPS):
        v = v / v.norm()
        w = D @ (D.T @ v)
        value, v = float(v @ w), w
    return value


class _Grams(Reduction):
    """The sums G'G (lower triangle), G'[T, 1] and [T, 1]'[T, 1] on a device, in float64."""

    features: Callable[[Any], Array]
    origin: Array

    def __init__(self, system: LandmarkSystem, first: Array, share: Array) -> None:
        self.system, self.first, self.share = system, first, share
        self.width = system.m

    def on(self, place: Place) -> Reduction:
        sample = self.system.sample
        there = copy.copy(self)
        there.features = self.system.features_in(np.float64)
        there.origin = 0.0 if sample.origin is None else place.moved(sample.origin, np.float64)
        return there

    def __call__(self, rows: Any, *beside: Any) -> tuple[Array, Array]:
        targets, weights = beside
        torch, s = namespace(self.first), len(self.first)
        G, T = self.features(rows), targets.to(torch.float64) - self.origin
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
