"""Candidates: one pool for all queries or a set for each, against loops over the formula."""

import pickle
from itertools import pairwise

import numpy as np
import oracles_decoding as oracle
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor

from skout import KernelBasis, StructuredPredictor, iokr
from skout._numerics.arrays import n_rows
from skout.decoding import CandidateDecoder, CandidateSets, EmbeddedPool, sets
from skout.kernels import Gaussian, Linear, Polynomial, Tanimoto
from skout.metrics import truth_ranks
from skout.sketches import SubSample

pd = extra("pandas")
pl = extra("polars")

WORDS = ["cat", "cart", "dog", "dogs", "bird", "a", "ibis"]
OTHERS = ["cats", "do", "birds", "boa", "carp", "dodo", "cat"]
KERNELS = [
    (Gaussian(0.3), oracle.gaussian(0.3)),
    (Linear(), oracle.linear),
    (Polynomial(2, 0.5, 1.0), oracle.polynomial(2, 0.5, 1.0)),
]


def vectors(n=12, seed=0, d=3):
    return np.random.default_rng(seed).standard_normal((n, d))


def labels(n=12, seed=0):
    return (np.random.default_rng(seed).uniform(size=(n, 6)) < 0.4).astype(int)


def fitted(kernel, Y, n_queries=5, seed=1, **params):
    """A decoder, weights of queries over the training outputs, and the coordinates F of these."""
    basis = KernelBasis(kernel).fit(Y)
    weights = np.random.default_rng(seed).standard_normal((n_queries, len(Y)))
    return CandidateDecoder(**params).fit(basis, Y), weights, weights @ basis.transform(Y)


def identity_decoder(p=3):
    """z(c) = c for the linear kernel, so that scores of integers are exact."""
    return CandidateDecoder().fit(KernelBasis("linear").fit(np.eye(p)), np.eye(p))


def ragged(rng, n, c, largest):
    """indptr and indices of n sets out of a pool of c, with repeats."""
    sizes = rng.integers(1, largest + 1, n)
    return np.concatenate([[0], np.cumsum(sizes)]), rng.integers(0, c, sizes.sum())


def check_sets(decoder, F, given_sets, pools, S, k, rtol=1e-9):
    """`rank` and `decode` of sets against scores S[i] of each set's own candidates."""
    indices, scores = decoder.rank(F, given_sets, k=k)
    best = decoder.decode(F, given_sets)
    assert indices.shape == scores.shape == (len(F), k)
    assert n_rows(best) == len(F)
    for i, row in enumerate(S):
        order = oracle.ranked(row)[:k]
        found, size = indices[i, : len(order)], np.abs(row).max()
        assert_array_equal(found, order)
        assert_allclose(scores[i, : len(order)], row[order], rtol=0, atol=rtol * size)
        assert_array_equal(indices[i, len(order) :], -1)
        assert_array_equal(scores[i, len(order) :], -np.inf)
        assert_same(row_of(best, i), row_of(pools[i], order[0]))


def row_of(objects, i):
    """One object; SciPy before 1.13 has no sparse arrays of one dimension."""
    return objects[[i]].toarray()[0] if sparse.issparse(objects) else objects[i]


def assert_same(one, other):
    if isinstance(other, np.ndarray):
        assert_array_equal(one, other)
    else:
        assert one == other


# The container -----------------------------------------------------------------------------------


def test_a_set_is_a_slice_of_the_pool():
    some = CandidateSets(WORDS, [0, 2, 2, 5], [4, 1, 0, 0, 6])
    assert [list(one) for one in some] == [["bird", "cart"], [], ["cat", "cat", "ibis"]]
    assert some[-1] == some[2]
    assert some.sizes.tolist() == [2, 0, 3]
    assert some.positions(2).tolist() == [0, 0, 6]
    assert (len(some), repr(some)) == (3, "<CandidateSets: 3 sets, 7 objects in the pool>")
    assert some.positions(-1).tolist() == [0, 0, 6]
    assert some.query_of.tolist() == [0, 0, 2, 2, 2]
    for i in (3, -4):
        with pytest.raises(IndexError):
            some[i]
        with pytest.raises(IndexError):
            some.positions(i)


def test_some_entries_of_sets():
    some = CandidateSets(WORDS, [0, 2, 2, 5], [4, 1, 0, 0, 6]).select(np.array([1, 4, 2]))
    assert [list(one) for one in some] == [["cart"], [], ["ibis", "cat"]]
    assert some.pool is WORDS


@pytest.mark.parametrize("container", [np.array, sparse.csr_array, "frame"])
def test_sets_keep_the_container_of_the_pool(container):
    pool = pd.DataFrame(vectors()) if container == "frame" else container(vectors())
    some = CandidateSets(pool, [0, 2, 3], [5, 0, 1])
    assert type(some[0]) is type(pool)
    dense = some[0].toarray() if sparse.issparse(pool) else np.asarray(some[0])
    assert_array_equal(dense, vectors()[[5, 0]])


@pytest.mark.parametrize(
    ("indptr", "indices", "error", "message"),
    [
        ([1, 2], [0, 1], ValueError, r"from 0 to len\(indices\)=2. Got 2 numbers from 1 to 2"),
        ([0, 1], [0, 1], ValueError, r"from 0 to len\(indices\)=2. Got 2 numbers from 0 to 1"),
        ([0, 2, 1, 2], [0, 1], ValueError, "indptr must increase"),
        ([], [0], ValueError, r"from 0 to len\(indices\)=1. Got 0 numbers"),
        ([0, 1], [7], ValueError, "indices must be positions in the pool, 0 to 6. Got 7"),
        ([0, 1], [-1], ValueError, "indices must be positions in the pool, 0 to 6. Got -1"),
        ([0.0, 1.0], [0], TypeError, "indptr must be a 1-D array of integers. Got float64"),
        ([0, 1], [True], TypeError, "indices must be a 1-D array of integers. Got bool"),
        ([0, 1], [[0]], TypeError, r"indices must be a 1-D array .* of shape \(1, 1\)"),
    ],
)
def test_bad_sets_are_named(indptr, indices, error, message):
    with pytest.raises(error, match=message):
        CandidateSets(WORDS, indptr, indices)


