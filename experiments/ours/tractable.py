"""Tractable where IOKR is not: properties of 135,000 molecules, L+M-24, with time and memory.

    python -m experiments.ours.tractable [--size brief]

IOKR and SISOKR (2,000 landmarks of the inputs, 500 rows of an output sketch) on growing parts of
the training molecules, then SISOKR on all of them, where one Gram matrix of IOKR would take 146 GB
(16 GB of the distinct ones, and its factor as much again).
Tanimoto kernel of Morgan fingerprints, F1 kernel of label sets. Fit and prediction of 2,000 test
molecules: seconds of the processor, and how far the memory of the process rises. The thesis's set
for this statement, bookmarks, could not be had. Here IOKR is more accurate as far as it goes: 2,000
landmarks are few for molecules.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import psutil

from benchmarks.measure import peak_megabytes
from experiments.common import clock, read_record
from experiments.ours import lpm24
from experiments.papers.verdicts import Row, own
from experiments.pieces import Plan, Size, alone, joined, run_script
from skout import iokr
from skout.dev import unique
from skout.kernels import F1, Tanimoto
from skout.sketches import PSparsified, SubSample

ALPHA, N_TEST, SEED = 1e-6, 2000, 0
SKETCHES = {"IOKR": (None, None), "SISOKR": (SubSample(2000), PSparsified(500))}


def prepare() -> list[dict[str, Any]]:
    """Make the fingerprints, unless they are there."""
    if not lpm24.CACHE.is_file():
        lpm24.prepare()
    return []


@functools.cache
def parts() -> dict[str, lpm24.Part]:
    """Return the parts of the data, which several pieces share."""
    return lpm24.load(None)


def fitted(method: str, n: int | None) -> list[dict[str, Any]]:
    """Return seconds, memory and F1 of a method on `n` training molecules, or all of them."""
    train, test = parts()["train"], parts()["test"]
    order = np.random.default_rng(SEED).permutation(len(train.X))[:n]
    some = np.random.default_rng(SEED).permutation(len(test.X))[:N_TEST]
    X, Y = train.X[order], train.Y[order]
    asked = lpm24.Part.of(test.X[some], test.Y[some])
    inputs, outputs = SKETCHES[method]
    row: dict[str, Any] = {"method": method, "n": len(order), "distinct": len(unique(X)[0])}

    def run() -> None:
        model = iokr(
            Tanimoto(), F1(), input_sketch=inputs, output_sketch=outputs, alpha=ALPHA,
            random_state=SEED,
        )  # fmt: skip
        with clock() as fit:
            model.fit(X, Y)
        with clock() as predict:
            answer = model.predict(asked.X)
        row.update(fit=fit.cpu, predict=predict.cpu, **asked.scores(answer))

    row["megabytes"] = peak_megabytes(run)
    return [row]


def plan(size: Size) -> Plan:
    sizes = {
        "quick": (200, 400),
        "brief": (4000, 8000, 16_000),
        "full": (4000, 8000, 16_000, 32_000),
    }
    pieces = {"fingerprints": alone(prepare)}
    for n in sizes[size]:
        pieces |= {f"{method} {n}": alone(fitted, method, n) for method in SKETCHES}
    if size != "quick":
        pieces["SISOKR all"] = alone(fitted, "SISOKR", None)
    memory = round(psutil.virtual_memory().total / 1e9, 1)
    settings = {"sizes": sizes[size], "alpha": ALPHA, "n_test": N_TEST, "memory_gb": memory}
    return Plan("tractable", settings, pieces, joined)


def verdict() -> list[Row]:
    """Return IOKR and SISOKR side by side, and SISOKR where IOKR has no place."""
    record = read_record("tractable")
    found = {(row["method"], row["n"]): row for row in record["results"]}
    why = "another set: bookmarks could not be had"
    table = []
    for n in record["settings"]["sizes"]:
        text = "; ".join(said(found[method, n]) for method in SKETCHES)
        table.append(
            own(Row(f"{n:,} molecules", "SISOKR takes less time and memory", text, ""), why)
        )
    n = max(n for _, n in found)
    last = found["SISOKR", n]
    grams = (f"{8e-9 * size**2:.0f} GB" for size in (n, last["distinct"]))
    text = f"{said(last)}; IOKR: a Gram matrix of {' or, of distinct molecules, '.join(grams)}"
    text += f"; this machine has {record['settings']['memory_gb']} GB"
    return [*table, own(Row(f"{n:,} molecules", "tractable where IOKR is not", text, ""), why)]


def said(row: dict[str, Any]) -> str:
    seconds = row["fit"] + row["predict"]
    return f"{row['method']} {seconds:.1f} s, {row['megabytes']:.0f} MB, F1 {row['f1']:.1f} %"


if __name__ == "__main__":
    run_script(__doc__, plan, ["method", "n", "fit", "predict", "megabytes", "f1"])
