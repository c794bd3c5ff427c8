"""Peaks with formulas: which part of a molecule's formula weighs as a peak does.

Peaks are made neutral first: a proton is taken from a positive ion (or the metal of the adduct) and
given to a negative one. So a fragment has one formula in both polarities and for all adducts, and
what is missing to the molecule is the formula of the loss.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from skout._numerics.objects import ranges

from ..readers.formulas import ELECTRON, MASSES, element_counts

__all__ = ["Parts", "annotate_peaks", "formula_code", "parts_of"]

_H = MASSES["H"]
# Parts without hydrogen that are tried at most.
_MOST_PARTS = 2**18
# Light peaks are known no better than this, in Da.
_LEAST_ERROR = 0.001
# Hydrogens that a fragment may have beyond those of the molecule: moved over from elsewhere.
_MORE_HYDROGENS = 1
# Metals that stay with fragments; other parts of adducts leave as neutral molecules.
_METALS = ("Na", "K", "Li")


def _element_code(symbol: str) -> int:
    """Return a fixed odd number of 64 bits for an element (the mixing steps of SplitMix64)."""
    z = int.from_bytes(symbol.encode(), "little") * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return (z ^ (z >> 31)) | 1


CODES = {symbol: _element_code(symbol) for symbol in MASSES}


def formula_code(counts: dict[str, int]) -> int:
    """Return a number for a formula that is linear in its counts, modulo 2^64.

    So the number of a loss is that of the molecule minus that of the fragment.
    """
    return sum(CODES[symbol] * count for symbol, count in counts.items()) % 2**64


@dataclass(frozen=True)
class Parts:
    """All parts of a formula without their hydrogens, sorted by mass modulo that of hydrogen."""

    symbols: tuple[str, ...]  # without H
    counts: np.ndarray  # (g, elements)
    masses: np.ndarray  # (g,)
    rests: np.ndarray  # (g,) masses modulo the mass of H, increasing
    most_h: np.ndarray  # (g,)
    codes: np.ndarray  # (g,) uint64
    total: dict[str, int]  # of the molecule


# Bonds of an atom beyond the two that keep it in a chain.
_BONDS = {"C": 2, "Si": 2, "Ge": 2, "Sn": 2, "N": 1, "B": 1, "P": 3, "As": 3, "S": 4, "Se": 4}
_ENDS = ("F", "Cl", "Br", "I", "Na", "K", "Li", "Rb", "Cs", "Ag", "D", "T")


@lru_cache(maxsize=512)
def parts_of(formula: str) -> Parts | None:
    """Return the parts of a molecular formula, None where there are more than 2^18."""
    total = dict(element_counts(formula))
    charge = formula.count("+") - formula.count("-")
    total["H"] = total.get("H", 0) - charge  # a cation is a molecule and a proton
    symbols = tuple(sorted((s for s in total if s != "H"), key=lambda s: (s != "C", s)))
    n_parts = math.prod(total[symbol] + 1 for symbol in symbols)
    if n_parts > _MOST_PARTS:
        return None
    axes = [np.arange(total[symbol] + 1) for symbol in symbols]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(n_parts, len(symbols))
    masses = grid @ np.array([MASSES[symbol] for symbol in symbols])
    rests = masses % _H
    order = np.argsort(rests, kind="stable")
    grid, masses, rests = grid[order], masses[order], rests[order]
    bonds = np.array([_BONDS.get(s, -1 if s in _ENDS else 0) for s in symbols])
    most_h = np.minimum(total["H"] + _MORE_HYDROGENS, grid @ bonds + 3)
    codes = grid.astype(np.uint64) @ np.array([CODES[s] for s in symbols], dtype=np.uint64)
    return Parts(symbols, grid, masses, rests, most_h, codes, total)


def matches(parts: Parts, mass: np.ndarray, slack: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return all pairs of a neutral mass and a part within the slack: peak, part, H, error."""
    # |x - g - n H| <= slack for a whole n: x and g agree modulo the mass of H
    rest = mass % _H
    found = []
    for turn in (-_H, 0.0, _H):
        low = np.searchsorted(parts.rests, rest + turn - slack, side="left")
        high = np.searchsorted(parts.rests, rest + turn + slack, side="right")
        counts = high - low
        found.append((np.repeat(np.arange(len(mass)), counts), ranges(low, counts)))
    peak = np.concatenate([p for p, _ in found])
    part = np.concatenate([g for _, g in found])
    n_h = np.rint((mass[peak] - parts.masses[part]) / _H).astype(np.int64)
    error = mass[peak] - parts.masses[part] - n_h * _H
    fits = (n_h >= 0) & (n_h <= parts.most_h[part]) & (np.abs(error) <= slack[peak])
    return peak[fits], part[fits], n_h[fits], error[fits]
