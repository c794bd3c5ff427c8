"""Kernel ridge regression against scikit-learn, in one process; ratios are what counts.

    python -m benchmarks.ridge [--quick]

Three questions: how fast is a sketched fit (against Nystroem + Ridge, and as a fraction of the
matrix-product rate of this very run); what does a cross-validated path of penalties cost; does
memory stay flat when the rows come from a file.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as ExactRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from tqdm import tqdm

from benchmarks.measure import fastest, gemm_rate, measure, print_table, write_record
from skout import KernelRidge
from skout.basis.features import Projection
from skout.basis.moments import TrainingSample
from skout.kernels import Gaussian
from skout.rows import Memory
from skout.sketches import PSparsified, SubSample

GAMMA, ALPHA, SEED = 0.01, 1e-5, 0


def make_data(n: int, d: int, outputs: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian inputs and noisy smooth targets."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    W = rng.standard_normal((d, outputs)).astype(dtype) / dtype(5.0)
    noise = rng.standard_normal((n, outputs), dtype=np.float32).astype(dtype)
    return X, np.tanh(X @ W) + dtype(0.1) * noise


def ours(alpha: Any = ALPHA, m: int = 1000) -> KernelRidge:
    return KernelRidge(Gaussian(GAMMA), SubSample(m), alpha=alpha, random_state=SEED)


def theirs(n: int, m: int = 1000) -> Any:
    nystroem = Nystroem(gamma=GAMMA, n_components=m, random_state=SEED)
    return make_pipeline(nystroem, Ridge(alpha=n * ALPHA, fit_intercept=False))


def mean_squared_error(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean((model.predict(X) - Y) ** 2, dtype=np.float64))


def sketched(n: int, dtype: Any, repeats: int) -> dict[str, Any]:
    """KernelRidge against Nystroem + Ridge: n rows, d = 50, m = 1000 landmarks, 10 outputs."""
    d, m, outputs, n_test = 50, 1000, 10, 5000
    X, Y = make_data(n + n_test, d, outputs, dtype)
    train, test = (X[:n], Y[:n]), (X[n:], Y[n:])
    rate = gemm_rate(dtype)
    for model in (ours(), theirs(n)):
        model.fit(X[:5000], Y[:5000])  # warm up threads and caches
    skout_run = measure(lambda: ours().fit(*train), repeats)
    sklearn_run = measure(lambda: theirs(n).fit(*train), repeats)
    flops = 2.0 * n * m * d + n * m**2
    errors = [mean_squared_error(run.result, *test) for run in (skout_run, sklearn_run)]
    return {
        "what": "sketched fit",
        "n": n,
        "dtype": np.dtype(dtype).name,
        "seconds": skout_run.seconds,
        "sklearn_seconds": sklearn_run.seconds,
        "times_faster": sklearn_run.seconds / skout_run.seconds,
        "first_run_times_faster": sklearn_run.first_seconds / skout_run.first_seconds,
        "gemm_gflops": rate / 1e9,
        "of_gemm_rate": flops / skout_run.seconds / rate,
        "megabytes": skout_run.megabytes,
        "sklearn_megabytes": sklearn_run.megabytes,
        "error_ratio": errors[0] / errors[1],
        **stages(skout_run.result, *train),
    }


def stages(model: KernelRidge, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Say where the time of a fit goes: basis, kernel values, moments."""
    basis = model.basis_
    n_part = min(len(X), 50_000)
    part = TrainingSample(Memory(X[:n_part]), Memory(Y[:n_part]))
    scale = len(X) / n_part
    m = basis.rank_
    tiny = Projection(basis.engine_.features, np.zeros((m, 1)))
    kernel = fastest(lambda: part.rows.map(tiny, (1,), np.float64)) * scale
    moments = fastest(lambda: basis.engine_.moments(part, ALPHA)) * scale
    whole = TrainingSample(Memory(X), Memory(Y))
    start = fastest(lambda: ours()._fit_basis(model.kernel_, whole, None))
    return {"basis_seconds": start, "kernel_seconds": kernel, "pass_seconds": moments}


