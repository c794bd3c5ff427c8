"""Kinds of columns of tables, inferred from all their cells, for files and for models."""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from skout.kinds import LabelSets
from skout.molecules import parse_smiles

from .dates import is_basic_date, looks_like_date
from .numerals import (
    FAMILIES,
    PLAIN,
    SIGNS,
    Writing,
    is_missing,
    is_plain,
    is_season,
    is_unknown,
    numeral,
    read_numbers,
)

#: What may stand between the elements of sets.
SEPARATORS = ";|,/\n"
#: The word that may do so, too.
AND = " and "
#: Kinds of columns that become numbers.
KINDS = ("number", "date", "category", "categories", "set", "text", "smiles")
# Of the filled cells, the share that must be numbers, dates or codes; of the numbers, the share
# that has a unit; of the cells, the share that must have a separator.
_MOSTLY, _HALF, _OFTEN = 0.9, 0.5, 0.05
# Rows from which on different values look like names of the rows.
_SOME_ROWS = 10
# Different words of a column that are counted.
_MOST_WORDS = 1000
# Sets: how often an element is met on average, and how many there are at most; of elements in
# cells with a separator, the share that other cells have in another place. In the 21 tables of
# people that this was measured on, sets have shares of 0.4 to 1, and names ("Auerbach, Frank"),
# places ("Chicago, IL"), prose and paths 0.36 at most.
_MET, _MOST_ELEMENTS, _ELSEWHERE = 1.5, 5000, 0.4
# Of elements that are not the first of their cell, the share that others have alone or first, in
# different cells: 0.2 and more in 45 columns of sets, and 0 in eight such as "ORB/Telegraph" beside
# "ORB", whose first elements are alone in many cells. One such cell, "Japan/USA", is a class.
_LATER, _CELLS = 0.1, 2
# Signs that names and prose rarely have: elements that are met so often are enough.
_CLEAR, _MET_OFTEN = ";|", 3.0
# Of few different cells that is enough of a slash, too, if these are so many, since classes such as
# "finance/insurance/real estate" were 5 to 10 in five tables; and if they have so many different
# numbers of elements, as neither "km/h" nor "Ham/Pork" beside "Turkey" have; and cells with a
# separator may be fewer, at least so many, if nearly all of their elements are met elsewhere: 70 of
# 3,009 such as "leaves, stems" beside "leaves" and "stems". In columns of more cells both take
# names for sets.
_FEW_CELLS, _NOT_FEWER, _SIZES, _RARE, _SURELY_ELSEWHERE = 30, 12, 3, 10, 0.7
# Characters of names and keys.
_LETTERS = 30
# Different words among few numbers which make them classes.
_LEAST_WORDS = 2
# Text: words in a cell on average, and the share of different cells.
_WORDS, _DIFFERENT = 3.0, 0.3
_WORD = re.compile(r"\S*[^\W\d_]\S*").findall
_SPACE = re.compile(r"\s").search
_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII).fullmatch
# A number in digits that has a 0 before it, as codes have; and words such as A12 or 12-b.
_PADDED = re.compile(r"\s*0(\d+|[1-9]\d*\.\d+)\s*", re.ASCII).fullmatch
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)\b", re.ASCII | re.IGNORECASE).search
_CODE = re.compile(r"(?=.*\d)(?=.*[a-z])[\w./-]{1,12}", re.ASCII | re.IGNORECASE).fullmatch
# Letters and signs of SMILES; half of the cells must have signs that words have not; most cells
# that RDKit parses.
_SMILES = re.compile(r"[A-Za-z0-9@+\-\[\]()=#$%/\\.:*~]{1,1000}", re.ASCII).fullmatch
_SMILES_SIGNS = re.compile(r"[=#]|[A-Za-z\]]\(|[cnosCNO]\d|\[.*\]").search
_MOST_MOLECULES = 100
# The words of a name: customerId, customer_id.
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Za-z][a-z]*\d*|\d+").findall
# Names of columns that number the rows, and words at the end of names that may.
_ROW_NUMBERS = (
    *("", "id", "idx", "index", "row", "rowid", "row_id", "rownames", "rowname", "row_names"),
    *("row.names", "...1", "unnamed: 0", "uid", "uuid", "guid"),
)
_IDS = {
    *("id", "uid", "uuid", "guid", "isbn", "issn", "ean", "upc", "gtin", "sku", "ssn", "iban"),
    *("phone", "telephone", "tel", "mobile", "fax"),
}
_MAY_BE_IDS = {"key", "no", "nr", "nbr", "num", "nummer"}  # or counts
# And of names whose digits are no amounts: postal codes, classifications, versions.
_CODES = {
    *(
        "code",
        "codes",
        "zip",
        "zipcode",
        "postcode",
        "postal",
        "plz",
        "cp",
        "fips",
        "nace",
        "naics",
    ),
    *("isic", "isco", "icd", "icd9", "icd10", "cpt", "version"),
}
# What names of classes end with, which whole numbers may stand for; and what names of amounts begin
# or end with, which count from 0 as codes do.
_CLASSES = {
    *("class", "classes", "classification", "category", "cat", "type", "kind", "label", "species"),
    *("genus", "breed", "cultivar", "variety", "group", "grp", "cluster", "stratum", "strata"),
    *("status", "race", "ethnicity", "religion", "sex", "gender", "marital", "occupation", "party"),
    *("region", "district", "state", "province", "country", "county", "city", "site", "habitat"),
    *("industry", "sector", "division", "department", "dept", "origin", "treatment", "trt", "arm"),
    *("color", "colour", "brand", "diagnosis", "cause", "method", "mode", "shape", "material"),
}
_AMOUNTS = {
    *("n", "nb", "num", "number", "no", "nr", "nof", "count", "counts", "cnt", "total", "sum"),
    *("kids", "children", "siblings", "sibs", "dependents", "rooms", "bedrooms", "bathrooms"),
    *("beds", "baths", "doors", "fireplaces", "years", "yrs", "months", "weeks", "days", "hours"),
    *("age", "visits", "times", "goals", "points", "wins", "losses", "score", "scores", "rating"),
    *("ratings", "stars", "accidents", "deaths", "fatalities", "injuries"),
}
# Whole numbers of so many digits, all of one width and all different, are names of rows; so are
# those in columns whose name says so, if this share of rows has a value of its own.
_ID_DIGITS, _ID_SHARE = 10, 0.5
# Digits behind the point that most codes have at most, as of diseases, 250.01.
_CODE_DECIMALS = 2
# Seconds, and thousandths of them, from which on there are that many since 1970.
_SECONDS = 1e9, 1e12
# Units of quantities.
_QUANTITIES = {unit for family in FAMILIES.values() for unit in family}
# Besides one word for all the others, "free" among prices, this share of numbers at least.
_SOME_NUMBERS = 0.1


