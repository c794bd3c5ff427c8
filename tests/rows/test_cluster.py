"""Rows on a cluster: whatever fits in memory must give the same there, however it is cut."""

import functools
import itertools
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from extras import extra
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import ShuffleSplit
from threadpoolctl import threadpool_limits

from skout import (
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    StructuredPredictor,
    iokr,
    load,
    memory_limits,
    save,
    sisokr,
)
from skout._numerics.threads import n_threads, single_thread
from skout.decoding import CandidateDecoder, shards
from skout.decoding import base as outputs_module
from skout.kernels import Gaussian, Laplacian, Linear, Mapped, Matern, Tanimoto
from skout.losses import Huber
from skout.rows import encoded, source
from skout.sketches import (
    CountSketch,
    GaussianSketch,
    PivotedCholesky,
    PSparsified,
    SubSample,
)

dask = extra("dask")
da = extra("dask.array")
h5py = extra("h5py")

N = 600
CUTS = [(600,), (300, 300), (150, 150, 150, 150), (7, 300, 0, 1, 292)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4))
    Y = np.tanh(X @ rng.standard_normal((4, 2))) + 3.0
    return X, Y, rng.uniform(0.0, 2.0, N)


@pytest.fixture(scope="module")
def labels():
    """Inputs, label sets, and candidates of which many are copies."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, 4))
    Y = (X @ rng.standard_normal((4, 7)) + 0.3 * rng.standard_normal((N, 7)) > 0.5).astype(int)
    C = np.vstack([Y[:60], Y[:30], rng.integers(0, 2, (40, 7))])
    return X, Y, C


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")  # only here: the other tests go without it

    quiet = {"distributed.scheduler.allowed-failures": 10, "logging.distributed": "critical"}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def cut(A, sizes):
    return da.from_array(A, chunks=(sizes, *A.shape[1:]))


def blocks(A, sizes):
    """The same as delayed blocks, of whatever type slices of A are."""
    ends = np.cumsum((0, *sizes))
    return [dask.delayed(A[a:b]) for a, b in itertools.pairwise(ends)]


def assert_same(given, expected):
    given = given.compute() if hasattr(given, "compute") else given
    assert given.shape == expected.shape
    assert np.abs(given - expected).max() <= 1e-10 * np.abs(expected).max()


# Kernel ridge -------------------------------------------------------------------------------------


def ridge(alpha=1e-4, kernel="gaussian", sketch=None, **more):
    return KernelRidge(kernel, sketch or SubSample(50), alpha=alpha, random_state=0, **more)


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("alpha", [1e-4, [1e-6, 1e-3, 1.0]])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_ridge_does_not_depend_on_chunks(data, sizes, alpha, weighted, fit_intercept):
    X, Y, w = data
    here = ridge(alpha, fit_intercept=fit_intercept).fit(X, Y, w if weighted else None)
    weights = cut(w, sizes) if weighted else None
    model = ridge(alpha, fit_intercept=fit_intercept).fit(cut(X, sizes), cut(Y, sizes), weights)
    assert_same(model.coef_, here.coef_)
    assert_same(model.intercept_ + 1.0, here.intercept_ + 1.0)
    assert model.alpha_ == here.alpha_
    if not np.isscalar(alpha):
        assert_same(model.cv_results_["fold_loss"], here.cv_results_["fold_loss"])
    F = model.predict(cut(X, sizes))
    assert isinstance(F, da.Array)
    assert F.chunks == (sizes, (2,))
    assert_same(F, here.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian("scale"),
        Gaussian("median"),
        Laplacian("scale"),
        Gaussian("scale") + Linear(),
        Gaussian(0.1) * Tanimoto(),
        Tanimoto(),
    ],
    ids=repr,
)
def test_kernels_and_their_widths(data, kernel, weighted):
    X, Y, w = data
    X = np.abs(X)
    w = np.where(np.arange(N) % 5 == 0, 0.0, w) if weighted else None
    here = ridge(kernel=kernel).fit(X, Y, w)
    sizes = (100, 350, 150)
    weights = cut(w, sizes) if weighted else None
    model = ridge(kernel=kernel).fit(cut(X, sizes), cut(Y, sizes), weights)
    assert_same(model.predict(cut(X, sizes)), here.predict(X))


def test_median_of_more_rows_than_it_looks_at(monkeypatch, data):
    monkeypatch.setattr("skout.kernels.vectors._MEDIAN_ROWS", 100)
    X, Y, _ = data
    here = ridge(kernel=Gaussian("median")).fit(X, Y)
    model = ridge(kernel=Gaussian("median")).fit(cut(X, (250, 350)), cut(Y, (250, 350)))
    assert model.kernel_.gamma == here.kernel_.gamma
    assert_same(model.coef_, here.coef_)


@pytest.mark.parametrize(
    "sketch",
    [PSparsified(40), PivotedCholesky(30), PivotedCholesky(30, max_rows=200), CountSketch(30)],
    ids=repr,
)
def test_other_sketches(data, sketch):
    X, Y, _ = data
    here = ridge(sketch=sketch).fit(X, Y)
    model = ridge(sketch=sketch).fit(cut(X, (250, 350)), cut(Y, (250, 350)))
    assert_same(model.predict(cut(X, (250, 350))), here.predict(X))


@pytest.mark.parametrize("alpha", [1e-6, [1e-6, 1e-3]], ids=repr)
def test_large_rank_is_whitened_in_parts(data, monkeypatch, alpha):
    """The plan of what to whiten depends on the number of rows: of all of them, not of a block."""
    monkeypatch.setattr("skout.basis.features._SMALL_RANK", 8)
    monkeypatch.setattr("skout.basis.features._WHITENED", (4, 8))
    X, Y, _ = data
    here = ridge(alpha, Matern(0.1, 1.5), SubSample(100)).fit(X, Y)
    sizes = (90, 210, 300)
    engine = here.basis_.engine_
    assert engine.plan(source(X), 1e-6).size < engine.plan(source(X[:90]), 1e-6).size
    model = ridge(alpha, Matern(0.1, 1.5), SubSample(100)).fit(cut(X, sizes), cut(Y, sizes))
    assert model.alpha_ == here.alpha_
    assert_same(model.predict(cut(X, sizes)), here.predict(X))


def test_many_equal_targets(data):
    """Equal rows of targets are summed first, where a block has many of them."""
    X, _, _ = data
    Y = np.random.default_rng(0).standard_normal((3, 80))[np.arange(N) % 3]
    here = ridge().fit(X, Y)
    sizes = (5, 295, 300)
    assert_same(ridge().fit(cut(X, sizes), cut(Y, sizes)).coef_, here.coef_)


@given(st.lists(st.integers(1, N - 1), max_size=6, unique=True))
@settings(max_examples=10, deadline=None)
def test_any_cut(data, ends):
    X, Y, w = data
    sizes = tuple(np.diff([0, *sorted(ends), N]).tolist())
    here = ridge([1e-4, 1e-2]).fit(X, Y[:, 0], w)
    model = ridge([1e-4, 1e-2]).fit(cut(X, sizes), cut(Y[:, 0], sizes), cut(w, sizes))
    assert_same(model.coef_, here.coef_)
    assert_same(model.predict(cut(X, sizes)), here.predict(X))


def test_partial_fit_of_shuffled_blocks(data):
    X, Y, _ = data
    order = np.random.default_rng(0).permutation(6)
    parts = np.array_split(np.arange(N), 6)
    sizes = (300, 300)
    whole = ridge().fit(cut(X, sizes), cut(Y, sizes))
    # landmarks of the sketch, so that all models have the same
    pieces = KernelRidge(whole.kernel_, PSparsified(50, p=1.0), alpha=1e-4, random_state=0)
    lazy = KernelRidge(whole.kernel_, PSparsified(50, p=1.0), alpha=1e-4, random_state=0)
    lazy.partial_fit(cut(X, sizes), cut(Y, sizes), landmarks=X[:100])
    for i in order:
        some = parts[i]
        pieces.partial_fit(X[some], Y[some], landmarks=X[:100] if i == order[0] else None)
    assert_same(lazy.coef_, pieces.coef_)
    lazy.partial_fit(cut(X, sizes), cut(Y, sizes))
    assert_same(lazy.coef_, pieces.partial_fit(X, Y).coef_)


def test_sparse_blocks_and_float32(data):
    X, Y, _ = data
    S = sparse.csr_matrix(np.where(X > -0.5, X, 0.0))
    sizes = (250, 350)
    here = ridge(kernel=Gaussian("scale")).fit(S, Y)
    lazy = blocks(S, sizes)
    model = ridge(kernel=Gaussian("scale")).fit(lazy, cut(Y, sizes))
    assert_same(model.predict(lazy), here.predict(S))
    single = ridge().fit(cut(X.astype(np.float32), sizes), cut(Y.astype(np.float32), sizes))
    F = single.predict(cut(X.astype(np.float32), sizes))
    assert F.dtype == F.compute().dtype == np.float32
    expected = ridge().fit(X.astype(np.float32), Y.astype(np.float32)).predict(X)
    np.testing.assert_allclose(F.compute(), expected, rtol=1e-3)


def as_float64(objects):
    return np.asarray(objects, dtype=np.float64)


def test_rows_have_the_precision_of_their_encoding(data):
    """Where they are float64, nothing may be taken for the rounding of float32."""
    X = cut(data[0].astype(np.float32), (250, 350))
    mapped = Mapped(as_float64, Gaussian(0.1))
    assert encoded(ridge(), Gaussian(0.1), X, reset=True).precision == np.float32
    assert encoded(ridge(), mapped, X, reset=True).precision == np.float64
    model, here = ridge(kernel=mapped).fit(X, data[1]), ridge(kernel=mapped)
    assert model.predict(X).dtype == np.float64
    assert_same(model.predict(X), here.fit(X.compute(), data[1]).predict(X.compute()))


def test_blocks_may_be_encoded_differently(data):
    """Blocks of 0 and 1 become packed bits, those with counts do not."""
    X = np.random.default_rng(0).integers(0, 2, (N, 300))
    X[250:] *= 2
    here = ridge(kernel=Tanimoto()).fit(X, data[1])
    for sizes in ((250, 350), (100, 500)):
        model = ridge(kernel=Tanimoto()).fit(cut(X, sizes), cut(data[1], sizes))
        assert_same(model.predict(cut(X, sizes)), here.predict(X))


def test_targets_in_memory_are_cut(data):
    X, Y, w = data
    model = ridge().fit(cut(X, (250, 350)), Y, w)
    assert_same(model.coef_, ridge().fit(X, Y, w).coef_)


def test_bags():
    bag = pytest.importorskip("dask.bag")
    words = ["abab", "abc", "bbcab", "cabab", "cab", "bbb"] * 10
    y = np.array([len(word) for word in words], dtype=float)
    here = KernelRidge("ngram", SubSample(20), random_state=0).fit(words, y)
    lazy = bag.from_sequence(words, npartitions=3)
    model = KernelRidge("ngram", SubSample(20), random_state=0).fit(lazy, cut(y, (20, 20, 20)))
    assert_same(model.predict(lazy), here.predict(words))
    shouted = lazy.map(str.upper)  # whose blocks dask may hand on as iterators
    again = KernelRidge("ngram", SubSample(20), random_state=0).fit(shouted, cut(y, (20, 20, 20)))
    assert_same(again.predict(shouted), here.predict(words))


def test_tasks_use_one_thread():
    def fail():
        with single_thread():
            assert n_threads(None) == 1
            assert n_threads(3) == 3  # where it was asked for
            raise KeyError

    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(KeyError):
            fail()
        assert n_threads(None) == 2


# What is refused ----------------------------------------------------------------------------------


def test_chunks_must_align(data):
    X, Y, w = data
    with pytest.raises(ValueError, match=r"X and y must align.*\(300, 300\) in X and \(200, 400\)"):
        ridge().fit(cut(X, (300, 300)), cut(Y, (200, 400)))
    with pytest.raises(ValueError, match=r"give sample_weight.rechunk\(\{0: X.chunks\[0\]\}\)"):
        ridge().fit(cut(X, (300, 300)), cut(Y, (300, 300)), cut(w, (200, 400)))
    many = da.from_array(X, chunks=(10, 4))
    with pytest.raises(ValueError, match=r"\(10, 10, 10, 10, 10, 10, \.\.\. 60 in all\) in X"):
        ridge().fit(many, cut(Y, (200, 400)))
    with pytest.raises(ValueError, match="X and Y must align"):
        sisokr().fit(cut(X, (300, 300)), cut(Y, (200, 400)))
    with pytest.raises(ValueError, match=r"same number of rows.*600 and 599"):
        ridge().fit(cut(X, (300, 300)), cut(Y[:-1], (300, 299)))


def test_rows_must_be_whole(data):
    X, Y, _ = data
    columns = da.from_array(X, chunks=(300, 2))
    with pytest.raises(ValueError, match=r"chunks \(2, 2\) of its columns.*X.rechunk\(\{1: -1\}\)"):
        ridge().fit(columns, cut(Y, (300, 300)))
    with pytest.raises(ValueError, match=r"y.rechunk\(\{1: -1\}\)"):
        ridge().fit(cut(X, (300, 300)), da.from_array(Y, chunks=(300, 1)))
    model = ridge().fit(X, Y)
    with pytest.raises(ValueError, match="rechunk"):
        model.predict(columns)


def test_sizes_need_not_be_known(data):
    X, Y, w = data
    lazy, sizes = cut(X, (300, 300)), (300, 300)
    chosen, here = lazy[:, 0] > 0, X[:, 0] > 0
    expected = ridge(fit_intercept=True).fit(X[here], Y[here], w[here])
    parts = lazy[chosen], cut(Y, sizes)[chosen], cut(w, sizes)[chosen]
    model = ridge(fit_intercept=True).fit(*parts)
    assert_same(model.coef_, expected.coef_)
    positive = model.predict(lazy[chosen])
    assert np.isnan(positive.shape[0])  # nothing was computed
    assert_same(positive, expected.predict(X[here]))
    with pytest.raises(ValueError, match=rf"same number of rows.*{here.sum()} and 600"):
        ridge().fit(lazy[chosen], cut(Y, sizes))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_values_are_found_in_their_block(data, value):
    X, Y, _ = data
    sizes = (200, 200, 200)
    broken, wrong = X.copy(), Y.copy()
    broken[450, 2], wrong[250, 1] = value, np.inf  # holes in y are allowed
    with pytest.raises(ValueError, match=r"contains (NaN|infinity).*rows 400 to 599 of X"):
        ridge(kernel=Gaussian(0.1)).fit(cut(broken, sizes), cut(Y, sizes))
    with pytest.raises(ValueError, match=r"contains (NaN|infinity).*rows 200 to 399 of y"):
        ridge().fit(cut(X, sizes), cut(wrong, sizes))
    with pytest.raises(ValueError, match=r"contains NaN|contains infinity"):
        ridge().fit(X, Y).predict(cut(broken, sizes)).compute()


def test_bad_weights(data):
    X, Y, w = data
    sizes = (300, 300)
    with pytest.raises(ValueError, match=r"non-negative numbers.*rows 300 to 599 of sample_weight"):
        ridge().fit(cut(X, sizes), cut(Y, sizes), cut(np.where(np.arange(N) == 400, -1, w), sizes))
    machine = KernelMachine("gaussian", SubSample(20), random_state=0)
    widths = [ridge(kernel=Gaussian(gamma)) for gamma in ("scale", "median", 0.1)]
    for model in (*widths, machine):
        with pytest.raises(ValueError, match="sample_weight must have a positive sum"):
            model.fit(cut(X, sizes), cut(Y, sizes), cut(0.0 * w, sizes))


def test_what_needs_all_rows_is_refused(data, monkeypatch):
    X, Y, _ = data
    X, Y = cut(X, (300, 300)), cut(Y, (300, 300))
    for model in (KernelRidge(), KernelMachine(), iokr()):
        with pytest.raises(ValueError, match=r"sketch=None keeps every row.*SubSample\(1000\)"):
            model.fit(X, Y)
    with pytest.raises(ValueError, match="use PivotedCholesky"):
        ridge(sketch=SubSample(10, "leverage")).fit(X, Y)
    monkeypatch.setattr("skout.rows.dask._MOST_ROWS", 100)
    with pytest.raises(ValueError, match="600 of the 600 rows of X would be sent to this process"):
        ridge(sketch=GaussianSketch(10)).fit(X, Y)


def test_mixtures_are_refused(data):
    X, Y, w = data
    with pytest.raises(TypeError, match="y lies on a cluster and X does not"):
        ridge().fit(X, cut(Y, (300, 300)))
    with pytest.raises(TypeError, match="sample_weight lies on a cluster and X does not"):
        ridge().fit(X, Y, cut(w, (300, 300)))
    with pytest.raises(TypeError, match="Y lies on a cluster and X does not"):
        sisokr().fit(X, cut(Y, (300, 300)))
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_dict({"a": X[:, 0], "b": X[:, 1]}, npartitions=2)
    with pytest.raises(TypeError, match=r"to_dask_array\(lengths=True\)"):
        ridge().fit(frame, Y)
    with pytest.raises(ValueError, match="different shapes"):
        ridge().fit([dask.delayed(X[:300]), dask.delayed(X[300:, :2])], Y)
    with pytest.raises(ValueError, match="0 sample"):
        ridge().fit([dask.delayed(X[:0])], Y)
    with pytest.raises(ValueError, match="3 features"):
        ridge().fit(X, Y).predict(cut(X[:, :3], (300, 300)))


# Bases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"whiten": "eigh", "rank": 10}], ids=repr)
def test_basis(data, options):
    X = data[0]
    basis = KernelBasis("gaussian", SubSample(30), random_state=0, **options)
    here = KernelBasis("gaussian", SubSample(30), random_state=0, **options).fit(X)
    Z = basis.fit_transform(cut(X, (250, 350)))
    assert isinstance(Z, da.Array)
    assert Z.chunks == ((250, 350), (basis.rank_,))
    assert_same(abs(Z), abs(here.transform(X)))
    assert_same(basis.residual(cut(X, (250, 350))), here.residual(X))
    one_row_each = cut(X[:3], (1, 0, 2))
    assert_same(abs(basis.transform(one_row_each)), abs(here.transform(X[:3])))


# Convex losses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(600,), (7, 300, 0, 293)])
@pytest.mark.parametrize("loss", ["huber", "pinball", "squared"])
def test_machine(data, loss, sizes):
    X, Y, w = data
    w = np.where(np.arange(N) % 4 == 0, 0.0, w)
    options = {"fit_intercept": True, "random_state": 0, "tol": 1e-6}
    here = KernelMachine("gaussian", SubSample(20), loss=loss, alpha=1e-3, **options).fit(X, Y, w)
    model = KernelMachine("gaussian", SubSample(20), loss=loss, alpha=1e-3, **options)
    model.fit(cut(X, sizes), cut(Y, sizes), cut(w, sizes))
    assert_same(model.predict(cut(X, sizes)), here.predict(X))
    assert model.n_iter_ == here.n_iter_


def test_machine_chooses_alpha(data):
    X, Y, _ = data
    options = {"cv": ShuffleSplit(2, random_state=0), "random_state": 0}
    options["task_matrix"] = [[1.0, 0.5], [0.5, 1.0]]
    here = KernelMachine(
        "gaussian", SubSample(20), loss="huber", alpha=[1e-3, 1e-1], **options
    ).fit(X, Y)
    model = KernelMachine("gaussian", SubSample(20), loss="huber", alpha=[1e-3, 1e-1], **options)
    model.fit(cut(X, (250, 350)), cut(Y, (250, 350)))
    assert_same(model.cv_results_["fold_loss"], here.cv_results_["fold_loss"])
    assert_same(model.coef_, here.coef_)


def test_classifier_and_quantiles(data):
    X, Y, _ = data
    sizes = (250, 350)
    y = np.array(["no", "yes", "perhaps"])[(Y[:, 0] > 3.0).astype(int) + (Y[:, 1] > 3.0)]
    here = KernelClassifier("gaussian", SubSample(20), loss="logistic", random_state=0).fit(X, y)
    model = KernelClassifier("gaussian", SubSample(20), loss="logistic", random_state=0)
    model.fit(cut(X, sizes), cut(y, sizes))
    assert (model.predict(cut(X, sizes)).compute() == here.predict(X)).all()
    assert_same(model.predict_proba(cut(X, sizes)), here.predict_proba(X))
    here = JointQuantileRegressor([0.1, 0.9], "gaussian", SubSample(20), random_state=0)
    model = JointQuantileRegressor([0.1, 0.9], "gaussian", SubSample(20), random_state=0)
    model.fit(cut(X, sizes), cut(Y[:, 0], sizes))
    assert_same(model.predict(cut(X, sizes)), here.fit(X, Y[:, 0]).predict(X))


# Structured outputs -------------------------------------------------------------------------------


def predictor(**more):
    sketches = {"input_sketch": SubSample(40), "output_sketch": SubSample(20)}
    return sisokr("gaussian", "tanimoto", random_state=0, **sketches, **more)


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("options", [{}, {"alpha": [1e-4, 1e-1], "fit_intercept": True}], ids=repr)
def test_predictor(labels, sizes, options):
    X, Y, C = labels
    here = predictor(**options).fit(X, Y)
    model = predictor(**options).fit(cut(X, sizes), cut(Y, sizes))
    assert_same(model.predict_coordinates(cut(X, sizes)), here.predict_coordinates(X))
    indices, scores = model.rank(cut(X, sizes), C, k=7)
    assert indices.chunks == scores.chunks == (sizes, (7,))
    expected, values = here.rank(X, C, k=7)
    np.testing.assert_array_equal(indices.compute(), expected)
    assert_same(scores, values)
    chosen = model.predict(cut(X, sizes), C)
    assert chosen.dtype == C.dtype
    np.testing.assert_array_equal(chosen.compute(), here.predict(X, C))


def test_outputs_as_delayed_lists():
    words = ["abab", "abc", "bbcab", "cabab", "cab", "bbb", "abca"] * 10
    X = np.array([[len(word), word.count("a")] for word in words], dtype=float)
    sizes = (33, 0, 37)
    sketches = {"input_sketch": SubSample(30), "output_sketch": SubSample(20), "random_state": 0}
    here = sisokr("gaussian", "ngram", **sketches).fit(X, words)
    model = sisokr("gaussian", "ngram", **sketches).fit(blocks(X, sizes), blocks(words, sizes))
    assert model.predict(cut(X, sizes)).compute().tolist() == list(here.predict(X))
    model.decoder_.find_pool()
    assert list(model.decoder_.pool_) == list(here.decoder_.pool_)
    shards = model.predict(cut(X, sizes), blocks(words[:20], (3, 17)))
    assert shards.compute().tolist() == list(here.predict(X, words[:20]))


def test_default_candidates_are_looked_for_when_wanted(labels, monkeypatch):
    X, Y, C = labels
    sizes = (7, 300, 293)
    model, here = (
        predictor(alpha=1e-3).fit(cut(X, sizes), cut(Y, sizes)),
        predictor(alpha=1e-3).fit(X, Y),
    )
    assert not hasattr(model.decoder_, "pool_")
    pool = model.embed(C)
    monkeypatch.setattr(outputs_module, "_MOST_OUTPUTS", 3)
    few = predictor(alpha=1e-3).fit(cut(X, sizes), cut(Y, sizes))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"more than 3 differ.*give candidates="):
            few.predict(cut(X, sizes))
    np.testing.assert_array_equal(few.predict(X, C), here.predict(X, C))
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(cut(X, sizes)).compute(), here.predict(X))
    assert not hasattr(model.decoder_, "pool_")  # they were found on the workers
    np.testing.assert_array_equal(model.predict(X), here.predict(X))
    np.testing.assert_array_equal(model.decoder_.pool_, here.decoder_.pool_)
    np.testing.assert_array_equal(model.predict(X, pool), here.predict(X, C))  # embedded before
    model.fit(X[:50], Y[:50])
    assert len(model.decoder_.pool_) < len(here.decoder_.pool_)


@pytest.mark.parametrize("sizes", [(130,), (65, 65), (1, 40, 0, 5, 84)])
@pytest.mark.parametrize("k", [1, 7, 100])
def test_sharded_pools(labels, sizes, k):
    """Copies lie in different shards; ties go to the lowest index all the same."""
    X, Y, C = labels
    here = predictor().fit(X, Y)
    expected, values = here.rank(X, C, k=k)
    for queries in (X, cut(X, (7, 593))):
        indices, scores = here.rank(queries, cut(C, sizes), k=k)
        assert isinstance(indices, da.Array) == isinstance(queries, da.Array)
        indices, scores = dask.compute(indices, scores)
        np.testing.assert_array_equal(indices, expected)
        assert_same(scores, values)
    np.testing.assert_array_equal(here.predict(X, cut(C, sizes)), here.predict(X, C))
    chosen = here.predict(cut(X, (7, 593)), cut(C, sizes))
    np.testing.assert_array_equal(chosen.compute(), here.predict(X, C))


def test_more_shards_than_a_task_merges(labels):
    X, Y, C = labels
    here = predictor().fit(X, Y)
    indices, _ = here.rank(X[:50], da.from_array(C, chunks=(7, 7)), k=5)
    np.testing.assert_array_equal(indices, here.rank(X[:50], C, k=5)[0])


def test_copies_that_round_differently_tie():
    """A copy in a later shard must not win by a rounding error."""
    first = shards._ShardBest(*(np.array([[value]]) for value in (0, 1.0, 5)))
    copy = shards._ShardBest(*(np.array([[value]]) for value in (1, 1.0 + 1e-15, 5)))
    other = shards._ShardBest(*(np.array([[value]]) for value in (2, 1.0 + 2e-15, 6)))
    merged = functools.reduce(shards._Merge(3).combine, [first, copy, other])
    assert merged.indices.tolist() == [[2, 0, 1]]
    assert merged.scores[0, 1] == merged.scores[0, 2]


def test_bad_candidates(labels):
    X, Y, C = labels
    lazy = cut(X, (300, 300))
    model = predictor().fit(X, Y)
    for rows, pool in ((lazy, C), (X, cut(C, (65, 65)))):
        with pytest.raises(ValueError, match="k must be an integer >= 1"):
            model.rank(rows, pool, k=0)
    with pytest.raises(ValueError, match="one pool for all rows"):
        model.rank(lazy, [C[:3]] * N, k=1)
    for sizes in ((0,), (0, 0)):
        with pytest.raises(ValueError, match="candidates is empty"):
            model.predict(X, cut(C[:0], sizes))
    built = StructuredPredictor(ridge(), KernelBasis("f1", SubSample(20)), "label_sets")
    built.fit(X, Y)
    with pytest.raises(TypeError, match="needs a decoder with embed, without_pool, and LabelSetD"):
        built.predict(X, cut(C, (65, 65)))


def test_other_decoders_learn_from_the_distinct_outputs(labels):
    X, Y, _ = labels
    basis = KernelBasis("f1", SubSample(20), random_state=0)
    here = StructuredPredictor(ridge(), basis, "label_sets").fit(X, Y)
    model = StructuredPredictor(ridge(), basis, "label_sets")
    model.fit(cut(X, (7, 300, 293)), cut(Y, (7, 300, 293)))
    np.testing.assert_array_equal(model.predict(X), here.predict(X))


def test_light_decoders_travel(labels):
    _, Y, _ = labels
    decoder = CandidateDecoder().fit(KernelBasis("tanimoto").fit(Y), Y)
    decoder.embed(None)
    assert set(vars(decoder)) - set(vars(decoder.without_pool())) == {
        "pool_",
        "embedding_",
        "_counts",
        "_training",
    }


# Beside data on disk, and in files ----------------------------------------------------------------


@pytest.fixture
def on_disk(tmp_path):
    """Write arrays to HDF5 datasets, which cannot travel."""
    with h5py.File(tmp_path / "data.h5", "w") as file:
        yield lambda name, values: file.create_dataset(name, data=values)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_targets_and_landmarks_on_disk(data, on_disk, fit_intercept):
    X, Y, _ = data
    lazy = cut(X, (250, 350))
    here = ridge(fit_intercept=fit_intercept).fit(X, Y)
    targets, rows = on_disk("Y", Y), on_disk("X", X)
    model = ridge(fit_intercept=fit_intercept).fit(lazy, targets, landmarks=rows)
    assert_same(model.predict(lazy), here.predict(X))
    model = ridge(fit_intercept=fit_intercept).fit(rows, targets, landmarks=lazy)
    assert_same(model.predict(X), here.predict(X))
    with pytest.raises(TypeError, match="y lies on a cluster and X does not"):
        ridge().fit(rows, cut(Y, (250, 350)))


def test_blocks_may_be_memory_maps(data, tmp_path):
    X, Y, _ = data
    np.save(tmp_path / "Y0.npy", Y[:250])
    np.save(tmp_path / "Y1.npy", Y[250:])
    lazy = [dask.delayed(np.load)(tmp_path / f"Y{i}.npy", mmap_mode="r") for i in range(2)]
    model = ridge(fit_intercept=True).fit(cut(X, (250, 350)), lazy)
    assert_same(model.coef_, ridge(fit_intercept=True).fit(X, Y).coef_)


def test_candidates_on_disk(labels, on_disk, tmp_path):
    X, Y, C = labels
    here, lazy, stored = predictor().fit(X, Y), cut(X, (250, 350)), on_disk("C", C)
    expected = here.rank(X, C, k=3)
    for pool in (stored, here.embed(stored, tmp_path / "pool.npy")):
        indices, scores = here.rank(lazy, pool, k=3)
        np.testing.assert_array_equal(indices.compute(), expected[0])
        assert_same(scores, expected[1])
        np.testing.assert_array_equal(here.predict(lazy, pool).compute(), here.predict(X, C))


def test_outputs_on_disk_beside_inputs_on_a_cluster(labels, on_disk):
    X, Y, _ = labels
    model = predictor().fit(cut(X, (250, 350)), on_disk("Y", Y))
    np.testing.assert_array_equal(model.predict(X), predictor().fit(X, Y).predict(X))


def test_no_checkpoint_on_a_cluster(data, tmp_path):
    X, Y, _ = data
    model = ridge(checkpoint=tmp_path / "fit.npz")
    with pytest.raises(ValueError, match=r"X lies on a cluster.*give checkpoint=None"):
        model.fit(cut(X, (250, 350)), cut(Y, (250, 350)))


def test_saving_looks_for_default_candidates(labels, tmp_path):
    X, Y, C = labels
    here, sizes = predictor(alpha=1e-3).fit(X, Y), (250, 350)
    model = predictor(alpha=1e-3).fit(cut(X, sizes), cut(Y, sizes))
    save(model, tmp_path / "without.skout", candidates=False)
    assert not hasattr(model.decoder_, "pool_")  # nothing was computed
    save(model, tmp_path / "with.skout")
    np.testing.assert_array_equal(load(tmp_path / "with.skout").predict(X), here.predict(X))
    without = load(tmp_path / "without.skout")
    with pytest.raises(ValueError, match="saved without candidates"):
        without.predict(X)
    np.testing.assert_array_equal(without.predict(X, C), here.predict(X, C))


def test_saving_a_model_of_too_many_outputs(labels, tmp_path, monkeypatch):
    X, Y, _ = labels
    monkeypatch.setattr(outputs_module, "_MOST_OUTPUTS", 3)
    model = predictor().fit(cut(X, (250, 350)), cut(Y, (250, 350)))
    save(model, tmp_path / "model.skout")
    with pytest.raises(ValueError, match="more than 3 differ"):
        load(tmp_path / "model.skout").predict(X)


# On a cluster of two processes --------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(300, 300), (75,) * 8])
def test_two_processes(client, data, labels, sizes):
    X, Y, _ = data
    here = ridge([1e-4, 1e-2]).fit(X, Y)
    pool = predictor().fit(*labels[:2]).rank(labels[0], labels[2], k=3)
    with client.as_current():
        model = ridge([1e-4, 1e-2]).fit(cut(X, sizes), cut(Y, sizes))
        assert_same(model.coef_, here.coef_)
        assert_same(model.predict(cut(X, sizes)), here.predict(X))
        ranker = predictor().fit(cut(labels[0], sizes), cut(labels[1], sizes))
        for candidates in (labels[2], cut(labels[2], (50, 80))):
            found = dask.compute(*ranker.rank(cut(labels[0], sizes), candidates, k=3))
            np.testing.assert_array_equal(found[0], pool[0])
            assert_same(found[1], pool[1])


def test_errors_of_workers_reach_the_user(client, data):
    X, Y, _ = data
    broken = X.copy()
    broken[450] = np.nan
    with client.as_current(), pytest.raises(ValueError, match=r"NaN.*rows 300 to 599 of X"):
        ridge(kernel=Gaussian(0.1)).fit(cut(broken, (300, 300)), cut(Y, (300, 300)))


def test_a_worker_dies_while_it_reads(client, data, tmp_path):
    X, Y, _ = data
    marks = str(tmp_path)

    def read(A, i):
        """Return a block; the third reading of block 2 kills the process, once."""
        if i == 2:
            seen = len(os.listdir(marks))
            Path(marks, str(seen)).touch()
            if seen == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        return A

    parts = [dask.delayed(read)(X[100 * i : 100 * i + 100], i) for i in range(6)]
    here = ridge(kernel=Gaussian(0.1)).fit(X, Y)
    with client.as_current():
        model = ridge(kernel=Gaussian(0.1)).fit(parts, cut(Y, (100,) * 6))
    assert len(os.listdir(marks)) > 3  # sizes, landmarks, the last one, and again
    assert_same(model.coef_, here.coef_)


def test_a_worker_dies_with_coordinates_that_are_kept(client, data):
    X, Y, _ = data
    victims = []

    class Deadly(Huber):
        def gradient(self, F, Y):
            if len(victims) == 2:
                os.kill(victims[1], signal.SIGKILL)
            victims.append(None)
            return super().gradient(F, Y)

    here = KernelMachine(Gaussian(0.1), SubSample(20), loss=Huber(0.1), random_state=0).fit(X, Y)
    with client.as_current():
        client.wait_for_workers(2)
        victims += client.run(os.getpid).values()
        assert len(victims) == 2
        model = KernelMachine(Gaussian(0.1), SubSample(20), loss=Deadly(0.1), random_state=0)
        model.fit(cut(X, (150,) * 4), cut(Y, (150,) * 4))
    assert len(victims) > 3
    assert_same(model.coef_, here.coef_)


# What is not brought here, and shapes -------------------------------------------------------------


def test_a_large_array_is_not_gathered_for_other_regressors():
    X = da.zeros((400_000, 100), chunks=(100_000, 100))  # 305 MiB
    with (
        memory_limits(coordinates_mb=256),
        pytest.raises(ValueError, match=r"400000 rows of X, 305 MiB.*X\.compute\(\)"),
    ):
        StructuredPredictor(DummyRegressor(), "linear").fit(X, np.ones((400_000, 1)))
    weights = da.ones(400_000, chunks=100_000)
    assert np.asarray(source(weights, "sample_weight")).sum() == 400_000


@pytest.mark.parametrize(
    "fit",
    [
        lambda x: KernelRidge("gaussian", SubSample(10)).fit(x, x),
        lambda x: KernelBasis("gaussian", SubSample(10)).fit(x),
        lambda x: KernelRidge("gaussian", SubSample(10)).fit(x[:, None], x).predict(x),
    ],
)
def test_vectors_in_one_axis_are_refused(fit):
    x = da.from_array(np.arange(60.0), chunks=20)
    with pytest.raises(ValueError, match=r"X must be a 2D array.*shape \(60,\).*X\[:, None\]"):
        fit(x)
