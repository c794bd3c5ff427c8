"""Moments of targets with holes: outputs that have the same rows share a matrix Z'Z."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._numerics.arrays import (
    cast,
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
from .._numerics.linalg import congruence, triangular_product
from .._numerics.validation import check_total_weight
from ..rows import limits
from .moments import Moments, PartlyWhitened

__all__ = [
    "HoledMoments",
    "check_masks",
    "check_outputs_seen",
    "mean_of_known",
    "outputs_by_rows",
]

# The sums of each output.
_SUMS = ("weight", "zt", "tt", "z_sum", "t_sum", "count")


def mean_of_known(T: np.ndarray) -> np.ndarray:
    """Return the mean of each output over the rows that have it, 0 where none has."""
    there = ~np.isnan(T)
    sums = np.where(there, T, 0.0).sum(axis=0, dtype=np.float64)
    return sums / np.maximum(there.sum(axis=0), 1)


def check_masks(parts: list[HoledMoments], p: int) -> None:
    """Raise where the matrices Z'Z of outputs with different rows take too much memory."""
    count = sum(len(part.zz) for part in parts)
    if 8 * count * p * p > limits().coordinates_bytes:
        raise MemoryError(
            f"y has missing values, and {count} matrices of {p} x {p} numbers for outputs with "
            "different rows, and for folds, take more than memory_limits(coordinates_mb=...): "
            "raise it, use a smaller sketch, or give y in memory, as an array."
        )


def check_outputs_seen(weight: Any) -> None:
    """Raise where an output has no row at all."""
    empty = np.flatnonzero(np.atleast_1d(numpy_of(weight)) <= 0.0)
    if len(empty):
        raise ValueError(
            f"y has no number in output {int(empty[0])} ({len(empty)} such) on rows of positive "
            "weight: leave these outputs out."
        )


