"""Tail of one topic: a thread reads the topic from its beginning and then follows new records.

The daemon starts the thread. It joins no consumer group. Empty TailReads report the remaining
distance first; then one TailRead with `whole` set carries the folded topic. Until then the state
shows nothing that depends on the topic.

A read reports success, an InputFailed reports failure. librdkafka reconnects by itself, so an
unavailable broker does not restart the tail. A recreated topic does. If only some partitions are
unreadable, they are reported as frozen (unreadable_partitions.py) and the tail follows the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import structlog
from msgspec import structs

from offsetwatch.clients.kafka.clients import (
    BEGINNING,
    KafkaAdmin,
    Message,
    ReadableEnd,
    TailReader,
    parse_end_of_partition,
)
from offsetwatch.clock import UnixClock
from offsetwatch.errors import (
    ClientError,
    LeaderNotAvailable,
    NotFound,
    SizeLimitExceeded,
    TopicChanged,
)
from offsetwatch.ingest.topic_readers import TopicReader
from offsetwatch.ingest.unreadable_partitions import OpenTransactions, UnreadablePartitions
from offsetwatch.model.observations import (
    Frozen,
    InputFailed,
    InputId,
    ListingRecord,
    Observation,
    Records,
    SourceRecord,
    TailRead,
)
from offsetwatch.model.topology import KafkaTopic, TopicPartition

READ_RECORDS_MAX = 10_000
READ_TIMEOUT_S = 1.0  # how late a tail of a silent topic hears that it is to stop
CHECK_EVERY_S = 2.0  # how often the topic's end is asked for: our own lag, and a sign of life
PUT_WAIT_S = 0.5
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 15.0
# What is remembered of a topic until all of it is read: half a KiB for each key at least, ten times
# as many as a Connect cluster may have source partitions by default.
KEYS_MAX = 1_000_000
# Of the keys and their newest values: a topic of a few keys of a megabyte each has a number too.
# Where a value was repeated, librdkafka's records hold it twice.
BYTES_MAX = 256 * 1024 * 1024
RETRY_TOO_LARGE_S = 300.0  # to read so many again takes seconds of CPU

_log = structlog.get_logger()


class Tail:
    """Tail of one topic, restarted with a back-off while the topic cannot be read.

    `put(batch, s)` enqueues for the event loop and returns False if the queue stayed full for s
    seconds. `stopped(s)` waits up to s seconds and returns whether to stop. `role_of` builds a new
    TopicReader for each bootstrap.
    """

    def __init__(
        self,
        topic: KafkaTopic,
        *,
        admin: KafkaAdmin,
        open_reader: Callable[[], TailReader],
        transactions: OpenTransactions,
        role_of: Callable[[], TopicReader],
        put: Callable[[tuple[Observation, ...], float], bool],
        stopped: Callable[[float], bool],
        clock: UnixClock,
    ) -> None:
        self.topic = topic
        self.input_id = InputId.of_tail(topic)
        self._admin = admin
        self._open_reader = open_reader
        self._transactions = transactions
        self._role_of = role_of
        self._put = put
        self._stopped = stopped
        self._clock = clock
        self._positions: dict[int, int] = {}
        self._retry_s = RETRY_FIRST_S
        self._failing: str | None = None
        self._frozen: tuple[Frozen, ...] = ()
        self._thawing: dict[int, int] = {}
        self._partitions: tuple[TopicPartition, ...] = ()
        self._unreadable = UnreadablePartitions(topic, clock)
        self._sick: tuple[Frozen, ...] = ()
        self._drained = True  # since the last check all that had come was taken
        self._as_of: float | None = None
        self._sought: tuple[float, dict[TopicPartition, int]] | None = None

    def run(self) -> None:
        """Follow the topic until stopped; restart with a back-off while it cannot be read."""
        while not self._stopped(0):
            reader: TailReader | None = None
            try:
                reader = self._open_reader()
                self._follow(reader)
            except ClientError as exc:
                self._failed(exc)
                too_large = isinstance(exc, SizeLimitExceeded)
                if self._stopped(RETRY_TOO_LARGE_S if too_large else self._retry_s):
                    return
                self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
            finally:
                if reader is not None:
                    reader.close()

    def _follow(self, reader: TailReader) -> None:
        shape = self._shape()
        self._unreadable = UnreadablePartitions(self.topic, self._clock)
        partitions = tuple(TopicPartition(self.topic.topic, number) for number in range(shape[1]))
        self._partitions = partitions
        requested_at, targets = self._ends(partitions)
        reader.assign(dict.fromkeys(partitions, BEGINNING))
        role = self._role_of()
        # Where nothing was ever written there is nothing to wait for; a fetch of it would wait.
        self._positions = {
            partition.partition: end for partition, end in targets.items() if not end
        }
        self._frozen = self._sick = ()
        self._thawing = {}
        took_s = math.inf
        while self._bootstrap(reader, role, targets):
            self._as_of, self._sought = requested_at, None
            before_s, took_s = took_s, self._clock.now() - requested_at
            # What took long to read is as old as that. So read what came meanwhile too, unless it
            # comes faster than we read.
            if not CHECK_EVERY_S < took_s < before_s:
                self._unreadable.leave_out()
                self._report_unreadable({})
                self._emit_all(role)
                self._live(reader, role, partitions, shape)
                return
            requested_at, targets = self._ends(partitions)

    def _ends(
        self, partitions: tuple[TopicPartition, ...]
    ) -> tuple[float, dict[TopicPartition, int]]:
        requested_at = self._clock.now()
        ends = self._readable_ends(partitions)
        return requested_at, {partition: end.high for partition, end in ends.items()}

    def _readable_ends(
        self, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, ReadableEnd]:
        """Return the ends of the readable partitions; raise if no partition is readable."""
        refused: dict[TopicPartition, ClientError] = {}
        ends = self._admin.readable_ends(self._unreadable.readable(partitions), refused=refused)
        self._unreadable.note_ends(ends, refused)
        self._unreadable.check_any_remains(partitions)
        for partition, error in refused.items():
            self._failed(_add_partition_to_error(error, partition.partition), partial=True)
        return ends

    def _emit_all(self, role: TopicReader) -> None:
        """Emit all records of the topic in one TailRead.

        A separate method releases these records on return; in the caller they would stay in memory
        while the topic is followed.
        """
        records, undecodable = role.folded()
        _log.info(
            "tail_caught_up",
            input=self.input_id.input,
            source_records=len(records),
            undecodable=dict(undecodable),
        )
        self._emit(records, Counter(), behind=0, whole=True)
        self._retry_s = RETRY_FIRST_S

    def _shape(self) -> tuple[str, int]:
        try:
            return self._admin.shape(self.topic.topic)
        except NotFound as exc:
            raise NotFound(str(self.topic), "no such topic, or no ACL to describe it") from exc

    def _bootstrap(
        self, reader: TailReader, role: TopicReader, targets: dict[TopicPartition, int]
    ) -> bool:
        """Read up to the ends determined at the start; return False if stopped.

        An open transaction limits how far this reads.
        """
        reported_at: float | None = None
        while not self._reached(targets):
            # That it reads, and is not there yet, has to be seen: a large topic takes minutes.
            if reported_at is None or not 0 <= self._clock.now() - reported_at < CHECK_EVERY_S:
                self._emit((), Counter(), behind=self._distance(targets), caught_up=False)
                self._inspect(reader, targets)
                reported_at = self._clock.now()
            messages = self._read(reader)
            self._note_ends(role.fold(messages))
            if role.keys > KEYS_MAX:
                raise SizeLimitExceeded(str(self.topic), f"it has more than {KEYS_MAX} keys")
            if role.size > BYTES_MAX:
                what = f"its keys and their newest values take more than {BYTES_MAX} bytes"
                raise SizeLimitExceeded(str(self.topic), what)
            self._note_positions(reader, self._partitions)
            if self._stopped(0):
                return False
        return True

    def _reached(self, targets: Mapping[TopicPartition, int]) -> bool:
        # What a transaction held that has ended meanwhile is to be read after all.
        held_offsets = {frozen.partition: frozen.offset for frozen in self._frozen}
        abandoned = self._unreadable.abandoned
        if len(abandoned) == len(self._partitions):
            return False
        return all(
            partition in targets
            and self._positions.get(partition.partition, -1)
            >= min(targets[partition], held_offsets.get(partition.partition, targets[partition]))
            for partition in self._partitions
            if partition.partition not in abandoned
        )

    def _inspect(self, reader: TailReader, targets: dict[TopicPartition, int]) -> None:
        """Find open transactions and unreadable partitions; add ends that were missing."""
        try:
            ends = self._readable_ends(self._partitions)
            self._frozen = self._transactions.find_frozen(ends)
            self._note_progress(reader, ends)
        except ClientError as exc:
            self._failed(exc)
        else:
            for partition, end in ends.items():
                targets.setdefault(partition, end.high)
                if not end.high:
                    self._advance(partition.partition, 0)

    def _note_progress(
        self, reader: TailReader, ends: Mapping[TopicPartition, ReadableEnd]
    ) -> None:
        """Note partitions that deliver no records, and reopen the unreadable ones that are due."""
        behind = {
            partition: end.stable - self._positions.get(partition.partition, 0)
            for partition, end in ends.items()
        }
        self._unreadable.note_unmoved(behind, drained=self._drained)
        self._drained = True
        self._unreadable.check_any_remains(self._partitions)
        reopened = self._unreadable.to_reopen()
        if reopened:
            reader.reopen(
                {
                    partition: self._positions.get(partition.partition, BEGINNING)
                    for partition in self._partitions
                    if partition.partition in reopened
                }
            )

    def _report_unreadable(self, ends: Mapping[TopicPartition, ReadableEnd]) -> None:
        for partition in ends:
            self._unreadable.note_position(
                partition.partition, self._positions.get(partition.partition, 0)
            )
        hidden = {
            partition.partition: self._distance({partition: end.high})
            for partition, end in ends.items()
        }
        self._sick = self._unreadable.reported(self._positions, hidden)

    def _live(
        self,
        reader: TailReader,
        role: TopicReader,
        partitions: tuple[TopicPartition, ...],
        shape: tuple[str, int],
    ) -> None:
        checked_at = self._clock.now()
        while not self._stopped(0):
            requested_at = self._clock.now()
            try:
                messages = self._read(reader)
            except ClientError as exc:
                self._failed(exc)
                if self._stopped(RETRY_FIRST_S):  # librdkafka complains many times a second
                    return
                continue
            read = [message for message in messages if message.error() is None]
            late = [message for message in read if self._is_late(message)]
            fresh = [message for message in read if not late or not self._is_late(message)]
            for message in read:
                self._advance(message.partition() or 0, (message.offset() or 0) + 1)
            self._update_as_of()
            if late:
                records, _ = role.live(late)
                self._emit(_mark_not_live(records), Counter(), behind=None, at=requested_at)
            if fresh:
                records, undecodable = role.live(fresh)
                self._emit(records, undecodable, behind=None, at=requested_at)
            if len(read) != len(messages):
                self._note_ends(messages)
            if not 0 <= self._clock.now() - checked_at < CHECK_EVERY_S:  # it may be set back
                self._note_positions(reader, partitions)
                self._check(reader, partitions, shape)
                checked_at = self._clock.now()

    def _read(self, reader: TailReader) -> list[Message]:
        messages = reader.read(READ_RECORDS_MAX, READ_TIMEOUT_S)
        self._drained = self._drained and len(messages) < READ_RECORDS_MAX
        return messages

    def _is_late(self, message: Message) -> bool:
        return self._unreadable.is_late(message.partition() or 0, message.offset() or 0)

    def _check(
        self,
        reader: TailReader,
        partitions: tuple[TopicPartition, ...],
        shape: tuple[str, int],
    ) -> None:
        """Compare the positions, which were read first, with the ends of the topic.

        Raises TopicChanged if the topic was recreated, truncated or has another number of
        partitions: an offset of the new log says nothing about the old one, so the state would
        never change again.
        """
        requested_at = self._clock.now()
        try:
            current = self._shape()
            # Made anew with fewer partitions, it has no ends where we would ask for them.
            ends = self._readable_ends(partitions) if current == shape else {}
            if current == shape:
                self._note_progress(reader, ends)
        except ClientError as exc:
            self._failed(exc)
            return
        if current != shape:
            raise TopicChanged(
                str(self.topic), f"(topic id, partitions) were {shape}, are {current}"
            )
        if any(
            end.high < self._positions.get(partition.partition, 0)
            for partition, end in ends.items()
        ):
            raise TopicChanged(str(self.topic), "it ends before what was read of it")
        self._frozen = self._find_frozen(ends)
        self._report_unreadable(ends)
        hidden = {frozen.partition for frozen in (*self._frozen, *self._sick)}
        behind = self._distance(
            {
                partition: end.high if partition.partition in hidden else end.stable
                for partition, end in ends.items()
            }
        )
        self._update_as_of()
        if self._sought is None:  # or where more comes all the time, nothing would ever be reached
            self._sought = requested_at, {partition: end.stable for partition, end in ends.items()}
            self._update_as_of()
        self._emit((), Counter(), behind=behind, at=requested_at)

    def _update_as_of(self) -> None:
        """Update `_as_of` once the positions reach the ends of the last check."""
        if self._sought is None:
            return
        abandoned = self._unreadable.abandoned
        ends = {
            partition: end
            for partition, end in self._sought[1].items()
            if partition.partition not in abandoned
        }
        if not self._distance(ends):
            self._as_of, self._sought = self._sought[0], None

    def _find_frozen(self, ends: Mapping[TopicPartition, ReadableEnd]) -> tuple[Frozen, ...]:
        """Return the partitions whose records an open transaction hides.

        A partition stays in the result after its transaction has ended until the hidden records are
        read: its state is as old as the transaction.
        """
        held_partitions = {
            frozen.partition: frozen for frozen in self._transactions.find_frozen(ends)
        }
        stable = {partition.partition: end.stable for partition, end in ends.items()}
        # Of those without an end nothing new is known.
        held_partitions |= {
            frozen.partition: frozen for frozen in self._frozen if frozen.partition not in stable
        }
        thawing = {
            frozen.partition: (
                frozen,
                self._thawing.get(frozen.partition, stable[frozen.partition]),
            )
            for frozen in self._frozen
            if frozen.partition not in held_partitions
        }
        self._thawing = {
            partition: end
            for partition, (_, end) in thawing.items()
            if self._positions.get(partition, 0) < end
        }
        for partition in self._thawing:
            held_partitions[partition] = replace(thawing[partition][0], hidden=0)
        return tuple(frozen for _, frozen in sorted(held_partitions.items()))

    def _distance(self, ends: Mapping[TopicPartition, int]) -> int:
        """Return the number of records between the positions and these ends."""
        return sum(
            max(0, end - self._positions.get(partition.partition, 0))
            for partition, end in ends.items()
        )

    def _note_ends(self, events: list[Message]) -> None:
        for event in events:
            if event.error() is None:
                continue  # a record without a key: read, and of no use
            try:
                position = parse_end_of_partition(event)
            except ClientError as exc:
                self._note_error(event.partition(), exc)
                continue
            if position is not None:
                self._unreadable.note_moved(event.partition() or 0)
                self._advance(event.partition() or 0, position)

    def _note_error(self, partition: int | None, error: ClientError) -> None:
        """Note an error event of one partition.

        Raises the error if it names no known partition, or if a partition that was read has
        changed. Raises the first partition's error if no partition is readable.
        """
        if partition is None or not 0 <= partition < len(self._partitions):
            raise error
        if isinstance(error, TopicChanged):
            if partition in self._positions:
                raise error
            # Nothing was read, so nothing changed: where the log begins could not be found out.
            error = LeaderNotAvailable(error.target, error.detail)
        if isinstance(error, NotFound):
            self._shape()
        self._unreadable.note_error(partition, error)
        self._unreadable.check_any_remains(self._partitions)
        self._failed(_add_partition_to_error(error, partition), partial=True)

    def _note_positions(self, reader: TailReader, partitions: tuple[TopicPartition, ...]) -> None:
        # These pass a transaction's marker with the record before it; the event that tells the end
        # comes with a later fetch, and a commit every second would keep us one behind for ever.
        for partition, position in reader.positions(partitions).items():
            self._advance(partition, position)

    def _advance(self, partition: int, position: int) -> None:
        if position > self._positions.get(partition, -1):
            self._positions[partition] = position
            self._unreadable.note_moved(partition)

    def _emit(
        self,
        records: Records,
        undecodable: Counter[str],
        *,
        behind: int | None,
        at: float | None = None,
        whole: bool = False,
        caught_up: bool = True,
    ) -> None:
        unreadable = {frozen.partition for frozen in self._sick}
        held_partitions = (frozen for frozen in self._frozen if frozen.partition not in unreadable)
        read = TailRead(
            input=self.input_id,
            topic=self.topic,
            at=self._clock.now() if at is None else at,
            records=records,
            positions=tuple(self._positions.items()),
            caught_up=caught_up,
            behind=behind,
            as_of=self._as_of,
            undecodable=tuple(undecodable.items()),
            whole=whole,
            frozen=(*held_partitions, *self._sick),
        )
        self._enqueue(read)
        self._failing = None

    def _enqueue(self, observation: Observation) -> None:
        """Wait while the queue is full, because nothing may be lost. Kafka is the buffer."""
        while not self._put((observation,), PUT_WAIT_S) and not self._stopped(0):
            pass

    def _failed(self, error: ClientError, *, partial: bool = False) -> None:
        if error.reason != self._failing:
            self._failing = error.reason
            _log.warning(
                "tail_failed", input=self.input_id.input, reason=error.reason, detail=error.detail
            )
        self._enqueue(InputFailed(self.input_id, error.reason, error.detail, partial=partial))


def _add_partition_to_error(error: ClientError, partition: int) -> ClientError:
    return type(error)(error.target, f"partition {partition}: {error.detail}")


def _mark_not_live(records: Records) -> Records:
    """Return records marked as not live, so that no counter counts them.

    They were in the topic before the tail caught up.
    """
    return cast(
        "Records",
        tuple(
            structs.replace(record, live=False)
            if isinstance(record, SourceRecord)
            else replace(record, live=False)
            if isinstance(record, ListingRecord)
            else record
            for record in records
        ),
    )
