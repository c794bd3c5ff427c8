"""Pools of molecules on disk, by RDKit (`pip install skout[chem]`)."""

from .pool import MoleculePool

__all__ = ["MoleculePool"]
