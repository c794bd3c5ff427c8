"""Convex losses: value, gradient, curvature and conjugate of each.

A loss compares predictions F with targets Y, both of shape (n, d), row by row. Every loss here is
a function of one real variable s composed with a simple map of (F, Y):

    radial      s_i  = ||f_i - y_i||      squared, Huber and epsilon losses (2.127, 392, 394)
    residual    s_ij = f_ij - y_ij        pinball (2.128)
    margin      s_ij = y_ij f_ij          hinge, squared hinge, logistic; y = -1 or 1

and it states of that function h its value, its slope and bend (first and second derivative), and
its conjugate. Everything else follows. Formulas are written over `namespace`, so that networks,
whose predictions are tensors, use the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from .._numerics.arrays import namespace, row_dots
from .._numerics.estimators import PartsByName
from .._numerics.typing import Array


class Curvature(NamedTuple):
    """Second derivatives of a loss: row i has diag(diagonal_i) + weight_i u_i u_i'."""

    diagonal: Array  # (n, d)
    weight: Array | None = None  # (n,)
    u: Array | None = None  # (n, d)

    def __matmul__(self, V: Array) -> Array:
        """Multiply each row of V (n, d) by the matrix of that row."""
        product = self.diagonal * V
        if self.weight is not None and self.u is not None:
            inner = self.weight * row_dots(self.u, V)
            product += inner[:, None] * self.u
        return product


class Ramp(NamedTuple):
    """A kink of h, where its slope rises from low to high: the limits of the conjugate there."""

    kink: float
    low: float | Array  # a number, or one for each output
    high: float | Array


class Loss(PartsByName, ABC):
    """A convex loss h(s(F, Y)); all arguments and results hold one row per sample.

    In its methods F are predictions and Y targets, arrays or tensors of shape (n, d); s has the
    shape (n,) or (n, d), and `slope` and `bend` are derivatives of h of that shape; G are slopes in
    F, shape (n, d). Where a loss has kinks the gradient is a subgradient, and there is no
    curvature.
    """

    smooth: bool = False

    # The map s -----------------------------------------------------------------------------

    @abstractmethod
    def variable(self, F: Array, Y: Array) -> Array:
        """Return s(F, Y), shape (n,) or (n, d)."""

    @abstractmethod
    def along(self, dF: Array, F: Array, Y: Array) -> Array:
        """Return the change of s when F changes by dF, to first order."""

    @abstractmethod
    def lift(self, slope: Array, F: Array, Y: Array) -> Array:
        """Return the gradient in F, shape (n, d), given that in s."""

    @abstractmethod
    def lift_curvature(self, slope: Array, bend: Array, F: Array, Y: Array) -> Curvature:
        """Return the second derivatives in F, given the derivatives in s."""

    # The function h ------------------------------------------------------------------------

    @abstractmethod
    def _h(self, s: Array) -> Array: ...

    @abstractmethod
    def _slope(self, s: Array) -> Array: ...

    def _bend(self, s: Array) -> Array:
        """Return the second derivative of a smooth h; it may jump."""
        raise NotImplementedError(
            f"{type(self).__name__} has no second derivative. If h is smooth, write _bend; if it "
            "has kinks, say where in `ramps`."
        )

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        """The kinks of h, for a piecewise linear h; none if it is smooth."""
        return ()

    @property
    def limit(self) -> tuple[Loss, float] | None:
        """A loss l and a factor a where this loss approaches a l far from the target, or None.

        A solver starts from the minimizer of l.
        """
        return None

    # What follows --------------------------------------------------------------------------

    def value(self, F: Array, Y: Array) -> Array:
        """Return the loss of each row, shape (n,)."""
        h = self._h(self.variable(F, Y))
        return h if h.ndim == 1 else h.sum(axis=1)

    def gradient(self, F: Array, Y: Array) -> Array:
        """Return the gradient, or a subgradient where there is a kink, shape (n, d)."""
        return self.lift(self._slope(self.variable(F, Y)), F, Y)

    def curvature(self, F: Array, Y: Array) -> Curvature:
        """Return the second derivatives of a smooth loss (generalized ones, where they jump)."""
        s = self.variable(F, Y)
        return self.lift_curvature(self._slope(s), self._bend(s), F, Y)

    @abstractmethod
    def conjugate(self, G: Array, Y: Array) -> Array:
        """Return sup_f <g, f> - loss(f, y) of each row: inf outside the domain; shape (n,)."""

    @abstractmethod
    def clip(self, G: Array, Y: Array) -> Array:
        """Return the points of the conjugate's domain nearest to G."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """The least L with ``|loss(f, y) - loss(f', y)| <= L ||f - f'||``, for one output."""

    def check(self) -> None:
        """Raise if a parameter is not valid."""

    def check_outputs(self, d: int) -> None:
        """Raise if the loss does not take d outputs."""


def inside(slack: Array, value: Array) -> Array:
    """Return `value` where slack <= 1e-12, and inf elsewhere: a conjugate outside of its domain.

    The tolerance is that of rounding, for numbers about 1.
    """
    return namespace(value).where(slack <= 1e-12, value, np.inf)
