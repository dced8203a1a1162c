"""The only place that reads the clock. Adapters and the daemon hold a Clock; the core is given
`now`.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
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
