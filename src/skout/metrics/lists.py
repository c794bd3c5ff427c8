"""Lists of the k best: several candidates of a query may be right, and rare ones may count more.

The gain of a right candidate is 1, or 1 / propensity: the chance that a right label is noted at
all, which is small for rare ones (Jain, Prabhu and Varma, 2016). Candidates of equal score are
taken in random order, and the expectation is returned, as scikit-learn does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.validation import check_number
from ._checks import check_numbers
from .retrieval import check_scored

__all__ = ["label_propensities", "ndcg_at_k", "precision_at_k", "recall_at_k"]


def precision_at_k(scores: Any, truth: Any, k: int, *, propensities: Any = None) -> float:
    """Return the share of the k best candidates that are right, on average over the queries.

    With propensities p it is PSP@k: the sum of 1 / p over right candidates among the k best,
    divided by the largest that the sum can be, both summed over all queries.

    Parameters
    ----------
    scores : array of shape (n, c), or sequence of n arrays of shape (c_i,)
        The higher the better; see `truth_ranks`.
    truth : sequence of n collections of positions, or 0/1 matrix of shape (n, c) in CSR format
        The right candidates of each query.
    k : int
        At least 1; where a query has fewer candidates, the missing ones are wrong.
    propensities : array of shape (c,), optional
        Of the candidates of a shared pool, from `label_propensities`.

    Examples
    --------
    >>> from skout.metrics import precision_at_k
    >>> scores, truth = [[0.9, 0.5, 0.1], [0.1, 0.2, 0.3]], [[0, 2], [1]]
    >>> precision_at_k(scores, truth, 2)
    0.5
    >>> precision_at_k(scores, truth, 2, propensities=[0.5, 0.5, 0.1])
    0.2857142857142857
    """
    found, best = _sums(scores, truth, k, np.ones(k), propensities)
    if propensities is not None:
        return _ratio(found, best)
    return float(np.mean(found) / k)


def recall_at_k(scores: Any, truth: Any, k: int) -> float:
    """Return the share of the right candidates that are among the k best, averaged over queries.

    Queries without a right candidate are left out.

    Parameters
    ----------
    scores, truth, k
        See `precision_at_k`.

    Examples
    --------
    >>> from skout.metrics import recall_at_k
    >>> recall_at_k([[0.9, 0.5, 0.1], [0.1, 0.2, 0.3]], [[0, 2], [1]], 2)
    0.75
    """
    found, _ = _sums(scores, truth, k, np.ones(k), None)
    counts = np.array([len(right) for _, right in _checked(scores, truth)])
    if not counts.any():
        raise ValueError("truth has no right candidate of any query: recall has no value.")
    return float(np.mean(found[counts > 0] / counts[counts > 0]))


def ndcg_at_k(scores: Any, truth: Any, k: int, *, propensities: Any = None) -> float:
    """Return the normalised discounted cumulative gain: right candidates count 1 / log2(1 + place).

    The sum is divided by the largest possible one, query by query; a query without a right
    candidate counts 0. With propensities p it is PSnDCG@k: gains are 1 / p, and both sums are over
    all queries.

    Parameters
    ----------
    scores, truth, k, propensities
        See `precision_at_k`.

    Examples
    --------
    >>> from skout.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[0.9, 0.5, 0.1], [0.1, 0.2, 0.3]], [[0, 2], [1]], 2), 3)
    0.622
    """
    check_number(k, "k", low=1, integer=True)
    found, best = _sums(scores, truth, k, 1.0 / np.log2(np.arange(2, k + 2)), propensities)
    if propensities is not None:
        return _ratio(found, best)
    return float(np.mean(np.divide(found, best, out=np.zeros_like(found), where=best > 0.0)))


def label_propensities(counts: Any, n: int, *, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """Return the propensities of labels: how likely a right label is to be noted.

    p = 1 / (1 + C exp(-a log(count + b))) with C = (log(n) - 1) (b + 1)^a.

    Parameters
    ----------
    counts : array of shape (c,)
        How many of n training rows have each label.
    n : int
        At least 3, so that C is positive.
    a, b : float, default 0.55 and 1.5
        The usual ones; for Wikipedia 0.5 and 0.4, for Amazon 0.6 and 2.6.

    References
    ----------
    H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation, tagging,
    ranking & other missing label applications. KDD, 2016.

    Examples
    --------
    >>> from skout.metrics import label_propensities
    >>> label_propensities([0, 10, 1000], 5000).round(2)
    array([0.09, 0.24, 0.78])
    """
    counts = check_numbers(counts, "counts", "(c,)")
    if counts.min() < 0.0:
        raise ValueError(f"counts must hold no negative number. Got {counts.min():g} instead.")
    check_number(n, "n", low=3, integer=True)
    C = (np.log(n) - 1.0) * (check_number(b, "b", strict=True) + 1.0) ** check_number(a, "a")
    return 1.0 / (1.0 + C * np.exp(-a * np.log(counts + b)))


# Sums --------------------------------------------------------------------------------------------


def _sums(
    scores: Any, truth: Any, k: int, discounts: np.ndarray, propensities: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of discounted gains of the k best of each query, and the largest possible."""
    check_number(k, "k", low=1, integer=True)
    pairs = _checked(scores, truth)
    gains = None if propensities is None else 1.0 / _check_propensities(propensities, pairs)
    found, best = np.empty(len(pairs)), np.empty(len(pairs))
    for i, (row, right) in enumerate(pairs):
        gain = np.zeros(len(row))
        gain[right] = 1.0 if gains is None else gains[right]
        found[i] = _expected(row, gain, discounts)
        ideal = -np.sort(-gain)[:k]
        best[i] = ideal @ discounts[: len(ideal)]
    return found, best


def _expected(scores: np.ndarray, gain: np.ndarray, discounts: np.ndarray) -> float:
    """Return sum_place gain discount, where candidates of equal score share their mean gain."""
    order = np.argsort(-scores, kind="stable")
    level = np.cumsum(np.diff(scores[order], prepend=scores[order[:1]]) != 0.0)
    mean = np.bincount(level, gain[order]) / np.bincount(level)
    places = mean[level][: len(discounts)]
    return float(places @ discounts[: len(places)])


def _ratio(found: np.ndarray, best: np.ndarray) -> float:
    if best.sum() == 0.0:
        raise ValueError("truth has no right candidate of any query: there is no best list.")
    return float(found.sum() / best.sum())


def _checked(scores: Any, truth: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the scores and the positions of the right candidates of each query."""
    if sparse.issparse(truth):
        rows = sparse.csr_matrix(truth)
        rows.eliminate_zeros()
        rows.sum_duplicates()
        truth = np.split(rows.indices, rows.indptr[1:-1])
    return check_scored(scores, truth)


def _check_propensities(given: Any, pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    propensities = check_numbers(given, "propensities", "(c,)")
    if propensities.min() <= 0.0 or propensities.max() > 1.0:
        raise ValueError(
            "propensities must lie in (0, 1]. Got numbers from "
            f"{propensities.min():g} to {propensities.max():g} instead."
        )
    for i, (row, _) in enumerate(pairs):
        if len(row) != len(propensities):
            raise ValueError(
                f"propensities must have one number for each candidate. Got {len(propensities)} "
                f"and {len(row)} candidates of query {i} instead."
            )
    return propensities
