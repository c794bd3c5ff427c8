"""Read columns as numbers, dates or texts; cells that cannot be read are missing, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .dates import day_order, is_date_range, parse_dates
from .numerals import Writing, is_missing, read_numbers


@dataclass
class OddCells:
    """Counts of the cells of a column that are unlike the others, with the first of each kind."""

    what: str = "numbers"
    rows: int = 0
    unread: int = 0
    bounds: int = 0  # bounds and estimates of numbers, or ranges of dates
    first_unread: tuple[int, str] | None = None  # row, from 1, and cell
    first_bound: tuple[int, str] | None = None
    ambiguous: str = ""  # a date that could be read in two ways

    def add(
        self,
        cells: Sequence[str],
        start: int,
        unread: Sequence[int] = (),
        bounds: Sequence[int] = (),
    ) -> None:
        """Count more cells, the first of which is in row `start`."""
        self.rows += len(cells)
        self.unread += len(unread)
        self.bounds += len(bounds)
        if len(unread) and self.first_unread is None:
            self.first_unread = start + unread[0], cells[unread[0]].strip()
        if len(bounds) and self.first_bound is None:
            self.first_bound = start + bounds[0], cells[bounds[0]].strip()

    def message(self, name: str) -> str:
        """Return a message on the odd cells of the column `name`, "" if there are none."""
        parts, of_all = [], f"of {self.rows:,} cells"
        if self.first_unread is not None:
            row, cell = self.first_unread
            many = self.unread > 1
            are = f"are no {self.what} and are" if many else f"is no {self.what[:-1]} and is"
            first = f"{'the first ' if many else ''}{cell!r} in row {row}"
            parts.append(f"{self.unread:,} {of_all} {are} taken as missing, {first}")
        if self.first_bound is not None:
            row, cell = self.first_bound
            are = "is" if self.bounds == 1 else "are"
            taken = "a bound or an estimate, of which the number is taken"
            if self.what == "dates":
                taken = "a range of dates, of which the first date is taken"
            parts.append(f"{self.bounds:,} {of_all} {are} {taken}, the first {cell!r} in row {row}")
        if self.ambiguous:
            parts.append(
                f"dates such as {self.ambiguous!r} do not tell whether the day or the month comes "
                "first, and are read with the month first; day_first=True of TableEncoder, or "
                "--day-first of `skout fit`, reads them with the day first"
            )
        return f"column {name!r}: {'; '.join(parts)}." if parts else ""

    def refuse(self, name: str) -> None:
        """Raise if there are odd cells, which a strict reading refuses."""
        first = self.first_unread or self.first_bound
        if first is not None:
            raise ValueError(
                f"X: column {name!r} must hold {self.what}: {first[1]!r} is no {self.what[:-1]}, "
                f"in row {first[0]}. Mend or empty the cell, or read it with strict=False."
            )
        if self.ambiguous:
            raise ValueError(
                f"X: column {name!r} has dates such as {self.ambiguous!r}, which do not tell "
                "whether the day or the month comes first: say day_first."
            )


def as_numbers(
    values: np.ndarray, name: str, writing: Writing, start: int = 1
) -> tuple[np.ndarray, OddCells]:
    """Return a column of numbers as floats, and its odd cells; row `start` is the first."""
    if values.dtype.kind == "M":
        raise ValueError(f"X: column {name!r} must hold numbers. Got dates.")
    odd = OddCells("numbers")
    if values.dtype.kind != "O":
        return values, odd
    cells = [cell or "" for cell in values]
    read = read_numbers(cells, writing)
    odd.add(cells, start, read.unread, read.bounds)
    return read.values, odd


def as_dates(
    values: np.ndarray,
    name: str,
    earlier: Mapping[str, bool],
    default: bool | None = None,
    start: int = 1,
) -> tuple[np.ndarray, OddCells, Mapping[str, bool]]:
    """Return a column of dates as datetime64, its odd cells, and the order of days and months."""
    odd = OddCells("dates")
    if values.dtype.kind == "M":
        return values, odd, earlier
    cells = [cell or "" for cell in as_texts(values)]
    order, odd.ambiguous = day_order(cells, earlier, default)
    moments = parse_dates(cells, order)
    unread = [i for i, cell in enumerate(cells) if np.isnat(moments[i]) and not is_missing(cell)]
    if values.dtype.kind == "f" and unread and np.isnat(moments).all():
        raise ValueError(f"X: column {name!r} must hold dates. Got numbers.")
    odd.add(cells, start, unread, [i for i, cell in enumerate(cells) if is_date_range(cell)])
    return moments, odd, order


def as_texts(values: np.ndarray) -> np.ndarray:
    """Return a column as texts, None where a value is missing."""
    if values.dtype.kind == "O":
        return values
    texts = np.empty(len(values), dtype=object)
    words = values.astype(str) if values.dtype.kind == "M" else map(_number_text, values.tolist())
    texts[:] = [
        None if gap else str(word) for gap, word in zip(np.isnan(values), words, strict=True)
    ]
    return texts


def _number_text(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
