"""`Answers`: the best candidates that `ConformalSelection` returns, with their p-values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Answers:
    """The best candidate of each of n queries, and whether it is accepted.

    Attributes
    ----------
    objects : n objects
        The best candidates.
    indices : ndarray of int, shape (n,)
        Their positions in the pool.
    confidence : ndarray of shape (n,)
        Estimated probability that the candidate is right.
    p_values : ndarray of shape (n,)
        Conformal p-value of the hypothesis that the candidate is wrong.
    q_values : ndarray of shape (n,)
        The smallest `fdr` at which the candidate would be accepted in this batch.
    accepted : ndarray of bool, shape (n,)
        Whether the q-value is at most `fdr`.
    """

    objects: Any
    indices: np.ndarray
    confidence: np.ndarray
    p_values: np.ndarray
    q_values: np.ndarray
    accepted: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)
