"""Ridge regression on rows that come little by little: moments add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._numerics.validation import all_at_once, check_alphas, check_rng
from ..basis import KernelBasis, span_of
from ..basis.passes import Sample
from ..rows import Blocks
from ..sketches import as_sketch
from .checkpoint import Bar
from .choice import check_has_moments
from .doubt import check_fitc
from .path import Search
from .sketched import fit_from_moments
from .splits import TRAIN, interleaved_groups

__all__ = ["AddsRows"]

# Rows of blocks that can be read only once are gathered until there are so many.
_ONCE_ROWS = 8192


def _has_sketch(model: Any) -> bool:
    if model.sketch is None:
        raise AttributeError(
            "partial_fit needs a sketch: without one the model keeps every row. "
            "Give for instance sketch=SubSample(1000)."
        )
    return True


class AddsRows:
    """What `KernelRidge` does with rows that are not all there at once."""

    basis_: Any
    _origin: np.ndarray | None

    def _fit_once(self: Any, blocks: Blocks, landmarks: Any, alphas: list[float]) -> Any:
        """Fit on blocks that can be read once, as they come."""
        if self.solver == "cg":
            raise ValueError(
                'solver="cg" passes over the rows many times, and these blocks can be read only '
                "once: give a function that makes them anew, leave out landmarks, or use "
                'solver="direct".'
            )
        check_fitc(self, once=True)
        self._reset()
        for X, y, *weight in blocks.merged(_ONCE_ROWS):
            self._add(X, y, next(iter(weight), None), None if self._folds else landmarks)
        if self._folds is None:
            raise ValueError("Found blocks with 0 sample(s): Blocks must have rows.")
        return self._solve_added(alphas)

    @available_if(_has_sketch)
    @all_at_once
    def partial_fit(
        self: Any, X: Any, y: Any, sample_weight: Any = None, landmarks: Any = None
    ) -> Any:
        """Add rows to the model: the result is that of one fit on all rows with these landmarks.

        After `fit` it goes on from there; then only the rows given here are held out in the folds
        that choose alpha.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        y : array of shape (n,) or (n, d)
        sample_weight : array of shape (n,), optional
        landmarks : array, CSR matrix or objects, optional
            Rows that the sketch is drawn from, at the first call; default its X. Widths such as
            gamma="scale" are resolved on them too.

        Returns
        -------
        self : KernelRidge
        """
        alphas = check_alphas(self.alpha)
        check_has_moments(self)
        check_fitc(self, once=True)
        self._add(X, y, sample_weight, landmarks)
        return self._solve_added(alphas)

    def _add(self: Any, X: Any, y: Any, sample_weight: Any, landmarks: Any) -> None:
        """Add the moments of some rows to those of earlier ones."""
        alphas = check_alphas(self.alpha)
        first = not hasattr(self, "basis_")
        if not first and landmarks is not None:
            raise ValueError("landmarks can only be given at the first call of partial_fit.")
        sample = self._sample(X, y, sample_weight, reset=first, adds=True)
        if first:
            self._reset()
            self._begin(sample, landmarks, alphas)
        elif sample.targets.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {sample.targets.shape[1]} outputs; earlier calls had {self._n_outputs}."
            )
        if self.fit_intercept and self._origin is None:
            self._origin = sample.rough_mean()
        n = len(sample.rows)
        groups, parts = interleaved_groups(self.cv, len(alphas), self._n_seen, n)
        sample = replace(sample, groups=groups, n_groups=max(1, len(parts)), origin=self._origin)
        moments = self.basis_.engine_.moments(sample, min(alphas), progress=Bar(self.verbose))
        if self._folds is not None:
            moments = [a + b for a, b in zip(self._folds, moments, strict=True)]
        self._n_seen += len(sample.rows)
        self._folds = moments

    def _solve_added(self: Any, alphas: list[float]) -> Any:
        """Solve on all rows that were given so far."""
        moments, parts = self._folds, interleaved_groups(self.cv, len(alphas), 0, 0)[1]
        if self._base is not None:  # the rows of an earlier fit train in every fold
            self._base = self._base.whitened()
            moments = [*moments, self._base]
            parts = [*parts, np.full(len(parts), TRAIN)] if parts else []
        engine, settings = self.basis_.engine_, self._settings(self._n_outputs)
        how = {"origin": self._origin, "report": getattr(self, "solver_report_", None)}
        fit = fit_from_moments(settings, engine, moments, parts, Search(alphas), **how)
        self._take(replace(fit, moments=self._base))  # those of partial_fit are kept by fold
        return self

    def _begin(self: Any, sample: Sample, landmarks: Any, alphas: list[float]) -> None:
        """Draw the landmarks from the first rows, or from those given for it."""
        self._n_outputs = sample.targets.shape[1]
        settings = self._settings(self._n_outputs)
        kernel, _ = self._learned(sample, alphas, settings)
        drawn = self._drawn_from(landmarks) or sample
        rng, place = check_rng(self.random_state), {"n_jobs": self.n_jobs, "device": self.device}
        span = span_of(kernel, as_sketch(self.sketch), drawn.rows, rng, drawn.weights, **place)
        self.basis_ = KernelBasis.of(span.engine, span.engine.kernel, self.sketch)
        self.kernel_, self.landmarks_ = span.engine.kernel, span.engine.landmarks
