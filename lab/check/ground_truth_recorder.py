"""
What was really true, and when: everything a chaos run holds the daemon's answers against.

Three kinds of witness, each with clients and a thread of its own, none sharing code with the
exporter: one reads topics record by record and forgets nothing, one asks brokers for their log ends
again and again, one asks Connect for offsets. All live through the death of whom they ask.
"""

import itertools
import struct
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from lab.cluster.kafka_client import CALL_S_MAX, request_log_bounds, settings
from lab.errors import LabError
from lab.http import NO_AUTHORITIES
from lab.json_text import text
from lab.waiting import NotYet, until

READ_RECORDS_MAX = 5000
READ_S_MAX = 0.2
ENDS_EVERY_S = 0.25
ENDS_S_MAX = 2.0
REST_EVERY_S = 0.25
REST_S_MAX = 5.0
JOIN_S_MAX = 20.0
CATCH_UP_S_MAX = 60.0

# Key and value of a committed group offset in __consumer_offsets, versions 0 and 1 of the key.
_OFFSET_COMMIT_KEYS = (0, 1)


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record, and the moment by which it was visible to a reader, Unix seconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    at: float
    """Its timestamp: nobody can have seen it before."""
    observed_at: float


class Topics:
    """
    Follows topics of one cluster from their beginning, read_committed, and keeps every record.

    start(), then stop(); `records` may be read after stop() only.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.records: dict[str, list[Record]] = {topic: [] for topic in topics}
        self._bootstrap = bootstrap
        more: Mapping[str, str | int] = {
            "group.id": f"offsetwatch-witness-{uuid.uuid4()}",
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 500,
            # A log that no longer reaches where the witness stands would be a lie later.
            "auto.offset.reset": "error",
        }
        self._consumer = Consumer(settings(bootstrap, **more))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-witness", daemon=True)
        self._reached: dict[tuple[str, int], int] = {}
        self.failure: str | None = None
        """What the witness could not get over; such a run proves nothing."""

    def start(self) -> None:
        """Begin; the topics must exist."""
        listed = self._consumer.list_topics(timeout=CALL_S_MAX).topics
        expected = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in self.records
            for partition in listed[topic].partitions
        ]
        self._reached = {(partition.topic, partition.partition): 0 for partition in expected}
        self._consumer.assign(expected)
        self._thread.start()

    def catch_up(self) -> None:
        """Wait until everything that is in the topics now has been read."""
        ends = _committed_ends(self._bootstrap, self._reached)

        def check() -> None:
            if self.failure is not None:
                raise NotYet(self.failure)
            lags = [item for item, end in ends.items() if self._reached[item] < end]
            if lags:
                raise NotYet(f"not read to its end: {lags[:3]}")

        until("the witness at the end", check, timeout_s=CATCH_UP_S_MAX)

    def stop(self) -> None:
        """End the thread; harmless when it has ended or never began."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S_MAX)
        self._consumer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(READ_RECORDS_MAX, READ_S_MAX):
                self._take(message)

    def _take(self, message: Message) -> None:
        topic, partition = str(message.topic()), message.partition() or 0
        error, now = message.error(), time.time()
        if error is None:
            self._reached[topic, partition] = (message.offset() or 0) + 1
            self.records[topic].append(
                Record(
                    partition=partition,
                    offset=message.offset() or 0,
                    key=_bytes(message.key()),
                    value=_bytes(message.value()),
                    at=message.timestamp()[1] / 1000.0,
                    observed_at=now,
                )
            )
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - spelt like this
            # Transaction markers are passed by now, so this and not the last record tells the end.
            self._reached[topic, partition] = message.offset() or 0
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self.failure = f"{topic}-{partition}: {error.str()}"


@dataclass(frozen=True, slots=True)
class EndsSample:
    """Log ends that were true at some moment between two: asked and answered, Unix seconds."""

    requested_at: float
    answered_at: float
    ends: Mapping[tuple[str, int], int]


