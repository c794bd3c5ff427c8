"""A fit that is killed goes on where it was, and ends with the same coefficients."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from extras import OPEN_ARCHIVE, small_files
from scipy import sparse

import skout
from skout import KernelRidge
from skout._numerics import checkpoints
from skout.kernels import Gaussian
from skout.sketches import SubSample
from skout.solvers.ridge import checkpoint
from skout.sources import Blocks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2000, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
W = RNG.random(2000)


class Stopped(Exception):
    pass


class Source:
    """An array-like that dies when rows beyond a limit are read in order."""

    def __init__(self, array, limit=None):
        self.array, self.limit = array, limit
        self.shape, self.dtype = array.shape, array.dtype
        self.read = 0

    def __getitem__(self, index):
        n = len(self.array[index])
        if isinstance(index, slice) and n in (100, 500):  # a block, or one of each of five folds
            self.read += n // 100
            if self.limit is not None and self.read > self.limit:
                raise Stopped
        return self.array[index]


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)


def model(path, **options):
    options = {"alpha": 1e-4, "random_state": 0, "n_jobs": 1} | options
    kernel = options.pop("kernel", Gaussian(0.5))
    return KernelRidge(kernel, SubSample(40), checkpoint=path, **options)


def interrupted(path, limit=12, y=Y, weights=None, **options):
    with skout.memory_limits(block_rows=100), pytest.raises(Stopped):
        model(path, **options).fit(Source(X, limit), y, weights)
    assert path.exists()


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"alpha": [1e-5, 1e-3]}])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_resumed_fit_is_the_same_to_the_bit(tmp_path, options, weights, n_jobs):
    path = tmp_path / "fit.npz"
    interrupted(path, weights=weights, **options)
    source = Source(X)
    with skout.memory_limits(block_rows=100):
        resumed = model(path, **options, n_jobs=n_jobs).fit(source, Y, weights)
        whole = model(None, **options).fit(Source(X), Y, weights)
    assert source.read < 15  # of 20 blocks, 11 or so were done
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.intercept_, whole.intercept_)
    assert list(tmp_path.iterdir()) == []


def test_blocks_resume(tmp_path):
    path = tmp_path / "fit.npz"
    passes = []

    def make(limit=None):
        passes.append(0)
        for start in range(0, 2000, 50):
            # the fourth pass dies: after the head, the sample and the digest, the moments
            if limit is not None and len(passes) > 3 and start > limit:
                raise Stopped
            yield X[start : start + 50], Y[start : start + 50]

    with skout.memory_limits(block_rows=100):
        with pytest.raises(Stopped):
            model(path).fit(Blocks(lambda: make(1000)))
        assert path.exists()
        resumed = model(path).fit(Blocks(make))
        whole = model(None).fit(Blocks(make))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"alpha": 1e-2}, "alpha is 0.0001 there and 0.01 here"),
        ({"kernel": Gaussian(0.6)}, "kernel is"),
        ({"random_state": 1}, "random state is 0 there and 1 here"),
        ({"fit_intercept": True}, "fit intercept is False there"),
    ],
)
def test_other_parameters_are_refused(tmp_path, options, says):
    path = tmp_path / "fit.npz"
    interrupted(path)
    with skout.memory_limits(block_rows=100), pytest.raises(ValueError, match=says) as error:
        model(path, **options).fit(X, Y)
    assert "delete the file" in str(error.value)
    assert path.exists()


def changed(array, row):
    array = array.copy()
    array[row] += 1.0
    return array


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((changed(X, 0), Y), "rows of X"),
        ((changed(X, -1), Y), "rows of X"),
        ((X, changed(Y, -1)), "rows of y"),
        ((X, changed(Y, 700)), "rows of y"),
        ((X, np.clip(Y, None, 6.0)), "rows of y"),
        ((X[:-1], Y[:-1]), "landmarks|shape of X"),
        ((X, Y[:, :1]), "shape of y"),
        ((X, Y, W), "weights"),
    ],
)
def test_other_data_are_refused(tmp_path, data, says):
    path = tmp_path / "fit.npz"
    interrupted(path)
    with skout.memory_limits(block_rows=100), pytest.raises(ValueError, match=says):
        model(path).fit(Source(data[0]), *data[1:])


@pytest.fixture
def stopped(monkeypatch):
    """Return what fits until the first file is written, and dies."""
    keep = checkpoint.RidgeCheckpoint.advance

    def dies(self, done, totals):
        keep(self, done, totals)
        raise Stopped

    def fit(model, *data):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.RidgeCheckpoint, "advance", dies)
            with pytest.raises(Stopped):
                model.fit(*data)

    return fit


def refused(model, says, *data):
    with pytest.raises(ValueError, match=says):
        model.fit(*data)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_every_row_in_memory_counts(tmp_path, kind, stopped):
    path = tmp_path / "fit.npz"
    stopped(model(path), kind(X), Y)
    landmarks = model(None).fit(X, Y).landmarks_
    row = next(i for i in range(1000, 2000) if not (X[i] == landmarks).all(axis=1).any())
    refused(model(path), "rows of X", kind(changed(X, row)), Y)
    outliers = np.flatnonzero(Y[8:-8, 1] > 6.0) + 8
    assert len(outliers)
    refused(model(path), "rows of y", kind(X), np.clip(Y, None, 6.0))
    resumed = model(path).fit(kind(X), Y)
    np.testing.assert_array_equal(resumed.coef_, model(None).fit(kind(X), Y).coef_)


def test_every_string_counts(tmp_path, stopped):
    path, words = tmp_path / "fit.npz", [f"{x:.9f}" for x in X[:, 0]]
    stopped(model(path, kernel="ngram"), words, Y)
    refused(model(path, kernel="ngram"), "rows of X", [*words[:-1], "another"], Y)
    model(path, kernel="ngram").fit(words, Y)


def test_every_block_counts(tmp_path, stopped):
    path = tmp_path / "fit.npz"

    def blocks(y):
        return Blocks([(X[a : a + 200], y[a : a + 200]) for a in range(0, 2000, 200)], n=2000)

    stopped(model(path), blocks(Y))
    refused(model(path), "rows of y", blocks(np.clip(Y, None, 6.0)))
    model(path).fit(blocks(Y))


def stored(path, array):
    rows = np.memmap(path, dtype=float, mode="w+", shape=array.shape)
    rows[:] = array
    rows.flush()
    return np.memmap(path, dtype=float, mode="r", shape=array.shape)


def test_files_that_were_written_anew_are_refused(tmp_path, stopped):
    path, places = tmp_path / "fit.npz", [tmp_path / "X", tmp_path / "y"]
    rows, y = (stored(place, array) for place, array in zip(places, (X, Y), strict=True))
    stopped(model(path), rows, y)
    before = places[1].stat().st_mtime_ns
    os.utime(places[1], ns=(0, before + 1))
    refused(model(path), "files of y is 32000 bytes", rows, y)
    os.utime(places[1], ns=(0, before))
    model(path).fit(rows, y)


def test_a_sample_of_an_array_on_disk_counts(tmp_path, stopped):
    """Of a source without a file, stretches all over it are compared."""
    path = tmp_path / "fit.npz"
    stopped(model(path), Source(X), Source(Y))
    refused(model(path), "rows of y", Source(X), Source(np.clip(Y, None, 6.0)))
    model(path).fit(Source(X), Source(Y))


def test_other_blocks_are_refused(tmp_path):
    path = tmp_path / "fit.npz"
    interrupted(path)
    with (
        skout.memory_limits(block_rows=200),
        pytest.raises(ValueError, match="blocks is 20 of up to 100"),
    ):
        model(path).fit(Source(X), Y)


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "fit.npz"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        model(path).fit(X, Y)
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        model(path).fit(X, Y)
    assert path.exists()


def test_pickles_are_not_read(tmp_path):
    path = tmp_path / "fit.npz"
    np.savez(path, done=np.array([object()]), facts=np.array("{}"))
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        model(path).fit(X, Y)


@pytest.mark.parametrize("options", [{"random_state": None}, {"sketch": None}])
def test_what_cannot_be_resumed(tmp_path, options):
    with pytest.raises(ValueError, match="checkpoint needs a sketch"):
        model(tmp_path / "a.npz").set_params(**options).fit(X, Y)
    with pytest.raises(ValueError, match="read only once"):
        model(tmp_path / "a.npz").fit(Blocks(iter([(X, Y)])), landmarks=X)
    with pytest.raises(ValueError, match="folder that exists"):
        model(tmp_path / "no" / "a.npz").fit(X, Y)


def test_no_file_within_the_first_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_EVERY", 30.0)
    path = tmp_path / "fit.npz"
    with skout.memory_limits(block_rows=100), pytest.raises(Stopped):
        model(path).fit(Source(X, 12), Y)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
import numpy as np
import skout
from skout import KernelRidge
from skout.kernels import Gaussian
from skout._numerics import checkpoints
from skout.solvers.ridge import checkpoint
from skout.sketches import SubSample
from skout.sources import Blocks

checkpoints._EVERY = 0.0
path, out, kill = sys.argv[1:]
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3))
y = np.sin(X[:, 0])
passes = 0

def make():
    global passes
    passes += 1
    for start in range(0, 2000, 100):
        if kill == "yes" and passes == 4 and start == 1500:  # head, sample, digest, moments
            os.kill(os.getpid(), signal.SIGKILL)
        yield X[start : start + 100], y[start : start + 100]

with skout.memory_limits(block_rows=100):
    model = KernelRidge(Gaussian("scale"), SubSample(40), random_state=0, n_jobs=1)
    model.set_params(checkpoint=None if path == "none" else path).fit(Blocks(make))
np.save(out, model.coef_)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_process(tmp_path, monkeypatch):
    path, out, whole = (tmp_path / name for name in ("fit.npz", "out.npy", "whole.npy"))
    command = [sys.executable, "-c", KILLED, path, out, "yes"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert path.exists()
    assert not out.exists()
    assert 5 <= int(np.load(path)["done"]) <= 15
    for arguments in ((path, out, "no"), ("none", whole, "no")):
        monkeypatch.setattr(sys, "argv", ["", *map(str, arguments)])
        exec(KILLED, {})
    np.testing.assert_array_equal(np.load(out), np.load(whole))
    assert not path.exists()


def test_many_equal_outputs(tmp_path):
    """Where equal targets are added up, the sums are what is kept."""
    path = tmp_path / "fit.npz"
    many = np.sign(X) @ np.sign(RNG.standard_normal((3, 80)))
    interrupted(path, y=many)
    with skout.memory_limits(block_rows=100):
        resumed, whole = model(path).fit(Source(X), many), model(None).fit(X, many)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


@pytest.mark.filterwarnings(OPEN_ARCHIVE)
def test_a_fit_goes_on_where_the_disk_is_full(tmp_path):
    path = tmp_path / "fit.npz"
    with skout.memory_limits(block_rows=100):
        with small_files(2000), pytest.warns(RuntimeWarning, match="could not be written") as found:
            full = model(path).fit(X, Y)
        whole = model(None).fit(X, Y)
    (text,) = {str(one.message) for one in found}
    assert text.startswith(f"checkpoint '{path}' could not be written ([Errno 27] File too large: ")
    np.testing.assert_array_equal(full.coef_, whole.coef_)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_checkpoint_stays(tmp_path):
    target, link = tmp_path / "fit.npz", tmp_path / "link"
    link.symlink_to(target)
    interrupted(link)
    assert link.is_symlink()
    assert target.is_file()
    with skout.memory_limits(block_rows=100):
        model(link).fit(Source(X), Y)
    assert link.is_symlink()
    assert not target.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_checkpoint_is_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="checkpoint must be a file"):
        model(tmp_path / "pipe").fit(X, Y)
