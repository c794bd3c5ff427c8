"""Prediction sets: how often split-conformal sets hold the truth, on 20 random splits.

    python -m experiments.ours.prediction_sets [--quick]

Half of the rows train, a quarter calibrates, a quarter tests. Candidates are the distinct label
sets (or rankings) of the whole data set, so that every truth is among them. The input kernel is
Gaussian with gamma="median"; alpha comes from the five-fold path on the training half, in the
output coordinates. Nothing is chosen by coverage.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import Scaler, load_labels, mean_sd, print_table, write_record
from skout import ConformalSets, datasets, iokr
from skout.kernels import F1, Gaussian, Kendall

SEED, N_SPLITS, COVERAGES = 0, 20, (0.8, 0.9, 0.95)
ALPHAS = tuple(10.0 ** np.arange(-6.0, 0.1, 1.0))


def load(name: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return inputs, outputs and the output kernel."""
    if name == "vehicle":
        data = datasets.load(name, "ranking")
        return data.X, data.Y, Kendall()
    X, Y, X_test, Y_test = load_labels(name)
    return np.vstack([X.toarray(), X_test.toarray()]), np.vstack([Y, Y_test]).astype(int), F1()


def split_results(name: str, seed: int) -> list[dict[str, Any]]:
    """Return coverage and sizes on one random split, at each level."""
    X, Y, kernel = load(name)
    order = np.random.default_rng(seed).permutation(len(X))
    half, quarter = len(X) // 2, 3 * len(X) // 4
    train, calibration, test = order[:half], order[half:quarter], order[quarter:]
    X = Scaler(X[train])(X)
    pool = np.unique(Y, axis=0)
    model = iokr(Gaussian("median"), kernel, alpha=ALPHAS).fit(X[train], Y[train])
    sets = ConformalSets(model).calibrate(X[calibration], Y[calibration], pool)
    rows = []
    for coverage in COVERAGES:
        found = sets.evaluate(X[test], Y[test], pool, coverage=coverage)
        smallest = int(sets.predict(X[test], pool, coverage=coverage).sizes.min())
        rows.append(found | {"nominal": coverage, "smallest": smallest, "pool": len(pool)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three splits; no record")
    options = parser.parse_args()
    n_splits = 3 if options.quick else N_SPLITS
    results = []
    for name in ("emotions", "yeast", "vehicle"):
        found = [split_results(name, SEED + i) for i in tqdm(range(n_splits), desc=name)]
        for rows in zip(*found, strict=True):
            results.append(
                {
                    "data": name,
                    "nominal": rows[0]["nominal"],
                    "coverage": mean_sd(row["coverage"] for row in rows),
                    "least": min(row["coverage"] for row in rows),
                    "most": max(row["coverage"] for row in rows),
                    "mean_size": mean_sd(row["mean_size"] for row in rows),
                    "smallest_set": min(row["smallest"] for row in rows),
                    "pool": rows[0]["pool"],
                }
            )
    columns = ["data", "nominal", "coverage", "least", "most", "mean_size", "smallest_set", "pool"]
    shown = [
        row | {"coverage": row["coverage"][0], "mean_size": row["mean_size"][0]} for row in results
    ]
    print_table(shown, columns)
    if not options.quick:
        settings = {"n_splits": n_splits, "coverages": COVERAGES, "alphas": ALPHAS}
        write_record("prediction_sets", settings, results, SEED)


if __name__ == "__main__":
    main()
