"""The best candidates of a spectrum, with probabilities, the prediction set and their names."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .calibration import Confidence, Cuts
from .results import Hit

__all__ = ["Ranked", "described", "ranked"]

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


class Ranked(NamedTuple):
    """The same for people."""

    hits: tuple[Hit, ...]
    n_candidates: int
    n_in_set: int


def ranked(
    index: np.ndarray, scores: np.ndarray, top: int, cuts: Cuts, confidence: Confidence
) -> Best:
    """Return the best candidates of a spectrum; of equal ones the first in the pool.

    Parameters
    ----------
    index : ndarray of int, shape (c,)
        Their rows in the pool.
    scores : ndarray of shape (c,)
    top : int
    cuts : Cuts
        Which candidates are in the prediction set.
    confidence : Confidence
    """
    scores = np.round(scores, _DECIMALS)
    order = np.lexsort((index, -scores))[:top]
    if len(scores) == 0:
        nothing = np.empty(0)
        return Best(index, nothing, nothing, nothing.astype(bool), 0, 0)
    sure = confidence.of(scores)
    inside = cuts.of(sure)
    best = (index[order], scores[order], sure[order], inside[order])
    return Best(*best, len(scores), int(inside.sum()))


def described(found: list[Best], pool: Any) -> list[Ranked]:
    """Return candidates with what the pool knows of them, which is asked once for all.

    Parameters
    ----------
    found : list of Best
    pool : MoleculePool
    """
    index = np.concatenate([np.empty(0, dtype=np.int64), *(one.rows for one in found)])
    distinct, place = np.unique(index, return_inverse=True)
    columns = (pool.smiles, pool.names, pool.formulas, pool.masses)
    facts = [column(distinct) for column in columns] if len(distinct) else [[]] * 4
    places = np.split(place, np.cumsum([len(one.rows) for one in found])[:-1])
    return [_ranked(one, own, facts) for one, own in zip(found, places, strict=True)]


def _ranked(one: Best, place: np.ndarray, facts: list[Any]) -> Ranked:
    smiles, names, formulas, masses = facts
    hits = [
        Hit(
            rank=rank,
            smiles=str(smiles[j]),
            name=str(names[j]),
            formula=str(formulas[j]),
            mass=float(masses[j]),
            score=float(score),
            confidence=float(confidence),
            in_set=bool(in_set),
            index=int(index),
        )
        for rank, (j, index, score, confidence, in_set) in enumerate(
            zip(place, one.rows, one.score, one.confidence, one.in_set, strict=True), 1
        )
    ]
    return Ranked(tuple(hits), one.n_candidates, one.n_in_set)
