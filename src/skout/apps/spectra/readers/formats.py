"""Which reader a file or a text of spectra needs."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from skout.dev import PACKED, ending

from .json import read_json
from .mzml import read_mzml
from .mzxml import read_mzxml
from .spectra import read_massbank, read_mgf, read_msp, read_sirius
from .tables import SpectraTable

Reader = Callable[..., SpectraTable]
_BY_ENDING: dict[str, Reader] = {
    ".mgf": read_mgf,
    ".msp": read_msp,
    ".msl": read_msp,
    ".mzml": read_mzml,
    ".mzxml": read_mzxml,
    ".json": read_json,
    ".ms": read_sirius,
    ".txt": read_massbank,
}
#: Endings of files of spectra, for messages.
ENDINGS = ".mgf, .msp, .msl, .mzML, .mzXML, .json (GNPS), .ms (SIRIUS) or .txt (MassBank)"
# What tells text formats from each other, in capitals.
_BY_MARK: list[tuple[str, Reader]] = [
    ("BEGIN IONS", read_mgf),
    ("PK$PEAK", read_massbank),
    ("NUM PEAKS", read_msp),
    ("NUMPEAKS", read_msp),
    (">PARENTMASS", read_sirius),
    ('"PEAKS_JSON"', read_json),
]
# Letters of a .txt file that its format is recognized by.
_HEAD = 2**20


def read_spectra_file(path: Path, on_error: str = "raise") -> SpectraTable:
    """Return the spectra of a file by its ending; a .txt file may be of any text format."""
    reader = _BY_ENDING.get(ending(path))
    if reader is None:
        raise ValueError(
            f"{path} must end in {ENDINGS}, or in one of these and {', '.join(PACKED)}."
        )
    if path.suffix.lower() == ".txt" and path.is_file():
        with open(path, "rb") as stream:
            text_reader = _by_mark(stream.read(_HEAD).decode("latin-1"))
        if text_reader is None:
            raise ValueError(
                f"{path} is no MGF (BEGIN IONS), MSP (Num Peaks), record of MassBank (PK$PEAK), "
                ".ms of SIRIUS (>parentmass) or JSON of GNPS (peaks_json). Peaks alone do not say "
                "the m/z of their precursor: put BEGIN IONS, PEPMASS=..., ADDUCT=[M+H]+ before "
                "them and END IONS behind, and call the file .mgf."
            )
        reader = text_reader
    return reader(path, on_error=on_error)


def read_spectra_text(text: str, limit: int) -> SpectraTable:
    """Return at most `limit` spectra of a text, whose format is recognized by its keywords."""
    reader = _by_mark(text)
    if reader is None:
        raise ValueError(
            "The text is no MGF, MSP, MassBank record, .ms of SIRIUS or JSON of GNPS with peaks."
        )
    return reader(io.BytesIO(text.encode()), limit=limit)


def _by_mark(text: str) -> Reader | None:
    capitals = text.upper()
    return next((reader for mark, reader in _BY_MARK if mark in capitals), None)
