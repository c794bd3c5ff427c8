"""Data on disk: the same results as in memory, read by the block, and little memory."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import skout
from skout import KernelBasis, KernelMachine, KernelRidge, iokr, sisokr
from skout._numerics.threads import map_blocks, prefetch
from skout.kernels import Gaussian, Linear, Mapped, Tanimoto
from skout.rows import Source, source
from skout.rows.disk import Disk, is_array_like, pick
from skout.rows.source import limits
from skout.sketches import PivotedCholesky, PSparsified, SubSample
from skout.sources import open_csr, save_csr

h5py = extra("h5py")
zarr = extra("zarr")

RNG = np.random.default_rng(0)
N, D = 900, 4
X = RNG.standard_normal((N, D))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])
W = RNG.random(N)
LABELS = (X @ RNG.standard_normal((D, 6)) + 0.2 * RNG.standard_normal((N, 6)) > 0).astype(float)
# more than a tenth of the rows are told from the others
SKETCHES = [SubSample(40), SubSample(150), PSparsified(40), PivotedCholesky(40)]


def memmap(folder, array, name="array"):
    found = np.memmap(folder / name, dtype=array.dtype, mode="w+", shape=array.shape)
    found[:] = array
    return found


def hdf5(folder, array, name="array", chunks=(64,)):
    file = h5py.File(folder / f"{name}.h5", "w")
    return file.create_dataset("a", data=array, chunks=(*chunks, *array.shape[1:]))


def hdf5_contiguous(folder, array, name="array"):
    return h5py.File(folder / f"{name}.h5", "w").create_dataset("a", data=array)


def zarr_array(folder, array, name="array"):
    options = {"shape": array.shape, "chunks": (100, *array.shape[1:]), "dtype": array.dtype}
    found = zarr.open_array(str(folder / name), mode="w", **options)
    found[:] = array
    return found


KINDS = [memmap, hdf5, hdf5_contiguous, zarr_array]


@pytest.fixture(autouse=True)
def _small_blocks():
    with skout.memory_limits(block_rows=100):
        yield


# Reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_on_disk(tmp_path, kind):
    found = kind(tmp_path, X)
    assert is_array_like(found)
    assert isinstance(source(found), Disk)
    assert source(source(found)).array is found
    for here in (X, sparse.csr_matrix(X), X.tolist(), np.float64(3.0)):
        assert not is_array_like(here)
    lazy = Disk(X).then(np.abs)
    assert source(lazy) is lazy
    assert source(X).resident is X


@pytest.fixture(scope="module", params=KINDS)
def stored(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("stored"), X)


@given(index=st.lists(st.integers(0, N - 1), max_size=30), stop=st.integers(0, N))
def test_pick_is_indexing(stored, index, stop):
    index = np.array(index, dtype=int)
    np.testing.assert_array_equal(pick(stored, index), X[index])
    np.testing.assert_array_equal(pick(stored, slice(stop // 2, stop)), X[stop // 2 : stop])
    mask = np.zeros(N, dtype=bool)
    mask[index] = True
    np.testing.assert_array_equal(pick(stored, mask), X[mask])
    np.testing.assert_array_equal(pick(stored, slice(None, None, 7)), X[::7])


def test_encoded_rows_know_what_they_will_be(tmp_path):
    integers = memmap(tmp_path, RNG.integers(0, 9, (50, 3)).astype(np.int16))
    rows = Disk(integers).then(lambda block: block.astype(np.float32))
    assert rows.shape == (50, 3)
    assert len(rows) == 50
    assert rows.dtype == rows.precision == np.float32
    assert rows.ndim == 2
    assert rows.resident is None
    some = np.array([3, 3, 40])
    part = rows.subset(some)
    np.testing.assert_array_equal(part[1:], integers[some[1:]])
    np.testing.assert_array_equal(rows.take(some[::-1]), integers[some[::-1]])
    first, inverse = part.unique()
    np.testing.assert_array_equal(first, [0, 2])
    np.testing.assert_array_equal(inverse, [0, 0, 1])
    doubled = rows.then(lambda block: 2 * block)
    np.testing.assert_array_equal(doubled[5:7], 2.0 * integers[5:7])
    assert rows.load().dtype == np.float32
    np.testing.assert_array_equal(rows.load(), integers)


# Equal to what is in memory ----------------------------------------------------------------------


def same(model, X_disk, Y_disk, weights=None, data=(X, Y)):
    """Compare a fit of data on disk with one of the same data in memory."""
    found = skout_clone(model).fit(X_disk, Y_disk, weights)
    expected = skout_clone(model).fit(*data, weights)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        found.predict(X_disk), expected.predict(data[0]), rtol=1e-10, atol=1e-11
    )
    return found


def skout_clone(model):
    return type(model)(**model.get_params(deep=False))


# every way to store rows with one sketch, and every sketch with one of them
WAYS = [(kind, SKETCHES[0]) for kind in KINDS] + [(hdf5, s) for s in (None, *SKETCHES[1:])]


@pytest.mark.parametrize(
    ("kind", "sketch"), WAYS, ids=lambda part: getattr(part, "__name__", repr(part))
)
@pytest.mark.parametrize("alpha", [1e-4, [1e-5, 1e-3, 1e-1]], ids=["alpha", "path"])
def test_ridge(tmp_path, kind, sketch, alpha):
    x, y = kind(tmp_path, X, "x"), kind(tmp_path, Y, "y")
    model = KernelRidge(Gaussian("scale"), sketch, alpha=alpha, fit_intercept=True, random_state=0)
    found = same(model, x, y)
    assert isinstance(found.landmarks_, np.ndarray)
    assert found.n_features_in_ == D


@pytest.mark.parametrize("kind", KINDS)
def test_weights_single_outputs_and_shuffled_folds(tmp_path, kind):
    from sklearn.model_selection import KFold

    x, y = kind(tmp_path, X, "x"), kind(tmp_path, Y[:, 0], "y")
    cv = KFold(3, shuffle=True, random_state=0)
    model = KernelRidge("gaussian", SubSample(30), alpha=[1e-4, 1e-2], cv=cv, random_state=0)
    assert same(model, x, y, W, (X, Y[:, 0])).predict(x).shape == (N,)


@pytest.mark.parametrize("gamma", ["scale", "median"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
def test_numbers_of_any_kind(tmp_path, gamma, dtype):
    values = (8 * np.abs(X)).astype(dtype)
    x, y = memmap(tmp_path, values, "x"), memmap(tmp_path, np.round(8 * Y).astype(np.int16), "y")
    model = KernelRidge(Gaussian(gamma), SubSample(30), random_state=0)
    found, expected = (
        model.fit(x, y).predict(x),
        skout_clone(model).fit(values, y[:]).predict(values),
    )
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_many_outputs(tmp_path):
    targets = np.repeat(LABELS, 20, axis=1)  # in memory, equal targets are added up
    y = memmap(tmp_path, targets)
    model = KernelRidge("gaussian", SubSample(30), random_state=0)
    same(model, memmap(tmp_path, X, "x"), y, None, (X, targets))


@pytest.mark.parametrize("alpha", [1e-3, [1e-3, 1e-1]], ids=["alpha", "path"])
@pytest.mark.parametrize("stored", [2048.0, 0.01], ids=["held", "streamed"])
def test_machine(tmp_path, alpha, stored):
    x, y = hdf5(tmp_path, X, "x"), hdf5(tmp_path, Y, "y")
    weights = W * (W > 0.3)  # rows of no weight are no landmarks
    model = KernelMachine(
        Gaussian("scale"), SubSample(30), loss="huber", alpha=alpha, cv=2, random_state=0
    )
    with skout.memory_limits(block_rows=100, coordinates_mb=stored):
        same(model, x, y, weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [2048.0, 0.01], ids=["held", "lazy"])
def test_structured_outputs(tmp_path, kind, stored):
    x, y = kind(tmp_path, X, "x"), kind(tmp_path, LABELS, "y")
    sketches = {"input_sketch": SubSample(40), "output_sketch": PSparsified(20)}
    expected = sisokr("gaussian", "tanimoto", **sketches, random_state=0).fit(X, LABELS)
    with skout.memory_limits(block_rows=100, coordinates_mb=stored):
        found = sisokr("gaussian", "tanimoto", **sketches, random_state=0).fit(x, y)
    Z = found.predict_coordinates(x)
    np.testing.assert_allclose(Z, expected.predict_coordinates(X), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found.decoder_.pool_, expected.decoder_.pool_)
    np.testing.assert_array_equal(found.predict(x), expected.predict(X))


def test_large_outputs_are_never_held(monkeypatch):
    """KernelRidge is given coordinates that it asks for by the block."""
    given = []
    fit = KernelRidge.fit
    monkeypatch.setattr(
        KernelRidge, "fit", lambda self, A, B=None, **o: given.append(B) or fit(self, A, B, **o)
    )
    model = sisokr("gaussian", "tanimoto", alpha=1e-3, random_state=0)
    held = model.fit(X, LABELS).predict_coordinates(X)
    with skout.memory_limits(block_rows=100, coordinates_mb=0.01):
        lazy = model.fit(X, LABELS).predict_coordinates(X)
    assert isinstance(given[0], np.ndarray)
    assert isinstance(given[1], Source)
    assert given[1].resident is None
    np.testing.assert_allclose(lazy, held, rtol=1e-10, atol=1e-12)


def test_exact_structured_outputs(tmp_path):
    x, y = memmap(tmp_path, X, "x"), zarr_array(tmp_path, LABELS, "y")
    found = iokr("gaussian", "tanimoto").fit(x, y)
    expected = iokr("gaussian", "tanimoto").fit(X, LABELS)
    np.testing.assert_allclose(
        found.predict_coordinates(X), expected.predict_coordinates(X), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian("scale") + Linear(),
        Gaussian("scale") + Tanimoto(),
        Mapped(np.abs, Gaussian("scale")),
        Tanimoto(),
    ],
    ids=str,
)
def test_kernels_that_encode_in_their_own_way(tmp_path, kernel):
    bits = (RNG.random((300, 300)) < 0.1).astype(np.uint8)
    targets = bits[:, :2].astype(float)
    x = memmap(tmp_path, bits)
    model = KernelRidge(kernel, SubSample(20), random_state=0)
    expected = skout_clone(model).fit(bits, targets).predict(bits)
    np.testing.assert_allclose(model.fit(x, targets).predict(x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
@pytest.mark.parametrize("gamma", ["scale", "median"])
def test_sparse_matrix_on_disk(tmp_path, sketch, gamma):
    S = sparse.random(N, 50, density=0.1, random_state=0, format="csr")
    save_csr(tmp_path / "csr", S)
    found = open_csr(tmp_path / "csr")
    model = KernelRidge(Gaussian(gamma), sketch, random_state=0)
    model = same(model, found, Y, W, (S, Y))
    assert sparse.issparse(model.landmarks_)


def test_basis_and_partial_fit(tmp_path):
    x, y = hdf5(tmp_path, X, "x"), hdf5(tmp_path, Y, "y")
    basis = KernelBasis("gaussian", SubSample(30), random_state=0)
    np.testing.assert_allclose(
        basis.fit_transform(x), skout_clone(basis).fit_transform(X), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(basis.residual(x), basis.residual(X), atol=1e-12)
    model = KernelRidge("gaussian", SubSample(30), random_state=0)
    parts = model.partial_fit(x, y).partial_fit(x, y).coef_
    expected = skout_clone(model).partial_fit(X, Y).partial_fit(X, Y).coef_
    np.testing.assert_allclose(parts, expected, rtol=1e-10)


# Mistakes ----------------------------------------------------------------------------------------


def ridge(**options):
    return KernelRidge(Gaussian(0.5), SubSample(30), random_state=0, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_not_finite_are_named(tmp_path, kind):
    broken = X.copy()
    broken[[725, 730], 1] = [np.nan, np.inf]
    with pytest.raises(ValueError, match=r"In rows 675 to 749 of X, where row 725 and 1 more"):
        ridge().fit(kind(tmp_path, broken, "x"), Y)
    targets = Y.copy()
    targets[317] = np.inf
    with pytest.raises(ValueError, match=r"In rows \d+ to 3\d\d of y, where row 317 is not fin"):
        ridge().fit(X, kind(tmp_path, targets, "y"))


def test_shapes_are_checked_at_once(tmp_path):
    x = memmap(tmp_path, X)
    with pytest.raises(ValueError, match=r"X must be a 2D array, n rows by d columns\. Got"):
        ridge().fit(memmap(tmp_path, X[:, 0], "flat"), Y)
    with pytest.raises(ValueError, match=r"same number of rows.*900 and 899"):
        ridge().fit(x, memmap(tmp_path, Y[1:], "y"))
    with pytest.raises(ValueError, match="X has 3 features, but KernelRidge is expecting 4"):
        ridge().fit(x, Y).predict(memmap(tmp_path, X[:, 1:], "less"))
    with pytest.raises(ValueError, match="at least two rows"):
        ridge().fit(memmap(tmp_path, X[:1], "one"), Y[:1])
    with pytest.raises(ValueError, match="0 sample"):
        ridge().fit(hdf5_contiguous(tmp_path, X[:0], "none"), Y[:0])
    with pytest.raises(ValueError, match="Y must be given"):
        iokr().fit(X)


# Reading ahead -----------------------------------------------------------------------------------


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("skout-reader")]


def test_the_next_block_is_read_while_one_is_in_use():
    asked = threading.Event()

    def items():
        yield 1
        asked.set()
        yield 2

    ahead = prefetch(items())
    assert next(ahead) == 1
    assert asked.wait(5.0)  # though nobody asked for the second one
    assert list(ahead) == [2]
    assert readers() == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_few_blocks_are_held(n_jobs):
    read, used, most = [], [], [0]

    def load(i):
        read.append(i)
        most[0] = max(most[0], len(read) - len(used))
        return i

    found = map_blocks(
        lambda i: used.append(i) or i * i, range(50), read=load, ahead=True, n_jobs=n_jobs
    )
    assert list(found) == [i * i for i in range(50)]
    assert sorted(read) == list(range(50))
    assert most[0] <= n_jobs + 4


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_of_the_reader_reach_the_caller(n_jobs):
    def load(i):
        if i == 3:
            raise OSError("the disk is gone")
        return i

    with pytest.raises(OSError, match="the disk is gone"):
        list(map_blocks(str, range(9), read=load, ahead=True, n_jobs=n_jobs))
    assert readers() == []


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_reader_ends_when_nobody_listens(n_jobs):
    read = []
    options = {"read": lambda i: read.append(i) or i, "ahead": True, "n_jobs": n_jobs}
    found = map_blocks(str, range(1000), **options)
    assert next(found) == "0"
    found.close()
    assert readers() == []
    assert len(read) < 20


class Watched:
    """An array-like that knows which threads read it."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.threads = []

    def __getitem__(self, index):
        self.threads.append(threading.current_thread().name)
        return self.array[index]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fit_reads_ahead(n_jobs):
    x, y = Watched(X), Watched(Y)
    ridge(n_jobs=n_jobs).fit(x, y).predict(x)
    assert sum(name.startswith("skout-reader") for name in x.threads) >= 18  # 9 blocks, twice
    assert sum(name.startswith("skout-reader") for name in y.threads) >= 9


