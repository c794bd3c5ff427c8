"""Mass spectra: lists of peaks, and kernels that sum over the pairs of peaks near in mass.

The peaks of the landmarks are sorted by mass once; each peak of a row then visits those in a window
around its own mass. The cost follows the pairs that can match, not all pairs.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.objects import Ragged, as_objects, pointers, ranges
from .._numerics.typing import Array, Objects
from .._numerics.validation import check_choice, check_number
from ..rows.encode import numbers_in
from .bags import work_slices
from .base import Block, Kernel
from .vectors import block_buffer

_PRECURSOR_KEYS = ("precursor_mz", "precursor")
_FORMS = (
    "Give a list of spectra, each (mz, intensity) or (mz, intensity, precursor_mz), a dict with "
    "these keys, or an object with peaks.mz, peaks.intensities and metadata, as matchms has."
)
# Pairs of peaks that weigh less than this, of a pair that matches perfectly, are left out: a kernel
# matrix is positive semi-definite up to as much. 1e-6 would make windows 0.7 times as wide.
_NEGLIGIBLE = 1e-12
# Pairs of peaks that are held at a time, without numba: arrays of 1 MB. A quarter takes 1.07 times
# as long, four times as many 1.1.
_PAIRS = 2**17

# (mass difference, value of one peak, value of the other, two constants) -> what the pair adds
PairValue: TypeAlias = Callable[..., Array]


# Rows of spectra ----------------------------------------------------------------------------------


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


def read_spectra(objects: Objects) -> Spectra:
    """Return checked rows from a list of spectra; see `ProbabilityProduct` for the forms."""
    if isinstance(objects, Spectra):
        return objects
    if isinstance(objects, Mapping) or hasattr(objects, "columns"):
        raise TypeError(f"Got {type(objects).__name__} instead of a list of spectra. {_FORMS}")
    read = [_read(item, i) for i, item in enumerate(as_objects(objects))]
    lengths = np.array([len(mz) for mz, _, _ in read], dtype=np.int64)
    mz = np.concatenate([np.empty(0), *(mz for mz, _, _ in read)])
    intensity = np.concatenate([np.empty(0), *(intensity for _, intensity, _ in read)])
    precursor = np.repeat(np.array([p for _, _, p in read], dtype=np.float64), lengths)
    rows = Spectra(pointers(lengths), mz, intensity, precursor)
    _check(rows)
    return rows


def _read(item: object, i: int) -> tuple[np.ndarray, np.ndarray, float]:
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
    """Return m/z, intensities and precursor of a spectrum in any of the accepted forms."""
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
    values = (metadata.get(key) for key in _PRECURSOR_KEYS)
    return next((value for value in values if value is not None), None)


def _numbers(values: object, what: str, i: int) -> np.ndarray:
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


# Pairs of peaks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Peaks:
    """Peaks of spectra as a kernel compares them; in a row, masses do not decrease."""

    indptr: np.ndarray  # (n + 1,)
    mass: np.ndarray
    value: np.ndarray  # an intensity or a weight

    @property
    def row(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True)
class _Match:
    """The value of a pair of peaks, and the largest difference in mass at which it counts."""

    width: float
    pair_value: PairValue
    constants: tuple[float, float]


# The values of a pair are written once, for NumPy arrays and for numba's scalars.


def _gaussian_pair(dm: Array, a: Array, b: Array, p: float, q: float) -> Array:
    # exp(-(p (m - m'))^2 - (q (i - i'))^2)
    return np.exp(-((p * dm) ** 2) - (q * (a - b)) ** 2)


def _triangle_pair(dm: Array, a: Array, b: Array, p: float, q: float) -> Array:
    # w w' max(0, 1 - p |m - m'|)
    return a * b * np.maximum(0.0, 1.0 - p * np.abs(dm))


class _RightPeaks:
    """The peaks of fixed spectra B, sorted by mass, to be matched with many blocks of spectra."""

    def __init__(self, peaks: _Peaks, match: _Match) -> None:
        order = np.argsort(peaks.mass, kind="stable")
        self._m = len(peaks.indptr) - 1
        self._mass, self._value = peaks.mass[order], peaks.value[order]
        self._row = peaks.row[order]
        self._match = match
        self._loop = _compiled(match.pair_value)

    def add_pairs(self, left: _Peaks, out: np.ndarray) -> None:
        """Add to out[i, j] the values of all pairs of peaks of spectrum i of `left` and j of B."""
        width, constants = self._match.width, self._match.constants
        if self._loop is not None:
            right = (self._mass, self._value, self._row)
            self._loop(left.indptr, left.mass, left.value, *right, width, *constants, out)
            return
        low = np.searchsorted(self._mass, left.mass - width, side="left")
        high = np.searchsorted(self._mass, left.mass + width, side="right")
        row = left.row
        for part in work_slices(high - low, _PAIRS) if len(row) else ():
            pair, peak = _expand(low[part], high[part], part.start)
            values = self._match.pair_value(
                self._mass[pair] - left.mass[peak], left.value[peak], self._value[pair], *constants
            )
            first, last = row[part.start], row[part.stop - 1] + 1
            cell = (row[peak] - first) * self._m + self._row[pair]
            sums = np.bincount(cell, values, minlength=(last - first) * self._m)
            out[first:last] += sums.reshape(last - first, self._m)


def _expand(low: np.ndarray, high: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of each peak start + l with those from low[l] to high[l], as two arrays."""
    counts = high - low
    return ranges(low, counts), start + np.repeat(np.arange(len(counts)), counts)


