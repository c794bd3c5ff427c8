"""Readers of SMILES, spectra, graphs, tables and saved models, fed with what no user means.

    python tests/helpers/fuzz.py [--minutes 10] [--seed 0] [--record PATH]
    python tests/helpers/fuzz.py --replay READER:SEED[:NUMBER]

A reader may return rows or raise TypeError or ValueError. Anything else is a failure: another
exception, the end of the process, too much time or memory. Batches of examples run in child
processes (`fuzz_watch.py`), so that each failure is named and can be replayed. `test_fuzz.py`
runs some examples of each. `fuzz_files.py` says what is done to saved models.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import platform
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from extras import extra
from fuzz_files import MODELS, WAYS, read_model, saved
from fuzz_watch import Outcome, peak, watched
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from skout import KernelRidge, __version__
from skout.kernels import NGram, PeakCosine, ProbabilityProduct, WeisfeilerLehman
from skout.molecules import fingerprints, parse_smiles
from skout.sketches import SubSample
from skout.sources import Blocks, open_parquet

pd = extra("pandas")

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
# Megabytes that a batch may add to what the process has, and to its addresses, used or not.
MOST_MEMORY, ADDRESSES = 1000.0, 3000.0
EXAMPLES = 200  # in a batch
SECONDS = 20.0  # for one of them
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


def run(
    name: str,
    examples: int,
    seed: int | None = None,
    *,
    begin: Callable[[Any], None] = lambda example: None,
    only: int | None = None,
) -> int:
    """Run a reader on so many examples, or on one of them, and return how many there were."""
    strategy, read = TARGETS[name]
    count, failed, start = 0, False, peak()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # a shrunk example would be of no seed
    )
    @given(strategy)
    def fuzz(value: Any) -> None:
        nonlocal count, failed
        count += not failed  # hypothesis repeats a failure
        if only is not None and count != only:
            return
        if not failed:
            begin((count, value))
        try:
            _read(read, value)
            assert peak() - start < MOST_MEMORY, f"took {peak() - start:.0f} MB"
        except BaseException:
            failed = True
            raise

    with _no_local_constants():
        (fuzz if seed is None else seeded(seed)(fuzz))()
    return count


@contextmanager
def _no_local_constants() -> Iterator[None]:
    """Keep hypothesis from drawing numbers and texts that it finds in the code of loaded modules.

    After each change of the code, that of a fix as well, a seed would stand for other examples.
    """
    try:
        from hypothesis.internal.conjecture import providers

        before, nothing = providers._get_local_constants, providers.Constants()
    except (ImportError, AttributeError):  # a version that does not
        yield
        return
    providers._get_local_constants = lambda: nothing
    try:
        yield
    finally:
        providers._get_local_constants = before


def _read(read: Callable[[Any], None], value: Any) -> None:
    try:
        read(value)
    except (TypeError, ValueError) as error:
        if isinstance(error, UnicodeError) or not str(error):  # says nothing to a user
            raise


def batch(name: str, seed: int, examples: int = EXAMPLES, only: int | None = None) -> Outcome:
    """Run a reader in a child process; its result is how the saved models ended."""

    def work(begin: Callable[[Any], None]) -> dict[str, int]:
        OUTCOMES.clear()
        run(name, examples, seed, begin=begin, only=only)
        return OUTCOMES

    return watched(work, seconds=SECONDS, megabytes=ADDRESSES)


def main() -> int:
    """Run all readers in turn until the time is over, or one batch again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="where to write what was found, as JSON")
    parser.add_argument("--replay", metavar="READER:SEED[:NUMBER]", help="a failure to see again")
    arguments = parser.parse_args()
    prepare()
    if arguments.replay:
        return replay(arguments.replay)
    begin = time.monotonic()
    rows, done = {name: Row() for name in TARGETS}, 0
    while time.monotonic() - begin < 60.0 * arguments.minutes:
        name, seed = list(TARGETS)[done % len(TARGETS)], arguments.seed + done // len(TARGETS)
        rows[name].add(name, seed)
        done += 1
    seeds = {"first": arguments.seed, "last": arguments.seed + (done - 1) // len(TARGETS)}
    report(arguments, rows, seeds, time.monotonic() - begin)
    return int(any(row.failures for row in rows.values()))


def prepare() -> None:
    """Do what takes time and memory once, so that no child has to."""
    threadpool_limits(1)  # a child has none of the threads of its parent
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    for name in MODELS:
        saved(name)
    for name in TARGETS:
        run(name, 10, seed=0)


def replay(text: str) -> int:
    """Run a batch again, or one example of it, and say how it ended."""
    found = re.fullmatch(r"(.+?):(\d+)(?::(\d+))?", text)
    if found is None or found[1] not in TARGETS:
        raise SystemExit(f"--replay takes READER:SEED[:NUMBER], the reader one of {list(TARGETS)}")
    outcome = batch(found[1], int(found[2]), only=None if found[3] is None else int(found[3]))
    print(outcome.last, outcome.failure or "no failure", f"{outcome.megabytes} MB", sep="\n")
    return int(outcome.failure is not None)


@dataclass
class Row:
    """What was counted of a reader."""

    executions: int = 0
    failures: list[str] = field(default_factory=list)
    megabytes: float = 0.0  # the most that a batch took
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, seed: int) -> None:
        """Run one more batch."""
        start = time.monotonic()
        outcome = batch(name, seed)
        self.seconds = round(self.seconds + time.monotonic() - start, 1)
        self.executions += outcome.begun
        self.megabytes = max(self.megabytes, outcome.megabytes)
        self.outcomes.update(outcome.result or {})
        if outcome.failure is not None:
            self.failures.append(f"{name}:{seed}:{outcome.begun}")
            print(f"--replay '{self.failures[-1]}'", outcome.last, outcome.failure, sep="\n")
            sys.stdout.flush()


def report(
    arguments: argparse.Namespace, rows: dict[str, Row], seeds: dict[str, int], seconds: float
) -> None:
    """Print the counts, and write them where that is wanted."""
    for name, row in rows.items():
        counts = f"{row.executions:>8} executions {len(row.failures):>4} failures"
        print(f"{name:>20}{counts} {row.megabytes:>8.1f} MB {row.seconds:>8.1f} s")
    outcomes = sum((row.outcomes for row in rows.values()), Counter())
    print(f"saved models: {dict(outcomes)}; {seconds:.0f} s")
    if arguments.record is None:
        return
    kept = {name: {k: v for k, v in vars(row).items() if v != {}} for name, row in rows.items()}
    record = {
        "settings": {"examples in a batch": EXAMPLES, "seconds for one": SECONDS}
        | {"megabytes for a batch": MOST_MEMORY, "megabytes of addresses": ADDRESSES},
        "versions": {"python": platform.python_version(), "skout": __version__}
        | {"hypothesis": hypothesis.__version__},
        "date": time.strftime("%Y-%m-%d"),
        "seeds": seeds,
        "seconds": round(seconds, 1),
        "executions": sum(row.executions for row in rows.values()),
        "failures": sum(len(row.failures) for row in rows.values()),
        "most megabytes above the start": max(row.megabytes for row in rows.values()),
        "saved models": dict(sorted(outcomes.items())),
        "readers": kept,
    }
    arguments.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
