"""Read MS/MS spectra from mzXML: one `scan` element after the other, nothing else is held."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO, Any
from xml.etree import ElementTree

from skout.dev import LimitError, check_number
from skout.readers import LIMITS

from .elements import MOST_ELEMENTS, decoded, is_named, spectra_of, xml_events
from .records import Faults, File, FileLike, read_all
from .tables import SpectraTable, Spectrum, checked_peaks, normalized, table_of

# Pairs of m/z and intensity, numbers in network order.
_TYPES = {"32": ">f4", "64": ">f8"}
_PACKED = {"": False, "none": False, "zlib": True}


def read_mzxml(
    path: FileLike, *, level: int = 2, on_error: str = "raise", limit: int | None = None
) -> SpectraTable:
    """Read the spectra of one level from an mzXML file; it may be compressed.

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
    >>> from io import BytesIO
    >>> from skout.readers import read_mzxml
    >>> scan = b'<scan num="7" msLevel="2" polarity="+"><precursorMz>195.0877</precursorMz>'
    >>> peaks = b'<peaks precision="32">QwoQ8kLIAABC3CSDQkgAAA==</peaks></scan>'
    >>> read_mzxml(BytesIO(b"<mzXML><msRun>" + scan + peaks + b"</msRun></mzXML>"))
    SpectraTable(1 spectra, identifier, precursor_mz, polarity)
    """
    check_number(level, "level", low=1, integer=True)
    what = f"spectrum of MS level {level}"
    return read_all(path, on_error, limit, partial(_spectra, level), table_of, what)


def _spectra(level: int, path: File, faults: Faults) -> Iterator[tuple[int, Spectrum]]:
    def level_of(element: ElementTree.Element) -> str:
        return element.get("msLevel", "unknown")

    return spectra_of(_scans, level_of, _spectrum, level, path, faults)


def _scans(stream: IO[bytes]) -> Iterator[ElementTree.Element]:
    """Yield the elements `scan`, those within another one first, and forget them."""
    above: list[ElementTree.Element] = []  # elements that are open
    parts = start = 0  # elements since the last scan; where they begin
    for place, event, element in xml_events(stream):
        if event == "start":
            above.append(element)
            parts += 1
        elif event == "end":
            above.pop()
            is_scan = is_named(element, "scan")
            if is_scan:
                yield element
                element.clear()
            if above and is_scan and is_named(above[-1], "scan"):
                above[-1].remove(element)
            elif above and not any(is_named(ancestor, "scan") for ancestor in above):
                above[-1].clear()
            else:
                continue
            parts, start = 0, place
        if place - start > LIMITS.spectrum:
            raise LimitError(f"a spectrum has more than {LIMITS.spectrum:,} bytes")
        if parts > MOST_ELEMENTS:
            raise LimitError(f"a spectrum has more than {MOST_ELEMENTS:,} elements")


def _spectrum(element: ElementTree.Element) -> Spectrum:
    """Return the peaks and the fields of one scan; of several precursors the first counts."""
    peaks = [part for part in element if is_named(part, "peaks")]
    if element.get("peaksCount") == "0" or not peaks or not (peaks[0].text or "").strip():
        raise ValueError("it has no peaks.")
    precursors = [part for part in element if is_named(part, "precursorMz")]
    precursor = precursors[0] if precursors else ElementTree.Element("")
    fields = {
        "identifier": f"scan={element.get('num', '')}",
        "precursor_mz": precursor.text or "",
        "charge": precursor.get("precursorCharge", ""),
        "polarity": element.get("polarity", ""),
        "collision_energy": element.get("collisionEnergy", ""),
        "retention_time": element.get("retentionTime", ""),
    }
    return Spectrum(*checked_peaks(_pairs(peaks[0])), normalized(fields))


def _pairs(peaks: ElementTree.Element) -> Any:
    """Return the numbers of an array, m/z and intensity in turn."""
    order = peaks.get("contentType") or peaks.get("pairOrder") or "m/z-int"
    dtype = _TYPES.get(peaks.get("precision", "32"))
    packed = _PACKED.get(peaks.get("compressionType", ""))
    if order != "m/z-int" or dtype is None or packed is None:
        raise ValueError(
            "its peaks are packed by a method that is not known here: write the file again as "
            "mzML, as msconvert does."
        )
    numbers = decoded(peaks.text or "", dtype, packed=packed)
    if len(numbers) % 2:
        raise ValueError(f"its peaks have {len(numbers)} numbers: one of a pair is missing.")
    return numbers
