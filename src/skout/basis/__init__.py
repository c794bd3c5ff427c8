"""Coordinates of objects: orthonormal functions of a kernel's feature space."""

from .engine import Engine, KernelBasis, Span, span_of
from .features import PartlyWhitened as PartlyWhitened  # in files, as are all others of this form
from .moments import KnownRows as KnownRows
from .moments import MaskedMoments as MaskedMoments
from .moments import Moments as Moments
from .weights import OutputWeights as OutputWeights

__all__ = ["Engine", "KernelBasis", "Span", "span_of"]
