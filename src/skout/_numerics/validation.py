"""What users give, checked: names, seeds, sizes, numbers and data that would be misread.

Every message names the argument, and says what was given and what to do.
"""

from __future__ import annotations

import difflib
import functools
import numbers
import operator
import os
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
)

from .arrays import n_rows
from .linalg import symmetric_eigenvalues

__all__ = [
    "Registry",
    "check_alphas",
    "check_choice",
    "check_column_names",
    "check_columns",
    "check_matrix",
    "check_memory",
    "check_number",
    "check_rng",
    "check_size",
    "check_squares",
    "check_task_matrix",
    "check_total_weight",
    "check_weights",
    "named",
    "numbers_in",
    "resolve",
    "spawn_seed",
    "total_memory",
]

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# Words that a message may have for what the caller calls by another name.
_INNER = re.compile(r"\bX\b|^objects\b|(?<=Input )objects\b")


class Registry(dict[str, Any]):
    """Classes by name, with underscores between words. Other spellings are found but not listed.

    Parameters
    ----------
    **aliases : str
        The name that each other spelling stands for; hyphens for underscores need none.
    """

    def __init__(self, **aliases: str) -> None:
        super().__init__()
        self.aliases = aliases

    def spelled(self, name: str) -> str:
        """Return the name as it is in here, given any spelling of it."""
        if name in self:
            return name
        name = name.replace("-", "_")
        return self.aliases.get(name, name)


def resolve(name: str, registry: Mapping[str, Any], kind: str) -> Any:
    """Look `name` up in `registry`, or say which names there are and which one is nearest."""
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be a name. Got {name!r} instead. {_available(registry)}")
    aliases: Mapping[str, str] = getattr(registry, "aliases", {})
    found = registry.spelled(name) if isinstance(registry, Registry) else name
    if found in registry:
        return registry[found]
    near = difflib.get_close_matches(name.lower(), [*registry, *aliases], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"Unknown {kind} {name!r}.{hint} {_available(registry)}")


def _available(registry: Mapping[str, Any]) -> str:
    return f"Available: {', '.join(sorted(registry))}."


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}. Got {value!r} instead.{hint}")


def check_number(
    value: Any, name: str, *, low: float = 0.0, strict: bool = False, integer: bool = False
) -> Any:
    """Return `value` if it is a finite number above `low` (`strict`: not equal to it)."""
    kind: Any = numbers.Integral if integer else numbers.Real
    noun = "an integer" if integer else "a finite number"
    sign = ">" if strict else ">="
    message = f"{name} must be {noun} {sign} {low:g}. Got {value!r} instead."
    if integer and not isinstance(value, numbers.Number) and hasattr(value, "__index__"):
        value = operator.index(value)  # an object that stands for an integer
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(message)
    if not _is_finite(value) or value < low or (strict and value == low):
        raise ValueError(message)
    return value


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # an integer beyond float64
        return False


def check_alphas(alpha: Any, *, strict: bool = False) -> list[float]:
    """Return one or several penalties as a list."""
    many = isinstance(alpha, Iterable) and not isinstance(alpha, str)
    alphas = list(alpha) if many else [alpha]
    if not alphas:
        raise ValueError("alpha must be a number or a non-empty sequence of numbers. Got [].")
    return [float(check_number(value, "alpha", strict=strict)) for value in alphas]


def check_task_matrix(M: Any, d: int) -> np.ndarray:
    """Return a symmetric positive semi-definite matrix of shape (d, d)."""
    with numbers_in(M, "task_matrix"):
        M = check_array(M, dtype=np.float64, input_name="task_matrix")
    if M.shape != (d, d):
        raise ValueError(
            f"task_matrix must have one row and column for each of the {d} outputs. "
            f"Got shape {M.shape} instead."
        )
    size = float(np.abs(M).max())
    if not np.allclose(M, M.T, rtol=0.0, atol=1e-8 * size):
        worst = float(np.abs(M - M.T).max())
        raise ValueError(f"task_matrix must be symmetric. Got M - M' of up to {worst:.3g} instead.")
    lowest = float(symmetric_eigenvalues(M)[-1])
    if lowest < -1e-8 * size or size == 0.0:
        raise ValueError(
            "task_matrix must be positive semi-definite and not zero. "
            f"Got least eigenvalue {lowest:.3g} instead."
        )
    return M


