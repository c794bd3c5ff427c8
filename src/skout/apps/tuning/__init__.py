"""A model that chooses itself: trials, their costs, a search, averages, a report."""

from .averages import Averaged
from .estimator import Tuned
from .inputs import ColumnScaler
from .maps import (
    MAPS,
    ByOutput,
    Centered,
    LeafForest,
    LearnedRidge,
    LogisticOutputs,
    Map,
    PrincipalOutputs,
)
from .outputs import (
    BordaDecoder,
    ClassCodes,
    CodeDecoder,
    LabelFeatures,
    PairOrders,
    SetDecoder,
    StandardTargets,
)
from .samples import Profile, Sample

__all__ = [
    "MAPS",
    "Averaged",
    "BordaDecoder",
    "ByOutput",
    "Centered",
    "ClassCodes",
    "CodeDecoder",
    "ColumnScaler",
    "LabelFeatures",
    "LeafForest",
    "LearnedRidge",
    "LogisticOutputs",
    "Map",
    "PairOrders",
    "PrincipalOutputs",
    "Profile",
    "Sample",
    "SetDecoder",
    "StandardTargets",
    "Tuned",
]
