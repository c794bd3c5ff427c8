"""Files of records whose cells have no types of their own: JSON, JSON lines, and workbooks."""

import json
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from skout.dev import extra

from .base import NumberCells, Part, Table, cell_text, check_names, picker
from .dialects import Lines, check_archive, encoding_of, open_text

__all__ = ["Json", "JsonLines", "Records", "Workbook"]

# Letters of a JSON file.
_LONGEST = 2**26


class Records(Table):
    """Rows of values: numbers, texts, or nothing."""

    @abstractmethod
    def _records(self) -> Iterator[list[Any]]:
        """Yield the rows, each as long as the names."""

    def _parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: NumberCells
    ) -> Iterator[Part]:
        place = {name: j for j, name in enumerate(self.names)}
        pick = picker([place[name] for name in numbers])
        records, start = self._records(), 1
        while block := list(islice(records, rows)):
            values = [pick(record) for record in block]
            columns = {name: [_cell(r[place[name]]) for r in block] for name in texts}
            matrix = _floats(values)
            if matrix is None:
                as_text = [[_cell(value) for value in row] for row in values]
                matrix = cells.read(as_text, numbers, start)
            yield Part(start, matrix, columns)
            start += len(block)


def _floats(values: list[Any]) -> np.ndarray | None:
    """Return numbers as they are, None if there are texts among them; None is a gap."""
    with suppress(ValueError):  # of lists among them
        found = np.array(values)
        if found.dtype == object:
            values = [[nan if value is None else value for value in row] for row in values]
            found = np.array(values)
        if found.dtype.kind in "biuf" and found.ndim == 2:
            return found.astype(np.float64)
    return None


def _cell(value: Any) -> str:
    """Return a cell as text; true and false are numbers."""
    return str(int(value)) if isinstance(value, bool) else cell_text(value)


class JsonLines(Records):
    """One JSON object a line, with the names of columns; a name that is not there is a gap."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encoding, self.notes = encoding_of(path)
        names: dict[str, None] = {}
        for _, record in self._objects():
            names.update(dict.fromkeys(record))
        self.names = list(names)
        check_names(self.names, path)

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of a line, and what it holds."""
        with open_text(self.path, self._encoding) as file:
            lines = Lines(file, self.path)
            for number, line in enumerate(lines, 1):
                lines.end_row()
                if line.strip():
                    yield number, self._checked(_parse(line, f"{self.path}: line {number}"), number)

    def _checked(self, record: Any, number: int) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise ValueError(
                f"{self.path}: line {number} must be an object such as "
                f'{{"a": 1, "b": "x"}}. Got {json.dumps(record)[:40]}.'
            )
        inner = next((name for name, value in record.items() if isinstance(value, dict)), None)
        if inner is not None:
            raise ValueError(
                f"{self.path}: column {inner!r} has an object in line {number}: a cell must be a "
                "number, a text, a list of texts or null. Give each of its fields a column."
            )
        return record

    def _records(self) -> Iterator[list[Any]]:
        for _, record in self._objects():
            yield [record.get(name) for name in self.names]


class Json(JsonLines):
    """A list of such objects in one file."""

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with open_text(self.path, self._encoding) as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise ValueError(
                f"{self.path} has more than {_LONGEST:,} letters, and JSON is read as a whole: "
                "give JSON lines (.jsonl), one object a line."
            )
        found = _parse(text, str(self.path))
        if not isinstance(found, list):
            raise ValueError(
                f'{self.path} must be a list of objects such as [{{"a": 1}}, {{"a": 2}}].'
            )
        for number, record in enumerate(found, 1):
            yield number, self._checked(record, number)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{where} is no table: its lists lie too deep in each other.") from None
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}.") from error


class Workbook(Records):
    """The first sheet of an Excel file; its first row has the names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with extra("excel", "Excel files need openpyxl"):
            import openpyxl
        self._open = openpyxl.load_workbook
        check_archive(path)
        try:
            book = self._open(path, read_only=True, data_only=True)
        except Exception as error:  # zipfile's, openpyxl's, KeyError ...
            raise ValueError(f"{path} is no Excel file (.xlsx): {error}") from error
        sheets = book.sheetnames
        header = next(book.worksheets[0].iter_rows(values_only=True), ())
        book.close()
        self.notes = (
            [f"{path.name}: of {len(sheets)} sheets the first, {sheets[0]!r}, is read"]
            if len(sheets) > 1
            else []
        )
        while header and header[-1] is None:
            header = header[:-1]
        self.names = [cell_text(name).strip() for name in header]
        check_names(self.names, path)

    def _records(self) -> Iterator[list[Any]]:
        book = self._open(self.path, read_only=True, data_only=True)
        width = len(self.names)
        try:
            rows = book.worksheets[0].iter_rows(min_row=2, values_only=True)
            for number, row in enumerate(rows, 2):
                if all(cell is None for cell in row):
                    continue
                if any(cell is not None for cell in row[width:]):
                    raise ValueError(
                        f"{self.path}: line {number} has more cells than the {width} names in the "
                        "first row. Name each column, or delete what is beside the table."
                    )
                yield [*row[:width], *[None] * (width - len(row))]
        finally:
            book.close()
