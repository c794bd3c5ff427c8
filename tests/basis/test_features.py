"""Features, blocks, threads and sums: passes over rows give what one dense formula gives."""

import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import oracles_predictor as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

import skout.basis.features as module
from skout import KernelRidge, memory_limits
from skout._numerics.threads import map_blocks
from skout.basis.features import (
    KernelMatrix,
    LandmarkFeatures,
    Projection,
    Whitening,
    WhiteningPlan,
)
from skout.basis.moments import BlockMoments, KnownRows, Moments, TrainingSample, sum_moments
from skout.kernels import Gaussian, Linear
from skout.rows import Memory
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.solvers.ridge.checkpoint import Bar

NAMES = ["weight", "zz", "zt", "tt", "z_sum", "t_sum"]


def raw_moments(Z, T, w=None):
    """The definition, by sums over the rows."""
    w = np.ones(len(Z)) if w is None else w
    return Moments(
        sum(w),
        sum((wi * np.outer(z, z) for wi, z in zip(w, Z, strict=True)), np.zeros((Z.shape[1],) * 2)),
        sum(
            (wi * np.outer(z, t) for wi, z, t in zip(w, Z, T, strict=True)),
            np.zeros((Z.shape[1], T.shape[1])),
        ),
        sum((wi * t**2 for wi, t in zip(w, T, strict=True)), np.zeros(T.shape[1])),
        sum((wi * z for wi, z in zip(w, Z, strict=True)), np.zeros(Z.shape[1])),
        sum((wi * t for wi, t in zip(w, T, strict=True)), np.zeros(T.shape[1])),
    )


def assert_moments(found, expected, rtol=1e-10, atol=1e-10):
    for name in NAMES:
        a, b = getattr(found, name), getattr(expected, name)
        assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=name)


def assert_same_bits(found, expected):
    for name in NAMES:
        assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def sample_data(seed=0, n=50, p=4, d=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)), rng.standard_normal((n, d)), rng.uniform(0, 3, n)


# Moments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_a_block(weighted):
    Z, T, w = sample_data()
    w = w if weighted else None
    assert_moments(Moments.of_block(Z.copy(), T, w), raw_moments(Z, T, w))


@given(cut=st.integers(0, 20), weighted=st.booleans(), seed=st.integers(0, 99))
def test_moments_add_and_subtract(cut, weighted, seed):
    Z, T, w = sample_data(seed, n=20)
    w = w if weighted else np.ones(20)
    left = raw_moments(Z[:cut], T[:cut], w[:cut])
    right = raw_moments(Z[cut:], T[cut:], w[cut:])
    total = raw_moments(Z, T, w)
    assert_moments(left + right, total)
    assert_moments(total - right, left)
    assert_moments(sum_moments([left, right], np.array([True, True])), total)
    assert_moments(sum_moments([left, right], np.array([False, True])), right)
    zero = Moments.zeros(4, 2)
    assert_same_bits(zero + left, left)
    zero += left
    zero += right
    assert_moments(zero, total)


def test_sums_do_not_change_their_terms():
    Z, T, w = sample_data()
    a, b = raw_moments(Z, T), raw_moments(Z, T, w)
    _ = a + b, a - b, sum_moments([a, b], np.array([True, True])), a.map(np.eye(4))
    assert_moments(a, raw_moments(Z, T), rtol=0, atol=0)
    assert_moments(b, raw_moments(Z, T, w), rtol=0, atol=0)


def test_moments_of_mapped_coordinates():
    Z, T, w = sample_data()
    M = np.tril(np.random.default_rng(1).standard_normal((4, 4)))
    assert_moments(raw_moments(Z, T, w).map(M), raw_moments(Z @ M.T, T, w))


# Streaming ---------------------------------------------------------------------------------------


def problem(weights=None, n=60, groups=None, n_groups=1, seed=0, dtype=np.float64):
    """Features against 5 landmarks, mixed by `weights`, and a sample with 2 targets."""
    rng = np.random.default_rng(seed)
    X, T = rng.standard_normal((n, 3)).astype(dtype), rng.standard_normal((n, 2))
    landmarks = rng.standard_normal((5, 3)).astype(dtype)
    features = LandmarkFeatures(Gaussian(0.4), landmarks, weights)
    F = oracle.gaussian(X.astype(float), landmarks.astype(float), 0.4)
    if weights is not None:
        F = F @ (weights.toarray() if sparse.issparse(weights) else weights).T
    return features, F, TrainingSample(Memory(X), Memory(T), rng.uniform(0, 2, n), groups, n_groups)


