"""`skout look`: the kinds of the columns of a table, before anything is fitted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..tables.files import Table
from ..tables.kinds import Look, look_at
from ..tables.numerals import PLAIN, is_missing
from ..tables.reading import as_dates, as_numbers
from .columns import Outputs

# Characters that are shown of an example, and of the name of a column.
_SHOWN, _NAME = 40, 30
# The words for units that are signs, such as 1:30, and for quantities of angles.
_IN_WORDS = {":": "minutes", "min": "minutes", "°": "degrees"}
_IN_WORDS |= {"latitude": "degrees", "longitude": "degrees"}
# Columns that are read together, and rows that are read.
_TOGETHER, _MOST_ROWS = 100, 100_000


def look_at_table(
    table: Table, outputs: Sequence[Outputs] = (), kinds: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the kind of each column with counts of its cells, from the first 100,000 rows.

    Columns of `outputs` are targets; `kinds` are those of --kind.
    """
    kinds = kinds or {}
    targets = {name: target for target in outputs for name in target.columns}
    looks = []
    for name, texts in _columns(table):
        cells = np.empty(len(texts), dtype=object)
        cells[:] = [None if is_missing(text) else text.strip() for text in texts]
        look = look_at(name, cells)
        if name in kinds:
            look = Look(kinds[name], "dropped" if kinds[name] == "drop" else "", look.separator)
        filled = Counter(cell for cell in cells if cell is not None)
        looks.append(
            {
                "column": name,
                "kind": targets[name].kind.name if name in targets else look.kind,
                "detail": _detail(look),
                "missing": len(cells) - filled.total(),
                "different": len(filled),
                "example": filled.most_common(1)[0][0] if filled else "",
                "used": name in targets or not look.why,
                "note": "target" if name in targets else look.why or _odd_cells(name, cells, look),
            }
        )
    return looks


def _columns(table: Table) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the first cells of each column; 100 are read at a time."""
    for a in range(0, len(table.names), _TOGETHER):
        names = table.names[a : a + _TOGETHER]
        cells: dict[str, list[str]] = {name: [] for name in names}
        n = 0
        for part in table.parts([], names):
            for name in names:
                cells[name] += part.texts[name]
            n += len(part)
            if n >= _MOST_ROWS:
                break
        yield from cells.items()


def _odd_cells(name: str, cells: np.ndarray, look: Look) -> str:
    """Return a message on the cells that are unlike the others, "" where there are none."""
    if look.kind == "number":
        return as_numbers(cells, name, look.writing)[1].message(name)
    return as_dates(cells, name, {})[1].message(name) if look.kind == "date" else ""


def _detail(look: Look) -> str:
    """Return the separator, the unit or the decimal comma of a column, "" where it has none."""
    if look.separator:
        return f"separated by {look.separator!r}"
    writing = look.writing
    name = _IN_WORDS.get(writing.family, writing.family) or writing.unit
    unit = f"out {name}" if name.startswith("of ") else f"in {_IN_WORDS.get(name, name)}"
    unit = unit if name else ""
    comma = "decimal comma" if writing.decimal != PLAIN.decimal else ""
    return ", ".join(filter(None, (unit, comma)))


def print_looks(looks: list[dict[str, Any]]) -> None:
    """Print a line for each column that `look_at_table` returned, and notes below."""
    from rich.console import Console
    from rich.table import Table as Lines

    lines = Lines("column", "kind", "missing", "different", "example", box=None, pad_edge=False)
    for look in looks:
        kind = ", ".join(filter(None, (look["kind"], look["detail"])))
        kind = kind if look["used"] else f"{kind} (not used: {look['note']})"
        kind = f"target: {kind}" if look["note"] == "target" else kind
        example = " ".join(look["example"].split())
        lines.add_row(
            look["column"][:_NAME] or "(no name)",
            kind,
            f"{look['missing']:,}",
            f"{look['different']:,}",
            example if len(example) <= _SHOWN else f"{example[:_SHOWN]}...",
        )
    console = Console(highlight=False, markup=False)
    console.print(lines)
    for look in looks:
        if look["used"] and look["note"] not in ("", "target"):
            console.print(look["note"])
