"""What the cells of a column are: numbers, missing values, dates or text, told from all rows."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .dates import is_basic_date, looks_like_date
from .numerals import Numerals, Writing, is_missing, is_plain

__all__ = ["Content", "listed", "looks_like_id", "no_column"]

# Of the filled cells, the share that must be dates.
_MOSTLY = 0.9
# Rows from which on integers that only go up look like a number of the row.
_SOME_ROWS = 10
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII).fullmatch
# Names of columns that number the rows.
_IDS = ("", "id", "idx", "index", "row", "rowid", "row_id", "uid", "uuid", "guid", "unnamed: 0")


@dataclass
class Content:
    """What was seen of a column so far: the one place that tells numbers and dates from text."""

    numerals: Numerals = field(default_factory=Numerals)
    dates: int = 0  # how many cells have the form of a date
    basic: int = 0  # how many plain numbers could be one too, 20240531
    words: int = 0  # how many are neither plain numbers nor dates, nor stand for a missing value
    first_word: tuple[int, str] = (0, "")  # row and cell of the first that is no plain number
    goes_up: bool = True  # all cells are integers, each larger than the one before
    gaps: int = 0  # how many cells are empty, or stand for a missing value
    declared: str | None = None  # the kind, where the file itself has types
    decimal: str = "."  # what numbers have before their decimals, where cells do not tell
    _last: float = field(default=-np.inf, repr=False)

    def add(self, cells: Sequence[str], start: int) -> None:
        """Look at more cells, of which the first is in row `start`."""
        others = [i for i, cell in enumerate(cells) if not is_plain(cell)]
        filled = [i for i in others if not is_missing(cells[i])]
        self.gaps += len(others) - len(filled)
        if filled and not self.first_word[0]:
            self.first_word = start + filled[0], cells[filled[0]].strip()
        odd = set(others)
        plain = [cell for i, cell in enumerate(cells) if i not in odd] if odd else cells
        words = [cells[i] for i in filled if not looks_like_date(cells[i])]
        self.numerals.add(plain, words)
        self.basic += sum(1 for cell in plain if is_basic_date(cell))
        self.dates += len(filled) - len(words)
        self.words += len(words)
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
        return self.goes_up and self.numerals.plain >= _SOME_ROWS

    @property
    def kind(self) -> str:
        """One of "number", "date", "text" and "empty"."""
        if self.declared is not None:
            return self.declared
        dates, filled = self.dates + self.basic, self.dates + self.numerals.filled
        if dates and dates >= _MOSTLY * filled:
            return "date"
        if self.numerals.are_numbers(self.dates):
            return "number"
        return "text" if self.dates or self.words or self.numerals.plain else "empty"

    @property
    def writing(self) -> Writing:
        """How the numbers are written, if there are any."""
        return self.numerals.writing(self.decimal)

    def __str__(self) -> str:
        """Return the kind, and what makes it one if there are numbers too."""
        row, cell = self.first_word
        if self.kind != "number" and self.numerals.plain and row:
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
