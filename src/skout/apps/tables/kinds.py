"""What a column of a table is to a model: numbers, dates, categories, sets, text, or nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from .cells import Content, looks_like_id
from .numerals import PLAIN, Writing, read_numbers

__all__ = ["KINDS", "Look", "look_at", "split_set", "writing_of"]

#: Kinds of columns that become numbers.
KINDS = ("number", "date", "category", "categories", "set", "text")
# Rows from which on different values look like names of the rows.
_SOME_ROWS = 10
# Of the filled cells, the share that must look like codes, and the one that must have a separator.
_MOSTLY, _OFTEN = 0.9, 0.1
# Sets: times that elements are met on average, letters of an element, and how many there are. Text
# has commas too, so that elements must be met more often.
_MET, _MET_WITH_COMMAS, _LETTERS, _MOST_ELEMENTS = 3.0, 6.0, 30, 2000
# Text: words in a cell on average, and the share of different cells.
_WORDS, _DIFFERENT = 3.0, 0.3


@dataclass(frozen=True)
class Look:
    """What a column is."""

    kind: str  # one of `KINDS`, or "id", "constant" or "empty"
    why: str = ""  # in a few words, where it is not used
    separator: str = ""  # between the elements of sets
    writing: Writing = PLAIN  # of numbers


def look_at(name: str, values: np.ndarray, one_hot: int = 30, separators: str = ";|,") -> Look:
    """Return what a column is, of values as `columns_of` makes them.

    A category has at most `one_hot` values; `separators` may be between the elements of sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.apps.tables.kinds import look_at
    >>> look_at("colour", np.array(["red", "blue", "red", None], dtype=object)).kind
    'category'
    """
    if values.dtype.kind == "f":
        return _number(name, values, writing_of(values))
    if values.dtype.kind == "M":
        filled = values[~np.isnat(values)]
        return _varies(filled, len(filled) < len(values)) or Look("date")
    filled = np.array([cell for cell in values if cell is not None], dtype=object)
    found = _varies(filled, len(filled) < len(values))
    return found or _text(name, list(filled), len(values), one_hot, separators)


def _varies(filled: np.ndarray, has_gaps: bool) -> Look | None:
    """Return why a column says nothing, None if it says something."""
    if len(filled) == 0:
        return Look("empty", "no value at all")
    if not has_gaps and len(set(filled.tolist())) == 1:
        return Look("constant", "one value only")
    return None


def _number(name: str, values: np.ndarray, writing: Writing) -> Look:
    filled = values[~np.isnan(values)]
    nothing = _varies(filled, len(filled) < len(values))
    if nothing is not None:
        return nothing
    n = len(values)
    if n >= _SOME_ROWS and len(filled) == n and len(np.unique(values)) == n:
        steps = np.diff(values)
        counts = bool(np.all(steps == 1.0)) and values[0] in (0.0, 1.0)
        whole = bool(np.all(np.isfinite(values)) and np.all(values == np.round(values)))
        if counts or (whole and _is_id(name)):
            return Look("id", "a value a row")
    return Look("number", writing=writing)


def writing_of(values: np.ndarray) -> Writing:
    """Return how the numbers of a column are written, of values as `columns_of` makes them."""
    content = Content()
    if values.dtype.kind == "f":
        largest = np.max(np.abs(values), initial=0.0, where=~np.isnan(values))
        content.numerals.plain, content.numerals.largest = len(values), float(largest)
    elif values.dtype.kind == "O":
        content.add([cell for cell in values if cell is not None], 1)
    return content.writing


def _is_id(name: str) -> bool:
    words = re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", name)
    last = words[-1].lower() if words else ""
    return looks_like_id(name) or last in ("id", "uid", "uuid", "guid", "key", "no", "nr")


def _text(name: str, filled: list[str], n: int, one_hot: int, separators: str) -> Look:
    content = Content()
    content.add(filled, 1)
    if content.kind == "number":
        values = read_numbers(filled, content.writing).values
        return _number(name, values, content.writing)
    if content.kind == "date":
        return Look("date")
    counts = Counter(filled)
    if _names_rows(name, filled, counts, n):
        return Look("id", "a value a row")
    separator = _separator(filled, separators)
    if separator:
        return Look("set", separator=separator)
    if len(counts) <= one_hot:
        return Look("category")
    words = sum(len(cell.split()) for cell in filled) / len(filled)
    is_text = words >= _WORDS and len(counts) >= _DIFFERENT * len(filled)
    return Look("text" if is_text else "categories")


def _names_rows(name: str, filled: list[str], counts: Counter[str], n: int) -> bool:
    """Whether each row has a value of its own that looks like a number, a code or a key."""
    if n < _SOME_ROWS or len(filled) < n or len(counts) < n:
        return False
    if any(len(cell.split()) > 1 for cell in filled):
        return _is_id(name) and max(map(len, filled)) <= _LETTERS
    shapes = Counter(re.sub(r"[a-z]+", "a", re.sub(r"\d+", "0", cell.lower())) for cell in filled)
    has_digits = sum("0" in shape for shape in shapes.elements()) >= _MOSTLY * n
    one_length = len(set(map(len, filled))) == 1
    one_shape = shapes.most_common(1)[0][1] >= _MOSTLY * n
    return _is_id(name) or (has_digits and (one_length or one_shape))


def _separator(filled: list[str], separators: str) -> str:
    """Return what stands between the elements of sets, "" if these are none."""
    for one in separators:
        if sum(one in cell for cell in filled) < max(2, _OFTEN * len(filled)):
            continue
        counts = Counter(word for cell in filled for word in split_set(cell, one))
        if one == "," and all(word.isdigit() for word in counts):  # decimals
            continue
        total = sum(counts.values())
        letters = sum(len(word) * count for word, count in counts.items()) / max(total, 1)
        met = _MET_WITH_COMMAS if one == "," else _MET
        if total >= met * len(counts) and letters <= _LETTERS and len(counts) <= _MOST_ELEMENTS:
            return one
    return ""


def split_set(cell: str, separator: str) -> list[str]:
    """Return the elements of a set that is written as text, each once."""
    return list(dict.fromkeys(word.strip() for word in cell.split(separator) if word.strip()))
