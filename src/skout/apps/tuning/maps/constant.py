"""The constant prediction, the mean of the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..data import column_means
from ..samples import Profile, Sample
from .base import Map, Path, Regressor


@dataclass(frozen=True, kw_only=True)
class ConstantMap(Map):
    """The mean of the outputs, which is chosen where no map is better on held-out rows.

    It is not in `MAPS`: each search computes it besides.
    """

    name: ClassVar[str] = "constant"
    takes_sparse: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, ConstantMap]]:
        return []

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        from sklearn.dummy import DummyRegressor  # slow to import

        return DummyRegressor()

    def path(self, sample: Sample) -> Path:
        """Yield the mean of the training rows of each fold as prediction."""
        F = sample.empty()
        for (train, _), rows in zip(sample.folds.splits, sample.folds.spans, strict=True):
            F[rows] = np.asarray(column_means(sample.T[train], sample.weights(train)))
        yield self, F

    def cost(self, profile: Profile, n: int) -> float:
        return 0.0
