"""Partitions of a tailed topic whose records cannot be read, or are hidden by an open transaction.

One partition without a leader, denied or in error must not end the tail of the others. It is read
again with a back-off. Once the error has lasted UNREADABLE_S, the partition is reported by topic,
partition, reason and start time, and nothing that depends on it is shown. A partition that was left
out of the bootstrap stays reported until it is read to its end.

A reader of committed records cannot pass the first record of an open transaction, so one hanging
transaction hides every later record of the partition. Under exactly-once, Connect writes offsets in
the same transaction as the records and just before it ends. So a transaction that stays open for
seconds belongs to a worker that died or hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from offsetwatch.clients.kafka.clients import ReadableEnd, TailReader, parse_end_of_partition
from offsetwatch.clock import UnixClock, to_utc
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.errors import ClientError, LeaderNotAvailable, ResponseTimeout
from offsetwatch.model.observations import Frozen
from offsetwatch.model.offsets import SourceKey
from offsetwatch.model.topology import KafkaTopic, TopicPartition

UNREADABLE_S: Final = 10.0  # elections take less; a tail that reads nothing is stale after 20 s
RETRY_FIRST_S: Final = 2.0
RETRY_MAX_S: Final = 60.0
OPEN_MAX_S: Final = 10.0  # ten times what committing one takes on a loaded cluster
PEEK_S: Final = 0.1
PEEKS_MAX: Final = 30  # per look at the topic: its tail waits meanwhile, and may not go stale


@dataclass(slots=True)
class _PartitionFailure:
    error: ClientError
    since: float
    retry_at: float
    retry_s: float = RETRY_FIRST_S


class UnreadablePartitions:
    """Unreadable partitions of one topic, between two reads from its beginning."""

    def __init__(self, topic: KafkaTopic, clock: UnixClock) -> None:
        self._topic = topic
        self._clock = clock
        self._troubles: dict[int, _PartitionFailure] = {}
        self._unasked: set[int] = set()  # their ends were refused
        self._late: dict[int, int | None] = {}  # partition -> where its first reading ends
        self._unmoved_since: dict[int, float] = {}

    def readable(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Return the partitions whose ends may be requested now."""
        return tuple(
            partition
            for partition in partitions
            if partition.partition not in self._unasked
            or self._is_due(self._troubles[partition.partition])
        )

    def note_ends(
        self,
        ends: Mapping[TopicPartition, ReadableEnd],
        refused: Mapping[TopicPartition, ClientError],
    ) -> None:
        """Record the answer to a request for ends."""
        for partition, end in ends.items():
            if partition.partition in self._unasked:
                self._unasked.discard(partition.partition)
                self.note_moved(partition.partition)
            if self._late.get(partition.partition, 0) is None:
                self._late[partition.partition] = end.high
        for partition, error in refused.items():
            self._unasked.add(partition.partition)
            self.note_error(partition.partition, error)

    def note_error(self, partition: int, error: ClientError) -> None:
        """Record an error of this partition alone."""
        now, known = self._clock.now(), self._troubles.get(partition)
        if known is None:
            self._troubles[partition] = _PartitionFailure(error, now, now + RETRY_FIRST_S)
        else:
            known.error = error
            self._put_off(known)

    def note_moved(self, partition: int) -> None:
        """Clear the error of a partition of which a record or an end was read."""
        self._unmoved_since.pop(partition, None)
        if partition not in self._unasked:
            self._troubles.pop(partition, None)

    def note_unmoved(self, behind: Mapping[TopicPartition, int], *, drained: bool) -> None:
        """Record partitions that have records left but deliver none.

        Unless all fetched records were taken (`drained`), their records may just not have had their
        turn.
        """
        now = self._clock.now()
        for partition, remaining in behind.items():
            if remaining <= 0 or not drained:
                self._unmoved_since.pop(partition.partition, None)
                continue
            since = self._unmoved_since.setdefault(partition.partition, now)
            if partition.partition not in self._troubles and now - since >= UNREADABLE_S:
                silent = ResponseTimeout(str(self._topic), "its records do not come")
                self._troubles[partition.partition] = _PartitionFailure(silent, since, now)

    def to_reopen(self) -> frozenset[int]:
        """Return the partitions to fetch again now."""
        due = [
            (partition, trouble)
            for partition, trouble in self._troubles.items()
            if partition not in self._unasked and self._is_due(trouble)
        ]
        for _, trouble in due:
            self._put_off(trouble)
        return frozenset(partition for partition, _ in due)

    def leave_out(self) -> None:
        """End the bootstrap without the partitions that are unreadable now."""
        self._late |= dict.fromkeys(self.abandoned, None)

    def is_late(self, partition: int, offset: int) -> bool:
        """Return True for a record that should have been in the bootstrap."""
        if partition not in self._late:
            return False
        end = self._late[partition]
        return end is None or offset < end

    def note_position(self, partition: int, position: int) -> None:
        """Record the position up to which a partition is read."""
        end = self._late.get(partition)
        if end is not None and position >= end:
            del self._late[partition]

    @property
    def abandoned(self) -> frozenset[int]:
        """Return the partitions that are reported as unreadable."""
        now = self._clock.now()
        lasting = {
            partition
            for partition, trouble in self._troubles.items()
            if not 0 <= now - trouble.since < UNREADABLE_S  # the clock may be set back
        }
        return frozenset(lasting | self._late.keys())

    def check_any_remains(self, partitions: Collection[TopicPartition]) -> None:
        """Raise the error of the first partition if no partition can be read."""
        troubles = [self._troubles.get(partition.partition) for partition in partitions]
        if troubles and troubles[0] is not None and None not in troubles:
            raise troubles[0].error

    def reported(
        self, positions: Mapping[int, int], hidden: Mapping[int, int]
    ) -> tuple[Frozen, ...]:
        """Return the unreadable partitions; `hidden` is the known number of unread records."""
        return tuple(
            self._frozen(number, positions.get(number, 0), hidden.get(number, 0))
            for number in sorted(self.abandoned)
        )

    def _frozen(self, partition: int, offset: int, hidden: int) -> Frozen:
        trouble = self._troubles.get(partition)
        what = f"{self._topic} partition {partition}"
        if trouble is None:
            detail = f"{what}: it can be read again, and is not read to its end yet"
            return Frozen(partition, offset, detail, hidden, LeaderNotAvailable.reason)
        since = to_utc(trouble.since).isoformat(timespec="seconds")
        detail = f"{what}: cannot be read since {since}: {trouble.error.detail}"
        return Frozen(partition, offset, detail, hidden, trouble.error.reason)

    def _is_due(self, trouble: _PartitionFailure) -> bool:
        return not 0 < trouble.retry_at - self._clock.now() <= RETRY_MAX_S

    def _put_off(self, trouble: _PartitionFailure) -> None:
        trouble.retry_at = self._clock.now() + trouble.retry_s
        trouble.retry_s = min(2 * trouble.retry_s, RETRY_MAX_S)


