"""Kafka in memory, behind the two things ingest holds: an admin and a reader.

It does what librdkafka's in-process broker cannot: topics that are deleted, re-created, cut back or
given partitions, transaction markers, open transactions, compaction. What the answers look like in
these cases was observed on Kafka 4.3.1: a reader that stands beyond the end of a log gets an
_AUTO_OFFSET_RESET event in place of a record; end-of-partition events come once for each arrival
at the end, with a later fetch than the last record, and name the offset after any markers; a
position passes markers with the record before them, but not what was compacted away at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from confluent_kafka import KafkaError, Message

from offsetwatch.clients.kafka.clients import ReadableEnd
from offsetwatch.clients.kafka.log_bounds import EARLIEST
from offsetwatch.errors import ClientError, NotFound
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition

from .clock import VirtualClock

_topic_ids = count(1)


@dataclass
class Log:
    """One partition: records by offset. Offsets without a record are markers, or compacted away."""

    records: dict[int, Message] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    stable_end: int | None = None  # None: no transaction is open
    markers: set[int] = field(default_factory=set)

    @property
    def readable_end(self) -> int:
        return self.end if self.stable_end is None else self.stable_end


class FakeKafka:
    """A cluster. `down` is what questions and reads then raise, `mute` what questions raise."""

    def __init__(self, name: str = "east", clock: VirtualClock | None = None) -> None:
        self.name = name
        self.clock = clock if clock is not None else VirtualClock()
        self.down: ClientError | None = None
        self.mute: ClientError | None = None
        self.compacted: set[str] = set()
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.unfetched: dict[
            TopicPartition, ClientError
        ] = {}  # no committed offset is told of them
        self.sick: dict[TopicPartition, ClientError | None] = {}  # None: it only gives no records
        self.members: dict[str, tuple[str, ...]] = {}
        self._logs: dict[str, list[Log]] = {}
        self._ids: dict[str, str] = {}

    def create(self, topic: str, partitions: int = 1, *, compacted: bool = True) -> None:
        """Make a topic, or make it anew: under the same name, with another id."""
        self._logs[topic] = [Log() for _ in range(partitions)]
        self._ids[topic] = f"id-{next(_topic_ids)}"
        if compacted:
            self.compacted.add(topic)

    def delete(self, topic: str) -> None:
        del self._logs[topic], self._ids[topic]

    def add_partitions(self, topic: str, partitions: int) -> None:
        logs = self._logs[topic]
        logs.extend(Log() for _ in range(partitions - len(logs)))

    def log(self, topic: str, partition: int = 0) -> Log:
        return self._logs[topic][partition]

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        at: float | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> int:
        log = self.log(topic, partition)
        stamp = self.clock.now() if at is None else at
        log.records[log.end] = Message(
            topic=topic,
            partition=partition,
            offset=log.end,
            key=key,
            value=value,
            timestamp=(1, round(stamp * 1000)),
            headers=list(headers),
        )
        log.end += 1
        return log.end - 1

    def mark(self, topic: str, partition: int = 0) -> None:
        """A transaction marker: an offset that no reader is ever given."""
        log = self.log(topic, partition)
        log.markers.add(log.end)
        log.end += 1

    def compact(self, topic: str, partition: int = 0, *, tombstones: bool = False) -> None:
        """Keep the last record of each key; with `tombstones`, drop those that are old enough."""
        log = self.log(topic, partition)
        last = {message.key(): offset for offset, message in log.records.items()}
        log.records = {
            offset: log.records[offset]
            for offset in sorted(last.values())
            if not (tombstones and log.records[offset].value() is None)
        }

    def logs(self, topic: str) -> list[Log]:
        if self.down is not None:
            raise self.down
        if topic not in self._logs:
            raise NotFound(self.name, f"Unknown topic: {topic}")
        return self._logs[topic]

    def names(self) -> dict[str, int]:
        if self.down is not None:
            raise self.down
        return {name: len(logs) for name, logs in self._logs.items()}

    def shape(self, topic: str) -> tuple[str, int]:
        return (self._ids.get(topic, ""), len(self.logs(topic)))


class FakeAdmin:
    """KafkaAdmin, of a FakeKafka."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka
        self.name = kafka.name
        self.bounds_requests: list[TopicPartition] = []
        self.end_requests: list[tuple[TopicPartition, ...]] = []

    def topics(self) -> tuple[dict[str, int], frozenset[str]]:
        return self._kafka.names(), frozenset({f"{self.name}-1:9092"})

    def list_brokers(self) -> tuple[frozenset[str], str | None]:
        return self.topics()[1], self.cluster_id()

    def cluster_id(self) -> str | None:
        return f"id-of-{self.name}"

    def members(self, group: str) -> tuple[str, ...]:
        if self._kafka.mute is not None:
            raise self._kafka.mute
        return self._kafka.members.get(group, ())

    def close(self) -> None:
        pass

    def compacted(
        self, topics: Collection[str], *, refused: dict[str, ClientError]
    ) -> frozenset[str]:
        del refused
        return frozenset(self._kafka.compacted & set(topics))

    def identities_now(self, topics: Collection[str]) -> dict[str, tuple[str | None, int]]:
        if self._kafka.mute is not None:
            raise self._kafka.mute
        there = self._kafka.names()
        return {topic: self._kafka.shape(topic) for topic in topics if topic in there}

    def shape(self, topic: str) -> tuple[str, int]:
        if self._kafka.mute is not None:
            raise self._kafka.mute
        return self._kafka.shape(topic)

    def bounds(
        self,
        partitions: Collection[TopicPartition],
        *,
        stable: bool,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, LogBounds]:
        self.bounds_requests.extend(partitions)
        results = {}
        for partition in partitions:
            logs = (
                self._kafka.logs(partition.topic) if partition.topic in self._kafka.names() else []
            )
            if partition.partition < len(logs):
                log = logs[partition.partition]
                last = log.readable_end if stable else log.end
                results[partition] = LogBounds(start=log.start, end=log.end, stable_end=last)
        return results

    def log_offsets(
        self,
        partitions: Sequence[TopicPartition],
        offset: int,
        *,
        committed: bool,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> list[int | None]:
        request = len(self.bounds_requests)
        partition = self.bounds(partitions, stable=committed)
        if offset == EARLIEST:
            del self.bounds_requests[
                request:
            ]  # that they were asked for their ends is what tests ask
        name = "start" if offset == EARLIEST else "stable_end" if committed else "end"
        return [getattr(partition.get(item), name, None) for item in partitions]

    def readable_ends(
        self,
        partitions: Collection[TopicPartition],
        *,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, ReadableEnd]:
        self.end_requests.append(tuple(partitions))
        sick = {
            partition: why
            for partition in partitions
            if (why := self._kafka.sick.get(partition)) is not None
        }
        if refused is not None:
            refused |= sick
        elif sick:
            raise next(iter(sick.values()))
        partitions = [partition for partition in partitions if partition not in sick]
        if any(
            partition.partition >= len(self._kafka.logs(partition.topic))
            for partition in partitions
        ):
            raise NotFound(self.name, "Local: Unknown partition")
        logs = {
            partition: self._kafka.logs(partition.topic)[partition.partition]
            for partition in partitions
        }
        return {
            partition: ReadableEnd(log.readable_end, log.end) for partition, log in logs.items()
        }

    def group_offsets(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        *,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, int]:
        self._kafka.names()
        if refused is not None:
            refused |= {
                partition: why
                for partition, why in self._kafka.unfetched.items()
                if partition in partitions
            }
            partitions = set(partitions) - refused.keys()
        committed = self._kafka.groups.get(group, {})
        return {
            partition: offset
            for partition, offset in committed.items()
            if partition in set(partitions)
        }


class FakeReader:
    """TailReader, of a FakeKafka. Waiting for records moves the clock."""

    def __init__(self, kafka: FakeKafka, *, committed: bool = True) -> None:
        self._kafka = kafka
        self.name = kafka.name
        self._committed = committed
        self._next: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, int] = {}
        self._reported_ends: dict[TopicPartition, int] = {}
        self._stopped: set[TopicPartition] = set()
        self.reopened: list[dict[TopicPartition, int]] = []
        self.closed = False

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self._next = dict(starts)

    def read(self, records_max: int, timeout_s: float) -> list[Message]:
        self._kafka.clock.advance(timeout_s)
        if self._kafka.down is not None:
            raise self._kafka.down
        messages: list[Message] = []
        for partition in self._next:
            messages += self._of_partition(partition, records_max - len(messages))
        return messages

    def reopen(self, starts: Mapping[TopicPartition, int]) -> None:
        self.reopened.append(dict(starts))
        self._next |= starts
        self._stopped -= starts.keys()

    def _of_partition(self, partition: TopicPartition, records_max: int) -> list[Message]:
        if partition in self._kafka.sick:
            self._stopped.add(partition)
        if partition in self._stopped:  # until it is opened again
            return []
        if partition.topic not in self._kafka.names():
            return [_event(partition, KafkaError.UNKNOWN_TOPIC_OR_PART, 0)]
        if partition.partition >= len(self._kafka.logs(partition.topic)):
            return []  # for half a minute librdkafka waits whether it comes back
        log = self._kafka.log(partition.topic, partition.partition)
        if self._next[partition] < 0:
            self._next[partition] = log.start
        if not log.start <= self._next[partition] <= log.end:
            return [_event(partition, KafkaError._AUTO_OFFSET_RESET, self._next[partition])]
        end = log.readable_end if self._committed else log.end
        messages = [
            message
            for offset, message in sorted(log.records.items())
            if self._next[partition] <= offset < end
        ][: max(0, records_max)]
        if messages:
            self._next[partition] = (messages[-1].offset() or 0) + 1
            while self._next[partition] in log.markers and self._next[partition] < end:
                self._next[partition] += 1
            self._read[partition] = self._next[partition]
        elif not any(self._next[partition] <= offset < end for offset in log.records):
            self._next[partition] = max(self._next[partition], end)
            if self._reported_ends.get(partition) != end:
                self._reported_ends[partition] = end
                messages.append(_event(partition, KafkaError._PARTITION_EOF, end))
        return messages

    def positions(self, partitions: Collection[TopicPartition]) -> dict[int, int]:
        return {
            partition.partition: self._read[partition]
            for partition in partitions
            if partition in self._read
        }

    def close(self) -> None:
        self.closed = True


def _event(partition: TopicPartition, code: int, offset: int) -> Message:
    return Message(
        topic=partition.topic, partition=partition.partition, offset=offset, error=KafkaError(code)
    )
