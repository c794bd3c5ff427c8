"""Kernels: when are two objects alike?"""

from __future__ import annotations

from .._numerics.arrays import namespace
from .._numerics.objects import Ragged, Rows, as_objects
from .bags import Bags as Bags  # in files, as are Images and Spectra
from .base import KERNELS, Kernel, PairwiseFunction, Product, Scaled, Sum, as_kernel
from .bits import F1, Cosine, GaussianTanimoto, PackedBits, Tanimoto
from .combine import Images as Images
from .combine import Mapped, Normalized, align
from .graph_rows import read_graphs
from .graphs import (
    AttributedPaths,
    Core,
    NeighborhoodSubgraph,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
)
from .metric import Curves, Fourier, LearnedMetric, Mahalanobis, OnColumns, align_columns
from .precomputed import GramRows as GramRows
from .precomputed import Precomputed
from .rankings import Kendall, Lehmer, RankHamming
from .spectra import PeakCosine, ProbabilityProduct
from .spectra import Spectra as Spectra
from .strings import NGram
from .vectors import Gaussian, Laplacian, Linear, Matern, Polynomial, VectorKernel

__all__ = [
    "F1",
    "KERNELS",
    "AttributedPaths",
    "Core",
    "Cosine",
    "Curves",
    "Fourier",
    "Gaussian",
    "GaussianTanimoto",
    "Kendall",
    "Kernel",
    "Laplacian",
    "LearnedMetric",
    "Lehmer",
    "Linear",
    "Mahalanobis",
    "Mapped",
    "Matern",
    "NGram",
    "NeighborhoodSubgraph",
    "Normalized",
    "OnColumns",
    "PackedBits",
    "PairwiseFunction",
    "PeakCosine",
    "Polynomial",
    "Precomputed",
    "ProbabilityProduct",
    "Product",
    "Ragged",
    "RankHamming",
    "Rows",
    "Scaled",
    "ShortestPath",
    "Sum",
    "Tanimoto",
    "VectorKernel",
    "VertexHistogram",
    "WeisfeilerLehman",
    "align",
    "align_columns",
    "as_kernel",
    "as_objects",
    "namespace",
    "read_graphs",
]

KERNELS.update(
    {
        "linear": Linear,
        "polynomial": Polynomial,
        "gaussian": Gaussian,
        "laplacian": Laplacian,
        "matern": Matern,
        "cosine": Cosine,
        "learned_metric": LearnedMetric,
        "tanimoto": Tanimoto,
        "gaussian_tanimoto": GaussianTanimoto,
        "f1": F1,
        "ngram": NGram,
        "vertex_histogram": VertexHistogram,
        "shortest_path": ShortestPath,
        "attributed_paths": AttributedPaths,
        "weisfeiler_lehman": WeisfeilerLehman,
        "core": Core,
        "neighborhood_subgraph": NeighborhoodSubgraph,
        "probability_product": ProbabilityProduct,
        "peak_cosine": PeakCosine,
        "curves": Curves,
        "kendall": Kendall,
        "rank_hamming": RankHamming,
        "lehmer": Lehmer,
        "precomputed": Precomputed,
    }
)
