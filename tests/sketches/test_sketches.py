"""Sketches against their definitions: the laws of the draws, and what data-dependent ones find."""

import itertools
import pickle
import time
import tracemalloc

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone

from skout import KernelBasis, KernelRidge
from skout.basis.features import KernelMatrix
from skout.decoding import DECODERS
from skout.kernels import KERNELS, Gaussian, Laplacian, Linear, Matern, Polynomial, as_kernel
from skout.losses import LOSSES
from skout.sketches import (
    OSNAP,
    SKETCHES,
    Accumulation,
    CountSketch,
    Draw,
    GaussianSketch,
    PivotedCholesky,
    PSparsified,
    SubSample,
    _pilot_leverage,
    as_sketch,
)
from skout.testing import check_sketch

N = 12
UNEVEN = np.arange(1.0, N + 1)

# Data-independent sketches of N rows.
BLIND = {
    "subsample": SubSample(5),
    "subsample-all": SubSample(N),
    "subsample-one": SubSample(1),
    "subsample-uneven": SubSample(5, probabilities=UNEVEN),
    "p-sparsified": PSparsified(5, p=0.3),
    "p-sparsified-gaussian": PSparsified(5, p=0.3, distribution="gaussian"),
    "p-sparsified-dense": PSparsified(5, p=1.0),
    "p-sparsified-one": PSparsified(1, p=0.5),
    "gaussian": GaussianSketch(5),
    "accumulation": Accumulation(5, n_terms=3),
    "accumulation-one": Accumulation(5, n_terms=1),
    "countsketch": CountSketch(5),
    "countsketch-one": CountSketch(1),
}
SEEING = {
    "leverage": SubSample(5, probabilities="leverage"),
    "pivoted-cholesky": PivotedCholesky(5),
    "pivoted-cholesky-tol": PivotedCholesky(5, tol=0.2),
    "pivoted-cholesky-some": PivotedCholesky(5, max_rows=8),
}
each_blind = pytest.mark.parametrize("sketch", BLIND.values(), ids=list(BLIND))
each_sketch = pytest.mark.parametrize(
    "sketch", [*BLIND.values(), *SEEING.values()], ids=[*BLIND, *SEEING]
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def gram_of(X: np.ndarray, kernel=None) -> KernelMatrix:
    return KernelMatrix(Gaussian(0.5) if kernel is None else kernel, X)


def draw_from(sketch, seed: int = 0, n: int = N) -> Draw:
    gram = gram_of(rng(99).standard_normal((n, 3))) if sketch.needs_gram else None
    return sketch.draw(n, rng(seed), gram)


def clusters(sizes: list[int], seed: int) -> np.ndarray:
    """Tight clusters that lie far from each other."""
    random = rng(seed)
    centres = 100.0 * np.arange(len(sizes))[:, None] + np.zeros(2)
    noise = 0.1 * random.standard_normal((sum(sizes), 2))
    return np.repeat(centres, sizes, axis=0) + noise


# What every sketch is ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SKETCHES)
def test_registered_sketches_conform(name):
    check_sketch(name, n=30, n_draws=1000)


@each_sketch
def test_variants_conform(sketch):
    check_sketch(sketch, n=N, n_draws=500)


@each_blind
def test_second_moment_is_the_identity(sketch):
    """E[R'R] = I, entry by entry, within six standard errors."""
    random = rng(1)
    mean, error = oracles.second_moment(lambda: sketch.draw(N, random).toarray(), 1000)
    assert np.all(np.abs(mean - np.eye(N)) <= 6.0 * error + 1e-9)
    assert error.max() < 0.2


@each_sketch
def test_draw_is_indices_and_weights(sketch):
    draw = draw_from(sketch)
    assert draw.shape[1] == N
    assert draw.shape[0] <= N
    assert np.all(np.diff(draw.indices) > 0)
    assert draw.indices[0] >= 0
    assert draw.indices[-1] < N
    S = np.eye(N)[draw.indices]
    W = np.eye(len(S)) if draw.weights is None else draw.weights
    W = W.toarray() if sparse.issparse(W) else W
    assert_array_equal(draw.toarray(), np.reshape(draw.scale, (-1, 1)) * (W @ S))


@each_sketch
def test_rng_decides_everything(sketch):
    first, again, other = draw_from(sketch, 1), draw_from(sketch, 1), draw_from(sketch, 2)
    assert_array_equal(first.toarray(), again.toarray())
    if sketch.size != N:
        assert first.shape != other.shape or (first.toarray() != other.toarray()).any()


@each_sketch
def test_rng_moves_on(sketch):
    """Two draws from one generator differ: the generator is used, not copied."""
    gram, random = gram_of(rng(99).standard_normal((N, 3))), rng(0)
    draws = [sketch.draw(N, random, gram).toarray() for _ in range(12)]
    if sketch.size != N:
        assert any(R.shape != draws[0].shape or (draws[0] != R).any() for R in draws[1:])


@each_sketch
def test_global_random_state_is_left_alone(sketch):
    before = np.random.get_state()  # noqa: NPY002
    draw_from(sketch)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    first = draw_from(sketch).toarray()
    np.random.seed(123)  # noqa: NPY002
    assert_array_equal(draw_from(sketch).toarray(), first)
    np.random.set_state(before)  # noqa: NPY002


@each_sketch
def test_clone_params_and_pickle(sketch):
    before = repr(sketch.get_params())
    for copy in (clone(sketch), pickle.loads(pickle.dumps(sketch))):
        assert type(copy) is type(sketch)
        assert repr(copy.get_params()) == before
        assert_array_equal(draw_from(copy).toarray(), draw_from(sketch).toarray())
    assert repr(sketch.get_params()) == before


def test_repr():
    assert repr(PSparsified(100, p=0.1)) == "PSparsified(p=0.1, size=100)"


@pytest.mark.parametrize(("n", "m"), [(1, 1), (50, 50), (2500, 1500), (4000, 1898), (90_000, 2000)])
def test_default_size(n, m):
    """30 sqrt(n), at most n and 2000."""
    assert SubSample().draw(n, rng()).shape == (m, n)
    assert PSparsified(p=1e-4).draw(n, rng()).shape == (m, n)
    assert Accumulation(n_terms=1).draw(n, rng()).shape == (m, n)
    assert CountSketch().draw(n, rng()).shape == (m, n)


def test_default_size_of_data_dependent_sketches():
    X = rng().standard_normal((950, 2))
    assert PivotedCholesky().draw(950, rng(), gram_of(X, Laplacian(500.0))).shape == (925, 950)
    assert GaussianSketch().draw(30, rng()).shape == (30, 30)


class Unsigned(CountSketch):
    """CountSketch without its signs: E[R'R] has 1/m off the diagonal."""

    def draw(self, n, rng, gram=None):
        R = np.abs(super().draw(n, rng).toarray())
        return Draw(np.arange(n), R, R.shape)


class Unscaled(SubSample):
    def draw(self, n, rng, gram=None):
        draw = super().draw(n, rng)
        return Draw(draw.indices, None, draw.shape)


class Unsorted(SubSample):
    def draw(self, n, rng, gram=None):
        draw = super().draw(n, rng)
        return Draw(draw.indices[::-1], None, draw.shape, draw.scale)


class Unseeded(SubSample):
    def draw(self, n, rng, gram=None):
        return super().draw(n, np.random.default_rng())


@pytest.mark.parametrize(
    ("sketch", "message"),
    [
        (Unsigned(10), "identity"),
        (Unscaled(10), "E"),
        (Unsorted(10), "sorted and distinct"),
        (Unseeded(10), "same rng"),
    ],
    ids=["unsigned", "unscaled", "unsorted", "unseeded"],
)
def test_check_sketch_catches(sketch, message):
    with pytest.raises(AssertionError, match=message):
        check_sketch(sketch, n_draws=1000)


def test_check_sketch_of_none():
    with pytest.raises(TypeError, match="needs a sketch"):
        check_sketch(None)


# p-sparsified: Definition 3.18 -------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["rademacher", "gaussian"])
@pytest.mark.parametrize(("m", "n", "p"), [(20, 3000, 0.01), (7, 500, 0.2), (50, 40_000, 1e-4)])
def test_density_is_binomial(distribution, m, n, p):
    """The number of non-zeros of an m x n sketch is Binomial(m n, p)."""
    random, sketch = rng(3), PSparsified(m, p=p, distribution=distribution)
    counts = np.array([sketch.draw(n, random).weights.nnz for _ in range(100)])
    law = stats.binom(m * n, p)
    assert abs(counts.mean() - law.mean()) < 5.0 * law.std() / np.sqrt(len(counts))
    assert 0.6 < counts.var(ddof=1) / law.var() < 1.6  # chi-squared with 99 degrees: 0.6 to 1.55
    assert stats.kstest(law.cdf(counts), "uniform").pvalue > 1e-4


@pytest.mark.parametrize(("m", "n", "p"), [(20, 3000, 0.01), (7, 500, 0.2), (200, 2000, 0.001)])
def test_touched_rows_are_binomial(m, n, p):
    """The number m' of touched rows is Binomial(n, 1 - (1-p)^m)."""
    random, sketch = rng(4), PSparsified(m, p=p)
    counts = np.array([len(sketch.draw(n, random).indices) for _ in range(100)])
    law = stats.binom(n, 1.0 - (1.0 - p) ** m)
    assert abs(counts.mean() - law.mean()) < 5.0 * law.std() / np.sqrt(len(counts))
    assert 0.6 < counts.var(ddof=1) / law.var() < 1.6


def test_every_entry_has_the_same_chance():
    """Positions are uniform over the whole matrix: the first and last entry too."""
    random, sketch, n_draws = rng(5), PSparsified(4, p=0.1), 3000
    hits = sum(sketch.draw(9, random).toarray() != 0 for _ in range(n_draws))
    law = stats.binom(n_draws, 0.1)
    assert np.all(np.abs(hits - law.mean()) < 5.0 * law.std())
    assert stats.chisquare(hits.ravel()).pvalue > 1e-4


def test_entries_are_independent_along_a_row():
    """Success at one position says nothing about the next: pairs come with probability p^2."""
    R = PSparsified(1, p=0.3).draw(100_000, rng(6)).toarray()[0] != 0
    pairs = int(np.sum(R[1:] & R[:-1]))
    assert abs(pairs - 9000) < 5.0 * np.sqrt(9000 * (1 + 2 * 0.3))


def test_rademacher_entries():
    """The non-zeros are +- 1/sqrt(m p), both signs alike."""
    W = PSparsified(30, p=0.02).draw(5000, rng(7)).weights
    assert sparse.issparse(W)
    assert_allclose(np.abs(W.data), 1.0 / np.sqrt(30 * 0.02), rtol=1e-14)
    assert abs(np.sum(W.data > 0) - W.nnz / 2) < 5.0 * np.sqrt(W.nnz) / 2


def test_gaussian_entries():
    """The non-zeros are N(0, 1/(m p))."""
    W = PSparsified(30, p=0.02, distribution="gaussian").draw(5000, rng(8)).weights
    assert stats.kstest(W.data * np.sqrt(30 * 0.02), "norm").pvalue > 1e-3


def test_default_p():
    """min(1, 20/n): 20 non-zeros a row on average, all of them for small n."""
    assert_array_equal(
        PSparsified(5).draw(1000, rng(1)).toarray(),
        PSparsified(5, p=0.02).draw(1000, rng(1)).toarray(),
    )
    for n in (15, 20):
        assert np.all(PSparsified(5).draw(n, rng(1)).toarray() != 0)
    nnz = PSparsified(100).draw(50_000, rng(1)).weights.nnz
    assert abs(nnz - 2000) < 5.0 * np.sqrt(2000)


@pytest.mark.parametrize("p", [1, 1.0])
def test_p_one_is_dense(p):
    draw = PSparsified(4, p=p).draw(30, rng())
    assert_array_equal(draw.indices, np.arange(30))
    assert_allclose(np.abs(draw.toarray()), 0.5)


@pytest.mark.parametrize("p", [1e-9, 1e-18])
def test_nearly_impossible_entries(p):
    """So small a p gives the zero sketch, at once."""
    draw = PSparsified(5, p=p).draw(100, rng())
    assert draw.shape == (5, 100)
    assert draw.weights.shape == (5, 0)
    assert_array_equal(draw.toarray(), np.zeros((5, 100)))


def test_ten_million_rows_cost_nothing():
    """O(nnz) time and memory, not m x n: the promise is 1 s and 100 MB."""
    start = time.perf_counter()
    draw = PSparsified(200).draw(10_000_000, rng())
    assert time.perf_counter() - start < 3.0
    assert draw.shape == (200, 10_000_000)
    assert abs(draw.weights.nnz - 4000) < 5.0 * np.sqrt(4000)
    tracemalloc.start()
    PSparsified(200).draw(10_000_000, rng())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("p", [0, 0.0, -0.1, 1.5, np.nan, np.inf])
def test_p_out_of_range(p):
    with pytest.raises(ValueError, match=f"p must be .*Got {p}"):
        PSparsified(3, p=p).draw(10, rng())


@pytest.mark.parametrize("p", ["0.1", [0.1], True])
def test_p_of_wrong_type(p):
    with pytest.raises(TypeError, match="p must be a finite number > 0"):
        PSparsified(3, p=p).draw(10, rng())


def test_unknown_distribution():
    with pytest.raises(ValueError, match=r"distribution must be one of .*Did you mean 'gaussian'"):
        PSparsified(3, distribution="gaussin").draw(10, rng())


# Sub-sampling: Definition 2.26 -------------------------------------------------------------------


def test_uniform_sampling_has_no_favourites():
    random, sketch, n_draws = rng(1), SubSample(4), 2000
    hits = np.zeros(N)
    for _ in range(n_draws):
        draw = sketch.draw(N, random)
        assert draw.weights is None
        assert len(draw.indices) == 4
        hits[draw.indices] += 1
    law = stats.binom(n_draws, 4 / N)
    assert np.all(np.abs(hits - law.mean()) < 5.0 * law.std())


def test_size_n_keeps_every_row():
    """As many rows as there are is the exact model, whatever the probabilities."""
    gram = gram_of(rng().standard_normal((N, 2)))
    for probabilities in (None, UNEVEN, "leverage"):
        draw = SubSample(N, probabilities).draw(N, rng(), gram)
        assert_array_equal(draw.toarray(), np.eye(N))


def test_given_probabilities_are_followed():
    """With replacement a row is missed with probability (1 - p)^m; probabilities need no sum."""
    random, sketch, n_draws = rng(2), SubSample(4, probabilities=UNEVEN), 3000
    hits = np.zeros(N)
    for _ in range(n_draws):
        hits[sketch.draw(N, random).indices] += 1
    chance = 1.0 - (1.0 - UNEVEN / UNEVEN.sum()) ** 4
    assert np.all(np.abs(hits - n_draws * chance) < 5.0 * np.sqrt(n_draws * chance * (1 - chance)))


def test_repeated_rows_weigh_more():
    """R'R of m draws is sum_j e_j e_j' / (m p_j), written with each row once."""
    p = np.array([0.9, 0.05, 0.05])
    draw = SubSample(2, probabilities=p).draw(3, rng(0))
    assert_array_equal(draw.indices, [0])
    assert_allclose(draw.toarray() ** 2, [[2.0 / (2 * 0.9), 0.0, 0.0]])


def test_zero_probability_rows_are_never_drawn():
    p = np.ones(N)
    p[[2, 5, 11]] = 0.0
    random = rng(3)
    drawn = np.concatenate([SubSample(4, p).draw(N, random).indices for _ in range(200)])
    assert_array_equal(np.unique(drawn), [0, 1, 3, 4, 6, 7, 8, 9, 10])


@pytest.mark.parametrize("size", [3, N])
@pytest.mark.parametrize(
    "p",
    [
        np.ones(N - 1),
        np.ones((N, 1)),
        -np.ones(N),
        np.zeros(N),
        np.full(N, np.nan),
        np.full(N, np.inf),
        3.0,
    ],
    ids=["short", "2-d", "negative", "zero", "nan", "inf", "scalar"],
)
def test_wrong_probabilities(p, size):
    with pytest.raises(ValueError, match=f"probabilities must be {N} non-negative numbers"):
        SubSample(size, probabilities=p).draw(N, rng())


@pytest.mark.parametrize("size", [3, N])
def test_unknown_probabilities(size):
    gram = gram_of(rng().standard_normal((N, 2)))
    with pytest.raises(ValueError, match=r"probabilities must be one of 'leverage'.*'levrage'"):
        SubSample(size, probabilities="levrage").draw(N, rng(), gram)


# Leverage scores: Alaoui and Mahoney (2015) ------------------------------------------------------


def test_leverage_finds_the_small_cluster():
    """25 rows of 500 lie far away: uniform draws them 5 % of the time, leverage far more often."""
    gram = gram_of(clusters([475, 25], seed=0))

    def share(sketch):
        draws = [sketch.draw(500, rng(seed), gram).indices for seed in range(20)]
        return np.mean([np.mean(index >= 475) for index in draws])

    uniform = share(SubSample(100))
    assert 0.03 < uniform < 0.07
    assert share(SubSample(100, probabilities="leverage")) > 3.0 * uniform


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(0.5), Polynomial(2, 0.5)], ids=repr)
def test_leverage_is_exact_when_the_pilot_is_everything(kernel):
    """diag K (K + s I)^-1, s the sum of all but the m/2 largest eigenvalues over m/2."""
    X = rng(0).standard_normal((40, 5))
    K = kernel(X)
    eigenvalues = np.sort(np.linalg.eigvalsh(K))[::-1]
    shift = max(eigenvalues[20:].sum(), np.finfo(float).eps * np.trace(K)) / 20
    scores = _pilot_leverage(gram_of(X, kernel), 40, 40, rng(0))
    expected = oracles.ridge_leverage_scores(K, shift)
    assert_allclose(scores, expected, rtol=1e-5, atol=1e-8)
    assert scores.sum() <= 40


