"""Connectors that stand still, and logs to look at: what the tests of poison are told in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsetwatch.model.records import Headers, LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate.converters import ConnectorConverters, Converter
from offsetwatch.remedy.locate.search import (
    MirrorFacts,
    MirrorSubject,
    PartitionReading,
    SinkFacts,
    SinkSubject,
    SubjectPartition,
)
from offsetwatch.remedy.model.plan import PartitionOffset

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
GOOD, BAD = b'{"id":1}', b"{broken"
ID = "topic-id"
AT = TopicPartition("orders", 0)
BY_JSON = ConnectorConverters(
    key=Converter(STRING), value=Converter(JSON, envelope=False), header=Converter(STRING)
)


@dataclass(frozen=True)
class Failed:
    """A failure, as far as finding its record depends on it."""

    kind: str = "deserialization"
    stage: str | None = "converter_value"
    veto: str | None = None
    size_bytes: int | None = None


def record(
    offset: int,
    value: bytes | None = GOOD,
    *,
    key: bytes | None = b"k",
    headers: Headers = (),
    partition: TopicPartition = AT,
) -> RawRecord:
    return RawRecord(
        partition.topic, partition.partition, offset, 0, 1_000, "create", key, value, headers
    )


def window(
    *records: RawRecord,
    end: int | None = None,
    read_to: int | None = None,
    log_start: int = 0,
    corrupt_at: int | None = None,
) -> LogWindow:
    """Read to its end, unless something else is said."""
    last = records[-1].offset + 1 if records else 0
    end = last if end is None else end
    return LogWindow(
        tuple(records), end if read_to is None else read_to, end, log_start, corrupt_at
    )


def values(start: int, *results: bytes | None, partition: TopicPartition = AT) -> LogWindow:
    """Records of these values from `start` on, to the end of the log."""
    return window(
        *(record(start + n, value, partition=partition) for n, value in enumerate(results))
    )


def sink_pair(committed: int | None, at: TopicPartition = AT) -> PartitionOffset:
    offset = None if committed is None else f'{{"kafka_offset":{committed}}}'
    return PartitionOffset(
        f'{{"kafka_partition":{at.partition},"kafka_topic":"{at.topic}"}}', offset
    )


def mirror_pair(
    copied: int | None, at: TopicPartition = AT, cluster: str = "east"
) -> PartitionOffset:
    offset = None if copied is None else f'{{"offset":{copied}}}'
    partition = f'{{"cluster":"{cluster}","partition":{at.partition},"topic":"{at.topic}"}}'
    return PartitionOffset(partition, offset)


def build_subject(pair: PartitionOffset, **odd: object) -> SubjectPartition:
    """Of a topic that is the one it was, at an offset that does not move."""
    return SubjectPartition(**{"pair": pair, "moved": False, "topic_id": ID, **odd})  # type: ignore[arg-type]


def sink(
    *partitions: SubjectPartition,
    failure: Failed | None = Failed(),
    facts: SinkFacts = SinkFacts(converters=BY_JSON),  # noqa: B008 - immutable
    **more: object,
) -> SinkSubject:
    return SinkSubject("c", "east", failure, partitions, facts, **more)  # type: ignore[arg-type]


def mirror(
    *partitions: SubjectPartition,
    failure: Failed | None = None,
    facts: MirrorFacts = MirrorFacts(alias="east"),  # noqa: B008 - immutable
    **more: object,
) -> MirrorSubject:
    return MirrorSubject("m", "east", failure, partitions, facts, **more)  # type: ignore[arg-type]


def build_readings(
    result: LogWindow, partition: TopicPartition = AT, **more: object
) -> dict[TopicPartition, PartitionReading]:
    return {partition: PartitionReading(topic_id=more.pop("topic_id", ID), window=result, **more)}  # type: ignore[arg-type]


def log_line(
    offset: int,
    *,
    at: TopicPartition = AT,
    connector: str = "c",
    stage: str = "VALUE_CONVERTER",
    named: bool = True,
) -> str:
    """A line of a worker's log, as Connect writes it."""
    where = (
        f", where consumed record is {{topic='{at.topic}', partition={at.partition}, "
        f"offset={offset}, timestamp=1700000000000, timestampType=CreateTime}}"
    )
    return (
        f"[2024-05-01 10:00:00,123] ERROR [{connector}|task-0] Error encountered in task "
        f"{connector}-0. Executing stage '{stage}' with class '{JSON}'{where if named else ''}. "
        "(org.apache.kafka.connect.runtime.errors.LogReporter:66)"
    )


def letter(
    offset: int,
    *,
    partition: TopicPartition = AT,
    connector: str = "c",
    stage: str = "VALUE_CONVERTER",
) -> Headers:
    """The headers of a dead letter, as Connect writes them."""
    sequence: Sequence[tuple[str, str]] = (
        ("topic", partition.topic),
        ("partition", str(partition.partition)),
        ("offset", str(offset)),
        ("connector.name", connector),
        ("task.id", "0"),
        ("stage", stage),
        ("class.name", JSON),
    )
    return tuple((f"__connect.errors.{name}", value.encode()) for name, value in sequence)
