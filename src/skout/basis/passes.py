"""The pass over the rows of a fit: blocks of rows and targets in, moments out.

Whitening every row costs as much as the moments; whitening only the moments loses digits. A
`WhiteningPlan` says how many features to whiten row by row, and in which precision; `Whitening`
does it to blocks.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._numerics.arrays import (
    cast,
    flatnonzero,
    n_rows,
    namespace,
    row_slices,
    take,
    unique,
)
from .._numerics.linalg import top_centered, top_eigenvalue, triangle_gram
from .._numerics.types import Array, Floats, Ints, Matrix, Rows, Weights
from ..rows import Memory, Place, Reduction, RowMap, Source, limits
from .features import LandmarkFeatures, check_values
from .moments import (
    AnyMoments,
    MaskedMoments,
    Moments,
    PartlyWhitened,
    block_moments,
    mean_of_observed,
)

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
# Columns of a triangle that are multiplied at a time.
_TRIANGLE = 256
# Limits on the estimated loss, from float32 and from float64 products. It is an estimate, not a
# bound: errors of predictions up to several times the first were seen where alpha is below 1e-4.
_SINGLE_LOSS = 2e-3
_DOUBLE_LOSS = 1e-8
# Targets on disk or on a cluster: a value near them is the mean of so many.
_ORIGIN_ROWS = 8192


@dataclass(frozen=True)
class TrainingSample:
    """Rows with their targets, as the moments want them."""

    rows: Source  # encoded, n of them
    targets: Source  # of arrays of shape (n, d), or of CSR matrices
    weights: Weights = None  # (n,)
    groups: Ints | None = None  # 0 to n_groups - 1: each group gets moments of its own, (n,)
    n_groups: int = 1
    # subtracted from the targets: what is far from zero would lose its last digits, (d,)
    origin: Floats | None = None

    @property
    def has_missing(self) -> bool:
        """Whether targets in memory are missing."""
        T = self.targets.resident
        return T is not None and bool(np.isnan(np.asarray(T)).any())

    def rough_mean(self) -> Floats | None:
        """Return a value near the targets; the mean of all of them would take one more pass.

        None for sparse targets, from which nothing can be subtracted.
        """
        if sparse.issparse(self.targets.like):
            return None
        return mean_of_observed(self.targets.first_rows(_ORIGIN_ROWS))

    def take(self, index: Ints) -> TrainingSample:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        groups = None if self.groups is None else self.groups[index]
        rows, targets = self.rows.subset(index), self.targets.subset(index)
        return replace(self, rows=rows, targets=targets, weights=weights, groups=groups)

    def by_group(self, known: KnownRows | None) -> tuple[TrainingSample, KnownRows | None]:
        """Return the sample with the rows of a group together, and the known rows of that order.

        Blocks then belong to one group each, and a pass holds few sums at a time. Where rows are
        not read in any order at no cost, both stay as they are.
        """
        if self.groups is None:
            return self, known
        order = np.argsort(self.groups, kind="stable")
        rows, targets = self.rows.reordered(order), self.targets.reordered(order)
        if rows is None or targets is None or not isinstance(self.weights, np.ndarray | None):
            return self, known
        known = None if known is None else replace(known, place=known.place[order])
        weights = None if self.weights is None else self.weights[order]
        groups = self.groups[order]
        return replace(self, rows=rows, targets=targets, weights=weights, groups=groups), known

    def by_value(self) -> tuple[TrainingSample, Floats | None]:
        """Return the sample with 0/1 targets, and the values that they stand for.

        Rows with equal targets, of which structured outputs have many, need only be added up: Z'T =
        (Z'M) V. Where targets are few, or differ, the sample stays as it is, without values.
        """
        n, d = self.targets.shape
        targets = self.targets.resident
        if d < _FEW_OUTPUTS or targets is None or not self.rows.has_shortcuts:
            return self, None
        first, codes = unique(targets)
        n_sums = self.n_groups * len(first)
        if 2 * d * (n - n_sums) < _SUM_COST * (n + 2 * n_sums):
            return self, None
        values = targets[first].astype(np.float64)
        if np.isnan(values).any():  # missing targets
            return self, None
        values = values if self.origin is None else values - self.origin
        ones = (np.ones(n), codes, np.arange(n + 1))
        coded = Memory(sparse.csr_matrix(ones, shape=(n, len(first))), "y")
        return replace(self, targets=coded, origin=None), values


@dataclass(frozen=True)
class KnownRows:
    """Features that some rows of a sample are known to have: they are landmarks."""

    place: Ints  # for each row of the sample the row of `values`, -1 where there is none, (n,)
    values: Floats  # (m', m)
    landmark: Ints  # for each row of `values` its number among the kept landmarks, -1 for none
    factor: Floats  # L, whose rows are the coordinates of these landmarks where W is the identity
    kept: Ints  # the columns of `values` that are features of the basis, (p,)
    gram: Floats  # K~, of which `kept` are the independent rows, (m, m)

    def split(
        self, sample: TrainingSample
    ) -> tuple[TrainingSample, Callable[[], list[AnyMoments]] | None]:
        """Return the rows that are no landmarks, and a function: the moments of the landmarks.

        The coordinates of landmarks are rows of L, so that nothing need be whitened. Where they
        are few, or all, the sample stays whole.
        """
        number = np.where(self.place >= 0, self.landmark[self.place], -1)
        landmarks, others = np.flatnonzero(number >= 0), np.flatnonzero(number < 0)
        if not _FEW_LANDMARKS * len(number) <= len(landmarks) < len(number):
            return sample, None
        number, part, L = number[landmarks], sample.take(landmarks), self.factor
        groups = np.zeros(len(number), dtype=int) if part.groups is None else part.groups

        def moments(group: int) -> AnyMoments:
            members = np.flatnonzero(groups == group)
            T = part.targets.take(members).astype(np.float64)
            T = T if part.origin is None else T - part.origin
            weights = None if part.weights is None else part.weights[members]
            order = np.argsort(number[members])
            if weights is None and np.array_equal(number[members][order], np.arange(len(L))):
                return block_moments(L, T[order], None, zz=triangle_gram(L))
            return block_moments(L[number[members]], T, weights)

        return sample.take(others), lambda: [moments(group) for group in range(sample.n_groups)]

    def features(
        self, features: LandmarkFeatures, rows: Rows, place: Ints, out: Floats | None
    ) -> Floats:
        """Return the features of rows, in `out`; those with place >= 0 are copied from `values`."""
        out = np.empty((n_rows(rows), features.m)) if out is None else out
        known = place >= 0
        if known.sum() <= _FEW_KNOWN * len(place):
            features(rows, out)  # of the few that are known too: to leave them out takes a copy
        else:
            others = np.flatnonzero(~known)
            if len(others):
                out[others] = features(take(rows, others))
        out[known] = np.take(self.values[place[known]], self.kept, axis=1)
        return out


class BlockMoments(Reduction):
    """The moments of (whitening(features(rows)), targets) of a sample, one a group of rows.

    Blocks are arrays, or tensors on a device, where sums stay until the end, in float64. They are
    given the rows, targets, weights and groups of the sample, and the `place` of known rows.
    """

    def __init__(
        self,
        features: LandmarkFeatures,
        whitening: Whitening,
        sample: TrainingSample,
        known: KnownRows | None = None,
    ) -> None:
        self.features, self.whitening, self.known = features, whitening, known
        self.prepare: Callable[[Array], Array] | None = None  # the whitening of tensors
        self.p, self.dtype = len(whitening.components), np.dtype(whitening.plan.dtype)
        self.n_groups, self.origin = sample.n_groups, sample.origin
        self.n_outputs = sample.targets.shape[1]
        self.wide = self.p + self.n_outputs + 1 if self.n_outputs < _FEW_OUTPUTS else self.p
        self.in_place = self.dtype == sample.rows.precision and self.p == features.m
        self.width = max(1, features.m * self.dtype.itemsize // 8)
        rows, groups = sample.rows, sample.groups
        if groups is not None and rows.ndim == 2 and not (groups[1:] >= groups[:-1]).all():
            # one for each group, or as many as rows take no more memory than their features
            row_bytes = max(1, rows.shape[1] * rows.precision.itemsize)
            self.pieces = max(1, min(self.n_groups, 8 * self.width // row_bytes))

    def most_rows(self, n: int) -> int | None:
        """Let two threads share a long pass that would be a single block."""
        return math.ceil(n / 2) if n * self.width * 8 >= _LARGE_BYTES else None

    def on(self, place: Place) -> Reduction:
        moved = copy.copy(self)
        moved.features = self.features.on(place.device, place.dtype)
        moved.prepare = self.whitening.on(place)
        moved.origin = None if self.origin is None else place.moved(self.origin, np.float64)
        return moved

    @functools.cached_property
    def _memory(self) -> threading.local:
        """A buffer of each thread: fresh memory for each block costs page faults."""
        return threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the buffers of threads, which cannot be sent to workers."""
        return {name: value for name, value in self.__dict__.items() if name != "_memory"}

    def __call__(
        self, rows: Rows, targets: Matrix, weights: Array, groups: Array, place: Array
    ) -> list[AnyMoments | None]:
        T = cast(targets, np.float64)
        if self.origin is not None:
            T = T - self.origin
        if groups is None:
            return [self._moments(rows, T, weights, place)]
        parts: list[AnyMoments | None] = [None] * self.n_groups
        for group in namespace(groups).unique(groups):
            members = flatnonzero(groups == group)
            if members[-1] - members[0] == len(members) - 1:  # one after another: nothing is copied
                members = slice(int(members[0]), int(members[-1]) + 1)
            w, at = (None if column is None else column[members] for column in (weights, place))
            parts[group] = self._moments(take(rows, members), T[members], w, at)
        return parts

    def _moments(self, rows: Rows, T: Matrix, weights: Array, place: Array) -> AnyMoments:
        """Return the moments of rows of a group, whose coordinates this thread's buffer takes."""
        if self.prepare is not None:
            return block_moments(self.prepare(self.features(rows)), T, weights)
        n = n_rows(rows)
        if len(getattr(self._memory, "buffer", ())) < n:
            self._memory.buffer = np.empty((n, self.wide), dtype=self.dtype)
        wide = self._memory.buffer[:n]
        Z = wide[:, : self.p]
        for chunk in row_slices(n, self.features.cache_rows(rows, self.dtype)):
            out, few = Z[chunk] if self.in_place else None, take(rows, chunk)
            if self.known is None or place is None:
                F = self.features(few, out)
            else:
                F = self.known.features(self.features, few, place[chunk], out)
            coordinates = self.whitening.apply(F.astype(self.dtype, copy=False))
            if coordinates is not out:
                Z[chunk] = coordinates
        return block_moments(Z, T, weights, wide if self.wide > self.p else None)

    def combine(
        self, total: list[AnyMoments | None] | None, part: list[AnyMoments | None]
    ) -> list[AnyMoments | None]:
        sums: list[Any] = [None] * self.n_groups if total is None else total
        for group, new in enumerate(part):
            old = sums[group]
            if new is not None:
                sums[group] = (
                    new.each(Moments.in_double) if old is None else operator.iadd(old, new)
                )
        masked = [moments for moments in sums if isinstance(moments, MaskedMoments)]
        count = sum(len(moments.parts) for moments in masked)
        if 8 * count * self.p**2 > limits().coordinates_bytes:
            raise MemoryError(
                f"y has missing values, and {count} matrices of {self.p} x {self.p} numbers for "
                "outputs with different rows, and for folds, take more than "
                "memory_limits(coordinates_mb=...): raise it, use a smaller sketch, or give y in "
                "memory, as an array."
            )
        return sums

    def finish(self, total: list[AnyMoments | None]) -> list[AnyMoments]:
        zeros = functools.partial(Moments.zeros, self.p, self.n_outputs)
        sums = [zeros() if part is None else part.each(Moments.on_host) for part in total]
        for part in sums:
            check_values(self.features.kernel, part.z_sums)
        return sums


# What is whitened row by row ----------------------------------------------------------------------


class WhiteningPlan(NamedTuple):
    """What is done to each block of features before its products are formed."""

    size: int  # features to whiten
    center: bool  # whether to subtract their mean over the landmarks
    dtype: np.dtype  # precision of the products


def accuracy_plan(
    C: Floats, shift: float, dtype: np.dtype, may_center: bool, n: float = np.inf
) -> WhiteningPlan:
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
        return WhiteningPlan(p, False, np.dtype(np.float64))
    choices = [(0, False)] + [(0, True)] * may_center
    # what is left to whiten in the moments costs 2 p^3; for few rows more than in every row
    sizes = [size for size in _WHITENED if size < p]
    choices += [(s, False) for s in sizes if n * s * (2 * p - s) + 2.0 * p**3 < n * p * p]
    mu = C[-1, -1] ** -2.0  # the last pivot, squared
    # float32 products err at random and average out; sums over blocks are float64 in any case
    kinds: list[tuple[type, float]] = [
        (np.float64, allowed_square(mu, shift, np.float64, 1.0, _DOUBLE_LOSS))
    ]
    if dtype == np.float32:
        limit = allowed_square(mu, shift, np.float32, p**-0.5, _SINGLE_LOSS)
        kinds.insert(0, (np.float32, limit))
    most = max(limit for _, limit in kinds)

    @functools.cache
    def squared(size: int, center: bool) -> float:
        """Return the largest eigenvalue, squared, of what is left of K~; roughly if above most."""
        if center:
            return top_centered(C, enough=most)
        return top_eigenvalue(C, size, enough=most**0.5) ** 2

    for kind, limit in kinds:
        for size, center in choices:
            if squared(size, center) <= limit:
                return WhiteningPlan(size, center, np.dtype(kind))
    return WhiteningPlan(p, False, np.dtype(np.float64))


def allowed_square(mu: float, shift: float, kind: type, share: float, loss: float) -> float:
    """Return what lambda^2 may be for an estimated loss, see `accuracy_plan`.

    `share` is that of the rounding of `kind` which does not average out.
    """
    allowed = mu * (mu + shift) * min(0.25, loss * np.sqrt((mu + shift) / mu))
    return allowed / (float(np.finfo(kind).eps) * share)


class Whitening:
    """What a plan does to each block of features F, Z = F C'; it can be sent to workers.

    `mean` is subtracted from features where the plan centers them. Components that are `ordered`,
    those of an eigendecomposition, are no triangle.
    """

    def __init__(
        self,
        components: Floats,
        plan: WhiteningPlan,
        mean: Floats | None = None,
        ordered: bool = False,
    ) -> None:
        self.components, self.plan, self.ordered = components, plan, ordered
        self.mean = None if mean is None else mean.astype(plan.dtype)

    @functools.cached_property
    def _prepared(self) -> tuple[list[tuple[slice, Floats]], Floats, threading.local]:
        """Columns of C' without the zeros below them, B' of `PartlyWhitened`, and a buffer."""
        C, (size, _, dtype) = self.components, self.plan
        ends = [*range(_TRIANGLE, size, _TRIANGLE), size]
        steps = [
            (slice(a, b), np.ascontiguousarray(C[a:b, :b].T, dtype=dtype))
            for a, b in zip([0, *ends], ends, strict=False)
        ]
        share = PartlyWhitened(C, size).share().T.astype(dtype)
        # the last columns first, as each needs those before it
        return steps[::-1], share, threading.local()

    def apply(self, F: Array) -> Array:
        """Return a block of features, whitened as far as the plan says; it may be F itself."""
        size = self.plan.size
        if self.mean is not None:
            return np.subtract(F, self.mean, out=F)
        if self.ordered:
            return F @ self.components.T
        if size:
            steps, share, memory = self._prepared
            if len(getattr(memory, "product", ())) < len(F):  # fresh memory costs page faults
                memory.product = np.empty((len(F), share.shape[1]), dtype=share.dtype)
            for columns, right in steps:
                F[:, columns] = F[:, : columns.stop] @ right
            F[:, size:] -= np.matmul(F[:, :size], share, out=memory.product[: len(F)])
        return F

    def on(self, place: Place) -> Callable[[Array], Array]:
        """Return `apply` for tensors on a device."""
        C, s = self.components, self.plan.size
        if self.mean is not None:
            center = place.moved(self.mean)
            return lambda F: F.sub_(center)
        if s == len(C) or self.ordered:
            full = place.moved(C.T)
            return lambda F: F @ full
        if s == 0:
            return lambda F: F
        first, share = place.moved(C[:s, :s].T), place.moved(PartlyWhitened(C, s).share().T)

        def apply(F: Array) -> Array:
            F[:, :s] = F[:, :s] @ first
            F[:, s:].addmm_(F[:, :s], share, alpha=-1.0)
            return F

        return apply

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_prepared"}


class WhitenedFeatures(RowMap):
    """x -> the features of x, of which a plan whitens some, in float64."""

    def __init__(self, features: LandmarkFeatures, whitening: Whitening) -> None:
        self.features, self.whitening, self.width = features, whitening, features.m

    def __call__(self, rows: Rows, out: Floats | None = None) -> Floats:
        values = np.empty((n_rows(rows), self.width)) if out is None else out
        for chunk in row_slices(len(values), self.features.cache_rows(rows, values.dtype)):
            self.whitening.apply(self.features(take(rows, chunk), values[chunk]))
        return values
