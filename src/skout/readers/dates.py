"""Dates in texts: year first, day first, month first, or with the month's name; times behind."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

__all__ = ["looks_like_date", "parse_dates"]

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
    )
]
# Two digits are a year from here on of the last century.
_PIVOT = 69


def looks_like_date(cell: str) -> bool:
    """Whether a cell has the form of a date.

    Examples
    --------
    >>> from skout.readers.dates import looks_like_date
    >>> [looks_like_date(cell) for cell in ("2024-05-01 10:30", "1.5.2024", "May 1, 2024", "1.5")]
    [True, True, True, False]
    """
    return _found(cell) is not None


def _found(cell: str) -> dict[str, str] | None:
    if not cell[:1].strip() and not cell.strip():
        return None
    for form in _FORMS:
        match = form.fullmatch(cell)
        if match is not None:
            return {name: value for name, value in match.groupdict().items() if value is not None}
    return None


def day_comes_first(cells: Sequence[str]) -> bool:
    """Whether 1/2/2024 is in February: where a day above 12 shows it, or points stand between."""
    firsts, seconds, points = 0, 0, 0
    for found in map(_found, cells):
        if found is not None and "first" in found:
            firsts += int(found["first"]) > 12
            seconds += int(found["second_"]) > 12
            points += found["sign"] == "."
    return firsts > seconds or (firsts == seconds and points > 0)


def parse_dates(cells: Sequence[str], day_first: bool | None = None) -> np.ndarray:
    """Return the moments that texts name, in seconds and in UTC; NaT for what is no date.

    Parameters
    ----------
    cells : sequence of str
    day_first : bool, optional
        Whether 1/2/2024 is in February; None is told from all cells.

    Returns
    -------
    moments : ndarray of datetime64[s]

    Examples
    --------
    >>> from skout.readers.dates import parse_dates
    >>> parse_dates(["31/12/2023", "1/2/2024", "Jan 5 2024 3:30 PM", "soon"])
    array(['2023-12-31T00:00:00', '2024-02-01T00:00:00',
           '2024-01-05T15:30:00',                 'NaT'], dtype='datetime64[s]')
    """
    day_first = day_comes_first(cells) if day_first is None else day_first
    return np.array([_moment(cell, day_first) for cell in cells], dtype="datetime64[s]")


def _moment(cell: str, day_first: bool) -> np.datetime64:
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


def _day(found: dict[str, str], day_first: bool) -> tuple[int, int, int]:
    """Return year, month and day."""
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 1900 if year >= _PIVOT else 2000
    if "name" in found:
        return year, 1 + _MONTHS.index(found["name"].lower()), int(found["day"])
    if "month" in found:
        return year, int(found["month"]), int(found["day"])
    first, second = int(found["first"]), int(found["second_"])
    if first > 12 or (day_first and second <= 12):
        return year, second, first
    return year, first, second


def _offset(zone: str) -> int:
    """Return the seconds that a time zone is ahead."""
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (3600 * int(digits[:2]) + 60 * int(digits[2:]))
