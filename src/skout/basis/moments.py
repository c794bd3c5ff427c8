"""Sufficient statistics of ridge regression, which add up over blocks of rows, folds and workers.

`Moments` are those of whole targets, `MaskedMoments` those of targets of which some are missing.
Where the rows of Z are features of which only the first are whitened, `PartlyWhitened` knows how
their moments become those of coordinates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from .._numerics.arrays import (
    cast,
    contiguous,
    gram,
    is_tensor,
    namespace,
    numpy_of,
    ones,
    positions,
    sqrt,
    tall_product,
    unique_columns,
)
from .._numerics.linalg import congruence, triangular_inverse, triangular_product
from .._numerics.types import Array, Floats, Ints, Matrix
from .._numerics.validation import check_total_weight
from ..rows import limits

__all__ = [
    "AnyMoments",
    "MaskedMoments",
    "Moments",
    "PartlyWhitened",
    "check_masks",
    "check_outputs_observed",
    "mean_of_observed",
    "off_diagonal",
    "outputs_by_rows",
    "partial_whitening",
    "sum_moments",
]

# Columns of a triangle that are multiplied at a time.
_TRIANGLE = 256
# The sums of each output that `MaskedMoments` add up one by one.
_SUMS = ("weight", "zt", "tt", "z_sum", "t_sum", "count")


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
    count : float
        Number of the rows of positive weight; NaN where they were not counted.
    partly : PartlyWhitened, optional
        How Z become coordinates, where they are features of which only some are whitened.
    """

    weight: float
    zz: np.ndarray
    zt: np.ndarray
    tt: np.ndarray
    z_sum: np.ndarray
    t_sum: np.ndarray
    count: float = np.nan
    partly: PartlyWhitened | None = None

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
        wide: np.ndarray | None = None,
        zz: np.ndarray | None = None,
    ) -> Moments:
        """Return the moments of one block, in arrays or tensors as Z is.

        Parameters
        ----------
        Z : array of shape (b, p)
            Scaled in place when there are weights.
        T : array or CSR matrix of shape (b, d)
            In float64.
        weights : array of shape (b,), optional
        wide : ndarray of shape (b, p + d + 1), optional
            An array that begins with Z: its other columns take T, and all products are one.
        zz : ndarray of shape (p, p), optional
            Z'Z, where it is known.
        """
        p, root = Z.shape[1], ones(len(Z), Z) if weights is None else sqrt(weights)
        if weights is not None:
            Z *= cast(root[:, None], Z.dtype)
        if sparse.issparse(T):
            return cls._of_sparse(Z, sparse.diags_array(root) @ T, root, zz)
        T = T * root[:, None]
        right = namespace(T).concatenate([T, root[:, None]], 1)
        if wide is None:
            zz = gram(Z) if zz is None else zz
            cross = tall_product(cast(right, Z.dtype), Z).T
        else:
            wide[:, p:] = right
            products = gram(wide)
            zz, cross = products[:p, :p], products[:p, p:]
        cross = cast(cross, np.float64)
        weight, count = root @ root, (root > 0.0).sum()
        if not is_tensor(Z):  # whose host does not wait
            weight, count = float(weight), float(count)
        return cls(weight, zz, cross[:, :-1], (T * T).sum(0), cross[:, -1], T.T @ root, count)

    @classmethod
    def _of_sparse(cls, Z: Floats, T: Matrix, root: Floats, zz: Floats | None) -> Moments:
        cross = (T.T.tocsr().astype(Z.dtype) @ Z).T.astype(np.float64, order="C")
        z_sum = (root.astype(Z.dtype) @ Z).astype(np.float64)
        zz = Z.T @ Z if zz is None else zz
        tt, t_sum, count = T.multiply(T).sum(axis=0), T.T @ root, float(np.count_nonzero(root))
        return cls(float(root @ root), zz, cross, tt, z_sum, t_sum, count)

    def add(self, other: Moments) -> None:
        """Add other moments in place, in float64."""
        self.weight += other.weight
        self.count += other.count
        for name in ("zz", "zt", "tt", "z_sum", "t_sum"):
            total = getattr(self, name)
            total += getattr(other, name)

    def in_double(self) -> Moments:
        """Return the moments with Z'Z in float64."""
        return replace(self, zz=cast(self.zz, np.float64))

    def on_host(self) -> Moments:
        """Return the moments in arrays; those of tensors on a device are copied."""
        if not is_tensor(self.zz):
            return self
        names = ("zz", "zt", "tt", "z_sum", "t_sum")
        arrays = {name: numpy_of(contiguous(getattr(self, name))) for name in names}
        return replace(self, weight=float(self.weight), count=float(self.count), **arrays)

    def column_sets(self) -> list[slice]:
        """Return the outputs that have the same rows: here all of them."""
        return [slice(None)]

    def of_columns(self, columns: slice | Ints) -> Moments:
        """Return the moments of outputs that have the same rows; see `MaskedMoments`."""
        if isinstance(columns, slice):
            return self
        tt, t_sum = self.tt[columns], self.t_sum[columns]
        return replace(self, zt=self.zt[:, columns], tt=tt, t_sum=t_sum)

    def check_weight(self) -> None:
        """Raise where no row has weight."""
        check_total_weight(self.weight)

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, 1.0)

    def __iadd__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):  # those of missing targets know how
            return NotImplemented
        self.add(other)
        return self

    def __sub__(self, other: Moments) -> Moments:
        return self._combine(other, -1.0)

    def _combine(self, other: Moments, sign: float) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        return Moments(
            self.weight + sign * other.weight,
            self.zz + sign * other.zz,
            self.zt + sign * other.zt,
            self.tt + sign * other.tt,
            self.z_sum + sign * other.z_sum,
            self.t_sum + sign * other.t_sum,
            self.count + sign * other.count,
        )

    def map(self, M: np.ndarray) -> Moments:
        """Return the moments of Z M', for a lower triangular M."""
        zz = congruence(M, self.zz)
        zt = triangular_product(M, self.zt)
        return replace(self, zz=zz, zt=zt, z_sum=M @ self.z_sum, partly=None)

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
        return replace(self, zz=zz, zt=zt, z_sum=self.z_sum + self.weight * v, partly=None)