def test_from_lists_of_objects_has_one_pool():
    some = CandidateSets.from_lists([["b", "a", "b"], ("a", "c"), np.array(["c", "b"])])
    assert list(some.pool) == ["b", "a", "c"]
    assert some.indices.tolist() == [0, 1, 0, 1, 2, 2, 0]
    assert some.sizes.tolist() == [3, 2, 2]


def test_from_lists_of_objects_without_a_hash():
    shared = [1]
    some = CandidateSets.from_lists([[shared, [2]], [shared]])
    assert some[0] == [[1], [2]]
    assert some[1] == [[1]]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_from_lists_of_matrices(form):
    Y = vectors()
    some = CandidateSets.from_lists([form(Y[:3]), form(Y[:0]), form(Y[1:6])])
    assert some.sizes.tolist() == [3, 0, 5]
    assert sparse.issparse(some.pool) == (form is not np.asarray)
    last = some[2].toarray() if sparse.issparse(some.pool) else some[2]
    assert_array_equal(last, Y[1:6])
    assert some.pool.dtype == Y.dtype


@pytest.mark.parametrize(
    ("lists", "odd"),
    [(["CO", "CN"], "'CO'"), ("CO", "'C'"), ([["CO"], b"CN"], "b'CN'"), ([[1, 2], 3], "3")],
)
def test_a_string_is_not_a_list(lists, odd):
    message = f"a list of candidates for each query, .* Got {odd} in place of a list. One pool"
    with pytest.raises(TypeError, match=message):
        CandidateSets.from_lists(lists)


def test_from_lists_of_frames_keeps_columns_and_index():
    frame = pd.DataFrame(vectors(), columns=list("abc"), index=[f"row {i}" for i in range(12)])
    some = CandidateSets.from_lists([frame[:3], frame[:0], frame[1:6]])
    assert some.sizes.tolist() == [3, 0, 5]
    pd.testing.assert_frame_equal(some[2], frame[1:6])
    mixed = CandidateSets.from_lists([frame[:3], vectors()[1:6]])
    assert_array_equal(mixed.pool, vectors()[[0, 1, 2, 1, 2, 3, 4, 5]])
    other = CandidateSets.from_lists([pl.DataFrame(vectors()[:3]), pl.DataFrame(vectors()[1:6])])
    assert_array_equal(other.pool, mixed.pool)


def test_from_lists_of_series_has_one_pool():
    words = pd.Series(["b", "a", "b"], index=[7, 8, 9])
    some = CandidateSets.from_lists([words, words[1:], ["c"]])
    assert list(some.pool) == ["b", "a", "c"]
    assert some.indices.tolist() == [0, 1, 0, 1, 0, 2]


# Sets against the formula ------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("kernel", "truth"), KERNELS, ids=lambda k: type(k).__name__)
def test_sets_of_vectors(kernel, truth, n_jobs):
    Y, C, rng = vectors(), vectors(9, seed=2), np.random.default_rng(3)
    decoder, weights, F = fitted(kernel, Y, n_queries=8, n_jobs=n_jobs)
    indptr, indices = ragged(rng, 8, 9, 6)
    given_sets = CandidateSets(C, indptr, indices)
    dense = oracle.scores(weights, Y, C, truth)
    S = [dense[i, indices[a:b]] for i, (a, b) in enumerate(pairwise(indptr))]
    for k in (1, 2, given_sets.sizes.max()):
        check_sets(decoder, F, given_sets, list(given_sets), S, k)


FORMS = {
    "strings": lambda C: [C[:4], C[3:6], C[5:]],
    "tuple of lists": lambda C: (C[:4], C[3:6], C[5:]),
    "arrays of strings": lambda C: [np.array(part, dtype=object) for part in (C[:4], C[3:6])],
    "one set": lambda C: [C],
}


@pytest.mark.parametrize("form", FORMS)
def test_lists_of_strings(form):
    given_lists = FORMS[form](OTHERS)
    decoder, weights, F = fitted(oracle.as_matrix(oracle.bigrams), WORDS, len(given_lists))
    S = [
        oracle.scores(weights[[i]], WORDS, some, oracle.bigrams)[0]
        for i, some in enumerate(given_lists)
    ]
    check_sets(decoder, F, given_lists, given_lists, S, k=1)
    check_sets(decoder, F, given_lists, given_lists, S, k=3)


def matrices(form, Y):
    return [form(Y[:4]), form(Y[2:3]), form(Y[[7, 0, 7]])]


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.asfortranarray,
        sparse.csr_matrix,
        sparse.csr_array,
        np.ndarray.tolist,
        list,
        lambda Y: Y.astype(np.float32),
        lambda Y: tuple(map(tuple, Y)),
    ],
    ids=["array", "fortran", "csr", "csr_array", "nested", "rows", "float32", "tuples"],
)
def test_lists_of_matrices(form):
    Y, C = labels(), labels(8, seed=4).astype(float)
    decoder, weights, F = fitted(Tanimoto(), Y, 3)
    given_sets = matrices(form, C)
    dense = matrices(np.asarray, C)
    S = [oracle.scores(weights[[i]], Y, some, oracle.tanimoto)[0] for i, some in enumerate(dense)]
    pools = dense if not sparse.issparse(given_sets[0]) else given_sets
    single = getattr(given_sets[0], "dtype", None) == np.float32
    check_sets(decoder, F, given_sets, pools, S, k=2, rtol=1e-5 if single else 1e-9)


# What is a pool, and what are lists --------------------------------------------------------------


