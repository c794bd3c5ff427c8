"""Encoded objects that are neither a matrix nor an array of objects, for instance peak lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from numbers import Number
from typing import Any, Self, cast

import numpy as np
from scipy import sparse

from .arrays import Taken, astype, float_dtype, is_float, n_rows, row_keys, tensor
from .saving import arrays_of, require, with_attributes
from .typing import Array, DeviceLike, DType, Index, Ints, Objects, State


class Rows(ABC):
    """Encoded objects that are neither a matrix nor an array of objects.

    They are indexed by slices, masks and positions, and an index gives rows of the same kind. A
    kernel whose `encode` returns them finds them again in `against` and `diag`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Rows
    >>> class Intervals(Rows):
    ...     def __init__(self, ends):
    ...         self.ends = ends  # (n, 2)
    ...
    ...     def __len__(self):
    ...         return len(self.ends)
    ...
    ...     def __getitem__(self, index):
    ...         return Intervals(self.ends[index])
    ...
    ...     def keys(self):
    ...         return [tuple(ends) for ends in self.ends.tolist()]
    ...
    ...     @classmethod
    ...     def concatenate(cls, parts):
    ...         return cls(np.concatenate([part.ends for part in parts]))
    >>> Intervals(np.array([[0, 1], [2, 5], [3, 4]]))[1:].keys()
    [(2, 5), (3, 4)]
    """

    #: 2 where rows have as many columns as each other, as vectors do
    ndim: int = 1
    #: the precision of kernel blocks, where the rows have one
    dtype: np.dtype = np.dtype(object)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Index) -> Self: ...

    @abstractmethod
    def keys(self) -> Sequence[Hashable]:
        """Return one hashable key per row; equal rows have equal keys."""

    @classmethod
    @abstractmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one after the other."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def held(self) -> Array | None:
        """An array that holds the rows or a part of them, by which a tensor is recognized."""
        return None

    def moved(self, move: Callable[[Array], Array]) -> Self:
        """Return the rows with `move` applied to each array that holds them, see `to_device`."""
        raise TypeError(f"{type(self).__name__} cannot be held in tensors.")


def pointers(lengths: np.ndarray) -> np.ndarray:
    """Return 0 and the running sums of the lengths."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return starts[0], starts[0] + 1, ... (lengths[0] of them), starts[1], ... in one array."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    entries: Ints = np.arange(total) + np.repeat(starts - ends + lengths, lengths)
    return entries


