"""What predictors share that rank candidates by scores of their own: votes, or a last word."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ..decoding.pools import taken
from ..predictor import ObjectPredictor
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

    def predict(self, X: Any, candidates: Any = None) -> Any:
        return self._best(X, candidates)

    def _best(self, X: Any, candidates: Any, **more: Any) -> Any:
        candidates = self.embed(candidates)
        best = self.rank(X, candidates, 1, **more)[0][:, 0]
        pool = plain_pool(candidates)
        return taken(pool.pool, in_pool(best, pool))

    def _embedded(self, candidates: Any) -> Any:
        return self.embed(candidates)
