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
        self._changed_partitions: dict[ConnectorFlowKey, set[TopicPartition]] = {}
        self._doing: dict[ConnectorFlowKey, ConnectorActivity] = {}
        self._time_passed = False  # did time alone pass somewhere since the last save?
        self._inspected_at = self._changed_at = 0.0

    # --- taking in -------------------------------------------------------------------------------

    def inspect(self, inspection: FlowInspection) -> frozenset[TopicPartition]:
        """Apply one inspection. Return the partitions whose syncs so far are no longer needed."""
        quiet, runs = self._activity(inspection)
        topics = self.flows.setdefault(inspection.flow.connector_flow_key, {})
        inspected = set()
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
                lost, persisted = _find_losses(before), _collect_persisted_state(before)
                was_undecided = _is_undecided(before)
                found = _build_inspection(inspection, where, account, quiet=quiet, runs=runs)
                if found and not self._take(inspection.flow, where, account, found, fell).waits:
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
        if position is None or log is None:
            return False
        middle = account.pace.middle
        end = log.stable_end if inspection.flow.read_committed else log.end
        if not account.rests(position, log.start, end, inspection.now):
            return False
        self._time_passed |= account.pace.middle is not middle
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
        for cause, first, last in account.look(inspection):
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
        last.looked_at = inspection.now
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
    if position is None or log is None:
        return None
    syncs = inspection.news_of(where)
    copied = syncs is not None and syncs.came  # it runs again, before its state is known to say so
    return PartitionInspection(
        now=inspection.now,
        position=position,
        start=log.start,
        end=log.stable_end if inspection.flow.read_committed else log.end,
        renewed=account is not None and account.generation != topic_account.generation,
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
