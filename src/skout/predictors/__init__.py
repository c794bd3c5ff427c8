"""What wraps a predictor: ensembles, two ways, prediction sets, hub prices, a tuned model."""

from .conformal import ConformalSets
from .ensemble import Ensemble
from .hubs import without_hubs
from .twoway import TwoWay

__all__ = ["ConformalSets", "Ensemble", "TwoWay", "without_hubs"]
