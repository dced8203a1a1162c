"""Writing single records, and creating the topic they are kept in.

A record is written by an idempotent producer with all acknowledgements, into a partition that the
caller names, of a topic that is there: a producer would have one made by asking for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin

from offsetwatch.clients.kafka.clients import REQUEST_TIMEOUT_S, made, silent
from offsetwatch.clients.kafka.errors import translate
from offsetwatch.clients.kafka.inspector import KafkaFacts
from offsetwatch.errors import (
    Ambiguous,
    ClientError,
    Denied,
    Malformed,
    NotFound,
    Refused,
    TimedOut,
    TooLarge,
)
from offsetwatch.model.records import Headers, size_bytes

DELIVERY_TIMEOUT_S: Final = 30.0
REQUEST_BYTES_MAX: Final = 90 * 1024 * 1024  # brokers hang up at 100 MiB (socket.request.max.bytes)
SHOWN_S: Final = 20.0  # until every broker should know a topic that was made
_SHOWN_POLL_S: Final = 0.2
_LARGEST: Final = 1_000_000_000  # librdkafka's own bound; the broker's is what counts
_TOO_LARGE: Final = {ck.KafkaError.MSG_SIZE_TOO_LARGE, ck.KafkaError.RECORD_LIST_TOO_LARGE}
_REFUSALS: Final = {
    ck.KafkaError.POLICY_VIOLATION,
    ck.KafkaError.INVALID_CONFIG,
    ck.KafkaError.INVALID_PARTITIONS,
    ck.KafkaError.INVALID_REPLICATION_FACTOR,
    ck.KafkaError.INVALID_REQUEST,
    ck.KafkaError.TOPIC_EXCEPTION,
}
# What a broker says of a record that it will never take, however it is.
_UNTAKEN: Final = {ck.KafkaError.INVALID_TIMESTAMP, ck.KafkaError.INVALID_RECORD}
_CERTAIN: Final = (Denied, NotFound)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be written; without a timestamp it is given that of now."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """See model.records."""
        return size_bytes(self.key, self.value, self.headers)


class RecordWriter(KafkaFacts):
    """Writes single records to one Kafka cluster, and creates topics in it."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, Any],
        *,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        super().__init__(name, properties)
        self._delivery_timeout_s = delivery_timeout_s
        self._producer_settings = {
            **properties,
            "client.id": properties.get("client.id", "offsetwatch"),
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": round(delivery_timeout_s * 1000),
            "linger.ms": 0,
            "message.max.bytes": _LARGEST,
            "logger": silent,
            # A reader may be older than a compression, and sizes are what they seem.
            "compression.type": "none",
        }

    def brokers(self) -> int:
        """How many there are."""
        return self.cluster().brokers

    def create(
        self, topic: str, *, partitions: int, replication: int, config: Mapping[str, str]
    ) -> None:
        """Make a topic, and wait until it is seen. That it was there already is no error. Raises
        Refused if the broker will not have it, TimedOut if it is not seen.
        """
        wanted = ck_admin.NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication,
            config=dict(config),
        )
        try:
            with self._translated():
                futures = self._client.create_topics(
                    [wanted], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
                )
            self._result(futures[topic])
        except ClientError as exc:
            code = _code(exc)
            if code in _REFUSALS:
                raise Refused(self.name, f"{topic}: {exc.detail}") from exc
            if code != ck.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline = time.monotonic() + SHOWN_S
        while time.monotonic() < deadline:
            with suppress(NotFound):  # by a broker that does not know it yet
                if self.settings(topic) is not None:
                    return
            time.sleep(_SHOWN_POLL_S)
        raise TimedOut(self.name, f"{topic} was made, and is not seen")

    def write(self, record: Outgoing) -> int:
        """Write one record and wait for it; the offset it was given.

        Raises TooLarge, Malformed and Refused where it was not written and never will be; after an
        Ambiguous error it may be there, or come yet.
        """
        target = f"{self.name}/{record.topic}-{record.partition}"
        if record.size_bytes > REQUEST_BYTES_MAX:
            raise TooLarge(target, f"{record.size_bytes} bytes do not go into one request")
        _sendable(record, target)
        producer = made(self.name, ck.Producer, self._producer_settings)
        told: list[ck.KafkaError | int] = []

        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            told.append(error if error is not None else message.offset() or 0)

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
            raise _failed(target, exc.args[0]) from exc
        producer.flush(self._delivery_timeout_s + 2)
        if not told:
            raise TimedOut(target, "a record was sent, and there was no answer")
        if isinstance(told[0], ck.KafkaError):
            raise _failed(target, told[0])
        return told[0]


def _sendable(record: Outgoing, target: str) -> None:
    """What would be sent otherwise than it is; a name that is no text would even end the process,
    inside librdkafka's binding.
    """
    if record.timestamp_ms == 0:
        raise Malformed(target, "a timestamp of 0 would become that of now")
    for name, _ in record.headers:
        try:
            name.encode()
        except UnicodeEncodeError as exc:
            raise Malformed(target, "the name of a header is no text that can be sent") from exc
        if "\0" in name:
            raise Malformed(target, "the name of a header has a NUL in it, and would be cut there")


def _failed(target: str, error: ck.KafkaError) -> ClientError:
    if error.code() in _TOO_LARGE:
        return TooLarge(target, error.str())
    if error.code() in _UNTAKEN:
        return Refused(target, error.str())
    found = translate(target, error)
    if isinstance(found, (Ambiguous, *_CERTAIN)):
        return found
    # To lose a connection or a leader does not undo what was sent before.
    return TimedOut(target, f"not acknowledged: {found.detail}")


def _code(error: ClientError) -> int | None:
    cause = error.__cause__
    return cause.args[0].code() if isinstance(cause, ck.KafkaException) else None
