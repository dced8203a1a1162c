"""Copies of records in a topic.

Before a receipt is given, the copy is written with all acknowledgements, read back and compared.
Its key determines its partition, so that a search reads only one. Positions that a search found are
remembered, and read again before a receipt is given for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from typing import Final, Protocol

from offsetwatch.clients.kafka.inspector import TopicSettings
from offsetwatch.clients.write.records import OutgoingRecord
from offsetwatch.clock import UnixClock
from offsetwatch.errors import (
    ClientError,
    MalformedResponse,
    RemoteRefusal,
    ResponseTimeout,
    SizeLimitExceeded,
    TopicChanged,
)
from offsetwatch.model.records import IncompleteRead, LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.quarantine import (
    DamagedCopy,
    QuarantineContext,
    QuarantinedCopy,
    QuarantinedRecord,
    Receipt,
    build_copy_headers,
    choose_partition,
    compute_receipt_id,
    rebuild_record,
)

PARTITIONS: Final = 6  # of a topic that we make: a search reads one of them
REPLICATION: Final = 3
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024  # of a topic that we make; brokers hang up at 100 MiB
READ_BACK_S: Final = 30.0
SEARCH_S: Final = 60.0
_COUNT_MAX: Final = 1000
_BYTES_MAX: Final = 32 * 1024 * 1024
_DAY_MS: Final = 86_400_000
_NO_LIMIT: Final = -1


class RecordWindowReader(Protocol):
    """The method of RecordReader that is used here."""

    def window(  # noqa: D102 - RecordReader says it
        self,
        partition: TopicPartition,
        start: int,
        *,
        until: int | None = None,
        count_max: int,
        bytes_max: int,
        timeout_s: float,
    ) -> LogWindow: ...


class QuarantineTopicWriter(Protocol):
    """The methods of RecordWriter that are used here."""

    def settings(self, topic: str) -> TopicSettings | None: ...  # noqa: D102

    def brokers(self) -> int: ...  # noqa: D102

    def create(  # noqa: D102
        self, topic: str, *, partitions: int, replication: int, config: Mapping[str, str]
    ) -> None: ...

    def write(self, record: OutgoingRecord) -> int: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class QuarantineTopic:
    """The configured topic.

    kafka           the configured name of its cluster
    replication     of a topic that is created; None for three, or the number of brokers if fewer
    retention_ms    None for unlimited
    """

    kafka: str
    name: str
    replication: int | None = None
    retention_ms: int | None = None

    @property
    def where(self) -> str:
        """The topic as `kafka/topic`."""
        return f"{self.kafka}/{self.name}"


CopyPosition = tuple[int, int, str]  # partition, offset, sha256 of the record


@dataclass(slots=True)
class _CopyIndex:
    """Positions of the copies that were read so far, valid for one topic id."""

    topic_id: str
    next: dict[int, int] = field(default_factory=dict)
    copies: dict[str, list[CopyPosition]] = field(default_factory=dict)


class TopicQuarantine:
    """A QuarantineStore in a topic. For one thread; keeps no connection between calls."""

    def __init__(
        self,
        topic: QuarantineTopic,
        *,
        reader: Callable[[], AbstractContextManager[RecordWindowReader]],
        writer: Callable[[], QuarantineTopicWriter],
        clock: UnixClock,
    ) -> None:
        self._topic = topic
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._seen = _CopyIndex("")

    @property
    def name(self) -> str:
        """See QuarantineStore."""
        return self._topic.where

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        """See QuarantineStore. Raises ResponseTimeout if the partition was not read to its end.

        What was read by then is not read again.
        """
        with closing(self._writer()) as writer:
            settings = writer.settings(self._topic.name)
        if settings is None:
            return None
        partition = choose_partition(skip_key, settings.partitions)
        with self._reader() as reader:
            for _ in self._read_on(reader, settings, partition):
                pass
            for copy in reversed(self._seen.copies.get(skip_key, [])):
                if sha256 is None or copy[2] == sha256:
                    receipt = self._verified(reader, copy)
                    if receipt is not None:
                        return receipt
        return None

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        """See QuarantineStore.

        Raises SizeLimitExceeded for a record too large for the topic, and RemoteRefusal if the
        topic is unsuitable.
        """
        sha256 = record.sha256
        with closing(self._writer()) as writer:
            settings = self._ready(writer)
            partition = choose_partition(about.skip_key, settings.partitions)
            copy = OutgoingRecord(
                self._topic.name,
                partition,
                record.key,
                record.value,
                build_copy_headers(record, about),
            )
            if copy.size_bytes > settings.message_bytes_max:
                of = f"{copy.size_bytes} bytes, and the topic takes {settings.message_bytes_max}"
                raise SizeLimitExceeded(self.name, of)
            offset = writer.write(copy)
        try:
            with self._reader() as reader:
                receipt = self._verified(reader, (partition, offset, sha256))
        except ClientError as exc:  # whatever it says, the copy was written
            raise ResponseTimeout(
                self.name, f"a copy was written and not read back: {exc}"
            ) from exc
        if receipt is None:
            raise MalformedResponse(
                self.name, f"the copy at {partition}@{offset} is not what was written"
            )
        self._seen.copies.setdefault(about.skip_key, []).append((partition, offset, sha256))
        return receipt

    def kept(self) -> Iterator[tuple[QuarantinedCopy, QuarantinedRecord | None]]:
        """Yield all copies by partition, each with its record; None if the copy is damaged."""
        with closing(self._writer()) as writer:
            settings = writer.settings(self._topic.name)
        if settings is None:
            return
        self._seen = _CopyIndex("")
        with self._reader() as reader:
            for partition in range(settings.partitions):
                for copy, found in self._read_on(reader, settings, partition):
                    yield _build_copy_entry(self.name, copy, found)

    def problems(self) -> tuple[str, ...]:
        """Return why the topic is unsuitable; empty if it does not exist."""
        with closing(self._writer()) as writer:
            settings = writer.settings(self._topic.name)
        return () if settings is None else _find_topic_problems(self._topic, settings)

    def _ready(self, writer: QuarantineTopicWriter) -> TopicSettings:
        """Return the topic's settings, created if missing. Raises RemoteRefusal if unsuitable."""
        settings = writer.settings(self._topic.name)
        if settings is None:
            self._make(writer)
            settings = writer.settings(self._topic.name)
        if settings is None:
            raise ResponseTimeout(self.name, "it was made, and is not seen")
        problems = _find_topic_problems(self._topic, settings)
        if problems:
            raise RemoteRefusal(self.name, "; ".join(problems))
        return settings

    def _make(self, writer: QuarantineTopicWriter) -> None:
        replication = self._topic.replication or min(REPLICATION, writer.brokers())
        retention = self._topic.retention_ms
        writer.create(
            self._topic.name,
            partitions=PARTITIONS,
            replication=replication,
            config={
                "cleanup.policy": "delete",
                "retention.ms": str(_NO_LIMIT if retention is None else retention),
                "retention.bytes": str(_NO_LIMIT),
                "max.message.bytes": str(MESSAGE_BYTES_MAX),
                "min.insync.replicas": str(2 if replication > 2 else 1),
                "unclean.leader.election.enable": "false",
            },
        )

    def _read_on(
        self, reader: RecordWindowReader, settings: TopicSettings, partition: int
    ) -> Iterator[tuple[RawRecord, QuarantinedRecord | DamagedCopy]]:
        """Yield each copy that was not read before."""
        if self._seen.topic_id != settings.topic_id:
            self._seen = _CopyIndex(settings.topic_id)
        topic_partition = TopicPartition(self._topic.name, partition)
        deadline = self._clock.now() + SEARCH_S
        while True:
            begin = self._seen.next.get(partition, 0)
            late: IncompleteRead | None = None
            try:
                window = reader.window(
                    topic_partition,
                    begin,
                    count_max=_COUNT_MAX,
                    bytes_max=_BYTES_MAX,
                    timeout_s=SEARCH_S,
                )
            except IncompleteRead as exc:
                window, late = exc.partial, exc  # the next search goes on behind it
            except TopicChanged:
                self._seen = _CopyIndex(settings.topic_id)  # of a broker that knows no ids
                raise
            for copy in window.records:
                found = rebuild_record(copy)
                if isinstance(found, QuarantinedRecord):
                    place = (partition, copy.offset, found.record.sha256)
                    self._seen.copies.setdefault(found.about.skip_key, []).append(place)
                if found is not None:
                    yield copy, found
            # What cannot be decoded is passed over: a copy that is in it is none.
            bad = window.corrupt_at
            position = window.next_offset if bad is None else bad + 1
            self._seen.next[partition] = position
            if late is None and position >= window.end:
                return
            if late is not None or self._clock.now() >= deadline or position == begin:
                stands = f"stands at {position} of {window.end}"
                said = f"partition {partition} could not be read: {stands}"
                raise ResponseTimeout(self.name, said) from late

    def _verified(self, reader: RecordWindowReader, copy: CopyPosition) -> Receipt | None:
        """Return the receipt of a copy that still exists unchanged; None for any other.

        Raises ResponseTimeout where it could not be read.
        """
        partition, offset, sha256 = copy
        window = reader.window(
            TopicPartition(self._topic.name, partition),
            offset,
            until=offset + 1,
            count_max=1,
            bytes_max=_BYTES_MAX,
            timeout_s=READ_BACK_S,
        )
        if not window.records:
            return None
        found = rebuild_record(window.records[0])
        if not isinstance(found, QuarantinedRecord) or found.record.sha256 != sha256:
            return None
        return _build_receipt(self.name, window.records[0], sha256)


