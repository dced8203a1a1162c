"""Replicated partitions: committed offsets, offset syncs and upstream log ends brought together.

The lag of a position is only sound against a log end that was read AFTER the position. So when a
cluster is about to be asked for its ends (EndsAsked), the positions of that moment are put aside,
and the answer (EndsRead) is paired with them. Called by the book only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from exporter.model.observations import LogBounds, SyncRecord
from exporter.model.offsets import MirrorPartition, OffsetSync
from exporter.model.topology import MirrorFlow, TopicPartition
from exporter.state.lag import Seen, replicated_offset, replication_lag
from exporter.state.snapshot import MirrorPartitionView, SyncView

_Where = tuple[str, str, MirrorPartition]  # connect cluster, connector, upstream partition

ASKS_OPEN_MAX: Final = 4  # two may be under way at once; those that failed are never answered


@dataclass(slots=True)
class SyncBook:
    """The newest sync per upstream partition in one offset-syncs topic (one Kafka partition)."""

    newest: dict[TopicPartition, tuple[OffsetSync, float]] = field(default_factory=dict)
    version: int = 0

    def apply(self, records: tuple[SyncRecord, ...], *, whole: bool = False) -> None:
        """Take in records in topic order: the last one wins. `whole`: there are no others."""
        if whole:
            self.newest.clear()
        for record in records:
            where = TopicPartition(record.sync.topic, record.sync.partition)
            self.newest[where] = (record.sync, record.at)
        self.version += whole or bool(records)

    def seen(self, where: TopicPartition) -> Seen | None:
        """The upstream side of the newest sync, as a position."""
        found = self.newest.get(where)
        return None if found is None else Seen(offset=found[0].upstream_offset, at=found[1])


@dataclass(frozen=True, slots=True)
class Position:
    """What is known of one replicated partition at one moment."""

    flow: MirrorFlow
    partition: MirrorPartition
    committed: Seen
    synced: Seen | None
    replicated: int

    @property
    def where(self) -> _Where:
        """What identifies it between moments."""
        return (self.flow.connect_cluster, self.flow.connector, self.partition)

    @property
    def upstream(self) -> TopicPartition:
        """The upstream topic-partition."""
        return TopicPartition(self.partition.topic, self.partition.partition)


def positions(
    flow: MirrorFlow,
    committed: dict[MirrorPartition, Seen],
    syncs: SyncBook | None,
    not_ours: Collection[TopicPartition] = (),
) -> tuple[Position, ...]:
    """Every partition of a flow that has a committed offset, with its best known progress.

    not_ours    partitions whose syncs may be another flow's
    """
    found = []
    for partition, commit in committed.items():
        where = TopicPartition(partition.topic, partition.partition)
        synced = syncs.seen(where) if syncs is not None and where not in not_ours else None
        replicated = replicated_offset(commit, synced)
        if replicated is not None:
            found.append(
                Position(
                    flow=flow,
                    partition=partition,
                    committed=commit,
                    synced=synced,
                    replicated=replicated,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Paired:
    """An answer, and the replicated offsets that were known before it was asked for."""

    number: int
    known: dict[_Where, int]
    bounds: dict[TopicPartition, LogBounds]


class EndsBook:
    """Log bounds of each Kafka cluster, paired with the positions known when they were asked
    for.
    """

    def __init__(self) -> None:
        self._asked: dict[str, dict[int, dict[_Where, int]]] = {}
        self._paired: dict[str, _Paired] = {}
        self.version = 0

    def asked(self, kafka: str, number: int, known: dict[_Where, int]) -> None:
        """Put aside the replicated offsets known now."""
        asked = self._asked.setdefault(kafka, {})
        asked[number] = known
        while len(asked) > ASKS_OPEN_MAX:
            del asked[min(asked)]

    def read(self, kafka: str, number: int, bounds: dict[TopicPartition, LogBounds]) -> None:
        """The answer: pair it with what was put aside for it, unless a later one came first."""
        known = self._asked.get(kafka, {}).pop(number, None)
        last = self._paired.get(kafka)
        if known is None or (last is not None and number < last.number):
            return
        self._paired[kafka] = _Paired(number=number, known=known, bounds=bounds)
        self.version += 1

    def answered(self, kafka: str, known: set[_Where]) -> bool:
        """Did the last answer belong to at least one of these positions?"""
        return kafka in self._paired and not known.isdisjoint(self._paired[kafka].known)

    def view(self, position: Position, *, live: bool) -> MirrorPartitionView:
        """The picture of one replicated partition; without live ends it has no lag."""
        flow, bounds, lag, replicated = position.flow, None, None, None
        if live and flow.upstream is not None and flow.upstream in self._paired:
            paired = self._paired[flow.upstream]
            bounds = paired.bounds.get(position.upstream)
            known = paired.known.get(position.where)
            if bounds is not None and known is not None:
                # A rewind since the asking counts at once; an advance waits for the next answer.
                replicated = min(known, position.replicated)
                lag = replication_lag(replicated, _end(flow, bounds))
        return MirrorPartitionView(
            connect_cluster=flow.connect_cluster,
            connector=flow.connector,
            source=flow.source,
            target=flow.target,
            topic=position.partition.topic,
            partition=position.partition.partition,
            committed=position.committed.offset,
            committed_at=position.committed.at,
            synced=None if position.synced is None else position.synced.offset,
            replicated=position.replicated,
            log_start=None if bounds is None else bounds.start,
            log_end=None if bounds is None else _end(flow, bounds),
            lag=None if lag is None else lag.records,
            ahead=None if lag is None else lag.ahead,
            lag_position=replicated,
        )


def _end(flow: MirrorFlow, bounds: LogBounds) -> int:
    """Where the flow's work ends: a read_committed consumer cannot pass the last stable offset."""
    return bounds.stable_end if flow.read_committed else bounds.end


def sync_views(flow: MirrorFlow, syncs: SyncBook) -> tuple[SyncView, ...]:
    """Pictures of a flow's newest syncs."""
    return tuple(
        SyncView(
            connect_cluster=flow.connect_cluster,
            source=flow.source,
            target=flow.target,
            topic=where.topic,
            partition=where.partition,
            upstream_offset=sync.upstream_offset,
            downstream_offset=sync.downstream_offset,
            at=at,
        )
        for where, (sync, at) in sorted(syncs.newest.items())
    )
