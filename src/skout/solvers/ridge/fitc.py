"""Rows that the sketch does not span count less: FITC, the weights of variance="fitc"."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._numerics.arrays import astype, numpy_of
from ..._numerics.typing import Array, Floats, Rows
from ...basis.features import LandmarkFeatures, Projection
from ...basis.moments import MaskedMoments, Moments, TrainingSample
from ...kernels import Kernel
from ...rows import Reduction
from ..folds import AlphaSearch, ChosenAlpha
from .moments import FoldMoments, MomentSystem
from .system import Decision, Fit, RidgeProblem, System

_REASONS = {
    "alpha": "alpha=0",
    "cg": 'solver="cg"',
    "task_matrix": "task_matrix",
    "missing": "missing targets",
    "once": "partial_fit or blocks that can be read only once",
}


def refuse_fitc(**reasons: bool) -> None:
    """Raise where variance="fitc" cannot be combined with something: names with what is so."""
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
        engine, options, total = (
            self.unweighted.engine, self.unweighted.options, self.unweighted.folds.total
        )  # fmt: skip
        refuse_fitc(missing=isinstance(total, MaskedMoments))
        assert isinstance(total, Moments)
        shift, origin = float(total.weight) * alpha, self.sample.origin
        function = FitcMoments(engine.features, engine.components, shift, origin)
        moments = self.sample.rows.reduce(
            function, self.sample.targets, self.sample.weights, n_jobs=options.n_jobs
        )
        folds = FoldMoments([moments], None, options.fit_intercept, origin=origin)
        fit = MomentSystem(engine, folds, options).solve(shift / moments.weight)
        return replace(fit, fitc_shift=shift)


class FitcMoments(Reduction[Moments]):
    """The moments of rows with the weights u_i = w_i / (1 + w_i residual_i / n alpha)."""

    kernel: Kernel
    shift: float
    origin: Floats | None

    def __init__(
        self,
        features: LandmarkFeatures,
        components: Floats,
        shift: float,
        origin: Floats | None,
    ) -> None:
        self.kernel, self.shift, self.origin = features.kernel, shift, origin
        self.projection: Projection = Projection(features, components.T, dtype=np.float64)
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
