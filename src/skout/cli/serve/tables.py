"""The tables of requests: text of a CSV file, or records. No file is read."""

import io
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..tables import Delimited, Dialect, Part, Table, dialect_of

__all__ = ["table_of_records", "table_of_text"]


def table_of_text(text: str) -> Table:
    """Return the table that is the text of a CSV or TSV file."""
    if not text.strip():
        raise ValueError("The table is empty.")
    return _CsvText(text)


def table_of_records(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of rows that are dicts from a column to a number, a text or None.

    Examples
    --------
    >>> from skout.cli.serve.tables import table_of_records
    >>> [part] = table_of_records([{"x": 1, "y": "2.5"}]).parts(["y", "x"])
    >>> part.numbers
    array([[2.5, 1. ]])
    """
    if not records:
        raise ValueError("There are no rows.")
    return _Records(records)


class _CsvText(Delimited):
    """The text of a CSV or TSV file, which the standard library reads."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        super().__init__(Path("table"))

    def _recognised(self) -> Dialect:
        usual = "\t" if "\t" in self._text.partition("\n")[0] else ","
        return dialect_of(self._text, usual)

    def _open(self) -> TextIO:
        return io.StringIO(self._text, newline="")

    def _fast_parts(
        self, numbers: list[str], texts: list[str]
    ) -> Generator[Part, None, tuple[int, bool]]:
        yield from ()
        return 0, False


class _Records(Table):
    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.path = Path("rows")
        self.names = list(records[0])
        self._records = records

    def _parts(self, numbers: list[str], texts: list[str], rows: int) -> Iterator[Part]:
        for start in range(0, len(self._records), rows):
            some = self._records[start : start + rows]
            matrix = np.empty((len(some), len(numbers)))
            for i, cells in enumerate(self._cells(some, numbers, start)):
                matrix[i] = self._floats(cells, numbers, start + i + 1)
            words = list(self._cells(some, texts, start))
            columns = {name: [_text(row[j]) for row in words] for j, name in enumerate(texts)}
            yield Part(start + 1, matrix, columns)

    def _cells(
        self, records: Sequence[Mapping[str, Any]], names: list[str], start: int
    ) -> Iterator[list[Any]]:
        """Yield the cells of some columns, row by row."""
        for number, record in enumerate(records, start + 1):
            try:
                yield [record[name] for name in names]
            except KeyError as error:
                raise ValueError(f"{self.path}: row {number} has no {error.args[0]!r}.") from None

    def _floats(self, cells: list[Any], names: list[str], row: int) -> np.ndarray:
        """Return the numbers of a row; a text may hold one, and None is a missing one."""
        try:
            return np.array(cells, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return self._parsed([[_text(cell) for cell in cells]], names, row)[0]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
