"""Backoff of a stream that stopped: when it is planned again, and when the run gives up. Pure.

Times are seconds of any monotonic clock. Kafka may be unavailable for any time. Any other cause
that stops a stream again and again, and lets it read nothing in between, will not pass by itself.
"""

from __future__ import annotations

PLANS_MAX = 5  # with the pauses between them, half a minute
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 60.0  # doubled from one try to the next
STEADY_S = 60.0  # a stream that has run for so long has got over what stopped the last one


class StreamBackoff:
    """Backoff of one stream."""

    def __init__(self) -> None:
        self._plans = 0
        self._pause_s = 0.0
        self._next_at: float | None = None

    @property
    def exhausted(self) -> bool:
        """Check whether it is time to give up."""
        return self._plans >= PLANS_MAX

    def due(self, now: float) -> bool:
        """Check whether the stream may be planned now. The first time it may at once."""
        return self._next_at is None or now >= self._next_at

    def tried(self, now: float, *, counts: bool) -> None:
        """Count an attempt, successful or not; it `counts` unless Kafka was unavailable."""
        self._plans += counts
        self._pause_s = min(max(PAUSE_S_MIN, 2 * self._pause_s), PAUSE_S_MAX)
        self._next_at = now + self._pause_s

    def runs(self, now: float, *, moved: bool) -> None:
        """Reset the backoff if the running stream has `moved`, or has run for STEADY_S."""
        if moved or (self._next_at is not None and now >= self._next_at + STEADY_S):
            self._plans, self._pause_s, self._next_at = 0, 0.0, None
