"""Spectra: lists of peaks, read from what mass spectrometrists have and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._numerics.objects import Ragged, as_objects, pointers
from ..rows.encode import numbers_in

__all__ = ["Spectra", "read_spectra"]

_PRECURSOR_KEYS = ("precursor_mz", "precursor")
_FORMS = (
    "Give a list of spectra, each (mz, intensity) or (mz, intensity, precursor_mz), a dict with "
    "these keys, or an object with peaks.mz, peaks.intensities and metadata, as matchms has."
)


class Spectra(Ragged):
    """Spectra of at least one peak each; in a spectrum, m/z does not decrease.

    The precursor's m/z is repeated for each peak of its spectrum; NaN where it is not known.
    """

    def __init__(
        self, indptr: np.ndarray, mz: np.ndarray, intensity: np.ndarray, precursor: np.ndarray
    ) -> None:
        super().__init__(indptr, mz, intensity, precursor)

    @property
    def mz(self) -> np.ndarray:
        return self.columns[0]

    @property
    def intensity(self) -> np.ndarray:
        return self.columns[1]

    @property
    def precursor(self) -> np.ndarray:
        return self.columns[2]


def read_spectra(objects: Any) -> Spectra:
    """Return checked rows from a list of spectra; see `ProbabilityProduct` for the forms."""
    if isinstance(objects, Spectra):
        return objects
    if isinstance(objects, Mapping) or hasattr(objects, "columns"):
        raise TypeError(f"Got {type(objects).__name__} instead of a list of spectra. {_FORMS}")
    found = [_read(item, i) for i, item in enumerate(as_objects(objects))]
    lengths = np.array([len(mz) for mz, _, _ in found], dtype=np.int64)
    mz = np.concatenate([np.empty(0), *(mz for mz, _, _ in found)])
    intensity = np.concatenate([np.empty(0), *(intensity for _, intensity, _ in found)])
    precursor = np.repeat(np.array([p for _, _, p in found], dtype=np.float64), lengths)
    rows = Spectra(pointers(lengths), mz, intensity, precursor)
    _check(rows)
    return rows


def _read(item: Any, i: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return m/z, intensities and the precursor (NaN: not known) of one spectrum."""
    mz, intensity, precursor = _fields(item, i)
    mz, intensity = _numbers(mz, "m/z", i), _numbers(intensity, "intensities", i)
    if len(mz) != len(intensity):
        raise ValueError(f"Spectrum {i} has {len(mz)} m/z values and {len(intensity)} intensities.")
    if len(mz) == 0:
        raise ValueError(f"Spectrum {i} has no peaks. Leave empty spectra out.")
    try:
        number = np.nan if precursor is None else float(precursor)
    except (TypeError, ValueError):
        raise TypeError(f"The precursor of spectrum {i} is no number. Got {precursor!r}.") from None
    if number <= 0.0 or np.isinf(number):
        raise ValueError(
            f"The precursor of spectrum {i} must be a finite m/z > 0, or None if it is not known. "
            f"Got {precursor!r}."
        )
    return mz, intensity, number


def _fields(item: Any, i: int) -> tuple[Any, Any, Any]:
    """Return m/z, intensities and precursor, in whatever form they come."""
    if isinstance(item, Mapping):
        names = {"mz", "intensity"} - set(item)
        if names:
            raise ValueError(f"Spectrum {i} is a dict without {sorted(names)}. Got {list(item)}.")
        return item["mz"], item["intensity"], _precursor(item)
    if hasattr(item, "peaks"):
        return item.peaks.mz, item.peaks.intensities, _precursor(getattr(item, "metadata", item))
    # an array could be peaks by rows or by columns: better not to guess
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) in (2, 3):
        return item[0], item[1], item[2] if len(item) == 3 else None
    shape = f" of shape {item.shape}" if isinstance(item, np.ndarray) else ""
    raise TypeError(f"Spectrum {i} is of type {type(item).__name__}{shape}. {_FORMS}")


def _precursor(metadata: Any) -> Any:
    """Return the precursor's m/z of a dict or of an object with `get`; None where it has none."""
    if not hasattr(metadata, "get"):
        return None
    found = (metadata.get(key) for key in _PRECURSOR_KEYS)
    return next((value for value in found if value is not None), None)


def _numbers(values: Any, what: str, i: int) -> np.ndarray:
    try:
        with numbers_in(values, f"The {what} of spectrum {i}"):
            numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"The {what} of spectrum {i} are not all numbers. Got {values!r}."
        ) from None
    if numbers.ndim != 1:
        raise ValueError(
            f"The {what} of spectrum {i} must be a 1-D array. Got shape {numbers.shape}."
        )
    return numbers


def _check(rows: Spectra) -> None:
    """Raise an error that names the first spectrum with a bad peak."""
    mz, intensity, number = rows.mz, rows.intensity, rows.row_numbers
    _refuse(~np.isfinite(mz) | (mz <= 0.0), mz, number, "m/z", "finite and > 0")
    _refuse(~np.isfinite(intensity), intensity, number, "intensity", "finite")
    _refuse(intensity < 0.0, intensity, number, "intensity", ">= 0")
    falls = np.flatnonzero((np.diff(mz) < 0.0) & (np.diff(number) == 0))
    if len(falls):
        j = falls[0]
        raise ValueError(
            f"The m/z of spectrum {number[j]} are not sorted: {mz[j + 1]:g} follows {mz[j]:g}. "
            "Sort its peaks by m/z: order = np.argsort(mz); mz[order], intensity[order]."
        )
    flat = np.bincount(number, intensity > 0.0, minlength=len(rows)) == 0
    if flat.any():
        raise ValueError(
            f"Spectrum {np.argmax(flat)} has no peak of positive intensity. Leave such spectra out."
        )


def _refuse(
    bad: np.ndarray, values: np.ndarray, number: np.ndarray, what: str, wanted: str
) -> None:
    if bad.any():
        j = np.argmax(bad)
        raise ValueError(
            f"Each {what} must be {wanted}. Got {values[j]} in spectrum {number[j]}; "
            f"{len(np.unique(number[bad]))} spectra have such peaks."
        )
