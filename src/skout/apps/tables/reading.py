"""Columns as their kinds take them; cells that cannot be read are missing, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .dates import DayOrder, parse_dates
from .numerals import Writing, is_missing, read_numbers

__all__ = ["OddCells", "as_dates", "as_numbers", "as_texts"]


class _Cell(NamedTuple):
    row: int  # from 1
    text: str

    def __str__(self) -> str:
        return f"{self.text!r} in row {self.row}"


@dataclass
class OddCells:
    """Cells of a column that are not what the others are: how many of each kind, and the first."""

    what: str = "numbers"
    rows: int = 0
    unread: int = 0
    first_unread: _Cell | None = None
    bounds: int = 0
    first_bound: _Cell | None = None
    ambiguous: str = ""  # a date that could be read in two ways

    def add(
        self,
        cells: Sequence[str],
        start: int,
        unread: Sequence[int] = (),
        bounds: Sequence[int] = (),
    ) -> None:
        """Count cells of which the first is in row `start`."""
        self.rows += len(cells)
        self.unread += len(unread)
        self.bounds += len(bounds)
        if len(unread) and self.first_unread is None:
            self.first_unread = _Cell(start + unread[0], cells[unread[0]].strip())
        if len(bounds) and self.first_bound is None:
            self.first_bound = _Cell(start + bounds[0], cells[bounds[0]].strip())

    def message(self, name: str) -> str:
        """Return what is to be said of a column, "" if nothing is."""
        parts, of_all = [], f"of {self.rows:,} cells"
        if self.unread == 1:
            parts.append(
                f"1 {of_all} is no {self.what[:-1]} and is taken as missing, {self.first_unread}"
            )
        elif self.unread:
            parts.append(
                f"{self.unread:,} {of_all} are no {self.what} and are taken as missing, the first "
                f"{self.first_unread}"
            )
        if self.bounds:
            parts.append(
                f"{self.bounds:,} {of_all} {'is' if self.bounds == 1 else 'are'} a bound or an "
                f"estimate, of which the number is taken, the first {self.first_bound}"
            )
        if self.ambiguous:
            parts.append(
                f"dates such as {self.ambiguous!r} do not tell whether the day or the month comes "
                "first, and are read with the month first; day_first=True of TableEncoder, or "
                "--day-first of `skout fit`, reads them with the day first"
            )
        return f"column {name!r}: {'; '.join(parts)}." if parts else ""

    def refuse(self, name: str) -> None:
        """Raise for what a strict reading does not take."""
        first = self.first_unread or self.first_bound
        if first is not None:
            raise ValueError(
                f"X: column {name!r} must hold {self.what}: {first.text!r} is no "
                f"{self.what[:-1]}, in row {first.row}. Mend or empty the cell, or read "
                "it with strict=False."
            )
        if self.ambiguous:
            raise ValueError(
                f"X: column {name!r} has dates such as {self.ambiguous!r}, which do not tell "
                "whether the day or the month comes first: say day_first."
            )


def as_numbers(
    values: np.ndarray, name: str, writing: Writing, start: int = 1
) -> tuple[np.ndarray, OddCells]:
    """Return a column of numbers as floats, and what was odd; row `start` is the first."""
    if values.dtype.kind == "M":
        raise ValueError(f"X: column {name!r} must hold numbers. Got dates.")
    odd = OddCells("numbers")
    if values.dtype.kind != "O":
        return values, odd
    cells = ["" if cell is None else cell for cell in values]
    found = read_numbers(cells, writing)
    odd.add(cells, start, found.unread, found.bounds)
    return found.values, odd


def as_dates(
    values: np.ndarray,
    name: str,
    known: Mapping[str, bool],
    default: bool | None = None,
    start: int = 1,
) -> tuple[np.ndarray, OddCells, Mapping[str, bool]]:
    """Return a column of dates as moments, what was odd, and where days come first."""
    odd = OddCells("dates")
    if values.dtype.kind == "M":
        return values, odd, known
    texts = as_texts(values) if values.dtype.kind == "f" else values
    cells = ["" if cell is None else cell for cell in texts]
    order = DayOrder.of(cells, known, default)
    moments = parse_dates(cells, order.day_first)
    nat = np.flatnonzero(np.isnat(moments))
    unread = [i for i in nat.tolist() if not is_missing(cells[i])]
    if values.dtype.kind == "f" and unread and len(nat) == len(cells):
        raise ValueError(f"X: column {name!r} must hold dates. Got numbers.")
    odd.add(cells, start, unread)
    odd.ambiguous = order.ambiguous
    return moments, odd, order.day_first


def as_texts(values: np.ndarray) -> np.ndarray:
    """Return a column as texts, None where a value is missing."""
    if values.dtype.kind == "O":
        return values
    out = np.empty(len(values), dtype=object)
    is_date = values.dtype.kind == "M"
    gaps = np.isnat(values) if is_date else np.isnan(values)
    words = values.astype(str) if is_date else [_number_text(value) for value in values.tolist()]
    out[:] = [None if gap else str(word) for gap, word in zip(gaps, words, strict=True)]
    return out


def _number_text(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
