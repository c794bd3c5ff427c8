"""Search in one pool, exact by blocks or by an index of faiss, against full sorts."""

import pickle
import sys
import tracemalloc

import numpy as np
import oracles_decoding as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone

from skout import KernelBasis, iokr, memory_limits
from skout.decoding import CandidateDecoder, FaissIndex, index_recall, search
from skout.decoding.search import count_better, top_k, within
from skout.kernels import Gaussian, Linear


def reals(rng, n, c, p=3):
    return rng.standard_normal((n, p)), rng.standard_normal((c, p))


def integers(rng, n, c, p=3):
    """Inner products are exact, and often equal."""
    return rng.integers(-2, 3, (n, p)).astype(float), rng.integers(-2, 3, (c, p)).astype(float)


def increasing(rng, n, c, p=3):
    """Each candidate is better than those before it: no mark ever helps."""
    return rng.integers(1, 4, (n, p)).astype(float), np.outer(np.arange(c) // 2, np.ones(p))


def decreasing(rng, n, c, p=3):
    A, B = increasing(rng, n, c, p)
    return A, B[::-1]


POOLS = [reals, integers, increasing, decreasing]
# width of a block of candidates, candidates that set the mark, shards, rows of a block of queries
SETTINGS = [(8192, 512, 8, 8192), (16, 4, 8, 8192), (16, 4, 3, 2), (7, 1, 1, 3), (64, 16, 2, 1)]


@pytest.fixture(params=SETTINGS, ids=str)
def settings(request, monkeypatch):
    width, first, shards, rows = request.param
    monkeypatch.setattr(search, "_CANDIDATE_BLOCK", width)
    monkeypatch.setattr(search, "_FIRST", first)
    monkeypatch.setattr(search, "_SHARDS", shards)
    with memory_limits(block_rows=rows):
        yield


# Exact search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.usefixtures("settings")
def test_top_k_is_a_full_stable_sort(pool, n_jobs):
    A, B = pool(np.random.default_rng(0), 9, 150)
    S = np.array([[a @ b for b in B] for a in A])
    for k in (1, 2, 13, 149, 150):
        indices, scores = top_k(A, B, k, n_jobs=n_jobs)
        assert_array_equal(indices, [oracle.ranked(row)[:k] for row in S])
        assert_allclose(scores, np.take_along_axis(S, indices, axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("slack", [0.0, 1.5])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.usefixtures("settings")
def test_count_better_counts(pool, slack, n_jobs):
    A, B = pool(np.random.default_rng(1), 9, 150)
    S = A @ B.T
    score = S[:, 70] if pool is integers else S[:, 70] + 1e-7  # real numbers tie by chance
    above, tied = count_better(A, B, score, slack, n_jobs=n_jobs)
    for i, row in enumerate(S):
        assert above[i] == sum(s > score[i] + slack for s in row)
        assert tied[i] == sum(abs(s - score[i]) <= slack for s in row)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.usefixtures("settings")
def test_within_finds_all_above_the_floor(pool, n_jobs):
    A, B = pool(np.random.default_rng(2), 9, 150)
    S = A @ B.T
    floor = np.quantile(S, np.linspace(0.0, 0.99, 9), axis=1).diagonal().copy()
    floor[:3] = -np.inf, np.inf, S[2, 5]
    if pool is not integers:
        floor[2:] -= 1e-7
    found = within(A, B, floor, n_jobs=n_jobs)
    assert len(found) == 9
    for i, index in enumerate(found):
        assert index.tolist() == [j for j in oracle.ranked(S[i]) if S[i, j] >= floor[i]]
    assert [len(index) for index in found[:2]] == [150, 0]


@given(
    pool=st.sampled_from(POOLS),
    n=st.integers(0, 9),
    c=st.integers(1, 60),
    share=st.floats(0.0, 1.0),
    width=st.integers(1, 70),
    first=st.integers(1, 20),
    shards=st.integers(1, 9),
    rows=st.integers(1, 10),
    seed=st.integers(0, 999),
)
def test_search_with_any_blocks(pool, n, c, share, width, first, shards, rows, seed):
    A, B = pool(np.random.default_rng(seed), n, c)
    k, S = max(1, round(share * c)), A @ B.T
    floor = S[:, -1] - 1e-7
    with pytest.MonkeyPatch.context() as patch, memory_limits(block_rows=rows):
        patch.setattr(search, "_CANDIDATE_BLOCK", width)
        patch.setattr(search, "_FIRST", first)
        patch.setattr(search, "_SHARDS", shards)
        indices, scores = top_k(A, B, k)
        above, tied = count_better(A, B, floor, 2e-7)
        found = within(A, B, floor)
    assert indices.shape == scores.shape == (n, k)
    assert len(above) == len(tied) == len(found) == n
    for i, row in enumerate(S):
        assert_array_equal(indices[i], oracle.ranked(row)[:k])
        assert above[i] == np.sum(row > row[-1] + 1e-7)
        assert tied[i] == np.sum(np.abs(row - row[-1]) <= 1e-7)
        assert found[i].tolist() == [j for j in oracle.ranked(row) if row[j] >= floor[i]]


def test_scores_keep_to_float64_and_positions_are_integers():
    A, B = reals(np.random.default_rng(0), 4, 20)
    indices, scores = top_k(A, B, 3)
    assert (indices.dtype.kind, scores.dtype) == ("i", np.float64)


# faiss -------------------------------------------------------------------------------------------


def test_faiss_is_asked_for_by_name_only(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    Y = np.eye(3)
    basis = KernelBasis("linear").fit(Y)
    for index in ("faiss", FaissIndex()):
        with pytest.raises(ImportError, match=r'FaissIndex needs faiss: pip install "skout\[ann\]'):
            CandidateDecoder(index=index).fit(basis, Y)
    assert_array_equal(CandidateDecoder().fit(basis, Y).decode(Y), Y)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ("fais", ValueError, r"Unknown index 'fais'. Did you mean 'faiss'\? Available: faiss"),
        (3, TypeError, r'index must be None, "faiss" or an object with build and search. Got 3'),
        (Gaussian(), TypeError, "index must be None"),
    ],
)
def test_bad_indices_are_named(index, error, message):
    Y = np.eye(3)
    with pytest.raises(error, match=message):
        CandidateDecoder(index=index).fit(KernelBasis("linear").fit(Y), Y)


def test_flat_is_exact():
    pytest.importorskip("faiss")
    for seed, (n, c, k) in enumerate([(7, 300, 1), (7, 300, 25), (3, 20, 20), (5, 1000, 100)]):
        A, B = reals(np.random.default_rng(seed), n, c, p=6)
        indices, scores = FaissIndex().build(B).search(A, k)
        expected, exact = top_k(A, B, k)
        assert_array_equal(indices, expected)
        assert_allclose(scores, exact, rtol=1e-12, atol=1e-13)


def test_few_ties_go_to_the_lower_position():
    pytest.importorskip("faiss")
    A, B = integers(np.random.default_rng(0), 8, 25)
    indices, scores = FaissIndex().build(B).search(A, 10)
    assert_array_equal(indices, [oracle.ranked(row)[:10] for row in A @ B.T])
    assert_array_equal(scores, np.take_along_axis(A @ B.T, indices, axis=1))


def test_candidates_beyond_k_repair_float32():
    pytest.importorskip("faiss")
    # candidates that differ in the tenth digit, of which float32 sees seven
    B = np.column_stack([np.ones(30), 1e-9 * np.random.default_rng(0).permutation(30)])
    A = np.array([[1.0, 1.0]])
    best = np.argsort(-B[:, 1])[:3]
    assert_array_equal(FaissIndex(n_more=30).build(B).search(A, 3)[0][0], best)
    assert not np.array_equal(FaissIndex(n_more=0).build(B).search(A, 3)[0][0], best)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_blocks_of_queries_do_not_matter(rows):
    pytest.importorskip("faiss")
    A, B = reals(np.random.default_rng(0), 20, 400, p=4)
    for index in (FaissIndex().build(B), FaissIndex("IVF40,Flat", n_more=0).build(B)):
        whole = index.search(A, 15)
        with memory_limits(block_rows=rows):
            found = index.search(A, 15)
        for one, other in zip(found, whole, strict=True):
            assert_array_equal(one, other)
    assert index.search(A[:0], 15)[0].shape == (0, 15)


def test_the_search_keeps_to_the_memory_budget():
    pytest.importorskip("faiss")
    A, B = reals(np.random.default_rng(0), 1000, 200, p=64)
    index = FaissIndex().build(B)
    with memory_limits(block_mb=1):
        tracemalloc.start()
        index.search(A, 10)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * 2**20 < 8 * 1000 * 42 * 64 / 4  # all at once would be 20 MB


def test_recall_of_a_part_of_the_pool_grows_with_its_size():
    pytest.importorskip("faiss")
    A, B = reals(np.random.default_rng(0), 60, 2000, p=8)
    recalls = [index_recall(FaissIndex("IVF32,Flat", n_probe=m), B, A, k=10) for m in (1, 4, 32)]
    assert 0.0 < recalls[0] < recalls[1] < 1.0
    assert recalls[2] == 1.0


def test_recall_by_hand():
    class Half(BaseEstimator):
        """Finds the best of the even candidates."""

        def build(self, embedding):
            self.even = embedding[::2]
            return self

        def search(self, queries, k):
            indices, scores = top_k(queries, self.even, k)
            return 2 * indices, scores

    A, B = reals(np.random.default_rng(0), 20, 50)
    shares = [sum(j % 2 == 0 for j in oracle.ranked(row)[:6]) / 6 for row in A @ B.T]
    assert_allclose(index_recall(Half(), B, A, k=6), np.mean(shares), rtol=1e-12)


def test_recall_builds_what_is_not_built():
    pytest.importorskip("faiss")
    A, B = reals(np.random.default_rng(0), 5, 100)
    built = FaissIndex().build(B)
    inner = built._index
    assert index_recall(built, B, A) == 1.0
    assert built._index is inner
    assert index_recall(built, B + 1.0, A) == 1.0
    assert built._index is not inner


def test_an_index_that_finds_too_few_says_so():
    pytest.importorskip("faiss")
    A, B = reals(np.random.default_rng(0), 20, 400, p=4)
    indices, scores = FaissIndex("IVF40,Flat", n_more=0).build(B).search(A, 100)
    missing = indices < 0
    assert missing.any()
    assert not missing[:, 0].any()
    assert_array_equal(scores[missing], -np.inf)
    assert_array_equal(np.sort(missing, axis=1), missing)  # at the end
    assert_allclose(scores[~missing], (A @ B.T)[np.nonzero(~missing)[0], indices[~missing]])


@pytest.mark.parametrize("factory", ["Flat", "IVF8,Flat", "HNSW8"])
def test_pickle_round_trip(factory):
    pytest.importorskip("faiss")
    A, B = reals(np.random.default_rng(0), 6, 500)
    index = FaissIndex(factory, n_probe=3 if "IVF" in factory else None).build(B)
    again = pickle.loads(pickle.dumps(index))
    for one, other in zip(index.search(A, 7), again.search(A, 7), strict=True):
        assert_array_equal(one, other)
    unbuilt = pickle.loads(pickle.dumps(FaissIndex(factory)))
    assert unbuilt.get_params() == FaissIndex(factory).get_params()
    assert not hasattr(clone(index), "embedding_")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_more": -1}, ValueError, "n_more must be an integer >= 0. Got -1"),
        ({"n_more": 1.5}, TypeError, "n_more must be an integer >= 0. Got 1.5"),
        ({"factory": "IVF2,Flat", "n_probe": 0}, ValueError, "n_probe must be an integer >= 1"),
        ({"n_probe": 3}, ValueError, "n_probe=3 is for .* The factory 'Flat' has none: leave n_p"),
        ({"factory": "HNSW8", "n_probe": 3}, ValueError, "The factory 'HNSW8' has none"),
    ],
)
def test_bad_parameters_are_named(params, error, message):
    pytest.importorskip("faiss")
    with pytest.raises(error, match=message):
        FaissIndex(**params).build(np.random.default_rng(0).standard_normal((100, 3)))


