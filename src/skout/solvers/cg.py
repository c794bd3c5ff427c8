"""Preconditioned conjugate gradients for many right sides at once, in mixed precision.

Arrays may be NumPy's or tensors: the same lines run on the host and on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._numerics.arrays import namespace
from .._numerics.typing import Array

Product = Callable[[Array], Array]
# Numbers of steps and of exact products below are those of benchmarks/constants.py: 14 fits take
# 1,317 and 42.
# A round in low precision ends when it has gained so much: its own rounding allows little more
# (with 0.1, 1,337 and 63; with 0.001, 1,493 and 34).
_GAIN = 1e-2
# A round is believed if so many times the rounding that one before it had would do no harm: a
# margin for rounding that differs between rounds; larger ones cost exact products, and nothing
# else.
_SAFE = 4.0
# A round goes on in the direction of the last one if that had less rounding, relative to what is
# left (with 1, 1,489 steps; half changes nothing).
_KEEP = 0.5
# It also ends after so many steps in which the residual did not fall to this share (half as many
# take 1,258 and 39, but are few where the residual rises for a while before it falls).
_PATIENCE, _PROGRESS = 20, 0.9
# A round that gains less than this hands over to the next precision (half and nearly double: the
# same).
_LEAST_GAIN = 0.5
# Targets whose spread is this share of the right side or less are constant but for rounding: some
# fifty times that of float64.
_CONSTANT = 1e-14


@dataclass
class CGState:
    """A state of conjugate gradients: A x = b - r for each column."""

    x: Array  # solution so far, (m, q)
    r: Array  # residual
    p: Array  # direction
    squared: Array  # r'M^-1 r, the residual as the preconditioner M measures it, (q,)
    steps: int = 0


def conjugate_gradients(apply: Product, precondition: Product, state: CGState) -> Iterator[CGState]:
    """Yield the state after each step: columns have numbers of their own, and share the products.

    p <- z + (r'z / previous) p,  x <- x + (r'z / p'Ap) p,  r <- r - (r'z / p'Ap) A p,  z = M^-1 r
    """
    xp = namespace(state.r)
    tiny = float(np.finfo(np.float64).tiny)
    while True:
        Ap = apply(state.p)
        curvature = (state.p * Ap).sum(0)
        # a column that is solved, or whose direction is lost in rounding, stays as it is
        moves = (curvature > tiny) & (state.squared > tiny)
        step = xp.where(moves, state.squared / xp.where(moves, curvature, 1.0), 0.0)
        x, r = state.x + step * state.p, state.r - step * Ap
        z = precondition(r)
        squared = (r * z).sum(0)
        ratio = xp.where(moves, squared / xp.where(moves, state.squared, 1.0), 0.0)
        state = CGState(x, r, z + ratio * state.p, squared, state.steps + 1)
        yield state


@dataclass
class Run:
    """The result of `refined`, or how far it is."""

    x: Array  # solution, (m, q)
    r: Array  # residual b - A x by the exact product
    residual: float  # of the worst column, in the norm of `refined` and relative to its scale
    steps: int = 0  # products in low precision
    checks: int = 0  # exact products
    precision: int = 0  # which of the products the next round uses: 0 is the cheapest
    stuck: bool = False  # whether rounding lets even the exact product gain no more
    drift: float = np.inf  # what rounding added to the residual in the last round, relative to it


def refined(
    products: list[Product],  # v -> A v, the cheapest first, the exact one last
    b: Array,  # (m, q)
    precondition: Product,  # r -> M^-1 r, symmetric and positive
    *,
    tol: float,  # relative residual to reach, in every column
    spread: Array
    | None = None,  # (q,): residuals are relative to it where it is less than the norm of b
    max_iter: int,
    start: Array | None = None,  # where to begin, such as the solution of a similar system
    progress: Callable[[Run, CGState], None] | None = None,  # stores them after each step
    resumed: tuple[Run, CGState] | None = None,  # what `progress` got, to go on from there
    plain: bool = False,  # measure residuals by their Euclidean norm, not by r'M^-1 r
    gain: float = _GAIN,  # what a round in low precision makes of the residual
    believe: bool = False,
) -> Run:
    """Solve A x = b to a relative residual, with cheap products and a few exact ones.

    Each round solves A d = r by `conjugate_gradients` with a cheap product, then x <- x + d and the
    residual is computed anew by the exact product, the last of `products`: what is reported is true
    of A itself. Where a round gains too little, the next product takes over.

    In the norm r'M^-1 r, or `plain` for the dual system, a residual of a ridge regression is about
    the change of its predictions that is left, as a norm over the rows. So `spread` is that of the
    targets about their mean: a right side that is mostly mean does not hide what varies.

    With `believe` the last exact product is left out where rounding was small before: what is
    reported is then the residual plus what rounding may have added.
    """
    scale = _norms(b, b if plain else precondition(b))
    if spread is not None:
        xp = namespace(b)
        scale = xp.where(spread > _CONSTANT * scale, xp.minimum(scale, spread), scale)

    def measure(r: Array) -> float:
        return _worst(_norms(r, r if plain else precondition(r)), scale)

    run, state = (_begun(products[-1], b, start), None) if resumed is None else resumed
    last: CGState | None = None
    if resumed is None:
        run.residual = measure(run.r)
    while state is not None or not (run.residual <= tol or run.steps >= max_iter or run.stuck):
        state = _first(run.r, precondition, last) if state is None else state
        before = run.steps - state.steps
        goal = 0.7 * tol
        if believe:
            goal = max(goal, 0.9 * tol - _SAFE * run.drift * run.residual)
        if run.precision < len(products) - 1:
            goal = max(goal, gain * run.residual)
        steps = conjugate_gradients(products[run.precision], precondition, state)
        best, since = np.inf, 0
        for state in steps:
            run.steps = before + state.steps
            if progress is not None:
                progress(run, state)
            left = _worst(_norms(state.r, state.r) if plain else _root(state.squared), scale)
            best, since = (left, 0) if left < _PROGRESS * best else (best, since + 1)
            # in low precision, rounding may hide what is left to gain
            lost = since >= _PATIENCE and run.precision < len(products) - 1
            if left <= goal or lost or run.steps >= max_iter:
                break
        likely = left + _SAFE * run.drift * run.residual
        if believe and likely <= tol:
            return replace(run, x=run.x + state.x, r=state.r, residual=likely)
        reached, last, state = run.residual, state, None
        run = _corrected(run, last, products, b, measure)
        if run.drift * reached > _KEEP * run.residual:  # its direction is of no use
            last = None
    return run


def _first(r: Array, precondition: Product, last: CGState | None) -> CGState:
    """Return the state of a residual; one computed anew keeps the direction of the last state."""
    z = precondition(r)
    p = z if last is None else last.p + precondition(r - last.r)
    return CGState(0.0 * r, r, p, (r * z).sum(0))


def _begun(exact: Product, b: Array, start: Array | None) -> Run:
    if start is None:
        return Run(0.0 * b, b, 1.0)
    return Run(start, b - exact(start), 1.0, checks=1)


def _corrected(
    run: Run, state: CGState, products: list[Product], b: Array, measure: Callable[[Array], float]
) -> Run:
    """Return the run after a round: x + d if that is nearer, and the precision of the next one."""
    x = run.x + state.x
    r = b - products[-1](x)
    residual, drift = measure(r), measure(r - state.r) / run.residual
    # written so that a residual that is not a number counts as no gain
    little, last = not residual <= _LEAST_GAIN * run.residual, run.precision == len(products) - 1
    if not residual <= run.residual:
        x, r, residual = run.x, run.r, run.residual
    return Run(
        x, r, residual, run.steps, run.checks + 1,
        run.precision + (little and not last), stuck=little and last, drift=drift,
    )  # fmt: skip


def largest_of(*residuals: float) -> float:
    """Return the largest residual, NaN if one is NaN."""
    return float(np.max(residuals))


def _root(squared: Array) -> Array:
    xp = namespace(squared)
    return xp.sqrt(xp.abs(squared))  # of a preconditioner that rounding made indefinite: not zero


def _norms(r: Array, z: Array) -> Array:
    return _root((r * z).sum(0))


def _worst(norms: Array, scale: Array) -> float:
    """Return the largest ratio of a column; that of a right side of zeros counts as solved."""
    xp = namespace(norms)
    return float(xp.where(scale > 0, norms / xp.where(scale > 0, scale, 1.0), 0.0).max())
