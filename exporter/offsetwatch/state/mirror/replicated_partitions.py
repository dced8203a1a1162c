"""Replicated partitions: committed offsets, offset syncs and upstream log ends, joined.

The lag of a position is only sound against a log end that was read AFTER the position. So when the
log ends of a cluster are about to be requested (LogEndsRequested), the positions of that moment are
stored, and the response (LogEndsRead) is paired with them. For most partitions of most flows a
response changes nothing, so views are cached from one to the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import is_
from types import MappingProxyType
from typing import Final

from offsetwatch.model.observations import FilteredTopics, Follower, LogBounds, LogEndsRead
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import ConnectorFlowKey, MirrorFlow, TopicPartition
from offsetwatch.state.clock_skew import has_timestamp
from offsetwatch.state.loss.accounting import LossAccounting, LossCounts
from offsetwatch.state.mirror.lag import (
    UNDATED,
    UNKNOWN_LATENESS,
    Lag,
    MirrorPosition,
    OldestRecordAges,
    UnreadRange,
    compute_replication_lag,
)
from offsetwatch.state.mirror.offset_syncs import SyncBook, SyncLeads
from offsetwatch.state.snapshot import MirrorPartitionView

OPEN_REQUESTS_MAX: Final = 4  # two may be under way at once; those that failed are never answered


@dataclass(frozen=True, slots=True)
class ReplicatedPartition:
    """Position of one replicated partition at one moment.

    where                    what identifies it between moments
    upstream                 the upstream topic-partition
    committed, replicated    None for a partition that was assigned and has no commit: it was never
                             replicated, or its offset was reset
    copied, uncommitted_since, outdated    as of a PartitionProgress (offset_syncs.py)
    unassigned_since         since when it has existed without a task that is to copy it

    The first two are stored because every response looks everything up by them.
    """

    flow: MirrorFlow
    partition: MirrorPartition
    committed: MirrorPosition | None
    synced: MirrorPosition | None
    replicated: int | None
    copied: int | None
    where: Follower
    upstream: TopicPartition
    uncommitted_since: float | None = None
    unassigned_since: float | None = None
    outdated: bool = False


def upstream_of(position: ReplicatedPartition) -> TopicPartition:
    """Return the upstream partition of a position: the sort key of a flow's positions."""
    return position.upstream


def find_partition_index(
    partitions: tuple[ReplicatedPartition, ...], where: TopicPartition
) -> int | None:
    """Return the index of a partition in sorted positions; None if it is not among them."""
    index = bisect_left(partitions, where, key=upstream_of)
    return index if index < len(partitions) and partitions[index].upstream == where else None


def build_replicated_partitions(
    flow: MirrorFlow,
    committed: Mapping[MirrorPartition, MirrorPosition],
    syncs: SyncBook | None,
    leads: SyncLeads,
    now: float,
    not_ours: Collection[TopicPartition] = (),
    assigned: frozenset[TopicPartition] | None = None,
    unassigned: Mapping[TopicPartition, float] = MappingProxyType({}),
) -> tuple[ReplicatedPartition, ...]:
    """Build the position of every partition of a flow, with its best known progress.

    leads       how far its syncs may be believed
    not_ours    partitions whose syncs may be another flow's
    assigned    what the flow copies. A commit outside of it is left over from another
                configuration; a partition of it without a commit was never replicated. None if it
                is not known: then the commits are all there is.
    unassigned  partitions of the topics that it copies which no task is to copy, and since when
    """
    copied = {
        mirror.upstream: mirror
        for mirror in committed
        if assigned is None or mirror.upstream in assigned
    }
    for where in (*(assigned or ()), *unassigned):
        copied.setdefault(where, MirrorPartition(flow.source, *where))
    partitions = []
    leads.begin()
    for where, partition in copied.items():
        commit = committed.get(partition)
        undated = commit is not None and commit.at == UNDATED
        own = syncs if where not in not_ours and not undated else None
        synced = None if own is None else own.newest_position(where)
        progress = leads.progress(
            where,
            None if commit is None else commit.offset,
            None if synced is None else synced.offset,
            None if own is None else own.runs.get(where),
            now,
        )
        partitions.append(
            ReplicatedPartition(
                flow=flow,
                partition=partition,
                committed=commit,
                synced=synced,
                replicated=progress.replicated,
                copied=progress.copied,
                where=(flow.connect_cluster, flow.connector, partition),
                upstream=where,
                uncommitted_since=progress.uncommitted_since,
                outdated=progress.outdated,
                unassigned_since=unassigned.get(where),
            )
        )
    return tuple(partitions)


