"""Nearest neighbors, searched once for all numbers of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skout.dev import row_slices, take

from ..folds import Folds
from ..samples import Profile, Sample
from .base import Map, Path, Regressor

# Rows whose neighbors are searched before the clock is checked again.
_TIMED_ROWS = 1000
# Numbers of neighbors of a path, each about 1.6 times the one before.
_COUNTS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80)


@dataclass(frozen=True, kw_only=True)
class NeighborsMap(Map):
    """Nearest neighbors: the mean of the outputs of the nearest training rows."""

    name = "neighbors"
    filled = ("n_neighbors", "weights")
    takes_weights = False
    takes_sparse = True
    n_cells = 2 * len(_COUNTS)

    n_neighbors: int = 5
    weights: str = "uniform"  # or "distance", one over the distance

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        if profile.is_object:
            return []
        starts = {"dense": (9, "standard"), "sparse": (9, "tfidf"), "table": (13, "none")}
        place, scaling = starts[profile.layout]
        return [(place, cls(scaling=scaling))]

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        from sklearn.neighbors import KNeighborsRegressor  # slow to import

        return KNeighborsRegressor(self.n_neighbors, weights=self.weights)

    def path(self, sample: Sample) -> Path:
        """Yield the means of more and more neighbors, by both kinds of weights."""
        from sklearn.neighbors import NearestNeighbors  # slow to import

        X, T = sample.rows(self.scaling), sample.T
        least = min(len(train) for train, _ in sample.folds.splits)
        counts = [k for k in _COUNTS if k <= max(1, least // 2)]
        F = {(k, by): sample.empty() for k in counts for by in ("uniform", "distance")}
        for train, held, rows in sample.timed_folds():
            search = NearestNeighbors(n_neighbors=max(counts)).fit(take(X, train))
            blocks = []
            for part in row_slices(len(held), _TIMED_ROWS):
                sample.clock.check()
                blocks.append(search.kneighbors(take(X, held[part])))
            distances, nearest = map(np.concatenate, zip(*blocks, strict=True))
            for by in ("uniform", "distance"):
                # at distance 0 the shares are so large that no other rows count
                shares = np.where(by == "uniform", 1.0, 1.0 / np.maximum(distances, 1e-200))
                total, weight = np.zeros((len(held), T.shape[1])), np.zeros((len(held), 1))
                for j in range(max(counts)):
                    total += shares[:, j, None] * T[train[nearest[:, j]]]
                    weight += shares[:, j, None]
                    if j + 1 in counts:
                        F[j + 1, by][rows] = total / weight
        for (k, by), values in F.items():
            yield replace(self, n_neighbors=k, weights=by), values

    def cost(self, profile: Profile, n: int) -> float:
        return float(2e-9 * n * np.log2(n + 1) * profile.d)  # a tree of rows, or none

    def path_cost(self, profile: Profile, n: int, folds: Folds) -> float:
        return folds.n_held * (1e-9 * n * profile.d + 80 * 2e-9 * profile.p * 2)
