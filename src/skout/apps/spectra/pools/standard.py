"""One form of a molecule, and what a pool keeps of it."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skout.dev import chemistry, molecules

from ..readers.formulas import hill

if TYPE_CHECKING:
    from rdkit.Chem import Mol

# Letters of SMILES; RDKit takes seconds for as many atoms, and minutes for a few times as many.
_MOST_LETTERS = 10_000


@dataclass(frozen=True)
class Entry:
    """A standardized molecule."""

    molecule: Mol
    smiles: str
    key: str  # the skeleton of its InChIKey
    formula: str  # in Hill order
    mass: float


def entries(smiles: Iterable[str]) -> Iterator[Entry | None]:
    """Yield what a pool keeps of each SMILES, None where it is invalid or above 10,000 letters."""
    texts = [text if len(text) <= _MOST_LETTERS else "" for text in smiles]
    for text, molecule in zip(texts, molecules(texts), strict=True):
        try:
            yield None if molecule is None else _entry(text, molecule)
        except (ValueError, RuntimeError):  # RDKit read it, but cannot go on
            yield None


def _entry(text: str, molecule: Mol) -> Entry:
    from rdkit.Chem import rdMolDescriptors as descriptors

    Chem = chemistry()
    if "." in text:
        molecule = _largest(Chem, molecule)
    if "+" in text or "-" in text:  # a charge, or a bond
        molecule = _neutral(Chem, molecule)
    return Entry(
        molecule,
        Chem.MolToSmiles(molecule),
        _skeleton(Chem, molecule),
        hill(descriptors.CalcMolFormula(molecule)),
        descriptors.CalcExactMolWt(molecule),
    )


def _largest(Chem: Any, molecule: Mol) -> Mol:
    """Return the fragment with most heavy atoms; of equals the heavier, then by SMILES."""
    from rdkit.Chem.rdMolDescriptors import CalcExactMolWt

    def size(part: Mol) -> tuple[int, float, str]:
        return part.GetNumHeavyAtoms(), CalcExactMolWt(part), Chem.MolToSmiles(part)

    largest: Mol = max(Chem.GetMolFrags(molecule, asMols=True), key=size)
    return largest


@functools.cache
def _uncharger() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.Uncharger()


def _neutral(Chem: Any, molecule: Mol) -> Mol:
    """Return a molecule whose charges that protons can undo are undone."""
    neutral = _uncharger().uncharge(molecule)
    text = Chem.MolToSmiles(neutral)
    if text == Chem.MolToSmiles(molecule):
        return molecule
    # read again, so that all that RDKit derives fits the new hydrogens
    return Chem.MolFromSmiles(text) or molecule


def _skeleton(Chem: Any, molecule: Mol) -> str:
    """Return the first block of the InChIKey; where there is none, a digest of flat SMILES."""
    from rdkit.Chem.rdinchi import MolToInchiKey

    key = str(MolToInchiKey(molecule))[:14]
    if len(key) == 14:
        return key
    flat = Chem.MolToSmiles(molecule, isomericSmiles=False)
    digest = base64.b32encode(hashlib.sha256(flat.encode()).digest()).decode()
    return "~" + digest[:13]
