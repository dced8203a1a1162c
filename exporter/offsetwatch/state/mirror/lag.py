"""The arithmetic of replication lag, written once. How far syncs count: sync_lead.py.

MM2 stores the offset of the LAST replicated record and resumes at the next one
(MirrorSourceTask.initializeConsumer); a sink's committed offset is the NEXT record. Hence `+ 1`
here and none there.
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

# REST tells no time of a commit, so no sync can be known to be newer than one.
UNDATED: Final = inf


class MirrorPosition(msgspec.Struct, frozen=True, gc=False):
    """A record offset and the timestamp (Unix seconds) of the Kafka record that told us of it;
    UNDATED where none did.
    """

    offset: int
    at: float


class Lag(msgspec.Struct, frozen=True, gc=False):
    """How far behind, and how far impossibly ahead.

    records  upstream records not yet replicated, at most: transaction markers and compaction gaps
             count, because only a read could tell them from records
    ahead    how far the position lies beyond the upstream end: 0 in a sound world; a topic
             re-created or an offset altered by hand shows here instead of as a negative lag
    """

    records: int
    ahead: int


def compute_replication_lag(replicated: int, log_end: int) -> Lag:
    """Lag of a position read BEFORE `log_end` was read; otherwise it could look ahead by race."""
    distance = log_end - (replicated + 1)
    return Lag(records=max(0, distance), ahead=max(0, -distance))


def compute_lag_seconds(
    behind_since: float | None, now: float, *, caught_up: bool | None
) -> float | None:
    """Age of the oldest record not replicated yet; 0 when caught up; None if it is not known.

    A record of the future has age 0.
    """
    if caught_up:
        return 0.0
    return None if behind_since is None else max(0.0, now - behind_since)


def compute_sink_lag(committed: int, log_end: int) -> int:
    """Records after a sink's committed offset, which already names the next record."""
    return max(0, log_end - committed)
