"""Time that was observed between two steps, and not what the clock was set by. Pure.

What waits for a commit, or for another answer, waits for time in which it can come and be read. The
clock of a machine is set, also by minutes, and a machine that was suspended goes on with the time
of day.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

GAPS_MAX: Final = 8  # of several sources in turns


@dataclass(slots=True)
class ObservedTime:
    """Times between the last steps, by a clock that may be set."""

    _at: float | None = None
    _gaps: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS_MAX))

    def pass_over(self, now: float) -> float:
        """Record a step. Return the seconds since the last one that nobody observed.

        They are negative if the clock was set back. As observed counts no more than the longest of
        the last times between steps; more and more if steps become rarer.
        """
        at, self._at = self._at, now
        if at is None or now == at:
            return 0.0
        passed = now - at
        longest = max(self._gaps, default=passed)
        if passed > 0:
            self._gaps.append(min(passed, 2 * longest))
        return passed - max(0.0, min(passed, longest))
