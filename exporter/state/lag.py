"""The arithmetic of replication lag, written once. Called by the book; gold repeats it in SQL
and a test compares the two.

MM2 stores the offset of the LAST replicated record and resumes at the next one
(MirrorSourceTask.initializeConsumer); a sink's committed offset is the NEXT record. Hence `+ 1`
here and none there.
"""

from __future__ import annotations

import msgspec


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A record offset and the timestamp (Unix seconds) of the Kafka record that told us of it."""

    offset: int
    at: float


def replicated_offset(committed: Seen | None, synced: Seen | None) -> int | None:
    """The last upstream offset known to be replicated.

    The commit in the offsets topic is up to one flush interval old; offset syncs are written as
    records
    are acknowledged and may be ahead of it. But a sync older than the commit says nothing new: in
    normal work it is never ahead, and after a rewind (an operator's PATCH, a re-created topic) it
    still shows the old maximum. So a sync counts only if it is not older than the commit.
    Without a commit there is no answer: a reset partition starts again whatever its syncs say.
    """
    if committed is None:
        return None
    if synced is not None and synced.at >= committed.at:
        return max(committed.offset, synced.offset)
    return committed.offset


class Lag(msgspec.Struct, frozen=True, gc=False):
    """How far behind, and how far impossibly ahead.

    records  upstream records not yet replicated, at most: transaction markers and compaction gaps
             count, because only a read could tell them from records
    ahead    how far the position lies beyond the upstream end: 0 in a sound world; a topic
             re-created or an offset altered by hand shows here instead of as a negative lag
    """

    records: int
    ahead: int


def replication_lag(replicated: int, log_end: int) -> Lag:
    """Lag of a position read BEFORE `log_end` was read; otherwise it could look ahead by race."""
    distance = log_end - (replicated + 1)
    return Lag(records=max(0, distance), ahead=max(0, -distance))


def lag_seconds(behind_since: float | None, now: float, *, caught_up: bool | None) -> float | None:
    """Age of the oldest record not replicated yet; 0 when caught up; None if it is not known.

    A record of the future has age 0.
    """
    if caught_up:
        return 0.0
    return None if behind_since is None else max(0.0, now - behind_since)


def sink_lag(committed: int, log_end: int) -> int:
    """Records after a sink's committed offset, which already names the next record."""
    return max(0, log_end - committed)
