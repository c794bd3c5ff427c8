"""Losses that add up over outputs: of margins, for classification, and of quantiles."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from .._numerics.arrays import cast, constant, namespace, row_dots, special
from .._numerics.typing import Array
from .base import Curvature, Loss, Ramp, inside


class _Separable(Loss):
    """Base of the losses that are sums over outputs, with diagonal second derivatives."""

    def lift_curvature(self, slope: Array, bend: Array, F: Array, Y: Array) -> Curvature:
        return Curvature(bend)


class MarginLoss(_Separable):
    """Base of the losses of margins, sums over outputs of h(y f), y = -1 or 1 for each class."""

    def variable(self, F: Array, Y: Array) -> Array:
        return Y * F

    def along(self, dF: Array, F: Array, Y: Array) -> Array:
        return Y * dF

    def lift(self, slope: Array, F: Array, Y: Array) -> Array:
        return Y * slope

    @abstractmethod
    def _h_conjugate(self, a: Array) -> Array: ...

    def conjugate(self, G: Array, Y: Array) -> Array:
        conjugates: Array = self._h_conjugate(Y * G).sum(axis=1)
        return conjugates

    def clip(self, G: Array, Y: Array) -> Array:
        low = -self.lipschitz if np.isfinite(self.lipschitz) else None
        return Y * namespace(G).clip(Y * G, low, 0.0)


class Hinge(MarginLoss):
    """Hinge loss max(1 - y f, 0) of support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Hinge
    >>> Hinge().value(np.array([[0.25], [2.0]]), np.ones((2, 1)))
    array([0.75, 0.  ])
    """

    lipschitz: float = 1.0
    ramps: tuple[Ramp, ...] = (Ramp(1.0, -1.0, 0.0),)

    def _h(self, s: Array) -> Array:
        return namespace(s).clip(1.0 - s, 0.0, None)

    def _slope(self, s: Array) -> Array:
        return -cast(s < 1.0, s.dtype)

    def _h_conjugate(self, a: Array) -> Array:
        return inside(namespace(a).maximum(a, -1.0 - a), a)


class SquaredHinge(MarginLoss):
    """Squared hinge loss max(1 - y f, 0)^2.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([[0.5], [2.0]]), np.ones((2, 1)))
    array([0.25, 0.  ])
    """

    smooth = True
    lipschitz: float = float("inf")

    def _h(self, s: Array) -> Array:
        return namespace(s).clip(1.0 - s, 0.0, None) ** 2

    def _slope(self, s: Array) -> Array:
        return 2.0 * namespace(s).clip(s - 1.0, None, 0.0)

    def _bend(self, s: Array) -> Array:
        return 2.0 * cast(s <= 1.0, s.dtype)

    def _h_conjugate(self, a: Array) -> Array:
        return inside(a, a * (1.0 + 0.25 * a))


class Logistic(MarginLoss):
    """Logistic loss log(1 + exp(-y f)).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Logistic
    >>> Logistic().value(np.zeros((1, 1)), np.ones((1, 1))).round(4)
    array([0.6931])
    """

    smooth = True
    lipschitz: float = 1.0

    def _h(self, s: Array) -> Array:
        xp = namespace(s)
        return xp.clip(-s, 0.0, None) + xp.log1p(xp.exp(-xp.abs(s)))

    def _slope(self, s: Array) -> Array:
        return -special(s).expit(-s)

    def _bend(self, s: Array) -> Array:
        expit = special(s).expit
        return expit(s) * expit(-s)

    def _h_conjugate(self, a: Array) -> Array:
        xp, entr = namespace(a), special(a).entr
        chance = xp.clip(-a, 0.0, 1.0)
        return inside(xp.maximum(a, -1.0 - a), -entr(chance) - entr(1.0 - chance))


class Pinball(_Separable):
    """Pinball loss: sum over outputs of tau (y - f) where y > f, else (1 - tau) (f - y) (2.128).

    Its minimizer is the quantile of level tau. (The thesis's 2.128 has tau and 1 - tau swapped,
    which gives the level 1 - tau; here as everywhere else, tau = 0.9 is a high quantile.)

    Parameters
    ----------
    tau : float or array of shape (d,), default 0.5
        Level of each output, in (0, 1); one number is the level of all.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Pinball
    >>> Pinball(0.9).value(np.array([[0.0], [2.0]]), np.ones((2, 1)))
    array([0.9, 0.1])
    """

    #: What other libraries call it.
    elsewhere = ("l1", "mae", "absolute_error", "quantile")

    def __init__(self, tau: ArrayLike = 0.5) -> None:
        self.tau = tau

    def check(self) -> None:
        levels = np.asarray(self.tau)
        if levels.dtype.kind not in "fiu" or levels.ndim > 1 or levels.size == 0:
            raise TypeError(f"tau must be a number or a list of numbers. Got {self.tau!r} instead.")
        if not np.all((levels > 0.0) & (levels < 1.0)):
            raise ValueError(f"tau must lie strictly between 0 and 1. Got {self.tau!r} instead.")

    def check_outputs(self, d: int) -> None:
        size = np.asarray(self.tau).size
        if np.ndim(self.tau) == 1 and size not in (1, d):
            raise ValueError(f"tau has {size} levels but y has {d} outputs: give one for each.")

    def variable(self, F: Array, Y: Array) -> Array:
        return F - Y

    def along(self, dF: Array, F: Array, Y: Array) -> Array:
        return dF

    def lift(self, slope: Array, F: Array, Y: Array) -> Array:
        return slope

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        return (Ramp(0.0, *self._slopes(np.empty(0))),)

    def _slopes(self, like: Array) -> tuple[Array, Array]:
        """Return the slopes below and above 0, one for each output."""
        tau = constant(self.tau, like)
        return -tau, 1.0 - tau

    def _h(self, s: Array) -> Array:
        low, high = self._slopes(s)
        return namespace(s).maximum(high * s, low * s)

    def _slope(self, s: Array) -> Array:
        (low, high), xp = self._slopes(s), namespace(s)
        return xp.where(s > 0.0, high, xp.where(s < 0.0, low, 0.0))

    def conjugate(self, G: Array, Y: Array) -> Array:
        (low, high), xp = self._slopes(G), namespace(G)
        return inside(xp.amax(xp.maximum(G - high, low - G), axis=1), row_dots(G, Y))

    def clip(self, G: Array, Y: Array) -> Array:
        low, high = self._slopes(G)
        return namespace(G).clip(G, low, high)

    @property
    def lipschitz(self) -> float:
        tau = np.asarray(self.tau)
        return float(np.maximum(tau, 1.0 - tau).max())
