"""A sketched fit of rows on disk: memory, seconds a row, and the same result as in memory.

    python -m benchmarks.outofcore [--quick] [--rows 5000000]

Rows are written to a temporary folder as a memory map, and fitted from there: 50 columns of
float32, 1,000 landmarks, 10 outputs. Memory and seconds a row must not grow with the rows. A fit in
float64, of fewer rows, is compared with that of the same rows in memory; and so are HDF5, zarr,
parquet and blocks that are made on the way.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from tqdm import tqdm

from benchmarks.measure import (
    _anonymous_bytes,
    _return_freed_memory,
    fastest,
    gemm_rate,
    measure,
    print_table,
    write_record,
)
from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample
from skout.sources import Blocks, open_parquet

GAMMA, ALPHA, SEED = 0.01, 1e-5, 0
D, OUTPUTS, M = 50, 10, 1000
# Rows that are made and written at a time.
WRITTEN = 100_000


def make_blocks(n: int, dtype: Any) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield blocks of Gaussian inputs and noisy smooth targets, and where they belong."""
    rng = np.random.default_rng(SEED)
    mix = rng.standard_normal((D, OUTPUTS)).astype(np.float32) / 5.0
    for start in range(0, n, WRITTEN):
        b = min(WRITTEN, n - start)
        X = rng.standard_normal((b, D), dtype=np.float32)
        noise = rng.standard_normal((b, OUTPUTS), dtype=np.float32)
        Y = np.tanh(X @ mix) + np.float32(0.1) * noise
        yield slice(start, start + b), X.astype(dtype), Y.astype(dtype)


def write(folder: Path, n: int, dtype: Any) -> tuple[np.memmap, np.memmap]:
    """Return X and Y as memory maps of files."""
    X = np.memmap(folder / "X", dtype=dtype, mode="w+", shape=(n, D))
    Y = np.memmap(folder / "Y", dtype=dtype, mode="w+", shape=(n, OUTPUTS))
    for some, x, y in make_blocks(n, dtype):
        X[some], Y[some] = x, y
    return X, Y


def ours(m: int = M) -> KernelRidge:
    return KernelRidge(Gaussian(GAMMA), SubSample(m), alpha=ALPHA, random_state=SEED)


def from_file(n: int, repeats: int) -> dict[str, Any]:
    """Fit a memory map of float32."""
    with tempfile.TemporaryDirectory() as folder:
        X, Y = write(Path(folder), n, np.float32)
        ours().fit(X[:5000], Y[:5000])  # warm up threads and caches
        _return_freed_memory()
        before = _anonymous_bytes() / 1e6
        run = measure(lambda: ours().fit(X, Y), repeats)
    flops = 2.0 * n * M * D + n * M**2
    return {
        "what": "fit from a memory map",
        "n": n,
        "dtype": "float32",
        "seconds": run.seconds,
        "microseconds_a_row": 1e6 * run.seconds / n,
        "of_gemm_rate": flops / run.seconds / gemm_rate(np.float32),
        "megabytes": run.megabytes,
        "peak_megabytes": before + run.megabytes,
        "file_megabytes": 4 * n * (D + OUTPUTS) / 1e6,
    }


def same_as_in_memory(n: int) -> list[dict[str, Any]]:
    """Fit each kind of source in float64, and compare with the rows in memory."""
    parts = list(make_blocks(n, np.float64))
    X, Y = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    expected = ours().fit(X, Y)
    test = X[:2000]
    predicted = expected.predict(test)
    base = fastest(lambda: ours().fit(X, Y), 2)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, opened in sources(Path(folder), X, Y).items():
            found = ours().fit(*opened())
            gap = np.abs(found.predict(test) - predicted).max() / np.abs(predicted).max()
            seconds = fastest(lambda opened=opened: ours().fit(*opened()), 2)
            results.append(
                {
                    "what": name,
                    "n": n,
                    "dtype": "float64",
                    "seconds": seconds,
                    "times_in_memory": seconds / base,
                    "relative_difference": float(gap),
                }
            )
    return results


def sources(folder: Path, X: np.ndarray, Y: np.ndarray) -> dict[str, Callable[[], tuple[Any, ...]]]:
    """Write the data in each way, and return how to open them."""
    maps = [
        np.lib.format.open_memmap(folder / f"{k}.npy", "w+", A.dtype, A.shape)
        for k, A in enumerate((X, Y))
    ]
    for target, A in zip(maps, (X, Y), strict=True):
        target[:] = A
    file = h5py.File(folder / "data.h5", "w")
    file.create_dataset("X", data=X, chunks=(8192, D))
    file.create_dataset("Y", data=Y, chunks=(8192, OUTPUTS))
    arrays = []
    for name, A in (("X", X), ("Y", Y)):
        options = {"shape": A.shape, "chunks": (8192, A.shape[1]), "dtype": A.dtype}
        arrays.append(zarr.open_array(str(folder / name), mode="w", **options))
        arrays[-1][:] = A
    x_names, y_names = [f"x{j}" for j in range(D)], [f"y{j}" for j in range(OUTPUTS)]
    columns = dict(zip([*x_names, *y_names], [*X.T, *Y.T], strict=True))
    pq.write_table(pa.table(columns), folder / "data.parquet", row_group_size=65536)

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(X), 10_000):
            yield X[start : start + 10_000], Y[start : start + 10_000]

    return {
        "memory map": lambda: tuple(maps),
        "HDF5": lambda: (file["X"], file["Y"]),
        "zarr": lambda: tuple(arrays),
        "parquet": lambda: (open_parquet(folder / "data.parquet", x_names, y_names),),
        "blocks": lambda: (Blocks(blocks, len(X)),),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, no record")
    parser.add_argument("--rows", type=int, help="rows of the larger file, default 5,000,000")
    options = parser.parse_args()
    rows = options.rows or (40_000 if options.quick else 5_000_000)
    jobs = [(rows // 10, 2), (rows, 1)]
    files = [from_file(*job) for job in tqdm(jobs, desc="out of core")]
    growth = files[1]["microseconds_a_row"] / files[0]["microseconds_a_row"]
    files[1]["times_time_a_row"] = growth
    kinds = same_as_in_memory(min(rows, 100_000))
    head = ["what", "n", "dtype", "seconds"]
    measured = ["microseconds_a_row", "times_time_a_row", "of_gemm_rate", "megabytes"]
    print_table(files, [*head, *measured, "peak_megabytes", "file_megabytes"])
    print_table(kinds, [*head, "times_in_memory", "relative_difference"])
    if not options.quick and options.rows is None:
        settings = {"gamma": GAMMA, "alpha": ALPHA, "seed": SEED, "d": D, "m": M}
        print("record:", write_record("outofcore", settings, [*files, *kinds]))


if __name__ == "__main__":
    main()
