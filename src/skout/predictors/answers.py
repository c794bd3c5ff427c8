"""What `ConformalSelection` returns, in a module of its own: its page of the reference needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Answers:
    """The best candidate of each of n queries, and whether to trust it.

    Attributes
    ----------
    objects : n objects
    indices : ndarray of int, shape (n,)
        Where they are in the pool.
    confidence : ndarray of shape (n,)
        Estimated probability that the answer is right.
    p_values : ndarray of shape (n,)
        Of the hypothesis that it is wrong: how often wrong answers look as good.
    q_values : ndarray of shape (n,)
        The least `fdr` at which it would be accepted in this batch.
    accepted : ndarray of bool, shape (n,)
    """

    objects: Any
    indices: np.ndarray
    confidence: np.ndarray
    p_values: np.ndarray
    q_values: np.ndarray
    accepted: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)
