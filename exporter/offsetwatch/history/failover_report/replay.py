"""Replay of a flow in the past: the failover cost of each group at each sample. Pure.

It applies the daemon's own arithmetic (state/failover.py, state/mirror/offset_translation.py,
state/mirror/lag.py) to what was known at each sample of a group's position. Everything is taken as
of that sample, never as of the minute it is displayed for: a position a minute old would otherwise
be compared with a newer checkpoint. inputs.py reads the inputs, summary.py makes minutes of the
results.

A number is left out for the daemon's reasons (state/failover.py), and where

- records of that time may not have been read into the tables yet;
- compaction may have deleted the checkpoint that was the newest then: offsets are missing behind
  the one before, and no run was there to read them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeVar

from offsetwatch.history.failover_report.inputs import (
    RATE_WINDOW_S,
    STALE_S,
    FailoverInputs,
    LoggedCheckpoint,
    LoggedCommit,
    LoggedSync,
    ReportGroupPartition,
    SampledLogBounds,
    Series,
)
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.failover import FailoverCost, GroupPosition, compute_failover_cost
from offsetwatch.state.mirror.lag import compute_replication_lag
from offsetwatch.state.mirror.offset_translation import PartitionSyncs

RATE_WINDOW_S_MIN: Final = 60.0  # a pace is measured over RATE_WINDOW_S, and over this at least

T = TypeVar("T")
Logged = TypeVar("Logged", LoggedSync, LoggedCheckpoint, LoggedCommit)


K = TypeVar("K")


class FailoverUnknownReason(StrEnum):
    """Reasons why a number is unknown. Names are only ever added."""

    NOT_SAMPLED = "not_sampled"
    NOT_READ = "not_read"
    NO_LOG_ENDS = "no_log_ends"
    BEYOND_THE_END = "beyond_the_end"
    NO_SYNCS = "no_syncs"
    NOT_TRANSLATED = "not_translated"
    NO_LANDING = "no_landing"
    CHECKPOINT_HIDDEN = "checkpoint_hidden"
    OUTSIDE_THE_LOG = "outside_the_log"


@dataclass(frozen=True, slots=True)
class FailoverOutcome:
    """Failover cost of a group in one partition at one sample of its position.

    pace      the group's rate of late, in records a second; None if it stood still, went back or
              was not sampled for long enough
    why       why the re-read is unknown
    """

    position: int
    landing: int | None
    landing_from: str | None
    checkpoint_at: float | None
    met: FailoverCost
    pace: float | None
    why: FailoverUnknownReason | None


@dataclass(frozen=True, slots=True)
class UnreplicatedRecords:
    """Records of one partition that the target lacked at one sample of its log's end.

    replicated    the last upstream offset known to be there
    records       after it, at most: offsets without a record, and records that came in the minute
                  since the commit that reports them, count too
    age_s_min, age_s_max    bounds on the age of the oldest of them; the latter None where no sample
                  was early enough
    """

    end: int
    replicated: int | None
    records: int | None
    age_s_min: float | None
    age_s_max: float | None


class FailoverReplay:
    """State of the flow, replayed forward in time. For one pass through the samples."""

    def __init__(self, known: FailoverInputs) -> None:
        self._known = known
        self._syncs = deque(known.syncs)
        self._checkpoints = deque(known.checkpoints)
        self._commits = deque(known.commits)
        self._restarts = deque(known.restarts)
        self._tasks_known = False
        self._read: dict[TopicPartition, tuple[PartitionSyncs, LoggedSync]] = {}
        self._newest_checkpoints: dict[tuple[str, TopicPartition], LoggedCheckpoint] = {}
        self._copied: dict[TopicPartition, LoggedCommit] = {}
        self._rounds = sorted({moment for ends in known.here.values() for moment in ends.times})

    def forward(self, moment: float) -> None:
        """Apply all records that were in the logs by this time; it never goes back."""
        while self._restarts and self._restarts[0] <= moment:
            self._read_syncs(self._restarts.popleft())
            for syncs, _ in self._read.values():
                syncs.emptied()
            self._tasks_known = True
        self._read_syncs(moment)
        for checkpoint in _take_until(self._checkpoints, moment):
            if checkpoint.anew:
                self._newest_checkpoints.clear()
            self._newest_checkpoints[checkpoint.group, checkpoint.where] = checkpoint
        for commit in _take_until(self._commits, moment):
            self._copied[commit.where] = commit

    def _read_syncs(self, moment: float) -> None:
        for sync in _take_until(self._syncs, moment):
            if sync.anew:
                self._read.clear()
            known = self._read.get(sync.where)
            syncs = PartitionSyncs() if known is None else known[0]
            syncs.read(sync.upstream, sync.downstream, live=sync.joined)
            self._read[sync.where] = (syncs, sync)

    def syncs_of(self, where: TopicPartition) -> PartitionSyncs | None:
        """Return the syncs of an upstream partition; None if they may be another flow's."""
        known = self._read.get(where)
        return None if known is None or where in self._known.not_ours else known[0]

    def moment(self, member: ReportGroupPartition, place: int) -> FailoverOutcome:
        """Return the outcome at the sample with this index; forward() must have reached its time.

        It must not have gone farther.
        """
        positions = self._known.positions[member]
        sampled_at, position = positions.times[place], positions.values[place]
        group, topic, partition = member
        where = TopicPartition(topic, partition)
        own = _find_exact_sample(self._known.own.get(member), sampled_at)
        copy = TopicPartition(self._known.remote.get(topic, ""), partition)
        checkpoint = self._newest_checkpoints.get((group, copy))
        hidden = own is None and checkpoint is not None and self._hidden(checkpoint)
        syncs = self.syncs_of(where)
        group_position = GroupPosition(
            upstream=position,
            own=own,
            checkpoint=None if checkpoint is None or hidden else checkpoint.downstream,
            syncs=syncs,
            here=_convert_to_bounds(_find_exact_sample(self._known.here.get(where), sampled_at)),
            there=_convert_to_bounds(_find_exact_sample(self._known.there.get(where), sampled_at)),
            # What counts as of this round was there before it began, and ends are asked for in it.
            synced_before=True,
            landed_before=True,
        )
        found, why = FailoverCost(), FailoverUnknownReason.NOT_READ
        if sampled_at <= self._known.read_until:
            found = compute_failover_cost(group_position)
            why = _explain_unknown(group_position, found, hidden)
        if not self._tasks_known:
            found = replace(found, translated=None)
        return FailoverOutcome(
            position=position,
            landing=group_position.landing,
            landing_from=group_position.landing_from,
            checkpoint_at=None if checkpoint is None or hidden else checkpoint.stamp,
            met=found,
            pace=compute_group_rate(positions, place),
            why=None if found.reread is not None else why,
        )

    def exposure(self, where: TopicPartition, place: int) -> UnreplicatedRecords:
        """Return the unreplicated records at the log-end sample with this index, as moment()."""
        ends = self._known.here[where]
        moment, bounds = ends.times[place], ends.values[place]
        # Syncs do not count: two writers' timestamps do not tell which came after the commit.
        commit = self._copied.get(where) if moment <= self._known.read_until else None
        replicated = None if commit is None else commit.offset
        lag = None if replicated is None else compute_replication_lag(replicated, bounds.end)
        if replicated is None or lag is None or lag.ahead:
            return UnreplicatedRecords(bounds.end, replicated, None, None, None)
        if not lag.records:
            return UnreplicatedRecords(bounds.end, replicated, 0, 0.0, 0.0)
        least, most = _compute_age_bounds(ends, place, max(replicated + 1, bounds.start))
        return UnreplicatedRecords(bounds.end, replicated, lag.records, least, most)

    def _hidden(self, checkpoint: LoggedCheckpoint) -> bool:
        """Check whether compaction may have deleted a later checkpoint before it was read.

        While a run was there to read, missing offsets are those that transactions leave in a log:
        to delete a record, compaction would need a newer one of its key, a new segment and a
        minute.
        """
        if checkpoint.whole or checkpoint.until is None:
            return False
        first = bisect_right(self._rounds, checkpoint.at) - 1
        last = bisect_right(self._rounds, checkpoint.until)
        rounds = self._rounds[max(0, first) : last + 1]
        if first < 0 or rounds[-1] < checkpoint.until - STALE_S:
            return True
        return any(later - earlier > STALE_S for earlier, later in pairwise(rounds))


