"""Kernel + sketch -> coordinates; kernel blocks, and moments: the engine."""

from . import KernelBasis

__all__ = ["KernelBasis"]
