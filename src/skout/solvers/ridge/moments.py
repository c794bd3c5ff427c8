"""Ridge regression from moments: total minus a fold is the training part of a split."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._numerics.types import Floats, Ints
from ...basis import Engine
from ...basis.moments import AnyMoments, Moments, sum_moments
from ...basis.passes import Sample
from ...rows import Memory
from ..folds import TEST, TRAIN, ChosenAlpha, Search, Splits, choose, groups_or_splits
from .base import Fit, RidgeOptions, System, warn_unless_converged
from .coupling import CoupledMoments, coupled, coupled_path
from .formulas import ridge_errors, ridge_on_features, ridge_paths, ridge_predictions

__all__ = ["FoldMoments", "MomentSystem"]

# The share of the weight that may be subtracted from that of all rows: six digits are lost.
_MOST_LESS = 1.0 - 1e-6


@dataclass(frozen=True)
class FoldMoments:
    """Moments of groups of rows that have the same role in each split: a path over alphas.

    Attributes
    ----------
    moments : list of moments, one a group
        Of coordinates.
    roles : ndarray of int, shape (n_groups, n_splits), optional
        See `groups_of_splits`; None without splits.
    fit_intercept : bool
    task_matrix : ndarray of shape (d, d), "learned" or None
    held : list of ndarrays of shape (h, p), one a split
        Coordinates of the rows that are scored, where a score chooses alpha.
    origin : ndarray of shape (d,), optional
        What was subtracted from the targets.
    """

    moments: Sequence[AnyMoments]
    roles: np.ndarray | None = None
    fit_intercept: bool = False
    task_matrix: Floats | str | None = None
    held: Sequence[Floats] = ()
    origin: Floats | None = None

    splits_in_threads = True

    @classmethod
    def of_rows(
        cls, Z: Floats, T: Floats, splits: Splits, weights: Floats | None = None
    ) -> FoldMoments:
        """Return the moments of the training rows of splits, and the coordinates of the test rows.

        Targets T of rows that no split trains on are not looked at.
        """
        groups, roles = groups_or_splits([(train, []) for train, _ in splits], len(Z))
        trained = [k for k in range(len(groups)) if np.any(roles[k] & TRAIN)]
        moments = [
            Moments.of_block(Z[rows], T[rows], None if weights is None else weights[rows])
            for rows in (groups[k] for k in trained)
        ]
        return cls(moments, roles[trained], held=[Z[test] for _, test in splits])

    @functools.cached_property
    def total(self) -> AnyMoments:
        return sum_moments(self.moments)

    @property
    def n_splits(self) -> int:
        return 0 if self.roles is None else self.roles.shape[1]

    def train(self, split: int) -> AnyMoments:
        """Return the moments of the training rows: a sum of folds, or the total without one."""
        trains = self._has_role(split, TRAIN)
        if 2 * trains.sum() > len(trains):
            rest = sum_moments(self.moments, ~trains)
            # a difference has no digits left where few other rows have nearly all the weight
            if np.all(rest.weight <= _MOST_LESS * self.total.weight):
                return self.total - rest
        return sum_moments(self.moments, trains)

    def test(self, split: int) -> AnyMoments:
        """Return the moments of the test rows."""
        return sum_moments(self.moments, self._has_role(split, TEST))

    def _has_role(self, split: int, role: int) -> np.ndarray:
        assert self.roles is not None
        return self.roles[:, split] & role > 0

    def fits(self, alphas: Sequence[float], split: int) -> list[tuple[Floats, Floats]]:
        """Return coefficients and intercept of each alpha on the training rows of a split.

        They are NaN for outputs that the training rows lack.
        """
        train = self.train(split)
        if self.task_matrix is not None:
            if np.max(train.weight) <= 0.0:
                return []
            system = CoupledMoments(train, self.fit_intercept)
            return [fit[:2] for fit in coupled_path(system, alphas, self.task_matrix)]
        path = [
            (np.full(train.zt.shape, np.nan), np.full(train.zt.shape[1], np.nan)) for _ in alphas
        ]
        for columns in self.total.column_sets():
            part = train.of_columns(columns)
            if part.weight > self._least(columns):
                fits = ridge_paths(part, alphas, self.fit_intercept)
                for (coef, intercept), fit in zip(path, fits, strict=True):
                    coef[:, columns], intercept[columns] = fit
        return path

    def _least(self, columns: slice | Ints) -> float:
        """Return the weight of rows below which a difference of sums is rounding."""
        return 1e-12 * self.total.of_columns(columns).weight

    def losses(self, alphas: Sequence[float], split: int) -> Sequence[float]:
        """Return the mean squared error of each alpha; nothing where a split lacks rows yet."""
        return self.losses_of(self.fits(alphas, split), split)

    def losses_of(self, fits: list[tuple[Floats, Floats]], split: int) -> Sequence[float]:
        """Return the mean squared error of each fit on the test rows of a split."""
        test, errors = self.test(split), []
        for columns in self.total.column_sets() if fits else []:
            held = test.of_columns(columns)
            path = [(coef[:, columns], intercept[columns]) for coef, intercept in fits]
            if held.weight <= self._least(columns) or np.isnan(path[0][1]).any():
                continue
            # one product with Z'Z for all alphas
            products = held.zz @ np.hstack([coef for coef, _ in path])
            pairs = zip(path, np.hsplit(products, len(path)), strict=True)
            errors.append([ridge_errors(held, *fit, product) for fit, product in pairs])
        return list(np.concatenate(errors, axis=1).mean(axis=1)) if errors else []

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha predicts for the rows that are scored: shape (n_alphas, h, d)."""
        train, Z = self.train(split), self.held[split]
        if self.task_matrix is not None:
            F = np.stack([Z @ coef + intercept for coef, intercept in self.fits(alphas, split)])
        else:  # of few rows and many outputs, without coefficients
            F = np.empty((len(alphas), len(Z), train.zt.shape[1]))
            for columns in train.column_sets():
                part = train.of_columns(columns)
                F[:, :, columns] = ridge_predictions(part, Z, alphas, self.fit_intercept)
        return F if self.origin is None else F + self.origin


