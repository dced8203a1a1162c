"""Offset syncs of one offset-syncs topic: the newest, the runs and the gaps between inspections.

MM2 writes a sync at once when the record it copies is not the one after the last (OffsetSyncWriter,
PartitionState.update). So of two consecutive syncs, (U1, D1) and (U2, D2), U2 - U1 - (D2 - D1)
upstream offsets have no record downstream, and they lie directly before U2: a transaction marker, a
compaction gap, a record that a filter dropped, or records that retention deleted before they were
copied. The log start shows which of these it was (state/loss/partition.py).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from offsetwatch.model.observations import SyncRecord
from offsetwatch.model.offsets import OffsetSync
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.key_budget import KeyBudget
from offsetwatch.state.mirror.lag import MirrorPosition
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from offsetwatch.state.mirror.sync_lead import SyncRun
from offsetwatch.state.snapshot import SyncView

SYNCS_MAX: Final = 200_000  # partitions of one topic: MirrorMaker takes none back that are gone
GAPS_MAX: Final = 8  # per partition and inspection; the largest: a transaction's marker is one

Range = tuple[int, int]  # first and last, both in it


@dataclass(frozen=True, slots=True)
class SyncsSinceLastPoll:
    """Syncs of one upstream partition since its last inspection.

    newest   upstream offset of the newest sync, however old
    came     whether there were any
    lowest   lowest upstream offset among them; infinite if there were none
    back_to  the lowest that was not beyond the one before it: MM2 copies again what it had
             copied, or another topic
    gaps     ranges of upstream offsets that were skipped
    """

    newest: int
    came: bool = False
    gaps: tuple[Range, ...] = ()
    lowest: float = inf
    back_to: float = inf


class SyncGapTracker:
    """Syncs of one offset-syncs topic since each partition was last inspected."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, SyncsSinceLastPoll] = {}

    def apply(
        self,
        newest: Mapping[TopicPartition, tuple[OffsetSync, float]],
        records: Iterable[SyncRecord],
        *,
        whole: bool,
    ) -> None:
        """Apply records in topic order; `newest` has the syncs known before them.

        If the topic is read from its start (`whole`), all is forgotten: compaction removed syncs
        between the records.
        """
        if whole:
            self._since.clear()
            return
        before: dict[TopicPartition, OffsetSync] = {}
        for record in records:
            where, sync = TopicPartition(record.sync.topic, record.sync.partition), record.sync
            last = before.get(where)
            if last is None and where in newest:
                last = newest[where][0]
            before[where] = sync
            self._since[where] = _extend_syncs(self._since.get(where), last, sync)

    @property
    def came(self) -> Container[TopicPartition]:
        """Return the partitions with syncs that were not forgotten yet."""
        return self._since.keys()

    def since(self, where: TopicPartition, newest: int | None) -> SyncsSinceLastPoll | None:
        """Return the syncs since the last `forget`; None if there never was a sync."""
        if newest is None:
            return self._since.get(where)
        return self._since.get(where) or SyncsSinceLastPoll(newest=newest)

    def forget(self, looked_at: Iterable[TopicPartition]) -> None:
        """Forget the syncs of partitions that were inspected."""
        for where in looked_at:
            self._since.pop(where, None)


def _extend_syncs(
    known: SyncsSinceLastPoll | None, last: OffsetSync | None, sync: OffsetSync
) -> SyncsSinceLastPoll:
    before = known or SyncsSinceLastPoll(newest=sync.upstream_offset)
    gaps, back_to = before.gaps, before.back_to
    if last is not None:
        if sync.upstream_offset <= last.upstream_offset:
            back_to = min(back_to, sync.upstream_offset)
        moved = sync.upstream_offset - last.upstream_offset
        missing = moved - (sync.downstream_offset - last.downstream_offset)
        if 0 < missing < moved:
            gaps = (*gaps, (sync.upstream_offset - missing, sync.upstream_offset - 1))
            gaps = tuple(sorted(gaps, key=lambda gap: gap[1] - gap[0])[-GAPS_MAX:])
    return SyncsSinceLastPoll(
        newest=sync.upstream_offset,
        came=True,
        gaps=gaps,
        lowest=min(sync.upstream_offset, before.lowest),
        back_to=back_to,
    )


