"""Candidates: one pool for all queries or a list for each, and those that are embedded once.

An `EmbeddedPool` holds the distinct ones, and where they lie in what was given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, take
from .._numerics.objects import Rows, column_of
from .._numerics.saving import arrays_of, require
from .._numerics.typing import (
    Candidates,
    Estimator,
    Floats,
    Index,
    Ints,
    KernelRows,
    Objects,
    State,
)
from .._numerics.validation import check_number
from ..rows import source
from ..rows.encode import are_fingerprints
from .search import Found
from .sets import CandidateSets

_NONE = np.empty(0, dtype=np.intp)  # for concatenations of nothing


class SearchIndex(Protocol):
    """What is used of an index that was built on an embedding, such as a `FaissIndex`."""

    def search(self, queries: Floats, k: int) -> Found: ...


@dataclass(frozen=True, eq=False)
class EmbeddedPool:
    """Candidates with their coordinates: give it as `candidates` to search them many times.

    Attributes
    ----------
    objects : objects, or CandidateSets
        As they were given.
    first : ndarray of int
        The first position in the pool of each distinct candidate.
    inverse : ndarray of int
        The number of the distinct candidate at each position of the pool; -1 where no set has it.
    embedding : ndarray of shape (n_distinct, p + 1), or p + 2 with hubness penalties
        [z(c), -k(c, c)], or [z(c), penalty(c), -k(c, c)].
    made_by : str
        Identifier of the fitted decoder whose coordinates these are: no other can use them.
    index : object or None, default None
        Of the decoder's `index`, built on the embedding.
    counts : ndarray of int, or None, default None
        How often each distinct candidate was among the training outputs, if it is one of them.
    """

    objects: Objects | CandidateSets
    first: Ints
    inverse: Ints
    embedding: Floats
    made_by: str
    index: SearchIndex | None = None
    counts: Ints | None = None

    @property
    def is_per_query(self) -> bool:
        """Whether each query has its set of candidates, and not all share one pool."""
        return isinstance(self.objects, CandidateSets)

    @property
    def pool(self) -> Any:
        """The pool that positions refer to."""
        return self.objects.pool if isinstance(self.objects, CandidateSets) else self.objects

    @property
    def sets(self) -> CandidateSets:
        """The candidates of each query, where each has its own."""
        assert isinstance(self.objects, CandidateSets)
        return self.objects

    @property
    def members(self) -> Ints:
        """The distinct candidates of the sets, one set after another."""
        return self.inverse[self.sets.indices]

    @property
    def largest(self) -> int:
        """The most candidates that a query has."""
        return int(self.sets.sizes.max(initial=0)) if self.is_per_query else len(self)

    def width(self, k: int) -> int:
        """Return the columns of a ranking of k candidates: at most all of a shared pool.

        Parameters
        ----------
        k : int
            Candidates of each query.
        """
        check_number(k, "k", low=1, integer=True)
        return k if self.is_per_query else min(k, len(self))

    def distinct(self) -> EmbeddedPool:
        """Return the candidates without copies, in each set if there are sets."""
        if self.is_per_query:
            key = self.sets.query_of * len(self.embedding) + self.members
            first = np.sort(np.unique(key, return_index=True)[1])
            return replace(self, objects=self.sets.select(first))
        if len(self.first) == len(self):
            return self
        everything = np.arange(len(self.first))
        objects = take(self.objects, self.first)
        return replace(self, objects=objects, first=everything, inverse=everything)

    def of_numbers(self, numbers: np.ndarray, objects: Objects) -> EmbeddedPool:
        """Return the distinct candidates of these numbers as a pool.

        Parameters
        ----------
        numbers : ndarray of int
            Rows of the embedding.
        objects : objects, as many
            These candidates, or others that the kernel cannot distinguish from them.
        """
        everything = np.arange(len(numbers))
        return EmbeddedPool(objects, everything, everything, self.embedding[numbers], self.made_by)

    @classmethod
    def __skout_restore__(cls, state: State) -> EmbeddedPool:
        pool = cls(**state)
        arrays_of(state, "first", "inverse", "embedding")
        n, n_distinct = n_rows(pool.pool), len(pool.embedding)
        fits = (
            pool.embedding.ndim == 2
            and pool.first.shape == (n_distinct,)
            and pool.inverse.shape == (n,)
            and _are_positions(pool.first, 0, n)
            and _are_positions(pool.inverse, -1, n_distinct)
            and (pool.counts is None or pool.counts.shape == (n_distinct,))
            and (not pool.is_per_query or _are_positions(pool.members, 0, n_distinct))
        )
        require(fits, "candidates whose coordinates do not fit them")
        return pool

    def __repr__(self) -> str:
        n, p = self.embedding.shape
        sets = f"{len(self)} sets of " if self.is_per_query else ""
        return f"<EmbeddedPool: {sets}{n_rows(self.pool)} candidates, {n} distinct, {p} columns>"

    def __len__(self) -> int:
        return len(self.sets) if self.is_per_query else n_rows(self.pool)


def _are_positions(values: np.ndarray, low: int, high: int) -> bool:
    inside = (values >= low) & (values < high)
    return values.dtype.kind in "iu" and bool(np.all(inside))


def taken(objects: Objects, index: Index) -> Objects:
    """Return the objects at an index, in memory; those of a pool on disk are read."""
    chosen: Objects = source(objects).take(index)
    return chosen


def as_sets(numbers: list[np.ndarray], pool: EmbeddedPool) -> CandidateSets:
    """Return lists of distinct candidates as sets, each candidate at its first position."""
    indptr = np.cumsum([0, *map(len, numbers)])
    return CandidateSets(pool.pool, indptr, pool.first[np.concatenate([_NONE, *numbers])])


def in_own_set(numbers: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
    """Return distinct candidates, one for each query, with -1 where it is not in the query's set.

    All candidates of a shared pool belong to each query.
    """
    if not pool.is_per_query:
        return numbers
    query_of = pool.sets.query_of
    present = np.zeros(len(numbers), dtype=bool)
    present[query_of[pool.members == numbers[query_of]]] = True
    return np.where(present, numbers, -1)


def truth_in(pool: EmbeddedPool, decoder: Estimator, Y: Objects, n: int) -> np.ndarray:
    """Return the number of the candidate that equals the true object of each query, or -1."""
    if n_rows(Y) != n:
        raise ValueError(f"Y must have one object for each row. Got {n_rows(Y)} for {n} rows.")
    return in_own_set(decoder.matched(Y, pool), pool)


def with_copies(ranked: Found, pool: EmbeddedPool, k: int) -> Found:
    """Replace distinct candidates by all their copies, best and then lowest first, and keep k."""
    if len(pool.first) == len(pool):
        return ranked
    order = np.argsort(pool.inverse, kind="stable")
    counts = np.bincount(pool.inverse)
    ends = np.cumsum(counts)
    index = np.full((len(ranked[0]), k), -1, dtype=np.intp)
    scores = np.full(index.shape, -np.inf)
    for i, (row, values) in enumerate(zip(*ranked, strict=True)):
        row, values = row[row >= 0], values[row >= 0]  # an index may find too few
        copies = np.concatenate([_NONE, *(order[ends[j] - counts[j] : ends[j]] for j in row)])
        repeated = np.repeat(values, counts[row])
        best = np.lexsort((copies, -repeated))[:k]
        index[i, : len(best)], scores[i, : len(best)] = copies[best], repeated[best]
    return index, scores


def check_found(index: np.ndarray) -> None:
    """Raise where an index found no candidate at all."""
    missing = np.flatnonzero(index < 0)
    if len(missing):
        raise ValueError(
            f"The index found no candidate for query {missing[0]}{_more(missing)}: "
            "raise its n_probe, or search all candidates with index=None."
        )


def check_made_by(pool: EmbeddedPool, name: str) -> None:
    """Raise where a pool was embedded by another model."""
    if pool.made_by != name:
        raise ValueError(
            "candidates were embedded by another model, or before this one was fitted again, "
            "so that their coordinates mean something else. Embed them with this model: "
            "model.embed(pool.objects)."
        )


def check_one_for_each(pool: EmbeddedPool, n: int) -> None:
    """Raise where there are sets, and not one for each of n rows."""
    if pool.is_per_query and len(pool) != n:
        raise ValueError(
            f"candidates must have one set for each row. Got {len(pool)} sets for {n} rows instead."
        )


def check_sets(sets: CandidateSets) -> None:
    """Raise where a set is empty."""
    empty = np.flatnonzero(sets.sizes == 0)
    if len(empty):
        raise ValueError(
            f"candidates is empty for query {empty[0]}{_more(empty)}: "
            "give at least one object to each."
        )


def _more(queries: np.ndarray) -> str:
    return f" ({len(queries)} queries have none)" if len(queries) > 1 else ""


# Forms of candidates: objects or rows of numbers, one pool or a list for each query --------------


def are_lists(candidates: Candidates, known: KernelRows) -> bool:
    """Return whether candidates are one list or matrix a query, not one pool like `known`."""
    if not isinstance(candidates, list | tuple):
        candidates = _column_of_lists(candidates, known)
    if len(candidates) == 0:
        return False
    if known.ndim == 2:  # a vector may be a list of numbers
        return any(_is_matrix(item) or are_fingerprints(item) for item in candidates)
    depth = 1 if isinstance(known, Rows) else 1 + _list_depth(known[0])
    return max(_list_depth(item) for item in candidates) >= depth


def _column_of_lists(candidates: Any, known: KernelRows) -> list[Any]:
    """Return a column whose cells are lists as a list of them; an empty one for anything else."""
    is_column = len(getattr(candidates, "shape", ())) == 1 and not isinstance(candidates, Rows)
    if not is_column or known.ndim == 2 or len(candidates) == 0:
        return []
    return list(candidates) if _list_depth(single(candidates, 0)) else []


def _is_matrix(item: Objects) -> bool:
    """Return whether this holds vectors: a matrix or data frame, or a list of lists or arrays."""
    if hasattr(item, "shape"):
        return len(item.shape) == 2
    return isinstance(item, list | tuple) and any(
        isinstance(row, list | tuple) or getattr(row, "ndim", 0) > 0 for row in item
    )


def _list_depth(item: Any) -> int:
    """Return how deep lists, arrays and series are nested; a string or a tuple is an object."""
    if hasattr(item, "columns"):  # a frame, whose first row may be a frame again
        return 2 if column_of(item) is item else 1
    depth = 0
    while isinstance(item, list) or (hasattr(item, "__array__") and np.ndim(item) > 0):
        depth += 1
        if n_rows(item) == 0:
            break
        item = single(item, 0)
    return depth


def single(objects: Any, j: int) -> Any:
    """Return a single object; of a sparse matrix, a matrix of one row."""
    if hasattr(objects, "iloc"):  # [j] would look for a label
        return objects.iloc[j]
    return objects[[j]] if sparse.issparse(objects) else objects[j]


def kinds(rows: KernelRows) -> set[type] | None:
    """Return the types of a 1-D array of objects, as Python has them; None for rows of numbers."""
    if rows.ndim == 2:
        return None
    if isinstance(rows, Rows):  # the kernel took them, so they are of its kind
        return {type(rows)}
    # strings, say, are np.str_ where they come in an array
    items: Any = rows
    return {type(item.item() if isinstance(item, np.generic) else item) for item in items}


def check_kinds(given: set[type] | None, expected: set[type] | None) -> None:
    """Raise unless candidates and training outputs, by their `kinds`, have a type in common."""
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
    # packed bits and a matrix, one of which has counts, or was too sparse to be packed
    A, B = (np.asarray(rows) if isinstance(rows, Rows) else rows for rows in (A, B))
    if sparse.issparse(A) or sparse.issparse(B):
        # copies of csr_matrix, unlike those of csr_array, have indices of the smallest type
        A, B = sparse.csr_matrix(A), sparse.csr_matrix(B)
    dtype = np.float32 if np.float32 in (A.dtype, B.dtype) else np.float64
    return A.astype(dtype, copy=False), B.astype(dtype, copy=False)
