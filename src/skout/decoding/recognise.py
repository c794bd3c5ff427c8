"""What candidates are: objects or rows of numbers, one pool for all queries or a list for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import Rows

__all__ = ["are_lists", "check_kinds", "comparable", "kinds", "one"]


def are_lists(candidates: Any, known: Any) -> bool:
    """Whether candidates are one list or matrix a query, not one pool of objects like `known`."""
    if not isinstance(candidates, list | tuple) or len(candidates) == 0:
        return False
    if known.ndim == 2:  # a vector may be a list of numbers
        return any(_is_matrix(some) or _are_fingerprints(some) for some in candidates)
    depth = 1 if isinstance(known, Rows) else 1 + _list_depth(known[0])
    return max(_list_depth(some) for some in candidates) >= depth


def _is_matrix(some: Any) -> bool:
    """Whether this holds vectors: a matrix or data frame, or a list of lists or arrays."""
    if hasattr(some, "shape"):
        return len(some.shape) == 2
    return isinstance(some, list | tuple) and any(_is_vector(item) for item in some)


def _are_fingerprints(some: Any) -> bool:
    """Whether this is a list of bit vectors or of hex strings."""
    is_filled = isinstance(some, list | tuple) and len(some) > 0
    return is_filled and (isinstance(some[0], str) or hasattr(some[0], "ToBitString"))


def _is_vector(item: Any) -> bool:
    return isinstance(item, list | tuple) or getattr(item, "ndim", 0) > 0


def _list_depth(item: Any) -> int:
    """Return how deep lists, arrays and series are nested; a string or a tuple is an object."""
    depth = 0
    while isinstance(item, list) or (hasattr(item, "__array__") and np.ndim(item) > 0):
        depth += 1
        if len(item) == 0:
            break
        item = one(item, 0)
    return depth


def one(objects: Any, j: int) -> Any:
    """Return a single object; of a sparse matrix, a matrix of one row."""
    if hasattr(objects, "iloc"):  # [j] would look for a label
        return objects.iloc[j]
    return objects[[j]] if sparse.issparse(objects) else objects[j]


def kinds(rows: Any) -> set[type] | None:
    """Return the types of a 1-D array of objects, as Python has them; None for rows of numbers."""
    if rows.ndim == 2:
        return None
    if isinstance(rows, Rows):  # the kernel took them, so they are of its kind
        return {type(rows)}
    # strings, say, are np.str_ where they come in an array
    return {type(item.item() if isinstance(item, np.generic) else item) for item in rows}


def check_kinds(given: set[type] | None, expected: set[type] | None) -> None:
    """Raise unless the kinds, of `kinds`, have a type in common, or are rows of numbers."""
    if given is None or expected is None:
        alike = given == expected
    else:
        alike = bool(given & expected)
    if not alike:
        raise TypeError(
            "candidates must be objects like the training outputs. "
            f"Got {_names(given)} where the training outputs are {_names(expected)}."
        )


def _names(types: set[type] | None) -> str:
    if types is None:
        return "rows of numbers"
    return "objects of type " + ", ".join(sorted(kind.__name__ for kind in types))


def comparable(A: Any, B: Any) -> tuple[Any, Any]:
    """Return two sets of rows in one container and one precision, so that equal rows match."""
    if A.ndim == 1 or (type(A) is type(B) and isinstance(A, Rows)):
        return A, B
    # packed bits with a matrix: there are counts, or few ones
    A, B = (np.asarray(rows) if isinstance(rows, Rows) else rows for rows in (A, B))
    if sparse.issparse(A) or sparse.issparse(B):
        # whose copies, unlike those of csr_array, have the smallest indices that will do
        A, B = sparse.csr_matrix(A), sparse.csr_matrix(B)
    dtype = np.float32 if np.float32 in (A.dtype, B.dtype) else np.float64
    return A.astype(dtype, copy=False), B.astype(dtype, copy=False)
