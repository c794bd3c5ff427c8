"""What wraps a predictor: ensembles, prediction sets, candidates without hubs, a tuned model."""

from .conformal import ConformalSets
from .ensemble import Ensemble
from .hubs import without_hubs

__all__ = ["ConformalSets", "Ensemble", "without_hubs"]
