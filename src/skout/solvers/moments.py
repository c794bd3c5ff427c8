"""Moments: the sufficient statistics of ridge regression, which add up over blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.linalg import PartlyWhitened, congruence, triangular_product
from .._numerics.namespace import (
    cast,
    contiguous,
    gram,
    is_tensor,
    namespace,
    numpy_of,
    ones,
    sqrt,
    tall_product,
)

__all__ = ["Moments", "sum_moments"]


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
    def of_block(cls, Z: Any, T: Any, weights: Any, wide: Any = None, zz: Any = None) -> Moments:
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
        weight = root @ root if is_tensor(Z) else float(root @ root)  # the host does not wait
        return cls(weight, zz, cross[:, :-1], (T * T).sum(0), cross[:, -1], T.T @ root)

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

    def in_double(self) -> Moments:
        """Return the moments with Z'Z in float64."""
        return replace(self, zz=cast(self.zz, np.float64))

    def here(self) -> Moments:
        """Return the moments in arrays; those of tensors on a card are copied."""
        if not is_tensor(self.zz):
            return self
        names = ("zz", "zt", "tt", "z_sum", "t_sum")
        arrays = {name: numpy_of(contiguous(getattr(self, name))) for name in names}
        return replace(self, weight=float(self.weight), **arrays)

    def column_sets(self) -> list[Any]:
        """Return the outputs that have the same rows: here all of them."""
        return [slice(None)]

    def of_columns(self, columns: Any) -> Moments:
        """Return the moments of outputs that have the same rows; see `HoledMoments`."""
        if isinstance(columns, slice):
            return self
        names = ("tt", "t_sum")
        own = {name: getattr(self, name)[columns] for name in names}
        return replace(self, zt=self.zt[:, columns], **own)

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, 1.0)

    def __iadd__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):  # those of outputs with holes know how
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
        total += part
    return total
