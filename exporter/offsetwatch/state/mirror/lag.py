"""Arithmetic of replication lag and sink lag. For how far offset syncs count see sync_lead.py.

MM2 stores the offset of the LAST replicated record and resumes at the next one
(MirrorSourceTask.initializeConsumer); a sink's committed offset is the NEXT record. Hence `+ 1` for
the first and none for the second.
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

# REST tells no time of a commit, so no sync can be known to be newer than one.
UNDATED: Final = inf


class MirrorPosition(msgspec.Struct, frozen=True, gc=False):
    """Record offset, and the timestamp (Unix seconds) of the Kafka record that it was read from.

    The timestamp is UNDATED if the offset came from no record.
    """

    offset: int
    at: float


class Lag(msgspec.Struct, frozen=True, gc=False):
    """Records between a position and the log end, in either direction.

    records  upstream records not yet replicated, at most: transaction markers and compaction gaps
             count, because only a read distinguishes them from records
    ahead    records between the upstream end and a position beyond it: normally 0; a topic
             recreated or an offset altered by hand shows here instead of as a negative lag
    """

    records: int
    ahead: int


def compute_replication_lag(replicated: int, log_end: int) -> Lag:
    """Return the lag of a position that was read BEFORE `log_end`.

    A position read later could be ahead of the end by a race.
    """
    distance = log_end - (replicated + 1)
    return Lag(records=max(0, distance), ahead=max(0, -distance))


def compute_lag_seconds(
    behind_since: float | None, now: float, *, caught_up: bool | None
) -> float | None:
    """Return the age of the oldest record not replicated yet, in seconds.

    0 when caught up or if the record's time is in the future; None if it is not known.
    """
    if caught_up:
        return 0.0
    return None if behind_since is None else max(0.0, now - behind_since)


def compute_sink_lag(committed: int, log_end: int) -> int:
    """Return the number of records after a sink's committed offset, which names the next record."""
    return max(0, log_end - committed)
