"""The path of the data through the modules: what one call of fit or predict passes through.

    python -m benchmarks.trace

Counts, on small inputs and with nothing left out, the functions, files and rooms of skout that a
call enters; its bounces, the calls into a file that is still at work further up the stack (A calls
B calls A); and how often somebody asks where rows lie. The calls are those of the README and the
pages, as users write them. tests/house/test_trace.py holds them to limits, which only fall.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import skout
from skout.rows import Source
from skout.sketches import SubSample

#: Functions that tell what users gave from each other, unless it is a source already.
ASKING = {"source", "is_lazy"}
# Frames of these names are no functions of their own.
_INNER = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")


@dataclass
class Trace:
    """What a call passed through."""

    functions: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    rooms: set[str] = field(default_factory=set)
    bounces: Counter[tuple[str, str]] = field(default_factory=Counter)  # (file, file that calls it)
    asked: int = 0

    def __str__(self) -> str:
        return (
            f"{len(self.functions):4d} functions {len(self.files):3d} files "
            f"{len(self.rooms):3d} rooms {self.bounces.total():4d} bounces of "
            f"{len(self.bounces):2d} kinds {self.asked:3d} questions where rows lie"
        )


def trace(call: Callable[[], Any]) -> Trace:
    """Return what a call of skout passes through; all of it in this thread."""
    passed, stack = Trace(), []

    def look(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("skout") or frame.f_code.co_name in _INNER:
            return
        if event == "call":
            _enter(passed, stack, name.removeprefix("skout."), frame)
        elif event == "return" and stack:
            stack.pop()

    with threadpool_limits(1):
        sys.setprofile(look)
        try:
            call()
        finally:
            sys.setprofile(None)
    return passed


def _enter(passed: Trace, stack: list[str], file: str, frame: Any) -> None:
    function = frame.f_code.co_name
    passed.functions.add(f"{file}.{function}")
    passed.files.add(file)
    passed.rooms.add(file.split(".")[0])
    given = next(iter(frame.f_locals.values()), None)
    passed.asked += function in ASKING and not isinstance(given, Source)
    if stack and file != stack[-1] and file in stack:
        passed.bounces[file, stack[-1]] += 1
    stack.append(file)


def ways() -> dict[str, Callable[[], Any]]:
    """The calls that are traced."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 3))
    Y, y = (X > 0).astype(float), np.sin(X[:, 0])
    missing = np.column_stack([y, X[:, 1] ** 2, X[:, 2]])
    missing[rng.random(missing.shape) < 0.3] = np.nan

    def on_disk() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", X)
            rows = np.load(Path(folder) / "X.npy", mmap_mode="r")
            return skout.KernelRidge("gaussian", SubSample(30), random_state=0).fit(rows, y)

    fitted = skout.sisokr("gaussian", "f1", random_state=0).fit(X, Y)
    alphas = [1e-4, 1e-3, 1e-2]
    return {
        "sisokr.fit": lambda: skout.sisokr("gaussian", "f1", random_state=0).fit(X, Y),
        "sisokr.predict": lambda: fitted.predict(X),
        "KernelRidge.fit, path, missing targets": lambda: skout.KernelRidge(
            "gaussian", SubSample(30), alpha=alphas, random_state=0
        ).fit(X, missing),
        "KernelRidge.fit, memmap": on_disk,
        "KernelMachine.fit": lambda: skout.KernelMachine(
            "gaussian", SubSample(30), random_state=0
        ).fit(X, y),
    }


def main() -> None:
    for name, call in ways().items():
        print(f"{name:40s} {trace(call)}")


if __name__ == "__main__":
    main()
