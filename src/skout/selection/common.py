"""What the questions share: sizes to try, rows and their coordinates, axes to draw on."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows, row_slices, take
from .._numerics.extras import extra
from .._numerics.validation import check_number
from ..basis import KernelBasis
from ..kernels import Kernel, as_kernel
from ..rows.encode import named

__all__ = ["axes", "coordinates", "count", "encoded", "trials"]

_ROWS = 2**14  # whose coordinates are held at a time


def axes(ax: Any, xlabel: str, ylabel: str) -> Any:
    """Return the axes to draw on, new ones by default."""
    with extra("plot", "Plots need matplotlib"):
        import matplotlib.pyplot as plt
    ax = plt.subplots()[1] if ax is None else ax
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return ax


def count(value: Any, name: str) -> int:
    """Return a positive integer, or raise an error with the name of the parameter."""
    return int(check_number(value, name, low=1, integer=True))


def trials(sizes: Iterable[Any], params: list[str]) -> list[tuple[int, ...]]:
    """Return distinct tuples, one size for each parameter, from small to large."""
    if not isinstance(sizes, Iterable):
        raise TypeError(f"sizes must be a list of sketch sizes. Got {sizes!r} instead.")
    found = set()
    for size in sizes:
        trial = (size,) * len(params) if isinstance(size, numbers.Number) else tuple(size)
        if len(trial) != len(params):
            expected = f"ints or tuples of {len(params)}, the sizes of {', '.join(params)}"
            raise ValueError(f"sizes must be {expected}. Got {size!r} instead.")
        found.add(tuple(count(m, "sizes") for m in trial))
    if not found:
        raise ValueError("sizes must have at least one sketch size. Got none.")
    return sorted(found, key=lambda trial: (sum(trial), trial))


def encoded(kernel: Any, Z: Any, rng: np.random.Generator, name: str = "Z") -> tuple[Kernel, Any]:
    """Return the kernel, its widths resolved on Z, and the rows of Z, which a caller names."""
    kernel = as_kernel(kernel)
    with named(name):
        rows = kernel.encode(Z)
        if n_rows(rows) == 0:
            raise ValueError("Found array with 0 sample(s): there must be at least one object.")
    return kernel.resolve(rows, rng), rows


def coordinates(basis: KernelBasis, rows: Any) -> Iterator[np.ndarray]:
    """Yield the coordinates of all rows, some rows at a time, in float64."""
    for some in row_slices(n_rows(rows), _ROWS):
        yield basis.transform(take(rows, some)).astype(np.float64, copy=False)
