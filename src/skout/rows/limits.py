"""How much memory a pass may take: one context, read by every engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .._numerics.validation import check_number

__all__ = ["Limits", "block_rows", "limits", "memory_limits"]


@dataclass(frozen=True)
class Limits:
    """Rows of a block, and bytes of its features; of all coordinates; of a block on a card.

    `card_bytes` are those of all coordinates on a card, None for as many as there is room for.
    """

    block_rows: int = 8192  # long blocks keep matrix products near the peak
    block_bytes: int = 2**26
    coordinates_bytes: int = 2**31
    device_bytes: int = 2**31
    card_bytes: int | None = None


_LIMITS: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 - frozen


def limits() -> Limits:
    """Return the limits in force."""
    return _LIMITS.get()


@contextmanager
def memory_limits(
    *,
    block_rows: int = 8192,
    block_mb: float = 64.0,
    coordinates_mb: float | None = None,
    device_mb: float = 2048.0,
) -> Iterator[None]:
    """Set how much memory passes over rows may take, within a `with` block.

    Parameters
    ----------
    block_rows : int, default 8192
        Most rows of a block, of which each thread works on one.
    block_mb : float, default 64
        Megabytes of the features of a block.
    coordinates_mb : float, optional
        Megabytes of the coordinates of all rows, which solvers that pass over them many times
        hold; more than that is computed again in each pass. None is 2048 here, and on a card what
        is free there; conjugate gradients may then keep kernel values in a quarter of the memory.
    device_mb : float, default 2048
        Megabytes of the features of a block on a card; a pass takes about three times that.

    Examples
    --------
    >>> import numpy as np
    >>> import skout
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> with skout.memory_limits(block_rows=10):
    ...     Z = skout.KernelBasis("gaussian").fit_transform(X)
    """
    check_number(block_rows, "block_rows", low=1, integer=True)
    check_number(block_mb, "block_mb", strict=True)
    if coordinates_mb is not None:
        check_number(coordinates_mb, "coordinates_mb")
    check_number(device_mb, "device_mb", strict=True)
    held = None if coordinates_mb is None else int(coordinates_mb * 2**20)
    here = Limits.coordinates_bytes if held is None else held
    size = int(block_rows), int(block_mb * 2**20), here, int(device_mb * 2**20)
    token = _LIMITS.set(Limits(*size, held))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def block_rows(n: int, row_bytes: int, limit: int | None = None) -> int:
    """Return the number of rows of the blocks that n rows, of `row_bytes` each, are cut into.

    The number of blocks is a multiple of a power of two, so that threads finish together whatever
    their number, which the blocks must not depend on.
    """
    most_rows, most_bytes = limits().block_rows, limits().block_bytes
    most = max(1, min(most_rows, most_bytes // max(1, row_bytes), limit or most_rows))
    n_blocks = max(1, math.ceil(n / most))
    unit = 2 ** (n_blocks.bit_length() // 2)
    return max(1, math.ceil(n / (math.ceil(n_blocks / unit) * unit)))