@dataclass(frozen=True)
class MomentSystem(System):
    """A ridge in the coordinates of an engine, from the moments of groups of rows.

    Attributes
    ----------
    engine : Engine
    folds : FoldMoments
    options : RidgeOptions
    sample : Sample, optional
        Whose moments they are; None where rows came in blocks and are gone.
    report : dict
        What the report of the fit begins with.
    """

    engine: Engine
    folds: FoldMoments
    options: RidgeOptions
    sample: Sample | None = None
    report: dict[str, Any] = field(default_factory=dict)

    def choice(self, search: Search) -> ChosenAlpha:
        folds, options = self.folds, self.options
        folds.total.check_weight()
        if search.scorer is not None:
            folds = replace(folds, held=self._held(search.scorer.held))
        return choose(
            folds, search, folds.n_splits, cv=None if self.sample is None else options.cv,
            n_jobs=options.n_jobs, verbose=options.verbose,
        )  # fmt: skip

    def _held(self, held: list[Ints]) -> list[Floats]:
        """Return the coordinates of the rows that are scored, one array a split."""
        assert self.sample is not None
        rows = np.unique(np.concatenate(held))
        Z = self.engine.coordinates(Memory(self.sample.rows.take(rows)))
        return [Z[np.searchsorted(rows, scored)].astype(np.float64) for scored in held]

    def solve(self, alpha: float) -> Fit:
        """Return the fit on all rows: coef = (Z'Z + n alpha I)^-1 Z'T."""
        options, total, task_matrix = self.options, self.folds.total, None
        report: dict[str, Any] = {"solver": "direct"} | self.report
        if options.task_matrix is None:
            on_features = self.engine.on_features
            matrix, intercept = ridge_on_features(total, on_features, alpha, options.fit_intercept)
        else:
            system = CoupledMoments(total, options.fit_intercept)
            related = coupled(system, alpha, options.task_matrix)
            matrix, intercept = self.engine.on_features(related.coef), related.intercept
            report, task_matrix = report | related.report, related.task_matrix
            warn_unless_converged(report, options.max_iter)
        partly = None if total.partly is None else total.partly._replace(gram=None)
        return Fit.in_span(
            self.engine, matrix, intercept, ChosenAlpha(alpha), report=report,
            moments=replace(total, partly=partly), task_matrix=task_matrix,
            origin=self.folds.origin,
        )  # fmt: skip
