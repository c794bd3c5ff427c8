"""Parquet files as blocks of rows, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from .._numerics.extras import extra
from .._numerics.validation import check_number
from ..rows.blocks import Blocks

Paths: TypeAlias = str | Path | Iterable[str | Path]


def open_parquet(
    files: Paths,
    x: Sequence[str],
    y: str | Sequence[str],
    weight: str | None = None,
    rows: int = 65536,
) -> Blocks:
    """Open parquet files as blocks of rows.

    Needs pyarrow: `pip install "skout[disk]"`.

    Parameters
    ----------
    files : path or sequence of paths
        Of a folder, all files in it that end in .parquet, by name.
    x : sequence of str
        The columns of X.
    y : str or sequence of str
        The column of y, or its columns. Strings become objects.
    weight : str, optional
        The column of weights.
    rows : int, default 65536
        Rows that are read at a time.

    Returns
    -------
    blocks : Blocks
        For `KernelRidge.fit` and others that take them.

    Examples
    --------
    >>> from skout.sources import open_parquet
    >>> blocks = open_parquet("trips/", ["distance", "hour"], "fare")  # doctest: +SKIP
    """
    parquet = _pyarrow_parquet()
    check_number(rows, "rows", low=1, integer=True)
    paths = _parquet_paths(files)
    x, targets = _columns(x, "x"), _columns(y, "y")
    wanted = [*x, *targets, *([] if weight is None else [weight])]
    n = 0
    for path in paths:
        with _opened(parquet, path) as file:
            names = file.schema_arrow.names
            missing = [name for name in wanted if name not in names]
            if missing:
                listed = ", ".join(names)
                raise ValueError(f"{path} has no column {missing[0]!r}. It has: {listed}.")
            n += file.metadata.num_rows

    def make() -> Iterator[tuple[Any, ...]]:
        for path in paths:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(rows, columns=list(dict.fromkeys(wanted))):
                    block = [_values(batch, x), _values(batch, y)]
                    yield (*block, *([] if weight is None else [_values(batch, weight)]))

    return Blocks(make, n or None)


def _columns(names: str | Iterable[str], argument: str) -> list[str]:
    """Return the names of one or several columns."""
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    if not all(isinstance(name, str) for name in listed):
        raise TypeError(f"{argument} must be names of columns. Got {names!r} instead.")
    if not listed:
        raise ValueError(f"{argument} must name at least one column. Got {names!r} instead.")
    return listed


def _opened(parquet: ModuleType, path: Path) -> Any:
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are these
        raise ValueError(f"files: {path} is no parquet file. {error}") from error


def _pyarrow_parquet() -> ModuleType:
    with extra("disk", "open_parquet needs pyarrow"):
        import pyarrow.parquet as parquet
    module: ModuleType = parquet
    return module


def _parquet_paths(files: Paths) -> list[Path]:
    if not isinstance(files, str | Path | Iterable):
        raise TypeError(f"files must be a path or a list of paths. Got {files!r} instead.")
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(path) for path in files]
    if len(paths) == 1 and paths[0].is_dir():
        paths = sorted(paths[0].glob("*.parquet"))
    if not paths:
        raise ValueError(f"files must name at least one parquet file. Got {files!r} instead.")
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"There is no parquet file {path}.")
    return paths


def _values(batch: Any, names: str | Iterable[str]) -> np.ndarray | list[Any]:
    """Return one column of a batch as an array or list, or several as a matrix."""
    if isinstance(names, str):
        column = batch.column(names)
        values: np.ndarray = column.to_numpy(zero_copy_only=False)
        return list(column.to_pylist()) if values.dtype.kind == "O" else values
    return np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in names])
