"""Listwise softmax regression: the probability that each candidate of a query is the true one.

With the features phi(c) of the candidates c of a query and coefficients w,

    P(c) = exp(<w, phi(c)>) / sum_c' exp(<w, phi(c')>)    (conditional logit).

The loss of a query is -log P(truth); what is the same for all its candidates plays no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from .._numerics.typing import Floats, Ints, Rng
from .lists import QueryColumns

# Penalties on coefficients of standardized features that `chosen_alpha` compares, strongest first,
# beside infinity, which keeps the predictor's own order.
_ALPHAS = 10.0 ** np.arange(1.0, -4.5, -1.0)
# Largest factor of the standardized score of the predictor: then the softmax is a maximum.
_LARGEST_FACTOR = 1e3
# A standard deviation below this, relative to the values, is rounding.
_CONSTANT = 1e-12


@dataclass(frozen=True)
class FeatureLists(QueryColumns):
    """Features of the candidates of each query; every query has at least one candidate."""

    by_entry: ClassVar[tuple[str, ...]] = ("features",)
    by_query: ClassVar[tuple[str, ...]] = ("truth", "weights", "fold", "unit")

    features: Floats  # (m, d), the first column is the predictor's score
    indptr: Ints  # (n + 1,)
    truth: Ints  # (n,) the row of the true candidate
    weights: Floats  # (n,) how much each query counts
    fold: Ints  # (n,)
    #: (n,) queries of one number, such as spectra of one molecule, are not independent
    unit: Ints | None = None

    def parts(self) -> Iterator[tuple[FeatureLists, FeatureLists]]:
        """Yield, for each fold, the lists of the other folds and those of the fold."""
        for number in np.unique(self.fold):
            held = self.fold == number
            if not held.all():
                yield self.of(np.flatnonzero(~held)), self.of(np.flatnonzero(held))

    def scaled(self, scale: Floats) -> FeatureLists:
        """Return the lists with each feature divided by its number in `scale`."""
        return replace(self, features=self.features / scale)

    def spreads(self) -> Floats:
        """Return the standard deviation of each feature among the candidates of a query.

        The shape is (d,). Queries count by their weights, however many candidates they have. A
        feature that does not vary has the spread 1.
        """
        # sqrt(sum_q w_q / n_q sum_c (phi_c - mean of q)^2 / sum_q w_q)
        sizes, query = np.diff(self.indptr), self.query_of
        means = np.add.reduceat(self.features, self.indptr[:-1], axis=0) / sizes[:, None]
        w = self.weights / sizes / self.weights.sum()
        spreads = np.sqrt(w[query] @ (self.features - means[query]) ** 2)
        size = np.abs(self.features).max(axis=0, initial=0.0)
        return np.where(spreads > _CONSTANT * size, spreads, 1.0)


def log_softmax(scores: Floats, indptr: Ints) -> Floats:
    """Return the log softmax of scores within each query's segment, shape (m,); none is empty."""
    sizes, starts = np.diff(indptr), indptr[:-1]
    largest: Floats = np.maximum.reduceat(scores, starts)
    scores = scores - np.repeat(largest, sizes)
    total: Floats = np.add.reduceat(np.exp(scores), starts)
    logs: Floats = np.log(total)
    return scores - np.repeat(logs, sizes)


def log_likelihoods(scores: Floats, lists: FeatureLists) -> Floats:
    """Return log P(truth) of each query, shape (n,)."""
    return log_softmax(scores, lists.indptr)[lists.truth]


def loss_and_gradient(
    coef: Floats, lists: FeatureLists, alpha: float, start: Floats
) -> tuple[float, Floats]:
    """Return the penalized loss and its gradient."""
    # sum_q w_q (log sum_c exp <coef, phi_c> - <coef, phi_truth>) / sum_q w_q
    #     + alpha / 2 ||coef - start||^2
    w = lists.weights / lists.weights.sum()
    log_p = log_softmax(lists.features @ coef, lists.indptr)
    gradient = (w[lists.query_of] * np.exp(log_p)) @ lists.features
    gradient = gradient - w @ lists.features[lists.truth]
    away = coef - start
    return float(-w @ log_p[lists.truth] + 0.5 * alpha * away @ away), gradient + alpha * away