def _self_sums(peaks: _Peaks, match: _Match) -> np.ndarray:
    """Return the sum over all pairs of peaks within each spectrum."""
    # Masses of different spectra are moved so far apart that one search serves all. That rounds
    # them, so windows are wider by the rounding; values come from the masses as they are.
    row = peaks.row
    lowest = peaks.mass.min(initial=np.inf)
    span = np.max(peaks.mass - lowest, initial=0.0) + 2.0 * match.width
    place = (peaks.mass - lowest) + row * span
    width = match.width + 4.0 * np.spacing(place.max(initial=0.0))
    low = np.searchsorted(place, place - width, side="left")
    high = np.searchsorted(place, place + width, side="right")
    sums = np.zeros(len(peaks.indptr) - 1)
    for part in work_slices(high - low, _PAIRS):
        b, a = _expand(low[part], high[part], part.start)
        values = match.pair_value(
            peaks.mass[b] - peaks.mass[a], peaks.value[a], peaks.value[b], *match.constants
        )
        sums += np.bincount(row[a], np.where(row[a] == row[b], values, 0.0), minlength=len(sums))
    return sums


@functools.cache
def _compiled(pair_value: PairValue) -> Any:
    """Return the loop over pairs of peaks as machine code, or None where numba is missing."""
    try:
        import numba
    except ImportError:
        return None
    pair: Any = numba.njit(pair_value, nogil=True)

    def loop(indptr, mass, value, right_mass, right_value, right_row, width, p, q, out):  # type: ignore[no-untyped-def]
        for i in range(len(indptr) - 1):
            low = 0
            for l in range(indptr[i], indptr[i + 1]):
                # masses of a row do not decrease: windows move to the right
                low += np.searchsorted(right_mass[low:], mass[l] - width)
                j = low
                while j < len(right_mass) and right_mass[j] <= mass[l] + width:
                    dm = right_mass[j] - mass[l]
                    out[i, right_row[j]] += pair(dm, value[l], right_value[j], p, q)
                    j += 1

    # compiled here, before threads share it
    signature = "void(i8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8[::1], f8, f8, f8, f8[:, ::1])"
    return numba.njit(signature, nogil=True)(loop)


class _PeakKernel(Kernel):
    """Base of the kernels that sum over pairs of peaks. Rows are the spectra, not changed."""

    compares = "spectra"

    def encode(self, objects: Objects) -> Spectra:
        """Return checked spectra."""
        return read_spectra(objects)

    @abstractmethod
    def _match(self) -> _Match:
        """Return the value of pairs of peaks; raise if a parameter is not valid."""

    @abstractmethod
    def _peaks(self, rows: Spectra) -> _Peaks:
        """Return the peaks that are matched."""

    def against(self, B: Spectra) -> Block:
        right = _RightPeaks(self._peaks(B), self._match())

        def block(A: Spectra, out: np.ndarray | None = None) -> np.ndarray:
            out = block_buffer(A, n_rows(B), out)
            K = np.zeros((n_rows(A), n_rows(B)))
            right.add_pairs(self._peaks(A), K)
            out[...] = K
            return out

        return block


