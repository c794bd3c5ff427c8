"""Convex losses, by name in `LOSSES`."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from .._numerics.validation import Registry, resolve
from .base import Curvature, Loss, Ramp
from .margin import Hinge, Logistic, MarginLoss, SquaredHinge
from .pinball import Pinball
from .radial import EpsilonInsensitive, Huber, RadialLoss, Squared, SquaredEpsilonInsensitive

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
LOSSES: Registry = Registry(squared_error="squared", quantile="pinball", log_loss="logistic")
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


def as_loss(loss: Any) -> Loss:
    """Return a loss, given one or its name, with its parameters checked.

    Parameters
    ----------
    loss : Loss or str

    Examples
    --------
    >>> from skout.losses import as_loss
    >>> as_loss("huber")
    Huber()
    """
    if isinstance(loss, str):
        loss = resolve(loss, LOSSES, "loss")()
    elif not isinstance(loss, Loss):
        raise TypeError(f"loss must be a name or a skout.losses object. Got {loss!r} instead.")
    loss = clone(loss)
    loss.check()
    return loss
