"""Ranks of the truth among scored candidates, against double loops over the candidates."""

import math

import numpy as np
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.metrics import (
    coverage_error,
    label_ranking_average_precision_score,
    top_k_accuracy_score,
)

from skout.metrics import (
    hits_at_k,
    mean_rank,
    mean_reciprocal_rank,
    truth_ranks,
)

pd = extra("pandas")

TIES = ("best", "average", "worst")
each_ties = pytest.mark.parametrize("ties", TIES)


def loop_rank(scores, right, labels, ties):
    """Walk over the objects, each the list of its copies."""
    if not right:
        return math.inf
    objects = {}
    for position, label in enumerate(labels):
        objects.setdefault(label, []).append(position)
    truth = max(scores[p] for copies in objects.values() for p in copies if set(copies) & right)
    above = tied = 0
    for copies in objects.values():
        if set(copies) & right:
            continue
        score = max(scores[p] for p in copies)
        above += score > truth
        tied += score == truth
    return 1 + above + {"best": 0, "average": tied / 2, "worst": tied}[ties]


@st.composite
def queries(draw, min_right=0, max_right=3):
    """Scores, right positions and labels of some queries with candidates of their own."""
    right = st.sets(st.integers(0, 20), min_size=min_right, max_size=max_right)
    scores, truth, labels = [], [], []
    for c in draw(st.lists(st.integers(1, 8), min_size=1, max_size=4)):
        scores.append(draw(st.lists(st.integers(-2, 2), min_size=c, max_size=c)))
        labels.append(draw(st.lists(st.sampled_from("abcde"), min_size=c, max_size=c)))
        truth.append({p % c for p in draw(right)})
    return scores, truth, labels


one_right = queries(min_right=1, max_right=1)

# Against loops and other libraries ----------------------------------------------------------------


@given(data=queries(), ties=st.sampled_from(TIES))
def test_truth_ranks(data, ties):
    scores, truth, labels = data
    distinct = [range(len(row)) for row in scores]
    for groups, used in ((None, distinct), (labels, labels)):
        expected = [loop_rank(*query, ties) for query in zip(scores, truth, used, strict=True)]
        found = truth_ranks(scores, truth, groups=groups, ties=ties)
        assert found.dtype == np.float64
        assert_array_equal(found, expected)


def shared_pool(n: int = 40, c: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 6, (n, c)).astype(np.float64), rng.integers(0, c, n)


@each_ties
def test_shared_pool_and_scipy(ties):
    scores, truth = shared_pool()
    method = {"best": "min", "average": "average", "worst": "max"}[ties]
    expected = stats.rankdata(-scores, method=method, axis=1)[np.arange(len(truth)), truth]
    assert_array_equal(truth_ranks(scores, truth, ties=ties), expected)


def test_sklearn():
    scores, truth = shared_pool()
    ranks = truth_ranks(scores, truth, ties="worst")
    indicator = np.eye(scores.shape[1])[truth]
    assert_allclose(mean_rank(ranks), coverage_error(indicator, scores))
    expected = label_ranking_average_precision_score(indicator, scores)
    assert_allclose(mean_reciprocal_rank(ranks), expected)
    scores += np.random.default_rng(1).uniform(0.0, 0.9, scores.shape)  # no ties
    for k in (1, 2, 5, 8):
        expected = top_k_accuracy_score(truth, scores, k=k, labels=range(9))
        for ties in TIES:
            assert hits_at_k(truth_ranks(scores, truth, ties=ties), k) == expected


@each_ties
def test_shared_groups(ties):
    scores, truth = shared_pool()
    labels = ["a", "b", "a", ("c", 1), "d", ("c", 1), "a", 7, 7.5]
    expected = [
        loop_rank(row, {t}, labels, ties)
        for row, t in zip(scores.tolist(), truth.tolist(), strict=True)
    ]
    per_query = [list(labels) for _ in truth]
    for groups in (labels, tuple(labels), pd.Series(labels), per_query):
        assert_array_equal(truth_ranks(scores, truth, groups=groups, ties=ties), expected)


class Tensor(np.ndarray):
    """An array that can be hashed, as those of torch can."""

    __hash__ = object.__hash__


def test_arrays_are_no_labels():
    scores, groups = np.array([[2.0, 1.0], [2.0, 1.0]]), np.array([["a", "a"], ["a", "b"]])
    for kind in (groups, groups.tolist(), list(groups), [g.view(Tensor) for g in groups]):
        assert_array_equal(truth_ranks(scores, [1, 1], groups=kind), [1.0, 2.0])


