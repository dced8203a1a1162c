"""
What a story does to brokers, and what it reads to know what it did: plain clients, nothing else.

It shares nothing with the exporter: what a story says it has done is what the exporter's findings
are held against.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab.check.ground_truth_recorder import Record, Topics
from lab.cluster.kafka_client import CALL_S_MAX, FLUSH_S_MAX, request_log_bounds, settings
from lab.errors import LabError
from lab.waiting import NotYet, until

R = TypeVar("R")

SETTLE_S_MAX = 150.0
# A record of this many bytes is more than a producer sends by default (max.request.size, 1 MiB).
LARGE_BYTES = 2 * 1024 * 1024
_ANY_CLIENT = ("User:*", "*")


def bounds(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Return (log start, high watermark), as a consumer asks for them."""
    more = {"group.id": "offsetwatch-stories", "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings(bootstrap, **more))
    try:
        return until(
            f"log bounds of {topic}-{partition}",
            lambda: request_log_bounds(consumer, topic, partition),
            timeout_s=SETTLE_S_MAX,
        )
    except KafkaException as exc:
        raise LabError(f"log bounds of {topic}-{partition}: {exc}") from exc
    finally:
        consumer.close()


def delete_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    """Move the log start, as retention does; returns when it has moved."""
    admin = _admin(bootstrap)
    for record in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        _result(f"delete records of {topic}", record)
    start = bounds(bootstrap, topic, partition)[0]
    if start != before:
        raise LabError(f"{topic}-{partition} starts at {start}, not {before}")


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic and wait until the broker knows none of this name."""
    admin = _admin(bootstrap)
    _result(f"delete topic {topic}", admin.delete_topics([topic])[topic])

    def gone() -> None:
        if topic in admin.list_topics(timeout=CALL_S_MAX).topics:
            raise NotYet(f"{topic} is still listed")

    until(f"deletion of {topic}", gone, timeout_s=SETTLE_S_MAX)


def topic_id(bootstrap: str, topic: str) -> str:
    """What tells a topic from a later one of the same name."""
    admin = _admin(bootstrap)
    described = admin.describe_topics(TopicCollection([topic]))[topic]
    return str(_result(f"describe {topic}", described).topic_id)


def produce_large(bootstrap: str, topic: str) -> None:
    """One record of LARGE_BYTES that no compression makes small, in partition 0."""
    failures: list[str] = []
    limit = {"message.max.bytes": 2 * LARGE_BYTES}
    producer = Producer(settings(bootstrap, acks="all", **limit))
    producer.produce(
        topic,
        value=bytes(LARGE_BYTES),
        partition=0,
        on_delivery=lambda error, _record: failures.append(str(error)) if error else None,
    )
    if producer.flush(FLUSH_S_MAX) or failures:
        raise LabError(f"large record to {topic}: {failures or 'not delivered'}")


def produce_texts(bootstrap: str, topic: str, texts: Sequence[str | bytes]) -> None:
    """Records with these values in partition 0, in this order."""
    producer = Producer(settings(bootstrap, acks="all"))
    for value in texts:
        producer.produce(topic, value=value, partition=0)
    if producer.flush(FLUSH_S_MAX):
        raise LabError(f"{topic}: not all delivered")


def deny_reading(bootstrap: str, topic: str) -> None:
    """
    Nobody may read the topic; everything else stays allowed, log ends and all.

    On its plaintext listener the lab has no principals, so whoever watches may not read it either.
    """
    admin = _admin(bootstrap)
    bindings = [
        _binding(topic, AclOperation.ALL, AclPermissionType.ALLOW),
        _binding(topic, AclOperation.READ, AclPermissionType.DENY),
    ]
    for acl in admin.create_acls(bindings).values():
        _result(f"ACLs of {topic}", acl)
    # The broker answers when its controller knows; it denies once its own metadata has followed.
    until("reading denied", lambda: _check_denied(bootstrap, topic), timeout_s=SETTLE_S_MAX)


def allow_reading(bootstrap: str, topic: str) -> None:
    """Take back what deny_reading() did."""
    expected = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        *_ANY_CLIENT,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = _admin(bootstrap)
    for delete_acl in admin.delete_acls([expected]).values():
        _result(f"ACLs of {topic}", delete_acl)


def write_tombstones(bootstrap: str, topic: str, keys: list[Record]) -> None:
    """A tombstone for each of these records, with its very key and in its partition."""
    producer = Producer(settings(bootstrap, acks="all"))
    for record in keys:
        producer.produce(topic, key=record.key, value=None, partition=record.partition)
    if producer.flush(FLUSH_S_MAX):
        raise LabError(f"{topic}: not all delivered")


def records(bootstrap: str, topic: str) -> list[Record]:
    """All that a topic holds now."""
    topics = Topics(bootstrap, [topic])
    try:
        topics.start()
        topics.catch_up()
    finally:
        topics.stop()
    return topics.records[topic]


def offsets_of(bootstrap: str, topic: str, connector: str) -> Iterator[Record]:
    """The newest record of each of a connector's keys in an offsets topic, tombstones included."""
    newest: dict[bytes, Record] = {}
    for record in records(bootstrap, topic):
        if record.key is not None and json.loads(record.key)[0] == connector:
            newest[record.key] = record
    yield from newest.values()


def times_failed(bootstrap: str, topic: str, connector: str, task: int = 0) -> int:
    """
    How often a status topic has said FAILED of a task.

    REST only tells the present: a task that is started again and fails again within a poll shows
    nothing else. Each failure is one record here; nothing is compacted in the life of a lab.
    """
    key = f"status-task-{connector}-{task}".encode()
    states = Counter(
        json.loads(record.value)["state"]
        for record in records(bootstrap, topic)
        if record.key == key and record.value is not None
    )
    return states["FAILED"]


def group_offset(bootstrap: str, group: str, topic: str, partition: int = 0) -> int | None:
    """The committed offset (the next record), or None."""
    consumer = Consumer(settings(bootstrap, **{"group.id": group}))
    try:
        (result,) = consumer.committed([TopicPartition(topic, partition)], timeout=CALL_S_MAX)
    except KafkaException as exc:
        raise LabError(f"offset of {group}: {exc}") from exc
    finally:
        consumer.close()
    return None if result.offset < 0 else result.offset


def _check_denied(bootstrap: str, topic: str) -> None:
    consumer = Consumer(settings(bootstrap, **{"group.id": "offsetwatch-stories"}))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                raise NotYet("it can still be read")
            if message is not None:
                return
    finally:
        consumer.close()
    raise NotYet("neither a record nor an error came")


def _admin(bootstrap: str) -> AdminClient:
    """Must be kept until its futures are done: they fail when it is collected."""
    return AdminClient(settings(bootstrap))


def _binding(topic: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    principal, host = _ANY_CLIENT
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        principal,
        host,
        operation,
        permission,
    )


def _result(what: str, future: Future[R]) -> R:
    try:
        return future.result(CALL_S_MAX)
    except (KafkaException, TimeoutError) as exc:
        raise LabError(f"{what}: {exc}") from exc
