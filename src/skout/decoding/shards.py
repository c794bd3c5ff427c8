"""Candidates on a cluster: queries in blocks, and pools in shards.

Each shard of a pool is embedded and searched where it lies; lists of the k best are merged in the
order of the shards, so that no machine holds the pool.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows, row_keys, take
from .._numerics.objects import as_objects
from .._numerics.typing import Array, Candidates, DType, Estimator, Objects, Rows
from .._numerics.validation import check_number
from ..rows import Dask, Reduction, is_lazy, source
from ..rows.stream import join
from ..rows.tasks import alone, as_lazy_as, blocks_of, broadcast, from_blocks, task, tree
from .base import able
from .pools import EmbeddedPool, are_lists
from .search import Found
from .sets import CandidateSets

_RANKED = np.dtype([("indices", np.intp), ("scores", np.float64)])


def rank(decoder: Estimator, F: Array, candidates: Candidates, k: int) -> tuple[Any, Any]:
    """Return the k best candidates of each row: two lazy dask arrays if F is one, else arrays.

    Candidates are objects, an EmbeddedPool or None, or blocks of objects on a cluster.
    """
    if not (is_lazy(F) or is_lazy(candidates)):
        ranking: Found = decoder.rank(F, candidates, k=k)
        return ranking
    check_number(k, "k", low=1, integer=True)
    shards = _shards(candidates)
    if shards is not None:
        k = min(k, len(shards))
        ranked = _by_shards(decoder, F, shards, k, _ranked, (k,), _RANKED)
    else:
        sent, pool, objects = _sent(decoder, candidates)
        if objects is not None:
            k = min(k, n_rows(objects))
        ranked = _lazily(_rank_block, F, (k,), _RANKED, sent, pool, k)
    return ranked["indices"], ranked["scores"]


def decode(decoder: Estimator, F: Array, candidates: Candidates) -> Any:
    """Return the best candidate of each row: a lazy dask array if F is one.

    In a lazy array, objects that are no array are a 1-D array of objects.
    """
    if not (is_lazy(F) or is_lazy(candidates)):
        return decoder.decode(F, candidates)
    shards = _shards(candidates)
    if shards is not None:
        like = shards.like
        return _by_shards(decoder, F, shards, 1, _best_objects, like.shape[1:], like.dtype)
    sent, pool, objects = _sent(decoder, candidates)
    if objects is None:
        objects = decoder.decode(np.zeros((1, F.shape[1])), candidates)
    like = _as_array(objects)
    return _lazily(_decode_block, F, like.shape[1:], like.dtype, sent, pool)


def _shards(candidates: Candidates) -> Dask | None:
    """Return candidates that lie on a cluster, None for others."""
    return Dask.of(candidates, "candidates") if is_lazy(candidates) else None


def _as_array(objects: Objects) -> np.ndarray:
    return objects if isinstance(objects, np.ndarray) else as_objects(objects)


def _sent(decoder: Estimator, candidates: Candidates) -> tuple[Any, Any, Any]:
    """Return the decoder and the pool as nodes of a graph, and objects like those of the pool.

    Objects are smaller in a graph than their coordinates: one worker embeds them for all. A decoder
    without `embed` is sent with its pool, and objects are None.
    """
    if not (hasattr(decoder, "embed") and hasattr(decoder, "without_pool")):
        _refuse_sets(isinstance(candidates, CandidateSets))
        chosen: Any = candidates
        loaded = None if chosen is None else source(chosen).load()
        return broadcast(decoder), broadcast(loaded), None
    light = broadcast(decoder.without_pool())
    if isinstance(candidates, EmbeddedPool):
        pool = decoder.embed(candidates)
        _refuse_sets(pool.is_per_query)
        pool = replace(pool, objects=source(pool.objects).load())
        return light, broadcast(pool), pool.objects
    pending = getattr(decoder, "pending", None)
    if candidates is None and pending is not None:  # still on the cluster
        later = pending.source.take_task(pending.positions)
        like = np.empty((len(pending.positions), *pending.source.tail), pending.source.dtype)
        return light, task(_embed, later, light), like
    if candidates is None:
        candidates = decoder.embed(None).objects
    sets = isinstance(candidates, CandidateSets)
    _refuse_sets(sets or are_lists(candidates, decoder.basis_.landmarks_))
    objects: Any = candidates
    objects = source(objects).load()  # files need not be where the workers are
    decoder.embed(take(objects, slice(0, 1)))  # raises now for what cannot be embedded
    return light, task(_embed, broadcast(objects), light), objects


def _refuse_sets(are_sets: bool) -> None:
    if are_sets:
        raise ValueError(
            "candidates must be one pool for all rows where X lies on a cluster. Got one set for "
            "each row: predict blocks of X with their own sets."
        )


def _lazily(
    function: Callable[..., Array], F: Any, tail: tuple[int, ...], dtype: DType, *args: object
) -> Any:
    """Return function(block, *args) of each block of a dask array, as a lazy dask array."""
    tasks = [task(function, block, *args) for block in F.to_delayed().ravel()]
    return from_blocks(tasks, F.chunks[0], tail, np.dtype(dtype))


@alone
def _rank_block(F: np.ndarray, decoder: Estimator, pool: Candidates, k: int) -> np.ndarray:
    out = np.empty((len(F), k), dtype=_RANKED)
    out["indices"], out["scores"] = -1, -np.inf
    if len(F):
        indices, scores = decoder.rank(F, pool, k=k)
        ranked = out[:, : indices.shape[1]]  # a decoder of a user may have fewer than k
        ranked["indices"], ranked["scores"] = indices, scores
    return out


@alone
def _decode_block(F: np.ndarray, decoder: Estimator, pool: Candidates) -> np.ndarray:
    return _as_array(decoder.decode(F, pool))


@alone
def _embed(objects: Objects, decoder: Estimator) -> Any:
    return decoder.embed(objects)


# Shards -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shard:
    """Embedded candidates, the number of the first, and a key of each, equal for copies."""

    pool: EmbeddedPool
    start: int
    keys: np.ndarray


@dataclass(frozen=True)
class _ShardBest:
    """The best candidates of some rows: arrays of shape (n, k), and the objects if k is 1."""

    indices: np.ndarray
    scores: np.ndarray
    keys: np.ndarray
    objects: Any = None


def _by_shards(
    decoder: Estimator,
    F: Array,
    shards: Dask,
    k: int,
    finish: Callable[[_ShardBest], np.ndarray],
    tail: tuple[int, ...],
    dtype: DType,
) -> Any:
    """Search each shard for each block of rows, merge, and finish; lazily, if F is on a cluster."""
    if len(shards) == 0:
        raise ValueError("candidates is empty: give at least one object to choose from.")
    able(decoder, "embed", "without_pool", "rank", by="A search of candidates on a cluster")
    light = broadcast(decoder.without_pool())
    embedded = [
        task(_embed_shard, shards.parts[i], light, int(shards.starts[i])) for i in shards.filled
    ]
    queries, sizes = blocks_of(F)
    blocks = []
    for block in queries:
        parts = [task(_search, block, light, shard, k) for shard in embedded]
        blocks.append(task(finish, tree(parts, _Merge(k))))
    return as_lazy_as(from_blocks(blocks, sizes, tail, np.dtype(dtype)), F)


@alone
def _embed_shard(objects: Objects, decoder: Estimator, start: int) -> _Shard:
    pool = decoder.embed(objects)
    rows = decoder.basis_.kernel_.encode(take(objects, pool.first))
    keys = [blake2b(pickle.dumps(key), digest_size=8).digest() for key in row_keys(rows)]
    return _Shard(pool, start, np.frombuffer(b"".join(keys), dtype=np.uint64)[pool.inverse])


@alone
def _search(F: np.ndarray, decoder: Estimator, shard: _Shard, k: int) -> _ShardBest:
    indices, scores = decoder.rank(F, shard.pool, k=min(k, len(shard.pool)))
    objects = take(shard.pool.objects, indices[:, 0]) if k == 1 else None
    numbers = np.where(indices < 0, indices, indices + shard.start)
    keys = np.where(indices < 0, np.uint64(0), shard.keys[indices])  # an index may find too few
    return _ShardBest(numbers, scores, keys, objects)


class _Merge(Reduction[Any]):
    """Keep the k best of all shards; ties go to the lower index."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, rows: Rows, *beside: Objects) -> Any:
        return rows

    def combine(self, total: _ShardBest | None, part: _ShardBest) -> _ShardBest:
        return part if total is None else _merged([total, part], self.k)


