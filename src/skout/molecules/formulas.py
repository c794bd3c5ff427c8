"""Chemical formulas in Hill order."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["hill"]

# RDKit writes * for an atom that is not known.
_ELEMENT = re.compile(r"([A-Z][a-z]?|\*)(\d*)")
_FORMULA = re.compile(r"((?:(?:[A-Z][a-z]?|\*)\d*)+)([+-]\d*)?")


def hill(formula: str) -> str:
    """Return a formula in Hill order: C, H, then the others by their letters; without C by letters.

    Parameters
    ----------
    formula : str
        Such as "C6H12O6"; elements may come in any order and more than once ("CH3CH2OH"). A charge
        stands at the end: "C5H14NO+", "SO4-2".

    Returns
    -------
    formula : str

    Examples
    --------
    >>> from skout.molecules.formulas import hill
    >>> hill("CH3CH2OH"), hill("NaCl"), hill("SO4-2")
    ('C2H6O', 'ClNa', 'O4S-2')
    """
    text = str(formula).replace(" ", "")
    match = _FORMULA.fullmatch(text)
    if match is None:
        raise ValueError(
            f"formula must be like 'C6H12O6', a charge at the end ('C5H14NO+'). Got {formula!r}."
        )
    atoms, charge = match.groups()
    counts: Counter[str] = Counter()
    for element, number in _ELEMENT.findall(atoms):
        counts[element] += int(number or 1)
    first = [element for element in ("C", "H") if "C" in counts and element in counts]
    order = first + sorted(set(counts) - set(first))
    texts = (f"{one}{counts[one] if counts[one] > 1 else ''}" for one in order if counts[one])
    return "".join(texts) + (charge or "").removesuffix("1")