def test_leverage_is_close_when_the_pilot_is_large():
    X = rng(0).standard_normal((200, 2))
    K = Gaussian(0.5)(X)
    shift = np.sort(np.linalg.eigvalsh(K))[::-1][40:].sum() / 40
    scores = _pilot_leverage(gram_of(X), 200, 80, rng(0))
    exact = oracles.ridge_leverage_scores(K, shift)
    assert np.corrcoef(scores, exact)[0, 1] > 0.95
    assert np.median(np.abs(scores - exact)) < 0.1


def test_leverage_of_a_linear_kernel_is_the_hat_matrix():
    """When m/2 directions hold everything, s is 0: the leverage of textbooks."""
    X = rng(0).standard_normal((40, 5))
    hat = X @ np.linalg.inv(X.T @ X) @ X.T
    scores = _pilot_leverage(gram_of(X, Linear()), 40, 20, rng(0))
    assert_allclose(scores, np.diag(hat), rtol=1e-6)


# Gaussian, accumulation, CountSketch -------------------------------------------------------------


def test_gaussian_sketch_entries():
    draw = GaussianSketch(20).draw(500, rng(0))
    assert_array_equal(draw.indices, np.arange(500))
    assert stats.kstest(draw.weights.ravel() * np.sqrt(20), "norm").pvalue > 1e-3


