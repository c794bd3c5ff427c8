"""How cost grows where it once grew fast: the slope of seconds against size, on logarithmic axes.

    python benchmarks/cliffs.py [--quick] [--label after] [--case frame cores ...]

frame    one row of a data frame of d columns is predicted
line     `skout fit` on a CSV of 60 rows and d columns, less what it takes on two columns
balls    NeighborhoodSubgraph of one ring of n nodes, each joined to the next two
cores    Core(ShortestPath) of one graph of n nodes, half of all edges there
letters  StringDecoder builds a string of about n letters
classes  KernelClassifier of 50 classes on n rows

A slope of 1 is linear, one of 2 quadratic. Seconds are of the processor, of this process and its
children, so that other work on the machine counts little. The record keeps what was measured under
other labels: run it on the code before a change with `--label before`, then on the code after it.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
from measure import RECORDS, print_table, write_record

from skout import KernelBasis, KernelClassifier, KernelRidge
from skout.decoding import StringDecoder
from skout.kernels import Core, NeighborhoodSubgraph, NGram, Normalized, ShortestPath, read_graphs
from skout.sketches import SubSample

SEED, ROWS, CLASSES = 0, 60, 50
SKOUT = [sys.executable, "-c", "from skout.apps.cli import main; main()"]


def processor_seconds(function: Callable[[], Any]) -> float:
    """Return the seconds that a call takes of the processor, children included."""
    start = _used()
    function()
    return _used() - start


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def frame(d: int) -> float:
    """Time the prediction of one row of a data frame of d columns."""
    X = pd.DataFrame(np.random.default_rng(SEED).standard_normal((ROWS, d)))
    X.columns = [f"column {j}" for j in range(d)]
    model = KernelRidge().fit(X, X["column 0"])
    return processor_seconds(lambda: model.predict(X[:1]))


def line(d: int) -> float:
    """Time `skout fit` on a file of d columns, less that of two columns."""
    return max(_fit_file(d) - _fit_file(2), 1e-3)


def _fit_file(d: int) -> float:
    X = np.random.default_rng(SEED).standard_normal((ROWS, d)).round(4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"c{j}" for j in range(d - 1)), "y"])
            writer.writerows(X.tolist())
        words = ["fit", str(path), "--target", "y", "-o", str(Path(folder) / "model")]
        return processor_seconds(
            lambda: subprocess.run([*SKOUT, *words], check=True, capture_output=True)
        )


def balls(n: int) -> float:
    """Time the features of one graph with few neighbours a node."""
    rng = np.random.default_rng(SEED)
    edges = [(u, (u + step) % n) for step in (1, 2) for u in range(n)]
    graphs = read_graphs([(edges, rng.integers(0, 3, n).tolist(), None)])
    return processor_seconds(lambda: NeighborhoodSubgraph().encode(graphs))


def cores(n: int) -> float:
    """Time the features of one dense graph."""
    rng = np.random.default_rng(SEED)
    edges = np.argwhere(np.triu(rng.random((n, n)) < 0.5, 1))
    graphs = read_graphs([(edges, rng.integers(0, 3, n).tolist(), None)])
    return processor_seconds(lambda: Core(ShortestPath()).encode(graphs))


def letters(n: int) -> float:
    """Time the decoding of the mean of five strings of n letters."""
    rng = np.random.default_rng(SEED)
    words = ["".join(rng.choice(list(ascii_lowercase), n)) for _ in range(5)]
    basis = KernelBasis(Normalized(NGram(3))).fit(words)
    decoder = StringDecoder(known=False, ends="known").fit(basis, words)
    coordinates = basis.transform(words).mean(axis=0, keepdims=True)
    return processor_seconds(lambda: decoder.decode(coordinates))


def classes(n: int) -> float:
    """Time the fit of a classifier of many classes."""
    rng = np.random.default_rng(SEED)
    y = rng.integers(0, CLASSES, n)
    X = rng.standard_normal((CLASSES, 5))[y] + 0.3 * rng.standard_normal((n, 5))
    model = KernelClassifier(sketch=SubSample(100), random_state=SEED)
    return processor_seconds(lambda: model.fit(X, y))


# The measured functions, with sizes that double; a quick run leaves out the last two.
CASES: dict[str, tuple[Callable[[int], float], list[int]]] = {
    "frame": (frame, [2500, 5000, 10_000, 20_000, 40_000]),
    "line": (line, [10_000, 20_000, 40_000, 80_000, 160_000]),
    "balls": (balls, [2000, 4000, 8000, 16_000, 32_000]),
    "cores": (cores, [75, 150, 300, 600, 1200]),
    "letters": (letters, [500, 1000, 2000, 4000, 8000]),
    "classes": (classes, [2000, 4000, 8000, 16_000, 32_000]),
}


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of seconds against sizes, both as logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(seconds, 1e-4)), 1)[0])


def measured(case: str, sizes: list[int], most: float) -> dict[str, Any]:
    """Time a case for each size, up to the first that takes more than `most` seconds."""
    function, seconds = CASES[case][0], []
    for size in sizes:
        seconds.append(round(function(size), 4))
        if seconds[-1] > most:
            break
    sizes = sizes[: len(seconds)]
    found = slope(sizes, seconds) if len(sizes) > 1 else None
    return {"case": case, "slope": found, "sizes": sizes, "seconds": seconds}


def earlier(label: str, done: list[str]) -> list[dict[str, Any]]:
    """Return the rows of the record that this run does not measure anew."""
    path = RECORDS / "cliffs.json"
    rows = json.loads(path.read_text())["results"] if path.exists() else []
    return [row for row in rows if row["label"] != label or row["case"] not in done]


def main() -> None:
    """Measure the chosen cases, print their slopes and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--label", default="after", help="what the record calls this code")
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--most", type=float, default=20.0, help="seconds that end a case")
    given = parser.parse_args()
    rows = []
    for case in given.case:
        sizes = CASES[case][1]
        row = measured(case, sizes[:-2] if given.quick else sizes, given.most)
        rows.append({"label": given.label} | row)
        print_table(rows[-1:], ["label", "case", "slope", "sizes", "seconds"])
    rows = sorted(earlier(given.label, given.case) + rows, key=lambda row: row["case"])
    settings = {"rows": ROWS, "classes": CLASSES, "most": given.most}
    print(write_record("cliffs", settings, rows))


if __name__ == "__main__":
    main()
