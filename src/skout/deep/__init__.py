"""Networks that predict output coordinates, for DSOKR (`pip install "skout[deep]"`)."""

from __future__ import annotations

from .._numerics.extras import extra

with extra("deep", "skout.deep needs PyTorch"):
    import torch  # noqa: F401

from .criteria import KernelLoss
from .modules import MLP, CharTransformer
from .regressor import NeuralRegressor
from .text import TextEncoder
from .training import Training

__all__ = [
    "MLP",
    "CharTransformer",
    "KernelLoss",
    "NeuralRegressor",
    "TextEncoder",
    "Training",
]