def test_accumulation_entries():
    """Each row is a sum of n_terms signed rows of the identity, times sqrt(n / (t m))."""
    draw = Accumulation(6, n_terms=3).draw(100, rng(1))
    scaled = draw.toarray() * np.sqrt(3 * 6 / 100)
    assert_allclose(scaled, np.round(scaled), atol=1e-12)
    assert np.all(np.abs(scaled).sum(axis=1) <= 3 + 1e-9)
    assert_allclose(np.abs(scaled).sum(axis=1) % 2, 1.0)  # pairs that cancel are two terms


def test_accumulation_of_one_term_is_signed_sub_sampling():
    draw = Accumulation(8, n_terms=1).draw(50, rng(2))
    R = draw.toarray()
    assert_array_equal(np.count_nonzero(R, axis=1), np.ones(8))
    assert_allclose(np.abs(R[R != 0]), np.sqrt(50 / 8))
    assert len(draw.indices) <= 8


def test_accumulation_of_many_terms_is_nearly_gaussian():
    R = Accumulation(10, n_terms=2000).draw(50, rng(3)).toarray()
    assert stats.kstest(R.ravel() * np.sqrt(10), "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("n_terms", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)]
)
def test_wrong_number_of_terms(n_terms, error):
    with pytest.raises(error, match="n_terms must be an integer >= 1"):
        Accumulation(3, n_terms=n_terms).draw(10, rng())


