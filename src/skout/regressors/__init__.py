"""From inputs to coordinates: ridge, and kernel machines with any convex loss."""

from .classifier import KernelClassifier
from .induced import InducedMachine
from .intervals import Calibration as Calibration  # in files, as is Kept
from .machine import KernelMachine
from .quantile import JointQuantileRegressor
from .ridge import Kept as Kept
from .ridge import KernelRidge
from .tasks import graph_task_matrix, quantile_task_matrix

__all__ = [
    "InducedMachine",
    "JointQuantileRegressor",
    "KernelClassifier",
    "KernelMachine",
    "KernelRidge",
    "graph_task_matrix",
    "quantile_task_matrix",
]
