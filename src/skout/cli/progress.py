"""What people see of a command while it works."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from tqdm.auto import tqdm

from .tables import Part

__all__ = ["is_terminal", "note", "progress"]


def note(text: str) -> None:
    """Print a line that is no result."""
    print(f"skout: {text}", file=sys.stderr)


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
