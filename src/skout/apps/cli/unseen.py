"""Values of categories that the training rows did not have, and what they may stand for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

# Letters that two values must share to be called alike; difflib's own default.
_ALIKE = 0.6
#: Columns and values, and in how many rows they are.
Unseen = Counter[tuple[str, str]]


@dataclass(frozen=True)
class UnseenValue:
    """A value of a column of categories that the model was not fitted on."""

    column: str
    value: str
    rows: int
    nearest: str | None  # the value of the training rows that is spelled most alike

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'s' if self.rows > 1 else ''}"
        hint = "" if self.nearest is None else f"; the nearest is {self.nearest!r}"
        return (
            f"column {self.column!r}: {self.value!r}, in {rows}, was not in the training rows{hint}"
        )


def unseen_of(rows: object, levels: Mapping[str, Sequence[str]]) -> Unseen:
    """Count the values of columns that are none of their levels; other inputs have none."""
    counts: Unseen = Counter()
    if isinstance(rows, Mapping):
        for column, values in levels.items():
            known = set(values)
            cells = (cell.strip() for cell in rows[column] if isinstance(cell, str))
            counts.update((column, cell) for cell in cells if cell not in known)
    return counts


def named(unseen: Unseen, levels: Mapping[str, Sequence[str]]) -> Iterator[UnseenValue]:
    """Yield the values that were counted, the most frequent first, with the nearest of levels."""
    for (column, value), rows in unseen.most_common():
        yield UnseenValue(column, value, rows, nearest(value, levels[column]))


def nearest(value: str, levels: Sequence[str]) -> str | None:
    """Return the level that is spelled most like a value, None if none is like it.

    Upper case, and what is no letter or digit, do not count.

    Examples
    --------
    >>> from skout.apps.cli.unseen import nearest
    >>> nearest("month to month", ["Month-to-month", "One year", "Two year"])
    'Month-to-month'
    """
    plain = {_plain(level): level for level in reversed(levels)}
    matches = get_close_matches(_plain(value), plain, 1, _ALIKE)
    return plain[matches[0]] if matches else None


def _plain(value: str) -> str:
    return re.sub(r"[\W_]+", " ", value.lower()).strip()