class LogEnds:
    """
    Asks one broker for its high watermarks, four times a second, and keeps every answer.

    As a consumer does, which is another way than the daemon's. `samples` is for after stop().
    """

    def __init__(self, bootstrap: str, partitions: Sequence[tuple[str, int]]) -> None:
        self.samples: list[EndsSample] = []
        self.failure: str | None = None
        """Why the last question was not answered; None when it was."""
        self._bootstrap = bootstrap
        self._partitions = tuple(partitions)
        self._consumer = self._connect()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-log-ends", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask a last time, and end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S_MAX)
        self._consumer.close()

    def _connect(self) -> Consumer:
        # A consumer of committed records would be given the last stable offset.
        more = {"group.id": "offsetwatch-witness-ends", "isolation.level": "read_uncommitted"}
        return Consumer(settings(self._bootstrap, **more))

    def _run(self) -> None:
        while not self._ended.wait(ENDS_EVERY_S):
            self._request()
        self._request()

    def _request(self) -> None:
        requested_at = time.time()
        try:
            ends = {where: self._end(*where) for where in self._partitions}
        except (KafkaException, NotYet) as exc:
            self.failure = str(exc)
            # The old client might go on naming the leader epoch from before the broker's death,
            # and be refused for it, until its metadata is minutes old.
            self._consumer.close()
            self._consumer = self._connect()
            return
        self.failure = None
        answered_at = time.time()
        self.samples.append(EndsSample(requested_at, answered_at, ends))

    def _end(self, topic: str, partition: int) -> int:
        return request_log_bounds(self._consumer, topic, partition, ENDS_S_MAX)[1]


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """The offsets of one connector by REST, {partition: offset}, as JSON text."""

    connector: str
    offsets: Mapping[str, str]
    requested_at: float
    answered_at: float


class Rest:
    """Asks Connect for the offsets of its connectors, one after the other, each worker in turn."""

    def __init__(self, urls: Sequence[str], connectors: Sequence[str]) -> None:
        self.answers: list[RestAnswer] = []
        self._questions = itertools.cycle(
            (url, connector) for connector in connectors for url in urls
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-rest", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the answer under way."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S_MAX)

    def _run(self) -> None:
        with httpx.Client(trust_env=False, timeout=REST_S_MAX, verify=NO_AUTHORITIES) as http:
            while not self._ended.wait(REST_EVERY_S):
                self._request(http, *next(self._questions))

    def _request(self, http: httpx.Client, url: str, connector: str) -> None:
        requested_at = time.time()
        try:
            answer = http.get(f"{url}/connectors/{connector}/offsets")
        except httpx.TransportError:
            return
        if answer.status_code != httpx.codes.OK:
            return  # dead, starting or rebalancing
        offsets = {
            text(entry["partition"]): text(entry["offset"])
            for entry in answer.json()["offsets"]
            if entry["offset"] is not None
        }
        self.answers.append(RestAnswer(connector, offsets, requested_at, time.time()))


def group_offset(record: Record) -> tuple[tuple[str, str, int], int] | None:
    """
    (group, topic, partition) and committed offset of a record of __consumer_offsets.

    None for everything else that is kept there, tombstones included.
    """
    if record.key is None or record.value is None:
        return None
    (version,) = struct.unpack_from(">h", record.key)
    if version not in _OFFSET_COMMIT_KEYS:
        return None
    group, index = _string(record.key, 2)
    topic, index = _string(record.key, index)
    (partition,) = struct.unpack_from(">i", record.key, index)
    (offset,) = struct.unpack_from(">q", record.value, 2)
    return (group, topic, partition), offset


def sync(record: Record) -> tuple[tuple[str, int], tuple[int, int]] | None:
    """(topic, partition) and (upstream, downstream) of a record of an offset-syncs topic."""
    if record.key is None or record.value is None:
        return None
    topic, offset = _string(record.key, 0)
    (partition,) = struct.unpack_from(">i", record.key, offset)
    upstream, downstream = struct.unpack(">qq", record.value)
    return (topic, partition), (upstream, downstream)


def _string(data: bytes, offset: int) -> tuple[str, int]:
    """A Kafka STRING, and where it ends."""
    (length,) = struct.unpack_from(">h", data, offset)
    end = offset + 2 + length
    return data[offset + 2 : end].decode(), end


def _committed_ends(
    bootstrap: str, partitions: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    admin = AdminClient(settings(bootstrap))
    futures = admin.list_offsets(
        {TopicPartition(topic, number): OffsetSpec.latest() for topic, number in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=CALL_S_MAX,
    )
    ends = {
        (partition.topic, partition.partition): int(future.result(CALL_S_MAX).offset)
        for partition, future in futures.items()
    }
    unknown = [item for item, end in ends.items() if end < 0]
    if unknown:
        raise LabError(f"no log end of {unknown[:3]}")
    return ends


def _bytes(data: object) -> bytes | None:
    return data if isinstance(data, bytes) else None
