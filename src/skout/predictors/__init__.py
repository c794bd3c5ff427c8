"""What wraps a predictor: ensembles, two ways, a last word, prediction sets, prices, tuning."""

from .conformal import ConformalSets
from .ensemble import Ensemble
from .hubs import without_hubs
from .twoway import TwoWay

__all__ = ["ConformalSets", "Ensemble", "TwoWay", "without_hubs"]