def test_summaries():
    ranks = [1.0, 2.0, 1.5, 5.0, math.inf]
    assert [hits_at_k(ranks, k) for k in (1, 2, 4, 5, 10**6)] == [0.2, 0.6, 0.6, 0.8, 0.8]
    assert_allclose(mean_reciprocal_rank(ranks), (1 + 1 / 2 + 2 / 3 + 1 / 5 + 0) / 5)
    assert mean_rank(ranks[:4]) == 9.5 / 4
    for summary in (mean_rank, mean_reciprocal_rank, lambda ranks: hits_at_k(ranks, 1)):
        assert summary([1, 1]) == 1.0
        assert isinstance(summary(np.array([1, 2])), float)


# What the trackers complain of --------------------------------------------------------------------


@given(c=st.integers(1, 12), level=st.sampled_from([-math.inf, -1.0, 0.0, 3.0, math.inf]))
def test_a_constant_scorer_gets_no_credit(c, level):
    scores, truth = np.full((c, c), level), np.arange(c)
    assert_array_equal(truth_ranks(scores, truth), np.full(c, (c + 1) / 2))
    assert mean_rank(truth_ranks(scores, truth)) == (c + 1) / 2
    assert_array_equal(truth_ranks(scores, truth, ties="best"), np.ones(c))
    assert_array_equal(truth_ranks(scores, truth, ties="worst"), np.full(c, c))
    assert_allclose(mean_reciprocal_rank(truth_ranks(scores, truth)), 2 / (c + 1), rtol=1e-12)


@given(data=one_right, ties=st.sampled_from(TIES), seed=st.integers(0, 2**32 - 1))
def test_copies_of_wrong_candidates_change_nothing(data, ties, seed):
    scores, truth, _ = data
    rng = np.random.default_rng(seed)
    expected = truth_ranks(scores, truth, ties=ties)
    longer, labels = [], []
    for row, (right,) in zip(scores, truth, strict=True):
        wrong = [p for p in range(len(row)) if p != right]
        copies = rng.choice(wrong, 5) if wrong else []
        labels.append([*range(len(row)), *copies])
        longer.append([*row, *(row[p] - rng.integers(0, 2) for p in copies)])  # never better
    assert_array_equal(truth_ranks(longer, truth, groups=labels, ties=ties), expected)


@given(data=one_right, ties=st.sampled_from(TIES), drop=st.integers(0, 2))
def test_copies_of_the_truth_never_compete(data, ties, drop):
    scores, truth, _ = data
    expected = truth_ranks(scores, truth, ties=ties)
    longer = [[*row, row[p] - drop, row[p]] for row, (p,) in zip(scores, truth, strict=True)]
    labels = [[*range(len(row)), p, p] for row, (p,) in zip(scores, truth, strict=True)]
    assert_array_equal(truth_ranks(longer, truth, groups=labels, ties=ties), expected)
    either = [{p, len(row), len(row) + 1} for row, (p,) in zip(scores, truth, strict=True)]
    assert_array_equal(truth_ranks(longer, either, ties=ties), expected)
    last = [len(row) for row in scores]  # the worse copy stands for the object, too
    assert_array_equal(truth_ranks(longer, last, groups=labels, ties=ties), expected)


@given(data=queries(), ties=st.sampled_from(TIES), grouped=st.booleans(), draws=st.data())
def test_the_order_of_candidates_is_of_no_account(data, ties, grouped, draws):
    scores, truth, labels = data
    orders = [draws.draw(st.permutations(range(len(row)))) for row in scores]
    moved = [[row[p] for p in order] for row, order in zip(scores, orders, strict=True)]
    moved_labels = [[row[p] for p in order] for row, order in zip(labels, orders, strict=True)]
    moved_truth = [{o.index(p) for p in right} for right, o in zip(truth, orders, strict=True)]
    expected = truth_ranks(scores, truth, groups=labels if grouped else None, ties=ties)
    found = truth_ranks(moved, moved_truth, groups=moved_labels if grouped else None, ties=ties)
    assert_array_equal(found, expected)


