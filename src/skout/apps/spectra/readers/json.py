"""Read spectra from JSON: lists of objects, as GNPS, matchms and MoNA write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from skout.dev import opened

from .records import Faults, File, FileLike, read_all
from .tables import SpectraTable, Spectrum, checked_peaks, normalized, table_of


def read_json(path: FileLike, *, on_error: str = "raise", limit: int | None = None) -> SpectraTable:
    """Read spectra from a JSON file as GNPS, matchms and MoNA write it.

    Parameters
    ----------
    path : path, or binary file
        A list of objects, whose `peaks_json`, or `peaks`, are pairs of m/z and intensity; of MoNA
        `spectrum` is a text, "110.07:5 138.06:100".
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
    if peaks is None and isinstance(record.get("spectrum"), str):
        peaks = [pair.split(":") for pair in record["spectrum"].split()]
        record = {**_of_mona(record), **record}
    if peaks is None:
        raise ValueError("it has no peaks_json.")
    pairs = json.loads(peaks) if isinstance(peaks, str) else peaks
    texts = {str(k): str(v) for k, v in record.items() if isinstance(v, str | int | float)}
    return Spectrum(*checked_peaks(pairs), normalized(texts))


def _of_mona(record: dict[str, Any]) -> dict[str, Any]:
    """Return what MoNA says of a spectrum and of its first molecule, by names."""
    try:
        molecule = (record.get("compound") or [{}])[0]
        facts = [*(record.get("metaData") or []), *(molecule.get("metaData") or [])]
        first_name = (molecule.get("names") or [{}])[0].get("name")
        named = {str(fact.get("name")): fact.get("value") for fact in facts}
        return named | {"name": first_name, "inchikey": molecule.get("inchiKey")}
    except (AttributeError, LookupError, TypeError):
        raise ValueError("its compound or metaData is not as MoNA writes it.") from None
