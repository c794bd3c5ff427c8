"""The convex problem of a kernel machine, and its dual.

    P(Theta, b) = sum_i c_i loss(f_i, y_i) + alpha/2 ||Theta||^2,   f_i = A' Theta' z_i + b   (3.11)

with weights c_i that sum to one and A'A = M, the matrix of a decomposable kernel k M. Its dual is

    D(G) = - sum_i c_i loss*(g_i, y_i) - ||sum_i c_i z_i g_i' A'||^2 / 2 alpha,

where sum_i c_i g_i = 0 if there is an intercept. Any G with a finite conjugate bounds the optimum
from below (3.12), so P - D bounds how far a solution is above it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..losses import Loss
from .design import Design

__all__ = ["Problem", "balanced"]


@dataclass
class Problem:
    """What is minimised.

    Attributes
    ----------
    Z : Design, shape (n, p)
    Y : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
        Summing to one.
    loss : Loss
    alpha : float
    root : ndarray of shape (r, d), optional
        A, with orthogonal rows and A'A = M; None is the identity.
    fit_intercept : bool
    """

    Z: Design
    Y: np.ndarray
    weights: np.ndarray
    loss: Loss
    alpha: float
    root: np.ndarray | None = None
    fit_intercept: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Theta."""
        return self.Z.shape[1], self.Y.shape[1] if self.root is None else len(self.root)

    def mix(self, B: np.ndarray) -> np.ndarray:
        """Return B A."""
        return B if self.root is None else B @ self.root

    def unmix(self, B: np.ndarray) -> np.ndarray:
        """Return B A'."""
        return B if self.root is None else B @ self.root.T

    def predict(self, theta: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return F = Z Theta A + b."""
        return self.mix(self.Z.product(theta)) + intercept

    def primal(self, theta: np.ndarray, F: np.ndarray) -> float:
        """Return P, given F."""
        loss = self.weights @ self.loss.value(F, self.Y)
        return float(loss + 0.5 * self.alpha * np.sum(theta * theta))

    def pull(self, G: np.ndarray) -> np.ndarray:
        """Return sum_i c_i z_i g_i' A', the gradient of sum_i c_i <g_i, f_i> in Theta."""
        return self.unmix(self.Z.adjoint(self.weights[:, None] * G))

    def dual(self, G: np.ndarray, R: np.ndarray | None = None) -> float:
        """Return D of any G in the domain of the conjugate; R = pull(G), where it is known."""
        if self.fit_intercept:
            G, R = balanced(G, self.weights), None
        R = self.pull(G) if R is None else R
        conjugate = self.weights @ self.loss.conjugate(G, self.Y)
        return float(-conjugate - 0.5 * np.sum(R * R) / self.alpha)

    def take(self, index: np.ndarray) -> Problem:
        """Return the problem of some of the rows."""
        weights = self.weights[index] / self.weights[index].sum()
        return replace(self, Z=self.Z.take(index), Y=self.Y[index], weights=weights)


def balanced(G: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Scale the positive or the negative entries of each column down until its sum is zero.

    The domains of the conjugates contain 0 and, with a point, all that lie between it and 0.
    """
    up = weights @ np.maximum(G, 0.0)
    down = weights @ np.maximum(-G, 0.0)
    least = np.minimum(up, down)
    shrink_up = np.divide(least, up, out=np.ones_like(up), where=up > 0.0)
    shrink_down = np.divide(least, down, out=np.ones_like(up), where=down > 0.0)
    return np.where(G > 0.0, G * shrink_up, G * shrink_down)
