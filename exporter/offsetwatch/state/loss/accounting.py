"""Loss accounting of every flow: which upstream records were copied, lost or undecided, and why.

Also counts topic recreations and estimates when retention reaches a position.

An inspection is a position with the log bounds that were read after it, and with the topic id that
was the same before and after they were read. If the id could not be read, the topic waits for the
next inspection. The accounts survive a restart (state/loss/persistence.py), so that losses in
between are found at the next start, and counted once. Owned by Replication.

`settled` is the first offset that is undecided: everything before it was copied or is counted as
lost. It never falls while the log is the same one, so that a rewind, whatever its cause, loses
nothing a second time. A committed position is up to one flush old, so nothing is counted when it is
first found: records that were copied and not committed show with the next commit. The rules:

1  Retention. The log start lies beyond the position, and the position has not moved for
   `patience_s` (one flush), or the connector is stopped: from `settled` to the log start is lost.
2  Retention, and the position was beyond the log start again before that: MM2 skipped the gap
   (it starts at the log start without a warning), or had copied what retention then deleted. Where
   syncs are emitted they show which (mirror/offset_syncs.py), if they come within `patience_s`.
   Where none ever were, it is lost only if it had waited for `patience_s` and is more than could
   have been copied at three times the greatest rate observed. Otherwise the cause cannot be
   determined, and nothing is counted.
3  Another topic (its id changed, or its end fell below the position): what was not copied of the
   old one is lost, up to the last end that was read, once its last commits had `patience_s`.
4  Another topic, and the position goes on from where it stood: MM2 sought into the new log and
   skipped its records up to there. If it goes back instead, or was reset and had no position any
   more, it copies the new log from its start, and nothing of it is lost. Until one of the two
   happens neither is counted.
5  An edit: the position lies beyond the end of a log that did not fall, or it moved while the
   connector was stopped, with its last flush long done and no sync. As in 4: what lies between is
   lost when the position goes on from there, and not if it is taken back, or MM2 met the end of the
   log and began at its start.

Not detected, because offsets do not show it: an edit within the log that was undone or used between
two inspections; a log that was truncated but not below the position; a jump while the daemon was
down and MM2 was not, or one that target-side transaction markers hide in the syncs; what retention
deletes from a new topic before MM2 shows its position in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from offsetwatch.model.connectors import Connector, has_running_task
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.mirror.offset_syncs import Range, SyncsSinceLastPoll
from offsetwatch.state.observed_time import ObservedTime
from offsetwatch.state.snapshot import ConnectorFlowKey, Loss, TopicRecreation

WINDOW_S: Final = 600.0  # a position's pace is over half of this at least, once that has passed
JUMPS_S: Final = 6 * 3600.0  # segments may roll once an hour
JUMPS_MAX: Final = 16  # per partition, of which there may be 100,000; every second one goes beyond

LogStartJump = tuple[float, int]  # when it was seen, and the log start after it
PositionSample = tuple[float, int, int]  # when, the position and the log end then


@dataclass(slots=True)
class PartitionRates:
    """Rates of a partition's log start and position.

    Retention deletes whole segments, so a log start stands still and then jumps. One jump gives no
    rate: it may delete half an hour of records at once. The rate of retention is the number of
    records deleted after the first observed jump, divided by the time from there to the last one,
    or to when the next is overdue. There is no rate before the second jump. The rate of a position
    is its advance between two moments in the last minutes: commits come once per flush.

    anchor, middle   moments of the position: the rate is measured from the first of them; the
                     second takes its place when it is half a window old
    best, best_before    the greatest rate between two changes of the position, in this half of the
                     window and in the one before
    jumps            the log start after each observed jump, and when
    """

    anchor: PositionSample | None = None
    middle: PositionSample | None = None
    best: float = 0.0
    best_before: float = 0.0
    jumps: tuple[LogStartJump, ...] = ()

    def restart(self) -> None:
        """Drop all measurements: they belong to another log, or to none."""
        self.anchor = self.middle = None
        self.best = self.best_before = 0.0
        self.jumps = ()

    def leave_out(self, seconds: float) -> None:
        """Have seconds that nobody observed count for no rate."""
        self.anchor, self.middle = (
            None if sample is None else (sample[0] + seconds, *sample[1:])
            for sample in (self.anchor, self.middle)
        )
        self.jumps = tuple((moment + seconds, start) for moment, start in self.jumps)

    def start_moved(self, start: int, now: float) -> None:
        """Record that the log start has moved to `start` since the last inspection."""
        fresh = tuple(jump for jump in self.jumps if now - jump[0] <= JUMPS_S)
        if len(fresh) >= JUMPS_MAX:
            fresh = fresh[::2]
        self.jumps = (*fresh, (now, start))

    def record_position(self, position: int, end: int, now: float) -> None:
        """Record the position at an inspection, moved or not."""
        if self.anchor is None or self.middle is None or position < self.middle[1]:
            self.anchor = self.middle = (now, position, end)
            self.best = self.best_before = 0.0
        elif now - self.middle[0] >= WINDOW_S / 2:
            self.anchor, self.middle = self.middle, (now, position, end)
            self.best_before, self.best = self.best, 0.0

    def advanced(self, records: int, seconds: float) -> None:
        """Record how far the position advanced in the time since it last moved."""
        if seconds > 0:
            self.best = max(self.best, records / seconds)

    def reach(self, start: int, seconds: float, now: float, *, over_s: float) -> float | None:
        """Return how many records may have been copied in so many seconds, as an upper bound.

        It is three times the greatest rate observed. None if that is not known: the rate of a flow
        that has copied everything is only that of its producers. So all records up to `start` must
        have waited for `over_s`.
        """
        if self.anchor is None or now - self.anchor[0] < over_s or start > self.anchor[2]:
            return None
        return 3 * max(self.best, self.best_before) * seconds

    def seconds(self, headroom: int, position: int, now: float, *, over_s: float) -> float | None:
        """Return the seconds until retention reaches the position; None if that is not known."""
        if headroom <= 0:
            return 0.0
        purge = self._purge(now)
        if purge is None or self.anchor is None or now - self.anchor[0] < over_s:
            return None
        since, then, _ = self.anchor
        closing = purge - (position - then) / (now - since)
        return headroom / closing if closing > 0 else None

    def _purge(self, now: float) -> float | None:
        """Return the rate of retention in records per second; None before the second jump."""
        jumps = [jump for jump in self.jumps if now - jump[0] <= JUMPS_S]
        if len(jumps) < 2 or jumps[-1][0] <= jumps[0][0]:
            return None
        (first_at, first), (last_at, last) = jumps[0], jumps[-1]
        between = (last_at - first_at) / (len(jumps) - 1)
        return (last - first) / (max(last_at, now - between) - first_at)


RETENTION: Final = "retention"
RECREATED: Final = "recreated"
ALTERED: Final = "altered"
CAUSES: Final = (ALTERED, RECREATED, RETENTION)

LostRange = tuple[str, int, int]  # cause, first and last offset
LossCounts = tuple[tuple[str, int], ...]
NOTHING_LOST: Final[LossCounts] = tuple((cause, 0) for cause in CAUSES)


@dataclass(frozen=True, slots=True)
class PartitionInspection:
    """Input of one inspection: a position, and the log bounds that were read after it.

    end         end of the log as the flow can read it
    renewed     the topic is another one than at the last inspection
    quiet       the connector was stopped, and its last flush over, at the last inspection and now
    runs        it ran at the last inspection and now
    syncs       syncs since the last inspection; None if there are none to use for this partition
    patience_s  time within which copied records are committed: one flush
    """

    now: float
    position: int
    start: int
    end: int
    renewed: bool = False
    quiet: bool = False
    runs: bool = False
    syncs: SyncsSinceLastPoll | None = None
    patience_s: float = 60.0

    def waited(self, since: float) -> bool:
        """Return whether there was time for a commit since then."""
        return self.now - since >= self.patience_s


@dataclass(slots=True)
class PositionJump:
    """Jump of a position to an offset that it cannot have reached by copying (rules 4 and 5).

    If the position goes on from `mark`, the offsets from `first` to there are lost.

    harmless    MM2 began at the log start, as its syncs show or because it ran
    """

    mark: int
    first: int
    cause: str
    since: float
    harmless: bool = False


@dataclass(slots=True)
class PartitionLossAccount:
    """Loss account of one upstream partition in one flow.

    position     at the last inspection; None if it had none
    start, end   of the log, at the last inspection
    moved_at     when the position was first found here
    inspected_at when it was last inspected
    doubt_since  since when a log start beyond `settled` waits for the next position
    tail         range of the old topic that was not copied, as far as its commits show (rule 3)
    lost         records ever counted, by cause
    generation   number of recreations of the topic by id that it has applied
    """

    position: int | None
    settled: int
    start: int
    end: int
    moved_at: float
    inspected_at: float = 0.0
    doubt_since: float | None = None
    jump: PositionJump | None = None
    tail: Range | None = None
    lost: LossCounts = NOTHING_LOST
    headroom_s: float | None = None
    rates: PartitionRates = field(default_factory=PartitionRates)
    generation: int = 0

    @classmethod
    def opened(cls, inspection: PartitionInspection) -> PartitionLossAccount:
        """Build the account of a partition at its first inspection."""
        account = cls(
            position=inspection.position,
            settled=min(inspection.position + 1, inspection.end),
            start=inspection.start,
            end=inspection.end,
            moved_at=inspection.now,
        )
        account.rates.record_position(inspection.position, inspection.end, inspection.now)
        return account

    @property
    def waits(self) -> bool:
        """Return whether the syncs so far are still needed.

        For an edit, only syncs after it was found are.
        """
        if self.jump is not None:
            return self.jump.cause == ALTERED and self.jump.since < self.inspected_at
        return self.doubt_since is not None

    def fallen(self, inspection: PartitionInspection) -> bool:
        """Return whether the log end fell below the position."""
        return inspection.position >= inspection.end and inspection.end < self.end

    def leave_out(self, seconds: float) -> None:
        """Have seconds that nobody observed count for nothing that is waited for.

        They are negative if the clock was set back.
        """
        self.moved_at += min(0.0, seconds)
        self.rates.leave_out(seconds)
        if self.doubt_since is not None:
            self.doubt_since += seconds
        if self.jump is not None:
            self.jump.since += seconds

    def position_gone(self) -> None:
        """Apply a reset of the offset: MM2 begins again, by default at the log start."""
        self.position = self.doubt_since = self.headroom_s = None
        self.jump = None
        self.rates.restart()

    def rests(self, position: int, start: int, end: int, now: float) -> bool:
        """Apply an inspection that changes nothing. Return False if it is not such a one.

        Position and log must be unchanged, all records copied, and nothing undecided. The topic
        must be the same, and no sync may have arrived.
        """
        if (
            position != self.position
            or end != self.end
            or start != self.start
            or position != end - 1
            or self.settled != end
            or self.jump is not None
            or self.doubt_since is not None
            or self.tail is not None
            or self.headroom_s is not None
        ):
            return False
        self.rates.record_position(position, end, now)
        self.inspected_at = now
        return True

    def inspect(self, inspection: PartitionInspection) -> list[LostRange]:
        """Apply an inspection. Return the ranges lost since the last one."""
        lost: list[LostRange] = []
        if inspection.renewed or self.fallen(inspection):
            lost += self._renew(inspection)
        elif self.jump is not None:
            lost += self._apply_jump(self.jump, inspection)
        if self.jump is None and not inspection.renewed:
            self._find_jump(inspection)
        lost += self._close_tail(inspection)
        if self.jump is None:
            lost += self._retention(inspection)
        self._move_on(inspection)
        lost = [key for key in lost if key[1] <= key[2]]
        for cause, first, last in lost:
            self.lost = tuple(
                (name, count + (last - first + 1) * (name == cause)) for name, count in self.lost
            )
        return lost

    # --- rules 1 and 2 ---------------------------------------------------------------------------

    def _retention(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        reached = inspection.position + 1
        if inspection.start <= self.settled:
            self.settled = max(self.settled, reached)
        elif reached < inspection.start:
            self.settled = max(self.settled, reached)
            if self.doubt_since is None or inspection.position != self.position:
                self.doubt_since = inspection.now
            if inspection.quiet or inspection.waited(self.doubt_since):
                yield RETENTION, self.settled, inspection.start - 1
                self.settled, self.doubt_since = inspection.start, None
        else:
            yield from self._passed_over(inspection)

    def _passed_over(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        """Apply rule 2."""
        syncs, first = inspection.syncs, self.settled
        if syncs is None:
            reach = self.rates.reach(
                inspection.start,
                inspection.now - self.moved_at,
                inspection.now,
                over_s=inspection.patience_s,
            )
            if reach is not None and inspection.start - first > reach:
                yield RETENTION, first, inspection.start - 1
        elif syncs.newest < inspection.start:
            self.doubt_since = inspection.now if self.doubt_since is None else self.doubt_since
            if not inspection.waited(self.doubt_since):
                return
        for gap in sorted(() if syncs is None else syncs.gaps):
            yield RETENTION, max(first, gap[0]), min(gap[1], inspection.start - 1)
            first = max(first, gap[1] + 1)
        self.settled, self.doubt_since = inspection.position + 1, None

    # --- rules 3, 4 and 5 ------------------------------------------------------------------------

    def _renew(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        """Apply a log that is another one, or whose end fell (rules 3 and 4)."""
        if self.tail is not None:
            yield RECREATED, *self.tail
        first, last = self.settled, self.end - 1
        if self.position is None:  # it was reset: what runs has begun at the start of the new log
            back = inspection.position < inspection.end and not inspection.quiet
        else:
            back = inspection.position < min(self.position, inspection.end)
            if self.jump is None:  # what was committed of the old log, in the meantime as well
                reached = self.position if back else inspection.position
                first = max(first, min(reached + 1, self.end))
        new = inspection.renewed or inspection.start < self.start
        self.tail = (first if new else max(first, inspection.end), last)
        self.settled = inspection.start if new else inspection.end
        self.doubt_since = None
        self.jump = PositionJump(inspection.position, self.settled, RECREATED, inspection.now)
        if inspection.syncs is not None:
            self._apply_syncs(self.jump, inspection.syncs)
        if back:  # this is already a position in the new log
            self.jump = None
        self.start = inspection.start
        self.rates.restart()

    def _apply_jump(
        self, jump: PositionJump, inspection: PartitionInspection
    ) -> Iterator[LostRange]:
        """Decide an open jump if the position shows its outcome (rules 4 and 5)."""
        position = inspection.position
        if inspection.syncs is not None:
            self._apply_syncs(jump, inspection.syncs)
        jump.harmless |= (
            inspection.runs and position >= inspection.end and inspection.waited(jump.since)
        )
        jump.harmless &= not inspection.quiet  # it will be restarted from the position
        if position == jump.mark:
            copied = (
                inspection.syncs is not None
                and inspection.syncs.came
                and inspection.syncs.newest >= jump.mark
            )
            if jump.harmless and copied and position < inspection.end:
                self.jump = None  # it came back to where the edit had put it
            return
        if self.tail is not None and self._still_of_the_old(jump, self.tail[1], inspection):
            jump.mark, self.tail = position, (max(self.tail[0], position + 1), self.tail[1])
        elif position >= inspection.end:
            jump.mark = position
        elif inspection.quiet:  # a person moved it again
            jump.mark = position
            self.jump = jump if position >= jump.first else None
        elif position > jump.mark and not jump.harmless:
            last = jump.mark
            for gap in sorted(() if inspection.syncs is None else inspection.syncs.gaps):
                if gap[0] <= last + 1:  # it stood further than its commits said
                    last = max(last, gap[1])
            yield jump.cause, jump.first, last
            self.jump, self.settled = None, max(self.settled, last + 1)
        else:
            self.jump = None
            if jump.cause == RECREATED:  # else retention may have taken what it never went back to
                self.settled = max(self.settled, position + 1)

    def _apply_syncs(self, jump: PositionJump, syncs: SyncsSinceLastPoll) -> None:
        """Apply syncs to an open jump: a sync from before the mark shows a copy from the log start.

        For another topic it must be a sync that went back: others may be of the old topic.
        """
        if jump.cause == ALTERED:
            jump.harmless |= syncs.lowest <= jump.mark
        else:
            jump.harmless |= syncs.back_to <= jump.mark
            if jump.harmless and syncs.came:
                self.settled = max(self.settled, syncs.newest + 1)

    @staticmethod
    def _still_of_the_old(jump: PositionJump, last: int, inspection: PartitionInspection) -> bool:
        """Return whether this may be the last commit of records copied from the old topic."""
        late = not inspection.quiet and not inspection.waited(jump.since)
        return late and not jump.harmless and jump.mark < inspection.position <= last

    def _close_tail(self, inspection: PartitionInspection) -> Iterator[LostRange]:
        if self.tail is None:
            return
        if self.jump is None or inspection.quiet or inspection.waited(self.jump.since):
            yield RECREATED, *self.tail
            self.tail = None

    def _find_jump(self, inspection: PartitionInspection) -> None:
        """Apply rule 5."""
        copied = inspection.syncs is not None and inspection.syncs.came
        moved = self.position is not None and inspection.position > self.position
        by_hand = inspection.quiet and moved and not copied and inspection.position >= self.settled
        if inspection.position >= inspection.end or by_hand:
            self.jump = PositionJump(inspection.position, self.settled, ALTERED, inspection.now)

    # --- details ---------------------------------------------------------------------------------

    def _move_on(self, inspection: PartitionInspection) -> None:
        if inspection.position != self.position:
            if (
                self.position is not None
                and inspection.position > self.position
                and self.jump is None
            ):
                self.rates.advanced(
                    inspection.position - self.position, inspection.now - self.moved_at
                )
            self.moved_at = inspection.now
        if inspection.start != self.start:
            self.rates.start_moved(inspection.start, inspection.now)
        self.rates.record_position(inspection.position, inspection.end, inspection.now)
        self.position, self.start, self.end = inspection.position, inspection.start, inspection.end
        self.inspected_at = inspection.now
        self.headroom_s = None
        if (
            self.jump is None and inspection.position < inspection.end - 1
        ):  # what is copied already, retention may take
            self.headroom_s = self.rates.seconds(
                inspection.position + 1 - inspection.start,
                inspection.position,
                inspection.now,
                over_s=inspection.patience_s,
            )


LOSSES_MAX: Final = 1000  # ranges; the counters know of those that go
GRACE_S: Final = 10.0  # for the last flush of a connector that was stopped; Connect allows it five
SAVE_INTERVAL_MAX_S: Final = 3600.0  # at least, also where nothing happens
# After which a topic that no flow copies any more is forgotten.
UNUSED_TOPIC_TTL_S: Final = 7 * 86400.0

_NO_LOSS: Final[tuple[LossCounts, float | None]] = (NOTHING_LOST, None)

# Flow, topic, partition, cause, and the offset after the range.
_LossRangeEnd = tuple[ConnectorFlowKey, str, int, str, int]


@dataclass(slots=True)
class TopicLossAccount:
    """Loss account of one upstream topic in one flow.

    id            None as long as no broker reported one
    generation    number of recreations by id; a partition with a lower one has not applied them yet
    recreations   all recreations counted, including those by a log end that fell
    """

    at: float
    id: str | None = None
    generation: int = 0
    recreations: int = 0
    recreated_at: float = 0.0
    before: str | None = None
    after: str | None = None
    accounts: dict[int, PartitionLossAccount] = field(default_factory=dict)


@dataclass(slots=True)
class ConnectorActivity:
    """Activity of a connector at the last inspections, and since when."""

    doing: str | None
    since: float
    inspected_at: float

    def lasted(self, doing: str, grace_s: float) -> bool:
        """Return whether it was already in this state at the last inspection, and for so long."""
        return self.doing == doing and self.inspected_at - self.since >= grace_s


@dataclass(frozen=True, slots=True)
class FlowInspection:
    """Input of one inspection: one flow, and one response of its upstream cluster.

    known    the replicated offsets known before the log ends were requested
    ids      topic ids, as in LogEndsRead
    doing    the state of the connector (`classify_activity`)
    came     the partitions with syncs since their last inspection
    patience_s    time within which copied records are committed: one flush
    """

    now: float
    flow: MirrorFlow
    known: Mapping[TopicPartition, int | None]
    bounds: Mapping[TopicPartition, LogBounds]
    ids: Mapping[str, str | None] | None
    doing: str | None
    came: Container[TopicPartition]
    syncs_of: Callable[[TopicPartition], SyncsSinceLastPoll | None]
    patience_s: float = 60.0


class LossAccounting:
    """Loss accounts of all flows, the newest lost ranges, and topic recreations."""

    def __init__(self) -> None:
        self.flows: dict[ConnectorFlowKey, dict[str, TopicLossAccount]] = {}
        self._losses: dict[_LossRangeEnd, Loss] = {}
        self.urgent = False
        self.changed = False
        self.version = 0
        self._changed_partitions: dict[ConnectorFlowKey, set[TopicPartition]] = {}
        self._doing: dict[ConnectorFlowKey, ConnectorActivity] = {}
        self._time_passed = False  # did time alone pass somewhere since the last save?
        self._inspected_at = self._changed_at = 0.0
        self._time = ObservedTime()

    # --- taking in -------------------------------------------------------------------------------

    def inspect(self, inspection: FlowInspection) -> frozenset[TopicPartition]:
        """Apply one inspection. Return the partitions whose syncs so far are no longer needed."""
        self._leave_out(self._time.pass_over(inspection.now))
        quiet, runs = self._activity(inspection)
        topics = self.flows.setdefault(inspection.flow.connector_flow_key, {})
        inspected = set()
        for topic, partitions in _group_by_topic(inspection.known).items():
            if inspection.ids is not None and topic not in inspection.ids:
                continue
            account = topics.setdefault(topic, TopicLossAccount(inspection.now))
            account.at = inspection.now
            self._identify(
                account, None if inspection.ids is None else inspection.ids[topic], inspection.now
            )
            fell: set[int] = set()
            for where in partitions:
                if self._rests(inspection, where, account):
                    continue
                before = account.accounts.get(where.partition)
                lost, persisted = _find_losses(before), _collect_persisted_state(before)
                was_undecided = _is_undecided(before)
                result = _build_inspection(inspection, where, account, quiet=quiet, runs=runs)
                if result and not self._take(inspection.flow, where, account, result, fell).waits:
                    inspected.add(where)
                after = account.accounts.get(where.partition)
                if _find_losses(after) != lost:
                    self._changed_partitions.setdefault(
                        inspection.flow.connector_flow_key, set()
                    ).add(where)
                self.changed |= _collect_persisted_state(after) != persisted
                self.version += _is_undecided(after) is not was_undecided
            self._fallen(account, fell, inspection.now)
        self._inspected_at = inspection.now
        # When all was last inspected is saved for UNUSED_TOPIC_TTL_S alone. The start of rates of
        # what stands still may be as old as another window: topics take turns, and it would be
        # saved all the time.
        save_interval_s = WINDOW_S if self._time_passed else SAVE_INTERVAL_MAX_S
        self.changed |= self.urgent or not 0 <= inspection.now - self._changed_at < save_interval_s
        if self.changed:
            self._changed_at, self._time_passed = inspection.now, False
        return frozenset(inspected)

    def _leave_out(self, seconds: float) -> None:
        """Have seconds that no inspection observed count for no account."""
        for topics in self.flows.values() if seconds else ():
            for topic in topics.values():
                for account in topic.accounts.values():
                    account.leave_out(seconds)

    def _rests(
        self, inspection: FlowInspection, where: TopicPartition, topic_account: TopicLossAccount
    ) -> bool:
        """Apply a partition that stands still, all of it copied, as most are. Or return False."""
        account = topic_account.accounts.get(where.partition)
        position, log = inspection.known[where], inspection.bounds.get(where)
        if (
            account is None
            or account.generation != topic_account.generation
            or where in inspection.came
        ):
            return False
        end = None if log is None else log.find_end(committed=inspection.flow.read_committed)
        if position is None or log is None or end is None:
            return False
        middle = account.rates.middle
        if not account.rests(position, log.start, end, inspection.now):
            return False
        self._time_passed |= account.rates.middle is not middle
        return True

    def _take(
        self,
        flow: MirrorFlow,
        where: TopicPartition,
        topic_account: TopicLossAccount,
        inspection: PartitionInspection,
        fell: set[int],
    ) -> PartitionLossAccount:
        account = topic_account.accounts.get(where.partition)
        if account is None:
            account = PartitionLossAccount.opened(inspection)
            topic_account.accounts[where.partition] = account
        if not inspection.renewed and account.fallen(inspection):
            fell.add(where.partition)
        for cause, first, last in account.inspect(inspection):
            self.add(
                Loss(
                    *(*flow.connector_flow_key, where.topic, where.partition),
                    *(cause, first, last, inspection.now),
                )
            )
            self.urgent = True
            self.version += 1
        account.generation = topic_account.generation
        return account

    def _identify(self, account: TopicLossAccount, new: str | None, now: float) -> None:
        if new is None or new == account.id:
            return
        if account.id is not None:
            account.generation += 1
            self._recreated(account, account.id, new, now)
        account.id = new
        self.urgent = True  # what is not remembered of a topic cannot be missed

    def _fallen(self, topic_account: TopicLossAccount, fell: Collection[int], now: float) -> None:
        """Count a recreation for log ends that fell, once for the topic over inspections."""
        if fell and not any(
            _is_undecided(account)
            for number, account in topic_account.accounts.items()
            if number not in fell
        ):
            self._recreated(topic_account, topic_account.id, topic_account.id, now)

    def _recreated(
        self, account: TopicLossAccount, before: str | None, after: str | None, now: float
    ) -> None:
        account.recreations += 1
        account.recreated_at, account.before, account.after = now, before, after
        self.urgent = True
        self.version += 1

    def add(self, loss: Loss) -> None:
        """Add a lost range to the newest ones, joined with one of its cause that it continues."""
        begun = self._losses.pop(_build_range_end(loss, loss.first), None)
        if begun is not None:
            loss = replace(loss, first=begun.first)
        self._losses[_build_range_end(loss, loss.last + 1)] = loss
        if len(self._losses) > LOSSES_MAX:
            del self._losses[next(iter(self._losses))]

    def _activity(self, inspection: FlowInspection) -> tuple[bool, bool]:
        """Return whether the connector is quiet, and whether it runs.

        Both must also hold at the last inspection. Quiet means that it is stopped and its last
        flush is long done.
        """
        key = inspection.flow.connector_flow_key
        last = self._doing.get(key)
        if last is None or last.doing != inspection.doing:
            self._doing[key] = ConnectorActivity(inspection.doing, inspection.now, inspection.now)
            return False, False
        quiet, runs = last.lasted("stopped", GRACE_S), last.lasted("running", 0.0)
        last.inspected_at = inspection.now
        return quiet, runs

    # --- giving out ------------------------------------------------------------------------------

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Return the newest lost ranges."""
        return tuple(self._losses.values())

    def find_losses(
        self, flow: MirrorFlow, where: TopicPartition
    ) -> tuple[LossCounts, float | None]:
        """Return the records ever lost of a partition by cause, and its headroom in seconds."""
        topic = self.flows.get(flow.connector_flow_key, {}).get(where.topic)
        return _find_losses(None if topic is None else topic.accounts.get(where.partition))

    def pop_changed(self, flow: MirrorFlow) -> set[TopicPartition]:
        """Return the partitions whose losses or headroom changed since the last call."""
        return self._changed_partitions.pop(flow.connector_flow_key, set())

    def losses_of(self, flows: Collection[MirrorFlow]) -> tuple[Loss, ...]:
        """Return the newest lost ranges of these flows."""
        keys = {flow.connector_flow_key for flow in flows}
        return tuple(
            loss
            for loss in self._losses.values()
            if (loss.connect_cluster, loss.connector, loss.source, loss.target) in keys
        )

    def recreations_of(self, flows: Collection[MirrorFlow]) -> tuple[TopicRecreation, ...]:
        """Return the recreated topics of these flows."""
        return tuple(
            TopicRecreation(
                *flow.connector_flow_key,
                topic=topic,
                count=topic_account.recreations,
                at=topic_account.recreated_at,
                before=topic_account.before,
                after=topic_account.after,
                undecided=tuple(
                    partition
                    for partition, account in sorted(topic_account.accounts.items())
                    if _is_undecided(account)
                ),
            )
            for flow in flows
            for topic, topic_account in sorted(self.flows.get(flow.connector_flow_key, {}).items())
            if topic_account.recreations
        )

    def forget_unused_topics(self) -> None:
        """Forget topics that no flow has copied for a week."""
        for key, topics in list(self.flows.items()):
            for topic in [
                name
                for name, account in topics.items()
                if self._inspected_at - account.at > UNUSED_TOPIC_TTL_S
            ]:
                del topics[topic]
            if not topics:
                del self.flows[key]


