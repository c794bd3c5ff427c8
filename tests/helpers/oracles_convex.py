"""The slow truth about losses and what minimises them: plain formulas, L-BFGS, a log barrier.

No code of skout. A loss compares one row of predictions with one row of targets; an `Instance` is
a whole problem, whose optimum `minimise` finds in the textbook way: losses with derivatives by
SciPy, losses with kinks by Newton's method on the logarithmic barrier of their epigraph form,

    min sum_i c_i xi_i + alpha/2 ||Theta||^2   subject to   loss(f_i, y_i) <= xi_i,

whose central path at t is within nu / t of the optimum, nu the number of constraints (a
second-order cone counts twice).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit

# Losses: one row at a time -----------------------------------------------------------------------


def norm(f, y):
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(f, y, strict=True)))


def squared(f, y):
    return norm(f, y) ** 2 / 2


def huber(f, y, kappa=1.0):
    r = norm(f, y)
    return r**2 / 2 if r <= kappa else kappa * (r - kappa / 2)


def epsilon_insensitive(f, y, epsilon=0.1):
    return max(norm(f, y) - epsilon, 0.0)


def squared_epsilon_insensitive(f, y, epsilon=0.1):
    return max(norm(f, y) - epsilon, 0.0) ** 2


def pinball(f, y, tau=0.5):
    """tau (y - f) if the target is above, (1 - tau) (f - y) if it is below."""
    taus = [tau] * len(f) if isinstance(tau, float) else tau
    rows = zip(f, y, taus, strict=True)
    return math.fsum(q * (b - a) if b > a else (1 - q) * (a - b) for a, b, q in rows)


def hinge(f, y):
    return math.fsum(max(1 - a * b, 0.0) for a, b in zip(f, y, strict=True))


def squared_hinge(f, y):
    return math.fsum(max(1 - a * b, 0.0) ** 2 for a, b in zip(f, y, strict=True))


def logistic(f, y):
    margins = [a * b for a, b in zip(f, y, strict=True)]
    return math.fsum(max(-m, 0.0) + math.log1p(math.exp(-abs(m))) for m in margins)


LOSSES: dict[str, Callable[..., float]] = {
    "squared": squared,
    "huber": huber,
    "epsilon_insensitive": epsilon_insensitive,
    "squared_epsilon_insensitive": squared_epsilon_insensitive,
    "pinball": pinball,
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "logistic": logistic,
}
OF_LABELS = {"hinge", "squared_hinge", "logistic"}
KINKED = {"epsilon_insensitive", "pinball", "hinge"}


# Problems ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Instance:
    """sum_i c_i loss(A' Theta' z_i + b, y_i) + alpha/2 ||Theta||^2, with weights c of sum one."""

    Z: np.ndarray  # (n, p)
    Y: np.ndarray  # (n, d)
    loss: str
    alpha: float
    params: dict[str, Any] = field(default_factory=dict)
    weights: np.ndarray | None = None  # (n,)
    root: np.ndarray | None = None  # A, of shape (r, d)
    fit_intercept: bool = False

    @property
    def c(self):
        w = np.ones(len(self.Z)) if self.weights is None else self.weights
        return w / math.fsum(w)

    @property
    def A(self):
        return np.eye(self.Y.shape[1]) if self.root is None else self.root

    def objective(self, theta, intercept):
        F = self.Z @ theta @ self.A + intercept
        loss = functools.partial(LOSSES[self.loss], **self.params)
        each = [c * loss(f, y) for c, f, y in zip(self.c, F, self.Y, strict=True)]
        return math.fsum(each) + self.alpha / 2 * float(np.sum(theta**2))

    def jacobian(self):
        """Derivatives of F in (Theta, b), shape (n, d, size)."""
        (n, d), p, r = self.Y.shape, self.Z.shape[1], len(self.A)
        slopes = np.einsum("ik,sj->ijks", self.Z, self.A).reshape(n, d, p * r)
        ones = np.broadcast_to(np.eye(d), (n, d, d))
        return np.concatenate([slopes, ones], axis=2) if self.fit_intercept else slopes

    def split(self, x):
        """Theta and b, of a vector that begins with them."""
        p, r, d = self.Z.shape[1], len(self.A), self.Y.shape[1]
        b = x[p * r : p * r + d] if self.fit_intercept else np.zeros(d)
        return x[: p * r].reshape(p, r), b


@dataclass(frozen=True)
class Minimum:
    """The optimum is at most `upper`, and that up to `error`."""

    upper: float
    error: float
    theta: np.ndarray
    intercept: np.ndarray


def minimise(instance: Instance) -> Minimum:
    used = instance.c > 0
    some = replace(instance, Z=instance.Z[used], Y=instance.Y[used], weights=instance.c[used])
    x, error = barrier(some) if instance.loss in KINKED else descent(some)
    theta, intercept = instance.split(x)
    return Minimum(instance.objective(theta, intercept), error, theta, intercept)


# Losses with derivatives: SciPy ------------------------------------------------------------------


def derivative(instance, F):
    """Value and gradient of each row's loss."""
    R, Y, params = F - instance.Y, instance.Y, instance.params
    r = np.maximum(np.sqrt((R**2).sum(axis=1)), 1e-300)
    if instance.loss == "squared":
        return r**2 / 2, R
    if instance.loss == "huber":
        kappa = params.get("kappa", 1.0)
        value = np.where(r <= kappa, r**2 / 2, kappa * (r - kappa / 2))
        return value, R * (np.minimum(r, kappa) / r)[:, None]
    if instance.loss == "squared_epsilon_insensitive":
        over = np.maximum(r - params.get("epsilon", 0.1), 0.0)
        return over**2, R * (2 * over / r)[:, None]
    if instance.loss == "squared_hinge":
        short = np.maximum(1 - Y * F, 0.0)
        return (short**2).sum(axis=1), -2 * Y * short
    if instance.loss == "logistic":
        return np.logaddexp(0.0, -Y * F).sum(axis=1), -Y * expit(-Y * F)
    raise ValueError(instance.loss)


