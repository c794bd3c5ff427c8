"""Products with the features of all rows, F'(w F V), without forming F'F: one pass each.

Blocks of F are kept in single precision as far as memory allows, and computed again where not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._numerics.arrays import astype, cast, n_rows, namespace, numpy_of, row_slices, take, times
from .._numerics.linalg import symmetric_eigen
from ..rows import Reduction, RowMap, Source
from ..solvers.moments import Moments
from .features import LandmarkFeatures, Projection, check_values

__all__ = ["FeatureProducts", "Residual", "RightSide", "Store", "principal"]


class Store:
    """Blocks of features in single precision, kept between passes up to a number of bytes."""

    def __init__(self, room: int) -> None:
        self.room, self.bytes = room, 0
        self.kept: dict[int, Any] = {}

    def get(self, key: int) -> Any:
        return self.kept.get(key)

    def offer(self, key: int, F: Any) -> None:
        """Keep a block, unless it is there or too large."""
        size = 4 * F.shape[0] * F.shape[1]
        if key not in self.kept and self.bytes + size <= self.room:
            self.kept[key] = cast(F, np.float32)
            self.bytes += size

    def __getstate__(self) -> dict[str, Any]:
        """Leave the blocks here: workers compute their own."""
        return {"room": 0, "kept": {}, "bytes": 0}


class _Pass(Reduction):
    """What passes over blocks of features share."""

    def __init__(self, features: LandmarkFeatures, store: Store) -> None:
        self.features, self.store = features, store
        self.width = features.m
        self._there: Any = None

    def on(self, place: Any) -> Reduction:
        if self._there is None:
            self._there = self._twin(place)
        return self._there.renewed(self)

    def _twin(self, place: Any) -> Any:
        raise NotImplementedError

    def combine(self, total: Any, part: Any) -> Any:
        if total is None:
            return part
        total += part
        return total

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_there": None}


class FeatureProducts(_Pass):
    """V -> sum over rows of w phi (phi'V), phi the features of a row.

    Parameters
    ----------
    features : LandmarkFeatures
    store : Store
        Blocks of features that need not be computed.
    single : bool
        Whether the products are in single precision; else kernel values are in double, too.
    """

    def __init__(self, features: LandmarkFeatures, store: Store, *, single: bool) -> None:
        super().__init__(features, store)
        self.single = single
        self.V: Any = None

    def of(self, rows: Source, weights: Any, V: Any, n_jobs: int | None) -> Any:
        """Return the products with V, shape (m, q), in double precision."""
        self.V = V
        return rows.reduce(self, weights, _numbers(rows), n_jobs=n_jobs)

    def __call__(self, rows: Any, weights: Any, numbers: Any) -> Any:
        V = cast(self.V, np.float32) if self.single else self.V
        total = np.zeros(V.shape)
        for few in row_slices(n_rows(rows), self._rows_in_cache(rows)):
            F = self._block(take(rows, few), numbers, few.start)
            U = times(F, V)
            if weights is not None:
                U *= weights[few, None].astype(U.dtype)
            total += times(F.T, U)
        return total

    def _rows_in_cache(self, rows: Any) -> int:
        dtype = np.dtype(np.float32 if self.single else np.float64)
        return self.features.cache_rows(rows, dtype)

    def _block(self, rows: Any, numbers: Any, start: int) -> Any:
        key = None if numbers is None else int(numbers[start])
        kept = self.store.get(key) if self.single and key is not None else None
        if kept is not None and len(kept) == n_rows(rows):
            return kept
        F = self.features(rows if self.single else astype(rows, np.float64))
        if self.single:
            F = F.astype(np.float32, copy=False)
            if key is not None:
                self.store.offer(key, F)
        return F.astype(np.float32 if self.single else np.float64, copy=False)

    def _twin(self, place: Any) -> Any:
        return _CardProducts(self, place)


def _numbers(rows: Source) -> np.ndarray | None:
    """Return the numbers of rows, which blocks are known by; on a card they come in order."""
    return np.arange(len(rows)) if rows.device is None and rows.has_shortcuts else None


class _CardProducts(Reduction):
    """The same on a card: what is kept lies there."""

    def __init__(self, base: FeatureProducts, place: Any) -> None:
        self.dtype = np.dtype(np.float32) if base.single else place.dtype
        self.features = base.features.on(place.device, self.dtype)
        self.width = base.width
        self.renewed(base)

    def renewed(self, base: FeatureProducts) -> _CardProducts:
        """Begin another pass."""
        self.store, self.V, self.turn = base.store, cast(base.V, self.dtype), 0
        self.keeps = base.single
        return self

    def __call__(self, rows: Any, weights: Any, numbers: Any) -> Any:
        F = self.store.get(self.turn) if self.keeps else None
        if F is None:
            F = self.features(rows)
            if self.keeps:
                self.store.offer(self.turn, F)
        self.turn += 1
        U = times(F, self.V)
        if weights is not None:
            U *= weights[:, None].to(U.dtype)
        return cast(times(F.T, U), np.float64)

    def combine(self, total: Any, part: Any) -> Any:
        return part if total is None else total.add_(part)


class RightSide(_Pass):
    """F'[w T, w], and the sums of w, w T and w T^2: `Moments` without Z'Z; it fills the store.

    `origin` is subtracted from T, and `center`, a value near T, in the last two sums only.
    """

    def __init__(
        self,
        features: LandmarkFeatures,
        store: Store,
        origin: np.ndarray | None,
        center: np.ndarray | None = None,
    ) -> None:
        super().__init__(features, store)
        self.origin, self.center = origin, center

    def of(self, rows: Source, targets: Any, weights: Any, n_jobs: int | None) -> Moments:
        """Return the moments; zt and z_sum are tensors where the pass ran on a card."""
        found = rows.reduce(self, targets, weights, n_jobs=n_jobs)
        check_values(self.features.kernel, numpy_of(found.z_sum))
        return found

    def __call__(self, rows: Any, targets: Any, weights: Any) -> Any:
        T = targets.astype(np.float64)
        T = T if self.origin is None else T - self.origin
        F = self.features(astype(rows, np.float64))
        nothing = np.zeros((0, 0))
        found = Moments.of_block(F.astype(np.float64, copy=False), T, weights, zz=nothing)
        if self.center is None:
            return found
        T, w = T - self.center, np.ones(len(T)) if weights is None else weights
        return replace(found, tt=w @ T**2, t_sum=w @ T)

    def combine(self, total: Any, part: Any) -> Any:
        if total is None:
            return part
        total.add(part)
        return total

    def _twin(self, place: Any) -> Any:
        return _CardRightSide(self, place)


class _CardRightSide(Reduction):
    """The same on a card, where the store is filled too."""

    def __init__(self, base: RightSide, place: Any) -> None:
        self.features = base.features.on(place.device, place.dtype)
        self.width, self.store, self.turn = base.width, base.store, 0
        self.origin, self.center = (
            0.0 if value is None else place.moved(value, np.float64)
            for value in (base.origin, base.center)
        )

    def renewed(self, base: RightSide) -> _CardRightSide:
        return self

    def __call__(self, rows: Any, targets: Any, weights: Any) -> Any:
        torch, F = namespace(rows), self.features(rows)
        self.store.offer(self.turn, F)
        self.turn += 1
        T = targets.to(torch.float64) - self.origin
        one = torch.ones((len(T), 1), dtype=torch.float64, device=T.device)
        w = one if weights is None else weights[:, None].to(torch.float64)
        right = torch.cat([T, one], dim=1)
        cross = (F.T @ (w * right).to(F.dtype)).to(torch.float64)
        right = torch.cat([T - self.center, one], dim=1)
        return [cross, right.T @ (w * right)]

    def combine(self, total: Any, part: Any) -> Any:
        return part if total is None else [a.add_(b) for a, b in zip(total, part, strict=True)]

    def finish(self, total: Any) -> Moments:
        cross, square = total[0], total[1].cpu().numpy()
        tt, t_sum = square.diagonal()[:-1].copy(), square[:-1, -1].copy()
        nothing = np.zeros((0, 0))
        return Moments(
            float(square[-1, -1]), nothing, cross[:, :-1].clone(), tt, cross[:, -1].clone(), t_sum
        )


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


class Residual(RowMap):
    """x -> k(x, x) - ||z(x)||^2, at least 0."""

    def __init__(self, features: LandmarkFeatures, components: np.ndarray) -> None:
        self.kernel = features.kernel
        self.projection = Projection(features, components.T)
        self.width = self.projection.width

    def most_rows(self, n: int) -> int | None:
        return self.projection.most_rows(n)

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        Z = self.projection(rows).astype(np.float64, copy=False)
        return np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->i", Z, Z), 0.0)
