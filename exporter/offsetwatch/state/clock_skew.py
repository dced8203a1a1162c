"""Clock skew: how far the clocks of two machines may differ, and the order of their timestamps.

A record's timestamp is by the clock of its producer, or of a broker. Two records of two writers, or
in two logs, have no order unless they were read live one after the other, or their timestamps are
further apart than clocks are. A record may also have none (-1 ms, RecordBatch.NO_TIMESTAMP).
"""

from __future__ import annotations

from typing import Final

SKEW_S_MAX: Final = 600.0  # between two machines; doctor warns from five seconds on


def has_timestamp(moment: float) -> bool:
    """Return whether this is the timestamp of a record, in Unix seconds, and not that of none."""
    return moment >= 0


def is_later(moment: float, other: float) -> bool:
    """Return whether a moment is certainly after another, by the clocks of two machines.

    Nothing is after a record without a timestamp.
    """
    return has_timestamp(other) and moment - other > SKEW_S_MAX
