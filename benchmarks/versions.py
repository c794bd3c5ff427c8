"""Which versions the tests ran on, and how they ended: the record, and a sentence of the site.

make record-oldest    record the last `make test-oldest`
make record-newest    the same for `make test-newest`

Both also put the sentence into docs/index.md. The record keeps one run per end and Python version.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "versions.json"
PAGE = ROOT / "docs" / "index.md"
BEGIN, END = "<!-- tested versions: begin -->", "<!-- tested versions: end -->"
PACKAGES = {"numpy": "NumPy", "scipy": "SciPy", "scikit-learn": "scikit-learn"}


def counts(report: Path) -> dict[str, Any]:
    """Return the date and the counts of a report of pytest, in the format of JUnit."""
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    total, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    return {
        "date": suite.attrib["timestamp"][:10],
        "passed": total - failed - skipped,
        "failed": failed,
        "skipped": skipped,
    }


def run(end: str, report: Path) -> dict[str, Any]:
    """Return the row of a run that this interpreter has made."""
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {"versions": end, "python": platform.python_version()} | versions | counts(report)


def minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    first, second = version.split(".")[:2]
    return int(first), int(second)


def with_run(runs: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs with a new one, which replaces that of its end and Python version."""

    def key(row: dict[str, Any]) -> tuple[str, tuple[int, int]]:
        return row["versions"], minor(row["python"])

    kept = [row for row in runs if key(row) != key(new)]
    return sorted([*kept, new], key=lambda row: (row["versions"] != "oldest", minor(row["python"])))


def recorded() -> list[dict[str, Any]]:
    """Return the runs of the record."""
    return json.loads(RECORD.read_text(encoding="utf-8"))["results"] if RECORD.exists() else []


def sentence(runs: list[dict[str, Any]]) -> str:
    """Return what was tested; a run with a failure does not count."""
    good = [row for row in runs if not row["failed"]]
    if not good:
        return "No run of all tests is recorded."
    tested = []
    for key, name in {"python": "Python", **PACKAGES}.items():
        found = sorted({minor(row[key]) for row in good})
        *others, last = [f"{a}.{b}" for a, b in found]
        tested.append(f"{name} {', '.join(others)} and {last}" if others else f"{name} {last}")
    return f"Tested with {', '.join(tested[:-1])}, and {tested[-1]}."


def with_sentence(text: str, runs: list[dict[str, Any]]) -> str:
    """Return the text of the page with the sentence of the runs."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{sentence(runs)}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("end", choices=("oldest", "newest"))
    parser.add_argument("report", type=Path, help="what pytest wrote with --junitxml")
    args = parser.parse_args()
    runs = with_run(recorded(), run(args.end, args.report))
    record = {"benchmark": "versions", "results": runs}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_sentence(PAGE.read_text(encoding="utf-8"), runs), encoding="utf-8")
    print(*runs, sep="\n")


if __name__ == "__main__":
    main()
