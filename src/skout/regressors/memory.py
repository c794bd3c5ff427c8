"""How much memory an iterative fit may take, here or on a card, said before the work begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import tensor, torch_dtype
from .._numerics.objects import to_device
from .._numerics.threads import total_memory
from ..rows import Source, limits

__all__ = ["Room", "room_for"]

# Shares of the free memory of a card: for factors, and for all that is held.
_FACTORS, _ALL = 0.6, 0.9
# Share of the memory of this machine for factors.
_HOST = 0.25
_GB = 2.0**30


class Room:
    """Where an iterative solver works, a device or the host, None, and what it may hold there.

    Of the bytes that are free there, a pass takes `work`; factors have m rows.
    """

    def __init__(self, device: Any, free: float, work: float, m: int) -> None:
        self.device, self.free, self.work, self.m = device, free, work, m
        share = _FACTORS if self.on_card else 1.0
        square = 8.0 * m * m
        self.factors = next(
            (k for k, size in ((2, 2 * square), (1, square / 2)) if size + work <= share * free), 0
        )
        self.holds_gram = self.factors == 2 and 3 * square + work <= share * free
        held = {2: 2 * square, 1: square / 2, 0: 0.0}[self.factors]
        self.factor_bytes = int(held + self.holds_gram * square)

    @property
    def on_card(self) -> bool:
        return self.device is not None

    def require(self, needed: float, what: str, remedy: str) -> None:
        """Raise where a card has too little memory for something, before the work begins."""
        if not self.holds(needed):
            raise MemoryError(
                f"{what} would take {needed / _GB:.1f} GiB on {self.device}, which has "
                f"{self.free / _GB:.1f} GiB free. Use {remedy}."
            )

    def holds(self, needed: float) -> bool:
        """Return whether there is room for so many bytes besides a pass."""
        return needed + self.work <= (_ALL if self.on_card else 1.0) * self.free

    def kept(self) -> int:
        """Return the bytes of features that may be kept between passes."""
        if not self.on_card:
            given = limits().given_bytes
            return max(limits().coordinates_bytes, int(self.free)) if given is None else given
        return max(0, int(_ALL * self.free - self.factor_bytes - self.work))

    def costs(self, rows: Source, q: int, function: Callable[..., Any]) -> Any:
        """Return what a function of `solvers.cost` says of a fit here."""
        n, d = len(rows), int(np.prod(rows.tail) or 1)
        kept = min(1.0, self.kept() / max(4.0 * n * self.m, 1.0))
        return function(n, self.m, d, q, self.on_card, factors=self.factors, kept=kept)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a new array there."""
        if not self.on_card:
            return np.empty(shape, dtype=dtype)
        import torch

        return torch.empty(shape, dtype=torch_dtype(dtype), device=self.device)

    def moved(self, rows: Any, dtype: Any) -> Any:
        """Return rows there."""
        return to_device(rows, self.device, dtype) if self.on_card else rows

    def mixed(self, W: Any, A: Any) -> Any:
        """Return W A."""
        if not self.on_card:
            return W @ A
        dense = tensor(W.toarray() if sparse.issparse(W) else W, self.device)
        return dense.to(A.dtype) @ A


def room_for(rows: Source, m: int) -> Room:
    """Return the room of a fit on some rows, or raise where a card has too little."""
    if rows.device is None:
        there = total_memory() or 8 * _GB
        return Room(None, _HOST * there, 0.0, m)
    work = 3.0 * min(limits().device_bytes, 8.0 * len(rows) * m)
    free = _free_on(rows.device)
    if work > _ALL * free:
        raise MemoryError(
            f"{rows.device} has {free / _GB:.1f} GiB free, and a pass over {len(rows)} rows with "
            f"{m} landmarks takes about {work / _GB:.1f} GiB there. Free some of it, or let passes "
            f"work in smaller blocks: skout.memory_limits(device_mb="
            f"{max(1, int(_ALL * free / 3 / 2**20))})."
        )
    return Room(rows.device, free, work, m)


def _free_on(device: Any) -> float:
    """Return the bytes that are free on a card."""
    import torch

    if device.type != "cuda":
        return _HOST * (total_memory() or 8 * _GB)
    torch.cuda.empty_cache()
    return float(torch.cuda.mem_get_info(device)[0])
