"""Loss account of one upstream partition: which records were copied, lost, or are undecided.

`settled` is the first offset that is undecided: everything before it was copied or is counted as
lost. It never falls while the log is the same one, so that a rewind, whatever its cause, loses
nothing a second time. A committed position is up to one flush old, so nothing is counted when it is
first found: records that were copied and not committed show with the next commit. The rules:

1  Retention. The log start lies beyond the position, and the position has not moved for
   `patience_s` (one flush), or the connector is stopped: from `settled` to the log start is lost.
2  Retention, and the position was beyond the log start again before that: MM2 skipped the gap
   (it starts at the log start without a warning), or had copied what retention then deleted. Where
   syncs are emitted they show which (mirror/offset_syncs.py), if they come within `patience_s`.
   Where none ever were, it is lost only if it had waited for `patience_s` and is more than could
   have been copied at three times the greatest rate observed. Otherwise the cause cannot be
   determined, and nothing is counted.
3  Another topic (its id changed, or its end fell below the position): what was not copied of the
   old one is lost, up to the last end that was read, once its last commits had `patience_s`.
4  Another topic, and the position goes on from where it stood: MM2 sought into the new log and
   skipped its records up to there. If it goes back instead, or was reset and had no position any
   more, it copies the new log from its start, and nothing of it is lost. Until one of the two
   happens neither is counted.
5  An edit: the position lies beyond the end of a log that did not fall, or it moved while the
   connector was stopped, with its last flush long done and no sync. As in 4: what lies between is
   lost when the position goes on from there, and not if it is taken back, or MM2 met the end of the
   log and began at its start.

Not detected, because offsets do not show it: an edit within the log that was undone or used between
two inspections; a log that was truncated but not below the position; a jump while the daemon was
down and MM2 was not, or one that target-side transaction markers hide in the syncs; what retention
deletes from a new topic before MM2 shows its position in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.state.mirror.offset_syncs import Range, SyncsSinceLastPoll

WINDOW_S: Final = 600.0  # a position's pace is over half of this at least, once that has passed
JUMPS_S: Final = 6 * 3600.0  # segments may roll once an hour
JUMPS_MAX: Final = 16  # per partition, of which there may be 100,000; every second one goes beyond

LogStartJump = tuple[float, int]  # when it was seen, and the log start after it
PositionSample = tuple[float, int, int]  # when, the position and the log end then


@dataclass(slots=True)
class PartitionRates:
    """Rates of a partition's log start and position.

    Retention deletes whole segments, so a log start stands still and then jumps. One jump gives no
    rate: it may delete half an hour of records at once. The rate of retention is the number of
    records deleted after the first observed jump, divided by the time from there to the last one,
    or to when the next is overdue. There is no rate before the second jump. The rate of a position
    is its advance between two moments in the last minutes: commits come once per flush.

    anchor, middle   moments of the position: the rate is measured from the first of them; the
                     second takes its place when it is half a window old
    best, best_before    the greatest rate between two changes of the position, in this half of the
                     window and in the one before
    jumps            the log start after each observed jump, and when
    """

    anchor: PositionSample | None = None
    middle: PositionSample | None = None
    best: float = 0.0
    best_before: float = 0.0
    jumps: tuple[LogStartJump, ...] = ()

    def restart(self) -> None:
        """Drop all measurements: they belong to another log, or to none."""
        self.anchor = self.middle = None
        self.best = self.best_before = 0.0
        self.jumps = ()

    def start_moved(self, start: int, now: float) -> None:
        """Record that the log start has moved to `start` since the last inspection."""
        fresh = tuple(jump for jump in self.jumps if now - jump[0] <= JUMPS_S)
        if len(fresh) >= JUMPS_MAX:
            fresh = fresh[::2]
        self.jumps = (*fresh, (now, start))

    def position_seen(self, position: int, end: int, now: float) -> None:
        """Record the position at an inspection, moved or not."""
        if self.anchor is None or self.middle is None or position < self.middle[1]:
            self.anchor = self.middle = (now, position, end)
            self.best = self.best_before = 0.0
        elif now - self.middle[0] >= WINDOW_S / 2:
            self.anchor, self.middle = self.middle, (now, position, end)
            self.best_before, self.best = self.best, 0.0

    def advanced(self, records: int, seconds: float) -> None:
        """Record how far the position advanced in the time since it last moved."""
        if seconds > 0:
            self.best = max(self.best, records / seconds)

    def reach(self, start: int, seconds: float, now: float, *, over_s: float) -> float | None:
        """Return how many records may have been copied in so many seconds, as an upper bound.

        It is three times the greatest rate observed. None if that is not known: the rate of a flow
        that has copied everything is only that of its producers. So all records up to `start` must
        have waited for `over_s`.
        """
        if self.anchor is None or now - self.anchor[0] < over_s or start > self.anchor[2]:
            return None
        return 3 * max(self.best, self.best_before) * seconds

    def seconds(self, headroom: int, position: int, now: float, *, over_s: float) -> float | None:
        """Return the seconds until retention reaches the position; None if that is not known."""
        if headroom <= 0:
            return 0.0
        purge = self._purge(now)
        if purge is None or self.anchor is None or now - self.anchor[0] < over_s:
            return None
        since, then, _ = self.anchor
        closing = purge - (position - then) / (now - since)
        return headroom / closing if closing > 0 else None

    def _purge(self, now: float) -> float | None:
        """Return the rate of retention in records per second; None before the second jump."""
        jumps = [jump for jump in self.jumps if now - jump[0] <= JUMPS_S]
        if len(jumps) < 2 or jumps[-1][0] <= jumps[0][0]:
            return None
        (first_at, first), (last_at, last) = jumps[0], jumps[-1]
        between = (last_at - first_at) / (len(jumps) - 1)
        return (last - first) / (max(last_at, now - between) - first_at)


RETENTION: Final = "retention"
RECREATED: Final = "recreated"
ALTERED: Final = "altered"
CAUSES: Final = (ALTERED, RECREATED, RETENTION)

LostRange = tuple[str, int, int]  # cause, first and last offset
LossCounts = tuple[tuple[str, int], ...]
NOTHING_LOST: Final[LossCounts] = tuple((cause, 0) for cause in CAUSES)


@dataclass(frozen=True, slots=True)
class PartitionInspection:
    """Input of one inspection: a position, and the log bounds that were read after it.

    end         end of the log as the flow can read it
    renewed     the topic is another one than at the last inspection
    quiet       the connector was stopped, and its last flush over, at the last inspection and now
    runs        it ran at the last inspection and now
    news        syncs since the last inspection; None if there are none to use for this partition
    patience_s  time within which copied records are committed: one flush
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
        """Return whether there was time for a commit since then."""
        return self.now - since >= self.patience_s


