"""Translation of a group's upstream offset as MM2 does it, for one upstream partition.

A port of OffsetSyncStore of Kafka 4.x. MM2's checkpoint task remembers 64 offset syncs of a
partition, dense near the newest and sparser farther back. It translates with the newest sync that
is not after the group. Which syncs it remembers depends on all earlier ones, so its algorithm is
repeated step by step: a test compares this class with the one in Kafka's own jar. Arithmetic is
Java's: 64 bits that wrap.

The array, syncs[0] the newest, always satisfies

    A   syncs[0] is the newest sync that was read
    B   for i <= j: syncs[i].upstream <= syncs[j].upstream + 2^j - 2^i:
        none is too old for its slot
    C   for i < j, unless both are one sync: syncs[i].upstream >= syncs[j].upstream + 2^max(i-2, 0):
        none is so near to its neighbour that the slot is wasted
"""

from __future__ import annotations

from typing import Final

SYNCS_PER_PARTITION: Final = 64
TOO_FAR_BACK: Final = -1  # only syncs after the group are left: MM2 then writes no checkpoint

Sync = tuple[int, int]  # (upstream, downstream) offset of one record; two are one only by identity


class OffsetSyncStore:
    """Offset syncs of one upstream partition, as MM2's checkpoint task remembers them.

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
        for place in range(1, SYNCS_PER_PARTITION):
            nearer = after[place - 1]
            while True:
                old = before[candidate]
                apart = _is_far_enough(nearer, old, place - 1)
                fits = (
                    apart
                    and _is_recent_enough(nearer, old, place - 1, place)
                    and (
                        place + 1 == SYNCS_PER_PARTITION
                        or _is_far_enough(old, after[place + 1], place)
                    )
                )
                if fits:
                    moving = old
                repeated = candidate + 1 < SYNCS_PER_PARTITION and old is before[candidate + 1]
                useless = repeated or not apart
                candidate += fits or useless
                if candidate >= place or not useless:
                    break
            if _is_recent_enough(nearer, after[place], place - 1, place):
                break  # in order here, hence in order from here on
            after[place] = moving
        self._syncs = after


def _is_recent_enough(nearer: Sync, farther: Sync, place: int, other: int) -> bool:
    """Check invariant B for two syncs in these slots."""
    bound = _wrap_to_long(farther[0] + _wrap_to_long(1 << other) - _wrap_to_long(1 << place))
    return nearer is farther or bound < 0 or nearer[0] <= bound


def _is_far_enough(nearer: Sync, farther: Sync, place: int) -> bool:
    """Check invariant C for a sync in this slot and a farther one."""
    bound = _wrap_to_long(farther[0] + (1 << max(place - 2, 0)))
    return nearer is farther or (bound >= 0 and nearer[0] >= bound)


def _wrap_to_long(value: int) -> int:
    """Return a value wrapped to a signed 64-bit integer, as Java does."""
    return (value + 2**63) % 2**64 - 2**63
