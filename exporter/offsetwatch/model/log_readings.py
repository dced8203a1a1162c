"""Readings of a Kafka cluster's logs: where they begin and end, and single records of them.

They are observations, like those of observations.py. Times are Unix seconds, by our clock unless
stated otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition


@dataclass(frozen=True, slots=True)
class LogEndsRequested:
    """Start of a request for a cluster's log ends: positions known by now were read before them.

    `number` identifies the request: two may be under way at once.

    at    time before the request; None: when this is applied
    """

    kafka: str
    number: int
    at: float | None = None


class LogBounds(msgspec.Struct, frozen=True, gc=False):
    """Bounds of a partition's log: start, end (high watermark), stable_end (last stable offset)."""

    start: int
    end: int
    stable_end: int


@dataclass(frozen=True, slots=True)
class LogEndsRead:
    """Log ends that answer the LogEndsRequested of this number.

    Partitions that do not exist are missing.

    ids           id that a topic had both before and after its bounds were read, None if the broker
                  gives none; a topic whose id is uncertain is missing. None: no ids were requested
    partitions    number of partitions of each topic, as far as that was read
    """

    kafka: str
    number: int
    bounds: dict[TopicPartition, LogBounds]
    ids: dict[str, str | None] | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)


# Who follows a partition: Connect cluster, connector, and the partition as it knows it (a sink's
# without a source alias).
Follower = tuple[str, str, MirrorPartition | TopicPartition]


class FirstRecord(msgspec.Struct, frozen=True, gc=False):
    """First record that a reader gets at or after some offset.

    at          its timestamp; None if it has none (message formats before Kafka 0.10)
    appended    True if the timestamp is the broker's (LogAppendTime), not the producer's
    """

    offset: int
    at: float | None
    appended: bool = False


class NoRecordBefore(msgspec.Struct, frozen=True, gc=False):
    """Range without records: a reader gets none from some offset up to `end`, excluded."""

    end: int


class ProbeResult(msgspec.Struct, frozen=True, gc=False):
    """Result of a read for one follower, from offset `start` on."""

    of: Follower
    start: int
    found: FirstRecord | NoRecordBefore


@dataclass(frozen=True, slots=True)
class ProbeRoundRead:
    """Round of reads of single records on a Kafka cluster.

    at             time before the first of them
    made, skipped  (reason, number of reads): why they were made; why others were not, or failed
    """

    kafka: str
    at: float
    answers: tuple[ProbeResult, ...]
    made: tuple[tuple[str, int], ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
