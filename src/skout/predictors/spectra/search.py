"""Score the candidates of many spectra: each candidate is embedded once, a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._numerics.arrays import row_slices
from ...decoding import CandidateSets
from ..lists import PerQuery

__all__ = ["Pairs", "pair_scores"]

# Candidates that are embedded at a time.
_BLOCK = 4096


@dataclass(frozen=True)
class Pairs(PerQuery):
    """Candidates of spectra, which are rows of a pool."""

    indptr: np.ndarray  # (n + 1,)
    indices: np.ndarray

    @classmethod
    def of(cls, found: list[np.ndarray]) -> Pairs:
        """Return the candidates of each spectrum, one array for each."""
        indptr = np.cumsum([0, *map(len, found)])
        return cls(indptr, np.concatenate([np.empty(0, dtype=np.int64), *found]).astype(np.int64))

    def own(self, i: int) -> slice:
        """Return where the candidates of spectrum i are."""
        return slice(int(self.indptr[i]), int(self.indptr[i + 1]))


# (numbers of spectra, one set of candidates for each) -> scores of shape (ways, all candidates)
Scorer = Callable[[np.ndarray, CandidateSets], np.ndarray]


def pair_scores(
    pairs: Pairs, fingerprints: Callable[[np.ndarray], Any], score: Scorer
) -> np.ndarray:
    """Return the scores of all pairs, shape (ways, pairs)."""
    distinct, number = np.unique(pairs.indices, return_inverse=True)
    query, order = pairs.query_of, np.argsort(number, kind="stable")
    parts = []
    for some in row_slices(len(distinct), _BLOCK):
        first, last = np.searchsorted(number, (some.start, some.stop), sorter=order)
        entries = order[first:last]
        entries = entries[np.argsort(query[entries], kind="stable")]
        rows, counts = np.unique(query[entries], return_counts=True)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        own = CandidateSets(fingerprints(distinct[some]), indptr, number[entries] - some.start)
        parts.append((entries, score(rows, own)))
    out = np.empty((len(parts[0][1]) if parts else 0, len(number)))
    for entries, found in parts:
        out[:, entries] = found
    return out