def test_countsketch_has_one_sign_in_each_column():
    draw = CountSketch(7).draw(2000, rng(4))
    R = draw.toarray()
    assert draw.weights.nnz == 2000
    assert_array_equal(np.abs(R).sum(axis=0), np.ones(2000))
    assert_array_equal(np.unique(R), [-1.0, 0.0, 1.0])
    assert abs(R.sum()) < 5.0 * np.sqrt(2000)
    assert stats.chisquare(np.abs(R).sum(axis=1)).pvalue > 1e-4


# Randomly pivoted Cholesky -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "kernel",
    [Linear(), Gaussian(0.5), Laplacian(1.0), Polynomial(3, gamma=1.0), Matern(1.0, nu=0.5)],
    ids=repr,
)
def test_pivots_never_repeat_duplicates(kernel, dtype):
    """12 distinct rows, each six times: at most 12 landmarks, all distinct, whatever the size."""
    for seed in range(25):
        X = np.repeat(rng(seed).standard_normal((12, 3)), 6, axis=0).astype(dtype)
        index = PivotedCholesky(40).draw(72, rng(seed), gram_of(X, kernel)).indices
        assert len(index) == len(set(index // 6)), "a row was taken twice"
        assert 1 <= len(index) <= 12


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pivots_stop_at_the_rank(dtype):
    X = rng(0).standard_normal((100, 3)).astype(dtype)
    for seed in range(10):
        draw = PivotedCholesky(30).draw(100, rng(seed), gram_of(X, Linear()))
        assert len(draw.indices) == 3


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-2, 1e-4, 1e-6])
def test_pivots_stop_at_the_tolerance(tol):
    """The unexplained part of the trace is at most tol, by dense algebra."""
    X = rng(0).standard_normal((150, 2))
    K = Gaussian(0.5)(X)
    sizes = []
    for seed in range(5):
        index = PivotedCholesky(140, tol=tol).draw(150, rng(seed), gram_of(X)).indices
        assert oracles.nystrom_trace_error(K, index) <= tol * np.trace(K) * (1 + 1e-6)
        sizes.append(len(index))
    assert max(sizes) < 140, "it must stop early"


