"""Sufficient statistics of ridge regression, and the pass over the rows that sums them.

`Moments` are those of outputs that have the same rows, `MaskedMoments` a set of them where targets
are missing; they add up over blocks of rows, folds and workers. `BlockMoments` makes them of a
`TrainingSample`, block by block.
"""

from __future__ import annotations

import copy
import functools
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from .._numerics.arrays import (
    cast,
    contiguous,
    flatnonzero,
    gram,
    is_tensor,
    n_rows,
    namespace,
    numpy_of,
    ones,
    row_slices,
    sqrt,
    take,
    tall_product,
    unique,
    unique_columns,
)
from .._numerics.estimators import lasting
from .._numerics.linalg import congruence, triangle_gram, triangular_product
from .._numerics.typing import Array, Floats, Ints, Matrix, Rows, Weights
from .._numerics.validation import warn_user
from ..kernels import Kernel
from ..rows import Memory, Place, Reduction, RowMap, Source, limits
from .features import LandmarkFeatures, PartlyWhitened, Whitening, check_values


@dataclass
class Moments:
    """The sufficient statistics of ridge regression of T on Z; they add and subtract."""

    weight: float  # sum of the sample weights, n where there are none
    zz: Array  # Z'Z, (p, p)
    zt: Array  # Z'T, (p, d)
    tt: Array  # the diagonal of T'T, all that a squared error needs, (d,)
    z_sum: Array  # the sum of the rows of Z, (p,)
    t_sum: Array  # and of T, (d,)
    count: float = np.nan  # rows of positive weight; NaN where they were not counted
    partly: PartlyWhitened | None = None  # how Z become coordinates, where they are none

    @classmethod
    def zeros(cls, p: int, d: int) -> Moments:
        """Return the moments of no rows."""
        square, cross, d_sum, p_sum = np.zeros((p, p)), np.zeros((p, d)), np.zeros(d), np.zeros(p)
        return cls(0.0, square, cross, d_sum, p_sum, d_sum.copy(), 0.0)

    @classmethod
    def of_block(
        cls,
        Z: Array,
        T: Matrix,
        weights: Array | None,
        wide: Floats | None = None,
        zz: Array | None = None,
    ) -> Moments:
        """Return the moments of a block of rows, in arrays or tensors as Z is; T is in float64.

        Z is scaled in place when there are weights. An array `wide`, (b, p + d + 1), begins with
        Z: its other columns take T, and all products are one. `zz` is Z'Z, where it is known.
        """
        p, root = Z.shape[1], ones(len(Z), Z) if weights is None else sqrt(weights)
        if weights is not None:
            Z *= cast(root[:, None], Z.dtype)
        if sparse.issparse(T):
            S: Any = sparse.diags_array(root) @ T
            cross = (S.T.tocsr().astype(Z.dtype) @ Z).T.astype(np.float64, order="C")
            z_sum = (root.astype(Z.dtype) @ Z).astype(np.float64)
            zz, squares = Z.T @ Z if zz is None else zz, S.multiply(S).sum(axis=0)
            n = float(np.count_nonzero(root))
            zz = cast(zz, np.float64)
            return cls(float(root @ root), zz, cross, squares, z_sum, S.T @ root, n)
        T = T * root[:, None]
        right = namespace(T).concatenate([T, root[:, None]], 1)
        if wide is None:
            zz = gram(Z) if zz is None else zz
            cross = tall_product(cast(right, Z.dtype), Z).T
        else:
            wide[:, p:] = right
            products = gram(wide)
            zz, cross = products[:p, :p], products[:p, p:]
        zz, cross = cast(zz, np.float64), cast(cross, np.float64)
        weight: Any = root @ root
        count: Any = (root > 0.0).sum()
        if not is_tensor(Z):  # whose host does not wait
            weight, count = float(weight), float(count)
        return cls(weight, zz, cross[:, :-1], (T * T).sum(0), cross[:, -1], T.T @ root, count)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients, (p, d)."""
        return self.zt.shape

    @property
    def codes(self) -> Ints:
        """The set of outputs with equal rows that each output is in; see `MaskedMoments`."""
        return np.zeros(self.zt.shape[1], dtype=np.intp)

    def column_sets(self) -> list[slice | Ints]:
        """Return the outputs that have the same rows: here all of them."""
        return [slice(None)]

    def of_columns(self, columns: slice | Ints) -> Moments:
        """Return the moments of some outputs."""
        if isinstance(columns, slice):
            return self
        tt, t_sum = self.tt[columns], self.t_sum[columns]
        return replace(self, zt=self.zt[:, columns], tt=tt, t_sum=t_sum)

    def each(self, function: Callable[[Moments], Moments]) -> Moments:
        """Return a function of these moments; `MaskedMoments` apply it to those of each set."""
        return function(self)

    def on_host(self, kernel: Kernel) -> Moments:
        """Return the moments in arrays; those of tensors on a device are copied.

        Raise where values of the kernel were not finite, which the sum of rows shows.
        """
        check_values(kernel, numpy_of(self.z_sum))
        if not is_tensor(self.zz):
            return self
        names = ("zz", "zt", "tt", "z_sum", "t_sum")
        arrays: Any = {name: numpy_of(contiguous(getattr(self, name))) for name in names}
        return replace(self, weight=float(self.weight), count=float(self.count), **arrays)

    def __iadd__(self, other: Moments) -> Moments:  # type: ignore[misc]  # which has no sign
        if not isinstance(other, Moments):  # those of missing targets know how
            return NotImplemented
        self.weight += other.weight
        self.count += other.count
        for name in ("zz", "zt", "tt", "z_sum", "t_sum"):
            total = getattr(self, name)
            total += getattr(other, name)
        return self

    def __sub__(self, other: Moments) -> Moments:
        return self.__add__(other, -1.0)

    def __add__(self, other: Moments, sign: float = 1.0) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        names = ("weight", "zz", "zt", "tt", "z_sum", "t_sum", "count")
        return Moments(*(getattr(self, name) + sign * getattr(other, name) for name in names))

    def map(self, M: Floats) -> Moments:
        """Return the moments of Z M', for a lower triangular M."""
        zz, zt = congruence(M, self.zz), triangular_product(M, self.zt)
        return replace(self, zz=zz, zt=zt, z_sum=M @ self.z_sum, partly=None)

    def whitened(self) -> Moments:
        """Return the moments of coordinates."""
        return self if self.partly is None else self.map(self.partly.finish())

    def shifted(self, v: Floats) -> Moments:
        """Return the moments of Z + 1 v'."""
        # Z'Z + s v' + v (s + n v)' as one product
        left = np.column_stack([self.z_sum, v])
        zz = left @ np.vstack([v, self.z_sum + self.weight * v])
        zz += self.zz
        zt = self.zt + np.outer(v, self.t_sum)
        return replace(self, zz=zz, zt=zt, z_sum=self.z_sum + self.weight * v, partly=None)

    def of_values(self, values: Floats) -> Moments:
        """Return the moments of the targets T V from those of T, whose rows have a single 1."""
        tt = self.tt @ values**2
        return replace(self, zt=self.zt @ values, tt=tt, t_sum=self.t_sum @ values)