class OpenTransactions:
    """Open transactions of one topic; `open_uncommitted` opens a reader of uncommitted records."""

    def __init__(self, open_uncommitted: Callable[[], TailReader], clock: UnixClock) -> None:
        self._open_uncommitted = open_uncommitted
        self._clock = clock
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        self._named: dict[tuple[TopicPartition, int], str] = {}
        self._peeks_left = 0

    def find_frozen(self, ends: Mapping[TopicPartition, ReadableEnd]) -> tuple[Frozen, ...]:
        """Return partitions that a transaction has blocked for 10 seconds, given current ends."""
        now = self._clock.now()
        before, self._since = self._since, {}
        for partition, end in ends.items():
            if end.stable < end.high:
                offset, since = before.get(partition, (end.stable, now))
                moved = offset != end.stable or since > now  # the clock may be set back
                self._since[partition] = (end.stable, now) if moved else (offset, since)
        held_partitions = {
            (partition, offset)
            for partition, (offset, since) in self._since.items()
            if now - since >= OPEN_MAX_S
        }
        self._peeks_left = PEEKS_MAX
        self._named = {
            where: self._named.get(where) or self._name(*where) for where in sorted(held_partitions)
        }
        return tuple(
            Frozen(
                partition=partition.partition,
                offset=offset,
                detail=detail,
                hidden=ends[partition].high - offset,
            )
            for (partition, offset), detail in sorted(self._named.items())
        )

    def _name(self, partition: TopicPartition, offset: int) -> str:
        return (
            f"{partition.topic} partition {partition.partition}: an open transaction hides "
            f"everything from offset {offset} on{self._describe_author(partition, offset)}"
        )

    def _describe_author(self, partition: TopicPartition, offset: int) -> str:
        """Return start time and connector from the transaction's first record, or an empty text."""
        try:
            reader = self._open_uncommitted()
        except ClientError:
            return ""
        try:
            reader.assign({partition: offset})
            while self._peeks_left > 0:
                self._peeks_left -= 1
                for message in reader.read(1, PEEK_S):
                    if parse_end_of_partition(message) is not None:
                        return ""
                    since = to_utc(message.timestamp()[1] / 1000)
                    raw = message.key()
                    key = decode_key(raw if isinstance(raw, bytes) else None)
                    by = f", by connector {key.connector}" if isinstance(key, SourceKey) else ""
                    return f"; begun {since.isoformat(timespec='seconds')}{by}"
        except ClientError:
            return ""
        finally:
            reader.close()
        return ""
