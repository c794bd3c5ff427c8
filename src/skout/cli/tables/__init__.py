"""Read tables by the block: CSV, TSV, JSON, parquet, feather, Excel and npz, of any length."""

from pathlib import Path

from .base import Part, Table, listed, select
from .columnar import Feather, Npz, Parquet
from .delimited import Delimited
from .dialects import Dialect, dialect_of
from .records import Json, JsonLines, Workbook

__all__ = [
    "Delimited",
    "Dialect",
    "Part",
    "Table",
    "dialect_of",
    "is_table",
    "listed",
    "open_table",
    "select",
]

_READERS: dict[str, type[Table]] = {".parquet": Parquet, ".npz": Npz, ".xlsx": Workbook}
_READERS |= dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), Delimited)
_READERS |= dict.fromkeys((".jsonl", ".ndjson"), JsonLines) | {".json": Json}
_READERS |= dict.fromkeys((".feather", ".arrow"), Feather)


def is_table(path: Path) -> bool:
    """Whether the end of a name is that of a table."""
    return path.suffix.lower() in _READERS


def open_table(path: Path) -> Table:
    """Open a table, by the end of its name."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        ends = ", ".join(sorted(_READERS))
        raise ValueError(f"DATA must end in one of {ends}. Got {str(path)!r} instead.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return reader(path)  # type: ignore[call-arg]
