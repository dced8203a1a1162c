"""Reader of the first readable record at or after an offset, for many partitions at once.

Only a read distinguishes a record from a transaction marker or an offset that compaction emptied,
and gives a record's timestamp. Nothing here joins a group, commits, or keeps a record's contents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka as ck

from offsetwatch.clients.kafka.clients import (
    build_positions,
    build_reader_settings,
    create_client,
    timestamp_of,
)
from offsetwatch.clients.kafka.errors import (
    ConnectionErrors,
    client_error_from,
    translate_kafka_errors,
)
from offsetwatch.errors import ClientError, TargetUnreachable
from offsetwatch.model.observations import FirstRecord, NoRecordBefore
from offsetwatch.model.topology import TopicPartition

# A record is wanted, and a broker gives whole batches: the first one however large, of the others
# those that fit. librdkafka asks for twice as much where not one did.
PARTITION_BYTES: Final = 16 * 1024
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024  # of one broker, unless a single batch is larger
POLL_S: Final = 0.1
_LOG_APPEND_TIME: Final = ck.TIMESTAMP_LOG_APPEND_TIME

ProbeAnswer = FirstRecord | NoRecordBefore | ClientError


class ProbeReader:
    """Reader of single records of one Kafka cluster, committed ones only or all.

    Not thread-safe.
    """

    def __init__(self, name: str, properties: Mapping[str, Any], *, committed: bool) -> None:
        self.name = name
        self._errors = ConnectionErrors()
        settings = {
            **build_reader_settings(properties, self._errors, committed=committed),
            "fetch.message.max.bytes": PARTITION_BYTES,
            "fetch.max.bytes": ANSWER_BYTES_MAX,
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 1,  # nothing is read ahead
        }
        self._consumer = create_client(name, ck.Consumer, settings)

    def first(
        self,
        starts: Mapping[TopicPartition, int],
        timeout_s: float,
        stopped: Callable[[], bool] = lambda: False,
    ) -> dict[TopicPartition, ProbeAnswer]:
        """Return the first record at or after each offset.

        Partitions without an answer within `timeout_s` are left out. Raises the error of the
        cluster if no partition answered.
        """
        answers: dict[TopicPartition, ProbeAnswer] = {}
        self._errors.clear()
        deadline = time.monotonic() + timeout_s
        with translate_kafka_errors(self.name):
            self._consumer.assign(build_positions(starts))
            try:
                while len(answers) < len(starts) and not stopped():
                    remaining_s = deadline - time.monotonic()
                    if remaining_s <= 0:
                        break
                    message = self._consumer.poll(min(POLL_S, remaining_s))
                    if message is not None:
                        self._take(message, starts, answers)
            finally:
                self._consumer.unassign()
        if not answers and self._errors:
            raise self._errors.pop(self.name) or TargetUnreachable(self.name, "no broker answers")
        return answers

    def close(self) -> None:
        """Close the consumer; nothing is committed."""
        self._consumer.close()

    def _take(
        self,
        message: ck.Message,
        starts: Mapping[TopicPartition, int],
        answers: dict[TopicPartition, ProbeAnswer],
    ) -> None:
        partition = TopicPartition(message.topic() or "", message.partition() or 0)
        if partition not in starts:
            error = message.error()
            if error is not None:  # of no partition: of the cluster
                self._errors.add(error)
            return
        if partition in answers:
            return
        answers[partition] = self._answer(message, starts[partition])
        # What was fetched with it is thrown away inside librdkafka.
        self._consumer.incremental_unassign(build_positions({partition: starts[partition]}))

    def _answer(self, message: ck.Message, start: int) -> ProbeAnswer:
        error, offset = message.error(), message.offset()
        if error is None:
            return FirstRecord(
                offset=start if offset is None else offset,
                at=timestamp_of(message),
                appended=message.timestamp()[0] == _LOG_APPEND_TIME,
            )
        if error.code() == ck.KafkaError._PARTITION_EOF and offset is not None:  # noqa: SLF001
            return NoRecordBefore(max(start, offset))
        return client_error_from(f"{self.name}/{message.topic()}", error)
