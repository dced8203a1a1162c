"""Stopwatch for seconds of watching, and their conversion to clock times.

A clock that steps back adds nothing. A clock that jumps, or a process that was held up, adds at
most one interval. Between two such marks both run alike, so that a second of watching converts to
the same moment in every pass.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

ClockMark = tuple[float, float]  # seconds of watching, Unix seconds

RESTART_INTERVALS: Final = 2  # what was remembered may be one interval old by itself
MARKS_MAX: Final = 256  # beyond it the oldest go: moments before them are named by the next one


class Stopwatch:
    """Stopwatch for seconds of watching; `w` is the total so far."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._at: float | None = None
        self._recalled = False
        self._marks: list[ClockMark] = []
        self.w = 0.0

    @property
    def marks(self) -> tuple[ClockMark, ...]:
        """Return the marks to persist across restarts, beside the newest moment and `w`."""
        return tuple(self._marks)

    def recall(self, moment: float, w: float, marks: Iterable[ClockMark]) -> None:
        """Restore the total `w` at a moment, and the marks."""
        self._at, self.w = moment, w
        self._marks = list(marks) or [(w, moment)]
        self._recalled = True

    def advance(self, moment: float) -> None:
        """Set the clock to a moment and add the seconds that passed, at most one interval.

        A short restart is no interruption. After a restart that took more than RESTART_INTERVALS
        intervals nothing is added.
        """
        passed = 0.0 if self._at is None else moment - self._at
        counted = min(max(passed, 0.0), self._interval_s)
        if self._recalled and passed > RESTART_INTERVALS * self._interval_s:
            counted = 0.0
        self.w += counted
        if self._at is None or counted != passed:
            self._marks = [*self._marks[1 - MARKS_MAX :], (self.w, moment)]
        self._at, self._recalled = moment, False

    def clock(self, w: float) -> float:
        """Return the Unix time of a second of watching."""
        if not self._marks:
            return w
        number = bisect_right(self._marks, w, key=lambda mark: mark[0])
        watched, moment = self._marks[max(0, number - 1)]
        return moment + (w - watched)
