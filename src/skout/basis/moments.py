"""Sufficient statistics of ridge regression, which add up over blocks of rows, folds and workers.

`Moments` are those of outputs that have the same rows, `MaskedMoments` a set of them where targets
are missing. Where the rows of Z are features of which only the first are whitened,
`PartlyWhitened` knows how their moments become those of coordinates.
"""

from __future__ import annotations

import operator
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
    sqrt,
    tall_product,
    unique_columns,
)
from .._numerics.linalg import congruence, triangular_inverse, triangular_product
from .._numerics.types import Array, Floats, Ints, Matrix
from .._numerics.validation import check_total_weight


class PartlyWhitened(NamedTuple):
    """Features G = (Z1, Z2 D'): the first `size` are whitened, and the others are without them.

    Features F shaped like K~ = L L' become coordinates Z = F L^(-T) = F C'. Done to every row, that
    costs as much as the moments Z'Z; not done at all, the moments F'F square the condition number
    of K~. In between, the first pivots carry nearly all of it:

        L = [[A, 0], [B, D]]:   (F1, F2) -> (F1 A^(-T), F2 - F1 A^(-T) B') = (Z1, Z2 D')
    """

    C: Floats  # L^-1, whose blocks on the diagonal are A^-1 and D^-1, (p, p)
    size: int
    gram: Floats | None = None  # K~, where it was computed

    def share(self) -> Floats:
        """Return B, of shape (p - size, size)."""
        p, s = len(self.C), self.size
        if not 0 < s < p:
            return np.zeros((p - s, s))
        return solve_triangular(self.C, np.eye(p, s), lower=True)[s:]

    def finish(self) -> Floats:
        """Return M = diag(I, D^-1), which takes the moments of G to those of Z."""
        if self.size == 0:
            return self.C
        M, s = np.eye(len(self.C)), self.size
        M[s:, s:] = self.C[s:, s:]
        return M

    def penalty(self) -> Floats:
        """Return diag(I, D D'): the function G B has the squared norm tr(B' diag(I, D D') B)."""
        out, s = np.eye(len(self.C)), self.size
        if self.gram is None:
            D = triangular_inverse(self.C[s:, s:])
            out[s:, s:] = triangular_product(D, D.T)
        else:
            B = self.share()
            out[s:, s:] = self.gram[s:, s:] - B @ B.T
        return out

    def on_features(self, coef: Floats) -> Floats:
        """Return what F is to be multiplied with where G is multiplied with `coef`."""
        out, s = coef.copy(), self.size
        if s:
            out[:s] -= self.share().T @ coef[s:]
            out[:s] = self.C[:s, :s].T @ out[:s]
        return out


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
            T = sparse.diags_array(root) @ T
            cross = (T.T.tocsr().astype(Z.dtype) @ Z).T.astype(np.float64, order="C")
            z_sum = (root.astype(Z.dtype) @ Z).astype(np.float64)
            zz, squares = Z.T @ Z if zz is None else zz, T.multiply(T).sum(axis=0)
            count = float(np.count_nonzero(root))
            return cls(float(root @ root), zz, cross, squares, z_sum, T.T @ root, count)
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

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients, (p, d)."""
        return self.zt.shape

    @property
    def codes(self) -> Ints:
        """The set of outputs with equal rows that each output is in; see `MaskedMoments`."""
        return np.zeros(self.zt.shape[1], dtype=np.intp)

    @property
    def z_sums(self) -> Floats:
        """The sums of the rows of Z, of each set of outputs with equal rows."""
        return self.z_sum

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
        """Return what a function makes of the moments of outputs that have the same rows."""
        return function(self)

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

    def __iadd__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):  # those of missing targets know how
            return NotImplemented
        self.weight += other.weight
        self.count += other.count
        for name in ("zz", "zt", "tt", "z_sum", "t_sum"):
            total = getattr(self, name)
            total += getattr(other, name)
        return self

    def __add__(self, other: Moments) -> Moments:
        return self._combined(other, 1.0)

    def __sub__(self, other: Moments) -> Moments:
        return self._combined(other, -1.0)

    def _combined(self, other: Moments, sign: float) -> Moments:
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
        """Return the moments of the targets T V, where these are of a 0/1 matrix T, one 1 a row."""
        tt = self.tt @ values**2
        return replace(self, zt=self.zt @ values, tt=tt, t_sum=self.t_sum @ values)

    def check_weight(self) -> None:
        """Raise where no row has weight."""
        check_total_weight(self.weight)


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
            sums = (zt[:, columns], tt[columns], cast(z_sum, np.float64), t_sum[columns])
            parts.append(Moments(weight[column], zz, *sums, count[column]))
        return cls(codes, parts)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients, (p, d)."""
        return len(self.parts[0].zt), len(self.codes)

    @property
    def partly(self) -> PartlyWhitened | None:
        """How Z become coordinates, where they are none."""
        return self.parts[0].partly

    @property
    def z_sums(self) -> Floats:
        """The sums of the rows of Z, of each set."""
        return np.stack([part.z_sum for part in self.parts])

    def column_sets(self) -> list[slice | Ints]:
        """Return the outputs of each set."""
        return [np.flatnonzero(self.codes == code) for code in range(len(self.parts))]

    def of_columns(self, columns: slice | Ints) -> Moments:
        """Return the moments of some outputs of a set."""
        numbers = np.arange(len(self.codes))[columns]
        code = self.codes[numbers[0]]
        members = np.flatnonzero(self.codes == code)
        return self.parts[code].of_columns(np.searchsorted(members, numbers))

    def each(self, function: Callable[[Moments], Moments]) -> MaskedMoments:
        """Return what a function makes of the moments of each set."""
        return MaskedMoments(self.codes, [function(part) for part in self.parts])

    def __iadd__(self, other: AnyMoments) -> MaskedMoments:
        """Add, in the memory of these moments where no set is divided."""
        if len(np.unique(np.column_stack([self.codes, other.codes]), axis=0)) > len(self.parts):
            return self + other
        for part, columns in zip(self.parts, self.column_sets(), strict=True):
            operator.iadd(part, other.of_columns(columns))
        return self

    def __add__(self, other: AnyMoments) -> MaskedMoments:
        return self._combined(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: AnyMoments) -> MaskedMoments:
        return self._combined(other, operator.sub)

    def __rsub__(self, other: Moments) -> MaskedMoments:
        return MaskedMoments(other.codes, [other]) - self

    def _combined(
        self, other: AnyMoments, combine: Callable[[Moments, Moments], Moments]
    ) -> MaskedMoments:
        """Return the moments of the outputs that have the same rows in both."""
        both = np.column_stack([self.codes, other.codes])
        pairs, codes = np.unique(both, axis=0, return_inverse=True)
        sets = [np.flatnonzero(codes.reshape(-1) == k) for k in range(len(pairs))]
        parts = [combine(self.of_columns(columns), other.of_columns(columns)) for columns in sets]
        return MaskedMoments(codes.reshape(-1), parts)

    def check_weight(self) -> None:
        """Raise where no row has weight, or none that has some output."""
        weight = np.array([part.weight for part in self.parts])[self.codes]
        check_total_weight(weight.max())
        check_outputs_observed(weight)


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
    total: AnyMoments = Moments.zeros(*parts[0].shape)
    for part in picked:
        total += part
    return total


def mean_of_observed(T: Floats) -> Floats:
    """Return the mean of each output over the rows that have it, 0 where none has."""
    observed = ~np.isnan(T)
    sums = np.where(observed, T, 0.0).sum(axis=0, dtype=np.float64)
    return sums / np.maximum(observed.sum(axis=0), 1)


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
