"""Open transactions on an internal topic: blocked partitions, start time and connector.

A reader of committed records cannot pass the first record of an open transaction, so one hanging
transaction hides every later record of the partition. Under exactly-once, Connect writes offsets in
the same transaction as the records and just before it ends. So a transaction that stays open for
seconds belongs to a worker that died or hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from offsetwatch.clients.kafka.clients import ReadableEnd, TailReader, parse_end_of_partition
from offsetwatch.clock import UnixClock, to_utc
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.errors import ClientError
from offsetwatch.model.observations import Frozen
from offsetwatch.model.offsets import SourceKey
from offsetwatch.model.topology import TopicPartition

OPEN_MAX_S: Final = 10.0  # ten times what committing one takes on a loaded cluster
PEEK_S: Final = 0.1
PEEKS_MAX: Final = 30  # per look at the topic: its tail waits meanwhile, and may not go stale


class OpenTransactions:
    """Open transactions of one topic; `open_uncommitted` opens a reader of uncommitted records."""

    def __init__(self, open_uncommitted: Callable[[], TailReader], clock: UnixClock) -> None:
        self._open_uncommitted = open_uncommitted
        self._clock = clock
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        self._named: dict[tuple[TopicPartition, int], str] = {}
        self._peeks_left = 0

    def held(self, ends: Mapping[TopicPartition, ReadableEnd]) -> tuple[Frozen, ...]:
        """Return partitions that a transaction has blocked for 10 seconds, given current ends."""
        now = self._clock.now()
        before, self._since = self._since, {}
        for partition, end in ends.items():
            if end.stable < end.high:
                offset, since = before.get(partition, (end.stable, now))
                moved = offset != end.stable or since > now  # the clock may be set back
                self._since[partition] = (end.stable, now) if moved else (offset, since)
        found = {
            (partition, offset)
            for partition, (offset, since) in self._since.items()
            if now - since >= OPEN_MAX_S
        }
        self._peeks_left = PEEKS_MAX
        self._named = {
            where: self._named.get(where) or self._name(*where) for where in sorted(found)
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
        what = (
            f"{partition.topic} partition {partition.partition}: an open transaction hides "
            "everything from "
        )
        return what + f"offset {offset} on{self._whose(partition, offset)}"

    def _whose(self, partition: TopicPartition, offset: int) -> str:
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
