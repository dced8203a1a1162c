"""Writers to Kafka: single records, topics created and deleted, and the journal's topic.

An idempotent producer writes a record with acks=all, to the partition that the caller names. The
topic must exist: a producer's request could make the broker create it. The journal's topic has one
transactional producer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin

from offsetwatch.clients.kafka.clients import REQUEST_TIMEOUT_S, create_client, silent_logger
from offsetwatch.clients.kafka.errors import client_error_from, kafka_code_of
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.kafka.journal_topic import RECORD_BYTES_MAX, JournalTopicRequirements
from offsetwatch.errors import (
    AccessDenied,
    AmbiguousOutcome,
    ClientError,
    MalformedResponse,
    NotFound,
    ProducerFenced,
    RemoteRefusal,
    ResponseTimeout,
    SizeLimitExceeded,
)
from offsetwatch.model.records import Headers, compute_size_bytes

DELIVERY_TIMEOUT_S: Final = 30.0
REQUEST_BYTES_MAX: Final = 90 * 1024 * 1024  # brokers hang up at 100 MiB (socket.request.max.bytes)
TOPIC_VISIBLE_S: Final = 20.0  # until every broker should know a topic that was made
_TOPIC_VISIBLE_POLL_S: Final = 0.2
_MESSAGE_BYTES_MAX: Final = 1_000_000_000  # librdkafka's own bound; the broker's is what counts
_TOO_LARGE_CODES: Final = {ck.KafkaError.MSG_SIZE_TOO_LARGE, ck.KafkaError.RECORD_LIST_TOO_LARGE}
_CREATION_REFUSAL_CODES: Final = {
    ck.KafkaError.POLICY_VIOLATION,
    ck.KafkaError.INVALID_CONFIG,
    ck.KafkaError.INVALID_PARTITIONS,
    ck.KafkaError.INVALID_REPLICATION_FACTOR,
    ck.KafkaError.INVALID_REQUEST,
    ck.KafkaError.TOPIC_EXCEPTION,
}
# What a broker says of a record that it will never take, however it is.
_REJECTED_RECORD_CODES: Final = {ck.KafkaError.INVALID_TIMESTAMP, ck.KafkaError.INVALID_RECORD}
_NOT_WRITTEN_ERRORS: Final = (AccessDenied, NotFound)


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """Record to write; without a timestamp it gets the current time."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """Return the size as `compute_size_bytes` of model/records does."""
        return compute_size_bytes(self.key, self.value, self.headers)


def create_producer(
    name: str,
    properties: Mapping[str, Any],
    delivery_timeout_s: float,
    settings: Mapping[str, Any],
) -> ck.Producer:
    """Create an idempotent producer that waits for all acknowledgements. Raises ClientError."""
    return create_client(
        name,
        ck.Producer,
        {
            **properties,
            "client.id": properties.get("client.id", "offsetwatch"),
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": round(delivery_timeout_s * 1000),
            "logger": silent_logger,
            # A reader may be older than a compression, and sizes are what they seem.
            "compression.type": "none",
            **settings,
        },
    )


class RecordWriter(KafkaInspector):
    """Writer of single records to one Kafka cluster, and creator of topics in it."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, Any],
        *,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        super().__init__(name, properties)
        self._delivery_timeout_s = delivery_timeout_s
        self._properties = properties

    def brokers(self) -> int:
        """Return the number of brokers."""
        return self.cluster().brokers

    def create(
        self, topic: str, *, partitions: int, replication: int, config: Mapping[str, str]
    ) -> None:
        """Create a topic and wait until it is visible; it is no error if it exists.

        Raises RemoteRefusal if the broker refuses, ResponseTimeout if the topic does not become
        visible.
        """
        kafka_topic = ck_admin.NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication,
            config=dict(config),
        )
        try:
            with self._translated():
                futures = self._client.create_topics(
                    [kafka_topic],
                    operation_timeout=REQUEST_TIMEOUT_S,
                    request_timeout=REQUEST_TIMEOUT_S,
                )
            self._result(futures[topic])
        except ClientError as exc:
            code = kafka_code_of(exc)
            if code in _CREATION_REFUSAL_CODES:
                raise RemoteRefusal(self.name, f"{topic}: {exc.detail}") from exc
            if code != ck.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline = time.monotonic() + TOPIC_VISIBLE_S
        while time.monotonic() < deadline:
            with suppress(NotFound):  # by a broker that does not know it yet
                if self.settings(topic) is not None:
                    return
            time.sleep(_TOPIC_VISIBLE_POLL_S)
        raise ResponseTimeout(self.name, f"{topic} was made, and is not seen")

    def write(self, record: OutgoingRecord) -> int:
        """Write one record, wait for it and return its offset.

        Raises SizeLimitExceeded, MalformedResponse and RemoteRefusal if it was not and never will
        be written. After an AmbiguousOutcome error it may be written now or later.
        """
        target = f"{self.name}/{record.topic}-{record.partition}"
        if record.size_bytes > REQUEST_BYTES_MAX:
            raise SizeLimitExceeded(target, f"{record.size_bytes} bytes do not go into one request")
        _check_sendable(record, target)
        settings = {"linger.ms": 0, "message.max.bytes": _MESSAGE_BYTES_MAX}
        producer = create_producer(self.name, self._properties, self._delivery_timeout_s, settings)
        results: list[ck.KafkaError | int] = []

        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            results.append(error if error is not None else message.offset() or 0)

        try:
            producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                partition=record.partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms or 0,  # which it takes for now
                on_delivery=delivered,
            )
        except ck.KafkaException as exc:
            raise _build_delivery_error(target, exc.args[0]) from exc
        producer.flush(self._delivery_timeout_s + 2)
        if not results:
            raise ResponseTimeout(target, "a record was sent, and there was no answer")
        if isinstance(results[0], ck.KafkaError):
            raise _build_delivery_error(target, results[0])
        return results[0]


