"""What reading a Kafka cluster's logs told: where they begin and end, and single records of them.

Observations like those of observations.py. Times are Unix seconds, by our clock where nothing else
is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition


@dataclass(frozen=True, slots=True)
class LogEndsRequested:
    """We are about to ask a cluster for its log ends: positions known by now were read before
    them. `number` tells it from every other asking: two may be under way at once.

    at    before the question went out; None: when this is applied
    """

    kafka: str
    number: int
    at: float | None = None


class LogBounds(msgspec.Struct, frozen=True, gc=False):
    """start, end (high watermark), stable_end (last stable offset) of one partition's log."""

    start: int
    end: int
    stable_end: int


@dataclass(frozen=True, slots=True)
class LogEndsRead:
    """The answer to the LogEndsRequested of this number. Partitions that do not exist are missing.

    ids           the id that a topic had both before and after its bounds were read, None if the
                  broker gives none; what is missing is not certain. None: nobody asked for ids
    partitions    how many each topic has, as far as that was read
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
    """The first record that a reader is given at or after some offset.

    at          its timestamp; None if it has none (message formats before Kafka 0.10)
    appended    the timestamp is the broker's (LogAppendTime), not the producer's
    """

    offset: int
    at: float | None
    appended: bool = False


class NoRecordBefore(msgspec.Struct, frozen=True, gc=False):
    """No reader is given any record between some offset and this one, which is not included."""

    end: int


class ProbeResult(msgspec.Struct, frozen=True, gc=False):
    """What was read for one follower, from offset `start` on."""

    of: Follower
    start: int
    found: FirstRecord | NoRecordBefore


@dataclass(frozen=True, slots=True)
class ProbeRoundRead:
    """One round of reads of single records on a Kafka cluster.

    at             before the first of them
    made, skipped  (reason, reads): why they were made, why others were not or came to nothing
    """

    kafka: str
    at: float
    answers: tuple[ProbeResult, ...]
    made: tuple[tuple[str, int], ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