MIXES = {
    "none": None,
    "dense": np.random.default_rng(3).standard_normal((4, 5)),
    "csr": sparse.csr_array(np.random.default_rng(0).uniform(-1.5, 1, (7, 5)).clip(0)),
}


@pytest.mark.parametrize("mix", MIXES)
def test_features(mix):
    features, F, sample = problem(MIXES[mix])
    assert features.m == F.shape[1]
    assert_allclose(features(sample.rows.load()), F, atol=1e-12)
    out = np.full(F.shape, 7.0)
    assert features(sample.rows.load(), out) is out
    assert_allclose(out, F, atol=1e-12)


def test_features_over_chunks_of_landmarks(monkeypatch):
    monkeypatch.setattr(module, "_LANDMARK_CHUNK", 2)
    monkeypatch.setattr(module, "_CACHE_BYTES", 64)
    for mix in ("dense", "csr"):
        features, F, sample = problem(MIXES[mix], n=200)
        assert_allclose(features(sample.rows.load()), F, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 7, 4096])
def test_projection(rows):
    features, F, sample = problem()
    M = np.random.default_rng(1).standard_normal((5, 3))
    b = np.array([1.0, -2.0, 0.5])
    single = Memory(sample.rows.load().astype(np.float32))
    with memory_limits(block_rows=rows):
        product = sample.rows.map(Projection(features, M), (3,), np.float64)
        shifted = sample.rows.map(Projection(features, M, b), (3,), np.float64)
        alone = sample.rows.map(Projection(features), (5,), np.float64)
        single = single.map(Projection(features, M), (3,), np.float32)
    assert_allclose(product, F @ M, atol=1e-12)
    assert_allclose(shifted, F @ M + b, atol=1e-12)
    assert_allclose(alone, F, atol=1e-12)
    assert single.dtype == np.float32
    assert_allclose(single, F @ M, atol=1e-5)


