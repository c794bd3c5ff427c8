"""Rows: distinct ones, some of them, and their products, for every kind of container."""

import numpy as np
import pytest
from extras import extra
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skout._numerics.arrays import (
    RightOperand,
    astype,
    float_dtype,
    match,
    n_rows,
    row_slices,
    take,
    unique,
)
from skout._numerics.objects import as_objects

pd = extra("pandas")
pl = extra("polars")

ROWS = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])


# unique ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csr_array]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_unique_rows(form, dtype):
    first, inverse = unique(form(ROWS.astype(dtype)))
    assert_array_equal(first, [0, 1, 3])
    assert_array_equal(inverse, [0, 1, 0, 2, 1])


def test_unique_of_a_strided_view():
    wide = np.zeros((10, 4))
    wide[::2, ::2] = ROWS
    assert_array_equal(unique(wide[::2, ::2])[0], [0, 1, 3])


def test_negative_zero_is_zero():
    X = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert_array_equal(unique(X)[1], [0, 0])
    stored = sparse.csr_matrix((np.array([-0.0, 1.0, 1.0]), [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    assert_array_equal(unique(stored)[1], [0, 0])


def test_unique_csr_in_any_spelling():
    """Stored zeros, unsorted indices and repeated entries are the same row."""
    indptr, indices = [0, 2, 4, 7, 10], [0, 2, 2, 0, 0, 1, 2, 0, 2, 0]
    data = np.array([1.0, 2.0, 2.0, 1.0, 1.0, 0.0, 2.0, 0.5, 2.0, 0.5])
    rows = sparse.csr_matrix((data, indices, indptr), shape=(4, 3))
    assert_array_equal(rows.toarray(), np.tile([1.0, 0.0, 2.0], (4, 1)))
    rows = sparse.csr_matrix((data.copy(), list(indices), list(indptr)), shape=(4, 3))
    before = rows.indices.copy(), rows.data.copy(), rows.indptr.copy()
    first, inverse = unique(rows)
    assert_array_equal(first, [0])
    assert_array_equal(inverse, np.zeros(4))
    for part, was in zip((rows.indices, rows.data, rows.indptr), before, strict=True):
        assert_array_equal(part, was, err_msg="the input must stay as it is")


def test_csr_rows_with_equal_values_in_other_columns_differ():
    rows = sparse.csr_matrix(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    assert_array_equal(unique(rows)[0], [0, 1, 2])


def test_unique_objects():
    objects = as_objects(["b", "a", "b", (1, 2), (1, 2), frozenset({3}), frozenset({3})])
    first, inverse = unique(objects)
    assert_array_equal(first, [0, 1, 3, 5])
    assert_array_equal(inverse, [0, 1, 0, 2, 2, 3, 3])


def test_objects_without_a_hash_count_as_distinct():
    shared = [1, 2]
    objects = as_objects([shared, [1, 2], {"a": 1}, shared])
    first, inverse = unique(objects)
    assert_array_equal(first, [0, 1, 2])
    assert_array_equal(inverse, [0, 1, 2, 0])  # one object given twice is one object


@pytest.mark.parametrize("rows", [np.empty((0, 3)), sparse.csr_matrix((0, 3)), as_objects([])])
def test_unique_of_nothing(rows):
    first, inverse = unique(rows)
    assert len(first) == 0
    assert len(inverse) == 0


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(st.lists(st.integers(-1, 1), min_size=d, max_size=d), min_size=1)
    )
)
def test_unique_puts_the_rows_back(values):
    X = np.array(values, dtype=np.float64)
    first, inverse = unique(X)
    assert_array_equal(X[first][inverse], X)
    assert np.all(np.diff(first) > 0)
    assert len(first) == len({tuple(row) for row in values})
    assert all(first[inverse[i]] <= i for i in range(len(X)))
    for one, other in zip(unique(sparse.csr_matrix(X)), (first, inverse), strict=True):
        assert_array_equal(one, other)


# match -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csr_array]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_match_rows(form, dtype):
    pool = np.array([[0.0, 2.0], [1.0, 0.0], [3.0, 3.0]])
    found = match(form(ROWS.astype(dtype)), form(pool.astype(dtype)))
    assert_array_equal(found, [1, 0, 1, -1, 0])
    assert found.dtype.kind == "i"


def test_match_objects():
    pool = as_objects(["a", (1, 2), frozenset({3})])
    assert_array_equal(match(as_objects([(1, 2), "b", frozenset({3}), "a"]), pool), [1, -1, 2, 0])
    shared = [1, 2]  # without a hash: only the object itself is equal
    assert_array_equal(match(as_objects([shared, [1, 2]]), as_objects(["x", shared])), [1, -1])


def test_match_zeros_of_either_sign_and_csr_in_any_spelling():
    assert_array_equal(match(np.array([[-0.0, 1.0]]), np.array([[0.0, 1.0]])), [0])
    spelled = sparse.csr_matrix((np.array([1.0, 0.0, 1.0]), [1, 0, 1], [0, 3]), shape=(1, 2))
    assert_array_equal(match(spelled, sparse.csr_matrix([[1.0, 0.0], [0.0, 2.0]])), [1])
    assert_array_equal(spelled.data, [1.0, 0.0, 1.0])  # the input stays as it is


@pytest.mark.parametrize("empty", [np.empty((0, 2)), sparse.csr_matrix((0, 2))])
def test_match_of_nothing(empty):
    rows = ROWS if isinstance(empty, np.ndarray) else sparse.csr_matrix(ROWS)
    assert_array_equal(match(empty, rows), np.empty(0))
    assert_array_equal(match(rows, empty), np.full(5, -1))


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(*[st.integers(-1, 1)] * 2), min_size=1, max_size=9), st.integers(0, 9))
def test_match_finds_an_equal_row_where_there_is_one(values, cut):
    rows, pool = np.array(values, dtype=float), np.array([*values[:cut], (9, 9)], dtype=float)
    found = match(rows, pool)
    for row, j in zip(rows, found, strict=True):
        equal = [k for k, other in enumerate(pool) if tuple(other) == tuple(row)]
        assert j in equal or (j == -1 and not equal)
    assert_array_equal(match(sparse.csr_matrix(rows), sparse.csr_matrix(pool)), found)


