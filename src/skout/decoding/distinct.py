"""Which outputs differ, wherever they lie: found in one pass, by keys that all machines share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows, row_keys, take
from .._numerics.objects import Rows
from ..rows import Reduction

__all__ = ["Distinct", "keys_of"]


class Distinct(Reduction):
    """Positions of the distinct rows, as they appear; None if there are more than `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, rows: Any, numbers: np.ndarray) -> dict[Any, int]:
        return self._add({}, zip(keys_of(rows, numbers), numbers.tolist(), strict=True))

    def combine(self, total: dict[Any, int] | None, part: dict[Any, int]) -> dict[Any, int]:
        return self._add({} if total is None else total, part.items())

    def _add(self, found: dict[Any, int], more: Iterable[tuple[Any, int]]) -> dict[Any, int]:
        for key, number in more:
            found.setdefault(key, number)
            if len(found) > self.limit:
                break
        return found

    def finish(self, total: dict[Any, int]) -> np.ndarray | None:
        if len(total) > self.limit:
            return None
        return np.fromiter(total.values(), dtype=np.intp, count=len(total))


def keys_of(rows: Any, numbers: np.ndarray) -> list[Any]:
    """Return a key for each row that is the same on every machine; one that cannot be hashed is
    a row of its own."""
    if isinstance(rows, Rows) or getattr(rows, "ndim", 1) == 2:
        return row_keys(rows)
    keys: list[Any] = []
    for i in range(n_rows(rows)):
        item = take(rows, slice(i, i + 1))[0]
        try:
            hash(item)
        except TypeError:
            item = ("row", int(numbers[i]))
        keys.append(item)
    return keys
