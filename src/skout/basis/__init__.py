"""Coordinates of objects: orthonormal functions of a kernel's feature space."""

from .basis import KernelBasis
from .engine import Engine, Span, span_of
from .moments import MaskedMoments as MaskedMoments  # in files, as are all others of this form
from .moments import Moments as Moments
from .moments import PartlyWhitened as PartlyWhitened
from .passes import KnownRows as KnownRows
from .weights import OutputWeights as OutputWeights

__all__ = ["Engine", "KernelBasis", "Span", "span_of"]
