"""skout: structured prediction with kernels, scaled by sketching."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import decoding, kernels, losses, metrics, persistence, sketches, sources
from .basis import KernelBasis
from .decoding import CandidateSets
from .persistence import load, save
from .predictor import StructuredPredictor, dsokr, iokr, sisokr
from .predictors.ensemble import Ensemble
from .predictors.hubs import without_hubs
from .predictors.twoway import TwoWay
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

if TYPE_CHECKING:
    from . import datasets, diagnostics, readers, selection
    from .predictors.conformal import ConformalSets
    from .predictors.discoveries import ConformalSelection
    from .predictors.tuning import Tuned

__all__ = [
    "CandidateSets",
    "ConformalSelection",
    "ConformalSets",
    "Ensemble",
    "InducedMachine",
    "JointQuantileRegressor",
    "KernelBasis",
    "KernelClassifier",
    "KernelMachine",
    "KernelRidge",
    "StructuredPredictor",
    "Tuned",
    "TwoWay",
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
    "readers",
    "save",
    "selection",
    "sisokr",
    "sketches",
    "sources",
    "without_hubs",
]

__version__ = "0.1.0"

# Imported when they are first asked for, so that `import skout` is quick.
_LATER = ("datasets", "diagnostics", "readers", "selection")
_PREDICTORS = {
    "ConformalSelection": "discoveries",
    "ConformalSets": "conformal",
    "Tuned": "tuning",
}


def __getattr__(name: str) -> Any:
    if name in _PREDICTORS:
        return getattr(import_module(f"{__name__}.predictors.{_PREDICTORS[name]}"), name)
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_PREDICTORS})
