"""Read spectra from text files: MGF, MSP, records of MassBank, .ms of SIRIUS; write MGF."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from skout.dev import replacing
from skout.readers import LIMITS
from skout.typing import PathLike

from .records import Faults, File, FileLike, lines_of, plain_number, read_all
from .tables import FIELDS, SpectraTable, Spectrum, checked_peaks, normalized, table_of

# Fields of a record.
_MOST_FIELDS = 10_000
_QUOTED = re.compile(r'"([^"]*)"')
_COLONS, _BETWEEN = re.compile(r"([^\s:]+):([^\s:]+)"), re.compile(r"[;()]")
# Commas between numbers, and a first number with a decimal comma.
_COMMAS = re.compile(r"(\.\d*(?:[eE][-+]?\d+)?),|,(?=\s|$)")
_DECIMAL_COMMA = re.compile(r"\d+,\d+\s")
_DIGITS = "0123456789"
# Fields that an MGF file may have before its first spectrum, for all that do not say theirs.
_OF_ALL = ("CHARGE", "IONMODE", "POLARITY", "ADDUCT", "PRECURSOR_TYPE")


@dataclass
class _Record:
    """A record while it is read."""

    line: int
    fields: dict[str, str] = field(default_factory=dict)
    peaks: array[float] = field(default_factory=lambda: array("d"))  # m/z, intensity, m/z, ...
    wanted: int | None = None  # peaks that the record says it has
    closed: bool = True
    size: int = 0  # letters

    def overfull(self, line: str) -> str | None:
        """Count a line; say so where a record is larger than records may be."""
        self.size += len(line)
        if self.size > LIMITS.record:
            return f"it has more than {LIMITS.record:,} letters."
        if len(self.fields) > _MOST_FIELDS:
            return f"it has more than {_MOST_FIELDS:,} fields."
        return None

    def add(self, name: str, value: str) -> None:
        """Keep a field; of fields of one name the first."""
        self.fields.setdefault(name.strip(), value.strip())

    def add_peaks(self, text: str) -> None:
        """Keep the peaks of a line: "70 10", "70 10; 76 35", "70:10 76:35" or "(70 10) (76 35)".

        Commas may stand between numbers, "70.05, 10", or for points, "70,05 10".
        """
        text = _QUOTED.sub("", text)
        if "," in text:
            is_decimal = "." not in text and _DECIMAL_COMMA.match(text)
            text = text.replace(",", ".") if is_decimal else _COMMAS.sub(r"\1 ", text)
        text = _COLONS.sub(r"\1 \2;", text) if ":" in text else text
        for pair in _BETWEEN.split(text):
            words = pair.split()
            if words:
                self.peaks.extend((plain_number(words[0]), plain_number(words[1])))

    def spectrum(self) -> Spectrum:
        """Return what was read, or say what is missing."""
        if not self.closed:
            raise ValueError("the file ends inside it.")
        n_peaks = len(self.peaks) // 2
        if self.wanted is not None and self.wanted != n_peaks:
            raise ValueError(f"it says it has {self.wanted} peaks. Got {n_peaks}.")
        return Spectrum(*checked_peaks(self.peaks), normalized(self.fields))


Records = Callable[[Iterator[tuple[int, str]]], Iterator[tuple[_Record, str | None]]]


def _mgf(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[_Record, str | None]]:
    """Yield what stands between BEGIN IONS and END IONS, and what is wrong with it."""
    record, fault = None, None
    shared: dict[str, str] = {}
    for number, line in lines:
        word = line.upper()
        if word == "BEGIN IONS":
            if record is not None:
                yield record, fault or "it has no END IONS."
            record, fault = _Record(number, closed=False), None
        elif record is None:
            name, _, value = line.partition("=")
            if name.strip().upper() in _OF_ALL:
                shared = {**shared, name.strip().upper(): value}
        elif word == "END IONS":
            record.closed = True
            for name, value in shared.items():
                record.add(name, value)
            yield record, fault
            record = None
        elif line and line[0] not in "#;!/":  # these begin comments
            fault = fault or _kept(record, line, "=", peaks=line[0] in _DIGITS + ".+-")
    if record is not None:
        yield record, fault


def _msp(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[_Record, str | None]]:
    """Yield the records between empty lines; after "Num Peaks: n" come the peaks, then a name.

    Comments such as "SMILES=CCO", in quotes, are fields too: MoNA has molecules there. "Num Peaks"
    may be missing, or have an empty line behind it.
    """
    record, fault = None, None
    for number, line in lines:
        name, colon, value = line.partition(":")
        word = name.strip().lower()
        awaits_peaks = record is not None and record.wanted and not record.peaks
        is_new = word == "name" and record is not None and record.wanted is not None
        if record is not None and (is_new or (not line and not awaits_peaks)):
            yield record, fault
            record, fault = None, None
        if not line:
            continue
        record = record or _Record(number)
        if colon and word in ("num peaks", "numpeaks", "num_peaks"):
            record.wanted = _count(value)
            if record.wanted is None:
                fault = fault or f"its number of peaks is no number, {value.strip()!r}."
        else:
            is_peak = record.wanted is not None or (not colon and line[0] in _DIGITS)
            fault = fault or _kept(record, line, ":", peaks=is_peak)
        if word in ("comment", "comments"):
            for text in _QUOTED.findall(value):
                record.add(*text.partition("=")[::2])
    if record is not None:
        yield record, fault


def _massbank(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[_Record, str | None]]:
    """Yield the records that end with //; of AC$ fields the first word is the name."""
    record, fault, in_peaks = None, None, False
    for number, line in lines:
        if line == "//":
            if record is not None:
                record.closed = True
                yield record, fault
            record, fault, in_peaks = None, None, False
            continue
        if not line:
            continue
        record = record or _Record(number, closed=False)
        if line.startswith("PK$PEAK"):
            in_peaks = True
        elif in_peaks:
            fault = fault or _kept(record, line, ":", peaks=True)
        else:
            fault = fault or _massbank_field(record, line)
    if record is not None:
        yield record, fault


def _sirius(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[_Record, str | None]]:
    """Yield the MS/MS spectra of compounds; a line with > begins a compound, a field or peaks."""
    shared: dict[str, str] = {}
    record, fault = None, None
    for number, line in lines:
        name, _, value = line.lstrip(">").strip().partition(" ")
        if line.startswith(">"):
            if record is not None:
                yield record, fault
            record, fault = None, None
            if name in ("compound", "name"):
                shared = {"compound": value}
            elif name in ("ms2", "ms2peaks", "collision"):
                record = _Record(number, {**shared, "collision_energy": value})
            else:
                shared = {**shared, _SIRIUS_NAMES.get(name, name): value}
        elif line and record is not None and line[0] != "#":
            fault = fault or _kept(record, line, " ", peaks=True)
    if record is not None:
        yield record, fault


_SIRIUS_NAMES = {"parentmass": "precursor_mz", "ionization": "adduct", "rt": "rtinseconds"}
# Fields of MassBank whose value begins with the name of what it is.
_NAMED_INSIDE = (
    "AC$MASS_SPECTROMETRY",
    "AC$ANALYTICAL_CONDITION",  # before 2011
    "AC$CHROMATOGRAPHY",
    "MS$FOCUSED_ION",
    "CH$LINK",
)


def _massbank_field(record: _Record, line: str) -> str | None:
    """Keep a field of a record; return what is wrong with it."""
    name, _, value = line.partition(": ")
    if name == "PK$NUM_PEAK":
        record.wanted = _count(value)
    elif name in _NAMED_INSIDE:
        record.add(*value.partition(" ")[::2])
    else:
        record.add(name.partition("$")[2] or name, value)
    return record.overfull(line)


def _count(text: str) -> int | None:
    """Return a number of peaks, None for another text."""
    return int(text) if re.fullmatch(r"\s*[0-9]{1,9}\s*", text) else None


def _kept(record: _Record, line: str, sign: str, *, peaks: bool) -> str | None:
    """Keep a line of a record; return what is wrong with it."""
    fault = record.overfull(line)
    if fault is not None:
        return fault
    if peaks:
        try:
            record.add_peaks(line)
        except (ValueError, IndexError):
            return f"its line {line[:60]!r} is no peak."
        return None
    name, separator, value = line.partition(sign if sign in line else ":")
    if not separator:
        return f"its line {line[:60]!r} is neither a field nor a peak."
    record.add(name, value)
    return None


def _is_survey(fields: dict[str, str]) -> bool:
    """Return whether a record says that it is of MS level 1, as mzmine writes beside MS/MS."""
    levels = (value for name, value in fields.items() if re.fullmatch("(?i)ms_?level", name))
    return any(value in ("1", "MS1") for value in levels)


def _spectra(records: Records, path: File, faults: Faults) -> Iterator[tuple[int, Spectrum]]:
    """Yield the whole records of a file with their numbers."""
    for number, (record, fault) in enumerate(records(lines_of(path, faults)), 1):
        try:
            if _is_survey(record.fields):
                faults.met["spectra of MS level 1"] += 1
                continue
            if fault is not None:
                raise ValueError(fault)
            spectrum = record.spectrum()
        except ValueError as error:
            faults.add(number, record.line, str(error))
        else:
            yield number, spectrum


def read_mgf(path: FileLike, *, on_error: str = "raise", limit: int | None = None) -> SpectraTable:
    """Read spectra from a file in the Mascot generic format.

    Parameters
    ----------
    path : path, or binary file
        The file; at a path it may be compressed: .gz, .bz2 or .xz. UTF-8, UTF-16 or Latin-1; lines
        end in LF, CR LF or CR.
    on_error : "raise" or "skip", default "raise"
        Whether a damaged record stops, or is left out with a warning.
    limit : int, optional
        Stop after so many spectra.

    Returns
    -------
    table : SpectraTable

    Raises
    ------
    ValueError
        If a record is damaged: it says which one, the line and what is wrong. If there is no
        spectrum: it says what the file has instead. If a line, a record or a compressed file is
        larger than `skout.readers.LIMITS` allow.

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.readers import read_mgf
    >>> text = b"BEGIN IONS\\nPEPMASS=195.0877\\nADDUCT=[M+H]+\\n110.07 5\\n138.06 99\\nEND IONS\\n"
    >>> table = read_mgf(BytesIO(text))
    >>> table
    SpectraTable(1 spectra, precursor_mz, adduct, polarity)
    >>> table.neutral_mass().round(3)
    array([194.08])
    """
    what = "spectrum, from BEGIN IONS to END IONS,"
    return read_all(path, on_error, limit, partial(_spectra, _mgf), table_of, what)


def read_msp(path: FileLike, *, on_error: str = "raise", limit: int | None = None) -> SpectraTable:
    """Read spectra from a file in the format of NIST libraries.

    Parameters
    ----------
    path : path, or binary file
    on_error : "raise" or "skip", default "raise"
    limit : int, optional
        See `read_mgf`.

    Returns
    -------
    table : SpectraTable

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.readers import read_msp
    >>> text = b"Name: caffeine\\nPrecursorMZ: 195.0877\\nNum Peaks: 2\\n110.07 5\\n138.06 100\\n"
    >>> read_msp(BytesIO(text))["name"]
    array(['caffeine'], dtype=object)
    """
    return read_all(path, on_error, limit, partial(_spectra, _msp), table_of, "spectrum")


def read_massbank(
    path: FileLike, *, on_error: str = "raise", limit: int | None = None
) -> SpectraTable:
    """Read spectra from a file of MassBank records, one or several.

    Parameters
    ----------
    path : path, or binary file
    on_error : "raise" or "skip", default "raise"
    limit : int, optional
        See `read_mgf`.

    Returns
    -------
    table : SpectraTable

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.readers import read_massbank
    >>> text = b"ACCESSION: X1\\nPK$NUM_PEAK: 1\\nPK$PEAK: m/z int.\\n  138.06 100 999\\n//\\n"
    >>> read_massbank(BytesIO(text))["identifier"]
    array(['X1'], dtype=object)
    """
    return read_all(path, on_error, limit, partial(_spectra, _massbank), table_of, "spectrum")


def read_sirius(
    path: FileLike, *, on_error: str = "raise", limit: int | None = None
) -> SpectraTable:
    """Read the MS/MS spectra of a file in the format of SIRIUS, .ms.

    Parameters
    ----------
    path : path, or binary file
    on_error : "raise" or "skip", default "raise"
    limit : int, optional
        See `read_mgf`.

    Returns
    -------
    table : SpectraTable
        Spectra of one compound, of several energies say, have its name in "compound".

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.readers import read_sirius
    >>> text = (
    ...     b">compound A\\n>parentmass 195.0877\\n>ionization [M+H]+\\n>collision 20\\n138.06 9\\n"
    ... )
    >>> read_sirius(BytesIO(text))
    SpectraTable(1 spectra, compound, precursor_mz, adduct, polarity, collision_energy)
    """
    return read_all(path, on_error, limit, partial(_spectra, _sirius), table_of, "MS/MS spectrum")


def write_mgf(path: PathLike, table: SpectraTable) -> Path:
    """Write spectra to an MGF file, which appears when all is written.

    Parameters
    ----------
    path : path
    table : SpectraTable

    Returns
    -------
    path : Path

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from skout.readers import read_mgf, spectra_table, write_mgf
    >>> with TemporaryDirectory() as folder:
    ...     path = write_mgf(f"{folder}/a.mgf", spectra_table([([138.06], [100.0], 195.0877)]))
    ...     read_mgf(path)["precursor_mz"]
    array([195.0877])
    """
    place: Path = Path(path).expanduser()
    with replacing(place) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        for i in range(len(table)):
            stream.write(_as_mgf(table, i))
    return place


_MGF_NAMES = {
    "precursor_mz": "PEPMASS",
    "identifier": "TITLE",
    "retention_time": "RTINSECONDS",
}


def _as_mgf(table: SpectraTable, i: int) -> str:
    """Return the text of one spectrum."""
    lines = ["BEGIN IONS"]
    for name in FIELDS:
        value = table.fields[name][i]
        known = np.isfinite(value) if isinstance(value, float) else value != ""
        if known:
            text = repr(float(value)) if isinstance(value, float) else " ".join(value.split())
            lines.append(f"{_MGF_NAMES.get(name, name.upper())}={text}")
    rows = slice(table.spectra.indptr[i], table.spectra.indptr[i + 1])
    peaks = zip(table.spectra.mz[rows], table.spectra.intensity[rows], strict=True)
    lines += [f"{float(mz)!r} {float(value)!r}" for mz, value in peaks]
    return "\n".join([*lines, "END IONS", "", ""])
