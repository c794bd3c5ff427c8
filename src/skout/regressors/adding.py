"""Ridge regression on rows that come little by little: moments add up."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._numerics.validation import all_at_once, check_alphas
from ..rows import Blocks
from .checkpoint import Bar
from .choice import check_has_moments
from .doubt import check_fitc
from .learning import learnt_kernel
from .path import Search
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
        sample = self._sample(X, y, sample_weight, reset=first)
        if first:
            self._reset()
            self._fit_basis(learnt_kernel(self, sample), sample, landmarks)
            self._n_outputs = sample.targets.shape[1]
        elif sample.targets.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {sample.targets.shape[1]} outputs; earlier calls had {self._n_outputs}."
            )
        n = len(sample.rows)
        groups, parts = interleaved_groups(self.cv, len(alphas), self._n_seen, n)
        sample = self._prepared(sample, groups, len(parts))
        moments = self.basis_._moments(sample, min(alphas), progress=Bar(self.verbose))
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
        self._solve(moments, parts, Search(alphas))
        return self