SinceByPartition = Mapping[TopicPartition, float]


UNASSIGNED_MAX: Final = 1_000  # partitions of a flow: of ten thousand, one shows it as well


class UnassignedPartitions:
    """Partitions that no task of a flow is to copy, though it copies or is to copy their topic.

    They were added, and MirrorMaker has not found them yet, or never will (refresh.topics.enabled);
    or its tasks were not configured again after its topics were. Each has the moment since when it
    is known. A connector's assignment names every partition that it copies; the upstream cluster
    reports how many each topic has.
    """

    def __init__(self) -> None:
        self._beyond: dict[ConnectorFlowKey, int] = {}
        self._filtered: dict[str, Mapping[tuple[str, str], FilteredTopics]] = {}
        self._counts: dict[str, Mapping[str, int]] = {}
        self._known: dict[
            ConnectorFlowKey,
            tuple[MirrorFlow, frozenset[TopicPartition], object, object, SinceByPartition],
        ] = {}

    def count(self, log_ends: LogEndsRead) -> None:
        """Set the number of partitions of each topic of a cluster. Others are unknown."""
        if self._counts.get(log_ends.kafka) != log_ends.partitions:
            self._counts[log_ends.kafka] = log_ends.partitions
        if self._filtered.get(log_ends.kafka) != log_ends.filtered:
            self._filtered[log_ends.kafka] = log_ends.filtered

    def filtered(self, flow: MirrorFlow) -> FilteredTopics | None:
        """Return the topics by the filter of a flow; None if that is not known."""
        return self._filtered.get(flow.upstream or "", {}).get(flow.connector_key)

    def keep(self, flows: Iterable[MirrorFlow]) -> None:
        """Forget all other flows. Another configuration of a flow ends no wait of a partition."""
        for key in self._known.keys() - {flow.connector_flow_key for flow in flows}:
            del self._known[key]
            self._beyond.pop(key, None)

    @property
    def dropped(self) -> int:
        """Return how many partitions of all flows were beyond UNASSIGNED_MAX at most."""
        return sum(self._beyond.values())

    def of(
        self,
        flow: MirrorFlow,
        assigned: frozenset[TopicPartition] | None,
        wants_topic: Callable[[str], bool],
        now: float,
    ) -> SinceByPartition:
        """Return the unassigned partitions of a flow; the same object while nothing changes."""
        counts = self._counts.get(flow.upstream or "")
        if assigned is None or counts is None:
            return {}
        filtered = self.filtered(flow)
        last = self._known.get(flow.connector_flow_key)
        inputs = flow, assigned, counts, filtered
        if last is not None and last[0] == flow and all(map(is_, last[1:4], inputs[1:])):
            return last[4]
        before = last[4] if last is not None and last[0].upstream == flow.upstream else {}
        numbers: dict[str, int] = {}
        if filtered is not None and flow.refresh_s is not None:
            numbers |= filtered.selected
        numbers |= {
            topic: counts.get(topic, 0) for topic in {partition.topic for partition in assigned}
        }
        partitions = (
            TopicPartition(topic, number)
            for topic in sorted(filter(wants_topic, numbers))
            for number in range(numbers[topic])
        )
        missing = [partition for partition in partitions if partition not in assigned]
        beyond = max(self._beyond.get(flow.connector_flow_key, 0), len(missing) - UNASSIGNED_MAX)
        self._beyond[flow.connector_flow_key] = beyond
        unassigned = {
            partition: before.get(partition, now) for partition in missing[:UNASSIGNED_MAX]
        }
        self._known[flow.connector_flow_key] = *inputs, unassigned
        return unassigned


PartitionsByFlow = Mapping[MirrorFlow, tuple[ReplicatedPartition, ...]]


