"""Do standard deviations and intervals of 90 % hold what they say, by simulation and on UCI sets?

    python -m experiments.ours.uncertainty run      record uncertainty
    python -m experiments.ours.uncertainty write    its tables, into docs/regression.md

process  Targets drawn from a Gaussian process with the kernel and the noise that the model has, 50
         on each of 10 draws of uniform rows in [-3, 3]^3: std over that of the posterior (median
         over new rows, mean over targets and draws), and how often f and y lie within 1.645 of it.
sets     Official test folds, at most 2,000 rows of each; the other rows, at random, to train. Exact
         models on 1,500 rows; sketched ones on 8,000 with 300 landmarks, of which split conformal
         holds a quarter out to calibrate, and CV+ uses all. f +- 1.645 sqrt(std^2 + noise) for the
         others. alpha by five folds of the training rows; inputs and targets are standardised on
         these. Folds: 10, but 3 for sketched models of sets with more than 5,000 rows.
         The mean square of (y - f) over that root should be 1, whatever the distribution of y.
boxes    Ten independent Gaussian outputs, 500 calibrations: how often boxes of 90 % hold all ten,
         and their sides (geometric mean) over those of the box that holds exactly 90 %.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from sklearn.base import clone

from experiments.common import HERE, Scaler, clock, read_record, write_record
from skout import KernelRidge
from skout.kernels import Gaussian, Kernel, Matern
from skout.metrics import coverage, interval_width
from skout.sketches import SubSample

SETS = ("kin40k", "energy", "airfoil", "bike", "pol")
LEVEL, Z = 0.9, 1.6449
NOISES = (1.0, 0.1, 0.01, 1e-4)
ALPHAS = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
PAGE = HERE.parent / "docs" / "regression.md"
ROUGH, SMOOTH = Matern(1.0, nu=1.5), Gaussian(0.1)
#: kernel, rows, landmarks if any, variance
MODELS: dict[str, tuple[Kernel, int, int | None, str]] = {
    "exact, Matérn 3/2, 300 rows": (ROUGH, 300, None, "dtc"),
    '"dtc", Gaussian, 1,000 rows, 400 landmarks': (SMOOTH, 1000, 400, "dtc"),
    '"fitc", the same': (SMOOTH, 1000, 400, "fitc"),
    '"dtc", Matérn 3/2, 1,000 rows, 100 landmarks: too few': (ROUGH, 1000, 100, "dtc"),
    '"fitc", the same: too few': (ROUGH, 1000, 100, "fitc"),
}


def deviations(name: str, noise: float) -> dict[str, Any]:
    """Compare standard deviations of a model with those of the process that drew its targets."""
    kernel, n, landmarks, variance = MODELS[name]
    sketch = None if landmarks is None else SubSample(landmarks)
    rng, rows = np.random.default_rng(0), []
    for draw in range(10):
        X = rng.uniform(-3, 3, (n + 200, 3))
        K = kernel(X) + 1e-10 * np.eye(len(X))
        f = np.linalg.cholesky(K) @ rng.standard_normal((len(X), 50))
        y = f + np.sqrt(noise) * rng.standard_normal(f.shape)
        options: dict[str, Any] = {"alpha": noise / n, "variance": variance, "solver": "direct"}
        model = KernelRidge(kernel, sketch, random_state=draw, **options).fit(X[:n], y[:n])
        mean, std = model.predict(X[n:], return_std=True)
        k = K[n:, :n]
        explained = np.einsum("ij,ji->i", k, np.linalg.solve(K[:n, :n] + noise * np.eye(n), k.T))
        ratio = np.median(std / np.sqrt(np.diag(K)[n:] - explained)[:, None], axis=0)
        total = np.sqrt(std**2 + model.noise_variance_)
        inside = (np.abs(a[n:] - mean) <= Z * s for a, s in ((f, std), (y, total)))
        rows.append([ratio.mean(), *(part.mean() for part in inside)])
    found = dict(zip(("ratio", "coverage_f", "coverage_y"), np.mean(rows, axis=0), strict=True))
    return {"part": "process", "model": name, "noise": noise} | found


def exact(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Yield the interval of the exact model on the first 1,500 rows."""
    model = KernelRidge("gaussian", alpha=ALPHAS, random_state=0).fit(X[:1500], y[:1500])
    yield "exact", gaussian(model, new)