# Missing targets ----------------------------------------------------------------------------------


@dataclass
class MaskedMoments:
    """The moments of outputs that have different rows; they add and subtract.

    Outputs that have the same rows are a set, and share one Z'Z: k sets take k p^2 numbers.
    """

    codes: Ints  # the set that an output is in, (d,)
    parts: list[Moments]  # of each set

    @classmethod
    def of_block(cls, Z: Array, T: Array, missing: Array, weights: Array | None) -> MaskedMoments:
        """Return the moments of a block, of which some targets are `missing`.

        Z is scaled in place when there are weights. Z'Z over the rows that have an output is a sum
        over these, or over all rows less those that have it not, whichever are fewer.
        """
        xp, root = namespace(Z), ones(len(Z), Z) if weights is None else sqrt(weights)
        if weights is not None:
            Z *= cast(root[:, None], Z.dtype)
        T = xp.where(missing, 0.0, T) * root[:, None]
        zt = cast(tall_product(cast(T, Z.dtype), Z).T, np.float64)
        tt, t_sum, observed = (T * T).sum(0), (T * root[:, None]).sum(0), cast(~missing, np.float64)
        weight, count = ((observed * w[:, None]).sum(0) for w in (root * root, root > 0.0))
        hidden, short, everything = numpy_of(missing), cast(root, Z.dtype), None
        first, codes = unique_columns(hidden)
        parts = []
        for k, column in enumerate(first):
            mask, columns = hidden[:, column], np.flatnonzero(codes == k)
            few = np.flatnonzero(mask if 2 * mask.sum() <= len(mask) else ~mask)
            zz, z_sum = gram(Z[few]), Z[few].T @ short[few]
            if 2 * mask.sum() <= len(mask):
                everything = (gram(Z), Z.T @ short) if everything is None else everything
                zz, z_sum = everything[0] - zz, everything[1] - z_sum
            zz, z_sum = cast(zz, np.float64), cast(z_sum, np.float64)
            sums = (zt[:, columns], tt[columns], z_sum, t_sum[columns])
            parts.append(Moments(weight[column], zz, *sums, count[column]))
        return cls(codes, parts)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients, (p, d)."""
        return len(self.parts[0].zt), len(self.codes)

    def column_sets(self) -> list[slice | Ints]:
        """Return the outputs of each set."""
        return [np.flatnonzero(self.codes == code) for code in range(len(self.parts))]

    def of_columns(self, columns: slice | Ints) -> Moments:
        """Return the moments of some outputs of a set."""
        numbers = np.arange(len(self.codes))[columns]
        code = self.codes[numbers[0]]
        members = np.flatnonzero(self.codes == code)
        part: Moments = self.parts[code]
        return part.of_columns(np.searchsorted(members, numbers))

    def each(self, function: Callable[[Moments], Moments]) -> MaskedMoments:
        """Apply a function to the moments of each set."""
        return MaskedMoments(self.codes, [function(part) for part in self.parts])

    def __iadd__(self, other: AnyMoments) -> MaskedMoments:  # type: ignore[misc]
        """Add, in the memory of these moments where no set is divided."""
        if len(np.unique(np.column_stack([self.codes, other.codes]), axis=0)) > len(self.parts):
            return self + other
        for part, columns in zip(self.parts, self.column_sets(), strict=True):
            part += other.of_columns(columns)
        return self

    def __sub__(self, other: AnyMoments) -> MaskedMoments:
        return self.__add__(other, operator.sub)

    def __rsub__(self, other: Moments) -> MaskedMoments:
        return MaskedMoments(other.codes, [other]) - self

    def __add__(
        self, other: AnyMoments, combine: Callable[[Moments, Moments], Moments] = operator.add
    ) -> MaskedMoments:
        """Combine the moments of outputs that have the same rows in both."""
        both = np.column_stack([self.codes, other.codes])
        pairs, codes = np.unique(both, axis=0, return_inverse=True)
        sets = [np.flatnonzero(codes.reshape(-1) == k) for k in range(len(pairs))]
        parts = [combine(self.of_columns(columns), other.of_columns(columns)) for columns in sets]
        return MaskedMoments(codes.reshape(-1), parts)

    __radd__ = __add__


AnyMoments: TypeAlias = Moments | MaskedMoments


def block_moments(
    Z: Array, T: Matrix, weights: Array | None, wide: Floats | None = None, zz: Array | None = None
) -> AnyMoments:
    """Return the moments of a block as `Moments.of_block` does, or those of targets with NaN."""
    if not sparse.issparse(T):
        missing = namespace(T).isnan(T)
        if bool(missing.any()):
            return MaskedMoments.of_block(Z, T, missing, weights)
    return Moments.of_block(Z, T, weights, wide, zz)


def sum_moments(parts: Sequence[AnyMoments], chosen: np.ndarray | None = None) -> AnyMoments:
    """Return the sum of the chosen parts, in their order; None are all of them."""
    picked = parts if chosen is None else [parts[int(i)] for i in np.flatnonzero(chosen)]
    if len(picked) == 1:
        return picked[0]
    if not picked:
        return Moments.zeros(*parts[0].shape)
    total = copy.deepcopy(picked[0])
    for part in picked[1:]:
        total += part
    return total


def mean_of_observed(T: Floats) -> Floats:
    """Return the mean of each output over the rows that have it, 0 where none has."""
    observed = ~np.isnan(T)
    sums = np.where(observed, T, 0.0).sum(axis=0, dtype=np.float64)
    means: Floats = sums / np.maximum(observed.sum(axis=0), 1)
    return means


def check_outputs_observed(weight: Array) -> None:
    """Raise where an output has no row at all, by the weights of the rows that have it."""
    empty = np.flatnonzero(np.atleast_1d(numpy_of(weight)) <= 0.0)
    if len(empty):
        raise ValueError(
            f"y has no number in output {int(empty[0])} ({len(empty)} such) on rows of positive "
            "weight: leave these outputs out."
        )


def outputs_by_rows(T: Floats) -> list[tuple[Ints, Ints]]:
    """Return outputs that have the same rows, and the numbers of these rows, for each mask."""
    observed = ~np.isnan(T)
    first, codes = unique_columns(observed)
    return [
        (np.flatnonzero(codes == k), np.flatnonzero(observed[:, column]))
        for k, column in enumerate(first)
    ]


# The pass over the rows ---------------------------------------------------------------------------

# Round numbers: half and double of the first three take within 6 % of the CPU seconds of a fit
# (benchmarks/constants.py).

# Fewer outputs than this are appended to Z as columns, so that Z'T is a part of one product: by
# itself it would read Z again. Of more, the products T'T, which nobody needs, would cost more.
_FEW_OUTPUTS = 64
# Landmarks are treated apart if they are at least this share of the rows: what it spares, their
# kernel values and whitening, is that share of the pass, and a sample is divided for it.
_FEW_LANDMARKS = 0.1
# Features of rows that are known are computed all the same if these are at most this share: the
# others would have to be copied out of the block.
_FEW_KNOWN = 0.1
# Adding a number to a sum, which reads and writes memory, takes about as long as this many
# operations of a matrix product, which runs in cache.
_SUM_COST = 150
# Targets on disk or on a cluster: a value near them is the mean of so many, a block. Any value
# within some standard deviations keeps the digits.
_ORIGIN_ROWS = 8192
# Training rows by which a model is compared with the mean of the targets: their error is known to
# about 5 % then, and few predictions are made. Fewer than 30 say too little about the spread.
_SAMPLED, _FEWEST = 200, 30


@dataclass(frozen=True)
class TrainingSample:
    """Encoded rows with their targets, weights and groups."""

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
        return mean_of_observed(np.asarray(self.targets.first_rows(_ORIGIN_ROWS)))

    def warn_of_far_mean(self, projection: RowMap, n_jobs: int | None, *, far_from: float) -> None:
        """Warn where a model without intercept is worse than the mean of targets far from zero.

        `projection` maps rows to predictions; outputs are far whose mean is more than `far_from`
        standard deviations from zero. Errors are compared to the variance of all outputs, so that
        one of many coordinates does not count, on a sample of the training rows. Targets that are
        not in memory are not read again.
        """
        T = self.targets.resident
        if T is None:
            return
        index = np.arange(len(T)) if self.weights is None else np.flatnonzero(self.weights)
        index = index[np.linspace(0, len(index) - 1, min(len(index), _SAMPLED)).astype(int)]
        if len(index) < _FEWEST:
            return
        observed = np.ma.masked_invalid(np.asarray(T[index], dtype=np.float64))
        mean, spread = observed.mean(axis=0).filled(0.0), observed.std(axis=0).filled(0.0)
        varies = spread > 1e-12 * np.abs(mean)  # else it is constant but for rounding
        far = varies & (np.abs(mean) > far_from * spread)
        if not far.any():
            return
        rows = Memory(self.rows.take(index))
        F = rows.map(projection, observed.shape[1:], np.float64, n_jobs=n_jobs)
        errors = np.sqrt(((observed - F) ** 2).mean(axis=0).filled(0.0))
        relative = np.where(far, errors / np.where(far, spread, 1.0), 0.0)
        worst = int(np.argmax(relative))
        if (errors[far] ** 2).sum() > (spread**2).sum():
            warn_user(
                f"y has the mean {mean[worst]:.4g} and the standard deviation "
                f"{spread[worst]:.4g}, and without an intercept the predictions of training rows "
                f"are {relative[worst]:.2g} standard deviations off (root mean square), further "
                "than the mean is: give fit_intercept=True, or subtract the mean."
            )

    def take(self, index: Ints) -> TrainingSample:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[index]
        groups = None if self.groups is None else self.groups[index]
        rows, targets = self.rows.subset(index), self.targets.subset(index)
        return replace(self, rows=rows, targets=targets, weights=weights, groups=groups)

    def by_group(self, known_rows: KnownRows | None) -> tuple[TrainingSample, KnownRows | None]:
        """Return the sample with the rows of a group together, and the known rows of that order.

        Blocks then belong to one group each, and a pass holds few sums at a time. Where rows are
        not read in any order at no cost, both stay as they are.
        """
        if self.groups is None:
            return self, known_rows
        order = np.argsort(self.groups, kind="stable")
        rows, targets = self.rows.reordered(order), self.targets.reordered(order)
        if rows is None or targets is None or not isinstance(self.weights, np.ndarray | None):
            return self, known_rows
        if known_rows is not None:
            known_rows = replace(known_rows, place=known_rows.place[order])
        weights = None if self.weights is None else self.weights[order]
        groups = self.groups[order]
        return replace(self, rows=rows, targets=targets, weights=weights, groups=groups), known_rows

    def by_value(self) -> tuple[TrainingSample, Floats | None]:
        """Return the sample with indicators of the distinct targets, and these targets.

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
    """Features of those rows of a sample that are landmarks: entries of their K W'."""

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
            T: Any = part.targets.take(members)
            T = T.astype(np.float64)
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
        is_known = place >= 0
        if is_known.sum() <= _FEW_KNOWN * len(place):
            features(rows, out)  # of the few that are known too: to leave them out takes a copy
        else:
            others = np.flatnonzero(~is_known)
            if len(others):
                out[others] = features(take(rows, others))
        out[is_known] = np.take(self.values[place[is_known]], self.kept, axis=1)
        return out