def sum_moments(parts: Sequence[AnyMoments], chosen: np.ndarray | None = None) -> AnyMoments:
    """Return the sum of the chosen parts, in their order; None are all of them."""
    picked = parts if chosen is None else [parts[int(i)] for i in np.flatnonzero(chosen)]
    if len(picked) == 1:
        return picked[0]
    total: AnyMoments = Moments.zeros(*parts[0].zt.shape)
    for part in picked:
        total += part
    return total


# Missing targets ---------------------------------------------------------------------------------


def mean_of_observed(T: Floats) -> Floats:
    """Return the mean of each output over the rows that have it, 0 where none has."""
    observed = ~np.isnan(T)
    sums = np.where(observed, T, 0.0).sum(axis=0, dtype=np.float64)
    return sums / np.maximum(observed.sum(axis=0), 1)


def check_outputs_observed(weight: Array) -> None:
    """Raise where an output has no row at all."""
    empty = np.flatnonzero(np.atleast_1d(numpy_of(weight)) <= 0.0)
    if len(empty):
        raise ValueError(
            f"y has no number in output {int(empty[0])} ({len(empty)} such) on rows of positive "
            "weight: leave these outputs out."
        )


def check_masks(parts: list[MaskedMoments]) -> None:
    """Raise where the matrices Z'Z of outputs with different rows take too much memory."""
    count, p = sum(len(part.zz) for part in parts), len(parts[0].zt) if parts else 0
    if 8 * count * p * p > limits().coordinates_bytes:
        raise MemoryError(
            f"y has missing values, and {count} matrices of {p} x {p} numbers for outputs with "
            "different rows, and for folds, take more than memory_limits(coordinates_mb=...): "
            "raise it, use a smaller sketch, or give y in memory, as an array."
        )


