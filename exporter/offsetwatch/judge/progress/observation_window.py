"""What was seen of one source, mirrored or sink partition over the last intervals.

Times named `_w` are seconds of WATCHING, not of the clock: a clock that is set back, a process that
was down and an input that could not be read add nothing to them. So time in which nobody looked is
neither progress nor a stall; what the positions before and after say is. A moment that is named to
people is where it was all the same: `gaps` has what was left out since.
"""

from __future__ import annotations

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
    """What is seen of a partition at one moment.

    text        the offset; another text is another offset
    offset      the same, of a source whose order its dialect knows; None where `position` is it
    position    the number that orders it: what was committed
    best        the furthest that is known to be done: at least the position
    commits     how often it was committed, of our tail's counting
    end, lag, caught_up    the second signal, where there is a log that can be asked
    behind_since    timestamp of the oldest record that waits, by the clock of who produced it
    changed_at      when the commit that made this the position was read, by our clock
    restarted_from    the offset that its task was not given when it began to look up another raw
                key, while it has not come as far again
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
    """The memory of one partition. It is its own form on disk: fields are only ever added at the
    end.

    first_w, seen_w    of the first and of the last look
    still_w    since when it stands still, as far as patience counts
    moved_w    when it last moved; None if never while we looked
    waiting_w  since when something waits to be done; None if nothing does
    sure       that it does: a probe says so, or the log end was seen to move on three times, half
               an interval apart or more. Without either it may be transaction markers and what
               compaction left
    end_w      since when the log end stands still
    high       the furthest position; more than the present one after a step back
    furthest   the same as the text of an offset; None unless it went back
    commits    as our tail had counted; None after a restart, since when it counts anew
    repeats, repeated_w    commits since it last moved, and when the last one was seen
    graced     patience has begun anew since it last moved, because its connector was restarted
    restarted  it went back because its task looks up another raw key; its order is that of goes_on
    moves      the last moves, one window before the last of them; longest_s between any two ever
    samples    (w, log end, lag), one per interval
    gaps       (w of the last look before, seconds left out), the oldest first: see `unshifted`

    Of 100,000 partitions most never move: an empty tuple takes no memory, and an empty list does.
    """

    first_w: float
    seen_w: float
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
        """The first look: nothing has moved yet, whatever is there."""
        window = cls(first_w=w, seen_w=w, still_w=w, end_w=w, counted_w=w)
        window._keep(sample)
        window.high = sample.position
        window._wait(sample, w, w)
        return window

    def take(self, sample: Sample, w: float, settings: JudgeSettings) -> None:
        """Look again."""
        beyond_s = w - self.seen_w - settings.interval_s * 1.5
        self._leave_out(beyond_s, settings.interval_s)
        # What is seen for the first time after a gap did not begin before it.
        earliest = nextafter(self.seen_w, inf) if beyond_s > 0 else self.seen_w
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
        self.seen_w = w

    def rest(self, w: float) -> None:
        """Nothing is expected of it now, so patience begins anew."""
        self.still_w = w
        self.waiting_w = None
        self.sure = self.graced = False
        self.ends_moved = 0
        self.samples = ()

    def pass_by(self, w: float, settings: JudgeSettings) -> None:
        """A look at which all was as before, and nothing could come of it."""
        beyond_s, self.seen_w = w - self.seen_w - settings.interval_s * 1.5, w
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
        """Its connector was restarted, which takes time: once, or a connector that is restarted
        over and over would never be late.
        """
        if not self.graced and restarted_w > self.still_w:
            self.graced = True
            self.still_w = restarted_w

    @property
    def behind(self) -> bool:
        """Did it go back, and has not come as far again?"""
        return self.furthest is not None or _to_comparable(self.high) > _to_comparable(
            self.position
        )

    @property
    def rhythm_s(self) -> float:
        """The longest time between two of its last moves."""
        return max((b - a for a, b in pairwise(self.moves)), default=0.0)

    def falls_behind(self, settings: JudgeSettings) -> bool:
        """Did what is left to do grow over the whole window, and steadily?

        Between two flushes the lag grows by what arrives meanwhile, and a sample may fall anywhere
        between them: so it must have grown by more than ever arrived in one interval. And each
        third of the window must have done its part, or a single pause would look like this; nor is
        slow what stood still all the time and moves again.
        """
        found = self.samples
        if len(found) <= settings.window or _to_comparable(self.lag) < found[-1][2]:
            return False
        if sum(moment >= found[0][0] for moment in self.moves) < INTERVALS_OF_EVIDENCE:
            return False
        third = (len(found) - 1) // 3
        lags = [found[number][2] for number in (0, third, 2 * third, -1)]
        grown = lags[-1] - lags[0]
        if grown <= 0 or any((b - a) * 6 < grown for a, b in pairwise(lags)):  # half its share
            return False
        return grown > max(b[1] - a[1] for a, b in pairwise(found))

    # --- details ---------------------------------------------------------------------------------

    def _leave_out(self, beyond_s: float, interval_s: float) -> None:
        """Nobody could look for longer than between two looks: that time does not count."""
        if beyond_s <= 0:
            return
        away = beyond_s + interval_s * 0.5
        self.first_w += away
        self.seen_w += away
        self.still_w += away
        self.end_w += away
        self.counted_w += away
        self.waiting_w = None if self.waiting_w is None else self.waiting_w + away
        self.moved_w = None if self.moved_w is None else self.moved_w + away
        self.repeated_w = None if self.repeated_w is None else self.repeated_w + away
        self.moves = tuple(moment + away for moment in self.moves)
        self.gaps = _append_gap(self.gaps, self.seen_w, away)
        self.samples = ()  # growth over a window that has a hole in it says nothing

    def _move(self, sample: Sample, w: float, settings: JudgeSettings) -> None:
        if self.moved_w is not None:
            self.longest_s = max(self.longest_s, w - self.moved_w)
        kept = tuple(
            moment for moment in self.moves if moment >= w - settings.window * settings.interval_s
        )
        self.moves = (*kept[1 - 2 * settings.window :], w)
        self.moved_w = self.still_w = w
        self.waiting_w = None  # what waits now, waits since it moved
        self.sure = self.graced = False
        self.ends_moved = self.repeats = 0
        self.repeated_w = None
        if sample.offset is not None:
            self._compare(sample.dialect, sample.offset)

    def _compare(self, dialect: str, offset: SourceOffset) -> None:
        """Keep the offset that it went back from until it is reached again."""
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
        """A log end beyond the position means work, unless a probe says that nothing can be read
        there.
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
    """Return the second of watching at which it was, before the gaps since were left out."""
    for edge_w, away in reversed(gaps):
        if w <= edge_w:
            w -= away
    return w


@lru_cache(maxsize=256)  # one input hides thousands of partitions at once, and they share a tuple
def _append_gap(gaps: ObservationGaps, edge_w: float, away: float) -> ObservationGaps:
    return (*gaps[1 - GAPS_MAX :], (edge_w, away))


def _to_comparable(position: int | None) -> int:
    return _NO_POSITION if position is None else position


def _compute_elapsed(now: float, moment: float | None) -> float:
    return 0.0 if moment is None else max(0.0, now - moment)


def _clamp(earliest: float, latest: float, event_time: float) -> float:
    return min(latest, max(earliest, event_time))
