"""Coordinates of objects: orthonormal functions of a kernel's feature space."""

from .basis import KernelBasis
from .engine import Engine, Span, span_of

__all__ = ["Engine", "KernelBasis", "Span", "span_of"]