@dataclass
class Content:
    """Counts of the cells of a column so far, from which its kind is inferred."""

    plain: int = 0  # how many are numbers as programs write them
    padded: int = 0  # of these, with a 0 before them
    basic: int = 0  # of these, how many could be a date too, 20240531
    largest: float = 0.0
    widths: set[int] = field(default_factory=set)  # of whole numbers
    units: Counter[str] = field(default_factory=Counter)  # of numbers that are not plain
    decimals: Counter[str] = field(default_factory=Counter)  # of numbers that tell
    bounds: set[tuple[str, str]] = field(default_factory=set)  # digits, and on which side
    ranges: int = 0  # of numbers, such as 3-4
    ordinals: int = 0  # of numbers, such as 3rd
    values: set[str] = field(default_factory=set)  # some of the numbers
    others: set[str] = field(default_factory=set)  # some of the cells that are no numbers
    codes: Counter[str] = field(default_factory=Counter)  # words with letters and digits
    dates: int = 0  # how many cells have the form of a date
    year_pairs: int = 0  # of these, how many could be a year and the next, 2009-10
    seasons: int = 0  # how many cells can be nothing else, 2013-14
    words: int = 0  # how many are neither plain numbers nor dates, nor stand for a missing value
    unread: int = 0  # of these, how many are neither numbers nor stand for an unknown value
    gaps: int = 0  # how many cells are empty, or stand for a missing value
    first_word: tuple[int, str] = (0, "")  # row and cell of the first that is no plain number
    goes_up: bool = True  # all cells are integers, each larger than the one before
    declared: str | None = None  # the kind, where the file itself has types
    decimal: str = "."  # what numbers have before their decimals, where cells do not tell
    _last: float = field(default=-np.inf, repr=False)

    def add(self, cells: Sequence[str], start: int) -> None:
        """Count more cells, of which the first is in row `start`."""
        others = [i for i, cell in enumerate(cells) if not is_plain(cell)]
        filled = [i for i in others if not is_missing(cells[i])]
        self.gaps += len(others) - len(filled)
        if filled and not self.first_word[0]:
            self.first_word = start + filled[0], cells[filled[0]].strip()
        odd = set(others)
        self._add_plain([cell for i, cell in enumerate(cells) if i not in odd] if odd else cells)
        for word, count in Counter(cells[i].strip() for i in filled).items():
            if looks_like_date(word):
                self.dates += count
                self.year_pairs += count * is_season(word)
            else:
                self._add_word(word, count)
        if self.goes_up:
            self.goes_up = all(map(_INTEGER, cells))
        if self.goes_up:
            values = [self._last, *map(float, cells)]
            self._last, self.goes_up = values[-1], all(a < b for a, b in itertools.pairwise(values))

    def _add_plain(self, cells: Sequence[str]) -> None:
        self.plain += len(cells)
        if len(self.values) <= _SOME_ROWS:
            self.values |= set(cells)
        self.largest = max(self.largest, max((abs(float(cell)) for cell in cells), default=0.0))
        dots = [cell.strip().lstrip("+-") for cell in cells if "." in cell]
        self.decimals["."] += sum(d[-4:-3] != "." or d[0] == "0" or len(d) > 7 for d in dots)
        if len(dots) < len(cells) and len(self.widths) < 2:
            self.widths |= {len(cell.strip()) for cell in cells if "." not in cell}
        self.padded += sum(1 for cell in cells if cell.lstrip()[:1] == "0" and _PADDED(cell))
        self.basic += sum(1 for cell in cells if len(cell) >= 8 and is_basic_date(cell))

    def _add_word(self, word: str, count: int) -> None:
        number = numeral(word)
        self.words += count
        self.seasons += count * is_season(word)
        if number is not None and (number.unit in self.units or len(self.units) < _MOST_WORDS):
            self.units[number.unit] += count
            self.decimals[number.decimal] += count
            self.ordinals += count * bool(_ORDINAL(word))
            self.ranges += count * (number.bound == "~" and number.amount is not None)
            if len(self.values) <= _SOME_ROWS:
                self.values.add(number.digits or str(number.amount))
            if number.bound and len(self.bounds) < _MOST_WORDS:
                self.bounds.add((number.digits, number.bound))
        else:
            number = None
            if not is_unknown(word):
                self.unread += count
                if len(self.others) < 2:
                    self.others.add(word.lower())
        is_counted = word in self.codes or len(self.codes) < _MOST_WORDS
        if (number is None or number.unit) and is_counted and _CODE(word):
            self.codes[word] += count

    @property
    def kind(self) -> str:
        """One of "number", "date", "text" and "empty"."""
        if self.declared is not None:
            return self.declared
        dates, filled = self.dates + self.basic, self.dates + self._filled
        are_seasons = self.seasons > 0 and self.year_pairs == self.dates
        if dates and dates >= _MOSTLY * filled and not are_seasons:
            return "date"
        alike = {"", self._unit, *FAMILIES.get(self._family, ())}
        readable = self.plain + sum(self.units[unit] for unit in alike)
        readable += self.year_pairs if are_seasons else 0
        # one word for all the others says no more than a gap does
        has_one_word = (
            readable + self.unread == filled
            and readable >= _SOME_NUMBERS * filled
            and len(self.values) > _SOME_ROWS
            and len(self.others) == 1
            and not any(map(str.isdigit, next(iter(self.others))))
        )
        is_mostly = bool(readable) and (readable >= _MOSTLY * filled or has_one_word)
        # "under 18" beside "18 or older" are categories: as numbers they would be the same
        two_sides = any((digits, "<") in self.bounds for digits, side in self.bounds if side == ">")
        # "1", "2-5" and "6-10" are classes of numbers, and few
        are_few = len(self.values) <= _SOME_ROWS
        is_ranges = 2 * self.ranges > readable or (self.ranges > 0 and are_few)
        if is_mostly and not (two_sides or is_ranges or self._are_codes or self._are_names):
            return "number"
        return "text" if self.dates or self.words or self.plain else "empty"

    @property
    def writing(self) -> Writing:
        """How the numbers are written, if there are any."""
        points, commas, decimal = self.decimals["."], self.decimals[","], self.decimal
        if points != commas:
            decimal = "." if points > commas else ","
        is_share = self.plain > 0 and self.largest <= 1.0
        return Writing(decimal, self._unit, self._family, 0.01 if is_share else 1.0)

    @property
    def _filled(self) -> int:
        return self.plain + sum(self.units.values()) + self.unread

    @property
    def _unit(self) -> str:
        """The unit: a word that half of the numbers have, or else a sign that some have."""
        total = self.plain + sum(self.units.values())
        with_unit = self.units.total() - self.units[""]
        for unit, count in self.units.most_common():
            # of numbers most of which have none, it is that of all that have one: 5'4" beside 64
            is_only = count == with_unit and len(unit) > 1 and unit in _QUANTITIES
            if unit in SIGNS or (unit and count >= _HALF * total) or is_only:
                return unit
        return ""

    @property
    def _family(self) -> str:
        """The quantity, such as time, of which the numbers have several units; empty if none."""
        units = {unit: count for unit, count in self.units.items() if unit}
        if len(units) < 2 or sum(units.values()) < _HALF * (self.plain + self.units.total()):
            return ""
        for name, family in FAMILIES.items():
            counts = [units[unit] for unit in family if unit in units]
            if len(counts) > 1 and sum(counts) >= _MOSTLY * sum(units.values()):
                return name
        return ""

    @property
    def _are_codes(self) -> bool:
        """Whether cells are codes: digits such as 007, or numbers beside words such as A12."""
        of_one_width = self.plain == self._filled and len(self.widths) == 1
        if self.padded and (of_one_width or self.padded > (1.0 - _MOSTLY) * self.plain):
            return True
        read = {word: numeral(word) for word in self.codes}
        alike = {self._unit, *FAMILIES.get(self._family, ())}
        unread = [w for w, number in read.items() if number is None or number.unit not in alike]
        return len(unread) > 1 and max(self.codes[word] for word in unread) > 1

    @property
    def _are_names(self) -> bool:
        """Whether the words behind the numbers say more than the numbers.

        These are "1924 Winter" beside "2024 Summer", and "1/1" beside "1/2", but not "3 of 5".
        """
        totals = [unit for unit in self.units if unit.startswith("of ")]
        words = [u for u in self.units if len(u) > 2 and u.isalpha() and u not in _QUANTITIES]
        are_words = not self.plain and sum(self.units[word] > 1 for word in words) > 1
        return len(totals) > 1 or are_words

    @property
    def is_scale(self) -> bool:
        """Whether a target of these numbers is one of classes: few, and not all are amounts.

        These are "1st" and "2nd", or 1, 2 and "3+", or 1, 2, "tie" and "void"; one word alone may
        stand for a gap.
        """
        is_odd = bool(self.bounds) or self.ordinals > 0 or len(self.others) >= _LEAST_WORDS
        return self.kind == "number" and len(self.values) <= _SOME_ROWS and is_odd

    @property
    def counts_rows(self) -> bool:
        """Whether the column may number the rows."""
        return self.goes_up and self.plain >= _SOME_ROWS

    def __str__(self) -> str:
        """Return the kind, and the first cell that is no number where others are."""
        row, cell = self.first_word
        if self.kind != "number" and self.plain and row:
            return f"{self.kind}: {cell!r} in row {row}"
        return self.kind


