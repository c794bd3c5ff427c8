"""Files of columns with types: parquet, feather and npz."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skout.dev import extra

from .base import NumberCells, Part, Table, cell_text, check_names
from .dialects import check_archive

__all__ = ["Feather", "Npz", "Parquet", "load_pyarrow"]


def load_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its parquet module."""
    with extra("disk", "Parquet files need pyarrow"):
        import pyarrow
        import pyarrow.parquet as parquet
    return pyarrow, parquet


class _Arrow(Table):
    """A file that pyarrow reads by the batch."""

    def __init__(self, path: Path) -> None:
        self._arrow, self._parquet = load_pyarrow()
        self.path = path
        try:
            schema = self._schema()
        except (self._arrow.ArrowException, OSError) as error:
            kind = type(self).__name__.lower()
            raise ValueError(f"{path} is no {kind} file: {error}") from error
        self.names = list(schema.names)
        check_names(self.names, path)
        self.types = {field.name: self._kind(field.type) for field in schema}

    @abstractmethod
    def _schema(self) -> Any:
        """Return the names and types of columns."""

    @abstractmethod
    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Yield batches of some columns."""

    def _kind(self, kind: Any) -> str:
        types = self._arrow.types
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if any(test(kind) for test in tests):
            return "number"
        return "date" if types.is_temporal(kind) else "text"

    def _parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: NumberCells
    ) -> Iterator[Part]:
        start = 1
        for batch in self._batches(list(dict.fromkeys([*numbers, *texts])), rows):
            if not batch.num_rows:
                continue
            matrix = np.empty((batch.num_rows, len(numbers)))
            for j, name in enumerate(numbers):
                values = batch.column(name).to_numpy(zero_copy_only=False)
                if self.types and self.types[name] == "number":
                    matrix[:, j] = values
                else:
                    texts_of = [cell_text(value) for value in values]
                    matrix[:, j] = cells.read_column(texts_of, name, start)
            columns = {name: batch.column(name).to_pylist() for name in texts}
            yield Part(start, matrix, {n: [cell_text(c) for c in v] for n, v in columns.items()})
            start += len(matrix)


class Parquet(_Arrow):
    """A parquet file."""

    def _schema(self) -> Any:
        with self._parquet.ParquetFile(self.path) as file:
            return file.schema_arrow

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        with self._parquet.ParquetFile(self.path) as file:
            yield from file.iter_batches(rows, columns=columns)


class Feather(_Arrow):
    """A feather file, which is one of Arrow."""

    def _schema(self) -> Any:
        return self._read().schema

    def _read(self, columns: list[str] | None = None) -> Any:
        from pyarrow import feather

        return feather.read_table(self.path, columns=columns, memory_map=True)

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        yield from self._read(columns).to_batches(max_chunksize=rows)


class Npz(Table):
    """Arrays of a npz file: a matrix X has the columns X0, X1, ..., a vector one column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: dict[str, np.ndarray] = {}
        check_archive(path)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except (ValueError, OSError, EOFError, MemoryError) as error:
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
        check_names(self.names, path)
        kinds = dict.fromkeys("biuf", "number") | dict.fromkeys("mM", "date")
        self.types = {name: kinds.get(c.dtype.kind, "text") for name, c in self._columns.items()}

    def _parts(
        self, numbers: list[str], texts: list[str], rows: int, cells: NumberCells
    ) -> Iterator[Part]:
        n = len(self._columns[self.names[0]])
        for start in range(0, n, rows):
            some = slice(start, min(n, start + rows))
            matrix = np.empty((some.stop - start, len(numbers)))
            for j, name in enumerate(numbers):
                values = self._columns[name][some]
                if values.dtype.kind in "biuf":
                    matrix[:, j] = values
                else:
                    texts_of = [cell_text(value) for value in values]
                    matrix[:, j] = cells.read_column(texts_of, name, start + 1)
            columns = {name: [cell_text(c) for c in self._columns[name][some]] for name in texts}
            yield Part(start + 1, matrix, columns)


def _numbered(key: str, array: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{key}{j}": array[:, j] for j in range(array.shape[1])}
