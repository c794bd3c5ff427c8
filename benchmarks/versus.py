"""Two versions of skout beside each other: the same calls in turn, on the same machine.

    python -m benchmarks.versus 1ea1f59 [--repeats 7] [--only ridge ...]

The sources of a commit are unpacked aside, and a process works with each; the calls alternate
between the two, so that a slow minute of the machine meets both. Seconds are medians, memory is the
peak above what was there before the call. Rows of bibtex need the folder SKOUT_DATA.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.measure import peak_megabytes, print_table, write_record

ROOT = Path(__file__).resolve().parents[1]
Call = Callable[[], Any]


# The calls: only names that both versions have -------------------------------------------------


@cache
def _numbers(n: int, d: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    return X, np.sin(X[:, :10])


def ridge(dtype: str, alpha: Any = 1e-5) -> Call:
    from skout import KernelRidge
    from skout.kernels import Gaussian
    from skout.sketches import SubSample

    X, Y = _numbers(100_000, 50, dtype)
    model = KernelRidge(Gaussian(0.01), SubSample(1000), alpha=alpha, random_state=0)
    return partial(model.fit, X, Y)


def ridge_predict() -> Call:
    fit = ridge("float64")
    return partial(fit().predict, fit.args[0])


def one_row() -> Call:
    fit = ridge("float64")
    predict = partial(fit().predict, fit.args[0][:1])
    return lambda: [predict() for _ in range(200)]


def ridge_on_disk() -> Call:
    from skout import KernelRidge
    from skout.kernels import Gaussian
    from skout.sketches import SubSample

    X, Y = _numbers(300_000, 50, "float32")
    folder = tempfile.TemporaryDirectory()
    np.save(Path(folder.name) / "X.npy", X)
    rows = np.load(Path(folder.name) / "X.npy", mmap_mode="r")
    model = KernelRidge(Gaussian(0.01), SubSample(500), alpha=1e-5, random_state=0)
    return lambda: (folder, model.fit(rows, Y))


def machine(loss: str) -> Call:
    from skout import KernelMachine, losses
    from skout.kernels import Gaussian
    from skout.sketches import SubSample

    X, Y = _numbers(100_000, 10, "float64")
    made = {"huber": partial(losses.Huber, 0.3), "pinball": partial(losses.Pinball, 0.9)}[loss]()
    model = KernelMachine(Gaussian(0.05), SubSample(300), loss=made, alpha=1e-5, random_state=0)
    return partial(model.fit, X, Y[:, 0] + Y[:, 1])


def _bibtex(method: str) -> tuple[Any, Any]:
    from skout import datasets, iokr
    from skout.kernels import Gaussian
    from skout.sketches import PSparsified, SubSample

    inputs = {"SIOKR": PSparsified(2250, distribution="gaussian"), "SISOKR": SubSample(2250)}
    outputs = PSparsified(200, distribution="gaussian") if "SO" in method else None
    kernels = Gaussian(0.5e-2), Gaussian(0.5e-4)
    sketches = {"input_sketch": inputs.get(method), "output_sketch": outputs}
    return iokr(*kernels, **sketches, alpha=1e-5, random_state=0), (
        datasets.load("bibtex") if hasattr(datasets, "load") else datasets.load_bibtex()
    )


def bibtex_fit(method: str) -> Call:
    model, data = _bibtex(method)
    X, Y = data.train
    return partial(model.fit, X, Y.astype(np.float64))


def bibtex_predict(method: str) -> Call:
    model, data = _bibtex(method)
    X, Y = data.train
    return partial(model.fit(X, Y.astype(np.float64)).predict, data.test[0])


def pool(kernel: str) -> Call:
    from skout import iokr
    from skout.kernels import Gaussian, Tanimoto
    from skout.sketches import SubSample

    rng = np.random.default_rng(0)
    bits = kernel == "tanimoto"
    Y = (rng.random((102_000, 256)) < 0.1).astype(float) if bits else _numbers(102_000, 32, "f8")[0]
    X = _numbers(2000, 10, "float64")[0]
    sketches = {"input_sketch": SubSample(200), "output_sketch": SubSample(200)}
    output = Tanimoto() if bits else Gaussian(0.5 / 32)
    model = iokr(Gaussian(0.05), output, **sketches, alpha=1e-3, random_state=0)
    model.fit(X, Y[:2000])
    return lambda: model.rank(X[:1000], model.embed(Y[2000:]), k=10)


CALLS: dict[str, Callable[[], Call]] = {
    "ridge, float32": partial(ridge, "float32"),
    "ridge, float64": partial(ridge, "float64"),
    "ridge, ten penalties": partial(ridge, "float64", np.logspace(-8, 1, 10)),
    "ridge, predict": ridge_predict,
    "ridge, one row, 200 times": one_row,
    "ridge, memory map": ridge_on_disk,
    "machine, Huber": partial(machine, "huber"),
    "machine, pinball": partial(machine, "pinball"),
    **{f"bibtex, {name}, fit": partial(bibtex_fit, name) for name in ("IOKR", "SIOKR", "SISOKR")},
    "bibtex, SISOKR, predict": partial(bibtex_predict, "SISOKR"),
    "pool, Gaussian": partial(pool, "gaussian"),
    "pool, Tanimoto": partial(pool, "tanimoto"),
}


# Two processes ---------------------------------------------------------------------------------


def work() -> None:
    """Do what is asked for, a line each: "name", then "time" and "memory"; answer in lines."""
    make: Callable[[], Call] = lambda: lambda: None  # noqa: E731
    call = make()
    for line in sys.stdin:
        kind, _, name = line.strip().partition(" ")
        if kind == "make":
            make = CALLS[name]
            call = make()
            call()  # compiled code, caches
            answer = 0.0
        elif kind == "memory":
            call = make()  # a model that was not fitted before, and holds nothing yet
            answer = peak_megabytes(call)
        else:
            clock = time.perf_counter()
            call()
            answer = time.perf_counter() - clock
        print(json.dumps(answer), flush=True)


class Version:
    """A process that works with the sources of one version."""

    def __init__(self, tree: Path, **variables: str) -> None:
        path = os.pathsep.join(map(str, (tree / "src", ROOT)))
        surroundings = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
        surroundings |= variables
        command = [sys.executable, __file__, "--work"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=surroundings, **pipes)

    def ask(self, line: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"The process ended at {line!r}: see what it said above.")
        return float(json.loads(answer))


def unpack(commit: str, folder: str) -> Path:
    """Write the sources of a commit into a folder."""
    command = ["git", "-C", str(ROOT), "archive", commit, "src"]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder)


def answers(name: str, question: str, trees: list[Path], repeats: int, **variables: str) -> Any:
    """Return what each version answers, in turn: shape (repeats, 2)."""
    both = [Version(tree, **variables) for tree in trees]
    for version in both:
        version.ask(f"make {name}")
    found = np.array([[version.ask(question) for version in both] for _ in range(repeats)])
    for version in both:
        version.process.kill()
    return found


def compare(name: str, trees: list[Path], repeats: int) -> dict[str, Any]:
    """Return medians of seconds and of peaks of memory of both, and ratios of seconds."""
    seconds = answers(name, "time", trees, repeats)
    # freed memory goes back at once, so that a peak is what was needed; how many blocks are at work
    # at the same moment is chance, so that one peak says little
    at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    memory = np.median(answers(name, "memory", trees, 5, **at_once), axis=0)
    ratios = seconds[:, 1] / seconds[:, 0]
    return {
        "call": name,
        "seconds before": float(np.median(seconds[:, 0])),
        "seconds after": float(np.median(seconds[:, 1])),
        "ratio": float(np.median(ratios)),
        "fastest ratio": float(seconds[:, 1].min() / seconds[:, 0].min()),
        "MB before": round(memory[0]),
        "MB after": round(memory[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="the version to compare this one with")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=[""], help="how names of calls begin")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    if options.commit is None:
        parser.error("name a commit to compare with, such as HEAD~10 or v0.1")
    names = [name for name in CALLS if name.startswith(tuple(options.only))]
    with tempfile.TemporaryDirectory() as folder:
        trees = [unpack(options.commit, folder), ROOT]
        rows = [compare(name, trees, options.repeats) for name in tqdm(names)]
    print_table(rows, list(rows[0]))
    if options.only == [""]:
        write_record("versus", {"before": options.commit, "repeats": options.repeats}, rows)


if __name__ == "__main__":
    main()
