"""What standard deviations cost: predict with and without `return_std`.

    python benchmarks/doubt.py [--n 500000 --m 1000]

10,000 rows; times are taken in turns, and the ratio counts. The variance takes m^2 operations a
row, predictions about m (2 d + 130), a kernel value counted as in docs/scale.md: so the ratio is
about 1 + 2 m / (2 d + 130) with all landmarks, and 1 + 2 r^2 / (m (2 d + 130)) with
variance_rank=r. The fit makes the moments as it does without standard deviations.
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
    model = KernelRidge(Gaussian(0.05), SubSample(given.m), alpha=1e-5, random_state=0).fit(X, y)
    full = model.predict(new, return_std=True)[1]
    rows = []
    for rank in (None, 200, 140, 100):
        model.variance_rank = rank
        model.__dict__.pop("_doubt", None)
        std = model.predict(new, return_std=True)[1]  # the factor is made once
        pairs = [
            (
                seconds(lambda: model.predict(new)),
                seconds(lambda: model.predict(new, return_std=True)),
            )
            for _ in range(given.repeats)
        ]
        r = given.m if rank is None else rank
        flops = given.m * (2.0 * given.d + 130.0)
        rows.append(
            {
                "variance_rank": given.m if rank is None else rank,
                "ratio": float(np.median([b / a for a, b in pairs])),
                "ratio_by_operations": (flops + 2.0 * r * r) / flops,
                "median_std_over_full": float(np.median(std / full)),
                "correlation_with_full": float(np.corrcoef(std, full)[0, 1]),
            }
        )
        print_table(rows[-1:], list(rows[-1]))
    write_record("doubt", vars(given) | {"rows": 10_000, "alpha": 1e-5, "gamma": 0.05}, rows)


if __name__ == "__main__":
    main()
