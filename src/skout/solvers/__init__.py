"""Pure functions: ridge regression from moments, and any convex loss with a certificate."""

from .convex import Solution, solve_convex
from .dual import dual_ridge
from .holed import HoledMoments as HoledMoments  # in files, as are the next two
from .moments import Moments as Moments
from .moments import PartlyWhitened as PartlyWhitened
from .moments import (
    feature_ridge,
    ridge,
    ridge_errors,
    ridge_paths,
    ridge_predictions,
)
from .problem import Problem

__all__ = [
    "Problem",
    "Solution",
    "dual_ridge",
    "feature_ridge",
    "ridge",
    "ridge_errors",
    "ridge_paths",
    "ridge_predictions",
    "solve_convex",
]
