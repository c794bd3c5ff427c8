"""Order candidates by a softmax over their columns, and say how probable each is.

Learned from spectra whose molecules, and where these are known whose laboratories, had no part in
the models that scored them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from skout.dev import FeatureLists, listwise_alpha, listwise_coefficients

from .calibration import Confidence, calibration_error, surprise, truth_rank

# Candidates of a molecule that are learned from: the best.
_MOST = 200
# Penalty on the weight of a prior, of two columns of unit spread.
_LIGHT = 1e-4
_TOP = 25


@dataclass(frozen=True)
class HeldOut:
    """Columns of the candidates of held-out spectra, n of them, and which are the truth."""

    columns: np.ndarray  # (d, pairs)
    indptr: np.ndarray  # (n + 1,)
    right: np.ndarray  # (pairs,) bool
    fold: np.ndarray  # (n,)
    alike: np.ndarray  # (pairs,) bool, which have the formula of the truth

    def of(self, pairs: np.ndarray) -> HeldOut:
        """Return the candidates that `pairs`, bool, marks, and the spectra that have any."""
        counts = np.add.reduceat(pairs, self.indptr[:-1], dtype=np.intp)
        kept = counts > 0
        return HeldOut(
            self.columns[:, pairs],
            np.cumsum([0, *counts[kept]]),
            self.right[pairs],
            self.fold[kept],
            self.alike[pairs],
        )

    def each(self, query: np.ndarray) -> np.ndarray:
        """Return a value of each spectrum for each of its candidates."""
        return np.repeat(query, np.diff(self.indptr))

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
        """Return the ranking that `state` was read from."""
        return cls(**state | {"confidence": Confidence(*state["confidence"])})

    @property
    def state(self) -> dict[str, Any]:
        """The ranking as a dict of arrays and tuples, which a file can hold."""
        return vars(self) | {"confidence": tuple(self.confidence)}


@dataclass(frozen=True)
class Weights:
    """Coefficients of columns, and scores of held-out candidates by those of other folds."""

    coef: np.ndarray
    scores: np.ndarray  # (pairs,)
    alpha: float  # the penalty


def weighed(held: HeldOut, alpha: float | None = None) -> Weights:
    """Return coefficients of columns; `alpha` is chosen by folds where it is None."""
    lists = _lists(held)
    if not len(lists.truth):
        return Weights(np.eye(len(held.columns))[0], held.columns[0], np.inf)
    scale = lists.spreads()
    lists = lists.scaled(scale)
    alpha = listwise_alpha(lists)[0] if alpha is None else alpha
    coef = listwise_coefficients(lists, alpha) / scale
    scores, fold = coef @ held.columns, held.each(held.fold)
    for k in np.unique(held.fold):
        others = np.flatnonzero(lists.fold != k)
        if len(others):
            fold_coef = listwise_coefficients(lists.of(others), alpha) / scale
            scores[fold == k] = fold_coef @ held.columns[:, fold == k]
    return Weights(coef, scores, alpha)


def with_prior(held: HeldOut, weights: Weights, prior: np.ndarray, fair: np.ndarray) -> Weights:
    """Return weights with one more for the prior, (pairs,), which is at least 0.

    It is learned beside the score as a whole from those candidates that are `fair`, (pairs,) bool.
    """
    both = replace(held, columns=np.stack([weights.scores, prior])).of(fair)
    lists = _lists(both)
    factor, slope = 1.0, 0.0
    if len(lists.truth):
        scale = lists.spreads()
        factor, slope = listwise_coefficients(lists.scaled(scale), _LIGHT) / scale
    if slope <= 0.0 or factor <= 0.0:  # known molecules are not measured more often
        factor, slope = 1.0, 0.0
    scores = factor * weights.scores + slope * prior
    return Weights(np.append(factor * weights.coef, slope), scores, weights.alpha)


def calibrated(held: HeldOut, weights: Weights) -> tuple[CandidateRanking, dict[str, Any]]:
    """Return a ranking, and how good it is on folds that it was not learned from."""
    scores, right = held.split(weights.scores), held.split(held.right)
    confidence = Confidence.fitted(scores, right)
    p = [confidence.of(s) for s in scores]
    sizes = np.diff(held.indptr)
    several = sizes > 1  # one candidate is always right, and teaches nothing
    surprises = np.array(
        [surprise(probability, t) for probability, t in zip(p, right, strict=True)]
    )
    report = report_of(scores, right)
    best_probability = np.array([probability.max() for probability in p])[several]
    if several.any():
        hits = np.array([truth_rank(s, t) <= 1.0 for s, t in zip(scores, right, strict=True)])
        report["calibration_error"] = calibration_error(best_probability, hits[several])
        report["mean_confidence"] = float(best_probability.mean())
    return CandidateRanking(weights.coef, confidence, sizes[several], surprises[several]), report


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
    report: dict[str, Any] = {}
    for name, value in values.items():
        report[name] = float(np.mean(value)) if n else float("nan")
        report[f"{name}_se"] = float(np.std(value, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return report


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
