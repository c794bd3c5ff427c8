"""Ridge regression, and any convex loss with a certificate: no estimator in sight."""

from .convex import Solution, solve_convex
from .problem import Problem

__all__ = ["Problem", "Solution", "solve_convex"]