def _take_until(records: deque[Logged], moment: float) -> Iterator[Logged]:
    """Remove the records up to this time from the front, and yield them."""
    while records and records[0].at <= moment:
        yield records.popleft()


def replay_samples(
    known: FailoverInputs, since: float, until: float
) -> tuple[
    dict[ReportGroupPartition, Series[FailoverOutcome]],
    dict[TopicPartition, Series[UnreplicatedRecords]],
]:
    """Return the outcomes of groups and the unreplicated records at every sample in this span.

    One pass covers both.
    """
    moments: dict[ReportGroupPartition, Series[FailoverOutcome]] = {
        member: Series() for member in known.positions
    }
    exposures: dict[TopicPartition, Series[UnreplicatedRecords]] = {
        where: Series() for where in known.here
    }
    samples: list[tuple[float, int, ReportGroupPartition | TopicPartition]] = [
        *_select_samples(known.positions, since, until),
        *_select_samples(known.here, since, until),
    ]
    replay = FailoverReplay(known)
    for moment, place, key in sorted(samples, key=lambda sample: sample[0]):
        replay.forward(moment)
        if isinstance(key, TopicPartition):
            exposures[key].add(moment, replay.exposure(key, place))
        else:
            moments[key].add(moment, replay.moment(key, place))
    return moments, exposures


