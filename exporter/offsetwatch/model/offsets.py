"""What an offset record says, independent of how we learned of it.

What there is one of per record or partition, here and in the state, is a msgspec.Struct and no
dataclass: it is made fifteen times faster, and because none can be part of a cycle (`gc=False`) the
collector does not look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec

Scalar = str | int | float | bool | None

FLOAT_EXACT_MAX = 2**53  # beyond this a Prometheus sample, a float64, cannot hold every integer
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1  # what Connect keeps of an integer: a Java long


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that is not what its topic promises, and why. A value, never an exception."""

    reason: str


class MirrorPartition(NamedTuple):
    """The source partition of MirrorSourceConnector: an upstream topic-partition.

    `cluster` is the upstream alias as MM2 wrote it.
    """

    cluster: str
    topic: str
    partition: int


class KeyForm(StrEnum):
    """How the bytes of a key relate to those that a worker writes.

    canonical         of a java.util.HashMap: what REST looks up and writes, and most connectors
    variant           the same meaning in other bytes: `offset: null` over REST. Its task reads it
                      if its own map has that order (state/connect/raw_keys.py)
    legacy_envelope   with a schema around it, as workers before 3.0 wrote if so configured: a later
                      worker passes over it and does not list it
    """

    CANONICAL = "canonical"
    VARIANT = "variant"
    LEGACY_ENVELOPE = "legacy_envelope"


_CANONICAL = KeyForm.CANONICAL  # it is asked for with every commit, and enums are slow to look up


class SourceKey(msgspec.Struct, frozen=True, gc=False):
    """The decoded key of one record of an offsets topic (Connect's OffsetStorageWriter).

    identity    the source partition as JSON with sorted keys: what groups raw keys that mean the
                same; `null` where the connector has no partitions, which REST can never show
    label       `k=v` pairs sorted by key, cut at 120 bytes: the metric label `source_partition`
    form        how its bytes relate to those of a HashMap
    dialect     as far as the partition tells (decode/dialects.py)
    mirror      set if the partition has the shape of MirrorSourceConnector, whose maps are HashMaps
    ordered     a worker may have written these bytes from a map of another order
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
        """Are these the bytes that Connect looks up over REST?"""
        return self.form is _CANONICAL

    @property
    def is_spelling(self) -> bool:
        """May a task look these bytes up? No worker writes blanks, or other escapes."""
        return self.ordered or self.form is _CANONICAL

    @property
    def without_partition(self) -> bool:
        """The key is `[connector, null]`: Connect neither lists nor resets it over REST."""
        return self.identity == "null"


class SourceOffset(msgspec.Struct, frozen=True, gc=False):
    """The decoded value of one record of an offsets topic.

    text        the map as JSON with sorted keys, exact; "null" if the record holds JSON null or no
    bytes
    numbers     every numeric field in sorted order, exact (Python integers do not overflow)
    is_null     the record is no tombstone but holds no map: Connect lists the partition with null
    no_bytes    it is null because its value has no bytes at all, where others say `null`
    """

    text: str
    numbers: tuple[tuple[str, int | float], ...]
    is_null: bool = False
    no_bytes: bool = False

    def number(self, field: str) -> int | float | None:
        """The numeric field `field`, or None."""
        for name, value in self.numbers:
            if name == field:
                return value
        return None

    @property
    def beyond_64_bits(self) -> bool:
        """Connect wraps such an integer as it reads it, so this is not what a task gets."""
        return any(
            isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX
            for _, value in self.numbers
        )


@dataclass(frozen=True, slots=True)
class LegacyOffset(Undecodable):
    """A value with a schema around it, as workers before 3.0 wrote if so configured.

    Undecodable, because a task of today gets nothing from it; `offset` is what it said.
    """

    offset: SourceOffset


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One whole record of an offsets topic; `offset` is None for a tombstone."""

    key: SourceKey
    offset: SourceOffset | LegacyOffset | None


class Order(StrEnum):
    """One offset against an earlier one, as far as its connector guarantees an order."""

    AHEAD = "ahead"
    BEHIND = "behind"
    SAME = "same"
    UNORDERED = "unordered"


class OffsetSync(msgspec.Struct, frozen=True, gc=False):
    """One record of an offset-syncs topic: the same record's offset on both sides.

    Both are offsets OF that record, not the next one (MirrorSourceTask, OffsetSync.java).
    `topic` is the upstream topic's name.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One record of a checkpoints topic: where a consumer group stands on both sides.

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
    """One record of a heartbeats topic; `at` is the time it was made, in Unix seconds.

    The aliases are those of the connector that made it, wherever it was replicated to since.
    """

    source: str
    target: str
    at: float
