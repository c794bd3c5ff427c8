"""The pass over the rows of a fit: blocks of rows and targets in, moments out.

Whitening every row costs as much as the moments; whitening only the moments loses digits. A `Plan`
says how many features to whiten row by row, and in which precision; `Whitening` does it to blocks.
"""

from __future__ import annotations

import copy
import functools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._numerics.arrays import cast, flatnonzero, n_rows, namespace, row_slices, take, unique
from .._numerics.linalg import top_centred, top_eigenvalue, triangle_gram
from ..rows import Memory, Reduction, RowMap, Source
from .features import LandmarkFeatures, check_values
from .moments import (
    AnyMoments,
    MaskedMoments,
    Moments,
    check_masks,
    mean_of_observed,
    off_diagonal,
    partial_whitening,
)

__all__ = [
    "BlockMoments",
    "KnownRows",
    "Plan",
    "Sample",
    "WhitenedFeatures",
    "Whitening",
    "accuracy_plan",
    "allowed_square",
    "block_moments",
]

# Fewer outputs than this are appended to Z as columns, so that Z'T is a part of one product.
_FEW_OUTPUTS = 64
# Landmarks are treated apart if they are at least this share of the rows.
_FEW_LANDMARKS = 0.1
# Features of rows that are known are computed all the same if these are at most this share.
_FEW_KNOWN = 0.1
# Adding a number to a sum takes as long as this many operations of a matrix product.
_SUM_COST = 150
# A sample whose features take so many bytes is cut into at least two blocks, for two threads.
_LARGE_BYTES = 2**24
# Below this rank all features are whitened in each row; else the first so many may be.
_SMALL_RANK = 256
_WHITENED = (32, 64, 128, 256, 512)
# Limits on the estimated loss, from float32 and from float64 products. It is an estimate, not a
# bound: errors of predictions up to several times the first were seen where alpha is below 1e-4.
_SINGLE_LOSS = 2e-3
_DOUBLE_LOSS = 1e-8
# Targets on disk or on a cluster: a value near them is the mean of so many.
_ORIGIN_ROWS = 8192


@dataclass(frozen=True)
class Sample:
    """Rows with their targets, as the moments want them.

    Attributes
    ----------
    rows : Source of encoded rows, n of them
    targets : Source of ndarrays of shape (n, d), or CSR matrices
    weights : ndarray of shape (n,) or Source, optional
    groups : ndarray of int, shape (n,), optional
        Group of each row, 0 to n_groups - 1: each group gets moments of its own.
    n_groups : int
    origin : ndarray of shape (d,), optional
        Subtracted from the targets: what is far from zero would lose its last digits in products.
    """

    rows: Source
    targets: Source
    weights: Any = None
    groups: np.ndarray | None = None
    n_groups: int = 1
    origin: np.ndarray | None = None

    def rough_mean(self) -> np.ndarray | None:
        """Return a value near the targets; the mean of all of them would take one more pass.

        None for sparse targets, from which nothing can be subtracted.
        """
        if sparse.issparse(self.targets.like):
            return None
        return mean_of_observed(self.targets.first_rows(_ORIGIN_ROWS))

    def take(self, index: np.ndarray) -> Sample:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        groups = None if self.groups is None else self.groups[index]
        rows, targets = self.rows.subset(index), self.targets.subset(index)
        return Sample(rows, targets, weights, groups, self.n_groups, self.origin)

    def by_group(self, groups: np.ndarray, known: Any = None) -> tuple[Sample, Any]:
        """Return the sample with the rows of a group together, and the `KnownRows` of that order.

        Blocks then belong to one group each, and a pass holds few sums at a time. Where rows are
        not read in any order at no cost, both stay as they are.
        """
        order = np.argsort(groups, kind="stable")
        rows, targets = self.rows.reordered(order), self.targets.reordered(order)
        if rows is None or targets is None or not isinstance(self.weights, np.ndarray | None):
            return self, known
        known = None if known is None else replace(known, place=known.place[order])
        weights = None if self.weights is None else self.weights[order]
        return Sample(rows, targets, weights, groups[order], self.n_groups, self.origin), known

    def by_value(self) -> tuple[Sample, np.ndarray | None]:
        """Return the sample with 0/1 targets, and the values that they stand for.

        Rows with equal targets, of which structured outputs have many, need only be added up: Z'T =
        (Z'M) V. Where targets are few, or differ, the sample stays as it is, without values.
        """
        n, d = self.targets.shape
        targets = self.targets.loaded
        if d < _FEW_OUTPUTS or targets is None or not self.rows.has_shortcuts:
            return self, None
        first, codes = unique(targets)
        n_sums = self.n_groups * len(first)
        if 2 * d * (n - n_sums) < _SUM_COST * (n + 2 * n_sums):
            return self, None
        values = targets[first].astype(np.float64)
        if np.isnan(values).any():  # rows with holes
            return self, None
        values = values if self.origin is None else values - self.origin
        ones = (np.ones(n), codes, np.arange(n + 1))
        coded = Memory(sparse.csr_matrix(ones, shape=(n, len(first))), "y")
        return replace(self, targets=coded, origin=None), values

    def moments_of(self, L: np.ndarray, number: np.ndarray) -> list[AnyMoments]:
        """Return the moments, by group, of rows whose coordinates are rows of the triangle L."""
        groups = np.zeros(len(number), dtype=int) if self.groups is None else self.groups
        parts = []
        for group in range(self.n_groups):
            some = np.flatnonzero(groups == group)
            T = self.targets.take(some).astype(np.float64)
            T = T if self.origin is None else T - self.origin
            weights = None if self.weights is None else self.weights[some]
            order = np.argsort(number[some])
            if weights is None and np.array_equal(number[some][order], np.arange(len(L))):
                parts.append(block_moments(L, T[order], None, zz=triangle_gram(L)))
            else:
                parts.append(block_moments(L[number[some]], T, weights))
        return parts


