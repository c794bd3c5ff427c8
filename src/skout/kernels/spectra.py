"""Kernels on mass spectra: sums over the pairs of peaks that are near in mass.

The peaks of the landmarks are sorted by mass once; each peak of a row then visits those in a window
around its own mass. The cost follows the pairs that can match, not all pairs.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.objects import ranges
from .._numerics.validation import check_choice, check_number
from .base import Block, Kernel
from .distances import block_buffer
from .spectrum_rows import Spectra, read_spectra

__all__ = ["PeakCosine", "ProbabilityProduct"]

# Pairs of peaks that weigh less than this, of a pair that matches perfectly, are left out.
_NEGLIGIBLE = 1e-12
# Pairs of peaks that are held at a time, without numba.
_PAIRS = 2**17

# (mass difference, value of one peak, value of the other, two constants) -> what the pair adds
PairValue = Callable[..., Any]


@dataclass(frozen=True)
class _Peaks:
    """Peaks as a kernel sees them; in a row, masses do not decrease."""

    indptr: np.ndarray  # (n + 1,)
    mass: np.ndarray
    value: np.ndarray  # an intensity or a weight

    @property
    def row(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True)
class _Match:
    """What a pair of peaks adds, and how far apart in mass they may be to add anything."""

    width: float
    pair_value: PairValue
    constants: tuple[float, float]


# The values of a pair are written once, for NumPy arrays and for numba's scalars.


def _gaussian_pair(dm: Any, a: Any, b: Any, p: float, q: float) -> Any:
    # exp(-(p (m - m'))^2 - (q (i - i'))^2)
    return np.exp(-((p * dm) ** 2) - (q * (a - b)) ** 2)


def _triangle_pair(dm: Any, a: Any, b: Any, p: float, q: float) -> Any:
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
        for some in _chunks(high - low):
            pair, peak = _expand(low[some], high[some], some.start)
            values = self._match.pair_value(
                self._mass[pair] - left.mass[peak], left.value[peak], self._value[pair], *constants
            )
            first, last = row[some.start], row[some.stop - 1] + 1
            cell = (row[peak] - first) * self._m + self._row[pair]
            sums = np.bincount(cell, values, minlength=(last - first) * self._m)
            out[first:last] += sums.reshape(last - first, self._m)


def _chunks(counts: np.ndarray) -> list[slice]:
    """Cut peaks that have `counts` partners each into slices of about `_PAIRS` pairs."""
    total = np.cumsum(counts)
    if len(total) == 0:
        return []
    cuts = np.searchsorted(total, np.arange(_PAIRS, total[-1], _PAIRS), side="right")
    ends = np.unique(np.concatenate([cuts, [len(total)]]))
    starts = np.concatenate([[0], ends[:-1]])
    return [slice(a, b) for a, b in zip(starts, ends, strict=True) if b > a]


def _expand(low: np.ndarray, high: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    """List the pairs (partner in low[l] : high[l], peak start + l)."""
    counts = high - low
    return ranges(low, counts), start + np.repeat(np.arange(len(counts)), counts)


def _own_sums(peaks: _Peaks, match: _Match) -> np.ndarray:
    """Return for each spectrum the sum over all pairs of its own peaks."""
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
    for some in _chunks(high - low):
        b, a = _expand(low[some], high[some], some.start)
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
    pair = numba.njit(pair_value, nogil=True)

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
    """Base of the kernels that sum over pairs of peaks. Rows are spectra as they were given."""

    takes_vectors = False
    compares = "spectra"

    def encode(self, objects: Any) -> Spectra:
        """Return checked spectra."""
        return read_spectra(objects)

    @abstractmethod
    def _match(self) -> _Match:
        """Return what pairs of peaks add; parameters are checked here."""

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
        The largest intensity of each spectrum is made 1, or their sum is, or they are taken as
        given.
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

    With numba (``pip install skout[fast]``) the sum is a compiled loop; without it, NumPy does the
    same, about half as fast.

    Examples
    --------
    >>> from skout.kernels import ProbabilityProduct
    >>> from skout.kernels import Normalized
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

    def encode(self, objects: Any) -> Spectra:
        """Return checked spectra, with precursors if neutral losses are asked for."""
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
        # the heaviest peak is the smallest loss: turn each spectrum round
        ends = rows.indptr[:-1] + rows.indptr[1:] - 1
        turned = np.repeat(ends, rows.lengths) - np.arange(len(value))
        return _Peaks(rows.indptr, rows.precursor - rows.mz[turned], value[turned])

    def _factor(self, rows: Spectra) -> np.ndarray:
        """Return 1 / (n sqrt(4 pi sigma_mass sigma_intensity)) of each spectrum."""
        return 1.0 / (rows.lengths * np.sqrt(4 * np.pi * self.sigma_mass * self.sigma_intensity))

    def against(self, B: Spectra) -> Block:
        sums, right = super().against(B), self._factor(B)

        def block(A: Spectra, out: np.ndarray | None = None) -> np.ndarray:
            K = sums(A, out)
            K *= self._factor(A)[:, None]
            K *= right
            return K

        return block

    def diag(self, A: Spectra) -> np.ndarray:
        return _own_sums(self._peaks(A), self._match()) * self._factor(A) ** 2


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
    mz_power : float, default 0.0

    Examples
    --------
    >>> from skout.kernels import PeakCosine
    >>> PeakCosine(0.02)([([91.05, 119.05], [16.0, 9.0]), ([91.06, 147.04], [9.0, 16.0])]).round(3)
    array([[1.  , 0.24],
           [0.24, 1.  ]])
    """

    def __init__(
        self, tolerance: float = 0.02, *, intensity_power: float = 0.5, mz_power: float = 0.0
    ) -> None:
        self.tolerance = tolerance
        self.intensity_power = intensity_power
        self.mz_power = mz_power

    @property
    def normalized(self) -> bool:
        return True

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
        norms = np.sqrt(_own_sums(peaks, self._match()))
        return _Peaks(rows.indptr, rows.mz, peaks.value / np.repeat(norms, rows.lengths))

    def diag(self, A: Spectra) -> np.ndarray:
        return np.ones(n_rows(A))