def test_tolerance_chooses_the_size():
    X = rng(0).standard_normal((150, 2))

    def mean_size(tol):
        draws = [PivotedCholesky(140, tol=tol).draw(150, rng(s), gram_of(X)) for s in range(5)]
        return np.mean([draw.shape[0] for draw in draws])

    assert mean_size(0.1) < mean_size(1e-3) < mean_size(1e-6)


@pytest.mark.parametrize("size", [1, 7, 16, 40])
def test_pivots_respect_the_size(size):
    X = rng(0).standard_normal((100, 5))
    draw = PivotedCholesky(size).draw(100, rng(1), gram_of(X, Laplacian(1.0)))
    assert draw.shape == (size, 100)
    assert draw.weights is None
    assert draw.scale == 1.0


def test_pivots_of_all_rows():
    X = rng(0).standard_normal((30, 5))
    draw = PivotedCholesky(30).draw(30, rng(1), gram_of(X, Laplacian(1.0)))
    assert_array_equal(draw.indices, np.arange(30))


def test_pivots_beat_uniform_sampling_on_clusters():
    X = clusters([300, 20, 10, 10, 5, 5], seed=0)
    K, gram = Gaussian(0.5)(X), gram_of(X)

    def error(sketch):
        draws = [sketch.draw(350, rng(seed), gram).indices for seed in range(10)]
        return np.mean([oracles.nystrom_trace_error(K, index) for index in draws])

    assert error(PivotedCholesky(20)) < 0.1 * error(SubSample(20))


