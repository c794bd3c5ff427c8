"""Alpha chosen by the metric inside one fit, beside the default alpha and the old criterion.

    python -m experiments.ours.alpha_by_metric [--kind sets rankings targets] [--seeds N]

Every multi-label, label-ranking and multi-target set of the folder SKOUT_DATA: random parts of at
most 600 rows to train and 1,000 to test, inputs standardised by training rows (rows of 0 and 1 are
taken as they are). Three models, alike but for alpha: the default 1e-3; eight values, chosen by
the metric of the kind (example F1, Kendall's tau, R2); the same, chosen by the error in
coordinates. Kernels are Gaussian, and F1 or Kendall for outputs that are sets or rankings; nothing
is sketched, and all seeds are fixed before the first look. The standard error is that of the
default's mean over test rows, whose scores are averaged over the seeds that test them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tqdm import tqdm

from experiments.common import Scaler, clock, print_table, write_record
from skout import datasets, iokr
from skout.metrics import kendall_tau

KINDS = {"sets": ("ml", "f1"), "rankings": ("lr", "kendall"), "targets": ("mtr", "gaussian")}
IN_CATALOGUE = {"sets": "multilabel", "rankings": "ranking", "targets": "multioutput"}
DEFAULT = 1e-3
ALPHAS = tuple(10.0 ** np.arange(-7.0, 1.0))
MOST_TRAIN, MOST_TEST, N_SEEDS = 600, 1000, 2
WAYS: dict[str, dict[str, Any]] = {
    "default": {"alpha": DEFAULT},
    "metric": {"alpha": ALPHAS},
    "coordinates": {"alpha": ALPHAS, "scoring": "coordinates"},
}


def names(kind: str) -> list[str]:
    """Return the sets of a kind that are at hand."""
    folder = Path(os.environ["SKOUT_DATA"])
    prefix = KINDS[kind][0]
    return sorted(path.stem.removeprefix(f"{prefix}_") for path in folder.glob(f"{prefix}_*.npz"))


def row_scores(kind: str, Y: np.ndarray, P: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the score of each row, whose mean is the metric."""
    if kind == "rankings":
        return np.array([kendall_tau(y[None], p[None]) for y, p in zip(Y, P, strict=True)])
    if kind == "targets":
        spread = np.mean(np.sum((Y - mean) ** 2, axis=1))
        return 1.0 - np.sum((Y - P) ** 2, axis=1) / spread
    both, either = np.sum(Y * P, axis=1), np.sum(Y + P, axis=1)
    return np.where(either > 0.0, 2.0 * both / np.maximum(either, 1.0), 1.0)


def prepared(kind: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    data = datasets.load(name, IN_CATALOGUE[kind])
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
    return X.astype(np.float64), np.asarray(data.Y).astype(np.float64)


def compare(kind: str, name: str, n_seeds: int) -> dict[str, Any]:
    """Return the mean score of each way to choose, and the standard error."""
    X, Y = prepared(kind, name)
    used = ~np.isnan(Y).any(axis=1)
    X, Y = X[used], Y[used]
    n = len(X)
    is_words = bool(np.isin(X, (0.0, 1.0)).all())
    sums = {way: np.zeros(n) for way in WAYS}
    times = np.zeros(n)
    chosen: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(n)
        size = min(MOST_TRAIN, 2 * n // 3)
        train, test = order[:size], order[size : size + MOST_TEST]
        scale = (lambda rows: rows) if is_words else Scaler(X[train])
        outputs = Scaler(Y[train])(Y) if kind == "targets" else Y
        times[test] += 1.0
        for way, params in WAYS.items():
            model = iokr("gaussian", KINDS[kind][1], random_state=seed, **params)
            model.fit(scale(X[train]), outputs[train])
            found = model.predict(scale(X[test]))
            mean = outputs[train].mean(axis=0)
            sums[way][test] += row_scores(kind, outputs[test], found, mean)
            chosen[way].append(float(model.regressor_.alpha_))
    tested = times > 0.0
    scores = {way: sums[way][tested] / times[tested] for way in WAYS}
    error = float(scores["default"].std(ddof=1) / np.sqrt(tested.sum()))
    gain = float(scores["metric"].mean() - scores["default"].mean())
    return {
        "kind": kind,
        "data": name,
        "n": n,
        **{way: round(float(values.mean()), 4) for way, values in scores.items()},
        "standard error": round(error, 4),
        "gain": round(gain, 4),
        "in standard errors": round(gain / error, 2) if error > 0.0 else 0.0,
        "alphas by metric": chosen["metric"],
        "alphas by coordinates": chosen["coordinates"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    args = parser.parse_args()
    shown = ["kind", "data", "n", *WAYS, "standard error", "in standard errors"]
    for kind in args.kind:
        rows = []
        with clock() as all_of_it:
            for name in tqdm(names(kind), desc=kind):
                rows.append(compare(kind, name, args.seeds))
                print_table(rows[-1:], shown)
        worst = min(row["in standard errors"] for row in rows)
        print(f"{kind}: the worst change against the default alpha is {worst} standard errors")
        settings = {"alphas": ALPHAS, "default": DEFAULT, "cv": 5, "n_seeds": args.seeds}
        settings |= {"most_train": MOST_TRAIN, "most_test": MOST_TEST}
        seconds = round(all_of_it.seconds, 1)
        write_record(f"alpha_by_metric_{kind}", settings, rows, wall_seconds=seconds)


if __name__ == "__main__":
    main()
