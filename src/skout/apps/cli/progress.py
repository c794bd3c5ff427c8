"""What people see of a command while it works."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..tables.files import Part, Table, open_table


def note(text: str) -> None:
    """Print a line that is no result."""
    print(f"skout: {text}", file=sys.stderr)


def opened(path: Path) -> Table:
    """Open a table, and say how it was read where that is not as usual."""
    table = open_table(path)
    for text in table.notes:
        note(text)
    return table


def progress(parts: Iterator[Part], label: str) -> Iterator[Part]:
    """Pass parts on; show how many rows there were, on a terminal."""
    make: Callable[..., Any] = tqdm
    with make(desc=label, unit=" rows", unit_scale=True, disable=None, leave=False) as bar:
        for part in parts:
            yield part
            bar.update(len(part))


def is_terminal() -> bool:
    """Whether somebody sees what is shown."""
    return sys.stderr.isatty()
