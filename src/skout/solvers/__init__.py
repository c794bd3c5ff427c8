"""Pure functions: ridge regression from moments, and any convex loss with a certificate."""

from .convex import Solution, solve_convex
from .problem import Problem
from .ridge import (
    dual_ridge,
    feature_ridge,
    ridge,
    ridge_errors,
    ridge_paths,
    ridge_predictions,
)

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
