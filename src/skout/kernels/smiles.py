"""RDKit, where it is installed: SMILES to molecules, and one error for all that are invalid."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from .._numerics.extras import extra

__all__ = ["chemistry", "molecules", "refuse"]

# Invalid SMILES that a message shows.
_SHOWN = 5


def chemistry() -> Any:
    """Return rdkit.Chem."""
    with extra("chem", "Molecules and SMILES need RDKit"):
        from rdkit import Chem
    return Chem


def molecules(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the molecule of each SMILES, None where it is invalid or has no atom; others as is.

    One at a time: RDKit's molecules are large.
    """
    Chem = chemistry()
    from rdkit import rdBase

    with rdBase.BlockLogs():  # keeps RDKit's messages off the terminal
        for item in items:
            found = _molecule(Chem, item) if isinstance(item, str) else item
            empty = isinstance(found, Chem.Mol) and found.GetNumAtoms() == 0
            yield None if empty else found


def _molecule(Chem: Any, smiles: str) -> Any:
    try:
        return Chem.MolFromSmiles(smiles)
    except UnicodeEncodeError:  # half of a character
        return None


def refuse(invalid: list[int], items: list[Any], on_error: str = "raise") -> None:
    """Raise one error for all SMILES at the positions `invalid`, or warn that they are skipped."""
    if not invalid:
        return
    shown = ", ".join(f"{items[i]!r} at position {i}" for i in invalid[:_SHOWN])
    more = f" and {len(invalid) - _SHOWN} more" if len(invalid) > _SHOWN else ""
    found = f"{len(invalid)} of {len(items)} SMILES are invalid"
    if on_error == "skip":
        warnings.warn(f"{found} and skipped: {shown}{more}.", stacklevel=3)
        return
    raise ValueError(
        f"{found}: {shown}{more}. Mend them or leave them out: skout.molecules.parse_smiles has "
        'on_error="skip", and on_error="none" to have None in their places.'
    )
