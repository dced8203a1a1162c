"""Lag of flows and sinks in records, and the age of the oldest record that they have not read.

For how far offset syncs count see offset_syncs.py.

MM2 stores the offset of the LAST replicated record and resumes at the next one
(MirrorSourceTask.initializeConsumer); a sink's committed offset is the NEXT record. Hence `+ 1` for
the first and none for the second.

A follower is a flow or a sink in one partition. Two sources of its age are combined. Probes, single
reads of the log, find the first readable record after a position: offsets alone cannot, as
transaction markers and compaction gaps take offsets too. Each reading of the log ends shows which
records did not exist yet: a record at or above a log end was appended after that reading, whatever
its own timestamp says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

import msgspec

from offsetwatch.model.observations import FirstRecord, Follower, NoRecordBefore, ProbeResult

# REST tells no time of a commit, so no sync can be known to be newer than one.
UNDATED: Final = inf


class MirrorPosition(msgspec.Struct, frozen=True, gc=False):
    """Record offset, and the timestamp (Unix seconds) of the Kafka record that it was read from.

    The timestamp is UNDATED if the offset came from no record.
    """

    offset: int
    at: float


class Lag(msgspec.Struct, frozen=True, gc=False):
    """Records between a position and the log end, in either direction.

    records  upstream records not yet replicated, at most: transaction markers and compaction gaps
             count, because only a read distinguishes them from records
    ahead    records between the upstream end and a position beyond it: normally 0; a topic
             recreated or an offset altered by hand shows here instead of as a negative lag
    """

    records: int
    ahead: int


def compute_replication_lag(replicated: int, log_end: int) -> Lag:
    """Return the lag of a position that was read BEFORE `log_end`, so not ahead by a race."""
    distance = log_end - (replicated + 1)
    return Lag(records=max(0, distance), ahead=max(0, -distance))


def compute_lag_seconds(
    behind_since: float | None, now: float, *, caught_up: bool | None
) -> float | None:
    """Return the age of the oldest record not replicated yet, in seconds.

    0 when caught up or if the record's time is in the future; None if it is not known.
    """
    if caught_up:
        return 0.0
    return None if behind_since is None else max(0.0, now - behind_since)


def compute_sink_lag(committed: int, log_end: int) -> int | None:
    """Return the number of records after a sink's committed offset, which names the next record.

    None for an offset beyond the log end: the topic was recreated, or its log was truncated, and
    how much of it the sink has read is not known.
    """
    return log_end - committed if committed <= log_end else None


# How many log ends are retained, and how much older each may be than the next: so many reach back
# for weeks, as finely as an age needs it.
ENDS_MAX: Final = 48
AGE_RATIO_MAX: Final = 2.0
# A record that waits may be compacted away meanwhile: so old a probe is made again.
RECHECK_S: Final = 300.0
RECORD: Final = "record"
LOG_ENDS: Final = "log_ends"


class UnreadRange(NamedTuple):
    """Range of offsets that a follower has not read.

    `following` is the next offset to read. `start` and `end` are the bounds of the log for the
    follower (of committed records only, if `committed`).
    """

    following: int
    start: int
    end: int
    committed: bool = False


class Lateness(NamedTuple):
    """Lateness of a follower, with the fields of its view in snapshot.py."""

    caught_up: bool | None
    since: float | None
    known_by: str | None
    probe_from: int | None


UNKNOWN_LATENESS: Final = Lateness(caught_up=None, since=None, known_by=None, probe_from=None)
NO_LATENESS: Final = Lateness(caught_up=True, since=None, known_by=None, probe_from=None)


@dataclass(slots=True)
class _ProbeResult:
    """Result of a probe: from `first` up to `until` there is no readable record.

    `found` is the record at `until`, which existed after `at`, when the read began.
    """

    first: int
    until: int
    record: FirstRecord | None
    at: float


@dataclass(slots=True)
class _Age:
    """Log ends and newest probe of one follower.

    `ends` are log ends, ascending, each with the last time it was observed. While `live`, the time
    of the newest is the last reading of all logs of its group.
    """

    ends: list[tuple[int, float]] = field(default_factory=list)
    live: bool = False
    probe: _ProbeResult | None = None
    start: int = 0
    committed: bool = False
    cut_at: float | None = None

    def settle(self, read_at: float) -> None:
        """Set when the newest end was last observed; the next reading may find another."""
        if self.live and self.ends:
            self.ends[-1] = (self.ends[-1][0], read_at)
        self.live = False

    def apply_bounds(self, unread_range: UnreadRange, at: float, now: float) -> None:
        """Apply the bounds of the log, read not before `at`."""
        shrunk = unread_range.start < self.start or (
            bool(self.ends) and unread_range.end < self.ends[-1][0]
        )
        if shrunk or unread_range.committed != self.committed:
            self.cut(now)
        self.start, self.committed = unread_range.start, unread_range.committed
        while self.ends and self.ends[-1][1] > at:
            self.ends.pop()  # the clock was set back: what was read in the future is void
        if not self.ends or self.ends[-1][0] != unread_range.end:
            self.ends.append((unread_range.end, at))
        self._thin(unread_range.following)
        self.live = True

    def _thin(self, following: int) -> None:
        """Drop log ends before the newest at or below the position; if many remain, older ones."""
        passed = bisect_right(self.ends, following, key=_end_of) - 1
        if passed > 0:
            del self.ends[:passed]
        self.ends = thin_ends(self.ends)

    def cut(self, now: float) -> None:
        """Forget all that is known of the log: it is another one, or was truncated."""
        self.ends.clear()
        self.probe = None
        self.cut_at = now

    def apply_probe(self, start: int, answer: FirstRecord | NoRecordBefore, moment: float) -> bool:
        """Apply a probe that began after `moment`. Return True if it is new information."""
        if self.cut_at is not None and moment <= self.cut_at:
            return False
        record = answer if isinstance(answer, FirstRecord) else None
        until = answer.offset if isinstance(answer, FirstRecord) else answer.end
        result = _ProbeResult(first=start, until=until, record=record, at=moment)
        known = self.probe
        if known is not None and known.first <= start <= known.until:
            if result.until < known.until:
                return False  # an older read, late
            result.first = known.first
        self.probe = result
        return True

    def compute_lateness(self, unread_range: UnreadRange, read_at: float) -> Lateness:
        """Return the lateness; `read_at` is when the logs of its group were last read."""
        if self.live and self.ends:
            self.ends[-1] = (self.ends[-1][0], read_at)
        if unread_range.following >= unread_range.end:
            return NO_LATENESS
        result, reach = self.probe, unread_range.following
        if result is not None and result.first <= unread_range.following <= result.until:
            if result.record is not None:
                return self._since(result.record, self._due(result))
            if result.until >= unread_range.end:
                return NO_LATENESS
            reach = result.until
        since = self._not_before(reach)
        known_by = None if since is None else LOG_ENDS
        return Lateness(caught_up=None, since=since, known_by=known_by, probe_from=reach)

    def _due(self, result: _ProbeResult) -> int | None:
        """Return the offset to probe again, as the record may be gone; None if not yet due."""
        newest = self.ends[-1][1] if self.ends else result.at
        return result.until if newest - result.at > RECHECK_S else None

    def _since(self, record: FirstRecord, due: int | None) -> Lateness:
        not_before = self._not_before(record.offset)
        if record.at is None:
            known_by = None if not_before is None else LOG_ENDS
            return Lateness(caught_up=False, since=not_before, known_by=known_by, probe_from=due)
        since = record.at
        if not record.appended and not_before is not None:
            since = max(since, not_before)
        return Lateness(caught_up=False, since=since, known_by=RECORD, probe_from=due)

    def _not_before(self, offset: int) -> float | None:
        """Return when the log end was last observed at or below this offset, or None."""
        passed = bisect_right(self.ends, offset, key=_end_of) - 1
        return None if passed < 0 else self.ends[passed][1]


def thin_ends(ends: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return ends with times without those whose neighbours are near enough to each other in time.

    Up to ENDS_MAX of them are returned as they are.
    """
    if len(ends) <= ENDS_MAX:
        return ends
    newest = ends[-1][1]
    retained = [ends[0]]
    for end, newer in pairwise(ends[1:]):
        if newest - retained[-1][1] > AGE_RATIO_MAX * (newest - newer[1]):
            retained.append(end)
    return [*retained[: ENDS_MAX - 1], ends[-1]]


