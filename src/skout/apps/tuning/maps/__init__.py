"""Maps from inputs to output coordinates: one class each, whose objects are settings to try."""

from .base import Map
from .constant import ConstantMap
from .logistic import LogisticMap
from .neighbors import NeighborsMap
from .ridge import AlignedMap, KernelRidgeMap, LearnedMetricMap
from .trees import BoostingMap, ExtraTreesMap, RandomForestMap

__all__ = ["MAPS", "ConstantMap", "Map", "RandomForestMap"]

#: The maps that `Tuned` tries, by name.
MAPS: dict[str, type[Map]] = {
    KernelRidgeMap.name: KernelRidgeMap,
    ExtraTreesMap.name: ExtraTreesMap,
    AlignedMap.name: AlignedMap,
    BoostingMap.name: BoostingMap,
    LogisticMap.name: LogisticMap,
    LearnedMetricMap.name: LearnedMetricMap,
    NeighborsMap.name: NeighborsMap,
    RandomForestMap.name: RandomForestMap,
}
