"""What every experiment needs: the data, clean inputs, a record of what was run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import fastest, gemm_rate, print_table, surroundings
from skout import datasets

HERE = Path(__file__).resolve().parent

#: The committed records; `SKOUT_RECORDS` names another folder, as for one of several parallel runs.
COMMITTED = HERE / "records"
RECORDS, FIGURES = Path(os.environ.get("SKOUT_RECORDS", COMMITTED)), HERE / "figures"
#: Another place for records and figures, while `kept_in` holds.
_PLACE: ContextVar[Path | None] = ContextVar("place", default=None)

__all__ = [
    "COMMITTED",
    "FIGURES",
    "RECORDS",
    "Scaler",
    "as_json",
    "clock",
    "fastest",
    "figure_path",
    "kept_in",
    "load_labels",
    "load_numbers",
    "load_targets",
    "mean_sd",
    "print_table",
    "read_record",
    "record_path",
    "surroundings",
    "write_record",
]


# Data ------------------------------------------------------------------------------------------


def load_numbers(name: str) -> tuple[np.ndarray, np.ndarray, int | None]:
    """Return inputs, one target, and the rows of the official training part, if there is one."""
    data = datasets.load(name, "regression")
    official = set(data.split or ()) == {"train", "test"} and name != "boston"
    return np.asarray(data.X), np.ravel(data.Y), len(data.train[0]) if official else None


def load_targets(name: str) -> tuple[np.ndarray, np.ndarray, int, list[str]]:
    """Return inputs with NaN where missing, targets, n_train, names of targets."""
    data = datasets.load(name, "multioutput")
    names = [str(name).split("_")[0].lower() for name in data.names["outputs"]]
    return data.X, data.Y, len(data.train[0]), names


def load_labels(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return training inputs (CSR) and label sets (0/1), then those of the official test part."""
    data = datasets.load(name, "multilabel")
    (X, Y), (X_test, Y_test) = data.train, data.test
    return X, Y.astype(np.float64), X_test, Y_test.astype(np.float64)


class Scaler:
    """Fill missing values with training means, then centre and scale by training statistics."""

    def __init__(self, train: np.ndarray) -> None:
        self.mean = np.nanmean(train, axis=0)
        spread = np.nanstd(train, axis=0)
        self.scale = np.where(spread > 0.0, spread, 1.0)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.nan_to_num((rows - self.mean) / self.scale, nan=0.0)


# Records ---------------------------------------------------------------------------------------


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Write and read records and figures in a folder of their own, not among the committed ones."""
    token = _PLACE.set(folder)
    try:
        yield
    finally:
        _PLACE.reset(token)


def record_path(name: str) -> Path:
    """Return where a record is, or will be."""
    place = _PLACE.get()
    return RECORDS / f"{name}.json" if place is None else place / f"{name}.json"


def figure_path(name: str) -> Path:
    """Return where a figure is, or will be."""
    folder = _PLACE.get() or FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def write_record(
    name: str,
    settings: dict[str, Any],
    results: Sequence[dict[str, Any]],
    seed: int = 0,
    **about: float,
) -> Path:
    """Write seed, versions, settings, hardware, date and results as JSON; return the path.

    `about` is what else there is to say of the run: seconds, load.
    """
    record = {"experiment": name, "seed": seed} | surroundings() | about
    record["hardware"]["gemm_gflops"] = round(gemm_rate(np.float64, 2048) / 1e9, 1)
    record |= {"settings": settings, "results": list(results)}
    path = record_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, default=_plain) + "\n")
    return path


def read_record(name: str) -> dict[str, Any]:
    """Return a record, or stop with a message."""
    path = record_path(name)
    if not path.is_file():
        sys.exit(f"There is no record {name}.json yet: experiments/README.md says what writes it.")
    return json.loads(path.read_text())


def as_json(value: Any) -> Any:
    """Return what is left of a value that has been written and read again."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and arrays into what JSON knows; objects into their repr."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)


def mean_sd(values: Iterable[float], digits: int = 6) -> list[float]:
    """Return mean and standard deviation (with n - 1; 0 for one value), to so many digits."""
    array = np.asarray(list(values), dtype=np.float64)
    spread = array.std(ddof=1) if len(array) > 1 else 0.0
    return [float(f"{number:.{digits}g}") for number in (array.mean(), spread)]


class clock:
    """Seconds spent in a `with` block, as `.seconds`; those of the processor, all threads together,
    as `.cpu`.
    """

    def __enter__(self) -> clock:
        self.seconds, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu += time.process_time()