def decode_both(decoder, F, pool):
    """Decode with one pool, then with the same pool for each query in turn."""
    one = decoder.decode(F, pool)
    many = decoder.decode(F, [pool] * len(F))
    return one, many


@pytest.mark.parametrize(
    "pool",
    [
        vectors(4, seed=5).tolist(),
        list(vectors(4, seed=5)),
        tuple(map(tuple, vectors(4, seed=5))),
        vectors(4, seed=5),
    ],
    ids=["nested", "rows", "tuples", "array"],
)
def test_one_pool_of_vectors_is_not_a_list_of_sets(pool):
    decoder, weights, F = fitted(Gaussian(0.3), vectors(), n_queries=4)
    S = oracle.scores(weights, vectors(), np.array(pool), oracle.gaussian(0.3))
    best = [np.array(pool)[oracle.ranked(row)[0]] for row in S]
    for found in decode_both(decoder, F, pool):
        assert_array_equal(np.array(found), best)


@pytest.mark.parametrize(
    ("kernel", "objects", "pool"),
    [
        (oracle.bigrams, WORDS, OTHERS[:4]),
        (oracle.overlap, [(1, 2), (2, 3), (4,)], [(1,), (2, 3, 3), (4, 1)]),
        (oracle.overlap, [[1, 2], [2, 3], [4]], [[1], [2, 3, 3], [4, 1], []]),
        (oracle.overlap, [[[1], 2], [[1], 3]], [[[1], 2, 3], [[1]], [[5], 5]]),
        (oracle.overlap, [frozenset("ab"), frozenset("c")], [frozenset("a"), frozenset("cd")]),
    ],
    ids=["strings", "tuples", "lists", "nested", "sets"],
)
def test_one_pool_of_objects_is_not_a_list_of_sets(kernel, objects, pool):
    decoder, weights, F = fitted(oracle.as_matrix(hashless(kernel)), objects, n_queries=6)
    S = oracle.scores(weights, objects, pool, hashless(kernel))
    best = [pool[oracle.ranked(row)[0]] for row in S]
    one, many = decode_both(decoder, F, pool)
    assert one == best
    assert many == best


def hashless(kernel):
    """Let `overlap` compare lists inside lists."""

    def of_text(a, b):
        return kernel(*(x if isinstance(x, str) else [str(i) for i in x] for x in (a, b)))

    return of_text


def test_frames_for_each_query():
    # a warning of missing column names would be an error
    frame, C = (pd.DataFrame(vectors(seed=i), columns=list("abc")) for i in (0, 5))
    decoder, _, F = fitted(Gaussian(0.3), frame, n_queries=3)
    plain, _, _ = fitted(Gaussian(0.3), vectors(), n_queries=3)
    lists = [C[:4], C[3:8], C[6:]]
    found = decoder.decode(F, lists)
    assert list(found.columns) == ["a", "b", "c"]
    assert_array_equal(found, plain.decode(F, [some.to_numpy() for some in lists]))
    truth = frame[:3]
    assert_array_equal(decoder.truth_ranks(F, truth), plain.truth_ranks(F, truth.to_numpy()))


@pytest.mark.parametrize("index", [None, [5, 4, 3, 2, 1, 0, 9]])
def test_series_for_each_query(index):
    decoder, _, F = string_decoder()
    words = pd.Series(OTHERS, index=index)
    lists = [words[:4], words[3:6], words[5:]]
    assert decoder.decode(F, lists) == decoder.decode(F, [list(some) for some in lists])
    assert list(decoder.decode(F, words)) == decoder.decode(F, OTHERS)


@pytest.mark.parametrize(
    "form", [list, np.array, pytest.param(lambda rows: pd.Series(rows), id="Series")]
)
def test_numbers_as_objects_for_each_query(form):
    Y = [1, 2, 3]
    decoder, _, F = fitted(oracle.as_matrix(lambda a, b: float(a * b)), Y, n_queries=2)
    expected = decoder.decode(F, [[1, 5], [2, 7]])
    assert list(decoder.decode(F, [form([1, 5]), form([2, 7])])) == expected


# Each candidate once -----------------------------------------------------------------------------


@pytest.fixture
def spied(monkeypatch):
    """A decoder of strings, and the list of the strings whose coordinates are computed."""
    decoder, _, F = fitted(oracle.as_matrix(oracle.bigrams), WORDS, n_queries=3)
    embedded = []
    original = decoder.basis_.coordinates

    def coordinates(rows, out=None):
        embedded.extend(rows)
        return original(rows, out)

    monkeypatch.setattr(decoder.basis_, "coordinates", coordinates)
    return decoder, F, embedded


def test_each_member_of_the_pool_is_embedded_once_and_only_if_asked_for(spied):
    decoder, F, embedded = spied
    pool = ["ab", "bc", "ab", "never", "cd", "bc"]
    some = CandidateSets(pool, [0, 3, 4, 8], [0, 1, 2, 4, 0, 5, 1, 4])
    decoder.rank(F, some, k=2)
    assert sorted(embedded) == ["ab", "bc", "cd"]


def test_each_string_of_lists_is_embedded_once(spied):
    decoder, F, embedded = spied
    decoder.decode(F, [["ab", "bc", "ab"], ["bc"], ["cd", "ab"]])
    assert sorted(embedded) == ["ab", "bc", "cd"]


def test_a_shared_pool_is_embedded_once_and_the_training_outputs_never(spied):
    decoder, F, embedded = spied
    decoder.rank(F, ["ab", "cd", "ab"], k=3)
    assert sorted(embedded) == ["ab", "cd"]
    decoder.rank(F, k=3)
    assert len(embedded) == 2


