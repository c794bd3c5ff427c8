"""Rankings by the sum of votes, which is steadier than the best order where votes are close."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...decoding import RankingDecoder

__all__ = ["BordaDecoder"]


class BordaDecoder(RankingDecoder):
    """Sort items by what all their pairs say together (Borda), in coordinates of Kendall's kernel.

    The order that agrees with most pairs, which `RankingDecoder` finds, follows each pair however
    close; sums over pairs average their errors. No search: any number of items.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.predictors.tuning.borda import BordaDecoder
    >>> Y = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2]])
    >>> basis = KernelBasis("kendall").fit(Y)
    >>> BordaDecoder().fit(basis, Y).decode(basis.transform(Y))
    array([[0, 1, 2],
           [0, 2, 1],
           [1, 0, 2]])
    """

    def decode(self, F: np.ndarray, candidates: Any = None) -> np.ndarray:
        """Return the ranking of each predicted row; equal sums go by the number of the item.

        Parameters
        ----------
        F : ndarray of shape (n, p)
        candidates : None

        Returns
        -------
        ranks : ndarray of int64, shape (n, d)
        """
        self._refuse(candidates)
        first, second = np.triu_indices(self.n_items_, k=1)
        votes = np.zeros((len(F), self.n_items_))
        for pair, i, j in zip((F @ self.directions_).T, first, second, strict=True):
            votes[:, i] += pair
            votes[:, j] -= pair
        order = np.argsort(-votes.round(12), axis=1, kind="stable")
        return np.argsort(order, axis=1, kind="stable") + self._best_rank