# Through the decoder -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index", ["faiss", FaissIndex(n_more=5), FaissIndex("IVF1,Flat", n_probe=1)], ids=str
)
def test_decoding_with_an_index(index):
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 3))
    Y[40:] = Y[:20]
    C = np.vstack([Y[:30], rng.standard_normal((40, 3)), Y[:5]])  # with copies
    plain = iokr(Gaussian(0.5), Linear(), alpha=1e-2).fit(X, Y)
    model = clone(plain).set_params(decoder=CandidateDecoder(index=index)).fit(X, Y)
    for some in (None, C, [C[i : i + 4] for i in range(60)]):
        assert_array_equal(model.predict(X, some), plain.predict(X, some))
        for one, other in zip(model.rank(X, some, k=4), plain.rank(X, some, k=4), strict=True):
            assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        assert_array_equal(model.truth_ranks(X, Y, some), plain.truth_ranks(X, Y, some))
    pool = model.embed(C)
    assert isinstance(pool.index, FaissIndex)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X, pool), plain.predict(X, C))
    assert_array_equal(again.predict(X), plain.predict(X))


def test_the_given_index_stays_unbuilt():
    pytest.importorskip("faiss")
    index = FaissIndex()
    Y = np.eye(3)
    decoder = CandidateDecoder(index=index).fit(KernelBasis("linear").fit(Y), Y)
    decoder.decode(Y, Y[:2])
    assert not hasattr(index, "embedding_")


