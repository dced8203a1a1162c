"""Budget of one tick: how many partitions it judges, and when the next passes are due.

A pass over 100,000 partitions would hold up the tails for longer than a tick. So a full pass that
is due by time is spread over several ticks. One that follows a change of the inputs takes as few
ticks as it can, because verdicts that depend on them are wrong until it ends. Times named `_w` are
seconds of watching.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.subjects import JudgedPartition
from offsetwatch.state.snapshot_index import ConnectorKey

JUDGED_PER_TICK_MAX: Final = 10_000  # partitions; more would hold up the tails
# A pass that has time judges so many in a tick, or this part of all.
JUDGED_PER_TICK_MIN: Final = 1_000
FULL_PASS_TICKS: Final = 16
TROUBLED_PER_INTERVAL_MAX: Final = 60_000  # partitions in one interval, beside the full pass


@dataclass(slots=True)
class JudgingPass:
    """Pass over partitions that may take several ticks; all it observes is of its first tick.

    whole     over all partitions, not over those in trouble alone
    left      partitions still to judge
    share     number of partitions that one tick judges
    next_w    when the next full pass is due, as far as it is known
    touched   connectors with a partition that was judged, or with another state
    """

    visibility: InputVisibility
    w: float
    whole: bool
    left: deque[JudgedPartition]
    share: int
    next_w: float
    touched: set[ConnectorKey] = field(default_factory=set)

    @property
    def at(self) -> float:
        """Return the time (Unix seconds) of its snapshot."""
        return self.visibility.snapshot.at

    def hurry(self) -> None:
        """Judge as many partitions in a tick as one can take."""
        self.share = JUDGED_PER_TICK_MAX

    def take(self) -> Iterator[JudgedPartition]:
        """Yield the partitions that this tick judges."""
        for _ in range(min(len(self.left), self.share)):
            yield self.left.popleft()


@dataclass(slots=True)
class PassSchedule:
    """When passes are due: over all partitions, and over those in trouble."""

    full_w: float = 0.0
    partial_w: float = 0.0

    def end(self, judging_pass: JudgingPass, troubled: int, interval_s: float) -> None:
        """Schedule the passes after this one; `troubled` partitions are in trouble."""
        next_w = judging_pass.next_w
        self.full_w = next_w if judging_pass.whole else min(self.full_w, next_w)
        # A partial pass over five thousand costs what a tick may cost: of more there are fewer.
        share = troubled / TROUBLED_PER_INTERVAL_MAX
        self.partial_w = judging_pass.w + share * interval_s


def compute_tick_share(partitions: int, *, leisurely: bool) -> int:
    """Return how many partitions of a pass one tick judges."""
    if not leisurely:
        return JUDGED_PER_TICK_MAX
    return min(max(JUDGED_PER_TICK_MIN, -(-partitions // FULL_PASS_TICKS)), JUDGED_PER_TICK_MAX)
