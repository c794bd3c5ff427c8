"""A model that chooses itself: trials, their costs, a search, averages, a report."""

from .boosting import BoostedTrees
from .borda import BordaDecoder
from .estimator import Tuned
from .inputs import ColumnScaler
from .learnt import LearntRidge
from .maps import Averaged, Centred, LeafForest, PrincipalOutputs
from .outputs import ClassCodes, CodeDecoder, LabelFeatures, SetDecoder, StandardTargets

__all__ = [
    "Averaged",
    "BoostedTrees",
    "BordaDecoder",
    "Centred",
    "ClassCodes",
    "CodeDecoder",
    "ColumnScaler",
    "LabelFeatures",
    "LeafForest",
    "LearntRidge",
    "PrincipalOutputs",
    "SetDecoder",
    "StandardTargets",
    "Tuned",
]
