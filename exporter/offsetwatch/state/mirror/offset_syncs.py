"""Offset syncs of one offset-syncs topic, and how far they count beyond the commits. Pure.

MM2 writes a sync at once when the record it copies is not the one after the last (OffsetSyncWriter,
PartitionState.update). So of two consecutive syncs, (U1, D1) and (U2, D2), U2 - U1 - (D2 - D1)
upstream offsets have no record downstream, and they lie directly before U2: a transaction marker, a
compaction gap, a record that a filter dropped, or records that retention deleted before they were
copied. The log start shows which of these it was (state/loss/accounting.py).

MM2 writes a sync when a record is acknowledged and commits once per flush, so its syncs are ahead
of its commits by one flush interval at most. A sync names no writer. Commits and syncs are records
of two logs, of two writers, often on two clusters: their timestamps give them no order. So a sync
counts only by evidence that needs no clock of theirs:

- order within one log: commits that go back, or are deleted, begin a new run of the task, and so
  do syncs that go back;
- the order in which we read the two logs live: a sync counts if it was read after a commit that
  advanced, in the present run. The order of what both logs held when we began is not known;
- time by our own clock: syncs that are beyond the commit for longer than LEAD_INTERVALS flushes
  come from another MirrorMaker, or from records behind a rejected one, or the flush fails. The time
  between flushes is learned from the commits, and is never less than the interval given.

Where the order is not known only the commit counts: the lag is too high by one flush, at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from offsetwatch.model.observations import SyncRecord
from offsetwatch.model.offsets import OffsetSync
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.key_budget import KeyBudget
from offsetwatch.state.mirror.lag import MirrorPosition
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from offsetwatch.state.snapshot import SyncView

LEAD_INTERVALS: Final = 2.0  # one flush may fail or time out
# How often a worker flushes (offset.flush.interval.ms) no REST API tells: its commits do. So many
# are remembered, and so many must be known; until then an hour is allowed for.
FLUSHES_MAX: Final = 64
FLUSHES_NEEDED: Final = 3
UNKNOWN_FLUSH_S: Final = 3600.0
LATE_FLUSHES: Final = 3.0
STEPS_MAX: Final = 16


@dataclass(slots=True)
class SyncRun:
    """Syncs of one upstream partition that were read live, since they last went back.

    number    how often they went back
    steps     (upstream offset, when it was read), both ascending; of many the second of a pair
              takes the time of the first, which makes a lead look longer and never shorter
    """

    number: int = 0
    steps: list[tuple[int, float]] = field(default_factory=list)

    def add(self, before: int | None, offset: int, read_at: float) -> None:
        """Add a sync that was read after the one at upstream offset `before`."""
        if before is not None and offset <= before:
            self.number += 1
            self.steps.clear()
        if len(self.steps) == STEPS_MAX:
            pairs = zip(self.steps[::2], self.steps[1::2], strict=True)
            self.steps = [(reached, moment) for (_, moment), (reached, _) in pairs]
        self.steps.append((offset, read_at))

    def beyond(self, offset: int, since: float) -> float | None:
        """Return when the first sync beyond this offset was read, of those read after `since`."""
        return next(
            (moment for reached, moment in self.steps if reached > offset and moment > since), None
        )


class PartitionProgress(NamedTuple):
    """Progress of one partition.

    replicated           the last upstream offset that the connector has certainly passed
    copied               the last that a sync shows on the target, unless the commit went back:
                         nothing up to here is lost
    uncommitted_since    since when syncs advance without a new commit; None if
                         they do not, or not for long
    outdated             the newest sync is beyond the commit because the commit went back
    """

    replicated: int | None
    copied: int | None
    uncommitted_since: float | None = None
    outdated: bool = False


@dataclass(slots=True)
class _Lead:
    """State of the commits and syncs of one partition.

    counts      a commit advanced in the present run of the task
    since       syncs that were read before are of another run, or of unknown order
    number      of the run of syncs that must have ended before any counts; -1: of none
    high        or else a commit must have come as far as this
    ahead_at    when the first sync beyond the commit was read
    read_at     when the newest sync was read; since `going_at` they advance. One long pause begins
                again (`paused`): a task that died after a sync may begin behind records that are
                gone
    turned_at   when a commit that advanced was read
    """

    committed: int | None
    since: float
    counts: bool = False
    number: int = -1
    high: int = -1
    ahead_at: float | None = None
    read_at: float = -inf
    going_at: float = -inf
    paused: bool = False
    turned_at: float | None = None

    def hear(self, read_at: float, pause_s: float) -> None:
        """Record that a sync was read."""
        if read_at - self.read_at > pause_s and not self.paused:
            self.going_at, self.paused = read_at, self.read_at != -inf
        self.read_at = read_at

    def flushed(self, committed: int | None, now: float) -> float | None:
        """Return the seconds between two flushes, the second of which made this commit.

        None if the time may be longer, as where there was nothing to commit for most of it.
        """
        if committed is None or (self.committed is not None and committed < self.committed):
            self.turned_at = None
            return None
        before, self.turned_at = self.turned_at, now
        if before is None or self.ahead_at is None or not self.counts:
            return None
        passed = now - before
        return passed if 0 < passed <= 2 * (now - self.ahead_at) else None

    def turn(
        self, committed: int | None, synced: int | None, run: SyncRun | None, now: float
    ) -> None:
        """Apply another commit, or a tombstone."""
        before, self.committed, self.paused = self.committed, committed, False
        number = 0 if run is None else run.number
        if committed is None or (before is not None and committed < before):
            # What syncs there are may be from before that.
            self.counts, self.since, self.ahead_at = False, now, None
            self.number, self.high = number, max(self.high, -1 if synced is None else synced)
            return
        if not self.counts and (number > self.number or committed >= self.high):
            self.counts, self.since, self.high = True, now, -1
        self.ahead_at = None if run is None else run.beyond(committed, self.since)


class SyncLeads:
    """Leads of one flow's partitions: how far syncs count beyond commits.

    `interval_s` is the expected time between commits, unless they prove to be rarer.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._flushes: deque[tuple[float, float]] = deque(maxlen=FLUSHES_MAX)
        self._of: dict[TopicPartition, _Lead] = {}
        self.expires_at = inf
        """When the next of the syncs that count will count no more."""

    @property
    def _believed_s(self) -> float:
        """Return for how many seconds a sync beyond the commit counts.

        Uses the median of the flush times: one late flush, as of a task that hung, must not hide a
        dead task later.
        """
        passed = sorted(passed for _, passed in self._flushes)
        median_s = passed[len(passed) // 2] if len(passed) >= FLUSHES_NEEDED else 0.0
        return LEAD_INTERVALS * max(self._interval_s, median_s)

    @property
    def _late_s(self) -> float:
        """Return after how many seconds a commit is late, whatever the worker's interval is."""
        flush_s = UNKNOWN_FLUSH_S
        if len(self._flushes) >= FLUSHES_NEEDED:
            flush_s = max(passed for _, passed in self._flushes)
        return max(LEAD_INTERVALS * self._interval_s, LATE_FLUSHES * flush_s)

    def _learn(self, passed: float | None, now: float) -> None:
        """Record a time between two flushes; one flush covers all partitions of a task."""
        if passed is None:
            return
        if self._flushes and self._flushes[-1][0] == now:
            passed = max(passed, self._flushes.pop()[1])
        self._flushes.append((now, passed))

    def void(self, now: float) -> bool:
        """Stop counting syncs until the next commit. Return True if any counted.

        When a task fails, records acknowledged in order are committed by then. A sync beyond may be
        of a record behind a rejected one.
        """
        leads = [lead for lead in self._of.values() if lead.counts]
        for lead in leads:
            lead.counts, lead.since, lead.ahead_at = False, now, None
        return bool(leads)

    def forget(self) -> None:
        """Forget the order of commits and syncs."""
        self._of.clear()

    def begin(self) -> None:
        """Begin a round in which the progress of every partition is computed."""
        self.expires_at = inf

    def progress(
        self,
        where: TopicPartition,
        committed: int | None,
        synced: int | None,
        run: SyncRun | None,
        now: float,
    ) -> PartitionProgress:
        """Apply the present offsets of a partition and return its progress.

        `synced` is its newest sync, live or not. Without a commit there is no position: a reset
        partition starts again whatever syncs say.
        """
        lead = self._of.get(where)
        if lead is None:
            lead = self._of[where] = _Lead(committed, now)
        elif committed != lead.committed:
            self._learn(lead.flushed(committed, now), now)
            lead.turn(committed, synced, run, now)
        if committed is None or synced is None or synced <= committed:
            return PartitionProgress(committed, committed)
        went_back = not lead.counts and lead.number >= 0
        copied = committed if went_back else synced
        if run is None or not run.steps or run.steps[-1][1] <= lead.since:
            return PartitionProgress(committed, copied, outdated=went_back)
        read_at = run.steps[-1][1]
        lead.hear(read_at, self._late_s)
        if lead.ahead_at is None:
            # Not that of the newest: the flow's syncs may have been unknown while they were read.
            first_at = run.beyond(committed, lead.since)
            lead.ahead_at = read_at if first_at is None else first_at
        expires_at = lead.ahead_at + self._believed_s
        if not lead.ahead_at <= now < expires_at:
            since = max(lead.ahead_at, lead.going_at)
            return PartitionProgress(
                committed, copied, since if read_at - since >= self._late_s else None
            )
        if not lead.counts:
            return PartitionProgress(committed, copied)
        self.expires_at = min(self.expires_at, expires_at)
        return PartitionProgress(synced, copied)


SYNCS_MAX: Final = 200_000  # partitions of one topic: MirrorMaker takes none back that are gone
GAPS_MAX: Final = 8  # per partition and inspection; the largest: a transaction's marker is one

Range = tuple[int, int]  # first and last, both in it


@dataclass(frozen=True, slots=True)
class SyncsSinceLastPoll:
    """Syncs of one upstream partition since its last inspection.

    newest   upstream offset of the newest sync, however old
    came     whether there were any
    lowest   lowest upstream offset among them; infinite if there were none
    back_to  the lowest that was not beyond the one before it: MM2 copies again what it had
             copied, or another topic
    gaps     ranges of upstream offsets that were skipped
    """

    newest: int
    came: bool = False
    gaps: tuple[Range, ...] = ()
    lowest: float = inf
    back_to: float = inf


class SyncGapTracker:
    """Syncs of one offset-syncs topic since each partition was last inspected."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, SyncsSinceLastPoll] = {}

    def apply(
        self,
        newest: Mapping[TopicPartition, tuple[OffsetSync, float]],
        records: Iterable[SyncRecord],
        *,
        whole: bool,
    ) -> None:
        """Apply records in topic order; `newest` has the syncs known before them.

        If the topic is read from its start (`whole`), all is forgotten: compaction removed syncs
        between the records.
        """
        if whole:
            self._since.clear()
            return
        before: dict[TopicPartition, OffsetSync] = {}
        for record in records:
            where, sync = TopicPartition(record.sync.topic, record.sync.partition), record.sync
            last = before.get(where)
            if last is None and where in newest:
                last = newest[where][0]
            before[where] = sync
            self._since[where] = _extend_syncs(self._since.get(where), last, sync)

    @property
    def came(self) -> Container[TopicPartition]:
        """Return the partitions with syncs that were not forgotten yet."""
        return self._since.keys()

    def since(self, where: TopicPartition, newest: int | None) -> SyncsSinceLastPoll | None:
        """Return the syncs since the last `forget`; None if there never was a sync."""
        if newest is None:
            return self._since.get(where)
        return self._since.get(where) or SyncsSinceLastPoll(newest=newest)

    def forget(self, inspected: Iterable[TopicPartition]) -> None:
        """Forget the syncs of partitions that were inspected."""
        for partition in inspected:
            self._since.pop(partition, None)


def _extend_syncs(
    known: SyncsSinceLastPoll | None, last: OffsetSync | None, sync: OffsetSync
) -> SyncsSinceLastPoll:
    before = known or SyncsSinceLastPoll(newest=sync.upstream_offset)
    gaps, back_to = before.gaps, before.back_to
    if last is not None:
        if sync.upstream_offset <= last.upstream_offset:
            back_to = min(back_to, sync.upstream_offset)
        moved = sync.upstream_offset - last.upstream_offset
        missing = moved - (sync.downstream_offset - last.downstream_offset)
        if 0 < missing < moved:
            gaps = (*gaps, (sync.upstream_offset - missing, sync.upstream_offset - 1))
            gaps = tuple(sorted(gaps, key=lambda gap: gap[1] - gap[0])[-GAPS_MAX:])
    return SyncsSinceLastPoll(
        newest=sync.upstream_offset,
        came=True,
        gaps=gaps,
        lowest=min(sync.upstream_offset, before.lowest),
        back_to=back_to,
    )


@dataclass(slots=True)
class SyncBook:
    """Offset syncs of one offset-syncs topic (one Kafka partition).

    `newest` has the newest sync per upstream partition, `read` the translation by all of them,
    `runs` those that were read live, `gaps` those since each inspection. `dropped` counts records
    of partitions beyond SYNCS_MAX, or whose names exceed the `budget`. `whole_at` is when the topic
    was last read from its start.
    """

    newest: dict[TopicPartition, tuple[OffsetSync, float]] = field(default_factory=dict)
    read: dict[TopicPartition, PartitionSyncs] = field(default_factory=dict)
    runs: dict[TopicPartition, SyncRun] = field(default_factory=dict)
    version: int = 0
    dropped: int = 0
    whole_at: float = inf
    gaps: SyncGapTracker = field(default_factory=SyncGapTracker)
    budget: KeyBudget = field(default_factory=lambda: KeyBudget(SYNCS_MAX))

    def apply(self, records: tuple[SyncRecord, ...], now: float, *, whole: bool = False) -> None:
        """Apply records in topic order: the last one wins. `whole`: the topic holds no others."""
        self.gaps.apply(self.newest, records, whole=whole)
        if whole:
            self.whole_at = now
            self.newest.clear()
            self.budget = KeyBudget(SYNCS_MAX)
            self.read.clear()
            for known_run in self.runs.values():
                known_run.steps.clear()
        for record in records:
            sync = record.sync
            where = TopicPartition(sync.topic, sync.partition)
            if where not in self.newest and not self.budget.take(len(where.topic)):
                self.dropped += 1
                continue
            if not whole:
                last = self.newest.get(where)
                before = None if last is None else last[0].upstream_offset
                self.runs.setdefault(where, SyncRun()).add(before, sync.upstream_offset, now)
            self.newest[where] = (sync, record.at)
            known = self.read.get(where)
            if known is None:
                known = self.read[where] = PartitionSyncs()
            for upstream, downstream in record.earlier:
                known.read(upstream, downstream, live=False)
            known.read(sync.upstream_offset, sync.downstream_offset, live=not whole)
        self.version += whole or bool(records)

    def forget_copies(self, topics: Collection[str]) -> None:
        """Forget the downstream side of upstream topics whose copies now go to another topic."""
        for where in self.read:
            if where.topic in topics:
                self.read[where] = PartitionSyncs()

    def read_at(self, where: TopicPartition) -> float | None:
        """Return when the newest sync was read live; None if it existed before we began to read."""
        run = self.runs.get(where)
        return None if run is None or not run.steps else run.steps[-1][1]

    def since_inspection(self, partition: TopicPartition) -> SyncsSinceLastPoll | None:
        """Return the syncs of a partition since its last inspection; None if it never had any."""
        newest = self.newest.get(partition)
        return self.gaps.since(partition, None if newest is None else newest[0].upstream_offset)

    def newest_position(self, where: TopicPartition) -> MirrorPosition | None:
        """Return the upstream side of the newest sync, as a position."""
        newest = self.newest.get(where)
        return None if newest is None else MirrorPosition(newest[0].upstream_offset, newest[1])


def build_sync_views(flow: MirrorFlow, syncs: SyncBook) -> tuple[SyncView, ...]:
    """Build the views of a flow's newest syncs."""
    return tuple(
        SyncView(
            connect_cluster=flow.connect_cluster,
            source=flow.source,
            target=flow.target,
            topic=where.topic,
            partition=where.partition,
            upstream_offset=sync.upstream_offset,
            downstream_offset=sync.downstream_offset,
            at=moment,
            read_at=(read_at := syncs.read_at(where)),
            read_by=syncs.whole_at if read_at is None else read_at,
        )
        for where, (sync, moment) in sorted(syncs.newest.items())
    )
