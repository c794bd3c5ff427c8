"""What standard deviations cost: predict with and without `return_std`.

    python benchmarks/doubt.py [--n 500000 --m 1000]

10,000 rows; times are taken in turns, and the ratio counts. The variance takes m^2 operations a
row, predictions about m (2 d + 130), a kernel value counted as in docs/scale.md: so the ratio is
about 1 + 2 m / (2 d + 130) with variance="dtc" and 1 + 2 / (2 d + 130) with "fast". Errors are
those of the standard deviation relative to that of "dtc", on rows like those of the fit and on rows
three times as far out.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from measure import print_table, write_record

from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample


def seconds(function: Any) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("n", 500_000), ("m", 1_000), ("d", 10), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.n, given.d))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(given.n)
    new = rng.standard_normal((10_000, given.d))
    news = {"near": new, "far": 3.0 * new}
    model = KernelRidge(
        Gaussian(0.05), SubSample(given.m), alpha=1e-5, random_state=0, variance="fast"
    ).fit(X, y)
    logs = model._logs
    cost = given.m * (2.0 * given.d + 130.0)
    kinds = {
        "dtc": (None, 2.0 * given.m**2),
        "fast": (logs, 2.0 * given.m),
    }
    rows, full = [], {}
    for name, (model._logs, more) in kinds.items():
        model.__dict__.pop("_doubt", None)
        std = {where: model.predict(A, return_std=True)[1] for where, A in news.items()}
        full = full or std
        pairs = [
            (
                seconds(lambda: model.predict(new)),
                seconds(lambda: model.predict(new, return_std=True)),
            )
            for _ in range(given.repeats)
        ]
        row = {"variance": name, "ratio": float(np.median([b / a for a, b in pairs]))}
        row["ratio_by_operations"] = (cost + more) / cost
        for where, found in std.items():
            ratios = found / full[where]
            row[f"median_over_full_{where}"] = float(np.median(ratios))
            row[f"error_of_nine_in_ten_{where}"] = float(np.quantile(np.abs(ratios - 1.0), 0.9))
        rows.append(row)
        print_table(rows[-1:], list(rows[-1]))
    write_record("doubt", vars(given) | {"rows": 10_000, "alpha": 1e-5, "gamma": 0.05}, rows)


if __name__ == "__main__":
    main()
