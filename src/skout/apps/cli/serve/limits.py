"""Limits: how large requests may be, how long they take, and how many run at a time."""

import asyncio
import contextlib
import contextvars
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from threadpoolctl import threadpool_limits

from skout.dev import check_number

T = TypeVar("T")
# Bodies up to so many bytes do not count against the total of all, so that large ones cannot keep
# them out; of bodies beyond so many bytes, one is worked on at a time.
_SMALL, _LARGE = 2**16, 2**20
# How many of the largest bodies are held at a time.
_HELD = 8


class Refused(Exception):
    """Raised to refuse a request, with a status and a reason."""

    status: int
    reason: str

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.headers: dict[str, str] = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


@dataclass(frozen=True)
class Limits:
    """The limits of a server."""

    megabytes: float = 8.0  # of the body of a request
    rows: int = 1000  # or spectra, of a request
    candidates: int = 100  # that are returned for a row
    seconds: float = 30.0  # from the first byte of a request to its answer
    workers: int | None = None  # requests at a time, each in one thread; None: one for each core
    queue: int = 64  # requests that wait for their turn; more are refused
    connections: int = 512  # that are open at a time

    def __post_init__(self) -> None:
        check_number(self.megabytes, "--max-mb", strict=True)
        check_number(self.seconds, "--max-seconds", strict=True)
        for name in ("rows", "candidates", "workers", "connections"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), f"--max-{name}", low=1, integer=True)
        check_number(self.queue, "--max-queue", integer=True)

    @property
    def bytes(self) -> int:
        """The most bytes of a body."""
        return int(self.megabytes * 1e6)

    @property
    def cells(self) -> int:
        """The most cells of a request; with a name and a value one has eight bytes or more."""
        return self.bytes // 8

    def check_cells(self, n: int) -> None:
        """Refuse a request with too many cells."""
        if n > self.cells:
            raise Refused(413, f"A request may have {self.cells:,} cells.")

    def check_rows(self, n: int, what: str = "rows") -> None:
        """Refuse a request with too many rows."""
        if n > self.rows:
            raise Refused(413, f"A request may have {self.rows:,} {what}.")

    def check_candidates(self, n: int) -> None:
        """Refuse a request for too many candidates, or for none."""
        if not 1 <= n <= self.candidates:
            raise Refused(422, f"top must be from 1 to {self.candidates}. Got {n} instead.")


class Deadline:
    """The time by which a request must be answered."""

    seconds: float

    def __init__(self, seconds: float) -> None:
        self.seconds, self._end = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise `Refused` if the time is over."""
        if self.left <= 0.0:
            raise self.passed()

    def passed(self) -> Refused:
        """Return the refusal of a request whose time is over."""
        return Refused(503, f"It takes longer than {self.seconds:g} s: ask for less at a time.")


class Bodies:
    """The bytes of all bodies that are held at a time, which are at most `most`."""

    most: int
    held: int

    def __init__(self, limits: Limits) -> None:
        self.most, self.held = _HELD * limits.bytes, 0

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts the bytes of one body, until the end of a `with`."""
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            more = size - held if size > _SMALL else 0
            if self.held + more > self.most:
                busy = "Too many large requests are coming in: come again."
                raise Refused(503, busy, Retry_After="1", Connection="close")
            held += more
            self.held += more

        try:
            yield grow
        finally:
            self.held -= held


class Gate:
    """Runs work in threads: some at a time, some waiting, and the rest is refused.

    Large bodies are worked on one after the other, to bound the memory. Work beyond its deadline is
    answered by a refusal, but it keeps its thread until it ends.
    """

    waiting: int
    running: int

    def __init__(self, limits: Limits) -> None:
        workers = limits.workers or os.cpu_count() or 1
        self._most = workers + limits.queue
        self._free = asyncio.Semaphore(workers)
        self._large = asyncio.Semaphore(1)
        self._pool = ThreadPoolExecutor(workers, "skout-serve", initializer=_one_thread)
        self.running = self.waiting = 0

    async def run(self, work: Callable[[Deadline], T], deadline: Deadline, size: int = 0) -> T:
        """Return what `work(deadline)` returns; `size` is that of the body, in bytes."""
        turn = await self._wait(deadline, size)
        self.running += 1
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        future = loop.run_in_executor(self._pool, context.run, work, deadline)
        future.add_done_callback(partial(self._release, turn))
        try:
            return await asyncio.wait_for(asyncio.shield(future), deadline.left)
        except TimeoutError:
            raise deadline.passed() from None

    async def _wait(self, deadline: Deadline, size: int) -> contextlib.ExitStack:
        """Wait for a free thread; return a context that gives it back."""
        if self.running + self.waiting >= self._most:
            raise self._busy()
        self.waiting += 1
        places = [self._large, self._free] if size > _LARGE else [self._free]
        try:
            with contextlib.ExitStack() as turn:
                async with asyncio.timeout(deadline.left):
                    for place in places:
                        await place.acquire()
                        turn.callback(place.release)
                return turn.pop_all()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self.waiting -= 1

    def _busy(self) -> Refused:
        return Refused(503, "The server is busy: come again.", Retry_After="1")

    def _release(self, turn: contextlib.ExitStack, future: asyncio.Future[T]) -> None:
        self.running -= 1
        turn.close()
        if not future.cancelled():
            future.exception()  # so that asyncio does not warn of one that nobody awaits

    def close(self) -> None:
        """End the threads that are idle, and drop waiting work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    """Let OpenMP use one thread in this one, since requests run in parallel."""
    threadpool_limits(1, user_api="openmp")
