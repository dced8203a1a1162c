"""Clock skew: how far the clocks of two machines may differ, and the order of their timestamps.

A record's timestamp is by the clock of its producer, or of a broker. Two records of two writers, or
in two logs, have no order unless they were read live one after the other, or their timestamps are
further apart than clocks are.
"""

from __future__ import annotations

from typing import Final

SKEW_S_MAX: Final = 600.0  # between two machines; doctor warns from five seconds on


def is_later(moment: float, other: float) -> bool:
    """Return whether a moment is certainly after another, by the clocks of two machines."""
    return moment - other > SKEW_S_MAX