@dataclass(frozen=True)
class Look:
    """The kind of a column as an input of a model, and what its encoder needs."""

    kind: str  # one of `KINDS`, or "id", "constant" or "empty"
    why: str = ""  # in a few words, where it is not used
    separator: str = ""  # between the elements of sets
    writing: Writing = PLAIN  # of numbers


def look_at(name: str, values: np.ndarray, one_hot: int = 30, separators: str = SEPARATORS) -> Look:
    """Return the kind of a column, of values as `columns_of` returns them.

    A category has at most `one_hot` values; `separators` may be between the elements of sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.apps.tables.kinds import look_at
    >>> look_at("color", np.array(["red", "blue", "red", None], dtype=object)).kind
    'category'
    """
    is_text = values.dtype == object
    filled = values[[cell is not None for cell in values] if is_text else ~np.isnan(values)]
    if len(filled) == 0:
        return Look("empty", "no value at all")
    different = len(set(filled.tolist()))
    if different == 1 and len(filled) == len(values):
        return Look("constant", "one value only")
    if is_row_number(name) and _stand_alone(filled):
        return Look("id", "all values differ" if different == len(values) else "by its name")
    names_rows = len(values) >= _SOME_ROWS and different == len(values)
    if values.dtype.kind == "M":
        return Look("date")
    if values.dtype.kind == "f":
        return _number(name, filled, names_rows, writing_of(values), one_hot)
    cells, content = filled.tolist(), Content()
    content.add(cells, 1)
    if content.kind == "number":
        numbers = read_numbers(cells, content.writing).values
        return _number(name, numbers, names_rows, content.writing, one_hot)
    if content.kind == "date":
        return Look("date")
    if are_smiles(cells):
        return Look("smiles")
    if names_rows and _are_keys(name, cells):
        return Look("id", "all values differ")
    mostly_differ = different >= max(_SOME_ROWS, _MOSTLY * len(cells))
    if mostly_differ and _name_ending(name) in _IDS and not any(map(_SPACE, cells)):
        return Look("id", "by its name")
    separator = _separator(cells, separators)
    if separator:
        return Look("set", separator=separator)
    if different <= one_hot:
        return Look("category")
    words = sum(len(_WORD(cell)) for cell in cells) / len(cells)
    is_free = words >= _WORDS and different >= _DIFFERENT * len(cells)
    return Look("text" if is_free else "categories")


