"""Threads, which work on blocks of rows while BLAS is limited to one, and memory limits."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


_BLAS_HOLDER = threading.Lock()
_free_threads: list[int] = []  # threads that BLAS would use if it were not limited to one
_SINGLE: contextvars.ContextVar[bool] = contextvars.ContextVar("single", default=False)


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads: for None as many as BLAS would use."""
    if n_jobs is not None:
        if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
            kind = ValueError if n_jobs == 0 and not isinstance(n_jobs, bool) else TypeError
            raise kind(
                "n_jobs must be None, a number of threads, or -1 for all cores. "
                f"Got {n_jobs!r} instead."
            )
        # joblib's own count is of processes, which a child process may not have
        return int(n_jobs) if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + int(n_jobs))
    if _SINGLE.get():
        return 1
    if _BLAS_HOLDER.locked() and _free_threads:
        return _free_threads[-1]
    return max((lib["num_threads"] for lib in _blas().info()), default=1)


def spare_threads() -> int:
    """Return the threads that are free: one while BLAS is held, else as many as BLAS would use."""
    return max((lib["num_threads"] for lib in _blas().info()), default=1)


@contextmanager
def held_blas() -> Iterator[None]:
    """Limit BLAS to one thread. Where calls overlap, only the first sets and lifts the limit.

    Code that alternates between its own threads and matrix products should keep the limit
    throughout: BLAS threads spin for a while after each product.
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
    """Make n_jobs=None mean one thread within the block: tasks of dask use the other cores."""
    token = _SINGLE.set(True)
    try:
        with held_blas():
            yield
    finally:
        _SINGLE.reset(token)


def prefetch(items: Iterable[T]) -> Generator[T]:
    """Yield the items, each computed in a background thread while the one before is in use.

    Errors of that thread are raised here. It ends with this generator.
    """
    source = iter(items)
    end = object()
    context = contextvars.copy_context()  # settings such as memory_limits hold there too

    def following() -> Any:
        return context.run(next, source, end)

    with ThreadPoolExecutor(1, "skout-reader") as reader:
        coming = reader.submit(following)
        while (item := coming.result()) is not end:
            coming = reader.submit(following)
            yield item
            del item  # or it would be held while the next one is waited for


def map_blocks(
    function: Callable[..., R],
    blocks: Iterable[Any],
    *,
    read: Callable[[Any], Any] | None = None,
    ahead: bool = False,
    n_jobs: int | None = None,
) -> Iterator[R]:
    """Yield function(block) in the order of the blocks, computed in threads.

    Parameters
    ----------
    function : callable
    blocks : iterable
    read : callable, optional
        What a block is replaced by before it is given to `function`.
    ahead : bool, default False
        Whether a separate thread calls `read` ahead of those that compute, for blocks on disk.
        Few blocks are held at a time.
    n_jobs : int, optional
    """
    blocks = list(blocks)
    threads = min(n_threads(n_jobs), len(blocks))
    work, items = function, iter(blocks)
    reader: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if read is not None and ahead:
        prefetched = prefetch(map(read, blocks))
        items, reader = prefetched, contextlib.closing(prefetched)
    elif read is not None:
        work = lambda block: function(read(block))  # noqa: E731
    if threads <= 1:
        with reader:
            yield from map(work, items)
        return
    pending: deque[Future[R]] = deque()
    with reader, held_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


# Memory -------------------------------------------------------------------------------------------


def check_memory(rows: int, columns: int, what: str, advice: str, itemsize: int = 8) -> None:
    """Raise where a matrix would take more memory than the machine or container has."""
    needed, total = itemsize * rows * columns, total_memory()
    if total and needed > total:
        raise MemoryError(
            f"{what}, {rows} x {columns}, would take {needed / 2**30:,.0f} GiB, and this machine "
            f"or container has {total / 2**30:,.0f} GiB in all. {advice}"
        )


def total_memory() -> int:
    """Return the bytes of memory of this machine or container, 0 if unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        physical = 0
    return min([limit for limit in (physical, *_container_limits()) if limit > 0], default=0)


@functools.cache  # files that take longer to read than to fit a small model
def _container_limits(
    groups: Path = Path("/sys/fs/cgroup"), own_file: Path = Path("/proc/self/cgroup")
) -> list[int]:
    """Return the limits of memory, in bytes, of the control groups that this process is in.

    Lines of `own_file` are number:controllers:path; in version 2 the controllers are left out.
    Inside a container the path may be that of the host, and the group is the root of `groups`.
    """
    try:
        lines = [line.split(":", 2) for line in own_file.read_text().splitlines()]
    except OSError:
        return []
    limits = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "memory" not in controllers.split(","):
            continue
        root = groups / "memory" if controllers else groups
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        place = root / path.lstrip("/")
        for folder in (place, *place.parents):
            limits += _number_in(folder / name) if folder.is_relative_to(root) else []
    return limits


def _number_in(file: Path) -> list[int]:
    """Return the number that a file holds, if it holds one: groups without a limit say "max"."""
    try:
        return [int(file.read_text())]
    except (OSError, ValueError):
        return []