def test_an_embedded_pool_is_not_embedded_again(spied):
    decoder, F, embedded = spied
    for some in (["ab", "cd"], [["ab"], ["cd"], ["ef"]]):
        pool = decoder.embed(some)
        embedded.clear()
        decoder.rank(F, pool, k=1)
        decoder.decode(F, pool)
        decoder.truth_ranks(F, ["ab"] * 3, pool)
        decoder.gaps(F, ["ab"] * 3, pool)
        decoder.within(F, 1.0, pool)
        assert embedded == []


def test_coordinates_given_to_fit_are_used(spied):
    decoder, _, embedded = spied
    T = np.arange(len(WORDS) * decoder.basis_.rank_, dtype=float).reshape(len(WORDS), -1)
    again = CandidateDecoder().fit(
        decoder.basis_, [*WORDS[:2], *WORDS[1:]], T[[0, 1, 1, *range(2, 7)]]
    )
    assert embedded == []
    assert_array_equal(again.embedding_[:, :-1], T)
    norms = [oracle.bigrams(w, w) for w in WORDS]
    assert_allclose(again.embedding_[:, -1], np.negative(norms))


def test_blocks_of_candidates_do_not_matter(monkeypatch):
    decoder, _, _ = fitted(Gaussian(0.3), vectors())
    C = vectors(11, seed=3)
    whole = decoder.embed(C).embedding
    monkeypatch.setattr("skout.decoding.candidates._DIAGONAL", 4)
    assert_allclose(decoder.embed(C).embedding, whole, rtol=1e-12, atol=1e-14)
    assert_allclose(whole[:, :-1], decoder.basis_.transform(C), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gathered", [1, 3, 512])
def test_gathered_blocks_do_not_matter(gathered, monkeypatch):
    monkeypatch.setattr(sets, "_GATHERED", gathered)
    rng = np.random.default_rng(0)
    A, E = rng.standard_normal((40, 4)), rng.standard_normal((30, 4))
    indptr, indices = ragged(rng, 40, 30, 10)
    query = np.repeat(np.arange(40), np.diff(indptr))
    expected = [A[q] @ E[j] for q, j in zip(query, indices, strict=True)]
    for n_jobs in (1, 2):
        found = sets.set_scores(A, E, indptr, indices, n_jobs=n_jobs)
        assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_sets_of_many_candidates():
    rng = np.random.default_rng(0)
    A, E = rng.standard_normal((2, 4)), rng.standard_normal((1500, 4))
    found = sets.set_scores(A, E, np.array([0, 1300, 1500]), np.arange(1500))
    assert_allclose(found, np.concatenate([E[:1300] @ A[0], E[1300:] @ A[1]]), rtol=0, atol=1e-13)


# Ties and copies ---------------------------------------------------------------------------------


@given(
    n=st.integers(1, 6),
    c=st.integers(1, 8),
    largest=st.integers(1, 40),
    share=st.floats(0.0, 1.0),
    spread=st.integers(0, 2),
    seed=st.integers(0, 9999),
)
def test_sets_of_integers_are_stable_sorts(n, c, largest, share, spread, seed):
    rng = np.random.default_rng(seed)
    C = rng.integers(-spread, spread + 1, (c, 3)).astype(float)
    F = rng.integers(-2, 3, (n, 3)).astype(float)
    indptr, indices = ragged(rng, n, c, largest)
    given_sets = CandidateSets(C, indptr, indices)
    k = max(1, round(share * given_sets.sizes.max()))
    S = [[2.0 * f @ c - c @ c for c in some] for f, some in zip(F, given_sets, strict=True)]
    check_sets(identity_decoder(), F, given_sets, list(given_sets), [np.array(s) for s in S], k)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_many_ties_in_a_long_set(k):
    # more than 8 k candidates: the k-th score is looked for first
    C = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    indices = np.tile([0, 2, 1, 1], 15)
    given_sets = CandidateSets(C, [0, 60], indices)
    F = np.array([[1.0, 1.0, 0.0]])
    S = [np.where(indices == 0, 0.0, 1.0)]
    check_sets(identity_decoder(), F, given_sets, [C[indices]], S, k)


@given(
    n=st.integers(1, 5),
    c=st.integers(1, 30),
    kinds=st.integers(1, 6),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 9999),
)
def test_copies_in_a_shared_pool_tie_to_the_lower_position(n, c, kinds, share, seed):
    rng = np.random.default_rng(seed)
    C = rng.integers(-1, 2, (kinds, 3)).astype(float)[rng.integers(0, kinds, c)]
    F = rng.integers(-2, 3, (n, 3)).astype(float)
    k = max(1, round(share * c))
    indices, scores = identity_decoder().rank(F, C, k=k)
    for f, index, score in zip(F, indices, scores, strict=True):
        row = np.array([2.0 * f @ c - c @ c for c in C])
        assert_array_equal(index, oracle.ranked(row)[:k])
        assert_array_equal(score, row[index])


def test_copies_score_the_same_wherever_they_stand():
    decoder, _, F = fitted(Gaussian(1.0), vectors(25), n_queries=40)
    C = vectors(6, seed=2)
    for size in (1, 3, 7):
        lists = [np.vstack([vectors(size, seed=i), C, C[::-1]]) for i in range(40)]
        indices, _ = decoder.rank(F, lists, k=12)
        assert all(i < size + 6 for i in indices[:, 0])  # the first of two copies


# Shared pools, embedded --------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [False, True], ids=["distinct", "copies"])
def test_an_embedded_pool_gives_the_same_results(copies):
    rng = np.random.default_rng(0)
    X, Y, C = rng.standard_normal((20, 2)), vectors(20), vectors(8, seed=3)
    C = C[[0, 1, 1, 2, 3, 3, 4, 0]] if copies else C
    model = iokr(Gaussian(0.5), Linear(), output_sketch=SubSample(10), random_state=0).fit(X, Y)
    per_query = [C[i % 3 : i % 3 + 4] for i in range(20)]
    for given_candidates in (C, per_query, CandidateSets.from_lists(per_query)):
        pool = model.embed(given_candidates)
        assert isinstance(pool, EmbeddedPool)
        assert pool.is_per_query == (given_candidates is not C)
        assert len(pool) == (8 if given_candidates is C else 20)
        again = pickle.loads(pickle.dumps(pool))
        for other in (pool, again):
            assert_array_equal(model.predict(X, other), model.predict(X, given_candidates))
            pairs = zip(
                model.rank(X, other, k=3), model.rank(X, given_candidates, k=3), strict=True
            )
            for one, two in pairs:
                assert_array_equal(one, two)
            assert model.score(X, Y, other) == model.score(X, Y, given_candidates)


