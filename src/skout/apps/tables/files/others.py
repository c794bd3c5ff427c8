"""Read files that are not CSV: parquet, feather, npz, JSON, JSON lines and Excel."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from skout.dev import ending, extra

from ..kinds import listed
from . import text
from .table import Table, load_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

# The most characters of a JSON file.
_LONGEST = 2**26


def _check_archive(path: Path) -> None:
    """Raise if an archive, such as a workbook, would unpack to far more than its size."""
    limits = text.PACKED_TABLES
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max(limits.unpacked, limits.ratio * path.stat().st_size):
            raise ValueError(
                f"{path} unpacks to more than {limits.ratio} times its size, which tables rarely "
                "do. Unpack it yourself if you trust it."
            )


def strings(names: Sequence[str], rows: Sequence[Mapping[Any, Any]]) -> pa.RecordBatch:
    """Return records as columns of texts, with ; between the elements of lists, and 1 for true."""
    pa = load_pyarrow()
    columns = [[_string(row.get(name)) for row in rows] for name in names]
    return pa.record_batch([pa.array(cells, pa.string()) for cells in columns], names=list(names))


def _string(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        return ";".join(map(str, value))
    return str(int(value) if isinstance(value, bool) else value)


# Columns with types -------------------------------------------------------------------------------


def _kind(kind: pa.DataType) -> str:
    types = load_pyarrow().types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if any(test(kind) for test in tests):
        return "number"
    return "date" if types.is_temporal(kind) else "text"


class Columnar(Table):
    """A parquet file, or a feather file, the format of Arrow."""

    def __init__(self, path: Path) -> None:
        pa, self._is_parquet = load_pyarrow(), ending(path) == ".parquet"
        try:
            if self._is_parquet:
                schema = pa.parquet.read_schema(path)
            else:
                schema = pa.feather.read_table(path, memory_map=True).schema
        except (pa.ArrowException, OSError) as error:
            kind = "parquet" if self._is_parquet else "feather"
            raise ValueError(f"{path} is no {kind} file: {error}") from error
        super().__init__(path, list(schema.names))
        self.types = {field.name: _kind(field.type) for field in schema}

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns, as they are in the file."""
        pa = load_pyarrow()
        if self._is_parquet:
            with pa.parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(rows, columns=columns):
                    yield batch.select(columns)
        else:
            table = pa.feather.read_table(self.path, columns=columns, memory_map=True)
            yield from table.select(columns).to_batches(rows)


def read_npz(path: Path) -> Table:
    """Return the arrays of an npz file as a table; a matrix X has the columns X0, X1, ...."""
    _check_archive(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, MemoryError) as error:
        raise ValueError(f"{path} is no npz file of plain arrays: {error}") from error
    columns: list[tuple[str, np.ndarray]] = []
    for key, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(f"{path}: {key} must have 1 or 2 axes. Got shape {array.shape}.")
        numbered = [(f"{key}{j}", column) for j, column in enumerate(array.T)]
        columns += [(key, array)] if array.ndim == 1 else numbered
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{path}: the arrays differ in their numbers of rows: {lengths}.")
    names = [name for name, _ in columns]
    table = Table(path, names)
    table.cells = load_pyarrow().table([array for _, array in columns], names=names)
    table.types = {field.name: _kind(field.type) for field in table.cells.schema}
    return table


# Records ------------------------------------------------------------------------------------------


