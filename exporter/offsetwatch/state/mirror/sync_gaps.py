"""Gaps in the offset syncs between two inspections: upstream offsets that MM2 skipped.

MM2 writes a sync at once when the record it copies is not the one after the last (OffsetSyncWriter,
PartitionState.update). So of two consecutive syncs, (U1, D1) and (U2, D2), U2 - U1 - (D2 - D1)
upstream offsets have no record downstream, and they lie directly before U2: a transaction marker, a
compaction gap, a record that a filter dropped, or records that retention deleted before they were
copied. The log start shows which of these it was (state/loss/partition.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from offsetwatch.model.observations import SyncRecord
from offsetwatch.model.offsets import OffsetSync
from offsetwatch.model.topology import TopicPartition

GAPS_MAX: Final = (
    8  # per partition and look; the largest stay: a transaction's marker is one offset
)

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
        self._ways: dict[TopicPartition, SyncsSinceLastPoll] = {}

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
            self._ways.clear()
            return
        before: dict[TopicPartition, OffsetSync] = {}
        for record in records:
            where, sync = TopicPartition(record.sync.topic, record.sync.partition), record.sync
            last = before.get(where)
            if last is None and where in newest:
                last = newest[where][0]
            before[where] = sync
            syncs_since_last_poll = self._ways.get(where)
            self._ways[where] = _extend_syncs(syncs_since_last_poll, last, sync)

    @property
    def came(self) -> Container[TopicPartition]:
        """Return the partitions with syncs that were not forgotten yet."""
        return self._ways.keys()

    def since(self, where: TopicPartition, newest: int | None) -> SyncsSinceLastPoll | None:
        """Return the syncs since the last `forget`; None if there never was a sync."""
        found = self._ways.get(where)
        if found is not None:
            return found
        return None if newest is None else SyncsSinceLastPoll(newest=newest)

    def forget(self, looked_at: Iterable[TopicPartition]) -> None:
        """Forget the syncs of partitions that were inspected."""
        for where in looked_at:
            self._ways.pop(where, None)


def _extend_syncs(
    syncs_since_last_poll: SyncsSinceLastPoll | None, last: OffsetSync | None, sync: OffsetSync
) -> SyncsSinceLastPoll:
    gaps = () if syncs_since_last_poll is None else syncs_since_last_poll.gaps
    back_to = inf if syncs_since_last_poll is None else syncs_since_last_poll.back_to
    if last is not None:
        if sync.upstream_offset <= last.upstream_offset:
            back_to = min(back_to, sync.upstream_offset)
        moved = sync.upstream_offset - last.upstream_offset
        missing = moved - (sync.downstream_offset - last.downstream_offset)
        if 0 < missing < moved:
            gaps = (*gaps, (sync.upstream_offset - missing, sync.upstream_offset - 1))
            gaps = tuple(sorted(gaps, key=_measure_gap)[-GAPS_MAX:])
    return SyncsSinceLastPoll(
        newest=sync.upstream_offset,
        came=True,
        gaps=gaps,
        lowest=min(
            sync.upstream_offset,
            inf if syncs_since_last_poll is None else syncs_since_last_poll.lowest,
        ),
        back_to=back_to,
    )


def _measure_gap(gap: Range) -> int:
    return gap[1] - gap[0]
