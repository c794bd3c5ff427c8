"""Ridge regression: one `System` for each way to hold the problem, and the choice between them."""

from .base import Fit, RidgeOptions, System, fit_best
from .checkpoint import NO_MISSING, Bar, RidgeCheckpoint, open_checkpoint
from .choice import Decision, coordinates_of, decide, system_for
from .formulas import dual_ridge, feature_ridge, ridge, ridge_errors, ridge_paths, ridge_predictions
from .gram import GramSystem
from .moments import FoldMoments, MomentSystem

__all__ = [
    "NO_MISSING",
    "Bar",
    "Decision",
    "Fit",
    "FoldMoments",
    "GramSystem",
    "MomentSystem",
    "RidgeCheckpoint",
    "RidgeOptions",
    "System",
    "coordinates_of",
    "decide",
    "dual_ridge",
    "feature_ridge",
    "fit_best",
    "open_checkpoint",
    "ridge",
    "ridge_errors",
    "ridge_paths",
    "ridge_predictions",
    "system_for",
]
