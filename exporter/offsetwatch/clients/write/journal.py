"""Writer of the journal topic: its creation, and the one transactional producer.

Only the producer that initialized the topic's transactional.id last can write. The broker rejects
records of earlier producers with that id, and aborts their open transactions (KIP-98, producer
epochs).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck

from offsetwatch.clients.kafka.clients import create_client, silent_logger
from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.journal_topic import RECORD_BYTES_MAX, JournalTopicRequirements
from offsetwatch.clients.write.records import RecordWriter
from offsetwatch.errors import ClientError, ProducerFenced, ResponseTimeout

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
    """Transactional producer of the journal, valid until another one is initialized."""

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
            "logger": silent_logger,
            # A reader may be older than a compression.
            "compression.type": "none",
        }
        self._producer: ck.Producer = create_client(name, ck.Producer, settings)

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
            raise ResponseTimeout(self._target, "librdkafka has no room for it") from exc

    def _why(self, error: ck.KafkaError) -> ClientError:
        for kafka_error in (
            error,
            *self._told,
        ):  # what came first may be told beside what came of it
            if kafka_error.code() in _FENCED_CODES:
                return ProducerFenced(self._target, kafka_error.str())
        if error.code() in _TIMED_OUT_CODES:
            return ResponseTimeout(self._target, error.str())
        return client_error_from(self._target, error)