@given(data=queries(), ties=st.sampled_from(TIES), grouped=st.booleans())
def test_only_the_order_of_scores_counts(data, ties, grouped):
    scores, truth, labels = data
    groups = labels if grouped else None
    expected = truth_ranks(scores, truth, groups=groups, ties=ties)
    for grow in (lambda s: 3 * s - 7, np.exp, lambda s: s**3, lambda s: np.log(s + 2.0 + 1e-9)):
        grown = [grow(np.array(row)) for row in scores]
        assert_array_equal(truth_ranks(grown, truth, groups=groups, ties=ties), expected)
    infinite = [np.where(np.array(row) == -2, -np.inf, row) for row in scores]
    assert_array_equal(truth_ranks(infinite, truth, groups=groups, ties=ties), expected)


@given(data=queries(), grouped=st.booleans())
def test_kinds_of_ties_are_ordered(data, grouped):
    scores, truth, labels = data
    best, average, worst = (
        truth_ranks(scores, truth, groups=labels if grouped else None, ties=ties) for ties in TIES
    )
    sizes = [len(set(row)) if grouped else len(row) for row in labels]
    there = np.isfinite(best)
    assert_array_equal(there, [bool(right) for right in truth])
    assert np.all((best >= 1) & (best <= average) & (average <= worst))
    assert np.all(worst[there] <= np.array(sizes)[there])
    assert_array_equal(average[there], (best[there] + worst[there]) / 2)


# Kinds of arguments -------------------------------------------------------------------------------


def test_kinds_of_scores():
    scores, truth = shared_pool()
    expected = truth_ranks(scores, truth)
    ragged = np.empty(len(scores), dtype=object)
    ragged[:] = list(scores)
    kinds = [scores.tolist(), list(scores), pd.DataFrame(scores), scores.astype(int), ragged]
    kinds += [scores.astype(np.float32), tuple(map(tuple, scores)), [pd.Series(s) for s in scores]]
    for kind in kinds:
        assert_array_equal(truth_ranks(kind, truth), expected)
    assert_array_equal(truth_ranks(scores > 2, truth), truth_ranks((scores > 2) * 1.0, truth))


def test_large_integers_are_not_rounded():
    scores = np.array([[2**60, 2**60 + 1]])
    assert truth_ranks(scores, [0], ties="best") == 2.0
    assert truth_ranks(scores, [0], groups=[5, 6], ties="best") == 2.0


def test_kinds_of_truth():
    scores, truth = shared_pool()
    expected = truth_ranks(scores, truth)
    padded = np.column_stack([truth, np.full(len(truth), -1)])
    for kind in (truth.tolist(), pd.Series(truth), truth.astype(np.uint8), [[t] for t in truth]):
        assert_array_equal(truth_ranks(scores, kind), expected)
    for kind in ([(t,) for t in truth], [np.array([t]) for t in truth], padded):
        assert_array_equal(truth_ranks(scores, kind), expected)


@pytest.mark.parametrize("nothing", [-1, None, [], (), set(), np.array([], dtype=int), [-1, -1]])
def test_a_truth_that_is_not_a_candidate(nothing):
    for groups in (None, ["a", "b", "b"]):
        ranks = truth_ranks(np.ones((2, 3)), [0, nothing], groups=groups)
        assert ranks[1] == np.inf
        assert np.isfinite(ranks[0])


def test_no_candidates():
    assert_array_equal(truth_ranks([[], [1.0, 2.0]], [None, 0]), [np.inf, 2.0])
    groups = [[], ["a", "a"]]
    assert_array_equal(truth_ranks([[], [1.0, 2.0]], [-1, 0], groups=groups), [np.inf, 1.0])
    assert_array_equal(truth_ranks(np.empty((2, 0)), [-1, []], groups=[]), [np.inf, np.inf])


def test_arguments_stay_as_they_are():
    scores, truth = shared_pool()
    labels = np.arange(9) // 2
    for argument in (scores, truth, labels):
        argument.flags.writeable = False
    truth_ranks(scores, truth, groups=labels)


# Mistakes -----------------------------------------------------------------------------------------


def test_scores_that_are_not_numbers():
    text = r"^The scores of query 1 must be an array of numbers of shape \(c,\)\. Got "
    with pytest.raises(ValueError, match=text + "nan at index 2 instead"):
        truth_ranks([[1.0, 2.0, 3.0], [1.0, 2.0, np.nan]], [0, 0])
    with pytest.raises(ValueError, match=text + r"shape \(1, 1\) instead"):
        truth_ranks([[1.0], [[2.0]]], [0, 0])
    with pytest.raises(TypeError, match=text + "list instead"):
        truth_ranks([[1.0], ["high"]], [0, 0])
    with pytest.raises(ValueError, match=r"^The scores of query 0 must .*Got shape \(\) instead"):
        truth_ranks([1.0, 2.0], [0, 0])
    for bad in (sparse.csr_matrix(np.eye(2)), 1.0, "scores", None, np.float64(3.0)):
        with pytest.raises(
            TypeError, match=r"^scores must be a sequence with one entry for each q"
        ):
            truth_ranks(bad, [0, 0])
    with pytest.raises(ValueError, match=r"^scores must hold at least one query\. Got none"):
        truth_ranks([], [])