def _find_losses(account: PartitionLossAccount | None) -> tuple[LossCounts, float | None]:
    return _NO_LOSS if account is None else (account.lost, account.headroom_s)


def _is_undecided(account: PartitionLossAccount | None) -> bool:
    """Return whether the position is still the one from before the topic was recreated."""
    jump = None if account is None else account.jump
    return jump is not None and jump.cause == RECREATED


def _collect_persisted_state(account: PartitionLossAccount | None) -> tuple[object, ...] | None:
    """Return the part of a partition's account that must survive a restart.

    While a position jump is open, the result differs at each inspection.
    """
    if account is None:
        return None
    rates = account.rates
    return (
        *(account.generation, account.position, account.settled, account.start, account.end),
        *(account.moved_at, account.doubt_since, account.tail, account.lost),
        *(rates.anchor, rates.middle, rates.best, rates.best_before, rates.jumps),
        None if account.jump is None else account.inspected_at,
    )


def _build_range_end(loss: Loss, after: int) -> _LossRangeEnd:
    flow = (loss.connect_cluster, loss.connector, loss.source, loss.target)
    return (flow, loss.topic, loss.partition, loss.cause, after)


def _group_by_topic(known: Collection[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for where in known:
        topics.setdefault(where.topic, []).append(where)
    return topics


def _build_inspection(
    inspection: FlowInspection,
    where: TopicPartition,
    topic_account: TopicLossAccount,
    *,
    quiet: bool,
    runs: bool,
) -> PartitionInspection | None:
    """Build the inspection of one partition; None if it has no log bounds or no position."""
    position, log = inspection.known[where], inspection.bounds.get(where)
    account = topic_account.accounts.get(where.partition)
    if position is None and account is not None:
        account.position_gone()
    end = None if log is None else log.find_end(committed=inspection.flow.read_committed)
    if position is None or log is None or end is None:
        return None
    syncs = inspection.syncs_of(where)
    copied = syncs is not None and syncs.came  # it runs again, before its state is known to say so
    return PartitionInspection(
        now=inspection.now,
        position=position,
        start=log.start,
        end=end,
        renewed=account is not None and account.generation != topic_account.generation,
        quiet=quiet and not copied,
        runs=runs,
        syncs=syncs,
        patience_s=inspection.patience_s,
    )


def classify_activity(owner: Connector | None, *, live: bool) -> str | None:
    """Return `stopped` or `running` for a connector; None if neither is certain."""
    if owner is None or not live:
        return None
    if owner.state == "stopped" and not owner.tasks:
        return "stopped"
    return "running" if has_running_task(owner.state, owner.tasks) else None
