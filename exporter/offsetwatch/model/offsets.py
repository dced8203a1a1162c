"""Decoded offset records of Connect and MM2, independent of how they were read.

Types with one instance per record or partition, here and in the state, are msgspec.Structs and no
dataclasses: they are created fifteen times faster. None can be part of a cycle, so with `gc=False`
the garbage collector skips them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec

from offsetwatch.model.topology import TopicPartition

Scalar = str | int | float | bool | None

FLOAT_EXACT_MAX = 2**53  # beyond this a Prometheus sample, a float64, cannot hold every integer
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1  # what Connect keeps of an integer: a Java long


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Record that does not have its topic's format, and the reason. A value, never an exception."""

    reason: str


class MirrorPartition(NamedTuple):
    """Source partition of MirrorSourceConnector: an upstream topic-partition.

    `cluster` is the upstream alias as MM2 wrote it.
    """

    cluster: str
    topic: str
    partition: int

    @property
    def upstream(self) -> TopicPartition:
        """Return the partition without the alias."""
        return TopicPartition(self.topic, self.partition)


class KeyForm(StrEnum):
    """Form of a key's bytes, relative to those that a worker writes.

    canonical         of a java.util.HashMap: what REST looks up and writes, and most connectors
    variant           the same partition in other bytes: `offset: null` over REST. Its task reads it
                      if its own map has that order (state/connect/raw_keys.py)
    legacy_envelope   with a schema around it, as workers before 3.0 wrote if so configured: a later
                      worker ignores it and does not list it
    """

    CANONICAL = "canonical"
    VARIANT = "variant"
    LEGACY_ENVELOPE = "legacy_envelope"


_CANONICAL = KeyForm.CANONICAL  # it is asked for with every commit, and enums are slow to look up


class SourceKey(msgspec.Struct, frozen=True, gc=False):
    """Decoded key of a record of an offsets topic (Connect's OffsetStorageWriter).

    identity    source partition as JSON with sorted keys: raw keys of the same partition share it;
                `null` where the connector has no partitions, which REST can never show
    label       `k=v` pairs sorted by key, cut at 120 bytes: the metric label `source_partition`
    form        form of its bytes, relative to those of a HashMap
    dialect     as far as the partition shows it (decode/dialects.py)
    mirror      set if the partition has the shape of MirrorSourceConnector
    ordered     a worker may have written these bytes from a map of another order than that of a
                HashMap that was filled in the order of `identity`
    """

    connector: str
    identity: str
    label: str
    form: KeyForm
    dialect: str
    mirror: MirrorPartition | None
    ordered: bool = False

    @property
    def canonical(self) -> bool:
        """Check whether these are the bytes that Connect looks up over REST."""
        return self.form is _CANONICAL

    @property
    def is_spelling(self) -> bool:
        """Check whether a worker may have written these bytes.

        No worker writes blanks, or other escapes. Whether a task looks them up depends on the
        connector's class as well (decode/dialects.py).
        """
        return self.ordered or self.form is _CANONICAL

    @property
    def without_partition(self) -> bool:
        """Check whether the key is `[connector, null]`: REST neither lists nor resets it."""
        return self.identity == "null"


class SourceOffset(msgspec.Struct, frozen=True, gc=False):
    """Decoded value of a record of an offsets topic.

    text        the map as JSON with sorted keys, exact; "null" if the record holds JSON null or no
                bytes
    numbers     all numeric fields in sorted order, exact (Python integers do not overflow)
    is_null     the record is no tombstone but holds no map: Connect lists the partition with null
    no_bytes    it is null because its value has no bytes at all, where others have the text `null`
    """

    text: str
    numbers: tuple[tuple[str, int | float], ...]
    is_null: bool = False
    no_bytes: bool = False

    def number(self, field: str) -> int | float | None:
        """Return the numeric field `field`, or None."""
        for name, value in self.numbers:
            if name == field:
                return value
        return None

    @property
    def beyond_64_bits(self) -> bool:
        """Check whether an integer exceeds 64 bits; Connect wraps it for the task."""
        return any(
            isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX
            for _, value in self.numbers
        )


@dataclass(frozen=True, slots=True)
class LegacyOffset(Undecodable):
    """Value with a schema around it, as workers before 3.0 wrote if so configured.

    It is Undecodable because a task of today gets nothing from it; `offset` is its content.
    """

    offset: SourceOffset


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """Record of an offsets topic; `offset` is None for a tombstone."""

    key: SourceKey
    offset: SourceOffset | LegacyOffset | None


class Order(StrEnum):
    """Order of an offset relative to an earlier one, if its connector guarantees an order."""

    AHEAD = "ahead"
    BEHIND = "behind"
    SAME = "same"
    UNORDERED = "unordered"


class OffsetSync(msgspec.Struct, frozen=True, gc=False):
    """Record of an offset-syncs topic: offsets of the same record upstream and downstream.

    Both are offsets OF that record, not of the next one (MirrorSourceTask, OffsetSync.java).
    `topic` is the upstream topic's name.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Record of a checkpoints topic: position of a consumer group upstream and downstream.

    Both offsets are the NEXT record to read, unlike those of an OffsetSync. `topic` is the name on
    the target (Checkpoint.java).
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Record of a heartbeats topic; `at` is the time it was made, in Unix seconds.

    The aliases are those of the connector that made it, wherever it was replicated to since.
    """

    source: str
    target: str
    at: float
