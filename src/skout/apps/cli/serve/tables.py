"""The tables of requests: text of a CSV file, or records. No file is read."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from ...tables.files import Delimited, Dialect, NumberCells, Part, Records, Table, dialect_of

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
    >>> from skout.apps.cli.serve.tables import table_of_records
    >>> [part] = table_of_records([{"x": 1, "y": "2.5"}]).parts(["y", "x"])
    >>> part.numbers
    array([[2.5, 1. ]])
    """
    if not records:
        raise ValueError("There are no rows.")
    return _Rows(records)


class _CsvText(Delimited):
    """The text of a CSV or TSV file, which the standard library reads."""

    _is_file = False

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        super().__init__(Path("table"))

    def _recognised(self) -> Dialect:
        usual = "\t" if "\t" in self._text.partition("\n")[0] else ","
        return dialect_of(self._text, usual)

    def _open(self) -> TextIO:
        return io.StringIO(self._text, newline="")


class _Rows(Records):
    """Rows of a request; the first has the names of the columns."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.path, self.names, self._rows = Path("rows"), list(rows[0]), rows

    def _parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: NumberCells
    ) -> Iterator[Part]:
        asked = dict.fromkeys((*numbers, *texts))
        for number, row in enumerate(self._rows, 1):
            if not row.keys() >= asked.keys():
                name = next(name for name in asked if name not in row)
                raise ValueError(f"{self.path}: row {number} has no {name!r}.")
        return super()._parts(numbers, texts, rows, cells)

    def _records(self) -> Iterator[list[Any]]:
        for row in self._rows:
            as_first = list(row) == self.names  # mostly, and then values are the quicker way
            yield list(row.values()) if as_first else [row.get(name) for name in self.names]