@dataclass(slots=True)
class _LogEndsAnswer:
    """Response with log ends, and the positions known before it was requested.

    `changed` are the partitions whose bounds differ from the previous response; None if there was
    none.
    """

    number: int
    version: int
    known: PartitionsByFlow
    bounds: dict[TopicPartition, LogBounds]
    changed: frozenset[TopicPartition] | None
    _replicated: dict[Follower, int | None] | None = None

    @property
    def replicated(self) -> Mapping[Follower, int | None]:
        """Return the replicated offsets of these positions. Computed on first use."""
        if self._replicated is None:
            self._replicated = {
                partition.where: partition.replicated
                for partitions in self.known.values()
                for partition in partitions
            }
        return self._replicated


class LogEndsBook:
    """Log bounds of each Kafka cluster, paired with the positions known at their request."""

    def __init__(self) -> None:
        self._requests: dict[str, dict[int, tuple[float, PartitionsByFlow]]] = {}
        self._paired: dict[str, _LogEndsAnswer] = {}
        self._compared: set[str] = set()

    def request(self, kafka: str, number: int, known: PartitionsByFlow, at: float) -> None:
        """Store the positions known when log ends are requested."""
        requests = self._requests.setdefault(kafka, {})
        requests[number] = (at, known)
        while len(requests) > OPEN_REQUESTS_MAX:
            del requests[min(requests)]

    def read(
        self, kafka: str, number: int, bounds: dict[TopicPartition, LogBounds]
    ) -> float | None:
        """Pair a response with the positions stored for its request, unless a later one came first.

        Returns when it was requested; None if it is not used.
        """
        request = self._requests.get(kafka, {}).pop(number, None)
        last = self._paired.get(kafka)
        if request is None or (last is not None and number < last.number):
            return None
        requested_at, known = request
        self._paired[kafka] = _LogEndsAnswer(
            number=number,
            version=1 if last is None else last.version + 1,
            known=known,
            bounds=bounds,
            changed=None if last is None else _find_changed_partitions(last.bounds, bounds),
        )
        if any(known.values()):
            self._compared.add(kafka)
        return requested_at

    def compared(self, kafka: str) -> bool:
        """Return whether any response of this cluster was paired with a position."""
        return kafka in self._compared

    def known(self, kafka: str | None) -> PartitionsByFlow:
        """Return the positions that the newest response was paired with."""
        return self._paired[kafka].known if kafka in self._paired else {}

    def version(self, kafka: str | None) -> int:
        """Return the number of responses of this cluster that were used."""
        return self._paired[kafka].version if kafka in self._paired else 0

    def changed(self, kafka: str | None) -> frozenset[TopicPartition] | None:
        """Return the partitions with other bounds than in the previous response, if any."""
        return self._paired[kafka].changed if kafka in self._paired else None

    def unread_range(self, position: ReplicatedPartition) -> UnreadRange | None:
        """Return the unread range of a position by the newest response; None if it is not known."""
        replicated, bounds = self._pair(position)
        return None if bounds is None else _build_unread_range(position.flow, replicated, bounds)

    def _pair(self, position: ReplicatedPartition) -> tuple[int | None, LogBounds | None]:
        """Return the replicated offset and the bounds read for it; None if not for it."""
        paired = self._paired.get(position.flow.upstream or "")
        bounds = None if paired is None else paired.bounds.get(position.upstream)
        if paired is None or bounds is None or position.where not in paired.replicated:
            return None, None
        known, now = paired.replicated[position.where], position.replicated
        if known is None or now is None:
            return None, bounds
        # The lower offset: a rewind since the request counts at once.
        return _limit_to_log(position, bounds, min(known, now)), bounds

    def is_current(
        self,
        view: MirrorPartitionView,
        position: ReplicatedPartition,
        losses: tuple[LossCounts, float | None],
    ) -> bool:
        """Return whether a view of this position is still valid by the newest response.

        True if `self.view` would build an equal one. Only checked for a flow that has read
        everything: the lateness of others changes with time.
        """
        replicated, bounds = self._pair(position)
        return (
            replicated is not None
            and bounds is not None
            and view.lag_position == replicated
            and view.log_start == bounds.start
            and view.log_end
            == bounds.find_end(committed=position.flow.read_committed)
            == replicated + 1
            and view.headroom_s == losses[1]
            and view.lost == losses[0]
        )

    def view(
        self,
        position: ReplicatedPartition,
        ages: OldestRecordAges,
        *,
        live: bool,
        losses: tuple[LossCounts, float | None],
    ) -> MirrorPartitionView:
        """Build a view, without lag if log ends are not live.

        `losses` as of LossAccounting.find_losses.
        """
        flow, lag, lateness = position.flow, None, UNKNOWN_LATENESS
        replicated, bounds = self._pair(position) if live else (None, None)
        if bounds is not None:
            lag = _compute_lag(flow, replicated, bounds)
            unread = _build_unread_range(flow, replicated, bounds)
            # A position beyond the end is none in this log: nothing lies "after" it.
            if unread is not None and lag is not None and not lag.ahead:
                lateness = ages.compute_lateness(flow.upstream or "", position.where, unread)
        committed = position.committed
        from_rest = committed is not None and committed.at == UNDATED
        is_timed = committed is not None and not from_rest and has_timestamp(committed.at)
        return MirrorPartitionView(
            connect_cluster=flow.connect_cluster,
            connector=flow.connector,
            source=flow.source,
            target=flow.target,
            topic=position.partition.topic,
            partition=position.partition.partition,
            committed=None if committed is None else committed.offset,
            committed_at=committed.at if committed is not None and is_timed else None,
            synced=None if position.synced is None else position.synced.offset,
            # A first commit since the asking waits for the next answer, like any advance.
            replicated=position.replicated
            if bounds is None or position.replicated is None
            else None
            if replicated is None
            else _limit_to_log(position, bounds, position.replicated),
            log_start=None if bounds is None else bounds.start,
            log_end=None if bounds is None else bounds.find_end(committed=flow.read_committed),
            lag=None if lag is None else lag.records,
            ahead=None if lag is None else lag.ahead,
            lag_position=replicated,
            caught_up=lateness.caught_up,
            behind_since=lateness.since,
            behind_from=lateness.known_by,
            probe_from=lateness.probe_from,
            headroom=None
            if bounds is None or replicated is None
            else replicated + 1 - bounds.start,
            headroom_s=None if replicated is None else losses[1],
            lost=losses[0],
            uncommitted_since=position.uncommitted_since,
            unassigned_since=position.unassigned_since,
            sync_outdated=position.outdated,
            from_rest=from_rest,
        )


