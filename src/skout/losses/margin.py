"""Losses of the margin, for classification."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .._numerics.namespace import cast, namespace, special
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
        return Y * namespace(G).clip(Y * G, low, 0.0)


class Hinge(MarginLoss):
    """max(1 - y f, 0), that of support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.losses import Hinge
    >>> Hinge().value(np.array([[0.25], [2.0]]), np.ones((2, 1)))
    array([0.75, 0.  ])
    """

    lipschitz = 1.0
    ramps = (Ramp(1.0, -1.0, 0.0),)

    def _h(self, s: np.ndarray) -> np.ndarray:
        return namespace(s).clip(1.0 - s, 0.0, None)

    def _slope(self, s: np.ndarray) -> np.ndarray:
        return -cast(s < 1.0, s.dtype)

    def _h_conjugate(self, a: np.ndarray) -> np.ndarray:
        return inside(namespace(a).maximum(a, -1.0 - a), a)


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
    lipschitz = float("inf")

    def _h(self, s: np.ndarray) -> np.ndarray:
        return namespace(s).clip(1.0 - s, 0.0, None) ** 2

    def _slope(self, s: np.ndarray) -> np.ndarray:
        return 2.0 * namespace(s).clip(s - 1.0, None, 0.0)

    def _bend(self, s: np.ndarray) -> np.ndarray:
        return 2.0 * cast(s <= 1.0, s.dtype)

    def _h_conjugate(self, a: np.ndarray) -> np.ndarray:
        return inside(a, a * (1.0 + 0.25 * a))


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
    lipschitz = 1.0

    def _h(self, s: np.ndarray) -> np.ndarray:
        xp = namespace(s)
        return xp.clip(-s, 0.0, None) + xp.log1p(xp.exp(-xp.abs(s)))

    def _slope(self, s: np.ndarray) -> np.ndarray:
        return -special(s).expit(-s)

    def _bend(self, s: np.ndarray) -> np.ndarray:
        expit = special(s).expit
        return expit(s) * expit(-s)

    def _h_conjugate(self, a: np.ndarray) -> np.ndarray:
        xp, entr = namespace(a), special(a).entr
        chance = xp.clip(-a, 0.0, 1.0)
        return inside(xp.maximum(a, -1.0 - a), -entr(chance) - entr(1.0 - chance))
