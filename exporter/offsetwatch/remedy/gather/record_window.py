"""Reads of logs that identify a poison record, within limits.

Nothing here writes, joins a group or commits. Reads are limited in partitions, records, bytes and
time. If something exceeds a limit or cannot be read, no record is identified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Final

from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clock import UnixClock
from offsetwatch.config import Kafka
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import ClientError, ResponseTimeout, SizeLimitExceeded
from offsetwatch.model.records import Headers, LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.live_queries import Brokers, find_kafka_cluster
from offsetwatch.remedy.gather.source_logs import SourceLog, SourceLogs
from offsetwatch.remedy.locate.search import (
    PartitionReading,
    PositionParser,
    ReadPosition,
    SubjectPartition,
)

LogReader = RecordReader | SourceLog
RecordReaderFactory = Callable[..., AbstractContextManager[LogReader]]
"""Opens a reader of a cluster or a source by its name, as open_record_reader without the others."""


def open_record_reader(
    clusters: Mapping[str, Kafka],
    sources: Iterable[Source],
    kafka: str,
    *,
    committed: bool,
    check_crcs: bool = True,
) -> LogReader:
    """Open a reader of a configured cluster or source. Raises RemoteRefusal if there is none."""
    log = SourceLogs(sources).find(kafka)
    if log is not None:
        return log
    properties = find_kafka_cluster(clusters, kafka).client_properties()
    return RecordReader(kafka, properties, committed=committed, check_crcs=check_crcs)


@dataclass(frozen=True, slots=True)
class FindLimits:
    """Limits of the reads for one search.

    records    of one partition: more than nearly every max.poll.records
    bytes      of all windows together, which are in memory at once
    read_s     for one window; all of them have total_s
    letters    of each partition of a dead letter topic, the newest
    """

    partitions: int = 64
    records: int = 2_000
    bytes: int = 64 * 1024 * 1024
    read_s: float = 20.0
    total_s: float = 120.0
    letters: int = 50


DEFAULT_LIMITS: Final = FindLimits()


class BoundedLogReader:
    """Reader of the logs of one connector's cluster `kafka`, within the limits of one search.

    committed   whether the connector reads committed records only; None if unknown
    batch       number of records to read of each partition
    """

    def __init__(
        self,
        open_reader: RecordReaderFactory,
        brokers: Brokers,
        clock: UnixClock,
        limits: FindLimits,
        *,
        kafka: str,
        committed: bool | None,
        batch: int,
    ) -> None:
        self._open_reader = open_reader
        self._brokers = brokers
        self._clock = clock
        self._limits = limits
        self._kafka = kafka
        self._committed = committed
        self._batch = batch
        self._remaining_bytes = limits.bytes
        self._until = clock.now() + limits.total_s
        self._readers: dict[tuple[str, bool, bool], LogReader] = {}
        self._exits = ExitStack()

    def close(self) -> None:
        """Close all connections."""
        self._exits.close()

    def read_partitions(
        self,
        partitions: tuple[SubjectPartition, ...],
        parse: PositionParser,
        target_kafka: str | None = None,
    ) -> dict[TopicPartition, PartitionReading]:
        """Read the window from the next record of each partition.

        target_kafka   the cluster whose size limits of the remote topics count; None if none do
        """
        readings = {}
        for partition in partitions:
            position = parse(partition.pair)
            assert position is not None  # what has none was refused
            try:
                readings[position.partition] = self._read_partition(
                    position, partition.remote, target_kafka
                )
            except ClientError as exc:
                readings[position.partition] = PartitionReading(unread=exc.reason)
        return readings

    def _read_partition(
        self, position: ReadPosition, remote: str | None, target_kafka: str | None
    ) -> PartitionReading:
        self._remaining_s()
        topic_id = self._brokers.topic_id(self._kafka, position.partition.topic)
        bounds = self._brokers.bounds(self._kafka, position.partition)
        end = bounds.stable_end if self._committed else bounds.end
        if not bounds.start <= position.next < end:
            return PartitionReading(topic_id, LogWindow((), position.next, end, bounds.start))
        window = self._window(position.partition, position.next, committed=self._committed or False)
        differ = False
        if self._committed is None:
            strict = self._window(position.partition, position.next, committed=True)
            differ = _list_offsets(strict) != _list_offsets(window)
        salvaged, sound_after = None, None
        if window.corrupt_at is not None and not window.records:
            salvaged, sound_after = self._salvage(position)
        size_max = None
        if target_kafka is not None and remote is not None:
            size_max = self._brokers.message_bytes_max(target_kafka, remote)
        return PartitionReading(
            topic_id=topic_id,
            window=window,
            salvaged=salvaged,
            sound_after=sound_after,
            levels_differ=differ,
            size_max=size_max,
        )

    def _salvage(self, position: ReadPosition) -> tuple[RawRecord | None, bool]:
        committed = self._committed or False
        torn = self._window(
            position.partition, position.next, committed=committed, sums=False, count=1
        )
        if not torn.records:
            return None, False
        record = torn.records[0]
        after = self._window(position.partition, record.offset + 1, committed=committed, count=1)
        return record, after.corrupt_at is None

    def read_dead_letters(self, kafka: str, topic: str) -> tuple[Headers, ...] | None:
        """Read the headers of the newest dead letters; None where they cannot be read."""
        dead_letters: list[Headers] = []
        count = self._limits.letters
        try:
            ends = self._brokers.ends(kafka, topic)
            for number, end in sorted(ends.items())[: self._limits.partitions]:
                partition, start = TopicPartition(topic, number), max(0, end - count)
                window = self._window(partition, start, committed=False, count=count, kafka=kafka)
                dead_letters += [record.headers for record in window.records]
        except ClientError:
            return None
        return tuple(dead_letters)

    def find_uncommitted(
        self, known: frozenset[TopicPartition], topics: frozenset[str]
    ) -> frozenset[TopicPartition] | None:
        """Return partitions with records that are not among the known ones; None if unknown.

        topics   that are read besides those of the known partitions
        """
        try:
            others = {
                TopicPartition(topic, number)
                for topic in {partition.topic for partition in known} | topics
                for number in self._brokers.ends(self._kafka, topic)
            } - known
            if len(others) > self._limits.partitions:
                return None
            uncommitted = set()
            for partition in sorted(others):
                self._remaining_s()
                bounds = self._brokers.bounds(self._kafka, partition)
                if bounds.start < bounds.end:
                    uncommitted.add(partition)
            return frozenset(uncommitted)
        except ClientError:
            return None

    def _window(
        self,
        partition: TopicPartition,
        start: int,
        *,
        committed: bool,
        sums: bool = True,
        count: int | None = None,
        kafka: str | None = None,
    ) -> LogWindow:
        """Read one window within the remaining bytes and time. Raises SizeLimitExceeded."""
        remaining_s = self._remaining_s()
        if self._remaining_bytes <= 0:
            raise SizeLimitExceeded(self._kafka, "more to read than there is room for")
        key = (kafka or self._kafka, committed, sums)
        if key not in self._readers:
            reader = self._open_reader(key[0], committed=committed, check_crcs=sums)
            self._readers[key] = self._exits.enter_context(reader)
        window = self._readers[key].window(
            partition,
            start,
            count_max=self._batch if count is None else count,
            bytes_max=self._remaining_bytes,
            timeout_s=remaining_s,
        )
        self._remaining_bytes -= sum(record.size_bytes for record in window.records)
        return window

    def _remaining_s(self) -> float:
        """Return the seconds for the next request. Raises ResponseTimeout if none remain."""
        remaining_s = min(self._limits.read_s, self._until - self._clock.now())
        if remaining_s <= 0:
            raise ResponseTimeout(self._kafka, "more to read than there is time for")
        return remaining_s


def _list_offsets(window: LogWindow) -> tuple[int, ...]:
    return tuple(record.offset for record in window.records)
