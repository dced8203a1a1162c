"""What offset syncs tell of the way between two looks: which upstream offsets MM2 passed over.

MM2 writes a sync at once when the record it copies is not the one after the last (OffsetSyncWriter,
PartitionState.update). So of two syncs in a row, (U1, D1) and (U2, D2), the offsets upstream that
came to nothing downstream, U2 - U1 - (D2 - D1) of them, lie directly before U2: a transaction
marker, a compaction gap, a record that a filter dropped, or what retention took before it was
copied. Which of these it was, the log start tells (state/loss/partition.py).
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
    """The syncs of one upstream partition since the last look.

    newest   upstream offset of the newest sync, of whenever it is
    came     there were any
    lowest   upstream offset of the lowest of them; beyond all if there were none
    back_to  the lowest that was not further than the one before it: MM2 copies again what it had
             copied, or another topic
    gaps     what was passed over
    """

    newest: int
    came: bool = False
    gaps: tuple[Range, ...] = ()
    lowest: float = inf
    back_to: float = inf


class SyncGapTracker:
    """The ways in one offset-syncs topic since each partition was last looked at."""

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, SyncsSinceLastPoll] = {}

    def apply(
        self,
        newest: Mapping[TopicPartition, tuple[OffsetSync, float]],
        records: Iterable[SyncRecord],
        *,
        whole: bool,
    ) -> None:
        """Take in records in topic order; `newest` is what was known before them. Of a topic that
        is read from its start (`whole`) compaction took what lay between.
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
        """The partitions of which something came since this was last forgotten."""
        return self._ways.keys()

    def since(self, where: TopicPartition, newest: int | None) -> SyncsSinceLastPoll | None:
        """What came since this was last forgotten; None if there never was a sync."""
        found = self._ways.get(where)
        if found is not None:
            return found
        return None if newest is None else SyncsSinceLastPoll(newest=newest)

    def forget(self, looked_at: Iterable[TopicPartition]) -> None:
        """What came of these was looked at."""
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
