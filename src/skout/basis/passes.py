"""The pass over the rows of a fit: blocks of rows and targets in, moments out."""

from __future__ import annotations

import copy
import functools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, row_slices, take, unique
from .._numerics.linalg import symmetric_eigen, triangle_gram
from .._numerics.namespace import cast, flatnonzero, namespace, numpy_of
from ..rows import Memory, Reduction, Source
from ..solvers.holed import block_moments, check_masks
from ..solvers.moments import Moments
from .features import LandmarkFeatures, Projection, check_values
from .whitening import Whitening

__all__ = ["BlockMoments", "KnownRows", "Sample", "principal"]

# Fewer outputs than this are appended to Z as columns, so that Z'T is a part of one product.
_FEW_OUTPUTS = 64
# Landmarks are treated apart if they are at least this share of the rows.
_FEW_LANDMARKS = 0.1
# Adding a number to a sum takes as long as this many operations of a matrix product.
_SUM_COST = 150
# A sample whose features take so many bytes is cut into at least two blocks, for two threads.
_LARGE_BYTES = 2**24


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

    def take(self, index: np.ndarray) -> Sample:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        groups = None if self.groups is None else self.groups[index]
        rows, targets = self.rows.subset(index), self.targets.subset(index)
        return Sample(rows, targets, weights, groups, self.n_groups, self.origin)

    def by_value(self) -> tuple[Sample, np.ndarray | None]:
        """Return the sample with 0/1 targets, and the values that they stand for.

        Rows with equal targets, of which structured outputs have many, need only be added up: Z'T =
        (Z'M) V. Where targets are few, or differ, the sample stays as it is, without values.
        """
        n, d = self.targets.shape
        targets = self.targets.at_hand
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

    def moments_of(self, L: np.ndarray, number: np.ndarray) -> list[Moments]:
        """Return the moments, by group, of rows whose coordinates are rows of the triangle L."""
        groups = np.zeros(len(number), dtype=int) if self.groups is None else self.groups
        parts = []
        for group in range(self.n_groups):
            some = np.flatnonzero(groups == group)
            T = self.targets.take(some).astype(np.float64)
            T = T if self.origin is None else T - self.origin
            weights = None if self.weights is None else self.weights[some]
            all_once = weights is None and np.array_equal(np.sort(number[some]), np.arange(len(L)))
            zz = triangle_gram(L) if all_once else None
            parts.append(block_moments(L[number[some]], T, weights, zz=zz))
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

    def split(self, sample: Sample) -> tuple[Sample, Callable[[], list[Moments]] | None]:
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
        out[known] = np.take(self.values[place[known]], self.kept, axis=1)
        others = np.flatnonzero(~known)
        if len(others):
            out[others] = features(take(rows, others))


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
        self.pieces = self._pieces(sample.rows)

    def _pieces(self, rows: Source) -> int:
        """Return one for each group, or as many as rows take no more memory than their features."""
        if self.n_groups == 1 or rows.ndim != 2:
            return 1
        own = rows.shape[1] * rows.precision.itemsize
        return max(1, min(self.n_groups, 8 * self.width // max(1, own)))

    def of(self, sample: Sample, **options: Any) -> list[Moments]:
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
    ) -> list[Moments | None]:
        T = cast(targets, np.float64)
        if self.origin is not None:
            T = T - self.origin
        if groups is None:
            return [self._moments(rows, T, weights, place)]
        parts: list[Moments | None] = [None] * self.n_groups
        for group in namespace(groups).unique(groups):
            own = as_slice(flatnonzero(groups == group))
            w, at = (None if column is None else column[own] for column in (weights, place))
            parts[group] = self._moments(take(rows, own), T[own], w, at)
        return parts

    def _moments(self, rows: Any, T: Any, weights: Any, place: Any) -> Moments:
        if self.prepare is not None:
            return block_moments(self.prepare(self.features(rows)), T, weights)
        wide = self._coordinates(rows, place)
        room = wide if self.wide > self.p else None
        return block_moments(wide[:, : self.p], T, weights, room)

    def combine(
        self, total: list[Moments | None] | None, part: list[Moments | None]
    ) -> list[Moments | None]:
        total = [None] * self.n_groups if total is None else total
        found = [self._sum(old, new) for old, new in zip(total, part, strict=True)]
        check_masks(found, self.p)
        return found

    def _sum(self, old: Moments | None, new: Moments | None) -> Moments | None:
        if old is None or new is None:
            return old if new is None else new.in_double()
        old += new
        return old

    def finish(self, total: list[Moments | None]) -> list[Moments | None]:
        found = [None if part is None else part.here() for part in total]
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


def principal(
    features: LandmarkFeatures, components: np.ndarray, rows: Source
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates' principal axes V' C over all rows, and their mean squares (5.7).

    Z'Z / n = V diag(values) V' for coordinates Z = features(rows) C'.
    """
    covariance = rows.reduce(_Squares(Projection(features, components.T))) / len(rows)
    values, V = symmetric_eigen(covariance)
    return V.T @ components, np.maximum(values, 0.0)


class _Squares(Reduction):
    """Rows -> Z'Z, the sum of the products of their coordinates, on the host or a card."""

    def __init__(self, projection: Any) -> None:
        self.projection, self.width = projection, projection.width

    def most_rows(self, n: int) -> int | None:
        return self.projection.most_rows(n)

    def __call__(self, rows: Any, *beside: Any) -> Any:
        Z = cast(self.projection(rows), np.float64)
        return Z.T @ Z

    def finish(self, total: Any) -> np.ndarray:
        return numpy_of(total)

    def on(self, place: Any) -> _Squares:
        return _Squares(self.projection.on(place))
