"""From the m/z of an ion to the mass of the molecule, by the adduct, such as [M+H]+."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .formulas import ELECTRON, formula_mass

#: Names that are no formulas.
NAMES = {
    "ACN": "C2H3N",
    "MeOH": "CH4O",
    "FA": "CH2O2",
    "HAc": "C2H4O2",
    "Hac": "C2H4O2",
    "Ac": "C2H2O2",
    "TFA": "C2HF3O2",
    "DMSO": "C2H6OS",
    "IsoProp": "C3H8O",
}
# A radical may have a point or a star behind its charge: [M]+. and [M]+*. Numbers have up to three
# digits. GNPS writes neither brackets nor charge: M+H.
_ION = r"(\d{0,3})M((?:[+-]\d{0,3}[A-Za-z]\w*)*)"
_CHARGE = r"(?:(?:(\d{0,3})([+-])|([+-])(\d{1,3})|([+-]{2,}))[.*•]?)?"
_BRACKETS = re.compile(rf"\[{_ION}\]{_CHARGE}", re.ASCII)
_BARE = re.compile(_ION + _CHARGE, re.ASCII)
# Charges of what adducts add; all else is neutral.
_CHARGES = {"H": 1, "Na": 1, "K": 1, "Li": 1, "NH4": 1} | dict.fromkeys(
    ("Cl", "Br", "I", "F", "HCOO", "CHO2", "CH3COO", "C2H3O2", "CF3COO", "NO3"), -1
)
PART = re.compile(r"([+-])(\d*)([A-Za-z]\w*)")
_FORMS = "Write it as [M+H]+, [M-H]-, [2M+Na]+ or [M-H2O+H]+."


@dataclass(frozen=True)
class Adduct:
    """An ion of n molecules: m/z = (n M + shift) / |charge|.

    Parameters
    ----------
    n : int
        Molecules in the ion.
    shift : float
        Mass that is added, without the electrons that the charge takes or brings.
    charge : int
    """

    n: int
    shift: float
    charge: int


@cache
def parse_adduct(text: str) -> Adduct:
    """Read an adduct such as [M+H]+.

    Parameters
    ----------
    text : str
        Brackets and charge may be missing where the ions that it names have a charge: M+H, M-H,
        M+Na.

    Returns
    -------
    adduct : Adduct

    Raises
    ------
    ValueError
        If it cannot be read, has no molecule, or no charge.

    Examples
    --------
    >>> from skout.readers import parse_adduct
    >>> adduct = parse_adduct("[2M+Na]+")
    >>> adduct.n, round(adduct.shift, 4), adduct.charge
    (2, 22.9892, 1)
    """
    match = _match(text)
    if match is None:
        raise ValueError(f"The adduct {text!r} cannot be read. {_FORMS}")
    charge = _charge(match)
    if charge == 0:
        raise ValueError(f"The adduct {text!r} has no charge. {_FORMS}")
    molecules = int(match[1] or 1)
    if molecules == 0:
        raise ValueError(f"The adduct {text!r} has no molecule. {_FORMS}")
    shift = -charge * ELECTRON
    for sign, count, what in PART.findall(match[2]):
        mass = int(count or 1) * _mass(what, text)
        shift += mass if sign == "+" else -mass
    return Adduct(molecules, shift, charge)


def _match(text: str) -> re.Match[str] | None:
    plain = text.strip().replace(" ", "")
    return _BRACKETS.fullmatch(plain) or _BARE.fullmatch(plain)


def _charge(match: re.Match[str]) -> int:
    """Return the charge that is written as 2+, +2, ++ or +, else that of the ions added."""
    if match[4]:
        return int(match[4] + (match[3] or "1"))
    if match[5]:
        return int(match[5] + match[6])
    if match[7]:
        return match[7].count("+") - match[7].count("-")
    parts = PART.findall(match[2])
    return sum(int(f"{sign}{count or 1}") * _CHARGES.get(what, 0) for sign, count, what in parts)


def written(text: str, polarity: str = "") -> str:
    """Return an adduct with brackets and charge, [M+H]+ for M+H; other texts unchanged.

    Where neither the text nor its ions say the charge, the polarity does: M is [M]+ or [M]-.
    """
    match = _match(text)
    if match is None:
        return text
    charge = _charge(match) or {"positive": 1, "negative": -1}.get(polarity, 0)
    if text.startswith("[") and not text.endswith("]"):
        return text  # as it should be, with the signs of radicals
    size = str(abs(charge)) if abs(charge) > 1 else ""
    return f"[{match[1]}M{match[2]}]" + (f"{size}{'+' if charge > 0 else '-'}" if charge else "")


def _mass(what: str, text: str) -> float:
    """Return the mass of a formula such as NH4, or of a name such as ACN."""
    mass = formula_mass(NAMES.get(what, what))
    if math.isnan(mass):
        raise ValueError(f"The adduct {text!r} has {what!r}, whose mass is not known. {_FORMS}")
    return mass


#: An adduct for all ions or one for each; "" or None where it is not known.
Adducts: TypeAlias = str | Sequence[str | None] | None


def neutral_mass(precursor: ArrayLike, adduct: Adducts) -> np.ndarray:
    """Return the monoisotopic mass of the molecules from the m/z of their ions.

    Parameters
    ----------
    precursor : float or sequence of floats
        m/z.
    adduct : str or sequence of str
        One for all, or one for each; "" or None where it is not known.

    Returns
    -------
    mass : ndarray of float64, shape (n,)
        NaN where the precursor or the adduct is not known.

    Examples
    --------
    >>> from skout.readers import neutral_mass
    >>> neutral_mass([195.0877, 193.0731], ["[M+H]+", "[M-H]-"]).round(3)  # caffeine
    array([194.08, 194.08])
    """
    # M = (|z| m/z - shift) / n
    return _each(precursor, adduct, lambda mz, ion: (abs(ion.charge) * mz - ion.shift) / ion.n)


def precursor_mz(mass: ArrayLike, adduct: Adducts) -> np.ndarray:
    """Return the m/z of ions from the mass of their molecules; the inverse of `neutral_mass`.

    Parameters
    ----------
    mass : float or sequence of floats
    adduct : str or sequence of str

    Returns
    -------
    mz : ndarray of float64, shape (n,)

    Examples
    --------
    >>> from skout.readers import precursor_mz
    >>> precursor_mz(194.0804, "[M+Na]+").round(4)
    array([217.0696])
    """
    return _each(mass, adduct, lambda M, ion: (ion.n * M + ion.shift) / abs(ion.charge))


def _each(
    values: ArrayLike, adduct: Adducts, formula: Callable[[float, Adduct], float]
) -> np.ndarray:
    """Return `formula(number, adduct)` of each number, NaN where its adduct is not known."""
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if isinstance(adduct, str) or adduct is None:
        adduct = [adduct] * len(numbers)
    ions = list(adduct)
    if len(ions) != len(numbers):
        raise ValueError(f"Got {len(numbers)} masses and {len(ions)} adducts: give one for each.")
    pairs = zip(numbers.tolist(), ions, strict=True)
    results = [formula(value, parse_adduct(ion)) if ion else np.nan for value, ion in pairs]
    return np.array(results, dtype=np.float64)
