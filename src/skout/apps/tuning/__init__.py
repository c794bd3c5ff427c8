"""Model selection within a budget: `Tuned`, its maps, trials, averages and reports."""

from . import onnx  # noqa: F401  which registers how maps are exported
from .averages import Averaged
from .calibration import ProbabilityCalibration
from .estimator import Tuned
from .inputs import ColumnScaler
from .maps import MAPS, Map
from .maps.base import ByOutput, LogTargets
from .maps.logistic import LogisticOutputs
from .maps.ridge import Centered, LearnedRidge
from .maps.trees import LeafForest, PrincipalOutputs
from .samples import Profile, Sample
from .search import TuningProgress
from .targets import Target, TunedTargets

__all__ = [
    "MAPS",
    "Averaged",
    "ByOutput",
    "Centered",
    "ColumnScaler",
    "LeafForest",
    "LearnedRidge",
    "LogTargets",
    "LogisticOutputs",
    "Map",
    "PrincipalOutputs",
    "ProbabilityCalibration",
    "Profile",
    "Sample",
    "Target",
    "Tuned",
    "TunedTargets",
    "TuningProgress",
]
