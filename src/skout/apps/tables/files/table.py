"""`Table`: named columns of a file, read block by block as numbers and as text."""

from __future__ import annotations

import html
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from skout.dev import extra

from ..kinds import listed, no_column
from ..numerals import MISSING, PLAIN, Read, Writing, read_numbers
from ..reading import OddCells

if TYPE_CHECKING:
    import pyarrow as pa

# Most rows and cells that are read at a time, and the least rows, since a model has some work for
# each part; a cell of text takes about 60 bytes.
_PART_ROWS, _PART_CELLS, _LEAST_ROWS = 8192, 2**19, 16
# Rows of which all are read to tell what columns hold, and of how many later parts one is: to read
# all of 2,000,000 rows of five columns took 5.7 s of processor time, and with these two 1.6.
_ALL_ROWS, _ONE_IN = 2**18, 8
# Bytes of a file that is read once as a whole, and of its cells.
_SMALL, _SMALL_CELLS = 2**24, 2**25
# First cells of a row of totals, and the fewest rows above it.
_TOTALS = {
    "total",
    "totals",
    "grand total",
    "sum",
    "subtotal",
    "average",
    "mean",
    "summe",
    "gesamt",
}
_LEAST_ROWS_OF_TOTAL = 5
# The most last rows that are tried as remarks.
_MOST_REMARKS = 10


def load_pyarrow() -> ModuleType:
    """Return pyarrow with the modules that tables need; the error says what to install."""
    with extra("table", "Tables need pyarrow"):
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.feather
        import pyarrow.parquet
    loaded: ModuleType = pyarrow
    return loaded