def sketched(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Yield the intervals of sketched models."""
    quarter = len(X) // 4
    model = KernelRidge("gaussian", SubSample(300), alpha=ALPHAS, random_state=0)
    part = clone(model).fit(X[quarter:], y[quarter:])
    yield "split", part.calibrate(X[:quarter], y[:quarter]).predict_interval(new, LEVEL)
    yield "CV+", model.fit(X, y).calibrate(X, y, cv=5).predict_interval(new, LEVEL)
    yield "dtc", gaussian(model, new)
    yield "fitc", gaussian(model.set_params(variance="fitc").fit(X, y), new)


def gaussian(model: KernelRidge, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return f -+ 1.645 times the standard deviation of y."""
    f, std = model.predict(new, return_std=True)
    half = Z * np.sqrt(std**2 + model.noise_variance_)
    return f - half, f + half


def on_set(name: str) -> Iterator[dict[str, Any]]:
    """Yield the coverage of each interval on the test folds of a set."""
    stored = np.load(Path(os.environ["SKOUT_DATA"]) / f"reg_{name}.npz")
    X, y = stored["X"].astype(float), stored["y"].astype(float).ravel()
    folds = np.unpackbits(stored["test_mask"], axis=0, count=len(X))
    for fold in range(10):
        test = np.flatnonzero(folds[:, fold])[:2000]
        train = np.random.default_rng(fold).permutation(np.flatnonzero(folds[:, fold] == 0))[:8000]
        rows, target = Scaler(X[train]), Scaler(y[train, None])
        given = rows(X[train]), target(y[train, None])[:, 0], rows(X[test])
        truth = target(y[test, None])[:, 0]
        for kinds in (exact, sketched) if fold < 3 or len(X) <= 5000 else (exact,):
            for kind, (low, high) in kinds(*given):
                found = {"coverage": coverage(truth, low, high), "width": interval_width(low, high)}
                found["mean_square"] = np.mean(
                    (2 * Z * (truth - (low + high) / 2) / (high - low)) ** 2
                )
                about = {"part": "sets", "set": name, "fold": fold, "model": kind}
                yield about | {"n_test": len(test)} | found


def box(n: int, draws: int = 500) -> dict[str, Any]:
    """Return how often the box of n rows of calibration holds ten outputs at once."""
    rng, held, sides = np.random.default_rng(0), [], []
    best = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL**0.1)
    model = KernelRidge(Gaussian(1.0), alpha=1.0).fit(np.eye(2), np.zeros((2, 10)))
    rows = rng.standard_normal((n, 2))
    for _ in range(draws):
        model.calibrate(rows, rng.standard_normal((n, 10)))
        low, high = model.predict_interval(rows[:1], LEVEL, joint=True)
        truth = rng.standard_normal((200, 10))
        sides.append(np.log((high - low) / (2.0 * best)).mean())
        held.append(float(np.mean(((low <= truth) & (truth <= high)).all(axis=1))))
    found = {"coverage": np.mean(held), "standard_error": np.std(held) / np.sqrt(draws)}
    return {"part": "boxes", "n": n, "side": np.exp(np.mean(sides))} | found


def run() -> None:
    rows: list[dict[str, Any]] = []

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        print(row, flush=True)

    with clock() as time:
        for n in (9, 19, 99, 499):
            add(box(n))
        for name in MODELS:
            for noise in NOISES:
                add(deviations(name, noise))
        for name in SETS:
            for row in on_set(name):
                add(row)
    settings = {"level": LEVEL, "alphas": ALPHAS, "landmarks": 300}
    write_record("uncertainty", settings, rows, wall_seconds=time.seconds)


def process_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| noise variance | " + " | ".join(f"{noise:g}" for noise in NOISES) + " |"]
    lines.append("|---" * (1 + len(NOISES)) + "|")
    for name in MODELS:
        own = [row for row in rows if row["part"] == "process" and row["model"] == name]
        cells = [
            f"{row['ratio']:.3f}; {100 * row['coverage_f']:.1f}, {100 * row['coverage_y']:.1f} %"
            for row in own
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def set_table(rows: list[dict[str, Any]]) -> list[str]:
    labels = {
        "exact": "exact, f ± 1.645 sqrt(std² + noise)",
        "dtc": '300 landmarks, "dtc", the same',
        "fitc": '300 landmarks, "fitc", the same',
        "split": "300 landmarks, split conformal",
        "CV+": "300 landmarks, CV+",
    }
    lines = ["| | " + " | ".join(SETS) + " |", "|---" * (1 + len(SETS)) + "|"]
    for kind, label in labels.items():
        pairs = [[mean_of(rows, name, kind, key) for key in ("coverage", "width")] for name in SETS]
        cells = [f"{100 * share:.1f} ({width:.2f})" for share, width in pairs]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
        if kind == "exact":
            squares = (mean_of(rows, name, kind, "mean_square") for name in SETS)
            lines.append(
                "| mean square of these z-scores | "
                + " | ".join(map("{:.2f}".format, squares))
                + " |"
            )
    return lines


def mean_of(rows: list[dict[str, Any]], name: str, kind: str, key: str) -> float:
    """Return the mean over the test rows of all folds."""
    wanted = {"part": "sets", "set": name, "model": kind}
    own = [row for row in rows if wanted.items() <= row.items()]
    return float(np.average([row[key] for row in own], weights=[row["n_test"] for row in own]))


def box_table(rows: list[dict[str, Any]]) -> list[str]:
    own = [row for row in rows if row["part"] == "boxes"]
    cells = [f"{100 * row['coverage']:.1f} ± {100 * row['standard_error']:.1f}" for row in own]
    return [
        "| rows of `calibrate` | " + " | ".join(str(row["n"]) for row in own) + " |",
        "|---" * (1 + len(own)) + "|",
        "| all ten outputs in a box of 90 % | " + " | ".join(cells) + " |",
        "| its sides, over those of the exact box | "
        + " | ".join(f"{row['side']:.2f}" for row in own)
        + " |",
    ]


def write() -> None:
    """Put each table into the page, between its two marks."""
    rows, text = read_record("uncertainty")["results"], PAGE.read_text(encoding="utf-8")
    tables = {"process": process_table(rows), "sets": set_table(rows), "boxes": box_table(rows)}
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = "\n".join([before + begin, "", *lines, "", end + rest.split(end)[1]])
        print("\n".join(lines), end="\n\n")
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(required=True)
    for function in (run, write):
        steps.add_parser(function.__name__).set_defaults(run=function)
    parser.parse_args().run()


if __name__ == "__main__":
    main()
