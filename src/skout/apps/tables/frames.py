"""Tables of pandas, polars or pyarrow, or dicts, as a dict of columns.

No library is imported: a table is recognized by its attributes. Columns become arrays of three
kinds only: float64 with NaN, datetime64[s] with NaT, and objects, each of which is a text or None.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from skout.dev import is_categorical, is_gap
from skout.typing import Rows

Columns = dict[str, np.ndarray]
#: Tables as users give them: a data frame, a dict of columns, an array.
TableLike: TypeAlias = Rows | Mapping[str, Sequence[Any] | np.ndarray]


class SomeRows(dict[str, np.ndarray]):
    """Columns with some rows of a table, which begin at row `first_row`."""

    first_row = 1


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns: of pandas, polars or pyarrow, or a dict.

    Examples
    --------
    >>> from skout.apps.tables.frames import is_frame
    >>> is_frame({"a": [1, 2]}), is_frame([[1, 2]])
    (True, False)
    """
    if isinstance(X, Mapping):
        return not hasattr(X, "shape")
    return hasattr(X, "column_names") or (hasattr(X, "columns") and hasattr(X, "shape"))


def names_in(X: Any) -> list[Any]:
    """Return the names of the columns of a table, which need not be texts."""
    if isinstance(X, Mapping):
        return list(X)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def columns_of(X: Any, name: str = "X") -> Columns:
    """Return the columns of a table by their names; errors call it `name`.

    They are arrays of float64, datetime64[s] or objects: texts, and None where one is missing.

    Examples
    --------
    >>> from skout.apps.tables.frames import columns_of
    >>> columns_of({"size": [1, None], "tags": [["a", "b"], []]})
    {'size': array([ 1., nan]), 'tags': array(['a;b', None], dtype=object)}
    """
    if not is_frame(X):
        raise TypeError(
            f"{name} must be a table with named columns: a data frame of pandas or polars, a table "
            f"of pyarrow, or a dict of columns. Got {type(X).__name__}."
        )
    names = names_in(X)
    twice = [column for column, n in Counter(map(str, names)).items() if n > 1]
    if twice:
        raise ValueError(
            f"{name} has more than one column called {twice[0]!r}: give each a name of its own."
        )
    columns = {str(key): _plain(X[key], f"{name}: column {str(key)!r}") for key in names}
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name} has columns of different lengths: {lengths}.")
    if not columns:
        raise ValueError(f"{name} has no columns.")
    return columns


def has_only_numbers(X: Any) -> bool:
    """Whether all columns of a table are numbers, and none is missing."""
    return all(c.dtype == np.float64 and not np.isnan(c).any() for c in columns_of(X).values())


def coded_columns(X: Any) -> set[str]:
    """Return the columns that the library of a table has marked as categories."""
    return {str(name) for name in names_in(X) if is_categorical(X[name])}


def _plain(column: Any, name: str) -> np.ndarray:
    """Return a column as floats, as datetime64, or as texts with None for missing ones."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise TypeError(f"{name} must be a list of cells, also of one row: [{values!r}].")
    if not isinstance(values, np.ndarray):
        values = _objects(list(values))
    if values.ndim != 1:
        raise ValueError(f"{name} must have one value a row. Got shape {values.shape}.")
    kind = values.dtype.kind
    if is_categorical(column):  # numbers that are names
        return _texts(values.astype(object), name)
    if kind in "biuf":
        return np.asarray(values.astype(np.float64))
    if kind == "c":
        raise TypeError(f"{name} has complex numbers: give their parts as columns.")
    if kind == "M":
        return np.asarray(values.astype("datetime64[s]"))
    if kind == "m":
        seconds = values.astype("timedelta64[s]").astype(np.float64)
        return np.where(np.isnat(values), np.nan, seconds)
    return _of_objects(values.astype(object), name)


def _objects(values: list[Any]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _of_objects(values: np.ndarray, name: str) -> np.ndarray:
    """Return objects as numbers or dates if all are, and else as texts."""
    if {*map(type, values)} <= {str, type(None)}:  # at once, since long tables have many
        return _objects([value.strip() or None if value else None for value in values])
    filled = [value for value in values if not is_gap(value)]
    if filled and all(isinstance(value, numbers.Real | Decimal | np.bool_) for value in filled):
        return np.array([np.nan if is_gap(v) else float(v) for v in values])
    if filled and all(hasattr(value, "isoformat") and hasattr(value, "year") for value in filled):
        return np.array([None if is_gap(v) else _moment(v) for v in values], "datetime64[s]")
    return _texts(values, name)


def _moment(value: Any) -> np.datetime64:
    if getattr(value, "tzinfo", None) is not None:
        value = value.replace(tzinfo=None) - value.utcoffset()
    return np.datetime64(value.isoformat(), "s")


def _texts(values: np.ndarray, name: str) -> np.ndarray:
    for kind in {type(value) for value in values}:
        if all(
            getattr(kind, method) is getattr(object, method) for method in ("__str__", "__repr__")
        ):
            raise TypeError(
                f"{name} has objects of type {kind.__name__}, which have no text: give numbers, "
                "texts, dates or lists of these."
            )
    return _objects([_text(value) for value in values])


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        words = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return ";".join(str(word) for word in words) or None
    return None if is_gap(value) else str(value).strip() or None
