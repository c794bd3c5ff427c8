"""How many candidates `rank` returns: all of a shared pool that is small; k of a set, padded."""

import functools

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator

from skout import Ensemble, Reranker, Tuned, TwoWay, iokr
from skout.decoding import CandidateDecoder, CandidateSets, FaissIndex
from skout.kernels import Gaussian

da = extra("dask.array")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = (X @ RNG.standard_normal((3, 6)) > 0).astype(float)
NEW = X[:7] + 0.01
POOL = np.unique(Y, axis=0)
COPIES = np.concatenate([POOL, POOL[:4]])
SETS = CandidateSets.from_lists([POOL[: 2 + i] for i in range(len(NEW))])
K = len(Y) + 5  # more than any query has


def model(**options):
    return iokr(Gaussian(0.3), "f1", alpha=1e-2, random_state=0, **options)


RANKERS = {
    "StructuredPredictor": lambda: model().fit(X, Y),
    "TwoWay": lambda: TwoWay(model(), weight=0.5).fit(X, Y),
    "Ensemble, mean": lambda: Ensemble(model(), 2, random_state=0).fit(X, Y),
    "Ensemble, rank": lambda: Ensemble(model(), 2, combine="rank", random_state=0).fit(X, Y),
    "Reranker": lambda: Reranker(model(), cv=2).fit(X, Y, candidates=POOL),
    "Reranker of few": lambda: Reranker(model(), top=3, cv=2).fit(X, Y, candidates=POOL),
    "Tuned": lambda: Tuned(budget="2 fits", random_state=0).fit(X, Y),
}


@functools.cache
def ranker(name):
    return RANKERS[name]()


@pytest.mark.parametrize("pool", [None, POOL, COPIES], ids=["training", "pool", "copies"])
@pytest.mark.parametrize("name", RANKERS)
def test_a_shared_pool_is_returned_whole(name, pool):
    """Columns are positions, none of them padding: pool[indices] is safe."""
    n = len(POOL if pool is None else pool)
    indices, scores = ranker(name).rank(NEW, pool, k=K)
    assert_array_equal(np.sort(indices, axis=1), np.tile(np.arange(n), (len(NEW), 1)))
    assert np.all(np.diff(scores, axis=1) <= 0.0)
    assert_array_equal(indices, ranker(name).rank(NEW, pool, k=n)[0])


@pytest.mark.parametrize("name", RANKERS)
def test_sets_are_padded_to_k(name):
    """Whatever their sizes, so that results of batches can be stacked."""
    indices, scores = ranker(name).rank(NEW, SETS, k=K)
    assert indices.shape == scores.shape == (len(NEW), K)
    for row, values, size in zip(indices, scores, SETS.sizes, strict=True):
        assert sorted(row[:size]) == list(range(size))
        assert set(row[size:]) == {-1}
        assert set(values[size:]) == {-np.inf}
    largest = int(SETS.sizes.max())
    assert_array_equal(indices[:, :largest], ranker(name).rank(NEW, SETS, k=largest)[0])


@pytest.mark.parametrize("lazy", ["rows", "candidates", "both"])
@pytest.mark.parametrize("pool", [POOL, COPIES], ids=["pool", "copies"])
def test_the_same_on_a_cluster(lazy, pool):
    expected = ranker("StructuredPredictor").rank(NEW, pool, k=K)
    rows = NEW if lazy == "candidates" else da.from_array(NEW, chunks=(4, 3))
    there = pool if lazy == "rows" else da.from_array(pool, chunks=(5, 6))
    found = ranker("StructuredPredictor").rank(rows, there, k=K)
    assert found[0].shape == expected[0].shape
    assert_array_equal(np.asarray(found[0]), expected[0])
    assert_allclose(np.asarray(found[1]), expected[1], atol=1e-12)


class TwoBest(BaseEstimator):
    """A decoder of a user, which never returns more than two."""

    def fit(self, basis, Y, coordinates=None):
        self.Z_ = basis.transform(Y) if coordinates is None else coordinates
        self.Y_ = Y
        return self

    def rank(self, F, candidates=None, k=10):
        scores = F @ self.Z_.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, : min(k, 2)]
        return best, np.take_along_axis(scores, best, axis=1)

    def decode(self, F, candidates=None):
        return self.Y_[self.rank(F, k=1)[0][:, 0]]


def test_a_decoder_of_a_user_that_returns_fewer_on_a_cluster():
    own = model(decoder=TwoBest()).fit(X, Y)
    here = own.rank(NEW, k=5)[0]
    assert here.shape == (len(NEW), 2)
    there = np.asarray(own.rank(da.from_array(NEW, chunks=(4, 3)), k=5)[0])
    assert_array_equal(there[:, :2], here)
    assert np.all(there[:, 2:] == -1)


def test_what_an_index_does_not_find_in_a_shard_has_no_score():
    """Padding has no key: not that of the last candidate, whose score it would get."""
    extra("faiss")

    class Missing(FaissIndex):
        def search(self, queries, k):
            indices, scores = super().search(queries, k)
            indices[:, 2:], scores[:, 2:] = -1, -np.inf
            return indices, scores

    decoder = CandidateDecoder(index=Missing())
    found = model(decoder=decoder).fit(X, Y)
    indices, scores = found.rank(NEW, da.from_array(POOL, chunks=(5, 6)), k=8)
    assert_array_equal(np.isneginf(scores), indices < 0)
