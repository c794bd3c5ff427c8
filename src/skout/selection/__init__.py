"""How large must a sketch be? Leverage scores, perfect surrogates, a tolerance or a time budget.

Every result has `plot(ax=None)`, which returns the axes and needs matplotlib, skout[plot].
"""

from .curves import PerfectHCurve as PerfectHCurve
from .curves import perfect_h_curve
from .leverage import LeverageScores as LeverageScores
from .leverage import leverage_scores
from .search import SketchSizeSearch as SketchSizeSearch
from .search import sketch_size_search
from .sizes import SketchSize as SketchSize
from .sizes import choose_sketch_size

__all__ = ["choose_sketch_size", "leverage_scores", "perfect_h_curve", "sketch_size_search"]
