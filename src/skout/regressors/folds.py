"""Cross-validation of ridge regression from moments: total minus a fold is the training part."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .._numerics.threads import map_blocks
from ..basis import Engine
from ..rows import Memory, Source
from ..solvers import ridge_errors, ridge_paths, ridge_predictions
from ..solvers.moments import Moments, sum_moments
from .fit import ChosenAlpha
from .path import Judge, Search, greatest_score
from .splits import TEST, TRAIN, check_some, least_loss

__all__ = ["Folds", "looked_at"]


@dataclass(frozen=True)
class Folds:
    """Moments of groups of rows that play the same part in each split.

    Attributes
    ----------
    moments : list of Moments, one a group
        Of coordinates.
    parts : list of ndarrays of shape (n_splits,), one a group
        See `groups_of_splits`.
    fit_intercept : bool
    verbose : bool
        Whether to show a progress bar.
    """

    moments: list[Moments]
    parts: list[np.ndarray]
    fit_intercept: bool = False
    verbose: bool = False

    @functools.cached_property
    def total(self) -> Moments:
        return sum_moments(self.moments)

    @property
    def roles(self) -> np.ndarray:
        """The part of each group in each split, shape (n_splits, n_groups)."""
        return np.array(self.parts).T

    def train(self, role: np.ndarray) -> Moments:
        own = role & TRAIN > 0
        if 2 * own.sum() <= len(own):
            return sum_moments(self.moments, own)
        return self.total - sum_moments(self.moments, ~own)

    def test(self, role: np.ndarray) -> Moments:
        return sum_moments(self.moments, role & TEST > 0)

    def errors(self, alphas: Sequence[float], n_jobs: int | None = None) -> list[list[float]]:
        """Return the mean squared error of each split and alpha; no split that lacks rows yet."""

        def of_split(role: np.ndarray) -> list[float]:
            train, test = self.train(role), self.test(role)
            found = []
            for columns in self.total.column_sets():
                own, held = train.of_columns(columns), test.of_columns(columns)
                least = 1e-12 * self.total.of_columns(columns).weight
                if min(own.weight, held.weight) > least:  # else there are few rows yet
                    path = ridge_paths(own, alphas, self.fit_intercept)
                    # one product with Z'Z for all alphas
                    fitted = held.zz @ np.hstack([coef for coef, _ in path])
                    pairs = zip(path, np.hsplit(fitted, len(path)), strict=True)
                    found.append([ridge_errors(held, *fit, part) for fit, part in pairs])
            return list(np.concatenate(found, axis=1).mean(axis=1)) if found else []

        found = map_blocks(of_split, self.roles, n_jobs=n_jobs)
        return [errors for errors in self._shown(found) if errors]

    def best_predictions(self, role: np.ndarray, Z: np.ndarray, alphas: Sequence[float]) -> Any:
        """Return what each alpha predicts for some rows in a split: shape (n_alphas, h, d)."""
        train = self.train(role)
        F = np.empty((len(alphas), len(Z), train.zt.shape[1]))
        for columns in train.column_sets():
            own = train.of_columns(columns)
            F[:, :, columns] = ridge_predictions(own, Z, alphas, self.fit_intercept)
        return F

    def _shown(self, splits: Any) -> Any:
        return tqdm(splits, total=len(self.roles), desc="folds", disable=not self.verbose)

    def least_error(
        self, alphas: list[float], cv: Any, n_jobs: int | None = None
    ) -> tuple[float, dict[str, np.ndarray] | None]:
        """Return the alpha of least squared error, and the table of errors.

        Without splits, or, where `cv` is None, without rows enough to judge by, it is the largest.
        """
        errors = self.errors(alphas, n_jobs) if self.parts else []
        if self.parts and cv is not None:
            check_some(errors, cv)
        return least_loss(alphas, np.array(errors)) if errors else (max(alphas), None)

    def best_score(
        self,
        alphas: list[float],
        judge: Judge,
        held: Sequence[np.ndarray],
        origin: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> tuple[float, dict[str, np.ndarray]]:
        """Return the alpha that a judge likes best, and the table of its scores.

        `held` are coordinates of the rows that the judge looks at, shape (h, p), one array a split;
        `origin`, shape (d,), is what was subtracted from the targets. Each thread works on a split.
        """

        def predicted(k: int) -> np.ndarray:
            F = self.best_predictions(self.roles[k], held[k], alphas)
            return F if origin is None else F + origin

        found = map_blocks(predicted, range(len(self.roles)), n_jobs=n_jobs)
        table = [judge.score(k, F) for k, F in enumerate(self._shown(found))]
        return greatest_score(alphas, table, judge.scoring)

    def choose(
        self,
        search: Search,
        held: Sequence[np.ndarray] = (),
        *,
        origin: np.ndarray | None = None,
        cv: Any = None,
        n_jobs: int | None = None,
    ) -> ChosenAlpha:
        """Choose alpha: by the judge of a search, if it has one, else by the squared error.

        `held` and `origin` are as in `best_score`. Where `cv` is given, a cross-validation none of
        whose splits has rows is an error, and not a reason to take the largest alpha.
        """
        if search.judge is not None:
            return ChosenAlpha(*self.best_score(search.alphas, search.judge, held, origin, n_jobs))
        return ChosenAlpha(*self.least_error(search.alphas, cv, n_jobs))


def looked_at(judge: Judge, rows: Source, engine: Engine) -> list[np.ndarray]:
    """Return the coordinates of the rows that a judge looks at, one array a split."""
    some = np.unique(np.concatenate(judge.held))
    Z = engine.coordinates(Memory(rows.take(some)))
    return [Z[np.searchsorted(some, held)].astype(np.float64) for held in judge.held]
