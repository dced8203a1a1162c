"""Replay of a quarantined record to its topic or to another. Only an operator requests it.

What would be lost or could mislead is reported before the write. The written record is read back
and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Final

from offsetwatch.clients.kafka.inspector import TopicSettings
from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clients.write.kafka import OutgoingRecord, RecordWriter
from offsetwatch.config import Kafka
from offsetwatch.errors import ClientError, MalformedResponse, ResponseTimeout
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.quarantine.stores import READ_BACK_S
from offsetwatch.remedy.model.quarantine import QuarantinedRecord

_NO_LIMIT: Final = -1
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class RecordReplayTarget:
    """The Kafka cluster that receives the record; `reader` and `writer` open clients."""

    kafka: str
    reader: Callable[[], AbstractContextManager[RecordReader]]
    writer: Callable[[], RecordWriter]


@dataclass(frozen=True, slots=True)
class RecordReplayRequest:
    """A request to replay a record.

    topic           None for its original topic
    keep_timestamp  whether it keeps its own timestamp or gets the current one
    """

    found: QuarantinedRecord
    topic: str | None = None
    keep_timestamp: bool = True


@dataclass(frozen=True, slots=True)
class PreparedRecordReplay:
    """The record to write, with the problems and notes to report first.

    outgoing    None if there is a problem
    exact       whether the timestamp has to be identical too
    """

    where: str
    outgoing: OutgoingRecord | None = None
    exact: bool = True
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def build_replay_target(kafka: str, cluster: Kafka) -> RecordReplayTarget:
    """Build the target for a configured Kafka cluster."""
    properties = cluster.client_properties()
    return RecordReplayTarget(
        kafka,
        reader=lambda: RecordReader(kafka, properties, committed=False, check_crcs=False),
        writer=lambda: RecordWriter(kafka, properties),
    )


def prepare_replay(
    target: RecordReplayTarget, request: RecordReplayRequest, now: float
) -> PreparedRecordReplay:
    """Check the topic and prepare the record; nothing is written. Raises ClientError."""
    record = request.found.record
    topic = record.topic if request.topic is None else request.topic
    with closing(target.writer()) as writer:
        settings = writer.settings(topic)
    if settings is None:
        where = f"{target.kafka}/{topic}"
        problem = f"there is no topic {where}, and none is made"
        return PreparedRecordReplay(where, problems=(problem,))
    partition = record.partition % settings.partitions
    where = f"{target.kafka}/{topic}-{partition}"
    # 0 is what the client takes for now; a record without a time has none to keep.
    stamp = (record.timestamp_ms or None) if request.keep_timestamp else None
    outgoing = OutgoingRecord(topic, partition, record.key, record.value, record.headers, stamp)
    if outgoing.size_bytes > settings.message_bytes_max:
        sizes = f"it has {outgoing.size_bytes} bytes, and the topic takes"
        problem = f"{sizes} {settings.message_bytes_max} (max.message.bytes)"
        return PreparedRecordReplay(where, problems=(problem,))
    exact = stamp is not None and not settings.appended
    notes = (
        *_describe_consumers(target, request.found, topic, settings),
        *_describe_changes(request, outgoing, settings, now),
    )
    return PreparedRecordReplay(where, outgoing, exact, notes=notes)


def _describe_consumers(
    target: RecordReplayTarget, record: QuarantinedRecord, topic: str, settings: TopicSettings
) -> Iterator[str]:
    about = record.about
    if (target.kafka, topic) == (about.kafka, record.record.topic):
        yield (
            f"everybody who reads {topic} gets this record again, {about.connector} among them: "
            "if nothing has changed since, it fails there again"
        )
        if about.topic_id and settings.topic_id and about.topic_id != settings.topic_id:
            yield f"{topic} was recreated since the record was copied"
    if settings.compacted:
        yield (
            f"{topic} is compacted: this becomes the newest record of its key, and what was "
            "written under the key since is lost"
        )


def _describe_changes(
    request: RecordReplayRequest, outgoing: OutgoingRecord, settings: TopicSettings, now: float
) -> Iterator[str]:
    """Yield what will differ of the record: its partition and timestamp."""
    before, stamp = request.found.record.partition, outgoing.timestamp_ms
    if before != outgoing.partition:
        there = f"it was in partition {before}, and there are {settings.partitions}"
        yield f"{there}: it goes to {outgoing.partition}"
    if settings.appended:
        yield "its timestamp will be the broker's: so the topic is made"
    elif stamp is None:
        if request.keep_timestamp:
            yield "its timestamp will be that of now"
    elif settings.retention_ms != _NO_LIMIT and stamp < now * 1000 - settings.retention_ms:
        retention = f"the {settings.retention_ms / _DAY_MS:g} days that the topic keeps records"
        wayout = "may be deleted at once: say --timestamp now if that is not meant"
        yield f"it is older than {retention}, and {wayout}"


def replay_record(target: RecordReplayTarget, prepared: PreparedRecordReplay) -> int:
    """Write the record, read it back and compare; return its new offset.

    Raises SizeLimitExceeded and RemoteRefusal where it was not written, ResponseTimeout where it
    may have been, and MalformedResponse where it was written and differs from the original.
    """
    outgoing = prepared.outgoing
    assert outgoing is not None
    with closing(target.writer()) as writer:
        offset = writer.write(outgoing)
    partition = TopicPartition(outgoing.topic, outgoing.partition)
    unread = f"it was written at {offset}, and could not be read back"
    try:
        with target.reader() as reader:
            window = reader.window(
                partition, offset, until=offset + 1, count_max=1, bytes_max=1, timeout_s=READ_BACK_S
            )
    except ClientError as exc:
        raise ResponseTimeout(prepared.where, f"{unread}: {exc}") from exc
    if not window.records:
        raise ResponseTimeout(prepared.where, unread)
    record = window.records[0]
    sent = (outgoing.key, outgoing.value, outgoing.headers)
    same = (record.key, record.value, record.headers) == sent
    if not same or (prepared.exact and record.timestamp_ms != outgoing.timestamp_ms):
        raise MalformedResponse(prepared.where, f"what was written at {offset} is not the record")
    return offset
