"""Lists of the k best, against scikit-learn, against all orders of ties, and by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics import ndcg_score

from skout.metrics import (
    hits_at_k,
    label_propensities,
    mean_reciprocal_rank,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    top_k_accuracy,
    truth_ranks,
)


def problem(seed, n=5, c=7, levels=4):
    """Scores with ties, and right candidates; every query has one."""
    rng = np.random.default_rng(seed)
    scores, Y = rng.integers(0, levels, (n, c)).astype(float), rng.random((n, c)) < 0.4
    Y[np.arange(n), rng.integers(0, c, n)] = True
    return scores, Y


def positions(Y):
    return [np.flatnonzero(row) for row in Y]


def orders(scores):
    """All orders of the candidates in which none comes before a better one."""
    levels = [np.flatnonzero(scores == s).tolist() for s in np.unique(scores)[::-1]]
    for parts in itertools.product(*(itertools.permutations(level) for level in levels)):
        yield [i for part in parts for i in part]


def mean_over_orders(scores, gain, discount, k):
    """The sum of discounted gains of the first k, averaged over the orders of ties."""
    sums = [sum(gain[i] * discount(p) for p, i in enumerate(o[:k], 1)) for o in orders(scores)]
    return np.mean(sums)


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_ndcg_is_scikit_learns(seed, k):
    scores, Y = problem(seed)
    assert_allclose(ndcg_at_k(scores, positions(Y), k), ndcg_score(Y, scores, k=k))
    assert_allclose(ndcg_at_k(scores, sparse.csr_matrix(Y), k), ndcg_score(Y, scores, k=k))


@pytest.mark.parametrize("k", [1, 3, 6, 9])
def test_precision_and_recall_by_loops(k):
    scores, Y = problem(1, n=4, c=6)
    found = [mean_over_orders(s, y, lambda p: 1.0, k) for s, y in zip(scores, Y, strict=True)]
    assert_allclose(precision_at_k(scores, positions(Y), k), np.mean(found) / k)
    assert_allclose(recall_at_k(scores, positions(Y), k), np.mean(found / Y.sum(axis=1)))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_propensity_scored_by_loops(k):
    scores, Y = problem(2, n=4, c=6)
    p = label_propensities([0, 1, 3, 10, 50, 90], 100)
    for metric, discount in (
        (precision_at_k, lambda place: 1.0),
        (ndcg_at_k, lambda place: 1.0 / np.log2(1 + place)),
    ):
        found = best = 0.0
        for s, y in zip(scores, Y, strict=True):
            found += mean_over_orders(s, y / p, discount, k)
            ideal = sorted((y / p).tolist(), reverse=True)[:k]
            best += sum(gain * discount(place) for place, gain in enumerate(ideal, 1))
        assert_allclose(metric(scores, positions(Y), k, propensities=p), found / best)


def test_equal_propensities_change_nothing_where_all_have_k_right():
    rng = np.random.default_rng(3)
    scores, Y = rng.random((6, 8)), rng.permuted(np.arange(8) < 4, axis=0) * np.ones((6, 1))
    plain = precision_at_k(scores, positions(Y), 3)
    assert_allclose(precision_at_k(scores, positions(Y), 3, propensities=np.full(8, 0.2)), plain)


def test_propensities_by_hand():
    """Jain et al. (2016), with the constants of their table for n = 1000."""
    n, a, b = 1000, 0.55, 1.5
    C = (np.log(n) - 1) * 2.5**a
    expected = [1 / (1 + C * np.exp(-a * np.log(c + b))) for c in (0, 7, 900)]
    assert_allclose(label_propensities([0, 7, 900], n), expected)
    assert_allclose(
        label_propensities([5], n, a=0.5, b=0.4), 1 / (1 + (np.log(n) - 1) * 1.4**0.5 / 5.4**0.5)
    )


def test_own_candidates_of_each_query():
    scores, truth = [[0.1, 0.9], [0.3, 0.2, 0.1, 0.0]], [[0], [0, 3]]
    assert precision_at_k(scores, truth, 2) == (1 / 2 + 1 / 2) / 2
    assert recall_at_k(scores, truth, 2) == (1.0 + 0.5) / 2
    assert precision_at_k(scores, truth, 3) == (1 / 3 + 1 / 3) / 2
    assert recall_at_k([[0.1], [0.2]], [[0], []], 1) == 1.0  # nothing to be found: left out
    assert ndcg_at_k([[0.1], [0.2]], [[0], []], 1) == 0.5


def test_mrr_at_k_is_a_loop():
    ranks = np.array([1.0, 2.0, 2.5, 3.0, 4.0, np.inf])
    for k in (1, 2, 3, 10):
        assert mean_reciprocal_rank(ranks, k=k) == np.mean(
            [1 / r if r <= k else 0.0 for r in ranks]
        )
    assert mean_reciprocal_rank(ranks, k=10) == mean_reciprocal_rank(ranks)


def test_lists_with_duplicates():
    """Copies take a place each; the best copy of the truth counts."""
    scores, labels = [9.0, 8.0, 8.0, 7.0, 1.0], ["a", "b", "b", "c", "c"]
    for truth, merged, apart in ((0, 1, 1), (4, 3, 4), (3, 3, 4), (2, 2, 2)):
        assert truth_ranks([scores], [truth], groups=labels) == merged
        assert truth_ranks([scores], [truth], groups=labels, merge=False) == apart
    assert top_k_accuracy([scores], [4], 3, groups=labels) == 1.0
    assert top_k_accuracy([scores], [4], 3, groups=labels, merge=False) == 0.0
    plain = truth_ranks([scores], [3])
    assert truth_ranks([scores], [3], groups=list("abcde"), merge=False) == plain
    assert hits_at_k(plain, 4) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: precision_at_k([[1.0]], [[0]], 0), "k must be an integer >= 1"),
        (lambda: recall_at_k([[1.0]], [[]], 1), "no right candidate of any query"),
        (lambda: precision_at_k([[1.0]], [[]], 1, propensities=[0.5]), "no right candidate"),
        (lambda: ndcg_at_k([[1.0]], [[1]], 1), "must be the position of one of its 1 candidates"),
        (lambda: ndcg_at_k([[np.nan]], [[0]], 1), "Got nan"),
        (lambda: precision_at_k([[1.0]], [[0]], 1, propensities=[0.0]), r"lie in \(0, 1\]"),
        (lambda: precision_at_k([[1.0]], [[0]], 1, propensities=[0.5, 1.0]), "one number for each"),
        (lambda: label_propensities([-1], 10), "no negative"),
        (lambda: label_propensities([1], 2), "n must be an integer >= 3"),
        (lambda: mean_reciprocal_rank([1.0], k=0), "k must be an integer >= 1"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
