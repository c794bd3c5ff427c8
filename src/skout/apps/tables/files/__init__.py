"""Read tables by the block: CSV, TSV, JSON, parquet, feather, Excel and npz, of any length."""

from pathlib import Path

from skout.dev import PACKED, ending

from .base import NumberCells, Part, Reading, Table, listed, select
from .columnar import Feather, Npz, Parquet
from .delimited import Delimited
from .dialects import Dialect, dialect_of
from .records import Json, JsonLines, Records, Workbook

__all__ = [
    "Delimited",
    "Dialect",
    "NumberCells",
    "Part",
    "Reading",
    "Records",
    "Table",
    "dialect_of",
    "is_table",
    "listed",
    "open_table",
    "select",
]

# Tables that are text may be compressed, the others are so inside.
_OF_TEXT: dict[str, type[Table]] = dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), Delimited)
_OF_TEXT |= dict.fromkeys((".jsonl", ".ndjson"), JsonLines) | {".json": Json}
_READERS = _OF_TEXT | {".parquet": Parquet, ".npz": Npz, ".xlsx": Workbook}
_READERS |= dict.fromkeys((".feather", ".arrow"), Feather)


def is_table(path: Path) -> bool:
    """Whether the end of a name is that of a table."""
    return ending(path) in _READERS


def open_table(path: Path) -> Table:
    """Open a table, by the end of its name."""
    is_packed = path.suffix.lower() in PACKED
    reader = (_OF_TEXT if is_packed else _READERS).get(ending(path))
    if reader is None:
        raise ValueError(
            f"DATA must end in one of {', '.join(sorted(_READERS))}; those that are text may be "
            f"compressed, by {', '.join(PACKED)}. Got {str(path)!r} instead."
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return reader(path)  # type: ignore[call-arg]
