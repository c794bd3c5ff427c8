"""Read ARFF files, dense and sparse: scipy's reader takes neither sparse rows nor quoted words."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from scipy import sparse

_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:\\'|[^'])*'|"[^"]*"|\S+)\s+(.*)""", re.IGNORECASE)
# The number of each word of a nominal column; None for a column of numbers.
Codes = dict[str, float] | None


class ArffTable(NamedTuple):
    """The table of an ARFF file: names, float64 values, and the columns with codes of words."""

    names: list[str]
    values: np.ndarray | sparse.csr_matrix
    nominal: np.ndarray


def read_arff(path: Path, without: tuple[str, ...] = ()) -> ArffTable:
    """Return the table of a file; "?" is NaN, and sparse rows make a CSR matrix.

    Nominal values that are numbers stay numbers, YES and NO are 1 and 0; others become their
    position in the declaration. `without` names columns to leave out, such as identifiers.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skout.datasets.arff import read_arff
    >>> text = "@relation r\\n@attribute a numeric\\n@attribute b {0,1}\\n@data\\n2.5,1\\n?,0\\n"
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "r.arff"
    ...     _ = path.write_text(text)
    ...     read_arff(path).values
    array([[2.5, 1. ],
           [nan, 0. ]])
    """
    with _opened(path) as stream:
        names, kinds = _header(stream, path)
        lines = [line for line in map(str.strip, stream) if line and not line.startswith("%")]
    for name, kind in zip(names, kinds, strict=True):
        readable = kind[:1] == "{" or kind.lower() in ("numeric", "real", "integer")
        if not readable and name not in without:
            raise ValueError(
                f"The column {name!r} of {path.name} must be numeric or nominal. Got {kind!r}."
            )
    codes = [_codes(kind) if kind[:1] == "{" else None for kind in kinds]
    kept = [j for j, name in enumerate(names) if name not in without]
    try:
        read = _sparse if lines and lines[0].startswith("{") else _dense
        values = read(lines, names, codes, kept)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path.name} is no ARFF file that can be read: {error}.") from error
    nominal = [j for j, words in enumerate(codes) if words and not _are_numbers(words)]
    return ArffTable([names[j] for j in kept], values, np.array(nominal, dtype=np.int64))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a file as text; of a zip archive, its only ARFF file."""
    if path.suffix.lower() != ".zip":
        with open(path, encoding="utf-8", errors="replace") as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as archive:
        tables = [name for name in archive.namelist() if name.lower().endswith(".arff")]
        # macOS adds a second file for each, with the same ending
        tables = [name for name in tables if not name.startswith("__MACOSX/")]
        if len(tables) != 1:
            raise ValueError(f"{path.name} must hold one ARFF file. It holds {tables} instead.")
        with archive.open(tables[0]) as raw:
            yield io.TextIOWrapper(raw, encoding="utf-8", errors="replace")


def _header(stream: TextIO, path: Path) -> tuple[list[str], list[str]]:
    """Read up to @data; return names and kinds of the attributes."""
    names: list[str] = []
    kinds: list[str] = []
    for line in map(str.strip, stream):
        if line.lower().startswith("@data"):
            return names, kinds
        if match := _ATTRIBUTE.match(line):
            names.append(_unquoted(match[1]))
            kinds.append(match[2].strip())
    raise ValueError(f"{path.name} is no ARFF file: it has no line @data.")


def _codes(kind: str) -> dict[str, float]:
    """Return the numbers of the words of a nominal attribute, {a, 'b c'}."""
    words = [_unquoted(word) for word in next(_cells([kind.strip("{} \t")]))]
    if _are_numbers(words):
        return {word: float(word) for word in words}
    if set(words) == {"YES", "NO"}:
        return {word: float(word == "YES") for word in words}
    return {word: float(code) for code, word in enumerate(words)}


def _are_numbers(words: Iterable[str]) -> bool:
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1].replace("\\'", "'") if quoted else text


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    return csv.reader(lines, quotechar="'", skipinitialspace=True, escapechar="\\")


def _number(text: str, name: str, codes: Codes) -> float:
    text = _unquoted(text)
    if text == "?":
        return np.nan
    if codes is not None and text not in codes:
        raise ValueError(f"{text!r} is none of the values of {name!r}")
    return float(text) if codes is None else codes[text]


def _dense(lines: list[str], names: list[str], codes: list[Codes], kept: list[int]) -> np.ndarray:
    values = np.empty((len(lines), len(kept)))
    for i, cells in enumerate(_cells(lines)):
        if len(cells) != len(names):
            raise ValueError(f"row {i} has {len(cells)} values for {len(names)} columns")
        values[i] = [_number(cells[j], names[j], codes[j]) for j in kept]
    return values


def _sparse(
    lines: list[str], names: list[str], codes: list[Codes], kept: list[int]
) -> sparse.csr_matrix:
    """Read rows such as {0 1.5, 7 1}; what is not written is zero."""
    for name, words in zip(names, codes, strict=True):  # or the first value of a nominal column
        if words and _are_numbers(words) and (first := next(iter(words.values()))) != 0.0:
            raise ValueError(f"values that are not written stand for {first:g}, not 0, in {name!r}")
    indptr, columns, values = [0], array("q"), array("d")  # lists would take far more memory
    for line in lines:
        inner = line.strip("{} \t")
        for cell in inner.split(",") if inner else []:
            column, text = cell.split(maxsplit=1)
            columns.append(int(column))
            values.append(_number(text, names[int(column)], codes[int(column)]))
        indptr.append(len(columns))
    shape = (len(lines), len(names))
    matrix = sparse.csr_matrix((np.array(values), np.array(columns), indptr), shape=shape)
    matrix.check_format(full_check=True)
    matrix.sort_indices()
    matrix.eliminate_zeros()
    return matrix[:, kept] if len(kept) < len(names) else matrix
