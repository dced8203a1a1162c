"""Loss accounting of every flow: which upstream records were lost, and why.

Also counts topic recreations and estimates when retention reaches a position.

An inspection is a position with the log bounds that were read after it, and with the topic id that
was the same before and after they were read. If the id could not be read, the topic waits for the
next inspection. The rules are in state/loss/partition.py. The accounts survive a restart
(state/loss/persistence.py), so that losses in between are found at the next start, and counted
once. Owned by Replication.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from offsetwatch.model.connectors import Connector
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.loss.partition import (
    NOTHING_LOST,
    RECREATED,
    WINDOW_S,
    LossCounts,
    PartitionInspection,
    PartitionLossAccount,
)
from offsetwatch.state.mirror.offset_syncs import SyncsSinceLastPoll
from offsetwatch.state.snapshot import ConnectorFlowKey, Loss, TopicRecreation

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
    looked_at: float

    def lasted(self, doing: str, grace_s: float) -> bool:
        """Return whether it was already in this state at the last inspection, and for so long."""
        return self.doing == doing and self.looked_at - self.since >= grace_s


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
    news_of: Callable[[TopicPartition], SyncsSinceLastPoll | None]
    patience_s: float = 60.0


class LossAccounting:
    """Loss accounts of all flows, the newest lost ranges, and topic recreations."""

    def __init__(self) -> None:
        self.flows: dict[ConnectorFlowKey, dict[str, TopicLossAccount]] = {}
        self._losses: dict[_LossRangeEnd, Loss] = {}
        self.urgent = False
        self.changed = False
        self.version = 0
        self.news: dict[ConnectorFlowKey, set[TopicPartition]] = {}
        self._doing: dict[ConnectorFlowKey, ConnectorActivity] = {}
        self._passed = False  # did time alone pass somewhere since it was last told?
        self._looked_at = self._changed_at = 0.0

    # --- taking in -------------------------------------------------------------------------------

    def look(self, inspection: FlowInspection) -> frozenset[TopicPartition]:
        """Apply one inspection. Return the partitions whose syncs so far are no longer needed."""
        quiet, runs = self._activity(inspection)
        topics = self.flows.setdefault(_build_flow_key(inspection.flow), {})
        told = set()
        for topic, places in _group_by_topic(inspection.known).items():
            if inspection.ids is not None and topic not in inspection.ids:
                continue
            account = topics.setdefault(topic, TopicLossAccount(inspection.now))
            account.at = inspection.now
            self._identify(
                account, None if inspection.ids is None else inspection.ids[topic], inspection.now
            )
            fell: set[int] = set()
            for where in places:
                if self._rests(inspection, where, account):
                    continue
                before = account.accounts.get(where.partition)
                lost, kept = _find_losses(before), _collect_persisted_state(before)
                was_undecided = _is_undecided(before)
                seen = _build_inspection(inspection, where, account, quiet=quiet, runs=runs)
                if (
                    seen is not None
                    and not self._take(inspection.flow, where, account, seen, fell).waits
                ):
                    told.add(where)
                after = account.accounts.get(where.partition)
                if _find_losses(after) != lost:
                    self.news.setdefault(_build_flow_key(inspection.flow), set()).add(where)
                self.changed |= _collect_persisted_state(after) != kept
                self.version += _is_undecided(after) is not was_undecided
            self._fallen(account, fell, inspection.now)
        self._looked_at = inspection.now
        # That all was looked at again is told for UNSEEN_S alone; and from where the pace of what
        # stands still is measured may be as old as another window, or it would be told all the
        # time: topics take turns.
        told_every_s = WINDOW_S if self._passed else SAVE_INTERVAL_MAX_S
        self.changed |= self.urgent or not 0 <= inspection.now - self._changed_at < told_every_s
        if self.changed:
            self._changed_at, self._passed = inspection.now, False
        return frozenset(told)

    def _rests(
        self, inspection: FlowInspection, where: TopicPartition, fate: TopicLossAccount
    ) -> bool:
        """Apply a partition that stands still, all of it copied, as most are. Or return False."""
        account = fate.accounts.get(where.partition)
        position, log = inspection.known[where], inspection.bounds.get(where)
        if account is None or account.generation != fate.generation or where in inspection.came:
            return False
        if position is None or log is None:
            return False
        middle = account.pace.middle
        end = log.stable_end if inspection.flow.read_committed else log.end
        if not account.rests(position, log.start, end, inspection.now):
            return False
        self._passed |= account.pace.middle is not middle
        return True

    def _take(
        self,
        flow: MirrorFlow,
        where: TopicPartition,
        fate: TopicLossAccount,
        inspection: PartitionInspection,
        fell: set[int],
    ) -> PartitionLossAccount:
        account = fate.accounts.get(where.partition)
        if account is None:
            account = fate.accounts[where.partition] = PartitionLossAccount.opened(inspection)
        if not inspection.renewed and account.fallen(inspection):
            fell.add(where.partition)
        for cause, first, last in account.look(inspection):
            self.keep(
                Loss(
                    *(*_build_flow_key(flow), where.topic, where.partition),
                    *(cause, first, last, inspection.now),
                )
            )
            self.urgent = True
            self.version += 1
        account.generation = fate.generation
        return account

    def _identify(self, account: TopicLossAccount, new: str | None, now: float) -> None:
        if new is None or new == account.id:
            return
        if account.id is not None:
            account.generation += 1
            self._recreated(account, account.id, new, now)
        account.id = new
        self.urgent = True  # what is not remembered of a topic cannot be missed

    def _fallen(self, fate: TopicLossAccount, fell: Collection[int], now: float) -> None:
        """Count a recreation for log ends that fell, once for the topic over inspections."""
        if fell and not any(
            _is_undecided(account)
            for number, account in fate.accounts.items()
            if number not in fell
        ):
            self._recreated(fate, fate.id, fate.id, now)

    def _recreated(
        self, account: TopicLossAccount, before: str | None, after: str | None, now: float
    ) -> None:
        account.recreations += 1
        account.recreated_at, account.before, account.after = now, before, after
        self.urgent = True
        self.version += 1

    def keep(self, loss: Loss) -> None:
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
        key = _build_flow_key(inspection.flow)
        last = self._doing.get(key)
        if last is None or last.doing != inspection.doing:
            self._doing[key] = ConnectorActivity(inspection.doing, inspection.now, inspection.now)
            return False, False
        quiet, runs = last.lasted("stopped", GRACE_S), last.lasted("running", 0.0)
        last.looked_at = inspection.now
        return quiet, runs

    # --- giving out ------------------------------------------------------------------------------

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Return the newest lost ranges."""
        return tuple(self._losses.values())

    def told(self, flow: MirrorFlow, where: TopicPartition) -> tuple[LossCounts, float | None]:
        """Return the records ever lost of a partition by cause, and its headroom in seconds."""
        topic = self.flows.get(_build_flow_key(flow), {}).get(where.topic)
        return _find_losses(None if topic is None else topic.accounts.get(where.partition))

    def news_of(self, flow: MirrorFlow) -> set[TopicPartition]:
        """Return the partitions for which the result of `told` changed since the last call."""
        return self.news.pop(_build_flow_key(flow), set())

    def losses_of(self, flows: Collection[MirrorFlow]) -> tuple[Loss, ...]:
        """Return the newest lost ranges of these flows."""
        keys = {_build_flow_key(flow) for flow in flows}
        return tuple(
            loss
            for loss in self._losses.values()
            if (loss.connect_cluster, loss.connector, loss.source, loss.target) in keys
        )

    def recreations_of(self, flows: Collection[MirrorFlow]) -> tuple[TopicRecreation, ...]:
        """Return the recreated topics of these flows."""
        return tuple(
            TopicRecreation(
                *_build_flow_key(flow),
                topic=topic,
                count=fate.recreations,
                at=fate.recreated_at,
                before=fate.before,
                after=fate.after,
                undecided=tuple(
                    partition
                    for partition, account in sorted(fate.accounts.items())
                    if _is_undecided(account)
                ),
            )
            for flow in flows
            for topic, fate in sorted(self.flows.get(_build_flow_key(flow), {}).items())
            if fate.recreations
        )

    def forget_unseen(self) -> None:
        """Forget topics that no flow has copied for a week."""
        for key, topics in list(self.flows.items()):
            for topic in [
                name
                for name, account in topics.items()
                if self._looked_at - account.at > UNUSED_TOPIC_TTL_S
            ]:
                del topics[topic]
            if not topics:
                del self.flows[key]


