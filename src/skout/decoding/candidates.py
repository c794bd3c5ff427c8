"""Decode by the best of the candidates: arg max of 2 <f(x), z(c)> - k(c, c) (4.5, 5.17).

Candidates come as one pool shared by all queries, or as one set a query. Either way each distinct
candidate is encoded and embedded once, as [z(c), -k(c, c)], and scored by one inner product with
[2 f(x), 1].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._arrays import match, n_rows, row_slices, take, unique
from .._validation import check_choice, check_number, check_rows
from ..basis import KernelBasis
from .base import Decoder
from .index import as_index
from .search import Found, count_better, top_k, within
from .sets import CandidateSets, set_scores, top_k_of_sets

__all__ = ["CandidateDecoder", "EmbeddedPool"]

# Candidates embedded at a time, so that a pool costs little more than its coordinates.
_EMBEDDED = 2**16
# Scores nearer than this, relative to their size, count as tied where ranks are found.
_TIE = 1e-10


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
    embedding : ndarray of shape (n_distinct, p + 1)
        [z(c), -k(c, c)].
    index : object or None
        Of the decoder's `index`, built on the embedding.
    """

    objects: Any
    first: np.ndarray
    inverse: np.ndarray
    embedding: np.ndarray
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

    def __len__(self) -> int:
        return len(self.objects) if self.is_per_query else n_rows(self.objects)


