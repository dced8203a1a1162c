"""What became of the records of one upstream partition: copied, lost, or not decided yet.

`settled` is the first offset that nothing is decided about: everything before it was copied or is
counted as lost. It never falls while the log is the same one, so that a rewind, whoever made it,
loses nothing a second time. A committed position is up to one flush old, so nothing is counted at
first sight: what was copied without having been committed shows with the next commit. The rules:

1  Retention. The log start lies beyond the position, and the position has not moved for
   `patience_s` (one flush), or the connector is stopped: from `settled` to the log start is lost.
2  Retention, and the position was beyond the log start again before that: MM2 went over the gap
   (it starts at the log start without a word), or had copied what retention then took. Where syncs
   are emitted they tell which (state/trail.py), if they come within `patience_s`. Where none ever
   were, it is lost only if it had waited for `patience_s` and is more than could have been copied
   at three times the greatest pace seen. Otherwise nobody can tell, and nothing is counted.
3  Another topic (its id changed, or its end fell below the position): what was not copied of the
   old one is lost, up to the last end that was seen, once its last commits had `patience_s`.
4  Another topic, and the position goes on from where it stood: MM2 sought into the new log and
   passed over its records up to there. If it goes back instead, or had no position any more as it
   was reset, it copies the new log from its start, and nothing of it is lost. Until one of the two
   happens neither is counted.
5  An edit: the position lies beyond the end of a log that did not fall, or it moved while the
   connector was stopped, with its last flush long done and no sync. As in 4: what lies between is
   lost when the position goes on from there, and not if it is taken back, or MM2 met the end of the
   log and began at its start.

Not told, because offsets do not tell it: an edit within the log that was undone or used while
nobody looked; a log that was cut but not below the position; a jump while the daemon was down and
MM2 was not, or one that target-side transaction markers hide in the syncs; what retention takes of
a new topic before MM2 shows where it is in it. Called by state/fate.py only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.state.loss.rates import PartitionRates
from offsetwatch.state.loss.sync_gaps import Range, SyncsSinceLastPoll

RETENTION: Final = "retention"
RECREATED: Final = "recreated"
ALTERED: Final = "altered"
CAUSES: Final = (ALTERED, RECREATED, RETENTION)

LostRange = tuple[str, int, int]  # cause, first and last offset
LossCounts = tuple[tuple[str, int], ...]
NOTHING_LOST: Final[LossCounts] = tuple((cause, 0) for cause in CAUSES)


@dataclass(frozen=True, slots=True)
class PartitionInspection:
    """A position, and the log bounds that were read after it.

    end         where the flow's work ends
    renewed     the topic is another one than at the last look
    quiet       the connector was stopped, and its last flush over, at the last look and now
    runs        it ran at the last look and now
    news        what the syncs tell since the last look; None if they tell nothing of this partition
    patience_s  within which what is copied is committed: one flush
    """

    now: float
    position: int
    start: int
    end: int
    renewed: bool = False
    quiet: bool = False
    runs: bool = False
    news: SyncsSinceLastPoll | None = None
    patience_s: float = 60.0

    def waited(self, since: float) -> bool:
        """Has a commit had the time to come since then?"""
        return self.now - since >= self.patience_s


@dataclass(slots=True)
class PositionJump:
    """The position stands where it cannot have come by copying (rules 4 and 5). If it goes on from
    `mark`, the offsets from `first` to there are lost.

    harmless    MM2 began at the log start, as its syncs tell or because it ran
    """

    mark: int
    first: int
    cause: str
    since: float
    harmless: bool = False


@dataclass(slots=True)
class PartitionLossAccount:
    """One upstream partition in one flow.

    position    at the last look; None if it had none
    start, end  of the log, at the last look
    moved_at    when the position was first seen here
    looked_at   when it was last looked at
    doubt_since from when a log start beyond `settled` waits for the position to tell
    tail        of the old topic: not copied, as far as its commits tell (rule 3)
    lost        ever counted, by cause
    """

    position: int | None
    settled: int
    start: int
    end: int
    moved_at: float
    looked_at: float = 0.0
    doubt_since: float | None = None
    leap: PositionJump | None = None
    tail: Range | None = None
    lost: LossCounts = NOTHING_LOST
    headroom_s: float | None = None
    pace: PartitionRates = field(default_factory=PartitionRates)

    @classmethod
    def opened(cls, seen: PartitionInspection) -> PartitionLossAccount:
        """Of a partition that is seen for the first time."""
        made = cls(
            position=seen.position,
            settled=min(seen.position + 1, seen.end),
            start=seen.start,
            end=seen.end,
            moved_at=seen.now,
        )
        made.pace.position_seen(seen.position, seen.end, seen.now)
        return made

    @property
    def waits(self) -> bool:
        """Is what the syncs told still needed? Of an edit, what they tell after it was found."""
        if self.leap is not None:
            return self.leap.cause == ALTERED and self.leap.since < self.looked_at
        return self.doubt_since is not None

    def fallen(self, seen: PartitionInspection) -> bool:
        """Did the log end fall below the position?"""
        return seen.position >= seen.end and seen.end < self.end

    def position_gone(self) -> None:
        """The offset was reset: MM2 begins anew, at the log start unless it is told otherwise."""
        self.position = self.doubt_since = self.headroom_s = None
        self.leap = None
        self.pace.restart()

    def rests(self, position: int, start: int, end: int, now: float) -> bool:
        """Take in a look that can say nothing new, and tell whether it is one: position and log are
        as they were, all of it is copied, and nothing waits to be decided. It must be of the same
        topic, and no sync may have come.
        """
        if (
            position != self.position
            or end != self.end
            or start != self.start
            or position != end - 1
            or self.settled != end
            or self.leap is not None
            or self.doubt_since is not None
            or self.tail is not None
            or self.headroom_s is not None
        ):
            return False
        self.pace.position_seen(position, end, now)
        self.looked_at = now
        return True

    def look(self, seen: PartitionInspection) -> list[LostRange]:
        """Take in a look; what is lost since the last one."""
        lost: list[LostRange] = []
        if seen.renewed or self.fallen(seen):
            lost += self._renew(seen)
        elif self.leap is not None:
            lost += self._leap_told(self.leap, seen)
        if self.leap is None and not seen.renewed:
            self._find_leap(seen)
        lost += self._close_tail(seen)
        if self.leap is None:
            lost += self._retention(seen)
        self._move_on(seen)
        lost = [key for key in lost if key[1] <= key[2]]
        for cause, first, last in lost:
            self.lost = tuple(
                (name, count + (last - first + 1) * (name == cause)) for name, count in self.lost
            )
        return lost

    # --- rules 1 and 2 ---------------------------------------------------------------------------

    def _retention(self, seen: PartitionInspection) -> Iterator[LostRange]:
        reached = seen.position + 1
        if seen.start <= self.settled:
            self.settled = max(self.settled, reached)
        elif reached < seen.start:
            self.settled = max(self.settled, reached)
            if self.doubt_since is None or seen.position != self.position:
                self.doubt_since = seen.now
            if seen.quiet or seen.waited(self.doubt_since):
                yield RETENTION, self.settled, seen.start - 1
                self.settled, self.doubt_since = seen.start, None
        else:
            yield from self._passed_over(seen)

    def _passed_over(self, seen: PartitionInspection) -> Iterator[LostRange]:
        """Rule 2."""
        news, first = seen.news, self.settled
        if news is None:
            reach = self.pace.reach(
                seen.start, seen.now - self.moved_at, seen.now, over_s=seen.patience_s
            )
            if reach is not None and seen.start - first > reach:
                yield RETENTION, first, seen.start - 1
        elif news.newest < seen.start:
            self.doubt_since = seen.now if self.doubt_since is None else self.doubt_since
            if not seen.waited(self.doubt_since):
                return
        for gap in sorted(() if news is None else news.gaps):
            yield RETENTION, max(first, gap[0]), min(gap[1], seen.start - 1)
            first = max(first, gap[1] + 1)
        self.settled, self.doubt_since = seen.position + 1, None

    # --- rules 3, 4 and 5 ------------------------------------------------------------------------

    def _renew(self, seen: PartitionInspection) -> Iterator[LostRange]:
        """The log is another one, or has lost its end."""
        if self.tail is not None:
            yield RECREATED, *self.tail
        first, last = self.settled, self.end - 1
        if self.position is None:  # it was reset: what runs has begun at the start of the new log
            back = seen.position < seen.end and not seen.quiet
        else:
            back = seen.position < min(self.position, seen.end)
            if self.leap is None:  # what was committed of the old log, in the meantime as well
                reached = self.position if back else seen.position
                first = max(first, min(reached + 1, self.end))
        new = seen.renewed or seen.start < self.start
        self.tail = (first if new else max(first, seen.end), last)
        self.settled = seen.start if new else seen.end
        self.doubt_since = None
        self.leap = PositionJump(seen.position, self.settled, RECREATED, seen.now)
        if seen.news is not None:
            self._syncs_told(self.leap, seen.news)
        if back:  # this is already a position in the new log
            self.leap = None
        self.start = seen.start
        self.pace.restart()

    def _leap_told(self, leap: PositionJump, seen: PartitionInspection) -> Iterator[LostRange]:
        """Which of the two happened?"""
        position = seen.position
        if seen.news is not None:
            self._syncs_told(leap, seen.news)
        leap.harmless |= seen.runs and position >= seen.end and seen.waited(leap.since)
        leap.harmless &= not seen.quiet  # it will be started anew, from the position
        if position == leap.mark:
            copied = seen.news is not None and seen.news.came and seen.news.newest >= leap.mark
            if leap.harmless and copied and position < seen.end:
                self.leap = None  # it came back to where the edit had put it
            return
        if self.tail is not None and self._still_of_the_old(leap, self.tail[1], seen):
            leap.mark, self.tail = position, (max(self.tail[0], position + 1), self.tail[1])
        elif position >= seen.end:
            leap.mark = position
        elif seen.quiet:  # a person moved it again
            leap.mark = position
            self.leap = leap if position >= leap.first else None
        elif position > leap.mark and not leap.harmless:
            last = leap.mark
            for gap in sorted(() if seen.news is None else seen.news.gaps):
                if gap[0] <= last + 1:  # it stood further than its commits said
                    last = max(last, gap[1])
            yield leap.cause, leap.first, last
            self.leap, self.settled = None, max(self.settled, last + 1)
        else:
            self.leap = None
            if leap.cause == RECREATED:  # else retention may have taken what it never went back to
                self.settled = max(self.settled, position + 1)

    def _syncs_told(self, leap: PositionJump, news: SyncsSinceLastPoll) -> None:
        """A sync from before the mark is of a log that is copied from its start. Of another topic
        it has to be one that went back, or it may be of the old one.
        """
        if leap.cause == ALTERED:
            leap.harmless |= news.lowest <= leap.mark
        else:
            leap.harmless |= news.back_to <= leap.mark
            if leap.harmless and news.came:
                self.settled = max(self.settled, news.newest + 1)

    @staticmethod
    def _still_of_the_old(leap: PositionJump, last: int, seen: PartitionInspection) -> bool:
        """May this be the last commit of what was copied from the old topic?"""
        late = not seen.quiet and not seen.waited(leap.since)
        return late and not leap.harmless and leap.mark < seen.position <= last

    def _close_tail(self, seen: PartitionInspection) -> Iterator[LostRange]:
        if self.tail is None:
            return
        if self.leap is None or seen.quiet or seen.waited(self.leap.since):
            yield RECREATED, *self.tail
            self.tail = None

    def _find_leap(self, seen: PartitionInspection) -> None:
        """Rule 5."""
        copied = seen.news is not None and seen.news.came
        moved = self.position is not None and seen.position > self.position
        by_hand = seen.quiet and moved and not copied and seen.position >= self.settled
        if seen.position >= seen.end or by_hand:
            self.leap = PositionJump(seen.position, self.settled, ALTERED, seen.now)

    # --- details ---------------------------------------------------------------------------------

    def _move_on(self, seen: PartitionInspection) -> None:
        if seen.position != self.position:
            if self.position is not None and seen.position > self.position and self.leap is None:
                self.pace.advanced(seen.position - self.position, seen.now - self.moved_at)
            self.moved_at = seen.now
        if seen.start != self.start:
            self.pace.start_moved(seen.start, seen.now)
        self.pace.position_seen(seen.position, seen.end, seen.now)
        self.position, self.start, self.end = seen.position, seen.start, seen.end
        self.looked_at = seen.now
        self.headroom_s = None
        if (
            self.leap is None and seen.position < seen.end - 1
        ):  # what is copied already, retention may take
            self.headroom_s = self.pace.seconds(
                seen.position + 1 - seen.start, seen.position, seen.now, over_s=seen.patience_s
            )
