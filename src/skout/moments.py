"""Moments: the sufficient statistics of ridge regression, which add up over blocks of rows."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from ._arrays import float_dtype, n_rows, row_slices, take, unique
from ._lazy import is_streamed, subset
from ._linalg import PartlyWhitened, congruence, triangle_gram, triangular_product
from ._threads import map_blocks
from .gram import LandmarkFeatures, block_rows

__all__ = ["Block", "Moments", "Sample", "accumulate", "sum_moments"]

# With fewer outputs than this, products with the targets cost least as more columns of Z'Z.
_FEW_OUTPUTS = 64
# Share of the rows from which on landmarks are told from the others.
_FEW_LANDMARKS = 0.1
# Operations of a product that cost as much as to add one number to a sum.
_SUM_COST = 150
# Bytes of features from which on a sample is cut for threads alone.
_LARGE_BYTES = 2**24


@dataclass
class Moments:
    """The sufficient statistics of ridge regression of T on Z; they add and subtract.

    Attributes
    ----------
    weight : float
        Sum of the sample weights, n when there are none.
    zz : ndarray of shape (p, p)
        Z'Z.
    zt : ndarray of shape (p, d)
        Z'T.
    tt : ndarray of shape (d,)
        The diagonal of T'T, all that a squared error needs.
    z_sum, t_sum : ndarray of shape (p,) and (d,)
        Sums of the rows of Z and of T.
    partly : PartlyWhitened, optional
        How Z become coordinates, where they are features of which only some are whitened.
    """

    weight: float
    zz: np.ndarray
    zt: np.ndarray
    tt: np.ndarray
    z_sum: np.ndarray
    t_sum: np.ndarray
    partly: PartlyWhitened | None = None

    @classmethod
    def zeros(cls, p: int, d: int) -> Moments:
        """Return the moments of no rows."""
        return cls(0.0, np.zeros((p, p)), np.zeros((p, d)), np.zeros(d), np.zeros(p), np.zeros(d))

    @classmethod
    def of_block(
        cls,
        Z: np.ndarray,
        T: np.ndarray,
        weights: np.ndarray | None,
        wide: np.ndarray | None = None,
        zz: np.ndarray | None = None,
    ) -> Moments:
        """Return the moments of one block.

        Parameters
        ----------
        Z : ndarray of shape (b, p)
            Scaled in place when there are weights.
        T : ndarray or CSR matrix of shape (b, d)
            In float64.
        weights : ndarray of shape (b,), optional
        wide : ndarray of shape (b, p + d + 1), optional
            An array that begins with Z: its other columns take T, and all products are one.
        zz : ndarray of shape (p, p), optional
            Z'Z, where it is known.
        """
        p, root = Z.shape[1], np.ones(len(Z)) if weights is None else np.sqrt(weights)
        if weights is not None:
            Z *= root[:, None].astype(Z.dtype)
        if sparse.issparse(T):
            return cls._of_sparse(Z, sparse.diags_array(root) @ T, root, zz)
        T = T * root[:, None]
        right = np.column_stack([T, root])
        if wide is None:
            zz = Z.T @ Z if zz is None else zz
            cross = (right.astype(Z.dtype, copy=False).T @ Z).T
        else:
            wide[:, p:] = right
            products = wide.T @ wide  # NumPy sees the symmetry and does half the work
            zz, cross = products[:p, :p], products[:p, p:]
        cross = cross.astype(np.float64)
        squares = np.einsum("ij,ij->j", T, T)
        return cls(float(root @ root), zz, cross[:, :-1], squares, cross[:, -1], T.T @ root)

    @classmethod
    def _of_sparse(cls, Z: np.ndarray, T: Any, root: np.ndarray, zz: np.ndarray | None) -> Moments:
        cross = (T.T.tocsr().astype(Z.dtype) @ Z).T.astype(np.float64, order="C")
        z_sum = (root.astype(Z.dtype) @ Z).astype(np.float64)
        zz = Z.T @ Z if zz is None else zz
        return cls(float(root @ root), zz, cross, T.multiply(T).sum(axis=0), z_sum, T.T @ root)

    def add(self, other: Moments) -> None:
        """Add other moments in place, in float64."""
        self.weight += other.weight
        for name in ("zz", "zt", "tt", "z_sum", "t_sum"):
            total = getattr(self, name)
            total += getattr(other, name)

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, 1.0)

    def __sub__(self, other: Moments) -> Moments:
        return self._combine(other, -1.0)

    def _combine(self, other: Moments, sign: float) -> Moments:
        return Moments(
            self.weight + sign * other.weight,
            self.zz + sign * other.zz,
            self.zt + sign * other.zt,
            self.tt + sign * other.tt,
            self.z_sum + sign * other.z_sum,
            self.t_sum + sign * other.t_sum,
        )

    def map(self, M: np.ndarray) -> Moments:
        """Return the moments of Z M', for a lower triangular M."""
        zz = congruence(M, self.zz)
        zt = triangular_product(M, self.zt)
        return Moments(self.weight, zz, zt, self.tt, M @ self.z_sum, self.t_sum)

    def of_values(self, values: np.ndarray) -> Moments:
        """Return the moments of the targets T V, where these are of a 0/1 matrix T, one 1 a row."""
        tt = self.tt @ values**2
        return replace(self, zt=self.zt @ values, tt=tt, t_sum=self.t_sum @ values)

    def whitened(self) -> Moments:
        """Return the moments of coordinates."""
        return self if self.partly is None else self.map(self.partly.finish())

    def shifted(self, v: np.ndarray) -> Moments:
        """Return the moments of Z + 1 v'."""
        # Z'Z + s v' + v (s + n v)' as one product
        left = np.column_stack([self.z_sum, v])
        zz = left @ np.vstack([v, self.z_sum + self.weight * v])
        zz += self.zz
        zt = self.zt + np.outer(v, self.t_sum)
        return Moments(self.weight, zz, zt, self.tt, self.z_sum + self.weight * v, self.t_sum)


