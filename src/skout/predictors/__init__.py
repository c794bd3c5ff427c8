"""What wraps a predictor: ensembles, two ways, a last word, prediction sets, prices, tuning."""

from .conformal import ConformalSets
from .ensemble import Ensemble
from .hubs import without_hubs
from .reranker import Reranker
from .twoway import TwoWay

__all__ = ["ConformalSets", "Ensemble", "Reranker", "TwoWay", "without_hubs"]
