"""A learnt metric on a million rows: seconds and memory of a fit on arrays on disk.

    python -m benchmarks.metric [--rows 100000 1000000] [--landmarks 500] [--rounds 2]

Rows of 50 features in float32 are written to a file; the targets depend on five directions of
them. Memory is the peak that no file backs, above what was there before the fit: it must not grow
with the rows, but for the few bytes a row of what is held out. Seconds are those of a wall clock,
and of the processor.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import peak_megabytes, print_table, write_record
from skout import KernelRidge
from skout.kernels import LearnedMetric
from skout.sketches import SubSample

D, DIRECTIONS, BLOCK, N_TEST = 50, 5, 50_000, 5000
ALPHAS = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3]


def targets(X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return a function of a few directions."""
    P = X @ U
    return np.sin(2.0 * P[:, 0]) + P[:, 1] * P[:, 2] + np.abs(P[:, 3]) + 0.5 * P[:, 4]


def write(folder: Path, n: int, U: np.ndarray) -> tuple[Any, Any]:
    """Write n rows and their targets, and return them as memory maps."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, D))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (n,))
    rng = np.random.default_rng(1)
    for start in range(0, n, BLOCK):
        block = rng.standard_normal((min(BLOCK, n - start), D)).astype(np.float32)
        X[start : start + BLOCK] = block
        y[start : start + BLOCK] = targets(block, U) + 0.1 * rng.standard_normal(len(block))
    X.flush()
    y.flush()
    del X, y
    return tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in "Xy")


def run(n: int, kernel: Any, landmarks: int, U: np.ndarray) -> dict[str, Any]:
    """Return what a fit takes, and how good it is."""
    model = KernelRidge(kernel, SubSample(landmarks), alpha=ALPHAS, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        X, y = write(Path(folder), n, U)
        wall, processor = time.perf_counter(), time.process_time()
        megabytes = peak_megabytes(lambda: model.fit(X, y), every=0.02)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    test = np.random.default_rng(2).standard_normal((N_TEST, D)).astype(np.float32)
    row = {"rows": n, "kernel": type(kernel).__name__ if kernel != "matern" else "Matern"}
    row |= {"seconds": round(wall, 1), "processor": round(processor, 1)}
    return row | {
        "megabytes": round(megabytes),
        "R2": round(float(model.score(test, targets(test, U))), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((D, DIRECTIONS)))[0]
    U = U.astype(np.float32)
    learnt = LearnedMetric(rounds=arguments.rounds, landmarks=arguments.landmarks)
    rows = []
    for n in arguments.rows:
        for kernel in ("matern", learnt):
            rows.append(run(n, kernel, arguments.landmarks, U))
            print_table(rows[-1:], list(rows[-1]))
    settings = {"features": D, "directions": DIRECTIONS, "alphas": ALPHAS}
    settings |= {"landmarks": arguments.landmarks, "rounds": arguments.rounds}
    write_record("metric", settings, rows)


if __name__ == "__main__":
    main()
