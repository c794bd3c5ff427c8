"""What theory says of a kernel, its data and a sketch, and how large a sketch must be.

Spectra, critical radius, K-satisfiability, exponents and the sizes of the theorems; leverage
scores; sizes by a tolerance, by a perfect surrogate, or by a time budget. Results of the last two
groups have `plot(ax=None)`, which returns the axes and needs matplotlib, skout[plot].
"""

from .leverage import LeverageScores as LeverageScores
from .leverage import leverage_scores
from .sizes import PerfectHCurve as PerfectHCurve
from .sizes import SketchSize as SketchSize
from .sizes import SketchSizeSearch as SketchSizeSearch
from .sizes import choose_sketch_size, perfect_h_curve, sketch_size_search
from .spectra import (
    EigenDecay,
    KSatisfiability,
    critical_radius,
    eigen_decay,
    k_satisfiability,
    reconstruction_error,
    satisfiability_constant,
    spectrum,
    statistical_dimension,
    theorem_3_19_size,
    theorem_4_9_size,
)

__all__ = [
    "EigenDecay",
    "KSatisfiability",
    "choose_sketch_size",
    "critical_radius",
    "eigen_decay",
    "k_satisfiability",
    "leverage_scores",
    "perfect_h_curve",
    "reconstruction_error",
    "satisfiability_constant",
    "sketch_size_search",
    "spectrum",
    "statistical_dimension",
    "theorem_3_19_size",
    "theorem_4_9_size",
]