def test_settings_hold_in_the_reader():
    with skout.memory_limits(coordinates_mb=7.0):
        found = map_blocks(
            int, range(2), read=lambda _: limits().coordinates_bytes, ahead=True, n_jobs=1
        )
        assert list(found) == [7 * 2**20] * 2


# Candidates on disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_embedding_in_a_file(tmp_path, kind):
    model = iokr("gaussian", "tanimoto").fit(X[:300], LABELS[:300])
    pool = model.embed(LABELS)
    path = tmp_path / "pool.npy"
    filed = model.embed(kind(tmp_path, LABELS, "candidates"), path)
    assert isinstance(filed.embedding, np.memmap)
    np.testing.assert_array_equal(np.load(path), pool.embedding)
    for found, expected in zip(model.rank(X, filed), model.rank(X, pool), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model.predict(X, filed), model.predict(X, pool))
    ranks = model.truth_ranks(X[:100], kind(tmp_path, LABELS[:100], "truth"), filed)
    np.testing.assert_array_equal(ranks, model.truth_ranks(X[:100], LABELS[:100], pool))


def test_an_earlier_pool_keeps_its_file(tmp_path):
    model = iokr("gaussian", "tanimoto").fit(X[:300], LABELS[:300])
    path = tmp_path / "pool.npy"
    first = model.embed(LABELS[:200], path)
    before = first.embedding.copy()
    model.embed(LABELS[:3], path)
    np.testing.assert_array_equal(first.embedding, before)
    assert list(tmp_path.iterdir()) == [path]


