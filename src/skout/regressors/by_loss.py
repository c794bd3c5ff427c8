"""The regressor of a loss, for predictors that are made by name."""

from __future__ import annotations

from typing import Any

from .._numerics.validation import resolve
from ..kernels import as_kernel
from ..losses import LOSSES, Squared
from ..sketches import as_sketch
from .induced import InducedMachine
from .ridge import KernelRidge

__all__ = ["regressor_of"]


def regressor_of(
    kernel: Any, sketch: Any, loss: Any, checkpoint: Any, solver: str, **params: Any
) -> Any:
    """Return ridge regression, or for another loss the machine with the loss that it induces."""
    kernel, sketch = as_kernel(kernel), as_sketch(sketch)
    kind = resolve(loss, LOSSES, "loss") if isinstance(loss, str) else type(loss)
    if kind is Squared:
        return KernelRidge(kernel, sketch, checkpoint=checkpoint, solver=solver, **params)
    if name := "checkpoint" if checkpoint is not None else "solver" * (solver != "auto"):
        raise ValueError(f'{name} needs loss="squared". Got loss={loss!r}: leave it out.')
    return InducedMachine(kernel, sketch, loss=loss, **params)