def test_first_pivot_follows_the_diagonal():
    """The first landmark is drawn in proportion to k(x, x)."""
    X = np.diag(np.sqrt(np.arange(5.0)))
    gram, random = gram_of(X, Linear()), rng(0)
    hits = np.zeros(5)
    for _ in range(1000):
        hits[PivotedCholesky(1).draw(5, random, gram).indices] += 1
    assert hits[0] == 0
    assert stats.chisquare(hits[1:], 1000 * np.arange(1, 5) / 10).pvalue > 1e-4


def test_pivots_among_some_rows():
    """max_rows: the kernel matrix of a sub-sample alone is looked at."""

    class Watched(KernelMatrix):
        def diag(self):
            assert len(self.source) <= 50
            return super().diag()

        def columns(self, index):
            assert len(self.source) <= 50
            return super().columns(index)

        def restrict(self, index):
            return Watched(self.kernel, self.source[index])

    X = rng(0).standard_normal((400, 2))
    draws = [
        PivotedCholesky(20, max_rows=50).draw(400, rng(s), Watched(Laplacian(1.0), X))
        for s in range(40)
    ]
    assert all(draw.shape == (20, 400) for draw in draws)
    drawn = np.unique(np.concatenate([draw.indices for draw in draws]))
    assert drawn.min() < 20  # from all over the data, not from the first 50 rows
    assert drawn.max() >= 380
    # never fewer rows than landmarks
    draw = PivotedCholesky(60, max_rows=10).draw(400, rng(0), gram_of(X, Laplacian(1.0)))
    assert draw.shape == (60, 400)


