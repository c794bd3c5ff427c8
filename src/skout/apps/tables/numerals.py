"""Numbers as people write them: with thousands, decimal commas, currencies, percents and bounds.

A cell is read by itself where that is clear: "1,5" and "1,234.5". What is not, "1,234" and "1.234",
"76%" or "91 min", is read by the `Writing` of the column, which `kinds.Content` infers from all
cells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .dates import is_date_range, parse_dates

#: Cells that stand for a missing value in any column, in lower case.
MISSING = (
    *("", "?", "na", "n/a", "#n/a", "nan", "null", "none", "n.a.", "n.a", "<na>", "nat"),
    "\\n",  # \N, as databases write NULL
)
# Cells that do so among numbers or dates only; elsewhere they may be a category.
_UNKNOWN = {
    *("-", "--", "---", ".", "..", "...", "–", "—", "…", "*", "n.d.", "n.d", "n.a.", "n.a"),
    *("unknown", "missing", "not available", "not applicable", "not determined", "not known"),
    *("tbd", "tba", "blank", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"),
}
#: Whether a cell is a number as programs write it.
is_plain = re.compile(
    r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity)\s*", re.ASCII | re.IGNORECASE
).fullmatch

_MONEY = "$€£¥₹₩₽₺₪₫₴฿"
_CODES = (
    *("usd", "eur", "gbp", "chf", "jpy", "cny", "inr", "aud", "cad", "sek", "nok", "dkk", "pln"),
    *("czk", "brl", "mxn", "krw", "rub", "try", "huf", "sgd", "hkd", "nzd", "kr"),
)
# Not the names of genes' variants, rs10907175.
_RUPEES = r"(?-i:R[sS])|rs(?=[. ])"
#: Units that any share of the numbers may have: currencies and the percent sign.
SIGNS = (*_MONEY, *_CODES, "rs", "%")
# Powers of ten that words stand for; of letters, "m" does only beside a currency.
_POWERS = {
    "k": 3,
    "tsd": 3,
    "thousand": 3,
    "lakh": 5,
    "mn": 6,
    "mio": 6,
    "million": 6,
    "millions": 6,
}
_POWERS |= {"crore": 7, "bn": 9, "mrd": 9, "billion": 9, "billions": 9, "trillion": 12}
_UPPER_POWERS = {"M": 6, "B": 9, "T": 12}
# Words for the same unit, and units of the same quantity, of which each is so many of the first.
_SAME = {"minute": "min", "minutes": "min", "mins": "min", "hr": "h", "hrs": "h", "hour": "h"}
_SAME |= {"hours": "h", "second": "s", "seconds": "s", "sec": "s", "secs": "s", "days": "day"}
_SAME |= {"weeks": "week", "wk": "week", "wks": "week", "mo": "month", "mos": "month", "d": "day"}
_SAME |= {"months": "month", "years": "year", "yr": "year", "yrs": "year", "y": "year"}
_SAME |= {"lbs": "lb", "inch": "in", "inches": "in", "feet": "ft", "grams": "g", "meters": "m"}
FAMILIES: dict[str, dict[str, float]] = {
    "min": {"min": 1, "m": 1, "s": 1 / 60, "h": 60, "day": 1440, "week": 10080, "month": 43830}
    | {"year": 525960},
    "kg": {"kg": 1, "g": 1e-3, "mg": 1e-6, "lb": 0.45359237, "oz": 0.028349523, "t": 1e3},
    "m": {"m": 1, "mm": 1e-3, "cm": 1e-2, "km": 1e3, "in": 0.0254, "ft": 0.3048, "mi": 1609.344},
    "mb": {"mb": 1, "kb": 1e-3, "gb": 1e3, "tb": 1e6},
    "latitude": {"n": 1, "s": -1},
    "longitude": {"e": 1, "w": -1},
}
_BEFORE = (
    r"(?:no |not )?(?:more|less|fewer|greater|larger|smaller|older|younger|higher|lower) than|over|"
    r"under|above|below|at least|at most|up to|about|around|approximately|approx\.?|circa|ca\.?|"
    r"c\.|nearly|almost|[<>≤≥~≈]=?"
)
_AFTER = r"\+|\?|(?:or|and) (?:more|less|fewer|over|above|under|below|up|older|younger)|plus"
# Letters that these begin with.
_INITIALS = "abcdefghijklmnoprstuyzABCDEFGHIJKLMNOPRSTUYZ№"
# A sign, or up to three words: "%", "kg", "m/s²", "% DV", "sq ft", "руб."
_LETTERS = r"(?:[^\W\d_]|[°²³㎡㎥])"
_UNIT = (
    rf"[%‰{_MONEY}](?: [^\W\d_]{{1,11}})?|"
    rf"{_LETTERS}(?:{_LETTERS}|[/.·]){{0,15}}[23]?(?: [^\W\d_]{{1,11}}\.?){{0,2}}?"
)
_NO_UNITS = ("e", "to", "or", "of", "and", "x")
_LESS = re.compile(r"less|fewer|smaller|younger|lower|under|below|at most|up to|<|≤").search
_ABOUT = re.compile(r"about|around|approx|circa|ca|c\.|nearly|almost|~|≈").match
_CELL = re.compile(
    rf"(?P<before>{_BEFORE})?\s*(?:#|no\.|nr\.|№)?\s*(?P<sign>[+-])?\s?"
    rf"(?P<money>(?:us|a|c|nz|hk|r|s)?[{_MONEY}]|(?:{'|'.join(_CODES)}|{_RUPEES})\.?)?\s?"
    r"(?P<minus>-)?"
    r"(?P<digits>[.,]?\d[\d.,' ]*)(?P<exponent>e[+-]?\d+)?"
    rf"(?P<ordinal>(?:st|nd|rd|th)(?![^\W\d_]))?\s?(?:(?P<early>{_AFTER})\s?)?(?P<unit>{_UNIT})??"
    rf"\s?(?P<after>{_AFTER})?\s*(?:\([^()]*\)|\[[^\[\]]*\]|\*+|(?:±|\+/-)\s?[\d.,]+)?",
    re.IGNORECASE,
).fullmatch
# Digits with a decimal point, or with a decimal comma; groups of three, or of two as in India.
_FORMS = {
    decimal: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}(?:({group}|[' ])\d{{3}})(?:\1\d{{3}})*"
        rf"|[1-9]\d?(?:{group}\d\d)+{group}\d{{3}})?(?:{point}\d*)?",
        re.ASCII,
    ).fullmatch
    for decimal, point, group in ((".", r"\.", ","), (",", ",", r"\."))
}
# Two numbers of which the second is the most that there can be; hours and minutes; amounts of time
# in several units; degrees with minutes; feet and inches. Each has a value by itself.
_OF = re.compile(
    r"(\d+(?:[.,]\d+)?)\s*(?:out of|of|/)\s*(\d+)(?:\s+[a-z]+)?", re.A | re.I
).fullmatch
_CLOCK = re.compile(
    r"(?:(\d+) days?,? \+?)?(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?)|(\.\d+))?"
    r"\s*([ap])?\.?(?:m\.?)?",
    re.A | re.I,
).fullmatch
_TIMES = ("year", "month", "week", "day", "h", "min", "s")
_SPAN = re.compile(
    "".join(
        rf"(?:(\d+(?:[.,]\d+)?)\s?(?:{words})[\s,]*(?:and\s+)?)?"
        for words in ("y(?:ea)?rs?|y", "mo(?:nth)?s?", "w(?:ee)?ks?|w", "days?|d", "h(?:ou)?rs?|h")
        + ("min(?:ute)?s?|m|'", 'sec(?:onds?|s)?|s|"')
    ),
    re.A | re.I,
).fullmatch
_ISO_SPAN = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",
    re.A,
).fullmatch
# Two years that follow each other: 2013-14, 2013/2014.
_SEASON = re.compile(r"((?:1[6-9]|2[01])\d\d)\s*[-–—/]\s*(\d{4}|\d\d)", re.A).fullmatch
_is_decade = re.compile(r"(?:1[6-9]|20)\d0", re.A).fullmatch  # of 1990s, which are no seconds
# The first and the last number of a range.
_RANGE = re.compile(
    r"(\d+(?:\.\d+)?)(?:\s*[-–—]\s*|\s+to\s+)(\d+(?:\.\d+)?)(?:\s?([^\W\d_]{1,12}))?", re.I
).fullmatch
_DEGREES = re.compile(
    r"([NSEWO])?\s*([+-]?\d{1,3}(?:[.,]\d+)?)\s*(?:°|º|deg)\s*(?:(\d{1,2}(?:[.,]\d+)?)\s*['′’]\s*)?"
    r"(?:(\d{1,2}(?:[.,]\d+)?)\s*(?:\"|″|''|”)\s*)?([NSEWO])?",
    re.I,
).fullmatch
_DIRECTION = re.compile(r".*[°º].*[NSEWO]", re.I).fullmatch
_FEET = re.compile(
    r"(\d)\s?(?:'|’|′|ft\.?|feet)\s?(\d{1,2}(?:\.\d+)?)\s?(?:\"|”|″|''|in\.?|inches)?", re.I
).fullmatch
_TIDY = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2212": "-", "\u2019": "'"})
# Letters of a cell that may be a number.
_LONGEST = 64
_DIGIT = re.compile(r"\d", re.ASCII).search


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value in any column."""
    return cell.strip().lower() in MISSING


