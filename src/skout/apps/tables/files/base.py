"""What a table is to the command line: named columns, read by the block."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..cells import listed, no_column
from ..numerals import PLAIN, Writing, plain_numbers, read_numbers
from ..reading import OddCells

__all__ = [
    "NumberCells",
    "Part",
    "Reading",
    "Table",
    "cell_text",
    "check_names",
    "listed",
    "picker",
    "select",
]

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


@dataclass(frozen=True)
class Reading:
    """How columns are read as numbers."""

    gaps: Sequence[str] = ()  # those in which cells may be missing, or no numbers
    writings: Mapping[str, Writing] = field(default_factory=dict)  # of those that are not plain
    strict: bool = False  # whether a cell that is no number is an error there, too


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
    _told: tuple[str, ...] = ()

    def parts(
        self,
        numbers: Sequence[str],
        texts: Sequence[str] = (),
        reading: Reading | None = None,
    ) -> Iterator[Part]:
        """Yield the rows of some columns, read as numbers and as text.

        Missing numbers, and cells that are none, are NaN in the columns that may have gaps; in all
        others they are an error. At the end a warning tells how many cells were no numbers.
        """
        reading = reading or Reading()
        known, may_miss = set(self.names), set(reading.gaps)
        missing = [name for name in (*numbers, *texts) if name not in known]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise ValueError(
                f"{self.path} has no column {missing[0]!r}{more}. It has: {listed(self.names)}."
            )
        width = max(1, len(numbers) + len(texts))
        rows = max(_LEAST_ROWS, min(_PART_ROWS, _PART_CELLS // width))
        allowed = np.array([name in may_miss for name in numbers], dtype=bool)
        cells, found = NumberCells(self, reading), False
        for part in self._parts(list(numbers), list(texts), rows, cells):
            found = True
            cells.count(len(part))
            self._check_finite(part, numbers, allowed)
            yield part
        if not found:
            raise ValueError(f"{self.path} has columns, but no rows.")
        for message in dict.fromkeys(cells.messages()):
            if message not in self._told:
                self._told = (*self._told, message)
                warnings.warn(message, UserWarning, stacklevel=2)

    @abstractmethod
    def _parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: "NumberCells"
    ) -> Iterator[Part]:
        """Yield parts of so many rows; `cells` reads texts as numbers."""

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


class NumberCells:
    """Reads the cells of a table as numbers, and counts those that are none."""

    def __init__(self, table: Table, reading: Reading) -> None:
        self._table, self._reading = table, reading
        self._gaps = set() if reading.strict else set(reading.gaps)
        self._odd: dict[str, OddCells] = {}
        self._rows = 0

    def writing(self, name: str) -> Writing:
        """Return how the numbers of a column are written; of the decimals the file has a say."""
        writing = self._reading.writings.get(name, PLAIN)
        return replace(writing, decimal=",") if self._table.decimal == "," else writing

    def is_usual(self, name: str) -> bool:
        """Whether the numbers of a column are written as the file has numbers."""
        writing = self.writing(name)
        return not writing.unit and writing.decimal == self._table.decimal

    def read(self, cells: Sequence[Sequence[str]], names: Sequence[str], start: int) -> np.ndarray:
        """Return rows of cells as numbers, of which the first row is `start`."""
        if self._table.decimal == "." and not self._reading.writings:
            plain = plain_numbers(list(chain.from_iterable(cells)))
            if plain is not None:
                return plain.reshape(len(cells), len(names))
        matrix = np.empty((len(cells), len(names)))
        for j, (name, column) in enumerate(zip(names, zip(*cells, strict=True), strict=True)):
            matrix[:, j] = self.read_column(column, name, start)
        return matrix

    def read_column(self, cells: Sequence[str], name: str, start: int) -> np.ndarray:
        """Return the cells of a column as numbers."""
        found = read_numbers(cells, self.writing(name))
        refused = [] if name in self._gaps else [*found.unread]
        if self._reading.strict:
            refused = sorted([*found.unread, *found.bounds])
        if refused:
            raise self._table.missing(name, start + refused[0], cells[refused[0]].strip())
        if found.unread or found.bounds:
            self._odd.setdefault(name, OddCells("numbers")).add(
                cells, start, found.unread, found.bounds
            )
        return found.values

    def count(self, rows: int) -> None:
        """Note that there were so many rows more."""
        self._rows += rows

    def messages(self) -> Iterator[str]:
        """Yield what is to be said of each column with cells that are no numbers."""
        for name, odd in self._odd.items():
            odd.rows = self._rows
            yield odd.message(name)


def select(patterns: str, names: Sequence[str], option: str) -> list[str]:
    """Return the columns that are named, or match patterns such as label_*, in their order.

    Examples
    --------
    >>> from skout.apps.tables.files import select
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
