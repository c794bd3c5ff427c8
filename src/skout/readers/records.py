"""Text files of records: opened whatever their compression and encoding, damage reported."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from .._numerics.validation import check_choice, check_number

__all__ = [
    "DAMAGED",
    "PACKED",
    "Faults",
    "Problem",
    "as_path",
    "ending",
    "lines_of",
    "opened",
    "read_all",
]

#: Ends of the names of compressed files.
PACKED = (".gz", ".bz2", ".xz")
# How they begin, and what opens them.
_OPENERS: dict[bytes, Callable[..., Any]] = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9]1AY&SY": bz2.open,
    rb"\xfd7zXZ\x00": lzma.open,
}
#: What is raised where a compressed file is damaged.
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)
_SHOWN = 5


@dataclass(frozen=True)
class Problem:
    """What is wrong with a record.

    Parameters
    ----------
    record : int
        Its number in the file; the first is 1.
    line : int
        The line of the file, 0 where the file has none.
    message : str
    """

    record: int
    line: int
    message: str

    def __str__(self) -> str:
        place = f"record {self.record}" + (f" (line {self.line})" if self.line else "")
        return f"{place}: {self.message}"


class Faults:
    """Problems of a file: the first is raised, or all are kept and told in one warning."""

    def __init__(self, path: Any, on_error: str) -> None:
        check_choice(on_error, "on_error", ("raise", "skip"))
        self.name, self.on_error = str(getattr(path, "name", "the text")), on_error
        self.problems: list[Problem] = []

    def add(self, record: int, line: int, message: str) -> None:
        """Raise, or remember, what is wrong with a record."""
        problem = Problem(record, line, message)
        if self.on_error == "raise":
            raise ValueError(f'{self.name}, {problem} Leave such out with on_error="skip".')
        self.problems.append(problem)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Warn at the end of what was left out."""
        yield
        if self.problems:
            shown = "; ".join(str(problem) for problem in self.problems[:_SHOWN])
            more = len(self.problems) - _SHOWN
            end = f"; and {more} more" if more > 0 else ""
            warnings.warn(
                f"{self.name}: {len(self.problems)} damaged records were left out. {shown}{end}",
                UserWarning,
                stacklevel=5,
            )


def read_all(
    path: Any, on_error: str, limit: int | None, records: Callable[[Any, Faults], Iterator[Any]]
) -> tuple[list[Any], tuple[Problem, ...]]:
    """Return the first records that `records(path, faults)` yields, and those left out."""
    if limit is not None:
        check_number(limit, "limit", low=1, integer=True)
    path = as_path(path)
    faults = Faults(path, on_error)
    with faults.told():
        found = list(islice(records(path, faults), limit))
    return found, tuple(faults.problems)


def lines_of(path: Any, faults: Faults, space: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers; a cut archive ends where it is cut.

    UTF-8, with or without a mark at its beginning, or Latin-1; lines may end in CR LF. `space` are
    the characters that both ends of a line are freed of, None for all white space. Where an archive
    is cut, `faults` is told so of a record 0.
    """
    number = 0
    with opened(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                yield number, _decoded(raw, first=number == 1).strip(space)
        except DAMAGED as error:
            faults.add(0, number, f"the archive is damaged from here on ({error}).")


@contextmanager
def opened(path: Any) -> Iterator[Any]:
    """Open a file for reading bytes, unpacked if it begins as compressed files do.

    A file that is open already is read as it is.
    """
    if hasattr(path, "read"):
        yield path
        return
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with open(path, "rb") as raw:
        start = raw.peek(10)
        unpack = next((way for mark, way in _OPENERS.items() if re.match(mark, start)), None)
        if unpack is None:
            yield raw
            return
        with unpack(raw) as stream:
            yield stream


def ending(path: str | Path) -> str:
    """Return the end of a file's name in lower case, without that of a compression.

    Examples
    --------
    >>> from skout.readers.records import ending
    >>> ending("Train.CSV.gz"), ending("train.tsv")
    ('.csv', '.tsv')
    """
    plain = Path(str(path).lower())
    return (plain.with_suffix("") if plain.suffix in PACKED else plain).suffix


def _decoded(raw: bytes, *, first: bool) -> str:
    if first:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def as_path(path: Any) -> Any:
    """Return a path from what a user gives; a file that is open stays one."""
    return path if hasattr(path, "read") else Path(path).expanduser()