def _merged(parts: Sequence[_ShardBest], k: int) -> _ShardBest:
    indices, scores, keys = (
        np.hstack([getattr(part, name) for part in parts]) for name in ("indices", "scores", "keys")
    )
    _share_scores(scores, keys)
    order = np.lexsort((indices, -scores), axis=1)[:, :k]
    objects = None
    if parts[0].objects is not None:
        everything = join([part.objects for part in parts])
        objects = take(everything, order[:, 0] * len(order) + np.arange(len(order)))
    best = [np.take_along_axis(values, order, axis=1) for values in (indices, scores, keys)]
    return _ShardBest(best[0], best[1], best[2], objects)


def _share_scores(scores: np.ndarray, keys: np.ndarray) -> None:
    """Set the scores of copies to that of the first: shards round differently, and ties stay."""
    order = np.argsort(keys, axis=1, kind="stable")
    sorted_keys = np.take_along_axis(keys, order, axis=1)
    shared = np.take_along_axis(scores, order, axis=1)
    for j in range(1, keys.shape[1]):
        same = sorted_keys[:, j] == sorted_keys[:, j - 1]
        shared[same, j] = shared[same, j - 1]
    np.put_along_axis(scores, order, shared, axis=1)


def _ranked(best: _ShardBest) -> np.ndarray:
    out = np.empty(best.indices.shape, dtype=_RANKED)
    out["indices"], out["scores"] = best.indices, best.scores
    return out


def _best_objects(best: _ShardBest) -> np.ndarray:
    return _as_array(best.objects)
