"""What an offset record says, independent of how we learned of it.

Used by decode (which makes these), state (which keeps them) and history (which makes columns of
them).
"""

from __future__ import annotations

from dataclasses import dataclass

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that is not what its topic promises, and why. A value, never an exception."""

    reason: str


@dataclass(frozen=True, slots=True)
class MirrorPartition:
    """The source partition of MirrorSourceConnector: an upstream topic-partition.

    `cluster` is the upstream alias as MM2 wrote it.
    """

    cluster: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SourceKey:
    """The decoded key of one record of an offsets topic (Connect's OffsetStorageWriter).

    identity    the source partition as JSON with sorted keys: what groups raw keys that mean the
    same
    label       `k=v` pairs sorted by key, cut at 120 bytes: the metric label `source_partition`
    canonical   True if these bytes are what Connect itself would look up. A record under any other
                bytes is invisible to tasks and shows as `offset: null` over REST, so its value is
                never used as the position.
    mirror      set if the partition has the shape of MirrorSourceConnector
    """

    connector: str
    identity: str
    label: str
    canonical: bool
    dialect: str
    mirror: MirrorPartition | None


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The decoded value of one record of an offsets topic.

    text        the map as JSON with sorted keys, exact; "null" if the record holds JSON null or no
    bytes
    numbers     every numeric field in sorted order, exact (Python integers do not overflow)
    is_null     the record is no tombstone but holds no map: Connect lists the partition with null
    """

    text: str
    numbers: tuple[tuple[str, int | float], ...]
    is_null: bool = False

    def number(self, field: str) -> int | float | None:
        """The numeric field `field`, or None."""
        for name, value in self.numbers:
            if name == field:
                return value
        return None


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """One record of an offset-syncs topic: the same record's offset on both sides.

    Both are offsets OF that record, not the next one (MirrorSourceTask, OffsetSync.java).
    `topic` is the upstream topic's name.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