def outputs_by_rows(T: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return outputs that have the same rows, and the numbers of these rows, for each mask."""
    there = ~np.isnan(T)
    first, codes = unique_columns(there)
    return [
        (np.flatnonzero(codes == k), np.flatnonzero(there[:, column]))
        for k, column in enumerate(first)
    ]


@dataclass
class HoledMoments:
    """The moments of each output over the rows that have it; they add and subtract.

    Only Z'Z is kept once for all outputs that have the same rows: k of them take k p^2 numbers.
    The others are those of `Moments`, one of each for an output.
    """

    weight: Any  # (d,)
    zz: list[Any]  # k matrices Z'Z over the rows of a mask, None where there is no such row; (p, p)
    codes: np.ndarray  # which of them is that of an output, (d,)
    zt: Any  # (p, d)
    tt: Any  # (d,)
    z_sum: Any  # (p, d)
    t_sum: Any  # (d,)
    count: Any = np.nan  # (d,)
    partly: PartlyWhitened | None = None

    @classmethod
    def of_block(cls, Z: Any, T: Any, missing: Any, weights: Any) -> HoledMoments:
        """Return the moments of a block, of which some targets are `missing`.

        Z is scaled in place when there are weights. Z'Z over the rows that have an output is a sum
        over these, or over all rows less those that have it not, whichever are fewer.
        """
        xp, root = namespace(Z), ones(len(Z), Z) if weights is None else sqrt(weights)
        if weights is not None:
            Z *= cast(root[:, None], Z.dtype)
        T = xp.where(missing, 0.0, T) * root[:, None]
        zt = cast(tall_product(cast(T, Z.dtype), Z).T, np.float64)
        known = cast(~missing, np.float64)
        weight, count = ((known * w[:, None]).sum(0) for w in (root * root, root > 0.0))
        hidden = numpy_of(missing)
        first, codes = unique_columns(hidden)
        zz, sums = _masked_sums(Z, cast(root, Z.dtype), hidden[:, first].T)
        z_sum = cast(xp.stack(sums, 1)[:, positions(codes, Z)], np.float64)
        return cls(
            weight, zz, codes, zt, (T * T).sum(0), z_sum, (T * root[:, None]).sum(0), count
        )  # fmt: skip

    @classmethod
    def lifted(cls, moments: Moments) -> HoledMoments:
        """Return moments without holes in this form."""
        d, like = moments.zt.shape[1], moments.tt
        each = namespace(like).ones_like(like)
        return cls(
            moments.weight * each, [moments.zz], np.zeros(d, dtype=int), moments.zt, moments.tt,
            moments.z_sum[:, None] * each, moments.t_sum, moments.count * each,
            moments.partly,
        )  # fmt: skip

    def column_sets(self) -> list[Any]:
        """Return the outputs that have the same rows, one array of them for each mask."""
        return [np.flatnonzero(self.codes == code) for code in range(len(self.zz))]

    def of_columns(self, columns: np.ndarray) -> Moments:
        """Return the moments of outputs that have the same rows."""
        first = int(columns[0])
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
        check_outputs_seen(self.weight)

    def __add__(self, other: Any) -> HoledMoments:
        return self._combine(other, 1.0)

    __radd__ = __add__

    def __iadd__(self, other: Any) -> HoledMoments:
        """Add, in the memory of these moments where no mask is divided."""
        other = _as_holed(other)
        pairs, codes = self._pairs(other)
        if len(pairs) > len(self.zz):
            return self._combine(other, 1.0)
        for code, (own, more) in enumerate(pairs):
            assert code == own
            if other.zz[more] is None:
                continue
            if self.zz[own] is None:
                self.zz[own] = cast(1.0 * other.zz[more], np.float64)
            else:
                self.zz[own] += other.zz[more]
        self.codes = codes
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __sub__(self, other: Any) -> HoledMoments:
        return self._combine(other, -1.0)

    def __rsub__(self, other: Any) -> HoledMoments:
        return HoledMoments.lifted(other)._combine(self, -1.0)

    def _pairs(self, other: HoledMoments) -> tuple[np.ndarray, np.ndarray]:
        """Return the masks of both that an output has, and which of these pairs each has."""
        both = np.column_stack([self.codes, other.codes])
        pairs, codes = np.unique(both, axis=0, return_inverse=True)
        return pairs, codes.reshape(-1)

    def _combine(self, other: Any, sign: float) -> HoledMoments:
        other = _as_holed(other)
        pairs, codes = self._pairs(other)
        zz = [_sum(self.zz[own], other.zz[more], sign) for own, more in pairs]
        sums = {name: getattr(self, name) + sign * getattr(other, name) for name in _SUMS}
        return HoledMoments(zz=zz, codes=codes, **sums)

    def in_double(self) -> HoledMoments:
        """Return the moments with Z'Z in float64."""
        return replace(self, zz=[None if A is None else cast(A, np.float64) for A in self.zz])

    def here(self) -> HoledMoments:
        """Return the moments in arrays; those of tensors on a card are copied."""
        if not is_tensor(self.zt):
            return self
        zz = [None if A is None else numpy_of(A) for A in self.zz]
        return replace(self, zz=zz, **{name: numpy_of(getattr(self, name)) for name in _SUMS})

    def map(self, M: np.ndarray) -> HoledMoments:
        """Return the moments of Z M', for a lower triangular M."""
        zz = [None if A is None else congruence(M, A) for A in self.zz]
        zt, z_sum = (triangular_product(M, B) for B in (self.zt, self.z_sum))
        return replace(self, zz=zz, zt=zt, z_sum=z_sum, partly=None)

    def whitened(self) -> HoledMoments:
        """Return the moments of coordinates."""
        return self if self.partly is None else self.map(self.partly.finish())

    def shifted(self, v: np.ndarray) -> HoledMoments:
        """Return the moments of Z + 1 v'."""
        sets = self.column_sets()
        zz = [self.of_columns(columns).shifted(v).zz for columns in sets]
        zt, z_sum = self.zt + np.outer(v, self.t_sum), self.z_sum + np.outer(v, self.weight)
        return replace(self, zz=zz, zt=zt, z_sum=z_sum)


def _as_holed(moments: Any) -> HoledMoments:
    return HoledMoments.lifted(moments) if isinstance(moments, Moments) else moments


def _masked_sums(Z: Any, root: Any, masks: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Return Z'Z and Z'root over the rows that each mask does not hide.

    Where it hides all rows, there is None in place of Z'Z.
    """
    whole: Any = None
    zz: list[Any] = []
    sums: list[Any] = []

    def sums_over(rows: np.ndarray) -> tuple[Any, Any]:
        some = Z[rows]
        return gram(some), some.T @ root[rows]

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


def _sum(A: Any, B: Any, sign: float) -> Any:
    """Return A + sign B, of which either may be None, for zero."""
    if B is None:
        return None if A is None else 1.0 * A
    return sign * B if A is None else A + sign * B
