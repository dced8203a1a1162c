"""Logs in memory that single records are read from and written to: what a RecordReader, a
RecordWriter and a KafkaSource do, of one cluster.

What answers look like was observed on Kafka 4.3.1 and librdkafka 2.16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from offsetwatch.clients.kafka.inspector import TopicSettings
from offsetwatch.clients.write.kafka import OutgoingRecord
from offsetwatch.errors import (
    ClientError,
    NotFound,
    ResponseTimeout,
    SizeLimitExceeded,
    TopicChanged,
)
from offsetwatch.model.records import IncompleteRead, LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition

from .clock import VirtualClock

SETTINGS = TopicSettings(
    topic_id="id-1",
    partitions=3,
    replication=3,
    compacted=False,
    retention_ms=-1,
    retention_bytes=-1,
    message_bytes_max=1_000_000,
    in_sync_min=2,
    appended=False,
)


@dataclass
class Part:
    """One partition; offsets without a record are markers, or compacted away."""

    records: dict[int, RawRecord] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    corrupt_at: int | None = None


@dataclass
class FakeLogs:
    """A cluster. down: what every call raises. spoilt: what becomes of a record that is written.
    lost: writes raise this, having been carried out (`landed`) or not. silent: reads run out of
    time with nothing, and at the offset `stalls_at` with what comes before it.
    """

    clock: VirtualClock = field(default_factory=VirtualClock)
    name: str = "east"
    alive: int = 3
    topics: dict[str, TopicSettings] = field(default_factory=dict)
    parts: dict[TopicPartition, Part] = field(default_factory=dict)
    made: list[tuple[str, int, int, dict[str, str]]] = field(default_factory=list)
    down: ClientError | None = None
    lost: ClientError | None = None
    landed: bool = True
    silent: bool = False
    stalls_at: int | None = None
    spoilt: Callable[[RawRecord], RawRecord | None] = lambda record: record
    reads: list[tuple[TopicPartition, int]] = field(default_factory=list)
    opened: int = 0

    def part(self, topic: str, partition: int) -> Part:
        return self.parts.setdefault(TopicPartition(topic, partition), Part())

    def append(self, record: RawRecord) -> int:
        """As it is, but for its offset."""
        part = self.part(record.topic, record.partition)
        part.records[part.end] = replace(record, offset=part.end)
        part.end += 1
        return part.end - 1

    # --- a RecordWriter ---------------------------------------------------------------------------

    def settings(self, topic: str) -> TopicSettings | None:
        self._up()
        return self.topics.get(topic)

    def brokers(self) -> int:
        return self.alive

    def create(
        self, topic: str, *, partitions: int, replication: int, config: Mapping[str, str]
    ) -> None:
        self._up()
        self.made.append((topic, partitions, replication, dict(config)))
        self.topics[topic] = TopicSettings(
            topic_id=f"id-{len(self.made)}",
            partitions=partitions,
            replication=replication,
            compacted="compact" in config["cleanup.policy"],
            retention_ms=int(config["retention.ms"]),
            retention_bytes=int(config["retention.bytes"]),
            message_bytes_max=int(config["max.message.bytes"]),
            in_sync_min=int(config["min.insync.replicas"]),
            appended=False,
        )

    def write(self, record: OutgoingRecord) -> int:
        self._up()
        if record.size_bytes > self.topics[record.topic].message_bytes_max:
            raise SizeLimitExceeded(self.name, "Broker: Message size too large")
        result = self.spoilt(
            RawRecord(
                topic=record.topic,
                partition=record.partition,
                offset=0,
                leader_epoch=0,
                timestamp_ms=record.timestamp_ms or round(self.clock.now() * 1000),
                timestamp_type="create",
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
        )
        offset = self.part(record.topic, record.partition).end
        if result is not None and (self.lost is None or self.landed):
            offset = self.append(result)
        if self.lost is not None:
            raise self.lost
        return offset

    # --- a RecordReader, and a KafkaSource --------------------------------------------------------

    def window(
        self,
        partition: TopicPartition,
        start: int,
        until: int | None = None,
        *,
        count_max: int = 1,
        bytes_max: int = 1,
        timeout_s: float = 1.0,
    ) -> LogWindow:
        self._up()
        self.reads.append((partition, start))
        if (
            partition.topic not in self.topics
            or partition.partition >= self.topics[partition.topic].partitions
        ):
            raise NotFound(self.name, "Local: Unknown partition")
        part = self.part(partition.topic, partition.partition)
        if start > part.end:
            raise TopicChanged(self.name, "Local: No offset stored")
        position = max(start, part.start)
        last = part.end if until is None else min(until, part.end)
        stalls_at = position if self.silent else self.stalls_at
        results: list[RawRecord] = []
        size = 0
        while position < last:
            if position == stalls_at:
                self.clock.advance(timeout_s)
                partial = LogWindow(tuple(results), position, part.end, part.start)
                raise IncompleteRead(self.name, f"read up to {position} of {last}", partial)
            if position == part.corrupt_at:
                return LogWindow(tuple(results), position, part.end, part.start, position)
            record = part.records.get(position)
            if record is not None:
                size += record.size_bytes
                if len(results) >= count_max or (results and size > bytes_max):
                    break
                results.append(record)
            position += 1
        return LogWindow(tuple(results), position, part.end, part.start)

    def cluster_id(self) -> str | None:
        self._up()
        return f"id-of-{self.name}"

    def topic_id(self, topic: str) -> str | None:
        self._up()
        if topic not in self.topics:
            raise NotFound(self.name, f"topic {topic}")
        return self.topics[topic].topic_id or None

    def close(self) -> None:
        self.opened -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def open(self) -> FakeLogs:
        self.opened += 1
        return self

    def _up(self) -> None:
        if self.down is not None:
            raise self.down


AWAY = ResponseTimeout("east", "nobody answers")
