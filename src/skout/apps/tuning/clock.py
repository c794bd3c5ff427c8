"""A clock for budgets in seconds, checked between trials and between their steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np


class OutOfTime(Exception):
    """Raised within a trial that has used up its time."""


class Clock:
    """A clock that measures the seconds of a budget from `started` on; by default without end.

    `now` returns seconds since any moment: wall time, except in tests.
    """

    seconds: float
    now: Callable[[], float]

    def __init__(
        self,
        seconds: float = np.inf,
        now: Callable[[], float] = time.perf_counter,
        started: float | None = None,
    ) -> None:
        self.seconds, self.now = seconds, now
        self._start = now() if started is None else started
        self._limit = -np.inf, np.inf  # start and end of the present step

    @property
    def left(self) -> float:
        """The seconds left of the budget, negative where it is exceeded; inf without a budget."""
        return self.seconds - (self.now() - self._start)

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Make `check` raise within the block once the block has taken so many seconds."""
        start = self.now()
        self._limit = start, start + seconds
        try:
            yield
        finally:
            self._limit = -np.inf, np.inf

    def check(self) -> None:
        """Raise `OutOfTime` where the limit of the present block is exceeded."""
        start, end = self._limit
        if end < np.inf and (now := self.now()) > end:
            raise OutOfTime(f"stopped after {now - start:.1f} s")
