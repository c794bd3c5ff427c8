"""A learnt metric beside xRFM, the recursive feature machine of its authors, on 27 regressions.

    python -m experiments.ours.learned_metric [--data housing wine ...] [--splits 3] [--table]
    python -m experiments.ours.learned_metric --targets enb wage ...  # several targets, skout alone

Needs `pip install xrfm==0.4.5`, and `reg_*.npz` in the folder that SKOUT_DATA names. Inputs and
targets are standardised by training rows; errors are root mean squared errors of the standardised
target on the first official test parts: all ten of fewer than 200 rows, which have few test rows,
five of fewer than 1,000, then three, and one from 3,000 rows on, unless --splits says fewer.

Both choose among six settings. xRFM does so on a fifth of the training rows, which it also takes
its rounds by. skout takes what its fits report of held-out training rows, `metric_results_`, and
chooses penalties within a fit, so xRFM is given several. From 10,000 rows on there is one setting
each, skout's last fit has the landmarks of `SKETCH`, and a leaf of xRFM, which is exact, has at
most `LEAF` rows. Seconds are those of the processor, of all threads, and "wall" those of a clock.
Runs elsewhere write to --out, and --merge takes their records into that of this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from experiments import common
from experiments.common import print_table, read_record, record_path, write_record
from skout import KernelRidge
from skout.kernels import Gaussian, Laplacian, LearnedMetric, Matern
from skout.sketches import SubSample

DATA = ("airfoil", "autompg", "autos", "bike", "breastcancer", "challenger", "concreteslump")
DATA += ("energy", "fertility", "forest", "gas", "housing", "keggdirected", "keggundirected")
DATA += ("kin40k", "machine", "parkinsons", "pendulum", "pol", "pumadyn32nm", "servo")
DATA += ("skillcraft", "sml", "solar", "stock", "tamielectric", "wine")
SEED, LARGE, LEAF = 0, 10_000, 12_000
# Test parts of data sets with fewer rows than that.
SPLITS = {200: 10, 1000: 5, 3000: 3}
ALPHAS = np.logspace(-11, 0, 12)
# Landmarks of the last fit, from so many rows on.
SKETCH = {9000: 3000, 30_000: 4000}

OURS = {
    "matern 3/2": LearnedMetric(Matern(nu=1.5)),
    "matern 3/2, diagonal": LearnedMetric(Matern(nu=1.5), diagonal=True),
    "matern 1/2": LearnedMetric(Matern(nu=0.5)),
    "gaussian": LearnedMetric(Gaussian()),
    "laplacian": LearnedMetric(Laplacian()),
    "laplacian, matrix": LearnedMetric(Laplacian(), diagonal=False),
}
THEIRS = {
    "l2": {"kernel": "l2", "reg": 1e-3},
    "l2, reg 0.1": {"kernel": "l2", "reg": 0.1},
    "l2, reg 1": {"kernel": "l2", "reg": 1.0},
    "l2, diagonal": {"kernel": "l2", "reg": 1e-3, "diag": True},
    "l1": {"kernel": "l1", "reg": 1e-3},
    "l1, reg 0.1": {"kernel": "l1", "reg": 0.1},
}
LARGE_OURS, LARGE_THEIRS = ("matern 3/2",), ("l2",)
SETTINGS = {
    "skout": {name: repr(kernel) for name, kernel in OURS.items()},
    "xrfm": THEIRS,
    "large": {"skout": LARGE_OURS, "xrfm": LARGE_THEIRS, "rows": LARGE, "leaf": LEAF},
    "alphas": ALPHAS,
    "sketch": SKETCH,
    "iterations of xrfm": 5,
}


def load(name: str, split: int) -> tuple[np.ndarray, ...]:
    """Return training rows and targets, then those of a test part, standardised."""
    with np.load(Path(os.environ["SKOUT_DATA"]) / f"reg_{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64).ravel()
        test = np.unpackbits(file["test_mask"], axis=0, count=len(X))[:, split].astype(bool)
    X, y = (_standardised(values, ~test) for values in (X, y))
    return X[~test], y[~test], X[test], y[test]


def _standardised(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    spread = values[train].std(axis=0)
    return (values - values[train].mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)


def splits_of(n: int) -> int:
    """Return how many test parts are used with n training rows."""
    return next((number for most, number in SPLITS.items() if n < most), 1)


def rmse(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.asarray(found).ravel() - truth) ** 2)))


def our_model(kernel: Any, n: int) -> KernelRidge:
    sizes = [size for least, size in SKETCH.items() if n >= least]
    sketch = SubSample(sizes[-1]) if sizes else None
    return KernelRidge(kernel, sketch, alpha=ALPHAS, solver="direct", random_state=SEED)


def our_way(parts: tuple[np.ndarray, ...], names: Any) -> dict[str, Any]:
    """Fit with each kernel, and take the one whose rounds served held-out rows best."""
    X, y, X_test, y_test = parts
    models = {name: our_model(OURS[name], len(X)).fit(X, y) for name in names}
    losses = {name: model.metric_results_["mean_loss"].min() for name, model in models.items()}
    best = min(losses, key=losses.__getitem__)
    return {"rmse": rmse(models[best].predict(X_test), y_test), "setting": best}


def their_way(parts: tuple[np.ndarray, ...], names: Any) -> dict[str, Any]:
    """Choose a setting on a held-out fifth; the model is that of the other rows."""
    import torch
    from xrfm import xRFM

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    X, y, X_test, y_test = (torch.tensor(part, dtype=torch.float32) for part in parts)
    y = y[:, None]
    n, found = len(X), []
    held = np.zeros(n, dtype=bool)
    held[np.random.default_rng(SEED).choice(n, max(1, n // 5), replace=False)] = True
    for name in names:
        own = dict(THEIRS[name])
        fit = {"reg": own.pop("reg"), "iters": 5, "return_best_params": True}
        model = {"bandwidth": 10.0, "exponent": 1.0, "diag": False, "bandwidth_mode": "constant"}
        params = {"model": model | own, "fit": fit | {"early_stop_rfm": True, "verbose": False}}
        rfm = xRFM(
            params,
            max_leaf_size=LEAF,
            device="cpu",
            tuning_metric="mse",
            verbose=False,
            random_state=SEED,
        )
        rfm.fit(X[~held], y[~held], X[held], y[held])
        loss = rmse(rfm.predict(X[held]), y[held, 0].numpy())
        found.append((loss, rmse(rfm.predict(X_test), y_test.numpy()), name))
    _, error, setting = min(found)
    return {"rmse": error, "setting": setting}


def compare(name: str, split: int, theirs: Any = None) -> dict[str, Any]:
    """Return errors and seconds of both on one split; those of xRFM may be known."""
    parts = load(name, split)
    n = len(parts[0])
    large = n >= 0.9 * LARGE
    row: dict[str, Any] = {"data": name, "split": split, "n": n, "d": parts[0].shape[1]}
    row["on"] = f"{os.environ.get('OMP_NUM_THREADS', 'all')} threads of {os.cpu_count()} cores"
    for who, way, names in (
        ("skout", our_way, LARGE_OURS if large else tuple(OURS)),
        ("xrfm", their_way, LARGE_THEIRS if large else tuple(THEIRS)),
    ):
        if who == "xrfm" and theirs is not None:
            row[who] = theirs
            continue
        wall = time.perf_counter()
        begin = time.process_time()  # of all threads: other programs do not count
        found = way(parts, names)
        found["seconds"] = time.process_time() - begin
        row[who] = found | {"wall": time.perf_counter() - wall}
    return row


# Several targets ---------------------------------------------------------------------------------

TARGETS = ("andro", "atp1d", "edm", "enb", "jura", "oes10", "slump", "rf1")
TARGETS += ("births1", "births2", "wage")


def arrmse(found: np.ndarray, truth: np.ndarray, mean: np.ndarray) -> float:
    """Return the mean over targets of the error relative to that of the training mean."""
    return float(np.mean(np.sqrt(np.sum((found - truth) ** 2, 0) / np.sum((mean - truth) ** 2, 0))))


def compare_targets(name: str, split: int) -> dict[str, Any]:
    """Return aRRMSE of kernels as they are and with a learnt metric, on a random fifth."""
    with np.load(Path(os.environ["SKOUT_DATA"]) / f"mtr_{name}.npz") as file:
        X, Y = file["X"], file["Y"]
    whole = np.isfinite(X).all(axis=1) & np.isfinite(Y).all(axis=1)
    X, Y = X[whole], Y[whole]
    test = np.random.default_rng(split).permutation(len(X)) % 5 == 0
    X, Y = (_standardised(values, ~test) for values in (X, Y))
    row: dict[str, Any] = {"data": name, "split": split, "n": int((~test).sum()), "d": X.shape[1]}
    n = len(X[~test])
    for word, kernel in (
        ("matern", Matern()),
        ("learned", LearnedMetric()),
        ("laplacian", Laplacian()),
        ("learnt laplacian", LearnedMetric("laplacian")),
    ):
        sketch = SubSample(min(n, 1500))
        model = KernelRidge(kernel, sketch, alpha=ALPHAS, random_state=SEED)
        found = model.fit(X[~test], Y[~test]).predict(X[test])
        row[word] = arrmse(found, Y[test], Y[~test].mean(axis=0))
    return row


def run_targets(names: list[str], splits: int) -> None:
    """Record some data sets; the others keep the rows they have."""
    for name in names:
        rows = [compare_targets(name, split) for split in range(splits)]
        path = record_path("learned_metric_targets")
        old = read_record("learned_metric_targets")["results"] if path.is_file() else []
        rows += [row for row in old if row["data"] != name]
        write_record("learned_metric_targets", {"alphas": ALPHAS, "landmarks": 1500}, rows, SEED)
        print_table(rows, list(rows[0]))


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean errors and seconds of each data set, and the mean ranks at the end."""
    table = []
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        ours, theirs = (np.mean([r[who]["rmse"] for r in own]) for who in ("skout", "xrfm"))
        seconds = [np.mean([r[who]["seconds"] for r in own]) for who in ("skout", "xrfm")]
        line = {"data": name, "rows": own[0]["n"], "features": own[0]["d"], "splits": len(own)}
        line |= {"skout": f"{ours:.3f}", "xrfm": f"{theirs:.3f}", "rank": 1.0 + (ours > theirs)}
        table.append(line | {"time, xrfm / skout": f"{seconds[1] / seconds[0]:.1f}"})
    return table