def writing_of(values: np.ndarray) -> Writing:
    """Return how the numbers of a column are written, of values as `columns_of` makes them."""
    if values.dtype.kind == "f":
        largest = np.max(np.abs(values), initial=0.0, where=~np.isnan(values))
        return Content(plain=len(values), largest=float(largest)).writing
    content = Content()
    if values.dtype.kind == "O":
        content.add([cell for cell in values if cell is not None], 1)
    return content.writing


def _number(
    name: str, values: np.ndarray, names_rows: bool, writing: Writing, one_hot: int
) -> Look:
    """Return what a column of numbers is: an id, names that are written as numbers, or numbers."""
    different = np.unique(values)
    numbers = values[np.isfinite(values)]
    is_whole = bool(np.all(numbers == np.round(numbers)))
    may_be_codes = float(np.mean(numbers == np.round(numbers, _CODE_DECIMALS))) >= _HALF
    all_differ = names_rows and len(different) == len(values)
    counts = all_differ and bool(np.all(np.diff(values) == 1.0)) and values[0] in (0.0, 1.0)
    low, high = different[[0, -1]]
    is_long = (
        is_whole and low >= 10.0 ** (_ID_DIGITS - 1) and len(f"{low:.0f}") == len(f"{high:.0f}")
    )
    is_long &= not any(unit <= low and high < 2.0 * unit for unit in _SECONDS)
    if counts or (all_differ and (is_long or (is_whole and may_be_id(name)))):
        return Look("id", "all values differ")
    is_id = is_whole and len(values) >= _SOME_ROWS and _name_ending(name) in _IDS
    if is_id and _stand_alone(values):
        return Look("id", "by its name")
    if is_id or (may_be_codes and _name_ending(name) not in _IDS and has_codes(name)):
        return Look("category" if len(different) <= one_hot else "categories")
    return Look("number", writing=writing)


