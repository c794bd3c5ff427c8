"""Coordinates of objects: orthonormal functions of a kernel's feature space."""

from .basis import KernelBasis
from .engine import Engine, Span, span_of
from .passes import KnownRows as KnownRows  # in files, as is the next one
from .weights import OutputWeights as OutputWeights

__all__ = ["Engine", "KernelBasis", "Span", "span_of"]
