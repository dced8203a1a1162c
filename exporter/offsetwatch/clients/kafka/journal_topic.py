"""Journal topic that several replicas share: requirements, reader and leader election.

clients/write/kafka.py writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import confluent_kafka as ck

from offsetwatch.clients.kafka.clients import TailReader, create_client, silent_logger
from offsetwatch.clients.kafka.errors import client_error_from, translate_kafka_errors
from offsetwatch.clients.kafka.inspector import KafkaInspector, TopicSettings
from offsetwatch.errors import ResponseTimeout
from offsetwatch.formatting import format_count
from offsetwatch.model.topology import TopicPartition

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024  # all offsets of a large connector are one record


class JournalTopicRequirements(NamedTuple):
    """Minimum requirements of the journal topic."""

    topic: str
    replication_factor: int
    min_insync_replicas: int


def read_journal_topic(
    name: str, properties: Mapping[str, Any], topic: str
) -> TopicSettings | None:
    """Return the settings of the topic; None if no topic of this name is visible.

    Raises ClientError.
    """
    return KafkaInspector(name, properties).settings(topic)


def find_unmet_requirements(
    topic: TopicSettings, requirements: JournalTopicRequirements
) -> Iterator[str]:
    """Yield the reasons why the topic cannot hold a journal."""
    if topic.partitions != 1:
        yield (
            f"it has {format_count(topic.partitions, 'partition')}, and a journal is one line: "
            "1 is needed"
        )
    if topic.compacted:
        yield "cleanup.policy is not delete: what is compacted away is missing in the chain"
    if topic.retention_ms != -1:
        yield f"retention.ms is {topic.retention_ms}: the chain begins with its first record, so -1"
    if topic.retention_bytes != -1:
        yield f"retention.bytes is {topic.retention_bytes}: likewise, -1 is needed"
    if topic.message_bytes_max < RECORD_BYTES_MAX:
        yield (
            f"max.message.bytes is {topic.message_bytes_max}, and {RECORD_BYTES_MAX} is needed: "
            "all offsets of a connector are one record"
        )
    if topic.replication < requirements.replication_factor:
        yield (
            f"it has {format_count(topic.replication, 'replica')}, and "
            f"{requirements.replication_factor} are wanted"
        )
    if topic.in_sync_min < requirements.min_insync_replicas:
        yield (
            f"min.insync.replicas is {topic.in_sync_min}, and {requirements.min_insync_replicas} "
            "are wanted: a record must not be lost with one broker"
        )


class LeaderElection:
    """Election of the leader: the replica that a consumer group assigns the journal's partition.

    It only elects. Two replicas may believe that they lead for as long as a session lasts; the
    broker ensures that one of them writes (JournalWriter).
    """

    def __init__(
        self, name: str, properties: Mapping[str, Any], topic: str, *, session_s: float
    ) -> None:
        self._name = name
        self._chosen = False
        settings: dict[str, Any] = {
            **properties,
            "client.id": properties.get("client.id", "offsetwatch"),
            "group.id": f"{topic}-leader",
            "session.timeout.ms": round(session_s * 1000),
            "heartbeat.interval.ms": max(100, round(session_s * 1000 / 5)),
            # Who has the partition keeps it when others come and go.
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "allow.auto.create.topics": False,
            "logger": silent_logger,
        }
        self._consumer: ck.Consumer = create_client(name, ck.Consumer, settings)
        with translate_kafka_errors(name):
            self._consumer.subscribe(
                [topic], on_assign=self._assign, on_revoke=self._taken, on_lost=self._taken
            )

    def chosen(self, wait_s: float) -> bool:
        """Return whether this replica is elected, as far as it knows.

        Raises ClientError if it may not take part.
        """
        with translate_kafka_errors(self._name):
            message = self._consumer.poll(wait_s)
        error = None if message is None else message.error()
        if error is not None and not error.retriable():
            translated = client_error_from(self._name, error)
            if not isinstance(translated, ResponseTimeout):
                raise translated
        return self._chosen

    def leave(self) -> None:
        """Leave the group, so that another replica is elected at once."""
        self._chosen = False
        self._consumer.close()

    def _assign(self, _consumer: ck.Consumer, sequence: Sequence[ck.TopicPartition]) -> None:
        self._chosen = self._chosen or bool(sequence)

    def _taken(self, _consumer: ck.Consumer, taken: Sequence[ck.TopicPartition]) -> None:
        if taken:
            self._chosen = False


class JournalReader(TailReader):
    """Reader of the journal topic: committed records, in order."""

    def __init__(self, name: str, properties: Mapping[str, Any], topic: str, start: int) -> None:
        super().__init__(name, properties)
        self.at = TopicPartition(topic, 0)
        self.assign({self.at: start})

    @property
    def position(self) -> int | None:
        """Return the offset after what was read; None if it is not known."""
        return self.positions([self.at]).get(0)
