"""Losses of the norm of the residual."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .._numerics.validation import check_number
from .base import Curvature, Loss, Ramp, inside

__all__ = ["EpsilonInsensitive", "Huber", "RadialLoss", "Squared", "SquaredEpsilonInsensitive"]


class RadialLoss(Loss):
    """h(||f - y||): one number a row, whatever the number of outputs."""

    def variable(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return _norm(F - Y)

    def along(self, dF: np.ndarray, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        R = F - Y
        return _ratio(np.einsum("ij,ij->i", R, dF), _norm(R))

    def lift(self, slope: np.ndarray, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        R = F - Y
        return _ratio(slope, _norm(R))[:, None] * R

    def lift_curvature(
        self, slope: np.ndarray, bend: np.ndarray, F: np.ndarray, Y: np.ndarray
    ) -> Curvature:
        R = F - Y
        if R.shape[1] == 1:
            return Curvature(bend[:, None])
        r = _norm(R)
        across = np.where(r > 0.0, _ratio(slope, r), bend)
        diagonal = np.broadcast_to(across[:, None], R.shape)
        return Curvature(diagonal, bend - across, _ratio(R.T, r).T)

    @abstractmethod
    def _h_conjugate(self, s: np.ndarray) -> np.ndarray: ...

    def conjugate(self, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->i", G, Y) + self._h_conjugate(_norm(G))

    def clip(self, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if np.isinf(self.lipschitz):
            return G
        norm = _norm(G)
        return G * (self.lipschitz / np.maximum(norm, self.lipschitz))[:, None]


def _norm(R: np.ndarray) -> np.ndarray:
    return np.abs(R[:, 0]) if R.shape[1] == 1 else np.sqrt(np.einsum("ij,ij->i", R, R))


def _ratio(a: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return a / r, and 0 where r = 0."""
    return np.divide(a, r, out=np.zeros_like(a), where=r > 0.0)


class Squared(RadialLoss):
    """1/2 ||f - y||^2.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Squared
    >>> Squared().value(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0]]))
    array([12.5])
    """

    smooth = True

    def _h(self, r: np.ndarray) -> np.ndarray:
        return 0.5 * r * r

    def _slope(self, r: np.ndarray, t: float) -> np.ndarray:
        return r / (1.0 + t)

    def _bend(self, r: np.ndarray, t: float) -> np.ndarray:
        return np.full_like(r, 1.0 / (1.0 + t))

    def _h_conjugate(self, s: np.ndarray) -> np.ndarray:
        return 0.5 * s * s

    @property
    def lipschitz(self) -> float:
        return float("inf")


class Huber(RadialLoss):
    """1/2 r^2 up to kappa, then kappa (r - kappa/2), with r = ||f - y|| (2.127).

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

    def _h(self, r: np.ndarray) -> np.ndarray:
        q = np.minimum(r, self.kappa)
        return q * (r - 0.5 * q)

    def _slope(self, r: np.ndarray, t: float) -> np.ndarray:
        return np.minimum(r / (1.0 + t), self.kappa)

    def _bend(self, r: np.ndarray, t: float) -> np.ndarray:
        return (r <= self.kappa * (1.0 + t)) / (1.0 + t)

    def _h_conjugate(self, s: np.ndarray) -> np.ndarray:
        return inside(s / self.kappa - 1.0, 0.5 * s * s)

    @property
    def lipschitz(self) -> float:
        return float(self.kappa)

    @property
    def limit(self) -> tuple[Loss, float]:
        return EpsilonInsensitive(0.0), float(self.kappa)


class EpsilonInsensitive(RadialLoss):
    """max(||f - y|| - epsilon, 0), that of support vector regression (392).

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

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def check(self) -> None:
        check_number(self.epsilon, "epsilon")

    def _h(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(r - self.epsilon, 0.0)

    def _slope(self, r: np.ndarray, t: float) -> np.ndarray:
        excess = r - self.epsilon
        return np.clip(excess / t, 0.0, 1.0) if t > 0.0 else (excess > 0.0).astype(r.dtype)

    def _bend(self, r: np.ndarray, t: float) -> np.ndarray:
        excess = r - self.epsilon
        return ((excess >= 0.0) & (excess <= t)) / t if t > 0.0 else np.zeros_like(r)

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        # as an even function of s: smoothed, it has no cusp at s = 0
        return Ramp(self.epsilon, 0.0, 1.0), Ramp(-self.epsilon, -1.0, 0.0)

    def _h_conjugate(self, s: np.ndarray) -> np.ndarray:
        return inside(s - 1.0, self.epsilon * s)

    @property
    def lipschitz(self) -> float:
        return 1.0


class SquaredEpsilonInsensitive(RadialLoss):
    """max(||f - y|| - epsilon, 0)^2 (394): with epsilon = 0 twice `Squared`.

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

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def check(self) -> None:
        check_number(self.epsilon, "epsilon")

    def _h(self, r: np.ndarray) -> np.ndarray:
        return np.maximum(r - self.epsilon, 0.0) ** 2

    def _slope(self, r: np.ndarray, t: float) -> np.ndarray:
        return 2.0 * np.maximum(r - self.epsilon, 0.0) / (1.0 + 2.0 * t)

    def _bend(self, r: np.ndarray, t: float) -> np.ndarray:
        return 2.0 * (r >= self.epsilon) / (1.0 + 2.0 * t)

    def _h_conjugate(self, s: np.ndarray) -> np.ndarray:
        return s * (self.epsilon + 0.25 * s)

    @property
    def lipschitz(self) -> float:
        return float("inf")