class BlockMoments(Reduction[Any]):
    """The moments of (whitening(features(rows)), targets) of each group of rows of a sample.

    Blocks are arrays, or tensors on a device, where sums stay until the end, in float64. They are
    given the rows, targets, weights and groups of the sample, and the `place` of known rows.
    """

    features: LandmarkFeatures
    whitening: Whitening
    known_rows: KnownRows | None
    p: int
    dtype: np.dtype
    n_groups: int
    origin: Floats | None
    __getstate__ = lasting

    def __init__(
        self,
        features: LandmarkFeatures,
        whitening: Whitening,
        sample: TrainingSample,
        known_rows: KnownRows | None = None,
    ) -> None:
        self.features, self.whitening, self.known_rows = features, whitening, known_rows
        self.prepare: Callable[[Array], Array] | None = None  # the whitening of tensors
        self.p, self.dtype = len(whitening.components), np.dtype(whitening.plan.dtype)
        self.n_groups, self.origin = sample.n_groups, sample.origin
        self.n_outputs: int = sample.targets.shape[1]
        self.wide: int = self.p + self.n_outputs + 1 if self.n_outputs < _FEW_OUTPUTS else self.p
        self.in_place: bool = self.dtype == sample.rows.precision and self.p == features.m
        self.width: int = max(1, features.m * self.dtype.itemsize // 8)
        self.shared: tuple[int, int] = (2, self.width)
        rows, groups = sample.rows, sample.groups
        if groups is not None and rows.ndim == 2 and not (groups[1:] >= groups[:-1]).all():
            # one for each group, or as many as rows take no more memory than their features
            row_bytes = max(1, rows.shape[1] * rows.precision.itemsize)
            self.pieces: int = max(1, min(self.n_groups, 8 * self.width // row_bytes))

    def on(self, place: Place) -> BlockMoments:
        moved = copy.copy(self)
        moved.features = self.features.on(place.device, place.dtype)
        moved.prepare = self.whitening.on(place)
        moved.origin = None if self.origin is None else place.moved(self.origin, np.float64)
        return moved

    @functools.cached_property
    def _memory(self) -> threading.local:
        """A buffer of each thread: fresh memory costs page faults."""
        return threading.local()

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
            members: Any = flatnonzero(groups == group)
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
            if self.known_rows is None or place is None:
                F = self.features(few, out)
            else:
                F = self.known_rows.features(self.features, few, place[chunk], out)
            coordinates = self.whitening.apply(F.astype(self.dtype, copy=False))
            if coordinates is not out:
                Z[chunk] = coordinates
        return block_moments(Z, T, weights, wide if self.wide > self.p else None)

    def combine(
        self, total: list[AnyMoments | None] | None, part: list[AnyMoments | None]
    ) -> list[AnyMoments | None]:
        sums: list[Any] = [None] * self.n_groups if total is None else total
        for group, new in enumerate(part):
            if sums[group] is None:
                sums[group] = new
            elif new is not None:
                sums[group] += new
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
        kernel, shape = self.features.kernel, (self.p, self.n_outputs)
        return [
            Moments.zeros(*shape) if part is None else part.each(lambda sums: sums.on_host(kernel))
            for part in total
        ]