def is_unknown(cell: str) -> bool:
    """Whether a cell among numbers or dates stands for an unknown value."""
    return cell.strip().lower() in _UNKNOWN


@dataclass(frozen=True)
class Writing:
    """How the numbers of a column are written."""

    decimal: str = "."  # before the decimals, where a cell does not tell: 1,234 and 1.234
    unit: str = ""  # what stands beside them, such as "$" or "min"
    family: str = ""  # of `FAMILIES`, where cells have several units of one quantity
    percent: float = 1.0  # what "1%" is: 0.01 in a column of shares
    true: Sequence[str] = ()  # words that mean 1, in lower case, if all other cells mean 0
    are_dates: bool = False  # which become years, with decimals

    def record(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {**asdict(self), "true": list(self.true)}


#: As programs do.
PLAIN = Writing()
#: What `Writing.true` is where every word means 1, and nothing means 0.
ANY_WORD = ("*",)


class Numeral(NamedTuple):
    """A number in a cell."""

    digits: str  # with separators
    sign: str
    exponent: str
    unit: str
    bound: str  # "<" of "<0.01", ">" of "more than 3" and "5+", "~" of "about 3" and "3?", or ""
    amount: float | None = None  # what it is, of cells such as "1 h 20 min" that have several

    @property
    def decimal(self) -> str:
        """The decimal sign, "" where the digits may be read with either."""
        if self.amount is not None:
            return ""
        point, comma = (_FORMS[sign](self.digits) is not None for sign in ".,")
        return "" if point == comma else "." if point else ","

    def value(self, writing: Writing) -> float | None:
        """Return the number, None if its unit is not that of the column."""
        factor = FAMILIES.get(writing.family, {}).get(self.unit, 1.0)
        is_alike = self.unit in FAMILIES.get(writing.family, ())
        is_other = self.unit not in ("", writing.unit) and (writing.unit or self.unit not in SIGNS)
        if is_other and not is_alike:
            return None
        if self.amount is not None:
            return self.amount * factor
        decimal = self.decimal or writing.decimal
        groups = re.sub(r"[' ]", "", self.digits).replace("," if decimal == "." else ".", "")
        number = float(f"{self.sign}{groups.replace(',', '.')}{self.exponent}")
        return number * (writing.percent if self.unit == "%" else factor)


def numeral(cell: str) -> Numeral | None:
    """Return the number in a cell with its surroundings, None if there is none that is clear.

    Examples
    --------
    >>> from skout.apps.tables.numerals import numeral
    >>> numeral("< 1,234.5 mg")
    Numeral(digits='1,234.5', sign='', exponent='', unit='mg', bound='<', amount=None)
    >>> numeral("A12"), numeral("3 to 4")
    (None, Numeral(digits='', sign='', exponent='', unit='', bound='~', amount=3.5))
    """
    if len(cell) > _LONGEST or _DIGIT(cell) is None:
        return None
    text = cell.strip() if cell.isascii() else cell.strip().translate(_TIDY)
    can_begin = not text[0].isalpha() or text[0] in _INITIALS
    match = _CELL(text) if can_begin and not _DIRECTION(text) else None
    if match is None:
        if text[0] == "(" and text[-1] == ")" and "(" not in text[1:]:  # as accountants write -5
            inner = numeral(text[1:-1])
            is_money = inner is not None and not inner.sign and inner.amount is None
            return inner._replace(sign="-") if is_money and inner is not None else None
        if text[0] == "[" and text[-1] == "]":  # as tables of constants write an estimate
            inner = numeral(text[1:-1])
            return None if inner is None else inner._replace(bound=inner.bound or "~")
        return _measure(text) if can_begin else None
    digits = match["digits"].rstrip()
    if not any(form(digits) for form in _FORMS.values()):
        return _measure(text)
    money, word = (match["money"] or "").lower().rstrip("."), (match["unit"] or "").rstrip(".")
    is_plural = len(word) > 3 and word.lower() not in _SAME and not word.lower().endswith("ss")
    word = word.removesuffix("s") if is_plural else word
    power = (
        _POWERS.get(word.lower()) or _UPPER_POWERS.get(word) or (6 if money and word == "m" else 0)
    )
    unit = "" if power else _SAME.get(word.lower(), word.lower())
    is_no_unit = unit.partition(" ")[0] in _NO_UNITS and word != "E"  # east
    if (money and unit) or is_no_unit or (power and match["exponent"]):
        return None
    exponent = match["exponent"] or (f"e{power}" if power else "")
    sign = match["sign"] or match["minus"] or ""
    if unit == "s" and _is_decade(digits):
        return Numeral(digits, sign, exponent, "", "~")
    currency = money[-1:] if money[-1:] in _MONEY else money  # US$ is $
    return Numeral(digits, sign, exponent, currency or unit, _bound(match))


def _measure(text: str) -> Numeral | None:
    """Return the amount in a cell of several numbers, such as "1h 20m"; None if it has none.

    Examples
    --------
    >>> from skout.apps.tables.numerals import numeral
    >>> [numeral(cell).amount for cell in ("3 of 5", "1h 20m", "40°30'S", "5'11")]
    [3.0, 80.0, -40.5, 71.0]
    """
    amount, unit, bound = None, "", ""
    if is_season(text):
        amount = float(text[:4])
    elif match := _OF(text):
        amount, unit = _number(match[1]), f"of {int(match[2])}"
    elif match := _CLOCK(text):
        days, hours, minutes, seconds = (_number(part) for part in match.groups()[:4])
        if match[6] and hours <= 12:
            hours = hours % 12 + 12 * (match[6].lower() == "p")
        amount, unit = 1440 * days + 60 * hours + minutes + seconds / 60, ":"
        if match[5]:  # minutes and seconds
            amount = hours + (minutes + float(match[5])) / 60
    elif (match := _DEGREES(text)) and (match[1] or match[3] or match[5]):
        degrees, minutes, seconds = (_number(part) for part in match.groups()[1:4])
        size = abs(degrees) + minutes / 60 + seconds / 3600
        side = (match[1] or match[5] or "").upper()
        amount, unit = -size if side in ("S", "W") or degrees < 0 else size, "°"
    elif match := _FEET(text):
        amount, unit = 12 * _number(match[1]) + _number(match[2]), "in"
    elif (match := _RANGE(text)) and (ends := _ends(match[1], match[2])) is not None:
        word = (match[3] or "").lower()
        amount, unit, bound = sum(ends) / 2, _SAME.get(word, word), "~"
    elif ((match := _SPAN(text)) and sum(part is not None for part in match.groups()) > 1) or (
        (match := _ISO_SPAN(text)) and any(match.groups())
    ):
        parts = zip(_TIMES, match.groups(), strict=True)
        amount, unit = sum(FAMILIES["min"][time] * _number(part) for time, part in parts), "min"
    return None if amount is None else Numeral("", "", "", unit, bound, amount)


def is_season(cell: str) -> bool:
    """Whether a cell has a year and the one after it.

    Examples
    --------
    >>> from skout.apps.tables.numerals import is_season
    >>> [is_season(cell) for cell in ("1999-00", "2013/2014", "2013-15", "2013-12")]
    [True, True, False, False]
    """
    match = _SEASON(cell.strip())
    return match is not None and str(int(match[1]) + 1).endswith(match[2])


def _ends(first: str, last: str) -> tuple[float, float] | None:
    """Return both ends of a range, None if it is none; the last may lack digits: 1907-09."""
    if len(last) < len(first) and first.isdigit() and last.isdigit():
        last = first[: -len(last)] + last
    ends = float(first), float(last)
    return ends if ends[0] < ends[1] else None


def _number(part: str | None) -> float:
    return float((part or "0").replace(",", "."))


def _bound(match: re.Match[str]) -> str:
    """Return "<", ">" or "~" where a cell has a bound or an estimate, and "" otherwise."""
    before, after = (match["before"] or "").lower(), match["after"] or match["early"] or ""
    if not (before or after):
        return ""
    if after == "?" or _ABOUT(before):
        return "~"
    is_less = _LESS(before) or _LESS(after.lower())
    return "<" if bool(is_less) != before.startswith(("no ", "not ")) else ">"


class Read(NamedTuple):
    """Cells as numbers: NaN where one is missing, or cannot be read."""

    values: np.ndarray
    unread: list[int]  # positions of cells that are no numbers
    bounds: list[int]  # and of those that say more or less than a number, which is taken


def _plain_numbers(cells: Sequence[str]) -> np.ndarray | None:
    """Return the numbers of cells that all are plain, or "nan"; None if any is not."""
    text = "".join(cells)
    if "_" in text or not text.isascii():  # which float takes
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, count=len(cells))
    except ValueError:
        return None