def _end_of(end: tuple[int, float]) -> int:
    return end[0]


@dataclass(slots=True)
class _Group:
    """Followers whose logs are read together, and when those were last read."""

    ages: dict[Follower, _Age]
    at: float


class OldestRecordAges:
    """Ages of all followers, each in one group that is read together: as a rule a Kafka cluster."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._ids: dict[str, dict[str, str]] = {}
        # How many there were when those without a follower were last forgotten.
        self._retained_ids: dict[str, int] = {}

    def apply_bounds(
        self,
        group: str,
        followers: Iterable[tuple[Follower, UnreadRange | None]],
        *,
        at: float,
        now: float,
    ) -> None:
        """Apply the log bounds of all followers of a group, read not before `at`.

        Other followers are dropped.

        None keeps what is known of a follower whose log could not be read.
        """
        known = self._groups.get(group)
        before, read_at = ({}, at) if known is None else (known.ages, known.at)
        after: dict[Follower, _Age] = {}
        for partition, unread_range in followers:
            age = before.get(partition)
            if age is None:
                age = (
                    _Age()
                    if unread_range is None
                    else _Age(start=unread_range.start, committed=unread_range.committed)
                )
            age.settle(read_at)
            if unread_range is not None:
                age.apply_bounds(unread_range, at, now)
            after[partition] = age
        self._groups[group] = _Group(after, at)

    def apply_changed_bounds(
        self,
        group: str,
        changed: Iterable[tuple[Follower, UnreadRange | None]],
        *,
        at: float,
        now: float,
    ) -> bool:
        """Apply the log bounds of `changed` followers; nothing changed for all others.

        Returns False and does nothing if the clock was set back: then `apply_bounds` must be called
        for all.
        """
        known = self._groups.get(group)
        if known is None or at < known.at:
            return False
        read_at, known.at = known.at, at
        for partition, unread_range in changed:
            age = known.ages[partition]
            age.settle(read_at)
            if unread_range is not None:
                age.apply_bounds(unread_range, at, now)
        return True

    def apply_probes(self, answers: Iterable[ProbeResult], moment: float) -> list[Follower]:
        """Apply the results of probes that all began after `moment`.

        Returns the followers with new information. Results for unknown followers are dropped.
        """
        advanced = []
        for answer in answers:
            for group in self._groups.values():
                age = group.ages.get(answer.of)
                if age is not None and age.apply_probe(answer.start, answer.found, moment):
                    advanced.append(answer.of)
        return advanced

    def identify(self, group: str, ids: Mapping[str, str | None], now: float) -> None:
        """Apply topic ids, and drop the data of a recreated topic.

        Its log end may already have passed the old one's.
        """
        known = self._ids.setdefault(group, {})
        reported = {topic: new for topic, new in ids.items() if new is not None}
        others = {topic for topic, new in reported.items() if known.get(topic, new) != new}
        known.update(reported)
        if len(known) > 2 * self._retained_ids.get(group, 0):
            # Most are of topics that have no follower any more.
            followed = {partition[2].topic for partition in self._ages(group)}
            retained = {name: known[name] for name in known.keys() & (followed | reported.keys())}
            self._ids[group], self._retained_ids[group] = retained, len(retained)
        for partition, age in self._ages(group).items() if others else ():
            if partition[2].topic in others:
                age.cut(now)

    def compute_lateness(
        self, group: str, partition: Follower, unread_range: UnreadRange
    ) -> Lateness:
        """Return the lateness of a follower with this unread range."""
        group_ages = self._groups.get(group)
        if group_ages is None or partition not in group_ages.ages:
            return NO_LATENESS if unread_range.following >= unread_range.end else UNKNOWN_LATENESS
        return group_ages.ages[partition].compute_lateness(unread_range, group_ages.at)

    def _ages(self, group: str) -> dict[Follower, _Age]:
        group_ages = self._groups.get(group)
        return {} if group_ages is None else group_ages.ages
