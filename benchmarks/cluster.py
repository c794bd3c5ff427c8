"""SISOKR on a dask cluster of two processes: fit and rank, also with workers killed in the middle.

    python -m benchmarks.cluster [--rows 50000]

Data are made inside the chunks. The scheduler is a process of its own, so that its memory can be
watched. Everything runs twice: in peace, and with one worker killed in the middle of the fit and
one in the middle of the ranking; the results must agree. Up to 100,000 rows they are compared with
a fit in memory too. Without --rows a record is written.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import Client

from benchmarks.measure import print_table, write_record
from skout import sisokr
from skout.kernels import Gaussian, Tanimoto
from skout.sketches import SubSample

ROWS, CHUNK, N_WORKERS = 1_000_000, 10_000, 2
D, LABELS, M_X, M_Y, POOL, K = 20, 30, 500, 100, 5_000, 10
GAMMA, ALPHA, SEED = 0.02, 1e-6, 0
IN_MEMORY = 100_000


def inputs(start: int, stop: int) -> np.ndarray:
    return np.random.default_rng((SEED, start)).standard_normal((stop - start, D))


def label_sets(X: np.ndarray) -> np.ndarray:
    """Return label sets that depend on the inputs smoothly, about four labels each."""
    B = np.random.default_rng(SEED).standard_normal((D, LABELS)) / np.sqrt(D)
    return (np.tanh(X @ B) + 0.3 * np.sin(3.0 * X[:, :1]) > 0.75).astype(np.int8)


def make_arrays(n: int) -> tuple[Any, Any]:
    """Return lazy inputs and outputs; each task makes its rows from their numbers."""
    starts = da.arange(0, n, chunks=CHUNK)

    def block(numbers: np.ndarray) -> np.ndarray:
        return inputs(int(numbers[0]), int(numbers[-1]) + 1)

    chunks = (starts.chunks[0], (D,))
    X = starts.map_blocks(block, new_axis=1, chunks=chunks, dtype=float, meta=np.empty((0, 0)))
    chunks = (starts.chunks[0], (LABELS,))
    return X, X.map_blocks(label_sets, chunks=chunks, dtype=np.int8, meta=np.empty((0, 0), np.int8))


def candidates() -> np.ndarray:
    """Return distinct label sets in no order, of other inputs than those of `make_arrays`."""
    pool = np.unique(label_sets(inputs(2**40, 2**40 + 20 * POOL)), axis=0)
    return np.random.default_rng(SEED).permutation(pool)[:POOL]


def make_model() -> Any:
    sketches = {"input_sketch": SubSample(M_X), "output_sketch": SubSample(M_Y)}
    return sisokr(Gaussian(GAMMA), Tanimoto(), alpha=ALPHA, random_state=SEED, **sketches)


@contextmanager
def cluster() -> Iterator[tuple[Client, psutil.Process]]:
    """Start a scheduler and workers as processes; yield a client, and the scheduler's process."""
    with tempfile.TemporaryDirectory() as folder:
        where = ["--scheduler-file", str(Path(folder) / "scheduler.json")]
        run = [sys.executable, "-m"]
        scheduler = subprocess.Popen(
            [*run, "distributed.cli.dask_scheduler", *where, "--port", "0", "--no-dashboard"],
            stderr=subprocess.DEVNULL,
        )
        workers = subprocess.Popen(
            [*run, "distributed.cli.dask_worker", *where, "--nworkers", str(N_WORKERS)]
            + ["--nthreads", "1", "--no-dashboard", "--local-directory", folder],
            stderr=subprocess.DEVNULL,
        )
        try:
            while not Path(where[1]).exists():
                time.sleep(0.1)
            with Client(scheduler_file=where[1]) as client:
                client.wait_for_workers(N_WORKERS, timeout=60)
                yield client, psutil.Process(scheduler.pid)
        finally:
            for process in (workers, scheduler):
                process.terminate()
                process.wait(timeout=30)


@contextmanager
def watched(process: psutil.Process) -> Iterator[list[float]]:
    """Yield a list whose only entry is the most memory that a process has had, in megabytes."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], process.memory_info().rss / 1e6)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    clock = time.perf_counter()
    result = function()
    return result, time.perf_counter() - clock


def with_a_death(client: Client, seconds: float, function: Callable[[], Any]) -> tuple[Any, float]:
    """Run with a worker killed, by its process id, after so many seconds."""
    client.wait_for_workers(N_WORKERS, timeout=60)
    victim = min(client.run(os.getpid).values())
    timer = threading.Timer(seconds, os.kill, (victim, signal.SIGKILL))
    timer.start()
    try:
        found = timed(function)
        if timer.is_alive():
            raise RuntimeError("The work was done before the worker could be killed.")
        return found
    finally:
        timer.cancel()


def ranked(model: Any, X: Any, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rank everything; of each chunk a digest of the positions and the sum of the scores return.

    A million lists of ten would pass through the scheduler on their way here.
    """
    indices, scores = model.rank(X, pool, k=K)
    weights = np.random.default_rng(SEED).integers(1, 1_000_003, K)

    def digest(block: np.ndarray) -> np.ndarray:
        rows = np.arange(1, len(block) + 1)[:, None]
        return np.atleast_1d(np.sum(block * weights * rows))

    sizes = ((1,) * indices.numblocks[0],)
    numbers = indices.map_blocks(digest, drop_axis=1, chunks=sizes, dtype=np.int64)
    return dask.compute(numbers, scores.sum(axis=0))


def compare(n: int) -> dict[str, Any]:
    """Fit and rank n rows in peace and with deaths."""
    X, Y = make_arrays(n)
    pool = candidates()
    with cluster() as (client, scheduler), watched(scheduler) as peak:
        start = scheduler.memory_info().rss / 1e6
        make_model().fit(X[: 2 * CHUNK], Y[: 2 * CHUNK])  # workers import what they need
        model, fit_seconds = timed(lambda: make_model().fit(X, Y))
        best, rank_seconds = timed(lambda: ranked(model, X, pool))
        again, fit_again = with_a_death(client, fit_seconds / 3, lambda: make_model().fit(X, Y))
        found, rank_again = with_a_death(client, rank_seconds / 3, lambda: ranked(model, X, pool))
    coef = model.regressor_.coef_
    row = {
        "n": n,
        "candidates": len(pool),
        "fit_seconds": fit_seconds,
        "rank_seconds": rank_seconds,
        "fit_seconds_with_death": fit_again,
        "rank_seconds_with_death": rank_again,
        "coef_difference": relative(again.regressor_.coef_, coef),
        "same_ranking": bool(np.array_equal(found[0], best[0])),
        "scheduler_megabytes_at_start": start,
        "scheduler_megabytes": peak[0],
    }
    if n <= IN_MEMORY:
        here = make_model().fit(X.compute(), Y.compute())
        row["in_memory_difference"] = relative(here.regressor_.coef_, coef)
    return row


def relative(A: np.ndarray, B: np.ndarray) -> float:
    return float(np.abs(A - B).max() / np.abs(B).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="fewer rows, no record")
    n = parser.parse_args().rows
    row = compare(n)
    for some in (list(row)[:6], [*list(row)[:1], *list(row)[6:]]):
        print_table([row], some)
    if n == ROWS:
        settings = {"chunk": CHUNK, "workers": N_WORKERS, "d": D, "labels": LABELS, "k": K}
        settings |= {"m_x": M_X, "m_y": M_Y, "gamma": GAMMA, "alpha": ALPHA, "seed": SEED}
        print("record:", write_record("cluster", settings, [row]))


if __name__ == "__main__":
    main()