def _stand_alone(values: np.ndarray) -> bool:
    """Whether most values are met in one row only, so that they tell nothing of another."""
    counts = Counter(values.tolist())
    return sum(count == 1 for count in counts.values()) >= _ID_SHARE * len(values)


def _are_keys(name: str, cells: Sequence[str]) -> bool:
    """Whether cells that are all different look like numbers, codes or keys."""
    if any(len(cell.split()) > 1 and ("." in cell or _WORD(cell)) for cell in cells):
        return may_be_id(name) and max(map(len, cells)) <= _LETTERS
    shapes = Counter(re.sub(r"[a-z]+", "a", re.sub(r"\d+", "0", cell.lower())) for cell in cells)
    has_digits = sum("0" in shape for shape in shapes.elements()) >= _MOSTLY * len(cells)
    one_length = len(set(map(len, cells))) == 1
    one_shape = shapes.most_common(1)[0][1] >= _MOSTLY * len(cells)
    return may_be_id(name) or (has_digits and (one_length or one_shape))


def are_smiles(cells: Sequence[str]) -> bool:
    """Whether these are molecules, as SMILES, which RDKit can read."""
    distinct = list(dict.fromkeys(cells))[:_MOST_MOLECULES]
    may_be = sum(1 for cell in distinct if _SMILES(cell))
    with_signs = sum(1 for cell in distinct if _SMILES_SIGNS(cell))
    n = len(distinct)
    if not distinct or may_be < _MOSTLY * n or with_signs < _HALF * n:
        return False
    try:
        molecules = parse_smiles(distinct, on_error="none")
    except ImportError:
        return False
    return sum(molecule is not None for molecule in molecules) >= _MOSTLY * n


