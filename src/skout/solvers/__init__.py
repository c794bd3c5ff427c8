"""Ridge regression, and any convex loss with a certificate: no estimator in sight."""

from .convex import Solution, solve_convex
from .problem import ConvexProblem

__all__ = ["ConvexProblem", "Solution", "solve_convex"]
