"""How much requests may ask for, and how many are worked on at a time."""

import asyncio
import contextlib
import contextvars
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from skout.dev import check_number

T = TypeVar("T")
# Bytes of a body up to which it does not count against the total of all, so that large ones cannot
# keep it out; and bytes beyond which one body is worked on at a time.
_SMALL, _LARGE = 2**16, 2**20
# How many bodies of the most bytes are held at a time.
_HELD = 8


class Refused(Exception):
    """A request that gets no answer but a status and the reason."""

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
    """What a server allows."""

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
        """The most cells of a request: with a name and a value hardly one has eight bytes."""
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
    """The end of the time of a request."""

    seconds: float

    def __init__(self, seconds: float) -> None:
        self.seconds, self._end = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Refuse to go on after it."""
        if self.left <= 0.0:
            raise self.passed()

    def passed(self) -> Refused:
        """Return what to raise after it."""
        return Refused(503, f"It takes longer than {self.seconds:g} s: ask for less at a time.")


class Bodies:
    """Bytes of the bodies of all requests, of which only so many are held at a time."""

    most: int
    held: int

    def __init__(self, limits: Limits) -> None:
        self.most, self.held = _HELD * limits.bytes, 0


class Share:
    """The bytes that one request holds, until the end of a `with`."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies, self._held = bodies, 0

    def __enter__(self) -> "Share":
        return self

    def __exit__(self, *error: object) -> None:
        self._bodies.held -= self._held

    def grow(self, size: int) -> None:
        """Hold so many bytes in all, or refuse the request where others hold too many."""
        more = size - self._held if size > _SMALL else 0
        if self._bodies.held + more > self._bodies.most:
            busy = "Too many large requests are coming in: come again."
            raise Refused(503, busy, Retry_After="1", Connection="close")
        self._held += more
        self._bodies.held += more


class Gate:
    """Runs work in threads: some at a time, some in a queue, and no more.

    Large bodies are worked on one after the other: they take one thread and the memory of one.
    Work that has passed its deadline is not answered, but it keeps its thread until it ends.
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
        """Wait for a free thread; return what gives it back."""
        if self.running + self.waiting >= self._most:  # "waiting": also who is being let in
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

    def _release(self, turn: contextlib.ExitStack, future: Any) -> None:
        self.running -= 1
        turn.close()
        if not future.cancelled():
            future.exception()  # seen, where nobody waits any more

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    """Hold OpenMP to one thread in this one: requests are what runs in parallel."""
    threadpool_limits(1, user_api="openmp")