class ProbabilityProduct(_PeakKernel):
    """Probability product kernel of spectra: the integral of the product of two densities.

    Each peak is a Gaussian in mass and intensity, and a spectrum of n peaks is the mean of its
    peaks (Heinonen et al. 2012, Brouard et al. 2016), so that

    k(x, y) = 1/(n n' 4 pi sigma_mass sigma_intensity) sum_l sum_l' exp(-(m_l - m'_l')^2 / (4
    sigma_mass^2) - (i_l - i'_l')^2 / (4 sigma_intensity^2)).

    It depends on the number of peaks and has the unit of a density, so one usually wants
    ``Normalized(ProbabilityProduct())``.

    Parameters
    ----------
    sigma_mass : float, default 0.005
        Standard deviation of a peak's m/z, in Da. About the accuracy of the instrument.
    sigma_intensity : float, default 0.5
        Standard deviation of a peak's intensity, on the scale that `intensity` makes. Large values
        compare masses alone.
    intensity : {"max", "sum"} or None, default "max"
        The largest intensity of each spectrum is made 1, or their sum is, or they stay as they are.
    neutral_loss : bool, default False
        Compare the losses precursor - m/z instead of the m/z. Peaks above the precursor are losses
        below zero. Each spectrum then needs a precursor.

    Notes
    -----
    Objects are a list of spectra, each one of

    - a tuple (mz, intensity) or (mz, intensity, precursor_mz);
    - a dict with these keys, such as a row of a data frame;
    - an object with `peaks.mz`, `peaks.intensities` and `metadata["precursor_mz"]`, as matchms has.

    In a spectrum, m/z must not decrease. Rows are the spectra as given, so kernels on spectra can
    be added. ``Normalized(fragments) + Normalized(losses)``, with `neutral_loss` on in the second,
    is the choice of the FingerID software; its parameters are variances.

    Pairs of peaks farther apart in mass than 10.5 sigma_mass are left out. Each would weigh less
    than 1e-12 of a perfect match, so k(x, y) changes by less than 1e-12 sqrt(n n') times
    sqrt(k(x, x) k(y, y)), and a Gram matrix is positive semi-definite up to that.

    With numba (``pip install "skout[fast]"``) the sum is a compiled loop; without it, NumPy does
    the same, about half as fast.

    Examples
    --------
    >>> from skout.kernels import Normalized, ProbabilityProduct
    >>> spectra = [([91.054, 119.049], [40.0, 999.0]), ([91.055, 147.044], [50.0, 999.0])]
    >>> Normalized(ProbabilityProduct())(spectra).round(3)
    array([[1.   , 0.495],
           [0.495, 1.   ]])
    """

    def __init__(
        self,
        sigma_mass: float = 0.005,
        sigma_intensity: float = 0.5,
        *,
        intensity: str | None = "max",
        neutral_loss: bool = False,
    ) -> None:
        self.sigma_mass = sigma_mass
        self.sigma_intensity = sigma_intensity
        self.intensity = intensity
        self.neutral_loss = neutral_loss

    def encode(self, objects: Objects) -> Spectra:
        """Return checked spectra, with precursors if neutral losses are compared."""
        rows = super().encode(objects)
        check_choice(self.intensity, "intensity", ("max", "sum", None))
        unknown = np.isnan(rows.precursor[rows.indptr[:-1]])
        if self.neutral_loss and unknown.any():
            raise ValueError(
                "neutral_loss=True needs the precursor of each spectrum. Of the "
                f"{len(rows)} given, {unknown.sum()} have none, the first is spectrum "
                f"{np.argmax(unknown)}. Give (mz, intensity, precursor_mz), or leave them out."
            )
        return rows

    def _match(self) -> _Match:
        mass = check_number(self.sigma_mass, "sigma_mass", strict=True)
        intensity = check_number(self.sigma_intensity, "sigma_intensity", strict=True)
        width = 2.0 * mass * np.sqrt(-np.log(_NEGLIGIBLE))
        return _Match(width, _gaussian_pair, (0.5 / mass, 0.5 / intensity))

    def _peaks(self, rows: Spectra) -> _Peaks:
        value = rows.intensity
        if self.intensity is not None:
            add = np.maximum if self.intensity == "max" else np.add
            value = value / np.repeat(add.reduceat(value, rows.indptr[:-1]), rows.lengths)
        if not self.neutral_loss:
            return _Peaks(rows.indptr, rows.mz, value)
        # the heaviest peak is the smallest loss: reverse each spectrum
        ends = rows.indptr[:-1] + rows.indptr[1:] - 1
        reversed_ = np.repeat(ends, rows.lengths) - np.arange(len(value))
        return _Peaks(rows.indptr, rows.precursor - rows.mz[reversed_], value[reversed_])

    def _factor(self, rows: Spectra) -> np.ndarray:
        """Return 1 / (n sqrt(4 pi sigma_mass sigma_intensity)) of each spectrum."""
        factor: np.ndarray = 1.0 / (
            rows.lengths * np.sqrt(4 * np.pi * self.sigma_mass * self.sigma_intensity)
        )
        return factor

    def against(self, B: Spectra) -> Block:
        sums, right = super().against(B), self._factor(B)

        def block(A: Spectra, out: np.ndarray | None = None) -> np.ndarray:
            K = sums(A, out)
            K *= self._factor(A)[:, None]
            K *= right
            return K

        return block

    def diag(self, A: Spectra) -> np.ndarray:
        diagonal: np.ndarray = _self_sums(self._peaks(A), self._match()) * self._factor(A) ** 2
        return diagonal


