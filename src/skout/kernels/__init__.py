"""Kernels: when are two objects alike?"""

from __future__ import annotations

from .base import (
    KERNELS,
    Kernel,
    Normalized,
    PairwiseFunction,
    Product,
    Scaled,
    Sum,
    as_kernel,
)
from .bits import F1, Tanimoto
from .rankings import Kendall, Lehmer, RankHamming
from .vectors import Cosine, Gaussian, Laplacian, Linear, Matern, Polynomial

__all__ = [
    "F1",
    "KERNELS",
    "Cosine",
    "Gaussian",
    "Kendall",
    "Kernel",
    "Laplacian",
    "Lehmer",
    "Linear",
    "Matern",
    "Normalized",
    "PairwiseFunction",
    "Polynomial",
    "Product",
    "RankHamming",
    "Scaled",
    "Sum",
    "Tanimoto",
    "as_kernel",
]

KERNELS.update(
    {
        "linear": Linear,
        "polynomial": Polynomial,
        "gaussian": Gaussian,
        "laplacian": Laplacian,
        "matern": Matern,
        "cosine": Cosine,
        "tanimoto": Tanimoto,
        "f1": F1,
        "kendall": Kendall,
        "rank_hamming": RankHamming,
        "lehmer": Lehmer,
    }
)
