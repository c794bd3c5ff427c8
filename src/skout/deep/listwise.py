"""A network and a map of its outputs, trained together by a loss of lists of candidates."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .._numerics.validation import check_number, check_rng
from .criteria import BatchLoss
from .training import Trainer, Training

__all__ = ["ListwiseLoss", "train_together"]

_ALONE = -1e9  # the score of an output that is another copy of the right one


class ListwiseLoss(BatchLoss):
    """Minus the log of the softmax of the right output among all outputs of a batch.

    The score of output y for a prediction f is heat (<f, g(z(y))> - k(y, y) / 2), where
    g(z) = z + C relu(A z + b) + c is trained, and so is the heat. C and c are 0 at first, which
    makes it the score that candidates of DSOKR are ranked by.

    Examples
    --------
    >>> import torch
    >>> from skout.deep.listwise import ListwiseLoss
    >>> z = torch.eye(2)  # two outputs, predicted perfectly: log(1 + exp(-1)) each
    >>> round(ListwiseLoss(2, hidden=3, heat=1.0)(z, z).item(), 4)
    0.3133
    """

    def __init__(self, n_outputs: int, hidden: int, heat: float) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(n_outputs, hidden), nn.Linear(hidden, n_outputs)
        for parameter in self.leave.parameters():
            nn.init.zeros_(parameter)
        self.log_heat = nn.Parameter(torch.tensor(math.log(heat)))

    def outputs(self, coordinates: Tensor) -> Tensor:
        """Return g of the coordinates of outputs."""
        return coordinates + self.leave(self.enter(coordinates).relu())

    def values(self, prediction: Tensor, target: Tensor, residual: Tensor | None = None) -> Tensor:
        norms = target.square().sum(dim=1)
        norms = norms if residual is None else norms + residual
        S = self.log_heat.exp() * (prediction.float() @ self.outputs(target).T - 0.5 * norms)
        again = torch.cdist(target, target).square() <= 1e-6 * norms
        S = S.masked_fill(again.fill_diagonal_(False), _ALONE)
        return cross_entropy(S, torch.arange(len(S), device=S.device), reduction="none")


class _Together(nn.Module):
    """A network with what else is trained, whose weights a trainer then keeps as well."""

    def __init__(self, network: nn.Module, loss: ListwiseLoss) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.network(*args, **kwargs)


def train_together(
    regressor: Any,
    X: Any,
    targets: np.ndarray,
    residual: np.ndarray,
    *,
    hidden: int,
    heat: float,
    training: Training | None,
    groups: Any = None,
    sample_weight: Any = None,
) -> tuple[Any, list[np.ndarray]]:
    """Train the network of a fitted regressor on, together with a map of its outputs.

    The settings are those of the regressor, but for `training` where it is given. Rows of a group
    are all held out, or none of them. Returns a copy of the regressor, whose network was trained
    on, and A, b, C and c of the map.
    """
    check_number(hidden, "hidden", low=1, integer=True)
    check_number(heat, "heat", strict=True)
    out = copy.copy(regressor)
    training = training or out.training or Training()
    training.check()
    targets, rng = out._targets(X, targets), check_rng(out.random_state)
    seed = int(rng.integers(2**31))
    train, held = out._parts(len(targets), rng, groups)
    data = out._batches(X, targets, residual, sample_weight, (train, held))
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        loss = ListwiseLoss(targets.shape[1], hidden, heat).to(out._device)
    both = _Together(copy.deepcopy(out.module_), loss)
    trainer = Trainer(both, loss, training, len(train), seed, out._device)
    trainer.run(*data, patience=out.patience, verbose=out.verbose)
    out.module_, out.history_ = both.network.eval(), trainer.history
    out.best_epoch_ = trainer.best_epoch
    parts = [*loss.enter.parameters(), *loss.leave.parameters()]
    return out, [part.detach().cpu().numpy().astype(np.float64) for part in parts]
