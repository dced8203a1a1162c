"""The only place that reads the clock. Adapters and the daemon hold a Clock; the core is given
`now`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol

_MIN_DATETIME: Final = datetime(1, 1, 1, tzinfo=UTC)
_MAX_DATETIME: Final = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def to_utc(moment: float) -> datetime:
    """Return Unix seconds as a moment in UTC, or the first or last one that Python knows: the
    timestamp of a record may be any number, as brokers before 4.0 take all of them.
    """
    try:
        return datetime.fromtimestamp(moment, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return _MIN_DATETIME if moment < 0 else _MAX_DATETIME


class UnixClock(Protocol):
    """Unix time in seconds."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class SteadyClock:
    """Unix time that only goes on, at the pace it should, however the machine's clock is set: for
    waits that must be neither cut short nor drawn out.
    """

    def __init__(self) -> None:
        self._begun_at = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch, as the machine had it when this was made."""
        return self._begun_at + time.monotonic()


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()
