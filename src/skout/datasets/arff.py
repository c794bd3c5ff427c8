"""Read ARFF files, dense and sparse; scipy reads no sparse ones."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy import sparse

__all__ = ["nominal_columns", "read_arff"]

_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:\\'|[^'])*'|"[^"]*"|\S+)\s+(.*)""", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")
Reader = Callable[[str], float]


def read_arff(path: Path, without: tuple[str, ...] = ()) -> tuple[list[str], Any]:
    """Return the names of the columns and the values.

    These are float64, a CSR matrix where the file is sparse; "?" is NaN. Nominal values that are
    numbers stay numbers, YES and NO are 1 and 0; others become their position in the declaration.
    `without` names columns to leave out of a dense file, such as identifiers.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skout.datasets.arff import read_arff
    >>> text = "@relation r\\n@attribute a numeric\\n@attribute b {0,1}\\n@data\\n2.5,1\\n?,0\\n"
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "r.arff"
    ...     _ = path.write_text(text)
    ...     read_arff(path)
    (['a', 'b'], array([[2.5, 1. ],
           [nan, 0. ]]))
    """
    with open(path, encoding="utf-8", errors="replace") as stream:
        names, kinds = _header(stream, path)
        lines = [line for line in map(str.strip, stream) if line and not line.startswith("%")]
    readers = [
        (lambda text: 0.0) if name in without else _reader(name, kind, path)
        for name, kind in zip(names, kinds, strict=True)
    ]
    try:
        if lines and lines[0].startswith("{"):
            return names, _sparse(lines, readers, kinds)
        kept = [j for j, name in enumerate(names) if name not in without]
        return [names[j] for j in kept], _dense(lines, readers)[:, kept]
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path.name} is no ARFF file that can be read: {error}.") from error


def nominal_columns(path: Path) -> np.ndarray:
    """Return the positions of the columns of words, of which `read_arff` makes codes."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        _, kinds = _header(stream, path)
    words = [j for j, kind in enumerate(kinds) if kind.startswith("{") and not _numbers(kind)]
    return np.array(words, dtype=np.int64)


def _numbers(kind: str) -> dict[str, float] | None:
    """Return the values of a nominal attribute as numbers, or None if some are words."""
    try:
        return {choice: float(choice) for choice in _choices(kind)}
    except ValueError:
        return None


def _header(stream: TextIO, path: Path) -> tuple[list[str], list[str]]:
    """Read up to @data; return names and kinds of the attributes."""
    names: list[str] = []
    kinds: list[str] = []
    for line in map(str.strip, stream):
        if line.lower().startswith("@data"):
            return names, kinds
        found = _ATTRIBUTE.match(line)
        if found:
            names.append(_unquoted(found[1]))
            kinds.append(found[2].strip())
    raise ValueError(f"{path.name} is no ARFF file: it has no line @data.")


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1].replace("\\'", "'") if quoted else text


def _choices(kind: str) -> list[str]:
    """Return the values of a nominal attribute, {a, 'b c'}."""
    inner = next(_cells([kind.strip("{} \t")]))
    return [_unquoted(value) for value in inner]


def _reader(name: str, kind: str, path: Path) -> Reader:
    """Return the function from the text of a value to a number."""
    if kind.lower() in _NUMERIC:
        return _number
    if not kind.startswith("{"):
        raise ValueError(
            f"The column {name!r} of {path.name} must be numeric or nominal. Got {kind!r} instead."
        )
    choices = _choices(kind)
    codes = _numbers(kind) or {choice: float(i) for i, choice in enumerate(choices)}
    if set(choices) == {"YES", "NO"}:
        codes = {"YES": 1.0, "NO": 0.0}

    def read(text: str) -> float:
        text = _unquoted(text)
        if text != "?" and text not in codes:
            raise ValueError(f"{text!r} is none of the values of {name!r}")
        return np.nan if text == "?" else codes[text]

    return read


def _number(text: str) -> float:
    return np.nan if text.strip() == "?" else float(text)


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    return csv.reader(lines, quotechar="'", skipinitialspace=True, escapechar="\\")


def _dense(lines: list[str], readers: list[Reader]) -> np.ndarray:
    values = np.empty((len(lines), len(readers)))
    for i, cells in enumerate(_cells(lines)):
        if len(cells) != len(readers):
            raise ValueError(f"row {i} has {len(cells)} values for {len(readers)} columns")
        values[i] = [read(cell) for read, cell in zip(readers, cells, strict=True)]
    return values


def _sparse(lines: list[str], readers: list[Reader], kinds: list[str]) -> sparse.csr_matrix:
    """Read rows such as {0 1.5, 7 1}; what is not written is zero."""
    for kind in kinds:  # for a nominal column it is the first value
        first = _choices(kind)[0] if kind.startswith("{") else "0"
        if first.lstrip("+-").replace(".", "").isdigit() and float(first) != 0.0:
            raise ValueError(f"values that are not written stand for {first}, not 0, in {kind}")
    indptr, columns, values = [0], array("q"), array("d")  # lists would take far more memory
    for line in lines:
        inner = line.strip("{} \t")
        for cell in inner.split(",") if inner else []:
            column, text = cell.split(maxsplit=1)
            columns.append(int(column))
            values.append(readers[int(column)](text))
        indptr.append(len(columns))
    shape = (len(lines), len(readers))
    matrix = sparse.csr_matrix((np.array(values), np.array(columns), indptr), shape=shape)
    matrix.check_format(full_check=True)
    matrix.sort_indices()
    matrix.eliminate_zeros()
    return matrix
