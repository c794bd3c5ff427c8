"""Write RESULTS.md: every table and figure of the papers with our numbers beside, from the records.

python -m experiments.page
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.common import HERE, read_record
from experiments.ours.tables import OTHERS
from experiments.papers.entries import CONFIGS, Config
from experiments.papers.tables import markdown
from experiments.papers.verdicts import Row

PAGE = HERE / "RESULTS.md"
MARK = "<!-- tables -->"  # the page of the documentation starts here

HEADING = f"""# Results of the experiments

Made by `make reproduce` (or `python -m experiments.page`) from the files in [records](records),
which name seeds, versions, settings, hardware and date.

{MARK}

A row is *reached* if our number is at least as good as the paper's, within what the paper prints
after ±. After our ± stands one standard deviation over draws or splits. Where a figure has no
printed numbers, the row is a sentence of the text about it. Seconds of the papers are of other
machines, so only shares compare. *Record* means that the numbers are of a committed run on a GPU,
which `make reproduce` does not repeat. Rows that the paper does not have, or whose protocol is not
the paper's, are *ours* and not counted. Seconds are those of the whole run; entries of one script
share it. Numbers are those of the library on the date of the run.
"""


def text() -> str:
    """Return the page."""
    rows = {config.name: config.verdict() for config in CONFIGS}
    parts = [HEADING, _summary(rows)]
    for config in CONFIGS:
        parts += [_section(config, rows[config.name])]
    parts += ["## What the papers do not have\n", *(_printed(show) for show in OTHERS)]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _summary(rows: dict[str, list[Row]]) -> str:
    """Return one line for each table and figure."""
    lines = []
    for config in CONFIGS:
        found = [row.reached for row in rows[config.name] if not row.own]
        counts = [str(sum(value is kind for value in found)) for kind in (True, False, None)]
        lines.append([title(config.name), config.title, _made(config), *counts])
    sums = [str(sum(int(line[i]) for line in lines)) for i in (3, 4, 5)]
    lines.append(["all", "", "", *sums])
    head = ["", "what", "made on", "reached", "short", "not run"]
    return markdown(head, lines).replace("---:", "---", 2)


def _made(config: Config) -> str:
    """Say where the numbers come from, how long they took, and when the oldest of them was run."""
    records = [read_record(name) for name in config.records]
    date = min(record["date"] for record in records)
    if config.plan is None:
        return f"record, {date}"
    known = [record["wall_seconds"] for record in records if "wall_seconds" in record]
    cpu = f"CPU, {sum(known):.0f} s" if known else "CPU"
    return f"{cpu}; {config.gpu}: record, {date}" if config.gpu else f"{cpu}, {date}"


def _section(config: Config, rows: list[Row]) -> str:
    lines = [
        [row.what, row.paper, row.ours, _word(row, config.short)] for row in rows
    ]  # fmt: skip
    table = markdown(["row", "paper", "ours", "verdict"], lines).replace("---:", "---")
    parts = [f"## {title(config.name)}: {config.title}\n"]
    parts += [f"![{title(config.name)}](figures/{name})\n" for name in config.figures]
    parts.append(table)
    parts += [_printed(show) for show in config.show]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _word(row: Row, why: str) -> str:
    if row.own:
        return f"ours, not counted: {row.own}"
    if row.reached is None:
        return "not run"
    return "reached" if row.reached else f"**short**: {row.why or why or 'the reason is not known'}"


def title(name: str) -> str:
    """Return "Table 4.2" for "table-4.2"."""
    kind, number = name.split("-", 1)
    return f"{kind.capitalize()} {number}"


def _printed(show: Callable[[], Any]) -> str:
    """Return what a function prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show()
    return out.getvalue()


def write() -> Path:
    """Write the page; return its path."""
    PAGE.write_text(text(), encoding="utf-8")
    return PAGE


if __name__ == "__main__":
    print("page:", write())
