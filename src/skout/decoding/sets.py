"""One set of candidates for each query, out of one pool."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import has_rows, n_rows, row_slices, take, unique
from .._numerics.objects import Rows, as_objects, column_of, pointers, stack
from .._numerics.saving import arrays_of
from .._numerics.threads import map_blocks
from .._numerics.typing import ArrayLike, Ints, Objects, State
from .search import Found

# Candidates whose coordinates are gathered at a time: they stay in cache. 300 sets of 2,000, of 200
# numbers: a quarter takes 1.2 times as long, half and double as long.
_GATHERED = 512
# Numbers to multiply from which on a loop is compiled: that takes 0.4 s, and the loop 0.15 s in
# place of 0.34 for so many.
_MANY = 2**27


class PerQuery:
    """Entries of queries, one query after another: those of i are indptr[i]:indptr[i + 1]."""

    indptr: Ints

    def __len__(self) -> int:
        return max(0, len(self.indptr) - 1)

    @property
    def sizes(self) -> Ints:
        """The number of entries of each query."""
        return np.diff(self.indptr)

    @property
    def query_of(self) -> Ints:
        """The query that each entry belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)


class CandidateSets(PerQuery):
    """One set of candidates for each query: set i is pool[indices[indptr[i]:indptr[i + 1]]].

    Sets overlap at no cost: a member of the pool is encoded and embedded once, whatever the
    number of sets that it is in. Positions in a set, as `rank` returns them, count within that
    set: `sets[i][j]` is candidate j of query i.

    Parameters
    ----------
    pool : objects
        All candidates: a list, an array, a CSR matrix or a data frame.
    indptr : array of int, shape (n + 1,)
        From 0 to len(indices), increasing.
    indices : array of int
        Positions in the pool.

    Examples
    --------
    >>> from skout.decoding import CandidateSets
    >>> sets = CandidateSets(["CO", "CCO", "CN"], [0, 2, 3], [0, 1, 2])
    >>> len(sets), sets.sizes.tolist(), sets[0]
    (2, [2, 1], ['CO', 'CCO'])
    >>> CandidateSets.from_lists([["CO", "CCO"], ["CO"]]).pool
    ['CO', 'CCO']
    """

    def __init__(self, pool: Objects, indptr: ArrayLike, indices: ArrayLike) -> None:
        self.pool = pool
        self.indptr: Ints = _integers(indptr, "indptr")
        self.indices: Ints = _integers(indices, "indices")
        ends = (self.indptr[0], self.indptr[-1]) if len(self.indptr) else (0, 0)
        if ends != (0, len(self.indices)) or np.any(np.diff(self.indptr) < 0):
            raise ValueError(
                f"indptr must increase from 0 to len(indices)={len(self.indices)}. "
                f"Got {len(self.indptr)} numbers from {ends[0]} to {ends[1]} instead."
            )
        if not has_rows(pool):
            raise TypeError(f"pool must be a list or array of objects. Got {pool!r} instead.")
        outside = (self.indices < 0) | (self.indices >= n_rows(pool))
        if outside.any():
            raise ValueError(
                f"indices must be positions in the pool, 0 to {n_rows(pool) - 1}. "
                f"Got {self.indices[outside][0]} instead."
            )

    @classmethod
    def __skout_restore__(cls, state: State) -> CandidateSets:
        return cls(state["pool"], *arrays_of(state, "indptr", "indices"))

    @classmethod
    def from_lists(cls, lists: Iterable[Objects]) -> CandidateSets:
        """Make the sets from one list, array, CSR matrix or data frame of candidates a query.

        Parameters
        ----------
        lists : sequence of n lists or series of objects, or of n matrices with a row a candidate
            The candidates of each query.
        """
        columns: list[Any] = [column_of(objects) for objects in lists]
        for objects in columns:
            _check_list(objects)
        indptr = np.cumsum([0, *(n_rows(objects) for objects in columns)])
        filled = [objects for objects in columns if n_rows(objects)]
        if any(sparse.issparse(objects) for objects in filled) or (
            filled and all(len(getattr(objects, "shape", ())) == 2 for objects in filled)
        ):
            return cls(_stacked(filled), indptr, np.arange(indptr[-1]))
        items = [item for objects in filled for item in objects]
        first, indices = unique(as_objects(items))
        return cls([items[i] for i in first], indptr, indices)

    def __getitem__(self, i: int) -> Any:
        """Return the candidates of query i; for a slice, the sets of some queries."""
        if isinstance(i, slice):
            return self.of_queries(range(len(self))[i])
        return take(self.pool, self.positions(i))

    def of_queries(self, numbers: Iterable[int]) -> CandidateSets:
        """Return the sets of the queries of these numbers, in their order.

        Parameters
        ----------
        numbers : sequence of int
            Counted from 0.
        """
        parts = [self.positions(j) for j in numbers]
        indptr = np.cumsum([0, *map(len, parts)])
        return CandidateSets(
            self.pool, indptr, np.concatenate([*parts, np.empty(0, dtype=np.intp)])
        )

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<CandidateSets: {len(self)} sets, {n_rows(self.pool)} objects in the pool>"

    def positions(self, i: int) -> np.ndarray:
        """Return the positions in the pool of the candidates of query i.

        Parameters
        ----------
        i : int
            Counted from the end where negative.
        """
        i = range(len(self))[i]  # from the end where negative, and not beyond it
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def select(self, entries: np.ndarray) -> CandidateSets:
        """Return the sets with these candidates alone.

        Parameters
        ----------
        entries : ndarray of int
            Positions in `indices`, those of one query after those of another.
        """
        sizes = np.bincount(self.query_of[entries], minlength=len(self))
        return CandidateSets(self.pool, pointers(sizes), self.indices[entries])


