"""The best candidates of a spectrum, with probabilities, the prediction set and their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .calibration import Confidence, Cuts
from .results import Hit

__all__ = ["described", "ranked"]

# Scores that agree so far are equal: rounding does not order candidates.
_DECIMALS = 9


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
    sure = confidence.of(scores)
    inside = cuts.of(sure)
    best = (index[order], scores[order], sure[order], inside[order])
    return Best(*best, len(scores), int(inside.sum()))


def described(found: list[Best], pool: Any) -> list[dict[str, Any]]:
    """Return what an `Identification` says of candidates; the pool is asked once for all."""
    index = np.concatenate([np.empty(0, dtype=np.int64), *(one.rows for one in found)])
    distinct, place = np.unique(index, return_inverse=True)
    columns = (pool.smiles, pool.names, pool.formulas, pool.masses)
    facts = [column(distinct) for column in columns] if len(distinct) else [[]] * 4
    places = np.split(place, np.cumsum([len(one.rows) for one in found])[:-1])
    return [
        {
            "hits": tuple(_hits(one, own, facts)),
            "n_candidates": one.n_candidates,
            "n_in_set": one.n_in_set,
        }
        for one, own in zip(found, places, strict=True)
    ]


def _hits(one: Best, place: np.ndarray, facts: list[Any]) -> Iterator[Hit]:
    smiles, names, formulas, masses = facts
    for row, j in enumerate(place):
        yield Hit(
            rank=row + 1,
            smiles=str(smiles[j]),
            name=str(names[j]),
            formula=str(formulas[j]),
            mass=float(masses[j]),
            score=float(one.score[row]),
            confidence=float(one.confidence[row]),
            in_set=bool(one.in_set[row]),
            index=int(one.rows[row]),
        )
