"""Text files of records: opened whatever their compression and encoding, damage reported."""

from __future__ import annotations

import gzip
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._numerics.validation import check_choice

__all__ = ["Faults", "Problem", "as_path", "lines_of", "opened"]

_SHOWN = 5
ON_ERROR = ("raise", "skip")


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
    """Problems of a file: the first is raised, or all are kept and told in one warning.

    Parameters
    ----------
    path : Path, or binary file
    on_error : "raise" or "skip"
    """

    def __init__(self, path: Any, on_error: str) -> None:
        check_choice(on_error, "on_error", ON_ERROR)
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
                stacklevel=4,
            )


def lines_of(path: Any, faults: Faults) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers; a cut archive ends where it is cut.

    UTF-8, with or without a mark at its beginning, or Latin-1; lines may end in CR LF.

    Parameters
    ----------
    path : Path, or binary file
        A file at a path is compressed if it begins as gzip files do.
    faults : Faults
        Told where an archive is cut: the record is then numbered 0.
    """
    number = 0
    with opened(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                yield number, _decoded(raw, first=number == 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            faults.add(0, number, f"the archive is damaged from here on ({error}).")


@contextmanager
def opened(path: Any) -> Iterator[Any]:
    """Open a file for reading bytes, unpacked if it begins as gzip files do.

    Parameters
    ----------
    path : Path, or binary file, which is read as it is

    Yields
    ------
    stream : binary file
    """
    if hasattr(path, "read"):
        yield path
        return
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with open(path, "rb") as raw:
        if raw.peek(2)[:2] != b"\x1f\x8b":
            yield raw
            return
        with gzip.open(raw) as stream:
            yield stream


def _decoded(raw: bytes, *, first: bool) -> str:
    if first:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.strip()


def as_path(path: Any) -> Any:
    """Return a path from what a user gives; a file that is open stays one."""
    return path if hasattr(path, "read") else Path(path).expanduser()
