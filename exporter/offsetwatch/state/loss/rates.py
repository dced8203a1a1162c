"""Rates of a partition's log start and position, for the time until retention reaches the position.

Retention deletes whole segments, so a log start stands still and then jumps. One jump gives no
rate: it may delete half an hour of records at once. The rate of retention is the number of records
deleted after the first observed jump, divided by the time from there to the last one. If the next
jump is overdue, the time extends to the moment at which it became so. There is no rate before the
second jump. The rate of a position is its advance over the last minutes, between two moments:
commits come once per flush.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 600.0  # a position's pace is over half of this at least, once that has passed
JUMPS_S: Final = 6 * 3600.0  # segments may roll once an hour
JUMPS_MAX: Final = 16  # per partition, of which there may be 100,000; every second one goes beyond

LogStartJump = tuple[float, int]  # when it was seen, and the log start after it
PositionSample = tuple[float, int, int]  # when, the position and the log end then


@dataclass(slots=True)
class PartitionRates:
    """Rates of one partition.

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
        """Return the seconds until retention reaches the position.

        None if it does not come closer, or if too little was measured.
        """
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