def show(rows: list[dict[str, Any]]) -> None:
    table = summary(rows)
    print_table(table, list(table[0]))
    rank = np.mean([line["rank"] for line in table])
    print(f"mean rank of skout {rank:.2f}, of xrfm {3.0 - rank:.2f}, {len(table)} data sets")


def known_of_theirs(name: str, split: int) -> Any:
    """Return what the record has of xRFM, if anything."""
    rows = (
        read_record("learned_metric")["results"] if record_path("learned_metric").is_file() else []
    )
    own = [row["xrfm"] for row in rows if (row["data"], row["split"]) == (name, split)]
    return own[0] if own else None


def record(rows: list[dict[str, Any]]) -> None:
    """Write the record; splits that were not run keep the rows they have."""
    new = {(row["data"], row["split"]) for row in rows}
    old = (
        read_record("learned_metric")["results"] if record_path("learned_metric").is_file() else []
    )
    rows = rows + [row for row in old if (row["data"], row["split"]) not in new]
    rows = sorted(rows, key=lambda row: (DATA.index(row["data"]), row["split"]))
    write_record("learned_metric", SETTINGS, rows, SEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--targets", nargs="*", choices=TARGETS, help="sets of several targets")
    parser.add_argument("--splits", type=int, default=10, help="the most test parts")
    parser.add_argument("--ours", action="store_true", help="keep what the record has of xRFM")
    parser.add_argument("--table", action="store_true", help="only show the record")
    parser.add_argument("--out", type=Path, help="folder of the record, if not this one")
    parser.add_argument("--merge", nargs="+", type=Path, help="records to take into this one")
    arguments = parser.parse_args()
    common.RECORDS = arguments.out or common.RECORDS
    warnings.filterwarnings("ignore")
    if arguments.targets is not None:
        run_targets(arguments.targets or list(TARGETS), min(arguments.splits, 3))
        return
    if arguments.merge:
        record([row for path in arguments.merge for row in json.loads(path.read_text())["results"]])
    elif not arguments.table:
        for name in arguments.data:
            splits = range(min(arguments.splits, splits_of(len(load(name, 0)[0]))))
            known = {s: known_of_theirs(name, s) if arguments.ours else None for s in splits}
            rows = [compare(name, split, known[split]) for split in splits]
            record(rows)
            show(rows)
    show(read_record("learned_metric")["results"])


if __name__ == "__main__":
    main()
