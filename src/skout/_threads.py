"""Threads: row blocks run in ours, and BLAS is held to one thread meanwhile."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

__all__ = ["held_blas", "map_blocks", "n_threads", "single_thread", "spare_threads"]

T = TypeVar("T")
R = TypeVar("R")


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


_BLAS_HOLDER = threading.Lock()
_free_threads: list[int] = []  # what BLAS would use, while it is held
_SINGLE: ContextVar[bool] = ContextVar("single", default=False)


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads: for None as many as BLAS would use."""
    if n_jobs is not None:
        return joblib.effective_n_jobs(n_jobs)
    if _SINGLE.get():
        return 1
    if _BLAS_HOLDER.locked() and _free_threads:
        return _free_threads[-1]
    return max((lib["num_threads"] for lib in _blas().info()), default=1)


def spare_threads() -> int:
    """Return the threads that nobody uses: one, if BLAS is held, else as many as BLAS would."""
    return max((lib["num_threads"] for lib in _blas().info()), default=1)


@contextmanager
def held_blas() -> Iterator[None]:
    """Hold BLAS to one thread; of callers that overlap, the first holds it and lets it go.

    Code that turns between threads of its own and products should hold it throughout: BLAS threads
    stay busy, waiting, for a while after each product.
    """
    threads = n_threads(None)
    if not _BLAS_HOLDER.acquire(blocking=False):
        yield
        return
    _free_threads.append(threads)
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _free_threads.pop()
        _BLAS_HOLDER.release()


@contextmanager
def single_thread() -> Iterator[None]:
    """Use this thread only where n_jobs is None: others like it are busy with other tasks."""
    token = _SINGLE.set(True)
    try:
        with held_blas():
            yield
    finally:
        _SINGLE.reset(token)


def map_blocks(
    function: Callable[[T], R], blocks: Iterable[T], *, n_jobs: int | None = None
) -> Iterator[R]:
    """Yield function(block) in the order of the blocks, computed in threads."""
    blocks = list(blocks)
    threads = min(n_threads(n_jobs), len(blocks))
    if threads <= 1:
        yield from map(function, blocks)
        return
    pending: deque[Future[R]] = deque()
    with held_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for block in blocks:
                pending.append(pool.submit(function, block))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