class Ragged(Rows):
    """Rows of different lengths: row i is columns[j][indptr[i] : indptr[i + 1]] for each j.

    Parameters
    ----------
    indptr : ndarray of int64, shape (n + 1,)
        The entries of row i begin at indptr[i].
    columns : arrays of one length
        The entries of all rows, one row after another.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Ragged
    >>> words = Ragged(np.array([0, 2, 3]), np.array([104, 105, 33]))  # two rows: hi, !
    >>> words.lengths
    array([2, 1])
    >>> words[1:].columns[0]
    array([33])
    """

    def __init__(self, indptr: np.ndarray, *columns: np.ndarray) -> None:
        self.indptr = indptr
        self.columns = columns

    @classmethod
    def __skout_restore__(cls, state: State) -> Self:
        (rows,) = with_attributes(cls, state)
        (indptr,) = arrays_of(state, "indptr")
        fits = (
            indptr.ndim == 1
            and indptr.dtype.kind in "iu"
            and len(indptr) > 0
            and indptr[0] == 0
            and not np.any(indptr[1:] < indptr[:-1])
            and all(column.shape == (indptr[-1],) for column in rows.columns)
        )
        require(fits, f"{cls.__name__} whose columns do not fit their rows")
        return rows

    def like(self, indptr: np.ndarray, *columns: np.ndarray) -> Self:
        """Return rows of the same class; subclasses with more attributes pass them on."""
        return type(self)(indptr, *columns)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of entries of each row."""
        return np.diff(self.indptr)

    @property
    def row_numbers(self) -> np.ndarray:
        """The row that each entry belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __getitem__(self, index: Index) -> Self:
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(len(self))
            indptr = self.indptr[start : max(start, stop) + 1]
            inner = slice(indptr[0], indptr[-1])
            return self.like(indptr - indptr[0], *(column[inner] for column in self.columns))
        chosen = np.atleast_1d(np.arange(len(self))[index])
        lengths = self.lengths[chosen]
        entries = ranges(self.indptr[chosen], lengths)
        return self.like(pointers(lengths), *(column[entries] for column in self.columns))

    def keys(self) -> Sequence[Hashable]:
        ends = zip(self.indptr[:-1], self.indptr[1:], strict=True)
        return [b"".join(column[a:b].tobytes() for column in self.columns) for a, b in ends]

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        starts = np.cumsum([0] + [part.indptr[-1] for part in parts])
        ends = [part.indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        columns = zip(*(part.columns for part in parts), strict=True)
        indptr = np.concatenate([[0], *ends])
        return parts[0].like(indptr, *(np.concatenate(column) for column in columns))


class Joint(Rows):
    """Two encodings of the same objects: a row is a pair of rows, `left` and `right`."""

    def __init__(self, left: Objects, right: Objects) -> None:
        self.left: Any = left
        self.right: Any = right
        numeric = [float_dtype(side) for side in (left, right) if is_float(side)]
        self.dtype: np.dtype = np.result_type(*numeric) if numeric else np.dtype(object)

    def __len__(self) -> int:
        return n_rows(self.left)

    def __getitem__(self, index: Index) -> Self:
        return type(self)(self.left[index], self.right[index])

    @property
    def ndim(self) -> int:  # type: ignore[override]
        return max(int(self.left.ndim), int(self.right.ndim))

    @property
    def shape(self) -> tuple[int, ...]:
        widest = max(self.left, self.right, key=lambda side: side.ndim)
        return (len(self), *widest.shape[1:])

    def keys(self) -> Sequence[Hashable]:
        return list(zip(row_keys(self.left), row_keys(self.right), strict=True))

    def astype(self, dtype: DType, copy: bool = True) -> Self:
        """Cast the sides that are numbers."""
        return type(self)(astype(self.left, dtype), astype(self.right, dtype))

    @property
    def held(self) -> Array | None:
        held: Array | None = getattr(self.left, "held", self.left)
        return held

    def moved(self, move: Callable[[Array], Array]) -> Self:
        return type(self)(moved(self.left, move), moved(self.right, move))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        return cls(stack([part.left for part in parts]), stack([part.right for part in parts]))


def stack(parts: Sequence[Taken]) -> Taken:
    """Return the rows of several data sets as one."""
    stacked: Any = parts
    if isinstance(parts[0], Rows):
        stacked = type(parts[0]).concatenate(stacked)
    elif any(sparse.issparse(part) for part in parts):
        stacked = sparse.vstack(stacked, format="csr")
    else:
        stacked = np.concatenate(stacked)
    return cast(Taken, stacked)


def as_objects(objects: Objects) -> np.ndarray:
    """Return a 1-D object array, one entry an object (strings, graphs, tuples, ...).

    Parameters
    ----------
    objects : list or array of objects
        A 1-D array is returned as it is.

    Examples
    --------
    >>> from skout.kernels import as_objects
    >>> as_objects([(1, 2), (3,)])
    array([(1, 2), (3,)], dtype=object)
    """
    if isinstance(objects, np.ndarray) and objects.ndim == 1:
        return objects
    if isinstance(objects, str | set | Mapping) or not hasattr(objects, "__len__"):
        raise TypeError(
            f"Expected a list or array of objects. Got {type(objects).__name__} instead."
        )
    out = np.empty(len(objects), dtype=object)
    for i, item in enumerate(iter(objects)):
        out[i] = item
    return out


def column_of(objects: Objects) -> Objects:
    """Return a column of objects as a 1-D array: of Arrow, of a frame's only column, of a file.

    Anything else is returned as it is; a column of numbers is vectors of length 1.
    """
    if isinstance(objects, np.ndarray | list | tuple | Rows):
        return objects
    if hasattr(objects, "to_pylist") and not hasattr(objects, "columns"):
        return np.asarray(objects)
    if _are_texts_on_disk(objects):  # where positions must increase
        return np.asarray(objects[:])
    if len(getattr(objects, "columns", ())) != 1 or len(objects) == 0:
        return objects
    column = np.asarray(objects)[:, 0]
    has_numbers = any(isinstance(item, Number) and item == item for item in column)  # but NaN
    return objects if has_numbers else column


def is_gap(value: object) -> bool:
    """Return whether a cell of a column is missing: None, NaN, or NA and NaT of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | Decimal) and bool(value != value)


def is_categorical(column: Objects) -> bool:
    """Return whether pandas, polars or pyarrow declare a column to be of categories."""
    if isinstance(column, np.ndarray | list):
        return False
    kind = getattr(column, "dtype", None) or getattr(column, "type", None)
    return str(kind).lower().startswith(("category", "categorical", "enum", "dictionary"))


def _are_texts_on_disk(objects: Objects) -> bool:
    """Return whether this is an HDF5 or zarr array that holds no numbers."""
    in_memory = (
        isinstance(objects, np.ndarray) or hasattr(objects, "iloc") or hasattr(objects, "dask")
    )
    dtype = getattr(objects, "dtype", None)
    if in_memory or not isinstance(dtype, np.dtype) or dtype.kind in "biufc":
        return False
    return len(getattr(objects, "shape", ())) == 1


def moved(rows: Taken, move: Callable[[Any], Any]) -> Taken:
    """Return rows with `move` applied to each array that holds them."""
    new: Any = rows
    new = new.moved(move) if isinstance(new, Rows) else move(new)
    same: Taken = new
    return same


def to_device(rows: Taken, device: DeviceLike, dtype: DType | None = None) -> Taken:
    """Return encoded rows held in tensors on a device, for `Kernel.against` there.

    Parameters
    ----------
    rows : ndarray, CSR matrix (which becomes dense), tensor or Rows that tensors can hold
    device : torch.device or str
    dtype : float32 or float64, optional
        Of NumPy: the precision of kernel blocks; by default that of the rows.
    """
    tensors = moved(rows, lambda array: tensor(array, device))
    return tensors if dtype is None else astype(tensors, dtype)
