"""Explain the peaks of a spectrum by parts of a molecule's formula."""

from __future__ import annotations

import itertools
import math

import numpy as np

from skout.dev import check_number

from ..readers.adducts import NAMES, PART, parse_adduct
from ..readers.formulas import ELECTRON, MASSES, element_counts
from .results import Explanation

__all__ = ["explain_peaks"]

# Parts without hydrogen that are tried at most.
_MOST_PARTS = 2**18
# The largest error that counts, in Da: light peaks are known no better.
_LEAST_ERROR = 0.001


def explain_peaks(
    mz: np.ndarray,
    intensity: np.ndarray,
    formula: str,
    *,
    smiles: str = "",
    adduct: str = "[M+H]+",
    ppm: float = 10.0,
) -> Explanation:
    """Return for each peak the part of an ion that weighs nearest to it, within `ppm`.

    That is at least 0.001 Da. Atoms of the adduct may be in a part; the sign of its charge is that
    of all peaks.
    """
    # m/z = sum of masses of the atoms - charge * electron, with one charge
    check_number(ppm, "ppm", strict=True)
    counts, sign = _ion(formula, adduct)
    hydrogens = counts.pop("H", 0)
    parts, names = _parts(counts)
    masses = parts @ np.array([MASSES[name] for name in names])
    most_h = np.minimum(hydrogens, _valences(parts, names))
    wanted = np.asarray(mz, dtype=np.float64) + sign * ELECTRON
    slack = np.maximum(_LEAST_ERROR, 1e-6 * ppm * wanted)
    formulas, errors = [], np.full(len(wanted), np.nan)
    for i, (mass, room) in enumerate(zip(wanted, slack, strict=True)):
        n_h = np.rint((mass - masses) / MASSES["H"])
        error = np.abs(mass - masses - n_h * MASSES["H"])
        fits = (n_h >= 0) & (n_h <= most_h) & (error <= room) & (masses + n_h > 0)
        if not fits.any():
            formulas.append("")
            continue
        best = int(np.where(fits, error, np.inf).argmin())
        own = mass - masses[best] - n_h[best] * MASSES["H"]
        errors[i] = 1e6 * own / mass
        formulas.append(_written(parts[best], names, int(n_h[best])) + ("+" if sign > 0 else "-"))
    height = np.asarray(intensity, dtype=np.float64)
    return Explanation(smiles, np.asarray(mz), height / height.max(), tuple(formulas), errors)


def _ion(formula: str, adduct: str) -> tuple[dict[str, int], int]:
    """Return the atoms of the ion that can be in a fragment, and the sign of its charge."""
    counts, charge = element_counts(formula), parse_adduct(adduct).charge
    for sign, number, what in PART.findall(adduct):
        if sign == "+":  # what is taken away may come from another fragment
            for name, count in element_counts(NAMES.get(what, what)).items():
                counts[name] = counts.get(name, 0) + count * int(number or 1)
    counts["H"] = counts.get("H", 0) + 1  # one may move over from the other half
    return counts, 1 if charge > 0 else -1


def _parts(counts: dict[str, int]) -> tuple[np.ndarray, list[str]]:
    """Return the counts of all parts without hydrogen, shape (n, elements), and the elements."""
    names = sorted(counts, key=lambda name: (name != "C", name))
    total = math.prod(counts[name] + 1 for name in names)
    if total > _MOST_PARTS:
        raise ValueError(
            f"A formula of {counts} has {total} parts, more than {_MOST_PARTS}: its peaks are not "
            "explained."
        )
    grid = itertools.product(*(range(counts[name] + 1) for name in names))
    return np.array(list(grid), dtype=np.float64).reshape(total, len(names)), names


# Bonds of an atom beyond the two that keep it in a chain.
_BONDS = {"C": 2, "Si": 2, "Ge": 2, "Sn": 2, "N": 1, "B": 1, "P": 3, "As": 3, "S": 4, "Se": 4}
_ENDS = ("F", "Cl", "Br", "I", "Na", "K", "Li", "Rb", "Cs", "Ag", "D", "T")


def _valences(parts: np.ndarray, names: list[str]) -> np.ndarray:
    """Return how many hydrogens a part can bear, with one more for the charge."""
    bonds = np.array([_BONDS.get(name, -1 if name in _ENDS else 0) for name in names])
    return parts @ bonds + 3.0


def _written(part: np.ndarray, names: list[str], n_h: int) -> str:
    """Return a formula in Hill's order: C, H, then the alphabet."""
    counts = {name: int(count) for name, count in zip(names, part, strict=True)} | {"H": n_h}
    order = sorted(counts, key=lambda name: (name != "C", name != "H", name))
    return "".join(
        name + (str(counts[name]) if counts[name] > 1 else "") for name in order if counts[name]
    )