class CandidateDecoder(Decoder):
    """Find the objects whose features are nearest to predicted coordinates.

    ||h(x) - psi(c)||^2 = const - (2 <f(x), z(c)> - k(c, c)) when h(x) lies in the span of the
    basis, so the score needs p numbers and one norm a candidate: [2 f, 1] . [z(c), -k(c, c)].

    Candidates are None (the distinct training outputs), one pool of objects, a `CandidateSets` or
    a list of lists (one set a query), or what `embed` made of any of these.

    Parameters
    ----------
    index : None, "faiss" or FaissIndex, default None
        How a shared pool is searched. None is exact and streams over blocks; a `FaissIndex` may
        be approximate, see `index_recall`.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Attributes
    ----------
    basis_ : KernelBasis
    pool_ : objects
        The distinct training outputs, used when no candidates are given.
    embedding_ : ndarray of shape (n_candidates, p + 1)
        [z(c), -k(c, c)] of the pool.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import CandidateDecoder
    >>> Y = np.eye(3)
    >>> basis = KernelBasis("linear").fit(Y)
    >>> decoder = CandidateDecoder().fit(basis, Y)
    >>> decoder.decode(basis.transform(Y[[2, 0]]))
    array([[0., 0., 1.],
           [1., 0., 0.]])
    >>> decoder.decode(basis.transform(Y[[2, 0]]), [Y[:2], Y[1:]])  # a set for each query
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    def __init__(self, index: Any = None, n_jobs: int | None = None) -> None:
        self.index = index
        self.n_jobs = n_jobs

    def fit(
        self, basis: KernelBasis, Y: Any, coordinates: np.ndarray | None = None
    ) -> CandidateDecoder:
        """Keep the distinct training outputs as the default pool.

        Parameters
        ----------
        basis : KernelBasis
            Fitted on the outputs.
        Y : objects
            The training outputs.
        coordinates : ndarray of shape (n, p), optional
            Those of Y, where they are known.

        Returns
        -------
        self : CandidateDecoder
        """
        as_index(self.index)
        self.basis_ = basis
        rows = basis.kernel_.encode(Y)
        first, _ = unique(rows)
        self.pool_ = take(Y, first)
        self.embedding_ = self._embedding(
            take(rows, first), None if coordinates is None else coordinates[first]
        )
        everything = np.arange(len(first))
        self._training = self._indexed(
            EmbeddedPool(self.pool_, everything, everything, self.embedding_)
        )
        return self

    def embed(self, candidates: Any) -> EmbeddedPool:
        """Encode and embed candidates once, to rank them for many queries.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists

        Returns
        -------
        pool : EmbeddedPool
        """
        check_is_fitted(self)
        if candidates is None:
            return self._training
        if isinstance(candidates, EmbeddedPool):
            if candidates.embedding.shape[1] != self.basis_.rank_ + 1:
                raise ValueError(
                    f"candidates were embedded in {candidates.embedding.shape[1] - 1} coordinates, "
                    f"this model has {self.basis_.rank_}. Embed them with this model."
                )
            return candidates
        if not isinstance(candidates, CandidateSets) and self._are_lists(candidates):
            candidates = CandidateSets.from_lists(candidates)
        if not isinstance(candidates, CandidateSets):
            if n_rows(candidates) == 0:
                raise ValueError("candidates is empty: give at least one object to choose from.")
            rows = self._encoded(candidates)
            first, inverse = unique(rows)
            embedding = self._embedding(rows if len(first) == n_rows(rows) else take(rows, first))
            return self._indexed(EmbeddedPool(candidates, first, inverse, embedding))
        _check_sets(candidates)
        used = np.unique(candidates.indices)
        rows = self._encoded(take(candidates.pool, used))
        first, number = unique(rows)
        inverse = np.full(n_rows(candidates.pool), -1, dtype=np.intp)
        inverse[used] = number
        return EmbeddedPool(candidates, used[first], inverse, self._embedding(take(rows, first)))

    def _encoded(self, candidates: Any) -> Any:
        """Encode candidates, which must be of the kind of the training outputs."""
        kernel, known = self.basis_.kernel_, self.basis_.landmarks_
        rows = check_rows(self.basis_, kernel, candidates, reset=False)
        given, expected = _kinds(rows), _kinds(known)
        if given != expected and not (given and expected and given & expected):
            raise TypeError(
                "candidates must be objects like the training outputs. "
                f"Got {_kind_names(given)} where the training outputs are {_kind_names(expected)}."
            )
        return rows

    def _are_lists(self, candidates: Any) -> bool:
        """Whether candidates are one list or matrix a query, not one pool of objects."""
        if not isinstance(candidates, list | tuple) or len(candidates) == 0:
            return False
        if self.basis_.kernel_.takes_vectors:  # a vector may be a list of numbers
            return any(_is_matrix(some) for some in candidates)
        depth = 1 + _list_depth(take(self.basis_.landmarks_, [0])[0])
        return max(_list_depth(some) for some in candidates) >= depth

    def _embedding(self, rows: Any, coordinates: np.ndarray | None = None) -> np.ndarray:
        """Return [z(c), -k(c, c)] of encoded rows, a block at a time."""
        n, p = n_rows(rows), self.basis_.rank_
        out = np.empty((n, p + 1))
        for some in row_slices(n, _EMBEDDED):
            part = take(rows, some)
            out[some, :p] = (
                self.basis_._coordinates(part) if coordinates is None else coordinates[some]
            )
            out[some, p] = -self.basis_.kernel_.diag(part)
        return out

    def _indexed(self, pool: EmbeddedPool) -> EmbeddedPool:
        """Build the index that was asked for."""
        index = as_index(self.index)
        return pool if index is None else replace(pool, index=index.build(pool.embedding))

    def rank(self, F: np.ndarray, candidates: Any = None, k: int = 10) -> Found:
        """Return the k best candidates of each predicted row.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        candidates : optional
            Default the distinct training outputs.
        k : int, default 10
            At most the size of the pool, or of the largest set.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions in the pool, or in the query's own set, best first; ties go to the lower
            position. A set of fewer than k candidates is padded with -1.
        scores : ndarray of shape (n, k)
            2 <f, z(c)> - k(c, c), padded with -inf.
        """
        pool = self.embed(candidates)
        most = int(pool.objects.sizes.max(initial=0)) if pool.is_per_query else len(pool)
        check_number(k, "k", low=1, integer=True)
        if k > max(1, most):
            raise ValueError(f"k={k} is larger than the number of candidates, {most}.")
        queries = self._queries(F, pool)
        if pool.is_per_query:
            return top_k_of_sets(self._set_scores(queries, pool), pool.objects.indptr, k)
        n_distinct = min(k, len(pool.first))
        if pool.index is not None:
            found = pool.index.search(queries, n_distinct)
        else:
            found = top_k(queries, pool.embedding, n_distinct, n_jobs=self.n_jobs)
        return found if len(pool.first) == len(pool) else _expand(found, pool.inverse, k)

    def decode(self, F: np.ndarray, candidates: Any = None) -> Any:
        """Return the best candidate of each predicted row, as an object.

        Parameters
        ----------
        F : ndarray of shape (n, p)
        candidates : optional

        Returns
        -------
        objects : n of them, in the container type of the pool
        """
        pool = self.embed(candidates)
        indices, _ = self.rank(F, pool, k=1)
        if pool.is_per_query:
            return take(pool.pool, pool.objects.indices[pool.objects.indptr[:-1] + indices[:, 0]])
        return take(pool.pool, indices[:, 0])

    def truth_ranks(
        self, F: np.ndarray, Y: Any, candidates: Any = None, *, ties: str = "average"
    ) -> np.ndarray:
        """Return the rank of each true object among the distinct candidates; 1 is best.

        Parameters
        ----------
        F : ndarray of shape (n, p)
        Y : objects, n of them
            The truth.
        candidates : optional
        ties : "average", "worst" or "best", default "average"
            What to make of candidates that score as the truth does.

        Returns
        -------
        ranks : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """
        check_choice(ties, "ties", ("average", "worst", "best"))
        pool = self.embed(candidates)
        queries = self._queries(F, pool)
        truth = self._truth(Y, pool)
        slack = _TIE * float(np.abs(pool.embedding[:, -1]).max(initial=1.0))
        known = np.flatnonzero(truth >= 0)
        ranks = np.full(len(queries), np.inf)
        if pool.is_per_query:
            above, tied = self._count_in_sets(queries, pool, truth, slack)
        else:
            own = np.einsum("ij,ij->i", queries[known], pool.embedding[truth[known]])
            above, tied = count_better(
                queries[known], pool.embedding, own, slack, n_jobs=self.n_jobs
            )
        share = {"best": 0.0, "average": 0.5, "worst": 1.0}[ties]
        ranks[known] = 1.0 + above + share * (tied - 1)
        return ranks

    def gaps(self, F: np.ndarray, Y: Any, candidates: Any = None) -> np.ndarray:
        """Return by how much the best candidate outscores each true object, at least 0.

        Parameters
        ----------
        F : ndarray of shape (n, p)
        Y : objects, n of them
        candidates : optional

        Returns
        -------
        gaps : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """
        pool = self.embed(candidates)
        queries, truth = self._queries(F, pool), self._truth(Y, pool)
        if pool.is_per_query:
            scores = self._set_scores(queries, pool)
            best = np.maximum.reduceat(scores, pool.objects.indptr[:-1]) if len(truth) else scores
        else:
            best = top_k(queries, pool.embedding, 1, n_jobs=self.n_jobs)[1][:, 0]
        own = np.einsum("ij,ij->i", queries, pool.embedding[truth])
        return np.where(truth >= 0, np.maximum(best - own, 0.0), np.inf)

    def within(self, F: np.ndarray, gap: float, candidates: Any = None) -> CandidateSets:
        """Return for each query the distinct candidates that score within `gap` of the best.

        Parameters
        ----------
        F : ndarray of shape (n, p)
        gap : float
            At least 0, so that no set is empty.
        candidates : optional

        Returns
        -------
        sets : CandidateSets
            Best first.
        """
        pool = self.embed(candidates)
        queries = self._queries(F, pool)
        if pool.is_per_query:
            scores, members = self._set_scores(queries, pool), pool.members
            chosen = []
            for a, b in pairwise(pool.objects.indptr):
                order = np.argsort(-scores[a:b], kind="stable") + a
                order = order[scores[order] >= scores[order[0]] - gap]
                kept = np.sort(np.unique(members[order], return_index=True)[1])  # copies once
                chosen.append(pool.objects.indices[order[kept]])
        else:
            best = top_k(queries, pool.embedding, 1, n_jobs=self.n_jobs)[1][:, 0]
            # the best must not fall below itself where its score is rounded in another way
            floor = best - gap - _TIE * np.maximum(1.0, np.abs(best))
            found = within(queries, pool.embedding, floor, n_jobs=self.n_jobs)
            chosen = [pool.first[index] for index, _ in found]
        indptr = np.concatenate([[0], np.cumsum([len(some) for some in chosen])]).astype(np.intp)
        empty = np.empty(0, dtype=np.intp)
        return CandidateSets(pool.pool, indptr, np.concatenate([*chosen, empty]))

    def _queries(self, F: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
        """Return [2 f, 1] for each row."""
        if pool.is_per_query and len(pool) != len(F):
            raise ValueError(
                "candidates must have one set for each row. "
                f"Got {len(pool)} sets for {len(F)} rows instead."
            )
        return np.column_stack([2.0 * F, np.ones(len(F))])

    def _set_scores(self, queries: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
        sets = pool.objects
        return set_scores(queries, pool.embedding, sets.indptr, pool.members, n_jobs=self.n_jobs)

    def _truth(self, Y: Any, pool: EmbeddedPool) -> np.ndarray:
        """Return the distinct candidate that each true object is, -1 where there is none."""
        truth = match(self._encoded(Y), self._encoded(take(pool.pool, pool.first)))
        if not pool.is_per_query:
            return truth
        sets = pool.objects
        query = np.repeat(np.arange(len(sets)), sets.sizes)
        present = np.zeros(len(sets), dtype=bool)
        present[query[pool.members == truth[query]]] = True
        return np.where(present, truth, -1)

    def _count_in_sets(
        self, queries: np.ndarray, pool: EmbeddedPool, truth: np.ndarray, slack: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Count the distinct candidates of each set above its truth, and those tied with it."""
        scores, members, indptr = self._set_scores(queries, pool), pool.members, pool.objects.indptr
        counts = []
        for i in np.flatnonzero(truth >= 0):
            some = slice(indptr[i], indptr[i + 1])
            distinct = np.unique(members[some], return_index=True)[1]
            s = scores[some][distinct]
            own = s[members[some][distinct] == truth[i]]
            counts.append((np.sum(s > own + slack), np.sum(np.abs(s - own) <= slack)))
        above, tied = np.array(counts, dtype=np.intp).reshape(-1, 2).T
        return above, tied


