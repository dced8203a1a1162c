"""Formats of moments, durations, counts, names and evidence in verdicts and findings.

Moments are formatted by arithmetic alone: the judge reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from offsetwatch.decode.stack_trace import parse_exception_class
from offsetwatch.model.findings import OFFSET, TIME, Evidence, EvidenceItem

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


EXAMPLES_MAX: Final = 5  # of many things, so many are named
OTHERS: Final = "others"
NO_REASON: Final = "Connect reports no reason"


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: `1 partition`, `3 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_names(names: Iterable[object]) -> str:
    """Return the first five names, and how many more there are."""
    told = [str(name) for name in names]
    more = len(told) - EXAMPLES_MAX
    return ", ".join(told[:EXAMPLES_MAX]) + (f" and {more} more" if more > 0 else "")


def parse_exception_name(failure: str | None) -> str:
    """Return the simple name of the exception's class in `failure` (decode/stack_trace.py)."""
    if not failure:
        return NO_REASON
    return parse_exception_class(failure).rsplit(".", 1)[-1]


def build_examples(rows: Sequence[EvidenceItem | Evidence]) -> Evidence:
    """Return the first five rows as evidence, and how many more there are.

    A row is one value or several.
    """
    found: list[EvidenceItem] = []
    for row in rows[:EXAMPLES_MAX]:
        found += (row,) if isinstance(row, EvidenceItem) else row
    more = len(rows) - EXAMPLES_MAX
    return (*found, EvidenceItem("and more", more, OTHERS)) if more > 0 else tuple(found)


def build_time_item(name: str, moment: float) -> EvidenceItem:
    """Return a moment (Unix seconds) as evidence."""
    return EvidenceItem(name, format_moment(moment), TIME)


def build_position_item(name: str, text: str) -> EvidenceItem:
    """Return a position as evidence: a Kafka offset is a number, any other text stays one."""
    if text.isascii() and text.isdecimal():
        return EvidenceItem(name, int(text), OFFSET)
    return EvidenceItem(name, text)
