"""skout: structured prediction with kernels, scaled by sketching."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import decoding, kernels, kinds, losses, metrics, sketches, sources
from .basis import KernelBasis
from .decoding import CandidateSets
from .predictor import StructuredPredictor, dsokr, iokr, sisokr
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
    from . import datasets, formulas, molecules, persistence, readers, theory
    from .apps.spectra.identify import SpectrumIdentifier
    from .apps.tables import TableEncoder
    from .apps.tuning import Tuned, TunedTargets
    from .persistence import load, save
    from .predictors import (
        ConformalSelection,
        ConformalSets,
        EndToEnd,
        Ensemble,
        TwoWay,
        correct_hubness,
    )
    from .predictors.reranker import Reranker

__all__ = [
    "CandidateSets",
    "ConformalSelection",
    "ConformalSets",
    "EndToEnd",
    "Ensemble",
    "InducedMachine",
    "JointQuantileRegressor",
    "KernelBasis",
    "KernelClassifier",
    "KernelMachine",
    "KernelRidge",
    "Reranker",
    "SpectrumIdentifier",
    "StructuredPredictor",
    "TableEncoder",
    "Tuned",
    "TunedTargets",
    "TwoWay",
    "correct_hubness",
    "datasets",
    "decoding",
    "dsokr",
    "formulas",
    "graph_task_matrix",
    "iokr",
    "kernels",
    "kinds",
    "load",
    "losses",
    "memory_limits",
    "metrics",
    "molecules",
    "persistence",
    "quantile_task_matrix",
    "readers",
    "save",
    "sisokr",
    "sketches",
    "sources",
    "theory",
]

__version__ = "0.1.0"

# Imported when they are first asked for, so that `import skout` is quick.
_IN_MODULES = {
    "Reranker": "predictors.reranker",
    "SpectrumIdentifier": "apps.spectra.identify",
    "TableEncoder": "apps.tables",
    "Tuned": "apps.tuning",
    "TunedTargets": "apps.tuning",
    **dict.fromkeys(("load", "save"), "persistence"),
    **dict.fromkeys(
        ("ConformalSelection", "ConformalSets", "EndToEnd", "Ensemble", "TwoWay"), "predictors"
    ),
    "correct_hubness": "predictors",
}
_MODULES = ("datasets", "formulas", "molecules", "persistence", "readers", "theory")
_LATER = (*_IN_MODULES, *_MODULES)
# What does here what other packages call by these names.
_ELSEWHERE = {
    "Nystroem": "KernelBasis(kernel, SubSample(100)) has its coordinates",
    "SVR": 'KernelMachine(kernel, loss="epsilon_insensitive", fit_intercept=True) is one',
    "SVC": 'KernelClassifier(kernel, loss="hinge") is one',
    "GaussianProcessRegressor": "KernelRidge has its mean, and predict(X, return_std=True)",
    "AutoML": "Tuned chooses a model",
}


def __getattr__(name: str) -> Any:
    if name in _IN_MODULES:
        return getattr(import_module(f"{__name__}.{_IN_MODULES[name]}"), name)
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    hint = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