def _check_sets(sets: CandidateSets) -> None:
    empty = np.flatnonzero(sets.sizes == 0)
    if len(empty):
        more = f" ({len(empty)} queries have none)" if len(empty) > 1 else ""
        raise ValueError(
            f"candidates is empty for query {empty[0]}{more}: give at least one object to each."
        )


def _is_matrix(some: Any) -> bool:
    """Whether this holds vectors: a matrix, or a list of lists or arrays."""
    if sparse.issparse(some) or hasattr(some, "ndim"):
        return some.ndim == 2
    return isinstance(some, list | tuple) and any(_is_vector(item) for item in some)


def _is_vector(item: Any) -> bool:
    return isinstance(item, list | tuple) or getattr(item, "ndim", 0) > 0


def _list_depth(item: Any) -> int:
    """Return how deep lists and object arrays are nested; a string or a tuple is an object."""
    depth = 0
    while isinstance(item, list) or (isinstance(item, np.ndarray) and item.dtype.kind in "OUS"):
        depth += 1
        if len(item) == 0:
            break
        item = item[0]
    return depth


def _kinds(rows: Any) -> set[type] | None:
    """Return the types of a 1-D array of objects; None for rows of numbers."""
    is_objects = isinstance(rows, np.ndarray) and rows.ndim == 1
    return {type(item) for item in rows} if is_objects else None


def _kind_names(kinds: set[type] | None) -> str:
    if kinds is None:
        return "rows of numbers"
    return "objects of type " + ", ".join(sorted(kind.__name__ for kind in kinds))


def _expand(found: Found, inverse: np.ndarray, k: int) -> Found:
    """Replace distinct candidates by all their copies, best and then lowest first, and keep k."""
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    ends = np.cumsum(counts)
    out = np.empty((len(found[0]), k), dtype=np.intp), np.empty((len(found[0]), k))
    for i, (row, values) in enumerate(zip(*found, strict=True)):
        copies = np.concatenate([order[ends[j] - counts[j] : ends[j]] for j in row])
        repeated = np.repeat(values, counts[row])
        best = np.lexsort((copies, -repeated))[:k]
        out[0][i], out[1][i] = copies[best], repeated[best]
    return out
