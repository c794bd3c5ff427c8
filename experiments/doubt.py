"""Do 90 % intervals hold 90 %: split conformal, CV+ and plain Gaussian ones on five UCI sets.

    python experiments/doubt.py run [--folds 2]     record doubt
    python experiments/doubt.py table               as markdown

Official test folds, and some of the other rows, drawn at random, to train: of these a quarter is
held out to calibrate the split intervals, and CV+ uses all of them. Gaussian: f +- 1.645 sqrt(std^2
+ noise). Sketched ridge, 300 landmarks, alpha by five folds of the training rows; inputs and
targets are standardised on these.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from common import clock, read_record, write_record
from sklearn.base import clone

from skout import KernelRidge
from skout.metrics import coverage, interval_width
from skout.sketches import SubSample

SETS = ("bike", "kin40k", "pol", "keggdirected", "keggundirected")
LEVEL = 0.9


def intervals(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Any]:
    n = len(X)
    rng = np.random.default_rng(0)
    order = rng.permutation(n)
    held, own = order[: n // 4], order[n // 4 :]
    model = KernelRidge(
        "gaussian", SubSample(300), alpha=[1e-7, 1e-6, 1e-5, 1e-4, 1e-3], random_state=0
    )
    part = clone(model).fit(X[own], y[own])
    found = {"split": part.calibrate(X[held], y[held]).predict_interval(new, LEVEL)}
    found["split, scaled"] = part.calibrate(X[held], y[held], scaled=True).predict_interval(
        new, LEVEL
    )
    found["CV+"] = model.fit(X, y).calibrate(X, y, cv=5).predict_interval(new, LEVEL)
    f, std = model.predict(new, return_std=True)
    half = 1.6449 * np.sqrt(std**2 + model.noise_variance_)
    found["Gaussian"] = f - half, f + half
    return found


def run(given: Any) -> None:
    rows = []
    with clock() as time:
        for name in SETS:
            stored = np.load(Path(os.environ["SKOUT_DATA"]) / f"reg_{name}.npz")
            X, y = stored["X"].astype(float), stored["y"].astype(float).ravel()
            folds = np.unpackbits(stored["test_mask"], axis=0, count=len(X))
            for fold in range(given.folds):
                test = folds[:, fold] > 0
                train = np.random.default_rng(fold).permutation(np.flatnonzero(~test))[: given.most]
                mean, scale = X[train].mean(axis=0), X[train].std(axis=0) + 1e-12
                centre, unit = y[train].mean(), y[train].std()
                Z, t = (X - mean) / scale, (y - centre) / unit
                for kind, (low, high) in intervals(Z[train], t[train], Z[test]).items():
                    rows.append(
                        {
                            "set": name, "fold": fold, "method": kind, "n_test": int(test.sum()),
                            "coverage": coverage(t[test], low, high),
                            "width": interval_width(low, high),
                        }
                    )  # fmt: skip
                    print(rows[-1], flush=True)
    settings = {"level": LEVEL, "folds": given.folds, "most": given.most, "landmarks": 300}
    write_record("doubt", settings, rows, wall_seconds=time.seconds)


def table(given: Any) -> None:
    rows = read_record("doubt")["results"]
    kinds = list(dict.fromkeys(row["method"] for row in rows))
    print("| set | " + " | ".join(kinds) + " |")
    for name in SETS:
        own = [row for row in rows if row["set"] == name]
        cells = []
        for kind in kinds:
            some = [row for row in own if row["method"] == kind]
            total = sum(row["n_test"] for row in some)
            share = sum(row["coverage"] * row["n_test"] for row in some) / total
            cells.append(f"{100 * share:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(required=True)
    for function in (run, table):
        step = steps.add_parser(function.__name__)
        step.set_defaults(run=function)
        if function is run:
            step.add_argument("--folds", type=int, default=2)
            step.add_argument("--most", type=int, default=8000)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
