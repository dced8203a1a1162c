"""What the tables know of a flow in a past window: records, and samples of what was asked. Pure.

Made by read.py for replay.py. Times are Unix seconds by the clocks of whoever wrote: of MirrorMaker
in records, of the run in samples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from offsetwatch.model.topology import MirrorFlow, TopicPartition

# A sample counts for so long. One comes every minute; as with a series of Prometheus, what was said
# five minutes ago is no longer shown.
STALE_S: Final = 300.0

T = TypeVar("T")
ReportGroupPartition = tuple[str, str, int]  # group, topic upstream, partition


@dataclass(frozen=True, slots=True)
class LoggedSync:
    """An offset sync.

    at        since when it was in its log, as far as timestamps tell (moves_read.settled)
    stamp     its own timestamp, which lag.replicated_offset goes by
    joined    no record is missing between the sync of the partition before and this one
    anew      it is the first of its topic, or of one that was created again
    """

    at: float
    stamp: float
    where: TopicPartition
    upstream: int
    downstream: int
    joined: bool
    anew: bool = False


@dataclass(frozen=True, slots=True)
class LoggedCheckpoint:
    """A checkpoint: where `group` lands in a topic of the target.

    where     the topic that has the copies; a checkpoint itself names the one MM2 created
    until     when the next of the same key came; None if none did
    whole     no offset is missing in between
    """

    at: float
    stamp: float
    group: str
    where: TopicPartition
    downstream: int
    until: float | None
    whole: bool
    anew: bool = False


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit of the MirrorSourceConnector: the last record replicated; None for a tombstone."""

    at: float
    stamp: float
    where: TopicPartition
    offset: int | None


@dataclass(frozen=True, slots=True)
class SampledLogBounds:
    """Where a log began and ended."""

    start: int
    end: int


@dataclass(slots=True)
class Series(Generic[T]):
    """Samples in order of time."""

    times: list[float] = field(default_factory=list)
    values: list[T] = field(default_factory=list)

    def add(self, at: float, value: T) -> None:
        """One more, not older than the last."""
        self.times.append(at)
        self.values.append(value)

    def newest(self, moment: float) -> tuple[float, T] | None:
        """The newest that counts at this moment."""
        place = bisect_right(self.times, moment) - 1
        if place < 0 or moment - self.times[place] > STALE_S:
            return None
        return self.times[place], self.values[place]

    def exactly(self, moment: float) -> T | None:
        """That of the round of this moment: all that is asked for in one carries its time."""
        place = bisect_right(self.times, moment) - 1
        return self.values[place] if place >= 0 and self.times[place] == moment else None


@dataclass(slots=True)
class FailoverInputs:
    """All that is known of a flow.

    positions     where groups stood upstream, and `own` on the target (by the upstream topic too)
    here, there   bounds of upstream logs and, by the upstream topic too, of their copies
    syncs, checkpoints, commits    in order of `at`
    restarts      when a checkpoint task may have forgotten what it knew; before the first of them,
                  and where there is none, nobody can say
    not_ours      partitions whose syncs may be another flow's
    read_until    what is older has been read into the tables
    remote        what upstream topics are called on the target, as far as that is known
    """

    flow: MirrorFlow
    remote: Mapping[str, str]
    positions: dict[ReportGroupPartition, Series[int]] = field(default_factory=dict)
    own: dict[ReportGroupPartition, Series[int]] = field(default_factory=dict)
    here: dict[TopicPartition, Series[SampledLogBounds]] = field(default_factory=dict)
    there: dict[TopicPartition, Series[SampledLogBounds]] = field(default_factory=dict)
    syncs: Sequence[LoggedSync] = ()
    checkpoints: Sequence[LoggedCheckpoint] = ()
    commits: Sequence[LoggedCommit] = ()
    restarts: Sequence[float] = ()
    not_ours: frozenset[TopicPartition] = frozenset()
    read_until: float = float("inf")
