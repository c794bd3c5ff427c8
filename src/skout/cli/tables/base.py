"""What a table is to the command line: named columns, read by the block."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ...readers.cells import as_number, as_numbers, listed, no_column

__all__ = ["Part", "Table", "cell_text", "check_names", "listed", "picker", "select"]

# Most rows and cells that are read at a time, and the least rows, since a model has some work for
# each part; a cell of text takes about 60 bytes.
_PART_ROWS, _PART_CELLS, _LEAST_ROWS = 8192, 2**19, 16


@dataclass(frozen=True)
class Part:
    """Some rows of a table."""

    start: int  # number of the first row, from 1
    numbers: np.ndarray  # (n, d): the columns that were asked for as numbers
    texts: dict[str, list[str]]  # columns of text; empty where a cell is

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, keep: Sequence[int]) -> "Part":
        """Return some of its rows, as if they followed each other."""
        texts = {name: [cells[i] for i in keep] for name, cells in self.texts.items()}
        return Part(self.start, self.numbers[list(keep)], texts)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        cells = sum(60 * len(c) + sum(map(len, c)) for c in self.texts.values())
        return self.numbers.nbytes + cells


class Table(ABC):
    """A file of rows with named columns."""

    path: Path
    names: list[str]
    #: "number", "date" or "text" for each column, where the file says so; else cells tell.
    types: dict[str, str] | None = None
    #: What numbers have before their decimals.
    decimal: str = "."
    #: What people should know of how the file was read.
    notes: Sequence[str] = ()

    def parts(
        self, numbers: Sequence[str], texts: Sequence[str] = (), gaps: Sequence[str] = ()
    ) -> Iterator[Part]:
        """Yield the rows of some columns, read as numbers and as text.

        Missing numbers are NaN in the columns `gaps`; in all others they are an error.
        """
        known, may_miss = set(self.names), set(gaps)
        missing = [name for name in (*numbers, *texts) if name not in known]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise ValueError(
                f"{self.path} has no column {missing[0]!r}{more}. It has: {listed(self.names)}."
            )
        width = max(1, len(numbers) + len(texts))
        rows = max(_LEAST_ROWS, min(_PART_ROWS, _PART_CELLS // width))
        allowed = np.array([name in may_miss for name in numbers], dtype=bool)
        found = False
        for part in self._parts(list(numbers), list(texts), rows):
            found = True
            self._check_finite(part, numbers, allowed)
            yield part
        if not found:
            raise ValueError(f"{self.path} has columns, but no rows.")

    @abstractmethod
    def _parts(self, numbers: list[str], texts: list[str], rows: int) -> Iterator[Part]:
        """Yield parts of so many rows."""

    def _check_finite(self, part: Part, numbers: Sequence[str], may_miss: np.ndarray) -> None:
        finite = np.isfinite(part.numbers)
        if finite.all():
            return
        wrong = np.argwhere(~(finite | (np.isnan(part.numbers) & may_miss)))
        if len(wrong):
            i, j = wrong[0]
            value = part.numbers[i, j]
            raise self.missing(numbers[j], part.start + i, "" if np.isnan(value) else str(value))

    def missing(self, column: str, row: int, value: str = "") -> ValueError:
        """Return the error for a cell that is empty, or no number."""
        what = f"{value!r}, which is no finite number," if value else "no value"
        return ValueError(
            f"{self.path}: column {column!r} has {what} in {self.place(row)} (the first after the "
            "header is row 1). Fill it, or leave out the row, or the column with --drop; `skout "
            "fit --missing mean` fills missing inputs."
        )

    def place(self, row: int) -> str:
        """Return the words for a row."""
        return f"row {row}"

    def _parsed(self, cells: Sequence[Sequence[str]], names: list[str], start: int) -> np.ndarray:
        """Return cells as numbers."""
        try:
            values = as_numbers(list(chain.from_iterable(cells)), self.decimal)
            return values.reshape(len(cells), len(names))
        except ValueError:
            for i, row in enumerate(cells):
                for name, cell in zip(names, row, strict=True):
                    try:
                        as_number(cell, self.decimal)
                    except ValueError:
                        raise self.missing(name, start + i, cell.strip()) from None
            raise


def select(patterns: str, names: Sequence[str], option: str) -> list[str]:
    """Return the columns that are named, or match patterns such as label_*, in their order.

    Examples
    --------
    >>> from skout.cli.tables import select
    >>> select("y,x*", ["x1", "x2", "y", "z"], "--inputs")
    ['y', 'x1', 'x2']
    """
    known = set(names)
    if patterns in known:
        return [patterns]
    found: dict[str, None] = {}  # a set in order
    for word in (word.strip() for word in patterns.split(",")):
        matches = [word] if word in known else [n for n in names if fnmatchcase(n, word)]
        if not matches:
            raise ValueError(f"{option}: {no_column(word, names)}")
        found.update(dict.fromkeys(matches))
    return list(found)


def check_names(names: list[str], path: Path) -> None:
    if not names:
        raise ValueError(f"{path} has no columns.")
    place: dict[str, int] = {}
    for j, name in enumerate(names, 1):
        if name in place:
            raise ValueError(
                f"{path} has two columns {name!r}, number {place[name]} and number {j}: each needs "
                "its own name."
            )
        place[name] = j


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what picks some cells of a row; of one, itemgetter would give the cell itself."""
    return itemgetter(*places) if len(places) > 1 else lambda row: [row[j] for j in places]


def cell_text(cell: Any) -> str:
    """Return a cell of text; a list of labels as text too."""
    if cell is None:
        return ""
    return ";".join(map(str, cell)) if isinstance(cell, list | tuple) else str(cell)
