"""What wraps a predictor: ensembles, prediction sets, candidates without hubs, a tuned model."""

from .conformal import ConformalSets
from .ensemble import Ensemble
from .hubs import without_hubs
from .tuning import Tuned

__all__ = ["ConformalSets", "Ensemble", "Tuned", "without_hubs"]
