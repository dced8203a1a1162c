"""What a lab does to its brokers as a Kafka client: topics, records, group offsets."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lab.errors import LabError
from lab.waiting import NotYet

R = TypeVar("R")

CALL_S_MAX = 10.0
FLUSH_S_MAX = 30.0
_COORDINATOR_SETTLES = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,  # noqa: SLF001 - spelt like this
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,  # noqa: SLF001
)
# librdkafka prints every refused connection; a lab makes and kills brokers all the time.
_QUIET: Mapping[str, str | int] = {"log_level": 0}


def settings(bootstrap: str, **more: str | int) -> dict[str, str | int | float | bool]:
    """Client properties for one cluster of a lab."""
    return {"bootstrap.servers": bootstrap, **_QUIET, **more}


class Cluster:
    """One broker, seen from outside."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._admin = AdminClient(settings(bootstrap))

    def check_ready(self) -> None:
        """NotYet until the broker answers and names itself: from then on it serves."""
        try:
            # The client's own back-off between connection attempts is the slow part of a short
            # wait, so each look is a new client with its first attempt still free.
            observed = AdminClient(settings(self.bootstrap)).list_topics(timeout=1.0)
        except KafkaException as exc:
            raise NotYet(str(exc)) from exc
        if not observed.brokers:
            raise NotYet("no broker registered")

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 when it does not exist."""
        observed = self._admin.list_topics(topic, timeout=CALL_S_MAX).topics.get(topic)
        return 0 if observed is None or observed.error is not None else len(observed.partitions)

    def check_topic(self, topic: str) -> None:
        """NotYet until the topic exists and the broker serves it."""
        try:
            result = self.partitions(topic)
        except KafkaException as exc:
            raise NotYet(str(exc)) from exc
        if result == 0:
            raise NotYet(f"no topic {topic} on {self.name}")

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Ask for a topic; it may take a moment until it is served (check_topic)."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config))
        _result(f"create topic {topic} on {self.name}", self._admin.create_topics([new])[topic])

    def topics(self) -> set[str]:
        """The names of all topics, internal ones too."""
        return set(self._admin.list_topics(timeout=CALL_S_MAX).topics)

    def groups(self) -> set[str]:
        """The names of all groups."""
        try:
            listed = self._admin.list_consumer_groups(request_timeout=CALL_S_MAX).result()
        except KafkaException as exc:
            raise LabError(f"list groups on {self.name}: {exc}") from exc
        return {group.group_id for group in listed.valid}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """
        Write a group's offsets as a consumer that never joined it, which makes the group if there
        is none.

        Not as an administrator: librdkafka may abort the process of one whose request for a group
        had no answer in time. NotYet while the group has no coordinator, as before the first
        request for one, or while that does not answer; to write the same again is safe.
        """
        rows = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        more: dict[str, str | int] = {"group.id": group, "enable.auto.commit": "false"}
        writer = Consumer(settings(self.bootstrap, **more))
        try:
            answer = writer.commit(offsets=rows, asynchronous=False)
            errors = [row.error for row in answer if row.error is not None]
        except KafkaException as exc:
            errors = [exc.args[0]]
        finally:
            writer.close()
        for error in errors:
            if error.code() in _COORDINATOR_SETTLES:
                raise NotYet(str(error))
            raise LabError(f"commit {group} on {self.name}: {error}")

    def produce(self, topic: str, n: int, partitions: Sequence[int] | None) -> None:
        """Write n records in turn to the partitions, all by default, and await every ack."""
        count = self.partitions(topic)
        if count == 0:
            raise LabError(f"no topic {topic} on {self.name}; create_topic first")
        chosen = range(count) if partitions is None else partitions
        failures: list[str] = []
        producer = Producer(settings(self.bootstrap, acks="all", **{"linger.ms": 5}))
        for index in range(n):
            producer.produce(
                topic,
                key=f"key-{index}",
                value=f"value-{index}",
                partition=chosen[index % len(chosen)],
                on_delivery=lambda error, _record: failures.append(str(error)) if error else None,
            )
            producer.poll(0)
        remaining = producer.flush(FLUSH_S_MAX)
        if remaining or failures:
            raise LabError(
                f"{topic} on {self.name}: {remaining} undelivered, failed: {failures[:3]}"
            )


def request_log_bounds(
    consumer: Consumer, topic: str, partition: int, timeout_s: float = CALL_S_MAX
) -> tuple[int, int]:
    """
    Ask a broker for (log start, log end) of a partition as this consumer sees it: committed records
    end at the last stable offset.

    NotYet where it named none: a broker that goes or comes does so without an error, and a log that
    was not told of is no empty one.
    """
    topic_partition = TopicPartition(topic, partition)
    results = consumer.get_watermark_offsets(topic_partition, timeout=timeout_s, cached=False)
    if results is None or min(results) < 0:
        raise NotYet(f"no log bounds of {topic}-{partition}: {results}")
    low, high = results
    return low, high


def _result(what: str, future: Future[R]) -> R:
    try:
        return future.result(CALL_S_MAX)
    except (KafkaException, TimeoutError) as exc:
        raise LabError(f"{what}: {exc}") from exc
