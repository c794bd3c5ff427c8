"""Maps from inputs to output coordinates: one class each, whose objects are settings to try."""

from .base import ByOutput, Map
from .logistic import LogisticMap, LogisticOutputs
from .neighbors import NeighborsMap
from .ridge import AlignedMap, Centered, KernelRidgeMap, LearnedMetricMap, LearnedRidge
from .trees import BoostingMap, ExtraTreesMap, LeafForest, PrincipalOutputs, RandomForestMap

__all__ = [
    "MAPS",
    "AlignedMap",
    "BoostingMap",
    "ByOutput",
    "Centered",
    "ExtraTreesMap",
    "KernelRidgeMap",
    "LeafForest",
    "LearnedMetricMap",
    "LearnedRidge",
    "LogisticMap",
    "LogisticOutputs",
    "Map",
    "NeighborsMap",
    "PrincipalOutputs",
    "RandomForestMap",
]

_KINDS: tuple[type[Map], ...] = (
    KernelRidgeMap,
    ExtraTreesMap,
    AlignedMap,
    BoostingMap,
    LogisticMap,
    LearnedMetricMap,
    NeighborsMap,
    RandomForestMap,
)
#: The maps that `Tuned` tries, by name.
MAPS: dict[str, type[Map]] = {kind.name: kind for kind in _KINDS}
