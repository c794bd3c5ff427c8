"""Networks that predict output coordinates, for DSOKR (`pip install skout[deep]`)."""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("skout.deep needs PyTorch: pip install skout[deep]") from error

from .criteria import KernelLoss
from .modules import MLP, Bottleneck, CharTransformer
from .regressor import NeuralRegressor
from .text import TextEncoder
from .training import Training

__all__ = [
    "MLP",
    "Bottleneck",
    "CharTransformer",
    "KernelLoss",
    "NeuralRegressor",
    "TextEncoder",
    "Training",
]
