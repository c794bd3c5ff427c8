"""A model that chooses itself: trials, their costs, a search, averages, a report."""

from .estimator import Tuned
from .inputs import ColumnScaler
from .learnt import AlignedRidge, LearntRidge
from .logistic import LogisticOutputs
from .maps import Averaged, ByOutput, Centred, LeafForest, PrincipalOutputs

__all__ = [
    "AlignedRidge",
    "Averaged",
    "ByOutput",
    "Centred",
    "ColumnScaler",
    "LeafForest",
    "LearntRidge",
    "LogisticOutputs",
    "PrincipalOutputs",
    "Tuned",
]