def _find_topic_problems(topic: QuarantineTopic, settings: TopicSettings) -> tuple[str, ...]:
    found = []
    if settings.compacted:
        found.append("it is compacted, and copies would be lost: set cleanup.policy to delete")
    wanted = topic.retention_ms
    if settings.retention_ms != _NO_LIMIT and (wanted is None or settings.retention_ms < wanted):
        days = settings.retention_ms / _DAY_MS
        right = "set retention.ms to -1, or configure remedy.quarantine.retention_days"
        found.append(f"it keeps records for {days:g} days, which is less than configured: {right}")
    if settings.retention_bytes != _NO_LIMIT:
        found.append("it limits retention by size: set retention.bytes to -1")
    if settings.in_sync_min > settings.replication:
        found.append(
            f"nothing can be written to it: min.insync.replicas is {settings.in_sync_min}, and "
            f"there are {settings.replication} replicas"
        )
    return tuple(found)


def _build_receipt(name: str, copy: RawRecord, sha256: str) -> Receipt:
    return Receipt(
        where=f"{name}-{copy.partition}@{copy.offset}",
        partition=copy.partition,
        offset=copy.offset,
        path=None,
        sha256=sha256,
        at=(copy.timestamp_ms or 0) / 1000,
    )


def _build_copy_entry(
    name: str, copy: RawRecord, found: QuarantinedRecord | DamagedCopy
) -> tuple[QuarantinedCopy, QuarantinedRecord | None]:
    if isinstance(found, DamagedCopy):
        nobody = QuarantineContext("", "", "", "", "", "")
        receipt = _build_receipt(name, copy, "")
        return QuarantinedCopy("", receipt, nobody, ("", 0, 0), copy.size_bytes, found.reason), None
    record = found.record
    sha256 = record.sha256
    kept = QuarantinedCopy(
        id=compute_receipt_id(found.about.skip_key, sha256),
        receipt=_build_receipt(name, copy, sha256),
        about=found.about,
        record=(record.topic, record.partition, record.offset),
        size_bytes=record.size_bytes,
    )
    return kept, found
