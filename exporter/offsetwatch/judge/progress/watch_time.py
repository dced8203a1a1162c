"""Seconds of watching, and the clock's moments that they stand for.

A step back of the clock adds nothing, a leap at most one interval: so does a process that was held
up. Between two such marks both run alike, so that what began at one second of watching is named by
the same moment at every look.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

ClockMark = tuple[float, float]  # seconds of watching, Unix seconds

RESTART_INTERVALS: Final = 2  # what was remembered may be one interval old by itself
MARKS_MAX: Final = 256  # beyond it the oldest go: moments before them are named by the next one


class Stopwatch:
    """See the module. `w` is how long was watched so far."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._at: float | None = None
        self._recalled = False
        self._marks: list[ClockMark] = []
        self.w = 0.0

    @property
    def marks(self) -> tuple[ClockMark, ...]:
        """What a restart must not forget, beside the newest moment and `w`."""
        return tuple(self._marks)

    def recall(self, moment: float, w: float, marks: Iterable[ClockMark]) -> None:
        """Go on from a moment at which so long was watched."""
        self._at, self.w = moment, w
        self._marks = list(marks) or [(w, moment)]
        self._recalled = True

    def advance(self, moment: float) -> None:
        """Let the clock be `at`. A restart is no interruption, and a daemon that was down is."""
        passed = 0.0 if self._at is None else moment - self._at
        counted = min(max(passed, 0.0), self._interval_s)
        if self._recalled and passed > RESTART_INTERVALS * self._interval_s:
            counted = 0.0
        self.w += counted
        if self._at is None or counted != passed:
            self._marks = [*self._marks[1 - MARKS_MAX :], (self.w, moment)]
        self._at, self._recalled = moment, False

    def clock(self, w: float) -> float:
        """Return the moment of a second of watching, in Unix seconds."""
        if not self._marks:
            return w
        number = bisect_right(self._marks, w, key=lambda mark: mark[0])
        watched, moment = self._marks[max(0, number - 1)]
        return moment + (w - watched)