def test_an_index_is_searched():
    class Last(BaseEstimator):
        """Always finds the last candidates."""

        def build(self, embedding):
            self.n = len(embedding)
            return self

        def search(self, queries, k):
            indices = np.tile(np.arange(self.n)[::-1][:k], (len(queries), 1))
            return indices, np.tile(-np.arange(k, dtype=float), (len(queries), 1))

    Y = np.eye(4)
    decoder = CandidateDecoder(index=Last()).fit(KernelBasis("linear").fit(Y), Y)
    assert_array_equal(decoder.decode(Y[:2]), Y[[3, 3]])
    assert_array_equal(decoder.decode(Y[:2], Y[:3]), Y[[2, 2]])
    assert_array_equal(decoder.rank(Y[:1], k=3)[0], [[3, 2, 1]])
    assert_array_equal(decoder.decode(Y[:2], [Y[:2], Y[:3]]), Y[[0, 1]])  # sets need no index


# Faults that were mended -------------------------------------------------------------------------


class Nothing(BaseEstimator):
    """Finds the first candidate, and none beyond: what an IVF index does in a small cell."""

    def build(self, embedding):
        return self

    def search(self, queries, k):
        indices = np.full((len(queries), k), -1)
        indices[:, 0] = 0
        return indices, np.where(indices < 0, -np.inf, 1.0)


