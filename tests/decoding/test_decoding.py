"""Decoding against brute force over the pool."""

import numpy as np
import oracles_predictor as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout import KernelBasis, memory_limits
from skout.decoding import DECODERS, CandidateDecoder, search
from skout.decoding.search import top_k
from skout.kernels import (
    F1,
    Gaussian,
    Kendall,
    Lehmer,
    Linear,
    NGram,
    Normalized,
    Polynomial,
    RankHamming,
)
from skout.sketches import PSparsified, SubSample
from skout.testing import check_decoder


def outputs(n=25, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 3))


def label_sets(n=25, seed=0):
    return (np.random.default_rng(seed).uniform(size=(n, 6)) < 0.4).astype(int)


def rankings(n=25, seed=0):
    return np.random.default_rng(seed).permuted(np.tile(np.arange(5), (n, 1)), axis=1)


# What each registered decoder is tried on; those that choose among candidates take any kernel.
def strings(n=25, seed=0):
    rng = np.random.default_rng(seed)
    return np.array(["".join(rng.choice(list("abcd"), 5)) for _ in range(n)])


PROBLEMS = [
    *[("candidates", kernel, outputs) for kernel in (Gaussian(0.5), Linear(), Polynomial(2))],
    ("candidates", F1(), label_sets),
    ("label_sets", F1(), label_sets),
    *[("rankings", kernel, rankings) for kernel in (Kendall(), RankHamming(), Lehmer())],
    *[("strings", kernel, strings) for kernel in (NGram(2), Normalized(NGram(2)))],
]


def test_every_decoder_is_tried():
    assert {name for name, _, _ in PROBLEMS} == set(DECODERS)


@pytest.mark.parametrize("sketch", [None, SubSample(10), PSparsified(8)], ids=str)
@pytest.mark.parametrize(
    ("name", "kernel", "objects"), PROBLEMS, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_conformance(name, kernel, objects, sketch):
    Y = objects()
    Y[5:10] = Y[0]
    basis = KernelBasis(kernel, sketch, random_state=0).fit(Y)
    F = np.random.default_rng(1).standard_normal((9, basis.rank_))
    check_decoder(DECODERS[name](), basis, Y, F)


def test_conformance_check_can_fail():
    class Worst(CandidateDecoder):
        def decode(self, F, candidates=None):
            return super().decode(-F, candidates)

    Y = outputs()
    basis = KernelBasis(Gaussian(0.5)).fit(Y)
    with pytest.raises(AssertionError):
        check_decoder(Worst(), basis, Y, basis.transform(Y))


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Linear(), Polynomial(degree=2, gamma=1.0)])
def test_scores_are_distances_up_to_a_constant(kernel):
    # ||f - z(c)||^2 + what the basis does not see of c = ||f||^2 - score (4.5)
    Y, C = outputs(), outputs(12, seed=1)
    basis = KernelBasis(kernel, SubSample(10), random_state=0).fit(Y)
    F = np.random.default_rng(2).standard_normal((6, basis.rank_))
    indices, scores = CandidateDecoder().fit(basis, Y).rank(F, C, k=12)
    Z = basis.transform(C)
    for f, order, score in zip(F, indices, scores, strict=True):
        distance = ((f - Z[order]) ** 2).sum(axis=1) + basis.residual(C[order])
        assert_allclose(distance, f @ f - score, rtol=1e-9, atol=1e-9)
        assert (np.diff(distance) >= -1e-9).all()


def test_decoding_coordinates_of_training_outputs_gives_them_back():
    Y = outputs()
    for kernel in (Gaussian(0.5), Linear(), Polynomial(degree=2, gamma=1.0)):
        basis = KernelBasis(kernel).fit(Y)
        decoder = CandidateDecoder().fit(basis, Y)
        assert_array_equal(decoder.decode(basis.transform(Y)), Y)


def test_default_pool_is_the_distinct_outputs_in_order_of_appearance():
    Y = np.array([[2.0, 0.0], [1.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    decoder = CandidateDecoder().fit(KernelBasis(Linear()).fit(Y), Y)
    assert_array_equal(decoder.pool_, Y[[0, 1, 3]])
    assert decoder.embedding_.shape == (3, 3)  # rank 2, and the norm


# top_k -------------------------------------------------------------------------------------------


def integers(rng, n, c, spread, p=3):
    """Queries and candidates of small integers: inner products are exact and often equal."""
    low, high = -spread, spread + 1
    return (
        rng.integers(low, high, (n, p)).astype(float),
        rng.integers(low, high, (c, p)).astype(float),
    )


@given(
    n=st.integers(1, 12),
    c=st.integers(1, 40),
    share=st.floats(0.0, 1.0),
    spread=st.integers(0, 3),
    rows=st.integers(1, 15),
    width=st.integers(1, 45),
    n_jobs=st.sampled_from([1, 2]),
    seed=st.integers(0, 999),
)
def test_top_k_is_a_stable_sort(n, c, share, spread, rows, width, n_jobs, seed):
    A, B = integers(np.random.default_rng(seed), n, c, spread)
    k = max(1, round(share * c))
    with pytest.MonkeyPatch.context() as patch, memory_limits(block_rows=rows):
        patch.setattr(search, "_CANDIDATE_BLOCK", width)
        indices, scores = top_k(A, B, k, n_jobs=n_jobs)
    assert_array_equal(indices, oracle.top_k(A @ B.T, k))
    assert_array_equal(scores, np.take_along_axis(A @ B.T, indices, axis=1))


@pytest.mark.parametrize("k", [1, 2, 37, 500])
@pytest.mark.parametrize("spread", [0, 1, 50])
def test_top_k_with_many_ties(k, spread):
    A, B = integers(np.random.default_rng(0), 20, 500, spread)
    indices, _ = top_k(A, B, k)
    assert_array_equal(indices, oracle.top_k(A @ B.T, k))


@pytest.mark.parametrize(("rows", "megabytes"), [(1, 1.0), (7, 64.0), (4096, 0.01), (4096, 64.0)])
def test_top_k_does_not_depend_on_blocks(rows, megabytes, monkeypatch):
    monkeypatch.setattr(search, "_CANDIDATE_BLOCK", 100)
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((33, 5)), rng.standard_normal((1234, 5))
    with memory_limits(block_rows=rows, block_mb=megabytes):
        indices, scores = top_k(A, B, 10)
    assert_array_equal(indices, oracle.top_k(A @ B.T, 10))
    assert_allclose(scores, -np.sort(-(A @ B.T), axis=1)[:, :10], rtol=1e-12)


def test_more_candidates_than_a_block():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((3, 2)), rng.standard_normal((20_000, 2))
    indices, _ = top_k(A, B, 15)
    assert_array_equal(indices, np.argsort(-(A @ B.T), axis=1, kind="stable")[:, :15])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 33])
def test_equal_candidates_tie(n):
    # rounding must not tell two copies of one candidate apart
    Y = outputs()
    basis = KernelBasis(Gaussian(1.0)).fit(Y)
    decoder = CandidateDecoder().fit(basis, Y)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n_c = int(rng.integers(2, 40))
        C = np.repeat(outputs(n_c, seed), 3, axis=0)[rng.permutation(3 * n_c)]
        first = {tuple(c): j for j, c in reversed(list(enumerate(C)))}
        indices, _ = decoder.rank(rng.standard_normal((n, basis.rank_)), C, k=1)
        assert_array_equal(indices[:, 0], [first[tuple(C[j])] for j in indices[:, 0]])
