"""Preconditioners of kernel ridge regression: cheap inverses of something close to the system.

With landmarks, the system in features is A = F'F + n alpha K, and rows that are like the landmarks
make it about (n / m) K^2 + n alpha K. Arrays may be tensors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._numerics.arrays import cast, is_tensor, namespace, times
from ..._numerics.factors import Triangle, cholesky
from ..._numerics.typing import Array

# What is added to a diagonal, relative to it: first the rounding of single precision, then steps of
# ten. A larger lift makes a worse preconditioner, never another solution.
_LIFTS = (1.2e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
# The same for F'F, whose eigenvalues are squares.
_SMALL_LIFTS = (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-8, 1e-6, 1e-4)


def definite_factor(
    make: Callable[[], Array], shift: float = 0.0, lifts: tuple[float, ...] = _LIFTS
) -> Triangle:
    """Return the factor of K + (shift + lift) I, with the first lift that makes it definite.

    `make` returns K in memory of its own, which is overwritten.
    """
    for lift in lifts:
        K = make()
        diagonal = namespace(K).diagonal(K)
        largest = float(diagonal.max())
        if not np.isfinite(largest) or largest <= 0.0:
            break
        _add_diagonal(K, shift + lift * largest)
        factor = cholesky(K)
        if factor is not None:
            return factor
    raise ValueError(
        "The kernel matrix of the landmarks is zero or not positive semi-definite: check the data "
        "or use another kernel."
    )


def _add_diagonal(A: Array, value: float) -> None:
    diagonal = A.diagonal() if is_tensor(A) else np.einsum("ii->i", A)  # views
    diagonal += value


class SampledRows:
    """The system of some of the rows, (n / s) F_s'F_s + n alpha K: the direct solution on them.

    `make` returns its lower triangle, to be overwritten.
    """

    name = "sampled rows"

    def __init__(self, make: Callable[[], Array]) -> None:
        self.L = definite_factor(make, lifts=_SMALL_LIFTS)

    def __call__(self, r: Array) -> Array:
        """Return M^-1 r."""
        return self.L.solve_transposed(self.L.solve(r))


class OneFactor:
    """One factor: A is about (n / m) K (K + m alpha I), so M = (n / m) (K + m alpha / 2 I)^2.

    `make` returns K, to be overwritten, and `rows` is how many rows it stands for: m, or n where a
    sketch mixes all rows.
    """

    name = "one factor of the landmarks"

    def __init__(self, make: Callable[[], Array], alpha: float, n: float, rows: int) -> None:
        self.scale: float = rows / n
        self.L = definite_factor(make, 0.5 * rows * alpha)

    def __call__(self, r: Array) -> Array:
        """Return M^-1 r."""
        z = cast(r, self.L.L.dtype)
        for _ in range(2):
            z = self.L.solve_transposed(self.L.solve(z))
        return self.scale * cast(z, r.dtype)


class Sketched:
    """K is about Z Z', so M = (Z Z' + delta I)^power / scale, by (Z'Z + delta I)^-1 (Woodbury).

    Z, of shape (m, r), are coordinates in a second sketch, and `gram` is Z'Z in double precision.
    """

    name = "second sketch"
    delta: float
    power: int
    scale: float

    def __init__(
        self, Z: Array, gram: Array, delta: float, power: int = 1, scale: float = 1.0
    ) -> None:
        self.Z, self.delta, self.power, self.scale = Z, delta, power, scale
        self.H = definite_factor(lambda: 1.0 * gram, delta)

    def _inverse(self, r: Array) -> Array:
        inner = cast(times(self.Z.T, cast(r, self.Z.dtype)), r.dtype)
        inner = self.H.solve_transposed(self.H.solve(inner))
        return (r - cast(times(self.Z, cast(inner, self.Z.dtype)), r.dtype)) / self.delta

    def __call__(self, r: Array) -> Array:
        """Return M^-1 r."""
        for _ in range(self.power):
            r = self._inverse(r)
        return self.scale * r
