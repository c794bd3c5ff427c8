"""Whether a budget of `Tuned` is a budget: wall seconds over the budget, and what score they buy.

    python -m benchmarks.budget [--budgets 5 20 60] [--only N] [--tables T ...] [--cpu] [--write]

Twenty tables: label sets, rankings, numbers and classes; small, wide, long and sparse ones, and
frames of mixed columns. A quarter of the rows is held out, at most 5,000 (of 300,000 rows and more
5,000), and scored at the end. A line for each fit; then, for each budget, the largest and the mean
ratio of wall time to budget, and the mean of scores over those of the longest budget. `--only N`
takes the first N tables; `--write` keeps a record. The machine must be quiet: wall time is what is
promised. On a busy one `--cpu` lets the budget, and all ratios, be those of processor time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets as of_sklearn

from benchmarks.measure import print_table, write_record
from skout import Tuned
from skout.datasets import load
from skout.dev import n_rows, take

Table = tuple[str, Any, Any]  # kind, X, Y
COLUMNS = ["table", "shape", "kind", "budget", "wall", "ratio", "validation", "test", "trials"]


def _labels(name: str) -> Table:
    data = load(name, "multilabel")
    return "label_sets", data.X, data.Y


def _ranks(name: str) -> Table:
    data = load(name, "ranking")
    return "rankings", data.X, data.Y


def _targets(name: str) -> Table:
    data = load(name, "multioutput")
    known = ~np.isnan(np.asarray(data.X)).any(axis=1)
    return "numbers", data.X[known], data.Y[known]


def _smooth(n: int, d: int) -> Table:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return "numbers", X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def _frame(n: int, n_numbers: int, n_words: int, kind: str) -> Table:
    """Numbers with gaps, categories and a date; the target needs a few of each."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"x{j}": rng.standard_normal(n) for j in range(n_numbers)}
    words = {f"c{j}": rng.integers(0, 3 + j % 12, n) for j in range(n_words)}
    score = columns["x0"] * (words["c0"] == 0) + np.abs(columns["x1"]) + 0.5 * words["c1"]
    score = score + 0.3 * rng.standard_normal(n)
    for j in range(0, n_numbers, 3):
        columns[f"x{j}"] = np.where(rng.random(n) < 0.1, np.nan, columns[f"x{j}"])
    columns |= {name: np.char.add("level ", codes.astype(str)) for name, codes in words.items()}
    columns["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    Y = score if kind == "numbers" else np.digitize(score, np.quantile(score, [0.3, 0.6, 0.9]))
    return kind, pd.DataFrame(columns), Y


TABLES: dict[str, Callable[[], Table]] = {
    "flags": lambda: _labels("flags"),
    "iris": lambda: _ranks("iris"),
    "edm": lambda: _targets("edm"),
    "wine": lambda: ("classes", *of_sklearn.load_wine(return_X_y=True)),
    "emotions": lambda: _labels("emotions"),
    "housing": lambda: _ranks("housing"),
    "atp1d": lambda: _targets("atp1d"),
    "digits": lambda: ("classes", *of_sklearn.load_digits(return_X_y=True)),
    "yeast": lambda: _labels("yeast"),
    "sushi": lambda: _ranks("sushi"),
    "enb": lambda: _targets("enb"),
    "medical": lambda: _labels("medical"),
    "frame": lambda: _frame(2_000, 8, 6, "classes"),
    "wide frame": lambda: _frame(2_200, 36, 43, "numbers"),
    "calhousing": lambda: _ranks("calhousing"),
    "scm20d": lambda: _targets("scm20d_testonly"),
    "bibtex": lambda: _labels("bibtex"),
    "wide": lambda: _smooth(1_500, 1_000),
    "long": lambda: _smooth(300_000, 20),
    "very long": lambda: _smooth(2_000_000, 20),
}


def measured(name: str, budget: float, clock: Callable[[], float]) -> dict[str, Any]:
    """Fit a table within a budget by a clock; return its seconds and scores."""
    kind, X, Y = TABLES[name]()
    n = n_rows(Y)
    order = np.random.default_rng(0).permutation(n)
    held, train = np.split(order, [min(n // 4, 5_000)])
    X_train, Y_train = take(X, np.sort(train)), take(Y, np.sort(train))
    model = Tuned(kind, budget=budget, random_state=0)
    start, cpu = clock(), time.process_time()
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        model.fit(X_train, Y_train)
    wall, cpu = clock() - start, time.process_time() - cpu
    shape = "x".join(map(str, getattr(X, "shape", (n,))))
    return {
        "table": name,
        "shape": shape,
        "kind": kind,
        "budget": budget,
        "wall": wall,
        "cpu": cpu,
        "ratio": wall / budget,
        "validation": model.score_,
        "test": model.score(take(X, held), take(Y, held)),
        "trials": sum(not row["cut"] for row in model.results_) - 1,
        "cut": model.cut_,
        "rows": [one["rows"] for one in model.best_settings_],
        "notes": [str(note.message) for note in notes],
    }


def totals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each budget, ratios of time and the mean of scores over the longest budget's."""
    budgets = sorted({row["budget"] for row in rows})
    best = {row["table"]: row["test"] for row in rows if row["budget"] == budgets[-1]}
    found = []
    for budget in budgets:
        own = [row for row in rows if row["budget"] == budget]
        ratios = np.array([row["ratio"] for row in own])
        found.append(
            {
                "budget": budget,
                "largest": float(ratios.max()),
                "mean": float(ratios.mean()),
                "above 1.3": int(np.sum(ratios > 1.3)),
                "score share": float(np.mean([row["test"] / best[row["table"]] for row in own])),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budgets", type=float, nargs="+", default=[5.0, 20.0, 60.0])
    parser.add_argument("--only", type=int, default=len(TABLES), metavar="N")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--write", action="store_true", help="keep a record")
    parser.add_argument("--cpu", action="store_true", help="budgets of processor time")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    Tuned._now = staticmethod(clock)  # type: ignore[assignment]
    rows = []
    for name in options.tables[: options.only]:
        for budget in options.budgets:
            rows.append(measured(name, budget, clock))
            line = (f"{key} {rows[-1][key]:.3g}" for key in ("wall", "ratio", "validation", "test"))
            extra = f"trials {rows[-1]['trials']} cut {rows[-1]['cut']} rows {rows[-1]['rows']}"
            print(f"{name:12} budget {budget:g}  {'  '.join(line)}  {extra}", flush=True)
    print()
    print_table(rows, COLUMNS)
    print_table(totals(rows), ["budget", "largest", "mean", "above 1.3", "score share"])
    if options.write:
        settings = {"budgets": options.budgets, "tables": options.tables[: options.only]}
        print(write_record("budget", settings, rows))


if __name__ == "__main__":
    main()
