"""Readers of SMILES, spectra, graphs, tables and saved models, fed with what no user means.

    python tests/fuzz.py [--minutes 10] [--seed 0] [--record PATH]

A reader may return rows or raise TypeError or ValueError; anything else is a crash. Memory is
watched, and counts as a crash beyond a bound. `test_fuzz.py` runs some examples of each.
`fuzz_files.py` says what is done to saved models.
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import math
import platform
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fuzz_files import MODELS, WAYS, read_model, saved
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from skout import KernelRidge, __version__
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
SEEDS = st.integers(0, 2**32 - 1)
#: How many saved models were refused, predicted, or loaded without being able to predict.
OUTCOMES: dict[str, int] = {}
# Megabytes that no reader may add to what the process took before.
MOST_MEMORY = 1000.0
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


def read_saved(given: tuple[str, str, int]) -> None:
    outcome = read_model(given)
    OUTCOMES[outcome] = OUTCOMES.get(outcome, 0) + 1


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
    **{
        f"saved: {way}": (st.tuples(st.sampled_from(list(MODELS)), st.just(way), SEEDS), read_saved)
        for way in WAYS
    },
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


def peak() -> float:
    """Return the most memory that the process ever had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> int:
    """Run all readers in turn until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="where to write what was found, as JSON")
    arguments = parser.parse_args()
    faulthandler.enable()
    for name in MODELS:
        saved(name)  # the memory that they take is not that of a reader
    for name in TARGETS:
        run(name, 20, arguments.seed)
    start, end, seed = peak(), time.monotonic() + 60.0 * arguments.minutes, arguments.seed
    OUTCOMES.clear()
    rows = {name: {"executions": 0, "crashes": 0, "megabytes": 0.0} for name in TARGETS}
    while time.monotonic() < end:
        for name, row in rows.items():
            before = peak()
            try:
                row["executions"] += run(name, 200, seed)
            except Exception:
                row["crashes"] += 1
                traceback.print_exc()
            row["megabytes"] = round(row["megabytes"] + peak() - before, 1)
        seed += 1
    report(arguments, rows, peak() - start)
    return int(any(row["crashes"] for row in rows.values()) or peak() - start > MOST_MEMORY)


def report(arguments: argparse.Namespace, rows: dict[str, Any], megabytes: float) -> None:
    """Print the counts, and write them where that is wanted."""
    for name, row in rows.items():
        print(f"{name:>20}", *(f"{row[key]:>10} {key}" for key in row))
    print(f"saved models: {OUTCOMES}; memory above that at the start: {megabytes:.0f} MB")
    if arguments.record is None:
        return
    record = {
        "settings": {"minutes": arguments.minutes, "seed": arguments.seed},
        "versions": {"python": platform.python_version(), "skout": __version__},
        "date": time.strftime("%Y-%m-%d"),
        "executions": sum(row["executions"] for row in rows.values()),
        "crashes": sum(row["crashes"] for row in rows.values()),
        "megabytes above the start": round(megabytes, 1),
        "saved models": dict(sorted(OUTCOMES.items())),
        "readers": rows,
    }
    arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
