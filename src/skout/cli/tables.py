"""Read tables by the block: CSV, TSV, parquet and npz files, of any number of rows.

CSV goes through pyarrow where it is installed, which is fast. Where that meets what it cannot read,
the standard library goes on from there: it takes more, and its errors name the row and the column.
"""

import csv
import difflib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..readers.cells import MISSING, as_number, as_numbers
from .results import load_pyarrow

__all__ = ["Part", "Table", "is_table", "listed", "open_table", "select"]

# Most rows and cells that are read at a time, and the least rows, since a model has some work for
# each part; a cell of text takes about 60 bytes.
_PART_ROWS, _PART_CELLS, _LEAST_ROWS = 8192, 2**19, 16
# Bytes of a CSV file that pyarrow reads at a time. It works by the column, so that a part should
# have some rows; where these take more than the most bytes, the standard library reads by the row.
_PART_BYTES, _MOST_BYTES, _FEW_ROWS = 2**20, 2**24, 256
# What pyarrow takes for a missing number.
_NULLS = [word for one in MISSING for word in {one, one.upper(), one.title()}]
# Names of columns that a message shows.
_SHOWN = 12


@dataclass(frozen=True)
class Part:
    """Some rows of a table.

    Attributes
    ----------
    start : int
        Number of the first row, from 1.
    numbers : ndarray of shape (n, d)
        The columns that were asked for as numbers.
    texts : dict of str to list of str
        Columns of text; empty where a cell is.
    """

    start: int
    numbers: np.ndarray
    texts: dict[str, list[str]]

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

    def parts(
        self, numbers: Sequence[str], texts: Sequence[str] = (), gaps: Sequence[str] = ()
    ) -> Iterator[Part]:
        """Yield the rows of some columns.

        Parameters
        ----------
        numbers, texts : sequences of str
            Names of columns: those to be read as numbers, and as text.
        gaps : sequence of str
            Columns whose missing numbers are NaN; in all others they are an error.
        """
        known, may_miss = set(self.names), set(gaps)
        missing = [name for name in (*numbers, *texts) if name not in known]
        if missing:
            more = f" (nor {len(missing) - 1} others)" if len(missing) > 1 else ""
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
            f"{self.path}: column {column!r} has {what} in row {row} (the first after the header "
            "is 1). Fill it, or leave out the row, or the column with --drop; `skout fit --missing "
            "mean` fills missing inputs."
        )

    def _parsed(self, cells: Sequence[Sequence[str]], names: list[str], start: int) -> np.ndarray:
        """Return cells as numbers."""
        try:
            values = as_numbers(list(chain.from_iterable(cells)))
            return values.reshape(len(cells), len(names))
        except ValueError:
            for i, row in enumerate(cells):
                for name, cell in zip(names, row, strict=True):
                    try:
                        as_number(cell)
                    except ValueError:
                        raise self.missing(name, start + i, cell.strip()) from None
            raise