def test_pivots_of_a_zero_kernel():
    with pytest.raises(ValueError, match="zero: every row has norm 0"):
        KernelBasis("linear", PivotedCholesky(3), random_state=0).fit(np.zeros((5, 2)))


@pytest.mark.parametrize(
    ("sketch", "error", "message"),
    [
        (PivotedCholesky(3, tol=-1.0), ValueError, "tol must be a finite number >= 0. Got -1.0"),
        (PivotedCholesky(3, tol=np.nan), ValueError, "tol must be a finite number >= 0. Got nan"),
        (PivotedCholesky(3, tol="no"), TypeError, "tol must be a finite number >= 0. Got 'no'"),
        (PivotedCholesky(3, max_rows=0), ValueError, "max_rows must be an integer >= 1. Got 0"),
        (PivotedCholesky(3, max_rows=2.5), TypeError, "max_rows must be an integer >= 1. Got 2.5"),
    ],
)
def test_wrong_pivoting_parameters(sketch, error, message):
    with pytest.raises(error, match=message):
        sketch.draw(N, rng(), gram_of(rng().standard_normal((N, 2))))


def test_tolerance_of_the_whole_trace():
    """tol >= 1 asks for nothing; a basis of nothing is a mistake to be named."""
    with pytest.raises(ValueError, match="tol"):
        KernelBasis("gaussian", PivotedCholesky(3, tol=1.0)).fit(rng().standard_normal((N, 2)))


# Mistakes ----------------------------------------------------------------------------------------

ALL_CLASSES = [SubSample, PSparsified, GaussianSketch, Accumulation, CountSketch, PivotedCholesky]


@pytest.mark.parametrize("cls", ALL_CLASSES)
def test_size_above_n_is_clipped_with_a_warning(cls):
    gram = gram_of(rng().standard_normal((6, 3)), Laplacian(1.0))
    with pytest.warns(UserWarning, match="size=50 is larger than the number of rows, 6; using 6"):
        draw = cls(50).draw(6, rng(), gram)
    assert draw.shape == (6, 6)


@pytest.mark.parametrize("cls", ALL_CLASSES)
@pytest.mark.parametrize(
    ("size", "error"),
    [(0, ValueError), (-3, ValueError), (2.0, TypeError), ("3", TypeError), (True, TypeError)],
)
def test_wrong_size(cls, size, error):
    gram = gram_of(rng().standard_normal((6, 3)))
    with pytest.raises(error, match=f"size must be an integer >= 1. Got {size!r}"):
        cls(size).draw(6, rng(), gram)


def test_numpy_integers_are_sizes():
    assert SubSample(np.int32(3)).draw(6, rng()).shape == (3, 6)


@pytest.mark.parametrize("sketch", SEEING.values(), ids=list(SEEING))
def test_missing_gram(sketch):
    with pytest.raises(ValueError, match=r"depends on the data: draw\(n, rng, gram\) needs"):
        sketch.draw(N, rng())


