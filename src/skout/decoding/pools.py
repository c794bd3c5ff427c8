"""Candidates that are embedded once: distinct ones, and where they lie in what was given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib import format as npy

from .._numerics.arrays import n_rows, take
from .._numerics.files import reserve
from .search import Found
from .sets import CandidateSets

__all__ = ["EmbeddedPool", "as_sets", "check_found", "check_sets", "new_map", "with_copies"]

_NONE = np.empty(0, dtype=np.intp)  # for concatenations of nothing


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
        The distinct candidate at each position of the pool; -1 where no query asks for it.
    embedding : ndarray of shape (n_distinct, p + 1), or p + 2 with prices
        [z(c), -k(c, c)], or [z(c), price(c), -k(c, c)].
    made_by : str
        Stands for the fitted decoder whose coordinates these are: no other can read them.
    index : object or None
        Of the decoder's `index`, built on the embedding.
    """

    objects: Any
    first: np.ndarray
    inverse: np.ndarray
    embedding: np.ndarray
    made_by: str
    index: Any = None

    @property
    def is_per_query(self) -> bool:
        """Whether each query has a set of its own."""
        return isinstance(self.objects, CandidateSets)

    @property
    def pool(self) -> Any:
        """The pool that positions refer to."""
        return self.objects.pool if self.is_per_query else self.objects

    @property
    def members(self) -> np.ndarray:
        """The distinct candidates of the sets, one set after another."""
        return self.inverse[self.objects.indices]

    @property
    def largest(self) -> int:
        """The most candidates that a query has."""
        return int(self.objects.sizes.max(initial=0)) if self.is_per_query else len(self)

    def distinct(self) -> EmbeddedPool:
        """Return the candidates without copies, in each set if there are sets."""
        if self.is_per_query:
            key = self.objects.query_of * len(self.embedding) + self.members
            first = np.sort(np.unique(key, return_index=True)[1])
            return replace(self, objects=self.objects.select(first))
        if len(self.first) == len(self):
            return self
        everything = np.arange(len(self.first))
        objects = take(self.objects, self.first)
        return replace(self, objects=objects, first=everything, inverse=everything)

    def __repr__(self) -> str:
        n, p = self.embedding.shape
        sets = f"{len(self)} sets of " if self.is_per_query else ""
        return f"<EmbeddedPool: {sets}{n_rows(self.pool)} candidates, {n} distinct, {p} columns>"

    def __len__(self) -> int:
        return len(self.objects) if self.is_per_query else n_rows(self.objects)


def new_map(path: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a new .npy file of float64 as a memory map, which has its room on the disk."""
    dtype = np.dtype(np.float64)
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        npy.write_array_header_1_0(file, header)
        reserve(file, file.tell() + math.prod(shape) * dtype.itemsize)
    return npy.open_memmap(path, "r+")


def as_sets(found: list[np.ndarray], pool: EmbeddedPool) -> CandidateSets:
    """Return the distinct candidates found for each query as sets, each at its first position."""
    indptr = np.cumsum([0, *map(len, found)])
    return CandidateSets(pool.pool, indptr, pool.first[np.concatenate([_NONE, *found])])


def with_copies(found: Found, inverse: np.ndarray, k: int) -> Found:
    """Replace distinct candidates by all their copies, best and then lowest first, and keep k."""
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    ends = np.cumsum(counts)
    index = np.full((len(found[0]), k), -1, dtype=np.intp)
    scores = np.full(index.shape, -np.inf)
    for i, (row, values) in enumerate(zip(*found, strict=True)):
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