def _integers(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"{name} must be a 1-D array of integers. "
            f"Got {array.dtype} of shape {array.shape} instead."
        )
    return array.astype(np.intp)


def _check_list(objects: object) -> None:
    """Raise unless `objects` can be the list of candidates of a query."""
    is_list = hasattr(objects, "shape") or hasattr(objects, "__len__")
    if isinstance(objects, str | bytes) or not is_list:
        raise TypeError(
            'lists must have a list of candidates for each query, such as [["CO", "CN"], ["CO"]]. '
            f"Got {objects!r} in place of a list. One pool for all queries needs no CandidateSets: "
            "give it as candidates."
        )


def _stacked(matrices: list[Any]) -> Any:
    """Return the rows of matrices in one: sparse if any of them is, a data frame if all are."""
    if isinstance(matrices[0], Rows):
        return stack(matrices)
    if any(sparse.issparse(matrix) for matrix in matrices):
        return stack([s if sparse.issparse(s) else sparse.csr_matrix(s) for s in matrices])
    if all(hasattr(matrix, "iloc") for matrix in matrices):
        import pandas as pd

        return pd.concat(matrices)
    return np.concatenate([np.asarray(matrix) for matrix in matrices])


def set_scores(
    queries: np.ndarray,
    embedding: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    *,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return the inner product of each query with each of its candidates, one set after another.

    Equal candidates get equal scores to the last bit, wherever they stand.
    """
    if queries.shape[1] != embedding.shape[1]:  # the compiled loop would read beyond the end
        raise ValueError(
            f"Queries have {queries.shape[1]} coordinates, and candidates {embedding.shape[1]}."
        )
    out = np.empty(len(indices))
    loop = _products() if len(indices) * embedding.shape[1] >= _MANY else None
    if loop is not None:  # as it was compiled
        queries, embedding = (np.ascontiguousarray(A, np.float64) for A in (queries, embedding))
        indices = np.ascontiguousarray(indices, np.int64)

    def fill(block: slice) -> None:
        if loop is not None:
            for i in range(block.start, block.stop):
                rows = slice(indptr[i], indptr[i + 1])
                loop(queries[i], embedding, indices[rows], out[rows])
            return
        buffer = np.empty((_GATHERED, embedding.shape[1]))  # stays in cache
        for i in range(block.start, block.stop):
            for start in range(indptr[i], indptr[i + 1], _GATHERED):
                rows = slice(start, min(start + _GATHERED, indptr[i + 1]))
                part = buffer[: rows.stop - rows.start]
                np.take(embedding, indices[rows], axis=0, out=part, mode="clip")
                np.einsum("ij,j->i", part, queries[i], out=out[rows])

    size = max(1, min(256, -(-len(queries) // 16)))
    for _ in map_blocks(fill, row_slices(len(queries), size), n_jobs=n_jobs):
        pass
    return out


@functools.cache
def _products() -> Any:
    """Return the loop over candidates as machine code, None where numba is missing.

    It reads each candidate once; NumPy copies it first.
    """
    try:
        import numba
    except ImportError:
        return None

    # sums in any order, but always the same one
    @numba.njit("void(f8[::1], f8[:, ::1], i8[::1], f8[::1])", nogil=True, fastmath={"reassoc"})
    def loop(query, embedding, indices, out):  # type: ignore[no-untyped-def]
        for t in range(len(indices)):
            row, total = indices[t], 0.0
            for j in range(len(query)):
                total += query[j] * embedding[row, j]
            out[t] = total

    return loop


def best_of_sets(scores: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the best score of each set, none of which is empty."""
    return np.maximum.reduceat(scores, indptr[:-1])


def count_better_of_sets(
    scores: np.ndarray, query_of: np.ndarray, score: np.ndarray, slack: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count the candidates that score more than their query's `score`, and those that tie."""
    high, low = (score + slack)[query_of], (score - slack)[query_of]
    above = np.bincount(query_of[scores > high], minlength=len(score))
    not_below = np.bincount(query_of[scores >= low], minlength=len(score))
    return above, not_below - above


def top_k_of_sets(scores: np.ndarray, indptr: np.ndarray, k: int) -> Found:
    """Return the k best of each set: positions in the set, padded with -1, and scores, -inf."""
    n = len(indptr) - 1
    index = np.full((n, k), -1, dtype=np.intp)
    best = np.full((n, k), -np.inf)
    for i, (a, b) in enumerate(pairwise(indptr)):
        s, n_kept = scores[a:b], min(k, b - a)
        if k == 1:
            order = np.array([s.argmax()])
        elif len(s) > 8 * k:
            mark = np.partition(s, len(s) - k)[len(s) - k]
            above = np.flatnonzero(s >= mark)
            order = above[np.argsort(-s[above], kind="stable")[:k]]
        else:
            order = np.argsort(-s, kind="stable")[:k]
        index[i, :n_kept], best[i, :n_kept] = order, s[order]
    return index, best
