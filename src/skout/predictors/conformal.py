"""Prediction sets with a promise: the truth is among the candidates of a set nine times in ten."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from .._numerics.arrays import n_rows
from .._numerics.frames import FramesOut
from ..decoding import CandidateSets
from ..decoding.base import able
from ..decoding.predicting import split_pipeline

__all__ = ["ConformalSets"]


class ConformalSets(FramesOut, BaseEstimator):
    """Sets of candidates that hold the truth with a given probability (split conformal).

    A candidate is in the set when it scores within q of the best one. On calibration data, which
    the model must not have seen, q is the ceil((n + 1) coverage)-th smallest gap between the best
    score and the truth's; if new data are exchangeable with these, P(truth in set) >= coverage,
    and no set is empty.

    Parameters
    ----------
    model : StructuredPredictor, or Pipeline that ends in one
        Fitted, with a decoder that ranks candidates. If it is fitted again, calibrate again.

    Attributes
    ----------
    gaps_ : ndarray of shape (n,)
        Gaps on the calibration data, increasing; infinite where the truth was no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import ConformalSets, iokr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (300, 1))
    >>> Y = np.eye(4)[np.clip(np.round(X[:, 0] + rng.normal(0, 0.5, 300)) + 1, 0, 3).astype(int)]
    >>> model = iokr("gaussian", "linear", alpha=1e-2).fit(X[:100], Y[:100])
    >>> sets = ConformalSets(model).calibrate(X[100:200], Y[100:200]).predict(X[200:])
    >>> covered = [
    ...     bool((candidates == y).all(axis=1).any()) for candidates, y in zip(sets, Y[200:])
    ... ]
    >>> float(np.mean(covered)), float(sets.sizes.mean())
    (0.92, 1.39)
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def calibrate(self, X: Any, Y: Any, candidates: Any = None) -> ConformalSets:
        """Measure by how much the truth falls short of the best candidate on held-out data.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
            As they will be at prediction; default the distinct training outputs.

        Returns
        -------
        self : ConformalSets
        """
        if n_rows(X) != n_rows(Y):
            raise ValueError(f"X and Y must be of equal length. Got {n_rows(X)} and {n_rows(Y)}.")
        if n_rows(X) == 0:
            raise ValueError("calibrate needs at least one row. Got none.")
        decoder = self._decoder("gaps")
        gaps = np.sort(decoder.gaps(self._coordinates(X), Y, candidates))
        self.gaps_, self._made_by = gaps, getattr(decoder, "made_by", None)
        return self

    def predict(self, X: Any, candidates: Any = None, coverage: float = 0.9) -> CandidateSets:
        """Return a set of candidates for each row of X, best first.

        Parameters
        ----------
        X : what the model takes, n rows
        candidates : objects, CandidateSets or list of lists, optional
        coverage : float, default 0.9
            Probability that the truth is in the set, between 0 and 1.

        Returns
        -------
        sets : CandidateSets
            `sets[i]` are the objects of row i, `sets.sizes` how many they are. Candidates that the
            kernel cannot tell apart, such as molecules of one fingerprint, are there once.
        """
        gap = self.threshold(coverage)
        decoder = self._calibrated_decoder("within")
        return decoder.within(self._coordinates(X), gap, candidates)

    def threshold(self, coverage: float = 0.9) -> float:
        """Return the gap within which candidates are in the set.

        Parameters
        ----------
        coverage : float, default 0.9

        Returns
        -------
        gap : float
            Infinite where the calibration data are too few, or too many truths were no candidate:
            then sets hold every candidate.
        """
        if not hasattr(self, "gaps_"):
            raise NotFittedError("ConformalSets is not calibrated yet: call `calibrate` first.")
        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must lie strictly between 0 and 1. Got {coverage!r}.")
        n = len(self.gaps_)
        share = Fraction(str(coverage))  # the decimal that is meant: 0.9 / (1 - 0.9) is 9
        place = math.ceil((n + 1) * share)
        if place > n:
            warnings.warn(
                f"A coverage of {coverage:g} needs {math.ceil(share / (1 - share))} calibration "
                f"rows or more. Got {n}: the sets hold every candidate.",
                UserWarning,
                stacklevel=2,
            )
            return math.inf
        gap = float(self.gaps_[place - 1])
        if math.isinf(gap):
            absent = int(np.sum(np.isinf(self.gaps_)))
            warnings.warn(
                f"{absent} of {n} truths were not among the candidates in calibration, so no gap "
                f"has a coverage of {coverage:g}: the sets hold every candidate. Calibrate with "
                "candidates that hold the truth, or ask for less coverage.",
                UserWarning,
                stacklevel=2,
            )
        return gap

    def evaluate(
        self, X: Any, Y: Any, candidates: Any = None, coverage: float = 0.9
    ) -> dict[str, float]:
        """Return how often the sets hold the truth, and how large they are.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
        coverage : float, default 0.9

        Returns
        -------
        result : dict
            "coverage", "mean_size", "median_size" and "share_of_one", the sets of one candidate.
        """
        gap = self.threshold(coverage)
        decoder = self._calibrated_decoder("embed", "gaps", "within")
        F = self._coordinates(X)
        pool = decoder.embed(candidates)
        sets = decoder.within(F, gap, pool)
        # no gap is finite where the truth is not in the set
        covered = np.isfinite(decoder.gaps(F, Y, replace(pool, objects=sets)))
        sizes = sets.sizes
        return {
            "coverage": float(np.mean(covered)),
            "mean_size": float(np.mean(sizes)),
            "median_size": float(np.median(sizes)),
            "share_of_one": float(np.mean(sizes == 1)),
        }

    def _coordinates(self, X: Any) -> np.ndarray:
        before, last = split_pipeline(self.model, "ConformalSets")
        return last.predict_coordinates(X if before is None else before.transform(X))

    def _decoder(self, *methods: str) -> Any:
        """Return the decoder of the model, which must have these methods."""
        decoder = split_pipeline(self.model, "ConformalSets")[1].decoder_
        return able(decoder, *methods, by="ConformalSets")

    def _calibrated_decoder(self, *methods: str) -> Any:
        """Return the decoder of the model, which must be the one that `calibrate` saw."""
        decoder = self._decoder(*methods)
        made_by = getattr(decoder, "made_by", None)
        # files of older versions do not say which one it was
        if getattr(self, "_made_by", made_by) != made_by:
            raise ValueError(
                "The model was fitted again after `calibrate`, so that the gaps are those of "
                "another model: call `calibrate` again."
            )
        return decoder
