"""How far the clocks of two machines may differ, and what their timestamps tell all the same.

A record's timestamp is by the clock of its producer, or of a broker. Two records of two writers, or
in two logs, have no order but for what else is known: the order in which they were read live, or
timestamps that are further apart than clocks are.
"""

from __future__ import annotations

from typing import Final

SKEW_S_MAX: Final = 600.0  # between two machines; doctor warns from five seconds on


def is_later(moment: float, other: float) -> bool:
    """Return whether a moment certainly came after another, by the clocks of two machines."""
    return moment - other > SKEW_S_MAX