def _check_sendable(record: OutgoingRecord, target: str) -> None:
    """Raise MalformedResponse for a record that would be changed when sent.

    A header name that is no text would even end the process, in librdkafka's binding.
    """
    if record.timestamp_ms == 0:
        raise MalformedResponse(target, "a timestamp of 0 would become that of now")
    for name, _ in record.headers:
        try:
            name.encode()
        except UnicodeEncodeError as exc:
            raise MalformedResponse(
                target, "the name of a header is no text that can be sent"
            ) from exc
        if "\0" in name:
            raise MalformedResponse(
                target, "the name of a header has a NUL in it, and would be cut there"
            )


def _build_delivery_error(target: str, error: ck.KafkaError) -> ClientError:
    if error.code() in _TOO_LARGE_CODES:
        return SizeLimitExceeded(target, error.str())
    if error.code() in _REJECTED_RECORD_CODES:
        return RemoteRefusal(target, error.str())
    translated = client_error_from(target, error)
    if isinstance(translated, (AmbiguousOutcome, *_NOT_WRITTEN_ERRORS)):
        return translated
    # To lose a connection or a leader does not undo what was sent before.
    return ResponseTimeout(target, f"not acknowledged: {translated.detail}")


# The broker says no and nothing happened; what else it may say is in doubt.
_DELETION_REFUSAL_CODES: Final = {
    ck.KafkaError.TOPIC_DELETION_DISABLED,
    ck.KafkaError.POLICY_VIOLATION,
    ck.KafkaError.INVALID_REQUEST,
}


