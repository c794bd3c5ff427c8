"""How much memory a solver may take on the host or a device, told before the work begins."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..._numerics.arrays import tensor, torch_dtype
from ..._numerics.objects import to_device
from ..._numerics.threads import total_memory
from ..._numerics.types import Array, Matrix, Rows
from ...rows import Source, limits

__all__ = ["MemoryBudget", "budget_for"]

# Shares of the free memory of a GPU: for factors, and for all that is held. The rest is for what
# PyTorch's allocator cannot use in one piece.
_FACTORS, _ALL = 0.6, 0.9
# Share of the memory of this machine for factors, whose other programs want some too.
_HOST = 0.25
_GB = 2.0**30


class MemoryBudget:
    """What a solver may hold on a device, or on the host (None), and the arrays that lie there.

    Of the bytes that are free there, a pass takes `work`. The factors of a preconditioner have m
    rows: `factors` is how many such matrices there is memory for, 2, 1 in single precision, or 0.
    """

    def __init__(self, device: Any, free: float, work: float, m: int) -> None:
        self.device, self.free, self.work, self.m = device, free, work, m
        share = 1.0 if device is None else _FACTORS
        square = 8.0 * m * m
        self.factors = next(
            (k for k, size in ((2, 2 * square), (1, square / 2)) if size + work <= share * free), 0
        )
        self.holds_gram = self.factors == 2 and 3 * square + work <= share * free
        held = {2: 2 * square, 1: square / 2, 0: 0.0}[self.factors]
        self.factor_bytes = int(held + self.holds_gram * square)

    def require(self, needed: float, what: str, remedy: str) -> None:
        """Raise where there is too little memory for something, before the work begins."""
        if not self.holds(needed):
            raise MemoryError(
                f"{what} would take {needed / _GB:.1f} GiB on {self.device}, which has "
                f"{self.free / _GB:.1f} GiB free. Use {remedy}."
            )

    def holds(self, needed: float) -> bool:
        """Return whether there is memory for so many bytes besides a pass."""
        return needed + self.work <= (1.0 if self.device is None else _ALL) * self.free

    def kept(self) -> int:
        """Return the bytes of features that may be kept between passes."""
        if self.device is None:
            given = limits().requested_bytes
            return max(limits().coordinates_bytes, int(self.free)) if given is None else given
        return max(0, int(_ALL * self.free - self.factor_bytes - self.work))

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a new array there."""
        if self.device is None:
            return np.empty(shape, dtype=dtype)
        import torch

        return torch.empty(shape, dtype=torch_dtype(dtype), device=self.device)

    def moved(self, rows: Rows, dtype: Any = None) -> Rows:
        """Return rows there."""
        return rows if self.device is None else to_device(rows, self.device, dtype)

    def mixed(self, W: Matrix, A: Array) -> Array:
        """Return W A."""
        if self.device is None:
            return W @ A
        dense = tensor(W.toarray() if sparse.issparse(W) else W, self.device)
        return dense.to(A.dtype) @ A


def budget_for(rows: Source, m: int) -> MemoryBudget:
    """Return the memory of a fit with m landmarks, or raise where a GPU has too little."""
    if rows.device is None:
        return MemoryBudget(None, _HOST * (total_memory() or 8 * _GB), 0.0, m)
    work = 3.0 * min(limits().device_bytes, 8.0 * len(rows) * m)
    free = _free_on(rows.device)
    if work > _ALL * free:
        raise MemoryError(
            f"{rows.device} has {free / _GB:.1f} GiB free, and a pass over {len(rows)} rows with "
            f"{m} landmarks takes about {work / _GB:.1f} GiB there. Free some of it, or let passes "
            f"work in smaller blocks: skout.memory_limits(device_mb="
            f"{max(1, int(_ALL * free / 3 / 2**20))})."
        )
    return MemoryBudget(rows.device, free, work, m)


def _free_on(device: Any) -> float:
    """Return the bytes that are free on a device."""
    import torch

    if device.type != "cuda":
        return _HOST * (total_memory() or 8 * _GB)
    torch.cuda.empty_cache()
    return float(torch.cuda.mem_get_info(device)[0])
