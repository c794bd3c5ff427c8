"""Work in a child process, which may crash, hang or fill its memory without harm to the parent.

The child says what it begins before it begins it, so that whatever ends the child has a name.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHOWN = 4000


@dataclass(frozen=True)
class Outcome:
    """What became of the work of a child."""

    failure: str | None  # None where it came to its end
    begun: int  # how often `begin` was called
    last: str  # what it was called with at last
    result: Any  # what the work returned
    megabytes: float  # the most above the start


def peak() -> float:
    """Return the most memory that the process ever had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def watched(
    work: Callable[[Callable[[Any], None]], Any], *, seconds: float, megabytes: float
) -> Outcome:
    """Run `work(begin)` in a child, which is killed where a step takes too long.

    Parameters
    ----------
    work : callable
        It calls `begin(what)` before each step, and returns what JSON can hold.
    seconds : float
        The longest time from one `begin` to the next.
    megabytes : float
        What the child may add to the address space that it starts with.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _work(work, writing, megabytes)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        text, in_time = _listen(reading, seconds)
    finally:
        os.close(reading)
    if not in_time:
        os.kill(child, signal.SIGUSR1)  # shows where it is
        time.sleep(0.2)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return _outcome(text, None if in_time else f"took more than {seconds:g} s", status)


def _listen(reading: int, seconds: float) -> tuple[bytes, bool]:
    """Return all that the child says, and whether it never was silent for too long."""
    text = b""
    while select.select([reading], [], [], seconds)[0]:
        part = os.read(reading, 2**16)
        if not part:
            return text, True
        text += part
    return text, False


def _outcome(text: bytes, failure: str | None, status: int) -> Outcome:
    lines = [json.loads(line) for line in text.split(b"\n")[:-1]]  # the last may be cut
    begun = [line for line in lines if "begin" in line]
    end = lines[-1] if lines else {}
    if failure is None and "result" not in end:
        code = os.waitstatus_to_exitcode(status)
        failure = end.get("failure", f"the process ended with the status {code}")
    last = begun[-1]["begin"] if begun else ""
    most = max((line["megabytes"] for line in lines), default=0.0)
    return Outcome(failure, len(begun), last, end.get("result"), most)


def _work(work: Callable[..., Any], writing: int, megabytes: float) -> None:
    """Do the work of the child."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    start = peak()

    def say(what: str, value: Any) -> None:
        line = {what: value, "megabytes": round(peak() - start, 1)}
        os.write(writing, json.dumps(line).encode() + b"\n")

    _limit(megabytes)
    try:
        say("result", work(lambda what: say("begin", repr(what)[:_SHOWN])))
    except BaseException as error:
        say("failure", "".join(traceback.format_exception(error))[-_SHOWN:])


def _limit(megabytes: float) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + int(megabytes * 1e6)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