class TopicDeleter(KafkaInspector):
    """Deleter of topics of one Kafka cluster, which also returns the id of the topic to delete."""

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic; None if it does not exist.

        "" if the broker knows no ids (before Kafka 2.8).
        """
        shape = self.shapes([topic])[topic]
        if isinstance(shape, NotFound):
            return None
        if isinstance(shape, ClientError):
            raise shape
        return shape.topic_id or ""

    def delete(self, topic: str) -> None:
        """Delete the topic of this name.

        Raises RemoteRefusal, such as NotFound, if nothing happened. After any other ClientError the
        topic may be deleted now or later.
        """
        try:
            with self._translated():
                futures = self._client.delete_topics(
                    [topic], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
                )
            self._result(futures[topic])
        except ClientError as exc:
            if kafka_code_of(exc) in _DELETION_REFUSAL_CODES:
                raise RemoteRefusal(self.name, exc.detail) from exc.__cause__
            raise


# --- the journal's topic --------------------------------------------------------------------------

INIT_S: Final = 30.0  # what another one had begun is ended first
WRITE_S: Final = 10.0  # one transaction, from its first record to its end
# The broker's own default is a minute: so long nobody could read on behind a leader that was cut
# off in the midst of one, unless another one comes.
TRANSACTION_S: Final = 15.0
_FENCED_CODES: Final = {
    ck.KafkaError._FENCED,  # noqa: SLF001 - librdkafka's local codes are spelt like this
    ck.KafkaError.PRODUCER_FENCED,
    ck.KafkaError.INVALID_PRODUCER_EPOCH,
}
_TIMED_OUT_CODES: Final = {
    ck.KafkaError._TIMED_OUT,  # noqa: SLF001
    ck.KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    ck.KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
}


def create_journal_topic(
    name: str, properties: Mapping[str, Any], requirements: JournalTopicRequirements
) -> None:
    """Create the topic; it is no error if it exists. Raises ClientError."""
    RecordWriter(name, properties).create(
        requirements.topic,
        partitions=1,
        replication=requirements.replication_factor,
        config={
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": str(requirements.min_insync_replicas),
            "max.message.bytes": str(RECORD_BYTES_MAX),
            "unclean.leader.election.enable": "false",
        },
    )


class JournalWriter:
    """Transactional producer of the journal, valid until another one is initialized.

    Only the producer that initialized the topic's transactional.id last can write. The broker
    rejects records of earlier producers with that id, and aborts their open transactions (KIP-98,
    producer epochs).
    """

    def __init__(
        self, name: str, properties: Mapping[str, Any], topic: str, *, write_s: float = WRITE_S
    ) -> None:
        self._target = f"{name}/{topic}"
        self._topic = topic
        self._write_s = write_s
        self._errors: deque[ck.KafkaError] = deque(maxlen=10)
        settings = {
            "transactional.id": f"{topic}-0",
            "transaction.timeout.ms": round(TRANSACTION_S * 1000),
            "linger.ms": 0,
            "message.max.bytes": RECORD_BYTES_MAX,
            "error_cb": self._errors.append,
        }
        self._producer = create_producer(name, properties, write_s, settings)

    def begin(self) -> None:
        """Fence other producers; their transactions have ended on return. Raises ClientError."""
        try:
            self._producer.init_transactions(INIT_S)
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc

    def write(self, values: Sequence[bytes]) -> None:
        """Write all values, or none.

        Raises ProducerFenced if another producer was initialized since. After any other ClientError
        the values may have been written. After an error nothing more may be written.
        """
        deadline = time.monotonic() + self._write_s

        def delivered(error: ck.KafkaError | None, _message: ck.Message) -> None:
            if error is not None:
                self._errors.append(error)

        try:
            self._producer.begin_transaction()
            for value in values:
                self._producer.produce(self._topic, value=value, partition=0, on_delivery=delivered)
            self._producer.commit_transaction(max(0.1, deadline - time.monotonic()))
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc
        except BufferError as exc:
            raise ResponseTimeout(self._target, "librdkafka has no room for it") from exc

    def _why(self, error: ck.KafkaError) -> ClientError:
        # What came first may be reported beside what came of it.
        for kafka_error in (error, *self._errors):
            if kafka_error.code() in _FENCED_CODES:
                return ProducerFenced(self._target, kafka_error.str())
        if error.code() in _TIMED_OUT_CODES:
            return ResponseTimeout(self._target, error.str())
        return client_error_from(self._target, error)
