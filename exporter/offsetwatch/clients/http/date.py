"""Parsers of the HTTP headers with a time: Date and Retry-After. Both may contain any text."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime


def parse_server_time(date: str | None) -> float | None:
    """Return Unix seconds; None without a valid date.

    parsedate_to_datetime raises OverflowError for a year of 20 digits, and so does timestamp().
    """
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def parse_retry_after_s(value: str | None) -> float | None:
    """Return how many seconds to wait, by a number or date (RFC 9110, 10.2.3); None without one."""
    if value is None:
        return None
    digits = value.strip()
    if digits.isascii() and digits.isdecimal():
        return float(digits[:9])  # thirty years are as good as all longer ones
    moment = parse_server_time(value)
    return None if moment is None else max(0.0, moment - time.time())
