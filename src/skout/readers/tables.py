"""Spectra with what is known about each, as readers return them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels.spectrum_rows import Spectra
from .adducts import neutral_mass
from .records import Problem

__all__ = ["FIELDS", "SpectraTable", "Spectrum", "checked_peaks", "normalised", "table_of"]

#: What is known about a spectrum, whatever a file calls it: names in lower case without signs.
FIELDS: dict[str, tuple[str, ...]] = {
    "identifier": ("identifier", "accession", "spectrumid", "scans", "id", "db", "title"),
    "name": ("name", "compoundname", "names", "synon"),
    "precursor_mz": ("precursormz", "pepmass", "precursor", "parentmass"),
    "adduct": ("adduct", "precursortype", "iontype", "ionization"),
    "charge": ("charge",),
    "polarity": ("polarity", "ionmode", "ionizationmode"),
    "collision_energy": ("collisionenergy", "ce"),
    "instrument": ("instrumenttype", "instrument", "sourceinstrument"),
    "formula": ("formula", "molecularformula"),
    "smiles": ("smiles", "computedsmiles"),
    "inchikey": ("inchikey", "computedinchikey"),
}
_NUMBERS = ("precursor_mz", "collision_energy")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+")
_POSITIVE, _NEGATIVE = ("positive", "pos", "p", "+"), ("negative", "neg", "n", "-")


@dataclass(frozen=True)
class Spectrum:
    """One record: peaks, sorted by m/z, and fields as `FIELDS` names them."""

    mz: np.ndarray
    intensity: np.ndarray
    fields: dict[str, Any]


@dataclass(frozen=True, eq=False)
class SpectraTable:
    """Spectra, and one value of each field for each; give `spectra` to kernels on spectra.

    Parameters
    ----------
    spectra : Spectra
    fields : dict of str to ndarray
        "precursor_mz" and "collision_energy" are numbers, NaN where not known; "identifier",
        "name", "adduct", "charge", "polarity", "instrument", "formula", "smiles" and "inchikey"
        are texts, "" where not known.
    record : ndarray of int
        The number of each in its file; the first is 1.
    problems : tuple of Problem
        Records that were left out.
    """

    spectra: Spectra
    fields: Mapping[str, np.ndarray]
    record: np.ndarray
    problems: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.record)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.fields[name]

    def __repr__(self) -> str:
        known = [name for name, values in self.fields.items() if _known(values)]
        return f"SpectraTable({len(self)} spectra, {', '.join(known)})"

    def neutral_mass(self) -> np.ndarray:
        """Return the masses of the molecules by precursor and adduct; NaN where not known."""
        return neutral_mass(self.fields["precursor_mz"], list(self.fields["adduct"]))


def _known(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).any() if values.dtype == np.float64 else (values != "").any())


def normalised(found: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a record by our names; the first name of `FIELDS` that has a value.

    Parameters
    ----------
    found : dict of str to str
        As the file has them.

    Raises
    ------
    ValueError
        If the m/z of the precursor is no positive number.
    """
    plain = {re.sub(r"[^a-z]", "", key.lower()): value.strip() for key, value in found.items()}
    fields: dict[str, Any] = {}
    for name, aliases in FIELDS.items():
        values = (plain.get(alias, "") for alias in aliases)
        fields[name] = next((v for v in values if v.lower() not in ("", "n/a", "na", "none")), "")
    fields["precursor_mz"] = _precursor(fields["precursor_mz"])
    number = _NUMBER.search(fields["collision_energy"])
    fields["collision_energy"] = float(number[0]) if number else math.nan
    fields["polarity"] = _polarity(fields)
    return fields


def _precursor(text: str) -> float:
    """Return the first number, since PEPMASS may have an intensity behind it."""
    if not text:
        return math.nan
    try:
        value = float(text.split()[0])
    except ValueError:
        raise ValueError(f"its precursor m/z is no number, {text!r}.") from None
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"its precursor m/z must be a positive number. Got {text!r}.")
    return value or math.nan


def _polarity(fields: dict[str, Any]) -> str:
    """Return "positive", "negative" or "", from what says so."""
    said = fields["polarity"].lower()
    if said in _POSITIVE or said in _NEGATIVE:
        return "positive" if said in _POSITIVE else "negative"
    ending = (fields["adduct"] or fields["charge"]).strip()
    return {"+": "positive", "-": "negative"}.get(ending[-1:], "")


def checked_peaks(pairs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return m/z and intensities, sorted by m/z.

    Parameters
    ----------
    pairs : sequence of (m/z, intensity), or array of shape (n, 2)

    Raises
    ------
    ValueError
        If there is no peak, or one that is not finite, not positive in m/z or negative.
    """
    peaks = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    if len(peaks) == 0:
        raise ValueError("it has no peaks.")
    if not np.isfinite(peaks).all():
        raise ValueError("a peak is not finite.")
    if (peaks[:, 0] <= 0.0).any() or (peaks[:, 1] < 0.0).any():
        raise ValueError("a peak has an m/z that is not positive, or a negative intensity.")
    if not (peaks[:, 1] > 0.0).any():
        raise ValueError("all its intensities are 0.")
    peaks = peaks[np.argsort(peaks[:, 0], kind="stable")]
    return peaks[:, 0], peaks[:, 1]


def table_of(
    found: Sequence[tuple[int, Spectrum]], problems: Sequence[Problem] = ()
) -> SpectraTable:
    """Return a table of numbered records.

    Parameters
    ----------
    found : sequence of (int, Spectrum)
    problems : sequence of Problem
    """
    lengths = np.array([len(one.mz) for _, one in found], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    fields = {name: _column([one.fields[name] for _, one in found], name) for name in FIELDS}
    spectra = Spectra(
        indptr,
        np.concatenate([np.empty(0), *(one.mz for _, one in found)]),
        np.concatenate([np.empty(0), *(one.intensity for _, one in found)]),
        np.repeat(fields["precursor_mz"], lengths),
    )
    record = np.array([number for number, _ in found], dtype=np.int64)
    return SpectraTable(spectra, fields, record, tuple(problems))


def _column(values: list[Any], name: str) -> np.ndarray:
    return np.array(values, dtype=np.float64 if name in _NUMBERS else object)
