"""Formats of moments and durations in findings. Pure arithmetic: the judge reads no clock."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_DAY_S: Final = 86_400
_ERA_DAYS: Final = 146_097  # 400 years of the Gregorian calendar


def format_moment(moment: float) -> str:
    """Return Unix seconds in RFC 3339: `2026-01-31T23:59:59Z`."""
    return _format_second(int(moment // 1))


@lru_cache(maxsize=4096)  # a flush commits thousands of partitions within one second
def _format_second(position: int) -> str:
    days, second = divmod(position, _DAY_S)
    year, month, day = _compute_date(days)
    return (
        f"{year:04}-{month:02}-{day:02}T"
        f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    )


def format_timespan(seconds: float) -> str:
    """Return a duration in seconds as text in its two largest units: `2 h 5 min`."""
    whole = max(0, round(seconds))
    for unit, size, less, smaller in (("d", _DAY_S, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {less}" if rest else f"{whole // size} {unit}"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole} s"


def _compute_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day that is counted from 1970-01-01.

    Years begin in March in this arithmetic, so that a leap day is the last day of its year.
    """
    era, of_era = divmod(days + 719_468, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    months = (5 * of_year + 2) // 153
    month = months + 3 if months < 10 else months - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * months + 2) // 5 + 1