@dataclass(frozen=True)
class Part:
    """Some rows of a table: columns of numbers and of texts."""

    start: int  # number of the first row, from 1
    numbers: np.ndarray  # (n, d): the columns that are read as numbers
    texts: dict[str, list[str]]  # columns of text; empty where a cell is
    names: tuple[str, ...] = ()  # of the columns of numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """Return the columns of numbers of these names, (n, len(names))."""
        if tuple(names) == self.names[: len(names)]:  # a view
            return self.numbers[:, : len(names)]
        place = {name: j for j, name in enumerate(self.names)}
        return self.numbers[:, [place[name] for name in names]]

    def take(self, keep: Sequence[int]) -> Part:
        """Return a part with some of the rows, numbered without gaps."""
        texts = {name: [cells[i] for i in keep] for name, cells in self.texts.items()}
        return replace(self, numbers=self.numbers[list(keep)], texts=texts)

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes."""
        cells = sum(60 * len(c) + sum(map(len, c)) for c in self.texts.values())
        return self.numbers.nbytes + cells


@dataclass(frozen=True)
class Reading:
    """How cells are read as numbers."""

    gaps: Sequence[str] = ()  # columns that may have cells that are missing, or no numbers
    writings: Mapping[str, Writing] = field(default_factory=dict)  # of columns that are not plain
    strict: bool = False  # whether a cell that is no number is an error in `gaps`, too


class Table:
    """Rows with named columns, in memory as `cells`, or in a file by `batches` of a subclass."""

    #: "number", "date" or "text" for each column, where the file says so; else cells tell.
    types: dict[str, str] | None = None
    #: What numbers have before their decimals.
    decimal: str = "."
    #: All rows, where these are in memory.
    cells: pa.Table | None = None
    #: Whether texts have letters as HTML writes them, such as &amp;.
    has_entities: bool = False
    #: A message on rows that were filled up, or left out at the end; a strict reading raises it.
    filled_up: str = ""
    #: Bytes of the file, where all rows may be kept in memory.
    size: float = math.inf
    _warned: tuple[str, ...] = ()

    def __init__(self, path: Path, names: list[str], notes: Sequence[str] = ()) -> None:
        self.path = path
        self.names = names
        self.notes = notes  # what people should know of how the file was read
        if not names:
            raise ValueError(f"{path} has no columns.")
        for name in (name for name, n in Counter(names).items() if n > 1):
            first, second = [j for j, other in enumerate(names, 1) if other == name][:2]
            raise ValueError(
                f"{path} has two columns {name!r}, number {first} and number {second}: each needs "
                "its own name."
            )

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield these columns, about so many rows at a time."""
        raise NotImplementedError

    def parts(
        self,
        numbers: Sequence[str],
        texts: Sequence[str] = (),
        reading: Reading | None = None,
        *,
        thinned: bool = False,
    ) -> Iterator[Part]:
        """Yield parts of some columns, read as numbers and as text.

        If `thinned`, a long table is sampled: all of its first rows, and then one part in eight.

        Missing numbers, and cells that are no numbers, are NaN in the columns of `reading.gaps`,
        and an error in others. At the end a warning counts the cells that were no numbers.
        """
        columns = list(dict.fromkeys([*numbers, *texts]))
        self._check_columns(columns)
        reading, start = reading or Reading(), 1
        if self.filled_up and reading.strict:
            raise ValueError(f"{self.filled_up}. Mend these rows, or read without --strict.")
        writings, gaps = reading.writings, set(reading.gaps)
        are_dates = {name for name in numbers if writings.get(name, PLAIN).are_dates}
        odd = {name: OddCells("dates" if name in are_dates else "numbers") for name in numbers}
        rows = int(_PART_CELLS / (1 + len(texts) + len(numbers) / 8))  # a number takes 8 bytes
        rows, pa = max(_LEAST_ROWS, min(_PART_ROWS, rows)), load_pyarrow()
        for number, batch in enumerate(self._slices(columns or self.names[:1], rows)):
            if thinned and start > _ALL_ROWS and number % _ONE_IN:
                start += batch.num_rows
                continue
            cells = dict(zip(columns, batch.columns, strict=False))
            matrix = np.empty((batch.num_rows, len(numbers)))
            for j, name in enumerate(numbers):
                read, seen = self._numbers(cells[name], writings.get(name, PLAIN), pa)
                refused = [] if name in gaps and not reading.strict else [*read.unread]
                refused += read.bounds if reading.strict else []
                if refused:
                    raise self.missing(name, start + min(refused), seen[min(refused)].strip())
                odd[name].add(seen, start, read.unread, read.bounds)
                matrix[:, j] = read.values
            self._check_finite(matrix, numbers, start, gaps)
            words = {name: self._texts(cells[name]) for name in texts}
            yield Part(start, matrix, words, tuple(numbers))
            start += len(matrix)
        if start == 1:
            raise ValueError(f"{self.path} has columns, but no rows.")
        messages = [replace(cells, rows=start - 1).message(name) for name, cells in odd.items()]
        for message in (self.filled_up, *messages):
            if message and message not in self._warned:
                self._warned = (*self._warned, message)
                warnings.warn(message, UserWarning, stacklevel=2)

    def _check_columns(self, columns: Sequence[str]) -> None:
        present = set(self.names)
        missing = [name for name in columns if name not in present]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise ValueError(
                f"{self.path} has no column {missing[0]!r}{more}. It has: {listed(self.names)}."
            )

    def _slices(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield so many rows at a time; a small file is read once, and then kept in memory."""
        if self.cells is None and self.size <= _SMALL:
            self.cells, self.size = self._in_memory(), math.inf  # tried once
            if self.cells is not None:
                self._leave_out_footer()
        if self.cells is not None:
            yield from self.cells.select(columns).to_batches(rows)
            return
        for batch in self.batches(columns, rows):
            yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))

    def _in_memory(self) -> pa.Table | None:
        """Return all rows; None if there are none, or if they take more than 32 MiB."""
        batches, size = [], 0
        for batch in self.batches(self.names, _PART_ROWS):
            batches.append(batch)
            size += batch.nbytes
            if size > _SMALL_CELLS:
                return None
        return load_pyarrow().Table.from_batches(batches) if batches else None

    def _leave_out_footer(self) -> None:
        """Leave out remarks below the table, and a row of totals above them.

        A remark fills the first cell only. Totals have a first cell that says so, as no other of
        its column does.
        """
        assert self.cells is not None
        n, names = self.cells.num_rows, self.cells.column_names
        least = max(_LEAST_ROWS_OF_TOTAL, n - _MOST_REMARKS)
        column = self.cells.column(names[0]).to_pylist()
        rows = self.cells.slice(least).to_pylist()
        kept = n
        while kept > least and _is_remark(rows[kept - 1 - least], column[:least]):
            kept -= 1
        last = rows[kept - 1 - least] if kept > least else {}
        name, word = next(((key, cell) for key, cell in last.items() if cell), (names[0], None))
        others = self.cells.column(name).to_pylist()[: kept - 1]
        if isinstance(word, str) and _is_total(word, others):
            kept -= 1
        if kept < n:
            which = "the last row" if kept == n - 1 else f"the first of the last {n - kept} rows"
            left = f"{self.path.name}: {which}, {column[kept] or word!r}, "
            left += "is left out" if kept == n - 1 else "and those below are left out"
            self.cells = self.cells.slice(0, kept)
            self.filled_up = ". ".join(filter(None, [self.filled_up, left]))

    def _numbers(
        self, cells: pa.Array, writing: Writing, pa: ModuleType
    ) -> tuple[Read, Sequence[str]]:
        """Return cells as numbers, and their texts where these had to be parsed."""
        if self.decimal == ",":
            writing = replace(writing, decimal=",")
        is_plain = writing.decimal == "." and not (writing.true or writing.are_dates)
        plain = _plain_numbers(cells, pa) if is_plain else None
        if plain is not None and not np.isinf(plain).any():
            return Read(plain, [], []), ()
        texts = self._texts(cells)
        return read_numbers(texts, writing), texts

    def _texts(self, cells: pa.Array) -> list[str]:
        texts = as_texts(cells)
        if self.has_entities:
            return [html.unescape(text) if "&" in text else text for text in texts]
        return texts

    def _check_finite(
        self, matrix: np.ndarray, names: Sequence[str], start: int, gaps: set[str]
    ) -> None:
        finite = np.isfinite(matrix)
        if finite.all():
            return
        may_miss = np.array([name in gaps for name in names], dtype=bool)
        wrong = np.argwhere(~(finite | (np.isnan(matrix) & may_miss)))
        if len(wrong):
            i, j = wrong[0]
            value = "" if np.isnan(matrix[i, j]) else str(matrix[i, j])
            raise self.missing(names[j], start + i, value)

    def missing(self, column: str, row: int, value: str = "") -> ValueError:
        """Return the error for a cell that is empty, or no number."""
        what = f"{value!r}, which is no finite number," if value else "no value"
        return ValueError(
            f"{self.path}: column {column!r} has {what} in {self.place(row)} (row 1 is the first "
            "after the header). Fill it, delete the row, or leave out the column with --drop; "
            "`skout fit --missing mean` fills missing inputs."
        )

    def place(self, row: int) -> str:
        """Return the place of a row in words, for messages."""
        return f"row {row}"


def _is_total(word: str, others: Sequence[Any]) -> bool:
    return word.strip(" :*").lower() in _TOTALS and word not in others


def _is_remark(row: Mapping[str, Any], others: Sequence[Any]) -> bool:
    """Whether only the first cell of a row is filled, by words that begin no other row."""
    first, *more = row.values()
    is_text = isinstance(first, str) and (" " in first.strip() or first.lstrip()[:1] in "*#†¹")
    return is_text and len(more) > 1 and not any(more) and first not in others


def _plain_numbers(cells: pa.Array, pa: ModuleType) -> np.ndarray | None:
    """Return cells as numbers, NaN where one is missing; None if any is not a plain number."""
    if pa.types.is_temporal(cells.type):  # which would be counts of seconds
        return None
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if not pa.types.is_string(cells.type):
        return None
    cells = pa.compute.utf8_trim_whitespace(cells)
    is_gap = pa.compute.is_in(pa.compute.utf8_lower(cells), value_set=pa.array(MISSING))
    with suppress(pa.ArrowInvalid):
        cells = pa.compute.if_else(is_gap, None, cells)
        return np.asarray(cells.cast(pa.float64()).to_numpy(zero_copy_only=False))
    return None


def as_texts(cells: pa.Array) -> list[str]:
    """Return cells as texts; a list of labels becomes one with ; between them."""
    if cells.type == "string" and not cells.null_count:
        return [*cells.to_pylist()]
    return [
        "" if cell is None else ";".join(map(str, cell)) if isinstance(cell, list) else str(cell)
        for cell in cells.to_pylist()
    ]


def select(patterns: str, names: Sequence[str], option: str) -> list[str]:
    """Return the columns that names, or patterns such as label_*, select, in their order.

    Examples
    --------
    >>> from skout.apps.tables.files import select
    >>> select("y,x*", ["x1", "x2", "y", "z"], "--inputs")
    ['y', 'x1', 'x2']
    """
    present = set(names)
    if patterns in present:
        return [patterns]
    selected: dict[str, None] = {}  # a set in order
    for word in (word.strip() for word in patterns.split(",")):
        matches = [word] if word in present else [n for n in names if fnmatchcase(n, word)]
        if not matches:
            raise ValueError(f"{option}: {no_column(word, names)}")
        selected.update(dict.fromkeys(matches))
    return list(selected)
