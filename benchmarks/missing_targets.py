"""What missing targets cost: a fit of a table with them beside one of the same table without.

    python -m benchmarks.missing_targets [--n 40000 --m 300 1000 2000 --d 2 10 30 --shares 0.05 0.5]

CPU times of both are taken in turns, on one thread, and their ratio counts. Each entry is missing
at random, so that every output has a mask of its own, the hardest case; "blocks" gives each output
a stretch of the rows. "difference" is that of predictions from a fit of the last output alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from benchmarks.measure import print_table, write_record
from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample


def tables(Y: np.ndarray, shares: list[float], rng: np.random.Generator) -> dict[str, np.ndarray]:
    n, d = Y.shape
    kinds = {f"{share:.0%} of the entries": rng.random(Y.shape) < share for share in shares}
    owner = np.arange(n) * d // n
    kinds["blocks"] = owner[:, None] != np.arange(d)
    return {name: np.where(hidden, np.nan, Y) for name, hidden in kinds.items()}


def seconds(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    start = time.process_time()
    model.fit(X, Y)
    return time.process_time() - start


def largest_difference(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Return how far the last output is from a fit of its own."""
    rows = ~np.isnan(Y[:, -1])
    found = model.predict(X[:1000])[:, -1]
    own = clone(model).fit(X[rows], Y[rows, -1], landmarks=X)
    return float(np.abs(own.predict(X[:1000]) - found).max())


def measured(given: Any, m: int, d: int) -> list[dict[str, Any]]:
    """Return a row for each pattern of missing targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.n, 10))
    Y = np.sin(X @ rng.standard_normal((10, d))) + 0.1 * rng.standard_normal((given.n, d))
    model = KernelRidge(Gaussian(0.05), SubSample(m), alpha=1e-5, random_state=0)
    rows = []
    for name, holed in tables(Y, given.shares, rng).items():
        repeats = max(1, given.repeats * given.m[0] // m)
        pairs = [(seconds(model, X, Y), seconds(model, X, holed)) for _ in range(repeats)]
        full, own = np.median(pairs, axis=0)
        rows.append(
            {
                "m": m, "d": d, "holes": name, "full_cpu_seconds": full, "cpu_seconds": own,
                "ratio": float(np.median([b / a for a, b in pairs])),
                "solver": model.solver_report_["solver"],
                "steps": model.solver_report_.get("iterations", 0),
                "difference": largest_difference(model, X, holed),
            }
        )  # fmt: skip
        print_table(rows[-1:], list(rows[-1]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=7, help="of the first m; others have fewer")
    for name, default in (("m", [300, 1000, 2000]), ("d", [2, 10, 30])):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.5, 0.9])
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for m in given.m:
            for d in given.d:
                rows += measured(given, m, d)
                write_record("missing_targets", vars(given) | {"alpha": 1e-5, "gamma": 0.05}, rows)


if __name__ == "__main__":
    main()
