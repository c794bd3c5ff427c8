"""Spectra and molecules as users give them: masses, precursors, groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skout.dev import check_choice
from skout.typing import Labels

from ..pools.standard import entries
from ..readers import SpectraLike, SpectraTable, neutral_mass, precursor_mz, spectra_table
from .columns import Ions

if TYPE_CHECKING:
    from rdkit.Chem import Mol

#: Spectra as users give them: as `skout.readers` returns them, or a list as kernels take it.

_SHOWN = 5


def names_of(table: SpectraTable) -> list[str]:
    """Return what to call each spectrum: its identifier, its name, or its number."""
    parts = zip(table["identifier"], table["name"], table.record, strict=True)
    return [str(identifier or name or number) for identifier, name, number in parts]


#: Why a spectrum without a precursor cannot be searched.
NO_PRECURSOR = (
    "the m/z of its precursor is not known, as in spectra of electron ionization: search it by its "
    "formula, with the adduct [M]+* where it says none."
)


def neutral_masses(table: SpectraTable) -> tuple[np.ndarray, list[str]]:
    """Return the mass of each molecule by precursor and adduct, and why there is none, or "".

    An adduct that cannot be read is no error here: it is returned.
    """
    masses, notes = np.full(len(table), np.nan), []
    for i in range(len(table)):
        mz, adduct = table["precursor_mz"][i], table["adduct"][i]
        if np.isnan(mz):
            notes.append(NO_PRECURSOR)
        elif not adduct:
            notes.append("its adduct is not known: give one, such as [M+H]+.")
        else:
            masses[i], note = _mass(mz, adduct)
            notes.append(note)
    return masses, notes


def _mass(mz: float, adduct: str) -> tuple[float, str]:
    """Return the mass of a molecule, or NaN and why."""
    try:
        mass = float(neutral_mass(mz, adduct)[0])
    except ValueError as error:
        return np.nan, str(error)
    if mass <= 0.0:
        return np.nan, f"its precursor, {mz:g}, is lighter than the adduct {adduct}."
    if not np.isfinite(mass):
        return np.nan, f"its precursor, {mz:g}, is no m/z of a molecule with the adduct {adduct}."
    return mass, ""


def with_precursors(table: SpectraTable, masses: np.ndarray) -> SpectraTable:
    """Return spectra; a precursor that is missing is computed from mass and adduct."""
    precursors = np.array(table["precursor_mz"], dtype=np.float64)
    for i in np.flatnonzero(np.isnan(precursors) & np.isfinite(masses)):
        try:
            precursors[i] = precursor_mz(masses[i], table["adduct"][i])[0]
        except ValueError:  # an adduct that cannot be read
            continue
    rows = table.spectra
    spectra = rows.like(rows.indptr, rows.mz, rows.intensity, precursors[rows.row_numbers])
    return replace(table, spectra=spectra, fields={**table.fields, "precursor_mz": precursors})


# Libraries ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Library:
    """Spectra of known molecules, n of them."""

    ions: Ions  # each with its precursor
    masses: np.ndarray  # (n,) of the molecules, by precursor and adduct, else by the formula
    molecule: np.ndarray  # (n,) the number of the molecule
    smiles: list[str]  # of each molecule, in the form that pools have
    keys: np.ndarray  # of each molecule
    formulas: np.ndarray
    exact: np.ndarray  # the mass of each molecule
    groups: np.ndarray  # (n,) rows of one number stay together in validation
    laboratory: np.ndarray | None  # (n,) numbers, where all spectra say theirs
    polarities: tuple[str, ...]  # those that there are


def read_library(
    spectra: SpectraLike,
    smiles: Sequence[str] | np.ndarray | None = None,
    groups: Labels = None,
    *,
    cv: int = 2,
    on_error: str = "raise",
) -> Library:
    """Return the spectra of a library whose molecule and precursor are known.

    Laboratories count if all spectra say theirs, there are at least `cv`, and no groups are given.

    See `SpectrumIdentifier.fit`.
    """
    check_choice(on_error, "on_error", ("raise", "skip"))
    table = spectra_table(spectra)
    texts = [str(text) for text in (table["smiles"] if smiles is None else smiles)]
    for name, values in (("smiles", texts), ("groups", groups)):
        if values is not None and len(values) != len(table):
            raise ValueError(
                f"{name} must have one for each of {len(table)} spectra. Got {len(values)}."
            )
    if len(table) == 0:
        raise ValueError("spectra is empty: pass the spectra of a library, with a SMILES for each.")
    distinct = list(dict.fromkeys(texts))
    molecule_of: dict[str, Any] = dict(zip(distinct, entries(distinct), strict=True))
    exact = np.array(
        [np.nan if molecule_of[text] is None else molecule_of[text].mass for text in texts]
    )
    masses = neutral_masses(table)[0]
    table = with_precursors(table, exact)
    kept = _whole(table, texts, exact, on_error)
    molecules = [molecule_of[texts[i]] for i in kept]
    names = np.array([entry.key for entry in molecules])
    keys, first, molecule = np.unique(names, return_index=True, return_inverse=True)
    labels = names if groups is None else np.asarray(groups)[kept]
    masses = np.where(np.isfinite(masses), masses, exact)[kept]
    where = table["laboratory"][kept].astype(str)
    laboratories = np.unique(where, return_inverse=True)[1]
    by_laboratory = groups is None and (where != "").all() and laboratories.max() + 1 >= cv
    return Library(
        Ions(table.spectra[kept], _adducts(table)[kept]),
        masses,
        molecule,
        [molecules[i].smiles for i in first],
        keys,
        np.array([molecules[i].formula for i in first], dtype=object),
        exact[kept[first]],
        np.unique(labels, return_inverse=True)[1],
        laboratories if by_laboratory else None,
        tuple(sorted({str(polarity) for polarity in table["polarity"][kept] if polarity})),
    )


def _adducts(table: SpectraTable) -> np.ndarray:
    """Return the adducts of spectra; those that say none have lost or gained a proton."""
    usual = np.where(table["polarity"] == "negative", "[M-H]-", "[M+H]+")
    return np.where(table["adduct"] == "", usual, table["adduct"])


def formula_of(molecule: Mol) -> str:
    """Return the formula of an RDKit molecule."""
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    return str(CalcMolFormula(molecule))


def _whole(
    table: SpectraTable, texts: Sequence[str], exact: np.ndarray, on_error: str
) -> np.ndarray:
    """Return the rows that have a molecule and a precursor; raise or warn for the others."""
    faults = {}
    for i, text in enumerate(texts):
        if np.isnan(exact[i]):
            faults[i] = f"its SMILES is not valid, {text!r}" if text else "it has no SMILES"
        elif np.isnan(table["precursor_mz"][i]):
            faults[i] = "it has neither a precursor m/z nor an adduct that gives one"
    if faults:
        shown = "; ".join(
            f"record {table.record[i]}: {why}" for i, why in list(faults.items())[:_SHOWN]
        )
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        what = f"{len(faults)} of {len(table)} spectra cannot be learned from: {shown}{more}."
        if on_error == "raise":
            raise ValueError(f'{what} Mend them, or leave them out with on_error="skip".')
        if len(faults) == len(table):
            raise ValueError(f"{what} None is left.")
        warnings.warn(f"{what} They are left out.", UserWarning, stacklevel=4)
    return np.array([i for i in range(len(texts)) if i not in faults], dtype=np.intp)
