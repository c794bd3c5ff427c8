"""A model that chooses itself: trials, their costs, a search, averages, a report."""

from .estimator import Tuned
from .inputs import ColumnScaler
from .learnt import AlignedRidge, LearntRidge
from .logistic import LogisticOutputs
from .maps import Averaged, ByOutput, Centred, LeafForest, PrincipalOutputs
from .outputs import (
    BordaDecoder,
    ClassCodes,
    CodeDecoder,
    LabelFeatures,
    PairOrders,
    SetDecoder,
    StandardTargets,
)

__all__ = [
    "AlignedRidge",
    "Averaged",
    "BordaDecoder",
    "ByOutput",
    "Centred",
    "ClassCodes",
    "CodeDecoder",
    "ColumnScaler",
    "LabelFeatures",
    "LeafForest",
    "LearntRidge",
    "LogisticOutputs",
    "PairOrders",
    "PrincipalOutputs",
    "SetDecoder",
    "StandardTargets",
    "Tuned",
]
