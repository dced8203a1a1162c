"""Units of time, in nanoseconds."""

from __future__ import annotations

from typing import Final

NANOS_PER_MICROSECOND: Final = 1000
NANOS_PER_MILLI: Final = 1_000_000
NANOS_PER_SECOND: Final = 1_000_000_000
