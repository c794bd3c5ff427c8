"""Search by inner product in one shared pool: exact, streaming, in a memory budget.

Scores are computed a block of queries and candidates at a time. Each block is compared with the
k-th best score so far, and only what beats it is looked at again, so that nearly all the time
goes into matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._numerics.arrays import row_slices
from .._numerics.threads import map_blocks
from ..rows import block_rows
from ..rows.device import the_card
from .card import device_top_k

__all__ = ["count_better", "floor_of", "slack_of", "top_k", "within"]

# Candidates of a block, and the first ones of a search, which set the mark for the others.
_CANDIDATE_BLOCK = 8192
_FIRST = 512
# Parts that the pool is cut into where there are few blocks of queries, for threads to share.
_SHARDS = 8
# Scores nearer than this, relative to the size of their terms, count as equal: see slack_of.
_TIE = 1e-10

Found = tuple[np.ndarray, np.ndarray]  # positions and scores, best first


def _search(
    queries: np.ndarray,
    n_candidates: int,
    visit: Callable[[slice, slice], Any],
    width: int,
    n_jobs: int | None,
) -> list[list[Any]]:
    """Return visit(queries, candidates) of each block of queries, over shards in order."""
    blocks = list(row_slices(len(queries), block_rows(len(queries), 8 * width)))
    shards = 1 if len(blocks) >= _SHARDS else _SHARDS
    size = max(width, -(-n_candidates // shards))
    parts = list(row_slices(n_candidates, size))
    tasks = [(some, part) for some in blocks for part in parts]
    found = list(map_blocks(lambda task: visit(*task), tasks, n_jobs=n_jobs))
    return [found[i : i + len(parts)] for i in range(0, len(found), len(parts))]


def top_k(
    queries: np.ndarray,
    embedding: np.ndarray,
    k: int,
    *,
    n_jobs: int | None = None,
    device: str | None = None,
) -> Found:
    """Return the k largest inner products of each query, streaming over blocks of both.

    Parameters
    ----------
    queries : ndarray of shape (n, p)
    embedding : ndarray of shape (c, p)
    k : int
        At most c.
    n_jobs : int, optional
    device : str, optional
        "cuda" searches on a card.

    Returns
    -------
    indices, scores : ndarrays of shape (n, k)
        Largest first; ties go to the lower index.
    """
    if device is not None and (card := the_card(device)) != "cpu":
        return device_top_k(queries, embedding, k, card)
    width = min(len(embedding), max(_CANDIDATE_BLOCK, k))

    def visit(some: slice, part: slice) -> Found:
        best: Found | None = None
        for start in range(part.start, part.stop, width):
            rows = slice(start, min(start + width, part.stop))
            best = _improve(best, queries[some] @ embedding[rows].T, start, k)
        assert best is not None
        return best

    parts = []
    for shards in _search(queries, len(embedding), visit, width, n_jobs):
        best = shards[0]
        for found in shards[1:]:
            best = _merge(best, found, k)
        parts.append(best)
    if not parts:
        return np.empty((0, k), dtype=np.intp), np.empty((0, k))
    return np.concatenate([i for i, _ in parts]), np.concatenate([s for _, s in parts])


def _improve(best: Found | None, S: np.ndarray, start: int, k: int) -> Found:
    """Merge the scores S of candidates start, start + 1, ... into the best of those before."""
    if k == 1 or S.shape[1] <= max(_FIRST, k):
        found = _largest(S, min(k, S.shape[1]))
        found = (found[0] + start, found[1])
        return found if best is None else _merge(best, found, k)
    if best is None or best[0].shape[1] < k:
        first = max(_FIRST, k)
        best = _improve(best, S[:, :first], start, k)
        S, start = S[:, first:], start + first
    above = np.flatnonzero(best[1][:, -1:] < S)
    row, column = np.divmod(above, S.shape[1])
    count = np.bincount(row, minlength=len(S))
    if 4 * len(above) > S.size:  # a pool in increasing order: no mark helps
        found = _largest(S, min(k, S.shape[1]))
        return _merge(best, (found[0] + start, found[1]), k)
    # the survivors of each row, padded to the longest
    most = int(count.max(initial=0))
    slot = np.arange(len(above)) - np.repeat(np.cumsum(count) - count, count)
    index = np.zeros((len(S), most), dtype=np.intp)
    score = np.full((len(S), most), -np.inf, dtype=S.dtype)
    index[row, slot] = column + start
    score[row, slot] = S[row, column]
    return _merge(best, (index, score), k)


def _largest(S: np.ndarray, k: int) -> Found:
    """Return column and value of the k largest entries of each row, ties to the lower column."""
    if k == 1:
        index = S.argmax(axis=1)[:, None]
        return index, np.take_along_axis(S, index, axis=1)
    threshold = np.partition(S, S.shape[1] - k, axis=1)[:, [S.shape[1] - k]]
    above = threshold < S
    # of the entries equal to the k-th largest, the first ones
    level = threshold == S
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (level & (np.cumsum(level, axis=1) <= room))
    index = np.nonzero(chosen)[1].reshape(len(S), k)
    return _sort(index, np.take_along_axis(S, index, axis=1))


def _merge(a: Found, b: Found, k: int) -> Found:
    """Merge two lists a row, the first of them sorted and of candidates before the second's."""
    index, scores = _sort(np.hstack([a[0], b[0]]), np.hstack([a[1], b[1]]))
    return index[:, :k], scores[:, :k]