class _Csv(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
        with self._errors(), open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            self.names = [name.strip() for name in next(reader, [])]
            first = next(self._rows(reader), [])
        _check_names(self.names, path)
        self._row_bytes = sum(map(len, first)) + len(first)

    def _errors(self) -> "_CsvErrors":
        return _CsvErrors(self.path)

    def _rows(self, reader: Any) -> Iterator[list[str]]:
        """Yield the rows after the header, each as long as it."""
        width, number = len(self.names), 0
        for row in reader:
            if not row and width > 1:  # an empty line
                continue
            number += 1
            row = row or [""]
            if len(row) != width:
                raise ValueError(
                    f"{self.path}: row {number} (line {reader.line_num}) has {len(row)} cells, and "
                    f"the header {width}. Quote cells that have a {self._delimiter!r} in them."
                )
            yield row

    def _parts(self, numbers: list[str], texts: list[str], rows: int) -> Iterator[Part]:
        done, is_complete = yield from self._fast_parts(numbers, texts)
        if not is_complete:
            yield from self._slow_parts(numbers, texts, rows, done)

    def _fast_parts(
        self, numbers: list[str], texts: list[str]
    ) -> Generator[Part, None, tuple[int, bool]]:
        """Yield what pyarrow reads; return how many rows these were, and whether all."""
        try:
            import pyarrow
            from pyarrow import csv as arrow_csv
        except ImportError:
            return 0, False
        # it would skip empty cells that are lines, and take a header of two lines for a row
        if len(self.names) == 1 or any("\n" in name or "\r" in name for name in self.names):
            return 0, False
        n_bytes = max(_PART_BYTES, _FEW_ROWS * self._row_bytes)
        if n_bytes > _MOST_BYTES:
            return 0, False
        wanted = list(dict.fromkeys([*numbers, *texts]))
        types = dict.fromkeys(numbers, pyarrow.float64()) | dict.fromkeys(texts, pyarrow.string())
        start = 1
        try:
            reader = arrow_csv.open_csv(
                self.path,
                arrow_csv.ReadOptions(column_names=self.names, skip_rows=1, block_size=n_bytes),
                arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    column_types=types, include_columns=wanted, null_values=_NULLS
                ),
            )
            for batch in reader:
                part = _of_batch(batch, numbers, texts, start)
                start += len(part)
                if len(part):
                    yield part
        except pyarrow.ArrowException:
            return start - 1, False
        return start - 1, True

    def _slow_parts(
        self, numbers: list[str], texts: list[str], rows: int, done: int
    ) -> Iterator[Part]:
        """Yield the rows after those that are done, read by the standard library."""
        place = {name: j for j, name in enumerate(self.names)}
        at = [place[name] for name in numbers]
        # of one column, itemgetter would give the cell itself
        pick: Any = itemgetter(*at) if len(at) > 1 else lambda row: [row[j] for j in at]
        columns = {name: place[name] for name in texts}
        start = done + 1
        with self._errors(), open(self.path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            next(reader)
            lines = islice(self._rows(reader), done, None)
            while block := list(islice(lines, rows)):
                matrix = self._parsed([pick(row) for row in block], numbers, start)
                yield Part(start, matrix, {n: [r[j] for r in block] for n, j in columns.items()})
                start += len(block)


class _CsvErrors:
    """Say which file it was, where it is no CSV or no text."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if isinstance(error, csv.Error | UnicodeDecodeError):
            raise ValueError(f"{self.path} is no CSV file in UTF-8: {error}.") from error


class _Parquet(Table):
    def __init__(self, path: Path) -> None:
        self._arrow, self._parquet = load_pyarrow()
        self.path = path
        try:
            with self._parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
        except self._arrow.ArrowException as error:
            raise ValueError(f"{path} is no parquet file: {error}") from error
        self.names = list(schema.names)
        _check_names(self.names, path)
        self.types = {field.name: self._kind(field.type) for field in schema}

    def _kind(self, kind: Any) -> str:
        types = self._arrow.types
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if any(test(kind) for test in tests):
            return "number"
        return "date" if types.is_temporal(kind) else "text"

    def _parts(self, numbers: list[str], texts: list[str], rows: int) -> Iterator[Part]:
        start = 1
        wanted = list(dict.fromkeys([*numbers, *texts]))
        with self._parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(rows, columns=wanted):
                if not batch.num_rows:
                    continue
                matrix = np.empty((batch.num_rows, len(numbers)))
                for j, name in enumerate(numbers):
                    values = batch.column(name).to_numpy(zero_copy_only=False)
                    matrix[:, j] = self._floats(values, name, start)
                columns = {name: batch.column(name).to_pylist() for name in texts}
                yield Part(start, matrix, {n: [_text(c) for c in v] for n, v in columns.items()})
                start += len(matrix)

    def _floats(self, values: np.ndarray, name: str, start: int) -> np.ndarray:
        if self.types and self.types[name] == "number":
            return values.astype(np.float64)
        return self._parsed([[_text(value)] for value in values], [name], start)[:, 0]


class _Npz(Table):
    """Arrays of a npz file: a matrix X has the columns X0, X1, ..., a vector one column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: dict[str, np.ndarray] = {}
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path} is no npz file of plain arrays: {error}") from error
        for key, array in arrays.items():
            if array.ndim not in (1, 2):
                raise ValueError(f"{path}: {key} must have 1 or 2 axes. Got shape {array.shape}.")
            columns = {key: array} if array.ndim == 1 else _numbered(key, array)
            self._columns.update(columns)
        lengths = {key: len(array) for key, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{path}: the arrays differ in their numbers of rows: {lengths}.")
        self.names = list(self._columns)
        _check_names(self.names, path)
        kinds = dict.fromkeys("biuf", "number") | dict.fromkeys("mM", "date")
        self.types = {name: kinds.get(c.dtype.kind, "text") for name, c in self._columns.items()}

    def _parts(self, numbers: list[str], texts: list[str], rows: int) -> Iterator[Part]:
        n = len(self._columns[self.names[0]])
        for start in range(0, n, rows):
            some = slice(start, min(n, start + rows))
            matrix = np.empty((some.stop - start, len(numbers)))
            for j, name in enumerate(numbers):
                values = self._columns[name][some]
                if values.dtype.kind not in "biuf":
                    raise self.missing(name, start + 1, str(values[0]))
                matrix[:, j] = values
            columns = {name: [_text(c) for c in self._columns[name][some]] for name in texts}
            yield Part(start + 1, matrix, columns)


def _of_batch(batch: Any, numbers: list[str], texts: list[str], start: int) -> Part:
    """Return a batch of pyarrow, whose numbers are floats; missing ones become NaN."""
    matrix = np.empty((batch.num_rows, len(numbers)))
    for j, name in enumerate(numbers):
        matrix[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
    return Part(start, matrix, {name: batch.column(name).to_pylist() for name in texts})


def _numbered(key: str, array: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{key}{j}": array[:, j] for j in range(array.shape[1])}


_READERS: dict[str, type[Table]] = {".parquet": _Parquet, ".npz": _Npz}
_READERS |= dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), _Csv)


def is_table(path: Path) -> bool:
    """Whether the end of a name is that of a table."""
    return path.suffix.lower() in _READERS


def open_table(path: Path) -> Table:
    """Open a CSV, TSV, parquet or npz file, by the end of its name."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        ends = ", ".join(sorted(_READERS))
        raise ValueError(f"DATA must end in one of {ends}. Got {str(path)!r} instead.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return reader(path)  # type: ignore[call-arg]


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
            near = difflib.get_close_matches(word, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{option}: there is no column {word!r}.{hint} {_have(names)}")
        found.update(dict.fromkeys(matches))
    return list(found)


def _have(names: Sequence[str]) -> str:
    return f"There are: {listed(names)}."


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _check_names(names: list[str], path: Path) -> None:
    if not names:
        raise ValueError(f"{path} has no columns.")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{path} has two columns {twice!r}: each needs its own name.")


def _text(cell: Any) -> str:
    """Return a cell of text; a list of labels as text too."""
    if cell is None:
        return ""
    return ";".join(map(str, cell)) if isinstance(cell, list | tuple) else str(cell)
