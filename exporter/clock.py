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


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()
