"""Kernel + sketch -> coordinates; kernel blocks, and moments: the engine."""

from .basis import KernelBasis

__all__ = ["KernelBasis"]
