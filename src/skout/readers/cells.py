"""What the cells of a column are: numbers, missing values, dates or text, told from all rows."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .dates import looks_like_date

__all__ = [
    "MISSING",
    "Content",
    "as_number",
    "as_numbers",
    "is_missing",
    "listed",
    "looks_like_id",
    "no_column",
]

#: Cells that stand for a missing value, in lower case.
MISSING = ("", "?", "na", "n/a", "#n/a", "nan", "null", "none")
# Of the filled cells, the share of numbers from which on any other cell is a mistake.
_MOSTLY = 0.9
# Rows from which on integers that only go up look like a number of the row.
_SOME_ROWS = 10
_NUMBER = re.compile(
    r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*", re.ASCII | re.IGNORECASE
).fullmatch
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII).fullmatch
# With a decimal comma, points may stand between groups of three digits.
_COMMA = re.compile(
    r"\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d*)?(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE
).fullmatch
# Names of columns that number the rows.
_IDS = ("", "id", "idx", "index", "row", "rowid", "row_id", "uid", "uuid", "guid", "unnamed: 0")


@dataclass
class Content:
    """What was seen of a column so far."""

    numbers: int = 0  # how many cells are numbers, dates, and other text
    dates: int = 0
    words: int = 0
    first_word: tuple[int, str] = (0, "")  # row and cell of the first that is no number
    goes_up: bool = True  # all cells are integers, each larger than the one before
    gaps: int = 0  # how many cells are empty, or stand for a missing value
    declared: str | None = None  # the kind, where the file itself has types
    decimal: str = "."  # what numbers have before their decimals
    _last: float = field(default=-np.inf, repr=False)

    def add(self, cells: Sequence[str], start: int) -> None:
        """Look at more cells, of which the first is in row `start`."""
        if self.decimal == ",":
            cells = [with_point(cell) for cell in cells]
        others = [i for i, cell in enumerate(cells) if not _NUMBER(cell)]
        filled = [i for i in others if not is_missing(cells[i])]
        self.numbers += len(cells) - len(others)
        self.gaps += len(others) - len(filled)
        if filled and not self.first_word[0]:
            self.first_word = start + filled[0], cells[filled[0]].strip()
        dates = sum(1 for i in filled if looks_like_date(cells[i]))
        self.dates += dates
        self.words += len(filled) - dates
        if self.goes_up:
            self.goes_up = self._go_up(cells)

    def _go_up(self, cells: Sequence[str]) -> bool:
        if not all(map(_INTEGER, cells)):
            return False
        values = [self._last, *map(float, cells)]
        self._last = values[-1]
        return all(a < b for a, b in itertools.pairwise(values))

    @property
    def counts_rows(self) -> bool:
        """Whether the column may be a number of the row."""
        return self.goes_up and self.numbers >= _SOME_ROWS

    @property
    def kind(self) -> str:
        """One of "number", "date", "text" and "empty"."""
        if self.declared is not None:
            return self.declared
        others = self.dates + self.words
        if self.numbers and self.numbers >= _MOSTLY * (self.numbers + others):
            return "number"
        if not others:
            return "empty"
        return "text" if self.words else "date"

    def __str__(self) -> str:
        """Return the kind, and what makes it one if there are numbers too."""
        row, cell = self.first_word
        if self.kind != "number" and self.numbers and row:
            return f"{self.kind}: {cell!r} in row {row}"
        return self.kind


def looks_like_id(name: str) -> bool:
    """Whether a column of this name numbers the rows."""
    return name.strip().lower() in _IDS


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def no_column(name: str, names: Sequence[str]) -> str:
    """Say that there is no column of a name, and which there are."""
    near = difflib.get_close_matches(str(name), list(map(str, names)), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no column {name!r}.{hint} There are: {listed(names)}."


def with_point(cell: str) -> str:
    """Return a cell with a decimal comma as one with a point; any other cell as it is.

    Examples
    --------
    >>> from skout.readers.cells import with_point
    >>> with_point("1.234,5"), with_point("a,b")
    ('1234.5', 'a,b')
    """
    return cell.replace(".", "").replace(",", ".") if _COMMA(cell) else cell


def as_number(cell: str, decimal: str = ".") -> float:
    """Return the number in a cell, NaN for a missing one; `10_2` is no number.

    Examples
    --------
    >>> from skout.readers.cells import as_number
    >>> as_number(" 1e5 "), as_number("?"), as_number("1,5", ",")
    (100000.0, nan, 1.5)
    >>> as_number("10_2")
    Traceback (most recent call last):
    ValueError: '10_2' is no number.
    """
    found = with_point(cell) if decimal == "," else cell
    if _NUMBER(found):
        return float(found)
    if is_missing(found):
        return np.nan
    raise ValueError(f"{cell!r} is no number.")


def as_numbers(cells: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return `as_number` of all cells, faster."""
    if decimal == ",":
        cells = [with_point(cell) for cell in cells]
    text = "".join(cells)
    if "_" not in text and text.isascii():  # then float takes no more than as_number
        try:
            return np.fromiter(map(float, cells), np.float64, count=len(cells))
        except ValueError:
            pass
    return np.fromiter(map(as_number, cells), np.float64, count=len(cells))


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.strip().lower() in MISSING