class Json(Table):
    """JSON objects, one for each line or in a list; a name that an object lacks is missing."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        self._encoding, notes, _ = text.survey(path)
        names = dict.fromkeys(name for record in self._objects() for name in record)
        super().__init__(path, list(names), notes)

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns as texts."""
        objects = self._objects()
        while block := list(islice(objects, rows)):
            yield strings(columns, block)

    def _objects(self) -> Iterator[dict[str, Any]]:
        for line, record in self._list() if ending(self.path) == ".json" else self._lines():
            if not isinstance(record, dict):
                raise ValueError(
                    f"{self.path}: line {line} must be an object such as "
                    f'{{"a": 1, "b": "x"}}. Got {json.dumps(record)[:40]}.'
                )
            yield _flat(record)

    def _open(self) -> AbstractContextManager[TextIO]:
        return text.as_text(text.open_bytes(self.path), self._encoding)

    def _lines(self) -> Iterator[tuple[int, Any]]:
        with self._open() as file:
            lines = text.Lines(file, self.path)
            for line in lines:
                lines.end_row()
                if line.strip():
                    yield lines.number, _parse(line, f"{self.path}: line {lines.number}")

    def _list(self) -> Iterator[tuple[int, Any]]:
        with self._open() as file:
            whole = file.read(_LONGEST + 1)
        if len(whole) > _LONGEST:
            raise ValueError(
                f"{self.path} has more than {_LONGEST:,} letters, and JSON is read as a whole: "
                "give JSON lines (.jsonl) instead, with one object in each line."
            )
        records = _parse(whole, str(self.path))
        if not isinstance(records, list):
            raise ValueError(
                f'{self.path} must be a list of objects such as [{{"a": 1}}, {{"a": 2}}].'
            )
        return enumerate(records, 1)


def _flat(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return an object with the fields of inner objects as its own: "address.city"."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        is_object = isinstance(value, dict)
        flat |= _flat(value, f"{before}{name}.") if is_object else {f"{before}{name}": value}
    return flat


def _parse(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError(f"{where} is not a table: its lists are nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{where} is no JSON: {error}.") from error


def read_workbook(path: Path, sheet: str = "") -> Table:
    """Return a sheet of an Excel file by its name, or its number from 1; default the first table.

    Its first row below titles has the names of the columns.
    """
    with extra("table", "Excel files need openpyxl"):
        import openpyxl
    _check_archive(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheets = {page.title: page for page in book.worksheets}
        title, rows = _sheet_rows(sheets, sheet, path)
        book.close()
    except _NoSheet:
        raise
    except Exception as error:  # zipfile's, openpyxl's, KeyError ...
        raise ValueError(f"{path} is no Excel file (.xlsx): {error}") from error
    notes = []
    if len(sheets) > 1:
        names = [name for name in sheets if name != title]
        others, how = listed([*map(repr, names)], 3), f"{path.name}#{names[0]}"
        notes.append(f"{path.name}: sheet {title!r} is read; {how!r} reads another of {others}")
    texts = [["" if cell is None else _string(cell) or "" for cell in row] for row in rows]
    first = text.preamble([row or [""] for row in texts])
    if first:
        notes.append(f"{path.name}: {first} rows before the header left out")
    header = list(rows[first]) if rows else []
    while header and header[-1] is None:
        header.pop()
    for number, row in enumerate(rows[first:], first + 1):
        if any(cell is not None for cell in row[len(header) :]):
            raise ValueError(
                f"{path}: line {number} has more cells than the {len(header)} names in row "
                f"{first + 1}. Name each column, or delete what is beside the table."
            )
    width = len(header)
    names, below, more = text.header_of([row[:width] for row in texts[first:]], path.name)
    table = Table(path, names, [*notes, *more])
    filled = [row for row in rows[first + below :] if any(cell is not None for cell in row)]
    records = [dict(zip(names, row, strict=False)) for row in filled]
    table.cells = load_pyarrow().Table.from_batches([strings(names, records)])
    return table


class _NoSheet(ValueError):
    """Raised where a workbook has no sheet of a name or number."""


def _sheet_rows(
    sheets: Mapping[str, Any], wanted: str, path: Path
) -> tuple[str, list[tuple[Any, ...]]]:
    """Return the name and the rows of the `wanted` sheet, or of the first sheet with a table.

    A table has two rows with two cells or more, unlike sheets of notes.
    """
    names = list(sheets)
    if wanted and wanted not in sheets:
        if not (wanted.isdigit() and 1 <= int(wanted) <= len(names)):
            listing = ", ".join(map(repr, names))
            raise _NoSheet(f"{path} has no sheet {wanted!r}. It has: {listing}.")
        wanted = names[int(wanted) - 1]
    filled = []
    for name in [wanted] if wanted else names:
        rows = list(sheets[name].iter_rows(values_only=True))
        widths = [sum(cell is not None for cell in row) for row in rows]
        if sum(width > 1 for width in widths) > 1:
            return name, rows
        if any(widths):
            filled.append((name, rows))
    return filled[0] if filled else (name, rows)
