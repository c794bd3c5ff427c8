"""Notes and progress bars, on standard error."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..tables.files import Part, Table, open_table


def note(text: str) -> None:
    """Print a line on standard error, beside the results."""
    print(f"skout: {text}", file=sys.stderr)


def open_with_notes(path: Path) -> Table:
    """Open a table, and print notes on what is unusual in its file."""
    table = open_table(path)
    for text in table.notes:
        note(text)
    return table


def progress(parts: Iterator[Part], label: str) -> Iterator[Part]:
    """Yield the parts, with a progress bar of their rows on a terminal."""
    make: Callable[..., Any] = tqdm
    with make(desc=label, unit=" rows", unit_scale=True, disable=None, leave=False) as bar:
        for part in parts:
            yield part
            bar.update(len(part))


def is_terminal() -> bool:
    """Whether standard error is a terminal, where progress is shown."""
    return sys.stderr.isatty()
