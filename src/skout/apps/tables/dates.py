"""Dates in texts: year first, day first, month first, or with the month's name; times behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["DayOrder", "is_basic_date", "looks_like_date", "parse_dates"]

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMES = "|".join(_MONTHS)
_TIME = (
    r"(?:[T ,]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r"\s*(?P<half>[ap]m)?\s*(?P<zone>z|utc|[+-]\d{2}:?\d{2})?)?"
)
_NAMED = rf"(?P<name>{_NAMES})[a-z]*\.?"
_FORMS = [
    re.compile(rf"\s*{form}{_TIME}\s*", re.ASCII | re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<sign>[-/.])(?P<second_>\d{1,2})(?P=sign)(?P<year>\d{4}|\d{2})",
        rf"(?P<day>\d{{1,2}})[ -]{_NAMED},?[ -](?P<year>\d{{4}}|\d{{2}})",
        rf"{_NAMED}[ -](?P<day>\d{{1,2}})(?:,\s*|[ -])(?P<year>\d{{4}})",
        r"(?P<year>(?:1[6-9]|2[0-2])\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])",
    )
]
_BASIC = re.compile(
    r"\s*(1[6-9]|2[0-2])\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])\s*", re.ASCII
).fullmatch
# Two digits are a year from here on of the last century.
_PIVOT = 69


def looks_like_date(cell: str) -> bool:
    """Whether a cell has the form of a date.

    Examples
    --------
    >>> from skout.apps.tables.dates import looks_like_date
    >>> [looks_like_date(cell) for cell in ("2024-05-01 10:30", "1.5.2024", "May 1, 2024", "1.5")]
    [True, True, True, False]
    """
    return _found(cell) is not None


def is_basic_date(cell: str) -> bool:
    """Whether a cell could be a date of eight digits: 20240531."""
    return len(cell) >= 8 and _BASIC(cell) is not None


def _found(cell: str) -> dict[str, str] | None:
    if not cell[:1].strip() and not cell.strip():
        return None
    for form in _FORMS:
        match = form.fullmatch(cell)
        if match is not None:
            return {name: value for name, value in match.groupdict().items() if value is not None}
    return None


@dataclass(frozen=True)
class DayOrder:
    """Which of 1/2/2024, 1-2-2024 and 1.2.2024 are in February: one reading for all cells.

    `day_first` has it for the signs that were met. `ambiguous` is the first cell that could be read
    in both ways where nothing tells which it is, "" if there is none.
    """

    day_first: Mapping[str, bool] = field(default_factory=dict)
    ambiguous: str = ""

    @classmethod
    def of(
        cls, cells: Sequence[str], known: Mapping[str, bool], default: bool | None = None
    ) -> DayOrder:
        """Return what all cells of a column say; what is `known` of an earlier look stands.

        A day above 12 shows it. Points mean day first unless days show another. Where nothing shows
        it, cells with other signs do, or else it is the `default`; None is month first, and said.
        """
        days = dict.fromkeys("/-.", 0)  # how many more cells show the day first than second
        first = dict.fromkeys("/-.", "")
        for cell, found in ((cell, _found(cell)) for cell in cells):
            if found is not None and "first" in found:
                sign = found["sign"]
                days[sign] += (int(found["first"]) > 12) - (int(found["second_"]) > 12)
                first[sign] = first[sign] or cell.strip()
        order, ambiguous = dict(known), ""
        met = [sign for sign in first if first[sign] and sign not in order]
        if "." in met:
            order["."] = days["."] >= 0
        both = sum(days[sign] for sign in met if sign != ".")
        for sign in (one for one in met if one != "."):
            others = [order[one] for one in order if one != sign]
            if both:
                order[sign] = both > 0
            elif others:
                order[sign] = others[0]
            else:
                order[sign] = bool(default)
                ambiguous = ambiguous or (first[sign] if default is None else "")
        return cls(order, ambiguous)


def parse_dates(cells: Sequence[str], day_first: Mapping[str, bool] | None = None) -> np.ndarray:
    """Return the moments that texts name, in seconds and in UTC; NaT for what is no date.

    `day_first` has the reading of 1/2/2024 by the sign, as `DayOrder` has it; None is told from all
    cells. A cell that does not fit this reading is no date.

    Examples
    --------
    >>> from skout.apps.tables.dates import parse_dates
    >>> parse_dates(["31/12/2023", "1/2/2024", "Jan 5 2024 3:30 PM", "soon"])
    array(['2023-12-31T00:00:00', '2024-02-01T00:00:00',
           '2024-01-05T15:30:00',                 'NaT'], dtype='datetime64[s]')
    """
    order = DayOrder.of(cells, {}).day_first if day_first is None else day_first
    return np.array([_moment(cell, order) for cell in cells], dtype="datetime64[s]")


def _moment(cell: str, day_first: Mapping[str, bool]) -> np.datetime64:
    nothing = np.datetime64("NaT", "s")
    found = _found(cell)
    if found is None:
        return nothing
    year, month, day = _day(found, day_first)
    if not 1 <= month <= 12:
        return nothing
    hour, minute, second = (int(found.get(part, 0)) for part in ("hour", "minute", "second"))
    half = found.get("half", "").lower()
    if half:
        hour = hour % 12 + 12 * (half == "pm")
    if hour > 24 or minute > 59 or second > 60:
        return nothing
    start = np.datetime64(f"{year:04d}-{month:02d}", "M")
    moment = start.astype("datetime64[D]") + np.timedelta64(day - 1, "D")
    if moment.astype("datetime64[M]") != start:  # no such day
        return nothing
    seconds = 3600 * hour + 60 * minute + second - _offset(found.get("zone", ""))
    return moment.astype("datetime64[s]") + np.timedelta64(seconds, "s")


def _day(found: dict[str, str], day_first: Mapping[str, bool]) -> tuple[int, int, int]:
    """Return year, month and day."""
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 1900 if year >= _PIVOT else 2000
    if "name" in found:
        return year, 1 + _MONTHS.index(found["name"].lower()), int(found["day"])
    if "month" in found:
        return year, int(found["month"]), int(found["day"])
    first, second = int(found["first"]), int(found["second_"])
    return (year, second, first) if day_first[found["sign"]] else (year, first, second)


def _offset(zone: str) -> int:
    """Return the seconds that a time zone is ahead."""
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (3600 * int(digits[:2]) + 60 * int(digits[2:]))