def descent(instance):
    J, c = instance.jacobian(), instance.c
    d, size = J.shape[1:]
    penalty = instance.alpha * (np.arange(size) < size - d * instance.fit_intercept)

    def objective(x):
        value, G = derivative(instance, J @ x)
        gradient = np.einsum("i,ij,ijk->k", c, G, J) + penalty * x
        return c @ value + penalty @ x**2 / 2, gradient

    options = {"ftol": 1e-16, "gtol": 1e-13, "maxiter": 20000, "maxfun": 40000, "maxcor": 40}
    x = np.zeros(size)
    for _ in range(3):  # a new start forgets the curvature of another region
        x = scipy_minimize(objective, x, jac=True, method="L-BFGS-B", options=options).x
    return x, 1e-9 * objective(x)[0]


# Losses with kinks: the barrier of the epigraph form ---------------------------------------------


def barrier(instance, accuracy=1e-9):
    """Follow the central path until the duality gap is `accuracy` times the objective."""
    J, c = instance.jacobian(), instance.c
    linear, cones = epigraph(instance, J)
    size, m = J.shape[2], linear[0].shape[1] - J.shape[2]
    cost = np.concatenate([np.zeros(size), np.repeat(c, m // len(c))])
    p_r = size - instance.Y.shape[1] * instance.fit_intercept
    penalty = np.concatenate([np.full(p_r, instance.alpha), np.zeros(size + m - p_r)])
    start = 2.0 + 2.0 * np.abs(instance.Y).sum(axis=1).max()  # a slack that is surely enough
    x = np.concatenate([np.zeros(size), np.full(m, start)])
    degree = len(linear[1]) + 2 * (0 if cones is None else len(cones[1]))
    t = 1.0
    while True:
        x = centre(x, t, cost, penalty, linear, cones)
        least = cost @ x + penalty @ x**2 / 2
        if degree / t <= accuracy * least:
            return x, 2 * degree / t
        t *= 8.0


def epigraph(instance, J):
    """Constraints L x + l > 0, and M x + m in second-order cones; x = (Theta, b, xi)."""
    (n, d), Y, size = instance.Y.shape, instance.Y, J.shape[2]
    m = n if instance.loss == "epsilon_insensitive" else n * d
    rows, slack = J.reshape(n * d, size), np.eye(m)
    y = Y.ravel()
    if instance.loss == "hinge":  # xi >= 0, xi >= 1 - y f
        L = np.block([[np.zeros((m, size)), slack], [y[:, None] * rows, slack]])
        return (L, np.concatenate([np.zeros(m), -np.ones(m)])), None
    if instance.loss == "pinball":  # xi >= tau (y - f), xi >= (1 - tau) (f - y)
        tau = np.broadcast_to(instance.params.get("tau", 0.5), (n, d)).ravel()
        L = np.block([[tau[:, None] * rows, slack], [-(1 - tau)[:, None] * rows, slack]])
        return (L, np.concatenate([-tau * y, (1 - tau) * y])), None
    # xi >= 0, xi + epsilon >= ||f - y||
    L = np.hstack([np.zeros((m, size)), slack])
    M = np.zeros((n, d + 1, size + n))
    M[:, 0, size:] = np.eye(n)
    M[:, 1:, :size] = J
    offset = np.column_stack([np.full(n, instance.params.get("epsilon", 0.1)), -Y])
    return (L, np.zeros(m)), (M, offset)


def centre(x, t, cost, penalty, linear, cones):
    """Minimise t (cost + penalty) - sum of log of the constraints by damped Newton steps."""

    def value(x):
        w, q = slacks(x, linear, cones)
        if np.min(w) <= 0 or (len(q) and np.min(q) <= 0):
            return np.inf
        return t * (cost @ x + penalty @ x**2 / 2) - np.log(w).sum() - np.log(q).sum()

    for _ in range(200):
        gradient, hessian = barrier_derivatives(x, linear, cones)
        gradient = gradient + t * (cost + penalty * x)
        hessian = hessian + t * np.diag(penalty)
        # ties leave directions without curvature, or with none beyond rounding
        step = -np.linalg.solve(hessian + 1e-14 * np.diag(np.diag(hessian)), gradient)
        decrement = -gradient @ step
        if decrement < 1e-8:
            break
        now, length = value(x), 1.0
        while not value(x + length * step) <= now - 0.1 * length * decrement and length > 1e-12:
            length *= 0.5
        if length <= 1e-12:
            break
        x = x + length * step
    return x


def slacks(x, linear, cones):
    w = linear[0] @ x + linear[1]
    if cones is None:
        return w, np.ones(0)
    W = cones[0] @ x + cones[1]  # (n, d + 1)
    side = np.where(W[:, 0] > 0, 1.0, -1.0)
    length = np.sqrt((W[:, 1:] ** 2).sum(axis=1))
    return w, side * (np.abs(W[:, 0]) - length) * (np.abs(W[:, 0]) + length)


def barrier_derivatives(x, linear, cones):
    """Of - sum log w - sum log q, where q = W J W with J = diag(1, -1, ..., -1)."""
    L, (w, q) = linear[0], slacks(x, linear, cones)
    gradient, hessian = -L.T @ (1 / w), (L / w[:, None] ** 2).T @ L
    if cones is None:
        return gradient, hessian
    M, sign = cones[0], np.append(1.0, -np.ones(cones[1].shape[1] - 1))
    V = sign * (M @ x + cones[1]) * 2 / q[:, None]  # grad q / q
    B = np.einsum("ia,ib->iab", V, V) - np.einsum("i,ab->iab", 2 / q, np.diag(sign))
    flat = M.reshape(-1, len(x))
    gradient = gradient - flat.T @ V.ravel()
    return gradient, hessian + flat.T @ (B @ M).reshape(-1, len(x))