# take, n_rows, as_objects ------------------------------------------------------------------------


@pytest.mark.parametrize("index", [np.array([2, 0]), [2, 0], slice(0, 2), slice(1, 1)])
def test_take(index):
    expected = ROWS[index]
    assert_array_equal(take(ROWS, index), expected)
    assert_array_equal(take(sparse.csr_matrix(ROWS), index).toarray(), expected)
    words = ["p", "q", "r", "s", "t"]
    chosen = list(np.array(words)[index])
    assert take(words, index) == chosen
    assert list(take(tuple(words), index)) == chosen
    assert list(take(np.array(words), index)) == chosen


@pytest.mark.parametrize("index", [np.array([2, 0]), [2, 0], slice(0, 2), slice(1, 1)])
def test_take_of_frames(index):
    expected = ROWS[index]
    frame = pd.DataFrame(ROWS, index=list("vwxyz"), columns=["a", "b"])
    assert_array_equal(take(frame, index).to_numpy(), expected)
    assert_array_equal(take(frame["b"], index), expected[:, 1])
    assert_array_equal(take(pl.DataFrame(ROWS), index).to_numpy(), expected)


def test_take_of_ragged_lists():
    assert take([[1], [1, 2], []], np.array([2, 1])) == [[], [1, 2]]


def test_n_rows():
    for rows in (ROWS, sparse.csr_matrix(ROWS), list(ROWS)):
        assert n_rows(rows) == 5


def test_n_rows_of_frames():
    assert n_rows(pd.DataFrame(ROWS)) == n_rows(pl.DataFrame(ROWS)) == 5


def test_as_objects_keeps_items_whole():
    for items in ([(1, 2), (3, 4)], [[1], [2, 3]], ["a", "bc"], [np.eye(2), np.eye(2)]):
        objects = as_objects(items)
        assert objects.shape == (len(items),)
        assert all(one is other for one, other in zip(objects, items, strict=True))
    array = np.array(["a", "b"])
    assert as_objects(array) is array


@pytest.mark.parametrize("objects", ["abc", 3, None, iter([1])])
def test_as_objects_needs_a_list(objects):
    kind = type(objects).__name__
    with pytest.raises(TypeError, match=f"list or array of objects. Got {kind} instead"):
        as_objects(objects)


# Types and products ------------------------------------------------------------------------------


def test_float_dtype():
    assert float_dtype(ROWS.astype(np.float32)) == np.float32
    for rows in (ROWS, ROWS.astype(int), ["a"], as_objects(["a"])):
        assert float_dtype(rows) == np.float64
    assert float_dtype(sparse.csr_matrix(ROWS.astype(np.float32))) == np.float32


def test_astype_casts_numbers_only():
    assert astype(ROWS.astype(np.float32), np.float64).dtype == np.float64
    assert astype(ROWS, np.float64) is ROWS
    assert astype(sparse.csr_matrix(ROWS), np.float32).dtype == np.float32
    objects = as_objects(["a", "b"])
    assert astype(objects, np.float64) is objects
    words = np.array(["a", "b"])
    assert astype(words, np.float64) is words


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("chunk", [2, 128])
@pytest.mark.parametrize("limit", [0, 2**26], ids=["sparse-right", "dense-right"])
@pytest.mark.parametrize("right", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("left", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_right_operand(left, right, limit, chunk, dtype, monkeypatch):
    monkeypatch.setattr("skout._numerics.arrays._DENSE_LIMIT", limit)
    monkeypatch.setattr("skout._numerics.arrays._CHUNK", chunk)
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((6, 4)), rng.standard_normal((3, 4))
    operand, tol = RightOperand(right(B)), 1e-12 if dtype == np.float64 else 1e-5
    product = operand.product(left(A.astype(dtype)))
    assert type(product) is np.ndarray
    assert product.dtype == dtype
    assert_allclose(product, A @ B.T, rtol=tol, atol=tol)
    out = np.full((6, 3), np.nan, dtype=dtype)
    assert operand.product(left(A.astype(dtype)), out) is out
    assert_allclose(out, A @ B.T, rtol=tol, atol=tol)


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (7, 3), (7, 100), (5, 1)])
def test_row_slices_cover_the_rows_once(n, size):
    slices = list(row_slices(n, size))
    covered = [i for some in slices for i in range(n)[some]]
    assert covered == list(range(n))
    assert all(0 < some.stop - some.start <= size for some in slices)
    assert all(some.stop <= n for some in slices)
