"""
Steady commits as Connect and MirrorMaker make them, with a ledger of what the broker acknowledged.

Positions of a file connector and of a mirror, tombstones, keys that no task looks up, values that
are no JSON, offset-syncs; and now and then a transaction, of which some are aborted. The keys are
written here byte by byte: nothing is shared with the exporter.
"""

import json
import struct
import threading
import time
import zlib
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lab.cluster.kafka_client import FLUSH_S_MAX, settings
from lab.cluster.lab import Lab
from lab.waiting import NotYet, until

Identity = tuple[str, int, int]
"""Topic, partition, offset."""
Bytes = tuple[bytes | None, bytes | None]
"""Key and value."""

# Of the flow. No alias of a lab's own MirrorMaker: what that writes by its aliases (checkpoints)
# would be read as this flow's.
SOURCE: Final = "elsewhere"
PARTITIONS: Final = 5
FILES: Final = 40
MIRRORED: Final = 12
TICK_S: Final = 0.05
TRANSACTION_EVERY: Final = 100
TRANSACTION_RECORDS: Final = 5
TRANSACTION_S_MAX: Final = 10.0
ACKNOWLEDGED_S_MAX: Final = 120.0


class Commits:
    """
    Writes `rate_per_s` records a second in a thread of its own, from entering to leaving it.

    `acknowledged` and `failures` may be read after that. A broker that is away costs no record:
    each is sent until it is in the log, except those of a transaction, which is then aborted.
    """

    def __init__(self, lab: Lab, *, offsets: str, syncs: str, rate_per_s: float) -> None:
        self.offsets = offsets
        self.syncs = syncs
        self.acknowledged: dict[Identity, Bytes] = {}
        """What must be in the log."""
        self.failures: list[str] = []
        """What the broker refused; none is expected."""
        self._lab = lab
        self._rate_per_s = rate_per_s
        self._number = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-commits", daemon=True)
        more: dict[str, str | int] = {"enable.idempotence": "true", "linger.ms": 10}
        self._producer = Producer(settings(lab.east, **more))
        self._transactional: Producer | None = None

    def __enter__(self) -> Self:
        compact = {"cleanup.policy": "compact"}
        self._lab.create_topic("east", self.offsets, PARTITIONS, compact)
        self._lab.create_topic("east", self.syncs, 1, compact)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def await_acknowledged(self, n: int) -> None:
        """Until so many are in the log."""

        def check() -> None:
            if len(self.acknowledged) < n:
                raise NotYet(f"{len(self.acknowledged)} of {n} commits")

        until(f"{n} commits", check, timeout_s=ACKNOWLEDGED_S_MAX)

    def _run(self) -> None:
        began, due = time.monotonic(), 0.0
        while not self._ended.wait(TICK_S):
            due = (time.monotonic() - began) * self._rate_per_s
            while self._number < due and not self._ended.is_set():
                self._next()
            self._producer.poll(0)
        if self._producer.flush(FLUSH_S_MAX):
            self.failures.append("not all records were acknowledged")
        # One more of each kind closes what a transaction may have left open.
        self._transaction()

    def _next(self) -> None:
        number = self._number
        self._number += 1
        if number % TRANSACTION_EVERY == TRANSACTION_EVERY - 1:
            self._transaction()
        elif number % 4 == 3:
            self._produce(self._producer, self.syncs, 0, *_sync(number))
        else:
            key, value = _commit(number)
            # As Connect does it: what is of one key is in one partition.
            partition = zlib.crc32(key) % PARTITIONS
            self._produce(self._producer, self.offsets, partition, key, value)

    def _produce(
        self, producer: Producer, topic: str, partition: int, key: bytes, value: bytes | None
    ) -> None:
        producer.produce(
            topic, key=key, value=value, partition=partition, on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        _add(self.acknowledged, record)

    def _transaction(self) -> None:
        """Some records at once, or none of them; whoever is cut off in one begins anew."""
        written: dict[Identity, Bytes] = {}
        try:
            producer = self._transactional = self._transactional or self._begun()
            producer.begin_transaction()
            for number in range(self._number, self._number + TRANSACTION_RECORDS):
                key, value = _commit(number)
                producer.produce(
                    self.offsets,
                    key=key,
                    value=value,
                    partition=zlib.crc32(key) % PARTITIONS,
                    on_delivery=lambda error, record: _add(written, record) if not error else None,
                )
            if self._number // TRANSACTION_EVERY % 4 == 0:
                producer.flush(TRANSACTION_S_MAX)
                producer.abort_transaction(TRANSACTION_S_MAX)
            else:
                producer.commit_transaction(TRANSACTION_S_MAX)
                self.acknowledged |= written
        except KafkaException:
            self._transactional = None  # the next one of this name ends what this one left open

    def _begun(self) -> Producer:
        more: dict[str, str | int] = {"transactional.id": self.offsets}
        more |= {"transaction.timeout.ms": 10_000}
        producer = Producer(settings(self._lab.east, **more))
        producer.init_transactions(TRANSACTION_S_MAX)
        return producer


def _add(ledger: dict[Identity, Bytes], record: Message) -> None:
    topic, partition, offset = record.topic(), record.partition(), record.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    key, value = record.key(), record.value()
    assert not isinstance(key, str)
    assert not isinstance(value, str)
    ledger[topic, partition, offset] = (key, value)


def _commit(number: int) -> tuple[bytes, bytes | None]:
    """Now one connector, now the other, each of its source partitions in turn."""
    if number % 3:
        of: list[object] = ["files", {"filename": f"/in/{number % FILES}"}]
        value = _json({"position": number})
    else:
        partition = {"cluster": SOURCE, "partition": number % MIRRORED, "topic": "orders"}
        of = ["mirror", partition]
        value = _json({"offset": number})
    if number % 37 == 0:
        return json.dumps(of).encode(), value  # with spaces: not what a task looks up
    if number % 41 == 0:
        return _json(of), b"{"
    return _json(of), None if number % 29 == 0 else value


def _sync(number: int) -> tuple[bytes, bytes]:
    name = b"orders"
    key = struct.pack(f">h{len(name)}si", len(name), name, number % MIRRORED)
    return key, struct.pack(">qq", number, number * 2)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
