"""Metrics of label sets and rankings against plain loops, scikit-learn and SciPy."""

import math
import re
import tracemalloc

import numpy as np
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn import metrics as theirs

from skout.metrics import example_f1, hamming_loss, kendall_tau, objects, subset_accuracy

pd = extra("pandas")

# Label sets ---------------------------------------------------------------------------------------


def loop_f1(a, b):
    common = sum(1 for x, y in zip(a, b, strict=True) if x == 1 and y == 1)
    total = sum(a) + sum(b)
    return 2 * common / total if total else 1.0


def loop_hamming(a, b):
    return sum(1 for x, y in zip(a, b, strict=True) if x != y) / len(a)


def loop_subset(a, b):
    return float(all(x == y for x, y in zip(a, b, strict=True)))


def sklearn_f1(Y, F, sample_weight):
    return theirs.f1_score(Y, F, average="samples", zero_division=1, sample_weight=sample_weight)


def sklearn_hamming(Y, F, sample_weight):
    return theirs.hamming_loss(Y, F, sample_weight=sample_weight)


def sklearn_subset(Y, F, sample_weight):
    return theirs.accuracy_score(Y, F, sample_weight=sample_weight)


LABEL_METRICS = {
    example_f1: (loop_f1, sklearn_f1),
    hamming_loss: (loop_hamming, sklearn_hamming),
    subset_accuracy: (loop_subset, sklearn_subset),
}
each_label_metric = pytest.mark.parametrize(
    "metric", list(LABEL_METRICS), ids=lambda metric: metric.__name__
)


