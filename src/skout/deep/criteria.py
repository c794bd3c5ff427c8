"""Losses that an output kernel induces, for networks: c(||f||^2 - 2 f'z(y) + k(y, y)) (5.11)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from ..losses import LOSSES, RadialLoss, as_loss

__all__ = ["BatchLoss", "KernelLoss"]

# Distances below this have gradient 0, not 0/0.
_TINY = 1e-12


class BatchLoss(nn.Module, ABC):
    """A loss that is a mean over the rows of a batch."""

    @abstractmethod
    def values(self, prediction: Tensor, target: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the loss of each row."""

    def forward(
        self,
        prediction: Tensor,
        target: Tensor,
        residual: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean loss of a batch.

        Parameters
        ----------
        prediction, target : Tensor of shape (b, p)
        residual : Tensor of shape (b,), optional
            k(y, y) - ||z(y)||^2; zero if not given.
        weights : Tensor of shape (b,), optional
        """
        values = self.values(prediction, target, residual)
        return values.mean() if weights is None else (weights * values).sum() / weights.sum()


class KernelLoss(BatchLoss):
    """The distance of a prediction to an object in the output feature space, under a loss.

    With coordinates f and z(y) in an orthonormal basis, ||f - psi(y)||^2 = ||f - z(y)||^2 + rho(y),
    where rho(y) = k(y, y) - ||z(y)||^2 is what the basis cannot see of y. The loss is h of the
    root of that, with h from `skout.losses`: 1/2 r^2, Huber (396), epsilon-insensitive (392), its
    square (394), or your own. For the squared loss rho is a constant.

    Parameters
    ----------
    loss : Loss or str, default "squared"
        A loss of the norm: "squared", "huber", "epsilon_insensitive",
        "squared_epsilon_insensitive" or a `RadialLoss`, whose h takes tensors.

    Examples
    --------
    >>> import torch
    >>> from skout.deep import KernelLoss
    >>> f, z, rho = torch.zeros(1, 2), torch.tensor([[3.0, 0.0]]), torch.tensor([16.0])
    >>> float(KernelLoss("squared")(f, z, rho))  # half of 9 + 16
    12.5
    """

    def __init__(self, loss: Any = "squared") -> None:
        super().__init__()
        self.loss = as_loss(loss)
        if not isinstance(self.loss, RadialLoss):
            allowed = [kind.__name__ for kind in LOSSES.values() if issubclass(kind, RadialLoss)]
            raise TypeError(
                "A network's loss must be one of the distance in the output space: "
                f"{', '.join(allowed)} or another RadialLoss. Got {self.loss!r} instead."
            )
        _check_tensors(self.loss)

    def values(self, prediction: Tensor, target: Tensor, residual: Tensor | None = None) -> Tensor:
        squared = (prediction.float() - target).square().sum(dim=1)
        squared = squared if residual is None else squared + residual
        return self.loss._h(squared.clamp_min(_TINY).sqrt())


def _check_tensors(loss: RadialLoss) -> None:
    """Raise unless h can be differentiated by PyTorch."""
    try:
        loss._h(torch.ones(2, requires_grad=True)).sum().backward()
    except (TypeError, RuntimeError, AttributeError) as error:
        raise TypeError(
            f"A network's loss must take tensors: write {type(loss).__name__}._h with operators "
            "and skout.kernels.namespace(r), not with numpy."
        ) from error
