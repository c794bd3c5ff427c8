"""Any convex loss in coordinates, solved to a certificate; the problem is in `problem.py`.

The method is Newton's, with an exact line search, which costs no pass over Z. A loss with kinks is
smoothed: each rise of its slope from a to b at a kink k becomes

    (a + b)/2 + (b - a)/2 (s - k)/rho,     rho = sqrt((s - k)^2 + w^2),

of a width w that shrinks from step to step. The derivative of that would make poor Newton steps;
as Chan, Golub and Mulet did for total variation, one factor (s - k)/rho in it is replaced by the
slope that the step before predicted. Those predictions also are the G of the certificate: they
satisfy the linear equation of the dual exactly, but for what has to be clipped to its domain.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from .._numerics.arrays import constant, flatnonzero, namespace, row_dots, sqrt, zeros
from .._numerics.threads import held_blas
from .._numerics.typing import Array
from ..losses import Curvature, Loss
from .newton import newton_direction
from .problem import ConvexProblem

# Numbers of steps and passes below are those of benchmarks/constants.py: 143 steps for 21 fits.
# Width of the smoothing: at first, in units of the spread of the residuals (half or double takes 1
# and 5 steps more), and from a start that was given (on paths half takes 12 % more Newton matrices,
# double 11 %).
_FIRST_WIDTH = 1.0
_NEXT_WIDTH = 0.1
# Its decrease (0.2 takes 271 steps, 0.6 195), the least step length after which it decreases (0.3
# takes 148 steps, 0.9 149), and the least width, in units of tol times the objective: what is left
# of the smoothing must not show in the gap.
_DECREASE = 0.4
_GOOD_STEP = 0.6
_LEAST_WIDTH = 0.1
# Rows whose curvature is below this share of the mean are left out of a Newton step: all of them
# together have less than this share of the total, and half or double changes no more than one step.
_NEGLIGIBLE = 0.05
_MANY_ROWS = 10  # for each coordinate, for this to be safe
# The dual is looked at when part of the gap, which costs no pass over Z, is below this times tol:
# below 1 it would miss the end, and double costs 2 % more products with Z'.
_NEAR = 5.0
# P - D is taken for 0 below this times the loss of predicting 0: some fifty roundings of float64.
_ROUNDING = 1e-14
# A smooth problem that takes more steps than this starts again, more carefully: most take about
# seven (benchmarks/constants.py), and those that resist would go on to max_iter.
_PATIENCE = 30
# It then follows a path of penalties down to the wanted one: so many, each so many times the next,
# from 3^18, about 4e8 times as large, where the solution is nearly 0.
_PATH_LENGTH, _PATH_RATIO = 18, 3.0
# With three times as many rows as this many for each unknown, a sample of these finds where to
# start: that takes 60 Newton matrices of 12,000 rows with 60 landmarks to 42, double to 46.
_START_ROWS = 30


@dataclass
class Solution:
    """A minimizer and its certificate.

    Attributes
    ----------
    theta : array of shape (p, r)
    intercept : array of shape (d,)
    primal, dual : float
        The optimum lies between them.
    floor : float
        A difference of the two that may be rounding.
    n_iter : int
        Newton steps.
    F : array of shape (n, d), optional
        The predictions that `primal` is of.
    """

    theta: Array
    intercept: Array
    primal: float = float("inf")
    dual: float = 0.0  # no loss is negative
    floor: float = 0.0
    n_iter: int = 0
    F: Any = None

    @property
    def gap(self) -> float:
        """(P - D) / D, a bound on how far P is above the optimum, relative to it; 0 at rounding."""
        gap = max(self.primal - self.dual, 0.0)
        if gap <= self.floor:
            return 0.0
        return gap / self.dual if self.dual > 0.0 else float("inf")


def solve_convex(
    problem: ConvexProblem,
    *,
    tol: float = 1e-4,
    max_iter: int = 200,
    start: Solution | None = None,
    verbose: bool = False,
) -> Solution:
    """Minimize P until the relative duality gap is at most `tol`.

    Parameters
    ----------
    problem : Problem
    tol : float, default 1e-4
    max_iter : int, default 200
        Most Newton steps.
    start : Solution, optional
        Where to begin, e.g. the solution for another alpha.
    verbose : bool, default False

    Returns
    -------
    solution : Solution
        Whose `gap` says whether `tol` was reached.
    """
    if start is None:
        start = _rough_solution(problem, max_iter)
    patience = min(max_iter, _PATIENCE) if problem.loss.smooth else max_iter
    solution = _iterate(problem, tol, patience, start, verbose)
    if solution.gap <= tol or solution.n_iter >= max_iter:
        return solution
    near = _careful_start(problem, max_iter - solution.n_iter)
    n_iter = solution.n_iter + near.n_iter
    again = _iterate(problem, tol, max_iter - n_iter, near, verbose)
    best = min(solution, again, key=lambda solution: solution.primal)
    best.dual, best.n_iter = max(solution.dual, again.dual), n_iter + again.n_iter
    return best


def _iterate(
    problem: ConvexProblem, tol: float, max_iter: int, start: Solution | None, verbose: bool = False
) -> Solution:
    with held_blas(), tqdm(total=max_iter, desc="newton", disable=not verbose) as bar:
        newton = _Newton(problem, start, tol)
        while newton.best.gap > tol and newton.best.n_iter < max_iter:
            newton.step()
            bar.update()
            bar.set_postfix(gap=f"{newton.best.gap:.1e}")
        return newton.finish()


def _rough_solution(problem: ConvexProblem, max_iter: int) -> Solution | None:
    """Solve the problem of evenly spaced rows, if there are many more than unknowns."""
    n, p = problem.Z.shape
    few = _START_ROWS * (p + 1)
    if n < 3 * few:
        return None
    used = flatnonzero(problem.weights)
    sample = problem.take(used[:: max(1, len(used) // few)])
    return _iterate(sample, 0.03, min(max_iter, 30), None)


def _careful_start(problem: ConvexProblem, max_iter: int) -> Solution:
    """Return a start for a smooth problem that resists: by the loss's limit, or a path of alpha."""
    limit = problem.loss.limit
    if limit is not None:
        loss, slope = limit
        rough = replace(problem, loss=loss, alpha=problem.alpha / slope)
        return _iterate(rough, 1e-3, max_iter, None)
    solution: Solution | None = None
    n_iter = 0
    for k in range(_PATH_LENGTH, 0, -1):
        part = replace(problem, alpha=problem.alpha * _PATH_RATIO**k)
        solution = _iterate(part, 0.1, min(10, max_iter - n_iter), solution)
        n_iter += solution.n_iter
    assert solution is not None
    solution.n_iter = n_iter
    return solution


