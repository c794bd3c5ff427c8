"""Score candidates by several models at once: mean or maximum of scores, mean of ranks.

Each member has coordinates of its own, so a block of scores is the sum or the maximum of one matrix
product a member. Ranks need all candidates of a query at a time, though not all queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from .._numerics.arrays import row_slices, unique
from .._numerics.threads import map_blocks
from ..rows import block_rows
from .pools import EmbeddedPool, with_copies
from .search import Found, count_better, joined, ranks_of, slack_of, top_k
from .sets import count_better_of_sets, set_scores, top_k_of_sets

COMBINE = ("mean", "max", "rank")
# Bytes that a candidate takes while a query ranks it: scores, ranks, and the sort.
_RANK_BYTES = 64
# Decimals of mean ranks: rounding in their sums must not break ties.
_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class EmbeddedPools:
    """Candidates in the coordinates of each member: give it as `candidates` many times.

    Attributes
    ----------
    parts : tuple of EmbeddedPool
        As each member embedded them.
    pool : EmbeddedPool
        The candidates that some member tells apart, in the coordinates of the first.
    embeddings : tuple of ndarrays, each with a row for each of these candidates
    table : ndarray of int, shape (n_distinct, n_members), or None
        The number of each of them among the distinct candidates of each member; None where all
        members distinguish the same candidates.
    """

    parts: tuple[EmbeddedPool, ...]
    pool: EmbeddedPool
    embeddings: tuple[np.ndarray, ...]
    table: np.ndarray | None

    @classmethod
    def of(cls, parts: Sequence[EmbeddedPool]) -> EmbeddedPools:
        """Return the candidates that at least one member distinguishes.

        Parameters
        ----------
        parts : sequence of EmbeddedPool
            The same candidates as each member embedded them.
        """
        inverses = [part.inverse for part in parts]
        if all(np.array_equal(inverse, inverses[0]) for inverse in inverses):
            return cls(tuple(parts), parts[0], tuple(part.embedding for part in parts), None)
        used = np.flatnonzero(inverses[0] >= 0)
        stacked = np.column_stack([inverse[used] for inverse in inverses])
        first, number = unique(stacked)
        inverse = np.full(len(inverses[0]), -1, dtype=np.intp)
        inverse[used] = number
        table = stacked[first]
        embeddings = tuple(part.embedding[table[:, t]] for t, part in enumerate(parts))
        pool = replace(parts[0], first=used[first], inverse=inverse, embedding=embeddings[0])
        return cls(tuple(parts), pool, embeddings, table)

    @property
    def is_per_query(self) -> bool:
        """Whether each query has its set of candidates, and not all share one pool."""
        return self.pool.is_per_query

    def __len__(self) -> int:
        return len(self.pool)

    def __repr__(self) -> str:
        return f"<EmbeddedPools of {len(self.parts)} members: {self.pool!r}>"


class Blend:
    """The scores of several members' queries, combined."""

    def __init__(
        self,
        combine: str,  # one of COMBINE
        weights: np.ndarray,  # (n_members,), summing to one; members of weight 0 are left out
        queries: Sequence[np.ndarray],  # [2 f, 1] of each member
        pools: EmbeddedPools,
        n_jobs: int | None = None,
    ) -> None:
        used = np.flatnonzero(weights).tolist()
        self.by_rank: bool = combine == "rank"
        self.weights: np.ndarray = weights[used]
        self.queries: list[np.ndarray] = [queries[t] for t in used]
        self.embeddings: list[np.ndarray] = [pools.embeddings[t] for t in used]
        self.pool: EmbeddedPool = pools.pool
        self.n_jobs = n_jobs
        self.fold: np.ufunc = np.maximum if combine == "max" else np.add
        # of the scores; ranks have their weights applied later
        self.scales: np.ndarray = self.weights if combine == "mean" else np.ones(len(used))

    def best(self, k: int) -> Found:
        """Return the k best candidates of each query: positions and scores, best first."""
        pool = self.pool
        if pool.is_per_query:
            return top_k_of_sets(self._set_scores(pool), pool.sets.indptr, k)
        n_distinct = min(k, len(pool.first))
        if self.by_rank:
            ranked = joined([ranked for ranked, _ in self._ranked(n_distinct)], n_distinct)
        else:
            queries, embedding = self._stacks()
            ranked = top_k(queries, embedding, n_distinct, n_jobs=self.n_jobs)
        return with_copies(ranked, pool, k)

    def truth_ranks(self, truth: np.ndarray, share: float) -> np.ndarray:
        """Return the rank of a distinct candidate of each query, infinite where it is -1.

        Of the candidates that tie with it, this share comes before it.
        """
        if self.pool.is_per_query:
            counts = self._counts_in_sets(truth)
        elif self.by_rank:
            blocks = [count for _, count in self._ranked(1, truth)]
            above, tied = np.concatenate([np.empty((2, 0), dtype=np.intp), *blocks], axis=1)
            counts = above, tied
        else:
            true_scores, slack = self._scores_of(truth)
            counts = count_better(*self._stacks(), true_scores, slack, n_jobs=self.n_jobs)
        return ranks_of(truth, counts, share)

    def _stacks(self) -> tuple[Any, Any]:
        """Return queries and embedding whose product is the combined score."""
        queries = [c * Q for c, Q in zip(self.scales, self.queries, strict=True)]
        return _Stack(queries, self.fold), _Stack(self.embeddings, self.fold)

    def _scores_of(self, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the score of one candidate of each query, and a bound on its rounding."""
        true_scores, slack = [], []
        for c, Q, E in zip(self.scales, self.queries, self.embeddings, strict=True):
            scores = np.einsum("ij,ij->i", Q, E[truth])
            true_scores.append(c * scores)
            slack.append(c * slack_of(Q, scores))
        return self.fold.reduce(true_scores), self.fold.reduce(slack)

    # One set a query ---------------------------------------------------------------------------

    def _set_scores(self, pool: EmbeddedPool) -> np.ndarray:
        """Return the combined score of each candidate of the sets, one set after another."""
        indptr, members = pool.sets.indptr, pool.members
        scores = (
            set_scores(Q, E, indptr, members, n_jobs=self.n_jobs)
            for Q, E in zip(self.queries, self.embeddings, strict=True)
        )
        if not self.by_rank:
            return _folded((c * s for c, s in zip(self.scales, scores, strict=True)), self.fold)
        key = pool.sets.query_of * len(pool.embedding) + members
        _, first, copy = np.unique(key, return_index=True, return_inverse=True)
        # `key` puts the distinct candidates of a set together, and sets in their order
        starts = np.searchsorted(pool.sets.query_of[first], np.arange(len(indptr)))
        return self._mean_ranks((s[first] for s in scores), starts, slice(None))[copy]

    def _counts_in_sets(self, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pool = self.pool.distinct()
        query_of, scores = pool.sets.query_of, self._set_scores(pool)
        if self.by_rank:
            slack = np.zeros(len(truth))
            hit = np.flatnonzero(pool.members == truth[query_of])
            true_scores = np.zeros(len(truth))
            true_scores[query_of[hit]] = scores[hit]
        else:
            true_scores, slack = self._scores_of(truth)
        return count_better_of_sets(scores, query_of, true_scores, slack)

    # Ranks -------------------------------------------------------------------------------------

    def _mean_ranks(
        self, scores: Iterator[np.ndarray], indptr: np.ndarray, block: slice
    ) -> np.ndarray:
        """Return minus the weighted mean of the ranks in each segment, given members' scores."""

        def ranks() -> Iterator[np.ndarray]:
            for w, s, Q in zip(self.weights, scores, self.queries, strict=True):
                least = np.minimum.reduceat(s, indptr[:-1]) if len(indptr) > 1 else np.empty(0)
                slack = zip(pairwise(indptr), slack_of(Q[block], least), strict=True)
                parts = [_average_ranks(s[a:b], gap) for (a, b), gap in slack]
                yield -w * np.concatenate([np.empty(0), *parts])

        return np.round(_folded(ranks(), np.add), _DECIMALS)

    def _ranked(
        self, k: int, truth: np.ndarray | None = None
    ) -> Iterator[tuple[Found, np.ndarray]]:
        """Yield for blocks of queries the k best of one shared pool, and how many beat the truth.

        The numbers are those of better candidates and of ties, shape (2, block).
        """
        n, c = len(self.queries[0]), len(self.embeddings[0])

        def visit(block: slice) -> tuple[Found, np.ndarray]:
            b = block.stop - block.start
            indptr = np.arange(b + 1) * c
            scores = (
                (Q[block] @ E.T).ravel() for Q, E in zip(self.queries, self.embeddings, strict=True)
            )
            mean = self._mean_ranks(scores, indptr, block)
            S = mean.reshape(b, c)
            counts = np.zeros((2, b), dtype=np.intp)
            if truth is not None:
                true_scores = S[np.arange(b), truth[block]][:, None]
                counts[0] = np.count_nonzero(true_scores < S, axis=1)
                counts[1] = np.count_nonzero(true_scores == S, axis=1)
            return top_k_of_sets(mean, indptr, k), counts

        blocks = row_slices(n, block_rows(n, _RANK_BYTES * c))
        yield from map_blocks(visit, blocks, n_jobs=self.n_jobs)


class _Stack:
    """One array for each member, sliced and multiplied as if they were one array."""

    def __init__(self, parts: Sequence[np.ndarray], fold: np.ufunc) -> None:
        self.parts, self.fold = parts, fold

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: slice) -> _Stack:
        return _Stack([part[rows] for part in self.parts], self.fold)

    @property
    def T(self) -> _Stack:
        return _Stack([part.T for part in self.parts], self.fold)

    def __matmul__(self, other: _Stack) -> np.ndarray:
        return _folded((a @ b for a, b in zip(self.parts, other.parts, strict=True)), self.fold)


def _folded(arrays: Iterator[np.ndarray], fold: np.ufunc) -> np.ndarray:
    """Return the sum or the maximum of arrays, of which two are in memory at a time."""
    out = next(arrays)
    for array in arrays:
        fold(out, array, out=out)
    return out


def _average_ranks(scores: np.ndarray, slack: float) -> np.ndarray:
    """Return the rank of each score; scores that differ by at most `slack` share the mean rank."""
    order = np.argsort(-scores)
    fresh = np.diff(scores[order]) < -slack
    group = np.concatenate([[0], np.cumsum(fresh)])
    counts = np.bincount(group)
    mean = np.cumsum(counts) - 0.5 * (counts - 1)
    out = np.empty(len(scores))
    out[order] = mean[group]
    return out
