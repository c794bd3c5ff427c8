"""Readers of SMILES, spectra, graphs and tables, fed with what no user means.

    python tests/fuzz.py [--minutes 10] [--seed 0]

A reader may return rows or raise TypeError or ValueError; anything else is a crash. `test_fuzz.py`
runs a few hundred examples of each.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from skout import KernelRidge
from skout.kernels import NGram, PeakCosine, ProbabilityProduct, WeisfeilerLehman
from skout.molecules import fingerprints, parse_smiles
from skout.sketches import SubSample
from skout.sources import Blocks, open_parquet

LETTERS = st.text(alphabet="CNOPSFclnos[]()=#@+-/\\.%0123456789HBri*:~$> \x00é", max_size=60)
NUMBERS = st.floats(width=64) | st.integers() | st.booleans() | st.none() | st.text(max_size=4)
JUNK = st.recursive(
    NUMBERS | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
PAIRS = st.lists(st.tuples(st.integers(-2, 6), st.integers(-2, 6)), max_size=6)
LABELS = st.lists(st.sampled_from(["C", "O", "é", ""]) | st.integers(), min_size=1, max_size=5)
GRAPHS = st.tuples(PAIRS, LABELS, st.none() | LABELS) | st.tuples(JUNK, JUNK, JUNK) | JUNK
MASSES = st.lists(st.floats(0.1, 2000.0) | NUMBERS, max_size=6)
SPECTRA = (
    st.tuples(MASSES, MASSES)
    | st.tuples(MASSES, MASSES, NUMBERS)
    | st.fixed_dictionaries({"mz": MASSES, "intensity": MASSES})
    | JUNK
)
CELLS = st.floats(-1e3, 1e3).map(repr) | st.sampled_from(["", "nan", "inf", "1e400", "x", "é", '"'])
TABLES = st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=8)


def read_smiles(texts: Any) -> None:
    found = parse_smiles(texts, on_error="none")
    assert len(found) == len(texts)
    valid = [text for text, molecule in zip(texts, found, strict=True) if molecule is not None]
    if valid:
        assert len(fingerprints(valid, n_bits=64)) == len(valid)
        WeisfeilerLehman(1)(valid)


def read_spectra(spectra: Any) -> None:
    for kernel in (ProbabilityProduct(), PeakCosine()):
        K = kernel(spectra)
        assert K.shape == (len(spectra), len(spectra))
        assert np.isfinite(K).all()


def read_graphs(graphs: Any) -> None:
    K = WeisfeilerLehman(2)(graphs)
    assert K.shape == (len(graphs), len(graphs))
    assert np.array_equal(K, K.T)


def read_strings(texts: Any) -> None:
    assert NGram(2, short="keep")(texts).shape == (len(texts), len(texts))


def fit_table(frame: pd.DataFrame, source: Callable[[pd.DataFrame], Blocks]) -> None:
    model = KernelRidge("linear", SubSample(1), alpha=1.0, random_state=0)
    assert np.isfinite(model.fit(source(frame)).predict(np.zeros((1, 2)))).all()


def read_csv(cells: Any) -> None:
    text = "a,b,c\n" + "\n".join(",".join(row) for row in cells)
    try:
        frame = pd.read_csv(io.StringIO(text))
    except ValueError:  # pandas' own
        return

    def blocks(frame: pd.DataFrame) -> Blocks:
        return Blocks(lambda: iter([(frame[["a", "b"]], frame["c"])]))

    fit_table(frame, blocks)


def read_parquet(cells: Any) -> None:
    frame = pd.DataFrame([[_number(cell) for cell in row] for row in cells], columns=list("abc"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        frame.to_parquet(path)
        fit_table(frame, lambda _: open_parquet(path, ["a", "b"], "c", rows=3))


def read_damaged_parquet(given: tuple[Any, int, int]) -> None:
    cells, position, byte = given
    frame = pd.DataFrame([[_number(cell) for cell in row] for row in cells], columns=list("abc"))
    content = bytearray(frame.to_parquet(None))
    content[position % len(content)] ^= byte
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        path.write_bytes(bytes(content))
        open_parquet(path, ["a", "b"], "c")


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


TARGETS: dict[str, tuple[Any, Callable[[Any], None]]] = {
    "SMILES": (st.lists(LETTERS | st.text(max_size=20), min_size=1, max_size=4), read_smiles),
    "spectra": (st.lists(SPECTRA, min_size=1, max_size=4), read_spectra),
    "graphs": (st.lists(GRAPHS, min_size=1, max_size=4), read_graphs),
    "strings": (st.lists(st.text(max_size=12) | JUNK, min_size=1, max_size=4), read_strings),
    "csv": (TABLES, read_csv),
    "parquet": (TABLES, read_parquet),
    "damaged parquet": (
        st.tuples(TABLES, st.integers(0, 10**6), st.integers(1, 255)),
        read_damaged_parquet,
    ),
}


def run(name: str, examples: int, seed: int | None = None) -> int:
    """Run a reader on so many examples, and return how many there were."""
    strategy, read = TARGETS[name]
    count = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(strategy)
    def fuzz(value: Any) -> None:
        nonlocal count
        count += 1
        try:
            read(value)
        except (TypeError, ValueError) as error:
            if isinstance(error, UnicodeError) or not str(error):  # says nothing to a user
                raise

    (fuzz if seed is None else seeded(seed)(fuzz))()
    return count


def main() -> int:
    """Run all readers in turn until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    end, seed = time.monotonic() + 60.0 * arguments.minutes, arguments.seed
    executions, crashes = dict.fromkeys(TARGETS, 0), dict.fromkeys(TARGETS, 0)
    while time.monotonic() < end:
        for name in TARGETS:
            try:
                executions[name] += run(name, 200, seed)
            except Exception:
                crashes[name] += 1
                traceback.print_exc()
        seed += 1
    for name, count in executions.items():
        print(f"{name:>16}  {count:>8} executions  {crashes[name]:>3} crashes")
    return int(any(crashes.values()))


if __name__ == "__main__":
    sys.exit(main())
