"""Dates in texts: year first, day first, month first, or with the month's name; times behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
# Beginnings of months in German, French, Spanish, Italian and Portuguese that differ from these.
_OTHERS = {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12, "fév": 2, "fev": 2, "avr": 4}
_OTHERS |= {"juin": 6, "juil": 7, "aoû": 8, "déc": 12, "ene": 1, "abr": 4, "ago": 8, "dic": 12}
_OTHERS |= {"gen": 1, "mag": 5, "giu": 6, "lug": 7, "set": 9, "ott": 10, "out": 10}
_MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTHS, 1)} | _OTHERS
# Hours from UTC of the names of zones.
_ZONES = {"z": 0, "utc": 0, "gmt": 0, "wet": 0, "bst": 1, "cet": 1, "cest": 2, "eet": 2, "eest": 3}
_ZONES |= {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
_ZONES |= {"jst": 9, "aest": 10, "aedt": 11}
_TIME = (
    r"(?:[T ,]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    rf"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<zone>{'|'.join(_ZONES)}|[+-]\d{{2}}:?\d{{2}})?"
    r"(?:\s?\[[\w/+-]+\])?)?"  # the name of a zone, behind its hours
)
_NAMED = rf"(?P<name>{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})[a-zéèû]*\.?"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})(?: (?P<zone>[+-]\d{4}|[a-z]{3}))?"
_BASIC = r"(?P<year>(?:1[6-9]|2[0-2])\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
_FORMS = [
    re.compile(rf"\s*{form}{_TIME}\s*", re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<sign>[-/.])(?P<other>\d{1,2})(?P=sign)(?P<year>\d{4}|\d{2})",
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?(?:[ -]|\sof\s|\sde\s){_NAMED},?"
        r"(?:[ -]|\sde\s)(?P<year>\d{4}|\d{2})",
        rf"{_WEEKDAY}{_NAMED}[ -](?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,\s*|[ -])(?P<year>\d{{4}})",
        rf"{_NAMED},?[ -](?P<year>\d{{4}})",
        rf"(?P<year>\d{{4}})[ -]{_NAMED}",
        r"(?P<year>(?:1[6-9]|2[0-2])\d\d)-(?P<month>0[1-9]|1[0-2])",
        r"(?P<month>0?[1-9]|1[0-2])/(?P<year>(?:1[6-9]|2[0-2])\d\d)",
        r"(?P<year>\d{4})[ -]?Q(?P<quarter>[1-4])",
        r"Q(?P<quarter>[1-4])[ -]?(?P<year>\d{4})",
        rf"{_NAMED}(?:-|\s?['’])(?P<year>\d{{2}})",  # Dec-13, Dec '13
        rf"(?P<day>\d{{1,2}}){_NAMED}(?P<year>\d{{4}})",
        r"(?P<year>\d{4})年(?P<month>\d{1,2})月(?P<day>\d{1,2})日",
        _BASIC,
    )
] + [  # with a time that is not at the end, or not behind a space: of logs, and of `date`
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\[?(?P<day>\d{{1,2}})/{_NAMED}/(?P<year>\d{{4}}):{_CLOCK}\]?",
        rf"{_WEEKDAY}{_NAMED} +(?P<day>\d{{1,2}}) {_CLOCK} (?P<year>\d{{4}})",
    )
]
# Two digits are a year from here on of the last century.
_PIVOT = 69
# Letters of a cell that may be a date.
_LONGEST = 64
_DIGIT = re.compile(r"[0-9]").search
# What stands between the two dates of a range, and the fewest digits of two dates: 5 May 12.
_TO = re.compile(r"\s*[-–—/]\s*|\s+(?:to|until|through)\s+", re.IGNORECASE)
_DIGITS_OF_TWO = re.compile(r"(?:[^0-9]*[0-9]){6}").match


def looks_like_date(cell: str) -> bool:
    """Whether a cell has the form of a date, or of a range of dates.

    Examples
    --------
    >>> from skout.apps.tables.dates import looks_like_date
    >>> [looks_like_date(cell) for cell in ("2024-05-01 10:30", "1.5.2024", "May 1, 2024", "1.5")]
    [True, True, True, False]
    """
    return bool(_parts(cell)) or is_date_range(cell)


def is_date_range(cell: str) -> bool:
    """Whether a cell has two dates, the first and the last of a range.

    Examples
    --------
    >>> from skout.apps.tables.dates import is_date_range
    >>> [is_date_range(cell) for cell in ("2/1/2011-3/5/2011", "May 2020 to June 2020", "2020-05")]
    [True, True, False]
    """
    return not _parts(cell) and bool(_ends(cell))


#: Whether a cell could be a date of eight digits: 20240531.
is_basic_date = re.compile(rf"\s*{_BASIC}\s*", re.ASCII).fullmatch


def _parts(cell: str) -> dict[str, str]:
    """Return the parts of a date by their names; nothing if there is none."""
    may_be = len(cell) <= _LONGEST and _DIGIT(cell) is not None
    matches = (form.fullmatch(cell) for form in _FORMS) if may_be else ()
    match = next((match for match in matches if match), None)
    return {name: part for name, part in match.groupdict().items() if part} if match else {}


def _ends(cell: str) -> list[dict[str, str]]:
    """Return the parts of the first and of the last date of a range; nothing if it is none."""
    may_be = len(cell) <= _LONGEST and _DIGITS_OF_TWO(cell) is not None
    for sign in _TO.finditer(cell) if may_be else ():
        ends = [_parts(cell[: sign.start()]), _parts(cell[sign.end() :])]
        if all(ends):
            return ends
    return []


def _dates(cell: str) -> list[dict[str, str]]:
    """Return the parts of a date, or of both dates of a range; nothing if there is none."""
    parts = _parts(cell)
    return [parts] if parts else _ends(cell)


def day_order(
    cells: Sequence[str], earlier: Mapping[str, bool], default: bool | None = None
) -> tuple[dict[str, bool], str]:
    """Return for each of the signs / - and . between numbers whether the day is before the month.

    All cells of a column are read alike: what `earlier` cells decided for a sign holds. A number
    above 12 must be the day. Points mean day first unless such a number says otherwise. Where no
    cell of a sign decides, cells with other signs do, or else the `default`. None is month first,
    and then the first cell that could be read both ways is returned, too.
    """
    days = dict.fromkeys("/-.", 0)  # how many more cells show the day first than second
    cell_of: dict[str, str] = {}
    for text, parts in ((cell, parts) for cell in cells for parts in _dates(cell)):
        if "first" in parts:
            days[parts["sign"]] += (int(parts["first"]) > 12) - (int(parts["other"]) > 12)
            cell_of.setdefault(parts["sign"], text.strip())
    order, ambiguous = dict(earlier), ""
    met = sorted(cell_of.keys() - order.keys(), key="./-".index)
    shown = sum(days[sign] for sign in met if sign != ".")
    for sign in met:
        if sign == ".":
            order[sign] = days[sign] >= 0
        elif shown:
            order[sign] = shown > 0
        elif order:
            order[sign] = next(iter(order.values()))
        else:
            order[sign] = bool(default)
            ambiguous = cell_of[sign] if default is None else ""
    return order, ambiguous


def parse_dates(cells: Sequence[str], day_first: Mapping[str, bool] | None = None) -> np.ndarray:
    """Return dates in texts as datetime64[s] in UTC; NaT where a text is no date.

    `day_first` says for each sign whether the day is first, as `day_order` returns it; None infers
    it from all cells. A cell that cannot be read so is no date; a range of dates is its first one.

    Examples
    --------
    >>> from skout.apps.tables.dates import parse_dates
    >>> parse_dates(["31/12/2023", "1/2/2024", "Jan 5 2024 3:30 PM", "soon"])
    array(['2023-12-31T00:00:00', '2024-02-01T00:00:00',
           '2024-01-05T15:30:00',                 'NaT'], dtype='datetime64[s]')
    """
    order = day_order(cells, {})[0] if day_first is None else day_first
    moments = [_moment(dates[0], order) if dates else None for dates in map(_dates, cells)]
    return np.array(moments, dtype="datetime64[s]")


def _moment(parts: dict[str, str], day_first: Mapping[str, bool]) -> datetime | None:
    year, month, day = int(parts["year"]), int(parts.get("month", 0)), int(parts.get("day", 1))
    if len(parts["year"]) == 2:
        year += 1900 if year >= _PIVOT else 2000
    if "name" in parts:
        month = _MONTH_NUMBERS[parts["name"].lower()]
    elif "quarter" in parts:
        month = 3 * int(parts["quarter"]) - 2
    elif "first" in parts:
        month, day = int(parts["first"]), int(parts["other"])
        if day_first[parts["sign"]]:
            month, day = day, month
    hour, minute, second = (int(parts.get(part, 0)) for part in ("hour", "minute", "second"))
    if "half" in parts:
        hour = hour % 12 + 12 * (parts["half"].lower()[0] == "p")
    zone = parts.get("zone", "z").lower()
    sign, digits = (zone[0], zone[1:]) if zone[0] in "+-" else ("+", "0000")
    offset = timedelta(hours=int(sign + digits[:2]), minutes=int(sign + digits[-2:]))
    offset += timedelta(hours=_ZONES.get(zone, 0))
    if hour > 24 or minute > 59 or second > 60:
        return None
    try:
        return (
            datetime(year, month, day)
            + timedelta(hours=hour, minutes=minute, seconds=second)
            - offset
        )
    except (ValueError, OverflowError):  # no such day
        return None