def _is_true(cell: str, true: Sequence[str]) -> bool:
    word = cell.strip().lower()
    return word in true or (tuple(true) == ANY_WORD and not is_missing(word))


def read_numbers(cells: Sequence[str], writing: Writing = PLAIN) -> Read:
    """Return the numbers of the cells of a column, written as `writing` says.

    Where a cell does not tell whether it has a decimal comma, the other cells may.

    Examples
    --------
    >>> from skout.apps.tables.numerals import read_numbers
    >>> read_numbers(["1,234.5", "$12", "n.d.", "<0.01", ""])
    Read(values=array([1.2345e+03, 1.2000e+01,        nan, 1.0000e-02,        nan]), unread=[2],
         bounds=[3])
    """
    if writing.true:
        return Read(np.array([_is_true(cell, writing.true) for cell in cells], float), [], [])
    if writing.are_dates:
        years = parse_dates(cells)
        gaps = np.isnat(years)
        days = (years - years.astype("datetime64[Y]")) / np.timedelta64(1, "D")
        values = np.where(gaps, np.nan, years.astype("datetime64[Y]").astype(int) + 1970)
        unread = [i for i in np.flatnonzero(gaps).tolist() if not is_missing(cells[i])]
        ranges = [i for i, cell in enumerate(cells) if is_date_range(cell)]
        return Read(values + days / 365.25, unread, ranges)
    plain = None
    if writing.decimal == ".":
        plain = _plain_numbers(cells)
        if plain is None:
            plain = _plain_numbers(["nan" if is_missing(cell) else cell for cell in cells])
    if plain is not None and not np.isinf(plain).any():
        return Read(plain, [], [])
    numerals = [None if is_missing(cell) else numeral(cell) for cell in cells]
    decimals = {number.decimal for number in numerals if number is not None} - {""}
    if len(decimals) == 1:
        writing = replace(writing, decimal=decimals.pop())
    values, unread, bounds = np.full(len(cells), np.nan), [], []
    for i, (cell, number) in enumerate(zip(cells, numerals, strict=True)):
        value = number.value(writing) if number is not None else None
        if value is None and is_plain(cell):  # 1e5, inf
            value = float(cell)
        if value is not None and math.isfinite(value):
            values[i] = value
            if number is not None and number.bound:
                bounds.append(i)
        elif not is_missing(cell):
            unread.append(i)
    return Read(values, unread, bounds)
