"""What wraps a predictor: ensembles, two ways, a last word, prediction sets, prices."""

from .answers import Answers
from .conformal import ConformalSets
from .crossing import Fold as Fold  # in files, as are all others of this form
from .discoveries import AnswerConfidence as AnswerConfidence
from .discoveries import ConformalSelection
from .end_to_end import EndToEnd
from .end_to_end import MappedBasis as MappedBasis
from .ensemble import Ensemble
from .hubs import without_hubs
from .joint import JointBasis as JointBasis
from .joint import JointRegressor as JointRegressor
from .nonconformity import LearntScore as LearntScore
from .nonconformity import Softmax as Softmax
from .twoway import TwoWay

__all__ = [
    "Answers",
    "ConformalSelection",
    "ConformalSets",
    "EndToEnd",
    "Ensemble",
    "TwoWay",
    "without_hubs",
]