def label_sets(n: int = 60, n_labels: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sets, guesses and weights; some sets empty, some guesses right."""
    rng = np.random.default_rng(0)
    true, pred = (rng.random((2, n, n_labels)) < 0.3).astype(np.int64)
    true[0] = pred[0] = pred[1] = true[2] = 0
    pred[3:20] = true[3:20]
    weights = rng.uniform(0.5, 2.0, n)
    weights[4] = 0.0
    return true, pred, weights


@each_label_metric
@pytest.mark.parametrize("weighted", [False, True])
def test_label_metrics(metric, weighted):
    loop, sklearn = LABEL_METRICS[metric]
    true, pred, weights = label_sets()
    weights = weights if weighted else None
    found = metric(true, pred, weights)
    assert isinstance(found, float)
    assert 0.05 < found < 0.95
    rows = [loop(a, b) for a, b in zip(true.tolist(), pred.tolist(), strict=True)]
    assert_allclose(found, np.average(rows, weights=weights), rtol=1e-12)
    assert_allclose(found, sklearn(true, pred, weights), rtol=1e-12)


@each_label_metric
def test_kinds_of_label_matrices(metric):
    true, pred, _ = label_sets()
    expected = metric(true, pred)
    kinds = [
        *(np.ndarray.tolist, np.asfortranarray, lambda Y: Y.astype(bool)),
        *(lambda Y: Y.astype(np.float32), lambda Y: Y.astype(object), pd.DataFrame),
        *(sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix, sparse.csc_array),
        lambda Y: sparse.csr_matrix(Y.astype(bool)),
        lambda Y: pd.DataFrame(Y, dtype="Int64"),
        lambda Y: pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(Y)),
        with_stored_zeros,
    ]
    for convert in kinds:
        assert metric(convert(true), convert(pred)) == expected
        assert metric(convert(true), pred) == metric(true, convert(pred)) == expected


def with_stored_zeros(Y):
    """Return a CSR matrix that stores its zeros too, columns in reverse, and may not be written."""
    n, n_labels = Y.shape
    indices = np.tile(np.arange(n_labels)[::-1], n)
    S = sparse.csr_matrix((Y[:, ::-1].ravel(), indices, np.arange(n + 1) * n_labels), Y.shape)
    for part in (S.data, S.indices, S.indptr):
        part.flags.writeable = False
    return S


@each_label_metric
def test_a_label_matrix_stays_sparse(metric):
    """Dense, one of these matrices takes 40 GB."""
    n, n_labels, size = 2_000, 20_000_000, 5
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n_labels, (2, n, size))
    columns[1, :, 0] = columns[0, :, 0]
    ones, indptr = np.ones(n * size, dtype=np.int8), np.arange(n + 1) * size
    true, pred = (sparse.csr_matrix((ones, c.ravel(), indptr), (n, n_labels)) for c in columns)
    tracemalloc.start()
    try:
        found = metric(true, pred)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expected = {example_f1: 0.2, hamming_loss: 8 / n_labels, subset_accuracy: 0.0}
    assert_allclose(found, expected[metric], rtol=1e-4)
    assert peak < 5e6


@each_label_metric
def test_a_data_frame_of_sparse_columns_stays_sparse(metric):
    rows = np.arange(20_000)
    Y = sparse.coo_matrix((np.ones(20_000), (rows, rows % 500)), (20_000, 500))
    frame = pd.DataFrame.sparse.from_spmatrix(Y)
    metric(frame.head(), frame.head())  # what is imported or cached at the first call
    tracemalloc.start()
    try:
        assert metric(frame, frame) == (metric is not hamming_loss)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6  # 10 MB if each cell took one byte


@each_label_metric
def test_an_entry_stored_in_parts(metric):
    """The first row of `true` is (1, 0, 1), its first entry stored as 2 - 1."""
    data, indices, indptr = [2, 1, -1, 1], [0, 2, 0, 1], [0, 3, 4]
    true = sparse.csr_matrix((data, indices, indptr), (2, 3))
    pred = np.array([[1, 1, 0], [0, 1, 0]])
    assert metric(true, pred) == metric([[1, 0, 1], [0, 1, 0]], pred)
    assert true.data.tolist() == data
    true.data[2] = 1
    with pytest.raises(ValueError, match=r"^Y_true must .* Got 3 at index \(0, 0\) instead"):
        metric(true, pred)


def test_two_empty_sets_are_alike():
    zero, one = np.zeros((1, 3)), np.ones((1, 3))
    assert example_f1(zero, zero) == 1.0
    assert example_f1(zero, one) == example_f1(one, zero) == 0.0


binary = hnp.arrays(np.int8, (2, 4, 5), elements=st.integers(0, 1))


@given(sets=binary, order=st.permutations(range(5)))
def test_properties_of_label_metrics(sets, order):
    true, pred = sets
    for metric in LABEL_METRICS:
        value = metric(true, pred)
        assert 0.0 <= value <= 1.0
        assert metric(pred, true) == value
        assert_allclose(metric(true[:, order], pred[:, order]), value, rtol=1e-15)
        assert metric(true, true) == (metric is not hamming_loss)
    assert subset_accuracy(true, pred) <= example_f1(true, pred) + 1e-15
    assert hamming_loss(true, pred) + hamming_loss(true, 1 - pred) == pytest.approx(1.0)


@given(sets=binary, times=st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any))
def test_whole_weights_are_repeated_rows(sets, times):
    true, pred = sets
    again = np.repeat(np.arange(4), times)
    for metric in LABEL_METRICS:
        assert_allclose(metric(true, pred, times), metric(true[again], pred[again]), rtol=1e-12)


@each_label_metric
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("bad", [2.0, -1.0, 0.5, np.nan, np.inf])
def test_entries_that_are_not_0_or_1(metric, convert, bad):
    Y = np.eye(4, 3)
    wrong = Y.copy()
    wrong[2, 1] = bad
    for arguments, name in (((wrong, Y), "Y_true"), ((Y, wrong), "Y_pred")):
        text = rf"^{name} must be a matrix of 0 and 1.*\. Got {bad} at index \(2, 1\) instead"
        with pytest.raises(ValueError, match=text):
            metric(*map(convert, arguments))


@each_label_metric
def test_mistakes_with_label_sets(metric):
    Y = np.eye(3)
    with pytest.raises(
        ValueError, match=r"Y_true and Y_pred must have the same shape\. Got \(3, 3"
    ):
        metric(Y, sparse.csr_matrix(np.eye(3, 2)))
    with pytest.raises(ValueError, match=r"^Y_pred must be .* shape \(n, L\)\. Got shape \(3,\)"):
        metric(Y, [0, 1, 0])
    for empty in (np.empty((0, 3)), sparse.csr_matrix((0, 3)), np.empty((3, 0))):
        shape = re.escape(str(empty.shape))
        with pytest.raises(
            ValueError, match=rf"^Y_true must .*Got an empty array of shape {shape}"
        ):
            metric(empty, empty)
    for bad in ([["a", "b"]], [[1], [0, 1]], [[1j]], [{1, 2}]):
        kind = type(bad).__name__
        with pytest.raises(TypeError, match=rf"^Y_true must be a matrix of 0 and 1.*Got {kind}"):
            metric(bad, Y)
    with pytest.raises(TypeError, match=r"^Y_pred must be a matrix of 0 and 1.*NAType"):
        metric([[1, 0]], pd.DataFrame([[1, None]], dtype="Int64"))
    with pytest.raises(ValueError, match=r"^sample_weight must have .* Got 2 and 3 rows instead"):
        metric(Y, Y, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"^sample_weight must hold no negative number.*-1 to 2"):
        metric(Y, Y, [1.0, 2.0, -1.0])


# Rankings -----------------------------------------------------------------------------------------


def loop_tau(a, b):
    d, agreement, untied_a, untied_b = len(a), 0, 0, 0
    for i in range(d):
        for j in range(i):
            first, second = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
            agreement += first * second
            untied_a += first != 0
            untied_b += second != 0
    norm = math.sqrt(untied_a * untied_b)
    return agreement / norm if norm else 0.0


def tied_rankings(n: int = 40, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 4, (2, n, d)).astype(np.float64)
    pred[:10] = true[:10] + rng.uniform(-0.6, 0.6, (10, d))
    true[11] = pred[12] = true[13] = pred[13] = 2.0  # all tied
    return true, pred


@pytest.mark.parametrize("block", [1, 13, 2**18])
def test_kendall_tau(block, monkeypatch):
    monkeypatch.setattr(objects, "_BLOCK_NUMBERS", block)
    true, pred = tied_rankings()
    found = kendall_tau(true, pred)
    assert isinstance(found, float)
    assert 0.1 < found < 0.5
    rows = [loop_tau(a, b) for a, b in zip(true, pred, strict=True)]
    assert_allclose(found, np.mean(rows), rtol=1e-12)


def test_kendall_tau_and_scipy():
    true, pred = tied_rankings()
    rows = [stats.kendalltau(a, b).statistic for a, b in zip(true, pred, strict=True)]
    assert np.isnan(rows).nonzero()[0].tolist() == [11, 12, 13]
    assert_allclose(kendall_tau(true, pred), np.mean(np.nan_to_num(rows)), rtol=1e-12)
    assert kendall_tau(true[11:14], pred[11:14]) == 0.0  # no value counts as 0


def test_long_rankings():
    """Sums of the signs of 44850 pairs, far beyond int8."""
    true, noise = np.random.default_rng(0).standard_normal((2, 3, 300))
    pred = true + 0.1 * noise
    expected = np.mean([stats.kendalltau(*pair).statistic for pair in zip(true, pred, strict=True)])
    assert_allclose(kendall_tau(true, pred), expected, rtol=1e-12)


def test_kendall_tau_stays_small():
    """All 1225 signs of all pairs of 20000 rows would take 8 times this at one byte each."""
    R = np.random.default_rng(0).standard_normal((20_000, 50))
    tracemalloc.start()
    try:
        assert kendall_tau(R, R) == 1.0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * R.nbytes


whole_rankings = hnp.arrays(np.int64, (2, 3, 5), elements=st.integers(0, 4))


@given(R=whole_rankings, order=st.permutations(range(5)))
def test_properties_of_kendall_tau(R, order):
    true, pred = R
    tau = kendall_tau(true, pred)
    assert -1.0 - 1e-12 <= tau <= 1.0 + 1e-12
    assert kendall_tau(pred, true) == tau
    assert_allclose(kendall_tau(true, -pred), -tau, atol=1e-15)
    assert_allclose(kendall_tau(true[:, order], pred[:, order]), tau, atol=1e-15)
    assert kendall_tau(true, np.exp(3.0 * pred)) == tau
    some_order = [len(set(row)) > 1 for row in true.tolist()]
    assert_allclose(kendall_tau(true, true), np.mean(some_order), rtol=1e-15)


def test_numbers_as_large_as_they_get():
    R = np.array([[-1e308, 1e308, 0.0]])
    assert kendall_tau(R, [[0, 2, 1]]) == 1.0  # a difference would be inf


def test_kinds_of_rankings():
    true, pred = tied_rankings()
    expected = kendall_tau(true, pred)
    for convert in (np.ndarray.tolist, pd.DataFrame, np.asfortranarray):
        assert kendall_tau(convert(true), convert(pred)) == expected


def test_mistakes_with_rankings():
    R = np.arange(6.0).reshape(2, 3)
    with pytest.raises(
        ValueError, match=r"R_true and R_pred must have the same shape\. Got \(2, 3"
    ):
        kendall_tau(R, R[:, :2])
    with pytest.raises(ValueError, match=r"must rank at least 2 items\. Got shape \(2, 1\)"):
        kendall_tau(R[:, :1], R[:, :1])
    with pytest.raises(ValueError, match=r"^R_pred must be .* shape \(n, d\)\. Got shape \(3,\)"):
        kendall_tau(R, R[0])
    with pytest.raises(
        ValueError, match=r"^R_true must be .* Got an empty array of shape \(0, 3\)"
    ):
        kendall_tau(R[:0], R[:0])
    with pytest.raises(ValueError, match=r"^R_pred must be .*finite.* Got nan at index \(0, 0\)"):
        kendall_tau(R, np.full((2, 3), np.nan))
    with pytest.raises(TypeError, match=r"^R_true must be an array of finite numbers.*Got list"):
        kendall_tau([["first", "second"]], [[0, 1]])
