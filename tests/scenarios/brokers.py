"""Kafka clusters in virtual time: how far logs reach, not what stands in them.

A Cluster answers what the exporter's polls ask of an admin client and of a reader of single
records. Connect's and MM2's own topics are Internal: they hold whole records, as those are decoded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace

import confluent_kafka as ck
from confluent_kafka import Message

from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.log_bounds import EARLIEST, LATEST, LogBoundsReader
from offsetwatch.errors import ClientError
from offsetwatch.model.observations import FirstRecord, LogBounds, NoRecordBefore
from offsetwatch.model.topology import TopicPartition

_ids = count(1)


@dataclass
class Log:
    """One partition. `appended` tells which offsets came when; `hidden` are offsets at which no
    reader is given a record: transaction markers, and what compaction took.
    """

    start: int = 0
    end: int = 0
    appended: list[tuple[int, float]] = field(default_factory=list)
    hidden: list[tuple[int, int]] = field(default_factory=list)

    def append(self, records: int, moment: float) -> None:
        if records > 0:
            self.end += records
            self.appended.append((self.end, moment))

    def marker(self, moment: float) -> None:
        """The end of a transaction."""
        self.hidden.append((self.end, self.end + 1))
        self.append(1, moment)

    def compact(self, before: int) -> None:
        """Every record before this offset was superseded; the log start stays."""
        retained = [gap for gap in self.hidden if gap[1] > before]
        self.hidden = [(self.start, before), *retained]

    def purge(self, before: int) -> None:
        self.start = min(max(self.start, before), self.end)
        first = bisect_right(self.appended, (self.start, float("inf")))
        del self.appended[: max(0, first - 1)]
        self.hidden = [gap for gap in self.hidden if gap[1] > self.start]

    def older_than(self, moment: float) -> int:
        """The first offset that came after this moment."""
        results = [end for end, appended in self.appended if appended <= moment]
        return max(results, default=self.start)

    def first_readable(self, offset: int) -> int | None:
        """The first record at or after an offset."""
        index = max(offset, self.start)
        for first, after in self._gaps(index):
            if first <= index < after:
                index = after
        return index if index < self.end else None

    def last_readable(self, before: int) -> int | None:
        offset = before - 1
        for first, after in reversed(self._gaps(self.start)):
            if first <= offset < after:
                offset = first - 1
        return offset if offset >= self.start else None

    def readable(self, first: int, before: int) -> int:
        """How many records stand there."""
        gaps = self._gaps(first)
        hidden = sum(max(0, min(after, before) - max(low, first)) for low, after in gaps)
        return max(0, before - first - hidden)

    def at(self, offset: int) -> float:
        """When the record came."""
        result = bisect_right(self.appended, (offset, float("inf")))
        return self.appended[min(result, len(self.appended) - 1)][1]

    def _gaps(self, since: int) -> list[tuple[int, int]]:
        return [gap for gap in self.hidden[-200:] if gap[1] > since]


@dataclass
class Topic:
    """A topic of somebody's records.

    load       (records a second at a moment) for each partition
    keep_s     its retention, applied whenever a segment of `segment_s` has rolled
    """

    logs: list[Log]
    load: Callable[[float], float] = lambda _: 0.0
    keep_s: float | None = None
    segment_s: float = 600.0
    transactional: bool = False
    id: str = field(default_factory=lambda: f"id-{next(_ids)}")
    _owed: float = 0.0

    def live(self, now: float, elapsed_s: float) -> None:
        self._owed += self.load(now) * elapsed_s
        records, self._owed = int(self._owed), self._owed % 1
        for log in self.logs:
            log.append(records, now)
            if records and self.transactional:
                log.marker(now)
        if self.keep_s is not None and now % self.segment_s < elapsed_s:
            for log in self.logs:
                log.purge(log.older_than(now - self.keep_s))


class Cluster:
    """A Kafka cluster as clients see it.

    down      what every question raises
    raises    the same, made anew each time
    sick      partitions of which brokers tell an error in place of their log's ends
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.data: dict[str, Topic] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.internal: dict[str, Internal] = {}
        self.down: ClientError | None = None
        self.raises: Callable[[], Exception] | None = None
        self.sick: dict[TopicPartition, ck.KafkaError] = {}
        self._readers = LogBoundsReader(name, {}, lambda _: _Consumer(self))

    def log(self, partition: TopicPartition) -> Log | None:
        topic = self.data.get(partition.topic)
        return (
            topic.logs[partition.partition]
            if topic and partition.partition < len(topic.logs)
            else None
        )

    # --- as an admin client ----------------------------------------------------------------------

    def topics(self) -> tuple[dict[str, int], frozenset[str]]:
        self._check()
        results = {name: len(topic.logs) for name, topic in self.data.items()}
        results |= dict.fromkeys(self.internal, 1)
        return results, frozenset({f"{self.name}:9092"})

    def bounds(
        self,
        partitions: Collection[TopicPartition],
        *,
        stable: bool,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, LogBounds]:
        self._check()
        if not self.sick.keys().isdisjoint(partitions):
            return self._bounds_of_healthy(tuple(partitions), refused)
        logs = {item: self.log(item) for item in partitions}
        results = {
            topic_partition: LogBounds(start=log.start, end=log.end, stable_end=log.end)
            for topic_partition, log in logs.items()
            if log is not None
        }
        for partition in partitions:
            if partition.topic in self.internal and not partition.partition:
                end = len(self.internal[partition.topic].records)
                results[partition] = LogBounds(start=0, end=end, stable_end=end)
        return results

    def compacted(
        self, topics: Collection[str], *, refused: dict[str, ClientError]
    ) -> frozenset[str]:
        del refused
        self._check()
        return frozenset(topics) & self.internal.keys()

    def log_offsets(
        self,
        partitions: Sequence[TopicPartition],
        offset: int,
        *,
        committed: bool,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> list[int | None]:
        if not self.sick.keys().isdisjoint(partitions):
            return self._read_bounds(partitions, offset, refused)
        partition = self.bounds(partitions, stable=committed)
        name = "start" if offset == EARLIEST else "end"
        return [getattr(partition.get(item), name, None) for item in partitions]

    def _read_bounds(
        self,
        partitions: Sequence[TopicPartition],
        offset: int,
        refused: dict[TopicPartition, ClientError] | None,
    ) -> list[int | None]:
        """Return what the product's own reader makes of answers in which some are errors."""
        try:
            answer = self._readers.request(partitions, offset, committed=False)
        except ck.KafkaException as exc:
            raise client_error_from(self.name, exc.args[0]) from exc
        if refused is not None:
            partition = zip(partitions, answer, strict=True)
            refused.update(
                (topic_partition, why)
                for topic_partition, why in partition
                if isinstance(why, ClientError)
            )
        return [item if isinstance(item, int) else None for item in answer]

    def _bounds_of_healthy(
        self,
        partitions: Sequence[TopicPartition],
        refused: dict[TopicPartition, ClientError] | None,
    ) -> dict[TopicPartition, LogBounds]:
        starts = self._read_bounds(partitions, EARLIEST, refused)
        ends = self._read_bounds(partitions, LATEST, refused)
        return {
            partition: LogBounds(start=start, end=end, stable_end=end)
            for partition, start, end in zip(partitions, starts, ends, strict=True)
            if start is not None and end is not None
        }

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        self._check()
        return {name: self.data[name].id for name in topics if name in self.data}

    def identities_now(self, topics: Collection[str]) -> dict[str, tuple[str | None, int]]:
        return {
            name: (topic_id, len(self.data[name].logs))
            for name, topic_id in self.topic_ids(topics).items()
        }

    def group_offsets(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        *,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, int]:
        self._check()
        committed = self.groups.get(group, {})
        return {
            partition: committed[partition] for partition in partitions if partition in committed
        }

    # --- as a reader of single records -----------------------------------------------------------

    def first(
        self,
        starts: Mapping[TopicPartition, int],
        _timeout_s: float,
        _stopped: Callable[[], bool],
    ) -> dict[TopicPartition, FirstRecord | NoRecordBefore]:
        self._check()
        results: dict[TopicPartition, FirstRecord | NoRecordBefore] = {}
        for partition, start in starts.items():
            log = self.log(partition)
            if log is None:
                continue
            offset = log.first_readable(start)
            results[partition] = (
                NoRecordBefore(end=log.end)
                if offset is None
                else FirstRecord(offset=offset, at=log.at(offset))
            )
        return results

    def _check(self) -> None:
        if self.down is not None:
            raise self.down
        if self.raises is not None:
            raise self.raises()


class InternalReader:
    """As much of a TailReader as reads Connect's and MM2's own topics once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._starts: Mapping[TopicPartition, int] = {}

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self._starts = dict(starts)

    def read(self, _records_max: int, _timeout_s: float) -> list[Message]:
        starts, self._starts = self._starts, {}
        return [
            record
            for partition, start in starts.items()
            for record in self._cluster.internal[partition.topic].records[start:]
        ]

    def close(self) -> None:
        """Nothing is open."""


class _Consumer:
    """As much of librdkafka's consumer as asks where logs begin and end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def offsets_for_times(
        self, expected: list[ck.TopicPartition], timeout: float
    ) -> list[SimpleNamespace]:
        assert timeout > 0
        self._cluster._check()
        return [self._one(partition) for partition in expected]

    def _one(self, expected: ck.TopicPartition) -> SimpleNamespace:
        partition = TopicPartition(expected.topic, expected.partition)
        log, error = self._cluster.log(partition), self._cluster.sick.get(partition)
        if log is None:
            error = ck.KafkaError(ck.KafkaError._UNKNOWN_PARTITION)
        offset = -1001
        if log is not None and error is None:
            offset = log.start if expected.offset == EARLIEST else log.end
        return SimpleNamespace(
            topic=partition.topic, partition=partition.partition, offset=offset, error=error
        )

    def list_topics(self, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        return SimpleNamespace(
            topics={
                name: SimpleNamespace(
                    partitions={
                        number: SimpleNamespace(id=number, leader=1)
                        for number in range(len(topic.logs))
                    }
                )
                for name, topic in self._cluster.data.items()
            }
        )


@dataclass
class Internal:
    """One of Connect's or MM2's own topics, in one partition. `made` tells it from a later one of
    its name; what stands from `held` on, an open transaction hides.
    """

    name: str
    records: list[Message] = field(default_factory=list)
    held: int | None = None
    made: int = field(default_factory=lambda: next(_ids))

    def write(self, key: bytes, value: bytes | None, moment: float) -> None:
        self.records.append(
            Message(
                topic=self.name,
                partition=0,
                offset=len(self.records),
                key=key,
                value=value,
                timestamp=(1, round(moment * 1000)),
            )
        )

    def wipe(self) -> None:
        """It was deleted, and is made anew."""
        self.records = []
        self.made = next(_ids)


def partitions_of(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """All that there are."""
    return [
        TopicPartition(topic, number)
        for topic in topics
        if topic in cluster.data
        for number in range(len(cluster.data[topic].logs))
    ]