def _select_samples(
    samples: Mapping[K, Series[T]], since: float, until: float
) -> Iterator[tuple[float, int, K]]:
    for key, series in samples.items():
        for place, moment in enumerate(series.times):
            if since - STALE_S <= moment <= until:
                yield moment, place, key


def compute_group_rate(positions: Series[int], place: int) -> float | None:
    """Return the records a second by which a position advanced before this sample.

    None as in FailoverOutcome.
    """
    moment, position = positions.times[place], positions.values[place]
    first = place
    while first > 0 and moment - positions.times[first - 1] <= RATE_WINDOW_S:
        if positions.values[first - 1] > positions.values[first]:
            break
        first -= 1
    span_s, went_on = moment - positions.times[first], position - positions.values[first]
    return went_on / span_s if span_s >= RATE_WINDOW_S_MIN and went_on > 0 else None


def _find_exact_sample(series: Series[T] | None, moment: float) -> T | None:
    return None if series is None else series.exactly(moment)


def _convert_to_bounds(ends: SampledLogBounds | None) -> LogBounds | None:
    # The last stable offset is not sampled, and where a group lands does not depend on it.
    return None if ends is None else LogBounds(ends.start, ends.end, ends.end)


def _explain_unknown(
    position: GroupPosition,
    found: FailoverCost,
    hidden: bool,  # noqa: FBT001 - internal
) -> FailoverUnknownReason:
    if position.here is None or position.there is None:
        return FailoverUnknownReason.NO_LOG_ENDS
    if position.upstream > position.here.end:
        return FailoverUnknownReason.BEYOND_THE_END
    if position.syncs is None:
        return FailoverUnknownReason.NO_SYNCS
    if found.best is None:
        return FailoverUnknownReason.NOT_TRANSLATED
    if position.landing is None:
        return (
            FailoverUnknownReason.CHECKPOINT_HIDDEN if hidden else FailoverUnknownReason.NO_LANDING
        )
    return FailoverUnknownReason.OUTSIDE_THE_LOG


def _compute_age_bounds(
    ends: Series[SampledLogBounds], place: int, following: int
) -> tuple[float, float | None]:
    """Return bounds on the age of the record at this offset, at this sample.

    It existed at the first sample whose end is beyond it, and not at the one before.
    """
    moment, first = ends.times[place], place
    while first > 0 and following < ends.values[first - 1].end <= ends.values[first].end:
        first -= 1
    # An end that went back is another topic's: nobody looked before it.
    bounded = first > 0 and ends.values[first - 1].end <= following
    return moment - ends.times[first], moment - ends.times[first - 1] if bounded else None
