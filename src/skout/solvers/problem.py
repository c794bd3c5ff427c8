"""The convex problem of a kernel machine, and its dual.

    P(Theta, b) = sum_i c_i loss(f_i, y_i) + alpha/2 ||Theta||^2,   f_i = A' Theta' z_i + b   (3.11)

with weights c_i that sum to one and A'A = M, the matrix of a decomposable kernel k M. Its dual is

    D(G) = - sum_i c_i loss*(g_i, y_i) - ||sum_i c_i z_i g_i' A'||^2 / 2 alpha,

where sum_i c_i g_i = 0 if there is an intercept. Any G with a finite conjugate bounds the optimum
from below (3.12), so P - D bounds how far a solution is above it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._numerics.arrays import constant, is_tensor, namespace, numpy_of, positions
from .._numerics.typing import Array, Ints
from ..basis.moments import check_outputs_observed, outputs_by_rows
from ..losses import Loss
from ..rows import Source
from .design import DesignMatrix


@dataclass
class ConvexProblem:
    """What is minimized. Arrays are NumPy's, or tensors on the device where Z is.

    Attributes
    ----------
    Z : Design, shape (n, p)
    Y : array of shape (n, d)
    weights : array of shape (n,)
        Summing to one.
    loss : Loss
    alpha : float
    root : array of shape (r, d), optional
        A, with orthogonal rows and A'A = M; None is the identity.
    fit_intercept : bool
    """

    Z: DesignMatrix
    Y: Array
    weights: Array
    loss: Loss
    alpha: float
    root: Array | None = None
    fit_intercept: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Theta."""
        return self.Z.shape[1], self.Y.shape[1] if self.root is None else len(self.root)

    def mix(self, B: Array) -> Array:
        """Return B A."""
        return B if self.root is None else B @ self.root

    def unmix(self, B: Array) -> Array:
        """Return B A'."""
        return B if self.root is None else B @ self.root.T

    def predict(self, theta: Array, intercept: Array) -> Array:
        """Return F = Z Theta A + b."""
        return self.mix(self.Z.product(theta)) + intercept

    def primal(self, theta: Array, F: Array) -> float:
        """Return P, given F."""
        loss = self.weights @ self.loss.value(F, self.Y)
        return float(loss + 0.5 * self.alpha * (theta * theta).sum())

    def pull(self, G: Array) -> Array:
        """Return sum_i c_i z_i g_i' A', the gradient of sum_i c_i <g_i, f_i> in Theta."""
        return self.unmix(self.Z.adjoint(self.weights[:, None] * G))

    def dual(self, G: Array, R: Array | None = None) -> float:
        """Return D of any G in the domain of the conjugate; R = pull(G), where it is known."""
        if self.fit_intercept:
            G, R = balanced(G, self.weights), None
        R = self.pull(G) if R is None else R
        conjugate = self.weights @ self.loss.conjugate(G, self.Y)
        return float(-conjugate - 0.5 * (R * R).sum() / self.alpha)

    def take(self, index: Array) -> ConvexProblem:
        """Return the problem of some of the rows."""
        index = positions(index, self.Y)
        weights = self.weights[index] / self.weights[index].sum()
        return replace(self, Z=self.Z.take(index), Y=self.Y[index], weights=weights)


@dataclass(frozen=True)
class OutputPart:
    """The outputs of a problem, `columns`, that have the same rows; rows are None for all."""

    whole: ConvexProblem
    columns: slice | Ints
    rows: np.ndarray | None = None

    def problem(
        self, chosen: np.ndarray | None = None, *, observed: bool = True
    ) -> ConvexProblem | None:
        """Return the problem of these outputs on their rows, or on those that are `chosen`.

        Of these only rows whose outputs are `observed`, unless it is to predict the others too.
        None where no row of weight is left.
        """
        if self.rows is None:
            return self.whole if chosen is None else self.whole.take(chosen)
        rows = self.rows if chosen is None else chosen
        if chosen is not None and observed:
            rows = np.intersect1d(chosen, self.rows)
        if not self.whole.weights[positions(rows, self.whole.weights)].any():
            return None
        part = self.whole.take(rows)
        loss, levels = part.loss, np.asarray(getattr(part.loss, "tau", 0.0))
        if levels.size > 1:  # one for each output
            kind: Any = type(loss)
            loss = kind(levels[self.columns])
        return replace(part, Y=part.Y[:, positions(self.columns, part.Y)], loss=loss)

    def of(self, rows: Source) -> Source:
        """Return the rows that have these outputs."""
        return rows if self.rows is None else rows.subset(self.rows)


def parts_of(problem: ConvexProblem, targets: np.ndarray) -> list[OutputPart]:
    """Return the parts of a problem whose targets, here with NaN, may be missing."""
    if not np.isnan(targets).any():
        return [OutputPart(problem, slice(None))]
    observed = constant(~np.isnan(targets), problem.weights) * problem.weights[:, None]
    check_outputs_observed(observed.sum(0))
    return [OutputPart(problem, columns, rows) for columns, rows in outputs_by_rows(targets)]


def check_runs(loss: Loss, Y: Array) -> None:
    """Raise if a loss, which a user may have written, does not take tensors where Y are some."""
    Y = Y[:2]
    if not is_tensor(Y):
        return
    problem: Exception | None = None
    try:
        pairs = zip(_tried(loss, Y), _tried(loss, numpy_of(Y)), strict=True)
        same = all(is_tensor(a) and np.allclose(numpy_of(a), b, rtol=1e-6) for a, b in pairs)
    except Exception as error:
        problem, same = error, False
    if not same:
        raise ValueError(
            f"loss={loss!r} does not run on {Y.device}: write its formulas with the functions of "
            "skout.kernels.namespace, which NumPy and PyTorch share, or compute on the CPU."
        ) from problem


def _tried(loss: Loss, Y: Array) -> list[Array]:
    """Return value, gradient, conjugate and curvature of a loss at some predictions of Y."""
    F = 0.5 * Y
    values = [loss.value(F, Y), loss.gradient(F, Y), loss.conjugate(0.0 * Y, Y)]
    return [*values, loss.curvature(F, Y).diagonal] if loss.smooth else values


def balanced(G: Array, weights: Array) -> Array:
    """Scale the positive or the negative entries of each column down until its sum is zero.

    The domains of the conjugates contain 0 and, with a point, all that lie between it and 0.
    """
    xp = namespace(G)
    up, down = weights @ xp.clip(G, 0.0, None), weights @ xp.clip(-G, 0.0, None)
    least = xp.minimum(up, down)
    shrink_up, shrink_down = (
        xp.where(part > 0.0, least, 1.0) / xp.where(part > 0.0, part, 1.0) for part in (up, down)
    )
    return xp.where(G > 0.0, G * shrink_up, G * shrink_down)
