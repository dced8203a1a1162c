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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Final, TypeVar

from offsetwatch.history.failover_report.inputs import (
    RATE_WINDOW_S,
    STALE_S,
    FailoverInputs,
    LoggedCheckpoint,
    LoggedCommit,
    LoggedSync,
    ReportGroupPartition,
    Series,
)
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.failover import FailoverCost, GroupPosition, compute_failover_cost
from offsetwatch.state.mirror.lag import compute_replication_lag
from offsetwatch.state.mirror.offset_translation import PartitionSyncs

RATE_WINDOW_S_MIN: Final = 60.0  # a rate is measured over RATE_WINDOW_S, and over this at least

Logged = TypeVar("Logged", LoggedSync, LoggedCheckpoint, LoggedCommit)
K = TypeVar("K")
_NO_SAMPLES: Final[Series[Any]] = Series()


class FailoverUnknownReason(StrEnum):
    """Reasons why a number is unknown. Names are only ever added."""

    NOT_SAMPLED = "not_sampled"
    NOT_READ = "not_read"
    NO_LOG_ENDS = "no_log_ends"
    BEYOND_THE_END = "beyond_the_end"
    NO_SYNCS = "no_syncs"
    NOT_TRANSLATED = "not_translated"
    NO_START_OFFSET = "no_start_offset"
    CHECKPOINT_HIDDEN = "checkpoint_hidden"
    OUTSIDE_THE_LOG = "outside_the_log"


@dataclass(frozen=True, slots=True)
class FailoverOutcome:
    """Failover cost of a group in one partition at one sample of its position.

    rate      the group's rate of late, in records a second; None if it stood still, went back or
              was not sampled for long enough
    why       why the re-read is unknown
    """

    position: int
    start_offset: int | None
    start_offset_from: str | None
    checkpoint_at: float | None
    cost: FailoverCost
    rate: float | None
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
        self._read: dict[TopicPartition, PartitionSyncs] = {}
        self._newest_checkpoints: dict[tuple[str, TopicPartition], LoggedCheckpoint] = {}
        self._copied: dict[TopicPartition, LoggedCommit] = {}
        self._rounds = sorted({moment for ends in known.here.values() for moment in ends.times})

    def forward(self, moment: float) -> None:
        """Apply all records that were in the logs by this time; it never goes back."""
        while self._restarts and self._restarts[0] <= moment:
            self._read_syncs(self._restarts.popleft())
            for syncs in self._read.values():
                syncs.emptied()
            self._tasks_known = True
        self._read_syncs(moment)
        for checkpoint in _take_until(self._checkpoints, moment):
            if checkpoint.is_first:
                self._newest_checkpoints.clear()
            self._newest_checkpoints[checkpoint.group, checkpoint.where] = checkpoint
        for commit in _take_until(self._commits, moment):
            self._copied[commit.where] = commit

    def _read_syncs(self, moment: float) -> None:
        for sync in _take_until(self._syncs, moment):
            if sync.is_first:
                self._read.clear()
            syncs = self._read.setdefault(sync.where, PartitionSyncs())
            syncs.read(sync.upstream, sync.downstream, live=sync.joined)

    def moment(self, member: ReportGroupPartition, index: int) -> FailoverOutcome:
        """Return the outcome at the sample with this index; forward() must have reached its time.

        It must not have gone farther.
        """
        known = self._known
        positions = known.positions[member]
        sampled_at, position = positions.times[index], positions.values[index]
        group, topic, partition = member
        where = TopicPartition(topic, partition)
        own = known.own.get(member, _NO_SAMPLES).exactly(sampled_at)
        copy = TopicPartition(known.remote.get(topic, ""), partition)
        checkpoint = self._newest_checkpoints.get((group, copy))
        hidden = own is None and checkpoint is not None and self._hidden(checkpoint)
        syncs = None if where in known.not_ours else self._read.get(where)
        group_position = GroupPosition(
            upstream=position,
            own=own,
            checkpoint=None if checkpoint is None or hidden else checkpoint.downstream,
            syncs=syncs,
            here=known.here.get(where, _NO_SAMPLES).exactly(sampled_at),
            there=known.there.get(where, _NO_SAMPLES).exactly(sampled_at),
            # What counts as of this round was there before it began, and ends are asked for in it.
            synced_before=True,
            had_start_offset_before=True,
        )
        cost, why = FailoverCost(), FailoverUnknownReason.NOT_READ
        if sampled_at <= known.read_until:
            cost = compute_failover_cost(group_position)
            why = _explain_unknown(group_position, cost, hidden=hidden)
        if not self._tasks_known:
            cost = replace(cost, translated=None)
        return FailoverOutcome(
            position=position,
            start_offset=group_position.start_offset,
            start_offset_from=group_position.start_offset_from,
            checkpoint_at=None if checkpoint is None or hidden else checkpoint.stamp,
            cost=cost,
            rate=compute_group_rate(positions, index),
            why=None if cost.reread is not None else why,
        )

    def exposure(self, where: TopicPartition, index: int) -> UnreplicatedRecords:
        """Return the unreplicated records at the log-end sample with this index, as moment()."""
        ends = self._known.here[where]
        moment, bounds = ends.times[index], ends.values[index]
        # Syncs do not count: two writers' timestamps do not tell which came after the commit.
        commit = self._copied.get(where) if moment <= self._known.read_until else None
        replicated = None if commit is None else commit.offset
        lag = None if replicated is None else compute_replication_lag(replicated, bounds.end)
        if replicated is None or lag is None or lag.ahead:
            return UnreplicatedRecords(bounds.end, replicated, None, None, None)
        if not lag.records:
            return UnreplicatedRecords(bounds.end, replicated, 0, 0.0, 0.0)
        least, most = _compute_age_bounds(ends, index, max(replicated + 1, bounds.start))
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
        (moment, index, key)
        for key, series in chain[Any](known.positions.items(), known.here.items())
        for index, moment in enumerate(series.times)
        if since - STALE_S <= moment <= until
    ]
    replay = FailoverReplay(known)
    for moment, index, key in sorted(samples, key=itemgetter(0)):
        replay.forward(moment)
        if isinstance(key, TopicPartition):
            exposures[key].add(moment, replay.exposure(key, index))
        else:
            moments[key].add(moment, replay.moment(key, index))
    return moments, exposures