def test_the_parts_of_an_embedded_pool():
    decoder, _, _ = fitted(Linear(), vectors())
    C = vectors(4, seed=1)[[0, 1, 0, 2]]
    pool = decoder.embed(C)
    assert_array_equal(pool.first, [0, 1, 3])
    assert_array_equal(pool.inverse, [0, 1, 0, 2])
    assert_allclose(pool.embedding[:, -1], [-c @ c for c in C[[0, 1, 3]]])
    assert pool.pool is C
    some = decoder.embed(CandidateSets(C, [0, 2, 3], [0, 2, 3]))
    assert_array_equal(some.first, [0, 3])
    assert_array_equal(some.inverse, [0, -1, 0, 1])
    assert_array_equal(some.members, [0, 0, 1])
    assert some.pool is C
    assert decoder.embed(None).pool is decoder.pool_


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=["fewer", "as many"])
def test_a_pool_of_another_model_is_refused(kernel):
    decoder, _, F = fitted(Gaussian(0.3), vectors())
    # moved as a whole, the outputs have the same coordinates, and candidates have not
    other, _, _ = fitted(kernel, vectors() + 1.0)
    message = r"embedded by another model, .* Embed them with this model: model.embed\(pool.objects"
    for some in (vectors(4), [vectors(4)] * 5):
        for method in (decoder.rank, decoder.decode):
            with pytest.raises(ValueError, match=message):
                method(F, other.embed(some))
    with pytest.raises(ValueError, match=message):
        decoder.decode(F, other.embed(None))


def test_a_pool_does_not_outlive_another_fit():
    decoder, _, F = fitted(Linear(), vectors())
    pool = decoder.embed(vectors(4))
    expected = decoder.decode(F, pool)
    copy = pickle.loads(pickle.dumps(decoder))
    assert_array_equal(copy.decode(F, pickle.loads(pickle.dumps(pool))), expected)
    with pytest.raises(ValueError, match="or before this one was fitted again"):
        copy.fit(decoder.basis_, vectors()).decode(F, pool)
    assert_array_equal(copy.decode(F, pool.objects), expected)


def test_a_pool_without_copies():
    decoder, _, _ = fitted(Linear(), vectors())
    C = vectors(4, seed=1)[[0, 1, 0, 2]]
    pool = decoder.embed(C).distinct()
    assert_array_equal(pool.pool, C[[0, 1, 3]])
    assert_array_equal(pool.first, pool.inverse)
    assert pool.distinct() is pool
    some = decoder.embed(CandidateSets(C, [0, 3, 5], [2, 3, 0, 1, 1])).distinct()
    assert [own.tolist() for own in map(some.objects.positions, range(2))] == [[2, 3], [1]]
    assert (some.largest, pool.largest) == (2, 3)


# Ranks of the truth ------------------------------------------------------------------------------

SHARES = {"best": 0.0, "average": 0.5, "worst": 1.0}


def integer_problem(seed, n=9, c=14):
    """Queries, a pool with copies, and truths of which some are not in the pool."""
    rng = np.random.default_rng(seed)
    C = rng.integers(-1, 2, (c, 3)).astype(float)
    return rng.integers(-2, 3, (n, 3)).astype(float), rng.integers(-1, 2, (n, 3)).astype(float), C


@pytest.mark.parametrize("ties", SHARES)
@given(seed=st.integers(0, 9999), n_jobs=st.sampled_from([1, 2]))
def test_truth_ranks_in_a_shared_pool(ties, seed, n_jobs):
    F, Y, C = integer_problem(seed)
    decoder = identity_decoder().set_params(n_jobs=n_jobs)
    ranks = decoder.truth_ranks(F, Y, C, ties=ties)
    S = np.array([[2.0 * f @ c - c @ c for c in C] for f in F])
    keys = [tuple(c) for c in C]
    truth = [tuple(y) for y in Y]
    expected = [oracle.truth_rank(s, keys, t, SHARES[ties]) for s, t in zip(S, truth, strict=True)]
    assert_array_equal(ranks, expected)
    position = [keys.index(t) if t in keys else None for t in truth]
    assert_array_equal(ranks, truth_ranks(S, position, groups=keys, ties=ties))


@pytest.mark.parametrize("ties", SHARES)
@given(seed=st.integers(0, 9999))
def test_truth_ranks_in_sets(ties, seed):
    F, Y, C = integer_problem(seed)
    rng = np.random.default_rng(seed + 1)
    indptr, indices = ragged(rng, len(F), len(C), 10)
    indices[indptr[:4]] = indices[indptr[1:5] - 1]  # a copy in the first sets
    Y[:5] = C[indices[indptr[:5]]]  # and truths that are there
    some = CandidateSets(C, indptr, indices)
    ranks = identity_decoder().truth_ranks(F, Y, some, ties=ties)
    S = [np.array([2.0 * f @ c - c @ c for c in own]) for f, own in zip(F, some, strict=True)]
    keys = [[tuple(c) for c in own] for own in some]
    truth = [tuple(y) for y in Y]
    rows = zip(S, keys, truth, strict=True)
    assert_array_equal(ranks, [oracle.truth_rank(*row, SHARES[ties]) for row in rows])
    assert np.isfinite(ranks[:5]).all()
    position = [own.index(t) if t in own else None for own, t in zip(keys, truth, strict=True)]
    assert_array_equal(ranks, truth_ranks(S, position, groups=keys, ties=ties))


