"""KernelRidge on columns as they are and on standardized ones: where `fit` warns, what it costs.

    python -m experiments.ours.scales [--splits N]
    python -m experiments.ours.scales --page              the table of docs/regression.md

All sets `reg_*` and `mtr_*` as in `intercept.py`: at most 2,000 random rows, half of them to test,
random splits with fixed seeds; missing inputs are the mean of training rows. The model has a
Gaussian kernel of the default width, 400 landmarks, an intercept, and alpha chosen among five by
five folds. The score is R2 on test rows, the mean over outputs.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from experiments.common import Scaler, clock, read_record, write_record
from experiments.ours.intercept import load, names, r2
from skout import KernelRidge
from skout.sketches import SubSample

MOST_ROWS, N_SPLITS = 2000, 5
ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
# Differences of R2 below this are called none.
NOTHING = 0.02


def score(X: np.ndarray, Y: np.ndarray, test: tuple[np.ndarray, np.ndarray], seed: int) -> float:
    """Return R2 on test rows."""
    sketch = SubSample(min(400, len(X)))
    model = KernelRidge("gaussian", sketch, alpha=ALPHAS, fit_intercept=True, random_state=seed)
    return r2(test[1], model.fit(X, Y).predict(test[0]))


def compared(name: str, n_splits: int) -> dict[str, Any]:
    """Return the scores of a set, and whether `fit` warns of its columns."""
    X, Y = load(name)
    pairs, warned = [], []
    for seed in range(n_splits):
        rows = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
        train, test = np.array_split(rows, 2)
        X = np.where(np.isnan(X), np.nanmean(X[train], axis=0), X)
        scaled = Scaler(X[train])
        warned.append(warns(X[train], f"{name}, split {seed}"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = score(X[train], Y[train], (X[test], Y[test]), seed)
            inputs = scaled(X[train]), scaled(X[test])
            pairs.append((raw, score(inputs[0], Y[train], (inputs[1], Y[test]), seed)))
    raw, standardized = np.nanmean(pairs, axis=0)
    most = 2 * sum(warned) > n_splits
    return {"set": name, "warns": most, "r2_raw": float(raw), "r2_scaled": float(standardized)}


def warns(X: np.ndarray, name: str) -> bool:
    """Whether `fit` warns of the scales of columns; with new names, since it says the same once."""
    frame = pd.DataFrame(X, columns=[f"{name}, {j}" for j in range(X.shape[1])])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KernelRidge("gaussian", SubSample(2), random_state=0).fit(frame, np.zeros(len(X)))
    return any("very different scale" in str(warning.message) for warning in caught)


def page(results: list[dict[str, Any]]) -> list[str]:
    """Return the rows of the table of docs/regression.md."""
    lines = [
        "| columns | sets | better standardized | no difference | better as they are |",
        "|---|---|---|---|---|",
    ]
    for warns, label in ((True, "`fit` warns"), (False, "it does not")):
        gain = np.array([r["r2_scaled"] - r["r2_raw"] for r in results if r["warns"] is warns])
        better, worse = (gain > NOTHING).sum(), (gain < -NOTHING).sum()
        lines.append(
            f"| {label} | {len(gain)} | {better} | {len(gain) - better - worse} | {worse} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--page", action="store_true", help="print the table of the record")
    options = parser.parse_args()
    if not options.page:
        with clock() as time:
            results = [compared(name, options.splits) for name in tqdm(names())]
        settings = {"n_splits": options.splits, "most_rows": MOST_ROWS, "alphas": ALPHAS}
        write_record("scales", settings, results, wall_seconds=time.seconds)
    results = read_record("scales")["results"]
    print("\n".join(page(results)))
    for r in sorted(results, key=lambda r: r["r2_raw"] - r["r2_scaled"]):
        print(f"{r['set']:24s} warns {r['warns']!s:5} {r['r2_raw']:7.3f} {r['r2_scaled']:7.3f}")


if __name__ == "__main__":
    main()
