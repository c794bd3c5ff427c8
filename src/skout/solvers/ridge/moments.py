"""Ridge regression from moments: total minus a fold is the training part of a split.

    min over B, b of  mean_i 1/2 ||t_i - B'z_i - b||^2 + alpha/2 ||B||^2

is solved by B = (Z'Z + n alpha I)^-1 Z'T (4.10), with the same function f as K's own formula
c = (K + n alpha I)^-1 T (2.32) where z are coordinates of the span of all rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..._numerics.arrays import astype, numpy_of
from ..._numerics.linalg import positive_solve, ridge_path, ridge_solve
from ..._numerics.typing import Array, Floats, Ints, Rows
from ..._numerics.validation import check_total_weight
from ...basis import Engine
from ...basis.features import Projection
from ...basis.moments import (
    AnyMoments,
    MaskedMoments,
    Moments,
    TrainingSample,
    check_outputs_observed,
    sum_moments,
)
from ...kernels import Kernel
from ...rows import Memory, Reduction
from ..folds import (
    TEST,
    TRAIN,
    AlphaSearch,
    ChosenAlpha,
    Splits,
    choose,
    groups_or_splits,
    interleaved_groups,
)
from .checkpoint import Bar
from .coupling import CoupledMoments, coupled, coupled_path
from .system import Decision, Fit, RidgeOptions, RidgeProblem, System, warn_unless_converged

#: Coefficients, (p, d), and the intercept, (d,).
Solution = tuple[Floats, Floats]


def _normal_equations(
    moments: Moments, fit_intercept: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return Z'Z and Z'T, centered if there is an intercept, and the means of Z and T."""
    if not fit_intercept:
        return moments.zz, moments.zt, np.zeros_like(moments.z_sum), np.zeros_like(moments.t_sum)
    z_mean, t_mean = moments.z_sum / moments.weight, moments.t_sum / moments.weight
    zz = moments.zz - moments.weight * np.outer(z_mean, z_mean)
    return zz, moments.zt - moments.weight * np.outer(z_mean, t_mean), z_mean, t_mean


def ridge(
    moments: Moments, alpha: float, fit_intercept: bool = False, penalty: Floats | None = None
) -> Solution:
    """Minimize mean 1/2 ||t - B'z - b||^2 + alpha/2 tr(B'PB): B = (Z'Z + n alpha P)^-1 Z'T (4.10).

    The penalty P is the identity for coordinates z. In features that are not orthonormal it makes
    them so; then LinAlgError is raised where rounding hides that the matrix is positive definite.
    """
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    if penalty is None:
        coef = ridge_solve(zz, zt, moments.weight * alpha)
    else:
        coef = positive_solve(zz + moments.weight * alpha * penalty, zt)
    return coef, t_mean - z_mean @ coef


def ridge_paths(
    moments: Moments, alphas: Sequence[float], fit_intercept: bool = False
) -> list[Solution]:
    """Solve `ridge` for many alphas, which share factors of Z'Z where there are more than a few."""
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    coefs = ridge_path(zz, zt, moments.weight * np.asarray(alphas))
    return [(coef, t_mean - z_mean @ coef) for coef in coefs]


def ridge_predictions(
    moments: Moments, Z: Floats, alphas: Sequence[float], fit_intercept: bool = False
) -> Floats:
    """Predict other rows by `ridge` for many alphas: F = Z (Z'Z + n alpha I)^-1 Z'T.

    Systems are solved for the rows of Z, (h, p), or for the outputs, whichever are fewer; F has
    the shape (n_alphas, h, d).
    """
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    shifts, rows = moments.weight * np.asarray(alphas), Z - z_mean
    if len(rows) < zt.shape[1]:
        fitted = [solved.T @ zt for solved in ridge_path(zz, rows.T, shifts)]
    else:
        fitted = [rows @ coef for coef in ridge_path(zz, zt, shifts)]
    return np.array(fitted) + t_mean


def ridge_errors(
    moments: Moments, coef: Floats, intercept: Floats, fitted: Floats | None = None
) -> Floats:
    """Return the mean squared error of each output on the rows behind `moments`.

    sum ||t - B'z - b||^2 = T'T - 2 B'Z'T + B'Z'Z B - 2 b (sum t - B' sum z) + n b^2, diagonals.
    `fitted` is Z'Z B, where it is known.
    """
    fitted = moments.zz @ coef if fitted is None else fitted  # (p, d)
    error = moments.tt + np.einsum("ij,ij->j", coef, fitted - 2.0 * moments.zt)
    error += intercept * (moments.weight * intercept)
    error -= 2.0 * intercept * (moments.t_sum - moments.z_sum @ coef)
    mean: Floats = np.maximum(error, 0.0) / moments.weight
    return mean