def outputs_by_rows(T: Floats) -> list[tuple[Ints, Ints]]:
    """Return outputs that have the same rows, and the numbers of these rows, for each mask."""
    observed = ~np.isnan(T)
    first, codes = unique_columns(observed)
    return [
        (np.flatnonzero(codes == k), np.flatnonzero(observed[:, column]))
        for k, column in enumerate(first)
    ]


@dataclass
class MaskedMoments:
    """The moments of each output over the rows that have it; they add and subtract.

    Only Z'Z is kept once for all outputs that have the same rows: k of them take k p^2 numbers.
    The others are those of `Moments`, one of each for an output.
    """

    weight: Array  # (d,)
    zz: list[Array]  # k matrices Z'Z over the rows of a mask, None where it has none; (p, p)
    codes: Ints  # which of them is that of an output, (d,)
    zt: Array  # (p, d)
    tt: Array  # (d,)
    z_sum: Array  # (p, d)
    t_sum: Array  # (d,)
    count: Array = np.nan  # (d,)
    partly: PartlyWhitened | None = None

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
        observed = cast(~missing, np.float64)
        weight, count = ((observed * w[:, None]).sum(0) for w in (root * root, root > 0.0))
        hidden = numpy_of(missing)
        first, codes = unique_columns(hidden)
        zz, sums = _masked_sums(Z, cast(root, Z.dtype), hidden[:, first].T)
        z_sum = cast(xp.stack(sums, 1)[:, positions(codes, Z)], np.float64)
        return cls(
            weight, zz, codes, zt, (T * T).sum(0), z_sum, (T * root[:, None]).sum(0), count
        )  # fmt: skip

    @classmethod
    def lifted(cls, moments: AnyMoments) -> MaskedMoments:
        """Return moments in this form, also those of whole targets."""
        if isinstance(moments, MaskedMoments):
            return moments
        d, like = moments.zt.shape[1], moments.tt
        each = namespace(like).ones_like(like)
        return cls(
            moments.weight * each, [moments.zz], np.zeros(d, dtype=int), moments.zt, moments.tt,
            moments.z_sum[:, None] * each, moments.t_sum, moments.count * each,
            moments.partly,
        )  # fmt: skip

    def column_sets(self) -> list[Ints]:
        """Return the outputs that have the same rows, one array of them for each mask."""
        return [np.flatnonzero(self.codes == code) for code in range(len(self.zz))]

    def of_columns(self, columns: slice | Ints) -> Moments:
        """Return the moments of outputs that have the same rows."""
        first = int(np.arange(len(self.codes))[columns][0])
        zz = self.zz[self.codes[first]]
        if zz is None:
            zz = np.zeros((len(self.zt),) * 2)
        return Moments(
            float(self.weight[first]), zz, self.zt[:, columns], self.tt[columns],
            self.z_sum[:, first], self.t_sum[columns],
            float(np.broadcast_to(self.count, self.weight.shape)[first]), self.partly,
        )  # fmt: skip

    def check_weight(self) -> None:
        """Raise where no row has weight, or none that has some output."""
        check_total_weight(np.max(self.weight))
        check_outputs_observed(self.weight)

    def __add__(self, other: AnyMoments) -> MaskedMoments:
        return self._combine(other, 1.0)

    __radd__ = __add__

    def __iadd__(self, other: AnyMoments) -> MaskedMoments:
        """Add, in the memory of these moments where no mask is divided."""
        other = MaskedMoments.lifted(other)
        pairs, codes = self._pairs(other)
        if len(pairs) > len(self.zz):
            return self._combine(other, 1.0)
        for mask, (_, more) in enumerate(pairs):
            if other.zz[more] is None:
                continue
            if self.zz[mask] is None:
                self.zz[mask] = cast(1.0 * other.zz[more], np.float64)
            else:
                self.zz[mask] += other.zz[more]
        self.codes = codes
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __sub__(self, other: AnyMoments) -> MaskedMoments:
        return self._combine(other, -1.0)

    def __rsub__(self, other: AnyMoments) -> MaskedMoments:
        return MaskedMoments.lifted(other)._combine(self, -1.0)

    def _pairs(self, other: MaskedMoments) -> tuple[Ints, Ints]:
        """Return the masks of both that an output has, and which of these pairs each has."""
        both = np.column_stack([self.codes, other.codes])
        pairs, codes = np.unique(both, axis=0, return_inverse=True)
        return pairs, codes.reshape(-1)

    def _combine(self, other: AnyMoments, sign: float) -> MaskedMoments:
        other = MaskedMoments.lifted(other)
        pairs, codes = self._pairs(other)
        zz = [_sum(self.zz[first], other.zz[second], sign) for first, second in pairs]
        sums = {name: getattr(self, name) + sign * getattr(other, name) for name in _SUMS}
        return MaskedMoments(zz=zz, codes=codes, **sums)

    def in_double(self) -> MaskedMoments:
        """Return the moments with Z'Z in float64."""
        return replace(self, zz=[None if A is None else cast(A, np.float64) for A in self.zz])

    def on_host(self) -> MaskedMoments:
        """Return the moments in arrays; those of tensors on a device are copied."""
        if not is_tensor(self.zt):
            return self
        zz = [None if A is None else numpy_of(A) for A in self.zz]
        return replace(self, zz=zz, **{name: numpy_of(getattr(self, name)) for name in _SUMS})

    def map(self, M: Floats) -> MaskedMoments:
        """Return the moments of Z M', for a lower triangular M."""
        zz = [None if A is None else congruence(M, A) for A in self.zz]
        zt, z_sum = (triangular_product(M, B) for B in (self.zt, self.z_sum))
        return replace(self, zz=zz, zt=zt, z_sum=z_sum, partly=None)

    def whitened(self) -> MaskedMoments:
        """Return the moments of coordinates."""
        return self if self.partly is None else self.map(self.partly.finish())

    def shifted(self, v: Floats) -> MaskedMoments:
        """Return the moments of Z + 1 v'."""
        zz = [self.of_columns(columns).shifted(v).zz for columns in self.column_sets()]
        zt, z_sum = self.zt + np.outer(v, self.t_sum), self.z_sum + np.outer(v, self.weight)
        return replace(self, zz=zz, zt=zt, z_sum=z_sum)


