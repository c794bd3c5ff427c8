"""Convex losses, by name in `LOSSES`."""

from __future__ import annotations

from typing import TypeAlias

from sklearn.base import clone

from .._numerics.validation import Registry, resolve
from .base import Curvature, Loss, Ramp
from .radial import EpsilonInsensitive, Huber, RadialLoss, Squared, SquaredEpsilonInsensitive
from .separable import Hinge, Logistic, MarginLoss, Pinball, SquaredHinge

__all__ = [
    "LOSSES",
    "Curvature",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MarginLoss",
    "Pinball",
    "RadialLoss",
    "Ramp",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "as_loss",
]

#: Names accepted wherever a loss is, and scikit-learn's for the same.
LOSSES: Registry[type[Loss]] = Registry(
    squared_error="squared", quantile="pinball", log_loss="logistic"
)
LOSSES |= {
    "squared": Squared,
    "huber": Huber,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "pinball": Pinball,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
}

#: What is accepted wherever a loss is, see `as_loss`.
LossLike: TypeAlias = Loss | str


def as_loss(loss: LossLike) -> Loss:
    """Return a copy of a loss, or the loss of a name, with its parameters checked.

    Parameters
    ----------
    loss : Loss or str
        A name is one of `LOSSES`.

    Examples
    --------
    >>> from skout.losses import as_loss
    >>> as_loss("huber")
    Huber()
    """
    made = resolve(loss, LOSSES, "loss")() if isinstance(loss, str) else loss
    if not isinstance(made, Loss):
        raise TypeError(f"loss must be a name or a skout.losses object. Got {loss!r} instead.")
    made = clone(made)
    made.check()
    return made