def compute_group_rate(positions: Series[int], index: int) -> float | None:
    """Return the records a second by which a position advanced before this sample.

    None as in FailoverOutcome.
    """
    moment, position = positions.times[index], positions.values[index]
    first = index
    while first > 0 and moment - positions.times[first - 1] <= RATE_WINDOW_S:
        if positions.values[first - 1] > positions.values[first]:
            break
        first -= 1
    span_s, advance = moment - positions.times[first], position - positions.values[first]
    return advance / span_s if span_s >= RATE_WINDOW_S_MIN and advance > 0 else None


def _explain_unknown(
    position: GroupPosition, cost: FailoverCost, *, hidden: bool
) -> FailoverUnknownReason:
    if position.here is None or position.there is None:
        return FailoverUnknownReason.NO_LOG_ENDS
    if position.upstream > position.here.end:
        return FailoverUnknownReason.BEYOND_THE_END
    if position.syncs is None:
        return FailoverUnknownReason.NO_SYNCS
    if cost.best is None:
        return FailoverUnknownReason.NOT_TRANSLATED
    if position.start_offset is None and hidden:
        return FailoverUnknownReason.CHECKPOINT_HIDDEN
    if position.start_offset is None:
        return FailoverUnknownReason.NO_START_OFFSET
    return FailoverUnknownReason.OUTSIDE_THE_LOG


def _compute_age_bounds(
    ends: Series[LogBounds], index: int, following: int
) -> tuple[float, float | None]:
    """Return bounds on the age of the record at this offset, at this sample.

    It existed at the first sample whose end is beyond it, and not at the one before.
    """
    moment, first = ends.times[index], index
    while first > 0 and following < ends.values[first - 1].end <= ends.values[first].end:
        first -= 1
    # An end that went back is another topic's, of which there is no earlier sample.
    bounded = first > 0 and ends.values[first - 1].end <= following
    return moment - ends.times[first], moment - ends.times[first - 1] if bounded else None
