"""Pure functions: ridge regression from moments, and any convex loss with a certificate."""

from .convex import Problem, Solution, solve_convex
from .ridge import dual_ridge, ridge, ridge_errors, ridge_paths

__all__ = [
    "Problem",
    "Solution",
    "dual_ridge",
    "ridge",
    "ridge_errors",
    "ridge_paths",
    "solve_convex",
]
