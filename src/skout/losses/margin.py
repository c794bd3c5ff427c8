"""Losses of the margin, for classification."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.special import entr, expit, log_expit

from .base import Curvature, Loss, Ramp, inside

__all__ = ["Hinge", "Logistic", "MarginLoss", "SquaredHinge"]


class MarginLoss(Loss):
    """Sum over outputs of h(y f), y = -1 or 1: several outputs are one class against the rest."""

    def variable(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return Y * F

    def along(self, dF: np.ndarray, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return Y * dF

    def lift(self, slope: np.ndarray, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return Y * slope

    def lift_curvature(
        self, slope: np.ndarray, bend: np.ndarray, F: np.ndarray, Y: np.ndarray
    ) -> Curvature:
        return Curvature(bend)

    @abstractmethod
    def _h_conjugate(self, a: np.ndarray) -> np.ndarray: ...

    def conjugate(self, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self._h_conjugate(Y * G).sum(axis=1)

    def clip(self, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
        low = -self.lipschitz if np.isfinite(self.lipschitz) else None
        return Y * np.clip(Y * G, low, 0.0)


class Hinge(MarginLoss):
    """max(1 - y f, 0), that of support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Hinge
    >>> Hinge().value(np.array([[0.25], [2.0]]), np.ones((2, 1)))
    array([0.75, 0.  ])
    """

    def _h(self, s: np.ndarray) -> np.ndarray:
        return np.maximum(1.0 - s, 0.0)

    def _slope(self, s: np.ndarray, t: float) -> np.ndarray:
        return np.clip((s - 1.0) / t, -1.0, 0.0) if t > 0.0 else -(s < 1.0).astype(s.dtype)

    def _bend(self, s: np.ndarray, t: float) -> np.ndarray:
        return ((s >= 1.0 - t) & (s <= 1.0)) / t if t > 0.0 else np.zeros_like(s)

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        return (Ramp(1.0, -1.0, 0.0),)

    def _h_conjugate(self, a: np.ndarray) -> np.ndarray:
        return inside(np.maximum(a, -1.0 - a), a)

    @property
    def lipschitz(self) -> float:
        return 1.0


class SquaredHinge(MarginLoss):
    """max(1 - y f, 0)^2.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([[0.5], [2.0]]), np.ones((2, 1)))
    array([0.25, 0.  ])
    """

    smooth = True

    def _h(self, s: np.ndarray) -> np.ndarray:
        return np.maximum(1.0 - s, 0.0) ** 2

    def _slope(self, s: np.ndarray, t: float) -> np.ndarray:
        return 2.0 * np.minimum(s - 1.0, 0.0) / (1.0 + 2.0 * t)

    def _bend(self, s: np.ndarray, t: float) -> np.ndarray:
        return 2.0 * (s <= 1.0) / (1.0 + 2.0 * t)

    def _h_conjugate(self, a: np.ndarray) -> np.ndarray:
        return inside(a, a * (1.0 + 0.25 * a))

    @property
    def lipschitz(self) -> float:
        return float("inf")


class Logistic(MarginLoss):
    """log(1 + exp(-y f)).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Logistic
    >>> Logistic().value(np.zeros((1, 1)), np.ones((1, 1))).round(4)
    array([0.6931])
    """

    smooth = True

    def _h(self, s: np.ndarray) -> np.ndarray:
        return -log_expit(s)

    def _slope(self, s: np.ndarray, t: float) -> np.ndarray:
        return -expit(-_logistic_prox(s, t))

    def _bend(self, s: np.ndarray, t: float) -> np.ndarray:
        q = _logistic_prox(s, t)
        bend = expit(q) * expit(-q)
        return bend / (1.0 + t * bend)

    def _h_conjugate(self, a: np.ndarray) -> np.ndarray:
        chance = np.clip(-a, 0.0, 1.0)
        return inside(np.maximum(a, -1.0 - a), -entr(chance) - entr(1.0 - chance))

    @property
    def lipschitz(self) -> float:
        return 1.0


def _logistic_prox(s: np.ndarray, t: float) -> np.ndarray:
    """Solve q - t expit(-q) = s. The left side is concave-convex about 0: Newton in a bracket."""
    if t == 0.0:
        return s
    low, high = s, s + t
    q = s + t * expit(-s) / (1.0 + t * expit(s) * expit(-s))
    for k in range(120):
        # every third step halves the bracket: Newton's method alone may run in circles
        inside = (q > low) & (q < high) & (k % 3 != 2)
        q = np.where(inside, q, 0.5 * (low + high))
        excess = q - t * expit(-q) - s
        low, high = np.where(excess < 0.0, q, low), np.where(excess > 0.0, q, high)
        move = excess / (1.0 + t * expit(q) * expit(-q))
        q = q - move
        if np.all(np.abs(move) <= 4e-16 * (1.0 + np.abs(q))):
            break
    return np.clip(q, s, s + t)