@pytest.mark.parametrize(("kernel", "truth"), KERNELS, ids=lambda k: type(k).__name__)
def test_truth_ranks_of_real_numbers(kernel, truth):
    Y, C = vectors(), vectors(10, seed=3)
    decoder, weights, F = fitted(kernel, Y, n_queries=10)
    S = oracle.scores(weights, Y, C, truth)
    expected = [1 + np.sum(s > s[i]) for i, s in enumerate(S)]
    assert_array_equal(decoder.truth_ranks(F, C, C), expected)
    sets_of_all = CandidateSets(C, np.arange(0, 101, 10), np.tile(np.arange(10), 10))
    assert_array_equal(decoder.truth_ranks(F, C, sets_of_all), expected)
    best = S.max(axis=1) - np.diagonal(S)
    size = np.abs(S).max()
    assert_allclose(decoder.gaps(F, C, C), best, rtol=0, atol=1e-9 * size)
    assert_allclose(decoder.gaps(F, C, sets_of_all), best, rtol=0, atol=1e-9 * size)


@pytest.mark.parametrize(("ties", "rank"), [("best", 1.0), ("average", 3.0), ("worst", 5.0)])
def test_a_constant_scorer_gets_no_credit(ties, rank):
    decoder, _, F = fitted(Gaussian(0.3), vectors(), n_queries=4)
    C = vectors(5, seed=4)[[0, 1, 2, 3, 4, 4, 0]]  # 5 of them distinct
    for some in (C, [C] * 4):
        assert_array_equal(decoder.truth_ranks(0.0 * F, C[[0, 6, 3, 4]], some, ties=ties), rank)


def test_truths_that_are_no_candidates():
    decoder, _, F = fitted(oracle.as_matrix(oracle.bigrams), WORDS, n_queries=3)
    for method in (decoder.truth_ranks, decoder.gaps):
        # the last truth is in the pool, though not in its own set
        found = method(F, ["ox", "dodo", "cat"], [["cat"], ["do", "dodo"], ["do"]])
        assert_array_equal(np.isinf(found), [True, False, True])
        assert_array_equal(
            np.isinf(method(F, ["ox", "do", "cat"], ["do", "dodo"])), [True, False, True]
        )
        assert_array_equal(np.isinf(method(F, ["ox", *WORDS[:2]])), [True, False, False])


def test_ties_must_be_known():
    decoder, _, F = fitted(Linear(), vectors())
    with pytest.raises(ValueError, match=r"one of 'average', 'worst', 'best'. Got 'avg' instead"):
        decoder.truth_ranks(F, vectors(5), ties="avg")


# Within a gap of the best ------------------------------------------------------------------------


@given(seed=st.integers(0, 9999), gap=st.integers(0, 6), per_query=st.booleans())
def test_within_a_gap_of_the_best(seed, gap, per_query):
    F, _, C = integer_problem(seed)
    indptr, indices = ragged(np.random.default_rng(seed + 1), len(F), len(C), 10)
    given_candidates = CandidateSets(C, indptr, indices) if per_query else C
    found = identity_decoder().within(F, float(gap), given_candidates)
    assert found.pool is C
    for i, f in enumerate(F):
        positions = indices[indptr[i] : indptr[i + 1]] if per_query else np.arange(len(C))
        row = np.array([2.0 * f @ C[j] - C[j] @ C[j] for j in positions])
        kept = [j for j in oracle.ranked(row) if row[j] >= row.max() - gap]
        distinct = list(dict.fromkeys(tuple(C[positions[j]]) for j in kept))
        assert [tuple(c) for c in found[i]] == distinct


# Mistakes ----------------------------------------------------------------------------------------


def string_decoder():
    return fitted(oracle.as_matrix(oracle.bigrams), WORDS, n_queries=3)


@pytest.mark.parametrize(("method", "options"), [("rank", {"k": 1}), ("decode", {})])
def test_as_many_sets_as_rows(method, options):
    decoder, _, F = string_decoder()
    with pytest.raises(ValueError, match=r"for each row. Got 2 sets for 3 rows instead"):
        getattr(decoder, method)(F, [["a"], ["b"]], **options)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([["a"], [], ["b"]], "candidates is empty for query 1: give at least one object to each"),
        ([[], ["a"], []], r"candidates is empty for query 0 \(2 queries have none\)"),
        ([[], [], []], r"candidates is empty for query 0 \(3 queries have none\)"),
        ([], "candidates is empty: give at least one object"),
        (CandidateSets(["a"], [0, 1, 1, 1], [0]), r"query 1 \(2 queries have none\)"),
    ],
)
def test_an_empty_set_names_its_query(lists, message):
    decoder, _, F = string_decoder()
    with pytest.raises(ValueError, match=message):
        decoder.decode(F, lists)


def test_an_empty_matrix_names_its_query():
    decoder, _, F = fitted(Linear(), vectors(), n_queries=2)
    with pytest.raises(ValueError, match="candidates is empty for query 1"):
        decoder.decode(F, [vectors(3), vectors(0)])
    with pytest.raises(ValueError, match="candidates is empty: give at least one"):
        decoder.decode(F, vectors(0))


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k must be an integer >= 1. Got 0"),
        (1.0, TypeError, "k must be an integer >= 1. Got 1.0"),
        (True, TypeError, "k must be an integer >= 1. Got True"),
    ],
)
@pytest.mark.parametrize("some", [["do", "cat"], [["do"], ["do", "cat"], ["cat"]]])
def test_bad_k(some, k, error, message):
    decoder, _, F = string_decoder()
    with pytest.raises(error, match=message):
        decoder.rank(F, some, k=k)


