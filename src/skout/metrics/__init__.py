"""Metrics of predicted objects, label sets, rankings, retrieved candidates and numbers."""

from __future__ import annotations

from .graphs import graph_edit_distance
from .objects import (
    example_f1,
    hamming_loss,
    kendall_tau,
    kernel_loss,
    kernel_similarity,
    subset_accuracy,
)
from .retrieval import hits_at_k, mean_rank, mean_reciprocal_rank, truth_ranks
from .targets import (
    arrmse,
    coverage,
    crossing_loss,
    integrated_squared_error,
    interval_width,
    mse,
    pinball_loss,
    r2,
    relative_mse,
    rrmse,
)

__all__ = [
    "arrmse",
    "coverage",
    "crossing_loss",
    "example_f1",
    "graph_edit_distance",
    "hamming_loss",
    "hits_at_k",
    "integrated_squared_error",
    "interval_width",
    "kendall_tau",
    "kernel_loss",
    "kernel_similarity",
    "mean_rank",
    "mean_reciprocal_rank",
    "mse",
    "pinball_loss",
    "r2",
    "relative_mse",
    "rrmse",
    "subset_accuracy",
    "truth_ranks",
]
