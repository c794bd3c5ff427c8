"""Score and rank the candidates of many spectra; each is embedded once, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skout.decoding import CandidateSets
from skout.dev import PerQuery, row_slices

from .calibration import Confidence, Cuts
from .candidates import CandidatePool, ReadFingerprints
from .results import Hit

# Candidates that are embedded at a time.
_BLOCK = 4096
# Scores that agree so far are equal: rounding does not order candidates.
_DECIMALS = 9


@dataclass(frozen=True)
class Pairs(PerQuery):
    """Candidates of spectra, which are rows of a pool."""

    indptr: np.ndarray  # (n + 1,)
    indices: np.ndarray

    @classmethod
    def of(cls, lists: list[np.ndarray]) -> Pairs:
        """Return the candidates of each spectrum, one array for each."""
        indptr = np.cumsum([0, *map(len, lists)])
        return cls(indptr, np.concatenate([np.empty(0, dtype=np.int64), *lists]).astype(np.int64))

    def entries(self, i: int) -> slice:
        """Return where the candidates of spectrum i are."""
        return slice(int(self.indptr[i]), int(self.indptr[i + 1]))


# (numbers of spectra, one set of candidates for each) -> scores of shape (ways, all candidates)
Scorer = Callable[[np.ndarray, CandidateSets], np.ndarray]


def pair_scores(
    pairs: Pairs, fingerprints: ReadFingerprints, score: Scorer, n_ways: int
) -> np.ndarray:
    """Return the scores of all pairs, shape (ways, pairs)."""
    distinct, number = np.unique(pairs.indices, return_inverse=True)
    query, order = pairs.query_of, np.argsort(number, kind="stable")
    parts = []
    for block in row_slices(len(distinct), _BLOCK):
        first, last = np.searchsorted(number, (block.start, block.stop), sorter=order)
        entries = order[first:last]
        entries = entries[np.argsort(query[entries], kind="stable")]
        rows, counts = np.unique(query[entries], return_counts=True)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        sets = CandidateSets(fingerprints(distinct[block]), indptr, number[entries] - block.start)
        parts.append((entries, score(rows, sets)))
    out = np.empty((n_ways, len(number)))
    for entries, scores in parts:
        out[:, entries] = scores
    return out


class Best(NamedTuple):
    """The best candidates of a spectrum: rows of the pool, best first."""

    rows: np.ndarray
    score: np.ndarray
    confidence: np.ndarray
    in_set: np.ndarray
    n_candidates: int
    n_in_set: int


def ranked(
    index: np.ndarray, scores: np.ndarray, top: int, cuts: Cuts, confidence: Confidence
) -> Best:
    """Return the best candidates of a spectrum; of equal ones the first in the pool."""
    scores = np.round(scores, _DECIMALS)
    order = np.lexsort((index, -scores))[:top]
    if len(scores) == 0:
        return Best(index, scores, scores, scores.astype(bool), 0, 0)
    probability = confidence.of(scores)
    inside = cuts.of(probability)
    best = (index[order], scores[order], probability[order], inside[order])
    return Best(*best, len(scores), int(inside.sum()))


def described(ranked_lists: list[Best], pool: CandidatePool) -> list[dict[str, Any]]:
    """Return the fields of an `Identification` for each list; the pool is read once for all."""
    index = np.concatenate([np.empty(0, dtype=np.int64), *(best.rows for best in ranked_lists)])
    distinct, place = np.unique(index, return_inverse=True)
    columns = (pool.smiles, pool.names, pool.formulas, pool.masses)
    facts = [column(distinct) for column in columns] if len(distinct) else [distinct] * 4
    places = np.split(place, np.cumsum([len(best.rows) for best in ranked_lists])[:-1])
    return [
        {
            "hits": tuple(_hits(best, numbers, facts)),
            "n_candidates": best.n_candidates,
            "n_in_set": best.n_in_set,
        }
        for best, numbers in zip(ranked_lists, places, strict=True)
    ]


def _hits(best: Best, place: np.ndarray, facts: Sequence[np.ndarray]) -> Iterator[Hit]:
    smiles, names, formulas, masses = facts
    for row, j in enumerate(place):
        yield Hit(
            rank=row + 1,
            smiles=str(smiles[j]),
            name=str(names[j]),
            formula=str(formulas[j]),
            mass=float(masses[j]),
            score=float(best.score[row]),
            confidence=float(best.confidence[row]),
            in_set=bool(best.in_set[row]),
            index=int(best.rows[row]),
        )
