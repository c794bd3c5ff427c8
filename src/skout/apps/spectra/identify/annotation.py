"""Peaks with formulas: which part of a molecule's formula weighs as a peak does.

Peaks are made neutral first: a proton, or the metal of the adduct, is taken from a positive ion,
and a proton is given to a negative one. So a fragment has one formula in both polarities and for
all adducts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from skout.dev import ranges

from ..readers import parse_adduct
from ..readers.formulas import CODES, ELECTRON, MASSES, element_counts, hill

_H = MASSES["H"]
# Parts without hydrogen that are tried at most.
MOST_PARTS = 2**18
# Light peaks are known no better than this, in Da.
_LEAST_ERROR = 0.001
# Metals that stay with fragments; what else an adduct adds leaves as a neutral molecule.
_METALS = ("Na", "K", "Li")
# Peaks within the first error say by how much a spectrum is shifted, at most so far; in ppm.
_FIRST_PPM, _MOST_SHIFT = 15.0, 10.0
# Bonds of an atom beyond the two that keep it in a chain.
_BONDS = {"C": 2, "Si": 2, "Ge": 2, "Sn": 2, "N": 1, "B": 1, "P": 3, "As": 3, "S": 4, "Se": 4}
_ENDS = ("F", "Cl", "Br", "I", "Na", "K", "Li", "Rb", "Cs", "Ag", "D", "T")


@dataclass(frozen=True)
class _Parts:
    """All parts of a formula without their hydrogens, g of them."""

    symbols: tuple[str, ...]  # without H
    counts: np.ndarray  # (g, elements)
    masses: np.ndarray  # (g,)
    rests: np.ndarray  # (g,) masses modulo that of hydrogen, increasing
    most_h: np.ndarray  # (g,)
    codes: np.ndarray  # (g,) uint64, see `formula_code`


@lru_cache(maxsize=256)
def _parts_of(formula: str) -> _Parts | None:
    """Return the parts of a molecular formula, None where there are none, or more than 2^18."""
    try:
        total = element_counts(formula)
    except ValueError:  # an atom whose mass is not known
        return None
    charge = formula.count("+") - formula.count("-")  # a cation is a molecule and a proton
    hydrogens = total.pop("H", 0) - charge
    symbols = tuple(sorted(total))
    n_parts = math.prod(total[symbol] + 1 for symbol in symbols)
    if not symbols or n_parts > MOST_PARTS:
        return None
    axes = [np.arange(total[symbol] + 1) for symbol in symbols]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(n_parts, len(symbols))
    masses = grid @ np.array([MASSES[symbol] for symbol in symbols])
    order = np.argsort(masses % _H, kind="stable")
    grid, masses = grid[order], masses[order]
    bonds = np.array([_BONDS.get(s, -1 if s in _ENDS else 0) for s in symbols], dtype=np.int64)
    # one hydrogen may move over from the other half
    most_h = np.minimum(hydrogens + 1, grid @ bonds + 2)
    codes = grid.astype(np.uint64) @ np.array([CODES[s] for s in symbols], dtype=np.uint64)
    return _Parts(symbols, grid, masses, masses % _H, most_h, codes)


@dataclass(frozen=True)
class Annotation:
    """The peaks of a spectrum that have a formula, p of them."""

    peak: np.ndarray  # (p,) increasing
    code: np.ndarray  # (p,) that of the neutral fragment without hydrogen
    hydrogens: np.ndarray  # (p,) of the neutral fragment
    error: np.ndarray  # (p,) ppm
    formula: tuple[str, ...]  # of the ions, without charge; () unless requested


def annotate(
    mz: np.ndarray,
    intensity: np.ndarray,
    formula: str,
    adduct: str,
    ppm: float = 10.0,
    *,
    calibrate: bool = True,
    written: bool = False,
) -> Annotation | None:
    """Return the nearest part of a formula for each peak that has one within `ppm`.

    That is at least 0.001 Da. With `calibrate` masses are shifted first by the median error of
    peaks that have one part only. None where the formula has too many parts.
    """
    parts = _parts_of(formula)
    if parts is None:
        return None
    sign = -1 if is_negative(adduct) else 1
    metals = [metal for metal in _METALS if sign > 0 and f"+{metal}]" in adduct]
    # what is taken from an ion to make it neutral
    carriers = [sign * (_H - ELECTRON), *(MASSES[metal] - ELECTRON for metal in metals)]
    mz = np.asarray(mz, dtype=np.float64)
    shift = 0.0
    if calibrate:
        peak, *_, error, _ = _matches(parts, mz, carriers, _FIRST_PPM)
        alone = np.bincount(peak, minlength=len(mz))[peak] == 1
        shift = _shift(1e6 * error[alone] / mz[peak[alone]], np.sqrt(intensity[peak[alone]]))
    peak, part, n_h, error, carrier = _matches(parts, mz * (1.0 - 1e-6 * shift), carriers, ppm)
    order = np.lexsort((np.abs(error), peak))
    best = order[np.unique(peak[order], return_index=True)[1]]
    peak, part, n_h, carrier = peak[best], part[best], n_h[best], carrier[best]
    names: tuple[str, ...] = ()
    if written:
        ions = zip(parts.counts[part].tolist(), (n_h + sign * (carrier == 0)).tolist(), carrier,
                   strict=True)  # fmt: skip
        names = tuple(
            _text(dict(zip(parts.symbols, atoms, strict=True)), h, metals[k - 1] if k else "")
            for atoms, h, k in ions
        )
    return Annotation(peak, parts.codes[part], n_h, 1e6 * error[best] / mz[peak], names)


def is_negative(adduct: str) -> bool:
    try:
        return parse_adduct(adduct).charge < 0
    except ValueError:
        return False


def _matches(
    parts: _Parts, mz: np.ndarray, carriers: list[float], ppm: float
) -> tuple[np.ndarray, ...]:
    """Return all matches within ppm: peak, part, hydrogens, error in Da and carrier of charge."""
    slack = np.maximum(_LEAST_ERROR, 1e-6 * ppm * mz)
    columns = []
    for number, carrier in enumerate(carriers):
        mass = mz - carrier
        # |mass - part - n H| <= slack for a whole n: mass and part agree modulo H
        for turn in (-_H, 0.0, _H):
            rest = mass % _H + turn
            low = np.searchsorted(parts.rests, rest - slack, side="left")
            counts = np.searchsorted(parts.rests, rest + slack, side="right") - low
            peak, part = np.repeat(np.arange(len(mz)), counts), ranges(low, counts)
            n_h = np.rint((mass[peak] - parts.masses[part]) / _H).astype(np.int64)
            error = mass[peak] - parts.masses[part] - n_h * _H
            # an ion without hydrogens has lost one more than the proton that is taken from it
            least = -1 if number == 0 and carrier > 0.0 else 0
            fits = (n_h >= least) & (n_h <= parts.most_h[part]) & (np.abs(error) <= slack[peak])
            fits &= (parts.masses[part] > 0.0) | (n_h > 0)
            columns.append([x[fits] for x in (peak, part, n_h, error, np.full(len(peak), number))])
    return tuple(np.concatenate(values) for values in zip(*columns, strict=True))


def _shift(errors: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted median of errors, drawn towards 0 where there are few."""
    n = len(errors)
    if n == 0:
        return 0.0
    order = np.argsort(errors)
    total = np.cumsum(weights[order])
    median = errors[order][np.searchsorted(total, total[-1] / 2.0)]
    return float(np.clip(median * n / (n + 1.0), -_MOST_SHIFT, _MOST_SHIFT))


def _text(counts: dict[str, int], hydrogens: int, metal: str) -> str:
    atoms = counts | {"H": hydrogens} | ({metal: counts.get(metal, 0) + 1} if metal else {})
    return hill("".join(f"{name}{count}" for name, count in atoms.items() if count))
