"""skout: structured prediction with kernels, scaled by sketching."""

from . import (
    datasets,
    decoding,
    diagnostics,
    kernels,
    losses,
    metrics,
    persistence,
    selection,
    sketches,
    sources,
)
from .basis import KernelBasis
from .decoding import CandidateSets
from .persistence import load, save
from .predictor import StructuredPredictor, dsokr, iokr, sisokr
from .predictors.conformal import ConformalSets
from .predictors.ensemble import Ensemble
from .predictors.hubs import without_hubs
from .regressors import (
    InducedMachine,
    JointQuantileRegressor,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    graph_task_matrix,
    quantile_task_matrix,
)
from .rows import memory_limits

__all__ = [
    "CandidateSets",
    "ConformalSets",
    "Ensemble",
    "InducedMachine",
    "JointQuantileRegressor",
    "KernelBasis",
    "KernelClassifier",
    "KernelMachine",
    "KernelRidge",
    "StructuredPredictor",
    "datasets",
    "decoding",
    "diagnostics",
    "dsokr",
    "graph_task_matrix",
    "iokr",
    "kernels",
    "load",
    "losses",
    "memory_limits",
    "metrics",
    "persistence",
    "quantile_task_matrix",
    "save",
    "selection",
    "sisokr",
    "sketches",
    "sources",
    "without_hubs",
]

__version__ = "0.1.0"
