"""The source offsets of one Connect cluster: the newest record of each source partition and its
history.

Connect finds an offset by the bytes of its key, so only records under the canonical bytes move a
source partition; any other raw key for the same partition is counted as a variant and nothing more.
Called by the book only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.decode.dialects import position
from exporter.state.lag import Seen
from exporter.model.observations import SourceRecord
from exporter.model.offsets import MirrorPartition, SourceKey, SourceOffset, Undecodable
from exporter.state.snapshot import SourcePartitionView

FLOAT_EXACT_MAX = 2**53  # beyond this a Prometheus sample, a float64, cannot hold every integer


@dataclass(slots=True)
class _Partition:
    """One source partition. `view` is the cached picture, dropped at each change."""

    key: SourceKey
    offset: SourceOffset | None = None
    previous: SourceOffset | None = None
    kafka_partition: int = -1
    log_offset: int = -1
    committed_at: float | None = None
    advanced_at: float | None = None
    commits: int = 0
    advances: int = 0
    rewinds: int = 0
    resets: int = 0
    variants: set[bytes] = field(default_factory=set)
    view: SourcePartitionView | None = None


class SourceBook:
    """All source partitions of one Connect cluster, at most `partitions_max` of them."""

    def __init__(self, connect_cluster: str, partitions_max: int) -> None:
        self._connect_cluster = connect_cluster
        self._partitions_max = partitions_max
        self._partitions: dict[tuple[str, str], _Partition] = {}
        self._mirrors: dict[tuple[str, str], dict[MirrorPartition, _Partition]] = {}
        self._shown: tuple[int, frozenset[str], tuple[SourcePartitionView, ...]] | None = None
        self.dropped: dict[str, int] = {}
        self.version = 0

    def apply(self, records: tuple[SourceRecord, ...]) -> None:
        """Take in records in topic order."""
        for record in records:
            where = (record.key.connector, record.key.identity)
            partition = self._partitions.get(where)
            if partition is None:
                if len(self._partitions) >= self._partitions_max:
                    self._drop("source_partitions_max")
                    continue
                partition = self._add(where, record.key)
            self._apply(partition, record)
            partition.view = None
        self.version += bool(records)

    def _add(self, where: tuple[str, str], key: SourceKey) -> _Partition:
        partition = self._partitions[where] = _Partition(key)
        if key.mirror is not None:
            flow = (key.connector, key.mirror.cluster)
            self._mirrors.setdefault(flow, {})[key.mirror] = partition
        return partition

    def _apply(self, partition: _Partition, record: SourceRecord) -> None:
        if not record.key.canonical:
            if record.offset is None:
                partition.variants.discard(record.raw_key)
            else:
                partition.variants.add(record.raw_key)
            return
        if not _is_newer(partition, record):
            return
        offset = record.offset if isinstance(record.offset, SourceOffset) else None
        offset = None if offset is not None and offset.is_null else offset
        partition.kafka_partition = record.partition
        partition.log_offset = record.log_offset
        before, partition.offset = partition.offset, offset
        if before != offset:
            partition.previous = before
        if record.live:
            self._count(partition, record, before, offset)
        partition.committed_at = record.at
        if record.advanced_at is not None:
            partition.advanced_at = record.advanced_at
        elif offset is not None and (before is None or before.text != offset.text):
            partition.advanced_at = record.at
        if offset is not None and any(not _exact(number) for _, number in offset.numbers):
            self._drop("inexact")

    @staticmethod
    def _count(
        partition: _Partition,
        record: SourceRecord,
        before: SourceOffset | None,
        offset: SourceOffset | None,
    ) -> None:
        """Only what happens while we look counts (design/metrics.md)."""
        partition.commits += 1
        if record.offset is None:
            partition.resets += 1
        elif not isinstance(record.offset, Undecodable):
            partition.advances += before is None or offset is None or before.text != offset.text
        old = position(partition.key.dialect, before)
        new = position(partition.key.dialect, offset)
        partition.rewinds += old is not None and new is not None and new < old

    def _drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def mirrored(self, connector: str, source: str) -> dict[MirrorPartition, Seen]:
        """The committed offsets of a MirrorSourceConnector that reads under this alias.

        Entries under another alias are dead: the task never looks them up.
        """
        found: dict[MirrorPartition, Seen] = {}
        for mirror, partition in self._mirrors.get((connector, source), {}).items():
            offset = position(partition.key.dialect, partition.offset)
            if offset is not None and partition.committed_at is not None:
                found[mirror] = Seen(offset=offset, at=partition.committed_at)
        return found

    def agrees(self, connector: str, identity: str, text: str | None) -> bool:
        """Is this what the tail has seen, now or just before? REST and tail are read one after the
        other, so a commit in between makes either of them the older one.
        """
        partition = self._partitions.get((connector, identity))
        if partition is None:
            return text is None
        seen = (partition.offset, partition.previous)
        return text in {None if offset is None else offset.text for offset in seen}

    def views(self, listed: frozenset[str]) -> tuple[SourcePartitionView, ...]:
        """Pictures of the source partitions of these connectors; the same tuple while nothing
        changes.
        """
        if self._shown is None or self._shown[:2] != (self.version, listed):
            views = tuple(
                partition.view or self._view(partition)
                for (connector, _), partition in sorted(self._partitions.items(), key=_by_name)
                if connector in listed
            )
            self._shown = (self.version, listed, views)
        return self._shown[2]

    def _view(self, partition: _Partition) -> SourcePartitionView:
        forgotten = partition.offset is None
        partition.view = SourcePartitionView(
            connect_cluster=self._connect_cluster,
            connector=partition.key.connector,
            identity=partition.key.identity,
            label=partition.key.label,
            dialect=partition.key.dialect,
            offset=partition.offset,
            kafka_partition=None if partition.log_offset < 0 else partition.kafka_partition,
            log_offset=None if partition.log_offset < 0 else partition.log_offset,
            committed_at=None if forgotten else partition.committed_at,
            advanced_at=None if forgotten else partition.advanced_at,
            commits=partition.commits,
            advances=partition.advances,
            rewinds=partition.rewinds,
            resets=partition.resets,
            variants=len(partition.variants),
        )
        return partition.view


def _by_name(item: tuple[tuple[str, str], _Partition]) -> tuple[str, str]:
    return item[0]


def _is_newer(partition: _Partition, record: SourceRecord) -> bool:
    """Kafka offset orders the records of one key. The same key in two Kafka partitions (a changed
    partition count, a foreign writer) has no order; the newer timestamp is the better guess.
    """
    if partition.log_offset < 0 or record.partition == partition.kafka_partition:
        return record.log_offset > partition.log_offset
    newest = (partition.committed_at or 0.0, partition.kafka_partition)
    return (record.at, record.partition) > newest


def _exact(number: float) -> bool:
    return abs(number) <= FLOAT_EXACT_MAX
