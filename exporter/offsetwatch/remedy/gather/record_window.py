"""Reads of logs that identify a poison record, within limits.

Nothing here writes, joins a group or commits. Reads are limited in partitions, records, bytes and
time. If something exceeds a limit or cannot be read, no record is identified.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clock import UnixClock
from offsetwatch.config import Kafka
from offsetwatch.errors import ClientError, RemoteRefusal, ResponseTimeout, SizeLimitExceeded
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import Headers, LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate.mirrors import (
    find_in_mirror,
    parse_mirror_position,
    refuse_mirror,
    select_own_partitions,
)
from offsetwatch.remedy.locate.search import (
    MirrorSubject,
    NoIdentification,
    PartitionReading,
    PositionParser,
    ReadPosition,
    SearchAnswer,
    SearchSubject,
    SinkSubject,
    SubjectPartition,
)
from offsetwatch.remedy.locate.sinks import find_in_sink, parse_sink_position, refuse_sink
from offsetwatch.remedy.locate.unsupported_sources import explain_unsupported_source

MIRROR_BATCH: Final = 500  # max.poll.records of MirrorMaker's consumer, unless it is set


class WindowReader(Protocol):
    """The part of clients.records.reader.RecordReader that is used here."""

    def window(
        self,
        partition: TopicPartition,
        start: int,
        *,
        until: int | None = None,
        count_max: int,
        bytes_max: int,
        timeout_s: float,
    ) -> LogWindow:
        """Read the records from `start`, as RecordReader.window does."""


class WindowReaderFactory(Protocol):
    """Factory of readers for a Kafka cluster by its configured name."""

    def __call__(
        self, kafka: str, *, committed: bool, check_crcs: bool = True
    ) -> AbstractContextManager[WindowReader]:
        """Open a reader as a context manager. Raises ClientError."""


class LogQueries(Protocol):
    """Queries about logs and topics, most of them in broker_queries.Brokers. Raises ClientError."""

    def topic_id(self, kafka: str, topic: str) -> str | None:
        """Return the topic's id; None where the broker has no topic ids."""

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        """Return the log start, log end and last stable offset."""

    def ends(self, kafka: str, topic: str) -> Mapping[int, int]:
        """Return the end of the committed records of each partition."""

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        """Return max.message.bytes of the topic; None where the daemon may not read it."""


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


class WindowSearch:
    """Search for a poison record in the logs that a connector reads. For one thread."""

    def __init__(
        self,
        readers: WindowReaderFactory,
        logs: LogQueries,
        clock: UnixClock,
        limits: FindLimits = DEFAULT_LIMITS,
    ) -> None:
        self._readers = readers
        self._logs = logs
        self._clock = clock
        self._limits = limits

    def find(self, subject: SearchSubject) -> SearchAnswer:
        """Return the record that blocks the connector, or why none can be identified."""
        match subject:
            case SinkSubject():
                return self._in_sink(subject)
            case MirrorSubject():
                return self._in_mirror(subject)
            case _:
                return explain_unsupported_source(subject)

    def _in_sink(self, subject: SinkSubject) -> SearchAnswer:
        still = _select_stalled(subject.partitions)
        denied = refuse_sink(subject) or self._too_many(still)
        if denied is not None:
            return denied
        batch = min(subject.facts.batch, self._limits.records)
        with self._look(subject.kafka, subject.facts.read_committed, batch) as inspection:
            partition = inspection.at_all(still, parse_sink_position)
            letters: tuple[Headers, ...] | None = ()
            if subject.facts.dead_letters is not None and subject.letters_kafka is not None:
                letters = inspection.letters(subject.letters_kafka, subject.facts.dead_letters)
            return find_in_sink(subject, partition, letters, inspection.uncommitted(subject))

    def _in_mirror(self, subject: MirrorSubject) -> SearchAnswer:
        still = _select_stalled(select_own_partitions(subject))
        denied = refuse_mirror(subject) or self._too_many(still)
        if denied is not None:
            return denied
        with self._look(subject.kafka, subject.facts.read_committed, MIRROR_BATCH) as inspection:
            if subject.failure is not None and subject.target_kafka is not None:
                inspection.target_kafka = subject.target_kafka
            return find_in_mirror(subject, inspection.at_all(still, parse_mirror_position))

    def _too_many(self, still: tuple[SubjectPartition, ...]) -> NoIdentification | None:
        if len(still) <= self._limits.partitions:
            return None
        return NoIdentification(
            "too_many_partitions",
            f"{len(still)} partitions stand still, of which {self._limits.partitions} at most are "
            "inspected: a record does not stop so many",
        )

    def _look(self, kafka: str, committed: bool | None, batch: int) -> _LogInspection:  # noqa: FBT001 - a fact
        return _LogInspection(
            self._readers, self._logs, self._clock, self._limits, kafka, committed, batch
        )


def _select_stalled(partitions: tuple[SubjectPartition, ...]) -> tuple[SubjectPartition, ...]:
    return tuple(
        partition
        for partition in partitions
        if not partition.moved and partition.pair.offset is not None
    )


