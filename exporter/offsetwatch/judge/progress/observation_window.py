"""Observations of one source, mirrored or sink partition over the last intervals.

Times named `_w` are seconds of WATCHING, not of the clock. A clock that is set back, a process that
was down and an input that could not be read add nothing to them. So unobserved time is neither
progress nor a stall; only the positions before and after it count. Moments in texts are clock times
all the same: `gaps` holds the seconds that were left out since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from math import inf, nextafter
from typing import Final, NamedTuple

import msgspec

from offsetwatch.decode.dialects import compare_offsets, has_reached_offset
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.settings import INTERVALS_OF_EVIDENCE, JudgeSettings
from offsetwatch.model.offsets import Order, SourceOffset, Undecodable

LOG_END_MOVE_SPACING: Final = 0.45  # of an interval: what moved the log end in between is one burst
GAPS_MAX: Final = 16  # of one partition; moments before older ones are named too late
_NO_POSITION: Final = -1  # stands for the position of what was never replicated: before all others


ObservationGaps = tuple[tuple[float, float], ...]


class Sample(NamedTuple):
    """State of a partition at one moment.

    text        offset as text; another text is another offset
    offset      decoded offset, of a source whose dialect knows an order; None where `position` has
                it
    position    committed position, a number with an order
    best        furthest position known to be done, at least `position`
    commits     number of commits, as our tail has counted them
    end, lag, caught_up    the second signal, where there is a log whose end can be read
    behind_since    timestamp of the oldest unread record, by the producer's clock
    changed_at      time at which the commit of this position was read, by our clock
    restarted_from    offset that its task did not load when it began to look up another raw key;
                None once the task has come as far again
    """

    at: float
    text: str | None
    dialect: str = ""
    offset: SourceOffset | None = None
    position: int | None = None
    best: int | None = None
    commits: int = 0
    end: int | None = None
    lag: int | None = None
    caught_up: bool | None = None
    behind_since: float | None = None
    changed_at: float | None = None
    restarted_from: str | None = None


class ObservationWindow(msgspec.Struct, array_like=True, gc=False):
    """State of one partition. It is stored on disk as it is: fields are only ever added at the end.

    first_w, last_w    first and last observation
    still_w    when it last moved, or when patience began again
    moved_w    when it last moved; None if it has not since it is observed
    waiting_w  since when work waits; None if none does
    sure       True if work certainly waits: a probe says so, or the log end advanced three times,
               half an interval apart or more. Otherwise it may be transaction markers and what
               compaction left
    end_w      since when the log end has not advanced
    high       furthest position; more than the present one after it went back
    furthest   the same as the text of an offset; None unless it went back
    commits    count of our tail; None after a restart, when the count starts again
    repeats, repeated_w    commits since it last moved, and when the newest was observed
    graced     True if patience began again since it last moved, because its connector was restarted
    restarted  True if it went back because its task looks up another raw key; `has_reached_offset`
               then decides whether it has come as far again
    moves      last moves, up to one window before the newest; longest_s is the longest time between
               any two moves ever
    samples    (w, log end, lag), one per interval
    gaps       (w of the observation before, seconds left out), oldest first: see `subtract_gaps`

    Most of 100,000 partitions never move: an empty tuple takes no memory, and an empty list does.
    """

    first_w: float
    last_w: float
    still_w: float
    text: str | None = None
    best: int | None = None
    high: int | None = None
    position: int | None = None
    furthest: str | None = None
    commits: int | None = None
    moved_w: float | None = None
    waiting_w: float | None = None
    sure: bool = False
    end: int | None = None
    end_w: float = 0.0
    ends_moved: int = 0
    counted_w: float = 0.0
    repeats: int = 0
    repeated_w: float | None = None
    graced: bool = False
    moves: tuple[float, ...] = ()
    longest_s: float = 0.0
    samples: tuple[tuple[float, int, int], ...] = ()
    lag: int | None = None
    restarted: bool = False
    gaps: ObservationGaps = ()

    @classmethod
    def opened(cls, sample: Sample, w: float) -> ObservationWindow:
        """Return the window of a first sample: nothing has moved yet."""
        window = cls(first_w=w, last_w=w, still_w=w, end_w=w, counted_w=w)
        window._keep(sample)
        window.high = sample.position
        window._wait(sample, w, w)
        return window

    def take(self, sample: Sample, w: float, settings: JudgeSettings) -> None:
        """Update the window with a new sample."""
        beyond_s = w - self.last_w - settings.interval_s * 1.5
        self._leave_out(beyond_s, settings.interval_s)
        # What is seen for the first time after a gap did not begin before it.
        earliest = nextafter(self.last_w, inf) if beyond_s > 0 else self.last_w
        changed = sample.text != self.text
        moved = changed or _to_comparable(sample.best) > _to_comparable(self.best)
        if moved:
            ago = _compute_elapsed(sample.at, sample.changed_at) if changed else 0.0
            self._move(sample, _clamp(earliest, w, w - ago), settings)
        new = 0 if self.commits is None else max(0, sample.commits - self.commits)
        if new and not moved:
            self.repeats += new
            self.repeated_w = w
        if sample.end is not None and sample.end != self.end:
            self._end_moved(w, moved=moved, interval_s=settings.interval_s)
        if sample.restarted_from is not None:
            self.furthest, self.restarted = sample.restarted_from, True
        if sample.dialect:
            self.high = None  # its text orders it, and no number
        else:
            if sample.restarted_from is None:
                self.furthest, self.restarted = None, False
            self._order(sample)
        self._wait(sample, w, earliest)
        self._keep(sample)
        if sample.end is not None and sample.lag is not None:
            self._sample(w, sample.end, sample.lag, settings)
        self.last_w = w

    def rest(self, w: float) -> None:
        """Start patience again, because no progress is expected now."""
        self.still_w = w
        self.waiting_w = None
        self.sure = self.graced = False
        self.ends_moved = 0
        self.samples = ()

    def pass_by(self, w: float, settings: JudgeSettings) -> None:
        """Record an observation in which nothing changed and no verdict can change."""
        beyond_s, self.last_w = w - self.last_w - settings.interval_s * 1.5, w
        if not self.samples:
            return  # most: they begin with what moves
        if beyond_s > 0 or self.end is None or self.lag is None:
            self.samples = ()  # a hole in them would look like an interval
            return
        self._sample(w, self.end, self.lag, settings)
        still = self.samples[0][1:]
        if len(self.samples) > settings.window and all(
            sample[1:] == still for sample in self.samples
        ):
            self.samples = ()  # at rest

    def grace(self, restarted_w: float) -> None:
        """Start patience again after a restart of the connector, which takes time.

        Only once until it moves: otherwise a connector that is restarted over and over would never
        be late.
        """
        if not self.graced and restarted_w > self.still_w:
            self.graced = True
            self.still_w = restarted_w

    @property
    def behind(self) -> bool:
        """Check whether it went back and has not reached its furthest position again."""
        return self.furthest is not None or _to_comparable(self.high) > _to_comparable(
            self.position
        )

    @property
    def move_interval_s(self) -> float:
        """Return the longest time in seconds between two of its last moves; 0.0 if none."""
        return max((b - a for a, b in pairwise(self.moves)), default=0.0)

    def falls_behind(self, settings: JudgeSettings) -> bool:
        """Check whether the lag grew steadily over the whole window.

        Between two flushes the lag grows by the records that arrive, and a sample may fall anywhere
        between them: so it must have grown by more than ever arrived in one interval. Each third of
        the window must have contributed at least half its share, or a single pause would look like
        growth. A partition that did not move three times in the window is not slow.
        """
        samples = self.samples
        if len(samples) <= settings.window or _to_comparable(self.lag) < samples[-1][2]:
            return False
        if sum(moment >= samples[0][0] for moment in self.moves) < INTERVALS_OF_EVIDENCE:
            return False
        third = (len(samples) - 1) // 3
        lags = [samples[number][2] for number in (0, third, 2 * third, -1)]
        grown = lags[-1] - lags[0]
        if grown <= 0 or any((b - a) * 6 < grown for a, b in pairwise(lags)):  # half its share
            return False
        return grown > max(b[1] - a[1] for a, b in pairwise(samples))

    # --- details ---------------------------------------------------------------------------------

    def _leave_out(self, beyond_s: float, interval_s: float) -> None:
        """Shift all times by the time without observation, so that it does not count.

        Time counts as unobserved where an observation comes more than 1.5 intervals after the one
        before.
        """
        if beyond_s <= 0:
            return
        away = beyond_s + interval_s * 0.5
        self.first_w += away
        self.last_w += away
        self.still_w += away
        self.end_w += away
        self.counted_w += away
        self.waiting_w = None if self.waiting_w is None else self.waiting_w + away
        self.moved_w = None if self.moved_w is None else self.moved_w + away
        self.repeated_w = None if self.repeated_w is None else self.repeated_w + away
        self.moves = tuple(moment + away for moment in self.moves)
        self.gaps = _append_gap(self.gaps, self.last_w, away)
        self.samples = ()  # growth over a window that has a hole in it says nothing

    def _move(self, sample: Sample, w: float, settings: JudgeSettings) -> None:
        if self.moved_w is not None:
            self.longest_s = max(self.longest_s, w - self.moved_w)
        intervals = tuple(
            moment for moment in self.moves if moment >= w - settings.window * settings.interval_s
        )
        self.moves = (*intervals[1 - 2 * settings.window :], w)
        self.moved_w = self.still_w = w
        self.waiting_w = None  # what waits now, waits since it moved
        self.sure = self.graced = False
        self.ends_moved = self.repeats = 0
        self.repeated_w = None
        if sample.offset is not None:
            self._compare(sample.dialect, sample.offset)

    def _compare(self, dialect: str, offset: SourceOffset) -> None:
        """Retain the offset that it went back from until that offset is reached again."""
        before = self.furthest if self.furthest is not None else self.text
        known = None if before is None else decode_value(before.encode())
        if isinstance(known, Undecodable) or known is None:
            self.furthest = None
        else:
            behind = compare_offsets(dialect, known, offset) is Order.BEHIND
            if self.restarted:
                behind = self.restarted = not has_reached_offset(dialect, known, offset)
            self.furthest = before if behind else None

    def _order(self, sample: Sample) -> None:
        # With nothing left to do it has come as far as it can.
        high = (
            _to_comparable(sample.position)
            if sample.caught_up
            else max(_to_comparable(self.high), _to_comparable(sample.position))
        )
        self.high = None if high == _NO_POSITION else high

    def _end_moved(self, w: float, *, moved: bool, interval_s: float) -> None:
        self.end_w = w
        if not moved and w - self.counted_w >= interval_s * LOG_END_MOVE_SPACING:
            self.ends_moved += 1
            self.counted_w = w

    def _wait(self, sample: Sample, w: float, earliest: float) -> None:
        """Update `waiting_w` and `sure`.

        A log end beyond the position means work, unless a probe says that there is no record to
        read.
        """
        if sample.caught_up or not sample.lag:
            self.waiting_w = None
            self.sure = False
            return
        if self.waiting_w is None:
            since = w - _compute_elapsed(sample.at, sample.behind_since)
            self.waiting_w = _clamp(max(earliest, self.still_w), w, since)
        if sample.caught_up is False or self.ends_moved >= INTERVALS_OF_EVIDENCE:
            self.sure = True

    def _keep(self, sample: Sample) -> None:
        self.text = sample.text
        self.position = sample.position
        self.best = sample.best
        self.commits = sample.commits
        self.end = self.end if sample.end is None else sample.end
        self.lag = sample.lag

    def _sample(self, w: float, end: int, lag: int, settings: JudgeSettings) -> None:
        if self.samples and w - self.samples[-1][0] < settings.interval_s * 0.9:
            return
        self.samples = (*self.samples[-settings.window :], (w, end, lag))


def subtract_gaps(w: float, gaps: ObservationGaps) -> float:
    """Return the second of watching that `w` was before later gaps were left out."""
    for gap_w, away in reversed(gaps):
        if w <= gap_w:
            w -= away
    return w


@lru_cache(maxsize=256)  # one input hides thousands of partitions at once, and they share a tuple
def _append_gap(gaps: ObservationGaps, gap_w: float, away: float) -> ObservationGaps:
    return (*gaps[1 - GAPS_MAX :], (gap_w, away))


def _to_comparable(position: int | None) -> int:
    return _NO_POSITION if position is None else position


def _compute_elapsed(now: float, moment: float | None) -> float:
    return 0.0 if moment is None else max(0.0, now - moment)


def _clamp(earliest: float, latest: float, event_time: float) -> float:
    return min(latest, max(earliest, event_time))


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