def _limit_to_log(position: ReplicatedPartition, bounds: LogBounds, replicated: int) -> int:
    """Return the committed offset in place of a sync beyond the log end, which was read later.

    Such a sync is of another log: of another MirrorMaker's topic, or of this one before it was cut.
    """
    committed = position.committed
    is_foreign = committed is not None and committed.offset < bounds.end <= replicated
    return committed.offset if committed is not None and is_foreign else replicated


def _find_changed_partitions(
    before: Mapping[TopicPartition, LogBounds], now: Mapping[TopicPartition, LogBounds]
) -> frozenset[TopicPartition]:
    if before is now:
        return frozenset()
    gone = frozenset(before.keys() - now.keys())
    return gone.union(
        partition
        for partition, bounds in now.items()
        if (known := before.get(partition)) is not bounds and known != bounds
    )


def _compute_lag(flow: MirrorFlow, replicated: int | None, bounds: LogBounds) -> Lag | None:
    """Return the lag; without a position that of the whole log, None if it may begin anywhere."""
    end = bounds.find_end(committed=flow.read_committed)
    if end is None or (replicated is None and not flow.from_start):
        return None
    if replicated is not None:
        return compute_replication_lag(replicated, end)
    return Lag(records=max(0, end - bounds.start), ahead=0)


def _build_unread_range(
    flow: MirrorFlow, replicated: int | None, bounds: LogBounds
) -> UnreadRange | None:
    """Return the unread range, without what retention deleted; None if its start is not known."""
    end = bounds.find_end(committed=flow.read_committed)
    if end is None or (replicated is None and not flow.from_start):
        return None
    return UnreadRange(
        following=bounds.start if replicated is None else max(replicated + 1, bounds.start),
        start=bounds.start,
        end=end,
        committed=flow.read_committed is not False,
    )