AnyMoments: TypeAlias = Moments | MaskedMoments


def _masked_sums(Z: Array, root: Array, masks: np.ndarray) -> tuple[list[Array], list[Array]]:
    """Return Z'Z and Z'root over the rows that each mask does not hide.

    Where it hides all rows, there is None in place of Z'Z.
    """
    whole: Array = None
    zz: list[Array] = []
    sums: list[Array] = []

    def sums_over(rows: Ints) -> tuple[Array, Array]:
        return gram(Z[rows]), Z[rows].T @ root[rows]

    for hidden in masks:
        n_hidden = int(hidden.sum())
        if 2 * n_hidden > len(hidden):
            A, s = sums_over(np.flatnonzero(~hidden))
            A = None if n_hidden == len(hidden) else A
        else:
            whole = (gram(Z), Z.T @ root) if whole is None else whole
            A, s = sums_over(np.flatnonzero(hidden))
            A, s = whole[0] - A, whole[1] - s
        zz.append(A)
        sums.append(s)
    return zz, sums


def _sum(A: Array | None, B: Array | None, sign: float) -> Array | None:
    """Return A + sign B, of which either may be None, for zero."""
    if B is None:
        return None if A is None else 1.0 * A
    return sign * B if A is None else A + sign * B


# Features of which some are whitened --------------------------------------------------------------


