"""Regressors: the map between coordinates."""

from .ridge import KernelRidge

__all__ = ["KernelRidge"]
