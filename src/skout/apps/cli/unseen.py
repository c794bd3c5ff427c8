"""Values of categories that the training rows did not have, and those that are spelled alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

# The least similarity of two values that are called alike; the default of difflib.
_ALIKE = 0.6
#: The number of rows of each column and value.
Unseen = Counter[tuple[str, str]]


@dataclass(frozen=True)
class UnseenValue:
    """A value of a column of categories that no training row had."""

    column: str
    value: str
    rows: int
    nearest: str | None  # the training value that is spelled most like it

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'s' if self.rows > 1 else ''}"
        hint = "" if self.nearest is None else f"; the nearest is {self.nearest!r}"
        return (
            f"column {self.column!r}: {self.value!r}, in {rows}, was not in the training rows{hint}"
        )


def unseen_of(rows: object, levels: Mapping[str, Sequence[str]]) -> Unseen:
    """Count the values of a table that are not among the levels of their column."""
    counts: Unseen = Counter()
    if isinstance(rows, Mapping):
        for column, values in levels.items():
            known = set(values)
            cells = (cell.strip() for cell in rows[column] if isinstance(cell, str))
            counts.update((column, cell) for cell in cells if cell not in known)
    return counts


def unseen_values(unseen: Unseen, levels: Mapping[str, Sequence[str]]) -> Iterator[UnseenValue]:
    """Yield the counted values with the nearest level, the most frequent value first."""
    for (column, value), rows in unseen.most_common():
        yield UnseenValue(column, value, rows, nearest(value, levels[column]))


def nearest(value: str, levels: Sequence[str]) -> str | None:
    """Return the level that is spelled most like a value, None if no level is similar.

    Case and punctuation are ignored.

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