class _LogInspection:
    """Reads of the logs of one connector, within the limits of one search."""

    def __init__(
        self,
        readers: WindowReaderFactory,
        logs: LogQueries,
        clock: UnixClock,
        limits: FindLimits,
        kafka: str,
        committed: bool | None,  # noqa: FBT001 - a fact
        batch: int,
    ) -> None:
        self.target_kafka: str | None = None
        self._readers = readers
        self._logs = logs
        self._clock = clock
        self._limits = limits
        self._kafka = kafka
        self._committed = committed
        self._batch = batch
        self._bytes_left = limits.bytes
        self._until = clock.now() + limits.total_s
        self._open: dict[tuple[str, bool, bool], WindowReader] = {}
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.close()

    def at_all(
        self, partitions: tuple[SubjectPartition, ...], where: PositionParser
    ) -> dict[TopicPartition, PartitionReading]:
        """Read the window from the next record of each partition."""
        found = {}
        for standing in partitions:
            partition = where(standing.pair)
            assert partition is not None  # what has none was refused
            try:
                found[partition.at] = self._seen(standing, partition)
            except ClientError as exc:
                found[partition.at] = PartitionReading(unread=exc.reason)
        return found

    def _seen(self, standing: SubjectPartition, partition: ReadPosition) -> PartitionReading:
        self._left_s()
        topic_id = self._logs.topic_id(self._kafka, partition.at.topic)
        bounds = self._logs.bounds(self._kafka, partition.at)
        end = bounds.stable_end if self._committed else bounds.end
        if not bounds.start <= partition.next < end:
            return PartitionReading(topic_id, LogWindow((), partition.next, end, bounds.start))
        window = self._window(partition.at, partition.next, committed=self._committed or False)
        differ = False
        if self._committed is None:
            strict = self._window(partition.at, partition.next, committed=True)
            differ = _list_offsets(strict) != _list_offsets(window)
        salvaged, sound_after = None, None
        if window.corrupt_at is not None and not window.records:
            salvaged, sound_after = self._salvaged(partition)
        size_max = None
        if self.target_kafka is not None and standing.remote is not None:
            size_max = self._logs.message_bytes_max(self.target_kafka, standing.remote)
        return PartitionReading(
            topic_id=topic_id,
            window=window,
            salvaged=salvaged,
            sound_after=sound_after,
            levels_differ=differ,
            size_max=size_max,
        )

    def _salvaged(self, partition: ReadPosition) -> tuple[RawRecord | None, bool]:
        """Return the record that fails its checksum, and whether later records can be read."""
        committed = self._committed or False
        torn = self._window(partition.at, partition.next, committed=committed, sums=False, count=1)
        if not torn.records:
            return None, False
        record = torn.records[0]
        after = self._window(partition.at, record.offset + 1, committed=committed, count=1)
        return record, after.corrupt_at is None

    def letters(self, kafka: str, topic: str) -> tuple[Headers, ...] | None:
        """Read the headers of the newest dead letters; None where they cannot be read."""
        found: list[Headers] = []
        try:
            ends = self._logs.ends(kafka, topic)
            for partition, end in sorted(ends.items())[: self._limits.partitions]:
                topic_partition, start = (
                    TopicPartition(topic, partition),
                    max(0, end - self._limits.letters),
                )
                window = self._window(
                    topic_partition, start, committed=False, count=self._limits.letters, kafka=kafka
                )
                found += [record.headers for record in window.records]
        except ClientError:
            return None
        return tuple(found)

    def uncommitted(self, subject: SinkSubject) -> frozenset[TopicPartition] | None:
        """Return partitions that hold records but have no offset of the sink; None if unknown."""
        places = [
            parse_sink_position(subject_partition.pair) for subject_partition in subject.partitions
        ]
        known = {place.at for place in places if place is not None}
        topics = {topic_partition.topic for topic_partition in known} | subject.topics
        try:
            there = {
                TopicPartition(topic, partition)
                for topic in topics
                for partition in self._logs.ends(self._kafka, topic)
            }
            if len(there - known) > self._limits.partitions:
                return None
            return frozenset(
                topic_partition
                for topic_partition in sorted(there - known)
                if self._holds_any(topic_partition)
            )
        except ClientError:
            return None

    def _holds_any(self, partition: TopicPartition) -> bool:
        self._left_s()
        bounds = self._logs.bounds(self._kafka, partition)
        return bounds.start < bounds.end

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
        left_s = self._left_s()
        if self._bytes_left <= 0:
            raise SizeLimitExceeded(self._kafka, "more to read than there is room for")
        reader = self._reader(kafka or self._kafka, committed=committed, sums=sums)
        found = reader.window(
            partition,
            start,
            count_max=self._batch if count is None else count,
            bytes_max=self._bytes_left,
            timeout_s=left_s,
        )
        self._bytes_left -= sum(record.size_bytes for record in found.records)
        return found

    def _left_s(self) -> float:
        """Return the seconds for the next request. Raises ResponseTimeout if none remain."""
        left_s = min(self._limits.read_s, self._until - self._clock.now())
        if left_s <= 0:
            raise ResponseTimeout(self._kafka, "more to read than there is time for")
        return left_s

    def _reader(self, kafka: str, *, committed: bool, sums: bool) -> WindowReader:
        key = (kafka, committed, sums)
        if key not in self._open:
            made = self._readers(kafka, committed=committed, check_crcs=sums)
            self._open[key] = self._exits.enter_context(made)
        return self._open[key]


def _list_offsets(window: LogWindow) -> tuple[int, ...]:
    return tuple(record.offset for record in window.records)


class KafkaReaders:
    """Readers for the Kafka clusters of the configuration."""

    def __init__(self, clusters: Mapping[str, Kafka]) -> None:
        self._clusters = clusters

    def __call__(
        self, kafka: str, *, committed: bool, check_crcs: bool = True
    ) -> AbstractContextManager[WindowReader]:
        """See WindowReaderFactory."""
        cluster = self._clusters.get(kafka)
        if cluster is None:
            raise RemoteRefusal(kafka, "no Kafka cluster of this name is configured here")
        properties = cluster.client_properties()
        return RecordReader(kafka, properties, committed=committed, check_crcs=check_crcs)
