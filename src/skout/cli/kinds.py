"""What the cells of a column are: numbers, missing values, dates or text, told from all rows."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["MISSING", "Content", "as_number", "as_numbers", "looks_like_id"]

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
_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T].*)?", re.ASCII
).fullmatch
# Names of columns that number the rows.
_IDS = ("", "id", "idx", "index", "row", "rowid", "row_id", "uid", "uuid", "guid", "unnamed: 0")


@dataclass
class Content:
    """What was seen of a column so far.

    Attributes
    ----------
    numbers, dates, words : int
        How many cells are numbers, dates and other text.
    first_word : tuple of int and str
        The row and the cell of the first that is no number.
    goes_up : bool
        Whether all cells are integers, each larger than the one before.
    declared : str, optional
        The kind, where the file itself has types.
    """

    numbers: int = 0
    dates: int = 0
    words: int = 0
    first_word: tuple[int, str] = (0, "")
    goes_up: bool = True
    declared: str | None = None
    _last: float = field(default=-np.inf, repr=False)

    def add(self, cells: Sequence[str], start: int) -> None:
        """Look at more cells, of which the first is in row `start`."""
        others = [i for i, cell in enumerate(cells) if not _NUMBER(cell)]
        filled = [i for i in others if not _is_missing(cells[i])]
        self.numbers += len(cells) - len(others)
        if filled and not self.first_word[0]:
            self.first_word = start + filled[0], cells[filled[0]].strip()
        dates = sum(1 for i in filled if _DATE(cells[i]))
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


def as_number(cell: str) -> float:
    """Return the number in a cell, NaN for a missing one; `10_2` is no number.

    Examples
    --------
    >>> from skout.cli.kinds import as_number
    >>> as_number(" 1e5 "), as_number("?")
    (100000.0, nan)
    >>> as_number("10_2")
    Traceback (most recent call last):
    ValueError: '10_2' is no number.
    """
    if _NUMBER(cell):
        return float(cell)
    if _is_missing(cell):
        return np.nan
    raise ValueError(f"{cell!r} is no number.")


def as_numbers(cells: Sequence[str]) -> np.ndarray:
    """Return `as_number` of all cells, faster."""
    text = "".join(cells)
    if "_" not in text and text.isascii():  # then float takes no more than as_number
        try:
            return np.fromiter(map(float, cells), np.float64, count=len(cells))
        except ValueError:
            pass
    return np.fromiter(map(as_number, cells), np.float64, count=len(cells))


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING
