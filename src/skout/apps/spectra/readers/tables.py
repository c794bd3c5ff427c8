"""Spectra with what is known about each, as readers return them."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from skout.dev import Spectra, check_choice, read_spectra

from .adducts import neutral_mass, parse_adduct, written
from .records import Problem, plain_number

#: What is known about a spectrum, whatever a file calls it: names in lower case without signs.
FIELDS: dict[str, tuple[str, ...]] = {
    "identifier": (
        "identifier",
        "accession",
        "spectrumid",
        "featureid",
        "scans",
        "id",
        "db",
        "title",
    ),
    "compound": ("compoundid", "compound", "featureid"),
    "name": ("name", "compoundname", "names", "synon"),
    "precursor_mz": (
        "precursormz",
        "pepmass",
        "precursor",
        "precursormass",
        "precursorion",
        "parentmass",
        "parention",
        "mz",
    ),
    "adduct": ("adduct", "adducttype", "precursortype", "iontype", "ion"),
    "charge": ("charge",),
    "polarity": ("polarity", "ionmode", "ionizationmode", "ionpolarity", "scanpolarity", "mode"),
    "retention_time": ("rtinseconds", "rtinminutes", "retentiontime", "rt"),
    "collision_energy": ("collisionenergy", "ce"),
    "instrument": ("instrumenttype", "instrument", "sourceinstrument"),
    "formula": ("formula", "molecularformula"),
    "smiles": ("smiles", "computedsmiles"),
    "inchikey": ("inchikey", "computedinchikey"),
    "laboratory": ("laboratory", "contributor", "pi", "datacollector"),
}
_NUMBERS = ("precursor_mz", "collision_energy", "retention_time")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+")
# MassBank names the laboratory in the accession: MSBNK-Athens_Univ-AU100601.
_ACCESSION = re.compile(r"MSBNK-(\w+)-\w+", re.ASCII)
# Times are minutes, as MS-DIAL and MassBank write them, unless the name or a unit says seconds.
_TIME = re.compile(r"(?:PT)?([0-9.]+)\s*(s|sec|seconds?|m|min|minutes?)?", re.ASCII | re.IGNORECASE)
# Polarities: P, Pos, positive, "Positive-20eV", ESI+, ESI(-).
_POSITIVE, _NEGATIVE = (
    re.compile(rf"{word[0]}|{word[:3]}.*|.*{word}.*|.*\{sign}\)?", re.IGNORECASE)
    for word, sign in (("positive", "+"), ("negative", "-"))
)
_NOTHING = ("", "n/a", "na", "nan", "none", "null", "unknown", "?")


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
        "precursor_mz", "collision_energy" and "retention_time", in seconds, are numbers, NaN where
        not known; "identifier", "compound", "name", "adduct", "charge", "polarity", "instrument",
        "formula", "smiles", "inchikey" and "laboratory" are texts, "" where not known. Spectra of
        one compound have its "compound" in common.
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

    def take(self, rows: Sequence[int] | np.ndarray | slice) -> SpectraTable:
        """Return the spectra of these rows.

        Parameters
        ----------
        rows : sequence of int, or slice
        """
        index = np.arange(len(self))[rows]
        fields = {name: values[index] for name, values in self.fields.items()}
        return SpectraTable(self.spectra[index], fields, self.record[index], self.problems)


def _known(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).any() if values.dtype == np.float64 else (values != "").any())


def normalized(raw_fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a record by the names of `FIELDS`; the first alias with a value counts.

    A precursor m/z that is no positive number is an error.
    """
    known = [(key, value.strip()) for key, value in raw_fields.items() if value.strip()]
    plain = {re.sub(r"[^a-z]", "", key.lower()): value for key, value in reversed(known)}
    fields: dict[str, Any] = {}
    for name, aliases in FIELDS.items():
        values = (plain.get(alias, "") for alias in aliases)
        fields[name] = next((v for v in values if v.lower() not in _NOTHING), "")
    fields["precursor_mz"] = _precursor(fields["precursor_mz"])
    number = _NUMBER.search(fields["collision_energy"])
    fields["collision_energy"] = float(number[0]) if number else math.nan
    fields["retention_time"] = _seconds(fields["retention_time"], "rtinseconds" in plain)
    if fields["adduct"].startswith("[M+?]"):  # SIRIUS knows its charge alone
        fields["adduct"], fields["charge"] = "", fields["adduct"][5:]
    if not fields["adduct"]:
        fields["name"], fields["adduct"] = _name_and_adduct(fields["name"])
    if not fields["adduct"] and "[" in fields["identifier"]:
        fields["adduct"] = _name_and_adduct(fields["identifier"])[1]
    fields["adduct"] = written(fields["adduct"], _said(fields["polarity"]))
    fields["polarity"] = _polarity(fields)
    accession = _ACCESSION.fullmatch(fields["identifier"])
    fields["laboratory"] = fields["laboratory"] or (accession[1] if accession else "")
    return fields


def _name_and_adduct(name: str) -> tuple[str, str]:
    """Return a name and the adduct at its end, as GNPS has it ("Caffeine M+H"), or ""."""
    start = max(name.rfind("["), name.rfind(" ") + 1)
    try:
        parse_adduct(name[start:])
    except ValueError:
        return name, ""
    return name[:start].rstrip(" _-;,"), name[start:]


def _precursor(text: str) -> float:
    """Return the first number, since PEPMASS may have an intensity behind it: (195.0877, 1e5)."""
    if not text:
        return math.nan
    first = re.split(r"[\s;]|,\s", text.strip("()[] "))[0]
    try:
        value = plain_number(_with_point(first))
    except ValueError:
        raise ValueError(f"its precursor m/z is no number, {text!r}.") from None
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"its precursor m/z must be a positive number. Got {text!r}.")
    return value or math.nan


def _with_point(number: str) -> str:
    """Return a number with a point for a decimal comma."""
    return number if "." in number else number.replace(",", ".", 1)


def _seconds(text: str, in_seconds: bool) -> float:
    """Return a retention time in seconds; NaN where it is not known, as for -1."""
    time = _TIME.fullmatch(_with_point(text.strip()))
    try:
        value = float(time[1]) if time else math.nan
    except ValueError:  # several points
        return math.nan
    unit = (time[2] or "") if time else ""
    in_seconds = in_seconds or unit.lower().startswith("s")
    return (value if in_seconds else 60.0 * value) or math.nan


def _polarity(fields: Mapping[str, str]) -> str:
    """Return "positive", "negative" or "", from the polarity, the adduct or the charge."""
    said = _said(fields["polarity"])
    if said:
        return said
    adduct = fields["adduct"]
    charge = adduct.rpartition("]")[2] if "]" in adduct else adduct[-1:]  # [M]+* is a radical
    text = charge or fields["charge"]
    signs = [sign for sign in "+-" if sign in text]
    return {"+": "positive", "-": "negative"}.get("".join(signs), "")


def _said(text: str) -> str:
    """Return "positive", "negative" or "" from the polarity as a file writes it."""
    if _POSITIVE.fullmatch(text):
        return "positive"
    return "negative" if _NEGATIVE.fullmatch(text) else ""


def checked_peaks(pairs: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return m/z and intensities of pairs, sorted by m/z; peaks that cannot be are an error."""
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


def table_of(records: Iterable[tuple[int, Spectrum]]) -> SpectraTable:
    """Return a table of numbered records, which are taken one at a time."""
    numbers, lengths, peaks = array("q"), array("q"), (array("d"), array("d"))
    columns: dict[str, Any] = {name: array("d") if name in _NUMBERS else [] for name in FIELDS}
    for number, spectrum in records:
        numbers.append(number)
        lengths.append(len(spectrum.mz))
        for whole, part in zip(peaks, (spectrum.mz, spectrum.intensity), strict=True):
            whole.frombytes(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        for name, values in columns.items():
            values.append(spectrum.fields[name])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    fields = {name: _column(values, name) for name, values in columns.items()}
    precursor = np.repeat(fields["precursor_mz"], lengths)
    mz, intensity = (np.asarray(whole, dtype=np.float64) for whole in peaks)
    spectra = Spectra(indptr, mz, intensity, precursor)
    return SpectraTable(spectra, fields, np.array(numbers, dtype=np.int64))


#: Spectra: a table, rows, or a list of (mz, intensity, precursor_mz), dicts or matchms spectra.
SpectraLike: TypeAlias = SpectraTable | Spectra | Sequence[Any]


def spectra_table(spectra: SpectraLike, **fields: Any) -> SpectraTable:
    """Return spectra with what is known of each, as readers of files do.

    Parameters
    ----------
    spectra : SpectraTable, Spectra, or list
        Of (mz, intensity, precursor_mz), dicts, or spectra of matchms; what dicts and metadata
        say is kept.
    **fields
        "smiles", "adduct", "name" ... as a `SpectraTable` has them: one value for each spectrum,
        or one for all.

    Returns
    -------
    table : SpectraTable

    Examples
    --------
    >>> from skout.readers import spectra_table
    >>> caffeine = ([110.0713, 138.0662], [50.0, 999.0], 195.0877)
    >>> table = spectra_table([caffeine], adduct="[M+H]+", name=["caffeine"])
    >>> table
    SpectraTable(1 spectra, name, precursor_mz, adduct)
    >>> table.neutral_mass().round(3)
    array([194.08])
    """
    table = spectra if isinstance(spectra, SpectraTable) else _read_table(spectra)
    columns = dict(table.fields)
    for name, value in fields.items():
        check_choice(name, "fields", tuple(FIELDS))
        is_scalar = isinstance(value, str | float | int)
        values = [value] * len(table) if is_scalar else list(value)
        if len(values) != len(table):
            raise ValueError(f"{name} must have {len(table)} values. Got {len(values)}.")
        texts = values if name in _NUMBERS else ["" if v is None else str(v) for v in values]
        texts = list(map(written, texts)) if name == "adduct" else texts
        columns[name] = _column(texts, name)
    return SpectraTable(table.spectra, columns, table.record, table.problems) if fields else table


def fill_adducts(table: SpectraTable, adducts: str | None) -> SpectraTable:
    """Return spectra whose adduct is filled in where they do not say theirs.

    `adducts` are separated by commas, at most one of each polarity: a spectrum gets the one of its
    polarity, and without a polarity the only one.
    """
    if not adducts:
        return table
    texts = [text.strip() for text in adducts.split(",")]
    by_polarity = {"positive" if parse_adduct(text).charge > 0 else "negative": text
                   for text in texts}  # fmt: skip
    if len(by_polarity) < len(texts):
        raise ValueError(f"adduct must have one adduct of each polarity. Got {adducts!r}.")
    only = texts[0] if len(texts) == 1 else ""
    pairs = zip(table["adduct"], table["polarity"], strict=True)
    filled = [adduct or by_polarity.get(polarity, "" if polarity else only)
              for adduct, polarity in pairs]  # fmt: skip
    return spectra_table(table, adduct=filled)


def _read_table(spectra: Spectra | Sequence[Any]) -> SpectraTable:
    """Return a list of spectra as a table."""
    rows = read_spectra(spectra)
    items = [None] * len(rows) if isinstance(spectra, Spectra) else spectra
    records = []
    for i, known in enumerate(map(_metadata, items)):
        peaks = slice(rows.indptr[i], rows.indptr[i + 1])
        fields = normalized(known) | {"precursor_mz": float(rows.precursor[peaks.start])}
        records.append((i + 1, Spectrum(rows.mz[peaks], rows.intensity[peaks], fields)))
    return table_of(records)


def _metadata(item: object) -> dict[str, str]:
    """Return the texts and numbers that are known of a spectrum, but for its precursor."""
    known = item if isinstance(item, Mapping) else getattr(item, "metadata", {})
    plain = {str(k): str(v) for k, v in known.items() if isinstance(v, str | int | float)}
    return {k: v for k, v in plain.items() if "precursor" not in k.lower() or "type" in k.lower()}


def _column(values: Any, name: str) -> np.ndarray:
    return np.array(values, dtype=np.float64 if name in _NUMBERS else object)