# The share of the weight that may be subtracted from that of all rows: six of sixteen digits are
# lost then, and ten are left. Beyond, the moments of a split are summed from its folds.
_MOST_LESS = 1.0 - 1e-6


@dataclass(frozen=True)
class FoldMoments:
    """Moments of groups of rows that have the same role in each split: a path over alphas."""

    moments: Sequence[AnyMoments]  # of coordinates, one a group
    roles: np.ndarray | None = None  # (n_groups, n_splits), see `groups_of_splits`
    fit_intercept: bool = False
    task_matrix: Floats | str | None = None  # (d, d)
    held: Sequence[Floats] = ()  # coordinates of the rows that are scored, (h, p), one a split
    origin: Floats | None = None  # what was subtracted from the targets, (d,)

    splits_in_threads = True

    @classmethod
    def of_rows(
        cls, Z: Floats, T: Floats, splits: Splits, weights: Floats | None = None
    ) -> FoldMoments:
        """Return the moments of the training rows of splits, and the coordinates of the test rows.

        Targets T of rows that no split trains on are not looked at.
        """
        nothing = np.empty(0, dtype=np.intp)
        groups, roles = groups_or_splits([(train, nothing) for train, _ in splits], len(Z))
        trained = [k for k in range(len(groups)) if np.any(roles[k] & TRAIN)]
        moments = [
            Moments.of_block(Z[rows], T[rows], None if weights is None else weights[rows])
            for rows in (groups[k] for k in trained)
        ]
        return cls(moments, roles[trained], held=[Z[test] for _, test in splits])

    @functools.cached_property
    def total(self) -> AnyMoments:
        return sum_moments(self.moments)

    def train(self, split: int) -> AnyMoments:
        """Return the moments of the training rows: a sum of folds, or the total less the others."""
        assert self.roles is not None
        trains = self.roles[:, split] & TRAIN > 0
        if 2 * trains.sum() > len(trains):
            rest = sum_moments(self.moments, ~trains)
            # a difference has no digits left where few other rows have nearly all the weight
            columns = self.total.column_sets()
            weights = [
                (rest.of_columns(c).weight, self.total.of_columns(c).weight) for c in columns
            ]
            if all(part <= _MOST_LESS * whole for part, whole in weights):
                return self.total - rest
        return sum_moments(self.moments, trains)

    def fits(self, alphas: Sequence[float], split: int) -> list[Solution]:
        """Return coefficients and intercept of each alpha on the training rows of a split.

        They are NaN for outputs that the training rows lack.
        """
        train = self.train(split)
        sets = self.total.column_sets()
        if self.task_matrix is not None:
            if max(train.of_columns(columns).weight for columns in sets) <= 0.0:
                return []
            system = CoupledMoments(train, self.fit_intercept)
            return [fit[:2] for fit in coupled_path(system, alphas, self.task_matrix)]
        path = [(np.full(train.shape, np.nan), np.full(train.shape[1], np.nan)) for _ in alphas]
        for columns in sets:
            part = train.of_columns(columns)
            # below that, a difference of sums is rounding
            if part.weight > 1e-12 * self.total.of_columns(columns).weight:
                fits = ridge_paths(part, alphas, self.fit_intercept)
                for (coef, intercept), fit in zip(path, fits, strict=True):
                    coef[:, columns], intercept[columns] = fit
        return path

    def losses(
        self, alphas: Sequence[float], split: int, fits: list[Solution] | None = None
    ) -> Sequence[float]:
        """Return the mean squared error of each alpha; nothing where a split lacks rows yet.

        `fits` are those of the alphas, where they were made already.
        """
        assert self.roles is not None
        fits = self.fits(alphas, split) if fits is None else fits
        test, errors = sum_moments(self.moments, self.roles[:, split] & TEST > 0), []
        for columns in self.total.column_sets() if fits else []:
            held, total = test.of_columns(columns), self.total.of_columns(columns)
            path = [(coef[:, columns], intercept[columns]) for coef, intercept in fits]
            if held.weight <= 1e-12 * total.weight or np.isnan(path[0][1]).any():
                continue
            # one product with Z'Z for all alphas
            products = held.zz @ np.hstack([coef for coef, _ in path])
            pairs = zip(path, np.hsplit(products, len(path)), strict=True)
            errors.append([ridge_errors(held, *fit, product) for fit, product in pairs])
        return list(np.concatenate(errors, axis=1).mean(axis=1)) if errors else []

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha predicts for the rows that are scored: shape (n_alphas, h, d)."""
        Z = self.held[split]
        if self.task_matrix is not None:
            F = np.stack([Z @ coef + intercept for coef, intercept in self.fits(alphas, split)])
        else:  # of few rows and many outputs, without coefficients
            train = self.train(split)
            F = np.empty((len(alphas), len(Z), train.shape[1]))
            for columns in train.column_sets():
                part = train.of_columns(columns)
                F[:, :, columns] = ridge_predictions(part, Z, alphas, self.fit_intercept)
        return F if self.origin is None else F + self.origin


@dataclass(frozen=True)
class MomentSystem(System):
    """A ridge in the coordinates of an engine, from the moments of groups of rows."""

    engine: Engine
    folds: FoldMoments
    options: RidgeOptions
    sample: TrainingSample | None = None  # whose moments they are; None where rows came in blocks

    @classmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> MomentSystem:
        """Sum the moments of each group of rows that splits divide, in one pass."""
        span, sample, options, search = (
            problem.span, problem.sample, problem.options, problem.search
        )  # fmt: skip
        (engine, known_rows), checkpoint = span.factorized, options.checkpoint
        groups, roles = problem.groups
        if span.rows is not sample.rows:  # landmarks that were given are no rows of the sample
            known_rows = None
        if roles is not None:
            sample = replace(sample, groups=groups, n_groups=len(roles))
        if checkpoint is not None:
            checkpoint.add_fit(engine, sample, "direct")
        has_bar = options.verbose or checkpoint is not None
        moments = engine.moments(
            sample, min(search.alphas), known_rows=known_rows,
            whiten=roles is not None or options.task_matrix is not None,
            center=not options.has_missing,
            progress=Bar(options.verbose, checkpoint) if has_bar else None,
        )  # fmt: skip
        M, origin = options.task_matrix, sample.origin
        folds = FoldMoments(moments, roles, options.fit_intercept, M, origin=origin)
        return cls(engine, folds, options, sample)

    def choice(self, search: AlphaSearch) -> ChosenAlpha:
        folds, options, scorer = self.folds, self.options, search.scorer
        weight = np.empty(folds.total.shape[1])  # of the rows that have an output
        for columns in folds.total.column_sets():
            weight[columns] = folds.total.of_columns(columns).weight
        check_total_weight(weight.max())
        check_outputs_observed(weight)
        if scorer is not None:
            assert self.sample is not None
            rows = np.unique(np.concatenate(scorer.held))
            Z = self.engine.coordinates(Memory(self.sample.rows.take(rows)))
            held = [Z[np.searchsorted(rows, scored)].astype(np.float64) for scored in scorer.held]
            folds = replace(folds, held=held)
        cv, n_splits = options.cv, None
        if self.sample is None:  # of rows that came in blocks, folds are known and splits are not
            cv, n_splits = None, 0 if folds.roles is None else folds.roles.shape[1]
        return choose(
            folds, search, n_splits=n_splits, cv=cv, n_jobs=options.n_jobs, verbose=options.verbose
        )

    def solve(self, alpha: float) -> Fit:
        """Return the fit on all rows: coef = (Z'Z + n alpha I)^-1 Z'T."""
        options, total, task_matrix = self.options, self.folds.total, None
        report: dict[str, Any] = {"solver": "direct"}
        if options.task_matrix is None:
            try:
                matrix, intercept = self._solved(total, alpha)
            except LinAlgError:  # rounding hides that it is definite: solve in coordinates
                matrix, intercept = self._solved(total.each(Moments.whitened), alpha)
        else:
            system = CoupledMoments(total, options.fit_intercept)
            related = coupled(system, alpha, options.task_matrix)
            matrix, intercept = self.engine.on_features(related.coef), related.intercept
            report, task_matrix = related.report, related.task_matrix
            warn_unless_converged(report, options.max_iter)
        slim = total.each(
            lambda part: replace(part, partly=part.partly and part.partly._replace(gram=None))
        )
        return Fit.in_span(
            self.engine, matrix, intercept, alpha, report=report, moments=slim,
            task_matrix=task_matrix, origin=self.folds.origin,
        )  # fmt: skip

    def _solved(self, moments: AnyMoments, alpha: float) -> Solution:
        """Return coefficients of the features and the intercept, those of each mask in turn."""
        sets = moments.column_sets()
        partly = moments.of_columns(sets[0]).partly  # those of all sets are equal
        penalty = None if partly is None else partly.penalty()
        coef, intercept = np.empty(moments.shape), np.empty(moments.shape[1])
        for columns in sets:
            part = moments.of_columns(columns)
            coef[:, columns], intercept[columns] = ridge(
                part, alpha, self.options.fit_intercept, penalty
            )
        on_features = self.engine.on_features if partly is None else partly.on_features
        return on_features(coef), intercept


@dataclass(frozen=True)
class GrowingMoments:
    """The moments of rows that come in parts, by fold, in the coordinates of an engine."""

    engine: Engine
    n_outputs: int
    base: AnyMoments | None = None  # of rows that train in every fold
    folds: Sequence[AnyMoments] | None = None
    origin: Floats | None = None
    n: int = 0

    def plus(
        self, sample: TrainingSample, alphas: Sequence[float], options: RidgeOptions
    ) -> GrowingMoments:
        """Return these moments with those of more rows, which are dealt into folds in turn."""
        n, n_outputs = sample.targets.shape
        if n_outputs != self.n_outputs:
            raise ValueError(f"y has {n_outputs} outputs; earlier calls had {self.n_outputs}.")
        is_first = options.fit_intercept and self.origin is None
        origin = sample.rough_mean() if is_first else self.origin
        groups, roles = interleaved_groups(options.cv, len(alphas), self.n, n)
        n_groups = 1 if roles is None else len(roles)
        sample = replace(sample, groups=groups, n_groups=n_groups, origin=origin)
        moments = self.engine.moments(sample, min(alphas), progress=Bar(options.verbose))
        if self.folds is not None:
            moments = [a + b for a, b in zip(self.folds, moments, strict=True)]
        return replace(self, folds=moments, origin=origin, n=self.n + n)

    def system(self, alphas: Sequence[float], options: RidgeOptions) -> MomentSystem:
        """Return the system of all rows so far."""
        moments, roles = self.folds or [], interleaved_groups(options.cv, len(alphas), 0, 0)[1]
        if self.base is not None:  # the rows of an earlier fit train in every fold
            moments = [*moments, self.base]
            if roles is not None:
                roles = np.vstack([roles, np.full(roles.shape[1], TRAIN, roles.dtype)])
        M, origin = options.task_matrix, self.origin
        folds = FoldMoments(moments, roles, options.fit_intercept, M, origin=origin)
        return MomentSystem(self.engine, folds, options)


# FITC: rows that the sketch does not span count less ---------------------------------------------

_REASONS = {
    "alpha": "alpha=0",
    "cg": 'solver="cg"',
    "task_matrix": "task_matrix",
    "missing": "missing targets",
    "once": "partial_fit or blocks that can be read only once",
}


def refuse_fitc(**reasons: bool) -> None:
    """Raise where variance="fitc" meets one of the `_REASONS` that it cannot be combined with."""
    for reason, is_so in reasons.items():
        if is_so:
            raise ValueError(
                'variance="fitc" weights the rows in a second pass over all of them, and cannot be '
                f'combined with {_REASONS[reason]}: fit with variance="dtc".'
            )


@dataclass(frozen=True)
class FitcSystem(System):
    """A ridge with FITC's weights of the rows, by one more pass; alpha and n alpha are of "dtc"."""

    sample: TrainingSample
    unweighted: MomentSystem

    @classmethod
    def of(cls, problem: RidgeProblem, decision: Decision) -> FitcSystem:
        return cls(problem.sample, MomentSystem.of(problem, decision))

    def choice(self, search: AlphaSearch) -> ChosenAlpha:
        return self.unweighted.choice(search)

    def solve(self, alpha: float) -> Fit:
        engine, options, sample = self.unweighted.engine, self.unweighted.options, self.sample
        total = self.unweighted.folds.total
        refuse_fitc(missing=isinstance(total, MaskedMoments))
        assert isinstance(total, Moments)
        shift = float(total.weight) * alpha
        moments = sample.rows.reduce(
            FitcMoments(engine, shift, sample.origin), sample.targets, sample.weights,
            n_jobs=options.n_jobs,
        )  # fmt: skip
        folds = FoldMoments([moments], None, options.fit_intercept, origin=sample.origin)
        fit = MomentSystem(engine, folds, options).solve(shift / moments.weight)
        return replace(fit, fitc_shift=shift)


class FitcMoments(Reduction[Moments]):
    """The moments of rows with the weights u_i = w_i / (1 + w_i residual_i / n alpha)."""

    def __init__(self, engine: Engine, shift: float, origin: Floats | None) -> None:
        self.kernel: Kernel = engine.kernel
        self.shift, self.origin = shift, origin
        self.projection: Projection = Projection(
            engine.features, engine.components.T, dtype=np.float64
        )
        self.width: int = 2 * self.projection.width

    def __call__(self, rows: Rows, *beside: Array) -> Moments:
        targets, weights = beside
        Z = self.projection(rows)
        T = numpy_of(targets).astype(np.float64, copy=False)
        T = T if self.origin is None else T - self.origin
        residual = self.kernel.diag(astype(rows, np.float64)) - np.einsum("ij,ij->i", Z, Z)
        w = np.ones(len(Z)) if weights is None else numpy_of(weights)
        u = w / (1.0 + w * np.maximum(residual, 0.0) / self.shift)
        return Moments.of_block(Z, T, u)
