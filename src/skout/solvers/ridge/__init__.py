"""Ridge regression: one `System` for each way to hold the problem, and the choice between them."""

from .checkpoint import NO_MISSING, RidgeCheckpoint, open_checkpoint
from .gram import GramSystem, dual_ridge
from .moments import (
    FitcSystem,
    FoldMoments,
    GrowingMoments,
    MomentSystem,
    refuse_fitc,
    ridge,
    ridge_errors,
    ridge_paths,
    ridge_predictions,
)
from .products import DeviceSystem, ProductSystem
from .rows import RowsSystem
from .system import Decision, Fit, RidgeOptions, RidgeProblem, System, decide, fit_best

__all__ = [
    "NO_MISSING",
    "SYSTEMS",
    "Decision",
    "Fit",
    "FoldMoments",
    "GramSystem",
    "GrowingMoments",
    "RidgeCheckpoint",
    "RidgeOptions",
    "RidgeProblem",
    "System",
    "decide",
    "dual_ridge",
    "fit_best",
    "open_checkpoint",
    "refuse_fitc",
    "ridge",
    "ridge_errors",
    "ridge_paths",
    "ridge_predictions",
]

#: Systems by the name that a `Decision` has for them.
SYSTEMS: dict[str, type[System]] = {
    "moments": MomentSystem,
    "fitc": FitcSystem,
    "rows": RowsSystem,
    "products": ProductSystem,
    "device": DeviceSystem,
    "gram": GramSystem,
}
