"""Clocks: the only module that reads the time.

Clients and the daemon hold a clock; the core takes `now` as an argument.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol

_MIN_DATETIME: Final = datetime(1, 1, 1, tzinfo=UTC)
_MAX_DATETIME: Final = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def to_utc(moment: float) -> datetime:
    """Return Unix seconds as a datetime in UTC.

    A value out of range becomes the first or last datetime of Python: before Kafka 4.0 a broker
    accepts any number as a record timestamp.
    """
    try:
        return datetime.fromtimestamp(moment, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return _MIN_DATETIME if moment < 0 else _MAX_DATETIME


def format_utc(moment: float) -> str:
    """Return Unix seconds as operators write a time: `2030-01-31 12:00:00Z`."""
    return to_utc(moment).strftime("%Y-%m-%d %H:%M:%SZ")


class UnixClock(Protocol):
    """Protocol of a clock that returns Unix time in seconds."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...


class SteadyClock:
    """Clock that returns Unix time but runs on the monotonic clock of the machine.

    Setting the machine's clock changes nothing, so a wait is neither shortened nor prolonged.
    """

    def __init__(self) -> None:
        self._begun_at = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since the epoch, as the machine had it when this clock was created."""
        return self._begun_at + time.monotonic()


class SystemClock:
    """Clock of the machine."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()
