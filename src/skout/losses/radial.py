"""Losses of the norm of the residual."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .._numerics.arrays import cast, namespace, row_dots
from .._numerics.typing import Array
from .._numerics.validation import check_number
from .base import Curvature, Loss, Ramp, inside


class RadialLoss(Loss):
    """Base of the losses h(||f - y||) of the length of the residual, over all outputs."""

    def variable(self, F: Array, Y: Array) -> Array:
        return _norm(F - Y)

    def along(self, dF: Array, F: Array, Y: Array) -> Array:
        R = F - Y
        return _ratio(row_dots(R, dF), _norm(R))

    def lift(self, slope: Array, F: Array, Y: Array) -> Array:
        R = F - Y
        gradient: Array = _ratio(slope, _norm(R))[:, None] * R
        return gradient

    def lift_curvature(self, slope: Array, bend: Array, F: Array, Y: Array) -> Curvature:
        # h'(r)/r (I - u u') + h''(r) u u', u = (f - y) / r
        R = F - Y
        if R.shape[1] == 1:
            return Curvature(bend[:, None])
        xp, r = namespace(R), _norm(R)
        across = xp.where(r > 0.0, _ratio(slope, r), bend)
        diagonal = xp.broadcast_to(across[:, None], R.shape)
        return Curvature(diagonal, bend - across, _ratio(R, r[:, None]))

    @abstractmethod
    def _h_conjugate(self, s: Array) -> Array: ...

    def conjugate(self, G: Array, Y: Array) -> Array:
        return row_dots(G, Y) + self._h_conjugate(_norm(G))

    def clip(self, G: Array, Y: Array) -> Array:
        if np.isinf(self.lipschitz):
            return G
        norm = namespace(G).clip(_norm(G), self.lipschitz, None)
        return G * (self.lipschitz / norm)[:, None]


def _norm(R: Array) -> Array:
    xp = namespace(R)
    return xp.abs(R[:, 0]) if R.shape[1] == 1 else xp.sqrt(row_dots(R, R))


def _ratio(a: Array, r: Array) -> Array:
    """Return a / r, and 0 where r = 0."""
    xp, positive = namespace(r), r > 0.0
    return xp.where(positive, a, 0.0) / xp.where(positive, r, 1.0)


def _excess(r: Array, epsilon: float) -> Array:
    return namespace(r).clip(r - epsilon, 0.0, None)


class Squared(RadialLoss):
    """Squared loss 1/2 ||f - y||^2.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Squared
    >>> Squared().value(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0]]))
    array([12.5])
    """

    smooth = True
    #: What other libraries call it.
    elsewhere = ("l2", "mse", "squared_error")
    lipschitz: float = float("inf")

    def _h(self, r: Array) -> Array:
        return 0.5 * r * r

    def _slope(self, r: Array) -> Array:
        return r

    def _bend(self, r: Array) -> Array:
        return namespace(r).ones_like(r)

    def _h_conjugate(self, s: Array) -> Array:
        return 0.5 * s * s


class Huber(RadialLoss):
    """Huber loss: 1/2 r^2 up to kappa, then kappa (r - kappa/2), with r = ||f - y|| (2.127).

    Parameters
    ----------
    kappa : float, default 1.0
        Residuals larger than this count linearly.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Huber
    >>> Huber(1.0).value(np.array([[0.5], [10.0]]), np.zeros((2, 1)))
    array([0.125, 9.5  ])
    """

    smooth = True

    def __init__(self, kappa: float = 1.0) -> None:
        self.kappa = kappa

    def check(self) -> None:
        check_number(self.kappa, "kappa", strict=True)

    def _h(self, r: Array) -> Array:
        q = namespace(r).clip(r, None, self.kappa)
        return q * (r - 0.5 * q)

    def _slope(self, r: Array) -> Array:
        return namespace(r).clip(r, None, self.kappa)

    def _bend(self, r: Array) -> Array:
        return cast(r <= self.kappa, r.dtype)

    def _h_conjugate(self, s: Array) -> Array:
        return inside(s / self.kappa - 1.0, 0.5 * s * s)

    @property
    def lipschitz(self) -> float:
        return float(self.kappa)

    @property
    def limit(self) -> tuple[Loss, float]:
        return EpsilonInsensitive(0.0), float(self.kappa)


class EpsilonInsensitive(RadialLoss):
    """Epsilon-insensitive loss max(||f - y|| - epsilon, 0) of support vector regression (392).

    Parameters
    ----------
    epsilon : float, default 0.1
        Residuals up to this cost nothing. 0 gives the mean absolute error.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(0.5).value(np.array([[0.25], [2.0]]), np.zeros((2, 1)))
    array([0. , 1.5])
    """

    lipschitz: float = 1.0

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def check(self) -> None:
        check_number(self.epsilon, "epsilon")

    def _h(self, r: Array) -> Array:
        return _excess(r, self.epsilon)

    def _slope(self, r: Array) -> Array:
        return cast(r > self.epsilon, r.dtype)

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        # as an even function of s: smoothed, it has no cusp at s = 0
        return Ramp(self.epsilon, 0.0, 1.0), Ramp(-self.epsilon, -1.0, 0.0)

    def _h_conjugate(self, s: Array) -> Array:
        return inside(s - 1.0, self.epsilon * s)


class SquaredEpsilonInsensitive(RadialLoss):
    """Squared epsilon-insensitive loss max(||f - y|| - epsilon, 0)^2 (394); at 0 twice `Squared`.

    Parameters
    ----------
    epsilon : float, default 0.1
        Residuals up to this cost nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import SquaredEpsilonInsensitive
    >>> SquaredEpsilonInsensitive(0.5).value(np.array([[0.25], [2.0]]), np.zeros((2, 1)))
    array([0.  , 2.25])
    """

    smooth = True
    lipschitz: float = float("inf")

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def check(self) -> None:
        check_number(self.epsilon, "epsilon")

    def _h(self, r: Array) -> Array:
        return _excess(r, self.epsilon) ** 2

    def _slope(self, r: Array) -> Array:
        return 2.0 * _excess(r, self.epsilon)

    def _bend(self, r: Array) -> Array:
        return 2.0 * cast(r >= self.epsilon, r.dtype)

    def _h_conjugate(self, s: Array) -> Array:
        return s * (self.epsilon + 0.25 * s)
