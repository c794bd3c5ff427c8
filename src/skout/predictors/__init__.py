"""Wrappers of predictors: ensembles, two-way models, re-ranking, prediction sets, hubness."""

from .answers import Answers
from .conformal import ConformalSets
from .cross_conformal import Fold as Fold  # in files, as are all others of this form
from .end_to_end import EndToEnd
from .end_to_end import MappedBasis as MappedBasis
from .ensemble import Ensemble
from .hubness import correct_hubness
from .joint import JointBasis as JointBasis
from .joint import JointRegressor as JointRegressor
from .nonconformity import LearnedScore as LearnedScore
from .nonconformity import Softmax as Softmax
from .selection import AnswerConfidence as AnswerConfidence
from .selection import ConformalSelection
from .twoway import TwoWay

__all__ = [
    "Answers",
    "ConformalSelection",
    "ConformalSets",
    "EndToEnd",
    "Ensemble",
    "TwoWay",
    "correct_hubness",
]