def sum_moments(parts: list[Moments], chosen: np.ndarray) -> Moments:
    """Return the sum of the chosen parts, in their order."""
    picked = [part for part, take_it in zip(parts, chosen, strict=True) if take_it]
    if len(picked) == 1:
        return picked[0]
    total = Moments.zeros(*parts[0].zt.shape)
    for part in picked:
        total.add(part)
    return total


class Part(NamedTuple):
    """Where rows of one group lie: in a stretch of rows, which may have those of others too."""

    group: int
    where: slice | np.ndarray
    stretch: slice


class Block(NamedTuple):
    """Some rows of a sample, as they are read."""

    group: int
    where: slice | np.ndarray
    rows: Any
    targets: Any
    weights: np.ndarray | None


@dataclass(frozen=True)
class Sample:
    """Rows with their targets, as the moments want them.

    Attributes
    ----------
    rows : encoded rows, n of them
    targets : ndarray of shape (n, d), or CSR matrix, or lazy rows
    weights : ndarray of shape (n,), optional
    groups : ndarray of int, shape (n,), optional
        Group of each row, 0 to n_groups - 1: each group gets moments of its own.
    n_groups : int
    origin : ndarray of shape (d,), optional
        Subtracted from the targets: what is far from zero would lose its last digits in products.
    """

    rows: Any
    targets: Any
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    n_groups: int = 1
    origin: np.ndarray | None = None

    def take(self, index: np.ndarray) -> Sample:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        groups = None if self.groups is None else self.groups[index]
        rows, targets = subset(self.rows, index), subset(self.targets, index)
        return Sample(rows, targets, weights, groups, self.n_groups, self.origin)

    @property
    def is_streamed(self) -> bool:
        """Whether rows or targets are read when they are used."""
        return is_streamed(self.rows, self.targets)

    def read(self, part: Part) -> Block:
        """Return the rows of a part that `parts` yields, and their targets in float64."""
        some = part.where
        rows, T = take(self.rows, some), self.targets[some].astype(np.float64)
        if self.origin is not None:
            T -= self.origin
        weights = None if self.weights is None else self.weights[some]
        return Block(part.group, some, rows, T, weights)

    def reader(self) -> Callable[[Part], Block]:
        """Return `read`, or what reads a stretch of streamed rows once for all of its groups.

        The latter wants the parts in their order, and one thread.
        """
        if self.groups is None or not self.is_streamed:
            return self.read
        held: tuple[slice, Sample] = slice(0), self

        def read(part: Part) -> Block:
            nonlocal held
            if held[0] != part.stretch:
                held = part.stretch, self._read_stretch(part.stretch)
            return held[1].read(_shifted(part, -part.stretch.start))._replace(where=part.where)

        return read

    def _read_stretch(self, some: slice) -> Sample:
        """Return the rows of a stretch, in memory."""
        weights = None if self.weights is None else self.weights[some]
        rows, targets = take(self.rows, some), take(self.targets, some)
        return replace(self, rows=rows, targets=targets, weights=weights, groups=None)

    def by_value(self) -> tuple[Sample, np.ndarray | None]:
        """Return the sample with 0/1 targets, and the values that they stand for.

        Rows with equal targets, of which structured outputs have many, need only be added up: Z'T =
        (Z'M) V. Where targets are few, or differ, the sample stays as it is, without values.
        """
        n, d = self.targets.shape
        if d < _FEW_OUTPUTS or is_streamed(self.targets):
            return self, None
        first, codes = unique(self.targets)
        n_sums = self.n_groups * len(first)
        if 2 * d * (n - n_sums) < _SUM_COST * (n + 2 * n_sums):
            return self, None
        values = self.targets[first].astype(np.float64)
        values = values if self.origin is None else values - self.origin
        ones = (np.ones(n), codes, np.arange(n + 1))
        targets = sparse.csr_matrix(ones, shape=(n, len(first)))
        return replace(self, targets=targets, origin=None), values

    def moments_of(self, L: np.ndarray, number: np.ndarray) -> list[Moments]:
        """Return the moments of rows whose coordinates are rows of a triangle, one a group."""
        groups = np.zeros(len(number), dtype=int) if self.groups is None else self.groups
        parts = []
        for group in range(self.n_groups):
            some = np.flatnonzero(groups == group)
            T = self.targets[some].astype(np.float64)
            T = T if self.origin is None else T - self.origin
            weights = None if self.weights is None else self.weights[some]
            all_once = weights is None and np.array_equal(np.sort(number[some]), np.arange(len(L)))
            zz = triangle_gram(L) if all_once else None
            parts.append(Moments.of_block(L[number[some]], T, weights, zz=zz))
        return parts

    def parts(self, row_bytes: int) -> Iterator[Part]:
        """Yield the rows in their order, those of each group in each stretch.

        Contiguous rows are slices, so that nothing is copied.
        """
        n = n_rows(self.rows)
        if self.groups is None:
            # two threads share a sample that fills no more than a block
            half = math.ceil(n / 2) if n * row_bytes >= _LARGE_BYTES else None
            for some in row_slices(n, block_rows(n, row_bytes, half)):
                yield Part(0, some, some)
            return
        size = block_rows(n, row_bytes)
        for stretch in row_slices(n, size * self._blocks_in_a_stretch(row_bytes)):
            groups = self.groups[stretch]
            for group in np.unique(groups):
                index = stretch.start + np.flatnonzero(groups == group)
                for some in row_slices(len(index), size):
                    yield Part(int(group), _as_slice(index[some]), stretch)

    def _blocks_in_a_stretch(self, row_bytes: int) -> int:
        """Return one for each group, or as many as take no more memory than their features."""
        if getattr(self.rows, "ndim", 1) != 2:
            return 1
        own = self.rows.shape[1] * float_dtype(self.rows).itemsize
        return max(1, min(self.n_groups, row_bytes // max(1, own)))


def _as_slice(index: np.ndarray) -> slice | np.ndarray:
    """Return increasing positions, as a slice if they follow each other."""
    contiguous = index[-1] - index[0] == len(index) - 1
    return slice(int(index[0]), int(index[-1]) + 1) if contiguous else index


def _shifted(part: Part, by: int) -> Part:
    """Return the place of the same rows where so many more, or fewer, come before them."""
    some = part.where
    moved = slice(some.start + by, some.stop + by) if isinstance(some, slice) else some + by
    return part._replace(where=moved)


@dataclass(frozen=True)
class KnownRows:
    """Features that some rows are known to have.

    Attributes
    ----------
    place : ndarray of int, shape (n,)
        For each row of the sample the row of `values`, -1 where there is none.
    values : ndarray of shape (m', m)
    landmark : ndarray of int, shape (m',)
        For each row of `values` the landmark of the basis that it is of, -1 where it is of none.
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
        """Return the rows that are no landmarks, and how to get the moments of those that are.

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
        """Write the features of rows, which have this `place`, into `out`."""
        known = place >= 0
        out[known] = np.take(self.values[place[known]], self.kept, axis=1)
        others = np.flatnonzero(~known)
        if len(others):
            out[others] = features(take(rows, others))


class Progress(Protocol):
    """What keeps the sums over the blocks that are done, see `skout.checkpoint`."""

    def restore(self, sample: Sample, blocks: list[Any]) -> tuple[int, list[Moments | None]]: ...

    def keep(self, done: int, totals: list[Moments | None]) -> None: ...


def accumulate(
    features: LandmarkFeatures,
    sample: Sample,
    *,
    known: KnownRows | None = None,
    prepare: Callable[[np.ndarray], np.ndarray],
    p: int,
    dtype: Any = np.float64,
    n_jobs: int | None = None,
    verbose: bool = False,
    checkpoint: Progress | None = None,
) -> list[Moments]:
    """Return the moments of (prepare(features(rows)), targets), one `Moments` a group.

    Parameters
    ----------
    features : LandmarkFeatures
    sample : Sample
    known : KnownRows, optional
        Features that need not be computed.
    prepare : callable
        Maps a block of features (b, m) to coordinates (b, p); it may work in place.
    p : int
    dtype : numpy dtype, default float64
        Precision of the products within a block; sums over blocks are always float64.
    n_jobs, verbose
        Threads, and whether to show a progress bar.
    checkpoint : optional
        Has the sums over the first blocks, if they were computed before, and keeps them.
    """
    moments = _BlockMoments(features, sample, known, prepare, p, np.dtype(dtype))
    blocks = list(sample.parts(moments.dtype.itemsize * features.m))
    n_outputs = sample.targets.shape[1]
    totals: list[Moments | None] = [None] * sample.n_groups
    done = 0
    if checkpoint is not None:
        done, totals = checkpoint.restore(sample, blocks)
    options: Any = {"read": sample.reader(), "ahead": sample.is_streamed, "n_jobs": n_jobs}
    found = map_blocks(moments, blocks[done:], **options)
    label: Any = {"desc": "moments", "unit": "block", "disable": not verbose}
    with tqdm(total=len(blocks), initial=done, **label) as bar:
        for group, part in found:
            total = totals[group]
            if total is not None:
                total.add(part)
            elif part.zz.dtype == np.float64:  # a first one need not be added to zeros
                totals[group] = part
            else:
                totals[group] = Moments.zeros(p, n_outputs) + part
            done += 1
            if checkpoint is not None:
                checkpoint.keep(done, totals)
            bar.update()
    return [Moments.zeros(p, n_outputs) if total is None else total for total in totals]


class _BlockMoments:
    """The moments of one block of a sample, as the threads of `accumulate` call it."""

    def __init__(
        self,
        features: LandmarkFeatures,
        sample: Sample,
        known: KnownRows | None,
        prepare: Callable[[np.ndarray], np.ndarray],
        p: int,
        dtype: np.dtype,
    ) -> None:
        self.features, self.sample, self.known = features, sample, known
        self.prepare, self.p, self.dtype = prepare, p, dtype
        n_outputs = sample.targets.shape[1]
        self.width = p + n_outputs + 1 if n_outputs < _FEW_OUTPUTS else p
        self.in_place = dtype == float_dtype(sample.rows) and p == features.m
        self.scratch = threading.local()

    def __call__(self, block: Block) -> tuple[int, Moments]:
        """Return the group of a block, and its moments."""
        wide = self._coordinates(block.rows, block.where)
        Z, room = wide[:, : self.p], wide if self.width > self.p else None
        return block.group, Moments.of_block(Z, block.targets, block.weights, room)

    def _coordinates(self, rows: Any, where: slice | np.ndarray) -> np.ndarray:
        """Return this thread's buffer, which begins with the coordinates of some rows."""
        place = None if self.known is None else self.known.place[where]
        wide = _scratch(self.scratch, self.dtype, n_rows(rows), self.width)
        Z = wide[:, : self.p]
        for few in row_slices(len(Z), self.features.cache_rows(rows, self.dtype)):
            room = Z[few] if self.in_place else None
            F = self._block_features(take(rows, few), None if place is None else place[few], room)
            coordinates = self.prepare(F.astype(self.dtype, copy=False))
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


def _scratch(store: Any, dtype: np.dtype, b: int, m: int) -> np.ndarray:
    """Return this thread's (b, m) buffer: fresh memory for each block costs page faults."""
    if getattr(store, "buffer", None) is None or len(store.buffer) < b:
        store.buffer = np.empty((b, m), dtype=dtype)
    return store.buffer[:b]