@dataclass(slots=True)
class SyncBook:
    """Offset syncs of one offset-syncs topic (one Kafka partition).

    `newest` has the newest sync per upstream partition, `read` the translation by all of them,
    `runs` those that were read live, `gaps` those since each inspection. `dropped` counts records
    of partitions beyond SYNCS_MAX, or whose names exceed the `budget`. `whole_at` is when the topic
    was last read from its start.
    """

    newest: dict[TopicPartition, tuple[OffsetSync, float]] = field(default_factory=dict)
    read: dict[TopicPartition, PartitionSyncs] = field(default_factory=dict)
    runs: dict[TopicPartition, SyncRun] = field(default_factory=dict)
    version: int = 0
    dropped: int = 0
    whole_at: float = inf
    gaps: SyncGapTracker = field(default_factory=SyncGapTracker)
    budget: KeyBudget = field(default_factory=lambda: KeyBudget(SYNCS_MAX))

    def apply(self, records: tuple[SyncRecord, ...], now: float, *, whole: bool = False) -> None:
        """Apply records in topic order: the last one wins. `whole`: the topic holds no others."""
        self.gaps.apply(self.newest, records, whole=whole)
        if whole:
            self.whole_at = now
            self.newest.clear()
            self.budget = KeyBudget(SYNCS_MAX)
            self.read.clear()
            for known_run in self.runs.values():
                known_run.steps.clear()
        for record in records:
            sync = record.sync
            where = TopicPartition(sync.topic, sync.partition)
            if where not in self.newest and not self.budget.take(len(where.topic)):
                self.dropped += 1
                continue
            if not whole:
                last = self.newest.get(where)
                before = None if last is None else last[0].upstream_offset
                self.runs.setdefault(where, SyncRun()).add(before, sync.upstream_offset, now)
            self.newest[where] = (sync, record.at)
            known = self.read.get(where)
            if known is None:
                known = self.read[where] = PartitionSyncs()
            for upstream, downstream in record.earlier:
                known.read(upstream, downstream, live=False)
            known.read(sync.upstream_offset, sync.downstream_offset, live=not whole)
        self.version += whole or bool(records)

    def forget_copies(self, topics: Collection[str]) -> None:
        """Forget the downstream side of upstream topics whose copies now go to another topic."""
        for where in self.read:
            if where.topic in topics:
                self.read[where] = PartitionSyncs()

    def read_at(self, where: TopicPartition) -> float | None:
        """Return when the newest sync was read live; None if it existed before we began to read."""
        run = self.runs.get(where)
        return None if run is None or not run.steps else run.steps[-1][1]

    def since_inspection(self, partition: TopicPartition) -> SyncsSinceLastPoll | None:
        """Return the syncs of a partition since its last inspection; None if it never had any."""
        newest = self.seen(partition)
        return self.gaps.since(partition, None if newest is None else newest.offset)

    def seen(self, where: TopicPartition) -> MirrorPosition | None:
        """Return the upstream side of the newest sync, as a position."""
        found = self.newest.get(where)
        return (
            None if found is None else MirrorPosition(offset=found[0].upstream_offset, at=found[1])
        )


def build_sync_views(flow: MirrorFlow, syncs: SyncBook) -> tuple[SyncView, ...]:
    """Build the views of a flow's newest syncs."""
    return tuple(
        SyncView(
            connect_cluster=flow.connect_cluster,
            source=flow.source,
            target=flow.target,
            topic=where.topic,
            partition=where.partition,
            upstream_offset=sync.upstream_offset,
            downstream_offset=sync.downstream_offset,
            at=moment,
            read_at=(read_at := syncs.read_at(where)),
            read_by=syncs.whole_at if read_at is None else read_at,
        )
        for where, (sync, moment) in sorted(syncs.newest.items())
    )
