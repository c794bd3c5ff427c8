"""Read MS/MS spectra from mzML: one `spectrum` element after the other, nothing else is held."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO
from xml.etree import ElementTree

import numpy as np

from skout.dev import LimitError, check_number
from skout.readers import LIMITS

from .elements import MOST_ELEMENTS, decoded, is_named, spectra_of, xml_events
from .records import Faults, File, FileLike, read_all
from .tables import SpectraTable, Spectrum, checked_peaks, normalized, table_of

# Accessions of the controlled vocabulary of mass spectrometry.
_LEVEL, _MZ, _INTENSITY = "MS:1000511", "MS:1000514", "MS:1000515"
_SELECTED, _CHARGE, _ENERGY = "MS:1000744", "MS:1000041", "MS:1000045"
_TIME, _MINUTE = "MS:1000016", "UO:0000031"
_POLARITY = {"MS:1000130": "positive", "MS:1000129": "negative"}
_TYPES = {"MS:1000523": "<f8", "MS:1000521": "<f4", "MS:1000522": "<i8", "MS:1000519": "<i4"}
_ZLIB, _PLAIN = "MS:1000574", "MS:1000576"
_SEVERAL = "spectra have several selected ions: precursor and charge are those of the first."
# Groups of terms that spectra refer to, by their names.
Groups = dict[str, dict[str, str]]


def read_mzml(
    path: FileLike, *, level: int = 2, on_error: str = "raise", limit: int | None = None
) -> SpectraTable:
    """Read the spectra of one level from an mzML file; it may be compressed.

    Terms may stand in a `referenceableParamGroup`. Of several selected ions the first counts, and
    of several precursors the first: the lists are ordered. A warning says how many spectra have
    several ions.

    Parameters
    ----------
    path : path
    level : int, default 2
        2 is MS/MS.
    on_error : "raise" or "skip", default "raise"
    limit : int, optional
        See `read_mgf`.

    Returns
    -------
    table : SpectraTable

    Examples
    --------
    >>> from skout.readers import read_mzml
    >>> read_mzml("run.mzML.gz")  # doctest: +SKIP
    SpectraTable(5120 spectra, identifier, precursor_mz, charge, polarity, collision_energy)
    """
    check_number(level, "level", low=1, integer=True)
    what = f"spectrum of MS level {level}"
    return read_all(path, on_error, limit, partial(_spectra, level), table_of, what)


def _spectra(level: int, path: File, faults: Faults) -> Iterator[tuple[int, Spectrum]]:
    """Yield the spectra of a level with their numbers."""
    groups = Groups()

    def level_of(element: ElementTree.Element) -> str:
        return _terms_within(element, groups).get(_LEVEL, "unknown")

    def read(element: ElementTree.Element) -> Spectrum:
        ions = [part for part in element.iter() if is_named(part, "selectedIon")]
        spectrum = _spectrum(element, groups, ions)
        faults.notes.update([_SEVERAL] if len(ions) > 1 else [])
        return spectrum

    return spectra_of(partial(_elements, groups=groups), level_of, read, level, path, faults)


def _elements(stream: IO[bytes], groups: Groups) -> Iterator[ElementTree.Element]:
    """Yield the elements `spectrum`, and put the groups of terms before them into `groups`.

    What is read is forgotten: there is one spectrum in memory.
    """
    above: list[ElementTree.Element] = []  # elements that are open
    inside = parts = start = 0  # open elements of a spectrum or a group; elements; where they begin
    for place, event, element in xml_events(stream):
        if event == "start":
            above.append(element)
            inside += bool(inside) or is_named(element, "spectrum", "referenceableParamGroup")
            parts += 1
        elif event == "end":
            above.pop()
            inside -= bool(inside)
            if inside:
                continue
            if is_named(element, "spectrum"):
                yield element
            elif is_named(element, "referenceableParamGroup"):
                groups[element.get("id", "")] = _terms(element, groups)
            if above:
                above[-1].clear()
            parts, start = 0, place
        if place - start > LIMITS.spectrum:
            raise LimitError(f"a spectrum has more than {LIMITS.spectrum:,} bytes")
        if parts > MOST_ELEMENTS:
            raise LimitError(f"a spectrum has more than {MOST_ELEMENTS:,} elements")


def _terms(element: ElementTree.Element, groups: Groups) -> dict[str, str]:
    """Return the terms of an element and of the groups that it refers to; the first of a kind."""
    terms: dict[str, str] = {}
    for part in element:
        if is_named(part, "cvParam"):
            terms.setdefault(part.get("accession", ""), part.get("value", ""))
        elif is_named(part, "referenceableParamGroupRef"):
            name = part.get("ref", "")
            if name not in groups:
                raise ValueError(f"it refers to a group of terms that the file has not, {name!r}.")
            terms = groups[name] | terms
    return terms


def _terms_within(element: ElementTree.Element, groups: Groups) -> dict[str, str]:
    """Return the terms of an element and of what is in it; the first of a kind."""
    terms: dict[str, str] = {}
    for part in element.iter():
        terms = _terms(part, groups) | terms
    return terms


def _spectrum(
    element: ElementTree.Element, groups: Groups, ions: list[ElementTree.Element]
) -> Spectrum:
    """Return the peaks and the fields of one element."""
    terms = _terms_within(element, groups)
    arrays: dict[str, np.ndarray] = {}
    for part in element.iter():
        if is_named(part, "binaryDataArray"):
            array_terms = _terms(part, groups)
            arrays |= {
                name: _numbers(part, array_terms)
                for name in (_MZ, _INTENSITY)
                if name in array_terms
            }
    if len(arrays) < 2:
        raise ValueError("it has no array of m/z, or none of intensities.")
    mz, intensity = arrays[_MZ], arrays[_INTENSITY]
    if len(mz) != len(intensity):
        raise ValueError(f"it has {len(mz)} m/z values and {len(intensity)} intensities.")
    said = [name for accession, name in _POLARITY.items() if accession in terms]
    ion = _terms(ions[0], groups) if ions else terms
    fields = {
        "identifier": element.get("id", ""),
        "precursor_mz": ion.get(_SELECTED, ""),
        "charge": ion.get(_CHARGE, ""),
        "polarity": said[0] if said else "",
        "collision_energy": terms.get(_ENERGY, ""),
        "retention_time": _time(element),
    }
    return Spectrum(*checked_peaks(np.column_stack([mz, intensity])), normalized(fields))


def _time(element: ElementTree.Element) -> str:
    """Return when the scan began, with its unit."""
    for part in element.iter():
        if is_named(part, "cvParam") and part.get("accession") == _TIME:
            unit = "min" if part.get("unitAccession") == _MINUTE else "s"
            return f"{part.get('value', '')} {unit}"
    return ""


def _numbers(part: ElementTree.Element, terms: dict[str, str]) -> np.ndarray:
    """Return the numbers of an array."""
    kind = next((dtype for accession, dtype in _TYPES.items() if accession in terms), None)
    if kind is None or not (_ZLIB in terms or _PLAIN in terms):
        raise ValueError(
            "its arrays are packed by a method that is not known here (numpress, say): write the "
            "file again with zlib, as msconvert does with --zlib."
        )
    text = next((inner.text or "" for inner in part if is_named(inner, "binary")), "")
    return decoded(text, kind, packed=_ZLIB in terms)
