"""The table: the same cells for a terminal, for a file and for the page."""

from __future__ import annotations

from .run import DemoRun

__all__ = ["HEADER", "best_cells", "cells", "plain_table"]

HEADER = (
    "method",
    "kernel loss",
    "pixel error",
    "right digit",
    "fit s",
    "predict s",
    "numbers stored",
)
_KEYS = (
    "kernel_loss",
    "pixel_error",
    "right_digit",
    "fit_seconds",
    "predict_seconds",
    "numbers_stored",
)
_FORMATS = ("{:.4f}", "{:.4f}", "{:.1%}", "{:.3f}", "{:.3f}", "{:,}")
_MORE_IS_BETTER = frozenset({"right_digit"})


def cells(run: DemoRun) -> list[list[str]]:
    """Return one row of text for each method, in the order of `HEADER`."""
    return [
        [m.name] + [f.format(m.metrics[k]) for f, k in zip(_FORMATS, _KEYS, strict=True)]
        for m in run.methods
    ]


def best_cells(run: DemoRun) -> list[list[bool]]:
    """Tell which cells hold the best figure of their column; a method's name never does."""
    rows = cells(run)
    marks = [[False] * len(HEADER) for _ in rows]
    for j, key in enumerate(_KEYS, start=1):
        sign = -1 if key in _MORE_IS_BETTER else 1
        best = min(range(len(rows)), key=lambda i: sign * run.methods[i].metrics[key])
        for i, row in enumerate(rows):
            marks[i][j] = row[j] == rows[best][j]
    return marks


def plain_table(run: DemoRun) -> str:
    """Return the table as aligned plain text."""
    rows = [list(HEADER), *cells(run)]
    widths = [max(len(row[j]) for row in rows) for j in range(len(HEADER))]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: list[str], widths: list[int]) -> str:
    """Return one line: the first column to the left, the others to the right."""
    first, *others = row
    padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return "  ".join([first.ljust(widths[0]), *padded])
