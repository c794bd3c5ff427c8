"""Chemical formulas such as C8H10N4O2: their atoms, their mass, and Hill's order."""

from __future__ import annotations

import math
import re
from collections import Counter

ELECTRON = 0.000548579909
_ELEMENTS = """
H 1.00782503207 He 4.002603254 Li 7.01600455 Be 9.0121822 B 11.0093054 C 12 N 14.0030740048
O 15.99491461956 F 18.99840322 Ne 19.99244018 Na 22.9897692809 Mg 23.9850417 Al 26.98153863
Si 27.9769265325 P 30.97376163 S 31.972071 Cl 34.96885268 Ar 39.96238312 K 38.96370668
Ca 39.96259098 Sc 44.9559119 Ti 47.9479463 V 50.9439595 Cr 51.9405075 Mn 54.9380451
Fe 55.9349375 Co 58.933195 Ni 57.9353429 Cu 62.9295975 Zn 63.9291422 Ga 68.9255736 Ge 73.9211778
As 74.9215965 Se 79.9165213 Br 78.9183371 Kr 83.911507 Rb 84.91178974 Sr 87.9056121 Y 88.9058483
Zr 89.9047044 Nb 92.9063781 Mo 97.9054082 Tc 96.906365 Ru 101.9043493 Rh 102.905504
Pd 105.903486 Ag 106.905097 Cd 113.9033585 In 114.903878 Sn 119.9021947 Sb 120.9038157
Te 129.9062244 I 126.904473 Xe 131.9041535 Cs 132.9054519 Ba 137.9052472 La 138.9063533
Ce 139.9054387 Pr 140.9076528 Nd 141.9077233 Pm 144.912749 Sm 151.9197324 Eu 152.9212303
Gd 157.9241039 Tb 158.9253468 Dy 163.9291748 Ho 164.9303221 Er 165.9302931 Tm 168.9342133
Yb 173.9388621 Lu 174.9407718 Hf 179.94655 Ta 180.9479958 W 183.9509312 Re 186.9557531
Os 191.9614807 Ir 192.9629264 Pt 194.9647911 Au 196.9665687 Hg 201.970643 Tl 204.9744275
Pb 207.9766521 Bi 208.9803987 Po 208.9824304 At 209.987148 Rn 222.0175706 Fr 223.0197359
Ra 226.0254026 Ac 227.0277521 Th 232.0380553 Pa 231.035884 U 238.0507882 Np 236.04657
Pu 238.0495599 Am 241.0568291 Cm 243.0613891 Bk 247.070307 Cf 249.0748535 Es 252.08298
Fm 257.095105 Md 258.098431 No 259.10103 Lr 262.10963 Rf 267.12153 Db 268.12545 Sg 271.13347
Bh 270.13362 Hs 269.13406 Mt 278.15481 Ds 281.16206 Rg 281.16537 Cn 285.17411 Nh 284.17873
Fl 289.19042 Mc 288.19274 Lv 293.20449 Ts 292.20746 Og 294.21392
"""
# Isotopes by which molecules are labeled; formulas write them [13C], deuterium also D.
_ISOTOPES = """
[2H] 2.014101778 [3H] 3.016049278 [6Li] 6.015122795 [10B] 10.012937 [13C] 13.00335484
[14C] 14.00324199 [15N] 15.0001089 [17O] 16.9991317 [18O] 17.999161 [29Si] 28.9764947
[30Si] 29.97377017 [32P] 31.97390727 [33P] 32.9717255 [33S] 32.97145876 [34S] 33.9678669
[35S] 34.96903216 [36S] 35.96708076 [36Cl] 35.96830698 [37Cl] 36.96590259 [41K] 40.96182576
[79Br] 78.9183371 [81Br] 80.9162906 [125I] 124.9046302 [131I] 130.9061246
"""
#: Masses of the most abundant isotopes, of an element without a stable one that which RDKit takes,
#: and of isotopes that a formula names.
MASSES = {
    name: float(mass)
    for name, mass in (text.split() for text in re.findall(r"\S+ \S+", _ELEMENTS + _ISOTOPES))
}
MASSES |= {"D": MASSES["[2H]"], "T": MASSES["[3H]"]}
# RDKit writes * for an atom that is not known.
_SYMBOL = r"[A-Z][a-z]?|\*|\[\d+[A-Z][a-z]?\]"
_ELEMENT = re.compile(rf"({_SYMBOL})(\d*)")
_FORMULA = re.compile(rf"((?:(?:{_SYMBOL})\d*)+)([+-]\d*)?", re.ASCII)
# Digits of the number of atoms of an element.
_DIGITS = 6


def _parsed(formula: str) -> tuple[Counter[str], str]:
    """Return how many atoms of each element a formula has, and the charge at its end."""
    match = _FORMULA.fullmatch(str(formula).replace(" ", ""))
    if match is None:
        raise ValueError(
            f"formula must be like 'C6H12O6', a charge at the end ('C5H14NO+'). Got {formula!r}."
        )
    counts: Counter[str] = Counter()
    for element, number in _ELEMENT.findall(match[1]):
        if len(number) > _DIGITS:
            raise ValueError(f"formula {str(formula)[:40]!r} has more atoms than a molecule.")
        counts[element] += int(number or 1)
    return counts, match[2] or ""


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
    >>> from skout.apps.spectra.readers.formulas import hill
    >>> hill("CH3CH2OH"), hill("NaCl"), hill("SO4-2")
    ('C2H6O', 'ClNa', 'O4S-2')
    """
    counts, charge = _parsed(formula)
    first = [element for element in ("C", "H") if "C" in counts and element in counts]
    order = first + sorted(set(counts) - set(first))
    texts = (
        f"{element}{counts[element] if counts[element] > 1 else ''}"
        for element in order
        if counts[element]
    )
    return "".join(texts) + charge.removesuffix("1")


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
