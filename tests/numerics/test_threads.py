"""Threads and processes: the same answers as one thread, and no deadlock; too large is refused."""

import multiprocessing
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from skout import (
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    iokr,
    memory_limits,
    sisokr,
)
from skout._numerics import threads
from skout.kernels import Gaussian, NGram
from skout.sketches import PSparsified, SubSample

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 4))
y = np.sin(X[:, 0]) + X[:, 1]
SETS = (X > 0.3).astype(int)
WORDS = np.array(["".join(RNG.choice(list("abcd"), 6)) for _ in range(50)])
# seconds after which a process counts as hanging
LIMIT = 30.0


def models():
    """Eight models of different kinds, each with a function from the fitted one to numbers."""
    return {
        "ridge": (KernelRidge(), y, lambda m: m.predict(X)),
        "sketched ridge": (
            KernelRidge(sketch=SubSample(50), random_state=0, n_jobs=2),
            y,
            lambda m: m.predict(X),
        ),
        "alphas": (
            KernelRidge(sketch=PSparsified(40), alpha=[1e-3, 1e-2], random_state=0),
            y,
            lambda m: m.predict(X),
        ),
        "machine": (
            KernelMachine(sketch=SubSample(40), random_state=0),
            y,
            lambda m: m.predict(X),
        ),
        "quantiles": (
            JointQuantileRegressor([0.2, 0.8], sketch=SubSample(30), random_state=0),
            y,
            lambda m: m.predict(X),
        ),
        "classifier": (
            KernelClassifier(sketch=SubSample(30), loss="logistic", random_state=0),
            SETS[:, 0],
            lambda m: m.predict_proba(X),
        ),
        "label sets": (
            sisokr("gaussian", "tanimoto", random_state=0),
            SETS,
            lambda m: m.rank(X, k=3)[1],
        ),
        "words": (
            iokr("gaussian", NGram(2), input_sketch=SubSample(40), random_state=0),
            WORDS[np.arange(len(X)) % len(WORDS)],
            lambda m: m.rank(X, k=3)[1],
        ),
    }


def fitted(name):
    model, Y, answer = models()[name]
    with memory_limits(block_rows=64):  # many blocks, so that threads meet
        return answer(model.fit(X, Y))


def test_fits_in_many_threads_are_those_of_one():
    names = list(models())
    serial = [fitted(name) for name in names]
    before = [lib["num_threads"] for lib in threadpool_info()]
    with ThreadPoolExecutor(len(names)) as pool:
        threaded = list(pool.map(fitted, names))
    for name, found, expected in zip(names, threaded, serial, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=name)
    assert [lib["num_threads"] for lib in threadpool_info()] == before, "BLAS was not let go"


def test_settings_of_one_thread_are_not_those_of_another():
    seen, inside, looked = [], threading.Event(), threading.Event()

    def look():
        from skout.basis.features import block_rows

        inside.wait(LIMIT)
        seen.append(block_rows(1000, 8))
        looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    with memory_limits(block_rows=10):
        inside.set()
        assert looked.wait(LIMIT)
    thread.join(LIMIT)
    assert seen == [1000]


@pytest.mark.parametrize("name", ["sketched ridge", "machine", "label sets", "words"])
def test_many_threads_predict_with_one_model(name):
    """Bit for bit; `benchmarks/threads.py` does it for a minute."""
    model, Y, answer = models()[name]
    model.fit(X, Y)
    expected = answer(model)
    end = time.monotonic() + 0.5
    start = threading.Barrier(8)

    def work(_):
        start.wait(LIMIT)
        rounds = 0
        while rounds < 2 or time.monotonic() < end:
            assert_array_equal(answer(model), expected)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(work, range(8))) >= 2


# Processes ---------------------------------------------------------------------------------------