def _sort(index: np.ndarray, scores: np.ndarray) -> Found:
    """Sort each row by score, largest first, keeping the order of equal scores."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(index, order, axis=1), np.take_along_axis(scores, order, axis=1)


def count_better(
    queries: np.ndarray,
    embedding: np.ndarray,
    score: np.ndarray,
    slack: float | np.ndarray,
    *,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Count the candidates that score more than a given number, and those that tie with it.

    Parameters
    ----------
    queries : ndarray of shape (n, p)
    embedding : ndarray of shape (c, p)
    score : ndarray of shape (n,)
    slack : float, or ndarray of shape (n,)
        Scores that differ by no more than this tie: rounding must not break ties.
    n_jobs : int, optional

    Returns
    -------
    above, tied : ndarrays of int, shape (n,)
    """
    width = min(len(embedding), _CANDIDATE_BLOCK)
    high, low = (score + slack)[:, None], (score - slack)[:, None]

    def visit(some: slice, part: slice) -> np.ndarray:
        counts = np.zeros((2, some.stop - some.start), dtype=np.intp)
        for start in range(part.start, part.stop, width):
            S = queries[some] @ embedding[start : min(start + width, part.stop)].T
            counts[0] += np.count_nonzero(high[some] < S, axis=1)
            counts[1] += np.count_nonzero(low[some] <= S, axis=1)
        return counts

    parts = [np.sum(p, axis=0) for p in _search(queries, len(embedding), visit, width, n_jobs)]
    above, not_below = np.concatenate(parts, axis=1) if parts else np.empty((2, 0), dtype=np.intp)
    return above, not_below - above


def within(
    queries: np.ndarray, embedding: np.ndarray, floor: np.ndarray, *, n_jobs: int | None = None
) -> list[Found]:
    """Return for each query the candidates that score at least its floor, best first.

    Parameters
    ----------
    queries : ndarray of shape (n, p)
    embedding : ndarray of shape (c, p)
    floor : ndarray of shape (n,)
    n_jobs : int, optional
    """
    width = min(len(embedding), _CANDIDATE_BLOCK)

    def visit(some: slice, part: slice) -> list[list[Found]]:
        found: list[list[Found]] = [[] for _ in range(some.stop - some.start)]
        for start in range(part.start, part.stop, width):
            S = queries[some] @ embedding[start : min(start + width, part.stop)].T
            for i, row in enumerate(S):
                index = np.flatnonzero(row >= floor[some.start + i])
                found[i].append((index + start, row[index]))
        return found

    out = []
    for shards in _search(queries, len(embedding), visit, width, n_jobs):
        for lists in zip(*shards, strict=True):
            pieces = [piece for shard in lists for piece in shard]
            index = np.concatenate([i for i, _ in pieces])
            score = np.concatenate([s for _, s in pieces])
            order = np.argsort(-score, kind="stable")
            out.append((index[order], score[order]))
    return out


def slack_of(queries: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return by how much rounding may move scores near the given ones, one a query.

    The terms of a score s = 2 <f, z> - k are up to 2 |f| r + r^2 in all, r = sqrt(k). As |z| <= r,
    s <= 2 |f| r - r^2, and so r <= |f| + sqrt(|f|^2 - s).
    """
    norm = np.linalg.norm(queries[:, :-1], axis=1) / 2.0  # |f|
    r = norm + np.sqrt(np.maximum(norm**2 - scores, 0.0))
    return _TIE * (2.0 * norm + r) * r


def floor_of(queries: np.ndarray, best: np.ndarray, gap: float) -> np.ndarray:
    """Return the least score within `gap` of the best, however both scores were rounded."""
    return best - gap - slack_of(queries, best - gap)
