"""How many landmarks keep to a tolerance on the reconstruction error?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.validation import check_number, check_rng, check_size
from ..basis import KernelBasis
from ..basis.features import KernelMatrix
from ..sketches import PivotedCholesky
from .common import axes, coordinates, encoded

__all__ = ["SketchSize", "choose_sketch_size"]

_MAX_SIZE = 2000  # that `choose_sketch_size` tries by itself


@dataclass(frozen=True, eq=False)
class SketchSize:
    """A sketch size, usable as an int; errors[m] is the relative error of the first m landmarks."""

    size: int
    tolerance: float
    errors: np.ndarray = field(repr=False)

    def __int__(self) -> int:
        return self.size

    __index__ = __int__

    def plot(self, ax: Any = None) -> Any:
        """Draw the relative error against the size, in logarithm."""
        ax = axes(ax, "sketch size", "relative reconstruction error")
        ax.semilogy(np.arange(len(self.errors)), np.maximum(self.errors, np.finfo(float).eps))
        ax.axhline(self.tolerance, linestyle=":")
        ax.axvline(self.size, linestyle=":")
        return ax


def choose_sketch_size(
    kernel: Any,
    Z: Any,
    tolerance: float = 0.01,
    *,
    max_size: int | None = None,
    random_state: Any = None,
) -> SketchSize:
    """Find a sketch size from a tolerance on the reconstruction error.

        error(m) = sum_i (k(z_i, z_i) - ||coordinates of z_i||^2) / sum_i k(z_i, z_i) <= tolerance

    Randomly pivoted Cholesky finds landmarks enough. They are then put in an order, each the one
    that those before it explain least, and the first m that keep to the tolerance are counted.
    Uniform sub-sampling may need more where some objects are rare.

    Parameters
    ----------
    kernel : kernel, str or callable
    Z : array, CSR matrix or objects that the kernel encodes, n of them
    tolerance : float in (0, 1), default 0.01
    max_size : int, optional
        Default 2000. A warning says when it is not enough.
    random_state : None, int or Generator

    Returns
    -------
    size : SketchSize

    Examples
    --------
    >>> import numpy as np
    >>> from skout.selection import choose_sketch_size
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 40))
    >>> int(choose_sketch_size("linear", Z, tolerance=1e-6, random_state=0))
    5
    """
    tolerance = float(check_number(tolerance, "tolerance", strict=True))
    if tolerance >= 1:
        raise ValueError(f"tolerance must be a fraction, below 1. Got {tolerance!r} instead.")
    rng = check_rng(random_state)
    kernel, rows = encoded(kernel, Z, rng)
    n = n_rows(rows)
    most = min(_MAX_SIZE, n) if max_size is None else check_size(max_size, n, "max_size")
    trace = KernelMatrix(kernel, rows).diag().sum()
    # of many rows the sketch looks at some only, and what is enough for them may not be for all
    for share in (1.0, 0.7, 0.4):
        sketch = PivotedCholesky(most, tol=share * tolerance)
        basis = KernelBasis(kernel, sketch, random_state=rng).fit(rows)
        explained = sum(np.square(B).sum(axis=0) for B in coordinates(basis, rows))
        errors = np.maximum(1.0 - np.append(0.0, np.cumsum(explained)) / trace, 0.0)
        if errors[-1] <= tolerance or basis.rank_ >= most:
            break
    if errors[-1] > tolerance:
        left = f"{basis.rank_} landmarks leave a relative error of {errors[-1]:.3g} > {tolerance:g}"
        warnings.warn(f"{left}: raise max_size or tolerance.", UserWarning, stacklevel=2)
    return SketchSize(int(np.argmax(errors <= max(tolerance, errors[-1]))), tolerance, errors)