@each_sketch
def test_needs_gram_tells_the_truth(sketch):
    assert sketch.needs_gram == (sketch in SEEING.values())


# Names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SKETCHES)
def test_names(name):
    assert type(as_sketch(name)) is SKETCHES[name]


def test_names_have_one_spelling_and_others_are_understood():
    for registry in (SKETCHES, KERNELS, LOSSES, DECODERS):
        assert all(name.replace("_", "").isalnum() and name.islower() for name in registry)
    old = {"p-sparsified": PSparsified, "pivoted-cholesky": PivotedCholesky}
    old |= {"countsketch": CountSketch, "count-sketch": CountSketch, "sub-sample": SubSample}
    for name, kind in old.items():
        assert type(as_sketch(name)) is kind
        assert name not in SKETCHES
    assert type(as_kernel("weisfeiler-lehman")) is KERNELS["weisfeiler_lehman"]
    with pytest.raises(ValueError, match=r"'p-sparsifed'. Did you mean 'p_sparsified'\?"):
        as_sketch("p-sparsifed")


def test_none_and_sketches_pass():
    assert as_sketch(None) is None
    sketch = SubSample(3)
    assert as_sketch(sketch) is sketch


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown sketch 'subsmple'. Did you mean 'subsample'\?"):
        as_sketch("subsmple")


@pytest.mark.parametrize("spec", [3, SubSample, ["subsample"], np.eye(2)])
def test_wrong_type(spec):
    with pytest.raises(TypeError, match="A sketch must be a skout sketch, a name or None"):
        as_sketch(spec)


@pytest.mark.parametrize("seed", range(10))
def test_pivoted_cholesky_of_repeated_rows(seed):
    X = np.random.default_rng(seed).standard_normal((50, 20))
    rows, y = X.repeat(4, axis=0), X[:, 0].repeat(4)
    model = KernelRidge(Gaussian(3.0), PivotedCholesky(), alpha=1e-9, random_state=seed).fit(
        rows, y
    )
    assert model.basis_.rank_ == 50
    assert_allclose(model.predict(X), X[:, 0], atol=1e-5)


def test_accumulation_with_probabilities_follows_its_definition():
    # (2.33): entries +-1 / sqrt(t m p_i), rows i drawn with probabilities p
    p = np.r_[0.5, 0.3, 0.2, np.zeros(37)]
    draw = Accumulation(40, n_terms=1, probabilities=10 * p).draw(40, np.random.default_rng(0))
    R = draw.toarray()
    assert set(draw.indices) == {0, 1, 2}
    for i in draw.indices:
        assert_allclose(np.abs(R[:, i][R[:, i] != 0]), 1 / np.sqrt(40 * p[i]))
    check_sketch(Accumulation(6, 3, probabilities=np.arange(1.0, 31.0)), n=30, n_draws=1000)


def test_weighted_rows_without_replacement_are_distinct():
    p = np.r_[np.zeros(5), np.linspace(1, 5, 15)]
    draw = SubSample(10, p, replace=False).draw(20, np.random.default_rng(0))
    assert len(draw.indices) == 10
    assert draw.indices.min() >= 5
    assert len(SubSample(18, p, replace=False).draw(20, np.random.default_rng(0)).indices) == 15
    often = np.zeros(20)
    for seed in range(300):
        rows = SubSample(5, p, replace=False).draw(20, np.random.default_rng(seed)).indices
        often[rows] += 1
    assert often[19] > 1.5 * often[5]


@pytest.mark.parametrize("s", [1, 3, 7])
def test_osnap_has_so_many_signs_a_column_in_parts_apart(s):
    R = OSNAP(7, n_signs=s).draw(50, np.random.default_rng(0)).toarray()
    assert_allclose(np.abs(R[R != 0]), 1 / np.sqrt(s))
    edges = np.linspace(0, 7, s + 1).astype(int)
    for low, high in itertools.pairwise(edges):
        assert_array_equal((R[low:high] != 0).sum(axis=0), 1)
    assert OSNAP(3, n_signs=9).draw(5, np.random.default_rng(0)).weights.nnz == 15
