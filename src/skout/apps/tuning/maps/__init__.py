"""Maps from inputs to output coordinates: one class each, whose objects are settings to try."""

from collections.abc import Sequence

from skout.dev import resolve

from .base import Map
from .constant import ConstantMap
from .logistic import LogisticMap
from .neighbors import NeighborsMap
from .ridge import AlignedMap, KernelRidgeMap, LearnedMetricMap
from .trees import BoostingMap, ExtraTreesMap, RandomForestMap

__all__ = ["MAPS", "ConstantMap", "Map", "RandomForestMap", "checked_maps"]

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


def checked_maps(maps: Sequence[str | type[Map]] | None) -> list[type[Map]]:
    """Return the classes of the maps to try, or raise for what is no map."""
    if isinstance(maps, str) or (maps is not None and not len(maps)):
        raise ValueError(f"maps must be a list of maps, at least one. Got {maps!r} instead.")
    kinds = [resolve(kind, MAPS, "map") if isinstance(kind, str) else kind for kind in maps or MAPS]
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Map)):
            raise TypeError(f"maps must be names, or subclasses of Map. Got {kind!r} instead.")
    return kinds
