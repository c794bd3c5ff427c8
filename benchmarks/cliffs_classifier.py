"""How the time of KernelClassifier grows with rows and with classes.

    python benchmarks/cliffs_classifier.py [--quick]

Classes are Gaussian clouds in 10 dimensions; 100 landmarks, one thread. A slope is that of log
seconds over log rows, or log classes, between the smallest and the largest: 1 is linear.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from measure import fastest, print_table, write_record

from skout import KernelClassifier
from skout.sketches import SubSample

LOSSES = ("hinge", "squared_hinge", "logistic")


def clouds(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and their classes."""
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.standard_normal((n_classes, 10))
    y = rng.integers(n_classes, size=n)
    return centres[y] + rng.standard_normal((n, 10)), y


def seconds(loss: str, n: int, n_classes: int) -> float:
    X, y = clouds(n, n_classes)
    model = KernelClassifier(
        "gaussian", SubSample(100), loss=loss, alpha=1e-5, random_state=0, n_jobs=1
    )
    return fastest(lambda: model.fit(X, y), repeats=2)


def slopes(loss: str, rows: tuple[int, int], classes: tuple[int, int]) -> dict[str, Any]:
    """Time three corners: few of both, more rows, more classes."""
    few = seconds(loss, rows[0], classes[0])
    by_rows, by_classes = seconds(loss, rows[1], classes[0]), seconds(loss, rows[0], classes[1])
    return {
        "loss": loss,
        f"{rows[0]} x {classes[0]}": few,
        f"{rows[1]} x {classes[0]}": by_rows,
        f"{rows[0]} x {classes[1]}": by_classes,
        "slope in rows": math.log(by_rows / few) / math.log(rows[1] / rows[0]),
        "slope in classes": math.log(by_classes / few) / math.log(classes[1] / classes[0]),
    }


def main() -> None:
    """Print and record the slopes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rows, classes = ((10_000, 40_000), (10, 40)) if given.quick else ((25_000, 200_000), (10, 50))
    results = [slopes(loss, rows, classes) for loss in LOSSES]
    print_table(results, list(results[0]))
    if not given.quick:
        print(write_record("cliffs_classifier", vars(given), results))


if __name__ == "__main__":
    main()
