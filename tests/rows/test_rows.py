"""Rows that are no matrix: ragged, joint and mapped ones, and kernels that see objects twice."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout import KernelBasis, KernelRidge, StructuredPredictor, iokr
from skout._numerics.arrays import match, n_rows, take, unique
from skout._numerics.objects import Joint, Ragged, stack
from skout.kernels import F1, Gaussian, Linear, Mapped, NGram, Normalized, Tanimoto
from skout.kernels.bags import Bags
from skout.sketches import PSparsified, SubSample
from skout.testing import check_kernel

WORDS = ["banana", "bandana", "cabana", "nab", "abacus", "banana", "nan", "candle"]


def lengths(words):
    return [[float(len(word)), float(word.count("a"))] for word in words]


def ragged(rows):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    flat = np.array([x for row in rows for x in row], dtype=float)
    return Ragged(indptr, flat, -flat)


def as_lists(rows):
    return [
        rows.columns[0][a:b].tolist() for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)
    ]


lists = st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(lists, st.data())
def test_ragged_rows_are_indexed_like_lists(rows, data):
    R = ragged(rows)
    n = len(rows)
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
    assert as_lists(take(R, np.array(index, dtype=int))) == [rows[i] for i in index]
    start, stop = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    assert as_lists(R[start:stop]) == rows[start:stop]
    assert as_lists(R[::-1]) == rows[::-1]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    assert as_lists(R[mask]) == [row for row, kept in zip(rows, mask, strict=True) if kept]
    assert as_lists(R[n - 1]) == [rows[n - 1]]
    assert_array_equal(R.columns[1], -R.columns[0])
    assert as_lists(stack([R[:start], R[start:]])) == rows
    first, inverse = unique(R)
    assert [rows[i] for i in first[inverse]] == rows
    assert len(first) == len({tuple(row) for row in rows})
    assert [rows[j] for j in match(R, R)] == rows
    assert R.shape == (n,) == (n_rows(R),)


@settings(max_examples=60, deadline=None)
@given(lists)
def test_bags_count(rows):
    flat = np.array([x for row in rows for x in row], dtype=np.uint64)
    row = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
    shuffled = np.random.default_rng(0).permutation(len(flat))
    bags = Bags.collect(len(rows), row[shuffled], flat[shuffled])
    counts = [
        dict(zip(bags.features[a:b].tolist(), bags.counts[a:b].tolist(), strict=True))
        for a, b in zip(bags.indptr, bags.indptr[1:], strict=False)
    ]
    assert counts == [{x: float(some.count(x)) for x in some} for some in rows]
    assert_allclose(bags.squared_norms(), [sum(c**2 for c in some.values()) for some in counts])


def test_bags_of_another_kernel_are_refused():
    with pytest.raises(ValueError, match="another kernel made"):
        NGram(3).encode(NGram(2).encode(WORDS))
    with pytest.raises(ValueError, match="different kernels cannot be joined"):
        stack([NGram(3).encode(WORDS), NGram(2).encode(WORDS)])


@pytest.mark.parametrize(
    "kernel",
    [
        NGram(2) + NGram(3),
        Normalized(NGram(2)) * NGram(1),
        0.5 * NGram(2) + Mapped(lengths, Gaussian(0.1)),
        Mapped(lengths, "linear"),
        Mapped(lengths, Gaussian("median")) + (NGram(1) + NGram(2)),
    ],
    ids=["sum", "product", "mapped", "linear", "nested"],
)
def test_kernels_of_words_conform(kernel):
    check_kernel(kernel, WORDS)


def test_sums_of_kernels_that_encode_differently():
    a, b = NGram(2), NGram(3)
    assert_allclose((a + b)(WORDS), a(WORDS) + b(WORDS))
    assert_allclose((a * b)(WORDS, WORDS[:3]), a(WORDS, WORDS[:3]) * b(WORDS, WORDS[:3]))
    assert_allclose((a + b).diag((a + b).encode(WORDS)), np.diagonal(a(WORDS) + b(WORDS)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("swap", [False, True])
def test_sums_of_vectors_and_bits(dtype, swap):
    X = np.random.default_rng(0).integers(0, 2, (12, 9)).astype(dtype)
    parts = [Gaussian(0.2), Tanimoto()][:: -1 if swap else 1]
    kernel = parts[0] + parts[1]
    check_kernel(kernel, X)
    assert kernel(X).dtype == dtype
    assert_allclose(kernel(X), parts[0](X) + parts[1](X), rtol=1e-6)
    assert_allclose((F1() * Tanimoto())(X), F1()(X) * Tanimoto()(X), rtol=1e-6)
    with pytest.raises(ValueError, match="same number of columns"):
        kernel(X, X[:, :5])


def test_joint_rows():
    left, right = np.arange(6.0).reshape(3, 2).astype(np.float32), ragged([[1], [], [2, 3]])
    rows = Joint(left, right)
    assert len(rows) == 3
    assert rows.shape == (3, 2)
    assert rows.dtype == np.float32
    assert as_lists(rows[[2, 0]].right) == [[2, 3], [1]]
    assert_array_equal(rows[1:].left, left[1:])
    assert rows.astype(np.float64).dtype == np.float64
    assert stack([rows[:1], rows[1:]]).keys() == rows.keys()


def test_mapped_is_the_kernel_of_the_images():
    kernel = Mapped(lengths, Gaussian("median"))
    resolved = kernel.resolve(kernel.encode(WORDS), np.random.default_rng(0))
    X = np.array(lengths(WORDS))
    expected = Gaussian("median").resolve(X, np.random.default_rng(0))
    assert_allclose(resolved(WORDS), expected(X))
    assert kernel.normalized
    assert not Mapped(lengths, Linear()).normalized
    with pytest.raises(ValueError, match="made 2 rows of 8 objects"):
        Mapped(lambda words: [[1.0], [2.0]], Linear()).encode(WORDS)


@pytest.mark.parametrize("kernel", [NGram(2), Mapped(lengths, Linear()), NGram(1) + NGram(2)])
@pytest.mark.parametrize("sketch", [None, SubSample(4), PSparsified(4, p=0.8)], ids=str)
def test_basis_of_words(kernel, sketch):
    basis = KernelBasis(kernel, sketch, random_state=0).fit(WORDS)
    Z = basis.transform(WORDS)
    K = kernel(WORDS)
    if sketch is None:
        assert_allclose(Z @ Z.T, K, atol=1e-8)
    else:
        assert np.linalg.eigvalsh(K - Z @ Z.T).min() > -1e-8
    assert_allclose(pickle.loads(pickle.dumps(basis)).transform(WORDS), Z)


def test_ridge_on_words():
    y = np.array([len(word) for word in WORDS], dtype=float)
    model = KernelRidge(NGram(2) + Mapped(lengths, Linear()), alpha=1e-9).fit(WORDS, y)
    assert_allclose(model.predict(WORDS), y, atol=1e-4)


@pytest.mark.parametrize("kernel", [NGram(1), NGram(1) + NGram(2), Mapped(lengths, Linear())])
def test_words_are_predicted_as_words(kernel):
    X = np.array(lengths(WORDS)) + 0.01 * np.arange(len(WORDS))[:, None]
    model = iokr(Gaussian(1.0), kernel, alpha=1e-8).fit(X, WORDS)
    found = model.predict(X)
    assert_allclose(kernel.paired(list(found), WORDS), kernel.diag(kernel.encode(WORDS)), atol=1e-4)
    pool = ["nan", "banana", "candle", "zebra"]
    assert set(model.predict(X, candidates=pool)) <= set(pool)
    each = [["nan", "banana"]] * 4 + [["candle"]] * 4
    assert list(model.predict(X, candidates=each)[4:]) == ["candle"] * 4
    assert isinstance(model, StructuredPredictor)
    assert 0.0 < model.score(X, WORDS) <= 1.0 + 1e-12
    with pytest.raises((TypeError, ValueError)):
        model.predict(X, candidates=[1.5, 2.5])
