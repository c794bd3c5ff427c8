"""skout: structured prediction with kernels, scaled by sketching."""

from . import decoding, kernels, losses, metrics, sketches
from .basis import KernelBasis
from .gram import block_budget
from .predictor import StructuredPredictor, iokr, sisokr
from .regressors import (
    JointQuantileRegressor,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    graph_task_matrix,
    quantile_task_matrix,
)

__all__ = [
    "JointQuantileRegressor",
    "KernelBasis",
    "KernelClassifier",
    "KernelMachine",
    "KernelRidge",
    "StructuredPredictor",
    "block_budget",
    "decoding",
    "graph_task_matrix",
    "iokr",
    "kernels",
    "losses",
    "metrics",
    "quantile_task_matrix",
    "sisokr",
    "sketches",
]

__version__ = "0.1.0"
