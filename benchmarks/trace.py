"""The way of the data through the modules: what one call of fit or predict passes through.

    python benchmarks/trace.py

Counts, on small inputs, the functions, files and rooms of skout that a call enters; the pairs of
rooms of which one calls back into the other while that is still at work (A calls B calls A); and
how often somebody asks where something given lies. tests/test_trace.py holds them to limits.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import skout
from skout.rows import Source
from skout.sketches import SubSample

#: Functions that tell what users gave from each other, unless it is a source already.
ASKING = {"source", "is_lazy"}
# The room of helpers, such as threads, that call back what they are given.
GROUND = "_numerics"
# Frames of these names are no functions of their own.
_INNER = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")


@dataclass
class Trace:
    """What a call passed through."""

    functions: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    rooms: set[str] = field(default_factory=set)
    bounces: set[tuple[str, str]] = field(default_factory=set)
    asked: int = 0

    def __str__(self) -> str:
        return (
            f"{len(self.functions):4d} functions {len(self.files):3d} files "
            f"{len(self.rooms):3d} rooms {len(self.bounces):3d} bounces "
            f"{self.asked:3d} questions where rows lie"
        )


def trace(call: Callable[[], Any]) -> Trace:
    """Return what a call of skout passes through, in this thread."""
    found, stack = Trace(), []

    def look(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("skout") or frame.f_code.co_name in _INNER:
            return
        if event == "call":
            _enter(found, stack, name.removeprefix("skout."), frame)
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def _enter(found: Trace, stack: list[str], file: str, frame: Any) -> None:
    function, room = frame.f_code.co_name, file.split(".")[0]
    found.functions.add(f"{file}.{function}")
    found.files.add(file)
    found.rooms.add(room)
    given = next(iter(frame.f_locals.values()), None)
    found.asked += function in ASKING and not isinstance(given, Source)
    above = [other for other in stack if other != GROUND]  # whose helpers call what they get
    if above and room != GROUND and room != above[-1] and room in above:
        found.bounces.add((room, above[-1]))
    stack.append(room)


def ways() -> dict[str, Callable[[], Any]]:
    """The calls that are traced."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 3))
    Y, y = (X > 0).astype(float), np.sin(X[:, 0])

    def model() -> Any:
        options = {"input_sketch": SubSample(30), "output_sketch": SubSample(6)}
        return skout.sisokr("gaussian", "f1", alpha=1e-3, random_state=0, **options)

    def on_disk() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", X)
            rows = np.load(Path(folder) / "X.npy", mmap_mode="r")
            return skout.KernelRidge("gaussian", SubSample(30), random_state=0).fit(rows, y)

    fitted = model().fit(X, Y)
    return {
        "sisokr.fit, NumPy": lambda: model().fit(X, Y),
        "sisokr.predict, NumPy": lambda: fitted.predict(X),
        "KernelRidge.fit, memmap": on_disk,
        "KernelMachine.fit, NumPy": lambda: skout.KernelMachine(
            "gaussian", SubSample(30), random_state=0
        ).fit(X, y),
    }


def main() -> None:
    for name, call in ways().items():
        print(f"{name:26s} {trace(call)}")


if __name__ == "__main__":
    main()
