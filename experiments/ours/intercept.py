"""KernelRidge with and without an intercept, on every regression set of the folder SKOUT_DATA.

    python -m experiments.ours.intercept [--splits N] [--sets NAME ...]
    python -m experiments.ours.intercept --page            the table of docs/regression.md

All sets `reg_*` and `mtr_*`: at most 2,000 random rows, a fifth of them to test, inputs
standardized by training rows, twenty random splits with seeds fixed before the first look. Targets
are taken as they are, and again standardized by training rows. Two models: all defaults (exact,
alpha 1e-3), and 300 landmarks with alpha chosen among nine by five folds. The score is R2 on test
rows, the mean over outputs; splits whose test targets do not vary are left out. The standard error
of the paired difference over splits is that for splits that share rows (Nadeau and Bengio, 2003):
sd sqrt(1/J + n_test / n_train).
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import Scaler, clock, read_record, write_record
from skout import KernelRidge, datasets
from skout.sketches import SubSample

MOST_ROWS, TEST_SHARE, N_SPLITS = 2000, 0.2, 20
ALPHAS = tuple(10.0 ** np.arange(-8.0, 1.0))
MODELS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "alpha chosen": {"sketch": SubSample(300), "alpha": ALPHAS},
}


def names() -> list[str]:
    """Return the sets that are at hand, with their prefix."""
    folder = Path(os.environ["SKOUT_DATA"])
    return sorted(path.stem for kind in ("reg", "mtr") for path in folder.glob(f"{kind}_*.npz"))


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets in columns, rows with a target only."""
    kind, short = name.split("_", 1)
    data = datasets.load(short, "regression" if kind == "reg" else "multioutput")
    X, Y = (np.asarray(part, dtype=np.float64) for part in (data.X, data.Y))
    Y = Y.reshape(len(Y), -1)
    known = ~np.isnan(Y).any(axis=1)
    return X[known], Y[known]


def r2(Y: np.ndarray, P: np.ndarray) -> float:
    """Return R2, the mean over outputs that vary among the rows; NaN if none does."""
    spread = Y.var(axis=0)
    varies = spread > 1e-20 * (Y**2).mean(axis=0)  # but for rounding
    errors = ((Y - P) ** 2).mean(axis=0)
    return float(np.mean(1.0 - errors[varies] / spread[varies]))


def split_scores(X: np.ndarray, Y: np.ndarray, seed: int) -> dict[str, float]:
    """Return R2 by targets, model and intercept on one random split."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))[:MOST_ROWS]
    n_test = max(2, round(TEST_SHARE * len(rows)))
    test, train = rows[:n_test], rows[n_test:]
    scaled = Scaler(X[train])
    A, B = scaled(X[train]), scaled(X[test])
    scores = {}
    for kind, outputs in (("as they are", lambda T: T), ("standardized", Scaler(Y[train]))):
        for label, options in MODELS.items():
            for intercept in (False, True):
                model = KernelRidge(fit_intercept=intercept, random_state=seed, **options)
                fitted = model.fit(A, outputs(Y[train]))
                scores[f"{kind}, {label}, {intercept}"] = r2(outputs(Y[test]), fitted.predict(B))
    return scores


def compared(name: str, n_splits: int) -> list[dict[str, Any]]:
    """Return a row for each kind of targets and each model."""
    X, Y = load(name)
    scores = [split_scores(X, Y, seed) for seed in range(n_splits)]
    scores = [score for score in scores if np.isfinite(list(score.values())).all()]
    n = min(len(X), MOST_ROWS)
    inflation = np.sqrt(1.0 / len(scores) + TEST_SHARE / (1.0 - TEST_SHARE))
    results = []
    for kind in ("as they are", "standardized"):
        for label in MODELS:
            pair = {
                on: np.array([s[f"{kind}, {label}, {on}"] for s in scores]) for on in (False, True)
            }
            gain = pair[True] - pair[False]
            spread = gain.std(ddof=1)
            offset = np.abs(Y.mean(axis=0)) / np.maximum(Y.std(axis=0), 1e-300)
            results.append({
                "set": name, "rows": n, "outputs": Y.shape[1], "targets": kind, "model": label,
                "mean_over_spread": float(np.median(offset)),
                "r2_without": float(np.median(pair[False])),
                "r2_with": float(np.median(pair[True])), "n_splits": len(scores),
                "gain": float(gain.mean()), "standard_error": float(spread * inflation),
                "plain_standard_error": float(spread / np.sqrt(len(scores))),
                "gains": [float(f"{number:.4g}") for number in gain],
            })  # fmt: skip
    return results


def counts(results: list[dict[str, Any]]) -> list[str]:
    """Return the rows of a table: how often each is ahead by more than one standard error."""
    lines = [
        "| targets | model | sets | better with | no difference | better without "
        "| median gain where better with | largest loss where better without |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in ("as they are", "standardized"):
        for label in MODELS:
            some = [r for r in results if (r["targets"], r["model"]) == (kind, label)]
            z = np.array([r["gain"] / max(r["standard_error"], 1e-12) for r in some])
            gain = np.array([r["gain"] for r in some])
            better, worse = int((z > 1.0).sum()), int((z < -1.0).sum())
            median = np.median(gain[z > 1.0]) if better else 0.0
            loss = -gain[z < -1.0].min() if worse else 0.0
            lines.append(
                f"| {kind} | {label} | {len(some)} | {better} | {len(some) - better - worse} "
                f"| {worse} | {median:.4f} | {loss:.4f} |"
            )
    return lines


def worse(results: list[dict[str, Any]]) -> list[str]:
    """Return the sets where an intercept loses more than one standard error."""
    return [
        f"{r['set']}, {r['targets']}, {r['model']}: {r['gain']:.4f} +- {r['standard_error']:.4f} "
        f"(R2 {r['r2_without']:.3f} without)"
        for r in results
        if r["gain"] < -r["standard_error"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--page", action="store_true", help="print the table of the record")
    options = parser.parse_args()
    if options.page:
        results = read_record("intercept")["results"]
        print("\n".join([*counts(results), "", *worse(results)]))
        return
    warnings.simplefilter("ignore")
    results = []
    with clock() as time:
        for name in tqdm(options.sets or names()):
            results += compared(name, options.splits)
            print("\n".join(counts(results[-4:])[2:]), name, flush=True)
    print("\n".join([*counts(results), "", *worse(results)]))
    if options.sets is None:
        settings = {
            "n_splits": options.splits, "most_rows": MOST_ROWS, "test_share": TEST_SHARE,
            "alphas": ALPHAS, "models": MODELS,
        }  # fmt: skip
        write_record("intercept", settings, results, wall_seconds=time.seconds)


if __name__ == "__main__":
    main()
