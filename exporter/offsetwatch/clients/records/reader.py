"""Reader of a range of records of one partition, with their exact bytes.

Quarantine stores them and a search decodes them. Partitions are assigned: nothing here joins a
group, commits, writes, or creates a topic.

Checksums are verified in clients/records/checksum.py. A batch with a right checksum but truncated
records is skipped silently: such a read times out, as does one that is too slow. It raises
IncompleteRead, like every read that did not reach its requested end: a returned window never lacks
records.

A header's name ends at its first NUL, in librdkafka as in what is read here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Self

import confluent_kafka as ck

from offsetwatch.clients.kafka.clients import (
    build_positions,
    build_reader_settings,
    bytes_or_none,
    create_client,
    read_headers,
)
from offsetwatch.clients.kafka.errors import ConnectionErrors, client_error_from
from offsetwatch.clients.records.crc_check import ChecksumResult, is_bad_batch, verify_checksums
from offsetwatch.errors import (
    LeaderNotAvailable,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.model.records import IncompleteRead, LogWindow, RawRecord, TimestampType
from offsetwatch.model.topology import TopicPartition

__all__ = ["IncompleteRead", "LogWindow", "RawRecord", "RecordReader"]

POLL_S: Final = 0.1
RECEIVE_BYTES_MAX: Final = 512 * 1024 * 1024  # a broker gives the first batch, however large
_NO_TIMESTAMP: Final = -1  # as Kafka writes it
_TIMESTAMP_TYPES: Final[dict[int, TimestampType]] = {
    ck.TIMESTAMP_CREATE_TIME: "create",
    ck.TIMESTAMP_LOG_APPEND_TIME: "append",
}


class RecordReader:
    """Reader of records of one Kafka cluster, committed ones only or all.

    Not thread-safe.

    check_crcs  whether to verify checksums of what was read, which takes another process half a
                second; without, the bytes of a bad batch are returned as far as they can be decoded
    """

    def __init__(
        self, name: str, properties: Mapping[str, Any], *, committed: bool, check_crcs: bool = True
    ) -> None:
        self.name = name
        self._check_crcs = check_crcs
        self._errors = ConnectionErrors()
        self._settings: dict[str, Any] = {
            **build_reader_settings(properties, self._errors, committed=committed),
            "allow.auto.create.topics": False,
            "check.crcs": False,
            "receive.message.max.bytes": RECEIVE_BYTES_MAX,
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 1,  # nothing is read ahead
        }
        self._opened: ck.Consumer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer; nothing is committed."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

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
        """Read from `start` to the end, to before `until`, or to a limit.

        The limits are a number of records and of bytes (one record may be larger). If the log start
        is later by now, the window begins there. `timeout_s` is for the read, and again for the
        checksums.

        Raises NotFound for a missing partition, TopicChanged if the log ends before `start`,
        IncompleteRead if time ran out on the way, ResponseTimeout or TargetUnreachable if no broker
        answers, LeaderNotAvailable if the broker gives no log end, MalformedResponse for a record
        whose headers cannot be decoded.
        """
        deadline = time.monotonic() + timeout_s
        self._errors.clear()
        log_start, end = self._bounds(partition, timeout_s)
        builder = _WindowBuilder(max(start, log_start), end, until, count_max, bytes_max)
        if builder.done:
            return LogWindow((), builder.position, end, log_start)
        self._read(partition, builder, deadline)
        short = "" if builder.is_complete else f"read up to {builder.position} of {builder.last}"
        if self._check_crcs:
            checked = verify_checksums(
                self._settings, partition, builder.start, builder.position, timeout_s
            )
            if checked.sound_to < builder.position and not checked.corrupt:
                short = f"checksums verified up to {checked.sound_to} of {builder.position}"
            builder.cut(checked)
        end = max(end, builder.position)  # it may have grown meanwhile
        window = LogWindow(
            tuple(builder.records), builder.position, end, log_start, builder.corrupt_at
        )
        if short and builder.corrupt_at is None:
            raise IncompleteRead(self._target(partition), f"{short} in {timeout_s:g} s", window)
        return window

    def _read(self, partition: TopicPartition, builder: _WindowBuilder, deadline: float) -> None:
        """Extend the window until it is complete, or until the deadline (monotonic)."""
        consumer = self._consumer
        try:
            consumer.assign(build_positions({partition: builder.position}))
            while not builder.done:
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    break
                message = consumer.poll(min(POLL_S, remaining_s))
                if message is not None:
                    self._take(message, partition, builder)
            consumer.unassign()
        except ck.KafkaException as exc:
            raise client_error_from(self._target(partition), exc.args[0]) from exc
        if builder.corrupt_at is not None:
            self.close()  # what it would go on with is not to be relied on

    @property
    def _consumer(self) -> ck.Consumer:
        if self._opened is None:
            self._opened = create_client(self.name, ck.Consumer, self._settings)
        return self._opened

    def _target(self, partition: TopicPartition) -> str:
        return f"{self.name}/{partition.topic}-{partition.partition}"

    def _bounds(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
        topic_partition = ck.TopicPartition(partition.topic, partition.partition)
        try:
            bounds = self._consumer.get_watermark_offsets(
                topic_partition, timeout=timeout_s, cached=False
            )
        except ck.KafkaException as exc:
            error = client_error_from(self._target(partition), exc.args[0])
            lost = isinstance(error, ResponseTimeout | TargetUnreachable)
            if lost and self._consumer.poll(0) is None:
                error = self._errors.pop(self.name) or error
            raise error from exc
        if bounds is None:
            raise ResponseTimeout(
                self._target(partition), "no answer with its log start and end in time"
            )
        if min(bounds) < 0:  # while a broker goes or comes, and without an error
            raise LeaderNotAvailable(self._target(partition), "the broker gave no offset")
        return bounds

    def _take(
        self, message: ck.Message, partition: TopicPartition, builder: _WindowBuilder
    ) -> None:
        error, offset = message.error(), message.offset()
        if error is not None:
            if message.topic() != partition.topic:
                self._errors.add(error)  # of the cluster; librdkafka tries again
            elif error.code() == ck.KafkaError._PARTITION_EOF:  # noqa: SLF001
                builder.ended(offset)
            elif is_bad_batch(error):
                builder.corrupted(offset)
            else:
                raise client_error_from(self._target(partition), error)
        elif builder.accepts(offset):
            builder.take(_build_raw_record(message, self._target(partition)))


class _WindowBuilder:
    """Window under construction.

    last    its end unless a limit ends it before: the log end when the read began, or `until`
    """

    def __init__(
        self, start: int, end: int, until: int | None, count_max: int, bytes_max: int
    ) -> None:
        self.records: list[RawRecord] = []
        self.start = self.position = start
        self.last = end if until is None else min(end, until)
        self.corrupt_at: int | None = None
        self.done = count_max < 1 or (until is not None and until <= start)
        self._until = until
        self._count_max = count_max
        self._bytes_left = bytes_max

    @property
    def is_complete(self) -> bool:
        """Check whether no record is missing.

        Only the broker reports that a log ends before `start`.
        """
        return self.done or self.start <= self.last <= self.position

    def ended(self, offset: int | None) -> None:
        """Note the end of the partition; transaction markers are passed by then.

        A replica that is behind its leader reports an end that is too early, and has more records
        later.
        """
        self.position = max(self.position, offset or 0)
        if self._until is not None:
            self.position = min(self.position, self._until)
        self.done = self.position >= self.last

    def corrupted(self, offset: int | None) -> None:
        """Note a corrupt batch that begins at this offset, or before the requested range."""
        if self._until is None or (offset or 0) < self._until:
            self.corrupt_at = self.position = max(self.position, offset or 0)
        else:
            self.position = self._until
        self.done = True

    def cut(self, checked: ChecksumResult) -> None:
        """Drop records that are not known to be sound."""
        if checked.sound_to < self.position:
            self.records = [record for record in self.records if record.offset < checked.sound_to]
            self.position = checked.sound_to
            self.corrupt_at = checked.sound_to if checked.corrupt else None

    def accepts(self, offset: int | None) -> bool:
        """Check whether the record at this offset is within the requested range."""
        if self._until is not None and (offset or 0) >= self._until:
            self.position = self._until
            self.done = True
        return not self.done

    def take(self, record: RawRecord) -> None:
        """Add the next record if the limits permit it."""
        self._bytes_left -= record.size_bytes
        if self._bytes_left < 0 and self.records:
            self.done = True
            return
        self.records.append(record)
        self.position = record.offset + 1
        self.done = len(self.records) >= self._count_max or self._bytes_left <= 0


def _build_raw_record(message: ck.Message, target: str) -> RawRecord:
    offset = message.offset()
    assert offset is not None
    kind, stamp = message.timestamp()
    stamped = kind in _TIMESTAMP_TYPES and stamp != _NO_TIMESTAMP
    epoch = message.leader_epoch()
    return RawRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=offset,
        leader_epoch=epoch if epoch is not None and epoch >= 0 else None,
        timestamp_ms=stamp if stamped else None,
        timestamp_type=_TIMESTAMP_TYPES[kind] if stamped else "none",
        key=bytes_or_none(message.key()),
        value=bytes_or_none(message.value()),
        headers=read_headers(message, f"{target}@{offset}"),
    )
