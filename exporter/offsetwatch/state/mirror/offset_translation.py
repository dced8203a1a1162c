"""What offset syncs tell of one upstream partition: where an upstream offset is downstream.

Two answers that differ on purpose. MM2 translates carefully, with what its task happens to remember
(offset_sync_store.py). `best` is where the group could go on without reading anything twice: the
downstream offset of the very record that its upstream offset names.

MM2 sends a sync at once when an upstream record does not follow the one before it, or when the
downstream offset goes back. So between two syncs in a row the records follow one another, and a gap
can only lie right before the later sync. With the newest sync (U, D), U <= G, of an upstream offset
G, and the next one (U', D') if there is one:

    best(G) = D + (G - U), and no more than D'

Exact    if nothing but this flow's records, each once, is in the target partition, and every sync
         arrived. Between two syncs that are as far apart upstream as downstream nothing can be
         missing, so there it does not matter how many syncs in between were lost; unless markers
         on both sides cancel out (a topic written in transactions, copied in MM2's own).
Too high at most by the records missing upstream (compaction, transaction markers) between U and G
         whose sync we have not read: MM2 keeps ten in flight and lets a later one replace those
         that wait; before Kafka 3.7 it kept those of a quiet partition back.
Too low  at most by what was written downstream in between beside the records: markers of MM2's own
         transactions (exactly-once), or what others wrote into the target topic. Of records between
         two places that is not counted where the syncs show it (record_number).

What compaction has left of the topic when we start to read says of a gap between two syncs that
there is one, and not where: an offset inside it has no answer, unless only one is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from offsetwatch.state.mirror.offset_sync_store import TOO_FAR_BACK, OffsetSyncStore

# Syncs on one line count as one, so an upstream topic without gaps needs one piece for ever; one
# with gaps needs one for each. Sixty-four times 100 records (offset.lag.max) at least.
SEGMENTS_MAX: Final = 64


@dataclass(slots=True)
class SyncSegment:
    """Syncs on one line: the first and the last of them, upstream and downstream.

    joined    nothing was lost between the piece before, if there is one, and this one, so the gap
              between them ends where this one begins
    """

    first: tuple[int, int]
    last: tuple[int, int]
    joined: bool


class SyncHistory:
    """The mapping of one partition, as far back as we know it."""

    def __init__(self) -> None:
        self.pieces: list[SyncSegment] = []

    def add(self, upstream: int, downstream: int, *, joined: bool) -> bool:
        """One more sync. True if it begins a new piece.

        What goes back on either side (records copied again, a topic made anew) is another mapping:
        what was known is forgotten, as MM2 does.
        """
        new = (upstream, downstream)
        if self.pieces:
            last = self.pieces[-1].last
            if new == last:
                return False
            if upstream <= last[0] or downstream <= last[1]:
                self.pieces.clear()
            elif upstream - last[0] == downstream - last[1]:
                self.pieces[-1].last = new
                return False
        self.pieces.append(SyncSegment(first=new, last=new, joined=joined))
        if len(self.pieces) > SEGMENTS_MAX:
            del self.pieces[0]
        return True

    def corners(self) -> tuple[tuple[int, int], ...]:
        """The syncs that tell all of it, in order: added again they give the same history."""
        found: list[tuple[int, int]] = []
        for piece in self.pieces:
            found += [piece.first] if piece.first == piece.last else [piece.first, piece.last]
        return tuple(found)

    @property
    def newest(self) -> tuple[int, int] | None:
        """The newest sync."""
        return self.pieces[-1].last if self.pieces else None

    def best(self, upstream: int, end: int) -> int | None:
        """See the module. `end` is the end of the downstream log, which nothing can be beyond."""
        after: SyncSegment | None = None
        for piece in reversed(self.pieces):
            if piece.first[0] <= upstream:
                break
            after = piece
        else:
            return None
        line = piece.first[1] + upstream - piece.first[0]
        if upstream <= piece.last[0]:
            return min(line, end)
        if after is None:
            return min(line, end)
        highest = min(line, after.first[1])
        lowest = max(piece.last[1] + 1, after.first[1] - (after.first[0] - upstream))
        return min(highest, end) if after.joined or lowest >= highest else None

    def record_number(self, downstream: int) -> int:
        """How many records lie before this downstream offset, counted from anywhere: of two offsets
        the difference is what a consumer would be given between them.

        Between two syncs that are farther apart downstream than upstream lies something that is no
        record of this flow. Where in between is not told: it is taken to come last, so that the
        offset after a sync, on which MM2 lands, is that of the next record.
        """
        number, last = 0, self.pieces[0].first
        for piece in self.pieces:
            records = min(piece.first[0] - last[0], piece.first[1] - last[1])
            if downstream < piece.first[1]:
                return number + min(records, downstream - last[1])
            number += records
            if downstream <= piece.last[1]:
                return number + downstream - piece.first[1]
            number += piece.last[1] - piece.first[1]
            last = piece.last
        return number + downstream - last[1]


class PartitionSyncs:
    """All that is kept of one partition's syncs."""

    __slots__ = ("history", "store")

    def __init__(self) -> None:
        self.history = SyncHistory()
        self.store = OffsetSyncStore()

    def read(self, upstream: int, downstream: int, *, live: bool) -> None:
        """One more record of the topic; not `live` if it was there before we were."""
        self.history.add(upstream, downstream, joined=live)
        if live:
            self.store.started()
        self.store.read(upstream, downstream)

    def emptied(self) -> None:
        """MM2's task may have begun anew, and then it may know no more than the newest sync."""
        self.store = OffsetSyncStore()
        newest = self.history.newest
        if newest is not None:
            self.store.read(*newest)

    def at_least(self, upstream: int) -> int | None:
        """The least that MM2 translates this offset to; None if it may not translate it at all.

        After the newest sync there is one answer. Before it the answer depends on when MM2's task
        started, which nobody tells: ours is of a task that started when we did. One that is older
        may remember less, but by the store's invariants never so little that it has to go back
        more than four times as far behind the group as the group is behind the newest sync.
        """
        self.store.started()
        found, newest = self.store.translate(upstream), self.history.newest
        if found is None or found == TOO_FAR_BACK or newest is None:
            return None
        if upstream >= newest[0]:
            return found
        farthest = upstream - 4 * (newest[0] - upstream)
        known = self.history.best(farthest + 1, newest[1])
        return None if known is None else min(found, known + 1)
