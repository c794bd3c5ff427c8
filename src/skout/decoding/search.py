"""Search by inner product in one shared pool: exact, streaming, in a memory budget.

Scores are computed a block of queries and candidates at a time. Each block is compared with the
k-th best score so far, and only what beats it is compared again, so that nearly all the time
goes into matrix products.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._numerics.arrays import row_slices
from .._numerics.threads import map_blocks
from .._numerics.typing import Floats, Ints, Tensor, TorchDevice
from ..rows import block_rows
from ..rows.device import named_device, torch_device

# Candidates of a block, and the first candidates of a search, whose k-th best score the others
# must exceed. 500 queries of 200 numbers, 100,000 candidates: blocks of half the size take as long,
# of double 1.2 times; half as many first ones take 1.2 times as long, twice as many 0.97.
_CANDIDATE_BLOCK = 8192
_FIRST = 512
# Queries and candidates of a block on a GPU: 2 GB of scores. Half and double were not measured.
_DEVICE_QUERIES, _DEVICE_CANDIDATES = 4096, 2**16
# Parts that a pool is cut into for threads, where there are fewer blocks of queries than this: not
# the number of threads, on which results must not depend.
_SHARDS = 8
#: Scores that differ by less than this, relative to the size of their terms, tie: see `slack_of`.
#: Rounding of a float64 product of some thousand terms is about 1e-12.
TIE = 1e-10

Found = tuple[Ints, Floats]  # positions and scores, best first


def _search(
    queries: np.ndarray,
    embedding: np.ndarray,
    visit: Callable[[Any, np.ndarray, slice, int], Any],
    n_jobs: int | None,
    least: int = 0,
) -> list[list[Any]]:
    """Return for each block of queries what `visit` makes of each shard of the candidates.

    A shard is cut into blocks of candidates. visit(last, S, block, start) is called for one after
    another: S are the scores of a block of queries, a slice, and of the candidates from `start` on,
    and `last` is what it returned for the candidates before, None at the first.
    """
    width = min(len(embedding), max(_CANDIDATE_BLOCK, least))
    blocks = list(row_slices(len(queries), block_rows(len(queries), 8 * width)))
    shards = 1 if len(blocks) >= _SHARDS else _SHARDS
    parts = list(row_slices(len(embedding), max(width, -(-len(embedding) // shards))))

    def search(task: tuple[slice, slice]) -> Any:
        block, part = task
        last = None
        for start in range(part.start, part.stop, width):
            rows = slice(start, min(start + width, part.stop))
            last = visit(last, queries[block] @ embedding[rows].T, block, start)
        return last

    tasks = [(block, part) for block in blocks for part in parts]
    results = list(map_blocks(search, tasks, n_jobs=n_jobs))
    return [results[i : i + len(parts)] for i in range(0, len(results), len(parts))]


def top_k(
    queries: np.ndarray,
    embedding: np.ndarray,
    k: int,
    *,
    n_jobs: int | None = None,
    device: str | None = None,
) -> Found:
    """Return the k largest inner products of each query (n, p) with the rows of (c, p).

    Largest first, ties to the lower index, both arrays of shape (n, k); k is at most c. It streams
    over blocks of both, on a GPU if `device` names one.
    """
    if device is not None and (name := named_device(device)) != "cpu":
        return device_top_k(queries, embedding, k, name)

    results = _search(queries, embedding, functools.partial(_improve, k=k), n_jobs, least=k)
    merge = functools.partial(_merge, k=k)
    return joined([functools.reduce(merge, shards) for shards in results], k)


def joined(parts: list[Found], k: int) -> Found:
    """Return the rankings of blocks of queries as one."""
    if not parts:
        return np.empty((0, k), dtype=np.intp), np.empty((0, k))
    index, scores = zip(*parts, strict=True)
    return np.concatenate(index), np.concatenate(scores)


def _improve(best: Found | None, S: np.ndarray, block: slice, start: int, k: int) -> Found:
    """Merge the scores S of candidates start, start + 1, ... into the best of those before.

    All queries of a block are treated alike.
    """
    if k == 1 or S.shape[1] <= max(_FIRST, k):
        largest = _largest(S, start, k)
        return largest if best is None else _merge(best, largest, k)
    if best is None or best[0].shape[1] < k:
        first = max(_FIRST, k)
        best = _improve(best, S[:, :first], block, start, k)
        S, start = S[:, first:], start + first
    above = np.flatnonzero(best[1][:, -1:] < S)
    row, column = np.divmod(above, S.shape[1])
    count = np.bincount(row, minlength=len(S))
    if 4 * len(above) > S.size:  # as in a pool of increasing scores: too many to compare again
        return _merge(best, _largest(S, start, k), k)
    # the survivors of each row, padded to the longest
    most = int(count.max(initial=0))
    slot = np.arange(len(above)) - np.repeat(np.cumsum(count) - count, count)
    index = np.zeros((len(S), most), dtype=np.intp)
    score = np.full((len(S), most), -np.inf, dtype=S.dtype)
    index[row, slot] = column + start
    score[row, slot] = S[row, column]
    return _merge(best, (index, score), k)


def _largest(S: np.ndarray, start: int, k: int) -> Found:
    """Return number and value of the k largest entries of each row, ties to the lower column.

    Columns are numbered from `start` on; k is at most their number.
    """
    k = min(k, S.shape[1])
    if k == 1:
        index = S.argmax(axis=1)[:, None]
        return index + start, np.take_along_axis(S, index, axis=1)
    threshold = np.partition(S, S.shape[1] - k, axis=1)[:, [S.shape[1] - k]]
    above = threshold < S
    # of the entries equal to the k-th largest, the first ones
    level = threshold == S
    n_free = k - above.sum(axis=1, keepdims=True)
    chosen = above | (level & (np.cumsum(level, axis=1) <= n_free))
    index = np.nonzero(chosen)[1].reshape(len(S), k)
    return _sort(index + start, np.take_along_axis(S, index, axis=1))


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
    """Count the candidates that score more than a query's `score`, and those that tie with it.

    Scores that differ by no more than `slack` tie: rounding must not break ties.
    """
    high, low = (score + slack)[:, None], (score - slack)[:, None]

    def visit(counts: Ints | None, S: np.ndarray, block: slice, start: int) -> Ints:
        above = np.count_nonzero(high[block] < S, axis=1)
        not_below = np.count_nonzero(low[block] <= S, axis=1)
        both: Ints = np.array([above, not_below])
        return both if counts is None else counts + both

    parts = [np.sum(shards, axis=0) for shards in _search(queries, embedding, visit, n_jobs)]
    above, not_below = np.concatenate(parts, axis=1) if parts else np.empty((2, 0), dtype=np.intp)
    return above, not_below - above


def ranks_of(truth: Ints, counts: tuple[Ints, Ints], share: float) -> Floats:
    """Return ranks from the numbers of better candidates and of ties, infinite where truth is -1.

    The true candidate counts among the ties, of which a share comes before it.
    """
    above, tied = counts
    return np.where(truth >= 0, 1.0 + above + share * (tied - 1), np.inf)


def within(
    queries: np.ndarray, embedding: np.ndarray, floor: np.ndarray, *, n_jobs: int | None = None
) -> list[Ints]:
    """Return for each query the candidates that score at least its floor, best first."""

    def visit(
        kept: list[list[Found]] | None, S: np.ndarray, block: slice, start: int
    ) -> list[list[Found]]:
        kept = [[] for _ in S] if kept is None else kept
        for pieces, row, least in zip(kept, S, floor[block], strict=True):
            index = np.flatnonzero(row >= least)
            pieces.append((index + start, row[index]))
        return kept

    out = []
    for shards in _search(queries, embedding, visit, n_jobs):
        for lists in zip(*shards, strict=True):
            index, score = map(np.concatenate, zip(*itertools.chain(*lists), strict=True))
            out.append(index[np.argsort(-score, kind="stable")])
    return out


def slack_of(queries: Floats, scores: Floats) -> Floats:
    """Return a bound on the rounding of scores near these, one for each query.

    The terms of a score s = 2 <f, z> - k are up to 2 |f| r + r^2 in all, r = sqrt(k). As |z| <= r,
    s <= 2 |f| r - r^2, and so r <= |f| + sqrt(|f|^2 - s).
    """
    norm: Floats = np.linalg.norm(queries[:, :-1], axis=1) / 2.0  # |f|
    r = norm + np.sqrt(np.maximum(norm**2 - scores, 0.0))
    return TIE * (2.0 * norm + r) * r


def floor_of(queries: Floats, best: Floats, gap: float) -> Floats:
    """Return the least score within `gap` of the best, however both scores were rounded."""
    return best - gap - slack_of(queries, best - gap)


# On a GPU -----------------------------------------------------------------------------------------


def device_top_k(
    queries: np.ndarray, embedding: np.ndarray, k: int, device: TorchDevice | str
) -> Found:
    """Return the k largest inner products of each query, ties to the lower index, on a device.

    Scores are float64, as on the host; the embedding streams through the device.
    """
    import torch

    device = torch_device(device) if isinstance(device, str) else device
    ranked: list[Found] = []
    for block in row_slices(len(queries), _DEVICE_QUERIES):
        Q = torch.as_tensor(queries[block], dtype=torch.float64).to(device)
        best_score = torch.empty((len(Q), 0), dtype=torch.float64, device=device)
        best_index = torch.empty((len(Q), 0), dtype=torch.int64, device=device)
        for part in row_slices(len(embedding), _DEVICE_CANDIDATES):
            E = torch.as_tensor(np.ascontiguousarray(embedding[part])).to(device, torch.float64)
            score, index = _largest_on_device(Q @ E.T, min(k, len(E)))
            score = torch.cat([best_score, score], dim=1)
            index = torch.cat([best_index, index + part.start], dim=1)
            order = score.argsort(dim=1, descending=True, stable=True)[:, :k]
            best_score, best_index = score.gather(1, order), index.gather(1, order)
        ranked.append((best_index.cpu().numpy().astype(np.intp), best_score.cpu().numpy()))
    return joined(ranked, k)


def _largest_on_device(S: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row, of equal ones the first, in the order of the columns."""
    score, index = S.topk(k, dim=1)
    # where more entries equal the k-th than fit, take the first of them
    many = (score[:, -1:] <= S).sum(dim=1) > k
    if bool(many.any()):
        rows = many.nonzero()[:, 0]
        order = S[rows].argsort(dim=1, descending=True, stable=True)[:, :k]
        index[rows], score[rows] = order, S[rows].gather(1, order)
    by_index = index.argsort(dim=1)
    return score.gather(1, by_index), index.gather(1, by_index)