def _find_losses(account: PartitionLossAccount | None) -> tuple[LossCounts, float | None]:
    return _NO_LOSS if account is None else (account.lost, account.headroom_s)


def _is_undecided(account: PartitionLossAccount | None) -> bool:
    """Return whether the position is still the one from before the topic was recreated."""
    leap = None if account is None else account.leap
    return leap is not None and leap.cause == RECREATED


def _collect_persisted_state(account: PartitionLossAccount | None) -> tuple[object, ...] | None:
    """Return the part of a partition's account that must survive a restart.

    While a position jump is open, the result differs at each inspection.
    """
    if account is None:
        return None
    pace = account.pace
    return (
        *(account.generation, account.position, account.settled, account.start, account.end),
        *(account.moved_at, account.doubt_since, account.tail, account.lost),
        *(pace.anchor, pace.middle, pace.best, pace.best_before, pace.jumps),
        None if account.leap is None else account.looked_at,
    )


def _build_flow_key(flow: MirrorFlow) -> ConnectorFlowKey:
    return (flow.connect_cluster, flow.connector, flow.source, flow.target)


def _build_range_end(loss: Loss, after: int) -> _LossRangeEnd:
    flow = (loss.connect_cluster, loss.connector, loss.source, loss.target)
    return (flow, loss.topic, loss.partition, loss.cause, after)


def _group_by_topic(known: Collection[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for where in known:
        found.setdefault(where.topic, []).append(where)
    return found


def _build_inspection(
    inspection: FlowInspection,
    where: TopicPartition,
    fate: TopicLossAccount,
    *,
    quiet: bool,
    runs: bool,
) -> PartitionInspection | None:
    """Build the inspection of one partition; None if it has no log bounds or no position."""
    position, log = inspection.known[where], inspection.bounds.get(where)
    account = fate.accounts.get(where.partition)
    if position is None and account is not None:
        account.position_gone()
    if position is None or log is None:
        return None
    syncs = inspection.news_of(where)
    copied = syncs is not None and syncs.came  # it runs again, before its state is known to say so
    return PartitionInspection(
        now=inspection.now,
        position=position,
        start=log.start,
        end=log.stable_end if inspection.flow.read_committed else log.end,
        renewed=account is not None and account.generation != fate.generation,
        quiet=quiet and not copied,
        runs=runs,
        news=syncs,
        patience_s=inspection.patience_s,
    )


def classify_activity(found: Connector | None, *, live: bool) -> str | None:
    """Return `stopped` or `running` for a connector; None if neither is certain."""
    if found is None or not live:
        return None
    if found.state == "stopped" and not found.tasks:
        return "stopped"
    runs = found.state == "running" and any(task.state == "running" for task in found.tasks)
    return "running" if runs else None
