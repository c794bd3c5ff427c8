"""Read MS/MS spectra from mzML: one `spectrum` element after the other, nothing else is held."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np

from .._numerics.validation import check_number
from .records import DAMAGED, Faults, opened, read_all
from .tables import SpectraTable, Spectrum, checked_peaks, normalised, table_of

__all__ = ["read_mzml"]

# Accessions of the controlled vocabulary of mass spectrometry.
_LEVEL, _MZ, _INTENSITY = "MS:1000511", "MS:1000514", "MS:1000515"
_SELECTED, _CHARGE, _ENERGY = "MS:1000744", "MS:1000041", "MS:1000045"
_POLARITY = {"MS:1000130": "positive", "MS:1000129": "negative"}
_TYPES = {"MS:1000523": "<f8", "MS:1000521": "<f4", "MS:1000522": "<i8", "MS:1000519": "<i4"}
_ZLIB, _PLAIN = "MS:1000574", "MS:1000576"


def read_mzml(
    path: Any, *, level: int = 2, on_error: str = "raise", limit: int | None = None
) -> SpectraTable:
    """Read the spectra of one level from an mzML file; it may be compressed.

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
    return table_of(*read_all(path, on_error, limit, partial(_spectra, level)))


def _spectra(level: int, path: Any, faults: Faults) -> Iterator[tuple[int, Spectrum]]:
    """Yield the spectra of a level with their numbers."""
    number = 0
    with opened(path) as stream:
        try:
            for number, element in enumerate(_elements(stream), 1):
                terms = _terms(element)
                if terms.get(_LEVEL) == str(level):
                    try:
                        found = _spectrum(element, terms)
                    except (zlib.error, binascii.Error) as error:
                        faults.add(number, 0, f"its arrays cannot be unpacked ({error}).")
                    except ValueError as error:
                        faults.add(number, 0, str(error))
                    else:
                        yield number, found
        except (ElementTree.ParseError, *DAMAGED) as error:
            faults.add(number + 1, 0, f"the file cannot be read from here on ({error}).")


def _elements(stream: Any) -> Iterator[ElementTree.Element]:
    """Yield the elements `spectrum`; each is forgotten when the next one is asked for."""
    for _, element in ElementTree.iterparse(stream):
        if element.tag.endswith("}spectrum") or element.tag == "spectrum":
            yield element
            element.clear()


def _terms(element: ElementTree.Element) -> dict[str, str]:
    """Return the terms of an element and of what is in it, but for the arrays."""
    return {
        found.get("accession", ""): found.get("value", "")
        for found in element.iter()
        if found.tag.endswith("cvParam")
    }


def _spectrum(element: ElementTree.Element, terms: dict[str, str]) -> Spectrum:
    """Return the peaks and the fields of one element."""
    arrays: dict[str, np.ndarray] = {}
    for part in element.iter():
        if part.tag.endswith("binaryDataArray"):
            own = _terms(part)
            arrays |= {name: _numbers(part, own) for name in (_MZ, _INTENSITY) if name in own}
    if len(arrays) < 2:
        raise ValueError("it has no array of m/z, or none of intensities.")
    mz, intensity = arrays[_MZ], arrays[_INTENSITY]
    if len(mz) != len(intensity):
        raise ValueError(f"it has {len(mz)} m/z values and {len(intensity)} intensities.")
    said = [name for accession, name in _POLARITY.items() if accession in terms]
    fields = {
        "identifier": element.get("id", ""),
        "precursor_mz": terms.get(_SELECTED, ""),
        "charge": terms.get(_CHARGE, ""),
        "polarity": said[0] if said else "",
        "collision_energy": terms.get(_ENERGY, ""),
    }
    return Spectrum(*checked_peaks(np.column_stack([mz, intensity])), normalised(fields))


def _numbers(part: ElementTree.Element, terms: dict[str, str]) -> np.ndarray:
    """Return the numbers of an array."""
    kind = next((dtype for accession, dtype in _TYPES.items() if accession in terms), None)
    if kind is None or not (_ZLIB in terms or _PLAIN in terms):
        raise ValueError(
            "its arrays are packed in a way that is not known here (numpress, say): write the "
            "file again with zlib, as msconvert does with --zlib."
        )
    text = next((inner.text or "" for inner in part if inner.tag.endswith("binary")), "")
    raw = base64.b64decode("".join(text.split()), validate=True)
    raw = zlib.decompress(raw) if raw and _ZLIB in terms else raw
    return np.frombuffer(raw, dtype=kind).astype(np.float64)
