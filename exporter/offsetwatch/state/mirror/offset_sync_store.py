"""How MM2 translates a group's upstream offset: OffsetSyncStore of Kafka 4.x for one upstream
partition.

MM2's checkpoint task remembers 64 offset syncs of a partition, the near ones dense and the far ones
ever sparser, and translates with the newest that is not after the group. Which ones it remembers
depends on all that came before, so it has to be done as it does it: a test holds this against the
class in Kafka's own jar. Arithmetic is Java's: 64 bits that wrap.

The array, syncs[0] the newest, always satisfies

    A   syncs[0] is the newest sync that was read
    B   for i <= j: syncs[i].upstream <= syncs[j].upstream + 2^j - 2^i:
        none is too old for its place
    C   for i < j, unless both are one sync: syncs[i].upstream >= syncs[j].upstream + 2^max(i-2, 0):
        none is so near to its neighbour that the place is wasted
"""

from __future__ import annotations

from typing import Final

SYNCS_PER_PARTITION: Final = 64
TOO_FAR_BACK: Final = -1  # only syncs after the group are left: MM2 then writes no checkpoint

Sync = tuple[int, int]  # (upstream, downstream) offset of one record; two are one only by identity


class OffsetSyncStore:
    """See the module.

    loads_all    what its task does with the syncs that it finds when it starts: take in every one,
                 if it could read its old checkpoints (Kafka 3.8 and newer), else keep the last one
                 only, lest a translation go back behind one that it no longer knows of
    """

    def __init__(self, *, loads_all: bool = False) -> None:
        self._loads_all = loads_all
        self._started = False
        self._syncs: list[Sync] = []

    def started(self) -> None:
        """It has read to the end of the topic, as it was when the task started."""
        self._started = True

    def read(self, upstream: int, downstream: int) -> None:
        """One more record of the topic."""
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
        """The downstream offset for a group at this upstream offset (the NEXT record on both
        sides): of the synced record itself, or the one after it, as more is not certain.
        TOO_FAR_BACK if every sync is after the group; None without any sync, or before the start.
        """
        if not self._started or not self._syncs:
            return None
        for synced, downstream in self._syncs:
            if synced <= upstream:
                return downstream if synced == upstream else _wrap_to_long(downstream + 1)
        return TOO_FAR_BACK

    def syncs(self) -> tuple[Sync, ...]:
        """The array, newest first; empty before the first sync."""
        return tuple(self._syncs)

    def _take_in(self, new: Sync) -> None:
        """Put it first and move on, place by place, what its neighbour no longer leaves room for.

        A sync that moves takes the first place that it is neither too old nor too near for; one
        that finds none is forgotten. The places beyond the first one still in order stay.
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
    """Invariant B, for two syncs at these places."""
    bound = _wrap_to_long(farther[0] + _wrap_to_long(1 << other) - _wrap_to_long(1 << place))
    return nearer is farther or bound < 0 or nearer[0] <= bound


def _is_far_enough(nearer: Sync, farther: Sync, place: int) -> bool:
    """Invariant C, for a sync at this place and a farther one."""
    bound = _wrap_to_long(farther[0] + (1 << max(place - 2, 0)))
    return nearer is farther or (bound >= 0 and nearer[0] >= bound)


def _wrap_to_long(value: int) -> int:
    """What is left of it in 64 bits with a sign."""
    return (value + 2**63) % 2**64 - 2**63
