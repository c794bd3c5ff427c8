"""Read tables of any length, block by block: CSV, TSV, JSON, parquet, feather, Excel and npz."""

from collections.abc import Callable
from pathlib import Path

from skout.dev import PACKED, ending

from ..kinds import listed
from .others import Columnar, Json, read_npz, read_workbook, strings
from .table import Part, Reading, Table, load_pyarrow, select
from .text import Delimited

__all__ = [
    "Delimited",
    "Part",
    "Reading",
    "Table",
    "is_table",
    "listed",
    "load_pyarrow",
    "open_table",
    "select",
    "strings",
]

# Readers by the ending of a file; those of text may be compressed, the others are so inside.
_OF_TEXT: dict[str, Callable[[Path], Table]]
_OF_TEXT = dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), Delimited)
_OF_TEXT |= dict.fromkeys((".jsonl", ".ndjson", ".json"), Json)
_READERS = _OF_TEXT | dict.fromkeys((".parquet", ".feather", ".arrow"), Columnar)
_READERS |= {".npz": read_npz, ".xlsx": read_workbook}


def is_table(path: Path) -> bool:
    """Whether a file has the ending of a table."""
    return ending(path) in _READERS or ".xlsx#" in path.name.lower()


def open_table(path: Path) -> Table:
    """Open a table by the ending of its file; "book.xlsx#Prices" is a sheet of a workbook."""
    book, mark, sheet = str(path).rpartition("#")
    if mark and not path.is_file() and ending(book) == ".xlsx":
        path = Path(book)
    else:
        sheet = ""
    is_packed = path.suffix.lower() in PACKED
    reader = (_OF_TEXT if is_packed else _READERS).get(ending(path))
    if reader is None:
        raise ValueError(
            f"A table must end in one of {', '.join(sorted(_READERS))}; those that are text may be "
            f"compressed, by {', '.join(PACKED)}. Got {str(path)!r} instead."
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return read_workbook(path, sheet) if sheet else reader(path)