@dataclass(slots=True)
class PositionJump:
    """Jump of a position to an offset that it cannot have reached by copying (rules 4 and 5).

    If the position goes on from `mark`, the offsets from `first` to there are lost.

    harmless    MM2 began at the log start, as its syncs show or because it ran
    """

    mark: int
    first: int
    cause: str
    since: float
    harmless: bool = False


@dataclass(slots=True)
class PartitionLossAccount:
    """Loss account of one upstream partition in one flow.

    position    at the last inspection; None if it had none
    start, end  of the log, at the last inspection
    moved_at    when the position was first found here
    looked_at   when it was last inspected
    doubt_since since when a log start beyond `settled` waits for the next position
    tail        range of the old topic that was not copied, as far as its commits show (rule 3)
    lost        records ever counted, by cause
    generation  number of recreations of the topic by id that it has applied
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
    generation: int = 0

    @classmethod
    def opened(cls, inspection: PartitionInspection) -> PartitionLossAccount:
        """Build the account of a partition at its first inspection."""
        made = cls(
            position=inspection.position,
            settled=min(inspection.position + 1, inspection.end),
            start=inspection.start,
            end=inspection.end,
            moved_at=inspection.now,
        )
        made.pace.position_seen(inspection.position, inspection.end, inspection.now)
        return made

    @property
    def waits(self) -> bool:
        """Return whether the syncs so far are still needed.

        For an edit, only syncs after it was found are.
        """
        if self.leap is not None:
            return self.leap.cause == ALTERED and self.leap.since < self.looked_at
        return self.doubt_since is not None

    def fallen(self, inspection: PartitionInspection) -> bool:
        """Return whether the log end fell below the position."""
        return inspection.position >= inspection.end and inspection.end < self.end

    def position_gone(self) -> None:
        """Apply a reset of the offset: MM2 begins again, by default at the log start."""
        self.position = self.doubt_since = self.headroom_s = None
        self.leap = None
        self.pace.restart()

    def rests(self, position: int, start: int, end: int, now: float) -> bool:
        """Apply an inspection that changes nothing. Return False if it is not such a one.

        Position and log must be unchanged, all records copied, and nothing undecided. The topic
        must be the same, and no sync may have arrived.
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

    def look(self, inspection: PartitionInspection) -> list[LostRange]:
        """Apply an inspection. Return the ranges lost since the last one."""
        lost: list[LostRange] = []
        if inspection.renewed or self.fallen(inspection):
            lost += self._renew(inspection)
        elif self.leap is not None:
            lost += self._leap_told(self.leap, inspection)
        if self.leap is None and not inspection.renewed:
            self._find_leap(inspection)
        lost += self._close_tail(inspection)
        if self.leap is None:
            lost += self._retention(inspection)
        self._move_on(inspection)
        lost = [key for key in lost if key[1] <= key[2]]
        for cause, first, last in lost:
            self.lost = tuple(
                (name, count + (last - first + 1) * (name == cause)) for name, count in self.lost
            )
        return lost

    # --- rules 1 and 2 ---------------------------------------------------------------------------

    def _retention(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        reached = inspection.position + 1
        if inspection.start <= self.settled:
            self.settled = max(self.settled, reached)
        elif reached < inspection.start:
            self.settled = max(self.settled, reached)
            if self.doubt_since is None or inspection.position != self.position:
                self.doubt_since = inspection.now
            if inspection.quiet or inspection.waited(self.doubt_since):
                yield RETENTION, self.settled, inspection.start - 1
                self.settled, self.doubt_since = inspection.start, None
        else:
            yield from self._passed_over(inspection)

    def _passed_over(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        """Apply rule 2."""
        syncs, first = inspection.news, self.settled
        if syncs is None:
            reach = self.pace.reach(
                inspection.start,
                inspection.now - self.moved_at,
                inspection.now,
                over_s=inspection.patience_s,
            )
            if reach is not None and inspection.start - first > reach:
                yield RETENTION, first, inspection.start - 1
        elif syncs.newest < inspection.start:
            self.doubt_since = inspection.now if self.doubt_since is None else self.doubt_since
            if not inspection.waited(self.doubt_since):
                return
        for gap in sorted(() if syncs is None else syncs.gaps):
            yield RETENTION, max(first, gap[0]), min(gap[1], inspection.start - 1)
            first = max(first, gap[1] + 1)
        self.settled, self.doubt_since = inspection.position + 1, None

    # --- rules 3, 4 and 5 ------------------------------------------------------------------------

    def _renew(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        """Apply a log that is another one, or whose end fell (rules 3 and 4)."""
        if self.tail is not None:
            yield RECREATED, *self.tail
        first, last = self.settled, self.end - 1
        if self.position is None:  # it was reset: what runs has begun at the start of the new log
            back = inspection.position < inspection.end and not inspection.quiet
        else:
            back = inspection.position < min(self.position, inspection.end)
            if self.leap is None:  # what was committed of the old log, in the meantime as well
                reached = self.position if back else inspection.position
                first = max(first, min(reached + 1, self.end))
        new = inspection.renewed or inspection.start < self.start
        self.tail = (first if new else max(first, inspection.end), last)
        self.settled = inspection.start if new else inspection.end
        self.doubt_since = None
        self.leap = PositionJump(inspection.position, self.settled, RECREATED, inspection.now)
        if inspection.news is not None:
            self._syncs_told(self.leap, inspection.news)
        if back:  # this is already a position in the new log
            self.leap = None
        self.start = inspection.start
        self.pace.restart()

    def _leap_told(
        self, leap: PositionJump, inspection: PartitionInspection
    ) -> Iterator[LostRange]:
        """Decide an open jump if the position shows its outcome (rules 4 and 5)."""
        position = inspection.position
        if inspection.news is not None:
            self._syncs_told(leap, inspection.news)
        leap.harmless |= (
            inspection.runs and position >= inspection.end and inspection.waited(leap.since)
        )
        leap.harmless &= not inspection.quiet  # it will be started anew, from the position
        if position == leap.mark:
            copied = (
                inspection.news is not None
                and inspection.news.came
                and inspection.news.newest >= leap.mark
            )
            if leap.harmless and copied and position < inspection.end:
                self.leap = None  # it came back to where the edit had put it
            return
        if self.tail is not None and self._still_of_the_old(leap, self.tail[1], inspection):
            leap.mark, self.tail = position, (max(self.tail[0], position + 1), self.tail[1])
        elif position >= inspection.end:
            leap.mark = position
        elif inspection.quiet:  # a person moved it again
            leap.mark = position
            self.leap = leap if position >= leap.first else None
        elif position > leap.mark and not leap.harmless:
            last = leap.mark
            for gap in sorted(() if inspection.news is None else inspection.news.gaps):
                if gap[0] <= last + 1:  # it stood further than its commits said
                    last = max(last, gap[1])
            yield leap.cause, leap.first, last
            self.leap, self.settled = None, max(self.settled, last + 1)
        else:
            self.leap = None
            if leap.cause == RECREATED:  # else retention may have taken what it never went back to
                self.settled = max(self.settled, position + 1)

    def _syncs_told(self, leap: PositionJump, syncs: SyncsSinceLastPoll) -> None:
        """Apply syncs to an open jump: a sync from before the mark shows a copy from the log start.

        For another topic it must be a sync that went back: others may be of the old topic.
        """
        if leap.cause == ALTERED:
            leap.harmless |= syncs.lowest <= leap.mark
        else:
            leap.harmless |= syncs.back_to <= leap.mark
            if leap.harmless and syncs.came:
                self.settled = max(self.settled, syncs.newest + 1)

    @staticmethod
    def _still_of_the_old(leap: PositionJump, last: int, inspection: PartitionInspection) -> bool:
        """Return whether this may be the last commit of records copied from the old topic."""
        late = not inspection.quiet and not inspection.waited(leap.since)
        return late and not leap.harmless and leap.mark < inspection.position <= last

    def _close_tail(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        if self.tail is None:
            return
        if self.leap is None or inspection.quiet or inspection.waited(self.leap.since):
            yield RECREATED, *self.tail
            self.tail = None

    def _find_leap(self, inspection: PartitionInspection) -> None:
        """Apply rule 5."""
        copied = inspection.news is not None and inspection.news.came
        moved = self.position is not None and inspection.position > self.position
        by_hand = inspection.quiet and moved and not copied and inspection.position >= self.settled
        if inspection.position >= inspection.end or by_hand:
            self.leap = PositionJump(inspection.position, self.settled, ALTERED, inspection.now)

    # --- details ---------------------------------------------------------------------------------

    def _move_on(self, inspection: PartitionInspection) -> None:
        if inspection.position != self.position:
            if (
                self.position is not None
                and inspection.position > self.position
                and self.leap is None
            ):
                self.pace.advanced(
                    inspection.position - self.position, inspection.now - self.moved_at
                )
            self.moved_at = inspection.now
        if inspection.start != self.start:
            self.pace.start_moved(inspection.start, inspection.now)
        self.pace.position_seen(inspection.position, inspection.end, inspection.now)
        self.position, self.start, self.end = inspection.position, inspection.start, inspection.end
        self.looked_at = inspection.now
        self.headroom_s = None
        if (
            self.leap is None and inspection.position < inspection.end - 1
        ):  # what is copied already, retention may take
            self.headroom_s = self.pace.seconds(
                inspection.position + 1 - inspection.start,
                inspection.position,
                inspection.now,
                over_s=inspection.patience_s,
            )
