"""Kernels on mass spectra: all of MassBank against landmarks.

    python benchmarks/spectra.py [--quick]

Each kernel fills its 44,054 x 1,500 matrix, with the compiled loop of numba and without it. The
peer is the formula pair by pair, with NumPy over all pairs of peaks of two spectra, as published
code has it; it is timed on 20,000 pairs, on one core, and its seconds for the whole matrix follow
from those. Seconds are the fastest of three; megabytes include the result.
`error` is the largest difference from it on 200 random pairs, relative to the largest value.

Run it on a quiet machine. It needs the folder SKOUT_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measure import fastest, measure, print_table, write_record

from skout._numerics.threads import n_threads
from skout.basis.features import LandmarkFeatures, Projection
from skout.kernels import Kernel, Normalized, spectra
from skout.kernels.spectra import PeakCosine, ProbabilityProduct, Spectra
from skout.rows import Memory

N_LANDMARKS, N_TIMED, N_CHECKED, REPEATS = 1500, 20_000, 200, 3
COLUMNS = ["kernel", "engine", "seconds", "megabytes", "peer_seconds", "ratio", "error"]


def load(quick: bool) -> list[dict[str, Any]]:
    """Return spectra as dicts, of which some have no precursor."""
    path = Path(os.environ["SKOUT_DATA"]) / "massbank_ms2_pos_mh.parquet"
    frame = pl.read_parquet(path, columns=["mz", "intensity", "precursor_mz"])
    return frame.head(4000 if quick else len(frame)).rows(named=True)


def pair_formula(kernel: ProbabilityProduct) -> Callable[[Any, Any], float]:
    """Return k(x, y) over all pairs of peaks."""
    s, t = kernel.sigma_mass, kernel.sigma_intensity

    def value(x: Any, y: Any) -> float:
        (m, i), (mm, ii) = x, y
        exponent = ((m[:, None] - mm) / (2 * s)) ** 2 + ((i[:, None] - ii) / (2 * t)) ** 2
        return np.exp(-exponent).sum() / (4 * np.pi * s * t * len(m) * len(mm))

    return value


def peaks(rows: Spectra, neutral_loss: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return masses and relative intensities, spectrum by spectrum."""
    out = []
    for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        mass, intensity = rows.mz[a:b], rows.intensity[a:b]
        out.append(
            (rows.precursor[a] - mass if neutral_loss else mass, intensity / intensity.max())
        )
    return out


def formula_on_pairs(
    kernel: ProbabilityProduct, rows: Spectra, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return rows and landmarks of random pairs, the formula's values, and seconds a pair."""
    rng = np.random.default_rng(1)
    value, listed = pair_formula(kernel), peaks(rows, kernel.neutral_loss)
    i, j = rng.integers(len(rows), size=N_TIMED), rng.integers(len(chosen), size=N_TIMED)
    pairs = [(listed[a], listed[chosen[b]]) for a, b in zip(i, j, strict=True)]
    seconds = fastest(lambda: [value(x, y) for x, y in pairs])
    truth = np.array([value(x, y) for x, y in pairs[:N_CHECKED]])
    return i[:N_CHECKED], j[:N_CHECKED], truth, seconds / N_TIMED


def run(name: str, kernel: Kernel, rows: Spectra, chosen: np.ndarray) -> list[dict[str, Any]]:
    compiled, results = spectra._compiled, []
    for engine in ("numba", "numpy"):
        if engine == "numpy":
            spectra._compiled = lambda pair_value: None
        features = LandmarkFeatures(kernel, rows[chosen])  # compiles, which the clock does not see
        given = Projection(features), (features.m,), np.float64
        found = measure(partial(Memory(rows).map, *given), REPEATS)
        result = {"kernel": name, "engine": engine, "seconds": found.seconds}
        results.append(result | {"megabytes": found.megabytes})
        if isinstance(kernel, ProbabilityProduct):
            i, j, truth, pair_seconds = formula_on_pairs(kernel, rows, chosen)
            peer = pair_seconds * found.result.size
            error = float(np.abs(found.result[i, j] - truth).max() / truth.max())
            results[-1] |= {"peer_seconds": peer, "ratio": peer / found.seconds, "error": error}
    spectra._compiled = compiled
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="4,000 spectra, no record")
    quick = parser.parse_args().quick
    listed = load(quick)
    clock = time.perf_counter()
    rows = ProbabilityProduct().encode(listed)
    encoding = time.perf_counter() - clock
    with_precursor = rows[~np.isnan(rows.precursor[rows.indptr[:-1]])]
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(len(with_precursor), N_LANDMARKS, replace=False))
    results = run("ProbabilityProduct", ProbabilityProduct(), rows, chosen)
    losses = ProbabilityProduct(neutral_loss=True)
    results += run("ProbabilityProduct, losses", losses, with_precursor, chosen)
    results += run("Normalized", Normalized(ProbabilityProduct()), rows, chosen)
    results += run("PeakCosine", PeakCosine(), rows, chosen)
    print_table(results, COLUMNS)
    settings = {
        "spectra": len(rows),
        "peaks": len(rows.mz),
        "landmarks": N_LANDMARKS,
        "threads": n_threads(None),
        "encoding_seconds": encoding,
        "result_megabytes": 8e-6 * len(rows) * N_LANDMARKS,
    }
    print(settings)
    if not quick:
        write_record("spectra", settings, results)


if __name__ == "__main__":
    main()
