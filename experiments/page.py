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
REMARKS = HERE / "papers" / "remarks.md"
MARK = "<!-- tables -->"  # the page of the documentation starts here

VERDICTS = ("reached", "short", "cannot tell", "not run")
HEADING = f"""# Results of the experiments

Made by `python -m experiments.page` from the files in [records](records), which name seeds,
versions, settings, hardware and date.

{MARK}

One rule for all rows. Each has a margin: how far ours is on the good side of what the paper says. A
row is *reached* if it is at least 0, *short* if it is below, and nobody *can tell* if it is smaller
than one standard error of ours. Where the paper prints a number, ours must be at least as good,
within what stands after its ±; where it says "as good", "similar" or "level", ours must be within
5 %; where it says "less" or "better", any difference counts. Rows whose data, method or protocol
are not the paper's are *ours*, and not counted. After our ± stands one standard deviation over
draws or splits. Seconds of the papers are of other machines, so only shares compare.

*Made on* names the commit and the date of the oldest record of a line; a star says that the record
names no commit, or one whose code had been changed. The page of records counts the commits since.
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
        found = [row.verdict for row in rows[config.name]]
        counts = [str(found.count(verdict)) for verdict in VERDICTS]
        lines.append([title(config.name), config.title, _made(config), *counts])
    sums = [str(sum(int(line[3 + i]) for line in lines)) for i in range(len(VERDICTS))]
    lines.append(["all", "", "", *sums])
    head = ["", "what", "made on", *VERDICTS]
    return markdown(head, lines).replace("---:", "---", 2)


def _made(config: Config) -> str:
    """Say where the numbers come from: the machine, and the oldest of the records."""
    records = [read_record(name) for name in config.records]
    oldest = min(records, key=lambda record: record["date"])
    commit = oldest.get("commit", "")
    clean = commit and not commit.endswith("-dirty")
    code = f"{commit[:7]}, {oldest['date']}" if clean else f"{oldest['date']}\\*"
    if config.plan is None:
        return f"GPU, {code}"
    return f"CPU; {config.gpu}: GPU, {code}" if config.gpu else f"CPU, {code}"


def _section(config: Config, rows: list[Row]) -> str:
    lines = [[row.what, row.paper, row.ours, word(row)] for row in rows]
    table = markdown(["row", "paper", "ours", "verdict"], lines).replace("---:", "---")
    parts = [f"## {title(config.name)}: {config.title}\n"]
    parts += [f"![{title(config.name)}](figures/{name})\n" for name in config.figures]
    parts += [table, remarks().get(config.name, "")]
    parts += [_printed(show) for show in config.show]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def word(row: Row) -> str:
    """Return the verdict of a row with its remark."""
    verdict = "ours, not counted" if row.verdict == "ours" else row.verdict
    verdict = f"**{verdict}**" if verdict == "short" else verdict
    remark = row.remark or ("untested" if row.verdict == "short" else "")
    return f"{verdict}: {remark}" if remark else verdict


def remarks() -> dict[str, str]:
    """Return what papers/remarks.md says of each table and figure."""
    sections = REMARKS.read_text(encoding="utf-8").split("\n## ")[1:]
    return {name: said for name, _, said in (section.partition("\n") for section in sections)}


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
