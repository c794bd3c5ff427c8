"""Order candidates by a softmax over their columns, and say how probable each is.

Learned from spectra whose molecules, and where these are known whose laboratories, had no part in
the models that scored them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from skout.dev import FeatureLists, listwise_alpha, listwise_coefficients

from .calibration import Confidence, calibration_error, surprise, truth_rank

# Candidates of a molecule that are learned from: the best.
_MOST = 200
_TOP = 25


@dataclass(frozen=True)
class HeldOut:
    """Columns of the candidates of held-out spectra, n of them, and which are the truth."""

    columns: np.ndarray  # (d, pairs)
    indptr: np.ndarray  # (n + 1,)
    right: np.ndarray  # (pairs,) bool
    fold: np.ndarray  # (n,)

    def of(self, kept: np.ndarray) -> HeldOut:
        """Return some of the spectra, (n,) bool."""
        sizes = np.diff(self.indptr)
        pairs, indptr = np.repeat(kept, sizes), np.cumsum([0, *sizes[kept]])
        return HeldOut(self.columns[:, pairs], indptr, self.right[pairs], self.fold[kept])

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the values of the candidates of each spectrum."""
        return [values[..., a:b] for a, b in pairwise(self.indptr)]


@dataclass(frozen=True)
class CandidateRanking:
    """From the columns of candidates to their order, probabilities and prediction sets."""

    coef: np.ndarray  # (d,)
    confidence: Confidence
    sizes: np.ndarray  # (n,) candidates of each held-out molecule that has several
    surprises: np.ndarray  # (n,) -log of the probability of its truth, infinite without any

    @classmethod
    def restored(cls, state: dict[str, Any]) -> CandidateRanking:
        """Return what `state` said."""
        return cls(**state | {"confidence": Confidence(*state["confidence"])})

    @property
    def state(self) -> dict[str, Any]:
        """What a file can hold."""
        return vars(self) | {"confidence": tuple(self.confidence)}


def learned(held: HeldOut, groups: np.ndarray) -> tuple[CandidateRanking, dict[str, Any]]:
    """Return a ranking, and how good it is on folds that it was not learned from.

    Columns of one number in `groups` are on one scale, so that rare ones are drawn to 0.
    """
    right = held.split(held.right)
    lists = _lists(held)
    coef = np.eye(len(held.columns))[0]
    scores = held.split(held.columns[0])
    if len(lists.truth):
        spreads = lists.spreads()
        mean = np.bincount(groups, spreads**2) / np.maximum(np.bincount(groups), 1)
        scale = np.sqrt(mean)[groups]
        lists = lists.scaled(scale)
        alpha = listwise_alpha(lists)[0]
        coef = listwise_coefficients(lists, alpha) / scale
        by_fold = {
            k: listwise_coefficients(lists.of(np.flatnonzero(lists.fold != k)), alpha) / scale
            for k in np.unique(held.fold)
            if (lists.fold != k).any()
        }
        columns = held.split(held.columns)
        scores = [by_fold.get(k, coef) @ own for own, k in zip(columns, held.fold, strict=True)]
    confidence = Confidence.fitted(scores, right)
    p = [confidence.of(s) for s in scores]
    sizes = np.diff(held.indptr)
    several = sizes > 1  # one candidate is always right, and teaches nothing
    surprises = np.array([surprise(one, t) for one, t in zip(p, right, strict=True)])
    report = report_of(scores, right)
    sure = np.array([one.max() for one in p])[several]
    if several.any():
        hits = np.array([truth_rank(s, t) <= 1.0 for s, t in zip(scores, right, strict=True)])
        report["calibration_error"] = calibration_error(sure, hits[several])
        report["mean_confidence"] = float(sure.mean())
    return CandidateRanking(coef, confidence, sizes[several], surprises[several]), report


def _lists(held: HeldOut) -> FeatureLists:
    """Return the best candidates of those spectra that have the truth and another among them."""
    parts, truth, kept = [np.empty((0, len(held.columns)))], [], []
    pairs = zip(held.split(held.columns), held.split(held.right), strict=True)
    for i, (columns, right) in enumerate(pairs):
        order = np.argsort(-columns[0], kind="stable")[:_MOST]
        hits = np.flatnonzero(right[order])
        order = np.delete(order, hits[1:])  # copies of the truth take one place
        if len(hits) and len(order) > 1:
            parts.append(columns[:, order].T)
            truth.append(hits[0])
            kept.append(i)
    indptr = np.cumsum([0, *map(len, parts[1:])])
    starts = indptr[:-1] + np.array(truth, dtype=np.intp)
    return FeatureLists(np.concatenate(parts), indptr, starts, np.ones(len(kept)), held.fold[kept])


def report_of(scores: list[np.ndarray], right: list[np.ndarray]) -> dict[str, Any]:
    """Return means over spectra with several candidates, with their standard errors.

    NaN where there is none: a single candidate is always first.
    """
    ranks = [truth_rank(s, t) for s, t in zip(scores, right, strict=True) if len(s) > 1]
    rank, n = np.array(ranks), len(ranks)
    values = {
        "top_1": rank <= 1.0,
        "top_10": rank <= 10.0,
        "mrr_25": np.where(rank <= _TOP, 1.0 / rank, 0.0),
    }
    found: dict[str, Any] = {}
    for name, value in values.items():
        found[name] = float(np.mean(value)) if n else float("nan")
        found[f"{name}_se"] = float(np.std(value, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return found


def random_order(sizes: np.ndarray) -> dict[str, float]:
    """Return what random order scores in expectation on spectra with so many candidates."""
    if len(sizes) == 0:
        return dict.fromkeys(("top_1", "top_10", "mrr_25"), float("nan"))
    # P(rank <= k) = min(k, n) / n, E[1 / rank] = (1 + 1/2 + ... + 1/min(n, 25)) / n
    harmonic = np.cumsum(1.0 / np.arange(1, _TOP + 1))
    return {
        "top_1": float(np.mean(1.0 / sizes)),
        "top_10": float(np.mean(np.minimum(10, sizes) / sizes)),
        "mrr_25": float(np.mean(harmonic[np.minimum(sizes, _TOP) - 1] / sizes)),
    }
