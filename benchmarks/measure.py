"""What every benchmark needs: seconds, peak memory, the GEMM rate of this run, a record."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import skout

RECORDS = Path(os.environ.get("SKOUT_RECORDS", Path(__file__).parent / "records"))


@dataclass
class Run:
    """One measured call."""

    result: Any
    seconds: float  # the fastest of the repeats
    first_seconds: float  # the first of them, as a user meets it
    megabytes: float  # peak anonymous memory above what was there before


def _anonymous_bytes() -> int:
    """Return the memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    import psutil

    return psutil.Process().memory_info().rss


def _return_freed_memory() -> None:
    """Give freed heap back to the system, so that the next peak starts from the truth."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def peak_megabytes(function: Callable[[], Any], every: float = 0.002) -> float:
    """Return how far the memory of this process rises while `function` runs."""
    _return_freed_memory()
    start = peak = _anonymous_bytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(every):
            peak = max(peak, _anonymous_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        function()
    finally:
        done.set()
        watcher.join()
    return (peak - start) / 1e6


def measure(function: Callable[[], Any], repeats: int = 1) -> Run:
    """Return the fastest of some runs, and the memory of one more, which the clock does not see."""
    seconds, result = [], None
    for _ in range(repeats):
        result = None
        clock = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - clock)
    return Run(result, min(seconds), seconds[0], peak_megabytes(function))


def fastest(function: Callable[[], Any], repeats: int = 3) -> float:
    """Return the seconds of the fastest of some runs."""
    seconds = []
    for _ in range(repeats):
        clock = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - clock)
    return min(seconds)


def gemm_rate(dtype: Any, size: int = 4096) -> float:
    """Return flops per second of a square matrix product on all cores."""
    A = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    A @ A
    return 2.0 * size**3 / fastest(lambda: A @ A)


def surroundings() -> dict[str, Any]:
    """Return versions, commit, hardware, load and date, for a record.

    `measures` are the files of skout that the run has imported: a record is out of date once one of
    them has changed.
    """
    import psutil

    return {
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "skout": skout.__version__,
            **_torch(),
        },
        "commit": _commit(),
        "code": code_version(),
        "hardware": {
            "machine": platform.machine(),
            "cores": psutil.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
            "blas": [f"{lib['internal_api']} {lib['version']}" for lib in threadpool_info()],
            **_card(),
        },
        "load": [round(load, 1) for load in os.getloadavg()],
        "measures": measured_files(),
        "date": time.strftime("%Y-%m-%d"),
    }


ROOT = Path(__file__).resolve().parents[1]
#: What a result depends on; records, figures and pages that a run writes do not count.
CODE = ("src/skout", ":(glob)benchmarks/**/*.py", ":(glob)experiments/**/*.py")


def git(*arguments: str) -> str | None:
    """Return what git says of this checkout; None where there is no repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _commit() -> str:
    """Return the commit of the code that runs, with a mark if the code differs from it.

    `SKOUT_COMMIT` names the commit, and `SKOUT_CODE` the tree of `src/skout`, of a clean copy that
    has no repository.
    """
    if "SKOUT_COMMIT" in os.environ:
        return os.environ["SKOUT_COMMIT"]
    commit = git("describe", "--always", "--abbrev=10")
    if commit is None:
        return "not known"
    return f"{commit}-dirty" if git("status", "--porcelain", "--", *CODE) else commit


def code_version() -> str:
    """Return a name for the code of the library as it is now: results of other code are stale."""
    if "SKOUT_CODE" in os.environ:
        return os.environ["SKOUT_CODE"]
    tree, changes = git("rev-parse", "HEAD:src/skout"), git("diff", "HEAD", "--", "src/skout")
    if tree is None:
        return skout.__version__
    return f"{tree[:10]}+{hashlib.sha1(changes.encode()).hexdigest()[:6]}" if changes else tree[:10]


def measured_files() -> list[str]:
    """Return the files of skout that this process has imported, from the root of the repository."""
    package = Path(skout.__file__).parent
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    inside = {Path(file) for file in files if file and Path(file).is_relative_to(package)}
    return sorted(f"src/skout/{path.relative_to(package).as_posix()}" for path in inside)


def _torch() -> dict[str, str]:
    """Return the version of PyTorch, where the run has imported it."""
    torch = sys.modules.get("torch")
    return {} if torch is None else {"torch": torch.__version__}


def _card() -> dict[str, str]:
    """Return the name of the card and the version of its software, where the run has used it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    return {"card": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "driver": _driver()}


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not known"
    return found.stdout.strip()


def write_record(name: str, settings: dict[str, Any], results: list[dict[str, Any]]) -> Path:
    """Write settings, versions, hardware and results as JSON; return the path."""
    record = {"benchmark": name, "settings": settings} | surroundings() | {"results": results}
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def print_table(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Print rows of a record as aligned text."""
    text = [columns] + [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[j]) for line in text) for j in range(len(columns))]
    for line in text:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
