"""What users give: data that would be misread are refused, and errors name the argument."""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

__all__ = [
    "check_column_names",
    "check_memory",
    "check_squares",
    "named",
    "numbers_in",
    "total_memory",
]

# Words that a message may have for what the caller calls by another name.
_INNER = re.compile(r"\bX\b|^objects\b|(?<=Input )objects\b")


@contextmanager
def numbers_in(objects: Any, name: str) -> Iterator[None]:
    """Refuse what NumPy reads as other numbers; within the block, errors of reading name it.

    Dates become counts of days, and masked entries what lies under the mask.
    """
    _refuse_misread(objects, name)
    _refuse_names(objects, name)
    try:
        # what is too large becomes infinite, which is reported
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, NotFittedError) or _says(name, str(error)):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}, of type {type(objects).__name__}: {error}") from error


def _refuse_names(objects: Any, name: str) -> None:
    """Raise where sets of labels are given by name, not as 0/1 rows."""
    if not isinstance(objects, list | tuple) or len(objects) == 0:
        return
    first = objects[0]
    if isinstance(first, set | frozenset) or _are_lists_of_words(objects):
        raise TypeError(
            f"{name} must be rows of numbers; for label sets 0 and 1, one column a label. Got "
            f"{first!r} first: scikit-learn's MultiLabelBinarizer makes rows of names."
        )


def _are_lists_of_words(objects: Any) -> bool:
    """Whether these are lists that begin with a word, which is no number of a matrix."""
    if not all(isinstance(item, list | tuple) for item in objects):
        return False
    first = next((item[0] for item in objects if len(item) > 0), None)
    if not isinstance(first, str):
        return False
    return len({len(item) for item in objects}) > 1 or not _is_number(first)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _says(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _refuse_misread(objects: Any, name: str) -> None:
    if _kind(objects) in ("m", "M"):
        raise TypeError(
            f"{name} must hold numbers. Got dates or times: say in which unit, for instance "
            "values.astype('datetime64[D]').astype(float) for days."
        )
    if np.ma.is_masked(objects):
        raise ValueError(
            f"{name} has masked entries, which are missing values: fill them or leave the rows out."
        )
    check_column_names(getattr(objects, "columns", ()), name)


def check_column_names(names: Any, name: str) -> None:
    """Raise where a table has two columns of one name."""
    columns = Counter(c for c in names if isinstance(c, Hashable))
    twice = [column for column, count in columns.items() if count > 1]
    if twice:
        raise ValueError(
            f"{name} has more than one column called {twice[0]!r}: give each a name of its own."
        )


def _kind(objects: Any) -> str:
    """Return the letter of NumPy for the kind of numbers, "" if it cannot be told."""
    if hasattr(objects, "columns"):  # also dates with a time zone, which NumPy has no type for
        kinds = {getattr(dtype, "kind", "") for dtype in getattr(objects, "dtypes", ())}
        if kinds & {"m", "M"}:
            return "M"
    dtype = getattr(objects, "dtype", None)
    if dtype is None and (isinstance(objects, list | tuple) or hasattr(objects, "columns")):
        try:
            dtype = np.asarray(objects[:1]).dtype
        except (TypeError, ValueError):  # rows of different lengths, columns of different kinds
            return ""
    return getattr(dtype, "kind", "")


@contextmanager
def named(name: str) -> Iterator[None]:
    """Within the block, errors say `name` for what is called X or objects further down."""
    try:
        yield
    except NotFittedError:
        raise
    except (TypeError, ValueError) as error:
        text = _INNER.sub(name, str(error))
        if not _says(name, text):
            text = f"{name}: {text}"
        if text == str(error):
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(text) from error


_SCALE = "Scale the features, for instance with scikit-learn's StandardScaler."


def check_squares(rows: Any, name: str, advice: str = _SCALE) -> None:
    """Raise where distances and products of rows would overflow."""
    values = rows.data if sparse.issparse(rows) else rows
    if values.size == 0:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if values.flags.forc:
            flat = values.ravel(order="K")
            total = np.vdot(flat, flat)
        else:  # without a copy
            axes = "ij"[: values.ndim]
            total = np.einsum(f"{axes},{axes}->", values, values)
        if np.isfinite(total):  # then all parts of the sum are, too
            return
    largest = float(np.fmax.reduce(np.abs(values), axis=None))  # NaN are holes
    limit = float(np.sqrt(np.finfo(values.dtype).max / (4.0 * max(1, *rows.shape))))
    if largest > limit:
        raise ValueError(
            f"{name} holds numbers up to {largest:.3g}, whose squares overflow {values.dtype}. "
            f"{advice}"
        )


def check_memory(rows: int, columns: int, what: str, advice: str, itemsize: int = 8) -> None:
    """Raise where a matrix takes more memory than this process may have, before it is made."""
    needed, there = itemsize * rows * columns, _total_memory()
    if there and needed > there:
        raise MemoryError(
            f"{what}, {rows} x {columns}, would take {needed / 2**30:,.0f} GiB, and this machine "
            f"or container has {there / 2**30:,.0f} GiB in all. {advice}"
        )


def total_memory() -> int:
    """Return the bytes of memory of this machine or container, 0 where nothing says."""
    return _total_memory()


def _total_memory() -> int:
    """Return the bytes of memory of this machine or container, 0 where nothing says."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        there = 0
    return min([limit for limit in (there, *_container_limits()) if limit > 0], default=0)


@functools.cache  # files that take longer to read than to fit a small model
def _container_limits(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[int]:
    """Return the limits of memory, in bytes, of the control groups that this process is in.

    Lines of `own` are number:controllers:path; in version 2 the controllers are left out. Inside a
    container the path may be that of the host, and the group is the root of `groups`.
    """
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return []
    limits = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "memory" not in controllers.split(","):
            continue
        root = groups / "memory" if controllers else groups
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        place = root / path.lstrip("/")
        for folder in (place, *place.parents):
            limits += _number_in(folder / name) if folder.is_relative_to(root) else []
    return limits


def _number_in(file: Path) -> list[int]:
    """Return the number that a file holds, if it holds one: groups without a limit say "max"."""
    try:
        return [int(file.read_text())]
    except (OSError, ValueError):
        return []