def check_size(size: Any, n: int, name: str) -> int:
    """Return a sketch size, or a number of folds, clipped to n with a warning."""
    size = check_number(size, name, low=1, integer=True)
    if size > n:
        warnings.warn(
            f"{name}={size} is larger than the number of rows, {n}; using {n}.",
            UserWarning,
            stacklevel=3,
        )
    return min(int(size), n)


def check_matrix(objects: Any, *, accept_sparse: bool = True) -> Any:
    """Return a finite dense or canonical CSR matrix of float32 or float64."""
    if get_config()["assume_finite"] and _is_matrix(objects, accept_sparse):
        return objects
    with numbers_in(objects, "objects"):
        rows = check_array(
            objects,
            accept_sparse="csr" if accept_sparse else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=0,
            input_name="objects",
        )
    if sparse.issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _is_matrix(objects: Any, accept_sparse: bool) -> bool:
    """Whether this is a matrix as `check_matrix` returns it, but for its numbers."""
    if sparse.issparse(objects):
        is_one = accept_sparse and objects.format == "csr" and objects.has_canonical_format
    else:
        is_one = type(objects) is np.ndarray and objects.ndim == 2
    return is_one and objects.shape[1] > 0 and objects.dtype in _FLOATS


def check_rng(random_state: Any) -> np.random.Generator:
    """Turn None, an int, a Generator or a RandomState into a Generator."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an int, a numpy Generator or a RandomState. "
            f"Got {random_state!r} instead."
        ) from error


def spawn_seed(random_state: Any) -> int | None:
    """Return a seed of a stream of its own: what it draws has nothing to do with `random_state`'s.

    A Generator or RandomState moves on by one draw; None stays None.
    """
    return None if random_state is None else int(check_rng(random_state).integers(2**31))


def check_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Return non-negative float64 weights with a positive sum, or None."""
    if sample_weight is None:
        return None
    with numbers_in(sample_weight, "sample_weight"):
        # it looks at the number of rows, and newer versions at where they are
        rows = np.empty((n_rows(X), 0))
        weights = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
    check_total_weight(weights.sum())
    return weights


def check_total_weight(total: float) -> None:
    """Raise where the weights of all rows sum to zero."""
    if total <= 0.0:
        raise ValueError("sample_weight must have a positive sum. Got only zeros instead.")


def check_columns(A: Any, B: Any, kernel: str) -> None:
    """Raise unless rows that a kernel encoded are matrices with the same columns.

    Parameters
    ----------
    A, B : encoded rows
    kernel : str
        The name of its class.
    """
    for rows in (A, B):
        if rows.ndim != 2:
            raise TypeError(
                f"{kernel} says takes_vectors = True, and its encode returns rows of shape "
                f"{rows.shape}, where vectors are a matrix. A kernel of other objects says "
                "takes_vectors = False."
            )
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"A and B must have the same number of columns. Got {A.shape[1]} and {B.shape[1]}."
        )


# Data that would be misread -----------------------------------------------------------------------


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
    if isinstance(first, set | frozenset) or _are_lists_of_words(objects, name):
        raise TypeError(
            f"{name} must be rows of numbers; for label sets 0 and 1, one column a label. Got "
            f"{first!r} first: scikit-learn's MultiLabelBinarizer makes rows of names."
        )


def _are_lists_of_words(objects: Any, name: str) -> bool:
    """Whether these are lists of words: of different lengths, or outputs."""
    if not all(isinstance(item, list | tuple) for item in objects):
        return False
    first = next((item[0] for item in objects if len(item) > 0), None)
    if not isinstance(first, str):
        return False
    differ = len({len(item) for item in objects}) > 1
    return differ or (name in ("Y", "y") and not _is_number(first))


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
