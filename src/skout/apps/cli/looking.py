"""`skout look`: what a table is taken for, column by column, before anything is fitted."""

from collections import Counter
from typing import Any

import numpy as np

from ..tables.files import Table
from ..tables.kinds import Look, is_row_number, look_at
from ..tables.numerals import PLAIN, is_missing
from ..tables.reading import as_numbers
from .columns import first_rows

# Characters that are shown of an example, and of the name of a column.
_SHOWN, _NAME = 40, 30


def look_at_table(table: Table) -> list[dict[str, Any]]:
    """Return what each column is taken for, as JSON has it, from the first 100,000 rows."""
    looks = []
    for name in table.names:
        texts = first_rows(part.texts[name] for part in table.parts([], [name]))
        cells = np.empty(len(texts), dtype=object)
        cells[:] = [None if is_missing(text) else text.strip() for text in texts]
        look = Look("id", "by its name") if is_row_number(name) else look_at(name, cells)
        filled = Counter(cell for cell in cells if cell is not None)
        is_number = look.kind == "number"
        odd = as_numbers(cells, name, look.writing)[1].message(name) if is_number else ""
        looks.append(
            {
                "column": name,
                "kind": look.kind,
                "detail": _detail(look),
                "missing": len(cells) - filled.total(),
                "different": len(filled),
                "example": filled.most_common(1)[0][0] if filled else "",
                "used": not look.why,
                "note": look.why or odd,
            }
        )
    return looks


def _detail(look: Look) -> str:
    """Return how cells are written, where that is not as usual."""
    if look.separator:
        return f"separated by {look.separator!r}"
    writing = look.writing
    unit = f"in {writing.unit}" if writing.unit else ""
    comma = "decimal comma" if writing.decimal != PLAIN.decimal else ""
    return ", ".join(filter(None, (unit, comma)))


def print_looks(looks: list[dict[str, Any]]) -> None:
    """Print what `look_at_table` returned, a line for each column, and notes below."""
    from rich.console import Console
    from rich.table import Table as Lines

    lines = Lines("column", "kind", "missing", "different", "example", box=None, pad_edge=False)
    for look in looks:
        kind = ", ".join(filter(None, (look["kind"], look["detail"])))
        kind = kind if look["used"] else f"{kind} (not used: {look['note']})"
        example = " ".join(look["example"].split())
        lines.add_row(
            look["column"][:_NAME],
            kind,
            f"{look['missing']:,}",
            f"{look['different']:,}",
            example if len(example) <= _SHOWN else f"{example[:_SHOWN]}...",
        )
    console = Console(highlight=False, markup=False)
    console.print(lines)
    for look in looks:
        if look["used"] and look["note"]:
            console.print(look["note"])