class PeakCosine(_PeakKernel):
    """Cosine of spectra with a tolerance: a simple baseline that is positive semi-definite.

    k(x, y) = s(x, y) / sqrt(s(x, x) s(y, y)), where s(x, y) is
    ``sum_l sum_l' w_l w'_l' max(0, 1 - |m_l - m'_l'| / tolerance)``, with the weights
    w = intensity^intensity_power mz^mz_power.

    The usual cosine score, such as matchms' CosineGreedy, pairs each peak with at most one other
    and counts all pairs within the tolerance alike. That is no kernel: its matrices may have
    negative eigenvalues. Here all pairs count, less the farther apart they are, which makes a
    kernel. For spectra whose peaks are more than the tolerance apart the two agree where masses
    agree exactly.

    Parameters
    ----------
    tolerance : float, default 0.02
        The difference in m/z, in Da, from which on two peaks have nothing in common.
    intensity_power : float, default 0.5
        Below 1, weak peaks count more.
    mz_power : float, default 0.0
        Above 0, heavy peaks count more.

    Examples
    --------
    >>> from skout.kernels import PeakCosine
    >>> PeakCosine(0.02)([([91.05, 119.05], [16.0, 9.0]), ([91.06, 147.04], [9.0, 16.0])]).round(3)
    array([[1.  , 0.24],
           [0.24, 1.  ]])
    """

    normalized = True

    def __init__(
        self, tolerance: float = 0.02, *, intensity_power: float = 0.5, mz_power: float = 0.0
    ) -> None:
        self.tolerance = tolerance
        self.intensity_power = intensity_power
        self.mz_power = mz_power

    def _match(self) -> _Match:
        tolerance = check_number(self.tolerance, "tolerance", strict=True)
        return _Match(tolerance, _triangle_pair, (1.0 / tolerance, 0.0))

    def _peaks(self, rows: Spectra) -> _Peaks:
        power = check_number(self.intensity_power, "intensity_power")
        mz_power = check_number(self.mz_power, "mz_power")
        start = rows.indptr[:-1]
        # relative to the largest of the spectrum, which the cosine does not see: no overflow
        share = rows.intensity / np.repeat(np.maximum.reduceat(rows.intensity, start), rows.lengths)
        heaviest = np.repeat(np.maximum.reduceat(rows.mz, start), rows.lengths)
        peaks = _Peaks(rows.indptr, rows.mz, share**power * (rows.mz / heaviest) ** mz_power)
        norms = np.sqrt(_self_sums(peaks, self._match()))
        return _Peaks(rows.indptr, rows.mz, peaks.value / np.repeat(norms, rows.lengths))

    def diag(self, A: Spectra) -> np.ndarray:
        return np.ones(n_rows(A))