def test_embedded_sets_in_a_file(tmp_path):
    model = iokr("gaussian", "tanimoto").fit(X[:300], LABELS[:300])
    sets = [LABELS[i : i + 5] for i in range(10)]
    filed = model.embed(sets, tmp_path / "pool.npy")
    np.testing.assert_array_equal(model.predict(X[:10], filed), model.predict(X[:10], sets))


# Memory ------------------------------------------------------------------------------------------

MEMORY = """
import sys, threading, time
import numpy as np
from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample

def anonymous():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024

folder, n = sys.argv[1], 400_000
X = np.memmap(folder + "/x", dtype=np.float32, mode="w+", shape=(n, 20))
y = np.memmap(folder + "/y", dtype=np.int16, mode="w+", shape=(n, 10))
rng = np.random.default_rng(0)
for start in range(0, n, 50_000):
    X[start : start + 50_000] = rng.standard_normal((50_000, 20), dtype=np.float32)
    y[start : start + 50_000] = 100 * X[start : start + 50_000, :10]
model = KernelRidge(
    Gaussian("scale"), SubSample(50), alpha=1e-4, fit_intercept=True, random_state=0
)
model.fit(X[:20_000], y[:20_000])  # threads and buffers are there
first = peak = anonymous()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
model.fit(X, y)
done.set()
watcher.join()
print(peak - first)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """The rows are 32 MB, and so would the targets, which are integers, be in float64."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 24.0
