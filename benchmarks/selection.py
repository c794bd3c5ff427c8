"""What it costs to choose alpha by the metric: ten alphas in five folds, against one fit.

    python benchmarks/selection.py [--quick] [--part sketched exact] [--repeats N]

sketched  SISOKR with its default sketches on 100,000 rows with label sets
exact     IOKR without sketches on 6,000 rows with label sets

Both models decode among the training label sets and choose by example F1. Ratios are of seconds in
one run, the median of interleaved repeats, and of CPU seconds, which other work on the machine
changes less.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from measure import print_table, write_record

from skout import iokr, sisokr
from skout.metrics import example_f1

ALPHAS = tuple(np.logspace(-7, 0, 10))
N_FEATURES, N_LABELS, N_TEST = 50, 40, 1000
PARTS = {"sketched": (sisokr, 100_000), "exact": (iokr, 6_000)}


def label_sets(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and label sets: about three labels of 40 each, some of them noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES))
    hidden = np.tanh(X @ rng.standard_normal((N_FEATURES, 60)) / 4.0)
    scores = hidden @ rng.standard_normal((60, N_LABELS)) / 3.0
    scores += 0.5 * rng.standard_normal(scores.shape)
    return X, (scores > 3.2).astype(np.float64)


def compare(part: str, n: int, repeats: int) -> dict[str, Any]:
    """Return the seconds of one fit and of a choice, interleaved."""
    make, _ = PARTS[part]
    X, Y = label_sets(n + N_TEST, seed=0)
    ways = {
        "one": partial(make, "gaussian", "f1", alpha=1e-4, random_state=0),
        "coordinates": partial(
            make, "gaussian", "f1", alpha=ALPHAS, scoring="coordinates", random_state=0
        ),
        "metric": partial(make, "gaussian", "f1", alpha=ALPHAS, random_state=0),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    work: dict[str, list[float]] = {way: [] for way in ways}
    found = {}
    for _ in range(repeats):
        for way, model in ways.items():
            clock, own = time.perf_counter(), time.process_time()
            found[way] = model().fit(X[:n], Y[:n])
            seconds[way].append(time.perf_counter() - clock)
            work[way].append(time.process_time() - own)

    def ratio(clock: dict[str, list[float]], way: str) -> float:
        return round(float(np.median(np.array(clock[way]) / np.array(clock["one"]))), 2)

    return {
        "part": part,
        "n": n,
        "distinct label sets": len(found["one"].decoder_.pool_),
        "seconds of one fit": round(float(np.median(seconds["one"])), 2),
        **{f"ratio, {way}": ratio(seconds, way) for way in ("coordinates", "metric")},
        "ratio of CPU seconds, metric": ratio(work, "metric"),
        **{f"alpha, {way}": float(found[way].regressor_.alpha_) for way in ways},
        **{
            f"F1, {way}": round(100.0 * example_f1(Y[n:], model.predict(X[n:])), 1)
            for way, model in found.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, no record")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for part in args.part:
        n = PARTS[part][1] // (10 if args.quick else 1)
        row = compare(part, n, args.repeats)
        print_table([row], list(row))
        if not args.quick:
            settings = {"alphas": ALPHAS, "cv": 5, "repeats": args.repeats, "n_labels": N_LABELS}
            write_record(f"selection_{part}", settings, [row])


if __name__ == "__main__":
    main()