def test_copies_in_a_pool_of_which_too_few_are_found():
    Y = np.eye(3)
    decoder = CandidateDecoder(index=Nothing()).fit(KernelBasis("linear").fit(Y), Y)
    assert_array_equal(decoder.rank(Y[:1], k=3)[0], [[0, -1, -1]])
    assert_array_equal(decoder.rank(Y[:1], Y[[0, 0, 1, 2, 2]], k=4)[0], [[0, 1, -1, -1]])


def test_a_query_without_candidates_is_an_error():
    class Half(Nothing):
        """Finds nothing for the queries after the first."""

        def search(self, queries, k):
            indices, scores = super().search(queries, k)
            indices[1:], scores[1:] = -1, -np.inf
            return indices, scores

    Y = np.eye(3)
    decoder = CandidateDecoder(index=Half()).fit(KernelBasis("linear").fit(Y), Y)
    assert_array_equal(decoder.decode(Y[:1]), Y[:1])
    for some in (None, Y[[0, 0, 1]]):
        assert_array_equal(decoder.rank(Y[:2], some, k=1)[0], [[0], [-1]])
        with pytest.raises(ValueError, match="no candidate for query 1: raise its n_probe, or"):
            decoder.decode(Y[:2], some)
    with pytest.raises(ValueError, match=r"no candidate for query 1 \(2 queries have none\)"):
        decoder.decode(Y)


def test_any_object_with_build_and_search_is_an_index():
    class Plain:
        def build(self, embedding):
            self.embedding = embedding
            return self

        def search(self, queries, k):
            return top_k(queries, self.embedding, k)

    Y = np.eye(3)
    index = Plain()
    decoder = CandidateDecoder(index=index).fit(KernelBasis("linear").fit(Y), Y)
    assert_array_equal(decoder.decode(Y), Y)
    assert not hasattr(index, "embedding")