def _separator(cells: Sequence[str], separators: str) -> str:
    """Return what stands between the elements of sets, "" if these are none.

    Elements of sets come alone, first or later, and cells have different numbers of them. Parts
    of a name, of a place or of a sentence have a place of their own.
    """
    n_different = len(set(cells))
    are_few = n_different <= _FEW_CELLS
    for sign in (*separators, AND):
        n_with = sum(sign in cell for cell in cells)
        is_rare = n_with < max(2, _OFTEN * len(cells))
        if is_rare and (n_with < _RARE or not are_few):
            continue
        rows = LabelSets(separators=sign).split(cells)
        counts = Counter(word for row in rows for word in row)
        numbers = sum(count for word, count in counts.items() if is_plain(word))
        if numbers == counts.total():  # decimals, dates, scores
            continue
        if sign == "/" and numbers > _HALF * counts.total():  # years, and parts of dates
            continue
        if sum(word.count("(") != word.count(")") for word in counts) > _HALF * len(counts):
            continue  # what it separates is a remark in brackets
        several = [row for row in rows if len(row) > 1]
        alone = {row[0] for row in rows if len(row) == 1}
        first = {row[0] for row in several}
        later = {word for row in several for word in row[1:]}
        in_places = (first & later) | (first & alone) | (later & alone)
        occurrences = [word in in_places for row in several for word in row]
        share = _SURELY_ELSEWHERE if is_rare or sign == AND else _ELSEWHERE
        cells_of_several = set(map(tuple, several))
        laters = [word in first | alone for row in cells_of_several for word in row[1:]]
        may_change = len(cells_of_several) >= _CELLS and sum(laters) >= _LATER * len(laters)
        are_elsewhere = may_change and sum(occurrences) >= max(1, share * len(occurrences))
        may_be_long = sign == "/" and _NOT_FEWER <= n_different <= _FEW_CELLS
        is_long = may_be_long and len(set(map(len, rows))) >= _SIZES
        is_list = sign in _CLEAR or is_long
        least = _MET if are_elsewhere else _MET_OFTEN if is_list and not is_rare else math.inf
        if sum(counts.values()) >= least * len(counts) and len(counts) <= _MOST_ELEMENTS:
            return str(sign + AND if sign != AND and _has_and(counts) else sign)
    return ""


