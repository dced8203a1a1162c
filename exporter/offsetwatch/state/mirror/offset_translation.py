"""Translation of upstream offsets to downstream offsets by the offset syncs of a partition.

There are two results, which differ on purpose. MM2 translates carefully, with the syncs that its
task remembers (OffsetSyncStore). `best` is the offset where the group could resume without
reading anything twice: the downstream offset of the very record that its upstream offset names.

MM2 sends a sync at once when an upstream record does not follow the one before it, or when the
downstream offset goes back. So between two consecutive syncs the records follow one another, and a
gap can only lie right before the later sync. With the newest sync (U, D), U <= G, of an upstream
offset G, and the next one (U', D') if there is one:

    best(G) = D + (G - U), and no more than D'

Exact    if the target partition holds only this flow's records, each once, and every sync arrived.
         Between two syncs that are as far apart upstream as downstream nothing can be missing, so
         there it does not matter how many syncs in between were lost; unless markers on both sides
         cancel out (a topic written in transactions, copied in MM2's own).
Too high at most by the records missing upstream (compaction, transaction markers) between U and G
         whose sync we have not read: MM2 keeps ten in flight and lets a later one replace those
         that wait; before Kafka 3.7 it held back those of a partition without traffic.
Too low  at most by what was written downstream in between beside the records: markers of MM2's own
         transactions (exactly-once), or what others wrote into the target topic. Between two
         offsets that is not counted where the syncs show it (record_number).

The topic may have been compacted before we first read it. Two remaining syncs then show that there
is a gap between them, but not where. An offset inside it has no translation, unless only one is
possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SYNCS_PER_PARTITION: Final = 64
TOO_FAR_BACK: Final = -1  # only syncs after the group are left: MM2 then writes no checkpoint

Sync = tuple[int, int]  # (upstream, downstream) offset of one record; two are one only by identity


class OffsetSyncStore:
    """Offset syncs of one upstream partition, as MM2's checkpoint task remembers them.

    A port of OffsetSyncStore of Kafka 4.x. The task remembers 64 syncs, dense near the newest and
    sparser farther back, and translates with the newest that is not after the group. Which ones it
    remembers depends on all earlier ones, so its algorithm is repeated step by step: a test
    compares this class with the one in Kafka's own jar. Arithmetic is Java's: 64 bits that wrap.
    The array, syncs[0] the newest, always satisfies

        A   syncs[0] is the newest sync that was read
        B   for i <= j: syncs[i].upstream <= syncs[j].upstream + 2^j - 2^i:
            none is too old for its slot
        C   for i < j, unless both are one sync:
            syncs[i].upstream >= syncs[j].upstream + 2^max(i-2, 0):
            none is so near to its neighbour that the slot is wasted

    loads_all    whether its task uses every sync that it finds at its start. It does if it could
                 read its old checkpoints (Kafka 3.8 and newer). Otherwise it keeps only the last,
                 so that no translation goes back behind one that it has forgotten
    """

    def __init__(self, *, loads_all: bool = False) -> None:
        self._loads_all = loads_all
        self._started = False
        self._syncs: list[Sync] = []

    def started(self) -> None:
        """Note that the end of the topic, as of the start of the task, was reached."""
        self._started = True

    def read(self, upstream: int, downstream: int) -> None:
        """Apply one more record of the topic."""
        new: Sync = (upstream, downstream)
        if not self._syncs:
            self._syncs = [new] * SYNCS_PER_PARTITION
            return
        only_the_last = not self._started and not self._loads_all
        if only_the_last or upstream < self._syncs[0][0]:
            self._syncs = [new] * SYNCS_PER_PARTITION  # upstream went back: the old ones are void
        else:
            self._take_in(new)

    def translate(self, upstream: int) -> int | None:
        """Return the downstream offset for a group at this upstream offset.

        Both name the NEXT record. It is the offset of the synced record itself, or the one after
        it, as more is not certain. TOO_FAR_BACK if every sync is after the group; None without any
        sync, or before the start.
        """
        if not self._started or not self._syncs:
            return None
        for synced, downstream in self._syncs:
            if synced <= upstream:
                return downstream if synced == upstream else _wrap_to_long(downstream + 1)
        return TOO_FAR_BACK

    def syncs(self) -> tuple[Sync, ...]:
        """Return the array, newest first; empty before the first sync."""
        return tuple(self._syncs)

    def _take_in(self, new: Sync) -> None:
        """Put a sync first and move older ones on, slot by slot, until they are in order.

        A moved sync takes the first slot that it is neither too old nor too near for; one that
        finds none is dropped. The slots beyond the first one still in order stay.
        """
        before = self._syncs
        after = before.copy()
        after[0] = moving = new
        candidate = 0
        for index in range(1, SYNCS_PER_PARTITION):
            nearer = after[index - 1]
            while True:
                old = before[candidate]
                apart = _is_far_enough(nearer, old, index - 1)
                fits = (
                    apart
                    and _is_recent_enough(nearer, old, index - 1, index)
                    and (
                        index + 1 == SYNCS_PER_PARTITION
                        or _is_far_enough(old, after[index + 1], index)
                    )
                )
                if fits:
                    moving = old
                repeated = candidate + 1 < SYNCS_PER_PARTITION and old is before[candidate + 1]
                useless = repeated or not apart
                candidate += fits or useless
                if candidate >= index or not useless:
                    break
            if _is_recent_enough(nearer, after[index], index - 1, index):
                break  # in order here, hence in order from here on
            after[index] = moving
        self._syncs = after


def _is_recent_enough(nearer: Sync, farther: Sync, index: int, other: int) -> bool:
    """Check invariant B for two syncs in these slots."""
    bound = _wrap_to_long(farther[0] + _wrap_to_long(1 << other) - _wrap_to_long(1 << index))
    return nearer is farther or bound < 0 or nearer[0] <= bound


def _is_far_enough(nearer: Sync, farther: Sync, index: int) -> bool:
    """Check invariant C for a sync in this slot and a farther one."""
    bound = _wrap_to_long(farther[0] + (1 << max(index - 2, 0)))
    return nearer is farther or (bound >= 0 and nearer[0] >= bound)


def _wrap_to_long(value: int) -> int:
    """Return a value wrapped to a signed 64-bit integer, as Java does."""
    return (value + 2**63) % 2**64 - 2**63


# Syncs on one line count as one, so an upstream topic without gaps needs one piece for ever; one
# with gaps needs one for each. Sixty-four times 100 records (offset.lag.max) at least.
SEGMENTS_MAX: Final = 64


@dataclass(slots=True)
class SyncSegment:
    """Syncs with the same distance between upstream and downstream offset: the first and the last.

    joined    no sync was lost between the segment before, if any, and this one, so the gap
              between them ends where this one begins
    """

    first: tuple[int, int]
    last: tuple[int, int]
    joined: bool


class SyncHistory:
    """Mapping of one partition's upstream offsets to downstream offsets, as far back as known."""

    def __init__(self) -> None:
        self.pieces: list[SyncSegment] = []

    def add(self, upstream: int, downstream: int, *, joined: bool) -> bool:
        """Add one more sync. Return True if it begins a new segment.

        An offset that goes back on either side (records copied again, a recreated topic) begins a
        new mapping: the earlier syncs are forgotten, as MM2 does.
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
        """Return the syncs that define the history, in order: adding them gives the same one."""
        corners: list[tuple[int, int]] = []
        for piece in self.pieces:
            corners += [piece.first] if piece.first == piece.last else [piece.first, piece.last]
        return tuple(corners)

    @property
    def newest(self) -> tuple[int, int] | None:
        """Return the newest sync; None before the first."""
        return self.pieces[-1].last if self.pieces else None

    def best(self, upstream: int, end: int) -> int | None:
        """Return `best` of the module's formula; None if it cannot be determined.

        `end` is the end of the downstream log, the upper limit of the result.
        """
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
        """Return the number of a record at this downstream offset, counted from an arbitrary start.

        The difference between two offsets is the number of records that a consumer would receive
        between them.

        If two syncs are farther apart downstream than upstream, offsets between them hold something
        that is no record of this flow. Their location is not known. They are taken to come last, so
        that the offset after a sync, on which MM2 lands, is that of the next record.
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
    """Syncs of one partition: our own mapping, and the syncs that MM2's task remembers."""

    __slots__ = ("history", "store")

    def __init__(self) -> None:
        self.history = SyncHistory()
        self.store = OffsetSyncStore()

    def read(self, upstream: int, downstream: int, *, live: bool) -> None:
        """Apply one more record of the topic; not `live` if it existed before we began to read."""
        self.history.add(upstream, downstream, joined=live)
        if live:
            self.store.started()
        self.store.read(upstream, downstream)

    def emptied(self) -> None:
        """Keep only the newest sync in the store: MM2's task may have restarted."""
        self.store = OffsetSyncStore()
        newest = self.history.newest
        if newest is not None:
            self.store.read(*newest)

    def at_least(self, upstream: int) -> int | None:
        """Return the least offset that MM2 may translate this one to.

        None if it may not translate it at all.

        After the newest sync there is one result. Before it the result depends on when MM2's task
        started, which nothing reports: our store is that of a task that started when we did. A task
        that is older may remember less. By the store's invariants it never has to go back more than
        four times as far behind the group as the group is behind the newest sync.
        """
        self.store.started()
        translated, newest = self.store.translate(upstream), self.history.newest
        if translated is None or translated == TOO_FAR_BACK or newest is None:
            return None
        if upstream >= newest[0]:
            return translated
        farthest = upstream - 4 * (newest[0] - upstream)
        known = self.history.best(farthest + 1, newest[1])
        return None if known is None else min(translated, known + 1)
