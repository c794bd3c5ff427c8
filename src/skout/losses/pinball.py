"""The loss of quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._numerics.arrays import constant, namespace, row_dots
from .base import Curvature, Loss, Ramp, inside

__all__ = ["Pinball"]


class Pinball(Loss):
    """Sum over outputs of tau (y - f) where y > f, (1 - tau) (f - y) elsewhere (2.128).

    Its minimiser is the quantile of level tau. (The thesis's 2.128 has tau and 1 - tau swapped,
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

    def __init__(self, tau: Any = 0.5) -> None:
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

    def variable(self, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return F - Y

    def along(self, dF: np.ndarray, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return dF

    def lift(self, slope: np.ndarray, F: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return slope

    def lift_curvature(
        self, slope: np.ndarray, bend: np.ndarray, F: np.ndarray, Y: np.ndarray
    ) -> Curvature:
        return Curvature(bend)

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        return (Ramp(0.0, *self._slopes(np.empty(0))),)

    def _slopes(self, like: np.ndarray) -> tuple[Any, Any]:
        """Return the slopes below and above 0, one for each output."""
        tau = constant(self.tau, like)
        return -tau, 1.0 - tau

    def _h(self, s: np.ndarray) -> np.ndarray:
        low, high = self._slopes(s)
        return namespace(s).maximum(high * s, low * s)

    def _slope(self, s: np.ndarray) -> np.ndarray:
        (low, high), xp = self._slopes(s), namespace(s)
        return xp.where(s > 0.0, high, xp.where(s < 0.0, low, 0.0))

    def conjugate(self, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
        (low, high), xp = self._slopes(G), namespace(G)
        return inside(xp.amax(xp.maximum(G - high, low - G), axis=1), row_dots(G, Y))

    def clip(self, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
        low, high = self._slopes(G)
        return namespace(G).clip(G, low, high)

    @property
    def lipschitz(self) -> float:
        tau = np.asarray(self.tau)
        return float(np.maximum(tau, 1.0 - tau).max())
