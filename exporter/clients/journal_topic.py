"""The topic that several replicas keep one journal in: what it must be, how it is made, and the one
producer that may write to it.

Whoever is given the topic's transactional.id last is the one: the broker takes nothing more from
the producers that had it before, and ends what they had begun. Called by remedy's replica.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import confluent_kafka as ck

from exporter.clients.kafka import TailReader, made, silent
from exporter.clients.kafka_errors import translate
from exporter.clients.records_write import RecordWriter, TopicSettings
from exporter.errors import ClientError, Fenced, TimedOut
from exporter.model.topology import TopicPartition

INIT_S: Final = 30.0  # what another one had begun is ended first
WRITE_S: Final = 10.0  # one transaction, from its first record to its end
# The broker's own default is a minute: so long nobody could read on behind a leader that was cut
# off in the midst of one, unless another one comes.
TRANSACTION_S: Final = 15.0
RECORD_BYTES_MAX: Final = 16 * 1024 * 1024  # all offsets of a large connector are one record
_FENCED: Final = {
    ck.KafkaError._FENCED,  # noqa: SLF001 - librdkafka's local codes are spelt like this
    ck.KafkaError.PRODUCER_FENCED,
    ck.KafkaError.INVALID_PRODUCER_EPOCH,
}
_UNSURE: Final = {
    ck.KafkaError._TIMED_OUT,  # noqa: SLF001
    ck.KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    ck.KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
}


class Wanted(NamedTuple):
    """What the topic must be, at the least."""

    topic: str
    replication_factor: int
    min_insync_replicas: int


def topic_of(name: str, properties: Mapping[str, Any], topic: str) -> TopicSettings | None:
    """How it is made; None if there is none of this name that we may see. Raises ClientError."""
    return RecordWriter(name, properties).settings(topic)


def weaknesses(found: TopicSettings, wanted: Wanted) -> Iterator[str]:
    """Why the topic is not fit to be a journal."""
    if found.partitions != 1:
        yield f"it has {found.partitions} partitions, and a journal is one line: 1 is needed"
    if found.compacted:
        yield "cleanup.policy is not delete: what is compacted away is missing in the chain"
    if found.retention_ms != -1:
        yield f"retention.ms is {found.retention_ms}: the chain begins with its first record, so -1"
    if found.retention_bytes != -1:
        yield f"retention.bytes is {found.retention_bytes}: likewise, -1 is needed"
    if found.message_bytes_max < RECORD_BYTES_MAX:
        yield (
            f"max.message.bytes is {found.message_bytes_max}, and {RECORD_BYTES_MAX} is needed: "
            "all offsets of a connector are one record"
        )
    if found.replication < wanted.replication_factor:
        yield f"it has {found.replication} replica(s), and {wanted.replication_factor} are wanted"
    if found.in_sync_min < wanted.min_insync_replicas:
        yield (
            f"min.insync.replicas is {found.in_sync_min}, and {wanted.min_insync_replicas} are "
            "wanted: a record must not be lost with one broker"
        )


def create(name: str, properties: Mapping[str, Any], wanted: Wanted) -> None:
    """Make the topic; that it was there already is no error. Raises ClientError."""
    RecordWriter(name, properties).create(
        wanted.topic,
        partitions=1,
        replication=wanted.replication_factor,
        config={
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": str(wanted.min_insync_replicas),
            "max.message.bytes": str(RECORD_BYTES_MAX),
            "unclean.leader.election.enable": "false",
        },
    )


class JournalWriter:
    """The one producer, for as long as it is the last one that was made."""

    def __init__(
        self, name: str, properties: Mapping[str, Any], topic: str, *, write_s: float = WRITE_S
    ) -> None:
        self._target = f"{name}/{topic}"
        self._topic = topic
        self._write_s = write_s
        self._told: deque[ck.KafkaError] = deque(maxlen=10)
        settings: dict[str, Any] = {
            **properties,
            "client.id": properties.get("client.id", "offsetwatch"),
            "transactional.id": f"{topic}-0",
            "transaction.timeout.ms": round(TRANSACTION_S * 1000),
            "delivery.timeout.ms": round(write_s * 1000),
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "message.max.bytes": RECORD_BYTES_MAX,
            "error_cb": self._told.append,
            "logger": silent,
            # A reader may be older than a compression.
            "compression.type": "none",
        }
        self._producer: ck.Producer = made(name, ck.Producer, settings)

    def begin(self) -> None:
        """Be the one. What others had begun is over when this returns. Raises ClientError."""
        try:
            self._producer.init_transactions(INIT_S)
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc

    def write(self, values: Sequence[bytes]) -> None:
        """All of them, or none. Raises Fenced if another one was made since; any other ClientError
        leaves open whether they are there. After an error nothing more may be written.
        """
        deadline = time.monotonic() + self._write_s

        def told(error: ck.KafkaError | None, _message: ck.Message) -> None:
            if error is not None:
                self._told.append(error)

        try:
            self._producer.begin_transaction()
            for value in values:
                self._producer.produce(self._topic, value=value, partition=0, on_delivery=told)
            self._producer.commit_transaction(max(0.1, deadline - time.monotonic()))
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc
        except BufferError as exc:
            raise TimedOut(self._target, "librdkafka has no room for it") from exc

    def _why(self, error: ck.KafkaError) -> ClientError:
        for at in (error, *self._told):  # what came first may be told beside what came of it
            if at.code() in _FENCED:
                return Fenced(self._target, at.str())
        if error.code() in _UNSURE:
            return TimedOut(self._target, error.str())
        return translate(self._target, error)


class Election:
    """Which replica is to lead: the one that a consumer group gives the journal's partition to.

    It only chooses. Two may take themselves for chosen for as long as a session lasts; that one of
    them writes is for the broker to say (JournalWriter).
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
            "logger": silent,
        }
        self._consumer: ck.Consumer = made(name, ck.Consumer, settings)
        self._consumer.subscribe(
            [topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken
        )

    def chosen(self, wait_s: float) -> bool:
        """Whether this one is, as far as it knows. Raises ClientError where it may not stand."""
        message = self._consumer.poll(wait_s)
        error = None if message is None else message.error()
        if error is not None and not error.retriable():
            found = translate(self._name, error)
            if not isinstance(found, TimedOut):
                raise found
        return self._chosen

    def leave(self) -> None:
        """Let another one be chosen at once."""
        self._chosen = False
        self._consumer.close()

    def _given(self, _consumer: ck.Consumer, given: Sequence[ck.TopicPartition]) -> None:
        self._chosen = self._chosen or bool(given)

    def _taken(self, _consumer: ck.Consumer, taken: Sequence[ck.TopicPartition]) -> None:
        if taken:
            self._chosen = False


class JournalReader(TailReader):
    """Reads the topic: what was committed, in order."""

    def __init__(self, name: str, properties: Mapping[str, Any], topic: str, start: int) -> None:
        super().__init__(name, properties)
        self.at = TopicPartition(topic, 0)
        self.assign({self.at: start})

    @property
    def position(self) -> int | None:
        """The offset behind what was read, as far as that is known."""
        return self.positions([self.at]).get(0)
