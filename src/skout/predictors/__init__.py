"""What wraps a predictor: ensembles, two ways, prediction sets, hub prices, a tuned model.

Prediction sets (`conformal`, `discoveries`) and tuned models are imported when they are needed.
"""

from .ensemble import Ensemble
from .hubs import without_hubs
from .twoway import TwoWay

__all__ = ["Ensemble", "TwoWay", "without_hubs"]
