"""Losses of networks: those that an output kernel induces, c(||f||^2 - 2 f'z(y) + k(y, y)) (5.11),
and one of lists of candidates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..losses import LOSSES, Loss, RadialLoss, as_loss

# Squared distances below this have gradient 0, not 0/0.
_TINY = 1e-12
# The score of an output that is another copy of the right one: exp of it is 0.
_EXCLUDED = -1e9


class BatchLoss(nn.Module, ABC):
    """Base class of losses that are means over the rows of a batch."""

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
        """Return the mean loss of predictions and targets of shape (b, p).

        `residual`, shape (b,), is k(y, y) - ||z(y)||^2, zero if not given.
        """
        values = self.values(prediction, target, residual)
        return values.mean() if weights is None else (weights * values).sum() / weights.sum()


class KernelLoss(BatchLoss):
    """The distance of a prediction to an object in the output feature space, under a loss.

    With coordinates f and z(y) in an orthonormal basis, ||f - psi(y)||^2 = ||f - z(y)||^2 + rho(y),
    where rho(y) = k(y, y) - ||z(y)||^2 is the squared distance of psi(y) to the span of the basis.
    The loss is h of the root of that, with h from `skout.losses`: 1/2 r^2, Huber (396),
    epsilon-insensitive (392), its square (394), or your own. With the squared loss rho only adds a
    constant.

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

    def __init__(self, loss: Loss | str = "squared") -> None:
        super().__init__()
        self.loss: Loss = as_loss(loss)
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
        distance: Any = squared.clamp_min(_TINY).sqrt()  # a loss is typed as one of arrays
        values: Any = self.loss._h(distance)
        out: Tensor = values
        return out


def _check_tensors(loss: RadialLoss) -> None:
    """Raise unless h can be differentiated by PyTorch."""
    try:
        residual: Any = torch.ones(2, requires_grad=True)
        loss._h(residual).sum().backward()
    except (TypeError, RuntimeError, AttributeError) as error:
        raise TypeError(
            f"A network's loss must take tensors: write {type(loss).__name__}._h with operators "
            "and skout.kernels.namespace(r), not with numpy."
        ) from error


class ListwiseLoss(BatchLoss):
    """Minus the log of the softmax of the right output among all outputs of a batch.

    The score of output y for a prediction f is logit_scale (<f, g(z(y))> - k(y, y) / 2), where
    g(z) = z + C relu(A z + b) + c is trained, and so is logit_scale. C and c are 0 at first, so
    that candidates are ranked as by DSOKR. In training, `negatives` rows of `bank`, drawn at random
    for each batch, are further candidates.

    Examples
    --------
    >>> import torch
    >>> from skout.deep.criteria import ListwiseLoss
    >>> z = torch.eye(2)  # two outputs, predicted perfectly: log(1 + exp(-1)) each
    >>> round(ListwiseLoss(2, hidden=3, logit_scale=1.0)(z, z).item(), 4)
    0.3133
    """

    #: coordinates and residuals of outputs that negatives are drawn from
    bank: tuple[Tensor, Tensor | None]

    enter: nn.Linear
    leave: nn.Linear

    def __init__(self, n_outputs: int, hidden: int, logit_scale: float, negatives: int = 0) -> None:
        super().__init__()
        self.negatives = negatives
        self.enter, self.leave = nn.Linear(n_outputs, hidden), nn.Linear(hidden, n_outputs)
        for parameter in self.leave.parameters():
            nn.init.zeros_(parameter)
        self.log_scale: nn.Parameter = nn.Parameter(torch.tensor(math.log(logit_scale)))

    def outputs(self, coordinates: Tensor) -> Tensor:
        """Return g of the coordinates of outputs."""
        out: Tensor = coordinates + self.leave(self.enter(coordinates).relu())
        return out

    def values(self, prediction: Tensor, target: Tensor, residual: Tensor | None = None) -> Tensor:
        outputs, norms = target, _norms(target, residual)
        if self.training and self.negatives:
            rows = torch.randint(len(self.bank[0]), (self.negatives,), device=target.device)
            more, unseen = (None if part is None else part[rows] for part in self.bank)
            assert more is not None
            outputs, norms = torch.cat([target, more]), torch.cat([norms, _norms(more, unseen)])
        S = self.log_scale.exp() * (prediction.float() @ self.outputs(outputs).T - 0.5 * norms)
        # equal outputs are not negatives of each other; 1e-6 is well above rounding in float32
        again = torch.cdist(target, outputs).square() <= 1e-6 * norms[: len(target), None]
        S = S.masked_fill(again.fill_diagonal_(False), _EXCLUDED)
        return cross_entropy(S, torch.arange(len(S), device=S.device), reduction="none")


def _norms(coordinates: Tensor, residual: Tensor | None) -> Tensor:
    """Return k(y, y) = ||z(y)||^2 + residual of each row."""
    norms = coordinates.square().sum(dim=1)
    return norms if residual is None else norms + residual
