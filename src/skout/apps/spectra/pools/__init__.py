"""Pools of molecules on disk, by RDKit (`pip install "skout[chem]"`)."""

from .pool import MoleculePool
from .priors import read_prior

__all__ = ["MoleculePool", "read_prior"]
