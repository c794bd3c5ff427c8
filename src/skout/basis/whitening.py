"""From features to coordinates: what is whitened row by row, and in which precision.

Whitening every row costs as much as the moments; whitening only the moments loses digits. A `Plan`
says what is enough, and `Whitening` does it to blocks of features.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._numerics.arrays import n_rows, row_slices, take
from .._numerics.linalg import off_diagonal, partial_whitening, top_centred, top_eigenvalue
from ..rows import RowMap
from .features import LandmarkFeatures

__all__ = ["Plan", "WhitenedFeatures", "Whitening", "accuracy_plan", "allowed_square"]

# Below this rank all features are whitened in each row; else the first so many may be.
_SMALL_RANK = 256
_WHITENED = (32, 64, 128, 256, 512)
# Limits on the estimated loss, from float32 and from float64 products. It is an estimate, not a
# bound: errors of predictions up to several times the first were seen where alpha is below 1e-4.
_SINGLE_LOSS = 2e-3
_DOUBLE_LOSS = 1e-8


class Plan(NamedTuple):
    """What is done to each block of features before its products are formed."""

    size: int  # features to whiten
    centre: bool  # whether to subtract their mean over the landmarks
    dtype: np.dtype  # precision of the products


def accuracy_plan(
    C: np.ndarray, shift: float, dtype: np.dtype, may_centre: bool, n: float = np.inf
) -> Plan:
    """Choose how far to whiten the features in each block, and the precision of the products.

    The moments of features carry a noise of about eps lambda^2, lambda the largest eigenvalue of
    what whitening leaves of K~ = L L' (C is L^-1); to centre the features takes away the largest.
    Relative to the smallest eigenvalue mu of K~ the noise becomes noise / (mu (mu + shift)) in Z'Z
    and between that and noise / (mu + shift)^2 in predictions, as measured. The cheapest choice
    that keeps the geometric mean of the two small is taken; float32 rows get float32 products
    where that is enough. `n` is the number of rows that will be seen.
    """
    p = len(C)
    if p < _SMALL_RANK:
        return Plan(p, False, np.dtype(np.float64))
    choices = [(0, False)] + [(0, True)] * may_centre
    # what is left to whiten in the moments costs 2 p^3; for few rows more than in every row
    sizes = [size for size in _WHITENED if size < p]
    choices += [(s, False) for s in sizes if n * s * (2 * p - s) + 2.0 * p**3 < n * p * p]
    mu = C[-1, -1] ** -2.0  # the last pivot, squared

    largest_square = functools.partial(allowed_square, mu, shift)

    # float32 products err at random and average out; sums over blocks are float64 in any case
    kinds: list[tuple[Any, float]] = [(np.float64, largest_square(np.float64, 1.0, _DOUBLE_LOSS))]
    if dtype == np.float32:
        kinds.insert(0, (np.float32, largest_square(np.float32, p**-0.5, _SINGLE_LOSS)))
    most = max(limit for _, limit in kinds)
    squared = functools.cache(lambda size, centre: _squared_norm_left(C, size, centre, most))
    for kind, limit in kinds:
        for size, centre in choices:
            if squared(size, centre) <= limit:
                return Plan(size, centre, np.dtype(kind))
    return Plan(p, False, np.dtype(np.float64))


def allowed_square(mu: float, shift: float, kind: Any, share: float, loss: float) -> float:
    """Return what lambda^2 may be for an estimated loss, see `accuracy_plan`.

    `share` is that of the rounding of `kind` which does not average out.
    """
    allowed = mu * (mu + shift) * min(0.25, loss * np.sqrt((mu + shift) / mu))
    return allowed / (float(np.finfo(kind).eps) * share)


def _squared_norm_left(C: np.ndarray, size: int, centre: bool, enough: float) -> float:
    """Return the largest eigenvalue, squared, of what is left of K~; roughly if above `enough`."""
    if centre:
        return top_centred(C, enough=enough)
    return top_eigenvalue(C[size:, size:], enough=enough**0.5) ** 2


class Whitening:
    """What a plan does to each block of features F; it can be sent to workers.

    Parameters
    ----------
    components : ndarray of shape (p, m)
        Z = F components'.
    plan : Plan
    mean : ndarray of shape (m,), optional
        What is subtracted from features where the plan centres them.
    ordered : bool, default False
        Whether the components are those of an eigendecomposition, no triangle.
    """

    def __init__(
        self,
        components: np.ndarray,
        plan: Plan,
        mean: np.ndarray | None = None,
        ordered: bool = False,
    ) -> None:
        self.components, self.plan, self.ordered = components, plan, ordered
        self.mean = None if mean is None else mean.astype(plan.dtype)
        self.p = len(components)

    def apply(self, F: np.ndarray) -> np.ndarray:
        """Return a block of features, whitened as far as the plan says; it may be F itself."""
        if self.mean is not None:
            return np.subtract(F, self.mean, out=F)
        if self.ordered:
            return F @ self.components.T
        return self._partial(F)

    @functools.cached_property
    def _partial(self) -> Callable[[np.ndarray], np.ndarray]:
        return partial_whitening(self.components, self.plan.size, self.plan.dtype)[0]

    def on(self, place: Any) -> Callable[[Any], Any]:
        """Return `apply` for tensors on a device."""
        C, s = self.components, self.plan.size
        if self.mean is not None:
            centre = place.moved(self.mean)
            return lambda F: F.sub_(centre)
        if s == self.p or self.ordered:
            full = place.moved(C.T)
            return lambda F: F @ full
        if s == 0:
            return lambda F: F
        first, share = place.moved(C[:s, :s].T), place.moved(off_diagonal(C, s).T)

        def apply(F: Any) -> Any:
            F[:, :s] = F[:, :s] @ first
            F[:, s:].addmm_(F[:, :s], share, alpha=-1.0)
            return F

        return apply

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_partial"}


class WhitenedFeatures(RowMap):
    """x -> the features of x, of which a plan whitens some, in float64."""

    def __init__(self, features: LandmarkFeatures, whitening: Whitening) -> None:
        self.features, self.whitening, self.width = features, whitening, features.m

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        found = np.empty((n_rows(rows), self.width)) if out is None else out
        for some in row_slices(len(found), self.features.cache_rows(rows, found.dtype)):
            self.whitening.apply(self.features(take(rows, some), found[some]))
        return found
