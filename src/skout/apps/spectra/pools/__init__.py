"""Molecules, by RDKit (`pip install skout[chem]`): fingerprints of SMILES, and pools on disk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .smiles import fingerprints, parse_smiles

if TYPE_CHECKING:
    from .pool import MoleculePool

__all__ = ["MoleculePool", "fingerprints", "parse_smiles"]

# Imported when it is first asked for, so that `import skout` is quick.
_LATER = {"MoleculePool": "pool"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
