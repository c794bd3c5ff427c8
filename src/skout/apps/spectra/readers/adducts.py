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

# Names that are no formulas. Acids lose their proton in negative ions: [M+FA-H]-, also as [M+FA]-.
_ACIDS = {"FA": "CH2O2", "HAc": "C2H4O2", "Hac": "C2H4O2", "Ac": "C2H4O2", "TFA": "C2HF3O2"}
_ANIONS = dict.fromkeys(("acetate", "OAc", "AcO"), "C2H3O2") | {"formate": "CHO2"}
_NAMES = _ACIDS | _ANIONS | {"ACN": "C2H3N", "MeOH": "CH4O", "DMSO": "C2H6OS", "IsoProp": "C3H8O"}
# A radical may have a point or a star beside its charge: [M]+. and [M]+*. Numbers have up to three
# digits. GNPS writes neither brackets nor charge: M+H.
_ION = r"(?P<n>\d{0,3})M(?P<parts>(?:[+-]\d{0,3}[A-Za-z]\w*)*)"
_CHARGE = (
    r"(?P<radical>[.*•]?)(?:(?P<size>\d{0,3})(?P<sign>[+-])|(?P<signed>[+-]\d{1,3})"
    r"|(?P<signs>[+-]{2,}))?(?P<mark>[.*•]?)"
)
_BRACKETS = re.compile(rf"\[{_ION}\]{_CHARGE}", re.ASCII)
_BARE = re.compile(_ION + _CHARGE, re.ASCII)
# (M+H)+, quotes, spaces, and the signs of other fonts.
_PLAIN = str.maketrans("()−–⁺⁻²", "[]--+-2", " \u00a0\"'^")
_PROTONATED = re.compile(r"(?<=M)H(?=[]+]|$)")  # MH+
# Charges of what adducts add; all else is neutral.
_CHARGES = {"H": 1, "Na": 1, "K": 1, "Li": 1, "NH4": 1} | dict.fromkeys(
    ("Cl", "Br", "I", "F", "HCOO", "CHO2", "CH3COO", "C2H3O2", "CF3COO", "NO3", *_ANIONS), -1
)
_PART = re.compile(r"([+-])(\d*)([A-Za-z]\w*)")
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
    molecules = int(match["n"] or 1)
    if molecules == 0:
        raise ValueError(f"The adduct {text!r} has no molecule. {_FORMS}")
    shift = -charge * ELECTRON
    parts = _parts(match)
    for count, what in parts:
        shift += count * _mass(what, text)
    if charge < 0 and all(count > 0 for count, _ in parts):
        shift -= sum(count for count, what in parts if what in _ACIDS) * _mass("H", text)
    return Adduct(molecules, shift, charge)


def _match(text: str) -> re.Match[str] | None:
    plain = _PROTONATED.sub("+H", text.strip().translate(_PLAIN))
    return _BRACKETS.fullmatch(plain) or _BARE.fullmatch(plain)


def _parts(match: re.Match[str]) -> list[tuple[int, str]]:
    """Return what is added, and with numbers below 0 what is taken away."""
    parts = _PART.findall(match["parts"])
    return [(int(f"{sign}{count or 1}"), what) for sign, count, what in parts]


def _charge(match: re.Match[str]) -> int:
    """Return the charge that is written as 2+, +2, ++ or +, else that of the ions added."""
    if match["sign"]:
        return int(match["sign"] + (match["size"] or "1"))
    if match["signed"]:
        return int(match["signed"])
    if match["signs"]:
        return match["signs"].count("+") - match["signs"].count("-")
    return sum(count * _CHARGES.get(what, 0) for count, what in _parts(match))


def written(text: str, polarity: str = "") -> str:
    """Return an adduct in one form, [M+H]+ for M+H and (M+H)1+; other texts unchanged.

    Where neither the text nor its ions say the charge, the polarity does: M is [M]+ or [M]-.
    """
    match = _match(text)
    if match is None:
        return text
    charge = _charge(match) or {"positive": 1, "negative": -1}.get(polarity, 0)
    ion = f"[{match['n']}M{match['parts']}]"
    if not charge:
        return ion
    size = str(abs(charge)) if abs(charge) > 1 else ""
    radical = "*" if match["radical"] or match["mark"] else ""
    return f"{ion}{size}{'+' if charge > 0 else '-'}{radical}"


def _mass(what: str, text: str) -> float:
    """Return the mass of a formula such as NH4, or of a name such as ACN."""
    mass = formula_mass(_NAMES.get(what, what))
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