@pytest.mark.parametrize("some", [[1, 2, 3], [[1], [2], [3]], [1.5, 2.5, 3.5]])
def test_numbers_are_not_strings(some):
    decoder, _, F = string_decoder()
    message = (
        r"objects like the training outputs. Got objects of type (int|float) where .* type str"
    )
    for call in (decoder.decode, decoder.rank, decoder.embed):
        with pytest.raises(TypeError, match=message):
            call(F, some) if call != decoder.embed else call(some)


def test_vectors_are_not_strings():
    decoder, _, F = string_decoder()
    with pytest.raises(
        TypeError, match="Got rows of numbers where the training outputs are objects"
    ):
        decoder.decode(F, vectors())


@pytest.mark.parametrize("some", [["a", "b"], [["a"], ["b"]], [["a", "b", "c"]] * 2])
def test_strings_are_not_vectors(some):
    decoder, _, F = fitted(Linear(), vectors(), n_queries=2)
    with pytest.raises(ValueError, match=r"could not convert|Expected 2D array"):
        decoder.decode(F, some)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_candidates_must_be_finite(value):
    decoder, _, F = fitted(Linear(), vectors(), n_queries=2)
    C = vectors(4)
    C[2, 1] = value
    for some in (C, [C, C], sparse.csr_matrix(C)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            decoder.decode(F, some)


def test_candidates_must_be_of_the_right_width():
    decoder, _, F = fitted(Linear(), vectors(), n_queries=2)
    for some in (
        np.ones((2, 4)),
        [np.ones((2, 4))] * 2,
        CandidateSets(np.eye(4), [0, 1, 2], [0, 1]),
    ):
        with pytest.raises(ValueError, match="4 features, but KernelBasis is expecting 3"):
            decoder.decode(F, some)


def test_unfitted():
    for call in (
        lambda: CandidateDecoder().embed(WORDS),
        lambda: CandidateDecoder().decode(np.ones((2, 3))),
        lambda: iokr().embed(WORDS),
        lambda: iokr().truth_ranks(vectors(), vectors()),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_read_only_candidates_are_left_alone():
    decoder, _, F = fitted(Linear(), vectors(), n_queries=2)
    C, indptr, indices = vectors(4), np.array([0, 2, 3]), np.array([0, 3, 1])
    before = C.copy()
    for array in (C, indptr, indices, F):
        array.setflags(write=False)
    some = CandidateSets(C, indptr, indices)
    decoder.rank(F, some, k=2)
    decoder.truth_ranks(F, C[:2], some)
    decoder.within(F, 1.0, C)
    assert_array_equal(C, before)


# Through the predictor ---------------------------------------------------------------------------


def test_the_predictor_passes_sets_on():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 2))
    model = StructuredPredictor(KNeighborsRegressor(2), KernelBasis(Gaussian(0.3)))
    model.fit(X, vectors(15))
    lists = [vectors(3, seed=i) for i in range(1, 16)]  # none of the training objects: no ties
    F = model.predict_coordinates(X)
    truth = np.array([some[i % 3] for i, some in enumerate(lists)])
    one_by_one = [model.decoder_.decode(F[[i]], some)[0] for i, some in enumerate(lists)]
    assert_array_equal(model.predict(X, lists), one_by_one)
    expected = [
        model.decoder_.truth_ranks(F[[i]], truth[[i]], some)[0] for i, some in enumerate(lists)
    ]
    assert_array_equal(model.truth_ranks(X, truth, lists), expected)
    assert len(set(expected)) > 1
    indices, scores = model.rank(X, lists, k=3)
    for i, some in enumerate(lists):
        found = model.decoder_.rank(F[[i]], some, k=3)
        assert_array_equal(indices[i], found[0][0])
        assert_allclose(scores[i], found[1][0], rtol=1e-12)


# Faults that were mended -------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "asked"), [(np.array, list), (list, np.array)])
def test_strings_in_lists_and_arrays_are_alike(known, asked):
    decoder, _, F = fitted(oracle.as_matrix(oracle.bigrams), known(WORDS), n_queries=3)
    plain, _, _ = string_decoder()
    assert list(decoder.decode(F, asked(OTHERS))) == list(plain.decode(F, OTHERS))
    assert_array_equal(decoder.truth_ranks(F, asked(WORDS[:3])), plain.truth_ranks(F, WORDS[:3]))


def test_candidates_may_be_of_any_kind_of_the_training_outputs():
    Y = [1, 2, 3, 2.5] * 5
    basis = KernelBasis(oracle.as_matrix(lambda a, b: a * b), SubSample(1), random_state=0).fit(Y)
    decoder = CandidateDecoder().fit(basis, Y)
    for some in ([1, 2], [2.5]):
        assert decoder.decode(basis.transform(Y)[:1], some)[0] in some


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        (np.float64, np.float32),
        (np.float32, np.int64),
        (sparse.csr_matrix, np.asarray),
        (np.asarray, sparse.csr_array),
    ],
    ids=["float32", "int", "dense", "sparse"],
)
@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
def test_truths_in_another_container_are_found(known, asked, per_query):
    Y = labels()
    decoder, _, F = fitted(Tanimoto(), Y, n_queries=12)
    pool = known(Y)
    truth = decoder.truth_ranks(F, Y, [Y] * 12 if per_query else Y)
    assert np.isfinite(truth).all()
    found = decoder.truth_ranks(F, asked(Y), [pool] * 12 if per_query else pool)
    assert_array_equal(found, truth)


def test_truths_with_indices_of_another_size_are_found():
    Y = sparse.csr_array(labels())
    wide = sparse.csr_array((Y.data, Y.indices.astype(np.int64), Y.indptr.astype(np.int64)))
    assert wide.indices.dtype != Y.indices.dtype
    decoder, _, F = fitted(Tanimoto(), labels(), n_queries=12)
    assert_array_equal(decoder.truth_ranks(F, wide, Y), decoder.truth_ranks(F, Y, Y))
    assert np.isfinite(decoder.truth_ranks(F, wide, Y)).all()


