"""Files of separated cells: CSV, TSV and their kin.

They go through pyarrow where it is installed, which is fast. Where that meets what it cannot read,
the standard library goes on from there: it takes more, and its errors name the line and the column.
"""

import csv
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..numerals import MISSING
from .base import NumberCells, Part, Table, check_names, picker
from .dialects import LONGEST, CsvRows, Dialect, Lines, open_bytes, open_text, recognise

__all__ = ["Delimited"]

# Bytes of a CSV file that pyarrow reads at a time. It works by the column, so that a part should
# have some rows; where these take more than the most bytes, the standard library reads by the row.
_PART_BYTES, _MOST_BYTES, _FEW_ROWS = 2**20, 2**24, 256
# What pyarrow takes for a missing number.
_NULLS = [word for one in MISSING for word in {one, one.upper(), one.title()}]
_CLOSE = 'A quote (") is opened there and never closed: close it, or double those inside cells.'
_SAVE = "Save it as CSV in UTF-8, with quotes around cells that have separators in them."


class Delimited(Table):
    """Cells with separators between them, the first record being the names of the columns."""

    _is_file = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dialect = self._recognised()
        self.decimal, self.notes = self._dialect.decimal, self._dialect.notes
        csv.field_size_limit(LONGEST)
        with self._read() as reader:
            self.names = [name.strip() for name in next(reader, [])]
            first = next(self._rows(reader), [])
        check_names(self.names, path)
        self._row_bytes = sum(map(len, first)) + len(first)

    def _recognised(self) -> Dialect:
        return recognise(self.path)

    def _open(self) -> AbstractContextManager[TextIO]:
        return open_text(self.path, self._dialect.encoding)

    @contextmanager
    def _read(self) -> Iterator[CsvRows]:
        """Open the file before its header; say where it is no CSV or no text."""
        how, self._line = self._dialect, 0
        with self._open() as file:
            for _ in range(how.skip):
                file.readline()
            try:
                yield CsvRows(Lines(file, self.path), how.delimiter)
            except (csv.Error, UnicodeError) as error:
                open_quote = "unexpected end of data" in str(error)
                remedy = _CLOSE if open_quote else _SAVE
                raise ValueError(
                    f"{self.path} is no CSV file: {error}, in the row that begins in line "
                    f"{self._line + 1 + how.skip}. {remedy}"
                ) from error

    def _rows(self, reader: CsvRows) -> Iterator[list[str]]:
        """Yield the rows after the header, each as long as it."""
        width, number = len(self.names), 0
        self._line = reader.line_num  # of the last record that is whole
        for row in reader:
            self._line = reader.line_num
            if not row and width > 1:  # an empty line
                continue
            number += 1
            row = row or [""]
            if len(row) != width:
                raise ValueError(
                    f"{self.path}: row {number} (line {reader.line_num + self._dialect.skip}) has "
                    f"{len(row)} cells, and the header {width}. Quote cells that have a "
                    f"{self._dialect.delimiter!r} in them, and fill up rows that are too short."
                )
            yield row

    def place(self, row: int) -> str:
        """Return the row and its line; found only where an error names it."""
        with self._read() as reader:
            next(reader)
            for number, _ in enumerate(self._rows(reader), 1):
                if number == row:
                    return f"row {row}, line {reader.line_num + self._dialect.skip}"
        return super().place(row)

    def _parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: NumberCells
    ) -> Iterator[Part]:
        done, is_complete = yield from self._fast_parts(numbers, texts, cells)
        if not is_complete:
            yield from self._slow_parts(numbers, texts, rows, cells, done)

    def _fast_parts(
        self, numbers: list[str], texts: list[str], cells: NumberCells
    ) -> Generator[Part, None, tuple[int, bool]]:
        """Yield what pyarrow reads; return how many rows these were, and whether all."""
        try:
            import pyarrow
            from pyarrow import csv as arrow_csv
        except ImportError:
            return 0, False
        if not self._is_file:
            return 0, False
        # it would skip empty cells that are lines, and take a header of two lines for a row
        if len(self.names) == 1 or any("\n" in name or "\r" in name for name in self.names):
            return 0, False
        n_bytes = max(_PART_BYTES, _FEW_ROWS * self._row_bytes)
        if n_bytes > _MOST_BYTES:
            return 0, False
        wanted = list(dict.fromkeys([*numbers, *texts]))
        start, how = 1, self._dialect
        odd = [name for name in numbers if not cells.is_usual(name)]
        types = dict.fromkeys(numbers, pyarrow.float64())
        types |= dict.fromkeys([*texts, *odd], pyarrow.string())
        encoding = "utf-8" if how.encoding == "utf-8-sig" else how.encoding
        read = arrow_csv.ReadOptions(
            column_names=self.names,
            skip_rows=1 + how.skip,
            block_size=n_bytes,
            encoding=encoding,
        )
        parse = arrow_csv.ParseOptions(delimiter=how.delimiter, newlines_in_values=True)
        convert = arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=wanted,
            null_values=_NULLS,
            decimal_point=how.decimal,
        )
        try:
            with open_bytes(self.path) as file:
                plain = isinstance(getattr(file, "raw", None), FileIO)  # read faster by pyarrow
                source = pyarrow.OSFile(str(self.path)) if plain else file
                for batch in arrow_csv.open_csv(source, read, parse, convert):
                    part = _of_batch(batch, numbers, texts, cells, start)
                    start += len(part)
                    if len(part):
                        yield part
        except pyarrow.ArrowException:
            return start - 1, False
        return start - 1, True

    def _slow_parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: NumberCells, done: int
    ) -> Iterator[Part]:
        """Yield the rows after those that are done, read by the standard library."""
        place = {name: j for j, name in enumerate(self.names)}
        at = [place[name] for name in numbers]
        pick = picker(at)
        columns = {name: place[name] for name in texts}
        start = done + 1
        with self._read() as reader:
            next(reader)
            lines = islice(self._rows(reader), done, None)
            while block := list(islice(lines, rows)):
                matrix = cells.read([pick(row) for row in block], numbers, start)
                yield Part(start, matrix, {n: [r[j] for r in block] for n, j in columns.items()})
                start += len(block)


def _of_batch(
    batch: Any, numbers: list[str], texts: list[str], cells: NumberCells, start: int
) -> Part:
    """Return a batch of pyarrow, whose numbers are floats or texts; missing ones become NaN."""
    matrix = np.empty((batch.num_rows, len(numbers)))
    for j, name in enumerate(numbers):
        values = batch.column(name).to_numpy(zero_copy_only=False)
        is_text = values.dtype == object
        matrix[:, j] = cells.read_column(values.tolist(), name, start) if is_text else values
    return Part(start, matrix, {name: batch.column(name).to_pylist() for name in texts})