@dataclass(frozen=True)
class KnownRows:
    """Features that some rows are known to have.

    Attributes
    ----------
    place : ndarray of int, shape (n,)
        For each row of the sample the row of `values`, -1 where there is none.
    values : ndarray of shape (m', m)
    landmark : ndarray of int, shape (m',)
        For each row of `values` the number of the landmark it belongs to, -1 for none.
    factor : ndarray of shape (p, p)
        L, whose rows are the coordinates of these landmarks where W is the identity.
    kept : ndarray of int, shape (p,)
        The columns of `values` that are features of the basis.
    gram : ndarray of shape (m, m)
        K~, of which `kept` are the independent rows.
    """

    place: np.ndarray
    values: np.ndarray
    landmark: np.ndarray
    factor: np.ndarray
    kept: np.ndarray
    gram: np.ndarray

    def split(self, sample: Sample) -> tuple[Sample, Callable[[], list[AnyMoments]] | None]:
        """Return the rows that are no landmarks, and a function: the moments of the landmarks.

        The coordinates of landmarks are rows of L, so that nothing need be whitened. Where they
        are few, or all, the sample stays whole.
        """
        number = np.where(self.place >= 0, self.landmark[self.place], -1)
        own, others = np.flatnonzero(number >= 0), np.flatnonzero(number < 0)
        if not _FEW_LANDMARKS * len(number) <= len(own) < len(number):
            return sample, None
        landmarks = sample.take(own)
        return sample.take(others), lambda: landmarks.moments_of(self.factor, number[own])

    def fill(
        self, features: LandmarkFeatures, rows: Any, place: np.ndarray, out: np.ndarray
    ) -> None:
        """Write the features of rows into `out`; those with place >= 0 are copied from `values`."""
        known = place >= 0
        if known.sum() <= _FEW_KNOWN * len(place):
            features(rows, out)  # of the few that are known too: to leave them out takes a copy
        else:
            others = np.flatnonzero(~known)
            if len(others):
                out[others] = features(take(rows, others))
        out[known] = np.take(self.values[place[known]], self.kept, axis=1)


def block_moments(Z: Any, T: Any, weights: Any, wide: Any = None, zz: Any = None) -> AnyMoments:
    """Return the moments of one block; those of targets with NaN are `MaskedMoments`.

    Parameters
    ----------
    Z, T, weights, wide, zz
        As `Moments.of_block` takes them.
    """
    if not sparse.issparse(T):
        missing = namespace(T).isnan(T)
        if bool(missing.any()):
            return MaskedMoments.of_block(Z, T, missing, weights)
    return Moments.of_block(Z, T, weights, wide, zz)


