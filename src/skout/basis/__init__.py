"""Coordinates of objects: orthonormal functions of a kernel's feature space."""

from .basis import KernelBasis
from .engine import Engine
from .span import Span, span_of

__all__ = ["Engine", "KernelBasis", "Span", "span_of"]