def predict_in_child(model, rows, results):
    """Predict and fit in another process."""
    results.put((model.predict(rows), KernelRidge(n_jobs=2).fit(rows, rows[:, 0]).predict(rows)))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_after_threads(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform has no {method}")
    model = KernelRidge(sketch=SubSample(50), random_state=0, n_jobs=2).fit(X, y)
    with memory_limits(block_rows=64), ThreadPoolExecutor(4) as pool:  # threads of ours and of BLAS
        list(pool.map(lambda _: model.predict(X), range(8)))
    expected = model.predict(X), KernelRidge(n_jobs=2).fit(X, X[:, 0]).predict(X)
    context = multiprocessing.get_context(method)
    results = context.Queue()
    children = [
        context.Process(target=predict_in_child, args=(model, X, results), daemon=True)
        for _ in range(2 if method == "fork" else 1)  # a new process imports everything again
    ]
    for child in children:
        child.start()
    try:
        found = [results.get(timeout=LIMIT) for _ in children]
    finally:
        for child in children:
            child.join(LIMIT)
            child.kill()
    assert [child.exitcode for child in children] == [0] * len(children)
    for pair in found:
        for ours, theirs in zip(pair, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_fit_does_not_hang():
    """A child that is forked while BLAS is held must not wait for who holds it."""
    from skout._numerics.threads import held_blas

    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform has no fork")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    model = KernelRidge(sketch=SubSample(20), random_state=0).fit(X, y)
    with held_blas():
        child = context.Process(target=predict_in_child, args=(model, X, results), daemon=True)
        child.start()
    found = results.get(timeout=LIMIT)
    child.join(LIMIT)
    child.kill()
    np.testing.assert_allclose(found[0], model.predict(X), rtol=1e-10)


# Memory ------------------------------------------------------------------------------------------


def test_a_million_rows_without_a_sketch_are_refused_before_the_matrix_is_made():
    rows = np.arange(1_000_000.0)[:, None]
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"1000000 x 1000000.*7,451 GiB.*Use a sketch"):
            KernelRidge(Gaussian(1.0)).fit(rows, rows[:, 0])
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "fit",
    [
        lambda: KernelRidge().fit(X, y),
        lambda: KernelRidge(alpha=[1.0, 2.0]).fit(X, y),
        lambda: KernelMachine().fit(X, y),
        lambda: KernelClassifier().fit(X, SETS[:, 0]),
        lambda: KernelBasis().fit(X),
        lambda: iokr().fit(X, X),
        lambda: Gaussian(1.0)(X),
    ],
)
def test_exact_models_are_refused_where_memory_is_short(fit):
    limit = 8 * 400 * 400
    with (
        mock.patch("skout._numerics.threads.total_memory", return_value=limit - 1),
        pytest.raises(MemoryError, match=r"kernel matrix.*400 x 400.*sketch"),
    ):
        fit()
    with mock.patch("skout._numerics.threads.total_memory", return_value=limit):
        fit()
    with mock.patch("skout._numerics.threads.total_memory", return_value=0):  # not known
        fit()


def test_sketched_models_are_not_refused():
    with mock.patch("skout._numerics.threads.total_memory", return_value=8 * 400 * 100):
        model = KernelRidge(sketch=SubSample(50), random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("own", "files", "limits"),
    [
        ("0::/\n", {"memory.max": "4096\n"}, [4096]),
        ("0::/\n", {"memory.max": "max\n"}, []),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "512"}, [512]),
        ("0::/not/here\n", {"memory.max": "4096"}, [4096]),  # the path is that of the host
        ("4:cpu,memory:/x\n1:cpu:/\n", {"memory/x/memory.limit_in_bytes": "100"}, [100]),
        ("1:cpu:/\n", {"cpu/memory.limit_in_bytes": "100"}, []),
        ("", {}, []),
    ],
)
def test_the_limit_of_a_container_is_read(own, files, limits, tmp_path):
    groups = tmp_path / "groups"
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert threads._container_limits(groups, tmp_path / "own") == limits
    assert threads._container_limits(groups, tmp_path / "nothing") == []


def test_memory_is_that_of_the_container():
    machine = threads.total_memory()
    with mock.patch("skout._numerics.threads._container_limits", return_value=[12345, 2**62]):
        assert threads.total_memory() == 12345
    with mock.patch("skout._numerics.threads._container_limits", return_value=[2**62]):
        assert machine <= threads.total_memory() < 2**62