def test_truths_that_are_no_positions():
    text = r"^The truth of query 1 must be the position of one of its 3 candidates.* Got "
    for bad, got in ((3, "3"), (-2, "-2"), ([0, 7], "7")):
        with pytest.raises(ValueError, match=text + f"{got} instead"):
            truth_ranks(np.ones((2, 3)), [0, bad])
    for bad in (1.0, True, "b", [True, False, False], np.array([True, False]), [None], np.nan):
        with pytest.raises(TypeError, match=text):
            truth_ranks(np.ones((2, 3)), [0, bad])
    with pytest.raises(
        ValueError, match=text + r"a position twice .* pass np\.flatnonzero\(mask\)"
    ):
        truth_ranks(np.ones((2, 3)), [0, [0, 0, 1]])
    with pytest.raises(ValueError, match=r"^truth must have one entry .* Got 3 and 2 queries"):
        truth_ranks(np.ones((2, 3)), [0, 0, 0])
    with pytest.raises(TypeError, match=r"^truth must be a sequence with one entry .* Got int"):
        truth_ranks(np.ones((1, 3)), 0)


def test_groups_that_do_not_fit():
    scores = np.ones((2, 3))
    text = r"^groups must have one label for each candidate\. Got {} labels and 3 candidates of "
    for bad, n_labels, query in ((["a", "b"], 2, 0), ([], 0, 0), ([["a"] * 3, ["b"] * 4], 4, 1)):
        with pytest.raises(ValueError, match=text.format(n_labels) + f"query {query} instead"):
            truth_ranks(scores, [0, 0], groups=bad)
    with pytest.raises(ValueError, match=r"^groups must have one entry .* Got 1 and 2 queries"):
        truth_ranks(scores, [0, 0], groups=[["a"] * 3])
    with pytest.raises(TypeError, match=r"^groups must hold labels that can be hashed.*list"):
        truth_ranks(scores, [0, 0], groups=["a", ["b"], "c"])
    with pytest.raises(TypeError, match=r"^groups must be a sequence .* each candidate\. Got str"):
        truth_ranks(scores, [0, 0], groups=[["a"] * 3, "abc"])
    with pytest.raises(TypeError, match=r"^groups must be a sequence .* each query\. Got str"):
        truth_ranks(scores, [0, 0], groups="abc")
    for missing in (None, np.nan):
        with pytest.raises(
            ValueError, match=r"^groups must have a label .*Got None or nan instead"
        ):
            truth_ranks(scores, [0, 0], groups=["a", missing, missing])
    with pytest.raises(ValueError, match=r"^ties must be one of .*Got 'mean' instead"):
        truth_ranks(scores, [0, 0], ties="mean")


def test_mistakes_with_ranks():
    for summary in (mean_rank, mean_reciprocal_rank, lambda ranks: hits_at_k(ranks, 1)):
        for bad in (0.0, 0.5, -1.0, np.nan, -np.inf):
            with pytest.raises(ValueError, match=rf"^ranks must be .*Got {bad} at index 1 instead"):
                summary([1.0, bad])
        with pytest.raises(ValueError, match=r"^ranks must be .*Got shape \(1, 2\) instead"):
            summary([[1.0, 2.0]])
        with pytest.raises(
            ValueError, match=r"^ranks must be .*Got an empty array of shape \(0,\)"
        ):
            summary([])
        with pytest.raises(TypeError, match=r"^ranks must be .*Got list instead"):
            summary(["first"])
    with pytest.raises(
        ValueError, match=r"^2 of 3 truths were not among the cand.* leave them out"
    ):
        mean_rank([1.0, np.inf, np.inf])
    with pytest.raises(ValueError, match=r"^k must be an integer >= 1\. Got 0 instead"):
        hits_at_k([1.0], 0)
    with pytest.raises(TypeError, match=r"^k must be an integer >= 1\. Got 1\.5 instead"):
        hits_at_k([1.0], 1.5)
