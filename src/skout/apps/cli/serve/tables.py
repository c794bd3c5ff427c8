"""The tables of requests: the text of a CSV file, or rows. No file is read."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...tables.files import Delimited, Table, strings


def table_of_text(text: str) -> Table:
    """Return the table that is the text of a CSV or TSV file."""
    if not text.strip():
        raise ValueError("The table is empty: it must have a header and rows.")
    return _Text(Path("table"), text.removeprefix("\ufeff"))


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
        raise ValueError("The list of rows is empty.")
    return _Records(records)


class _OfRequest(Table):
    """A table of a request, whose errors name no options of commands."""

    def missing(self, column: str, row: int, value: str = "") -> ValueError:
        """Return the error for a cell that is empty, or no number."""
        what = f"{value!r}, which is no finite number" if value else "no value"
        return ValueError(f"{self.path}: column {column!r} has {what} in row {row}: give a number.")


class _Text(_OfRequest, Delimited):
    """The text of a CSV or TSV file."""


class _Records(_OfRequest):
    """Rows of a request; the first has the names of the columns."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(Path("rows"), list(rows[0]))
        self._rows = rows

    def batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Yield these columns, which all rows must have."""
        requested = dict.fromkeys(columns)
        for number, row in enumerate(self._rows, 1):
            if not row.keys() >= requested.keys():
                name = next(name for name in columns if name not in row)
                raise ValueError(f"{self.path}: row {number} has no {name!r}.")
        yield strings(columns, self._rows)
