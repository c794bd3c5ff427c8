"""How long each of the ten commands of docs/ten_commands.md takes.

    python -m experiments.timed [--only "make reproduce ONLY=dsokr"]   the record
    python -m experiments.timed page                                   its seconds, into the page

Each command runs in a process of its own, and computes everything anew.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from experiments.common import HERE, clock, read_record
from experiments.pieces import Plan, Size, alone, joined, run_script

PAGE = HERE.parent / "docs" / "ten_commands.md"
#: A line of the page: what is said, the command, its data, its seconds.
LINE = re.compile(r"^(\|.*\| `([^`|]+)`(?: \(\w+\))? \|)[^|\n]*\|$", re.MULTILINE)


def commands() -> list[str]:
    """Return the commands of the page."""
    return [match[2] for match in LINE.finditer(PAGE.read_text(encoding="utf-8"))]


def timed(command: str) -> list[dict[str, Any]]:
    """Run a command; return its seconds, those of the processor, and the load meanwhile."""
    words = command.removeprefix("python ").split()
    if command.startswith("make reproduce ONLY="):
        names = command.partition("=")[2]
        words = ["-m", "experiments.reproduce", "--again", "--only", names]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with clock() as spent:
        subprocess.run(
            [sys.executable, *words], cwd=HERE.parent, check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, "MPLBACKEND": "Agg", "TQDM_DISABLE": "1"},
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {"command": command, "seconds": round(spent.seconds, 1), "cpu_seconds": round(cpu, 1)}
    return [row | {"load": round(os.getloadavg()[1], 1)}]  # of five minutes


def plan(size: Size) -> Plan:
    """Return the run of all commands."""
    pieces = {command: alone(timed, command) for command in commands()}
    return Plan("ten_commands", {"threads": os.environ.get("OMP_NUM_THREADS")}, pieces, joined)


def page() -> str:
    """Return the page with the seconds of the record."""
    found = {row["command"]: row for row in read_record("ten_commands")["results"]}

    def line(match: re.Match[str]) -> str:
        row = found.get(match[2])
        told = f" {row['seconds']:.0f} s, {row['cpu_seconds']:.0f} s, {row['load']}" if row else ""
        return f"{match[1]}{told} |"

    return LINE.sub(line, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    if sys.argv[1:] == ["page"]:
        Path(PAGE).write_text(page(), encoding="utf-8")
    else:
        run_script(__doc__, plan, ["command", "seconds", "cpu_seconds", "load"])
