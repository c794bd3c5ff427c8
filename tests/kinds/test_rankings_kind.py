"""Rankings by sums of votes: the double loop, ranks from 0 and from 1, how many items."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skout import KernelBasis
from skout.decoding import RankingDecoder
from skout.kernels import Kendall
from skout.kinds import KINDS, BordaDecoder


def rankings(n, d, rng):
    return rng.permuted(np.tile(np.arange(d), (n, 1)), axis=1)


@pytest.mark.parametrize("best", [0, 1])
def test_items_are_sorted_by_the_sum_of_their_pairs(best):
    rng = np.random.default_rng(0)
    Y = rankings(60, 5, rng)
    basis = KernelBasis(Kendall()).fit(Y)
    F = rng.standard_normal((20, basis.rank_))
    found = BordaDecoder().fit(basis, Y + best).decode(F)
    features = F @ basis.combine(Kendall().features(basis.landmarks_))
    for row, ranks in zip(features, found, strict=True):
        votes, pair = np.zeros(5), 0
        for i in range(5):
            for j in range(i + 1, 5):
                votes[i] += row[pair]
                votes[j] -= row[pair]
                pair += 1
        assert_array_equal(np.argsort(-votes), np.argsort(ranks))
    assert found.min() == best


def test_true_coordinates_decode_to_the_truth():
    Y = rankings(40, 6, np.random.default_rng(1))
    basis = KernelBasis(Kendall()).fit(Y)
    assert_array_equal(BordaDecoder().fit(basis, Y).decode(basis.transform(Y)), Y)


@pytest.mark.parametrize(("d", "names"), [(4, ["borda", "kemeny"]), (14, ["borda"])])
def test_many_items_are_not_searched(d, names):
    decoders = KINDS["rankings"].decoders(rankings(30, d, np.random.default_rng(0)))
    assert list(decoders) == names
    assert isinstance(decoders["borda"], BordaDecoder)
    assert all(isinstance(one, RankingDecoder) for one in decoders.values())