def path(n: int, dtype: Any) -> dict[str, Any]:
    """Five folds and 20 penalties against one fit."""
    X, Y = make_data(n, 50, 10, dtype)
    alphas = np.logspace(-6, 0, 20)
    one = fastest(lambda: ours().fit(X, Y))
    many = fastest(lambda: ours(alphas).fit(X, Y))
    return {
        "what": "path of 20 penalties, 5 folds",
        "n": n,
        "dtype": np.dtype(dtype).name,
        "seconds": many,
        "one_fit_seconds": one,
        "times_one_fit": many / one,
    }


def from_file(n: int, m: int = 500, d: int = 50) -> dict[str, Any]:
    """Fit rows of a memory-mapped file: seconds a row and memory must not grow with n."""
    with tempfile.TemporaryDirectory() as folder:
        X = np.memmap(Path(folder) / "X", dtype=np.float32, mode="w+", shape=(n, d))
        Y = np.memmap(Path(folder) / "Y", dtype=np.float32, mode="w+", shape=(n, 1))
        rng = np.random.default_rng(SEED)
        for start in range(0, n, 100_000):
            some = slice(start, min(n, start + 100_000))
            X[some] = rng.standard_normal((some.stop - some.start, d), dtype=np.float32)
            Y[some, 0] = np.sin(X[some, 0])
        run = measure(lambda: ours(m=m).fit(X, Y), 2)
    return {
        "what": "fit from a memory map",
        "n": n,
        "dtype": "float32",
        "seconds": run.seconds,
        "microseconds_a_row": 1e6 * run.seconds / n,
        "megabytes": run.megabytes,
    }


def exact(n: int) -> dict[str, Any]:
    """The exact model against scikit-learn's KernelRidge."""
    X, Y = make_data(n, 50, 10, np.float64)
    model = KernelRidge(Gaussian(GAMMA), alpha=ALPHA)
    peer = ExactRidge(kernel="rbf", gamma=GAMMA, alpha=n * ALPHA)
    mine, other = measure(lambda: model.fit(X, Y), 2), measure(lambda: peer.fit(X, Y), 2)
    gap = np.abs(mine.result.predict(X[:500]) - other.result.predict(X[:500])).max()
    return {
        "what": "exact fit",
        "n": n,
        "dtype": "float64",
        "seconds": mine.seconds,
        "sklearn_seconds": other.seconds,
        "times_faster": other.seconds / mine.seconds,
        "megabytes": mine.megabytes,
        "sklearn_megabytes": other.megabytes,
        "largest_difference": float(gap),
    }


def draw() -> dict[str, Any]:
    """Draw a p-sparsified sketch of ten million rows."""
    rng = np.random.default_rng(SEED)
    run = measure(lambda: PSparsified(200).draw(10_000_000, rng))
    return {
        "what": "draw PSparsified(200)",
        "n": 10_000_000,
        "seconds": run.seconds,
        "megabytes": run.megabytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, no record")
    quick = parser.parse_args().quick
    sizes = [20_000] if quick else [100_000, 500_000]
    jobs: list[Any] = [
        (sketched, n, dtype, 3 if n <= 100_000 else 2)
        for n in sizes
        for dtype in (np.float32, np.float64)
    ]
    jobs += [(path, sizes[0], dtype) for dtype in (np.float32, np.float64)]
    jobs += [(from_file, n) for n in ([20_000, 100_000] if quick else [200_000, 2_000_000])]
    jobs += [(exact, 2000 if quick else 5000), (draw,)]
    results = [job[0](*job[1:]) for job in tqdm(jobs, desc="ridge")]
    report(results)
    if not quick:
        settings = {"gamma": GAMMA, "alpha": ALPHA, "seed": SEED, "d": 50, "m": 1000}
        print("record:", write_record("ridge", settings, results))


def report(results: list[dict[str, Any]]) -> None:
    """Print one table a question."""
    head = ["what", "n", "dtype", "seconds"]
    speed = ["sklearn_seconds", "times_faster", "first_run_times_faster", "of_gemm_rate"]
    speed += ["megabytes", "sklearn_megabytes"]
    fits = [row for row in results if row["what"] in ("sketched fit", "exact fit")]
    print_table(fits, [*head, *speed, "error_ratio"])
    print_table(fits, [*head, "gemm_gflops", "basis_seconds", "kernel_seconds", "pass_seconds"])
    rest = [row for row in results if row not in fits]
    print_table(rest, [*head, "times_one_fit", "microseconds_a_row", "megabytes"])


if __name__ == "__main__":
    main()
