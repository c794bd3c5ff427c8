"""What holes in y cost: a fit of a table with holes beside one of the same table without.

    python benchmarks/holes.py [--n 40000 --m 500 --d 10]

Times of both are taken in turns, and their ratio counts; the fits are one pass over the rows each.
Kinds of holes: at random in half of the entries, in a tenth, in nineteen of twenty, and whole
blocks, where each output has its own stretch of the rows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from measure import print_table, write_record
from sklearn.base import clone

from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample


def tables(Y: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    n, d = Y.shape
    kinds = {
        f"{share:.0%} of the entries": rng.random(Y.shape) < share for share in (0.1, 0.5, 0.95)
    }
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("n", 40_000), ("m", 500), ("d", 10), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.n, 10))
    Y = np.sin(X @ rng.standard_normal((10, given.d))) + 0.1 * rng.standard_normal(
        (given.n, given.d)
    )
    model = KernelRidge(Gaussian(0.05), SubSample(given.m), alpha=1e-5, random_state=0)
    rows = []
    for name, holed in tables(Y, rng).items():
        pairs = [(seconds(model, X, Y), seconds(model, X, holed)) for _ in range(given.repeats)]
        full, own = np.median(pairs, axis=0)
        rows.append(
            {
                "holes": name,
                "full_cpu_seconds": full,
                "cpu_seconds": own,
                "ratio": float(np.median([b / a for a, b in pairs])),
                "solver": model.solver_report_["solver"],
                "steps": model.solver_report_.get("iterations", 0),
                "difference": largest_difference(model, X, holed),
            }
        )
        print_table(rows[-1:], list(rows[-1]))
    write_record("holes", vars(given) | {"alpha": 1e-5, "gamma": 0.05}, rows)


if __name__ == "__main__":
    main()
