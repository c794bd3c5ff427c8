"""Read spectra from JSON as GNPS and matchms write it: a list of objects with `peaks_json`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from skout.dev import opened

from .records import Faults, File, FileLike, read_all
from .tables import SpectraTable, Spectrum, checked_peaks, normalized, table_of


def read_json(path: FileLike, *, on_error: str = "raise", limit: int | None = None) -> SpectraTable:
    """Read spectra from a JSON file as GNPS and matchms write it.

    Parameters
    ----------
    path : path, or binary file
        A list of objects, whose `peaks_json`, or `peaks`, are pairs of m/z and intensity.
    on_error : "raise" or "skip", default "raise"
    limit : int, optional
        See `read_mgf`.

    Returns
    -------
    table : SpectraTable

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.readers import read_json
    >>> text = b'[{"spectrum_id": "X1", "Precursor_MZ": "195.0877", "peaks_json": "[[138.06, 9]]"}]'
    >>> read_json(BytesIO(text))
    SpectraTable(1 spectra, identifier, precursor_mz)
    """
    return read_all(path, on_error, limit, _spectra, table_of, "spectrum, in a list of objects,")


def _spectra(path: File, faults: Faults) -> Iterator[tuple[int, Spectrum]]:
    with opened(path) as stream:
        try:
            records = json.loads(stream.read())
        except (ValueError, RecursionError) as error:
            faults.add(0, 1, f"the file is no JSON ({error}).")
            return
    for number, record in enumerate(records if isinstance(records, list) else [records], 1):
        try:
            yield number, _spectrum(record)
        except (ValueError, TypeError) as error:
            faults.add(number, 0, str(error))


def _spectrum(record: object) -> Spectrum:
    if not isinstance(record, dict):
        raise ValueError("it is no object with fields.")
    peaks = record.get("peaks_json", record.get("peaks"))
    if peaks is None:
        raise ValueError("it has no peaks_json.")
    pairs = json.loads(peaks) if isinstance(peaks, str) else peaks
    texts = {str(k): str(v) for k, v in record.items() if isinstance(v, str | int | float)}
    return Spectrum(*checked_peaks(pairs), normalized(texts))