def partial_whitening(
    C: np.ndarray, size: int, dtype: np.dtype
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """Whiten the first `size` features exactly and subtract their share from the others.

    Features F shaped like K~ = L L' become coordinates Z = F L^(-T) = F C'. Done to every row, that
    costs as much as the moments Z'Z; not done at all, the moments F'F square the condition number
    of K~. In between, the first pivots carry nearly all of it:

        L = [[A, 0], [B, D]]:   (F1, F2) -> (F1 A^(-T), F2 - F1 A^(-T) B') = (Z1, Z2 D')

    Parameters
    ----------
    C : ndarray of shape (p, p)
        Lower triangular, the inverse of L: its blocks on the diagonal are A^-1 and D^-1.
    size : int
        Number of features to whiten, 0 to p.
    dtype : numpy dtype
        Of the blocks.

    Returns
    -------
    apply : callable
        Maps a block F of shape (b, p) in place to (Z1, Z2 D').
    finish : ndarray of shape (p, p)
        The matrix M = diag(I, D^(-1)) that takes the moments of (Z1, Z2 D') to those of Z.
    """
    p = len(C)
    ends = [*range(_TRIANGLE, size, _TRIANGLE), size] if size else []
    starts = [0, *ends[:-1]]
    # columns of C' without the zeros below; the last first, as each needs those before it
    steps = [
        (slice(a, b), np.ascontiguousarray(C[a:b, :b].T, dtype=dtype))
        for a, b in zip(starts, ends, strict=False)
    ][::-1]
    share = off_diagonal(C, size).T.astype(dtype)
    memory = threading.local()  # a product in fresh memory would cost page faults

    def apply(F: np.ndarray) -> np.ndarray:
        if size:
            if len(getattr(memory, "product", ())) < len(F):
                memory.product = np.empty((len(F), p - size), dtype=dtype)
            product = memory.product[: len(F)]
            for some, right in steps:
                F[:, some] = F[:, : some.stop] @ right
            F[:, size:] -= np.matmul(F[:, :size], share, out=product)
        return F

    return apply, _whitening_left(C, size)


def _whitening_left(C: np.ndarray, size: int) -> np.ndarray:
    """Return M = diag(I, D^(-1)), see `partial_whitening`."""
    if size == 0:
        return C
    finish = np.eye(len(C))
    finish[size:, size:] = C[size:, size:]
    return finish


def off_diagonal(C: np.ndarray, size: int) -> np.ndarray:
    """Return the block B of L, see `partial_whitening`."""
    p = len(C)
    if not 0 < size < p:
        return np.zeros((p - size, size))
    return solve_triangular(C, np.eye(p, size), lower=True)[size:]


class PartlyWhitened(NamedTuple):
    """Features of which some are whitened: G = (Z1, Z2 D'), see `partial_whitening`.

    Attributes
    ----------
    C : ndarray of shape (p, p)
    size : int
    gram : ndarray of shape (p, p), optional
        K~ = L L', where it was computed.
    """

    C: np.ndarray
    size: int
    gram: np.ndarray | None = None

    def penalty(self) -> np.ndarray:
        """Return diag(I, D D'): the function G B has the squared norm tr(B' diag(I, D D') B)."""
        s = self.size
        out = np.eye(len(self.C))
        if self.gram is None:
            D = triangular_inverse(self.C[s:, s:])
            out[s:, s:] = triangular_product(D, D.T)
        else:
            B = off_diagonal(self.C, s)
            out[s:, s:] = self.gram[s:, s:] - B @ B.T
        return out

    def on_features(self, coef: np.ndarray) -> np.ndarray:
        """Return what F is to be multiplied with where G is multiplied with `coef`."""
        out, s = coef.copy(), self.size
        if s:
            out[:s] -= off_diagonal(self.C, s).T @ coef[s:]
            out[:s] = self.C[:s, :s].T @ out[:s]
        return out

    def finish(self) -> np.ndarray:
        """Return the matrix that takes the moments of G to those of Z."""
        return _whitening_left(self.C, self.size)