def _minimum(lists: FeatureLists, alpha: float, start: Floats, first: Floats) -> Floats:
    """Return the minimizer of the penalized loss by L-BFGS, which begins at `first`."""
    coef: Floats = minimize(
        loss_and_gradient,
        first,
        args=(lists, alpha, start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "gtol": 1e-9, "ftol": 1e-13},
    ).x
    return coef


def own_order(lists: FeatureLists) -> Floats:
    """Return the most likely coefficients that rank by the predictor's score, the first feature."""
    d = lists.features.shape[1]
    unit: Floats = np.eye(d)[0]
    result = minimize_scalar(
        lambda factor: loss_and_gradient(factor * unit, lists, 0.0, unit)[0],
        bounds=(0.0, _LARGEST_FACTOR),
        method="bounded",
        options={"xatol": 1e-4},
    )
    # positive, so that a score without information still orders the candidates
    return max(float(result.x), 1e-6) * unit


def linear(lists: FeatureLists, alpha: float) -> Floats:
    """Return the coefficients of least penalized loss, shrunk towards the predictor's own order.

    Features have unit spread; an infinite alpha keeps that order.
    """
    start = own_order(lists)
    return start if np.isinf(alpha) else _minimum(lists, alpha, start, start)


def most_likely(lists: FeatureLists, alpha: float) -> Floats:
    """Return the coefficients of least penalized loss, shrunk towards 0.

    Features are in any units: the penalty is on coefficients of features of unit spread.
    """
    scale, zero = lists.spreads(), np.zeros(lists.features.shape[1])
    return _minimum(lists.scaled(scale), alpha, zero, zero) / scale


def chosen_alpha(lists: FeatureLists) -> tuple[float, dict[str, np.ndarray]]:
    """Return the penalty with the largest likelihood of held-out folds, and the results of all.

    It is infinity, the predictor's own order, unless another is ahead by more than one standard
    error.
    """
    alphas = np.array([np.inf, *_ALPHAS])
    gains, table, units = [], [], []
    for train, held in lists.parts():
        start = own_order(train)
        path = [start]
        for alpha in _ALPHAS:
            path.append(_minimum(train, alpha, start, path[-1]))
        log_p = np.array([log_likelihoods(held.features @ coef, held) for coef in path])
        gains.append(log_p * (held.weights / held.weights.mean()))
        table.append(np.average(log_p, axis=1, weights=held.weights))
        units.append(np.arange(len(held.truth)) if held.unit is None else held.unit)
    if not table:
        return float(_ALPHAS[0]), {}
    each = np.hstack(gains)  # (n_alphas, n)
    score = each.mean(axis=1)
    best = int(np.argmax(score))
    more = each[best] - each[0]
    error = _standard_error(more, units)
    results = {"alpha": alphas, "score": score, "fold_score": np.array(table)}
    return float(alphas[best] if more.mean() > error else np.inf), results


def _standard_error(values: np.ndarray, units: list[np.ndarray]) -> float:
    """Return the standard error of the mean of values that depend on each other within units."""
    # sqrt(sum_u (sum_{i in u} (v_i - mean))^2) / n
    inner, start, total = values - values.mean(), 0, 0.0
    for unit in units:
        number = np.unique(unit, return_inverse=True)[1]
        sums = np.bincount(number, inner[start : start + len(unit)])
        total, start = total + float(sums @ sums), start + len(unit)
    return float(np.sqrt(total)) / len(values)


# Importances -------------------------------------------------------------------------------------


def importances(
    lists: FeatureLists, scores_of: Callable[[np.ndarray], np.ndarray], rng: Rng
) -> np.ndarray:
    """Return the permutation importance of each feature, at least 0, shape (d,).

    It is the mean log-likelihood that is lost where the feature is shuffled among each query's
    candidates; `scores_of` computes scores from features.
    """
    whole = _mean(scores_of(lists.features), lists)
    order = np.lexsort((rng.random(len(lists.features)), lists.query_of))  # within each query
    losses = []
    for j in range(lists.features.shape[1]):
        shuffled = lists.features.copy()
        shuffled[:, j] = shuffled[order, j]
        losses.append(max(0.0, whole - _mean(scores_of(shuffled), lists)))
    return np.array(losses)


def _mean(scores: np.ndarray, lists: FeatureLists) -> float:
    """Return the weighted mean log-likelihood of the true candidates."""
    return float(np.average(log_likelihoods(scores, lists), weights=lists.weights))