def test_one_far_candidate_does_not_make_ties():
    Y = vectors(30)
    decoder, _, _ = fitted(Linear(), Y)
    F = decoder.basis_.transform(Y)
    pool = np.vstack([Y, np.full((1, 3), 1e5)])
    for some in (pool, [pool] * 30):
        assert_array_equal(decoder.truth_ranks(F, Y, some), 1.0)


@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
def test_candidates_that_tie_with_the_origin(per_query):
    # 2 f . c - |c|^2 = 0 for c = 2 f: terms of a size that the best candidate, 0, does not show
    rng = np.random.default_rng(0)
    F = rng.standard_normal((40, 5))
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    decoder = identity_decoder(5)
    for f in F:
        C = np.vstack([np.zeros(5), 2.0 * f, 3.0 * f])
        some = [C] if per_query else C
        assert decoder.within(f[None], 0.0, some).sizes == [2]
        assert decoder.truth_ranks(f[None], C[:1], some) == [1.5]
        assert decoder.truth_ranks(f[None], C[1:2], some) == [1.5]
        gap = decoder.gaps(f[None], C[2:], some)[0]
        assert decoder.within(f[None], gap, some).sizes == [3]


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_ranks_and_sets_do_not_depend_on_units(scale):
    Y = scale * vectors(30)
    decoder, _, _ = fitted(Linear(), Y)
    F = decoder.basis_.transform(Y)
    assert_array_equal(decoder.decode(F), Y)
    assert_array_equal(decoder.truth_ranks(F, Y), 1.0)
    assert_array_equal(decoder.within(F, 0.0).sizes, 1)


def test_as_many_truths_as_rows():
    decoder, _, F = fitted(Linear(), vectors(), n_queries=5)
    for method in (decoder.truth_ranks, decoder.gaps):
        with pytest.raises(ValueError, match=r"3.*5|5.*3"):
            method(F, vectors()[:3])


def test_the_truth_is_within_its_own_gap_in_sets():
    Y = vectors(50, d=7)
    decoder, _, F = fitted(Linear(), Y, n_queries=50)
    gaps = decoder.gaps(F, Y, [Y] * 50)
    for i, gap in enumerate(gaps):
        for some in (Y, [Y]):
            assert tuple(Y[i]) in map(tuple, decoder.within(F[[i]], gap, some)[0])


def test_lists_of_matrices_with_a_callable_kernel():
    Y, C = vectors(), vectors(6, seed=2)
    decoder, weights, F = fitted(oracle.as_matrix(oracle.linear), Y, n_queries=2)
    S = oracle.scores(weights, Y, C, oracle.linear)
    lists = [C[:4], C[2:]]
    check_sets(decoder, F, CandidateSets.from_lists(lists), lists, [S[0, :4], S[1, 2:]], k=2)
    check_sets(decoder, F, lists, lists, [S[0, :4], S[1, 2:]], k=2)


def test_no_queries_have_no_sets():
    decoder, _, F = string_decoder()
    nothing = CandidateSets(OTHERS, [0], [])
    assert list(decoder.decode(F[:0], OTHERS)) == []
    assert len(decoder.truth_ranks(F[:0], [], OTHERS)) == 0
    assert list(decoder.decode(F[:0], nothing)) == []
    assert decoder.rank(F[:0], nothing)[0].shape == (0, 10)
    assert len(decoder.gaps(F[:0], [], nothing)) == len(decoder.within(F[:0], 1.0, nothing)) == 0
    vector_decoder, _, F = fitted(Linear(), vectors())
    nothing = CandidateSets(vectors(), [0], [])
    assert vector_decoder.decode(F[:0], nothing).shape == (0, 3)
    assert len(vector_decoder.truth_ranks(F[:0], vectors(0), vectors())) == 0


def test_dense_and_sparse_sets_together():
    Y = labels()
    decoder, _, F = fitted(Tanimoto(), Y, n_queries=2)
    found = decoder.decode(F, [Y[:4], sparse.csr_matrix(Y[3:8])])
    expected = decoder.decode(F, [Y[:4], Y[3:8]])
    assert_array_equal(found.toarray() if sparse.issparse(found) else found, expected)


def test_slices_are_sets_of_some_queries():
    sets = CandidateSets(list("abcd"), [0, 2, 3, 6], [0, 1, 2, 3, 0, 1])
    some = sets[1:]
    assert [list(candidates) for candidates in some] == [["c"], ["d", "a", "b"]]
    assert len(sets[:0]) == 0
    assert next(iter(sets[::-1])) == ["d", "a", "b"]


def test_candidates_must_be_a_list():
    Y = np.eye(3)
    decoder = CandidateDecoder().fit(KernelBasis("linear").fit(Y), Y)
    with pytest.raises(TypeError, match=r"candidates must be a list or array .* Got 0\.9 instead"):
        decoder.decode(Y, 0.9)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_the_compiled_loop_gives_the_same_scores(dtype, monkeypatch):
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    queries, embedding = rng.standard_normal((5, 7)), rng.standard_normal((20, 7))
    indptr = np.array([0, 3, 3, 4, 11, 12])
    indices = rng.integers(0, 20, 12).astype(dtype)
    indices[5] = indices[9]  # one candidate twice in a set
    plain = sets.set_scores(queries, embedding, indptr, indices)
    monkeypatch.setattr(sets, "_MANY", 0)
    compiled = sets.set_scores(queries, embedding, indptr, indices)
    assert_allclose(compiled, plain, rtol=1e-12)
    assert compiled[5] == compiled[9]


def test_scores_need_as_many_coordinates():
    indptr, indices = np.array([0, 1, 2]), np.array([0, 1])
    with pytest.raises(ValueError, match="Queries have 3 coordinates, and candidates 2"):
        sets.set_scores(np.ones((2, 3)), np.ones((2, 2)), indptr, indices)