def _has_and(counts: Counter[str]) -> bool:
    """Whether elements such as "white and blue" are two, since both are elements elsewhere."""
    pairs = [[part.strip() for part in word.split(AND)] for word in counts if AND in word]
    are_two = sum(all(part in counts for part in parts) for parts in pairs)
    return bool(pairs) and are_two >= _SURELY_ELSEWHERE * len(pairs)


# Names --------------------------------------------------------------------------------------------


def is_row_number(name: str) -> bool:
    """Whether a column of this name numbers the rows."""
    return name.strip().lower() in _ROW_NUMBERS


def may_be_id(name: str) -> bool:
    """Whether a column of this name may have the names of rows: customerId, row_id."""
    return is_row_number(name) or _name_ending(name) in {*_IDS, *_MAY_BE_IDS}


def has_codes(name: str) -> bool:
    """Whether numbers in a column of this name are no amounts: ids, postal codes, versions."""
    words = {word.lower() for word in _NAME_WORDS(name)}
    return _name_ending(name) in _IDS or bool(words & _CODES)


def names_classes(name: str) -> bool:
    """Whether whole numbers in a column of this name stand for classes: Cover_Type, zip_code.

    Examples
    --------
    >>> from skout.apps.tables.kinds import names_classes
    >>> [names_classes(name) for name in ("Cover_Type", "type of soil", "class_size", "storeId")]
    [True, True, False, True]
    """
    words = _NAME_WORDS(name.partition(" of ")[0])
    last = next((word.lower() for word in reversed(words) if not word.isdigit()), "")
    return last.rstrip("0123456789") in _CLASSES or has_codes(name)


def names_amounts(name: str) -> bool:
    """Whether whole numbers in a column of this name are amounts: n_kids, years_at_home."""
    words = [word.lower() for word in _NAME_WORDS(name) if not word.isdigit()]
    return bool(words) and not _AMOUNTS.isdisjoint((words[0], words[-1]))


def _name_ending(name: str) -> str:
    """Return what a name ends with, "nr" of a German one such as Belegnr.

    A number at its end is left out, isbn_13, and the id of a year is a year.
    """
    words = _NAME_WORDS(name) or [""]
    words = words[:-1] if len(words) > 1 and words[-1].isdigit() else words
    word = words[-2 if words[-2:-1] in (["year"], ["Year"]) else -1].lower()
    word = word.rstrip("0123456789") or word
    return "nr" if word.endswith(("nr", "nummer")) else word


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (
        ", ".join(
            f"(no name){name}" if name[:2] in ("", " (") else name
            for name in map(str, names[:most])
        )
        + more
    )


def no_column(name: str, names: Sequence[str]) -> str:
    """Return the message that there is no column of a name, with the columns that there are."""
    similar = difflib.get_close_matches(str(name), list(map(str, names)), n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    return f"there is no column {name!r}.{hint} The columns are: {listed(names)}."
