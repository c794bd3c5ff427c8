"""Chemical formulas such as C8H10N4O2: their atoms, their mass, and Hill's order."""

from __future__ import annotations

import math
import re
from collections import Counter

__all__ = ["ELECTRON", "MASSES", "element_counts", "formula_mass", "hill"]

ELECTRON = 0.000548579909
#: Masses of the most abundant isotopes.
MASSES = {
    "H": 1.00782503207,
    "C": 12.0,
    "N": 14.0030740048,
    "O": 15.99491461956,
    "F": 18.99840322,
    "Na": 22.9897692809,
    "Si": 27.9769265325,
    "P": 30.97376163,
    "S": 31.972071,
    "Cl": 34.96885268,
    "K": 38.96370668,
    "Ca": 39.96259098,
    "Fe": 55.9349375,
    "Br": 78.9183371,
    "Li": 7.01600455,
    "I": 126.904473,
}
# RDKit writes * for an atom that is not known.
_ELEMENT = re.compile(r"([A-Z][a-z]?|\*)(\d*)")
_FORMULA = re.compile(r"((?:(?:[A-Z][a-z]?|\*)\d*)+)([+-]\d*)?")


def _parsed(formula: str) -> tuple[Counter[str], str]:
    """Return how many atoms of each element a formula has, and the charge at its end."""
    found = _FORMULA.fullmatch(str(formula).replace(" ", ""))
    if found is None:
        raise ValueError(
            f"formula must be like 'C6H12O6', a charge at the end ('C5H14NO+'). Got {formula!r}."
        )
    counts: Counter[str] = Counter()
    for element, number in _ELEMENT.findall(found[1]):
        counts[element] += int(number or 1)
    return counts, found[2] or ""


def element_counts(formula: str) -> dict[str, int]:
    """Return how many atoms of each element a formula has, whose masses must all be known."""
    counts, _ = _parsed(formula)
    unknown = next((element for element in counts if element not in MASSES), None)
    if unknown is not None:
        raise ValueError(f"formula {formula!r} has {unknown!r}, whose mass is not known.")
    return dict(counts)


def formula_mass(formula: str) -> float:
    """Return the monoisotopic mass of a formula; NaN where it cannot be read."""
    try:
        return sum(MASSES[name] * count for name, count in element_counts(formula).items())
    except ValueError:
        return math.nan


def hill(formula: str) -> str:
    """Return a formula in Hill order: C, H, then the others by their letters; without C by letters.

    Elements may come in any order and more than once. A charge stands at the end.

    Examples
    --------
    >>> from skout.readers.formulas import hill
    >>> hill("CH3CH2OH"), hill("NaCl"), hill("SO4-2")
    ('C2H6O', 'ClNa', 'O4S-2')
    """
    counts, charge = _parsed(formula)
    first = [element for element in ("C", "H") if "C" in counts and element in counts]
    order = first + sorted(set(counts) - set(first))
    texts = (f"{one}{counts[one] if counts[one] > 1 else ''}" for one in order if counts[one])
    return "".join(texts) + charge.removesuffix("1")
