"""Inputs of a failover report: a flow's records and samples in a past window. Pure.

Made by load.py for replay.py. Times are Unix seconds by the clocks of the writers: of MirrorMaker
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

    at        since when it was in its log, as far as timestamps tell (records.py, `settled`)
    stamp     its own timestamp
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
    """A checkpoint: the offset where `group` starts in a topic of the target.

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
    """Start and end of a log in a sample."""

    start: int
    end: int


@dataclass(slots=True)
class Series(Generic[T]):
    """Samples in order of time."""

    times: list[float] = field(default_factory=list)
    values: list[T] = field(default_factory=list)

    def add(self, at: float, value: T) -> None:
        """Add a sample, not older than the last."""
        self.times.append(at)
        self.values.append(value)

    def newest(self, moment: float) -> tuple[float, T] | None:
        """Return the newest sample at this time, with its time; None if older than STALE_S."""
        place = bisect_right(self.times, moment) - 1
        if place < 0 or moment - self.times[place] > STALE_S:
            return None
        return self.times[place], self.values[place]

    def exactly(self, moment: float) -> T | None:
        """Return the sample of the round at this time: all samples of a round carry its time."""
        place = bisect_right(self.times, moment) - 1
        return self.values[place] if place >= 0 and self.times[place] == moment else None


@dataclass(slots=True)
class FailoverInputs:
    """Records and samples of a flow.

    positions     committed offsets of groups upstream, and `own` on the target (by the upstream
                  topic too)
    here, there   bounds of upstream logs and, by the upstream topic too, of their copies
    syncs, checkpoints, commits    in order of `at`
    restarts      when a checkpoint task may have lost its state; before the first of them, and
                  where there is none, that is unknown
    not_ours      partitions whose syncs may be another flow's
    read_until    all older records have been read into the tables
    remote        names of upstream topics on the target, as far as they are known
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
