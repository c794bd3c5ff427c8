"""From scores to probabilities and prediction sets, measured on molecules that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp
from sklearn.linear_model import LogisticRegression

from skout.dev import conformal_quantile, size_edges

# Temperatures that are tried, in units of the spread of scores: from certainty to a guess.
_COLDEST, _WARMEST = 1e-3, 1e2
# Molecules that a curve is fitted on, at least; the smallest probability.
_FEWEST, _TINY = 20, 1e-12
# Strata of prediction sets, and molecules of each, at least; rounding of log probabilities.
_STRATA, _STRATUM, _ROUNDING = 4, 50, 1e-7
# Scores that differ by less, relative to the largest, tie: rounding is about 1e-12.
_TIE = 1e-10
# Bins of confidence that are compared with how often it is right.
_BINS = 10


class Confidence(NamedTuple):
    """From the scores of candidates to the probability that each is the truth.

    Scores are divided by a temperature and made probabilities; that of the best candidate is then
    corrected by a logistic curve, and the others share the rest.
    """

    temperature: float  # at which the truths of held-out molecules are most probable
    intercept: float  # of the curve, fitted on whether the best candidate was the truth
    slope: float

    def of(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each candidate of these scores; they sum to 1."""
        # softmax p of s / t; then p_1 <- 1 / (1 + exp(-(a + b logit p_1)))
        if len(scores) == 1:
            return np.ones(1)
        p, best = _softmax(scores / self.temperature), int(scores.argmax())
        first = float(expit(self.intercept + self.slope * _logit(p[best])))
        others = np.delete(p, best)  # where they are all 0, they share the rest equally
        is_positive = others.sum() > _TINY
        others = others / others.sum() if is_positive else np.full_like(others, 1 / len(others))
        second = float(others.max())
        first = max(first, second / (1.0 + second))  # the best is not less probable than another
        rest = (1.0 - first) * others
        return np.insert(rest, best, max(first, float(rest.max())))  # rounding orders nobody

    @classmethod
    def fitted(cls, scores: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> Confidence:
        """Fit on the candidates of held-out molecules: their scores, and which are the truth."""
        several = [i for i, s in enumerate(scores) if len(s) > 1 and right[i].any()]
        scores, right = [scores[i] for i in several], [right[i] for i in several]
        t = _temperature(scores, right)
        hit = np.array([is_truth[s.argmax()] for s, is_truth in zip(scores, right, strict=True)])
        if len(hit) < _FEWEST or hit.all() or not hit.any():
            return cls(t, 0.0, 1.0)  # nothing to correct by
        x = np.array([_logit(_softmax(s / t).max()) for s in scores])
        curve = LogisticRegression(C=1.0).fit(x[:, None], hit)
        return cls(t, float(curve.intercept_[0]), float(curve.coef_[0, 0]))


def _softmax(logits: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(logits - logsumexp(logits)))


def _logit(p: float) -> float:
    p = min(max(float(p), _TINY), 1.0 - _TINY)
    return float(np.log(p) - np.log1p(-p))


def _temperature(scores: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    """Return the temperature at which the truths are most probable."""
    spread = float(np.mean([s.std() for s in scores])) if scores else 0.0
    if spread == 0.0:
        return 1.0

    def loss(log_temperature: float) -> float:
        t = np.exp(log_temperature)
        pairs = zip(scores, right, strict=True)
        return -float(
            np.mean([logsumexp(s[is_truth] / t) - logsumexp(s / t) for s, is_truth in pairs])
        )

    bounds = np.log(spread * _COLDEST), np.log(spread * _WARMEST)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def truth_rank(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the rank of the truth among the candidates; ties share the mean of their ranks.

    Copies of the truth take one place.
    """
    if not right.any():
        return np.inf
    truth_score, others = scores[right].max(), scores[~right]
    slack = _TIE * np.abs(scores).max()
    above = np.sum(others > truth_score + slack)
    return float(1.0 + above + 0.5 * (np.sum(others >= truth_score - slack) - above))


def surprise(p: np.ndarray, right: np.ndarray) -> float:
    """Return -log of the probability of the truth; infinite where it is no candidate."""
    return float(-np.log(max(float(p[right].max()), _TINY))) if right.any() else np.inf


class Cuts(NamedTuple):
    """The least probability of candidates in prediction sets, by how many candidates there are."""

    edges: np.ndarray  # numbers of candidates at which a stratum ends
    surprise: np.ndarray  # -log of the probability in each stratum

    def of(self, p: np.ndarray) -> np.ndarray:
        """Return which candidates of these probabilities are in the set; the best always is."""
        most = self.surprise[np.searchsorted(self.edges, len(p))] + _ROUNDING
        return np.asarray((-np.log(np.maximum(p, _TINY)) <= most) | (p == p.max()))

    @classmethod
    def fitted(cls, sizes: np.ndarray, surprises: np.ndarray, coverage: float) -> Cuts:
        """Return the cuts of each stratum of held-out molecules, by their numbers of candidates."""
        parts = int(np.clip(len(sizes) // _STRATUM, 1, _STRATA))
        edges = size_edges(sizes, np.arange(1, parts) / parts)
        stratum = np.searchsorted(edges, sizes)
        limits = [
            conformal_quantile(np.sort(surprises[stratum == k]), coverage)
            for k in range(len(edges) + 1)
        ]
        return cls(edges, np.array(limits))


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Return the mean difference of confidence and share of hits, over bins of equal size."""
    parts = np.array_split(np.argsort(confidence, kind="stable"), min(_BINS, len(confidence)))
    gaps = [len(rows) * abs(confidence[rows].mean() - right[rows].mean()) for rows in parts]
    return float(np.sum(gaps) / len(confidence))
