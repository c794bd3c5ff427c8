"""What wraps a predictor: ensembles, two ways, prediction sets, hub prices, a tuned model."""

from .conformal import ConformalSets
from .ensemble import Ensemble
from .hubs import without_hubs
from .tuning import Tuned
from .twoway import TwoWay

__all__ = ["ConformalSets", "Ensemble", "Tuned", "TwoWay", "without_hubs"]
