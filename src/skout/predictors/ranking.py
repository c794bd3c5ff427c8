"""What predictors share that rank candidates by scores of their own: votes, or a last word."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..decoding.pools import taken
from ..decoding.predicting import ObjectPredictor
from ..decoding.search import Found
from .lists import in_pool, plain_pool

__all__ = ["RankingPredictor"]


class RankingPredictor(ObjectPredictor):
    """A predictor of objects whose methods rank candidates."""

    @abstractmethod
    def embed(self, candidates: Any) -> Any:
        """Encode and embed candidates once, to give them to `predict` and `rank` many times.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists

        Returns
        -------
        pool : EmbeddedPool, or EmbeddedPools of an Ensemble
        """

    @abstractmethod
    def rank(self, X: Any, candidates: Any = None, k: int = 10) -> Found:
        """Rank the candidates of each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            Default the distinct training outputs.
        k : int, default 10
            How many to return; of a shared pool that has fewer, all.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions in the pool, or in the row's own set, best first; ties go to the lower
            position. A set of fewer than k candidates is padded with -1.
        scores : ndarray of shape (n, k)
            Padded with -inf.
        """

    @abstractmethod
    def truth_ranks(
        self, X: Any, Y: Any, candidates: Any = None, *, ties: str = "average"
    ) -> np.ndarray:
        """Return the rank of the true object among the distinct candidates; 1 is best.

        Parameters
        ----------
        X : what the predictor takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
        ties : "average", "worst" or "best", default "average"
            What to make of candidates that score as the truth does.

        Returns
        -------
        ranks : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """

    def predict(self, X: Any, candidates: Any = None) -> Any:
        """Predict an object for each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            What to choose from: one pool for all rows, or one set for each; default the distinct
            training outputs.

        Returns
        -------
        objects : n of them
        """
        return self._best(X, candidates)

    def _best(self, X: Any, candidates: Any, **more: Any) -> Any:
        candidates = self.embed(candidates)
        best = self.rank(X, candidates, 1, **more)[0][:, 0]
        pool = plain_pool(candidates)
        return taken(pool.pool, in_pool(best, pool))

    def _embedded(self, candidates: Any) -> Any:
        return self.embed(candidates)
