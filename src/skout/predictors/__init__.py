"""What wraps a predictor: ensembles, two ways, a last word, prediction sets, prices."""

from .answers import Answers
from .conformal import ConformalSets
from .discoveries import ConformalSelection
from .end_to_end import EndToEnd
from .ensemble import Ensemble
from .hubs import without_hubs
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
