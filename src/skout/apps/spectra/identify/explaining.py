"""Which peaks of a spectrum a molecule explains, and with which of its fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skout.dev import check_number, chemistry, ranges
from skout.molecules import parse_smiles

from .annotation import MOST_PARTS, Annotation, annotate, is_negative
from .fragmentation import LOST, SHIFTS
from .fragments import Fragments, bonds_of, fragments_of, in_fragment
from .results import Explanation, Fragment

if TYPE_CHECKING:
    from rdkit.Chem import Mol

# What a hydrogen more or less costs, in kJ/mol.
_HYDROGEN = 175.0


def explain_peaks(
    mz: np.ndarray,
    intensity: np.ndarray,
    formula: str,
    *,
    smiles: str = "",
    adduct: str = "[M+H]+",
    ppm: float = 10.0,
) -> Explanation:
    """Return for each peak the part of an ion that weighs nearest to it, within `ppm`.

    With the SMILES of the molecule also the fragment that has this formula.
    """
    check_number(ppm, "ppm", strict=True)
    mz, height = np.asarray(mz, dtype=np.float64), np.asarray(intensity, dtype=np.float64)
    annotation = annotate(mz, height, formula, adduct, ppm, calibrate=False, written=True)
    if annotation is None:
        raise ValueError(
            f"{formula} has no parts whose masses are known, or more than {MOST_PARTS}: its peaks "
            "are not explained."
        )
    sign = "-" if is_negative(adduct) else "+"
    formulas, errors = np.full(len(mz), "", dtype=object), np.full(len(mz), np.nan)
    formulas[annotation.peak], errors[annotation.peak] = (
        [text + sign for text in annotation.formula],
        annotation.error,
    )
    fragments = _fragments(parse_smiles([smiles])[0], annotation, len(mz)) if smiles else ()
    return Explanation(smiles, mz, height / height.max(), tuple(formulas), errors, fragments)


def _fragments(molecule: Mol, annotation: Annotation, n: int) -> tuple[Fragment | None, ...]:
    """Return the cheapest fragment of each of n peaks."""
    parts: list[Fragment | None] = [None] * n
    bonds = bonds_of(molecule)
    fragments = fragments_of(bonds)
    if fragments is None:
        return tuple(parts)
    fragments = fragments.of(np.argsort(fragments.code, kind="stable"))
    for peak, part, shift in zip(*_cheapest(annotation, fragments), strict=True):
        inside = in_fragment(fragments.masks[part], len(bonds.code))
        atoms = [int(atom) for atom in np.flatnonzero(inside)]
        broken = bonds.ends[inside[bonds.ends[:, 0]] != inside[bonds.ends[:, 1]]]
        parts[annotation.peak[peak]] = Fragment(
            str(chemistry().MolFragmentToSmiles(molecule, atoms)),
            tuple(atoms),
            tuple((int(a), int(b)) for a, b in broken),
            int(shift),
            float(fragments.cost[part]),
        )
    return tuple(parts)


def _cheapest(annotation: Annotation, fragments: Fragments) -> tuple[np.ndarray, ...]:
    """Return the peaks that a fragment explains, the cheapest one, and hydrogens that it gained.

    Places among the peaks of the annotation, and `fragments`, which are sorted by code.
    """
    low = np.searchsorted(fragments.code, annotation.code, side="left")
    counts = np.searchsorted(fragments.code, annotation.code, side="right") - low
    peak, part = np.repeat(np.arange(len(low)), counts), ranges(low, counts)
    shift = annotation.hydrogens[peak] - fragments.hydrogens[part]
    fits = (shift >= -LOST) & (shift < SHIFTS - LOST)
    peak, part, shift = peak[fits], part[fits], shift[fits]
    order = np.lexsort((fragments.cost[part] + _HYDROGEN * np.abs(shift), peak))
    best = order[np.unique(peak[order], return_index=True)[1]]
    return peak[best], part[best], shift[best]