@dataclass(frozen=True, slots=True)
class _FlowViews:
    """Views of one flow and what they were built from.

    version     of the log ends, and whether these are live
    at_rest     the response was requested with these very positions
    waiting     indexes of the views that a response may change even if its bounds are the same
    """

    partitions: tuple[ReplicatedPartition, ...]
    version: tuple[int, bool]
    at_rest: bool
    waiting: frozenset[int]
    views: tuple[MirrorPartitionView, ...]


class MirrorViews:
    """Views of the replicated partitions of all flows, rebuilt only where something changed."""

    def __init__(
        self, ends: LogEndsBook, ages: OldestRecordAges, accounting: LossAccounting
    ) -> None:
        self._ends, self._ages, self._accounting = ends, ages, accounting
        self._views: dict[MirrorFlow, _FlowViews] = {}

    def keep(self, flows: Iterable[MirrorFlow]) -> None:
        """Forget the views of all other flows."""
        for flow in self._views.keys() - set(flows):
            del self._views[flow]

    def apply_probes(self, followers: Collection[Follower]) -> None:
        """Rebuild the views for which probes gave new information: a few of up to 100,000."""
        for flow, known in self._views.items():
            partitions, live = known.partitions, known.version[1]
            views: list[MirrorPartitionView] = []
            for connect_cluster, connector, item in followers:
                source = item.cluster if isinstance(item, MirrorPartition) else ""
                if (connect_cluster, connector, source) != (*flow.connector_key, flow.source):
                    continue
                partition = TopicPartition(item.topic, item.partition)
                index = find_partition_index(partitions, partition)
                if index is not None:
                    losses = self._accounting.find_losses(flow, partition)
                    views = views or list(known.views)
                    views[index] = self._ends.view(
                        partitions[index], self._ages, live=live, losses=losses
                    )
            if views:
                self._views[flow] = replace(known, views=tuple(views))

    def of(
        self, flow: MirrorFlow, partitions: tuple[ReplicatedPartition, ...], *, live: bool
    ) -> tuple[MirrorPartitionView, ...]:
        """Return the views of these positions of a flow; `live`: with log ends."""
        known = self._views.get(flow)
        version = (self._ends.version(flow.upstream), live)
        if known is None or known.partitions is not partitions or known.version != version:
            known = self._views[flow] = self._rebuild(flow, partitions, known, version)
        return known.views

    def _rebuild(
        self,
        flow: MirrorFlow,
        partitions: tuple[ReplicatedPartition, ...],
        known: _FlowViews | None,
        version: tuple[int, bool],
    ) -> _FlowViews:
        """Build the views of a flow, comparing only those that a response may have changed."""
        accounting, ends, ages = self._accounting, self._ends, self._ages
        number, live = version
        with_other_losses = accounting.pop_changed(flow)
        before = known if known is not None and known.partitions is partitions and live else None
        at_rest = ends.known(flow.upstream).get(flow) is partitions
        views: list[MirrorPartitionView | None] = [None] * len(partitions)
        if before is not None:
            views = [*before.views]
        indexes: Iterable[int] = range(len(partitions))
        waiting = set()
        changed = ends.changed(flow.upstream)
        if (
            before is not None
            and changed is not None
            and at_rest
            and before.at_rest
            and before.version == (number - 1, True)
        ):
            affected = (
                find_partition_index(partitions, partition)
                for partition in changed | with_other_losses
            )
            indexes = before.waiting.union(index for index in affected if index is not None)
        for index in indexes:
            position, view = partitions[index], views[index]
            losses = accounting.find_losses(flow, position.upstream)
            if view is None or not ends.is_current(view, position, losses):
                views[index] = view = ends.view(position, ages, live=live, losses=losses)
            # The views of what is not all replicated by the paired log end change with time.
            if view.lag_position is None or view.log_end != view.lag_position + 1:
                waiting.add(index)
        same = before is not None and all(map(is_, before.views, views))
        return _FlowViews(
            partitions=partitions,
            version=version,
            at_rest=at_rest,
            waiting=frozenset(waiting),
            views=before.views
            if before is not None and same
            else tuple(view for view in views if view is not None),
        )