class BlockMoments(Reduction):
    """The moments of (whitening(features(rows)), targets), one `Moments` a group of rows.

    Blocks are arrays, or tensors on a card, where sums stay until the end, in float64.

    Parameters
    ----------
    features : LandmarkFeatures
    whitening : Whitening
        Maps a block of features (b, m) to coordinates (b, p).
    sample : Sample
        Whose blocks it will be given: rows, targets, weights, groups and `place`.
    known : KnownRows, optional
        Features that need not be computed.
    """

    def __init__(
        self,
        features: LandmarkFeatures,
        whitening: Whitening,
        sample: Sample,
        known: KnownRows | None = None,
    ) -> None:
        self.features, self.whitening, self.known = features, whitening, known
        self.prepare: Callable[[Any], Any] | None = None  # the whitening of tensors
        self.p, self.dtype = whitening.p, np.dtype(whitening.plan.dtype)
        self.n_groups, self.origin = sample.n_groups, sample.origin
        self.n_outputs = sample.targets.shape[1]
        self.wide = self.p + self.n_outputs + 1 if self.n_outputs < _FEW_OUTPUTS else self.p
        self.in_place = self.dtype == sample.rows.precision and self.p == features.m
        self.width = max(1, features.m * self.dtype.itemsize // 8)
        self.pieces = self._pieces(sample.rows, sample.groups)

    def _pieces(self, rows: Source, groups: np.ndarray | None) -> int:
        """Return one for each group, or as many as rows take no more memory than their features."""
        if groups is None or rows.ndim != 2 or (groups[1:] >= groups[:-1]).all():
            return 1
        own = rows.shape[1] * rows.precision.itemsize
        return max(1, min(self.n_groups, 8 * self.width // max(1, own)))

    def of(self, sample: Sample, **options: Any) -> list[AnyMoments]:
        """Return the moments of a sample, one a group."""
        place = None if self.known is None else self.known.place
        beside = (sample.targets, sample.weights, sample.groups, place)
        parts = sample.rows.reduce(self, *beside, **options)
        return [Moments.zeros(self.p, self.n_outputs) if part is None else part for part in parts]

    def most_rows(self, n: int) -> int | None:
        """Let two threads share a long pass that would be a single block."""
        return math.ceil(n / 2) if n * self.width * 8 >= _LARGE_BYTES else None

    def on(self, place: Any) -> Reduction:
        there = copy.copy(self)
        there.features = self.features.on(place.device, place.dtype)
        there.prepare = self.whitening.on(place)
        there.origin = None if self.origin is None else place.moved(self.origin, np.float64)
        return there

    @functools.cached_property
    def _scratch(self) -> threading.local:
        return threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the buffers of threads, which cannot be sent to workers."""
        return {name: value for name, value in self.__dict__.items() if name != "_scratch"}

    def __call__(
        self, rows: Any, targets: Any, weights: Any, groups: Any, place: Any
    ) -> list[AnyMoments | None]:
        T = cast(targets, np.float64)
        if self.origin is not None:
            T = T - self.origin
        if groups is None:
            return [self._moments(rows, T, weights, place)]
        parts: list[AnyMoments | None] = [None] * self.n_groups
        for group in namespace(groups).unique(groups):
            own = as_slice(flatnonzero(groups == group))
            w, at = (None if column is None else column[own] for column in (weights, place))
            parts[group] = self._moments(take(rows, own), T[own], w, at)
        return parts

    def _moments(self, rows: Any, T: Any, weights: Any, place: Any) -> AnyMoments:
        if self.prepare is not None:
            return block_moments(self.prepare(self.features(rows)), T, weights)
        wide = self._coordinates(rows, place)
        room = wide if self.wide > self.p else None
        return block_moments(wide[:, : self.p], T, weights, room)

    def combine(
        self, total: list[AnyMoments | None] | None, part: list[AnyMoments | None]
    ) -> list[AnyMoments | None]:
        total = [None] * self.n_groups if total is None else total
        sums = [self._sum(old, new) for old, new in zip(total, part, strict=True)]
        check_masks([moments for moments in sums if isinstance(moments, MaskedMoments)])
        return sums

    def _sum(self, old: AnyMoments | None, new: AnyMoments | None) -> AnyMoments | None:
        if old is None or new is None:
            return old if new is None else new.in_double()
        old += new
        return old

    def finish(self, total: list[AnyMoments | None]) -> list[AnyMoments | None]:
        found = [None if part is None else part.on_host() for part in total]
        for part in found:
            if part is not None:
                check_values(self.features.kernel, part.z_sum)
        return found

    def _coordinates(self, rows: Any, place: np.ndarray | None) -> np.ndarray:
        """Return this thread's buffer, which begins with the coordinates of some rows."""
        wide = _scratch(self._scratch, self.dtype, n_rows(rows), self.wide)
        Z = wide[:, : self.p]
        for few in row_slices(len(Z), self.features.cache_rows(rows, self.dtype)):
            room = Z[few] if self.in_place else None
            F = self._block_features(take(rows, few), None if place is None else place[few], room)
            coordinates = self.whitening.apply(F.astype(self.dtype, copy=False))
            if coordinates is not room:
                Z[few] = coordinates
        return wide

    def _block_features(
        self, rows: Any, place: np.ndarray | None, room: np.ndarray | None
    ) -> np.ndarray:
        """Return the features of rows, in `room` if there is one."""
        if self.known is None or place is None:
            return self.features(rows, room)
        out = np.empty((n_rows(rows), self.features.m)) if room is None else room
        self.known.fill(self.features, rows, place, out)
        return out


def as_slice(index: np.ndarray) -> slice | np.ndarray:
    """Return increasing positions, as a slice where they follow each other: nothing is copied."""
    if index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def _scratch(store: Any, dtype: np.dtype, b: int, m: int) -> np.ndarray:
    """Return this thread's (b, m) buffer: fresh memory for each block costs page faults."""
    if getattr(store, "buffer", None) is None or len(store.buffer) < b:
        store.buffer = np.empty((b, m), dtype=dtype)
    return store.buffer[:b]


# What is whitened row by row ----------------------------------------------------------------------


class Plan(NamedTuple):
    """What is done to each block of features before its products are formed."""

    size: int  # features to whiten
    center: bool  # whether to subtract their mean over the landmarks
    dtype: np.dtype  # precision of the products


def accuracy_plan(
    C: np.ndarray, shift: float, dtype: np.dtype, may_center: bool, n: float = np.inf
) -> Plan:
    """Choose how far to whiten the features in each block, and the precision of the products.

    The moments of features carry a noise of about eps lambda^2, lambda the largest eigenvalue of
    what whitening leaves of K~ = L L' (C is L^-1); to center the features takes away the largest.
    Relative to the smallest eigenvalue mu of K~ the noise becomes noise / (mu (mu + shift)) in Z'Z
    and between that and noise / (mu + shift)^2 in predictions, as measured. The cheapest choice
    that keeps the geometric mean of the two small is taken; float32 rows get float32 products
    where that is enough. `n` is the number of rows that will be seen.
    """
    p = len(C)
    if p < _SMALL_RANK:
        return Plan(p, False, np.dtype(np.float64))
    choices = [(0, False)] + [(0, True)] * may_center
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
    squared = functools.cache(lambda size, center: _squared_norm_left(C, size, center, most))
    for kind, limit in kinds:
        for size, center in choices:
            if squared(size, center) <= limit:
                return Plan(size, center, np.dtype(kind))
    return Plan(p, False, np.dtype(np.float64))


def allowed_square(mu: float, shift: float, kind: Any, share: float, loss: float) -> float:
    """Return what lambda^2 may be for an estimated loss, see `accuracy_plan`.

    `share` is that of the rounding of `kind` which does not average out.
    """
    allowed = mu * (mu + shift) * min(0.25, loss * np.sqrt((mu + shift) / mu))
    return allowed / (float(np.finfo(kind).eps) * share)


def _squared_norm_left(C: np.ndarray, size: int, center: bool, enough: float) -> float:
    """Return the largest eigenvalue, squared, of what is left of K~; roughly if above `enough`."""
    if center:
        return top_centred(C, enough=enough)
    return top_eigenvalue(C, size, enough=enough**0.5) ** 2


class Whitening:
    """What a plan does to each block of features F; it can be sent to workers.

    Parameters
    ----------
    components : ndarray of shape (p, m)
        Z = F components'.
    plan : Plan
    mean : ndarray of shape (m,), optional
        What is subtracted from features where the plan centers them.
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
            center = place.moved(self.mean)
            return lambda F: F.sub_(center)
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