@pytest.mark.parametrize("n", [100, 1300])  # below and above the least rows of a fast product
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", ["upper", "lower", "full", "wide"])
def test_products_with_a_triangle_leave_out_zeros_only(shape, dtype, n):
    rng = np.random.default_rng(0)
    X, B = rng.standard_normal((n, 3)).astype(dtype), rng.standard_normal((150, 150))
    B = {"upper": np.triu(B), "lower": np.tril(B), "full": B, "wide": B[:, :99]}[shape]
    offset = rng.standard_normal(B.shape[1])
    features = LandmarkFeatures(Gaussian(0.3), X[:150] if n > 150 else rng.random((150, 3)))
    found = Memory(X).map(Projection(features, B, offset), B.shape[1:], dtype)
    expected = Gaussian(0.3)(X, features.landmarks).astype(np.float64) @ B + offset
    assert found.dtype == dtype
    assert_allclose(found, expected, atol=1e-12 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("n_known", [0, 1, 30, 39, 40])
def test_known_features_are_taken_as_they_are(n_known):
    """Whether few rows are known, which are computed all the same, or many or all."""
    rng = np.random.default_rng(0)
    X, values = rng.standard_normal((40, 3)), rng.standard_normal((50, 8))
    features, kept = LandmarkFeatures(Gaussian(0.3), X[:5]), np.array([6, 0, 3, 1, 7])
    place = np.full(40, -1)
    place[rng.permutation(40)[:n_known]] = rng.permutation(50)[:n_known]
    none = np.zeros((0, 0))
    known = KnownRows(place, values, none, none, kept, none)
    out = np.full((40, 9), np.nan)  # of which the features are the first columns
    known.features(features, X, place, out[:, :5])
    expected = np.where(place[:, None] >= 0, values[place][:, kept], Gaussian(0.3)(X, X[:5]))
    assert_allclose(out[:, :5], expected, atol=1e-13)


@pytest.mark.parametrize("mix", MIXES)
def test_kernel_matrix(mix, monkeypatch):
    W = MIXES[mix]
    X = np.random.default_rng(0).standard_normal((5, 3))
    K = oracle.gaussian(X, X, 0.4)
    R = np.eye(5) if W is None else (W.toarray() if sparse.issparse(W) else W)
    matrix = KernelMatrix(Gaussian(0.4), X)
    for rows, kept in ((2, 2**28), (4096, 2**28), (2, 0), (4096, 0)):
        monkeypatch.setattr(module, "_KEPT_BYTES", kept)
        with memory_limits(block_rows=rows):
            found, mixed, _ = matrix.sketched(W)
        assert_allclose(found, found.T, atol=1e-14)
        assert_allclose(found, R @ K @ R.T, atol=1e-12)
        assert (mixed is None) == (kept == 0 and W is not None)
        if mixed is not None:
            assert_allclose(mixed, K @ R.T, atol=1e-12)
    assert_allclose(matrix.columns(np.array([4, 1])), K[:, [4, 1]], atol=1e-12)
    assert_allclose(matrix.restrict(np.array([3, 0])).full(), K[[3, 0]][:, [3, 0]])
    assert_allclose(matrix.diag(), 1.0)


def streamed(features, sample, dtype=np.float64, verbose=False, mean=None, **options):
    """The moments of features, less their mean if that is given, one a group."""
    plan = WhiteningPlan(0, mean is not None, np.dtype(dtype))
    blocks = BlockMoments(features, Whitening(np.eye(features.m), plan, mean), sample)
    beside = (sample.targets, sample.weights, sample.groups, None)
    return sample.rows.reduce(blocks, *beside, progress=Bar(verbose), **options)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mix", MIXES)
def test_streamed_moments_equal_the_definition(mix, weighted):
    features, F, sample = problem(MIXES[mix])
    w = sample.weights if weighted else None
    (found,) = streamed(features, TrainingSample(sample.rows, sample.targets, w))
    assert_moments(found, raw_moments(F, sample.targets.load(), w))


@pytest.mark.parametrize("kind", ["contiguous", "interleaved", "random"])
def test_streamed_moments_by_group(kind):
    n = 60
    groups = {
        "contiguous": np.repeat(np.arange(4), 15),
        "interleaved": np.arange(n) % 4,
        "random": np.random.default_rng(0).choice([0, 1, 3], n),  # group 2 is empty
    }[kind]
    features, F, sample = problem(groups=groups, n_groups=4)
    for rows in (1, 7, 4096):
        with memory_limits(block_rows=rows):
            parts = streamed(features, sample)
        assert len(parts) == 4
        for group, part in enumerate(parts):
            some = groups == group
            assert_moments(part, raw_moments(F[some], sample.targets[some], sample.weights[some]))


@given(rows=st.integers(1, 70), megabytes=st.floats(1e-4, 64.0), n_jobs=st.sampled_from([1, 2, 3]))
def test_blocks_do_not_change_moments(rows, megabytes, n_jobs):
    features, _, sample = problem(groups=np.arange(60) % 3, n_groups=3)
    whole = streamed(features, sample)
    with memory_limits(block_rows=rows, block_mb=megabytes):
        parts = streamed(features, sample, n_jobs=n_jobs)
    for part, expected in zip(parts, whole, strict=True):
        assert_moments(part, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_do_not_change_a_bit_of_the_moments(dtype):
    features, _, sample = problem(n=3000, dtype=dtype)
    with memory_limits(block_rows=100):
        one, *others = [
            streamed(features, sample, n_jobs=n_jobs, dtype=dtype)[0] for n_jobs in (1, 2, 4)
        ]
    for other in others:
        assert_same_bits(other, one)


def test_float32_blocks_are_summed_in_float64():
    features, F, sample = problem(n=3000, dtype=np.float32)
    sample = TrainingSample(sample.rows, sample.targets)
    with memory_limits(block_rows=50):
        (found,) = streamed(features, sample, dtype=np.float32)
    assert found.zz.dtype == found.zt.dtype == np.float64
    assert_moments(found, raw_moments(F, sample.targets.load()), rtol=2e-6, atol=2e-4)


def test_features_may_be_centred_in_place():
    features, F, sample = problem()
    mean = np.arange(5.0)
    with memory_limits(block_rows=8):
        (found,) = streamed(features, sample, mean=mean)
    assert_moments(found, raw_moments(F - mean, sample.targets.load(), sample.weights))


def test_progress_bar(capsys):
    features, _, sample = problem()
    with memory_limits(block_rows=10):
        streamed(features, sample, verbose=True)
    assert "6/6" in capsys.readouterr().err
    streamed(features, sample)
    assert capsys.readouterr().err == ""


# Results of a fit --------------------------------------------------------------------------------


def regression(n=700, d=4, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(X[:, :1]) + X[:, 1:2] * [[1.0, -2.0]] + 0.1 * rng.standard_normal((n, 2))
    return X.astype(dtype), y


SKETCHED = [None, SubSample(30), SubSample(280), PSparsified(30), GaussianSketch(20)]


@pytest.mark.parametrize("sketch", SKETCHED, ids=str)
@pytest.mark.parametrize("alpha", [1e-4, [1e-6, 1e-2]], ids=["one", "path"])
def test_fit_does_not_depend_on_blocks(sketch, alpha):
    X, y = regression(400)
    model = KernelRidge(Gaussian(0.2), sketch, alpha=alpha, random_state=0)
    expected = model.fit(X, y).predict(X)
    # ranks of 256 and more are whitened in part only: DESIGN's 1e-10 is traded for speed there
    tol = 1e-7 if sketch is not None and sketch.size >= 256 else 1e-10
    for rows in (13, 150):
        with memory_limits(block_rows=rows):
            found = model.fit(X, y).predict(X)
        assert_allclose(found, expected, rtol=0, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize("sketch", SKETCHED, ids=str)
def test_fit_does_not_depend_on_threads(sketch):
    X, y = regression()
    with memory_limits(block_rows=150):
        one, *others = [
            KernelRidge(Gaussian(0.2), sketch, alpha=1e-4, random_state=0, n_jobs=n_jobs)
            .fit(X, y)
            .predict(X)
            for n_jobs in (1, 2, 4)
        ]
    for other in others:
        assert_allclose(other, one, rtol=0, atol=1e-10 * np.abs(one).max())
    assert_array_equal(others[0], others[1])


@pytest.mark.parametrize("sketch", SKETCHED, ids=str)
def test_threads_do_not_change_a_bit_of_the_fit(sketch):
    # with blocks for all threads; a single thread leaves BLAS its own threads, see above
    X, y = regression()
    with memory_limits(block_rows=100), threadpool_limits(1, "blas"):
        coefs = [
            KernelRidge(Gaussian(0.2), sketch, random_state=0, n_jobs=n_jobs).fit(X, y).coef_
            for n_jobs in (1, 2, 4)
        ]
    assert_array_equal(coefs[0], coefs[1])
    assert_array_equal(coefs[0], coefs[2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sketch", [None, SubSample(30), PSparsified(30)], ids=str)
def test_memory_layout_does_not_matter(sketch, dtype):
    X, y = regression(300, dtype=dtype)
    model = KernelRidge(Gaussian(0.2), sketch, alpha=1e-3, random_state=0)
    expected = model.fit(X, y).predict(X)
    wide = np.zeros((600, 8), dtype=dtype)
    wide[::2, ::2] = X
    read_only = X.copy()
    read_only.setflags(write=False)
    read_only_y = y.copy()
    read_only_y.setflags(write=False)
    tol = 1e-10 if dtype == np.float64 else 1e-4
    for other, targets in [
        (np.asfortranarray(X), np.asfortranarray(y)),
        (wide[::2, ::2], y),
        (X[::-1][::-1], y[::-1][::-1]),
        (read_only, read_only_y),
        (X.tolist() if dtype == np.float64 else X, y.tolist()),
    ]:
        found = model.fit(other, targets).predict(other)
        assert_allclose(found, expected, rtol=0, atol=tol * np.abs(expected).max())


def test_memmap_input(tmp_path):
    X, y = regression(500)
    expected = KernelRidge(Gaussian(0.2), SubSample(30), alpha=[1e-4, 1e-2], random_state=0).fit(
        X, y
    )
    X.tofile(tmp_path / "X")
    on_disk = np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape)
    model = KernelRidge(Gaussian(0.2), SubSample(30), alpha=[1e-4, 1e-2], random_state=0)
    with memory_limits(block_rows=64):
        model.fit(on_disk, y)
        assert_allclose(model.predict(on_disk), expected.predict(X), rtol=1e-10)
    assert not isinstance(model.landmarks_, np.memmap) or model.landmarks_.base is None


def traced_peak(function):
    """Return the peak of the memory that Python and NumPy allocate during a call, in MB."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_of_a_streaming_fit(dtype):
    # the features alone would take 120,000 x 200 x 4 bytes = 92 MB
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120_000, 20), dtype=np.float32).astype(dtype)
    y = X[:, 0].astype(np.float64)
    model = KernelRidge(Gaussian(0.02), SubSample(200), alpha=1e-6, random_state=0, n_jobs=2)
    assert traced_peak(lambda: model.fit(X, y)) < 60
    assert model.score(X[:1000], y[:1000]) > 0.9


def test_memory_of_a_path_and_of_prediction():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 10), dtype=np.float32)
    y = X[:, 0].astype(np.float64)
    model = KernelRidge(
        Gaussian(0.02), SubSample(300), alpha=[1e-6, 1e-3], random_state=0, n_jobs=2
    )
    assert traced_peak(lambda: model.fit(X, y)) < 60  # the features: 114 MB in float32
    assert traced_peak(lambda: model.predict(X)) < 60


def test_memory_of_a_dense_sketch():
    # K of 4,000 rows takes 122 MB, the sketch itself 0.6 MB
    X, y = regression(4000)
    model = KernelRidge(Linear(), GaussianSketch(20), random_state=0, n_jobs=2)
    with memory_limits(block_rows=512):
        assert traced_peak(lambda: model.fit(X, y)) < 20


# map_blocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 4, -1])
def test_results_come_in_order(n_jobs):
    delays = [0.01, 0.0, 0.005, 0.0, 0.002, 0.0]

    def slow(item):
        time.sleep(delays[item])
        return item * item

    assert list(map_blocks(slow, range(6), n_jobs=n_jobs)) == [0, 1, 4, 9, 16, 25]


def test_no_blocks():
    assert list(map_blocks(str, [], n_jobs=2)) == []


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_exceptions_propagate_and_stop_the_rest(n_jobs):
    done = []

    def fragile(item):
        if item == 2:
            raise KeyError("block two")
        time.sleep(0.001)
        done.append(item)

    with pytest.raises(KeyError, match="block two"):
        list(map_blocks(fragile, range(1000), n_jobs=n_jobs))
    assert len(done) < 20


def test_only_a_few_results_wait():
    """A slow consumer does not make all blocks pile up in memory."""
    started = []
    results = map_blocks(lambda item: started.append(item) or item, range(100), n_jobs=2)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(started) <= 5
    results.close()


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_blas_is_held_to_one_thread_within_and_released_after():
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        within = list(map_blocks(lambda _: blas_threads(), range(4), n_jobs=2))
        assert all(set(threads) == {1} for threads in within)
        assert blas_threads() == before

        def broken(_):
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            list(map_blocks(broken, range(4), n_jobs=2))
        assert blas_threads() == before
        unfinished = map_blocks(str, range(9), n_jobs=2)
        next(unfinished)
        unfinished.close()
        assert blas_threads() == before


def test_blas_is_released_after_overlapping_calls():
    """Two fits that overlap, as under joblib's threading backend, leave BLAS as they found it."""
    before = blas_threads()
    first_runs, second_runs, first_ended = (threading.Event() for _ in range(3))

    def first():
        def wait(_):
            first_runs.set()
            second_runs.wait(5)

        list(map_blocks(wait, range(2), n_jobs=2))
        first_ended.set()

    def second():
        def wait(_):
            second_runs.set()
            first_ended.wait(5)

        first_runs.wait(5)
        list(map_blocks(wait, range(2), n_jobs=2))

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(first), pool.submit(second)]:
            future.result()
    after = blas_threads()
    threadpool_limits(max(before), "blas")  # whatever happened, for the tests to come
    assert after == before


def test_fits_in_several_threads_agree():
    X, y = regression(500)

    def fit(seed):
        return KernelRidge(Gaussian(0.2), SubSample(30), random_state=seed).fit(X, y).coef_

    expected = [fit(seed) for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        for found, coef in zip(pool.map(fit, range(6)), expected, strict=True):
            assert_allclose(found, coef, rtol=1e-8, atol=1e-8 * np.abs(coef).max())


# memory_limits ------------------------------------------------------------------------------------


def largest_block(n=1000, m=8):
    """Stream n rows of m features and return the rows of the largest block."""
    sizes = []

    class Spy(LandmarkFeatures):
        def __call__(self, rows, out=None):
            sizes.append(len(rows))
            return super().__call__(rows, out)

    X = np.zeros((n, 1))
    Memory(X).map(Projection(Spy(Linear(), X[:m])), (m,), np.float64)
    assert sum(sizes) == n
    return max(sizes)


def test_memory_limits_is_local_and_nests():
    assert largest_block() == 1000
    with memory_limits(block_rows=100):
        assert 50 < largest_block() <= 100
        with memory_limits(block_rows=3):
            assert largest_block() <= 3
        assert 50 < largest_block() <= 100
    with pytest.raises(RuntimeError), memory_limits(block_rows=5):
        raise RuntimeError
    assert largest_block() == 1000


def test_memory_limits_in_bytes():
    with memory_limits(block_mb=8 * 8 * 100 / 2**20):
        assert 50 < largest_block() <= 100
    with memory_limits(block_mb=1e-5):
        assert largest_block() == 1


@pytest.mark.parametrize(
    ("budget", "error", "message"),
    [
        ({"block_rows": 0}, ValueError, "block_rows must be an integer >= 1. Got 0"),
        ({"block_rows": 2.5}, TypeError, "block_rows must be an integer >= 1. Got 2.5"),
        ({"block_mb": 0}, ValueError, "block_mb must be a finite number > 0. Got 0"),
        ({"coordinates_mb": -1}, ValueError, "coordinates_mb must be a finite number >= 0. Got -1"),
        ({"device_mb": 0}, ValueError, "device_mb must be a finite number > 0. Got 0"),
    ],
)
def test_bad_budget(budget, error, message):
    with pytest.raises(error, match=message), memory_limits(**budget):
        pass


def test_shifted_moments():
    rng = np.random.default_rng(0)
    Z, T, v = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.standard_normal(4)
    for w in (None, rng.uniform(0.1, 2.0, 30)):
        found = Moments.of_block(Z.copy(), T, w).shifted(v)
        assert_moments(found, raw_moments(Z + v, T, w))


# Kernels of users, and their buffers --------------------------------------------------------------


class Own(Linear):
    """A kernel of a user, whose block function treats `out` in one of four ways."""

    def __init__(self, habit: str = "fills") -> None:
        self.habit = habit

    def against(self, B):
        def block(A, out=None):
            K = A @ B.T
            if self.habit == "fills" and out is not None:
                out[...] = K
                return out
            if self.habit == "lies" and out is not None:
                return out
            return None if self.habit == "forgets" else K

        return block


OWN_X = np.random.default_rng(0).standard_normal((120, 4))


@pytest.mark.parametrize("sketch", [None, SubSample(20), PSparsified(20), GaussianSketch(20)])
def test_a_kernel_may_ignore_the_buffer(sketch):
    y = OWN_X @ np.arange(4.0)
    found = [
        KernelRidge(kernel, sketch, alpha=1e-6, random_state=0).fit(OWN_X, y).predict(OWN_X)
        for kernel in (Own("ignores"), Linear())
    ]
    assert_allclose(found[0], found[1], rtol=1e-6)
    assert_allclose(found[0], y, atol=1e-2)


def test_a_large_kernel_matrix_of_a_kernel_that_ignores_the_buffer():
    X = np.random.default_rng(0).standard_normal((1100, 3))
    with mock.patch("skout.kernels.base.spare_threads", return_value=2):
        assert_allclose(Own("ignores")(X), X @ X.T)


@pytest.mark.parametrize("sketch", [None, SubSample(20), PSparsified(20), GaussianSketch(20)])
@pytest.mark.parametrize(
    ("habit", "match"),
    [("lies", "Own returned `out` and left entries"), ("forgets", r"Own\.against .*NoneType")],
)
def test_a_kernel_that_says_it_filled_the_buffer_is_checked_at_fit(sketch, habit, match):
    with pytest.raises(ValueError, match=match):
        KernelRidge(Own(habit), sketch, random_state=0).fit(OWN_X, OWN_X[:, 0])
