"""skout: structured prediction with kernels, scaled by sketching."""

from . import decoding, kernels, metrics, sketches
from .basis import KernelBasis
from .gram import block_budget
from .predictor import StructuredPredictor, iokr, sisokr
from .regressors import KernelRidge

__all__ = [
    "KernelBasis",
    "KernelRidge",
    "StructuredPredictor",
    "block_budget",
    "decoding",
    "iokr",
    "kernels",
    "metrics",
    "sisokr",
    "sketches",
]

__version__ = "0.1.0"