class _Newton:
    """State of Newton's method: Theta, b, the predictions F, and the best solution so far."""

    def __init__(self, problem: ConvexProblem, start: Solution | None, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.smoothing = _Smoothing(problem.loss)
        self.many = len(problem.Y) > _MANY_ROWS * problem.Z.shape[1]
        if start is None:
            d = problem.Y.shape[1]
            self.theta, self.intercept = zeros(problem.shape, problem.Y), zeros((d,), problem.Y)
            if problem.fit_intercept:
                self.intercept = problem.weights @ problem.Y
            self.F = zeros(problem.Y.shape, problem.Y) + self.intercept
        else:
            self.theta, self.intercept = start.theta, start.intercept
            self.F = problem.predict(self.theta, self.intercept)
        zero = problem.weights @ problem.loss.value(0.0 * problem.Y, problem.Y)
        self.best = Solution(self.theta, self.intercept, F=self.F, floor=_ROUNDING * float(zero))
        spread = float((problem.weights @ (self.F - problem.Y) ** 2).max()) ** 0.5
        spread = max(spread, float(np.finfo(np.float64).tiny) ** 0.5)  # 0 where F = Y
        self.width = spread * (_FIRST_WIDTH if start is None else _NEXT_WIDTH)
        self.G, self.R = self._gradient()
        self._observe(self.G, self.R)

    def _gradient(self) -> tuple[Array, Array]:
        """Return the gradient of the smoothed loss in F, and pulled back to Theta."""
        G = self.smoothing.gradient(self.F, self.problem.Y, self.width)
        return G, self.problem.pull(G)

    def step(self) -> None:
        """Make one Newton step, and certify where it leads."""
        problem, smoothing = self.problem, self.smoothing
        bend = smoothing.curvature(self.F, problem.Y, self.width)
        grad = self.R + problem.alpha * self.theta
        d_theta, d_b = newton_direction(problem, bend, grad, problem.weights @ self.G)
        dF = problem.predict(d_theta, d_b)
        length = self._line_search(dF, d_theta)
        predicted = smoothing.predict(self.G, bend, dF, self.F, problem.Y)
        self.theta = self.theta + length * d_theta
        self.intercept = self.intercept + length * d_b
        self.F = self.F + length * dF
        self.best.n_iter += 1
        if problem.loss.smooth:
            self.G, self.R = self._gradient()
            self._observe(self.G, self.R)
            return
        self._observe(predicted)
        smoothing.thin = self.many and length > _GOOD_STEP
        # a step far below the width says nothing by its length
        if length > _GOOD_STEP or abs(dF).max() <= 0.01 * self.width:
            least = _LEAST_WIDTH * self.tol * self.best.primal
            self.width = max(_DECREASE * self.width, min(self.width, least))
        if self.best.gap > self.tol:
            self.G, self.R = self._gradient()

    def _observe(self, G: Array, R: Array | None = None) -> None:
        """Keep the least P and, where it can be near P, the largest D."""
        problem = self.problem
        primal = problem.primal(self.theta, self.F)
        if primal <= self.best.primal:
            self.best.primal = primal
            self.best.theta, self.best.intercept, self.best.F = self.theta, self.intercept, self.F
        # P - D = sum_i c_i (loss + loss* - <f, g>) + ...: the first part needs no pass over Z
        self.G_seen = G
        if R is not None or self._fenchel(G) <= _NEAR * self.tol * primal:
            self.best.dual = max(self.best.dual, problem.dual(G, R))

    def _fenchel(self, G: Array) -> float:
        problem, F = self.problem, self.F
        both = problem.loss.value(F, problem.Y) + problem.loss.conjugate(G, problem.Y)
        return float(problem.weights @ (both - row_dots(F, G)))

    def finish(self) -> Solution:
        """Return the best solution, certified by the last G at the least."""
        if self.best.gap > self.tol:
            self.best.dual = max(self.best.dual, self.problem.dual(self.G_seen))
        return self.best

    def _line_search(self, dF: Array, d_theta: Array) -> float:
        """Return where the slope of the smoothed objective along the direction nearly vanishes."""
        problem = self.problem
        cdF = problem.weights[:, None] * dF
        linear = problem.alpha * float((self.theta * d_theta).sum())
        square = problem.alpha * float((d_theta * d_theta).sum())

        def slope(t: float) -> float:
            G = self.smoothing.gradient(self.F + t * dF, problem.Y, self.width)
            return float((G * cdF).sum()) + linear + t * square

        return _zero_of_increasing(slope)


class _Smoothing:
    """A loss with its kinks smoothed, and the slopes that the last step predicted."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.slopes: list[Array] | None = None  # of each kink, predicted
        self.kinks: list[tuple[float, Array, Array]] | None = None
        self.thin = False  # whether to leave out rows of next to no curvature

    def gradient(self, F: Array, Y: Array, width: float) -> Array:
        """Return the gradient of the smoothed loss."""
        if self.loss.smooth:
            return self.loss.gradient(F, Y)
        s = self.loss.variable(F, Y)
        return self.loss.lift(_total([slope for slope, _, _ in self._ramps(s, width)]), F, Y)

    def _ramps(self, s: Array, width: float) -> list[tuple[Array, Array, Array]]:
        """Return for each kink the smoothed slope, (s - k)/rho and rho."""
        parts = []
        for kink, low, high in self._kinks(s):
            distance = s - kink
            rho = sqrt(distance * distance + width * width)
            share = distance / rho
            slope = 0.5 * (high + low) + 0.5 * (high - low) * share
            parts.append((slope, share, rho))
        return parts

    def _kinks(self, s: Array) -> list[tuple[float, Array, Array]]:
        """Return each kink of the loss, and the slopes below and above it, on the device of s."""
        if self.kinks is None:
            self.kinks = [
                (ramp.kink, constant(ramp.low, s), constant(ramp.high, s))
                for ramp in self.loss.ramps
            ]
        return self.kinks

    def curvature(self, F: Array, Y: Array, width: float) -> Curvature:
        """Return the curvature of the Newton step."""
        if self.loss.smooth:
            return self.loss.curvature(F, Y)
        parts = self._ramps(self.loss.variable(F, Y), width)
        self.now = [slope for slope, _, _ in parts]
        lagged = self.now if self.slopes is None else self.slopes
        self.bends = []
        xp = namespace(F)
        for (_, low, high), (_, share, rho), g in zip(self._kinks(F), parts, lagged, strict=True):
            half, middle = 0.5 * (high - low), 0.5 * (high + low)
            self.bends.append(xp.clip(half - (g - middle) * share, 0.0, None) / rho)
        if self.thin:
            least = _NEGLIGIBLE * _total([bend.mean(axis=0) for bend in self.bends])
            self.bends = [xp.where(bend > least, bend, 0.0) for bend in self.bends]
        return self.loss.lift_curvature(_total(self.now), _total(self.bends), F, Y)

    def predict(self, G: Array, bend: Curvature, dF: Array, F: Array, Y: Array) -> Array:
        """Predict the gradients after a full step, within the domain of the conjugate."""
        if self.loss.smooth:
            return G
        ds = self.loss.along(dF, F, Y)
        self.slopes = [
            namespace(ds).clip(slope + b * ds, low, high)
            for (_, low, high), slope, b in zip(self._kinks(ds), self.now, self.bends, strict=True)
        ]
        return self.loss.clip(G + bend @ dF, Y)


def _total(parts: list[Array]) -> Array:
    return functools.reduce(operator.add, parts)


def _zero_of_increasing(slope: Callable[[float], float], share: float = 0.1) -> float:
    """Return t with |slope(t)| <= share |slope(0)|, for slope(0) < 0, trying t = 1 first."""
    low, s_low = 0.0, slope(0.0)
    if s_low >= 0.0:
        return 0.0
    goal = share * abs(s_low)
    high, s_high = 1.0, slope(1.0)
    while s_high < -goal and high < 1e6:
        low, s_low = high, s_high
        high *= 2.0
        s_high = slope(high)
    t, s = high, s_high
    for _ in range(60):
        if abs(s) <= goal or s_low == s_high:
            break
        t = low + (high - low) * min(max(s_low / (s_low - s_high), 0.1), 0.9)
        s = slope(t)
        if s < 0.0:
            low, s_low = t, s
        else:
            high, s_high = t, s
    return t
