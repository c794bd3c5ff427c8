"""Molecules, by RDKit (`pip install "skout[chem]"`): fingerprints of SMILES, and pools on disk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .kernels.molecules import fingerprints, parse_smiles

if TYPE_CHECKING:
    from .apps.spectra.pools import MoleculePool, read_prior

__all__ = ["MoleculePool", "fingerprints", "parse_smiles", "read_prior"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("skout.apps.spectra.pools"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
